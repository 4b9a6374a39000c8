//! The job's name: legal for CreateTrainingJob, and short enough that the digest after it cuts nothing off.

use super::limits::spelling;
use crate::Context;
use trainc_catalog::{limits, shapes};
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};

declare_code!(T0400, "invalid-job-name", Error, "a job name that SageMaker rejects");
declare_code!(T0401, "job-name-truncated", Note, "a job name that is truncated to make room for the digest");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0400, &T0401];

/// The name is judged as written; the name of the training job is made from it.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    if !context.plan.deployable {
        return;
    }
    let Some(name) = context.plan.job.name.val() else { return };
    let span = name.span_or(context.plan.job.span);
    let Some(shape) = shapes::member("CreateTrainingJob", "TrainingJobName") else { return };
    let max = shape.max.unwrap_or(f64::MAX);
    // A name that is too long is cut, so only its letters are judged: piece by piece, as the pattern bounds the length.
    let pieces: Vec<char> = name.value.chars().collect();
    let legal = !pieces.is_empty()
        && pieces.chunks(8).all(|piece| shape.takes_text(&format!("a{}a", piece.iter().collect::<String>())))
        && fits_ends(&pieces);
    if !legal {
        let near = spelling(&name.value, '-');
        let bad: Vec<String> = odd(&name.value);
        let diagnostic = Diagnostic::new(
            &T0400,
            span,
            format!("`{}` cannot name a training job", name.value),
        )
        .here(if pieces.is_empty() {
            "is empty".to_owned()
        } else if bad.is_empty() {
            "begins or ends with a hyphen".to_owned()
        } else {
            format!("has {}", text::list(&bad, "and"))
        })
        .note("letters, digits and hyphens inside: `TrainingJobName`, botocore's shape of CreateTrainingJob");
        problems.push(if near.is_empty() {
            diagnostic.help("write a name, as `\"my-first-job\"`")
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
                format!("the name has {} characters; {room} of them reach the training job", pieces.len()),
            )
            .note(format!(
                "the training job is called `<job>-<{} hex digits of the digest>`, at most {max} characters",
                digest.value
            ))
            .fact("characters", pieces.len())
            .fact("kept", room),
        );
    }
}

fn fits_ends(name: &[char]) -> bool {
    name.first().is_some_and(char::is_ascii_alphanumeric)
        && name.last().is_some_and(char::is_ascii_alphanumeric)
}

/// The characters that make the name illegal, in words.
fn odd(name: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for c in name.chars().filter(|c| !c.is_ascii_alphanumeric() && *c != '-') {
        let word = match c {
            '_' => "an underscore".to_owned(),
            ' ' => "a blank".to_owned(),
            c if c.is_control() => "a control character".to_owned(),
            c => format!("`{c}`"),
        };
        if !out.contains(&word) {
            out.push(word);
        }
    }
    out
}
