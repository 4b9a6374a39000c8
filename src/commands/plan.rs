//! `trainc plan`.

mod against;
mod next_command;

use crate::args::account::AccountArgs;
use crate::args::invocation::invocation;
use crate::args::{Global, Input, note_skipped, problems};
use crate::exit;
use crate::terminal::io::Io;
use crate::terminal::progress::{LOOKING, Mode, Progress};
use crate::views::account::print_ended;
use crate::views::comparison::add_to_document;
use next_command::{Refusals, next_command};
use std::path::PathBuf;
use trainc_apply::cloud::{Clock, Cloud};
use trainc_apply::diff::Choices;
use trainc_apply::fault::Fault;
use trainc_apply::look::Look;
use trainc_apply::saved_plan::{self, SavedPlan};
use trainc_apply::verdict::{self, with_alternative};
use trainc_diag::{Format, NextCommand};
use trainc_emit::Identity;
use trainc_ops::accounts::Tasks;
use trainc_ops::better_machine::{FoundMachine, find_better_machine};
use trainc_ops::comparison::{Comparison, compare_with_account};
use trainc_predict::Constants;
use trainc_project::files::{MOST_SAVED_PLAN_BYTES, read_regular};
use trainc_project::manifests::{Manifest, Set, compile_all};
use trainc_report::human::{Depth, Problems};
use trainc_report::json::{BetterMachine, Document};
use trainc_report::{self as report, Subject};

/// Show the resolved plan: mesh, batch, memory, speed, cost and resources
///
/// The mesh says how the GPUs divide the work: the replicas of the model, and the GPUs over which each
/// replica is split. Checks the manifest, then compares the plan with the account: what would be created or
/// changed, whether everything that the manifest names exists, and whether quotas suffice. Read-only. With
/// `--offline` no account is read and no credentials are needed. For one manifest it also names a machine on
/// which the job would be at least a fifth cheaper or faster, and not worse in the other, if there is one.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trainc plan --offline job.kdl\n  trainc plan job.kdl\n  trainc plan job.kdl \
        --save job.plan\n  trainc plan --offline jobs/ -o json\n  trainc plan jobs/ --against main"
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Do not read the account: no credentials, no network
    #[arg(long)]
    offline: bool,
    /// Output format: human, json or markdown
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = ["human", "json", "markdown"])]
    pub(crate) output: String,
    /// Show the cost of a change instead: dollars, hours and memory before and after, and the edit
    /// responsible. REF is a git revision, FILE another manifest. Needs no credentials
    #[arg(long, value_name = "REF|FILE", conflicts_with_all = ["save", "new_run", "adopt", "simulate"])]
    against: Option<String>,
    /// Exit with 4 if the account differs from the plan, or, with `--against`, if a job differs
    #[arg(long)]
    pub(crate) detailed_exit_code: bool,
    /// Save the plan for `trainc apply FILE`, which makes exactly these changes
    #[arg(long, value_name = "FILE", conflicts_with = "offline")]
    save: Option<PathBuf>,
    /// Plan another run, as with `apply --new-run`
    #[arg(long)]
    new_run: bool,
    /// Plan to adopt existing resources that lack this job's tags, as with `apply --adopt`
    #[arg(long)]
    adopt: bool,
    #[command(flatten)]
    account: AccountArgs,
}

/// Maximum width of the short plan in columns: it is read in logs and pasted into mails.
const SCREEN: usize = 80;

/// A manifest with the identity of its job.
struct Ready<'a> {
    manifest: &'a Manifest,
    set: &'a Set,
    identity: Option<Identity>,
}

impl<'a> Ready<'a> {
    fn new(manifest: &'a Manifest, set: &'a Set) -> Self {
        Self { manifest, set, identity: identity(manifest) }
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            path: &self.manifest.path,
            sha256: &self.manifest.sha256,
            job: self.manifest.compiled.job.as_deref(),
            plan: self.manifest.compiled.plan.as_deref(),
            identity: self.identity.as_ref(),
            prediction: &self.manifest.compiled.prediction,
            constants: self.set.constants.as_ref().unwrap_or_else(|| Constants::shipped()),
            problems: &self.manifest.compiled.problems,
            choices: self.manifest.compiled.choices.as_deref(),
            sources: &self.set.sources,
        }
    }
}

fn identity(manifest: &Manifest) -> Option<Identity> {
    manifest.compiled.plan_without_errors().map(trainc_emit::identity)
}

/// Compares all manifests with the account concurrently, read-only.
struct Compare<'a> {
    plans: &'a [&'a trainc_ir::Plan],
    known: &'a [&'a str],
    choices: Choices,
    progress: &'a Progress,
}

