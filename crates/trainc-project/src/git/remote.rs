//! A program in a remote git repository: fetched into a cache, and read at one commit.

use super::limited::{Conversation, GitFault, Limits};
use super::{Repository, Revision};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trainc_ir::SourceTree;
use trainc_ir::digest::sha256_hex;
use trainc_plan::ReadError;
use trainc_plan::Repository as Source;

/// Returns the tree of a repository at its commit, or the reason it cannot be read. `None` for an address
/// that another rule refuses: nothing is fetched from it.
pub(crate) fn fetch(source: &Source) -> Option<Result<SourceTree, String>> {
    let url = source.url;
    let is_supported = ["https://", "http://", "ssh://", "git@"].iter().any(|scheme| url.starts_with(scheme));
    // Credentials before the host of an `https` address would show on the command line.
    let has_no_user = url.split_once("://").is_none_or(|(scheme, rest)| {
        scheme == "ssh" || !rest.split('/').next().unwrap_or_default().contains('@')
    });
    (is_supported && has_no_user).then(|| Remote::open(url, &cache_dir(), limits())?.tree(source))
}

/// Returns the limits of a fetch; the silence is that of any request.
fn limits() -> Limits {
    let seconds = std::env::var("TRAINC_TIMEOUT_SECONDS").ok().and_then(|text| text.trim().parse().ok());
    let silence = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    Limits { silence: silence.unwrap_or(Limits::default().silence), ..Limits::default() }
}

/// A remote repository, with its bare repository in the cache.
struct Remote<'a> {
    url: &'a str,
    cache: Repository,
    host: Conversation,
}

impl<'a> Remote<'a> {
    fn open(url: &'a str, cache: &Path, limits: Limits) -> Result<Self, String> {
        let name = sha256_hex(url.as_bytes());
        let dir = cache.join("trainc/git").join(name.get(..16).unwrap_or(&name));
        let is_new = !dir.join("HEAD").is_file();
        if is_new {
            std::fs::create_dir_all(&dir).map_err(|error| crate::files::describe(&error))?;
        }
        let cache = Repository { dir, is_bare: true };
        if is_new {
            cache.run(&["init", "--bare", "--quiet"])?;
        }
        remove_interrupted(&cache.dir.join("objects/pack"), limits.time);
        Ok(Self { url, cache, host: Conversation::new(limits) })
    }

    fn tree(self, source: &Source) -> Result<SourceTree, String> {
        let commit = self.ensure_commit(source)?;
        let dir = source.dir.map_or("", |dir| dir.trim_matches('/'));
        let dir = dir.strip_prefix("./").unwrap_or(dir);
        let dir = if dir == "." { "" } else { dir };
        let name = format!("{}@{commit}", self.url);
        Revision::new(self.cache, commit).tree(dir, &name).map_err(|fault| match fault {
            ReadError::NotFound => format!("it has no directory `{dir}`"),
            ReadError::OutsideRoot { .. } => format!("the directory `{dir}` is outside the repository"),
            ReadError::Unreadable(why) => why,
        })
    }

    /// Returns the commit of the source, once it is in the cache.
    fn ensure_commit(&self, source: &Source) -> Result<String, String> {
        let commit = match (source.commit, source.branch) {
            (Some(commit), _) if is_full_id(commit) => commit.to_owned(),
            // An abbreviated ID needs the whole history.
            (Some(short), _) => {
                self.fetch(&["+refs/*:refs/fetched/*"], &[]).map_err(GitFault::into_words)?;
                let found =
                    self.cache.run(&["rev-parse", "--verify", "--quiet", &format!("{short}^{{commit}}")]);
                let found = found.map_err(|_| format!("it has no commit `{short}`"))?;
                return Ok(String::from_utf8_lossy(&found).trim().to_owned());
            }
            (None, Some(branch)) => self.resolve(branch)?,
            (None, None) => self.resolve("HEAD")?,
        };
        if self.has(&commit) {
            return Ok(commit);
        }
        // By its ID where the server allows that, else the whole history.
        match self.fetch(&[&commit], &["--depth=1"]) {
            Err(GitFault::Limit(words)) => return Err(words),
            Ok(()) if self.has(&commit) => {}
            Ok(()) | Err(GitFault::Other(_)) => {
                self.fetch(&["+refs/*:refs/fetched/*"], &[]).map_err(GitFault::into_words)?;
            }
        }
        if self.has(&commit) { Ok(commit) } else { Err(format!("it has no commit `{commit}`")) }
    }

