//! What an account holds of a plan: looked up by name and by tag, side by side where nothing depends on the other.

use super::account::{Association, Bucket, FileSystem, Object, Role, Tags, TrainingJob};
use super::cloud::{Answer, Clock, Observe};
use super::desired::{Desired, WantedFileSystem, WantedObject, WantedRole};
use super::diff::{Choices, Runs};
use super::fault::{Class, Fault};
use super::heads::Heads;
use super::patience::{Patience, absent, ask};
use super::turns::Turns;
use futures_util::future::{join_all, try_join_all};
use futures_util::join;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use trainc_emit::iam::POLICY_NAME;

/// What there is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// The role that trainc makes.
    pub role: Option<ObservedRole>,
    /// For each file system that trainc makes, those that carry its tags.
    pub file_systems: Vec<ObservedFileSystem>,
    /// File systems with the job's tags that the manifest no longer names.
    pub left: Vec<FileSystem>,
    /// Ids of all file systems of the region that are not on their way out; none where nobody may look.
    pub systems: Option<BTreeSet<String>>,
    /// Whether the bucket that trainc would make is there.
    pub bucket: bool,
    /// Whether it is another account's.
    pub foreign_bucket: bool,
    /// For each upload, whether it is there.
    pub uploads: Vec<bool>,
    /// Addresses of uploads where something else lies, and how that shows: somebody put it there.
    pub spoiled: BTreeMap<String, Spoiled>,
    /// Runs of the job.
    pub runs: Runs,
}

/// A role with its policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedRole {
    /// The role.
    pub role: Role,
    /// trainc's inline policy, JSON text.
    pub policy: Option<String>,
    /// Names of all inline policies.
    pub inline: Vec<String>,
    /// ARNs of all managed policies.
    pub attached: Vec<String>,
}

/// File systems that carry the tags of one storage, with the links of the one that counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedFileSystem {
    /// All of them, also those that failed or are going.
    pub systems: Vec<FileSystem>,
    /// Associations of the one that counts.
    pub associations: Vec<Association>,
}

/// How it shows that what lies at the address of an upload is not what was uploaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoiled {
    /// It has another size: bytes.
    Size(u64),
    /// It has another checksum, and the size of ours.
    Content,
}

impl Spoiled {
    /// What is wrong, a fragment, where ours has so many bytes.
    pub(super) fn words(self, wanted: u64) -> String {
        let wanted = trainc_diag::text::group(wanted);
        match self {
            Self::Size(bytes) => format!(
                "something else lies there, of {} bytes where the content has {wanted}",
                trainc_diag::text::group(bytes)
            ),
            Self::Content => {
                format!("something else lies there, of the same {wanted} bytes, with another SHA-256")
            }
        }
    }
}

/// An account that can be looked at, with the time and the patience for it.
#[derive(Debug)]
pub struct Look<'a, C, K> {
    /// The account.
    pub cloud: &'a C,
    /// The time.
    pub clock: &'a K,
    /// How long to wait.
    pub patience: Patience,
    /// Whose turn it is to call, where several look at the same time.
    pub turns: Option<&'a Turns>,
    /// How many calls were made so far, each once however often it was repeated; kept where that decides what else is
    /// asked.
    pub asked: Option<&'a Cell<usize>>,
    /// Where reads that the caller may not make are gathered: then the look goes on without what they would have told.
    pub refused: Option<&'a RefCell<Vec<Fault>>>,
    /// Who hears of a call that is asked again because no answer came.
    pub repeated: Option<Repeated<'a>>,
}

/// Whoever hears of calls that are asked again.
#[derive(Clone, Copy)]
pub struct Repeated<'a>(pub &'a dyn Fn(&Fault));

impl std::fmt::Debug for Repeated<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Repeated")
    }
}

