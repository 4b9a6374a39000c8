//! `trainc import`.

use super::account::{AccountArgs, Accounts, Task};
use super::args::{Global, problems};
use super::exit;
use super::files::{Files, describe, read_named_text};
use super::io::Io;
use super::manifests::{Manifest, Set};
use super::progress::{LOOKING, Mode, Progress};
use crate::import::{self, Imported};
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use trainc_apply::account::TrainingJob;
use trainc_apply::cloud::{Clock, Cloud};
use trainc_apply::fault::Class;
use trainc_apply::look::Look;
use trainc_apply::verdict;
use trainc_catalog::shapes;
use trainc_check::compile;
use trainc_diag::source::{SourceMap, Span};
use trainc_diag::{self as diag, Diagnostic, Format, Problems};
use trainc_plan::Compiled;
use trainc_plan::Options;

/// Maximum size of a request in bytes; the service accepts far less.
const MOST_BYTES: u64 = 4 << 20;

/// Turn a CreateTrainingJob request or an existing training job into a manifest
///
/// Reads a CreateTrainingJob request or a DescribeTrainingJob response (JSON or YAML, also nested in another document), or the
/// training job of that name from the account. The manifest is compiled, and its header states whether it produces the same
/// request, or what differs.
/// What a request does not contain (model, hyperparameters, source) is marked by comments and listed on standard error.
/// An existing job is also reviewed, with its cost.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trainc import request.json > job.kdl\n  trainc import llama-7b-2026-11-21-09-15-10-123 --region us-west-2 --out job.kdl\n  aws sagemaker describe-training-job --training-job-name NAME > job.json\n  trainc import job.json --out job.kdl"
)]
pub(super) struct Args {
    /// JSON or YAML file, `-` for standard input, or else the name of a training job
    #[arg(value_name = "FILE|JOB")]
    file: String,
    /// Region of the training job [default: `AWS_REGION`, `AWS_DEFAULT_REGION`]
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    #[command(flatten)]
    account: AccountArgs,
    /// Write the manifest to this file, which must not exist
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Output format: human, json or markdown
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = ["human", "json", "markdown"])]
    output: String,
}

/// Destination of the manifest, and format of the review.
#[derive(Clone)]
struct Sink {
    out: Option<PathBuf>,
    format: Format,
}

impl Args {
    fn sink(&self) -> Sink {
        let format = match self.output.as_str() {
            "json" => Format::Json,
            "markdown" => Format::Markdown,
            _ => Format::Human,
        };
        Sink { out: self.out.clone(), format }
    }
}

/// Runs the command.
pub(super) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    if let Some(out) = args.out.as_deref().filter(|out| fs::symlink_metadata(out).is_ok()) {
        io.note(&format!("error: `{}` already exists; nothing was written\n", out.display()));
        return exit::USAGE;
    }
    if args.file != "-" && fs::symlink_metadata(Path::new(&args.file)).is_err() {
        return import_by_name(io, global, args);
    }
    let text = match read_named_text(Path::new(&args.file), MOST_BYTES) {
        Ok(text) => text,
        Err(error) => {
            io.note(&format!("error: `{}` cannot be read: {}\n", args.file, describe(&error)));
            return exit::MANIFEST;
        }
    };
    let shown = if args.file == "-" { "<stdin>" } else { args.file.as_str() };
    import_request(io, global, &args.sink(), shown, &text)
}

