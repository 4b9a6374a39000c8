//! What follows a command that is to be typed next: the manifest, and the flags that led to it.

use super::account::AccountArgs;
use crate::apply::verdict::MANIFEST;
use crate::diag::{Diagnostic, Problems};
use crate::emit::quoted;
use std::path::Path;

/// Commands of helps that take a manifest.
const COMMANDS: &[&str] = &["plan", "apply", "status", "watch", "logs", "stop", "destroy"];

/// What shapes the job beside its manifest, as it is typed again.
pub(super) fn laid_over(env: Option<&str>, sets: &[String], worker: Option<&Path>) -> Vec<String> {
    let mut out = Vec::new();
    let mut add = |flag: &str, value: &str| out.extend([flag.to_owned(), quoted(value)]);
    if let Some(env) = env {
        add("--env", env);
    }
    for set in sets {
        add("--set", set);
    }
    if let Some(worker) = worker {
        add("--worker", &worker.to_string_lossy());
    }
    out
}

/// The manifest with what is laid over it and the account, for any command about its job.
pub(super) fn manifest(path: &str, laid_over: &[String], account: &AccountArgs) -> String {
    let mut out = quoted(path);
    for word in laid_over {
        out.push_str(&format!(" {word}"));
    }
    out + &account.again()
}

/// A problem whose help names the manifest as it was typed, with its flags.
pub(super) fn typed(mut diagnostic: Diagnostic, manifest: &str) -> Diagnostic {
    let written = |text: &str| {
        COMMANDS.iter().fold(text.to_owned(), |text, command| {
            text.replace(&format!("trainc {command} {MANIFEST}"), &format!("trainc {command} {manifest}"))
        })
    };
    // Where only the file is asked for, the flags of its job are none of the command's.
    let named = format!("--manifest {}", first_word(manifest));
    let written = |text: &str| written(text).replace(&format!("--manifest {MANIFEST}"), &named);
    diagnostic.help = diagnostic.help.map(|help| written(&help));
    diagnostic.notes.iter_mut().for_each(|note| *note = written(note));
    diagnostic
}

/// The first word of a command's rest, as [`quoted`] writes it.
fn first_word(rest: &str) -> &str {
    let (mut within, mut escaped) = (None, false);
    let end = rest.char_indices().find(|(_, c)| {
        let is_plain = std::mem::take(&mut escaped);
        match within {
            _ if is_plain => {}
            Some(quote) if quote == *c => within = None,
            None if matches!(c, '"' | '\'') => within = Some(*c),
            None if *c == '\\' => escaped = true,
            _ => {}
        }
        within.is_none() && *c == ' '
    });
    end.and_then(|(at, _)| rest.get(..at)).unwrap_or(rest)
}

/// The same for all of them.
pub(super) fn all_typed(problems: &Problems, manifest: &str) -> Problems {
    let mut out = Problems::default();
    problems.iter().for_each(|one| out.push(typed(one.clone(), manifest)));
    out
}

#[cfg(test)]
mod tests {
    use super::first_word;

    #[test]
    fn a_quoted_path_is_one_word() {
        assert_eq!(first_word("job.kdl --env prod"), "job.kdl");
        assert_eq!(first_word("\"my job.kdl\" --env prod"), "\"my job.kdl\"");
        assert_eq!(first_word("'it'\\''s a job.kdl' --set x"), "'it'\\''s a job.kdl'");
        assert_eq!(first_word("-"), "-");
    }
}
