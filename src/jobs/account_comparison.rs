//! Comparison of a manifest with an account, for `plan` and `apply`, and the preflight findings.

use crate::args::Global;
use crate::exit;
use crate::terminal::io::Io;
use crate::terminal::progress::{Progress, difference};
use futures_util::future::join_all;
use std::collections::BTreeSet;
use trainc_apply::cloud::{Clock, Observe};
use trainc_apply::diff::{Action, Change, Choices, Obstacle, Target};
use trainc_apply::fake;
use trainc_apply::fault::Fault;
use trainc_apply::look::{Look, Repeated};
use trainc_apply::preflight::{self, Facts, QuotaRoom, Together};
use trainc_apply::prospect::Prospect;
use trainc_apply::verdict::{self, Verdict};
use trainc_diag::{self as diag, Diagnostic, Problems, Severity, escape_line, text};
use trainc_ir::Plan;
use trainc_project::manifests::{Manifest, Set};
use trainc_report::json::{Blocked, Document, Quota, Resource};

/// A manifest compared with an account.
pub(crate) struct Comparison {
    /// Planned changes; `None` if the account could not be read.
    pub prospect: Option<Prospect>,
    /// Findings of the preflight checks.
    pub findings: Problems,
    /// Obstacles, each with its exit code.
    pub obstacles: Vec<Verdict>,
    /// Exit code of the findings; 0 if there are no errors.
    pub exit: u8,
    /// Quotas that running jobs share, for a job to be started.
    pub quotas: Vec<QuotaRoom>,
}

