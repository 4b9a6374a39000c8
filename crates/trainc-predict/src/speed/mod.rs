//! Seconds of a step, by part.
//!
//! A pass of a micro-batch is computed layer by layer ([`compute`]), its collectives by bytes over links
//! ([`links`]); this module overlaps them: hidden time is not counted twice. Form and sources: Korthikanti et
//! al. 2022, Narayanan et al. 2021 (SC21), Zhao et al. 2023 (FSDP), Zhang et al. 2022 (MiCS).

mod compute;
mod links;
mod operations;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use operations::{Operations, Product, Transfer};

use super::balance::balanced_stages;
use super::constants::{Constants, Gpu, Name};
use super::evidence::Evidence;
use super::extrapolation::Extrapolation;
use super::from_plan::Unknown;
use super::layout::{AdapterKind, Attention, Code, Layout, Precision, Prefetch, Recompute, Sharding, System};
use super::part_intervals::Widths;
use super::prediction::{Communication, Interval, Speed, SpeedParts, Tflops};
use super::probed::remaining_width;

/// Bytes of 16-bit weights or gradients per parameter.
const HALF: f64 = 2.0;

/// Returns the constant of the rate between the GPUs of a node.
fn inside_constant(layout: &Layout) -> Name {
    if layout.hardware.intra_bytes_per_second.unwrap_or(0.0) > 0.0 { Name::Nvlink } else { Name::Pcie }
}

/// Rates of the machine, and the constants.
pub(super) struct Machine<'a> {
    constants: &'a Constants,
    gpu: Gpu,
    /// Dense 16-bit peak, FLOP/s.
    peak: f64,
    /// Memory bandwidth, bytes/s.
    bandwidth: f64,
    /// Bandwidth between the GPUs of a node, bytes/s of one GPU in one direction.
    nvlink: f64,
    /// Bandwidth between nodes, bytes/s of one node in one direction; `None` on one node.
    fabric: Option<f64>,
}

impl<'a> Machine<'a> {
    fn of(layout: &Layout, constants: &'a Constants) -> Result<Self, Unknown> {
        let hardware = &layout.hardware;
        let kind = hardware.gpu.ok_or(Unknown("the cost model has no constants for this accelerator"))?;
        let gpu =
            *constants.gpu(kind).ok_or(Unknown("the cost model has no constants for this accelerator"))?;
        let peak = hardware.peak_flops.ok_or(Unknown("the peak of the accelerator is unknown"))?;
        let bandwidth = hardware
            .memory_bytes_per_second
            .ok_or(Unknown("the memory bandwidth of the accelerator is unknown"))?;
        // The nodes of one NVLink domain send together.
        let nodes = (hardware.gpus_per_domain() / hardware.gpus_per_node.max(1.0)).min(hardware.nodes);
        let fabric =
            hardware.inter_bytes_per_second.filter(|_| hardware.nodes > 1.0).map(|rate| rate * nodes);
        if hardware.nodes > 1.0 && fabric.is_none() {
            return Err(Unknown("the links between nodes are unknown"));
        }
        let inside = inside_constant(layout);
        let both_ways = hardware.intra_bytes_per_second.unwrap_or(0.0);
        let nvlink = constants.get(inside) * if inside == Name::Nvlink { both_ways / 2.0 } else { 1.0 };
        Ok(Self { constants, gpu, peak, bandwidth, nvlink, fabric })
    }

    fn get(&self, name: Name) -> f64 {
        self.constants.get(name)
    }
}

/// Recomputation in the backward pass, as shares of a layer's forward work by kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RecomputedWork {
    /// Share of its matrix products, by their FLOP.
    pub(super) products: f64,
    /// Share of the attention core.
    pub(super) attention: f64,
    /// Share of everything else, and of launches.
    pub(super) rest: f64,
    /// Collectives of the tensor group, in all-reduces: a layer's forward pass has two.
    pub(super) collectives: f64,
}

pub(super) fn recomputed_work(layout: &Layout) -> RecomputedWork {
    let all = |share: f64| RecomputedWork {
        products: share,
        attention: share,
        rest: share,
        collectives: if share >= 1.0 { 2.0 } else { 0.0 },
    };
    // FlashAttention always recomputes its scores: recomputation does not repeat it.
    let core = if layout.attention == Attention::Eager { 1.0 } else { 0.0 };
    match layout.recompute {
        Recompute::None => all(0.0),
        Recompute::Full => all(1.0),
        Recompute::Share(share) => all(share.clamp(0.0, 1.0)),
        Recompute::Selective => RecomputedWork { attention: core, ..all(0.0) },
        // Scattered tensors are kept, gathered ones are not: half of each all-reduce.
        Recompute::Operations => RecomputedWork {
            products: layout.model.recomputed_flop_share(),
            attention: core,
            rest: 1.0,
            collectives: 1.0,
        },
    }
}

