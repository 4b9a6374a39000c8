//! IAM's documents and CreateRole, member by member, by the API's own names (botocore 1.44.5, `iam`
//! 2010-05-08; IAM user guide, "Grammar of the IAM JSON policy language").

use super::statement::Statement;
use crate::request::Tag;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use trainc_catalog::ci_identities::CiIdentity;

/// The version of the policy language: the older one has no policy variables.
const LANGUAGE: &str = "2012-10-17";

/// Operator to key to values.
type Conditions = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// CreateRole.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
#[expect(missing_docs, reason = "the API's own documentation says what each member is")]
pub struct CreateRole {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    pub role_name: String,
    pub assume_role_policy_document: String,
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions_boundary: Option<String>,
    pub tags: Vec<Tag>,
}

/// A policy document.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct PolicyDocument {
    version: &'static str,
    statement: Vec<Allow>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Allow {
    sid: String,
    effect: &'static str,
    action: Vec<String>,
    resource: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    condition: Conditions,
}

impl PolicyDocument {
    /// Returns the document of these statements.
    pub fn new(statements: &[Statement]) -> Self {
        let statement = statements
            .iter()
            .map(|statement| {
                let mut condition = Conditions::new();
                for one in &statement.conditions {
                    condition
                        .entry(one.operator.to_owned())
                        .or_default()
                        .insert(one.key.to_owned(), one.values.clone());
                }
                Allow {
                    sid: statement.sid.clone(),
                    effect: "Allow",
                    action: statement.actions.iter().map(|action| (*action).to_owned()).collect(),
                    resource: statement.resources.clone(),
                    condition,
                }
            })
            .collect();
        Self { version: LANGUAGE, statement }
    }

    /// Returns its length as IAM counts it: characters without white space.
    pub fn character_count(&self) -> usize {
        let mut count = Characters(0);
        serde_json::to_writer(&mut count, self).map_or(0, |()| count.0)
    }
}

/// A writer that counts characters other than white space.
struct Characters(usize);

impl io::Write for Characters {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        // Every UTF-8 character has exactly one byte that is not a continuation byte.
        let counts = |byte: &u8| !byte.is_ascii_whitespace() && (byte & 0b1100_0000) != 0b1000_0000;
        self.0 += text.iter().filter(|byte| counts(byte)).count();
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A trust policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TrustPolicy {
    version: &'static str,
    statement: Vec<Trust>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Trust {
    sid: &'static str,
    effect: &'static str,
    principal: Principal,
    action: StringOrList,
    condition: BTreeMap<&'static str, BTreeMap<String, StringOrList>>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
enum Principal {
    Service(String),
    /// The ARN of an identity provider of the account.
    Federated(String),
}

/// A string or a list of strings; IAM returns a single string without a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum StringOrList {
    One(String),
    Several(Vec<String>),
}

impl StringOrList {
    fn new(words: &[String]) -> Self {
        match words {
            [one] => Self::One(one.clone()),
            several => Self::Several(several.to_vec()),
        }
    }
}

impl TrustPolicy {
    /// Allows a service to assume the role on behalf of these sources (against the confused deputy problem).
    pub(super) fn new(principal: &str, account: &str, sources: &[String], session_tags: bool) -> Self {
        let mut actions = vec!["sts:AssumeRole".to_owned()];
        if session_tags {
            actions.push("sts:TagSession".to_owned());
        }
        Self {
            version: LANGUAGE,
            statement: vec![Trust {
                sid: "SageMakerTraining",
                effect: "Allow",
                principal: Principal::Service(principal.to_owned()),
                action: StringOrList::new(&actions),
                condition: BTreeMap::from([
                    (
                        "StringEquals",
                        BTreeMap::from([(
                            "aws:SourceAccount".to_owned(),
                            StringOrList::One(account.to_owned()),
                        )]),
                    ),
                    ("ArnLike", BTreeMap::from([("aws:SourceArn".to_owned(), StringOrList::new(sources))])),
                ]),
            }],
        }
    }

    /// Allows runs of CI to assume the role by their identity tokens, whose issuers are identity providers of
    /// the account.
    pub fn of_ci(partition: &str, account: &str, identities: &[CiIdentity]) -> Self {
        let trust = |identity: &CiIdentity| {
            let CiIdentity { host, audience, subject, .. } = identity;
            let equals =
                |name: &str, value: &str| (format!("{host}:{name}"), StringOrList::One(value.to_owned()));
            let mut condition = BTreeMap::from([("StringEquals", BTreeMap::from([equals("aud", audience)]))]);
            let operator = if subject.contains('*') { "StringLike" } else { "StringEquals" };
            condition.entry(operator).or_default().extend([equals("sub", subject)]);
            Trust {
                sid: if host.starts_with("gitlab") { "GitLab" } else { "GitHub" },
                effect: "Allow",
                principal: Principal::Federated(format!(
                    "arn:{partition}:iam::{account}:oidc-provider/{host}"
                )),
                action: StringOrList::One("sts:AssumeRoleWithWebIdentity".to_owned()),
                condition,
            }
        };
        Self { version: LANGUAGE, statement: identities.iter().map(trust).collect() }
    }
}
