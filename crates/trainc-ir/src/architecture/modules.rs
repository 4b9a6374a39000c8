//! The list of all modules with parameters, from which counts, LoRA and FLOPs are computed.
//!
//! Shapes: the `modeling_*.py` of transformers 5; the catalogue's test and `tests/python/verify_models.py` compare the totals
//! with its classes.

use super::Architecture;
use super::family::{Family, ModuleNames};
use super::kinds::{Class, Positions};

/// The position of a module in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ModulePlace {
    /// Before the layers. Includes T5's relative bias, which is part of its first layers, so that all layers are equal.
    Embedding,
    /// In each layer of the stack (T5: of the encoder).
    Layer,
    /// In each layer of T5's decoder.
    DecoderLayer,
    /// After the layers: the last norm, and OPT-350m's projection.
    Final,
    /// The output of the class: language-model head, pooler, classifier.
    Head,
}

/// The function of a module, for FLOPs and LoRA targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ModuleRole {
    /// A table of vectors: no multiplication.
    Lookup,
    /// A matrix of self-attention, or query and output of cross-attention.
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
    /// A matrix of the output that processes every token.
    Output,
    /// A matrix of the output that processes one token of a sequence.
    Pooled,
}

impl ModuleRole {
    /// Returns whether it is a matrix multiplication, which LoRA can adapt and FLOPs include.
    pub fn is_matrix(self) -> bool {
        !matches!(self, Self::Lookup | Self::Norm)
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
    /// Copies in one layer: the number of experts, otherwise 1.
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
    /// Copies in one layer; 1 for a matrix outside the layers.
    pub per_layer: u64,
    /// Copies in the model.
    pub copies: u64,
    /// Its position.
    pub place: ModulePlace,
}

/// Collects the modules of an architecture.
pub(super) struct ModuleList<'a> {
    pub(super) a: &'a Architecture,
    pub(super) names: &'static ModuleNames,
    pub(super) modules: Vec<Module>,
}

