//! Ownership by tags: which jobs use a file system. Jobs with the same description share it: `trainc:job`
//! names the job that created it, and each further job adds a separate tag, so that jobs can join and leave
//! concurrently.

use crate::account::{FileSystem, Tags};
use crate::change::Difference;
use crate::desired::Desired;
use std::collections::BTreeSet;

/// The job that created it or took it over.
const FIRST: &str = "trainc:job";
/// Key prefix of the tag of each further job; followed by the job's name, with its [`DIGEST`] as value.
const FURTHER: &str = "trainc:job:";
/// Digest of the file system for the first job: over its name, its immutable settings and its links.
const DIGEST: &str = "trainc:digest";
/// Marks a file system that several jobs have used: settings above those of one job may be required by
/// another.
const SHARED: &str = "trainc:shared";
/// Maximum number of tags of an FSx resource (FSx API reference, TagResource).
const MOST_TAGS: usize = 50;

/// Returns the jobs that use an object with these tags, each with its digest of the object.
fn users(tags: &Tags) -> impl Iterator<Item = (&str, Option<&str>)> {
    let first = tags.get(FIRST).map(|job| (job.as_str(), tags.get(DIGEST).map(String::as_str)));
    let further =
        tags.iter().filter_map(|(key, digest)| Some((key.strip_prefix(FURTHER)?, Some(digest.as_str()))));
    first.into_iter().chain(further)
}

/// Returns the names of the jobs that use an object with these tags.
pub(crate) fn jobs(tags: &Tags) -> BTreeSet<&str> {
    users(tags).map(|(job, _)| job).collect()
}

/// Returns true if a job uses an object with these tags.
pub fn uses(tags: &Tags, job: &str) -> bool {
    users(tags).any(|(user, _)| user == job)
}

/// Returns the other jobs that use it.
pub(crate) fn others<'a>(tags: &'a Tags, job: &str) -> Vec<&'a str> {
    jobs(tags).into_iter().filter(|user| *user != job).collect()
}

/// Returns true if some job uses it under the digest in the desired tags, so that another can join.
pub(crate) fn is_described_alike(wanted: &Tags, found: &Tags) -> bool {
    let digest = wanted.get(DIGEST).map(String::as_str);
    digest.is_some() && users(found).any(|(_, said)| said == digest)
}

/// Returns the tags that a job must add to join the users of the object; empty if it is one.
pub(crate) fn tags_to_join(wanted: &Tags, found: &Tags) -> Tags {
    let job = wanted.get(FIRST).map_or("", String::as_str);
    let (key, digest) = match found.get(FIRST) {
        Some(first) if first == job => (DIGEST.to_owned(), wanted.get(DIGEST)),
        _ => (format!("{FURTHER}{job}"), wanted.get(DIGEST)),
    };
    let comes = key != DIGEST;
    let missing = digest.filter(|digest| found.get(&key) != Some(*digest));
    let mut out: Tags = missing.map(|digest| (key, digest.clone())).into_iter().collect();
    if comes && !was_shared(found) {
        out.insert(SHARED.to_owned(), "true".to_owned());
    }
    out
}

/// Returns true if several jobs use it or have used it.
pub(crate) fn was_shared(found: &Tags) -> bool {
    found.contains_key(SHARED) || jobs(found).len() > 1
}

/// Returns true if the only difference is that a job has not joined yet.
pub(crate) fn only_joins(differences: &[Difference]) -> bool {
    let is_join =
        |what: &str| what.strip_prefix("tag ").is_some_and(|key| key.starts_with(FURTHER) || key == SHARED);
    !differences.is_empty() && differences.iter().all(|one| is_join(&one.what))
}

/// Returns true if it has no free tag for one more job.
pub(crate) fn is_full(system: &FileSystem) -> bool {
    system.tags.len() + 1 + usize::from(!was_shared(&system.tags)) > MOST_TAGS
}

