//! `trainc emit`.

use crate::args::account::AccountArgs;
use crate::args::invocation::invocation;
use crate::args::{Global, Input, note_skipped, problems};
use crate::exit;
use crate::terminal::io::Io;
use crate::terminal::progress::{LOOKING, Mode, Progress};
use crate::views::account::print_ended;
use crate::views::comparison::{show, single_problem};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use trainc_apply::cloud::{Clock, Cloud, Observe};
use trainc_apply::desired::Desired;
use trainc_apply::look::Look;
use trainc_apply::placeholders::Placeholders;
use trainc_apply::verdict::{self, Verdict};
use trainc_diag::{Format, Invocation, escape_output};
use trainc_emit::canonical_json;
use trainc_ir::Plan;
use trainc_ops::accounts::Task;
use trainc_plan::Options;
use trainc_project::directory::{self, ReplaceError, Target, Tree};
use trainc_project::manifests::{Manifest, Set, compile_all};
use trainc_project::moved_figures::keep_moved_figures;

/// Write the requests, policies and scripts of a job, and its plan, into a directory
///
/// Writes the resource definitions, the content of the source archive, and the plan as `plan.json`, `plan.md`
/// and `report.html` (self-contained, with charts). The same manifest gives the same bytes. Nothing is
/// written if a manifest has errors; with several manifests all directories are written, or none. A directory
/// that contains files not written by `emit` is refused.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trainc emit job.kdl --out generated/\n  trainc emit jobs/ --out generated/ \
        --check\n  trainc emit job.kdl --out generated/ --resolve"
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Output directory: of a file that is given, itself; of a directory or several manifests, one directory
    /// per job below it
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Write nothing; exit with 4 if the directory differs, or contains a job that is no longer in the
    /// manifests
    #[arg(long)]
    check: bool,
    /// With `--check`, also report figures that new runs in `.trainc/runs.csv` moved
    #[arg(long, requires = "check")]
    figures: bool,
    /// Read account ID, role ARN and file system IDs from the account instead of writing `${…}`. Values that
    /// do not exist yet stay `${…}`, with a note
    #[arg(long)]
    resolve: bool,
    #[command(flatten)]
    account: AccountArgs,
}

/// Runs the command.
pub(crate) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let paths = match args.input.named.paths("emit --out generated/") {
        Ok(paths) => paths,
        Err(why) => {
            io.note(&why);
            return exit::USAGE;
        }
    };
    if args.account.simulate.is_some() && !args.resolve {
        io.note("error: `--simulate` requires `--resolve`\n");
        return exit::USAGE;
    }
    if let Err(why) = args.input.overlay.read_runs(io, &paths) {
        io.note(&why);
        return exit::USAGE;
    }
    let mut options = args.input.overlay.options(io, true);
    options.asks_account = args.resolve && args.account.is_real();
    options.fetch = options.asks_account;
    let mut set = compile_all(&paths, &options);
    note_skipped(io, global, &set);
    let mut marks = Vec::new();
    if args.resolve && args.input.exit_code(&set) == exit::DONE {
        match resolve_in_account(io, global, args, &set) {
            Ok(resolved) => {
                // Compiled as if the manifest set the account.
                if let Some(account) = resolved.iter().flatten().map(|(account, _)| account.clone()).next() {
                    options.choices.account = Some(account);
                    set = compile_all(&paths, &options);
                }
                marks = resolved;
            }
            Err(code) => return code,
        }
    }
    let code = args.input.exit_code(&set);
    let text = problems(&set, Format::Human, io, io.color, global);
    io.note_colored(&text);
    args.input.explain_denied_warnings(io, &set, global.quiet);
    let errors: usize = set.manifests.iter().map(|m| m.compiled.problems.errors()).sum();
    if errors > 0 || code != exit::DONE {
        if !global.quiet {
            let out = args.out.display();
            io.note(&if args.check {
                format!("{out} was not compared\n")
            } else {
                format!("nothing was written to {out}\n")
            });
        }
        return if code == exit::DONE { exit::DONE } else { exit::MANIFEST };
    }
    remove_unstable(&mut set);
    for (manifest, resolved) in set.manifests.iter_mut().zip(&marks) {
        let (Some((_, found)), Some(plan)) = (resolved, &mut manifest.compiled.plan) else { continue };
        plan.account_facts.role_arn.clone_from(&found.account_facts.role_arn);
        plan.account_facts.file_systems.clone_from(&found.account_facts.file_systems);
        for (mark, why) in found.unresolved.iter().filter(|_| !global.quiet) {
            io.note(&format!("note: {mark} is not resolved: {why}\n"));
        }
    }
    let mut targets = targets(&set, &args.out, &options);
    let stale = if set.many {
        let asked = set.manifests.iter().map(|manifest| manifest.path.as_str()).collect();
        directory::stale(&args.out, &targets, &set.root, &asked)
    } else {
        Vec::new()
    };
    if args.check {
        if !args.figures {
            targets.iter_mut().for_each(keep_moved_figures);
        }
        let mut different = directory::differences(&targets);
        different.extend(stale.iter().map(directory::Stale::difference));
        for line in &different {
            io.print(&format!("{line}\n"));
        }
        return if different.is_empty() { exit::DONE } else { exit::DIFFERENT };
    }
    if let Err(why) = directory::replace_all(&targets) {
        let (why, code) = match why {
            ReplaceError::Refused(why) => (why, exit::USAGE),
            ReplaceError::Busy(why) => (why, exit::INCOMPLETE),
        };
        io.note(&format!("error: {why}; nothing was written\n"));
        return code;
    }
    if !global.quiet {
        for Target { dir, tree } in &targets {
            let files = trainc_diag::text::count(tree.len() as u64, "file");
            io.note(&format!("wrote {} ({files})\n", dir.display()));
        }
        let marks = unresolved_marks(&targets);
        if !marks.is_empty() {
            let marks = trainc_diag::text::backtick_list(&marks, "and");
            io.note(&format!(
                "  `trainc apply` fills in {marks}; `--resolve` reads the values from the account\n"
            ));
        }
        for one in &stale {
            io.note(&format!("note: {}\n", one.note()));
        }
    }
    code
}

