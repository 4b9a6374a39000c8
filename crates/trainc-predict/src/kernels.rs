//! Kernels that a program runs by default, by its code and GPU: rows of `kernels.toml`, the same for
//! manifests and for tables of measured runs.

use super::from_plan::version_at_least;
use super::gpu::GpuKind;
use super::layout::{Dispatcher, ExpertKernel, FlashKernel, TensorOverlap};
use serde::Deserialize;
use std::sync::LazyLock;

/// Kernels of a program; `None` where no row says them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefaultKernels {
    /// Flash kernels.
    pub attention: Option<FlashKernel>,
    /// Overlap of tensor-parallel collectives.
    pub tensor_overlap: Option<TensorOverlap>,
    /// Transport of tokens to experts.
    pub dispatcher: Option<Dispatcher>,
    /// Computation of experts.
    pub experts: Option<ExpertKernel>,
    /// True if a context group exchanges heads for parts of the sequence instead of passing blocks in a ring.
    pub context_all_to_all: bool,
    /// True if a tensor group splits each expert's matrices.
    pub splits_experts: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KernelRow {
    names: Vec<String>,
    #[serde(default)]
    gpus: Vec<String>,
    before_transformers: Option<String>,
    attention: Option<String>,
    tensor_overlap: Option<TensorOverlap>,
    dispatcher: Option<Dispatcher>,
    experts: Option<ExpertKernel>,
    #[serde(default)]
    context_all_to_all: bool,
    #[serde(default)]
    splits_experts: bool,
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct KernelTable {
    default: Vec<KernelRow>,
}

fn rows() -> &'static [KernelRow] {
    static ONCE: LazyLock<KernelTable> =
        LazyLock::new(|| toml::from_str(include_str!("kernels.toml")).unwrap_or_default());
    &ONCE.default
}

impl DefaultKernels {
    /// Returns the default kernels of a program of this name (`codes.toml`) on a GPU type, with a release of
    /// transformers; an unknown release is older than every change.
    pub fn new(name: &str, gpu: Option<GpuKind>, transformers: Option<&str>) -> Self {
        let name = name.trim().to_ascii_lowercase();
        let gpu = gpu.map(|kind| kind.kind_of_constants().as_str());
        let has_gpu =
            |row: &KernelRow| row.gpus.is_empty() || row.gpus.iter().any(|one| Some(one.as_str()) == gpu);
        let is_before = |row: &KernelRow| {
            let limit = row.before_transformers.as_deref().and_then(|limit| {
                let (major, minor) = limit.split_once('.')?;
                Some((major.parse().ok()?, minor.parse().ok()?))
            });
            limit.is_none_or(|limit| transformers.is_none_or(|version| !version_at_least(version, limit)))
        };
        let mut out = Self::default();
        for row in rows().iter().filter(|row| row.names.contains(&name) && has_gpu(row) && is_before(row)) {
            out.attention = out.attention.or_else(|| row.attention.as_deref().and_then(FlashKernel::parse));
            out.tensor_overlap = out.tensor_overlap.or(row.tensor_overlap);
            out.dispatcher = out.dispatcher.or(row.dispatcher);
            out.experts = out.experts.or(row.experts);
            out.context_all_to_all |= row.context_all_to_all;
            out.splits_experts |= row.splits_experts;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn every_row_names_known_code_and_cards() {
        assert!(rows().len() >= 5);
        for row in rows() {
            for name in &row.names {
                assert!(Code::parse(name).is_some(), "{name}");
            }
            for gpu in &row.gpus {
                assert!(GpuKind::with_own_constants().any(|kind| kind.as_str() == gpu), "{gpu}");
            }
            assert!(row.attention.as_deref().is_none_or(|word| FlashKernel::parse(word).is_some()));
        }
    }

    /// cuDNN's kernels of Transformer Engine need Hopper; an H200 has an H100's.
    #[test]
    fn nemo_runs_cudnn_on_hopper_and_not_on_ampere() {
        let on = |name, gpu| DefaultKernels::new(name, Some(gpu), None);
        assert_eq!(on("nemo", GpuKind::H200).attention, Some(FlashKernel::Third));
        assert_eq!(on("NeMo", GpuKind::H100).tensor_overlap, Some(TensorOverlap::UserBuffers));
        assert_eq!(on("nemo", GpuKind::A100).attention, None);
        assert_eq!(on("megatron-core", GpuKind::H100).tensor_overlap, None);
        assert_eq!(on("composer", GpuKind::H100), DefaultKernels::default());
    }

    #[test]
    fn transformers_loops_over_experts_before_version_5() {
        let with = |version| DefaultKernels::new("trl", Some(GpuKind::H100), version).experts;
        assert_eq!([Some("4.57.1"), None].map(with), [Some(ExpertKernel::Loop); 2]);
        assert_eq!([Some("5.0.0"), Some("5.3")].map(with), [None; 2]);
    }
}
