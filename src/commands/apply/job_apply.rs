//! One job of an `apply`: compared, shown, applied, reported.

use super::Args;
use super::billed_storage::billed_storage;
use crate::args::invocation::invocation;
use crate::args::{Global, Input, duration_text};
use crate::commands::plan;
use crate::commands::watch::{Stay, follow};
use crate::exit;
use crate::jobs::job_context::{Expected, format_billed};
use crate::terminal::io::Io;
use crate::terminal::progress::{Progress, difference_json};
use crate::views::comparison::{add_to_document, format_changes, show, single_problem};
use crate::views::removal::describe_remaining;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use trainc_apply::cloud::{Clock, Cloud};
use trainc_apply::diff::{self, Choices, Target};
use trainc_apply::ledger::{Ledger, Recorder};
use trainc_apply::look::Look;
use trainc_apply::preflight;
use trainc_apply::prospect::Prospect;
use trainc_apply::run::Driver;
use trainc_apply::run::ResourceLocks;
use trainc_apply::saved_plan::{SavedPlan, stale_plan_verdict};
use trainc_apply::verdict::{self, Verdict};
use trainc_diag::json::problem;
use trainc_diag::{Detail, Diagnostic, Invocation, NextCommand, Problems, Severity};
use trainc_emit::quote;
use trainc_ir::Plan;
use trainc_ops::comparison::Comparison;
use trainc_ops::removal::delete_file_systems;
use trainc_project::manifests::{Manifest, Set};
use trainc_report::after_end;
use trainc_report::human::costs_of_apply;
use trainc_report::json::Document;

/// One job of an `apply`.
pub(super) struct JobApply<'a> {
    /// Index of its manifest.
    pub at: usize,
    pub args: &'a Args,
    /// Overrides of the command line or of the saved plan.
    pub input: &'a Input,
    pub global: &'a Global,
    pub set: &'a Set,
    pub manifest: &'a Manifest,
    pub plan: &'a Plan,
    pub saved: Option<&'a SavedPlan>,
    pub simulated: bool,
    /// True if several jobs are applied.
    pub several: bool,
}

/// Columns of the costs: like the plan, they are read in logs and pasted into mails.
const COSTS_WIDTH: usize = 80;

/// Returns the flags of the choices.
fn choice_flags(choices: Choices) -> impl Iterator<Item = String> {
    let flags = [("--new-run", choices.new_run), ("--adopt", choices.adopt)];
    flags.into_iter().filter(|(_, chosen)| *chosen).map(|(flag, _)| flag.to_owned())
}

