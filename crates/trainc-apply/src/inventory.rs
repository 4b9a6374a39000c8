//! Inventory of a job's resources in an account.

use super::account::{Association, FileSystem, JobSummary, TrainingJob};
use super::cloud::{Answer, Clock, Observe};
use super::desired::{Desired, split_uri};
use super::fault::{Class, Fault};
use super::look::Look;
use super::observed::ObservedRole;
use super::patience::none_if_not_found;
use crate::file_systems;
use crate::ownership;
use trainc_emit::ResourceKind;
use trainc_emit::iam::POLICY_NAME;
use trainc_emit::{KEY, WORKER_BINARY, WORKER_CONFIG};

/// The resources of a job that exist in an account.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inventory {
    /// The job's name in the tag of its resources.
    pub job: String,
    /// Common prefix of the names of its runs.
    pub stem: String,
    /// The region, which determines prices.
    pub region: String,
    /// Runs of this job that have not ended; they are stopped first.
    pub running: Vec<TrainingJob>,
    /// File systems with this job's tags, with their links.
    pub file_systems: Vec<(FileSystem, Vec<Association>)>,
    /// IDs of those that the manifest deletes after the job (`delete-after-job`).
    pub released: Vec<String>,
    /// True if the user is not asked: file systems with `delete-after-job` are deleted because the manifest
    /// says so.
    pub unasked: bool,
    /// Resources that running jobs without our tags use, each with the name of the job: the ID of a file
    /// system, the name of the role, the `s3://bucket/key` of an upload.
    pub in_use: Vec<(String, String)>,
    /// The role, if it is ours.
    pub role: Option<ObservedRole>,
    /// The role with the expected name that is not ours.
    pub foreign_role: Option<ObservedRole>,
    /// The SageMaker SDK's default bucket of the account, if it exists. It may contain data of other jobs, so
    /// it is kept.
    pub bucket: Option<String>,
    /// Source archives and files of the worker, by bucket and key.
    pub objects: Vec<(String, String)>,
    /// Multipart uploads of these that a crash left unfinished: bucket, key and ID. Their parts are billed
    /// but not listed.
    pub uploads: Vec<(String, String, String)>,
}

/// Maximum number of objects that are listed.
const MOST_OBJECTS: usize = 1_000;

impl Inventory {
    /// Returns true if no resources are left.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
            && self.file_systems.is_empty()
            && self.role.is_none()
            && self.objects.is_empty()
            && self.uploads.is_empty()
    }

    /// Returns true if the manifest deletes a file system after the job.
    pub(super) fn releases(&self, id: &str) -> bool {
        self.released.iter().any(|released| released == id)
    }

    /// Returns the running job of someone else that uses a resource, given its ID, name or URI.
    pub fn running_user(&self, what: &str) -> Option<&str> {
        self.in_use.iter().find(|(used, _)| used == what).map(|(_, job)| job.as_str())
    }

    /// Returns the other jobs that share a file system, which is therefore kept.
    pub fn sharers<'a>(&self, system: &'a FileSystem) -> Vec<&'a str> {
        ownership::others(&system.tags, &self.job)
    }

    /// Returns only the file systems that the manifest deletes after the job and that no running job uses.
    #[must_use]
    pub fn only_released(mut self) -> Self {
        let (released, in_use) = (std::mem::take(&mut self.released), std::mem::take(&mut self.in_use));
        let mut file_systems = std::mem::take(&mut self.file_systems);
        file_systems.retain(|(system, _)| released.contains(&system.id) && self.running.is_empty());
        let (job, stem, region) = (self.job, self.stem, self.region);
        Self { job, stem, region, file_systems, released, in_use, unasked: true, ..Self::default() }
    }
}

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// Returns all resources with the job's tags, including those that the manifest no longer names, and the
    /// uploads below `homes` (`s3://bucket/prefix`).
    pub async fn inventory(&self, desired: &Desired, homes: &[String]) -> Answer<Inventory> {
        let mut out = Inventory {
            job: desired.job.clone(),
            stem: desired.stem.clone(),
            region: desired.region.clone(),
            ..Inventory::default()
        };
        out.running = self.own_running_jobs(&desired.stem, &desired.job).await?;
        for system in self.ask(async |cloud| cloud.file_systems().await).await? {
            let ours =
                ownership::uses(&system.tags, &desired.job) && system.tags.contains_key("trainc:resource");
            if ours {
                let goes =
                    desired.file_systems.iter().filter(|wanted| wanted.delete_after_job).any(|wanted| {
                        let resource = wanted.create.tags.iter().find(|tag| tag.key == "trainc:resource");
                        resource.is_some_and(|tag| {
                            file_systems::is_resource(&system.tags, &desired.job, &tag.value)
                        })
                    });
                if goes {
                    out.released.push(system.id.clone());
                }
                let links = self.associations(&system.id).await?;
                out.file_systems.push((system, links));
            }
        }
        // If the manifest now names an existing role, a role created earlier is still ours.
        let found = match (self.role_named(&desired.role_name).await, &desired.role) {
            (Err(Fault { class: Class::Denied, .. }), None) => None,
            (found, _) => found?,
        };
        if let Some(found) =
            found.filter(|found| desired.role.is_some() || found.role.arn != desired.role_arn)
        {
            if ownership::is_ours(&found.role.tags, &desired.job) {
                out.role = Some(found);
            } else if desired.role.is_some() {
                out.foreign_role = Some(found);
            }
        }
        for (bucket, prefix) in homes.iter().filter_map(|home| split_uri(home)) {
            let prefix = format!("{}/", prefix.trim_end_matches('/'));
            let found = none_if_not_found(
                self.ask(async |cloud| cloud.objects(bucket, &prefix, MOST_OBJECTS, None).await).await,
            )?;
            let ours = found.unwrap_or_default().into_iter().filter(|object| is_upload(&prefix, &object.key));
            out.objects.extend(ours.map(|object| (bucket.to_owned(), object.key)));
            // Without permission to list them, they are left to a lifecycle rule of the bucket.
            let left = self
                .ask(async |cloud| cloud.multipart_uploads(bucket, &prefix).await)
                .await
                .unwrap_or_default();
            let ours = left.into_iter().filter(|(key, _)| is_upload(&prefix, key));
            out.uploads.extend(ours.map(|(key, id)| (bucket.to_owned(), key, id)));
        }
        if let Some(name) = &desired.bucket {
            // The bucket is always kept, so failing to read it does not matter.
            let there =
                self.bucket_with_owner(name, &desired.account).await.is_ok_and(|bucket| !bucket.foreign);
            out.bucket = there.then(|| name.clone());
        }
        out.in_use = self.running_users(&out).await?;
        Ok(out)
    }

    /// Returns the runs of the job that have not ended.
    pub async fn own_running_jobs(&self, stem: &str, name: &str) -> Answer<Vec<TrainingJob>> {
        let mut out = Vec::new();
        for summary in self.running(stem).await? {
            if let Some((job, tags)) = self.job(&summary.name).await?
                && ownership::is_ours(&tags, name)
                && !job.is_over()
            {
                out.push(job);
            }
        }
        Ok(out)
    }

    /// Lists jobs of this name that have not ended.
    pub async fn running(&self, stem: &str) -> Answer<Vec<JobSummary>> {
        let mut listed = self.ask(async |cloud| cloud.training_jobs(stem).await).await?;
        listed.retain(|one| {
            one.name.starts_with(stem) && !matches!(one.status.as_str(), "Completed" | "Failed" | "Stopped")
        });
        Ok(listed)
    }

    /// Returns which resources are used by running jobs of others, including jobs with our name that lost
    /// their tags.
    pub(super) async fn running_users(&self, remains: &Inventory) -> Answer<Vec<(String, String)>> {
        let mut out = Vec::new();
        if remains.file_systems.is_empty() && remains.role.is_none() && remains.objects.is_empty() {
            return Ok(out);
        }
        let mut running = self.ask(async |cloud| cloud.running_jobs(true).await).await?;
        for one in self.running(&remains.stem).await? {
            if running.iter().all(|known| known.name != one.name) {
                running.push(one);
            }
        }
        for one in running.iter().filter(|one| remains.running.iter().all(|ours| ours.name != one.name)) {
            let found = none_if_not_found(self.ask(async |cloud| cloud.training_job(&one.name).await).await)?;
            let Some(job) = found.filter(|job| !job.is_over()) else { continue };
            out.extend(remains.used_by(&job).into_iter().map(|used| (used, one.name.clone())));
        }
        Ok(out)
    }
}

