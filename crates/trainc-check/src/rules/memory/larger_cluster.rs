//! Nodes that hold a job whose model states exceed its own nodes.

use crate::codes;
use super::also_tune;
use crate::Context;
use crate::queries::instances::is_offered;
use crate::queries::memory::format_bytes;
use crate::queries::prediction::predicted_run;
use crate::queries::prices::{describe_cost, instance_price};
use crate::what_if::alternatives::has_kernels;
use crate::what_if::codes_of_plan;
use crate::what_if::edit_text::{self, Replacement};
use trainc_catalog::instances;
use trainc_diag::text;
use trainc_diag::{Diagnostic, Edit, Note, Severity, Tag};
use trainc_ir::hardware::{AcceleratorKind, Instance};
use trainc_ir::{Plan, Price};
use trainc_predict::{Fit, Layout, Memory, Run, Sharding};
use trainc_tune::Space;
use trainc_tune::nearby::{Cluster, smallest_cluster};

/// A cluster that holds the job.
struct LargerCluster {
    name: String,
    nodes: u64,
    plan: Plan,
    memory: Memory,
    run: Option<Run>,
    /// The shard degree that makes it one shard group, if another degree is written.
    group_degree: Option<u64>,
}

impl LargerCluster {
    /// Returns what the run costs in dollars, with estimated prices at their high end.
    fn usd(&self) -> f64 {
        let cost = self.run.as_ref().filter(|run| run.least_usd.is_some());
        cost.map_or(f64::MAX, |run| run.cost_parts.total().high_usd)
    }

    /// Returns the text to write: `cluster "ml.p4de.24xlarge" nodes=8`, or `nodes=64` of the job's own type.
    fn cluster_text(&self, own: &str) -> String {
        if self.name == own {
            format!("nodes={}", self.nodes)
        } else {
            format!("cluster \"{}\" nodes={}", self.name, self.nodes)
        }
    }

    /// Returns what else to write, and what to remove: a written shard degree would not change.
    fn sharding_text(&self) -> Option<(String, Option<&'static str>)> {
        let degree = self.group_degree?;
        let strategy = self.plan.mesh.as_ref().and_then(|mesh| mesh.law.whole_world_strategy());
        Some(match strategy {
            Some(word) => (format!("strategy \"{word}\""), Some("shard-degree")),
            None => (format!("shard-degree {degree}"), None),
        })
    }

    /// Returns the cluster as edits for `--fix`: more nodes of the same type, without anything to remove.
    /// Another type is left to the user.
    fn edits(&self, own: &str) -> Option<Vec<Edit>> {
        let removes_nothing = self.sharding_text().is_none_or(|(_, without)| without.is_none());
        let nodes = Edit::property(&["cluster"], "nodes", self.nodes);
        let degree = self.group_degree.map(|degree| Edit::argument(&["parallel", "shard-degree"], degree));
        (self.name == own && removes_nothing).then(|| std::iter::once(nodes).chain(degree).collect())
    }

    /// Describes the cluster: `nodes=64` with the memory per GPU, time and cost of the run, and a changed
    /// global batch.
    fn describe(&self, own: &str, before: &Plan) -> Note {
        let needs = format_bytes(self.memory.per_gpu_bytes);
        let capacity = format_bytes(self.memory.capacity_bytes.unwrap_or(0.0));
        let run = self.run.as_ref().map_or_else(String::new, |run| {
            let usd = run.least_usd.map_or_else(
                || ", price unknown: pass `--price`".to_owned(),
                |usd| format!(", {}", describe_cost(run, usd)),
            );
            format!(", the run {}{usd}", text::rounded_duration(run.expected_seconds()))
        });
        let batch = |plan: &Plan| plan.batch.as_ref().map(|batch| batch.global_sequences.value);
        let new_batch = match (batch(&self.plan), batch(before)) {
            (Some(new), Some(old)) if new != old => {
                format!(
                    ", changes the training: a global batch of {} instead of {}",
                    text::group_digits(new),
                    text::group_digits(old)
                )
            }
            _ => String::new(),
        };
        let sharding = self.sharding_text().map_or_else(String::new, |(write, without)| {
            let without = without.map_or_else(String::new, |what| format!(" without `{what}`"));
            format!(" and `{write}`{without}")
        });
        let unsure = if self.memory.fit() == Some(Fit::Maybe) { ", may not fit" } else { "" };
        let cluster = self.cluster_text(own);
        let text = format!("`{cluster}`{sharding} ({needs} of {capacity} on each \
            GPU{run}{new_batch}{unsure})");
        Note::from(text).with_cost_if(self.run.as_ref().is_some_and(|run| run.least_usd.is_some()))
    }
}

