//! Images of frameworks other than PyTorch and of built-in algorithms.

use serde::Deserialize;

use super::processor;
use super::rows::{accounts, version_key};
use super::uri::ImageUri;
use super::{Image, ImageFamily, ImageProblem, find_account, find_python};
use crate::regions;
use crate::table::Table;
use trainc_ir::hardware::Provenance;
use trainc_ir::job::ImageRequest;

pub(crate) static TABLE: Table = Table::new("other-images", include_str!("../data/other_images.toml"));

#[derive(Debug, Clone, Deserialize)]
struct OtherRow {
    #[serde(default)]
    aliases: Vec<String>,
    repository: String,
    #[serde(default)]
    processors: Vec<String>,
    #[serde(default)]
    python: Vec<String>,
    #[serde(default)]
    algorithm: bool,
    registry: String,
    #[serde(flatten)]
    provenance: Provenance,
}

/// A query for an image of one of these families.
#[derive(Debug, Clone, Copy)]
pub struct OtherQuery<'a> {
    /// A family of [`other_families`].
    pub family: &'a str,
    /// The version as spelled; may be omitted if the family has only one.
    pub version: Option<&'a str>,
    /// `py310`; may be omitted if only one exists.
    pub python: Option<&'a str>,
    /// Region of the job.
    pub region: &'a str,
    /// Instance type of the job.
    pub instance: &'a str,
}

/// Returns the families, in the order of the table: `tensorflow`, `xgboost`, …, `blazingtext`, ….
pub fn other_families() -> Vec<&'static str> {
    let mut all: Vec<&str> = TABLE.keys().filter_map(|key| key.split('/').next()).collect();
    all.dedup();
    all
}

/// Returns the versions of a family, oldest first.
pub fn other_versions(family: &str) -> Vec<String> {
    let mut all: Vec<String> = TABLE
        .keys_under(&format!("{family}/"))
        .filter_map(|key| key.split('/').nth(1))
        .map(str::to_owned)
        .collect();
    all.sort_by_key(|version| other_version_key(version));
    all
}

/// Returns the numbers of a version such as `1.7-1`, to compare it with others of its family.
pub fn other_version_key(version: &str) -> Vec<u32> {
    version_key(&version.replace('-', "."))
}

/// Returns whether an image trains without a program of the user: a built-in algorithm.
pub fn is_algorithm(uri: &ImageUri) -> bool {
    family_of(uri).is_some_and(|family| is_algorithm_family(&family))
}

/// Returns whether the image of a job is that of a built-in algorithm, also of a version that does not exist.
pub fn requests_algorithm(ask: &ImageRequest) -> bool {
    ask.family.value().is_some_and(|family| is_algorithm_family(family))
        || ask.uri.value().and_then(|uri| super::parse_uri(uri)).is_some_and(|uri| is_algorithm(&uri))
}

/// Returns whether a family trains without a program of the user.
pub fn is_algorithm_family(family: &str) -> bool {
    rows(family).iter().any(|(_, row)| row.algorithm)
}

/// Returns the family of an image in a registry of AWS.
pub fn family_of(uri: &ImageUri) -> Option<String> {
    let found = TABLE.keys().find(|key| {
        TABLE.row::<OtherRow>(key).is_some_and(|row| {
            row.repository == uri.repository
                && accounts(&row.registry)
                    .is_some_and(|all| all.values().any(|account| *account == uri.account))
        })
    })?;
    found.split('/').next().map(str::to_owned)
}

/// The row of registries.toml with the accounts of the image that evaluates rules of SageMaker Debugger.
const DEBUGGER_REGISTRY: &str = "r23";

/// Returns the image that evaluates built-in rules of SageMaker Debugger in a region.
pub(crate) fn debugger_image(region: &str) -> Option<String> {
    let account = accounts(DEBUGGER_REGISTRY)?.get(region)?;
    let suffix = regions::get(region)?.dns_suffix;
    Some(format!("{account}.dkr.ecr.{region}.{suffix}/sagemaker-debugger-rules:latest"))
}

fn rows(family: &str) -> Vec<(String, &'static OtherRow)> {
    TABLE
        .keys_under(&format!("{family}/"))
        .filter_map(|key| Some((key.split('/').nth(1)?.to_owned(), TABLE.row(key)?)))
        .collect()
}

