//! The account as commands call it: each call is repeated while the service cannot answer, and counted.

use crate::cloud::{Answer, Clock, Observe};
use crate::fault::{Class, Fault};
use crate::patience::{Patience, ask};
use std::cell::{Cell, RefCell};
use tokio::sync::Semaphore;

/// The most calls to an account that are under way at the same time: the largest plan alone has 15, and the services throttle
/// by account and second, not by job.
pub const MAX_CONCURRENT_CALLS: usize = 24;

/// An account with a clock and timeouts: makes calls and retries them.
#[derive(Debug)]
pub struct Look<'a, C, K> {
    /// The account.
    pub cloud: &'a C,
    /// The time.
    pub clock: &'a K,
    /// Timeouts and the polling interval.
    pub patience: Patience,
    /// Bounds the concurrent calls of the jobs that share it.
    pub permits: Option<&'a Semaphore>,
    /// How many calls were made so far, each once however often it was repeated; kept where that decides what else is
    /// asked.
    pub asked: Option<&'a Cell<usize>>,
    /// Where reads that the caller may not make are gathered: then the look goes on without what they would have told.
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

// By hand: the account and the clock are borrowed, whatever they are.
impl<C, K> Clone for Look<'_, C, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C, K> Copy for Look<'_, C, K> {}

impl<C: Observe, K: Clock> Look<'_, C, K> {
    /// One call, repeated while the service cannot answer.
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

    /// An answer, or nothing where the caller may not ask and refusals are gathered.
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
