//! How long a user waits: cold starts of the binary beside an empty process and the peers, in one run.
//!
//! `cargo bench --bench cold`. Peers are measured where they are there: the SageMaker SDK in `.venv` (made by
//! `tests/python/run.sh`), `terraform` on the path. Each figure is the median of runs taken in turn, so
//! that a machine that slows down slows all of them.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a bench prints and starts programs"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

/// The largest example by GPUs and by length.
const LARGEST: &str = "examples/gpt2-30b-sharded/trainc.kdl";
/// A job for which another machine is better, and its directory, for which no other machine is searched.
const STARTER: &str = "examples/starter/trainc.kdl";
const STARTER_DIRECTORY: &str = "examples/starter";
/// Manifests in the repo-wide check.
const MANIFESTS: usize = 2_000;

struct Row {
    what: String,
    command: Vec<String>,
    dir: PathBuf,
    times: Vec<Duration>,
}

impl Row {
    fn new(what: &str, command: &[&str], dir: &Path) -> Self {
        Self {
            what: what.to_owned(),
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            dir: dir.to_path_buf(),
            times: Vec::new(),
        }
    }

    fn run(&mut self) {
        let started = Instant::now();
        let status = Command::new(&self.command[0])
            .args(&self.command[1..])
            .current_dir(&self.dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        let took = started.elapsed();
        assert!(status.success(), "{} ended with {status}", self.what);
        self.times.push(took);
    }

    fn median(&self) -> Duration {
        let mut times = self.times.clone();
        times.sort_unstable();
        times[times.len() / 2]
    }
}

/// A directory of many manifests, each a job of its own.
fn many(root: &Path) -> PathBuf {
    let dir = env::temp_dir().join(format!("trainc-bench-{}", std::process::id()));
    fs::create_dir_all(dir.join(".git")).unwrap();
    let examples = ["llama-7b-fsdp", "gpt2-30b-sharded", "gptj-6b-pipeline", "falcon-40b-qlora"];
    for at in 0..MANIFESTS {
        let name = examples[at % examples.len()];
        let text = fs::read_to_string(root.join("examples").join(name).join("trainc.kdl")).unwrap();
        let text = text
            .replacen(&format!("job \"{name}\""), &format!("job \"{name}-{at}\""), 1)
            .replace("source=\"./scripts\"", &format!("source=\"./{name}\""));
        fs::write(dir.join(format!("{at}.kdl")), text).unwrap();
    }
    for name in examples {
        let to = dir.join(name);
        fs::create_dir_all(&to).unwrap();
        for entry in fs::read_dir(root.join("examples").join(name).join("scripts")).unwrap().flatten() {
            if entry.path().is_file() {
                fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    }
    dir
}

fn on_path(program: &str) -> bool {
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

fn main() {
    let root = &Path::new(env!("CARGO_MANIFEST_DIR"));
    let trainc = env!("CARGO_BIN_EXE_trainc");
    let (repo, empty) = (many(root), env::temp_dir().join(format!("trainc-bench-tf-{}", std::process::id())));
    fs::create_dir_all(&empty).unwrap();
    let mut quick = [
        Row::new("an empty process (true)", &["true"], root),
        Row::new("trainc --version", &[trainc, "--version"], root),
        Row::new("trainc check, largest example", &[trainc, "check", LARGEST], root),
        Row::new("trainc plan --offline, largest example", &[trainc, "plan", "--offline", LARGEST], root),
        Row::new("trainc plan --offline, starter", &[trainc, "plan", "--offline", STARTER], root),
        Row::new(
            "trainc plan --offline, directory of the starter: no other machines",
            &[trainc, "plan", "--offline", STARTER_DIRECTORY],
            root,
        ),
        Row::new(
            "trainc plan --offline -o json, largest example",
            &[trainc, "plan", "--offline", LARGEST, "-o", "json"],
            root,
        ),
    ];
    let mut slow = vec![Row::new(
        &format!("trainc check, {MANIFESTS} manifests"),
        &[trainc, "check", ".", "-o", "short"],
        &repo,
    )];
    let python = root.join(".venv/bin/python");
    if python.exists() {
        let python = python.to_string_lossy().into_owned();
        slow.push(Row::new(
            "python: import sagemaker.pytorch",
            &[&python, "-c", "import sagemaker.pytorch"],
            root,
        ));
    }
    if on_path("terraform") {
        // Without any file terraform refuses; a block without members is the least that it plans.
        fs::write(empty.join("main.tf"), "terraform {}\n").unwrap();
        slow.push(Row::new(
            "terraform plan, empty configuration",
            &["terraform", "plan", "-input=false"],
            &empty,
        ));
    }
    for _ in 0..41 {
        quick.iter_mut().for_each(Row::run);
    }
    for _ in 0..5 {
        slow.iter_mut().for_each(Row::run);
    }
    let floor = quick[0].median();
    println!("{:<50} {:>10} {:>22}", "median", "ms", "over an empty process");
    for row in quick.iter().chain(&slow) {
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        println!(
            "{:<50} {:>10.2} {:>22.2}",
            row.what,
            ms(row.median()),
            ms(row.median().saturating_sub(floor))
        );
    }
    if !python.exists() {
        println!("not measured: the SageMaker SDK (run tests/python/run.sh once)");
    }
    if !on_path("terraform") {
        println!("not measured: terraform (not on the path)");
    }
    let _ = fs::remove_dir_all(repo);
    let _ = fs::remove_dir_all(empty);
}
