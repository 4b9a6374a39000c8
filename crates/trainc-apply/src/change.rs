//! The changes that a plan would make in an account, one per resource: data only.

use trainc_emit::{ResourceKind, Verb};

/// The action that a plan takes on one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Create the missing resource.
    Create,
    /// Update in place: the resource is ours and differs only in mutable settings.
    Update,
    /// The resource matches the plan.
    Unchanged,
    /// The resource is ours and still being created.
    Wait,
    /// The resource does not exist and is no longer needed.
    Skip,
    /// Adopt a resource that is not ours, as the user requested.
    Adopt,
    /// An obstacle that trainc does not remove.
    Stop(Obstacle),
}

/// Reason why a resource blocks a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A resource has the name but is not ours.
    Foreign,
    /// A training job has our name but other settings and is not ours: it cannot be adopted.
    DifferentContent,
    /// A run of another digest of the job exists.
    OtherDigest,
    /// A run of another digest runs at the same time, without `--new-run`.
    ConcurrentVersion,
    /// A run of the job started after the account was read.
    StartedMeanwhile,
    /// It was shown as shared, but the other jobs stopped using it since: the user has not consented to
    /// deleting it.
    BecameSoleUser,
    /// It differs in immutable settings: replacing it would delete data.
    Replace,
    /// It has failed permanently.
    Broken,
    /// The service cannot use it until its configuration is fixed; its data is intact.
    Misconfigured,
    /// No run number is left for this digest.
    RunsExhausted,
    /// It has no free tag for one more job.
    TooManyUsers,
}

impl Action {
    /// Returns what a plan shows of it.
    pub fn verb(&self) -> Verb {
        match self {
            Self::Create => Verb::Create,
            Self::Update => Verb::Update,
            Self::Unchanged => Verb::Unchanged,
            Self::Wait => Verb::Wait,
            Self::Skip => Verb::Skip,
            Self::Adopt => Verb::Adopt,
            Self::Stop(Obstacle::Replace) => Verb::Replace,
            Self::Stop(Obstacle::Foreign | Obstacle::DifferentContent) => Verb::Foreign,
            Self::Stop(
                Obstacle::OtherDigest
                | Obstacle::ConcurrentVersion
                | Obstacle::StartedMeanwhile
                | Obstacle::BecameSoleUser,
            ) => Verb::Differs,
            Self::Stop(Obstacle::Broken | Obstacle::Misconfigured) => Verb::Broken,
            Self::Stop(Obstacle::RunsExhausted | Obstacle::TooManyUsers) => Verb::Full,
        }
    }
}

/// A setting that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The setting, named as in the API.
    pub what: String,
    /// Value in the account.
    pub found: String,
    /// Value in the plan.
    pub wanted: String,
}

impl Difference {
    /// Creates a difference from two values.
    pub fn new(what: &str, found: impl ToString, wanted: impl ToString) -> Self {
        Self { what: what.to_owned(), found: found.to_string(), wanted: wanted.to_string() }
    }
}

/// The planned change of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its kind.
    pub kind: ResourceKind,
    /// Its name in the plan.
    pub name: String,
    /// The action.
    pub action: Action,
    /// The reason, a sentence fragment.
    pub because: String,
    /// The settings that differ.
    pub differences: Vec<Difference>,
    /// The other jobs that use it, if it exists.
    pub shared_with: Vec<String>,
}

impl Change {
    pub(crate) fn new(kind: ResourceKind, name: &str, action: Action, because: impl Into<String>) -> Self {
        let (name, because) = (name.to_owned(), because.into());
        Self { kind, name, action, because, differences: Vec::new(), shared_with: Vec::new() }
    }
}

/// Choices that the user made on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// Adopt resources that have our names but not our tags.
    pub adopt: bool,
    /// Start another run of the job.
    pub new_run: bool,
    /// The number of that run, from 1, if a saved plan fixes it: once it exists, no further run is started.
    pub run: Option<usize>,
}

impl Choices {
    /// Returns true if another run is wanted after the run of this number.
    pub(crate) fn wants_new_run(&self, latest: usize) -> bool {
        self.new_run && self.run.is_none_or(|run| latest < run)
    }
}

/// The training job that the plan attaches to or starts. It is decided once, so that later changes cannot
/// start a second job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The job exists; nothing is started.
    Attach(String),
    /// The job is started under this name.
    Start(String),
    /// An obstacle blocks it.
    Blocked(Obstacle),
}

/// Precedes the names of the other jobs that use a file system, in the reason of a change.
pub(crate) const SHARED_WITH: &str = "shared with";
