//! `trainc destroy`.

use crate::args::Global;
use crate::exit;
use crate::jobs::job_context::{Form, JobArgs, JobContext, format_billed, job_contexts, worst_exit_code};
use crate::terminal::confirmation::ask;
use crate::terminal::io::Io;
use crate::terminal::progress::{LOOKING, Mode, Progress};
use crate::views::account::exit_code;
use crate::views::comparison::format_action;
use serde_json::json;
use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use trainc_apply::account::Role;
use trainc_apply::cloud::{Clock, Cloud};
use trainc_apply::destroy::{Consent, Inventory, Removal, Removals, Remover};
use trainc_apply::ledger::{Ledger, Recorder};
use trainc_apply::look::Look;
use trainc_apply::orphaned_jobs::plan_with_job_name;
use trainc_apply::ownership::is_ours;
use trainc_apply::preflight;
use trainc_apply::verdict::{self, Verdict};
use trainc_diag::text;
use trainc_diag::{NextCommand, Problems};
use trainc_emit as emit;
use trainc_ir::price::describe_origin_and_age;
use trainc_ops::accounts::Task;
use trainc_ops::existing_job::{Found, find};
use trainc_ops::removal::find_job_resources_below;
use trainc_report::json::AfterEnd;

/// Delete what trainc created for the job: role, file systems and uploads
///
/// Stops the job first. Shows what is deleted and what remains, and asks for confirmation. Only resources
/// with the job's tags are deleted. A file system that other jobs use remains; with its last job it is
/// deleted by `--delete-data`, or if the manifest sets `delete-after-job`. Output, checkpoints and the record
/// of the training job remain.
#[derive(clap::Args, Debug)]
#[command(
    // No effect here.
    mut_arg("runs", |arg| arg.hide(true)),
    after_help = "Examples:\n  trainc destroy job.kdl\n  trainc destroy job.kdl --delete-data --yes")]
pub(crate) struct Args {
    #[command(flatten)]
    job: JobArgs,
    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,
    /// Also delete file systems, with all their data
    #[arg(long)]
    delete_data: bool,
    /// Only this job; may be one that was removed from the manifest's sweep
    #[arg(long = "job", value_name = "NAME")]
    only: Option<String>,
    /// Output format: human, or json (one object per line)
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = ["human", "json"])]
    output: String,
}

/// Runs the command.
pub(crate) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let form = Form::start_output(&args.output);
    let (mut accounts, mut job_contexts, mut codes) =
        match job_contexts(io, global, &args.job, "destroy", &form) {
            Ok(found) => found,
            Err(code) => return code,
        };
    if let Some(name) = &args.only {
        match select_job(job_contexts, name) {
            Ok(about) => job_contexts = vec![about],
            Err(words) => {
                io.note(&words);
                return exit::USAGE;
            }
        }
    }
    let mut families = BTreeSet::new();
    let mut swept = Vec::new();
    for about in job_contexts {
        let plan = about.plan.clone();
        let family = (plan.job.swept_from.clone(), plan.job.region.value().cloned());
        if args.only.is_none() && family.0.is_some() && families.insert(family) {
            swept.push(about.clone());
        }
        let task = Destroy {
            yes: args.yes || args.job.account.simulate.is_some(),
            consent: Consent { delete_data: args.delete_data },
            output: args.output.clone(),
            only: args.only.is_some(),
            about,
        };
        let ended = accounts.run(io, &plan, task);
        codes.push(exit_code(io, ended));
    }
    for about in swept {
        let plan = about.plan.clone();
        let ended = accounts.run(io, &plan, Strays { about });
        codes.push(exit_code(io, ended));
    }
    worst_exit_code(codes)
}

/// Returns the job of `--job`: one of the manifest, or one removed from its sweep.
fn select_job(job_contexts: Vec<JobContext>, name: &str) -> Result<JobContext, String> {
    let mut paths = job_contexts.iter().map(|about| &about.manifest.path);
    let first = paths.next();
    if first.is_none() || paths.any(|path| Some(path) != first) {
        return Err("error: `--job` requires a single manifest: name the file\n".to_owned());
    }
    let own = job_contexts.iter().position(|about| about.name() == name);
    let mut about = job_contexts.into_iter().nth(own.unwrap_or(0)).ok_or("error: no manifest\n")?;
    if own.is_some() {
        return Ok(about);
    }
    let family = about.plan.job.swept_from.clone().map(|family| format!("{family}-"));
    if !family.as_ref().is_some_and(|family| name.starts_with(family)) {
        let which = family.map_or_else(
            || format!("it only describes `{}`", about.name()),
            |family| format!("the jobs of its sweep are named `{family}…`"),
        );
        return Err(format!(
            "error: `{name}` is not a job of `{}`: {which}\n",
            about.manifest.shown_argument()
        ));
    }
    about.plan = plan_with_job_name(&about.plan, name);
    Ok(about)
}

