//! A run as a row of a table for `calibrate`.

use super::part::Job;
use super::steps::{Measured, Median};
use crate::row_layout::low_rank_parameters;
use std::collections::BTreeMap;
use trainc_ir::Plan;
use trainc_ir::engine::Law;
use trainc_predict::evidence::release as image_release;
use trainc_predict::memory::MeasuredAs;
use trainc_predict::{Attention, Layout, Moments, Precision, Quantisation, Recompute};

const GIB: f64 = 1_073_741_824.0;

/// Returns the cells of a finished run by column: the job, its machines, and how long it took; `None` if it
/// did not finish. The steps of such a job need not be predictable.
pub fn finished_cells(
    plan: &Plan,
    job: Option<&Job>,
    id: &str,
    date: &str,
) -> Option<BTreeMap<&'static str, String>> {
    let job = job.filter(|job| job.is_completed())?;
    let seconds = job.seconds.filter(|seconds| *seconds > 0.0)?;
    let instance = job.instance.clone().or_else(|| plan.job.cluster.as_ref()?.instance.value().cloned())?;
    let cells = [
        ("id", id.to_owned()),
        ("family", instance.clone()),
        ("source", "trainc report".to_owned()),
        ("year", date.get(..4).unwrap_or_default().to_owned()),
        ("date", date.to_owned()),
        ("job", plan.job.name.value()?.clone()),
        ("instance", instance),
        ("nodes", job.instances.to_string()),
        ("software", image_release(plan).unwrap_or_default().to_string()),
        ("oom", "0".to_owned()),
        ("billed_seconds", format!("{}", seconds.round())),
    ];
    Some(cells.into_iter().filter(|(_, cell)| !cell.is_empty()).collect())
}

