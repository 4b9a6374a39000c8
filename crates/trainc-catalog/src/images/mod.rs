//! Training images: resolves versions as written to the URI that the SageMaker Python SDK returns.
//!
//! Input: framework, versions as spelled, region, instance type. Output: an [`Image`], or an
//! [`ImageProblem`]. The tag keeps the user's spelling; an alias is only used to find the row.

mod names;
mod other;
mod processor;
mod query;
mod rows;
mod uri;

pub use names::{
    NamePart, account_for, accounts_of_repository, cpu_of, has_efa_in_name, has_repository, is_misplaced,
    is_registry_account, lack_in_name, processor_in_name, processor_of_instance, purpose_in_name,
    regions_of_account, repositories,
};
pub use other::{
    OtherQuery, family_of, is_algorithm, is_algorithm_family, newest_other, other_families,
    other_version_key, other_versions, requests_algorithm, resolve_other,
};
pub use query::{Framework, Image, ImageProblem, ImageQuery};
pub use rows::{
    ImageFamily, ListedImage, all, closeness, nearest_pair, nearest_version, newest_pytorch_gpu, of_family,
    version_key,
};
pub use uri::{ImageUri, parse_uri};

pub(crate) use names::NAMES;
pub(crate) use other::{TABLE as OTHER, debugger_image};
pub(crate) use rows::{ALIASES, REGISTRIES, TABLE};

use self::rows::{ImageRow, accounts, alias, sort_versions, versions};
use crate::memo::Memo;
use crate::{cuda, regions, support};

/// Returns the full PyTorch version for a spelling in the tag of a `pytorch-training` container: `1.12.1` for
/// `1.12`, and the spelling itself if it is not an alias.
pub fn full_pytorch(spelled: &str) -> String {
    alias(ImageFamily::PyTorch, spelled).unwrap_or_else(|| spelled.to_owned())
}

/// Returns the CUDA version of a GPU image: as its tag says, otherwise that of the `pytorch-training`
/// container with the same PyTorch version.
pub fn cuda_of_uri(uri: &str) -> Option<String> {
    let parsed = parse_uri(uri)?;
    let tag = parsed.tag?;
    if let Some(cuda) = cuda::of_tag(&tag) {
        return Some(cuda);
    }
    let mut parts = tag.split('-');
    let (version, processor) = (parts.next()?, parts.next()?);
    (parsed.repository == "pytorch-training" && processor == "gpu").then(|| cuda_of_pytorch(version))?
}

/// Returns the CUDA version of the `pytorch-training` GPU container with a PyTorch version, full or short.
pub fn cuda_of_pytorch(version: &str) -> Option<String> {
    let row: &ImageRow = TABLE.row(&format!("pytorch/{}", full_pytorch(version)))?;
    cuda::of_tag(row.full_tag.as_ref()?)
}

/// Returns the image of SDK 2.257.7 for the query; for versions that only SDK 3 lists, that of 3.27.0.
pub fn resolve(query: &ImageQuery) -> Result<Image, ImageProblem> {
    static MEMO: Memo<String, Result<Image, ImageProblem>> = Memo::new();
    MEMO.get(format!("{query:?}"), |_| look_up(query))
}

fn look_up(query: &ImageQuery) -> Result<Image, ImageProblem> {
    match query.framework {
        Framework::PyTorch => pytorch(query),
        Framework::HuggingFace => huggingface(query),
        Framework::SmpV2 => smp(query),
    }
}

