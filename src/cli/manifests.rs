//! Which manifests a command means: files, directories, globs, standard input; each read once.

use super::neighbours;
use super::world::{Files, describe};
use crate::diag::{Code, Diagnostic, Problems};
use crate::source::{SourceId, SourceMap, Span};
use crate::syntax::recover;
use crate::{Compiled, Options, compile, declare_code};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

declare_code!(T0140, "unreadable-file", Error, "a manifest cannot be read");
declare_code!(T0141, "no-manifest", Error, "a path that leads to no manifest");
declare_code!(T0143, "sweep-too-large", Error, "a sweep of more jobs than anyone starts");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0140, &T0141, &T0143];

/// The most bytes of a manifest that are read; the reader's own limit is below.
const MOST_BYTES: u64 = 4 << 20;

/// One manifest of a run.
#[derive(Clone)]
pub(super) struct Manifest {
    /// The path as it is shown.
    pub path: String,
    /// SHA-256 of its bytes.
    pub sha256: String,
    /// What it became.
    pub compiled: Compiled,
}

/// All manifests of a run.
#[derive(Clone)]
pub(super) struct Set {
    /// All texts.
    pub sources: SourceMap,
    /// The manifests in order, layers left out where a directory was walked.
    pub manifests: Vec<Manifest>,
    /// Whether the user named several, or a directory: results are then lists.
    pub many: bool,
    /// The repository's root.
    pub root: PathBuf,
}

struct Named {
    path: PathBuf,
    shown: String,
    /// The directory that was walked to find it.
    walked: Option<PathBuf>,
}

/// Reads and compiles everything that the arguments name.
pub(super) fn compile_all(arguments: &[String], options: &Options) -> Set {
    let mut sources = SourceMap::default();
    let mut failed: Vec<(String, Problems)> = Vec::new();
    let mut named: Vec<Named> = Vec::new();
    let mut many = arguments.len() > 1;
    for argument in arguments {
        let found = expand(argument);
        if let Some(walked) = found.many {
            many |= walked;
        }
        if found.files.is_empty() {
            let source = sources.add(argument.as_str(), "");
            let mut problems = Problems::default();
            problems.push(nothing(source, argument, found.fault.as_deref()));
            failed.push((argument.clone(), problems));
        }
        for file in found.files {
            if !named.iter().any(|other| other.path == file.path && other.path != Path::new("-")) {
                named.push(file);
            }
        }
    }
    let mut manifests: Vec<Manifest> = failed
        .into_iter()
        .map(|(path, problems)| Manifest {
            path,
            sha256: String::new(),
            compiled: Compiled::nothing(problems),
        })
        .collect();
    let first_root = named.first().map(|file| root_of(&file.path, file.walked.as_deref()));
    for part in in_parts(&named, options) {
        many |= part.swept;
        manifests.extend(part.manifests);
        sources.absorb(part.sources);
    }
    neighbours::judge(&mut manifests);
    Set { sources, manifests, many, root: first_root.unwrap_or_default() }
}

/// What one thread compiled.
struct Part {
    sources: SourceMap,
    manifests: Vec<Manifest>,
    swept: bool,
}

/// The fewest manifests that are worth a thread.
const LEAST_PER_THREAD: usize = 16;

/// Compiles the files in order, in as many threads as pay. Each numbers its sources in a range of its own, so the
/// result does not depend on how many there are.
fn in_parts(named: &[Named], options: &Options) -> Vec<Part> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let each = named.len().div_ceil(threads).max(LEAST_PER_THREAD);
    if named.len() <= each {
        return vec![part(named, 1, options)];
    }
    std::thread::scope(|scope| {
        let parts = named.chunks(each).zip(1..);
        let running: Vec<_> =
            parts.map(|(files, number)| scope.spawn(move || part(files, number, options))).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|fault| std::panic::resume_unwind(fault)))
            .collect()
    })
}

fn part(named: &[Named], number: u32, options: &Options) -> Part {
    let mut out = Part { sources: SourceMap::part(number), manifests: Vec::new(), swept: false };
    let mut files: Option<Files> = None;
    for file in named {
        let root = root_of(&file.path, file.walked.as_deref());
        // One reader for all files of one repository, so that a directory is read once.
        let reader = match &mut files {
            Some(reader) if reader.root() == root => reader,
            slot => slot.insert(Files::new(root, options)),
        };
        let manifest = one(file, options, reader, &mut out.sources);
        if file.walked.is_some() && manifest.compiled.is_layer {
            continue;
        }
        let swept = sweep(file, &manifest, options, reader, &mut out.sources);
        if swept.is_empty() {
            out.manifests.push(manifest);
        } else {
            out.swept = true;
            out.manifests.extend(swept);
        }
    }
    out
}

