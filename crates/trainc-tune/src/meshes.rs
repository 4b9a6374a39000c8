//! Degrees, strategies, recomputation and offload that an engine supports, by the language and the catalogue.

use super::choice::{Choice, Degrees, HostOffload, round_to_count};
use trainc_catalog::images::version_key;
use trainc_catalog::smp::{SmpVersion, parameter};
use trainc_ir::{Engine, Mesh, Plan, Scalar, Smp};
use trainc_plan::plan::divisors::divisors;
use trainc_plan::plan::smp::splits_sequences;
use trainc_predict::{Layout, Precision, Recompute, Sharding};

/// Values that the engine supports for this model.
#[derive(Clone, Debug)]
pub struct Rules {
    pub(super) engine: Engine,
    /// SMP v1, with mutually exclusive parameters.
    v1: Option<V1>,
    /// Tensor degrees, the manifest's own first.
    tensor: Vec<u64>,
    /// Stages, the manifest's own first.
    pipeline: Vec<u64>,
    /// Context and expert degrees, the manifest's own first; the shard group is a multiple of both.
    context: Vec<u64>,
    expert: Vec<u64>,
    /// Recomputation, the manifest's own first.
    pub(super) recompute: Vec<Recompute>,
    /// Offload, the manifest's own first.
    pub(super) host_offload: Vec<HostOffload>,
    /// True if the manifest has only one micro-batch in flight: nothing hides a copy.
    one_in_flight: bool,
    /// True if the manifest shards optimizer states, over any number of ranks.
    shards_optimizer: bool,
}

/// Restrictions of the image's SMP v1.
#[derive(Clone, Copy, Debug)]
struct V1 {
    /// True if sharded data parallelism is supported.
    shards: bool,
    /// True if tensor parallelism can be combined with it.
    tensor_beside_shards: bool,
    /// True if the precision requires sharded data parallelism.
    must_shard: bool,
    /// True if each tensor rank reads its own data.
    tensor_reads: bool,
}

impl V1 {
    fn from_plan(plan: &Plan, layout: &Layout) -> Option<Self> {
        let Some(Smp::V1(library)) = &plan.smp else { return None };
        let library = library.as_deref();
        let older = |version: &str| library.is_none_or(|ours| version_key(ours) < version_key(version));
        let row = parameter(SmpVersion::V1, "sharded_data_parallel_degree");
        let since = row.as_ref().and_then(|row| row.since.as_deref());
        let excluded = row.as_ref().is_none_or(|row| {
            let tensor = "tensor_parallel_degree";
            row.excludes.iter().any(|name| name == tensor)
                || row.excludes_before.iter().any(|(name, version)| name == tensor && older(version))
        });
        let needs = parameter(SmpVersion::V1, "bf16")
            .is_some_and(|row| row.needs.iter().any(|name| name == "sharded_data_parallel_degree"));
        let parallel = plan.job.parallel.as_ref();
        Some(Self {
            shards: row.is_some() && !since.is_some_and(older),
            tensor_beside_shards: !excluded,
            must_shard: needs && layout.precision == Precision::Mixed { bf16: true },
            tensor_reads: parallel.and_then(|parallel| parallel.prescaled_batch.get()) != Some(true),
        })
    }
}

impl Rules {
    pub(super) fn from_plan(plan: &Plan, layout: &Layout, mesh: &Mesh) -> Self {
        let engine = mesh.engine;
        let v1 = if engine == Engine::Smp { V1::from_plan(plan, layout) } else { None };
        let smp = engine == Engine::Smp;
        let tensor = if smp { tensor_degrees(layout, mesh) } else { vec![1] };
        let pipeline = if v1.is_some() { pipeline_degrees(plan, layout, mesh) } else { vec![1] };
        let mut recompute = vec![layout.recompute, Recompute::None, Recompute::Full];
        dedup(&mut recompute);
        let own = HostOffload { activations: layout.offload.activations, states: layout.offload.parameters };
        let mut host_offload = vec![own, HostOffload::default()];
        match engine {
            Engine::Smp => host_offload.push(HostOffload { activations: true, ..own }),
            // Frozen weights have no optimizer state to move.
            Engine::Fsdp if layout.lora.is_none() => host_offload.push(HostOffload { states: true, ..own }),
            Engine::Fsdp
            | Engine::Worker
            | Engine::Smddp
            | Engine::Ddp
            | Engine::DeviceMap
            | Engine::None => {}
        }
        dedup(&mut host_offload);
        Self {
            engine,
            v1,
            tensor,
            pipeline,
            context: context_degrees(plan, layout, mesh),
            expert: expert_degrees(plan, layout, mesh),
            recompute,
            host_offload,
            one_in_flight: layout.work.num_active_micro_batches == Some(1.0),
            shards_optimizer: layout.sharding == Sharding::Optimizer,
        }
    }

