//! `request { … }`: members by their AWS names, validated with the service's shapes; members that nodes set
//! are rejected.

use super::singularize;
use crate::Context;
use serde_json::Value;
use std::sync::LazyLock;
use trainc_catalog::shapes::{self, Violation, ViolationKind};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Diagnostic, Problems};
use trainc_ir::preferences::MACHINE_MEMBERS;
use trainc_ir::{Plan, Raw, RequestMember};
use trainc_language::members::sent_values;
use trainc_plan::codes::T0320;

declare_code!(
    T0445,
    "invalid-request-member",
    Error,
    "an unknown or invalid member under `request`",
    allowable: AwsMayAccept
);
declare_code!(
    T0446,
    "request-duplicates-node",
    Error,
    "a member under `request` that a manifest node already sets",
    allowable: AwsMayAccept
);

/// The nodes that set a member and everything below it, where that is no single value.
const NODES: &[(&str, &str)] = &[
    ("AlgorithmSpecification.ContainerArguments", "program { arguments … }"),
    ("AlgorithmSpecification.ContainerEntrypoint", "program { entrypoint … }"),
    ("AlgorithmSpecification.MetricDefinitions", "program { metric \"name\" regex=\"…\" }"),
    ("AlgorithmSpecification.TrainingImage", "image uri=\"…\""),
    ("CheckpointConfig", "checkpoint s3=\"…\" local=\"…\""),
    ("DebugHookConfig", "debugger"),
    ("EnableManagedSpotTraining", "cluster { spot max-wait=\"…\" }"),
    ("Environment", "program { environment NAME=\"…\" }"),
    ("HyperParameters", "program { hyperparameter \"name\" … }"),
    ("InputDataConfig", "channel \"name\" s3=\"…\""),
    ("ProfilerConfig", "profiler"),
    ("ResourceConfig.InstanceGroups", "cluster { group \"name\" instance=\"…\" nodes=… }"),
    ("ResourceConfig.InstancePlacementConfig", "cluster { placement { ultra-server \"…\" instances=… } }"),
    ("Tags", "tags key=\"…\""),
    ("TrainingJobName", "job \"name\""),
    ("VpcConfig", "network { subnets …; security-groups … }"),
];

/// Returns the members that nodes set, with everything below them, and how each is written.
fn members_of_nodes() -> Vec<(&'static str, String)> {
    let mut out: Vec<(&str, String)> = NODES.iter().map(|(path, node)| (*path, (*node).to_owned())).collect();
    for value in sent_values() {
        let path = value.owned_path();
        if !path.contains("[]") && !out.iter().any(|(known, _)| is_in(path, known)) {
            out.push((path, value.example()));
        }
    }
    out.sort();
    out
}

/// The member that names an algorithm in place of an image.
const ALGORITHM: &str = "AlgorithmSpecification.AlgorithmName";

/// Returns whether a raw member sets the path.
pub(super) fn is_set_by_request(plan: &Plan, path: &str) -> bool {
    plan.job.request.iter().any(|member| value_at(&member.name, &member.value.to_json(), path).is_some())
}

/// Returns whether a raw member sets the path, a part of it, or all around it: `#null` in place of a member
/// removes the members in it.
pub(in crate::rules) fn is_overridden(plan: &Plan, path: &str) -> bool {
    plan.job.request.iter().any(|member| {
        let mut leaves = Vec::new();
        leaves_of(&member.name, &member.value.to_json(), &mut leaves);
        leaves.iter().any(|leaf| are_nested(leaf, path))
    })
}

/// Returns whether one of two paths of a request is the other, or is in it.
fn are_nested(a: &str, b: &str) -> bool {
    is_in(a, b) || is_in(b, a)
}

