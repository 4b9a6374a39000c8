//! Drift of an account since a plan was saved, except for what the plan itself has created or changed since.
//!
//! An apply of a saved plan may be cut off after any of its writes, and the next one goes on from there. Nothing is
//! written down about how far it came: each resource is compared with what the plan would make of it.

use super::{SavedJob, Step};
use crate::change::{Action, Change, Choices, Target};
use crate::file_systems;
use crate::ownership;
use crate::policy;
use crate::prospect::Prospect;
use std::collections::{BTreeMap, BTreeSet};
use trainc_emit::iam::POLICY_NAME;
use trainc_ir::digest::sha256_hex;

impl Step {
    fn new(change: &Change) -> Self {
        let shares = change.action == Action::Update && ownership::only_joins(&change.differences);
        let differences = change.differences.iter();
        let differences = differences.map(|one| sha256_hex(format!("{one:?}").as_bytes()));
        Self {
            name: change.name.clone(),
            action: if shares { SHARE } else { change.action.word() }.to_owned(),
            differences: differences.collect(),
        }
    }

    fn is_any_of(&self, actions: &[Action]) -> bool {
        actions.iter().any(|action| action.word() == self.action)
    }

    /// Returns true if the plan writes anything there, or waits for what it once wrote.
    fn is_written(&self) -> bool {
        self.action == SHARE || self.is_any_of(&[Action::Create, Action::Update, Action::Adopt, Action::Wait])
    }

    /// Returns true if what would be done now is what is left after this step, or a part of it: nothing differs that did not.
    fn leads_to(&self, now: &Self) -> bool {
        let is_there = now.is_any_of(&[Action::Unchanged, Action::Wait]);
        // What was absent is made whole: whatever is to be changed in it now came from somebody else.
        let is_half = now.is_any_of(&[Action::Update]) && !self.is_any_of(&[Action::Create]);
        // Another job of the plan has made it, and this one only says that it uses it.
        let is_shared = self.is_any_of(&[Action::Create, Action::Wait]) && now.action == SHARE;
        self.is_written()
            && (is_shared || (is_there || is_half) && now.differences.is_subset(&self.differences))
    }

    /// Returns true if the run that this step adopts is ours now.
    fn is_adoption_done(&self, now: &Self) -> bool {
        self.is_any_of(&[Action::Adopt]) && now.is_any_of(&[Action::Unchanged]) && self.name == now.name
    }
}

/// The word of an update that only tells that one more job uses what is there.
const SHARE: &str = "share";

/// Digests of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint {
    /// As it is.
    pub now: String,
    /// As it would be if the plan had made it.
    pub made: String,
}

/// The kind of the one resource that goes by its kind alone: each run has another name.
const JOB: &str = "training-job";

fn key(kind: &str, name: &str) -> String {
    format!("{kind} {name}")
}

/// Returns the planned steps, by resource.
pub(super) fn steps(prospect: &Prospect) -> BTreeMap<String, Step> {
    let key = |change: &Change| match change.kind {
        JOB => JOB.to_owned(),
        kind => key(kind, &change.name),
    };
    prospect.changes.iter().map(|change| (key(change), Step::new(change))).collect()
}

/// What was seen of each resource that is there, beside what its [step](Step) compares: which one it is, and what trainc
/// leaves as it is, as a policy that somebody added to the role. States that pass by themselves are no part of it.
pub(super) fn fingerprints(prospect: &Prospect) -> BTreeMap<String, Fingerprint> {
    let mut out = BTreeMap::new();
    let mut add = |key: String, now: String, made: String| {
        let [now, made] = [now, made].map(|text| sha256_hex(text.as_bytes()));
        out.insert(key, Fingerprint { now, made });
    };
    let none = BTreeSet::<&str>::new();
    if let (Some(found), Some(wanted)) = (&prospect.observed.role, &prospect.desired.role) {
        let create = &wanted.create;
        // Lists of IAM have no order.
        let inline: BTreeSet<&str> =
            found.inline.iter().map(String::as_str).filter(|name| *name != POLICY_NAME).collect();
        let attached: BTreeSet<&str> = found.attached.iter().map(String::as_str).collect();
        let role = &found.role;
        let tags = foreign_tags(&role.tags, create.tags.iter().map(|tag| tag.key.as_str()));
        let now = format!("{:?}", (&role.arn, &tags, &role.boundary, &inline, &attached));
        let made = format!("{:?}", (&role.arn, &tags, &create.permissions_boundary, &none, &none));
        add(key("role", &create.role_name), now, made);
        if let Some(policy) = &found.policy {
            let meaning = format!("{:?}", policy::canonical_text(policy));
            let name = format!("{}/{POLICY_NAME}", create.role_name);
            add(key("role-policy", &name), meaning.clone(), meaning);
        }
    }
    for (wanted, found) in prospect.desired.file_systems.iter().zip(&prospect.observed.file_systems) {
        let Some(system) = file_systems::oldest_live(&found.systems) else { continue };
        let tags = foreign_tags(&system.tags, wanted.create.tags.iter().map(|tag| tag.key.as_str()));
        let mut links: BTreeSet<&str> = found.associations.iter().map(|one| one.id.as_str()).collect();
        for association in &wanted.associations {
            let Some(there) = file_systems::find_association(association, &system.id, &found.associations)
            else {
                continue;
            };
            links.remove(there.id.as_str());
            add(key("association", &association.name), there.id.clone(), there.id.clone());
        }
        let now = format!("{:?}", (&system.id, &tags, &links));
        let made = format!("{:?}", (&system.id, &tags, &none));
        add(key("file-system", &wanted.name), now, made);
    }
    let runs = [&prospect.observed.runs.latest, &prospect.observed.runs.other];
    for (job, tags) in runs.into_iter().flatten() {
        let text = format!("{tags:?}");
        add(key(JOB, &job.name), text.clone(), text);
    }
    out
}

