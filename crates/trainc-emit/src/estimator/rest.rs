//! The request, eaten member by member: what is left over has no word in the SDK.

use serde_json::{Map, Value};

/// What of a request is not said yet.
pub(super) struct Rest(Map<String, Value>);

impl Rest {
    /// All of it.
    pub(super) fn new(request: &Value) -> Self {
        Self(request.as_object().cloned().unwrap_or_default())
    }

    /// Takes a member.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    /// Takes a member of a member; one that is empty then is gone.
    pub(super) fn take_in(&mut self, outer: &str, name: &str) -> Option<Value> {
        let members = self.0.get_mut(outer)?.as_object_mut()?;
        let found = members.remove(name);
        if members.is_empty() {
            self.0.remove(outer);
        }
        found
    }

    /// Whether a member of a member is still there.
    pub(super) fn has_in(&self, outer: &str, name: &str) -> bool {
        self.0.get(outer).is_some_and(|value| value.get(name).is_some())
    }

    /// The whole number of a member of a member, taken.
    pub(super) fn number_in(&mut self, outer: &str, name: &str) -> Option<u64> {
        self.take_in(outer, name)?.as_u64()
    }

    /// Paths of what is left: `Member` where nothing of it was said, else `Member.Part`.
    pub(super) fn paths(&self) -> Vec<String> {
        /// Members that are taken apart by [`Rest::take_in`].
        const APART: &[&str] = &[
            "AlgorithmSpecification",
            "OutputDataConfig",
            "ResourceConfig",
            "StoppingCondition",
            "VpcConfig",
        ];
        let mut out = Vec::new();
        for (name, value) in &self.0 {
            match value.as_object() {
                Some(members) if APART.contains(&name.as_str()) => {
                    out.extend(members.keys().map(|part| format!("{name}.{part}")));
                }
                _ => out.push(name.clone()),
            }
        }
        out
    }
}