fn pytorch(query: &ImageQuery) -> Result<Image, ImageProblem> {
    if processor::family(query.instance)
        .is_some_and(|family| family.starts_with("trn") || family.starts_with("inf"))
    {
        return neuron(query);
    }
    let full = alias(ImageFamily::PyTorch, query.pytorch).unwrap_or_else(|| query.pytorch.to_owned());
    if let Some(row) = TABLE.row::<ImageRow>(&format!("pytorch/{full}")) {
        let found = find_python_and_account(query, row)?;
        if processor::family(query.instance) == Some("p2") && version_key(query.pytorch) >= vec![1, 13] {
            return Err(ImageProblem::InstanceDeprecated {
                instance: query.instance.to_owned(),
                pytorch: query.pytorch.to_owned(),
            });
        }
        let python = found.python.clone().unwrap_or_default();
        let mut tag = format!("{}-{}-{python}", query.pytorch, found.processor);
        let alternative = query.smdistributed || processor::family(query.instance) == Some("p4d");
        if let Some(suffix) = row.p4d_or_smdistributed_suffix.get(query.pytorch)
            && alternative
            && found.processor == "gpu"
        {
            tag = format!("{tag}-{suffix}");
        }
        return Ok(found.into_image(query, row, ImageFamily::PyTorch, tag, full));
    }
    let full = alias(ImageFamily::Amzn2023, query.pytorch).unwrap_or_else(|| query.pytorch.to_owned());
    let Some(row) = TABLE.row::<ImageRow>(&format!("amzn2023/{full}")) else {
        let mut known = versions(ImageFamily::PyTorch);
        known.extend(versions(ImageFamily::Amzn2023));
        return Err(ImageProblem::UnknownVersion { of: "pytorch", found: query.pytorch.to_owned(), known });
    };
    let found = find_python_and_account(query, row)?;
    let container = row.container.get(&found.processor).cloned().unwrap_or_default();
    let tag = format!("{}-{container}", row.tag_prefix.as_deref().unwrap_or(&full));
    Ok(found.into_image(query, row, ImageFamily::Amzn2023, tag, full))
}

fn neuron(query: &ImageQuery) -> Result<Image, ImageProblem> {
    let known = versions(ImageFamily::Neuron);
    let aliased = alias(ImageFamily::Neuron, query.pytorch);
    // With one version in its table the SDK uses it for every query, and writes it into the tag.
    let (full, spelled, substituted) = match (aliased, known.as_slice()) {
        (Some(full), _) => (full, query.pytorch.to_owned(), false),
        (None, [only]) => (only.clone(), only.clone(), only != query.pytorch),
        (None, _) => (query.pytorch.to_owned(), query.pytorch.to_owned(), false),
    };
    let Some(row) = TABLE.row::<ImageRow>(&format!("neuron/{full}")) else {
        return Err(ImageProblem::UnknownVersion { of: "pytorch", found: query.pytorch.to_owned(), known });
    };
    let found = find_python_and_account(query, row)?;
    let container = row.container.get(&found.processor).cloned().unwrap_or_default();
    let tag = format!("{spelled}-neuron-{}-{container}", found.python.as_deref().unwrap_or_default());
    let image = found.into_image(query, row, ImageFamily::Neuron, tag, full);
    Ok(Image { version_substituted: substituted, ..image })
}

fn huggingface(query: &ImageQuery) -> Result<Image, ImageProblem> {
    let transformers = query.transformers.ok_or(ImageProblem::MissingTransformers)?;
    if transformers.split('.').count() != query.pytorch.split('.').count() {
        return Err(ImageProblem::MixedVersionLengths {
            transformers: transformers.to_owned(),
            pytorch: query.pytorch.to_owned(),
        });
    }
    processor::for_instance(query.instance, &["cpu".to_owned(), "gpu".to_owned()])?;
    let full = alias(ImageFamily::HuggingFace, transformers).unwrap_or_else(|| transformers.to_owned());
    let rows: Vec<(&str, &ImageRow)> = TABLE
        .keys_under(&format!("huggingface/{full}/"))
        .filter_map(|key| Some((key.split('/').nth(2)?, TABLE.row(key)?)))
        .collect();
    if rows.is_empty() {
        let known = versions(ImageFamily::HuggingFace);
        return Err(ImageProblem::UnknownVersion {
            of: "transformers",
            found: transformers.to_owned(),
            known,
        });
    }
    let mut bases: Vec<String> = rows.iter().map(|(base, _)| (*base).to_owned()).collect();
    sort_versions(&mut bases);
    let Some((base, row)) = rows.into_iter().find(|(base, row)| {
        *base == query.pytorch || row.base_aliases.iter().any(|short| short == query.pytorch)
    }) else {
        return Err(ImageProblem::UnknownCombination {
            transformers: transformers.to_owned(),
            pytorch: query.pytorch.to_owned(),
            bases,
        });
    };
    let found = find_python_and_account(query, row)?;
    let python = found.python.clone().unwrap_or_default();
    let mut tag = format!("{}-transformers{transformers}-{}-{python}", query.pytorch, found.processor);
    if let Some(container) = row.container.get(&found.processor) {
        tag = format!("{tag}-{container}");
    }
    let image = found.into_image(query, row, ImageFamily::HuggingFace, tag, base.to_owned());
    Ok(Image { transformers_full_version: Some(full), ..image })
}

