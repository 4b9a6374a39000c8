//! `trainc import`.

use crate::args::Global;
use crate::args::account::AccountArgs;
use crate::exit;
use crate::terminal::io::Io;
use crate::terminal::progress::{LOOKING, Mode, Progress};
use crate::views::account::exit_code;
use crate::views::import::{
    announcement, print_converted, print_problems, print_refusal, print_script_output, summary,
};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trainc_apply::cloud::{Clock, Cloud};
use trainc_apply::fault::Class;
use trainc_apply::look::Look;
use trainc_apply::verdict;
use trainc_catalog::shapes;
use trainc_diag::source::{SourceMap, Span};
use trainc_diag::{Format, Problems};
use trainc_import::conversion::{Converted, Refusal, convert_described, convert_document, convert_recording};
use trainc_import::destination::Destination;
use trainc_import::script::{Script, find_python, is_python};
use trainc_import::script_problem::script_problem;
use trainc_ops::accounts::Task;
use trainc_plan::Options;
use trainc_project::files::{describe, read_named};

/// Maximum size of a request in bytes; the service accepts far less.
const MOST_BYTES: u64 = 4 << 20;

/// Turn a script, a request or an existing training job into a manifest
///
/// Reads a Python script that starts training jobs (SageMaker SDK v2 and v3, boto3), a CreateTrainingJob
/// request or a DescribeTrainingJob response (JSON or YAML, also nested in another document), or the training
/// job of that name from the account. The manifest is compiled, and its header states whether it produces the
/// same request, what differs, or what only the account knows. Credentials are not written: `secret` takes
/// their place.
///
/// A script is run with your Python. Its AWS calls are answered by trainc and not sent: it needs neither
/// credentials nor network. Python's sockets are blocked, `time.sleep` returns at once, and programs that it
/// starts are skipped, except those that only read this machine and `mkdir`. Sockets that C libraries open
/// are not covered.
///
/// A notebook is exported first: `jupyter nbconvert --to script`. Often it downloads data or plots results,
/// which fails here: `--keep-going` skips such statements, and the manifest's header lists their lines.
///
/// A `ModelTrainer` becomes its script, its source and its launcher, and what hyperparameters and the file of
/// arguments say fills `model`, `train` and `adapter`. What is not known is marked by comments and listed on
/// standard error. An existing job is also reviewed, with its cost.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trainc import train_job.py --out job.kdl\n  trainc import sweep.py --out \
        jobs/ --request requests.json -- --epochs 3\n  trainc import request.json > job.kdl\n  trainc \
        import llama-7b-2026-11-21-09-15-10-123 --region us-west-2 --out job.kdl\n  aws sagemaker \
        describe-training-job --training-job-name NAME > job.json\n  trainc import job.json --out \
        job.kdl\n\nExit codes: 0 success, also with errors in the manifest, 3 the script failed, hung or \
        sent no job, or the file contains none; then nothing is written."
)]
pub(crate) struct Args {
    /// Python script, JSON or YAML file, `-` for standard input, or else the name of a training job
    #[arg(value_name = "FILE|JOB")]
    file: String,
    /// Region of the training job, and of a script without one [default: `AWS_REGION`, `AWS_DEFAULT_REGION`]
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    #[command(flatten)]
    account: AccountArgs,
    /// Write the manifest to this file, which must not exist; for several jobs, or with a `/` at the end, to
    /// this directory
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

impl Args {
    fn format(&self) -> Format {
        match self.output.as_str() {
            "json" => Format::Json,
            "markdown" => Format::Markdown,
            _ => Format::Human,
        }
    }

