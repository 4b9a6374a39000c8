//! `model`, `adapter`, `quantize`.

use crate::ast::Node;
use crate::declared::{Declared, arg, beside, child, children, optional_arg, prop};
use crate::node::{Leaf, Part, Visitor, node};
use crate::origin::{Field, Val};
use crate::spec::{NodeSpec, Ty, value_node};

/// Declares the dimensions of an architecture, each with its default.
macro_rules! dimensions {
    ($($ident:ident = $name:literal, $says:ident($default:literal), $doc:literal;)*) => {
        $(static $ident: NodeSpec = NodeSpec {
            declared: &[arg(0, "count", Ty::Count).$says($default).doc($doc)],
            ..value_node($name, Ty::Count, $doc)
        };)*

        static DIMENSIONS: &[&NodeSpec] = &[$(&$ident),*];
    };
}

dimensions! {
    HIDDEN = "hidden", required_where("required for an architecture"), "width of the residual stream";
    LAYERS = "layers", required_where("required for an architecture"), "decoder or encoder layers";
    HEADS = "heads", required_where("required for an architecture"), "attention heads";
    KV_HEADS = "kv-heads", otherwise("`heads`, but for architectures that share them"),
        "key and value heads (grouped-query attention)";
    HEAD_DIM = "head-dim", otherwise("`hidden` / `heads`"), "width of one head";
    FFN = "ffn", otherwise("that of the architecture, such as 4 × `hidden`; required for those without one"),
        "width of the feed-forward layer";
    VOCAB = "vocab", otherwise("that of the architecture"), "size of the vocabulary";
    POSITIONS = "positions", otherwise("that of the architecture"), "maximum sequence length";
    EXPERTS = "experts", otherwise("no experts, but for architectures with them"), "experts per layer";
    ACTIVE_EXPERTS = "active-experts", otherwise("that of the architecture"), "experts per token";
}

node! {
    /// a catalogue name (Hugging Face id), or an architecture with its dimensions as children
    pub struct Model("model"; reaches: "the plan") {
        /// catalogue name or architecture as written
        pub name: Field<String> = optional_arg("name", Ty::Plain).decides(&["model.name"])
            .required_where("required, unless `config` is set");
        /// a Hugging Face config.json, relative to this file
        pub config: Field<String> = prop("config", Ty::Plain)
            .otherwise("the catalogue has the dimensions of the model");
        /// dimensions as written
        pub dimensions: Vec<(&'static str, Val<u64>)> = children(DIMENSIONS);
        /// dimensions with an invalid value, already reported
        pub unusable: Vec<&'static str> = beside("");
        /// the output head shares the embedding's weights
        pub tied: Field<bool> = child("tied", Ty::Bool).otherwise("as the architecture has it");
        /// parameter count only; values that need more are null
        pub parameters: Field<u64> = child("parameters", Ty::Count)
            .otherwise("counted from the architecture");
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
        pub rank: Field<u64> = prop("rank", Ty::Int(1, 65_536)).decides(&["adapter.rank"])
            .required_where("required, unless a file of the program has it");
        /// scale of the update
        pub alpha: Field<f64> = prop("alpha", Ty::Number(0.0, f64::MAX)).decides(&["adapter.alpha"])
            .otherwise("the program's own; engine `worker`: the rank");
        /// dropout on the adapter's input
        pub dropout: Field<f64> = prop("dropout", Ty::Number(0.0, 1.0)).decides(&["adapter.dropout"])
            .otherwise("the program's own; engine `worker`: `0`");
        /// target matrices, separated by commas
        pub targets: Field<Vec<String>> = prop("targets", Ty::Plain).decides(&["adapter.targets"])
            .otherwise(
                "counted as `all-linear`, which is passed to no program: PEFT has its own for each model",
            );
    }
}

node! {
    /// storage format of the frozen base weights
    pub struct Quantize("quantize") {
        /// `nf4` or `int8`
        pub kind: Field<String> = arg(0, "kind", Ty::Word(&["nf4", "int8"])).decides(&["quantize.kind"]);
        /// quantise the scales too
        pub double: Field<bool> = prop("double", Ty::Bool).decides(&["quantize.double"]).default("#false");
        /// precision of the arithmetic
        pub compute: Field<String> = prop("compute", Ty::Word(&["fp32", "fp16", "bf16"]))
            .decides(&["quantize.compute"])
            .otherwise("the program's own");
    }
}
