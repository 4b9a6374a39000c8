//! Tags of what a job needs and trainc makes: the user's, then those by which trainc knows its own.

use super::canonical;
use super::request::Tag;
use serde::Serialize;
use trainc_ir::Plan;
use trainc_ir::digest::sha256_hex;
use trainc_ir::plan::DIGEST_MARK;

/// The tags of a resource. `resource` is `<kind>/<name>`. The job's digest is no part of them, unless the user asks
/// for it: a resource outlives a run, and an edited learning rate changes nothing here. `trainc:digest` is the first 16
/// of SHA-256 over `definition`: what makes a file system the one that it is, and of the others the request that makes
/// them, before it has tags or a token.
pub(super) fn of(plan: &Plan, resource: &str, digest: &str, definition: &impl Serialize) -> Vec<Tag> {
    let tag = |key: &str, value: &str| Tag { key: key.to_owned(), value: value.to_owned() };
    let mut out: Vec<Tag> = plan
        .job
        .tags
        .iter()
        .filter_map(|pair| {
            Some(Tag { key: pair.key.clone(), value: pair.value.value()?.replace(DIGEST_MARK, digest) })
        })
        .collect();
    out.push(tag("trainc:job", plan.job.name.value().map_or("", String::as_str)));
    // Definitions are structs, lists and maps with text keys: none of them can fail to serialize.
    let made_of = sha256_hex(&canonical::file(definition));
    out.push(tag("trainc:digest", made_of.get(..16).unwrap_or(&made_of)));
    out.push(tag("trainc:resource", resource));
    out.push(tag("trainc:version", env!("CARGO_PKG_VERSION")));
    out
}
