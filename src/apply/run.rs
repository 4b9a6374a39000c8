//! The driver: makes each resource what the plan wants, in the order of their need, from whatever state.
//!
//! Every resource goes the same way: look, compare, make the first call that is missing, look again. So a lost
//! answer, a crash before and a second apply beside are one case: what is there is compared, and taken if it is ours.
//! The cheap and reversible come first (role, archive), then what costs money for every hour (file systems), and the
//! job last.

use super::account::{FileSystem, Tags};
use super::calls::Call;
use super::cloud::{Answer, Clock, Cloud};
use super::desired::{Desired, WantedAssociation, WantedFileSystem, WantedObject, WantedRole};
use super::diff::{
    self, Action, Change, Choices, FileSystemStep, Obstacle, RoleStep, Target, association_change,
    file_system_change, role_change,
};
use super::fault::{Class, Fault};
use super::ledger::{Cause, Item, Telling};
use super::observed::Look;
use super::patience::Wait;
use crate::emit::fsx::{association_token, next_token};
use crate::emit::iam::POLICY_NAME;
use futures_util::future::join_all;
use std::cell::Cell;
use std::time::Duration;

/// What is made, and with whose help.
pub struct Driver<'a, C, K> {
    /// The account.
    pub look: Look<'a, C, K>,
    /// What it must hold.
    pub desired: &'a Desired,
    /// What the user chose.
    pub choices: Choices,
    /// Who is told.
    pub telling: Telling<'a>,
    /// Whether this run has written to IAM: what depends on it may not see that yet.
    pub wrote_iam: Cell<bool>,
}

/// A file system that is there: its name in the manifest, its id, its mount name.
pub type Mounted = (String, String, String);

/// The most generations of one token that are tried.
const MOST_GENERATIONS: u32 = 9;

/// How long a job that may not assume its role yet is tried again when this run wrote nothing: a run before it may
/// have, a moment ago.
const OTHERS_UNSEEN: Duration = Duration::from_secs(30);

