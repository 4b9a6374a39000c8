//! The planned figures of a run and the work that a probe of its cluster measures, for scripts in the job's
//! containers.

use super::bills::billed_per_hour;
use super::constants::{Constants, Name};
use super::layout::{Attention, FlashKernel, Layout, Precision, Sharding, System};
use super::prediction::{Prediction, Speed};
use super::run::checkpoint_bytes;
use super::speed::{flash_slowness, recomputed_work, speed_without_evidence};
use trainc_ir::{Axis, Collective, Expectation, ExpectedSpeed, Plan, ProbeWork};

/// Bytes of a 16-bit number.
const HALF: f64 = 2.0;
/// The largest tensor of a measured collective, bytes: larger ones are no faster.
const LARGEST: f64 = 1_073_741_824.0;
/// Seconds per hour.
const HOUR: f64 = 3_600.0;

/// A collective to measure, with its predicted seconds.
struct Planned {
    collective: Collective,
    seconds: f64,
}

/// Returns the planned figures of a job and the work that a probe measures.
pub fn expectation(plan: &Plan, prediction: &Prediction, constants: &Constants) -> Expectation {
    let run = prediction.run.as_ref().filter(|run| run.seconds > 0.0);
    // The price of spot instances is mostly unknown; it never exceeds the on-demand price. Without some
    // prices the others are a lower bound, by which a run is stopped later, but never wrongly; an estimate
    // stops none.
    let usd_per_hour = run
        .filter(|_| !plan.has_estimated_price())
        .and_then(|run| Some(run.cost_usd? / run.expected_seconds() * HOUR))
        .or_else(|| billed_per_hour(plan).at_least());
    let Ok(layout) = Layout::from_plan(plan) else {
        return Expectation { usd_per_hour, ..Expectation::default() };
    };
    let constants = constants.for_gpu(layout.hardware.gpu);
    let speed = prediction.speed.as_ref();
    // The rates of the constants alone, which a probe measures.
    let plain = speed.and_then(|_| speed_without_evidence(&layout, constants).ok());
    let products = products(&layout);
    let collectives = collectives(&layout, plain.as_ref());
    let speed = speed.map(|speed| ExpectedSpeed {
        step_seconds: speed.step_seconds,
        is_measured: speed.can_stop_a_job(),
        tokens_per_second: speed.tokens_per_second,
        compute_seconds: speed.parts.compute,
        communication_seconds: speed.parts.exposed_communication,
        product_seconds: products.iter().filter_map(|of| product_seconds(&layout, constants, *of)).sum(),
        attention_seconds: attention_seconds(&layout, constants),
        collective_seconds: collectives.iter().map(|one| one.seconds).collect(),
        constants: measured_constants(&layout, constants, &collectives),
    });
    let tensor = layout.degrees.tensor.max(1.0);
    let model = &layout.model;
    let work = ProbeWork {
        dtype: match layout.precision {
            Precision::Fp32 => "fp32",
            Precision::Mixed { bf16: false } | Precision::Pure16 { bf16: false } => "fp16",
            // Products in 8 bit have their own constant; the others of such a job are in bf16.
            Precision::Mixed { .. } | Precision::Pure16 { .. } | Precision::Fp8(_) => "bf16",
        },
        hidden: whole(model.hidden),
        heads: whole(model.heads / tensor),
        kv_heads: whole((model.kv_heads / tensor).max(1.0)),
        head_dim: whole(model.head_dim),
        ffn: whole(model.ffn / tensor),
        ffn_matrices: whole(model.ffn_matrices),
        is_causal: model.causal,
        sequence_length: whole(layout.work.sequence_length / layout.degrees.context.max(1.0)),
        sequences: whole(layout.work.sequences_at_once()),
        attention: attention_kernel(plan, &layout),
        products: products.iter().map(|of| of.map(whole)).collect(),
        collectives: collectives.into_iter().map(|one| one.collective).collect(),
        order: plan.mesh.as_ref().map(|mesh| mesh.order.clone()).unwrap_or_default(),
        checkpoint_bytes_per_node: if plan.job.checkpoint.is_some() {
            whole(checkpoint_bytes(&layout) / layout.hardware.nodes.max(1.0))
        } else {
            0
        },
    };
    Expectation { speed, usd_per_hour, work: Some(work), further_types: Vec::new() }
}

