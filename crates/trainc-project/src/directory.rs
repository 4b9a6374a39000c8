//! Output directories of `emit`: compared with their expected content, and replaced atomically, all or none.

use crate::files::{describe, read_regular};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use trainc_diag::text;

/// Maximum size of the `plan.json` of an earlier `emit`.
const MOST_PLAN_BYTES: u64 = 64 << 20;

/// Files by their path relative to the directory.
pub type Tree = BTreeMap<PathBuf, Vec<u8>>;

/// A directory and its expected content.
pub struct Target {
    /// Its path.
    pub dir: PathBuf,
    /// The files that it must have.
    pub tree: Tree,
}

/// Returns the differences between directories and their expected content, one line each.
pub fn differences(targets: &[Target]) -> Vec<String> {
    let mut out = Vec::new();
    for Target { dir, tree } in targets {
        let there = files_of(dir);
        for (path, bytes) in tree {
            let full = dir.join(path);
            if !there.contains(path) {
                out.push(format!("missing    {}", full.display()));
            } else if !has_content(&full, bytes) {
                out.push(format!("different  {}", full.display()));
            }
        }
        for path in there.iter().filter(|path| !tree.contains_key(*path)) {
            out.push(format!("surplus    {}", dir.join(path).display()));
        }
    }
    out
}

/// Returns true if a path is a regular file with this content.
fn has_content(path: &Path, bytes: &[u8]) -> bool {
    read_regular(path, bytes.len() as u64).is_ok_and(|there| there == bytes)
}

/// Returns everything below a directory except directories, including links.
fn files_of(dir: &Path) -> BTreeSet<PathBuf> {
    fn walk(root: &Path, dir: &Path, out: &mut BTreeSet<PathBuf>) {
        let Ok(entries) = fs::read_dir(dir) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                walk(root, &path, out);
            } else if let Ok(relative) = path.strip_prefix(root) {
                out.insert(relative.to_path_buf());
            }
        }
    }
    let mut out = BTreeSet::new();
    walk(dir, dir, &mut out);
    out
}

/// The name of the plan that `emit` writes.
const PLAN: &str = "plan.json";

/// Returns the files that an earlier `emit` wrote, as listed in `plan.json`. `None` without the list, e.g. in
/// the `plan.json` of another tool.
fn files_of_earlier_emit(dir: &Path) -> Option<BTreeSet<PathBuf>> {
    read_emitted_plan(dir).map(|(_, files)| files)
}

/// Returns the files that `emit` wrote into a directory, with their paths: they are not part of a program,
/// and its manifests are not compiled. Other files of the directory are: anyone can write a `plan.json`.
pub fn emitted_files(dir: &Path) -> Vec<PathBuf> {
    let listed = read_emitted_plan(dir).map(|(_, files)| files);
    let names = listed.into_iter().flat_map(|files| files.into_iter().chain([PathBuf::from(PLAN)]));
    names.map(|file| dir.join(file)).collect()
}

/// Returns the files that a `plan.json` lists, and itself, if `emit` wrote it.
pub fn files_of_plan(plan: &[u8]) -> Option<BTreeSet<PathBuf>> {
    let (_, mut files) = parse_emitted_plan(plan)?;
    files.insert(PathBuf::from(PLAN));
    Some(files)
}

/// Returns the manifest for which `emit` wrote a directory, and the files.
fn read_emitted_plan(dir: &Path) -> Option<(String, BTreeSet<PathBuf>)> {
    parse_emitted_plan(&read_regular(&dir.join(PLAN), MOST_PLAN_BYTES).ok()?)
}

fn parse_emitted_plan(plan: &[u8]) -> Option<(String, BTreeSet<PathBuf>)> {
    let plan: serde_json::Value = serde_json::from_slice(plan).ok()?;
    plan.get("trainc_version")?;
    let files = plan.get("files")?.as_array()?;
    let manifest = plan.pointer("/manifest/path").and_then(serde_json::Value::as_str).unwrap_or_default();
    let files = files.iter().filter_map(|file| file.as_str()).map(PathBuf::from).collect();
    Some((manifest.to_owned(), files))
}

/// A job's directory from an earlier `emit` that no current job produces.
#[derive(Debug, PartialEq)]
pub struct Stale {
    /// Its path.
    pub dir: PathBuf,
    /// Manifest for which it was written.
    manifest: String,
}

impl Stale {
    /// Formats it as a line of [`differences`].
    pub fn difference(&self) -> String {
        format!("surplus    {}", self.dir.display())
    }