impl Inventory {
    /// Returns the IDs, names and URIs in a job's request, as in `in_use`.
    fn used_by(&self, job: &TrainingJob) -> Vec<String> {
        let inputs = job.request.get("InputDataConfig").map(ToString::to_string).unwrap_or_default();
        let systems = self.file_systems.iter().map(|(system, _)| system.id.clone());
        let mut out: Vec<String> = systems.filter(|id| inputs.contains(id.as_str())).collect();
        let arn = job.request.get("RoleArn").and_then(|arn| arn.as_str()).unwrap_or_default();
        let role = self.role.as_ref().filter(|found| arn == found.role.arn);
        out.extend(role.map(|found| found.role.name.clone()));
        let request = job.request.to_string();
        let uris = self.objects.iter().map(|(bucket, key)| format!("s3://{bucket}/{key}"));
        // The channel's prefix ends with the digest, so a match of the directory identifies the upload.
        out.extend(uris.filter(|uri| uri.rsplit_once('/').is_some_and(|(dir, _)| request.contains(dir))));
        out
    }
}

/// Returns the policies that someone else added to a role.
pub(super) fn foreign_policies(found: &ObservedRole) -> Option<String> {
    let inline = found.inline.iter().filter(|policy| *policy != POLICY_NAME);
    let more: Vec<&String> = inline.chain(&found.attached).collect();
    (!more.is_empty()).then(|| trainc_diag::text::backtick_list(&more, "and"))
}

/// Digits of the digest in the prefix of an archive.
const SOURCE_DIGITS: usize = 16;

/// Returns true for the key of an upload of ours: a digest below the prefix, then the file name.
fn is_upload(prefix: &str, key: &str) -> bool {
    let Some((digest, name)) = key.strip_prefix(prefix).and_then(|rest| rest.split_once('/')) else {
        return false;
    };
    let digits: &[usize] = match name {
        "sourcedir.tar.gz" => &[SOURCE_DIGITS],
        WORKER_BINARY | WORKER_CONFIG => &[64],
        KEY => &[SOURCE_DIGITS, 64],
        _ => return false,
    };
    digits.contains(&digest.len()) && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the kind of an upload and its description, by its key.
pub(super) fn upload_kind(key: &str) -> (ResourceKind, &'static str) {
    let (digest, name) = key
        .rsplit_once('/')
        .map_or(("", key), |(prefix, name)| (prefix.rsplit('/').next().unwrap_or(prefix), name));
    if name == "sourcedir.tar.gz" {
        (ResourceKind::Source, "a source archive")
    } else if name == KEY && digest.len() == SOURCE_DIGITS {
        (ResourceKind::Source, "the key of the hosts of a job with an enforced budget")
    } else {
        (ResourceKind::Worker, "a file of engine `worker`")
    }
}
