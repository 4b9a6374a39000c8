//! Files: manifests, layers, program directories, all below the repository's root.

use super::directory::is_emitted;
use super::manifest_paths::MOST_NESTED;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use trainc_diag::source::is_file;
use trainc_ir::{SourceFile, SourceTree};
use trainc_plan::Options;
use trainc_plan::ReadError;
use trainc_plan::Repository;
use trainc_plan::World;
use trainc_plan::resolve::{LayerLoader, LoadedLayer};

/// Maximum size of a program directory in bytes.
pub(super) const MOST_SOURCE_BYTES: u64 = 512 << 20;
/// Maximum number of files of a program directory.
pub(super) const MOST_SOURCE_FILES: usize = 20_000;
/// Reason for which a program directory over these limits is refused.
pub(super) const TOO_LARGE: &str = "it holds over 512 MiB or 20,000 files; data belong in a channel";

/// The most bytes of a layer that are read; the reader's own limit is below.
const MOST_LAYER_BYTES: u64 = 4 << 20;
/// The most bytes of a model's config that are read.
const MOST_CONFIG_BYTES: u64 = 4 << 20;

/// The most bytes of a manifest that are read; the reader's own limit is below.
pub(super) const MOST_MANIFEST_BYTES: u64 = 4 << 20;

/// A world that manifests themselves are read from.
pub(super) trait Tree: World {
    /// The bytes of a manifest, or why it cannot be read.
    fn read(&mut self, path: &Path) -> Result<Vec<u8>, String>;
}

/// The file system as manifests see it.
pub(super) struct Files {
    /// What paths may not leave, canonical.
    root: PathBuf,
    /// Directories already read.
    trees: BTreeMap<PathBuf, Result<SourceTree, ReadError>>,
    /// The worker's binary, where it was named.
    worker: Option<PathBuf>,
    /// Whether git repositories are fetched.
    fetch: bool,
    /// The same, read once.
    binary: std::sync::OnceLock<Option<SourceFile>>,
}

impl Files {
    /// Files below a root.
    pub(super) fn new(root: PathBuf, options: &Options) -> Self {
        let (worker, fetch) = (options.worker.clone(), options.fetch);
        Self { root, trees: BTreeMap::new(), worker, fetch, binary: std::sync::OnceLock::new() }
    }

    /// The root, canonical.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether a path leads out of the root.
    pub(super) fn leaves(&self, path: &Path) -> bool {
        path.canonicalize().is_ok_and(|found| !found.starts_with(&self.root))
    }

    /// Where a path leads, relative to the file that names it; refused if that is outside the root.
    pub(super) fn find(&self, from: &str, path: &str) -> Result<PathBuf, ReadError> {
        let of_file = Some(from).filter(|from| is_file(from)).and_then(|from| Path::new(from).parent());
        let base = of_file.map_or_else(|| PathBuf::from("."), Path::to_path_buf);
        let joined = base.join(path);
        match joined.canonicalize() {
            Ok(found) if found.starts_with(&self.root) => Ok(found),
            Ok(_) => Err(ReadError::OutsideRoot),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                // A path that is not there and leads outside is outside first of all.
                let flat = flatten(&std::env::current_dir().unwrap_or_default().join(&joined));
                if flat.starts_with(&self.root) {
                    Err(ReadError::NotFound)
                } else {
                    Err(ReadError::OutsideRoot)
                }
            }
            Err(error) => Err(ReadError::Unreadable(describe(&error))),
        }
    }
}

/// A path with `.` and `..` taken out, without looking at the disk.
fn flatten(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => out.push(part),
        }
    }
    out
}

/// An operating system's error in a few words.
pub(super) fn describe(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
        std::io::ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
        _ => error.to_string().to_lowercase(),
    }
}

/// A path as people write it: relative to the working directory where that is shorter.
pub(super) fn shown(path: &Path) -> String {
    let here = std::env::current_dir().ok().and_then(|here| here.canonicalize().ok());
    let relative = here.and_then(|here| path.strip_prefix(here).ok().map(Path::to_path_buf));
    relative.unwrap_or_else(|| path.to_path_buf()).to_string_lossy().into_owned()
}

impl LayerLoader for Files {
    fn layer(&mut self, from: &str, path: &str) -> Result<LoadedLayer, ReadError> {
        let found = self.find(from, path)?;
        let text = read_text(&found, MOST_LAYER_BYTES)?;
        // Shown beside the file that names it, so that a relative path stays relative.
        let name = match Path::new(from).parent() {
            Some(parent) if is_file(from) => flatten(&parent.join(path)).to_string_lossy().into_owned(),
            _ => path.to_owned(),
        };
        let name = if Path::new(&name).exists() { name } else { shown(&found) };
        Ok(LoadedLayer { name, identity: found.to_string_lossy().into_owned(), text })
    }

