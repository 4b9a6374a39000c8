//! Deletes the resources of a job: only those that were shown and have its tags, in reverse order of
//! creation. A second run continues where the first one ended.

use super::account::{Association, FileSystem, TrainingJob};
use super::calls::Call;
use super::change::{Action, Change, Obstacle};
use super::cloud::{Answer, Clock, Cloud};
use super::fault::{Class, Fault};
use super::ledger::{Cause, Item, Outcome, Recorder};
use super::look::Look;
use super::observed::ObservedRole;
use super::patience::{Wait, none_if_not_found};
use super::removal::Phase;
use crate::ownership;
use trainc_emit::iam::POLICY_NAME;
use trainc_emit::{ResourceKind, Verb};

pub use super::inventory::Inventory;
pub use super::removal::{Consent, Kept, Removal, Removals, Step, Subject};

/// The relation of a job to a file system that it shares or shared.
enum Stay {
    /// The job no longer uses it; others do.
    Left,
    /// Only this job uses it.
    Alone,
    /// It is deleted or being deleted.
    Gone,
}

/// Deletes the resources of a job.
pub struct Remover<'a, C, K> {
    /// The account.
    pub look: Look<'a, C, K>,
    /// The recorder of events.
    pub recorder: Recorder<'a>,
}

impl<C: Cloud, K: Clock> Remover<'_, C, K> {
    /// Executes the steps of `destroy` on the resources that were found; the ledger records failures and
    /// remaining resources.
    pub async fn run(&self, remains: &Inventory, removals: &Removals) {
        let mut stopped = true;
        for one in removals.of_phase(Phase::Runs) {
            let ended = self.stop(&one.item, &one.item.name).await;
            stopped &= self.record_result(&one.item, ended, Outcome::Stopped);
        }
        // A run may have started while the user was asked: without its role and its data it would fail.
        stopped &= self.has_no_new_runs(remains).await;
        if !stopped {
            // A job without its role cannot upload its output.
            self.record_all_not_started(removals, Phase::FileSystems);
            return;
        }
        let mut waited = false;
        let mut links: Vec<&Association> = Vec::new();
        for one in removals.of_phase(Phase::FileSystems) {
            match &one.step {
                Step::Delete(Subject::Association(link)) => links.push(link),
                Step::Delete(Subject::FileSystem(system)) => {
                    let links = std::mem::take(&mut links);
                    waited |= self.delete_with_links(&one.item, system, &links, &remains.job).await;
                }
                Step::Leave(system) => {
                    match self.leave_shared_file_system(&one.item, system, &remains.job).await {
                        Ok(Stay::Left | Stay::Gone) => {
                            self.recorder.record_done(&one.item, Outcome::Left, None);
                        }
                        Ok(Stay::Alone) => self.record_sole_user(&one.item, &system.id),
                        Err(cause) => self.recorder.record_failure(&one.item, cause),
                    }
                }
                Step::Keep(kept) => self.record_kept(&one.item, kept),
                Step::Stop | Step::Delete(_) => {}
            }
        }
        // Jobs that have since started with the role or an upload keep it.
        let used = match self.look.running_users(remains).await {
            Ok(used) => used,
            Err(fault) => {
                let job = Item::new(ResourceKind::TrainingJob, &remains.stem);
                self.recorder.record_failure(&job, Cause::Fault(fault));
                self.record_all_not_started(removals, Phase::Files);
                return;
            }
        };
        // The wait took minutes, during which an apply may have completed.
        if waited && !self.has_no_new_runs(remains).await {
            self.record_all_not_started(removals, Phase::Files);
            return;
        }
        let is_used = |what: &str| used.iter().any(|(id, _)| id == what);
        for one in removals.of_phase(Phase::Files) {
            let item = &one.item;
            match &one.step {
                Step::Keep(kept) => self.record_kept(item, kept),
                Step::Delete(Subject::Role(_) | Subject::Object { .. }) if is_used(&item.name) => {
                    self.recorder.record_done(item, Outcome::Kept, None);
                }
                Step::Delete(subject) => {
                    let gone = self.delete(item, subject).await;
                    self.record_result(item, gone, Outcome::Deleted);
                }
                Step::Stop | Step::Leave(_) => {}
            }
        }
    }

    /// Deletes one resource, without checks.
    async fn delete(&self, item: &Item, subject: &Subject) -> Result<(), Cause> {
        let look = &self.look;
        match subject {
            Subject::Association(link) => self.unlink(item, link).await,
            Subject::FileSystem(system) => self.delete_file_system(item, &system.id).await,
            Subject::Role(found) => self.delete_role(item, found).await,
            Subject::Object { bucket, key } => {
                self.recorder.record_action(item, Verb::Delete);
                look.ask(async |cloud| cloud.delete_object(bucket, key).await).await.map_err(Cause::Fault)
            }
            Subject::Upload { bucket, key, id } => {
                let gone = look.ask(async |cloud| cloud.abort_upload(bucket, key, id).await).await;
                none_if_not_found(gone).map(|_| ()).map_err(Cause::Fault)
            }
        }
    }

    /// Records a resource that is kept. That a role remains which someone extended is a failure, since
    /// nothing else of the job does.
    fn record_kept(&self, item: &Item, kept: &Kept) {
        match kept {
            Kept::InUse { .. } | Kept::Data => self.recorder.record_done(item, Outcome::Kept, None),
            Kept::ExtendedRole(more) => {
                let call = Call::DeleteRole;
                let words = format!("someone added {more} to it");
                let fault = Fault::from_answer(call, Some(409), "DeleteConflict", &words);
                self.recorder.record_failure(item, Cause::Fault(fault));
            }
            Kept::Foreign | Kept::Shared => {}
        }
    }

    /// Records that nothing of a phase or a later one was deleted.
    fn record_all_not_started(&self, removals: &Removals, phase: Phase) {
        for item in removals.deleted_from(phase) {
            self.recorder.record_not_started(item.clone());
        }
    }

    /// Returns true if no run of the job has started since the inventory; reports new runs.
    async fn has_no_new_runs(&self, remains: &Inventory) -> bool {
        match self.look.own_running_jobs(&remains.stem, &remains.job).await {
            Ok(jobs) => {
                let known = |job: &&TrainingJob| remains.running.iter().any(|one| one.name == job.name);
                let started: Vec<&TrainingJob> = jobs.iter().filter(|job| !known(job)).collect();
                for job in &started {
                    self.record_new_run(job);
                }
                started.is_empty()
            }
            Err(fault) => {
                self.recorder.record_failure(
                    &Item::new(ResourceKind::TrainingJob, &remains.stem),
                    Cause::Fault(fault),
                );
                false
            }
        }
    }

    fn record_new_run(&self, job: &TrainingJob) {
        let change = Change {
            kind: ResourceKind::TrainingJob,
            name: job.name.clone(),
            action: Action::Stop(Obstacle::StartedMeanwhile),
            because: format!("`{}` was started after the account was read: {}", job.name, job.status),
            differences: Vec::new(),
            shared_with: Vec::new(),
        };
        self.recorder
            .record_failure(&Item::new(ResourceKind::TrainingJob, &job.name), Cause::Obstacle(change));
    }

    fn record_result(&self, item: &Item, result: Result<(), Cause>, what: Outcome) -> bool {
        match result {
            Ok(()) => {
                self.recorder.record_done(item, what, None);
                true
            }
            Err(cause) => {
                self.recorder.record_failure(item, cause);
                false
            }
        }
    }

    /// Stops a job and waits until it has stopped: it uploads its output with the role that is deleted next.
    pub async fn stop(&self, item: &Item, name: &str) -> Result<(), Cause> {
        let look = &self.look;
        let mut wait = Wait::start(look.clock, look.patience.making);
        let mut asked = false;
        loop {
            let found = none_if_not_found(look.ask(async |cloud| cloud.training_job(name).await).await)?;
            let Some(job) = found.filter(|job| !job.is_over()) else { return Ok(()) };
            if !asked && job.status != "Stopping" {
                self.recorder.record_action(item, Verb::Stop);
                match look.ask(async |cloud| cloud.stop_training_job(name).await).await {
                    Ok(()) => asked = true,
                    // It has already ended or is ending.
                    Err(fault) if matches!(fault.class, Class::NotFound | Class::Busy | Class::Invalid) => {
                        asked = true;
                    }
                    Err(fault) => return Err(fault.into()),
                }
                continue;
            }
            if wait.is_over(look.clock) {
                return Err(Cause::Late {
                    state: format!("{name} is {}", job.secondary),
                    seconds: wait.seconds(look.clock),
                });
            }
            self.recorder.report_wait(item, &job.secondary, wait.seconds(look.clock));
            wait.pause_poll(look.clock, &look.patience).await;
        }
    }

    /// Deletes a file system with its links unless another job uses it. This is checked before the links are
    /// deleted, and again afterwards, because that takes minutes. Returns true if the deletion of the file
    /// system was attempted.
    async fn delete_with_links(
        &self,
        item: &Item,
        system: &FileSystem,
        links: &[&Association],
        job: &str,
    ) -> bool {
        for links in [links, &[]] {
            match self.leave_shared_file_system(item, system, job).await {
                Ok(Stay::Alone | Stay::Gone) => {}
                Ok(Stay::Left) => {
                    self.recorder.record_done(item, Outcome::Left, None);
                    return false;
                }
                Err(cause) => {
                    self.recorder.record_failure(item, cause);
                    return false;
                }
            }
            let mut unlinked = true;
            for link in links {
                let item = Item::new(ResourceKind::Association, &link.id);
                unlinked &= self.record_result(&item, self.unlink(&item, link).await, Outcome::Deleted);
            }
            if !unlinked {
                self.recorder.record_not_started(item.clone());
                return false;
            }
        }
        self.record_result(item, self.delete_file_system(item, &system.id).await, Outcome::Deleted);
        true
    }

    /// Reports that only this job still uses a file system, which is deleted only after the user has seen
    /// that.
    fn record_sole_user(&self, item: &Item, id: &str) {
        let change = Change {
            kind: ResourceKind::FileSystem,
            name: id.to_owned(),
            action: Action::Stop(Obstacle::BecameSoleUser),
            because: format!(
                "the other jobs stopped using `{id}` after the account was read: this job is now \
                    its only user"
            ),
            differences: Vec::new(),
            shared_with: Vec::new(),
        };
        self.recorder.record_failure(item, Cause::Obstacle(change));
    }

    /// Removes the job's tag from a file system that others use; does nothing if no other job uses it.
    async fn leave_shared_file_system(
        &self,
        item: &Item,
        system: &FileSystem,
        job: &str,
    ) -> Result<Stay, Cause> {
        let look = &self.look;
        let mut unseen = Wait::start(look.clock, look.patience.unseen);
        let mut asked = false;
        loop {
            let found = none_if_not_found(look.ask(async |cloud| cloud.file_system(&system.id).await).await)?;
            let Some(found) = found.filter(|found| found.lifecycle != "DELETING") else {
                return Ok(Stay::Gone);
            };
            if !ownership::uses(&found.tags, job) {
                return Ok(Stay::Left);
            }
            if ownership::others(&found.tags, job).is_empty() {
                return Ok(Stay::Alone);
            }
            if !asked {
                self.recorder.record_action(item, Verb::Leave);
                let (written, goes) = ownership::tags_to_leave(&found.tags, job);
                if !written.is_empty() {
                    look.ask(async |cloud| cloud.tag_file_system(&found.arn, &written).await).await?;
                }
                if !goes.is_empty() {
                    look.ask(async |cloud| cloud.untag_file_system(&found.arn, &goes).await).await?;
                }
                asked = true;
                continue;
            }
            if unseen.is_over(look.clock) {
                // If this was not only a delayed read, the next `destroy` removes the tag again.
                return Ok(Stay::Left);
            }
            self.recorder.report_wait(
                item,
                "until FSx shows that this job no longer uses it",
                unseen.seconds(look.clock),
            );
            unseen.pause_short(look.clock, &look.patience).await;
        }
    }

    async fn unlink(&self, item: &Item, link: &Association) -> Result<(), Cause> {
        self.recorder.record_action(item, Verb::Delete);
        let id = link.id.as_str();
        self.delete_and_wait(
            item,
            async || self.look.ask(async |cloud| cloud.delete_association(id).await).await,
            async || {
                let all = self.look.associations(&link.file_system).await?;
                Ok(all.into_iter().find(|one| one.id == id).map(|one| one.lifecycle))
            },
        )
        .await
    }

    async fn delete_file_system(&self, item: &Item, id: &str) -> Result<(), Cause> {
        self.recorder.record_action(item, Verb::Delete);
        self.delete_and_wait(
            item,
            async || self.look.ask(async |cloud| cloud.delete_file_system(id).await).await,
            async || {
                let found =
                    none_if_not_found(self.look.ask(async |cloud| cloud.file_system(id).await).await)?;
                Ok(found.map(|one| one.lifecycle))
            },
        )
        .await
    }

    /// Deletes a resource and waits until it is gone.
    async fn delete_and_wait(
        &self,
        item: &Item,
        delete: impl AsyncFn() -> Answer<()>,
        state: impl AsyncFn() -> Answer<Option<String>>,
    ) -> Result<(), Cause> {
        let look = &self.look;
        let mut wait = Wait::start(look.clock, look.patience.making);
        let mut asked = false;
        loop {
            let Some(now) = state().await? else { return Ok(()) };
            if !asked && now != "DELETING" {
                match delete().await {
                    Ok(()) => asked = true,
                    Err(fault) if fault.class == Class::NotFound => return Ok(()),
                    // It is still being created or updated.
                    Err(fault)
                        if matches!(fault.class, Class::Busy | Class::Invalid)
                            && !wait.is_over(look.clock) => {}
                    Err(fault) => return Err(fault.into()),
                }
            }
            if wait.is_over(look.clock) {
                return Err(Cause::Late { state: now, seconds: wait.seconds(look.clock) });
            }
            self.recorder.report_wait(item, &now, wait.seconds(look.clock));
            wait.pause_poll(look.clock, &look.patience).await;
        }
    }

    async fn delete_role(&self, item: &Item, found: &ObservedRole) -> Result<(), Cause> {
        let name = found.role.name.as_str();
        let mut wait = Wait::start(self.look.clock, self.look.patience.unseen);
        self.recorder.record_action(item, Verb::Delete);
        loop {
            let policy = self.look.ask(async |cloud| cloud.delete_role_policy(name, POLICY_NAME).await).await;
            none_if_not_found(policy)?;
            match none_if_not_found(self.look.ask(async |cloud| cloud.delete_role(name).await).await) {
                Ok(_) => return Ok(()),
                Err(fault) if fault.class == Class::Busy && !wait.is_over(self.look.clock) => {
                    self.recorder.report_wait(item, &fault.message, wait.seconds(self.look.clock));
                    wait.pause_short(self.look.clock, &self.look.patience).await;
                }
                Err(fault) => return Err(fault.into()),
            }
        }
    }
}
