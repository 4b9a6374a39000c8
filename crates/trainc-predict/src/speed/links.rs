//! Communication time: bytes over bandwidth, with the latency of short messages.

use super::{HALF, Machine, Name, megatron};
use crate::layout::{Code, Dispatcher, GpuKind, Layout, Precision, Sharding, System, TensorOverlap};
use crate::memory::offloads_activations;
use crate::order::Spread;
use trainc_ir::Axis;

/// Seconds before the first byte of a collective inside a node arrives (NCCL on 8 A100: 46 to 79 µs).
const START: f64 = 4e-5;

/// Returns the parameters that one GPU computes with: those of its stage and tensor rank.
pub(super) fn parameters_per_gpu(layout: &Layout) -> f64 {
    let degrees = &layout.degrees;
    let experts = layout.model.expert_parameters;
    let own = layout.model.parameters - experts + experts / degrees.expert.max(1.0);
    own / (degrees.tensor.max(1.0) * degrees.pipeline.max(1.0))
}

/// Returns the placement of groups of `ranks` ranks along an axis.
fn group_placement(layout: &Layout, axis: Axis, ranks: f64) -> Spread {
    let hardware = &layout.hardware;
    let per_node = hardware.gpus_per_domain();
    let nodes = (hardware.gpus() / per_node).max(1.0);
    layout.order.group_placement(&layout.degrees, nodes, per_node, axis, ranks)
}

/// Returns the speedup of SMDDP, whose collectives run over EFA, between nodes.
fn smddp_speedup(layout: &Layout, machine: &Machine) -> f64 {
    if layout.smddp && layout.hardware.efa { machine.get(Name::Smddp) } else { 1.0 }
}

/// An all-reduce of a tensor group over a layer's activations, seconds.
pub(super) struct TensorReduce {
    /// Over the links.
    whole: f64,
    /// Until the last rank arrives.
    begin: f64,
    /// For other nodes.
    wait: f64,
}

impl TensorReduce {
    /// Returns the seconds of a call that nothing overlaps.
    pub(super) fn seconds(&self) -> f64 {
        self.whole + self.begin + self.wait
    }
}

/// Returns the time of an all-reduce of one layer's tensor group.
pub(super) fn tensor_reduce(layout: &Layout, machine: &Machine) -> TensorReduce {
    let t = layout.degrees.tensor;
    let tokens = layout.tokens_at_once();
    let Spread { nodes, beside } = group_placement(layout, Axis::Tensor, t);
    let inside = nodes <= 1.0;
    let bandwidth = match machine.fabric {
        // Two V100 share one or two of six links (NCCL tests of eight: 22.6 GB/s of 134.5).
        _ if inside && t == 2.0 && layout.hardware.gpu == Some(GpuKind::V100) => machine.nvlink / 3.0,
        _ if inside => machine.nvlink,
        Some(fabric) => machine.get(Name::TensorFabric) * fabric / beside,
        None => machine.nvlink,
    };
    let begin = machine.get(Name::RankSkew) * (t - 1.0);
    let wait = if inside { 0.0 } else { nodes * machine.get(Name::TensorWait) * wait_share(layout, machine) };
    let whole = 2.0 * (t - 1.0) / t * HALF * tokens * layout.model.hidden / bandwidth;
    TensorReduce { whole, begin, wait }
}

/// Returns the time of the all-reduces of one layer's tensor group: forward, backward and recomputed (with
/// sequence parallelism the bytes are the same).
pub(super) fn tensor_seconds(layout: &Layout, machine: &Machine, again: f64) -> f64 {
    if layout.degrees.tensor <= 1.0 {
        return 0.0;
    }
    let TensorReduce { whole, begin, wait } = tensor_reduce(layout, machine);
    let exposed = match layout.tensor_overlap {
        TensorOverlap::None => 1.0,
        TensorOverlap::Chunks => machine.get(Name::OverlapTensor),
        TensorOverlap::UserBuffers => machine.get(Name::OverlapBuffers),
    };
    // Attention and the feed-forward part have half of the collectives each.
    let half = f64::midpoint(4.0, again);
    let experts = match (layout.model.experts > 0.0, layout.splits_experts) {
        (false, _) => half * (exposed * whole + begin + wait),
        // Each expert's tokens are gathered, and their outputs summed, and nothing overlaps with it.
        (true, true) => half * (layout.model.active_experts.max(1.0) * whole + begin + wait),
        (true, false) => 0.0,
    };
    half * (exposed * whole + begin + wait) + experts
}

