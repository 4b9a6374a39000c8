//! `trainc apply`: compares each job with the account, asks for confirmation and applies it; several jobs
//! concurrently.

mod billed_storage;
mod job_apply;

use crate::args::account::AccountArgs;
use crate::args::{Global, Input, note_skipped, problems};
use crate::commands::plan;
use crate::exit;
use crate::jobs::job_context::{Form, errors};
use crate::terminal::confirmation::ask;
use crate::terminal::io::Io;
use crate::terminal::progress::{LOOKING, Mode, Progress, print_json_line, print_version_line};
use crate::terminal::transcript::Transcript;
use crate::views::account::exit_code;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use job_apply::JobApply;
use serde_json::json;
use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;
use trainc_apply::cloud::{Clock, Cloud};
use trainc_apply::diff::{Action, Target};
use trainc_apply::fault::Fault;
use trainc_apply::ledger::Item;
use trainc_apply::look::Look;
use trainc_apply::prospect::Prospect;
use trainc_apply::run::ResourceLocks;
use trainc_apply::saved_plan::SavedPlan;
use trainc_apply::verdict;
use trainc_diag::{Detail, Format, Severity};
use trainc_emit::ResourceKind;
use trainc_ir::Plan;
use trainc_ops::accounts::Tasks;
use trainc_ops::comparison::compare_with_account;
use trainc_project::files::{MOST_SAVED_PLAN_BYTES, read_named_text};
use trainc_project::manifests::{Manifest, Set, compile_all};

/// Create or update the job's resources and start the training job
///
/// Shows the changes and asks for confirmation. Safe to repeat after any failure: names and client tokens are
/// derived from the plan, so existing resources are found again and nothing is created twice. Accepts
/// manifests, or a plan saved with `plan --save`.
#[derive(clap::Args, Debug)]
#[command(
    // No effect here, accepted because a saved command line may have it.
    mut_arg("exit_zero", |arg| arg.hide(true)),
    after_help = "Examples:\n  trainc apply --simulate job.kdl\n  trainc apply job.kdl\n  trainc apply \
        saved.plan\n  trainc apply jobs/ --yes -o json"
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    account: AccountArgs,
    /// Skip the confirmation prompt
    #[arg(short, long)]
    yes: bool,
    /// Start another run even if a run of this digest has ended or another version of the job exists
    #[arg(long)]
    new_run: bool,
    /// Adopt resources that have the expected names but no tags of this job
    #[arg(long)]
    adopt: bool,
    /// Retry for this long while AWS has no capacity or a quota is exhausted, e.g. 2h
    #[arg(long, value_name = "TIME", value_parser = crate::args::duration)]
    wait_for_capacity: Option<Duration>,
    /// Wait until the job ends; the exit code reports its outcome
    #[arg(long)]
    wait: bool,
    /// Output format: human, or json (one object per line)
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = ["human", "json"])]
    output: String,
}

