//! Shared by commands about an existing job: the selection of manifest and training job, and the output.

use crate::args::account::AccountArgs;
use crate::args::invocation::invocation;
use crate::args::overlay::Overlay;
use crate::args::{Global, Named, problems};
use crate::commands::plan::document;
use crate::exit;
use crate::terminal::io::Io;
use crate::terminal::progress::{LOOKING, Mode, Progress, print_version_line};
use crate::views::account::exit_code;
use crate::views::comparison::{show, single_problem};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use trainc_apply::account::TrainingJob;
use trainc_apply::cloud::{Clock, Observe};
use trainc_apply::look::Look;
use trainc_apply::status::{Planned, Status};
use trainc_apply::verdict::{self, Verdict};
use trainc_diag::json::problem;
use trainc_diag::{Diagnostic, Format, Invocation, NextCommand, Severity};
use trainc_ir::Plan;
use trainc_ir::date::iso_date;
use trainc_ops::accounts::{Accounts, Task};
use trainc_ops::existing_job::{Existing, Found, find, verdict_if_foreign_job};
use trainc_ops::partial_plan;
use trainc_plan::Compiled;
use trainc_predict::Prediction;
use trainc_predict::bills::storage_usd_per_hour;
use trainc_project::manifests::{Manifest, Set, compile_all};
use trainc_report::after_end;
use trainc_report::human::{costs_of_run, lines_after_end};
use trainc_report::json::{AfterEnd, Document};

/// Flags that select a job. With the flags of its `apply`, a run is compared with what was planned.
#[derive(clap::Args, Debug)]
pub(crate) struct JobArgs {
    #[command(flatten)]
    pub named: Named,
    #[command(flatten)]
    pub overlay: Overlay,
    #[command(flatten)]
    pub account: AccountArgs,
}

impl JobArgs {
    /// Reads the measured runs that plans of these jobs are conditioned on.
    pub(crate) fn read_runs(&self, io: &mut Io, command: &str) -> Result<(), String> {
        // A command without a manifest reports that itself.
        let Ok(paths) = self.named.paths(command) else { return Ok(()) };
        self.overlay.read_runs(io, &paths)
    }
}

/// Output form of a command.
#[derive(Clone)]
pub(crate) enum Form {
    /// Text for people.
    Words,
    /// JSON lines, the first with the version.
    Lines,
    /// JSON objects that are printed at the end, one per manifest.
    Kept(Rc<Kept>),
}

/// JSON objects collected for the end of a command.
#[derive(Default)]
pub(crate) struct Kept {
    objects: RefCell<Vec<Value>>,
    /// True for several manifests or a directory: prints an array.
    many: Cell<bool>,
}

impl Kept {
    /// Prints one object, or an array for several manifests, like `plan`.
    pub(crate) fn print(&self, io: &mut Io) {
        let objects = self.objects.take();
        let text = match objects.as_slice() {
            [] if !self.many.get() => return,
            [one] if !self.many.get() => serde_json::to_string_pretty(one),
            all => serde_json::to_string_pretty(all),
        };
        io.print_json(&format!("{}\n", text.unwrap_or_default()));
    }
}

/// Version of the form of a collected object.
const FORMAT_VERSION: &str = "1.0";

impl Form {
    /// Starts the output that `--output` selects: for JSON lines, prints the version line.
    pub(crate) fn start_output(output: &str) -> Self {
        if output == "json" {
            print_version_line();
            return Self::Lines;
        }
        Self::Words
    }

    /// Returns true for JSON.
    pub(crate) fn is_json(&self) -> bool {
        !matches!(self, Self::Words)
    }

    /// Prints or collects one object of a job; does nothing for text.
    pub(crate) fn print_object(&self, io: &mut Io, job: Option<&str>, mut object: Value) {
        if let Some(members) = object.as_object_mut() {
            members.insert("job".to_owned(), json!(job));
        }
        match self {
            Self::Words => {}
            Self::Lines => io.print_json(&format!("{object}\n")),
            Self::Kept(kept) => {
                if let Some(members) = object.as_object_mut() {
                    members.insert("format_version".to_owned(), json!(FORMAT_VERSION));
                }
                kept.objects.borrow_mut().push(object);
            }
        }
    }
}

