//! What the commands about a job that is there share: which manifest, which training job.

use super::account::{AccountArgs, Accounts, Task};
use super::account_comparison::{only, show};
use super::args::{Global, Named, problems};
use super::exit;
use super::invocation::invocation;
use super::io::Io;
use super::manifests::{Manifest, Set, compile_all};
use super::overlay::Overlay;
use super::partial_plan;
use super::progress::{LOOKING, Mode, Progress, version_line};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use trainc_apply::account::{Tags, TrainingJob};
use trainc_apply::cloud::{Clock, Observe};
use trainc_apply::desired::Desired;
use trainc_apply::diff::{Action, Obstacle, foreign, foreign_run};
use trainc_apply::ledger::Item;
use trainc_apply::look::Look;
use trainc_apply::ownership::is_ours;
use trainc_apply::status::Planned;
use trainc_apply::verdict::{self, Verdict};
use trainc_diag::json::problem;
use trainc_diag::{Diagnostic, Format, Help, Invocation, NextCommand, Severity, help};
use trainc_ir::Plan;

/// Which job: its manifest with the flags of its apply, so that a run is held against what was planned.
#[derive(clap::Args, Debug)]
pub(super) struct JobArgs {
    #[command(flatten)]
    pub named: Named,
    #[command(flatten)]
    pub overlay: Overlay,
    #[command(flatten)]
    pub account: AccountArgs,
}

/// How the outcome of a command is told beside the words for people.
#[derive(Clone)]
pub(super) enum Form {
    /// Not at all.
    Words,
    /// One JSON object on each line, the version first.
    Lines,
    /// Objects that are kept until the end, one for each manifest.
    Kept(Rc<Kept>),
}

/// The objects of a command.
#[derive(Default)]
pub(super) struct Kept {
    objects: RefCell<Vec<Value>>,
    /// Whether several manifests are named, or a directory.
    many: Cell<bool>,
}

impl Kept {
    /// One object, or an array where several manifests are named, as of `plan`.
    pub(super) fn print(&self, io: &mut Io) {
        let objects = self.objects.take();
        let text = match objects.as_slice() {
            [] if !self.many.get() => return,
            [one] if !self.many.get() => serde_json::to_string_pretty(one),
            all => serde_json::to_string_pretty(all),
        };
        io.print(&format!("{}\n", text.unwrap_or_default()));
    }
}

/// The form of an object that is no line of a stream.
const FORMAT_VERSION: &str = "1.0";

impl Form {
    /// JSON lines or words; the first line is the version.
    pub(super) fn of(output: &str) -> Self {
        if output == "json" {
            version_line();
            return Self::Lines;
        }
        Self::Words
    }

    /// Whether scripts read it.
    pub(super) fn is_json(&self) -> bool {
        !matches!(self, Self::Words)
    }

    /// Tells one object of a job; nothing where people read.
    pub(super) fn tell(&self, io: &mut Io, job: Option<&str>, mut object: Value) {
        if let Some(members) = object.as_object_mut() {
            members.insert("job".to_owned(), json!(job));
        }
        match self {
            Self::Words => {}
            Self::Lines => io.print(&format!("{object}\n")),
            Self::Kept(kept) => {
                if let Some(members) = object.as_object_mut() {
                    members.insert("format_version".to_owned(), json!(FORMAT_VERSION));
                }
                kept.objects.borrow_mut().push(object);
            }
        }
    }
}

/// The errors of a manifest that nothing is done for, as objects.
pub(super) fn errors(set: &Set, manifest: &Manifest) -> Vec<Value> {
    let errors = manifest.compiled.problems.iter().filter(|one| one.severity == Severity::Error);
    errors
        .map(|one| json!({"type": "problem", "exit": exit::MANIFEST, "problem": problem(&set.sources, one)}))
        .collect()
}

/// The manifest that a task is about.
#[derive(Clone)]
pub(super) struct JobContext {
    /// The flags of every command.
    pub global: Global,
    /// All manifests of the command, for their texts.
    pub set: Set,
    /// The manifest.
    pub manifest: Manifest,
    /// Its plan.
    pub plan: Plan,
    /// The command line, for the commands to type next.
    pub invocation: Invocation,
    /// The command line with a persisted account, where the account is in memory and begins empty with every command.
    pub persisted: Option<Invocation>,
    /// How it is told.
    pub form: Form,
}

impl JobContext {
    /// The job's name.
    pub(super) fn name(&self) -> &str {
        self.plan.job.name.value().map_or("", String::as_str)
    }

    /// What a run is held against; nothing where it is of another digest than the manifest's, or none of the job's.
    pub(super) fn planned(&self, is_other: bool) -> Planned {
        if is_other { Planned::default() } else { planned(&self.manifest) }
    }

