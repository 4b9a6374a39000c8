//! Division of a model's blocks over pipeline stages by their cost.

use super::layout::{Code, Layout};

/// Blocks of one stage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct StageBlocks {
    /// Layers.
    pub(super) layers: f64,
    /// True if the head is one of its blocks.
    pub(super) head: bool,
}

/// Returns the blocks of each stage if the code balances stages by the cost of their blocks, of which the
/// head is one; `None` if it divides the layers evenly.
///
/// nanotron fills one stage after another: the block with which the cost so far exceeds the stage's share is
/// its last (huggingface/nanotron@2411b02, src/nanotron/models/base.py, `build_model`). A layer costs the
/// weights of its matrices with as many key and value heads as query heads (src/nanotron/models/llama.py,
/// `get_block_compute_costs`).
pub(super) fn balanced_stages(layout: &Layout) -> Option<Vec<StageBlocks>> {
    let stages = layout.degrees.pipeline;
    if stages <= 1.0 {
        return None;
    }
    match layout.code {
        Code::Nanotron => {}
        Code::MegatronCore => return stages_with_embedding_and_loss(layout),
        _ => return None,
    }
    let model = &layout.model;
    let experts = model.active_experts.max(1.0);
    let layer =
        model.hidden * (4.0 * model.head_dim * model.heads + model.ffn_matrices * model.ffn * experts);
    let head = model.hidden * model.head_vocab;
    let share = (model.layers * layer + head) / stages;
    let mut out = vec![StageBlocks::default()];
    let (mut cost, mut left) = (0.0, model.layers);
    while left > 0.5 {
        left -= 1.0;
        out.last_mut()?.layers += 1.0;
        cost += layer;
        if cost > share * out.len() as f64 && (out.len() as f64) < stages {
            out.push(StageBlocks::default());
        }
    }
    out.last_mut()?.head = true;
    while (out.len() as f64) < stages {
        out.push(StageBlocks::default());
    }
    Some(out)
}

/// Returns the blocks of Megatron-Core's stages if embedding and loss count as a layer each, without which
/// the layers do not divide: 94 of Qwen3 235B on 8 or 32 stages (`account_for_embedding_in_pipeline_split`
/// and `account_for_loss_in_pipeline_split`).
fn stages_with_embedding_and_loss(layout: &Layout) -> Option<Vec<StageBlocks>> {
    let (stages, layers) = (layout.degrees.pipeline, layout.model.layers);
    let divides = |blocks: f64| (blocks / stages).fract().abs() < 1e-9;
    if divides(layers) || !divides(layers + 2.0) {
        return None;
    }
    let each = StageBlocks { layers: (layers + 2.0) / stages, head: false };
    let mut out = vec![each];
    while (out.len() as f64) < stages {
        out.push(each);
    }
    out.first_mut()?.layers -= 1.0;
    let last = out.last_mut()?;
    (last.layers, last.head) = (last.layers - 1.0, true);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 8 layers of 12 h² = 12 and a head of 48: 144 over 4 stages are 36 each. The fourth layer is
    /// the first to exceed 36, the seventh (84) the first to exceed 72; the eighth (96) does not exceed 108,
    /// so that the head stays.
    #[test]
    fn the_head_is_a_block_of_its_own() {
        let mut layout = crate::speed::tests::gpt2_30b(4.0, 1.0, 2048.0, 1.0, 8.0);
        layout.code = Code::Nanotron;
        let model = &mut layout.model;
        (model.layers, model.hidden, model.heads, model.kv_heads, model.head_dim) = (8.0, 1.0, 1.0, 1.0, 1.0);
        (model.ffn, model.ffn_matrices, model.head_vocab) = (4.0, 2.0, 48.0);
        layout.degrees.pipeline = 4.0;
        let found = balanced_stages(&layout).unwrap();
        let layers: Vec<f64> = found.iter().map(|stage| stage.layers).collect();
        assert_eq!(layers, [4.0, 3.0, 1.0, 0.0]);
        assert!(found.iter().map(|stage| stage.head).eq([false, false, true, false]));
        layout.code = Code::Megatron;
        assert_eq!(balanced_stages(&layout), None);
    }

    /// Qwen3 235B has 94 layers: with embedding and loss 96, 12 on each of 8 stages. 96 of GPT-3 divide alone.
    #[test]
    fn embedding_and_loss_take_the_place_of_a_layer_each() {
        let mut layout = crate::speed::tests::gpt2_30b(4.0, 1.0, 2048.0, 1.0, 8.0);
        layout.code = Code::MegatronCore;
        layout.degrees.pipeline = 8.0;
        layout.model.layers = 94.0;
        let found = balanced_stages(&layout).unwrap();
        let layers: Vec<f64> = found.iter().map(|stage| stage.layers).collect();
        assert_eq!(layers, [11.0, 12.0, 12.0, 12.0, 12.0, 12.0, 12.0, 11.0]);
        assert!(found.iter().enumerate().all(|(at, stage)| stage.head == (at == 7)));
        layout.model.layers = 96.0;
        assert_eq!(balanced_stages(&layout), None);
    }
}
