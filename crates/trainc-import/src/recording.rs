//! The record of a script that ran with every AWS call answered by `recorder.py`.

use super::document;
use super::trainer::Trainer;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use trainc_ir::address::{ACCOUNT_MARK, substitution_end};

/// The program that runs a script and records its training jobs.
pub const RECORDER: &str = include_str!("recorder.py");

/// Account of the recorder's answers.
pub(super) const ACCOUNT: &str = "000000000000";
/// Name of the recorder's execution role, in place of which manifests have [`ROLE_PLACEHOLDER`].
const ROLE: &str = ":role/trainc-import";
pub(super) const ROLE_PLACEHOLDER: &str = "${role_arn}";
/// Text in every answer that the recorder made up.
pub(super) const MADE_UP: &str = "made-up";

/// What a script did, in its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Version and path of the Python that ran it.
    pub python: Option<(String, String)>,
    /// Documents that contain training jobs: requests and definitions.
    pub documents: Vec<RecordedDocument>,
    /// Number of calls by service and operation.
    pub calls: BTreeMap<(String, String), usize>,
    /// Addresses that it was not allowed to reach.
    pub blocked: Vec<String>,
    /// Programs and magics that were not run.
    pub skipped: Vec<String>,
    /// Objects that it would have uploaded: URI, and the path of the user's file.
    pub uploaded: BTreeMap<String, Option<String>>,
    /// Texts of uploaded settings by their URI.
    pub texts: BTreeMap<String, String>,
    /// What each `ModelTrainer` of the SDK v3 starts, by the URI of its drivers.
    pub trainers: BTreeMap<String, Trainer>,
    /// Channels of local files by their URI.
    pub channels: BTreeMap<String, LocalChannel>,
    /// ARNs of the roles that it asked for by name, and whether it would have created them.
    pub roles: BTreeMap<String, bool>,
    /// Source archives by their URI.
    pub sources: BTreeMap<String, LocalSource>,
    /// Region that was assumed, as none is configured.
    pub assumed_region: Option<String>,
    /// How it failed.
    pub failure: Option<Failure>,
    /// Why it was stopped after it had created training jobs: it needs what only an account has. With the
    /// line of the script, from 1.
    pub stopped: Option<(String, Option<usize>)>,
    /// Statements that failed and were skipped.
    pub ignored: Vec<Ignored>,
    /// What it asked that only the account knows, and with what it computed although it was made up.
    pub unknown: Vec<Unknown>,
    /// Whether it ran to its end, or to its failure.
    pub ended: bool,
}

/// A request as it would have been sent.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedDocument {
    /// Region of the client.
    pub region: Option<String>,
    /// The request.
    pub value: Value,
    /// Number of the statements that had failed before it.
    pub ignored: usize,
    /// Number of the questions before it whose answers only the account knows.
    pub unknown: usize,
}

/// A question of a script whose answer only the account knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// What the script does, and the answer that it got: ``asks for `ec2 DescribeSubnets`, which …``.
    pub what: String,
    /// Its line, from 1.
    pub line: Option<usize>,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line} {}", self.what),
            None => write!(f, "the script {}", self.what),
        }
    }
}

/// A statement of a script that failed and was skipped.
#[derive(Clone, Debug, PartialEq)]
pub struct Ignored {
    /// Type and text of the exception.
    pub message: String,
    /// Its line, from 1.
    pub line: Option<usize>,
    /// Its last line, if what stands in it was skipped too.
    pub last: Option<usize>,
    /// Whether it would have built a training job.
    pub builds: bool,
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.line.map_or(Ok(()), |line| write!(f, " at line {line}"))?;
        f.write_str(if self.builds { ", which builds a training job" } else { "" })
    }
}

/// The source of an archive that a script would have uploaded.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
pub struct LocalSource {
    /// Absolute path of the directory; below the clone if the source is in a repository.
    pub directory: String,
    /// Path of the script, if the archive contains it alone.
    pub script: Option<String>,
    /// Names next to the script, of directories with a slash.
    #[serde(default)]
    pub others: Vec<String>,
    /// Absolute paths of further files and directories.
    #[serde(default)]
    pub dependencies: Vec<String>,
    /// Repository of the source.
    pub git: Option<GitSource>,
}

