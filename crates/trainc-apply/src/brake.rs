//! Decides from the times of a run's steps whether it must be stopped: too slow for its plan, or too expensive for a hard
//! budget.
//!
//! The script in the job's containers (`crates/trainc-emit/templates/source/start.py`, `Brake`) decides the same; both are
//! tested with `testdata/brake.json`.

use trainc_ir::{Budget, Plan};

/// Steps before the first measurement: compilation, caches, clocks.
pub const WARM_UP: f64 = 20.0;
/// Blocks of steps in a window. All of them must be too slow, so that a pause in one of them counts for nothing.
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
    /// Share of the planned rate below which the run is too slow.
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
    pub fn from_plan(plan: &Plan, step_seconds: Option<f64>, usd_per_hour: Option<f64>) -> Option<Self> {
        let budget = plan.job.budget.as_ref()?;
        Some(Self {
            steps: plan.run.steps.as_ref().map(|steps| steps.value as f64),
            step_seconds,
            slowest: budget.slowest.get(),
            window: budget.steps.get().unwrap_or(Budget::DEFAULT_STEPS) as f64,
            usd_per_hour,
            hard_usd: budget.usd.get().filter(|_| budget.hard.get() == Some(true)),
        })
    }
}

/// The reason to stop a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stop {
    /// Tokens per second stayed below the lowest share of the plan.
    Slow {
        /// The step at which this was decided.
        at: f64,
        /// Steps that were too slow.
        over: f64,
        /// Their rate, a share of the plan.
        share: f64,
    },
    /// The run would exceed the hard budget even at its fastest steps.
    Budget {
        /// The step at which this was decided.
        at: f64,
        /// The least cost of the whole run, US dollars.
        usd: f64,
        /// The budget, US dollars.
        hard_usd: f64,
    },
}

impl Stop {
    /// Describes the reason, as a sentence fragment.
    pub fn describe(&self) -> String {
        use trainc_diag::text;
        match self {
            Self::Slow { over, share, .. } => format!(
                "tokens/s were {} % of the plan over {} steps",
                text::short_number((100.0 * share).round()),
                over.round()
            ),
            Self::Budget { usd, hard_usd, .. } => {
                let (usd, hard_usd) = dollars(*usd, *hard_usd);
                format!("the run would cost at least {usd}; the budget is {hard_usd}")
            }
        }
    }

    /// Returns the step at which it was decided.
    pub fn step(&self) -> f64 {
        match self {
            Self::Slow { at, .. } | Self::Budget { at, .. } => *at,
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
}

impl Brake {
    /// Creates a brake for a run that is billed from `begin`, in seconds since any origin.
    pub fn new(limits: Limits, begin: f64) -> Self {
        Self { limits, begin, first: None, last: None, start: None, blocks: Vec::new() }
    }

    /// Takes the time at which a step was logged. Returns the reason to stop the run, if there is one.
    pub fn observe(&mut self, now: f64, step: f64) -> Option<Stop> {
        match self.last {
            Some(last) if step < last => {
                // The run resumed from a checkpoint.
                *self = Self { first: Some(step), last: Some(step), ..Self::new(self.limits, self.begin) };
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

    /// Returns the reason if all blocks of the window are too slow.
    fn too_slow(&self, at: f64) -> Option<Stop> {
        let window = self.blocks.len().checked_sub(BLOCKS)?;
        let (planned, slowest) = (self.limits.step_seconds?, self.limits.slowest?);
        let blocks = self.blocks.get(window..)?;
        if !blocks.iter().all(|(seconds, _)| *seconds > planned / slowest) {
            return None;
        }
        let over: f64 = blocks.iter().map(|(_, count)| count).sum();
        let seconds = blocks.iter().map(|(seconds, count)| seconds * count).sum::<f64>() / over;
        Some(Stop::Slow { at, over, share: planned / seconds })
    }

    /// Returns the reason if the run would exceed the hard budget even with all remaining steps faster than the fastest
    /// block, or if what it has cost already exceeds it.
    fn too_expensive(&self, now: f64, at: f64) -> Option<Stop> {
        let (steps, hourly, hard_usd) =
            (self.limits.steps?, self.limits.usd_per_hour?, self.limits.hard_usd?);
        let fastest = self.blocks.iter().map(|(seconds, _)| *seconds).fold(f64::INFINITY, f64::min);
        let least = if self.blocks.len() < BLOCKS { 0.0 } else { CERTAIN * fastest };
        let seconds = now - self.begin + (steps - at).max(0.0) * least;
        let usd = seconds / HOUR * hourly;
        (usd > hard_usd).then_some(Stop::Budget { at, usd, hard_usd })
    }
}

#[cfg(test)]
mod tests;