/// Returns the time to send keys and values around the ring of a context group, of one layer and micro-batch,
/// forward and backward.
///
/// Each rank forwards its block once per other rank, in the forward pass, in recomputation and in the
/// backward pass, which also sends the blocks' gradients (Liu et al. 2023, ring attention; PyTorch's
/// `context_parallel`). Megatron sends the heads of keys and values unrepeated, others first repeat them for
/// every query head (torchtitan).
pub(super) fn context_ring_seconds_per_layer(layout: &Layout, machine: &Machine, share: f64) -> f64 {
    let (model, degrees) = (&layout.model, &layout.degrees);
    let ranks = degrees.context;
    if ranks <= 1.0 {
        return 0.0;
    }
    if layout.ulysses {
        // Query, key, value and output change between parts of the sequence and heads, forward and backward.
        let tokens = layout.tokens_at_once();
        let elements = tokens * (2.0 * model.heads + 2.0 * model.kv_heads) * model.head_dim;
        let inside = group_placement(layout, Axis::Context, ranks).nodes <= 1.0;
        let bandwidth = match machine.fabric {
            Some(fabric) if !inside => machine.get(Name::Fabric) * fabric / layout.hardware.gpus_per_domain(),
            _ => machine.nvlink,
        };
        return (2.0 + share) * ((ranks - 1.0) / ranks * HALF * elements / bandwidth + 4.0 * START);
    }
    let heads = if layout.code.is_megatron() { model.kv_heads } else { model.heads };
    let tokens = layout.tokens_at_once();
    let block = 2.0 * HALF * tokens * heads * model.head_dim / degrees.tensor.max(1.0);
    let inside = group_placement(layout, Axis::Context, ranks).nodes <= 1.0;
    let bandwidth = match machine.fabric {
        Some(fabric) if !inside => machine.get(Name::Fabric) * fabric / layout.hardware.gpus_per_domain(),
        _ => machine.nvlink,
    };
    (ranks - 1.0) * (3.0 + share) * (block / bandwidth + START)
}

/// Returns the time of the sends to the next stage and back, of one micro-batch.
pub(super) fn pipeline_send_seconds(layout: &Layout, machine: &Machine) -> f64 {
    let tokens = layout.tokens_at_once();
    let bytes = HALF * tokens * layout.model.hidden;
    let Spread { nodes, beside } = group_placement(layout, Axis::Pipeline, layout.degrees.pipeline);
    let bandwidth = match machine.fabric {
        // Each tensor rank of a stage sends a part; only the last stage of a node sends to another node.
        Some(fabric) if nodes > 1.0 => {
            machine.get(Name::Pipeline) * fabric / beside * layout.degrees.tensor.max(1.0)
        }
        _ => machine.nvlink,
    };
    2.0 * (bytes / bandwidth + START)
}

/// Steepness of the growth of nanotron's waits with the number of nodes. Of the playbook's pipelines, 8 %
/// took over 0.3 s a micro-batch longer than predicted without waits on 2 nodes, 31 % on 16, 43 % on 32 and
/// 99 % on 64, so that the median run has no wait on 32 nodes and all of it on 64.
const WAIT_STEEPNESS: f64 = 16.0;

/// Returns the share of nanotron's waits in a cluster of this size; 0 for other code.
///
/// Only runs of nanotron show them (Hugging Face, ultra-scale playbook, p5 over EFA); Megatron on 64 nodes
/// (SC21) and on 48 (BLOOM) does not. Each of nanotron's sends is three messages, and the receiver's host
/// waits for the first two (huggingface/nanotron@2411b02, src/nanotron/parallel/pipeline_parallel/p2p.py).
fn wait_share(layout: &Layout, machine: &Machine) -> f64 {
    if layout.code != Code::Nanotron {
        return 0.0;
    }
    1.0 / (1.0 + (machine.get(Name::WaitNodes) / layout.hardware.nodes.max(1.0)).powf(WAIT_STEEPNESS))
}

