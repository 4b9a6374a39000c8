//! A cache of lookups: a repository of jobs repeats the same few lookups.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// A process-wide cache of the results of a pure lookup, by key.
pub struct Memo<K, V>(Mutex<BTreeMap<K, V>>);

impl<K: Ord, V: Clone> Default for Memo<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord, V: Clone> Memo<K, V> {
    /// Creates an empty cache.
    pub const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Returns the cached result, or computes it. The lookup runs outside the lock, since it may use other
    /// tables.
    pub fn get(&self, question: K, look_up: impl FnOnce(&K) -> V) -> V {
        if let Some(known) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&question) {
            return known.clone();
        }
        let answer = look_up(&question);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(question, answer.clone());
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn asks_once() {
        static MEMO: Memo<String, usize> = Memo::new();
        let asked = Cell::new(0);
        let length = |word: &String| {
            asked.set(asked.get() + 1);
            word.len()
        };
        assert_eq!(MEMO.get("ml".to_owned(), length), 2);
        assert_eq!(MEMO.get("ml".to_owned(), length), 2);
        assert_eq!(asked.get(), 1);
    }
}