/// What `ModelTrainer` of SDK v3 would have uploaded for a channel.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
pub struct LocalChannel {
    /// Absolute path of the file or directory; `None` for what the SDK generates.
    pub path: Option<String>,
}

/// Repository of a source.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
pub struct GitSource {
    /// URL.
    pub repo: String,
    /// Branch.
    pub branch: Option<String>,
    /// Commit.
    pub commit: Option<String>,
}

/// How a script failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Type and text of the exception.
    pub message: String,
    /// Last line of the script in the traceback, from 1.
    pub line: Option<usize>,
    /// The traceback.
    pub traceback: String,
}

impl Recording {
    /// Reads the record; lines that are cut off or unknown are ignored.
    pub fn read(text: &str) -> Self {
        let mut out = Self::default();
        for line in text.lines() {
            let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
            out.add(&value);
        }
        out
    }

    fn add(&mut self, line: &Value) {
        let text = |name: &str| line.get(name).and_then(Value::as_str).map(str::to_owned);
        let number = |name: &str| usize::try_from(line.get(name)?.as_u64()?).ok();
        let push = |list: &mut Vec<String>, text: Option<String>| {
            list.extend(text.filter(|text| !list.contains(text)));
        };
        match line.get("kind").and_then(Value::as_str).unwrap_or_default() {
            "started" => self.python = text("python").zip(text("executable")),
            "request" => {
                let value = line.get("request").cloned().unwrap_or_default();
                let (ignored, unknown) = (self.ignored.len(), self.unknown.len());
                self.documents.push(RecordedDocument { region: text("region"), value, ignored, unknown });
            }
            "call" => {
                let key = (text("service").unwrap_or_default(), text("operation").unwrap_or_default());
                *self.calls.entry(key).or_default() += 1;
            }
            "blocked" => push(&mut self.blocked, text("what")),
            "skipped" => push(&mut self.skipped, text("what")),
            "uploaded" => {
                if let Some(uri) = text("uri") {
                    self.texts.extend(text("text").map(|content| (uri.clone(), content)));
                    // A call for the object follows the call for the file.
                    self.uploaded.entry(uri).or_insert(text("file"));
                }
            }
            "trainer" => {
                let trainer = serde_json::from_value(line.clone()).ok();
                self.trainers.extend(text("uri").zip(trainer));
            }
            "channel" => {
                let channel = serde_json::from_value(line.clone()).ok();
                self.channels.extend(text("uri").zip(channel));
            }
            "role" => {
                let is_created = line.get("created").and_then(Value::as_bool).unwrap_or_default();
                if let Some(arn) = text("arn") {
                    *self.roles.entry(arn).or_default() |= is_created;
                }
            }
            "source" => {
                let source = serde_json::from_value(line.clone()).ok();
                self.sources.extend(text("uri").zip(source));
            }
            "assumed" => self.assumed_region = text("region"),
            "failed" => {
                self.failure = Some(Failure {
                    message: text("message").unwrap_or_default(),
                    line: number("line"),
                    traceback: text("traceback").unwrap_or_default(),
                });
            }
            "stopped" => {
                self.stopped = text("what").map(|what| (in_account(&what, None), number("line")));
            }
            "ignored" => {
                self.ignored.push(Ignored {
                    message: text("message").unwrap_or_default(),
                    line: number("line"),
                    last: number("last"),
                    builds: line.get("builds").and_then(Value::as_bool).unwrap_or_default(),
                });
            }
            "unknown" => {
                let one = Unknown { what: text("what").unwrap_or_default(), line: number("line") };
                // A loop asks again.
                if !self.unknown.contains(&one) {
                    self.unknown.push(one);
                }
            }
            "ended" => self.ended = true,
            _ => {}
        }
    }

    /// Returns the number of training jobs.
    pub fn jobs(&self) -> usize {
        self.documents.iter().map(|document| document::jobs(&document.value).len()).sum()
    }

