//! Drift of an account since a plan was saved, except for what the plan itself has created or changed since.
//!
//! An apply of a saved plan may be interrupted after any of its writes, and the next one continues. Its
//! progress is not stored: each resource is compared with the result that the plan would have.

use super::{SavedJob, Step};
use crate::change::{Action, Change, Choices, Target};
use crate::file_systems;
use crate::ownership;
use crate::policy;
use crate::prospect::Prospect;
use std::collections::{BTreeMap, BTreeSet};
use trainc_emit::ResourceKind;
use trainc_emit::iam::POLICY_NAME;
use trainc_ir::digest::sha256_hex;

impl Step {
    fn new(change: &Change) -> Self {
        let shares = change.action == Action::Update && ownership::only_joins(&change.differences);
        let differences = change.differences.iter();
        let differences = differences.map(|one| sha256_hex(format!("{one:?}").as_bytes()));
        Self {
            name: change.name.clone(),
            action: if shares { SHARE } else { change.action.verb().word() }.to_owned(),
            differences: differences.collect(),
        }
    }

    fn is_any_of(&self, actions: &[Action]) -> bool {
        actions.iter().any(|action| action.verb().word() == self.action)
    }

    /// Returns true if the plan writes to the resource, or waits for an earlier write.
    fn is_written(&self) -> bool {
        self.action == SHARE || self.is_any_of(&[Action::Create, Action::Update, Action::Adopt, Action::Wait])
    }

    /// Returns true if the current step is the remainder of this one, without new differences.
    fn leads_to(&self, now: &Self) -> bool {
        let is_there = now.is_any_of(&[Action::Unchanged, Action::Wait]);
        // A missing resource is created completely, so a difference now is a change by someone else.
        let is_half = now.is_any_of(&[Action::Update]) && !self.is_any_of(&[Action::Create]);
        // Another job of the plan has created it, and this one only joins its users.
        let is_shared = self.is_any_of(&[Action::Create, Action::Wait]) && now.action == SHARE;
        self.is_written()
            && (is_shared || (is_there || is_half) && now.differences.is_subset(&self.differences))
    }

    /// Returns true if the run that this step adopts is now ours.
    fn is_adoption_done(&self, now: &Self) -> bool {
        self.is_any_of(&[Action::Adopt]) && now.is_any_of(&[Action::Unchanged]) && self.name == now.name
    }
}

/// The action of an update that only adds a job to the users of an existing resource.
const SHARE: &str = "share";

/// Digests of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint {
    /// Of its current state.
    pub now: String,
    /// Of its state if the plan had created it.
    pub made: String,
}

/// The kind of the only resource that is identified by its kind, since each run has another name.
const JOB: ResourceKind = ResourceKind::TrainingJob;

fn key(kind: ResourceKind, name: &str) -> String {
    format!("{kind} {name}")
}

/// Returns the kind in a key.
fn kind_of(key: &str) -> Option<ResourceKind> {
    let word = key.split(' ').next();
    ResourceKind::ALL.iter().copied().find(|kind| Some(kind.word()) == word)
}

/// Returns the planned steps, by resource.
pub(super) fn steps(prospect: &Prospect) -> BTreeMap<String, Step> {
    let key = |change: &Change| match change.kind {
        JOB => JOB.to_string(),
        kind => key(kind, &change.name),
    };
    prospect.changes.iter().map(|change| (key(change), Step::new(change))).collect()
}

/// Returns fingerprints of existing resources, in addition to what their [step](Step) compares: the identity,
/// and the parts that trainc does not change, such as a policy that someone added to the role. Transient
/// states are excluded.
pub(super) fn fingerprints(prospect: &Prospect) -> BTreeMap<String, Fingerprint> {
    let mut out = BTreeMap::new();
    let mut add = |key: String, now: String, made: String| {
        let [now, made] = [now, made].map(|text| sha256_hex(text.as_bytes()));
        out.insert(key, Fingerprint { now, made });
    };
    let none = BTreeSet::<&str>::new();
    if let (Some(found), Some(wanted)) = (&prospect.observed.role, &prospect.desired.role) {
        let create = &wanted.create;
        // Lists of IAM have no defined order.
        let inline: BTreeSet<&str> =
            found.inline.iter().map(String::as_str).filter(|name| *name != POLICY_NAME).collect();
        let attached: BTreeSet<&str> = found.attached.iter().map(String::as_str).collect();
        let role = &found.role;
        let tags = foreign_tags(&role.tags, create.tags.iter().map(|tag| tag.key.as_str()));
        let now = format!("{:?}", (&role.arn, &tags, &role.boundary, &inline, &attached));
        let made = format!("{:?}", (&role.arn, &tags, &create.permissions_boundary, &none, &none));
        add(key(ResourceKind::Role, &create.role_name), now, made);
        if let Some(policy) = &found.policy {
            let meaning = format!("{:?}", policy::canonical_text(policy));
            let name = format!("{}/{POLICY_NAME}", create.role_name);
            add(key(ResourceKind::RolePolicy, &name), meaning.clone(), meaning);
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
            add(key(ResourceKind::Association, &association.name), there.id.clone(), there.id.clone());
        }
        let now = format!("{:?}", (&system.id, &tags, &links));
        let made = format!("{:?}", (&system.id, &tags, &none));
        add(key(ResourceKind::FileSystem, &wanted.name), now, made);
    }
    let runs = [&prospect.observed.runs.latest, &prospect.observed.runs.other];
    for (job, tags) in runs.into_iter().flatten() {
        let text = format!("{tags:?}");
        add(key(JOB, &job.name), text.clone(), text);
    }
    out
}

/// Returns the tags that trainc does not write, e.g. those of a company's tagging rules.
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
    let is_taken = saved
        .steps
        .get(JOB.word())
        .zip(now.get(JOB.word()))
        .is_some_and(|(was, step)| was.is_adoption_done(step));
    let has_run = is_taken || is_started(saved, prospect);
    let is_idle = |step: &Step| is_settled && step.is_any_of(&[Action::Skip]);
    for name in saved.steps.keys().chain(now.keys()) {
        let (Some(was), Some(step)) = (saved.steps.get(name), now.get(name)) else {
            return Some(format!("the plan's resources have changed: `{name}`"));
        };
        let goes_on = match kind_of(name) {
            Some(JOB) => has_run,
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
            // Earlier runs and those of other digests no longer matter once the plan's own run exists.
            _ if kind_of(name) == Some(JOB) => has_run,
            (_, _, Some((_, step))) if is_idle(step) => true,
            (None, Some(seen), Some((was, _))) => was.is_written() && seen.now == seen.made,
            // The step compares only the Sids of the policy's statements, so their content is compared here.
            (Some(_), Some(_), Some((was, step))) => {
                kind_of(name) == Some(ResourceKind::RolePolicy)
                    && was.is_written()
                    && step.is_any_of(&[Action::Unchanged])
            }
            _ => false,
        };
        if !holds {
            return Some(format!("`{name}` has changed in the account since"));
        }
    }
    None
}

/// Returns true if the run that the plan starts exists: that part of the plan is then done, regardless of the
/// run's outcome. A run without capacity is followed by the next.
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
