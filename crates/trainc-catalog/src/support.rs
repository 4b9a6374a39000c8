//! PyTorch versions and instance types that the engines support.

use serde::Deserialize;

use super::images::version_key;
use super::table::Table;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("support", include_str!("data/support.toml"));

#[derive(Clone, Deserialize)]
struct SupportRow {
    #[serde(default)]
    versions: Vec<String>,
    #[serde(default)]
    instances: Vec<String>,
    library: Option<String>,
    archived: Option<String>,
    refused_in_image_uri: Option<String>,
    note: Option<String>,
    #[serde(flatten)]
    provenance: Provenance,
}

/// The versions and instance types that an engine supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Support {
    /// PyTorch versions, in the order of the source.
    pub pytorch_versions: Vec<String>,
    /// Instance types; empty if the source names none.
    pub instances: Vec<String>,
    /// The date from which the library is archived (ISO date), if it is.
    pub archived: Option<String>,
    /// A text in an image URI for which the SDK rejects the engine.
    pub refused_in_image_uri: Option<String>,
    /// A note.
    pub note: Option<String>,
    /// The source of the row.
    pub provenance: Provenance,
}

/// The version of an engine's library for one PyTorch version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// Version of the library.
    pub version: String,
    /// A note.
    pub note: Option<String>,
    /// The source of the row.
    pub provenance: Provenance,
}

/// A row of the listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The engine, such as `smp-v1`; versions that the SDK accepts have separate names.
    pub engine: String,
    /// Version of the engine's library, if the row is for one PyTorch version.
    pub library: Option<String>,
    /// The PyTorch versions and instance types of the row.
    pub support: Support,
}

/// Returns all rows, in the order of the file. A row of one PyTorch version has the instance types of its
/// engine.
pub fn all() -> impl Iterator<Item = Entry> {
    TABLE.keys().filter_map(|key| {
        let mut support = read(key)?;
        let row: SupportRow = TABLE.row(key).cloned()?;
        let (Some(library), Some((engine, version))) = (row.library, key.split_once('/')) else {
            return Some(Entry { engine: key.to_owned(), library: None, support });
        };
        support.pytorch_versions = vec![version.to_owned()];
        if support.instances.is_empty() {
            support.instances = read(engine).map(|of| of.instances).unwrap_or_default();
        }
        Some(Entry { engine: engine.to_owned(), library: Some(library), support })
    })
}

fn read(key: &str) -> Option<Support> {
    let row: SupportRow = TABLE.row(key).cloned()?;
    Some(Support {
        pytorch_versions: row.versions,
        instances: row.instances,
        archived: row.archived,
        refused_in_image_uri: row.refused_in_image_uri,
        note: row.note,
        provenance: row.provenance,
    })
}

/// Returns the instance types that a library of AWS supports and the PyTorch versions that have it:
/// `smddp-v1`, `smddp-v2`, `smp-v1` or `smp-v2`.
pub fn library_support(library: &str) -> Option<Support> {
    let mut support = read(library)?;
    if support.pytorch_versions.is_empty() {
        let under = format!("{library}/");
        support.pytorch_versions =
            TABLE.keys().filter_map(|key| key.strip_prefix(&under)).map(str::to_owned).collect();
    }
    Some(support)
}

/// Returns the version of a library for a full PyTorch version: `library("smp-v1", "1.13.1")` is 1.15.
pub fn library(library: &str, pytorch: &str) -> Option<Library> {
    let row: SupportRow = TABLE.row(&format!("{library}/{pytorch}")).cloned()?;
    Some(Library { version: row.library?, note: row.note, provenance: row.provenance })
}

/// Returns the PyTorch versions of SMP 2.
pub fn smp_v2() -> Option<Support> {
    library_support("smp-v2")
}

/// Returns the PyTorch versions for which the SDK accepts `torch_distributed` on GPUs; it rejects short
/// spellings.
pub fn torch_distributed_accepted() -> Option<Support> {
    read("torch-distributed/gpu")
}

