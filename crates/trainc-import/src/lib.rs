//! Import of a training job's request, or of a described job, as a manifest.
//!
//! Input: a `CreateTrainingJob` request or a `DescribeTrainingJob` response, as JSON or YAML, or the document
//! that contains one. Output: a manifest that expresses the request with nodes where the language has them
//! and with `request { … }` elsewhere, placeholders for what a request does not contain, and a list of those.
//! [`script`] records the requests that a Python script would send; [`conversion`] compiles the manifests and
//! writes them to their [`destination`]. The other modules read no file and call no account.

mod cluster;
mod command;
mod comparison;
pub mod conversion;
mod credentials;
mod data;
#[expect(clippy::disallowed_methods, reason = "writes the manifests")]
pub mod destination;
mod document;
mod image;
mod kdl;
mod launch;
mod monitoring;
mod origin;
mod outcome;
mod program;
mod reconcile;
mod recording;
#[expect(clippy::disallowed_methods, reason = "runs a script in a process of its own")]
pub mod script;
pub mod script_problem;
mod smp;
mod terraform;
mod trainer;
mod training;
mod unsupported;
mod values;

pub use origin::{Origin, ProgramSource};
pub use recording::{
    Failure, GitSource, Ignored, LocalChannel, LocalSource, RECORDER, RecordedDocument, Recording, Unknown,
};
pub use trainc_project::other_documents::decode;
pub use trainer::Trainer;

use credentials::Withheld;
use document::FoundJob;
use kdl::{Node, escape_placeholders, string};
pub use outcome::Outcome;
use recording::ROLE_PLACEHOLDER;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use trainc_catalog::shapes;
use trainc_diag::declare_code;
use trainc_diag::source::{SourceId, Span};
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_emit::UnmappedMembers;
use trainc_ir::Scalar;
use trainc_ir::address::substitute_account;
use trainc_ir::job::SERVERLESS;
use trainc_ir::preferences::MACHINE_MEMBERS;
use trainc_project::other_documents::{self, is_bracketed};
use training::Training;
use unsupported::{Unsupported, header};

declare_code!(
    T0530,
    "unreadable-import",
    Error,
    "a file to import that is neither JSON nor YAML",
    found_in: Import
);
declare_code!(
    T0531,
    "import-not-training-job",
    Error,
    "a file to import that does not contain one training job",
    found_in: Import
);
declare_code!(T0691, "import-script-failed", Error, "a script to import that failed", found_in: Import);
declare_code!(
    T0692,
    "import-script-sent-no-job",
    Error,
    "a script to import that creates no training job",
    found_in: Import
);
declare_code!(
    T0693,
    "import-script-timeout",
    Error,
    "a script to import that did not end in time",
    found_in: Import
);

/// Returns the codes of this stage.
pub fn codes() -> Vec<&'static Code> {
    vec![&T0530, &T0531, &T0691, &T0692, &T0693]
}

/// The help for a file that contains no job.
const SAVE_A_REQUEST: &str =
    "save a CreateTrainingJob request or the output of `aws sagemaker describe-training-job` to the file";

/// A manifest imported from a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The manifest.
    pub manifest: String,
    /// The job's name in it.
    pub job: String,
    /// The request, without the members that only a response has.
    pub request: Value,
    /// The request as it is compared: of a `ModelTrainer` the one that starts its script with the toolkit,
    /// without what trainc provides in another way.
    compared: Map<String, Value>,
    /// Whether trainc starts the program in place of the drivers of a `ModelTrainer`.
    pub replaces_drivers: bool,
    /// Names of hyperparameters, with paths of placeholders that may have their values.
    placeholders: Vec<(String, Vec<String>)>,
    /// The hyperparameter whose file trainc packs, and so has another path.
    moved: Option<String>,
    /// What the manifest does not express, or expresses with a placeholder.
    pub unsupported: Vec<String>,
    /// Those of them by which the manifest's request differs.
    pub lost: Vec<String>,
    /// Those of them that the same request needs, or has in place of what only the account knows.
    pub caveats: Vec<String>,
    /// What the script asked before the request that only the account knows: there the request may be another
    /// one.
    pub unknown: Vec<String>,
    /// Members that are only known at run time: they are not in `request`, so no comparison finds them.
    computed: Vec<String>,
    /// Credentials, which are not written.
    withheld: Vec<Withheld>,
    /// Whether the manifest has the source of the archive that the request names.
    pub has_source: bool,
    /// Whether it is a training job of a tuning job, which sets further hyperparameters.
    pub is_tuned: bool,
    /// Description of the input, for the manifest's header.
    description: String,
    /// The nodes of the job, without `request`.
    nodes: Vec<Node>,
    /// The members of `request`.
    members: Map<String, Value>,
    /// The outcome of the job, if the input is a response.
    pub outcome: Option<Outcome>,
}

