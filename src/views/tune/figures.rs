//! The values of a layout as `tune` shows them, each with its interval.

use trainc_diag::text;
use trainc_ops::checked_layouts::Sound;
use trainc_predict::{Interval, Run};
use trainc_tune::description::format_gpu_gib;
use trainc_tune::{Point, Space};

const GIB: f64 = 1_073_741_824.0;

/// Values of a layout as text.
pub(super) struct Figures {
    pub(super) time: String,
    /// Interval of the time: `3h 6m to 4h 12m`.
    pub(super) time_between: Option<String>,
    pub(super) money: String,
    /// Interval of the cost, or of its lower bound.
    pub(super) money_between: Option<String>,
    pub(super) step: String,
    /// Interval of the step time: `1.10 to 1.35 s`.
    pub(super) step_between: Option<String>,
    pub(super) memory: String,
    /// Interval of the memory: `28.1 to 34.2 GiB`.
    pub(super) memory_between: Option<String>,
}

impl Figures {
    /// Formats the values of a layout, as predicted by its own compilation.
    pub(super) fn from_layout(sound: &Sound, point: &Point) -> Self {
        let prediction = &sound.compiled.prediction;
        let run = prediction.run.as_ref();
        let nodes = point.choice.nodes as f64;
        let money = match run.map(|run| (run.cost_usd, run.least_usd)) {
            Some((Some(usd), _)) if run.is_some_and(|run| run.cost_parts.total().is_estimate()) => {
                format!("{} estimated", text::dollars(usd))
            }
            Some((Some(usd), _)) => text::dollars(usd),
            // The price of a file system is unknown.
            Some((None, Some(usd))) => format!("{} at least", text::dollars(usd)),
            // The spot price is unknown, but not the on-demand price.
            _ => match point.most_usd {
                Some(usd) => format!("{} on demand", text::dollars(usd)),
                None => format!("{:.2} node hours", nodes * point.seconds / 3_600.0),
            },
        };
        let speed = prediction.speed.as_ref();
        let hours = run.and_then(Run::expected_interval);
        let dollars = run.and_then(|run| {
            let known =
                run.cost_interval().or_else(|| run.least_cost_interval().filter(|_| run.spot.is_none()));
            known.or_else(|| on_demand_cost(run, point))
        });
        let memory = prediction.memory.as_ref();
        Figures {
            time: text::rounded_duration(run.map_or(point.seconds, Run::expected_seconds)),
            time_between: hours.map(|hours| {
                format!("{} to {}", text::rounded_duration(hours.low), text::rounded_duration(hours.high))
            }),
            money,
            money_between: dollars
                .map(|usd| format!("{} to {}", text::dollars(usd.low), text::dollars(usd.high))),
            step: format!("{:.2} s", speed.map_or(point.step_seconds, |speed| speed.step_seconds)),
            step_between: speed
                .map(|speed| format!("{:.2} to {:.2} s", speed.interval.low, speed.interval.high)),
            memory: format!(
                "{:.1} of {} GiB",
                memory.map_or(point.memory_bytes, |memory| memory.per_gpu_bytes) / GIB,
                format_gpu_gib(point.capacity_bytes)
            ),
            memory_between: memory.map(|memory| {
                format!("{:.1} to {:.1} GiB", memory.interval.low / GIB, memory.interval.high / GIB)
            }),
        }
    }

    /// Returns the figures and their intervals, as two rows of a table.
    pub(super) fn rows(&self) -> [[&str; 4]; 2] {
        let intervals = [&self.time_between, &self.money_between, &self.step_between, &self.memory_between];
        [
            [&self.time, &self.money, &self.step, &self.memory],
            intervals.map(|interval| interval.as_deref().unwrap_or("")),
        ]
    }
}

/// On-demand cost of a layout, for a job on spot instances of unknown price.
pub(super) struct OnDemand {
    pub(super) usd: Option<f64>,
    pub(super) between: Option<Interval>,
}

impl OnDemand {
    pub(super) fn from_run(run: Option<&Run>, point: &Point) -> Self {
        let run = run.filter(|run| run.cost_usd.is_none());
        let usd = point.most_usd.filter(|_| run.is_some());
        Self { usd, between: run.filter(|_| usd.is_some()).and_then(|run| on_demand_cost(run, point)) }
    }
}

/// Returns the interval of the on-demand cost for the predicted duration of a job on spot instances.
fn on_demand_cost(run: &Run, point: &Point) -> Option<Interval> {
    let (hours, each) = (run.expected_interval()?, point.most_usd? / run.expected_seconds());
    Some(Interval { low: each * hours.low, high: each * hours.high })
}

/// Formats a value with its interval: `3.62 h (3.10 to 4.20 h)`.
pub(super) fn with_interval(figure: String, between: Option<&str>) -> String {
    match between {
        Some(between) => format!("{figure} ({between})"),
        None => figure,
    }
}

/// Formats the last line of a comment: varied and constant settings.
pub(super) fn varied_and_held(space: &Space) -> String {
    format!(
        "\nVaried: {}. Held: {}.\n",
        space.describe_varied_axes().join(", "),
        space.describe_fixed_settings().join(", ")
    )
}
