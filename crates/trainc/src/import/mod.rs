//! From a request, or from a described job, back to a manifest.
//!
//! In: JSON text, as `CreateTrainingJob` takes it or `DescribeTrainingJob` answers it. Out: a manifest that says the
//! same request by nodes as far as the language can, `request { … }` for what has no node, placeholders for what a request does not hold, and
//! a list of those. Pure: it reads no file and asks no account.

mod cluster;
mod data;
mod image;
mod kdl;
mod launch;
mod outcome;
mod program;
mod smp;
mod unsaid;
mod watch;

use kdl::{Node, bound, string};
pub use outcome::Outcome;
use serde_json::{Map, Value};
use trainc_catalog::shapes;
use trainc_diag::declare_code;
use trainc_diag::source::{SourceId, Span};
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_emit::UnmappedMembers;
use trainc_ir::job::SERVERLESS;
use trainc_ir::preferences::MACHINE_MEMBERS;
use unsaid::{Unsaid, header};

declare_code!(T0530, "import-not-json", Error, "a file to import that is not JSON");
declare_code!(
    T0531,
    "import-not-training-job",
    Error,
    "a JSON file to import that does not contain a training job"
);

/// The codes of this stage.
pub fn codes() -> Vec<&'static Code> {
    vec![&T0530, &T0531]
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The manifest.
    pub manifest: String,
    /// The job's name in it.
    pub job: String,
    /// The request, without what only an answer has.
    pub request: Value,
    /// What the manifest cannot say, or had to make up.
    pub unsaid: Vec<String>,
    /// Those of them by which the manifest's request is another one.
    pub lost: Vec<String>,
    /// What was imported, in words; the manifest's header begins with it.
    what: String,
    /// How the job ended, where the file is an answer.
    pub outcome: Option<Outcome>,
}

/// Makes a manifest of a request's text.
pub fn import(source: SourceId, text: &str, problems: &mut Problems) -> Option<Imported> {
    let value: Value = match serde_json::from_str(text.trim_start_matches('\u{feff}')) {
        Ok(value) => value,
        Err(error) => {
            let at = offset(text, error.line(), error.column());
            problems.push(
                Diagnostic::new(&T0530, Span::new(source, at, at), "this is no JSON")
                    .note(error.to_string())
                    .help(
                        "save a request, or what `aws sagemaker describe-training-job` prints, to the file",
                    ),
            );
            return None;
        }
    };
    let Some((request, answer)) = job_of(&value) else {
        problems.push(
            Diagnostic::new(&T0531, Span::whole(source), "there is no training job in this file")
                .note("neither `AlgorithmSpecification` nor `ServerlessJobConfig` stands at the top or under `request`")
                .help("give a CreateTrainingJob request or a DescribeTrainingJob answer"),
        );
        return None;
    };
    let outcome = answer.as_ref().and_then(Outcome::of);
    let described = answer
        .as_ref()
        .and_then(|answer| answer.get("TrainingJobArn"))
        .and_then(Value::as_str)
        .map(str::to_owned);
    let mut reader = Reader { rest: UnmappedMembers(request.clone()), unsaid: Unsaid::default(), described };
    let (job, body) = reader.job();
    let Unsaid { all: unsaid, lost } = reader.unsaid;
    let kind = if reader.described.is_some() { "a described job" } else { "a request" };
    let what =
        format!("{kind}, {}", request.get("TrainingJobName").and_then(Value::as_str).unwrap_or_default());
    let manifest = header(&what, &lost) + &body;
    Some(Imported { manifest, job, request: Value::Object(request), unsaid, lost, what, outcome })
}

/// Bytes before a place that is given by line and column, both from 1.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (before + column.saturating_sub(1)).min(text.len())
}

/// The request in a document, and the whole answer if it is one.
fn job_of(value: &Value) -> Option<(Map<String, Value>, Option<Value>)> {
    let is_job =
        |value: &&Value| ["AlgorithmSpecification", SERVERLESS].iter().any(|name| value.get(name).is_some());
    // A capture wraps its request; some tools wrap an answer.
    let inner =
        [Some(value), value.get("request"), value.get("TrainingJob")].into_iter().flatten().find(is_job)?;
    let answer =
        ["TrainingJobStatus", "TrainingJobArn", "CreationTime"].iter().any(|name| inner.get(name).is_some());
    let mut members = inner.as_object()?.clone();
    let known = &shapes::operation("CreateTrainingJob")?.input.members;
    if answer {
        // What only an answer has goes; what neither has stays, and is said. boto3 lays `ResponseMetadata` beside it.
        let only = &shapes::operation("DescribeTrainingJob")?.output_members;
        members.retain(|name, _| {
            known.contains_key(name) || !(only.contains(name) || name == "ResponseMetadata")
        });
    }
    members.retain(|_, value| !value.is_null());
    Some((members, answer.then(|| inner.clone())))
}