// By hand: the account and the clock are borrowed, whatever they are.
impl<C, K> Clone for Look<'_, C, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C, K> Copy for Look<'_, C, K> {}

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// One call, repeated while the service cannot answer.
    pub async fn ask<T>(&self, call: impl AsyncFn(&C) -> Answer<T>) -> Answer<T> {
        if let Some(asked) = self.asked {
            asked.set(asked.get() + 1);
        }
        let repeated = |fault: &Fault| {
            if let Some(Repeated(hear)) = self.repeated {
                hear(fault);
            }
        };
        ask(self.clock, &self.patience, repeated, async || {
            let _turn = match self.turns {
                Some(turns) => Some(turns.take().await),
                None => None,
            };
            call(self.cloud).await
        })
        .await
    }

    /// An answer, or nothing where the caller may not ask and refusals are gathered.
    pub(super) fn allowed<T>(&self, answer: Answer<T>) -> Answer<Option<T>> {
        match (answer, self.refused) {
            (Err(fault), Some(refused)) if fault.class == Class::Denied => {
                refused.borrow_mut().push(fault);
                Ok(None)
            }
            (answer, _) => answer.map(Some),
        }
    }

    /// Everything of the plan that there is. Where refusals are gathered, what the caller may not look at is as if it were
    /// not there.
    pub async fn observe(&self, desired: &Desired, choices: Choices) -> Answer<Observed> {
        self.observe_after(Heads::default(), desired, choices).await
    }

    /// The same, where some of it was asked already.
    pub(super) async fn observe_after(
        &self,
        mut heads: Heads,
        desired: &Desired,
        choices: Choices,
    ) -> Answer<Observed> {
        let known = desired.role.as_ref().and_then(|wanted| heads.role(&wanted.create.role_name));
        let role = async {
            match &desired.role {
                Some(wanted) => self.role_after(known, &wanted.create.role_name).await,
                None => Ok(None),
            }
        };
        let file_systems = self.file_systems(heads.systems.take(), desired);
        let bucket = async {
            match &desired.bucket {
                Some(name) => absent(self.owned(name, &desired.account).await),
                None => Ok(None),
            }
        };
        let uploads = try_join_all(desired.uploads.iter().map(|object| self.there(object)));
        let runs = self.runs_after(heads, desired, choices);
        // All are asked before the first fault is looked at: what is told must not depend on who answers first.
        let (role, file_systems, bucket, uploads, runs) = join!(role, file_systems, bucket, uploads, runs);
        let (bucket, uploads) = (self.allowed(bucket)?.flatten(), uploads?);
        let (file_systems, left, systems) = file_systems?;
        Ok(Observed {
            role: role?,
            file_systems,
            left,
            systems,
            bucket: bucket.is_some(),
            foreign_bucket: bucket.is_some_and(|bucket| bucket.foreign),
            spoiled: spoiled(desired, &uploads),
            uploads: uploads.iter().map(Option::is_some).collect(),
            runs: self.allowed(runs)?.unwrap_or_default(),
        })
    }

    /// The role of a plan.
    pub async fn role(&self, wanted: &WantedRole) -> Answer<Option<ObservedRole>> {
        self.role_named(&wanted.create.role_name).await
    }

    /// A role of a name, with its policies.
    pub(super) async fn role_named(&self, name: &str) -> Answer<Option<ObservedRole>> {
        self.role_after(None, name).await
    }

    /// The same, where the role itself may be known.
    async fn role_after(
        &self,
        known: Option<Answer<Option<Role>>>,
        name: &str,
    ) -> Answer<Option<ObservedRole>> {
        let role = match known {
            Some(role) => role,
            None => absent(self.ask(async |cloud| cloud.role(name).await).await),
        };
        let role = match self.allowed(named(role, name))? {
            Some(None) => return Ok(None),
            // Its policies go by its name: who may not see it hears at once whether they may be seen.
            role => role.flatten(),
        };
        let (policy, inline, attached) = join!(
            async { absent(self.ask(async |cloud| cloud.role_policy(name, POLICY_NAME).await).await) },
            async { absent(self.ask(async |cloud| cloud.inline_policies(name).await).await) },
            async { absent(self.ask(async |cloud| cloud.attached_policies(name).await).await) },
        );
        let policy = self.allowed(named(policy, name))?.flatten();
        let inline = self.allowed(named(inline, name))?.flatten().unwrap_or_default();
        let attached = self.allowed(named(attached, name))?.flatten().unwrap_or_default();
        Ok(role.map(|role| ObservedRole { role, policy, inline, attached }))
    }

    /// Those of each storage, and those of ours that no storage names.
    async fn file_systems(
        &self,
        known: Option<Answer<Vec<FileSystem>>>,
        desired: &Desired,
    ) -> Answer<(Vec<ObservedFileSystem>, Vec<FileSystem>, Option<BTreeSet<String>>)> {
        let all = match known {
            Some(all) => all,
            None => self.ask(async |cloud| cloud.file_systems().await).await,
        };
        let all = match all {
            // Only whoever once named one needs to hear of what is left of it.
            Err(Fault { class: Class::Denied, .. }) if desired.file_systems.is_empty() => {
                return Ok((Vec::new(), Vec::new(), None));
            }
            all => self.allowed(all)?,
        };
        let Some(all) = all else {
            let unseen = vec![ObservedFileSystem::default(); desired.file_systems.len()];
            return Ok((unseen, Vec::new(), None));
        };
        let found = desired.file_systems.iter().map(async |wanted| {
            let systems = of_storage(&all, desired, wanted);
            let associations = match super::diff::live_file_system(&systems) {
                Some(system) if !wanted.associations.is_empty() => {
                    self.allowed(self.associations(&system.id).await)?.unwrap_or_default()
                }
                _ => Vec::new(),
            };
            Ok(ObservedFileSystem { systems, associations })
        });
        let found = join_all(found).await.into_iter().collect::<Answer<Vec<_>>>()?;
        // Of several that carry one storage's tags one is used, and the others are paid for.
        let used = |one: &ObservedFileSystem, system: &FileSystem| {
            let live = super::diff::live_file_system(&one.systems).map(|live| &live.id);
            one.systems
                .iter()
                .any(|known| known.id == system.id && (live.is_none() || live == Some(&known.id)))
        };
        let named = |system: &FileSystem| found.iter().any(|one: &ObservedFileSystem| used(one, system));
        let ours = all.iter().filter(|system| {
            super::diff::uses(&system.tags, &desired.job) && system.tags.contains_key("trainc:resource")
        });
        let left = ours.filter(|system| system.lifecycle != "DELETING" && !named(system)).cloned().collect();
        let there = all.iter().filter(|system| system.lifecycle != "DELETING");
        let there = there.map(|system| system.id.clone()).collect();
        Ok((found, left, Some(there)))
    }

    /// The file systems that carry the tags of one storage.
    pub async fn file_system(&self, desired: &Desired, wanted: &WantedFileSystem) -> Answer<Vec<FileSystem>> {
        let all = self.ask(async |cloud| cloud.file_systems().await).await?;
        Ok(of_storage(&all, desired, wanted))
    }

    /// The associations of a file system.
    pub async fn associations(&self, id: &str) -> Answer<Vec<Association>> {
        let found = absent(self.ask(async |cloud| cloud.associations(id).await).await)?;
        Ok(found.unwrap_or_default())
    }

    /// A bucket, and whether the account owns it. Who may not look at it at all is refused as S3 refuses whoever expects
    /// another owner, so a refusal is asked about once more.
    pub async fn owned(&self, name: &str, account: &str) -> Answer<Bucket> {
        match self.ask(async |cloud| cloud.bucket(name, Some(account)).await).await {
            Err(Fault { class: Class::Denied, .. }) => {
                let anyones = self.ask(async |cloud| cloud.bucket(name, None).await).await;
                Ok(Bucket { foreign: true, ..anyones.map_err(|fault| fault.about("bucket", name))? })
            }
            other => other.map_err(|fault| fault.about("bucket", name)),
        }
    }

    /// Whether a bucket of the account is there. One that is there and may not be seen is somebody else's.
    pub async fn bucket(&self, name: &str, account: &str) -> Answer<bool> {
        Ok(absent(self.ask(async |cloud| cloud.bucket(name, Some(account)).await).await)?.is_some())
    }

    /// Whether an upload is there.
    pub async fn uploaded(&self, object: &WantedObject) -> Answer<bool> {
        Ok(self.there(object).await?.is_some())
    }

    /// What lies at the address of an upload.
    async fn there(&self, object: &WantedObject) -> Answer<Option<Object>> {
        let (bucket, key) = (object.upload.bucket.as_str(), object.upload.key.as_str());
        match self.ask(async |cloud| cloud.object(bucket, key).await).await {
            // Without s3:ListBucket a missing key is a refusal too. Uploading says which it was. Of a bucket of another region
            // it is said that it is one.
            Err(Fault { class: Class::Denied | Class::Elsewhere, .. }) => Ok(None),
            other => absent(other),
        }
    }

    /// A training job with its tags.
    pub async fn job(&self, name: &str) -> Answer<Option<(TrainingJob, Tags)>> {
        self.job_after(None, name).await
    }

    /// The same, where the job itself may be known.
    pub(super) async fn job_after(
        &self,
        known: Option<Answer<Option<TrainingJob>>>,
        name: &str,
    ) -> Answer<Option<(TrainingJob, Tags)>> {
        let job = match known {
            Some(job) => job,
            None => absent(self.ask(async |cloud| cloud.training_job(name).await).await),
        };
        let Some(job) = job.map_err(|fault| fault.about("training job", name))? else { return Ok(None) };
        let tags = self.ask(async |cloud| cloud.job_tags(&job.arn).await).await?;
        Ok(Some((job, tags)))
    }
}

