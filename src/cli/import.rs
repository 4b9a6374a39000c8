//! `trainc import`.

use super::account::{AccountArgs, Accounts, Task};
use super::args::{Global, problems};
use super::exit;
use super::files::{Files, describe, is_excluded_from_archive, read_named};
use super::io::Io;
use super::manifest_paths::root_of;
use super::manifests::{Manifest, Set};
use super::progress::{LOOKING, Mode, Progress};
use crate::import::{self, Imported, Origin, Recording};
use script::{Script, ScriptRun};
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trainc_apply::account::TrainingJob;
use trainc_apply::cloud::{Clock, Cloud};
use trainc_apply::fault::Class;
use trainc_apply::look::Look;
use trainc_apply::verdict;
use trainc_catalog::shapes;
use trainc_check::compile;
use trainc_diag::markdown::{code_block, escape_cell};
use trainc_diag::source::{SourceId, SourceMap, Span};
use trainc_diag::{self as diag, Diagnostic, Format, Problems, Severity};
use trainc_plan::Compiled;
use trainc_plan::Options;

mod script;

/// Maximum size of a request in bytes; the service accepts far less.
const MOST_BYTES: u64 = 4 << 20;

/// Turn a script, a request or an existing training job into a manifest
///
/// Reads a Python script that starts training jobs (SageMaker SDK v2 and v3, boto3), a CreateTrainingJob request or a
/// DescribeTrainingJob response (JSON or YAML, also nested in another document), or the training job of that name from the
/// account. The manifest is compiled, and its header states whether it produces the same request, what differs, or what only
/// the account knows. Credentials are not written: `secret` takes their place.
///
/// A script is run with your Python. Its AWS calls are answered by trainc and not sent: it needs neither credentials nor
/// network. Python's sockets are blocked, `time.sleep` returns at once, and programs that it starts are skipped, except those
/// that only read this machine and `mkdir`. Sockets that C libraries open are not covered.
///
/// A notebook is exported first: `jupyter nbconvert --to script`. Often it downloads data or plots results, which fails here:
/// `--keep-going` skips such statements, and the manifest's header lists their lines.
///
/// What a request does not contain (model, hyperparameters, source) is marked by comments and listed on standard error.
/// An existing job is also reviewed, with its cost.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trainc import train_job.py --out job.kdl\n  trainc import sweep.py --out jobs/ --request requests.json -- --epochs 3\n  trainc import request.json > job.kdl\n  trainc import llama-7b-2026-11-21-09-15-10-123 --region us-west-2 --out job.kdl\n  aws sagemaker describe-training-job --training-job-name NAME > job.json\n  trainc import job.json --out job.kdl\n\nExit codes: 0 success, also with errors in the manifest, 3 the script failed, hung or sent no job, or the file contains none; then nothing is written."
)]
pub(super) struct Args {
    /// Python script, JSON or YAML file, `-` for standard input, or else the name of a training job
    #[arg(value_name = "FILE|JOB")]
    file: String,
    /// Region of the training job, and of a script without one [default: `AWS_REGION`, `AWS_DEFAULT_REGION`]
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    #[command(flatten)]
    account: AccountArgs,
    /// Write the manifest to this file, which must not exist; for several jobs, or with a `/` at the end, to this directory
    #[arg(long, value_name = "FILE|DIR")]
    out: Option<PathBuf>,
    /// Also write the request to this file, which must not exist; for several jobs an array
    #[arg(long, value_name = "FILE")]
    request: Option<PathBuf>,
    /// Python that runs a script [default: the active virtual environment, or `python3`]
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// Skip statements of the script that fail, as when a file, a package or a download is missing
    #[arg(long)]
    keep_going: bool,
    /// Seconds after which a script is ended
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Output format: human, json or markdown
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = ["human", "json", "markdown"])]
    output: String,
    /// Arguments of the script
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

/// Destination of the manifests, and format of the review.
#[derive(Clone)]
struct Sink {
    out: Option<PathBuf>,
    request: Option<PathBuf>,
    format: Format,
}

