//! Edits of a manifest that change its memory need, and the layout after each.

use super::moments;
use crate::layout::{Attention, Hardware, Layout, Quantisation, Recompute, Sharding, System};
use trainc_catalog::instances;

/// One edit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Edit {
    /// `wrap "LAYER"`: FSDP gathers layer by layer instead of the whole model at once.
    Wrap,
    /// `flash-attention #true`.
    FlashAttention,
    /// `strategy "full-shard"`, or the law's word for it.
    FullShard,
    /// `shard-degree N`: the states of a replica over more ranks.
    ShardDegree(u64),
    /// `shard-optimizer-state #true`.
    ShardOptimizerState,
    /// `engine "fsdp"` instead of a complete copy of the model on every rank.
    ShardedEngine,
    /// `tensor-degree N`: each layer over more ranks, and correspondingly fewer data ranks.
    TensorDegree(u64),
    /// `context-degree N`: each sequence over more ranks of the shard group.
    ContextDegree(u64),
    /// `pipeline-degree N`: the layers over more stages, with as many micro-batches as the step has passes.
    PipelineDegree(u64),
    /// `quantize "nf4"` under an adapter.
    Nf4,
    /// A smaller micro-batch, with correspondingly more passes.
    MicroBatch(u64),
    /// `activation-checkpointing #true`.
    Checkpointing,
    /// `offload-activations #true`.
    OffloadActivations,
    /// `offload #true`: parameters and optimizer states.
    OffloadStates,
    /// More nodes for one shard group.
    Nodes(u64),
    /// `cluster "TYPE"`: the same number of nodes of a type with the same number of GPUs, each with more
    /// memory.
    Instance(&'static str),
}

impl Edit {
    /// Returns the rank without a known time: free edits first, edits that cost money last.
    pub(super) fn rank(self) -> u8 {
        match self {
            Self::FlashAttention | Self::Wrap => 0,
            Self::ShardOptimizerState | Self::FullShard => 1,
            Self::ShardDegree(_) => 2,
            Self::MicroBatch(_) => 3,
            Self::Checkpointing => 4,
            Self::ShardedEngine => 5,
            Self::TensorDegree(_) => 6,
            Self::ContextDegree(_) => 7,
            Self::PipelineDegree(_) => 8,
            Self::OffloadActivations => 9,
            Self::OffloadStates => 10,
            Self::Nf4 => 11,
            Self::Nodes(_) => 12,
            Self::Instance(_) => 13,
        }
    }
}

/// Changes that a manifest allows.
#[derive(Clone, Debug, Default)]
pub struct Freedom {
    /// Micro-batch sizes below the present one that the batch arithmetic allows.
    pub micro_batches: Vec<u64>,
    /// Shard degrees above the present one that divide the world.
    pub shard_degrees: Vec<u64>,
    /// Tensor degrees above the present one that the engine supports with the other degrees.
    pub tensor_degrees: Vec<u64>,
    /// The same for context degrees.
    pub context_degrees: Vec<u64>,
    /// The same for numbers of stages.
    pub pipeline_degrees: Vec<u64>,
    /// True if the launcher of the ranks can also start FSDP, and the layers' class is known.
    pub sharded_engine: bool,
    /// True if the law has a strategy that shards everything over all data ranks.
    pub full_shard: bool,
    /// True if the layers' class is known and `wrap` is not written.
    pub wrap: bool,
    /// True if the frozen weights may be stored as NF4.
    pub nf4: bool,
    /// True if the optimizer can update parameters in host memory.
    pub offload_states: bool,
    /// Node counts above the present one, if the shard group is the whole world.
    pub nodes: Vec<u64>,
    /// Instance types with the same number of GPUs that pass every other rule, in ascending order of memory.
    pub instances: Vec<&'static str>,
    /// Those of them whose price is known.
    pub priced: Vec<&'static str>,
}