fn smp(query: &ImageQuery) -> Result<Image, ImageProblem> {
    let pytorch = query.pytorch;
    let known = support::smp_v2().map(|support| support.pytorch_versions).unwrap_or_default();
    if query.instance.contains("trn") {
        processor::for_instance(query.instance, &["gpu".to_owned()])?;
    }
    let aliased = alias(ImageFamily::SmpV2, pytorch);
    let library = aliased.is_none() && !known.iter().any(|version| version == pytorch);
    let key = aliased.unwrap_or_else(|| pytorch.to_owned());
    let row: Option<&ImageRow> = TABLE.row(&format!("smp/{key}"));
    let (Some(row), false) = (row, library) else {
        return Err(ImageProblem::SmpUnknownVersion {
            found: pytorch.to_owned(),
            known,
            is_library_version: row.is_some(),
        });
    };
    let found = find_python_and_account(query, row)?;
    let cuda = if pytorch.contains("2.5") {
        "cu124"
    } else if query.instance.contains("p5")
        || ["2.1", "2.2", "2.3", "2.4"].iter().any(|minor| pytorch.contains(minor))
    {
        "cu121"
    } else {
        "cu118"
    };
    let tag = format!("{pytorch}-{}-{}-{cuda}", found.processor, found.python.as_deref().unwrap_or_default());
    let dotted = format!("{pytorch}.");
    let full = known.iter().find(|version| *version == pytorch || version.starts_with(&dotted));
    let full = full.cloned().unwrap_or_else(|| pytorch.to_owned());
    Ok(found.into_image(query, row, ImageFamily::SmpV2, tag, full))
}

/// Region, Python and processor, in the order in which the SDK checks them.
struct Found {
    account: String,
    dns_suffix: String,
    python: Option<String>,
    processor: String,
}

/// Returns the word of Python in the tag: none where the image has none, the only one where none is asked
/// for.
fn find_python(asked: Option<&str>, known: &[String]) -> Result<Option<String>, ImageProblem> {
    match (asked, known) {
        (_, []) => Ok(None),
        (None, [only]) => Ok(Some(only.clone())),
        (Some(word), known) if known.iter().any(|python| python == word) => Ok(Some(word.to_owned())),
        (found, known) => {
            Err(ImageProblem::UnknownPython { found: found.map(str::to_owned), known: known.to_vec() })
        }
    }
}

/// Returns the account that keeps the images of a registry in a region, and the region.
fn find_account(region: &str, registry: &str) -> Result<(String, regions::Region), ImageProblem> {
    let accounts = accounts(registry);
    match (accounts.and_then(|all| all.get(region)), regions::get(region)) {
        (Some(account), Some(region)) => Ok((account.clone(), region)),
        _ => Err(ImageProblem::RegionWithoutImage {
            region: region.to_owned(),
            known: accounts.into_iter().flat_map(|all| all.keys()).cloned().collect(),
        }),
    }
}

fn find_python_and_account(query: &ImageQuery, row: &ImageRow) -> Result<Found, ImageProblem> {
    let python = find_python(query.python, &row.python)?;
    let (account, region) = find_account(query.region, &row.registry)?;
    let processor = processor::for_instance(query.instance, &row.processors)?;
    Ok(Found { account, dns_suffix: region.dns_suffix, python, processor })
}

impl Found {
    fn into_image(
        self,
        query: &ImageQuery,
        row: &ImageRow,
        family: ImageFamily,
        tag: String,
        pytorch: String,
    ) -> Image {
        let Self { account, dns_suffix, python, processor } = self;
        Image {
            uri: format!("{account}.dkr.ecr.{}.{dns_suffix}/{}:{tag}", query.region, row.repository),
            account,
            repository: row.repository.clone(),
            tag,
            family,
            pytorch_full_version: pytorch,
            transformers_full_version: None,
            python,
            full_tag: row.full_tag.clone().filter(|_| processor == "gpu"),
            processor,
            version_substituted: false,
            sdk: row.sdk.clone(),
            patch_window: row.patch_window.clone(),
            note: row.note.clone(),
            provenance: row.provenance.clone(),
        }
    }
}

/// Returns the noun for a processor of the SageMaker SDK.
pub fn processor_noun(processor: &str) -> &str {
    match processor {
        "cpu" => "CPUs",
        "gpu" => "GPUs",
        "trn" | "neuron" => "Trainium",
        "inf" => "Inferentia",
        other => other,
    }
}

#[cfg(test)]
mod tests;
