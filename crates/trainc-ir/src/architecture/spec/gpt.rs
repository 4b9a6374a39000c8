//! Decoders with layer norms: GPT, BLOOM, Falcon, OPT, MPT, Phi.

use super::llama::LIKE_LLAMA_NAMES;
use crate::architecture::family::{DefaultFfn, FamilySpec, ModuleNames};
use crate::architecture::kinds::{Activation, Class, Norm, Positions};

pub(super) const LIKE_GPT2_NAMES: ModuleNames = ModuleNames {
    tokens: "wte",
    positions: "wpe",
    qkv: &["attn.c_attn"],
    out: "attn.c_proj",
    mlp: &["mlp.c_fc", "mlp.c_proj"],
    norms: &["ln_1", "ln_2"],
    final_norm: "ln_f",
    head: "lm_head",
};

pub(super) const LIKE_BLOOM_NAMES: ModuleNames = ModuleNames {
    tokens: "word_embeddings",
    positions: "",
    qkv: &["self_attention.query_key_value"],
    out: "self_attention.dense",
    mlp: &["mlp.dense_h_to_4h", "mlp.dense_4h_to_h"],
    norms: &["input_layernorm", "post_attention_layernorm"],
    final_norm: "ln_f",
    head: "lm_head",
};

pub(super) const GPT2: FamilySpec = FamilySpec {
    name: "gpt2",
    model_type: "gpt2",
    prefix: "GPT2",
    layer: "GPT2Block",
    class: Class::CausalLm,
    norm: Norm::LayerNorm,
    activation: Activation::GeluTanh,
    positions: Positions::Learned,
    gated: false,
    biases: [true, true, true],
    head_bias: false,
    tied: true,
    parallel: false,
    dropout: true,
    vocab: 50_257,
    max_positions: 1_024,
    ffn: DefaultFfn::Times(4),
    head_dim: 0,
    free: &[],
    names: LIKE_GPT2_NAMES,
};

pub(super) const GPT_NEO: FamilySpec = FamilySpec {
    name: "gpt-neo",
    model_type: "gpt_neo",
    prefix: "GPTNeo",
    layer: "GPTNeoBlock",
    biases: [false, true, true],
    dropout: false,
    max_positions: 2_048,
    names: ModuleNames {
        qkv: &["attn.attention.q_proj", "attn.attention.k_proj", "attn.attention.v_proj"],
        out: "attn.attention.out_proj",
        ..LIKE_GPT2_NAMES
    },
    ..GPT2
};

pub(super) const GPTJ: FamilySpec = FamilySpec {
    name: "gptj",
    model_type: "gptj",
    prefix: "GPTJ",
    layer: "GPTJBlock",
    positions: Positions::Rotary,
    biases: [false, false, true],
    head_bias: true,
    tied: false,
    parallel: true,
    vocab: 50_400,
    names: ModuleNames {
        positions: "",
        qkv: &["attn.q_proj", "attn.k_proj", "attn.v_proj"],
        out: "attn.out_proj",
        mlp: &["mlp.fc_in", "mlp.fc_out"],
        norms: &["ln_1"],
        ..LIKE_GPT2_NAMES
    },
    ..BLOOM
};

pub(super) const GPT_NEOX: FamilySpec = FamilySpec {
    name: "gpt-neox",
    model_type: "gpt_neox",
    prefix: "GPTNeoX",
    layer: "GPTNeoXLayer",
    activation: Activation::Gelu,
    positions: Positions::Rotary,
    tied: false,
    parallel: true,
    vocab: 50_432,
    free: &["qkv-bias", "out-bias", "parallel"],
    names: ModuleNames {
        tokens: "embed_in",
        qkv: &["attention.query_key_value"],
        out: "attention.dense",
        final_norm: "final_layer_norm",
        head: "embed_out",
        ..LIKE_BLOOM_NAMES
    },
    ..BLOOM
};

pub(super) const GPT_BIGCODE: FamilySpec = FamilySpec {
    name: "gpt-bigcode",
    model_type: "gpt_bigcode",
    prefix: "GPTBigCode",
    layer: "GPTBigCodeBlock",
    free: &["kv-heads"],
    ..GPT2
};

pub(super) const BLOOM: FamilySpec = FamilySpec {
    name: "bloom",
    model_type: "bloom",
    prefix: "Bloom",
    layer: "BloomBlock",
    class: Class::CausalLm,
    norm: Norm::LayerNorm,
    activation: Activation::GeluTanh,
    positions: Positions::Alibi,
    gated: false,
    biases: [true, true, true],
    head_bias: false,
    tied: true,
    parallel: false,
    dropout: false,
    vocab: 250_880,
    max_positions: 2_048,
    ffn: DefaultFfn::Times(4),
    head_dim: 0,
    free: &[],
    names: LIKE_BLOOM_NAMES,
};

pub(super) const FALCON: FamilySpec = FamilySpec {
    name: "falcon",
    model_type: "falcon",
    prefix: "Falcon",
    layer: "FalconDecoderLayer",
    activation: Activation::Gelu,
    positions: Positions::Rotary,
    biases: [false, false, false],
    parallel: true,
    vocab: 65_024,
    free: &["kv-heads", "qkv-bias", "out-bias", "mlp-bias", "parallel", "layer-norms", "alibi"],
    ..BLOOM
};

pub(super) const OPT: FamilySpec = FamilySpec {
    name: "opt",
    model_type: "opt",
    prefix: "OPT",
    layer: "OPTDecoderLayer",
    activation: Activation::Relu,
    vocab: 50_272,
    max_positions: 2_048,
    free: &["word-embedding", "qkv-bias", "out-bias", "mlp-bias", "final-norm"],
    names: ModuleNames {
        positions: "embed_positions",
        out: "self_attn.out_proj",
        mlp: &["fc1", "fc2"],
        norms: &["self_attn_layer_norm", "final_layer_norm"],
        final_norm: "final_layer_norm",
        ..LIKE_LLAMA_NAMES
    },
    ..GPT2
};

pub(super) const MPT: FamilySpec = FamilySpec {
    name: "mpt",
    model_type: "mpt",
    prefix: "Mpt",
    layer: "MptBlock",
    norm: Norm::LayerNormWithoutBias,
    activation: Activation::Gelu,
    biases: [false, false, false],
    vocab: 50_368,
    names: ModuleNames {
        positions: "",
        qkv: &["attn.Wqkv"],
        out: "attn.out_proj",
        mlp: &["ffn.up_proj", "ffn.down_proj"],
        norms: &["norm_1", "norm_2"],
        final_norm: "norm_f",
        ..LIKE_GPT2_NAMES
    },
    ..BLOOM
};

pub(super) const PHI: FamilySpec = FamilySpec {
    name: "phi",
    model_type: "phi",
    prefix: "Phi",
    layer: "PhiDecoderLayer",
    positions: Positions::Rotary,
    head_bias: true,
    tied: false,
    parallel: true,
    vocab: 51_200,
    free: &["kv-heads"],
    names: ModuleNames {
        out: "self_attn.dense",
        mlp: &["mlp.fc1", "mlp.fc2"],
        norms: &["input_layernorm"],
        final_norm: "final_layernorm",
        ..LIKE_LLAMA_NAMES
    },
    ..BLOOM
};
