//! File systems and their associations: created and waited for, or used if they exist.

use super::{Driver, Mounted, outcome_word};
use crate::account::FileSystem;
use crate::change::{Action, Difference};
use crate::cloud::{Answer, Clock, Cloud};
use crate::desired::{WantedAssociation, WantedFileSystem};
use crate::diff::{self, FileSystemStep, association_change, file_system_change};
use crate::fault::{Class, Fault};
use crate::file_systems;
use crate::ledger::{Cause, Item, Outcome};
use crate::ownership;
use crate::patience::{Wait, none_if_not_found};
use crate::verdict::is_file_system_count;
use trainc_catalog::quotas;
use trainc_emit::fsx::{association_token, next_token};
use trainc_emit::{ResourceKind, Verb};

/// Maximum number of updates of a file system's settings per apply, in case others change them at the same
/// time.
const MOST_UPDATES: u32 = 5;
/// Maximum number of generations of a client token.
const MOST_GENERATIONS: u32 = 9;

impl<C: Cloud, K: Clock> Driver<'_, C, K> {
    pub(super) async fn apply_storage(&self, wanted: &WantedFileSystem) -> Option<Mounted> {
        let item = Item::new(ResourceKind::FileSystem, &wanted.name);
        let found = self.ensure_file_system(wanted, &item).await;
        let links =
            || wanted.associations.iter().map(|link| Item::new(ResourceKind::Association, &link.name));
        let Some((system, mount)) = self.ok_or_record(&item, found) else {
            links().for_each(|link| self.recorder.record_not_started(link));
            return None;
        };
        // FSx creates one association at a time and queues eight.
        let mut all = true;
        for link in &wanted.associations {
            let item = Item::new(ResourceKind::Association, &link.name);
            all &= self.ok_or_record(&item, self.ensure_association(&system.id, link, &item).await).is_some();
        }
        all.then(|| (wanted.name.clone(), system.id.clone(), mount))
    }

    /// Adds the required quota to a fault: the sum over the account's file systems of this type and the new
    /// one. The service only names the quota.
    async fn with_needed_quota(&self, wanted: &WantedFileSystem, fault: Fault) -> Fault {
        let kind = wanted.create.lustre_configuration.deployment_type.as_deref().unwrap_or("SCRATCH_1");
        let quota = |kind: &str| quotas::lustre(kind).and_then(|(capacity, _)| capacity.code);
        let Some(code) = quota(kind) else { return fault };
        let Ok(all) = self.look.ask(async |cloud| cloud.file_systems().await).await else { return fault };
        let same = all.iter().filter(|one| one.deployment.as_deref().and_then(quota).as_ref() == Some(&code));
        let needs = if is_file_system_count(&fault) {
            same.count() as u64 + 1
        } else {
            same.map(|one| one.capacity_gib).sum::<u64>() + wanted.create.storage_capacity
        };
        fault.with_needed_quota(needs)
    }

    async fn ensure_file_system(
        &self,
        wanted: &WantedFileSystem,
        item: &Item,
    ) -> Result<(FileSystem, String), Cause> {
        let look = &self.look;
        let mut unseen = self.visibility_wait();
        let mut making = Wait::start(look.clock, look.patience.making);
        let mut made: Vec<FileSystemStep> = Vec::new();
        let mut id: Option<String> = None;
        let mut generation = 1;
        let (mut adopted, mut joined, mut seen) = (false, false, false);
        let mut mismatch: Option<Fault> = None;
        // The last update, and the number of updates.
        let (mut updated, mut updates) = (Vec::new(), 0);
        // Of the jobs of this command that share it, one creates it; the others wait until it is visible.
        let lock = self.locks.lock_of(&Item::new(item.kind, &wanted.create.client_request_token));
        let mut guard = Some(lock.lock().await);
        loop {
            let mut systems = look.find_storage_file_systems(self.desired, wanted).await?;
            if let Some(id) = id.as_deref().filter(|id| systems.iter().all(|one| one.id != **id)) {
                let direct = look.ask(async |cloud| cloud.file_system(id).await).await;
                systems.extend(none_if_not_found(direct)?);
            }
            let (change, steps) = file_system_change(wanted, &systems, self.choices);
            if matches!(change.action, Action::Stop(_)) {
                return Err(Cause::Obstacle(change));
            }
            let Some(system) = file_systems::oldest_live(&systems) else {
                if seen {
                    return Err(Cause::Gone);
                }
                if made.contains(&FileSystemStep::Create) {
                    // Includes one that another job's request created and that failed.
                    let is_going = |one: &FileSystem| matches!(one.lifecycle.as_str(), "DELETING" | "FAILED");
                    let going = systems.iter().any(|one| Some(&one.id) == id.as_ref() && is_going(one));
                    if !going && !unseen.is_over(look.clock) {
                        self.pause(item, &mut unseen, "until FSx shows the file system").await?;
                        continue;
                    }
                    // The file system of this token is gone: the next generation creates another.
                    generation += 1;
                    if generation > MOST_GENERATIONS {
                        if let Some(fault) = mismatch {
                            return Err(Cause::Fault(fault));
                        }
                        return Err(self.timeout_cause(&making, "until FSx shows the file system"));
                    }
                    made.clear();
                    id = None;
                    unseen = self.visibility_wait();
                    continue;
                }
                let mut request = wanted.create.clone();
                request.client_request_token = next_token(&request.client_request_token, generation);
                self.recorder.record_action(item, Verb::Create);
                match look.ask(async |cloud| cloud.create_file_system(&request).await).await {
                    Ok(new) => {
                        id = Some(new);
                        made.push(FileSystemStep::Create);
                        mismatch = None;
                    }
                    // The token was used with other settings: the file system that it created may not be
                    // visible yet, or may have lost its tags. A second one is never created in addition to
                    // it.
                    Err(fault) if fault.class == Class::Mismatch => {
                        let all = look.ask(async |cloud| cloud.file_systems().await).await?;
                        match file_systems::untagged_twins(wanted, &all).as_slice() {
                            [] => {
                                made.push(FileSystemStep::Create);
                                mismatch = Some(fault);
                            }
                            [one] if self.choices.adopt => id = Some(one.id.clone()),
                            [one, ..] => {
                                return Err(Cause::Obstacle(diff::untagged_twin_change(wanted, one)));
                            }
                        }
                    }
                    Err(fault) if fault.class == Class::Quota => {
                        return Err(self.with_needed_quota(wanted, fault).await.into());
                    }
                    Err(fault) => self.pause_for(item, &mut unseen, fault).await?,
                }
                continue;
            };
            (id, seen) = (Some(system.id.clone()), true);
            drop(guard.take());
            // The effect of the request is only known now, so differences are reported here.
            joined |= file_systems::is_shareable(wanted, system)
                && !ownership::uses(&system.tags, &self.desired.job);
            if change.action == Action::Adopt && !adopted {
                self.recorder.record_adoption(item, &change);
                adopted = true;
            }
            let what = match outcome_word(&made, &FileSystemStep::Create) {
                _ if adopted => Outcome::Adopted,
                Outcome::Updated if joined && made.len() == 1 => Outcome::Shared,
                said => said,
            };
            let settings: Vec<Difference> =
                change.differences.iter().filter(|one| !one.what.starts_with("tag ")).cloned().collect();
            let is_update = |step: &FileSystemStep| matches!(step, FileSystemStep::Update { .. });
            // Another job's apply, based on an older read, may have reverted this update: it is then
            // repeated.
            if updates < MOST_UPDATES && !settings.is_empty() && settings != updated {
                made.retain(|step| !is_update(step));
            }
            if let Some(step) = steps.iter().find(|step| !made.contains(step)) {
                self.recorder.record_action(item, Verb::Update);
                match self.file_system_step(step).await {
                    Ok(()) => {
                        if is_update(step) {
                            (updated, updates) = (settings, updates + 1);
                        }
                        made.push(step.clone());
                        // This wait excludes the time of creation.
                        unseen = self.visibility_wait();
                    }
                    Err(fault) => self.pause_for(item, &mut unseen, fault).await?,
                }
                continue;
            }
            match (system.lifecycle.as_str(), &system.mount) {
                // A file system stays usable during an update, and shows its new settings afterwards.
                ("UPDATING", Some(mount)) => return Ok(self.record_mounted(item, what, system, mount)),
                ("AVAILABLE", Some(mount)) if steps.is_empty() => {
                    return Ok(self.record_mounted(item, what, system, mount));
                }
                ("AVAILABLE", _) => self.pause(item, &mut unseen, "until FSx shows the change").await?,
                (state, _) => {
                    if making.is_over(look.clock) {
                        return Err(self.timeout_cause(&making, format!("{} is {state}", system.id)));
                    }
                    self.recorder.report_wait(item, state, making.seconds(look.clock));
                    making.pause_poll(look.clock, &look.patience).await;
                }
            }
        }
    }

    fn record_mounted(
        &self,
        item: &Item,
        what: Outcome,
        system: &FileSystem,
        mount: &str,
    ) -> (FileSystem, String) {
        let others = ownership::others(&system.tags, &self.desired.job);
        self.recorder.record_done_shared(item, what, Some(&system.id), &others);
        (system.clone(), mount.to_owned())
    }

    async fn file_system_step(&self, step: &FileSystemStep) -> Answer<()> {
        let look = &self.look;
        match step {
            FileSystemStep::Create => Ok(()),
            FileSystemStep::Tag { arn, tags } => {
                look.ask(async |cloud| cloud.tag_file_system(arn, tags).await).await
            }
            FileSystemStep::Update { id, change } => {
                look.ask(async |cloud| cloud.update_file_system(id, change).await).await
            }
        }
    }

    async fn ensure_association(
        &self,
        id: &str,
        wanted: &WantedAssociation,
        item: &Item,
    ) -> Result<(), Cause> {
        let look = &self.look;
        let mut unseen = self.visibility_wait();
        let mut making = Wait::start(look.clock, look.patience.making);
        let mut made = Outcome::Unchanged;
        let mut generation = 1;
        let mut mismatch: Option<Fault> = None;
        loop {
            let found = look.associations(id).await?;
            let change = association_change(wanted, Some(id), &found);
            match &change.action {
                Action::Stop(_) => return Err(Cause::Obstacle(change)),
                Action::Create if made == Outcome::Created => {
                    if unseen.is_over(look.clock) && generation < MOST_GENERATIONS {
                        generation += 1;
                        made = Outcome::Unchanged;
                        unseen = self.visibility_wait();
                        continue;
                    }
                    if unseen.is_over(look.clock)
                        && let Some(fault) = mismatch
                    {
                        return Err(Cause::Fault(fault));
                    }
                    self.pause(item, &mut unseen, "until FSx shows the association").await?;
                }
                Action::Create => {
                    let mut request = wanted.create.clone();
                    id.clone_into(&mut request.file_system_id);
                    request.client_request_token = association_token(
                        id,
                        &request.file_system_path,
                        &request.data_repository_path,
                        generation,
                    );
                    self.recorder.record_action(item, Verb::Create);
                    match look.ask(async |cloud| cloud.create_association(&request).await).await {
                        Ok(_) => (made, mismatch) = (Outcome::Created, None),
                        Err(fault) if fault.class == Class::Mismatch => {
                            (made, mismatch) = (Outcome::Created, Some(fault));
                        }
                        Err(fault) => self.pause_for(item, &mut unseen, fault).await?,
                    }
                }
                Action::Wait => {
                    if making.is_over(look.clock) {
                        return Err(self.timeout_cause(&making, change.because));
                    }
                    self.recorder.report_wait(item, "CREATING", making.seconds(look.clock));
                    making.pause_poll(look.clock, &look.patience).await;
                }
                Action::Update | Action::Unchanged | Action::Skip | Action::Adopt => {
                    self.recorder.record_done(item, made, None);
                    return Ok(());
                }
            }
        }
    }
}