/// Compares several jobs with the account concurrently; the resources of each are counted for those after it. `known` are
/// the names of all jobs of the command, valid or not.
pub(crate) async fn compare_with_account<C: Observe, K: Clock>(
    looks: &[Look<'_, C, K>],
    plans: &[&Plan],
    known: &[&str],
    progress: &Progress,
    choices: impl Fn(&Plan) -> Choices,
) -> Vec<Comparison> {
    let hear = |fault: &Fault| progress.note_retrying(fault);
    let heard = looks.iter().map(|look| Look { repeated: Some(Repeated(&hear)), ..*look });
    let looks: Vec<Look<'_, C, K>> = heard.collect();
    let each = looks.iter().zip(plans).map(|(look, plan)| compare_one(look, plan, choices(plan)));
    let mut all = join_all(each).await;
    let mut families = BTreeSet::new();
    for (((looked, _), look), plan) in all.iter_mut().zip(&looks).zip(plans) {
        // Once per sweep, and only if the account can be read.
        let family = (&plan.job.swept_from, plan.job.region.value());
        if looked.prospect.is_some() && family.0.is_some() && families.insert(family) {
            preflight::orphaned_sweep_jobs(
                plan,
                &look.orphaned_jobs(plan, known).await,
                look.today(),
                &mut looked.findings,
            );
        }
    }
    let mut together = Together::default();
    let mut done = Vec::with_capacity(all.len());
    for (((mut looked, facts), look), plan) in all.into_iter().zip(&looks).zip(plans) {
        let starts = looked.exit == exit::DONE && looked.obstacles.is_empty();
        if let Some(mut facts) = facts.filter(|_| starts) {
            look.recheck_limits(&mut facts, plan, &together).await;
            let is_simulated = look.cloud.is_simulated();
            looked.quotas = preflight::quota_room(plan, &facts, &together, is_simulated);
            // A simulated account has those that its file sets.
            looked.quotas.retain(|room| !look.cloud.is_simulated() || room.value < fake::UNBOUNDED_QUOTA);
            together.add(plan, &facts, &mut looked.findings);
            looked.exit = preflight::exit_code(&looked.findings);
        }
        done.push(looked);
    }
    done
}

/// Compares one job with the account, read-only.
async fn compare_one<C: Observe, K: Clock>(
    look: &Look<'_, C, K>,
    plan: &Plan,
    choices: Choices,
) -> (Comparison, Option<Facts>) {
    let failed = |verdicts: Vec<Verdict>| {
        let exit = verdict::worst_exit(verdicts.iter().map(|verdict| verdict.exit)).unwrap_or(exit::DONE);
        let mut findings = Problems::default();
        for verdict in verdicts {
            findings.push(verdict.diagnostic);
        }
        (Comparison { prospect: None, findings, obstacles: Vec::new(), exit, quotas: Vec::new() }, None)
    };
    if !plan.deployable {
        return failed(vec![verdict::not_deployable(plan)]);
    }
    let (survey, facts) = look.survey_with_facts(plan, choices).await;
    let unseen: Vec<Verdict> = survey.faults.iter().map(|fault| verdict::read_failed(plan, fault)).collect();
    let (Some(prospect), Some(facts)) = (&survey.prospect, facts) else {
        return failed(if unseen.is_empty() { vec![verdict::not_deployable(plan)] } else { unseen });
    };
    if let Some(other) = verdict::account_mismatch(plan, &prospect.caller) {
        return failed(vec![other]);
    }
    let starting = matches!(prospect.target, Target::Start(_));
    let mut findings = preflight::judge(plan, &facts);
    preflight::orphaned_file_systems(plan, &prospect.observed.orphaned, look.today(), &mut findings);
    if let Target::Attach(run) = &prospect.target {
        let lost = trainc_apply::diff::lost_file_systems(&prospect.desired, &prospect.observed, choices);
        preflight::lost_file_systems(plan, run, &lost, &mut findings);
        // Not an obstacle: the run is in progress, and apply leaves it unchanged.
        if !prospect.is_run_over(choices) {
            for change in trainc_apply::diff::corrupted_uploads(&prospect.desired, &prospect.observed) {
                let said = verdict::plan_obstacle(plan, &change).diagnostic;
                findings.push(said.severity(Severity::Warning));
            }
        }
    }
    if !prospect.is_run_over(choices) {
        preflight::excess_permissions(
            plan,
            &prospect.desired,
            prospect.observed.role.as_ref(),
            &mut findings,
        );
        preflight::combined_policy(plan, &prospect.desired, &mut findings);
    }
    if starting && let Some(warning) = verdict::worker_experimental(plan) {
        findings.push(warning);
    }
    let obstacles = survey
        .obstacles()
        .map(|(change, _)| verdict::plan_obstacle(plan, change))
        .chain(verdict::worker(plan).filter(|_| starting))
        .collect();
    if unseen.is_empty() {
        let exit = preflight::exit_code(&findings);
        let quotas = Vec::new();
        let looked = Comparison { prospect: survey.prospect, findings, obstacles, exit, quotas };
        return (looked, starting.then_some(facts));
    }
    // All missing permissions are reported together; without them there is no plan.
    preflight::drop_repeated_notes(&survey.faults, &mut findings);
    let (Comparison { findings: mut all, exit, .. }, _) = failed(unseen);
    all.extend(findings);
    (Comparison { prospect: None, findings: all, obstacles, exit, quotas: Vec::new() }, None)
}

impl Comparison {
    /// Returns the exit code and the diagnostic codes for which `apply` would refuse the job.
    pub(crate) fn refusal(&self) -> Option<Blocked> {
        let stops = self.obstacles.iter().map(|verdict| verdict.exit).chain([self.exit]);
        let exit = verdict::worst_exit(stops.filter(|code| *code != exit::DONE))?;
        let errors = self.findings.iter().filter(|one| one.severity == Severity::Error);
        let obstacles = self.obstacles.iter().map(|verdict| &verdict.diagnostic);
        let codes: BTreeSet<&'static str> = errors.chain(obstacles).map(|one| one.code.id).collect();
        Some(Blocked { exit, codes: codes.into_iter().collect() })
    }

    /// Adds the state of each resource in the account to the plan's document.
    pub(crate) fn add_to_document(&self, document: &mut Document) {
        document.blocked = self.refusal();
        let Some(prospect) = &self.prospect else { return };
        document.compared_with = Some(prospect.desired.account.clone());
        document.account = Some(prospect.desired.account.clone());
        document.changes = Some(!prospect.is_empty());
        let quotas = self.quotas.iter().cloned().map(|room| Quota {
            name: room.name,
            code: room.code,
            value: room.value,
            needed: room.needed,
            in_use: room.in_use,
            in_use_is_lower_bound: room.in_use_is_lower_bound,
            is_default: room.is_default,
        });
        document.quotas = quotas.collect();
        for resource in &mut document.resources {
            resource.name = trainc_ir::account::substitute_account(&resource.name, &prospect.desired.account);
            let change = prospect.changes.iter().find(|change| {
                change.kind == resource.kind
                    && (change.name == resource.name || change.kind == "training-job")
            });
            if let Some(change) = change {
                *resource = Resource {
                    kind: resource.kind,
                    name: change.name.clone(),
                    action: change.action.word(),
                    because: describe_change(change),
                    shared_with: change.shared_with.clone(),
                };
            }
        }
    }

    /// Returns the obstacles as warnings, for `plan`.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = Diagnostic> {
        self.obstacles.iter().map(|verdict| verdict.diagnostic.clone().severity(Severity::Warning))
    }
}

