//! Deletes the resources of a job: only those that were shown and have its tags, in reverse order of
//! creation. A second run continues where the first one ended.

use super::account::{Association, FileSystem, TrainingJob};
use super::change::{Action, Change, Obstacle};
use super::cloud::{Answer, Clock, Cloud};
use super::fault::{Class, Fault};
use super::inventory::{foreign_policies, upload_kind};
use super::ledger::{Cause, Item, Recorder};
use super::look::Look;
use super::observed::ObservedRole;
use super::patience::{Wait, none_if_not_found};
use crate::ownership;
use trainc_emit::iam::POLICY_NAME;

pub use super::inventory::{Consent, Inventory, Removal};

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
    /// Deletes the resources that were found and consented to; the ledger records failures and remaining
    /// resources.
    pub async fn run(&self, remains: &Inventory, consent: Consent) {
        let mut stopped = true;
        for job in &remains.running {
            let item = Item::new("training-job", &job.name);
            stopped &= self.record_result(&item, self.stop(&item, &job.name).await, "stopped");
        }
        // A run may have started while the user was asked: without its role and its data it would fail.
        stopped &= self.has_no_new_runs(remains).await;
        if !stopped {
            // A job without its role cannot upload its output.
            let all = remains.removals(consent);
            all.into_iter()
                .filter(|one| one.action == "delete")
                .for_each(|one| self.recorder.record_not_started(one.item));
            return;
        }
        let mut waited = false;
        for (system, links) in &remains.file_systems {
            let item = Item::new("file-system", &system.id);
            if !remains.sharers(system).is_empty() {
                match self.leave_shared_file_system(&item, system, &remains.job).await {
                    Ok(Stay::Left | Stay::Gone) => self.recorder.record_done(&item, "left", None),
                    // Without a confirmation prompt the manifest decides, regardless of which job is the
                    // last.
                    Ok(Stay::Alone) if remains.unasked => {
                        waited |= self.delete_with_links(&item, system, links, &remains.job).await;
                    }
                    Ok(Stay::Alone) => self.record_sole_user(&item, &system.id),
                    Err(cause) => self.recorder.record_failure(&item, cause),
                }
                continue;
            }
            if remains.running_user(&system.id).is_some()
                || !(consent.delete_data || remains.releases(&system.id))
            {
                self.recorder.record_done(&item, "kept", None);
                continue;
            }
            waited |= self.delete_with_links(&item, system, links, &remains.job).await;
        }
        // Jobs that have since started with the role or an upload keep it.
        let used = match self.look.running_users(remains).await {
            Ok(used) => used,
            Err(fault) => {
                self.recorder.record_failure(&Item::new("training-job", &remains.stem), Cause::Fault(fault));
                let all = remains.removals(consent);
                let rest =
                    all.into_iter().filter(|one| one.action == "delete" && is_deleted_last(one.item.kind));
                rest.for_each(|one| self.recorder.record_not_started(one.item));
                return;
            }
        };
        let is_used =
            |what: &str| used.iter().any(|(id, _)| id == what) || remains.running_user(what).is_some();
        // The wait took minutes, during which an apply may have completed.
        if waited && !self.has_no_new_runs(remains).await {
            let all = remains.removals(consent);
            let rest = all.into_iter().filter(|one| one.action == "delete" && is_deleted_last(one.item.kind));
            rest.for_each(|one| self.recorder.record_not_started(one.item));
            return;
        }
        if let Some(found) = &remains.role {
            let item = Item::new("role", &found.role.name);
            if is_used(&found.role.name) {
                self.recorder.record_done(&item, "kept", None);
            } else {
                self.record_result(&item, self.delete_role(&item, found).await, "deleted");
            }
        }
        for (bucket, key) in &remains.objects {
            let item = Item::new(upload_kind(key).0, &format!("s3://{bucket}/{key}"));
            if is_used(&item.name) {
                self.recorder.record_done(&item, "kept", None);
                continue;
            }
            self.recorder.record_action(&item, "delete");
            let gone = self.look.ask(async |cloud| cloud.delete_object(bucket, key).await).await;
            self.record_result(&item, gone.map_err(Cause::Fault), "deleted");
        }
        for (bucket, key, id) in &remains.uploads {
            let item = Item::new(upload_kind(key).0, &format!("s3://{bucket}/{key}"));
            let gone = none_if_not_found(
                self.look.ask(async |cloud| cloud.abort_upload(bucket, key, id).await).await,
            );
            self.record_result(&item, gone.map(|_| ()).map_err(Cause::Fault), "deleted");
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
                self.recorder.record_failure(&Item::new("training-job", &remains.stem), Cause::Fault(fault));
                false
            }
        }
    }

    fn record_new_run(&self, job: &TrainingJob) {
        let change = Change {
            kind: "training-job",
            name: job.name.clone(),
            action: Action::Stop(Obstacle::StartedMeanwhile),
            because: format!("`{}` was started after the account was read: {}", job.name, job.status),
            differences: Vec::new(),
            shared_with: Vec::new(),
        };
        self.recorder.record_failure(&Item::new("training-job", &job.name), Cause::Obstacle(change));
    }

    fn record_result(&self, item: &Item, result: Result<(), Cause>, what: &'static str) -> bool {
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
                self.recorder.record_action(item, "stop");
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
        links: &[Association],
        job: &str,
    ) -> bool {
        for links in [links, &[]] {
            match self.leave_shared_file_system(item, system, job).await {
                Ok(Stay::Alone | Stay::Gone) => {}
                Ok(Stay::Left) => {
                    self.recorder.record_done(item, "left", None);
                    return false;
                }
                Err(cause) => {
                    self.recorder.record_failure(item, cause);
                    return false;
                }
            }
            let mut unlinked = true;
            for link in links {
                let item = Item::new("association", &link.id);
                unlinked &= self.record_result(&item, self.unlink(&item, link).await, "deleted");
            }
            if !unlinked {
                self.recorder.record_not_started(item.clone());
                return false;
            }
        }
        self.record_result(item, self.delete_file_system(item, &system.id).await, "deleted");
        true
    }

    /// Reports that only this job still uses a file system, which is deleted only after the user has seen
    /// that.
    fn record_sole_user(&self, item: &Item, id: &str) {
        let change = Change {
            kind: "file-system",
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
                self.recorder.record_action(item, "leave");
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
        self.recorder.record_action(item, "delete");
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
        self.recorder.record_action(item, "delete");
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
        if let Some(more) = foreign_policies(found) {
            // Policies that someone else added mean that others also use the role.
            return Err(Cause::Fault(Fault::from_answer(
                super::calls::Call::DeleteRole,
                Some(409),
                "DeleteConflict",
                &format!("someone added {more} to it"),
            )));
        }
        let mut wait = Wait::start(self.look.clock, self.look.patience.unseen);
        self.recorder.record_action(item, "delete");
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

/// Returns true for resources deleted last: the role and the uploads.
fn is_deleted_last(kind: &str) -> bool {
    !matches!(kind, "file-system" | "association" | "training-job")
}