/// Runs the command.
pub(crate) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let paths = match args.input.named.paths("apply") {
        Ok(paths) => paths,
        Err(words) => {
            io.note(&words);
            return exit::USAGE;
        }
    };
    let saved = match saved_plan(&paths) {
        Ok(saved) => saved,
        Err(words) => {
            io.note(&words);
            return exit::USAGE;
        }
    };
    let mut input = args.input.clone();
    let mut paths = paths;
    if let Some(saved) = &saved {
        if let Err(words) = args.check_saved_plan_flags().and_then(|()| input.overlay.restore(&saved.given)) {
            io.note(&words);
            return exit::USAGE;
        }
        if !std::path::Path::new(&saved.manifest).exists() {
            io.note(&format!(
                "error: `{}`, which the saved plan names, does not exist here: run apply in the \
                    directory where the plan was saved\n",
                saved.manifest
            ));
            return exit::USAGE;
        }
        paths = vec![saved.manifest.clone()];
    }
    if let Err(why) = input.overlay.read_runs(io, &paths) {
        io.note(&why);
        return exit::USAGE;
    }
    let mut options = input.overlay.options(io, true);
    options.asks_account = args.account.is_real();
    options.fetch = options.asks_account;
    let set = compile_all(&paths, &options);
    note_skipped(io, global, &set);
    let mut accounts = match args.account.open(io, args.wait_for_capacity) {
        Ok(accounts) => accounts.with_constants(input.overlay.constants()),
        Err(words) => {
            io.note(&words);
            return exit::USAGE;
        }
    };
    if args.output == "json" {
        print_version_line();
        print_errors_as_json(io, &set);
    }
    show_problems(io, &set, global);
    let desk = Transcript::new(set.manifests.len());
    let idle = RefCell::new(BTreeSet::new());
    let (mut jobs, mut plans) = (Vec::new(), Vec::new());
    let simulated = accounts.is_simulated();
    let several = set.manifests.len() > 1;
    for (at, manifest) in set.manifests.iter().enumerate() {
        let denied = args.input.deny_warnings && manifest.compiled.problems.warnings() > 0;
        let twin = find_same_job(&set, at);
        if let Some(twin) = twin.filter(|_| manifest.compiled.plan_without_errors().is_some()) {
            // The problem is reported at the later of the two; either may be the mistake.
            io.note(&format!(
                "`{}` is not applied: `{twin}` describes a job of the same name\n",
                manifest.path
            ));
        }
        match manifest.compiled.plan_without_errors().filter(|_| !denied && twin.is_none()) {
            Some(plan) => {
                plans.push(plan);
                let saved = saved.as_ref();
                let input = &input;
                jobs.push(JobApply {
                    at,
                    args,
                    input,
                    global,
                    set: &set,
                    manifest,
                    plan,
                    saved,
                    simulated,
                    several,
                });
            }
            None => desk.set_exit_code(at, exit::MANIFEST),
        }
    }
    args.input.explain_denied_warnings(io, &set, global.quiet);
    let mut whole = exit::DONE;
    if !jobs.is_empty() {
        let applies = Applies { args, global, jobs: &jobs, desk: &desk, idle: &idle };
        let ended = accounts.run_all(io, &plans, applies);
        let code = exit_code(io, ended);
        // Jobs that were interrupted or never confirmed get the exit code of the whole.
        desk.print_all(io, if code == exit::DONE { exit::INCOMPLETE } else { code });
        whole = code;
    }
    let codes = desk.codes();
    if several && args.output != "json" {
        summary(io, &set, &codes, &idle.borrow());
    }
    let all = codes.iter().copied().chain([whole]);
    let code = verdict::worst_exit(all.filter(|code| *code != exit::DONE)).unwrap_or(exit::DONE);
    if args.output == "json" {
        let jobs: Vec<_> = set
            .manifests
            .iter()
            .zip(&codes)
            .map(|(one, code)| json!({"job": one.compiled.job, "manifest": one.path, "exit": code}))
            .collect();
        print_json_line(&json!({"type": "result", "exit": code, "jobs": jobs}));
    }
    code
}

/// Returns another manifest that describes a job of the same name.
fn find_same_job(set: &Set, at: usize) -> Option<&str> {
    let job = set.manifests.get(at)?.compiled.job.as_ref()?;
    let mut others = set.manifests.iter().enumerate().filter(|(other, _)| *other != at);
    let twin = others.find(|(_, other)| other.compiled.job.as_ref() == Some(job));
    twin.map(|(_, manifest)| manifest.path.as_str())
}

/// Prints the errors of invalid manifests as JSON lines.
fn print_errors_as_json(io: &mut Io, set: &Set) {
    for manifest in set.manifests.iter().filter(|manifest| manifest.compiled.plan_without_errors().is_none())
    {
        for object in errors(set, manifest) {
            Form::Lines.print_object(io, manifest.compiled.job.as_deref(), object);
        }
    }
}

/// Shows the problems of the compiler; notes only with `--verbose`.
fn show_problems(io: &mut Io, set: &Set, global: &Global) {
    let mut set = set.clone();
    if !global.verbose {
        for manifest in &mut set.manifests {
            manifest.compiled.problems.retain(|one| one.severity > Severity::Note);
        }
    }
    if set.manifests.iter().any(|manifest| !manifest.compiled.problems.is_empty()) {
        let text = problems(&set, Format::Human, io, io.color, global);
        io.note_colored(&format!("{text}\n"));
    }
}

/// Returns the saved plan if the only path is one; fails with a usage error if it cannot be applied.
fn saved_plan(paths: &[String]) -> Result<Option<SavedPlan>, String> {
    let read = |path: &String| {
        let text = read_named_text(Path::new(path), MOST_SAVED_PLAN_BYTES).ok()?;
        Some((path.clone(), SavedPlan::read(&text)?))
    };
    match (paths, paths.iter().filter(|path| *path != "-").find_map(read)) {
        (_, None) => Ok(None),
        ([_], Some((_, Ok(plan)))) => Ok(Some(plan)),
        ([_], Some((path, Err(why)))) => Err(format!(
            "error: `{path}` is a saved plan that cannot be read: {why}\nhelp: save it again: \
                trainc plan --save {}\n",
            trainc_emit::quote(&path)
        )),
        (_, Some((path, _))) => Err(format!(
            "error: `{path}` is a saved plan; only one can be applied at a time, and no manifests with it\n"
        )),
    }
}

