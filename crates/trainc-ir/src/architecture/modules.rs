//! The list of all modules with parameters, from which counts, LoRA and FLOPs are computed.
//!
//! Shapes: `data/parts.toml`; the tests and `tests/python/count_models.py` compare the totals with the
//! classes of transformers.

use super::Architecture;
use super::activations::SavedPart;
use super::fields::Fields;
use super::kinds::{Class, Norm};
use super::spec::{Part, Row, Spec, intern};
use std::collections::BTreeMap;

/// The position of a module in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ModulePlace {
    /// Before the layers. Includes T5's relative bias, which is part of its first layers, so that all layers
    /// are equal.
    Embedding,
    /// In layers of the stack (T5: of the encoder).
    Layer,
    /// In each layer of T5's decoder.
    DecoderLayer,
    /// After the layers: the last norm, and OPT-350m's projection.
    Final,
    /// The output of the class: language-model head, pooler, classifier.
    Head,
    /// In a vision or audio tower, or its projector.
    Tower,
}

/// The function of a module, for FLOPs and LoRA targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ModuleRole {
    /// A table of vectors: no multiplication.
    Lookup,
    /// A matrix of self-attention or of another mixer, or query and output of cross-attention.
    Attention,
    /// Key and value of cross-attention, which process the encoder's tokens.
    CrossMemory,
    /// A feed-forward matrix.
    Mlp,
    /// A feed-forward matrix of one expert.
    Expert,
    /// The choice of experts.
    Router,
    /// A normalisation.
    Norm,
    /// A parameter without a matrix product: a convolution's kernel, a decay, a sink.
    Vector,
    /// A matrix of the output that processes every token.
    Output,
    /// A matrix of the output that processes one token of a sequence.
    Pooled,
}

impl ModuleRole {
    /// Returns whether it is a matrix multiplication, which LoRA can adapt and FLOPs include.
    pub fn is_matrix(self) -> bool {
        !matches!(self, Self::Lookup | Self::Norm | Self::Vector)
    }
}

/// A module with parameters and its number of copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module {
    /// Path below the layer (or below the model): `mlp.down_proj`. The last part is what LoRA targets name.
    pub path: &'static str,
    /// Its position.
    pub place: ModulePlace,
    /// Its function.
    pub role: ModuleRole,
    /// Channels in (rows of a table; width of a norm).
    pub inputs: u64,
    /// Channels out (1 for a norm).
    pub outputs: u64,
    /// Size of the bias: `outputs`, the width of a norm, or 0.
    pub bias: u64,
    /// Copies in one layer that has it: the number of experts, otherwise 1.
    pub per_layer: u64,
    /// Copies in the model.
    pub copies: u64,
    /// The weight is shared with another module (a tied head) and adds no parameters.
    pub shared: bool,
}

impl Module {
    /// Returns the size of the weight of one copy, shared or not.
    pub fn weight_count(&self) -> u128 {
        u128::from(self.inputs).saturating_mul(u128::from(self.outputs))
    }

    /// Returns the unshared parameters of one copy.
    pub fn parameters(&self) -> u128 {
        let weight = if self.shared { 0 } else { self.weight_count() };
        weight.saturating_add(u128::from(self.bias))
    }

    /// Returns the unshared parameters of all copies.
    pub fn all_parameters(&self) -> u128 {
        self.parameters().saturating_mul(u128::from(self.copies))
    }

    /// Returns the last part of the path: `down_proj`.
    pub fn leaf(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }
}

/// A matrix, as adapters and quantisation see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearModule {
    /// The name of the module: `q_proj`, `query_key_value`, `c_attn`.
    pub name: &'static str,
    /// Path below the layer, which distinguishes modules with the same name: `attn.c_proj`.
    pub path: &'static str,
    /// Channels in.
    pub inputs: u64,
    /// Channels out.
    pub outputs: u64,
    /// Copies in one layer that has it; 1 for a matrix outside the layers.
    pub per_layer: u64,
    /// Copies in the model.
    pub copies: u64,
    /// Its position.
    pub place: ModulePlace,
    /// One of the experts of a layer.
    pub expert: bool,
}

