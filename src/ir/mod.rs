//! The resolved language: plain data, no behaviour beyond invariants.
//!
//! In: nothing. Out: types that `plan`, `predict`, `check` and `emit` share. Knows nothing of text or of AWS calls.

pub mod hardware;