    fn destination(&self) -> Destination {
        let prints_one = self.format() == Format::Human;
        Destination { out: self.out.clone(), request: self.request.clone(), prints_one }
    }
}

/// Returns the options with which imported manifests are compiled.
fn options(io: &Io) -> Options {
    Options { today: io.today.clone(), later_codes: crate::later_codes(), ..Options::default() }
}

/// Prints what was imported, or why nothing was.
fn print_outcome(
    io: &mut Io,
    global: &Global,
    format: Format,
    shown: &str,
    outcome: Result<Vec<Converted>, Refusal>,
) -> u8 {
    match outcome {
        Ok(jobs) => print_converted(io, global, format, jobs),
        Err(refusal) => print_refusal(io, global, format, shown, refusal),
    }
}

/// Runs the command.
pub(crate) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let to = args.destination();
    if let Some(out) = to.occupied() {
        io.note(&format!("error: `{}` already exists; nothing was written\n", out.display()));
        return exit::USAGE;
    }
    let path = Path::new(&args.file);
    if args.file != "-" && fs::symlink_metadata(path).is_err() {
        return import_by_name(io, global, args);
    }
    let bytes = match read_named(path, MOST_BYTES) {
        Ok(bytes) => bytes,
        Err(error) => {
            io.note(&format!("error: `{}` cannot be read: {}\n", args.file, describe(&error)));
            if path.is_dir() {
                io.note("help: pass a file in it: a Python script, or a request as JSON or YAML\n");
            }
            return exit::MANIFEST;
        }
    };
    let text = match trainc_import::decode(&bytes) {
        Ok(text) => text,
        // A script may declare another encoding (PEP 263): Python reads it, and reports what it cannot read.
        Err(_) if path.extension().is_some_and(|end| end == "py") => {
            String::from_utf8_lossy(&bytes).into_owned()
        }
        Err(described) => {
            let mut sources = SourceMap::default();
            let source = sources.add(args.file.as_str(), "");
            let refusal = Refusal::problem(sources, trainc_import::not_text(source, described));
            return print_refusal(io, global, args.format(), &args.file, refusal);
        }
    };
    if args.file != "-" && is_python(path, &text) {
        return import_script(io, global, args, &text);
    }
    let shown = if args.file == "-" { "<stdin>" } else { args.file.as_str() };
    let converted = convert_document(&to, &options(io), shown, &text);
    print_outcome(io, global, args.format(), shown, converted)
}

/// Runs a script and imports the requests that it would have sent.
fn import_script(io: &mut Io, global: &Global, args: &Args, text: &str) -> u8 {
    let path = Path::new(&args.file);
    let script = Script {
        path,
        arguments: &args.arguments,
        python: find_python(args.python.as_deref()),
        timeout: Duration::from_secs(args.timeout),
        keep_going: args.keep_going,
        region: args.region.as_deref(),
    };
    io.note(&announcement(&script));
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
    let mut sources = SourceMap::default();
    let source = sources.add(args.file.as_str(), text);
    if !global.quiet {
        io.note(&sources.mask(&summary(&run.recording)));
    }
    if let Some(problem) = script_problem(&script, &run, source, text) {
        print_script_output(io, &run, &sources);
        return print_refusal(io, global, args.format(), &args.file, Refusal::problem(sources, problem));
    }
    let converted = convert_recording(&args.destination(), &options(io), path, text, &mut run.recording);
    print_outcome(io, global, args.format(), &args.file, converted)
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
        io.note(&format!(
            "error: `{name}` is not a file, and a training job requires a region\nhelp: add \
            `--region us-west-2`\n"
        ));
        return exit::USAGE;
    }
    let describe = Describe {
        name: name.clone(),
        global: global.clone(),
        to: args.destination(),
        format: args.format(),
    };
    match args.account.open(io, None) {
        Ok(mut accounts) => {
            let ended = accounts.run_in_region(io, &region, None, describe);
            exit_code(io, ended)
        }
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
    to: Destination,
    format: Format,
}

impl<'io> Task<Io<'io>> for Describe {
    type Outcome = u8;
    async fn run<C: Cloud, K: Clock>(self, io: &mut Io<'io>, look: Look<'_, C, K>) -> u8 {
        let Self { name, global, to, format } = self;
        let shown = format!("<training job {name}>");
        let progress = Progress::new(Mode::from_flags("human", global.quiet));
        let asked = look.ask(async |cloud| cloud.training_job(&name).await);
        match progress.run_with_spinner(LOOKING, asked).await {
            Ok(job) => {
                let converted = convert_described(&to, &options(io), &shown, job);
                print_outcome(io, &global, format, &shown, converted)
            }
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
                print_problems(io, &global, Format::Human, &shown, sources, found);
                verdict.exit
            }
        }
    }
}
