//! The launcher of the ranks, and its hyperparameters as the SageMaker SDK v2 sends them.

use super::python::{json_object, json_text};
use trainc_ir::digest::python_float;
use trainc_ir::{Engine, Field, Parallel, Plan, Scalar, Smp};

/// Returns the hyperparameters of the launcher, in the encoding of the SDK.
pub(super) fn hyperparameters(plan: &Plan) -> Vec<(String, String)> {
    let Some(parallel) = &plan.job.parallel else { return Vec::new() };
    let mut out: Vec<(String, String)> = Vec::new();
    let mut put = |key: &str, value: String| out.push((key.to_owned(), value));
    match (parallel.engine.get(), launcher(plan)) {
        (Some(Engine::Fsdp | Engine::Ddp), Launcher::Torchrun) => {
            put("sagemaker_torch_distributed_enabled", "true".to_owned());
            if let Some(instance) = instance(plan) {
                put("sagemaker_instance_type", instance);
            }
        }
        (Some(Engine::Ddp), Launcher::PytorchDdp) => {
            if is_huggingface(plan) {
                put("sagemaker_pytorch_ddp_enabled", "true".to_owned());
            } else {
                // The PyTorch estimator rewrites pytorchddp to SMDDP (SDK 2.257.7, captured).
                put("sagemaker_distributed_dataparallel_enabled", "true".to_owned());
                put("sagemaker_distributed_dataparallel_custom_mpi_options", json_text(""));
            }
            if let Some(instance) = instance(plan) {
                put("sagemaker_instance_type", instance);
            }
        }
        (Some(Engine::Ddp), Launcher::Mpi) => {
            put("sagemaker_mpi_enabled", "true".to_owned());
            if let Some(processes) = parallel.processes.get() {
                put("sagemaker_mpi_num_of_processes_per_host", processes.to_string());
            }
            put("sagemaker_mpi_custom_mpi_options", json_text(&mpi_options(parallel)));
        }
        (Some(Engine::Smddp), _) => {
            put("sagemaker_distributed_dataparallel_enabled", "true".to_owned());
            put("sagemaker_distributed_dataparallel_custom_mpi_options", json_text(&mpi_options(parallel)));
            if let Some(instance) = instance(plan) {
                put("sagemaker_instance_type", instance);
            }
        }
        (Some(Engine::Smp), _) => {
            let v2 = plan.smp == Some(Smp::V2);
            if v2 {
                put("sagemaker_torch_distributed_enabled", "true".to_owned());
            } else {
                put("sagemaker_mpi_enabled", "true".to_owned());
                if let Some(mesh) = &plan.mesh {
                    put(
                        "sagemaker_mpi_num_of_processes_per_host",
                        processes_per_host(plan).unwrap_or(mesh.gpus_per_node).to_string(),
                    );
                }
                put("sagemaker_mpi_custom_mpi_options", json_text(&mpi_options(parallel)));
            }
            put("sagemaker_distributed_dataparallel_enabled", "false".to_owned());
            if let Some(instance) = instance(plan) {
                put("sagemaker_instance_type", instance);
            }
            let members = smp_parameters(plan);
            let members: Vec<(&str, Scalar)> =
                members.iter().map(|(key, value)| (*key, value.clone())).collect();
            put("mp_parameters", json_object(&members));
        }
        _ => {}
    }
    if let Some(group) = distribution_group(plan) {
        put("sagemaker_distribution_instance_groups", serde_json::json!([group]).to_string());
    }
    out
}

/// Returns the instance group on whose hosts the toolkit starts the launcher; on others it runs the script as a plain process.
/// The SDK sets the only group of a cluster automatically, except for torchrun (2.257.7); without the key the toolkit uses
/// the group of each host (aws/sagemaker-training-toolkit `environment.py`).
fn distribution_group(plan: &Plan) -> Option<&str> {
    let launcher = launcher(plan);
    let is_optional = match launcher {
        Launcher::Torchrun => true,
        Launcher::PytorchDdp => is_huggingface(plan),
        _ => false,
    };
    let is_written = !plan.job.parallel.as_ref()?.group.is_absent();
    if launcher == Launcher::Plain || (is_optional && !is_written) {
        return None;
    }
    plan.job.rank_group()?.name.value().map(String::as_str)
}

