//! IAM: the execution role and its inline policy.

use super::errors::fault;
use aws_sdk_iam::Client;
use aws_sdk_iam::types::{
    ContextEntry, ContextKeyTypeEnum, EvaluationResult, PolicyEvaluationDecisionType, Tag,
};
use std::collections::BTreeSet;
use trainc_apply::account::{Question, Role, Tags};
use trainc_apply::calls::Call;
use trainc_apply::cloud::Answer;
use trainc_apply::fault::{Class, Fault};
use trainc_emit::iam::CreateRole;

pub(super) async fn role(client: &Client, name: &str) -> Answer<Role> {
    let call = Call::GetRole;
    let answer = client.get_role().role_name(name).send().await.map_err(|error| fault(call, &error))?;
    let Some(role) = answer.role() else {
        return Err(Fault::new(call, Class::Unavailable, "the response contains no role"));
    };
    Ok(Role {
        name: role.role_name().to_owned(),
        arn: role.arn().to_owned(),
        path: role.path().to_owned(),
        trust: percent_decode(role.assume_role_policy_document().unwrap_or_default()),
        boundary: role
            .permissions_boundary()
            .and_then(|boundary| boundary.permissions_boundary_arn())
            .map(str::to_owned),
        tags: role.tags().iter().map(|tag| (tag.key().to_owned(), tag.value().to_owned())).collect(),
    })
}

pub(super) async fn role_policy(client: &Client, role: &str, policy: &str) -> Answer<String> {
    let call = Call::GetRolePolicy;
    let asked = client.get_role_policy().role_name(role).policy_name(policy);
    let answer = asked.send().await.map_err(|error| fault(call, &error))?;
    Ok(percent_decode(answer.policy_document()))
}

pub(super) async fn inline_policies(client: &Client, role: &str) -> Answer<Vec<String>> {
    let call = Call::ListRolePolicies;
    let pages = client.list_role_policies().role_name(role).into_paginator().items().send();
    pages.collect::<Result<Vec<_>, _>>().await.map_err(|error| fault(call, &error))
}

pub(super) async fn attached_policies(client: &Client, role: &str) -> Answer<Vec<String>> {
    let call = Call::ListAttachedRolePolicies;
    let pages = client.list_attached_role_policies().role_name(role).into_paginator().items().send();
    let found = pages.collect::<Result<Vec<_>, _>>().await.map_err(|error| fault(call, &error))?;
    Ok(found.into_iter().filter_map(|policy| policy.policy_arn).collect())
}

/// Simulates all actions on all resources in one call, and returns the results of the requested pairs.
pub(super) async fn simulate(client: &Client, role_arn: &str, questions: &[Question]) -> Answer<Vec<bool>> {
    let call = Call::SimulatePrincipalPolicy;
    let actions: BTreeSet<&str> = questions.iter().map(|one| one.action.as_str()).collect();
    let resources: BTreeSet<&str> = questions.iter().map(|one| one.resource.as_str()).collect();
    let mut asked = client.simulate_principal_policy().policy_source_arn(role_arn);
    for action in actions {
        asked = asked.action_names(action);
    }
    for resource in resources {
        asked = asked.resource_arns(resource);
    }
    for (key, value) in questions.first().map(|one| one.context.as_slice()).unwrap_or_default() {
        let entry = ContextEntry::builder()
            .context_key_name(key)
            .context_key_type(ContextKeyTypeEnum::String)
            .context_key_values(value);
        asked = asked.context_entries(entry.build());
    }
    let pages = asked.into_paginator().items().send();
    let found = pages.collect::<Result<Vec<_>, _>>().await.map_err(|error| fault(call, &error))?;
    Ok(questions.iter().map(|question| allowed(&found, question)).collect())
}

/// Returns the resource-specific result if there is one, otherwise that of the action.
fn allowed(found: &[EvaluationResult], question: &Question) -> bool {
    let yes = |decision: Option<&PolicyEvaluationDecisionType>| {
        decision == Some(&PolicyEvaluationDecisionType::Allowed)
    };
    found
        .iter()
        .filter(|result| result.eval_action_name() == question.action)
        .find_map(|result| {
            let own = result
                .resource_specific_results()
                .iter()
                .find(|own| own.eval_resource_name() == question.resource);
            match own {
                Some(own) => Some(yes(Some(own.eval_resource_decision()))),
                None if result.eval_resource_name() == Some(question.resource.as_str()) => {
                    Some(yes(Some(result.eval_decision())))
                }
                None => None,
            }
        })
        .unwrap_or(false)
}

pub(super) async fn create_role(client: &Client, request: &CreateRole) -> Answer<()> {
    let call = Call::CreateRole;
    let mut asked = client
        .create_role()
        .role_name(&request.role_name)
        .set_path(request.path.clone())
        .assume_role_policy_document(&request.assume_role_policy_document)
        .description(&request.description)
        .set_permissions_boundary(request.permissions_boundary.clone());
    for tag in &request.tags {
        asked = asked.tags(tag_of(call, &tag.key, &tag.value)?);
    }
    asked.send().await.map_err(|error| fault(call, &error))?;
    Ok(())
}

pub(super) async fn put_role_policy(client: &Client, role: &str, policy: &str, document: &str) -> Answer<()> {
    let asked = client.put_role_policy().role_name(role).policy_name(policy).policy_document(document);
    asked.send().await.map_err(|error| fault(Call::PutRolePolicy, &error))?;
    Ok(())
}

pub(super) async fn update_trust(client: &Client, role: &str, document: &str) -> Answer<()> {
    let asked = client.update_assume_role_policy().role_name(role).policy_document(document);
    asked.send().await.map_err(|error| fault(Call::UpdateAssumeRolePolicy, &error))?;
    Ok(())
}

pub(super) async fn tag_role(client: &Client, role: &str, tags: &Tags) -> Answer<()> {
    let call = Call::TagRole;
    let mut asked = client.tag_role().role_name(role);
    for (key, value) in tags {
        asked = asked.tags(tag_of(call, key, value)?);
    }
    asked.send().await.map_err(|error| fault(call, &error))?;
    Ok(())
}

pub(super) async fn delete_role_policy(client: &Client, role: &str, policy: &str) -> Answer<()> {
    let asked = client.delete_role_policy().role_name(role).policy_name(policy);
    asked.send().await.map_err(|error| fault(Call::DeleteRolePolicy, &error))?;
    Ok(())
}

pub(super) async fn delete_role(client: &Client, role: &str) -> Answer<()> {
    client.delete_role().role_name(role).send().await.map_err(|error| fault(Call::DeleteRole, &error))?;
    Ok(())
}

fn tag_of(call: Call, key: &str, value: &str) -> Answer<Tag> {
    Tag::builder()
        .key(key)
        .value(value)
        .build()
        .map_err(|error| Fault::new(call, Class::Bug, &error.to_string()))
}

/// IAM returns percent-encoded documents (RFC 3986), which the Rust SDK does not decode.
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
