//! The S3 locations that the job accesses, and their policy statements.
//!
//! A prefix of S3 is a prefix of keys, not a directory: `s3://b/train` also lists `train2/x`. The policy
//! grants the directory that is meant, `train/*`, and a rule warns about the missing slash.

use super::statement::{Condition, Statement};
use crate::container::{ARCHIVE, KEY};
use crate::fill::Fill;
use crate::{archive, names};
use trainc_diag::text;
use trainc_ir::plan::DIGEST_MARK;
use trainc_ir::{Access, KeyPlace, Plan, s3};

/// The purpose of an access; each has one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Purpose {
    Channels,
    Code,
    Worker,
    Granted,
    Output,
    Checkpoints,
}

/// The keys of an access, as [`to_iam_pattern`]s.
#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyPattern {
    /// All keys below a prefix; empty for the whole bucket.
    Prefix(String),
    /// One object.
    Object(String),
}

/// An S3 location that the job accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct S3Access {
    pub(super) purpose: Purpose,
    bucket: String,
    keys: KeyPattern,
    /// The node that requires it.
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

    /// Returns the actions; only the checkpoint sync deletes, since it mirrors local deletions.
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

impl S3Access {
    /// Returns the keys as patterns, for ARNs and for `s3:prefix`.
    fn patterns(&self) -> Vec<String> {
        match &self.keys {
            KeyPattern::Object(key) => vec![key.clone()],
            KeyPattern::Prefix(key) if key.trim_matches('/').is_empty() => vec!["*".to_owned()],
            // Keys written below a prefix follow a slash, even if the prefix has none.
            KeyPattern::Prefix(key) if self.purpose.writes() => {
                vec![format!("{}/*", key.trim_end_matches('/'))]
            }
            KeyPattern::Prefix(key) if key.ends_with('/') => vec![format!("{key}*")],
            // Without a slash it may also be one object.
            KeyPattern::Prefix(key) => vec![key.clone(), format!("{key}/*")],
        }
    }

    /// Returns whether SageMaker lists the keys: it downloads an archive by its key, but looks up a channel's
    /// manifest first.
    fn is_listed(&self) -> bool {
        matches!(self.keys, KeyPattern::Prefix(_)) || self.purpose == Purpose::Channels
    }

    fn key(&self) -> &str {
        let (KeyPattern::Prefix(key) | KeyPattern::Object(key)) = &self.keys;
        key
    }

    pub(super) fn key_length(&self) -> usize {
        self.key().len()
    }

    /// Returns the parent directory, unless that is the bucket.
    fn parent(&self) -> Option<&str> {
        let (parent, _) = self.key().trim_end_matches('/').rsplit_once('/')?;
        (!parent.trim_matches('/').is_empty()).then_some(parent)
    }

    pub(super) fn can_widen(&self) -> bool {
        self.parent().is_some()
    }

    /// Widens it to the parent directory, if there is one.
    pub(super) fn widen(&mut self) {
        if let Some(parent) = self.parent() {
            self.keys = KeyPattern::Prefix(format!("{parent}/"));
        }
    }
}

/// Converts a key to an IAM pattern: wildcards in the key are escaped, and the job's digest matches any
/// digest, so that the role still covers a job that is running, or restarts on spot, when the next run is
/// applied.
fn to_iam_pattern(key: &str) -> String {
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
    Fill::Digest(&"?".repeat(DIGEST_MARK.len())).text(&out)
}

/// Returns the S3 locations that the job accesses.
pub(super) fn s3_accesses(plan: &Plan) -> Vec<S3Access> {
    let job = &plan.job;
    let mut out = Vec::new();
    let mut add = |purpose: Purpose, uri: Option<&str>, object: bool, because: String| {
        let Some((bucket, key)) = uri.and_then(split) else { return };
        let because = if key.contains(DIGEST_MARK) { format!("{because} of any run") } else { because };
        let key = to_iam_pattern(&key);
        let keys = if object { KeyPattern::Object(key) } else { KeyPattern::Prefix(key) };
        out.push(S3Access { purpose, bucket, keys, because });
    };
    for channel in &job.channels {
        let because = format!("channel `{}`", channel.name.value().map_or("", String::as_str));
        add(Purpose::Channels, channel.s3.text(), false, because.clone());
        add(Purpose::Channels, channel.manifest.text(), true, because.clone());
        add(Purpose::Channels, channel.converse.text(), false, because.clone());
        add(Purpose::Channels, channel.augmented_manifest.text(), true, because);
    }
    let existing = archive::existing_uri(plan).filter(|_| plan.payload.code_channel().is_none());
    add(Purpose::Code, existing, true, "`program s3=`".to_owned());
    if plan.is_worker() {
        add(Purpose::Worker, Some(&*names::worker_prefix(plan)), false, "engine `worker`".to_owned());
    }
    for read in job.role.iter().flat_map(|role| &role.reads) {
        add(Purpose::Granted, read.s3.text(), false, "`role { read … }`".to_owned());
    }
    add(Purpose::Output, plan.output_path(), false, "`output`".to_owned());
    if let Some(debugger) = plan.debugger() {
        add(Purpose::Output, debugger.s3.text(), false, "`debugger`".to_owned());
    }
    if let Some(profiler) = &job.profiler {
        add(Purpose::Output, profiler.s3.text(), false, "`profiler`".to_owned());
    }
    if let Some(tensorboard) = &job.tensorboard {
        add(Purpose::Output, tensorboard.s3.text(), false, "`tensorboard`".to_owned());
    }
    for member in &job.request {
        for location in member.locations() {
            let purpose = if location.access == Access::Write { Purpose::Output } else { Purpose::Channels };
            add(purpose, Some(location.uri), false, format!("`request {}`", member.name));
        }
    }
    let checkpoint = job.checkpoint.as_ref().and_then(|checkpoint| checkpoint.s3.text());
    add(Purpose::Checkpoints, checkpoint, false, "`checkpoint`".to_owned());
    out.extend(archive_accesses(plan));
    out
}

