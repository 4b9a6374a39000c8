//! Placement on UltraServers: only where there are any, and no more instances than the job has.

use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};

declare_code!(
    T0316,
    "placement-without-ultra-server",
    Error,
    "a placement for an instance type without UltraServers"
);
declare_code!(T0317, "placement-count", Error, "a placement whose instance counts do not match the cluster");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0316, &T0317];

/// The most UltraServers that a placement may name (documentation of PlacementSpecifications, botocore 1.44.5).
const MOST_SERVERS: usize = 10;

/// What InstancePlacementConfig's documentation says, which no shape does.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(cluster) = plan.job.cluster.as_ref().filter(|_| plan.deployable) else { return };
    let Some(placement) = &cluster.placement else { return };
    if let Some(instance) = plan.instance.as_ref().filter(|instance| !instance.ultra_server) {
        let span = cluster.instance.span().unwrap_or(cluster.span);
        problems.push(
            Diagnostic::new(&T0316, placement.span, format!("`{}` stands in no UltraServer", instance.name))
                .label(span, "the instance type")
                .help("remove `placement`, or take an UltraServer's type, as `\"ml.p6e-gb200.36xlarge\"`")
                .note("InstancePlacementConfig is \"only applicable for UltraServer capacity\" (botocore 1.44.5, ResourceConfig)"),
        );
        return;
    }
    if placement.ultra_servers.len() > MOST_SERVERS {
        problems.push(
            Diagnostic::new(
                &T0317,
                placement.span,
                format!(
                    "a placement names at most {MOST_SERVERS} UltraServers, not {}",
                    placement.ultra_servers.len()
                ),
            )
            .note("documentation of PlacementSpecifications (botocore 1.44.5)"),
        );
    }
    for (server, instances) in &placement.ultra_servers {
        if instances.get() == Some(0) {
            problems.push(
                Diagnostic::new(
                    &T0317,
                    instances.span().unwrap_or(placement.span),
                    format!("no instance is placed on `{}`", server.value),
                )
                .help("write `instances=1` or more, or remove the UltraServer")
                .note("the least InstanceCount of a PlacementSpecification is 1 (botocore 1.44.5)"),
            );
        }
    }
    let placed = placement.ultra_servers.iter().map(|(_, instances)| instances.get()).sum::<Option<u64>>();
    let (Some(placed), Some(nodes)) = (placed, cluster.nodes.val()) else { return };
    if placed > nodes.value {
        let last = placement.ultra_servers.last().and_then(|(_, instances)| instances.span());
        let mut diagnostic = Diagnostic::new(
            &T0317,
            last.unwrap_or(placement.span),
            format!(
                "{} placed on UltraServers, and the cluster has {}",
                text::count(placed, "instance"),
                nodes.value
            ),
        )
        .help(format!("place {} in all, or write `nodes={placed}`", nodes.value))
        .fact("placed", placed)
        .fact("nodes", nodes.value);
        if let Some(span) = nodes.origin.span() {
            diagnostic = diagnostic.label(span, "of the cluster");
        }
        problems.push(diagnostic);
    }
}