/// Replaces the job's digest, of which `short` is the beginning, by its placeholder; returns whether it was found.
fn restore_digest(members: &mut Map<String, Value>, short: &str) -> bool {
    fn walk(value: &mut Value, short: &str) -> bool {
        match value {
            Value::String(text) => {
                let full = text.find(short).and_then(|at| text.get(at..at + 64)).map(str::to_owned);
                let full = full.filter(|full| full.bytes().all(|b| b.is_ascii_hexdigit()));
                if let Some(full) = &full {
                    *text = text.replace(full, kdl::DIGEST);
                }
                full.is_some()
            }
            Value::Array(items) => items.iter_mut().fold(false, |found, item| walk(item, short) || found),
            Value::Object(members) => {
                members.values_mut().fold(false, |found, item| walk(item, short) || found)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
    short.len() >= 8 && members.values_mut().fold(false, |found, value| walk(value, short) || found)
}

struct Reader {
    rest: UnmappedMembers,
    unsaid: Unsaid,
    /// The job's ARN, where an answer has it.
    described: Option<String>,
}

impl Reader {
    /// The job's name, and the manifest without its header.
    fn job(&mut self) -> (String, String) {
        let tags = self.tags();
        let of = |key: &str| tags.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone());
        let full_name = self.rest.text("TrainingJobName").unwrap_or_default();
        let stamped = digest_named(&full_name);
        let name = of("trainc:job")
            .unwrap_or_else(|| stamped.map_or_else(|| base_name(&full_name), |(base, _)| base).to_owned());
        let digest = of("trainc:digest").or_else(|| stamped.map(|(_, digest)| digest.to_owned()));
        if digest.is_some_and(|digest| restore_digest(&mut self.rest.0, &digest)) {
            // Checkpoints under it are those of the old job, and this one starts without them.
            self.unsaid.add(
                "the digest in its places: `{{ job.digest }}` stands there, and is another digest where the manifest is",
            );
        }
        // SageMaker chose machines, container and code: the manifest says nothing of them, nor of a model, and what the
        // service takes of them all the same stands in `request`.
        let serverless = self.rest.0.contains_key(SERVERLESS);
        let kept = if serverless { self.rest.split(MACHINE_MEMBERS) } else { Map::new() };
        let mut algorithm = self.rest.object("AlgorithmSpecification").unwrap_or_default();
        let uri = algorithm.text("TrainingImage");
        let mut keys = self.rest.map("HyperParameters");
        let region = self.region(&keys, uri.as_deref());
        let role = self.rest.text("RoleArn");
        let account = [role.as_deref(), self.described.as_deref()].into_iter().flatten().find_map(account_of);

        let mut nodes = vec![Node::text("region", &region)];
        nodes.extend(account.map(|account| Node::text("account", &account)));
        let own: Vec<&(String, String)> =
            tags.iter().filter(|(key, _)| !key.starts_with("trainc:") && !key.starts_with("aws:")).collect();
        if !own.is_empty() {
            nodes.push(
                own.iter()
                    .fold(Node::new("tags"), |node, (key, value)| node.prop(key, &string(&bound(value)))),
            );
        }
        let own_machines = !serverless;
        nodes.extend(own_machines.then(|| {
            Node::comment(&[
                "model \"…\": a request does not say what is trained; without it nothing is predicted.",
            ])
            .apart()
        }));
        if own_machines {
            self.unsaid.add("`model`: what is trained, and so what fits and how long it takes");
        }

        let (cluster, ground) = self.cluster(uri.as_deref());
        nodes.extend(own_machines.then(|| cluster.apart()));
        let mut script = program::Script::of(&mut keys, &mut algorithm);
        let instance = ground.instance.clone();
        let launch =
            launch::launch(&mut script.launcher, instance.as_deref(), &ground.launch, &mut self.unsaid);
        if own_machines {
            nodes.push(launch.parallel.clone().apart());
            nodes.push(self.train(&launch).apart());
        }

        let mode = algorithm.text("TrainingInputMode").filter(|mode| mode != "File");
        if let Some(mode) = &mode {
            self.unsaid
                .add(&format!("`TrainingInputMode` {mode} for the whole job: each channel says its own"));
        }
        let isolated = self.rest.0.get("EnableNetworkIsolation") == Some(&Value::Bool(true));
        let by_channel = isolated && script.is_script();
        let described = self.described.is_some();
        let (storage, channels, code) =
            data::channels(&mut self.rest, by_channel, mode.as_deref(), described, &mut self.unsaid);
        let environment = self.rest.map("Environment");
        let toolkit = uri.as_deref().is_some_and(|uri| image::family(uri) != "own");
        let program = script.node(toolkit, code.as_deref(), &environment, &mut algorithm, &mut self.unsaid);
        nodes.extend(own_machines.then(|| program.apart()));
        if let Some(uri) = &uri {
            nodes.push(image::image(uri, &region, instance.as_deref(), &launch).apart());
        }
        nodes.extend(self.network().map(Node::apart));
        for (index, node) in storage.into_iter().chain(channels).chain(self.places()).enumerate() {
            nodes.push(if index == 0 { node.apart() } else { node });
        }
        let output = self.output();
        let s3 = output.1;
        nodes.push(output.0);
        nodes.extend(watch::watch(&mut self.rest, &s3, launch.engine, &mut self.unsaid));
        nodes.push(match role.as_deref() {
            Some(arn) if !arn.contains("${") => Node::new("role").maybe("arn", Some(arn)),
            _ => Node::new("role").prop("create", "#true"),
        });
        if own_machines {
            self.algorithm(algorithm, uri.as_deref());
        }
        self.rest.0.extend(kept);
        nodes.extend(self.request());

        let mut out = String::new();
        Node::text("job", &name).children(nodes).write(0, &mut out);
        (name, out)
    }

    fn tags(&mut self) -> Vec<(String, String)> {
        let part = |tag: &Value, name: &str| tag.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
        self.rest.list("Tags").iter().map(|tag| (part(tag, "Key"), part(tag, "Value"))).collect()
    }

    /// A placeholder: exactly one length and one factor of the batch, so that it compiles.
    fn train(&mut self, launch: &launch::Launch) -> Node {
        self.unsaid
            .add("`train`: precision, batch and length; `micro-batch 1` and `steps 1` are assumed, so is what the plan makes of them");
        let node = Node::new("train").said(
            "Assumed: a request does not say how the model is trained; batch, memory, time and cost are of one step.",
        );
        let mut children: Vec<Node> =
            launch.precision.map(|word| Node::text("precision", word)).into_iter().collect();
        children.push(Node::new("micro-batch").arg("1"));
        if launch.offload {
            children.push(Node::new("activation-checkpointing").arg("#true"));
        }
        children.push(Node::new("steps").arg("1"));
        node.children(children)
    }

    fn network(&mut self) -> Option<Node> {
        let texts = |items: Vec<Value>, name: &str| {
            let found: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            (!found.is_empty())
                .then(|| found.iter().fold(Node::new(name), |node, text| node.arg(&string(text))))
        };
        let mut vpc = self.rest.object("VpcConfig").unwrap_or_default();
        let mut children: Vec<Node> = Vec::new();
        children.extend(texts(vpc.list("Subnets"), "subnets"));
        children.extend(texts(vpc.list("SecurityGroupIds"), "security-groups"));
        self.rest.put_back("VpcConfig", vpc);
        for (member, name) in [
            ("EnableNetworkIsolation", "isolation"),
            ("EnableInterContainerTrafficEncryption", "encrypt-traffic"),
        ] {
            // An answer says what was never asked for.
            if let Some(on) = self.rest.switch(member).filter(|on| *on || self.described.is_none()) {
                children.push(Node::new(name).arg(if on { "#true" } else { "#false" }));
            }
        }
        (!children.is_empty()).then(|| Node::new("network").children(children))
    }

    fn places(&mut self) -> Option<Node> {
        let mut checkpoint = self.rest.object("CheckpointConfig")?;
        let s3 = checkpoint.text("S3Uri")?;
        let node = Node::new("checkpoint").prop("s3", &string(&bound(&s3)));
        Some(match checkpoint.text("LocalPath") {
            Some(local) => node.prop("local", &string(&bound(&local))),
            None => node,
        })
    }

    fn output(&mut self) -> (Node, String) {
        let mut output = self.rest.object("OutputDataConfig").unwrap_or_default();
        let s3 = output.text("S3OutputPath").unwrap_or_default();
        let mut node = Node::new("output").prop("s3", &string(&bound(&s3)));
        // An answer has an empty key where there is none.
        node = node.maybe("kms", output.text("KmsKeyId").filter(|key| !key.is_empty()).as_deref());
        // Packed is what the service does anyway.
        if output.text("CompressionType").as_deref() == Some("NONE") {
            node = node.prop("compress", "#false");
        }
        self.rest.put_back("OutputDataConfig", output);
        (node, s3)
    }

    /// What is left of the algorithm: its defaults are sent anyway.
    fn algorithm(&mut self, mut algorithm: UnmappedMembers, uri: Option<&str>) {
        let known = uri.is_some_and(|uri| image::family(uri) != "own");
        let metrics = algorithm.0.get("EnableSageMakerMetricsTimeSeries").and_then(Value::as_bool);
        if metrics == known.then_some(true) || (metrics == Some(false) && !known) {
            algorithm.take("EnableSageMakerMetricsTimeSeries");
        } else if metrics.is_none() {
            self.unsaid.lose(
                "`EnableSageMakerMetricsTimeSeries`: the request leaves it to the service; the manifest's request says \
                 `true`, as the SageMaker SDK does for this image",
            );
        }
        self.rest.put_back("AlgorithmSpecification", algorithm);
    }

    /// What no node says, by its AWS name.
    fn request(&mut self) -> Option<Node> {
        // Members that belong to nodes: `request` is refused there, and what is left of them no node says.
        const OF_NODES: &[&str] = &[
            "CheckpointConfig",
            "DebugHookConfig",
            "EnableManagedSpotTraining",
            "Environment",
            "ExperimentConfig",
            "HyperParameters",
            "InputDataConfig",
            "OutputDataConfig",
            "ProfilerConfig",
            "RetryStrategy",
            "StoppingCondition",
            "VpcConfig",
        ];
        let known = &shapes::operation("CreateTrainingJob")?.input.members;
        let serverless = self.rest.0.contains_key(SERVERLESS);
        let mut children = Vec::new();
        for (name, value) in &self.rest.0 {
            if !known.contains_key(name) {
                self.unsaid.lose(&format!("`{name}`: the service has no such member"));
            } else if OF_NODES.contains(&name.as_str())
                && !(serverless && MACHINE_MEMBERS.contains(&name.as_str()))
            {
                self.unsaid.lose(&format!("`{name}`: {value}"));
            } else if let Some(node) = kdl::member(name, value) {
                children.push(node);
            }
        }
        (!children.is_empty()).then(|| {
            Node::new("request")
                .said("Members for which the language has no node.")
                .children(children)
                .apart()
        })
    }
}

/// The account of an ARN.
fn account_of(arn: &str) -> Option<String> {
    let account = arn.split(':').nth(4)?;
    (account.len() == 12 && account.bytes().all(|b| b.is_ascii_digit())).then(|| account.to_owned())
}

/// A job's name without what the SDK puts behind it: the time, as `-2026-01-01-00-00-00-000`.
fn base_name(name: &str) -> &str {
    const STAMP: &str = "-dddd-dd-dd-dd-dd-dd-ddd";
    let Some(at) = name.len().checked_sub(STAMP.len()).filter(|at| *at > 0) else { return name };
    let (Some(base), Some(tail)) = (name.get(..at), name.get(at..)) else { return name };
    let is_stamp = tail.bytes().zip(STAMP.bytes()).all(|(found, wanted)| match wanted {
        b'd' => found.is_ascii_digit(),
        other => found == other,
    });
    if is_stamp { base } else { name }
}

/// A name as trainc makes it, `<job>-<8 of the digest>` or `…-rN`: the job and the digest's beginning. An answer has
/// no tags that would tell.
fn digest_named(name: &str) -> Option<(&str, &str)> {
    let run = name.rsplit_once("-r").filter(|(_, n)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    let (base, digest) = run.map_or(name, |(rest, _)| rest).rsplit_once('-')?;
    let hex = digest.len() == 8 && digest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    // A word of eight letters, or a date, is no digest.
    let mixed = digest.bytes().any(|b| b.is_ascii_digit()) && digest.bytes().any(|b| b.is_ascii_lowercase());
    (hex && mixed && !base.is_empty()).then_some((base, digest))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test reads the captured requests")]
#[allow(clippy::format_collect, reason = "a test's own words")]
mod tests;
