//! The language, resolved: plain data, no behaviour beyond invariants.

pub mod digest;
pub mod job;
pub mod origin;
pub mod scalar;

pub use job::*;
pub use origin::{Field, Origin, Val};
pub use scalar::{Raw, Scalar};
