//! A choice as values of the manifest: only the values that it changes.

use super::choice::Choice;
use super::space::Space;
use trainc_ir::{Engine, Field};
use trainc_predict::{Recompute, Sharding};

/// One value of the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// Path as accepted by `--set`: `train.micro-batch`.
    pub path: &'static str,
    /// The value as text.
    pub value: String,
}

impl Set {
    fn new(path: &'static str, value: impl ToString) -> Self {
        Self { path, value: value.to_string() }
    }
}

impl std::fmt::Display for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.path, self.value)
    }
}

fn kdl_boolean(on: bool) -> &'static str {
    if on { "#true" } else { "#false" }
}

impl Space<'_> {
    /// Returns the values that change the manifest to this choice; empty if it has them already.
    pub fn values_to_set(&self, choice: &Choice) -> Vec<Set> {
        let mut out = Vec::new();
        if choice.site != self.written.site
            && let Some(name) = self.sites.get(choice.site).and_then(|site| site.name.as_ref())
        {
            out.push(Set::new("cluster", name));
        }
        if choice.nodes != self.written.nodes {
            out.push(Set::new("cluster.nodes", choice.nodes));
        }
        self.push_degrees(choice, &mut out);
        self.push_host_offload(choice, &mut out);
        self.push_batch(choice, &mut out);
        if choice.recompute != self.written.recompute {
            let word = match choice.recompute {
                Recompute::None => "#false",
                Recompute::Selective | Recompute::Operations => "selective",
                Recompute::Full | Recompute::Share(_) => "#true",
            };
            out.push(Set::new("train.activation-checkpointing", word));
        }
        out
    }

    fn push_degrees(&self, choice: &Choice, out: &mut Vec<Set>) {
        let (new, old) = (&choice.degrees, &self.written.degrees);
        match self.rules.engine {
            Engine::Fsdp => self.push_strategy(choice, out),
            Engine::Worker => {
                // An unwritten value follows from the cluster: it is written as soon as either changes.
                let moved = choice.nodes != self.written.nodes || choice.site != self.written.site;
                if new.shard != old.shard || moved && self.shard_degree().is_absent() {
                    out.push(Set::new("parallel.shard-degree", new.shard));
                }
            }
            Engine::Smp => {
                if new.shard != old.shard {
                    out.push(Set::new("parallel.shard-degree", new.shard));
                }
                if new.tensor != old.tensor {
                    out.push(Set::new("parallel.tensor-degree", new.tensor));
                }
                if new.pipeline != old.pipeline {
                    out.push(Set::new("parallel.pipeline-degree", new.pipeline));
                }
                if new.context != old.context {
                    out.push(Set::new("parallel.context-degree", new.context));
                }
                if new.expert != old.expert {
                    out.push(Set::new("parallel.expert-degree", new.expert));
                }
                if choice.num_micro_batches != self.written.num_micro_batches {
                    out.push(Set::new("parallel.pipeline-degree.microbatches", choice.num_micro_batches));
                }
                let parallel = self.plan.job.parallel.as_ref();
                let on = parallel.and_then(|parallel| parallel.shard_optimizer_state.get()) == Some(true);
                if on != (new.sharding == Sharding::Optimizer) {
                    out.push(Set::new("parallel.shard-optimizer-state", kdl_boolean(!on)));
                }
            }
            Engine::Smddp | Engine::Ddp | Engine::DeviceMap | Engine::None => {}
        }
    }

    fn shard_degree(&self) -> &Field<u64> {
        static ABSENT: Field<u64> = Field::Absent;
        self.plan.job.parallel.as_ref().map_or(&ABSENT, |parallel| &parallel.shard_degree)
    }

    /// FSDP: strategy and degree, if those of the manifest resolve to something else on these nodes.
    fn push_strategy(&self, choice: &Choice, out: &mut Vec<Set>) {
        let per_node = self.gpus_per_node(choice.site);
        let world = choice.nodes * per_node;
        let wanted = match (choice.degrees.sharding, choice.degrees.shard) {
            (Sharding::None, _) => ("no-shard", 1),
            (Sharding::Gradients, _) => ("shard-grad-op", world),
            (_, shard) if shard == world => ("full-shard", world),
            (_, shard) => ("hybrid-shard", shard),
        };
        let written = self.plan.job.parallel.as_ref().and_then(|parallel| parallel.strategy.value());
        let degree = self.shard_degree().get();
        let stands = match written.map(String::as_str) {
            Some("hybrid-shard") => ("hybrid-shard", degree.unwrap_or(per_node)),
            Some("no-shard") => ("no-shard", degree.unwrap_or(1)),
            Some("shard-grad-op") => ("shard-grad-op", degree.unwrap_or(world)),
            // Without a strategy a degree below the world is that of a hybrid.
            None if degree.is_some_and(|degree| degree != world) => ("hybrid-shard", degree.unwrap_or(world)),
            _ => ("full-shard", degree.unwrap_or(world)),
        };
        // Hybrid sharding with one replica is full sharding.
        let same = stands == wanted || stands == ("hybrid-shard", world) && wanted == ("full-shard", world);
        if same {
            return;
        }
        if stands.0 != wanted.0 || written.is_none() {
            out.push(Set::new("parallel.strategy", wanted.0));
        }
        let followed = match wanted.0 {
            "hybrid-shard" => degree == Some(wanted.1) || degree.is_none() && wanted.1 == per_node,
            _ => degree.is_none_or(|degree| degree == wanted.1),
        };
        if !followed {
            out.push(Set::new("parallel.shard-degree", wanted.1));
        }
    }

    fn push_host_offload(&self, choice: &Choice, out: &mut Vec<Set>) {
        if choice.host_offload.activations != self.written.host_offload.activations {
            out.push(Set::new("parallel.offload-activations", kdl_boolean(choice.host_offload.activations)));
        }
        if choice.host_offload.states != self.written.host_offload.states {
            out.push(Set::new("parallel.offload", kdl_boolean(choice.host_offload.states)));
        }
    }

    fn push_batch(&self, choice: &Choice, out: &mut Vec<Set>) {
        let train = &self.plan.job.train;
        if choice.micro_batch_size != self.written.micro_batch_size {
            out.push(Set::new("train.micro-batch", choice.micro_batch_size));
        }
        let passes = |choice: &Choice| choice.passes / choice.num_micro_batches.max(1);
        // Written, or required to keep the global batch.
        let stands = train.accumulation.val().is_some() || train.global_batch.val().is_none();
        if stands && passes(choice) != passes(&self.written) {
            out.push(Set::new("train.accumulation", passes(choice)));
        }
    }
}
