//! Paths in the container: absolute, and not reserved by the service.

use crate::Context;
use trainc_catalog::reserved_names::{self, Kind};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Field, Val};

declare_code!(T0348, "relative-local-path", Error, "a container path that is not absolute");
declare_code!(T0349, "reserved-checkpoint-path", Warning, "a checkpoint directory that the service reserves");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0348, &T0349];

/// Checks `local` of `checkpoint`, `debugger` and `tensorboard`.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let job = &context.plan.job;
    let nodes: [Option<(&Field<String>, Span, &str)>; 3] = [
        job.checkpoint.as_ref().map(|node| (&node.local, node.span, "checkpoint")),
        job.debugger.as_ref().map(|node| (&node.local, node.span, "debugger")),
        job.tensorboard.as_ref().map(|node| (&node.local, node.span, "tensorboard")),
    ];
    for (field, span, node) in nodes.into_iter().flatten() {
        let Some(local) = field.val() else { continue };
        if check_absolute(context, local, span, node, problems) && node == "checkpoint" {
            check_reserved(context, local, span, problems);
        }
    }
}

fn check_absolute(
    context: &Context,
    local: &Val<String>,
    node: Span,
    what: &str,
    problems: &mut Problems,
) -> bool {
    let path = &local.value;
    let has_parent_component = path.split('/').any(|part| part == "..");
    if path.starts_with('/') && !has_parent_component {
        return true;
    }
    let span = local.span_or(node);
    let diagnostic = Diagnostic::new(
        &T0348,
        span,
        if has_parent_component {
            format!("`{path}` of `{what}` contains `..`")
        } else {
            format!("`{path}` of `{what}` is not an absolute path")
        },
    )
    .note("SageMaker mounts the directory before the program and its working directory exist \
        (CheckpointConfig, LocalPath: \"/opt/ml/checkpoints/\" by default)");
    let fixed = format!("\"/opt/ml/{}\"", path.trim_start_matches("./").trim_end_matches('/'));
    problems.push(
        if has_parent_component
            || path.starts_with('~')
            || path.starts_with('$')
            || !context.is_literal(span, path)
        {
            diagnostic.help("write an absolute path, e.g. `\"/opt/ml/checkpoints\"`")
        } else {
            diagnostic.help(format!("write `local={fixed}`")).fix(span, fixed)
        },
    );
    false
}

/// Reports a reserved directory for checkpoints with a copy in S3. Without one the directory may be on a file
/// system that is mounted below `/opt/ml/input`.
fn check_reserved(context: &Context, local: &Val<String>, node: Span, problems: &mut Problems) {
    if context.plan.job.checkpoint.as_ref().is_none_or(|checkpoint| checkpoint.s3.is_absent()) {
        return;
    }
    let path = format!("{}/", local.value.trim_end_matches('/'));
    let Some(row) = reserved_names::get(Kind::Path, &path) else { return };
    problems.push(
        Diagnostic::new(
            &T0349,
            local.span_or(node),
            format!("checkpoints in `{}`, which holds {}", row.name.trim_end_matches('*'), row.statement),
        )
        .write("local=\"/opt/ml/checkpoints\"").or_remove_it()
        .note(format!("{} ({})", row.provenance.source, row.provenance.date)),
    );
}