impl<'io> Tasks<Io<'io>> for Compare<'_> {
    type Outcome = Vec<Comparison>;

    async fn run<C: Cloud, K: Clock>(self, io: &mut Io<'io>, looks: &[Look<'_, C, K>]) -> Vec<Comparison> {
        let today = io.today_in_days();
        let hear = |fault: &Fault| self.progress.note_retrying(fault);
        let all = compare_with_account(looks, self.plans, self.known, today, &hear, |_| self.choices);
        self.progress.run_with_spinner(LOOKING, all).await
    }
}

/// Compares every valid manifest with the account; `None` for the others.
fn compare(io: &mut Io, global: &Global, args: &Args, set: &Set) -> Result<Vec<Option<Comparison>>, u8> {
    let mut accounts = args.account.open(io, None).map_err(|words| {
        io.note(&words);
        exit::USAGE
    })?;
    let choices = Choices { adopt: args.adopt, new_run: args.new_run, run: None };
    let plans: Vec<&trainc_ir::Plan> =
        set.manifests.iter().filter_map(|manifest| manifest.compiled.sagemaker_plan()).collect();
    let mut found = Vec::new();
    if !plans.is_empty() {
        let progress = Progress::new(Mode::from_flags("human", global.quiet));
        let compare = Compare { plans: &plans, known: &set.jobs(), choices, progress: &progress };
        let compared = accounts.run_all(io, &plans, compare);
        found = compared.map_err(|ended| print_ended(io, &ended))?;
    }
    let mut found = found.into_iter();
    let compared = |manifest: &Manifest| manifest.compiled.sagemaker_plan().and_then(|_| found.next());
    Ok(set.manifests.iter().map(compared).collect())
}

/// Returns true if the plan is compared with an account.
fn is_online(args: &Args) -> bool {
    !args.offline && (cfg!(feature = "aws") || args.account.simulate.is_some())
}

/// Runs the command.
pub(crate) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let paths = match args.input.named.paths("plan --offline") {
        Ok(paths) => paths,
        Err(why) => {
            io.note(&why);
            return crate::exit::USAGE;
        }
    };
    if let Some(against) = &args.against {
        return against::run(io, global, args, &paths, against);
    }
    if let Err(why) = args.input.overlay.read_runs(io, &paths) {
        io.note(&why);
        return exit::USAGE;
    }
    let mut options = args.input.overlay.options(io, false);
    options.asks_account = is_online(args) && args.account.is_real();
    options.fetch = options.asks_account;
    let mut set = compile_all(&paths, &options);
    note_skipped(io, global, &set);
    if let Some(why) = args.save.as_ref().and_then(|file| describe_save_refusal(args, &set, file)) {
        io.note(&why);
        return exit::USAGE;
    }
    // Before the account adds problems: they are not about the machine.
    let better_machine = find_better_machine(&set, &options);
    let identities: Vec<Option<Identity>> = set.manifests.iter().map(identity).collect();
    let looked = if is_online(args) {
        match compare(io, global, args, &set) {
            Ok(looked) => looked,
            Err(code) => return code,
        }
    } else {
        if !args.offline && !global.quiet {
            io.note("note: trainc was built without the feature `aws`: planned as with `--offline`\n");
        }
        Vec::new()
    };
    let manifest_code = args.input.exit_code(&set);
    for (manifest, looked) in set.manifests.iter_mut().zip(&looked) {
        if let Some(looked) = looked {
            let invocation = invocation(manifest.shown_argument(), &args.input.overlay, &args.account);
            let offline = || NextCommand::new("plan").flag("--offline");
            let findings = looked.findings.iter().cloned();
            for one in findings.map(|one| {
                with_alternative(
                    one,
                    offline(),
                    "needs no credentials, and `--simulate` compares with an in-memory account",
                )
            }) {
                manifest.compiled.problems.push(one.complete(&invocation));
            }
            for warning in looked.warnings() {
                manifest.compiled.problems.push(warning.complete(&invocation));
            }
            manifest.compiled.problems.sort();
        }
    }
    let ready: Vec<Ready> = set
        .manifests
        .iter()
        .zip(identities)
        .map(|(manifest, identity)| Ready { manifest, set: &set, identity })
        .collect();
    let documents: Vec<Document> = ready
        .iter()
        .enumerate()
        .map(|(at, one)| {
            let mut document = report::document::document(&one.subject());
            if let Some(looked) = looked.get(at).and_then(Option::as_ref) {
                add_to_document(looked, &mut document);
            }
            if !set.many && set.manifests.len() == 1 {
                document.elsewhere = Some(better_machine.as_ref().map(elsewhere));
            }
            document
        })
        .collect();
    let invocations: Vec<_> = ready
        .iter()
        .map(|one| invocation(one.manifest.shown_argument(), &args.input.overlay, &args.account))
        .collect();
    let blocked = Refusals::new(&looked, &invocations);
    match args.output.as_str() {
        "json" => json(io, &set, &documents),
        "markdown" => {
            let jobs: Vec<(Subject, &Document)> = ready.iter().map(Ready::subject).zip(&documents).collect();
            io.print_unwrapped(&set.sources.mask(&report::markdown::plans(&jobs)));
        }
        _ => {
            let page = Page { ready: &ready, documents: &documents, looked: &looked, blocked: &blocked };
            human(io, global, args, &set, &page);
        }
    }
    args.input.explain_denied_warnings(io, &set, global.quiet);
    if manifest_code != exit::DONE {
        return manifest_code;
    }
    let code = online_exit(args, &looked);
    match &args.save {
        Some(file) if code == exit::DONE || code == exit::DIFFERENT => {
            let saved = save(io, args, &set, &looked, file);
            if saved != exit::DONE {
                return saved;
            }
            // Also for readers of standard error only.
            if let Some(words) = blocked.describe() {
                io.note(&format!("warning: `{}` is saved, but {words}\n", file.display()));
                if args.output != "human" {
                    io.note(&format!("  next  {}\n", next_command(args, 0, false, &blocked)));
                }
            }
            code
        }
        Some(file) => {
            io.note(&format!("error: `{}` is not saved: fix the problems first\n", file.display()));
            code
        }
        None => code,
    }
}

