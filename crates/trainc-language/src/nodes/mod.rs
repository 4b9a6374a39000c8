//! The nodes of the language, one file per group, each declared once with `node!`.

mod cluster;
mod data;
mod identity;
mod job;
mod model;
mod parallel;
mod program;
mod train;

pub use crate::node::Pair;
pub use cluster::*;
pub use data::*;
pub use identity::*;
pub use job::*;
pub use model::*;
pub use parallel::*;
pub use program::*;
pub use train::*;
