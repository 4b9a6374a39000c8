//! Settings of engine `worker` in addition to mesh and batch: the network and the run.

use super::architecture::RopeScaling;
use super::origin::Val;
use super::source_tree::SourceFile;
use serde::Serialize;
use std::collections::BTreeMap;

/// The channel with packed tokens to train on.
pub const TRAIN_CHANNEL: &str = "train";
/// The channel with packed tokens to evaluate on.
pub const VALIDATION_CHANNEL: &str = "validation";
/// The channel with initial weights in Hugging Face format.
pub const WEIGHTS_CHANNEL: &str = "model";

/// Seconds between SIGTERM and the end of the container: SageMaker grants 120, less some for the last bytes.
pub const GRACE_SECONDS: u64 = 100;

/// The settings of the worker's config that are derived from the job.
#[derive(Clone, Debug, PartialEq)]
pub struct Worker {
    /// The network.
    pub model: WorkerModel,
    /// AdamW.
    pub optimizer: WorkerOptimizer,
    /// Learning rate schedule.
    pub schedule: WorkerSchedule,
    /// Parameters and activations are bf16; master weights and optimizer states are always f32.
    pub bf16: Val<bool>,
    /// Gradients are reduced in bf16.
    pub reduce_bf16: Val<bool>,
    /// Blocks are recomputed in the backward pass.
    pub recompute: Val<bool>,
    /// Units gathered ahead of use.
    pub prefetch: Val<u64>,
    /// Blocks are resharded after the forward pass and gathered again for the backward pass.
    pub reshard_after_forward: Val<bool>,
    /// Master weights and optimizer states are kept in host memory.
    pub offload: Val<bool>,
    /// Attention is limited to a document.
    pub document_mask: Val<bool>,
    /// Kernels of attention on GPUs: `auto`, `flash` or `cudnn`.
    pub attention: Val<String>,
    /// A failed self-check ends the run.
    pub self_check_ends_run: Val<bool>,
    /// A run resumes with other data, another seed, batch or schedule.
    pub accept_changes: Val<bool>,
    /// Complete checkpoints kept.
    pub keep: Val<u64>,
    /// Seed of the initial weights and of the data order.
    pub seed: Val<u64>,
    /// Intervals, paths and adapter of the run; the default until bound.
    pub run: WorkerRunSettings,
    /// The worker's binary, if found.
    pub binary: Option<SourceFile>,
}

/// Intervals, paths and adapter of a worker's run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerRunSettings {
    /// Steps between log lines.
    pub log_interval_steps: u64,
    /// Steps between evaluations; `None` without validation data.
    pub evaluation_interval_steps: Option<u64>,
    /// Seconds between checkpoints, if the interval is a time.
    pub checkpoint_interval_seconds: Option<u64>,
    /// Steps between checkpoints, if the interval is a number of steps.
    pub checkpoint_interval_steps: Option<u64>,
    /// The directory of the checkpoints.
    pub checkpoint_directory: String,
    /// What starts the binary where it is installed; `None` in a container, which gets it through a channel.
    pub installed: Option<WorkerCommand>,
    /// The directories of its channels, in which the worker reads, by the channel's name.
    pub input_directories: BTreeMap<String, String>,
    /// Where the worker writes what it leaves.
    pub output: WorkerOutput,
    /// Seconds after which the worker saves and stops, before SageMaker stops the job at max-run.
    pub save_and_stop_seconds: Option<u64>,
    /// The adapter, if only it is trained.
    pub adapter: Option<WorkerAdapter>,
}

/// What starts a worker that is installed on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerCommand {
    /// The program and its leading arguments.
    pub entry_point: &'static [&'static str],
    /// Further arguments.
    pub arguments: &'static [&'static str],
}

/// Paths of what a worker leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerOutput {
    /// The directory of the trained model.
    pub model: &'static str,
    /// The directory of everything else.
    pub data: &'static str,
    /// The file with the reason of a failure.
    pub failure: &'static str,
}

/// An adapter that the worker trains.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerAdapter {
    /// `lora` or another kind.
    pub kind: String,
    /// Rank of the adapter matrices.
    pub rank: u64,
    /// Scale of the adapter: it is multiplied by alpha ÷ rank.
    pub alpha: f64,
    /// Dropout probability.
    pub dropout: f64,
    /// The matrices that get an adapter.
    pub targets: Vec<String>,
}

/// The network, with names as in `schemas/worker.v1.json`.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerModel {
    /// The family of the tensor names.
    pub family: WorkerFamily,
    /// The normalisation.
    pub norm: WorkerNorm,
    /// The activation of the feed-forward layer.
    pub activation: WorkerActivation,
    /// All matrices of the blocks have biases, otherwise none.
    pub biases: bool,
    /// Added to the variance in norms; no unit.
    pub norm_eps: Val<f64>,
    /// Standard deviation of the initial weights.
    pub initializer_range: Val<f64>,
    /// Rotary positions; `None` for learned ones.
    pub rotary: Option<Rotary>,
}

/// Rotary positions.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotary {
    /// Base of the wavelengths.
    pub theta: f64,
    /// Fraction of each head that is rotated, 0 to 1.
    pub fraction: Val<f64>,
    /// RoPE scaling, if any.
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

/// An activation function.
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
    /// Peak learning rate.
    pub learning_rate: Val<f64>,
    /// Decay rates of the first and second moment.
    pub betas: Val<(f64, f64)>,
    /// Added to the denominator.
    pub eps: Val<f64>,
    /// Decoupled weight decay.
    pub weight_decay: Val<f64>,
    /// Maximum global norm of the gradients.
    pub clip_norm: Option<Val<f64>>,
}

/// Learning rate schedule over optimizer steps.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerSchedule {
    /// `constant`, `linear` or `cosine`.
    pub kind: Val<String>,
    /// Steps of warm-up.
    pub warmup_steps: Val<u64>,
    /// Learning rate at the end.
    pub minimum_learning_rate: Val<f64>,
}
