//! The driver: brings each resource to the state of the plan, in order of dependencies, from any state.
//!
//! Each resource is handled in a loop: read, compare, make the first missing call, read again. A lost
//! response, an earlier crash and a concurrent apply are therefore one case: existing resources are compared,
//! and used if they are ours. Cheap and reversible resources come first (role, archive), then those that are
//! billed by the hour (file systems), and the job last.

mod job;
mod locks;
mod role;
mod storage;

pub use locks::ResourceLocks;

use crate::account::Object;
use crate::calls::Call;
use crate::change::{Action, Choices, Target};
use crate::cloud::{Answer, Clock, Cloud};
use crate::desired::{Desired, WantedObject};
use crate::diff::{self, association_change, role_change};
use crate::fault::{Class, Fault};
use crate::file_systems;
use crate::ledger::{Cause, Item, Outcome, Recorder};
use crate::look::Look;
use crate::observed::{Corruption, Observed};
use crate::patience::Wait;
use futures_util::future::join_all;
use futures_util::join;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;
use trainc_emit::{ResourceKind, Verb};

/// Time for which a missing resource is polled before it counts as deleted.
const SEEN_LATE: Duration = Duration::from_secs(30);

/// Creates and updates the resources of a plan.
pub struct Driver<'a, C, K> {
    /// The account.
    pub look: Look<'a, C, K>,
    /// The resources that the account must have.
    pub desired: &'a Desired,
    /// The user's choices.
    pub choices: Choices,
    /// The recorder of events.
    pub recorder: Recorder<'a>,
    /// True if this run has written to IAM, which dependent services may not see yet.
    pub wrote_iam: Cell<bool>,
    /// Entity tags of the objects that this run has uploaded, by URI.
    pub written: RefCell<BTreeMap<String, String>>,
    /// Locks on resources that other jobs of the same command may create too.
    pub locks: &'a ResourceLocks,
}

/// An existing file system: its name in the manifest, its ID, its mount name.
pub type Mounted = (String, String, String);

