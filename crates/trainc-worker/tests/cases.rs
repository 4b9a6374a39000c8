//! Small configs and data shared by the tests; `tests/python/record.py` has the same.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use trainc_worker::comm::SharedMemory;
use trainc_worker::config::Config;
use trainc_worker::data::tokens;
use trainc_worker::fsdp::{CpuEngine, shared_memory_plan};
use trainc_worker::model::init::mix;

/// A directory that is removed on drop.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("trainc-worker-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn at(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes tokens with a learnable pattern: half of them depend on the previous one.
pub(crate) fn write_data(directory: &Path, sequences: usize, length: usize, vocab: usize, seed: u64) {
    tokens::write(directory, length, vocab, &tokens(sequences, length, vocab, seed), 5).unwrap();
}

/// Returns these tokens.
pub(crate) fn tokens(sequences: usize, length: usize, vocab: usize, seed: u64) -> Vec<u32> {
    let mut all = Vec::new();
    for i in 0..sequences * (length + 1) {
        let fresh = mix(seed.wrapping_mul(0x1000_0000).wrapping_add(i as u64));
        let previous = all.last().copied().unwrap_or(0u32);
        let token = if fresh & 1 == 1 { u64::from(previous) * 7 + 3 } else { fresh >> 8 };
        all.push((token % vocab as u64) as u32);
    }
    all
}

/// Returns a config of one rank; `place` holds its data and output.
pub(crate) fn llama(place: &Place) -> Value {
    json!({
        "schema": "trainc.worker/v1", "job": "test", "digest": "0".repeat(64),
        "cluster": {"instance": "local", "nodes": 1, "gpus_per_node": 0},
        "mesh": {"shard_degree": 1, "data_parallel_replicas": 1},
        "model": {
            "family": "llama", "vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "layers": 2, "heads": 4,
            "kv_heads": 2, "head_dim": 8, "sequence_length": 24, "norm": {"kind": "rms", "eps": 1e-5},
            "activation": "swiglu", "biases": "none",
            "positions": {"kind": "rotary", "theta": 10000.0, "fraction": 1.0, "scaling": null},
            "parallel_residual": false, "tied_embeddings": false, "initializer_range": 0.08, "weights": null,
            "adapter": null
        },
        "precision": {"compute": "f32", "reduce": "f32"},
        "memory": {"recompute": "none", "prefetch": 1, "reshard_after_forward": true, "offload": "none"},
        "batch": {"micro": 8, "accumulation": 1, "global_sequences": 8},
        "optimizer": {"learning_rate": 3e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1,
            "clip_norm": 1.0},
        "schedule": {"kind": "constant", "warmup_steps": 0, "steps": 10, "minimum_learning_rate": 0.0},
        "data": {"train": place.at("train"), "validation": null, "seed": 17, "epochs": null, "shuffle": true,
            "document_mask": false},
        "checkpoint": {"directory": place.at("checkpoints"), "every_seconds": null, "every_steps": null, "keep": 2,
            "grace_seconds": 100.0, "resume": "never"},
        "output": {"model": place.at("model"), "data": place.at("out"), "failure": place.at("failure")},
        "log": {"every_steps": 1, "evaluate_every_steps": null},
        "communication": {"backend": "auto", "rendezvous_port": 7777, "join_seconds": 60.0, "peer_dead_seconds": 30.0,
            "collective_seconds": 60.0, "environment": {}},
        "limits": {"max_seconds": null, "max_loss": null}
    })
}

/// Sets `shards` x `replicas` ranks and divides the global batch of 8 by `accumulation`.
pub(crate) fn mesh(mut config: Value, shards: usize, replicas: usize, accumulation: usize) -> Value {
    config["mesh"] = json!({"shard_degree": shards, "data_parallel_replicas": replicas});
    config["batch"]["micro"] = json!(8 / (shards * replicas * accumulation));
    config["batch"]["accumulation"] = json!(accumulation);
    config
}

pub(crate) fn parse(config: &Value) -> Config {
    Config::parse(&config.to_string()).unwrap()
}

/// Runs `work` on every rank of a config and returns the results.
pub(crate) fn on_ranks<R: Send>(config: &Config, work: impl Fn(usize, CpuEngine) -> R + Sync) -> Vec<R> {
    let plan = shared_memory_plan(config);
    let memory = SharedMemory::create(plan.bytes()).unwrap();
    let long = Duration::from_mins(1);
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..plan.ranks())
            .map(|rank| {
                let (memory, work) = (&memory, &work);
                scope.spawn(move || {
                    let (groups, _watch) = plan.groups(memory, rank, long, long);
                    work(rank, CpuEngine::new(config, groups, 1))
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}
