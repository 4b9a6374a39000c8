//! Prefetched answers: calls that need neither the account ID nor another answer are made together with
//! GetCallerIdentity; all other calls wait only for these.

use super::account::{FileSystem, JobSummary, Role, Subnet, TrainingJob};
use super::cloud::{Answer, Clock, Observe};
use super::desired::Desired;
use super::file_systems::{find_for_storage, oldest_live};
use super::look::Look;
use super::observed::ObservedFileSystem;
use super::patience::none_if_not_found;
use futures_util::future::OptionFuture;
use futures_util::join;
use std::collections::BTreeMap;
use trainc_emit::{self as emit, Identity};
use trainc_ir::Plan;

/// Prefetched answers, each with the name that was requested; `None` if not requested. The names of roles and
/// of training jobs contain no account ID.
#[derive(Debug, Default)]
pub(super) struct Prefetch {
    role: Option<(String, Answer<Option<Role>>)>,
    run: Option<(String, Answer<Option<TrainingJob>>)>,
    listed: Option<(String, Answer<Vec<JobSummary>>)>,
    /// All file systems of the region.
    pub systems: Option<Answer<Vec<FileSystem>>>,
    /// Subnets of the job, if requested.
    pub subnets: Option<Answer<Vec<Subnet>>>,
}

impl Prefetch {
    /// Returns the role of this name, if it was requested.
    pub(super) fn role(&mut self, name: &str) -> Option<Answer<Option<Role>>> {
        self.role.take().filter(|(asked, _)| asked == name).map(|(_, answer)| answer)
    }

    /// Returns the training job of this name, if it was requested.
    pub(super) fn run(&mut self, name: &str) -> Option<Answer<Option<TrainingJob>>> {
        self.run.take().filter(|(asked, _)| asked == name).map(|(_, answer)| answer)
    }

    /// Returns the training jobs whose names contain this text, if they were requested.
    pub(super) fn job_list(&mut self, stem: &str) -> Option<Answer<Vec<JobSummary>>> {
        self.listed.take().filter(|(asked, _)| asked == stem).map(|(_, answer)| answer)
    }

    /// Returns true if the job has no run of any digest, so that it is to be started.
    pub(super) fn has_no_runs(&self, desired: &Desired) -> bool {
        let is_run = |one: &JobSummary| desired.is_run(&one.name);
        let first = desired.name_of_run(1);
        let none = matches!(&self.run, Some((name, Ok(None))) if Some(name) == first.as_ref());
        none && matches!(&self.listed, Some((stem, Ok(listed))) if *stem == desired.stem
            && !listed.iter().any(is_run))
    }

    /// Returns the GiB of Lustre file systems in the account by deployment type, without those of the job;
    /// empty without permission to list them.
    pub(super) fn lustre_gib_in_use(&self, desired: &Desired) -> BTreeMap<String, u64> {
        let Some(Ok(all)) = &self.systems else { return BTreeMap::new() };
        let own = |system: &FileSystem| {
            let mut wanted = desired.file_systems.iter();
            wanted.any(|wanted| {
                let found = find_for_storage(all, desired, wanted);
                oldest_live(&found).is_some_and(|live| live.id == system.id)
            })
        };
        let mut taken = BTreeMap::new();
        for system in all.iter().filter(|one| one.kind == "LUSTRE" && !own(one)) {
            let is_there = !matches!(system.lifecycle.as_str(), "DELETING" | "FAILED");
            if let Some(deployment) = system.deployment.as_ref().filter(|_| is_there) {
                *taken.entry(deployment.clone()).or_default() += system.capacity_gib;
            }
        }
        taken
    }

    /// Returns the existing file systems for each wanted one, without links; `None` without permission to
    /// list them.
    pub(super) fn systems_of(&self, desired: &Desired) -> Option<Vec<ObservedFileSystem>> {
        let all = self.systems.as_ref()?.as_ref().ok()?;
        let wanted = desired.file_systems.iter();
        let found = wanted.map(|wanted| ObservedFileSystem {
            systems: find_for_storage(all, desired, wanted),
            associations: Vec::new(),
        });
        Some(found.collect())
    }
}

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// Makes all these calls concurrently; subnets are read only if given.
    pub(super) async fn prefetch(&self, plan: &Plan, subnets: &[String]) -> Prefetch {
        let Identity { digest, training_job: name } = emit::identity(plan);
        let (role, stem) =
            (emit::iam::create_role(plan, &digest).map(|role| role.role_name), emit::run_name_prefix(plan));
        let asked_role: OptionFuture<_> = role
            .map(|name| async {
                let answer = none_if_not_found(self.ask(async |cloud| cloud.role(&name).await).await);
                (name, answer)
            })
            .into();
        let asked_subnets: OptionFuture<_> = (!subnets.is_empty())
            .then_some(async { self.ask(async |cloud| cloud.subnets(subnets).await).await })
            .into();
        let (role, systems, run, listed, subnets) = join!(
            asked_role,
            self.ask(async |cloud| cloud.file_systems().await),
            async { none_if_not_found(self.ask(async |cloud| cloud.training_job(&name).await).await) },
            self.ask(async |cloud| cloud.training_jobs(&stem).await),
            asked_subnets,
        );
        Prefetch {
            role,
            run: Some((name, run)),
            listed: Some((stem, listed)),
            systems: Some(systems),
            subnets,
        }
    }
}
