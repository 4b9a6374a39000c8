//! The resolved language: plain data, no behaviour beyond its invariants.

pub mod architecture;
