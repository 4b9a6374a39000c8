//! Locks on resources that several jobs need, such as the bucket of their archives.

use crate::ledger::Item;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tokio::sync::Mutex;

/// One lock per shared resource: the job that holds it creates the resource, which the others then find.
#[derive(Debug, Default)]
pub struct ResourceLocks(RefCell<BTreeMap<Item, Rc<Mutex<()>>>>);

impl ResourceLocks {
    /// Returns the lock of a resource.
    pub(super) fn lock_of(&self, item: &Item) -> Rc<Mutex<()>> {
        Rc::clone(self.0.borrow_mut().entry(item.clone()).or_default())
    }
}