impl Args {
    fn sink(&self) -> Sink {
        let format = match self.output.as_str() {
            "json" => Format::Json,
            "markdown" => Format::Markdown,
            _ => Format::Human,
        };
        Sink { out: self.out.clone(), request: self.request.clone(), format }
    }
}

/// Runs the command.
pub(super) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    for out in [&args.out, &args.request].into_iter().flatten() {
        if fs::symlink_metadata(out).is_ok() && !(out.is_dir() && Some(out) == args.out.as_ref()) {
            io.note(&format!("error: `{}` already exists; nothing was written\n", out.display()));
            return exit::USAGE;
        }
    }
    if args.file != "-" && fs::symlink_metadata(Path::new(&args.file)).is_err() {
        return import_by_name(io, global, args);
    }
    let bytes = match read_named(Path::new(&args.file), MOST_BYTES) {
        Ok(bytes) => bytes,
        Err(error) => {
            io.note(&format!("error: `{}` cannot be read: {}\n", args.file, describe(&error)));
            if Path::new(&args.file).is_dir() {
                io.note("help: pass a file in it: a Python script, or a request as JSON or YAML\n");
            }
            return exit::MANIFEST;
        }
    };
    let text = match import::decode(&bytes) {
        Ok(text) => text,
        // A script may declare another encoding (PEP 263): Python reads it, and reports what it cannot read.
        Err(_) if Path::new(&args.file).extension().is_some_and(|end| end == "py") => {
            String::from_utf8_lossy(&bytes).into_owned()
        }
        Err(described) => {
            let mut sources = SourceMap::default();
            let source = sources.add(args.file.as_str(), "");
            let problem = import::not_text(source, described);
            return reject(io, global, &args.sink(), &args.file, sources, problem);
        }
    };
    if args.file != "-" && script::is_python(Path::new(&args.file), &text) {
        return import_script(io, global, args, &text);
    }
    let shown = if args.file == "-" { "<stdin>" } else { args.file.as_str() };
    import_request(io, global, &args.sink(), shown, &text)
}

/// Runs a script and imports the requests that it would have sent.
fn import_script(io: &mut Io, global: &Global, args: &Args, text: &str) -> u8 {
    let path = Path::new(&args.file);
    let script = Script {
        path,
        arguments: &args.arguments,
        python: script::find_python(args.python.as_deref()),
        timeout: Duration::from_secs(args.timeout),
        keep_going: args.keep_going,
        region: args.region.as_deref(),
    };
    script.announce(io);
    let mut run = match script.run() {
        Ok(run) => run,
        Err(reason) => {
            let help = match args.python {
                Some(_) => "`--python` expects an executable, such as `.venv/bin/python`",
                None => "add `--python PATH`",
            };
            io.note(&format!("error: {reason}\nhelp: {help}\n"));
            return exit::USAGE;
        }
    };
    if run.stopped {
        io.note("stopped; nothing was written\n");
        return exit::INCOMPLETE;
    }
    if args.keep_going && run.hang.is_some() && run.recording.jobs() > 0 {
        // It waits for a result of a job, which no account gives.
        let line = run.hang.take().and_then(|hang| script::line_in_traceback(&hang, path));
        run.recording.stopped = Some((format!("the script did not end within {} s", args.timeout), line));
        run.recording.ended = true;
    }
    let mut sources = SourceMap::default();
    let source = sources.add(args.file.as_str(), text);
    if !global.quiet {
        io.note(&sources.mask(&script::summary(&run.recording)));
    }
    if let Some(problem) = script_problem(&run, source, text, args) {
        print_script_output(io, &run, &sources);
        return reject(io, global, &args.sink(), &args.file, sources, problem);
    }
    for source in run.recording.sources.values_mut() {
        source.others.retain(|name| !is_excluded_from_archive(name.trim_end_matches('/')));
    }
    let directory = manifest_directory(args.out.as_deref());
    if let Some(words) = source_outside_root(args, &run.recording, &directory) {
        io.note(&words);
        return exit::USAGE;
    }
    let mut jobs = Vec::new();
    for document in &run.recording.documents {
        let mut origin = Origin::from_recording(&args.file, document, &run.recording, &directory);
        let with_sources = import::import_document(&document.value, &origin);
        origin.sources.clear();
        let without = import::import_document(&document.value, &origin);
        jobs.extend(with_sources.into_iter().zip(without));
    }
    import_jobs(io, global, &args.sink(), Document { shown: &args.file, source, sources }, jobs)
}

