//! A simulated account in memory, with eventual consistency, state transitions over time, and faults at any
//! call. Used by `--simulate` and by tests.
//!
//! It has a simulated clock, which advances during waits and slightly with every call. It is stricter than
//! AWS, which often tolerates mistakes: reads can lag, tokens and names are enforced, and new roles cannot be
//! assumed immediately.

mod cloud;
mod defaults;
mod fault;
mod job;
mod logs;
mod observe;
mod pace;
mod start;
mod state;

/// Value of every quota that an account does not set: enough for any job.
pub const UNBOUNDED_QUOTA: f64 = 1e9;

pub use fault::{Faults, Moment, Refusal};
pub use job::Outcome;
pub use pace::Pace;
pub use state::{Account, FileSystemState, JobState, RoleState};

use super::calls::{Call, Effect};
use super::cloud::{Answer, Clock};
use super::fault::{Class, Fault};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// Simulated seconds per call.
const CALL_SECONDS: f64 = 0.05;

/// A simulated account with its clock and its faults. Clones share the same account.
#[derive(Clone, Debug, Default)]
pub struct Fake {
    shared: Rc<Shared>,
    faults: Rc<Faults>,
    /// Overrides of region and job speed; `None` uses those of the account.
    place: Option<Place>,
}

/// The region, and the speed of jobs started there.
#[derive(Clone, Debug)]
struct Place {
    region: String,
    steps: Option<u64>,
    pace: Option<Pace>,
}

/// State that all clones share.
#[derive(Debug, Default)]
struct Shared {
    state: RefCell<Account>,
    /// Snapshots after each of the last calls, oldest first.
    past: RefCell<VecDeque<Account>>,
    time: Cell<f64>,
    calls: RefCell<Vec<Call>>,
    attempts: RefCell<BTreeMap<(Call, String), u32>>,
    crashed: Cell<bool>,
}

impl Fake {
    /// Creates a simulation of an account, at the account's time.
    pub fn new(account: Account) -> Self {
        let time = account.now;
        let shared = Shared { state: RefCell::new(account), time: Cell::new(time), ..Shared::default() };
        Self { shared: Rc::new(shared), ..Self::default() }
    }

    /// Returns the simulation with these faults.
    #[must_use]
    pub fn with_faults(mut self, faults: Faults) -> Self {
        self.faults = Rc::new(faults);
        self
    }

    /// Returns the current account.
    pub fn account(&self) -> Account {
        let mut account = self.shared.state.borrow().clone();
        account.now = self.shared.time.get();
        account
    }

    /// Returns the same account in another region, where jobs have this number of steps and this speed.
    #[must_use]
    pub fn in_region(&self, region: &str, steps: Option<u64>, pace: Option<Pace>) -> Self {
        Self { place: Some(Place { region: region.to_owned(), steps, pace }), ..self.clone() }
    }

    /// Returns the calls so far, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.calls.borrow().clone()
    }

    /// Returns true if a simulated crash ended the caller.
    pub fn has_crashed(&self) -> bool {
        self.shared.crashed.get()
    }

    /// Runs one call: the faults before it, its effect, the faults after it.
    async fn call<T>(
        &self,
        call: Call,
        about: &str,
        effect: impl FnOnce(&mut Account, f64) -> Answer<T>,
    ) -> Answer<T> {
        yield_once().await;
        let shared = &self.shared;
        shared.time.set(shared.time.get() + CALL_SECONDS);
        shared.calls.borrow_mut().push(call);
        let number = shared.calls.borrow().len();
        let attempt = {
            let mut attempts = shared.attempts.borrow_mut();
            let count = attempts.entry((call, about.to_owned())).or_default();
            *count += 1;
            *count
        };
        if self.faults.crash == Some((number, Moment::Before)) {
            self.crash().await;
        }
        if self.faults.expires_after.is_some_and(|last| number > last) {
            let text = "The security token included in the request is expired";
            return Err(Fault::from_answer(call, Some(403), "ExpiredTokenException", text));
        }
        if let Some(fault) = self.faults.fault_before_call(call, attempt) {
            return Err(fault);
        }
        let denied = shared.state.borrow().denied.contains(&call.action());
        if denied {
            let text = format!("User: simulated is not authorized to perform: {}", call.action());
            return Err(Fault::from_answer(call, Some(403), "AccessDenied", &text));
        }
        let answer = self.effect(call, effect);
        if self.faults.crash == Some((number, Moment::After)) {
            self.crash().await;
        }
        if self.faults.loses_answer(call, attempt) {
            return Err(Fault::new(
                call,
                Class::NoResponse,
                "the connection was closed before a response arrived",
            ));
        }
        answer
    }

    fn effect<T>(&self, call: Call, effect: impl FnOnce(&mut Account, f64) -> Answer<T>) -> Answer<T> {
        let now = self.shared.time.get();
        if call.row().effect == Effect::Read && self.faults.lag > 0 {
            // Reads see the account as it was some calls ago.
            let oldest = self.shared.past.borrow().front().cloned();
            let mut old = oldest.unwrap_or_else(|| self.shared.state.borrow().clone());
            self.apply_place(&mut old);
            old.advance_to(now);
            self.save_snapshot();
            return effect(&mut old, now);
        }
        let mut state = self.shared.state.borrow_mut();
        self.apply_place(&mut state);
        state.advance_to(now);
        let answer = effect(&mut state, now);
        drop(state);
        self.save_snapshot();
        answer
    }

    /// Applies the overrides of this clone.
    fn apply_place(&self, account: &mut Account) {
        let Some(place) = &self.place else { return };
        place.region.clone_into(&mut account.region);
        account.steps = place.steps.unwrap_or(account.steps);
        account.pace = place.pace;
    }

    fn save_snapshot(&self) {
        if self.faults.lag == 0 {
            return;
        }
        let mut past = self.shared.past.borrow_mut();
        past.push_back(self.shared.state.borrow().clone());
        while past.len() > self.faults.lag {
            past.pop_front();
        }
    }

    /// Simulates a crash of the caller: the call never returns.
    async fn crash(&self) {
        self.shared.crashed.set(true);
        std::future::pending::<()>().await;
    }
}

impl Clock for Fake {
    fn now(&self) -> f64 {
        self.shared.time.get()
    }

    async fn sleep(&self, time: Duration) {
        // A pause of zero still advances the clock, since otherwise nothing would complete.
        let now = self.shared.time.get();
        self.shared.time.set(now + time.as_secs_f64().max(1.0));
        yield_once().await;
    }
}

/// Yields once to other tasks.
async fn yield_once() {
    let mut yielded = false;
    poll_fn(|context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
