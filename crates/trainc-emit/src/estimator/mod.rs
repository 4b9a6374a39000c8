//! `sagemaker/estimator.py`: the same job as a script for the SageMaker Python SDK v2.
//!
//! Written from the finished request, member by member, so that the two cannot drift apart: each member becomes
//! the argument that makes the SDK send it, and what is left over is named in the script as not sayable. Names and
//! defaults of the SDK are those of sagemaker 2.257.7, tried one by one; `tests/python` runs every script under it.

mod class;
mod code;
mod distribution;
mod inputs;
mod members;
mod watch;

use super::unmapped::UnmappedMembers;
use super::{Identity, archive, names, shell};
use class::{Class, Modules};
use code::Code;
use minijinja::context;
use minijinja::value::{Serde, Value as Jinja};
use serde_json::{Map, Value};
use trainc_ir::{Engine, Plan, Scalar};

/// Objects whose members become arguments one by one.
const NESTED: &[&str] =
    &["AlgorithmSpecification", "OutputDataConfig", "ResourceConfig", "StoppingCondition", "VpcConfig"];

/// The script of a request; `None` where the SDK has no word for the job at all.
pub(super) fn script(plan: &Plan, identity: &Identity, request: &Value) -> Option<String> {
    // A serverless job has no instances, a job with preferred types no one type: no estimator can do without.
    let preferred = request.pointer("/ResourceConfig/InstancePreferences").is_some();
    // An algorithm by its name has no image, which the SDK's estimators of scripts ask for.
    let algorithm = request.pointer("/AlgorithmSpecification/AlgorithmName").is_some();
    if preferred || algorithm || request.get("ServerlessJobConfig").is_some() {
        return None;
    }
    let mut script = Script {
        plan,
        class: Class::of(plan),
        unmapped: UnmappedMembers::new(request),
        modules: Modules::default(),
        constants: Vec::new(),
        variables: Vec::new(),
        arguments: Vec::new(),
        unsayable: Vec::new(),
        waits: waits("", request),
    };
    script.constant("JOB", request.get("TrainingJobName"));
    script.constants.push(("REGION".to_owned(), Code::text(names::region(plan))));
    script.constant("ROLE", request.get("RoleArn"));
    for said in ["TrainingJobName", "RoleArn"] {
        script.unmapped.take(said);
    }
    let fit = script.write(request);
    script.unsayable.extend(script.unmapped.paths(NESTED));
    script.unsayable.sort();
    script.render(identity, &fit)
}

struct Script<'a> {
    plan: &'a Plan,
    class: Class,
    unmapped: UnmappedMembers,
    modules: Modules,
    constants: Vec<(String, Code)>,
    /// Comment (or nothing), name, value.
    variables: Vec<(String, String, Code)>,
    arguments: Vec<(String, Code)>,
    unsayable: Vec<String>,
    /// Whether a member of the request waits for what only an account knows.
    waits: bool,
}

