//! What files of a model hold in addition to its class: modules of multi-token prediction, buffers.
//!
//! Source: DeepSeek-AI 2024 (arXiv 2412.19437) 2.2; counts of published files compared with transformers
//! 5.23.0 (2026-11-23).

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
    let number = |field: &str| u128::from(fields.number(field).unwrap_or(0));
    let mut add = |name: &'static str, parameters: u128, reason: &'static str| {
        if parameters > 0 {
            parts.push(UncountedPart { name, parameters: to_u64(parameters), reason });
        }
    };
    let hidden = number("hidden");
    let depth = number("mtp");
    let (mut layer, mut predicted_routers) = (0, 0);
    if depth > 0 {
        (layer, predicted_routers) = prediction_layer(fields, kinds);
        // The projection of embedding and hidden state, and three norms.
        layer = layer.saturating_add(hidden.saturating_mul(hidden).saturating_mul(2));
        layer = layer.saturating_add(hidden.saturating_mul(3)).saturating_add(number("mtp_extra"));
    }
    let published = "in published files, not in the class of transformers";
    add("multi-token prediction", layer.saturating_mul(depth), published);
    let copies = if depth > 0 { number("mtp_copies").saturating_mul(depth) } else { 0 };
    add("embedding and head of multi-token prediction", copies, "copies, in published files");
    // Layers that use the keys and values of an earlier one.
    let shared = fields.count("kv_shared_layers").unwrap_or(0).min(fields.number("layers").unwrap_or(0));
    let first = fields.number("layers").unwrap_or(0).saturating_sub(shared);
    let mut keys = 0_u128;
    for layer in first..first.saturating_add(shared) {
        fields.set_layer(Some(layer));
        keys = keys.saturating_add(u128::from(fields.count("shared_kv").unwrap_or(0)));
    }
    fields.set_layer(None);
    add("keys and values of sharing layers", keys, published);
    add("layer scalars", number("layer_scalars"), "buffers, in published files");
    let sparse: u64 = kinds.iter().filter(|kind| kind.parts.contains(&"moe")).map(|kind| kind.count).sum();
    if sparse > 0 {
        // Layers that route by a table of tokens have no bias.
        let hashed = number("hash_layers");
        let routers = u128::from(sparse).saturating_sub(hashed).saturating_add(predicted_routers * depth);
        add(
            "router correction bias",
            number("correction").saturating_mul(routers),
            "a buffer, in published files",
        );
        let table = number("vocab").saturating_mul(number("active_experts"));
        add("routing table", table.saturating_mul(hashed), "a buffer, in published files");
    }
    parts
}

/// Returns the parameters of the layer of a module of multi-token prediction, and its routers: the last kind
/// of layer, the next one, or a pattern.
fn prediction_layer(fields: &Fields<'_>, kinds: &[LayerKind]) -> (u128, u128) {
    let size = |kind: &LayerKind| {
        kind.modules
            .iter()
            .map(|module| module.parameters().saturating_mul(u128::from(module.per_layer)))
            .fold(0_u128, u128::saturating_add)
    };
    let routed = |kind: &LayerKind| u128::from(kind.parts.contains(&"moe"));
    let spec = fields.family.spec();
    if let Some(pattern) = &spec.mtp_parts {
        let length = fields.count(&format!("has_{pattern} ? len({pattern}) : 0")).unwrap_or(0);
        let (mut sum, mut routers) = (0_u128, 0_u128);
        for at in 0..length {
            let attends = fields.holds(&format!(
                "{pattern}[{at}] == '*' || {pattern}[{at}] == 'attention' || {pattern}[{at}] == \
                    'full_attention'"
            ));
            let wanted = if attends { "gqa" } else { "moe" };
            if let Some(kind) = kinds.iter().find(|kind| kind.parts.contains(&wanted)) {
                sum = sum.saturating_add(size(kind));
                routers = routers.saturating_add(routed(kind));
            }
        }
        return (sum, routers);
    }
    if spec.mtp_next
        && let Some(kind) = next_layer(fields)
    {
        return (size(&kind), routed(&kind));
    }
    let wanted = if spec.mtp_kind.is_some() { "gqa" } else { "" };
    // The last kind of layer: with experts, and with full attention where layers differ.
    let found = kinds.iter().rev().find(|kind| wanted.is_empty() || kind.parts.contains(&wanted));
    found.map_or((0, 0), |kind| (size(kind), routed(kind)))
}

/// Returns the layer after the last one, if the config describes it.
fn next_layer(fields: &Fields<'_>) -> Option<LayerKind> {
    let before = fields.take_problems();
    let kind = super::modules::layer_at(fields, fields.number("layers")?);
    let described = fields.take_problems().is_empty();
    for problem in before {
        fields.report(problem);
    }
    Some(kind).filter(|_| described)
}

fn to_u64(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
