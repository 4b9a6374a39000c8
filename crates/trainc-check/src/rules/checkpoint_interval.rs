//! The checkpoint interval: on spot instances, and compared with the cost of saving.

use crate::Context;
use crate::queries::prediction::{predicted_run, run_with_checkpoints};
use trainc_predict::round_to_u64;
use crate::what_if::describe_runs;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::CheckpointInterval;

declare_code!(T0463, "checkpoint-interval-unset", Note, "spot with a checkpoint of unknown interval");
declare_code!(T0273, "checkpoint-too-frequent", Warning, "checkpoints that take a large part of the run");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0463, &T0273];

/// The share of the run and the seconds above which the time for checkpoints is reported. A tenth of the cost
/// is rarely intended; in a smoke test of minutes it does not matter (rule of thumb).
const MUCH: f64 = 0.1;
const LEAST_SECONDS: f64 = 600.0;
/// The fewest checkpoints of a run (rule of thumb).
const FEW: f64 = 10.0;

/// Checks for an unknown interval and for one that is too short.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    check_missing_interval(context, problems);
    check_too_frequent(context, problems);
}

/// Reports the time that saving takes if a longer interval is expected to avoid most of it.
fn check_too_frequent(context: &Context, problems: &mut Problems) {
    let Some(checkpoint) = &context.plan.job.checkpoint else { return };
    let (Some(written), Some(steps)) = (checkpoint.every.get(), &context.plan.run.steps) else { return };
    if matches!(written, CheckpointInterval::Optimal) {
        return;
    }
    let Some((layout, run)) = predicted_run(context) else { return };
    let (Some(one), saving) = (run.checkpoint, run.parts.checkpoints) else { return };
    if saving < LEAST_SECONDS || saving < MUCH * run.seconds {
        return;
    }
    let with = |every| run_with_checkpoints(context, &layout, every);
    let Some(best) = with(CheckpointInterval::Optimal) else { return };
    if best.parts.checkpoints > saving / 2.0 {
        return;
    }
    // A short run fails too rarely to need any; a few are useful all the same if they cost little.
    let few = FEW.min(MUCH / 2.0 * best.seconds / one.seconds).max(1.0);
    let saves = (best.parts.checkpoints / one.seconds).max(few);
    let every = round_down_to_two_digits(steps.value as f64 / saves);
    let Some(better) = with(CheckpointInterval::Steps(every)) else { return };
    let mut diagnostic = Diagnostic::new(
        &T0273,
        checkpoint.every.span().unwrap_or(checkpoint.span),
        format!("checkpoints take {} of the run's {}", text::rounded_duration(saving), text::rounded_duration(run.seconds)),
    )
    .write(format!("every=\"{every} steps\""))
    .note(format!(
        "predicted: {} each, {} s of waiting; a script that saves in the background waits less",
        text::bytes(round_to_u64(one.bytes)),
        text::short_number(one.seconds)
    ))
    .fact("seconds", one.seconds)
    .fact("share", saving / run.seconds);
    if let Some(bill) = describe_runs(&run, &better) {
        diagnostic = diagnostic.note(bill);
    }
    problems.push(diagnostic);
}

/// Rounds a count to two digits, at least 1.
fn round_down_to_two_digits(count: f64) -> u64 {
    let grain = 10_f64.powf((count.max(1.0).log10().floor() - 1.0).max(0.0));
    round_to_u64(((count / grain).floor() * grain).max(1.0))
}

/// Reports a missing interval on spot instances: the loss of an interruption is then unknown.
fn check_missing_interval(context: &Context, problems: &mut Problems) {
    let job = &context.plan.job;
    let (Some(cluster), Some(checkpoint)) = (&job.cluster, &job.checkpoint) else { return };
    let Some(spot) = &cluster.spot else { return };
    // An algorithm that writes checkpoints decides how often.
    if checkpoint.every.is_absent() && !super::spot::writes_checkpoints(context.plan) {
        problems.push(
            Diagnostic::new(
                &T0463,
                checkpoint.span,
                "the checkpoint interval is unknown",
            )
            .label(spot.span, "an interruption loses the work since the last checkpoint")
            .help("add `every=\"200 steps\"`, and save as often in the script; with \
                `every=\"optimal\"` the plan computes the interval")
            .note("the plan then shows the cost of an interruption"),
        );
    }
}
