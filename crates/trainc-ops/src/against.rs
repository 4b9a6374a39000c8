//! Manifests compared with those of a file, a directory or a git revision: the cost of the change.

use std::path::{Path, PathBuf};
use trainc_diag::Problems;
use trainc_diag::source::SourceMap;
use trainc_ir::SourceTree;
use trainc_plan::Compiled;
use trainc_plan::Options;
use trainc_plan::ReadError;
use trainc_plan::World;
use trainc_plan::resolve::{LayerLoader, LoadedLayer, Merged};
use trainc_project::files::{Files, describe};
use trainc_project::git::Revision;
use trainc_project::manifest_paths::{Named, expand, is_skipped_name, root_of};
use trainc_project::manifests::{Manifest, Set, compile_from};
use trainc_project::runs_file::{RUNS_FILE, read_runs_file, runs_file};
use trainc_report::bill::{Base, Bill, Job, JobSide};
use trainc_report::shared_costs::job_file_systems;
use trainc_syntax::ast::{Node, Value};
use trainc_tune::compare::{self, Change, Edit, Figures, Key, Side, match_old_manifests};

/// Source part of the old manifests, above those of all threads.
const PART: u32 = 512;

/// The old manifests.
pub struct Old {
    base: Base,
    manifests: Vec<Manifest>,
    /// Key of each manifest: its path, if comparable on both sides.
    keys: Vec<String>,
    /// Revision from which files are read.
    objects: Option<Revision>,
}

/// Reads the old manifests; their sources are added to the set. `options` are those of the new ones.
pub fn read_old(set: &mut Set, paths: &[String], against: &str, options: &Options) -> Result<Old, String> {
    // `--set` is part of the change, so it does not apply to the old side.
    let mut options = options.clone();
    options.choices.sets.clear();
    let options = &options;
    let is_path = Path::new(against).exists();
    // Something that looks like a path is one, as in git.
    let spelt = against.starts_with(['/', '.']) || against.ends_with(".kdl");
    let root =
        paths.first().map(|path| root_of(Path::new(path), Path::new(path).is_dir().then(|| Path::new(path))));
    let root = root.unwrap_or_default();
    if is_path && !spelt && Revision::open(&root, against, None).is_ok() {
        return Err(format!(
            "`{against}` is both a file and a revision; write `./{against}` or `refs/heads/{against}`"
        ));
    }
    if is_path {
        return from_files(set, paths, against, options);
    }
    if spelt {
        return Err(format!("`{against}` does not exist"));
    }
    match Revision::open(&root, against, options.worker.clone()) {
        Ok(objects) => from_revision(set, paths, against, options, objects, &root),
        Err(why) => Err(format!(
            "`{against}` is neither a file nor a revision of `{}`: {why}\nhelp: a shallow clone \
                lacks older commits: run `git fetch origin`, or set `fetch-depth: 0` in the pipeline",
            root.display()
        )),
    }
}

/// Returns the text of the base's table of measured runs, by which both sides are judged: a change that also
/// adds runs does not decide what it costs. `None` if there is none, or no such revision, which [`read_old`]
/// reports.
///
/// # Errors
///
/// If there is a table that cannot be read: the reason.
pub fn base_runs(paths: &[String], against: &str) -> Result<Option<String>, String> {
    if Path::new(against).exists() {
        return read_runs_file(&runs_file(&[against.to_owned()])).map_err(|error| describe(&error));
    }
    let Some(first) = paths.first().map(Path::new) else { return Ok(None) };
    let root = root_of(first, first.is_dir().then_some(first));
    let Ok(mut revision) = Revision::open(&root, against, None) else { return Ok(None) };
    match revision.read_text("", RUNS_FILE) {
        Ok(text) => Ok(Some(text)),
        Err(ReadError::NotFound) => Ok(None),
        Err(ReadError::OutsideRoot { .. }) => Err("a link leaves the repository".to_owned()),
        Err(ReadError::Unreadable(why)) => Err(why),
    }
}

fn from_files(set: &mut Set, paths: &[String], against: &str, options: &Options) -> Result<Old, String> {
    let found = expand(against);
    let is_dir = Path::new(against).is_dir();
    if !is_dir && set.many && paths.len() > 1 {
        return Err(format!("`{against}` is a file: name a single manifest to compare with it"));
    }
    let walked = is_dir.then(|| Path::new(against));
    let root = root_of(Path::new(against), walked);
    let mut files = Files::new(root, options);
    let (sources, manifests) = compile_from(&found.files, PART, options, &mut files);
    set.sources.absorb(sources);
    let keys = manifests.iter().map(|manifest| relative_to_dir(&manifest.path, walked)).collect();
    let base = Base { name: against.to_owned(), commit: None };
    Ok(Old { base, manifests, keys, objects: None })
}

/// Returns a path relative to a directory; empty for a single file, which matches any.
fn relative_to_dir(path: &str, dir: Option<&Path>) -> String {
    dir.and_then(|dir| Path::new(path).strip_prefix(dir).ok())
        .map_or_else(String::new, |path| path.to_string_lossy().into_owned())
}

