//! `trainc emit`.

use super::args::{Global, Input, problems};
use super::directory::{self, Target, Tree};
use super::exit;
use super::io::Io;
use super::manifests::{Set, compile_all};
use crate::Options;
use crate::diag::Format;
use crate::emit::canonical;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Write everything that a manifest becomes into a directory
///
/// Definitions, the source archive's content, and the plan: `plan.json`, `plan.md`, and `report.html` with pictures, one
/// file that loads nothing. The same manifest gives the same bytes. Nothing is written if any manifest has an error; all directories are
/// written, or none. A directory that holds a file that `emit` did not write is refused, and the file named.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  trainc emit job.kdl --out generated/\n  trainc emit jobs/ --out generated/ --check"
)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,
    /// The directory to write; several manifests make one directory each below it
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Write nothing; exit with 4 if the directory differs
    #[arg(long)]
    check: bool,
}

/// Runs the command.
pub(super) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let paths = match args.input.named.paths("emit --out generated/") {
        Ok(paths) => paths,
        Err(why) => {
            io.note(&why);
            return exit::USAGE;
        }
    };
    let options = args.input.options(io, true);
    let mut set = compile_all(&paths, &options);
    let code = args.input.exit(&set);
    let text = problems(&set, Format::Human, io, io.color, global);
    io.note(&text);
    args.input.say_denied(io, &set, global.quiet);
    let errors: usize = set.manifests.iter().map(|m| m.compiled.problems.errors()).sum();
    if errors > 0 || code != exit::DONE {
        return if code == exit::DONE { exit::DONE } else { exit::MANIFEST };
    }
    settle(&mut set);
    let targets = targets(&set, &args.out, &options);
    if args.check {
        let different = directory::differences(&targets);
        for line in &different {
            io.print(&format!("{line}\n"));
        }
        return if different.is_empty() { exit::DONE } else { exit::DIFFERENT };
    }
    if let Err(why) = directory::replace_all(&targets) {
        io.note(&format!("error: {why}; nothing was written\n"));
        return exit::USAGE;
    }
    if !global.quiet {
        for Target { dir, tree } in &targets {
            let files = crate::text::count(tree.len() as u64, "file");
            io.note(&format!("wrote {} ({files})\n", dir.display()));
        }
    }
    code
}

/// Takes out of the reports what would change without the manifest: the calendar, and from where it was read.
fn settle(set: &mut Set) {
    let root = set.root.clone();
    let rooted = |name: &str| match Path::new(name).canonicalize() {
        Ok(path) => path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned(),
        Err(_) => name.to_owned(),
    };
    set.sources.rename(rooted);
    for manifest in &mut set.manifests {
        manifest.path = rooted(&manifest.path);
        manifest.compiled.problems.retain(|problem| !crate::check::is_dated(problem.code));
    }
}

/// The files of each job's directory.
fn targets(set: &Set, out: &Path, options: &Options) -> Vec<Target> {
    let mut targets = Vec::new();
    for manifest in &set.manifests {
        let Some(plan) = manifest.compiled.checked() else { continue };
        let bundle = crate::emit::emit(plan);
        let dir = if set.many {
            out.join(manifest.compiled.job.as_deref().unwrap_or("job"))
        } else {
            out.to_path_buf()
        };
        let mut tree: Tree =
            bundle.files.into_iter().map(|(path, bytes)| (PathBuf::from(path), bytes)).collect();
        tree.insert(PathBuf::from("plan.md"), super::plan::markdown(manifest, set).into_bytes());
        let document = super::plan::document(manifest, set);
        let page = super::plan::pictures(manifest, set, &document, options);
        tree.insert(PathBuf::from("report.html"), page.into_bytes());
        if let Ok(mut value) = serde_json::to_value(&document) {
            let name = PathBuf::from("plan.json");
            // By this list the next `emit` tells its own files from yours.
            let files: BTreeSet<&Path> = tree.keys().map(PathBuf::as_path).chain([name.as_path()]).collect();
            if let Some(members) = value.as_object_mut() {
                let files = files.iter().map(|path| path.to_string_lossy()).collect();
                members.insert("files".to_owned(), files);
            }
            tree.insert(name, canonical::pretty(&value).into_bytes());
        }
        targets.push(Target { dir, tree });
    }
    targets
}
