//! What the names of images say: their processor, and the account of their registry.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::processor::{family, of_family};
use super::rows::{ImageRow, REGISTRIES, TABLE, accounts};
use super::uri::ImageUri;
use crate::cuda;
use crate::table::Table;
use trainc_ir::hardware::CpuArchitecture;

pub(crate) static NAMES: Table = Table::new("image-names", include_str!("../data/image_names.toml"));

#[derive(Clone, Deserialize)]
struct NameRow {
    processor: Option<String>,
    purpose: Option<String>,
    lacks: Option<String>,
    cpu: Option<CpuArchitecture>,
    #[serde(default)]
    efa: bool,
}

/// What a part of an image's name says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePart {
    /// The part.
    pub word: String,
    /// What it says: a processor as the SageMaker SDK writes it, a purpose, or what the image lacks.
    pub says: String,
}

/// Returns the parts of an image's name that say something of one kind.
fn parts(uri: &ImageUri, of: impl Fn(&NameRow) -> Option<String>) -> Vec<NamePart> {
    let words = uri
        .repository
        .split(['-', '/', '_'])
        .chain(uri.tag.iter().flat_map(|tag| tag.split(['-', '_', '+'])));
    let named = words.filter_map(|word| {
        // A CUDA version is for GPUs.
        let key = if cuda::of_tag(word).is_some() { "gpu" } else { word };
        let says = of(NAMES.row(&format!("word/{key}"))?)?;
        Some(NamePart { word: word.to_owned(), says })
    });
    let of_repository = NAMES.keys_under("repository/").filter_map(|key| {
        let name = key.strip_prefix("repository/")?;
        let is_end = uri.repository == name || uri.repository.strip_suffix(name)?.ends_with('/');
        let says = of(NAMES.row(key)?).filter(|_| is_end)?;
        Some(NamePart { word: name.to_owned(), says })
    });
    named.chain(of_repository).collect()
}

/// Returns the processor in the name of an image, if exactly one is there: `gpu`, `cu121`, `cpu`, `neuronx`.
pub fn processor_in_name(uri: &ImageUri) -> Option<NamePart> {
    let named = parts(uri, |row| row.processor.clone());
    let first = named.first()?;
    named.iter().all(|other| other.says == first.says).then(|| first.clone())
}

/// Returns the part of the name that says that the image is for something else than training.
pub fn purpose_in_name(uri: &ImageUri) -> Option<NamePart> {
    parts(uri, |row| row.purpose.clone()).into_iter().next()
}

/// Returns the part of the name that says what the image lacks.
pub fn lack_in_name(uri: &ImageUri) -> Option<NamePart> {
    parts(uri, |row| row.lacks.clone()).into_iter().next()
}

/// Returns whether the name says that the image has the libraries of EFA.
pub fn has_efa_in_name(uri: &ImageUri) -> bool {
    !parts(uri, |row| row.efa.then(String::new)).is_empty()
}

/// Returns the CPU architecture of an image by its name or its registry, and whether that is certain: the
/// user's own names are not.
pub fn cpu_of(uri: &ImageUri) -> Option<(CpuArchitecture, bool)> {
    let is_aws = is_registry_account(&uri.account);
    let named = parts(uri, |row| row.cpu.map(|cpu| cpu.word().to_owned()));
    if let Some(first) = named.first() {
        let cpu = CpuArchitecture::of_word(&first.says)?;
        // An image for several architectures names them all.
        return named.iter().all(|other| other.says == first.says).then_some((cpu, is_aws));
    }
    let row: &NameRow = NAMES.row("registry/aws")?;
    row.cpu.filter(|_| is_aws).map(|cpu| (cpu, true))
}

/// Returns the processor of an instance type, as the SageMaker SDK writes it; `None` for a name that is not
/// one.
pub fn processor_of_instance(instance: &str) -> Option<&'static str> {
    family(instance).map(of_family)
}

/// Returns whether an account has a registry of AWS.
pub fn is_registry_account(account: &str) -> bool {
    // Most jobs have an image of one registry: only rows with its number are parsed.
    let may_have = |key: &&str| REGISTRIES.row_text(key).is_some_and(|row| row.contains(account));
    REGISTRIES
        .keys()
        .filter(may_have)
        .filter_map(accounts)
        .any(|registry| registry.values().any(|known| known == account))
}

