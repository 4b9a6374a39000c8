//! Intervals of the parts of a prediction. Only totals were measured: peaks of a GPU and times of a step.
//! Counted parts are exact; the others share the error of the total.

use schemars::JsonSchema;
use serde::Serialize;

use super::prediction::{Communication, Interval, MemoryParts, Speed, SpeedParts};

/// Origin of the interval of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Exact: known counts of known widths over known ranks. Both bounds equal the figure.
    Counted,
    /// The residuals of the total: measured peaks or steps against predicted ones.
    #[default]
    Residuals,
    /// ±8 % of the worker's own account of its memory, on CPUs, which tests compare with every part.
    Account,
}

/// Interval of a part, with its origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct PartInterval {
    /// Bounds, in the part's unit.
    #[serde(flatten)]
    pub interval: Interval,
    /// Origin of the bounds.
    #[serde(rename = "origin")]
    pub basis: Basis,
}

/// Returns the intervals of the parts of a peak, in bytes, given the interval of the total.
///
/// Weights, gradients and resident states are counted. No measured run shows which of the other parts caused
/// the error of a peak: it is shared in proportion to their bytes, so that the lower ends add up to the lower
/// end of the total (at least 0), and the upper ends to its upper end.
pub(super) fn split_peak_interval(parts: &MemoryParts, whole: Interval) -> MemoryParts<PartInterval> {
    let counted = parts.parameters + parts.gradients + parts.optimizer;
    let estimated = parts.total() - counted;
    let share = |end: f64| if estimated > 0.0 { ((end - counted) / estimated).max(0.0) } else { 1.0 };
    // Keeps the part inside despite rounding.
    let (low, high) = (share(whole.low).min(1.0), share(whole.high).max(1.0));
    let exact =
        |bytes: f64| PartInterval { interval: Interval { low: bytes, high: bytes }, basis: Basis::Counted };
    let rest = |bytes: f64| PartInterval {
        interval: Interval { low: bytes * low, high: bytes * high },
        basis: Basis::Residuals,
    };
    MemoryParts {
        parameters: exact(parts.parameters),
        gradients: exact(parts.gradients),
        optimizer: exact(parts.optimizer),
        ..parts.map(rest)
    }
}

/// Half-widths of the parts of a step. That of the step is their mean, weighted by time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Widths {
    /// Half-width of the GPU's own work, a natural logarithm.
    pub work: f64,
    /// Additional half-width of the waiting parts.
    pub waiting: f64,
    /// Half-width above the prediction over that below.
    pub above: f64,
    /// Seconds to read the sequences of a step, if known.
    pub read_seconds: Option<f64>,
}

impl Widths {
    fn work_interval(&self, seconds: f64) -> Interval {
        self.log_interval(seconds, self.work)
    }

    fn wait_interval(&self, seconds: f64) -> Interval {
        self.log_interval(seconds, self.work + self.waiting)
    }

    fn log_interval(&self, seconds: f64, width: f64) -> Interval {
        Interval { low: seconds * (-width).exp(), high: seconds * (self.above * width).exp() }
    }
}

impl Speed {
    /// Returns the interval of each part of the step, seconds: as wide as that of whole steps (`interval` of
    /// the constants), wider for the waiting parts.
    ///
    /// Data loading is exposed if the rest of the step is shorter: its ends are those of reading minus those
    /// of the rest.
    pub fn part_intervals(&self) -> SpeedParts<Interval> {
        let (widths, parts) = (&self.widths, &self.parts);
        let mut out = SpeedParts {
            compute: widths.work_interval(parts.compute),
            exposed_communication: widths.wait_interval(parts.exposed_communication),
            bubble: widths.wait_interval(parts.bubble),
            offload: widths.wait_interval(parts.offload),
            optimizer: widths.work_interval(parts.optimizer),
            input: None,
        };
        let rest = [out.compute, out.exposed_communication, out.bubble, out.offload, out.optimizer];
        let (low, high): (f64, f64) =
            (rest.iter().map(|part| part.low).sum(), rest.iter().map(|part| part.high).sum());
        out.input = parts.input.zip(widths.read_seconds).map(|(input, read)| {
            let read = widths.wait_interval(read);
            // Up to rounding, the figure lies inside.
            Interval { low: (read.low - high).max(0.0).min(input), high: (read.high - low).max(input) }
        });
        out
    }

