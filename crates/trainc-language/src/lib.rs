//! The language of manifests: the tables of its nodes, a file as written ([`ast`]), and a job as read
//! ([`Job`]).
//!
//! Below the reader and the plan, which both depend on it. Independent of the catalogue.

pub mod address;
pub mod ast;
mod declared;
mod kind;
pub mod locations;
pub mod members;
pub mod node;
pub mod nodes;
mod number;
pub mod origin;
pub mod preferences;
pub mod s3;
pub mod scalar;
pub mod spec;
pub mod storage;
mod table;
pub mod units;

pub use address::{ACCOUNT_MARK, Address};
pub use declared::{Declared, DefaultValue, Member, Place, Unit};
pub use kind::{Kind, Shown, pair_of_fractions};
pub use locations::{Access, Location, LocationField};
pub use node::{Leaf, NodeType, NodeVisitor, Slot};
pub use nodes::*;
pub use number::python_float;
pub use origin::{Field, Origin, Val};
pub use preferences::Preference;
pub use scalar::{Raw, RequestMember, Scalar};
