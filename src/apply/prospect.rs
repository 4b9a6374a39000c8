//! What would happen: the account observed and compared, before anything is written.

use super::account::Caller;
use super::cloud::{Clock, Observe};
use super::desired::Desired;
use super::diff::{self, Action, Change, Choices, Obstacle, Target};
use super::fault::Fault;
use super::observed::{Look, Observed};
use crate::ir::Plan;
use crate::ir::digest::sha256_hex;
use std::collections::{BTreeMap, BTreeSet};

/// What the account has, and what a plan would change in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Prospect {
    /// Who asks.
    pub caller: Caller,
    /// What the plan needs.
    pub desired: Desired,
    /// What there is.
    pub observed: Observed,
    /// What would be done, one line for each resource.
    pub changes: Vec<Change>,
    /// Which training job is meant.
    pub target: Target,
}

impl Prospect {
    /// What stands in the way, in the order of the plan.
    pub fn obstacles(&self) -> impl Iterator<Item = (&Change, Obstacle)> {
        self.changes.iter().filter_map(|change| match change.action {
            Action::Stop(obstacle) => Some((change, obstacle)),
            _ => None,
        })
    }

    /// Whether the account is as the plan wants it.
    pub fn is_empty(&self) -> bool {
        diff::is_empty(&self.changes)
    }

    /// Whether the run that is meant is over.
    pub fn is_settled(&self, choices: Choices) -> bool {
        diff::is_settled(&self.desired, &self.observed, choices)
    }

    /// A digest of what would be done and of why: a saved plan holds as long as this and what was [seen](Self::seen)
    /// are the same.
    pub fn fingerprint(&self) -> String {
        let mut text = format!("{}\n{}\n", self.desired.account, self.desired.digest);
        for change in &self.changes {
            text.push_str(&format!("{} {} {}\n", change.kind, change.name, change.action.word()));
            for one in &change.differences {
                text.push_str(&format!("  {} {} {}\n", one.what, one.found, one.wanted));
            }
        }
        sha256_hex(text.as_bytes())
    }

    /// What was seen of each resource that is there, as a digest: also what trainc leaves as it is, as a policy that
    /// somebody added to the role. States that pass by themselves are no part of it.
    pub fn seen(&self) -> BTreeMap<String, String> {
        let mut out = BTreeMap::new();
        let mut add = |kind: &str, name: &str, text: String| {
            out.insert(format!("{kind} {name}"), sha256_hex(text.as_bytes()));
        };
        if let Some(found) = &self.observed.role {
            // Lists of IAM have no order.
            let inline: BTreeSet<_> = found.inline.iter().collect();
            let attached: BTreeSet<_> = found.attached.iter().collect();
            let role = &found.role;
            let text = format!(
                "{:?}",
                (
                    &role.arn,
                    diff::meaning(&role.trust),
                    &role.boundary,
                    &role.tags,
                    found.policy.as_deref().map(diff::meaning),
                    inline,
                    attached
                )
            );
            add("role", &role.name, text);
        }
        for (wanted, found) in self.desired.file_systems.iter().zip(&self.observed.file_systems) {
            let Some(system) = diff::live_file_system(&found.systems) else { continue };
            let links: BTreeSet<_> =
                found.associations.iter().map(|one| (&one.id, &one.path, &one.s3)).collect();
            let text = format!("{:?}", (&system.id, &system.tags, links));
            add("file-system", &wanted.name, text);
        }
        let runs = [&self.observed.runs.latest, &self.observed.runs.other];
        for (job, tags) in runs.into_iter().flatten() {
            add("training-job", &job.name, format!("{tags:?}"));
        }
        out
    }
}

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// Looks at the account for a checked plan; nothing where the cluster is not SageMaker's.
    pub async fn prospect(&self, plan: &Plan, choices: Choices) -> Result<Option<Prospect>, Fault> {
        let caller = self.ask(async |cloud| cloud.caller_identity().await).await?;
        let Some(mut desired) = Desired::of(plan, &caller) else { return Ok(None) };
        let observed = self.observe(&desired).await?;
        if let Some(found) = &observed.role {
            desired.run_as(&found.role.arn);
            if let Some(policy) = &found.policy {
                desired.run_beside(policy, &observed.runs.beside);
            }
        }
        let changes = diff::diff(&desired, &observed, choices);
        let target = diff::target(&desired, &observed.runs, choices);
        Ok(Some(Prospect { caller, desired, observed, changes, target }))
    }
}
