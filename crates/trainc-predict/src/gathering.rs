//! Sizes of gathered and reduced buckets, from the parameters of an engine.

use super::code::Code;
use super::file_settings::{FileSize, is_on, is_on_disk, number};
use super::from_plan::option;
use trainc_ir::{ModelFacts, Plan, Recompute, Scalar};

/// Limits on gathered sharded weights and on the size of a reduction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gathering {
    /// FSDP: unit that the backward pass gathers in advance.
    pub prefetch: Prefetch,
    /// FSDP: true if the host waits, so that at most two units are gathered (`limit_all_gathers`).
    pub limited: bool,
    /// SMP v1 and ZeRO-3: maximum number of parameters gathered at a time (`sdp_max_live_parameters`,
    /// `stage3_max_live_parameters`).
    pub live_parameters: f64,
    /// SMP v1 and ZeRO: elements of a reduce bucket (`sdp_reduce_bucket_size`, `reduce_bucket_size`).
    pub bucket: f64,
    /// ZeRO-3: parameters within which a gathered one is kept for its next use
    /// (`stage3_max_reuse_distance`).
    pub reuse_distance: f64,
    /// ZeRO-3: parameters that are gathered ahead (`stage3_prefetch_bucket_size`).
    pub prefetched_parameters: f64,
    /// ZeRO-3: ranks over which a second copy of the weights is divided (`zero_hpz_partition_size`); 1 if
    /// there is none.
    pub secondary_shard: f64,
    /// ZeRO-1 and 2: true if buckets are reduced during the backward pass (`overlap_comm`).
    pub overlapped: bool,
}

impl Default for Gathering {
    /// Returns the defaults of PyTorch 2.1 and later, of SMP v1 (SageMaker Python SDK documentation) and of
    /// DeepSpeed 0.19.8 (runtime/zero/config.py).
    fn default() -> Self {
        Self {
            prefetch: Prefetch::Before,
            limited: true,
            live_parameters: 1e9,
            bucket: 5e8,
            reuse_distance: 1e9,
            prefetched_parameters: 5e7,
            secondary_shard: 1.0,
            overlapped: false,
        }
    }
}

/// FSDP's `BackwardPrefetch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetch {
    /// `BACKWARD_PRE`: the next unit is gathered before this one's gradients are computed.
    Before,
    /// `BACKWARD_POST`: the next unit is gathered after them, when this one's weights are freed.
    After,
    /// None: a unit is gathered when it is needed.
    None,
}

impl Gathering {
    /// Returns the setting of a plan: of the manifest's `parallel`, or else of the engine's file.
    pub fn from_plan(plan: &Plan) -> Self {
        let otherwise = Self::default();
        let parallel = plan.job.parallel.as_ref();
        let size = |what, otherwise| number(plan, what).unwrap_or(otherwise);
        let count = |name, what, otherwise| match option(parallel, name) {
            Some(Scalar::Int(count)) => *count as f64,
            _ => size(what, otherwise),
        };
        Self {
            prefetch: match option(parallel, "prefetch") {
                Some(Scalar::Text(what)) if what == "none" => Prefetch::None,
                Some(Scalar::Text(what)) if what == "backward-post" => Prefetch::After,
                _ => otherwise.prefetch,
            },
            limited: option(parallel, "limit-all-gathers") != Some(&Scalar::Bool(false)),
            live_parameters: count(
                "sdp-max-live-parameters",
                FileSize::LiveParameters,
                otherwise.live_parameters,
            ),
            bucket: count("sdp-reduce-bucket-size", FileSize::Bucket, otherwise.bucket),
            reuse_distance: size(FileSize::ReuseDistance, otherwise.reuse_distance),
            prefetched_parameters: size(FileSize::PrefetchedParameters, otherwise.prefetched_parameters),
            secondary_shard: size(FileSize::SecondaryShard, otherwise.secondary_shard).max(1.0),
            overlapped: is_on(plan, FileSize::Overlapped).unwrap_or(otherwise.overlapped),
        }
    }
}

