//! `sagemaker/estimator.py`: the same job as a script for the SageMaker Python SDK v2.
//!
//! Generated from the finished request, so that both agree: each member becomes the argument that makes the
//! SDK send it, and the script lists members that the SDK does not support. Names and defaults are those of
//! sagemaker 2.257.7, each tested; `tests/python` runs every script with it.

mod class;
mod distribution;
pub(crate) mod expression;
mod inputs;
mod members;
mod monitoring;

use super::fill::Fill;
use super::unmapped::UnmappedMembers;
use super::{Identity, archive, names, shell};
use class::{EstimatorClass, Modules};
use expression::Expression;
use minijinja::context;
use minijinja::value::{Serde, Value as Jinja};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use trainc_ir::{AddedFile, Plan, Scalar};

/// Objects whose members become arguments one by one.
const NESTED: &[&str] =
    &["AlgorithmSpecification", "OutputDataConfig", "ResourceConfig", "StoppingCondition", "VpcConfig"];

/// Returns the script of a request; `None` if the SDK does not support the job.
pub(super) fn script(plan: &Plan, identity: &Identity, request: &Value) -> Option<String> {
    // Estimators require an instance type, which serverless jobs and jobs with instance preferences lack.
    let preferred = request.pointer("/ResourceConfig/InstancePreferences").is_some();
    // Estimators require an image, which `AlgorithmName` replaces.
    let algorithm = request.pointer("/AlgorithmSpecification/AlgorithmName").is_some();
    if preferred || algorithm || request.get("ServerlessJobConfig").is_some() {
        return None;
    }
    let mut script = Script {
        plan,
        digest: &identity.digest,
        class: EstimatorClass::for_plan(plan),
        unmapped: UnmappedMembers::new(request),
        modules: Modules::default(),
        constants: Vec::new(),
        variables: Vec::new(),
        arguments: Vec::new(),
        unsupported: Vec::new(),
        upload: None,
        has_placeholders: has_placeholders("", request),
    };
    script.add_constant("JOB", request.get("TrainingJobName"));
    script.constants.push(("REGION".to_owned(), Expression::text(names::region(plan))));
    script.add_constant("ROLE", request.get("RoleArn"));
    for said in ["TrainingJobName", "RoleArn"] {
        script.unmapped.take(said);
    }
    let fit = script.add_all_arguments(request);
    script.unsupported.extend(script.unmapped.remaining_paths(NESTED));
    script.unsupported.sort();
    script.render(identity, &fit)
}

struct Script<'a> {
    plan: &'a Plan,
    digest: &'a str,
    class: EstimatorClass,
    unmapped: UnmappedMembers,
    modules: Modules,
    constants: Vec<(String, Expression)>,
    /// Comment (may be empty), name, value.
    variables: Vec<(String, String, Expression)>,
    arguments: Vec<(String, Expression)>,
    unsupported: Vec<String>,
    /// The call that uploads the source, where the estimator does not.
    upload: Option<Expression>,
    /// Whether the request contains unresolved placeholders.
    has_placeholders: bool,
}

