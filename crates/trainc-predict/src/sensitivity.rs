//! Sensitivity of a plan's figures to the constants, and the source of each constant.
//!
//! Each constant is varied in turn: it is listed if the figure changes. So the list always matches the model,
//! and omits constants that the layout does not use.

use super::constants::{Constants, Name};
use super::layout::Layout;
use super::{Interval, Prediction, of_plan};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use trainc_ir::Plan;

const FIXED: &str = include_str!("fixed_constants.toml");

/// Factors by which a constant is varied: 1 %, and 2 for parts that are hidden behind others.
const MOVES: [f64; 4] = [1.01, 0.99, 2.0, 0.5];

/// A figure of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Bytes of the fullest GPU.
    Memory,
    /// Interval of [`Self::Memory`].
    MemoryInterval,
    /// Bytes of one host.
    Host,
    /// Interval of [`Self::Host`].
    HostInterval,
    /// Bytes of a GPU while a checkpoint is saved.
    Saving,
    /// Interval of [`Self::Saving`].
    SavingInterval,
    /// Seconds of a step.
    Step,
    /// Interval of [`Self::Step`].
    StepInterval,
    /// Seconds of the run outside its steps: startup, data, checkpoints.
    Run,
    /// Interval of [`Self::Run`].
    RunInterval,
}

/// Combines both ends of an interval, relative to the prediction, in one figure.
fn sum_of_relative_ends(interval: Interval, of: f64) -> f64 {
    interval.high / of + interval.low / of
}

impl Figure {
    /// All figures, in the order of a plan.
    pub const ALL: [Self; 10] = [
        Self::Memory,
        Self::MemoryInterval,
        Self::Host,
        Self::HostInterval,
        Self::Saving,
        Self::SavingInterval,
        Self::Step,
        Self::StepInterval,
        Self::Run,
        Self::RunInterval,
    ];

    fn value_in(self, prediction: &Prediction) -> Option<f64> {
        let (memory, speed) = (prediction.memory.as_ref(), prediction.speed.as_ref());
        Some(match self {
            Self::Memory => memory?.per_gpu_bytes,
            Self::MemoryInterval => sum_of_relative_ends(memory?.interval, memory?.per_gpu_bytes),
            Self::Host => memory?.host_bytes?,
            Self::HostInterval => sum_of_relative_ends(memory?.host_interval?, memory?.host_bytes?),
            Self::Saving => memory?.peak_checkpoint_bytes?,
            Self::SavingInterval => {
                sum_of_relative_ends(memory?.peak_checkpoint_interval?, memory?.peak_checkpoint_bytes?)
            }
            Self::Step => speed?.step_seconds,
            Self::StepInterval => speed?.interval.high / speed?.step_seconds,
            Self::Run => {
                let parts = prediction.run.as_ref()?.parts;
                parts.startup_seconds() + parts.checkpoints
            }
            Self::RunInterval => {
                let run = prediction.run.as_ref()?;
                sum_of_relative_ends(run.part_intervals.startup, run.parts.startup)
            }
        })
    }
}

/// A constant, its value, and the figures that depend on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sensitivity {
    /// Name in a file of constants.
    pub key: String,
    /// Value.
    pub value: f64,
    /// Figures that depend on it.
    pub moves: Vec<Figure>,
}

/// Returns the constants that affect a plan's figures, in the order of the file.
pub fn sensitivities(plan: &Plan, constants: &Constants) -> Vec<Sensitivity> {
    let chip = Layout::from_plan(plan)
        .ok()
        .and_then(|layout| layout.hardware.gpu)
        .map(|kind| kind.kind_of_constants().as_str());
    let own = ["gemm", "flash", "flash2", "flash3", "launch", "interval"]
        .iter()
        .filter_map(|field| chip.map(|word| format!("gpu.{word}.{field}")));
    let keys = own.chain(Name::ALL.iter().map(|(key, _)| (*key).to_owned()));
    let now = of_plan(plan, constants);
    let mut out = Vec::new();
    for key in keys {
        let Some(value) = constants.clone().value_mut(&key).map(|value| *value) else { continue };
        let tried: Vec<Prediction> = MOVES
            .iter()
            .map(|by| {
                let mut other = constants.clone();
                if let Some(slot) = other.value_mut(&key) {
                    *slot = value * by;
                }
                of_plan(plan, &other)
            })
            .collect();
        let differs = |figure: &Figure| {
            let old = figure.value_in(&now);
            tried.iter().any(|one| match (old, figure.value_in(one)) {
                (Some(old), Some(new)) => (new - old).abs() > 1e-9 * old.abs(),
                (old, new) => old.is_some() != new.is_some(),
            })
        };
        let moves: Vec<Figure> = Figure::ALL.into_iter().filter(differs).collect();
        if !moves.is_empty() {
            out.push(Sensitivity { key, value, moves });
        }
    }
    out
}

/// Source of a constant that is not fitted.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct FixedConstant {
    /// Source, or rule of thumb.
    pub source: String,
    /// ISO date on which it was added.
    pub date: String,
}

/// Returns the constants that are not fitted, by name.
pub fn fixed_constants() -> &'static BTreeMap<String, FixedConstant> {
    static ONCE: LazyLock<BTreeMap<String, FixedConstant>> =
        LazyLock::new(|| toml::from_str(FIXED).unwrap_or_default());
    &ONCE
}

/// Describes the source of a constant.
pub fn describe_constant_source(constants: &Constants, key: &str) -> String {
    let shipped = Constants::shipped();
    let value = |of: &Constants| of.clone().value_mut(key).map(|value| *value);
    let (now, then) = (value(constants), value(shipped));
    let is_shipped = now.zip(then).is_some_and(|(now, then)| (now - then).abs() <= 1e-9 * then.abs());
    if let Some(file) = constants.file.as_ref().filter(|_| constants.borrowed.contains(&key)) {
        return format!("`{file}` lacks this constant: {}", describe_constant_source(shipped, key));
    }
    if let Some(file) = constants.file.as_ref().filter(|_| !is_shipped) {
        return format!("calibration `{file}`, fitted {} by `{}`", constants.fitted, constants.command);
    }
    if let Some(FixedConstant { source, date }) = fixed_constants().get(key) {
        return format!("{source} ({date})");
    }
    let own = key.strip_prefix("gpu.").and_then(|rest| rest.split_once('.')).map(|(word, _)| word);
    if key.ends_with(".interval") {
        return "held-out errors of runs on this card".to_owned();
    }
    let rows = super::GpuKind::with_own_constants()
        .find(|kind| own == Some(kind.as_str()))
        .and_then(|kind| shipped.gpu(kind))
        .map(|gpu| gpu.rows);
    match rows {
        Some(rows) if rows < 1.0 => {
            "carried over from similar cards: data/runs.csv has no run on this one".to_owned()
        }
        Some(rows) => format!("fitted {} to {rows:.0} runs on this card in data/runs.csv", shipped.fitted),
        None => format!("fitted {} to the measured runs of data/runs.csv", shipped.fitted),
    }
}