/// Adds the clusters that hold the job: the fewest nodes of its own type, and the cheapest cluster of another
/// type.
pub(super) fn add_larger_clusters(context: &Context, layout: &Layout, diagnostic: Diagnostic) -> Diagnostic {
    let plan = context.plan;
    if layout.sharding == Sharding::None || !can_grow(plan) {
        return match &plan.mesh {
            Some(mesh) if mesh.law.whole_model => diagnostic.note(
                "every GPU holds all of them, whatever the number of nodes: `engine=\"fsdp\"` shards them",
            ),
            _ => diagnostic,
        };
    }
    let Some(own) = &plan.instance else { return diagnostic };
    let found = larger_clusters(context, own);
    let facts: Vec<serde_json::Value> = found
        .iter()
        .map(|cluster| {
            serde_json::json!({
                "write": cluster.cluster_text(&own.name),
                "beside": cluster.sharding_text().map(|(write, _)| write),
                "remove": cluster.sharding_text().and_then(|(_, without)| without),
                "nodes": cluster.nodes,
                "instance": cluster.name,
                "per_gpu_bytes": cluster.memory.per_gpu_bytes.round(),
                "capacity_bytes": cluster.memory.capacity_bytes,
                "seconds": cluster.run.as_ref().map(|run| run.expected_seconds().round()),
                "cost_usd": cluster.run.as_ref().and_then(|run| run.least_usd),
            })
        })
        .collect();
    let diagnostic = diagnostic.fact("nodes_that_hold_it", facts);
    let mut texts = found.iter().map(|cluster| cluster.describe(&own.name, plan));
    let Some(first) = texts.next() else { return diagnostic.note(none_fits(plan, "any type")) };
    let also = also_tune(plan);
    let diagnostic = diagnostic.help(format!("write {first}{also}")).prices(first.prices());
    let edits = found.first().and_then(|cluster| cluster.edits(&own.name));
    let diagnostic = match edits.and_then(|edits| edit_text::build_fix(context, &edits)) {
        Some(Replacement { span, text }) => diagnostic.fix(span, text),
        None => diagnostic,
    };
    let diagnostic = texts.fold(diagnostic, |diagnostic, text| diagnostic.note(text.map_text(|text| format!("or {text}"))));
    if found.iter().any(|cluster| cluster.name == own.name) || !is_offered(plan, own) {
        return diagnostic;
    }
    diagnostic.note(none_fits(plan, &format!("`{}`", own.name)))
}

/// Explains that no number of nodes of a type holds the job.
fn none_fits(plan: &Plan, kind: &str) -> String {
    let written = plan.job.train.global_batch.get().zip(plan.batch.as_ref()).zip(plan.mesh.as_ref());
    let why = written.map_or_else(String::new, |((global, batch), mesh)| {
        let ranks = mesh.tensor_degree.value * mesh.pipeline_degree.value;
        let most = (global / batch.per_replica.max(1)).saturating_mul(ranks);
        let (global, most) = (text::group_digits(global), text::count(most, "GPU"));
        format!(": a global batch of {global} can be divided over at most {most}")
    });
    format!("no number of nodes of {kind} holds the job as written{why}")
}

/// Returns whether more nodes make the shard group larger, with or without changing a written degree.
fn can_grow(plan: &Plan) -> bool {
    let Some(mesh) = &plan.mesh else { return false };
    let grouped = plan.job.cluster.as_ref().is_none_or(|cluster| !cluster.groups.is_empty());
    !grouped && (mesh.replicas.value == 1 || is_shard_degree_written(plan))
}

fn is_shard_degree_written(plan: &Plan) -> bool {
    plan.job.parallel.as_ref().is_some_and(|parallel| !parallel.shard_degree.is_absent())
}

/// Returns the smallest cluster of the job's own type and the cheapest of another type, the cheaper one
/// first.
fn larger_clusters(context: &Context, own: &Instance) -> Vec<LargerCluster> {
    // A type that the engine is not documented for is not advised, although the job may run there. Time and
    // cost are shown with the cluster.
    let matters = |one: &Diagnostic| {
        let is_error = one.severity == Severity::Error && !one.code.has(Tag::TimeOrCost);
        is_error || one.code == &codes::T0366
    };
    let now = codes_of_plan(context, context.plan, matters);
    let is_valid = |cluster: &LargerCluster| codes_of_plan(context, &cluster.plan, matters).is_subset(&now);
    let is_possible = |row: &Instance| {
        let is_gpu = row.accelerator.kind == AcceleratorKind::Gpu;
        is_gpu && has_kernels(context.plan, row, own) && is_offered(context.plan, row)
    };
    let types: Vec<(Instance, Option<Price>)> = instances::names()
        .filter_map(instances::get)
        .filter(is_possible)
        .map(|row| {
            let price = instance_price(context, &row.name);
            (row, price)
        })
        .collect();
    let Some(space) = Space::around(context.plan, &types, context.constants) else { return Vec::new() };
    let (mut out, mut others) = (Vec::new(), Vec::new());
    // The first site of the space is the job's own.
    for (site, (row, price)) in (1..).zip(&types) {
        let Some(found) = smallest_cluster(&space, site, price.as_ref(), context.constants) else { continue };
        let Cluster { nodes, plan, memory, group_degree } = found;
        let run = predicted_run(&Context { plan: &plan, ..*context }).map(|(_, run)| run);
        let cluster = LargerCluster { name: row.name.clone(), nodes, memory, run, group_degree, plan };
        if row.name == own.name { out.push(cluster) } else { others.push(cluster) }
    }
    out.retain(|cluster| is_valid(cluster));
    others.sort_by(|a, b| a.usd().total_cmp(&b.usd()).then(a.nodes.cmp(&b.nodes)));
    out.extend(others.into_iter().find(|cluster| is_valid(cluster)));
    out.sort_by(|a, b| a.usd().total_cmp(&b.usd()));
    out
}
