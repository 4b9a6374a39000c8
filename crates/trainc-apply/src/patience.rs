//! Retries and waits: how often and how long.

use super::cloud::{Answer, Clock};
use super::fault::{Class, Fault};
use super::ledger::Retry;
use std::time::Duration;

/// Timeouts and the polling interval. `TRAINC_POLL_SECONDS` sets every pause, so that tests run without
/// pauses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patience {
    /// The polling interval, and the upper bound of any pause.
    pub poll: Duration,
    /// Time for which writes may not be visible (IAM, lists): 2 minutes.
    pub unseen: Duration,
    /// Maximum time for creating a file system: 40 minutes; AWS documents 5 to 15.
    pub making: Duration,
    /// Time to wait for a job when AWS has no capacity or a quota is exhausted.
    pub capacity: Option<Duration>,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(15),
            unseen: Duration::from_mins(2),
            making: Duration::from_mins(40),
            capacity: None,
        }
    }
}

/// Maximum number of retries of a throttled or failed call.
const MOST_REPEATS: u32 = 6;

/// Maximum number of retries of an unreachable endpoint: a wrong address never responds.
const FEW_REPEATS: u32 = 1;

/// Minimum number of polls of a wait if no time passes between them.
const LEAST_LOOKS: u32 = 40;

/// Longest pause between two attempts to get capacity, in polling intervals: five minutes.
const MOST_POLLS: u32 = 20;

/// A wait with a timeout, by time or, if no time passes, by the number of polls.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    since: f64,
    most: Duration,
    looks: u32,
    /// Failed attempts to get capacity.
    tries: u32,
}

impl Wait {
    /// Starts a wait.
    pub fn start(clock: &impl Clock, most: Duration) -> Self {
        Self { since: clock.now(), most, looks: 0, tries: 0 }
    }

    /// Returns true if the timeout has expired.
    pub fn is_over(&self, clock: &impl Clock) -> bool {
        self.has_lasted(clock, self.most)
    }

    fn has_lasted(&self, clock: &impl Clock, most: Duration) -> bool {
        let looks_allowed = u32::try_from(most.as_secs() / 5).unwrap_or(u32::MAX).max(LEAST_LOOKS);
        clock.now() - self.since >= most.as_secs_f64() || self.looks >= looks_allowed
    }

    /// Returns the seconds since it started.
    pub fn seconds(&self, clock: &impl Clock) -> u64 {
        Duration::try_from_secs_f64(clock.now() - self.since).unwrap_or_default().as_secs()
    }

    /// Pauses for 1, 2, 4 and then always 8 seconds, but at most for the polling interval.
    pub async fn pause_short(&mut self, clock: &impl Clock, patience: &Patience) {
        let seconds = 1_u64 << self.looks.min(3);
        self.looks += 1;
        clock.sleep(Duration::from_secs(seconds).min(patience.poll)).await;
    }

    /// Pauses after a failed attempt to get capacity: one polling interval, doubled after each further
    /// attempt up to [`MOST_POLLS`], but not beyond the end of the wait.
    pub async fn pause_backoff(&mut self, clock: &impl Clock, patience: &Patience) {
        let pause = self.next_pause(clock, patience);
        self.tries = self.tries.saturating_add(1).min(30);
        self.looks += 1;
        clock.sleep(pause).await;
    }

    fn next_pause(&self, clock: &impl Clock, patience: &Patience) -> Duration {
        let polls = 1_u32.checked_shl(self.tries).unwrap_or(MOST_POLLS).min(MOST_POLLS);
        (patience.poll * polls).min(self.left(clock).max(patience.poll))
    }

    fn left(&self, clock: &impl Clock) -> Duration {
        self.most.saturating_sub(Duration::from_secs(self.seconds(clock)))
    }

    /// Returns the duration of the next [`Self::pause_backoff`], and the remaining time.
    pub fn retry(&self, clock: &impl Clock, patience: &Patience) -> Retry {
        Retry { pause: self.next_pause(clock, patience).as_secs(), left: self.left(clock).as_secs() }
    }

    /// Counts a poll for which another wait pauses.
    pub fn count_look(&mut self) {
        self.looks += 1;
    }

    /// Pauses for one polling interval.
    pub async fn pause_poll(&mut self, clock: &impl Clock, patience: &Patience) {
        self.looks += 1;
        clock.sleep(patience.poll).await;
    }
}

