//! A program in a remote git repository: fetched into a cache, and read at one commit.

use super::{Repository, Revision};
use std::collections::BTreeMap;
use std::path::PathBuf;
use trainc_ir::SourceTree;
use trainc_ir::digest::sha256_hex;
use trainc_plan::ReadError;
use trainc_plan::Repository as Source;

/// Returns the tree of a repository at its commit, or the reason it cannot be read. `None` for an address that another
/// rule refuses: nothing is fetched from it.
pub(in crate::cli) fn fetch(source: &Source) -> Option<Result<SourceTree, String>> {
    let url = source.url;
    let is_supported = ["https://", "http://", "ssh://", "git@"].iter().any(|scheme| url.starts_with(scheme));
    // Credentials before the host of an `https` address would show on the command line.
    let has_no_user = url.split_once("://").is_none_or(|(scheme, rest)| {
        scheme == "ssh" || !rest.split('/').next().unwrap_or_default().contains('@')
    });
    (is_supported && has_no_user).then(|| Remote::open(url)?.tree(source))
}

/// A remote repository, with its bare repository in the cache.
struct Remote<'a> {
    url: &'a str,
    cache: Repository,
}

impl<'a> Remote<'a> {
    fn open(url: &'a str) -> Result<Self, String> {
        let name = sha256_hex(url.as_bytes());
        let dir = cache_dir().join("trainc/git").join(name.get(..16).unwrap_or(&name));
        let is_new = !dir.join("HEAD").is_file();
        if is_new {
            std::fs::create_dir_all(&dir).map_err(|error| crate::cli::files::describe(&error))?;
        }
        let cache = Repository { dir, is_bare: true };
        if is_new {
            cache.run(&["init", "--bare", "--quiet"])?;
        }
        Ok(Self { url, cache })
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
                self.fetch(&["+refs/*:refs/fetched/*"], &[])?;
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
        if self.fetch(&[&commit], &["--depth=1"]).is_err() || !self.has(&commit) {
            self.fetch(&["+refs/*:refs/fetched/*"], &[])?;
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
        let found = self.cache.run(&["ls-remote", "--", self.url, name, &branch, &tag, &peeled])?;
        let text = String::from_utf8_lossy(&found).into_owned();
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
        self.cache.run(&words).map(|_| ())
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

    #[test]
    fn nothing_is_fetched_from_a_refused_address() {
        let at = |url| fetch(&Source { url, branch: None, commit: None, dir: None });
        for url in
            ["file:///srv/x.git", "ext::sh -c id", "--upload-pack=id", "https://me:secret@host/x.git", "./x"]
        {
            assert!(at(url).is_none(), "{url}");
        }
    }
}
