//! The values that are sent as a member of CreateTrainingJob, by the tables of the language.

use super::declared::{Declared, Member, Place};
use super::node::{Leaf, NodeType};
use super::nodes::Job;
use super::spec::{NodeSpec, Ty};
use serde_json::Value;

/// A value that is sent.
#[derive(Clone, Debug)]
pub struct SentValue {
    /// The nodes that it is in, outermost first, without `job`.
    pub nodes: Vec<&'static str>,
    /// Its declaration.
    pub declared: &'static Declared,
    /// The member.
    pub member: &'static Member,
}

/// Returns every value that is sent, in the order of the reference.
pub fn sent_values() -> Vec<SentValue> {
    fn walk(spec: &'static NodeSpec, nodes: &[&'static str], out: &mut Vec<SentValue>) {
        out.extend(spec.declared.iter().filter_map(|declared| {
            Some(SentValue { nodes: nodes.to_vec(), declared, member: declared.member.as_ref()? })
        }));
        for child in spec.children {
            walk(child, &[nodes, &[child.name]].concat(), out);
        }
    }
    let mut out = Vec::new();
    walk(Job::SPEC, &[], &mut out);
    out
}

impl SentValue {
    /// Returns the path that is the node's alone: the member, or the whole object.
    pub fn owned_path(&self) -> &'static str {
        let path = self.member.path;
        if self.member.is_whole { path.rsplit_once('.').map_or(path, |(object, _)| object) } else { path }
    }

    /// Returns how it is written, with `…` as the value.
    pub fn example(&self) -> String {
        if let Some(form) = self.member.written_as {
            return form.to_owned();
        }
        let value = match self.declared.ty {
            Ty::Int(..) | Ty::Count | Ty::Number(..) => "…",
            Ty::Bool | Ty::BoolOr(_) => "#true",
            _ => "\"…\"",
        };
        let name = self.declared.name;
        let own = match self.declared.place {
            // A switch alone is on.
            Place::Child if self.declared.ty == Ty::Bool => name.to_owned(),
            Place::Child => format!("{name} {value}"),
            Place::Arg(_) => value.to_owned(),
            _ => format!("{name}={value}"),
        };
        let is_child = matches!(self.declared.place, Place::Child);
        self.nodes.iter().rev().enumerate().fold(own, |inner, (depth, node)| {
            if depth == 0 && !is_child { format!("{node} {inner}") } else { format!("{node} {{ {inner} }}") }
        })
    }
}

impl Leaf<'_> {
    /// Returns the member that the value is sent as, and the value in the words of the API; `None` if it is
    /// not sent or invalid.
    pub fn sent(&self) -> Option<(&'static Member, Value)> {
        let member = self.declared.member.as_ref()?;
        self.origin?;
        let value = self.value.json(self.declared);
        if member.words.is_empty() {
            return Some((member, value));
        }
        let word = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let (_, theirs) = member.words.iter().find(|(ours, _)| *ours == word)?;
        Some((member, Value::from(*theirs)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_can_be_typed() {
        let written =
            |path: &str| sent_values().iter().find(|one| one.member.path == path).map(SentValue::example);
        for (path, expected) in [
            ("StoppingCondition.MaxWaitTimeInSeconds", "cluster { spot max-wait=\"…\" }"),
            ("RetryStrategy.MaximumRetryAttempts", "cluster { retry … }"),
            ("EnableNetworkIsolation", "network { isolation }"),
            ("SessionChainingConfig.EnableSessionTagChaining", "session-chaining"),
            ("OutputDataConfig.KmsKeyId", "output kms=\"…\""),
        ] {
            assert_eq!(written(path).as_deref(), Some(expected));
        }
    }
}
