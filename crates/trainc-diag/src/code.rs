//! Diagnostic codes: the identity of each kind of problem, with its name, severity, summary and page.

use super::Severity;

/// The status of a code. Codes are never reused: a removed one remains as a tombstone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Emitted by this version.
    Active,
    /// No longer emitted.
    Removed {
        /// The first version without it.
        since: &'static str,
        /// The code or page that replaces it.
        instead: &'static str,
    },
}

/// What an error of a code keeps from being judged. Warnings that depend on it may be missing until the error is mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The speed: mending the error changes which machines, processes, layout, precision or container run, so that time and
    /// cost would be those of a job that cannot start. They are not shown.
    Speed,
    /// Rules on time and cost, since the job is predicted not to run.
    Prediction,
}

/// Why an `allow` accepts an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowable {
    /// It keeps trainc from sending what AWS may accept.
    AwsMayAccept,
    /// It is a prediction, which a measurement may refute.
    Prediction,
}

/// A kind of problem. Declared by [`declare_code!`](crate::declare_code) in the crate that emits it.
#[derive(Debug)]
pub struct Code {
    /// `T` and four digits, by stage: T01 syntax, T02 resolve, T03 plan and mesh, T04 cloud, T05 emit, T06 apply.
    pub id: &'static str,
    /// The name in kebab-case.
    pub name: &'static str,
    /// The severity, unless the problem sets its own.
    pub severity: Severity,
    /// One line: what is wrong.
    pub summary: &'static str,
    /// The page of `trainc explain`, in Markdown.
    pub page: &'static str,
    /// The crate that declares the code and holds its page; its directory in `crates/` has the same name.
    pub package: &'static str,
    /// In use, or a tombstone.
    pub status: Status,
    /// What an error of this code leaves open; `None` if mending it changes neither layout nor container.
    pub ends: Option<Ends>,
    /// Why an `allow` accepts an error of this code. `None`: AWS, the container or PyTorch refuses such a job.
    pub allowable: Option<Allowable>,
}

impl PartialEq for Code {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}
impl Eq for Code {}

/// Declares a code whose page is `src/codes/<ID>.md` of the declaring crate. An error that decides which layout or container
/// runs says `ends: Speed`, and one that an `allow` accepts `allowable: AwsMayAccept`, in
/// this order.
///
/// ```ignore
/// declare_code!(T0301, "degree-does-not-divide", Error, "the world size is not divisible by …", ends: Speed);
/// ```
#[macro_export]
macro_rules! declare_code {
    (
        $id:ident, $name:literal, $severity:ident, $summary:literal
        $(, ends: $ends:ident)? $(, allowable: $allowable:ident)? $(,)?
    ) => {
        #[doc = concat!("`", stringify!($id), "` ", $name, ": ", $summary, ".")]
        pub static $id: $crate::Code = $crate::Code {
            id: stringify!($id),
            name: $name,
            severity: $crate::Severity::$severity,
            summary: $summary,
            page: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/codes/", stringify!($id), ".md")),
            package: env!("CARGO_PKG_NAME"),
            status: $crate::Status::Active,
            ends: [$(Some($crate::Ends::$ends),)? None][0],
            allowable: [$(Some($crate::Allowable::$allowable),)? None][0],
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

    /// Returns the path of the code's page in the repository.
    pub fn page_path(&self) -> String {
        format!("crates/{}/src/codes/{}.md", self.package, self.id)
    }
}

/// Finds a code by its id (any case), its name or a former name. A current name takes precedence over a former one.
pub fn find<'a>(codes: &[&'a Code], wanted: &str) -> Option<&'a Code> {
    let is_current = |code: &&&Code| code.id.eq_ignore_ascii_case(wanted) || code.name == wanted;
    codes.iter().find(is_current).or_else(|| codes.iter().find(|code| code.is_called(wanted))).copied()
}
