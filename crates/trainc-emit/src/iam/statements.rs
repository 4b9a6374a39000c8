//! The policy statements of the job: one per purpose, each with the nodes that require it.
//!
//! Actions and resources follow SageMaker's list for execution roles (developer guide, "SageMaker Roles",
//! CreateTrainingJob), narrowed as far as the service authorization reference allows.

use std::collections::BTreeSet;

use super::s3_access::{self, S3Access};
use super::statement::{Condition, Scope, Statement, member_texts, repository_arn};
use super::{INLINE_POLICY_LIMIT, PolicyDocument};
use crate::names;
use trainc_diag::text;
use trainc_ir::Plan;

/// The log group of training jobs, and the namespace of their metrics.
const TRAINING_JOBS: &str = "/aws/sagemaker/TrainingJobs";

/// The most prefixes before they are widened to common parents.
const MOST_PREFIXES: usize = 60;

/// Returns the statements, and whether prefixes were widened to fit the size limit: reads before writes, long
/// keys before short ones, one directory at a time, never to a whole bucket.
pub(super) fn fitting_statements(plan: &Plan) -> (Vec<Statement>, bool) {
    let mut accesses = s3_access::s3_accesses(plan);
    let mut widened = false;
    loop {
        let statements = all_statements(plan, &accesses);
        let prefixes: usize = statements
            .iter()
            .filter(|s| s.actions == ["s3:ListBucket"])
            .flat_map(|s| &s.conditions)
            .map(|c| c.values.len())
            .sum();
        if prefixes <= MOST_PREFIXES
            && PolicyDocument::new(&statements).character_count() <= INLINE_POLICY_LIMIT
        {
            return (statements, widened);
        }
        if !(widen(&mut accesses, false) || widen(&mut accesses, true)) {
            return (statements, widened);
        }
        widened = true;
    }
}

/// Widens the longest reads or writes by one directory; returns false if none can be widened.
fn widen(accesses: &mut [S3Access], writes: bool) -> bool {
    let mut candidates: Vec<&mut S3Access> = accesses
        .iter_mut()
        .filter(|access| access.purpose.writes() == writes && access.can_widen())
        .collect();
    let longest = candidates.iter().map(|access| access.key_length()).max().unwrap_or_default();
    candidates.retain(|access| access.key_length() > longest / 4 * 3);
    for access in &mut candidates {
        access.widen();
    }
    !candidates.is_empty()
}

fn all_statements(plan: &Plan, accesses: &[S3Access]) -> Vec<Statement> {
    let scope = Scope { plan };
    let mut out = s3_access::statements(plan, accesses);
    scope.keys(&mut out);
    scope.logs(&mut out);
    scope.image(&mut out);
    scope.rules(&mut out);
    scope.network(&mut out);
    scope.other_services(&mut out);
    out
}

