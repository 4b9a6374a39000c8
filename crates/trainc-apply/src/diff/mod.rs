//! What differs between a plan and an account: pure, over typed resources, AWS's own defaults left out.
//!
//! In: [`Desired`] and [`Observed`]. Out: one [`Change`] for each resource, in the order in which they are made.

mod job;
mod policy;
mod role;
mod settings;
mod storage;
mod users;

pub use job::{Runs, Target, foreign, foreign_run, lacked_capacity, target};
pub use role::{RoleStep, role as role_change};
pub use storage::{FileSystemStep, association as association_change, file_system as file_system_change};

pub(super) use job::{NEW_RUN_TAG, is_asked_for, is_same, job, overtaken};
pub(super) use policy::{meaning, same_policy, union};
pub(super) use storage::{
    SHARED_WITH, is_resource, is_shareable, linked, live as live_file_system, lost_its_tag, twin, twins,
};
pub(super) use users::{jobs as users, leaving, only_joins, others as other_users, uses};

use super::account::{Tags, TrainingJob};
use super::desired::Desired;
use super::observed::Observed;
use std::collections::BTreeSet;

/// What is to be done about one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is not there.
    Create,
    /// It is there and ours, and differs in what can be changed in place.
    Update,
    /// It is there as it should be.
    Unchanged,
    /// It is there, ours, and still being made.
    Wait,
    /// It is not there, and nothing needs it any more: the run is over.
    Skip,
    /// It is not ours, and the user said to take it.
    Adopt,
    /// It is in the way, and trainc does nothing about it.
    Stop(Obstacle),
}

/// Why something is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It carries the name and is not ours.
    Foreign,
    /// A job of the name that is not ours and was started with something else: it can be taken over by nobody.
    Unlike,
    /// Another digest of the job is there.
    OtherDigest,
    /// A run of another digest of the job runs beside this one's, and nobody asked for both.
    Beside,
    /// A run of the job that was started since the account was looked at.
    Started,
    /// It was shown as shared, and the other jobs have left it since: nobody has agreed that it goes.
    Alone,
    /// It differs in what can only be changed by making it anew, and data would go.
    Replace,
    /// It failed, and stays so.
    Broken,
    /// The service cannot use it until what it names is mended; what is in it is there.
    Misconfigured,
    /// The runs of the digest have used up their names.
    LastRun,
    /// So many jobs use it that it has no room for the tag of one more.
    Crowded,
}

impl Action {
    /// Its word in a plan.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Unchanged => "unchanged",
            Self::Wait => "wait",
            Self::Skip => "skip",
            Self::Adopt => "adopt",
            Self::Stop(Obstacle::Replace) => "replace",
            Self::Stop(Obstacle::Foreign | Obstacle::Unlike) => "foreign",
            Self::Stop(Obstacle::OtherDigest | Obstacle::Beside | Obstacle::Started | Obstacle::Alone) => {
                "differs"
            }
            Self::Stop(Obstacle::Broken | Obstacle::Misconfigured) => "broken",
            Self::Stop(Obstacle::LastRun | Obstacle::Crowded) => "full",
        }
    }
}

/// One setting that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The setting, by the API's own name.
    pub what: String,
    /// As the account has it.
    pub found: String,
    /// As the plan wants it.
    pub wanted: String,
}

impl Difference {
    /// A difference, as text.
    pub fn of(what: &str, found: impl ToString, wanted: impl ToString) -> Self {
        Self { what: what.to_owned(), found: found.to_string(), wanted: wanted.to_string() }
    }
}

/// What becomes of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// `role`, `role-policy`, `file-system`, `association`, `bucket`, `source`, `training-job`.
    pub kind: &'static str,
    /// Its name, as the plan lists it.
    pub name: String,
    /// What is done.
    pub action: Action,
    /// Why, a fragment.
    pub because: String,
    /// What differs.
    pub differences: Vec<Difference>,
    /// The other jobs that use it, where it is there.
    pub shared_with: Vec<String>,
}

