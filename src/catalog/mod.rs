//! Facts as data: one table row each, with its source and date. Knows the types of `ir` and nothing else of ours.

pub mod models;
