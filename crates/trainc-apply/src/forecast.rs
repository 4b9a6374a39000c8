//! Time and cost of a run, predicted again from its own steps.

use super::account::TrainingJob;
use super::brake::WARM_UP;
use super::metrics::Metrics;
use super::status::{Planned, usd_per_hour};
use serde::Serialize;
use trainc_diag::text;
use trainc_ir::Plan;

/// A part of a run, planned and as it will be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ForecastPart {
    /// `start` (before the first step) or `steps` (with the pauses between them).
    pub name: &'static str,
    /// Planned seconds.
    pub planned_seconds: Option<f64>,
    /// Seconds by the run's own steps.
    pub seconds: f64,
}

/// Time and cost of a whole run by its own steps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// The last step that it is based on.
    pub step: f64,
    /// Seconds per step, with the pauses between steps.
    pub step_seconds: f64,
    /// Billed seconds of the whole run.
    pub seconds: f64,
    /// Planned ones.
    pub planned_seconds: Option<f64>,
    /// US dollars of the whole run.
    pub usd: Option<f64>,
    /// Planned ones.
    pub planned_usd: Option<f64>,
    /// Where the time goes.
    pub parts: [ForecastPart; 2],
}

/// Predicts the rest of a run from its own steps, once 20 of them are measured.
pub fn forecast(plan: &Plan, planned: &Planned, job: &TrainingJob, metrics: &Metrics) -> Option<Forecast> {
    let steps = plan.run.steps.as_ref()?.value as f64;
    let (first, last) = metrics.steps()?;
    if job.is_over() || last.0 - first.0 < WARM_UP {
        return None;
    }
    let step_seconds = metrics.step_seconds()?;
    let start = (first.1 as f64 / 1_000.0 - first.0 * step_seconds - job.started?).max(0.0);
    let of_steps = steps * step_seconds;
    let hourly = usd_per_hour(plan, planned, job);
    let usd = |seconds: f64| Some(hourly? * seconds / 3_600.0);
    Some(Forecast {
        step: last.0,
        step_seconds,
        seconds: start + of_steps,
        planned_seconds: planned.seconds,
        usd: usd(start + of_steps),
        planned_usd: planned.usd,
        parts: [
            ForecastPart { name: "start", planned_seconds: planned.start_seconds, seconds: start },
            ForecastPart { name: "steps", planned_seconds: planned.steps_seconds, seconds: of_steps },
        ],
    })
}

impl Forecast {
    /// Describes it on one line, with what each part adds to the plan.
    pub fn describe(&self) -> String {
        let time = |seconds: f64| text::rounded_duration(seconds);
        // Nothing is said of a plan that reads the same.
        let against = |is: &str, planned: Option<String>| {
            planned
                .filter(|planned| planned != is)
                .map_or_else(String::new, |was| format!(" instead of {was}"))
        };
        let is = time(self.seconds);
        let mut out = format!(
            "forecast from the steps up to {}: {is} billed{}",
            text::group_digits(whole(self.step)),
            against(&is, self.planned_seconds.map(time))
        );
        if let Some(usd) = self.usd.map(text::dollars) {
            let planned = against(&usd, self.planned_usd.map(text::dollars));
            out.push_str(&format!(", {usd}{planned}"));
        }
        let parts: Vec<String> = self
            .parts
            .iter()
            .filter_map(|part| {
                let more = Some(part.seconds - part.planned_seconds?).filter(|more| more.abs() >= 1.0)?;
                let sign = if more < 0.0 { '−' } else { '+' };
                Some(format!("{} {sign}{}", part.name, time(more.abs())))
            })
            .collect();
        if !parts.is_empty() {
            out.push_str(&format!(" ({})", parts.join(", ")));
        }
        out
    }
}

fn whole(value: f64) -> u64 {
    std::time::Duration::try_from_secs_f64(value.max(0.0).round()).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_reads_the_same_is_not_repeated() {
        let part = |name| ForecastPart { name, planned_seconds: None, seconds: 0.0 };
        let forecast = Forecast {
            step: 20.0,
            step_seconds: 1.0,
            seconds: 108_100.0,
            planned_seconds: Some(108_000.0),
            usd: Some(6_114.7),
            planned_usd: Some(6_115.2),
            parts: [part("start"), part("steps")],
        };
        assert_eq!(forecast.describe(), "forecast from the steps up to 20: 1d 6h billed, $6,115");
        let longer = Forecast { seconds: 118_800.0, usd: Some(6_700.0), ..forecast };
        assert_eq!(
            longer.describe(),
            "forecast from the steps up to 20: 1d 9h billed instead of 1d 6h, $6,700 instead of $6,115"
        );
    }
}