/// Returns true if a PyTorch version is newer than all for which the SDK accepts `torch_distributed` on GPUs.
pub fn is_newer_than_torch_distributed(pytorch: &str) -> bool {
    let key = version_key(pytorch);
    torch_distributed_accepted()
        .is_some_and(|list| list.pytorch_versions.iter().all(|known| version_key(known) < key))
}

/// Returns the PyTorch versions that the SDK accepts for `torch_distributed` and that have a
/// `pytorch-training` image.
pub fn torch_distributed_usable() -> Option<Support> {
    read("torch-distributed/usable")
}

/// Returns the PyTorch spellings that the SDK accepts on Trainium.
pub fn torch_distributed_trainium() -> Option<Support> {
    read("torch-distributed/trainium")
}

/// Returns the PyTorch spellings for which the SDK accepts `smdistributed.dataparallel`; it does not check
/// the instance type.
pub fn smddp_accepted_by_sdk() -> Option<Support> {
    read("smddp/sdk")
}

/// Returns the PyTorch versions whose containers have an early SMP 1 that is not in the table of supported
/// frameworks.
pub fn early_smp_v1_versions() -> Option<Support> {
    read("smp-v1-early")
}

/// Returns the instance types on which examples of AWS use SMP 1 and that are not in the table of supported
/// types.
pub fn smp_v1_examples() -> Option<Support> {
    read("smp-v1-examples")
}

/// Returns the transformers version from which the Trainer no longer supports SMDDP (the only version of the
/// row).
pub fn first_trainer_without_smddp() -> Option<Support> {
    read("smddp/trainer")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{images, instances};

    #[test]
    fn usable_is_what_is_accepted_and_has_an_image_of_sdk_2() {
        let mut expected = torch_distributed_accepted().unwrap().pytorch_versions;
        expected.retain(|version| {
            images::all().any(|image| {
                image.family == images::ImageFamily::PyTorch
                    && image.pytorch == *version
                    && image.sdk.contains(&"v2".to_owned())
            })
        });
        assert_eq!(torch_distributed_usable().unwrap().pytorch_versions, expected);
    }

    #[test]
    fn images_of_sdk_3_are_newer_than_all_that_sdk_2_starts_with_torchrun() {
        assert!(["2.9.0", "2.10.0", "2.13", "3.0"].into_iter().all(is_newer_than_torch_distributed));
        assert!(!["1.12.1", "2.4.0", "2.8", "2.8.0"].into_iter().any(is_newer_than_torch_distributed));
    }

    #[test]
    fn instances_agree_with_the_instance_table() {
        type Flag = fn(&trainc_ir::hardware::Instance) -> bool;
        let flags: [(&str, Flag); 3] = [
            ("smddp-v1", |row| row.smddp_v1),
            ("smddp-v2", |row| row.smddp_v2),
            ("smp-v1", |row| row.smp_v1),
        ];
        for (of, flag) in flags {
            let mut listed = library_support(of).unwrap().instances;
            let mut flagged: Vec<String> = instances::all().filter(flag).map(|row| row.name).collect();
            listed.sort();
            flagged.sort();
            assert_eq!(listed, flagged, "{of}");
        }
    }

    #[test]
    fn libraries_follow_pytorch() {
        assert_eq!(library("smp-v1", "1.13.1").unwrap().version, "1.15");
        assert_eq!(library("smddp-v1", "1.8.1").unwrap().version, "1.2.3");
        assert_eq!(library("smddp-v2", "2.4.1").unwrap().version, "2.5.0");
        assert_eq!(library("smp-v1", "1.13"), None);
        assert_eq!(library_support("smp-v1").unwrap().pytorch_versions.len(), 9);
        assert_eq!(smp_v2().unwrap().pytorch_versions.last().unwrap(), "2.5.1");
    }
}
