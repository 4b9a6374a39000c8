//! Lengths, counts, ranges and patterns: the request as it would be sent, validated with the service's
//! shapes.
//!
//! The facts are botocore's (`catalog::shapes`); this file finds the node to blame and describes the problem.
//! Job name, durations and S3 URIs have separate rules.

mod member_places;
mod request_members;

pub(super) use request_members::is_overridden;
use crate::Context;
use crate::queries::spelling::nearest_spelling;
use crate::shared_codes::T0410;
use serde_json::Value;
use std::cell::LazyCell;
use std::collections::BTreeSet;
use trainc_catalog::shapes::{self, Violation, ViolationKind};
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_emit as emit;
use trainc_ir::{Plan, Scalar};

declare_code!(T0402, "too-many-hyperparameters", Error, "more hyperparameters than a training job accepts");
declare_code!(T0403, "hyperparameter-too-long", Error, "a hyperparameter that exceeds the length limit");
declare_code!(
    T0412,
    "metric-limit",
    Error,
    "a metric name, a metric expression or a number of metrics outside the service's limits"
);
declare_code!(T0415, "tag-limit", Error, "a tag or a number of tags outside the limits of AWS");
declare_code!(
    T0418,
    "channel-limit",
    Error,
    "a channel name or a number of channels outside the service's limits"
);
declare_code!(
    T0420,
    "network-limit",
    Error,
    "a subnet, a security group or their number outside the service's limits"
);
declare_code!(T0444, "service-limit", Error, "a value outside the limits of its request member");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[
    &T0402,
    &T0403,
    &T0410,
    &T0412,
    &T0415,
    &T0418,
    &T0420,
    &T0444,
    &request_members::T0445,
    &request_members::T0446,
];

/// The form of values whose pattern is hard to read.
const FORMS: &[(&str, &str)] = &[
    ("OutputDataConfig.KmsKeyId", "arn:aws:kms:REGION:ACCOUNT:key/ID"),
    ("ResourceConfig.TrainingPlanArn", "arn:aws:sagemaker:REGION:ACCOUNT:training-plan/NAME"),
    ("ResourceConfig.VolumeKmsKeyId", "arn:aws:kms:REGION:ACCOUNT:key/ID"),
    ("RoleArn", "arn:aws:iam::ACCOUNT:role/NAME"),
];

/// A placeholder for the job's digest: no limit depends on its digits, and the real one needs a second
/// request.
const ANY_DIGEST: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Validates the emitted request and blames the nodes.
///
/// The request is made of the known values, so members of fields already reported are invalid: only paths
/// whose node has a value have a place, and the others are skipped.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let request = emit::training_job_request(plan, &emit::Identity::new(plan, ANY_DIGEST));
    let Some(violations) = shapes::validate("CreateTrainingJob", &request) else { return };
    request_members::check_members(context, &violations, problems);
    // Most manifests have no violation and need no places.
    let places = LazyCell::new(|| member_places::member_places(plan));
    for violation in &violations {
        if matches!(violation.kind, ViolationKind::Missing | ViolationKind::Unknown | ViolationKind::Type)
            || emit::is_unresolved(&violation.path, &violation.found)
            || request_members::is_set_by_request(plan, &violation.path)
        {
            continue;
        }
        // A text of invalid length violates the pattern too; only the more specific violation is reported.
        let has_other = |kind: ViolationKind| {
            violations.iter().any(|other| other.path == violation.path && other.kind == kind)
        };
        let empty = violation.found.is_empty() || violation.expected == "at least 1 characters";
        let repeats_pattern =
            violation.kind == ViolationKind::TooShort && !empty && has_other(ViolationKind::Pattern);
        let is_short = empty && has_other(ViolationKind::TooShort);
        let repeats_length =
            violation.kind == ViolationKind::Pattern && (is_short || has_other(ViolationKind::TooLong));
        if repeats_pattern || repeats_length {
            continue;
        }
        let Some(place) = places.iter().find(|place| place.path == violation.path) else { continue };
        // An empty list is reported already.
        if place.code == &T0420 && violation.kind == ViolationKind::TooShort && is_list_written(plan, &place.path)
        {
            continue;
        }
        let mut diagnostic = Diagnostic::new(place.code, place.span, message(place, violation))
            .note(format!("{}, botocore's model of CreateTrainingJob", format_member_path(&violation.path)))
            .fact("member", violation.path.as_str());
        if violation.kind == ViolationKind::Pattern {
            diagnostic = diagnostic.note(format!("it must match `{}`", violation.expected));
        }
        problems.push(help(context, &request, place, violation, diagnostic));
    }
}

