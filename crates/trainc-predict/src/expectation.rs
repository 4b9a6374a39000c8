//! The planned figures of a run and the work that a probe of its cluster measures, for scripts in the job's
//! containers.

use super::bills::billed_per_hour;
use super::constants::Constants;
use super::layout::{Attention, FlashKernel, Layout, Precision};
use super::prediction::{Prediction, round_to_u64};
use super::run::checkpoint_bytes;
use super::speed::{Operations, Product, Transfer};
use trainc_ir::{Axis, Collective, Expectation, ExpectedSpeed, Plan, ProbeWork};

/// Bytes of a 16-bit number.
const HALF: f64 = 2.0;
/// The largest tensor of a measured collective, bytes: larger ones are no faster.
const LARGEST: f64 = 1_073_741_824.0;
/// Seconds per hour.
const HOUR: f64 = 3_600.0;

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
    // By the constants alone, which a probe measures.
    let operations = Operations::new(&layout, constants);
    let is_measurable = |shape: &[f64; 3]| shape.iter().all(|size| *size >= 1.0);
    let products: Vec<&Product> =
        operations.products.iter().filter(|one| is_measurable(&one.shape)).collect();
    let collectives = collectives(&layout, &operations);
    let speed = speed.map(|speed| ExpectedSpeed {
        step_seconds: speed.step_seconds,
        is_measured: speed.can_stop_a_job(),
        tokens_per_second: speed.tokens_per_second,
        compute_seconds: speed.parts.compute,
        communication_seconds: speed.parts.exposed_communication,
        product_seconds: products.iter().filter_map(|one| one.seconds).sum(),
        attention_seconds: operations.attention,
        collective_seconds: collectives.iter().filter_map(|one| one.seconds).collect(),
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
        hidden: round_to_u64(model.hidden),
        heads: round_to_u64(model.heads / tensor),
        kv_heads: round_to_u64((model.kv_heads / tensor).max(1.0)),
        head_dim: round_to_u64(model.head_dim),
        ffn: round_to_u64(model.ffn / tensor),
        ffn_matrices: round_to_u64(model.ffn_matrices),
        is_causal: model.causal,
        sequence_length: round_to_u64(layout.work.sequence_length / layout.degrees.context.max(1.0)),
        sequences: round_to_u64(layout.work.sequences_at_once()),
        attention: attention_kernel(plan, &layout),
        products: products.iter().map(|one| one.shape.map(round_to_u64)).collect(),
        collectives: collectives.iter().map(Collective::from).collect(),
        order: plan.mesh.as_ref().map(|mesh| mesh.order.clone()).unwrap_or_default(),
        checkpoint_bytes_per_node: if plan.job.checkpoint.is_some() {
            round_to_u64(checkpoint_bytes(&layout) / layout.hardware.nodes.max(1.0))
        } else {
            0
        },
    };
    Expectation { speed, usd_per_hour, work: Some(work), further_types: Vec::new() }
}

/// Returns the keys of the constants that a probe of this layout measures.
pub(super) fn probed_keys(layout: &Layout, constants: &Constants) -> Vec<String> {
    let collectives = collectives(layout, &Operations::new(layout, constants));
    let measured = measured_constants(layout, constants, &collectives);
    measured.into_iter().map(|(key, _)| key).collect()
}

/// Returns the constants that a probe of this layout measures, and their values.
fn measured_constants(
    layout: &Layout,
    constants: &Constants,
    collectives: &[Transfer],
) -> Vec<(String, f64)> {
    let mut out = Vec::new();
    if let Some((kind, gpu)) = layout.hardware.gpu.and_then(|kind| Some((kind, constants.gpu(kind)?))) {
        let word = kind.kind_of_constants().as_str();
        out.push((format!("gpu.{word}.gemm"), gpu.gemm));
        if layout.attention == Attention::Flash {
            out.push((format!("gpu.{word}.flash"), gpu.flash));
        }
    }
    for one in collectives {
        let key = one.constant.key();
        if out.iter().all(|(known, _)| known != key) {
            out.push((key.to_owned(), constants.get(one.constant)));
        }
    }
    out
}

impl From<&Transfer> for Collective {
    fn from(one: &Transfer) -> Self {
        Self {
            operation: one.operation,
            axis: one.axis,
            bytes: round_to_u64(one.bytes),
            constant: one.constant.key(),
        }
    }
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

/// Returns the collectives of a step that a probe measures: on the bytes of one unit of a sharded model, and
/// no more than [`LARGEST`].
fn collectives(layout: &Layout, operations: &Operations) -> Vec<Transfer> {
    let (model, degrees) = (&layout.model, &layout.degrees);
    let own = HALF * model.parameters / (degrees.tensor.max(1.0) * degrees.pipeline.max(1.0));
    let unit = if layout.one_unit { own } else { HALF * model.layer_parameters / degrees.tensor.max(1.0) };
    let unit = unit.min(LARGEST);
    let trained = layout.lora.map_or(own, |lora| HALF * lora.trainable).min(LARGEST);
    let sized = operations.transfers.iter().map(|one| {
        one.with_bytes(match one.axis {
            Some(Axis::Shard) => unit,
            Some(Axis::Replica) => unit / degrees.shard,
            None => trained,
            Some(_) => one.bytes,
        })
    });
    sized.filter(|one| one.bytes >= 1.0).collect()
}