fn waits(path: &str, value: &Value) -> bool {
    match value {
        Value::String(text) => names::stands_open(path, text),
        Value::Array(items) => items.iter().any(|item| waits(path, item)),
        Value::Object(members) => members.iter().any(|(name, item)| waits(name, item)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn plain(text: &str) -> Code {
    Code::Plain(text.to_owned())
}

impl Script<'_> {
    fn constant(&mut self, name: &str, value: Option<&Value>) {
        self.constants.push((name.to_owned(), value.map_or_else(|| plain("None"), Code::json)));
    }

    fn say(&mut self, argument: &str, code: Code) {
        self.arguments.push((argument.to_owned(), code));
    }

    fn say_value(&mut self, argument: &str, value: Option<Value>) {
        if let Some(value) = value {
            self.say(argument, Code::json(&value));
        }
    }

    fn variable(&mut self, comment: &str, name: &str, value: Code) {
        self.variables.push((comment.to_owned(), name.to_owned(), value));
    }

    /// All arguments of the estimator; gives the call of `fit`.
    fn write(&mut self, request: &Value) -> Code {
        let sent = match self.unmapped.take("HyperParameters") {
            Some(Value::Object(sent)) => sent,
            _ => Map::new(),
        };
        self.program();
        self.image();
        self.say("role", plain("ROLE"));
        self.resources();
        self.hyperparameters(&sent);
        let environment = self.unmapped.take("Environment");
        self.say_value("environment", environment);
        self.metrics();
        let output = request
            .pointer("/OutputDataConfig/S3OutputPath")
            .and_then(Value::as_str)
            .unwrap_or("")
            .to_owned();
        self.places();
        self.limits();
        self.switches();
        if let Some(parameters) = watch::profiling_parameters(request) {
            self.modules.add("sagemaker.debugger", "FrameworkProfile");
            self.variable("", "profile", plain("FrameworkProfile()"));
            self.variable("", "profile.profiling_parameters", parameters);
        }
        let watched =
            watch::watch(&mut self.unmapped, &output, self.class, &mut self.modules, &mut self.unsayable);
        self.arguments.extend(watched);
        self.checkpoint();
        if let Some(Value::Array(tags)) = self.unmapped.take("Tags") {
            let part =
                |tag: &Value, name: &str| tag.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
            let tags = tags.iter().map(|tag| (part(tag, "Key"), Code::text(&part(tag, "Value")))).collect();
            self.say("tags", Code::Dict(tags));
        }
        self.say("sagemaker_session", plain("session"));
        self.fit()
    }

    /// Where the code comes from.
    fn program(&mut self) {
        let plan = self.plan;
        let Some(program) = plan.job.program.as_ref().filter(|_| names::is_script(plan)) else { return };
        // The SDK clones by itself: the start script that fetches secrets is not in the clone.
        let cloned = program.git.value().is_some() && !program.secrets.is_empty();
        let entry = if cloned {
            let names: Vec<&str> = program.secrets.iter().map(|secret| secret.name.as_str()).collect();
            self.unsayable.push(format!(
                "the secrets {}: their start script is not in the repository that the SDK clones",
                trainc_diag::text::list(&names, "and")
            ));
            program.entry.value().cloned().unwrap_or_default()
        } else {
            names::program(plan)
        };
        self.say("entry_point", Code::text(&entry));
        if let Some(git) = program.git.value() {
            let mut config = vec![("repo".to_owned(), Code::text(git))];
            for (key, field) in [("branch", &program.branch), ("commit", &program.commit)] {
                if let Some(value) = field.value() {
                    config.push((key.to_owned(), Code::text(value)));
                }
            }
            self.say("git_config", Code::Dict(config));
            self.say("source_dir", Code::text(program.dir.value().map_or(".", String::as_str)));
            let beside: Vec<Code> = plan
                .dependencies
                .iter()
                .filter_map(|tree| archive::basename(&tree.dir))
                .map(|name| plain(&format!("str(SOURCE / {})", super::python::text_literal(name))))
                .collect();
            if !beside.is_empty() {
                self.source();
                self.say("dependencies", Code::List(beside));
            }
        } else if let Some(s3) = program.s3.value() {
            self.say("source_dir", Code::text(s3));
            return;
        } else {
            self.source();
            self.say("source_dir", plain("str(SOURCE)"));
        }
        // Below the prefix that the job's role may read.
        self.say("code_location", Code::text(&names::source_prefix(plan)));
    }

    /// The directory beside the script's own.
    fn source(&mut self) {
        self.constants
            .push(("SOURCE".to_owned(), plain("Path(__file__).resolve().parent.parent / \"source\"")));
    }

    /// The script's arguments as Python values, then the launcher: by its own argument, or key by key.
    fn hyperparameters(&mut self, sent: &Map<String, Value>) {
        // Made by the SDK from the other arguments.
        const MADE: &[&str] = &[
            "sagemaker_program",
            "sagemaker_submit_directory",
            "sagemaker_container_log_level",
            "sagemaker_job_name",
            "sagemaker_region",
        ];
        let program = self.plan.job.program.as_ref();
        let script = names::is_script(self.plan);
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
            let of_launcher = distribution::is_launcher_key(key) && distribution.is_some();
            if script && (MADE.contains(&key) || of_launcher) {
                continue;
            }
            // Class Estimator without a script sends texts as they are; all else goes through `json.dumps`.
            let code = match serde_json::from_str::<Value>(text) {
                Ok(value) if script => Code::json(&value),
                _ => Code::text(text),
            };
            out.push((key.to_owned(), code));
        }
        let level =
            sent.get("sagemaker_container_log_level").and_then(Value::as_str).filter(|level| *level != "20");
        if let (Some(level), true) = (level, script) {
            self.say("container_log_level", plain(level));
        }
        if let Some(distribution) = distribution {
            self.say("distribution", distribution);
        }
        if out.is_empty() {
            return;
        }
        let quoted = written.iter().any(|hyperparameter| match hyperparameter.value.value() {
            Some(Scalar::Text(text)) => shell::quoted(text) != *text,
            _ => false,
        });
        let comment = if quoted && script {
            "Inner quotes: the container joins the arguments with blanks and runs them through a shell."
        } else {
            ""
        };
        self.variable(comment, "hyperparameters", Code::Dict(out));
        self.say("hyperparameters", plain("hyperparameters"));
    }

    fn fit(&mut self) -> Code {
        let mut arguments = Vec::new();
        let isolated = names::code_in_channel(self.plan);
        if let Some(Value::Array(mut channels)) = self.unmapped.take("InputDataConfig") {
            // The SDK appends the channel that carries the code.
            channels.retain(|channel| {
                !(isolated && channel.get("ChannelName").and_then(Value::as_str) == Some("code"))
            });
            if !channels.is_empty() {
                let inputs = inputs::inputs(&channels, &mut self.modules, &mut self.unsayable);
                let worker = self.plan.job.parallel.as_ref().and_then(|parallel| parallel.engine.get())
                    == Some(Engine::Worker);
                let channel = super::worker::channel_name(self.plan);
                let comment = if worker {
                    format!("Channel `{channel}` holds the program and its config: `trainc apply` fills it.")
                } else {
                    String::new()
                };
                self.variable(&comment, "inputs", inputs);
                arguments.push((String::new(), plain("inputs")));
            }
        }
        arguments.push(("job_name".to_owned(), plain("JOB")));
        if let Some(experiment) = self.unmapped.take("ExperimentConfig") {
            arguments.push(("experiment_config".to_owned(), Code::json(&experiment)));
        }
        Code::Call("estimator.fit".to_owned(), arguments)
    }

    fn render(&mut self, identity: &Identity, fit: &Code) -> Option<String> {
        self.modules.add(self.class.module(), self.class.name());
        let estimator = Code::Call(self.class.name().to_owned(), std::mem::take(&mut self.arguments));
        let lay_out = |name: &str, code: &Code| code.lay_out(0, name.len() + 3);
        let constants: Vec<(String, String)> =
            self.constants.iter().map(|(name, code)| (name.clone(), lay_out(name, code))).collect();
        let variables: Vec<(String, String, String)> = self
            .variables
            .iter()
            .map(|(comment, name, code)| (comment.clone(), name.clone(), lay_out(name, code)))
            .collect();
        let bucket = names::default_bucket(self.plan);
        let pending = self.waits
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
                imports => self.modules.lines(),
                constants => Jinja::from(Serde(&constants)),
                unsayable => Jinja::from(Serde(&self.unsayable)),
                variables => Jinja::from(Serde(&variables)),
                estimator => estimator.lay_out(0, 12),
                fit => fit.lay_out(4, 4),
            },
        )
    }
}

/// All that the script says, to look for what is not known yet.
fn all_text(
    constants: &[(String, String)],
    variables: &[(String, String, String)],
    estimator: &Code,
) -> String {
    let mut out: String = constants.iter().map(|(_, value)| value.as_str()).collect();
    out.extend(variables.iter().map(|(_, _, value)| value.as_str()));
    out.push_str(&estimator.lay_out(0, 0));
    out
}