/// Returns the marks in requests and policies that stand for what only an account knows, as `${account}`.
fn unresolved_marks(targets: &[Target]) -> Vec<String> {
    let requests = targets.iter().flat_map(|target| &target.tree).filter(|(path, _)| {
        let is_request = ["iam", "fsx", "sagemaker"].iter().any(|dir| path.starts_with(dir));
        is_request && path.extension().is_some_and(|end| end == "json")
    });
    let mut found = BTreeSet::new();
    for (_, bytes) in requests {
        let text = String::from_utf8_lossy(bytes);
        let starts = text.split("${").skip(1).filter_map(|rest| rest.split_once('}'));
        found.extend(
            starts
                .map(|(name, _)| name)
                .filter(|name| ["account", "role_arn"].contains(name) || name.starts_with("fsx."))
                .map(|name| format!("${{{name}}}")),
        );
    }
    found.into_iter().collect()
}

/// The account ID and the values of the marks; `None` for a cluster outside SageMaker.
type Resolved = Option<(String, Placeholders)>;

fn resolve_in_account(io: &mut Io, global: &Global, args: &Args, set: &Set) -> Result<Vec<Resolved>, u8> {
    let mut accounts = args.account.open(io, None).map_err(|words| {
        io.note(&words);
        exit::USAGE
    })?;
    let mut out = Vec::new();
    for manifest in &set.manifests {
        let Some(plan) = manifest.compiled.sagemaker_plan() else {
            out.push(None);
            continue;
        };
        let invocation = invocation(manifest.shown_argument(), &args.input.overlay, &args.account);
        let ended = accounts.run(io, plan, Resolve { set, manifest, plan, invocation, global });
        out.push(ended.map_err(|ended| print_ended(io, &ended))??);
    }
    Ok(out)
}

struct Resolve<'a> {
    set: &'a Set,
    manifest: &'a Manifest,
    plan: &'a Plan,
    invocation: Invocation,
    global: &'a Global,
}

impl<'io> Task<Io<'io>> for Resolve<'_> {
    type Outcome = Result<Resolved, u8>;

    async fn run<C: Cloud, K: Clock>(self, io: &mut Io<'io>, look: Look<'_, C, K>) -> Result<Resolved, u8> {
        let progress = Progress::new(Mode::from_flags("human", self.global.quiet));
        let resolved = progress.run_with_spinner(LOOKING, resolve_marks(&look, self.plan)).await;
        resolved.map_err(|verdict| {
            let problem = verdict.diagnostic.complete(&self.invocation);
            show(io, self.set, self.manifest, &single_problem(problem), self.global);
            verdict.exit
        })
    }
}

/// Resolves the marks of a plan, read-only.
async fn resolve_marks<C: Observe, K: Clock>(
    look: &Look<'_, C, K>,
    plan: &Plan,
) -> Result<Resolved, Verdict> {
    let failed = |fault| verdict::read_failed(plan, &fault);
    let caller = look.ask(async |cloud| cloud.caller_identity().await).await.map_err(failed)?;
    if let Some(other) = verdict::account_mismatch(plan, &caller) {
        return Err(other);
    }
    let Ok(desired) = Desired::new(plan, &caller) else { return Ok(None) };
    let marks = look.placeholders(&desired).await.map_err(failed)?;
    Ok(Some((caller.account, marks)))
}

/// Removes what would change the output without a change of the manifest: the date, and the working
/// directory.
fn remove_unstable(set: &mut Set) {
    let root = set.root.clone();
    let rooted = |name: &str| match Path::new(name).canonicalize() {
        Ok(path) => path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned(),
        Err(_) => name.to_owned(),
    };
    set.sources.rename(rooted);
    for manifest in &mut set.manifests {
        manifest.path = rooted(&manifest.path);
        manifest.compiled.problems.remove_dated();
    }
}

/// Returns the files of each job's directory.
fn targets(set: &Set, out: &Path, options: &Options) -> Vec<Target> {
    let mut targets = Vec::new();
    for manifest in &set.manifests {
        let Some(plan) = manifest.compiled.plan_without_errors() else { continue };
        let bundle = trainc_emit::emit(plan);
        let dir = if set.many {
            out.join(manifest.compiled.job.as_deref().unwrap_or("job"))
        } else {
            out.to_path_buf()
        };
        let mut tree: Tree =
            bundle.files.into_iter().map(|(path, bytes)| (PathBuf::from(path), bytes)).collect();
        tree.insert(
            PathBuf::from("plan.md"),
            escape_output(&crate::commands::plan::markdown(manifest, set), false).into_bytes(),
        );
        let mut document = crate::commands::plan::document(manifest, set);
        let page = crate::commands::plan::plan_html(manifest, set, &document, options);
        tree.insert(PathBuf::from("report.html"), page.into_bytes());
        let name = PathBuf::from("plan.json");
        // The next `emit` recognizes its own files by this list.
        let files: BTreeSet<&Path> = tree.keys().map(PathBuf::as_path).chain([name.as_path()]).collect();
        document.files = files.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        if let Ok(value) = serde_json::to_value(&document) {
            tree.insert(name, canonical_json::pretty(&value).into_bytes());
        }
        targets.push(Target { dir, tree });
    }
    targets
}
