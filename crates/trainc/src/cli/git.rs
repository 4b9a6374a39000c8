//! A program in a git repository: its tree at one commit, by the `git` program, from a cache of what was fetched before.
//!
//! Credentials are git's own affair (its helpers, ssh): none is read, asked for or passed on here.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use trainc_ir::digest::sha256_hex;
use trainc_ir::{SourceFile, SourceTree};
use trainc_plan::Repository;

/// The most bytes of a tree.
const MOST_BYTES: u64 = 512 << 20;
/// The most files of a tree.
const MOST_FILES: usize = 20_000;
/// What a link may lead through before it counts as a circle.
const MOST_LINKS: usize = 8;

/// The tree of a repository at its commit, or why there is none. `None` for an address that no rule accepts: nothing is
/// asked there, and the rule says so.
pub(super) fn tree(repository: &Repository) -> Option<Result<SourceTree, String>> {
    let url = repository.url;
    let known = ["https://", "http://", "ssh://", "git@"].iter().any(|scheme| url.starts_with(scheme));
    // What stands before the host of an `https` address would be seen on the command line.
    let bare = url.split_once("://").is_none_or(|(scheme, rest)| {
        scheme == "ssh" || !rest.split('/').next().unwrap_or_default().contains('@')
    });
    (known && bare).then(|| Git::open(url)?.tree(repository))
}

/// A bare repository in the cache, for one address.
struct Git<'a> {
    url: &'a str,
    cache: PathBuf,
}

impl<'a> Git<'a> {
    fn open(url: &'a str) -> Result<Self, String> {
        let name = sha256_hex(url.as_bytes());
        let cache = caches().join("trainc/git").join(name.get(..16).unwrap_or(&name));
        let git = Self { url, cache };
        if !git.cache.join("HEAD").is_file() {
            let why = |error: std::io::Error| super::world::describe(&error);
            std::fs::create_dir_all(&git.cache).map_err(why)?;
            git.run(&["init", "--bare", "--quiet"])?;
        }
        Ok(git)
    }

    fn tree(&self, repository: &Repository) -> Result<SourceTree, String> {
        let commit = self.commit(repository)?;
        let dir = repository.dir.map_or("", |dir| dir.trim_matches('/'));
        let dir = dir.strip_prefix("./").unwrap_or(dir);
        let place = if dir.is_empty() || dir == "." { commit.clone() } else { format!("{commit}:{dir}") };
        let listed = self.run(&["ls-tree", "-r", "-z", &place])?;
        if String::from_utf8_lossy(&listed.stdout).split('\0').any(|line| line.starts_with("160000 ")) {
            return Err("it has submodules, which are not fetched".to_owned());
        }
        let packed = self.run(&["archive", "--format=tar", &place])?;
        let files = unpack(&packed.stdout)?;
        Ok(SourceTree { dir: format!("{}@{commit}", self.url), files })
    }

    /// The commit that is meant, in the cache.
    fn commit(&self, repository: &Repository) -> Result<String, String> {
        let commit = match (repository.commit, repository.branch) {
            (Some(commit), _) if is_whole(commit) => commit.to_owned(),
            // A short one is only known to who has the history.
            (Some(short), _) => {
                self.fetch(&["+refs/*:refs/fetched/*"], &[])?;
                let found = self.run(&["rev-parse", "--verify", "--quiet", &format!("{short}^{{commit}}")]);
                let found = found.map_err(|_| format!("it has no commit `{short}`"))?;
                return Ok(String::from_utf8_lossy(&found.stdout).trim().to_owned());
            }
            (None, Some(branch)) => self.resolve(branch)?,
            (None, None) => self.resolve("HEAD")?,
        };
        if self.has(&commit) {
            return Ok(commit);
        }
        // By its id where the server allows that, else with everything.
        if self.fetch(&[&commit], &["--depth=1"]).is_err() || !self.has(&commit) {
            self.fetch(&["+refs/*:refs/fetched/*"], &[])?;
        }
        if self.has(&commit) { Ok(commit) } else { Err(format!("it has no commit `{commit}`")) }
    }

    fn has(&self, commit: &str) -> bool {
        self.run(&["cat-file", "-e", &format!("{commit}^{{commit}}")]).is_ok()
    }

    /// The commit of a branch or a tag, as the repository has it now; of a tag with a note, what it is for.
    fn resolve(&self, name: &str) -> Result<String, String> {
        let [branch, tag] = [format!("refs/heads/{name}"), format!("refs/tags/{name}")];
        let peeled = format!("{tag}^{{}}");
        let found = self.run(&["ls-remote", "--", self.url, name, &branch, &tag, &peeled])?;
        let text = String::from_utf8_lossy(&found.stdout).into_owned();
        let known: BTreeMap<&str, &str> =
            text.lines().filter_map(|line| line.split_once('\t')).map(|(id, name)| (name, id)).collect();
        let id = [branch.as_str(), &peeled, &tag, "HEAD"]
            .iter()
            .filter(|key| **key != "HEAD" || name == "HEAD")
            .find_map(|key| known.get(*key));
        id.map(|id| (*id).to_owned()).ok_or_else(|| format!("it has no branch or tag `{name}`"))
    }

