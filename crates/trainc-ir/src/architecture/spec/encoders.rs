//! BERT, RoBERTa, DistilBERT and T5.

use super::llama::LIKE_LLAMA_NAMES;
use crate::architecture::family::{DefaultFfn, FamilySpec, ModuleNames};
use crate::architecture::kinds::{Activation, Class, Norm, Positions};

pub(super) const LIKE_BERT_NAMES: ModuleNames = ModuleNames {
    tokens: "embeddings.word_embeddings",
    positions: "embeddings.position_embeddings",
    qkv: &["attention.self.query", "attention.self.key", "attention.self.value"],
    out: "attention.output.dense",
    mlp: &["intermediate.dense", "output.dense"],
    norms: &["attention.output.LayerNorm", "output.LayerNorm"],
    final_norm: "",
    head: "",
};

pub(super) const BERT: FamilySpec = FamilySpec {
    name: "bert",
    model_type: "bert",
    prefix: "Bert",
    layer: "BertLayer",
    class: Class::Base,
    norm: Norm::LayerNorm,
    activation: Activation::Gelu,
    positions: Positions::Learned,
    gated: false,
    biases: [true, true, true],
    head_bias: false,
    tied: true,
    parallel: false,
    dropout: true,
    vocab: 30_522,
    max_positions: 512,
    ffn: DefaultFfn::Times(4),
    head_dim: 0,
    free: &["types"],
    names: LIKE_BERT_NAMES,
};

pub(super) const ROBERTA: FamilySpec = FamilySpec {
    name: "roberta",
    model_type: "roberta",
    prefix: "Roberta",
    layer: "RobertaLayer",
    vocab: 50_265,
    max_positions: 514,
    ..BERT
};

pub(super) const DISTILBERT: FamilySpec = FamilySpec {
    name: "distilbert",
    model_type: "distilbert",
    prefix: "DistilBert",
    layer: "TransformerBlock",
    free: &[],
    names: ModuleNames {
        qkv: &["attention.q_lin", "attention.k_lin", "attention.v_lin"],
        out: "attention.out_lin",
        mlp: &["ffn.lin1", "ffn.lin2"],
        norms: &["sa_layer_norm", "output_layer_norm"],
        ..LIKE_BERT_NAMES
    },
    ..BERT
};

pub(super) const T5: FamilySpec = FamilySpec {
    name: "t5",
    model_type: "t5",
    prefix: "T5",
    layer: "T5Block",
    class: Class::ConditionalGeneration,
    norm: Norm::RmsNorm,
    activation: Activation::Relu,
    positions: Positions::Relative,
    biases: [false, false, false],
    vocab: 32_128,
    head_dim: 64,
    free: &["head-dim", "decoder-layers", "buckets", "gated"],
    names: ModuleNames {
        tokens: "shared",
        qkv: &["SelfAttention.q", "SelfAttention.k", "SelfAttention.v"],
        out: "SelfAttention.o",
        mlp: &["DenseReluDense.wi", "DenseReluDense.wo"],
        norms: &["SelfAttention.layer_norm", "DenseReluDense.layer_norm"],
        final_norm: "final_layer_norm",
        ..LIKE_LLAMA_NAMES
    },
    ..BERT
};
