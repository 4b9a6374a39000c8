//! How far a layout lies beyond the runs that the constants rest on, and how much wider that makes its interval.

use super::constants::{Constants, Gpu, Name};
use super::layout::{GpuKind, Layout};
use super::settings::{FEWEST_RUNS, Setting};

/// What a step time's half-width (a natural logarithm) grows by when a layout has `e` times the GPUs, or the parameters,
/// of the largest run that was measured.
///
/// Found by fitting the constants to the small runs of the shipped table alone and predicting the large ones (limits of
/// 8, 16, 32, 64 and 128 GPUs; of 2, 8, 20 and 60 billion parameters; `data/README.md` has the figures): nine errors in
/// ten lay within the half-width of rows inside the range and at most 0.046 for each factor of `e` beyond it, but for one
/// group of nine rows.
const WIDER: f64 = 0.05;

/// A count that is larger than any that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LargerCount {
    /// The layout's.
    pub here: f64,
    /// The most that was measured.
    pub measured: f64,
}

/// A system, on a kind of GPU and over links, of which too few runs were measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnseenSetting {
    /// The layout's.
    pub setting: Setting,
    /// How many: fewer than [`FEWEST_RUNS`].
    pub runs: f64,
    /// What it adds to the half-width, up to that of sources which a fit did not see; a natural logarithm.
    pub wider: f64,
}

/// A kind of GPU on which too few runs were measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NewGpu {
    /// The kind, that of the constants.
    pub gpu: GpuKind,
    /// How many runs were.
    pub runs: f64,
    /// By how much its half-width is more than that of a kind that was measured; a natural logarithm.
    pub wider: f64,
}

/// In what a layout lies beyond the measured runs; nothing where it lies inside.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Extrapolation {
    /// Kind of GPU, whose own half-width it is: not a part of [`Self::width`].
    pub gpu: Option<NewGpu>,
    /// GPUs of the cluster.
    pub gpus: Option<LargerCount>,
    /// Parameters of the model.
    pub parameters: Option<LargerCount>,
    /// System, kind of GPU and links.
    pub setting: Option<UnseenSetting>,
}

impl Extrapolation {
    /// Of a layout, with the half-width of its kind of GPU, a natural logarithm.
    pub(super) fn of(layout: &Layout, constants: &Constants, own: &Gpu) -> (Self, f64) {
        let general = constants.of_kind(own);
        let inside = own.interval.unwrap_or(general);
        let wider = general - constants.get(Name::Known);
        let is_new = own.interval.is_none() && wider > 0.0;
        let gpu = layout.hardware.gpu.filter(|_| is_new).map(GpuKind::chip);
        let gpu = gpu.map(|gpu| NewGpu { gpu, runs: own.rows, wider });
        (Self { gpu, ..Self::inside(layout, constants, inside) }, inside)
    }

    /// Of a layout whose kind of GPU has a half-width of `inside`.
    fn inside(layout: &Layout, constants: &Constants, inside: f64) -> Self {
        let unseen = Setting::of(layout).map(|setting| UnseenSetting {
            setting,
            runs: constants.runs_of(&setting),
            wider: constants.get(Name::Unseen) - inside,
        });
        let setting = unseen.filter(|unseen| unseen.runs < FEWEST_RUNS && unseen.wider > 0.0);
        let Some(range) = constants.range(layout.system) else { return Self { setting, ..Self::default() } };
        // Counts of published models are rounded.
        let past =
            |here: f64, measured: f64| (here > 1.001 * measured).then_some(LargerCount { here, measured });
        Self {
            gpus: past(layout.hardware.gpus(), range.gpus),
            parameters: past(layout.model.parameters, range.parameters),
            setting,
            gpu: None,
        }
    }

    /// What it adds to the half-width of a step time's interval, a natural logarithm.
    pub fn width(&self) -> f64 {
        let folds = |past: LargerCount| (past.here / past.measured).ln();
        let past = WIDER * [self.gpus, self.parameters].into_iter().flatten().map(folds).sum::<f64>();
        past + self.setting.map_or(0.0, |unseen| unseen.wider)
    }
}
