//! `trainc watch`: follows a job until it ends.

use crate::args::Global;
use crate::commands::probe::describe_plan_again;
use crate::exit;
use crate::jobs::job_context::{
    Expected, Form, JobArgs, JobContext, existing, format_billed, format_day, format_time, is_same_day,
    job_contexts, worst_exit_code,
};
use crate::terminal::io::Io;
use crate::terminal::progress::{Mode, Progress, print_json_line};
use crate::terminal::transcript::Transcript;
use crate::views::account::exit_code;
use crate::views::comparison::{show, single_problem};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::json;
use std::time::Duration;
use trainc_apply::account::{LogEvent, TrainingJob};
use trainc_apply::autopsy::{Autopsy, Finding};
use trainc_apply::brake::{Brake, BrakeFinding, Limits};
use trainc_apply::cloud::{Clock, Cloud, Observe};
use trainc_apply::forecast::forecast;
use trainc_apply::ledger::{Item, Ledger, Recorder};
use trainc_apply::logs::{GROUP, Tail};
use trainc_apply::look::Look;
use trainc_apply::metrics::Metrics;
use trainc_apply::patience::{Outage, OutageStep};
use trainc_apply::status::{
    Planned, Status, billed_so_far, describe_early_end, known_usd_per_hour, most_usd_per_hour, status,
};
use trainc_apply::verdict::{self, Verdict};
use trainc_calibrate::probe::Probe;
use trainc_diag::json::problem;
use trainc_diag::text;
use trainc_diag::{Diagnostic, Invocation, NextCommand, codes_that_explain};
use trainc_emit::ResourceKind;
use trainc_ir::{Budget, Plan};
use trainc_ops::accounts::Tasks;
use trainc_predict::Constants;
use trainc_project::manifests::{Manifest, Set};
use trainc_report::cost::lines_of_run;
use trainc_report::measured;

/// Follow the job until it ends: status, loss, throughput and cost
///
/// Exits with 0 if the job completed, 8 if it failed or was stopped, 4 if the account has no such job.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  trainc watch job.kdl\n  trainc watch job.kdl -o json")]
pub(crate) struct Args {
    #[command(flatten)]
    job: JobArgs,
    /// Output format: human, or json (one object per line)
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = ["human", "json"])]
    output: String,
    /// Stop the job if it passes the limits of its `budget`: a hard limit, or `slowest`. Only while this
    /// command runs; the containers do the same for a budget with `enforce`
    #[arg(long)]
    enforce: bool,
}

/// Runs the command.
pub(crate) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    if let Err(why) = args.job.read_runs(io, "watch") {
        io.note(&why);
        return exit::USAGE;
    }
    let form = Form::start_output(&args.output);
    let (mut accounts, job_contexts, mut codes) = match job_contexts(io, global, &args.job, "watch", &form) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let desk = Transcript::new(job_contexts.len());
    let plans: Vec<&Plan> = job_contexts.iter().map(|about| &about.plan).collect();
    if !job_contexts.is_empty() {
        let ended = accounts.run_all(
            io,
            &plans,
            Watches { output: &args.output, enforce: args.enforce, job_contexts: &job_contexts, desk: &desk },
        );
        let code = exit_code(io, ended);
        desk.print_all(io, if code == exit::DONE { exit::INCOMPLETE } else { code });
    }
    codes.extend(desk.codes());
    worst_exit_code(codes)
}

/// All jobs of a command, followed concurrently.
struct Watches<'a> {
    output: &'a str,
    enforce: bool,
    job_contexts: &'a [JobContext],
    desk: &'a Transcript,
}