/// Prints the traceback of a script, or the end of what it printed.
fn print_script_output(io: &mut Io, run: &ScriptRun, sources: &SourceMap) {
    const LAST_LINES: usize = 20;
    let traceback = run.recording.failure.as_ref().map(|failure| &failure.traceback);
    let printed: Vec<&str> = run.output.lines().collect();
    let last = printed.get(printed.len().saturating_sub(LAST_LINES)..).unwrap_or_default();
    if !last.is_empty() {
        io.note("the script printed:\n");
        for line in last {
            io.note(&sources.mask(&format!("  {line}\n")));
        }
    }
    for line in traceback.or(run.hang.as_ref()).into_iter().flat_map(|text| text.lines()) {
        io.note(&sources.mask(&format!("  {line}\n")));
    }
}

/// Returns why a run has no jobs to import.
fn script_problem(run: &ScriptRun, source: SourceId, text: &str, args: &Args) -> Option<Diagnostic> {
    let path = Path::new(&args.file);
    let recording = &run.recording;
    let at = |line: Option<usize>| line.map_or(Span::whole(source), |line| line_span(source, text, line));
    if let Some(failure) = &recording.failure {
        let message = format!("the script failed: {}", failure.message);
        let found = Diagnostic::new(&import::T0691, at(failure.line), message);
        let found = import::describe_script(&format!("{text}\n{}", failure.message), found);
        let is = |kind: &str| failure.message.starts_with(kind);
        let environment =
            "run it in the environment that has its packages: `trainc import --python .venv/bin/python …`";
        const SKIP: &str = "`--keep-going` skips the statements that fail";
        return Some(match () {
            () if found.help.is_some() || args.keep_going => found,
            () if is("ModuleNotFoundError") => found.help(format!("{environment}; {SKIP}")),
            // It can skip the cell of a notebook, but not the whole script.
            () if is("SyntaxError") && !text.contains("\n# In[") => found,
            () => found.help(SKIP),
        });
    }
    if !recording.ended {
        let hang = run.hang.as_deref().filter(|hang| !hang.is_empty());
        let Some(hang) = hang else {
            let message = "the script ended without a result";
            return Some(Diagnostic::new(&import::T0691, at(None), message));
        };
        let line = script::line_in_traceback(hang, path);
        let message = format!("the script did not end within {} s", args.timeout);
        return Some(
            Diagnostic::new(&import::T0693, at(line), message)
                .help(format!("give it more time: `--timeout {}`", args.timeout * 5)),
        );
    }
    (recording.jobs() == 0).then(|| {
        let found = Diagnostic::new(&import::T0692, at(None), "the script created no training job");
        let messages = recording.ignored.iter().map(|one| one.message.as_str());
        let texts: Vec<&str> = std::iter::once(text).chain(messages).collect();
        let found = import::describe_script(&texts.join("\n"), found);
        let calls = recording.describe_calls();
        let found = match calls.as_str() {
            "" => found.note("it called no AWS service"),
            calls => found.note(format!("it called {calls}")),
        };
        match recording.ignored.len() as u64 {
            0 => found,
            count => {
                let count = trainc_diag::text::count(count, "statement");
                let was = if recording.ignored.len() == 1 { "was" } else { "were" };
                let has_help = found.help.is_some();
                let found = found.note(format!("{count} failed and {was} skipped"));
                if has_help {
                    found
                } else {
                    found.help("correct those that the training job needs, the first one first")
                }
            }
        }
    })
}