/// Imports the text of a request or response that contains one training job.
pub fn import(source: SourceId, text: &str, problems: &mut Problems) -> Option<Imported> {
    let mut jobs = import_all(source, "", text, problems)?;
    if jobs.len() > 1 {
        problems.push(several_jobs(source, jobs.len()));
        return None;
    }
    jobs.pop()
}

/// Imports every training job of a document with a name.
pub fn import_all(
    source: SourceId,
    name: &str,
    text: &str,
    problems: &mut Problems,
) -> Option<Vec<Imported>> {
    let read = match other_documents::read(text) {
        Ok(read) => read,
        Err(error) => {
            problems.push(not_readable(source, name, text, &error));
            return None;
        }
    };
    let mut jobs = import_document(&read.value, &Origin::default());
    if jobs.is_empty() {
        problems.push(no_job(source, name, text, &read.value));
        return None;
    }
    if !read.repeated.is_empty() {
        for job in &mut jobs {
            job.add_caveats(&read.repeated);
        }
    }
    Some(jobs)
}

/// Imports every training job of a text that was read before.
pub(crate) fn import_text(text: &str, origin: &Origin) -> Vec<Imported> {
    let Ok(read) = other_documents::read(text) else { return Vec::new() };
    let mut jobs = import_document(&read.value, origin);
    jobs.iter_mut().filter(|_| !read.repeated.is_empty()).for_each(|job| job.add_caveats(&read.repeated));
    jobs
}

/// Imports every training job of a JSON document.
pub fn import_document(value: &Value, origin: &Origin) -> Vec<Imported> {
    let jobs = document::jobs(value);
    jobs.into_iter()
        .filter_map(|mut job| {
            if origin.script.is_none() {
                return import_job(job, origin);
            }
            let origin = origin.of_request(&mut job.members);
            import_job(job, &origin)
        })
        .collect()
}

/// Gives each job its own name, and each manifest; a job comes in several ways.
pub(crate) fn rename_duplicates(jobs: &mut [Vec<Imported>]) {
    let mut names = BTreeSet::new();
    for ways in jobs {
        let Some(base) = ways.first().map(|job| job.job.clone()) else { continue };
        let mut name = base.clone();
        let mut number = 1;
        while !names.insert(name.clone()) {
            number += 1;
            name = format!("{base}-{number}");
        }
        for job in ways {
            job.job.clone_from(&name);
        }
    }
}

fn import_job(mut job: FoundJob, origin: &Origin) -> Option<Imported> {
    let withheld = credentials::withhold(&mut job.members);
    let there = withheld.iter().filter(|one| !one.is_made_up());
    job.computed.extend(there.map(Withheld::describe));
    let (request, answer) = request_of(job.members)?;
    let outcome = answer.as_ref().and_then(Outcome::from_response);
    let described = answer
        .as_ref()
        .and_then(|answer| answer.get("TrainingJobArn"))
        .and_then(Value::as_str)
        .map(str::to_owned);
    let (started, instead) = match origin.start(&request, cluster::accelerators(&request)) {
        Some(Ok(started)) => (Some(started), None),
        Some(Err(instead)) => (None, Some(instead)),
        None => (None, None),
    };
    let mut of_program = origin.clone();
    if let Some((source, uri)) = started
        .as_ref()
        .and_then(|started| started.source.clone())
        .zip(trainer::channel_uri(&request, "code"))
    {
        of_program.sources.insert(uri, source);
    }
    let origin = &of_program;
    let compared = started.as_ref().map_or_else(|| request.clone(), |started| started.request.clone());
    let mut reader = Reader {
        unmapped: UnmappedMembers(compared.clone()),
        unsupported: Unsupported::default(),
        described,
        origin,
        withheld: &withheld,
        has_source: false,
        instead,
        accelerate: started.as_ref().and_then(|started| started.accelerate.clone()),
        training: Training::default(),
        packed_channel: None,
    };
    for line in withheld.iter().filter(|one| one.is_made_up()).map(Withheld::describe_made_up) {
        reader.unsupported.add_caveat(&line);
    }
    for line in started.iter().flat_map(|started| &started.caveats) {
        reader.unsupported.add_caveat(line);
    }
    for line in &job.computed {
        reader.unsupported.add_difference(line);
    }
    origin.describe(&request, &withheld, &mut reader.unsupported);
    if job.is_tuned {
        reader.unsupported.add(
            "the tuning job's ranges: the manifest is one training job with the parameters that \
                are not tuned; `sweep` runs several",
        );
    }
    let (is_tuned, computed) = (job.is_tuned, job.computed);
    let (job, nodes, members) = reader.job();
    let reader_has_source = reader.has_source;
    let (training, packed_channel) = (std::mem::take(&mut reader.training), reader.packed_channel.take());
    let mut compared = compared;
    if let Some(name) = packed_channel {
        trainer::remove_channels(&mut compared, &[&name]);
    }
    let is_described = reader.described.is_some();
    let Unsupported { all: unsupported, lost, caveats } = reader.unsupported;
    let kind = match (&origin.script, is_described) {
        (Some(script), _) if is_tuned => format!("the tuning job that {script} starts"),
        (None, _) if is_tuned => "a tuning job".to_owned(),
        (Some(script), _) => format!("the request that {script} sends"),
        (None, true) => "a described job".to_owned(),
        (None, false) => "a request".to_owned(),
    };
    let name = request.get("TrainingJobName").and_then(Value::as_str).filter(|name| !name.is_empty());
    let description = name.map_or_else(|| kind.clone(), |name| format!("{kind}, {name}"));
    let mut imported = Imported {
        manifest: String::new(),
        job,
        request: Value::Object(request),
        compared,
        replaces_drivers: started.is_some(),
        placeholders: training.placeholders,
        moved: training.file.map(|(_, hyperparameter)| hyperparameter),
        unsupported,
        lost,
        caveats,
        unknown: origin.unknown().to_vec(),
        computed,
        withheld,
        has_source: reader_has_source,
        is_tuned,
        description,
        nodes,
        members,
        outcome,
    };
    imported.manifest = imported.render();
    Some(imported)
}