    fn identity(&self, name: &str) -> String {
        Path::new(name)
            .canonicalize()
            .map_or_else(|_| name.to_owned(), |path| path.to_string_lossy().into_owned())
    }
}

impl World for Files {
    fn directory(&mut self, from: &str, path: &str) -> Result<SourceTree, ReadError> {
        let found = self.find(from, path)?;
        if let Some(known) = self.trees.get(&found) {
            return known.clone().map(|tree| SourceTree { dir: path.to_owned(), ..tree });
        }
        let tree = read_tree(&found, path, &self.root);
        self.trees.insert(found, tree.clone());
        tree
    }

    fn text(&mut self, from: &str, path: &str) -> Result<String, ReadError> {
        let found = self.find(from, path)?;
        read_text(&found, MOST_CONFIG_BYTES)
    }

    fn git(&mut self, repository: &Repository) -> Option<Result<SourceTree, ReadError>> {
        let found = self.fetch.then(|| super::git::fetch(repository)).flatten()?;
        Some(found.map_err(ReadError::Unreadable))
    }

    fn worker(&mut self) -> Option<SourceFile> {
        self.binary.get_or_init(|| super::worker_binary::read(self.worker.as_deref())).clone()
    }
}

impl Tree for Files {
    fn read(&mut self, path: &Path) -> Result<Vec<u8>, String> {
        if path == Path::new("-") {
            let mut bytes = Vec::new();
            std::io::stdin()
                .take(MOST_MANIFEST_BYTES)
                .read_to_end(&mut bytes)
                .map_err(|error| describe(&error))?;
            return Ok(bytes);
        }
        let metadata = fs::metadata(path).map_err(|error| describe(&error))?;
        if !metadata.is_file() {
            return Err("it is no regular file".to_owned());
        }
        let mut bytes = Vec::new();
        // What lies past the limit is not read: the reader reports the size.
        let file = fs::File::open(path).map_err(|error| describe(&error))?;
        file.take(MOST_MANIFEST_BYTES).read_to_end(&mut bytes).map_err(|error| describe(&error))?;
        Ok(bytes)
    }
}

/// The text of a regular file; anything else could block or never end.
fn read_text(path: &Path, most: u64) -> Result<String, ReadError> {
    let unreadable = |error: std::io::Error| ReadError::Unreadable(describe(&error));
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(ReadError::Unreadable("it is a directory".to_owned()));
    }
    if !metadata.is_file() {
        return Err(ReadError::Unreadable("it is no regular file".to_owned()));
    }
    if metadata.len() > most {
        return Err(ReadError::Unreadable(format!("it is larger than {}", trainc_diag::text::bytes(most))));
    }
    fs::read_to_string(path).map_err(unreadable)
}

fn read_tree(root: &Path, written: &str, limit: &Path) -> Result<SourceTree, ReadError> {
    if !root.is_dir() {
        return Err(ReadError::Unreadable("it is no directory".to_owned()));
    }
    let mut files: Vec<SourceFile> = Vec::new();
    // What cannot be packed, all of it: each is mended by itself.
    let mut faults: Vec<String> = Vec::new();
    let mut total = 0_u64;
    // A directory, its path in the tree, and those that lead to it.
    let mut pending: Vec<(PathBuf, String, Vec<PathBuf>)> =
        vec![(root.to_path_buf(), String::new(), Vec::new())];
    let mut directories = 0;
    let unreadable = |error: std::io::Error| ReadError::Unreadable(describe(&error));
    let too_large = || ReadError::Unreadable(TOO_LARGE.to_owned());
    while let Some((dir, prefix, mut above)) = pending.pop() {
        directories += 1;
        if directories > MOST_SOURCE_FILES {
            return Err(too_large());
        }
        above.push(dir.clone());
        if above.len() > MOST_NESTED + 1 {
            let why = format!("it holds directories more than {MOST_NESTED} deep");
            return Err(ReadError::Unreadable(why));
        }
        for entry in fs::read_dir(&dir).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_left_out(&name) {
                continue;
            }
            let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
            // Links are followed, as the SageMaker SDK does, but not out of the repository.
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            let target = match entry.path().canonicalize() {
                Ok(target) => target,
                Err(_) if is_link => {
                    faults.push(format!("the link `{path}` leads nowhere"));
                    continue;
                }
                Err(error) => {
                    faults.push(format!("`{path}`: {}", describe(&error)));
                    continue;
                }
            };
            if !target.starts_with(limit) {
                faults.push(format!("the link `{path}` leaves the repository"));
                continue;
            }
            if target.is_dir() {
                if above.contains(&target) {
                    faults.push(format!("the link `{path}` leads in a circle"));
                    continue;
                }
                if !is_emitted(&target) {
                    pending.push((target, path, above.clone()));
                }
                continue;
            }
            let metadata = fs::metadata(&target).map_err(unreadable)?;
            if !metadata.is_file() {
                faults.push(format!("`{path}` is no regular file"));
                continue;
            }
            total += metadata.len();
            if total > MOST_SOURCE_BYTES || files.len() >= MOST_SOURCE_FILES {
                return Err(too_large());
            }
            let bytes = fs::read(&target).map_err(unreadable)?;
            files.push(SourceFile::new(path, bytes, is_executable(&metadata)));
        }
    }
    if !faults.is_empty() {
        return Err(ReadError::Unreadable(listed(faults)));
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(SourceTree { dir: written.to_owned(), files })
}

