//! The change of the role: trust policy, permissions, ownership.

use crate::account::Tags;
use crate::change::{Action, Change, Choices, Difference, Obstacle};
use crate::desired::{WantedRole, tags_of};
use crate::observed::ObservedRole;
use crate::ownership::{is_ours, missing_tags, owner, tag_differences};
use crate::policy::same_policy;
use trainc_emit::ResourceKind;
use trainc_emit::iam::POLICY_NAME;

/// A call that changes the role towards the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleStep {
    /// CreateRole.
    Create,
    /// TagRole.
    Tag(Tags),
    /// UpdateAssumeRolePolicy.
    Trust,
    /// PutRolePolicy.
    Policy,
}

/// Returns the changes of the role and of its policy, and the calls in order.
pub fn role_change(
    wanted: &WantedRole,
    found: Option<&ObservedRole>,
    choices: Choices,
) -> (Change, Change, Vec<RoleStep>) {
    let name = wanted.create.role_name.as_str();
    let policy_name = format!("{name}/{POLICY_NAME}");
    let Some(found) = found else {
        return (
            Change::new(ResourceKind::Role, name, Action::Create, "no role with this name exists"),
            Change::new(ResourceKind::RolePolicy, &policy_name, Action::Create, "the role is new"),
            vec![RoleStep::Create, RoleStep::Policy],
        );
    };
    let tags = tags_of(&wanted.create.tags);
    let job = tags.get("trainc:job").map_or("", String::as_str);
    let ours = is_ours(&found.role.tags, job);
    let mut steps = Vec::new();
    let mut differences = Vec::new();
    let missing = missing_tags(&tags, &found.role.tags);
    if !missing.is_empty() {
        differences.extend(tag_differences(&missing, &found.role.tags));
        steps.push(RoleStep::Tag(missing));
    }
    if !same_policy(&found.role.trust, &wanted.create.assume_role_policy_document) {
        differences
            .extend(trust_policy_differences(&found.role.trust, &wanted.create.assume_role_policy_document));
        steps.push(RoleStep::Trust);
    }
    let same = found.policy.as_deref().is_some_and(|policy| same_policy(policy, &wanted.policy));
    if !same {
        steps.push(RoleStep::Policy);
    }
    let action = match (ours, differences.is_empty()) {
        (false, _) if !choices.adopt => Action::Stop(Obstacle::Foreign),
        (false, _) => Action::Adopt,
        (true, true) => Action::Unchanged,
        (true, false) => Action::Update,
    };
    let because = match &action {
        Action::Stop(_) => {
            format!("a role with this name exists and belongs to {}", owner(&found.role.tags))
        }
        Action::Adopt => {
            let mut because = format!("`--adopt`: it belongs to {}", owner(&found.role.tags));
            // Its ARN contains its path, and neither can be changed: the job runs as the existing role.
            let path = wanted.create.path.as_deref().unwrap_or("/");
            if found.role.path != path {
                because.push_str(&format!("; it stays at path `{}`", found.role.path));
            }
            if let Some(more) = describe_role_drift(wanted, found) {
                because.push_str(&format!("; {more}"));
            }
            because
        }
        Action::Update => match describe_role_drift(wanted, found) {
            Some(more) => format!("it differs from the plan; {more}"),
            None => "it differs from the plan".to_owned(),
        },
        _ => match describe_role_drift(wanted, found) {
            Some(more) => format!("{more}; otherwise it matches the plan"),
            None => "matches the plan".to_owned(),
        },
    };
    let stopped = matches!(action, Action::Stop(_));
    // `--adopt` overwrites the policy, so its current content is shown before the user adopts it.
    if let (true, false, Some(policy)) = (stopped, same, &found.policy) {
        differences.extend(
            statements(policy, &wanted.policy)
                .into_iter()
                .map(|one| Difference { what: format!("inline policy {POLICY_NAME}, {}", one.what), ..one }),
        );
    }
    let mut change = Change::new(ResourceKind::Role, name, action, because);
    change.differences = differences;
    let policy = match (&found.policy, same, stopped) {
        (_, _, true) => Change::new(
            ResourceKind::RolePolicy,
            &policy_name,
            Action::Stop(Obstacle::Foreign),
            "its role does not belong to this job",
        ),
        (_, true, _) => {
            let because = format!("matches the plan{}", describe_kept_permissions(wanted));
            Change::new(ResourceKind::RolePolicy, &policy_name, Action::Unchanged, because)
        }
        (None, ..) => {
            Change::new(ResourceKind::RolePolicy, &policy_name, Action::Create, "the role has no such policy")
        }
        (Some(_), ..) => {
            let because = format!("the job needs other permissions now{}", describe_kept_permissions(wanted));
            let mut change = Change::new(ResourceKind::RolePolicy, &policy_name, Action::Update, because);
            change.differences = statements(found.policy.as_deref().unwrap_or_default(), &wanted.policy);
            change
        }
    };
    (change, policy, if stopped { Vec::new() } else { steps })
}

