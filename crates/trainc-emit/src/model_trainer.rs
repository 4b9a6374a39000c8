//! `sagemaker/model_trainer.py`: the same job as a script for the SageMaker Python SDK v3.
//!
//! Generated from the finished request. `ModelTrainer` sends hyperparameters that are text unchanged, so
//! those of the training toolkit are written as they are, and the script uploads the source where the request
//! expects it. A job that has an entry point of its own, or neither image nor algorithm, uses
//! `TrainingJob.create`, which sends every member: `ModelTrainer` sets the entry point itself, from
//! `source_code=`. Names and defaults are those of sagemaker-train 1.27.0 and sagemaker-core 2.27.0;
//! `tests/python` runs every script with them.

use super::estimator::expression::Expression;
use super::estimator::has_placeholders;
use super::fill::Fill;
use super::unmapped::UnmappedMembers;
use super::{Identity, names};
use minijinja::context;
use minijinja::value::{Serde, Value as Jinja};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use trainc_ir::Plan;

/// Arguments of `ModelTrainer`: argument, class, and the members of the request that are its members.
const ARGUMENTS: &[(&str, &str, &[&str])] = &[
    ("compute", "Compute", &["ResourceConfig.*", "EnableManagedSpotTraining"]),
    (
        "networking",
        "Networking",
        &["VpcConfig.*", "EnableNetworkIsolation", "EnableInterContainerTrafficEncryption"],
    ),
    ("stopping_condition", "StoppingCondition", &["StoppingCondition.*"]),
    ("output_data_config", "OutputDataConfig", &["OutputDataConfig.*"]),
    ("checkpoint_config", "CheckpointConfig", &["CheckpointConfig.*"]),
];

/// Members that `ModelTrainer` sends although they are not set: object, member, value (`defaults.py`,
/// sagemaker-train 1.27.0).
const ADDED: &[(&str, &str, &str)] = &[("OutputDataConfig", "CompressionType", "GZIP")];

/// Methods of `ModelTrainer`: method, class, member of the request.
const METHODS: &[(&str, &str, &str)] = &[
    ("with_tensorboard_output_config", "TensorBoardOutputConfig", "TensorBoardOutputConfig"),
    ("with_retry_strategy", "RetryStrategy", "RetryStrategy"),
    ("with_infra_check_config", "InfraCheckConfig", "InfraCheckConfig"),
    ("with_session_chaining_config", "SessionChainingConfig", "SessionChainingConfig"),
    ("with_remote_debug_config", "RemoteDebugConfig", "RemoteDebugConfig"),
];

/// Classes of `sagemaker.core.training.configs`; the others are of `sagemaker.core.shapes`.
const CONFIGS: &[&str] = &[
    "Channel",
    "Compute",
    "MetricDefinition",
    "Networking",
    "OutputDataConfig",
    "RemoteDebugConfig",
    "RetryStrategy",
    "StoppingCondition",
    "Tag",
    "TensorBoardOutputConfig",
    "TrainingImageConfig",
];

/// Objects whose members become arguments one by one.
const NESTED: &[&str] =
    &["AlgorithmSpecification", "OutputDataConfig", "ResourceConfig", "StoppingCondition", "VpcConfig"];

/// Maps whose names are the user's.
const MAPS: &[&str] = &[
    "CollectionParameters",
    "Environment",
    "HookParameters",
    "HyperParameters",
    "ProfilingParameters",
    "RuleParameters",
];

/// Returns the script of a request.
pub(super) fn script(plan: &Plan, identity: &Identity, request: &Value) -> Option<String> {
    let members = request.as_object()?;
    let archive = archive(plan, &identity.digest);
    let is_pending =
        has_placeholders("", request) || archive.as_ref().is_some_and(|(bucket, _)| bucket.contains("${"));
    let constants = [
        ("JOB".to_owned(), Expression::text(&identity.training_job)),
        ("REGION".to_owned(), Expression::text(names::region(plan))),
        ("ROLE".to_owned(), members.get("RoleArn").map_or_else(|| plain("None"), Expression::json)),
    ];
    let mut script = Script { classes: BTreeSet::new(), unmapped: UnmappedMembers(members.clone()) };
    script.unmapped.take("RoleArn");
    script.unmapped.take("TrainingJobName");
    let is_trainer = is_trainer(request);
    let (call, methods) = if is_trainer { script.trainer() } else { (script.training_job(), Vec::new()) };
    let mut unsupported = script.unmapped.remaining_paths(NESTED);
    let mut dropped = falsy_members(request);
    dropped.retain(|path| !unsupported.iter().any(|member| path.starts_with(&format!("{member}."))));
    unsupported.extend(dropped);
    unsupported.sort();
    let is_added = |(outer, name, _): &&(&str, &str, &str)| {
        is_trainer && request.get(*outer).is_some_and(|outer| outer.get(*name).is_none())
    };
    let added = ADDED.iter().filter(is_added).map(|(outer, name, value)| (format!("{outer}.{name}"), *value));
    let column = if is_trainer { "trainer = ".len() } else { 4 + "job = ".len() };
    let indent = if is_trainer { 0 } else { 4 };
    let is_config = |class: &&&str| CONFIGS.contains(*class);
    let configs: Vec<&str> = script.classes.iter().filter(is_config).copied().collect();
    let shapes: Vec<&str> = script.classes.iter().filter(|class| !is_config(class)).copied().collect();
    let methods: Vec<String> = methods.iter().map(|call| call.format_wrapped(0, "trainer.".len())).collect();
    let letters =
        |text: &str| text.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect::<String>();
    super::template::render(
        include_str!("../templates/sagemaker/model_trainer.py.j2"),
        context! {
            job => letters(&identity.training_job),
            digest => identity.digest.as_str(),
            version => env!("CARGO_PKG_VERSION"),
            pending => is_pending,
            trainer => is_trainer,
            configs => import_line("sagemaker.core.training.configs", &configs),
            shapes => import_line("sagemaker.core.shapes", &shapes),
            constants => Jinja::from(Serde(
                &constants
                    .iter()
                    .map(|(name, value)| (name.clone(), value.format_wrapped(0, name.len() + 3)))
                    .collect::<Vec<_>>(),
            )),
            unsupported => Jinja::from(Serde(&unsupported)),
            added => Jinja::from(Serde(&added.collect::<Vec<_>>())),
            archive => archive.as_ref().map(|(bucket, key)| [super::python::text_literal(bucket), super::python::text_literal(key)]),
            worker => plan.payload.worker_channel(),
            git => plan.job.program.as_ref().is_some_and(|program| program.git.value().is_some()),
            call => call.format_wrapped(indent, column),
            methods => methods,
        },
    )
}