fn from_revision(
    set: &mut Set,
    paths: &[String],
    against: &str,
    options: &Options,
    mut objects: Revision,
    root: &Path,
) -> Result<Old, String> {
    let mut named: Vec<Named> = Vec::new();
    for argument in paths {
        if argument == "-" {
            return Err("standard input cannot be compared with a revision: name a file".to_owned());
        }
        for (path, walked) in in_revision(&mut objects, argument, root)? {
            let file = Named { shown: objects.revision_path(&path), path: PathBuf::from(path), walked };
            if !named.iter().any(|other| other.path == file.path) {
                named.push(file);
            }
        }
    }
    let (sources, manifests) = compile_from(&named, PART, options, &mut objects);
    set.sources.absorb(sources);
    let keys = manifests
        .iter()
        .map(|manifest| manifest.path.split_once(':').map_or("", |(_, path)| path).to_owned())
        .collect();
    let base = Base { name: against.to_owned(), commit: Some(objects.commit().to_owned()) };
    Ok(Old { base, manifests, keys, objects: Some(objects) })
}

/// Returns a path relative to the repository, with `/`.
fn path_in_repository(path: &Path, root: &Path) -> Option<String> {
    // Only the parent is resolved: the file may be a link, or deleted.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let whole = match path.file_name() {
        Some(name) => parent.canonicalize().ok()?.join(name),
        None => path.canonicalize().ok()?,
    };
    let found = whole.strip_prefix(root).ok()?;
    Some(found.to_string_lossy().replace('\\', "/"))
}

/// Returns the files of a revision for an argument, relative to the repository, with the searched directory.
fn in_revision(
    objects: &mut Revision,
    argument: &str,
    root: &Path,
) -> Result<Vec<(String, Option<PathBuf>)>, String> {
    let path = Path::new(argument);
    let outside = || format!("`{argument}` is outside the repository `{}`", root.display());
    let is_glob = !path.exists() && argument.contains(['*', '?', '[']);
    if !path.is_dir() && !is_glob {
        let inside = path_in_repository(path, root).ok_or_else(outside)?;
        let there = objects.has_path(&inside);
        return Ok(there.then_some((inside, None)).into_iter().collect());
    }
    let dir = if is_glob { Path::new(".") } else { path };
    let whole = dir.canonicalize().map_err(|error| trainc_project::files::describe(&error))?;
    let dir = whole.strip_prefix(root).map_err(|_| outside())?.to_string_lossy().replace('\\', "/");
    // A directory that is missing in the revision has no jobs.
    let files = if dir.is_empty() || objects.has_path(&dir) { objects.files(&dir)? } else { Vec::new() };
    let matcher = if is_glob {
        let glob =
            globset::GlobBuilder::new(argument.trim_start_matches("./")).literal_separator(true).build();
        Some(glob.map_err(|error| error.to_string())?.compile_matcher())
    } else {
        None
    };
    let prefix = if dir.is_empty() { String::new() } else { format!("{dir}/") };
    let mut out: Vec<(String, Option<PathBuf>)> = files
        .into_iter()
        .filter(|file| {
            let below = file.strip_prefix(&prefix).unwrap_or(file);
            below.ends_with(".kdl")
                && !below.split('/').any(is_skipped_name)
                && matcher.as_ref().is_none_or(|matcher| matcher.is_match(below))
        })
        .map(|file| (file, Some(PathBuf::from(&dir))))
        .collect();
    out.sort();
    Ok(out)
}

/// Returns the key of a new manifest among the old ones.
fn key(manifest: &Manifest, old: &Old, walked: Option<&Path>, root: &Path) -> Key {
    let path = match &old.objects {
        Some(_) => path_in_repository(Path::new(&manifest.path), root).unwrap_or_default(),
        None => relative_to_dir(&manifest.path, walked),
    };
    Key { path, job: manifest.compiled.job.clone() }
}

/// The files of both sides, for a job mixed from both.
struct Both<'a> {
    new: Files,
    old: Option<&'a mut Revision>,
}

impl LayerLoader for Both<'_> {
    fn read_layer(&mut self, _: &str, _: &str) -> Result<LoadedLayer, ReadError> {
        // Layers are already merged.
        Err(ReadError::NotFound)
    }

    fn file_identity(&self, name: &str) -> String {
        name.to_owned()
    }
}

impl World for Both<'_> {
    fn read_directory(&mut self, _: &str, _: &str) -> Result<SourceTree, ReadError> {
        // A prediction does not read the program.
        Err(ReadError::NotFound)
    }

    fn read_text(&mut self, from: &str, path: &str) -> Result<String, ReadError> {
        match &mut self.old {
            Some(old) if old.has_source(from) => old.read_text(from, path),
            _ => self.new.read_text(from, path),
        }
    }
}

