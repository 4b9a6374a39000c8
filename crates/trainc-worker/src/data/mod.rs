//! Training data: token shards and the order of their sequences. The order is a pure function of seed, epoch
//! and position, so resuming needs no state and works with any number of ranks.

pub mod order;
pub mod tokens;