/// Returns the span of a line, from 1, without its indentation.
fn line_span(source: SourceId, text: &str, line: usize) -> Span {
    let mut start = 0;
    for (index, content) in text.split_inclusive('\n').enumerate() {
        if index + 1 == line {
            let indent = content.len() - content.trim_start().len();
            let end = start + content.trim_end().len();
            return Span::new(source, (start + indent).min(end), end);
        }
        start += content.len();
    }
    Span::whole(source)
}

/// Returns the absolute path of the directory that gets the manifests.
fn manifest_directory(out: Option<&Path>) -> PathBuf {
    let current = std::env::current_dir().unwrap_or_default();
    let directory = match out {
        Some(out) if is_directory(out) => out,
        Some(out) => out.parent().unwrap_or(Path::new("")),
        None => Path::new(""),
    };
    let directory = current.join(directory);
    // It may be made only then: what exists of it is resolved, so that no `..` is left.
    let existing = directory.ancestors().find_map(|found| Some((found.canonicalize().ok()?, found)));
    existing
        .and_then(|(resolved, found)| Some(resolved.join(directory.strip_prefix(found).ok()?)))
        .unwrap_or(directory)
}

/// Returns why a manifest in this directory could not name the sources of the script, and where it can.
fn source_outside_root(args: &Args, recording: &Recording, directory: &Path) -> Option<String> {
    let root = root_of(&directory.join("job.kdl"), None);
    // Those of a repository are fetched.
    let sources = recording.sources.values().filter(|source| source.git.is_none());
    let paths: Vec<PathBuf> = sources
        .flat_map(|source| std::iter::once(&source.directory).chain(&source.dependencies))
        .map(|path| Path::new(path).canonicalize().unwrap_or_else(|_| PathBuf::from(path)))
        .collect();
    let outside = paths.iter().find(|path| !path.starts_with(&root))?;
    // The directory of the script if that contains all, otherwise the nearest above all sources.
    let script = Path::new(&args.file).canonicalize().ok()?;
    let mut places = script.parent().into_iter().chain(paths.first()?.ancestors().skip(1));
    let place = places.find(|place| paths.iter().all(|path| path.starts_with(place)))?;
    let current = std::env::current_dir().unwrap_or_default();
    let place = match place.strip_prefix(&current) {
        Ok(inside) => Path::new(".").join(inside),
        Err(_) => place.to_path_buf(),
    };
    let out = match &args.out {
        Some(out) if !is_directory(out) => {
            place.join(out.file_name().unwrap_or_default()).display().to_string()
        }
        // With a slash at the end.
        _ => place.join("").display().to_string(),
    };
    Some(format!(
        "error: a manifest in `{}` cannot name the source `{}`: it is outside the root directory, which is the nearest parent \
directory with `.git`, otherwise the current directory if it contains the manifest; nothing was written\nhelp: `--out {}`\n",
        directory.display(),
        outside.display(),
        trainc_emit::quote(&out)
    ))
}

/// Returns true if `--out` names a directory.
fn is_directory(out: &Path) -> bool {
    out.is_dir() || out.as_os_str().to_string_lossy().ends_with('/')
}

