//! Reads and compiles the manifests of a command: files, directories, globs, standard input.

use crate::files::{Edits, Files, Tree};
use crate::manifest_paths::{self, Named, expand, root_of};
pub use crate::manifest_set::Set;
use crate::other_documents;
use crate::parallel::map_in_parts;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trainc_apply::saved_plan::SavedPlan;
use trainc_check::codes::T0241;
use trainc_check::{JobSummary, check_across_jobs, compile};
use trainc_diag::declare_code;
use trainc_diag::source::{SourceId, SourceMap, Span};
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::Vary;
use trainc_plan::Compiled;
use trainc_plan::Options;
use trainc_plan::codes::T0211;
use trainc_plan::resolve::sweep_suffixes;
use trainc_syntax::document;

declare_code!(T0140, "unreadable-file", Error, "a manifest cannot be read", found_in: SeveralJobs);
declare_code!(
    T0646,
    "saved-plan-as-manifest",
    Error,
    "a saved plan where a manifest is expected",
    found_in: Account
);
declare_code!(T0143, "sweep-too-large", Error, "a sweep has too many combinations", found_in: SeveralJobs);

/// The codes of this file.
pub static CODES: &[&Code] = &[&T0140, &T0143, &T0646];

/// A compiled manifest.
#[derive(Clone)]
pub struct Manifest {
    /// Path for display.
    pub path: String,
    /// SHA-256 of its bytes.
    pub sha256: String,
    /// Result of the compilation.
    pub compiled: Compiled,
    /// Values that are compared between jobs.
    pub summary: JobSummary,
}

impl Manifest {
    /// A manifest with its compilation.
    pub fn new(path: &str, sha256: String, compiled: Compiled) -> Self {
        let summary = JobSummary::new(path, &compiled);
        Self { path: path.to_owned(), sha256, compiled, summary }
    }

    /// Returns its argument on the command line.
    pub fn shown_argument(&self) -> &str {
        match self.path.strip_prefix('<').and_then(|path| path.strip_suffix('>')) {
            Some(_) if self.path == manifest_paths::STDIN => "-",
            Some(pipe) => pipe,
            None => &self.path,
        }
    }

    /// A manifest that could not be read.
    fn failed(path: &str, problems: Problems) -> Self {
        Self::new(path, String::new(), Compiled::unreadable_file(problems))
    }
}

/// Results to keep in memory for each manifest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The whole compilation.
    Plans,
    /// Name and problems only; a plan takes about 0.1 MB.
    Problems,
}

/// Reads and compiles all manifests that the arguments name.
pub fn compile_all(arguments: &[String], options: &Options) -> Set {
    compile_keeping(arguments, options, Keep::Plans)
}

/// Reads and compiles all manifests, keeping only the requested results.
pub fn compile_keeping(arguments: &[String], options: &Options, keep: Keep) -> Set {
    compile_edited(arguments, options, keep, &Arc::default())
}

/// Reads and compiles all manifests, with these texts in place of those of files.
pub fn compile_edited(arguments: &[String], options: &Options, keep: Keep, edits: &Arc<Edits>) -> Set {
    let mut sources = SourceMap::default();
    let mut failed: Vec<(String, Problems)> = Vec::new();
    let mut named: Vec<Named> = Vec::new();
    let mut known: BTreeSet<OsString> = BTreeSet::new();
    let mut many = arguments.len() > 1;
    let mut walks: Vec<(&String, usize)> = Vec::new();
    for argument in arguments {
        let found = expand(argument);
        walks.extend(found.many.map(|_| (argument, found.files.len())));
        many |= found.many.unwrap_or_default();
        if found.files.is_empty() || found.fault.is_some() {
            failed.push((
                argument.clone(),
                manifest_paths::problem_no_manifests(&mut sources, argument, found.fault.as_deref()),
            ));
        }
        for file in found.files {
            // Deduplicated by canonical path: `a` and `./a/trainc.kdl` are one file.
            let one = file.path.canonicalize().unwrap_or_else(|_| file.path.clone());
            if file.path == Path::new("-") || known.insert(one.into_os_string()) {
                named.push(file);
            }
        }
    }
    let failed = failed.into_iter().map(|(path, problems)| Manifest::failed(&path, problems));
    let mut manifests: Vec<Manifest> = failed.collect();
    let first_root = named.first().map(|file| root_of(&file.path, file.walked.as_deref()));
    let parts = map_in_parts(&named, |files, number, reader| {
        compile_part(files, number, options, (keep, edits), reader)
    });
    let mut skipped = Vec::new();
    for part in parts {
        many |= part.swept;
        manifests.extend(part.manifests);
        skipped.extend(part.skipped);
        sources.absorb(part.sources);
    }
    if manifests.iter().all(|manifest| manifest.compiled.is_layer) {
        let said = walks
            .iter()
            .map(|(at, files)| (at, manifest_paths::problem_only_layers(&mut sources, at, *files)));
        manifests.extend(said.map(|(at, problems)| Manifest::failed(at, problems)));
    }
    check_across_jobs(
        manifests.iter_mut().map(|manifest| (&manifest.summary, &mut manifest.compiled.problems)),
    );
    Set {
        sources,
        manifests,
        skipped,
        many,
        root: first_root.unwrap_or_default(),
        constants: options.constants.clone(),
    }
}

