//! What a problem knows beyond its words.

use serde_json::Value;

/// A node that a job lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingNode {
    /// Its name.
    pub name: String,
    /// The node to write.
    pub example: String,
}

/// What a problem knows beyond its words, for the code that decides what follows from it. Tools get the same
/// as facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The manifest allows this error, for a reason.
    Allowed(String),
    /// A job lacks nodes; in the order of the language.
    MissingNodes(Vec<MissingNode>),
    /// A call to AWS failed.
    Call {
        /// The call, as it is shown.
        call: String,
        /// The error code of AWS.
        code: String,
        /// The action that the caller may not perform.
        denied_action: Option<String>,
    },
    /// A check was skipped.
    SkippedCheck {
        /// The action that it requires.
        action: String,
        /// The caller may not perform it; otherwise the service did not answer.
        is_denied: bool,
    },
    /// The first notes are differences between the account and the plan.
    Differences(usize),
    /// A run goes on without a file system, which was deleted.
    LostFileSystem {
        /// The file system's ID.
        file_system: String,
        /// The run.
        training_job: String,
    },
}

impl Detail {
    /// Returns the facts for tools.
    pub(crate) fn facts(&self) -> Vec<(&'static str, Value)> {
        match self {
            Self::Allowed(reason) => vec![("allowed", reason.as_str().into())],
            Self::MissingNodes(nodes) => {
                let all = |text: fn(&MissingNode) -> &str| nodes.iter().map(text).collect::<Vec<_>>().into();
                vec![("nodes", all(|node| &node.name)), ("write", all(|node| &node.example))]
            }
            Self::Call { call, code, denied_action } => {
                let action = denied_action.iter().map(|action| ("action", action.as_str().into()));
                let call = [("call", call.as_str().into()), ("aws_code", code.as_str().into())];
                call.into_iter().chain(action).collect()
            }
            Self::SkippedCheck { action, is_denied } => {
                vec![("action", action.as_str().into()), ("denied", (*is_denied).into())]
            }
            Self::Differences(count) => vec![("differences", (*count).into())],
            Self::LostFileSystem { file_system, training_job } => {
                let run = ("training_job", training_job.as_str().into());
                vec![("file_system", file_system.as_str().into()), run]
            }
        }
    }

    /// Returns the action that the caller may not perform, or that a skipped check requires.
    pub fn action(&self) -> Option<&str> {
        match self {
            Self::Call { denied_action, .. } => denied_action.as_deref(),
            Self::SkippedCheck { action, .. } => Some(action),
            Self::Allowed(_) | Self::MissingNodes(_) | Self::Differences(_) | Self::LostFileSystem { .. } => {
                None
            }
        }
    }
}
