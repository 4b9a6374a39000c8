//! Comparison of the account with a plan, before any write.

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
use trainc_emit::ResourceKind;
use trainc_ir::Plan;

/// The state of an account and the changes that a plan would make.
#[derive(Clone, Debug, PartialEq)]
pub struct Prospect {
    /// The caller.
    pub caller: Caller,
    /// The resources that the plan requires.
    pub desired: Desired,
    /// The resources that exist.
    pub observed: Observed,
    /// The changes, one for each resource.
    pub changes: Vec<Change>,
    /// The training job to attach to or start.
    pub target: Target,
    /// The number of calls made.
    pub calls: usize,
    /// GiB of Lustre file systems in the account that are not the job's, by deployment type.
    pub taken: BTreeMap<String, u64>,
}

/// The readable state of an account, and the reads that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    /// The planned changes. Resources that could not be read count as missing, so it must not be used for
    /// writing.
    pub prospect: Option<Prospect>,
    /// Faults: the one that ended the reads, if any, then one per action that the caller lacks.
    pub faults: Vec<Fault>,
}

impl Survey {
    /// Returns the obstacles. Those of training jobs are left out if reads of SageMaker failed.
    pub fn obstacles(&self) -> impl Iterator<Item = (&Change, Obstacle)> {
        let unseen = self.faults.iter().any(|fault| fault.call.row().service == "sagemaker");
        let all = self.prospect.iter().flat_map(Prospect::obstacles);
        all.filter(move |(change, _)| !(unseen && change.kind == ResourceKind::TrainingJob))
    }
}

impl Prospect {
    /// Returns the obstacles, in the order of the plan.
    pub fn obstacles(&self) -> impl Iterator<Item = (&Change, Obstacle)> {
        let stopped = |kind| {
            self.changes.iter().any(|change| change.kind == kind && matches!(change.action, Action::Stop(_)))
        };
        // An obstacle of the role already covers its policy.
        let with_role = stopped(ResourceKind::Role);
        self.changes.iter().filter_map(move |change| match change.action {
            Action::Stop(obstacle) => {
                Some((change, obstacle)).filter(|_| !with_role || change.kind != ResourceKind::RolePolicy)
            }
            _ => None,
        })
    }

    /// Returns true if the account matches the plan.
    pub fn is_empty(&self) -> bool {
        diff::has_no_changes(&self.changes)
    }

    /// Returns the names of existing file systems with `delete-after-job` whose job has completed: they are
    /// billed until they are deleted.
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

    /// Returns true if the target run has ended.
    pub fn is_run_over(&self, choices: Choices) -> bool {
        diff::is_run_over(&self.desired, &self.observed, choices)
    }
}

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// Compares the account with a checked plan; `None` for a cluster outside SageMaker. Fails at the first
    /// read that fails.
    pub async fn prospect(&self, plan: &Plan, choices: Choices) -> Result<Option<Prospect>, Fault> {
        let survey = self.survey(plan, choices).await;
        match survey.faults.into_iter().next() {
            Some(fault) => Err(fault),
            None => Ok(survey.prospect),
        }
    }

    /// Like `prospect`, but continues after denied reads.
    pub async fn survey(&self, plan: &Plan, choices: Choices) -> Survey {
        self.survey_with(plan, choices, &[], async |_, _| ()).await.0
    }

    /// Like `survey`, and concurrently runs a second task once the caller is known, with a `Look` that does
    /// not collect access errors, and with the prefetched answers, including the subnets.
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
        // The order of responses is arbitrary.
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
        let Ok(mut desired) = Desired::new(plan, &caller) else { return Ok(None) };
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

/// Prefetched answers of an account.
#[derive(Debug)]
pub(super) struct FirstAnswers<'a> {
    /// The caller.
    pub caller: &'a Caller,
    /// The resources that the plan requires.
    pub desired: &'a Desired,
    /// GiB of Lustre file systems in use, by deployment type.
    pub taken: &'a BTreeMap<String, u64>,
    /// The subnets, if requested.
    pub subnets: Option<Answer<Vec<Subnet>>>,
    /// True if it is already certain that the job is to be started.
    pub starts: bool,
    /// The existing file systems for each of the plan's, without links; `None` without permission to list
    /// them.
    pub systems: Option<Vec<ObservedFileSystem>>,
}