    /// Returns every mesh on `nodes` nodes that the engine supports.
    pub(super) fn valid_degrees(&self, nodes: u64, per_node: u64) -> Vec<Degrees> {
        let world = nodes * per_node;
        let mut out = Vec::new();
        let plain =
            Degrees { shard: 1, tensor: 1, pipeline: 1, context: 1, expert: 1, sharding: Sharding::None };
        match self.engine {
            Engine::Smddp | Engine::Ddp => out.push(plain),
            Engine::DeviceMap => out.push(Degrees { pipeline: per_node, ..plain }),
            Engine::None if world == 1 => out.push(plain),
            Engine::None => {}
            Engine::Worker => {
                let all = node_aligned_group_sizes(world, 1, per_node);
                out.extend(all.map(|shard| Degrees { shard, sharding: Sharding::Full, ..plain }));
            }
            Engine::Fsdp => {
                let whole = Degrees { shard: world, sharding: Sharding::Full, ..plain };
                out.push(whole);
                if world > 1 {
                    out.push(Degrees { sharding: Sharding::Gradients, ..whole });
                    out.push(plain);
                    let between = node_aligned_group_sizes(world, 1, per_node)
                        .filter(|shard| *shard > 1 && *shard < world);
                    out.extend(between.map(|shard| Degrees { shard, ..whole }));
                }
            }
            Engine::Smp => {
                for &tensor in &self.tensor {
                    for &pipeline in &self.pipeline {
                        if world.is_multiple_of(tensor * pipeline) {
                            let split = Degrees { tensor, pipeline, ..plain };
                            for &context in &self.context {
                                for &expert in &self.expert {
                                    self.add_smp_sharding(
                                        Degrees { context, expert, ..split },
                                        world,
                                        per_node,
                                        &mut out,
                                    );
                                }
                            }
                        }
                    }
                }
            }
        }
        out
    }

    /// SMP: adds the sharding that is valid with these degrees.
    fn add_smp_sharding(&self, plain: Degrees, world: u64, per_node: u64, out: &mut Vec<Degrees>) {
        let (tensor, pipeline) = (plain.tensor, plain.pipeline);
        let data = world / (tensor * pipeline);
        let v1 = self.v1;
        let parts = |shard: &u64| shard.is_multiple_of(plain.context) && shard.is_multiple_of(plain.expert);
        let sharded =
            v1.is_none_or(|v1| v1.shards && pipeline == 1 && (tensor == 1 || v1.tensor_beside_shards));
        if sharded {
            let all =
                node_aligned_group_sizes(data, tensor, per_node).filter(|shard| *shard > 1 && parts(shard));
            out.extend(all.map(|shard| Degrees { shard, sharding: Sharding::Full, ..plain }));
        }
        if parts(&1) && !v1.is_some_and(|v1| v1.must_shard) {
            out.push(plain);
            if v1.is_some() && (data > 1 || self.shards_optimizer) {
                out.push(Degrees { sharding: Sharding::Optimizer, ..plain });
            }
        }
    }

    /// Returns the number of ranks that read their own data; 0 if the degrees do not divide the world.
    pub(super) fn data_readers(&self, world: u64, degrees: &Degrees) -> u64 {
        let split = degrees.tensor * degrees.pipeline;
        if split == 0 || !world.is_multiple_of(split) {
            return 0;
        }
        let data = world / split;
        match (self.engine, self.v1) {
            (Engine::DeviceMap, _) => 1,
            (Engine::Smp, Some(v1)) if v1.tensor_reads => data * degrees.tensor,
            (Engine::Smp, None) => data / degrees.context,
            _ => data,
        }
    }

    /// Returns the number of ranks of a tensor group that read their own sequences.
    pub(super) fn tensor_readers(&self, degrees: &Degrees) -> u64 {
        match (self.engine, self.v1) {
            (Engine::Smp, Some(v1)) if v1.tensor_reads => degrees.tensor,
            _ => 1,
        }
    }

    /// Returns the micro-batches of one pass through the pipeline. A pipeline drains after each pass, and the cost
    /// model fills it with all micro-batches of a step: all are in one pass, unless the manifest differs for the same
    /// work.
    pub(super) fn num_micro_batches(&self, choice: &Choice, written: &Choice) -> u64 {
        let same = (choice.degrees.pipeline, choice.passes) == (written.degrees.pipeline, written.passes);
        if same || self.engine != Engine::Smp {
            return if self.engine == Engine::Smp { written.num_micro_batches } else { 1 };
        }
        if choice.degrees.pipeline > 1 {
            return choice.passes;
        }
        // Without a pipeline the script still splits its batch, if it divides evenly.
        let divides = choice.passes.is_multiple_of(written.num_micro_batches);
        if divides { written.num_micro_batches } else { choice.passes }
    }

