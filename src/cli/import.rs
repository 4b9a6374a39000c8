//! `trainc import`.

use super::args::{Global, problems};
use super::exit;
use super::io::Io;
use super::manifests::{Manifest, Set};
use super::world::{Files, describe};
use crate::diag::{Format, Problems};
use crate::import::{self, Imported};
use crate::source::SourceMap;
use crate::{Compiled, Options, compile, emit};
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

/// The most bytes of a request that are read: the service takes far less.
const MOST_BYTES: u64 = 4 << 20;

/// Make a manifest of a training job's request, or of a described job
///
/// Reads a CreateTrainingJob request or a DescribeTrainingJob answer, as JSON. The manifest says the same request;
/// what a request does not hold (the model, how it is trained, the source) is asked for in comments and listed on
/// standard error. A described job is also reviewed, with what it cost.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trainc import request.json > job.kdl\n  aws sagemaker describe-training-job --training-job-name NAME > job.json\n  trainc import job.json -o job.kdl"
)]
pub(super) struct Args {
    /// A JSON file, or `-` for standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// Write the manifest here, never over an existing file
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let path = Path::new(&args.file);
    if args.file != "-" && fs::symlink_metadata(path).is_err() {
        io.note(&format!("error: `{}` is no file, and import reads files\n", args.file));
        if !args.file.contains(['/', '.']) {
            io.note(&format!(
                "help: for a job of that name, save it first: `aws sagemaker describe-training-job --training-job-name {} > job.json`\n",
                args.file
            ));
        }
        return exit::USAGE;
    }
    if let Some(out) = args.out.as_deref().filter(|out| fs::symlink_metadata(out).is_ok()) {
        io.note(&format!("error: `{}` is there already; nothing was written\n", out.display()));
        return exit::USAGE;
    }
    let text = match read(&args.file) {
        Ok(text) => text,
        Err(error) => {
            io.note(&format!("error: `{}` cannot be read: {}\n", args.file, describe(&error)));
            return exit::MANIFEST;
        }
    };
    let mut sources = SourceMap::default();
    let shown = if args.file == "-" { "<stdin>" } else { args.file.as_str() };
    let source = sources.add(shown, text.as_str());
    let mut found = Problems::default();
    let Some(imported) = import::import(source, &text, &mut found) else {
        let compiled = Compiled::nothing(found);
        let set = set(shown, compiled, sources);
        let text = problems(&set, Format::Human, io, io.color, global);
        io.note(&text);
        return exit::MANIFEST;
    };
    if let Some(out) = &args.out {
        let written = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(out)
            .and_then(|mut file| file.write_all(imported.manifest.as_bytes()));
        if let Err(error) = written {
            io.note(&format!("error: `{}` cannot be written: {}\n", out.display(), describe(&error)));
            return exit::USAGE;
        }
    } else {
        io.print(&imported.manifest);
    }
    let name = args.out.as_deref().map_or_else(|| "<imported>".to_owned(), |out| out.display().to_string());
    review(io, global, &name, &imported);
    exit::DONE
}

fn read(file: &str) -> std::io::Result<String> {
    let mut text = String::new();
    if file == "-" {
        std::io::stdin().take(MOST_BYTES).read_to_string(&mut text)?;
    } else {
        fs::File::open(file)?.take(MOST_BYTES).read_to_string(&mut text)?;
    }
    Ok(text)
}

fn set(path: &str, compiled: Compiled, sources: SourceMap) -> Set {
    let manifest = Manifest { path: path.to_owned(), sha256: String::new(), compiled };
    Set { sources, manifests: vec![manifest], many: false, root: PathBuf::new() }
}

/// What to know of the manifest: what it cannot say, how the job went, and what `check` says to it.
fn review(io: &mut Io, global: &Global, name: &str, imported: &Imported) {
    let mut sources = SourceMap::default();
    let source = sources.add(name, imported.manifest.as_str());
    let root = std::env::current_dir().unwrap_or_default();
    let options = Options { today: io.today.clone(), ..Options::default() };
    let mut compiled =
        compile(source, &imported.manifest, &options, &mut Files::new(root, &options), &mut sources);
    let mut unsaid = imported.unsaid.clone();
    unsaid.extend(lost(imported, &compiled));
    if !unsaid.is_empty() && !global.quiet {
        io.note("cannot say:\n");
        for line in &unsaid {
            io.note(&format!("  {line}\n"));
        }
    }
    if let Some(outcome) = &imported.outcome {
        for line in outcome.lines() {
            io.note(&format!("{line}\n"));
        }
    } else {
        // A request is only made a manifest of; what would keep it from being one is said.
        compiled.problems.retain(|problem| problem.severity == crate::diag::Severity::Error);
        if compiled.problems.is_empty() {
            return;
        }
    }
    let set = set(name, compiled, sources);
    let text = problems(&set, Format::Human, io, io.color, global);
    io.note(&text);
}

/// Lines of the manifest that its own request does not give back: emitted and imported again, they are missing.
fn lost(imported: &Imported, compiled: &Compiled) -> Vec<String> {
    let Some(plan) = compiled.checked() else { return Vec::new() };
    let request = emit::training_job(plan, &emit::identity(plan)).to_string();
    let Some(again) = import::import(crate::source::SourceId(0), &request, &mut Problems::default()) else {
        return Vec::new();
    };
    let lines = |text: &str| -> Vec<String> {
        text.lines()
            .map(|line| line.trim().to_owned())
            .filter(|line| !line.is_empty() && !line.starts_with("//"))
            .collect()
    };
    let there = lines(&again.manifest);
    lines(&imported.manifest)
        .into_iter()
        .filter(|line| !there.contains(line))
        .map(|line| format!("the request that the manifest makes lacks `{line}`"))
        .collect()
}