/// Returns a better machine as a member of the document.
fn elsewhere(found: &FoundMachine) -> BetterMachine {
    BetterMachine {
        instance: found.instance.clone(),
        nodes: found.nodes,
        seconds: found.run.seconds,
        seconds_interval: found.seconds_between,
        cost_usd: found.run.usd,
        cost_usd_interval: found.usd_between,
        saves: found.saves,
    }
}

/// Returns the exit code for the comparison with the account.
fn online_exit(args: &Args, looked: &[Option<Comparison>]) -> u8 {
    let wrong = looked.iter().flatten().map(|one| one.exit).filter(|code| *code != exit::DONE);
    if let Some(code) = verdict::worst_exit(wrong).filter(|_| !args.input.exit_zero) {
        return code;
    }
    let differs =
        looked.iter().flatten().any(|one| one.prospect.as_ref().is_some_and(|seen| !seen.is_empty()));
    if differs && args.detailed_exit_code { exit::DIFFERENT } else { exit::DONE }
}

/// Returns the reason why a plan cannot be saved, before the account is read.
fn describe_save_refusal(args: &Args, set: &Set, file: &std::path::Path) -> Option<String> {
    // The jobs of a sweep share one manifest.
    let mut paths = set.manifests.iter().map(|manifest| &manifest.path);
    let first = paths.next();
    if first.is_none() || paths.any(|path| Some(path) != first) {
        return Some("error: `--save` requires a single manifest: name a file\n".to_owned());
    }
    if args.input.named.manifests.iter().any(|path| path == "-") {
        let why = "error: `--save` requires a file: standard input cannot be read again by apply\n";
        return Some(why.to_owned());
    }
    // A slip such as `--save job.kdl` must not overwrite the manifest.
    let slip = match read_regular(file, MOST_SAVED_PLAN_BYTES) {
        Ok(there) => SavedPlan::read(&String::from_utf8_lossy(&there)).is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::FileTooLarge,
    };
    slip.then(|| format!("error: `{}` exists and is not a saved plan: name another file\n", file.display()))
}

/// Saves the plan of one manifest for `apply`.
fn save(io: &mut Io, args: &Args, set: &Set, looked: &[Option<Comparison>], file: &std::path::Path) -> u8 {
    let Some(manifest) = set.manifests.first() else { return exit::USAGE };
    let prospects = looked.iter().map(|one| one.as_ref()?.prospect.as_ref());
    let Some(prospects) = prospects.collect::<Option<Vec<_>>>() else { return exit::USAGE };
    let input = saved_plan::SavedPlanSource {
        manifest: manifest.path.clone(),
        sha256: manifest.sha256.clone(),
        given: args.input.overlay.to_overrides(),
    };
    let choices = Choices { adopt: args.adopt, new_run: args.new_run, run: None };
    let plan = SavedPlan::new(&input, &prospects, choices);
    let text = serde_json::to_string_pretty(&plan).unwrap_or_default();
    if let Err(error) = std::fs::write(file, format!("{text}\n")) {
        let why = trainc_project::files::describe(&error);
        io.note(&format!("error: `{}` cannot be written: {why}\n", file.display()));
        return exit::USAGE;
    }
    exit::DONE
}

