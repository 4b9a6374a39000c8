//! In: the text of a config. Out: a config that was checked as far as can be without touching a machine, or all of its
//! problems with their JSON paths. The schema is `schemas/worker.v1.json`.

pub mod check;
mod differences;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use differences::differences;

use crate::exit::{Code, Failure};

/// The form that this binary reads.
pub const SCHEMA: &str = "trainc.worker/v1";

/// An optional field is null, never absent.
fn present<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(reader: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(reader)
}

macro_rules! record {
    ($(#[$m:meta])* $name:ident { $($(#[$f:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$m])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name { $($(#[$f])* pub $field: $type,)* }
    };
}

macro_rules! choice {
    ($(#[$m:meta])* $name:ident { $($(#[$f:meta])* $variant:ident,)* }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name { $($(#[$f])* $variant,)* }
    };
}

record! {
    /// All that a run is.
    Config {
        /// `trainc.worker/v1`.
        schema: String,
        /// Name of the job.
        job: String,
        /// sha256 of the plan, hexadecimal; every rank must have the same, and checkpoints keep it.
        digest: String,
        /// Where it runs.
        cluster: Cluster,
        /// How ranks share the work.
        mesh: Mesh,
        /// The network.
        model: Model,
        /// Number formats.
        precision: Precision,
        /// What is kept and what is made again.
        memory: Memory,
        /// Sequences per step.
        batch: Batch,
        /// AdamW.
        optimizer: Optimizer,
        /// Learning rate over steps.
        schedule: Schedule,
        /// Token shards.
        data: Data,
        /// Saving and resuming.
        checkpoint: Checkpoint,
        /// Where results go.
        output: Output,
        /// What is printed when.
        log: Log,
        /// Between ranks.
        communication: Communication,
        /// When to stop.
        limits: Limits,
    }
}
record! {
    /// Where it runs.
    Cluster {
        /// Instance type, or `local`.
        instance: String,
        /// Hosts.
        nodes: usize,
        /// GPUs of each host; 0: the ranks are CPU processes.
        gpus_per_node: usize,
    }
}
record! {
    /// Ranks = shard_degree * data_parallel_replicas; rank = replica * shard_degree + shard.
    Mesh {
        /// Ranks that share one copy of parameters, gradients and optimizer states.
        shard_degree: usize,
        /// Copies.
        data_parallel_replicas: usize,
    }
}
record! {
    /// A decoder-only transformer.
    Model {
        /// Names of tensors and layout of their files, when read from or written for Hugging Face.
        family: Family,
        /// Tokens of the vocabulary.
        vocab_size: usize,
        /// Width of the residual stream, in elements.
        hidden_size: usize,
        /// Width inside the feed-forward part, in elements.
        intermediate_size: usize,
        /// Blocks.
        layers: usize,
        /// Query heads.
        heads: usize,
        /// Key and value heads; divides `heads`.
        kv_heads: usize,
        /// Elements of one head.
        head_dim: usize,
        /// Tokens of one training sequence.
        sequence_length: usize,
        /// The norms, before attention and feed-forward and before the head.
        norm: Norm,
        /// Between the two products of the feed-forward part.
        activation: Activation,
        /// Which products inside the blocks have biases.
        biases: Biases,
        /// How order enters.
        positions: Positions,
        /// Attention and feed-forward read the same input (GPT-NeoX).
        parallel_residual: bool,
        /// The head is the embedding.
        tied_embeddings: bool,
        /// Standard deviation of fresh weights; projections into the residual stream get it over sqrt(2 * layers).
        initializer_range: f64,
        /// Directory of Hugging Face safetensors to begin from; null: fresh weights from `data.seed`.
        #[serde(deserialize_with = "present")]
        weights: Option<String>,
        /// Low-rank adapters; null: every weight is trained.
        #[serde(deserialize_with = "present")]
        adapter: Option<Adapter>,
    }
}
choice! {
    /// A family of tensor names.
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
        /// Which.
        kind: NormKind,
        /// Added to the variance; no unit.
        eps: f64,
    }
}
choice! {
    /// Which norm.
    NormKind {
        /// Mean and variance, weight and bias.
        Layer,
        /// Root mean square, weight only.
        Rms,
    }
}
choice! {
    /// Which activation.
    Activation {
        /// silu(gate) * up.
        Swiglu,
        /// Exact.
        Gelu,
        /// Its tanh approximation.
        GeluTanh,
    }
}
choice! {
    /// Which biases.
    Biases {
        /// No product has one.
        None,
        /// Every product of the blocks has one; the head never.
        All,
    }
}
record! {
    /// How order enters.
    Positions {
        /// Which way.
        kind: PositionKind,
        /// Base of the rotary wavelengths; null for learned positions.
        #[serde(deserialize_with = "present")]
        theta: Option<f64>,
        /// Part of each head that is rotated, 0 to 1; null for learned positions.
        #[serde(deserialize_with = "present")]
        fraction: Option<f64>,
        /// Stretching of rotary positions; null: none.
        #[serde(deserialize_with = "present")]
        scaling: Option<Scaling>,
    }
}
record! {
    /// Stretching of rotary positions, as Hugging Face's `rope_type` has it.
    Scaling {
        /// Which way.
        kind: ScalingKind,
        /// How many times the original length.
        factor: f64,
        /// Wavelengths longer than the original length over this are stretched whole; null but for `llama3`.
        #[serde(deserialize_with = "present")]
        low_frequency_factor: Option<f64>,
        /// Wavelengths shorter than the original length over this stay; null but for `llama3`.
        #[serde(deserialize_with = "present")]
        high_frequency_factor: Option<f64>,
        /// Tokens that the model was first trained on; null for `linear`.
        #[serde(deserialize_with = "present")]
        original_positions: Option<usize>,
    }
}
choice! {
    /// Which way positions are stretched.
    ScalingKind {
        /// Every wavelength by the factor.
        Linear,
        /// The base grows with sequences longer than the original.
        Dynamic,
        /// Long wavelengths by the factor, short ones not, between them by degrees (Llama 3.1).
        Llama3,
    }
}
choice! {
    /// Which way.
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
        /// Columns of the low-rank factors.
        rank: usize,
        /// Scale; the product is multiplied by alpha / rank.
        alpha: f64,
        /// Part of the adapter's inputs set to 0, 0 to 1.
        dropout: f64,
        /// Modules that get one, by their names in Hugging Face's model: `q_proj`, `attn.c_proj` …; `all-linear`: every
        /// product of the blocks.
        targets: Vec<String>,
    }
}
record! {
    /// Number formats; the master weights and optimizer states are always f32.
    Precision {
        /// Parameters and activations in the blocks.
        compute: Format,
        /// Sums of gradients between ranks.
        reduce: Format,
    }
}
choice! {
    /// A number format.
    Format {
        /// 4 bytes.
        F32,
        /// 2 bytes; on CPU ranks emulated by rounding: matrices and what blocks store are bf16, products accumulate in
        /// f32; norm weights, biases and the residual stream are f32.
        Bf16,
    }
}
record! {
    /// What is kept and what is made again.
    Memory {
        /// `block`: keep only each block's input and run it again in backward.
        recompute: Recompute,
        /// Units gathered ahead of use.
        prefetch: usize,
        /// Free the blocks' parameters after forward and gather them again for backward.
        reshard_after_forward: bool,
        /// Where master weights and optimizer states stay.
        offload: Offload,
    }
}
choice! {
    /// What backward makes again.
    Recompute {
        /// Nothing.
        None,
        /// All inside a block.
        Block,
    }
}
choice! {
    /// Where states stay.
    Offload {
        /// Beside the parameters.
        None,
        /// In host memory.
        Cpu,
    }
}
record! {
    /// Sequences per step: micro * accumulation * ranks = global_sequences.
    Batch {
        /// Sequences of one rank in one pass.
        micro: usize,
        /// Passes before each update.
        accumulation: usize,
        /// Sequences of one update, over all ranks.
        global_sequences: usize,
    }
}
record! {
    /// AdamW; matrices decay, vectors do not.
    Optimizer {
        /// Highest learning rate, per step.
        learning_rate: f64,
        /// Decay of the mean of gradients, 0 to 1.
        beta1: f64,
        /// Decay of the mean of their squares, 0 to 1.
        beta2: f64,
        /// Added to the root; no unit.
        eps: f64,
        /// Decoupled, times learning rate.
        weight_decay: f64,
        /// Bound of the gradient's global norm; null: none.
        #[serde(deserialize_with = "present")]
        clip_norm: Option<f64>,
    }
}
record! {
    /// Learning rate over optimizer steps, counted from 0.
    Schedule {
        /// Shape after warm-up.
        kind: ScheduleKind,
        /// Steps of warm-up: step k of them runs at (k + 1) / warmup_steps of the highest rate.
        warmup_steps: usize,
        /// Steps of the whole run.
        steps: usize,
        /// Learning rate at the end of linear and cosine, per step; at most the highest, and 0 for constant.
        minimum_learning_rate: f64,
    }
}
choice! {
    /// Shape after warm-up.
    ScheduleKind {
        /// The highest rate.
        Constant,
        /// A line to the minimum.
        Linear,
        /// Half a cosine to the minimum.
        Cosine,
    }
}
record! {
    /// Token shards: directories as `trainc data pack` writes them.
    Data {
        /// Directory with `index.json`.
        train: String,
        /// The same for evaluation; null: none.
        #[serde(deserialize_with = "present")]
        validation: Option<String>,
        /// Of the order and of fresh weights.
        seed: u64,
        /// Passes over the data; null: `schedule.steps` decide.
        #[serde(deserialize_with = "present")]
        epochs: Option<u64>,
        /// A new order each epoch, by seed.
        shuffle: bool,
        /// Attention stays inside a document.
        document_mask: bool,
    }
}
record! {
    /// Saving and resuming.
    Checkpoint {
        /// Directory; one that all hosts share where a shard group spans hosts.
        directory: String,
        /// Seconds between saves; null: none by time.
        #[serde(deserialize_with = "present")]
        every_seconds: Option<f64>,
        /// Optimizer steps between saves; null: none by steps.
        #[serde(deserialize_with = "present")]
        every_steps: Option<usize>,
        /// Complete checkpoints kept; at least 1.
        keep: usize,
        /// Seconds between SIGTERM and the end of the machine.
        grace_seconds: f64,
        /// `auto`: the newest if there is one; `never`; or a path, where the run begins: started again, it goes on from
        /// its own newest that came from there.
        resume: String,
    }
}
record! {
    /// Where results go.
    Output {
        /// Directory of the trained weights.
        model: String,
        /// Directory of `metrics.jsonl`.
        data: String,
        /// File that says why a run failed.
        failure: String,
    }
}
record! {
    /// What is printed when.
    Log {
        /// Optimizer steps between lines.
        every_steps: usize,
        /// Optimizer steps between evaluations; null: none.
        #[serde(deserialize_with = "present")]
        evaluate_every_steps: Option<usize>,
    }
}
record! {
    /// Between ranks.
    Communication {
        /// Transport.
        backend: Backend,
        /// TCP port of the first host.
        rendezvous_port: u16,
        /// Seconds for all ranks to appear.
        join_seconds: f64,
        /// Seconds without a sign of life after which a rank counts as dead; the others have ended ten seconds later at
        /// most.
        peer_dead_seconds: f64,
        /// Seconds that one collective may take.
        collective_seconds: f64,
        /// Environment variables set before a transport is loaded.
        environment: BTreeMap<String, String>,
    }
}
choice! {
    /// Transport.
    Backend {
        /// What fits the cluster.
        Auto,
        /// One host.
        SharedMemory,
        /// GPUs.
        Nccl,
    }
}
record! {
    /// When to stop.
    Limits {
        /// Seconds after which the run saves and stops with code 75; null: none.
        #[serde(deserialize_with = "present")]
        max_seconds: Option<f64>,
        /// A loss over this is an error, in nats per token; null: only what is not finite.
        #[serde(deserialize_with = "present")]
        max_loss: Option<f64>,
    }
}