/// Returns the processes per host under MPI: as written, else one per GPU.
pub(super) fn processes_per_host(plan: &Plan) -> Option<u64> {
    let written = plan.job.parallel.as_ref().and_then(|parallel| parallel.processes.get());
    written.or_else(|| plan.machine.as_ref().map(|machine| machine.gpus_per_node))
}

/// The launcher of a job's ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// `torchrun`.
    Torchrun,
    /// `pytorchddp` of the toolkit.
    PytorchDdp,
    /// `mpirun`.
    Mpi,
    /// `smddprun` of the SageMaker data parallel library.
    Smddp,
    /// `mpirun` with SageMaker model parallel v1.
    SmpV1,
    /// `torchrun` with SageMaker model parallel v2.
    SmpV2,
    /// One plain process on each host.
    Plain,
}

/// Returns the launcher of a plan's engine.
pub fn launcher(plan: &Plan) -> Launcher {
    let Some(parallel) = &plan.job.parallel else { return Launcher::Plain };
    match parallel.engine.get() {
        Some(Engine::Fsdp) => Launcher::Torchrun,
        Some(Engine::Ddp) => match parallel.launcher.value().map(String::as_str) {
            Some("mpi") => Launcher::Mpi,
            Some("pytorchddp") => Launcher::PytorchDdp,
            _ => Launcher::Torchrun,
        },
        Some(Engine::Smddp) => Launcher::Smddp,
        Some(Engine::Smp) if plan.smp == Some(Smp::V2) => Launcher::SmpV2,
        Some(Engine::Smp) => Launcher::SmpV1,
        Some(Engine::DeviceMap | Engine::Worker | Engine::None) | None => Launcher::Plain,
    }
}

/// Names the launcher, for reports.
pub fn launcher_words(plan: &Plan) -> &'static str {
    match launcher(plan) {
        Launcher::Torchrun => "torchrun",
        Launcher::PytorchDdp => "pytorchddp",
        Launcher::Mpi => "mpirun",
        Launcher::Smddp => "smddprun",
        Launcher::SmpV1 => "mpirun with SMP v1",
        Launcher::SmpV2 => "torchrun with SMP v2",
        Launcher::Plain => "one plain process on each host",
    }
}

/// Returns the instance type. For instance groups the SDK omits it, or sends `null` for `smdistributed` (2.257.7, measured),
/// whose launchers choose their network by it; these get the type of the group on which they run.
fn instance(plan: &Plan) -> Option<String> {
    let cluster = plan.job.cluster.as_ref()?;
    if cluster.groups.is_empty() {
        return plan.job.container_instance().map(json_text);
    }
    match launcher(plan) {
        Launcher::Smddp | Launcher::SmpV1 | Launcher::SmpV2 => {
            plan.job.rank_group()?.instance.value().map(|name| json_text(name))
        }
        _ => None,
    }
}

pub(super) fn is_huggingface(plan: &Plan) -> bool {
    plan.image.as_ref().is_some_and(|image| image.family == "huggingface")
}

/// Returns the MPI options: `-x K=V …`, then those as written.
pub(super) fn mpi_options(parallel: &Parallel) -> String {
    let mut words: Vec<String> = parallel
        .mpi_env
        .iter()
        .filter_map(|pair| Some(format!("-x {}={}", pair.key, pair.value.value()?)))
        .collect();
    if let Some(options) = parallel.mpi_options.value() {
        words.push(options.clone());
    }
    words.join(" ")
}

