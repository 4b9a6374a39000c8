//! Decides the launcher of the ranks and the parameters that it gets.

use super::smp::smp_parameter_name;
use trainc_catalog::{images, support};
use trainc_ir::{Engine, Field, Launch, Launcher, Mesh, Parallel, Plan, Scalar, Smp};

/// Returns the launch of a bound plan; before binding, options may contain placeholders.
pub(super) fn launch(plan: &Plan) -> Launch {
    let Some(parallel) = &plan.job.parallel else { return Launch::default() };
    let launcher = match launcher(parallel, plan.smp.as_ref()) {
        Launcher::Torchrun if needs_launch_script(plan) => Launcher::LaunchScript,
        launcher => launcher,
    };
    let is_huggingface = plan.image.as_ref().is_some_and(|image| image.family == "huggingface");
    let is_rewritten_to_smddp = launcher == Launcher::PytorchDdp && !is_huggingface;
    Launch {
        launcher,
        is_rewritten_to_smddp,
        processes_per_host: processes_per_host(plan, parallel, launcher),
        mpi_options: match launcher {
            Launcher::Mpi | Launcher::Smddp | Launcher::SmpV1 => mpi_options(parallel),
            Launcher::Torchrun
            | Launcher::LaunchScript
            | Launcher::PytorchDdp
            | Launcher::SmpV2
            | Launcher::ParameterServer
            | Launcher::MultiWorkerMirrored
            | Launcher::Plain => String::new(),
        },
        instance: instance(plan, launcher),
        group: group(plan, parallel, (launcher, is_rewritten_to_smddp)),
        smp_parameters: match (launcher, &plan.mesh) {
            (Launcher::SmpV1, Some(mesh)) => smp_v1_parameters(plan, parallel, mesh),
            (Launcher::SmpV2, Some(mesh)) => smp_v2_parameters(parallel, mesh),
            _ => Vec::new(),
        },
    }
}

fn launcher(parallel: &Parallel, smp: Option<&Smp>) -> Launcher {
    match parallel.engine.get() {
        Some(Engine::Fsdp) => Launcher::Torchrun,
        Some(Engine::Ddp) => match parallel.launcher.value().map(String::as_str) {
            Some("mpi") => Launcher::Mpi,
            Some("pytorchddp") => Launcher::PytorchDdp,
            _ => Launcher::Torchrun,
        },
        Some(Engine::Smddp) => Launcher::Smddp,
        Some(Engine::Smp) if smp == Some(&Smp::V2) => Launcher::SmpV2,
        Some(Engine::Smp) => Launcher::SmpV1,
        Some(Engine::None) => match parallel.launcher.value().map(String::as_str) {
            Some("parameter-server") => Launcher::ParameterServer,
            Some("multi-worker-mirrored") => Launcher::MultiWorkerMirrored,
            _ => Launcher::Plain,
        },
        Some(Engine::DeviceMap | Engine::Worker) | None => Launcher::Plain,
    }
}

/// Returns true if trainc starts torchrun itself: the SageMaker SDK v2 starts it only for older PyTorch versions, and the
/// toolkit's settings of NCCL are for older images. An image by `uri` from another registry than AWS's, a custom entry point
/// and a source that is already packed stay as written.
fn needs_launch_script(plan: &Plan) -> bool {
    let is_by_aws = plan.job.image.as_ref().is_some_and(|ask| {
        let written = ask.uri.value().and_then(|uri| images::parse_uri(uri));
        ask.uri.is_absent() || written.is_some_and(|uri| images::is_registry_account(&uri.account))
    });
    let packed_here = plan
        .job
        .program
        .as_ref()
        .is_some_and(|program| program.entrypoint.is_empty() && program.s3.is_absent());
    let pytorch = plan.image.as_ref().and_then(|image| image.pytorch.as_deref());
    is_by_aws
        && packed_here
        && plan.deployable
        && plan.chip_noun() == "GPU"
        && pytorch.is_some_and(support::is_newer_than_torch_distributed)
}

/// Returns the processes per host: as written, otherwise under SMP v1 one per GPU.
fn processes_per_host(plan: &Plan, parallel: &Parallel, launcher: Launcher) -> Option<u64> {
    let written = parallel.processes.get();
    match launcher {
        Launcher::Mpi => written,
        Launcher::SmpV1 => {
            let mesh = plan.mesh.as_ref()?;
            let gpus = plan.machine.as_ref().map_or(mesh.gpus_per_node, |machine| machine.gpus_per_node);
            Some(written.unwrap_or(gpus))
        }
        _ => None,
    }
}

/// Returns the MPI options: `-x K=V …`, then the written ones.
fn mpi_options(parallel: &Parallel) -> String {
    let mut words: Vec<String> = parallel
        .mpi_env
        .iter()
        .filter_map(|pair| Some(format!("-x {}={}", pair.key, pair.value.value()?)))
        .collect();
    words.extend(parallel.mpi_options.value().cloned());
    words.join(" ")
}