    /// Who shows that something takes its time, where people look.
    pub(super) fn progress(&self) -> Progress {
        let output = if self.form.is_json() { "json" } else { "human" };
        Progress::new(Mode::of(output, self.global.quiet))
    }

    /// Tells one object, with the job's name.
    pub(super) fn tell(&self, io: &mut Io, object: Value) {
        self.form.tell(io, Some(self.name()), object);
    }

    /// Says that the manifest has errors which stand in no way of this command.
    fn go_on(&self, io: &mut Io, command: &str) {
        let (notes, words) = partial_plan::errors_as_notes(&self.manifest.compiled, command);
        if let Form::Lines = self.form {
            for one in notes.iter() {
                self.tell(io, json!({"type": "problem", "problem": problem(&self.set.sources, one)}));
            }
        }
        show(io, &self.set, &self.manifest, &notes, &self.global);
        io.note(&words);
    }

    /// Says what stands in no way of looking: a warning, and for who reads lines an object.
    fn warn(&self, io: &mut Io, diagnostic: Diagnostic) {
        let diagnostic = diagnostic.severity(Severity::Warning).complete(&self.invocation);
        if let Form::Lines = self.form {
            let problem = problem(&self.set.sources, &diagnostic);
            self.tell(io, json!({"type": "problem", "problem": problem}));
        }
        show(io, &self.set, &self.manifest, &only(diagnostic), &self.global);
    }

    /// Says what is wrong with the account; the exit code.
    pub(super) fn fail(&self, io: &mut Io, mut verdict: Verdict) -> u8 {
        verdict.diagnostic = verdict.diagnostic.complete(&self.invocation);
        let problem = problem(&self.set.sources, &verdict.diagnostic);
        self.tell(io, json!({"type": "problem", "exit": verdict.exit, "problem": problem}));
        let all = verdict.diagnostic;
        let shown = if self.global.verbose { all } else { verdict::shortened(all) };
        show(io, &self.set, &self.manifest, &only(shown), &self.global);
        verdict.exit
    }
}

/// What the plan of a manifest predicts of its run.
pub(super) fn planned(manifest: &Manifest) -> Planned {
    let prediction = &manifest.compiled.prediction;
    let run = prediction.run.as_ref().filter(|run| !run.never_ends);
    let seconds = run.map(trainc_predict::Run::expected_seconds);
    Planned {
        seconds: seconds.filter(|seconds| seconds.is_finite()),
        tokens_per_second: prediction.speed.as_ref().map(|speed| speed.tokens_per_second),
    }
}

/// The manifests of a command and the account, with a closure for each sound manifest; the worst exit code.
pub(super) fn each<T: Task>(
    io: &mut Io,
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
        codes.push(accounts.run(io, &plan, task(about)));
    }
    worst(codes)
}

/// The worst of several exit codes.
pub(super) fn worst(codes: Vec<u8>) -> u8 {
    verdict::worst_exit(codes.into_iter().filter(|code| *code != exit::DONE)).unwrap_or(exit::DONE)
}

/// The account of a command, the manifests that it can go on with, and the exit codes of the others; else the command's.
pub(super) fn job_contexts(
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
    options.fetch = true;
    let set = compile_all(&paths, &options);
    let accounts = Accounts::new(&args.account, None).map_err(|words| usage(io, words))?;
    if let Form::Kept(kept) = form {
        kept.many.set(set.many);
    }
    let (mut out, mut codes) = (Vec::new(), Vec::new());
    for manifest in &set.manifests {
        let sound = manifest.compiled.checked();
        let Some(plan) =
            sound.or_else(|| partial_plan::plan_with_errors(&manifest.compiled, &set.sources, command))
        else {
            let text = problems(&set, Format::Human, io, io.color, global);
            io.note(&text);
            for object in errors(&set, manifest) {
                form.tell(io, manifest.compiled.job.as_deref(), object);
            }
            codes.push(exit::MANIFEST);
            continue;
        };
        let about = JobContext {
            global: global.clone(),
            set: set.clone(),
            manifest: manifest.clone(),
            plan: plan.clone(),
            invocation: invocation(manifest.named(), &args.overlay, &args.account),
            persisted: args
                .account
                .is_forgotten()
                .then(|| invocation(manifest.named(), &args.overlay, &AccountArgs::persisted())),
            form: form.clone(),
        };
        if sound.is_none() {
            about.go_on(io, command);
        }
        if plan.deployable {
            out.push(about);
        } else {
            codes.push(about.fail(io, verdict::not_deployable(plan)));
        }
    }
    Ok((accounts, out, codes))
}

/// The training job of a manifest.
pub(super) struct Found {
    /// What the manifest needs.
    pub desired: Desired,
    /// The latest run of this digest, else the latest of another one.
    pub job: Option<(TrainingJob, Tags)>,
    /// Whether that is another digest than the manifest's.
    pub is_other: bool,
}