impl<C: Cloud, K: Clock> Driver<'_, C, K> {
    /// Makes everything. What was done, failed and left stands in the ledger; the name is the job's, once it is there.
    pub async fn run(&self, target: &Target) -> Option<String> {
        let desired = self.desired;
        let mut cheap = vec![self.role().await];
        cheap.push(self.bucket().await);
        cheap.extend(join_all(desired.uploads.iter().map(|object| self.upload(object))).await);
        let job = Item::new("training-job", name_of(target, desired));
        if cheap.iter().any(Option::is_none) {
            for system in &desired.file_systems {
                self.telling.left(Item::new("file-system", &system.name));
            }
            self.telling.left(job);
            return None;
        }
        let systems = join_all(desired.file_systems.iter().map(|wanted| self.storage(wanted))).await;
        let Some(systems) = systems.into_iter().collect::<Option<Vec<Mounted>>>() else {
            self.telling.left(job);
            return None;
        };
        self.job(&job, target, &systems).await
    }

    /// Keeps the record of one resource.
    fn settle<T>(&self, item: &Item, result: Result<T, Cause>) -> Option<T> {
        result.map_err(|cause| self.telling.failed(item, cause)).ok()
    }

    fn late(&self, wait: &Wait, state: impl Into<String>) -> Cause {
        Cause::Late { state: state.into(), seconds: wait.seconds(self.look.clock) }
    }

    async fn role(&self) -> Option<()> {
        let Some(wanted) = &self.desired.role else { return Some(()) };
        let item = Item::new("role", &wanted.create.role_name);
        self.settle(&item, self.ensure_role(wanted, &item).await)
    }

    async fn ensure_role(&self, wanted: &WantedRole, item: &Item) -> Result<(), Cause> {
        let mut wait = self.unseen();
        let mut made: Vec<RoleStep> = Vec::new();
        loop {
            let found = self.look.role(wanted).await?;
            let (change, _, steps) = role_change(wanted, found.as_ref(), self.choices);
            if matches!(change.action, Action::Stop(_)) {
                return Err(Cause::Obstacle(change));
            }
            if steps.is_empty() {
                self.telling.done(item, said(&made, &RoleStep::Create), None);
                return Ok(());
            }
            let Some(step) = steps.into_iter().find(|step| !made.contains(step)) else {
                // Everything was done, and the account does not show it yet.
                self.pause(item, &mut wait, "until IAM shows what was written").await?;
                continue;
            };
            self.telling.doing(item, if step == RoleStep::Create { "create" } else { "update" });
            match self.role_step(wanted, &step).await {
                Ok(()) => {
                    self.wrote_iam.set(true);
                    made.push(step);
                }
                Err(fault) if fault.class == Class::Exists => made.push(step),
                Err(fault) => self.pause_for(item, &mut wait, fault).await?,
            }
        }
    }

    async fn role_step(&self, wanted: &WantedRole, step: &RoleStep) -> Answer<()> {
        let name = wanted.create.role_name.as_str();
        let look = &self.look;
        match step {
            RoleStep::Create => look.ask(async |cloud| cloud.create_role(&wanted.create).await).await,
            RoleStep::Tag(tags) => look.ask(async |cloud| cloud.tag_role(name, tags).await).await,
            RoleStep::Trust => {
                let trust = wanted.create.assume_role_policy_document.as_str();
                look.ask(async |cloud| cloud.update_trust(name, trust).await).await
            }
            RoleStep::Policy => {
                look.ask(async |cloud| cloud.put_role_policy(name, POLICY_NAME, &wanted.policy).await).await
            }
        }
    }

    async fn bucket(&self) -> Option<()> {
        let Some(name) = &self.desired.bucket else { return Some(()) };
        let item = Item::new("bucket", name);
        let account = self.desired.account.as_str();
        let ensure = async {
            let seen = async || self.look.bucket(name, account).await;
            let make = async || self.look.ask(async |cloud| cloud.create_bucket(name).await).await;
            self.ensure_there(&item, seen, make).await
        };
        self.settle(&item, ensure.await)
    }

    async fn upload(&self, object: &WantedObject) -> Option<()> {
        let item = Item::new(object.kind, &object.uri);
        let ensure = async {
            let seen = async || self.look.uploaded(object).await;
            let make = async || self.look.ask(async |cloud| cloud.put_object(&object.upload).await).await;
            self.ensure_there(&item, seen, make).await
        };
        self.settle(&item, ensure.await)
    }

    /// Something that is there or not, and never differs.
    async fn ensure_there(
        &self,
        item: &Item,
        seen: impl AsyncFn() -> Answer<bool>,
        make: impl AsyncFn() -> Answer<()>,
    ) -> Result<(), Cause> {
        let mut wait = self.unseen();
        let mut made = None;
        loop {
            if seen().await? {
                self.telling.done(item, made.unwrap_or("unchanged"), None);
                return Ok(());
            }
            if made.is_some() {
                self.pause(item, &mut wait, "until it can be read back").await?;
                continue;
            }
            self.telling.doing(item, "create");
            match make().await {
                Ok(()) => made = Some("created"),
                Err(fault) if fault.class == Class::Exists => made = Some("found"),
                Err(fault) => self.pause_for(item, &mut wait, fault).await?,
            }
        }
    }

    async fn storage(&self, wanted: &WantedFileSystem) -> Option<Mounted> {
        let item = Item::new("file-system", &wanted.name);
        let found = self.ensure_file_system(wanted, &item).await;
        let links = || wanted.associations.iter().map(|link| Item::new("association", &link.name));
        let Some((system, mount)) = self.settle(&item, found) else {
            links().for_each(|link| self.telling.left(link));
            return None;
        };
        // The service works on one association at a time, and queues eight.
        let mut all = true;
        for link in &wanted.associations {
            let item = Item::new("association", &link.name);
            all &= self.settle(&item, self.ensure_association(&system.id, link, &item).await).is_some();
        }
        all.then(|| (wanted.name.clone(), system.id.clone(), mount))
    }

    async fn ensure_file_system(
        &self,
        wanted: &WantedFileSystem,
        item: &Item,
    ) -> Result<(FileSystem, String), Cause> {
        let look = &self.look;
        let mut unseen = self.unseen();
        let mut making = Wait::start(look.clock, look.patience.making);
        let mut made: Vec<FileSystemStep> = Vec::new();
        let mut id: Option<String> = None;
        let mut generation = 1;
        loop {
            let mut systems = look.file_system(self.desired, wanted).await?;
            if let Some(id) = id.as_deref().filter(|id| systems.iter().all(|one| one.id != **id)) {
                let direct = look.ask(async |cloud| cloud.file_system(id).await).await;
                systems.extend(super::patience::absent(direct)?);
            }
            let (change, steps) = file_system_change(wanted, &systems, self.choices);
            if matches!(change.action, Action::Stop(_)) {
                return Err(Cause::Obstacle(change));
            }
            let Some(system) = diff::live_file_system(&systems) else {
                if made.contains(&FileSystemStep::Create) {
                    let going =
                        systems.iter().any(|one| Some(&one.id) == id.as_ref() && one.lifecycle == "DELETING");
                    if !going && !unseen.is_over(look.clock) {
                        self.pause(item, &mut unseen, "until FSx shows the file system").await?;
                        continue;
                    }
                    // What this token made is gone: the next generation makes another.
                    generation += 1;
                    if generation > MOST_GENERATIONS {
                        return Err(self.late(&making, "until FSx shows the file system"));
                    }
                    made.clear();
                    id = None;
                    unseen = self.unseen();
                    continue;
                }
                let mut request = wanted.create.clone();
                request.client_request_token = next_token(&request.client_request_token, generation);
                self.telling.doing(item, "create");
                match look.ask(async |cloud| cloud.create_file_system(&request).await).await {
                    Ok(new) => {
                        id = Some(new);
                        made.push(FileSystemStep::Create);
                    }
                    // The token was used with other settings: what it made may only be late to show.
                    Err(fault) if fault.class == Class::Mismatch => made.push(FileSystemStep::Create),
                    Err(fault) => self.pause_for(item, &mut unseen, fault).await?,
                }
                continue;
            };
            if let Some(step) = steps.iter().find(|step| !made.contains(step)) {
                self.telling.doing(item, "update");
                match self.file_system_step(step).await {
                    Ok(()) => made.push(step.clone()),
                    Err(fault) => self.pause_for(item, &mut unseen, fault).await?,
                }
                continue;
            }
            match (system.lifecycle.as_str(), &system.mount) {
                // An updated file system stays in use, and shows its new settings when the update is through.
                ("UPDATING", Some(mount)) => return Ok(self.mounted(item, &made, system, mount)),
                ("AVAILABLE", Some(mount)) if steps.is_empty() => {
                    return Ok(self.mounted(item, &made, system, mount));
                }
                ("AVAILABLE", _) => self.pause(item, &mut unseen, "until FSx shows the change").await?,
                (state, _) => {
                    if making.is_over(look.clock) {
                        return Err(self.late(&making, format!("{} is {state}", system.id)));
                    }
                    self.telling.waiting(item, state, making.seconds(look.clock));
                    making.long(look.clock, &look.patience).await;
                }
            }
        }
    }

    fn mounted(
        &self,
        item: &Item,
        made: &[FileSystemStep],
        system: &FileSystem,
        mount: &str,
    ) -> (FileSystem, String) {
        self.telling.done(item, said(made, &FileSystemStep::Create), Some(&system.id));
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
        let mut unseen = self.unseen();
        let mut making = Wait::start(look.clock, look.patience.making);
        let mut made = "unchanged";
        let mut generation = 1;
        loop {
            let found = look.associations(id).await?;
            let change = association_change(wanted, Some(id), &found);
            match &change.action {
                Action::Stop(_) => return Err(Cause::Obstacle(change)),
                Action::Create if made == "created" => {
                    if unseen.is_over(look.clock) && generation < MOST_GENERATIONS {
                        generation += 1;
                        made = "unchanged";
                        unseen = self.unseen();
                        continue;
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
                    self.telling.doing(item, "create");
                    match look.ask(async |cloud| cloud.create_association(&request).await).await {
                        Ok(_) => made = "created",
                        Err(fault) if fault.class == Class::Mismatch => made = "created",
                        Err(fault) => self.pause_for(item, &mut unseen, fault).await?,
                    }
                }
                Action::Wait => {
                    if making.is_over(look.clock) {
                        return Err(self.late(&making, change.because));
                    }
                    self.telling.waiting(item, "CREATING", making.seconds(look.clock));
                    making.long(look.clock, &look.patience).await;
                }
                Action::Update | Action::Unchanged | Action::Skip | Action::Adopt => {
                    self.telling.done(item, made, None);
                    return Ok(());
                }
            }
        }
    }

    async fn job(&self, item: &Item, target: &Target, systems: &[Mounted]) -> Option<String> {
        let result = match target {
            Target::Attach(name) => self.attach(item, name).await,
            Target::Start(name) => self.start_somewhere(item, name, systems).await,
            // The plan was stopped before.
            Target::Blocked(_) => return None,
        };
        self.settle(item, result)
    }

    async fn attach(&self, item: &Item, name: &str) -> Result<String, Cause> {
        if self.choices.adopt
            && let Some((job, tags)) = self.look.job(name).await?
            && !diff::is_same(self.desired, &tags)
        {
            let tags = self.job_tags();
            self.telling.doing(item, "update");
            self.look.ask(async |cloud| cloud.tag_job(&job.arn, &tags).await).await?;
        }
        self.telling.done(item, "unchanged", None);
        Ok(name.to_owned())
    }

    fn job_tags(&self) -> Tags {
        let tags = self.desired.request.get("Tags").and_then(serde_json::Value::as_array);
        let word = |tag: &serde_json::Value, key: &str| {
            tag.get(key).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
        };
        tags.into_iter().flatten().map(|tag| (word(tag, "Key"), word(tag, "Value"))).collect()
    }

    /// Starts the job, and where the user waits for capacity, another run of it whenever one found no machines.
    async fn start_somewhere(&self, item: &Item, name: &str, systems: &[Mounted]) -> Result<String, Cause> {
        let look = &self.look;
        let mut name = self.start(item, name, systems).await?;
        let Some(most) = look.patience.capacity else { return Ok(name) };
        let mut wait = Wait::start(look.clock, most);
        loop {
            let Some(job) =
                super::patience::absent(look.ask(async |cloud| cloud.training_job(&name).await).await)?
            else {
                return Ok(name);
            };
            if diff::lacked_capacity(&job) {
                let next = self.desired.run_of(&name).and_then(|run| self.desired.name_of_run(run + 1));
                let (Some(next), false) = (next, wait.is_over(look.clock)) else {
                    let words = job.failure.unwrap_or_default();
                    return Err(
                        Fault::answered(Call::CreateTrainingJob, None, "CapacityError", &words).into()
                    );
                };
                self.telling.waiting(item, "no machines were free; another run", wait.seconds(look.clock));
                wait.long(look.clock, &look.patience).await;
                name = self.start(item, next, systems).await?;
                continue;
            }
            let looking = matches!(job.secondary.as_str(), "Starting" | "Pending" | "LaunchingMLInstances");
            if job.is_over() || !looking || wait.is_over(look.clock) {
                return Ok(name);
            }
            self.telling.waiting(item, &job.secondary, wait.seconds(look.clock));
            wait.long(look.clock, &look.patience).await;
        }
    }

    async fn start(&self, item: &Item, name: &str, systems: &[Mounted]) -> Result<String, Cause> {
        let look = &self.look;
        let request = self.desired.request_as(name, systems);
        let mut unseen = self.unseen();
        let mut propagation = self.propagation();
        let mut capacity = look.patience.capacity.map(|most| Wait::start(look.clock, most));
        let mut made = None;
        loop {
            if let Some((job, tags)) = look.job(name).await? {
                // Tags are read apart from the job, and may show later than it.
                if tags.is_empty() && made.is_some() && !unseen.is_over(look.clock) {
                    self.pause(item, &mut unseen, "until SageMaker shows the job's tags").await?;
                    continue;
                }
                if !diff::is_same(self.desired, &tags) {
                    return Err(Cause::Obstacle(foreign(&job.name, &tags)));
                }
                self.telling.done(item, made.unwrap_or("found"), None);
                return Ok(job.name);
            }
            if made.is_some() {
                self.pause(item, &mut unseen, "until SageMaker shows the job").await?;
                continue;
            }
            self.telling.doing(item, "create");
            match look.ask(async |cloud| cloud.create_training_job(&request).await).await {
                Ok(()) => made = Some("created"),
                Err(fault) if fault.class == Class::Exists => made = Some("found"),
                Err(fault) if fault.class == Class::NotYet => match propagation.as_mut() {
                    Some(wait) if !wait.is_over(look.clock) => {
                        self.telling.waiting(item, "until the role can be assumed", wait.seconds(look.clock));
                        wait.short(look.clock, &look.patience).await;
                    }
                    _ => return Err(fault.into()),
                },
                Err(fault) if matches!(fault.class, Class::Quota | Class::Capacity) => {
                    match capacity.as_mut() {
                        Some(wait) if !wait.is_over(look.clock) => {
                            self.telling.waiting(item, &fault.message, wait.seconds(look.clock));
                            wait.long(look.clock, &look.patience).await;
                        }
                        _ => return Err(fault.into()),
                    }
                }
                Err(fault) => self.pause_for(item, &mut unseen, fault).await?,
            }
        }
    }

    fn unseen(&self) -> Wait {
        Wait::start(self.look.clock, self.look.patience.unseen)
    }

    /// How long a role that cannot be assumed is waited for: only one that trainc makes, which is right, and may be new.
    fn propagation(&self) -> Option<Wait> {
        self.desired.role.as_ref()?;
        let most = if self.wrote_iam.get() { self.look.patience.unseen } else { OTHERS_UNSEEN };
        Some(Wait::start(self.look.clock, most))
    }

    /// Waits for what was done to show.
    async fn pause(&self, item: &Item, wait: &mut Wait, state: &str) -> Result<(), Cause> {
        if wait.is_over(self.look.clock) {
            return Err(self.late(wait, state));
        }
        self.telling.waiting(item, state, wait.seconds(self.look.clock));
        wait.short(self.look.clock, &self.look.patience).await;
        Ok(())
    }

    /// Waits where the fault is one that passes; else it is the end.
    async fn pause_for(&self, item: &Item, wait: &mut Wait, fault: Fault) -> Result<(), Cause> {
        let passes = match fault.class {
            Class::Busy | Class::NotYet => true,
            // What was made a moment ago is not seen by the next call. A bucket of the user's is not made here.
            Class::NotFound => fault.call != Call::PutObject || self.desired.bucket.is_some(),
            _ => false,
        };
        if !passes || wait.is_over(self.look.clock) {
            return Err(fault.into());
        }
        self.telling.waiting(item, &fault.message, wait.seconds(self.look.clock));
        wait.short(self.look.clock, &self.look.patience).await;
        Ok(())
    }
}

/// A name that is taken.
fn foreign(name: &str, tags: &Tags) -> Change {
    Change {
        kind: "training-job",
        name: name.to_owned(),
        action: Action::Stop(Obstacle::Foreign),
        because: format!("a training job of this name belongs to {}", diff::owner(tags)),
        differences: Vec::new(),
    }
}

fn name_of<'a>(target: &'a Target, desired: &'a Desired) -> &'a str {
    match target {
        Target::Attach(name) | Target::Start(name) => name,
        Target::Blocked(_) => desired.name_of_run(1).unwrap_or_default(),
    }
}

/// What was done to something, in a word.
fn said<S: PartialEq>(made: &[S], create: &S) -> &'static str {
    match made {
        [] => "unchanged",
        steps if steps.contains(create) => "created",
        _ => "updated",
    }
}
