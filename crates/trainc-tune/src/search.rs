//! Every layout of the space with its memory, time and cost.

use super::Unsearchable;
use super::choice::Choice;
use super::space::{Limits, Space};
use trainc_predict::memory::{MemoryConstants, gpu_memory_parts, has_room, memory_with};
use trainc_predict::speed::speed;
use trainc_predict::{Constants, Fit, Interval, Memory, Run, Speed};

/// Status of a layout in the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// It fits and keeps the bounds.
    Valid,
    /// It needs more memory than a GPU has.
    TooLarge,
    /// It leaves less room than the mean error of predicted memory.
    Tight,
    /// It ends after the deadline.
    TooLate,
    /// It costs more than the limit, or its cost is unknown.
    TooExpensive,
    /// At the given rate of interruptions it is not expected to finish.
    NeverFinishes,
    /// A check rejects it, or a layout that differs little from it.
    Refused,
}

/// A layout with its figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The layout.
    pub choice: Choice,
    /// Seconds of a step.
    pub step_seconds: f64,
    /// Expected billed seconds of the run, including interruptions if their rate is given.
    pub seconds: f64,
    /// Upper end of them; infinite if the run is not expected to finish there.
    pub seconds_high: f64,
    /// US dollars of the run, if prices are known.
    pub usd: Option<f64>,
    /// Upper bound of the cost: for spot instances at the on-demand price.
    pub most_usd: Option<f64>,
    /// Memory of the fullest GPU, bytes.
    pub memory_bytes: f64,
    /// Upper end of it, bytes.
    pub memory_high_bytes: f64,
    /// Memory of a GPU, bytes.
    pub capacity_bytes: f64,
    /// Number of axes on which it differs from the manifest.
    pub changes: usize,
    /// True if it can be chosen.
    pub status: Status,
}

impl Point {
    /// Returns true if it fits even at the upper end of its predicted memory.
    pub fn surely_fits(&self) -> bool {
        // The search does not need the lower end.
        let interval = Interval { low: self.memory_bytes, high: self.memory_high_bytes };
        Fit::from_bytes(self.memory_bytes, interval, self.capacity_bytes) == Fit::Surely
    }
}

/// Prediction of a layout.
#[derive(Clone, Debug)]
pub struct Predicted {
    /// Step.
    pub speed: Speed,
    /// Run.
    pub run: Run,
    /// Memory of the fullest GPU.
    pub memory: Memory,
}

/// Returns the prediction of a layout of the space, if its speed is known.
pub fn predict_choice(space: &Space, choice: &Choice, constants: &Constants) -> Option<Predicted> {
    let layout = space.layout(choice)?;
    let speed = speed(&layout, constants).ok()?;
    let run = space.sites.get(choice.site)?.terms.as_ref()?.predict_run(&layout, &speed);
    Some(Predicted { run, memory: memory_with(&layout, &MemoryConstants::from_constants(constants)), speed })
}

/// Returns the status of a layout that fits, given the bounds of a run.
fn status_within_limits(point: &Point, limits: &Limits) -> Status {
    if limits.deadline_seconds.is_some_and(|deadline| point.seconds > deadline) {
        return Status::TooLate;
    }
    let surely = point.usd.or(point.most_usd);
    let dear = limits.max_usd.is_some_and(|most| surely.is_none_or(|usd| usd > most));
    if dear { Status::TooExpensive } else { Status::Valid }
}

/// Returns every layout of the space whose memory and speed are known, or the reason why there is none.
pub fn search(space: &Space, limits: &Limits, constants: &Constants) -> Result<Vec<Point>, Unsearchable> {
    let memory_constants = MemoryConstants::from_constants(constants);
    let mut points = Vec::new();
    let mut unknown = None;
    space.visit(|choice, layout| {
        let speed = match speed(layout, constants) {
            Ok(speed) => speed,
            Err(why) => {
                unknown = unknown.or(Some(Unsearchable(why.0)));
                return;
            }
        };
        let Some(capacity_bytes) = layout.hardware.memory_bytes else {
            unknown = unknown.or(Some(Unsearchable("the memory of the accelerator is unknown")));
            return;
        };
        let Some(terms) = space.sites.get(choice.site).and_then(|site| site.terms.as_ref()) else { return };
        let memory_bytes = gpu_memory_parts(layout, &memory_constants).total();
        let run = terms.predict_run(layout, &speed);
        let expected = terms.expected_seconds(&run);
        let mut point = Point {
            choice: *choice,
            step_seconds: speed.step_seconds,
            seconds: expected.unwrap_or(f64::INFINITY),
            seconds_high: run.expected_interval().map_or(f64::INFINITY, |interval| interval.high),
            // The unknown part of the cost is also billed by the second, and decides between few layouts.
            usd: run.least_usd,
            most_usd: terms.most_usd(choice.nodes as f64, expected.unwrap_or(f64::INFINITY)),
            memory_bytes,
            memory_high_bytes: memory_bytes * (1.0 + memory_constants.ends(layout).1),
            capacity_bytes,
            changes: space.changed_axes(choice),
            status: Status::Valid,
        };
        point.status = if memory_bytes > capacity_bytes {
            Status::TooLarge
        } else if !has_room(memory_bytes, capacity_bytes) {
            Status::Tight
        } else if expected.is_none() {
            Status::NeverFinishes
        } else {
            status_within_limits(&point, limits)
        };
        points.push(point);
    });
    // If no layout has room to spare, those that just fit are kept; and if none with room keeps the bounds,
    // those that just fit and keep them are.
    let has_room = |point: &Point| !matches!(point.status, Status::TooLarge | Status::Tight);
    let roomy = points.iter().any(has_room);
    if !points.iter().any(|point| point.status == Status::Valid) {
        for point in points.iter_mut().filter(|point| point.status == Status::Tight) {
            let status = status_within_limits(point, limits);
            if !roomy || status == Status::Valid {
                point.status = status;
            }
        }
    }
    match unknown {
        Some(why) if points.is_empty() => Err(why),
        _ => Ok(points),
    }
}
