//! Decides from the times of a run's steps and from a clock whether it must be stopped: too slow, or too
//! expensive for a hard budget.
//!
//! The script in the job's containers (`templates/source/start.py`, `Brake`) decides the same; both are
//! tested with `testdata/brake.json`.

use super::status::Planned;
use trainc_ir::{Budget, Plan};

/// Steps before the first measurement: compilation, caches, clocks.
pub const WARM_UP: f64 = 20.0;
/// Blocks of steps in a window. All of them must be too slow, so that a pause in one of them counts for
/// nothing.
const BLOCKS: usize = 5;
/// Blocks of which the fastest bounds the steps to come.
const RECENT: usize = 20;
/// Share of the fastest block's time that no step to come is expected to undercut.
const CERTAIN: f64 = 0.9;
/// Seconds per hour.
const HOUR: f64 = 3_600.0;

/// Limits of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Steps of the whole run, if known.
    pub steps: Option<f64>,
    /// Planned seconds per step, if predicted.
    pub step_seconds: Option<f64>,
    /// True if the interval of [`Self::step_seconds`] comes from measured errors of its setting. Otherwise
    /// the plan may be wrong, and the run is compared with its own first steps.
    pub is_measured: bool,
    /// Share of the rate of reference below which the run is too slow.
    pub slowest: Option<f64>,
    /// Steps for which it must be.
    pub window: f64,
    /// US dollars per hour of the whole job, at most, if known.
    pub usd_per_hour: Option<f64>,
    /// Hard limit in US dollars.
    pub hard_usd: Option<f64>,
}

impl Limits {
    /// Returns the limits of a plan's budget; `None` without a budget.
    pub fn from_plan(plan: &Plan, planned: &Planned, usd_per_hour: Option<f64>) -> Option<Self> {
        let budget = plan.job.budget.as_ref()?;
        let tokens = plan.batch.as_ref().and_then(|batch| batch.global_tokens);
        Some(Self {
            steps: plan.run.steps.as_ref().map(|steps| steps.value as f64),
            step_seconds: tokens.zip(planned.tokens_per_second).map(|(tokens, rate)| tokens as f64 / rate),
            is_measured: planned.is_speed_measured,
            slowest: budget.slowest.get(),
            window: budget.steps.get().unwrap_or(Budget::DEFAULT_STEPS) as f64,
            usd_per_hour,
            hard_usd: budget.usd.get().filter(|_| budget.hard.get() == Some(true)),
        })
    }
}

/// The rate that a run is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// That of the plan.
    Plan,
    /// That of the run's first window after the warm-up.
    FirstSteps,
}

/// A finding about a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BrakeFinding {
    /// Tokens per second stayed below the lowest share of the reference.
    Slow {
        /// The step at which this was decided.
        at: f64,
        /// Steps that were too slow.
        over: f64,
        /// Their rate, a share of the reference.
        share: f64,
        /// The reference.
        than: Reference,
    },
    /// Tokens per second stayed below the lowest share of a plan that may be wrong. It is no reason to stop.
    BehindPlan {
        /// The step at which this was found.
        at: f64,
        /// Steps that were slower.
        over: f64,
        /// Their rate, a share of the plan.
        share: f64,
    },
    /// The run has exceeded the hard budget, or would exceed it even at its fastest steps.
    Budget {
        /// The last step, if there was one.
        at: Option<f64>,
        /// The least cost of the whole run, US dollars.
        usd: f64,
        /// The budget, US dollars.
        hard_usd: f64,
    },
}

impl BrakeFinding {
    /// Returns true if it is a reason to stop the run.
    pub fn stops(&self) -> bool {
        !matches!(self, Self::BehindPlan { .. })
    }

    /// Describes the finding, as a sentence fragment.
    pub fn describe(&self) -> String {
        use trainc_diag::text;
        let slow = |over: f64, share: f64, than: &str| {
            let percent = text::short_number((100.0 * share).round());
            format!("tokens/s were {percent} % of {than} over {} steps", over.round())
        };
        match *self {
            Self::Slow { over, share, than: Reference::FirstSteps, .. } => {
                slow(over, share, "the run's first steps")
            }
            Self::Slow { over, share, .. } | Self::BehindPlan { over, share, .. } => {
                slow(over, share, "the plan")
            }
            Self::Budget { usd, hard_usd, .. } => {
                let (usd, hard_usd) = dollars(usd, hard_usd);
                format!("the run would cost at least {usd}; the budget is {hard_usd}")
            }
        }
    }
}

/// Formats a cost and the budget that it exceeds, with as many digits as tell them apart.
fn dollars(usd: f64, hard_usd: f64) -> (String, String) {
    let texts = [usd, hard_usd].map(trainc_diag::text::dollars);
    let with = |digits: usize| [usd, hard_usd].map(|value| format!("${value:.digits$}"));
    let all = std::iter::once(texts).chain((2..9).map(with));
    let is_plain = |[usd, hard]: &[String; 2]| {
        usd != hard && (hard_usd <= 0.0 || hard.contains(|digit: char| ('1'..='9').contains(&digit)))
    };
    let [usd, hard_usd] = all.clone().find(is_plain).or_else(|| all.last()).unwrap_or_default();
    (usd, hard_usd)
}