    /// Returns a note that suggests removing it. It is not removed: it may be of a run with other manifests.
    pub fn note(&self) -> String {
        format!(
            "`{}` was written by an earlier `emit` for `{}`, and no job produces it any more; \
                remove it, or `emit --check` exits with 4",
            self.dir.display(),
            self.manifest
        )
    }
}

/// Returns the directories in `out` that `emit` wrote for manifests that were removed or now describe another
/// job. Directories of existing manifests outside `asked` are skipped. `asked` has paths relative to `root`,
/// like `plan.json`.
pub fn stale(out: &Path, targets: &[Target], root: &Path, asked: &BTreeSet<&str>) -> Vec<Stale> {
    let Ok(entries) = fs::read_dir(out) else { return Vec::new() };
    let mut found: Vec<Stale> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .filter(|dir| targets.iter().all(|target| target.dir != *dir))
        .filter_map(|dir| {
            let (manifest, _) = read_emitted_plan(&dir)?;
            let elsewhere = !asked.contains(manifest.as_str()) && root.join(&manifest).exists();
            (!elsewhere).then_some(Stale { dir, manifest })
        })
        .collect();
    found.sort_by(|a, b| a.dir.cmp(&b.dir));
    found
}

/// Returns the reason why a directory may not be replaced: it contains files that `emit` did not write.
fn describe_foreign_files(target: &Target) -> Option<String> {
    let Target { dir, tree } = target;
    if !dir.exists() {
        return None;
    }
    if !dir.is_dir() {
        return Some(format!("`{}` is not a directory", dir.display()));
    }
    let list = files_of_earlier_emit(dir);
    let is_listed = list.is_some();
    let known = list.unwrap_or_default();
    // A file with the same content as the new one is not lost.
    let same = |path: &PathBuf| tree.get(path).is_some_and(|new| has_content(&dir.join(path), new));
    let foreign: Vec<String> = files_of(dir)
        .into_iter()
        .filter(|path| !known.contains(path) && !same(path))
        .map(|path| format!("`{}`", path.display()))
        .collect();
    let (first, rest) = foreign.split_at(foreign.len().min(3));
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    let pronoun = if foreign.len() == 1 { "it" } else { "them" };
    let which = if is_listed || !tree.keys().any(|path| dir.join(path).exists()) {
        "which `emit` did not write"
    } else {
        "and no `plan.json` that lists the files of `emit`"
    };
    (!foreign.is_empty()).then(|| {
        format!(
            "`{}` contains {}{more}, {which}; move {pronoun} away, or choose another directory",
            dir.display(),
            if rest.is_empty() { text::list(first, "and") } else { first.join(", ") },
        )
    })
}

/// A directory to be replaced, with the sibling paths of the new and the old one.
struct Staged<'a> {
    target: &'a Target,
    fresh: PathBuf,
    old: PathBuf,
}

/// Reason why directories were not replaced.
#[derive(Debug)]
pub enum ReplaceError {
    /// They cannot be written, or contain files of others.
    Refused(String),
    /// Another process writes one of them.
    Busy(String),
}

/// Replaces all directories or none: checks all, writes them next to their places, then renames them; a
/// failure restores those already replaced.
pub fn replace_all(targets: &[Target]) -> Result<(), ReplaceError> {
    let refuse_foreign = || targets.iter().find_map(describe_foreign_files).map_or(Ok(()), Err);
    refuse_foreign().map_err(ReplaceError::Refused)?;
    let staged: Vec<Staged> = targets.iter().map(staged).collect();
    let missing = missing_parents(&staged);
    // Only empty directories are removed.
    let remove_parents = || {
        for std::cmp::Reverse(parent) in &missing {
            let _ = fs::remove_dir(parent);
        }
    };
    let cannot = |target: &Target, error: &io::Error| {
        ReplaceError::Refused(format!("`{}` cannot be written: {}", target.dir.display(), describe(error)))
    };
    let mut reserved = Vec::new();
    for one in &staged {
        let lock = fs::create_dir_all(one.parent())
            .map_err(|error| cannot(one.target, &error))
            .and_then(|()| one.lock_parent())
            .and_then(|_parent| one.reserve());
        match lock {
            Ok(lock) => reserved.push((one, lock)),
            Err(why) => {
                for (one, _) in &reserved {
                    let _ = fs::remove_dir_all(&one.fresh);
                }
                remove_parents();
                return Err(why);
            }
        }
    }
    let give_up = |done: &[Staged]| {
        for one in done.iter().rev() {
            roll_back(one);
        }
        for one in &staged {
            let _ = fs::remove_dir_all(&one.fresh);
        }
        remove_parents();
    };
    for one in &staged {
        if let Err(error) = one.write() {
            give_up(&[]);
            return Err(cannot(one.target, &error));
        }
    }
    // No other process sees the old directories on their way out, and all that is there has been checked.
    let parents: BTreeMap<PathBuf, &Staged> =
        staged.iter().map(|one| (one.parent().to_path_buf(), one)).collect();
    let locked: Result<Vec<_>, _> = parents.into_values().map(Staged::lock_parent).collect();
    let locked = locked.and_then(|locks| {
        refuse_foreign().map_err(ReplaceError::Refused)?;
        Ok(locks)
    });
    let _locks = locked.inspect_err(|_| give_up(&[]))?;
    for (at, one) in staged.iter().enumerate() {
        if let Err(error) = move_into_place(one) {
            give_up(staged.get(..at).unwrap_or(&[]));
            return Err(cannot(one.target, &error));
        }
    }
    for one in &staged {
        // The old directory only contains files that `emit` wrote.
        let _ = fs::remove_dir_all(&one.old);
    }
    Ok(())
}

