//! Computes the mesh: world size, degrees, minimum nodes, and the order of the axes.

use super::minimum_nodes::minimum_nodes;
use crate::plan::divisors::{describe_near_divisors, divisors, largest_divisor, near_divisors};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Help, Problems};
use trainc_ir::{Axis, Engine, Field, Job, Machine, Mesh, ModelFacts, Parallel, Smp, Val};

declare_code!(
    T0301,
    "degree-does-not-divide",
    Error,
    "the world size is not divisible by the degrees",
    ends: Speed
);
declare_code!(
    T0302,
    "shard-degree-strategy-mismatch",
    Error,
    "a shard degree that conflicts with the sharding strategy",
    ends: Speed
);
declare_code!(
    T0303,
    "degrees-exceed-world-size",
    Error,
    "degrees that need more GPUs than the cluster has",
    ends: Speed
);
declare_code!(
    T0304,
    "shard-degree-not-divisible",
    Error,
    "a context or expert degree that does not divide the shard degree",
    ends: Speed
);
declare_code!(T0305, "cluster-too-large", Error, "a cluster with too many GPUs", ends: Speed);
declare_code!(T0306, "device-map-multi-node", Error, "a device map on more than one node", ends: Speed);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0301, &T0302, &T0303, &T0304, &T0305, &T0306];

/// Maximum size of a cluster; keeps every product within 64 bits.
const MAX_GPUS: u64 = 1 << 24;

/// Computes the mesh; returns `None` if the cluster or the engine is unknown.
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

/// Returns the number of data ranks for engines whose ranks all read different data. It is known even if the degrees
/// are invalid, so that the batch can be checked. Returns `None` for other engines or without a cluster.
pub(super) fn data_ranks(job: &Job, machine: Option<&Machine>) -> Option<u64> {
    let at = layout(job, machine, None, &mut Problems::default())?;
    matches!(at.engine, Engine::Fsdp | Engine::Worker).then_some(at.world_size)
}

