//! `trainc logs`.

use crate::args::Global;
use crate::exit;
use crate::jobs::job_context::{Form, JobArgs, JobContext, existing, format_time_of_day, run_for_each_job};
use crate::jobs::log_start::{self, LogStart};
use crate::terminal::io::Io;
use crate::terminal::progress::READING;
use serde_json::json;
use trainc_apply::account::LogEvent;
use trainc_apply::cloud::{Answer, Clock, Cloud};
use trainc_apply::fault::Fault;
use trainc_apply::logs::Tail;
use trainc_apply::look::Look;
use trainc_apply::patience::{Outage, OutageStep};
use trainc_apply::verdict;
use trainc_diag::NextCommand;
use trainc_ops::accounts::Task;

/// Show the logs of the job: all hosts merged by time, or one host
#[derive(clap::Args, Debug)]
#[command(
    // No effect here.
    mut_arg("prices", |arg| arg.hide(true)),
    mut_arg("discount", |arg| arg.hide(true)),
    mut_arg("calibration", |arg| arg.hide(true)),
    mut_arg("runs", |arg| arg.hide(true)),
    after_help = "Examples:\n  trainc logs job.kdl\n  trainc logs job.kdl --host algo-1 --follow\n  trainc \
        logs job.kdl --follow --since 10m"
)]
pub(crate) struct Args {
    #[command(flatten)]
    job: JobArgs,
    /// Only this host, e.g. algo-1
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Only lines since this time: a duration ago, e.g. 10m, or a UTC time, e.g. 2026-11-22T09:15:10Z
    #[arg(long, value_name = "TIME", value_parser = log_start::parse)]
    since: Option<LogStart>,
    /// Keep printing new lines until the job ends
    #[arg(short, long)]
    follow: bool,
    /// Output format: human, or json (one object per line)
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = ["human", "json"])]
    output: String,
}

/// Runs the command.
pub(crate) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let form = Form::start_output(&args.output);
    run_for_each_job(io, global, &args.job, "logs", &form, |about| Logs {
        host: args.host.clone(),
        follow: args.follow,
        since: args.since,
        about,
    })
}

/// Spinner text between two requests while logs are followed.
const WAITING: &str = "waiting for more lines";

struct Logs {
    host: Option<String>,
    follow: bool,
    since: Option<LogStart>,
    about: JobContext,
}

impl<'io> Task<Io<'io>> for Logs {
    type Outcome = u8;
    const LEAVES_RESOURCES: bool = true;

    async fn run<C: Cloud, K: Clock>(self, io: &mut Io<'io>, look: Look<'_, C, K>) -> u8 {
        let progress = self.about.progress();
        let found = match existing(io, &look, &self.about, &progress).await {
            Ok(found) => found,
            Err(code) => return code,
        };
        let job = found.job;
        if let Some(host) = self.host.as_deref().filter(|host| !is_host(host, job.instance_count())) {
            let last = job.instance_count();
            let has = if last == 1 { "only algo-1".to_owned() } else { format!("algo-1 to algo-{last}") };
            io.note(&format!("error: {} has no host `{host}`; expected {has}\n", job.name));
            return exit::USAGE;
        }
        let several = self.host.is_none() && job.instance_count() > 1;
        let since = self.since.map(|since| since.seconds(look.clock.now()));
        let mut tail = Tail::new(self.host.as_deref()).since(since);
        let mut lines: u64 = 0;
        let mut last: Option<i64> = None;
        let mut trouble = Outage::default();
        loop {
            let (is_json, name) = (self.about.form.is_json(), self.about.name());
            let mut sink = |host: &str, event: &LogEvent| {
                // Lines replace the spinner.
                progress.clear();
                lines += 1;
                last = last.max(Some(event.time));
                if is_json {
                    io.print_json(&format!(
                        "{}\n",
                        json!({
                            "type": "log", "job": name, "host": host, "time": event.time, "text": event.text,
                        })
                    ));
                } else {
                    let host = if several { format!("{host:<8} ") } else { String::new() };
                    io.print(&format!(
                        "{host}{} {}\n",
                        format_time_of_day(event.time),
                        trainc_diag::escape_control_characters(&event.text)
                    ));
                }
            };
            let read = read_new_lines(&look, &job.name, self.follow, &mut tail, &mut sink);
            let over = match progress.run_with_spinner(READING, read).await {
                Ok(over) => {
                    trouble.reset();
                    over
                }
                Err(fault) => {
                    let next = trouble.next_step(look.clock, &look.patience, &fault, false);
                    let OutageStep::Retry { first } = next else { return self.fail(io, &fault, last) };
                    if !self.follow {
                        return self.fail(io, &fault, last);
                    }
                    if first {
                        let words = verdict::read_failed(&self.about.plan, &fault).diagnostic.message;
                        io.note(&format!("note: {words}; retrying until it answers\n"));
                    }
                    progress.run_with_spinner(WAITING, trouble.pause(look.clock, &look.patience)).await;
                    continue;
                }
            };
            if over || !self.follow || io.unread {
                break;
            }
            progress.run_with_spinner(WAITING, look.clock.sleep(look.patience.poll)).await;
        }
        if lines == 0 {
            let who = self.host.as_ref().map_or_else(
                || "no host has logged anything".to_owned(),
                |host| format!("{host} has not logged anything"),
            );
            let when = if self.since.is_some() { "in that time" } else { "yet" };
            io.note(&format!("{who} {when}: {} is {}\n", job.name, job.secondary));
        }
        exit::DONE
    }
}

/// Returns true if a job of this many instances has the host: `algo-1` and so on, across instance groups.
fn is_host(host: &str, instances: u64) -> bool {
    let number = host.strip_prefix("algo-").and_then(|number| number.parse::<u64>().ok());
    number.is_some_and(|number| (1..=instances.max(1)).contains(&number) && host == format!("algo-{number}"))
}

/// Reads new lines; returns true if the job has ended.
async fn read_new_lines<C: Cloud, K: Clock>(
    look: &Look<'_, C, K>,
    name: &str,
    follow: bool,
    tail: &mut Tail,
    sink: &mut dyn FnMut(&str, &LogEvent),
) -> Answer<bool> {
    // The status is read first, so that no line before the end is missed.
    let job = look.ask(async |cloud| cloud.training_job(name).await).await?;
    let over = job.is_over();
    if over && follow {
        tail.read_remaining(look, &job, sink).await?;
    } else {
        tail.read_available(look, name, sink).await?;
    }
    Ok(over)
}

impl Logs {
    /// Reports a failure, and the command that continues after the last line shown.
    fn fail(&self, io: &mut Io, fault: &Fault, last: Option<i64>) -> u8 {
        let mut verdict = verdict::read_failed(&self.about.plan, fault);
        if let Some(last) = last {
            let since = log_start::format_timestamp(last);
            let host = self.host.as_ref().map(|host| format!("--host {host}"));
            let follow = self.follow.then(|| "--follow".to_owned());
            let flags = host.into_iter().chain(follow).chain([format!("--since {since}")]);
            let command = self.about.invocation.command_line(&NextCommand::new("logs").flags(flags));
            // A permanent fault keeps its own help.
            verdict.diagnostic = if fault.is_transient() {
                verdict.diagnostic.help(format!("{command} continues from the last line shown"))
            } else {
                verdict.diagnostic.note(format!("then {command} continues from the last line shown"))
            };
        }
        self.about.fail(io, verdict)
    }
}