/// Imports a training job of the account by its name.
fn import_by_name(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let name = &args.file;
    let is_name = shapes::validate("CreateTrainingJob", &json!({"TrainingJobName": name}))
        .is_some_and(|faults| faults.iter().all(|fault| fault.path != "TrainingJobName"));
    if !is_name {
        io.note(&format!("error: `{name}` is neither a file nor a valid name of a training job\n"));
        return exit::USAGE;
    }
    let said = ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().find_map(|name| std::env::var(name).ok());
    let region = args.region.clone().or(said).unwrap_or_default();
    if region.is_empty() && args.account.simulate.is_none() {
        io.note(&format!("error: `{name}` is not a file, and a training job requires a region\nhelp: add `--region us-west-2`\n"));
        return exit::USAGE;
    }
    let describe = Describe { name: name.clone(), global: global.clone(), sink: args.sink() };
    match Accounts::new(&args.account, None) {
        Ok(mut accounts) => accounts.run_in_region(io, &region, None, describe),
        Err(words) => {
            io.note(&words);
            exit::USAGE
        }
    }
}

/// Reads a training job from the account and imports it.
struct Describe {
    name: String,
    global: Global,
    sink: Sink,
}

impl Task for Describe {
    async fn run<C: Cloud, K: Clock>(self, io: &mut Io<'_>, look: Look<'_, C, K>) -> u8 {
        let Self { name, global, sink } = self;
        let shown = format!("<training job {name}>");
        let progress = Progress::new(Mode::from_flags("human", global.quiet));
        let asked = look.ask(async |cloud| cloud.training_job(&name).await);
        match progress.run_with_spinner(LOOKING, asked).await {
            Ok(job) => import_request(io, &global, &sink, &shown, &to_describe_response(job).to_string()),
            Err(fault) if fault.class == Class::NotFound => {
                io.note(&format!("error: `{name}` is neither a file nor a training job of the account\n"));
                exit::DIFFERENT
            }
            Err(fault) => {
                let mut sources = SourceMap::default();
                let source = sources.add(shown.as_str(), name.as_str());
                let verdict = verdict::request_failed(&fault, Span::whole(source));
                let mut found = Problems::default();
                found.push(verdict.diagnostic);
                let set = set(&shown, Compiled::unreadable_file(found), sources);
                let text = problems(&set, Format::Human, io, io.color, &global);
                io.note_colored(&text);
                verdict.exit
            }
        }
    }
}

/// Returns a training job in the form of a DescribeTrainingJob response.
fn to_describe_response(job: TrainingJob) -> Value {
    let mut members = match job.request {
        Value::Object(members) => members,
        _ => serde_json::Map::new(),
    };
    let mut add = |name: &str, value: Value| {
        if !value.is_null() {
            members.insert(name.to_owned(), value);
        }
    };
    add("TrainingJobName", job.name.into());
    add("TrainingJobArn", job.arn.into());
    add("TrainingJobStatus", job.status.into());
    add("FailureReason", job.failure.into());
    add("CreationTime", job.created.into());
    add("TrainingTimeInSeconds", job.training_seconds.into());
    add("BillableTimeInSeconds", job.billable_seconds.into());
    Value::Object(members)
}

/// Imports a request, writes the manifest and prints the review.
fn import_request(io: &mut Io, global: &Global, sink: &Sink, shown: &str, text: &str) -> u8 {
    let out = sink.out.as_deref();
    let mut sources = SourceMap::default();
    let source = sources.add(shown, text);
    let mut found = Problems::default();
    let Some(imported) = import::import(source, text, &mut found) else {
        let compiled = Compiled::unreadable_file(found);
        let set = set(shown, compiled, sources);
        match sink.format {
            Format::Json => io.print_verbatim(&problems(&set, sink.format, io, false, global)),
            _ => io.note_colored(&problems(&set, Format::Human, io, io.color, global)),
        }
        return exit::MANIFEST;
    };
    let name = out.map_or_else(|| "<imported>".to_owned(), |out| out.display().to_string());
    let imported = imported.reconcile(|manifest| compiled(io, &name, manifest).0);
    if let Some(out) = out {
        let written = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(out)
            .and_then(|mut file| file.write_all(imported.manifest.as_bytes()));
        if let Err(error) = written {
            io.note(&format!("error: `{}` cannot be written: {}\n", out.display(), describe(&error)));
            return exit::USAGE;
        }
    }
    let review = review(io, &name, &imported);
    match sink.format {
        Format::Json => io.print_json(&format!("{:#}\n", document(&imported, &review, out))),
        Format::Markdown => io.print(&markdown(&imported, &review)),
        _ => {
            if out.is_none() {
                io.print_verbatim(&imported.manifest);
            }
            review.print_review(io, global, &imported);
        }
    }
    exit::DONE
}