/// Returns the repositories of the Deep Learning Containers for training.
pub fn repositories() -> Vec<String> {
    let all = TABLE.rows::<ImageRow>().map(|(_, row)| row.repository.clone());
    all.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns whether a repository of training images has this name.
pub fn has_repository(name: &str) -> bool {
    repositories().iter().any(|repository| repository == name)
}

/// Returns the regions in which an account has a registry of AWS; empty for other accounts.
pub fn regions_of_account(account: &str) -> Vec<String> {
    static REGIONS: LazyLock<BTreeMap<String, BTreeSet<String>>> = LazyLock::new(|| {
        let mut out: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (region, account) in REGISTRIES.keys().filter_map(accounts).flatten() {
            out.entry(account.clone()).or_default().insert(region.clone());
        }
        out
    });
    REGIONS.get(account).into_iter().flatten().cloned().collect()
}

/// Returns whether a registry of AWS exists in other regions only, so that no image of the URI's region can
/// be meant.
pub fn is_misplaced(uri: &ImageUri) -> bool {
    let regions = regions_of_account(&uri.account);
    !regions.is_empty() && !regions.contains(&uri.region)
}

/// Returns the accounts that have a repository of training images in a region.
pub fn accounts_of_repository(repository: &str, region: &str) -> BTreeSet<String> {
    let rows = TABLE.rows::<ImageRow>();
    let of = rows.filter(|(_, row)| row.repository == repository);
    let registries: BTreeSet<&str> = of.map(|(_, row)| row.registry.as_str()).collect();
    registries.iter().filter_map(|registry| accounts(registry)?.get(region).cloned()).collect()
}

/// Returns the account of another region whose registry has the same images as that of an account.
pub fn account_for(account: &str, region: &str) -> Option<String> {
    let rows =
        REGISTRIES.keys().filter_map(accounts).filter(|row| row.values().any(|other| other == account));
    let found: BTreeSet<String> = rows.filter_map(|row| row.get(region).cloned()).collect();
    let mut found = found.into_iter();
    let only = found.next()?;
    found.next().is_none().then_some(only)
}

#[cfg(test)]
mod tests {
    use super::super::uri::parse_uri;
    use super::*;

    fn named(path: &str) -> Option<String> {
        let uri = parse_uri(&format!("763104351884.dkr.ecr.us-west-2.amazonaws.com/{path}")).unwrap();
        processor_in_name(&uri).map(|named| named.says)
    }

    #[test]
    fn names_say_their_processor() {
        for (path, processor) in [
            ("pytorch-training:2.8.0-cpu-py312", Some("cpu")),
            ("pytorch-training:2.8.0-gpu-py312-cu129-ubuntu22.04-sagemaker", Some("gpu")),
            ("pytorch-training-neuronx:1.13.1-neuronx-py310-sdk2.12.0-ubuntu20.04", Some("trn")),
            ("train:2.4.0-cuda12.4-cudnn9-devel", Some("gpu")),
            ("sagemaker-xgboost:1.7-1", None),
            ("train:cpu-gpu", None),
            ("gpus:1", None),
        ] {
            assert_eq!(named(path).as_deref(), processor, "{path}");
        }
    }

    #[test]
    fn names_say_what_an_image_lacks() {
        let lacks = |path: &str| {
            let uri = parse_uri(&format!("111122223333.dkr.ecr.us-west-2.amazonaws.com/{path}")).unwrap();
            lack_in_name(&uri).map(|part| part.word)
        };
        assert_eq!(lacks("pytorch-training:2.8.0-gpu-py312-cu129-ubuntu22.04-ec2").as_deref(), Some("ec2"));
        assert_eq!(lacks("mirror/nvidia/pytorch:24.05-py3").as_deref(), Some("nvidia/pytorch"));
        assert_eq!(lacks("pytorch-training:2.8.0-gpu-py312"), None);
        assert_eq!(lacks("acme-nvidia/pytorch2:1"), None);
    }

    #[test]
    fn instance_types_have_a_processor() {
        let of = processor_of_instance;
        assert_eq!(
            (of("ml.m5.xlarge"), of("ml.p4d.24xlarge"), of("ml.g5.xlarge")),
            (Some("cpu"), Some("gpu"), Some("gpu"))
        );
        assert_eq!(
            (of("ml.trn1.32xlarge"), of("ml.inf2.xlarge"), of("p4d")),
            (Some("trn"), Some("inf"), None)
        );
    }

    #[test]
    fn registries_belong_to_regions() {
        assert!(regions_of_account("763104351884").contains(&"us-west-2".to_owned()));
        assert_eq!(regions_of_account("692866216735"), ["eu-south-1"]);
        assert_eq!(regions_of_account("111122223333"), [""; 0]);
        assert_eq!(account_for("763104351884", "eu-south-1").as_deref(), Some("692866216735"));
        assert_eq!(account_for("692866216735", "us-west-2").as_deref(), Some("763104351884"));
    }
}
