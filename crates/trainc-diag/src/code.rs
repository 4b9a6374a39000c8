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

/// Declares a code with its page `src/codes/<ID>.md` of the same crate, which must exist.
///
/// ```ignore
/// declare_code!(T0301, "degree-does-not-divide", Error, "the world size is not divisible by the degrees");
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

/// Former names, each with the id of its code, separated by a tab.
const RENAMED: &str = include_str!("renamed_codes.tsv");

impl Code {
    /// Returns whether `wanted` is the id (any case), the name or a former name of this code.
    pub fn is_called(&self, wanted: &str) -> bool {
        let is_former = |line: &str| line.split_once('\t') == Some((wanted, self.id));
        self.id.eq_ignore_ascii_case(wanted) || self.name == wanted || RENAMED.lines().any(is_former)
    }
}

/// Finds a code by its id (any case), its name or a former name.
pub fn find<'a>(codes: &[&'a Code], wanted: &str) -> Option<&'a Code> {
    codes.iter().copied().find(|code| code.id.eq_ignore_ascii_case(wanted) || code.name == wanted).or_else(
        || {
            let (_, id) =
                RENAMED.lines().filter_map(|line| line.split_once('\t')).find(|(old, _)| *old == wanted)?;
            codes.iter().copied().find(|code| code.id == id)
        },
    )
}
