//! All results on a table of runs.

use crate::noise::{Noise, noise_of_peaks, noise_of_times};
use crate::peaks::{HeldOutPeaks, held_out_peaks};
use crate::questions::{Answer, answers};
use crate::render::render;
use crate::speedups::{Speedup, speedups};
use crate::tiers::TierReport;
use std::collections::BTreeMap;
use trainc_calibrate::Table;
use trainc_calibrate::held_out::{HeldOut, Tier};
use trainc_calibrate::judge::{fit_table, judge};
use trainc_calibrate::verdict::Verdict;
use trainc_predict::Constants;

/// Results on a table of runs.
#[derive(Clone, Debug)]
pub struct Study {
    /// Verdict by the given constants.
    pub verdict: Verdict,
    /// Constants fitted to the table; none if no row can be fitted.
    pub fitted: Option<Constants>,
    /// Held-out errors by tier.
    pub by_tier: BTreeMap<&'static str, TierReport>,
    /// Held-out errors of peaks.
    pub held_out_peaks: Option<HeldOutPeaks>,
    /// Spread of repeated measurements of step times.
    pub noise: Noise,
    /// Spread of repeated measurements of peaks.
    pub noise_of_peaks: Noise,
    /// Speedups between rows without a micro-batch.
    pub speedups: Vec<Speedup>,
    /// Published figures with other open questions.
    pub answers: Vec<Answer>,
}

impl Study {
    /// Evaluates a table by these constants, and by fits that start from them.
    pub fn new(table: &Table, constants: &Constants) -> Self {
        Self::with_held_out(table, constants, &HeldOut::new(table, constants))
    }

    /// Evaluates a table by these constants and held-out step times.
    pub fn with_held_out(table: &Table, constants: &Constants, held_out: &HeldOut) -> Self {
        let verdict = judge(table, constants);
        let fitted = fit_table(table, constants, held_out);
        let report = |tier: Tier| (tier.as_str(), TierReport::new(tier, held_out, constants));
        Self {
            by_tier: Tier::ALL.into_iter().map(report).collect(),
            fitted,
            held_out_peaks: held_out_peaks(&table.runs, constants),
            noise: noise_of_times(&table.runs),
            noise_of_peaks: noise_of_peaks(&table.runs),
            speedups: speedups(&table.runs, &verdict.step_ranges),
            answers: answers(constants),
            verdict,
        }
    }

    /// Renders the results for the terminal.
    pub fn render(&self) -> String {
        render(self)
    }
}
