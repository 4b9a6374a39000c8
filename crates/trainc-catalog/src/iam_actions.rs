//! IAM actions that a training role or the operator uses: exact case, ARN formats, dependent actions.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::table::Table;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("iam-actions", include_str!("data/iam_actions.toml"));

/// An IAM action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// `s3:GetObject`, in the case of the reference.
    pub name: String,
    /// `Read`, `Write`, `List`, `Tagging`, `Permissions management`.
    pub access: String,
    /// Resource type to ARN format: `object` to `arn:${Partition}:s3:::${BucketName}/${ObjectName}`.
    pub resources: BTreeMap<String, String>,
    /// Only `Resource "*"` works.
    pub star_only: bool,
    /// Actions that AWS requires in addition.
    pub dependent: Vec<String>,
    /// Condition keys that trainc uses and not every action of the service knows.
    pub condition_keys: Vec<String>,
    /// The source of the row.
    pub provenance: Provenance,
}

#[derive(Clone, Deserialize)]
struct ActionRow {
    access: String,
    #[serde(default)]
    resources: BTreeMap<String, String>,
    star_only: bool,
    #[serde(default)]
    dependent: Vec<String>,
    #[serde(default)]
    condition_keys: Vec<String>,
    #[serde(flatten)]
    provenance: Provenance,
}

/// Returns the action with that name, in exact case.
pub fn get(name: &str) -> Option<Action> {
    let row: ActionRow = TABLE.row(name).cloned()?;
    Some(Action {
        name: name.to_owned(),
        access: row.access,
        resources: row.resources,
        star_only: row.star_only,
        dependent: row.dependent,
        condition_keys: row.condition_keys,
        provenance: row.provenance,
    })
}

/// Returns all action names, in the order of the file.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.keys()
}

impl Action {
    /// Returns true if one of the formats matches the ARN; a variable matches any text.
    pub fn matches_arn(&self, arn: &str) -> bool {
        self.resources.values().any(|format| format_matches_arn(format, arn))
    }
}

fn format_matches_arn(format: &str, arn: &str) -> bool {
    let mut rest = arn;
    let mut pieces = Vec::new();
    let mut left = format;
    while let Some((before, after)) = left.split_once("${") {
        pieces.push(before);
        left = after.split_once('}').map_or("", |(_, after)| after);
    }
    // The text after the last variable ends the ARN; the pieces before it follow each other.
    let Some(body) = rest.strip_suffix(left) else {
        return false;
    };
    rest = body;
    for (at, piece) in pieces.iter().enumerate() {
        let found = if at == 0 { rest.starts_with(piece).then_some(0) } else { rest.find(piece) };
        let Some(found) = found else { return false };
        rest = rest.get(found + piece.len()..).unwrap_or("");
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_role_needs_actions_that_exist() {
        for name in [
            "s3:ListBucket",
            "s3:GetObject",
            "s3:PutObject",
            "s3:DeleteObject",
            "s3:AbortMultipartUpload",
            "logs:CreateLogGroup",
            "logs:DescribeLogStreams",
            "logs:CreateLogStream",
            "logs:PutLogEvents",
            "cloudwatch:PutMetricData",
            "ecr:GetAuthorizationToken",
            "ecr:BatchCheckLayerAvailability",
            "ecr:BatchGetImage",
            "ecr:GetDownloadUrlForLayer",
            "kms:Decrypt",
            "kms:Encrypt",
            "kms:GenerateDataKey",
            "kms:DescribeKey",
            "kms:CreateGrant",
            "ec2:CreateNetworkInterface",
            "fsx:DescribeFileSystems",
            "secretsmanager:GetSecretValue",
            "ssmmessages:OpenDataChannel",
        ] {
            assert!(get(name).is_some(), "{name}");
        }
        assert_eq!(get("s3:getobject"), None);
        assert_eq!(names().filter_map(get).count(), names().count());
    }

    #[test]
    fn formats_fit_arns_of_their_type() {
        let get = |name| get(name).unwrap();
        assert!(get("s3:GetObject").matches_arn("arn:aws:s3:::bucket/train/*"));
        assert!(!get("s3:GetObject").matches_arn("arn:aws:s3:::bucket"));
        assert!(get("s3:ListBucket").matches_arn("arn:aws-cn:s3:::bucket"));
        let stream =
            "arn:aws:logs:us-west-2:111122223333:log-group:/aws/sagemaker/TrainingJobs:log-stream:gpt2/*";
        assert!(get("logs:PutLogEvents").matches_arn(stream));
        assert!(!get("ecr:BatchGetImage").matches_arn(stream));
        assert!(
            get("cloudwatch:PutMetricData").star_only && !get("cloudwatch:PutMetricData").matches_arn("*")
        );
        assert_eq!(get("sagemaker:CreateTrainingJob").dependent, ["iam:PassRole", "sagemaker:AddTags"]);
    }
}
