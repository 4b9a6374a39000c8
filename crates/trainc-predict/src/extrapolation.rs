//! Extrapolation: distance of a layout from the measured runs, and the widening of its interval.

use super::constants::{Constants, Gpu, Name, NearestRun};
use super::experts::uneven_half_width;
use super::layout::{Code, GpuKind, Layout, System};
use super::position::Position;
use super::settings::{FEWEST_OWN, FEWEST_RUNS, Setting};

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

/// The measured run nearest to a layout, if it is so far that the interval is wider.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FarRun {
    /// Setting of the layout.
    pub setting: Setting,
    /// Position of the layout.
    pub position: Position,
    /// Number of runs of its setting.
    pub runs: f64,
    /// The measured run; `None` if there is none at all.
    pub nearest: Option<NearestRun>,
    /// Widening, a natural logarithm.
    pub wider: f64,
}

impl FarRun {
    /// Returns what differs from the measured run, the setting first.
    pub fn differences(&self) -> Vec<&'static str> {
        let Some(nearest) = &self.nearest else { return Vec::new() };
        let mut out = self.setting.differences(&nearest.setting);
        out.extend(self.position.notable_differences(&nearest.position));
        out
    }
}

/// A setting with enough measured runs.
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
    /// Widening for more GPUs or parameters than any measured run has, a natural logarithm of the lower end.
    pub past: f64,
    /// The nearest measured run, if the interval is wider for its distance.
    pub far: Option<FarRun>,
    /// Widening for an engine of which no run was measured.
    pub engine: f64,
    /// Setting of which enough runs were measured near the layout.
    pub measured: Option<MeasuredSetting>,
    /// True if the errors of a user's own runs determine the interval, and runs of this setting are among
    /// them.
    pub has_own_errors: bool,
    /// Widening since ranks may have fuller experts than others, a natural logarithm; 0 without expert
    /// parallelism.
    pub uneven_experts: f64,
}

/// Half-widths of an interval beside a measured run, natural logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct NearWidths {
    /// Of the GPU's own work.
    pub(super) work: f64,
    /// Additional one of waiting parts.
    pub(super) waiting: f64,
    /// Half-width above the prediction over that below.
    pub(super) above: f64,
}

impl NearWidths {
    /// Returns the half-widths for a layout's physics: kinds of work whose errors were larger are wider.
    fn from_layout(layout: &Layout, constants: &Constants) -> Self {
        let c = |name| constants.get(name);
        let by = |applies: bool, name: Name| if applies { c(name) } else { 1.0 };
        let factor = by(layout.model.experts > 0.0, Name::WidthOfExperts)
            * by(layout.system == System::DeepSpeed, Name::WidthOfZero)
            * by(layout.code == Code::HuggingFace, Name::WidthOfScripts)
            * by(layout.offload.optimizer || layout.offload.parameters, Name::WidthOfOffload)
            * layout.degrees.context.max(1.0).powf(c(Name::WidthOfContext));
        Self { work: c(Name::Near) * factor, waiting: c(Name::Waiting) * factor, above: c(Name::Above) }
    }
}

/// Largest distance that widens an interval: beyond it no run says anything.
pub const FARTHEST: f64 = 4.0;

/// Largest distance of a layout that counts as measured: that of nine in ten runs from the nearest run of
/// another shape, of whose errors as many lie inside their intervals.
const MEASURED_WITHIN: f64 = 1.5;

impl Extrapolation {
    /// Returns the extrapolation of a layout with this share of waiting, and the half-widths without it.
    pub(super) fn from_layout(
        layout: &Layout,
        waiting: f64,
        constants: &Constants,
        own: &Gpu,
    ) -> (Self, NearWidths) {
        let mut widths = NearWidths::from_layout(layout, constants);
        if let Some(interval) = own.interval {
            // The errors of a user's own runs, of whatever sign.
            (widths.work, widths.above) = (interval, 1.0);
        }
        // Half-widths that hold for both ends alike become those of the lower one.
        let lower = 1.0 / f64::midpoint(1.0, widths.above);
        let mut out = Self {
            engine: if layout.system == System::Worker { lower * UNMEASURED_ENGINE } else { 0.0 },
            uneven_experts: lower * uneven_half_width(layout),
            ..Self::default()
        };
        let setting = Setting::from_layout(layout);
        let runs = setting.map_or(0.0, |setting| constants.runs_of(&setting));
        if own.interval.is_some() {
            out.has_own_errors = runs >= FEWEST_RUNS;
        } else {
            let unknown = lower * constants.get(Name::Unknown);
            if own.rows < FEWEST_OWN && widths.work < unknown {
                let gpu = layout.hardware.gpu.map(GpuKind::kind_of_constants);
                out.gpu = gpu.map(|gpu| NewGpu { gpu, runs: own.rows, wider: unknown - widths.work });
                widths.work = unknown;
            }
        }
        if let Some(setting) = setting {
            let position = Position::new(layout, waiting);
            let nearest = constants.nearest_run(&setting, &position);
            let distance = nearest.map_or(FARTHEST, |nearest| nearest.distance.min(FARTHEST));
            let factor = (constants.get(Name::WidthOfDistance) * distance).exp();
            let wider = (widths.work + widths.waiting * waiting) * (factor - 1.0);
            // A user's own errors are of settings that the fit knows.
            if own.interval.is_none() || runs < FEWEST_RUNS {
                out.far =
                    Some(FarRun { setting, position, runs, nearest, wider }).filter(|far| far.wider > 0.0);
            }
            if own.interval.is_none() && runs >= FEWEST_OWN && distance <= MEASURED_WITHIN {
                out.measured = Some(MeasuredSetting { setting, runs });
            }
        }
        if let Some(range) = constants.measured_limits(layout.system) {
            // Published parameter counts are rounded.
            let past = |here: f64, measured: f64| {
                (here > 1.001 * measured).then_some(LargerCount { here, measured })
            };
            out.gpus = past(layout.hardware.gpus(), range.gpus);
            out.parameters = past(layout.model.parameters, range.parameters);
            let folds = |past: LargerCount| (past.here / past.measured).ln();
            let beyond: f64 = [out.gpus, out.parameters].into_iter().flatten().map(folds).sum();
            out.past = lower * WIDENING * beyond;
        }
        (out, widths)
    }

    /// Returns true if measured errors of the layout's own setting, near it, determine the interval.
    pub fn is_measured(&self) -> bool {
        let is_measured = self.measured.is_some() || self.has_own_errors;
        is_measured && self.gpu.is_none() && self.past <= 0.0 && self.uneven_experts <= 0.0
    }

    /// Returns the widening of the half-width of the step time, a natural logarithm.
    pub fn extra_half_width(&self) -> f64 {
        self.past + self.far.map_or(0.0, |far| far.wider) + self.engine + self.uneven_experts
    }
}
