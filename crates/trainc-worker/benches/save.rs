//! CPU time for which a save stops training, compared with a copy of the state in memory.
//!
//! `cargo bench -p trainc-worker --bench save`. Fails if it is more than a tenth longer.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a bench prints")]

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/cases.rs"]
mod cases;

use std::path::Path;

use cases::{Place, llama, on_ranks, parse};
use serde_json::json;
use trainc_worker::checkpoint::{OrderStart, Run, Saver};
use trainc_worker::fsdp::Engine;

fn main() {
    let place = Place::new("stall");
    let mut config = llama(&place);
    config["model"]["hidden_size"] = json!(512);
    config["model"]["intermediate_size"] = json!(2048);
    config["model"]["layers"] = json!(8);
    let config = parse(&config);
    let directory = place.at("checkpoints");
    on_ranks(&config, |_, mut engine| {
        let run = Run {
            config: String::new(),
            seed: 0,
            data: String::new(),
            global_sequences: 8,
            began: None,
            model: json!(null),
            settings: json!(null),
            stays: None,
            order: OrderStart::default(),
            passed_over: Vec::new(),
            periodic: true,
        };
        let bytes: usize = engine.shards().iter().map(|shard| 12 * shard.len).sum();
        let (from, mut to) = (vec![1u8; bytes], vec![2u8; bytes]);
        let mut saver = Saver::new(&mut engine, Path::new(&directory), 1, run).unwrap();
        let (mut copies, mut stalls) = (Vec::new(), Vec::new());
        for step in 1..=9 {
            let began = thread_seconds();
            to.copy_from_slice(std::hint::black_box(&from));
            std::hint::black_box(&mut to);
            copies.push(thread_seconds() - began);
            let began = thread_seconds();
            saver.begin(&mut engine, step).unwrap();
            stalls.push(thread_seconds() - began);
            saver.drain(&mut engine).unwrap();
        }
        let least = |all: &[f64]| all.iter().copied().fold(f64::INFINITY, f64::min);
        let (copy, stall) = (least(&copies), least(&stalls));
        println!("{bytes} bytes: copy {copy:.4} s, stall {stall:.4} s, ratio {:.3}", stall / copy);
        assert!(stall / copy <= 1.1);
    });
}

fn thread_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