impl Imported {
    /// Says whether the manifest produces the same request.
    pub fn verdict(&self) -> String {
        match self.lost.len() {
            0 if !self.unknown.is_empty() => {
                let answers = trainc_diag::text::count(self.unknown.len() as u64, "answer");
                format!(
                    "a request that may differ: the script used {answers} that only your account \
                        knows, in its header"
                )
            }
            0 if self.is_tuned => "a training job of the tuning job, without the tuned parameters".to_owned(),
            0 => {
                let by = if self.replaces_drivers { ", with the program started by trainc" } else { "" };
                let caveats = if self.caveats.is_empty() { "" } else { ", with the caveats in its header" };
                format!("the same request{by}{caveats}")
            }
            1 => "1 difference, in its header".to_owned(),
            more => format!("{more} differences, in its header"),
        }
    }

    /// Adds caveats about the document that the job is read from.
    fn add_caveats(&mut self, caveats: &[String]) {
        self.unsupported.extend_from_slice(caveats);
        self.caveats.extend_from_slice(caveats);
        self.manifest = self.render();
    }

    /// Returns the titles and lines of what the manifest does not express, without empty lists.
    pub fn lists(&self) -> impl Iterator<Item = (&'static str, Vec<String>)> {
        let is_note = |line: &&String| !self.lost.contains(line) && !self.caveats.contains(line);
        let notes = self.unsupported.iter().filter(is_note).cloned().collect();
        let lists = [
            ("Differences", self.lost.clone()),
            ("Not known", self.unknown.clone()),
            ("Caveats", self.caveats.clone()),
            ("Notes", notes),
        ];
        lists.into_iter().filter(|(_, lines)| !lines.is_empty())
    }

    /// Returns the manifest of the nodes.
    fn render(&self) -> String {
        let children: Vec<Node> =
            self.members.iter().filter_map(|(name, value)| kdl::member(name, value)).collect();
        let request = (!children.is_empty()).then(|| {
            Node::new("request")
                .with_comment("Members that are sent as they are written here.")
                .children(children)
                .with_blank_line()
        });
        let mut out = header(&self.description, self);
        let nodes = self.nodes.iter().cloned().chain(request).collect();
        Node::text("job", &self.job).children(nodes).write(0, &mut out);
        out
    }
}

/// Returns the problem of a file that is neither JSON nor YAML, with the format that it has.
fn not_readable(source: SourceId, name: &str, text: &str, error: &trainc_document::Error) -> Diagnostic {
    if let Some(described) = other_documents::describe_text(name, text) {
        return other_format(source, described);
    }
    if text.trim().is_empty() {
        return Diagnostic::new(&T0530, Span::whole(source), "the file is empty").help(SAVE_A_REQUEST);
    }
    let message = match error.is_limit {
        true => error.message.clone(),
        false if is_bracketed(text) => format!("invalid JSON: {}", error.message),
        false => format!("neither valid JSON nor YAML: {}", error.message),
    };
    let at = Span::new(source, error.span.start, error.span.end);
    Diagnostic::new(&T0530, at, message).help(SAVE_A_REQUEST)
}