impl<'io> Tasks<Io<'io>> for Watches<'_> {
    type Outcome = u8;
    const LEAVES_RESOURCES: bool = true;

    async fn run<C: Cloud, K: Clock>(self, io: &mut Io<'io>, looks: &[Look<'_, C, K>]) -> u8 {
        let Self { output, enforce, job_contexts, desk } = self;
        let quiet = job_contexts.first().is_some_and(|about| about.global.quiet);
        let progress = Progress::new(Mode::from_flags(output, quiet));
        let watch = async |io: &mut Io<'_>, about: &JobContext, look: &Look<'_, C, K>| {
            let name = about.plan.job.name.value().map_or("", String::as_str);
            let progress = progress.for_job(name, job_contexts.len() > 1);
            watch(io, look, about, (output, enforce), &progress).await
        };
        if let ([about], [look]) = (job_contexts, looks) {
            // A single job writes its output directly.
            desk.set_exit_code(0, watch(io, about, look).await);
            return exit::DONE;
        }
        let style = io.style();
        let mut watching: FuturesUnordered<_> = job_contexts
            .iter()
            .zip(looks)
            .enumerate()
            .map(async |(at, (about, look))| {
                let (mut out, mut err) = desk.writers(at);
                let mut own = style.io(&mut out, &mut err);
                (at, watch(&mut own, about, look).await)
            })
            .collect();
        while let Some((at, code)) = watching.next().await {
            desk.set_exit_code(at, code);
            progress.suspend_while(|| desk.print_ended(io));
        }
        exit::DONE
    }
}

async fn watch<C: Cloud, K: Clock>(
    io: &mut Io<'_>,
    look: &Look<'_, C, K>,
    about: &JobContext,
    (output, enforce): (&str, bool),
    progress: &Progress,
) -> u8 {
    let has_limit = |budget: &Budget| budget.hard.get() == Some(true) || budget.slowest.get().is_some();
    if enforce && !about.plan.job.budget.as_ref().is_some_and(has_limit) {
        io.note(
            "error: `--enforce` has no limit: write `budget usd=1000 hard=#true`, or \
                `slowest=0.7`, in the manifest\n",
        );
        return exit::USAGE;
    }
    let found = match existing(io, look, about, progress).await {
        Ok(found) => found,
        Err(code) => return code,
    };
    let job = found.job;
    if found.is_other {
        io.note(&format!("note: {} runs another version than the manifest\n", job.name));
    }
    let JobContext { global, set, manifest, invocation, .. } = about;
    let expected = about.expected(found.is_other || !found.is_ours);
    // A run of another version, or of another owner, has other limits.
    let has_limits = !found.is_other && found.is_ours;
    if enforce && !has_limits {
        io.note(&format!(
            "note: `--enforce` does not stop {}: this manifest does not have its limits\n",
            job.name
        ));
    }
    let enforce = enforce && has_limits;
    let plan = &about.plan;
    if enforce
        && plan.job.budget.as_ref().is_some_and(|budget| budget.hard.get() == Some(true))
        && most_usd_per_hour(plan, expected.planned_for(&job), &job).is_none()
    {
        io.note(
            "error: `--enforce` cannot hold the hard limit: a price of the job is not known; pass it \
            with `--price`\n",
        );
        return exit::USAGE;
    }
    let stay = if enforce { Stay::Enforce } else { Stay::WhileRead };
    let code =
        follow(io, look, set, manifest, &expected, invocation, &job.name, global, progress, stay).await;
    // Other codes report that it could not be followed to its end.
    if matches!(code, exit::DONE | exit::JOB) && output != "json" {
        let billed = about.billed_after_end(found.is_other || !found.is_ours);
        io.print_colored(&format_billed("after", &billed, io));
    }
    let goes = about.plan.job.storage.iter().any(|one| one.delete_after_job.get() == Some(true));
    if code == exit::DONE && goes && output != "json" {
        // `watch` is read-only.
        io.print(&format!(
            "  next  {}: the file system has `delete-after-job`\n",
            about.invocation.command_line(&NextCommand::new("destroy"))
        ));
    }
    code
}

/// State of a job that is followed.
struct Following {
    tail: Tail,
    metrics: Metrics,
    autopsy: Autopsy,
    /// True if the logs may be read.
    logs: bool,
    /// Transient fault of reading the logs.
    trouble: Outage,
    /// Compares its steps and its time with the budget, from its first billed second.
    brake: Option<Brake>,
    /// The reason to stop it, and whether it was shown.
    stop: Option<(BrakeFinding, bool)>,
    /// A finding that is shown and stops nothing.
    behind: Option<BrakeFinding>,
    /// The last forecast that was shown, in seconds.
    forecast: Option<f64>,
    /// Output of a probe, and whether the plan by its rates was shown.
    probe: (Probe, bool),
}

