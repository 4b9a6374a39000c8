//! Help text, and the `trainc` commands in it that the user can run next.
//!
//! A stage that reports a problem knows which command fixes it, but not how the manifest was named on the
//! command line. It puts a [`NextCommand`] into its [`Help`]; the command line completes it with its
//! [`Invocation`].

use super::Suggestion;
use std::fmt;
use std::ops::Deref;

/// Placeholder of the manifest in a command that no invocation has completed.
const MANIFEST: &str = "MANIFEST";

/// A `trainc` command about the manifest at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextCommand {
    verb: &'static str,
    flags: Vec<String>,
    is_manifest_flag: bool,
}

impl NextCommand {
    /// Makes `trainc VERB MANIFEST`, with the flags of the invocation.
    pub fn new(verb: &'static str) -> Self {
        Self { verb, flags: Vec::new(), is_manifest_flag: false }
    }

    /// Makes `trainc VERB --manifest MANIFEST`, for a command that takes the file without the flags of its
    /// job.
    pub fn with_manifest_flag(verb: &'static str) -> Self {
        Self { is_manifest_flag: true, ..Self::new(verb) }
    }

    /// Adds a flag of the command, with its value after a space.
    #[must_use]
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Adds several flags.
    #[must_use]
    pub fn flags(mut self, flags: impl IntoIterator<Item = String>) -> Self {
        self.flags.extend(flags);
        self
    }

    fn has_flag(&self, flag: &str) -> bool {
        let name = |flag: &str| flag.split(' ').next().map(str::to_owned);
        self.flags.iter().any(|own| name(own) == name(flag))
    }
}

impl fmt::Display for NextCommand {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&Invocation::new(MANIFEST, Vec::new()).command_line(self))
    }
}

/// The manifest and the flags of the current command line, from which the next command is completed.
#[derive(Clone, Debug)]
pub struct Invocation {
    manifest: String,
    flags: Vec<String>,
    apply_flags: Vec<String>,
}

impl Invocation {
    /// Takes the manifest, quoted for a shell, and the flags that every command about its job accepts.
    pub fn new(manifest: impl Into<String>, flags: Vec<String>) -> Self {
        Self { manifest: manifest.into(), flags, apply_flags: Vec::new() }
    }

    /// Adds flags that only `apply` takes.
    #[must_use]
    pub fn with_apply_flags(mut self, flags: Vec<String>) -> Self {
        self.apply_flags = flags;
        self
    }

    /// Returns the command as the user types it. `apply` repeats the flags that were given to `apply`, except
    /// those that the command sets itself.
    pub fn command_line(&self, next: &NextCommand) -> String {
        let mut words = vec!["trainc", next.verb];
        if next.is_manifest_flag {
            words.push("--manifest");
        }
        words.push(&self.manifest);
        if !next.is_manifest_flag {
            words.extend(self.flags.iter().map(String::as_str));
        }
        words.extend(next.flags.iter().map(String::as_str));
        if next.verb == "apply" {
            let kept = self.apply_flags.iter().filter(|flag| !next.has_flag(flag));
            words.extend(kept.map(String::as_str));
        }
        words.join(" ")
    }
}

/// Something to type that solves a problem: text that may contain commands.
///
/// Derefs to the text, in which a command that no invocation has completed reads `trainc VERB MANIFEST`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Help {
    text: String,
    /// The edits that the text describes. Several are a choice.
    suggestions: Vec<Suggestion>,
    /// Empty for text without commands.
    parts: Vec<HelpPart>,
}

/// A part of a [`Help`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HelpPart {
    /// Text.
    Text(String),
    /// A command, completed by [`Help::fill_commands`].
    Command(NextCommand),
}

impl Help {
    /// Joins text and commands.
    pub fn join(parts: impl IntoIterator<Item = HelpPart>) -> Self {
        let parts: Vec<_> = parts.into_iter().collect();
        Self { text: parts.iter().map(ToString::to_string).collect(), suggestions: Vec::new(), parts }
    }

