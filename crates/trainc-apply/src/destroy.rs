//! Deletes the resources of a job: shown first, only those with its tags, in the reverse of the order in
//! which it was made. A second run goes on where the first one ended.

use super::account::{Association, FileSystem, TrainingJob};
use super::change::{Action, Change, Obstacle};
use super::cloud::{Answer, Clock, Cloud};
use super::fault::{Class, Fault};
use super::inventory::{kind_of, theirs};
use super::ledger::{Cause, Item, Recorder};
use super::look::Look;
use super::observed::ObservedRole;
use super::patience::{Wait, absent};
use crate::ownership;
use trainc_emit::iam::POLICY_NAME;

pub use super::inventory::{Consent, Inventory, Removal};

/// The relation of a job to a file system that others use or used.
enum Stay {
    /// The job no longer uses it; others do.
    Left,
    /// Only this job uses it now.
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
    /// Deletes what was found and consented to; the ledger records what failed and what was left.
    pub async fn run(&self, remains: &Inventory, consent: Consent) {
        let mut stopped = true;
        for job in &remains.running {
            let item = Item::new("training-job", &job.name);
            stopped &= self.settle(&item, self.stop(&item, &job.name).await, "stopped");
        }
        // Between the question and its answer somebody may have started one: without its role and its data it would
        // run on for nothing.
        stopped &= self.nothing_started(remains).await;
        if !stopped {
            // A job without its role cannot upload what it has.
            let all = remains.removals(consent);
            all.into_iter().filter(|one| one.action == "delete").for_each(|one| self.recorder.left(one.item));
            return;
        }
        let mut waited = false;
        for (system, links) in &remains.file_systems {
            let item = Item::new("file-system", &system.id);
            if !remains.sharers(system).is_empty() {
                match self.leave(&item, system, &remains.job).await {
                    Ok(Stay::Left | Stay::Gone) => self.recorder.done(&item, "left", None),
                    // Without a question to the user, the manifest decides, whichever job is the last.
                    Ok(Stay::Alone) if remains.unasked => {
                        waited |= self.take_away(&item, system, links, &remains.job).await;
                    }
                    Ok(Stay::Alone) => self.alone(&item, &system.id),
                    Err(cause) => self.recorder.failed(&item, cause),
                }
                continue;
            }
            if remains.user(&system.id).is_some() || !(consent.delete_data || remains.releases(&system.id)) {
                self.recorder.done(&item, "kept", None);
                continue;
            }
            waited |= self.take_away(&item, system, links, &remains.job).await;
        }
        // Whatever has begun since to run as the role, or from an upload, keeps it.
        let used = match self.look.users(remains).await {
            Ok(used) => used,
            Err(fault) => {
                self.recorder.failed(&Item::new("training-job", &remains.stem), Cause::Fault(fault));
                let all = remains.removals(consent);
                let rest = all.into_iter().filter(|one| one.action == "delete" && is_cheap(one.item.kind));
                rest.for_each(|one| self.recorder.left(one.item));
                return;
            }
        };
        let is_used = |what: &str| used.iter().any(|(id, _)| id == what) || remains.user(what).is_some();
        // That took minutes, in which an apply may have come to its end.
        if waited && !self.nothing_started(remains).await {
            let all = remains.removals(consent);
            let rest = all.into_iter().filter(|one| one.action == "delete" && is_cheap(one.item.kind));
            rest.for_each(|one| self.recorder.left(one.item));
            return;
        }
        if let Some(found) = &remains.role {
            let item = Item::new("role", &found.role.name);
            if is_used(&found.role.name) {
                self.recorder.done(&item, "kept", None);
            } else {
                self.settle(&item, self.delete_role(&item, found).await, "deleted");
            }
        }
        for (bucket, key) in &remains.objects {
            let item = Item::new(kind_of(key).0, &format!("s3://{bucket}/{key}"));
            if is_used(&item.name) {
                self.recorder.done(&item, "kept", None);
                continue;
            }
            self.recorder.doing(&item, "delete");
            let gone = self.look.ask(async |cloud| cloud.delete_object(bucket, key).await).await;
            self.settle(&item, gone.map_err(Cause::Fault), "deleted");
        }
        for (bucket, key, id) in &remains.uploads {
            let item = Item::new(kind_of(key).0, &format!("s3://{bucket}/{key}"));
            let gone = absent(self.look.ask(async |cloud| cloud.abort_upload(bucket, key, id).await).await);
            self.settle(&item, gone.map(|_| ()).map_err(Cause::Fault), "deleted");
        }
    }