impl Following {
    fn new(job: &TrainingJob) -> Self {
        Self {
            tail: Tail::new(None),
            metrics: Metrics::from_request(&job.request),
            autopsy: Autopsy::default(),
            logs: true,
            trouble: Outage::default(),
            brake: None,
            stop: None,
            behind: None,
            forecast: None,
            probe: (Probe::default(), false),
        }
    }

    /// Starts to compare the run with the budget, once the job is billed.
    fn start_brake(&mut self, plan: &Plan, planned: &Planned, job: &TrainingJob) {
        if let (None, Some(_)) = (&self.brake, job.started) {
            let limits = Limits::from_plan(plan, planned, known_usd_per_hour(plan, planned, job));
            // Its clock is the billed time.
            self.brake = limits.map(|limits| Brake::new(limits, 0.0));
        }
    }

    /// Compares the billed time with the budget, whether the job logs steps or not.
    fn check_time(&mut self, job: &TrainingJob, now: f64) {
        if let (Some(brake), None) = (&self.brake, &self.stop) {
            self.stop = brake.too_long(billed_so_far(job, now)).map(|why| (why, false));
        }
    }

    /// Reads new lines of all hosts, or all remaining ones after the end. Returns false if a transient fault
    /// left some unread.
    async fn read_new_logs<C: Observe, K: Clock>(
        &mut self,
        look: &Look<'_, C, K>,
        job: &TrainingJob,
        io: &mut Io<'_>,
        progress: &Progress,
    ) -> bool {
        if !self.logs {
            return true;
        }
        let (metrics, autopsy) = (&mut self.metrics, &mut self.autopsy);
        let (brake, probe) = (&mut self.brake, &mut self.probe.0);
        let (stop, behind) = (&mut self.stop, &mut self.behind);
        let mut sink = |host: &str, event: &LogEvent| {
            metrics.read_event(host, event);
            autopsy.read(host, event);
            probe.read_line(&event.text);
            if let (Some(brake), Some((_, (step, time))), None) = (brake.as_mut(), metrics.steps(), &stop) {
                match brake.observe(billed_so_far(job, time as f64 / 1_000.0), step) {
                    Some(why) if why.stops() => *stop = Some((why, false)),
                    Some(why) => *behind = Some(why),
                    None => {}
                }
            }
        };
        let read = if job.is_over() {
            self.tail.read_remaining(look, job, &mut sink).await
        } else {
            self.tail.read_available(look, &job.name, &mut sink).await
        };
        let Err(fault) = read else {
            self.trouble.reset();
            return true;
        };
        let said = &fault.message;
        match self.trouble.next_step(look.clock, &look.patience, &fault, job.is_over()) {
            OutageStep::Retry { first: false } => return false,
            OutageStep::Retry { first: true } => {
                let words = format!("note: the logs cannot be read: {said}; retrying\n");
                progress.suspend_while(|| io.note(&words));
                return false;
            }
            OutageStep::GiveUp => {
                progress.suspend_while(|| io.note(&format!("note: the logs cannot be read: {said}\n")));
            }
        }
        self.logs = false;
        true
    }
}

impl Following {
    /// Shows the plan by the rates of the probe, and the end and the cost by the run's own steps: once, and
    /// again when they have changed by a twentieth.
    fn show_findings(
        &mut self,
        io: &mut Io<'_>,
        plan: &Plan,
        planned: &Planned,
        job: &TrainingJob,
        progress: &Progress,
    ) {
        let mode = progress.mode();
        let shipped = Constants::shipped();
        if let (Some(measured), false) = (self.probe.0.constants(shipped), self.probe.1) {
            self.probe.1 = true;
            let words = describe_plan_again(plan, shipped, &measured, io.today_in_days());
            if !words.is_empty() {
                progress.suspend_while(|| show_line(io, mode, plan, "probe", words.trim_end()));
            }
        }
        let Some(now) = forecast(plan, planned, job, &self.metrics) else { return };
        let changed = self.forecast.is_none_or(|shown| (now.seconds / shown - 1.0).abs() > 0.05);
        if changed && planned.seconds.is_some() {
            self.forecast = Some(now.seconds);
            if mode == Mode::Json {
                let job = plan.job.name.value();
                print_json_line(&json!({"type": "forecast", "job": job, "forecast": now}));
            } else if mode != Mode::Silent {
                progress.suspend_while(|| io.note(&format!("{}\n", now.describe())));
            }
        }
    }
}

