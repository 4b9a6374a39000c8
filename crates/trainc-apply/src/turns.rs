//! Taking turns: so many at a time, whoever asked first to whoever asked last. Drivers share one thread, so nothing here
//! locks.

use super::ledger::Item;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Calls to an account that may be under way at the same time: the largest plan alone has 15, and the services count
/// calls by the account and the second, not by the job.
pub const CALLS_AT_ONCE: usize = 24;

/// So many may go on at the same time.
#[derive(Debug)]
pub struct Turns {
    free: Cell<usize>,
    waiting: RefCell<Vec<Waker>>,
}

impl Turns {
    /// So many at the same time, at least one.
    pub fn new(at_once: usize) -> Self {
        Self { free: Cell::new(at_once.max(1)), waiting: RefCell::default() }
    }

    /// Waits for a turn, which lasts until it is dropped.
    pub async fn take(&self) -> Turn<'_> {
        poll_fn(|context| {
            if let Some(left) = self.free.get().checked_sub(1) {
                self.free.set(left);
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
        Turn(self)
    }
}

/// One turn.
#[derive(Debug)]
pub struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.free.set(self.0.free.get() + 1);
        // All of them: one that was woken alone may be given up before it goes on.
        for waker in self.0.waiting.take() {
            waker.wake();
        }
    }
}

/// What several jobs need, as the bucket of their archives: one of them makes it, the others find it made.
#[derive(Debug, Default)]
pub struct Shared(RefCell<BTreeMap<Item, Rc<Turns>>>);

impl Shared {
    /// The turns at one resource.
    pub(super) fn turns(&self, item: &Item) -> Rc<Turns> {
        let mut all = self.0.borrow_mut();
        Rc::clone(all.entry(item.clone()).or_insert_with(|| Rc::new(Turns::new(1))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use std::pin::pin;
    use std::task::Context;

    /// Lets others go on, as a call does.
    async fn pause() {
        let mut paused = false;
        poll_fn(|context| {
            if paused {
                return Poll::Ready(());
            }
            paused = true;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    #[test]
    fn no_more_than_allowed_and_all_of_them() {
        let (turns, inside, most) = (Turns::new(3), Cell::new(0), Cell::new(0));
        let work = join_all((0..50).map(async |_| {
            let _turn = turns.take().await;
            inside.set(inside.get() + 1);
            most.set(most.get().max(inside.get()));
            pause().await;
            inside.set(inside.get() - 1);
        }));
        let mut work = pin!(work);
        let mut context = Context::from_waker(Waker::noop());
        let done = (0..200).any(|_| work.as_mut().poll(&mut context).is_ready());
        assert!(done, "nobody waits for ever");
        assert_eq!((inside.get(), most.get()), (0, 3));
    }
}
