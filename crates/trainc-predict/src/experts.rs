//! Load of the rank with the fullest experts.

use super::layout::{Layout, Model};

/// Load of the fullest expert above the mean, a fraction of the mean (`MaxVio`), of routers that are balanced
/// by an auxiliary loss: 0.72 and 0.52 of models with 1 and 3 billion parameters, 0.04 with a bias per expert
/// (Wang et al. 2024, arXiv 2408.15664, table 2; recalled). A rank has the load of its experts together,
/// which differs less. Megatron-LM's `moe/max_cum_overload_factor` measures it (NVIDIA/Megatron-LM#4248, read
/// 2026-11-26).
pub const EXPERT_OVERLOAD: f64 = 0.72;

/// Returns true if ranks may have different numbers of tokens: experts on several ranks, and a router that
/// decides freely.
pub(super) fn may_be_uneven(layout: &Layout) -> bool {
    layout.degrees.expert > 1.0 && layout.model.experts > 0.0 && !layout.balanced_experts
}

/// Returns how much longer a step may take than with equal loads, a natural logarithm: the part of a token's
/// products that the chosen experts compute takes as long as on the fullest rank.
pub(super) fn uneven_half_width(layout: &Layout) -> f64 {
    let Model { expert_parameters, experts, active_experts, active_parameters, .. } = layout.model;
    let share = expert_parameters * active_experts / experts / active_parameters.max(1.0);
    if may_be_uneven(layout) { (EXPERT_OVERLOAD * share.clamp(0.0, 1.0)).ln_1p() } else { 0.0 }
}
