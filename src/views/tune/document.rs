//! `tune -o json`. Keys are only added; sizes are bytes, times seconds, money US dollars.

use schemars::JsonSchema;
use serde::Serialize;
use trainc_ir::Price;
use trainc_predict::{Interval, Prediction, Run};
use trainc_tune::Reason;

/// The version of the format: the major number changes with incompatible changes.
pub(super) const FORMAT_VERSION: &str = "1.0";

/// The output of `trainc tune -o json`: the Pareto-optimal layouts by time and cost, and why each runner-up
/// was rejected. Sizes are bytes, times seconds, money US dollars. An unknown figure is null. Members are
/// only added: readers must ignore unknown members, and only a new major number of `format_version` removes
/// members.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "trainc tune, version 1")]
pub(crate) struct Document {
    /// Major and minor version of this format.
    #[schemars(regex(pattern = r"^1\.[0-9]+$"))]
    pub(super) format_version: &'static str,
    /// The job's name.
    pub(super) job: String,
    /// Number of evaluated layouts.
    pub(super) searched: usize,
    /// Those predicted to fit in memory.
    pub(super) fit: usize,
    /// Those that fit and are within `--max-usd`, `--deadline` and `max-run`; 0 if there is such a bound and
    /// no layout has a predicted time.
    pub(super) within_bounds: usize,
    /// Layouts that a check rejects, or that have the same shape as a rejected one.
    pub(super) refused: usize,
    /// Whether there were too many candidates to check all of them.
    pub(super) cut: bool,
    /// False for a kind of model whose predicted step times err by more than a fifth on sources that were not
    /// fitted: models with experts. Null where no layout is ranked.
    pub(super) order_is_reliable: Option<bool>,
    /// The number that `--write` uses by default: the fastest that certainly fits, with a known price if any
    /// has one; null if nothing fits.
    #[schemars(range(min = 1))]
    pub(super) first_choice: Option<usize>,
    /// The varied values.
    pub(super) varied: Vec<String>,
    /// The fixed values.
    pub(super) held: Vec<String>,
    /// The proposed layouts, those that surely fit first, each fastest first: the Pareto-optimal ones by time
    /// and cost, and those that fit with more certainty; `beaten` distinguishes them.
    pub(super) front: Vec<Layout>,
    /// The runners-up, and the reasons for their rejection.
    pub(super) lost: Vec<RunnerUp>,
    /// If no layout has a predicted time: the layouts that fit and pass every check. `front` is then empty,
    /// and `lost` contains those that the checks reject. Null if layouts are ranked.
    pub(super) unranked: Option<Unranked>,
    /// Requested instance types without a ranked or fitting layout.
    pub(super) left_out: Vec<LeftOut>,
}

impl Document {
    /// Renders it, with sorted keys.
    pub(super) fn render(&self) -> String {
        let text = serde_json::to_value(self).and_then(|value| serde_json::to_string_pretty(&value));
        text.unwrap_or_default() + "\n"
    }
}

/// A proposed layout.
#[derive(Serialize, JsonSchema)]
pub(super) struct Layout {
    /// Its number for `--write=N`, from 1.
    #[schemars(range(min = 1))]
    pub(super) number: usize,
    #[serde(flatten)]
    pub(super) edits: Edits,
    #[serde(flatten)]
    pub(super) machine: Machine,
    #[serde(flatten)]
    pub(super) figures: Figures,
    /// Price of an instance; null if the catalogue has none, and for a cluster of instance groups.
    pub(super) price: Option<Price>,
    /// Memory of the GPU, bytes.
    pub(super) capacity_bytes: f64,
    /// Whether it fits, but not at the upper bound of its interval.
    pub(super) tight: bool,
    /// Whether another layout that fits dominates it in time and cost. It is listed because it fits with more
    /// certainty: the fastest that certainly fits is always included, and replaces one that may not fit and
    /// differs by less than 1 % in time and cost. The layouts that are not dominated are the Pareto front. On
    /// more than 16 nodes the upper ends of time and cost are compared.
    pub(super) beaten: bool,
    /// Codes of warnings that the unchanged manifest does not have.
    pub(super) warnings: Vec<String>,
}

/// What a layout changes.
#[derive(Serialize, JsonSchema)]
pub(super) struct Edits {
    /// Its changes to the manifest, in the syntax of `--set`; empty for the unchanged manifest.
    pub(super) sets: Vec<String>,
    /// Lines to edit in files that are not manifests, which trainc does not write, as FILE:LINE: KEY AND
    /// VALUE.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>")]
    pub(super) file_edits: Option<Vec<String>>,
}

/// A layout and its instances.
#[derive(Serialize, JsonSchema)]
pub(super) struct Machine {
    /// The layout as text.
    pub(super) layout: String,
    /// Instance type.
    pub(super) instance: String,
    /// Nodes.
    #[schemars(range(min = 1))]
    pub(super) nodes: u64,
}

