//! The role of a job: its trust policy and its permissions.
//!
//! Files in `iam/` are only written for a role that trainc creates. An existing role (`role arn=`) needs the
//! same [`statements`], which reports show.

mod boundary;
mod document;
mod keys;
mod rules;
mod s3_access;
mod statement;
mod statements;
#[cfg(test)]
mod tests;

pub use boundary::{BoundaryScope, MANAGED_POLICY_LIMIT, boundary_of_jobs, general_boundary};
pub use document::{CreateRole, PolicyDocument, TrustPolicy};
pub use statement::{Condition, Statement};

use super::{canonical_json, names, tags};
use trainc_ir::Plan;

/// The name of the role's inline policy.
pub const POLICY_NAME: &str = "trainc";

/// The size limit of all inline policies of a role, in characters without white space (IAM quotas; the
/// service model says 131,072, which the service does not accept).
pub const INLINE_POLICY_LIMIT: usize = 10_240;

/// The service principal that assumes the role: the same in every partition, including China.
const PRINCIPAL: &str = "sagemaker.amazonaws.com";

/// Returns the policy statements of the job, one per purpose, each with its reason.
pub fn statements(plan: &Plan) -> Vec<Statement> {
    statements::fitting_statements(plan).0
}

/// Returns the inline policy, and whether prefixes were widened to common parents to keep it within the size
/// limit.
pub fn fitting_policy(plan: &Plan) -> (PolicyDocument, bool) {
    let (statements, widened) = statements::fitting_statements(plan);
    (PolicyDocument::new(&statements), widened)
}

/// Returns the inline policy.
pub fn policy(plan: &Plan) -> PolicyDocument {
    fitting_policy(plan).0
}

/// Returns the trust policy: only SageMaker may assume the role, and only for this job's runs in this
/// account.
pub fn trust_policy(plan: &Plan) -> TrustPolicy {
    let (partition, region, account) = (names::partition(plan), names::region(plan), names::account(plan));
    let runs = names::training_job_pattern(plan);
    // Session tags require the trust policy to allow them (STS, "Passing session tags").
    let tagged = plan.job.session_chaining.get() == Some(true);
    let source = |what: &str| format!("arn:{partition}:sagemaker:{region}:{account}:{what}");
    let mut sources = vec![source(&format!("training-job/{runs}"))];
    // Each rule is a processing job under the same role, with a name that the service generates.
    if rules::has_rules(plan) {
        sources.push(source("processing-job/*"));
    }
    TrustPolicy::new(PRINCIPAL, account, &sources, tagged)
}

/// Returns CreateRole; `None` if trainc does not create the role. The job's digest is only in tags that
/// reference it.
pub fn create_role(plan: &Plan, digest: &str) -> Option<CreateRole> {
    let role = plan.job.role.as_ref().filter(|role| role.arn.value().is_none())?;
    let name = names::role(plan);
    let job = plan.job.name.value().map_or("", String::as_str);
    let trust = serde_json::to_value(trust_policy(plan)).unwrap_or_default();
    let mut create = CreateRole {
        path: role.path.value().cloned(),
        assume_role_policy_document: canonical_json::compact(&trust),
        description: format!(
            "Training job {job} in {}: what the job uses and nothing else. Made by trainc.",
            names::region(plan)
        ),
        permissions_boundary: role.boundary.text().map(str::to_owned),
        tags: Vec::new(),
        role_name: name,
    };
    create.tags = tags::resource_tags(plan, &format!("role/{}", create.role_name), digest, &create);
    Some(create)
}

/// Returns `iam/create-role.json`, `iam/trust-policy.json` and `iam/policy.json`, if trainc creates the role.
pub(super) fn files(plan: &Plan, digest: &str) -> Vec<(String, Vec<u8>)> {
    let Some(create) = create_role(plan, digest) else { return Vec::new() };
    vec![
        ("iam/create-role.json".to_owned(), canonical_json::to_file_bytes(&create)),
        ("iam/trust-policy.json".to_owned(), canonical_json::to_file_bytes(&trust_policy(plan))),
        ("iam/policy.json".to_owned(), canonical_json::to_file_bytes(&policy(plan))),
    ]
}