/// Engine parameters that change memory or time in ways that are not modelled.
const UNCOUNTED: [&str; 9] = [
    "min-parameters",
    "optimize",
    "auto-partition",
    "default-partition",
    "memory-weight",
    "delayed-parameter-initialization",
    "fp16-params",
    "sdp-param-persistence-threshold",
    "sdp-hierarchical-allgather",
];

/// Returns the written engine parameters that neither memory nor time models.
pub fn unmodelled_options(plan: &Plan) -> Vec<&'static str> {
    let written = plan.job.parallel.iter().flat_map(|parallel| &parallel.options);
    let options = written.map(|option| option.name).filter(|name| UNCOUNTED.contains(name));
    // Every pipeline is assumed to use the plain schedule, one forward and one backward.
    let schedule = plan.job.parallel.as_ref().is_some_and(|parallel| parallel.schedule.value().is_some());
    options.chain(schedule.then_some("schedule")).collect()
}

/// Returns the settings that are approximated by others: the member of the prediction, and the note.
pub fn approximated_settings(plan: &Plan) -> Vec<(&'static str, String)> {
    let job = &plan.job;
    let mut out = Vec::new();
    let optimizer = job.train.optimizer.as_ref().and_then(|optimizer| optimizer.name.value());
    let gpu = plan.machine.as_ref().is_some_and(|machine| machine.gpu.is_some());
    if plan.is_worker() && gpu {
        let words = "engine `worker` is timed by the constants of FSDP: no run of it was measured on any GPU";
        out.push(("speed.step_seconds", words.to_owned()));
    }
    if is_on_disk(plan, FileSize::OptimizerDevice) || is_on_disk(plan, FileSize::ParameterDevice) {
        let words = "states on local disks are timed as states in host memory".to_owned();
        out.push(("speed.parts.offload", words));
    }
    // One traffic figure for all optimizers, fitted to runs of AdamW; their memory is modelled separately.
    if let Some(name) = optimizer.filter(|name| !name.starts_with("adam") || name.contains("8bit")) {
        out.push(("speed.parts.optimizer", format!("the optimizer step of `{name}` is modelled as AdamW's")));
    }
    if job.quantize.as_ref().and_then(|quantize| quantize.kind.value()).is_some_and(|kind| kind == "int8") {
        let words = "`int8` is modelled as weights that are dequantised for each matrix multiplication, as \
            NF4 is; the separate multiplication of outliers is not modelled";
        out.push(("speed.parts.compute", words.to_owned()));
    }
    let code = job.program.as_ref().and_then(|program| Code::parse(program.code.value()?));
    let eager = job.train.flash_attention.get() == Some(false) && code != Some(Code::Torchtitan);
    if eager && job.train.activation_checkpointing.get() == Some(Recompute::Selective) {
        let words = "`selective` is assumed to recompute only the attention core (Korthikanti et al. 2022); \
            a script with another choice has another step time";
        out.push(("speed.parts.compute", words.to_owned()));
    }
    out.extend(plan.model.iter().flat_map(approximated_parts));
    out
}

/// Returns what memory and time leave out of a model, or estimate, by the member of plan.json and the fact.
fn approximated_parts(model: &ModelFacts) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    let Some(architecture) = &model.architecture else { return out };
    let class = model.class.unwrap_or(architecture.default_class());
    if architecture.parameters_for_class(class).is_some_and(|count| count.towers > 0) {
        let names: Vec<&str> = architecture.towers.iter().map(|tower| tower.name).collect();
        let words = format!(
            "excludes activations and FLOP of the {}, since the number of patches in a sequence \
                is not known; weights, gradients and optimizer states are included",
            names.join(" and the ")
        );
        out.push(("memory.parts.activations", words));
    }
    let saved = architecture.layer_kinds.iter().flat_map(|kind| &kind.saved);
    let mut parts: Vec<&str> =
        saved.filter(|part| part.transformers.is_none() && part.matrices > 0).map(|part| part.part).collect();
    parts.sort_unstable();
    parts.dedup();
    if !parts.is_empty() {
        let words = format!(
            "layers with `{}` are assumed to keep the inputs and outputs of their matrices: what \
                they keep was not measured",
            parts.join("` and `")
        );
        out.push(("memory.parts.activations", words));
    }
    out
}
