//! The schedule of a step compared with the calls of an engine, and `simulate` for large clusters.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use trainc_worker::comm::single_rank::SingleRank;
use trainc_worker::comm::{Collectives, Kind, Wire};
use trainc_worker::exit::Failure;
use trainc_worker::fsdp::Engine;
use trainc_worker::fsdp::schedule::{Operation, Schedule};

use crate::cases::{Place, llama, mesh, on_ranks, parse, write_data};
use crate::processes::{lines, text, worker, write};

type Calls = Arc<Mutex<Vec<(Kind, Operation, usize)>>>;

/// A group that records its calls.
struct Recorder {
    inner: Box<dyn Collectives>,
    group: Kind,
    calls: Calls,
}

impl Recorder {
    fn around(group: Kind, place: &mut Box<dyn Collectives>, calls: &Calls) {
        let inner = std::mem::replace(place, Box::new(SingleRank::default()));
        *place = Box::new(Self { inner, group, calls: Arc::clone(calls) });
    }

    fn note(&self, operation: Operation, elements: usize) {
        self.calls.lock().unwrap().push((self.group, operation, elements));
    }
}

impl Collectives for Recorder {
    fn rank(&self) -> usize {
        self.inner.rank()
    }
    fn size(&self) -> usize {
        self.inner.size()
    }
    fn begin_gather(&mut self, shard: &[f32], wire: Wire) -> Result<(), Failure> {
        self.note(Operation::BeginGather, shard.len());
        self.inner.begin_gather(shard, wire)
    }
    fn end_gather(&mut self, full: &mut [f32], wire: Wire) -> Result<(), Failure> {
        self.note(Operation::EndGather, full.len() / self.inner.size());
        self.inner.end_gather(full, wire)
    }
    fn reduce_scatter(&mut self, full: &[f32], shard: &mut [f32], wire: Wire) -> Result<(), Failure> {
        self.note(Operation::ReduceScatter, full.len());
        self.inner.reduce_scatter(full, shard, wire)
    }
    fn all_reduce(&mut self, values: &mut [f32], wire: Wire) -> Result<(), Failure> {
        self.note(Operation::AllReduce, values.len());
        self.inner.all_reduce(values, wire)
    }
    fn all_reduce_f64(&mut self, values: &mut [f64]) -> Result<(), Failure> {
        self.note(Operation::Sum, values.len());
        self.inner.all_reduce_f64(values)
    }
}

/// Returns the calls of each rank in a pass and in the reduction over replicas.
fn recorded_calls(config: &Value) -> Vec<Vec<(Kind, Operation, usize)>> {
    on_ranks(&parse(config), |_, mut engine| {
        let calls = Calls::default();
        Recorder::around(Kind::World, &mut engine.groups.world, &calls);
        Recorder::around(Kind::Shard, &mut engine.groups.shard, &calls);
        Recorder::around(Kind::Replica, &mut engine.groups.replica, &calls);
        let tokens: Vec<u32> = (0..engine.rows() as u32).map(|i| i % 61).collect();
        // The second pass starts from the state that the first left.
        for _ in 0..2 {
            engine.micro_step(&tokens, &tokens, 0.01).unwrap();
        }
        engine.reduce().unwrap();
        calls.lock().unwrap().clone()
    })
}

#[test]
fn a_schedule_is_what_an_engine_says() {
    let base = llama(&Place::new("schedule"));
    for (shards, replicas) in [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1)] {
        for (field, value) in [
            ("prefetch", json!(1)),
            ("prefetch", json!(0)),
            ("prefetch", json!(3)),
            ("reshard_after_forward", json!(false)),
        ] {
            for (tied, adapters, compute) in
                [(false, false, "f32"), (true, false, "bf16"), (false, true, "f32"), (true, true, "bf16")]
            {
                let mut config = mesh(base.clone(), shards, replicas, 1);
                config["model"]["layers"] = json!(4);
                config["memory"][field] = value.clone();
                config["model"]["tied_embeddings"] = json!(tied);
                config["precision"]["compute"] = json!(compute);
                if adapters {
                    config["model"]["weights"] = json!("not read here");
                    config["model"]["adapter"] = json!({"kind": "lora", "rank": 3, "alpha": 6.0, "dropout": 0.0, "targets": ["all-linear"]});
                }
                let parsed = parse(&config);
                let pass = Schedule::for_pass(&parsed);
                let calls = |schedule: &Schedule| -> Vec<_> {
                    schedule.calls.iter().map(|call| (call.group, call.operation, call.elements)).collect()
                };
                let one = calls(&pass);
                let step = calls(&Schedule::for_step(&parsed, false));
                // A step consists of its pass, the gradients, and one small sum, which is not the engine's.
                let mut expected = one.clone();
                expected.extend(&step[..step.len() - 1]);
                for found in recorded_calls(&config) {
                    assert_eq!(
                        found, expected,
                        "{shards} x {replicas}, {field} {value}, tied {tied}, adapters {adapters}"
                    );
                }
                assert!(pass.is_balanced());
            }
        }
    }
}