/// Imports a training job of the account by its name.
fn import_by_name(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let name = &args.file;
    let is_name = shapes::validate("CreateTrainingJob", &json!({"TrainingJobName": name}))
        .is_some_and(|faults| faults.iter().all(|fault| fault.path != "TrainingJobName"));
    if !is_name {
        io.note(&format!("error: `{name}` does not exist, and is not a valid name of a training job\n"));
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

/// Imports the requests of a document.
fn import_request(io: &mut Io, global: &Global, sink: &Sink, shown: &str, text: &str) -> u8 {
    let mut sources = SourceMap::default();
    let source = sources.add(shown, text);
    let mut found = Problems::default();
    let Some(jobs) = import::import_all(source, shown, text, &mut found) else {
        return reject_all(io, global, sink, shown, sources, found);
    };
    let jobs = jobs.into_iter().map(|job| (job.clone(), job)).collect();
    import_jobs(io, global, sink, Document { shown, source, sources }, jobs)
}

fn reject(
    io: &mut Io,
    global: &Global,
    sink: &Sink,
    shown: &str,
    sources: SourceMap,
    found: Diagnostic,
) -> u8 {
    let mut problems = Problems::default();
    problems.push(found);
    reject_all(io, global, sink, shown, sources, problems)
}

/// Prints why nothing is imported.
fn reject_all(
    io: &mut Io,
    global: &Global,
    sink: &Sink,
    shown: &str,
    sources: SourceMap,
    found: Problems,
) -> u8 {
    let set = set(shown, Compiled::unreadable_file(found), sources);
    match sink.format {
        Format::Json => io.print_verbatim(&problems(&set, sink.format, io, false, global)),
        _ => io.note_colored(&problems(&set, Format::Human, io, io.color, global)),
    }
    exit::MANIFEST
}

/// A file that was imported.
struct Document<'a> {
    shown: &'a str,
    source: SourceId,
    sources: SourceMap,
}

/// A job with the path of its manifest.
struct Destined {
    imported: Imported,
    out: Option<PathBuf>,
    name: String,
}

/// Compiles and writes the manifests of jobs, and prints the reviews. Each job comes with the source of its program and
/// without it, for a source that cannot be used.
fn import_jobs(
    io: &mut Io,
    global: &Global,
    sink: &Sink,
    input: Document,
    jobs: Vec<(Imported, Imported)>,
) -> u8 {
    let (mut jobs, mut without_source): (Vec<_>, Vec<_>) = jobs.into_iter().unzip();
    let many = jobs.len() > 1;
    if many && sink.out.is_none() && sink.format == Format::Human {
        let several = import::several_jobs(input.source, jobs.len());
        return reject(io, global, sink, input.shown, input.sources, several);
    }
    import::rename_duplicates(&mut jobs);
    import::rename_duplicates(&mut without_source);
    let mut done: Vec<Destined> = Vec::new();
    for (job, without_source) in jobs.into_iter().zip(without_source) {
        let out = sink.out.as_ref().map(|out| {
            let in_directory = many || is_directory(out);
            if in_directory { out.join(format!("{}.kdl", job.job)) } else { out.clone() }
        });
        let name = out.as_ref().map_or_else(|| "<imported>".to_owned(), |out| out.display().to_string());
        let mut imported = job.reconcile(|manifest| compiled(io, &name, manifest).0);
        if imported.has_source && !imported.lost.is_empty() {
            let mut other = without_source.reconcile(|manifest| compiled(io, &name, manifest).0);
            if other.lost.len() < imported.lost.len() {
                let (found, sources) = compiled(io, &name, &imported.manifest);
                let errors = found.problems.iter().filter(|one| one.severity == Severity::Error);
                let errors = errors.map(|one| one.masked(&sources).message);
                other.unsupported.extend(errors.map(|message| format!("`program source=`: {message}")));
                imported = other;
            }
        }
        done.push(Destined { imported, out, name });
    }
    if let Err(reason) = write_all(sink, &done) {
        io.note(&format!("error: {reason}; nothing was written\n"));
        return exit::USAGE;
    }
    let mut documents = Vec::new();
    for Destined { imported, out, name } in &done {
        let review = review(io, name, imported);
        match sink.format {
            Format::Json => documents.push(document(imported, &review, out.as_deref())),
            Format::Markdown => io.print_unwrapped(&markdown(imported, &review)),
            _ => {
                match out {
                    Some(out) => io.note(&format!("wrote {}: {}\n", out.display(), imported.verdict())),
                    None => io.print_verbatim(&imported.manifest),
                }
                review.print_review(io, global, imported, out.as_deref());
            }
        }
    }
    if sink.format == Format::Json {
        let shown = if many { Value::from(documents) } else { documents.pop().unwrap_or_default() };
        io.print_json(&format!("{shown:#}\n"));
    }
    exit::DONE
}

/// Writes manifests and requests, all or none.
fn write_all(sink: &Sink, jobs: &[Destined]) -> Result<(), String> {
    let requests: Vec<&Value> = jobs.iter().map(|job| &job.imported.request).collect();
    let request = match requests.as_slice() {
        [one] => format!("{one:#}\n"),
        many => format!("{:#}\n", json!(many)),
    };
    let manifests = jobs.iter().filter_map(|job| Some((job.out.as_deref()?, job.imported.manifest.as_str())));
    let files: Vec<(&Path, &str)> =
        manifests.chain(sink.request.as_deref().map(|path| (path, request.as_str()))).collect();
    if let Some((path, _)) = files.iter().find(|(path, _)| fs::symlink_metadata(path).is_ok()) {
        return Err(format!("`{}` already exists", path.display()));
    }
    for (path, text) in files {
        let parent = path.parent().filter(|parent| jobs.len() > 1 || Some(*parent) == sink.out.as_deref());
        parent
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::OpenOptions::new().write(true).create_new(true).open(path))
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| format!("`{}` cannot be written: {}", path.display(), describe(&error)))?;
    }
    Ok(())
}