fn other_format(source: SourceId, (what, help): (&str, &str)) -> Diagnostic {
    Diagnostic::new(&T0530, Span::whole(source), format!("the file contains no training job: it is {what}"))
        .help(help)
}

/// Returns the problem of a file that is no text, with the format that it has, if that is known.
pub fn not_text(source: SourceId, described: Option<(&str, &str)>) -> Diagnostic {
    match described {
        Some(described) => other_format(source, described),
        None => Diagnostic::new(&T0530, Span::whole(source), "the file is not text in UTF-8 or UTF-16")
            .help(SAVE_A_REQUEST),
    }
}

/// Adds what a script is that starts no training job itself, and what to do instead.
pub fn describe_script(text: &str, found: Diagnostic) -> Diagnostic {
    match other_documents::describe_script(text) {
        Some((what, help)) => found.note(format!("it is {what}")).help(help),
        None => found,
    }
}

/// Returns the problem of several jobs without a directory for their manifests.
pub fn several_jobs(source: SourceId, jobs: usize) -> Diagnostic {
    let message = format!("the file contains {jobs} training jobs, and standard output takes one manifest");
    Diagnostic::new(&T0531, Span::whole(source), message)
        .help("add `--out DIR`, which gets a manifest for each")
}

/// Returns the problem of a document without a training job.
fn no_job(source: SourceId, name: &str, text: &str, document: &Value) -> Diagnostic {
    let at = Span::whole(source);
    // Many texts are valid YAML.
    let other_text = || other_documents::describe_text(name, text).filter(|_| !is_bracketed(text));
    match other_documents::describe(document).or_else(other_text) {
        Some((what, help)) => {
            Diagnostic::new(&T0531, at, format!("the file contains no training job: it is {what}")).help(help)
        }
        None => Diagnostic::new(
            &T0531,
            at,
            format!("the file contains no training job: it is {}", other_documents::form(document)),
        )
        .note(
            "expected an object with `AlgorithmSpecification` or `ServerlessJobConfig`, at the \
                top level or nested",
        )
        .help("pass a CreateTrainingJob request or a DescribeTrainingJob response"),
    }
}

/// Returns the request of a job, and the whole response if it is one.
fn request_of(members: Map<String, Value>) -> Option<(Map<String, Value>, Option<Value>)> {
    let answer = ["TrainingJobStatus", "TrainingJobArn", "CreationTime"]
        .iter()
        .any(|name| members.contains_key(*name));
    let whole = answer.then(|| Value::Object(members.clone()));
    let mut members = members;
    let known = &shapes::operation("CreateTrainingJob")?.input.members;
    if answer {
        // Members that only a response has are dropped; unknown members stay and are reported. boto3 adds
        // `ResponseMetadata`.
        let only = &shapes::operation("DescribeTrainingJob")?.output_members;
        members.retain(|name, _| {
            known.contains_key(name)
                || !(only.contains(name) || ["ResponseMetadata", "CreatedBy"].contains(&name.as_str()))
        });
    }
    members.retain(|_, value| !value.is_null());
    Some((members, whole))
}

/// Replaces the job's digest, which starts with `short`, with its placeholder; returns whether it was found.
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
            Value::Array(items) => items.iter_mut().fold(false, |found, item| found | walk(item, short)),
            Value::Object(members) => {
                members.values_mut().fold(false, |found, item| found | walk(item, short))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
    short.len() >= 8 && members.values_mut().fold(false, |found, value| found | walk(value, short))
}

struct Reader<'a> {
    unmapped: UnmappedMembers,
    unsupported: Unsupported,
    /// The job's ARN, if the input is a response.
    described: Option<String>,
    origin: &'a Origin,
    withheld: &'a [Withheld],
    /// Whether the program has its source instead of an archive.
    has_source: bool,
    /// What to write in place of the drivers of a `ModelTrainer`.
    instead: Option<String>,
    /// The file of `accelerate launch`, which starts the program.
    accelerate: Option<String>,
    /// What is known of the training.
    training: Training,
    /// The channel whose only file trainc packs with the source.
    packed_channel: Option<String>,
}