/// What a mixer computes in addition to its matrices, in FLOP of the forward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Core {
    /// For each token and visible key.
    pub per_key: u64,
    /// For each token and key, visible or not chosen: the scores by which keys are chosen.
    pub per_scored_key: u64,
    /// Keys that a token sees at most; 0 without a limit.
    pub window: u64,
    /// Tokens of which one key is compressed, which are seen in addition to the window; 0 without.
    pub compressed: u64,
    /// Compressed keys that a token sees at most; 0 without a limit.
    pub compressed_keys: u64,
    /// For each token.
    pub per_token: u64,
    /// The keys are those of the encoder.
    pub cross: bool,
}

/// Layers with the same parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerKind {
    /// Layers of this kind.
    pub count: u64,
    /// Layers of the second stack (T5's decoder).
    pub decoder: bool,
    /// The parts, as `data/parts.toml` names them.
    pub parts: Vec<&'static str>,
    /// Its modules; `copies` counts all layers of this kind.
    pub modules: Vec<Module>,
    /// Attention cores and scans.
    pub cores: Vec<Core>,
    /// What is kept for the backward pass, by part.
    pub saved: Vec<SavedPart>,
    /// Bytes per token of the layer's input, with activations of 2 bytes.
    pub input_bytes: u64,
}

/// A model inside the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tower {
    /// `vision tower`.
    pub name: &'static str,
    /// Its modules.
    pub modules: Vec<Module>,
}

/// Collects the modules of rows.
pub(super) struct ModuleList<'a> {
    fields: &'a Fields<'a>,
    spec: &'static Spec,
    norm: Norm,
    place: ModulePlace,
    layers: u64,
    /// What is added shares the weights of an earlier layer.
    pub(super) shared: bool,
    pub(super) modules: Vec<Module>,
    pub(super) cores: Vec<Core>,
    pub(super) saved: Vec<SavedPart>,
}

impl<'a> ModuleList<'a> {
    pub(super) fn new(fields: &'a Fields<'a>, place: ModulePlace, layers: u64) -> Self {
        let spec = fields.family.spec();
        Self {
            fields,
            spec,
            norm: spec.norm,
            place,
            layers,
            shared: false,
            modules: Vec::new(),
            cores: Vec::new(),
            saved: Vec::new(),
        }
    }

    /// Adds a part of `data/parts.toml`.
    pub(super) fn part(&mut self, name: &'static str) {
        if name == "norms" {
            self.norms();
            return;
        }
        let Some(part) = Part::find(name) else { return };
        let before = self.modules.len();
        for row in &part.rows {
            self.row(row);
        }
        let matrices = self.matrix_bytes(before);
        let f = self.fields;
        let value = |text: &Option<String>| text.as_deref().and_then(|text| f.count(text)).unwrap_or(0);
        if part.core.is_some() || part.extra.is_some() {
            self.cores.push(Core {
                per_key: value(&part.core),
                per_scored_key: value(&part.index_core),
                window: value(&part.window),
                compressed: value(&part.compressed),
                compressed_keys: value(&part.compressed_topk),
                per_token: value(&part.extra),
                cross: name == "cross",
            });
        }
        self.saved_part(name, part, matrices);
    }

    /// Returns the bytes per token of the inputs and outputs of the matrices from index `first` on, with
    /// activations of 2 bytes; matrices of equal input width read the same input.
    fn matrix_bytes(&self, first: usize) -> u64 {
        let active = self.fields.number("active_experts").unwrap_or(0);
        let mut inputs = BTreeMap::new();
        let mut outputs: u64 = 0;
        for module in self.modules.iter().skip(first).filter(|module| module.role.is_matrix()) {
            let times = if module.role == ModuleRole::Expert { active } else { 1 };
            inputs.insert(module.inputs, times);
            outputs = outputs.saturating_add(module.outputs.saturating_mul(times));
        }
        let inputs = inputs
            .iter()
            .fold(0, |sum: u64, (width, times)| sum.saturating_add(width.saturating_mul(*times)));
        inputs.saturating_add(outputs).saturating_mul(2)
    }

    fn saved_part(&mut self, name: &'static str, part: &Part, matrices: u64) {
        let f = self.fields;
        let value = |text: &Option<String>| text.as_deref().and_then(|text| f.count(text));
        self.saved.push(SavedPart {
            part: name,
            transformers: value(&part.saved),
            megatron: value(&part.megatron),
            torchtitan: value(&part.titan),
            torchtitan_selective: value(&part.titan_selective),
            scores: value(&part.scores).unwrap_or(0),
            megatron_scores: value(&part.megatron_scores).unwrap_or(0),
            log_sum_exp: value(&part.lse).unwrap_or(0),
            routed: value(&part.routed).unwrap_or(0),
            inputs: value(&part.inputs).unwrap_or(0),
            matrices,
        });
    }

