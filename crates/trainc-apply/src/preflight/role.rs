//! Checks of an existing role: it exists, SageMaker can assume it, and it has the permissions of the job.

use super::facts::Facts;
use super::skipped_checks::{answer_or_report, not_found_fault};
use serde_json::Value;
use std::collections::BTreeMap;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::Plan;

declare_code!(
    T0632,
    "role-unusable",
    Error,
    "a role that does not exist or that SageMaker cannot assume",
    found_in: Account
);
declare_code!(
    T0633,
    "role-lacks-permissions",
    Error,
    "a role without all permissions that the job needs",
    found_in: Account,
    explains: [Permission]
);

pub(super) static CODES: &[&Code] = &[&T0632, &T0633];

/// Returns the reason why a trust policy allows SageMaker only for other accounts: each of its statements for
/// the service has a condition on the account that is not met. Other conditions, and policies that cannot be
/// parsed, are ignored.
fn trust_conflict(trust: &str, account: &str) -> Option<String> {
    let document: Value = serde_json::from_str(trust).ok()?;
    let statements = as_list(document.get("Statement")?);
    let lets = statements.into_iter().filter(|one| {
        let service = one.pointer("/Principal/Service");
        let is_sagemaker =
            |name: &&Value| name.as_str().is_some_and(|name| name.starts_with("sagemaker.amazonaws.com"));
        one.get("Effect").and_then(Value::as_str) == Some("Allow")
            && service.is_some_and(|service| as_list(service).iter().any(is_sagemaker))
    });
    let mut why = None;
    for statement in lets {
        match conflict(statement, account) {
            Some(words) => why = why.or(Some(words)),
            None => return None,
        }
    }
    why
}

/// Returns the first condition of a statement that no request for this account meets.
fn conflict(statement: &Value, account: &str) -> Option<String> {
    for (operator, keys) in statement.get("Condition")?.as_object()? {
        let bare = operator.strip_suffix("IfExists").unwrap_or(operator);
        let negates = bare.contains("Not");
        if !["String", "Arn"].iter().any(|kind| bare.starts_with(kind)) {
            continue;
        }
        for (key, values) in keys.as_object().into_iter().flatten() {
            let whose = |value: &str| match key.to_lowercase().as_str() {
                "aws:sourceaccount" => Some(value.to_owned()),
                // arn:partition:service:region:account:resource
                "aws:sourcearn" => Some(value.split(':').nth(4).unwrap_or("*").to_owned()),
                _ => None,
            };
            let named: Vec<&str> = as_list(values).into_iter().filter_map(Value::as_str).collect();
            let owners: Vec<String> = named.iter().filter_map(|value| whose(value)).collect();
            if owners.is_empty() {
                continue;
            }
            let is_met = if negates {
                // Only the account can be excluded here, since an ARN may name a single job.
                !(key.eq_ignore_ascii_case("aws:SourceAccount") && owners.iter().any(|one| one == account))
            } else {
                owners.iter().any(|one| one.contains(['*', '?', '$']) || one == account)
            };
            if !is_met {
                let verb = if negates { "excludes" } else { "requires" };
                return Some(format!(
                    "its trust policy {verb} {} {}, but this account is `{account}`",
                    key,
                    text::backtick_list(&named, "or")
                ));
            }
        }
    }
    None
}

/// Returns a value as a list; IAM accepts both.
fn as_list(value: &Value) -> Vec<&Value> {
    value.as_array().map_or_else(|| vec![value], |all| all.iter().collect())
}

/// Maximum number of actions in a message; its notes list all.
const MOST_NAMED: usize = 6;

/// Formats actions for a message.
fn list_actions(actions: &[&str]) -> String {
    match actions.get(..MOST_NAMED) {
        Some(first) if actions.len() > MOST_NAMED => {
            let first: Vec<String> = first.iter().map(|action| format!("`{action}`")).collect();
            format!("{} and {} more, all listed below", first.join(", "), actions.len() - MOST_NAMED)
        }
        _ => text::backtick_list(actions, "or"),
    }
}