impl Change {
    fn new(kind: &'static str, name: &str, action: Action, because: impl Into<String>) -> Self {
        let (name, because) = (name.to_owned(), because.into());
        Self { kind, name, action, because, differences: Vec::new(), shared_with: Vec::new() }
    }
}

/// What a user chose beside the manifest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// Foreign objects of our names are taken over.
    pub adopt: bool,
    /// Another run of the job is wanted.
    pub new_run: bool,
    /// Which run that is, from 1, where a saved plan says so: once it is there, no other is wanted after it.
    pub run: Option<usize>,
}

impl Choices {
    /// Whether another run is wanted where the latest is of this number.
    fn wants_another(&self, latest: usize) -> bool {
        self.new_run && self.run.is_none_or(|run| latest < run)
    }
}

/// What becomes of every resource of the plan, in the order in which they are made.
pub fn diff(desired: &Desired, observed: &Observed, choices: Choices) -> Vec<Change> {
    let mut out = Vec::new();
    if let Some(wanted) = &desired.role {
        let (role, policy, _) = role::role(wanted, observed.role.as_ref(), choices);
        out.extend([role, policy]);
    }
    for (at, wanted) in desired.file_systems.iter().enumerate() {
        let found = observed.file_systems.get(at);
        let systems = found.map_or(&[][..], |found| &found.systems);
        let (change, _) = storage::file_system(wanted, systems, choices);
        out.push(change);
        let id = storage::live(systems).map(|system| system.id.as_str());
        for association in &wanted.associations {
            let there = found.map_or(&[][..], |found| &found.associations);
            out.push(storage::association(association, id, there));
        }
    }
    if let Some(bucket) = &desired.bucket {
        out.push(if observed.foreign_bucket {
            let because = "a bucket of this name is there, and another account owns it";
            Change::new("bucket", bucket, Action::Stop(Obstacle::Foreign), because)
        } else if observed.bucket {
            Change::new("bucket", bucket, Action::Unchanged, "it is there")
        } else {
            Change::new(
                "bucket",
                bucket,
                Action::Create,
                "the SageMaker SDK's default bucket is not there yet",
            )
        });
    }
    for (at, wanted) in desired.uploads.iter().enumerate() {
        let there = observed.uploads.get(at).copied().unwrap_or_default();
        let spoiled = observed.spoiled.get(&wanted.uri);
        out.push(if let Some(other) = spoiled {
            // A run that was started reads it again where spot machines come back: that is said, and nothing of it is
            // apply's to do.
            let action = match job::target(desired, &observed.runs, choices) {
                Target::Attach(_) => Action::Skip,
                Target::Start(_) | Target::Blocked(_) => Action::Stop(Obstacle::Broken),
            };
            Change::new(wanted.kind, &wanted.uri, action, other.words(wanted.upload.bytes.len() as u64))
        } else if there {
            Change::new(
                wanted.kind,
                &wanted.uri,
                Action::Unchanged,
                "its address holds the digest of its content",
            )
        } else {
            let size = trainc_diag::text::bytes(wanted.upload.bytes.len() as u64);
            Change::new(wanted.kind, &wanted.uri, Action::Create, format!("{size} to upload"))
        });
    }
    let lost = lost(desired, observed, choices);
    if let (Some(id), Some((job, _))) = (lost.first(), &observed.runs.latest) {
        let storage = ["file-system", "association"];
        for change in out.iter_mut().filter(|change| storage.contains(&change.kind)) {
            if change.action == Action::Create {
                change.action = Action::Skip;
                change.because =
                    format!("{} runs with {id}, which is gone: a new one is never mounted", job.name);
            }
        }
    }
    out.push(job::job(desired, &observed.runs, choices));
    if is_settled(desired, observed, choices) {
        for change in out.iter_mut().filter(|change| change.kind != "training-job") {
            if change.action != Action::Unchanged {
                change.differences.clear();
                change.action = Action::Skip;
                "the run is over: nothing needs it any more".clone_into(&mut change.because);
            }
        }
    }
    out
}

