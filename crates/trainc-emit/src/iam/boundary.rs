//! The permissions boundary of roles that trainc creates: the most that the program of a job may do, whatever
//! policy the role gets.

use super::PolicyDocument;
use super::statement::{Condition, Statement};
use super::statements::fitting_statements;
use std::collections::BTreeSet;
use trainc_ir::Plan;

/// The size limit of a managed policy, in characters without white space (IAM quotas).
pub const MANAGED_POLICY_LIMIT: usize = 6_144;

/// What the boundary of any job covers: nothing that is not named here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundaryScope<'a> {
    /// `aws`, `aws-cn`, `aws-us-gov`.
    pub partition: &'a str,
    /// Twelve digits; `None` for the account in which the policy is created.
    pub account: Option<&'a str>,
    /// Buckets of the account, each with a prefix of its keys, which may be empty.
    pub buckets: &'a [(String, String)],
    /// ARNs of KMS keys.
    pub keys: &'a [String],
    /// IDs of subnets.
    pub subnets: &'a [String],
}

/// Returns the boundary for the roles of these jobs: the union of their policies. The plans must have a
/// boundary, which restricts S3 writes and network interfaces.
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

/// Returns a boundary for all jobs that use only these buckets, keys and subnets: the statements that trainc
/// writes, for any image and log stream. It contains no secret, function, MLflow server or hub, which
/// [`boundary_of_jobs`] takes from the manifests.
pub fn general_boundary(scope: BoundaryScope) -> PolicyDocument {
    let BoundaryScope { partition: p, account, buckets, keys, subnets } = scope;
    let a = account.unwrap_or("*");
    // Without a known account: the account of the role itself.
    let owner = account.unwrap_or("${aws:PrincipalAccount}");
    let group = |jobs: &str| format!("arn:{p}:logs:*:{a}:log-group:/aws/sagemaker/{jobs}");
    let groups = || [group("TrainingJobs"), group("ProcessingJobs")];
    let any = || vec!["*".to_owned()];
    let new =
        |sid: &str, actions: &[&'static str], resources: Vec<String>, conditions: Vec<Condition>| Statement {
            sid: sid.to_owned(),
            because: String::new(),
            actions: actions.to_vec(),
            resources,
            conditions,
        };
    let namespaces = ["TrainingJobs", "ProcessingJobs"].map(|jobs| format!("/aws/sagemaker/{jobs}"));
    let owned = || vec![Condition::single("StringEquals", "aws:ResourceAccount", owner)];
    let mut out = Vec::new();
    let objects: Vec<String> =
        buckets.iter().map(|(bucket, prefix)| format!("arn:{p}:s3:::{bucket}/{prefix}*")).collect();
    for (at, (bucket, prefix)) in buckets.iter().enumerate() {
        let within = Condition::single("StringLike", "s3:prefix", format!("{prefix}*"));
        let condition = Some(within).filter(|_| !prefix.is_empty());
        out.push(new(
            &format!("ListBucket{}", at + 1),
            &["s3:ListBucket"],
            vec![format!("arn:{p}:s3:::{bucket}")],
            condition.into_iter().collect(),
        ));
    }
    if !objects.is_empty() {
        out.push(new("ReadData", &["s3:GetObject"], objects.clone(), Vec::new()));
        let writes = ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:PutObject"];
        out.push(new("WriteData", &writes, objects, owned()));
    }
    // What trainc uploads unless the manifest names another place.
    let home = format!("sagemaker-*-{owner}");
    let code = vec![format!("arn:{p}:s3:::{home}/trainc/*")];
    out.push(new("ReadCode", &["s3:GetObject"], code, owned()));
    let mut listing = owned();
    listing.push(Condition::single("StringLike", "s3:prefix", "trainc/*"));
    out.push(new("ListCode", &["s3:ListBucket"], vec![format!("arn:{p}:s3:::{home}")], listing));
    if !keys.is_empty() {
        let actions = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"];
        out.push(new("UseKeys", &actions, keys.to_vec(), Vec::new()));
        let volumes = vec![Condition::single("Bool", "kms:GrantIsForAWSResource", "true")];
        out.push(new("GrantVolumeKeys", &["kms:CreateGrant"], keys.to_vec(), volumes));
    }
    out.extend([
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
    ]);
    if !subnets.is_empty() {
        out.extend(
            network(p, a, subnets)
                .map(|(sid, actions, resources, conditions)| new(sid, actions, resources, conditions)),
        );
    }
    PolicyDocument::new(&out)
}

/// A statement without its reason: its name, actions, resources and conditions.
type Part = (&'static str, &'static [&'static str], Vec<String>, Vec<Condition>);

/// Returns the statements for network interfaces in these subnets.
fn network(p: &str, a: &str, subnets: &[String]) -> [Part; 3] {
    let interfaces = format!("arn:{p}:ec2:*:{a}:network-interface/*");
    let subnets: Vec<String> = subnets.iter().map(|id| format!("arn:{p}:ec2:*:{a}:subnet/{id}")).collect();
    let parts = [interfaces.clone(), format!("arn:{p}:ec2:*:{a}:security-group/*")];
    let parts = parts.into_iter().chain(subnets.iter().cloned()).collect();
    [
        (
            "NetworkRead",
            &[
                "ec2:DescribeDhcpOptions",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSubnets",
                "ec2:DescribeVpcs",
            ],
            vec!["*".to_owned()],
            Vec::new(),
        ),
        ("NetworkCreate", &["ec2:CreateNetworkInterface"], parts, Vec::new()),
        (
            "NetworkUse",
            &[
                "ec2:CreateNetworkInterfacePermission",
                "ec2:DeleteNetworkInterface",
                "ec2:DeleteNetworkInterfacePermission",
            ],
            vec![interfaces],
            vec![Condition::new("ArnLike", "ec2:Subnet", subnets)],
        ),
    ]
}