impl Both<'_> {
    /// Returns path and text of a job's model config on its side.
    fn config(&mut self, node: &Node, sources: &SourceMap) -> Option<(String, String)> {
        let model = node.children.iter().find(|child| child.name.value == "model")?;
        let (_, value) = model.props.iter().find(|(key, _)| key.value == "config")?;
        let Value::Text(path) = &value.value else { return None };
        let from = sources.get(value.span.source)?.name.to_string();
        Some((path.clone(), self.read_text(&from, path).ok()?))
    }
}

fn figures(compiled: &Compiled) -> Figures {
    compiled
        .plan
        .as_ref()
        .map(|plan| Figures::from_prediction(plan, &compiled.prediction))
        .unwrap_or_default()
}

fn job_side(manifest: &Manifest) -> JobSide<'_> {
    let compiled = &manifest.compiled;
    let run = compiled.plan.as_ref().zip(compiled.prediction.run.as_ref());
    JobSide {
        file_systems: run
            .map(|(plan, run)| job_file_systems(plan, run.expected_seconds()))
            .unwrap_or_default(),
        path: &manifest.path,
        job: manifest.compiled.job.as_deref(),
        figures: figures(&manifest.compiled),
        prices: compiled.plan.iter().flat_map(|plan| plan.instance_prices()).collect(),
        problems: &manifest.compiled.problems,
        digest: compiled.sagemaker_plan().map(|plan| trainc_emit::identity(plan).digest),
        delivery: compiled.plan.as_ref().map(|plan| &plan.delivery),
    }
}

/// Builds the bill: every new job with its old version, then the removed jobs.
pub fn bill<'a>(set: &'a Set, old: &'a mut Old, paths: &[String], options: &Options) -> Bill<'a> {
    let walked = match paths {
        [one] => Some(Path::new(one)).filter(|path| path.is_dir()),
        _ => None,
    };
    let new_keys: Vec<Key> = set.manifests.iter().map(|one| key(one, old, walked, &set.root)).collect();
    let old_keys: Vec<Key> = old
        .manifests
        .iter()
        .zip(&old.keys)
        .map(|(one, path)| Key { path: path.clone(), job: one.compiled.job.clone() })
        .collect();
    let pairs = match_old_manifests(&new_keys, &old_keys);
    let Old { base, manifests, objects, .. } = old;
    let mut both = Both { new: Files::new(set.root.clone(), options), old: objects.as_mut() };
    // Mixed jobs refer to the texts of both sides.
    let mut sources = set.sources.clone();
    let mut jobs: Vec<Job<'a>> = Vec::new();
    for (manifest, pair) in set.manifests.iter().zip(&pairs) {
        let earlier = pair.and_then(|at| manifests.get(at));
        let change = earlier.and_then(|earlier| {
            compare_jobs(&earlier.compiled, &manifest.compiled, options, &mut both, &mut sources)
        });
        jobs.push(Job {
            before: earlier.map(job_side),
            after: Some(job_side(manifest)),
            change,
            program: earlier.is_some_and(|earlier| program(&earlier.compiled) != program(&manifest.compiled)),
        });
    }
    let gone = manifests.iter().enumerate().filter(|(at, _)| !pairs.contains(&Some(*at)));
    jobs.extend(gone.map(|(_, one)| Job {
        before: Some(job_side(one)),
        after: None,
        change: None,
        program: false,
    }));
    Bill { base: base.clone(), jobs, sources: &set.sources }
}

/// Returns the files of a program by path and digest.
fn program(compiled: &Compiled) -> Vec<(&str, &str)> {
    let plan = compiled.plan.iter();
    let trees = plan.flat_map(|plan| plan.source.iter().chain(&plan.dependencies));
    trees.flat_map(|tree| &tree.files).map(|file| (file.path.as_str(), file.sha256())).collect()
}

fn compare_jobs(
    before: &Compiled,
    after: &Compiled,
    options: &Options,
    both: &mut Both,
    sources: &mut SourceMap,
) -> Option<Change> {
    let (old, new) = (before.merged.as_ref()?, after.merged.as_ref()?);
    let more: Vec<Edit> = match (both.config(&old.node, sources), both.config(&new.node, sources)) {
        // The same path with another content.
        (Some((was, old_text)), Some((is, new_text))) if was == is && old_text != new_text => {
            compare::edit_of_changed_file(&new.node, &["model"], "config").into_iter().collect()
        }
        _ => Vec::new(),
    };
    let (old_figures, new_figures) = (figures(before), figures(after));
    let mut predict = |node: &Node| {
        let merged = Merged { node: node.clone(), overrides: Vec::new(), is_whole: true, ..(**new).clone() };
        let tried = trainc_plan::plan_and_predict(merged, Problems::default(), options, both, sources);
        (tried.problems.errors() == 0).then(|| figures(&tried))
    };
    Some(compare::compare(
        Side { node: &old.node, figures: &old_figures },
        Side { node: &new.node, figures: &new_figures },
        more,
        &mut predict,
    ))
}
