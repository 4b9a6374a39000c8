//! The changes that a plan would make in an account, one for each resource: data only.

/// The action that a plan takes on one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is not there.
    Create,
    /// It is there and ours, and differs in what can be changed in place.
    Update,
    /// It is there as it should be.
    Unchanged,
    /// It is there, ours, and still being made.
    Wait,
    /// It is not there, and nothing needs it any more: the run is over.
    Skip,
    /// It is not ours, and the user said to take it.
    Adopt,
    /// It is in the way, and trainc does nothing about it.
    Stop(Obstacle),
}

/// The reason why a resource blocks a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It carries the name and is not ours.
    Foreign,
    /// A job with our name and other settings that is not ours: it cannot be adopted.
    DifferentContent,
    /// Another digest of the job is there.
    OtherDigest,
    /// A run of another digest runs at the same time, without `--new-run`.
    ConcurrentVersion,
    /// A run of the job that was started since the account was looked at.
    StartedMeanwhile,
    /// It was shown as shared, and the other jobs stopped using it since: the user has not consented to deleting it.
    BecameSoleUser,
    /// It differs in what can only be changed by making it anew, and data would go.
    Replace,
    /// It failed, and stays so.
    Broken,
    /// The service cannot use it until what it names is mended; what is in it is there.
    Misconfigured,
    /// The runs of the digest have used up their names.
    RunsExhausted,
    /// So many jobs use it that it has no room for the tag of one more.
    TooManyUsers,
}

impl Action {
    /// Its word in a plan.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Unchanged => "unchanged",
            Self::Wait => "wait",
            Self::Skip => "skip",
            Self::Adopt => "adopt",
            Self::Stop(Obstacle::Replace) => "replace",
            Self::Stop(Obstacle::Foreign | Obstacle::DifferentContent) => "foreign",
            Self::Stop(
                Obstacle::OtherDigest
                | Obstacle::ConcurrentVersion
                | Obstacle::StartedMeanwhile
                | Obstacle::BecameSoleUser,
            ) => "differs",
            Self::Stop(Obstacle::Broken | Obstacle::Misconfigured) => "broken",
            Self::Stop(Obstacle::RunsExhausted | Obstacle::TooManyUsers) => "full",
        }
    }
}

/// One setting that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The setting, by the API's own name.
    pub what: String,
    /// As the account has it.
    pub found: String,
    /// As the plan wants it.
    pub wanted: String,
}

impl Difference {
    /// A difference, as text.
    pub fn new(what: &str, found: impl ToString, wanted: impl ToString) -> Self {
        Self { what: what.to_owned(), found: found.to_string(), wanted: wanted.to_string() }
    }
}

/// The planned change of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// `role`, `role-policy`, `file-system`, `association`, `bucket`, `source`, `training-job`.
    pub kind: &'static str,
    /// Its name, as the plan lists it.
    pub name: String,
    /// The action.
    pub action: Action,
    /// The reason, a sentence fragment.
    pub because: String,
    /// The settings that differ.
    pub differences: Vec<Difference>,
    /// The other jobs that use it, where it is there.
    pub shared_with: Vec<String>,
}

impl Change {
    pub(crate) fn new(kind: &'static str, name: &str, action: Action, because: impl Into<String>) -> Self {
        let (name, because) = (name.to_owned(), because.into());
        Self { kind, name, action, because, differences: Vec::new(), shared_with: Vec::new() }
    }
}

/// Choices that the user made on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// Foreign objects of our names are taken over.
    pub adopt: bool,
    /// Another run of the job is wanted.
    pub new_run: bool,
    /// The number of that run, from 1, if a saved plan fixes it: once it exists, no further run is started.
    pub run: Option<usize>,
}

impl Choices {
    /// Returns true if another run is wanted where the latest is of this number.
    pub(crate) fn wants_new_run(&self, latest: usize) -> bool {
        self.new_run && self.run.is_none_or(|run| latest < run)
    }
}

/// The training job that the plan attaches to or starts: decided once, so that nothing that happens later starts a second one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The job exists: nothing to start.
    Attach(String),
    /// The job is started under this name.
    Start(String),
    /// An obstacle blocks it.
    Blocked(Obstacle),
}

/// The words before the names of the other jobs that use a file system, in the reason of a change.
pub(crate) const SHARED_WITH: &str = "shared with";
