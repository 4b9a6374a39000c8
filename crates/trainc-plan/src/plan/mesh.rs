//! The mesh: world size, every degree given or derived, the 3-billion rule, and the order of the axes.

use super::minimum_nodes::minimum_nodes;
use crate::plan::divisors::{divisors, do_divide, largest_divisor};
use crate::plan::shard_of_part::shard_of_part;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Axis, Engine, Field, Job, Machine, Mesh, ModelFacts, Parallel, Smp, Val};

declare_code!(T0301, "degree-does-not-divide", Error, "the world size is not divisible by the degrees");
declare_code!(
    T0302,
    "shard-degree-strategy-mismatch",
    Error,
    "a shard degree that conflicts with the sharding strategy"
);
declare_code!(T0303, "degrees-exceed-world-size", Error, "degrees that need more GPUs than the cluster has");
declare_code!(
    T0304,
    "shard-degree-not-divisible",
    Error,
    "a context or expert degree that does not divide the shard degree"
);
declare_code!(T0305, "cluster-too-large", Error, "a cluster with too many GPUs");
declare_code!(T0306, "device-map-multi-node", Error, "a device map on more than one node");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0301, &T0302, &T0303, &T0304, &T0305, &T0306];

/// Larger than any cluster; keeps every product inside 64 bits.
const MOST_GPUS: u64 = 1 << 24;

/// Lays out the mesh; `None` where the cluster or the engine is not known.
pub(super) fn mesh(
    job: &Job,
    machine: Option<&Machine>,
    model: Option<&ModelFacts>,
    smp: Option<&Smp>,
    problems: &mut Problems,
) -> Option<Mesh> {
    let at = layout(job, machine, smp, problems)?;
    let minimum = minimum_nodes(at.parallel, at.engine, model);
    at.build(minimum, smp, problems)
}

/// The ranks that read data of their own, under an engine where each rank does: they are known even where the degrees
/// are wrong, and so is what the batch must divide by. `None` under other engines, or without a cluster.
pub(super) fn data_ranks(job: &Job, machine: Option<&Machine>) -> Option<u64> {
    let at = layout(job, machine, None, &mut Problems::default())?;
    matches!(at.engine, Engine::Fsdp | Engine::Worker).then_some(at.world_size)
}

/// The world over which an engine lays its axes.
fn layout<'a>(
    job: &'a Job,
    machine: Option<&Machine>,
    smp: Option<&Smp>,
    problems: &mut Problems,
) -> Option<Layout<'a>> {
    let parallel = job.parallel.as_ref()?;
    let engine = parallel.engine.get()?;
    let cluster = job.cluster.as_ref()?;
    let Machine { gpus_per_node, ranks_per_gpu, .. } = *machine?;
    let nodes_val = match (&cluster.nodes, cluster.groups.as_slice()) {
        (Field::Is(val), _) => val.clone(),
        (Field::Absent, groups) if !groups.is_empty() && job.rank_group().is_some() => {
            let group = job.rank_group()?;
            let name = group.name.value().map_or("", String::as_str);
            Val::derived(group.nodes.get()?, format!("group `{name}`, on which the ranks run"))
        }
        // Ranks over several groups, none of which is named, are refused: nothing follows of them.
        (Field::Absent, groups) if !groups.is_empty() && engine == Engine::None => {
            let sum = groups.iter().map(|group| group.nodes.get()).sum::<Option<u64>>()?;
            Val::derived(sum, "the groups together")
        }
        _ => return None,
    };
    let nodes = nodes_val.value;
    let ranks_per_node = started(parallel, engine, smp, gpus_per_node.saturating_mul(ranks_per_gpu))
        .unwrap_or_else(|| {
            gpus_per_node.saturating_mul(if engine == Engine::DeviceMap { 1 } else { ranks_per_gpu })
        });
    let most = nodes.checked_mul(gpus_per_node.max(ranks_per_node)).filter(|most| *most <= MOST_GPUS);
    let world_size = most.map(|_| nodes * ranks_per_node);
    let Some(world_size) = world_size else {
        problems.push(
            Diagnostic::new(
                &T0305,
                nodes_val.span_or(cluster.span),
                format!(
                    "{} of {} each are more GPUs than any cluster has",
                    text::count(nodes, "node"),
                    text::count(gpus_per_node, "GPU")
                ),
            )
            .note(format!("trainc plans for up to {} GPUs", text::group(MOST_GPUS))),
        );
        return None;
    };
    if world_size == 0 {
        return None;
    }
    Some(Layout {
        parallel,
        engine,
        nodes,
        gpus_per_node,
        ranks_per_node,
        world_size,
        cluster_span: nodes_val.span_or(cluster.span),
    })
}