/// Returns the tags to write and the keys to remove when a job leaves an object that others use. If the first
/// job leaves, another takes its place in `trainc:job`, so that callers whose permissions require that tag
/// can still change the object.
pub(crate) fn tags_to_leave(tags: &Tags, job: &str) -> (Tags, Vec<String>) {
    let further = format!("{FURTHER}{job}");
    let mut goes: Vec<String> = tags.contains_key(&further).then_some(further).into_iter().collect();
    let mut written = Tags::new();
    if tags.get(FIRST).is_some_and(|first| first == job)
        && let Some(heir) = others(tags, job).first()
    {
        let own = format!("{FURTHER}{heir}");
        written.insert(FIRST.to_owned(), (*heir).to_owned());
        written.extend(tags.get(&own).map(|digest| (DIGEST.to_owned(), digest.clone())));
        goes.extend(tags.contains_key(&own).then_some(own));
    }
    (written, goes)
}

/// Returns true if an object belongs to this job according to its tags.
pub fn is_ours(tags: &Tags, job: &str) -> bool {
    tags.get("trainc:job").is_some_and(|owner| owner == job)
}

/// Returns the tags to write so that the object has the desired ones. Version and digest are only
/// informational: a new version of trainc changes nothing by itself, and settings are compared individually.
pub(crate) fn missing_tags(wanted: &Tags, found: &Tags) -> Tags {
    // A run is identified by the job's digest.
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

/// Describes the owner of a resource by its tags.
pub(crate) fn owner(tags: &Tags) -> String {
    match tags.get("trainc:job") {
        Some(job) => format!("trainc job `{job}`"),
        None => "no trainc job: it has no tag `trainc:job`".to_owned(),
    }
}

pub(crate) fn tag_differences(missing: &Tags, found: &Tags) -> Vec<Difference> {
    missing
        .iter()
        .map(|(key, value)| {
            let now = found.get(key).map_or("none", String::as_str);
            Difference::new(&format!("tag {key}"), now, value)
        })
        .collect()
}

/// Returns true if a run was started with `--new-run`, in addition to other runs, according to its tags.
pub(crate) fn is_new_run(tags: &Tags) -> bool {
    tags.contains_key(NEW_RUN_TAG)
}

/// Tag of a run that was started with `--new-run`.
pub(crate) const NEW_RUN_TAG: &str = "trainc:new-run";

/// Returns true if a job is a run of this digest.
pub(crate) fn is_run_of_digest(desired: &Desired, tags: &Tags) -> bool {
    let digest = desired.digest.get(..16).unwrap_or(&desired.digest);
    is_ours(tags, &desired.job) && tags.get("trainc:digest").is_some_and(|tag| tag == digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(all: &[(&str, &str)]) -> Tags {
        all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn whoever_comes_adds_a_tag_and_whoever_leaves_takes_it() {
        let mut system = tags(&[("trainc:job", "a"), ("trainc:digest", "d1"), ("team", "x")]);
        let wanted = |job: &str, digest: &str| tags(&[("trainc:job", job), ("trainc:digest", digest)]);
        assert!(
            is_described_alike(&wanted("b", "d1"), &system)
                && !is_described_alike(&wanted("b", "d2"), &system)
        );
        let b = tags_to_join(&wanted("b", "d1"), &system);
        assert_eq!(b, tags(&[("trainc:job:b", "d1"), ("trainc:shared", "true")]));
        system.extend(b);
        assert!(
            tags_to_join(&wanted("b", "d1"), &system).is_empty()
                && tags_to_join(&wanted("a", "d1"), &system).is_empty()
        );
        assert_eq!(jobs(&system).into_iter().collect::<Vec<_>>(), ["a", "b"]);
        // Each job has its own digest of the object, and a further job can join by any of them.
        system.extend(tags_to_join(&wanted("b", "d2"), &system));
        assert_eq!(system["trainc:digest"], "d1");
        assert!(
            is_described_alike(&wanted("c", "d1"), &system)
                && is_described_alike(&wanted("c", "d2"), &system)
        );
        assert_eq!(tags_to_leave(&system, "b"), (Tags::new(), vec!["trainc:job:b".to_owned()]));
        let (written, goes) = tags_to_leave(&system, "a");
        assert_eq!(written, tags(&[("trainc:job", "b"), ("trainc:digest", "d2")]));
        assert_eq!(goes, ["trainc:job:b"]);
        system.extend(written);
        assert!(!uses(&system, "a") && uses(&system, "b"), "also where the key could not be taken away");
        system.remove("trainc:job:b");
        assert!(others(&system, "b").is_empty());
    }
}
