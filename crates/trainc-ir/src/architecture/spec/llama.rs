//! Llama-style decoders.

use crate::architecture::family::{DefaultFfn, FamilySpec, ModuleNames};
use crate::architecture::kinds::{Activation, Class, Norm, Positions};

pub(super) const LIKE_LLAMA_NAMES: ModuleNames = ModuleNames {
    tokens: "embed_tokens",
    positions: "",
    qkv: &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    out: "self_attn.o_proj",
    mlp: &["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"],
    norms: &["input_layernorm", "post_attention_layernorm"],
    final_norm: "norm",
    head: "lm_head",
};

pub(super) const LLAMA: FamilySpec = FamilySpec {
    name: "llama",
    model_type: "llama",
    prefix: "Llama",
    layer: "LlamaDecoderLayer",
    class: Class::CausalLm,
    norm: Norm::RmsNorm,
    activation: Activation::Silu,
    positions: Positions::Rotary,
    gated: true,
    biases: [false, false, false],
    head_bias: false,
    tied: false,
    parallel: false,
    dropout: false,
    vocab: 32_000,
    max_positions: 2_048,
    ffn: DefaultFfn::TwoThirds,
    head_dim: 0,
    free: &["head-dim", "kv-heads", "qkv-bias", "out-bias", "mlp-bias"],
    names: LIKE_LLAMA_NAMES,
};

pub(super) const MISTRAL: FamilySpec = FamilySpec {
    name: "mistral",
    model_type: "mistral",
    prefix: "Mistral",
    layer: "MistralDecoderLayer",
    max_positions: 131_072,
    ffn: DefaultFfn::ThreeAndHalf,
    free: &["head-dim", "kv-heads"],
    ..LLAMA
};

pub(super) const MIXTRAL: FamilySpec = FamilySpec {
    name: "mixtral",
    model_type: "mixtral",
    prefix: "Mixtral",
    layer: "MixtralDecoderLayer",
    max_positions: 131_072,
    ffn: DefaultFfn::ThreeAndHalf,
    free: &["head-dim", "kv-heads", "experts"],
    names: ModuleNames {
        mlp: &["block_sparse_moe.experts.w1", "block_sparse_moe.experts.w3", "block_sparse_moe.experts.w2"],
        ..LIKE_LLAMA_NAMES
    },
    ..LLAMA
};

pub(super) const QWEN2: FamilySpec = FamilySpec {
    name: "qwen2",
    model_type: "qwen2",
    prefix: "Qwen2",
    layer: "Qwen2DecoderLayer",
    biases: [true, false, false],
    vocab: 151_936,
    max_positions: 32_768,
    ffn: DefaultFfn::Written,
    free: &["kv-heads"],
    ..LLAMA
};

pub(super) const QWEN3: FamilySpec = FamilySpec {
    name: "qwen3",
    model_type: "qwen3",
    prefix: "Qwen3",
    layer: "Qwen3DecoderLayer",
    vocab: 151_936,
    max_positions: 32_768,
    ffn: DefaultFfn::Written,
    head_dim: 128,
    free: &["head-dim", "kv-heads", "qkv-bias", "out-bias"],
    ..LLAMA
};

pub(super) const GEMMA: FamilySpec = FamilySpec {
    name: "gemma",
    model_type: "gemma",
    prefix: "Gemma",
    layer: "GemmaDecoderLayer",
    activation: Activation::GeluTanh,
    tied: true,
    vocab: 256_000,
    max_positions: 8_192,
    ffn: DefaultFfn::Times(8),
    head_dim: 256,
    free: &["head-dim", "kv-heads", "qkv-bias", "out-bias"],
    ..LLAMA
};

pub(super) const GEMMA2: FamilySpec = FamilySpec {
    name: "gemma2",
    model_type: "gemma2",
    prefix: "Gemma2",
    layer: "Gemma2DecoderLayer",
    activation: Activation::GeluTanh,
    tied: true,
    vocab: 256_000,
    max_positions: 8_192,
    ffn: DefaultFfn::Written,
    head_dim: 256,
    free: &["head-dim", "kv-heads", "qkv-bias", "out-bias"],
    names: ModuleNames {
        norms: &[
            "input_layernorm",
            "post_attention_layernorm",
            "pre_feedforward_layernorm",
            "post_feedforward_layernorm",
        ],
        ..LIKE_LLAMA_NAMES
    },
    ..LLAMA
};

pub(super) const PHI3: FamilySpec = FamilySpec {
    name: "phi3",
    model_type: "phi3",
    prefix: "Phi3",
    layer: "Phi3DecoderLayer",
    vocab: 32_064,
    max_positions: 4_096,
    ffn: DefaultFfn::Written,
    free: &["kv-heads"],
    names: ModuleNames {
        qkv: &["self_attn.qkv_proj"],
        mlp: &["mlp.gate_up_proj", "mlp.down_proj"],
        ..LIKE_LLAMA_NAMES
    },
    ..LLAMA
};

pub(super) const STABLELM: FamilySpec = FamilySpec {
    name: "stablelm",
    model_type: "stablelm",
    prefix: "StableLm",
    layer: "StableLmDecoderLayer",
    norm: Norm::LayerNorm,
    vocab: 50_304,
    max_positions: 4_096,
    ffn: DefaultFfn::Written,
    free: &["kv-heads", "qkv-bias", "parallel"],
    ..LLAMA
};
