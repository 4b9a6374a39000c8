//! File systems and their links to S3.

use super::settings::{CAPACITY, immutable, mutable};
use super::{Action, Change, Choices, Obstacle, missing_tags, owner, tag_differences, users};
use crate::account::{Association, FileSystem, FileSystemChange, Tags};
use crate::desired::{WantedAssociation, WantedFileSystem, tags_of};

/// The next call that brings a file system nearer to what is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileSystemStep {
    /// CreateFileSystem.
    Create,
    /// TagResource.
    Tag {
        /// The file system's ARN.
        arn: String,
        /// What is written.
        tags: Tags,
    },
    /// UpdateFileSystem.
    Update {
        /// The file system.
        id: String,
        /// What changes.
        change: FileSystemChange,
    },
}

/// The one of several that counts: not on its way out, not failed; the oldest, so that all who look agree.
pub(crate) fn live(systems: &[FileSystem]) -> Option<&FileSystem> {
    let mut live: Vec<&FileSystem> = systems.iter().filter(|one| is_live(one)).collect();
    live.sort_by(|a, b| {
        let when = a.created.unwrap_or_default().total_cmp(&b.created.unwrap_or_default());
        when.then_with(|| a.id.cmp(&b.id))
    });
    live.first().copied()
}

/// Whether it is neither on its way out nor failed.
fn is_live(system: &FileSystem) -> bool {
    !matches!(system.lifecycle.as_str(), "DELETING" | "FAILED")
}

