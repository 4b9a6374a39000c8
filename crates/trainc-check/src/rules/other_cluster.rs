//! Nodes that only SageMaker reads, in a job on another cluster.

use crate::Context;
use crate::codes::T0250;
use trainc_diag::{Code, Diagnostic, Help, Problems};

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[];

/// Reports settings of `cluster` without effect.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let job = &context.plan.job;
    // The unreadable part of a manifest may contain what uses a value.
    let Some(cluster) = job.cluster.as_ref().filter(|_| job.is_whole) else { return };
    for (name, span) in [
        ("warm-pool", cluster.warm_pool_seconds.span()),
        ("max-pending", cluster.max_pending_seconds.span()),
        ("retry", cluster.retry.span()),
        ("training-plan", cluster.training_plan.span()),
        ("spot", cluster.spot.as_ref().map(|spot| spot.span)),
    ] {
        let Some(span) = span else { continue };
        let message = format!("`{name}` has no effect: this cluster does not run on SageMaker");
        problems.push(Diagnostic::new(&T0250, span, message).help(Help::remove_it()));
    }
}