impl Scope<'_> {
    fn logs(&self, out: &mut Vec<Statement>) {
        let group = self.arn("logs", &format!("log-group:{TRAINING_JOBS}"));
        out.push(Statement {
            sid: "LogGroup".to_owned(),
            because: "every training job writes logs".to_owned(),
            actions: vec!["logs:CreateLogGroup", "logs:DescribeLogStreams"],
            resources: vec![group.clone(), format!("{group}:*")],
            conditions: Vec::new(),
        });
        out.push(Statement {
            sid: "LogStreams".to_owned(),
            because: "every training job writes logs, to streams that begin with its name".to_owned(),
            actions: vec!["logs:CreateLogStream", "logs:PutLogEvents"],
            resources: vec![format!("{group}:log-stream:{}/*", names::training_job_pattern(self.plan))],
            conditions: Vec::new(),
        });
        out.push(Statement {
            sid: "PutMetrics".to_owned(),
            because: "SageMaker publishes the metrics of `metric` and the utilization of instances"
                .to_owned(),
            actions: vec!["cloudwatch:PutMetricData"],
            resources: vec!["*".to_owned()],
            conditions: vec![Condition::single("StringEquals", "cloudwatch:namespace", TRAINING_JOBS)],
        });
    }

    /// Adds statements to pull the image from Amazon ECR; the login to another registry is in
    /// `other_services`.
    fn image(&self, out: &mut Vec<Statement>) {
        let Some(repository) = self
            .plan
            .image
            .as_ref()
            .and_then(|image| repository_arn(names::partition(self.plan), &image.uri))
        else {
            return;
        };
        out.push(Statement {
            sid: "ImageToken".to_owned(),
            because: "`image`, from Amazon ECR".to_owned(),
            actions: vec!["ecr:GetAuthorizationToken"],
            resources: vec!["*".to_owned()],
            conditions: Vec::new(),
        });
        out.push(Statement {
            sid: "ImagePull".to_owned(),
            because: "`image`".to_owned(),
            actions: vec![
                "ecr:BatchCheckLayerAvailability",
                "ecr:BatchGetImage",
                "ecr:GetDownloadUrlForLayer",
            ],
            resources: vec![repository],
            conditions: Vec::new(),
        });
    }

    fn network(&self, out: &mut Vec<Statement>) {
        // Every interface is in one of the subnets: without them, there is nothing to allow.
        let Some(network) = self.plan.job.network.as_ref().filter(|network| !network.subnets.is_empty())
        else {
            return;
        };
        let interfaces = self.arn("ec2", "network-interface/*");
        let mut parts = vec![interfaces.clone()];
        let subnets: Vec<String> =
            network.subnets.iter().map(|val| self.arn("ec2", &format!("subnet/{}", val.value))).collect();
        parts.extend(subnets.iter().cloned());
        parts.extend(
            network
                .security_groups
                .iter()
                .map(|val| self.arn("ec2", &format!("security-group/{}", val.value))),
        );
        out.push(Statement {
            sid: "NetworkRead".to_owned(),
            because: "`network`".to_owned(),
            actions: vec![
                "ec2:DescribeDhcpOptions",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSubnets",
                "ec2:DescribeVpcs",
            ],
            resources: vec!["*".to_owned()],
            conditions: vec![Condition::single(
                "StringEquals",
                "aws:RequestedRegion",
                names::region(self.plan),
            )],
        });
        out.push(Statement {
            sid: "NetworkCreate".to_owned(),
            because: "`network`: an interface for each instance, in these subnets and groups".to_owned(),
            actions: vec!["ec2:CreateNetworkInterface"],
            resources: parts,
            conditions: Vec::new(),
        });
        out.push(Statement {
            sid: "NetworkUse".to_owned(),
            because: "`network`: SageMaker attaches the interfaces and takes them away".to_owned(),
            actions: vec![
                "ec2:CreateNetworkInterfacePermission",
                "ec2:DeleteNetworkInterface",
                "ec2:DeleteNetworkInterfacePermission",
            ],
            resources: vec![interfaces],
            conditions: vec![Condition::new("ArnEquals", "ec2:Subnet", subnets)],
        });
    }

    fn other_services(&self, out: &mut Vec<Statement>) {
        let job = &self.plan.job;
        let lustre: Vec<String> = job
            .channels
            .iter()
            .filter(|channel| {
                let storage = job.storage.iter().find(|storage| {
                    channel.from.value().is_some() && storage.name.value() == channel.from.value()
                });
                storage.and_then(|storage| storage.kind.value()).is_some_and(|kind| kind == "lustre")
            })
            .map(|channel| format!("channel `{}`", channel.name.value().map_or("", String::as_str)))
            .collect();
        if !lustre.is_empty() {
            out.push(Statement {
                sid: "ReadStorage".to_owned(),
                because: format!(
                    "{} on FSx for Lustre; the mount itself requires only network access",
                    text::list(&lustre, "and")
                ),
                actions: vec!["fsx:DescribeFileSystems"],
                resources: vec!["*".to_owned()],
                conditions: Vec::new(),
            });
        }
        let secrets: Vec<&str> = job
            .program
            .iter()
            .flat_map(|program| &program.secrets)
            .filter_map(|secret| secret.from.text())
            .collect();
        if !secrets.is_empty() {
            // In the ARN, AWS appends six random characters to the name.
            let mut arns: Vec<String> = Vec::new();
            for secret in secrets {
                let arn = if secret.starts_with("arn:") {
                    secret.to_owned()
                } else {
                    self.arn("secretsmanager", &format!("secret:{secret}-??????"))
                };
                if !arns.contains(&arn) {
                    arns.push(arn);
                }
            }
            out.push(Statement {
                sid: "ReadSecrets".to_owned(),
                because: "`secret`: the container fetches it at start".to_owned(),
                actions: vec!["secretsmanager:GetSecretValue"],
                resources: arns,
                conditions: Vec::new(),
            });
        }
        let contents: Vec<&str> = job
            .channels
            .iter()
            .flat_map(|channel| [channel.hub.text(), channel.dataset.text()])
            .flatten()
            .collect();
        if !contents.is_empty() {
            let resources: BTreeSet<String> = contents.into_iter().flat_map(hub_content_arns).collect();
            out.push(Statement {
                sid: "ReadHubContent".to_owned(),
                because: "`hub=` and `dataset=`: SageMaker looks up their content with the job's role"
                    .to_owned(),
                actions: vec!["sagemaker:DescribeHubContent"],
                resources: resources.into_iter().collect(),
                conditions: Vec::new(),
            });
        }
        if job.remote_debug.get() == Some(true) {
            out.push(Statement {
                sid: "RemoteDebug".to_owned(),
                because: "`remote-debug`: Systems Manager opens the shell".to_owned(),
                actions: vec![
                    "ssmmessages:CreateControlChannel",
                    "ssmmessages:CreateDataChannel",
                    "ssmmessages:OpenControlChannel",
                    "ssmmessages:OpenDataChannel",
                ],
                resources: vec!["*".to_owned()],
                conditions: Vec::new(),
            });
        }
        for (sid, action, member, because) in [
            (
                "RegistryLogin",
                "lambda:InvokeFunction",
                "TrainingRepositoryCredentialsProviderArn",
                "the function that logs in to the image registry",
            ),
            ("TrackRuns", "sagemaker-mlflow:*", "MlflowResourceArn", "the script logs its runs to MLflow"),
        ] {
            let arns: Vec<String> =
                job.request.iter().flat_map(|raw| member_texts(member, &raw.name, &raw.value)).collect();
            if !arns.is_empty() {
                out.push(Statement {
                    sid: sid.to_owned(),
                    because: format!("`request … {member}`: {because}"),
                    actions: vec![action],
                    resources: arns,
                    conditions: Vec::new(),
                });
            }
        }
    }
}

/// Returns the resources that DescribeHubContent is authorized on: the hub, its content without a version
/// (both as in the service authorization reference), and the named version.
/// `…:hub-content/<hub>/<type>/<name>[/<version>]`.
fn hub_content_arns(arn: &str) -> Vec<String> {
    let Some((service, path)) = arn.split_once(":hub-content/") else { return vec![arn.to_owned()] };
    let parts: Vec<&str> = path.split('/').collect();
    let hub = parts.first().map(|hub| format!("{service}:hub/{hub}"));
    let content = parts.get(..3).map(|parts| format!("{service}:hub-content/{}", parts.join("/")));
    hub.into_iter().chain(content).chain([arn.to_owned()]).collect()
}