/// Returns the time of a step, or what is missing for it.
///
/// Measured runs of the user in the constants condition it.
pub fn speed(layout: &Layout, constants: &Constants) -> Result<Speed, Unknown> {
    speed_with(layout, constants, constants.evidence())
}

/// Returns the seconds of a step by the constants alone, without an interval: for a fit, which asks
/// millions of times.
///
/// # Errors
///
/// As [`speed`].
pub fn step_seconds(layout: &Layout, constants: &Constants) -> Result<f64, Unknown> {
    let constants = constants.for_gpu(layout.hardware.gpu);
    let timed = Timed::new(layout, constants)?;
    let seconds = timed.parts.total();
    let read = layout.input.map_or(0.0, |input| input.read_seconds(layout.work.global_sequences));
    Ok(seconds.max(read))
}

/// Returns the time of a step by the constants alone.
pub(super) fn speed_without_evidence(layout: &Layout, constants: &Constants) -> Result<Speed, Unknown> {
    speed_with(layout, constants, None)
}

/// The parts of a step without reading of data, and what bounds them.
struct Timed<'a> {
    /// The layout by which the step is timed, if it is not the one asked for.
    instead: Option<Layout>,
    machine: Machine<'a>,
    parts: SpeedParts,
    communication: Communication,
    flops: Flops,
    /// Least time that the hardware allows, seconds.
    least: f64,
    /// Peak of products in the precision of the layout, FLOP/s.
    peak: f64,
}

impl<'a> Timed<'a> {
    fn new(whole: &Layout, constants: &'a Constants) -> Result<Self, Unknown> {
        if whole.system == System::Worker && whole.worker.cpu {
            return Err(Unknown("no run of the worker on CPUs was measured"));
        }
        let instead = worker_as_fsdp(whole);
        let layout = instead.as_ref().unwrap_or(whole);
        if layout.precision == Precision::Fp32 {
            // TF32 was introduced with Ampere (NVIDIA, A100 white paper, 2020); before it all 32-bit
            // products are full precision.
            let older = matches!(layout.hardware.gpu, Some(super::GpuKind::V100 | super::GpuKind::T4));
            return Err(Unknown(if older {
                "no run in 32-bit arithmetic was measured"
            } else {
                "no run in 32-bit arithmetic was measured, and the script chooses between fp32 and \
                    TF32, which differ by a factor of up to 8"
            }));
        }
        let machine = Machine::of(layout, constants)?;
        let (mut parts, communication) = parts(layout, &machine);
        let flops = flops(layout);
        // No interplay of constants may exceed the hardware.
        let peak = machine.peak * layout.precision.peak_ratio();
        let least = flops.performed * layout.work.global_sequences / layout.hardware.gpus() / peak;
        parts.compute += (least - parts.total()).max(0.0);
        if !parts.total().is_finite() || parts.total() <= 0.0 {
            return Err(Unknown("the layout is incomplete"));
        }
        Ok(Self { instead, machine, parts, communication, flops, least, peak })
    }
}