/// What becomes of a file system, and the calls, in order.
pub fn file_system(
    wanted: &WantedFileSystem,
    found: &[FileSystem],
    choices: Choices,
) -> (Change, Vec<FileSystemStep>) {
    let name = wanted.name.as_str();
    let tags = tags_of(&wanted.create.tags);
    let Some(system) = live(found) else {
        let mine = |one: &&FileSystem| users::uses(&one.tags, job_of(&tags));
        if let Some(failed) = found.iter().filter(mine).find(|one| one.lifecycle == "FAILED") {
            let why = failed.failure.clone().unwrap_or_else(|| "FSx gives no reason".to_owned());
            let others = users::others(&failed.tags, job_of(&tags));
            let because = match others.as_slice() {
                [] => format!("{} has failed: {why}", failed.id),
                others => {
                    let others = trainc_diag::text::ticked(others, "and");
                    format!("{}, {SHARED_WITH} {others}, has failed: {why}", failed.id)
                }
            };
            return (Change::new("file-system", name, Action::Stop(Obstacle::Broken), because), Vec::new());
        }
        let because = match found.iter().find(|one| one.lifecycle == "DELETING") {
            Some(going) => format!("{} is being deleted", going.id),
            None if choices.adopt => {
                "no file system has its tags; `--adopt` takes one that this request made before, if there is one"
                    .to_owned()
            }
            None => "no file system has its tags".to_owned(),
        };
        return (Change::new("file-system", name, Action::Create, because), vec![FileSystemStep::Create]);
    };
    let others = users::others(&system.tags, job_of(&tags));
    let ours = is_same_resource(&tags, &system.tags);
    let mut fixed = immutable(wanted, system);
    // What another job wants more of, or has, is no less for this one.
    fixed.retain(|one| one.what != CAPACITY || !users::was_shared(&system.tags));
    let joins = !ours && is_shareable(wanted, system);
    if joins && users::is_full(system) {
        let because =
            format!("{} has no room for the tag of one more job: {} use it", system.id, others.len());
        return (Change::new("file-system", name, Action::Stop(Obstacle::Crowded), because), Vec::new());
    }
    if !ours && !joins && !choices.adopt {
        let lost = lost_tags(&tags, &system.tags);
        let because = if lost.is_empty() || lost.len() == OWNING.len() {
            format!(
                "{} was made by this job's own request, and belongs to {}",
                system.id,
                owner(&system.tags)
            )
        } else {
            let lost = trainc_diag::text::ticked(&lost, "and");
            format!("{} is this job's by its other tags, and has lost {lost}", system.id)
        };
        let mut change = Change::new("file-system", name, Action::Stop(Obstacle::Foreign), because);
        change.differences = tag_differences(&missing_tags(&tags, &system.tags), &system.tags);
        change.differences.extend(fixed);
        change.differences.extend(mutable(wanted, system, false).differences);
        return (change, Vec::new());
    }
    if !fixed.is_empty() {
        let because = match others.as_slice() {
            [] => format!("{} differs in what cannot be changed: its data would go", system.id),
            others => {
                let others = trainc_diag::text::ticked(others, "and");
                format!("{} differs in what cannot be changed, {SHARED_WITH} {others}", system.id)
            }
        };
        let mut change = Change::new("file-system", name, Action::Stop(Obstacle::Replace), because);
        change.differences = fixed;
        return (change, Vec::new());
    }
    let mut steps = Vec::new();
    // Of what several jobs use each writes only that it does: their own tags may differ.
    let mut missing = Tags::new();
    if others.is_empty() || !(ours || joins) {
        missing.extend(missing_tags(&tags, &system.tags));
    }
    if ours || joins {
        missing.extend(users::joining(&tags, &system.tags));
    }
    let mut differences = tag_differences(&missing, &system.tags);
    // Who is taken over from uses it no longer.
    let mut written = system.tags.clone();
    written.extend(missing.clone());
    let others = users::others(&written, job_of(&tags));
    if !missing.is_empty() {
        steps.push(FileSystemStep::Tag { arn: system.arn.clone(), tags: missing });
    }
    let in_place = mutable(wanted, system, !others.is_empty());
    differences.extend(in_place.differences.clone());
    let with = match others.as_slice() {
        [] => String::new(),
        others => {
            let others = trainc_diag::text::ticked(others, "and");
            format!(", {SHARED_WITH} {others}{}", in_place.kept_words())
        }
    };
    let raised = in_place.raises() && !others.is_empty();
    let shared_with: Vec<String> = others.iter().map(|other| (*other).to_owned()).collect();
    // The service takes no update while the file system is being made; it is compared again afterwards.
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
        "CREATING" => (Action::Wait, format!("{} is being made{with}", system.id)),
        _ if is_waiting => {
            let because =
                "is being changed, and takes no other change until that is through: apply again then";
            (Action::Update, format!("{} {because}{with}", system.id))
        }
        _ if joins && raised => {
            (Action::Update, format!("{} is there, and raised for this job{with}", system.id))
        }
        _ if joins => (Action::Update, format!("{} is there{with}", system.id)),
        _ if differences.is_empty() && in_place.kept.is_empty() => {
            (Action::Unchanged, format!("{}, as the plan has it{with}", system.id))
        }
        _ if differences.is_empty() => (Action::Unchanged, format!("{}{with}", system.id)),
        _ if raised => (Action::Update, format!("{}, raised in place for this job{with}", system.id)),
        _ => (Action::Update, format!("{}, changed in place{with}", system.id)),
    };
    let mut change = Change::new("file-system", name, action, because);
    change.differences = differences;
    change.shared_with = shared_with;
    if matches!(change.action, Action::Stop(_)) {
        steps.clear();
    }
    (change, steps)
}

/// How a change says that other jobs use the file system; their names follow.
pub(crate) const SHARED_WITH: &str = "shared with";

/// What becomes of an association: it is known by the pair that it links.
pub fn association(wanted: &WantedAssociation, file_system: Option<&str>, found: &[Association]) -> Change {
    let kind = "association";
    let Some(there) = file_system.and_then(|id| linked(wanted, id, found)) else {
        if let Some(other) = file_system.and_then(|id| overlapping(wanted, id, found)) {
            let (path, links) = (&wanted.create.file_system_path, other.s3.trim_end_matches('/'));
            let because = format!(
                "its path `{path}` overlaps `{}`, which {} links to {links}: the paths of links lie apart",
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
        "CREATING" | "UPDATING" => (Action::Wait, format!("{} is being made", there.id)),
        _ => (Action::Unchanged, format!("{}, as the plan has it", there.id)),
    };
    Change::new(kind, &wanted.name, action, because)
}

/// The association that links what is wanted, in a file system of this id.
pub(crate) fn linked<'a>(
    wanted: &WantedAssociation,
    file_system: &str,
    found: &'a [Association],
) -> Option<&'a Association> {
    let create = &wanted.create;
    let mut same = found
        .iter()
        .filter(|one| one.file_system == file_system && one.lifecycle != "DELETING")
        .filter(|one| {
            one.path == create.file_system_path
                && one.s3.trim_end_matches('/') == create.data_repository_path.trim_end_matches('/')
        });
    same.next()
}