impl Args {
    /// Refuses flags that a saved plan already fixes; flags for waiting are allowed.
    fn check_saved_plan_flags(&self) -> Result<(), String> {
        let given = self.input.overlay.to_overrides();
        let said = [
            ("--set", !given.sets.is_empty()),
            ("--env", given.env.is_some()),
            ("--account", given.for_account.is_some()),
            ("--price", !given.prices.is_empty()),
            ("--discount", given.discount.is_some()),
            ("--worker", given.worker.is_some()),
            ("--calibration", given.calibration.is_some()),
            ("--runs", given.runs.is_some()),
            ("--new-run", self.new_run),
            ("--adopt", self.adopt),
        ];
        match said.into_iter().find(|(_, said)| *said) {
            None => Ok(()),
            Some((flag, _)) => Err(format!(
                "error: `{flag}` cannot be combined with a saved plan\nhelp: pass it to the \
                    plan: trainc plan {flag} … --save FILE\n"
            )),
        }
    }
}

/// Prints the outcome of each of several jobs.
fn summary(io: &mut Io, set: &Set, codes: &[u8], idle: &BTreeSet<usize>) {
    io.print("\n");
    for (at, (manifest, code)) in set.manifests.iter().zip(codes).enumerate() {
        let sound = manifest.compiled.plan_without_errors().is_some();
        let name = manifest.compiled.job.as_deref().unwrap_or(&manifest.path);
        let words = match *code {
            exit::DONE if idle.contains(&at) => "nothing to do".to_owned(),
            exit::DONE => "applied".to_owned(),
            exit::MANIFEST if sound => "not applied: see the errors above".to_owned(),
            exit::MANIFEST => "not applied: errors in the manifest".to_owned(),
            exit::DIFFERENT => "not applied: another version of the job exists".to_owned(),
            exit::INCOMPLETE => "incomplete, safe to repeat".to_owned(),
            exit::JOB => "the training job failed or was stopped".to_owned(),
            verdict::exit::DENIED => "access denied, or no valid credentials".to_owned(),
            verdict::exit::FOREIGN => {
                "not applied: blocked by a resource that trainc does not own".to_owned()
            }
            other => format!("exit code {other}"),
        };
        io.print(&format!("  {name}: {words}\n"));
    }
}

/// The jobs of one command with valid manifests.
struct Applies<'a> {
    args: &'a Args,
    global: &'a Global,
    jobs: &'a [JobApply<'a>],
    desk: &'a Transcript,
    /// Indices of the jobs without changes.
    idle: &'a RefCell<BTreeSet<usize>>,
}

