//! The engine of GPUs on CPU tensors, with the PyTorch in `TRAINC_TORCH_LIB`; without the variable nothing runs here. The
//! ranks communicate over `nccl_double.c`.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};
use trainc_worker::aten::{self, AtenEngine, Attention, Libraries, Runtime};
use trainc_worker::comm::{Groups, SharedMemory};
use trainc_worker::config::Config;
use trainc_worker::exit::Failure;
use trainc_worker::fsdp::schedule::Schedule;
use trainc_worker::fsdp::{Engine, MemoryParts, shared_memory_plan};
use trainc_worker::thread_ranks::{train_on_threads, train_on_threads_with};

use crate::cases::{self, Place, mesh, parse, write_data};
use crate::parity::{check_engine, config, merge};
use crate::processes::{WORKER, alone, lines, place, ranks, signal, text, worker, write};

/// Builds the double once, unless another test process has.
pub(crate) fn double() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build_double).clone()
}

fn build_double() -> PathBuf {
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libnccl-double.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nccl_double.c");
    let time = |path: &Path| std::fs::metadata(path).and_then(|m| m.modified()).ok();
    if time(&library) > time(&source) {
        return library;
    }
    let partial = library.with_extension(std::process::id().to_string());
    let built = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-pthread", "-o"])
        .args([&partial, &source])
        .status()
        .unwrap();
    assert!(built.success(), "cc");
    std::fs::rename(&partial, &library).unwrap();
    library
}

/// Returns the PyTorch to test with; none if the variable is not set.
pub(crate) fn runtime() -> Option<Runtime> {
    let Some(torch) = std::env::var_os("TRAINC_TORCH_LIB") else {
        println!("skipped: TRAINC_TORCH_LIB is not set");
        return None;
    };
    let library = double();
    Some(Runtime {
        torch: torch.into(),
        gpu: false,
        libraries: Some(Libraries { nccl: library.clone(), cudart: library }),
        traced: Attention::Flash,
    })
}

pub(crate) fn aten_engine(config: &Config, groups: Groups) -> Result<Box<dyn Engine>, Failure> {
    Ok(Box::new(aten::create(config, groups, &runtime().unwrap())?))
}

/// Compares a recorded case on one, two and four ranks: shard groups of all ranks, or of half of them.
#[track_caller]
fn recorded(name: &str, four: (usize, usize)) {
    if runtime().is_none() {
        return;
    }
    for (shards, replicas) in [(1, 1), (2, 1), four] {
        check_engine(name, shards, replicas, &aten_engine);
    }
}

#[test]
fn llama() {
    recorded("llama", (4, 1));
}

#[test]
fn llama_accumulation_cosine() {
    recorded("llama-accumulation-cosine", (2, 2));
}

#[test]
fn llama_tied_linear() {
    recorded("llama-tied-linear", (2, 2));
}

#[test]
fn llama_unclipped() {
    recorded("llama-unclipped", (1, 4));
}

#[test]
fn llama_documents() {
    recorded("llama-documents", (4, 1));
}

#[test]
fn gpt2() {
    recorded("gpt2", (4, 1));
}

#[test]
fn gpt2_documents() {
    recorded("gpt2-documents", (2, 2));
}

#[test]
fn gpt_neox() {
    recorded("gpt-neox", (4, 1));
}

/// Runs the worker with ranks on PyTorch's CPU tensors. Fails with the exit code of the launcher.
fn launch(path: &str, variables: &[(&str, &str)]) -> Output {
    Command::new(WORKER)
        .args(["launch", path])
        .env("TRAINC_WORKER_TENSORS", double())
        .env("OMP_NUM_THREADS", "1")
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

fn far(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).fold(0.0, |most, (a, b)| most.max((a / b - 1.0).abs()))
}

