//! Placement on UltraServers: instance type and instance counts.

use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::job::UltraServer;

declare_code!(
    T0316,
    "placement-without-ultra-server",
    Error,
    "a placement for an instance type without UltraServers"
);
declare_code!(
    T0317,
    "placement-count",
    Error,
    "a placement whose instance counts do not match the cluster",
    ends: Speed
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0316, &T0317];

/// Maximum number of UltraServers in a placement (documentation of PlacementSpecifications, botocore 1.44.5).
const MAX_SERVERS: usize = 10;

/// Checks constraints from the documentation of InstancePlacementConfig that its shapes do not express.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(cluster) = &plan.job.cluster else { return };
    let Some(placement) = &cluster.placement else { return };
    if let Some(instance) = plan.instance.as_ref().filter(|instance| !instance.ultra_server) {
        let span = cluster.instance.span().unwrap_or(cluster.span);
        problems.push(
            Diagnostic::new(&T0316, placement.span, format!("`{}` is not available in UltraServers", instance.name))
                .label(span, "the instance type")
                .remove("placement").or_else("use an UltraServer type, e.g. `\"ml.p6e-gb200.36xlarge\"`")
                .note("InstancePlacementConfig is \"only applicable for UltraServer capacity\" \
                    (botocore 1.44.5, ResourceConfig)"),
        );
        return;
    }
    if placement.ultra_servers.len() > MAX_SERVERS {
        problems.push(
            Diagnostic::new(
                &T0317,
                placement.span,
                format!(
                    "a placement supports at most {MAX_SERVERS} UltraServers, found {}",
                    placement.ultra_servers.len()
                ),
            )
            .note("documentation of PlacementSpecifications (botocore 1.44.5)"),
        );
    }
    for UltraServer { id: server, instances, .. } in &placement.ultra_servers {
        if instances.get() == Some(0) {
            problems.push(
                Diagnostic::new(
                    &T0317,
                    instances.span().unwrap_or(placement.span),
                    format!("`{}` has 0 instances", server.value),
                )
                .write("instances=1").and_text(" or more").or_else("remove the UltraServer")
                .note("the minimum InstanceCount of a PlacementSpecification is 1 (botocore 1.44.5)"),
            );
        }
    }
    let placed = placement.ultra_servers.iter().map(|server| server.instances.get()).sum::<Option<u64>>();
    let (Some(placed), Some(nodes)) = (placed, cluster.nodes.val()) else { return };
    if placed > nodes.value {
        let last = placement.ultra_servers.last().and_then(|server| server.instances.span());
        let mut diagnostic = Diagnostic::new(
            &T0317,
            last.unwrap_or(placement.span),
            format!(
                "{} placed on UltraServers, but the cluster has {}",
                text::count(placed, "instance"),
                text::count(nodes.value, "instance")
            ),
        )
        .help(format!(
            "place only {} on UltraServers, or write `nodes={placed}`",
            text::count(nodes.value, "instance")
        ))
        .fact("placed", placed)
        .fact("nodes", nodes.value);
        if let Some(span) = nodes.origin.span() {
            diagnostic = diagnostic.label(span, "the cluster's nodes");
        }
        problems.push(diagnostic);
    }
}
