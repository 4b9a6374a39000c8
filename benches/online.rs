//! What an account costs `trainc plan`: its wall time online over offline, against an account that answers in 50 ms.
//!
//! `cargo bench --bench online`, or with `TRAINC_BIN=FILE` for a binary that is built already. The account is that of
//! `tests/account`, run by `.venv` (made by `tests/account/run.sh`); without it nothing is measured. It holds what the
//! example names, and a plan that finds anything wrong in it is not measured.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a bench prints and starts programs"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The largest example by what it makes.
const LARGEST: &str = "examples/llama-7b-fsdp/trainc.kdl";
/// Answers of the account take so long, in milliseconds.
const LATENCY: u32 = 50;
const RUNS: usize = 15;
/// What the example names and trainc does not make.
const SEED: &str = r#"{"region": "us-west-2", "subnets": ["subnet-0123456789abcdef0"],
    "security_groups": ["sg-0123456789abcdef0"], "buckets": ["example-corpus", "example-runs"],
    "objects": ["s3://example-corpus/tokens/part-0"],
    "secrets": ["arn:aws:secretsmanager:us-west-2:111122223333:secret:wandb-AbCdEf"]}"#;

fn main() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let python = root.join(".venv/bin/python");
    if !python.exists() {
        println!("online: not measured, there is no .venv (tests/account/run.sh makes it)");
        return;
    }
    let mut account = Command::new(&python)
        .args(["-m", "account"])
        .current_dir(root.join("tests/account"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(account.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let url = url.trim().to_owned();
    let _ = ask(&url, "seed", SEED);
    let _ = ask(&url, "settings", &format!("{{\"latency_ms\": {LATENCY}}}"));
    plan(&root, &url, false);
    let _ = ask(&url, "forget", "null");
    plan(&root, &url, false);
    let calls = ask(&url, "requests", "null").matches("\"call\":").count();
    assert!(calls < 25, "{calls} calls");
    let (mut online, mut offline) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        online.push(plan(&root, &url, false));
        offline.push(plan(&root, &url, true));
    }
    let (online, offline) = (median(online), median(offline));
    println!("plan --offline   {offline:>7.1?}");
    println!("plan             {online:>7.1?}   {calls} calls, {LATENCY} ms each");
    let account_took = online.saturating_sub(offline);
    let deep = account_took.as_secs_f64() * 1_000.0 / f64::from(LATENCY);
    println!(
        "                 {account_took:>7.1?}   for the account: {deep:.1} answers one after the other"
    );
    account.kill().unwrap();
    account.wait().unwrap();
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// One plan, which finds nothing wrong.
fn plan(root: &Path, url: &str, offline: bool) -> Duration {
    let started = Instant::now();
    let binary = std::env::var("TRAINC_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_trainc").to_owned());
    let mut command = Command::new(binary);
    command
        .args(["plan", LARGEST])
        .args(offline.then_some("--offline"))
        .current_dir(root)
        .env("AWS_ENDPOINT_URL", url)
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let status = command.status().unwrap();
    let took = started.elapsed();
    assert!(status.success(), "the plan ended with {status}");
    took
}

/// A word with the account's own side.
fn ask(url: &str, what: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    let request = format!(
        "POST /_account/{what} HTTP/1.1\r\nHost: account\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