#[test]
fn a_killed_run_resumes_with_the_same_bits_and_on_the_other_engine() {
    if runtime().is_none() {
        return;
    }
    let _alone = alone();
    let (place, mut config) = place("aten-killed");
    config["checkpoint"]["every_steps"] = json!(2);
    config["checkpoint"]["resume"] = json!("auto");
    let path = write(&place, &config);
    let done = |output: Output| {
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        lines(&output).iter().filter_map(|line| line["loss"].as_f64()).collect::<Vec<f64>>()
    };
    let whole = done(launch(&path, &[]));
    assert_eq!(whole.len(), 10);
    let restart = || std::fs::remove_dir_all(place.at("checkpoints")).unwrap();
    // Killed with SIGKILL after the save of step 2.
    restart();
    let cut = launch(&path, &[("TRAINC_WORKER_FAULT", "latest")]);
    assert_eq!(cut.status.code(), Some(13), "{}", text(&cut.stderr));
    let rest = launch(&path, &[]);
    assert!(text(&rest.stderr).contains("resumed at step 2"), "{}", text(&rest.stderr));
    assert_eq!(done(rest), whole[2..], "the same bits");
    // From this engine to CPU ranks and back: the first five steps on one, the others on the other.
    let own = |path: &str| worker(&["launch", path]);
    let on_cpu_ranks = {
        restart();
        done(own(&path))
    };
    assert!(far(&on_cpu_ranks, &whole) < 2e-6);
    for first_on_tensors in [true, false] {
        restart();
        config["data"]["epochs"] = json!(1);
        let half = write(&place, &config);
        let first = done(if first_on_tensors { launch(&half, &[]) } else { own(&half) });
        config["data"]["epochs"] = json!(null);
        let path = write(&place, &config);
        let second = if first_on_tensors { own(&path) } else { launch(&path, &[]) };
        assert!(text(&second.stderr).contains("resumed at step 5"), "{}", text(&second.stderr));
        let all: Vec<f64> = first.into_iter().chain(done(second)).collect();
        assert!(far(&all, &whole) < 2e-6, "first on tensors: {first_on_tensors}");
    }
}

#[test]
fn failures_of_libraries_and_collectives_have_exit_codes() {
    if runtime().is_none() {
        return;
    }
    let _alone = alone();
    let (place, mut config) = place("aten-broken");
    config["communication"]["collective_seconds"] = json!(3.0);
    config["communication"]["join_seconds"] = json!(8.0);
    let path = write(&place, &config);
    let failed = |variables: &[(&str, &str)]| {
        let output = launch(&path, variables);
        (output.status.code(), text(&output.stderr))
    };
    let (code, errors) = failed(&[("TRAINC_TORCH_LIB", "/nowhere")]);
    let said = "/nowhere/libc10.so: cannot open shared object file: No such file or directory; use an image with PyTorch 2.10 to";
    assert!(code == Some(14) && errors.contains(said), "{errors}");
    let (code, errors) = failed(&[("TRAINC_WORKER_TENSORS", "/nowhere/libnccl.so")]);
    assert!(
        code == Some(14) && errors.contains("/nowhere/libnccl.so: cannot open shared object"),
        "{errors}"
    );
    // A collective that never ends, and an error that NCCL reports later.
    for mode in ["hang", "hang stuck-abort"] {
        let (code, errors) = failed(&[("NCCL_DOUBLE", mode)]);
        assert!(code == Some(13) && errors.contains("a collective took more than 3 s"), "{mode}: {errors}");
    }
    // A group that some ranks never join.
    let (code, errors) = failed(&[("NCCL_DOUBLE", "stuck-init")]);
    assert!(code == Some(13) && errors.contains("NCCL did not connect all ranks within 8 s"), "{errors}");
    let (code, errors) = failed(&[("NCCL_DOUBLE", "error")]);
    assert!(code == Some(13) && errors.contains("NCCL: error of the double"), "{errors}");
}