    /// Returns true if no run of the job has started since the inventory; one that has is reported.
    async fn nothing_started(&self, remains: &Inventory) -> bool {
        match self.look.ours_running(&remains.stem, &remains.job).await {
            Ok(jobs) => {
                let known = |job: &&TrainingJob| remains.running.iter().any(|one| one.name == job.name);
                let started: Vec<&TrainingJob> = jobs.iter().filter(|job| !known(job)).collect();
                for job in &started {
                    self.started(job);
                }
                started.is_empty()
            }
            Err(fault) => {
                self.recorder.failed(&Item::new("training-job", &remains.stem), Cause::Fault(fault));
                false
            }
        }
    }

    fn started(&self, job: &TrainingJob) {
        let change = Change {
            kind: "training-job",
            name: job.name.clone(),
            action: Action::Stop(Obstacle::StartedMeanwhile),
            because: format!("`{}` was started after the account was read: {}", job.name, job.status),
            differences: Vec::new(),
            shared_with: Vec::new(),
        };
        self.recorder.failed(&Item::new("training-job", &job.name), Cause::Obstacle(change));
    }

    fn settle(&self, item: &Item, result: Result<(), Cause>, what: &'static str) -> bool {
        match result {
            Ok(()) => {
                self.recorder.done(item, what, None);
                true
            }
            Err(cause) => {
                self.recorder.failed(item, cause);
                false
            }
        }
    }

