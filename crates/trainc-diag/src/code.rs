//! Codes: the identity of each situation, with its name, severity, summary and page.

use super::Severity;

/// Whether a code is in use. Codes are never reused: a removed one stays as a tombstone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Emitted by this version.
    Active,
    /// No longer emitted, since the version named; the text says what took its place.
    Removed {
        /// The first version without it.
        since: &'static str,
        /// What to read instead.
        instead: &'static str,
    },
}

/// One kind of problem. Declared by [`declare_code!`](crate::declare_code) in the file that emits it.
#[derive(Debug)]
pub struct Code {
    /// `T` and four digits, by stage: T01 syntax, T02 resolve, T03 plan and mesh, T04 cloud, T05 emit, T06 apply.
    pub id: &'static str,
    /// A kebab-case alias.
    pub name: &'static str,
    /// How the problem is reported unless the situation itself decides otherwise.
    pub severity: Severity,
    /// One line: what is wrong.
    pub summary: &'static str,
    /// The page of `trainc explain`, in Markdown.
    pub page: &'static str,
    /// In use or a tombstone.
    pub status: Status,
}

impl PartialEq for Code {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}
impl Eq for Code {}

/// Declares a code with its page `src/diag/codes/<ID>.md`, which must exist.
///
/// ```ignore
/// declare_code!(T0301, "world-size-mismatch", Error, "the degrees do not multiply to the world size");
/// ```
#[macro_export]
macro_rules! declare_code {
    ($id:ident, $name:literal, $severity:ident, $summary:literal) => {
        #[doc = concat!("`", stringify!($id), "` ", $name, ": ", $summary, ".")]
        pub static $id: $crate::Code = $crate::Code {
            id: stringify!($id),
            name: $name,
            severity: $crate::Severity::$severity,
            summary: $summary,
            page: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/codes/", stringify!($id), ".md")),
            status: $crate::Status::Active,
        };
    };
}

/// Finds a code by its id (any case) or its name.
pub fn find<'a>(codes: &[&'a Code], wanted: &str) -> Option<&'a Code> {
    codes.iter().copied().find(|code| code.id.eq_ignore_ascii_case(wanted) || code.name == wanted)
}