/// Makes a call and retries it while the service throttles, fails or does not respond. `repeated` is called
/// for retries after the first second.
pub async fn ask<T, K: Clock>(
    clock: &K,
    patience: &Patience,
    repeated: impl Fn(&Fault),
    call: impl AsyncFn() -> Answer<T>,
) -> Answer<T> {
    let mut wait = Wait::start(clock, patience.unseen);
    let began = clock.now();
    let mut repeats = 0;
    loop {
        match call().await {
            // Each attempt may take a minute, so time limits the retries in addition to their number.
            Err(fault)
                if fault.is_transient()
                    && repeats < most_repeats(&fault)
                    && clock.now() - began < patience.unseen.as_secs_f64() =>
            {
                repeats += 1;
                if wait.seconds(clock) >= 1 {
                    repeated(&fault);
                }
                wait.pause_short(clock, patience).await;
            }
            other => return other,
        }
    }
}

fn most_repeats(fault: &Fault) -> u32 {
    if fault.class == Class::Unreachable { FEW_REPEATS } else { MOST_REPEATS }
}

/// Maximum time for which a throttled call is retried while a job is followed.
const THROTTLED: Duration = Duration::from_hours(4);

/// An outage while a job is followed: a slow service must not end the following of a job that runs for days.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outage {
    since: Option<Wait>,
    is_told: bool,
}

/// The step after a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutageStep {
    /// Retry after a pause.
    Retry {
        /// True if the outage has not been reported yet.
        first: bool,
    },
    /// Give up.
    GiveUp,
}

impl Outage {
    /// Returns the next step after a fault. Gives up after a permanent fault, after 4 hours of throttling,
    /// after 40 minutes of other transient faults, and after 2 minutes if the call is the last one.
    pub fn next_step(
        &mut self,
        clock: &impl Clock,
        patience: &Patience,
        fault: &Fault,
        is_last: bool,
    ) -> OutageStep {
        let since = self.since.get_or_insert_with(|| Wait::start(clock, patience.unseen));
        let most = match fault.class {
            _ if is_last => patience.unseen,
            Class::Throttled => THROTTLED,
            _ => patience.making,
        };
        if !fault.is_transient() || since.has_lasted(clock, most) {
            return OutageStep::GiveUp;
        }
        OutageStep::Retry { first: !std::mem::replace(&mut self.is_told, true) }
    }

    /// Ends the outage.
    pub fn reset(&mut self) {
        self.since = None;
    }

    /// Waits for one polling interval.
    pub async fn pause(&mut self, clock: &impl Clock, patience: &Patience) {
        match &mut self.since {
            Some(since) => since.pause_poll(clock, patience).await,
            None => clock.sleep(patience.poll).await,
        }
    }
}

/// Maps `NotFound` to `None`.
pub fn none_if_not_found<T>(answer: Answer<T>) -> Answer<Option<T>> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(Fault { class: Class::NotFound, .. }) => Ok(None),
        Err(fault) => Err(fault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    /// A clock whose pauses end at once, and which records them.
    #[derive(Default)]
    struct Pauses {
        time: Cell<f64>,
        slept: RefCell<Vec<u64>>,
    }

    impl Clock for Pauses {
        fn now(&self) -> f64 {
            self.time.get()
        }

        async fn sleep(&self, time: Duration) {
            self.time.set(self.time.get() + time.as_secs_f64());
            self.slept.borrow_mut().push(time.as_secs());
        }
    }

    #[test]
    fn an_address_where_nobody_listens_is_soon_given_up() {
        for (class, calls) in [(Class::Unreachable, 2), (Class::NoResponse, 7)] {
            let (clock, asked, heard) = (Pauses::default(), Cell::new(0), Cell::new(0));
            let patience = Patience::default();
            let hear = |_: &Fault| heard.set(heard.get() + 1);
            let mut answer = pin!(ask(&clock, &patience, hear, async || {
                asked.set(asked.get() + 1);
                Err::<(), Fault>(Fault::new(crate::calls::Call::GetCallerIdentity, class, "no"))
            }));
            let polled = answer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(polled, Poll::Ready(Err(_))));
            assert_eq!((asked.get(), heard.get()), (calls, calls - 2), "{class:?}");
        }
    }

    #[test]
    fn room_is_asked_for_ever_more_seldom_and_never_after_the_end() {
        let clock = Pauses::default();
        let mut wait = Wait::start(&clock, Duration::from_mins(30));
        while !wait.is_over(&clock) {
            let patience = Patience::default();
            let mut pause = pin!(wait.pause_backoff(&clock, &patience));
            assert_eq!(pause.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()));
        }
        assert_eq!(*clock.slept.borrow(), [15, 30, 60, 120, 240, 300, 300, 300, 300, 135]);
    }
}
