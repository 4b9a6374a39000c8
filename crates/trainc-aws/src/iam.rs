//! IAM: the execution role and its inline policy.

use super::client::{Client, all_pages, members};
use super::xml::{child, elements, text_of};
use roxmltree::Node;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use trainc_apply::account::{Question, Role, Tags};
use trainc_apply::calls::Call;
use trainc_apply::cloud::Answer;
use trainc_apply::fault::{Class, Fault};
use trainc_emit::iam::CreateRole;

/// Sends a request and reads the element `<Operation>Result` of the response.
async fn ask<T>(
    client: &Client,
    call: Call,
    request: &Value,
    read: impl FnOnce(Node<'_, '_>) -> Option<T>,
) -> Answer<T> {
    let result = format!("{}Result", call.row().operation);
    client.query(call, &parameters(request), |root| read(child(root, &result)?)).await
}

/// Sends a request whose response has nothing to read.
async fn tell(client: &Client, call: Call, request: &Value) -> Answer<()> {
    client.query(call, &parameters(request), |_| Some(())).await
}

/// Reads all items of a list, page after page.
async fn list<T>(
    client: &Client,
    call: Call,
    request: Map<String, Value>,
    list: &str,
    read: fn(Node<'_, '_>) -> T,
) -> Answer<Vec<T>> {
    all_pages(call, async |marker| {
        let mut asked = request.clone();
        asked.extend(marker.map(|marker| ("Marker".to_owned(), marker.into())));
        ask(client, call, &Value::Object(asked), |result| {
            let is_cut = text_of(result, "IsTruncated") == Some("true");
            let next = text_of(result, "Marker").filter(|_| is_cut).map(str::to_owned);
            Some((elements(result, list, "member").map(read).collect(), next))
        })
        .await
    })
    .await
}

/// Returns the text of an element as it is written: values of tags may begin or end with white space.
fn exact_text(element: Node<'_, '_>) -> String {
    element.text().unwrap_or_default().to_owned()
}

/// Returns a request's members as parameters: `Path`, `Tags.member.1.Key`. The emitted request is JSON with
/// the same names.
fn parameters(request: &Value) -> Vec<(String, String)> {
    fn add(name: &str, value: &Value, out: &mut Vec<(String, String)>) {
        match value {
            Value::Null => {}
            Value::String(text) => out.push((name.to_owned(), text.clone())),
            Value::Bool(_) | Value::Number(_) => out.push((name.to_owned(), value.to_string())),
            Value::Array(items) => {
                for (number, item) in (1..).zip(items) {
                    add(&format!("{name}.member.{number}"), item, out);
                }
            }
            Value::Object(members) => {
                for (member, value) in members {
                    let dot = if name.is_empty() { "" } else { "." };
                    add(&format!("{name}{dot}{member}"), value, out);
                }
            }
        }
    }
    let mut out = Vec::new();
    add("", request, &mut out);
    out
}

pub(super) async fn role(client: &Client, name: &str) -> Answer<Role> {
    ask(client, Call::GetRole, &json!({ "RoleName": name }), |result| {
        let role = child(result, "Role")?;
        let text = |name: &str| text_of(role, name).map(str::to_owned);
        let boundary = child(role, "PermissionsBoundary");
        let tags = elements(role, "Tags", "member");
        let of_tag = |tag: Node<'_, '_>, name: &str| child(tag, name).map(exact_text).unwrap_or_default();
        Some(Role {
            name: text("RoleName")?,
            arn: text("Arn")?,
            path: text("Path").unwrap_or_default(),
            trust: percent_decode(&text("AssumeRolePolicyDocument").unwrap_or_default()),
            boundary: boundary
                .and_then(|boundary| text_of(boundary, "PermissionsBoundaryArn"))
                .map(str::to_owned),
            tags: tags.map(|tag| (of_tag(tag, "Key"), of_tag(tag, "Value"))).collect(),
        })
    })
    .await
}

pub(super) async fn role_policy(client: &Client, role: &str, policy: &str) -> Answer<String> {
    let asked = json!({ "RoleName": role, "PolicyName": policy });
    ask(client, Call::GetRolePolicy, &asked, |result| text_of(result, "PolicyDocument").map(percent_decode))
        .await
}

pub(super) async fn inline_policies(client: &Client, role: &str) -> Answer<Vec<String>> {
    let asked = members([("RoleName", Some(role.into()))]);
    list(client, Call::ListRolePolicies, asked, "PolicyNames", exact_text).await
}

pub(super) async fn attached_policies(client: &Client, role: &str) -> Answer<Vec<String>> {
    let asked = members([("RoleName", Some(role.into()))]);
    let arn = |policy: Node<'_, '_>| text_of(policy, "PolicyArn").map(str::to_owned);
    let found = list(client, Call::ListAttachedRolePolicies, asked, "AttachedPolicies", arn).await?;
    Ok(found.into_iter().flatten().collect())
}

