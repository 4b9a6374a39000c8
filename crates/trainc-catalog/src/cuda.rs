//! The CUDA versions whose compiled code runs on a GPU.

use serde::Deserialize;

use super::images::version_key;
use super::table::Table;
use trainc_ir::hardware::{Accelerator, Provenance};

pub(crate) static TABLE: Table = Table::new("cuda", include_str!("data/cuda.toml"));

#[derive(Clone, Deserialize)]
struct CudaRow {
    least: String,
    dropped: Option<String>,
    #[serde(flatten)]
    provenance: Provenance,
}

/// The CUDA versions for a compute capability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaRange {
    /// The first version that compiles for it.
    pub least: String,
    /// The first version that no longer compiles for it.
    pub dropped: Option<String>,
    /// The source of the row.
    pub provenance: Provenance,
}

impl CudaRange {
    /// Returns true if code that a CUDA version compiled runs on the GPU.
    pub fn contains(&self, cuda: &str) -> bool {
        let key = version_key(cuda);
        key >= version_key(&self.least)
            && self.dropped.as_ref().is_none_or(|dropped| key < version_key(dropped))
    }
}

/// Returns the CUDA versions for an accelerator; `None` if it is not a GPU or its compute capability has no
/// row.
pub fn of_accelerator(accelerator: &Accelerator) -> Option<CudaRange> {
    let (major, minor) = accelerator.compute_capability?;
    let row: CudaRow = TABLE.row(&format!("{major}.{minor}")).cloned()?;
    Some(CudaRange { least: row.least, dropped: row.dropped, provenance: row.provenance })
}

/// Returns the CUDA version that a part of an image's tag names: `12.4` for `cu124` and for `cuda12.4.1`.
pub fn of_tag(tag: &str) -> Option<String> {
    tag.split(['-', '_', '+']).find_map(|part| {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if let Some(version) = part.strip_prefix("cuda") {
            let mut numbers = version.split('.');
            let (major, minor) = (numbers.next()?, numbers.next()?);
            return (digits(major) && digits(minor)).then(|| format!("{major}.{minor}"));
        }
        // `cu12` names no minor version.
        let version = part.strip_prefix("cu").filter(|version| version.len() == 3 && digits(version))?;
        let (major, minor) = version.split_at_checked(2)?;
        Some(format!("{major}.{minor}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accelerators;

    fn range(name: &str) -> CudaRange {
        of_accelerator(&accelerators::get(name).unwrap()).unwrap()
    }

    #[test]
    fn every_gpu_has_a_row() {
        for gpu in accelerators::all().filter(|row| row.compute_capability.is_some()) {
            let range = of_accelerator(&gpu).unwrap_or_else(|| panic!("{}", gpu.name));
            assert!(!range.provenance.source.is_empty());
            assert!(range.contains(&range.least), "{}", gpu.name);
        }
        for name in ["Trainium-32GB", "Trainium2"] {
            assert_eq!(of_accelerator(&accelerators::get(name).unwrap()), None);
        }
    }

    #[test]
    fn code_runs_from_the_first_version_to_the_one_that_drops_the_gpu() {
        let runs = |gpu: &str, cuda: &str| range(gpu).contains(cuda);
        assert!(!runs("H100-SXM5-80GB", "11.7") && runs("H100-SXM5-80GB", "11.8"));
        assert!(!runs("B200-SXM6-180GB", "12.6") && runs("B200-SXM6-180GB", "12.8"));
        assert!(!runs("B300-SXM6-288GB", "12.8") && runs("B300-SXM6-288GB", "13.0"));
        assert!(runs("V100-SXM2-16GB", "12.9") && !runs("V100-SXM2-16GB", "13.0"));
        // Code for sm_80 runs on Ada.
        assert!(runs("L40S-48GB", "11.1") && !runs("L40S-48GB", "10.2"));
    }

    #[test]
    fn tags_name_cuda_in_two_ways() {
        for (tag, cuda) in [
            ("2.5.1-gpu-py311-cu124-ubuntu22.04-sagemaker", Some("12.4")),
            ("2.13-cu133-amzn2023-sagemaker", Some("13.3")),
            ("2.1.0-cuda12.1-cudnn8-runtime", Some("12.1")),
            ("torch2.4_cu121", Some("12.1")),
            ("1.6.0-gpu-py36-cu101-ubuntu16.04", Some("10.1")),
            ("2.5.1-gpu-py311", None),
            ("mine-cu12", None),
            ("cupy-13", None),
            ("cuda-latest", None),
        ] {
            assert_eq!(of_tag(tag).as_deref(), cuda, "{tag}");
        }
    }
}
