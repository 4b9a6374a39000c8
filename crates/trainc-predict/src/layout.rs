//! The typed input of the cost model: one layout of one model on one cluster. Plain data, units in the names.

pub use super::code::Code;
pub use super::gathering::{Gathering, Prefetch};
pub use super::gpu::GpuKind;
pub use super::worker::WorkerSettings;
use serde::Deserialize;
pub use trainc_ir::engine::{Sharding, System};

/// Everything that memory and speed depend on.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// Model.
    pub model: Model,
    /// Hardware.
    pub hardware: Hardware,
    /// Training system.
    pub system: System,
    /// Parallel degrees.
    pub degrees: Degrees,
    /// Order of the axes over ascending ranks, which determines the groups that cross nodes.
    pub order: super::Order,
    /// States sharded over `degrees.shard`.
    pub sharding: Sharding,
    /// The work of a step.
    pub work: Work,
    /// Bytes and arithmetic of the numbers.
    pub precision: Precision,
    /// Activation recomputation.
    pub recompute: Recompute,
    /// Attention implementation.
    pub attention: Attention,
    /// Version of the flash kernels.
    pub flash: FlashKernel,
    /// Computation of the loss, if it is not that of the code.
    pub loss: Option<Loss>,
    /// True if a compiler fused the elementwise operations (`torch.compile`, hand-written kernels).
    pub compiled: bool,
    /// True if the tensors between the tensor-parallel matrices are split along the sequence.
    pub sequence_parallel: bool,
    /// State offloaded to host memory.
    pub offload: Offload,
    /// Trained adapter with frozen weights.
    pub lora: Option<Lora>,
    /// Quantisation of frozen weights.
    pub quantisation: Option<Quantisation>,
    /// Moments of the optimizer.
    pub moments: Moments,
    /// True if SMDDP runs the collectives instead of NCCL.
    pub smddp: bool,
    /// Implementation of the model, which determines its kernels and the tensors that it keeps for the
    /// backward pass.
    pub code: Code,
    /// True if the implementation is that of [`Self::code`]; false if it has a name that no table knows, and
    /// `code` is the engine's default.
    pub code_is_known: bool,
    /// Bytes of an element of a gradient when it is reduced and stored, if it is not that of the engine.
    pub gradient_bytes: Option<f64>,
    /// True if the weights of linear layers are kept in 8 bit alone, without a 16-bit copy (`fp8_params` of
    /// Megatron-Core).
    pub narrow_weights: bool,
    /// Overlap of tensor-parallel collectives with the products that they belong to.
    pub tensor_overlap: TensorOverlap,
    /// Computation of a layer's experts.
    pub expert_kernel: ExpertKernel,
    /// Transport of tokens to their experts.
    pub dispatcher: Dispatcher,
    /// True if a tensor group splits each expert's matrices; else each of its ranks has whole experts.
    pub splits_experts: bool,
    /// True if a context group exchanges heads for sequence parts (DeepSpeed-Ulysses) instead of passing
    /// blocks in a ring.
    pub ulysses: bool,
    /// True if the optimizer's step makes temporary copies of the tensors that it updates (torch's `foreach`
    /// kernels).
    pub optimizer_copies: bool,
    /// FSDP: true if a unit of frozen weights is freed after its backward pass ([`Code::frees_frozen`]).
    pub frees_frozen: bool,
    /// FSDP: true if the whole model is one unit, gathered before all computation and scattered after it.
    pub one_unit: bool,
    /// True if the router is forced to send each expert as many tokens, as in published benchmarks.
    pub balanced_experts: bool,
    /// Bytes read per step, if known.
    pub input: Option<super::Input>,
    /// Limits on gathering and reducing.
    pub gathering: Gathering,
    /// Settings of engine `worker`; its defaults under other engines.
    pub worker: WorkerSettings,
    /// Image or software release, if known; compared with that of measured runs.
    pub release: Option<std::sync::Arc<str>>,
}

