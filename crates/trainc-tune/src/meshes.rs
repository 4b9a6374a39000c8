//! Degrees, strategies, recomputation and offload that an engine supports, by its law and the language.

use super::choice::{Choice, Degrees, HostOffload, round_to_count};
use trainc_engine::smp::splits_sequences;
use trainc_ir::engine::{Law, Limits, States};
use trainc_ir::{Axis, Mesh, Plan};
use trainc_plan::plan::divisors::divisors;
use trainc_predict::{Layout, Recompute, Sharding, divides_heads};

/// Values that the engine supports for this model.
#[derive(Clone, Debug)]
pub struct Rules {
    pub(super) law: &'static Law,
    /// Combinations of degrees that the version supports.
    limits: Limits,
    /// True if each tensor rank reads its own data.
    tensor_reads: bool,
    /// Tensor degrees, the manifest's own first.
    tensor: Vec<u64>,
    /// Stages, the manifest's own first.
    pipeline: Vec<u64>,
    /// Context, Ulysses and expert degrees, the manifest's own first.
    context: Vec<u64>,
    ulysses: Vec<u64>,
    expert: Vec<u64>,
    /// Recomputation, the manifest's own first.
    pub(super) recompute: Vec<Recompute>,
    /// Offload, the manifest's own first.
    pub(super) host_offload: Vec<HostOffload>,
    /// Degrees of the manifest, which may span nodes.
    own: Degrees,
    /// True if the manifest has only one micro-batch in flight: nothing hides a copy.
    one_in_flight: bool,
    /// True if the manifest shards optimizer states, over any number of ranks.
    shards_optimizer: bool,
}

impl Rules {
    /// Returns the values for nodes of up to `most_per_node` GPUs.
    pub(super) fn from_plan(plan: &Plan, layout: &Layout, mesh: &Mesh, most_per_node: u64) -> Self {
        let law = mesh.law;
        let varies = |axis| law.varies.contains(&axis);
        let mut recompute = vec![layout.recompute, Recompute::None, Recompute::Full];
        dedup(&mut recompute);
        let own = HostOffload::of_layout(layout);
        let mut host_offload = vec![own, HostOffload::default()];
        if law.offloads_activations {
            host_offload.push(HostOffload { activations: true, ..own });
        }
        // Frozen weights have no optimizer state to move.
        if law.offloads_states && layout.lora.is_none() {
            host_offload.push(HostOffload { states: true, optimizer: false, ..own });
            if law.offloads_optimizer {
                host_offload.push(HostOffload { states: false, optimizer: true, ..own });
            }
        }
        dedup(&mut host_offload);
        Self {
            law,
            limits: (law.limits)(plan),
            tensor_reads: law.reads_by_tensor(plan.job.parallel.as_ref()),
            tensor: if varies(Axis::Tensor) {
                tensor_degrees(layout, mesh, most_per_node)
            } else {
                vec![mesh.tensor_degree.value.max(1)]
            },
            pipeline: if varies(Axis::Pipeline) {
                pipeline_degrees(plan, layout, mesh)
            } else {
                vec![mesh.pipeline_degree.value.max(1)]
            },
            context: context_degrees(plan, layout, mesh, most_per_node),
            ulysses: ulysses_degrees(layout, mesh, most_per_node),
            expert: expert_degrees(layout, mesh, most_per_node),
            own: Degrees {
                tensor: mesh.tensor_degree.value.max(1),
                context: mesh.context_degree.value.max(1),
                ulysses: mesh.ulysses_degree.value.max(1),
                expert: mesh.expert_degree.value.max(1),
                ..Degrees::ONE
            },
            recompute,
            host_offload,
            one_in_flight: layout.work.num_active_micro_batches == Some(1.0),
            shards_optimizer: layout.sharding == Sharding::Optimizer,
        }
    }