/// Returns the keys of the constants that a probe of this layout measures.
pub(super) fn probed_keys(layout: &Layout, constants: &Constants) -> Vec<String> {
    let plain = speed_without_evidence(layout, constants).ok();
    let measured = measured_constants(layout, constants, &collectives(layout, plain.as_ref()));
    measured.into_iter().map(|(key, _)| key).collect()
}

/// Returns the constants that a probe of this layout measures, and their values.
fn measured_constants(layout: &Layout, constants: &Constants, collectives: &[Planned]) -> Vec<(String, f64)> {
    let mut out = Vec::new();
    if let Some((kind, gpu)) = layout.hardware.gpu.and_then(|kind| Some((kind, constants.gpu(kind)?))) {
        let word = kind.kind_of_constants().as_str();
        out.push((format!("gpu.{word}.gemm"), gpu.gemm));
        if layout.attention == Attention::Flash {
            out.push((format!("gpu.{word}.flash"), gpu.flash));
        }
    }
    for one in collectives {
        let key = one.collective.constant;
        let name = Name::ALL.iter().find(|(known, _)| *known == key).map(|(_, name)| *name);
        if let Some(name) = name.filter(|_| out.iter().all(|(known, _)| known != key)) {
            out.push((key.to_owned(), constants.get(name)));
        }
    }
    out
}

/// Returns the matrix products of a layer and the head on one GPU: rows, inner dimension, columns.
fn products(layout: &Layout) -> Vec<[f64; 3]> {
    let (model, degrees) = (&layout.model, &layout.degrees);
    let t = degrees.tensor.max(1.0);
    let tokens = layout.work.sequence_length * layout.work.sequences_at_once() / degrees.context.max(1.0);
    let (width, kv) = (model.heads * model.head_dim / t, model.kv_heads * model.head_dim / t);
    let routed = if model.experts > 0.0 {
        tokens * model.active_experts / (model.experts / degrees.expert.max(1.0)).max(1.0)
    } else {
        tokens
    };
    let mut out = vec![
        [tokens, model.hidden, width + 2.0 * kv],
        [tokens, width, model.hidden],
        [routed, model.hidden, model.ffn / t],
        [routed, model.ffn / t, model.hidden],
    ];
    if model.head_vocab > 0.0 {
        out.push([tokens, model.hidden, model.head_vocab / t]);
    }
    out.retain(|of| of.iter().all(|size| *size >= 1.0));
    out
}

/// Returns the predicted seconds of a matrix product in 16 bit, as `speed` computes them.
fn product_seconds(layout: &Layout, constants: &Constants, [m, k, n]: [f64; 3]) -> Option<f64> {
    let peak = layout.hardware.peak_flops?;
    let gemm = constants.gpu(layout.hardware.gpu?)?.gemm;
    let ridge = constants.get(Name::Roofline) * peak / layout.hardware.memory_bytes_per_second?;
    Some(2.0 * m * k * n / (peak * gemm) * (1.0 + ridge * (1.0 / m + 1.0 / k + 1.0 / n)))
}

/// Returns the attention kernel of the job, as the manifest names it or the layout runs it.
fn attention_kernel(plan: &Plan, layout: &Layout) -> &'static str {
    const NAMES: [&str; 6] = ["eager", "sdpa", "fa2", "fa3", "cudnn", "flex"];
    let written = plan.job.train.attention.value();
    let named = written.and_then(|written| NAMES.into_iter().find(|name| name == written));
    named.unwrap_or(match (layout.attention, layout.flash) {
        (Attention::Eager, _) => "eager",
        (Attention::Flash, FlashKernel::Third) => "cudnn",
        (Attention::Flash, FlashKernel::First | FlashKernel::Second) => "sdpa",
    })
}

/// Returns the predicted seconds of FlashAttention, forward and backward, of one layer and micro-batch;
/// `None` for attention that writes its scores.
fn attention_seconds(layout: &Layout, constants: &Constants) -> Option<f64> {
    if layout.attention != Attention::Flash {
        return None;
    }
    let (model, degrees) = (&layout.model, &layout.degrees);
    let s = layout.work.sequence_length / degrees.context.max(1.0);
    let width = model.heads * model.head_dim / degrees.tensor.max(1.0);
    let core = 4.0 * s * s * layout.work.sequences_at_once() * width;
    let seen = if model.causal { 0.5 } else { 1.0 };
    let times = 1.0 + constants.get(Name::FlashBackward);
    let slowness = flash_slowness(layout, constants, constants.gpu(layout.hardware.gpu?)?);
    Some(seen * core * times * slowness / layout.hardware.peak_flops?)
}

