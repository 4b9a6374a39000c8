//! File systems and their links to S3.

use crate::account::{Association, FileSystem, FileSystemChange, Tags};
use crate::change::{Action, Change, Choices, Obstacle, SHARED_WITH};
use crate::desired::{WantedAssociation, WantedFileSystem, tags_of};
use crate::file_systems::settings::{CAPACITY, immutable_differences, in_place_changes};
use crate::file_systems::{
    OWNING, find_association, is_same_resource, is_shareable, job_tag, lost_tags, oldest_live,
};
use crate::ownership::{self, missing_tags, owner, tag_differences};
use trainc_emit::ResourceKind;

/// A call that changes a file system towards the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileSystemStep {
    /// CreateFileSystem.
    Create,
    /// TagResource.
    Tag {
        /// The file system's ARN.
        arn: String,
        /// The tags to write.
        tags: Tags,
    },
    /// UpdateFileSystem.
    Update {
        /// The file system.
        id: String,
        /// The changes.
        change: FileSystemChange,
    },
}

/// Returns the change of a file system, and the calls in order.
pub fn file_system_change(
    wanted: &WantedFileSystem,
    found: &[FileSystem],
    choices: Choices,
) -> (Change, Vec<FileSystemStep>) {
    let name = wanted.name.as_str();
    let tags = tags_of(&wanted.create.tags);
    let Some(system) = oldest_live(found) else {
        let mine = |one: &&FileSystem| ownership::uses(&one.tags, job_tag(&tags));
        if let Some(failed) = found.iter().filter(mine).find(|one| one.lifecycle == "FAILED") {
            let why = failed.failure.clone().unwrap_or_else(|| "FSx gives no reason".to_owned());
            let others = ownership::others(&failed.tags, job_tag(&tags));
            let because = match others.as_slice() {
                [] => format!("{} has failed: {why}", failed.id),
                others => {
                    let others = trainc_diag::text::backtick_list(others, "and");
                    format!("{}, {SHARED_WITH} {others}, has failed: {why}", failed.id)
                }
            };
            return (
                Change::new(ResourceKind::FileSystem, name, Action::Stop(Obstacle::Broken), because),
                Vec::new(),
            );
        }
        let because = match found.iter().find(|one| one.lifecycle == "DELETING") {
            Some(going) => format!("{} is being deleted", going.id),
            None if choices.adopt => {
                "no file system has these tags; `--adopt` adopts one that the same request \
                    created earlier, if any"
                    .to_owned()
            }
            None => "no file system has these tags".to_owned(),
        };
        return (
            Change::new(ResourceKind::FileSystem, name, Action::Create, because),
            vec![FileSystemStep::Create],
        );
    };
    let others = ownership::others(&system.tags, job_tag(&tags));
    let ours = is_same_resource(&tags, &system.tags);
    let mut fixed = immutable_differences(wanted, system);
    // A shared file system may be larger than this job requires, for another job.
    fixed.retain(|one| one.what != CAPACITY || !ownership::was_shared(&system.tags));
    let joins = !ours && is_shareable(wanted, system);
    if joins && ownership::is_full(system) {
        let because = format!("{} has no free tag for another job: {} jobs use it", system.id, others.len());
        return (
            Change::new(ResourceKind::FileSystem, name, Action::Stop(Obstacle::TooManyUsers), because),
            Vec::new(),
        );
    }
    if !ours && !joins && !choices.adopt {
        let lost = lost_tags(&tags, &system.tags);
        let because = if lost.is_empty() || lost.len() == OWNING.len() {
            format!("{} was created by this job's request, but belongs to {}", system.id, owner(&system.tags))
        } else {
            let lost = trainc_diag::text::backtick_list(&lost, "and");
            format!("{} belongs to this job by its other tags, but lacks {lost}", system.id)
        };
        let mut change =
            Change::new(ResourceKind::FileSystem, name, Action::Stop(Obstacle::Foreign), because);
        change.differences = tag_differences(&missing_tags(&tags, &system.tags), &system.tags);
        change.differences.extend(fixed);
        change.differences.extend(in_place_changes(wanted, system, false).differences);
        return (change, Vec::new());
    }
    if !fixed.is_empty() {
        let because = match others.as_slice() {
            [] => format!("{} differs in immutable settings: replacing it would delete its data", system.id),
            others => {
                let others = trainc_diag::text::backtick_list(others, "and");
                format!("{} differs in immutable settings and is {SHARED_WITH} {others}", system.id)
            }
        };
        let mut change =
            Change::new(ResourceKind::FileSystem, name, Action::Stop(Obstacle::Replace), because);
        change.differences = fixed;
        return (change, Vec::new());
    }
    let mut steps = Vec::new();
    // For a shared file system each job writes only its own tag: the other tags may differ between jobs.
    let mut missing = Tags::new();
    if others.is_empty() || !(ours || joins) {
        missing.extend(missing_tags(&tags, &system.tags));
    }
    if ours || joins {
        missing.extend(ownership::tags_to_join(&tags, &system.tags));
    }
    let mut differences = tag_differences(&missing, &system.tags);
    // A job from which the file system is adopted no longer uses it.
    let mut written = system.tags.clone();
    written.extend(missing.clone());
    let others = ownership::others(&written, job_tag(&tags));
    if !missing.is_empty() {
        steps.push(FileSystemStep::Tag { arn: system.arn.clone(), tags: missing });
    }
    let in_place = in_place_changes(wanted, system, !others.is_empty());
    differences.extend(in_place.differences.clone());
    let with = match others.as_slice() {
        [] => String::new(),
        others => {
            let others = trainc_diag::text::backtick_list(others, "and");
            format!(", {SHARED_WITH} {others}{}", in_place.describe_kept())
        }
    };
    let raised = in_place.raises() && !others.is_empty();
    let shared_with: Vec<String> = others.iter().map(|other| (*other).to_owned()).collect();
    // FSx accepts no update during creation; the settings are compared again afterwards.
    let creating = system.lifecycle == "CREATING";
    let is_waiting = in_place.update != FileSystemChange::default() && system.lifecycle == "UPDATING";
    if in_place.update != FileSystemChange::default() && !creating && !is_waiting {
        steps.push(FileSystemStep::Update { id: system.id.clone(), change: in_place.update });
    }
    let (action, because) = match system.lifecycle.as_str() {
        "MISCONFIGURED" => (
            Action::Stop(Obstacle::Misconfigured),
            format!(
                "{} is misconfigured: {}",
                system.id,
                system.failure.as_deref().unwrap_or("FSx gives no reason")
            ),
        ),
        _ if !ours && !joins => {
            (Action::Adopt, format!("`--adopt`: {} belongs to {}", system.id, owner(&system.tags)))
        }
        "CREATING" => (Action::Wait, format!("{} is being created{with}", system.id)),
        _ if is_waiting => {
            let because =
                "is being updated and accepts no other update until that completes: apply again then";
            (Action::Update, format!("{} {because}{with}", system.id))
        }
        _ if joins && raised => {
            (Action::Update, format!("{} exists, and is increased for this job{with}", system.id))
        }
        _ if joins => (Action::Update, format!("{} exists{with}", system.id)),
        _ if differences.is_empty() && in_place.kept.is_empty() => {
            (Action::Unchanged, format!("{} matches the plan{with}", system.id))
        }
        _ if differences.is_empty() => (Action::Unchanged, format!("{}{with}", system.id)),
        _ if raised => (Action::Update, format!("{}, increased in place for this job{with}", system.id)),
        _ => (Action::Update, format!("{}, updated in place{with}", system.id)),
    };
    let mut change = Change::new(ResourceKind::FileSystem, name, action, because);
    change.differences = differences;
    change.shared_with = shared_with;
    if matches!(change.action, Action::Stop(_)) {
        steps.clear();
    }
    (change, steps)
}

