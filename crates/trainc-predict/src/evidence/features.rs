//! What two layouts have in common: the correlation of their errors.
//!
//! A product of one factor for each property: less than 1 for a property that differs, and falling with the
//! ratio of two sizes (the squared exponential of Rasmussen and Williams 2006, section 4.2). The factors and
//! lengths are rules of thumb, scaled so that published runs that are conditioned on the other runs of their
//! source err less, and lie inside their intervals as often (`own_runs.rs` of `trainc-calibrate` tests it).
//! Between a run on one node and the same micro-batch and model on several they come near what published runs
//! have: the errors of 230 pairs of six sources, none of them in the fit, correlate by 0.72 on 2 nodes, 0.78
//! on 4, 0.65 on 8, 0.44 on 16 and 0.68 beyond (2026-11-28).

use crate::layout::{
    Attention, Code, Dispatcher, ExpertKernel, FlashKernel, GpuKind, Layout, Loss, Moments, Offload,
    Precision, Quantisation, Recompute, Sharding, System, TensorOverlap,
};
use std::sync::Arc;

/// Number of sizes.
const SIZES: usize = 24;

/// Index of the rate of the links between nodes.
const BETWEEN: usize = 2;

/// Largest correlation of two layouts that differ in anything: the rest of an error is that of one layout.
const LAYOUT: f64 = 0.8;

/// Largest difference between two sizes that count as the same, a binary logarithm: tables round.
const ROUNDING: f64 = 0.015;

/// Properties of a layout that its error depends on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Features {
    words: Words,
    /// Binary logarithms.
    sizes: [f64; SIZES],
    release: Option<Arc<str>>,
}

/// Properties that are the same or not.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Words {
    gpu: Option<GpuKind>,
    code: Option<Code>,
    system: System,
    precision: Precision,
    trains_adapter: bool,
    quantisation: Option<Quantisation>,
    is_single_node: bool,
    efa: bool,
    smddp: bool,
    sharding: Sharding,
    recompute: Recompute,
    attention: Attention,
    flash: FlashKernel,
    loss: Option<Loss>,
    compiled: bool,
    offload: Offload,
    sequence_parallel: bool,
    ulysses: bool,
    one_unit: bool,
    tensor_overlap: TensorOverlap,
    /// Of a model with experts.
    experts: Option<(ExpertKernel, Dispatcher, bool)>,
    moments: Moments,
    narrow_weights: bool,
    has_narrow_gradients: bool,
}

impl Features {
    pub(super) fn from_layout(layout: &Layout) -> Self {
        let Layout { model, hardware, degrees, work, .. } = layout;
        let is_single_node = hardware.nodes <= 1.0;
        let links = |rate: Option<f64>| rate.filter(|rate| *rate > 0.0).unwrap_or(1.0);
        let between = links(hardware.inter_bytes_per_second);
        let sizes = [
            hardware.nodes,
            hardware.gpus_per_node,
            between,
            links(hardware.intra_bytes_per_second),
            work.sequence_length,
            work.sequences_at_once(),
            work.passes,
            model.hidden,
            model.layers,
            model.active_parameters,
            model.parameters / model.active_parameters,
            model.ffn,
            model.experts.max(1.0),
            model.active_experts.max(1.0),
            degrees.replicas,
            degrees.shard,
            degrees.tensor,
            degrees.pipeline,
            degrees.virtual_stages,
            degrees.context,
            degrees.expert,
            model.heads,
            model.kv_heads,
            model.vocab,
        ];
        Self {
            words: Words {
                gpu: hardware.gpu,
                code: layout.code_is_known.then_some(layout.code),
                system: layout.system,
                precision: layout.precision,
                trains_adapter: layout.lora.is_some(),
                quantisation: layout.quantisation,
                is_single_node,
                efa: hardware.efa && !is_single_node,
                smddp: layout.smddp,
                sharding: layout.sharding,
                recompute: layout.recompute,
                attention: layout.attention,
                flash: layout.flash,
                loss: layout.loss,
                compiled: layout.compiled,
                offload: layout.offload,
                sequence_parallel: layout.sequence_parallel,
                ulysses: layout.ulysses,
                one_unit: layout.one_unit,
                tensor_overlap: layout.tensor_overlap,
                experts: (model.experts > 0.0).then_some((
                    layout.expert_kernel,
                    layout.dispatcher,
                    layout.splits_experts,
                )),
                moments: layout.moments,
                narrow_weights: layout.narrow_weights,
                has_narrow_gradients: layout.gradient_bytes.is_some_and(|bytes| bytes < 4.0),
            },
            sizes: sizes.map(|size| size.max(1e-9).log2()),
            release: layout.release.clone(),
        }
    }

