//! Worker of trainc: trains decoder-only transformers with fully sharded data parallelism.
#![allow(clippy::inline_always, reason = "vector dispatch works only through closures that are inlined")]

pub mod aten;
pub mod authentication;
pub mod bench;
pub mod checkpoint;
mod checkpoint_lock;
pub mod cli;
pub mod comm;
pub mod config;
mod console;
pub mod data;
pub mod exit;
mod fault_injection;
pub mod fsdp;
pub mod hf;
pub mod kernels;
pub mod launch;
pub mod log;
pub mod model;
pub mod optim;
pub mod placement;
pub mod preflight;
pub mod rendezvous;
pub mod safetensors;
mod signals;
pub mod simulate;
pub mod thread_ranks;
pub mod train;
