//! `train`.

use crate::spec::{NodeSpec, Ty, arg, prop, value_node};

static PRECISION: NodeSpec = NodeSpec {
    name: "precision",
    doc: "precision of the arithmetic; fp8: matrix products in 8 bit, the rest in bf16",
    args: &[arg("precision", Ty::Word(&["fp32", "fp16", "bf16", "fp8"]))],
    props: &[prop(
        "recipe",
        Ty::Word(&["tensorwise", "delayed", "current", "rowwise", "blockwise", "mxfp8", "nvfp4"]),
        "fp8: how operands are scaled; default: tensorwise",
    )],
    ..NodeSpec::LEAF
};
static SEQUENCE_LENGTH: NodeSpec = value_node("sequence-length", Ty::Count, "tokens in one sequence");
static MICRO_BATCH: NodeSpec = value_node("micro-batch", Ty::Count, "sequences per model replica and pass");
static ACCUMULATION: NodeSpec =
    value_node("accumulation", Ty::Count, "forward and backward passes per optimizer step");
static GLOBAL_BATCH: NodeSpec =
    value_node("global-batch", Ty::Count, "sequences per optimizer step over all replicas");
static CHECKPOINTING: NodeSpec = NodeSpec {
    name: "activation-checkpointing",
    doc: "recompute activations in the backward pass",
    args: &[arg("value", Ty::BoolOr(&["selective"]))],
    ..NodeSpec::LEAF
};
static FLASH: NodeSpec =
    value_node("flash-attention", Ty::Bool, "attention without storing the s × s matrix");
static COMPILE: NodeSpec = value_node("compile", Ty::Bool, "layers are compiled (`torch.compile`)");
static ATTENTION: NodeSpec = NodeSpec {
    name: "attention",
    doc: "attention kernel of the program",
    args: &[arg("kernel", Ty::Word(&["sdpa", "fa2", "fa3", "cudnn", "flex"]))],
    ..NodeSpec::LEAF
};
static LOSS: NodeSpec = NodeSpec {
    name: "loss",
    doc: "computation of the loss: all logits at once, in chunks, fused with the head, or split over tensor ranks",
    args: &[arg("computation", Ty::Word(&["whole", "chunked", "fused", "parallel"]))],
    ..NodeSpec::LEAF
};
static OPTIMIZER: NodeSpec = NodeSpec {
    name: "optimizer",
    doc: "the optimizer and its schedule",
    args: &[arg(
        "name",
        Ty::Word(&[
            "adamw",
            "adamw-apex-fused",
            "adamw-fused",
            "adamw-8bit",
            "paged-adamw-32bit",
            "paged-adamw-8bit",
            "adam",
            "adafactor",
            "sgd",
            "lamb",
            "lion",
        ]),
    )],
    props: &[
        prop("lr", Ty::Number(0.0, 1e6), "peak learning rate"),
        prop("betas", Ty::Plain, "decay rates of both moments, such as \"0.9,0.95\""),
        prop("eps", Ty::Number(0.0, 1.0), "epsilon, for numerical stability"),
        prop("weight-decay", Ty::Number(0.0, 1e3), "weight decay"),
        prop("clip", Ty::Number(0.0, 1e6), "maximum global gradient norm"),
        prop("warmup", Ty::Warmup, "warm-up"),
        prop(
            "schedule",
            Ty::Word(&["constant", "linear", "cosine"]),
            "learning rate schedule after the warm-up",
        ),
        prop("min-lr", Ty::Number(0.0, 1e6), "final learning rate"),
    ],
    ..NodeSpec::LEAF
};
static STEPS: NodeSpec = value_node("steps", Ty::Count, "optimizer steps");
static TOKENS: NodeSpec = value_node("tokens", Ty::Count, "tokens to train on");
static EPOCHS: NodeSpec = NodeSpec {
    name: "epochs",
    doc: "passes over the data; requires `dataset`",
    args: &[arg("epochs", Ty::Number(1e-6, 1e9))],
    ..NodeSpec::LEAF
};
static DATASET: NodeSpec = NodeSpec {
    name: "dataset",
    doc: "size of the data",
    props: &[
        prop("sequences", Ty::Int(1, u64::MAX), "sequences in one epoch"),
        prop("tokens", Ty::Int(1, u64::MAX), "tokens in one epoch"),
        prop(
            "size",
            Ty::Bytes,
            "size of the data read per epoch, for the required throughput of a Lustre file system",
        ),
    ],
    ..NodeSpec::LEAF
};
static SEED: NodeSpec = NodeSpec {
    name: "seed",
    doc: "seed of all random numbers",
    args: &[arg("seed", Ty::Int(0, u64::MAX))],
    ..NodeSpec::LEAF
};

pub(crate) static TRAIN: NodeSpec = NodeSpec {
    name: "train",
    doc: "training settings; exactly one of steps, tokens and epochs",
    children: &[
        &PRECISION,
        &SEQUENCE_LENGTH,
        &MICRO_BATCH,
        &ACCUMULATION,
        &GLOBAL_BATCH,
        &CHECKPOINTING,
        &FLASH,
        &COMPILE,
        &ATTENTION,
        &LOSS,
        &OPTIMIZER,
        &STEPS,
        &TOKENS,
        &EPOCHS,
        &DATASET,
        &SEED,
    ],
    alternatives: &[&["steps"], &["tokens"], &["epochs", "dataset"]],
    ..NodeSpec::LEAF
};
