//! `trainc stop`.

use crate::args::Global;
use crate::exit;
use crate::jobs::job_context::{Form, JobArgs, JobContext, run_for_each_job};
use crate::terminal::confirmation::ask;
use crate::terminal::io::Io;
use crate::terminal::progress::{LOOKING, Mode, Progress};
use serde_json::json;
use std::io::IsTerminal as _;
use trainc_apply::account::TrainingJob;
use trainc_apply::cloud::{Clock, Cloud};
use trainc_apply::destroy::Remover;
use trainc_apply::ledger::{Item, Ledger, Recorder};
use trainc_apply::look::Look;
use trainc_apply::verdict;
use trainc_diag::NextCommand;
use trainc_emit::ResourceKind;
use trainc_ops::accounts::Task;
use trainc_ops::existing_job::{Found, find, running, verdict_if_foreign_job};

/// Stop the training job: SIGTERM, two minutes to save, then upload of its output
#[derive(clap::Args, Debug)]
#[command(
    // No effect here.
    mut_arg("prices", |arg| arg.hide(true)),
    mut_arg("discount", |arg| arg.hide(true)),
    mut_arg("calibration", |arg| arg.hide(true)),
    mut_arg("runs", |arg| arg.hide(true)),
    after_help = "Examples:\n  trainc stop job.kdl\n  trainc stop job.kdl --yes\n  trainc stop job.kdl --run \
        job-7cdda7f2"
)]
pub(crate) struct Args {
    #[command(flatten)]
    job: JobArgs,
    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,
    /// Training job to stop, if several runs are in progress
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// Output format: human, or json (one object per line)
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = ["human", "json"])]
    output: String,
}

/// Runs the command.
pub(crate) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let form = Form::start_output(&args.output);
    run_for_each_job(io, global, &args.job, "stop", &form, |about| Stop {
        yes: args.yes || args.job.account.simulate.is_some(),
        output: args.output.clone(),
        run: args.run.clone(),
        about,
    })
}

struct Stop {
    yes: bool,
    output: String,
    run: Option<String>,
    about: JobContext,
}

impl<'io> Task<Io<'io>> for Stop {
    type Outcome = u8;
    const LEAVES_RESOURCES: bool = true;

    async fn run<C: Cloud, K: Clock>(self, io: &mut Io<'io>, look: Look<'_, C, K>) -> u8 {
        let mut stopped = None;
        let code = self.stop(io, look, &mut stopped).await;
        self.about.print_object(io, json!({"type": "result", "training_job": stopped, "exit": code}));
        code
    }
}

impl Stop {
    /// Stops the run; sets its name once it is known.
    async fn stop<C: Cloud, K: Clock>(
        &self,
        io: &mut Io<'_>,
        look: Look<'_, C, K>,
        meant: &mut Option<String>,
    ) -> u8 {
        let progress = Progress::new(Mode::from_flags(&self.output, self.about.global.quiet));
        let progress = progress.for_job(self.about.name(), false);
        let found = match progress.run_with_spinner(LOOKING, find(&look, &self.about.plan)).await {
            Ok(found) => found,
            Err(verdict) => return self.about.fail(io, verdict),
        };
        let mut all = match progress
            .run_with_spinner(LOOKING, running(&look, &self.about.plan, &found.desired))
            .await
        {
            Ok(all) => all,
            Err(verdict) => return self.about.fail(io, verdict),
        };
        if let Some(name) = &self.run {
            all.retain(|job| job.name == *name);
        }
        let job = match all.as_slice() {
            [job] => job,
            [] => return self.report_no_run(io, found),
            several => return self.report_several_runs(io, several),
        };
        *meant = Some(job.name.clone());
        if !self.yes && !std::io::stdin().is_terminal() {
            io.note("stdin is not a terminal: pass `--yes`\n");
            return exit::INCOMPLETE;
        }
        if !self.yes && !ask(io, &format!("Stop {}, which is {}?", job.name, job.secondary)) {
            return exit::INCOMPLETE;
        }
        let ledger = Ledger::default();
        let remover = Remover { look, recorder: Recorder { ledger: &ledger, listener: &progress } };
        let item = Item::new(ResourceKind::TrainingJob, &job.name);
        let stopped = remover.stop(&item, &job.name).await;
        progress.clear();
        match stopped {
            Ok(()) => {
                if !self.about.form.is_json() {
                    io.print(&format!("stopped: {}\n", job.name));
                }
                exit::DONE
            }
            Err(cause) => {
                let verdict = verdict::verdict(&self.about.plan, &item, &cause);
                self.about.fail(io, verdict)
            }
        }
    }

    /// Reports that no run of the job is in progress, or that the run with its name belongs to someone else.
    fn report_no_run(&self, io: &mut Io<'_>, found: Found) -> u8 {
        if let Some(name) = &self.run {
            io.note(&format!("error: no run `{name}` of this job is in progress\n"));
            return exit::USAGE;
        }
        let going = found.job.filter(|(job, _)| !job.is_over());
        let theirs = going
            .and_then(|(job, tags)| verdict_if_foreign_job(&self.about.plan, &found.desired, &job, &tags));
        let Some(verdict) = theirs else {
            if !self.about.form.is_json() {
                io.print("nothing to stop: no job of this manifest is running\n");
            }
            return exit::DONE;
        };
        self.about.fail(io, verdict)
    }

    /// Reports that several runs are in progress, with the command to stop each.
    fn report_several_runs(&self, io: &mut Io<'_>, several: &[TrainingJob]) -> u8 {
        let names: Vec<&str> = several.iter().map(|job| job.name.as_str()).collect();
        self.about.print_object(io, json!({"type": "running", "training_jobs": names}));
        io.note(&format!(
            "error: {} runs of this job are in progress: choose one with `--run`\n",
            several.len()
        ));
        for job in several {
            let stop = NextCommand::new("stop").flag(format!("--run {}", job.name));
            io.note(&format!("  {}\n", self.about.invocation.command_line(&stop)));
        }
        exit::USAGE
    }
}
