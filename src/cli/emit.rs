//! `trainc emit`.

use super::args::{Global, Input, problems};
use super::exit;
use super::io::Io;
use super::manifests::{Set, compile_all};
use crate::diag::Format;
use crate::emit::canonical;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Write everything that a manifest becomes into a directory
///
/// The same manifest gives the same bytes. Nothing is written if any manifest has an error, and what is written
/// appears whole or not at all.
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

type Tree = BTreeMap<PathBuf, Vec<u8>>;

/// Runs the command.
pub(super) fn run(io: &mut Io, global: &Global, args: &Args) -> u8 {
    let mut set = compile_all(&args.input.manifests, &args.input.options(io, true));
    let code = args.input.exit(&set);
    let text = problems(&set, Format::Human, io, io.color, global);
    io.note(&text);
    let errors: usize = set.manifests.iter().map(|m| m.compiled.problems.errors()).sum();
    if errors > 0 || code != exit::DONE {
        return if code == exit::DONE { exit::DONE } else { exit::MANIFEST };
    }
    settle(&mut set);
    let trees = trees(&set, &args.out);
    if args.check {
        let different = differences(&trees);
        for line in &different {
            io.print(&format!("{line}\n"));
        }
        return if different.is_empty() { exit::DONE } else { exit::DIFFERENT };
    }
    let refused = |io: &mut Io, dir: &Path, error: &std::io::Error| {
        let why = super::world::describe(error);
        io.note(&format!("error: `{}` cannot be written: {why}\n", dir.display()));
        exit::USAGE
    };
    // All are looked at before the first is written: no job is new beside another that stayed old.
    for (dir, _) in &trees {
        if let Err(error) = replaceable(dir) {
            return refused(io, dir, &error);
        }
    }
    for (dir, tree) in &trees {
        if let Err(error) = replace(dir, tree) {
            return refused(io, dir, &error);
        }
        if !global.quiet {
            io.note(&format!(
                "wrote {} ({})\n",
                dir.display(),
                crate::text::count(tree.len() as u64, "file")
            ));
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
fn trees(set: &Set, out: &Path) -> Vec<(PathBuf, Tree)> {
    let mut trees = Vec::new();
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
        let document = super::plan::document(manifest, set);
        if let Ok(value) = serde_json::to_value(&document) {
            tree.insert(PathBuf::from("plan.json"), canonical::pretty(&value).into_bytes());
        }
        tree.insert(PathBuf::from("plan.md"), super::plan::markdown(manifest, set).into_bytes());
        trees.push((dir, tree));
    }
    trees
}

/// What differs between the directories and what would be written, one line each.
fn differences(trees: &[(PathBuf, Tree)]) -> Vec<String> {
    let mut out = Vec::new();
    for (dir, tree) in trees {
        let mut there = Tree::new();
        read_all(dir, dir, &mut there);
        for (path, bytes) in tree {
            match there.get(path) {
                None => out.push(format!("missing    {}", dir.join(path).display())),
                Some(old) if old != bytes => out.push(format!("different  {}", dir.join(path).display())),
                Some(_) => {}
            }
        }
        for path in there.keys().filter(|path| !tree.contains_key(*path)) {
            out.push(format!("surplus    {}", dir.join(path).display()));
        }
    }
    out
}

fn read_all(root: &Path, dir: &Path, out: &mut Tree) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            read_all(root, &path, out);
        } else if let (Ok(relative), Ok(bytes)) = (path.strip_prefix(root), fs::read(&path)) {
            out.insert(relative.to_path_buf(), bytes);
        }
    }
}

/// What may lie at the top of a directory that `emit` wrote.
const WRITTEN: [&str; 7] = ["fsx", "iam", "plan.json", "plan.md", "sagemaker", "source", "worker"];

/// Whether a directory may be replaced: it is empty, or an earlier `emit` wrote it and nobody put anything beside.
/// `plan.json` alone says too little: `plan -o json` writes one next to the manifest, and other tools have theirs.
fn is_ours(dir: &Path) -> bool {
    let Ok(entries) = fs::read_dir(dir) else { return false };
    let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    let is_plan = || {
        let plan = fs::read(dir.join("plan.json")).ok();
        plan.and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok())
            .is_some_and(|plan| plan.get("trainc_version").is_some())
    };
    names.is_empty() || (names.iter().all(|name| WRITTEN.iter().any(|ours| name == ours)) && is_plan())
}

fn replaceable(dir: &Path) -> std::io::Result<()> {
    if dir.exists() && !is_ours(dir) {
        return Err(std::io::Error::other(
            "it holds something that `emit` did not write; name a new or an empty directory",
        ));
    }
    Ok(())
}

/// Writes beside the directory, then takes its place: nobody sees half of it.
fn replace(dir: &Path, tree: &Tree) -> std::io::Result<()> {
    replaceable(dir)?;
    let parent = dir
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .map_or_else(|| PathBuf::from("."), Path::to_path_buf);
    fs::create_dir_all(&parent)?;
    let name = dir.file_name().map_or_else(|| "out".to_owned(), |name| name.to_string_lossy().into_owned());
    let (fresh, old) =
        (parent.join(format!(".{name}.trainc-new")), parent.join(format!(".{name}.trainc-old")));
    for leftover in [&fresh, &old] {
        if leftover.exists() {
            fs::remove_dir_all(leftover)?;
        }
    }
    fs::create_dir(&fresh)?;
    let write = || -> std::io::Result<()> {
        for (path, bytes) in tree {
            let full = fresh.join(path);
            if let Some(parent) = full.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(full, bytes)?;
        }
        Ok(())
    };
    if let Err(error) = write() {
        let _ = fs::remove_dir_all(&fresh);
        return Err(error);
    }
    if dir.exists() {
        fs::rename(dir, &old)?;
    }
    if let Err(error) = fs::rename(&fresh, dir) {
        if old.exists() {
            let _ = fs::rename(&old, dir);
        }
        return Err(error);
    }
    if old.exists() {
        fs::remove_dir_all(&old)?;
    }
    Ok(())
}
