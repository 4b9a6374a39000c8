//! The script that starts the ranks, with torchrun or `accelerate launch`, in containers whose training
//! toolkit is not used.
//!
//! The container extracts the source archive from a channel and runs the script, which is part of it. So the
//! request needs no download, and network isolation changes nothing.

use super::template;
use trainc_ir::{Launcher, Plan};

/// Returns the script of a job that it starts.
pub(super) fn script(plan: &Plan) -> Option<String> {
    let mesh = plan.mesh.as_ref()?;
    let payload = &plan.payload;
    template::launch_script(&template::LaunchScript {
        entry: payload.program.as_deref().unwrap_or_default(),
        config: plan.engine_file().filter(|_| plan.launch.launcher == Launcher::Accelerate),
        ranks: mesh.gpus_per_node,
        group: plan.launch.group.as_deref(),
        environment: &payload.environment,
        channel: payload.code_channel().unwrap_or_default(),
    })
}

/// Returns the command that starts the ranks of a job with the file of its engine, as far as it is the same
/// on all hosts; `None` if torchrun or the job's own program starts them.
pub(super) fn command(plan: &Plan) -> Option<String> {
    let is_accelerate = plan.launch.launcher == Launcher::Accelerate && plan.payload.is_launched_by_script();
    let (config, mesh) = plan.engine_file().filter(|_| is_accelerate).zip(plan.mesh.as_ref())?;
    let (world, hosts) = (mesh.gpus_per_node * mesh.nodes, mesh.nodes);
    let entry = plan.payload.program.as_deref()?;
    Some(format!(
        "accelerate launch --config_file={config} --num_processes={world} --num_machines={hosts} {entry}"
    ))
}
