//! The change of the training job: whether a run of this or of another digest exists.

use crate::account::{Tags, TrainingJob};
use crate::change::{Action, Change, Choices, Difference, Obstacle, Target};
use crate::desired::Desired;
use crate::observed::Runs;
use crate::ownership::{is_run_of_digest, missing_tags, owner, tag_differences};
use serde_json::Value;
use trainc_diag::credentials::{self, NamedCredential};
use trainc_emit::ResourceKind;
use trainc_emit::{is_unresolved, sort_named_lists};

/// Decides which training job to attach to or start.
pub fn target(desired: &Desired, runs: &Runs, choices: Choices) -> Target {
    let start =
        |run: usize| desired.name_of_run(run).map_or(Target::Blocked(Obstacle::RunsExhausted), Target::Start);
    match (&runs.latest, &runs.other) {
        (Some((job, tags)), _) => {
            let is_taken = choices.adopt && has_same_content(desired, job);
            if !is_run_of_digest(desired, tags) && !is_taken {
                Target::Blocked(foreign_job_obstacle(desired, job))
            } else if !choices.new_run && runs.other.is_some() && is_run_of_digest(desired, tags) {
                // A run without capacity never ran: the run of the other digest, which came later, is the
                // job's current version.
                let lacked = job.lacked_capacity();
                Target::Blocked(if lacked { Obstacle::OtherDigest } else { Obstacle::ConcurrentVersion })
            } else if (choices.wants_new_run(runs.number) && job.is_over()) || job.lacked_capacity() {
                // A run that found no capacity left the manifest unfulfilled: apply starts the next one.
                start(runs.number + 1)
            } else {
                // A second concurrent run of the same digest would repeat the same work.
                Target::Attach(job.name.clone())
            }
        }
        (None, Some(_)) if !choices.new_run => Target::Blocked(Obstacle::OtherDigest),
        (None, _) => start(1),
    }
}

pub(crate) fn job_change(desired: &Desired, runs: &Runs, choices: Choices) -> Change {
    let kind = ResourceKind::TrainingJob;
    let first = desired.name_of_run(1).unwrap_or_default();
    let first = first.as_str();
    match target(desired, runs, choices) {
        Target::Attach(name) => {
            let status = runs.latest.as_ref().map_or("", |(job, _)| job.status.as_str());
            match &runs.latest {
                Some((found, tags)) if !is_run_of_digest(desired, tags) => {
                    let because = format!("`--adopt`: it belongs to {}; {status}", owner(tags));
                    let mut change = Change::new(kind, &name, Action::Adopt, because);
                    change.differences = foreign_job_differences(desired, found, tags);
                    change
                }
                _ => Change::new(
                    kind,
                    &name,
                    Action::Unchanged,
                    format!("this digest already exists: {status}"),
                ),
            }
        }
        Target::Start(name) => {
            let because = match (&runs.latest, &runs.other) {
                (Some((before, _)), _) if before.lacked_capacity() => {
                    format!("after {}, which found no capacity", before.name)
                }
                (Some((before, _)), _) => format!("`--new-run` after {}: {}", before.name, before.status),
                (None, Some((other, _))) => {
                    let how = if other.is_over() { "after" } else { "in addition to" };
                    format!("`--new-run` {how} {}: {}", other.name, other.status)
                }
                (None, None) => "the training job: billing starts here".to_owned(),
            };
            let mut change = Change::new(kind, &name, Action::Create, because);
            change.differences =
                runs.other.as_ref().map_or_else(Vec::new, |(other, _)| differences(desired, other));
            change
        }
        Target::Blocked(Obstacle::OtherDigest) => {
            let (other, status) = runs
                .other
                .as_ref()
                .map_or(("", ""), |(other, _)| (other.name.as_str(), other.status.as_str()));
            let mut change = Change::new(
                kind,
                first,
                Action::Stop(Obstacle::OtherDigest),
                format!("{other} is a run of another digest of this job: {status}"),
            );
            change.differences =
                runs.other.as_ref().map_or_else(Vec::new, |(other, _)| differences(desired, other));
            change
        }
        Target::Blocked(Obstacle::ConcurrentVersion) => {
            let word = |job: &Option<(TrainingJob, Tags)>| {
                job.as_ref().map_or_else(String::new, |(job, _)| job.name.clone())
            };
            let (own, other) = (word(&runs.latest), word(&runs.other));
            let because =
                format!("{own} and {other} run at the same time, with different digests of one job");
            let mut change = Change::new(kind, &own, Action::Stop(Obstacle::ConcurrentVersion), because);
            change.differences =
                runs.other.as_ref().map_or_else(Vec::new, |(other, _)| differences(desired, other));
            change
        }
        Target::Blocked(Obstacle::RunsExhausted) => {
            let last = runs.latest.as_ref().map_or(first, |(job, _)| job.name.as_str());
            let because = format!("{last} is run {} of this digest: no run number is left", runs.number);
            Change::new(kind, last, Action::Stop(Obstacle::RunsExhausted), because)
        }
        Target::Blocked(obstacle) => {
            if let Some((found, tags)) = &runs.latest {
                return foreign_job_change(desired, found, tags);
            }
            Change::new(kind, first, Action::Stop(obstacle), "a training job with this name exists")
        }
    }
}

