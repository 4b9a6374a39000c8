//! What there is of a job in an account, and what would become of each when it is taken away: pure but for the look.

use super::account::{Association, FileSystem, JobSummary, TrainingJob};
use super::cloud::{Answer, Clock, Observe};
use super::desired::{Desired, split_uri};
use super::diff;
use super::ledger::Item;
use super::observed::{Look, ObservedRole};
use super::patience::absent;
use crate::emit::{WORKER_BINARY, WORKER_CONFIG};

/// What there is of a job, and what becomes of each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Remains {
    /// The job, by the tag that its resources carry.
    pub job: String,
    /// What the names of its runs begin with.
    pub stem: String,
    /// Training jobs of this job that are not over: stopped.
    pub running: Vec<TrainingJob>,
    /// File systems with this job's tags, with their links.
    pub file_systems: Vec<(FileSystem, Vec<Association>)>,
    /// Of them, those that the manifest lets go with the job (`delete-after-job`): ids.
    pub released: Vec<String>,
    /// File systems that a running job of somebody else reads: id and job.
    pub in_use: Vec<(String, String)>,
    /// The role.
    pub role: Option<ObservedRole>,
    /// The role that has the name and is not ours.
    pub foreign_role: Option<ObservedRole>,
    /// Source archives and files of the worker: bucket and key.
    pub objects: Vec<(String, String)>,
    /// Uploads of these that a crash left unfinished: bucket, key and id. Their parts are billed and not seen.
    pub uploads: Vec<(String, String, String)>,
}

/// What a user agreed to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consent {
    /// File systems go with all that is in them.
    pub delete_data: bool,
}

/// One line of what destroy does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// What.
    pub item: Item,
    /// `stop`, `delete`, `keep`.
    pub action: &'static str,
    /// Why.
    pub because: String,
}

/// The most jobs of others that are asked which file systems they read.
const MOST_RUNNING: usize = 20;
/// The most source archives that one look finds.
const MOST_OBJECTS: usize = 1_000;

