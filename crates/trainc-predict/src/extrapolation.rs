//! Extrapolation: distance of a layout from the measured runs, and the widening of its interval.

use super::constants::{Constants, Gpu, Name};
use super::experts::uneven_half_width;
use super::layout::{GpuKind, Layout, System};
use super::settings::{FEWEST_RUNS, Setting};

/// Widening of the half-width of a step time (a natural logarithm) for a layout with `e` times the GPUs, or
/// the parameters, of the largest measured run.
///
/// Determined by fitting the constants to the small runs of the shipped table and predicting the large ones
/// (limits of 8, 16, 32, 64 and 128 GPUs; of 2, 8, 20 and 60 billion parameters; figures in
/// `data/README.md`): 90 % of the errors were within the half-width inside the range plus at most 0.046 for
/// each factor of `e`, except for one group of nine rows.
const WIDENING: f64 = 0.05;

/// Widening of the half-width of a step time (a natural logarithm) for an engine of which no run was
/// measured: the worker on GPUs, timed by FSDP's constants.
///
/// Rule of thumb: with the same kernels and collectives as FSDP, an engine should be at most a sixth slower
/// or faster; poor overlap of collectives, which nothing has shown yet, may cost as much again in a tenth of
/// the cases.
const UNMEASURED_ENGINE: f64 = 0.2;

/// A count larger than that of any measured run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LargerCount {
    /// Count of the layout.
    pub here: f64,
    /// Largest measured count.
    pub measured: f64,
}

/// A setting with too few measured runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnseenSetting {
    /// Setting of the layout.
    pub setting: Setting,
    /// Number of its runs, fewer than [`FEWEST_RUNS`].
    pub runs: f64,
    /// Widening up to the half-width of held-out sources, a natural logarithm.
    pub wider: f64,
    /// The measured setting that differs in the fewest respects.
    pub nearest: Option<Setting>,
}

/// A setting with measured runs, whose held-out errors are the interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredSetting {
    /// Setting of the layout.
    pub setting: Setting,
    /// Number of its runs.
    pub runs: f64,
}

/// A GPU type with too few measured runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NewGpu {
    /// GPU type, as in the constants.
    pub gpu: GpuKind,
    /// Number of measured runs.
    pub runs: f64,
    /// Widening compared with a measured GPU type, a natural logarithm.
    pub wider: f64,
}

/// Properties of a layout that are outside the range of the measured runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Extrapolation {
    /// GPU type; its widening is not part of [`Self::extra_half_width`].
    pub gpu: Option<NewGpu>,
    /// Number of GPUs.
    pub gpus: Option<LargerCount>,
    /// Number of parameters.
    pub parameters: Option<LargerCount>,
    /// Setting without enough runs.
    pub setting: Option<UnseenSetting>,
    /// Setting whose own errors determine the interval.
    pub measured: Option<MeasuredSetting>,
    /// True if the errors of a user's own runs determine the interval, and runs of this setting are among
    /// them.
    pub has_own_errors: bool,
    /// Widening since ranks may have fuller experts than others, a natural logarithm; 0 without expert
    /// parallelism.
    pub uneven_experts: f64,
}

impl Extrapolation {
    /// Returns the extrapolation of a layout, and the half-width of its GPU type, a natural logarithm.
    pub(super) fn from_layout(layout: &Layout, constants: &Constants, own: &Gpu) -> (Self, f64) {
        let general = constants.default_half_width(own);
        let measured =
            Setting::from_layout(layout).map(|setting| constants.runs_of(&setting)).unwrap_or_default();
        let inside = own.interval.or(measured.half_width).unwrap_or(general);
        let wider = general - constants.get(Name::Known);
        let is_new = own.interval.is_none() && measured.half_width.is_none() && wider > 0.0;
        let gpu = layout.hardware.gpu.filter(|_| is_new).map(GpuKind::kind_of_constants);
        let gpu = gpu.map(|gpu| NewGpu { gpu, runs: own.rows, wider });
        let own_errors = own.interval.is_none() && measured.half_width.is_some();
        let has_own_errors = own.interval.is_some() && measured.rows >= FEWEST_RUNS;
        let measured = Setting::from_layout(layout)
            .filter(|_| own_errors)
            .map(|setting| MeasuredSetting { setting, runs: measured.rows });
        (Self { gpu, measured, has_own_errors, ..Self::from_half_width(layout, constants, inside) }, inside)
    }

    /// Returns the extrapolation of a layout whose GPU type has a half-width of `inside`.
    fn from_half_width(layout: &Layout, constants: &Constants, inside: f64) -> Self {
        let engine = if layout.system == System::Worker { UNMEASURED_ENGINE } else { 0.0 };
        let unseen = Setting::from_layout(layout).map(|setting| {
            let nearest = setting.nearest(constants.settings().iter().map(|(known, _)| known)).copied();
            // Not narrower than a measured setting that differs in one respect.
            let like = nearest.filter(|nearest| setting.differences(nearest).len() <= 1);
            let like = like.and_then(|like| constants.runs_of(&like).half_width).unwrap_or(0.0);
            UnseenSetting {
                setting,
                runs: constants.runs_of(&setting).rows,
                wider: constants.get(Name::Unseen).max(like) + engine - inside,
                nearest,
            }
        });
        let uneven_experts = uneven_half_width(layout);
        let setting = unseen.filter(|unseen| unseen.runs < FEWEST_RUNS && unseen.wider > 0.0);
        let Some(range) = constants.measured_limits(layout.system) else {
            return Self { setting, uneven_experts, ..Self::default() };
        };
        // Published parameter counts are rounded.
        let past =
            |here: f64, measured: f64| (here > 1.001 * measured).then_some(LargerCount { here, measured });
        Self {
            uneven_experts,
            gpus: past(layout.hardware.gpus(), range.gpus),
            parameters: past(layout.model.parameters, range.parameters),
            setting,
            gpu: None,
            measured: None,
            has_own_errors: false,
        }
    }

    /// Returns true if measured errors of the layout's own setting determine the whole interval, and nothing
    /// widens it.
    pub fn is_measured(&self) -> bool {
        let is_measured = self.measured.is_some() || self.has_own_errors;
        is_measured && self.gpu.is_none() && self.extra_half_width() <= 0.0
    }

    /// Returns the widening of the half-width of the step time, a natural logarithm.
    pub fn extra_half_width(&self) -> f64 {
        let folds = |past: LargerCount| (past.here / past.measured).ln();
        let past = WIDENING * [self.gpus, self.parameters].into_iter().flatten().map(folds).sum::<f64>();
        past + self.setting.map_or(0.0, |unseen| unseen.wider) + self.uneven_experts
    }
}