/// Returns the paths of members that the SDK drops because Python takes their values for false
/// (`_serialize_shape`, sagemaker-core 2.27.0). It sends those at the top level.
fn falsy_members(request: &Value) -> Vec<String> {
    fn walk(path: &str, value: &Value, out: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                for (name, inner) in members.iter().filter(|(name, _)| !MAPS.contains(&name.as_str())) {
                    walk(&format!("{path}.{name}"), inner, out);
                }
            }
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(at, item)| walk(&format!("{path}.{at}"), item, out));
            }
            Value::Bool(false) => out.push(path.to_owned()),
            Value::Number(number) if number.as_f64() == Some(0.0) => out.push(path.to_owned()),
            Value::String(text) if text.is_empty() => out.push(path.to_owned()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut out = Vec::new();
    for (name, value) in request.as_object().into_iter().flatten() {
        if !MAPS.contains(&name.as_str()) && (value.is_object() || value.is_array()) {
            walk(name, value, &mut out);
        }
    }
    out
}

/// Returns the import of classes, one in a line if they are many; empty for none.
fn import_line(module: &str, classes: &[&str]) -> String {
    match classes.len() {
        0 => String::new(),
        1..=3 => format!("from {module} import {}", classes.join(", ")),
        _ => format!("from {module} import (\n    {},\n)", classes.join(",\n    ")),
    }
}

/// Returns whether `ModelTrainer` can create the job.
fn is_trainer(request: &Value) -> bool {
    let algorithm = request.get("AlgorithmSpecification");
    let has = |name: &str| algorithm.is_some_and(|algorithm| algorithm.get(name).is_some());
    has("TrainingImage") && !has("ContainerEntrypoint") && !has("ContainerArguments")
}

/// Returns bucket and key of the archive that the script uploads.
fn archive(plan: &Plan, digest: &str) -> Option<(String, String)> {
    let program = plan.job.program.as_ref()?;
    if !plan.payload.is_packed() || program.git.value().is_some() || super::archive::files(plan).is_empty() {
        return None;
    }
    let uri = super::archive::packed_uri(plan, Fill::Digest(digest));
    let (bucket, key) = uri.strip_prefix("s3://")?.split_once('/')?;
    Some((bucket.to_owned(), key.to_owned()))
}

struct Script {
    classes: BTreeSet<&'static str>,
    unmapped: UnmappedMembers,
}

fn plain(text: &str) -> Expression {
    Expression::Plain(text.to_owned())
}

