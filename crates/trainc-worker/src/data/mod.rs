//! In: a directory of packed token shards and a position in the run. Out: sequences. Which sequence comes when is a pure
//! function of seed, epoch and position, so resuming needs no state, at any number of ranks.

pub mod order;
pub mod tokens;