    /// Returns the statements that failed and are shown: the first, which may be the cause, the last, and
    /// those that build a training job; with the number of the others.
    pub fn shown_failures(&self, most: usize) -> (Vec<&Ignored>, usize) {
        let count = self.ignored.len();
        let is_shown = |at: usize, one: &Ignored| {
            count <= most || at < most / 2 || at + most.div_ceil(2) >= count || one.builds
        };
        let shown: Vec<&Ignored> = self
            .ignored
            .iter()
            .enumerate()
            .filter(|(at, one)| is_shown(*at, one))
            .map(|(_, one)| one)
            .collect();
        let hidden = count - shown.len();
        (shown, hidden)
    }

    /// Describes the calls: `iam GetRole, s3 HeadBucket (2)`.
    pub fn describe_calls(&self) -> String {
        let calls = self.calls.iter().map(|((service, operation), count)| match count {
            1 => format!("{service} {operation}"),
            count => format!("{service} {operation} ({count})"),
        });
        calls.collect::<Vec<_>>().join(", ")
    }
}

/// Replaces the account of the recorder in a text: by an account, or by its placeholder; the recorder's role
/// by its placeholder.
pub(super) fn in_account(text: &str, account: Option<&str>) -> String {
    if text.starts_with("arn:") && text.ends_with(ROLE) {
        return ROLE_PLACEHOLDER.to_owned();
    }
    // The registry of an image: its account is no placeholder of a manifest.
    let is_image = text.starts_with(ACCOUNT);
    let Some(with) = account.or((!is_image).then_some(ACCOUNT_MARK)) else { return text.to_owned() };
    let mut out = String::new();
    let mut end = 0;
    for at in accounts(text) {
        out.push_str(text.get(end..at).unwrap_or_default());
        out.push_str(with);
        end = at + ACCOUNT.len();
    }
    out + text.get(end..).unwrap_or_default()
}

/// Returns where a text contains the account of the recorder, which is not a part of a number.
fn accounts(text: &str) -> impl Iterator<Item = usize> {
    let is_number = |c: char| c.is_ascii_digit();
    text.match_indices(ACCOUNT).map(|(at, _)| at).filter(move |at| {
        let before = text.get(..*at).unwrap_or_default();
        let after = text.get(at + ACCOUNT.len()..).unwrap_or_default();
        let is_fraction = before.strip_suffix('.').is_some_and(|before| before.ends_with(is_number));
        !(before.ends_with(is_number) || is_fraction || after.starts_with(is_number))
    })
}