/// What the simulator decided about an action.
#[derive(Debug)]
struct Evaluation {
    action: String,
    resource: String,
    is_allowed: bool,
    /// The decisions about single resources.
    of_resources: Vec<(String, bool)>,
}

/// Simulates all actions on all resources in one call, and returns the results of the requested pairs.
pub(super) async fn simulate(client: &Client, role_arn: &str, questions: &[Question]) -> Answer<Vec<bool>> {
    let actions: BTreeSet<&str> = questions.iter().map(|one| one.action.as_str()).collect();
    let resources: BTreeSet<&str> = questions.iter().map(|one| one.resource.as_str()).collect();
    let context = questions.first().map(|one| one.context.as_slice()).unwrap_or_default();
    let entry = |(key, value): &(String, String)| {
        let kind = "string";
        json!({ "ContextKeyName": key, "ContextKeyType": kind, "ContextKeyValues": [value] })
    };
    let asked = members([
        ("PolicySourceArn", Some(role_arn.into())),
        ("ActionNames", Some(json!(actions))),
        ("ResourceArns", Some(json!(resources))),
        ("ContextEntries", Some(context.iter().map(entry).collect())),
    ]);
    let found = list(client, Call::SimulatePrincipalPolicy, asked, "EvaluationResults", evaluation).await?;
    Ok(questions.iter().map(|question| allowed(&found, question)).collect())
}

fn evaluation(result: Node<'_, '_>) -> Evaluation {
    let text = |name: &str| text_of(result, name).unwrap_or_default().to_owned();
    let of_resource = |own: Node<'_, '_>| {
        let is_allowed = text_of(own, "EvalResourceDecision") == Some("allowed");
        (text_of(own, "EvalResourceName").unwrap_or_default().to_owned(), is_allowed)
    };
    Evaluation {
        action: text("EvalActionName"),
        resource: text("EvalResourceName"),
        is_allowed: text("EvalDecision") == "allowed",
        of_resources: elements(result, "ResourceSpecificResults", "member").map(of_resource).collect(),
    }
}

/// Returns the resource-specific result if there is one, otherwise that of the action.
fn allowed(found: &[Evaluation], question: &Question) -> bool {
    found
        .iter()
        .filter(|result| result.action == question.action)
        .find_map(|result| {
            let own = result.of_resources.iter().find(|(resource, _)| *resource == question.resource);
            own.map(|(_, is_allowed)| *is_allowed)
                .or_else(|| Some(result.is_allowed).filter(|_| result.resource == question.resource))
        })
        .unwrap_or(false)
}

/// Sends all members of the emitted request.
pub(super) async fn create_role(client: &Client, request: &CreateRole) -> Answer<()> {
    let emitted = serde_json::to_value(request);
    let emitted = emitted.map_err(|error| Fault::new(Call::CreateRole, Class::Bug, &error.to_string()))?;
    tell(client, Call::CreateRole, &emitted).await
}

pub(super) async fn put_role_policy(client: &Client, role: &str, policy: &str, document: &str) -> Answer<()> {
    let asked = json!({ "RoleName": role, "PolicyName": policy, "PolicyDocument": document });
    tell(client, Call::PutRolePolicy, &asked).await
}

pub(super) async fn update_trust(client: &Client, role: &str, document: &str) -> Answer<()> {
    let asked = json!({ "RoleName": role, "PolicyDocument": document });
    tell(client, Call::UpdateAssumeRolePolicy, &asked).await
}

pub(super) async fn tag_role(client: &Client, role: &str, tags: &Tags) -> Answer<()> {
    let tags: Vec<Value> = tags.iter().map(|(key, value)| json!({ "Key": key, "Value": value })).collect();
    tell(client, Call::TagRole, &json!({ "RoleName": role, "Tags": tags })).await
}

pub(super) async fn delete_role_policy(client: &Client, role: &str, policy: &str) -> Answer<()> {
    tell(client, Call::DeleteRolePolicy, &json!({ "RoleName": role, "PolicyName": policy })).await
}

pub(super) async fn delete_role(client: &Client, role: &str) -> Answer<()> {
    tell(client, Call::DeleteRole, &json!({ "RoleName": role })).await
}

/// IAM returns percent-encoded documents (RFC 3986).
fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let pair = bytes.get(at + 1..at + 3).and_then(|pair| std::str::from_utf8(pair).ok());
        let value = pair.filter(|_| byte == b'%').and_then(|pair| u8::from_str_radix(pair, 16).ok());
        at += if value.is_some() { 3 } else { 1 };
        out.push(value.unwrap_or(byte));
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_decoded() {
        assert_eq!(percent_decode("%7B%22Version%22%3A%222012-10-17%22%7D"), r#"{"Version":"2012-10-17"}"#);
        assert_eq!(percent_decode(r#"{"a":"100%"}"#), r#"{"a":"100%"}"#);
        assert_eq!(percent_decode("%C3%A9+"), "é+");
    }
}
