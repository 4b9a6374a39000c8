//! Comparison of a manifest with an account, for `plan` and `apply`, and the preflight findings.

use crate::DONE;
use futures_util::future::join_all;
use std::collections::BTreeSet;
use trainc_apply::cloud::{Clock, Observe};
use trainc_apply::diff::{Choices, Target};
use trainc_apply::fake;
use trainc_apply::fault::Fault;
use trainc_apply::look::{Look, Repeated};
use trainc_apply::preflight::{self, Facts, Together};
use trainc_apply::prospect::Prospect;
use trainc_apply::verdict::{self, Verdict};
use trainc_diag::{Diagnostic, Problems, Severity};
use trainc_ir::{Plan, QuotaRoom};
use trainc_report::json::Blocked;

/// A manifest compared with an account.
pub struct Comparison {
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

/// Compares several jobs with the account concurrently; the resources of each are counted for those after it.
/// `known` are the names of all jobs of the command, valid or not; `today` is in days since 1970; `hear` is
/// called with each fault after which a call is repeated.
pub async fn compare_with_account<C: Observe, K: Clock>(
    looks: &[Look<'_, C, K>],
    plans: &[&Plan],
    known: &[&str],
    today: Option<i64>,
    hear: &dyn Fn(&Fault),
    choices: impl Fn(&Plan) -> Choices,
) -> Vec<Comparison> {
    let heard = looks.iter().map(|look| Look { repeated: Some(Repeated(hear)), ..*look });
    let looks: Vec<Look<'_, C, K>> = heard.collect();
    let each = looks.iter().zip(plans).map(|(look, plan)| compare_one(look, plan, today, choices(plan)));
    let mut all = join_all(each).await;
    let mut families = BTreeSet::new();
    for (((looked, _), look), plan) in all.iter_mut().zip(&looks).zip(plans) {
        // Once per sweep, and only if the account can be read.
        let family = (&plan.job.swept_from, plan.job.region.value());
        if looked.prospect.is_some() && family.0.is_some() && families.insert(family) {
            preflight::orphaned_sweep_jobs(
                plan,
                &look.orphaned_jobs(plan, known).await,
                today,
                &mut looked.findings,
            );
        }
    }
    let mut together = Together::default();
    let mut done = Vec::with_capacity(all.len());
    for (((mut looked, facts), look), plan) in all.into_iter().zip(&looks).zip(plans) {
        let starts = looked.exit == DONE && looked.obstacles.is_empty();
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
    today: Option<i64>,
    choices: Choices,
) -> (Comparison, Option<Facts>) {
    let failed = |verdicts: Vec<Verdict>| {
        let exit = verdict::worst_exit(verdicts.iter().map(|verdict| verdict.exit)).unwrap_or(DONE);
        let mut findings = Problems::default();
        for verdict in verdicts {
            findings.push(verdict.diagnostic);
        }
        (Comparison { prospect: None, findings, obstacles: Vec::new(), exit, quotas: Vec::new() }, None)
    };
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
    preflight::orphaned_file_systems(plan, &prospect.observed.orphaned, today, &mut findings);
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
    pub fn refusal(&self) -> Option<Blocked> {
        let stops = self.obstacles.iter().map(|verdict| verdict.exit).chain([self.exit]);
        let exit = verdict::worst_exit(stops.filter(|code| *code != DONE))?;
        let errors = self.findings.iter().filter(|one| one.severity == Severity::Error);
        let obstacles = self.obstacles.iter().map(|verdict| &verdict.diagnostic);
        let codes: BTreeSet<&'static str> = errors.chain(obstacles).map(|one| one.code.id).collect();
        Some(Blocked { exit, codes: codes.into_iter().collect() })
    }

    /// Returns the obstacles as warnings, for `plan`.
    pub fn warnings(&self) -> impl Iterator<Item = Diagnostic> {
        self.obstacles.iter().map(|verdict| verdict.diagnostic.clone().severity(Severity::Warning))
    }
}
