//! `train`.

use crate::declared::{Unit, arg, child, prop, prop_of};
use crate::node::node;
use crate::origin::Field;
use crate::spec::Ty;
use trainc_diag::source::Span;

node! {
    /// training settings; exactly one of steps, tokens and epochs
    pub struct Train("train", span: Option<Span>;
        alternatives: &[&["steps"], &["tokens"], &["epochs", "dataset"]];
        reaches: "the plan")
    derive Default
    {
        /// the program's own YAML or JSON of arguments; relative to this file
        pub file: Field<String> = prop("file", Ty::Plain).otherwise("none");
        /// precision of the arithmetic; fp8: matrix products in 8 bit, the rest in bf16
        pub precision: Field<String> =
            child("precision", Ty::Word(&["fp32", "fp16", "bf16", "fp8"])).argument("precision")
            .decides(&["train.precision"])
            .default("fp32");
        /// fp8: how operands are scaled
        pub recipe: Field<String> = prop_of("precision", "recipe", Ty::Word(RECIPES))
            .listed("precision.recipe").decides(&["train.recipe"])
            .default("tensorwise");
        /// type in which gradients are stored and reduced
        pub gradients: Field<String> = prop_of("precision", "gradients", Ty::Word(WIDTHS))
            .listed("precision.gradients").decides(&["train.gradients"])
            .otherwise(
                "what the engine keeps, `fp32` in mixed precision under FSDP and DDP, `bf16` with \
                 `states=\"bf16\"`",
            );
        /// tokens in one sequence
        pub sequence_length: Field<u64> = child("sequence-length", Ty::Count)
            .decides(&["train.sequence_length", "model.sequence_length"])
            .otherwise("not known, so that memory and time are null; engine `worker` requires it");
        /// sequences per data-parallel rank and pass: per GPU, unless several share a sequence
        pub micro_batch_size: Field<u64> = child("micro-batch", Ty::Count)
            .decides(&["batch.micro", "train.micro_batch"])
            .otherwise("`global-batch` / (`accumulation` × data ranks); required without these two");
        /// forward and backward passes per optimizer step
        pub accumulation: Field<u64> = child("accumulation", Ty::Count)
            .decides(&["batch.accumulation", "train.accumulation"])
            .otherwise("`1`; with `global-batch` what it takes");
        /// sequences per optimizer step over all replicas
        pub global_batch: Field<u64> = child("global-batch", Ty::Count)
            .decides(&["batch.global_sequences", "train.global_batch", "batch.accumulation"])
            .otherwise("`micro-batch` × micro-batches of the pipeline × `accumulation` × data ranks");
        /// recompute activations in the backward pass
        pub activation_checkpointing: Field<Recompute> =
            child("activation-checkpointing", Ty::BoolOr(&["selective"])).argument("value")
            .decides(&["train.activation_checkpointing"])
            .default("#false");
        /// attention without storing the s × s matrix
        pub flash_attention: Field<bool> = child("flash-attention", Ty::Bool)
            .decides(&["train.flash_attention"])
            .otherwise(
                "on with transformers 4.36 and later, or PyTorch 2.2 and later; for engine `worker` on \
                 GPUs alone",
            );
        /// layers are compiled (`torch.compile`)
        pub compile: Field<bool> = child("compile", Ty::Bool).decides(&["train.compile"]).default("#false");
        /// attention kernel of the program
        pub attention: Field<String> =
            child("attention", Ty::Word(&["sdpa", "fa2", "fa3", "cudnn", "flex"])).argument("kernel")
            .decides(&["train.attention"])
            .otherwise(
                "the program's own: PyTorch's `sdpa`, but for `code`s that are known to choose another \
                 one",
            );
        /// computation of the loss: all logits at once, in chunks, fused with the head, or split over tensor
        /// ranks
        pub loss: Field<String> =
            child("loss", Ty::Word(&["whole", "chunked", "fused", "parallel"])).argument("computation")
            .decides(&["train.loss"])
            .default("whole");
        pub optimizer: Option<Optimizer>;
        /// optimizer steps
        pub steps: Field<u64> = child("steps", Ty::Count).decides(&["run.steps", "train.steps"])
            .required_where("exactly one of `steps`, `tokens` and `epochs` is required");
        /// tokens to train on
        pub tokens: Field<u64> = child("tokens", Ty::Count)
            .decides(&["run.tokens", "train.tokens", "run.steps"])
            .required_where("see `steps`");
        /// passes over the data; requires `dataset`
        pub epochs: Field<f64> = child("epochs", Ty::Number(1e-6, 1e9)).argument("epochs")
            .decides(&["train.epochs", "run.steps"])
            .required_where("see `steps`");
        pub dataset: Option<Dataset>;
        pub evaluate: Option<Evaluate>;
        /// seed of all random numbers
        pub seed: Field<u64> = child("seed", Ty::Int(0, u64::MAX)).argument("seed").unit(Unit::Plain)
            .decides(&["train.seed"])
            .otherwise("the program's own; engine `worker`: `0`");
    }
}

