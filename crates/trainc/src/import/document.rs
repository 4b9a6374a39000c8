//! Finds training jobs in a document: a request or response itself, or nested in a state machine, a pipeline's step, an
//! event, a search result, a tuning job or a Kubernetes resource; otherwise says what the document is.

use serde_json::{Map, Value};
use trainc_catalog::shapes::{self, Shape};
use trainc_ir::job::SERVERLESS;

/// Maximum depth of a document that is searched.
const MOST_NESTED: usize = 32;

/// A training job in a document.
#[derive(Debug)]
pub(super) struct FoundJob {
    /// The request or the response, with the names of the API.
    pub(super) members: Map<String, Value>,
    /// Members that are only known at run time, with their expressions.
    pub(super) computed: Vec<String>,
    /// The job is the definition of a tuning job.
    pub(super) is_tuned: bool,
}

/// Returns the training jobs of a document, in its order.
pub(super) fn jobs(document: &Value) -> Vec<FoundJob> {
    let mut out = Vec::new();
    collect(document, 0, &mut out);
    out
}

fn collect(value: &Value, depth: usize, out: &mut Vec<FoundJob>) {
    if depth > MOST_NESTED {
        return;
    }
    match value {
        Value::Object(members) => {
            if let Some(found) = as_job(members) {
                out.push(found);
                return;
            }
            members.values().for_each(|inner| collect(inner, depth + 1, out));
        }
        Value::Array(items) => items.iter().for_each(|inner| collect(inner, depth + 1, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the job that an object describes; names may begin with a lowercase letter, as in Kubernetes.
fn as_job(members: &Map<String, Value>) -> Option<FoundJob> {
    let is_named =
        |name: &str| members.iter().any(|(key, value)| key.eq_ignore_ascii_case(name) && value.is_object());
    if !is_named("AlgorithmSpecification") && !is_named(SERVERLESS) {
        return None;
    }
    let shape = &shapes::operation("CreateTrainingJob")?.input;
    let mut computed = Vec::new();
    let mut value = with_api_names(&Value::Object(members.clone()), shape, &mut computed);
    let members = value.as_object_mut()?;
    let mut is_tuned = false;
    for (name, standard) in OF_TUNING {
        let key = members.keys().find(|key| key.eq_ignore_ascii_case(name)).cloned();
        if let Some(value) = key.and_then(|key| members.remove(&key)) {
            members.insert((*standard).to_owned(), value);
            is_tuned = true;
        }
    }
    Some(FoundJob { members: std::mem::take(members), computed, is_tuned })
}

/// Members of the definition of a tuning job with names of their own: the parameters that are not tuned, and the instances.
const OF_TUNING: &[(&str, &str)] =
    &[("StaticHyperParameters", "HyperParameters"), ("HyperParameterTuningResourceConfig", "ResourceConfig")];

/// Returns a value with the member names of the API. Step Functions marks an expression with a `.$` after the name.
fn with_api_names(value: &Value, shape: &Shape, computed: &mut Vec<String>) -> Value {
    match value {
        Value::Object(members) if !shape.members.is_empty() => {
            let rename = |(key, inner): (&String, &Value)| {
                let bare = key.strip_suffix(".$").unwrap_or(key);
                if bare != key {
                    computed.push(format!(
                        "`{bare}`: `{}`, which is only known when the state machine runs",
                        inner.as_str().unwrap_or_default()
                    ));
                }
                let known = shape.members.iter().find(|(name, _)| name.eq_ignore_ascii_case(bare));
                match known {
                    Some((name, shape)) => (name.clone(), with_api_names(inner, shape, computed)),
                    None => (bare.to_owned(), inner.clone()),
                }
            };
            Value::Object(members.iter().map(rename).collect())
        }
        Value::Array(items) => match shape.item.as_deref() {
            Some(item) => {
                Value::Array(items.iter().map(|inner| with_api_names(inner, item, computed)).collect())
            }
            None => value.clone(),
        },
        other => other.clone(),
    }
}

/// What a document without a training job is: a member that only it has, a description, and what to do.
const OTHERS: &[(&str, &str, &str)] = &[
    (
        "TrainingJobSummaries",
        "a list of training jobs, which contains no requests",
        "pass the name of one job: `trainc import NAME --region us-west-2`",
    ),
    ("ProcessingResources", "a processing job", "trainc only describes training jobs"),
    ("TransformInput", "a batch transform job", "trainc only describes training jobs"),
    ("PrimaryContainer", "a model to deploy", "trainc only describes training jobs"),
    ("ProductionVariants", "an endpoint's configuration", "trainc only describes training jobs"),
    (
        "cells",
        "a notebook",
        "export it, and import the script: `jupyter nbconvert --to script NOTEBOOK.ipynb`, then `trainc import NOTEBOOK.py`",
    ),
    (
        "pytorchReplicaSpecs",
        "a PyTorchJob of Kubeflow",
        "trainc starts SageMaker training jobs; write its image, its command and its replicas as a manifest",
    ),
    ("exp_manager", "a training recipe", "write what it sets as `model`, `cluster`, `parallel` and `train`"),
    (
        "SchemaVersion",
        "the defaults of the SageMaker Python SDK, or a document of another service",
        "pass the request of a job, which has the defaults",
    ),
    (
        "HyperParameterTuningJobConfig",
        "a tuning job without the definition of its training jobs",
        "save `aws sagemaker describe-hyper-parameter-tuning-job`, or pass the name of one of its training jobs",
    ),
    (
        "TrainingJobArn",
        "the answer of CreateTrainingJob, which contains only the job's ARN",
        "pass the job's name: `trainc import NAME --region us-west-2`, or save `aws sagemaker describe-training-job`",
    ),
];

/// What a text that is neither JSON nor YAML is: a beginning of one of its lines, a description, and what to do.
const OTHER_TEXTS: &[(&str, &str, &str)] = &[
    (
        "resource \"",
        "a Terraform configuration",
        "pass the name of a job that ran: `trainc import NAME --region us-west-2`",
    ),
    (
        "terraform {",
        "a Terraform configuration",
        "pass the name of a job that ran: `trainc import NAME --region us-west-2`",
    ),
    (
        "<?xml",
        "an XML document",
        "save the request as JSON: `aws sagemaker describe-training-job --output json`",
    ),
    (
        "<html",
        "an HTML page",
        "save the request as JSON: `aws sagemaker describe-training-job --output json`",
    ),
    (
        "import boto3",
        "a Python script",
        "give it a name that ends in `.py`: trainc runs it and records the request",
    ),
    (
        "import sagemaker",
        "a Python script",
        "give it a name that ends in `.py`: trainc runs it and records the request",
    ),
    (
        "from sagemaker",
        "a Python script",
        "give it a name that ends in `.py`: trainc runs it and records the request",
    ),
    ("#!/bin/", "a shell script", "pass the request that it sends: the file of `--cli-input-json`"),
    (
        "#!/usr/bin/env bash",
        "a shell script",
        "pass the request that it sends: the file of `--cli-input-json`",
    ),
    ("aws sagemaker", "a shell script", "pass the request that it sends: the file of `--cli-input-json`"),
    ("import * as", "a TypeScript program", "pass the template that it synthesizes: `cdk synth`"),
    ("FROM ", "a Dockerfile", "pass the request of a job that runs its image"),
    ("job \"", "a manifest of trainc", "it needs no import: `trainc check FILE`"),
];

/// Describes a text that is neither JSON nor YAML, and what to do instead.
pub(super) fn describe_text(text: &str) -> Option<(&'static str, &'static str)> {
    let lines = || text.lines().map(str::trim_start);
    let found = OTHER_TEXTS.iter().find(|(start, ..)| lines().any(|line| line.starts_with(start)));
    found.map(|(_, what, help)| (*what, *help))
}

/// Describes a document without a training job, and what to do instead.
pub(super) fn describe(document: &Value) -> Option<(&'static str, &'static str)> {
    OTHERS.iter().find(|(name, ..)| has_member(document, name, 0)).map(|(_, what, help)| (*what, *help))
}

fn has_member(value: &Value, name: &str, depth: usize) -> bool {
    match value {
        _ if depth > MOST_NESTED => false,
        Value::Object(members) => {
            members.keys().any(|key| key.eq_ignore_ascii_case(name))
                || members.values().any(|inner| has_member(inner, name, depth + 1))
        }
        Value::Array(items) => items.iter().any(|inner| has_member(inner, name, depth + 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
