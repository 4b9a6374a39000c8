//! `trainc stop`.

use super::account::Task;
use super::args::Global;
use super::ask::ask;
use super::exit;
use super::io::Io;
use super::job::{About, JobArgs, each, find};
use super::progress::{Mode, Progress};
use crate::apply::cloud::{Clock, Cloud};
use crate::apply::destroy::Remover;
use crate::apply::ledger::{Item, Ledger, Telling};
use crate::apply::observed::Look;
use crate::apply::verdict;
use std::io::IsTerminal as _;

/// Stop the job: SIGTERM, two minutes, and what it has written is uploaded
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  trainc stop job.kdl\n  trainc stop job.kdl --yes")]
pub(super) struct Args {
    #[command(flatten)]
    job: JobArgs,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

/// Runs the command.
pub(super) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    each(io, global, &args.job, "stop", |about| Stop {
        yes: args.yes || args.job.account.simulate.is_some(),
        about,
    })
}

struct Stop {
    yes: bool,
    about: About,
}

impl Task for Stop {
    async fn run<C: Cloud, K: Clock>(self, io: &mut Io<'_>, look: Look<'_, C, K>) -> u8 {
        let found = match find(&look, &self.about.plan).await {
            Ok(found) => found,
            Err(verdict) => return self.about.fail(io, verdict),
        };
        let ours = found.job.filter(|(_, tags)| tags.get("trainc:job") == Some(&found.desired.job));
        let Some((job, _)) = ours.filter(|(job, _)| !job.is_over()) else {
            io.print("nothing to stop: no job of this manifest is running\n");
            return exit::DONE;
        };
        if !self.yes && !std::io::stdin().is_terminal() {
            io.note("nobody is here to ask: say `--yes`\n");
            return exit::INCOMPLETE;
        }
        if !self.yes && !ask(io, &format!("Stop {}, which is {}?", job.name, job.secondary)) {
            return exit::INCOMPLETE;
        }
        let progress = Progress::new(Mode::of("human", self.about.global.quiet));
        let ledger = Ledger::default();
        let remover = Remover { look, telling: Telling { ledger: &ledger, listener: &progress } };
        let item = Item::new("training-job", &job.name);
        let stopped = remover.stop(&item, &job.name).await;
        progress.clear();
        match stopped {
            Ok(()) => {
                io.print(&format!("stopped: {}\n", job.name));
                exit::DONE
            }
            Err(cause) => {
                let verdict = verdict::verdict(&self.about.plan, &item, &cause);
                self.about.fail(io, verdict)
            }
        }
    }
}