impl Reader<'_> {
    /// Returns the job's name, its nodes without `request`, and the members of `request`.
    fn job(&mut self) -> (String, Vec<Node>, Map<String, Value>) {
        let tags = self.tags();
        let tag = |key: &str| tags.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone());
        let full_name = self.unmapped.take_text("TrainingJobName").unwrap_or_default();
        let stamped = split_digest_name(&full_name);
        let name = tag("trainc:job")
            .unwrap_or_else(|| stamped.map_or_else(|| base_name(&full_name), |(base, _)| base).to_owned());
        let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        let name = if is_name {
            name
        } else {
            self.unsupported.add("the job's name: not in the document; `imported` is a placeholder");
            "imported".to_owned()
        };
        let digest = tag("trainc:digest").or_else(|| stamped.map(|(_, digest)| digest.to_owned()));
        if digest.is_some_and(|digest| restore_digest(&mut self.unmapped.0, &digest)) {
            // Checkpoints under the old digest belong to the old job; this one starts without them.
            self.unsupported.add(
                "the job's digest: replaced with `{{ job.digest }}`, which has another value for \
                    this manifest",
            );
        }
        // SageMaker chooses instances, container and code: the manifest has no nodes for them or for a model,
        // and puts what the service still accepts into `request`.
        let serverless = self.unmapped.0.contains_key(SERVERLESS);
        let kept = if serverless { self.unmapped.take_all(MACHINE_MEMBERS) } else { Map::new() };
        let mut algorithm = self.unmapped.take_object("AlgorithmSpecification").unwrap_or_default();
        let uri = algorithm.take_text("TrainingImage");
        let mut keys = self.unmapped.take_string_map("HyperParameters");
        let named = algorithm.0.get("AlgorithmName").and_then(Value::as_str).map(str::to_owned);
        let (region, comment) = self.region(&keys, uri.as_deref(), named.as_deref());
        let role = self.unmapped.take_text("RoleArn");
        let account = [role.as_deref(), self.described.as_deref()].into_iter().flatten().find_map(account_of);

        let mut nodes = vec![Node::text("region", &region).with_comment_if_some(comment)];
        let account_in = account.clone();
        nodes.extend(account.map(|account| Node::text("account", &account)));
        let own: Vec<&(String, String)> =
            tags.iter().filter(|(key, _)| !key.starts_with("trainc:") && !key.starts_with("aws:")).collect();
        if !own.is_empty() {
            nodes.push(own.iter().fold(Node::new("tags"), |node, (key, value)| {
                node.prop(key, &string(&escape_placeholders(value)))
            }));
        }
        let own_machines = !serverless;
        let (cluster, facts) = self.cluster(uri.as_deref());
        let mut script = program::Script::new(&mut keys, &mut algorithm);
        script.find_source(self.origin);
        if own_machines && facts.launch.per_node.is_some_and(|gpus| gpus > 0) {
            self.read_training(&script);
        }
        nodes.extend(own_machines.then(|| self.model().with_blank_line()));
        nodes.extend(own_machines.then(|| cluster.with_blank_line()));
        let instance = facts.instance.clone();
        let launch =
            launch::launch(&mut script.launcher, instance.as_deref(), &facts.launch, &mut self.unsupported);
        if own_machines {
            nodes.push(self.parallel(&launch).with_blank_line());
            nodes.push(self.train(&launch).with_blank_line());
            nodes.extend(self.training.others());
        }

        // Another mode of the job stays in `request`: it applies to the channels that leave it to the job.
        algorithm.take_if("TrainingInputMode", "File");
        let isolated = self.unmapped.0.get("EnableNetworkIsolation") == Some(&Value::Bool(true));
        let by_channel = isolated && script.is_script();
        let described = self.described.is_some();
        let toolkit = uri.as_deref().is_some_and(|uri| image::family(uri) != "own");
        let (storage, channels, code) =
            data::channels(&mut self.unmapped, by_channel, described, self.origin, &mut self.unsupported);
        let environment = self.unmapped.take_string_map("Environment");
        let store = secrets_of(&region, account_in.as_deref());
        let mut program = script.node(
            toolkit,
            code.as_deref(),
            &environment,
            (self.withheld, &store),
            &mut algorithm,
            &mut self.unsupported,
        );
        self.has_source = script.has_source;
        if self.has_source {
            self.unsupported.add(
                "`program source=`: trainc uploads the source to a location of its own, which is \
                    not compared",
            );
        }
        if let Some((_, hyperparameter)) = &self.training.file {
            program.set_value_of("hyperparameter", hyperparameter, &string("{{ train.file }}"));
        }
        if script.is_script()
            && self.instead.is_none()
            && image::family(uri.as_deref().unwrap_or_default()) == "own"
            && self.starts()
        {
            self.unsupported.add_caveat(
                "`image`: the program is started by the training toolkit (`sagemaker-training`), \
                    which the image has to contain; the drivers of ModelTrainer need only Python",
            );
        }
        let program = program.with_comment_if_some(self.instead.as_deref());
        if let Some(instead) = self.instead.take() {
            self.unsupported.add(&format!("`program`: {instead}"));
        }
        nodes.extend(own_machines.then(|| program.with_blank_line()));
        if let Some(uri) = &uri {
            let image = image::image(uri, &region, instance.as_deref(), &launch);
            let comment = self.origin.comment_on_image(uri);
            nodes.push(image.with_comment_if_some(comment).with_blank_line());
        }
        nodes.extend(self.network().map(Node::with_blank_line));
        for (index, node) in storage.into_iter().chain(channels).chain(self.checkpoint_node()).enumerate() {
            nodes.push(if index == 0 { node.with_blank_line() } else { node });
        }
        let output = self.output();
        let s3 = output.1;
        nodes.push(output.0);
        nodes.extend(monitoring::monitoring(&mut self.unmapped, &s3, launch.engine, &mut self.unsupported));
        nodes.push(self.role(role.as_deref()));
        if own_machines {
            self.restore_algorithm(algorithm, uri.as_deref());
        }
        self.unmapped.0.extend(kept);
        (name, nodes, self.request())
    }

    /// Returns `role`; `${account}` in an ARN is filled in by `apply`.
    fn role(&mut self, arn: Option<&str>) -> Node {
        match arn {
            Some(arn) if arn.starts_with("arn:") && !substitute_account(arn, "").contains("${") => {
                let comment = self.origin.comment_on_role(arn);
                Node::new("role").prop_if_some("arn", Some(arn)).with_comment_if_some(comment)
            }
            // The execution role of the script's environment; without a script, trainc's own placeholder for
            // the role that it creates.
            Some(ROLE_PLACEHOLDER) | None => {
                let is_replaced = arn.is_some() && self.origin.script.is_some();
                let comment = "In place of the execution role of your environment; write `role \
                    arn=\"arn:…\"` to use that.";
                Node::new("role").prop("create", "#true").with_comment_if_some(is_replaced.then_some(comment))
            }
            Some(other) => {
                self.unsupported.add_difference(&format!(
                    "`RoleArn`: `{other}` is not an ARN; the manifest creates a role instead: \
                        write `role arn=\"arn:…\"` to use yours"
                ));
                Node::new("role")
                    .with_comment("Placeholder: the request has no ARN of a role.")
                    .prop("create", "#true")
            }
        }
    }

    fn tags(&mut self) -> Vec<(String, String)> {
        let part = |tag: &Value, name: &str| tag.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
        self.unmapped.take_list("Tags").iter().map(|tag| (part(tag, "Key"), part(tag, "Value"))).collect()
    }

    /// Reads what hyperparameters, and the file of arguments that one of them names, say of the training.
    fn read_training(&mut self, script: &program::Script) {
        let fill = self.origin.fill;
        if !fill.values || !script.is_script() {
            return;
        }
        let mut out = Training::of_hyperparameters(&script.arguments_sent);
        let named = script.arguments_sent.iter().filter_map(|(name, text)| {
            let value = serde_json::from_str::<String>(text).unwrap_or_else(|_| text.clone());
            let (training, path) =
                self.origin.training_of(&value, script.source.as_ref(), &self.unmapped.0)?;
            Some((name, value, training, path))
        });
        let mut named: Vec<_> = named.collect();
        // Which of several files the program reads is not known.
        if let Some((name, value, training, path)) = named.pop().filter(|_| named.is_empty()) {
            out = out.with_file(training);
            if let Some(path) = path.filter(|_| fill.file) {
                self.pack_channel_of(&value, &path);
                out.file = Some((path, name.clone()));
            }
        }
        self.training = out;
    }

    /// Leaves out the channel of a file that trainc packs with the source, if it has no other one.
    fn pack_channel_of(&mut self, value: &str, path: &str) {
        let Some(channel) = value.strip_prefix("/opt/ml/input/data/").and_then(|rest| rest.split('/').next())
        else {
            return;
        };
        let uri = trainer::channel_uri(&self.unmapped.0, channel);
        if uri.is_some_and(|uri| self.origin.has_only(&uri, path)) {
            trainer::remove_channels(&mut self.unmapped.0, &[channel]);
            self.unsupported.add(&format!(
                "channel `{channel}`: trainc packs `{path}` with the source, at \
                    `{{{{ train.file }}}}`"
            ));
            self.packed_channel = Some(channel.to_owned());
        }
    }

    /// Returns the model, or a comment in its place.
    fn model(&mut self) -> Node {
        if let Some(model) = &self.training.model {
            if self.origin.fill.model {
                return Node::text("model", model);
            }
            let line = format!(
                "`model {}`: left out, since the plan of what is assumed here has errors with it; write it \
                    once `parallel` says how the model is sharded",
                string(model)
            );
            self.unsupported.add(&line);
            return Node::comment(&[&line]);
        }
        self.unsupported.add("`model`: not part of a request, but required to predict memory and time");
        Node::comment(&["model \"…\": a request does not contain the model, which predictions require."])
    }

    /// Returns the launcher and the engine.
    fn parallel(&mut self, launch: &launch::Launch) -> Node {
        if let Some(file) = &self.accelerate {
            return Node::new("parallel").prop("engine", "\"accelerate\"").prop("file", &string(file));
        }
        if launch.engine == "ddp" && launch.torchrun {
            if self.training.is_fsdp() {
                return Node::new("parallel").prop("engine", "\"fsdp\"").children(self.training.fsdp());
            }
            self.unsupported.add(
                "sharding under torchrun: if the script shards the model, write `parallel \
                engine=\"fsdp\"` with its strategy",
            );
        }
        launch.parallel.clone()
    }

    /// Returns whether trainc starts the program of a `ModelTrainer` with the toolkit.
    fn starts(&self) -> bool {
        self.accelerate.is_none() && self.origin.is_of_trainer()
    }

    /// Returns what is known of the training, and placeholders: exactly one length and one factor of the
    /// batch, so that the manifest compiles.
    fn train(&mut self, launch: &launch::Launch) -> Node {
        let known = &self.training;
        let mut also: Vec<(&'static str, Scalar)> = Vec::new();
        if let Some(precision) = launch.precision {
            also.push(("train/precision", Scalar::Text(precision.to_owned())));
        }
        if launch.offload {
            also.push(("train/activation-checkpointing", Scalar::Bool(true)));
        }
        let mut assumed = Vec::new();
        if !known.has("train/micro-batch") {
            also.push(("train/micro-batch", Scalar::Int(1)));
            assumed.push("`micro-batch 1`");
        }
        if known.has("train/epochs") {
            also.push(("train/dataset.sequences", Scalar::Int(1)));
            assumed.push("`dataset sequences=1`");
        } else if !known.has("train/steps") {
            also.push(("train/steps", Scalar::Int(1)));
            assumed.push("`steps 1`");
        }
        let mut node = Node::new("train");
        if known.is_empty() {
            node = node.with_comment(
                "Placeholders: a request does not contain training settings; batch, memory, time and \
                    cost are for one step.",
            );
            self.unsupported.add(
                "`train`: precision, batch and length; `micro-batch 1` and `steps 1` are \
                    placeholders, and so are the plan's values derived from them",
            );
        } else if !assumed.is_empty() {
            let assumed: Vec<String> = assumed.into_iter().map(str::to_owned).collect();
            let list = trainc_diag::text::list(&assumed, "and");
            let is = if assumed.len() == 1 { "is a placeholder" } else { "are placeholders" };
            let them = if assumed.len() == 1 { "it" } else { "them" };
            let comment =
                format!("{list} {is}: time and cost are computed from {them}; replace {them} with yours.");
            node = node.with_comment(&comment);
            self.unsupported
                .add(&format!("`train`: {list} {is}, and so are the plan's values derived from {them}"));
        }
        if let Some((file, _)) = &known.file {
            node = node.prop("file", &string(&escape_placeholders(file)));
        }
        node.children(known.train(&also))
    }

    fn network(&mut self) -> Option<Node> {
        let texts = |items: Vec<Value>, name: &str| {
            let found: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            (!found.is_empty())
                .then(|| found.iter().fold(Node::new(name), |node, text| node.arg(&string(text))))
        };
        let mut vpc = self.unmapped.take_object("VpcConfig").unwrap_or_default();
        let mut children: Vec<Node> = Vec::new();
        children.extend(texts(vpc.take_list("Subnets"), "subnets"));
        children.extend(texts(vpc.take_list("SecurityGroupIds"), "security-groups"));
        self.unmapped.put_back("VpcConfig", vpc);
        for member in ["EnableNetworkIsolation", "EnableInterContainerTrafficEncryption"] {
            // A response contains defaults that were not requested.
            let is_default =
                self.described.is_some() && self.unmapped.get(member) == Some(&Value::Bool(false));
            let child = Node::of_value(&mut self.unmapped, "", member);
            children.extend(child.filter(|_| !is_default));
        }
        (!children.is_empty()).then(|| Node::new("network").children(children))
    }

    fn checkpoint_node(&mut self) -> Option<Node> {
        let mut checkpoint = self.unmapped.take_object("CheckpointConfig")?;
        let s3 = checkpoint.take_text("S3Uri")?;
        let node = Node::new("checkpoint").prop("s3", &string(&escape_placeholders(&s3)));
        Some(node.value(&mut checkpoint, "CheckpointConfig", "LocalPath"))
    }

    fn output(&mut self) -> (Node, String) {
        let mut output = self.unmapped.take_object("OutputDataConfig").unwrap_or_default();
        let s3 = output.take_text("S3OutputPath").unwrap_or_default();
        let mut node = Node::new("output").prop("s3", &string(&escape_placeholders(&s3)));
        // A response has an empty key if there is none.
        node =
            node.prop_if_some("kms", output.take_text("KmsKeyId").filter(|key| !key.is_empty()).as_deref());
        // Compression is the service's default.
        if output.take_text("CompressionType").as_deref() == Some("NONE") {
            node = node.prop("compress", "#false");
        }
        self.unmapped.put_back("OutputDataConfig", output);
        (node, s3)
    }

    /// Puts back the unmapped members of the algorithm, except defaults, which are sent anyway.
    fn restore_algorithm(&mut self, mut algorithm: UnmappedMembers, uri: Option<&str>) {
        let known = uri.is_some_and(|uri| image::family(uri) != "own");
        let metrics = algorithm.0.get("EnableSageMakerMetricsTimeSeries").and_then(Value::as_bool);
        // Other images keep `false`: the service's own default depends on the image and on metric
        // definitions.
        if metrics == known.then_some(true) {
            algorithm.take("EnableSageMakerMetricsTimeSeries");
        } else if metrics.is_none() {
            self.unsupported.add_difference(
                "`EnableSageMakerMetricsTimeSeries`: not set in the request; the manifest's \
                    request sets `true`, like the SageMaker SDK for this image",
            );
        }
        self.unmapped.put_back("AlgorithmSpecification", algorithm);
    }

    /// Returns the members without a node.
    fn request(&mut self) -> Map<String, Value> {
        // Members that belong to nodes: their unmapped parts cannot be written in `request` unless that is
        // allowed.
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
        let known = shapes::operation("CreateTrainingJob").map(|operation| &operation.input.members);
        let is_known = |name: &String| known.is_some_and(|known| known.contains_key(name));
        let serverless = self.unmapped.0.contains_key(SERVERLESS);
        let mut members = Map::new();
        for (name, value) in &self.unmapped.0 {
            if !is_known(name) {
                self.unsupported.add_difference(&format!("`{name}`: not a member of CreateTrainingJob"));
            } else if OF_NODES.contains(&name.as_str())
                && !(serverless && MACHINE_MEMBERS.contains(&name.as_str()))
            {
                self.unsupported.add_difference(&format!("`{name}`: {value}"));
            } else {
                members.insert(name.clone(), value.clone());
            }
        }
        members
    }
}