/// Computes the world over which the axes are arranged.
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
            Val::derived(group.nodes.get()?, format!("nodes of group `{name}`, which runs the ranks"))
        }
        // Ranks over several groups without `group=` are an error, so only plain scripts continue here.
        (Field::Absent, groups) if !groups.is_empty() && engine == Engine::None => {
            let sum = groups.iter().map(|group| group.nodes.get()).sum::<Option<u64>>()?;
            Val::derived(sum, "sum of all groups")
        }
        _ => return None,
    };
    let nodes = nodes_val.value;
    let ranks_per_node = mpi_processes(parallel, engine, smp, gpus_per_node.saturating_mul(ranks_per_gpu))
        .unwrap_or_else(|| {
            gpus_per_node.saturating_mul(if engine == Engine::DeviceMap { 1 } else { ranks_per_gpu })
        });
    let most = nodes.checked_mul(gpus_per_node.max(ranks_per_node)).filter(|most| *most <= MAX_GPUS);
    let world_size = most.map(|_| nodes * ranks_per_node);
    let Some(world_size) = world_size else {
        problems.push(
            Diagnostic::new(
                &T0305,
                nodes_val.span_or(cluster.span),
                format!(
                    "{} × {} exceeds the maximum cluster size",
                    text::count(nodes, "node"),
                    text::count(gpus_per_node, "GPU")
                ),
            )
            .note(format!("trainc supports up to {} GPUs", text::group_digits(MAX_GPUS))),
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

/// Returns the processes that MPI starts on each host, if `processes` sets at most one for each GPU; a rule
/// reports larger values.
fn mpi_processes(parallel: &Parallel, engine: Engine, smp: Option<&Smp>, most: u64) -> Option<u64> {
    let by_mpi = match engine {
        Engine::Smddp | Engine::Ddp => true,
        Engine::Smp => matches!(smp, Some(Smp::V1(_))),
        _ => false,
    };
    parallel.processes.get().filter(|processes| by_mpi && (1..=most).contains(processes))
}

fn degree_one(rule: &'static str) -> Val<u64> {
    Val::default(1, rule)
}

impl Layout<'_> {
    /// Returns the noun for a rank in messages: a GPU if each has one rank.
    fn rank_noun(&self) -> &'static str {
        if self.ranks_per_node == self.gpus_per_node { "GPU" } else { "process" }
    }

    /// Describes the ranks of a node.
    fn ranks_of_node(&self) -> String {
        text::count(self.ranks_per_node, self.rank_noun())
    }

    fn build(
        &self,
        minimum: Option<(Val<u64>, Val<u64>)>,
        smp: Option<&Smp>,
        problems: &mut Problems,
    ) -> Option<Mesh> {
        const NOT_SPLIT: &str = "not supported by this engine";
        let mut mesh = Mesh {
            engine: self.engine,
            nodes: self.nodes,
            gpus_per_node: self.gpus_per_node,
            processes_per_node: self.ranks_per_node,
            world_size: self.world_size,
            replicas: degree_one(NOT_SPLIT),
            shard_degree: degree_one(NOT_SPLIT),
            tensor_degree: degree_one(NOT_SPLIT),
            pipeline_degree: degree_one(NOT_SPLIT),
            context_degree: degree_one(NOT_SPLIT),
            expert_degree: degree_one(NOT_SPLIT),
            data_ranks: degree_one(NOT_SPLIT),
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
            Engine::Smp => self.set_smp_degrees(&mut mesh),
            Engine::DeviceMap => {
                if self.nodes > 1 {
                    problems.push(
                        Diagnostic::new(
                            &T0306,
                            self.cluster_span,
                            format!(
                                "engine `device-map` supports one node only; the cluster has {}",
                                self.nodes
                            ),
                        )
                        .write("nodes=1")
                        .or_else("use an engine for several nodes such as `fsdp`"),
                    );
                    return None;
                }
                mesh.processes_per_node = 1;
                mesh.pipeline_degree = Val::derived(self.gpus_per_node, "all GPUs of the node");
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
        // Invalid degrees were reported; the others are still checked.
        let p = self.parallel;
        let smp_only = [&p.tensor_degree, &p.pipeline_degree, &p.context_degree, &p.expert_degree];
        let is_smp = self.engine == Engine::Smp;
        let unknown = is_smp
            && (p.shard_degree.is_bad()
                || p.processes.is_bad()
                || p.prescaled_batch.is_bad()
                || smp_only.iter().any(|degree| degree.is_bad()));
        let replicas = self.set_replicas(&mut mesh, problems);
        // A rule reports degrees that the image's SMP version does not support; they are not checked further.
        let unsupported = match (self.engine, smp) {
            (Engine::Smp, Some(Smp::V1(_))) => mesh.context_degree.value > 1 || mesh.expert_degree.value > 1,
            (Engine::Smp, Some(Smp::V2)) => mesh.pipeline_degree.value > 1,
            _ => false,
        };
        let parts = if unsupported || is_smp && p.shard_degree.is_bad() {
            None
        } else {
            self.check_context_and_expert_degrees(&mesh, problems)
        };
        if unknown || replicas.is_none() || parts.is_none() {
            return None;
        }
        self.set_data_ranks_and_order(&mut mesh, minimum, smp);
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
                Some(("no-shard", _)) => Val::default(1, "no-shard: nothing is sharded"),
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
                    format!("strategy `{name}` requires `shard-degree {wanted}`; found {}", written.value),
                )
                .label(span, "strategy")
                .help(if !world.is_multiple_of(written.value) {
                    Help::remove("shard-degree")
                } else if name == "no-shard" {
                    Help::remove("shard-degree").or_write("strategy \"hybrid-shard\"")
                } else {
                    Help::write("strategy \"hybrid-shard\"")
                        .and_text(&format!(" to shard over {} GPUs", written.value))
                        .or_remove("shard-degree")
                }),
            );
            return None;
        }
        Some(written.clone())
    }

    /// Returns the shard degree of engine `worker`: all GPUs of the recommended nodes, limited to the cluster.
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
            None => Val::default(self.world_size, "the whole world, since the size of the model is unknown"),
        }
    }

    fn set_smp_degrees(&self, mesh: &mut Mesh) {
        const SMP_DEFAULT: &str = "smp: 1 unless set";
        let pick = |field: &Field<u64>| field.val().cloned().unwrap_or_else(|| degree_one(SMP_DEFAULT));
        mesh.shard_degree = pick(&self.parallel.shard_degree);
        mesh.tensor_degree = pick(&self.parallel.tensor_degree);
        mesh.pipeline_degree = pick(&self.parallel.pipeline_degree);
        mesh.context_degree = pick(&self.parallel.context_degree);
        mesh.expert_degree = pick(&self.parallel.expert_degree);
    }

    /// Computes the replicas that the other axes leave; reports degrees that do not divide the world size.
    fn set_replicas(&self, mesh: &mut Mesh, problems: &mut Problems) -> Option<()> {
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
                format!("{shown} exceeds the {} of this cluster", text::count(world, self.rank_noun())),
            )
            .label(
                self.cluster_span,
                format!("{} × {}", text::count(self.nodes, "node"), self.ranks_of_node()),
            );
            let others = product_of_others(&axes, name);
            let room = world.checked_div(others).unwrap_or(0);
            if room >= 1 {
                diagnostic = diagnostic
                    .write(format!("{name} {}", largest_divisor(world / others.max(1), room)))
                    .and_text(" or less");
            }
            problems.push(diagnostic.fact("world_size", world));
            return None;
        };
        if !world.is_multiple_of(product) {
            self.report_indivisible(world, &axes, problems);
            return None;
        }
        mesh.replicas = if product == 1 {
            Val::derived(world, format!("world size {world}, not sharded"))
        } else {
            let shown: Vec<String> = axes
                .iter()
                .map(|(name, val)| format!("{} {}", name.trim_end_matches("-degree"), val.value))
                .collect();
            Val::derived(world / product, format!("world size {world} / ({})", shown.join(" × ")))
        };
        Some(())
    }

    fn report_indivisible(&self, world: u64, axes: &[(&str, &Val<u64>)], problems: &mut Problems) {
        // Every axis that does not divide the world is an error. If all of them do, the first that does not divide the
        // remainder is the error.
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
            let near = describe_near_divisors(left, val.value);
            let mut diagnostic = Diagnostic::new(
                &T0301,
                val.span_or(self.parallel.span),
                format!("`{name}` {} does not divide {of}", val.value),
            )
            .label(
                self.cluster_span,
                format!("{} × {}", text::count(self.nodes, "node"), self.ranks_of_node()),
            )
            .help(format!("use a divisor of {left}: {near}"))
            .fact("world_size", world)
            .fact("legal", divisors(left));
            if val.origin.span().is_none() {
                diagnostic = diagnostic.note(format!(
                    "`{name}` is not set in the manifest: it is {}",
                    crate::plan::describe_origin(&val.origin)
                ));
            }
            problems.push(diagnostic);
            if alone.is_empty() {
                return;
            }
        }
    }

    /// Checks that context and expert degree divide the shard degree.
    fn check_context_and_expert_degrees(&self, mesh: &Mesh, problems: &mut Problems) -> Option<()> {
        let mut fine = Some(());
        for (name, val) in [("context-degree", &mesh.context_degree), ("expert-degree", &mesh.expert_degree)]
        {
            let shard = mesh.shard_degree.value;
            if val.value > 1 && !shard.is_multiple_of(val.value) {
                problems.push(
                    Diagnostic::new(
                        &T0304,
                        val.span_or(self.parallel.span),
                        format!("`{name}` {} does not divide `shard-degree` {shard}", val.value),
                    )
                    .label(mesh.shard_degree.span_or(self.parallel.span), "shard degree")
                    .help(shard_degree_help(self.parallel, mesh, val.value)),
                );
                fine = None;
            }
        }
        fine
    }

    fn set_data_ranks_and_order(
        &self,
        mesh: &mut Mesh,
        minimum: Option<(Val<u64>, Val<u64>)>,
        smp: Option<&Smp>,
    ) {
        let data = mesh.replicas.value * mesh.shard_degree.value;
        mesh.data_ranks = match (self.engine, smp) {
            (Engine::DeviceMap, _) => degree_one("one process"),
            (Engine::Smp, Some(Smp::V2)) => Val::derived(
                data / mesh.context_degree.value.max(1),
                "replicas × shard degree / context degree",
            ),
            (Engine::Smp, _)
                if mesh.tensor_degree.value > 1 && self.parallel.prescaled_batch.get() != Some(true) =>
            {
                Val::derived(
                    data * mesh.tensor_degree.value,
                    "replicas × shard degree × tensor degree: without `prescaled-batch #true` each tensor rank reads a batch",
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

    /// Returns the axes, slowest first, in the engine's rank order.
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

/// Returns the degree to write if a context or expert degree does not divide the shard degree.
fn shard_degree_help(parallel: &Parallel, mesh: &Mesh, part: u64) -> String {
    if let Some(degree) = suggested_shard_degree(parallel, mesh, part) {
        return format!("add `shard-degree {degree}`");
    }
    let (below, above) = near_divisors(mesh.shard_degree.value, part);
    let legal: Vec<String> = [below, above].into_iter().flatten().map(|n| n.to_string()).collect();
    if legal.is_empty() {
        format!("write `shard-degree {part}` or a multiple of it")
    } else {
        format!("use a divisor of {}: {}", mesh.shard_degree.value, text::list(&legal, "or"))
    }
}

/// Returns the shard degree to write if none is set: the whole node if valid, otherwise the part.
fn suggested_shard_degree(parallel: &Parallel, mesh: &Mesh, part: u64) -> Option<u64> {
    if !parallel.shard_degree.is_absent() || mesh.shard_degree.value > 1 {
        return None;
    }
    let others = mesh.tensor_degree.value.checked_mul(mesh.pipeline_degree.value)?;
    let room = mesh.world_size.checked_div(others)?;
    let legal = |degree: &u64| *degree > 0 && degree.is_multiple_of(part) && room.is_multiple_of(*degree);
    [mesh.gpus_per_node, part].into_iter().find(legal)
}

fn product_of_others(axes: &[(&str, &Val<u64>)], name: &str) -> u64 {
    axes.iter()
        .filter(|(other, _)| *other != name)
        .fold(1, |product, (_, val)| product.saturating_mul(val.value))
}
