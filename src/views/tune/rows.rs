//! The rows of the output.

use super::document::{Edits, Figures, Layout, Machine, RunnerUp};
use super::figures::{self, OnDemand};
use super::output::{file_texts, set_texts};
use trainc_diag::Edit;
use trainc_ir::Price;
use trainc_ops::checked_layouts::Sound;
use trainc_plan::Compiled;
use trainc_tune::front::is_dominated;
use trainc_tune::search::Predicted;
use trainc_tune::{Choice, Point, Reason, Space};

/// A member of the front, with the values of its own compilation.
pub(super) struct Row<'a> {
    pub(super) sound: &'a Sound,
    pub(super) point: Point,
    pub(super) sets: Vec<Edit>,
    pub(super) words: String,
}

/// A runner-up, and the reason why it is not on the front.
pub(super) struct Lost {
    pub(super) point: Point,
    pub(super) sets: Vec<Edit>,
    pub(super) words: String,
    pub(super) reason: Reason,
    /// Its prediction, with intervals.
    pub(super) predicted: Option<Predicted>,
}

impl Row<'_> {
    pub(super) fn figures(&self) -> figures::Figures {
        figures::Figures::from_layout(self.sound, &self.point)
    }

    /// Returns a mark before the description of a layout that may not fit.
    pub(super) fn fit_mark(&self) -> &'static str {
        if self.sound.high_memory_if_tight().is_some() { "may not fit: " } else { "" }
    }

    pub(super) fn document(&self, number: usize, space: &Space, points: &[Point]) -> Layout {
        let prediction = &self.sound.compiled.prediction;
        let run = prediction.run.as_ref();
        let figures = Figures::from_prediction(prediction).with_intervals(
            prediction.speed.as_ref().map(|speed| speed.interval),
            run,
            prediction.memory.as_ref().map(|memory| memory.interval),
            &OnDemand::from_run(run, &self.point),
        );
        Layout {
            number,
            edits: Edits::new(&self.sets),
            machine: Machine::new(&self.words, space, &self.point.choice),
            figures,
            price: price(&self.sound.compiled),
            capacity_bytes: self.point.capacity_bytes,
            tight: self.sound.high_memory_if_tight().is_some(),
            beaten: is_dominated(points, self.sound.at),
            warnings: self.sound.warnings.clone(),
        }
    }
}

impl Lost {
    pub(super) fn document(&self, space: &Space) -> RunnerUp {
        let (point, predicted) = (&self.point, self.predicted.as_ref());
        let run = predicted.map(|predicted| &predicted.run);
        let figures = Figures {
            step_seconds: Some(point.step_seconds),
            seconds: Some(point.seconds),
            cost_usd: point.usd,
            memory_bytes: Some(point.memory_bytes),
            ..Figures::default()
        };
        RunnerUp {
            edits: Edits::new(&self.sets),
            machine: Machine::new(&self.words, space, &point.choice),
            figures: figures.with_intervals(
                predicted.map(|predicted| predicted.speed.interval),
                run,
                predicted.map(|predicted| predicted.memory.interval),
                &OnDemand::from_run(run, point),
            ),
            capacity_bytes: Some(point.capacity_bytes),
            reason: self.reason.clone(),
            text: self.reason.to_string(),
        }
    }
}

impl Edits {
    /// Returns the changes of a layout, with the lines of files that are not manifests.
    fn new(sets: &[Edit]) -> Self {
        Self { sets: set_texts(sets), file_edits: Some(file_texts(sets)) }
    }
}

impl Machine {
    pub(super) fn new(layout: &str, space: &Space, choice: &Choice) -> Self {
        let instance = space.instance_name(choice.site).to_owned();
        Self { layout: layout.to_owned(), instance, nodes: choice.nodes }
    }
}

/// Returns the price of an instance, as in plan.json.
pub(super) fn price(compiled: &Compiled) -> Option<Price> {
    compiled.plan.as_deref()?.price().cloned()
}
