//! A choice as values of the manifest: only the values that it changes.

use super::choice::Choice;
use super::space::Space;
use trainc_ir::Field;
use trainc_ir::engine::States;
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
        match self.rules.law.states {
            States::ByStrategy => self.push_strategy(choice, out),
            States::Sharded => {
                // An unwritten value follows from the cluster: it is written as soon as either changes.
                let moved = choice.nodes != self.written.nodes || choice.site != self.written.site;
                if new.shard != old.shard || moved && self.shard_degree().is_absent() {
                    out.push(Set::new("parallel.shard-degree", new.shard));
                }
            }
            States::ByDegree => {
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
            States::Whole => {}
        }
    }

    fn shard_degree(&self) -> &Field<u64> {
        static ABSENT: Field<u64> = Field::Absent;
        self.plan.job.parallel.as_ref().map_or(&ABSENT, |parallel| &parallel.shard_degree)
    }

    /// Adds strategy and degree, if those of the manifest resolve to something else on these nodes.
    fn push_strategy(&self, choice: &Choice, out: &mut Vec<Set>) {
        let (law, parallel) = (self.rules.law, self.plan.job.parallel.as_ref());
        let per_node = self.gpus_per_node(choice.site);
        let world = choice.nodes * per_node;
        let shard = choice.degrees.shard;
        let degree = self.shard_degree().get();
        let written = law.strategy(parallel);
        // Without a strategy a degree below the world is that of a hybrid.
        let in_groups = degree.is_some_and(|degree| degree != world);
        let meant = written.or_else(|| law.strategy_of(Sharding::Full, !in_groups));
        let wanted = law.strategy_of(choice.degrees.sharding, shard == world);
        let (Some(stands), Some(wanted)) = (meant, wanted) else { return };
        let implied = wanted.shard_degree(world, per_node);
        let shard = if wanted.is_fixed { implied } else { shard };
        let stood = degree.unwrap_or(stands.shard_degree(world, per_node));
        // Hybrid sharding with one replica is full sharding.
        let is_whole = stands.sharding == wanted.sharding && shard == world;
        if stood == shard && (stands.word == wanted.word || is_whole) {
            return;
        }
        if stands.word != wanted.word || written.is_none() {
            out.push(Set::new("parallel.strategy", wanted.word));
        }
        let followed = if wanted.is_fixed {
            degree.is_none_or(|degree| degree == shard)
        } else {
            degree == Some(shard) || degree.is_none() && shard == implied
        };
        if !followed {
            out.push(Set::new("parallel.shard-degree", shard));
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