/// Returns the time that a stage waits for each tensor that it sends or receives.
pub(super) fn send_wait_seconds(layout: &Layout, machine: &Machine) -> f64 {
    let is_spread = group_placement(layout, Axis::Pipeline, layout.degrees.pipeline).nodes > 1.0;
    if is_spread { machine.get(Name::SendWait) * wait_share(layout, machine) } else { 0.0 }
}

/// Returns the collectives of a pass over a shard group's parameters, in those of 16-bit elements: gathers,
/// and the scatter of gradients.
fn gathers_and_scatters(layout: &Layout) -> (f64, f64) {
    // A model that is one unit stays gathered from the forward pass to the backward pass.
    // With a pipeline the weights stay gathered for all micro-batches (torchtitan,
    // `reshard_after_forward = "default"`).
    let stays = layout.one_unit || layout.degrees.pipeline > 1.0;
    let gathers = if layout.sharding == Sharding::Full && !stays { 2.0 } else { 1.0 };
    // Frozen parameters have no gradient to scatter.
    (gathers, if layout.lora.is_some() { 0.0 } else { gradient_width(layout) / HALF })
}

/// Returns the bytes of an element of a reduced gradient. The worker's are in 32 bit unless set; the runs
/// that FSDP's constants were fitted to count as 16-bit.
pub(super) fn gradient_width(layout: &Layout) -> f64 {
    if layout.system == System::Worker && layout.worker.wide_reduction { 2.0 * HALF } else { HALF }
}

/// Returns the part of [`gather_seconds`] that scatters gradients.
pub(super) fn scatter_share(layout: &Layout) -> f64 {
    let (gathers, scatters) = gathers_and_scatters(layout);
    scatters / (gathers + scatters)
}

/// Returns the time to gather parameters for the forward and the backward pass and to scatter gradients, of
/// one micro-batch.
pub(super) fn gather_seconds(layout: &Layout, machine: &Machine) -> f64 {
    if layout.degrees.shard <= 1.0 {
        return 0.0;
    }
    let (gathers, scatters) = gathers_and_scatters(layout);
    (gathers + scatters) * gather_seconds_once(layout, machine)
}

/// Returns the time to gather all parameters that one GPU computes with in a shard group, or to scatter as
/// many 16-bit gradients.
pub(super) fn gather_seconds_once(layout: &Layout, machine: &Machine) -> f64 {
    let shard = layout.degrees.shard.max(1.0);
    let bytes = HALF * parameters_per_gpu(layout);
    let inside = bytes * (shard - 1.0) / shard / machine.nvlink;
    let Spread { nodes, beside } = group_placement(layout, Axis::Shard, shard);
    let between = match machine.fabric {
        Some(fabric) if nodes > 1.0 => {
            let system = if layout.system == System::DeepSpeed { machine.get(Name::ZeroGather) } else { 1.0 };
            let rate = machine.get(Name::Fabric) * system * smddp_speedup(layout, machine) * fabric
                / (1.0 + nodes / machine.get(Name::FabricNodes));
            beside * bytes * (nodes - 1.0) / nodes / rate
        }
        _ => 0.0,
    };
    inside.max(between)
}

/// Returns the time of the second hop of sharded replicas: all-reduces of each shard's gradients over the
/// replicas, once per step.
pub(super) fn replica_reduce_seconds(layout: &Layout, machine: &Machine) -> f64 {
    let (replicas, shard) = (layout.degrees.replicas, layout.degrees.shard.max(1.0));
    let Spread { nodes, beside } = group_placement(layout, Axis::Replica, replicas);
    let Some(fabric) = machine.fabric.filter(|_| nodes > 1.0) else { return 0.0 };
    let bytes =
        2.0 * (replicas - 1.0) / replicas * gradient_width(layout) * parameters_per_gpu(layout) / shard;
    beside * bytes / (machine.get(Name::Fabric) * smddp_speedup(layout, machine) * fabric)
}

