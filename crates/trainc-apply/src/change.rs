//! The changes that a plan would make in an account, one for each resource: data only.

/// What is to be done about one resource.
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

/// Why something is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It carries the name and is not ours.
    Foreign,
    /// A job of the name that is not ours and was started with something else: it can be taken over by nobody.
    DifferentContent,
    /// Another digest of the job is there.
    OtherDigest,
    /// A run of another digest of the job runs beside this one's, and nobody asked for both.
    ConcurrentVersion,
    /// A run of the job that was started since the account was looked at.
    StartedMeanwhile,
    /// It was shown as shared, and the other jobs have left it since: nobody has agreed that it goes.
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

/// What becomes of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// `role`, `role-policy`, `file-system`, `association`, `bucket`, `source`, `training-job`.
    pub kind: &'static str,
    /// Its name, as the plan lists it.
    pub name: String,
    /// What is done.
    pub action: Action,
    /// Why, a fragment.
    pub because: String,
    /// What differs.
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

/// What a user chose beside the manifest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// Foreign objects of our names are taken over.
    pub adopt: bool,
    /// Another run of the job is wanted.
    pub new_run: bool,
    /// Which run that is, from 1, where a saved plan says so: once it is there, no other is wanted after it.
    pub run: Option<usize>,
}

impl Choices {
    /// Whether another run is wanted where the latest is of this number.
    pub(crate) fn wants_another(&self, latest: usize) -> bool {
        self.new_run && self.run.is_none_or(|run| latest < run)
    }
}

/// Which training job is meant: decided once, so that whatever happens meanwhile makes no second one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// It is there: nothing to start.
    Attach(String),
    /// It is to be started under this name.
    Start(String),
    /// Something stands in the way.
    Blocked(Obstacle),
}

/// How a change says that other jobs use the file system; their names follow.
pub(crate) const SHARED_WITH: &str = "shared with";