/// Ids of file systems that the run that goes on was started with and that are gone: what is made now it cannot use.
pub fn lost(desired: &Desired, observed: &Observed, choices: Choices) -> Vec<String> {
    let (Some((job, _)), Some(systems)) = (&observed.runs.latest, &observed.systems) else {
        return Vec::new();
    };
    if job.is_over() || !matches!(job::target(desired, &observed.runs, choices), Target::Attach(_)) {
        return Vec::new();
    }
    // One that the manifest names, and trainc does not make, is looked at by itself.
    if desired.file_systems.is_empty() { Vec::new() } else { unmounted(job, systems) }
}

/// Ids of FSx file systems that a job was started with and that are not among those of the region.
pub fn unmounted(job: &TrainingJob, systems: &BTreeSet<String>) -> Vec<String> {
    let gone: BTreeSet<&str> =
        mounts(job).into_iter().filter(|id| id.starts_with("fs-") && !systems.contains(*id)).collect();
    gone.into_iter().map(str::to_owned).collect()
}

/// Ids of the FSx for Lustre file systems that a job's channels name.
pub fn mounts(job: &TrainingJob) -> Vec<&str> {
    let text = |value: &'_ serde_json::Value| value.as_str() == Some("FSxLustre");
    let channels = job.request.get("InputDataConfig").and_then(serde_json::Value::as_array);
    let sources = channels
        .into_iter()
        .flatten()
        .filter_map(|channel| channel.pointer("/DataSource/FileSystemDataSource"));
    let lustre = sources.filter(|source| source.get("FileSystemType").is_none_or(text));
    lustre.filter_map(|source| source.get("FileSystemId")?.as_str()).collect()
}

/// What lies where an upload of ours should, and what is wrong with it.
pub fn spoiled(desired: &Desired, observed: &Observed) -> Vec<Change> {
    let uploads = desired.uploads.iter();
    let found = uploads.filter_map(|wanted| {
        let words = observed.spoiled.get(&wanted.uri)?.words(wanted.upload.bytes.len() as u64);
        Some(Change::new(wanted.kind, &wanted.uri, Action::Stop(Obstacle::Broken), words))
    });
    found.collect()
}

/// Whether the run that is meant is over: then nothing is made or changed for it.
pub fn is_settled(desired: &Desired, observed: &Observed, choices: Choices) -> bool {
    let over = observed.runs.latest.as_ref().is_some_and(|(job, _)| job.is_over());
    over && matches!(job::target(desired, &observed.runs, choices), Target::Attach(_))
}

/// Whether anything would be done.
pub fn is_empty(changes: &[Change]) -> bool {
    changes.iter().all(|change| matches!(change.action, Action::Unchanged | Action::Skip))
}

/// Whether the tags say that an object is this job's.
pub fn is_ours(tags: &Tags, job: &str) -> bool {
    tags.get("trainc:job").is_some_and(|owner| owner == job)
}

/// The tags that must be written, so that the object has those that are wanted. Version and digest are only traces of
/// who made it from what: a new version of trainc changes nothing by itself, and what the definition says is compared
/// member by member.
pub(super) fn missing_tags(wanted: &Tags, found: &Tags) -> Tags {
    // A run is known by its digest, the job's.
    let of_run = wanted.get("trainc:resource").is_some_and(|resource| resource.starts_with("training-job/"));
    wanted
        .iter()
        .filter(|(key, value)| {
            let is_trace = key.as_str() == "trainc:version" || key.as_str() == "trainc:digest" && !of_run;
            found.get(*key) != Some(*value) && !is_trace
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// The tags by which we know our own, as one difference.
pub(super) fn owner(tags: &Tags) -> String {
    match tags.get("trainc:job") {
        Some(job) => format!("job `{job}` of trainc"),
        None => "nobody that trainc knows: it has no tag `trainc:job`".to_owned(),
    }
}

pub(super) fn tag_differences(missing: &Tags, found: &Tags) -> Vec<Difference> {
    missing
        .iter()
        .map(|(key, value)| {
            let now = found.get(key).map_or("none", String::as_str);
            Difference::of(&format!("tag {key}"), now, value)
        })
        .collect()
}
