//! In: the model part of a config. Out: units of flat parameters, and forward and backward of each over flat buffers.
//! Knows nothing of ranks: whoever calls brings a unit's whole parameters and takes its whole gradient.

pub mod adapter;
pub mod block;
pub mod embedding_head;
pub mod gradients;
pub mod init;
pub mod layout;
