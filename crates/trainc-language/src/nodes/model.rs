//! `model`, `adapter`, `quantize`.

use crate::ast::Node;
use crate::declared::{Declared, arg, beside, child, children, optional_arg, prop};
use crate::node::{Leaf, Part, Visitor, node};
use crate::origin::{Field, Val};
use crate::spec::{NodeSpec, Ty, value_node};

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

static DIMENSIONS: &[&NodeSpec] =
    &[&HIDDEN, &LAYERS, &HEADS, &KV_HEADS, &HEAD_DIM, &FFN, &VOCAB, &POSITIONS, &EXPERTS, &ACTIVE_EXPERTS];

node! {
    /// a catalogue name (Hugging Face id), or an architecture with its dimensions as children
    pub struct Model("model") {
        /// catalogue name or architecture as written
        pub name: Field<String> = optional_arg("name", Ty::Plain).decides(&["model.name"]);
        /// a Hugging Face config.json, relative to this file
        pub config: Field<String> = prop("config", Ty::Plain);
        /// dimensions as written
        pub dimensions: Vec<(&'static str, Val<u64>)> = children(DIMENSIONS);
        /// dimensions with an invalid value, already reported
        pub unusable: Vec<&'static str> = beside("");
        /// the output head shares the embedding's weights
        pub tied: Field<bool> = child("tied", Ty::Bool);
        /// parameter count only; values that need more are null
        pub parameters: Field<u64> = child("parameters", Ty::Count);
    }
}

/// Returns the dimensions of a model as written.
fn dimensions(node: &Node) -> impl Iterator<Item = (&'static str, Field<u64>)> {
    static FIELD: Declared = child("", Ty::Count);
    DIMENSIONS
        .iter()
        .map(|spec| (spec.name, Field::of(node.child(spec.name).and_then(|child| child.arg(0)), &FIELD)))
}

impl Part for Vec<(&'static str, Val<u64>)> {
    fn read(_: &'static Declared, node: &Node) -> Option<Self> {
        let written = dimensions(node).filter_map(|(name, field)| Some((name, field.val()?.clone())));
        Some(written.collect())
    }

    fn visit(&self, declared: &'static Declared, path: &str, with: Visitor) {
        for (name, val) in self {
            with(&Leaf { path, name, declared, origin: Some(&val.origin), value: &val.value });
        }
    }
}

impl Part for Vec<&'static str> {
    fn read(_: &'static Declared, node: &Node) -> Option<Self> {
        Some(dimensions(node).filter(|(_, field)| field.is_bad()).map(|(name, _)| name).collect())
    }
}

node! {
    /// the trainable part of a frozen model
    pub struct Adapter("adapter") {
        /// `lora`
        pub kind: Field<String> = arg(0, "kind", Ty::Word(&["lora"])).decides(&["adapter.kind"]);
        /// rank of the update
        pub rank: Field<u64> = prop("rank", Ty::Int(1, 65_536)).decides(&["adapter.rank"]);
        /// scale of the update
        pub alpha: Field<f64> = prop("alpha", Ty::Number(0.0, f64::MAX)).decides(&["adapter.alpha"]);
        /// dropout on the adapter's input
        pub dropout: Field<f64> = prop("dropout", Ty::Number(0.0, 1.0)).decides(&["adapter.dropout"]);
        /// target matrices, separated by commas
        pub targets: Field<Vec<String>> = prop("targets", Ty::Plain).decides(&["adapter.targets"]);
    }
}

node! {
    /// storage format of the frozen base weights
    pub struct Quantize("quantize") {
        /// `nf4` or `int8`
        pub kind: Field<String> = arg(0, "kind", Ty::Word(&["nf4", "int8"])).decides(&["quantize.kind"]);
        /// quantise the scales too
        pub double: Field<bool> = prop("double", Ty::Bool).decides(&["quantize.double"]);
        /// precision of the arithmetic
        pub compute: Field<String> = prop("compute", Ty::Word(&["fp32", "fp16", "bf16"]))
            .decides(&["quantize.compute"]);
    }
}