/// Returns a path as AWS's documentation writes it: `Environment["K"]` as `Environment`.
fn format_member_path(path: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for c in path.chars() {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            c if !inside => out.push(c),
            _ => {}
        }
    }
    format!("`{out}`")
}

fn message(place: &member_places::MemberPlace, violation: &Violation) -> String {
    let what = match &place.key {
        None => place.what.clone(),
        Some(key) if is_key_violation(key, violation) => format!("the name of {}", place.what),
        Some(_) => format!("the value of {}", place.what),
    };
    if place.code == &T0402 {
        let count = violation.found.trim_end_matches(" entries");
        return format!(
            "the job has {count} hyperparameters; SageMaker accepts {}",
            violation.expected.trim_end_matches(" entries")
        );
    }
    match violation.kind {
        ViolationKind::TooLong | ViolationKind::TooShort => {
            format!(
                "{what} has {}; SageMaker accepts {}",
                singularize(&violation.found),
                singularize(&violation.expected)
            )
        }
        ViolationKind::OutOfRange => {
            format!("{what} is {}; SageMaker accepts {}", violation.found, violation.expected)
        }
        ViolationKind::Enum => {
            format!("{what} is `{}`; SageMaker accepts {}", violation.found, violation.expected)
        }
        ViolationKind::Pattern if place.key.as_ref().is_some_and(|key| is_key_violation(key, violation)) => {
            format!("{}: SageMaker rejects this name", place.what)
        }
        ViolationKind::Pattern | ViolationKind::Missing | ViolationKind::Unknown | ViolationKind::Type => {
            format!("{what} is `{}`, which SageMaker rejects", truncate(&violation.found))
        }
    }
}

/// Returns whether a violation is about a map's key: key and value are validated under the same path.
fn is_key_violation(key: &str, violation: &Violation) -> bool {
    if violation.kind == ViolationKind::Pattern {
        return violation.found == key;
    }
    violation.found == format!("{} characters", key.chars().count())
}

/// Writes a quantity of one in the singular: `1 entry`.
pub(super) fn singularize(words: &str) -> String {
    for (many, one) in [("1 entries", "1 entry"), ("1 characters", "1 character")] {
        if let Some(before) =
            words.strip_suffix(many).filter(|before| !before.ends_with(|c: char| c.is_ascii_digit()))
        {
            return format!("{before}{one}");
        }
    }
    words.to_owned()
}

pub(super) fn truncate(found: &str) -> String {
    let cut: String = found.chars().take(60).collect();
    if cut.len() < found.len() { format!("{cut}…") } else { cut }
}

