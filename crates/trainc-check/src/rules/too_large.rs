//! A job whose weights, gradients and optimizer states alone are more than its nodes hold: which nodes would.

use super::{RULES, elsewhere, predicted_cost};
use crate::Context;
use crate::queries::instances::is_offered;
use crate::remedy::{self, Written};
use std::collections::BTreeSet;
use trainc_catalog::instances;
use trainc_diag::text;
use trainc_diag::{Diagnostic, Problems, Severity};
use trainc_ir::hardware::{AcceleratorKind, Instance};
use trainc_ir::{Engine, Plan};
use trainc_plan::plan::on_nodes;
use trainc_predict::layout::Hardware;
use trainc_predict::memory::remedies::Edit;
use trainc_predict::memory::{MEAN_ERROR, MemoryConstants, all_states, memory_with};
use trainc_predict::{Fit, Layout, Memory, Run, Sharding};

/// The most nodes that are looked at: more than any account has of a type.
const MOST_NODES: u64 = 1_024;

/// Bytes of all states beside all that could hold them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TooLarge {
    /// Weights, gradients and optimizer states, once.
    pub(super) states: f64,
    /// Memory of all GPUs.
    gpus: f64,
    /// Memory of all hosts.
    hosts: f64,
}

/// What is told where one copy of a layout's states is more than all GPUs and hosts of its nodes hold together: no degree,
/// batch or offloading makes it fit there, and no time of a run is worth a word. None where it is less, or not known.
pub(super) fn too_large(layout: &Layout) -> Option<TooLarge> {
    let hardware = &layout.hardware;
    let states = all_states(layout);
    let (gpus, hosts) =
        (hardware.gpus() * hardware.memory_bytes?, hardware.nodes * hardware.host_memory_bytes?);
    (states > gpus + hosts).then_some(TooLarge { states, gpus, hosts })
}

/// [`too_large`] of a plan.
pub(super) fn is_too_large(plan: &Plan) -> bool {
    Layout::of_plan(plan).is_ok_and(|layout| too_large(&layout).is_some())
}

impl TooLarge {
    /// `the weights, … take 1.03 TiB; 1 × `ml.g5.xlarge` has 22.4 GiB of GPU memory and 16 GiB of host memory`.
    pub(super) fn words(&self, plan: &Plan) -> String {
        let nodes = plan.mesh.as_ref().map_or(1, |mesh| mesh.nodes);
        let kind = plan.job.rank_instance().map_or("node", |kind| kind.value.as_str());
        let [states, gpus, hosts] = [self.states, self.gpus, self.hosts].map(super::memory::bytes);
        format!(
            "weights, gradients and optimizer states alone take {states}; {nodes} × `{kind}` has {gpus} of GPU memory and {hosts} of host memory"
        )
    }
}

/// Nodes that would hold a job.
struct Home {
    name: &'static str,
    nodes: u64,
    plan: Plan,
    memory: Memory,
    run: Option<Run>,
    /// The shard degree that makes them one group, where another one is written.
    whole_group: Option<u64>,
}

impl Home {
    fn usd(&self) -> f64 {
        self.run.as_ref().and_then(|run| run.least_usd).unwrap_or(f64::MAX)
    }

    /// `cluster "ml.p4de.24xlarge" nodes=8`, or `nodes=64` of the type that is written.
    fn written(&self, own: &str) -> String {
        if self.name == own {
            format!("nodes={}", self.nodes)
        } else {
            format!("cluster \"{}\" nodes={}", self.name, self.nodes)
        }
    }

    /// What else is to be written, and what to be taken away: a shard degree that stands there would stay.
    fn beside(&self) -> Option<(String, Option<&'static str>)> {
        let degree = self.whole_group?;
        let is_fsdp = self.plan.mesh.as_ref().is_some_and(|mesh| mesh.engine == Engine::Fsdp);
        Some(if is_fsdp {
            ("strategy \"full-shard\"".to_owned(), Some("shard-degree"))
        } else {
            (format!("shard-degree {degree}"), None)
        })
    }

    /// The same as edits that can be written: of more nodes of the type that is written, where nothing is taken away.
    /// Another type is for people to choose.
    fn edits(&self, own: &str) -> Option<Vec<Edit>> {
        let is_plain = self.beside().is_none_or(|(_, without)| without.is_none());
        let degree = self.whole_group.map(Edit::ShardDegree);
        (self.name == own && is_plain).then(|| [Edit::Nodes(self.nodes)].into_iter().chain(degree).collect())
    }