/// Returns whether a path of a request is another one, or is in it.
fn is_in(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Returns the value at a path of a request with only this member.
fn value_at(name: &str, value: &Value, path: &str) -> Option<Value> {
    let rest = path.strip_prefix(name)?;
    if rest.is_empty() {
        return Some(value.clone());
    }
    if !rest.starts_with(['.', '[']) {
        return None;
    }
    let pointer = rest.replace("[\"", "/").replace("\"]", "").replace(['.', '['], "/").replace(']', "");
    value.pointer(&pointer).cloned()
}

/// Checks the raw members, given the violations of the whole request.
pub(super) fn check_members(context: &Context, violations: &[Violation], problems: &mut Problems) {
    static MEMBERS: LazyLock<Vec<(&str, String)>> = LazyLock::new(members_of_nodes);
    for member in &context.plan.job.request {
        let value = member.value.to_json();
        let mut leaves = Vec::new();
        leaves_of(&member.name, &value, &mut leaves);
        let mut refused: Vec<&str> = Vec::new();
        let mut reported: Vec<&str> = Vec::new();
        let free = context.plan.job.serverless_member().is_some() && MACHINE_MEMBERS.contains(&member.name.as_str());
        for leaf in leaves.iter().filter(|_| !free) {
            let node = MEMBERS.iter().find(|(path, _)| are_nested(leaf, path));
            let Some((path, node)) = node.filter(|(path, _)| !reported.contains(path)) else { continue };
            reported.push(path);
            // What is allowed is sent, so that its violations are reported too.
            if !context.allows_error(&T0446) {
                refused.push(path);
            }
            let message = if path.len() > leaf.len() {
                format!("`{leaf}` has the member `{path}`, which is set with a node")
            } else {
                format!("`{path}` is set with a node")
            };
            problems.push(
                Diagnostic::new(&T0446, locate_member(member, path).name, message)
                    .write(node.as_str())
                    .note("`request` is only for members of CreateTrainingJob that no node of the \
                        manifest sets: this way every value is written once and checked")
                    .note("if no node sends what you mean, add `allow \"T0446\" reason=\"…\"`: then \
                        the member is sent as written, and `#null` leaves it to the service"),
            );
        }
        if context.plan.job.image.is_some() && leaves.iter().any(|leaf| leaf == ALGORITHM) {
            refused.push(ALGORITHM);
            problems.push(
                Diagnostic::new(
                    &T0446,
                    locate_member(member, ALGORITHM).name,
                    "`AlgorithmName` and `image` are mutually exclusive",
                )
                .help("remove the node `image` and its `program`, or `AlgorithmName`")
                .note(
                    "CreateTrainingJob: AlgorithmSpecification takes either AlgorithmName or TrainingImage",
                )
                .refused_by_service(),
            );
        }
        // An instance type that the catalogue lacks is in no list of the service either.
        let unknown: Vec<Span> =
            problems.iter().filter(|one| one.code == &T0320).map(|one| one.span).collect();
        for violation in violations {
            // An unknown placeholder is reported already.
            if violation.found.contains("{{") || refused.iter().any(|path| violation.path.starts_with(path)) {
                continue;
            }
            let parent = violation.path.rsplit_once('.').map_or("", |(parent, _)| parent);
            let missing =
                violation.kind == ViolationKind::Missing && value_at(&member.name, &value, parent).is_some();
            if value_at(&member.name, &value, &violation.path).is_some() || missing {
                let found = describe(&locate_member(member, &violation.path), violation, parent);
                problems.extend_with((!unknown.contains(&found.span)).then_some(found));
            }
        }
    }
}

/// The place of a path of the request.
struct Place {
    /// The name of the innermost member on the path that is written.
    name: Span,
    /// The value at the path, if it is a single one.
    value: Option<Span>,
}

fn locate_member(member: &RequestMember, path: &str) -> Place {
    let mut found = Place { name: member.span, value: None };
    let mut raw = &member.value;
    let rest = path.strip_prefix(member.name.as_str()).unwrap_or("");
    for step in rest.split(['.', '[']).filter(|step| !step.is_empty()) {
        let step = step.trim_end_matches(']').trim_matches('"');
        let inner = match raw {
            Raw::List(items) => step.parse::<usize>().ok().and_then(|at| items.get(at)),
            Raw::Object(_) | Raw::Scalar(_) => raw.member(step).map(|inner| {
                found.name = inner.span;
                &inner.value
            }),
        };
        let Some(inner) = inner else { return found };
        raw = inner;
    }
    if let Raw::Scalar(one) = raw {
        found.value = Some(one.span);
    }
    found
}

fn leaves_of(path: &str, value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, inner) in members {
                leaves_of(&format!("{path}.{name}"), inner, out);
            }
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => out.push(path.to_owned()),
    }
}

fn describe(place: &Place, violation: &Violation, parent: &str) -> Diagnostic {
    let path = &violation.path;
    let found = &violation.found;
    let expected = &violation.expected;
    let span = match violation.kind {
        ViolationKind::Unknown | ViolationKind::Missing => place.name,
        _ => place.value.unwrap_or(place.name),
    };
    let diagnostic = |message: String| Diagnostic::new(&T0445, span, message).fact("member", path.as_str());
    match violation.kind {
        ViolationKind::Unknown => {
            let last = path.rsplit_once('.').map_or(path.as_str(), |(_, last)| last);
            let known: Vec<String> = if parent.is_empty() {
                shapes::operation("CreateTrainingJob")
                    .map(|operation| operation.input.members.keys().cloned().collect())
                    .unwrap_or_default()
            } else {
                shapes::member_at_path("CreateTrainingJob", parent)
                    .map(|shape| shape.members.keys().cloned().collect())
                    .unwrap_or_default()
            };
            let diagnostic = diagnostic(format!("CreateTrainingJob has no member `{path}`"));
            match text::nearest(last, known.iter().map(String::as_str)) {
                Some(near) => diagnostic.help(format!("did you mean `{near}`?")).fix(span, near),
                None => diagnostic.note(format!("it has {}", known.join(", "))),
            }
        }
        ViolationKind::Missing => diagnostic(format!(
            "`{parent}` is missing `{}`",
            path.rsplit_once('.').map_or(path.as_str(), |(_, last)| last)
        )),
        ViolationKind::TooShort | ViolationKind::TooLong => {
            diagnostic(format!("`{path}` has {}; the service accepts {}", singularize(found), singularize(expected)))
        }
        ViolationKind::Type | ViolationKind::OutOfRange => {
            diagnostic(format!("`{path}` is {found}; the service accepts {expected}"))
        }
        ViolationKind::Pattern => {
            diagnostic(format!("`{path}` is `{found}`, which the service rejects"))
                .note(format!("it must match `{expected}`"))
        }
        ViolationKind::Enum => {
            let words: Vec<&str> = expected.split(", ").collect();
            let diagnostic = diagnostic(format!("`{path}` is `{found}`, which the service rejects"));
            match text::nearest(found, words.iter().copied()) {
                Some(near) => diagnostic.help(format!("write `\"{near}\"`")).fix(span, format!("\"{near}\"")),
                None => diagnostic.note(format!("it accepts {expected}")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_looked_up_in_one_member() {
        let value = serde_json::json!({"A": [{"B": 1}], "K": {"x": 2}});
        assert_eq!(value_at("M", &value, "M.A[0].B"), Some(Value::from(1)));
        assert_eq!(value_at("M", &value, "M.K[\"x\"]"), Some(Value::from(2)));
        assert_eq!(value_at("M", &value, "M2"), None);
    }

    #[test]
    fn members_of_nodes_exist_in_the_service() {
        for (path, _) in members_of_nodes() {
            assert!(shapes::member_at_path("CreateTrainingJob", path).is_some(), "{path}");
        }
    }
}