fn one(file: &Named, options: &Options, reader: &mut Files, sources: &mut SourceMap) -> Manifest {
    let fail = |problems: Problems| Manifest {
        path: file.shown.clone(),
        sha256: String::new(),
        compiled: Compiled::nothing(problems),
    };
    let bytes = match read(&file.path) {
        Ok(bytes) => bytes,
        Err(why) => {
            let source = sources.add(file.shown.as_str(), "");
            let mut problems = Problems::default();
            problems.push(Diagnostic::new(
                &T0140,
                Span::whole(source),
                format!("`{}` cannot be read: {why}", file.shown),
            ));
            return fail(problems);
        }
    };
    let sha256 = crate::ir::digest::sha256_hex(&bytes);
    match String::from_utf8(bytes) {
        Ok(text) => {
            let source = sources.add(file.shown.as_str(), text.as_str());
            Manifest {
                path: file.shown.clone(),
                sha256,
                compiled: compile(source, &text, options, reader, sources),
            }
        }
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            let is_binary = error.as_bytes().iter().take(8_192).any(|byte| *byte == 0);
            let source = sources.add(file.shown.as_str(), text.as_str());
            if is_binary {
                let mut problems = Problems::default();
                problems.push(recover::not_text(source, at));
                return fail(problems);
            }
            let mut compiled = compile(source, &text, options, reader, sources);
            compiled.problems.push(recover::not_utf8(source, at));
            compiled.problems.sort();
            Manifest { path: file.shown.clone(), sha256, compiled }
        }
    }
}

/// The most jobs of one sweep.
const MOST_SWEPT: usize = 500;

/// One manifest for each combination of a sweep's values; none where there is no sweep.
fn sweep(
    file: &Named,
    base: &Manifest,
    options: &Options,
    reader: &mut Files,
    sources: &mut SourceMap,
) -> Vec<Manifest> {
    let Some(vary) = base.compiled.plan.as_ref().map(|plan| &plan.job.sweep).filter(|vary| !vary.is_empty())
    else {
        return Vec::new();
    };
    let jobs = vary.iter().map(|vary| vary.values.len()).try_fold(1_usize, usize::checked_mul);
    if jobs.is_none_or(|jobs| jobs > MOST_SWEPT) {
        let span = vary.first().and_then(|vary| vary.path.origin.span());
        let mut problems = base.compiled.problems.clone();
        if let Some(span) = span {
            problems.push(
                Diagnostic::new(&T0143, span, format!("the sweep has over {MOST_SWEPT} combinations"))
                    .help("vary fewer values, or split it over several manifests"),
            );
            problems.sort();
        }
        return vec![Manifest {
            path: base.path.clone(),
            sha256: base.sha256.clone(),
            compiled: Compiled { problems, ..base.compiled.clone() },
        }];
    }
    let mut combinations: Vec<Vec<String>> = vec![Vec::new()];
    for vary in vary {
        combinations = combinations
            .iter()
            .flat_map(|sets| {
                vary.values.iter().map(|value| {
                    let mut sets = sets.clone();
                    sets.push(format!("{}={}", vary.path.value, kdl_text(&value.value)));
                    sets
                })
            })
            .collect();
    }
    combinations
        .into_iter()
        .enumerate()
        .map(|(at, sets)| {
            let mut options = options.clone();
            options.choices.sets.extend(sets);
            options.choices.suffix = Some(format!("-{}", at + 1));
            one(file, &options, reader, sources)
        })
        .collect()
}

/// A value as KDL writes it.
fn kdl_text(value: &crate::ir::Scalar) -> String {
    use crate::ir::Scalar;
    match value {
        Scalar::Text(text) => text.clone(),
        Scalar::Int(n) => n.to_string(),
        Scalar::Float(x) => crate::ir::digest::python_float(*x),
        Scalar::Bool(on) => format!("#{on}"),
        Scalar::Null => "#null".to_owned(),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().take(MOST_BYTES).read_to_end(&mut bytes).map_err(|error| describe(&error))?;
        return Ok(bytes);
    }
    let metadata = fs::metadata(path).map_err(|error| describe(&error))?;
    if !metadata.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let mut bytes = Vec::new();
    // What lies past the limit is not read: the reader reports the size.
    let file = fs::File::open(path).map_err(|error| describe(&error))?;
    file.take(MOST_BYTES).read_to_end(&mut bytes).map_err(|error| describe(&error))?;
    Ok(bytes)
}

