//! trainc's worker: trains decoder-only transformers with fully sharded data parallelism on the ranks that its config
//! names.
#![allow(clippy::inline_always, reason = "vector dispatch works only through closures that are inlined")]

pub mod bench;
pub mod checkpoint;
pub mod cli;
pub mod comm;
pub mod config;
pub mod data;
pub mod exit;
mod fault;
pub mod fsdp;
pub mod hf;
pub mod kernels;
pub mod launch;
mod lock;
pub mod log;
pub mod model;
pub mod optim;
pub mod place;
pub mod preflight;
pub mod rendezvous;
pub mod safetensors;
mod say;
mod signals;
pub mod simulate;
pub mod threads;
pub mod train;
