//! Diagnostic codes: the identity of each kind of problem, with its name, severity, summary and page.

use super::Severity;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

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

/// What an error of a code keeps from being judged. Warnings that depend on it may be missing until the error
/// is mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The speed: mending the error changes which machines, processes, layout, precision or container run, so
    /// that time and cost would be those of a job that cannot start. They are not shown.
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

/// The places at which a code supersedes others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole job.
    Job,
    /// The same value.
    Value,
}

/// Codes whose problems are not reported together with one that says more.
#[derive(Clone, Copy, Debug)]
pub struct Supersedes {
    /// Where the problem says more.
    pub scope: Scope,
    /// The codes that it covers.
    pub codes: &'static [&'static Code],
}

/// A trait of all problems of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// Depends on today's date: shown, but never written into artefacts, which must not change from day to
    /// day.
    Dated,
    /// Concerns a value without effect, which an editor may fade.
    Unused,
    /// Concerns only time or cost: the job can run, and its time and cost are shown.
    TimeOrCost,
}

/// What a problem is found in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundIn {
    /// A manifest, with the files that it names.
    Manifest,
    /// A file that cannot be read as a manifest's text.
    Bytes,
    /// Several jobs of one command.
    SeveralJobs,
    /// A file of a program beside its script.
    ProgramFile,
    /// A git repository that is fetched.
    Repository,
    /// Documents and their tokenizer.
    Data,
    /// Rows of measured runs.
    Measurements,
    /// A request or a script that is imported.
    Import,
    /// A command that does not support the job.
    Command,
    /// An AWS account, or a run in it.
    Account,
}

/// The kind of a cause that ends a job. Kinds that follow from other kinds come later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// The probe measured too little before the program started.
    Probe,
    /// The enforced budget stopped the run.
    Budget,
    /// Out of GPU memory.
    Memory,
    /// Out of host memory: the kernel kills a process.
    HostMemory,
    /// The volume is full.
    Disk,
    /// The role lacks a permission.
    Permission,
    /// The image cannot be pulled.
    Image,
    /// No capacity.
    Capacity,
    /// Internal error of the service.
    Service,
    /// Transfer between S3 and the hosts.
    Input,
    /// An exception in the program.
    Program,
    /// Hosts lost their connections, often because one of them failed.
    Collective,
    /// A user stopped the job.
    Stopped,
    /// Maximum run time exceeded.
    Time,
    /// Maximum wait time for spot capacity exceeded, which includes the run time.
    Wait,
    /// A quota of the account is exceeded.
    Quota,
    /// Unknown.
    Unknown,
}

impl FailureKind {
    /// All kinds.
    pub const ALL: &[Self] = &[
        Self::Probe,
        Self::Budget,
        Self::Memory,
        Self::HostMemory,
        Self::Disk,
        Self::Permission,
        Self::Image,
        Self::Capacity,
        Self::Service,
        Self::Input,
        Self::Program,
        Self::Collective,
        Self::Stopped,
        Self::Time,
        Self::Wait,
        Self::Quota,
        Self::Unknown,
    ];
}

/// A kind of problem. Declared by [`declare_code!`](crate::declare_code) in the crate that emits it.
pub struct Code {
    /// `T` and four digits, by stage: T01 syntax, T02 resolve, T03 plan and mesh, T04 cloud, T05 emit, T06
    /// apply.
    pub id: &'static str,
    /// The name in kebab-case.
    pub name: &'static str,
    /// The severity, unless the problem sets its own.
    pub severity: Severity,
    /// One line: what is wrong.
    pub summary: &'static str,
    /// The page of `trainc explain`, in Markdown.
    pub page: &'static str,
    /// The crate that declares the code and holds its page: `trainc` is the root of the repository, another
    /// one a directory of its name in `crates/`.
    pub package: &'static str,
    /// In use, or a tombstone.
    pub status: Status,
    /// What it is found in.
    pub found_in: FoundIn,
    /// What an error of this code leaves open; `None` if mending it changes neither layout nor container.
    pub ends: Option<Ends>,
    /// Why an `allow` accepts an error of this code. `None`: AWS, the container or PyTorch refuses such a
    /// job.
    pub allowable: Option<Allowable>,
    /// The codes that a problem of this one covers.
    pub supersedes: &'static [Supersedes],
    /// Traits of all problems of this code.
    pub tags: &'static [Tag],
    /// The failures of a job that a problem of this code announces.
    pub explains: &'static [FailureKind],
}