/// Finds it.
pub(super) async fn find<C: Observe, K: Clock>(look: &Look<'_, C, K>, plan: &Plan) -> Result<Found, Verdict> {
    let failed = |fault| verdict::read_failed(plan, &fault);
    let caller = look.ask(async |cloud| cloud.caller_identity().await).await.map_err(failed)?;
    if let Some(other) = verdict::account_mismatch(plan, &caller) {
        return Err(other);
    }
    let Some(desired) = Desired::new(plan, &caller) else { return Err(verdict::not_deployable(plan)) };
    let runs = look.runs(&desired, trainc_apply::diff::Choices::default()).await.map_err(failed)?;
    let is_other = runs.latest.is_none();
    Ok(Found { desired, job: runs.latest.or(runs.other), is_other })
}

/// All runs of the job that are not over, of whatever digest.
pub(super) async fn running<C: Observe, K: Clock>(
    look: &Look<'_, C, K>,
    about: &JobContext,
    desired: &Desired,
) -> Result<Vec<TrainingJob>, Verdict> {
    let found = look.ours_running(&desired.stem, &desired.job).await;
    found.map_err(|fault| verdict::read_failed(&about.plan, &fault))
}

/// Why a job of our name is not ours by its tags, and what to do about it; nothing where it is.
pub(super) fn not_ours(
    about: &JobContext,
    desired: &Desired,
    job: &TrainingJob,
    tags: &Tags,
) -> Option<Verdict> {
    if is_ours(tags, &desired.job) {
        return None;
    }
    let change = foreign_run(job, tags);
    let span = verdict::place(&about.plan, &Item::new("training-job", &job.name));
    let verdict = verdict::obstacle(&change, span);
    let can_be_taken = foreign(desired, job, tags).action == Action::Stop(Obstacle::Foreign);
    let help = if can_be_taken {
        help![
            "if it is this job's, take it over: ",
            NextCommand::new("apply").flag("--adopt"),
            "; else give the job another name",
        ]
    } else if job.is_over() {
        Help::from(
            "give the job another name: it was started with something else, and is not this job's to take over",
        )
    } else {
        Help::from(format!(
            "give the job another name; whoever it belongs to ends it with aws sagemaker stop-training-job --training-job-name {} --region {}",
            job.name, desired.region
        ))
    };
    Some(Verdict { diagnostic: verdict.diagnostic.help(help), ..verdict })
}

/// A training job that is there.
pub(super) struct Existing {
    /// What the manifest needs.
    pub desired: Desired,
    /// The job.
    pub job: TrainingJob,
    /// Whether it is of another digest than the manifest's.
    pub is_other: bool,
    /// Whether trainc made it for this job, by its tags: else that was said.
    pub is_ours: bool,
}

/// The training job of a manifest. One that only has its name is shown as well, and said to be no run of it. Else why there is none was said, and this is the exit code.
pub(super) async fn existing<C: Observe, K: Clock>(
    io: &mut Io<'_>,
    look: &Look<'_, C, K>,
    about: &JobContext,
    progress: &Progress,
) -> Result<Existing, u8> {
    match progress.busy(LOOKING, find(look, &about.plan)).await {
        Ok(Found { desired, job: Some((job, tags)), is_other }) => {
            let foreign = not_ours(about, &desired, &job, &tags);
            let is_ours = foreign.is_none();
            if let Some(verdict) = foreign {
                about.warn(io, verdict.diagnostic);
            }
            Ok(Existing { desired, job, is_other, is_ours })
        }
        Ok(_) => Err(none(io, about)),
        Err(verdict) => Err(about.fail(io, verdict)),
    }
}

/// The words where there is no job.
fn none(io: &mut Io, about: &JobContext) -> u8 {
    about.tell(io, json!({"type": "result", "training_job": null, "status": null, "exit": exit::DIFFERENT}));
    let job = about.plan.job.name.value().map_or("", String::as_str);
    let apply = NextCommand::new("apply");
    io.note(&match &about.persisted {
        Some(persisted) => format!(
            "no training job of `{job}` is in the account: one in memory begins empty; keep it in a file:\n  {}\nand give the same `{}` here\n",
            persisted.command(&apply),
            AccountArgs::persisted().flag().unwrap_or_default()
        ),
        None => format!(
            "no training job of `{job}` is in the account; start one with `{}`\n",
            about.invocation.command(&apply)
        ),
    });
    exit::DIFFERENT
}

/// `09:15:10`, UTC, of milliseconds since 1970.
pub(super) fn clock(milliseconds: i64) -> String {
    let seconds = milliseconds.div_euclid(1_000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}
