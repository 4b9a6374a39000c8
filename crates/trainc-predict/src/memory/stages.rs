//! Parameters of one GPU: those of a pipeline stage, divided by the tensor and expert degrees.

use crate::balance::balanced_stages;
use crate::layout::{Code, Layout, System};

/// One stage of a pipeline (or the whole model without one), as one GPU holds it. Counts of parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stage {
    /// Index, from 0.
    pub(super) index: f64,
    /// Number of layers.
    pub(super) layers: f64,
    /// Parameters of its layers on one GPU, before sharding.
    pub(super) layer_parameters: f64,
    /// The part of them in experts.
    pub(super) expert_parameters: f64,
    /// Parameters outside the layers on one GPU, before sharding.
    pub(super) outer_parameters: f64,
    /// True if the loss is computed here.
    pub(super) last: bool,
}

impl Stage {
    /// Returns all parameters of the stage on one GPU.
    pub(super) fn parameters(&self) -> f64 {
        self.layer_parameters + self.outer_parameters
    }
}

/// Returns the parameters of one layer on one GPU while it computes: the tensor degree divides its matrices
/// (Shoeybi et al. 2019, section 3), the expert degree its experts.
pub(super) fn layer_parameters(layout: &Layout) -> f64 {
    let model = &layout.model;
    let experts = model.expert_parameters / model.layers.max(1.0);
    let whole = if has_whole_norms(layout) {
        model.layer_parameters - model.linear_parameters / model.layers.max(1.0)
    } else {
        0.0
    };
    let whole = whole.max(0.0);
    (model.layer_parameters - experts - whole) / layout.degrees.tensor + whole + expert_parameters(layout)
}

/// Returns true if norms count as whole on every tensor rank: the plans of torchtitan and transformers divide
/// matrices and tables alone (torchtitan 0.2.2, models/llama3/infra/parallelize.py, `apply_tp`; transformers
/// 5.24.0, `base_model_tp_plan`). Other systems replicate them too, and count as dividing all parameters.
fn has_whole_norms(layout: &Layout) -> bool {
    layout.system == System::Fsdp && layout.degrees.tensor > 1.0
}

/// Returns what one tensor rank holds of `count` parameters outside the layers, among them tables of `rows`
/// rows each, of which the first rank has the most.
fn outer_parameters(layout: &Layout, count: f64, rows: &[f64]) -> f64 {
    let (hidden, tensor) = (layout.model.hidden, layout.degrees.tensor);
    let tables = hidden * rows.iter().sum::<f64>();
    if !has_whole_norms(layout) || tables > count {
        return count / tensor;
    }
    count - tables + hidden * rows.iter().map(|rows| (rows / tensor).ceil()).sum::<f64>()
}

/// Returns the part of [`layer_parameters`] in experts.
fn expert_parameters(layout: &Layout) -> f64 {
    let model = &layout.model;
    model.expert_parameters / model.layers.max(1.0) / (layout.degrees.expert * layout.degrees.tensor)
}

/// Returns the parameters of the largest matrix of a layer on one GPU, without experts.
pub(super) fn largest_matrix(layout: &Layout) -> f64 {
    let model = &layout.model;
    let attention = model.heads * model.head_dim;
    let inside = if model.experts > 0.0 { attention } else { model.ffn.max(attention) };
    model.hidden * inside / layout.degrees.tensor
}

/// Returns the parameters of the largest module without submodules on one GPU: a table, the experts of a
/// layer, a matrix.
pub(super) fn largest_module(layout: &Layout) -> f64 {
    let model = &layout.model;
    let table = model.vocab.max(model.head_vocab) * model.hidden / layout.degrees.tensor;
    table.max(expert_parameters(layout)).max(largest_matrix(layout))
}

/// Returns the parameters of the head alone: 0 if it shares the embedding's.
fn head_parameters(layout: &Layout) -> f64 {
    let model = &layout.model;
    if model.tied { 0.0 } else { model.head_vocab * model.hidden }
}

/// Returns the number of layers of the first, an inner and the last stage.
///
/// If the layers do not divide evenly but the layers plus both ends do, the ends count as layers
/// (`partition_method=type:transformer|embedding` of Megatron-DeepSpeed's BLOOM runs, whose 70 layers are
/// split over 12 stages); otherwise the largest stage has one layer more than the smallest.
fn layers_of_stages(layers: f64, stages: f64) -> [f64; 3] {
    let with_ends = layers + 2.0;
    if layers % stages != 0.0 && with_ends % stages == 0.0 {
        [with_ends / stages - 1.0, with_ends / stages, with_ends / stages - 1.0]
    } else {
        [(layers / stages).ceil(); 3]
    }
}

/// Returns the stages that can be the fullest: the first, one in the middle, the last.
pub(super) fn candidate_fullest_stages(layout: &Layout) -> Vec<Stage> {
    let (model, degrees) = (&layout.model, &layout.degrees);
    let (per_layer, experts) = (layer_parameters(layout), expert_parameters(layout));
    let count = degrees.pipeline.max(1.0);
    let stage = move |index: f64, layers: f64, outer: f64, last: bool| Stage {
        index,
        layers,
        layer_parameters: per_layer * layers,
        expert_parameters: experts * layers,
        outer_parameters: outer,
        last,
    };
    let head_rows = if model.tied { 0.0 } else { model.head_vocab };
    if count <= 1.0 {
        let outer = outer_parameters(layout, model.outer_parameters, &[model.vocab, head_rows]);
        return vec![stage(0.0, model.layers, outer, true)];
    }
    let head = head_parameters(layout);
    let embedding = outer_parameters(layout, model.outer_parameters - head, &[model.vocab]);
    // Megatron keeps a second copy of a tied embedding on the last stage (SC21, section 2.3; DeepSpeed's
    // `TiedLayerSpec`); the others keep the head with the embedding.
    let copied = layout.code.is_megatron()
        || layout.code == Code::Nanotron
        || matches!(layout.system, System::SmpV1 | System::DeviceMap);
    let tail_rows = if model.tied && copied { model.vocab } else { head_rows };
    let tail = outer_parameters(layout, tail_rows * model.hidden, &[tail_rows]);
    if let Some(blocks) = balanced_stages(layout) {
        let all = blocks.iter().enumerate().map(|(at, blocks)| {
            let outer = if at == 0 { embedding } else { 0.0 } + if blocks.head { tail } else { 0.0 };
            stage(at as f64, blocks.layers, outer, blocks.head)
        });
        return all.collect();
    }
    let [first, inner, last] = layers_of_stages(model.layers, count);
    let middle = (count > 2.0).then(|| stage(1.0, inner, 0.0, false));
    let ends =
        [Some(stage(0.0, first, embedding, false)), middle, Some(stage(count - 1.0, last, tail, true))];
    ends.into_iter().flatten().collect()
}
