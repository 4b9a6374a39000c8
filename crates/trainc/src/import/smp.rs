//! The parameters of SageMaker model parallel, each by its own node.

use super::kdl::{Node, literal};
use super::launch::Ground;
use super::unsaid::Unsaid;
use serde_json::{Map, Value};
use trainc_emit::smp_name;
use trainc_syntax::nodes::OPTIONS;

/// The nodes, and the precision that SMP v1 is told.
type Said = (Vec<Node>, Option<&'static str>);

/// What of `mp_parameters` no node says yet. What stays is listed, never dropped.
pub(super) struct Parameters<'a> {
    pub(super) left: Map<String, Value>,
    pub(super) unsaid: &'a mut Unsaid,
}

impl Parameters<'_> {
    /// Takes a whole number. A text that is one is read as one, and said: trainc sends a number.
    fn degree(&mut self, key: &str) -> Option<u64> {
        let found = self.left.get(key)?;
        let (number, exact) = match (found.as_u64(), found.as_str()) {
            (Some(number), _) => (number, true),
            (None, Some(text)) => (text.trim().parse().ok()?, false),
            (None, None) => return None,
        };
        if !exact {
            self.unsaid.lose(&format!(
                "`{key}` of `mp_parameters` was sent as the text {found}: trainc sends the number"
            ));
        }
        self.left.remove(key);
        Some(number)
    }

    fn flag(&mut self, key: &str) -> Option<bool> {
        let found = self.left.get(key)?.as_bool()?;
        self.left.remove(key);
        Some(found)
    }

    fn text(&mut self, key: &str) -> Option<String> {
        let found = self.left.get(key)?.as_str()?.to_owned();
        self.left.remove(key);
        Some(found)
    }

    /// Parameters that only pass through; what is no such parameter either is listed.
    pub(super) fn pass_through(&mut self) -> Vec<Node> {
        let mut out = Vec::new();
        for (key, value) in std::mem::take(&mut self.left) {
            let row = OPTIONS
                .iter()
                .find(|row| row.engines.contains(&"smp") && smp_name(row.spec.name) == Some(key.as_str()));
            match row.zip(literal(&value)) {
                Some((row, literal)) => out.push(Node::new(row.spec.name).arg(&literal)),
                None => self.unsaid.lose(&format!(
                    "`{key}` of `mp_parameters`, {value}: no node says it, and trainc would not send it"
                )),
            }
        }
        out
    }

    fn offload(&mut self, key: &str) -> Option<Node> {
        let (on, horizon) = (self.flag(key), self.degree("activation_loading_horizon"));
        if on.is_none() && horizon.is_none() {
            return None;
        }
        let node = switch("offload-activations", on.unwrap_or(false));
        Some(match horizon {
            Some(horizon) => node.prop("horizon", &horizon.to_string()),
            None => node,
        })
    }

    /// SMP v1: the parameters of `smdistributed.modelparallel`.
    pub(super) fn smp_v1(&mut self, ground: &Ground) -> Said {
        let mut out = Vec::new();
        let shard = self.degree("sharded_data_parallel_degree");
        out.extend(shard.map(|n| number("shard-degree", n)));
        let tensor = self.degree("tensor_parallel_degree");
        out.extend(tensor.map(|n| number("tensor-degree", n)));
        let partitions = self.degree("partitions").or_else(|| self.degree("pipeline_parallel_degree"));
        let schedule = self.text("pipeline");
        let (microbatches, active) = (self.degree("microbatches"), self.degree("active_microbatches"));
        if partitions.is_some_and(|n| n > 1)
            || schedule.is_some()
            || microbatches.is_some()
            || active.is_some()
        {
            let mut node = number("pipeline-degree", partitions.unwrap_or(1));
            node = node.maybe("schedule", schedule.as_deref());
            for (name, value) in [("microbatches", microbatches), ("active-microbatches", active)] {
                if let Some(value) = value {
                    node = node.prop(name, &value.to_string());
                }
            }
            out.push(node);
        }
        out.extend(self.text("placement_strategy").map(|placement| Node::text("placement", &placement)));
        let shard_state = self.flag("shard_optimizer_state");
        out.extend(shard_state.map(|on| switch("shard-optimizer-state", on)));
        out.extend(self.flag("prescaled_batch").map(|on| switch("prescaled-batch", on)));
        out.extend(self.offload("offload_activations"));
        let (bf16, fp16) = (self.flag("bf16"), self.flag("fp16"));
        if bf16 == Some(true) && fp16 == Some(true) {
            self.unsaid.lose("`fp16` of `mp_parameters`, true beside `bf16`: `precision` says one of them");
        }
        let precision = match (bf16, fp16) {
            (Some(true), _) => Some("bf16"),
            (_, Some(true)) => Some("fp16"),
            _ => None,
        };
        // Follows from the mesh; only what differs is written.
        let follows = ground.world.is_none_or(|world| world > partitions.unwrap_or(1))
            || [tensor, shard].into_iter().flatten().any(|n| n > 1)
            || shard_state == Some(true);
        let ddp = self.flag("ddp").unwrap_or(false);
        // One that is no switch is still left, and passes through as it is.
        if ddp != follows && !self.left.contains_key("ddp") {
            out.push(switch("ddp", ddp));
        }
        (out, precision)
    }

    /// SMP v2: the parameters of `torch_sagemaker`.
    pub(super) fn smp_v2(&mut self) -> Said {
        let mut out = Vec::new();
        for (key, name) in [
            ("hybrid_shard_degree", "shard-degree"),
            ("tensor_parallel_degree", "tensor-degree"),
            ("context_parallel_degree", "context-degree"),
            ("expert_parallel_degree", "expert-degree"),
        ] {
            let found = self.degree(key).filter(|n| *n > 0);
            if found.is_none() && key == "hybrid_shard_degree" {
                self.unsaid.lose("`hybrid_shard_degree` 0: SMP chooses the degree, and a manifest names it, 1 if `shard-degree` is not written");
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
