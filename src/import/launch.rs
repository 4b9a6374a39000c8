//! The launcher's keys, back into `parallel`.

use super::Unsaid;
use super::kdl::{Node, bound, literal, plain, string};
use crate::emit::smp_name;
use crate::syntax::nodes::OPTIONS;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What the keys say.
pub(super) struct Launch {
    /// The node.
    pub(super) parallel: Node,
    /// The engine in it.
    pub(super) engine: &'static str,
    /// The precision that SMP v1 is told.
    pub(super) precision: Option<&'static str>,
    /// Whether torchrun starts the ranks.
    pub(super) torchrun: bool,
    /// Whether activations are offloaded, which only checkpointed ones are.
    pub(super) offload: bool,
}

/// Decoded hyperparameters, of which the launcher takes its own.
pub(super) type Decoded = BTreeMap<String, Value>;

/// Where the job runs, as far as the launcher asks.
pub(super) struct Ground {
    /// GPUs of all instances, where the catalogue knows them.
    pub(super) world: Option<u64>,
    /// GPUs of one instance.
    pub(super) per_node: Option<u64>,
    /// Whether the image is one of HuggingFace's.
    pub(super) huggingface: bool,
}

/// Reads the launcher's keys; those that the node says are taken out.
pub(super) fn launch(
    keys: &mut Decoded,
    instance: Option<&str>,
    ground: &Ground,
    unsaid: &mut Unsaid,
) -> Launch {
    let on = |keys: &Decoded, key: &str| keys.get(key) == Some(&Value::Bool(true));
    let node = |engine: &'static str| Node::new("parallel").prop("engine", &string(engine));
    let take_instance = |keys: &mut Decoded| {
        // trainc sends the job's own instance type; another one stays.
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
        let read = if torchrun { smp_v2(&parameters) } else { smp_v1(&parameters, ground) };
        // Parameters without a node leave the keys where they are, and the caller lists them.
        if let Some((mut children, precision)) = read {
            if torchrun {
                keys.remove("sagemaker_torch_distributed_enabled");
            } else {
                keys.remove("sagemaker_mpi_enabled");
                if let Some(processes) = keys.remove("sagemaker_mpi_num_of_processes_per_host")
                    && processes.as_u64() != ground.per_node
                    && let Some(number) = literal(&processes)
                {
                    children.push(Node::new("processes").arg(&number));
                }
                children.extend(options(keys.remove("sagemaker_mpi_custom_mpi_options").as_ref()));
            }
            for key in ["mp_parameters", "sagemaker_distributed_dataparallel_enabled"] {
                keys.remove(key);
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
        }
    } else if torchrun {
        keys.remove("sagemaker_torch_distributed_enabled");
        take_instance(keys);
        unsaid.add("whether the script shards the model under torchrun: if it does, write `parallel engine=\"fsdp\"` with its strategy");
        return plain(node("ddp").prop("launcher", "\"torchrun\""), "ddp");
    } else if on(keys, "sagemaker_pytorch_ddp_enabled") && ground.huggingface {
        keys.remove("sagemaker_pytorch_ddp_enabled");
        take_instance(keys);
        return plain(node("ddp").prop("launcher", "\"pytorchddp\""), "ddp");
    } else if on(keys, "sagemaker_distributed_dataparallel_enabled") {
        keys.remove("sagemaker_distributed_dataparallel_enabled");
        take_instance(keys);
        let children = options(keys.remove("sagemaker_distributed_dataparallel_custom_mpi_options").as_ref());
        return plain(node("smddp").children(children), "smddp");
    } else if mpi {
        keys.remove("sagemaker_mpi_enabled");
        let mut children = Vec::new();
        if let Some(number) =
            keys.remove("sagemaker_mpi_num_of_processes_per_host").as_ref().and_then(literal)
        {
            children.push(Node::new("processes").arg(&number));
        }
        children.extend(options(keys.remove("sagemaker_mpi_custom_mpi_options").as_ref()));
        return plain(node("ddp").prop("launcher", "\"mpi\"").children(children), "ddp");
    }
    plain(node("none"), "none")
}

/// `-x K=V …` as `mpi-env`, the rest as `mpi-options`.
fn options(written: Option<&Value>) -> Vec<Node> {
    let Some(written) = written.and_then(Value::as_str).filter(|text| !text.is_empty()) else {
        return Vec::new();
    };
    let mut rest = written;
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    while let Some(after) = rest.strip_prefix("-x ") {
        let (pair, tail) = after.split_once(' ').unwrap_or((after, ""));
        let Some((key, value)) = pair.split_once('=') else { break };
        // What is quoted may have blanks inside: it stays as it is.
        let sound = !key.is_empty()
            && !value.contains(['"', '\'', '\\'])
            && !pairs.iter().any(|(known, _)| *known == key);
        // One blank between words: any other spacing would not come back.
        if !sound || tail.starts_with(' ') || (tail.is_empty() && after.ends_with(' ')) {
            break;
        }
        pairs.push((key, value));
        rest = tail;
    }
    let mut out = Vec::new();
    if !pairs.is_empty() {
        out.push(
            pairs.into_iter().fold(Node::new("mpi-env"), |node, (key, value)| node.prop(key, &plain(value))),
        );
    }
    if !rest.is_empty() {
        out.push(Node::text("mpi-options", &bound(rest)));
    }
    out
}

type Smp = (Vec<Node>, Option<&'static str>);

/// A parameter that is a whole number.
fn degree(left: &mut Map<String, Value>, key: &str) -> Option<u64> {
    let found = left.get(key)?.as_u64()?;
    left.remove(key);
    Some(found)
}

fn flag(left: &mut Map<String, Value>, key: &str) -> Option<bool> {
    let found = left.get(key)?.as_bool()?;
    left.remove(key);
    Some(found)
}

fn number(name: &str, value: u64) -> Node {
    Node::new(name).arg(&value.to_string())
}

fn switch(name: &str, on: bool) -> Node {
    Node::new(name).arg(if on { "#true" } else { "#false" })
}

/// Parameters that only pass through; `None` if one has no node.
fn pass_through(left: &Map<String, Value>) -> Option<Vec<Node>> {
    left.iter()
        .map(|(key, value)| {
            let row = OPTIONS
                .iter()
                .find(|row| row.engines.contains(&"smp") && smp_name(row.spec.name) == Some(key.as_str()))?;
            Some(Node::new(row.spec.name).arg(&literal(value)?))
        })
        .collect()
}

fn offload(left: &mut Map<String, Value>, key: &str) -> Option<Node> {
    let (on, horizon) = (flag(left, key), degree(left, "activation_loading_horizon"));
    if on.is_none() && horizon.is_none() {
        return None;
    }
    let node = switch("offload-activations", on.unwrap_or(false));
    Some(match horizon {
        Some(horizon) => node.prop("horizon", &horizon.to_string()),
        None => node,
    })
}

/// SMP v1: the parameters of `smdistributed.modelparallel`, each by its own node.
fn smp_v1(parameters: &Map<String, Value>, ground: &Ground) -> Option<Smp> {
    let mut left = parameters.clone();
    let mut out = Vec::new();
    let shard = degree(&mut left, "sharded_data_parallel_degree");
    out.extend(shard.map(|n| number("shard-degree", n)));
    let tensor = degree(&mut left, "tensor_parallel_degree");
    out.extend(tensor.map(|n| number("tensor-degree", n)));
    let partitions =
        degree(&mut left, "partitions").or_else(|| degree(&mut left, "pipeline_parallel_degree"));
    let schedule = left.remove("pipeline");
    let (microbatches, active) =
        (degree(&mut left, "microbatches"), degree(&mut left, "active_microbatches"));
    if partitions.is_some_and(|n| n > 1) || schedule.is_some() || microbatches.is_some() || active.is_some() {
        let mut node = number("pipeline-degree", partitions.unwrap_or(1));
        node = node.maybe("schedule", schedule.as_ref().and_then(Value::as_str));
        for (name, value) in [("microbatches", microbatches), ("active-microbatches", active)] {
            if let Some(value) = value {
                node = node.prop(name, &value.to_string());
            }
        }
        out.push(node);
    }
    if let Some(placement) = left.remove("placement_strategy") {
        out.push(Node::text("placement", placement.as_str()?));
    }
    let shard_state = flag(&mut left, "shard_optimizer_state");
    out.extend(shard_state.map(|on| switch("shard-optimizer-state", on)));
    out.extend(flag(&mut left, "prescaled_batch").map(|on| switch("prescaled-batch", on)));
    out.extend(offload(&mut left, "offload_activations"));
    let (bf16, fp16) = (flag(&mut left, "bf16"), flag(&mut left, "fp16"));
    let precision = match (bf16, fp16) {
        (Some(true), Some(true)) => return None,
        (Some(true), _) => Some("bf16"),
        (_, Some(true)) => Some("fp16"),
        _ => None,
    };
    // Follows from the mesh; only what differs is written.
    let follows = ground.world.is_none_or(|world| world > partitions.unwrap_or(1))
        || [tensor, shard].into_iter().flatten().any(|n| n > 1)
        || shard_state == Some(true);
    let ddp = flag(&mut left, "ddp").unwrap_or(false);
    if ddp != follows {
        out.push(switch("ddp", ddp));
    }
    out.extend(pass_through(&left)?);
    Some((out, precision))
}

/// SMP v2: the parameters of `torch_sagemaker`.
fn smp_v2(parameters: &Map<String, Value>) -> Option<Smp> {
    let mut left = parameters.clone();
    let mut out = Vec::new();
    for (key, name) in [
        ("hybrid_shard_degree", "shard-degree"),
        ("tensor_parallel_degree", "tensor-degree"),
        ("context_parallel_degree", "context-degree"),
        ("expert_parallel_degree", "expert-degree"),
    ] {
        // 0 leaves the degree to the library: so does no node.
        let found = degree(&mut left, key);
        out.extend(found.filter(|n| *n > 0).map(|n| number(name, n)));
    }
    out.extend(offload(&mut left, "sm_activation_offloading"));
    out.extend(pass_through(&left)?);
    Some((out, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(options_text: &str, expected: &str) {
        let mut out = String::new();
        for node in options(Some(&Value::from(options_text))) {
            node.write(0, &mut out);
        }
        assert_eq!(out, expected);
    }

    #[test]
    fn mpi_options_come_apart() {
        check("-x A=1 -x B=two", "mpi-env A=1 B=\"two\"\n");
        check("-x A=1 --bind-to none -x B=2", "mpi-env A=1\nmpi-options \"--bind-to none -x B=2\"\n");
        check("-x A", "mpi-options \"-x A\"\n");
        check("-x A=1  -x B=2", "mpi-options \"-x A=1  -x B=2\"\n");
        check("", "");
    }
}