impl ModuleList<'_> {
    fn add(
        &mut self,
        path: &'static str,
        place: ModulePlace,
        role: ModuleRole,
        (inputs, outputs, bias): (u64, u64, u64),
    ) {
        let layers = match place {
            ModulePlace::Layer => self.a.layers,
            ModulePlace::DecoderLayer => self.a.decoder_layers,
            ModulePlace::Embedding | ModulePlace::Final | ModulePlace::Head => 1,
        };
        let per_layer = if role == ModuleRole::Expert { self.a.experts } else { 1 };
        let copies = layers.saturating_mul(per_layer);
        self.modules.push(Module {
            path,
            place,
            role,
            inputs,
            outputs,
            bias,
            per_layer,
            copies,
            shared: false,
        });
    }

    pub(super) fn matrix(
        &mut self,
        path: &'static str,
        place: ModulePlace,
        role: ModuleRole,
        (inputs, outputs): (u64, u64),
        bias: bool,
    ) {
        self.add(path, place, role, (inputs, outputs, if bias { outputs } else { 0 }));
    }

    pub(super) fn norm(&mut self, path: &'static str, place: ModulePlace, width: u64) {
        let bias = if self.a.norm.has_bias() { width } else { 0 };
        self.add(path, place, ModuleRole::Norm, (width, 1, bias));
    }

    fn embeddings(&mut self) {
        let (a, names) = (self.a, self.names);
        let place = ModulePlace::Embedding;
        self.add(names.tokens, place, ModuleRole::Lookup, (a.vocab, a.word_embedding, 0));
        if a.position_kind == Positions::Learned {
            // OPT counts positions from 2.
            let extra = if a.family == Family::Opt { 2 } else { 0 };
            self.add(
                names.positions,
                place,
                ModuleRole::Lookup,
                (a.positions.saturating_add(extra), a.hidden, 0),
            );
        }
        if a.types > 0 {
            self.add("embeddings.token_type_embeddings", place, ModuleRole::Lookup, (a.types, a.hidden, 0));
        }
        if a.buckets > 0 {
            let path = "SelfAttention.relative_attention_bias";
            self.add(path, place, ModuleRole::Lookup, (a.buckets, a.heads, 0));
            self.add(path, place, ModuleRole::Lookup, (a.buckets, a.heads, 0));
        }
        if a.word_embedding != a.hidden {
            self.matrix("project_in", place, ModuleRole::Output, (a.word_embedding, a.hidden), false);
        }
        if a.family == Family::Bloom {
            self.norm("word_embeddings_layernorm", place, a.hidden);
        } else if !a.family.is_causal() {
            self.norm("embeddings.LayerNorm", place, a.hidden);
        }
    }

    /// Adds one stack of layers: self-attention, feed-forward, norms.
    fn stack(&mut self, place: ModulePlace) {
        let (a, names) = (self.a, self.names);
        let (h, q, kv) = (a.hidden, a.attention_width(), a.kv_width());
        match names.qkv {
            [query, key, value] => {
                self.matrix(query, place, ModuleRole::Attention, (h, q), a.qkv_bias);
                self.matrix(key, place, ModuleRole::Attention, (h, kv), a.qkv_bias);
                self.matrix(value, place, ModuleRole::Attention, (h, kv), a.qkv_bias);
            }
            fused => {
                let width = q.saturating_add(kv.saturating_mul(2));
                for path in fused {
                    self.matrix(path, place, ModuleRole::Attention, (h, width), a.qkv_bias);
                }
            }
        }
        self.matrix(names.out, place, ModuleRole::Attention, (q, h), a.out_bias);
        if a.family == Family::Qwen3 {
            self.norm("self_attn.q_norm", place, a.head_dim);
            self.norm("self_attn.k_norm", place, a.head_dim);
        }
        self.feed_forward(place);
        for (path, _) in self.layer_norms().iter().zip(0..a.layer_norms) {
            self.norm(path, place, h);
        }
    }

    fn feed_forward(&mut self, place: ModulePlace) {
        let (a, names) = (self.a, self.names);
        let (h, f) = (a.hidden, a.ffn);
        let role = if a.experts > 0 { ModuleRole::Expert } else { ModuleRole::Mlp };
        if a.experts > 0 {
            self.matrix("block_sparse_moe.gate", place, ModuleRole::Router, (h, a.experts), false);
        }
        // T5 1.1 splits `wi` into a gate and an up projection.
        let paths = if a.family == Family::T5 && a.gated {
            &["DenseReluDense.wi_0", "DenseReluDense.wi_1", "DenseReluDense.wo"]
        } else {
            names.mlp
        };
        let Some((down, ups)) = paths.split_last() else {
            return;
        };
        // Phi 3 fuses gate and up into one matrix.
        let width = if a.gated && ups.len() == 1 { f.saturating_mul(2) } else { f };
        for up in ups {
            self.matrix(up, place, role, (h, width), a.mlp_bias);
        }
        self.matrix(down, place, role, (f, h), a.mlp_bias);
    }

    fn layer_norms(&self) -> &'static [&'static str] {
        let a = self.a;
        let new_falcon = a.family == Family::Falcon && a.parallel && a.layer_norms == 2;
        if new_falcon { &["ln_attn", "ln_mlp"] } else { self.names.norms }
    }

    /// Adds the cross-attention of T5's decoder: four matrices and a norm in each layer.
    fn cross_attention(&mut self) {
        let (h, width) = (self.a.hidden, self.a.attention_width());
        let place = ModulePlace::DecoderLayer;
        self.matrix("EncDecAttention.q", place, ModuleRole::Attention, (h, width), false);
        self.matrix("EncDecAttention.k", place, ModuleRole::CrossMemory, (h, width), false);
        self.matrix("EncDecAttention.v", place, ModuleRole::CrossMemory, (h, width), false);
        self.matrix("EncDecAttention.o", place, ModuleRole::Attention, (width, h), false);
        self.norm("EncDecAttention.layer_norm", place, h);
    }

    fn final_modules(&mut self) {
        let a = self.a;
        if a.final_norm {
            self.norm(self.names.final_norm, ModulePlace::Final, a.hidden);
        }
        if a.family == Family::T5 {
            self.norm(self.names.final_norm, ModulePlace::Final, a.hidden);
        }
        if a.word_embedding != a.hidden {
            self.matrix(
                "project_out",
                ModulePlace::Final,
                ModuleRole::Output,
                (a.hidden, a.word_embedding),
                false,
            );
        }
    }
}

impl Architecture {
    /// Returns all modules with parameters for this head, in the order of a forward pass; `None` where transformers has no
    /// such class for the family.
    pub fn modules(&self, class: Class) -> Option<Vec<Module>> {
        self.family.class_name(class)?;
        let mut list = ModuleList { a: self, names: &self.family.spec().names, modules: Vec::new() };
        list.embeddings();
        list.stack(ModulePlace::Layer);
        if self.decoder_layers > 0 {
            list.stack(ModulePlace::DecoderLayer);
            list.cross_attention();
        }
        list.final_modules();
        list.head(class);
        Some(list.modules)
    }

    /// Returns the matrices of one layer (of both stacks for T5), fused where the Hugging Face module is fused.
    pub fn linear_modules(&self) -> Vec<LinearModule> {
        let mut all = self.all_linear(self.family.default_class());
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
            })
            .collect()
    }
}
