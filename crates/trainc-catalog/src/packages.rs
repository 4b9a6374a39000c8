//! Packages of the training stack: the newest version of each, and those that the training images contain.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::table::{Sourced, Table};
use trainc_ir::hardware::Provenance;

pub(crate) const TABLE: Table = Table::new("packages", include_str!("data/packages.toml"));

/// Any row: each has one of the columns.
#[derive(Clone, Deserialize)]
struct PackageRow {
    version: Option<String>,
    #[serde(default)]
    versions: BTreeMap<String, String>,
    #[serde(flatten)]
    sourced: Sourced,
}

/// The version of a package, with the source of its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageVersion {
    /// The version, as `1.15.0`.
    pub version: String,
    /// Name of the row.
    pub row: String,
    /// The source of the row.
    pub provenance: Provenance,
}

/// A package in an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InImage {
    /// It has this version.
    Version(PackageVersion),
    /// It was installed without a pin, so its version is that of the day on which the image was built.
    AnyVersion,
    /// The image does not contain it.
    Missing,
}

/// Returns the newest version of a package; `None` if no row has it.
pub fn newest(package: &str) -> Option<PackageVersion> {
    let key = format!("newest/{package}");
    let row: PackageRow = TABLE.row(&key)?;
    Some(PackageVersion { version: row.version?, row: key, provenance: row.sourced.into() })
}

/// Returns whether an image contains a package, and its version; `None` if no row has the image. `pytorch` is
/// a whole version or begins one, as `2.13`.
pub fn in_image(family: &str, pytorch: &str, package: &str) -> Option<InImage> {
    let begins = |key: &&&str| {
        let version = key.strip_prefix(family).and_then(|rest| rest.strip_prefix('/'));
        version.is_some_and(|version| version == pytorch || version.starts_with(&format!("{pytorch}.")))
    };
    let keys: Vec<&str> = TABLE.keys().collect();
    let key = *keys.iter().rfind(begins)?;
    let row: PackageRow = TABLE.row(key)?;
    Some(match row.versions.get(package) {
        None => InImage::Missing,
        Some(version) if version.is_empty() => InImage::AnyVersion,
        Some(version) => InImage::Version(PackageVersion {
            version: version.clone(),
            row: key.to_owned(),
            provenance: row.sourced.into(),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        for key in TABLE.keys() {
            let row: PackageRow = TABLE.row(key).unwrap();
            assert_eq!(row.version.is_some(), row.versions.is_empty(), "{key}");
        }
    }

    #[test]
    fn images_contain_packages() {
        let found = |family, pytorch, package| in_image(family, pytorch, package);
        let Some(InImage::Version(of_hf)) = found("huggingface", "2.8.0", "accelerate") else { panic!() };
        assert_eq!(of_hf.version, "1.10.1");
        assert_eq!(found("pytorch", "2.13", "accelerate"), Some(InImage::Missing));
        assert_eq!(found("pytorch", "2.10.0", "accelerate"), Some(InImage::AnyVersion));
        assert_eq!(found("pytorch", "2.1", "accelerate"), None);
        assert_eq!(newest("transformers").unwrap().version, "5.24.0");
    }
}