    /// Returns the intervals of communication, seconds.
    pub fn communication_intervals(&self) -> Communication<Interval> {
        let (widths, links) = (&self.widths, &self.communication);
        Communication {
            tensor: widths.wait_interval(links.tensor),
            pipeline: widths.wait_interval(links.pipeline),
            experts: widths.wait_interval(links.experts),
            context: widths.wait_interval(links.context),
            gather: widths.wait_interval(links.gather),
            scatter: widths.wait_interval(links.scatter),
            replicas: widths.wait_interval(links.replicas),
            gradients: widths.wait_interval(links.gradients),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Counted parts are exact, the others have the error of the total: their ends add up to those of the
        /// total.
        #[test]
        fn parts_of_a_peak_add_up_to_its_ends(
            parts in proptest::array::uniform8(0.0_f64..4e10), below in 0.0_f64..0.2, above in 0.0_f64..0.3
        ) {
            let [parameters, gradients, optimizer, activations, gathered, logits, buffers, reserve] = parts;
            let parts = MemoryParts {
                parameters, gradients, optimizer, activations, gathered, logits, buffers, reserve: reserve + 1e9,
            };
            let whole =
                Interval { low: parts.total() * (1.0 - below), high: parts.total() * (1.0 + above) };
            let found = split_peak_interval(&parts, whole);
            let counted = parameters + gradients + optimizer;
            let ends = [found.parameters, found.gradients, found.optimizer, found.activations, found.gathered,
                found.logits, found.buffers, found.reserve];
            let figures = [parameters, gradients, optimizer, activations, gathered, logits, buffers, parts.reserve];
            for (at, (found, figure)) in ends.iter().zip(figures).enumerate() {
                let Interval { low, high } = found.interval;
                prop_assert!((0.0..=figure).contains(&low) && high >= figure && high.is_finite());
                prop_assert_eq!(found.basis == Basis::Counted, at < 3);
                prop_assert!(at >= 3 || low == high);
            }
            let sum = |of: fn(&PartInterval) -> f64| ends.iter().map(of).sum::<f64>();
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b;
            prop_assert!(near(sum(|one| one.interval.high), whole.high));
            prop_assert!(near(sum(|one| one.interval.low), whole.low.max(counted)));
        }
    }

    /// By hand: work of 10 s within a natural logarithm of 0.1 is 9.048 to 11.052 s; reading of 10.5 s with
    /// 0.1 more is 8.597 to 12.825 s: 0 to 3.777 s of it are exposed, where 0.5 are predicted.
    #[test]
    fn reading_is_waited_for_where_the_rest_is_over_before_it() {
        let speed = Speed {
            parts: SpeedParts { compute: 10.0, input: Some(0.5), ..SpeedParts::default() },
            widths: Widths { work: 0.1, waiting: 0.1, above: 1.0, read_seconds: Some(10.5) },
            ..Speed::default()
        };
        let input = speed.part_intervals().input.unwrap();
        assert!(input.low == 0.0 && (input.high - 3.777).abs() < 1e-3, "{input:?}");
        // Reading that takes half the time is hidden behind the slowest expected step.
        let quick = Speed {
            parts: SpeedParts { input: Some(0.0), ..speed.parts },
            widths: Widths { read_seconds: Some(5.0), ..speed.widths },
            ..speed
        };
        assert_eq!(quick.part_intervals().input, Some(Interval::default()));
    }
}