/// Returns the change for a training job that has our name but not our tags, with its differences.
pub fn foreign_job_change(desired: &Desired, found: &TrainingJob, tags: &Tags) -> Change {
    let obstacle = foreign_job_obstacle(desired, found);
    let other = match obstacle {
        Obstacle::DifferentContent => ", and was started with other settings",
        _ => "",
    };
    let because = format!("a training job with this name belongs to {}{other}", owner(tags));
    let mut change = Change::new(ResourceKind::TrainingJob, &found.name, Action::Stop(obstacle), because);
    change.differences = foreign_job_differences(desired, found, tags);
    change
}

/// Returns the obstacle for a job with our name but without our tags.
fn foreign_job_obstacle(desired: &Desired, found: &TrainingJob) -> Obstacle {
    if has_same_content(desired, found) { Obstacle::Foreign } else { Obstacle::DifferentContent }
}

/// Returns true if a job was started with the desired settings, as covered by the digest. A job cannot be
/// changed, so adopting one with other settings would mislabel it with this digest.
fn has_same_content(desired: &Desired, found: &TrainingJob) -> bool {
    content_differences(desired, found).is_empty()
}

/// Returns the obstacle to stopping a run that has our name but is not ours.
pub fn foreign_run_change(found: &TrainingJob, tags: &Tags) -> Change {
    let because = format!("`{}` is {} and belongs to {}", found.name, found.status, owner(tags));
    Change::new(ResourceKind::TrainingJob, &found.name, Action::Stop(Obstacle::Foreign), because)
}

/// Returns the obstacle for another version of the job that started at the same time, just before the run of
/// this name.
pub(crate) fn overtaken_run_change(desired: &Desired, other: &TrainingJob, name: &str) -> Change {
    let because = format!(
        "{} runs another digest of this job and was started at the same time, just before \
            {name}, which is being stopped",
        other.name
    );
    let mut change =
        Change::new(ResourceKind::TrainingJob, name, Action::Stop(Obstacle::OtherDigest), because);
    change.differences = differences(desired, other);
    change
}

/// Returns the differences of a job with our name that is not ours: first its settings, then its tags.
fn foreign_job_differences(desired: &Desired, found: &TrainingJob, tags: &Tags) -> Vec<Difference> {
    let mut out = content_differences(desired, found);
    // The role is part of an adoption, but not of the digest.
    let role = found.request.get("RoleArn").and_then(Value::as_str).unwrap_or_default();
    if role != desired.role_arn && !desired.role_arn.contains("${") {
        out.push(Difference::new("RoleArn", role, &desired.role_arn));
    }
    out.extend(tag_differences(&missing_tags(&desired.job_tags(), tags), tags));
    out
}

/// Members of a request that the service never adds.
const NEVER_ADDED: &[&str] =
    &["VpcConfig", "InputDataConfig", "CheckpointConfig", "TensorBoardOutputConfig", "ExperimentConfig"];

/// Returns the differences of another owner's job, including settings that only that job has.
fn content_differences(desired: &Desired, found: &TrainingJob) -> Vec<Difference> {
    let mut out = differences(desired, found);
    let none = serde_json::Map::new();
    let (there, here) =
        (found.request.as_object().unwrap_or(&none), desired.request.as_object().unwrap_or(&none));
    for (key, value) in there.iter().filter(|(key, _)| !here.contains_key(*key)) {
        if *value == Value::Bool(true) || (NEVER_ADDED.contains(&key.as_str()) && !is_nothing(value)) {
            out.push(Difference::new(key, value_text(value), "none"));
        }
    }
    let environment = |of: &'_ serde_json::Map<String, Value>| {
        of.get("Environment").and_then(Value::as_object).cloned().unwrap_or_default()
    };
    let (there, here) = (environment(there), environment(here));
    for (key, value) in there.iter().filter(|(key, _)| !here.contains_key(*key)) {
        let text = value_text(value);
        let hidden = is_secret(key, &text);
        let text = if hidden { format!("hidden, {} characters", text.chars().count()) } else { text };
        out.push(Difference::new(&format!("Environment.{key}"), text, "gone"));
    }
    out
}

