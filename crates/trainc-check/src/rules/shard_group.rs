//! The shard group: its nodes compared with the nodes that the model needs.

use crate::codes;
use super::divisibility::degree_help;
use crate::Context;
use crate::queries::memory::{describe_fit, is_predicted_to_fit, has_excess_states};
use crate::queries::shard_group::{STATE_BYTES, group_gpus, group_span, minimum_nodes};
use crate::what_if::{assess, describe_difference};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Help, Problems, Severity};
use trainc_ir::{Mesh, ModelFacts, Parallel, Plan};
use trainc_plan::plan::divisors::divisors;
use trainc_plan::plan::minimum_nodes::PARAMETERS_PER_NODE;
use trainc_predict::{Layout, Sharding};

declare_code!(T0357, "hybrid-shard-without-replicas", Warning, "hybrid sharding with a single replica");
declare_code!(
    T0385,
    "shard-group-too-small",
    Warning,
    "a shard group with less than one node per 3 billion parameters"
);
declare_code!(T0387, "shard-group-too-wide", Warning, "a shard group that spans more nodes than necessary");
// A group that shares a node with another is worse than one that is not a power of two.
declare_code!(
    T0388,
    "shard-group-misaligned",
    Warning,
    "a shard group that is not a whole number of nodes",
    supersedes: { Value: [codes::T0386] }
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0357, &T0385, &T0387, &T0388];

struct Group<'a> {
    plan: &'a Plan,
    parallel: &'a Parallel,
    mesh: &'a Mesh,
    model: Option<&'a ModelFacts>,
    /// GPUs that hold one copy of the model's states.
    gpus: u64,
    span: Span,
}

/// Checks engines that shard; a plan without a minimum of nodes has nothing sharded.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(parallel), Some(mesh)) = (&plan.job.parallel, &plan.mesh) else { return };
    if mesh.gpus_per_node == 0 || !mesh.law.can_shard() || !plan.job.is_whole {
        return;
    }
    let group = Group {
        plan,
        parallel,
        mesh,
        model: plan.model.as_ref(),
        gpus: group_gpus(mesh),
        span: group_span(parallel, mesh),
    };
    group.check_hybrid(problems);
    group.check_alignment(problems);
    group.check_minimum_nodes(context, problems);
    group.check_too_wide(context, problems);
}

/// Returns whether some shard groups share a node.
fn is_misaligned(mesh: &Mesh) -> bool {
    let (gpus, per_node) = (group_gpus(mesh), mesh.gpus_per_node);
    per_node > 0
        && mesh.shard_degree.value > 1
        && !gpus.is_multiple_of(per_node)
        && !per_node.is_multiple_of(gpus)
}