fn help(
    context: &Context,
    request: &Value,
    place: &member_places::MemberPlace,
    violation: &Violation,
    diagnostic: Diagnostic,
) -> Diagnostic {
    if place.code == &T0402 {
        return note_generated_hyperparameters(context, request, diagnostic);
    }
    if place.code == &T0403 {
        return match place.key.as_deref() {
            Some("mp_parameters") => diagnostic.help("remove the parameters that are set to their defaults"),
            Some(key) if is_key_violation(key, violation) => diagnostic.help("write a shorter name"),
            key => diagnostic
                .help("put it into a file of the program's directory, and pass the file's path")
                .note(format!(
                    "the length is that of the value as sent: encoded as JSON{}, and quoted for \
                        the container's shell",
                    key.and_then(|key| written_length(context, key))
                        .map(|written| format!(" ({written} as written)"))
                        .unwrap_or_default()
                )),
        };
    }
    if place.code == &T0420 && violation.kind == ViolationKind::TooShort {
        let missing = if violation.path.ends_with("Subnets") {
            "subnets \"subnet-…\""
        } else {
            "security-groups \"sg-…\""
        };
        return diagnostic
            .add(missing).and_text(": a job in a VPC requires both")
            .note("without `network` the job runs outside your VPC");
    }
    // `subnets "subnet-a, subnet-b"`: several in one string.
    let written = context.sources.slice(place.span);
    let parts: Vec<&str> = written.split([',', ' ', '"']).filter(|part| !part.is_empty()).collect();
    let is_one_text = written.starts_with('"') && written.matches('"').count() == 2;
    if place.code == &T0420 && is_one_text && parts.len() > 1 {
        let quoted: Vec<String> = parts.iter().map(|part| format!("\"{part}\"")).collect();
        return diagnostic.help(format!("quote each one separately: `{}`", quoted.join(" ")));
    }
    if place.code == &T0410 && place.key.as_deref().is_some_and(|key| !is_key_violation(key, violation)) {
        return diagnostic.help("put it into a file of the program's directory; a secret goes into `secret \
            \"NAME\" from=\"arn:…\"`");
    }
    if let Some(form) = FORMS.iter().find(|(path, _)| *path == place.path).map(|(_, form)| *form) {
        return diagnostic.help(format!("write it as `{form}`"));
    }
    if let (Some(joint), ViolationKind::Pattern) = (place.joint, violation.kind) {
        let legal = nearest_spelling(&violation.found, joint);
        if !legal.is_empty() {
            let text = if joint == '_' { legal.clone() } else { format!("\"{legal}\"") };
            return diagnostic.help(format!("write `{text}`")).fix(place.span, text);
        }
    }
    diagnostic
}

/// Returns whether a list of `network` is written.
fn is_list_written(plan: &Plan, path: &str) -> bool {
    plan.job.network.as_ref().is_some_and(|network| {
        let span =
            if path.ends_with("Subnets") { network.subnets_span } else { network.security_groups_span };
        span.is_some()
    })
}

/// Returns the length of a hyperparameter's text in the manifest.
fn written_length(context: &Context, key: &str) -> Option<String> {
    let program = context.plan.job.program.as_ref()?;
    match program.hyperparameters.iter().find(|h| h.name == key)?.value.value()? {
        Scalar::Text(value) => Some(text::count(value.chars().count() as u64, "character")),
        _ => None,
    }
}

/// Adds the hyperparameters that are not in the manifest.
fn note_generated_hyperparameters(context: &Context, request: &Value, diagnostic: Diagnostic) -> Diagnostic {
    let Some(program) = &context.plan.job.program else { return diagnostic };
    let Some(Value::Object(sent)) = request.get("HyperParameters") else { return diagnostic };
    let named: BTreeSet<&str> = program.hyperparameters.iter().map(|h| h.name.as_str()).collect();
    let made: Vec<&str> = sent.keys().map(String::as_str).filter(|key| !named.contains(key)).collect();
    let written = text::count((sent.len() - made.len()) as u64, "hyperparameter");
    diagnostic
        .note(format!("{written} in the manifest, {} added by trainc: {}", made.len(), made.join(", ")))
        .help("put several of them into a file of the program's directory, and pass the file's path")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_lose_their_indices() {
        assert_eq!(format_member_path("Environment[\"K\"]"), "`Environment`");
        assert_eq!(format_member_path("InputDataConfig[3].ChannelName"), "`InputDataConfig.ChannelName`");
    }
}