impl JobApply<'_> {
    /// Returns the name of the job.
    pub(super) fn name(&self) -> &str {
        self.manifest.compiled.job.as_deref().unwrap_or(&self.manifest.path)
    }

    /// Shows findings and changes; returns an exit code if the job cannot be applied.
    pub(super) fn print_comparison(&self, io: &mut Io, looked: Comparison) -> Result<Prospect, u8> {
        self.print_findings(io, &looked);
        let mut document = plan::document(self.manifest, self.set);
        add_to_document(&looked, &mut document);
        let Some(prospect) = looked.prospect else {
            looked.obstacles.iter().for_each(|verdict| self.print_verdict(io, verdict));
            return Err(looked.exit);
        };
        if let Some(saved) = self.saved
            && let Some(why) = saved.stale_reason(&self.manifest.sha256, &prospect, &self.set.jobs())
        {
            let file = self.args.input.named.manifests.first().map_or("", String::as_str);
            let save = NextCommand::new("plan")
                .flags(choice_flags(self.choices()))
                .flag(format!("--save {}", quote(file)));
            self.print_verdict(
                io,
                &stale_plan_verdict(self.plan, &why, &self.invocation().command_line(&save)),
            );
            return Err(exit::DIFFERENT);
        }
        for verdict in &looked.obstacles {
            self.print_verdict(io, verdict);
        }
        if let Some(code) = verdict::worst_exit(looked.obstacles.iter().map(|verdict| verdict.exit)) {
            return Err(code);
        }
        if looked.exit != exit::DONE {
            return Err(looked.exit);
        }
        self.show_plan(io, &prospect, &document);
        Ok(prospect)
    }

    /// Applies the changes; with `--wait`, follows the job until it ends.
    pub(super) async fn apply_changes<C: Cloud, K: Clock>(
        &self,
        io: &mut Io<'_>,
        look: Look<'_, C, K>,
        prospect: &Prospect,
        progress: &Progress,
        locks: &ResourceLocks,
    ) -> u8 {
        if prospect.is_empty() {
            return self.nothing_to_do(io, look, prospect, progress).await;
        }
        let ledger = Ledger::default();
        let recorder = Recorder { ledger: &ledger, listener: progress };
        let Some(look) = look.wait_for_room(self.plan, prospect, recorder).await else {
            progress.clear();
            return self.report(io, &ledger, None);
        };
        let driver = Driver {
            look,
            desired: &prospect.desired,
            choices: self.choices(),
            recorder,
            wrote_iam: false.into(),
            written: std::cell::RefCell::default(),
            locks,
        };
        let job = if prospect.is_run_over(self.choices()) {
            driver.adopt_finished(&prospect.target).await
        } else {
            driver.run(&prospect.target).await
        };
        progress.clear();
        let code = self.report(io, &ledger, job.as_deref());
        match job {
            Some(job) if self.args.wait && code == exit::DONE => self.watch(io, look, &job, progress).await,
            _ => code,
        }
    }

    /// Returns the choices of the command line or of the saved plan.
    fn choices(&self) -> Choices {
        self.choices_of(self.plan)
    }

    /// Returns the choices for any job of the command.
    pub(super) fn choices_of(&self, plan: &Plan) -> Choices {
        let job = plan.job.name.value().map_or("", String::as_str);
        match self.saved {
            Some(saved) => saved.choices(job),
            None => Choices { adopt: self.args.adopt, new_run: self.args.new_run, run: None },
        }
    }

    fn is_json(&self) -> bool {
        self.args.output == "json"
    }

    /// The command line, which completes suggested commands.
    fn invocation(&self) -> Invocation {
        let flags = choice_flags(self.choices()).chain(self.wait_and_confirm_flags()).collect();
        invocation(self.manifest.shown_argument(), &self.input.overlay, &self.args.account)
            .with_apply_flags(flags)
    }

    /// Returns the command that applies the same again: the saved plan where there is one.
    fn repeat_command(&self) -> String {
        let apply = NextCommand::new("apply");
        match (self.saved, self.args.input.named.manifests.first()) {
            (Some(_), Some(file)) => {
                let flags = self.args.account.flag().into_iter().collect();
                Invocation::new(quote(file), flags)
                    .with_apply_flags(self.wait_and_confirm_flags())
                    .command_line(&apply)
            }
            _ => self.invocation().command_line(&apply),
        }
    }

    /// Returns the flags for waiting and confirmation, which a saved plan does not contain.
    fn wait_and_confirm_flags(&self) -> Vec<String> {
        let mut out = Vec::new();
        if let Some(time) = self.args.wait_for_capacity {
            out.push(format!("--wait-for-capacity {}", duration_text(time)));
        }
        let flags = [
            ("--wait", self.args.wait),
            ("--yes", self.args.yes),
            ("--deny-warnings", self.input.deny_warnings),
        ];
        out.extend(flags.into_iter().filter(|(_, said)| *said).map(|(flag, _)| flag.to_owned()));
        out
    }

    /// Returns the command that follows the job, unless this command does. An in-memory account is lost after
    /// this command, so it suggests `apply --wait`.
    fn watch_command(&self) -> Option<String> {
        match (self.args.wait, self.args.account.is_in_memory()) {
            (true, _) => None,
            (false, true) => Some(format!("{} --wait", self.repeat_command())),
            (false, false) => Some(self.invocation().command_line(&NextCommand::new("watch"))),
        }
    }

    /// Prints one JSON line with the name of the job.
    fn print_json_line(&self, io: &mut Io, mut object: Value) {
        if let Some(members) = object.as_object_mut() {
            members.insert("job".to_owned(), json!(self.name()));
        }
        io.print_json(&format!("{object}\n"));
    }

    fn print_findings(&self, io: &mut Io, looked: &Comparison) {
        let mut findings = Problems::default();
        for one in looked.findings.iter().cloned() {
            findings.push(simulated_instead(one).complete(&self.invocation()));
        }
        if self.is_json() {
            for one in findings.iter() {
                self.print_json_line(
                    io,
                    json!({"type": "problem", "problem": problem(&self.set.sources, one)}),
                );
            }
            return;
        }
        if !self.global.verbose {
            // All missing permissions are shown, also optional ones, each once.
            let mut named = BTreeSet::new();
            if looked.prospect.is_some() && !self.global.quiet {
                io.note(&preflight::describe_skipped(&findings));
            }
            findings.retain(|one| {
                let action =
                    one.detail.as_ref().and_then(Detail::action).filter(|_| looked.prospect.is_none());
                one.severity > Severity::Note || action.is_some_and(|action| named.insert(action.to_owned()))
            });
        }
        show(io, self.set, self.manifest, &findings, self.global);
    }

    fn print_verdict(&self, io: &mut Io, verdict: &Verdict) {
        let diagnostic = simulated_instead(verdict.diagnostic.clone()).complete(&self.invocation());
        if self.is_json() {
            let problem = problem(&self.set.sources, &diagnostic);
            self.print_json_line(io, json!({"type": "problem", "exit": verdict.exit, "problem": problem}));
            return;
        }
        let shown = if self.global.verbose { diagnostic } else { verdict::truncate_differences(diagnostic) };
        show(io, self.set, self.manifest, &single_problem(shown), self.global);
    }

    /// Shows the changes and, if a training job is started, what it costs.
    fn show_plan(&self, io: &mut Io, prospect: &Prospect, document: &Document) {
        let desired = &prospect.desired;
        let starts = matches!(prospect.target, Target::Start(_));
        if self.is_json() {
            let changes: Vec<_> = prospect
                .changes
                .iter()
                .map(|change| {
                    let differences: Vec<Value> = change.differences.iter().map(difference_json).collect();
                    let mut line = json!({
                        "kind": change.kind, "name": change.name, "action": change.action.verb(),
                        "because": change.because, "differences": differences,
                    });
                    let shared = Some(&change.shared_with).filter(|others| !others.is_empty());
                    if let (Some(others), Some(members)) = (shared, line.as_object_mut()) {
                        members.insert("shared_with".to_owned(), json!(others));
                    }
                    line
                })
                .collect();
            let mut object = json!({
                "type": "plan", "digest": desired.digest, "account": desired.account,
                "region": desired.region, "changes": changes,
            });
            if let Some(members) = object.as_object_mut().filter(|_| starts) {
                members.insert("cluster".to_owned(), json!(document.cluster));
                members.insert("run".to_owned(), json!(document.run));
                members.insert("price".to_owned(), json!(document.price));
                members.insert("after_end".to_owned(), json!(document.after_end));
                members.insert("quotas".to_owned(), json!(document.quotas));
            }
            self.print_json_line(io, object);
            return;
        }
        let place = if self.simulated { " (simulated)" } else { "" };
        let changes = format_changes(prospect, io.color);
        io.print_colored(&format!(
            "{}, digest {}, in account {}{place}, {}\n\n{changes}\n",
            desired.job,
            desired.digest.get(..8).unwrap_or_default(),
            desired.account,
            desired.region,
        ));
        if starts {
            let costs = costs_of_apply(document, self.plan, io.report_options(io.width.min(COSTS_WIDTH)));
            io.print_colored(&self.set.sources.mask(&format!("{costs}\n")));
        }
    }

    async fn nothing_to_do<C: Cloud, K: Clock>(
        &self,
        io: &mut Io<'_>,
        look: Look<'_, C, K>,
        prospect: &Prospect,
        progress: &Progress,
    ) -> u8 {
        let Target::Attach(name) = &prospect.target else { return exit::DONE };
        let status = prospect.observed.runs.latest.as_ref().map_or("", |(job, _)| job.status.as_str());
        if !self.is_json() {
            let assumed = describe_assumed(self.plan);
            io.print(&format!("nothing to do: {name} is {status}{assumed}\n"));
            let lost = diff::lost_file_systems(&prospect.desired, &prospect.observed, self.choices());
            let command = |next: NextCommand| Some(self.invocation().command_line(&next));
            let next = match status {
                // A run without its file system is not worth following.
                "InProgress" if !lost.is_empty() => {
                    command(NextCommand::new("stop").flag(format!("--run {name}")))
                }
                "InProgress" => self.watch_command(),
                _ => command(NextCommand::new("apply").flag("--new-run")),
            };
            if let Some(next) = next {
                io.print(&format!("  next  {next}\n"));
            }
            // With `--wait` it is deleted after the job.
            if !self.args.wait {
                io.print(&describe_remaining(&prospect.outlasting_file_systems(), &self.invocation()));
            }
        }
        if self.args.wait {
            return self.watch(io, look, name, progress).await;
        }
        if matches!(status, "Failed" | "Stopped") {
            // The outcome of an ended run is shown again; only `--wait` reports it by the exit code.
            self.watch(io, look, name, progress).await;
        }
        exit::DONE
    }

    /// Follows the job until it ends, then deletes the file systems with `delete-after-job`.
    async fn watch<C: Cloud, K: Clock>(
        &self,
        io: &mut Io<'_>,
        look: Look<'_, C, K>,
        job: &str,
        progress: &Progress,
    ) -> u8 {
        let code = follow(
            io,
            &look,
            self.set,
            self.manifest,
            &Expected::from_manifest(self.manifest, self.set),
            &self.invocation(),
            job,
            self.global,
            progress,
            Stay::ToTheEnd,
        )
        .await;
        let ended = matches!(code, exit::DONE | exit::JOB) && self.args.wait;
        let failed = match code {
            exit::DONE if self.args.wait => {
                let failed = delete_file_systems(self.plan, look, progress).await;
                progress.clear();
                failed
            }
            _ => Vec::new(),
        };
        for verdict in &failed {
            self.print_verdict(io, verdict);
        }
        if ended && !self.is_json() {
            let mut billed = after_end::after_end(self.plan, &self.manifest.compiled.prediction);
            if code == exit::DONE && failed.is_empty() {
                billed.retain(|one| !one.is_deleted_after_job);
            }
            io.print_colored(&format_billed("after", &billed, io));
        }
        verdict::worst_exit(failed.iter().map(|verdict| verdict.exit)).unwrap_or(code)
    }

    /// Describes the file systems that are billed without a job.
    fn describe_billed(&self, ledger: &Ledger) -> String {
        if self.simulated {
            return String::new();
        }
        billed_storage(&ledger.finished_file_systems(), &self.invocation())
    }

    fn report(&self, io: &mut Io, ledger: &Ledger, job: Option<&str>) -> u8 {
        let mut codes = Vec::new();
        let mut choices = self.choices();
        for (item, cause) in ledger.failures() {
            let verdict = verdict::verdict(self.plan, &item, &cause);
            self.print_verdict(io, &verdict);
            // An obstacle that only the request revealed; the plan shows it with this flag.
            choices.adopt |= verdict.flag == Some("--adopt");
            codes.push(verdict.exit);
        }
        for item in ledger.not_started() {
            if self.is_json() {
                self.print_json_line(io, json!({"type": "left", "kind": item.kind, "name": item.name}));
            } else {
                io.note(&format!("{} {}: not started\n", item.kind, item.name));
            }
        }
        let code = verdict::worst_exit(codes).unwrap_or(exit::DONE);
        if self.is_json() {
            self.print_json_line(io, json!({"type": "applied", "training_job": job, "exit": code}));
            return code;
        }
        if let Some(job) = job {
            io.print(&format!("applied: {job}\n"));
            if let Some(next) = self.watch_command() {
                io.print(&format!("  next  {next}\n"));
            }
        } else {
            let (words, next) = match code {
                exit::DIFFERENT => ("not applied: another version of the job exists", "plan"),
                verdict::exit::FOREIGN => {
                    ("not applied: blocked by a resource that trainc does not own", "plan")
                }
                verdict::exit::DENIED => ("incomplete: repeat once access is granted", "apply"),
                _ => ("incomplete, safe to repeat", "apply"),
            };
            let next = if next == "plan" {
                self.invocation().command_line(&NextCommand::new("plan").flags(choice_flags(choices)))
            } else {
                self.repeat_command()
            };
            io.print(&format!("{words}\n{}  next  {next}\n", self.describe_billed(ledger)));
        }
        code
    }
}

/// Adds to the help of missing credentials that a simulation needs none.
fn simulated_instead(diagnostic: Diagnostic) -> Diagnostic {
    let simulate = NextCommand::new("apply").flag("--simulate");
    verdict::with_alternative(diagnostic, simulate, "runs against an in-memory account, without credentials")
}

/// Returns the settings that are assumed of the program, as the end of a sentence: an edit of them starts no
/// job.
fn describe_assumed(plan: &Plan) -> String {
    let names: Vec<&str> =
        plan.delivery.assumed.iter().map(|one| trainc_ir::Delivery::short(&one.setting)).collect();
    if names.is_empty() { String::new() } else { format!("; assumed of the program: {}", names.join(", ")) }
}
