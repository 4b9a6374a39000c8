//! Rows whose source does not give the micro-batch: their step times as ranges over the possible sizes.
//!
//! A figure inside its range agrees with the model without testing it: it is calibration, not evidence. Such
//! a row is not fitted and counts in no error.

use super::run::Run;
use super::run_row::RunRow;
use serde::Serialize;
use trainc_plan::plan::divisors::divisors;
use trainc_predict::memory::{MemoryConstants, memory_with};
use trainc_predict::speed::speed;
use trainc_predict::{Constants, Layout};

/// Predicted range of a row without a micro-batch.
#[derive(Clone, Debug, Serialize)]
pub struct StepRange {
    /// Name.
    pub id: String,
    /// Micro-batch sizes that divide the global batch and fit.
    pub micro_batches: Vec<f64>,
    /// Published seconds per step.
    pub published: f64,
    /// Smallest prediction over the micro-batch sizes.
    pub low: f64,
    /// Largest prediction.
    pub high: f64,
}

impl StepRange {
    /// Returns true if no micro-batch explains the published figure.
    pub fn is_outside(&self) -> bool {
        !(self.low..=self.high).contains(&self.published)
    }
}

impl RunRow<'_> {
    /// Returns the possible layouts of a row without a micro-batch: one for each size that divides the
    /// sequences of a data-parallel rank per step. Empty if the row lacks anything else.
    pub(super) fn candidates(&self) -> Vec<Layout> {
        if self.number("micro_batch").is_some() || self.number("global_batch_sequences").is_none() {
            return Vec::new();
        }
        let with =
            |micro: u64| RunRow { cells: self.cells.clone(), micro_batch: Some(micro as f64) }.layout().ok();
        let Some(smallest) = with(1).filter(|layout| layout.work.passes.fract() == 0.0) else {
            return Vec::new();
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small whole number")]
        let each = smallest.work.passes as u64;
        divisors(each).into_iter().filter_map(with).collect()
    }
}

/// Returns the ranges of the runs of which at least one candidate fits.
pub fn step_ranges(runs: &[Run], constants: &Constants) -> Vec<StepRange> {
    runs.iter().filter_map(|run| step_range(run, constants)).collect()
}

fn step_range(run: &Run, constants: &Constants) -> Option<StepRange> {
    let memory = MemoryConstants::from_constants(constants);
    let published = *run.candidates_step_seconds.as_ref()?;
    let found: Vec<(f64, f64)> = run
        .candidates
        .iter()
        .filter(|layout| memory_with(layout, &memory).fits == Some(true))
        .filter_map(|layout| {
            Some((layout.work.micro_batch_size, speed(layout, constants).ok()?.step_seconds))
        })
        .collect();
    let seconds = || found.iter().map(|(_, seconds)| *seconds);
    (!found.is_empty()).then(|| StepRange {
        id: run.id.clone(),
        micro_batches: found.iter().map(|(micro, _)| *micro).collect(),
        published,
        low: seconds().fold(f64::MAX, f64::min),
        high: seconds().fold(0.0, f64::max),
    })
}