/// Returns the instance type. For instance groups the SDK omits it, or sends `null` for `smdistributed` (2.257.7,
/// measured), whose launchers choose their network by it; these get the type of the group on which they run.
fn instance(plan: &Plan, launcher: Launcher) -> Option<String> {
    let cluster = plan.job.cluster.as_ref()?;
    let is_single = cluster.groups.is_empty();
    match launcher {
        Launcher::Mpi
        | Launcher::ParameterServer
        | Launcher::MultiWorkerMirrored
        | Launcher::Plain
        | Launcher::LaunchScript => None,
        _ if is_single => plan.job.container_instance().map(str::to_owned),
        Launcher::Smddp | Launcher::SmpV1 | Launcher::SmpV2 => {
            plan.job.rank_group()?.instance.value().cloned()
        }
        Launcher::Torchrun | Launcher::PytorchDdp => None,
    }
}

/// Returns the instance group on whose hosts the toolkit starts the launcher; on others it runs the script as a plain
/// process. The SDK sets the only group of a cluster automatically, except for torchrun (2.257.7); without the key the
/// toolkit uses
/// the group of each host (aws/sagemaker-training-toolkit `environment.py`).
fn group(plan: &Plan, parallel: &Parallel, (launcher, is_rewritten): (Launcher, bool)) -> Option<String> {
    let is_sent = match launcher {
        Launcher::Plain => false,
        Launcher::LaunchScript => true,
        Launcher::Torchrun => !parallel.group.is_absent(),
        Launcher::PytorchDdp => is_rewritten || !parallel.group.is_absent(),
        _ => true,
    };
    plan.job.rank_group().filter(|_| is_sent)?.name.value().cloned()
}

fn int(n: u64) -> Scalar {
    Scalar::Int(i128::from(n))
}

fn smp_v2_parameters(parallel: &Parallel, mesh: &Mesh) -> Vec<(&'static str, Scalar)> {
    // If omitted, SMP would choose a degree that may differ from the plan.
    let shard_degree = ("hybrid_shard_degree", int(mesh.shard_degree.value));
    let mut out = vec![shard_degree];
    for (key, field) in [
        ("tensor_parallel_degree", &parallel.tensor_degree),
        ("context_parallel_degree", &parallel.context_degree),
        ("expert_parallel_degree", &parallel.expert_degree),
    ] {
        out.extend(field.get().map(|degree| (key, int(degree))));
    }
    let offload = parallel.offload_activations.get();
    out.extend(offload.map(|on| ("sm_activation_offloading", Scalar::Bool(on))));
    out.extend(parallel.offload_horizon.get().map(|horizon| ("activation_loading_horizon", int(horizon))));
    out.extend(smp_passthrough_options(parallel));
    out
}

fn smp_v1_parameters(plan: &Plan, parallel: &Parallel, mesh: &Mesh) -> Vec<(&'static str, Scalar)> {
    let text = |field: &Field<String>| field.value().cloned().map(Scalar::Text);
    let flag = |field: &Field<bool>| field.get().map(Scalar::Bool);
    let count = |field: &Field<u64>| field.get().map(int);
    let precision = plan.job.train.precision.value().map(String::as_str);
    let parameters = [
        ("ddp", smp_v1_ddp_parameter(parallel, mesh)),
        ("tensor_parallel_degree", parallel.tensor_degree.get().map(|_| int(mesh.tensor_degree.value))),
        ("microbatches", count(&parallel.num_micro_batches)),
        ("partitions", Some(int(mesh.pipeline_degree.value))),
        ("pipeline", text(&parallel.schedule)),
        ("active_microbatches", count(&parallel.num_active_micro_batches)),
        ("placement_strategy", text(&parallel.placement)),
        ("shard_optimizer_state", flag(&parallel.shard_optimizer_state)),
        ("prescaled_batch", flag(&parallel.prescaled_batch)),
        ("sharded_data_parallel_degree", count(&parallel.shard_degree)),
        ("offload_activations", flag(&parallel.offload_activations)),
        ("activation_loading_horizon", count(&parallel.offload_horizon)),
        ("bf16", (precision == Some("bf16")).then_some(Scalar::Bool(true))),
        ("fp16", (precision == Some("fp16")).then_some(Scalar::Bool(true))),
    ];
    let mut out: Vec<(&'static str, Scalar)> =
        parameters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    out.extend(smp_passthrough_options(parallel).into_iter().filter(|(name, _)| *name != "ddp"));
    out
}

/// Returns SMP v1's `ddp`: as written, otherwise true if SMP v1 requires it, which is the case with tensor
/// parallelism, sharding, sharded optimizer states, or data parallelism (SDK documentation of `ddp`: "must be set to
/// true if there is data parallelism").
fn smp_v1_ddp_parameter(parallel: &Parallel, mesh: &Mesh) -> Option<Scalar> {
    let written = parallel.options.iter().find(|option| option.name == "ddp");
    if let Some(Field::Is(val)) = written.map(|option| &option.value) {
        return Some(val.value.clone());
    }
    let is_required = mesh.world_size > mesh.pipeline_degree.value
        || parallel.tensor_degree.get().is_some_and(|degree| degree > 1)
        || parallel.shard_degree.get().is_some_and(|degree| degree > 1)
        || parallel.shard_optimizer_state.get() == Some(true);
    is_required.then_some(Scalar::Bool(true))
}

/// Returns the options that trainc passes to SMP unchanged.
fn smp_passthrough_options(parallel: &Parallel) -> Vec<(&'static str, Scalar)> {
    parallel
        .options
        .iter()
        .filter_map(|option| Some((smp_parameter_name(option.name)?, option.value.value()?.clone())))
        .collect()
}