#[test]
fn a_lost_peer_ends_the_run() {
    if runtime().is_none() {
        return;
    }
    let _alone = alone();
    let (place, mut config) = place("aten-lost");
    config["schedule"]["steps"] = json!(1_000_000);
    let path = write(&place, &config);
    let mut launcher = Command::new(WORKER)
        .args(["launch", &path])
        .env("TRAINC_WORKER_TENSORS", double())
        .env("OMP_NUM_THREADS", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(launcher.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.contains("\"step\":1,"), "{line}");
    signal(ranks(&launcher)[1], "-KILL");
    std::io::copy(&mut out, &mut std::io::sink()).unwrap();
    assert_eq!(launcher.wait().unwrap().code(), Some(13));
    let reason = std::fs::read_to_string(place.at("failure")).unwrap();
    assert!(reason.contains("rank 1 was killed by signal 9"), "{reason}");
}

/// Runs `work` on the engine of each rank.
fn on_ranks<R: Send>(config: &Value, work: impl Fn(AtenEngine) -> R + Sync) -> Vec<R> {
    let config = parse(config);
    let plan = shared_memory_plan(&config);
    let memory = SharedMemory::create(plan.bytes()).unwrap();
    let long = Duration::from_mins(1);
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..plan.ranks())
            .map(|rank| {
                let (memory, plan, config, work) = (&memory, &plan, &config, &work);
                scope.spawn(move || {
                    let (groups, _watch) = plan.groups(memory, rank, long, long);
                    work(aten::create(config, groups, &runtime().unwrap()).unwrap())
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn some_tokens(rows: usize) -> Vec<u32> {
    (0..rows as u32).map(|i| i * 7 % 61).collect()
}

#[test]
fn the_calls_are_those_of_the_schedule() {
    if runtime().is_none() {
        return;
    }
    let base = cases::llama(&Place::new("aten-schedule"));
    for (shards, replicas) in [(1, 1), (2, 1), (2, 2)] {
        for (field, value) in
            [("prefetch", json!(0)), ("prefetch", json!(2)), ("reshard_after_forward", json!(false))]
        {
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
                let of = |schedule: &Schedule| -> Vec<_> {
                    schedule.calls.iter().map(|call| (call.group, call.operation, call.elements)).collect()
                };
                // The second pass starts from the state that the first left; the last sum is not the engine's.
                let mut expected = of(&Schedule::for_pass(&parsed));
                let step = of(&Schedule::for_step(&parsed, false));
                expected.extend(&step[..step.len() - 1]);
                let calls = on_ranks(&config, |mut engine| {
                    let tokens = some_tokens(engine.rows());
                    for _ in 0..2 {
                        engine.micro_step(&tokens, &tokens, 0.01).unwrap();
                    }
                    engine.reduce().unwrap();
                    engine.take_calls()
                });
                for found in calls {
                    let what =
                        format!("{shards} x {replicas}, {field} {value}, tied {tied}, adapters {adapters}");
                    assert_eq!(found, expected, "{what}");
                }
            }
        }
    }
}

#[test]
fn memory_is_near_its_prediction() {
    if runtime().is_none() {
        return;
    }
    let place = Place::new("aten-held");
    for name in ["llama", "gpt2", "gpt-neox"] {
        let mut base = config(&place, &crate::parity::recorded(name)["change"], 17);
        base["model"]["hidden_size"] = json!(128);
        base["model"]["intermediate_size"] = json!(320);
        base["model"]["head_dim"] = json!(32);
        base["model"]["sequence_length"] = json!(96);
        base["model"]["layers"] = json!(4);
        for (shards, field, value, tied, adapters) in [
            (1, "recompute", json!("none"), false, false),
            (2, "recompute", json!("block"), false, false),
            (2, "prefetch", json!(0), true, false),
            (2, "reshard_after_forward", json!(false), false, true),
        ] {
            let mut config = mesh(base.clone(), shards, 1, 1);
            config["memory"][field] = value.clone();
            config["model"]["tied_embeddings"] = json!(tied);
            if adapters {
                config["model"]["weights"] = json!("not read here");
                config["model"]["adapter"] = json!({"kind": "lora", "rank": 3, "alpha": 6.0, "dropout": 0.0,
                    "targets": ["all-linear"]});
            }
            let all = on_ranks(&config, |mut engine| {
                let tokens = some_tokens(engine.rows());
                for _ in 0..2 {
                    engine.micro_step(&tokens, &tokens, 0.01).unwrap();
                }
                engine.reduce().unwrap();
                assert!(engine.peak_memory() >= engine.allocated().total() as u64);
                engine.allocated()
            });
            let (found, foreseen) = (all[0], MemoryParts::on_gpu(&parse(&config)));
            let what = format!(
                "{name}, {shards} shards, {field} {value}, tied {tied}, adapters {adapters}: {found:?}, {foreseen:?}"
            );
            println!("{what}");
            assert_eq!(found.parameters, foreseen.parameters, "{what}");
            assert_eq!(found.gradients, foreseen.gradients, "{what}");
            assert_eq!(found.optimizer, foreseen.optimizer, "{what}");
            assert_eq!(found.gathered, foreseen.gathered, "{what}");
            let ratio = found.activations as f64 / (foreseen.activations + foreseen.logits) as f64;
            println!("  ratio {ratio:.3}");
            assert!((0.9..1.02).contains(&ratio), "{ratio}: {what}");
        }
    }
}

/// Shard groups, replicas, accumulation, tied weights, adapters and narrow sums over the double, against CPU ranks of the
/// same layout. It is short: each mutant of `mutants.py` must fail here or in the schedule.
#[test]
fn every_collective_is_ordered() {
    if runtime().is_none() {
        return;
    }
    let place = Place::new("aten-ordered");
    write_data(&place.0.join("train"), 40, 24, 61, 1);
    let mut base = cases::llama(&place);
    base["model"]["layers"] = json!(3);
    base["schedule"]["steps"] = json!(4);
    base["data"]["validation"] = json!(place.at("train"));
    base["log"]["evaluate_every_steps"] = json!(2);
    for (shards, replicas, accumulation, change) in [
        (2, 1, 1, json!({})),
        (2, 2, 2, json!({"precision": {"compute": "bf16"}})),
        (2, 2, 1, json!({"precision": {"reduce": "bf16"}, "model": {"tied_embeddings": true}})),
        (1, 2, 2, json!({"model": {"tied_embeddings": true}, "memory": {"prefetch": 0}})),
        (4, 1, 1, json!({"memory": {"recompute": "block", "prefetch": 3}})),
    ] {
        let mut config = mesh(base.clone(), shards, replicas, accumulation);
        for part in ["precision", "model", "memory"] {
            merge(&mut config[part], &change[part]);
        }
        let wide = change["precision"].is_null();
        let parsed = parse(&config);
        let (_, expected, evaluated) = train_on_threads(&parsed).unwrap();
        let exported = std::fs::read(place.at("model/model-00002-of-00005.safetensors")).unwrap();
        let (_, found, others) = train_on_threads_with(&parsed, &aten_engine).unwrap();
        let (loss, norm) = if wide { (1e-6, 1e-5) } else { (2e-3, 1e-2) };
        for (a, b) in found.iter().zip(&expected) {
            let apart = ((a.loss / b.loss - 1.0).abs(), (a.grad_norm / b.grad_norm - 1.0).abs());
            assert!(apart.0 < loss && apart.1 < norm, "{change} step {}: {apart:?}", a.step);
        }
        assert_eq!((found.len(), others.len()), (4, 2));
        assert!(far(&others, &evaluated) < loss, "{change}: {others:?}, {evaluated:?}");
        let again = std::fs::read(place.at("model/model-00002-of-00005.safetensors")).unwrap();
        let values = |bytes: &[u8]| -> Vec<f32> {
            let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
            bytes[8 + header..].chunks(4).map(|v| f32::from_le_bytes(v.try_into().unwrap())).collect()
        };
        // A NaN is no maximum.
        let all = values(&again);
        assert!(all.iter().all(|value| value.is_finite()), "{change}");
        let most = all.iter().zip(values(&exported)).fold(0.0f32, |m, (a, b)| m.max((a - b).abs()));
        assert!(most < if wide { 1e-4 } else { 2e-2 }, "{change}: weights differ by {most}");
    }
}

/// Writes the calls of two steps of each family to the directory in `TRAINC_ATEN_TRACES`, with the operators of a GPU, for
/// `replay.py`; without the variable nothing is written.
#[test]
fn traces_of_each_family() {
    let (Some(runtime), Some(directory)) = (runtime(), std::env::var_os("TRAINC_ATEN_TRACES")) else {
        return;
    };
    let place = Place::new("aten-traces");
    for name in ["llama", "llama-tied-linear", "gpt2", "gpt-neox", "adapters"] {
        for (traced, documents) in
            [(Attention::Flash, false), (Attention::Cudnn, false), (Attention::Flash, true)]
        {
            let adapters = name == "adapters";
            let case = crate::parity::recorded(if adapters { "llama" } else { name });
            let mut config = config(&place, &case["change"], 17);
            config["precision"]["compute"] = json!("bf16");
            config["memory"]["recompute"] = json!(if documents { "block" } else { "none" });
            if adapters {
                config["model"]["weights"] = json!("not read here");
                config["model"]["adapter"] = json!({"kind": "lora", "rank": 3, "alpha": 6.0, "dropout": 0.0,
                    "targets": ["all-linear"]});
            }
            let kernels = if documents {
                "documents"
            } else if traced == Attention::Flash {
                "flash"
            } else {
                "cudnn"
            };
            let path = Path::new(&directory).join(format!("{name}-{kernels}.jsonl"));
            let runtime = Runtime { traced, ..runtime.clone() };
            aten::trace::start(Box::new(std::io::BufWriter::new(std::fs::File::create(path).unwrap())));
            let config = parse(&config);
            let plan = shared_memory_plan(&config);
            let memory = SharedMemory::create(plan.bytes()).unwrap();
            let (groups, _) = plan.groups(&memory, 0, Duration::from_mins(1), Duration::from_mins(1));
            let mut engine = aten::create(&config, groups, &runtime).unwrap();
            let tokens = some_tokens(engine.rows());
            if documents {
                let begins: Vec<u32> = (0..engine.rows() as u32).map(|row| row % 24 / 7 * 7).collect();
                engine.set_document_starts(&begins);
            }
            for step in 0..2 {
                engine.micro_step(&tokens, &tokens, 0.01).unwrap();
                engine.reduce().unwrap();
                engine.update(&config.optimizer, step, 1e-3, 0.5).unwrap();
            }
            engine.evaluate(&tokens, &tokens).unwrap();
            drop(engine);
            aten::trace::stop();
        }
    }
}

/// The self-check's bounds of gradients and moments are three times the deviations found here.
#[test]
fn bounds_are_measured() {
    if runtime().is_none() {
        return;
    }
    runtime_is_loaded();
    let place = Place::new("aten-bounds");
    let mut worst = aten::Deviation::default();
    for name in ["llama", "llama-tied-linear", "gpt2", "gpt-neox", "adapters"] {
        for documents in [false, true] {
            let adapters = name == "adapters";
            let case = crate::parity::recorded(if adapters { "llama" } else { name });
            let mut config = config(&place, &case["change"], 17);
            config["precision"]["compute"] = json!("bf16");
            config["data"]["document_mask"] = json!(documents);
            if adapters {
                config["model"]["weights"] = json!("not read here");
                config["model"]["adapter"] = json!({"kind": "lora", "rank": 3, "alpha": 6.0, "dropout": 0.0,
                    "targets": ["all-linear"]});
            }
            let found = aten::measure(&parse(&config)).unwrap();
            println!("{name}, documents {documents}: {found:?}");
            worst.loss = worst.loss.max(found.loss);
            worst.gradient = worst.gradient.max(found.gradient);
            worst.moment = worst.moment.max(found.moment);
        }
    }
    println!("{worst:?}");
    assert!(worst.loss < 7e-4 && worst.gradient < 0.08 / 3.0 && worst.moment < 0.04 / 3.0, "{worst:?}");
}

/// Loads libtorch on this thread.
fn runtime_is_loaded() {
    let config = cases::llama(&Place::new("aten-loaded"));
    let parsed = parse(&config);
    let plan = shared_memory_plan(&parsed);
    let memory = SharedMemory::create(plan.bytes()).unwrap();
    let (groups, _) = plan.groups(&memory, 0, Duration::from_mins(1), Duration::from_mins(1));
    drop(aten::create(&parsed, groups, &runtime().unwrap()).unwrap());
}

#[test]
fn the_self_check_passes_and_finds_what_is_wrong() {
    if runtime().is_none() {
        return;
    }
    let _alone = alone();
    let (place, config) = place("aten-selfcheck");
    let mut config = mesh(config, 2, 2, 1);
    config["precision"]["compute"] = json!("bf16");
    let path = write(&place, &config);
    let check = |variables: &[(&str, &str)]| {
        let output = Command::new(WORKER)
            .args(["selfcheck", &path])
            .env("TRAINC_WORKER_TENSORS", double())
            .env("OMP_NUM_THREADS", "1")
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, out, errors) = check(&[]);
    assert_eq!(code, Some(0), "{errors}");
    let found: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    assert_eq!((&found["check"], &found["ok"]), (&json!("selfcheck"), &json!(true)));
    for rate in ["gather_bytes_per_s", "reduce_scatter_bytes_per_s", "all_reduce_bytes_per_s"] {
        assert!(found[rate].as_f64().unwrap() > 0.0, "{out}");
    }
    assert!(errors.contains("self-check: passed after"), "{errors}");
    // A kernel and a collective that return something else.
    let (code, _, errors) = check(&[("TRAINC_WORKER_FAULT", "kernel")]);
    assert!(
        code == Some(12) && errors.contains("self-check: tiny model, step 1: the loss deviates by"),
        "{errors}"
    );
    // Attention that is wrong at the job's length alone.
    let (code, _, errors) = check(&[("TRAINC_WORKER_FAULT", "attention")]);
    assert!(
        code == Some(12)
            && errors.contains("self-check: attention of ")
            && errors.contains("`gpu.self_check`"),
        "{errors}"
    );
    // A false alarm has a way past it.
    let mut warned = config.clone();
    warned["gpu"] =
        json!({"attention": "auto", "self_check": "warn", "peak_flops": null, "network_bytes_per_s": null});
    write(&place, &warned);
    for fault in [("TRAINC_WORKER_FAULT", "attention"), ("NCCL_DOUBLE", "wrong")] {
        let (code, out, errors) = check(&[fault]);
        assert_eq!(code, Some(0), "{errors}");
        assert!(
            errors.contains("warning: self-check: ") && out.contains("\"event\":\"warning\""),
            "{errors}"
        );
    }
    write(&place, &config);
    let (code, _, errors) = check(&[("NCCL_DOUBLE", "wrong")]);
    assert!(code == Some(12) && errors.contains("self-check: reduce-scatter of "), "{errors}");
    // Compute that does not wait for collectives.
    let (code, _, errors) = check(&[("NCCL_DOUBLE", "unordered")]);
    assert!(code == Some(12), "{errors}");
    // Before training it runs once, and before any data is read.
    let launch = |fault: &str| {
        let variables = [("TRAINC_WORKER_SELFCHECK", "1"), ("TRAINC_WORKER_FAULT", fault)];
        let output = launch(&path, &variables);
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    std::fs::rename(place.at("train"), place.at("elsewhere")).unwrap();
    let (code, _, errors) = launch("kernel");
    assert!(code == Some(12), "{errors}");
    let (code, out, errors) = launch("none");
    assert!(code == Some(10) && out.contains("\"check\":\"selfcheck\""), "{errors}");
    std::fs::rename(place.at("elsewhere"), place.at("train")).unwrap();
    let (code, out, errors) = launch("kernel");
    assert!(code == Some(0) && !out.contains("selfcheck"), "it has passed before: {errors}");
    // Without GPUs there is nothing to check.
    let output = worker(&["selfcheck", &path]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("the config has no GPUs to check"));
}
