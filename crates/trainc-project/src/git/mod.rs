//! Git repositories, read by the `git` program.
//!
//! Credentials are left to git (its helpers, ssh): none is read, asked for or passed on here.

mod limited;
mod remote;
mod revision;

pub(crate) use remote::fetch;
pub use revision::Revision;

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A repository on this machine.
struct Repository {
    dir: PathBuf,
    is_bare: bool,
}

impl Repository {
    /// Returns a `git` command on the repository, with no terminal for prompts and without the variables that
    /// a git hook sets for another repository.
    fn command(&self) -> Command {
        let mut command = Command::new("git");
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"] {
            command.env_remove(name);
        }
        if self.is_bare {
            command.env("GIT_DIR", &self.dir);
        }
        command
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            // A partial clone would fetch missing objects: reading touches no network.
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("LC_ALL", "C")
            .arg("-C")
            .arg(&self.dir)
            .args([
                "-c",
                "gc.auto=0",
                "-c",
                "fetch.unpackLimit=1",
                "-c",
                "protocol.ext.allow=never",
                "-c",
                "core.hooksPath=/dev/null",
            ])
            .arg("--no-pager")
            .stdin(Stdio::null());
        command
    }

    /// Runs git to its end; fails only if it cannot be started.
    fn output(&self, words: &[&str]) -> Result<Output, String> {
        self.command().args(words).output().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => "the program `git` is not installed".to_owned(),
            _ => format!("`git` cannot be run: {}", crate::files::describe(&error)),
        })
    }

    /// Runs git to its end and returns its standard output; fails with the last line of its standard error.
    fn run(&self, words: &[&str]) -> Result<Vec<u8>, String> {
        let output = self.output(words)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let verb = words.first().unwrap_or(&"");
        Err(format!("git {verb}: {}", last_error_line(&output).as_deref().unwrap_or("no reason given")))
    }
}

/// Returns the last line that git wrote to standard error, without its prefix and full stop.
fn last_error_line(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rev().find(|line| !line.trim().is_empty())?.trim();
    let last = last.trim_start_matches("fatal: ").trim_start_matches("error: ");
    Some(last.trim_end_matches('.').to_owned())
}