/// Tags that trainc does not write: a company's own, added by hand or by a rule of the account.
fn foreign_tags<'a>(
    found: &'a crate::account::Tags,
    written: impl Iterator<Item = &'a str>,
) -> BTreeMap<&'a str, &'a str> {
    let written: BTreeSet<&str> = written.collect();
    let found = found.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    found.filter(|(key, _)| !written.contains(key) && !key.starts_with("trainc:")).collect()
}

/// Returns why a saved plan is out of date for its job, as a fragment: the first drift, if any.
pub(super) fn drift(saved: &SavedJob, prospect: &Prospect, choices: Choices) -> Option<String> {
    let now = steps(prospect);
    let is_settled = prospect.is_run_over(choices);
    let is_taken =
        saved.steps.get(JOB).zip(now.get(JOB)).is_some_and(|(was, step)| was.is_adoption_done(step));
    let has_run = is_taken || is_started(saved, prospect);
    let is_idle = |step: &Step| is_settled && step.is_any_of(&[Action::Skip]);
    for name in saved.steps.keys().chain(now.keys()) {
        let (Some(was), Some(step)) = (saved.steps.get(name), now.get(name)) else {
            return Some(format!("the plan's resources have changed: `{name}`"));
        };
        let goes_on = match name.as_str() {
            JOB => has_run,
            _ => was.leads_to(step) || is_idle(step),
        };
        if was != step && !goes_on {
            return Some(describe(name, was, step));
        }
    }
    let seen = fingerprints(prospect);
    for name in saved.seen.keys().chain(seen.keys()) {
        let (was, is) = (saved.seen.get(name), seen.get(name));
        let step = saved.steps.get(name).zip(now.get(name));
        let holds = match (was, is, step) {
            (was, is, _) if was.map(String::as_str) == is.map(|seen| seen.now.as_str()) => true,
            // Earlier runs, and those of other digests, do not count any more once the plan's own is there.
            _ if name.starts_with(JOB) => has_run,
            (_, _, Some((_, step))) if is_idle(step) => true,
            (None, Some(seen), Some((was, _))) => was.is_written() && seen.now == seen.made,
            // Of the role's policy the step compares names of statements alone: what they say is compared here.
            (Some(_), Some(_), Some((was, step))) => {
                name.starts_with("role-policy ") && was.is_written() && step.is_any_of(&[Action::Unchanged])
            }
            _ => false,
        };
        if !holds {
            return Some(format!("`{name}` has changed in the account since"));
        }
    }
    None
}

/// Returns true if the run that the plan starts is there: then that part of it is done, however the run ends. One that found no
/// machines is followed by the next.
fn is_started(saved: &SavedJob, prospect: &Prospect) -> bool {
    let runs = &prospect.observed.runs;
    let (Some(run), Some((job, tags))) = (saved.run, &runs.latest) else { return false };
    let goes_on = match &prospect.target {
        Target::Attach(name) => *name == job.name,
        Target::Start(_) => job.lacked_capacity(),
        Target::Blocked(_) => false,
    };
    goes_on && runs.number >= run && ownership::is_run_of_digest(&prospect.desired, tags)
}

fn describe(name: &str, was: &Step, now: &Step) -> String {
    if was.action == now.action {
        return format!(
            "`{name}` has changed in the account since: its settings would be changed differently now"
        );
    }
    format!(
        "`{name}` has changed in the account since: the saved action is `{}`, but it would now be `{}`",
        was.action, now.action
    )
}
