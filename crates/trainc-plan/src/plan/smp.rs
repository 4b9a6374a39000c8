//! The generation of SageMaker model parallel (SMP) that a job runs.

use trainc_catalog::smp::{SmpVersion, parameter};
use trainc_catalog::{images, support};
use trainc_ir::{Engine, Image, Job, Plan, Smp};

/// Returns true if SMP for this PyTorch version is the second generation.
pub(super) fn is_smp_v2(pytorch: &str) -> bool {
    images::version_key(pytorch) >= images::version_key("2.0.1") && pytorch != "2.0" || pytorch == "2.0.1"
}

/// Returns the SMP generation of the image.
pub(super) fn generation(job: &Job, image: Option<&Image>) -> Option<Smp> {
    if job.parallel.as_ref()?.engine.get()? != Engine::Smp {
        return None;
    }
    let image = image?;
    if image.family == "smp" {
        return Some(Smp::V2);
    }
    let version = image.pytorch.as_deref()?;
    if image.family == "pytorch" && is_smp_v2(version) {
        return Some(Smp::V2);
    }
    Some(Smp::V1(support::library(support::Engine::SmpV1, version).map(|library| library.version)))
}

/// Returns true if SMP v2 splits the sequences of the plan's model family without changes to the script.
pub fn splits_sequences(plan: &Plan) -> bool {
    let family = plan.model.as_ref().and_then(|model| Some(model.architecture.as_ref()?.family.name()));
    matches!(plan.smp, Some(Smp::V2))
        && parameter(SmpVersion::V2, "context_parallel_degree")
            .is_some_and(|row| row.families.iter().any(|name| Some(name.as_str()) == family))
}

/// Returns SMP's name of a parameter that is passed through.
pub fn smp_parameter_name(name: &str) -> Option<&'static str> {
    Some(match name {
        "optimize" => "optimize",
        "auto-partition" => "auto_partition",
        "default-partition" => "default_partition",
        "contiguous" => "contiguous",
        "horovod" => "horovod",
        "memory-weight" => "memory_weight",
        "ddp" => "ddp",
        "ddp-port" => "ddp_port",
        "ddp-dist-backend" => "ddp_dist_backend",
        "deterministic-server" => "deterministic_server",
        "skip-tracing" => "skip_tracing",
        "delayed-parameter-initialization" => "delayed_parameter_initialization",
        "fp16-params" => "fp16_params",
        "sdp-reduce-bucket-size" => "sdp_reduce_bucket_size",
        "sdp-param-persistence-threshold" => "sdp_param_persistence_threshold",
        "sdp-max-live-parameters" => "sdp_max_live_parameters",
        "sdp-hierarchical-allgather" => "sdp_hierarchical_allgather",
        "sdp-gradient-clipping" => "sdp_gradient_clipping",
        "fsdp-cache-flush-warnings" => "fsdp_cache_flush_warnings",
        "allow-empty-shards" => "allow_empty_shards",
        "random-seed" => "random_seed",
        _ => return None,
    })
}