/// Shows a line of text, or an object with it.
fn show_line(io: &mut Io<'_>, mode: Mode, plan: &Plan, kind: &str, words: &str) {
    if mode == Mode::Json {
        print_json_line(&json!({"type": kind, "job": plan.job.name.value(), "text": words}));
    } else {
        io.note(&format!("{words}\n"));
    }
}

/// Duration for which a job is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stay {
    /// Until it ends, even without a reader.
    ToTheEnd,
    /// Until it ends or the reader closes the pipe.
    WhileRead,
    /// Until it ends; it is stopped if it passes the limits of its budget.
    Enforce,
}

/// Follows a job to its end.
#[expect(clippy::too_many_arguments, reason = "where it is shown, what is followed, for which manifest")]
pub(crate) async fn follow<C: Cloud, K: Clock>(
    io: &mut Io<'_>,
    look: &Look<'_, C, K>,
    set: &Set,
    manifest: &Manifest,
    expected: &Expected,
    invocation: &Invocation,
    name: &str,
    global: &Global,
    progress: &Progress,
    stay: Stay,
) -> u8 {
    // A manifest with errors was reported before.
    let Some(plan) = manifest.compiled.plan.as_deref() else { return exit::MANIFEST };
    let mode = progress.mode();
    let ledger = Ledger::default();
    let recorder = Recorder { ledger: &ledger, listener: progress };
    let item = Item::new(ResourceKind::TrainingJob, name);
    let mut following: Option<Following> = None;
    let mut told: Option<(String, u64)> = None;
    let mut is_type_shown = false;
    let mut trouble = Outage::default();
    let (pause, again) = intervals(look.patience.poll, &expected.planned, look.cloud.is_simulated());
    loop {
        // The status is as of this time, before the logs are read.
        let asked = look.clock.now();
        let job = match look.ask(async |cloud| cloud.training_job(name).await).await {
            Ok(job) => {
                trouble.reset();
                job
            }
            Err(fault) => {
                let verdict = verdict::read_failed(plan, &fault);
                if let OutageStep::Retry { first } =
                    trouble.next_step(look.clock, &look.patience, &fault, false)
                {
                    if first {
                        let words = &verdict.diagnostic.message;
                        progress.suspend_while(|| {
                            io.note(&format!("note: {words}; retrying until it answers\n"));
                        });
                    }
                    trouble.pause(look.clock, &look.patience).await;
                    continue;
                }
                progress.clear();
                let verdict = Verdict { diagnostic: verdict.diagnostic.complete(invocation), ..verdict };
                if mode == Mode::Json {
                    let problem = problem(&set.sources, &verdict.diagnostic);
                    let job = plan.job.name.value();
                    print_json_line(
                        &json!({"type": "problem", "job": job, "exit": verdict.exit, "problem": problem}),
                    );
                }
                show(io, set, manifest, &single_problem(verdict.diagnostic), global);
                let watch = invocation.command_line(&NextCommand::new("watch"));
                io.note(&format!("the job continues; follow it again with `{watch}`\n"));
                return verdict.exit;
            }
        };
        let planned = expected.planned_for(&job);
        let following = following.get_or_insert_with(|| Following::new(&job));
        following.start_brake(plan, planned, &job);
        let read = following.read_new_logs(look, &job, io, progress).await;
        following.check_time(&job, asked);
        following.show_findings(io, plan, planned, &job, progress);
        if let Some(why) = following.behind.take() {
            let words =
                format!("{}: reported only, since no run of this setting was measured", why.describe());
            progress.suspend_while(|| show_line(io, mode, plan, "slow", &words));
        }
        if let Some((why, shown @ false)) = &mut following.stop
            && !job.is_over()
        {
            *shown = true;
            let stops = stay == Stay::Enforce;
            let then = if stops { "stopping the job" } else { "`--enforce` would stop the job" };
            let words = format!("{}: {then}", why.describe());
            progress.suspend_while(|| show_line(io, mode, plan, "limit", &words));
            if stops && let Err(fault) = look.ask(async |cloud| cloud.stop_training_job(name).await).await {
                progress.suspend_while(|| io.note(&format!("note: {}\n", fault.message)));
                // The next reading asks again.
                *shown = false;
            }
        }
        let now = status(plan, planned, &job, &following.metrics, asked).simulated(look.cloud.is_simulated());
        // Once, for all lines that follow.
        if mode != Mode::Json && told.is_none() && !job.is_over() {
            let costs = lines_of_run(plan, expected.document.as_ref(), io.today_in_days());
            if !costs.is_empty() {
                progress.line(&format!("cost: {}", costs.join("; ")));
            }
            now.head().iter().for_each(|line| progress.line(line));
        }
        if mode != Mode::Json
            && !is_type_shown
            && let Some(chosen) = job.chosen_type()
        {
            is_type_shown = true;
            progress.line(&format!("instance: {chosen}, chosen by SageMaker"));
        }
        if mode == Mode::Json {
            let read = print_json_line(&json!({"type": "status", "job": now.job, "status": now}));
            if !read && stay == Stay::WhileRead {
                return exit::DONE;
            }
        } else if mode != Mode::Silent {
            // A terminal keeps these lines above the spinner.
            if should_log_status(told.as_ref(), &now, again) {
                progress.line(&format!("{:>10}  {}", text::duration(now.elapsed_seconds), now.line()));
                told = Some((now.secondary_status.clone(), now.elapsed_seconds));
            }
            if mode == Mode::Bars {
                recorder.report_wait(&item, &now.line(), now.elapsed_seconds);
                for (label, line) in charts(plan, planned, &following.metrics, io) {
                    progress.show_below(label, &line);
                }
            }
        }
        if job.is_over() && !read {
            // The last lines contain the cause of a failure.
            following.trouble.pause(look.clock, &look.patience).await;
            continue;
        }
        if job.is_over() {
            progress.clear();
            if matches!(mode, Mode::Bars | Mode::Lines) {
                for (label, line) in charts(plan, planned, &following.metrics, io) {
                    io.note(&format!("  {label:<10}{line}\n"));
                }
            }
            let finding = following.autopsy.finding(&job);
            let output = if mode == Mode::Json { "json" } else { "human" };
            return print_outcome(
                io,
                set,
                manifest,
                invocation,
                plan,
                &job,
                (&now, asked),
                expected,
                &finding,
                output,
                global,
            );
        }
        look.clock.sleep(pause).await;
    }
}

