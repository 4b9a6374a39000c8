//! What of S3 the job reaches, and the statements that let it.
//!
//! A prefix of S3 is a prefix of keys, not a directory: `s3://b/train` also lists `train2/x`. The policy grants the
//! directory that is meant, `train/*`, and a rule warns about the missing slash.

use super::statements::{Condition, Statement};
use crate::{names, sagemaker, worker};
use trainc_diag::text;
use trainc_ir::plan::DIGEST_MARK;
use trainc_ir::{Engine, Plan, Raw, s3};

/// Why the job reaches it. Each is one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Purpose {
    Channels,
    Code,
    Worker,
    Granted,
    Output,
    Checkpoints,
}

/// Everything below a prefix, or one object; both as [`pattern`]s.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// The prefix as written, or nothing for the whole bucket.
    Prefix(String),
    Object(String),
}

/// One place that the job reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    pub(super) purpose: Purpose,
    bucket: String,
    place: Place,
    /// The node that asks for it.
    because: String,
}

impl Purpose {
    const ALL: [Self; 6] =
        [Self::Channels, Self::Code, Self::Worker, Self::Granted, Self::Output, Self::Checkpoints];

    fn sid(self) -> &'static str {
        match self {
            Self::Channels => "ReadChannels",
            Self::Code => "ReadCode",
            Self::Worker => "ReadWorker",
            Self::Granted => "ReadGranted",
            Self::Output => "WriteOutput",
            Self::Checkpoints => "SyncCheckpoints",
        }
    }

    /// Only the checkpoint sync deletes: what goes locally goes in S3 too.
    fn actions(self) -> Vec<&'static str> {
        match self {
            Self::Channels | Self::Code | Self::Worker | Self::Granted => vec!["s3:GetObject"],
            Self::Output => vec!["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"],
            Self::Checkpoints => {
                vec!["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject"]
            }
        }
    }

    pub(super) fn writes(self) -> bool {
        matches!(self, Self::Output | Self::Checkpoints)
    }
}

impl Reach {
    /// The keys as patterns, for ARNs and for `s3:prefix` alike.
    fn patterns(&self) -> Vec<String> {
        match &self.place {
            Place::Object(key) => vec![key.clone()],
            Place::Prefix(key) if key.trim_matches('/').is_empty() => vec!["*".to_owned()],
            // What is written below a prefix comes after a slash, whether one was written or not.
            Place::Prefix(key) if self.purpose.writes() => vec![format!("{}/*", key.trim_end_matches('/'))],
            Place::Prefix(key) if key.ends_with('/') => vec![format!("{key}*")],
            // Without a slash it may be one object.
            Place::Prefix(key) => vec![key.clone(), format!("{key}/*")],
        }
    }

    /// Whether the service lists it: an archive is fetched by its key, a channel's manifest is looked up first.
    fn is_listed(&self) -> bool {
        matches!(self.place, Place::Prefix(_)) || self.purpose == Purpose::Channels
    }

    fn key(&self) -> &str {
        let (Place::Prefix(key) | Place::Object(key)) = &self.place;
        key
    }

    pub(super) fn key_length(&self) -> usize {
        self.key().len()
    }

    /// The directory above, unless that is the bucket itself.
    fn parent(&self) -> Option<&str> {
        let (parent, _) = self.key().trim_end_matches('/').rsplit_once('/')?;
        (!parent.trim_matches('/').is_empty()).then_some(parent)
    }

    pub(super) fn can_widen(&self) -> bool {
        self.parent().is_some()
    }

    /// Widens it to the directory above, if there is one.
    pub(super) fn widen(&mut self) {
        if let Some(parent) = self.parent() {
            self.place = Place::Prefix(format!("{parent}/"));
        }
    }
}

/// A key as a pattern of IAM: its own wildcards are text, and the job's digest is any digest, so that the role of a
/// job that runs, or comes back on spot, still fits it when the next run is applied.
fn pattern(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    for c in key.chars() {
        match c {
            '*' | '?' | '$' => {
                out.push_str("${");
                out.push(c);
                out.push('}');
            }
            _ => out.push(c),
        }
    }
    out.replace(DIGEST_MARK, &"?".repeat(DIGEST_MARK.len()))
}

/// Everything of S3 that the job reaches.
pub(super) fn reaches(plan: &Plan) -> Vec<Reach> {
    let job = &plan.job;
    let mut out = Vec::new();
    let mut add = |purpose: Purpose, uri: Option<&String>, object: bool, because: String| {
        let Some((bucket, key)) = uri.and_then(|uri| split(uri)) else { return };
        let because = if key.contains(DIGEST_MARK) { format!("{because} of any run") } else { because };
        let key = pattern(&key);
        let place = if object { Place::Object(key) } else { Place::Prefix(key) };
        out.push(Reach { purpose, bucket, place, because });
    };
    for channel in &job.channels {
        let because = format!("channel `{}`", channel.name.value().map_or("", String::as_str));
        add(Purpose::Channels, channel.s3.value(), false, because.clone());
        add(Purpose::Channels, channel.manifest.value(), true, because.clone());
        add(Purpose::Channels, channel.converse.value(), false, because.clone());
        add(Purpose::Channels, channel.augmented_manifest.value(), true, because);
    }
    let packed =
        job.program.as_ref().filter(|_| !names::code_in_channel(plan)).and_then(|program| program.s3.value());
    add(Purpose::Code, packed, true, "`program s3=`".to_owned());
    if job.parallel.as_ref().and_then(|parallel| parallel.engine.get()) == Some(Engine::Worker) {
        add(Purpose::Worker, Some(&worker::prefix(plan)), false, "engine `worker`".to_owned());
    }
    for read in job.role.iter().flat_map(|role| &role.reads) {
        add(Purpose::Granted, read.s3.value(), false, "`role { read … }`".to_owned());
    }
    let output = job.output.as_ref().and_then(|output| output.s3.value());
    add(Purpose::Output, output, false, "`output`".to_owned());
    if let Some(debugger) = job.debugger.as_ref().filter(|_| sagemaker::takes_debugger(plan)) {
        add(Purpose::Output, debugger.s3.value(), false, "`debugger`".to_owned());
    }
    if let Some(profiler) = &job.profiler {
        add(Purpose::Output, profiler.s3.value(), false, "`profiler`".to_owned());
    }
    if let Some(tensorboard) = &job.tensorboard {
        add(Purpose::Output, tensorboard.s3.value(), false, "`tensorboard`".to_owned());
    }
    for member in &job.request {
        for (name, uri) in uris(&member.name, &member.value) {
            let purpose = if name.ends_with("OutputPath") { Purpose::Output } else { Purpose::Channels };
            add(purpose, Some(&uri), false, format!("`request {}`", member.name));
        }
    }
    let checkpoint = job.checkpoint.as_ref().and_then(|checkpoint| checkpoint.s3.value());
    add(Purpose::Checkpoints, checkpoint, false, "`checkpoint`".to_owned());
    out.extend(archive(plan));
    out
}

