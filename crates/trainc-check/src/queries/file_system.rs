//! The kind, settings, links and price of a `storage`.

use trainc_catalog::fsx::{self, LegalCombination};
use trainc_catalog::prices;
use trainc_diag::source::Span;
use trainc_ir::units::GIB;
use trainc_ir::{Plan, Storage, StoragePrice};
use trainc_plan::plan::storage_price_key;

/// Returns the storage's name in the manifest.
pub(crate) fn name(storage: &Storage) -> &str {
    storage.name.value().map_or("", String::as_str)
}

/// Returns whether it is Amazon EFS.
pub(crate) fn is_efs(storage: &Storage) -> bool {
    storage.kind.value().is_some_and(|kind| kind == "efs")
}

/// Returns whether it is a Lustre file system that trainc creates.
pub(crate) fn is_created_lustre(storage: &Storage) -> bool {
    storage.is_created_lustre()
}

/// Returns the storage that a channel reads from.
pub(crate) fn find_storage<'a>(plan: &'a Plan, from: &str) -> Option<&'a Storage> {
    let named =
        |storage: &&Storage| storage.name.value().is_some_and(|name| name == from && !name.is_empty());
    plan.job.storage.iter().find(named)
}

/// Returns the valid settings of the deployment and storage type; `None` if they are unknown or cannot be
/// combined.
pub(crate) fn valid_combination(storage: &Storage) -> Option<LegalCombination> {
    let (deployment, storage_type) = (storage.fsx_deployment_type()?, storage.fsx_storage_type()?);
    fsx::legal_with(&deployment, &storage_type, storage.efa.get() == Some(true))
}

/// Returns the monthly cost of the capacity in US dollars, with the price, if that is known.
pub(crate) fn monthly_usd<'a>(plan: &'a Plan, storage: &Storage) -> Option<(f64, &'a StoragePrice)> {
    let (_, price) = plan.created_file_systems().find(|(one, _)| one.span == storage.span)?;
    let price = price?;
    let bytes = storage.capacity_bytes.get().filter(|bytes| bytes.is_multiple_of(GIB))?;
    Some((price.usd_per_month(bytes), price))
}

/// Returns the flag that sets the price of a storage; `None` if its kind is unknown or not one of the
/// service's.
pub(crate) fn price_flag(region: &str, storage: &Storage) -> Option<String> {
    let key = storage_price_key(region, storage).filter(|key| prices::is_storage_key(key))?;
    Some(format!("--price {key}=USD_PER_GB_MONTH"))
}

/// Returns the path without empty and `.` components, if it has any: `/a//b` and `/a/./b` are `/a/b` on every
/// file system.
pub(crate) fn remove_empty_components(path: &str) -> Option<String> {
    let inside = path.strip_prefix('/').unwrap_or(path);
    let inside = inside.strip_suffix('/').unwrap_or(inside);
    let nameless = |part: &str| part.is_empty() || part == ".";
    if inside.is_empty() || !inside.split('/').any(nameless) {
        return None;
    }
    let named: Vec<&str> = inside.split('/').filter(|part| !nameless(part)).collect();
    Some(format!("/{}", named.join("/")))
}

/// One data repository association: a path of the file system and an S3 prefix, for import, export or both.
pub(crate) struct Association {
    /// The first `import` or `export` of it.
    pub span: Span,
    /// The path, with `/` at both ends.
    pub path: String,
    /// Whether the path is written.
    pub path_written: bool,
    /// The S3 prefix, with `/` at its end, as the service completes it.
    pub s3: String,
    /// The place of the S3 prefix.
    pub s3_span: Span,
    /// Whether S3 objects appear in the file system.
    pub imports: bool,
}

/// Returns the associations: an import and an export of the same path and prefix are one.
pub(crate) fn associations(storage: &Storage) -> Vec<Association> {
    let mut out: Vec<Association> = Vec::new();
    let links = storage
        .imports
        .iter()
        .map(|link| (link, true))
        .chain(storage.exports.iter().map(|link| (link, false)));
    for (link, imports) in links {
        let (Some(s3), false) = (link.s3.val(), link.path.is_bad()) else { continue };
        let path = enclose_in_slashes(link.path.value().map_or("/", String::as_str));
        let prefix = format!("{}/", s3.value.trim_end_matches('/'));
        if let Some(known) = out.iter_mut().find(|known| known.path == path && known.s3 == prefix) {
            known.imports |= imports;
            continue;
        }
        let s3_span = s3.span_or(link.span);
        out.push(Association {
            span: link.span,
            path,
            path_written: !link.path.is_absent(),
            s3: prefix,
            s3_span,
            imports,
        });
    }
    out
}

/// Returns the path with `/` at both ends and no empty components: `/`, `/a/b/`.
pub(crate) fn enclose_in_slashes(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { "/".to_owned() } else { format!("/{}/", parts.join("/")) }
}

/// Returns the path without the `/` at its end, except for the root.
pub(crate) fn trim_trailing_slash(path: &str) -> &str {
    let bare = path.trim_end_matches('/');
    if bare.is_empty() { "/" } else { bare }
}

/// Formats a size as `4800GiB`, with a fraction if it is not a whole number of GiB.
pub(crate) fn gib(bytes: u64) -> String {
    if bytes.is_multiple_of(GIB) {
        format!("{}GiB", bytes / GIB)
    } else {
        format!("{:.1}GiB", bytes as f64 / GIB as f64)
    }
}