fn staged(target: &Target) -> Staged<'_> {
    let parent =
        target.dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let name = target.dir.file_name().map_or_else(|| "out".into(), |name| name.to_string_lossy());
    Staged {
        target,
        fresh: parent.join(format!(".{name}.trainc-new")),
        old: parent.join(format!(".{name}.trainc-old")),
    }
}

/// Returns the missing parent directories of the targets, innermost first.
fn missing_parents(staged: &[Staged]) -> BTreeSet<std::cmp::Reverse<PathBuf>> {
    let parents = staged.iter().flat_map(|one| one.fresh.ancestors().skip(1));
    let missing = parents.filter(|parent| !parent.as_os_str().is_empty() && !parent.exists());
    missing.map(|parent| std::cmp::Reverse(parent.to_path_buf())).collect()
}

/// Name of `plan.json` while it is written.
const PARTIAL_PLAN: &str = "plan.json.partial";

/// Maximum time to wait for another `emit` that moves directories.
const MOST_WAITED: Duration = Duration::from_secs(10);

impl Staged<'_> {
    fn parent(&self) -> &Path {
        self.fresh.parent().unwrap_or_else(|| Path::new("."))
    }

    /// Locks the parent directory until the result is dropped. A file system without locks is used without.
    fn lock_parent(&self) -> Result<Option<fs::File>, ReplaceError> {
        let Ok(parent) = fs::File::open(self.parent()) else { return Ok(None) };
        let start = Instant::now();
        while matches!(parent.try_lock(), Err(fs::TryLockError::WouldBlock)) {
            if start.elapsed() > MOST_WAITED {
                return Err(self.busy());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Some(parent))
    }

    fn busy(&self) -> ReplaceError {
        let dir = self.target.dir.display();
        ReplaceError::Busy(format!("another `emit` is writing `{dir}`; run this one again after it"))
    }

    /// Creates the new directory and locks it, while the parent is locked. Removes what a killed `emit` left,
    /// and nothing else.
    fn reserve(&self) -> Result<Option<fs::File>, ReplaceError> {
        for path in [&self.fresh, &self.old] {
            let Ok(found) = fs::symlink_metadata(path) else { continue };
            // Only a directory is opened: a named pipe would wait for a writer.
            let is_locked = found.is_dir()
                && fs::File::open(path)
                    .is_ok_and(|open| matches!(open.try_lock(), Err(fs::TryLockError::WouldBlock)));
            if is_locked {
                return Err(self.busy());
            }
            if let Some(why) = describe_foreign_leftover(path) {
                return Err(ReplaceError::Refused(why));
            }
            fs::remove_dir_all(path).map_err(|error| self.unwritable(&error))?;
        }
        fs::create_dir(&self.fresh).map_err(|error| self.unwritable(&error))?;
        let Ok(fresh) = fs::File::open(&self.fresh) else { return Ok(None) };
        Ok(fresh.try_lock().is_ok().then_some(fresh))
    }

    fn unwritable(&self, error: &io::Error) -> ReplaceError {
        let dir = self.target.dir.display();
        ReplaceError::Refused(format!("`{dir}` cannot be written: {}", describe(error)))
    }

    /// Writes the new directory next to its place; `plan.json` first, because it lists what the directory
    /// will contain.
    fn write(&self) -> io::Result<()> {
        let plan = Path::new("plan.json");
        if let Some(bytes) = self.target.tree.get(plan) {
            fs::write(self.fresh.join(PARTIAL_PLAN), bytes)?;
            fs::rename(self.fresh.join(PARTIAL_PLAN), self.fresh.join(plan))?;
        }
        for (path, bytes) in self.target.tree.iter().filter(|(path, _)| *path != plan) {
            let full = self.fresh.join(path);
            if let Some(parent) = full.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(full, bytes)?;
        }
        Ok(())
    }
}

