//! The language of manifests: the tables of its nodes, a file as written ([`ast`]), and a job as read ([`Job`]).
//!
//! Below the reader and the plan, which both depend on it. Independent of the catalogue.

pub mod ast;
pub mod job;
pub mod locations;
pub mod nodes;
mod number;
pub mod origin;
pub mod preferences;
pub mod s3;
pub mod scalar;
pub mod spec;
pub mod storage;
pub mod units;

pub use job::*;
pub use locations::{Access, Location, LocationField};
pub use number::python_float;
pub use origin::{Field, Origin, Val};
pub use preferences::Preference;
pub use scalar::{Raw, RequestMember, Scalar};