    /// Returns every mesh on `nodes` nodes that the engine supports.
    pub(super) fn valid_degrees(&self, nodes: u64, per_node: u64) -> Vec<Degrees> {
        let world = nodes * per_node;
        let plain = Degrees::ONE;
        if self.law.is_script() && world != 1 {
            return Vec::new();
        }
        if self.law.is_device_map() {
            return vec![Degrees { pipeline: per_node, ..plain }];
        }
        // Other degrees than the manifest's lie inside a node.
        let within = |own: u64| move |degree: &&u64| **degree == own || **degree <= per_node;
        let own = &self.own;
        let mut out = Vec::new();
        for &tensor in self.tensor.iter().filter(within(own.tensor)) {
            for &pipeline in &self.pipeline {
                let split = Degrees { tensor, pipeline, ..plain };
                for &context in self.context.iter().filter(within(own.context)) {
                    for &ulysses in self.ulysses.iter().filter(within(own.ulysses)) {
                        let split = Degrees { context, ulysses, ..split };
                        if !world.is_multiple_of(split.beside_shards(self.law)) {
                            continue;
                        }
                        for &expert in self.expert.iter().filter(within(own.expert)) {
                            self.add_sharding(Degrees { expert, ..split }, world, per_node, &mut out);
                        }
                    }
                }
            }
        }
        out.retain(|degrees| degrees.are_parts_whole(self.law));
        out
    }

    /// Adds the sharding that is valid with these degrees.
    fn add_sharding(&self, plain: Degrees, world: u64, per_node: u64, out: &mut Vec<Degrees>) {
        let sharded = |shard| Degrees { shard, sharding: Sharding::Full, ..plain };
        let beside = plain.beside_shards(self.law);
        // Replicas and shards together are what the other axes leave.
        let data = world / beside;
        match self.law.states {
            States::Whole => out.push(plain),
            States::Sharded => {
                out.extend(node_aligned_group_sizes(data, beside, per_node).map(sharded));
            }
            States::ByStrategy => {
                // On one rank all strategies are the same.
                let strategies = self.law.strategies.iter().take(if world > 1 { usize::MAX } else { 1 });
                for strategy in strategies {
                    let with = |shard| Degrees { shard, sharding: strategy.sharding, ..plain };
                    let sizes = node_aligned_group_sizes(data, beside, per_node);
                    if strategy.is_fixed {
                        out.push(with(strategy.shard_degree(data, per_node)));
                    } else if self.law.replicas.is_none() {
                        out.extend(sizes.filter(|shard| *shard > 1 && *shard < data).map(with));
                    } else if strategy.is_whole() {
                        // Replicas are set beside it, so that no other strategy is needed for groups. One
                        // rank alone shards nothing.
                        out.extend(sizes.filter(|shard| *shard > 1 || data == 1).map(with));
                    }
                }
            }
            States::ByDegree => {
                let (tensor, pipeline, limits) = (plain.tensor, plain.pipeline, self.limits);
                let can_shard = limits.shards
                    && (pipeline == 1 || limits.pipeline_with_shards)
                    && (tensor == 1 || limits.tensor_with_shards);
                if can_shard {
                    let all = node_aligned_group_sizes(data, tensor, per_node).filter(|shard| *shard > 1);
                    out.extend(all.map(sharded));
                }
                if !limits.must_shard {
                    out.push(plain);
                    if self.law.shards_optimizer && (data > 1 || self.shards_optimizer) {
                        out.push(Degrees { sharding: Sharding::Optimizer, ..plain });
                    }
                }
            }
        }
    }

    /// Returns the number of ranks that read their own data; 0 if the degrees do not divide the world.
    pub(super) fn data_readers(&self, world: u64, degrees: &Degrees) -> u64 {
        let split = degrees.beside_shards(self.law);
        if split == 0 || !world.is_multiple_of(split) {
            return 0;
        }
        let degree = |axis| match axis {
            Axis::Replica => world / split,
            // Replicas and shards together are what the other axes leave.
            Axis::Shard => 1,
            axis => degrees.degree(axis),
        };
        self.law.data_ranks(degree, self.tensor_reads)
    }

