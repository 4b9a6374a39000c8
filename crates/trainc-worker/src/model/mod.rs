//! The model: units of flat parameters, and the forward and backward pass of each on flat buffers. It is
//! independent of ranks: the caller passes a unit's full parameters and receives its full gradient.

pub mod adapter;
pub mod block;
pub mod embedding_head;
pub mod gradients;
pub mod init;
pub mod layout;
