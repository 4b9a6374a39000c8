//! What the job may do.

use crate::ir::Plan;

/// One statement of a policy, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Its name in the policy: letters and digits, unique there.
    pub sid: String,
    /// Which nodes of the manifest ask for it.
    pub because: String,
    /// What is allowed, sorted.
    pub actions: Vec<&'static str>,
    /// On what.
    pub resources: Vec<String>,
    /// Under which conditions, all of which hold.
    pub conditions: Vec<Condition>,
}

/// A condition of a statement: one of the values holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// IAM's operator.
    pub operator: &'static str,
    /// The key that it looks at.
    pub key: &'static str,
    /// The values that satisfy it.
    pub values: Vec<String>,
}

pub(super) fn fitting(_plan: &Plan) -> (Vec<Statement>, bool) {
    (Vec::new(), false)
}
