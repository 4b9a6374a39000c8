//! Which constants a plan's figures rest on, and where each of them comes from.
//!
//! Found by trying: a constant counts where a little more or less of it moves the figure. So the list is never older than
//! the model, and says nothing of what a layout does not do.

use super::constants::{Constants, Name};
use super::layout::Layout;
use super::{Interval, Prediction, of_plan};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use trainc_ir::Plan;

const FIXED: &str = include_str!("fixed_constants.toml");

/// How far a constant is moved either way, as factors: a hundredth, and twice, where a part is hidden behind another.
const MOVES: [f64; 4] = [1.01, 0.99, 2.0, 0.5];

/// A figure of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Bytes of the fullest GPU.
    Memory,
    /// How far they may be off.
    MemoryInterval,
    /// Bytes of one host.
    Host,
    /// How far they may be off.
    HostInterval,
    /// Bytes of a GPU while a checkpoint is saved.
    Saving,
    /// How far they may be off.
    SavingInterval,
    /// Seconds of a step.
    Step,
    /// How far they may be off.
    StepInterval,
    /// Seconds of the run beside its steps: start, data, checkpoints.
    Run,
    /// How far they may be off.
    RunInterval,
}

/// Both ends of an interval over what is predicted, as one figure.
fn ends(interval: Interval, of: f64) -> f64 {
    interval.high / of + interval.low / of
}

impl Figure {
    /// All of them, in the order of a plan.
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

    fn of(self, prediction: &Prediction) -> Option<f64> {
        let (memory, speed) = (prediction.memory.as_ref(), prediction.speed.as_ref());
        Some(match self {
            Self::Memory => memory?.per_gpu_bytes,
            Self::MemoryInterval => ends(memory?.interval, memory?.per_gpu_bytes),
            Self::Host => memory?.host_bytes?,
            Self::HostInterval => ends(memory?.host_interval?, memory?.host_bytes?),
            Self::Saving => memory?.peak_checkpoint_bytes?,
            Self::SavingInterval => ends(memory?.peak_checkpoint_interval?, memory?.peak_checkpoint_bytes?),
            Self::Step => speed?.step_seconds,
            Self::StepInterval => speed?.interval.high / speed?.step_seconds,
            Self::Run => {
                let parts = prediction.run.as_ref()?.parts;
                parts.start() + parts.checkpoints
            }
            Self::RunInterval => {
                let run = prediction.run.as_ref()?;
                ends(run.part_intervals.startup, run.parts.startup)
            }
        })
    }
}

/// A constant, its value, and the figures that rest on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sensitivity {
    /// Its name in a file of constants.
    pub key: String,
    /// Its value.
    pub value: f64,
    /// What it moves.
    pub moves: Vec<Figure>,
}

/// The constants that move a plan's figures, in the order of the file.
pub fn sensitivities(plan: &Plan, constants: &Constants) -> Vec<Sensitivity> {
    let chip =
        Layout::of_plan(plan).ok().and_then(|layout| layout.hardware.gpu).map(|kind| kind.chip().word());
    let own = ["gemm", "flash", "launch", "interval"]
        .iter()
        .filter_map(|field| chip.map(|word| format!("gpu.{word}.{field}")));
    let keys = own.chain(Name::ALL.iter().map(|(key, _)| (*key).to_owned()));
    let now = of_plan(plan, constants);
    let mut out = Vec::new();
    for key in keys {
        let Some(value) = constants.clone().slot(&key).map(|value| *value) else { continue };
        let tried: Vec<Prediction> = MOVES
            .iter()
            .map(|by| {
                let mut other = constants.clone();
                if let Some(slot) = other.slot(&key) {
                    *slot = value * by;
                }
                of_plan(plan, &other)
            })
            .collect();
        let differs = |figure: &Figure| {
            let old = figure.of(&now);
            tried.iter().any(|one| match (old, figure.of(one)) {
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

/// What a constant was taken from that no fit moves.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct FixedConstant {
    /// The source, or whose judgement it is.
    pub source: String,
    /// When it came into the constants (ISO date).
    pub date: String,
}

/// The constants that no fit moves, by name.
pub fn fixed_constants() -> &'static BTreeMap<String, FixedConstant> {
    static ONCE: LazyLock<BTreeMap<String, FixedConstant>> =
        LazyLock::new(|| toml::from_str(FIXED).unwrap_or_default());
    &ONCE
}

/// Where a constant's value comes from, in words.
pub fn source(constants: &Constants, key: &str) -> String {
    let shipped = Constants::shipped();
    let value = |of: &Constants| of.clone().slot(key).map(|value| *value);
    let (now, then) = (value(constants), value(shipped));
    let is_shipped = now.zip(then).is_some_and(|(now, then)| (now - then).abs() <= 1e-9 * then.abs());
    if let Some(file) = constants.file.as_ref().filter(|_| constants.borrowed.contains(&key)) {
        return format!("`{file}` lacks this constant: {}", source(shipped, key));
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
    let rows = super::GpuKind::chips()
        .find(|kind| own == Some(kind.word()))
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
