//! The form of the program's entry point.

use std::path::Path;

/// The environment variable whose value the toolkit starts instead of the entry point (sagemaker-training-toolkit @3383937,
/// `environment.py`).
pub(crate) const PROGRAM_VARIABLE: &str = "SAGEMAKER_PROGRAM";

/// Returns whether the path of an entry point leads outside the program's directory.
pub(crate) fn is_outside_source(path: &str) -> bool {
    path.starts_with("s3://") || path.starts_with('/') || path.split('/').any(|part| part == "..")
}

/// Returns whether the toolkit starts the file with Python: it compares the extension, case included.
pub(crate) fn is_python(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "py")
}