/// Returns the number of ranks that reduce whole gradients together.
///
/// The ranks that split sequences hold the same weights and reduce their gradients too; Megatron's constants
/// were fitted without them.
pub(super) fn gradient_ranks(layout: &Layout) -> f64 {
    let parts = if megatron(layout) { layout.degrees.context.max(1.0) } else { 1.0 };
    layout.degrees.data_parallel_ranks() / parts
}

/// Returns the bytes of one GPU's gradients that an all-reduce of the same time reduces.
pub(super) fn gradient_bytes(layout: &Layout) -> f64 {
    let trained = layout.lora.map_or_else(|| parameters_per_gpu(layout), |lora| lora.trainable);
    // DDP under autocast: the weights are in 32 bit, and so are their gradients.
    let wide = layout.system == System::Ddp && matches!(layout.precision, Precision::Mixed { .. });
    let width = layout.gradient_bytes.unwrap_or(if wide { 2.0 * HALF } else { HALF });
    // ZeRO-1 scatters gradients and gathers 16-bit weights: half of an all-reduce each.
    if layout.sharding == Sharding::Optimizer {
        f64::midpoint(width, HALF) * trained
    } else {
        width * trained
    }
}

/// Returns the constant of the rate at which whole gradients are reduced between nodes.
pub(super) fn gradient_constant(layout: &Layout) -> Name {
    match (megatron(layout), layout.sharding) {
        // Observed only for DeepSpeed's buckets; Megatron's and SMP's own optimizers scatter and gather the
        // bytes of an all-reduce.
        (true, Sharding::Optimizer) if layout.code == Code::MegatronDeepspeed => Name::Zero1,
        (true, _) if layout.hardware.efa => Name::GradientsEfa,
        (true, _) => Name::Gradients,
        (false, _) => Name::Fabric,
    }
}

/// Returns the constant that determines a group's bandwidth: that of the links inside a node, or `fabric`
/// between nodes.
pub(super) fn link_constant(layout: &Layout, axis: Axis, ranks: f64, fabric: Name) -> Name {
    if layout.hardware.nodes > 1.0 && group_placement(layout, axis, ranks).nodes > 1.0 {
        fabric
    } else {
        super::inside_constant(layout)
    }
}

/// Returns the time to reduce gradients over all data ranks, once per step; with ZeRO-1 the same bytes as
/// scatter and gather.
pub(super) fn gradient_reduce_seconds(layout: &Layout, machine: &Machine) -> f64 {
    let ranks = gradient_ranks(layout);
    if ranks <= 1.0 {
        return 0.0;
    }
    let bytes = gradient_bytes(layout);
    let inside = 2.0 * (ranks - 1.0) / ranks * bytes / machine.nvlink;
    let Spread { nodes, beside } = group_placement(layout, Axis::Shard, ranks);
    let between = match machine.fabric {
        Some(fabric) if nodes > 1.0 => {
            let constant = gradient_constant(layout);
            let loss = match constant {
                Name::GradientsEfa => 1.0 + nodes / machine.get(Name::GradientNodesEfa),
                Name::Gradients => 1.0 + nodes / machine.get(Name::GradientNodes),
                _ => 1.0,
            };
            let share = machine.get(constant) / loss;
            let rate = share * smddp_speedup(layout, machine) * fabric;
            beside * 2.0 * bytes * (nodes - 1.0) / nodes / rate
        }
        _ => 0.0,
    };
    let latency = if layout.code == Code::Nanotron && nodes > 1.0 {
        let collectives = if layout.sharding == Sharding::Optimizer { 2.0 } else { 1.0 };
        let layers = layout.model.layers / layout.degrees.pipeline.max(1.0);
        collectives * layers * ranks * machine.get(Name::ShardLatency)
    } else {
        0.0
    };
    inside.max(between) + latency
}