    /// `nodes=64` with what a GPU needs, how long the run takes, what it costs, and the global batch where it is another.
    fn words(&self, own: &str, before: &Plan) -> String {
        let needs = super::memory::bytes(self.memory.per_gpu_bytes);
        let of = super::memory::bytes(self.memory.capacity_bytes.unwrap_or(0.0));
        let run = self.run.as_ref().map_or_else(String::new, |run| {
            let usd = run.least_usd.map_or_else(
                || ", its price is not known: `--price` gives one".to_owned(),
                |usd| format!(", {}", text::dollars(usd)),
            );
            format!(", the run {}{usd}", text::about(run.expected_seconds()))
        });
        let batch = |plan: &Plan| plan.batch.as_ref().map(|batch| batch.global_sequences.value);
        let another = match (batch(&self.plan), batch(before)) {
            (Some(new), Some(old)) if new != old => {
                format!(
                    ", another training: a global batch of {}, not {}",
                    text::group(new),
                    text::group(old)
                )
            }
            _ => String::new(),
        };
        let beside = self.beside().map_or_else(String::new, |(write, without)| {
            let without = without.map_or_else(String::new, |what| format!(" without `{what}`"));
            format!(" and `{write}`{without}")
        });
        let unsure = if self.memory.fit() == Some(Fit::Maybe) { ", may not fit" } else { "" };
        format!("`{}`{beside} ({needs} of {of} on each GPU{run}{another}{unsure})", self.written(own))
    }
}

/// Says which nodes would hold the job: the fewest of the type that is written, and of the other types the ones on which
/// the run is cheapest.
pub(super) fn with_homes(context: &Context, layout: &Layout, diagnostic: Diagnostic) -> Diagnostic {
    let plan = context.plan;
    if layout.sharding == Sharding::None || !shards(plan) {
        return match plan.mesh.as_ref().map(|mesh| mesh.engine) {
            Some(Engine::Ddp | Engine::Smddp | Engine::None) => diagnostic.note(
                "each GPU keeps all of them, on however many nodes: `engine=\"fsdp\"` divides them over the GPUs",
            ),
            _ => diagnostic,
        };
    }
    let Some(own) = &plan.instance else { return diagnostic };
    let found = homes(context, layout, own);
    let facts: Vec<serde_json::Value> = found
        .iter()
        .map(|home| {
            serde_json::json!({
                "write": home.written(&own.name),
                "beside": home.beside().map(|(write, _)| write),
                "remove": home.beside().and_then(|(_, without)| without),
                "nodes": home.nodes,
                "instance": home.name,
                "per_gpu_bytes": home.memory.per_gpu_bytes.round(),
                "capacity_bytes": home.memory.capacity_bytes,
                "seconds": home.run.as_ref().map(|run| run.expected_seconds().round()),
                "cost_usd": home.run.as_ref().and_then(|run| run.least_usd),
            })
        })
        .collect();
    let diagnostic = diagnostic.fact("nodes_that_hold_it", facts);
    let mut words = found.iter().map(|home| home.words(&own.name, plan));
    let Some(first) = words.next() else { return diagnostic.note(nowhere(plan, "any type")) };
    let diagnostic = diagnostic.help(format!("write {first}"));
    let edits = found.first().and_then(|home| home.edits(&own.name));
    let diagnostic = match edits.and_then(|edits| remedy::fix(context, &edits)) {
        Some(Written { span, text }) => diagnostic.fix(span, text),
        None => diagnostic,
    };
    let diagnostic = words.fold(diagnostic, |diagnostic, words| diagnostic.note(format!("or {words}")));
    if found.iter().any(|home| home.name == own.name) || !is_offered(plan, own) {
        return diagnostic;
    }
    diagnostic.note(nowhere(plan, &format!("`{}`", own.name)))
}

/// That no number of nodes of a type holds it, and why.
fn nowhere(plan: &Plan, of: &str) -> String {
    let written = plan.job.train.global_batch.get().zip(plan.batch.as_ref()).zip(plan.mesh.as_ref());
    let why = written.map_or_else(String::new, |((global, batch), mesh)| {
        let ranks = mesh.tensor_degree.value * mesh.pipeline_degree.value;
        let most = (global / batch.per_replica.max(1)).saturating_mul(ranks);
        let (global, most) = (text::group(global), text::count(most, "GPU"));
        format!(": a global batch of {global} is divided over at most {most}")
    });
    format!("no number of nodes of {of} holds it as it is written{why}")
}