fn set(path: &str, compiled: Compiled, sources: SourceMap) -> Set {
    let manifest = Manifest::new(path, String::new(), compiled);
    Set { sources, manifests: vec![manifest], many: false, root: PathBuf::new(), constants: None }
}

fn compiled(io: &Io, name: &str, manifest: &str) -> (Compiled, SourceMap) {
    let mut sources = SourceMap::default();
    let source = sources.add(name, manifest);
    let root = std::env::current_dir().unwrap_or_default();
    let options =
        Options { today: io.today.clone(), later_codes: crate::later_codes(), ..Options::default() };
    let compiled = compile(source, manifest, &options, &mut Files::new(root, &options), &mut sources);
    (compiled, sources)
}

/// Outcome of the imported job, and the problems of its manifest.
struct Review {
    outcome: Vec<String>,
    set: Set,
}

fn review(io: &Io, name: &str, imported: &Imported) -> Review {
    let (mut compiled, sources) = compiled(io, name, &imported.manifest);
    if imported.outcome.is_none() {
        // A request has no outcome to review.
        compiled.problems.retain(|problem| problem.severity == trainc_diag::Severity::Error);
    }
    let outcome = imported.outcome.as_ref().map(import::Outcome::lines).unwrap_or_default();
    Review { outcome, set: set(name, compiled, sources) }
}

impl Review {
    fn problems(&self) -> impl Iterator<Item = &Diagnostic> {
        self.set.manifests.iter().flat_map(|manifest| manifest.compiled.problems.iter())
    }

    /// Prints the review for people to standard error.
    fn print_review(&self, io: &mut Io, global: &Global, imported: &Imported) {
        if !imported.unsupported.is_empty() && !global.quiet {
            io.note("cannot say:\n");
            for line in &imported.unsupported {
                io.note(&format!("  {line}\n"));
            }
        }
        for line in &self.outcome {
            io.note(&format!("{line}\n"));
        }
        if imported.outcome.is_some() || self.problems().next().is_some() {
            let text = problems(&self.set, Format::Human, io, io.color, global);
            io.note_colored(&text);
        }
    }
}

/// Returns the document of `-o json`.
fn document(imported: &Imported, review: &Review, out: Option<&Path>) -> Value {
    let problems: Vec<_> =
        review.problems().map(|problem| diag::json::problem(&review.set.sources, problem)).collect();
    json!({
        "format_version": diag::json::FORMAT_VERSION,
        "job": imported.job,
        "manifest": imported.manifest,
        "written": out.map(|out| out.to_string_lossy()),
        "same_request": imported.lost.is_empty(),
        "lost": imported.lost,
        "cannot_say": imported.unsupported,
        "outcome": review.outcome,
        "problems": problems,
    })
}

/// Formats manifest, unsupported members, outcome and problems for a pull request.
fn markdown(imported: &Imported, review: &Review) -> String {
    let mut out = format!("# {}\n\n```kdl\n{}```\n", imported.job, imported.manifest);
    let mut list = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            let lines: Vec<String> = lines.iter().map(|line| format!("- {line}\n")).collect();
            out.push_str(&format!("\n## {title}\n\n{}", lines.concat()));
        }
    };
    list("Cannot say", imported.unsupported.clone());
    list("How the job went", review.outcome.clone());
    let problems = review.problems();
    list(
        "Problems",
        problems.map(|one| format!("{} `{}`: {}", one.severity.word(), one.code.id, one.message)).collect(),
    );
    out
}
