//! What a warning costs: the run as it is written beside the same run of another layout.

use super::predicted_cost::predicted;
use crate::check::Context;
use crate::predict::{Layout, Run, run, speed};
use crate::text;

/// The share of a run's time by which two layouts differ at least, where a note is worth it.
const WORTH: f64 = 0.01;

/// A note with time and dollars of both, where what the help proposes is predicted to be quicker; none where one of them
/// is not known.
pub(super) fn compared(context: &Context, change: impl FnOnce(&mut Layout)) -> Option<String> {
    let (mut layout, written) = predicted(context)?;
    change(&mut layout);
    let speed = speed::speed(&layout, context.constants).ok()?;
    let other = run::Terms::of(context.plan, context.constants).ok()?.run(&layout, &speed);
    if other.seconds > written.seconds * (1.0 - WORTH) {
        return None;
    }
    Some(format!("predicted: {} as it is written, {} after that edit", bill(&written)?, bill(&other)?))
}

/// `36m 50s, $495`; the dollars where they are known.
fn bill(run: &Run) -> Option<String> {
    let seconds = run.seconds.round();
    if !(0.0..1e12).contains(&seconds) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "held within the range above"
    )]
    let time = text::duration(seconds as u64);
    Some(run.least_usd.map_or_else(|| time.clone(), |usd| format!("{time}, {}", text::dollars(usd))))
}

/// Dollars of so many seconds in each step of the run; none where the steps or the price are not known.
pub(super) fn of_steps(context: &Context, seconds: f64) -> Option<f64> {
    let steps = context.plan.run.steps.as_ref()?.value as f64;
    Some(steps * seconds / 3_600.0 * context.plan.usd_per_hour()?)
}