pub(super) fn judge(plan: &Plan, facts: &Facts, problems: &mut Problems) {
    let Some(written) = &plan.job.role else { return };
    let Some(arn) = written.arn.val() else { return };
    let span = arn.span_or(written.span);
    if not_found_fault(&facts.role).is_some() {
        problems.push(Diagnostic::new(&T0632, span, format!("role `{}` does not exist", arn.value)).help(
            "write `role create=#true`: trainc then creates one with the permissions that this job needs",
        ));
        return;
    }
    if let Some(role) = answer_or_report(&facts.role, "the role", span, problems)
        && !role.trust.is_empty()
        && !role.trust.contains("sagemaker.amazonaws.com")
    {
        problems.push(
            Diagnostic::new(&T0632, span, format!("SageMaker is not allowed to assume `{}`", arn.value))
                .note("its trust policy must allow sagemaker.amazonaws.com to perform sts:AssumeRole"),
        );
    }
    if let Some(Ok(role)) = &facts.role
        && let Some(why) = trust_conflict(&role.trust, &facts.account)
    {
        problems.push(
            Diagnostic::new(
                &T0632,
                span,
                format!("SageMaker is not allowed to assume `{}` for this account: {why}", arn.value),
            )
            .help(format!("add `{}` to that condition", facts.account))
            .note(
                "SageMaker assumes a role on behalf of the account whose job it runs \
                    (aws:SourceAccount, aws:SourceArn)",
            )
            .fact("account", facts.account.as_str()),
        );
    }
    let Some(answers) = answer_or_report(&facts.permissions, "the role's permissions", span, problems) else {
        return;
    };
    let mut lacking: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (question, _) in answers.iter().filter(|(_, allowed)| !allowed) {
        lacking.entry(question.action.as_str()).or_default().push(question.resource.as_str());
    }
    if lacking.is_empty() {
        return;
    }
    let actions: Vec<&str> = lacking.keys().copied().collect();
    let mut diagnostic = Diagnostic::new(
        &T0633,
        span,
        format!("the role is not allowed to perform {}", list_actions(&actions)),
    )
    .fact("actions", actions.iter().map(|action| (*action).to_owned()).collect::<Vec<_>>())
    .fact("lacking", serde_json::json!(lacking))
    .note("checked with IAM (simulate-principal-policy) for what this job reads, writes and logs");
    for (action, resources) in &lacking {
        let more = match resources.len() {
            0 | 1 => String::new(),
            all => format!(", and {} more: `-o json` lists them", all - 1),
        };
        let first = resources.first().copied().unwrap_or("*");
        diagnostic = diagnostic.note(format!("{action} on {first}{more}"));
    }
    problems.push(diagnostic);
}

#[cfg(test)]
mod tests {
    use super::trust_conflict;

    fn of(condition: &str) -> Option<String> {
        let text = format!(
            r#"{{"Statement":{{"Effect":"Allow","Principal":{{"Service":["sagemaker.amazonaws.com"]}},"Action":"sts:AssumeRole"{condition}}}}}"#
        );
        trust_conflict(&text, "111122223333")
    }

    #[test]
    fn a_trust_policy_of_another_account_shuts_this_one_out() {
        let other = of(r#","Condition":{"StringEquals":{"aws:SourceAccount":"999999999999"}}"#).unwrap();
        assert_eq!(
            other,
            "its trust policy requires aws:SourceAccount `999999999999`, but this account is `111122223333`"
        );
        let arn =
            r#","Condition":{"ArnLike":{"aws:SourceArn":"arn:aws:sagemaker:us-west-2:999999999999:*"}}"#;
        assert!(of(arn).is_some());
        assert!(of(r#","Condition":{"StringNotEquals":{"AWS:sourceaccount":["111122223333"]}}"#).is_some());
        for met in [
            "",
            r#","Condition":{"StringEquals":{"aws:SourceAccount":["999999999999","111122223333"]}}"#,
            r#","Condition":{"StringLike":{"aws:SourceAccount":"1111*"}}"#,
            r#","Condition":{"ArnLike":{"aws:SourceArn":"arn:aws:sagemaker:*:111122223333:*"}}"#,
            r#","Condition":{"ArnLike":{"aws:SourceArn":"*"}}"#,
            r#","Condition":{"StringEquals":{"aws:PrincipalOrgID":"o-1"}}"#,
            r#","Condition":{"StringNotEquals":{"aws:SourceAccount":"999999999999"}}"#,
        ] {
            assert_eq!(of(met), None, "{met}");
        }
        // One statement that allows it is sufficient.
        let both = r#"{"Statement":[
            {"Effect":"Allow","Principal":{"Service":"sagemaker.amazonaws.com"},"Condition":{"StringEquals":{"aws:SourceAccount":"9"}}},
            {"Effect":"Allow","Principal":{"Service":"sagemaker.amazonaws.com"}}]}"#;
        assert_eq!(trust_conflict(both, "111122223333"), None);
        assert_eq!(trust_conflict("no JSON", "111122223333"), None);
    }
}
