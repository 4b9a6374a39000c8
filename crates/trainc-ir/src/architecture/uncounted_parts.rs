//! What files of a model hold in addition to its class: modules of multi-token prediction, buffers.
//!
//! Source: DeepSeek-AI 2024 (arXiv 2412.19437) 2.2; counts of published files compared with transformers 5.23.0
//! (2026-11-23).

use super::fields::Fields;
use super::modules::LayerKind;

/// A part that transformers' class does not have as parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UncountedPart {
    /// `multi-token prediction`, `router correction bias`.
    pub name: &'static str,
    /// Numbers in it.
    pub parameters: u64,
    /// Why it is not counted, a lowercase fragment.
    pub reason: &'static str,
}

/// Returns what files hold in addition to the class.
pub(super) fn uncounted_parts(fields: &Fields<'_>, kinds: &[LayerKind]) -> Vec<UncountedPart> {
    let mut parts = Vec::new();
    let hidden = u128::from(fields.number("hidden").unwrap_or(0));
    let depth = u128::from(fields.number("mtp").unwrap_or(0));
    if depth > 0 {
        let per_layer = prediction_layer(fields, kinds);
        // The projection of embedding and hidden state, and three norms.
        let around = hidden.saturating_mul(hidden).saturating_mul(2).saturating_add(hidden.saturating_mul(3));
        parts.push(UncountedPart {
            name: "multi-token prediction",
            parameters: to_u64(per_layer.saturating_add(around).saturating_mul(depth)),
            reason: "in published files, not in the class of transformers",
        });
    }
    let correction = u128::from(fields.number("correction").unwrap_or(0));
    let sparse: u64 = kinds.iter().filter(|kind| kind.parts.contains(&"moe")).map(|kind| kind.count).sum();
    if correction > 0 && sparse > 0 {
        parts.push(UncountedPart {
            name: "router correction bias",
            parameters: to_u64(correction.saturating_mul(u128::from(sparse))),
            reason: "a buffer, in published files",
        });
    }
    parts
}

/// Returns the parameters of the layer of a module of multi-token prediction: the last kind of layer, or a pattern.
fn prediction_layer(fields: &Fields<'_>, kinds: &[LayerKind]) -> u128 {
    let size = |kind: &LayerKind| {
        kind.modules
            .iter()
            .map(|module| module.parameters().saturating_mul(u128::from(module.per_layer)))
            .fold(0_u128, u128::saturating_add)
    };
    let spec = fields.family.spec();
    if let Some(pattern) = &spec.mtp_parts {
        let length = fields.count(&format!("has_{pattern} ? len({pattern}) : 0")).unwrap_or(0);
        let mut sum = 0_u128;
        for at in 0..length {
            let attends = fields.holds(&format!(
                "{pattern}[{at}] == '*' || {pattern}[{at}] == 'attention' || {pattern}[{at}] == 'full_attention'"
            ));
            let wanted = if attends { "gqa" } else { "moe" };
            sum = sum.saturating_add(kinds.iter().find(|kind| kind.parts.contains(&wanted)).map_or(0, size));
        }
        return sum;
    }
    let wanted = if spec.mtp_kind.is_some() { "gqa" } else { "" };
    // The last kind of layer: with experts, and with full attention where layers differ.
    let found = kinds.iter().rev().find(|kind| wanted.is_empty() || kind.parts.contains(&wanted));
    found.map_or(0, size)
}

fn to_u64(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
