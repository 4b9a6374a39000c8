//! `trainc status`.

use crate::args::Global;
use crate::exit;
use crate::jobs::job_context::{
    Form, JobArgs, JobContext, Kept, existing, format_billed, format_day, format_time, is_same_day,
    run_for_each_job,
};
use crate::terminal::io::Io;
use crate::terminal::progress::{LOOKING, READING};
use serde_json::json;
use std::rc::Rc;
use trainc_apply::account::{FileSystem, LogEvent, TrainingJob, Transition};
use trainc_apply::cloud::{Clock, Cloud};
use trainc_apply::diff::missing_mounts;
use trainc_apply::logs::Tail;
use trainc_apply::look::Look;
use trainc_apply::metrics::Metrics;
use trainc_apply::status::{Status, status};
use trainc_diag::{NextCommand, text};
use trainc_ops::accounts::Task;
use trainc_ops::existing_job::running;
use trainc_ops::still_billed::still_billed;

/// Show the status, metrics and cost of the job
///
/// Exits with 4 if the account has no training job of the manifest.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  trainc status job.kdl\n  trainc status job.kdl -o json")]
pub(crate) struct Args {
    #[command(flatten)]
    job: JobArgs,
    /// Output format: human or json
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = ["human", "json"])]
    output: String,
}

/// Runs the command.
pub(crate) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    if let Err(why) = args.job.read_runs(io, "status") {
        io.note(&why);
        return exit::USAGE;
    }
    let kept = Rc::new(Kept::default());
    let form = if args.output == "json" { Form::Kept(kept.clone()) } else { Form::Words };
    let code = run_for_each_job(io, global, &args.job, "status", &form, |about| Show { about });
    kept.print(io);
    code
}

struct Show {
    about: JobContext,
}

impl<'io> Task<Io<'io>> for Show {
    type Outcome = u8;
    async fn run<C: Cloud, K: Clock>(self, io: &mut Io<'io>, look: Look<'_, C, K>) -> u8 {
        let progress = self.about.progress();
        let asked = look.clock.now();
        let found = match existing(io, &look, &self.about, &progress).await {
            Ok(found) => found,
            Err(code) => return code,
        };
        let job = &found.job;
        let mut metrics = Metrics::from_request(&job.request);
        // One stream is enough if the first host logs all metrics.
        for hosts in [Some("algo-1"), None] {
            if hosts.is_none() && (metrics.is_complete() || job.instance_count() < 2) {
                continue;
            }
            let mut sink = |host: &str, event: &LogEvent| {
                metrics.read_event(host, event);
            };
            let mut tail = Tail::new(hosts);
            let read =
                progress.run_with_spinner(READING, tail.read_available(&look, &job.name, &mut sink)).await;
            if let Err(fault) = read {
                io.note(&format!("note: the logs cannot be read: {}\n", fault.message));
                break;
            }
        }
        let (billed, systems) = progress
            .run_with_spinner(
                LOOKING,
                still_billed(&look, self.about.billed_after_end(found.is_other || !found.is_ours), &found),
            )
            .await;
        let (job, is_other) = (&found.job, found.is_other || !found.is_ours);
        let lost = systems.map_or_else(Vec::new, |all| lost_file_systems(job, &all));
        let beside = match progress
            .run_with_spinner(LOOKING, running(&look, &self.about.plan, &found.desired))
            .await
        {
            Ok(all) => all.into_iter().filter(|one| one.name != job.name).collect::<Vec<_>>(),
            Err(verdict) => return self.about.fail(io, verdict),
        };
        let plan = &self.about.plan;
        let expected = self.about.expected(is_other);
        let now = status(plan, expected.planned_for(job), job, &metrics, asked)
            .simulated(look.cloud.is_simulated());
        if self.about.form.is_json() {
            let mut object = serde_json::to_value(&now).unwrap_or_default();
            if let Some(members) = object.as_object_mut() {
                let all = beside.iter().map(|one| {
                    json!({"training_job": one.name, "status": one.status, "secondary_status": one.secondary})
                });
                members.insert("also_running".to_owned(), all.collect());
                members.insert("lost_file_systems".to_owned(), json!(lost));
                members.insert("after_end".to_owned(), json!(billed));
                members.insert("is_ours".to_owned(), json!(found.is_ours));
            }
            self.about.print_object(io, object);
        } else {
            let other = match (found.is_ours, found.is_other) {
                (false, _) => " (not created by trainc for this job)",
                (true, true) => " (another version than the manifest)",
                (true, false) => "",
            };
            io.print(&format_status(&now, job.chosen_type(), other, asked, io.wrap));
            io.print_colored(&expected.format_costs(plan, &now, io));
            io.print_colored(&format_billed("after", &billed, io));
            let invocation = &self.about.invocation;
            let stop =
                |run: &str| invocation.command_line(&NextCommand::new("stop").flag(format!("--run {run}")));
            if !lost.is_empty() {
                io.print(&format!(
                    "{} continues without {}, which was deleted\n  stop it with {}, then {}\n",
                    job.name,
                    text::backtick_list(&lost, "and"),
                    stop(&job.name),
                    invocation.command_line(&NextCommand::new("apply").flag("--new-run")),
                ));
            }
            for one in &beside {
                io.print(&format!(
                    "{} is also running: {}, {}\n  stop it with {}\n",
                    one.name,
                    one.status,
                    one.secondary,
                    stop(&one.name)
                ));
            }
        }
        exit::DONE
    }
}

