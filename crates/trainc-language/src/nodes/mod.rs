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

/// Examples of the nodes: blocks of KDL with an empty line between them, each an example of its first node.
/// Each is valid over a job that has the nodes it lacks.
pub static EXAMPLES: &[&str] = &[
    include_str!("job.kdl"),
    include_str!("model.kdl"),
    include_str!("cluster.kdl"),
    include_str!("parallel.kdl"),
    include_str!("train.kdl"),
    include_str!("program.kdl"),
    include_str!("data.kdl"),
    include_str!("identity.kdl"),
];