/// Reports resources of jobs that were removed from a sweep.
struct Strays {
    about: JobContext,
}

impl<'io> Task<Io<'io>> for Strays {
    type Outcome = u8;
    const LEAVES_RESOURCES: bool = true;

    async fn run<C: Cloud, K: Clock>(self, io: &mut Io<'io>, look: Look<'_, C, K>) -> u8 {
        let JobContext { plan, set, .. } = &self.about;
        let mut problems = Problems::default();
        let jobs = set.jobs();
        let strays = self.about.progress().run_with_spinner(LOOKING, look.orphaned_jobs(plan, &jobs)).await;
        preflight::orphaned_sweep_jobs(plan, &strays, io.today_in_days(), &mut problems);
        for one in problems.iter() {
            let verdict = Verdict { diagnostic: one.clone(), exit: exit::DONE, flag: None };
            self.about.fail(io, verdict);
        }
        exit::DONE
    }
}

struct Destroy {
    yes: bool,
    consent: Consent,
    output: String,
    /// True for `--job`.
    only: bool,
    about: JobContext,
}

impl<'io> Task<Io<'io>> for Destroy {
    type Outcome = u8;
    const LEAVES_RESOURCES: bool = true;

    async fn run<C: Cloud, K: Clock>(self, io: &mut Io<'io>, look: Look<'_, C, K>) -> u8 {
        let (code, remains) = self.remove(io, look).await;
        self.about.print_object(io, json!({"type": "result", "exit": code, "after_end": remains}));
        code
    }
}

impl Destroy {
    /// Returns the resources of the job; with `--job` without uploads that the whole sweep shares.
    async fn find_resources<C: Cloud, K: Clock>(&self, look: &Look<'_, C, K>) -> Result<Inventory, Verdict> {
        let plan = &self.about.plan;
        let mut homes = vec![emit::archive_base_prefix(plan), emit::worker_home(plan)];
        if self.only {
            let other = plan_with_job_name(plan, "another-job");
            let shared = [emit::archive_base_prefix(&other), emit::worker_home(&other)];
            homes.retain(|home| !shared.contains(home));
        }
        find_job_resources_below(plan, look, &homes).await
    }

    /// Formats the file systems that remain only because of their data, and the command that also deletes it.
    fn describe_kept_data(&self, removals: &Removals, today: Option<i64>) -> String {
        let kept: Vec<&Removal> = removals.kept_data().collect();
        let names: Vec<&str> = kept.iter().map(|one| one.item.name.as_str()).collect();
        if names.is_empty() {
            return String::new();
        }
        let monthly: Option<f64> = kept.iter().map(|one| one.usd_per_month).sum();
        let oldest = kept.iter().filter_map(|one| one.price_date.as_deref()).min();
        let cost = monthly.map_or_else(String::new, |usd| describe_monthly_cost(usd, oldest, today));
        let cost = if cost.is_empty() { cost } else { format!(", at {cost}") };
        let stay = if names.len() == 1 { "remains with its data" } else { "remain with their data" };
        let names = text::backtick_list(&names, "and");
        let job = self.only.then(|| format!("--job {}", self.about.name()));
        let destroy = NextCommand::new("destroy").flags(job).flag("--delete-data");
        format!("{names} {stay}{cost}\n  next  {}\n", self.about.invocation.command_line(&destroy))
    }

    /// Returns what is still billed after all removals.
    fn billed_after_removal(&self, removals: &Removals) -> Vec<AfterEnd> {
        let keeps_data = removals.keeps_file_system();
        let mut billed = self.about.billed_after_end(false);
        billed.retain(|one| one.outlasts_destroy() || keeps_data && one.is_file_system());
        billed
    }

    /// Prints what is still billed; the file systems are described with the command that deletes them.
    fn print_remains(&self, io: &mut Io, removals: &Removals, billed: Option<&Vec<AfterEnd>>) {
        if self.about.form.is_json() {
            return;
        }
        let outlasting: Vec<AfterEnd> =
            billed.into_iter().flatten().filter(|one| one.outlasts_destroy()).cloned().collect();
        io.print_colored(&format_billed("remains", &outlasting, io));
        io.print(&self.describe_kept_data(removals, io.today_in_days()));
    }