    fn has(&self, commit: &str) -> bool {
        self.cache.run(&["cat-file", "-e", &format!("{commit}^{{commit}}")]).is_ok()
    }

    /// Returns the current commit of a branch or a tag, peeling an annotated tag.
    fn resolve(&self, name: &str) -> Result<String, String> {
        let [branch, tag] = [format!("refs/heads/{name}"), format!("refs/tags/{name}")];
        let peeled = format!("{tag}^{{}}");
        let words = ["ls-remote", "--", self.url, name, &branch, &tag, &peeled];
        let found = self.host.run(&self.cache, &words).map_err(GitFault::into_words)?;
        let text = String::from_utf8_lossy(&found).into_owned();
        let known: BTreeMap<&str, &str> =
            text.lines().filter_map(|line| line.split_once('\t')).map(|(id, name)| (name, id)).collect();
        let id = [branch.as_str(), &peeled, &tag, "HEAD"]
            .iter()
            .filter(|key| **key != "HEAD" || name == "HEAD")
            .find_map(|key| known.get(*key));
        id.map(|id| (*id).to_owned()).ok_or_else(|| format!("it has no branch or tag `{name}`"))
    }

    /// Fetches into the cache. What it prints shows that it goes on, and a pack is one file, however small it
    /// is.
    fn fetch(&self, refs: &[&str], options: &[&str]) -> Result<(), GitFault> {
        let mut words = vec!["fetch", "--progress", "--no-tags", "--no-write-fetch-head"];
        words.extend(options);
        words.extend(["--", self.url]);
        words.extend(refs);
        self.host.run(&self.cache, &words).map(|_| ())
    }
}

