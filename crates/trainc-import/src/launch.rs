//! The launcher's hyperparameters as `parallel`.

use super::kdl::{Node, escape_placeholders, integer_or_string, literal, string};
use super::smp::Parameters;
use super::unsupported::Unsupported;
use serde_json::Value;
use std::collections::BTreeMap;

/// The launch settings.
pub(super) struct Launch {
    /// The node.
    pub(super) parallel: Node,
    /// The engine in it.
    pub(super) engine: &'static str,
    /// The precision of SMP v1.
    pub(super) precision: Option<&'static str>,
    /// Torchrun starts the ranks.
    pub(super) torchrun: bool,
    /// Activations are offloaded, which requires activation checkpointing.
    pub(super) offload: bool,
}

/// Decoded hyperparameters, from which the launcher takes its own.
pub(super) type Decoded = BTreeMap<String, Value>;

/// Facts of the cluster and the image that the launcher needs.
pub(super) struct LaunchContext {
    /// GPUs of all instances, if the catalogue has them.
    pub(super) world: Option<u64>,
    /// GPUs of one instance.
    pub(super) per_node: Option<u64>,
    /// The image is a Hugging Face image.
    pub(super) huggingface: bool,
    /// Instance types by group name.
    pub(super) groups: BTreeMap<String, String>,
}

/// Reads the launcher's keys, and removes those that the node expresses.
pub(super) fn launch(
    keys: &mut Decoded,
    instance: Option<&str>,
    context: &LaunchContext,
    unsupported: &mut Unsupported,
) -> Launch {
    let named = keys.get("sagemaker_distribution_instance_groups").and_then(Value::as_array);
    let group = match named.map(Vec::as_slice) {
        Some([Value::String(group)]) => Some(group.clone()),
        _ => None,
    };
    let of_group = group.as_ref().and_then(|group| context.groups.get(group)).map(String::as_str);
    let mut launch = launch_from_keys(keys, instance.or(of_group), context, unsupported);
    if let Some(group) = group.filter(|_| launch.engine != "none") {
        launch.parallel = launch.parallel.prop("group", &string(&group));
        keys.remove("sagemaker_distribution_instance_groups");
    }
    launch
}

