//! Held-out errors of a tier.

use trainc_calibrate::errors::quantile;
use trainc_calibrate::held_out::{HeldOut, Tier};
use trainc_calibrate::judge::tier_errors;
use trainc_calibrate::verdict::TierErrors;
use trainc_predict::Constants;

/// Returns what a tier holds out with a row.
pub fn scope(tier: Tier) -> &'static str {
    match tier {
        Tier::A => "a fifth of the rows of each source held out",
        Tier::B => "one model shape of a source held out",
        Tier::C => "a whole source held out",
        Tier::D => "a whole source and its models held out",
    }
}

/// Errors of a tier.
#[derive(Clone, Debug)]
pub struct TierReport {
    /// Errors overall and by family.
    pub errors: TierErrors,
    /// Median half-width of the intervals, a fraction of the prediction.
    pub median_half_width: Option<f64>,
    /// Half-width that would contain 90 % of the rows, a fraction of the prediction.
    pub required_half_width: Option<f64>,
}

impl TierReport {
    /// Evaluates a tier, with the intervals of these constants.
    pub fn new(tier: Tier, held_out: &HeldOut, constants: &Constants) -> Self {
        let times = held_out.times(tier, constants);
        let mut shown: Vec<f64> = times.iter().map(|one| one.time.half_width()).collect();
        let mut required: Vec<f64> =
            times.iter().map(|one| (one.time.predicted / one.time.measured).ln().abs().sinh()).collect();
        Self {
            errors: tier_errors(&times),
            median_half_width: quantile(&mut shown, 0.5),
            required_half_width: quantile(&mut required, 0.9),
        }
    }
}