/// Removes what a fetch that was ended left behind. Whatever is older than the longest fetch is of none that
/// still runs.
fn remove_interrupted(packs: &Path, longest: Duration) {
    for entry in std::fs::read_dir(packs).into_iter().flatten().flatten() {
        let age =
            entry.metadata().and_then(|found| found.modified()).ok().and_then(|time| time.elapsed().ok());
        let is_temporary = entry.file_name().to_string_lossy().starts_with("tmp_");
        if is_temporary && age.is_some_and(|age| age > longest) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn is_full_id(commit: &str) -> bool {
    matches!(commit.len(), 40 | 64) && commit.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the cache directory of the user.
fn cache_dir() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("XDG_CACHE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(std::env::temp_dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    #[test]
    fn nothing_is_fetched_from_a_refused_address() {
        let at = |url| fetch(&Source { url, branch: None, commit: None, dir: None });
        for url in
            ["file:///srv/x.git", "ext::sh -c id", "--upload-pack=id", "https://me:secret@host/x.git", "./x"]
        {
            assert!(at(url).is_none(), "{url}");
        }
    }

    /// A repository with a program in `code`, and a cache.
    struct Place(PathBuf);

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    impl Place {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("trainc-remote-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&dir);
            fs::create_dir_all(dir.join("origin/code")).unwrap();
            let place = Self(dir);
            place.git(&["init", "-q", "-b", "main", "."]);
            place.commit("train.py", "print('one')\n");
            place
        }

        fn git(&self, words: &[&str]) -> String {
            let who =
                ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always"];
            let mut command = Command::new("git");
            let done = command.args(who).args(words).current_dir(self.0.join("origin")).output().unwrap();
            assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
            String::from_utf8_lossy(&done.stdout).trim().to_owned()
        }

        /// Writes a file of the program and commits everything; the commit.
        fn commit(&self, file: &str, text: &str) -> String {
            fs::write(self.0.join("origin/code").join(file), text).unwrap();
            self.git(&["add", "-A"]);
            self.git(&["commit", "-q", "-m", "next"]);
            self.git(&["rev-parse", "HEAD"])
        }

        fn tree(
            &self,
            branch: Option<&str>,
            commit: Option<&str>,
            dir: Option<&str>,
        ) -> Result<SourceTree, String> {
            let url = format!("file://{}", self.0.join("origin").display());
            let source = Source { url: &url, branch, commit, dir };
            Remote::open(&url, &self.0.join("cache"), Limits::default())?.tree(&source)
        }

        fn content(&self, branch: Option<&str>, commit: Option<&str>) -> String {
            let tree = self.tree(branch, commit, Some("code")).unwrap();
            let text = |file: &trainc_ir::SourceFile| file.text().into_owned();
            tree.files.iter().map(text).collect()
        }
    }

    #[test]
    fn the_content_is_that_of_the_commit() {
        let place = Place::new("content");
        let first = place.git(&["rev-parse", "HEAD"]);
        let next = place.commit("train.py", "print('two')\n");
        assert_eq!(place.content(None, None), "print('two')\n");
        assert_eq!(place.content(Some("main"), None), "print('two')\n");
        assert_eq!(place.content(None, Some(&next)), "print('two')\n");
        for commit in [&first[..], &first[..10]] {
            assert_eq!(place.content(None, Some(commit)), "print('one')\n", "{commit}");
        }
        // A branch that goes on is another content; a commit that was fetched needs the repository no more.
        place.commit("train.py", "print('three')\n");
        assert_eq!(place.content(Some("main"), None), "print('three')\n");
        fs::remove_dir_all(place.0.join("origin")).unwrap();
        assert_eq!(place.content(None, Some(&first)), "print('one')\n");
    }

    #[test]
    fn what_git_cannot_give_is_said() {
        let place = Place::new("refused");
        let refused = |branch, commit, dir, words: &str| {
            let why = place.tree(branch, commit, dir).unwrap_err();
            assert!(why.contains(words), "{why}");
        };
        refused(Some("mian"), None, None, "no branch or tag `mian`");
        refused(None, Some("0000000000000000000000000000000000000000"), None, "no commit");
        refused(None, None, Some("elsewhere"), "it has no directory `elsewhere`");
        std::os::unix::fs::symlink("../../../etc/passwd", place.0.join("origin/code/out")).unwrap();
        place.commit("train.py", "print('three')\n");
        refused(None, None, Some("code"), "the link `out` leaves the directory");
        fs::remove_file(place.0.join("origin/code/out")).unwrap();
        std::os::unix::fs::symlink("train.py", place.0.join("origin/code/again.py")).unwrap();
        place.commit("train.py", "print('four')\n");
        let files = place.tree(None, None, Some("code")).unwrap().files;
        assert_eq!(files.len(), 2, "a link inside is the file that it leads to");
        let this = place.0.join("origin").display().to_string();
        place.git(&["submodule", "--quiet", "add", &this, "code/part"]);
        place.commit("train.py", "print('five')\n");
        refused(None, None, Some("code"), "submodules");
    }

    #[test]
    fn what_an_interrupted_fetch_left_is_removed() {
        let place = Place::new("left");
        place.content(None, None);
        let cache = fs::read_dir(place.0.join("cache/trainc/git")).unwrap().next().unwrap().unwrap().path();
        let left = cache.join("objects/pack/tmp_pack_x");
        fs::write(&left, "x").unwrap();
        let is_left = || {
            remove_interrupted(&cache.join("objects/pack"), Duration::from_mins(10));
            left.exists()
        };
        assert!(is_left(), "it may be of a fetch that runs");
        let file = fs::File::options().write(true).open(&left).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        assert!(!is_left());
    }
}
