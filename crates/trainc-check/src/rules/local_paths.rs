//! Paths in the container: absolute, and not where the service keeps something else.

use crate::Context;
use trainc_catalog::reserved::{self, Kind};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Field, Val};

declare_code!(T0348, "relative-local-path", Error, "a container path that is not absolute");
declare_code!(T0349, "reserved-checkpoint-path", Warning, "a checkpoint directory that the service reserves");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0348, &T0349];

/// `local` of `checkpoint`, `debugger` and `tensorboard`.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let job = &context.plan.job;
    if !context.plan.deployable {
        return;
    }
    let nodes: [Option<(&Field<String>, Span, &str)>; 3] = [
        job.checkpoint.as_ref().map(|node| (&node.local, node.span, "checkpoint")),
        job.debugger.as_ref().map(|node| (&node.local, node.span, "debugger")),
        job.tensorboard.as_ref().map(|node| (&node.local, node.span, "tensorboard")),
    ];
    for (field, span, node) in nodes.into_iter().flatten() {
        let Some(local) = field.val() else { continue };
        if absolute(context, local, span, node, problems) && node == "checkpoint" {
            taken(context, local, span, problems);
        }
    }
}

fn absolute(context: &Context, local: &Val<String>, node: Span, what: &str, problems: &mut Problems) -> bool {
    let path = &local.value;
    let climbs = path.split('/').any(|part| part == "..");
    if path.starts_with('/') && !climbs {
        return true;
    }
    let span = local.span_or(node);
    let diagnostic = Diagnostic::new(
        &T0348,
        span,
        if climbs {
            format!("`{path}` of `{what}` climbs with `..`")
        } else {
            format!("`{path}` of `{what}` is no absolute path")
        },
    )
    .note("the service mounts the directory before the program and its working directory exist (CheckpointConfig, LocalPath: \"/opt/ml/checkpoints/\" by default)");
    let fixed = format!("\"/opt/ml/{}\"", path.trim_start_matches("./").trim_end_matches('/'));
    problems.push(
        if climbs || path.starts_with('~') || path.starts_with('$') || !context.stands(span, path) {
            diagnostic.help("write it from the root, as `\"/opt/ml/checkpoints\"`")
        } else {
            diagnostic.help(format!("write `local={fixed}`")).fix(span, fixed)
        },
    );
    false
}

/// A file system mounted as a channel lies below `/opt/ml/input`, and needs no copy in S3.
fn taken(context: &Context, local: &Val<String>, node: Span, problems: &mut Problems) {
    if context.plan.job.checkpoint.as_ref().is_none_or(|checkpoint| checkpoint.s3.is_absent()) {
        return;
    }
    let path = format!("{}/", local.value.trim_end_matches('/'));
    let Some(row) = reserved::get(Kind::Path, &path) else { return };
    problems.push(
        Diagnostic::new(
            &T0349,
            local.span_or(node),
            format!("checkpoints in `{}`, which holds {}", row.name.trim_end_matches('*'), row.statement),
        )
        .help("write `local=\"/opt/ml/checkpoints\"`, or leave it out")
        .note(format!("{} ({})", row.provenance.source, row.provenance.date)),
    );
}