/// Returns the `parameters` of `smdistributed.modelparallel`, in a fixed order.
pub(super) fn smp_parameters(plan: &Plan) -> Vec<(&'static str, Scalar)> {
    let (Some(parallel), Some(mesh)) = (&plan.job.parallel, &plan.mesh) else { return Vec::new() };
    let mut out: Vec<(&'static str, Scalar)> = Vec::new();
    let int = |n: u64| Scalar::Int(i128::from(n));
    if plan.smp == Some(Smp::V2) {
        // If omitted, SMP would choose a degree that may differ from the plan.
        out.push(("hybrid_shard_degree", int(mesh.shard_degree.value)));
        for (key, field) in [
            ("tensor_parallel_degree", &parallel.tensor_degree),
            ("context_parallel_degree", &parallel.context_degree),
            ("expert_parallel_degree", &parallel.expert_degree),
        ] {
            if let Some(degree) = field.get() {
                out.push((key, int(degree)));
            }
        }
        if let Some(on) = parallel.offload_activations.get() {
            out.push(("sm_activation_offloading", Scalar::Bool(on)));
        }
        if let Some(horizon) = parallel.offload_horizon.get() {
            out.push(("activation_loading_horizon", int(horizon)));
        }
        out.extend(pass_through(parallel));
        return out;
    }
    let data_parallel = mesh.world_size > mesh.pipeline_degree.value;
    let written_ddp = parallel.options.iter().find(|option| option.name == "ddp").map(|option| &option.value);
    match written_ddp {
        Some(Field::Is(val)) => out.push(("ddp", val.value.clone())),
        _ if needs_ddp(plan, data_parallel) => out.push(("ddp", Scalar::Bool(true))),
        _ => {}
    }
    if parallel.tensor_degree.get().is_some() {
        out.push(("tensor_parallel_degree", int(mesh.tensor_degree.value)));
    }
    if let Some(n) = parallel.num_micro_batches.get() {
        out.push(("microbatches", int(n)));
    }
    out.push(("partitions", int(mesh.pipeline_degree.value)));
    if let Some(schedule) = parallel.schedule.value() {
        out.push(("pipeline", Scalar::Text(schedule.clone())));
    }
    if let Some(n) = parallel.num_active_micro_batches.get() {
        out.push(("active_microbatches", int(n)));
    }
    if let Some(placement) = parallel.placement.value() {
        out.push(("placement_strategy", Scalar::Text(placement.clone())));
    }
    if let Some(on) = parallel.shard_optimizer_state.get() {
        out.push(("shard_optimizer_state", Scalar::Bool(on)));
    }
    if let Some(on) = parallel.prescaled_batch.get() {
        out.push(("prescaled_batch", Scalar::Bool(on)));
    }
    if let Some(degree) = parallel.shard_degree.get() {
        out.push(("sharded_data_parallel_degree", int(degree)));
    }
    if let Some(on) = parallel.offload_activations.get() {
        out.push(("offload_activations", Scalar::Bool(on)));
    }
    if let Some(horizon) = parallel.offload_horizon.get() {
        out.push(("activation_loading_horizon", int(horizon)));
    }
    match plan.job.train.precision.value().map(String::as_str) {
        Some("bf16") => out.push(("bf16", Scalar::Bool(true))),
        Some("fp16") => out.push(("fp16", Scalar::Bool(true))),
        _ => {}
    }
    out.extend(pass_through(parallel).into_iter().filter(|(key, _)| *key != "ddp"));
    out
}

/// Returns whether SMP v1 requires `ddp`: with tensor parallelism, sharding, sharded optimizer states, or data parallelism
/// (SDK documentation of `ddp`: "must be set to true if there is data parallelism").
fn needs_ddp(plan: &Plan, data_parallel: bool) -> bool {
    let Some(parallel) = &plan.job.parallel else { return false };
    data_parallel
        || parallel.tensor_degree.get().is_some_and(|degree| degree > 1)
        || parallel.shard_degree.get().is_some_and(|degree| degree > 1)
        || parallel.shard_optimizer_state.get() == Some(true)
}

fn pass_through(parallel: &Parallel) -> Vec<(&'static str, Scalar)> {
    parallel
        .options
        .iter()
        .filter_map(|option| Some((smp_name(option.name)?, option.value.value()?.clone())))
        .collect()
}

/// Returns SMP's name of a parameter that is passed through.
pub fn smp_name(name: &str) -> Option<&'static str> {
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

/// Returns the argument that the toolkit passes to the script: `str()` of the decoded value.
pub fn python_str(value: &Scalar) -> String {
    match value {
        Scalar::Text(text) => text.clone(),
        Scalar::Int(n) => n.to_string(),
        Scalar::Float(x) => python_float(*x),
        Scalar::Bool(true) => "True".to_owned(),
        Scalar::Bool(false) => "False".to_owned(),
        Scalar::Null => "None".to_owned(),
    }
}