/// The archive that trainc uploads. Its digest too is any digest of that length.
fn archive(plan: &Plan) -> Option<Reach> {
    let (bucket, home) = split(&names::source_home(plan))?;
    let any = format!("{}/{}", pattern(&home), "?".repeat(names::SOURCE_DIGITS));
    if names::code_in_channel(plan) {
        return Some(Reach {
            purpose: Purpose::Code,
            bucket,
            place: Place::Prefix(any),
            because: "channel `code`, in any version".to_owned(),
        });
    }
    let place = Place::Object(format!("{any}/sourcedir.tar.gz"));
    names::has_archive(plan).then(|| Reach {
        purpose: Purpose::Code,
        bucket,
        place,
        because: "`program`, in any version".to_owned(),
    })
}

/// The statements of what is reached: one for the listing of each bucket, one for each purpose.
pub(super) fn statements(partition: &str, reaches: &[Reach]) -> Vec<Statement> {
    let mut out = Vec::new();
    let mut buckets: Vec<&str> = Vec::new();
    for reach in reaches.iter().filter(|reach| reach.is_listed()) {
        if !buckets.contains(&reach.bucket.as_str()) {
            buckets.push(&reach.bucket);
        }
    }
    for (at, bucket) in buckets.into_iter().enumerate() {
        let here: Vec<&Reach> =
            reaches.iter().filter(|reach| reach.is_listed() && reach.bucket == bucket).collect();
        let patterns: Vec<String> = here.iter().flat_map(|reach| reach.patterns()).collect();
        let prefixes = narrowest(&patterns);
        let whole = prefixes.iter().any(|prefix| prefix == "*");
        out.push(Statement {
            // Numbered: names of buckets may differ in nothing but what a Sid cannot hold.
            sid: format!("ListBucket{}", at + 1),
            because: because(&here),
            actions: vec!["s3:ListBucket"],
            resources: vec![format!("arn:{partition}:s3:::{bucket}")],
            conditions: if whole {
                Vec::new()
            } else {
                vec![Condition::new("StringLike", "s3:prefix", prefixes)]
            },
        });
    }
    for purpose in Purpose::ALL {
        let here: Vec<&Reach> = reaches.iter().filter(|reach| reach.purpose == purpose).collect();
        if here.is_empty() {
            continue;
        }
        let arn = |reach: &&Reach| -> Vec<String> {
            reach
                .patterns()
                .iter()
                .map(|pattern| format!("arn:{partition}:s3:::{}/{pattern}", reach.bucket))
                .collect()
        };
        out.push(Statement {
            sid: purpose.sid().to_owned(),
            because: because(&here),
            actions: purpose.actions(),
            resources: narrowest(&here.iter().flat_map(arn).collect::<Vec<_>>()),
            conditions: Vec::new(),
        });
    }
    out
}

fn because(reaches: &[&Reach]) -> String {
    let mut nodes: Vec<&str> = Vec::new();
    for reach in reaches {
        if !nodes.contains(&reach.because.as_str()) {
            nodes.push(&reach.because);
        }
    }
    text::list(&nodes, "and")
}

/// The patterns without those that another one covers, in the order given.
fn narrowest(patterns: &[String]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for (at, pattern) in patterns.iter().enumerate() {
        let covered = patterns.iter().enumerate().any(|(other_at, other)| {
            let wider = other.strip_suffix('*').is_some_and(|stem| pattern.starts_with(stem));
            other_at != at && wider && (other != pattern || other_at < at)
        });
        if !covered && !out.contains(pattern) {
            out.push(pattern.clone());
        }
    }
    out
}

/// Bucket and key of an S3 URI.
fn split(uri: &str) -> Option<(String, String)> {
    let parts = s3::parse(uri)?;
    (!parts.bucket.is_empty()).then(|| (parts.bucket.to_owned(), parts.key.to_owned()))
}

/// The S3 URIs of a raw member, each with the name of the member that holds it.
fn uris(name: &str, value: &Raw) -> Vec<(String, String)> {
    match value {
        Raw::Scalar(_) => value
            .text()
            .filter(|text| s3::parse(text).is_some())
            .map(|text| (name.to_owned(), text.to_owned()))
            .into_iter()
            .collect(),
        Raw::List(items) => items.iter().flat_map(|item| uris(name, item)).collect(),
        Raw::Object(members) => members.iter().flat_map(|member| uris(&member.name, &member.value)).collect(),
    }
}