/// Returns the deleted file systems of a run that has not ended.
fn lost_file_systems(job: &TrainingJob, all: &[FileSystem]) -> Vec<String> {
    if job.is_over() {
        return Vec::new();
    }
    missing_mounts(job, &all.iter().map(|system| system.id.clone()).collect())
}

/// Formats the state and the progress of a run; messages are wrapped at this width, below their column.
/// Formats the state of a run; `chosen` is the instance type that SageMaker chose of several preferred ones.
fn format_status(
    now: &Status,
    chosen: Option<&str>,
    other: &str,
    asked: f64,
    width: Option<usize>,
) -> String {
    let mut out = format!("{}{other}: {}", now.training_job, now.status);
    // After the end both are the same word.
    if now.secondary_status != now.status {
        out.push_str(&format!(", {}", now.secondary_status));
    }
    out.push('\n');
    let lasted = |one: &Transition| {
        one.end.map_or_else(String::new, |end| {
            let time = std::time::Duration::try_from_secs_f64(end - one.start).unwrap_or_default();
            text::duration(time.as_secs())
        })
    };
    let widest = now.transitions.iter().map(|one| lasted(one).len()).max().unwrap_or(0);
    let mut day = asked;
    for one in &now.transitions {
        if !is_same_day(one.start, day) {
            out.push_str(&format!("  {}\n", format_day(one.start)));
        }
        day = one.start;
        let when = format_time(one.start);
        let message = trainc_diag::escape_control_characters(&one.message);
        let label = format!("  {when}  {:<12}  {:>widest$}  ", one.status, lasted(one));
        let room = width.map_or(usize::MAX, |width| width.saturating_sub(label.len()).max(1));
        let gap = format!("\n{}", " ".repeat(label.len()));
        out.push_str(&format!("{label}{}\n", text::wrap(&message, room, 0).join(&gap)));
    }
    let mut field = |label: &str, value: String| out.push_str(&format!("  {label:<10}{value}\n"));
    if let Some(chosen) = chosen {
        field("instance", format!("{chosen}, chosen by SageMaker"));
    }
    for (name, figure) in now.figures() {
        field(name, figure);
    }
    if let Some(percent) = now.progress_percentage {
        let left = now.left().map_or_else(String::new, |left| format!(", {left}"));
        field("progress", format!("{}%{left}", text::short_number(percent)));
    }
    if let Some(reason) = &now.failure_reason {
        // Output of the program: untrusted text.
        let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
        field("because", trainc_diag::escape_control_characters(&reason));
    }
    // SageMaker names the location from the start; it has content only after completion.
    if let Some(model) = now.model_artifacts.as_ref().filter(|_| now.status == "Completed") {
        field("model", model.clone());
    }
    out
}
