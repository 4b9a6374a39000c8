//! Facts about a plan that several rules use.
//!
//! A query reads a plan or a [`Context`](crate::Context) and reports nothing. No query depends on a rule.

pub(crate) mod dimensions;
pub(crate) mod disk;
pub(crate) mod file_system;
pub(crate) mod hub;
pub(crate) mod instances;
pub(crate) mod literals;
pub(crate) mod memory;
pub(crate) mod optimizer;
pub(crate) mod prediction;
pub(crate) mod prices;
pub(crate) mod program;
pub(crate) mod run_limits;
pub(crate) mod s3;
pub(crate) mod script_values;
pub(crate) mod shard_group;
pub(crate) mod smp;
pub(crate) mod spelling;
pub(crate) mod torchrun;