    /// Adds the norms of a layer, all over the hidden width.
    fn norms(&mut self) {
        let f = self.fields;
        let wanted = f.number("layer_norms").unwrap_or(0);
        let hidden = f.number("hidden").unwrap_or(0);
        let wide = !self.spec.wide_norms.is_empty() && wanted == 2 && f.holds("parallel");
        let paths = if wide { &self.spec.wide_norms } else { &self.spec.norms };
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        for path in paths.iter().take(wanted) {
            self.norm(path, hidden, self.norm);
        }
        if let Some(part) = Part::find("norms") {
            self.saved_part("norms", part, 0);
        }
    }

    fn norm(&mut self, path: &str, width: u64, norm: Norm) {
        let bias = if norm.has_bias() { width } else { 0 };
        self.push(path, ModuleRole::Norm, (width, 1, bias), 1);
    }

    pub(super) fn row(&mut self, Row(slot, path, role, inputs, outputs, bias, condition): &Row) {
        let f = self.fields;
        if !f.holds(condition) {
            return;
        }
        let (Some(inputs), Some(outputs)) = (f.count(inputs), f.count(outputs)) else { return };
        let path = self.path(slot, path);
        let (role, norm) = match role.as_str() {
            "norm" => (ModuleRole::Norm, Some(self.norm)),
            // Norms of queries and keys are those of the model type.
            "qk" => (ModuleRole::Norm, Some(self.norm)),
            "rms" => (ModuleRole::Norm, Some(Norm::RmsNorm)),
            "layer" => (ModuleRole::Norm, Some(Norm::LayerNorm)),
            "lookup" => (ModuleRole::Lookup, None),
            "vector" => (ModuleRole::Vector, None),
            "mlp" | "tower" => (ModuleRole::Mlp, None),
            "expert" => (ModuleRole::Expert, None),
            "router" => (ModuleRole::Router, None),
            "cross" => (ModuleRole::CrossMemory, None),
            "output" => (ModuleRole::Output, None),
            _ => (ModuleRole::Attention, None),
        };
        if let Some(norm) = norm {
            self.norm(path, inputs, norm);
            return;
        }
        let Some(mut bias) = f.count(bias) else { return };
        // A matrix says whether it has a bias; of a kernel, the size is written.
        if bias == 1 {
            bias = outputs;
        }
        let copies = if role == ModuleRole::Expert { f.number("experts").unwrap_or(0) } else { 1 };
        self.push(path, role, (inputs, outputs, bias), copies);
    }

    fn path<'p>(&self, slot: &str, path: &'p str) -> &'p str
    where
        'static: 'p,
    {
        let own = |slot: &str| self.spec.paths.get(slot).map(String::as_str);
        let plain = if self.spec.paths.contains_key("plain_up") && slot == "up" && !self.fields.holds("gated")
        {
            own("plain_up")
        } else {
            None
        };
        plain.or_else(|| own(slot)).unwrap_or(path)
    }

    fn push(&mut self, path: &str, role: ModuleRole, (inputs, outputs, bias): (u64, u64, u64), copies: u64) {
        self.modules.push(Module {
            path: intern(path),
            place: self.place,
            role,
            inputs,
            outputs,
            bias: if self.shared { 0 } else { bias },
            per_layer: copies,
            copies: self.layers.saturating_mul(copies),
            shared: self.shared,
        });
    }
}

/// Returns the parts of the layer that is set, and their modules.
fn layer_parts<'a>(fields: &'a Fields<'a>, decoder: bool) -> (Vec<&'static str>, ModuleList<'a>) {
    let spec = fields.family.spec();
    let place = if decoder { ModulePlace::DecoderLayer } else { ModulePlace::Layer };
    let mut list = ModuleList::new(fields, place, 1);
    let mut parts = Vec::new();
    for choice in [&spec.mixer, &spec.feed, &spec.other].into_iter().flatten() {
        if choice.condition.as_deref().is_some_and(|condition| !fields.holds(condition)) {
            continue;
        }
        list.shared = choice.shared.as_deref().is_some_and(|condition| fields.holds(condition));
        for part in &choice.parts {
            parts.push(part.as_str());
            list.part(part);
        }
    }
    list.shared = false;
    if decoder {
        for part in &spec.decoder {
            parts.push(part);
            list.part(part);
        }
    }
    (parts, list)
}