/// Returns the image of SDK 2.257.7 for the query.
pub fn resolve_other(query: &OtherQuery) -> Result<Image, ImageProblem> {
    let known = other_versions(query.family);
    let unknown = |found: &str| ImageProblem::UnknownVersion {
        of: "version",
        found: found.to_owned(),
        known: known.clone(),
    };
    let spelled = match (query.version, known.as_slice()) {
        (Some(version), _) => version,
        (None, [only]) => only,
        (None, _) => return Err(unknown("")),
    };
    let Some((full, row)) = rows(query.family)
        .into_iter()
        .find(|(full, row)| full == spelled || row.aliases.iter().any(|alias| alias == spelled))
    else {
        return Err(unknown(spelled));
    };
    let python = find_python(query.python, &row.python)?;
    let (account, region) = find_account(query.region, &row.registry)?;
    let processor = match row.processors.as_slice() {
        [] => None,
        listed => Some(processor::for_instance(query.instance, listed)?),
    };
    let parts = [Some(spelled.to_owned()), processor.clone(), python.clone()];
    let tag = parts.into_iter().flatten().collect::<Vec<_>>().join("-");
    Ok(Image {
        uri: format!("{account}.dkr.ecr.{}.{}/{}:{tag}", query.region, region.dns_suffix, row.repository),
        account,
        repository: row.repository.clone(),
        tag,
        family: ImageFamily::Other,
        pytorch_full_version: full,
        transformers_full_version: None,
        python,
        processor: processor.unwrap_or_default(),
        version_substituted: false,
        sdk: vec!["v2".to_owned()],
        patch_window: None,
        full_tag: None,
        note: None,
        provenance: row.provenance.clone(),
    })
}

/// Returns the newest version of a family.
pub fn newest_other(family: &str) -> Option<String> {
    other_versions(family).pop()
}

#[cfg(test)]
mod tests {
    use super::super::uri::parse_uri;
    use super::*;

    fn uri(
        family: &str,
        version: Option<&str>,
        python: Option<&str>,
        region: &str,
        instance: &str,
    ) -> String {
        resolve_other(&OtherQuery { family, version, python, region, instance })
            .map_or_else(|problem| format!("{problem:?}"), |image| image.uri)
    }

    // Expected: `sagemaker.image_uris.retrieve` of SDK 2.257.7.
    #[test]
    fn uris_are_those_of_the_sdk() {
        for (family, version, python, region, instance, expected) in [
            (
                "xgboost",
                Some("1.7-1"),
                None,
                "us-west-2",
                "ml.m5.xlarge",
                "246618743249.dkr.ecr.us-west-2.amazonaws.com/sagemaker-xgboost:1.7-1",
            ),
            (
                "xgboost",
                Some("1.0-1"),
                None,
                "eu-west-1",
                "ml.m5.xlarge",
                "141502667606.dkr.ecr.eu-west-1.amazonaws.com/sagemaker-xgboost:1.0-1-cpu-py3",
            ),
            (
                "sklearn",
                Some("1.2-1"),
                None,
                "us-east-1",
                "ml.m5.xlarge",
                "683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-scikit-learn:1.2-1-cpu-py3",
            ),
            (
                "tensorflow",
                Some("2.16"),
                None,
                "us-west-2",
                "ml.g5.xlarge",
                "763104351884.dkr.ecr.us-west-2.amazonaws.com/tensorflow-training:2.16-gpu-py310",
            ),
            (
                "tensorflow",
                Some("2.9.2"),
                Some("py39"),
                "cn-north-1",
                "ml.c5.xlarge",
                "727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn/tensorflow-training:2.9.2-cpu-py39",
            ),
            (
                "blazingtext",
                None,
                None,
                "us-west-2",
                "ml.p3.2xlarge",
                "433757028032.dkr.ecr.us-west-2.amazonaws.com/blazingtext:1",
            ),
            (
                "linear-learner",
                None,
                None,
                "us-east-1",
                "ml.m5.xlarge",
                "382416733822.dkr.ecr.us-east-1.amazonaws.com/linear-learner:1",
            ),
        ] {
            assert_eq!(uri(family, version, python, region, instance), expected);
        }
    }

    #[test]
    fn what_does_not_exist_is_a_problem() {
        let of = |family, version, region| {
            resolve_other(&OtherQuery { family, version, python: None, region, instance: "ml.m5.xlarge" })
        };
        assert!(matches!(of("xgboost", Some("9.9"), "us-west-2"), Err(ImageProblem::UnknownVersion { .. })));
        assert!(matches!(of("xgboost", None, "us-west-2"), Err(ImageProblem::UnknownVersion { .. })));
        assert!(matches!(of("lda", None, "eu-north-1"), Err(ImageProblem::RegionWithoutImage { .. })));
        let gpu = OtherQuery {
            family: "sklearn",
            version: Some("1.2-1"),
            python: None,
            region: "us-west-2",
            instance: "ml.g5.xlarge",
        };
        assert!(matches!(resolve_other(&gpu), Err(ImageProblem::UnsupportedProcessor { .. })));
        assert_eq!(newest_other("xgboost").as_deref(), Some("3.0-5"));
    }

    #[test]
    fn algorithms_need_no_program() {
        let of = |path: &str| parse_uri(&format!("{path}:1")).is_some_and(|uri| is_algorithm(&uri));
        assert!(of("433757028032.dkr.ecr.us-west-2.amazonaws.com/blazingtext"));
        assert!(of("246618743249.dkr.ecr.us-west-2.amazonaws.com/sagemaker-xgboost"));
        assert!(!of("246618743249.dkr.ecr.us-west-2.amazonaws.com/sagemaker-scikit-learn"));
        assert!(!of("111122223333.dkr.ecr.us-west-2.amazonaws.com/blazingtext"));
    }
}
