//! The account compared with a plan, before anything is written.

use super::account::{Caller, Subnet};
use super::change::{Action, Change, Choices, Obstacle, Target};
use super::cloud::{Answer, Clock, Observe};
use super::desired::Desired;
use super::diff::{self};
use super::fault::Fault;
use super::look::Look;
use super::observed::{Observed, ObservedFileSystem};
use crate::file_systems;
use crate::ownership;
use futures_util::join;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use trainc_ir::Plan;

/// The state of an account and the changes that a plan would make.
#[derive(Clone, Debug, PartialEq)]
pub struct Prospect {
    /// The caller.
    pub caller: Caller,
    /// The resources that the plan needs.
    pub desired: Desired,
    /// The resources that exist.
    pub observed: Observed,
    /// The changes, one for each resource.
    pub changes: Vec<Change>,
    /// The training job to attach to or start.
    pub target: Target,
    /// The number of calls made.
    pub calls: usize,
    /// GiB of Lustre file systems of others in the account, by deployment type.
    pub taken: BTreeMap<String, u64>,
}

/// The readable state of an account, and the reads that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    /// What would be done. Where reads were refused, what they ask about is as if it were not there: good for looking at
    /// the rest, and never for writing.
    pub prospect: Option<Prospect>,
    /// Why something was not seen: each action that the caller lacks once, after what ended the look, if anything did.
    pub faults: Vec<Fault>,
}

impl Survey {
    /// Returns the obstacles. Those of training jobs are left out if reads of SageMaker failed.
    pub fn obstacles(&self) -> impl Iterator<Item = (&Change, Obstacle)> {
        let unseen = self.faults.iter().any(|fault| fault.call.row().service == "sagemaker");
        let all = self.prospect.iter().flat_map(Prospect::obstacles);
        all.filter(move |(change, _)| !(unseen && change.kind == "training-job"))
    }
}

impl Prospect {
    /// Returns the obstacles, in the order of the plan.
    pub fn obstacles(&self) -> impl Iterator<Item = (&Change, Obstacle)> {
        let stopped = |kind: &str| {
            self.changes.iter().any(|change| change.kind == kind && matches!(change.action, Action::Stop(_)))
        };
        // Whose the policy is, its role says.
        let with_role = stopped("role");
        self.changes.iter().filter_map(move |change| match change.action {
            Action::Stop(obstacle) => {
                Some((change, obstacle)).filter(|_| !with_role || change.kind != "role-policy")
            }
            _ => None,
        })
    }

    /// Returns true if the account is as the plan wants it.
    pub fn is_empty(&self) -> bool {
        diff::has_no_changes(&self.changes)
    }

    /// Names of the file systems that the manifest lets go with the job (`delete-after-job`) and that are there, where the
    /// job has completed: they are billed until somebody takes them away.
    pub fn outlasting_file_systems(&self) -> Vec<&str> {
        let latest = self.observed.runs.latest.as_ref().map(|(job, _)| job.status.as_str());
        if latest != Some("Completed") || !matches!(self.target, Target::Attach(_)) {
            return Vec::new();
        }
        let pairs = self.desired.file_systems.iter().zip(&self.observed.file_systems);
        let there = pairs.filter(|(wanted, found)| {
            let live = file_systems::oldest_live(&found.systems);
            wanted.delete_after_job && live.is_some_and(|live| ownership::uses(&live.tags, &self.desired.job))
        });
        there.map(|(wanted, _)| wanted.name.as_str()).collect()
    }