fn speed_with(whole: &Layout, constants: &Constants, evidence: Option<&Evidence>) -> Result<Speed, Unknown> {
    let constants = constants.for_gpu(whole.hardware.gpu);
    let Timed { instead, machine, mut parts, mut communication, flops, least, peak } =
        Timed::new(whole, constants)?;
    let layout = instead.as_ref().unwrap_or(whole);
    let (model_flops, hardware_flops) = (flops.needed, flops.performed);
    let step =
        |constants: &Constants| Some(self::parts(layout, &Machine::of(layout, constants).ok()?).0.total());
    let left = remaining_width(layout, constants, step);
    let waited = parts.exposed_communication + parts.bubble + parts.offload;
    let waiting = (waited / parts.total()).clamp(0.0, 1.0);
    let (extrapolation, near) = Extrapolation::from_layout(layout, waiting, constants, &machine.gpu);
    let work = left * (near.work + extrapolation.extra_half_width());
    let wait_width = left * near.waiting;
    let above = near.above;
    let evidence = evidence.and_then(|runs| {
        // The mean of both ends.
        let half_width = (work + wait_width * waiting) * f64::midpoint(1.0, above);
        runs.condition(whole, half_width)?.at_least(least / parts.total())
    });
    if let Some(measured) = &evidence {
        (parts, communication) = (parts.scaled(measured.factor), communication.scaled(measured.factor));
    }
    let rest = parts.total();
    let sequences = layout.work.global_sequences;
    parts.input = layout.input.map(|input| input.exposed_read_seconds(sequences, rest));
    // Not the sum of the parts: rounding in a sum must not make one of the layouts that wait for the same
    // data faster.
    let step_seconds = layout.input.map_or(rest, |input| rest.max(input.read_seconds(sequences)));
    if !step_seconds.is_finite() || step_seconds <= 0.0 {
        return Err(Unknown("the layout is incomplete"));
    }
    let gpus = layout.hardware.gpus();
    let samples = layout.work.global_sequences;
    let tokens = samples * layout.work.sequence_length;
    let rate = |flops: f64| flops * samples / step_seconds / gpus / 1e12;
    // Conventions: a fixed number of FLOP per parameter that a token uses, frozen or not.
    let per_token = |times: f64| times * layout.model.active_parameters * tokens / step_seconds / gpus / 1e12;
    let waited = parts.exposed_communication + parts.bubble + parts.offload + parts.input.unwrap_or(0.0);
    let widths = Widths {
        work,
        waiting: wait_width,
        above,
        read_seconds: layout.input.map(|input| input.read_seconds(sequences)),
    };
    let (below, above) = if let Some(measured) = &evidence {
        let width = measured.half_width + wait_width * parts.input.unwrap_or(0.0) / step_seconds;
        (width, width)
    } else {
        let width = work + wait_width * waited / step_seconds;
        (width, above * width)
    };
    Ok(Speed {
        step_seconds,
        tokens_per_second: tokens / step_seconds,
        samples_per_second: samples / step_seconds,
        tflops: Tflops {
            model: rate(model_flops),
            hardware: rate(hardware_flops),
            six_n: per_token(6.0),
            eight_n: per_token(8.0),
        },
        mfu: rate(model_flops) * 1e12 / peak,
        interval: Interval {
            low: (step_seconds * (-below).exp()).max(least.min(step_seconds)),
            high: step_seconds * above.exp(),
        },
        extrapolation,
        widths,
        evidence,
        parts,
        communication,
    })
}

/// Returns the layout by which a rank of the worker on a GPU is timed; `None` for other systems.
///
/// No run of the worker on GPUs was measured. It calls the same libraries as FSDP, and gathers and reduces
/// the same units, so that FSDP's constants are used: its settings become those of FSDP that gather the same.
fn worker_as_fsdp(layout: &Layout) -> Option<Layout> {
    let worker = (layout.system == System::Worker).then_some(layout.worker)?;
    let mut fsdp = layout.clone();
    if !worker.reshard && layout.sharding == Sharding::Full {
        fsdp.sharding = Sharding::Gradients;
    }
    fsdp.gathering.prefetch = if worker.prefetch < 1.0 { Prefetch::None } else { Prefetch::Before };
    Some(fsdp)
}

/// FLOP of one sequence.
#[derive(Clone, Copy, Debug)]
struct Flops {
    /// Of the forward pass.
    forward: f64,
    /// Of forward and backward.
    needed: f64,
    /// The same with recomputation.
    performed: f64,
}

/// Returns the share of the forward pass in the work of a step.
pub(super) fn forward_share(layout: &Layout) -> f64 {
    let flops = flops(layout);
    flops.forward / flops.performed
}