/// Returns the archive that trainc uploads and the key next to it, with patterns that match any digest.
fn archive_accesses(plan: &Plan) -> Vec<S3Access> {
    let Some((bucket, home)) = split(&names::source_base_prefix(plan)) else { return Vec::new() };
    let any = format!("{}/{}", to_iam_pattern(&home), "?".repeat(archive::PREFIX_DIGITS));
    if plan.payload.code_channel().is_some() {
        return vec![S3Access {
            purpose: Purpose::Code,
            bucket,
            keys: KeyPattern::Prefix(any),
            because: "channel `code`, in any version".to_owned(),
        }];
    }
    let object = |name: &str, because: &str| S3Access {
        purpose: Purpose::Code,
        bucket: bucket.clone(),
        keys: KeyPattern::Object(format!("{any}/{name}")),
        because: format!("{because}, in any version"),
    };
    let archive = plan.payload.is_packed().then(|| object(ARCHIVE, "`program`"));
    let has_key = plan.payload.key == Some(KeyPlace::Archive);
    archive.into_iter().chain(has_key.then(|| object(KEY, "`budget enforce=`"))).collect()
}

/// Returns the statements of accesses: one to list each bucket, one for each purpose, and for each owner of
/// the buckets that are written to, which is a condition. Reads have none: public data belongs to other
/// accounts.
pub(super) fn statements(plan: &Plan, accesses: &[S3Access]) -> Vec<Statement> {
    let partition = names::partition(plan);
    let mut out = Vec::new();
    let mut buckets: Vec<&str> = Vec::new();
    for access in accesses.iter().filter(|access| access.is_listed()) {
        if !buckets.contains(&access.bucket.as_str()) {
            buckets.push(&access.bucket);
        }
    }
    for (at, bucket) in buckets.into_iter().enumerate() {
        let here: Vec<&S3Access> =
            accesses.iter().filter(|access| access.is_listed() && access.bucket == bucket).collect();
        let patterns: Vec<String> = here.iter().flat_map(|access| access.patterns()).collect();
        let prefixes = remove_covered_patterns(&patterns);
        let whole = prefixes.iter().any(|prefix| prefix == "*");
        out.push(Statement {
            // Numbered, since bucket names may only differ in characters that are invalid in a Sid.
            sid: format!("ListBucket{}", at + 1),
            because: join_reasons(&here),
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
        let all = accesses.iter().filter(|access| access.purpose == purpose);
        let owner_of = |access: &S3Access| {
            let owner = || plan.job.bucket_owner(&access.bucket).unwrap_or_else(|| names::account(plan));
            purpose.writes().then(owner)
        };
        let mut by_owner: Vec<(Option<&str>, Vec<&S3Access>)> = Vec::new();
        for access in all {
            let owner = owner_of(access);
            match by_owner.iter_mut().find(|(known, _)| *known == owner) {
                Some((_, here)) => here.push(access),
                None => by_owner.push((owner, vec![access])),
            }
        }
        let arn = |access: &&S3Access| -> Vec<String> {
            access
                .patterns()
                .iter()
                .map(|pattern| format!("arn:{partition}:s3:::{}/{pattern}", access.bucket))
                .collect()
        };
        for (at, (owner, here)) in by_owner.into_iter().enumerate() {
            let condition = |account| Condition::single("StringEquals", "aws:ResourceAccount", account);
            out.push(Statement {
                sid: match at {
                    0 => purpose.sid().to_owned(),
                    more => format!("{}{}", purpose.sid(), more + 1),
                },
                because: join_reasons(&here),
                actions: purpose.actions(),
                resources: remove_covered_patterns(&here.iter().flat_map(arn).collect::<Vec<_>>()),
                conditions: owner.map(condition).into_iter().collect(),
            });
        }
    }
    out
}

fn join_reasons(accesses: &[&S3Access]) -> String {
    let mut nodes: Vec<&str> = Vec::new();
    for access in accesses {
        if !nodes.contains(&access.because.as_str()) {
            nodes.push(&access.because);
        }
    }
    text::list(&nodes, "and")
}

/// Removes patterns that another one covers.
fn remove_covered_patterns(patterns: &[String]) -> Vec<String> {
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

/// Splits an S3 URI into bucket and key.
fn split(uri: &str) -> Option<(String, String)> {
    let parts = s3::parse(uri)?;
    (!parts.bucket.is_empty()).then(|| (parts.bucket.to_owned(), parts.key.to_owned()))
}
