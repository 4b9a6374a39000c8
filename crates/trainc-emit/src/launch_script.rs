//! The script that starts torchrun in containers whose training toolkit is not used.
//!
//! The container extracts the source archive from a channel and runs the script, which is part of it. So the
//! request needs no download, and network isolation changes nothing.

use super::template;
use trainc_ir::Plan;

/// Returns the script of a job that it starts.
pub(super) fn script(plan: &Plan) -> Option<String> {
    let mesh = plan.mesh.as_ref()?;
    let payload = &plan.payload;
    template::launch_script(&template::LaunchScript {
        entry: payload.program.as_deref().unwrap_or_default(),
        ranks: mesh.gpus_per_node,
        group: plan.launch.group.as_deref(),
        environment: &payload.environment,
        channel: payload.code_channel().unwrap_or_default(),
    })
}
