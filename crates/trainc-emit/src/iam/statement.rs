//! A policy statement, and what statements are made from.

use crate::names;
use schemars::JsonSchema;
use serde::Serialize;
use trainc_ir::{Plan, Raw};

/// One statement of a policy, with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Statement {
    /// The statement's name, letters and digits, unique in the policy.
    pub sid: String,
    /// The nodes of the manifest that require it.
    pub because: String,
    /// The allowed actions, sorted.
    pub actions: Vec<&'static str>,
    /// The resources.
    pub resources: Vec<String>,
    /// The conditions, all of which must hold.
    #[serde(skip)]
    pub conditions: Vec<Condition>,
}

/// A condition of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The IAM operator.
    pub operator: &'static str,
    /// The condition key.
    pub key: &'static str,
    /// The accepted values.
    pub values: Vec<String>,
}

impl Condition {
    pub(super) fn new(operator: &'static str, key: &'static str, values: Vec<String>) -> Self {
        Self { operator, key, values }
    }

    pub(super) fn single(operator: &'static str, key: &'static str, value: impl Into<String>) -> Self {
        Self::new(operator, key, vec![value.into()])
    }
}

/// The plan whose statements are collected.
pub(super) struct Scope<'a> {
    pub(super) plan: &'a Plan,
}

impl Scope<'_> {
    /// Returns an ARN in the job's region and account.
    pub(super) fn arn(&self, service: &str, resource: &str) -> String {
        let plan = self.plan;
        format!(
            "arn:{}:{service}:{}:{}:{resource}",
            names::partition(plan),
            names::region(plan),
            names::account(plan)
        )
    }

    /// Returns the condition that a service in this region makes the call, not the job itself.
    pub(super) fn via_service(&self, service: &str) -> Condition {
        let suffix = self.plan.region.as_ref().map_or("amazonaws.com", |region| region.dns_suffix.as_str());
        Condition::single(
            "StringEquals",
            "kms:ViaService",
            format!("{service}.{}.{suffix}", names::region(self.plan)),
        )
    }
}

/// Returns the texts of a member at any depth of a raw value.
pub(super) fn member_texts(wanted: &str, name: &str, value: &Raw) -> Vec<String> {
    match value {
        Raw::Scalar(_) if name == wanted => value.text().map(str::to_owned).into_iter().collect(),
        Raw::Scalar(_) => Vec::new(),
        Raw::List(items) => items.iter().flat_map(|item| member_texts(wanted, name, item)).collect(),
        Raw::Object(inner) => {
            inner.iter().flat_map(|member| member_texts(wanted, &member.name, &member.value)).collect()
        }
    }
}

/// Returns the ARN of the repository of an ECR image,
/// `<account>.dkr.ecr.<region>.<suffix>/<repository>:<tag>`; the account is that of the registry, which
/// differs from the job's for images of AWS.
pub(super) fn repository_arn(partition: &str, uri: &str) -> Option<String> {
    let (host, path) = uri.split_once('/')?;
    let (account, rest) = host.split_once(".dkr.ecr.")?;
    let (region, _) = rest.split_once('.')?;
    let repository = path.split(['@', ':']).next()?;
    Some(format!("arn:{partition}:ecr:{region}:{account}:repository/{repository}"))
}