fn set(path: &str, compiled: Compiled, sources: SourceMap) -> Set {
    let manifest = Manifest::new(path, String::new(), compiled);
    Set { sources, manifests: vec![manifest], many: false, root: PathBuf::new(), constants: None }
}

fn compiled(io: &Io, name: &str, manifest: &str) -> (Compiled, SourceMap) {
    let mut sources = SourceMap::default();
    let source = sources.add(name, manifest);
    // As for a manifest that has been written.
    let root = root_of(&manifest_directory(Some(Path::new(name))).join("job.kdl"), None);
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
        compiled.problems.retain(|problem| problem.severity == Severity::Error);
    }
    let outcome = imported.outcome.as_ref().map(import::Outcome::lines).unwrap_or_default();
    Review { outcome, set: set(name, compiled, sources) }
}

impl Review {
    fn problems(&self) -> impl Iterator<Item = &Diagnostic> {
        self.set.manifests.iter().flat_map(|manifest| manifest.compiled.problems.iter())
    }

    /// Prints the review for people to standard error.
    fn print_review(&self, io: &mut Io, global: &Global, imported: &Imported, out: Option<&Path>) {
        for (title, lines) in imported.lists().filter(|_| !global.quiet) {
            io.note(&format!("{}:\n", title.to_lowercase()));
            for line in lines {
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
        let errors = self.problems().filter(|one| one.severity == Severity::Error).count();
        if errors > 0 {
            let counted = trainc_diag::text::count(errors as u64, "error");
            let check = match out {
                Some(out) => format!("trainc check {}", trainc_emit::quote(&out.display().to_string())),
                None => "trainc check FILE".to_owned(),
            };
            io.note(&format!("the manifest has {counted}: edit it, then `{check}`\n"));
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
        "same_request": imported.lost.is_empty() && imported.unknown.is_empty() && !imported.is_tuned,
        "lost": imported.lost,
        "unknown": imported.unknown,
        "caveats": imported.caveats,
        "cannot_say": imported.unsupported,
        "outcome": review.outcome,
        "problems": problems,
    })
}

/// Formats manifest, unsupported members, outcome and problems for a pull request.
fn markdown(imported: &Imported, review: &Review) -> String {
    let job = escape_cell(&imported.job);
    let mut out = format!("# {job}\n\n{}", code_block("kdl", &imported.manifest));
    let mut list = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            let lines: Vec<String> = lines.iter().map(|line| format!("- {}\n", escape_cell(line))).collect();
            out.push_str(&format!("\n## {title}\n\n{}", lines.concat()));
        }
    };
    for (title, lines) in imported.lists() {
        list(title, lines);
    }
    list("How the job went", review.outcome.clone());
    let problems = review.problems();
    list(
        "Problems",
        problems
            .map(|one| one.masked(&review.set.sources))
            .map(|one| format!("{} `{}`: {}", one.severity.word(), one.code.id, one.message))
            .collect(),
    );
    out
}
