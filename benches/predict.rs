//! Speed of the cost model and of the search: layouts per second on one core, and the wall-clock time of
//! `tune`.
//!
//! `cargo bench --bench predict`. Fails if a layout takes more than ten microseconds, or `tune` of 30
//! billion parameters over five instance types and up to 64 nodes more than a second, or a default search
//! more than 0.3 s.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a bench prints and starts programs"
)]

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use trainc_check::can_run_on;
use trainc_diag::source::SourceMap;
use trainc_ir::{Plan, SourceTree};
use trainc_plan::Options;
use trainc_plan::ReadError;
use trainc_plan::World;
use trainc_plan::resolve::{LayerLoader, LoadedLayer};
use trainc_predict::{Constants, Layout, predict};
use trainc_tune::{Limits, Space, pareto_front, search};

/// 30 billion parameters on 256 GPUs.
const EXAMPLE: &str = "examples/gpt2-30b-sharded/trainc.kdl";
/// Instance types of the search.
const INSTANCES: &str = "ml.p4d.24xlarge,ml.p4de.24xlarge,ml.p5.48xlarge,ml.p5e.48xlarge,ml.g5.48xlarge";
/// Maximum number of nodes.
const NODES: u64 = 64;
/// Required layouts per second.
const LEAST: f64 = 100_000.0;
/// Maximum duration of the search.
const LONGEST: Duration = Duration::from_secs(1);

/// Examples whose default search is measured, over all instance types.
const DEFAULT_SEARCHES: [&str; 4] = ["starter", "gpt2-30b-sharded", "llama-70b-zero3", "llama-7b-fsdp"];
/// Maximum duration of a default search.
const LONGEST_DEFAULT: Duration = Duration::from_millis(300);

/// A world without files.
struct NoFiles;

impl LayerLoader for NoFiles {
    fn read_layer(&mut self, _: &str, _: &str) -> Result<LoadedLayer, ReadError> {
        Err(ReadError::NotFound)
    }

    fn file_identity(&self, name: &str) -> String {
        name.to_owned()
    }
}

impl World for NoFiles {
    fn read_directory(&mut self, _: &str, _: &str) -> Result<SourceTree, ReadError> {
        Err(ReadError::NotFound)
    }

    fn read_text(&mut self, _: &str, _: &str) -> Result<String, ReadError> {
        Err(ReadError::NotFound)
    }
}

fn plan(root: &Path, sets: &[&str]) -> Plan {
    let text = std::fs::read_to_string(root.join(EXAMPLE)).unwrap();
    let mut options = Options { today: "2026-11-21".to_owned(), ..Options::default() };
    options.choices.sets = sets.iter().map(|set| (*set).to_owned()).collect();
    let mut sources = SourceMap::default();
    let source = sources.add(EXAMPLE, text.as_str());
    *trainc_check::compile(source, &text, &options, &mut NoFiles, &mut sources).plan.unwrap()
}

/// Returns the layouts per second of `once`, which handles `layouts` of them, measured over at least a
/// second.
fn rate(layouts: usize, mut once: impl FnMut()) -> f64 {
    once();
    let (started, mut rounds) = (Instant::now(), 0_u32);
    while started.elapsed() < Duration::from_secs(1) {
        once();
        rounds += 1;
    }
    f64::from(rounds) * layouts as f64 / started.elapsed().as_secs_f64()
}

/// Rounds to ten thousands: `780,000`.
fn thousands(rate: f64) -> String {
    trainc_diag::text::group_digits(format!("{:.0}0000", rate / 1e4).parse().unwrap())
}

fn main() {
    let root = &Path::new(env!("CARGO_MANIFEST_DIR"));
    let constants = Constants::shipped();
    let limits = Limits {
        instances: INSTANCES.split(',').map(str::to_owned).collect(),
        max_nodes: Some(NODES),
        ..Limits::default()
    };
    let (mut missed, mut rates) = (Vec::new(), Vec::new());
    println!("{:<62} {:>10} {:>14}", "on one core", "layouts", "layouts/s");
    for (what, sets) in [
        ("30B, SMP v1, sharded", &[][..]),
        (
            "30B, SMP v1, tensor and pipeline",
            &["train.precision=fp16", "image.version=1.13.1", "image.python=py39"],
        ),
        ("30B, FSDP", &["parallel.engine=fsdp", "image.version=2.7.1", "image.python=py312"]),
    ] {
        let plan = plan(root, sets);
        let Ok(space) = Space::from_plan(&plan, &limits, constants, &can_run_on) else {
            println!("{what:<62} cannot be searched");
            missed.push(format!("{what}: cannot be searched"));
            continue;
        };
        let mut layouts: Vec<Layout> = Vec::new();
        space.visit(|_, layout| layouts.push(layout.clone()));
        let alone = rate(layouts.len(), || {
            for layout in &layouts {
                black_box(predict(black_box(layout), constants));
            }
        });
        let all = rate(layouts.len(), || {
            let points = search(&space, &limits, constants).unwrap();
            black_box(pareto_front(&points));
        });
        println!("{:<62} {:>10} {alone:>14.0}", format!("{what}: memory and speed of each"), layouts.len());
        println!(
            "{:<62} {:>10} {all:>14.0}",
            format!("{what}: searched, with time, money and front"),
            layouts.len()
        );
        rates.push(alone);
        for (rate, of) in [(alone, "predicted"), (all, "searched")] {
            if rate < LEAST {
                missed.push(format!("{what}: {rate:.0} layouts a second {of}, at least {LEAST:.0}"));
            }
        }
    }
    let (low, high) =
        rates.iter().fold((f64::MAX, 0.0_f64), |(low, high), rate| (low.min(*rate), high.max(*rate)));
    // As `benches/peers/compare.py --trainc-rate` takes it.
    println!("\nmemory and speed, layouts/s on one core: {} to {}", thousands(low), thousands(high));
    let mut times: Vec<Duration> = (0..11)
        .map(|_| {
            let started = Instant::now();
            let out = Command::new(env!("CARGO_BIN_EXE_trainc"))
                .args(["tune", EXAMPLE, "--instances", INSTANCES, "--max-nodes", "64", "-o", "json"])
                .current_dir(root)
                .output()
                .unwrap();
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
            started.elapsed()
        })
        .collect();
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    println!(
        "\ntrainc tune, 30B over 5 instance types and up to {NODES} nodes: {:.0} ms, median of 11",
        median.as_secs_f64() * 1e3
    );
    let mut longest_default = Duration::ZERO;
    for name in DEFAULT_SEARCHES {
        let manifest = format!("examples/{name}/trainc.kdl");
        let started = Instant::now();
        let out = Command::new(env!("CARGO_BIN_EXE_trainc"))
            .args(["tune", &manifest, "-o", "json"])
            .current_dir(root)
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let took = started.elapsed();
        println!("trainc tune {name}, all instance types: {:.0} ms", took.as_secs_f64() * 1e3);
        longest_default = longest_default.max(took);
    }
    if longest_default > LONGEST_DEFAULT {
        missed.push(format!("a default tune takes {longest_default:?}, at most {LONGEST_DEFAULT:?}"));
    }
    if median > LONGEST {
        missed.push(format!("tune takes {median:?}, at most {LONGEST:?}"));
    }
    if !missed.is_empty() && !cfg!(debug_assertions) {
        println!("\nmissed:\n{}", missed.join("\n"));
        std::process::exit(1);
    }
}
