//! The permissions boundary of roles that trainc creates: the most that the program of a job may do, whatever policy the
//! role gets.

use super::PolicyDocument;
use super::statements::{Condition, Statement, fitting_statements};
use std::collections::BTreeSet;
use trainc_ir::Plan;

/// The size limit of a managed policy, in characters without white space (IAM quotas).
pub const MANAGED_POLICY_LIMIT: usize = 6_144;

/// The partition and account of a boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundaryScope<'a> {
    /// `aws`, `aws-cn`, `aws-us-gov`.
    pub partition: &'a str,
    /// Twelve digits; `None` for the account in which the policy is created.
    pub account: Option<&'a str>,
}

/// Returns the boundary for the roles of these jobs: the union of their policies. The plans must have a boundary, which
/// restricts S3 writes and network interfaces.
pub fn boundary_of_jobs<'a>(plans: impl IntoIterator<Item = &'a Plan>) -> PolicyDocument {
    let mut union: Vec<Statement> = Vec::new();
    for statement in plans.into_iter().flat_map(|plan| fitting_statements(plan).0) {
        let same =
            |one: &&mut Statement| one.actions == statement.actions && one.conditions == statement.conditions;
        match union.iter_mut().find(same) {
            Some(one) => {
                let more = statement.resources.iter().filter(|arn| !one.resources.contains(arn));
                one.resources = one.resources.iter().chain(more).cloned().collect();
            }
            None => union.push(statement),
        }
    }
    let mut known = BTreeSet::new();
    for statement in &mut union {
        let name = statement.sid.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
        let numbered = (1..).map(|n| if n == 1 { name.clone() } else { format!("{name}{n}") });
        if let Some(sid) = numbered.into_iter().find(|sid| !known.contains(sid)) {
            statement.sid.clone_from(&sid);
            known.insert(sid);
        }
    }
    PolicyDocument::new(&union)
}

/// Returns a boundary for all jobs of an account: the statements that trainc writes, for any bucket, key, image and log
/// stream. It contains no secret, function, MLflow server or hub, which [`boundary_of_jobs`] takes from the manifests.
pub fn general_boundary(scope: BoundaryScope) -> PolicyDocument {
    let BoundaryScope { partition: p, account } = scope;
    let a = account.unwrap_or("*");
    // Without a known account: the account of the role itself.
    let owner = account.unwrap_or("${aws:PrincipalAccount}");
    let group = |jobs: &str| format!("arn:{p}:logs:*:{a}:log-group:/aws/sagemaker/{jobs}");
    let groups = || [group("TrainingJobs"), group("ProcessingJobs")];
    let interfaces = format!("arn:{p}:ec2:*:{a}:network-interface/*");
    let any = || vec!["*".to_owned()];
    let key = || vec![format!("arn:{p}:kms:*:*:key/*")];
    let new =
        |sid: &str, actions: &[&'static str], resources: Vec<String>, conditions: Vec<Condition>| Statement {
            sid: sid.to_owned(),
            because: String::new(),
            actions: actions.to_vec(),
            resources,
            conditions,
        };
    let namespaces = ["TrainingJobs", "ProcessingJobs"].map(|jobs| format!("/aws/sagemaker/{jobs}"));
    PolicyDocument::new(&[
        new("ReadData", &["s3:GetObject", "s3:ListBucket"], vec![format!("arn:{p}:s3:::*")], Vec::new()),
        new(
            "WriteData",
            &["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:PutObject"],
            vec![format!("arn:{p}:s3:::*/*")],
            vec![Condition::single("StringEquals", "aws:ResourceAccount", owner)],
        ),
        new(
            "UseKeys",
            &["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"],
            key(),
            Vec::new(),
        ),
        new(
            "GrantVolumeKeys",
            &["kms:CreateGrant"],
            key(),
            vec![Condition::single("Bool", "kms:GrantIsForAWSResource", "true")],
        ),
        new(
            "WriteLogs",
            &["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            groups().into_iter().flat_map(|group| [format!("{group}:*"), group]).collect(),
            Vec::new(),
        ),
        new(
            "PutMetrics",
            &["cloudwatch:PutMetricData"],
            any(),
            vec![Condition::new("StringEquals", "cloudwatch:namespace", namespaces.to_vec())],
        ),
        new("ImageToken", &["ecr:GetAuthorizationToken"], any(), Vec::new()),
        new(
            "ImagePull",
            &["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
            vec![format!("arn:{p}:ecr:*:*:repository/*")],
            Vec::new(),
        ),
        new(
            "NetworkRead",
            &[
                "ec2:DescribeDhcpOptions",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSubnets",
                "ec2:DescribeVpcs",
            ],
            any(),
            Vec::new(),
        ),
        new(
            "NetworkCreate",
            &["ec2:CreateNetworkInterface"],
            vec![
                interfaces.clone(),
                format!("arn:{p}:ec2:*:{a}:subnet/*"),
                format!("arn:{p}:ec2:*:{a}:security-group/*"),
            ],
            Vec::new(),
        ),
        new(
            "NetworkUse",
            &[
                "ec2:CreateNetworkInterfacePermission",
                "ec2:DeleteNetworkInterface",
                "ec2:DeleteNetworkInterfacePermission",
            ],
            vec![interfaces],
            Vec::new(),
        ),
        new("ReadStorage", &["fsx:DescribeFileSystems"], any(), Vec::new()),
        new(
            "RemoteDebug",
            &[
                "ssmmessages:CreateControlChannel",
                "ssmmessages:CreateDataChannel",
                "ssmmessages:OpenControlChannel",
                "ssmmessages:OpenDataChannel",
            ],
            any(),
            Vec::new(),
        ),
    ])
}
