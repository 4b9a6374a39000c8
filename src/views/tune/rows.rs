//! The rows of the output, with their values as JSON.

use super::figures::{Figures, OnDemand};
use super::output::set_texts;
use serde_json::{Value, json};
use trainc_ops::checked_layouts::Sound;
use trainc_plan::Compiled;
use trainc_predict::{Interval, Run};
use trainc_report::json::Price;
use trainc_tune::front::is_dominated;
use trainc_tune::reasons::Money;
use trainc_tune::search::Predicted;
use trainc_tune::{Point, Reason, Set, Space};

/// A member of the front, with the values of its own compilation.
pub(super) struct Row<'a> {
    pub(super) sound: &'a Sound,
    pub(super) point: Point,
    pub(super) sets: Vec<Set>,
    pub(super) words: String,
}

/// A runner-up, and the reason why it is not on the front.
pub(super) struct Lost {
    pub(super) point: Point,
    pub(super) sets: Vec<Set>,
    pub(super) words: String,
    pub(super) reason: Reason,
    /// Its prediction, with intervals.
    pub(super) predicted: Option<Predicted>,
}

impl Row<'_> {
    pub(super) fn figures(&self) -> Figures {
        Figures::from_layout(self.sound, &self.point)
    }

    /// Returns a mark before the description of a layout that may not fit.
    pub(super) fn fit_mark(&self) -> &'static str {
        if self.sound.high_memory_if_tight().is_some() { "may not fit: " } else { "" }
    }

    pub(super) fn json(&self, number: usize, space: &Space, points: &[Point]) -> Value {
        let prediction = &self.sound.compiled.prediction;
        let (run, speed) = (prediction.run.as_ref(), prediction.speed.as_ref());
        let hours = run.and_then(Run::expected_interval);
        let cost = run.and_then(Run::cost_interval);
        let step = speed.map(|speed| speed.interval);
        let memory = prediction.memory.as_ref();
        let on_demand = OnDemand::from_run(run, &self.point);
        json!({
            "number": number,
            "sets": set_texts(&self.sets),
            "layout": self.words,
            "instance": space.instance_name(self.point.choice.site),
            "nodes": self.point.choice.nodes,
            "step_seconds": speed.map(|speed| speed.step_seconds),
            "step_seconds_low": low(step),
            "step_seconds_high": high(step),
            "seconds": run.map(Run::expected_seconds),
            "seconds_low": low(hours),
            "seconds_high": high(hours),
            "cost_usd": run.and_then(|run| run.cost_usd),
            "cost_usd_low": low(cost),
            "cost_usd_high": high(cost),
            "on_demand_usd": on_demand.usd,
            "on_demand_usd_low": low(on_demand.between),
            "on_demand_usd_high": high(on_demand.between),
            "price": price(&self.sound.compiled),
            "memory_bytes": memory.map(|memory| memory.per_gpu_bytes),
            "memory_low_bytes": low(memory.map(|memory| memory.interval)),
            "memory_high_bytes": high(memory.map(|memory| memory.interval)),
            "capacity_bytes": self.point.capacity_bytes,
            "tight": self.sound.high_memory_if_tight().is_some(),
            "beaten": is_dominated(points, self.sound.at),
            "warnings": self.sound.warnings,
        })
    }
}

impl Lost {
    pub(super) fn json(&self, space: &Space) -> Value {
        let reason = match &self.reason {
            Reason::Beaten { by, at_upper_ends, slower, dearer, longer_parts, traits } => json!({
                "kind": "beaten",
                "by": by + 1,
                "at_upper_ends": at_upper_ends,
                "slower": slower,
                "dearer_usd": dearer.and_then(Money::predicted_usd),
                "dearer_on_demand_usd": dearer.and_then(Money::on_demand_usd),
                "because": longer_parts.iter().map(|one| json!({
                    "part": one.part, "seconds": one.seconds, "collective": one.collective,
                })).collect::<Vec<_>>(),
                "traits": traits,
            }),
            Reason::LessCertain { by, quicker, cheaper, less } => json!({
                "kind": "aside",
                "by": by + 1,
                "quicker": quicker,
                "cheaper_usd": cheaper.and_then(Money::predicted_usd),
                "cheaper_on_demand_usd": cheaper.and_then(Money::on_demand_usd),
                "less_cost": less,
            }),
            Reason::TooLarge { needs_bytes, has_bytes, part, part_bytes } => json!({
                "kind": "too-large", "needs_bytes": needs_bytes, "has_bytes": has_bytes,
                "part": part, "part_bytes": part_bytes,
            }),
            Reason::Tight { needs_bytes, has_bytes } => {
                json!({ "kind": "tight", "needs_bytes": needs_bytes, "has_bytes": has_bytes })
            }
            Reason::TooLate { seconds, deadline_seconds } => {
                json!({ "kind": "late", "seconds": seconds, "deadline_seconds": deadline_seconds })
            }
            Reason::TooExpensive { usd, at_most_usd, most_usd, .. } => json!({
                "kind": "dear", "cost_usd": usd, "on_demand_usd": at_most_usd, "most_usd": most_usd,
            }),
            Reason::Refused(refusal) => {
                json!({
                    "kind": "refused", "code": refusal.code, "message": refusal.message, "layouts": refusal.layouts,
                })
            }
        };
        let predicted = self.predicted.as_ref();
        let run = predicted.map(|predicted| &predicted.run);
        let step = predicted.map(|predicted| predicted.speed.interval);
        let (hours, cost) = (run.and_then(Run::expected_interval), run.and_then(Run::cost_interval));
        let memory = predicted.map(|predicted| predicted.memory.interval);
        let on_demand = OnDemand::from_run(run, &self.point);
        json!({
            "sets": set_texts(&self.sets),
            "layout": self.words,
            "instance": space.instance_name(self.point.choice.site),
            "nodes": self.point.choice.nodes,
            "step_seconds": self.point.step_seconds,
            "step_seconds_low": low(step),
            "step_seconds_high": high(step),
            "seconds": self.point.seconds,
            "seconds_low": low(hours),
            "seconds_high": high(hours),
            "cost_usd": self.point.usd,
            "cost_usd_low": low(cost),
            "cost_usd_high": high(cost),
            "on_demand_usd": on_demand.usd,
            "on_demand_usd_low": low(on_demand.between),
            "on_demand_usd_high": high(on_demand.between),
            "memory_bytes": self.point.memory_bytes,
            "memory_low_bytes": low(memory),
            "memory_high_bytes": high(memory),
            "capacity_bytes": self.point.capacity_bytes,
            "reason": reason,
            "text": self.reason.to_string(),
        })
    }
}

/// Returns the price of an instance, as in plan.json.
pub(super) fn price(compiled: &Compiled) -> Option<Price> {
    compiled.plan.as_deref()?.price().map(Price::from)
}

fn low(of: Option<Interval>) -> Option<f64> {
    of.map(|interval| interval.low)
}

fn high(of: Option<Interval>) -> Option<f64> {
    of.map(|interval| interval.high)
}