/// The predicted figures of a layout.
#[derive(Default, Serialize, JsonSchema)]
pub(super) struct Figures {
    /// Seconds per step.
    pub(super) step_seconds: Option<f64>,
    /// The lower bound of a step's interval, seconds.
    pub(super) step_seconds_low: Option<f64>,
    /// The upper bound of it, seconds.
    pub(super) step_seconds_high: Option<f64>,
    /// Expected run time, including interruptions at a given rate, seconds.
    pub(super) seconds: Option<f64>,
    /// Lower bound of the run time, seconds.
    pub(super) seconds_low: Option<f64>,
    /// Upper bound of the run time, seconds; null if the run would never finish at this bound.
    pub(super) seconds_high: Option<f64>,
    /// Expected cost, US dollars; null if a price is unknown.
    pub(super) cost_usd: Option<f64>,
    /// The lower bound of that cost's interval, US dollars.
    pub(super) cost_usd_low: Option<f64>,
    /// The upper bound of it, US dollars.
    pub(super) cost_usd_high: Option<f64>,
    /// On-demand cost of the run, if the job uses spot instances of unknown discount, US dollars:
    /// `run.on_demand_usd` of its plan.
    pub(super) on_demand_usd: Option<f64>,
    /// The lower bound of it, US dollars.
    pub(super) on_demand_usd_low: Option<f64>,
    /// The upper bound of it, US dollars.
    pub(super) on_demand_usd_high: Option<f64>,
    /// Peak of the fullest GPU, bytes.
    pub(super) memory_bytes: Option<f64>,
    /// The lower bound of the peak's interval, bytes.
    pub(super) memory_low_bytes: Option<f64>,
    /// The upper bound of the peak's interval, bytes.
    pub(super) memory_high_bytes: Option<f64>,
}

impl Figures {
    /// Returns these figures with intervals, and with the on-demand cost.
    pub(super) fn with_intervals(
        self,
        step: Option<Interval>,
        run: Option<&Run>,
        memory: Option<Interval>,
        on_demand: &super::figures::OnDemand,
    ) -> Self {
        let (seconds, cost) = (run.and_then(Run::expected_interval), run.and_then(Run::cost_interval));
        Self {
            step_seconds_low: low(step),
            step_seconds_high: high(step),
            seconds_low: low(seconds),
            seconds_high: high(seconds),
            cost_usd_low: low(cost),
            cost_usd_high: high(cost),
            on_demand_usd: on_demand.usd,
            on_demand_usd_low: low(on_demand.between),
            on_demand_usd_high: high(on_demand.between),
            memory_low_bytes: low(memory),
            memory_high_bytes: high(memory),
            ..self
        }
    }

    /// Returns the figures of a prediction, without intervals.
    pub(super) fn from_prediction(prediction: &Prediction) -> Self {
        let run = prediction.run.as_ref();
        Self {
            step_seconds: prediction.speed.as_ref().map(|speed| speed.step_seconds),
            seconds: run.map(Run::expected_seconds),
            cost_usd: run.and_then(|run| run.cost_usd),
            memory_bytes: prediction.memory.as_ref().map(|memory| memory.per_gpu_bytes),
            ..Self::default()
        }
    }
}

/// A runner-up, and why it was rejected.
#[derive(Serialize, JsonSchema)]
pub(super) struct RunnerUp {
    #[serde(flatten)]
    pub(super) edits: Edits,
    #[serde(flatten)]
    pub(super) machine: Machine,
    #[serde(flatten)]
    pub(super) figures: Figures,
    /// Memory of the GPU, bytes.
    pub(super) capacity_bytes: Option<f64>,
    /// The reason for its rejection: its kind, and the figures of that kind.
    pub(super) reason: Reason,
    /// The reason as text.
    pub(super) text: String,
}

/// The layouts of a job without a predicted time.
#[derive(Serialize, JsonSchema)]
pub(super) struct Unranked {
    /// The reason why no time is predicted.
    pub(super) why: String,
    /// For each instance type the layout with the fewest changes to the manifest, cheapest per hour first.
    pub(super) layouts: Vec<UnrankedLayout>,
}

/// A layout that fits and passes every check.
#[derive(Serialize, JsonSchema)]
pub(super) struct UnrankedLayout {
    /// Its number for `--write=N`, from 1, cheapest per hour first.
    #[schemars(range(min = 1))]
    pub(super) number: usize,
    /// Its changes to the manifest, in the syntax of `--set`; empty for the unchanged manifest.
    pub(super) sets: Vec<String>,
    #[serde(flatten)]
    pub(super) machine: Machine,
    /// On-demand US dollars per hour of its instances; null if a price is unknown.
    pub(super) usd_per_hour: Option<f64>,
    /// Price of an instance; null if the catalogue has none, and for a cluster of instance groups.
    pub(super) price: Option<Price>,
    /// Peak of the fullest GPU, bytes.
    pub(super) memory_bytes: f64,
    /// The lower bound of the peak's interval, bytes.
    pub(super) memory_low_bytes: f64,
    /// The upper bound of the peak's interval, bytes.
    pub(super) memory_high_bytes: f64,
    /// Memory of the GPU, bytes.
    pub(super) capacity_bytes: f64,
    /// Whether it fits, but not at the upper bound of its interval.
    pub(super) tight: bool,
    /// Codes of warnings that the unchanged manifest does not have.
    pub(super) warnings: Vec<String>,
}

/// A requested instance type without a ranked or fitting layout.
#[derive(Serialize, JsonSchema)]
pub(super) struct LeftOut {
    /// The instance type.
    pub(super) instance: String,
    /// The reason: no predicted time, or no layout fits.
    pub(super) why: String,
}

fn low(of: Option<Interval>) -> Option<f64> {
    of.map(|interval| interval.low)
}

fn high(of: Option<Interval>) -> Option<f64> {
    of.map(|interval| interval.high)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_schema_is_that_of_the_types() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/tune.v1.json");
        trainc_testing::json_schema::assert_generated::<super::Document>(&path);
    }
}
