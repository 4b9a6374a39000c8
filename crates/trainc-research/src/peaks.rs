//! Errors of peaks of memory by constants fitted without their source.

use std::collections::{BTreeMap, BTreeSet};
use trainc_calibrate::errors::{Errors, mean};
use trainc_calibrate::judge::peak_errors;
use trainc_calibrate::verdict::PeakMemory;
use trainc_calibrate::{MemoryKind, Run, memory_fit};
use trainc_predict::Constants;
use trainc_predict::memory::{MemoryConstants, peak_by_instrument};

/// Errors of held-out peaks.
#[derive(Clone, Debug)]
pub struct HeldOutPeaks {
    /// All rows.
    pub all: Errors,
    /// Mean of the families' mean errors.
    pub families: Option<f64>,
    /// By family.
    pub by_family: BTreeMap<String, Errors>,
}

/// Returns the measured peak of a run, if it is evidence.
fn measured_peak(run: &Run) -> Option<(f64, MemoryKind)> {
    run.peak_memory.filter(|(_, kind)| !run.oom && run.memory_layout.is_ok() && *kind != MemoryKind::Computed)
}

/// Judges each source's peaks by constants fitted to the other sources, starting from the priors. None of a single source.
pub fn held_out_peaks(runs: &[Run], constants: &Constants) -> Option<HeldOutPeaks> {
    let families: BTreeSet<&str> =
        runs.iter().filter(|run| measured_peak(run).is_some()).map(|run| run.family.as_str()).collect();
    if families.len() < 2 {
        return None;
    }
    let peaks_of = |family: &str| -> Vec<PeakMemory> {
        let others: Vec<&Run> = runs.iter().filter(|run| run.family != family).collect();
        let mut constants = constants.clone();
        memory_fit::reset(&mut constants);
        memory_fit::fit(&others, &mut constants);
        let memory = MemoryConstants::from_constants(&constants);
        let peak = |run: &Run| {
            let ((measured, kind), layout) = (measured_peak(run)?, run.memory_layout.as_ref().ok()?);
            let predicted = peak_by_instrument(layout, kind.measured_as(), &memory);
            (predicted > 0.0).then(|| PeakMemory::new(measured, predicted, memory.ends(layout)))
        };
        runs.iter().filter(|run| run.family == family).filter_map(peak).collect()
    };
    let peaks: BTreeMap<String, Vec<PeakMemory>> =
        families.into_iter().map(|family| (family.to_owned(), peaks_of(family))).collect();
    let all = peak_errors(peaks.values().flatten());
    let by_family: BTreeMap<String, Errors> =
        peaks.into_iter().map(|(family, peaks)| (family, peak_errors(&peaks))).collect();
    Some(HeldOutPeaks {
        all,
        families: mean(by_family.values().filter_map(|errors| errors.mean_error)),
        by_family,
    })
}
