//! Decides the launcher of the ranks and the parameters that it gets.

use trainc_catalog::{images, support};
use trainc_ir::{Launch, Launcher, Parallel, Plan};

/// Returns the launch of a bound plan; before binding, options may contain placeholders.
pub(super) fn launch(plan: &Plan, in_container: bool) -> Launch {
    let Some(parallel) = &plan.job.parallel else { return Launch::default() };
    let front = plan.engine.map(|engine| engine.front);
    let launcher = match front.map_or(Launcher::Plain, |front| front.launcher(parallel)) {
        Launcher::Torchrun if in_container && needs_launch_script(plan) => Launcher::LaunchScript,
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
            | Launcher::Accelerate
            | Launcher::PytorchDdp
            | Launcher::SmpV2
            | Launcher::ParameterServer
            | Launcher::MultiWorkerMirrored
            | Launcher::Plain => String::new(),
        },
        instance: instance(plan, launcher),
        group: group(plan, parallel, (launcher, is_rewritten_to_smddp)),
        parameters: match (front, &plan.mesh) {
            (Some(front), Some(mesh)) => (front.parameters)(plan, parallel, mesh),
            _ => Vec::new(),
        },
    }
}

/// Returns true if trainc starts torchrun itself: the SageMaker SDK v2 starts it only for older PyTorch
/// versions, and the toolkit's settings of NCCL are for older images. An image by `uri` from another registry
/// than AWS's, a custom entry point and a source that is already packed stay as written.
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

/// Returns the instance type. For instance groups the SDK omits it, or sends `null` for `smdistributed`
/// (2.257.7, measured), whose launchers choose their network by it; these get the type of the group on which
/// they run.
fn instance(plan: &Plan, launcher: Launcher) -> Option<String> {
    let cluster = plan.job.cluster.as_ref()?;
    let is_single = cluster.groups.is_empty();
    match launcher {
        Launcher::Mpi
        | Launcher::ParameterServer
        | Launcher::MultiWorkerMirrored
        | Launcher::Plain
        | Launcher::LaunchScript
        | Launcher::Accelerate => None,
        _ if is_single => plan.job.container_instance().map(str::to_owned),
        Launcher::Smddp | Launcher::SmpV1 | Launcher::SmpV2 => {
            plan.job.rank_group()?.instance.value().cloned()
        }
        Launcher::Torchrun | Launcher::PytorchDdp => None,
    }
}

/// Returns the instance group on whose hosts the toolkit starts the launcher; on others it runs the script as
/// a plain process. The SDK sets the only group of a cluster automatically, except for torchrun (2.257.7);
/// without the key the toolkit uses the group of each host (aws/sagemaker-training-toolkit `environment.py`).
fn group(plan: &Plan, parallel: &Parallel, (launcher, is_rewritten): (Launcher, bool)) -> Option<String> {
    let is_sent = match launcher {
        Launcher::Plain => false,
        Launcher::LaunchScript | Launcher::Accelerate => true,
        Launcher::Torchrun => !parallel.group.is_absent(),
        Launcher::PytorchDdp => is_rewritten || !parallel.group.is_absent(),
        _ => true,
    };
    plan.job.rank_group().filter(|_| is_sent)?.name.value().cloned()
}
