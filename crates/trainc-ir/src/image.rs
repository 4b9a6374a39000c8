//! The container of a plan.

use super::origin::Origin;

/// A container image.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    /// The registry path, as the request carries it.
    pub uri: String,
    /// `pytorch`, `huggingface`, `smp` or `own`.
    pub family: String,
    /// PyTorch in it, full version, where the catalogue knows it.
    pub pytorch: Option<String>,
    /// Transformers in it, full version, where the catalogue knows it.
    pub transformers: Option<String>,
    /// Python, as `py310`.
    pub python: Option<String>,
    /// First and last day of patches (ISO dates).
    pub patch_window: Option<(String, String)>,
    /// Whether the training toolkit is in it: what reads `sagemaker_*` hyperparameters.
    pub toolkit: bool,
    /// Whether the SageMaker Python SDK v2 takes the versions as written, with the job's engine; else only the path.
    pub sdk_v2: bool,
    /// Where the path comes from.
    pub origin: Origin,
}
