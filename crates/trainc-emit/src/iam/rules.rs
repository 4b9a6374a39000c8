//! Permissions for rules of the debugger and the profiler.

use super::statement::{Condition, Scope, Statement, member_texts, repository_arn};
use crate::names;
use std::collections::BTreeSet;
use trainc_ir::{Plan, Raw};

/// The log group of processing jobs, and the namespace of their metrics.
const PROCESSING_JOBS: &str = "/aws/sagemaker/ProcessingJobs";

/// Returns whether the job has rules of the debugger or the profiler.
pub(super) fn has_rules(plan: &Plan) -> bool {
    plan.job.request.iter().any(|raw| {
        matches!(raw.name.as_str(), "DebugRuleConfigurations" | "ProfilerRuleConfigurations")
            && matches!(&raw.value, Raw::List(rules) if !rules.is_empty())
    })
}

impl Scope<'_> {
    /// Adds statements for rules, which run as separate processing jobs with their own images and logs
    /// (developer guide, "SageMaker Roles", CreateProcessingJob).
    pub(super) fn rules(&self, out: &mut Vec<Statement>) {
        if !has_rules(self.plan) {
            return;
        }
        let because = "rules of the debugger and the profiler: each runs as a processing job";
        let group = self.arn("logs", &format!("log-group:{PROCESSING_JOBS}"));
        out.push(Statement {
            sid: "RuleLogGroup".to_owned(),
            because: because.to_owned(),
            actions: vec!["logs:CreateLogGroup", "logs:DescribeLogStreams"],
            resources: vec![group.clone(), format!("{group}:*")],
            conditions: Vec::new(),
        });
        out.push(Statement {
            sid: "RuleLogStreams".to_owned(),
            because: because.to_owned(),
            actions: vec!["logs:CreateLogStream", "logs:PutLogEvents"],
            resources: vec![format!("{group}:log-stream:*")],
            conditions: Vec::new(),
        });
        out.push(Statement {
            sid: "RuleMetrics".to_owned(),
            because: because.to_owned(),
            actions: vec!["cloudwatch:PutMetricData"],
            resources: vec!["*".to_owned()],
            conditions: vec![Condition::single("StringEquals", "cloudwatch:namespace", PROCESSING_JOBS)],
        });
        let images: BTreeSet<String> = self
            .plan
            .job
            .request
            .iter()
            .flat_map(|raw| member_texts("RuleEvaluatorImage", &raw.name, &raw.value))
            .filter_map(|uri| repository_arn(names::partition(self.plan), &uri))
            .collect();
        if !images.is_empty() {
            out.push(Statement {
                sid: "RuleImages".to_owned(),
                because: because.to_owned(),
                actions: vec![
                    "ecr:BatchCheckLayerAvailability",
                    "ecr:BatchGetImage",
                    "ecr:GetDownloadUrlForLayer",
                ],
                resources: images.into_iter().collect(),
                conditions: Vec::new(),
            });
        }
    }
}