/// Returns the change of an association, which is identified by its path and its S3 prefix.
pub fn association_change(
    wanted: &WantedAssociation,
    file_system: Option<&str>,
    found: &[Association],
) -> Change {
    let kind = ResourceKind::Association;
    let Some(there) = file_system.and_then(|id| find_association(wanted, id, found)) else {
        if let Some(other) = file_system.and_then(|id| overlapping(wanted, id, found)) {
            let (path, links) = (&wanted.create.file_system_path, other.s3.trim_end_matches('/'));
            let because = format!(
                "its path `{path}` overlaps `{}`, which {} links to {links}: the paths of links \
                    must not overlap",
                other.path, other.id
            );
            return Change::new(kind, &wanted.name, Action::Stop(Obstacle::Replace), because);
        }
        let because = match file_system {
            Some(_) => "the file system has no such link",
            None => "its file system is new",
        };
        return Change::new(kind, &wanted.name, Action::Create, because);
    };
    let why = there.failure.as_deref().unwrap_or("FSx gives no reason");
    let (action, because) = match there.lifecycle.as_str() {
        "FAILED" => (Action::Stop(Obstacle::Broken), format!("{} failed: {why}", there.id)),
        "MISCONFIGURED" => {
            (Action::Stop(Obstacle::Misconfigured), format!("{} is misconfigured: {why}", there.id))
        }
        "CREATING" | "UPDATING" => (Action::Wait, format!("{} is being created", there.id)),
        _ => (Action::Unchanged, format!("{} matches the plan", there.id)),
    };
    Change::new(kind, &wanted.name, action, because)
}

/// Returns another link of the file system whose path contains the desired path, or is inside it: FSx rejects
/// overlapping paths (Amazon FSx for Lustre user guide, "Linking your file system to an S3 bucket").
fn overlapping<'a>(
    wanted: &WantedAssociation,
    file_system: &str,
    found: &'a [Association],
) -> Option<&'a Association> {
    let inside = |inner: &str, outer: &str| {
        let outer = outer.trim_end_matches('/');
        inner
            .trim_end_matches('/')
            .strip_prefix(outer)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mut live = found.iter().filter(|one| one.file_system == file_system && one.lifecycle != "DELETING");
    let path = wanted.create.file_system_path.as_str();
    live.find(|one| inside(&one.path, path) || inside(path, &one.path))
}

/// Returns the obstacle for a file system with identical settings but missing tags.
pub(crate) fn untagged_twin_change(wanted: &WantedFileSystem, found: &FileSystem) -> Change {
    let tags = tags_of(&wanted.create.tags);
    let because = format!(
        "{} has identical settings but lacks {}: an earlier apply probably created it (same client token)",
        found.id,
        trainc_diag::text::backtick_list(&lost_tags(&tags, &found.tags), "and")
    );
    let mut change =
        Change::new(ResourceKind::FileSystem, &wanted.name, Action::Stop(Obstacle::Foreign), because);
    change.differences = tag_differences(&missing_tags(&tags, &found.tags), &found.tags);
    change.differences.extend(in_place_changes(wanted, found, false).differences);
    change
}
