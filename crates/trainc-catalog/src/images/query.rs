//! Queries for images and their results.

use super::ImageFamily;
use trainc_ir::hardware::Provenance;

/// The estimator for which an image is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framework {
    /// PyTorch; on a Trainium instance the Neuron image.
    PyTorch,
    /// HuggingFace transformers over PyTorch.
    HuggingFace,
    /// PyTorch with SMP 2 (`torch_distributed` and `smdistributed.modelparallel`).
    SmpV2,
}

/// A query for an image.
#[derive(Debug, Clone, Copy)]
pub struct ImageQuery<'a> {
    /// The estimator.
    pub framework: Framework,
    /// PyTorch version as spelled: `2.8` and `2.8.0` give different tags.
    pub pytorch: &'a str,
    /// transformers version as spelled; only for HuggingFace.
    pub transformers: Option<&'a str>,
    /// `py312`; may be omitted if only one exists.
    pub python: Option<&'a str>,
    /// Region of the job.
    pub region: &'a str,
    /// Instance type of the job.
    pub instance: &'a str,
    /// True if the distribution contains `smdistributed`, for which PyTorch 1.6 has another image.
    pub smdistributed: bool,
}

/// An image that exists in the SDK's tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The whole URI.
    pub uri: String,
    /// Account of the registry, twelve digits.
    pub account: String,
    /// ECR repository.
    pub repository: String,
    /// Tag, with the user's spelling of the versions.
    pub tag: String,
    /// Table of the SDK it comes from.
    pub family: ImageFamily,
    /// PyTorch version with the alias resolved.
    pub pytorch_full_version: String,
    /// transformers version with the alias resolved.
    pub transformers_full_version: Option<String>,
    /// Python version of the image; `None` for Amazon Linux 2023 images, whose tag does not contain it.
    pub python: Option<String>,
    /// `cpu`, `gpu` or `trn`.
    pub processor: String,
    /// True if the SDK replaced the requested version, as it does for the only Neuron image.
    pub version_substituted: bool,
    /// Major versions of the SageMaker Python SDK that list it: `v2` rejects an image of `v3` only.
    pub sdk: Vec<String>,
    /// General availability and end of patch of the PyTorch version, `YYYY-MM-DD`.
    pub patch_window: Option<(String, String)>,
    /// Long tag of the GPU image, with CUDA and operating system.
    pub full_tag: Option<String>,
    /// A note on the row.
    pub note: Option<String>,
    /// The source of the row.
    pub provenance: Provenance,
}

impl Image {
    /// Returns the Neuron SDK version in its tag: `2.4.0`; `None` for a GPU image.
    pub fn neuron_sdk_version(&self) -> Option<&str> {
        let (_, rest) = self.tag.split_once("-sdk")?;
        rest.split('-').next()
    }
}

/// The reason why there is no image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageProblem {
    /// No image of that version. `known` is sorted, oldest first, full versions only.
    UnknownVersion {
        /// `pytorch` or `transformers`.
        of: &'static str,
        /// As spelled.
        found: String,
        /// Full versions, oldest first.
        known: Vec<String>,
    },
    /// HuggingFace without a transformers version.
    MissingTransformers,
    /// The image has no such Python version, or has several and none is specified.
    UnknownPython {
        /// As spelled.
        found: Option<String>,
        /// Words of the image.
        known: Vec<String>,
    },
    /// This transformers version has no image over this PyTorch.
    UnknownCombination {
        /// As spelled.
        transformers: String,
        /// PyTorch as spelled.
        pytorch: String,
        /// PyTorch versions that have one, oldest first.
        bases: Vec<String>,
    },
    /// One version is short (`4.28`), the other full (`2.0.0`): the estimator requires the same length.
    MixedVersionLengths {
        /// As spelled.
        transformers: String,
        /// As spelled.
        pytorch: String,
    },
    /// The image is not in that region, or no such region exists.
    RegionWithoutImage {
        /// As spelled.
        region: String,
        /// Regions that have it, sorted.
        known: Vec<String>,
    },
    /// The image does not support the processor of the instance type.
    UnsupportedProcessor {
        /// Instance type as spelled.
        instance: String,
        /// `cpu`, `gpu`, `trn`, `inf`.
        processor: String,
        /// Processors that the image supports.
        known: Vec<String>,
    },
    /// Invalid instance type.
    BadInstanceName {
        /// As spelled.
        instance: String,
    },
    /// P2 instances are rejected from PyTorch 1.13 on.
    InstanceDeprecated {
        /// As spelled.
        instance: String,
        /// As spelled.
        pytorch: String,
    },
    /// No SMP 2 image for that PyTorch version.
    SmpUnknownVersion {
        /// As spelled.
        found: String,
        /// PyTorch versions, oldest first.
        known: Vec<String>,
        /// True if it is a version of the SMP library, which the SDK treats as a PyTorch version, giving a
        /// tag that does not exist.
        is_library_version: bool,
    },
}
