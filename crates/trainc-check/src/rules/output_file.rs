//! Prefixes that are written as files.

use crate::Context;
use crate::queries::s3;
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Access, LocationField};

declare_code!(T0840, "prefix-is-a-file", Note, "a prefix that the job writes to with the name of a file");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0840];

/// Ends of the names of files that jobs write.
const ENDS: &[&str] = &[
    ".tar.gz",
    ".tgz",
    ".tar",
    ".zip",
    ".gz",
    ".pt",
    ".pth",
    ".ckpt",
    ".bin",
    ".safetensors",
    ".onnx",
    ".h5",
    ".pkl",
    ".json",
    ".jsonl",
    ".csv",
    ".txt",
    ".log",
];

/// Notes each location that SageMaker uses as a prefix and that has the name of a file.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    for LocationField { field, span: fallback, name, access } in context.plan.job.location_fields() {
        let Some(uri) = field.val().filter(|_| access == Access::Write) else { continue };
        let Some(parsed) = s3::parse(&uri.value) else { continue };
        let Some(end) = ENDS.iter().find(|end| parsed.key.to_ascii_lowercase().ends_with(*end)) else {
            continue;
        };
        let span = uri.span_or(fallback);
        let shown = s3::show_digest_placeholder(&uri.value);
        let (directory, file) = shown.rsplit_once('/').unwrap_or((&shown, ""));
        let diagnostic = Diagnostic::new(
            &T0840,
            span,
            format!("`{name}` is a prefix, not a file: `{file}` becomes a directory"),
        );
        let diagnostic = if name == "output s3=" {
            diagnostic.note(format!("SageMaker writes the model to `{shown}/JOBNAME/output/model.tar.gz`"))
        } else {
            diagnostic.note(format!("objects are written below `{shown}/`"))
        };
        let instead = format!("\"{directory}/\"");
        problems.push(if context.is_literal(span, &uri.value) {
            diagnostic.help(format!("write `{instead}`")).fix(span, instead)
        } else {
            diagnostic.help(format!("write the prefix without `{end}`"))
        });
    }
}
