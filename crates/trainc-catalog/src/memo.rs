//! Answers already worked out: a repository of jobs asks for the same few again and again.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Answers of a pure look-up, by its question. Holds what was asked in this process, no more.
pub struct Memo<K, V>(Mutex<BTreeMap<K, V>>);

impl<K: Ord, V: Clone> Memo<K, V> {
    /// Nothing asked yet.
    pub const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// The answer, worked out once. The look-up runs outside the lock: it may ask other tables.
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