/// A model's dimensions. Counts, never bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// All parameters.
    pub parameters: f64,
    /// Parameters of one layer.
    pub layer_parameters: f64,
    /// Parameters outside the layers: embeddings, last norm, head.
    pub outer_parameters: f64,
    /// Parameters of the experts, a part of `parameters`; 0 for a dense model.
    pub expert_parameters: f64,
    /// Parameters that one token uses.
    pub active_parameters: f64,
    /// Weights of the matrices inside the layers, which quantisation applies to.
    pub linear_parameters: f64,
    /// Layers of all stacks.
    pub layers: f64,
    /// Channels of the residual stream.
    pub hidden: f64,
    /// Query heads.
    pub heads: f64,
    /// Key and value heads.
    pub kv_heads: f64,
    /// Channels of one head.
    pub head_dim: f64,
    /// Channels inside the feed-forward part (of one expert).
    pub ffn: f64,
    /// Feed-forward matrices: 2, or 3 if gated.
    pub ffn_matrices: f64,
    /// Rows of the head; 0 if there is no head as wide as the vocabulary (classifiers).
    pub head_vocab: f64,
    /// Rows of the token embedding.
    pub vocab: f64,
    /// Experts of a layer; 0 for a dense model.
    pub experts: f64,
    /// Experts that see a token; 0 for a dense model.
    pub active_experts: f64,
    /// True if attention looks only backwards.
    pub causal: bool,
    /// True if dropout masks are kept.
    pub dropout: bool,
    /// True if attention and feed-forward read the same input.
    pub parallel_blocks: bool,
    /// True if the head shares the embedding's weights.
    pub tied: bool,
    /// True if norms are root-mean-square norms.
    pub rms_norm: bool,
    /// True if GELU is made of separate operations (`gelu_new` of Hugging Face), each of which keeps a
    /// tensor.
    pub composite_gelu: bool,
    /// What the layers keep for the backward pass, if they are not dense layers of the dimensions above.
    pub activations: Option<super::LayerActivations>,
}

/// The cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Hardware {
    /// GPU type, if it has constants.
    pub gpu: Option<GpuKind>,
    /// Memory of one GPU, bytes.
    pub memory_bytes: Option<f64>,
    /// Share of the memory that a process can use, if it was measured.
    pub usable_share: Option<f64>,
    /// Dense 16-bit peak of one GPU, FLOP/s.
    pub peak_flops: Option<f64>,
    /// Memory bandwidth of one GPU, bytes/s.
    pub memory_bytes_per_second: Option<f64>,
    /// GPUs per node.
    pub gpus_per_node: f64,
    /// Number of nodes.
    pub nodes: f64,
    /// Bandwidth between GPUs of a node, bytes/s of one GPU, both directions together as in data sheets; 0 if
    /// only PCIe.
    pub intra_bytes_per_second: Option<f64>,
    /// Bandwidth between nodes, bytes/s of one node in one direction.
    pub inter_bytes_per_second: Option<f64>,
    /// Host memory of a node, bytes.
    pub host_memory_bytes: Option<f64>,
    /// True if nodes communicate over EFA.
    pub efa: bool,
    /// GPUs that NVLink connects, if they are those of several nodes (72 in a GB200 NVL72); otherwise those
    /// of a node.
    pub nvlink_gpus: Option<f64>,
}

impl Hardware {
    /// Returns the total number of GPUs.
    pub fn gpus(&self) -> f64 {
        self.gpus_per_node * self.nodes
    }

    /// Returns the number of GPUs that NVLink connects: at least those of a node.
    pub fn gpus_per_domain(&self) -> f64 {
        self.nvlink_gpus.unwrap_or(0.0).max(self.gpus_per_node)
    }
}

/// Degrees of the axes; replicas × shard × tensor × pipeline is the number of ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Degrees {
    /// Complete copies of the states.
    pub replicas: f64,
    /// Ranks over which one copy is sharded.
    pub shard: f64,
    /// Ranks over which each layer is split.
    pub tensor: f64,
    /// Stages.
    pub pipeline: f64,
    /// Chunks of layers on each stage (interleaved schedules); 1 without interleaving.
    pub virtual_stages: f64,
    /// Parts of the sequence, a part of the shard axis.
    pub context: f64,
    /// Parts of the experts, a part of the shard axis.
    pub expert: f64,
}

impl Degrees {
    /// Returns the total number of ranks.
    pub fn ranks(&self) -> f64 {
        self.replicas * self.shard * self.tensor * self.pipeline
    }

    /// Returns the number of ranks that hold the same part of a model and process different data (or parts of
    /// a sequence).
    pub fn data_parallel_ranks(&self) -> f64 {
        self.replicas * self.shard
    }
}

