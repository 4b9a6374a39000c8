//! Matching of an account's file systems with a plan's by tags and settings, and their costs.

pub(crate) mod settings;

use crate::account::{Association, FileSystem, Tags};
use crate::desired::{Desired, WantedAssociation, WantedFileSystem, tags_of};
use crate::ownership;
use settings::{CAPACITY, immutable_differences};
use trainc_catalog::prices;
use trainc_ir::price::describe_origin_and_age;

/// Returns the file system to use of several: neither deleting nor failed, and the oldest, so that concurrent
/// runs choose the same.
pub(crate) fn oldest_live(systems: &[FileSystem]) -> Option<&FileSystem> {
    let mut live: Vec<&FileSystem> = systems.iter().filter(|one| is_live(one)).collect();
    live.sort_by(|a, b| {
        let when = a.created.unwrap_or_default().total_cmp(&b.created.unwrap_or_default());
        when.then_with(|| a.id.cmp(&b.id))
    });
    live.first().copied()
}

/// Returns true if it is neither being deleted nor failed.
fn is_live(system: &FileSystem) -> bool {
    !matches!(system.lifecycle.as_str(), "DELETING" | "FAILED")
}

/// Returns the file systems with the tags of a storage. If none of them is live, also those that lost one of
/// the tags; if still none is live, also those of other jobs that this one can share.
pub(crate) fn find_for_storage(
    all: &[FileSystem],
    desired: &Desired,
    wanted: &WantedFileSystem,
) -> Vec<FileSystem> {
    let resource = format!("file-system/{}", wanted.name);
    let is_ours = |system: &&FileSystem| is_resource(&system.tags, &desired.job, &resource);
    let mut found: Vec<FileSystem> = all.iter().filter(is_ours).cloned().collect();
    if oldest_live(&found).is_none() {
        let alone = desired.file_systems.len() == 1;
        let lost = all.iter().filter(|system| lost_its_tag(wanted, system, alone));
        found.extend(lost.cloned());
    }
    if oldest_live(&found).is_none() {
        found.extend(all.iter().filter(|system| is_shareable(wanted, system)).cloned());
    }
    found
}

/// Returns the association for the desired path and S3 prefix in the file system of this ID.
pub(crate) fn find_association<'a>(
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

/// Tags that identify the job and its resource.
pub(crate) const OWNING: [&str; 2] = ["trainc:job", "trainc:resource"];

/// Returns the job in these tags.
pub(crate) fn job_tag(wanted: &Tags) -> &str {
    wanted.get("trainc:job").map_or("", String::as_str)
}

/// Returns true if the tags of an object are those of the desired resource, and the job uses it.
pub(crate) fn is_same_resource(wanted: &Tags, found: &Tags) -> bool {
    let resource = "trainc:resource";
    wanted.get(resource) == found.get(resource) && ownership::uses(found, job_tag(wanted))
}

/// Returns true if a file system of other jobs matches the desired one in name, immutable settings and links.
pub(crate) fn is_shareable(wanted: &WantedFileSystem, found: &FileSystem) -> bool {
    let (tags, resource) = (tags_of(&wanted.create.tags), "trainc:resource");
    let mut fixed = immutable_differences(wanted, found);
    fixed.retain(|one| one.what != CAPACITY);
    is_live(found)
        && tags.get(resource) == found.tags.get(resource)
        && ownership::is_described_alike(&tags, &found.tags)
        && fixed.is_empty()
}

/// Returns the owning tags that an object lacks, if its other tags match the desired ones.
pub(crate) fn lost_tags(wanted: &Tags, found: &Tags) -> Vec<&'static str> {
    if OWNING.iter().any(|key| found.get(*key).is_some_and(|value| wanted.get(*key) != Some(value))) {
        return Vec::new();
    }
    OWNING.into_iter().filter(|key| !found.contains_key(*key)).collect()
}

/// Returns true if a file system may be the desired one although it lacks an owning tag, according to its
/// other tags. With several storages per job it is identified by the digest of the request that created it;
/// `alone` is true if the job has only one.
pub(crate) fn lost_its_tag(wanted: &WantedFileSystem, found: &FileSystem, alone: bool) -> bool {
    let tags = tags_of(&wanted.create.tags);
    let lost = lost_tags(&tags, &found.tags);
    let digest = |tags: &Tags| tags.get("trainc:digest").cloned();
    let is_same = digest(&found.tags).is_some_and(|found| Some(found) == digest(&tags));
    is_live(found) && !lost.is_empty() && (is_same || (alone && lost == ["trainc:resource"]))
}

/// Returns the file systems without owning tags that have the settings of the desired one: if its client
/// token was used before with other settings, an earlier request may have created them.
pub(crate) fn untagged_twins<'a>(wanted: &WantedFileSystem, all: &'a [FileSystem]) -> Vec<&'a FileSystem> {
    let tags = tags_of(&wanted.create.tags);
    let untagged = |one: &&FileSystem| !lost_tags(&tags, &one.tags).is_empty();
    let alike = |one: &&FileSystem| one.kind == "LUSTRE" && immutable_differences(wanted, one).is_empty();
    all.iter().filter(|one| is_live(one)).filter(untagged).filter(alike).collect()
}

/// Returns true if an FSx object is the resource of that name, and the job uses it.
pub(crate) fn is_resource(tags: &Tags, job: &str, resource: &str) -> bool {
    ownership::uses(tags, job) && tags.get("trainc:resource").is_some_and(|name| name == resource)
}

/// Returns the monthly cost of a file system in US dollars, its capacity times the price of its deployment
/// type, and the date of that price.
pub(crate) fn monthly_cost(region: &str, system: &FileSystem) -> Option<(f64, String)> {
    let tier = system.throughput.and_then(|tier| u32::try_from(tier).ok());
    let price = prices::lustre(region, system.deployment.as_deref()?, &system.storage_type, tier)?;
    Some((system.capacity_gib as f64 * price.usd_per_gb_month, price.provenance.date))
}

/// Describes the monthly cost of a file system with the date of its price:
/// `$174 a month (price of 2026-11-21)`. Today, in days since 1970, gives the age of an old price.
pub(crate) fn describe_monthly_cost(region: &str, system: &FileSystem, today: Option<i64>) -> Option<String> {
    let (usd, date) = monthly_cost(region, system)?;
    let origin = describe_origin_and_age(Some(&date), "", today);
    Some(format!("{} a month ({origin})", trainc_diag::text::dollars(usd)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_that_is_not_known_is_not_said() {
        let mut system = FileSystem {
            capacity_gib: 1_200,
            storage_type: "SSD".to_owned(),
            deployment: Some("PERSISTENT_2".to_owned()),
            throughput: Some(125),
            ..FileSystem::default()
        };
        let price = prices::lustre("us-east-1", "PERSISTENT_2", "SSD", Some(125)).unwrap();
        let (usd, date) = monthly_cost("us-east-1", &system).unwrap();
        assert_eq!(usd, 1_200.0 * price.usd_per_gb_month);
        assert_eq!(date, price.provenance.date);
        let later = trainc_ir::date::epoch_days(&date).map(|day| day + 100);
        let said = describe_monthly_cost("us-east-1", &system, later).unwrap();
        assert!(said.ends_with(&format!(" a month (price of {date}, 100 days old)")), "{said}");
        system.deployment = None;
        assert_eq!(monthly_cost("us-east-1", &system), None);
    }
}