/// Columns next to a chart: its label, its figures, the margin.
const CHART_FIGURES: usize = 44;

/// Draws the loss and the tokens per second so far, each with a label; none without two figures.
fn charts(plan: &Plan, planned: &Planned, metrics: &Metrics, io: &Io) -> Vec<(&'static str, String)> {
    let tokens = plan.batch.as_ref().and_then(|batch| batch.global_tokens);
    let rates = metrics.rates(tokens.map(|tokens| tokens as f64));
    let columns = io.width.saturating_sub(CHART_FIGURES);
    measured::charts(metrics.losses(), &rates, planned.tokens_per_second, columns, io.unicode)
}

/// Seconds after which an unchanged status is logged again.
const AGAIN: u64 = 600;

/// Returns the pause between two looks at a job, and the seconds after which an unchanged status is logged
/// again. In a simulated account a pause takes no time: a long run is looked at as often as a short one.
fn intervals(poll: Duration, planned: &Planned, is_simulated: bool) -> (Duration, u64) {
    /// Looks at a simulated run, and lines of its log.
    const LOOKS: (f64, f64) = (1_440.0, 36.0);
    let seconds = planned.seconds.filter(|_| is_simulated).unwrap_or(0.0);
    let of = |parts: f64| Duration::try_from_secs_f64(seconds / parts).unwrap_or_default();
    (poll.max(of(LOOKS.0)), of(LOOKS.1).as_secs().max(AGAIN))
}

