//! Engines of thread ranks: allocated memory, and replicas that diverge.

use std::path::Path;

use serde_json::{Value, json};
use trainc_worker::checkpoint::{OrderStart, Run, Saver};
use trainc_worker::exit::Code;
use trainc_worker::fsdp::{Engine, MemoryParts, StateKind, shared_memory_plan};

use crate::cases::{Place, llama, mesh, on_ranks, parse};

fn allocated(config: &Value) -> (MemoryParts, MemoryParts) {
    let config = parse(config);
    let all = on_ranks(&config, |_, mut engine| {
        let tokens: Vec<u32> = (0..engine.rows() as u32).map(|i| i % 61).collect();
        for _ in 0..2 {
            engine.micro_step(&tokens, &tokens, 0.01).unwrap();
        }
        engine.allocated()
    });
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "ranks hold the same: {all:?}");
    (all[0], MemoryParts::from_config(&config))
}

#[test]
fn allocated_memory_equals_the_prediction() {
    let base = llama(&Place::new("held"));
    let mut states = Vec::new();
    for shards in [1, 2, 4] {
        for (field, value) in [
            ("prefetch", json!(1)),
            ("prefetch", json!(0)),
            ("recompute", json!("block")),
            ("reshard_after_forward", json!(false)),
        ] {
            for (tied, adapters, compute) in [
                (false, false, "f32"),
                (true, false, "f32"),
                (false, true, "f32"),
                (true, true, "f32"),
                (false, false, "bf16"),
                (false, true, "bf16"),
            ] {
                let mut config = mesh(base.clone(), shards, 1, 1);
                config["memory"][field] = value.clone();
                config["model"]["tied_embeddings"] = json!(tied);
                config["precision"]["compute"] = json!(compute);
                if adapters {
                    config["model"]["weights"] = json!("not read here");
                    config["model"]["adapter"] = json!({"kind": "lora", "rank": 3, "alpha": 6.0, "dropout": 0.0,
                        "targets": ["q_proj", "down_proj"]});
                }
                let (found, foreseen) = allocated(&config);
                let what = format!(
                    "{shards} shards, {field} {value}, tied {tied}, adapters {adapters}, {compute}: {found:?}, {foreseen:?}"
                );
                assert_eq!(found.parameters, foreseen.parameters, "{what}");
                assert_eq!(found.gradients, foreseen.gradients, "{what}");
                assert_eq!(found.optimizer, foreseen.optimizer, "{what}");
                assert_eq!(found.activations, foreseen.activations, "{what}");
                assert_eq!(found.logits, foreseen.logits, "{what}");
                // The slots of prefetched gathers are in shared memory, which an engine does not own.
                let plan = shared_memory_plan(&parse(&config));
                assert_eq!(found.gathered, foreseen.gathered - plan.gather_bytes() / plan.ranks(), "{what}");
                if (field, tied, adapters, compute) == ("recompute", false, false, "f32") {
                    states.push(foreseen.parameters + foreseen.gradients + foreseen.optimizer);
                }
            }
        }
    }
    // Except for padding, states are halved.
    assert!(states[1] < states[0] / 2 + 2048 && states[2] < states[1] / 2 + 2048, "{states:?}");
}

#[test]
fn diverged_replicas_are_not_saved() {
    let place = Place::new("drift");
    let config = parse(&mesh(llama(&place), 1, 2, 1));
    let directory = place.at("checkpoints");
    let ends = on_ranks(&config, |rank, mut engine| {
        let (config, data) = (String::new(), String::new());
        let model = trainc_worker::checkpoint::model_settings(&parse(&mesh(llama(&place), 1, 2, 1)));
        let settings = json!(null);
        let run = Run {
            config,
            seed: 0,
            data,
            global_sequences: 8,
            began: None,
            model,
            settings,
            stays: None,
            order: OrderStart::default(),
            passed_over: Vec::new(),
            periodic: false,
        };
        let mut saver = Saver::new(&mut engine, Path::new(&directory), 1, run).unwrap();
        saver.save_now(&mut engine, 1).unwrap();
        if rank == 1 {
            let mut values = engine.read_shard(1, StateKind::Master).unwrap().into_owned();
            values[5] = f32::from_bits(values[5].to_bits() ^ 1);
            engine.write_shard(1, StateKind::Master, &values).unwrap();
        }
        saver.begin(&mut engine, 2).unwrap_err()
    });
    for failure in ends {
        assert_eq!(failure.code, Code::Bug);
        assert_eq!(failure.message, "replicas hold different parameters or optimizer states");
    }
}