/// Manifests compiled by one thread at a time.
struct Part {
    sources: SourceMap,
    manifests: Vec<Manifest>,
    skipped: Vec<String>,
    swept: bool,
    keep: Keep,
}

impl Part {
    fn new(number: u32, keep: Keep) -> Self {
        let sources = SourceMap::with_part_number(number);
        Self { sources, manifests: Vec::new(), skipped: Vec::new(), swept: false, keep }
    }
}

/// Compiles some files; `files` is reused between parts.
fn compile_part(
    named: &[Named],
    number: u32,
    options: &Options,
    (keep, edits): (Keep, &Arc<Edits>),
    files: &mut Option<Files>,
) -> Part {
    let mut out = Part::new(number, keep);
    let mut last: Option<(&Path, PathBuf)> = None;
    for file in named {
        // Finding the root takes several system calls, so it is cached per directory.
        let dir = file.path.parent().filter(|_| file.walked.is_some());
        let root = match (&last, dir) {
            (Some((of, root)), Some(dir)) if *of == dir => root.clone(),
            _ => root_of(&file.path, file.walked.as_deref()),
        };
        last = dir.map(|dir| (dir, root.clone()));
        // One reader per repository, so that a directory is read once.
        let reader = match &mut *files {
            Some(reader) if reader.root() == root => reader,
            slot => slot.insert(Files::new(root, options).with_edits(edits)),
        };
        if file.walked.is_some() && reader.leads_outside_root(&file.path) {
            out.manifests.push(manifest_outside_root(file, &mut out.sources));
        } else {
            out.add(file, options, reader);
        }
    }
    // Every problem that is shown is compared with the credentials of all sources.
    if out.manifests.iter().any(|manifest| !manifest.compiled.problems.is_empty()) {
        out.sources.find_credentials();
    }
    out
}

/// A link found in a directory that leads outside the root; it is not read.
fn manifest_outside_root(file: &Named, sources: &mut SourceMap) -> Manifest {
    let source = sources.add(file.shown.as_str(), "");
    let mut problems = Problems::default();
    problems.push(
        Diagnostic::new(
            &T0140,
            Span::whole(source),
            format!("the link `{}` leads outside the root directory", file.shown),
        )
        .note("the root is the nearest parent directory with `.git`, or the directory that was named")
        .help("name its target directly, or move the target below the root"),
    );
    Manifest::failed(&file.shown, problems)
}

/// Compiles files of another tree; `part` numbers their sources.
pub fn compile_from(
    named: &[Named],
    number: u32,
    options: &Options,
    reader: &mut dyn Tree,
) -> (SourceMap, Vec<Manifest>) {
    let mut out = Part::new(number, Keep::Plans);
    for file in named {
        out.add(file, options, reader);
    }
    (out.sources, out.manifests)
}