fn launch_from_keys(
    keys: &mut Decoded,
    instance: Option<&str>,
    context: &LaunchContext,
    unsupported: &mut Unsupported,
) -> Launch {
    let on = |keys: &Decoded, key: &str| keys.get(key) == Some(&Value::Bool(true));
    let node = |engine: &'static str| Node::new("parallel").prop("engine", &string(engine));
    let take_instance = |keys: &mut Decoded| {
        // trainc sends the job's instance type; any other stays unmapped.
        if keys.get("sagemaker_instance_type").and_then(Value::as_str) == instance {
            keys.remove("sagemaker_instance_type");
        }
    };
    let torchrun = on(keys, "sagemaker_torch_distributed_enabled");
    let plain = |parallel: Node, engine: &'static str| Launch {
        parallel,
        engine,
        precision: None,
        torchrun,
        offload: false,
    };
    let mpi = on(keys, "sagemaker_mpi_enabled");
    if (torchrun || mpi) && keys.get("mp_parameters").is_some_and(Value::is_object) {
        let Some(Value::Object(parameters)) = keys.get("mp_parameters").cloned() else {
            return plain(node("none"), "none");
        };
        let mut reader = Parameters { unmapped: parameters.clone(), unsupported };
        let (mut children, precision) = if torchrun { reader.smp_v2() } else { reader.smp_v1(context) };
        children.extend(reader.pass_through());
        keys.remove("mp_parameters");
        if torchrun {
            keys.remove("sagemaker_torch_distributed_enabled");
        } else {
            keys.remove("sagemaker_mpi_enabled");
            if let Some(processes) = keys.remove("sagemaker_mpi_num_of_processes_per_host")
                && processes.as_u64() != context.per_node
                && let Some(number) = literal(&processes)
            {
                children.push(Node::new("processes").arg(&number));
            }
            children.extend(mpi_options(keys.remove("sagemaker_mpi_custom_mpi_options").as_ref()));
        }
        // trainc sends `false`; `true` stays unmapped and is listed.
        if !on(keys, "sagemaker_distributed_dataparallel_enabled") {
            keys.remove("sagemaker_distributed_dataparallel_enabled");
        }
        take_instance(keys);
        let offload = ["offload_activations", "sm_activation_offloading"]
            .iter()
            .any(|key| parameters.get(*key) == Some(&Value::Bool(true)));
        return Launch {
            parallel: node("smp").children(children),
            engine: "smp",
            precision,
            torchrun,
            offload,
        };
    } else if torchrun {
        keys.remove("sagemaker_torch_distributed_enabled");
        take_instance(keys);
        return plain(node("ddp").prop("launcher", "\"torchrun\""), "ddp");
    } else if on(keys, "sagemaker_pytorch_ddp_enabled") && context.huggingface {
        keys.remove("sagemaker_pytorch_ddp_enabled");
        take_instance(keys);
        return plain(node("ddp").prop("launcher", "\"pytorchddp\""), "ddp");
    } else if on(keys, "sagemaker_distributed_dataparallel_enabled") {
        keys.remove("sagemaker_distributed_dataparallel_enabled");
        take_instance(keys);
        let children =
            mpi_options(keys.remove("sagemaker_distributed_dataparallel_custom_mpi_options").as_ref());
        return plain(node("smddp").children(children), "smddp");
    } else if mpi {
        keys.remove("sagemaker_mpi_enabled");
        let mut children = Vec::new();
        if let Some(number) =
            keys.remove("sagemaker_mpi_num_of_processes_per_host").as_ref().and_then(literal)
        {
            children.push(Node::new("processes").arg(&number));
        }
        children.extend(mpi_options(keys.remove("sagemaker_mpi_custom_mpi_options").as_ref()));
        return plain(node("ddp").prop("launcher", "\"mpi\"").children(children), "ddp");
    }
    for (key, launcher) in [
        ("sagemaker_parameter_server_enabled", "parameter-server"),
        ("sagemaker_multi_worker_mirrored_strategy_enabled", "multi-worker-mirrored"),
    ] {
        if on(keys, key) {
            keys.remove(key);
            return plain(node("none").prop("launcher", &string(launcher)), "none");
        }
    }
    plain(node("none"), "none")
}

/// Returns `-x K=V …` as `mpi-env`, the remainder as `mpi-options`.
fn mpi_options(written: Option<&Value>) -> Vec<Node> {
    let Some(written) = written.and_then(Value::as_str).filter(|text| !text.is_empty()) else {
        return Vec::new();
    };
    let mut rest = written;
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    while let Some(after) = rest.strip_prefix("-x ") {
        let (pair, tail) = after.split_once(' ').unwrap_or((after, ""));
        let Some((key, value)) = pair.split_once('=') else { break };
        // Quoted values may contain spaces: they stay unchanged.
        let is_plain_pair = !key.is_empty()
            && !value.contains(['"', '\'', '\\'])
            && !pairs.iter().any(|(known, _)| *known == key);
        // Any spacing other than a single space would be lost.
        if !is_plain_pair || tail.starts_with(' ') || (tail.is_empty() && after.ends_with(' ')) {
            break;
        }
        pairs.push((key, value));
        rest = tail;
    }
    let mut out = Vec::new();
    if !pairs.is_empty() {
        out.push(
            pairs
                .into_iter()
                .fold(Node::new("mpi-env"), |node, (key, value)| node.prop(key, &integer_or_string(value))),
        );
    }
    if !rest.is_empty() {
        out.push(Node::text("mpi-options", &escape_placeholders(rest)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(options_text: &str, expected: &str) {
        let mut out = String::new();
        for node in mpi_options(Some(&Value::from(options_text))) {
            node.write(0, &mut out);
        }
        assert_eq!(out, expected);
    }

    #[test]
    fn splits_mpi_options() {
        check("-x A=1 -x B=two", "mpi-env A=1 B=\"two\"\n");
        check("-x A=1 --bind-to none -x B=2", "mpi-env A=1\nmpi-options \"--bind-to none -x B=2\"\n");
        check("-x A", "mpi-options \"-x A\"\n");
        check("-x A=1  -x B=2", "mpi-options \"-x A=1  -x B=2\"\n");
        check("", "");
    }
}