/// Returns the beginning of the ARNs of a region's secrets; an account that is not known is filled in by
/// `apply`.
fn secrets_of(region: &str, account: Option<&str>) -> String {
    let partition = trainc_catalog::regions::get(region)
        .map_or_else(|| "aws".to_owned(), |found| found.partition.clone());
    format!("arn:{partition}:secretsmanager:{region}:{}:secret:", account.unwrap_or(trainc_ir::ACCOUNT_MARK))
}

/// Returns the account of an ARN.
fn account_of(arn: &str) -> Option<String> {
    let account = arn.split(':').nth(4)?;
    (account.len() == 12 && account.bytes().all(|b| b.is_ascii_digit())).then(|| account.to_owned())
}

/// Timestamps that the SDK appends to a job's name, with `d` for a digit: of version 2, and of version 3.
const STAMPS: &[&str] = &["-dddd-dd-dd-dd-dd-dd-ddd", "-dddddddddddddd"];

/// Returns a job's name without the timestamp that the SDK appends, e.g. `-2026-01-01-00-00-00-000`.
fn base_name(name: &str) -> &str {
    let base = |stamp: &&str| {
        let at = name.len().checked_sub(stamp.len()).filter(|at| *at > 0)?;
        let (base, tail) = (name.get(..at)?, name.get(at..)?);
        let is_stamp = tail.bytes().zip(stamp.bytes()).all(|(found, wanted)| match wanted {
            b'd' => found.is_ascii_digit(),
            other => found == other,
        });
        is_stamp.then_some(base.trim_end_matches('-')).filter(|base| !base.is_empty())
    };
    STAMPS.iter().find_map(base).unwrap_or(name)
}

/// Splits a name generated by trainc, `<job>-<8 digits of the digest>` or `…-rN`, into the job and the
/// digest's beginning. A response has no tags with them.
fn split_digest_name(name: &str) -> Option<(&str, &str)> {
    let run = name.rsplit_once("-r").filter(|(_, n)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    let (base, digest) = run.map_or(name, |(rest, _)| rest).rsplit_once('-')?;
    let hex = digest.len() == 8 && digest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    // A word of eight letters, or a date, is not a digest.
    let mixed = digest.bytes().any(|b| b.is_ascii_digit()) && digest.bytes().any(|b| b.is_ascii_lowercase());
    (hex && mixed && !base.is_empty()).then_some((base, digest))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test reads the captured requests")]
#[allow(clippy::format_collect, reason = "a test's own words")]
mod tests;
