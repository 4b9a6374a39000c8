//! The machine on which a job would cost or take much less, as `plan` names it.

use crate::checked_layouts::compile_layout;
use std::collections::BTreeSet;
use trainc_check::can_run_on;
use trainc_diag::{Severity, Tag};
use trainc_plan::{Compiled, Options};
use trainc_predict::{Constants, Interval};
use trainc_project::loaded_manifest::LoadedManifest;
use trainc_project::manifests::Set;
use trainc_tune::{Limits, Space, TimeAndCost, better_machines};

/// A layout of the job on other machines that passes every check.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundMachine {
    /// The instance type.
    pub instance: String,
    /// Number of nodes.
    pub nodes: u64,
    /// Expected time and cost.
    pub run: TimeAndCost,
    /// Interval of the time.
    pub seconds_between: Option<Interval>,
    /// Interval of the cost.
    pub usd_between: Option<Interval>,
    /// Share of the cost that it saves; of the time, where it saves less than a fifth of the cost.
    pub saves: f64,
}

/// Returns the cheapest machine on which the job is at least a fifth cheaper or faster, and not worse in the
/// other, fits its memory for sure, keeps its budget and passes every check without a new warning about the
/// machine. `None` unless the set is one manifest without errors.
pub fn find_better_machine(set: &Set, options: &Options) -> Option<FoundMachine> {
    let [manifest] = set.manifests.as_slice() else { return None };
    let base = &manifest.compiled;
    let plan = base.plan_without_errors().filter(|_| !set.many)?;
    let now = TimeAndCost::from_run(base.prediction.run.as_ref()?)?;
    let constants = options.constants.as_ref().unwrap_or_else(|| Constants::shipped());
    let limits = Limits { prices: options.prices.clone(), discount: options.discount, ..Limits::default() };
    let space =
        Space::from_plan(plan, &limits, constants, &can_run_on).ok().filter(|space| space.has_all_types)?;
    let found = better_machines(&space, now, constants);
    if found.is_empty() {
        return None;
    }
    // Nothing is fetched again for it.
    let options = Options { asks_account: false, fetch: false, ..options.clone() };
    let mut held = LoadedManifest::from_set(set, &options)?;
    let known: BTreeSet<&str> = warnings_about_machine(base).collect();
    found.into_iter().find_map(|one| {
        let compiled = compile_layout(&mut held, &options, &space, &one.choice).ok()?;
        if warnings_about_machine(&compiled).any(|code| !known.contains(code)) {
            return None;
        }
        let predicted = compiled.prediction.run.as_ref()?;
        let run = TimeAndCost::from_run(predicted)?;
        Some(FoundMachine {
            instance: space.instance_name(one.choice.site).to_owned(),
            nodes: one.choice.nodes,
            run,
            seconds_between: predicted.expected_interval(),
            usd_between: predicted.cost_interval(),
            saves: run.saving(now)?,
        })
    })
}

/// Returns the codes of warnings about the instance type or the number of nodes, without those on time and
/// cost.
fn warnings_about_machine(compiled: &Compiled) -> impl Iterator<Item = &'static str> {
    let cluster = compiled.plan.as_ref().and_then(|plan| plan.job.cluster.as_ref());
    let spans = cluster.map_or([None, None], |cluster| [cluster.instance.span(), cluster.nodes.span()]);
    let warnings = compiled.problems.iter().filter(|one| one.severity == Severity::Warning);
    let warnings = warnings.filter(move |one| spans.contains(&Some(one.span)));
    warnings.filter(|one| !one.code.has(Tag::TimeOrCost)).map(|one| one.code.id)
}