/// Returns the FLOP of one sequence.
///
/// A matrix that is trained costs 6 FLOP per weight and token: 2 forward, 2 for its input's gradient, 2 for
/// its own. A frozen one with an adapter (Hu et al. 2021; Dettmers et al. 2023) has no gradient of its own:
/// 4; the adapter's small matrices cost 6 of theirs.
fn flops(layout: &Layout) -> Flops {
    let model = &layout.model;
    let s = layout.work.sequence_length;
    let (width, kv) = (model.heads * model.head_dim, model.kv_heads * model.head_dim);
    let copies = if model.experts > 0.0 { model.active_experts } else { 1.0 };
    let matrices =
        2.0 * s * model.hidden * (2.0 * width + 2.0 * kv + copies * model.ffn_matrices * model.ffn);
    let core = 4.0 * s * s * width;
    let head = 2.0 * s * model.hidden * model.head_vocab;
    // Frozen matrices need no gradient of their own.
    let backward = if layout.lora.is_some() { 1.0 } else { 2.0 };
    let layers = model.layers * ((1.0 + backward) * matrices + 3.0 * core);
    let small = match layout.lora {
        Some(lora) if lora.kind == AdapterKind::LowRank => 2.0 * s * lora.trainable,
        _ => 0.0,
    };
    let all = layers + (1.0 + backward) * head + 3.0 * small;
    let again = recomputed_work(layout);
    let repeated =
        model.layers * (again.products * matrices + again.attention * core) + again.products * small;
    let forward = model.layers * (matrices + core) + head + small;
    Flops { forward, needed: all, performed: all + repeated }
}

/// Returns the parts of the step, and its communication.
fn parts(layout: &Layout, machine: &Machine) -> (SpeedParts, Communication) {
    let work = &layout.work;
    // One GPU works at a time under a device map: the time of its layers adds up to the whole model's.
    let stages = if layout.system == System::DeviceMap { 1.0 } else { layout.degrees.pipeline.max(1.0) };
    let layers = (layout.model.layers / stages).ceil();
    let pass = compute::compute_pass(layout, machine);
    let tensor = links::tensor_seconds(layout, machine, pass.again.collectives);
    // Launching runs ahead of the GPU and is hidden by its work, or hides it.
    let ring = links::context_ring_seconds_per_layer(layout, machine, pass.again.attention);
    // Attention over one block hides the transfer of the next one, except for the links' share of the GPU.
    let ring_waited =
        (ring - pass.attention).max(0.0) + machine.get(Name::OverlapFsdp) * ring.min(pass.attention);
    let busy = pass.gpu + tensor + ring_waited;
    let n = machine.get(Name::Hiding);
    let layer = (busy.powf(n) + pass.host.powf(n)).powf(1.0 / n);
    let layer_tensor = (tensor + ring_waited).min(layer);
    let (stage, head) = slowest_stage(layout, stages, layers * layer, pass.head);
    // With several stages on a GPU a micro-batch goes round once per stage (Narayanan et al. 2021, section
    // 2.2).
    let rounds = layout.degrees.virtual_stages.max(1.0);
    let send = if stages > 1.0 { rounds * links::pipeline_send_seconds(layout, machine) } else { 0.0 };
    // The interleaved schedule of Megatron-Core computes another chunk meanwhile (`overlap_p2p_comm`).
    let send = if layout.code == Code::MegatronCore && rounds > 1.0 {
        send * machine.get(Name::OverlapFsdp)
    } else {
        send
    };
    // A stage with two neighbours receives from and sends to both, the first and the last one only to one.
    let wait = if stages > 1.0 { links::send_wait_seconds(layout, machine) } else { 0.0 };
    let waits = if stages > 2.0 { 4.0 * wait } else { 2.0 * wait };
    let passes = work.passes.max(1.0);
    let (offload, optimizer) = (
        links::exposed_offload_seconds(layout, machine, layers * layer),
        compute::optimizer_seconds(layout, machine),
    );
    let mut parts = SpeedParts {
        compute: passes * (stage * (1.0 - layer_tensor / layer) + head),
        exposed_communication: passes * (stage * layer_tensor / layer + send + rounds * waits),
        offload,
        optimizer,
        ..SpeedParts::default()
    };
    if stages > 1.0 {
        // With fewer micro-batches in flight than stages, each stage waits for one to return:
        // `passes / flying` trips through all stages instead of `passes` turns of one. With as many, only
        // filling and draining remain (Narayanan et al. 2021, section 2.2).
        let flying = work.num_active_micro_batches.unwrap_or(stages).min(stages).min(passes).max(1.0);
        let turns = passes * (stages / flying - 1.0) + flying - 1.0;
        // The other stages' work on one micro-batch, on average.
        let whole = layout.model.layers.max(1.0) * layer + pass.head;
        let other = (whole - stage - head).max(0.0) / (stages - 1.0);
        parts.bubble = turns / rounds * (other + send) + turns * wait;
    }
    let mut over_links = Communication {
        tensor: passes * stage / layer * tensor.min(layer),
        context: passes * stage / layer * ring,
        pipeline: passes * (send + rounds * waits),
        experts: passes * links::expert_seconds_per_micro_batch(layout, machine),
        ..Communication::default()
    };
    parts.exposed_communication += over_links.experts;
    let one = stage + head;
    if matches!(layout.sharding, Sharding::Full | Sharding::Gradients) {
        if stages > 1.0 {
            // Gathered once for all micro-batches, scattered after the last one.
            let gather =
                links::gather_seconds(layout, machine) + links::replica_reduce_seconds(layout, machine);
            over_links.gather = gather;
            over_links.scatter = gather * links::scatter_share(layout);
            parts.exposed_communication +=
                (gather - one).max(0.0) + machine.get(Name::OverlapFsdp) * gather.min(one);
        } else {
            let (shards, hop) =
                (links::gather_seconds(layout, machine), links::replica_reduce_seconds(layout, machine));
            (over_links.gather, over_links.replicas) = (passes * shards, hop);
            over_links.scatter = over_links.gather * links::scatter_share(layout);
            let gather = shards + hop / passes;
            let late = shards * late(layout);
            let gather = gather - late;
            let share = match layout.system {
                // One unit's gather precedes everything that could hide it, its scatter follows everything.
                _ if layout.one_unit => 1.0,
                System::DeepSpeed => machine.get(Name::OverlapDeepSpeed),
                _ => machine.get(Name::OverlapFsdp),
            };
            // The longer of the two, plus the unhidden share of the shorter.
            let together = one.max(gather) + share * one.min(gather);
            parts.exposed_communication += passes * (together - one + late);
        }
    } else if layout.degrees.data_parallel_ranks() > 1.0 && layout.system != System::DeviceMap {
        let reduce = links::gradient_reduce_seconds(layout, machine);
        over_links.gradients = reduce;
        // Megatron reduces after the last backward pass; DDP and similar engines during it.
        let late = megatron(layout) && layout.code != Code::MegatronCore;
        let hidden = match (late, layout.code, layout.sharding) {
            (true, ..) => 0.0,
            // Weights are gathered in the forward passes too; with an interleaved schedule the chunks of a
            // stage finish one after another over the last round of micro-batches.
            (false, Code::MegatronCore, Sharding::Optimizer) if rounds > 1.0 => one * stages.min(passes),
            (false, Code::MegatronCore, Sharding::Optimizer) => one,
            (false, ..) => 0.5 * one,
        };
        let share = machine.get(Name::OverlapFsdp);
        parts.exposed_communication += (reduce - hidden).max(0.0) + share * reduce.min(hidden);
    }
    (parts, over_links)
}