/// The types of gradients and of an optimizer's states.
const WIDTHS: &[&str] = &["fp32", "bf16"];
const RECIPES: &[&str] = &["tensorwise", "delayed", "current", "rowwise", "blockwise", "mxfp8", "nvfp4"];

/// The scope of activation recomputation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recompute {
    /// Nothing.
    None,
    /// The attention core.
    Selective,
    /// Every layer.
    Full,
}

impl Recompute {
    /// Returns its name in the plan.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Selective => "selective",
            Self::Full => "full",
        }
    }
}

node! {
    /// the optimizer and its schedule
    pub struct Optimizer("optimizer") {
        /// its name
        pub name: Field<String> = arg(0, "name", Ty::Word(OPTIMIZERS)).decides(&["train.optimizer"]);
        /// peak learning rate
        pub lr: Field<f64> = prop("lr", Ty::Number(0.0, 1e6)).decides(&["train.lr"])
            .otherwise("the program's own; engine `worker` requires it");
        /// decay rates of both moments, such as "0.9,0.95"
        pub betas: Field<(f64, f64)> = prop("betas", Ty::Plain)
            .decides(&["train.betas", "train.beta1", "train.beta2"])
            .otherwise("the program's own; engine `worker`: `0.9,0.999`");
        /// type of the optimizer's states
        pub states: Field<String> = prop("states", Ty::Word(WIDTHS)).decides(&["train.states"])
            .default("fp32");
        /// epsilon, for numerical stability
        pub eps: Field<f64> = prop("eps", Ty::Number(0.0, 1.0)).decides(&["train.eps"])
            .otherwise("the program's own; engine `worker`: `1e-8`");
        /// weight decay
        pub weight_decay: Field<f64> = prop("weight-decay", Ty::Number(0.0, 1e3))
            .decides(&["train.weight_decay"])
            .otherwise("the program's own; engine `worker`: `0.01`");
        /// maximum global gradient norm
        pub clip: Field<f64> = prop("clip", Ty::Number(0.0, 1e6)).decides(&["train.clip"])
            .otherwise("the program's own; engine `worker`: no clipping");
        /// warm-up
        pub warmup: Field<Warmup> = prop("warmup", Ty::Warmup).decides(&["train.warmup"])
            .otherwise("the program's own; engine `worker`: none");
        /// learning rate schedule after the warm-up
        pub schedule: Field<String> = prop("schedule", Ty::Word(&["constant", "linear", "cosine"]))
            .decides(&["train.schedule"])
            .otherwise("the program's own; engine `worker`: `constant`");
        /// final learning rate
        pub min_lr: Field<f64> = prop("min-lr", Ty::Number(0.0, 1e6)).decides(&["train.min_lr"])
            .otherwise("the program's own; engine `worker`: `0`");
    }
}

const OPTIMIZERS: &[&str] = &[
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
];

/// Length of the warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Warmup {
    /// A fraction of the steps, below 1.
    Fraction(f64),
    /// Optimizer steps.
    Steps(u64),
}

node! {
    /// evaluation during the run
    pub struct Evaluate("evaluate") {
        /// steps between two evaluations, or `"epoch"`: after each pass over the data
        pub every: Field<EvaluationInterval> = prop("every", Ty::StepsOrEpoch).required()
            .decides(&["train.evaluate_steps", "train.evaluate_strategy"]);
        /// sequences of one evaluation
        pub sequences: Field<u64> = prop("sequences", Ty::Int(1, u64::MAX)).required()
            .reaches("the prediction of time");
        /// sequences per data-parallel rank and pass
        pub micro_batch: Field<u64> = prop("micro-batch", Ty::Int(1, u64::MAX))
            .decides(&["train.evaluate_micro_batch"])
            .otherwise("the `micro-batch` of the training");
    }
}

/// The interval between evaluations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EvaluationInterval {
    /// Optimizer steps.
    Steps(u64),
    /// A pass over the data.
    Epoch,
}

node! {
    /// size of the data
    pub struct Dataset("dataset") {
        /// sequences in one epoch
        pub sequences: Field<u64> = prop("sequences", Ty::Int(1, u64::MAX))
            .otherwise("`tokens` / `sequence-length`")
            .reaches("the steps of the run");
        /// tokens in one epoch
        pub tokens: Field<u64> = prop("tokens", Ty::Int(1, u64::MAX))
            .otherwise("`epochs` requires this or `sequences`")
            .reaches("the steps of the run");
        /// size of the data read per epoch, for the required throughput of a Lustre file system
        pub size_bytes: Field<u64> = prop("size", Ty::Bytes).listed("size-bytes").unit(Unit::Count)
            .otherwise("not known, so that the throughput of the file system is not checked");
    }
}
