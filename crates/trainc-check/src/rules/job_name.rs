//! The job's name: valid for CreateTrainingJob, and short enough to append the digest.

use crate::Context;
use crate::queries::spelling::nearest_spelling;
use trainc_catalog::{limits, shapes};
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};

declare_code!(T0400, "invalid-job-name", Error, "a job name that SageMaker rejects");
declare_code!(T0401, "job-name-truncated", Note, "a job name that is truncated to make room for the digest");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0400, &T0401];

/// Checks the name in the manifest, from which the name of the training job is derived.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let Some(name) = context.plan.job.name.val() else { return };
    let span = name.span_or(context.plan.job.span);
    let Some(shape) = shapes::member_at_path("CreateTrainingJob", "TrainingJobName") else { return };
    let max = shape.max.unwrap_or(f64::MAX);
    // A long name is truncated, so only its characters are checked: in pieces, as the pattern also bounds the
    // length.
    let pieces: Vec<char> = name.value.chars().collect();
    let is_valid = !pieces.is_empty()
        && pieces.chunks(8).all(|piece| shape.takes_text(&format!("a{}a", piece.iter().collect::<String>())))
        && has_alphanumeric_ends(&pieces);
    if !is_valid {
        let near = nearest_spelling(&name.value, '-');
        let bad: Vec<String> = invalid_characters(&name.value);
        let diagnostic = Diagnostic::new(
            &T0400,
            span,
            format!("`{}` is not a valid training job name", name.value),
        )
        .primary_label(if pieces.is_empty() {
            "is empty".to_owned()
        } else if bad.is_empty() {
            "starts or ends with a hyphen".to_owned()
        } else {
            format!("contains {}", text::list(&bad, "and"))
        })
        .note("only letters, digits and hyphens between them are allowed (`TrainingJobName`, \
            botocore's model of CreateTrainingJob)");
        problems.push(if near.is_empty() {
            diagnostic.help("write a name, e.g. `\"my-first-job\"`")
        } else {
            diagnostic.help(format!("write `\"{near}\"`")).fix(span, format!("\"{near}\""))
        });
        return;
    }
    let Some(digest) = limits::get("job.name-digest") else { return };
    let room = max - digest.value as f64 - 1.0;
    if pieces.len() as f64 > room {
        problems.push(
            Diagnostic::new(
                &T0401,
                span,
                format!("the name has {} characters; the training job's name keeps {room} of them", pieces.len()),
            )
            .note(format!(
                "the training job is named `<job>-<{} hex digits of the digest>`, with at most \
                    {max} characters",
                digest.value
            ))
            .fact("characters", pieces.len())
            .fact("kept", room),
        );
    }
}

fn has_alphanumeric_ends(name: &[char]) -> bool {
    name.first().is_some_and(char::is_ascii_alphanumeric)
        && name.last().is_some_and(char::is_ascii_alphanumeric)
}

/// Describes the invalid characters of a name.
fn invalid_characters(name: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for c in name.chars().filter(|c| !c.is_ascii_alphanumeric() && *c != '-') {
        let word = match c {
            '_' => "an underscore".to_owned(),
            ' ' => "a space".to_owned(),
            c if c.is_control() => "a control character".to_owned(),
            c => format!("`{c}`"),
        };
        if !out.contains(&word) {
            out.push(word);
        }
    }
    out
}
