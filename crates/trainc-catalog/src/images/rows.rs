//! Rows of the image tables, and the list of all images.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use crate::memo::Memo;
use crate::table::Table;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("images", include_str!("../data/images.toml"));
pub(crate) static ALIASES: Table = Table::new("image-aliases", include_str!("../data/image_aliases.toml"));
pub(crate) static REGISTRIES: Table = Table::new("registries", include_str!("../data/registries.toml"));

/// The SDK table of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImageFamily {
    /// `pytorch-training` (and, below 1.2, `sagemaker-pytorch`).
    PyTorch,
    /// `pytorch` on Amazon Linux 2023, PyTorch 2.11 and newer; tags have no processor and no Python part.
    Amzn2023,
    /// `huggingface-pytorch-training`.
    HuggingFace,
    /// `smdistributed-modelparallel`, for SMP 2.
    SmpV2,
    /// `pytorch-training-neuron`, for Trainium.
    Neuron,
    /// Another framework, or a built-in algorithm (`other_images.toml`).
    Other,
}

impl ImageFamily {
    const ALL: [Self; 5] = [Self::PyTorch, Self::Amzn2023, Self::HuggingFace, Self::SmpV2, Self::Neuron];

    /// Returns the prefix of the keys of this family: `pytorch`, `amzn2023`, `huggingface`, `smp`, `neuron`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PyTorch => "pytorch",
            Self::Amzn2023 => "amzn2023",
            Self::HuggingFace => "huggingface",
            Self::SmpV2 => "smp",
            Self::Neuron => "neuron",
            Self::Other => "other",
        }
    }
}

/// A row of the file.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ImageRow {
    pub(crate) python: Vec<String>,
    pub(crate) repository: String,
    pub(crate) processors: Vec<String>,
    pub(crate) registry: String,
    pub(crate) sdk: Vec<String>,
    #[serde(default)]
    pub(crate) container: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) base_aliases: Vec<String>,
    #[serde(default)]
    pub(crate) p4d_or_smdistributed_suffix: BTreeMap<String, String>,
    pub(crate) patch_window: Option<(String, String)>,
    pub(crate) full_tag: Option<String>,
    pub(crate) tag_prefix: Option<String>,
    pub(crate) note: Option<String>,
    #[serde(flatten)]
    pub(crate) provenance: Provenance,
}

#[derive(Deserialize)]
struct AliasRow {
    aliases: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct RegistryRow {
    accounts: BTreeMap<String, String>,
}

/// Returns the version for an alias.
pub(crate) fn alias(family: ImageFamily, spelled: &str) -> Option<String> {
    ALIASES.row::<AliasRow>(family.as_str())?.aliases.get(spelled).cloned()
}

/// Returns the accounts of a set of regions, by region.
pub(crate) fn accounts(registry: &str) -> Option<&'static BTreeMap<String, String>> {
    REGISTRIES.row::<RegistryRow>(registry).map(|row| &row.accounts)
}

/// Returns the versions of a family (of transformers for HuggingFace), oldest first, each once.
pub(crate) fn versions(family: ImageFamily) -> Vec<String> {
    let prefix = format!("{}/", family.as_str());
    let mut all: Vec<String> =
        TABLE.keys_under(&prefix).filter_map(|key| key.split('/').nth(1)).map(str::to_owned).collect();
    sort_versions(&mut all);
    all
}

/// Returns the versions of the HuggingFace image nearest to a pair without image: those that share the most
/// leading numbers, then the newest.
pub fn nearest_pair(transformers: &str, pytorch: &str) -> Option<(String, String)> {
    let shared = |one: &str, other: &str| {
        version_key(one).iter().zip(version_key(other)).take_while(|(a, b)| **a == *b).count()
    };
    TABLE
        .keys_under("huggingface/")
        .filter_map(|key| {
            let mut parts = key.split('/').skip(1);
            Some((parts.next()?, parts.next()?))
        })
        .max_by_key(|(full, base)| {
            (shared(full, transformers) + shared(base, pytorch), version_key(full), version_key(base))
        })
        .map(|(full, base)| (full.to_owned(), base.to_owned()))
}

