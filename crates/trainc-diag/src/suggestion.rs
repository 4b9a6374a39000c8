//! The edits that a help describes, for `check --fix CODE` and the editor: what to type, and the node that it
//! belongs to. The exact place is found in the text (`trainc_syntax::suggested_edit`).

use super::{Diagnostic, Help};

/// An edit that a help describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Suggestion {
    /// Writes a value, properties or nodes at the problem; in another node, if it is named.
    Write {
        /// What to write.
        code: String,
        /// The name of the node in which it belongs.
        into: Option<&'static str>,
    },
    /// Moves the node at the problem into a node of this name.
    Move(&'static str),
    /// Removes a node or a property; `None` for the one at the problem.
    Remove(Option<String>),
    /// The user can do something else instead, which is no edit of the manifest.
    Other,
}

impl Suggestion {
    /// Describes the edit: `write `nodes=1``.
    pub fn describe(&self) -> String {
        match self {
            Self::Write { code, .. } if code.contains('\n') => "add what is missing".to_owned(),
            Self::Write { code, into: Some(into) } => format!("write `{code}` in `{into}`"),
            Self::Write { code, into: None } => format!("write `{code}`"),
            Self::Move(into) => format!("move it into `{into}`"),
            Self::Remove(None) => "remove it".to_owned(),
            Self::Remove(Some(name)) => format!("remove `{name}`"),
            Self::Other => String::new(),
        }
    }
}

/// Helps with their edits. What the user must complete (`…`) is no edit.
impl Help {
    /// Returns `write `code``: a value, properties or nodes.
    pub fn write(code: impl Into<String>) -> Self {
        Self::of_code("write ", code.into(), "", None)
    }

    /// Returns `add `code``.
    pub fn add(code: impl Into<String>) -> Self {
        Self::of_code("add ", code.into(), "", None)
    }

    /// Returns `add `code` to `node``.
    pub fn add_to(node: &'static str, code: impl Into<String>) -> Self {
        Self::of_code("add ", code.into(), &format!(" to `{node}`"), Some(node))
    }

    /// Returns `write `code` on the `node` line`: properties.
    pub fn write_on_line_of(node: &'static str, code: impl Into<String>) -> Self {
        Self::of_code("write ", code.into(), &format!(" on the `{node}` line"), Some(node))
    }

    /// Returns `did you mean `code`?`.
    pub fn did_you_mean(code: impl Into<String>) -> Self {
        Self::of_code("did you mean ", code.into(), "?", None)
    }

    fn of_code(before: &str, code: String, after: &str, into: Option<&'static str>) -> Self {
        Self::from(format!("{before}`{code}`{after}")).suggest_code(code, into)
    }

    /// Returns `remove `name``: a node, or a property, as in `kms=`.
    pub fn remove(name: impl Into<String>) -> Self {
        let name = name.into();
        Self::from(format!("remove `{name}`")).suggest(Suggestion::Remove(Some(bare_name(&name))))
    }

    /// Returns `remove it`, about the node or the property at the primary span.
    pub fn remove_it() -> Self {
        Self::from("remove it").suggest(Suggestion::Remove(None))
    }

    /// Returns a help about several values, one of which is to be written: those are the choice.
    pub fn choose<'c>(help: impl Into<Self>, codes: impl IntoIterator<Item = &'c String>) -> Self {
        codes.into_iter().fold(help.into(), |help, code| help.suggest_code(code, None))
    }

    /// Adds another value to choose.
    #[must_use]
    pub fn or(self, code: impl Into<String>) -> Self {
        let code = code.into();
        self.and_text(&format!(", or `{code}`")).suggest_code(code, None)
    }

    /// Adds something to write instead.
    #[must_use]
    pub fn or_write(self, code: impl Into<String>) -> Self {
        let code = code.into();
        self.and_text(&format!(", or write `{code}`")).suggest_code(code, None)
    }

    /// Adds a node or property to remove instead.
    #[must_use]
    pub fn or_remove(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.and_text(&format!(", or remove `{name}`")).suggest(Suggestion::Remove(Some(bare_name(&name))))
    }

    /// Adds that the node or property at the primary span can be removed instead.
    #[must_use]
    pub fn or_remove_it(self) -> Self {
        self.and_text(", or remove it").suggest(Suggestion::Remove(None))
    }

    /// Adds something else to do instead.
    #[must_use]
    pub fn or_else(self, text: &str) -> Self {
        self.and_text(&format!(", or {text}")).suggest(Suggestion::Other)
    }

    /// Adds code that the text says to write; in a node, if it is named.
    #[must_use]
    pub fn suggest_code(self, code: impl Into<String>, into: Option<&'static str>) -> Self {
        let code = code.into();
        let is_pattern = code.contains('…');
        self.suggest(if is_pattern { Suggestion::Other } else { Suggestion::Write { code, into } })
    }
}