/// Observes the steps of a run.
#[derive(Clone, Debug)]
pub struct Brake {
    limits: Limits,
    /// Time from which the run is billed, seconds.
    begin: f64,
    /// First and last step of the current attempt.
    first: Option<f64>,
    last: Option<f64>,
    /// Time and step at the start of the current block.
    start: Option<(f64, f64)>,
    /// Seconds per step, and steps, of the last blocks.
    blocks: Vec<(f64, f64)>,
    /// Seconds per step of the reference, once known.
    reference: Option<f64>,
    /// True once [`BrakeFinding::BehindPlan`] was returned.
    was_compared: bool,
}

impl Brake {
    /// Creates a brake for a run that is billed from `begin`, in seconds since any origin.
    pub fn new(limits: Limits, begin: f64) -> Self {
        Self {
            limits,
            begin,
            first: None,
            last: None,
            start: None,
            blocks: Vec::new(),
            reference: limits.step_seconds.filter(|_| limits.is_measured),
            was_compared: limits.is_measured,
        }
    }

    /// Takes the time at which a step was logged. Returns what was found, if anything.
    pub fn observe(&mut self, now: f64, step: f64) -> Option<BrakeFinding> {
        match self.last {
            Some(last) if step < last => {
                // The run resumed from a checkpoint.
                (self.first, self.last, self.start) = (Some(step), Some(step), None);
                self.blocks.clear();
                return None;
            }
            Some(last) if step <= last => return None,
            _ => self.last = Some(step),
        }
        let slow = if self.end_block(now, step) { self.too_slow(step) } else { None };
        slow.or_else(|| self.too_expensive(now, step))
    }

    /// Adds the steps since the last block as the next one, if they are enough. Returns true if it did.
    fn end_block(&mut self, now: f64, step: f64) -> bool {
        let first = *self.first.get_or_insert(step);
        let Some((since, from)) = self.start.filter(|_| step - first >= WARM_UP) else {
            self.start = (step > first).then_some((now, step));
            return false;
        };
        let count = step - from;
        if count < (self.limits.window / BLOCKS as f64).ceil() {
            return false;
        }
        self.blocks.push(((now - since) / count, count));
        if self.blocks.len() > RECENT {
            self.blocks.remove(0);
        }
        self.start = Some((now, step));
        true
    }

    /// Returns the finding if all blocks of the window are too slow.
    fn too_slow(&mut self, at: f64) -> Option<BrakeFinding> {
        let slowest = self.limits.slowest?;
        let window = self.blocks.len().checked_sub(BLOCKS)?;
        let blocks = self.blocks.get(window..)?;
        let reference = *self.reference.get_or_insert_with(|| {
            // The median: a pause in a block counts for nothing.
            let mut seconds: Vec<f64> = blocks.iter().map(|(seconds, _)| *seconds).collect();
            seconds.sort_by(f64::total_cmp);
            seconds.get(BLOCKS / 2).copied().unwrap_or(f64::INFINITY)
        });
        let fastest = fastest(blocks);
        let over: f64 = blocks.iter().map(|(_, count)| count).sum();
        let seconds = blocks.iter().map(|(seconds, count)| seconds * count).sum::<f64>() / over;
        if fastest > reference / slowest {
            let than = if self.limits.is_measured { Reference::Plan } else { Reference::FirstSteps };
            return Some(BrakeFinding::Slow { at, over, share: reference / seconds, than });
        }
        let planned = self.limits.step_seconds.filter(|planned| fastest > planned / slowest)?;
        let is_new = !std::mem::replace(&mut self.was_compared, true);
        is_new.then_some(BrakeFinding::BehindPlan { at, over, share: planned / seconds })
    }

    /// Returns the finding if the run would exceed the hard budget even with all remaining steps faster than
    /// the fastest block, or if what it has cost already exceeds it.
    fn too_expensive(&self, now: f64, at: f64) -> Option<BrakeFinding> {
        let left = match self.limits.steps {
            Some(steps) if self.blocks.len() >= BLOCKS => {
                (steps - at).max(0.0) * CERTAIN * fastest(&self.blocks)
            }
            _ => 0.0,
        };
        self.too_long(now - self.begin + left)
    }

    /// Returns the finding if the price of these seconds exceeds the hard budget. Needs no step.
    pub fn too_long(&self, seconds: f64) -> Option<BrakeFinding> {
        let (hourly, hard_usd) = (self.limits.usd_per_hour?, self.limits.hard_usd?);
        let usd = seconds / HOUR * hourly;
        (usd > hard_usd).then_some(BrakeFinding::Budget { at: self.last, usd, hard_usd })
    }
}

/// Returns the seconds per step of the fastest block.
fn fastest(blocks: &[(f64, f64)]) -> f64 {
    blocks.iter().map(|(seconds, _)| *seconds).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests;