    /// Returns true if the run that is meant is over.
    pub fn is_run_over(&self, choices: Choices) -> bool {
        diff::is_run_over(&self.desired, &self.observed, choices)
    }
}

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// Looks at the account for a checked plan; nothing where the cluster is not SageMaker's. The first read that fails is
    /// the end.
    pub async fn prospect(&self, plan: &Plan, choices: Choices) -> Result<Option<Prospect>, Fault> {
        let survey = self.survey(plan, choices).await;
        match survey.faults.into_iter().next() {
            Some(fault) => Err(fault),
            None => Ok(survey.prospect),
        }
    }

    /// The same as far as it goes: all reads are made that can be, also where some of them are refused.
    pub async fn survey(&self, plan: &Plan, choices: Choices) -> Survey {
        self.survey_with(plan, choices, &[], async |_, _| ()).await.0
    }

    /// The same, and something else that is looked at meanwhile, as soon as the account is known: with a look that gathers
    /// no refusals, and with what was answered first, the subnets among it.
    pub(super) async fn survey_with<T>(
        &self,
        plan: &Plan,
        choices: Choices,
        subnets: &[String],
        beside: impl AsyncFnOnce(Look<'_, C, K>, FirstAnswers<'_>) -> T,
    ) -> (Survey, Option<T>) {
        let (asked, refused) = (Cell::new(0), RefCell::default());
        let look = Look { asked: Some(&asked), refused: Some(&refused), ..*self };
        let found = look.compare_account(plan, choices, subnets, beside).await;
        let mut faults = refused.into_inner();
        // Who answers first is chance.
        faults.sort_by(|a, b| (a.call, &a.about).cmp(&(b.call, &b.about)));
        let mut known = BTreeSet::new();
        faults.retain(|fault| known.insert(fault.action()));
        let (prospect, seen) = match found {
            Ok(found) => found.unzip(),
            Err(fault) => {
                faults.insert(0, fault);
                (None, None)
            }
        };
        let prospect = prospect.map(|prospect| Prospect { calls: asked.get(), ..prospect });
        (Survey { prospect, faults }, seen)
    }

    async fn compare_account<T>(
        &self,
        plan: &Plan,
        choices: Choices,
        subnets: &[String],
        beside: impl AsyncFnOnce(Look<'_, C, K>, FirstAnswers<'_>) -> T,
    ) -> Result<Option<(Prospect, T)>, Fault> {
        let (caller, mut prefetched) =
            join!(self.ask(async |cloud| cloud.caller_identity().await), self.prefetch(plan, subnets));
        // If the identity call fails, all other calls failed for the same reason.
        let caller = caller?;
        let Some(mut desired) = Desired::new(plan, &caller) else { return Ok(None) };
        let taken = prefetched.lustre_gib_in_use(&desired);
        let first = FirstAnswers {
            taken: &taken,
            caller: &caller,
            desired: &desired,
            subnets: prefetched.subnets.take(),
            starts: prefetched.has_no_runs(&desired),
            systems: prefetched.systems_of(&desired),
        };
        let quiet = Look { refused: None, ..*self };
        let (observed, seen) =
            join!(self.observe_with_prefetch(prefetched, &desired, choices), beside(quiet, first));
        let observed = observed?;
        if let Some(found) = &observed.role {
            desired.set_role_arn(&found.role.arn);
            if let Some(policy) = &found.policy {
                desired.keep_permissions_of(policy, &observed.runs.concurrent);
            }
        }
        let changes = diff::diff(&desired, &observed, choices);
        let target = diff::target(&desired, &observed.runs, choices);
        Ok(Some((Prospect { caller, desired, observed, changes, target, calls: 0, taken }, seen)))
    }
}

/// The first answers of an account.
#[derive(Debug)]
pub(super) struct FirstAnswers<'a> {
    /// The caller.
    pub caller: &'a Caller,
    /// The resources that the plan needs.
    pub desired: &'a Desired,
    /// GiB of Lustre in use by type of deployment.
    pub taken: &'a BTreeMap<String, u64>,
    /// The subnets, where they were asked for.
    pub subnets: Option<Answer<Vec<Subnet>>>,
    /// True if it is certain already that the job is to be started.
    pub starts: bool,
    /// The existing file systems for each of the plan's, without links; `None` without permission to list them.
    pub systems: Option<Vec<ObservedFileSystem>>,
}