    /// Deletes the resources. Returns the exit code, and what is still billed; `None` if that is not known.
    async fn remove<C: Cloud, K: Clock>(
        &self,
        io: &mut Io<'_>,
        look: Look<'_, C, K>,
    ) -> (u8, Option<Vec<AfterEnd>>) {
        let progress = Progress::new(Mode::from_flags(&self.output, self.about.global.quiet));
        let progress = progress.for_job(self.about.name(), false);
        let remains = match progress.run_with_spinner(LOOKING, self.find_resources(&look)).await {
            Ok(remains) => remains,
            Err(verdict) => return (self.about.fail(io, verdict), None),
        };
        let removals = remains.removals(self.consent);
        for one in &removals.0 {
            if self.output == "json" {
                let object = json!({
                    "type": "removal", "kind": one.item.kind, "name": one.item.name, "action": one.verb(),
                    "because": one.because, "usd_per_month": one.usd_per_month, "price_date": one.price_date,
                });
                self.about.print_object(io, object);
            } else {
                let name = text::shorten_name(&one.item.name);
                let cost = one.usd_per_month.map_or_else(String::new, |usd| {
                    let cost = describe_monthly_cost(usd, one.price_date.as_deref(), io.today_in_days());
                    format!("; it costs {cost}")
                });
                let what = format!("{} {name}: {}{cost}", one.item.kind, one.because);
                io.print_colored(&format_action(one.verb(), 6, &what, io.color));
            }
        }
        if let Some(found) = &remains.foreign_role {
            io.note(&foreign_role(&found.role, &remains.job));
        }
        // Known before anything is deleted.
        let theirs = removals.leaves_foreign();
        if removals.deletes_links() {
            io.note(
                "warning: files that a link has not yet exported to S3 are deleted with the file \
                system; make sure that the export has completed\n",
            );
        }
        if !removals.has_changes() {
            let ours = removals.has_resources();
            io.note(if ours { "nothing was deleted\n" } else { "nothing to delete\n" });
            let billed = match progress.run_with_spinner(LOOKING, find(&look, &self.about.plan)).await {
                Ok(Found { job: None, .. }) => Some(Vec::new()),
                Ok(Found { job: Some((_, tags)), desired, is_other: false }) => {
                    is_ours(&tags, &desired.job).then(|| self.billed_after_removal(&removals))
                }
                // A run of another version has other files.
                Ok(_) | Err(_) => None,
            };
            self.print_remains(io, &removals, billed.as_ref());
            let code =
                if theirs || removals.has_extended_role() { verdict::exit::FOREIGN } else { exit::DONE };
            return (code, billed);
        }
        if !self.yes {
            if !std::io::stdin().is_terminal() {
                io.note("stdin is not a terminal: pass `--yes`\n");
                return (exit::INCOMPLETE, None);
            }
            if !ask(io, "Delete these resources?") {
                return (exit::INCOMPLETE, None);
            }
        }
        let ledger = Ledger::default();
        let remover = Remover { look, recorder: Recorder { ledger: &ledger, listener: &progress } };
        remover.run(&remains, &removals).await;
        progress.clear();
        let mut codes: Vec<u8> = Vec::new();
        for (item, cause) in ledger.failures() {
            codes.push(self.about.fail(io, verdict::verdict(&self.about.plan, &item, &cause)));
        }
        if theirs {
            codes.push(verdict::exit::FOREIGN);
        }
        let code = verdict::worst_exit(codes).unwrap_or(exit::DONE);
        let billed = (code == exit::DONE).then(|| self.billed_after_removal(&removals));
        if self.about.form.is_json() {
            return (code, billed);
        }
        if code == exit::DONE {
            io.print("deleted\n");
            self.print_remains(io, &removals, billed.as_ref());
        } else if code == verdict::exit::FOREIGN {
            io.print(
                "resources that other jobs use, or that trainc does not own, remain; all others were \
                deleted or reported above\n",
            );
        } else {
            io.print("incomplete, safe to repeat\n");
        }
        (code, billed)
    }
}

/// Formats a monthly cost with the date of its price: `$174 a month (price of 2026-11-21)`.
fn describe_monthly_cost(usd: f64, date: Option<&str>, today: Option<i64>) -> String {
    format!("{} a month ({})", text::dollars(usd), describe_origin_and_age(date, "the catalogue", today))
}

/// Explains what to do about a role with the job's name but not its tags.
fn foreign_role(role: &Role, job: &str) -> String {
    let name = &role.name;
    match role.tags.get("trainc:job") {
        Some(other) => format!(
            "the role {name} remains: it belongs to job `{other}`; run destroy with the manifest \
                of that job\n"
        ),
        None => format!(
            "the role {name} remains because it has no tag `trainc:job`; if it belongs to this \
                job, tag it and run destroy again:\n  aws iam tag-role --role-name {name} --tags \
                Key=trainc:job,Value={job}\n"
        ),
    }
}
