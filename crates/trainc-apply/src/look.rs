//! Calls to an account with retries, a call counter and a limit of concurrent calls.

use crate::cloud::{Answer, Clock, Observe};
use crate::fault::{Class, Fault};
use crate::patience::{Patience, ask};
use std::cell::{Cell, RefCell};
use tokio::sync::Semaphore;

/// Maximum number of concurrent calls to an account. The largest plan needs 15, and services throttle per
/// account and second, not per job.
pub const MAX_CONCURRENT_CALLS: usize = 24;

/// An account with a clock and timeouts: makes calls and retries them.
#[derive(Debug)]
pub struct Look<'a, C, K> {
    /// The account.
    pub cloud: &'a C,
    /// The clock.
    pub clock: &'a K,
    /// Timeouts and the polling interval.
    pub patience: Patience,
    /// Limits the concurrent calls of the jobs that share it.
    pub permits: Option<&'a Semaphore>,
    /// Number of calls so far, without retries; counted if later queries depend on it.
    pub asked: Option<&'a Cell<usize>>,
    /// Collects access errors of reads; the caller then continues without their results.
    pub refused: Option<&'a RefCell<Vec<Fault>>>,
    /// Called when a call is retried because no response arrived.
    pub repeated: Option<Repeated<'a>>,
}

/// A callback for calls that are retried.
#[derive(Clone, Copy)]
pub struct Repeated<'a>(pub &'a dyn Fn(&Fault));

impl std::fmt::Debug for Repeated<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Repeated")
    }
}

// Not derived: account and clock are borrowed, so they need not be `Copy`.
impl<C, K> Clone for Look<'_, C, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C, K> Copy for Look<'_, C, K> {}

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// Makes a call and retries transient faults.
    pub async fn ask<T>(&self, call: impl AsyncFn(&C) -> Answer<T>) -> Answer<T> {
        if let Some(asked) = self.asked {
            asked.set(asked.get() + 1);
        }
        let repeated = |fault: &Fault| {
            if let Some(Repeated(hear)) = self.repeated {
                hear(fault);
            }
        };
        ask(self.clock, &self.patience, repeated, async || {
            let _permit = match self.permits {
                Some(permits) => permits.acquire().await.ok(),
                None => None,
            };
            call(self.cloud).await
        })
        .await
    }

    /// Returns `None` for a denied call if access errors are collected.
    pub(super) fn none_if_denied<T>(&self, answer: Answer<T>) -> Answer<Option<T>> {
        match (answer, self.refused) {
            (Err(fault), Some(refused)) if fault.class == Class::Denied => {
                refused.borrow_mut().push(fault);
                Ok(None)
            }
            (answer, _) => answer.map(Some),
        }
    }
}
