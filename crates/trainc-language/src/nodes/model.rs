//! `model`, `adapter`, `quantize`.

use crate::spec::{NodeSpec, Ty, arg, optional_arg, prop, value_node};

const fn dimension(name: &'static str, doc: &'static str) -> NodeSpec {
    value_node(name, Ty::Count, doc)
}

static HIDDEN: NodeSpec = dimension("hidden", "width of the residual stream");
static LAYERS: NodeSpec = dimension("layers", "decoder or encoder layers");
static HEADS: NodeSpec = dimension("heads", "attention heads");
static KV_HEADS: NodeSpec = dimension("kv-heads", "key and value heads (grouped-query attention)");
static HEAD_DIM: NodeSpec = dimension("head-dim", "width of one head, if not hidden / heads");
static FFN: NodeSpec = dimension("ffn", "width of the feed-forward layer");
static VOCAB: NodeSpec = dimension("vocab", "size of the vocabulary");
static POSITIONS: NodeSpec = dimension("positions", "maximum sequence length");
static EXPERTS: NodeSpec = dimension("experts", "experts per layer");
static ACTIVE_EXPERTS: NodeSpec = dimension("active-experts", "experts per token");
static TIED: NodeSpec = value_node("tied", Ty::Bool, "the output head shares the embedding's weights");
static PARAMETERS: NodeSpec = dimension("parameters", "parameter count only; values that need more are null");

pub(crate) static MODEL: NodeSpec = NodeSpec {
    name: "model",
    doc: "a catalogue name (Hugging Face id), or an architecture with its dimensions as children",
    args: &[optional_arg("name", Ty::Plain)],
    props: &[prop("config", Ty::Plain, "a Hugging Face config.json, relative to this file")],
    children: &[
        &HIDDEN,
        &LAYERS,
        &HEADS,
        &KV_HEADS,
        &HEAD_DIM,
        &FFN,
        &VOCAB,
        &POSITIONS,
        &EXPERTS,
        &ACTIVE_EXPERTS,
        &TIED,
        &PARAMETERS,
    ],
    ..NodeSpec::LEAF
};

pub(crate) static ADAPTER: NodeSpec = NodeSpec {
    name: "adapter",
    doc: "the trainable part of a frozen model",
    args: &[arg("kind", Ty::Word(&["lora"]))],
    props: &[
        prop("rank", Ty::Int(1, 65_536), "rank of the update"),
        prop("alpha", Ty::Number(0.0, f64::MAX), "scale of the update"),
        prop("dropout", Ty::Number(0.0, 1.0), "dropout on the adapter's input"),
        prop("targets", Ty::Plain, "target matrices, separated by commas"),
    ],
    ..NodeSpec::LEAF
};

pub(crate) static QUANTIZE: NodeSpec = NodeSpec {
    name: "quantize",
    doc: "storage format of the frozen base weights",
    args: &[arg("kind", Ty::Word(&["nf4", "int8"]))],
    props: &[
        prop("double", Ty::Bool, "quantise the scales too"),
        prop("compute", Ty::Word(&["fp32", "fp16", "bf16"]), "precision of the arithmetic"),
    ],
    ..NodeSpec::LEAF
};