pub(crate) fn has_placeholders(path: &str, value: &Value) -> bool {
    match value {
        Value::String(text) => names::is_unresolved(path, text),
        Value::Array(items) => items.iter().any(|item| has_placeholders(path, item)),
        Value::Object(members) => members.iter().any(|(name, item)| has_placeholders(name, item)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn plain(text: &str) -> Expression {
    Expression::Plain(text.to_owned())
}

impl Script<'_> {
    fn add_constant(&mut self, name: &str, value: Option<&Value>) {
        self.constants.push((name.to_owned(), value.map_or_else(|| plain("None"), Expression::json)));
    }

    fn add_argument(&mut self, name: &str, value: Expression) {
        self.arguments.push((name.to_owned(), value));
    }

    fn add_optional_argument(&mut self, name: &str, value: Option<Value>) {
        if let Some(value) = value {
            self.add_argument(name, Expression::json(&value));
        }
    }

    fn add_variable(&mut self, comment: &str, name: &str, value: Expression) {
        self.variables.push((comment.to_owned(), name.to_owned(), value));
    }

    /// Adds all arguments of the estimator; returns the call of `fit`.
    fn add_all_arguments(&mut self, request: &Value) -> Expression {
        let sent = match self.unmapped.take("HyperParameters") {
            Some(Value::Object(sent)) => sent,
            _ => Map::new(),
        };
        self.add_program();
        self.add_image();
        self.add_argument("role", plain("ROLE"));
        self.add_resources();
        self.add_hyperparameters(&sent);
        let environment = self.unmapped.take("Environment");
        self.add_optional_argument("environment", environment);
        self.add_metrics();
        let output = request
            .pointer("/OutputDataConfig/S3OutputPath")
            .and_then(Value::as_str)
            .unwrap_or("")
            .to_owned();
        self.add_output_and_network();
        self.add_limits();
        self.add_switches();
        let support = monitoring::Support::new(names::region(self.plan), request);
        if let Some(parameters) = monitoring::profiling_parameters(request, support) {
            self.modules.add("sagemaker.debugger", "FrameworkProfile");
            self.add_variable("", "profile", plain("FrameworkProfile()"));
            self.add_variable("", "profile.profiling_parameters", parameters);
        }
        let watched = monitoring::monitoring_arguments(
            &mut self.unmapped,
            &output,
            (self.class, support),
            &mut self.modules,
            &mut self.unsupported,
        );
        self.arguments.extend(watched);
        self.add_checkpoint();
        if let Some(Value::Array(tags)) = self.unmapped.take("Tags") {
            let part =
                |tag: &Value, name: &str| tag.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
            let tags =
                tags.iter().map(|tag| (part(tag, "Key"), Expression::text(&part(tag, "Value")))).collect();
            self.add_argument("tags", Expression::Dict(tags));
        }
        self.add_argument("sagemaker_session", plain("session"));
        self.fit()
    }

    /// Adds the arguments for the code.
    fn add_program(&mut self) {
        let plan = self.plan;
        if plan.payload.is_launched_by_script() {
            self.add_upload();
        }
        let Some((program, started)) = plan.job.program.as_ref().zip(plan.payload.toolkit_program()) else {
            return;
        };
        // The SDK clones the repository, without the start script that fetches secrets.
        let cloned = program.git.value().is_some() && !program.secrets.is_empty();
        let entry = if cloned {
            let names: Vec<&str> = program.secrets.iter().map(|secret| secret.name.as_str()).collect();
            self.unsupported.push(format!(
                "secrets {}: the script that fetches them is not in the repository that the SDK clones",
                trainc_diag::text::list(&names, "and")
            ));
            program.entry.value().cloned().unwrap_or_default()
        } else {
            started.to_owned()
        };
        self.add_argument("entry_point", Expression::text(&entry));
        if let Some(git) = program.git.value() {
            let mut config = vec![("repo".to_owned(), Expression::text(git))];
            for (key, field) in [("branch", &program.branch), ("commit", &program.commit)] {
                if let Some(value) = field.value() {
                    config.push((key.to_owned(), Expression::text(value)));
                }
            }
            self.add_argument("git_config", Expression::Dict(config));
            self.add_argument(
                "source_dir",
                Expression::text(program.dir.value().map_or(".", String::as_str)),
            );
            // Files of the engine and the program are in directories of their own.
            let directory = |file: &'_ AddedFile| match file {
                AddedFile::Settings { path, .. } => Some(path.split_once('/')?.0.to_owned()),
                _ => None,
            };
            let settings: BTreeSet<String> = plan.payload.added.iter().filter_map(directory).collect();
            let dependencies: Vec<Expression> = plan
                .dependencies
                .iter()
                .filter_map(|tree| archive::basename(&tree.dir))
                .chain(settings.iter().map(String::as_str))
                .map(|name| plain(&format!("str(SOURCE / {})", super::python::text_literal(name))))
                .collect();
            if !dependencies.is_empty() {
                self.add_source_constant();
                self.add_argument("dependencies", Expression::List(dependencies));
            }
        } else if let Some(s3) = program.s3.text() {
            self.add_argument("source_dir", Expression::text(s3));
            return;
        } else {
            self.add_source_constant();
            self.add_argument("source_dir", plain("str(SOURCE)"));
        }
        // The job's role may only read below this prefix.
        self.add_argument(
            "code_location",
            Expression::text(&archive::prefix(plan, Fill::Digest(self.digest))),
        );
    }

    /// Adds the upload of the source with the launch script, which estimators do only for the toolkit.
    fn add_upload(&mut self) {
        if self.plan.job.program.as_ref().is_some_and(|program| program.git.value().is_some()) {
            self.unsupported.push(
                "the source from git: `trainc apply` clones it and uploads it with the launch script"
                    .to_owned(),
            );
            return;
        }
        self.add_source_constant();
        self.modules.add("sagemaker.fw_utils", "tar_and_upload_dir");
        let prefix = archive::prefix(self.plan, Fill::Digest(self.digest));
        let (bucket, key) =
            prefix.strip_prefix("s3://").and_then(|rest| rest.split_once('/')).unwrap_or((&prefix, ""));
        let positional = |value: Expression| (String::new(), value);
        self.upload = Some(Expression::Call(
            "tar_and_upload_dir".to_owned(),
            vec![
                positional(plain("session.boto_session")),
                positional(Expression::text(bucket)),
                positional(Expression::text(key)),
                ("script".to_owned(), plain("None")),
                ("directory".to_owned(), plain("str(SOURCE)")),
            ],
        ));
    }

    /// Adds the constant for the source directory.
    fn add_source_constant(&mut self) {
        self.constants
            .push(("SOURCE".to_owned(), plain("Path(__file__).resolve().parent.parent / \"source\"")));
    }

    /// Adds the hyperparameters as Python values, and the launcher as `distribution=` or as hyperparameters.
    fn add_hyperparameters(&mut self, sent: &Map<String, Value>) {
        // Set by the SDK from other arguments.
        const SET_BY_SDK: &[&str] = &[
            "sagemaker_program",
            "sagemaker_submit_directory",
            "sagemaker_container_log_level",
            "sagemaker_job_name",
            "sagemaker_region",
        ];
        let program = self.plan.job.program.as_ref();
        let script = self.plan.payload.toolkit_program().is_some();
        let distribution = distribution::distribution(self.plan, self.class, sent);
        let written = program.map(|program| program.hyperparameters.as_slice()).unwrap_or_default();
        let order = written.iter().map(|hyperparameter| hyperparameter.name.as_str());
        let others = sent
            .keys()
            .map(String::as_str)
            .filter(|key| !written.iter().any(|hyperparameter| hyperparameter.name == *key));
        let mut out = Vec::new();
        for key in order.chain(others) {
            let Some(text) = sent.get(key).and_then(Value::as_str) else { continue };
            let of_launcher = distribution::is_launcher_hyperparameter(key) && distribution.is_some();
            if script && (SET_BY_SDK.contains(&key) || of_launcher) {
                continue;
            }
            // Class Estimator without a script sends strings unchanged; others are encoded by `json.dumps`.
            let code = match serde_json::from_str::<Value>(text) {
                Ok(value) if script => Expression::json(&value),
                _ => Expression::text(text),
            };
            out.push((key.to_owned(), code));
        }
        let level =
            sent.get("sagemaker_container_log_level").and_then(Value::as_str).filter(|level| *level != "20");
        if let (Some(level), true) = (level, script) {
            self.add_argument("container_log_level", plain(level));
        }
        if let Some(distribution) = distribution {
            self.add_argument("distribution", distribution);
        }
        if out.is_empty() {
            return;
        }
        let quoted = written.iter().any(|hyperparameter| match hyperparameter.value.value() {
            Some(Scalar::Text(text)) => shell::quote(text) != *text,
            _ => false,
        });
        let comment = if quoted && script {
            "Inner quotes: the container joins the arguments with spaces and runs them through a shell."
        } else {
            ""
        };
        self.add_variable(comment, "hyperparameters", Expression::Dict(out));
        self.add_argument("hyperparameters", plain("hyperparameters"));
    }

    fn fit(&mut self) -> Expression {
        let mut arguments = Vec::new();
        // The SDK appends the channel `code` of an isolated script.
        let payload = &self.plan.payload;
        let appended = payload.toolkit_program().and(payload.code_channel());
        if let Some(Value::Array(mut channels)) = self.unmapped.take("InputDataConfig") {
            channels.retain(|channel| {
                appended.is_none_or(|own| channel.get("ChannelName").and_then(Value::as_str) != Some(own))
            });
            if !channels.is_empty() {
                let inputs = inputs::inputs(&channels, &mut self.modules, &mut self.unsupported);
                let comment = payload.worker_channel().map(|channel| {
                    format!(
                        "Channel `{channel}` contains the program and its config: `trainc apply` \
                            uploads them."
                    )
                });
                let comment = comment.unwrap_or_default();
                self.add_variable(&comment, "inputs", inputs);
                arguments.push((String::new(), plain("inputs")));
            }
        }
        arguments.push(("job_name".to_owned(), plain("JOB")));
        if let Some(experiment) = self.unmapped.take("ExperimentConfig") {
            arguments.push(("experiment_config".to_owned(), Expression::json(&experiment)));
        }
        Expression::Call("estimator.fit".to_owned(), arguments)
    }

    fn render(&mut self, identity: &Identity, fit: &Expression) -> Option<String> {
        self.modules.add(self.class.module(), self.class.name());
        let estimator = Expression::Call(self.class.name().to_owned(), std::mem::take(&mut self.arguments));
        let lay_out = |name: &str, code: &Expression| code.format_wrapped(0, name.len() + 3);
        let constants: Vec<(String, String)> =
            self.constants.iter().map(|(name, code)| (name.clone(), lay_out(name, code))).collect();
        let variables: Vec<(String, String, String)> = self
            .variables
            .iter()
            .map(|(comment, name, code)| (comment.clone(), name.clone(), lay_out(name, code)))
            .collect();
        let bucket = names::default_bucket(self.plan);
        let pending = self.has_placeholders
            || (self.plan.account().is_none()
                && all_text(&constants, &variables, &estimator).contains(&bucket));
        let letters =
            |text: &str| text.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect::<String>();
        super::template::render(
            include_str!("../../templates/sagemaker/estimator.py.j2"),
            context! {
                job => letters(&identity.training_job),
                digest => identity.digest.as_str(),
                version => env!("CARGO_PKG_VERSION"),
                pending => pending,
                uses_source => self.constants.iter().any(|(name, _)| name == "SOURCE"),
                imports => self.modules.import_lines(),
                constants => Jinja::from(Serde(&constants)),
                unsupported => Jinja::from(Serde(&self.unsupported)),
                variables => Jinja::from(Serde(&variables)),
                estimator => estimator.format_wrapped(0, 12),
                upload => self.upload.as_ref().map(|call| call.format_wrapped(4, 4)),
                fit => fit.format_wrapped(4, 4),
            },
        )
    }
}

/// Returns all text of the script, to search for placeholders.
fn all_text(
    constants: &[(String, String)],
    variables: &[(String, String, String)],
    estimator: &Expression,
) -> String {
    let mut out: String = constants.iter().map(|(_, value)| value.as_str()).collect();
    out.extend(variables.iter().map(|(_, _, value)| value.as_str()));
    out.push_str(&estimator.format_wrapped(0, 0));
    out
}