    /// Returns true if offload and recomputation are compatible: only checkpointed activations are moved, and SMP v1
    /// moves them only between the micro-batches of one batch. Offload without effect is allowed only if the manifest
    /// has it.
    pub(super) fn is_offload_allowed(&self, choice: &Choice, written: &Choice) -> bool {
        if !choice.host_offload.activations {
            return true;
        }
        let moved = self.v1.is_none() || choice.num_micro_batches > 1 && !self.one_in_flight;
        choice == written || choice.recompute == Recompute::Full && moved
    }

    /// Lists the axes on which the engine leaves a choice for this model, in words.
    pub(super) fn varied_axes(&self) -> Vec<&'static str> {
        let mut out = vec!["micro-batch", "accumulation", "activation-checkpointing"];
        let mut put = |on: bool, word| {
            if on {
                out.push(word);
            }
        };
        let sharded = self.v1.is_none_or(|v1| v1.shards);
        put(self.engine == Engine::Fsdp, "strategy");
        put(matches!(self.engine, Engine::Fsdp | Engine::Worker), "shard-degree");
        put(self.engine == Engine::Smp && sharded, "shard-degree");
        put(self.v1.is_some_and(|v1| !v1.must_shard), "shard-optimizer-state");
        put(self.tensor.len() > 1 && self.tensor_is_free(), "tensor-degree");
        put(self.context.len() > 1, "context-degree");
        put(self.expert.len() > 1, "expert-degree");
        put(self.pipeline.len() > 1 && !self.must_shard(), "pipeline-degree");
        put(self.host_offload.iter().any(|waiting| waiting.activations), "offload-activations");
        put(self.host_offload.iter().any(|waiting| waiting.states), "offload");
        out
    }

    fn must_shard(&self) -> bool {
        self.v1.is_some_and(|v1| v1.must_shard)
    }

    fn tensor_is_free(&self) -> bool {
        !self.must_shard() || self.v1.is_some_and(|v1| v1.tensor_beside_shards)
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
fn tensor_degrees(layout: &Layout, mesh: &Mesh) -> Vec<u64> {
    let model = &layout.model;
    let widths = [model.heads, model.kv_heads, model.hidden, model.ffn];
    let common = widths.into_iter().map(round_to_count).filter(|n| *n > 0).fold(0, gcd);
    let own = mesh.tensor_degree.value;
    let mut out = vec![own];
    out.extend(
        divisors(common.max(1)).into_iter().filter(|n| n.is_power_of_two() && *n <= mesh.gpus_per_node),
    );
    dedup(&mut out);
    out
}

/// Returns the context degrees inside a node, under SMP v2 for the families that it splits, plus the manifest's own.
fn context_degrees(plan: &Plan, layout: &Layout, mesh: &Mesh) -> Vec<u64> {
    let own = mesh.context_degree.value.max(1);
    let mut out = vec![own];
    if own > 1 || splits_sequences(plan) {
        // Each rank has two pieces, an early and a late one, so that all have equal work under a causal mask.
        let tokens = round_to_count(layout.work.sequence_length);
        let inside = (0..7).map(|power| 1_u64 << power).take_while(|parts| *parts <= mesh.gpus_per_node);
        out.extend(inside.filter(|parts| *parts == 1 || tokens.is_multiple_of(2 * parts)));
    }
    dedup(&mut out);
    out
}

/// Returns the expert degrees inside a node that divide the experts, under SMP v2, which distributes them.
fn expert_degrees(plan: &Plan, layout: &Layout, mesh: &Mesh) -> Vec<u64> {
    let mut out = vec![mesh.expert_degree.value.max(1)];
    let experts = round_to_count(layout.model.experts);
    if matches!(plan.smp, Some(Smp::V2)) && experts > 0 {
        out.extend(divisors(experts).into_iter().filter(|parts| *parts <= mesh.gpus_per_node));
    }
    dedup(&mut out);
    out
}

/// Returns the numbers of stages; only the manifest's own if the script assigns layers to stages.
fn pipeline_degrees(plan: &Plan, layout: &Layout, mesh: &Mesh) -> Vec<u64> {
    /// Largest number of stages: more than the pipelines of scripts in SMP's own examples.
    const MOST: u64 = 16;
    let by_hand = plan.job.parallel.as_ref().is_some_and(|parallel| {
        parallel.options.iter().any(|option| {
            option.name == "auto-partition" && option.value.value() == Some(&Scalar::Bool(false))
        })
    });
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