/// Ranks of one host at most: each is a process.
const MOST_RANKS: usize = 4_096;

impl Config {
    /// Reads and checks a config.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let config: Self = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            Failure::new(Code::Config, format!("config: `{}`: {}", error.path(), error.inner()))
        })?;
        reader.end().map_err(|error| Failure::new(Code::Config, format!("config: {error}")))?;
        let problems = check::check(&config);
        if problems.is_empty() {
            return Ok(config);
        }
        let list: Vec<String> = problems.iter().map(|p| format!("`{}`: {}", p.path, p.message)).collect();
        Err(Failure::new(Code::Config, format!("config: {}", list.join("; "))))
    }

    /// Ranks.
    pub fn ranks(&self) -> usize {
        self.mesh.shard_degree * self.mesh.data_parallel_replicas
    }

    /// The same run on `ranks` ranks of this host: the global batch stays; the shard degree becomes the largest divisor
    /// of `ranks` up to what it was, and accumulation takes up the rest.
    pub fn on_ranks(mut self, ranks: usize) -> Result<Self, Failure> {
        if ranks > MOST_RANKS {
            return Err(Failure::new(Code::Usage, format!("{ranks} ranks: at most {MOST_RANKS}")));
        }
        let divisor = (1..=self.mesh.shard_degree.min(ranks)).rev().find(|d| ranks.is_multiple_of(*d));
        let Some(shard_degree) = divisor else {
            return Err(Failure::new(Code::Usage, "at least one rank is needed"));
        };
        let per_pass = self.batch.micro * ranks;
        if !self.batch.global_sequences.is_multiple_of(per_pass) {
            return Err(Failure::new(
                Code::Config,
                format!(
                    "config: `batch.global_sequences`: {} does not divide by {} ({} ranks of micro batch {})",
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