fn should_log_status(told: Option<&(String, u64)>, now: &Status, again: u64) -> bool {
    told.is_none_or(|(state, when)| *state != now.secondary_status || now.elapsed_seconds >= when + again)
}

/// Prints the outcome of a job.
#[expect(clippy::too_many_arguments, reason = "a page is made of all of these")]
pub(crate) fn print_outcome(
    io: &mut Io,
    set: &Set,
    manifest: &Manifest,
    invocation: &Invocation,
    plan: &Plan,
    job: &TrainingJob,
    (now, asked): (&Status, f64),
    expected: &Expected,
    finding: &Finding,
    output: &str,
    global: &Global,
) -> u8 {
    let completed = job.status == "Completed";
    if output == "json" {
        let cause = finding.cause.as_ref();
        let mut value = json!({
            "type": "ended", "job": now.job, "training_job": job.name, "status": job.status,
            "exit": if completed { exit::DONE } else { exit::JOB },
            "after_end": expected.document.as_ref().map_or(&[][..], |document| &document.after_end),
        });
        if !completed && let Some(members) = value.as_object_mut() {
            members.insert("code".to_owned(), json!(finding.code().id));
            members.insert("class".to_owned(), json!(finding.code().name));
            members.insert("host".to_owned(), json!(cause.map(|cause| &cause.host)));
            members.insert("line".to_owned(), json!(cause.map(|cause| &cause.line)));
            let help = finding.help(plan, job).fill_commands(invocation);
            members.insert("next".to_owned(), json!(help.to_string()));
        }
        if let (Some((last, steps)), Some(members)) = (now.early_end_steps(plan), value.as_object_mut()) {
            members.insert("last_step".to_owned(), json!(last));
            members.insert("planned_steps".to_owned(), json!(steps));
        }
        print_json_line(&value);
        return if completed { exit::DONE } else { exit::JOB };
    }
    if completed {
        io.print(&format!("{} completed in {}\n", job.name, text::duration(now.elapsed_seconds)));
        if let Some(model) = &job.model_artifacts {
            io.print(&format!("  model     {model}\n"));
        }
        if let Some(short) = now.early_end_steps(plan) {
            io.print(&format!("  note      {}\n", describe_early_end(short)));
        }
        io.print_colored(&expected.format_costs(plan, now, io));
        return exit::DONE;
    }
    let span = plan.job.name.span().unwrap_or(plan.job.span);
    let verb = if job.status == "Stopped" { "stopped" } else { "failed" };
    let mut diagnostic =
        Diagnostic::new(finding.code(), span, format!("{} {verb}: {}", job.name, finding.describe()))
            .help(finding.help(plan, job).fill_commands(invocation));
    if let Some(cause) = &finding.cause {
        let what = if cause.is_said { "failure" } else { "host to stop logging" };
        let time = cause.time as f64 / 1_000.0;
        let day = if is_same_day(time, asked) { String::new() } else { format_day(time) + " " };
        let time = day + &format_time(time);
        diagnostic = diagnostic.note(format!("first {what}: {} at {time} UTC", cause.host));
    }
    if let Some(reason) = &job.failure {
        let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
        diagnostic = diagnostic.note(format!("SageMaker says: {}", reason.trim_end_matches('.')));
    }
    let related = codes_that_explain(crate::codes(), finding.kind);
    if !related.is_empty() {
        diagnostic = diagnostic.note(format!("related rules: {}", text::list(&related, "and")));
    }
    diagnostic = diagnostic.note(format!("full logs: log group {GROUP}, streams {}/…", job.name));
    show(io, set, manifest, &single_problem(diagnostic), global);
    if let Some(cause) = &finding.cause {
        io.print(&format!("last lines of {}:\n", cause.host));
        for line in &cause.lines {
            io.print(&format!("  {}\n", trainc_diag::escape_control_characters(line)));
        }
    }
    // Without instances there is no cost.
    let never = if job.started.is_none() { "it never ran: ended" } else { "it ended" };
    io.print(&format!("{never} {} after its creation\n", text::duration(now.elapsed_seconds)));
    io.print_colored(&expected.format_costs(plan, now, io));
    exit::JOB
}
