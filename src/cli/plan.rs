//! `trainc plan`.

use super::args::{Global, Input, problems};
use super::io::Io;
use super::manifests::{Manifest, Set, compile_all};
use crate::diag::Format;
use crate::emit::{Identity, quoted};
use crate::report::human::{Depth, Problems};
use crate::report::json::Document;
use crate::report::{self, Options, Subject};

/// Show what a manifest comes to: the mesh, the batch, the cost, and what would be made
///
/// The mesh is how the GPUs divide the work: copies of the model, and the GPUs over which each copy is split. Checks
/// first. With `--offline` it needs no credentials and compares with nothing.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trainc plan --offline job.kdl\n  trainc plan --offline job.kdl -v\n  trainc plan --offline jobs/ -o json"
)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,
    /// Compare with nothing: no credentials, no network
    #[arg(long)]
    offline: bool,
    /// How to write: human, json or markdown
    #[arg(short, long, value_name = "FORMAT", default_value = "human", value_parser = ["human", "json", "markdown"])]
    output: String,
    /// Exit with 4 if the account differs from the plan; with `--offline` there is nothing to compare
    #[arg(long)]
    detailed_exit_code: bool,
}

/// Columns of the short plan, on a wider terminal too: it is read in logs and pasted into mails.
const SCREEN: usize = 80;

/// One manifest, ready to be reported.
struct Ready<'a> {
    manifest: &'a Manifest,
    set: &'a Set,
    identity: Option<Identity>,
}

impl<'a> Ready<'a> {
    fn new(manifest: &'a Manifest, set: &'a Set) -> Self {
        Self { manifest, set, identity: manifest.compiled.checked().map(crate::emit::identity) }
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            path: &self.manifest.path,
            sha256: &self.manifest.sha256,
            job: self.manifest.compiled.job.as_deref(),
            plan: self.manifest.compiled.plan.as_ref(),
            identity: self.identity.as_ref(),
            prediction: &self.manifest.compiled.prediction,
            problems: &self.manifest.compiled.problems,
            sources: &self.set.sources,
        }
    }
}

/// Runs the command.
pub(super) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let paths = match args.input.named.paths("plan --offline") {
        Ok(paths) => paths,
        Err(why) => {
            io.note(&why);
            return super::exit::USAGE;
        }
    };
    let set = compile_all(&paths, &args.input.options(io, false));
    if !args.offline && !global.quiet {
        io.note("note: this version does not compare with the account; planned as with `--offline`\n");
    }
    let ready: Vec<Ready> = set.manifests.iter().map(|manifest| Ready::new(manifest, &set)).collect();
    let documents: Vec<Document> =
        ready.iter().map(|one| report::document::document(&one.subject())).collect();
    match args.output.as_str() {
        "json" => json(io, &set, &documents),
        "markdown" => {
            let jobs: Vec<(Subject, &Document)> = ready.iter().map(Ready::subject).zip(&documents).collect();
            io.print(&report::markdown::plans(&jobs));
        }
        _ => human(io, global, args, &set, &ready, &documents),
    }
    // Offline nothing differs, so that `--detailed-exit-code` asks for no code of its own.
    let _ = args.detailed_exit_code;
    args.input.say_denied(io, &set, global.quiet);
    args.input.exit(&set)
}

fn json(io: &mut Io, set: &Set, documents: &[Document]) {
    let text = match documents {
        [one] if !set.many => serde_json::to_string_pretty(one),
        _ => serde_json::to_string_pretty(documents),
    };
    match text {
        Ok(text) => io.print(&format!("{text}\n")),
        Err(error) => io.note(&format!("error: {error}\n")),
    }
}

fn human(io: &mut Io, global: &Global, args: &Args, set: &Set, ready: &[Ready], documents: &[Document]) {
    let depth = if global.verbose { Depth::Origins } else { Depth::Screen };
    let width = if depth == Depth::Screen { io.width.min(SCREEN) } else { io.width };
    let options = Options { color: io.color, unicode: io.unicode, width };
    let errors: usize = set.manifests.iter().map(|manifest| manifest.compiled.problems.errors()).sum();
    let place = if errors > 0 { Problems::Above } else { Problems::Here };
    if place == Problems::Above {
        let text = problems(set, Format::Human, io, io.color, global);
        io.print(&text);
    }
    let rule = if io.unicode { "─" } else { "-" };
    for (at, (one, document)) in ready.iter().zip(documents).enumerate() {
        let subject = one.subject();
        if subject.plan.is_none() {
            // Its problems stand above, and there is nothing else to say.
            continue;
        }
        if at > 0 || place == Problems::Above {
            io.print(&format!("\n{}\n\n", rule.repeat(options.width.min(SCREEN))));
        }
        io.print(&report::human::plan(&subject, document, depth, place, options));
    }
    io.print("\n");
    if ready.len() > 1 {
        let subjects: Vec<Subject> = ready.iter().map(Ready::subject).collect();
        io.print(&report::human::total(&subjects, options));
    }
    io.print(&report::human::next(&next(args, errors), options));
}

/// The command to type next: the same manifests and layers, one step on.
fn next(args: &Args, errors: usize) -> String {
    let input = &args.input;
    let mut words = vec!["trainc".to_owned(), if errors > 0 { "check" } else { "emit" }.to_owned()];
    words.extend(input.named.manifests.iter().map(|path| quoted(path)));
    if let Some(env) = &input.env {
        words.extend(["--env".to_owned(), quoted(env)]);
    }
    for set in &input.sets {
        words.extend(["--set".to_owned(), quoted(set)]);
    }
    if let Some(account) = &input.account {
        words.extend(["--account".to_owned(), quoted(account)]);
    }
    if errors == 0 {
        words.extend(["--out".to_owned(), "generated/".to_owned()]);
    }
    words.join(" ")
}

/// The plan of one manifest for scripts.
pub(super) fn document(manifest: &Manifest, set: &Set) -> Document {
    report::document::document(&Ready::new(manifest, set).subject())
}

/// The plan of one manifest for a pull request.
pub(super) fn markdown(manifest: &Manifest, set: &Set) -> String {
    let ready = Ready::new(manifest, set);
    let subject = ready.subject();
    report::markdown::plan(&subject, &report::document::document(&subject))
}