/// Whether more nodes make the shard group larger, as it is or with another degree in place of the one that is written.
fn shards(plan: &Plan) -> bool {
    let Some(mesh) = &plan.mesh else { return false };
    let grouped = plan.job.cluster.as_ref().is_none_or(|cluster| !cluster.groups.is_empty());
    plan.deployable && !grouped && (mesh.replicas.value == 1 || degree_is_written(plan))
}

fn degree_is_written(plan: &Plan) -> bool {
    plan.job.parallel.as_ref().is_some_and(|parallel| !parallel.shard_degree.is_absent())
}

/// The fewest nodes of the type that is written, and the cheapest of another; the cheaper of them first.
fn homes(context: &Context, layout: &Layout, own: &Instance) -> Vec<Home> {
    let now = errors(context, context.plan);
    let sound = |home: &Home| errors(context, &home.plan).is_subset(&now);
    let mut others = Vec::new();
    let mut out = Vec::new();
    for name in instances::names() {
        let Some(row) = instances::get(name) else { continue };
        let is_gpu = row.accelerator.kind == AcceleratorKind::Gpu;
        if !is_gpu || !elsewhere::runs(context.plan, &row, own) || !is_offered(context.plan, &row) {
            continue;
        }
        let Some(home) = home(context, layout, (name, &row)) else { continue };
        if name == own.name {
            out.push(home);
        } else {
            others.push(home);
        }
    }
    out.retain(|home| sound(home));
    others.sort_by(|a, b| a.usd().total_cmp(&b.usd()).then(a.nodes.cmp(&b.nodes)));
    out.extend(others.into_iter().find(|home| sound(home)));
    out.sort_by(|a, b| a.usd().total_cmp(&b.usd()));
    out
}

/// The fewest nodes of a type that hold the job with room for what a prediction is off by, and the plan on them.
fn home(context: &Context, layout: &Layout, (name, row): (&'static str, &Instance)) -> Option<Home> {
    let constants = MemoryConstants::of(context.constants);
    let fits = |memory: &Memory| {
        let room = |capacity: f64| memory.per_gpu_bytes * (1.0 + MEAN_ERROR) <= capacity;
        memory.capacity_bytes.is_some_and(room)
    };
    let others = layout.degrees.tensor * layout.degrees.pipeline;
    let hosts = |layout: &Layout, memory: &Memory| {
        memory.host_bytes.zip(layout.hardware.host_memory_bytes).is_none_or(|(needs, has)| needs <= has)
    };
    let global = context.plan.job.train.global_batch.get();
    let is_written = degree_is_written(context.plan);
    for nodes in 1..=MOST_NODES {
        let hardware = Hardware::of_instance(row, nodes);
        let mut new = Layout { hardware, ..layout.clone() };
        new.degrees.shard = new.hardware.gpus() / others;
        new.degrees.replicas = 1.0;
        let in_a_pass = layout.work.micro_batch_size * layout.work.num_micro_batches * new.degrees.shard;
        let divides = global.is_none_or(|global| (global as f64 / in_a_pass).fract() == 0.0);
        if new.degrees.shard.fract() != 0.0 || !divides {
            continue;
        }
        let memory = memory_with(&new, &constants);
        if !fits(&memory) || !hosts(&new, &memory) {
            continue;
        }
        let price = elsewhere::price(context, name);
        let whole_group = is_written.then(|| predicted_cost::whole(new.degrees.shard));
        let plan = on_nodes(context.plan, name, price, (nodes, whole_group))?;
        let layout = Layout::of_plan(&plan).ok()?;
        let memory = memory_with(&layout, &constants);
        let run = predicted_cost::predicted(&Context { plan: &plan, is_trial: true, ..*context });
        return fits(&memory).then(|| Home {
            name,
            nodes,
            memory,
            run: run.map(|(_, run)| run),
            whole_group,
            plan,
        });
    }
    None
}

/// Codes of what refuses a plan, but for what is said of its time and cost: those are shown.
fn errors(context: &Context, plan: &Plan) -> BTreeSet<&'static str> {
    let context = Context { plan, is_trial: true, ..*context };
    let mut problems = Problems::default();
    for rule in RULES {
        rule(&context, &mut problems);
    }
    let shown = [super::predicted_time::CODES, predicted_cost::CODES, super::budget::CODES].concat();
    let refuses = |one: &&Diagnostic| one.severity == Severity::Error && !shown.contains(&one.code);
    problems.iter().filter(refuses).map(|one| one.code.id).collect()
}
