//! The record of a run, stored outside of the run so that it survives an interruption.

use super::change::{Change, Difference};
use super::fault::Fault;
use std::cell::RefCell;
use trainc_diag::words;
use trainc_emit::{ResourceKind, Verb};

words! {
    /// How the work on a resource ended.
    Outcome {
        /// It matched the plan.
        Unchanged "unchanged",
        /// It was created.
        Created "created",
        /// It was changed in place.
        Updated "updated",
        /// An earlier call of the same plan had created it.
        Found "found",
        /// It belonged to others and was adopted.
        Adopted "adopted",
        /// It exists and is shared with other jobs from now on.
        Shared "shared",
        /// The job was stopped.
        Stopped "stopped",
        /// It was deleted.
        Deleted "deleted",
        /// It was left to the other jobs that use it.
        Left "left",
        /// It was kept.
        Kept "kept",
    }
}

/// A resource of a plan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    /// Its kind.
    pub kind: ResourceKind,
    /// Its name.
    pub name: String,
}

impl Item {
    /// Creates an item.
    pub fn new(kind: ResourceKind, name: &str) -> Self {
        Self { kind, name: name.to_owned() }
    }
}

/// An event of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A writing call starts.
    Doing {
        /// The resource.
        item: Item,
        /// The action.
        what: Verb,
    },
    /// A resource of others is adopted; recorded before it is changed.
    Taking {
        /// The resource.
        item: Item,
        /// Its owner.
        because: String,
        /// Its differences, including those that will be changed.
        differences: Vec<Difference>,
    },
    /// The resource matches the plan.
    Done {
        /// The resource.
        item: Item,
        /// The result.
        what: Outcome,
        /// Its ID, if AWS assigns one.
        id: Option<String>,
        /// The other jobs that share it.
        with: Vec<String>,
    },
    /// A wait continues.
    Waiting {
        /// The resource.
        item: Item,
        /// The service's name of its state, or a description of the wait.
        state: String,
        /// Seconds so far.
        seconds: u64,
        /// The next attempt, after a failed one.
        retry: Option<Retry>,
    },
}

/// Time of the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Seconds until the next attempt.
    pub pause: u64,
    /// Seconds until the last attempt.
    pub left: u64,
}

/// Reason why a resource was not created, changed or deleted.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    /// A call failed.
    Fault(Fault),
    /// An obstacle blocks it.
    Obstacle(Change),
    /// No capacity was available within the time that the user allowed.
    Waited {
        /// The last error.
        fault: Fault,
        /// Seconds waited.
        seconds: u64,
    },
    /// It existed during this run and was deleted by someone else.
    Gone,
    /// The wait timed out.
    Late {
        /// The last state.
        state: String,
        /// Seconds waited.
        seconds: u64,
    },
}

impl From<Fault> for Cause {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// The record of a run.
#[derive(Debug, Default)]
pub struct Ledger {
    events: RefCell<Vec<Event>>,
    failed: RefCell<Vec<(Item, Cause)>>,
    left: RefCell<Vec<Item>>,
}

impl Ledger {
    /// Returns all events so far.
    pub fn events(&self) -> Vec<Event> {
        self.events.borrow().clone()
    }

    /// Returns the failures with their causes.
    pub fn failures(&self) -> Vec<(Item, Cause)> {
        self.failed.borrow().clone()
    }

    /// Returns the resources that were not started because of failures.
    pub fn not_started(&self) -> Vec<Item> {
        self.left.borrow().clone()
    }

    /// Returns the finished resources with their results.
    pub fn finished(&self) -> Vec<(Item, Outcome)> {
        let done = |event: &Event| match event {
            Event::Done { item, what, .. } => Some((item.clone(), *what)),
            Event::Doing { .. } | Event::Taking { .. } | Event::Waiting { .. } => None,
        };
        self.events.borrow().iter().filter_map(done).collect()
    }

    /// Returns the finished file systems with the other jobs that use them.
    pub fn finished_file_systems(&self) -> Vec<(String, Vec<String>)> {
        let there = |event: &Event| match event {
            Event::Done { item, with, .. } if item.kind == ResourceKind::FileSystem => {
                Some((item.name.clone(), with.clone()))
            }
            _ => None,
        };
        self.events.borrow().iter().filter_map(there).collect()
    }
}

/// A listener for the events of a run.
pub trait Listener {
    /// Receives an event.
    fn on_event(&self, event: &Event);
}

/// A listener that ignores events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Listener for Silent {
    fn on_event(&self, _: &Event) {}
}

/// A ledger and the listener that receives each entry.
#[derive(Clone, Copy)]
pub struct Recorder<'a> {
    /// The record.
    pub ledger: &'a Ledger,
    /// The listener.
    pub listener: &'a dyn Listener,
}

impl Recorder<'_> {
    fn record(&self, event: Event) {
        self.listener.on_event(&event);
        self.ledger.events.borrow_mut().push(event);
    }

    /// Records the start of a writing call.
    pub fn record_action(&self, item: &Item, what: Verb) {
        self.record(Event::Doing { item: item.clone(), what });
    }

    /// Records the adoption of a resource of others.
    pub fn record_adoption(&self, item: &Item, change: &Change) {
        let (because, differences) = (change.because.clone(), change.differences.clone());
        self.record(Event::Taking { item: item.clone(), because, differences });
    }

    /// Records a resource that matches the plan.
    pub fn record_done(&self, item: &Item, what: Outcome, id: Option<&str>) {
        self.record_done_shared(item, what, id, &[]);
    }

    /// Records a finished resource that other jobs use too.
    pub fn record_done_shared(&self, item: &Item, what: Outcome, id: Option<&str>, others: &[&str]) {
        let with = others.iter().map(|other| (*other).to_owned()).collect();
        self.record(Event::Done { item: item.clone(), what, id: id.map(str::to_owned), with });
    }

    /// Reports a wait, to the listener only.
    pub fn report_wait(&self, item: &Item, state: &str, seconds: u64) {
        self.send_wait_event(item, state, seconds, None);
    }

    /// Reports a lack of capacity and the next attempt.
    pub fn report_retry(&self, item: &Item, state: &str, seconds: u64, retry: Retry) {
        self.send_wait_event(item, state, seconds, Some(retry));
    }

    fn send_wait_event(&self, item: &Item, state: &str, seconds: u64, retry: Option<Retry>) {
        // Joins the lines of a service's message.
        let state = state.trim_end().trim_end_matches('.').to_owned();
        self.listener.on_event(&Event::Waiting { item: item.clone(), state, seconds, retry });
    }

    /// Records a failure.
    pub fn record_failure(&self, item: &Item, cause: Cause) {
        self.ledger.failed.borrow_mut().push((item.clone(), cause));
    }

    /// Records a resource that was not started.
    pub fn record_not_started(&self, item: Item) {
        self.ledger.left.borrow_mut().push(item);
    }
}