/// With the role that was asked about.
fn named<T>(answer: Answer<T>, role: &str) -> Answer<T> {
    answer.map_err(|fault| fault.about("role", role))
}

/// Where something else lies. The address holds the digest of the content, and S3 keeps what is written whole: nothing of
/// ours can have another size there, or another checksum where S3 tells one.
fn spoiled(desired: &Desired, found: &[Option<Object>]) -> BTreeMap<String, Spoiled> {
    let both = desired.uploads.iter().zip(found);
    let other = both.filter_map(|(object, found)| {
        let found = found.as_ref()?;
        let other = found.sha256.as_ref().is_some_and(|sum| *sum != object.upload.sha256);
        let how = if found.bytes != object.upload.bytes.len() as u64 {
            Spoiled::Size(found.bytes)
        } else if other {
            Spoiled::Content
        } else {
            return None;
        };
        Some((object.uri.clone(), how))
    });
    other.collect()
}

/// Those of all file systems that carry the tags of one storage; where none of them is alive, those that did before one of
/// the tags was lost, or else those that other jobs use and this one can share.
pub(super) fn of_storage(
    all: &[FileSystem],
    desired: &Desired,
    wanted: &WantedFileSystem,
) -> Vec<FileSystem> {
    let resource = format!("file-system/{}", wanted.name);
    let is_ours = |system: &&FileSystem| super::diff::is_resource(&system.tags, &desired.job, &resource);
    let mut found: Vec<FileSystem> = all.iter().filter(is_ours).cloned().collect();
    if super::diff::live_file_system(&found).is_none() {
        let alone = desired.file_systems.len() == 1;
        let lost = all.iter().filter(|system| super::diff::lost_its_tag(wanted, system, alone));
        found.extend(lost.cloned());
    }
    if super::diff::live_file_system(&found).is_none() {
        found.extend(all.iter().filter(|system| super::diff::is_shareable(wanted, system)).cloned());
    }
    found
}
