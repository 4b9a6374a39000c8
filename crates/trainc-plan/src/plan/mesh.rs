//! Computes the mesh: world size, degrees, minimum nodes, and the order of the axes.

use super::minimum_nodes::minimum_nodes;
use crate::plan::divisors::{describe_near_divisors, divisors, largest_divisor, near_divisors};
use crate::resolve::T0222;
use trainc_catalog::engine_files::{self, KeyRow};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Help, Problems};
use trainc_engine::files::{as_written, meant, plan_names};
use trainc_ir::engine::{Absent, Degree, Inside, Law, Ranks};
use trainc_ir::{Axis, Engine, Field, Job, Machine, Mesh, ModelFacts, Parallel, Plan, Scalar, Val};

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
    (job, engine): (&Job, Option<Engine>),
    machine: Option<&Machine>,
    model: Option<&ModelFacts>,
    problems: &mut Problems,
) -> Option<Mesh> {
    let at = layout((job, engine), machine, problems)?;
    let minimum = minimum_nodes(at.parallel, at.engine, model);
    at.build(minimum, problems)
}

/// Returns the number of data ranks for engines that shard and whose ranks all read different data. It is
/// known even if the degrees are invalid, so that the batch can be checked. Returns `None` for other engines
/// or without a cluster.
pub(super) fn data_ranks(job: &Job, machine: Option<&Machine>) -> Option<u64> {
    let at = layout((job, trainc_engine::of_job(job)), machine, &mut Problems::default())?;
    let law = at.law();
    let all_read = law.factors.iter().all(|factor| law.reads.contains(&factor.axis)) && law.shares.is_empty();
    (law.can_shard() && all_read).then_some(at.world_size)
}

/// Returns the mesh of a plan as the files of its engine give it, without the degrees that the manifest alone
/// writes. `None` if it has no such file or the degrees are invalid.
pub fn mesh_of_files(plan: &Plan) -> Option<Mesh> {
    let sources: Vec<_> = plan.files.iter().map(|file| file.span.source).collect();
    plan.files.first()?;
    let mut job = plan.job.clone();
    let parallel = job.parallel.as_mut()?;
    for axis in Axis::ALL {
        let degree = axis.written_mut(parallel);
        let is_repeated = degree.get().is_some_and(|degree| is_in_file(plan, axis, degree));
        if !is_repeated && degree.span().is_some_and(|span| !sources.contains(&span.source)) {
            *degree = Field::Absent;
        }
    }
    mesh((&job, plan.engine), plan.machine.as_ref(), plan.model.as_ref(), &mut Problems::default())
}

/// Returns whether a file of the engine gives an axis this degree.
fn is_in_file(plan: &Plan, axis: Axis, degree: u64) -> bool {
    let word = format!("parallel/{}", axis.node());
    plan.files.iter().filter(|file| !file.is_replaced).any(|file| {
        let Some(table) = engine_files::keys(file.table) else { return false };
        let names = plan_names(plan).with_file(table, file, &plan.programs);
        let says = |row: &KeyRow| meant(row, &as_written(&file.setting(&row.key)?.value)?, &names);
        let mut rows = table.rows.iter().filter(|row| row.word.as_deref() == Some(word.as_str()));
        rows.any(|row| says(row) == Some(Scalar::Int(degree.into())))
    })
}

