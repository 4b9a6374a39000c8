//! The parameters of SageMaker model parallel as nodes.

use super::kdl::{Node, literal};
use super::launch::LaunchContext;
use super::unsupported::Unsupported;
use serde_json::{Map, Value};
use trainc_engine::smp::parameter_name;
use trainc_syntax::nodes::{OPTIONS, engines_of};

/// The nodes, and the precision of SMP v1.
type NodesAndPrecision = (Vec<Node>, Option<&'static str>);

/// The members of `mp_parameters` that are not mapped yet. Those that remain are listed, never dropped.
pub(super) struct Parameters<'a> {
    pub(super) unmapped: Map<String, Value>,
    pub(super) unsupported: &'a mut Unsupported,
}

impl Parameters<'_> {
    /// Takes an integer. A string with an integer is accepted and reported, as trainc sends a number.
    fn take_integer(&mut self, key: &str) -> Option<u64> {
        let found = self.unmapped.get(key)?;
        let (number, exact) = match (found.as_u64(), found.as_str()) {
            (Some(number), _) => (number, true),
            (None, Some(text)) => (text.trim().parse().ok()?, false),
            (None, None) => return None,
        };
        if !exact {
            self.unsupported.add_difference(&format!(
                "`{key}` of `mp_parameters` was sent as the string {found}: trainc sends the number"
            ));
        }
        self.unmapped.remove(key);
        Some(number)
    }

    fn take_bool(&mut self, key: &str) -> Option<bool> {
        let found = self.unmapped.get(key)?.as_bool()?;
        self.unmapped.remove(key);
        Some(found)
    }

    fn take_text(&mut self, key: &str) -> Option<String> {
        let found = self.unmapped.get(key)?.as_str()?.to_owned();
        self.unmapped.remove(key);
        Some(found)
    }

    /// Takes the parameters that trainc passes through; any other is listed.
    pub(super) fn pass_through(&mut self) -> Vec<Node> {
        let mut out = Vec::new();
        for (key, value) in std::mem::take(&mut self.unmapped) {
            let option = OPTIONS.iter().find(|option| {
                engines_of(option).is_some_and(|engines| engines.contains(&"smp"))
                    && parameter_name(option.name) == Some(key.as_str())
            });
            match option.zip(literal(&value)) {
                Some((option, literal)) => out.push(Node::new(option.name).arg(&literal)),
                None => self.unsupported.add_difference(&format!(
                    "`{key}` of `mp_parameters`, {value}: not supported by any node, so trainc \
                        does not send it"
                )),
            }
        }
        out
    }

    fn offload(&mut self, key: &str) -> Option<Node> {
        let (on, horizon) = (self.take_bool(key), self.take_integer("activation_loading_horizon"));
        if on.is_none() && horizon.is_none() {
            return None;
        }
        let node = switch("offload-activations", on.unwrap_or(false));
        Some(match horizon {
            Some(horizon) => node.prop("horizon", &horizon.to_string()),
            None => node,
        })
    }

    /// Maps the parameters of SMP v1 (`smdistributed.modelparallel`).
    pub(super) fn smp_v1(&mut self, context: &LaunchContext) -> NodesAndPrecision {
        let mut out = Vec::new();
        let shard = self.take_integer("sharded_data_parallel_degree");
        out.extend(shard.map(|n| number("shard-degree", n)));
        let tensor = self.take_integer("tensor_parallel_degree");
        out.extend(tensor.map(|n| number("tensor-degree", n)));
        let partitions =
            self.take_integer("partitions").or_else(|| self.take_integer("pipeline_parallel_degree"));
        let schedule = self.take_text("pipeline");
        let (microbatches, active) =
            (self.take_integer("microbatches"), self.take_integer("active_microbatches"));
        if partitions.is_some_and(|n| n > 1)
            || schedule.is_some()
            || microbatches.is_some()
            || active.is_some()
        {
            let mut node = number("pipeline-degree", partitions.unwrap_or(1));
            node = node.prop_if_some("schedule", schedule.as_deref());
            for (name, value) in [("microbatches", microbatches), ("active-microbatches", active)] {
                if let Some(value) = value {
                    node = node.prop(name, &value.to_string());
                }
            }
            out.push(node);
        }
        out.extend(self.take_text("placement_strategy").map(|placement| Node::text("placement", &placement)));
        let shard_state = self.take_bool("shard_optimizer_state");
        out.extend(shard_state.map(|on| switch("shard-optimizer-state", on)));
        out.extend(self.take_bool("prescaled_batch").map(|on| switch("prescaled-batch", on)));
        out.extend(self.offload("offload_activations"));
        let (bf16, fp16) = (self.take_bool("bf16"), self.take_bool("fp16"));
        if bf16 == Some(true) && fp16 == Some(true) {
            self.unsupported.add_difference(
                "`fp16` of `mp_parameters`, set together with `bf16`: `precision` supports only one of them",
            );
        }
        let precision = match (bf16, fp16) {
            (Some(true), _) => Some("bf16"),
            (_, Some(true)) => Some("fp16"),
            _ => None,
        };
        // `ddp` follows from the mesh; only a different value is written.
        let derived = context.world.is_none_or(|world| world > partitions.unwrap_or(1))
            || [tensor, shard].into_iter().flatten().any(|n| n > 1)
            || shard_state == Some(true);
        let ddp = self.take_bool("ddp").unwrap_or(false);
        // A value that is not a boolean is still unmapped and passes through unchanged.
        if ddp != derived && !self.unmapped.contains_key("ddp") {
            out.push(switch("ddp", ddp));
        }
        (out, precision)
    }

    /// Maps the parameters of SMP v2 (`torch_sagemaker`).
    pub(super) fn smp_v2(&mut self) -> NodesAndPrecision {
        let mut out = Vec::new();
        for (key, name) in [
            ("hybrid_shard_degree", "shard-degree"),
            ("tensor_parallel_degree", "tensor-degree"),
            ("context_parallel_degree", "context-degree"),
            ("expert_parallel_degree", "expert-degree"),
        ] {
            let found = self.take_integer(key).filter(|n| *n > 0);
            if found.is_none() && key == "hybrid_shard_degree" {
                self.unsupported.add_difference(
                    "`hybrid_shard_degree` 0: SMP chooses the degree, but a manifest sets it, to 1 \
                    without `shard-degree`",
                );
            }
            out.extend(found.map(|n| number(name, n)));
        }
        out.extend(self.offload("sm_activation_offloading"));
        (out, None)
    }
}

fn number(name: &str, value: u64) -> Node {
    Node::new(name).arg(&value.to_string())
}

fn switch(name: &str, on: bool) -> Node {
    Node::new(name).arg(if on { "#true" } else { "#false" })
}
