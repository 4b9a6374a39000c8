//! The groups of ranks on each axis, and the links that they communicate over.

use trainc_diag::text;
use trainc_ir::{Axis, Mesh, Plan};

/// Returns a line for each axis of a degree above 1: the axis, and its groups with their links.
pub(super) fn lines(plan: &Plan, mesh: &Mesh) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    for axis in Axis::ALL {
        let degree = mesh.degree(axis);
        if degree <= 1 {
            continue;
        }
        let member = if mesh.law.is_script() { "host" } else { plan.rank_noun() };
        let groups = mesh.ranks().checked_div(degree).unwrap_or(0).max(1);
        let nodes = mesh.nodes_of_group(axis);
        let mut line = if groups == 1 {
            text::count(degree, member)
        } else {
            format!("{} × {}", text::group_digits(groups), text::count(degree, member))
        };
        let each = if groups == 1 { "" } else { " each" };
        if mesh.law.is_script() {
            line.push_str("; the script chooses how they communicate");
        } else if nodes <= 1 {
            line = format!("{line} within one node{each}: {}", intra_node_link(plan));
        } else if nodes >= degree {
            line = format!("{line} over {nodes} nodes{each}: {}", inter_node_link(plan));
        } else {
            line = format!(
                "{line} over {nodes} nodes{each}: {}, {} within a node",
                inter_node_link(plan),
                intra_node_link(plan)
            );
        }
        let word = if mesh.law.is_device_map() { "layers" } else { axis.word() };
        out.push((word, line));
    }
    out
}

/// Describes how the layers are divided over the stages, as far as that is known before the run.
pub(super) fn describe_layer_split(plan: &Plan, mesh: &Mesh) -> Option<String> {
    let stages = mesh.pipeline_degree.value;
    let architecture = plan.model.as_ref()?.architecture.as_ref()?;
    let layers = architecture.layers.saturating_add(architecture.decoder_layers);
    if stages <= 1 {
        return None;
    }
    let each = if layers.is_multiple_of(stages) {
        (layers / stages).to_string()
    } else {
        format!("{} or {}", layers / stages, layers / stages + 1)
    };
    let by_hand =
        plan.job.parallel.as_ref().is_some_and(|parallel| parallel.is_switched_off("auto-partition"));
    let who = match mesh.law {
        law if law.has_stages() && by_hand => "the script decides",
        law if law.has_stages() || law.is_device_map() => "the library decides",
        _ => return None,
    };
    Some(format!("{layers} over {stages} stages, {each} each if even ({who})"))
}

/// Names the link between GPUs of a node.
fn intra_node_link(plan: &Plan) -> String {
    let speed = plan.job.cluster.as_ref().and_then(|cluster| cluster.intra_bytes_per_second.get());
    if let Some(speed) = speed {
        return format!("the {} link", format_gb_per_second(speed));
    }
    match plan.instance.as_ref().and_then(|instance| instance.accelerator.nvlink_gb_s) {
        Some(speed) if speed > 0.0 => "NVLink".to_owned(),
        Some(_) => "PCIe".to_owned(),
        None => "the links of the node".to_owned(),
    }
}

/// Names the link between nodes.
fn inter_node_link(plan: &Plan) -> String {
    let speed = plan.job.cluster.as_ref().and_then(|cluster| cluster.inter_bytes_per_second.get());
    if let Some(speed) = speed {
        return format!("the {} network", format_gb_per_second(speed));
    }
    let name = match plan.machine.as_ref().and_then(|machine| machine.efa) {
        Some(true) => "EFA",
        Some(false) => "Ethernet",
        None => "the network",
    };
    name.to_owned()
}

/// Names the network between nodes, with its speed if known; `None` for a single node and for plain scripts
/// over groups.
pub(super) fn network(plan: &Plan) -> Option<String> {
    let nodes = plan.mesh.as_ref()?.nodes;
    // Without a rank group the hosts are of several types, each with its own network.
    let groups = plan.job.cluster.as_ref().is_some_and(|cluster| !cluster.groups.is_empty());
    if groups && plan.job.rank_group().is_none() {
        return None;
    }
    let speed = plan.instance.as_ref().and_then(|instance| instance.network_gbps);
    (nodes > 1).then(|| match speed {
        Some(speed) => format!("{} at {} Gbit/s per node", inter_node_link(plan), text::short_number(speed)),
        None => inter_node_link(plan),
    })
}

fn format_gb_per_second(bytes_per_second: u64) -> String {
    format!("{} GB/s", text::short_number(bytes_per_second as f64 / 1e9))
}