/// Returns the errors of a manifest as JSON objects.
pub(crate) fn errors(set: &Set, manifest: &Manifest) -> Vec<Value> {
    let errors = manifest.compiled.problems.iter().filter(|one| one.severity == Severity::Error);
    errors
        .map(|one| json!({"type": "problem", "exit": exit::MANIFEST, "problem": problem(&set.sources, one)}))
        .collect()
}

/// A job with its manifest and the output form.
#[derive(Clone)]
pub(crate) struct JobContext {
    /// Global flags.
    pub global: Global,
    /// All manifests of the command, with their sources.
    pub set: Set,
    /// The manifest.
    pub manifest: Manifest,
    /// Its plan.
    pub plan: Plan,
    /// The command line, which completes suggested commands.
    pub invocation: Invocation,
    /// The command line with a persisted account, if the account is lost after each command.
    pub persisted: Option<Invocation>,
    /// Output form.
    pub form: Form,
}

impl JobContext {
    /// The job's name.
    pub(crate) fn name(&self) -> &str {
        self.plan.job.name.value().map_or("", String::as_str)
    }

    /// Returns what the plan expects of a run; nothing of a run of another digest.
    pub(crate) fn expected(&self, is_other: bool) -> Expected {
        if is_other { Expected::default() } else { Expected::from_manifest(&self.manifest, &self.set) }
    }

    /// Returns what is billed after the end of a run; nothing for a run of another digest.
    pub(crate) fn billed_after_end(&self, is_other: bool) -> Vec<AfterEnd> {
        if is_other {
            return Vec::new();
        }
        after_end::after_end(&self.plan, &self.manifest.compiled.prediction)
    }

    /// Returns a progress display for this output.
    pub(crate) fn progress(&self) -> Progress {
        let output = if self.form.is_json() { "json" } else { "human" };
        Progress::new(Mode::from_flags(output, self.global.quiet))
    }

    /// Prints or collects one object with the name of the job.
    pub(crate) fn print_object(&self, io: &mut Io, object: Value) {
        self.form.print_object(io, Some(self.name()), object);
    }

    /// Reports the errors of a manifest with which the command continues.
    fn report_ignored_errors(&self, io: &mut Io, command: &str) {
        let (notes, words) = partial_plan::errors_as_notes(&self.manifest.compiled, command);
        if let Form::Lines = self.form {
            for one in notes.iter() {
                self.print_object(io, json!({"type": "problem", "problem": problem(&self.set.sources, one)}));
            }
        }
        show(io, &self.set, &self.manifest, &notes, &self.global);
        io.note(&words);
    }

    /// Reports a problem as a warning.
    fn warn(&self, io: &mut Io, diagnostic: Diagnostic) {
        let diagnostic = diagnostic.severity(Severity::Warning).complete(&self.invocation);
        if let Form::Lines = self.form {
            let problem = problem(&self.set.sources, &diagnostic);
            self.print_object(io, json!({"type": "problem", "problem": problem}));
        }
        show(io, &self.set, &self.manifest, &single_problem(diagnostic), &self.global);
    }

    /// Reports a problem of the account; returns the exit code.
    pub(crate) fn fail(&self, io: &mut Io, mut verdict: Verdict) -> u8 {
        verdict.diagnostic = verdict.diagnostic.complete(&self.invocation);
        let problem = problem(&self.set.sources, &verdict.diagnostic);
        self.print_object(io, json!({"type": "problem", "exit": verdict.exit, "problem": problem}));
        let all = verdict.diagnostic;
        let shown = if self.global.verbose { all } else { verdict::truncate_differences(all) };
        show(io, &self.set, &self.manifest, &single_problem(shown), &self.global);
        verdict.exit
    }
}

/// What the plan of a manifest expects of its run.
#[derive(Default)]
pub(crate) struct Expected {
    /// The figures that a run on the first instance type is compared with.
    pub planned: Planned,
    /// The figures on each further preferred instance type.
    further: Vec<(String, Planned)>,
    /// The plan, with its costs; `None` for a run of another digest.
    pub document: Option<Document>,
}

impl Expected {
    /// Returns what the plan of a manifest expects.
    pub(crate) fn from_manifest(manifest: &Manifest, set: &Set) -> Self {
        let document = document(manifest, set);
        let Compiled { plan, prediction, choices, .. } = &manifest.compiled;
        let further = choices.iter().flat_map(|choices| &choices.further).map(|one| {
            let money = (one.prediction.run.as_ref().and_then(|run| run.cost_usd), None);
            (one.instance.clone(), planned(Some(&one.plan), &one.prediction, money))
        });
        let money = (document.run.cost_usd, document.run.on_demand_usd);
        let planned = planned(plan.as_deref(), prediction, money);
        Self { planned, further: further.collect(), document: Some(document) }
    }

