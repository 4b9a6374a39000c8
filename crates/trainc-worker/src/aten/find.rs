//! Finds the installed PyTorch.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::exit::{Code, Failure};

/// Variable that names `torch/lib` of the PyTorch to use.
pub const VARIABLE: &str = "TRAINC_TORCH_LIB";

/// Libraries of collectives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Libraries {
    /// NCCL.
    pub nccl: PathBuf,
    /// CUDA's runtime.
    pub cudart: PathBuf,
}

/// Returns `torch/lib` of the installed PyTorch: the variable, or else where Python finds the package,
/// without importing it.
pub fn torch_directory() -> Result<PathBuf, Failure> {
    if let Some(directory) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        return Ok(PathBuf::from(directory));
    }
    let script = "import importlib.util as u; s = u.find_spec('torch'); print(s.origin if s else '')";
    let missing = |why: String| {
        Failure::new(
            Code::Device,
            format!(
                "PyTorch was not found: {why}; use an image with PyTorch 2.10 or newer, or set \
                    {VARIABLE} to its torch/lib"
            ),
        )
    };
    let output = Command::new("python3").args(["-c", script]).output();
    let output = output.map_err(|error| missing(format!("python3: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let origin = Path::new(text.trim());
    match origin.parent() {
        Some(package) if output.status.success() && origin.is_absolute() => Ok(package.join("lib")),
        _ => Err(missing("python3 has no module `torch`".to_owned())),
    }
}

/// Returns the GPUs of this host by the names that `CUDA_VISIBLE_DEVICES` takes: that variable's, or else
/// all.
pub fn visible_gpus() -> Vec<String> {
    if let Ok(list) = std::env::var("CUDA_VISIBLE_DEVICES") {
        return list.split(',').map(|gpu| gpu.trim().to_owned()).filter(|gpu| !gpu.is_empty()).collect();
    }
    let number = |entry: std::fs::DirEntry| -> Option<u32> {
        entry.file_name().to_str()?.strip_prefix("nvidia")?.parse().ok()
    };
    let count = std::fs::read_dir("/dev").into_iter().flatten().flatten().filter_map(number).count();
    (0..count).map(|gpu| gpu.to_string()).collect()
}

/// Returns the model of the first GPU as its driver names it; empty if unknown.
pub(crate) fn gpu_name() -> String {
    let gpus = std::fs::read_dir("/proc/driver/nvidia/gpus").into_iter().flatten().flatten();
    let model = |text: String| -> Option<String> {
        Some(text.lines().find_map(|line| line.strip_prefix("Model:"))?.trim().to_owned())
    };
    gpus.filter_map(|gpu| std::fs::read_to_string(gpu.path().join("information")).ok())
        .find_map(model)
        .unwrap_or_default()
}

/// Returns the line in which the driver names its version; empty if unknown.
pub(crate) fn driver_version() -> String {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

/// Returns the libraries of collectives that libtorch has loaded.
pub(crate) fn loaded_libraries() -> Result<Libraries, Failure> {
    Ok(Libraries {
        nccl: super::ffi::find_loaded(&["libnccl.so.2"])?,
        cudart: super::ffi::find_loaded(&["libcudart.so.13", "libcudart.so.12"])?,
    })
}