    /// Returns true if an image is that of the other layout, or either is unknown.
    pub(super) fn has_release_of(&self, other: &Self) -> bool {
        match (&self.release, &other.release) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        }
    }

    /// Returns true if two layouts count as the same.
    pub(super) fn is_layout_of(&self, other: &Self) -> bool {
        self.words == other.words
            && self.sizes.iter().zip(&other.sizes).all(|(a, b)| (a - b).abs() < ROUNDING)
    }

    /// Returns true if a run of the other layout is another run of this one.
    pub(super) fn is_repeated_by(&self, other: &Self) -> bool {
        self.release == other.release && self.is_layout_of(other)
    }

    /// Returns the correlation of the errors of two layouts, from 0 to 1.
    pub(super) fn correlation(&self, other: &Self) -> f64 {
        let (a, b) = (&self.words, &other.words);
        if self.is_layout_of(other) {
            return 1.0;
        }
        let is_alone = a.is_single_node != b.is_single_node;
        let common: f64 = [
            (a.gpu == b.gpu, 0.35),
            (a.code == b.code, 0.35),
            (a.system == b.system, 0.45),
            (a.experts.is_some() == b.experts.is_some(), 0.25),
            (a.precision == b.precision, 0.6),
            (a.trains_adapter == b.trains_adapter, 0.6),
            (a.quantisation == b.quantisation, 0.6),
            // The GPU's own work is that of one node too.
            (!is_alone, 0.95),
            (is_alone || a.efa == b.efa, 0.7),
            (a.smddp == b.smddp, 0.8),
            (a.sharding == b.sharding, 0.8),
            (a.recompute == b.recompute, 0.85),
            (a.attention == b.attention, 0.7),
            (a.flash == b.flash, 0.85),
            (a.loss == b.loss, 0.9),
            (a.compiled == b.compiled, 0.8),
            (a.offload == b.offload, 0.45),
            (a.sequence_parallel == b.sequence_parallel, 0.9),
            (a.ulysses == b.ulysses, 0.85),
            (a.one_unit == b.one_unit, 0.6),
            (a.tensor_overlap == b.tensor_overlap, 0.9),
            (a.experts.is_some() != b.experts.is_some() || a.experts == b.experts, 0.7),
            (a.moments == b.moments, 0.95),
            (a.narrow_weights == b.narrow_weights, 0.9),
            (a.has_narrow_gradients == b.has_narrow_gradients, 0.95),
        ]
        .iter()
        .map(|(is_same, factor)| if *is_same { 1.0 } else { *factor })
        .product();
        if common < super::LEAST {
            return 0.0;
        }
        // Number of doublings that leave a correlation of 0.6, in the order of the sizes.
        const LENGTHS: [f64; SIZES] = [
            4.0, 2.0, 1.5, 2.0, 1.8, 1.8, 3.5, 1.4, 2.0, 2.0, 2.0, 1.4, 1.4, 1.4, 5.0, 5.0, 1.4, 1.4, 1.4,
            1.4, 1.4, 4.0, 4.0, 4.0,
        ];
        let far: f64 = self
            .sizes
            .iter()
            .zip(&other.sizes)
            .zip(LENGTHS)
            .enumerate()
            .filter(|(at, _)| !(is_alone && *at == BETWEEN))
            .map(|(_, ((a, b), length))| {
                let doublings = ((a - b).abs() - ROUNDING).max(0.0);
                (doublings / length).powi(2)
            })
            .sum();
        LAYOUT * common * (-0.5 * far).exp()
    }
}
