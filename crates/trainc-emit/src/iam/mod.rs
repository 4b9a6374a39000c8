//! The role of a job: who may assume it, and what it may do.
//!
//! Files are written for a role that trainc makes, and only then: `iam/` in an artefact tree means "this is made".
//! What a role of one's own (`role arn=`) needs is the same list, [`statements`], which the reports can show.

mod document;
mod keys;
mod reach;
mod rules;
mod statements;
#[cfg(test)]
mod tests;

pub use document::{CreateRole, PolicyDocument, TrustPolicy};
pub use statements::{Condition, Statement};

use super::{canonical, names, tags};
use trainc_ir::Plan;

/// The name of the role's inline policy.
pub const POLICY_NAME: &str = "trainc";

/// What all inline policies of a role hold together, in characters, white space not counted (IAM quotas; the
/// service's model says 131,072, which is not what the service takes).
pub const INLINE_POLICY_LIMIT: usize = 10_240;

/// The service that assumes the role: the same name in every partition, China's included.
const PRINCIPAL: &str = "sagemaker.amazonaws.com";

/// What the job may do and why, one statement per purpose.
pub fn statements(plan: &Plan) -> Vec<Statement> {
    statements::fitting(plan).0
}

/// The inline policy, and whether prefixes were widened to what they have in common, because it would not have fit
/// into a role.
pub fn fitted(plan: &Plan) -> (PolicyDocument, bool) {
    let (statements, widened) = statements::fitting(plan);
    (PolicyDocument::of(&statements), widened)
}

/// The inline policy.
pub fn policy(plan: &Plan) -> PolicyDocument {
    fitted(plan).0
}

/// Who may assume the role: SageMaker, for this account's runs of this job and nobody else's.
pub fn trust_policy(plan: &Plan) -> TrustPolicy {
    let (partition, region, account) = (names::partition(plan), names::region(plan), names::account(plan));
    let runs = names::training_job_pattern(plan);
    // Tags of the session travel only where the trust policy allows them (STS, "Passing session tags").
    let tagged = plan.job.session_chaining.get() == Some(true);
    let source = |what: &str| format!("arn:{partition}:sagemaker:{region}:{account}:{what}");
    let mut sources = vec![source(&format!("training-job/{runs}"))];
    // Each rule is a processing job under the same role, and the service makes up its name.
    if rules::has_rules(plan) {
        sources.push(source("processing-job/*"));
    }
    TrustPolicy::of(PRINCIPAL, account, &sources, tagged)
}

/// CreateRole, where trainc makes the role. The job's digest stands only in a tag that asks for it.
pub fn create_role(plan: &Plan, digest: &str) -> Option<CreateRole> {
    let role = plan.job.role.as_ref().filter(|role| plan.deployable && role.arn.value().is_none())?;
    let name = names::role(plan);
    let job = plan.job.name.value().map_or("", String::as_str);
    let trust = serde_json::to_value(trust_policy(plan)).unwrap_or_default();
    let mut create = CreateRole {
        path: role.path.value().cloned(),
        assume_role_policy_document: canonical::compact(&trust),
        description: format!(
            "Training job {job} in {}: what the job uses and nothing else. Made by trainc.",
            names::region(plan)
        ),
        permissions_boundary: role.boundary.value().cloned(),
        tags: Vec::new(),
        role_name: name,
    };
    create.tags = tags::of(plan, &format!("role/{}", create.role_name), digest, &create);
    Some(create)
}

/// `iam/create-role.json`, `iam/trust-policy.json`, `iam/policy.json`, where trainc makes the role.
pub(super) fn files(plan: &Plan, digest: &str) -> Vec<(String, Vec<u8>)> {
    let Some(create) = create_role(plan, digest) else { return Vec::new() };
    vec![
        ("iam/create-role.json".to_owned(), canonical::file(&create)),
        ("iam/trust-policy.json".to_owned(), canonical::file(&trust_policy(plan))),
        ("iam/policy.json".to_owned(), canonical::file(&policy(plan))),
    ]
}
