//! What would happen: the account observed and compared, before anything is written.

use super::account::Caller;
use super::cloud::{Clock, Observe};
use super::desired::Desired;
use super::diff::{self, Action, Change, Choices, Obstacle, Target};
use super::fault::Fault;
use super::observed::{Look, Observed};
use crate::ir::Plan;
use std::cell::Cell;

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
    /// How many calls that took.
    pub calls: usize,
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
}

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// Looks at the account for a checked plan; nothing where the cluster is not SageMaker's.
    pub async fn prospect(&self, plan: &Plan, choices: Choices) -> Result<Option<Prospect>, Fault> {
        let asked = Cell::new(0);
        let look = Look { asked: Some(&asked), ..*self };
        let caller = look.ask(async |cloud| cloud.caller_identity().await).await?;
        let Some(mut desired) = Desired::of(plan, &caller) else { return Ok(None) };
        let observed = look.observe(&desired, choices).await?;
        if let Some(found) = &observed.role {
            desired.run_as(&found.role.arn);
            if let Some(policy) = &found.policy {
                desired.run_beside(policy, &observed.runs.beside);
            }
        }
        let changes = diff::diff(&desired, &observed, choices);
        let target = diff::target(&desired, &observed.runs, choices);
        Ok(Some(Prospect { caller, desired, observed, changes, target, calls: asked.get() }))
    }
}