/// Returns the time of the slowest stage's layers and of its head, for one micro-batch.
///
/// `even` is the time of a stage with the layers divided evenly, to which the last stage adds the head.
fn slowest_stage(layout: &Layout, stages: f64, even: f64, head: f64) -> (f64, f64) {
    let layer = even / (layout.model.layers.max(1.0) / stages).ceil().max(1.0);
    let Some(blocks) = balanced_stages(layout) else { return (even, head) };
    blocks
        .iter()
        .map(|stage| (stage.layers * layer, if stage.head { head } else { 0.0 }))
        .max_by(|(a, b), (c, d)| (a + b).total_cmp(&(c + d)))
        .unwrap_or((even, head))
}

/// Returns the share of a pass's gathers and scatters that nothing in the backward pass can hide; in the
/// forward pass the host runs ahead, regardless of prefetching.
///
/// The collectives of one process group run in the order in which they are issued (PyTorch,
/// `BackwardPrefetch`). Under `BACKWARD_POST` a unit is gathered after the gradients of the previous one are
/// computed, and before they are scattered: the next gradients wait for the gather and hide the scatter
/// ("overlaps the current reduce-scatter and the next gradient computation"). Without prefetching the gather
/// follows the scatter, and both are exposed ("no overlap").
fn late(layout: &Layout) -> f64 {
    let scatter = links::scatter_share(layout);
    // One of the two gathers is forward.
    let backward = 0.5 * (1.0 - scatter);
    match layout.gathering.prefetch {
        _ if layout.sharding != Sharding::Full || layout.one_unit => 0.0,
        Prefetch::Before => 0.0,
        Prefetch::After => backward,
        Prefetch::None => backward + scatter,
    }
}

/// Returns true if gradients are reduced as in Megatron.
pub(super) fn megatron(layout: &Layout) -> bool {
    layout.system == System::Megatron || layout.system == System::SmpV1 && layout.sharding != Sharding::Full
}