    /// Returns the number of ranks of a tensor group that read their own sequences.
    pub(super) fn tensor_readers(&self, degrees: &Degrees) -> u64 {
        if self.tensor_reads { degrees.tensor } else { 1 }
    }

    /// Returns the micro-batches of one pass through the pipeline. A pipeline drains after each pass, and the
    /// cost model fills it with all micro-batches of a step: all are in one pass, unless the manifest differs
    /// for the same work.
    pub(super) fn num_micro_batches(&self, choice: &Choice, written: &Choice) -> u64 {
        let same = (choice.degrees.pipeline, choice.passes) == (written.degrees.pipeline, written.passes);
        if !self.law.has_stages() {
            return 1;
        }
        if same {
            return written.num_micro_batches;
        }
        if choice.degrees.pipeline > 1 {
            return choice.passes;
        }
        // Without a pipeline the script still splits its batch, if it divides evenly.
        let divides = choice.passes.is_multiple_of(written.num_micro_batches);
        if divides { written.num_micro_batches } else { choice.passes }
    }

    /// Returns true if offload and recomputation are compatible: only checkpointed activations are moved,
    /// under some engines only between the micro-batches of one batch. Offload without effect is allowed only
    /// if the manifest has it.
    pub(super) fn is_offload_allowed(&self, choice: &Choice, written: &Choice) -> bool {
        let (moved, sharding) = (choice.host_offload, choice.degrees.sharding);
        // ZeRO moves parameters in stage 3 alone, and the optimizer's states from stage 1 on.
        let has_effect = !self.law.offloads_optimizer
            || (!moved.states || sharding == Sharding::Full)
                && (!moved.optimizer || sharding != Sharding::None);
        if !has_effect && choice != written {
            return false;
        }
        if !moved.activations {
            return true;
        }
        let between = self.law.offloads_between_micro_batches;
        let can_move = !between || choice.num_micro_batches > 1 && !self.one_in_flight;
        choice == written || choice.recompute == Recompute::Full && can_move
    }

    /// Lists the axes on which the engine leaves a choice for this model, in words.
    pub(super) fn varied_axes(&self) -> Vec<&'static str> {
        let mut out = vec!["micro-batch", "accumulation", "activation-checkpointing"];
        let mut put = |on: bool, word| {
            if on {
                out.push(word);
            }
        };
        put(!self.law.strategies.is_empty(), "strategy");
        put(self.law.can_shard() && self.limits.shards, "shard-degree");
        put(self.law.replicas.is_some(), "replicate-degree");
        put(self.law.shards_optimizer && !self.limits.must_shard, "shard-optimizer-state");
        put(self.tensor.len() > 1 && self.tensor_is_free(), "tensor-degree");
        put(self.context.len() > 1, "context-degree");
        put(self.ulysses.len() > 1, "ulysses-degree");
        put(self.expert.len() > 1, "expert-degree");
        put(self.pipeline.len() > 1 && !self.limits.must_shard, "pipeline-degree");
        put(self.host_offload.iter().any(|waiting| waiting.activations), "offload-activations");
        put(self.host_offload.iter().any(|waiting| waiting.states || waiting.optimizer), "offload");
        out
    }

    fn tensor_is_free(&self) -> bool {
        !self.limits.must_shard || self.limits.tensor_with_shards
    }
}

/// Returns group sizes that divide the ranks and, multiplied by `beside`, span whole nodes or lie inside one.
fn node_aligned_group_sizes(ranks: u64, beside: u64, per_node: u64) -> impl Iterator<Item = u64> {
    divisors(ranks).into_iter().filter(move |shard| {
        let all = shard * beside;
        all.is_multiple_of(per_node) || per_node.is_multiple_of(all)
    })
}

