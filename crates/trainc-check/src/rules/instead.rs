//! What a warning costs: the run as it is written beside the same run of another layout.

use super::predicted_cost::predicted;
use crate::Context;
use trainc_diag::text;
use trainc_predict::{Layout, Run, Speed, run, speed};

/// The share of a run's time by which two layouts differ at least, where a note is worth it.
const WORTH: f64 = 0.01;

/// A note with time and dollars of both, where what the help proposes is predicted to be quicker; none where one of them
/// is not known.
pub(super) fn compared(context: &Context, change: impl FnOnce(&mut Layout)) -> Option<String> {
    let (written, other) = both(context, change)?;
    if other.seconds > written.seconds * (1.0 - WORTH) { None } else { told(&written, &other) }
}

/// Why another layout gains nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum InVain {
    /// Its step is no quicker.
    NoQuicker,
    /// Even the low end of its memory is more than the GPU has.
    DoesNotFit,
}

impl InVain {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::NoQuicker => "predicted: a step is no quicker after that",
            Self::DoesNotFit => "predicted: it does not fit after that",
        }
    }
}

/// What the cost model says of another layout.
pub(super) struct Judged {
    /// Why there is nothing to gain, where that is known.
    pub(super) in_vain: Option<InVain>,
    /// Whether even the high end of its memory fits.
    pub(super) fits: bool,
    /// Time and dollars of both runs, where they are known and differ.
    pub(super) bill: Option<String>,
}

/// Judges another layout by memory and by the time of a step, each where it is known.
pub(super) fn judged(context: &Context, change: impl Fn(&mut Layout)) -> Judged {
    let mut out = Judged { in_vain: None, fits: false, bill: None };
    let Ok(written) = Layout::of_plan(context.plan) else { return out };
    let mut other = written.clone();
    change(&mut other);
    let step = |layout: &Layout| speed::speed(layout, context.constants).ok().map(|speed| speed.step_seconds);
    if let (Some(written), Some(other)) = (step(&written), step(&other))
        && other > written * (1.0 - WORTH)
    {
        out.in_vain = Some(InVain::NoQuicker);
    }
    let memory = super::memory::needed(context, &other);
    if let Some(capacity) = memory.capacity_bytes {
        out.fits = memory.interval.high <= capacity;
        if memory.interval.low > capacity {
            out.in_vain = Some(InVain::DoesNotFit);
        }
    }
    out.bill = beside(context, change);
    out
}

/// [`compared`] whichever is quicker, where the help is given for another reason than time.
pub(super) fn beside(context: &Context, change: impl FnOnce(&mut Layout)) -> Option<String> {
    let (written, other) = both(context, change)?;
    let difference = (other.seconds - written.seconds).abs();
    if difference < written.seconds * WORTH { None } else { told(&written, &other) }
}

fn both(context: &Context, change: impl FnOnce(&mut Layout)) -> Option<(Run, Run)> {
    let (mut layout, written) = predicted(context)?;
    change(&mut layout);
    let speed = speed::speed(&layout, context.constants).ok()?;
    let other = run::Terms::of(context.plan, context.constants).ok()?.run(&layout, &speed);
    Some((written, other))
}

/// Time and dollars of a run as it is written, and of another.
pub(super) fn told(written: &Run, other: &Run) -> Option<String> {
    Some(format!("predicted: {} as it is written, {} after that edit", bill(written)?, bill(other)?))
}

/// How long something takes of each step, and what that is of the run: `0.8 s of each step's 4.1 s, $310 of the run`.
/// None where it takes hardly anything.
pub(super) fn waits(context: &Context, part: impl FnOnce(&Speed) -> f64) -> Option<String> {
    let (layout, _) = predicted(context)?;
    let speed = speed::speed(&layout, context.constants).ok()?;
    let seconds = part(&speed);
    if seconds < speed.step_seconds * WORTH {
        return None;
    }
    let usd = of_steps(context, seconds)
        .map_or_else(String::new, |usd| format!(", {} of the run", text::dollars(usd)));
    Some(format!("{} s of each step's {} s{usd}", text::short(seconds), text::short(speed.step_seconds)))
}

/// `36m 50s, $495`; the dollars where they are known.
fn bill(run: &Run) -> Option<String> {
    let seconds = run.expected_seconds();
    if !(0.0..1e12).contains(&seconds) {
        return None;
    }
    let time = text::about(seconds);
    Some(run.least_usd.map_or_else(|| time.clone(), |usd| format!("{time}, {}", text::dollars(usd))))
}

/// Dollars of so many seconds in each step of the run; none where the steps or the price are not known.
pub(super) fn of_steps(context: &Context, seconds: f64) -> Option<f64> {
    let steps = context.plan.run.steps.as_ref()?.value as f64;
    Some(steps * seconds / 3_600.0 * context.plan.usd_per_hour()?)
}