/// The same for the help of a problem.
macro_rules! of_diagnostic {
    (start { $($start:ident($($name:ident: $kind:ty),*),)* } continue { $($next:ident($($arg:ident: $of:ty),*),)* }) => {
        #[expect(clippy::should_implement_trait, reason = "`add` is the verb of a help")]
        impl Diagnostic {
            $(
                #[doc = concat!("Sets the help, as [`Help::", stringify!($start), "`].")]
                #[must_use]
                pub fn $start(self, $($name: $kind),*) -> Self {
                    self.help(Help::$start($($name),*))
                }
            )*
            $(
                #[doc = concat!("Continues the help, as [`Help::", stringify!($next), "`].")]
                #[must_use]
                pub fn $next(mut self, $($arg: $of),*) -> Self {
                    self.help = self.help.map(|help| help.$next($($arg),*));
                    self
                }
            )*
        }
    };
}

of_diagnostic! {
    start {
    write(code: impl Into<String>),
    add(code: impl Into<String>),
    add_to(node: &'static str, code: impl Into<String>),
    write_on_line_of(node: &'static str, code: impl Into<String>),
    did_you_mean(code: impl Into<String>),
    remove(name: impl Into<String>),
    remove_it(),
    } continue {
    or(code: impl Into<String>),
    or_write(code: impl Into<String>),
    or_remove(name: impl Into<String>),
    or_remove_it(),
    or_else(text: &str),
    and_text(text: &str),
    suggest(suggestion: Suggestion),
    suggest_code(code: impl Into<String>, into: Option<&'static str>),
    }
}

impl Diagnostic {
    /// Returns the edits that the help describes. Several are a choice.
    pub fn suggestions(&self) -> &[Suggestion] {
        self.help.as_ref().map_or(&[], Help::suggestions)
    }

    /// Sets a help about several values, as [`Help::choose`].
    #[must_use]
    pub fn choose<'c>(self, help: impl Into<Help>, codes: impl IntoIterator<Item = &'c String>) -> Self {
        self.help(Help::choose(help, codes))
    }
}

/// Returns the name in `kms=` or `ddp #false`.
fn bare_name(shown: &str) -> String {
    shown.split([' ', '=']).next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::samples::WORLD;
    use super::*;
    use crate::source::{SourceId, Span};

    #[test]
    fn a_help_carries_its_edits() {
        let new = || Diagnostic::new(&WORLD, Span::whole(SourceId(0)), "x");
        let one = new().add_to("cluster", "volume \"30GiB\"");
        assert_eq!(one.help.as_deref(), Some("add `volume \"30GiB\"` to `cluster`"));
        assert_eq!(
            one.suggestions(),
            [Suggestion::Write { code: "volume \"30GiB\"".to_owned(), into: Some("cluster") }]
        );
        // A choice, and what is to be completed, is no edit.
        let choice = new().write("nodes=1").or_remove("kms=").and_text(": it is the default");
        assert_eq!(choice.help.as_deref(), Some("write `nodes=1`, or remove `kms=`: it is the default"));
        assert_eq!(choice.suggestions()[1], Suggestion::Remove(Some("kms".to_owned())));
        assert_eq!(new().write("nodes=1").or_else("use another type").suggestions().len(), 2);
        assert_eq!(new().add("id=\"fs-…\"").suggestions(), [Suggestion::Other]);
        // A later help replaces the edits of an earlier one.
        assert!(choice.help("ask").suggestions().is_empty());
    }
}