/// Returns the reason why a directory with the name of a staged one may not be deleted: it contains files
/// that a killed `emit` did not leave.
fn describe_foreign_leftover(path: &Path) -> Option<String> {
    let shown = path.display();
    if !fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        return Some(format!("`{shown}` is not a directory that `emit` left; move it away"));
    }
    let known = files_of_earlier_emit(path).unwrap_or_default();
    let foreign = files_of(path)
        .into_iter()
        .find(|file| !known.contains(file) && file.as_path() != Path::new(PARTIAL_PLAN))?;
    Some(format!(
        "`{shown}` is in the way: it contains `{}`, which `emit` did not write; move it away",
        foreign.display()
    ))
}

/// Renames the new directory into its place.
fn move_into_place(one: &Staged) -> io::Result<()> {
    let dir = &one.target.dir;
    if dir.exists() {
        fs::rename(dir, &one.old)?;
    }
    fs::rename(&one.fresh, dir).inspect_err(|_| {
        if one.old.exists() {
            let _ = fs::rename(&one.old, dir);
        }
    })
}

/// Undoes [`move_into_place`].
fn roll_back(one: &Staged) {
    let dir = &one.target.dir;
    if fs::rename(dir, &one.fresh).is_ok() && one.old.exists() {
        let _ = fs::rename(&one.old, dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(dir: &Path, files: &[(&str, &str)]) -> Target {
        let tree = files.iter().map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_vec())).collect();
        Target { dir: dir.to_path_buf(), tree }
    }

    fn refused(targets: &[Target]) -> String {
        let ReplaceError::Refused(why) = replace_all(targets).unwrap_err() else { panic!("it is busy") };
        why
    }

    fn plan(files: &[&str]) -> String {
        serde_json::json!({"trainc_version": "0", "files": files}).to_string()
    }

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("trainc-directory-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn what_emit_did_not_write_is_named_and_kept() {
        let root = scratch("foreign");
        let out = root.join("out");
        let list = plan(&["plan.json", "source/a.py", "source/b.py"]);
        let first = target(&out, &[("plan.json", &list), ("source/a.py", "1"), ("source/b.py", "2")]);
        replace_all(&[first]).unwrap();
        // A file of before that is no longer written goes; one of the user's does not.
        let list = plan(&["plan.json", "source/a.py"]);
        let second = [target(&out, &[("plan.json", &list), ("source/a.py", "3")])];
        fs::write(out.join("source/notes.txt"), "mine").unwrap();
        let why = refused(&second);
        assert!(
            why.contains("contains `source/notes.txt`, which `emit` did not write; move it away"),
            "{why}"
        );
        assert_eq!(fs::read_to_string(out.join("source/a.py")).unwrap(), "1");
        fs::remove_file(out.join("source/notes.txt")).unwrap();
        replace_all(&second).unwrap();
        assert_eq!(files_of(&out).len(), 2);
        assert_eq!(fs::read_dir(&root).unwrap().count(), 1, "nothing is left beside it");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn without_its_list_what_is_the_same_is_not_in_the_way() {
        let root = scratch("unlisted");
        let out = root.join("out");
        let list = plan(&["plan.json", "plan.md"]);
        let whole = || [target(&out, &[("plan.json", &list), ("plan.md", "1")])];
        replace_all(&whole()).unwrap();
        fs::remove_file(out.join("plan.json")).unwrap();
        replace_all(&whole()).unwrap();
        assert!(out.join("plan.json").exists());
        // Differing content may belong to someone else.
        fs::remove_file(out.join("plan.json")).unwrap();
        fs::write(out.join("plan.md"), "2").unwrap();
        let why = refused(&whole());
        assert!(
            why.contains("contains `plan.md`, and no `plan.json` that lists the files of `emit`;"),
            "{why}"
        );
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn what_cannot_be_written_leaves_no_directory() {
        let root = scratch("nothing");
        let out = root.join("deep/out");
        let long = "x".repeat(300);
        let both = [target(&out.join("a"), &[("plan.json", "{}")]), target(&out.join("b"), &[(&long, "")])];
        assert!(replace_all(&both).is_err());
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_directory_of_others_is_not_ours() {
        let root = scratch("others");
        for (name, text) in [("plan.json", "{}"), ("terraform.tfstate", "")] {
            let out = root.join(name);
            fs::create_dir_all(&out).unwrap();
            fs::write(out.join(name), text).unwrap();
            assert!(replace_all(&[target(&out, &[("plan.md", "")])]).is_err(), "{name}");
            assert_eq!(fs::read_to_string(out.join(name)).unwrap(), text);
        }
        let file = root.join("file");
        fs::write(&file, "").unwrap();
        let why = refused(&[target(&file, &[("plan.md", "")])]);
        assert!(why.ends_with("is not a directory"), "{why}");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_job_that_is_gone_leaves_a_stale_directory() {
        let root = scratch("stale");
        let out = root.join("out");
        let of = |job: &str, manifest: &str| {
            let list = serde_json::json!({"trainc_version": "0", "files": ["plan.json"], "manifest": {"path": manifest}});
            target(&out.join(job), &[("plan.json", &list.to_string())])
        };
        for name in ["a.kdl", "other.kdl"] {
            fs::write(root.join(name), "").unwrap();
        }
        replace_all(&[
            of("a", "a.kdl"),
            of("renamed", "a.kdl"),
            of("gone", "gone.kdl"),
            of("of-another-run", "other.kdl"),
        ])
        .unwrap();
        fs::create_dir_all(out.join("notes")).unwrap();
        fs::write(out.join("notes/plan.json"), "{}").unwrap();
        fs::write(out.join("README.md"), "").unwrap();
        let found = stale(&out, &[of("a", "a.kdl")], &root, &BTreeSet::from(["a.kdl"]));
        let lines: Vec<String> = found.iter().map(Stale::difference).collect();
        let surplus = |job: &str| format!("surplus    {}", out.join(job).display());
        assert_eq!(lines, [surplus("gone"), surplus("renamed")]);
        assert!(found[0].note().contains("for `gone.kdl`"));
        assert!(stale(&root.join("nowhere"), &[], &root, &BTreeSet::new()).is_empty());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn only_what_a_killed_emit_left_is_deleted() {
        let root = scratch("leftover");
        let out = root.join("out");
        let list = plan(&["plan.json", "plan.md"]);
        let whole = [target(&out, &[("plan.json", &list), ("plan.md", "1")])];
        for name in [".out.trainc-new", ".out.trainc-old"] {
            let left = root.join(name);
            fs::create_dir(&left).unwrap();
            fs::write(left.join("notes.txt"), "mine").unwrap();
            assert!(refused(&whole).contains("contains `notes.txt`, which `emit` did not write"));
            assert_eq!(fs::read_to_string(left.join("notes.txt")).unwrap(), "mine");
            fs::remove_dir_all(&left).unwrap();
            // As a killed run leaves it.
            fs::create_dir(&left).unwrap();
            fs::write(left.join("plan.json"), &list).unwrap();
            fs::write(left.join("plan.md"), "").unwrap();
            fs::write(left.join(PARTIAL_PLAN), "{").unwrap();
            replace_all(&whole).unwrap();
            assert_eq!(files_of(&out).len(), 2);
            fs::write(&left, "mine").unwrap();
            assert!(refused(&whole).contains("is not a directory that `emit` left"));
            fs::remove_file(&left).unwrap();
            // Opened, a named pipe would wait for a writer.
            assert!(std::process::Command::new("mkfifo").arg(&left).status().unwrap().success());
            assert!(refused(&whole).contains("is not a directory that `emit` left"));
            fs::remove_file(&left).unwrap();
        }
        assert_eq!(fs::read_dir(&root).unwrap().count(), 1);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_directory_that_another_process_writes_is_busy() {
        let root = scratch("busy");
        let one = target(&root.join("out"), &[("plan.json", "{}")]);
        let other = staged(&one);
        let lock = other.reserve().unwrap();
        assert!(matches!(replace_all(std::slice::from_ref(&one)), Err(ReplaceError::Busy(_))));
        drop(lock);
        replace_all(std::slice::from_ref(&one)).unwrap();
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn all_or_none() {
        let root = scratch("all");
        let a = root.join("a");
        let list = plan(&["plan.json"]);
        replace_all(&[target(&a, &[("plan.json", &list)])]).unwrap();
        // The second is inside the first, so its staged directory no longer exists when it is moved.
        let inner = a.join("b");
        let newer = plan(&["plan.json", "plan.md"]);
        let both = [target(&a, &[("plan.json", &newer), ("plan.md", "new")]), target(&inner, &[("x", "")])];
        assert!(replace_all(&both).is_err());
        assert_eq!(fs::read_to_string(a.join("plan.json")).unwrap(), list, "the first is back");
        assert!(!a.join("plan.md").exists() && !root.join(".a.trainc-new").exists());
        fs::remove_dir_all(root).unwrap();
    }
}