/// Returns the cells of a run by column: the layout as `calibrate` needs it, and the measurements. `None` if
/// the layout is unknown. `date` is that of the run, an ISO date.
pub fn table_cells(
    plan: &Plan,
    measured: &Measured,
    id: &str,
    date: &str,
) -> Option<BTreeMap<&'static str, String>> {
    let layout = Layout::from_plan(plan).ok()?;
    let facts = plan.model.as_ref()?;
    let (model, hardware, degrees) = (&layout.model, &layout.hardware, &layout.degrees);
    let mut out = BTreeMap::new();
    let mut put = |column: &'static str, value: String| {
        if !value.is_empty() {
            out.insert(column, value);
        }
    };
    let number = |value: f64| format!("{value}");
    put("id", id.to_owned());
    // Rows of one family share hardware and software.
    let instance = plan.job.cluster.as_ref().and_then(|cluster| cluster.instance.value());
    let pytorch = plan.image.as_ref().and_then(|image| image.pytorch.as_deref());
    let family = [instance.map(String::as_str), pytorch].into_iter().flatten().collect::<Vec<_>>().join(" ");
    put("family", family);
    put("source", "trainc report".to_owned());
    put("year", date.get(..4).unwrap_or_default().to_owned());
    put("date", date.to_owned());
    put("job", plan.job.name.value().cloned().unwrap_or_default());
    put("instance", instance.cloned().unwrap_or_default());
    put("software", layout.release.as_deref().unwrap_or_default().to_owned());
    put("framework", pytorch.map_or_else(String::new, |version| format!("PyTorch {version}")));
    put("engine", engine_column(plan, &layout));
    put("model", facts.name.clone());
    put("params", number(model.parameters));
    put("layers", number(model.layers));
    put("hidden", number(model.hidden));
    put("heads", number(model.heads));
    put("kv_heads", number(model.kv_heads));
    put("ffn", number(model.ffn));
    put("vocab", number(model.vocab));
    put("seq", number(layout.work.sequence_length));
    put("gpu", plan.machine.as_ref()?.gpu.clone()?);
    put("gpu_mem_gib", hardware.memory_bytes.map_or_else(String::new, |bytes| number((bytes / GIB).round())));
    put("gpus_per_node", number(hardware.gpus_per_node));
    put("nodes", number(hardware.nodes));
    let gbps = |bytes: Option<f64>| bytes.map_or_else(String::new, |bytes| number(bytes * 8.0 / 1e9));
    put("intra_bw_gbps", gbps(hardware.intra_bytes_per_second));
    put("inter_bw_gbps", gbps(hardware.inter_bytes_per_second));
    put("precision", precision(&layout));
    put("shard_degree", number(degrees.shard / degrees.context));
    put("tp", number(degrees.tensor));
    put("pp", number(degrees.pipeline));
    put("cp", number(degrees.context));
    put("ep", number(degrees.expert));
    put("dp_replicas", number(degrees.replicas));
    put("micro_batch", number(layout.work.micro_batch_size));
    put("global_batch_sequences", number(layout.work.global_sequences));
    put("grad_accum", number(layout.work.passes));
    put(
        "recompute",
        match layout.recompute {
            Recompute::None => "none",
            Recompute::Selective | Recompute::Operations => "selective",
            Recompute::Full => "full",
            // A table has no word for recomputation of a part of the layers.
            Recompute::Share(_) => "",
        }
        .to_owned(),
    );
    put("flash", if layout.attention == Attention::Flash { "1" } else { "0" }.to_owned());
    if hardware.efa && hardware.nodes > 1.0 {
        put("fabric", "efa".to_owned());
    }
    let written = plan.job.program.as_ref().and_then(|program| program.code.value());
    put("code", written.map_or(layout.code.as_str(), String::as_str).to_owned());
    put("compiled", if layout.compiled { "1" } else { "0" }.to_owned());
    // The rank that gives as many parameters on all linear layers, as the column means it.
    let rank = layout.lora.map(|lora| lora.trainable / low_rank_parameters(model, 1.0));
    put("lora_rank", rank.map_or_else(String::new, number));
    put(
        "fp8_recipe",
        layout.precision.fp8_recipe().map_or_else(String::new, |recipe| recipe.as_str().to_owned()),
    );
    let narrow = matches!(layout.precision, Precision::Pure16 { bf16: true });
    put("state_dtype", if narrow { "bf16" } else { "" }.to_owned());
    put(
        "grad_dtype",
        layout
            .gradient_bytes
            .map_or_else(String::new, |bytes| if bytes < 4.0 { "bf16" } else { "fp32" }.to_owned()),
    );
    put("attention", plan.job.train.attention.value().cloned().unwrap_or_default());
    put("loss", plan.job.train.loss.value().cloned().unwrap_or_default());
    put("gated", if model.ffn_matrices > 2.5 { "1" } else { "0" }.to_owned());
    let offload = &layout.offload;
    let kinds = [
        (offload.activations, "activations"),
        (offload.parameters, "parameters"),
        (offload.optimizer, "optimizer"),
        (offload.paged, "paged"),
    ];
    put("offload", kinds.iter().filter(|(on, _)| *on).map(|(_, word)| *word).collect::<Vec<_>>().join(" "));
    put("oom", if measured.out_of_memory { "1" } else { "0" }.to_owned());
    if !measured.out_of_memory {
        put("step_s", measured.step_seconds.map_or_else(String::new, |median| number(median.value)));
        put("step_spread", measured.step_seconds.and_then(relative_spread).map_or_else(String::new, number));
        put(
            "tokens_per_s",
            measured.tokens_per_second.map_or_else(String::new, |median| number(median.value)),
        );
        put(
            "samples_per_s",
            measured.samples_per_second.map_or_else(String::new, |median| number(median.value)),
        );
        put("mfu", measured.mfu.map_or_else(String::new, |median| number(median.value)));
    }
    if let Some((bytes, kind)) = measured.memory {
        put("peak_mem_gib", number(bytes / GIB));
        let kind = match kind {
            MeasuredAs::Allocated => "allocated",
            MeasuredAs::Reserved => "reserved",
            MeasuredAs::Whole => "smi",
        };
        put("mem_kind", kind.to_owned());
    }
    let of = measured.step_seconds.map_or(0, |median| median.of);
    if let (Some(from), Some((first, last))) = (measured.step_from, measured.steps) {
        put("notes", format!("median of {of} reports, steps {first} to {last}; step time is {from}"));
    }
    Some(out)
}

/// Returns the standard deviation of normally distributed figures with these quartiles, a fraction of their
/// median; `None` of a single figure.
fn relative_spread(median: Median) -> Option<f64> {
    /// Standard deviations from the median to a quartile.
    const QUARTILE: f64 = 0.6745;
    let spread = (median.high - median.low) / (2.0 * QUARTILE * median.value);
    (median.of > 1 && spread.is_finite()).then(|| (spread * 1e5).round() / 1e5)
}

/// Returns the engine in the words of a table of runs.
fn engine_column(plan: &Plan, layout: &Layout) -> String {
    let law = plan.mesh.as_ref().map_or(&Law::PLAIN, |mesh| mesh.law);
    let mut out = law.measured_as(layout.sharding).to_owned();
    if layout.ulysses {
        out.push_str(" + Ulysses");
    }
    if layout.lora.is_some() {
        out.push_str(" LoRA");
    }
    if matches!(layout.moments, Moments::TwoInt8 { .. }) {
        out.push_str(" 8-bit");
    }
    out
}

fn precision(layout: &Layout) -> String {
    let mut out = match layout.precision {
        Precision::Fp8(_) => "fp8",
        Precision::Fp32 => "fp32",
        Precision::Mixed { bf16: true } | Precision::Pure16 { bf16: true } => "bf16",
        Precision::Mixed { bf16: false } | Precision::Pure16 { bf16: false } => "fp16",
    }
    .to_owned();
    match layout.quantisation {
        Some(Quantisation::Nf4 { double }) => out.push_str(if double { " nf4 dq" } else { " nf4" }),
        Some(Quantisation::Int8) => out.push_str(" int8"),
        None => {}
    }
    out
}