impl<C: Cloud, K: Clock> Driver<'_, C, K> {
    /// Creates everything. The ledger records results, failures and resources that were not started. Returns
    /// the job's name once it exists.
    pub async fn run(&self, target: &Target) -> Option<String> {
        let desired = self.desired;
        let (role, uploads) = join!(self.apply_role(), self.apply_uploads(target));
        let job = Item::new(ResourceKind::TrainingJob, &name_of(target, desired));
        if role.is_none() || uploads.is_none() {
            for item in desired.items(ResourceKind::FileSystem) {
                self.recorder.record_not_started(item);
            }
            self.record_unstarted_job(target, job);
            return None;
        }
        match self.has_lost_file_system(target).await {
            Ok(false) => {}
            // The current run cannot mount a new file system.
            Ok(true) => return self.apply_job(&job, target, &[]).await,
            Err(cause) => {
                self.recorder.record_failure(&job, cause);
                return None;
            }
        }
        let systems = join_all(desired.file_systems.iter().map(|wanted| self.apply_storage(wanted))).await;
        let Some(systems) = systems.into_iter().collect::<Option<Vec<Mounted>>>() else {
            self.record_unstarted_job(target, job);
            return None;
        };
        let systems = match self.recheck_resources(target, systems).await {
            Ok(Some(systems)) => systems,
            Ok(None) => {
                self.record_unstarted_job(target, job);
                return None;
            }
            Err(cause) => {
                self.recorder.record_failure(&job, cause);
                return None;
            }
        };
        if matches!(target, Target::Start(_)) && self.apply_key().await.is_none() {
            self.record_unstarted_job(target, job);
            return None;
        }
        self.apply_job(&job, target, &systems).await
    }

    /// Returns true if the current run continues without a file system that it was started with.
    async fn has_lost_file_system(&self, target: &Target) -> Result<bool, Cause> {
        if self.desired.file_systems.is_empty() || !matches!(target, Target::Attach(_)) {
            return Ok(false);
        }
        let seen = self.look.observe(self.desired, self.choices).await?;
        Ok(!diff::lost_file_systems(self.desired, &seen, self.choices).is_empty())
    }

    /// Reads everything again right before the job is started: creating a file system takes a quarter of an
    /// hour, during which someone may have destroyed resources that were created before it. Deleted resources
    /// are reported and not created again. Returns `None` if a resource is gone or could not be repaired.
    async fn recheck_resources(
        &self,
        target: &Target,
        systems: Vec<Mounted>,
    ) -> Result<Option<Vec<Mounted>>, Cause> {
        if !matches!(target, Target::Start(_)) {
            return Ok(Some(systems));
        }
        // Existing resources may be missing in a delayed read.
        let mut late = Wait::start(self.look.clock, SEEN_LATE);
        let seen = loop {
            let seen = self.look.observe(self.desired, self.choices).await?;
            let gone = self.vanished_resources(&seen, &systems);
            let Some(first) = gone.first() else { break seen };
            if late.is_over(self.look.clock) {
                for item in &gone {
                    self.recorder.record_failure(item, Cause::Gone);
                }
                return Ok(None);
            }
            self.pause(first, &mut late, "until it is visible again").await?;
        };
        let mut all = true;
        for object in self.desired.uploads.iter().filter(|one| seen.corrupted_uploads.contains_key(&one.uri))
        {
            let item = Item::new(object.kind, &object.uri);
            let word = self.ok_or_record(&item, self.ensure_uploaded(object, &item).await);
            if let Some(word) = word.filter(|word| *word != Outcome::Unchanged) {
                self.recorder.record_done(&item, word, None);
            }
            all &= word.is_some();
        }
        if let Some(wanted) = &self.desired.role {
            // Another version may have written its own policy in the meantime.
            let (.., steps) = role_change(wanted, seen.role.as_ref(), self.choices);
            all &= steps.is_empty() || self.apply_role().await.is_some();
        }
        let mut out = Vec::new();
        for ((wanted, found), made) in self.desired.file_systems.iter().zip(&seen.file_systems).zip(systems) {
            let linked = wanted.associations.iter().all(|link| {
                association_change(link, Some(&made.1), &found.associations).action == Action::Unchanged
            });
            match if linked { Some(made) } else { self.apply_storage(wanted).await } {
                Some(made) => out.push(made),
                None => all = false,
            }
        }
        Ok(all.then_some(out))
    }

    /// Returns the resources that existed and are no longer visible.
    fn vanished_resources(&self, seen: &Observed, systems: &[Mounted]) -> Vec<Item> {
        let desired = self.desired;
        let is_gone = |name: &str| {
            let at = desired.file_systems.iter().position(|wanted| wanted.name == name);
            at.and_then(|at| seen.file_systems.get(at).zip(systems.get(at))).is_some_and(|(found, made)| {
                file_systems::oldest_live(&found.systems).is_none_or(|system| system.id != made.1)
            })
        };
        let has_vanished = |kind: ResourceKind| match kind {
            ResourceKind::Role if seen.role.is_none() => desired.items(kind),
            ResourceKind::Bucket if !seen.bucket => desired.items(kind),
            // Its loss is repaired with the role.
            ResourceKind::RolePolicy | ResourceKind::Role | ResourceKind::Bucket => Vec::new(),
            ResourceKind::FileSystem => {
                let mut all = desired.items(kind);
                all.retain(|item| is_gone(&item.name));
                all
            }
            ResourceKind::Association => {
                let pairs = desired.file_systems.iter().zip(&seen.file_systems).zip(systems);
                let links = pairs.filter(|((wanted, _), _)| !is_gone(&wanted.name)).flat_map(
                    |((wanted, found), made)| {
                        wanted.associations.iter().filter(|link| {
                            let change = association_change(link, Some(&made.1), &found.associations);
                            change.action == Action::Create
                        })
                    },
                );
                links.map(|link| Item::new(kind, &link.name)).collect()
            }
            ResourceKind::Source | ResourceKind::Worker => {
                let uploads = desired.uploads.iter().zip(&seen.uploads);
                let gone = uploads.filter(|(object, there)| object.kind == kind && !**there);
                gone.map(|(object, _)| Item::new(kind, &object.uri)).collect()
            }
            // It is not started yet.
            ResourceKind::TrainingJob => Vec::new(),
        };
        ResourceKind::ALL.iter().flat_map(|kind| has_vanished(*kind)).collect()
    }

    /// Adopts a run that has ended, and nothing else: the resources it needed are no longer needed.
    pub async fn adopt_finished(&self, target: &Target) -> Option<String> {
        self.apply_job(&Item::new(ResourceKind::TrainingJob, &name_of(target, self.desired)), target, &[])
            .await
    }

    /// Records that a job was not started, unless it already runs.
    fn record_unstarted_job(&self, target: &Target, job: Item) {
        if matches!(target, Target::Start(_)) {
            self.recorder.record_not_started(job);
        }
    }

    /// Records a failure, if any.
    fn ok_or_record<T>(&self, item: &Item, result: Result<T, Cause>) -> Option<T> {
        result.map_err(|cause| self.recorder.record_failure(item, cause)).ok()
    }

    fn timeout_cause(&self, wait: &Wait, state: impl Into<String>) -> Cause {
        Cause::Late { state: state.into(), seconds: wait.seconds(self.look.clock) }
    }

    async fn apply_bucket(&self) -> Option<()> {
        let Some(name) = &self.desired.bucket else { return Some(()) };
        let item = Item::new(ResourceKind::Bucket, name);
        let lock = self.locks.lock_of(&item);
        let _guard = lock.lock().await;
        let account = self.desired.account.as_str();
        let ensure = async {
            let seen = async || self.look.has_bucket(name, account).await;
            let make = async || self.look.ask(async |cloud| cloud.create_bucket(name).await).await;
            self.ensure_there(&item, seen, make).await
        };
        self.ok_or_record(&item, ensure.await)
    }

    /// Creates the bucket and uploads the objects.
    async fn apply_uploads(&self, target: &Target) -> Option<()> {
        let objects = &self.desired.uploads;
        if self.apply_bucket().await.is_none() {
            for object in objects {
                self.recorder.record_not_started(Item::new(object.kind, &object.uri));
            }
            return None;
        }
        join_all(objects.iter().map(|object| self.upload(object, target))).await.into_iter().collect()
    }

    /// Uploads an object, except for a started run, which has already read the existing object.
    async fn upload(&self, object: &WantedObject, target: &Target) -> Option<()> {
        let item = Item::new(object.kind, &object.uri);
        let ensure = async {
            if matches!(target, Target::Attach(_)) && self.look.object_at(object).await?.is_some() {
                return Ok(Outcome::Unchanged);
            }
            self.ensure_uploaded(object, &item).await
        };
        let word = self.ok_or_record(&item, ensure.await)?;
        self.recorder.record_done(&item, word, None);
        Some(())
    }

    /// Uploads an object unless its key has the same content, which is proven by the checksum or, if that is
    /// not readable, by the entity tag of this run's own upload. Overwrites any other content. Returns what
    /// was done.
    async fn ensure_uploaded(&self, object: &WantedObject, item: &Item) -> Result<Outcome, Cause> {
        let mut wait = self.visibility_wait();
        let mut made = None;
        loop {
            let found = self.look.object_at(object).await?;
            let other = found.as_ref().and_then(|found| Corruption::find(&object.upload, found));
            let is_own = |found: &Object| {
                found.etag.is_some() && self.written.borrow().get(&object.uri) == found.etag.as_ref()
            };
            match (&found, other, made) {
                (Some(_), None, _) => return Ok(made.unwrap_or(Outcome::Unchanged)),
                (Some(found), Some(Corruption::Unverified), _) if is_own(found) => {
                    return Ok(made.unwrap_or(Outcome::Unchanged));
                }
                (None, _, Some(made)) => {
                    let state = if made == Outcome::Found {
                        "until it is visible: S3 reports that it exists (PreconditionFailed)"
                    } else {
                        "until it can be read back"
                    };
                    self.pause(item, &mut wait, state).await?;
                    continue;
                }
                // Another writer is active, or this run's own write is not visible yet.
                (Some(_), Some(_), Some(Outcome::Created | Outcome::Updated)) => {
                    self.pause(item, &mut wait, "until it can be read back").await?;
                }
                _ => {}
            }
            self.recorder.record_action(item, if other.is_some() { Verb::Update } else { Verb::Create });
            let put =
                self.look.ask(async |cloud| cloud.put_object(&object.upload, other.is_some()).await).await;
            match (put, other) {
                (Ok(etag), _) => {
                    self.written.borrow_mut().extend(etag.map(|etag| (object.uri.clone(), etag)));
                    made = Some(if other.is_some() && made != Some(Outcome::Created) {
                        Outcome::Updated
                    } else {
                        Outcome::Created
                    });
                }
                (Err(fault), None) if fault.class == Class::Exists => made = Some(Outcome::Found),
                (Err(fault), Some(other)) if fault.class == Class::Denied => {
                    return Err(Cause::Obstacle(diff::foreign_upload_change(object, other, &fault)));
                }
                (Err(fault), _) => self.pause_for(item, &mut wait, fault).await?,
            }
        }
    }

    /// Writes the key of the job's hosts unless an earlier apply did: all hosts of a run must read the same
    /// key.
    async fn apply_key(&self) -> Option<()> {
        let Some(key) = &self.desired.key else { return Some(()) };
        let item = Item::new(key.kind, &key.uri);
        let mut wait = self.visibility_wait();
        let write = async {
            loop {
                match self.look.ask(async |cloud| cloud.put_random_key(key).await).await {
                    Ok(()) => return Ok(()),
                    Err(fault) if fault.class == Class::Exists => return Ok(()),
                    Err(fault) => self.pause_for(&item, &mut wait, fault).await?,
                }
            }
        };
        self.ok_or_record(&item, write.await)
    }

    /// Creates a resource that either exists or not, without settings to compare.
    async fn ensure_there(
        &self,
        item: &Item,
        seen: impl AsyncFn() -> Answer<bool>,
        make: impl AsyncFn() -> Answer<()>,
    ) -> Result<(), Cause> {
        let mut wait = self.visibility_wait();
        let mut made = None;
        loop {
            if seen().await? {
                self.recorder.record_done(item, made.unwrap_or(Outcome::Unchanged), None);
                return Ok(());
            }
            if made.is_some() {
                let state = match made {
                    Some(Outcome::Found) => {
                        "until it is visible: S3 reports that it exists (BucketAlreadyOwnedByYou)"
                    }
                    _ => "until it can be read back",
                };
                self.pause(item, &mut wait, state).await?;
                continue;
            }
            self.recorder.record_action(item, Verb::Create);
            match make().await {
                Ok(()) => made = Some(Outcome::Created),
                Err(fault) if fault.class == Class::Exists => made = Some(Outcome::Found),
                Err(fault) => self.pause_for(item, &mut wait, fault).await?,
            }
        }
    }

    fn visibility_wait(&self) -> Wait {
        Wait::start(self.look.clock, self.look.patience.unseen)
    }

    /// Pauses until a change is visible; fails after the timeout.
    async fn pause(&self, item: &Item, wait: &mut Wait, state: &str) -> Result<(), Cause> {
        if wait.is_over(self.look.clock) {
            return Err(self.timeout_cause(wait, state));
        }
        self.recorder.report_wait(item, state, wait.seconds(self.look.clock));
        wait.pause_short(self.look.clock, &self.look.patience).await;
        Ok(())
    }

    /// Pauses after a transient fault; fails after a permanent one or after the timeout.
    async fn pause_for(&self, item: &Item, wait: &mut Wait, fault: Fault) -> Result<(), Cause> {
        let passes = match fault.class {
            Class::Busy | Class::NotPropagated => true,
            // The next call may not see a new resource. A bucket of the user is not created here.
            Class::NotFound => {
                let uploads = matches!(fault.call, Call::PutObject | Call::CreateMultipartUpload);
                !uploads || self.desired.bucket.is_some()
            }
            _ => false,
        };
        if !passes || wait.is_over(self.look.clock) {
            return Err(fault.into());
        }
        self.recorder.report_wait(item, &fault.message, wait.seconds(self.look.clock));
        wait.pause_short(self.look.clock, &self.look.patience).await;
        Ok(())
    }
}

fn name_of(target: &Target, desired: &Desired) -> String {
    match target {
        Target::Attach(name) | Target::Start(name) => name.clone(),
        Target::Blocked(_) => desired.name_of_run(1).unwrap_or_default(),
    }
}

/// Returns what was done: `unchanged`, `created` or `updated`.
fn outcome_word<S: PartialEq>(made: &[S], create: &S) -> Outcome {
    match made {
        [] => Outcome::Unchanged,
        steps if steps.contains(create) => Outcome::Created,
        _ => Outcome::Updated,
    }
}