/// Computes the world over which the axes are arranged.
fn layout<'a>(
    (job, engine): (&'a Job, Option<Engine>),
    machine: Option<&Machine>,
    problems: &mut Problems,
) -> Option<Layout<'a>> {
    let parallel = job.parallel.as_ref()?;
    let engine = engine?;
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
        (Field::Absent, groups) if !groups.is_empty() && engine.law.is_script() => {
            let sum = groups.iter().map(|group| group.nodes.get()).sum::<Option<u64>>()?;
            Val::derived(sum, "sum of all groups")
        }
        _ => return None,
    };
    let nodes = nodes_val.value;
    let cores = gpus_per_node.saturating_mul(ranks_per_gpu);
    let ranks_per_node = match engine.law.ranks {
        Ranks::OneProcess => gpus_per_node,
        // A rule reports more processes than cores.
        Ranks::PerProcess => {
            parallel.processes.get().filter(|written| (1..=cores).contains(written)).unwrap_or(cores)
        }
        Ranks::PerAccelerator | Ranks::Host => cores,
    };
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

    fn law(&self) -> &'static Law {
        self.engine.law
    }

    fn build(&self, minimum: Option<(Val<u64>, Val<u64>)>, problems: &mut Problems) -> Option<Mesh> {
        const NOT_SPLIT: &str = "not supported by this engine";
        let law = self.law();
        let mut mesh = Mesh::new(law, (self.nodes, self.gpus_per_node), &[], NOT_SPLIT);
        (mesh.processes_per_node, mesh.world_size) = (self.ranks_per_node, self.world_size);
        if law.is_device_map() && self.nodes > 1 {
            self.report_several_nodes(problems);
            return None;
        }
        if law.is_script() {
            const PLAIN: &str = "one plain process on each host";
            mesh.processes_per_node = 1;
            mesh.replicas = Val::derived(self.nodes, PLAIN);
            mesh.data_ranks = Val::derived(self.nodes, PLAIN);
            mesh.order = vec![(Axis::Replica, self.nodes)];
            return Some(mesh);
        }
        if law.is_device_map() {
            mesh.processes_per_node = 1;
        }
        for factor in law.factors {
            *mesh.degree_mut(factor.axis) = self.degree(factor, minimum.as_ref(), problems)?;
        }
        for Inside { degree, .. } in law.inside {
            *mesh.degree_mut(degree.axis) = self.degree(degree, minimum.as_ref(), problems)?;
        }
        self.report_axes_of_other_laws(problems)?;
        // Invalid degrees were reported; the others are still checked.
        let unknown = self.reads_bad_value();
        let replicas = self.set_replicas(&mut mesh, problems);
        // A rule reports degrees that the image's version of the engine does not support; they are not
        // checked further.
        let unsupported = law.unsupported.iter().any(|axis| mesh.degree(*axis) > 1);
        let parts = if unsupported { None } else { self.check_degrees_inside_others(&mesh, problems) };
        if unknown || replicas.is_none() || parts.is_none() {
            return None;
        }
        self.set_data_ranks_and_order(&mut mesh, minimum);
        Some(mesh)
    }

    /// Returns true if a value that the mesh depends on was reported already.
    fn reads_bad_value(&self) -> bool {
        let (law, p) = (self.law(), self.parallel);
        law.axes().any(|axis| axis.written(p).is_bad())
            || law.ranks == Ranks::PerProcess && p.processes.is_bad()
            || law.tensor_reads && p.prescaled_batch.is_bad()
    }

    fn report_several_nodes(&self, problems: &mut Problems) {
        problems.push(
            Diagnostic::new(
                &T0306,
                self.cluster_span,
                format!(
                    "engine `{}` supports one node only; the cluster has {}",
                    self.engine.name(),
                    self.nodes
                ),
            )
            .write("nodes=1")
            .or_else("use an engine for several nodes such as `fsdp`"),
        );
    }

    /// Returns the degree of an axis: as written, by the strategy, or what the law has for an absent one.
    fn degree(
        &self,
        degree: &Degree,
        minimum: Option<&(Val<u64>, Val<u64>)>,
        problems: &mut Problems,
    ) -> Option<Val<u64>> {
        if degree.axis == Axis::Shard && !self.law().strategies.is_empty() {
            return self.degree_by_strategy(degree.absent, minimum, problems);
        }
        match (degree.absent, degree.axis.written(self.parallel)) {
            (Absent::AllGpus(rule), _) => Some(Val::derived(self.gpus_per_node, rule)),
            (_, Field::Is(written)) => Some(written.clone()),
            (absent, _) => Some(self.absent_degree(degree.axis, absent, minimum)),
        }
    }

    /// Reports degrees of axes that only other laws of the engine have: they go with other strategies.
    fn report_axes_of_other_laws(&self, problems: &mut Problems) -> Option<()> {
        let (law, front) = (self.law(), self.engine.front);
        let mut fine = Some(());
        for axis in Axis::ALL.into_iter().filter(|axis| !law.axes().any(|own| own == *axis)) {
            let Field::Is(written) = axis.written(self.parallel) else { continue };
            let takers = front.laws.iter().filter(|law| law.axes().any(|own| own == axis));
            let own = law.strategy(Some(self.parallel)).map(|strategy| strategy.word);
            let mut words: Vec<&str> = Vec::new();
            for strategy in takers.flat_map(|law| law.strategies) {
                if Some(strategy.word) != own && !words.contains(&strategy.word) {
                    words.push(strategy.word);
                }
            }
            if written.value <= 1 || words.is_empty() {
                continue;
            }
            let node = axis.node();
            let what = match own {
                Some(word) => format!("strategy `{word}`"),
                None => format!("engine `{}` without a strategy", self.engine.name()),
            };
            let mut diagnostic = Diagnostic::new(
                &T0222,
                written.span_or(self.parallel.span),
                format!(
                    "{what} does not support `{node}`, which is only valid with {}",
                    text::backtick_list(&words, "or")
                ),
            );
            if let Some(at) = self.parallel.strategy.span() {
                diagnostic = diagnostic.label(at, "the strategy");
            }
            problems.push(diagnostic.remove(node));
            fine = None;
        }
        fine
    }

    /// Returns what the degrees of the other axes, as written, leave of the world size for an axis.
    fn rest(&self, axis: Axis) -> u64 {
        let others = self.law().axes().filter(|other| *other != axis && self.law().inside(*other).is_none());
        let taken = others.map(|other| other.written(self.parallel).get().unwrap_or(1).max(1));
        let taken = taken.fold(1, u64::saturating_mul);
        self.world_size.checked_div(taken).unwrap_or(1).max(1)
    }

    fn absent_degree(&self, axis: Axis, absent: Absent, minimum: Option<&(Val<u64>, Val<u64>)>) -> Val<u64> {
        match (absent, minimum) {
            (Absent::One(rule), _) => Val::default(1, rule),
            (Absent::Rest(rule), _) => Val::default(self.rest(axis), rule),
            (Absent::Node(rule), _) => Val::default(self.gpus_per_node, rule),
            (Absent::World(rule), _) | (Absent::Recommended(rule), None) => {
                Val::default(self.world_size, rule)
            }
            (Absent::AllGpus(rule), _) => Val::derived(self.gpus_per_node, rule),
            // All GPUs of the recommended nodes, limited to the cluster.
            (Absent::Recommended(_), Some((_, recommended))) => {
                let mut nodes = recommended.value.min(self.nodes).max(1);
                while !self.nodes.is_multiple_of(nodes) {
                    nodes -= 1;
                }
                Val::derived(
                    nodes * self.gpus_per_node,
                    format!("one node per 3 billion parameters: {}", text::count(nodes, "node")),
                )
            }
        }
    }

    /// Returns the shard degree of a strategy, or the written one, which a fixed strategy must have.
    fn degree_by_strategy(
        &self,
        absent: Absent,
        minimum: Option<&(Val<u64>, Val<u64>)>,
        problems: &mut Problems,
    ) -> Option<Val<u64>> {
        if self.parallel.shard_degree.is_bad() || self.parallel.strategy.is_bad() {
            return None;
        }
        let strategy = self.law().strategy(Some(self.parallel));
        let absent = strategy.map_or(absent, |strategy| strategy.degree);
        let implied = self.absent_degree(Axis::Shard, absent, minimum);
        let Field::Is(written) = &self.parallel.shard_degree else { return Some(implied) };
        let Some(strategy) = strategy.filter(|one| one.is_fixed && written.value != implied.value) else {
            return Some(written.clone());
        };
        let (world, wanted) = (self.world_size, implied.value);
        let free = self.law().strategies.iter().find(|strategy| !strategy.is_fixed);
        let other = free.map(|free| format!("strategy \"{}\"", free.word));
        let at = self.parallel.strategy.span().unwrap_or(self.parallel.span);
        problems.push(
            Diagnostic::new(
                &T0302,
                written.span_or(self.parallel.span),
                format!(
                    "strategy `{}` requires `shard-degree {wanted}`; found {}",
                    strategy.word, written.value
                ),
            )
            .label(at, "strategy")
            .help(match other.filter(|_| world.is_multiple_of(written.value)) {
                None => Help::remove("shard-degree"),
                Some(other) if wanted == 1 => Help::remove("shard-degree").or_write(other),
                Some(other) => Help::write(other)
                    .and_text(&format!(" to shard over {} GPUs", written.value))
                    .or_remove("shard-degree"),
            }),
        );
        None
    }

    /// Computes the replicas: as written, or what the other axes leave. Reports degrees that do not divide
    /// the world size, or leave another number of replicas.
    fn set_replicas(&self, mesh: &mut Mesh, problems: &mut Problems) -> Option<()> {
        let world = self.world_size;
        let chosen = self.chosen_replicas();
        let factors = self.law().factors.iter().map(|factor| factor.axis);
        let factors = factors.map(|axis| (axis.node(), mesh.degree_val(axis)));
        let replicas = chosen.as_ref().map(|val| (Axis::Replica.node(), val));
        let axes: Vec<(&str, &Val<u64>)> =
            replicas.into_iter().chain(factors).filter(|(_, val)| val.value > 1).collect();
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
        if let Some(chosen) = &chosen {
            if product != world {
                self.report_unfilled(mesh, &axes, product, problems);
                return None;
            }
            mesh.replicas = chosen.clone();
            return Some(());
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

    /// Returns the replicas that the manifest or the law sets; `None` if they are what the other axes leave.
    fn chosen_replicas(&self) -> Option<Val<u64>> {
        let absent = self.law().replicas?;
        if let Field::Is(written) = &self.parallel.replicate_degree {
            return Some(written.clone());
        }
        // A shard degree of its own leaves replicas.
        let leaves = self.law().strategy(Some(self.parallel)).is_some_and(|strategy| !strategy.is_whole());
        (!leaves).then(|| self.absent_degree(Axis::Replica, absent, None))
    }

    /// Reports degrees whose product is only a part of the world size.
    fn report_unfilled(
        &self,
        mesh: &Mesh,
        axes: &[(&str, &Val<u64>)],
        product: u64,
        problems: &mut Problems,
    ) {
        let (world, p) = (self.world_size, self.parallel);
        let written = axes.iter().rev().find(|(_, val)| val.origin.span().is_some());
        let at = written.map_or(p.span, |(_, val)| val.span_or(p.span));
        let shown: Vec<String> = axes.iter().map(|(name, val)| format!("`{name}` {}", val.value)).collect();
        let shown = match shown.as_slice() {
            [] => "all degrees are 1".to_owned(),
            [one] => format!("{one} is the only degree"),
            many => format!("{} = {product}", many.join(" × ")),
        };
        let more = world / product;
        let replicas = p.replicate_degree.get().unwrap_or(1).saturating_mul(more);
        let replicas = format!("replicate-degree {replicas}");
        let shards = format!("shard-degree {}", mesh.shard_degree.value.saturating_mul(more));
        let is_fixed = self.law().strategy(Some(p)).is_some_and(|strategy| strategy.is_fixed);
        let help = if is_fixed { Help::write(replicas) } else { Help::write(shards).or_write(replicas) };
        problems.push(
            Diagnostic::new(
                &T0301,
                at,
                format!("{shown}, but this cluster has {}", text::count(world, self.rank_noun())),
            )
            .label(
                self.cluster_span,
                format!("{} × {}", text::count(self.nodes, "node"), self.ranks_of_node()),
            )
            .help(help)
            .note("the program starts only if the degrees multiply to the number of its processes")
            .fact("world_size", world),
        );
    }

    fn report_indivisible(&self, world: u64, axes: &[(&str, &Val<u64>)], problems: &mut Problems) {
        // Every axis that does not divide the world is an error. If all of them do, the first that does not
        // divide the remainder is the error.
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

    /// Checks that the degree of each axis inside others divides theirs, and has those whole that it must.
    fn check_degrees_inside_others(&self, mesh: &Mesh, problems: &mut Problems) -> Option<()> {
        let mut fine = Some(());
        for Inside { degree, of, whole } in self.law().inside {
            let (name, val) = (degree.axis.node(), mesh.degree_val(degree.axis));
            if of.iter().any(|outer| outer.written(self.parallel).is_bad()) {
                return None;
            }
            let degrees = |axes: &[Axis]| axes.iter().map(|axis| mesh.degree(*axis)).collect::<Vec<_>>();
            let product = |axes: &[Axis]| degrees(axes).into_iter().fold(1, u64::saturating_mul).max(1);
            let (room, part) = (product(of), product(whole));
            if val.value <= 1 || room.is_multiple_of(val.value) && val.value.is_multiple_of(part) {
                continue;
            }
            let divides = room.is_multiple_of(val.value);
            let axes: Vec<Axis> = (if divides { whole } else { of }).to_vec();
            let others: Vec<Axis> = match axes.as_slice() {
                [one] => vec![*one],
                many => many.iter().copied().filter(|axis| mesh.degree(*axis) > 1).collect(),
            };
            let shown: Vec<String> =
                others.iter().map(|axis| format!("`{}` {}", axis.node(), mesh.degree(*axis))).collect();
            let shown = shown.join(" × ");
            let mut diagnostic = Diagnostic::new(
                &T0304,
                val.span_or(self.parallel.span),
                match divides {
                    true => format!("`{name}` {} is not a multiple of {shown}", val.value),
                    false if others.is_empty() => {
                        format!("`{name}` {} has no ranks to divide: the other degrees are 1", val.value)
                    }
                    false => format!("`{name}` {} does not divide {shown}", val.value),
                },
            );
            for outer in &others {
                let at = mesh.degree_val(*outer).span_or(self.parallel.span);
                diagnostic = diagnostic.label(at, format!("{} degree", outer.word()));
            }
            problems.push(diagnostic.help(if *of == [Axis::Shard] {
                shard_degree_help(self.parallel, mesh, val.value)
            } else {
                let legal: Vec<String> = divisors(room)
                    .into_iter()
                    .filter(|degree| *degree > 1 && degree.is_multiple_of(part))
                    .map(|degree| format!("{name} {degree}"))
                    .collect();
                match legal.as_slice() {
                    [] => format!("remove `{name}`"),
                    legal => format!("write {}", text::backtick_list(legal, "or")),
                }
            }));
            fine = None;
        }
        fine
    }

    fn set_data_ranks_and_order(&self, mesh: &mut Mesh, minimum: Option<(Val<u64>, Val<u64>)>) {
        let law = self.law();
        let ranks = law.data_ranks(|axis| mesh.degree(axis), law.reads_by_tensor(Some(self.parallel)));
        mesh.data_ranks = Val::derived(ranks, self.describe_data_ranks(mesh));
        if law.reads.is_empty() {
            mesh.data_ranks = degree_one("one process");
        }
        if let Some((minimum, recommended)) = minimum {
            mesh.minimum_nodes = Some(minimum);
            mesh.recommended_nodes = Some(recommended);
        }
        mesh.order = law.order(self.parallel).into_iter().map(|axis| (axis, mesh.degree(axis))).collect();
    }

    /// Describes the data ranks as a product of degrees.
    fn describe_data_ranks(&self, mesh: &Mesh) -> String {
        let law = self.law();
        let name = |axis: &Axis| match axis {
            Axis::Replica => "replicas".to_owned(),
            axis => format!("{} degree", axis.word()),
        };
        let mut out = law.reads.iter().map(name).collect::<Vec<_>>().join(" × ");
        for axis in law.shares {
            out.push_str(" / ");
            out.push_str(&name(axis));
        }
        if law.reads_by_tensor(Some(self.parallel)) && mesh.tensor_degree.value > 1 {
            out.push_str(" × tensor degree: without `prescaled-batch #true` each tensor rank reads a batch");
        }
        out
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
