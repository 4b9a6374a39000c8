//! A choice as values of the manifest: only the values that it changes.

use super::choice::{Choice, Switches};
use super::file_edits::file_line;
use super::space::Space;
use trainc_diag::Edit;
use trainc_ir::engine::{Absent, States};
use trainc_ir::{Axis, Field};
use trainc_predict::{Recompute, Sharding};

fn kdl_boolean(on: bool) -> &'static str {
    if on { "#true" } else { "#false" }
}

impl Space<'_> {
    /// Returns the values that change the manifest to this choice; empty if it has them already.
    pub fn values_to_set(&self, choice: &Choice) -> Vec<Edit> {
        let mut out = Vec::new();
        if choice.site != self.written.site
            && let Some(name) = self.sites.get(choice.site).and_then(|site| site.name.as_ref())
        {
            out.push(Edit::argument(&["cluster"], name));
        }
        if choice.nodes != self.written.nodes {
            out.push(Edit::property(&["cluster"], "nodes", choice.nodes));
        }
        self.push_switches(choice.switches, &mut out);
        self.push_degrees(choice, &mut out);
        self.push_host_offload(choice, &mut out);
        self.push_batch(choice, &mut out);
        if choice.recompute != self.written.recompute {
            let word = match choice.recompute {
                Recompute::None => "#false",
                Recompute::Selective | Recompute::Operations => "selective",
                Recompute::Full | Recompute::Share(_) => "#true",
            };
            out.push(Edit::argument(&["train", "activation-checkpointing"], word));
        }
        for set in &mut out {
            set.file = file_line(self.plan, set);
        }
        out
    }

    fn push_switches(&self, on: Switches, out: &mut Vec<Edit>) {
        if on.fsdp {
            out.push(Edit::property(&["parallel"], "engine", "fsdp"));
            // The launcher of DDP does not start FSDP.
            if self.plan.job.parallel.as_ref().is_some_and(|parallel| !parallel.launcher.is_absent()) {
                out.push(Edit::without_property(&["parallel"], "launcher"));
            }
        }
        if on.fsdp || on.wrap {
            let architecture = self.plan.model.as_ref().and_then(|model| model.architecture.as_ref());
            let class = architecture.map_or("", |architecture| architecture.family.wrap_class());
            out.extend((!class.is_empty()).then(|| Edit::argument(&["parallel", "wrap"], class)));
        }
        if on.flash {
            out.push(Edit::argument(&["train", "flash-attention"], "#true"));
        }
        if on.nf4 {
            let precision = self.plan.job.train.precision.value().map_or("bf16", String::as_str);
            out.push(Edit::argument(&["quantize"], "nf4"));
            out.push(Edit::property(&["quantize"], "compute", precision));
        }
    }

    fn push_degrees(&self, choice: &Choice, out: &mut Vec<Edit>) {
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
                    out.push(Edit::argument(&["parallel", "shard-degree"], new.shard));
                }
            }
            States::ByDegree => {
                if new.shard != old.shard {
                    out.push(Edit::argument(&["parallel", "shard-degree"], new.shard));
                }
                self.push_other_degrees(choice, out);
                if choice.num_micro_batches != self.written.num_micro_batches {
                    out.push(Edit::property(
                        &["parallel", "pipeline-degree"],
                        "microbatches",
                        choice.num_micro_batches,
                    ));
                }
                let parallel = self.plan.job.parallel.as_ref();
                let on = parallel.and_then(|parallel| parallel.shard_optimizer_state.get()) == Some(true);
                if on != (new.sharding == Sharding::Optimizer) {
                    out.push(Edit::argument(&["parallel", "shard-optimizer-state"], kdl_boolean(!on)));
                }
            }
            States::Whole => {}
        }
    }

    /// Adds the degrees beside those of replicas and shards that differ.
    fn push_other_degrees(&self, choice: &Choice, out: &mut Vec<Edit>) {
        for (axis, name) in [
            (Axis::Tensor, "tensor-degree"),
            (Axis::Pipeline, "pipeline-degree"),
            (Axis::Context, "context-degree"),
            (Axis::Ulysses, "ulysses-degree"),
            (Axis::Expert, "expert-degree"),
        ] {
            let degree = choice.degrees.degree(axis);
            if degree != self.written.degrees.degree(axis) {
                out.push(Edit::argument(&["parallel", name], degree));
            }
        }
    }

    /// Adds strategy, replicas and shard degree of a law whose degrees multiply to the world size.
    fn push_replicas_and_shards(&self, choice: &Choice, out: &mut Vec<Edit>) {
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
            out.push(Edit::argument(&["parallel", "strategy"], strategy.word));
        }
        let leaves = strategy.is_some_and(|strategy| !strategy.is_whole());
        let written = parallel.and_then(|parallel| parallel.replicate_degree.get());
        if written.map_or(!leaves && replicas != 1, |written| written != replicas) {
            out.push(Edit::argument(&["parallel", "replicate-degree"], replicas));
        }
        let factor = law.factors.iter().find(|factor| factor.axis == Axis::Shard);
        let absent = strategy.map(|strategy| strategy.degree).or(factor.map(|factor| factor.absent));
        let implied = match absent {
            Some(Absent::One(_)) | None => 1,
            Some(Absent::Node(_) | Absent::AllGpus(_)) => per_node,
            Some(Absent::World(_) | Absent::Recommended(_) | Absent::Rest(_)) => shard,
        };
        if self.shard_degree().get().unwrap_or(implied) != shard {
            out.push(Edit::argument(&["parallel", "shard-degree"], shard));
        }
    }

    pub(super) fn shard_degree(&self) -> &Field<u64> {
        static ABSENT: Field<u64> = Field::Absent;
        self.plan.job.parallel.as_ref().map_or(&ABSENT, |parallel| &parallel.shard_degree)
    }

    /// Adds strategy and degree, if those of the manifest resolve to something else on these nodes.
    fn push_strategy(&self, choice: &Choice, out: &mut Vec<Edit>) {
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
            out.push(Edit::argument(&["parallel", "strategy"], wanted.word));
        }
        let followed = if wanted.is_fixed {
            degree.is_none_or(|degree| degree == shard)
        } else {
            degree == Some(shard) || degree.is_none() && shard == implied
        };
        if !followed {
            out.push(Edit::argument(&["parallel", "shard-degree"], shard));
        }
    }

    fn push_host_offload(&self, choice: &Choice, out: &mut Vec<Edit>) {
        let (new, old) = (choice.host_offload.activations, self.written.host_offload.activations);
        if new != old {
            let path = ["parallel", "offload-activations"];
            out.push(Edit::argument(&path, kdl_boolean(new)));
            // A setting of a disabled feature has no effect.
            let parallel = self.plan.job.parallel.as_ref().filter(|_| !new);
            if parallel.is_some_and(|parallel| !parallel.offload_horizon.is_absent()) {
                out.push(Edit::without_property(&path, "horizon"));
            }
        }
        let states = |choice: &Choice| (choice.host_offload.states, choice.host_offload.optimizer);
        if states(choice) != states(&self.written) {
            let (states, optimizer) = states(choice);
            let word = if optimizer { "optimizer" } else { kdl_boolean(states) };
            out.push(Edit::argument(&["parallel", "offload"], word));
        }
    }

    fn push_batch(&self, choice: &Choice, out: &mut Vec<Edit>) {
        let train = &self.plan.job.train;
        // An unwritten one follows from accumulation and global batch.
        if choice.micro_batch_size != self.written.micro_batch_size && !train.micro_batch_size.is_absent() {
            out.push(Edit::argument(&["train", "micro-batch"], choice.micro_batch_size));
        }
        let passes = |choice: &Choice| choice.passes / choice.num_micro_batches.max(1);
        // Written, or required to keep the global batch.
        let stands = train.accumulation.val().is_some() || train.global_batch.val().is_none();
        if stands && passes(choice) != passes(&self.written) {
            out.push(Edit::argument(&["train", "accumulation"], passes(choice)));
        }
    }
}