/// Returns true for null, an empty list or an empty object, which some services return for members that were
/// not sent.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Members that do not affect what a run does.
const UNTOLD: &[&str] = &[
    "/TrainingJobName",
    "/Tags",
    "/RoleArn",
    "/HyperParameters/sagemaker_job_name",
    "/AlgorithmSpecification/MetricDefinitions",
];

/// Returns the differences between the settings of another run and the desired ones: only members that we
/// send, since the service adds others.
fn differences(desired: &Desired, other: &TrainingJob) -> Vec<Difference> {
    let mut out = Vec::new();
    let (mut wanted, mut found) = (desired.request.clone(), other.request.clone());
    sort_named_lists(&mut wanted);
    sort_named_lists(&mut found);
    compare("", Some(&wanted), &found, &desired.digest, &mut out);
    // trainc sets all hyperparameters, so a removed one is a difference too.
    if let (Some(Value::Object(wanted)), Some(Value::Object(found))) =
        (desired.request.get("HyperParameters"), other.request.get("HyperParameters"))
    {
        for (key, value) in found.iter().filter(|(key, _)| !wanted.contains_key(*key)) {
            out.push(Difference::new(&format!("HyperParameters.{key}"), value_text(value), "gone"));
        }
    }
    // Messages are written to logs, and values of others' jobs may be secrets.
    for one in &mut out {
        if let Some(key) =
            ["HyperParameters.", "Environment."].iter().find_map(|of| one.what.strip_prefix(of))
        {
            for text in [&mut one.found, &mut one.wanted] {
                if is_secret(key, text) {
                    *text = format!("hidden, {} characters", text.chars().count());
                }
            }
        }
    }
    out
}

/// Minimum length of a value that counts as a secret only because of its name.
const LEAST_SECRET: usize = 8;

/// Returns true if a value may be a credential, by its form or by the last word of its name.
fn is_secret(key: &str, text: &str) -> bool {
    let long = text.len() >= LEAST_SECRET && text != "none";
    let named = match credentials::classify_name(key) {
        // Any value of these is secret; the other names are also those of settings (`pad_token`, `sort_key`).
        Some(NamedCredential::Password | NamedCredential::Credential) => !text.is_empty(),
        Some(NamedCredential::Perhaps) => long,
        Some(NamedCredential::Digest) | None => false,
    };
    let of_wandb = || key.to_lowercase().split(['_', '-', '.']).any(|word| word == "wandb");
    credentials::find(text).is_some() || named || (long && of_wandb())
}

/// Returns true if two texts differ only in the digest, which is a consequence of other differences.
fn is_same_but_for_digest(wanted: &str, found: &str, digest: &str) -> bool {
    let Some((before, after)) = wanted.split_once(digest) else { return false };
    let between = found.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    between
        .is_some_and(|text| text.len() == digest.len() && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn compare(path: &str, wanted: Option<&Value>, found: &Value, digest: &str, out: &mut Vec<Difference>) {
    if UNTOLD.contains(&path) {
        return;
    }
    let Some(wanted) = wanted else { return };
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            for (key, value) in wanted {
                compare(
                    &format!("{path}/{key}"),
                    Some(value),
                    found.get(key).unwrap_or(&Value::Null),
                    digest,
                    out,
                );
            }
        }
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            for (at, (wanted, found)) in wanted.iter().zip(found).enumerate() {
                compare(&format!("{path}/{at}"), Some(wanted), found, digest, out);
            }
        }
        // IDs that the account fills in later are no difference.
        (Value::String(text), _) if is_unresolved(path, text) => {}
        (Value::Bool(false), Value::Null) => {}
        (Value::String(wanted), Value::String(found)) if is_same_but_for_digest(wanted, found, digest) => {}
        (wanted, found) if wanted != found => {
            let what = path.trim_start_matches('/').replace('/', ".");
            out.push(Difference::new(&what, value_text(found), value_text(wanted)));
        }
        _ => {}
    }
}

fn value_text(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
