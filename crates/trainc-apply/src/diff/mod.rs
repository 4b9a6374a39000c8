//! Compares a plan with an account: pure functions on typed resources, ignoring AWS defaults.
//!
//! In: [`Desired`] and [`Observed`]. Out: one [`Change`] per resource, in the order of creation.

mod job;
mod role;
mod storage;

pub use crate::change::{Action, Change, Choices, Difference, Obstacle, Target};
pub use job::{foreign_job_change, foreign_run_change, target};
pub use role::{RoleStep, role_change};
pub use storage::{FileSystemStep, association_change, file_system_change};

pub(crate) use job::{job_change, overtaken_run_change};
pub(crate) use storage::untagged_twin_change;

use crate::account::TrainingJob;
use crate::desired::{Desired, WantedObject};
use crate::fault::Fault;
use crate::file_systems::oldest_live;
use crate::observed::{Corruption, Observed};
use std::collections::BTreeSet;
use trainc_emit::ResourceKind;

/// Returns the change of every resource of the plan, in the order of creation.
pub fn diff(desired: &Desired, observed: &Observed, choices: Choices) -> Vec<Change> {
    let all = ResourceKind::ALL.iter();
    let mut out: Vec<Change> = all.flat_map(|kind| changes_of(*kind, desired, observed, choices)).collect();
    let lost = lost_file_systems(desired, observed, choices);
    if let (Some(id), Some((job, _))) = (lost.first(), &observed.runs.latest) {
        let storage = [ResourceKind::FileSystem, ResourceKind::Association];
        for change in out.iter_mut().filter(|change| storage.contains(&change.kind)) {
            if change.action == Action::Create {
                change.action = Action::Skip;
                change.because =
                    format!("{} runs with {id}, which was deleted: a new one would not be mounted", job.name);
            }
        }
    }
    if is_run_over(desired, observed, choices) {
        for change in out.iter_mut().filter(|change| change.kind != ResourceKind::TrainingJob) {
            if change.action != Action::Unchanged {
                change.differences.clear();
                change.action = Action::Skip;
                "the run has ended: it is no longer needed".clone_into(&mut change.because);
            }
        }
    }
    out
}

/// Returns the changes of the resources of one kind.
fn changes_of(kind: ResourceKind, desired: &Desired, observed: &Observed, choices: Choices) -> Vec<Change> {
    match kind {
        ResourceKind::Role => desired.role.as_ref().map_or_else(Vec::new, |wanted| {
            let (role, policy, _) = role::role_change(wanted, observed.role.as_ref(), choices);
            vec![role, policy]
        }),
        // With the role, and with their file systems.
        ResourceKind::RolePolicy | ResourceKind::Association => Vec::new(),
        ResourceKind::FileSystem => {
            let mut out = Vec::new();
            for (at, wanted) in desired.file_systems.iter().enumerate() {
                let found = observed.file_systems.get(at);
                let systems = found.map_or(&[][..], |found| &found.systems);
                let (change, _) = storage::file_system_change(wanted, systems, choices);
                out.push(change);
                let id = oldest_live(systems).map(|system| system.id.as_str());
                let there = found.map_or(&[][..], |found| &found.associations);
                let links = wanted.associations.iter();
                out.extend(links.map(|link| storage::association_change(link, id, there)));
            }
            out
        }
        ResourceKind::Bucket => desired.bucket.iter().map(|bucket| bucket_change(bucket, observed)).collect(),
        ResourceKind::Source | ResourceKind::Worker => desired
            .uploads
            .iter()
            .enumerate()
            .filter(|(_, wanted)| wanted.kind == kind)
            .map(|(at, wanted)| upload_change(at, wanted, desired, observed, choices))
            .collect(),
        ResourceKind::TrainingJob => vec![job::job_change(desired, &observed.runs, choices)],
    }
}

fn bucket_change(bucket: &str, observed: &Observed) -> Change {
    let (action, because) = if observed.foreign_bucket {
        let because = "a bucket with this name exists and belongs to another account";
        (Action::Stop(Obstacle::Foreign), because)
    } else if observed.bucket {
        (Action::Unchanged, "it exists")
    } else {
        (Action::Create, "the SageMaker SDK's default bucket does not exist yet")
    };
    Change::new(ResourceKind::Bucket, bucket, action, because)
}