    /// Completes its commands with the manifest and the flags of the command line.
    #[must_use]
    pub fn fill_commands(&self, invocation: &Invocation) -> Self {
        if self.parts.is_empty() {
            return self.clone();
        }
        let part = |part: &HelpPart| match part {
            HelpPart::Text(text) => text.clone(),
            HelpPart::Command(command) => invocation.command_line(command),
        };
        let text = self.parts.iter().map(part).collect();
        Self { text, suggestions: self.suggestions.clone(), parts: Vec::new() }
    }

    /// Returns the help as text only, whose edits nothing applies.
    #[must_use]
    pub fn without_suggestions(self) -> Self {
        Self { suggestions: Vec::new(), ..self }
    }

    /// Returns the edits that the text describes. Several are a choice.
    pub fn suggestions(&self) -> &[Suggestion] {
        &self.suggestions
    }

    /// Adds an edit that the text describes in other words.
    #[must_use]
    pub fn suggest(mut self, suggestion: Suggestion) -> Self {
        self.suggestions.push(suggestion);
        self
    }

    /// Continues the text, with the reason or the condition of its edit.
    #[must_use]
    pub fn and_text(mut self, text: &str) -> Self {
        self.text.push_str(text);
        if !self.parts.is_empty() {
            self.parts.push(text.into());
        }
        self
    }

    /// Replaces the text between its commands.
    #[must_use]
    pub fn map_text(self, change: impl Fn(String) -> String) -> Self {
        let mut help = if self.parts.is_empty() {
            change(self.text).into()
        } else {
            Self::join(self.parts.into_iter().map(|part| match part {
                HelpPart::Text(text) => HelpPart::Text(change(text)),
                command @ HelpPart::Command(_) => command,
            }))
        };
        help.suggestions = self.suggestions;
        help
    }
}

/// Makes a [`Help`] of text and commands in their order.
#[macro_export]
macro_rules! help {
    ($($part:expr),+ $(,)?) => {
        $crate::Help::join([$($crate::HelpPart::from($part)),+])
    };
}

impl Deref for Help {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Help {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl fmt::Display for HelpPart {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => out.write_str(text),
            Self::Command(command) => command.fmt(out),
        }
    }
}

impl From<String> for Help {
    fn from(text: String) -> Self {
        Self { text, suggestions: Vec::new(), parts: Vec::new() }
    }
}

impl From<&str> for Help {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<&str> for HelpPart {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for HelpPart {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<NextCommand> for HelpPart {
    fn from(command: NextCommand) -> Self {
        Self::Command(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invocation() -> Invocation {
        let apply = ["--adopt", "--wait-for-capacity 4h", "--yes"].map(str::to_owned).to_vec();
        Invocation::new("'my job.kdl'", vec!["--env prod".to_owned()]).with_apply_flags(apply)
    }

    #[test]
    fn a_command_repeats_the_flags_of_the_invocation() {
        let command = |next: NextCommand| invocation().command_line(&next);
        assert_eq!(
            command(NextCommand::new("stop").flag("--run x")),
            "trainc stop 'my job.kdl' --env prod --run x"
        );
        assert_eq!(
            command(NextCommand::new("apply").flag("--new-run")),
            "trainc apply 'my job.kdl' --env prod --new-run --adopt --wait-for-capacity 4h --yes"
        );
        assert_eq!(
            command(NextCommand::new("apply").flag("--wait-for-capacity 2h")),
            "trainc apply 'my job.kdl' --env prod --wait-for-capacity 2h --adopt --yes"
        );
        assert_eq!(
            command(NextCommand::with_manifest_flag("catalog permissions")),
            "trainc catalog permissions --manifest 'my job.kdl'"
        );
    }

    #[test]
    fn help_reads_manifest_until_it_is_completed() {
        let help = help!["run `", NextCommand::new("plan"), "` again"];
        assert_eq!(&*help, "run `trainc plan MANIFEST` again");
        assert_eq!(&*help.fill_commands(&invocation()), "run `trainc plan 'my job.kdl' --env prod` again");
        let upper = help.map_text(|text| text.to_uppercase());
        assert_eq!(&*upper, "RUN `trainc plan MANIFEST` AGAIN");
    }
}