/// Returns the layout after an edit; `None` if it changes nothing or is impossible.
pub(super) fn apply_edit(layout: &Layout, edit: Edit) -> Option<Layout> {
    let mut new = layout.clone();
    match edit {
        Edit::FlashAttention => {
            let runs_it = matches!(
                layout.system,
                System::Fsdp | System::DeepSpeed | System::SmpV2 | System::Ddp | System::DeviceMap
            );
            // torch's own FlashAttention kernels were introduced in 2.0 and complete in 2.2.
            if layout.attention == Attention::Flash
                || !runs_it
                || layout.flash == crate::layout::FlashKernel::First
            {
                return None;
            }
            new.attention = Attention::Flash;
        }
        Edit::FullShard => {
            if !matches!(layout.system, System::Fsdp | System::DeepSpeed)
                || layout.sharding == Sharding::Full
                || layout.degrees.data_parallel_ranks() <= 1.0
            {
                return None;
            }
            new.sharding = Sharding::Full;
            new.degrees.shard = layout.degrees.data_parallel_ranks();
            new.degrees.replicas = 1.0;
        }
        Edit::ShardDegree(degree) => {
            let data = layout.degrees.data_parallel_ranks();
            new.degrees.shard = degree as f64;
            new.degrees.replicas = data / degree as f64;
            new.sharding = Sharding::Full;
        }
        Edit::Wrap => {
            if !layout.one_unit {
                return None;
            }
            new.one_unit = false;
        }
        Edit::TensorDegree(degree) => {
            let more = degree as f64 / layout.degrees.tensor;
            let replicas = (layout.degrees.replicas / more).max(1.0);
            new.degrees.shard = layout.degrees.data_parallel_ranks() / more / replicas;
            new.degrees.replicas = replicas;
            new.degrees.tensor = degree as f64;
            new.work.passes *= more;
        }
        Edit::ShardedEngine => {
            if layout.system != System::Ddp || layout.degrees.data_parallel_ranks() <= 1.0 {
                return None;
            }
            new.system = System::Fsdp;
            new.sharding = Sharding::Full;
            new.degrees.shard = layout.degrees.data_parallel_ranks();
            new.degrees.replicas = 1.0;
            new.smddp = false;
            new.one_unit = false;
        }
        Edit::ContextDegree(degree) => {
            let more = degree as f64 / layout.degrees.context.max(1.0);
            new.degrees.context = degree as f64;
            new.work.passes *= more;
        }
        Edit::PipelineDegree(degree) => {
            let more = degree as f64 / layout.degrees.pipeline;
            new.degrees.replicas = layout.degrees.replicas / more;
            new.degrees.pipeline = degree as f64;
            new.work.passes *= more;
            new.work.num_micro_batches = new.work.passes;
        }
        Edit::Nf4 => {
            if layout.lora.is_none() || layout.quantisation.is_some() {
                return None;
            }
            new.quantisation = Some(Quantisation::Nf4 { double: false });
        }
        Edit::ShardOptimizerState => {
            let fits = layout.system == System::SmpV1
                && layout.sharding == Sharding::None
                && layout.degrees.data_parallel_ranks() > 1.0;
            if !fits {
                return None;
            }
            new.sharding = Sharding::Optimizer;
        }
        Edit::MicroBatch(micro) => {
            new.work.passes *= layout.work.micro_batch_size / micro as f64;
            new.work.micro_batch_size = micro as f64;
        }
        Edit::Checkpointing => {
            if layout.recompute == Recompute::Full {
                return None;
            }
            new.recompute = Recompute::Full;
        }
        Edit::OffloadActivations => {
            let smp = matches!(layout.system, System::SmpV1 | System::SmpV2);
            new.offload.activations = true;
            if !smp || layout.offload.activations || !moments::offloads_activations(&new) {
                return None;
            }
        }
        Edit::OffloadStates => {
            let offloads = match layout.system {
                System::Fsdp => true,
                System::DeepSpeed => layout.sharding != Sharding::None,
                _ => false,
            };
            if !offloads || layout.offload.parameters || layout.lora.is_some() {
                return None;
            }
            new.offload.parameters = true;
            new.offload.optimizer = true;
        }
        Edit::Nodes(nodes) => {
            let more = nodes as f64 / layout.hardware.nodes;
            new.hardware.nodes = nodes as f64;
            new.degrees.shard *= more;
            new.work.global_sequences *= more;
        }
        Edit::Instance(name) => {
            let row = instances::get(name)?;
            let nodes = layout.hardware.nodes;
            // The launch of the ranks does not change, regardless of the number of GPUs it uses.
            let gpus_per_node = layout.hardware.gpus_per_node;
            new.hardware = Hardware { gpus_per_node, nodes, ..Hardware::from_instance(&row, 1) };
        }
    }
    Some(new)
}

pub(super) fn candidates(freedom: &Freedom) -> Vec<Vec<Edit>> {
    let largest_first = |numbers: &[u64]| {
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        numbers
    };
    let smallest_first = |numbers: &[u64]| {
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable();
        numbers
    };
    // The mildest of each kind first: only the first that fits is a remedy.
    vec![
        if freedom.wrap { vec![Edit::Wrap] } else { Vec::new() },
        vec![Edit::FlashAttention],
        vec![Edit::ShardOptimizerState],
        if freedom.full_shard { vec![Edit::FullShard] } else { Vec::new() },
        smallest_first(&freedom.shard_degrees).into_iter().map(Edit::ShardDegree).collect(),
        largest_first(&freedom.micro_batches).into_iter().map(Edit::MicroBatch).collect(),
        vec![Edit::Checkpointing],
        if freedom.sharded_engine { vec![Edit::ShardedEngine] } else { Vec::new() },
        smallest_first(&freedom.tensor_degrees).into_iter().map(Edit::TensorDegree).collect(),
        smallest_first(&freedom.context_degrees).into_iter().map(Edit::ContextDegree).collect(),
        smallest_first(&freedom.pipeline_degrees).into_iter().map(Edit::PipelineDegree).collect(),
        vec![Edit::OffloadActivations],
        if freedom.offload_states { vec![Edit::OffloadStates] } else { Vec::new() },
        if freedom.nf4 { vec![Edit::Nf4] } else { Vec::new() },
        smallest_first(&freedom.nodes).into_iter().map(Edit::Nodes).collect(),
    ]
}
