//! What engine `worker` is told beside the mesh and the batch: the network by its parts, and the settings of the run.

use super::architecture::RopeScaling;
use super::origin::Val;
use super::source_tree::SourceFile;
use serde::Serialize;

/// The channel with packed tokens to train on.
pub const TRAIN_CHANNEL: &str = "train";
/// The channel with packed tokens to evaluate on.
pub const VALIDATION_CHANNEL: &str = "validation";
/// The channel with weights to begin from, as Hugging Face stores them.
pub const WEIGHTS_CHANNEL: &str = "model";

/// All that the worker's config needs and the job does not say in so many words.
#[derive(Clone, Debug, PartialEq)]
pub struct Worker {
    /// The network.
    pub model: WorkerModel,
    /// AdamW.
    pub optimizer: WorkerOptimizer,
    /// Learning rate over steps.
    pub schedule: WorkerSchedule,
    /// Parameters and activations are bf16; master weights and optimizer states are always f32.
    pub bf16: Val<bool>,
    /// Gradients are summed between ranks in bf16.
    pub reduce_bf16: Val<bool>,
    /// Blocks are run again in backward.
    pub recompute: Val<bool>,
    /// Units gathered ahead of use.
    pub prefetch: Val<u64>,
    /// Blocks are freed after forward and gathered again.
    pub reshard_after_forward: Val<bool>,
    /// Master weights and optimizer states wait in host memory.
    pub offload: Val<bool>,
    /// Attention stays inside a document.
    pub document_mask: Val<bool>,
    /// Complete checkpoints kept.
    pub keep: Val<u64>,
    /// Of fresh weights and of the order of the data.
    pub seed: Val<u64>,
    /// The binary that will run, where the caller found one.
    pub binary: Option<SourceFile>,
}

/// The network by its parts; names as in `schemas/worker.v1.json`.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerModel {
    /// Whose tensor names.
    pub family: WorkerFamily,
    /// The norms.
    pub norm: WorkerNorm,
    /// Between the products of the feed-forward part.
    pub activation: WorkerActivation,
    /// Every product of the blocks has a bias; else none has.
    pub biases: bool,
    /// Added to the variance in norms; no unit.
    pub norm_eps: Val<f64>,
    /// Standard deviation of fresh weights.
    pub initializer_range: Val<f64>,
    /// Rotary positions; none: learned ones.
    pub rotary: Option<Rotary>,
}

/// Rotary positions.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotary {
    /// Base of the wavelengths.
    pub theta: f64,
    /// Part of each head that is turned, 0 to 1.
    pub fraction: Val<f64>,
    /// Stretching; none: as they are.
    pub scaling: Option<Val<RopeScaling>>,
}

/// A family of tensor names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerFamily {
    /// Llama and Mistral.
    Llama,
    /// GPT-2.
    Gpt2,
    /// GPT-NeoX and Pythia.
    GptNeox,
}

/// A norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerNorm {
    /// Mean and variance, weight and bias.
    Layer,
    /// Root mean square, weight only.
    Rms,
}

/// A non-linearity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerActivation {
    /// silu(gate) × up.
    Swiglu,
    /// Exact GELU.
    Gelu,
    /// Its tanh approximation.
    GeluTanh,
}

/// AdamW.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerOptimizer {
    /// Highest learning rate, per step.
    pub learning_rate: Val<f64>,
    /// Decay of the mean of gradients and of their squares.
    pub betas: Val<(f64, f64)>,
    /// Added to the root.
    pub eps: Val<f64>,
    /// Decoupled weight decay.
    pub weight_decay: Val<f64>,
    /// Bound of the gradient's global norm.
    pub clip_norm: Option<Val<f64>>,
}

/// Learning rate over optimizer steps.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerSchedule {
    /// `constant`, `linear` or `cosine`.
    pub kind: Val<String>,
    /// Steps of warm-up.
    pub warmup_steps: Val<u64>,
    /// Learning rate at the end.
    pub minimum_learning_rate: Val<f64>,
}
