//! The operator's own least-privilege policy, generated from the table of calls.

use super::calls::{Call, Command, Scope};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Where the policy holds; what is not known stands open as `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// `aws`, `aws-cn`, `aws-us-gov`.
    pub partition: String,
    /// The region, or `*`.
    pub region: String,
    /// The account, or `*`.
    pub account: String,
}

impl Default for Place {
    fn default() -> Self {
        Self { partition: "aws".to_owned(), region: "*".to_owned(), account: "*".to_owned() }
    }
}

impl Place {
    fn resources(&self, scope: Scope) -> Vec<String> {
        let Self { partition: p, region: r, account: a } = self;
        match scope {
            Scope::All => vec!["*".to_owned()],
            Scope::Role => vec![format!("arn:{p}:iam::{a}:role/trainc/*")],
            Scope::AnyRole => vec![format!("arn:{p}:iam::{a}:role/*")],
            Scope::FileSystem => vec![
                format!("arn:{p}:fsx:{r}:{a}:file-system/*"),
                format!("arn:{p}:fsx:{r}:{a}:association/*"),
            ],
            Scope::TrainingJob => vec![format!("arn:{p}:sagemaker:{r}:{a}:training-job/*")],
            // The caller looks into the user's buckets, and writes below `trainc/` only.
            Scope::Bucket => vec![format!("arn:{p}:s3:::*")],
            Scope::Object => vec![format!("arn:{p}:s3:::sagemaker-{r}-{a}/trainc/*")],
            Scope::LogGroup => vec![
                format!("arn:{p}:logs:{r}:{a}:log-group:/aws/sagemaker/TrainingJobs"),
                format!("arn:{p}:logs:{r}:{a}:log-group:/aws/sagemaker/TrainingJobs:*"),
            ],
            Scope::Key => vec![format!("arn:{p}:kms:{r}:{a}:key/*")],
            Scope::Image => vec![format!("arn:{p}:ecr:{r}:{a}:repository/*")],
            Scope::Secret => vec![format!("arn:{p}:secretsmanager:{r}:{a}:secret:*")],
        }
    }
}

/// Reads and writes are told apart, so that a person who only looks gets less.
fn sid(scope: Scope, write: bool) -> String {
    let what = match scope {
        Scope::All => "Everywhere",
        Scope::Role => "Roles",
        Scope::AnyRole => "AnyRole",
        Scope::FileSystem => "FileSystems",
        Scope::TrainingJob => "TrainingJobs",
        Scope::Bucket => "Buckets",
        Scope::Object => "Objects",
        Scope::LogGroup => "Logs",
        Scope::Key => "Keys",
        Scope::Image => "Images",
        Scope::Secret => "Secrets",
    };
    format!("{}{what}", if write { "Change" } else { "See" })
}

/// The policy that lets a caller run these commands, and nothing else.
pub fn policy(commands: &[Command], place: &Place) -> Value {
    let mut statements: BTreeMap<(bool, Scope), BTreeSet<String>> = BTreeMap::new();
    let mut applies = false;
    for call in Call::ALL {
        let row = call.row();
        if !row.commands.iter().any(|command| commands.contains(command)) {
            continue;
        }
        let write = row.effect == super::calls::Effect::Write;
        let actions = statements.entry((write, row.scope)).or_default();
        actions.insert(call.action());
        for also in row.also {
            match *also {
                // A role is passed under a condition of its own.
                "iam:PassRole" => applies = true,
                // It knows no resource that could be named.
                "ec2:GetSecurityGroupsForVpc" => {
                    statements.entry((false, Scope::All)).or_default().insert((*also).to_owned());
                }
                other => {
                    actions_of(&mut statements, write, row.scope).insert(other.to_owned());
                }
            }
        }
    }
    let mut out: Vec<Value> = statements
        .into_iter()
        .map(|((write, scope), actions)| {
            json!({
                "Sid": sid(scope, write),
                "Effect": "Allow",
                "Action": actions,
                "Resource": place.resources(scope),
            })
        })
        .collect();
    if applies {
        let Place { partition: p, account: a, .. } = place;
        out.push(json!({
            "Sid": "PassRoles",
            "Effect": "Allow",
            "Action": ["iam:PassRole"],
            "Resource": [format!("arn:{p}:iam::{a}:role/*")],
            "Condition": {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
        }));
        // The first file system of an account, and the first link to S3 (FSx for Lustre user guide, "Setting up").
        out.push(json!({
            "Sid": "FirstFileSystem",
            "Effect": "Allow",
            "Action": ["iam:CreateServiceLinkedRole"],
            "Resource": [
                format!("arn:{p}:iam::{a}:role/aws-service-role/fsx.amazonaws.com/*"),
                format!("arn:{p}:iam::{a}:role/aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/*"),
            ],
            "Condition": {"StringLike": {"iam:AWSServiceName": [
                "fsx.amazonaws.com", "s3.data-source.lustre.fsx.amazonaws.com",
            ]}},
        }));
        out.push(json!({
            "Sid": "FirstLink",
            "Effect": "Allow",
            "Action": ["iam:AttachRolePolicy", "iam:PutRolePolicy"],
            "Resource": [
                format!("arn:{p}:iam::{a}:role/aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/*"),
            ],
        }));
    }
    json!({"Version": "2012-10-17", "Statement": out})
}

fn actions_of(
    statements: &mut BTreeMap<(bool, Scope), BTreeSet<String>>,
    write: bool,
    scope: Scope,
) -> &mut BTreeSet<String> {
    statements.entry((write, scope)).or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actions(commands: &[Command]) -> BTreeSet<String> {
        let policy = policy(commands, &Place::default());
        let statements = policy["Statement"].as_array().unwrap().clone();
        let sids: BTreeSet<String> = statements.iter().map(|one| one["Sid"].to_string()).collect();
        assert_eq!(sids.len(), statements.len(), "every Sid once");
        let lists = statements.iter().flat_map(|one| one["Action"].as_array().unwrap().clone());
        lists.map(|action| action.as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn who_plans_may_change_nothing() {
        let plan = actions(&[Command::Plan]);
        let writes = ["Create", "Put", "Delete", "Update", "Tag", "Pass", "Add", "Stop", "Attach"];
        for action in &plan {
            let verb = action.split(':').nth(1).unwrap();
            assert!(!writes.iter().any(|write| verb.starts_with(write)), "{action}");
        }
        assert!(plan.contains("iam:GetRole"));
    }

    #[test]
    fn who_applies_may_pass_roles_to_sagemaker_only() {
        let apply = actions(&[Command::Apply]);
        for action in ["iam:PassRole", "iam:TagRole", "fsx:TagResource", "sagemaker:AddTags", "s3:PutObject"]
        {
            assert!(apply.contains(action), "{action}");
        }
        assert!(!apply.contains("iam:DeleteRole") && !apply.contains("fsx:DeleteFileSystem"));
    }
}