impl fmt::Debug for Code {
    /// Writes the ID: it says everything, and codes refer to each other.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.id)
    }
}

impl PartialEq for Code {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}
impl Eq for Code {}

/// Declares a code whose page is `src/codes/<ID>.md` of the declaring crate. Its properties follow the
/// summary, in this order: an error that decides which layout or container runs says `ends: Speed`, one that
/// an `allow` accepts `allowable: AwsMayAccept`. A code that covers others names them, so that an unknown ID
/// does not compile.
///
/// ```ignore
/// declare_code!(
///     T0354,
///     "unsupported-trainium-engine",
///     Error,
///     "…",
///     ends: Speed,
///     allowable: Prediction,
///     supersedes: { Job: [codes::T0357, codes::T0385], Value: [codes::T0386] },
///     tags: [Dated, Unused],
///     explains: [Memory, HostMemory],
/// );
/// ```
#[macro_export]
macro_rules! declare_code {
    (
        $id:ident, $name:literal, $severity:ident, $summary:literal
        $(, found_in: $found_in:ident)?
        $(, ends: $ends:ident)?
        $(, allowable: $allowable:ident)?
        $(, supersedes: { $($scope:ident: [$($covered:path),+ $(,)?]),+ $(,)? })?
        $(, tags: [$($tag:ident),+])?
        $(, explains: [$($failure:ident),+])?
        $(,)?
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
            found_in: [$($crate::FoundIn::$found_in,)? $crate::FoundIn::Manifest][0],
            ends: [$(Some($crate::Ends::$ends),)? None][0],
            allowable: [$(Some($crate::Allowable::$allowable),)? None][0],
            supersedes: &[$($($crate::Supersedes {
                scope: $crate::Scope::$scope,
                codes: &[$(&$covered),+],
            }),+)?],
            tags: &[$($($crate::Tag::$tag),+)?],
            explains: &[$($($crate::FailureKind::$failure),+)?],
        };
    };
}

/// Former names, each with the id of its code, separated by a tab.
const RENAMED: &str = include_str!("renamed_codes.tsv");

impl Code {
    /// Returns whether `wanted` is the id (any case), the name or a former name of this code.
    pub fn is_called(&self, wanted: &str) -> bool {
        static FORMER: LazyLock<BTreeSet<(&str, &str)>> =
            LazyLock::new(|| RENAMED.lines().filter_map(|line| line.split_once('\t')).collect());
        self.id.eq_ignore_ascii_case(wanted) || self.name == wanted || FORMER.contains(&(wanted, self.id))
    }

    /// Returns whether all problems of this code have a trait.
    pub fn has(&self, tag: Tag) -> bool {
        self.tags.contains(&tag)
    }

    /// Returns whether a problem of this code covers one of another at the same value (`Value`) or anywhere
    /// in the job.
    pub fn covers(&self, other: &Self, at: Scope) -> bool {
        let reaches = |scope: Scope| scope == Scope::Job || scope == at;
        self.supersedes.iter().any(|one| reaches(one.scope) && one.codes.contains(&other))
    }

    /// Returns the path of the code's page in the repository.
    pub fn page_path(&self) -> String {
        let directory =
            if self.package == "trainc" { String::new() } else { format!("crates/{}/", self.package) };
        format!("{directory}src/codes/{}.md", self.id)
    }
}

/// Finds a code by its id (any case), its name or a former name. A current name takes precedence over a
/// former one.
pub fn find<'a>(codes: &[&'a Code], wanted: &str) -> Option<&'a Code> {
    let is_current = |code: &&&Code| code.id.eq_ignore_ascii_case(wanted) || code.name == wanted;
    codes.iter().find(is_current).or_else(|| codes.iter().find(|code| code.is_called(wanted))).copied()
}

/// Returns the IDs of the codes that announce a failure, in the order of the codes.
pub fn codes_that_explain<'a>(codes: &[&'a Code], failure: FailureKind) -> Vec<&'a str> {
    codes.iter().filter(|code| code.explains.contains(&failure)).map(|code| code.id).collect()
}
