//! Config of a run, parsed and checked without accessing the machine. All problems are reported with their
//! JSON paths. `schemas/worker.v1.json` is generated from these types.

pub mod check;
mod differences;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use differences::differences;

use crate::exit::{Code, Failure};

/// Schema version that this binary reads.
pub const SCHEMA: &str = "trainc.worker/v1";

fn default_max_age_intervals() -> u32 {
    3
}

/// Deserializes an optional field, which may be null but not absent.
fn deserialize_nullable<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(
    reader: D,
) -> Result<Option<T>, D::Error> {
    Option::deserialize(reader)
}

macro_rules! record {
    ($(#[$m:meta])* $name:ident { $($(#[$f:meta])* $field:ident: $type:ty,)* }) => {
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        $(#[$m])*
        pub struct $name { $($(#[$f])* pub $field: $type,)* }
    };
}

macro_rules! choice {
    ($(#[$m:meta])* $name:ident { $($(#[$f:meta])* $variant:ident,)* }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(rename_all = "kebab-case")]
        pub enum $name { $($(#[$f])* $variant,)* }
    };
}

record! {
    /// Config of trainc-worker, written by `trainc emit` as worker/worker.json. Every field is required, but
    /// may be null where stated; unknown fields are rejected. Sizes are in bytes, times in seconds.
    #[cfg_attr(test, schemars(title = "trainc worker config, version 1"))]
    Config {
        /// `trainc.worker/v1`.
        #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
        schema: String,
        /// Name of the job.
        job: String,
        /// SHA-256 of the plan in hexadecimal; must be equal on all ranks, and is recorded in checkpoints.
        #[cfg_attr(test, schemars(regex(pattern = r"^[0-9a-fA-F]{64}$")))]
        digest: String,
        /// Cluster that the run uses.
        cluster: Cluster,
        /// Distribution of the work over ranks.
        mesh: Mesh,
        /// Model architecture.
        model: Model,
        /// Number formats.
        precision: Precision,
        /// Activation recomputation, prefetching and offloading.
        memory: Memory,
        /// Sequences per step.
        batch: Batch,
        /// AdamW.
        optimizer: Optimizer,
        /// Learning rate schedule.
        schedule: Schedule,
        /// Token shards.
        data: Data,
        /// Saving and resuming.
        checkpoint: Checkpoint,
        /// Output paths.
        output: Output,
        /// Intervals of log lines and evaluations.
        log: Log,
        /// Communication between ranks.
        communication: Communication,
        /// Stop conditions.
        limits: Limits,
        /// Kernels of GPUs, and what they are compared with.
        #[serde(default)]
        gpu: Gpu,
    }
}
record! {
    /// Cluster that the run uses.
    Cluster {
        /// Instance type, or `local`.
        instance: String,
        /// Number of hosts.
        nodes: usize,
        /// GPUs per host; 0 for ranks that are CPU processes.
        gpus_per_node: usize,
    }
}
record! {
    /// Ranks = shard_degree * data_parallel_replicas; rank = replica * shard_degree + shard.
    Mesh {
        /// Ranks that share one copy of parameters, gradients and optimizer states.
        shard_degree: usize,
        /// Number of data-parallel replicas.
        data_parallel_replicas: usize,
    }
}
record! {
    /// A decoder-only transformer.
    Model {
        /// Model family, which determines tensor names and file layout in the Hugging Face format.
        family: Family,
        /// Vocabulary size in tokens.
        vocab_size: usize,
        /// Width of the residual stream, in elements.
        hidden_size: usize,
        /// Width of the feed-forward layers, in elements.
        intermediate_size: usize,
        /// Number of blocks.
        layers: usize,
        /// Query heads.
        heads: usize,
        /// Key and value heads; divides `heads`.
        kv_heads: usize,
        /// Elements of one head.
        head_dim: usize,
        /// Tokens of one training sequence.
        sequence_length: usize,
        /// Norm before attention, feed-forward and head.
        norm: Norm,
        /// Activation between the feed-forward layers.
        activation: Activation,
        /// Linear layers of the blocks that have biases.
        biases: Biases,
        /// Positional encoding.
        positions: Positions,
        /// Whether attention and feed-forward read the same input (GPT-NeoX).
        parallel_residual: bool,
        /// Whether the head shares the weights of the embedding.
        tied_embeddings: bool,
        /// Standard deviation of fresh weights; projections into the residual stream use it over sqrt(2 *
        /// layers).
        initializer_range: f64,
        /// Directory of Hugging Face safetensors to start from; null for fresh weights from `data.seed`.
        #[serde(deserialize_with = "deserialize_nullable")]
        weights: Option<String>,
        /// Low-rank adapters; null to train all weights.
        #[serde(deserialize_with = "deserialize_nullable")]
        adapter: Option<Adapter>,
    }
}
choice! {
    /// A model family.
    Family {
        /// `model.layers.0.self_attn.q_proj.weight` …; also Mistral.
        Llama,
        /// `h.0.attn.c_attn.weight` …, stored transposed.
        Gpt2,
        /// `gpt_neox.layers.0.attention.query_key_value.weight` …, heads interleaved.
        GptNeox,
    }
}
record! {
    /// A norm.
    Norm {
        /// Kind of norm.
        kind: NormKind,
        /// Added to the variance; no unit.
        eps: f64,
    }
}
choice! {
    /// Kind of norm.
    NormKind {
        /// Mean and variance, weight and bias.
        Layer,
        /// Root mean square, weight only.
        Rms,
    }
}
choice! {
    /// Activation function.
    Activation {
        /// silu(gate) * up.
        Swiglu,
        /// Exact GELU.
        Gelu,
        /// Tanh approximation of GELU.
        GeluTanh,
    }
}
choice! {
    /// Linear layers that have biases.
    Biases {
        /// No linear layer has a bias.
        None,
        /// Every linear layer of the blocks has a bias; the head never has one.
        All,
    }
}
record! {
    /// Positional encoding.
    Positions {
        /// Kind of positional encoding.
        kind: PositionKind,
        /// Base of the rotary wavelengths; null for learned positions.
        #[serde(deserialize_with = "deserialize_nullable")]
        theta: Option<f64>,
        /// Fraction of each head that is rotated, 0 to 1; null for learned positions.
        #[serde(deserialize_with = "deserialize_nullable")]
        fraction: Option<f64>,
        /// Scaling of rotary positions; null for none.
        #[serde(deserialize_with = "deserialize_nullable")]
        scaling: Option<Scaling>,
    }
}
record! {
    /// Scaling of rotary positions, following Hugging Face's `rope_type`.
    Scaling {
        /// Method of scaling.
        kind: ScalingKind,
        /// Factor over the original length.
        factor: f64,
        /// Wavelengths longer than the original length over this are scaled fully; null except for `llama3`.
        #[serde(deserialize_with = "deserialize_nullable")]
        low_frequency_factor: Option<f64>,
        /// Wavelengths shorter than the original length over this are unchanged; null except for `llama3`.
        #[serde(deserialize_with = "deserialize_nullable")]
        high_frequency_factor: Option<f64>,
        /// Original context length in tokens; null for `linear`.
        #[serde(deserialize_with = "deserialize_nullable")]
        original_positions: Option<usize>,
    }
}
choice! {
    /// Method of scaling positions.
    ScalingKind {
        /// Scales every wavelength by the factor.
        Linear,
        /// Raises the base for sequences longer than the original.
        Dynamic,
        /// Scales long wavelengths by the factor, short ones not, and interpolates in between (Llama 3.1).
        Llama3,
    }
}
choice! {
    /// Kind of positional encoding.
    PositionKind {
        /// A table with one row per position.
        Learned,
        /// Rotation of queries and keys.
        Rotary,
    }
}
record! {
    /// Low-rank adapters.
    Adapter {
        /// `lora`.
        kind: String,
        /// Rank of the low-rank factors.
        rank: usize,
        /// Scale; the product is multiplied by alpha / rank.
        alpha: f64,
        /// Dropout of the adapter's inputs, 0 to 1.
        dropout: f64,
        /// Modules with an adapter, by their names in Hugging Face's model: `q_proj`, `attn.c_proj` …;
        /// `all-linear`: every linear layer of the blocks.
        targets: Vec<String>,
    }
}
record! {
    /// Number formats; the master weights and optimizer states are always f32.
    Precision {
        /// Format of parameters and activations in the blocks.
        compute: Format,
        /// Format of gradient reductions between ranks.
        reduce: Format,
    }
}
choice! {
    /// A number format.
    Format {
        /// 4 bytes.
        F32,
        /// 2 bytes. On CPU ranks emulated by rounding: matrices and stored activations are bf16, products
        /// accumulate in f32; norm weights, biases and the residual stream are f32.
        Bf16,
    }
}
record! {
    /// Activation recomputation, prefetching and offloading.
    Memory {
        /// `block`: store only each block's input and recompute the block in the backward pass.
        recompute: Recompute,
        /// Units gathered ahead of use.
        prefetch: usize,
        /// Free the blocks' parameters after the forward pass and gather them again for the backward pass.
        reshard_after_forward: bool,
        /// Placement of master weights and optimizer states.
        offload: Offload,
    }
}
choice! {
    /// Activations recomputed in the backward pass.
    Recompute {
        /// Recompute nothing.
        None,
        /// All activations of a block.
        Block,
    }
}
choice! {
    /// Placement of optimizer states.
    Offload {
        /// In the same memory as the parameters.
        None,
        /// In host memory.
        Cpu,
    }
}
record! {
    /// Sequences per step: micro * accumulation * ranks = global_sequences.
    Batch {
        /// Micro-batch size: sequences per rank and pass.
        micro: usize,
        /// Gradient accumulation: passes per update.
        accumulation: usize,
        /// Global batch size: sequences per update, over all ranks.
        global_sequences: usize,
    }
}
record! {
    /// AdamW; weight decay applies to matrices, not to vectors.
    Optimizer {
        /// Peak learning rate, per step.
        learning_rate: f64,
        /// Decay of the first moment, 0 to 1.
        beta1: f64,
        /// Decay of the second moment, 0 to 1.
        beta2: f64,
        /// Added to the root of the second moment; no unit.
        eps: f64,
        /// Decoupled weight decay, multiplied by the learning rate.
        weight_decay: f64,
        /// Maximum norm of the whole gradient; null for no clipping.
        #[serde(deserialize_with = "deserialize_nullable")]
        clip_norm: Option<f64>,
    }
}
record! {
    /// Learning rate over optimizer steps, counted from 0.
    Schedule {
        /// Shape after warm-up.
        kind: ScheduleKind,
        /// Warm-up steps: step k of them uses (k + 1) / warmup_steps of the peak rate.
        warmup_steps: usize,
        /// Steps of the whole run.
        steps: usize,
        /// Final learning rate of linear and cosine schedules, per step; at most the peak rate, 0 for
        /// constant.
        minimum_learning_rate: f64,
    }
}
choice! {
    /// Shape after warm-up.
    ScheduleKind {
        /// The peak rate.
        Constant,
        /// Linear decay to the minimum.
        Linear,
        /// Cosine decay to the minimum.
        Cosine,
    }
}
record! {
    /// Token shards: directories written by `trainc data pack`.
    Data {
        /// Directory of the training data, with `index.json`.
        train: String,
        /// Directory of the validation data; null for none.
        #[serde(deserialize_with = "deserialize_nullable")]
        validation: Option<String>,
        /// Seed of the data order and of fresh weights.
        seed: u64,
        /// Passes over the data; null if only `schedule.steps` limits the run.
        #[serde(deserialize_with = "deserialize_nullable")]
        epochs: Option<u64>,
        /// Whether each epoch has a new order, derived from the seed.
        shuffle: bool,
        /// Whether attention is limited to the document.
        document_mask: bool,
    }
}
record! {
    /// Saving and resuming.
    Checkpoint {
        /// Checkpoint directory; must be shared by all hosts if a shard group spans hosts.
        directory: String,
        /// Seconds between saves; null for none by time.
        #[serde(deserialize_with = "deserialize_nullable")]
        every_seconds: Option<f64>,
        /// Optimizer steps between saves; null for none by steps.
        #[serde(deserialize_with = "deserialize_nullable")]
        every_steps: Option<usize>,
        /// Number of complete checkpoints to keep; at least 1.
        keep: usize,
        /// Seconds between SIGTERM and the termination of the machine.
        grace_seconds: f64,
        /// `auto`: resume from the newest checkpoint, if any; `never`; or the path to start from. A restarted
        /// run resumes from its own newest checkpoint that started from that path.
        resume: String,
        /// The run ends when saves fail and no checkpoint is younger than this many intervals, at least a
        /// minute.
        #[serde(default = "default_max_age_intervals")]
        #[cfg_attr(test, schemars(range(min = 1, max = 1000)))]
        max_age_intervals: u32,
        /// Resume with other data, another seed, batch or schedule: weights and moments are kept, and the
        /// order of the data starts again.
        #[serde(default)]
        accept_changes: bool,
    }
}
record! {
    /// Output paths.
    Output {
        /// Directory for the trained weights.
        model: String,
        /// Directory of `metrics.jsonl`.
        data: String,
        /// File for the reason of a failed run.
        failure: String,
    }
}
record! {
    /// Intervals of log lines and evaluations.
    Log {
        /// Optimizer steps between lines.
        every_steps: usize,
        /// Optimizer steps between evaluations; null for none.
        #[serde(deserialize_with = "deserialize_nullable")]
        evaluate_every_steps: Option<usize>,
    }
}
record! {
    /// Communication between ranks.
    Communication {
        /// Transport.
        backend: Backend,
        /// TCP port on the first host.
        rendezvous_port: u16,
        /// Seconds until all ranks must have joined.
        join_seconds: f64,
        /// Seconds without a heartbeat after which a rank counts as dead; the others end within ten more
        /// seconds.
        peer_dead_seconds: f64,
        /// Timeout of one collective in seconds.
        collective_seconds: f64,
        /// Environment variables set before a transport is loaded.
        #[cfg_attr(test, schemars(extend("propertyNames" = {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"})))]
        environment: BTreeMap<String, String>,
    }
}
choice! {
    /// Transport.
    Backend {
        /// Selected according to the cluster.
        Auto,
        /// Shared memory on one host.
        SharedMemory,
        /// NCCL on GPUs.
        Nccl,
    }
}
record! {
    /// Stop conditions.
    Limits {
        /// Seconds after which the run saves and stops with code 75; null for none.
        #[serde(deserialize_with = "deserialize_nullable")]
        max_seconds: Option<f64>,
        /// Maximum loss in nats per token, above which the run fails; null to fail only if it is not finite.
        #[serde(deserialize_with = "deserialize_nullable")]
        max_loss: Option<f64>,
    }
}

record! {
    /// Kernels of GPUs, and what they are compared with.
    Gpu {
        /// Kernels of attention.
        attention: AttentionKernels,
        /// What follows a failed self-check.
        self_check: SelfCheck,
        /// Dense bf16 peak of one GPU in FLOP/s, for `mfu` in the log; null if unknown.
        #[serde(deserialize_with = "deserialize_nullable")]
        #[cfg_attr(test, schemars(extend("exclusiveMinimum" = 0)))]
        peak_flops: Option<f64>,
        /// Bandwidth of a host's network in bytes per second, which the self-check expects of NCCL between
        /// hosts; null if unknown.
        #[serde(deserialize_with = "deserialize_nullable")]
        #[cfg_attr(test, schemars(extend("exclusiveMinimum" = 0)))]
        network_bytes_per_s: Option<f64>,
    }
}
impl Default for Gpu {
    fn default() -> Self {
        Self {
            attention: AttentionKernels::Auto,
            self_check: SelfCheck::Enforce,
            peak_flops: None,
            network_bytes_per_s: None,
        }
    }
}
choice! {
    /// Kernels of attention on GPUs.
    AttentionKernels {
        /// cuDNN's on Hopper and newer where they support the head and no documents are masked, else flash
        /// attention.
        Auto,
        /// PyTorch's flash attention.
        Flash,
        /// cuDNN's; documents are masked by flash attention.
        Cudnn,
    }
}
choice! {
    /// What follows a failed self-check.
    SelfCheck {
        /// The run ends.
        Enforce,
        /// A warning.
        Warn,
    }
}

/// Maximum number of ranks on one host.
const MOST_RANKS: usize = 4_096;

/// Fails with all problems, if there are any.
fn refuse(problems: &[check::Problem]) -> Result<(), Failure> {
    if problems.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = problems.iter().map(|p| format!("`{}`: {}", p.path, p.message)).collect();
    Err(Failure::new(Code::Config, format!("config: {}", list.join("; "))))
}

impl Config {
    /// Reads and checks a config.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let config: Self = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            Failure::new(Code::Config, format!("config: `{}`: {}", error.path(), error.inner()))
        })?;
        reader.end().map_err(|error| Failure::new(Code::Config, format!("config: {error}")))?;
        refuse(&check::check(&config))?;
        Ok(config)
    }

    /// Fails if the GPUs of the config cannot train it.
    pub fn check_gpus(&self) -> Result<(), Failure> {
        if self.uses_gpus() { refuse(&check::check_gpus(self)) } else { Ok(()) }
    }

    /// Returns the world size.
    pub fn ranks(&self) -> usize {
        self.mesh.shard_degree * self.mesh.data_parallel_replicas
    }

    /// Returns whether the ranks train on GPUs.
    pub fn uses_gpus(&self) -> bool {
        self.cluster.gpus_per_node > 0
    }

    /// Returns the same run on `ranks` ranks of this host. The global batch size is unchanged; the shard
    /// degree becomes the largest divisor of `ranks` up to the previous one, and accumulation makes up the
    /// rest.
    pub fn on_ranks(mut self, ranks: usize) -> Result<Self, Failure> {
        if ranks > MOST_RANKS {
            return Err(Failure::new(
                Code::Usage,
                format!("{ranks} ranks exceed the maximum of {MOST_RANKS}"),
            ));
        }
        let divisor = (1..=self.mesh.shard_degree.min(ranks)).rev().find(|d| ranks.is_multiple_of(*d));
        let Some(shard_degree) = divisor else {
            return Err(Failure::new(Code::Usage, "at least one rank is required"));
        };
        let per_pass = self.batch.micro * ranks;
        if !self.batch.global_sequences.is_multiple_of(per_pass) {
            return Err(Failure::new(
                Code::Config,
                format!(
                    "config: `batch.global_sequences`: {} is not divisible by {} ({} ranks x \
                        micro-batch size {})",
                    self.batch.global_sequences, per_pass, ranks, self.batch.micro
                ),
            ));
        }
        self.mesh.shard_degree = shard_degree;
        self.mesh.data_parallel_replicas = ranks / shard_degree;
        self.batch.accumulation = self.batch.global_sequences / per_pass;
        "local".clone_into(&mut self.cluster.instance);
        self.cluster.nodes = 1;
        self.cluster.gpus_per_node = 0;
        self.communication.backend = Backend::Auto;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_schema_is_that_of_the_types() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/worker.v1.json");
        trainc_testing::json_schema::assert_generated::<super::Config>(&path);
    }
}