impl Part {
    fn add(&mut self, file: &Named, options: &Options, reader: &mut dyn Tree) {
        let Some(mut manifest) = compile_file(file, options, reader, &mut self.sources) else {
            self.skipped.push(file.shown.clone());
            return;
        };
        if file.walked.is_some() && manifest.compiled.is_layer {
            // A layer; its read errors are reported.
            manifest.compiled.retain_own_problems();
            if manifest.compiled.problems.is_empty() {
                return;
            }
        }
        let swept = sweep(file, &manifest, options, reader, &mut self.sources);
        if swept.is_empty() {
            self.push(manifest);
        } else {
            self.swept = true;
            for manifest in swept {
                self.push(manifest);
            }
        }
    }

    fn push(&mut self, manifest: Manifest) {
        self.manifests.push(match self.keep {
            Keep::Plans => manifest,
            Keep::Problems => {
                let Compiled { job, problems, is_layer, .. } = manifest.compiled;
                let compiled = Compiled { job, is_layer, ..Compiled::unreadable_file(problems) };
                Manifest { compiled, ..manifest }
            }
        });
    }
}

/// Compiles a file; `None` for one of another program that a search found.
fn compile_file(
    file: &Named,
    options: &Options,
    reader: &mut dyn Tree,
    sources: &mut SourceMap,
) -> Option<Manifest> {
    let fail = |problem: Diagnostic| {
        let mut problems = Problems::default();
        problems.push(problem);
        Some(Manifest::failed(&file.shown, problems))
    };
    let bytes = match reader.read(file) {
        Ok(bytes) => bytes,
        Err(why) => {
            let source = sources.add(file.shown.as_str(), "");
            let words = format!("`{}` cannot be read: {why}", file.shown);
            return fail(Diagnostic::new(&T0140, Span::whole(source), words));
        }
    };
    let sha256 = trainc_ir::digest::sha256_hex(&bytes);
    match String::from_utf8(bytes) {
        Ok(text) => {
            if file.walked.is_some() && trainc_syntax::is_of_another_program(&text) {
                return None;
            }
            let source = sources.add(file.shown.as_str(), text.as_str());
            if let Some(saved) = SavedPlan::read(&text) {
                return fail(problem_saved_plan(source, &file.shown, saved.ok().as_ref()));
            }
            if let Some(problem) = other_documents::detect_other_text(source, &file.shown, &text) {
                return fail(problem);
            }
            Some(Manifest::new(&file.shown, sha256, compile(source, &text, options, reader, sources)))
        }
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            let is_binary = error.as_bytes().iter().take(8_192).any(|byte| *byte == 0);
            let source = sources.add(file.shown.as_str(), text.as_str());
            if is_binary {
                let known = other_documents::detect_other_bytes(source, error.as_bytes());
                return fail(known.unwrap_or_else(|| document::not_text(source, at)));
            }
            let mut compiled = compile(source, &text, options, reader, sources);
            compiled.problems.push(document::not_utf8(source, at));
            compiled.problems.sort();
            Some(Manifest::new(&file.shown, sha256, compiled))
        }
    }
}

/// Returns the problem for a saved plan where a manifest is expected.
fn problem_saved_plan(source: SourceId, shown: &str, saved: Option<&SavedPlan>) -> Diagnostic {
    let words = format!("`{shown}` is a saved plan, but this command requires manifests");
    let one = Diagnostic::new(&T0646, Span::new(source, 0, 1), words)
        .note(format!("`trainc apply {}` applies the saved plan", trainc_emit::quote(shown)));
    let Some(saved) = saved else { return one };
    let given = &saved.given;
    let env = given.env.iter().map(|env| format!(" --env {}", trainc_emit::quote(env)));
    let sets = given.sets.iter().map(|set| format!(" --set {}", trainc_emit::quote(set)));
    let flags: String = env.chain(sets).collect();
    one.help(format!("name its manifest: {}{flags}", trainc_emit::quote(&saved.manifest)))
}

/// Maximum number of jobs in a sweep.
const MOST_SWEPT: usize = 500;