/// Applies [`in_account`] to the texts of a value.
pub(super) fn fill_account(value: &mut Value, account: Option<&str>) {
    match value {
        Value::String(text) => *text = in_account(text, account),
        Value::Array(items) => items.iter_mut().for_each(|item| fill_account(item, account)),
        Value::Object(members) => members.values_mut().for_each(|item| fill_account(item, account)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Members whose texts `apply` never changes.
const VERBATIM: [&str; 4] = ["AlgorithmSpecification", "Environment", "HyperParameters", "Tags"];
/// The location of the source, which trainc replaces.
const SUBMIT_DIRECTORY: &str = "HyperParameters.sagemaker_submit_directory";

/// Returns the members of a recorded request whose values contain an answer that the recorder made up, or its
/// account where neither `account` nor `apply` replaces it.
pub(super) fn made_up_members(request: &Map<String, Value>, account: Option<&str>) -> Vec<String> {
    let is_made_up = |path: &str, text: &str| {
        let is_verbatim = path.split('.').next().is_some_and(|first| VERBATIM.contains(&first));
        let start = if is_verbatim { 0 } else { substitution_end(text).unwrap_or(text.len()) };
        let has_account = text.get(start..).is_some_and(|sent| accounts(sent).next().is_some());
        text.to_lowercase().contains(MADE_UP)
            || (account.is_none() && has_account && path != SUBMIT_DIRECTORY)
    };
    let mut texts = Vec::new();
    for (name, value) in request {
        collect_texts(name, value, &mut texts);
    }
    let made_up = texts.into_iter().filter(|(path, text)| is_made_up(path, text));
    made_up.map(|(path, text)| format!("`{path}`: `{}`", in_account(text, account))).collect()
}

/// Collects the texts of a value with the names of their members.
fn collect_texts<'a>(path: &str, value: &'a Value, out: &mut Vec<(String, &'a str)>) {
    match value {
        Value::String(text) => out.push((path.to_owned(), text)),
        Value::Array(items) => items.iter().for_each(|item| collect_texts(path, item, out)),
        Value::Object(members) => members.iter().for_each(|(name, inner)| {
            collect_texts(&format!("{path}.{name}"), inner, out);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_record_is_read_line_by_line() {
        let lines = [
            json!({"kind": "started", "python": "3.11.7", "executable": "/usr/bin/python3"}).to_string(),
            json!({"kind": "call", "service": "s3", "operation": "HeadBucket"}).to_string(),
            json!({"kind": "call", "service": "s3", "operation": "HeadBucket"}).to_string(),
            json!({"kind": "request", "region": "us-west-2", "request": {
                "RoleArn": "arn:aws:iam::000000000000:role/trainc-import",
                "OutputDataConfig": {"S3OutputPath": "s3://sagemaker-us-west-2-000000000000/out"},
                "VpcConfig": {"Subnets": ["made-up-SubnetId"]},
                "HyperParameters": {
                    "data": "\"s3://sagemaker-us-west-2-000000000000/x\"",
                    "sagemaker_submit_directory": "\"s3://sagemaker-us-west-2-000000000000/y\"",
                    "literal": "${account}",
                    "rate": "5.6250000000000005e-05",
                    "zero": "1.000000000000",
                },
                "AlgorithmSpecification": {},
            }})
            .to_string(),
            json!({"kind": "role", "arn": "arn:aws:iam::000000000000:role/made", "created": true}).to_string(),
            json!({"kind": "role", "arn": "arn:aws:iam::000000000000:role/made", "created": false}).to_string(),
            json!({"kind": "source", "uri": "s3://b/000000000000/s.tar.gz", "directory": "/src", "script": null,
                   "dependencies": [], "git": null})
            .to_string(),
            "{\"kind\": \"ended\"".to_owned(),
        ];
        let recording = Recording::read(&lines.join("\n"));
        assert_eq!(recording.python, Some(("3.11.7".to_owned(), "/usr/bin/python3".to_owned())));
        assert_eq!(recording.describe_calls(), "s3 HeadBucket (2)");
        assert_eq!(recording.jobs(), 1);
        let mut request = recording.documents[0].value.clone();
        let made_up = |account| made_up_members(request.as_object().unwrap(), account);
        let data = "`HyperParameters.data`: `\"s3://sagemaker-us-west-2-${account}/x\"`";
        let subnet = "`VpcConfig.Subnets`: `made-up-SubnetId`";
        assert_eq!(made_up(None), [data, subnet]);
        assert_eq!(made_up(Some("111122223333")), [subnet]);
        let mut filled = request.clone();
        fill_account(&mut filled, Some("111122223333"));
        assert_eq!(filled["HyperParameters"]["data"], "\"s3://sagemaker-us-west-2-111122223333/x\"");
        assert_eq!(filled["HyperParameters"]["literal"], "${account}");
        assert_eq!(filled["HyperParameters"]["rate"], "5.6250000000000005e-05");
        assert_eq!(filled["HyperParameters"]["zero"], "1.000000000000");
        fill_account(&mut request, None);
        assert_eq!(request["RoleArn"], "${role_arn}");
        assert_eq!(request["OutputDataConfig"]["S3OutputPath"], "s3://sagemaker-us-west-2-${account}/out");
        assert_eq!(recording.sources["s3://b/000000000000/s.tar.gz"].directory, "/src");
        assert_eq!(recording.roles, [("arn:aws:iam::000000000000:role/made".to_owned(), true)].into());
        // The last line is cut off: the process was killed.
        assert!(!recording.ended);
    }

    #[test]
    fn a_failure_that_builds_a_job_is_always_shown() {
        let failed = |line: usize| {
            json!({"kind": "ignored", "message": "E", "line": line, "builds": line == 10}).to_string()
        };
        let lines: Vec<String> = (1..=20).map(failed).collect();
        let recording = Recording::read(&lines.join("\n"));
        let (shown, hidden) = recording.shown_failures(6);
        let found: Vec<usize> = shown.iter().filter_map(|one| one.line).collect();
        assert_eq!((found, hidden), (vec![1, 2, 3, 10, 18, 19, 20], 13));
        assert_eq!(shown[3].to_string(), "E at line 10, which builds a training job");
        assert_eq!(recording.shown_failures(20).1, 0);
    }
}
