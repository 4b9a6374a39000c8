//! What engine `worker` requires on GPUs.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::images::version_key;
use super::table::Table;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("worker-gpu", include_str!("data/worker_gpu.toml"));

/// Any row: each has some of the columns.
#[derive(Clone, Deserialize)]
struct WorkerGpuRow {
    least: Option<String>,
    newest: Option<String>,
    multiple: Option<u64>,
    most: Option<u64>,
    #[serde(default)]
    gpus: BTreeMap<String, u64>,
    #[serde(flatten)]
    provenance: Provenance,
}

/// The versions of PyTorch whose libraries the worker can call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PytorchVersions {
    /// The oldest, as `2.10`.
    pub least: String,
    /// The newest, as `2.15`, with any patch.
    pub newest: String,
    /// The source of the row.
    pub provenance: Provenance,
}

impl PytorchVersions {
    /// Returns true if a version, with or without a patch, is one of them.
    pub fn contains(&self, version: &str) -> bool {
        let minor: Vec<&str> = version.splitn(3, '.').take(2).collect();
        let minor = version_key(&minor.join("."));
        minor >= version_key(&self.least) && minor <= version_key(&self.newest)
    }
}

/// Returns the versions of PyTorch that the worker supports on GPUs.
pub fn pytorch_versions() -> Option<PytorchVersions> {
    let row: WorkerGpuRow = TABLE.row("pytorch").cloned()?;
    Some(PytorchVersions { least: row.least?, newest: row.newest?, provenance: row.provenance })
}

/// The dimensions of attention heads that the worker supports on GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadDims {
    /// Every dimension is a multiple of it.
    pub multiple: u64,
    /// The largest dimension.
    pub most: u64,
}

impl HeadDims {
    /// Returns true if the dimension is supported.
    pub fn contains(self, head_dim: u64) -> bool {
        head_dim > 0 && head_dim.is_multiple_of(self.multiple.max(1)) && head_dim <= self.most
    }
}

/// Returns the supported dimensions of attention heads.
pub fn head_dims() -> Option<HeadDims> {
    let row: WorkerGpuRow = TABLE.row("head-dim").cloned()?;
    Some(HeadDims { multiple: row.multiple?, most: row.most? })
}

/// Returns on how many GPUs of a type, such as `A100-SXM4-40GB`, a run of the worker was seen; 0 for other
/// types.
pub fn most_gpus_seen(gpu: &str) -> u64 {
    let row: Option<&WorkerGpuRow> = TABLE.row("runs");
    row.and_then(|row| row.gpus.get(gpu).copied()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accelerators;

    #[test]
    fn every_row_is_read() {
        let versions = pytorch_versions().unwrap();
        assert!(!versions.provenance.source.is_empty());
        assert!(["2.10", "2.10.0", "2.15.0", "2.15.1"].into_iter().all(|version| versions.contains(version)));
        assert!(!["2.9.1", "2.8", "1.13.1", "2.16.0", "3.0"].into_iter().any(|v| versions.contains(v)));
        let dims = head_dims().unwrap();
        assert!([8, 64, 80, 128, 256].into_iter().all(|dim| dims.contains(dim)));
        assert!(![0, 4, 100, 264, 512].into_iter().any(|dim| dims.contains(dim)));
        let runs: WorkerGpuRow = TABLE.row("runs").cloned().unwrap();
        let known: Vec<String> = accelerators::all().map(|row| row.name).collect();
        assert!(
            runs.gpus.keys().all(|gpu| known.contains(gpu) && most_gpus_seen(gpu) > 0),
            "{:?}",
            runs.gpus
        );
        assert_eq!(most_gpus_seen("no such GPU"), 0);
    }
}
