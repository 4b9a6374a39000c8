//! A role of one's own: it is there, SageMaker may assume it, and it may do what the job does.

use super::facts::Facts;
use super::{is_missing, seen};
use crate::declare_code;
use crate::diag::{Code, Diagnostic, Problems};
use crate::ir::Plan;
use crate::text;
use std::collections::BTreeMap;

declare_code!(T0632, "role-unusable", Error, "a role that is not there or that SageMaker may not assume");
declare_code!(T0633, "role-lacks-permissions", Error, "a role that may not do what the job does");

pub(super) static CODES: &[&Code] = &[&T0632, &T0633];

/// The most actions that a message names.
const MOST_NAMED: usize = 6;

pub(super) fn judge(plan: &Plan, facts: &Facts, problems: &mut Problems) {
    let Some(written) = &plan.job.role else { return };
    let Some(arn) = written.arn.val() else { return };
    let span = arn.span_or(written.span);
    if is_missing(&facts.role).is_some() {
        problems.push(
            Diagnostic::new(&T0632, span, format!("there is no role `{}`", arn.value))
                .help("write `role create=#true`, and trainc makes one that may do what this job does"),
        );
        return;
    }
    if let Some(role) = seen(&facts.role, "the role", span, problems)
        && !role.trust.is_empty()
        && !role.trust.contains("sagemaker.amazonaws.com")
    {
        problems.push(
            Diagnostic::new(&T0632, span, format!("SageMaker may not assume `{}`", arn.value))
                .note("its trust policy must let the service sagemaker.amazonaws.com do sts:AssumeRole"),
        );
    }
    let Some(answers) = seen(&facts.permissions, "what the role may do", span, problems) else { return };
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
        format!("the role may not do {}", text::ticked(actions.get(..MOST_NAMED).unwrap_or(&actions), "or")),
    )
    .fact("actions", actions.iter().map(|action| (*action).to_owned()).collect::<Vec<_>>())
    .note("asked of IAM (simulate-principal-policy) for what this job reads, writes and logs");
    for (action, resources) in lacking.iter().take(3) {
        diagnostic = diagnostic.note(format!("{action} on {}", resources.first().copied().unwrap_or("*")));
    }
    problems.push(diagnostic);
}