    fn fetch(&self, refs: &[&str], options: &[&str]) -> Result<(), String> {
        let mut words = vec!["fetch", "--quiet", "--no-tags", "--no-write-fetch-head"];
        words.extend(options);
        words.extend(["--", self.url]);
        words.extend(refs);
        self.run(&words).map(|_| ())
    }

    /// Runs git in the cache, without a terminal to ask on; what it says last, where it fails.
    fn run(&self, words: &[&str]) -> Result<Output, String> {
        let mut command = Command::new("git");
        command
            .args(["-c", "gc.auto=0", "-c", "protocol.ext.allow=never", "-c", "core.hooksPath=/dev/null"])
            .args(words)
            .current_dir(&self.cache)
            .env("GIT_DIR", &self.cache)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("LC_ALL", "C")
            // As a hook of git sets them for its own repository.
            .env_remove("GIT_WORK_TREE")
            .env_remove("GIT_INDEX_FILE")
            .env_remove("GIT_OBJECT_DIRECTORY")
            .stdin(Stdio::null());
        let output = match command.output() {
            Ok(output) => output,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err("there is no program `git` on this machine".to_owned());
            }
            Err(error) => return Err(super::world::describe(&error)),
        };
        if output.status.success() {
            return Ok(output);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no reason given");
        let last = last.trim().trim_start_matches("fatal: ").trim_start_matches("error: ");
        Err(format!("git {}: {}", words.first().unwrap_or(&""), last.trim_end_matches('.')))
    }
}

fn is_whole(commit: &str) -> bool {
    matches!(commit.len(), 40 | 64) && commit.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Where programs of this user keep what they can fetch again.
fn caches() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("XDG_CACHE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(std::env::temp_dir)
}

/// The files of a tar; links become what they lead to, as a directory's do, and may not leave the tree.
fn unpack(tar: &[u8]) -> Result<Vec<SourceFile>, String> {
    let broken = |error: std::io::Error| format!("git archive: {error}");
    let mut files: BTreeMap<String, SourceFile> = BTreeMap::new();
    let mut links: Vec<(String, String)> = Vec::new();
    let mut total = 0_u64;
    for entry in tar::Archive::new(tar).entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let path = entry.path().map_err(broken)?.to_string_lossy().into_owned();
        match entry.header().entry_type() {
            tar::EntryType::Regular => {
                total += entry.size();
                if total > MOST_BYTES || files.len() >= MOST_FILES {
                    return Err("it holds over 512 MiB or 20,000 files; data belong in a channel".to_owned());
                }
                let executable = entry.header().mode().map_err(broken)? & 0o100 != 0;
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).map_err(broken)?;
                files.insert(path.clone(), SourceFile::new(path, bytes, executable));
            }
            tar::EntryType::Symlink => {
                let target = entry.link_name().map_err(broken)?;
                let target = target.map(|to| to.to_string_lossy().into_owned()).unwrap_or_default();
                links.push((path, target));
            }
            _ => {}
        }
    }
    let by_name: BTreeMap<String, String> = links.iter().cloned().collect();
    for (path, target) in &links {
        let (mut from, mut to) = (path.clone(), target.clone());
        let mut found = None;
        for _ in 0..MOST_LINKS {
            let Some(next) = joined(&from, &to) else { break };
            found = files.get(&next).cloned();
            let Some(further) = by_name.get(&next).filter(|_| found.is_none()) else { break };
            (from, to) = (next, further.clone());
        }
        let mut file = found.ok_or_else(|| format!("the link {path} leads to no file of the tree"))?;
        file.path.clone_from(path);
        files.insert(path.clone(), file);
    }
    Ok(files.into_values().collect())
}

/// Where a link leads, inside the tree.
fn joined(link: &str, target: &str) -> Option<String> {
    let parent = Path::new(link).parent().and_then(Path::to_str).unwrap_or("");
    let mut parts: Vec<&str> = parent.split('/').filter(|part| !part.is_empty()).collect();
    if target.starts_with('/') {
        return None;
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_stays_in_the_tree() {
        assert_eq!(joined("a/b", "../c").as_deref(), Some("c"));
        assert_eq!(joined("a/b", "./c/d").as_deref(), Some("a/c/d"));
        assert_eq!(joined("a", "../etc/passwd"), None);
        assert_eq!(joined("a", "/etc/passwd"), None);
    }

    #[test]
    fn nobody_is_asked_at_an_address_that_is_refused() {
        let at = |url| tree(&Repository { url, branch: None, commit: None, dir: None });
        for url in
            ["file:///srv/x.git", "ext::sh -c id", "--upload-pack=id", "https://me:secret@host/x.git", "./x"]
        {
            assert!(at(url).is_none(), "{url}");
        }
    }
}