fn json(io: &mut Io, set: &Set, documents: &[Document]) {
    let text = match documents {
        [one] if !set.many => serde_json::to_string_pretty(one),
        _ => serde_json::to_string_pretty(documents),
    };
    match text {
        Ok(text) => io.print_json(&set.sources.mask_json(&format!("{text}\n"))),
        Err(error) => io.note(&format!("error: {error}\n")),
    }
}

/// Everything printed for people, in the order of the manifests.
struct Page<'a> {
    ready: &'a [Ready<'a>],
    documents: &'a [Document],
    /// Comparisons with the account; empty offline.
    looked: &'a [Option<Comparison>],
    /// Reasons for which apply would refuse.
    blocked: &'a Refusals,
}

fn human(io: &mut Io, global: &Global, args: &Args, set: &Set, page: &Page) {
    let Page { ready, documents, looked, blocked } = page;
    let depth = if global.verbose { Depth::Origins } else { Depth::Screen };
    let width = if depth == Depth::Screen { io.width.min(SCREEN) } else { io.width };
    let options = io.report_options(width);
    let errors: usize = set.manifests.iter().map(|manifest| manifest.compiled.problems.errors()).sum();
    let place = if errors > 0 { Problems::Above } else { Problems::Here };
    // A plan with errors still shows its values.
    let say = |io: &mut Io, text: &str| io.print_colored(&set.sources.mask(text));
    if place == Problems::Above {
        let text = problems(set, Format::Human, io, io.color, global);
        say(io, &text);
    }
    let rule = if io.unicode { "─" } else { "-" };
    for (at, (one, document)) in ready.iter().zip(*documents).enumerate() {
        let subject = one.subject();
        if subject.plan.is_none() {
            // Its problems are already printed.
            continue;
        }
        if at > 0 || place == Problems::Above {
            io.print(&format!("\n{}\n\n", rule.repeat(options.width.min(SCREEN))));
        }
        say(io, &report::human::plan(&subject, document, depth, place, options));
    }
    io.print("\n");
    if ready.len() > 1 {
        let subjects: Vec<Subject> = ready.iter().map(Ready::subject).collect();
        io.print_colored(&report::human::total(&subjects, options));
    }
    let local = matches!(ready, [one] if one.subject().plan.is_some_and(is_local));
    // Problems found in the account are not errors of the manifest.
    let found: usize = looked.iter().flatten().map(|one| one.findings.errors()).sum();
    let errors = errors.saturating_sub(found);
    if let Some(words) = blocked.describe().filter(|_| errors == 0) {
        io.print_colored(&report::human::blocked(&words, &blocked.first, options));
    }
    say(io, &report::human::render_next_command(&next_command(args, errors, local, blocked), options));
}

/// Returns true if the job runs on this machine.
fn is_local(plan: &trainc_ir::Plan) -> bool {
    plan.job.cluster.as_ref().and_then(|cluster| cluster.instance.value()).is_some_and(|name| name == "local")
}

/// Returns the totals of several manifests as text.
pub(crate) fn total(manifests: &[&Manifest], set: &Set, options: report::Options) -> String {
    let ready: Vec<Ready> = manifests.iter().map(|manifest| Ready::new(manifest, set)).collect();
    let subjects: Vec<Subject> = ready.iter().map(Ready::subject).collect();
    report::human::total(&subjects, options)
}

/// Returns the plan of one manifest as a document for scripts.
pub(crate) fn document(manifest: &Manifest, set: &Set) -> Document {
    report::document::document(&Ready::new(manifest, set).subject())
}

/// Returns the plan of one manifest as Markdown for a pull request.
pub(crate) fn markdown(manifest: &Manifest, set: &Set) -> String {
    let ready = Ready::new(manifest, set);
    let subject = ready.subject();
    report::markdown::plan(&subject, &report::document::document(&subject))
}

/// Returns the plan of one manifest as an HTML page with charts.
pub(crate) fn plan_html(
    manifest: &Manifest,
    set: &Set,
    document: &Document,
    options: &trainc_plan::Options,
) -> String {
    let ready = Ready::new(manifest, set);
    crate::views::html_report::report(&ready.subject(), document, manifest, set, options)
}