    /// Returns the figures that a run is compared with: those of the instance type that it runs on.
    pub(crate) fn planned_for(&self, job: &TrainingJob) -> &Planned {
        let chosen = job.instance_type();
        let further = self.further.iter().find(|(instance, _)| chosen == Some(instance.as_str()));
        further.map_or(&self.planned, |(_, planned)| planned)
    }

    /// Formats what a run has cost, next to the costs of the plan.
    pub(crate) fn format_costs(&self, plan: &Plan, now: &Status, io: &Io) -> String {
        let so_far = now.describe_cost();
        costs_of_run(plan, self.document.as_ref(), so_far.as_deref(), io.report_options(io.width))
    }
}

/// Returns the figures of a plan; `money` is the expected cost, and that at the on-demand price.
fn planned(plan: Option<&Plan>, prediction: &Prediction, money: (Option<f64>, Option<f64>)) -> Planned {
    let run = prediction.run.as_ref().filter(|run| !run.never_ends);
    let seconds = run.map(trainc_predict::Run::expected_seconds);
    Planned {
        seconds: seconds.filter(|seconds| seconds.is_finite()),
        tokens_per_second: prediction.speed.as_ref().map(|speed| speed.tokens_per_second),
        is_speed_measured: prediction.speed.as_ref().is_some_and(trainc_predict::Speed::can_stop_a_job),
        start_seconds: run.map(|run| run.parts.startup + run.parts.download.unwrap_or(0.0)),
        steps_seconds: run.map(|run| run.parts.training + run.parts.checkpoints),
        usd: money.0,
        on_demand_usd: money.1,
        storage_usd_per_hour: plan.map_or(0.0, storage_usd_per_hour),
    }
}

/// Formats what is billed after the end of a job next to a label, as plans do.
pub(crate) fn format_billed(label: &str, billed: &[AfterEnd], io: &Io) -> String {
    lines_after_end(label, billed, io.report_options(io.width))
}

/// Runs a task for each job of the manifests; returns the worst exit code.
pub(crate) fn run_for_each_job<'io, T: Task<Io<'io>, Outcome = u8>>(
    io: &mut Io<'io>,
    global: &Global,
    args: &JobArgs,
    command: &str,
    form: &Form,
    task: impl Fn(JobContext) -> T,
) -> u8 {
    let (mut accounts, job_contexts, mut codes) = match job_contexts(io, global, args, command, form) {
        Ok(found) => found,
        Err(code) => return code,
    };
    for about in job_contexts {
        let plan = about.plan.clone();
        let ended = accounts.run(io, &plan, task(about));
        codes.push(exit_code(io, ended));
    }
    worst_exit_code(codes)
}

/// Returns the worst of several exit codes.
pub(crate) fn worst_exit_code(codes: Vec<u8>) -> u8 {
    verdict::worst_exit(codes.into_iter().filter(|code| *code != exit::DONE)).unwrap_or(exit::DONE)
}