/// Returns true if a Ulysses group of that many ranks gives each of them whole heads: the heads divide among
/// them, and so do the key and value heads, or the ranks among those.
pub fn divides_heads(heads: u64, kv_heads: u64, ranks: u64) -> bool {
    heads.is_multiple_of(ranks)
        && (kv_heads.is_multiple_of(ranks) || kv_heads > 0 && ranks.is_multiple_of(kv_heads))
}

/// The work of an optimizer step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Tokens of a sequence.
    pub sequence_length: f64,
    /// Sequences that a reading rank processes per pass.
    pub micro_batch_size: f64,
    /// Ranks of a tensor group that read their own sequences, all of which the group processes at once: the
    /// tensor degree under SMP v1 without `prescaled-batch`, else 1 (`smp` API, `prescaled_batch`).
    pub tensor_readers: f64,
    /// Forward and backward passes of a replica per step; with a pipeline, the micro-batches that fill it.
    pub passes: f64,
    /// Number of passes into which one batch is split: SMP v1's `microbatches`, else 1.
    pub num_micro_batches: f64,
    /// Micro-batches in flight at the first stage, if the user limits them.
    pub num_active_micro_batches: Option<f64>,
    /// Sequences per step over all replicas.
    pub global_sequences: f64,
}

impl Layout {
    /// Returns the number of tokens that a GPU works on at a time: its part of the sequences of a
    /// micro-batch.
    pub fn tokens_at_once(&self) -> f64 {
        self.work.sequence_length * self.work.sequences_at_once() / self.degrees.context.max(1.0)
    }
}

impl Work {
    /// Returns the number of sequences that pass through one model replica at a time.
    pub fn sequences_at_once(&self) -> f64 {
        self.micro_batch_size * self.tensor_readers
    }
}

/// Numerical precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Precision {
    /// 32-bit throughout.
    Fp32,
    /// 16-bit arithmetic, 32-bit states (mixed precision).
    Mixed {
        /// True for bf16, false for fp16.
        bf16: bool,
    },
    /// Weights, gradients and moments all in 16 bit, no 32-bit copy.
    Pure16 {
        /// True for bf16, false for fp16.
        bf16: bool,
    },
    /// 8-bit matrix products, 16-bit elsewhere.
    Fp8(Fp8Recipe),
}

/// Scaling of 8-bit (or 4-bit) operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fp8Recipe {
    /// One scale per tensor, from the current or an earlier maximum.
    Tensorwise,
    /// One scale per row.
    Rowwise,
    /// One scale per block of 128 × 128 or 1 × 128 elements (DeepSeek-V3).
    Blockwise,
    /// One scale per 32 elements, in hardware (MXFP8).
    Mxfp8,
    /// 4-bit elements with one scale per 16, in hardware (NVFP4).
    Nvfp4,
}

impl Fp8Recipe {
    /// All of them with their names: Transformer Engine calls scales per tensor `delayed` and `current`.
    pub const NAMES: [(&'static str, Self); 7] = [
        ("tensorwise", Self::Tensorwise),
        ("delayed", Self::Tensorwise),
        ("current", Self::Tensorwise),
        ("rowwise", Self::Rowwise),
        ("blockwise", Self::Blockwise),
        ("mxfp8", Self::Mxfp8),
        ("nvfp4", Self::Nvfp4),
    ];

    /// Returns the recipe of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, recipe)| *recipe)
    }

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        Self::NAMES.iter().find(|(_, recipe)| *recipe == self).map_or("", |(name, _)| name)
    }
}

impl Precision {
    /// Returns the peak of matrix products over that of 16 bit: twice in 8 bit, four times in 4 bit (NVIDIA
    /// H100 and B200 data sheets, dense).
    pub fn peak_ratio(self) -> f64 {
        match self {
            Self::Fp8(Fp8Recipe::Nvfp4) => 4.0,
            Self::Fp8(_) => 2.0,
            Self::Fp32 | Self::Mixed { .. } | Self::Pure16 { .. } => 1.0,
        }
    }

    /// Returns the recipe of 8-bit products.
    pub fn fp8_recipe(self) -> Option<Fp8Recipe> {
        match self {
            Self::Fp8(recipe) => Some(recipe),
            _ => None,
        }
    }
}

/// Activation recomputation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Recompute {
    /// No recomputation.
    None,
    /// The attention core (Korthikanti et al. 2022).
    Selective,
    /// Every operation except fused attention and the first of each two matrix products, in order of
    /// execution (torchtitan's `selective`).
    Operations,
    /// A known share of the layers' forward work, between 0 and 1.
    Share(f64),
    /// Every layer.
    Full,
}

