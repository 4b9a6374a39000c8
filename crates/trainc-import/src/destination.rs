//! Where imported manifests and requests are written.

use crate::conversion::{Destined, Refusal};
use crate::recording::Recording;
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use trainc_project::files::describe;
use trainc_project::manifest_paths::root_of;

/// Destination of the manifests and the requests.
#[derive(Clone, Debug)]
pub struct Destination {
    /// A file, or a directory for several manifests; none if they are printed.
    pub out: Option<PathBuf>,
    /// File of the requests.
    pub request: Option<PathBuf>,
    /// True if only one manifest can be printed.
    pub prints_one: bool,
}

impl Destination {
    /// Returns the first path that exists and is no directory for manifests.
    pub fn occupied(&self) -> Option<&Path> {
        let is_taken = |path: &&PathBuf| {
            fs::symlink_metadata(path).is_ok() && !(path.is_dir() && Some(*path) == self.out.as_ref())
        };
        [&self.out, &self.request].into_iter().flatten().find(is_taken).map(PathBuf::as_path)
    }

    /// Returns the path of a job's manifest.
    pub(crate) fn manifest_of(&self, job: &str, many: bool) -> Option<PathBuf> {
        let out = self.out.as_ref()?;
        Some(if many || is_directory(out) { out.join(format!("{job}.kdl")) } else { out.clone() })
    }
}

/// Returns the absolute path of the directory that gets the manifests.
pub(crate) fn manifest_directory(out: Option<&Path>) -> PathBuf {
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

/// Returns true if `--out` names a directory.
pub(crate) fn is_directory(out: &Path) -> bool {
    out.is_dir() || out.as_os_str().to_string_lossy().ends_with('/')
}

/// Returns why a manifest in this directory could not name the sources of the script, and where it can.
pub(crate) fn source_outside_root(
    script: &Path,
    to: &Destination,
    recording: &Recording,
    directory: &Path,
) -> Option<Refusal> {
    let root = root_of(&directory.join("job.kdl"), None);
    // Those of a repository are fetched.
    let sources = recording.sources.values().filter(|source| source.git.is_none());
    let paths: Vec<PathBuf> = sources
        .flat_map(|source| std::iter::once(&source.directory).chain(&source.dependencies))
        .map(|path| Path::new(path).canonicalize().unwrap_or_else(|_| PathBuf::from(path)))
        .collect();
    let outside = paths.iter().find(|path| !path.starts_with(&root))?;
    // The directory of the script if that contains all, otherwise the nearest above all sources.
    let script = script.canonicalize().ok()?;
    let mut places = script.parent().into_iter().chain(paths.first()?.ancestors().skip(1));
    let place = places.find(|place| paths.iter().all(|path| path.starts_with(place)))?;
    let current = std::env::current_dir().unwrap_or_default();
    let place = match place.strip_prefix(&current) {
        Ok(inside) => Path::new(".").join(inside),
        Err(_) => place.to_path_buf(),
    };
    let out = match &to.out {
        Some(out) if !is_directory(out) => {
            place.join(out.file_name().unwrap_or_default()).display().to_string()
        }
        // With a slash at the end.
        _ => place.join("").display().to_string(),
    };
    let reason = format!(
        "a manifest in `{}` cannot name the source `{}`: it is outside the root directory, which \
            is the nearest parent directory with `.git`, otherwise the current directory if it contains the \
            manifest; nothing was written",
        directory.display(),
        outside.display(),
    );
    Some(Refusal::Usage { reason, help: Some(format!("`--out {}`", trainc_emit::quote(&out))) })
}

/// Writes manifests and requests, all or none.
pub(crate) fn write_all(to: &Destination, jobs: &[Destined]) -> Result<(), String> {
    let requests: Vec<&Value> = jobs.iter().map(|job| &job.imported.request).collect();
    let request = match requests.as_slice() {
        [one] => format!("{one:#}\n"),
        many => format!("{:#}\n", json!(many)),
    };
    let manifests = jobs.iter().filter_map(|job| Some((job.out.as_deref()?, job.imported.manifest.as_str())));
    let files: Vec<(&Path, &str)> =
        manifests.chain(to.request.as_deref().map(|path| (path, request.as_str()))).collect();
    if let Some((path, _)) = files.iter().find(|(path, _)| fs::symlink_metadata(path).is_ok()) {
        return Err(format!("`{}` already exists", path.display()));
    }
    for (path, text) in files {
        let parent = path.parent().filter(|parent| jobs.len() > 1 || Some(*parent) == to.out.as_deref());
        parent
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::OpenOptions::new().write(true).create_new(true).open(path))
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| format!("`{}` cannot be written: {}", path.display(), describe(&error)))?;
    }
    Ok(())
}