    /// Stops a job and waits until it has stopped: it uploads what it has with the role that goes next.
    pub async fn stop(&self, item: &Item, name: &str) -> Result<(), Cause> {
        let look = &self.look;
        let mut wait = Wait::start(look.clock, look.patience.making);
        let mut asked = false;
        loop {
            let found = absent(look.ask(async |cloud| cloud.training_job(name).await).await)?;
            let Some(job) = found.filter(|job| !job.is_over()) else { return Ok(()) };
            if !asked && job.status != "Stopping" {
                self.recorder.doing(item, "stop");
                match look.ask(async |cloud| cloud.stop_training_job(name).await).await {
                    Ok(()) => asked = true,
                    // It ended by itself, or is ending.
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
            self.recorder.waiting(item, &job.secondary, wait.seconds(look.clock));
            wait.long(look.clock, &look.patience).await;
        }
    }

    /// Deletes a file system with its links, unless another job has come to it: looked at before the first link goes, and
    /// again when they are gone, for that takes minutes. Whether it did.
    async fn take_away(&self, item: &Item, system: &FileSystem, links: &[Association], job: &str) -> bool {
        for links in [links, &[]] {
            match self.leave(item, system, job).await {
                Ok(Stay::Alone | Stay::Gone) => {}
                Ok(Stay::Left) => {
                    self.recorder.done(item, "left", None);
                    return false;
                }
                Err(cause) => {
                    self.recorder.failed(item, cause);
                    return false;
                }
            }
            let mut unlinked = true;
            for link in links {
                let item = Item::new("association", &link.id);
                unlinked &= self.settle(&item, self.unlink(&item, link).await, "deleted");
            }
            if !unlinked {
                self.recorder.left(item.clone());
                return false;
            }
        }
        self.settle(item, self.delete_file_system(item, &system.id).await, "deleted");
        true
    }

    /// That a file system is this job's alone by now, and goes only when that was shown.
    fn alone(&self, item: &Item, id: &str) {
        let change = Change {
            kind: "file-system",
            name: id.to_owned(),
            action: Action::Stop(Obstacle::BecameSoleUser),
            because: format!(
                "the other jobs stopped using `{id}` after the account was read: this job is now its only user"
            ),
            differences: Vec::new(),
            shared_with: Vec::new(),
        };
        self.recorder.failed(item, Cause::Obstacle(change));
    }

    /// Removes the job's tag from a file system that others use; does nothing if no other job uses it.
    async fn leave(&self, item: &Item, system: &FileSystem, job: &str) -> Result<Stay, Cause> {
        let look = &self.look;
        let mut unseen = Wait::start(look.clock, look.patience.unseen);
        let mut asked = false;
        loop {
            let found = absent(look.ask(async |cloud| cloud.file_system(&system.id).await).await)?;
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
                self.recorder.doing(item, "leave");
                let (written, goes) = ownership::leaving(&found.tags, job);
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
                // A later look leaves it again, if what was seen was not only late.
                return Ok(Stay::Left);
            }
            self.recorder.waiting(
                item,
                "until FSx shows that this job no longer uses it",
                unseen.seconds(look.clock),
            );
            unseen.short(look.clock, &look.patience).await;
        }
    }

    async fn unlink(&self, item: &Item, link: &Association) -> Result<(), Cause> {
        self.recorder.doing(item, "delete");
        let id = link.id.as_str();
        self.until_gone(
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
        self.recorder.doing(item, "delete");
        self.until_gone(
            item,
            async || self.look.ask(async |cloud| cloud.delete_file_system(id).await).await,
            async || {
                let found = absent(self.look.ask(async |cloud| cloud.file_system(id).await).await)?;
                Ok(found.map(|one| one.lifecycle))
            },
        )
        .await
    }

    /// Deletes, and looks until nothing is left.
    async fn until_gone(
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
                    // It is still being made or updated.
                    Err(fault)
                        if matches!(fault.class, Class::Busy | Class::Invalid)
                            && !wait.is_over(look.clock) => {}
                    Err(fault) => return Err(fault.into()),
                }
            }
            if wait.is_over(look.clock) {
                return Err(Cause::Late { state: now, seconds: wait.seconds(look.clock) });
            }
            self.recorder.waiting(item, &now, wait.seconds(look.clock));
            wait.long(look.clock, &look.patience).await;
        }
    }

    async fn delete_role(&self, item: &Item, found: &ObservedRole) -> Result<(), Cause> {
        let name = found.role.name.as_str();
        if let Some(more) = theirs(found) {
            // Somebody added these: the role has become theirs as well.
            return Err(Cause::Fault(Fault::answered(
                super::calls::Call::DeleteRole,
                Some(409),
                "DeleteConflict",
                &format!("someone added {more} to it"),
            )));
        }
        let mut wait = Wait::start(self.look.clock, self.look.patience.unseen);
        self.recorder.doing(item, "delete");
        loop {
            let policy = self.look.ask(async |cloud| cloud.delete_role_policy(name, POLICY_NAME).await).await;
            absent(policy)?;
            match absent(self.look.ask(async |cloud| cloud.delete_role(name).await).await) {
                Ok(_) => return Ok(()),
                Err(fault) if fault.class == Class::Busy && !wait.is_over(self.look.clock) => {
                    self.recorder.waiting(item, &fault.message, wait.seconds(self.look.clock));
                    wait.short(self.look.clock, &self.look.patience).await;
                }
                Err(fault) => return Err(fault.into()),
            }
        }
    }
}

/// Returns true for resources deleted last: the role and the uploads.
fn is_cheap(kind: &str) -> bool {
    !matches!(kind, "file-system" | "association" | "training-job")
}