/// Attention implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// The score matrix is written to memory.
    Eager,
    /// FlashAttention and similar kernels.
    Flash,
}

/// Versions of FlashAttention's kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlashKernel {
    /// FlashAttention, and PyTorch before 2.2.
    First,
    /// FlashAttention 2, and PyTorch since 2.2.
    Second,
    /// Kernels for Hopper and later: FlashAttention 3, cuDNN.
    Third,
}

/// Overlap of tensor-parallel collectives with products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TensorOverlap {
    /// Each waits for the other.
    None,
    /// Chunks of a collective run with chunks of its product (async tensor parallelism).
    Chunks,
    /// The same in the kernels of Transformer Engine, over buffers that all ranks map (`tp_comm_overlap`).
    UserBuffers,
}

/// Computation of a layer's experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExpertKernel {
    /// One grouped product, or one product after the other without the host waiting.
    Grouped,
    /// A loop in Python over the experts that have tokens.
    Loop,
}

impl ExpertKernel {
    /// Returns the computation of that name in tables.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "loop" => Some(Self::Loop),
            "grouped_mm" | "sonicmoe" => Some(Self::Grouped),
            _ => None,
        }
    }
}

/// Transport of tokens to their experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dispatcher {
    /// All-to-all: a token is sent once to each of its experts.
    AllToAll,
    /// A token is sent once to each node with one of its experts, and is copied there (DeepEP, HybridEP).
    OncePerNode,
}

impl Dispatcher {
    /// Returns the transport of that name in tables.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "alltoall" => Some(Self::AllToAll),
            "deepep" | "hybridep" => Some(Self::OncePerNode),
            _ => None,
        }
    }
}

impl FlashKernel {
    /// Returns the version of a kernel by its name in manifests and tables.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "fa3" | "cudnn" => Some(Self::Third),
            "fa2" | "sdpa" | "flex" => Some(Self::Second),
            _ => None,
        }
    }
}

/// Computations of the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// All logits at once.
    Whole,
    /// Chunks of the sequence, one after another.
    Chunked,
    /// Fused with the head, so that the logits are never stored (Liger's fused linear cross entropy).
    Fused,
    /// Logits split over the tensor group up to the loss.
    Parallel,
}

impl Loss {
    /// Returns the computation of that name in manifests and tables.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "whole" => Some(Self::Whole),
            "chunked" => Some(Self::Chunked),
            "fused" => Some(Self::Fused),
            "parallel" => Some(Self::Parallel),
            _ => None,
        }
    }
}

/// State offloaded to host memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Offload {
    /// Checkpointed activations.
    pub activations: bool,
    /// Number of layers whose activations stay on the GPU when they are offloaded.
    pub horizon: Option<f64>,
    /// Parameters.
    pub parameters: bool,
    /// Optimizer states, with the optimizer's step on the CPU.
    pub optimizer: bool,
    /// Optimizer states in pages that may be moved to host memory.
    pub paged: bool,
    /// True if the offloaded parameters are on disks (NVMe) and not in host memory.
    pub parameters_on_disk: bool,
    /// The same of optimizer states, and of the gradients that go with them.
    pub optimizer_on_disk: bool,
}

/// Trained adapter with frozen weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lora {
    /// Trained parameters.
    pub trainable: f64,
    /// Kind of adapter.
    pub kind: AdapterKind,
}

/// Kinds of adapters, which differ in the tensors that they keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdapterKind {
    /// Two small matrices in parallel with a large one (LoRA).
    LowRank,
    /// Learned prompts in the attention (LLaMA-Adapter).
    Prompt,
    /// Learned scale and bias on every matrix product (LLaMA-Adapter v2).
    Scaled,
}

/// Quantisation of frozen weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantisation {
    /// NF4, with or without quantised scales.
    Nf4 {
        /// Double quantisation.
        double: bool,
    },
    /// 8-bit integers.
    Int8,
}

/// Moments that an optimizer keeps, per parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moments {
    /// Two (Adam, AdamW).
    Two,
    /// Two in 8 bit.
    TwoInt8 {
        /// True if the script keeps those of token embeddings in 32 bit; bitsandbytes itself does not.
        wide_embeddings: bool,
    },
    /// One (SGD with momentum, Lion).
    One,
    /// None (plain SGD).
    Zero,
    /// Row and column means (Adafactor).
    Factored,
}
