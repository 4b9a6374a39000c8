//! The script that starts torchrun in containers whose training toolkit is not used.
//!
//! The container extracts the source archive from a channel and runs the script, which is part of it. So the request needs
//! no download, and network isolation changes nothing.

use super::template;
use trainc_catalog::efa::{self, Starter};
use trainc_ir::{Launcher, Plan, SourceFile};

/// The file name of the script in the source archive.
pub const FILE: &str = "trainc_launch.py";

/// Returns whether the job's container starts the script.
pub(super) fn is_used(plan: &Plan) -> bool {
    plan.launch.launcher == Launcher::LaunchScript
}

/// Returns whether the script also starts the program, once each, on hosts of instance groups without ranks.
pub fn has_other_hosts(plan: &Plan) -> bool {
    is_used(plan) && plan.launch.group.is_some()
}

/// Returns the script; none if another launcher starts the job.
pub(super) fn file(plan: &Plan) -> Option<SourceFile> {
    let mesh = plan.mesh.as_ref().filter(|_| is_used(plan))?;
    let environment = plan
        .instance
        .as_ref()
        .map(|instance| efa::environment(instance, Starter::LaunchScript, mesh.nodes))
        .unwrap_or_default();
    let text = template::launch_script(&template::LaunchScript {
        entry: &super::names::sagemaker_program(plan),
        ranks: mesh.gpus_per_node,
        group: plan.launch.group.as_deref(),
        environment: &environment,
        channel: &channel_name(plan),
    })?;
    Some(SourceFile::new(FILE, text.into_bytes(), false))
}

/// Returns the command that the container's shell runs. `exec` makes the script the first process, so that it receives
/// SIGTERM.
pub(super) fn start_line(plan: &Plan) -> String {
    format!(
        "mkdir -p /opt/ml/code && tar -xzf /opt/ml/input/data/{}/sourcedir.tar.gz -C /opt/ml/code && exec python3 /opt/ml/code/{FILE}",
        channel_name(plan)
    )
}

/// Returns the name of the channel with the source archive.
pub(super) fn channel_name(plan: &Plan) -> String {
    super::channels::free_name(plan, "code")
}
