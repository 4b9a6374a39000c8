//! Reads the resources of a plan from an account, by name and by tag; independent reads run concurrently.

use crate::account::{Association, Bucket, FileSystem, Object, Role, Tags, TrainingJob};
use crate::change::Choices;
use crate::cloud::{Answer, Clock, Observe};
use crate::desired::{Desired, WantedFileSystem, WantedObject, WantedRole};
use crate::fault::{Class, Fault};
use crate::file_systems::{find_for_storage, oldest_live};
use crate::look::Look;
use crate::observed::{Corruption, Observed, ObservedFileSystem, ObservedRole};
use crate::ownership;
use crate::patience::none_if_not_found;
use crate::prefetch::Prefetch;
use futures_util::future::{join_all, try_join_all};
use futures_util::join;
use std::collections::{BTreeMap, BTreeSet};
use trainc_emit::iam::POLICY_NAME;

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// Returns the existing resources of the plan. If access errors are collected, unreadable resources count
    /// as missing.
    pub async fn observe(&self, desired: &Desired, choices: Choices) -> Answer<Observed> {
        self.observe_with_prefetch(Prefetch::default(), desired, choices).await
    }

    /// Like `observe`, with prefetched answers.
    pub(super) async fn observe_with_prefetch(
        &self,
        mut prefetched: Prefetch,
        desired: &Desired,
        choices: Choices,
    ) -> Answer<Observed> {
        let known = desired.role.as_ref().and_then(|wanted| prefetched.role(&wanted.create.role_name));
        let role = async {
            match &desired.role {
                Some(wanted) => self.role_with_prefetch(known, &wanted.create.role_name).await,
                None => Ok(None),
            }
        };
        let file_systems = self.file_systems(prefetched.systems.take(), desired);
        let bucket = async {
            match &desired.bucket {
                Some(name) => none_if_not_found(self.bucket_with_owner(name, &desired.account).await),
                None => Ok(None),
            }
        };
        let uploads = try_join_all(desired.uploads.iter().map(|object| self.object_at(object)));
        let runs = self.runs_with_prefetch(prefetched, desired, choices);
        // All calls finish before the first fault is examined, so that messages do not depend on which
        // response arrives first.
        let (role, file_systems, bucket, uploads, runs) = join!(role, file_systems, bucket, uploads, runs);
        let (bucket, uploads) = (self.none_if_denied(bucket)?.flatten(), uploads?);
        let (file_systems, orphaned, systems) = file_systems?;
        Ok(Observed {
            role: role?,
            file_systems,
            orphaned,
            systems,
            bucket: bucket.is_some(),
            foreign_bucket: bucket.is_some_and(|bucket| bucket.foreign),
            corrupted_uploads: corrupted_uploads(desired, &uploads),
            uploads: uploads.iter().map(Option::is_some).collect(),
            runs: self.none_if_denied(runs)?.unwrap_or_default(),
        })
    }

    /// Returns the role of a plan.
    pub async fn role(&self, wanted: &WantedRole) -> Answer<Option<ObservedRole>> {
        self.role_named(&wanted.create.role_name).await
    }

    /// Returns the role of this name with its policies.
    pub(super) async fn role_named(&self, name: &str) -> Answer<Option<ObservedRole>> {
        self.role_with_prefetch(None, name).await
    }

    /// Like `role_named`, with a prefetched role.
    async fn role_with_prefetch(
        &self,
        known: Option<Answer<Option<Role>>>,
        name: &str,
    ) -> Answer<Option<ObservedRole>> {
        let role = match known {
            Some(role) => role,
            None => none_if_not_found(self.ask(async |cloud| cloud.role(name).await).await),
        };
        let role = match self.none_if_denied(about_role(role, name))? {
            Some(None) => return Ok(None),
            // Policies are read by the role's name, so missing permissions for them are reported even if the
            // role is unreadable.
            role => role.flatten(),
        };
        let (policy, inline, attached) = join!(
            async {
                none_if_not_found(self.ask(async |cloud| cloud.role_policy(name, POLICY_NAME).await).await)
            },
            async { none_if_not_found(self.ask(async |cloud| cloud.inline_policies(name).await).await) },
            async { none_if_not_found(self.ask(async |cloud| cloud.attached_policies(name).await).await) },
        );
        let policy = self.none_if_denied(about_role(policy, name))?.flatten();
        let inline = self.none_if_denied(about_role(inline, name))?.flatten().unwrap_or_default();
        let attached = self.none_if_denied(about_role(attached, name))?.flatten().unwrap_or_default();
        Ok(role.map(|role| ObservedRole { role, policy, inline, attached }))
    }

    /// Returns the file systems of each storage, those of the job that no storage uses, and the IDs of all in
    /// the region.
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
            // Orphaned file systems only matter to jobs that once used one.
            Err(Fault { class: Class::Denied, .. }) if desired.file_systems.is_empty() => {
                return Ok((Vec::new(), Vec::new(), None));
            }
            all => self.none_if_denied(all)?,
        };
        let Some(all) = all else {
            let unseen = vec![ObservedFileSystem::default(); desired.file_systems.len()];
            return Ok((unseen, Vec::new(), None));
        };
        let found = desired.file_systems.iter().map(async |wanted| {
            let systems = find_for_storage(&all, desired, wanted);
            let associations = match oldest_live(&systems) {
                Some(system) if !wanted.associations.is_empty() => {
                    self.none_if_denied(self.associations(&system.id).await)?.unwrap_or_default()
                }
                _ => Vec::new(),
            };
            Ok(ObservedFileSystem { systems, associations })
        });
        let found = join_all(found).await.into_iter().collect::<Answer<Vec<_>>>()?;
        // Of several file systems with the tags of one storage one is used; the others are billed in vain.
        let used = |one: &ObservedFileSystem, system: &FileSystem| {
            let live = oldest_live(&one.systems).map(|live| &live.id);
            one.systems
                .iter()
                .any(|known| known.id == system.id && (live.is_none() || live == Some(&known.id)))
        };
        let named = |system: &FileSystem| found.iter().any(|one: &ObservedFileSystem| used(one, system));
        let ours = all.iter().filter(|system| {
            ownership::uses(&system.tags, &desired.job) && system.tags.contains_key("trainc:resource")
        });
        let orphaned =
            ours.filter(|system| system.lifecycle != "DELETING" && !named(system)).cloned().collect();
        let there = all.iter().filter(|system| system.lifecycle != "DELETING");
        let there = there.map(|system| system.id.clone()).collect();
        Ok((found, orphaned, Some(there)))
    }

    /// Returns the file systems with the tags of a storage.
    pub async fn find_storage_file_systems(
        &self,
        desired: &Desired,
        wanted: &WantedFileSystem,
    ) -> Answer<Vec<FileSystem>> {
        let all = self.ask(async |cloud| cloud.file_systems().await).await?;
        Ok(find_for_storage(&all, desired, wanted))
    }

    /// Returns the associations of a file system.
    pub async fn associations(&self, id: &str) -> Answer<Vec<Association>> {
        let found = none_if_not_found(self.ask(async |cloud| cloud.associations(id).await).await)?;
        Ok(found.unwrap_or_default())
    }

    /// Returns a bucket, and whether another account than this one owns it. S3 returns the same error for a
    /// missing permission and for a wrong expected owner, so a denied request is repeated without the owner.
    pub async fn bucket_with_owner(&self, name: &str, account: &str) -> Answer<Bucket> {
        match self.ask(async |cloud| cloud.bucket(name, Some(account)).await).await {
            Err(Fault { class: Class::Denied, .. }) => {
                let anyones = self.ask(async |cloud| cloud.bucket(name, None).await).await;
                Ok(Bucket { foreign: true, ..anyones.map_err(|fault| fault.with_subject("bucket", name))? })
            }
            other => other.map_err(|fault| fault.with_subject("bucket", name)),
        }
    }

    /// Returns true if a bucket of the account exists. A bucket that exists but is denied belongs to another
    /// account.
    pub async fn has_bucket(&self, name: &str, account: &str) -> Answer<bool> {
        Ok(none_if_not_found(self.ask(async |cloud| cloud.bucket(name, Some(account)).await).await)?
            .is_some())
    }

    /// Returns the object at the key of an upload.
    pub(super) async fn object_at(&self, object: &WantedObject) -> Answer<Option<Object>> {
        match self.ask(async |cloud| cloud.uploaded_object(&object.upload).await).await {
            // Without s3:ListBucket S3 denies access to a missing key; the upload shows whether it is
            // missing. A bucket in another region is reported elsewhere.
            Err(Fault { class: Class::Denied | Class::OtherRegion, .. }) => Ok(None),
            other => none_if_not_found(other),
        }
    }

    /// Returns a training job with its tags.
    pub async fn job(&self, name: &str) -> Answer<Option<(TrainingJob, Tags)>> {
        self.job_with_prefetch(None, name).await
    }

    /// Like `job`, with a prefetched job.
    pub(super) async fn job_with_prefetch(
        &self,
        known: Option<Answer<Option<TrainingJob>>>,
        name: &str,
    ) -> Answer<Option<(TrainingJob, Tags)>> {
        let job = match known {
            Some(job) => job,
            None => none_if_not_found(self.ask(async |cloud| cloud.training_job(name).await).await),
        };
        let Some(job) = job.map_err(|fault| fault.with_subject("training job", name))? else {
            return Ok(None);
        };
        let tags = self.ask(async |cloud| cloud.job_tags(&job.arn).await).await?;
        Ok(Some((job, tags)))
    }
}

/// Adds the role's name to a fault.
fn about_role<T>(answer: Answer<T>, role: &str) -> Answer<T> {
    answer.map_err(|fault| fault.with_subject("role", role))
}

/// Returns the uploads whose key has other or unverifiable content. The key contains the digest of the
/// content, but everyone who may write to the bucket can compute it.
fn corrupted_uploads(desired: &Desired, found: &[Option<Object>]) -> BTreeMap<String, Corruption> {
    let both = desired.uploads.iter().zip(found);
    both.filter_map(|(object, found)| {
        Some((object.uri.clone(), Corruption::find(&object.upload, found.as_ref()?)?))
    })
    .collect()
}
