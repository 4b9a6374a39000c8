//! A choice as values of the manifest: only the values that it changes.

use super::choice::Choice;
use super::file_edits::FileEdit;
use super::space::Space;
use trainc_ir::engine::{Absent, States};
use trainc_ir::{Axis, Field};
use trainc_predict::{Recompute, Sharding};

/// One value of the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// Path as accepted by `--set`: `train.micro-batch`.
    pub path: &'static str,
    /// The value as text.
    pub value: String,
    /// The line to edit, if a file that is not a manifest sets it.
    pub file: Option<FileEdit>,
}

impl Set {
    fn new(path: &'static str, value: impl ToString) -> Self {
        Self { path, value: value.to_string(), file: None }
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
        for set in &mut out {
            set.file = FileEdit::find(self.plan, set.path, &set.value);
        }
        out
    }

    fn push_degrees(&self, choice: &Choice, out: &mut Vec<Set>) {
        let (new, old) = (&choice.degrees, &self.written.degrees);
        if self.rules.law.replicas.is_some() {
            self.push_replicas_and_shards(choice, out);
            self.push_other_degrees(choice, out);
            return;
        }
        match self.rules.law.states {
            States::ByStrategy => {
                self.push_strategy(choice, out);
                self.push_other_degrees(choice, out);
            }
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
                self.push_other_degrees(choice, out);
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

    /// Adds the degrees beside those of replicas and shards that differ.
    fn push_other_degrees(&self, choice: &Choice, out: &mut Vec<Set>) {
        for (axis, path) in [
            (Axis::Tensor, "parallel.tensor-degree"),
            (Axis::Pipeline, "parallel.pipeline-degree"),
            (Axis::Context, "parallel.context-degree"),
            (Axis::Ulysses, "parallel.ulysses-degree"),
            (Axis::Expert, "parallel.expert-degree"),
        ] {
            let degree = choice.degrees.degree(axis);
            if degree != self.written.degrees.degree(axis) {
                out.push(Set::new(path, degree));
            }
        }
    }

    /// Adds strategy, replicas and shard degree of a law whose degrees multiply to the world size.
    fn push_replicas_and_shards(&self, choice: &Choice, out: &mut Vec<Set>) {
        let (law, parallel) = (self.rules.law, self.plan.job.parallel.as_ref());
        let per_node = self.gpus_per_node(choice.site);
        let data = choice.nodes * per_node / choice.degrees.beside_shards(law).max(1);
        let (shard, sharding) = (choice.degrees.shard, choice.degrees.sharding);
        let mesh = |choice: &Choice| (choice.site, choice.nodes, choice.degrees);
        if mesh(choice) == mesh(&self.written) {
            return;
        }
        let replicas = data / shard.max(1);
        let stands = law.strategy(parallel).or_else(|| law.strategies.first());
        let wanted = law.strategy_of(sharding, shard == data);
        // A strategy for the whole world has replicas beside it, one for groups is changed to it without.
        let stays = stands.filter(|stands| {
            stands.sharding == sharding && (stands.is_whole() || wanted.is_some_and(|one| !one.is_whole()))
        });
        let strategy = stays.or(wanted);
        if let Some(strategy) = strategy.filter(|one| stands.is_none_or(|stands| stands.word != one.word)) {
            out.push(Set::new("parallel.strategy", strategy.word));
        }
        let leaves = strategy.is_some_and(|strategy| !strategy.is_whole());
        let written = parallel.and_then(|parallel| parallel.replicate_degree.get());
        if written.map_or(!leaves && replicas != 1, |written| written != replicas) {
            out.push(Set::new("parallel.replicate-degree", replicas));
        }
        let factor = law.factors.iter().find(|factor| factor.axis == Axis::Shard);
        let absent = strategy.map(|strategy| strategy.degree).or(factor.map(|factor| factor.absent));
        let implied = match absent {
            Some(Absent::One(_)) | None => 1,
            Some(Absent::Node(_) | Absent::AllGpus(_)) => per_node,
            Some(Absent::World(_) | Absent::Recommended(_) | Absent::Rest(_)) => shard,
        };
        if self.shard_degree().get().unwrap_or(implied) != shard {
            out.push(Set::new("parallel.shard-degree", shard));
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
        let world = choice.nodes * per_node / choice.degrees.beside_shards(law).max(1);
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
        let states = |choice: &Choice| (choice.host_offload.states, choice.host_offload.optimizer);
        if states(choice) != states(&self.written) {
            let (states, optimizer) = states(choice);
            out.push(Set::new("parallel.offload", if optimizer { "optimizer" } else { kdl_boolean(states) }));
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