/// Returns the degrees that divide heads and widths and lie inside a node; the manifest's own first.
fn tensor_degrees(layout: &Layout, mesh: &Mesh, most: u64) -> Vec<u64> {
    let model = &layout.model;
    let widths = [model.heads, model.kv_heads, model.hidden, model.ffn];
    let common = widths.into_iter().map(round_to_count).filter(|n| *n > 0).fold(0, gcd);
    let own = mesh.tensor_degree.value;
    let mut out = vec![own];
    out.extend(divisors(common.max(1)).into_iter().filter(|n| n.is_power_of_two() && *n <= most));
    dedup(&mut out);
    out
}

/// Returns the context degrees inside a node that the engine and the kernel of attention support for the
/// model, plus the manifest's own.
fn context_degrees(plan: &Plan, layout: &Layout, mesh: &Mesh, most: u64) -> Vec<u64> {
    let own = mesh.context_degree.value.max(1);
    let mut out = vec![own];
    // PyTorch's context parallelism splits its own attention, and no other (`torch.distributed.tensor
    // .experimental.context_parallel`); SMP v2 splits the families that it knows.
    let kernel = plan.job.train.attention.value().map(String::as_str);
    let is_splittable = match mesh.law.inside(Axis::Context) {
        Some(_) => splits_sequences(plan),
        None => mesh.law.varies.contains(&Axis::Context) && matches!(kernel, None | Some("sdpa")),
    };
    if own > 1 || is_splittable {
        // Each rank has two pieces, an early and a late one, so that all have equal work under a causal mask.
        let tokens = round_to_count(layout.work.sequence_length);
        let inside = (0..7).map(|power| 1_u64 << power).take_while(|parts| *parts <= most);
        out.extend(inside.filter(|parts| *parts == 1 || tokens.is_multiple_of(2 * parts)));
    }
    dedup(&mut out);
    out
}

/// Returns the Ulysses degrees inside a node that divide heads and sequence, plus the manifest's own.
fn ulysses_degrees(layout: &Layout, mesh: &Mesh, most: u64) -> Vec<u64> {
    let mut out = vec![mesh.ulysses_degree.value.max(1)];
    if mesh.law.varies.contains(&Axis::Ulysses) {
        let (heads, kv_heads) = (round_to_count(layout.model.heads), round_to_count(layout.model.kv_heads));
        let tokens = round_to_count(layout.work.sequence_length);
        let inside = (0..7).map(|power| 1_u64 << power).take_while(|parts| *parts <= most);
        let splits = |parts: &u64| divides_heads(heads, kv_heads, *parts) && tokens.is_multiple_of(*parts);
        out.extend(inside.filter(splits));
    }
    dedup(&mut out);
    out
}

/// Returns the expert degrees inside a node that divide the experts, where the law distributes them.
fn expert_degrees(layout: &Layout, mesh: &Mesh, most: u64) -> Vec<u64> {
    let mut out = vec![mesh.expert_degree.value.max(1)];
    let experts = round_to_count(layout.model.experts);
    if mesh.law.varies.contains(&Axis::Expert) && experts > 0 {
        out.extend(divisors(experts).into_iter().filter(|parts| *parts <= most));
    }
    dedup(&mut out);
    out
}

/// Returns the numbers of stages; only the manifest's own if the script assigns layers to stages.
fn pipeline_degrees(plan: &Plan, layout: &Layout, mesh: &Mesh) -> Vec<u64> {
    /// Largest number of stages: more than the pipelines of scripts in SMP's own examples.
    const MOST: u64 = 16;
    let parallel = plan.job.parallel.as_ref();
    let by_hand = parallel.is_some_and(|parallel| parallel.is_switched_off("auto-partition"));
    let mut out = vec![mesh.pipeline_degree.value];
    if !by_hand {
        let most = round_to_count(layout.model.layers).min(MOST);
        out.extend((0..5).map(|power| 1_u64 << power).filter(|stages| *stages <= most));
    }
    dedup(&mut out);
    out
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Removes duplicates; the first occurrence stays.
fn dedup<T: PartialEq + Copy>(items: &mut Vec<T>) {
    let mut seen: Vec<T> = Vec::with_capacity(items.len());
    items.retain(|item| {
        let new = !seen.contains(item);
        seen.push(*item);
        new
    });
}