impl Script {
    /// Returns the constructor of `ModelTrainer`, and the methods that are called on it.
    fn trainer(&mut self) -> (Expression, Vec<Expression>) {
        let mut arguments = vec![
            ("sagemaker_session".to_owned(), plain("Session(boto3.Session(region_name=REGION))")),
            ("base_job_name".to_owned(), plain("JOB")),
            ("role".to_owned(), plain("ROLE")),
        ];
        let mut add = |name: &str, value: Option<Expression>| {
            arguments.extend(value.map(|value| (name.to_owned(), value)));
        };
        let json = |value: Option<Value>| value.as_ref().map(Expression::json);
        add("training_image", json(self.unmapped.take_in("AlgorithmSpecification", "TrainingImage")));
        let image = self.unmapped.take_in("AlgorithmSpecification", "TrainingImageConfig");
        add("training_image_config", image.map(|image| self.object("TrainingImageConfig", &image)));
        let mode = self.unmapped.take_in("AlgorithmSpecification", "TrainingInputMode");
        // The default of `ModelTrainer`.
        add("training_input_mode", json(mode.filter(|mode| mode.as_str() != Some("File"))));
        for (argument, class, members) in ARGUMENTS {
            let members = self.take(members);
            add(argument, (!members.is_empty()).then(|| self.object(class, &Value::Object(members))));
        }
        add("environment", json(self.unmapped.take("Environment")));
        add("hyperparameters", json(self.unmapped.take("HyperParameters")));
        let channels = self.unmapped.take("InputDataConfig");
        add("input_data_config", channels.map(|channels| self.objects("Channel", &channels)));
        let tags = self.unmapped.take("Tags");
        add("tags", tags.map(|tags| self.objects("Tag", &tags)));
        let package = self.unmapped.take("ModelPackageConfig");
        add("model_package_config", package.map(|package| self.object("ModelPackageConfig", &package)));
        let mut methods = Vec::new();
        let mut call = |method: &str, value: Expression| {
            methods.push(Expression::Call(method.to_owned(), vec![(String::new(), value)]));
        };
        if let Some(metrics) = self.unmapped.take_in("AlgorithmSpecification", "MetricDefinitions") {
            call("with_metric_definitions", self.objects("MetricDefinition", &metrics));
        }
        for (method, class, member) in METHODS {
            if let Some(value) = self.unmapped.take(member) {
                call(method, self.object(class, &value));
            }
        }
        (Expression::Call("ModelTrainer".to_owned(), arguments), methods)
    }

    /// Returns the call of `TrainingJob.create`.
    fn training_job(&mut self) -> Expression {
        let mut arguments = vec![
            ("session".to_owned(), plain("boto3.Session(region_name=REGION)")),
            ("region".to_owned(), plain("REGION")),
            ("training_job_name".to_owned(), plain("JOB")),
            ("role_arn".to_owned(), plain("ROLE")),
        ];
        for (name, value) in std::mem::take(&mut self.unmapped.0) {
            arguments.push((snake_case(&name), expression(&name, &value)));
        }
        Expression::Call("TrainingJob.create".to_owned(), arguments)
    }

    /// Takes members: `Name`, or all of an object with `Name.*`.
    fn take(&mut self, paths: &[&str]) -> Map<String, Value> {
        let mut out = Map::new();
        for path in paths {
            match path.strip_suffix(".*") {
                Some(outer) => out.extend(self.unmapped.take_object(outer).unwrap_or_default().0),
                None => out.extend(self.unmapped.take(path).map(|value| ((*path).to_owned(), value))),
            }
        }
        out
    }

    fn object(&mut self, class: &'static str, value: &Value) -> Expression {
        self.classes.insert(class);
        let members = value.as_object().into_iter().flatten();
        let arguments = members.map(|(name, value)| (snake_case(name), expression(name, value)));
        Expression::Call(class.to_owned(), arguments.collect())
    }

    fn objects(&mut self, class: &'static str, value: &Value) -> Expression {
        let items = value.as_array().into_iter().flatten();
        Expression::List(items.map(|item| self.object(class, item)).collect())
    }
}

/// Returns a member's value with the SDK's names.
fn expression(name: &str, value: &Value) -> Expression {
    match value {
        Value::Object(members) if !MAPS.contains(&name) => Expression::Dict(
            members.iter().map(|(name, value)| (snake_case(name), expression(name, value))).collect(),
        ),
        Value::Array(items) => Expression::List(items.iter().map(|item| expression(name, item)).collect()),
        other => Expression::json(other),
    }
}

/// Converts a member's name like `pascal_to_snake` of sagemaker-core.
fn snake_case(name: &str) -> String {
    let mut out = String::new();
    let letters: Vec<char> = name.chars().collect();
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| letters.get(at));
        let after = letters.get(at + 1);
        let starts_word = after.is_some_and(char::is_ascii_lowercase)
            || before.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        if letter.is_ascii_uppercase() && before.is_some() && starts_word {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_that_the_sdk_drops_are_found() {
        let request = json!({
            "EnableNetworkIsolation": false,
            "Environment": {"DEBUG": ""},
            "InfraCheckConfig": {"EnableInfraCheck": false},
            "InputDataConfig": [{"ShuffleConfig": {"Seed": 0}}],
            "RetryStrategy": {"MaximumRetryAttempts": 1},
        });
        assert_eq!(
            falsy_members(&request),
            ["InfraCheckConfig.EnableInfraCheck", "InputDataConfig.0.ShuffleConfig.Seed"]
        );
    }

    #[test]
    fn names_are_those_of_the_sdk() {
        // Fields of sagemaker-core 2.27.0, `shapes.py`.
        for (name, expected) in [
            ("S3Uri", "s3_uri"),
            ("S3DataDistributionType", "s3_data_distribution_type"),
            ("VolumeSizeInGB", "volume_size_in_gb"),
            ("KmsKeyId", "kms_key_id"),
            ("EnableSageMakerMetricsTimeSeries", "enable_sage_maker_metrics_time_series"),
            ("MaxRuntimeInSeconds", "max_runtime_in_seconds"),
        ] {
            assert_eq!(snake_case(name), expected);
        }
    }
}