/// Compiles the manifests and opens the account. Returns the jobs with which the command can continue, and
/// the exit codes of the others.
pub(crate) fn job_contexts(
    io: &mut Io,
    global: &Global,
    args: &JobArgs,
    command: &str,
    form: &Form,
) -> Result<(Accounts, Vec<JobContext>, Vec<u8>), u8> {
    let usage = |io: &mut Io, words: String| {
        io.note(&words);
        exit::USAGE
    };
    let paths = args.named.paths(command).map_err(|words| usage(io, words))?;
    let mut options = args.overlay.options(io, false);
    // The name is enough to find the job: nothing is fetched.
    options.asks_account = args.account.is_real();
    let set = compile_all(&paths, &options);
    let accounts = args.account.open(io, None).map_err(|words| usage(io, words))?;
    if let Form::Kept(kept) = form {
        kept.many.set(set.many);
    }
    let (mut out, mut codes) = (Vec::new(), Vec::new());
    for manifest in &set.manifests {
        let sound = manifest.compiled.plan_without_errors();
        let Some(plan) =
            sound.or_else(|| partial_plan::plan_with_errors(&manifest.compiled, &set.sources, command))
        else {
            let text = problems(&set, Format::Human, io, io.color, global);
            io.note_colored(&text);
            for object in errors(&set, manifest) {
                form.print_object(io, manifest.compiled.job.as_deref(), object);
            }
            codes.push(exit::MANIFEST);
            continue;
        };
        let about = JobContext {
            global: global.clone(),
            set: set.clone(),
            manifest: manifest.clone(),
            plan: plan.clone(),
            invocation: invocation(manifest.shown_argument(), &args.overlay, &args.account),
            persisted: args.account.is_in_memory().then(|| {
                invocation(manifest.shown_argument(), &args.overlay, &AccountArgs::with_default_file())
            }),
            form: form.clone(),
        };
        if sound.is_none() {
            about.report_ignored_errors(io, command);
        }
        match verdict::require_sagemaker(plan) {
            Ok(()) => out.push(about),
            Err(verdict) => codes.push(about.fail(io, *verdict)),
        }
    }
    Ok((accounts, out, codes))
}

/// Finds the training job of a manifest, with a warning if only its name matches. Reports a failure, and
/// returns its exit code.
pub(crate) async fn existing<C: Observe, K: Clock>(
    io: &mut Io<'_>,
    look: &Look<'_, C, K>,
    about: &JobContext,
    progress: &Progress,
) -> Result<Existing, u8> {
    match progress.run_with_spinner(LOOKING, find(look, &about.plan)).await {
        Ok(Found { desired, job: Some((job, tags)), is_other }) => {
            let foreign = verdict_if_foreign_job(&about.plan, &desired, &job, &tags);
            let is_ours = foreign.is_none();
            if let Some(verdict) = foreign {
                about.warn(io, verdict.diagnostic);
            }
            Ok(Existing { desired, job, is_other, is_ours })
        }
        Ok(_) => Err(report_no_job(io, about)),
        Err(verdict) => Err(about.fail(io, verdict)),
    }
}

/// Reports that the account has no training job of the manifest.
fn report_no_job(io: &mut Io, about: &JobContext) -> u8 {
    about.print_object(
        io,
        json!({"type": "result", "training_job": null, "status": null, "exit": exit::DIFFERENT}),
    );
    let job = about.plan.job.name.value().map_or("", String::as_str);
    let apply = NextCommand::new("apply");
    io.note(&match &about.persisted {
        Some(persisted) => format!(
            "no training job of `{job}` in the account: an in-memory account starts empty; \
                persist it in a file:\n  {}\nand pass `{}` here too\n",
            persisted.command_line(&apply),
            AccountArgs::with_default_file().flag().unwrap_or_default()
        ),
        None => format!(
            "no training job of `{job}` in the account; start one with `{}`\n",
            about.invocation.command_line(&apply)
        ),
    });
    exit::DIFFERENT
}

/// Formats seconds since 1970 as a UTC time of day: `09:15:10`.
pub(crate) fn format_time(seconds: f64) -> String {
    format_time_of_day(i64::try_from(milliseconds(seconds)).unwrap_or(0))
}

/// Formats seconds since 1970 as a UTC day: `2026-11-26`.
pub(crate) fn format_day(seconds: f64) -> String {
    iso_date(day(seconds))
}

/// Returns true if two times in seconds since 1970 are of the same UTC day.
pub(crate) fn is_same_day(a: f64, b: f64) -> bool {
    day(a) == day(b)
}

fn day(seconds: f64) -> i64 {
    i64::try_from(milliseconds(seconds) / 86_400_000).unwrap_or(0)
}

fn milliseconds(seconds: f64) -> u128 {
    std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default().as_millis()
}

/// Formats milliseconds since 1970 as a UTC time of day, e.g. `09:15:10`.
pub(crate) fn format_time_of_day(milliseconds: i64) -> String {
    let seconds = milliseconds.div_euclid(1_000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_another_day_has_its_day() {
        let (nine, later) = (1_767_603_601.5, 1_767_603_601.5 + 86_400.0);
        assert!(is_same_day(nine, nine + 3_600.0) && !is_same_day(nine, later));
        assert_eq!((format_day(later), format_time(later)), ("2026-01-06".to_owned(), "09:00:01".to_owned()));
    }
}
