//! `trainc logs`.

use super::account::Task;
use super::args::Global;
use super::exit;
use super::io::Io;
use super::job::{About, Form, JobArgs, clock, each, existing};
use crate::apply::account::LogEvent;
use crate::apply::cloud::{Clock, Cloud};
use crate::apply::logs::Tail;
use crate::apply::observed::Look;
use crate::apply::verdict;
use serde_json::json;
use std::time::Duration;

/// Show the job's logs: all hosts in the order of time, or one
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trainc logs job.kdl\n  trainc logs job.kdl --host algo-1 --follow\n  trainc logs job.kdl --follow --since 10m"
)]
pub(super) struct Args {
    #[command(flatten)]
    job: JobArgs,
    /// One host, as algo-1
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Only what was written within that time, as 10m: where a follow was cut off, it need not begin again at the first
    /// line
    #[arg(long, value_name = "TIME", value_parser = super::args::duration)]
    since: Option<Duration>,
    /// Go on until the job ends
    #[arg(short, long)]
    follow: bool,
    /// How to write: human, or json for one object on each line
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = ["human", "json"])]
    output: String,
}

/// Runs the command.
pub(super) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let form = Form::of(&args.output);
    each(io, global, &args.job, "logs", &form, |about| Logs {
        host: args.host.clone(),
        follow: args.follow,
        since: args.since,
        about,
    })
}

struct Logs {
    host: Option<String>,
    follow: bool,
    since: Option<Duration>,
    about: About,
}

impl Task for Logs {
    async fn run<C: Cloud, K: Clock>(self, io: &mut Io<'_>, look: Look<'_, C, K>) -> u8 {
        let found = match existing(io, &look, &self.about).await {
            Ok(found) => found,
            Err(code) => return code,
        };
        let job = found.job;
        if let Some(host) = self.host.as_deref().filter(|host| !is_host(host, job.instances())) {
            let last = job.instances();
            let has = if last == 1 { "algo-1 alone".to_owned() } else { format!("algo-1 to algo-{last}") };
            io.note(&format!("error: {} has no host `{host}`: it has {has}\n", job.name));
            return exit::USAGE;
        }
        let several = self.host.is_none() && job.instances() > 1;
        let since = self.since.map(|time| look.clock.now() - time.as_secs_f64());
        let mut tail = Tail::new(self.host.as_deref()).since(since);
        let mut lines = 0;
        loop {
            // The state is asked for first: what a job wrote before its end is there after it.
            let over = match look.ask(async |cloud| cloud.training_job(&job.name).await).await {
                Ok(job) => job.is_over(),
                Err(fault) => return self.fail(io, &fault),
            };
            let (is_json, name) = (self.about.form.is_json(), self.about.name());
            let mut sink = |host: &str, event: &LogEvent| {
                if is_json {
                    io.print(&format!(
                        "{}\n",
                        json!({
                            "type": "log", "job": name, "host": host, "time": event.time, "text": event.text,
                        })
                    ));
                } else {
                    let host = if several { format!("{host:<8} ") } else { String::new() };
                    io.print(&format!("{host}{} {}\n", clock(event.time), crate::diag::safe(&event.text)));
                }
            };
            let read = tail.round(&look, &job.name, &mut sink);
            match read.await {
                Ok(more) => lines += more,
                Err(fault) => return self.fail(io, &fault),
            }
            if over || !self.follow || io.unread {
                break;
            }
            look.clock.sleep(look.patience.poll).await;
        }
        if lines == 0 {
            let who = self.host.as_ref().map_or_else(
                || "no host has written anything".to_owned(),
                |host| format!("{host} has written nothing"),
            );
            let when = if self.since.is_some() { "in that time" } else { "yet" };
            io.note(&format!("{who} {when}: {} is {}\n", job.name, job.secondary));
        }
        exit::DONE
    }
}

/// Whether a job of so many instances has a host of that name: `algo-1` and so on, whatever their groups.
fn is_host(host: &str, instances: u64) -> bool {
    let number = host.strip_prefix("algo-").and_then(|number| number.parse::<u64>().ok());
    number.is_some_and(|number| (1..=instances.max(1)).contains(&number) && host == format!("algo-{number}"))
}

impl Logs {
    fn fail(&self, io: &mut Io, fault: &crate::apply::fault::Fault) -> u8 {
        self.about.fail(io, verdict::look_failed(&self.about.plan, fault))
    }
}