impl Group<'_> {
    fn nodes(&self) -> u64 {
        self.gpus.div_ceil(self.mesh.gpus_per_node)
    }

    /// Returns the shard degree of a group with that many nodes, or the next power of two that divides the
    /// world size.
    fn degree_for_nodes(&self, nodes: u64) -> Option<u64> {
        let others = self.mesh.tensor_degree.value * self.mesh.pipeline_degree.value;
        let least = (nodes * self.mesh.gpus_per_node).div_ceil(others.max(1));
        divisors(self.mesh.world_size / others.max(1))
            .into_iter()
            .find(|degree| *degree >= least && degree.is_power_of_two())
    }

    /// Returns the text and the degree of a shard group with at least the minimum of nodes, if the cluster
    /// has that many: with replicas, or with everything in one group.
    fn suggest_wider_group(&self, recommended: u64, minimum: u64) -> Option<(Help, u64)> {
        if self.mesh.nodes < minimum {
            return None;
        }
        let others = (self.mesh.tensor_degree.value * self.mesh.pipeline_degree.value).max(1);
        let whole = self.mesh.world_size / others;
        Some(match self.degree_for_nodes(recommended).or_else(|| self.degree_for_nodes(minimum)) {
            Some(degree) if degree < whole || self.whole_world().is_none() => {
                (Help::write(format!("shard-degree {degree}")), degree)
            }
            _ => match self.whole_world() {
                Some(strategy) => (Help::write(strategy).and_text(": the group is then the whole cluster"), whole),
                None => (Help::write(format!("shard-degree {whole}")), whole),
            },
        })
    }

    /// Returns what else to write for a shard group of all `nodes`: a written degree would not change.
    fn whole_group_text(&self, nodes: u64) -> String {
        if self.parallel.shard_degree.span().is_none() {
            return String::new();
        }
        if let Some(strategy) = self.whole_world() {
            return format!(" and `{strategy}` without `shard-degree`");
        }
        let others = (self.mesh.tensor_degree.value * self.mesh.pipeline_degree.value).max(1);
        format!(" and `shard-degree {}`", nodes.saturating_mul(self.mesh.gpus_per_node) / others)
    }

    /// Changes the shard degree of a layout on the same GPUs, with all states sharded.
    fn set_degree(&self, layout: &mut Layout, degree: u64) {
        layout.degrees.replicas *= self.mesh.shard_degree.value as f64 / degree as f64;
        layout.degrees.shard = degree as f64;
        if layout.sharding == Sharding::None {
            layout.sharding = Sharding::Full;
        }
    }

    /// Returns the node that makes the whole cluster one shard group.
    fn whole_world(&self) -> Option<String> {
        self.mesh.law.whole_world_strategy().map(|word| format!("strategy \"{word}\""))
    }

    fn check_hybrid(&self, problems: &mut Problems) {
        let Some(strategy) = self.parallel.strategy.val().filter(|strategy| strategy.value == "hybrid-shard")
        else {
            return;
        };
        let Some(own) = self.mesh.law.strategy_named(&strategy.value) else { return };
        if self.mesh.replicas.value != 1 {
            return;
        }
        let per_node = self.mesh.gpus_per_node;
        let help = if !own.is_fixed && self.mesh.nodes > 1 && minimum_nodes(self.plan, self.mesh) <= 1 {
            format!(
                "write `shard-degree {per_node}` for one replica on each node, or `strategy \"full-shard\"`"
            )
        } else {
            format!(
                "write `strategy \"full-shard\"`, or `nodes={}` for two replicas",
                self.mesh.nodes.saturating_mul(2)
            )
        };
        problems.push(
            Diagnostic::new(
                &T0357,
                strategy.span_or(self.parallel.span),
                format!(
                    "`hybrid-shard` with a single replica: the shard group of {} is the whole cluster",
                    text::count(self.mesh.shard_degree.value, "GPU")
                ),
            )
            .help(help)
            .note("hybrid sharding shards within a group and replicates across groups; with one group \
                it only costs additional process groups"),
        );
    }

    fn check_alignment(&self, problems: &mut Problems) {
        let (gpus, per_node) = (self.gpus, self.mesh.gpus_per_node);
        if !is_misaligned(self.mesh) {
            return;
        }
        let aligned = divisors(self.mesh.world_size)
            .into_iter()
            .filter(|d| d.is_multiple_of(per_node) || per_node.is_multiple_of(*d));
        let others = (gpus / self.mesh.shard_degree.value).max(1);
        let mut legal: Vec<u64> = aligned.filter(|d| d.is_multiple_of(others)).map(|d| d / others).collect();
        // Powers of two only, if there are any: others would be reported as T0386 next.
        if legal.iter().any(|d| *d > 1 && d.is_power_of_two()) {
            legal.retain(|d| d.is_power_of_two());
        }
        let wanted = self.mesh.shard_degree.value;
        let below = legal.iter().copied().filter(|d| *d < wanted).max();
        let above = legal.iter().copied().filter(|d| *d > wanted).min();
        let near: Vec<u64> = [below, above].into_iter().flatten().collect();
        let mut diagnostic = Diagnostic::new(
            &T0388,
            self.span,
            format!(
                "a shard group of {} on nodes of {per_node}: some groups share a node with another",
                text::count(gpus, "GPU")
            ),
        )
        .note("groups that end inside a node cross the network where others do not, and the slowest \
            group sets the step (rule of thumb)")
        .fact("group_gpus", gpus)
        .fact("legal", legal.clone());
        if !near.is_empty() {
            diagnostic = diagnostic.help(degree_help("shard-degree", &near));
        }
        problems.push(diagnostic);
    }

    fn check_minimum_nodes(&self, context: &Context, problems: &mut Problems) {
        let (Some(minimum), Some(model)) = (&self.mesh.minimum_nodes, self.model) else { return };
        let nodes = self.nodes();
        // States that exceed these nodes are reported by the rule on memory, with the nodes that hold them.
        if nodes >= minimum_nodes(self.plan, self.mesh) || has_excess_states(self.plan) {
            return;
        }
        // A rule of thumb of another engine does not outweigh a prediction, and more nodes cost money.
        let fits = is_predicted_to_fit(context);
        if fits && !self.mesh.law.node_rule {
            return;
        }
        let parameters = model.parameters.value;
        let mut diagnostic = Diagnostic::new(
            &T0385,
            self.span,
            format!(
                "the shard group has {}; {} parameters require {}",
                text::count(nodes, "node"),
                text::group_digits(parameters),
                text::count(minimum.value, "node")
            ),
        )
        .note(format!(
            "rule of thumb: one node per 3 billion parameters: ceil({} / {}) = {} nodes (AWS \
                blog on sharded data parallelism, 2022)",
            text::group_digits(parameters),
            text::group_digits(PARAMETERS_PER_NODE),
            minimum.value
        ))
        .fact("nodes", nodes)
        .fact("minimum_nodes", minimum.value)
        .fact("parameters", parameters);
        if fits {
            diagnostic = diagnostic.severity(Severity::Note);
        } else if let Some(recommended) = &self.mesh.recommended_nodes {
            diagnostic = match self.suggest_wider_group(recommended.value, minimum.value) {
                Some((write, degree)) => {
                    let bill = describe_difference(context, |layout| self.set_degree(layout, degree));
                    bill.into_iter().fold(diagnostic.help(write), Diagnostic::note)
                }
                // On other nodes the batch differs: the runs would not be the same training.
                None => diagnostic.help(format!(
                    "write `nodes={}`{}, or use larger GPUs",
                    recommended.value,
                    self.whole_group_text(recommended.value)
                )),
            };
        }
        for note in [self.describe_states(), describe_fit(context)].into_iter().flatten() {
            diagnostic = diagnostic.note(note);
        }
        problems.push(diagnostic);
    }

    /// Describes the share of a GPU's memory that the states alone take.
    fn describe_states(&self) -> Option<String> {
        let model = self.model?;
        let card = self.plan.machine.as_ref()?.gpu_memory_bytes?;
        let name = self.plan.job.train.optimizer.as_ref()?.name.value()?;
        if !matches!(
            name.as_str(),
            "adamw" | "adam" | "adamw-fused" | "adamw-apex-fused" | "paged-adamw-32bit" | "lamb"
        ) {
            return None;
        }
        let each = model.parameters.value.checked_mul(STATE_BYTES)? / self.gpus.max(1);
        Some(format!(
            "weights, gradients and AdamW states alone take {STATE_BYTES} B × {} / {} = {} of each GPU's {}",
            text::group_digits(model.parameters.value),
            text::count(self.gpus, "GPU"),
            text::bytes(each),
            text::bytes(card)
        ))
    }

    fn check_too_wide(&self, context: &Context, problems: &mut Problems) {
        let strategies = self.mesh.law.strategies;
        if !strategies.is_empty() && strategies.iter().all(|strategy| strategy.is_fixed) {
            // All data ranks are one group: DeepSpeed ZeRO.
            return;
        }
        let Some(recommended) = &self.mesh.recommended_nodes else { return };
        let nodes = self.nodes();
        let chosen = self.mesh.shard_degree.origin.span().is_some() || !self.parallel.strategy.is_absent();
        // A default is left alone up to twice the width: one more replica would hardly pay off.
        let limit = if chosen { recommended.value } else { recommended.value.saturating_mul(2) };
        // Hybrid sharding with one replica is reported as T0357, with the same help.
        let hybrid = self.parallel.strategy.value().is_some_and(|strategy| strategy == "hybrid-shard");
        if hybrid && self.mesh.replicas.value == 1 {
            return;
        }
        if nodes <= limit || nodes <= 1 || self.mesh.shard_degree.value <= 1 {
            return;
        }
        let Some(degree) =
            self.degree_for_nodes(recommended.value).filter(|degree| *degree < self.mesh.shard_degree.value)
        else {
            return;
        };
        let parameters = self.model.map_or(0, |model| model.parameters.value);
        let node = format!("shard-degree {degree}");
        let (write, codes) = match self.mesh.law.strategy_of(Sharding::Full, false) {
            Some(strategy) => {
                let strategy = format!("strategy \"{}\"", strategy.word);
                (format!("`{strategy}` with `{node}`"), format!("{strategy}\n{node}"))
            }
            None => (format!("`{node}`"), node),
        };
        let judged = assess(context, |layout| self.set_degree(layout, degree));
        let condition = if judged.fits { "" } else { ", if it fits" };
        let diagnostic =
            Diagnostic::new(
                &T0387,
                self.span,
                format!(
                    "the shard group spans {}; {} parameters need {}",
                    text::count(nodes, "node"),
                    text::group_digits(parameters),
                    recommended.value
                ),
            )
            .note("rule of thumb: one node per 3 billion parameters, rounded up to a power of two, \
                because every layer is gathered across the whole group")
            .fact("nodes", nodes)
            .fact("recommended_nodes", recommended.value)
            .fact("shard_degree", degree);
        // A rule of thumb does not outweigh a prediction: the group has to span nodes, or its gathers hide
        // behind the compute.
        problems.push(if let Some(why) = judged.no_gain {
            diagnostic.severity(Severity::Note).note(format!("{write}: {}", why.describe()))
        } else {
            let diagnostic =
                diagnostic.help(format!("write {write}{condition}")).suggest_code(codes, None);
            judged.comparison.into_iter().fold(diagnostic, Diagnostic::note)
        });
    }
}