/// A link of the file system to something else whose path lies in the wanted one's, or the other way round: FSx refuses a
/// second (Amazon FSx for Lustre user guide, "Linking your file system to an S3 bucket").
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

/// The tags that say which resource of which job an object is.
const OWNING: [&str; 2] = ["trainc:job", "trainc:resource"];

/// The job that tags are wanted for.
fn job_of(wanted: &Tags) -> &str {
    wanted.get("trainc:job").map_or("", String::as_str)
}

/// Whether tags say that an object is the resource that those say which it would be made with, and that the job uses it.
fn is_same_resource(wanted: &Tags, found: &Tags) -> bool {
    let resource = "trainc:resource";
    wanted.get(resource) == found.get(resource) && users::uses(found, job_of(wanted))
}

/// Whether a file system that other jobs use is the one that is wanted: of its name, with its fixed settings and links.
pub(crate) fn is_shareable(wanted: &WantedFileSystem, found: &FileSystem) -> bool {
    let (tags, resource) = (tags_of(&wanted.create.tags), "trainc:resource");
    let mut fixed = immutable(wanted, found);
    fixed.retain(|one| one.what != CAPACITY);
    is_live(found)
        && tags.get(resource) == found.tags.get(resource)
        && users::is_described_alike(&tags, &found.tags)
        && fixed.is_empty()
}

/// The owning tags that an object has lost, if those that it has say that it is the wanted one.
fn lost_tags(wanted: &Tags, found: &Tags) -> Vec<&'static str> {
    if OWNING.iter().any(|key| found.get(*key).is_some_and(|value| wanted.get(*key) != Some(value))) {
        return Vec::new();
    }
    OWNING.into_iter().filter(|key| !found.contains_key(*key)).collect()
}

/// Whether a file system may be the wanted one though a tag that says so is gone: what is left of its tags says it. Of
/// several storages of a job one is known by the digest of the request that made it; a job has `alone` one or not.
pub(crate) fn lost_its_tag(wanted: &WantedFileSystem, found: &FileSystem, alone: bool) -> bool {
    let tags = tags_of(&wanted.create.tags);
    let lost = lost_tags(&tags, &found.tags);
    let digest = |tags: &Tags| tags.get("trainc:digest").cloned();
    let is_same = digest(&found.tags).is_some_and(|found| Some(found) == digest(&tags));
    is_live(found) && !lost.is_empty() && (is_same || (alone && lost == ["trainc:resource"]))
}

/// File systems whose tags do not say whose they are and that have the settings of the wanted one: where its token was used
/// with other settings before, they may be what that made.
pub(crate) fn twins<'a>(wanted: &WantedFileSystem, all: &'a [FileSystem]) -> Vec<&'a FileSystem> {
    let tags = tags_of(&wanted.create.tags);
    let untagged = |one: &&FileSystem| !lost_tags(&tags, &one.tags).is_empty();
    let alike = |one: &&FileSystem| one.kind == "LUSTRE" && immutable(wanted, one).is_empty();
    all.iter().filter(|one| is_live(one)).filter(untagged).filter(alike).collect()
}

/// What a twin is to whoever would make another file system: in the way.
pub(crate) fn twin(wanted: &WantedFileSystem, found: &FileSystem) -> Change {
    let tags = tags_of(&wanted.create.tags);
    let because = format!(
        "{} has no {}, and the settings of this one, whose token was used before: it may be what that made",
        found.id,
        trainc_diag::text::ticked(&lost_tags(&tags, &found.tags), "and")
    );
    let mut change = Change::new("file-system", &wanted.name, Action::Stop(Obstacle::Foreign), because);
    change.differences = tag_differences(&missing_tags(&tags, &found.tags), &found.tags);
    change.differences.extend(mutable(wanted, found, false).differences);
    change
}

/// Whether an object of FSx is the resource of that name, and the job uses it.
pub(crate) fn is_resource(tags: &Tags, job: &str, resource: &str) -> bool {
    users::uses(tags, job) && tags.get("trainc:resource").is_some_and(|name| name == resource)
}