/// Describes the runs whose permissions are kept in the policy.
fn describe_kept_permissions(wanted: &WantedRole) -> String {
    match wanted.concurrent_runs.as_slice() {
        [] => String::new(),
        runs => format!(
            "; the permissions of {} are kept until the apply after {}",
            trainc_diag::text::backtick_list(runs, "and"),
            if runs.len() == 1 { "its end" } else { "their end" }
        ),
    }
}

/// Describes changes of the role by others: a different permissions boundary, or added policies. trainc
/// reports but never reverts them.
fn describe_role_drift(wanted: &WantedRole, found: &ObservedRole) -> Option<String> {
    let mut more: Vec<String> = found.inline.iter().filter(|name| *name != POLICY_NAME).cloned().collect();
    more.extend(found.attached.iter().cloned());
    if found.role.boundary != wanted.create.permissions_boundary {
        return Some(format!(
            "its permissions boundary is {}, the plan's is {}: change it manually",
            found.role.boundary.as_deref().unwrap_or("none"),
            wanted.create.permissions_boundary.as_deref().unwrap_or("none")
        ));
    }
    (!more.is_empty()).then(|| {
        format!("someone added {}; trainc does not remove it", trainc_diag::text::backtick_list(&more, "and"))
    })
}

/// Returns the members of a trust policy that differ, since a difference in the whole text would be hard to
/// find.
fn trust_policy_differences(found: &str, wanted: &str) -> Vec<Difference> {
    let document = "AssumeRolePolicyDocument";
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    let mut out = Vec::new();
    if let (Some(found), Some(wanted)) = (read(found), read(wanted)) {
        compare_json(document, &found, &wanted, &mut out);
    }
    if out.is_empty() {
        out.push(Difference::new(document, found, wanted));
    }
    out
}

fn compare_json(
    path: &str,
    found: &serde_json::Value,
    wanted: &serde_json::Value,
    out: &mut Vec<Difference>,
) {
    use serde_json::Value;
    let none = Value::Null;
    match (found, wanted) {
        (found, wanted) if found == wanted => {}
        (Value::Object(left), Value::Object(right)) => {
            let keys: std::collections::BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                let (found, wanted) = (left.get(key).unwrap_or(&none), right.get(key).unwrap_or(&none));
                compare_json(&format!("{path}.{key}"), found, wanted, out);
            }
        }
        (Value::Array(left), Value::Array(right)) if path.ends_with(".Statement") => {
            for at in 0..left.len().max(right.len()) {
                let (found, wanted) = (left.get(at).unwrap_or(&none), right.get(at).unwrap_or(&none));
                compare_json(&format!("{path}.{at}"), found, wanted, out);
            }
        }
        // A statement that exists on only one side, by member.
        (Value::Object(_), Value::Null) => {
            compare_json(path, found, &Value::Object(serde_json::Map::new()), out);
        }
        (Value::Null, Value::Object(_)) => {
            compare_json(path, &Value::Object(serde_json::Map::new()), wanted, out);
        }
        (found, wanted) => out.push(Difference::new(path, value_text(found), value_text(wanted))),
    }
}

fn value_text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => "none".to_owned(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Maximum length of a statement's description in characters.
const MOST_SAID: usize = 40;

/// Describes a statement without a Sid by its content.
fn describe_unnamed_statement(statement: &serde_json::Value) -> String {
    let part =
        |name: &str| statement.get(name).map(|value| value_text(value).replace('"', "")).unwrap_or_default();
    let (does, on) = (part("Action") + &part("NotAction"), part("Resource") + &part("NotResource"));
    let says = format!("{} {does} on {on}", part("Effect"));
    let (short, rest) = says.split_at(says.char_indices().nth(MOST_SAID).map_or(says.len(), |(at, _)| at));
    format!("without a Sid ({short}{})", if rest.is_empty() { "" } else { "…" })
}

/// Returns the statements that differ or exist on only one side, by their Sid.
fn statements(found: &str, wanted: &str) -> Vec<Difference> {
    let sids = |text: &str| -> std::collections::BTreeMap<String, serde_json::Value> {
        let document: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        let list =
            document.get("Statement").and_then(serde_json::Value::as_array).cloned().unwrap_or_default();
        list.into_iter()
            .map(|one| {
                let sid = one.get("Sid").and_then(|sid| sid.as_str()).filter(|sid| !sid.is_empty());
                (sid.map_or_else(|| describe_unnamed_statement(&one), str::to_owned), one)
            })
            .collect()
    };
    let (found, wanted) = (sids(found), sids(wanted));
    let names: std::collections::BTreeSet<&String> = found.keys().chain(wanted.keys()).collect();
    let mut out: Vec<Difference> = names
        .into_iter()
        .filter_map(|sid| {
            let what = format!("statement {sid}");
            match (found.get(sid), wanted.get(sid)) {
                (Some(old), Some(new)) if same_policy(&old.to_string(), &new.to_string()) => None,
                (Some(_), Some(_)) => Some(Difference::new(&what, "different", "changed")),
                (Some(_), None) => Some(Difference::new(&what, "present", "removed")),
                (None, _) => Some(Difference::new(&what, "none", "new")),
            }
        })
        .collect();
    // Lists are truncated at the end: new statements come before removed ones.
    out.sort_by_key(|one| one.found == "none");
    out
}