/// Faults of files in words; many are counted.
fn listed(mut faults: Vec<String>) -> String {
    /// So many are read at once; behind them there are more of a kind.
    const MOST: usize = 6;
    faults.sort();
    if let Some(more) = faults.len().checked_sub(MOST).filter(|more| *more > 0) {
        faults.truncate(MOST);
        faults.push(format!("{more} more like these"));
    }
    trainc_diag::text::list(&faults, "and")
}

/// What never belongs into the archive: it differs from machine to machine.
pub(super) fn is_left_out(name: &str) -> bool {
    matches!(name, ".git" | "__pycache__" | ".DS_Store" | ".ipynb_checkpoints" | ".pytest_cache")
        || name.ends_with(".pyc")
}

#[cfg(unix)]
fn is_executable(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o100 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &fs::Metadata) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_circle_of_links_is_named_and_two_ways_to_a_directory_are_none() {
        let root = std::env::temp_dir().join(format!("trainc-links-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/x.py"), "").unwrap();
        let root = root.canonicalize().unwrap();
        symlink(root.join("a"), root.join("also")).unwrap();
        let tree = read_tree(&root, ".", &root).unwrap();
        let paths: Vec<&str> = tree.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["a/b/x.py", "also/b/x.py"]);
        fs::remove_file(root.join("also")).unwrap();
        symlink(root.join("a"), root.join("a/b/up")).unwrap();
        let fault = read_tree(&root, ".", &root).unwrap_err();
        assert_eq!(fault, ReadError::Unreadable("the link `a/b/up` leads in a circle".to_owned()));
        fs::remove_file(root.join("a/b/up")).unwrap();
        let deep = root.join("d/".repeat(MOST_NESTED + 1));
        fs::create_dir_all(&deep).unwrap();
        let fault = read_tree(&root, ".", &root).unwrap_err();
        assert_eq!(fault, ReadError::Unreadable("it holds directories more than 64 deep".to_owned()));
        fs::remove_dir(deep).unwrap();
        assert_eq!(read_tree(&root, ".", &root).unwrap().files.len(), 1);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn every_file_that_cannot_be_packed_is_named() {
        let root = std::env::temp_dir().join(format!("trainc-faults-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("in/scripts")).unwrap();
        let root = root.canonicalize().unwrap();
        fs::write(root.join("secret.txt"), "").unwrap();
        symlink(root.join("secret.txt"), root.join("in/scripts/out")).unwrap();
        symlink(root.join("in/no-such"), root.join("in/scripts/gone")).unwrap();
        let fault = read_tree(&root.join("in/scripts"), ".", &root.join("in")).unwrap_err();
        let both = "the link `gone` leads nowhere and the link `out` leaves the repository";
        assert_eq!(fault, ReadError::Unreadable(both.to_owned()));
        for at in 0..9 {
            symlink(root.join("in/no-such"), root.join(format!("in/scripts/gone{at}"))).unwrap();
        }
        let ReadError::Unreadable(words) =
            read_tree(&root.join("in/scripts"), ".", &root.join("in")).unwrap_err()
        else {
            panic!("it is unreadable")
        };
        assert!(words.ends_with("and 5 more like these"), "{words}");
        fs::remove_dir_all(root).unwrap();
    }
}