/// Returns the change of the upload at an index of `desired.uploads`.
fn upload_change(
    at: usize,
    wanted: &WantedObject,
    desired: &Desired,
    observed: &Observed,
    choices: Choices,
) -> Change {
    let there = observed.uploads.get(at).copied().unwrap_or_default();
    let corruption = observed.corrupted_uploads.get(&wanted.uri);
    if let Some(other) = corruption {
        let words = other.describe(wanted.upload.bytes.len() as u64);
        // A started spot run reads the upload again when capacity returns: this is reported, but apply does
        // not change it.
        let is_started = matches!(job::target(desired, &observed.runs, choices), Target::Attach(_));
        let (action, because) = match other {
            Corruption::Unverified if is_started => (Action::Unchanged, words),
            _ if is_started => (Action::Skip, words),
            _ => (Action::Update, format!("{words}: it is overwritten")),
        };
        Change::new(wanted.kind, &wanted.uri, action, because)
    } else if there {
        Change::new(wanted.kind, &wanted.uri, Action::Unchanged, "its SHA-256 is that of the content")
    } else {
        let size = trainc_diag::text::bytes(wanted.upload.bytes.len() as u64);
        Change::new(wanted.kind, &wanted.uri, Action::Create, format!("{size} to upload"))
    }
}

/// Returns the IDs of deleted file systems that the current run was started with: it cannot use new ones.
pub fn lost_file_systems(desired: &Desired, observed: &Observed, choices: Choices) -> Vec<String> {
    let (Some((job, _)), Some(systems)) = (&observed.runs.latest, &observed.systems) else {
        return Vec::new();
    };
    if job.is_over() || !matches!(job::target(desired, &observed.runs, choices), Target::Attach(_)) {
        return Vec::new();
    }
    // A file system that the manifest refers to and trainc does not create is checked separately.
    if desired.file_systems.is_empty() { Vec::new() } else { missing_mounts(job, systems) }
}

/// Returns the IDs of FSx file systems that a job was started with and that no longer exist in the region.
pub fn missing_mounts(job: &TrainingJob, systems: &BTreeSet<String>) -> Vec<String> {
    let gone: BTreeSet<&str> =
        mounts(job).into_iter().filter(|id| id.starts_with("fs-") && !systems.contains(*id)).collect();
    gone.into_iter().map(str::to_owned).collect()
}

/// Returns the IDs of the FSx for Lustre file systems in a job's channels.
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

/// Returns the uploads whose key has other content, without those whose content is unknown.
pub fn corrupted_uploads(desired: &Desired, observed: &Observed) -> Vec<Change> {
    let uploads = desired.uploads.iter();
    let found = uploads.filter_map(|wanted| {
        let corruption = observed.corrupted_uploads.get(&wanted.uri);
        let other = corruption.filter(|other| **other != Corruption::Unverified)?;
        let words = other.describe(wanted.upload.bytes.len() as u64);
        Some(Change::new(wanted.kind, &wanted.uri, Action::Stop(Obstacle::Broken), words))
    });
    found.collect()
}

/// Returns the obstacle for an upload whose key has an object that could not be verified and may not be
/// overwritten.
pub(crate) fn foreign_upload_change(wanted: &WantedObject, other: Corruption, fault: &Fault) -> Change {
    let words = other.describe(wanted.upload.bytes.len() as u64);
    let because = format!(
        "an object that is not ours is in the way at `{}`: {words}, and {} was refused",
        wanted.uri,
        fault.call.describe()
    );
    Change::new(wanted.kind, &wanted.uri, Action::Stop(Obstacle::Foreign), because)
}

/// Returns true if the target run has ended: then nothing is created or changed for it.
pub fn is_run_over(desired: &Desired, observed: &Observed, choices: Choices) -> bool {
    let over = observed.runs.latest.as_ref().is_some_and(|(job, _)| job.is_over());
    over && matches!(job::target(desired, &observed.runs, choices), Target::Attach(_))
}

/// Returns true if there is nothing to do.
pub fn has_no_changes(changes: &[Change]) -> bool {
    changes.iter().all(|change| matches!(change.action, Action::Unchanged | Action::Skip))
}
