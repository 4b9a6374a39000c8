//! Spot with checkpoints, and how often they are written.

use crate::check::Context;
use crate::declare_code;
use crate::diag::{Code, Diagnostic, Problems};

declare_code!(T0463, "checkpoint-interval", Note, "spot with checkpoints of unknown interval");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0463];

/// Without an interval nothing can be said of what an interruption loses.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let job = &context.plan.job;
    let (Some(cluster), Some(checkpoint)) = (&job.cluster, &job.checkpoint) else { return };
    let Some(spot) = &cluster.spot else { return };
    if checkpoint.every.is_absent() {
        problems.push(
            Diagnostic::new(
                &T0463,
                checkpoint.span,
                "the manifest does not say how often a checkpoint is written",
            )
            .label(spot.span, "an interruption loses what was done since the last one")
            .help("add `every=\"200 steps\"`, or `every=\"optimal\"`, and give it to the script")
            .note("the plan can then tell what an interruption costs"),
        );
    }
}