impl Remains {
    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
            && self.file_systems.is_empty()
            && self.role.is_none()
            && self.objects.is_empty()
            && self.uploads.is_empty()
    }

    /// Whether the manifest lets a file system go with the job.
    pub(super) fn releases(&self, id: &str) -> bool {
        self.released.iter().any(|released| released == id)
    }

    /// Only the file systems that the manifest lets go with the job, where no job of anybody runs on them.
    #[must_use]
    pub fn only_released(mut self) -> Self {
        let (released, in_use) = (std::mem::take(&mut self.released), std::mem::take(&mut self.in_use));
        let mut file_systems = std::mem::take(&mut self.file_systems);
        file_systems.retain(|(system, _)| released.contains(&system.id) && self.running.is_empty());
        Self { file_systems, released, in_use, ..Self::default() }
    }

    /// What becomes of each, in the order in which it is done.
    pub fn removals(&self, consent: Consent) -> Vec<Removal> {
        let line = |kind: &'static str, name: &str, action: &'static str, because: String| Removal {
            item: Item::new(kind, name),
            action,
            because,
        };
        let mut out = Vec::new();
        for job in &self.running {
            out.push(line("training-job", &job.name, "stop", format!("it is {}", job.status)));
        }
        for (system, links) in &self.file_systems {
            let user = self.in_use.iter().find(|(id, _)| *id == system.id).map(|(_, job)| job.as_str());
            let keep = if let Some(job) = user {
                Some(format!("{job} reads it"))
            } else if consent.delete_data || self.releases(&system.id) {
                None
            } else {
                Some("it holds data: `--delete-data` deletes it with all that is in it".to_owned())
            };
            let action = if keep.is_some() { "keep" } else { "delete" };
            if keep.is_none() {
                for link in links {
                    let because = format!("its file system {} goes; files in S3 stay", system.id);
                    out.push(line("association", &link.id, "delete", because));
                }
            }
            let said = if self.releases(&system.id) { "`delete-after-job`: " } else { "" };
            let size = format!("{said}{} GiB, with all data in it", crate::text::group(system.capacity_gib));
            out.push(line("file-system", &system.id, action, keep.unwrap_or(size)));
        }
        if let Some(found) = &self.role {
            out.push(line("role", &found.role.name, "delete", "only this job runs as it".to_owned()));
        }
        if let Some(found) = &self.foreign_role {
            let because = format!("it belongs to {}", diff::owner(&found.role.tags));
            out.push(line("role", &found.role.name, "keep", because));
        }
        for (bucket, key) in &self.objects {
            let (kind, because) = kind_of(key);
            out.push(line(kind, &format!("s3://{bucket}/{key}"), "delete", because.to_owned()));
        }
        for (bucket, key, _) in &self.uploads {
            let because = "an upload that was never finished".to_owned();
            out.push(line(kind_of(key).0, &format!("s3://{bucket}/{key}"), "delete", because));
        }
        out
    }
}

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// Everything that carries the job's tags, also what this manifest no longer names, and what lies in the `homes` of
    /// its uploads (`s3://bucket/prefix`).
    pub async fn remains(&self, desired: &Desired, homes: &[String]) -> Answer<Remains> {
        let mut out = Remains { job: desired.job.clone(), stem: desired.stem.clone(), ..Remains::default() };
        out.running = self.ours_running(&out).await?;
        for system in self.ask(async |cloud| cloud.file_systems().await).await? {
            let ours =
                diff::is_ours(&system.tags, &desired.job) && system.tags.contains_key("trainc:resource");
            if ours {
                let goes =
                    desired.file_systems.iter().filter(|wanted| wanted.delete_after_job).any(|wanted| {
                        let resource = wanted.create.tags.iter().find(|tag| tag.key == "trainc:resource");
                        resource.is_some_and(|tag| diff::is_resource(&system.tags, &desired.job, &tag.value))
                    });
                if goes {
                    out.released.push(system.id.clone());
                }
                let links = self.associations(&system.id).await?;
                out.file_systems.push((system, links));
            }
        }
        if !out.file_systems.is_empty() {
            out.in_use = self.users(&out).await?;
        }
        if let Some(wanted) = &desired.role
            && let Some(found) = self.role(wanted).await?
        {
            if diff::is_ours(&found.role.tags, &desired.job) {
                out.role = Some(found);
            } else {
                out.foreign_role = Some(found);
            }
        }
        for (bucket, prefix) in homes.iter().filter_map(|home| split_uri(home)) {
            let prefix = format!("{}/", prefix.trim_end_matches('/'));
            let found =
                absent(self.ask(async |cloud| cloud.objects(bucket, &prefix, MOST_OBJECTS).await).await)?;
            let ours = found.unwrap_or_default().into_iter().filter(|object| is_upload(&prefix, &object.key));
            out.objects.extend(ours.map(|object| (bucket.to_owned(), object.key)));
            // Whoever may not list them leaves them to a lifecycle rule of the bucket.
            let left = self.ask(async |cloud| cloud.uploads(bucket, &prefix).await).await.unwrap_or_default();
            let ours = left.into_iter().filter(|(key, _)| is_upload(&prefix, key));
            out.uploads.extend(ours.map(|(key, id)| (bucket.to_owned(), key, id)));
        }
        Ok(out)
    }

    /// Runs of the job that are not over.
    pub(super) async fn ours_running(&self, remains: &Remains) -> Answer<Vec<TrainingJob>> {
        let mut out = Vec::new();
        for summary in self.running(&remains.stem).await? {
            if let Some((job, tags)) = self.job(&summary.name).await?
                && diff::is_ours(&tags, &remains.job)
                && !job.is_over()
            {
                out.push(job);
            }
        }
        Ok(out)
    }

    /// Jobs of this name that may not be over.
    pub async fn running(&self, stem: &str) -> Answer<Vec<JobSummary>> {
        let mut listed = self.ask(async |cloud| cloud.training_jobs(stem).await).await?;
        listed.retain(|one| {
            one.name.starts_with(stem) && !matches!(one.status.as_str(), "Completed" | "Failed" | "Stopped")
        });
        Ok(listed)
    }

    /// Running jobs of others that read one of the file systems.
    async fn users(&self, remains: &Remains) -> Answer<Vec<(String, String)>> {
        let mut out = Vec::new();
        let running = self.ask(async |cloud| cloud.running_jobs().await).await?;
        let others = running.iter().filter(|one| remains.running.iter().all(|ours| ours.name != one.name));
        for one in others.take(MOST_RUNNING) {
            let found = absent(self.ask(async |cloud| cloud.training_job(&one.name).await).await)?;
            let inputs = found.and_then(|job| job.request.get("InputDataConfig").map(ToString::to_string));
            let inputs = inputs.unwrap_or_default();
            for (system, _) in remains.file_systems.iter().filter(|(system, _)| inputs.contains(&system.id)) {
                out.push((system.id.clone(), one.name.clone()));
            }
        }
        Ok(out)
    }
}

/// Whether a key is an upload of ours: the digits of a digest below the home, then the name.
fn is_upload(prefix: &str, key: &str) -> bool {
    let Some((digest, name)) = key.strip_prefix(prefix).and_then(|rest| rest.split_once('/')) else {
        return false;
    };
    let digits = match name {
        "sourcedir.tar.gz" => 16,
        WORKER_BINARY | WORKER_CONFIG => 64,
        _ => return false,
    };
    digest.len() == digits && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What an upload is, by its key: its kind, and the same in words.
pub(super) fn kind_of(key: &str) -> (&'static str, &'static str) {
    if key.ends_with("/sourcedir.tar.gz") {
        ("source", "a source archive")
    } else {
        ("worker", "a file of engine `worker`")
    }
}