impl<'io> Tasks<Io<'io>> for Applies<'_> {
    type Outcome = u8;
    const LEAVES_RESOURCES: bool = true;

    /// Compares all jobs first and shows them in the order of their manifests; then applies them
    /// concurrently, each independently of the failure of others.
    async fn run<C: Cloud, K: Clock>(self, io: &mut Io<'io>, looks: &[Look<'_, C, K>]) -> u8 {
        let all = self.jobs.iter().zip(looks);
        let progress = Progress::new(Mode::from_flags(&self.args.output, self.global.quiet));
        let plans: Vec<_> = self.jobs.iter().map(|job| job.plan).collect();
        let choices = |plan: &Plan| self.jobs.first().map(|job| job.choices_of(plan)).unwrap_or_default();
        let known = self.jobs.first().map(|job| job.set.jobs()).unwrap_or_default();
        let hear = |fault: &Fault| progress.note_retrying(fault);
        let looked = progress
            .run_with_spinner(
                LOOKING,
                compare_with_account(looks, &plans, &known, io.today_in_days(), &hear, choices),
            )
            .await;
        let mut going: Vec<(&JobApply<'_>, &Look<'_, C, K>, Prospect)> = Vec::new();
        let mut made: BTreeMap<Item, &str> = BTreeMap::new();
        let mut said: BTreeSet<String> = BTreeSet::new();
        for ((job, look), mut looked) in all.zip(looked) {
            if let Some(prospect) = &mut looked.prospect {
                mark_created_by_earlier_job(&mut made, prospect, job.name());
            } else if self.args.output != "json" {
                // The same answer to the same call, e.g. expired credentials, is shown once for all jobs.
                looked.findings.retain(|one| {
                    !matches!(one.detail, Some(Detail::Call { .. })) || said.insert(one.message.clone())
                });
            }
            match job.print_comparison(io, looked) {
                Ok(prospect) => going.push((job, look, prospect)),
                Err(code) => self.desk.set_exit_code(job.at, code),
            }
        }
        let idle = going.iter().filter(|(.., prospect)| prospect.is_empty()).map(|(job, ..)| job.at);
        self.idle.borrow_mut().extend(idle);
        let changed = going.iter().filter(|(.., prospect)| !prospect.is_empty()).count();
        let starting: Vec<&JobApply<'_>> = going
            .iter()
            .filter(|(.., prospect)| matches!(prospect.target, Target::Start(_)))
            .map(|(job, ..)| *job)
            .collect();
        if let [first, _, ..] = starting.as_slice()
            && self.args.output != "json"
        {
            let manifests: Vec<&Manifest> = starting.iter().map(|job| job.manifest).collect();
            let total = plan::total(&manifests, first.set, io.report_options(io.width));
            io.print_colored(&format!("{total}\n"));
        }
        if changed > 0 && !self.confirm_apply(io, changed) {
            going.retain(|(job, _, prospect)| {
                let rests = prospect.is_empty();
                if !rests {
                    self.desk.set_exit_code(job.at, exit::INCOMPLETE);
                }
                rests
            });
        }
        let locks = ResourceLocks::default();
        if let [(job, look, prospect)] = going.as_slice() {
            // A single job writes its output directly.
            let code = job
                .apply_changes(io, **look, prospect, &progress.for_job(job.name(), job.several), &locks)
                .await;
            self.desk.set_exit_code(job.at, code);
            return exit::DONE;
        }
        let desk = self.desk;
        let style = io.style();
        let mut making: FuturesUnordered<_> = going
            .iter()
            .map(async |(job, look, prospect)| {
                let (mut out, mut err) = desk.writers(job.at);
                let mut own = style.io(&mut out, &mut err);
                let progress = progress.for_job(job.name(), job.several);
                let code = job.apply_changes(&mut own, **look, prospect, &progress, &locks).await;
                (job.at, code)
            })
            .collect();
        while let Some((at, code)) = making.next().await {
            desk.set_exit_code(at, code);
            progress.suspend_while(|| desk.print_ended(io));
        }
        exit::DONE
    }
}

/// Returns true for resources that several jobs of one command have in common.
fn is_shared(kind: ResourceKind) -> bool {
    match kind {
        ResourceKind::Bucket | ResourceKind::FileSystem | ResourceKind::Association => true,
        ResourceKind::Role
        | ResourceKind::RolePolicy
        | ResourceKind::Source
        | ResourceKind::Worker
        | ResourceKind::TrainingJob => false,
    }
}

/// Notes on resources that several jobs would create that they are created once. File systems of the same
/// name may differ.
fn mark_created_by_earlier_job<'a>(
    made: &mut BTreeMap<Item, &'a str>,
    prospect: &mut Prospect,
    job: &'a str,
) {
    let systems = &prospect.desired.file_systems;
    let identity = |name: &str| {
        let found = systems.iter().find(|system| system.name == name);
        found.map_or(name, |system| &system.create.client_request_token).to_owned()
    };
    for change in prospect.changes.iter_mut().filter(|change| change.action == Action::Create) {
        let key = match (change.kind, change.name.split_once('/')) {
            (ResourceKind::FileSystem, _) => identity(&change.name),
            (ResourceKind::Association, Some((system, link))) => format!("{}/{link}", identity(system)),
            _ => change.name.clone(),
        };
        match made.entry(Item::new(change.kind, &key)) {
            Entry::Vacant(free) if is_shared(change.kind) => {
                free.insert(job);
            }
            Entry::Vacant(_) => {}
            Entry::Occupied(first) => {
                change.because.push_str(&format!("; `{}` needs it too, and it is made once", first.get()));
            }
        }
    }
}

impl Applies<'_> {
    /// Asks for confirmation, unless the account is simulated, `--yes` was given, or the plan was saved.
    fn confirm_apply(&self, io: &mut Io, jobs: usize) -> bool {
        let simulated = self.args.account.simulate.is_some();
        if self.args.yes || simulated || self.jobs.iter().any(|job| job.saved.is_some()) {
            return true;
        }
        if !std::io::stdin().is_terminal() || self.args.output == "json" {
            io.note(
                "stdin is not a terminal: pass `--yes`, or save a plan with `plan --save` and apply that\n",
            );
            return false;
        }
        let question = if jobs == 1 { "Apply this?".to_owned() } else { format!("Apply these {jobs} jobs?") };
        ask(io, &question)
    }
}