/// Returns the time to send tokens to their experts and back, forward and backward, of one micro-batch
/// through all layers of a stage.
pub(super) fn expert_seconds_per_micro_batch(layout: &Layout, machine: &Machine) -> f64 {
    let (model, degrees) = (&layout.model, &layout.degrees);
    let e = degrees.expert;
    if e <= 1.0 || model.experts == 0.0 {
        return 0.0;
    }
    let tokens = layout.tokens_at_once();
    // Each rank of a tensor group sends its part of the sequence.
    let tokens = if megatron(layout) { tokens / degrees.tensor.max(1.0) } else { tokens };
    let nodes = if layout.splits_experts {
        group_placement(layout, Axis::Expert, e).nodes
    } else {
        // Experts that no tensor group splits lie on ranks that follow each other.
        (e / layout.hardware.gpus_per_domain()).ceil().max(1.0)
    };
    let active = model.active_experts;
    let inside = HALF * tokens * active * model.hidden * (e - 1.0) / e / machine.nvlink;
    let between = match machine.fabric {
        Some(fabric) if nodes > 1.0 => {
            let reached = match layout.dispatcher {
                Dispatcher::OncePerNode => (nodes - 1.0) * (1.0 - (1.0 - 1.0 / nodes).powf(active)),
                Dispatcher::AllToAll => active * (nodes - 1.0) / nodes,
            };
            let per_gpu = fabric / layout.hardware.gpus_per_domain();
            HALF * tokens * reached * model.hidden / (machine.get(Name::Experts) * per_gpu)
        }
        _ => 0.0,
    };
    let exposed = machine.get(match layout.dispatcher {
        Dispatcher::OncePerNode => Name::OverlapExperts,
        Dispatcher::AllToAll => Name::OverlapAllToAll,
    });
    (model.layers / degrees.pipeline.max(1.0)).ceil() * 4.0 * (exposed * inside.max(between) + START)
}

/// Bytes that a step of Adam moves on a host per parameter: weight, gradient and two moments in 32 bit are
/// read, all but the gradient written (28), and a 16-bit copy of the weight is made (2).
const HOST_STEP: f64 = 30.0;

/// Rate of a process with all threads of its host over that of one with a single thread (assumed: a
/// socket's memory feeds a few threads).
const ALL_THREADS: f64 = 3.0;

/// Returns the exposed time of offload: states updated on the host, and checkpointed activations that compute
/// does not hide.
pub(super) fn exposed_offload_seconds(layout: &Layout, machine: &Machine, layers_seconds: f64) -> f64 {
    let mut seconds = 0.0;
    let degrees = &layout.degrees;
    let sharded = if layout.sharding == Sharding::None { 1.0 } else { degrees.shard.max(1.0) };
    let of_node = layout.hardware.gpus_per_node / sharded;
    if layout.offload.optimizer {
        let trained = layout.lora.map_or_else(|| parameters_per_gpu(layout), |lora| lora.trainable);
        // torchrun gives each of several processes one thread (`OMP_NUM_THREADS=1`), so that a host's
        // threads count by ranks; a process that is alone has them all.
        let alone = if layout.hardware.gpus_per_node <= 1.0 { ALL_THREADS } else { 1.0 };
        seconds += HOST_STEP * trained / sharded / (alone * machine.get(Name::Host));
    }
    if layout.offload.parameters {
        // To the GPU for the forward and for the backward pass; updated weights go back once.
        let copies = 2.0 * layout.work.passes.max(1.0) + if layout.lora.is_some() { 0.0 } else { 1.0 };
        seconds += copies * HALF * parameters_per_gpu(layout) * of_node / machine.get(Name::HostParameters);
    }
    if offloads_activations(layout) {
        let tokens = layout.tokens_at_once();
        let layers = (layout.model.layers / degrees.pipeline.max(1.0)).ceil();
        let copies = 2.0 * layers * HALF * tokens * layout.model.hidden / machine.get(Name::HostCopy);
        seconds += layout.work.passes * (copies - layers_seconds).max(0.0);
    }
    seconds
}