/// Returns one layer by its index, counted from 0.
pub(super) fn layer_at(fields: &Fields<'_>, layer: u64) -> LayerKind {
    fields.set_layer(Some(layer));
    let (parts, list) = layer_parts(fields, false);
    fields.set_layer(None);
    let input_bytes = fields.number("hidden").unwrap_or(0).saturating_mul(2);
    LayerKind {
        count: 1,
        decoder: false,
        parts,
        modules: list.modules,
        cores: list.cores,
        saved: list.saved,
        input_bytes,
    }
}

/// Collects the layers of a stack, equal ones together, in the order of their first one.
pub(super) fn layer_kinds(fields: &Fields<'_>, layers: u64, decoder: bool) -> Vec<LayerKind> {
    let mut kinds: Vec<LayerKind> = Vec::new();
    let mut signatures: Vec<(Vec<_>, usize)> = Vec::new();
    for layer in 0..layers {
        fields.set_layer(Some(layer));
        let signature = fields.layer_signature();
        let known = signatures.iter().find(|(other, _)| *other == signature).map(|(_, at)| *at);
        if let Some(kind) = known.filter(|_| layer > 0).and_then(|at| kinds.get_mut(at)) {
            kind.count = kind.count.saturating_add(1);
            continue;
        }
        let (parts, list) = layer_parts(fields, decoder);
        let (modules, cores, saved) = (list.modules, list.cores, list.saved);
        let equal = kinds.iter().position(|kind| kind.modules == modules && kind.cores == cores);
        let at = equal.unwrap_or_else(|| {
            let input_bytes = fields.number("hidden").unwrap_or(0).saturating_mul(2);
            kinds.push(LayerKind { count: 0, decoder, parts, modules, cores, saved, input_bytes });
            kinds.len().saturating_sub(1)
        });
        if let Some(kind) = kinds.get_mut(at) {
            kind.count = kind.count.saturating_add(1);
        }
        // What the layer turned out to depend on.
        signatures.push((fields.layer_signature(), at));
    }
    fields.set_layer(None);
    for kind in &mut kinds {
        for module in &mut kind.modules {
            module.copies = module.per_layer.saturating_mul(kind.count);
        }
    }
    kinds
}

impl Architecture {
    /// Returns all modules with parameters for this head, in the order of a forward pass; `None` where
    /// transformers has no such class for the family.
    pub fn modules(&self, class: Class) -> Option<Vec<Module>> {
        self.class_name(class)?;
        let mut modules = Vec::new();
        // The text model alone has no towers.
        if class == Class::ConditionalGeneration || self.container.is_none() {
            modules.extend(self.towers.iter().flat_map(|tower| &tower.modules));
        }
        modules.extend(&self.embedding);
        modules.extend(self.layer_kinds.iter().flat_map(|kind| &kind.modules));
        modules.extend(&self.last);
        self.head(class, &mut modules);
        Some(modules)
    }

    /// Returns the matrices of the layers (of both stacks for T5), fused where the Hugging Face module is
    /// fused.
    pub fn linear_modules(&self) -> Vec<LinearModule> {
        let mut all = self.all_linear(self.default_class());
        all.retain(|module| matches!(module.place, ModulePlace::Layer | ModulePlace::DecoderLayer));
        all
    }

    /// Returns the [`Self::linear_modules`] and those outside the layers (`lm_head`, `pooler.dense`, …).
    pub(super) fn all_linear(&self, class: Class) -> Vec<LinearModule> {
        let modules = self.modules(class).unwrap_or_default();
        modules
            .into_iter()
            .filter(|module| module.role.is_matrix())
            .map(|module| LinearModule {
                name: module.leaf(),
                path: module.path,
                inputs: module.inputs,
                outputs: module.outputs,
                per_layer: module.per_layer,
                copies: module.copies,
                place: module.place,
                expert: module.role == ModuleRole::Expert,
            })
            .collect()
    }
}