struct Layout<'a> {
    parallel: &'a Parallel,
    engine: Engine,
    nodes: u64,
    gpus_per_node: u64,
    ranks_per_node: u64,
    world_size: u64,
    cluster_span: Span,
}

/// Processes that MPI is told to start on each host, where they are fewer than the GPUs; more are refused by a rule.
fn started(parallel: &Parallel, engine: Engine, smp: Option<&Smp>, most: u64) -> Option<u64> {
    let by_mpi = match engine {
        Engine::Smddp | Engine::Ddp => true,
        Engine::Smp => matches!(smp, Some(Smp::V1(_))),
        _ => false,
    };
    parallel.processes.get().filter(|processes| by_mpi && (1..=most).contains(processes))
}

fn one(rule: &'static str) -> Val<u64> {
    Val::default(1, rule)
}

impl Layout<'_> {
    /// What a rank is, for people: a GPU where each has one.
    fn noun(&self) -> &'static str {
        if self.ranks_per_node == self.gpus_per_node { "GPU" } else { "process" }
    }

    /// What each node has, in words.
    fn each_node(&self) -> String {
        text::count(self.ranks_per_node, self.noun())
    }

    fn build(
        &self,
        minimum: Option<(Val<u64>, Val<u64>)>,
        smp: Option<&Smp>,
        problems: &mut Problems,
    ) -> Option<Mesh> {
        const NOT_SPLIT: &str = "this engine does not split this axis";
        let mut mesh = Mesh {
            engine: self.engine,
            nodes: self.nodes,
            gpus_per_node: self.gpus_per_node,
            processes_per_node: self.ranks_per_node,
            world_size: self.world_size,
            replicas: one(NOT_SPLIT),
            shard_degree: one(NOT_SPLIT),
            tensor_degree: one(NOT_SPLIT),
            pipeline_degree: one(NOT_SPLIT),
            context_degree: one(NOT_SPLIT),
            expert_degree: one(NOT_SPLIT),
            data_ranks: one(NOT_SPLIT),
            minimum_nodes: None,
            recommended_nodes: None,
            order: Vec::new(),
        };
        match self.engine {
            Engine::Fsdp => mesh.shard_degree = self.fsdp_shard(problems)?,
            Engine::Worker => {
                if self.parallel.shard_degree.is_bad() {
                    return None;
                }
                mesh.shard_degree = self.worker_shard(minimum.as_ref());
            }
            Engine::Smp => self.smp(&mut mesh),
            Engine::DeviceMap => {
                if self.nodes > 1 {
                    problems.push(
                        Diagnostic::new(
                            &T0306,
                            self.cluster_span,
                            format!(
                                "engine `device-map` lays one model over the GPUs of one node, not {}",
                                self.nodes
                            ),
                        )
                        .help("write `nodes=1`, or an engine that spans nodes: `fsdp`"),
                    );
                    return None;
                }
                mesh.processes_per_node = 1;
                mesh.pipeline_degree = Val::derived(self.gpus_per_node, "every GPU of the node holds layers");
            }
            Engine::Smddp | Engine::Ddp => {
                if self.parallel.processes.is_bad() {
                    return None;
                }
            }
            Engine::None => {
                mesh.processes_per_node = 1;
                mesh.replicas = Val::derived(self.nodes, "one plain process on each host");
            }
        }
        if self.engine == Engine::None {
            mesh.data_ranks = Val::derived(self.nodes, "one plain process on each host");
            mesh.order = vec![(Axis::Replica, self.nodes)];
            return Some(mesh);
        }
        // A degree that is unusable was reported; the others are judged all the same.
        let p = self.parallel;
        let smp_only = [&p.tensor_degree, &p.pipeline_degree, &p.context_degree, &p.expert_degree];
        let is_smp = self.engine == Engine::Smp;
        let unknown = is_smp
            && (p.shard_degree.is_bad()
                || p.processes.is_bad()
                || p.prescaled_batch.is_bad()
                || smp_only.iter().any(|degree| degree.is_bad()));
        let replicas = self.replicas(&mut mesh, problems);
        // A degree that the image's generation of SMP lacks is reported by its rule, and nothing follows from it.
        let lacking = match (self.engine, smp) {
            (Engine::Smp, Some(Smp::V1(_))) => mesh.context_degree.value > 1 || mesh.expert_degree.value > 1,
            (Engine::Smp, Some(Smp::V2)) => mesh.pipeline_degree.value > 1,
            _ => false,
        };
        let parts =
            if lacking || is_smp && p.shard_degree.is_bad() { None } else { self.parts(&mesh, problems) };
        if unknown || replicas.is_none() || parts.is_none() {
            return None;
        }
        self.finish(&mut mesh, minimum, smp);
        Some(mesh)
    }

    fn fsdp_shard(&self, problems: &mut Problems) -> Option<Val<u64>> {
        let written = match &self.parallel.shard_degree {
            Field::Is(val) => Some(val),
            Field::Absent => None,
            Field::Bad => return None,
        };
        let strategy = match &self.parallel.strategy {
            Field::Is(val) => Some((val.value.as_str(), val.span_or(self.parallel.span))),
            Field::Absent => None,
            Field::Bad => return None,
        };
        let world = self.world_size;
        let Some(written) = written else {
            return Some(match strategy {
                Some(("hybrid-shard", _)) => {
                    Val::default(self.gpus_per_node, "hybrid-shard: the GPUs of one node")
                }
                Some(("no-shard", _)) => Val::default(1, "no-shard: every rank holds everything"),
                _ => Val::default(world, "full-shard: the whole world"),
            });
        };
        let contradiction = match strategy {
            Some((name @ ("full-shard" | "shard-grad-op"), span)) if written.value != world => {
                Some((name, span, world))
            }
            Some((name @ "no-shard", span)) if written.value != 1 => Some((name, span, 1)),
            _ => None,
        };
        if let Some((name, span, wanted)) = contradiction {
            problems.push(
                Diagnostic::new(
                    &T0302,
                    written.span_or(self.parallel.span),
                    format!("`{name}` shards over {}, not {}", text::count(wanted, "GPU"), written.value),
                )
                .label(span, "the strategy")
                .help(if !world.is_multiple_of(written.value) {
                    "remove `shard-degree`".to_owned()
                } else if name == "no-shard" {
                    "remove `shard-degree`, or write `strategy \"hybrid-shard\"`".to_owned()
                } else {
                    format!(
                        "write `strategy \"hybrid-shard\"` for shards of {}, or remove `shard-degree`",
                        written.value
                    )
                }),
            );
            return None;
        }
        Some(written.clone())
    }

    /// By the 3-billion rule: the recommended nodes, all their GPUs, no more than the cluster has.
    fn worker_shard(&self, minimum: Option<&(Val<u64>, Val<u64>)>) -> Val<u64> {
        if let Field::Is(val) = &self.parallel.shard_degree {
            return val.clone();
        }
        match minimum {
            Some((_, recommended)) => {
                let mut nodes = recommended.value.min(self.nodes).max(1);
                while !self.nodes.is_multiple_of(nodes) {
                    nodes -= 1;
                }
                Val::derived(
                    nodes * self.gpus_per_node,
                    format!("one node per 3 billion parameters: {}", text::count(nodes, "node")),
                )
            }
            None => Val::default(self.world_size, "the whole world, as the model's size is not known"),
        }
    }

    fn smp(&self, mesh: &mut Mesh) {
        const SMP_DEFAULT: &str = "smp: not split unless written";
        let pick = |field: &Field<u64>| field.val().cloned().unwrap_or_else(|| one(SMP_DEFAULT));
        mesh.shard_degree = pick(&self.parallel.shard_degree);
        mesh.tensor_degree = pick(&self.parallel.tensor_degree);
        mesh.pipeline_degree = pick(&self.parallel.pipeline_degree);
        mesh.context_degree = pick(&self.parallel.context_degree);
        mesh.expert_degree = pick(&self.parallel.expert_degree);
    }

    /// What is left of the world after the other axes; reports degrees that do not divide it.
    fn replicas(&self, mesh: &mut Mesh, problems: &mut Problems) -> Option<()> {
        let world = self.world_size;
        let axes: Vec<(&str, &Val<u64>)> = [
            ("shard-degree", &mesh.shard_degree),
            ("tensor-degree", &mesh.tensor_degree),
            ("pipeline-degree", &mesh.pipeline_degree),
        ]
        .into_iter()
        .filter(|(_, val)| val.value > 1)
        .collect();
        let product = axes.iter().try_fold(1_u64, |product, (_, val)| product.checked_mul(val.value));
        let Some(product) = product.filter(|product| *product <= world) else {
            let shown = axes
                .iter()
                .map(|(name, val)| format!("{name} {}", val.value))
                .collect::<Vec<_>>()
                .join(" × ");
            let (name, blamed) = axes.last().copied()?;
            let mut diagnostic = Diagnostic::new(
                &T0303,
                blamed.span_or(self.parallel.span),
                format!("{shown} needs more than the {} of this cluster", text::count(world, self.noun())),
            )
            .label(self.cluster_span, format!("{} × {}", text::count(self.nodes, "node"), self.each_node()));
            let others = product_of_others(&axes, name);
            let room = world.checked_div(others).unwrap_or(0);
            if room >= 1 {
                diagnostic = diagnostic.help(format!(
                    "`{name}` may be at most {}",
                    largest_divisor(world / others.max(1), room)
                ));
            }
            problems.push(diagnostic.fact("world_size", world));
            return None;
        };
        if !world.is_multiple_of(product) {
            self.does_not_divide(world, &axes, problems);
            return None;
        }
        mesh.replicas = if product == 1 {
            Val::derived(world, format!("world size {world}, nothing sharded"))
        } else {
            let shown: Vec<String> = axes
                .iter()
                .map(|(name, val)| format!("{} {}", name.trim_end_matches("-degree"), val.value))
                .collect();
            Val::derived(world / product, format!("world size {world} / ({})", shown.join(" × ")))
        };
        Some(())
    }

    fn does_not_divide(&self, world: u64, axes: &[(&str, &Val<u64>)], problems: &mut Problems) {
        // Each axis that divides not even the world is a mistake of its own. Where all do, it is the first that
        // does not divide what those before it leave.
        let alone: Vec<_> = axes.iter().filter(|(_, val)| !world.is_multiple_of(val.value)).collect();
        let mut left = world;
        for (name, val) in axes {
            if !alone.is_empty() {
                if world.is_multiple_of(val.value) {
                    continue;
                }
            } else if left.is_multiple_of(val.value) {
                left /= val.value;
                continue;
            }
            let of = if left == world {
                format!("the world size {world}")
            } else {
                format!("the {left} GPUs that the other degrees leave of {world}")
            };
            let near = do_divide(left, val.value);
            let mut diagnostic = Diagnostic::new(
                &T0301,
                val.span_or(self.parallel.span),
                format!("`{name}` {} does not divide {of}", val.value),
            )
            .label(self.cluster_span, format!("{} × {}", text::count(self.nodes, "node"), self.each_node()))
            .help(format!("{} does not divide {left}; {near}", val.value))
            .fact("world_size", world)
            .fact("legal", divisors(left));
            if val.origin.span().is_none() {
                diagnostic = diagnostic.note(format!(
                    "`{name}` was not written: it is {}",
                    crate::plan::origin_words(&val.origin)
                ));
            }
            problems.push(diagnostic);
            if alone.is_empty() {
                return;
            }
        }
    }

    /// Context and expert degrees are parts of the shard axis.
    fn parts(&self, mesh: &Mesh, problems: &mut Problems) -> Option<()> {
        let mut fine = Some(());
        for (name, val) in [("context-degree", &mesh.context_degree), ("expert-degree", &mesh.expert_degree)]
        {
            let shard = mesh.shard_degree.value;
            if val.value > 1 && !shard.is_multiple_of(val.value) {
                problems.push(
                    Diagnostic::new(
                        &T0304,
                        val.span_or(self.parallel.span),
                        format!(
                            "`{name}` {} does not divide `shard-degree` {shard}, of which it is a part",
                            val.value
                        ),
                    )
                    .label(mesh.shard_degree.span_or(self.parallel.span), "the shard degree")
                    .help(shard_of_part(self.parallel, mesh, val.value)),
                );
                fine = None;
            }
        }
        fine
    }

    fn finish(&self, mesh: &mut Mesh, minimum: Option<(Val<u64>, Val<u64>)>, smp: Option<&Smp>) {
        let data = mesh.replicas.value * mesh.shard_degree.value;
        mesh.data_ranks = match (self.engine, smp) {
            (Engine::DeviceMap, _) => one("one process"),
            (Engine::Smp, Some(Smp::V2)) => Val::derived(
                data / mesh.context_degree.value.max(1),
                "replicas × shard degree / context degree",
            ),
            (Engine::Smp, _)
                if mesh.tensor_degree.value > 1 && self.parallel.prescaled_batch.get() != Some(true) =>
            {
                Val::derived(
                    data * mesh.tensor_degree.value,
                    "replicas × shard degree × tensor degree: without `prescaled-batch #true` each tensor rank reads its own",
                )
            }
            _ => Val::derived(data, "replicas × shard degree"),
        };
        if let Some((minimum, recommended)) = minimum {
            mesh.minimum_nodes = Some(minimum);
            mesh.recommended_nodes = Some(recommended);
        }
        mesh.order = self.order(mesh, smp);
    }

    /// Slowest axis first, in the engine's own convention.
    fn order(&self, mesh: &Mesh, smp: Option<&Smp>) -> Vec<(Axis, u64)> {
        let of = |axis: Axis| (axis, mesh.degree(axis));
        let data = [of(Axis::Replica), of(Axis::Shard)];
        match (self.engine, smp) {
            (Engine::Smp, Some(Smp::V2)) => {
                // Tensor ranks innermost, then the shard group (SMP v2 documentation, rank layout).
                vec![of(Axis::Replica), of(Axis::Shard), of(Axis::Pipeline), of(Axis::Tensor)]
            }
            (Engine::Smp, _) => {
                let letters = match self.parallel.placement.value().map(String::as_str) {
                    Some("spread") => "TPD",
                    Some(permutation) if permutation.len() == 3 => permutation,
                    _ => "DPT",
                };
                letters
                    .chars()
                    .flat_map(|letter| match letter {
                        'D' => data.to_vec(),
                        'P' => vec![of(Axis::Pipeline)],
                        _ => vec![of(Axis::Tensor)],
                    })
                    .collect()
            }
            (Engine::DeviceMap, _) => vec![of(Axis::Pipeline)],
            _ => data.to_vec(),
        }
    }
}

fn product_of_others(axes: &[(&str, &Val<u64>)], name: &str) -> u64 {
    axes.iter()
        .filter(|(other, _)| *other != name)
        .fold(1, |product, (_, val)| product.saturating_mul(val.value))
}