#[test]
fn of_256_ranks_no_unit_stays_whole() {
    let mut config = llama(&Place::new("schedule-256"));
    config["model"]["layers"] = json!(32);
    config["mesh"] = json!({"shard_degree": 64, "data_parallel_replicas": 4});
    config["batch"] = json!({"micro": 1, "accumulation": 2, "global_sequences": 512});
    for prefetch in 0..4 {
        for reshard in [true, false] {
            config["memory"]["prefetch"] = json!(prefetch);
            config["memory"]["reshard_after_forward"] = json!(reshard);
            let parsed = parse(&config);
            let step = Schedule::for_step(&parsed, true);
            assert!(step.is_balanced());
            assert!(step.most_ahead <= 1 + prefetch);
            let len = |name: &str| step.units.iter().find(|unit| unit.name == name).unwrap().len;
            let whole = |n: usize| n.div_ceil(64).next_multiple_of(16) * 64;
            let (block, head) = (whole(len("block.0")), whole(len("head")));
            let blocks = if reshard { 1 } else { 32 };
            assert_eq!(step.most_whole, blocks * block + head, "one block, or all, and the head");
            let count = |operation| step.calls.iter().filter(|call| call.operation == operation).count();
            // 34 units forward, and the 31 freed blocks backward; in each of two passes.
            let gathers = 2 * (34 + if reshard { 31 } else { 0 });
            assert_eq!((count(Operation::BeginGather), count(Operation::EndGather)), (gathers, gathers));
            assert_eq!((count(Operation::ReduceScatter), count(Operation::AllReduce)), (2 * 34, 34));
            assert_eq!(
                count(Operation::Sum),
                2 + 1 + 1,
                "labels, who stops before each pass, the step's end"
            );
        }
    }
}

#[test]
fn simulate_says_who_reads_what() {
    let place = Place::new("simulate");
    write_data(&place.0.join("train"), 40, 24, 61, 1);
    let mut config = llama(&place);
    // Eight nodes of GPUs, which this binary cannot train on.
    config["cluster"] = json!({"instance": "ml.p4d.24xlarge", "nodes": 8, "gpus_per_node": 8});
    config["mesh"] = json!({"shard_degree": 32, "data_parallel_replicas": 2});
    config["batch"] = json!({"micro": 1, "accumulation": 2, "global_sequences": 128});
    let path = write(&place, &config);
    let run = |more: &[&str]| {
        let mut arguments = vec!["simulate", &path];
        arguments.extend(more);
        let output = worker(&arguments);
        (output.status.code(), lines(&output), text(&output.stderr))
    };
    let of = |lines: &[Value], event: &str| -> Vec<Value> {
        lines.iter().filter(|line| line["event"] == event).cloned().collect()
    };
    let (code, whole, errors) = run(&["--step", "1"]);
    assert_eq!(code, Some(0), "{errors}");
    let ranks = of(&whole, "rank");
    assert_eq!(ranks.len(), 64);
    assert_eq!((&ranks[33]["shard"], &ranks[33]["replica"]), (&json!(1), &json!(1)));
    let read: Vec<u64> = ranks
        .iter()
        .flat_map(|rank| rank["sequences"].as_array().unwrap())
        .flat_map(|pass| pass.as_array().unwrap())
        .map(|sequence| sequence.as_u64().unwrap())
        .collect();
    // 128 of 40 sequences: each three or four times, all of them.
    assert_eq!(read.len(), 128);
    assert_eq!(read.iter().collect::<BTreeSet<_>>().len(), 40);
    let sums = &of(&whole, "sums")[0];
    assert_eq!(sums["sequences"], 128);
    let sent: u64 = of(&whole, "collective").iter().map(|call| call["sent_bytes"].as_u64().unwrap()).sum();
    assert_eq!(sums["sent_bytes_per_rank"], sent);
    // Fewer ranks, the same batch; groups of one rank do not appear.
    let (code, alone, errors) = run(&["--world", "1"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(of(&alone, "collective").is_empty());
    assert_eq!(alone[0]["accumulation"], 128);
    // Without its data.
    std::fs::remove_dir_all(place.at("train")).unwrap();
    let (code, places, _) = run(&["--world", "2"]);
    assert_eq!(code, Some(0));
    assert_eq!(of(&places, "rank")[1]["places"][0], json!([1]));
    assert_eq!(of(&places, "note").len(), 1);
    assert_eq!(run(&["--step", "10"]).0, Some(2));
    assert_eq!(run(&["--world", "3"]).0, Some(3));
}