/// Returns how near two versions are: how many of their first two numbers they share, and how far apart the next
/// ones are.
pub fn closeness(one: &str, other: &str) -> (usize, Reverse<u32>) {
    let (one, other) = (version_key(one), version_key(other));
    let at = |key: &[u32], place: usize| key.get(place).copied().unwrap_or(0);
    let differs = (0..2).find(|place| at(&one, *place) != at(&other, *place));
    let apart = differs.map_or(0, |place| at(&one, place).abs_diff(at(&other, place)));
    (differs.unwrap_or(2), Reverse(apart))
}

/// Returns the version nearest to one; of two as near, the newer.
pub fn nearest_version<'a>(to: &str, known: &'a [String]) -> Option<&'a String> {
    known.iter().max_by_key(|version| (closeness(version, to), version_key(version)))
}

/// Sorts versions numerically and removes duplicates.
pub(crate) fn sort_versions(versions: &mut Vec<String>) {
    versions.sort_by_key(|version| version_key(version));
    versions.dedup();
}

/// Returns the numbers between the dots.
pub fn version_key(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// An image of the listing, independent of region and instance type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedImage {
    /// Table of the SDK.
    pub family: ImageFamily,
    /// Full PyTorch version (for SMP the SDK's key, which may be an SMP library version).
    pub pytorch: String,
    /// Full transformers version, for HuggingFace.
    pub transformers: Option<String>,
    /// Python words that the tag accepts; empty for Amazon Linux 2023 images.
    pub python: Vec<String>,
    /// ECR repository.
    pub repository: String,
    /// `cpu`, `gpu`, `trn`.
    pub processors: Vec<String>,
    /// Major versions of the SageMaker Python SDK that list it: `v2`, `v3`.
    pub sdk: Vec<String>,
    /// General availability and end of patch of the PyTorch version.
    pub patch_window: Option<(String, String)>,
    /// The long tag of the GPU image, with CUDA and operating system.
    pub full_tag: Option<String>,
    /// The CUDA version of the GPU image, as its tags say: `12.4`.
    pub cuda: Option<String>,
    /// Regions whose registry has it, sorted.
    pub regions: Vec<String>,
    /// The source of the row.
    pub provenance: Provenance,
}

fn parse_listed_image(key: &str) -> Option<ListedImage> {
    let mut parts = key.split('/');
    let word = parts.next()?;
    let family = ImageFamily::ALL.into_iter().find(|family| family.as_str() == word)?;
    let first = parts.next()?.to_owned();
    let (pytorch, transformers) = match family {
        ImageFamily::HuggingFace => (parts.next()?.to_owned(), Some(first)),
        ImageFamily::PyTorch
        | ImageFamily::Amzn2023
        | ImageFamily::SmpV2
        | ImageFamily::Neuron
        | ImageFamily::Other => (first, None),
    };
    let row: ImageRow = TABLE.row(key).cloned()?;
    let tags = [row.full_tag.as_ref(), row.container.get("gpu")];
    let cuda = tags.into_iter().flatten().find_map(|tag| crate::cuda::of_tag(tag));
    Some(ListedImage {
        cuda,
        family,
        pytorch,
        transformers,
        python: row.python,
        repository: row.repository,
        processors: row.processors,
        sdk: row.sdk,
        patch_window: row.patch_window,
        full_tag: row.full_tag,
        regions: accounts(&row.registry).into_iter().flat_map(BTreeMap::keys).cloned().collect(),
        provenance: row.provenance,
    })
}

/// Returns all images, in the order of the file.
pub fn all() -> impl Iterator<Item = ListedImage> {
    TABLE.keys().filter_map(parse_listed_image)
}

/// Returns the images of a family, in the order of the file.
pub fn of_family(family: ImageFamily) -> Arc<[ListedImage]> {
    static MEMO: Memo<ImageFamily, Arc<[ListedImage]>> = Memo::new();
    MEMO.get(family, |family| {
        TABLE.keys_under(&format!("{}/", family.as_str())).filter_map(parse_listed_image).collect()
    })
}

/// Returns the newest `pytorch-training` GPU image of the region, the newest one known to contain the
/// training toolkit.
pub fn newest_pytorch_gpu(region: &str) -> Option<ListedImage> {
    versions(ImageFamily::PyTorch)
        .iter()
        .rev()
        .filter_map(|version| parse_listed_image(&format!("pytorch/{version}")))
        .find(|image| image.regions.iter().any(|known| known == region))
}
