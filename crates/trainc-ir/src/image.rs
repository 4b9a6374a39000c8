//! The container of a plan.

use super::origin::Origin;

/// A container image.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    /// The URI, as in the request.
    pub uri: String,
    /// `pytorch`, `huggingface`, `smp` or `own`.
    pub family: String,
    /// Full PyTorch version, if known.
    pub pytorch: Option<String>,
    /// Full transformers version, if known.
    pub transformers: Option<String>,
    /// Python version, such as `py310`.
    pub python: Option<String>,
    /// First and last day of patches (ISO dates).
    pub patch_window: Option<(String, String)>,
    /// Whether the image contains the training toolkit, which reads `sagemaker_*` hyperparameters.
    pub toolkit: bool,
    /// Whether the SageMaker Python SDK v2 accepts the versions as written with the job's engine; otherwise
    /// only the URI.
    pub sdk_v2: bool,
    /// The origin of the URI.
    pub origin: Origin,
}

impl Image {
    /// Returns whether it is an image of the user, of whose content nothing is known.
    pub fn is_own(&self) -> bool {
        self.family == "own"
    }
}
