//! What follows a command that is to be typed next: the manifest, and the flags that led to it.

use super::account::AccountArgs;
use super::overlay::Overlay;
use std::fmt;
use trainc_apply::verdict::MANIFEST;
use trainc_diag::{Diagnostic, Problems};
use trainc_emit::quoted;

/// Commands of helps that take a manifest, beside `apply`.
const COMMANDS: &[&str] = &["plan", "status", "watch", "logs", "stop", "destroy"];

/// What follows a command about a job: its manifest, and the flags that led there.
#[derive(Clone, Debug)]
pub(super) struct Again {
    manifest: String,
    /// What `apply` was told beside: how long it waits, what it takes over.
    apply: Vec<String>,
}

impl fmt::Display for Again {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.manifest)
    }
}

impl Again {
    /// The manifest with what is laid over it and the account, for any command about its job.
    pub(super) fn of(path: &str, overlay: &Overlay, account: &AccountArgs) -> Self {
        let words = [quoted(path)].into_iter().chain(overlay.again()).collect::<Vec<_>>();
        Self { manifest: words.join(" ") + &account.again(), apply: Vec::new() }
    }

    /// With what `apply` was told beside.
    #[must_use]
    pub(super) fn with(mut self, apply: Vec<String>) -> Self {
        self.apply = apply;
        self
    }

    /// A text whose commands name the manifest, as a person types them. The flags of `apply` stay with it, but for what the
    /// text says itself.
    pub(super) fn write(&self, text: &str) -> String {
        let text = COMMANDS.iter().fold(text.to_owned(), |text, command| {
            text.replace(&format!("trainc {command} {MANIFEST}"), &format!("trainc {command} {self}"))
        });
        // Where only the file is asked for, the flags of its job are none of the command's.
        let named = format!("--manifest {}", first_word(&self.manifest));
        let text = text.replace(&format!("--manifest {MANIFEST}"), &named);
        let apply = format!("trainc apply {MANIFEST}");
        let mut parts = text.split(&apply);
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (said, rest) = leading_flags(part);
            let is_said =
                |flag: &str| said.split_whitespace().any(|word| flag.split(' ').next() == Some(word));
            let kept = self.apply.iter().filter(|flag| !is_said(flag)).map(|flag| format!(" {flag}"));
            out.push_str(&format!("trainc apply {self}{said}{}{rest}", kept.collect::<String>()));
        }
        out
    }

    /// A problem whose help names the manifest as it was typed, with its flags.
    pub(super) fn typed(&self, mut diagnostic: Diagnostic) -> Diagnostic {
        diagnostic.help = diagnostic.help.map(|help| self.write(&help));
        diagnostic.notes.iter_mut().for_each(|note| *note = self.write(note));
        diagnostic
    }

    /// The same for all of them.
    pub(super) fn all_typed(&self, problems: &Problems) -> Problems {
        let mut out = Problems::default();
        problems.iter().for_each(|one| out.push(self.typed(one.clone())));
        out
    }
}

/// The flags that a text gives `apply` itself, and what comes after them.
fn leading_flags(text: &str) -> (&str, &str) {
    const FLAGS: [&str; 3] = [" --new-run", " --adopt", " --wait-for-capacity 2h"];
    let mut end = 0;
    while let Some(flag) = text.get(end..).and_then(|rest| FLAGS.iter().find(|flag| rest.starts_with(**flag)))
    {
        end += flag.len();
    }
    text.split_at_checked(end).unwrap_or((text, ""))
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

#[cfg(test)]
mod tests {
    use super::{Again, first_word};
    use trainc_apply::verdict::MANIFEST;

    #[test]
    fn a_quoted_path_is_one_word() {
        assert_eq!(first_word("job.kdl --env prod"), "job.kdl");
        assert_eq!(first_word("\"my job.kdl\" --env prod"), "\"my job.kdl\"");
        assert_eq!(first_word("'it'\\''s a job.kdl' --set x"), "'it'\\''s a job.kdl'");
        assert_eq!(first_word("-"), "-");
    }

    #[test]
    fn apply_keeps_its_flags_and_says_none_twice() {
        let apply = ["--adopt", "--wait-for-capacity 4h", "--yes"].map(str::to_owned).to_vec();
        let again = Again { manifest: "job.kdl --env prod".to_owned(), apply };
        let write = |text: &str| again.write(&text.replace("MANIFEST", MANIFEST));
        assert_eq!(
            write("mend it, then trainc apply MANIFEST --new-run: it goes on"),
            "mend it, then trainc apply job.kdl --env prod --new-run --adopt --wait-for-capacity 4h --yes: it goes on"
        );
        assert_eq!(
            write("trainc apply MANIFEST --wait-for-capacity 2h"),
            "trainc apply job.kdl --env prod --wait-for-capacity 2h --adopt --yes"
        );
        assert_eq!(write("`trainc stop MANIFEST --run x`"), "`trainc stop job.kdl --env prod --run x`");
        assert_eq!(write("--manifest MANIFEST"), "--manifest job.kdl");
    }
}