/// Returns the collectives of a step on the plan's groups, with their predicted seconds.
fn collectives(layout: &Layout, speed: Option<&Speed>) -> Vec<Planned> {
    let (model, degrees, work) = (&layout.model, &layout.degrees, &layout.work);
    let tensor = degrees.tensor.max(1.0);
    let own = HALF * model.parameters / (tensor * degrees.pipeline.max(1.0));
    let unit = if layout.one_unit { own } else { HALF * model.layer_parameters / tensor };
    let unit = unit.min(LARGEST);
    let links = speed.map(|speed| speed.communication).unwrap_or_default();
    let passes = work.passes.max(1.0);
    let mut out = Vec::new();
    let mut add = |operation, axis, bytes: f64, constant, seconds: f64| {
        if bytes >= 1.0 {
            let collective = Collective { operation, axis, bytes: whole(bytes), constant };
            out.push(Planned { collective, seconds });
        }
    };
    let sharded = matches!(layout.sharding, Sharding::Full | Sharding::Gradients);
    if sharded && degrees.shard > 1.0 {
        let constant = link_constant(layout, Axis::Shard, degrees.shard, "links.fabric");
        let gathers = if layout.sharding == Sharding::Full && !layout.one_unit { 2.0 } else { 1.0 };
        // Seconds that a byte of parameters takes to be gathered once.
        let per_byte = (links.gather - links.scatter) / passes / gathers / own;
        add("all_gather", Some(Axis::Shard), unit, constant, unit * per_byte);
        if layout.lora.is_none() {
            add("reduce_scatter", Some(Axis::Shard), unit, constant, unit * per_byte);
        }
        if degrees.replicas > 1.0 {
            let constant = link_constant(layout, Axis::Replica, degrees.replicas, "links.fabric");
            let (whole_bytes, bytes) = (own / degrees.shard, unit / degrees.shard);
            add("all_reduce", Some(Axis::Replica), bytes, constant, links.replicas / whole_bytes * bytes);
        }
    } else if degrees.data_parallel_ranks() > 1.0 && layout.system != System::DeviceMap {
        let ranks = degrees.data_parallel_ranks();
        let fabric = if super::speed::megatron(layout) { "links.gradients" } else { "links.fabric" };
        let constant = link_constant(layout, Axis::Shard, ranks, fabric);
        // The gradients of all data-parallel ranks: of all ranks, where no other axis divides them.
        if ranks >= degrees.ranks() {
            let trained = layout.lora.map_or(own, |lora| HALF * lora.trainable);
            let bytes = trained.min(LARGEST);
            add("all_reduce", None, bytes, constant, links.gradients / trained * bytes);
        }
    }
    if degrees.tensor > 1.0 {
        let tokens = work.sequence_length * work.sequences_at_once() / degrees.context.max(1.0);
        let layers = (model.layers / degrees.pipeline.max(1.0)).ceil();
        let times = passes * layers * (4.0 + recomputed_work(layout).collectives);
        let constant = link_constant(layout, Axis::Tensor, degrees.tensor, "links.tensor_fabric");
        let bytes = HALF * tokens * model.hidden;
        add("all_reduce", Some(Axis::Tensor), bytes, constant, links.tensor / times);
    }
    out
}

/// Returns the constant that determines a group's bandwidth: that of the links inside a node, or `fabric`
/// between nodes.
fn link_constant(layout: &Layout, axis: Axis, ranks: f64, fabric: &'static str) -> &'static str {
    let hardware = &layout.hardware;
    let (nodes, per_node) = (hardware.nodes, hardware.gpus_per_node);
    let spread = layout.order.group_placement(&layout.degrees, nodes, per_node, axis, ranks);
    if nodes > 1.0 && spread.nodes > 1.0 {
        fabric
    } else if hardware.intra_bytes_per_second.unwrap_or(0.0) > 0.0 {
        "links.nvlink"
    } else {
        "links.pcie_bytes_per_second"
    }
}

/// Rounds a count that is computed as a float.
fn whole(value: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count, 0 or more")]
    let whole = value.max(0.0).round() as u64;
    whole
}
