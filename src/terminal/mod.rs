//! The terminal: output streams, progress, questions, signals.

pub(crate) mod confirmation;
pub(crate) mod io;
pub(crate) mod progress;
pub(crate) mod table;
pub(crate) mod transcript;