/// Describes a change on one line, with the first differences; all of them are listed for an adopted resource.
fn describe_change(change: &Change) -> String {
    let adopts = change.action == Action::Adopt;
    let details: Vec<String> = change
        .differences
        .iter()
        .filter(|_| adopts || matches!(change.action, Action::Update | Action::Stop(Obstacle::Replace)))
        .take(if adopts { change.differences.len() } else { 4 })
        .map(difference)
        .filter(|text| adopts || text.len() < 80)
        .collect();
    if details.is_empty() {
        change.because.clone()
    } else if let more @ 1.. = change.differences.len().saturating_sub(details.len()) {
        format!("{}; {}, and {more} more", change.because, details.join(", "))
    } else {
        format!("{}; {}", change.because, details.join(", "))
    }
}

/// Formats the changes, one line per resource; for an adopted resource also one line per difference.
pub(crate) fn format_changes(prospect: &Prospect, color: bool) -> String {
    let width = prospect.changes.iter().map(|change| change.action.word().len()).max().unwrap_or(0);
    let mut out = String::new();
    for change in &prospect.changes {
        let adopts = change.action == Action::Adopt;
        let because = if adopts { change.because.clone() } else { describe_change(change) };
        let what = format!("{} {}: {because}", change.kind, text::shorten_name(&change.name));
        out.push_str(&format_action(change.action.word(), width, &what, color));
        for one in change.differences.iter().filter(|_| adopts) {
            out.push_str(&format!("  {:width$}    {}\n", "", escape_line(&difference(one))));
        }
    }
    out
}

/// Formats a line with what happens to a resource: the action in its colour, then the text.
pub(crate) fn format_action(action: &str, width: usize, what: &str, color: bool) -> String {
    let options = diag::human::Options { color, ..diag::human::Options::default() };
    let action = options.paint(diag::human::action_style(action), &format!("{action:width$}"));
    format!("  {action}  {}\n", escape_line(what))
}

/// Prints problems to standard error.
pub(crate) fn show(io: &mut Io, set: &Set, manifest: &Manifest, problems: &Problems, global: &Global) {
    let mut shown = problems.clone();
    if global.quiet {
        shown.retain(|one| one.severity == Severity::Error);
    }
    let text = render(io, set, manifest, &shown);
    io.note_colored(&text);
}

/// Formats the problems of one manifest for the terminal.
pub(crate) fn render(io: &Io, set: &Set, manifest: &Manifest, problems: &Problems) -> String {
    if problems.is_empty() {
        return String::new();
    }
    let options = diag::human::Options { color: io.color, unicode: io.unicode, width: io.width, notes: true };
    let _ = manifest;
    let mut out = String::new();
    for one in problems.iter() {
        out.push_str(&diag::human::problem(&set.sources, one, None, options));
        out.push('\n');
    }
    out
}

/// Returns one diagnostic as a list of problems.
pub(crate) fn single_problem(verdict: Diagnostic) -> Problems {
    let mut problems = Problems::default();
    problems.push(verdict);
    problems
}