/// Compiles one manifest per combination of a sweep's values; `None` without a sweep.
fn sweep(
    file: &Named,
    base: &Manifest,
    options: &Options,
    reader: &mut dyn Tree,
    sources: &mut SourceMap,
) -> Vec<Manifest> {
    let Some(plan) = &base.compiled.plan else { return Vec::new() };
    // Invalid axes were reported; the others are still varied to find further problems.
    let leads_nowhere = |vary: &&Vary| {
        let said = |span| base.compiled.problems.iter().any(|one| one.code == &T0211 && one.span == span);
        vary.path.origin.span().is_some_and(said)
    };
    let varies = |vary: &&Vary| !vary.values.is_empty() && !leads_nowhere(vary);
    let vary: Vec<&Vary> = plan.job.sweep.iter().filter(varies).collect();
    if vary.is_empty() {
        return Vec::new();
    }
    let jobs = vary.iter().map(|vary| vary.values.len()).try_fold(1_usize, usize::checked_mul);
    if jobs.is_none_or(|jobs| jobs > MOST_SWEPT) {
        let span = vary.first().and_then(|vary| vary.path.origin.span());
        let mut problems = base.compiled.problems.clone();
        if let Some(span) = span {
            problems.push(
                Diagnostic::new(&T0143, span, format!("the sweep has more than {MOST_SWEPT} combinations"))
                    .help("vary fewer values, or split it over several manifests"),
            );
            problems.sort();
        }
        let compiled = Compiled { problems, ..base.compiled.clone() };
        return vec![Manifest { compiled, ..base.clone() }];
    }
    let mut combinations: Vec<Vec<(String, String, Span)>> = vec![Vec::new()];
    for vary in vary {
        combinations = combinations
            .iter()
            .flat_map(|sets| {
                vary.values.iter().map(|value| {
                    let mut sets = sets.clone();
                    let at = value.span_or(vary.path.span_or(Span::whole(SourceId(0))));
                    let text = kdl_text(&value.value);
                    sets.push((format!("{}={text}", vary.path.value), text, at));
                    sets
                })
            })
            .collect();
    }
    // A duplicate value was reported, and gives one job.
    let mut seen = BTreeSet::new();
    combinations.retain(|sets| seen.insert(sets.iter().map(|(set, ..)| set.clone()).collect::<Vec<_>>()));
    let told = |sets: &Vec<(String, String, Span)>| {
        sets.iter().map(|(set, value, _)| (set.clone(), value.clone())).collect::<Vec<_>>()
    };
    let suffixes = sweep_suffixes(&combinations.iter().map(told).collect::<Vec<_>>());
    let mut swept: Vec<Manifest> = combinations
        .into_iter()
        .zip(suffixes)
        .filter_map(|(sets, suffix)| {
            let mut options = options.clone();
            options.choices.swept = sets.into_iter().map(|(set, _, at)| (set, at)).collect();
            options.choices.suffix = Some(suffix);
            compile_file(file, &options, reader, sources)
        })
        .collect();
    keep_used_allows(&mut swept, sources);
    swept
}

/// Drops T0241 for an `allow` that some job of the sweep uses.
fn keep_used_allows(swept: &mut [Manifest], sources: &SourceMap) {
    // Each job has its own sources of the same files.
    let place =
        |span: Span| sources.get(span.source).map(|source| (source.name.clone(), span.start, span.end));
    let idle = |manifest: &Manifest| -> BTreeSet<_> {
        let problems = manifest.compiled.problems.iter();
        problems.filter(|one| one.code == &T0241).filter_map(|one| place(one.span)).collect()
    };
    let everywhere = swept.iter().map(idle).reduce(|all, one| all.intersection(&one).cloned().collect());
    let Some(everywhere) = everywhere else { return };
    for manifest in swept {
        manifest
            .compiled
            .problems
            .retain(|one| one.code != &T0241 || place(one.span).is_some_and(|at| everywhere.contains(&at)));
    }
}

/// Formats a value as KDL.
fn kdl_text(value: &trainc_ir::Scalar) -> String {
    use trainc_ir::Scalar;
    match value {
        Scalar::Text(text) => text.clone(),
        Scalar::Int(n) => n.to_string(),
        Scalar::Float(x) => trainc_ir::digest::python_float(*x),
        Scalar::Bool(on) => format!("#{on}"),
        Scalar::Null => "#null".to_owned(),
    }
}