struct Expanded {
    files: Vec<Named>,
    many: Option<bool>,
    fault: Option<String>,
}

fn expand(argument: &str) -> Expanded {
    if argument == "-" {
        let files = vec![Named { path: PathBuf::from("-"), shown: "<stdin>".to_owned(), walked: None }];
        return Expanded { files, many: None, fault: None };
    }
    let path = Path::new(argument);
    if path.is_dir() {
        let mut found = Vec::new();
        let fault = walk(path, &mut found, 0).err();
        found.sort();
        let files = found
            .into_iter()
            .map(|found| Named {
                // `job.kdl`, as one would type it, not `./job.kdl`.
                shown: found.strip_prefix("./").unwrap_or(&found).to_string_lossy().into_owned(),
                path: found,
                walked: Some(path.to_path_buf()),
            })
            .collect();
        return Expanded { files, many: Some(true), fault };
    }
    if !path.exists() && argument.contains(['*', '?', '[']) {
        return glob(argument);
    }
    let files = vec![Named { path: path.to_path_buf(), shown: argument.to_owned(), walked: None }];
    if path.exists() || fs::symlink_metadata(path).is_ok() {
        Expanded { files, many: None, fault: None }
    } else {
        Expanded { files: Vec::new(), many: None, fault: None }
    }
}

fn walk(dir: &Path, out: &mut Vec<PathBuf>, depth: usize) -> Result<(), String> {
    if depth > 32 {
        return Ok(());
    }
    let entries = fs::read_dir(dir).map_err(|error| describe(&error))?;
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || matches!(name.as_str(), "node_modules" | "target" | "__pycache__") {
            continue;
        }
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        if path.is_dir() && !is_link {
            // An unreadable directory does not hide its neighbours.
            let _ = walk(&path, out, depth + 1);
        } else if path.extension().is_some_and(|extension| extension == "kdl") {
            out.push(path);
        }
    }
    Ok(())
}

fn glob(pattern: &str) -> Expanded {
    let built = globset::GlobBuilder::new(pattern).literal_separator(true).build();
    let matcher = match built {
        Ok(glob) => glob.compile_matcher(),
        Err(error) => {
            return Expanded { files: Vec::new(), many: Some(true), fault: Some(error.to_string()) };
        }
    };
    let fixed: PathBuf = Path::new(pattern)
        .components()
        .take_while(|part| !part.as_os_str().to_string_lossy().contains(['*', '?', '[', '{']))
        .collect();
    let base = if fixed.as_os_str().is_empty() { PathBuf::from(".") } else { fixed };
    let mut found = Vec::new();
    let _ = walk(&base, &mut found, 0);
    let mut files: Vec<Named> = found
        .into_iter()
        .map(|path| path.strip_prefix("./").map(Path::to_path_buf).unwrap_or(path))
        .filter(|path| matcher.is_match(path))
        .map(|path| Named { shown: path.to_string_lossy().into_owned(), path, walked: Some(base.clone()) })
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Expanded { files, many: Some(true), fault: None }
}

fn nothing(source: SourceId, argument: &str, fault: Option<&str>) -> Diagnostic {
    let path = Path::new(argument);
    let message = if let Some(fault) = fault {
        format!("`{argument}`: {fault}")
    } else if path.is_dir() {
        format!("no `*.kdl` below `{argument}`")
    } else if argument.contains(['*', '?', '[']) {
        format!("nothing matches `{argument}`")
    } else {
        format!("`{argument}` is not there")
    };
    let diagnostic = Diagnostic::new(&T0141, Span::whole(source), message);
    if path.is_dir() { diagnostic.help("write a first one with `trainc init`") } else { diagnostic }
}

/// The nearest directory upward with `.git`, else the directory that was given, else the file's own.
pub(super) fn root_of(path: &Path, given: Option<&Path>) -> PathBuf {
    let own = if path == Path::new("-") {
        PathBuf::from(".")
    } else {
        path.parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .map_or_else(|| PathBuf::from("."), Path::to_path_buf)
    };
    let own = own.canonicalize().unwrap_or(own);
    let repository = own.ancestors().find(|dir| dir.join(".git").exists()).map(Path::to_path_buf);
    repository.or_else(|| given.and_then(|given| given.canonicalize().ok())).unwrap_or(own)
}

/// The files that an argument leads to, layers included.
pub(super) fn paths(argument: &str) -> Vec<PathBuf> {
    expand(argument).files.into_iter().map(|file| file.path).collect()
}
