//! Tags of the resources that trainc creates: those of the user, then those by which trainc identifies its
//! resources.

use super::canonical_json;
use super::fill::Fill;
use super::request::Tag;
use serde::Serialize;
use trainc_ir::Plan;
use trainc_ir::digest::sha256_hex;

/// Returns the tags of a resource, `<kind>/<name>`.
///
/// The job's digest is only in tags of the user that reference it, since a resource outlives a run.
/// `trainc:digest` is the first 16 characters of SHA-256 over `definition`: the identity of a file system, or
/// the create request of any other resource without tags and token.
pub(super) fn resource_tags(
    plan: &Plan,
    resource: &str,
    digest: &str,
    definition: &impl Serialize,
) -> Vec<Tag> {
    let tag = |key: &str, value: &str| Tag { key: key.to_owned(), value: value.to_owned() };
    let mut out: Vec<Tag> = plan
        .job
        .tags
        .iter()
        .filter_map(|pair| {
            Some(Tag { key: pair.key.clone(), value: Fill::Digest(digest).field(&pair.value)? })
        })
        .collect();
    out.push(tag("trainc:job", plan.job.name.value().map_or("", String::as_str)));
    let made_of = sha256_hex(&canonical_json::to_file_bytes(definition));
    out.push(tag("trainc:digest", made_of.get(..16).unwrap_or(&made_of)));
    out.push(tag("trainc:resource", resource));
    out.push(tag("trainc:version", env!("CARGO_PKG_VERSION")));
    out
}
