//! How long an editor waits for the language server, as a process: from opening a file and from a change to
//! the diagnostics, hints and lenses, and for completion and hover, in a repository of 3 and of 500 manifests.
//!
//! `cargo bench --bench lsp`. Prints the median and the 95th percentile of each.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a bench prints and starts programs"
)]

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

/// Changes of the open text.
const CHANGES: usize = 200;

struct Server {
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    next: u64,
    /// Files whose problems were published.
    published: BTreeSet<String>,
}

impl Server {
    fn write(&mut self, message: &Value) {
        let body = message.to_string();
        write!(self.to, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        self.to.flush().unwrap();
    }

    fn read(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.from.read_line(&mut line).unwrap();
            if let Some(given) = line.strip_prefix("Content-Length: ") {
                length = given.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        self.from.read_exact(&mut body).unwrap();
        let message: Value = serde_json::from_slice(&body).unwrap();
        if message["method"] == "textDocument/publishDiagnostics" {
            self.published.insert(message["params"]["uri"].as_str().unwrap().to_owned());
        }
        message
    }

    fn tell(&mut self, method: &str, params: &Value) {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let message = self.read();
            if message["id"] == id {
                return message["result"].clone();
            }
        }
    }

    /// Waits until the problems of the last change are published and the hints and lenses are answered.
    fn settle(&mut self, uri: &str) {
        let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 999, "character": 0}});
        let document = json!({"textDocument": {"uri": uri}, "range": range});
        let hints = self.ask("textDocument/inlayHint", &document);
        let lenses = self.ask("textDocument/codeLens", &document);
        assert!(hints.is_array() && lenses.is_array());
    }
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)].as_secs_f64() * 1e3;
    println!("{what:<44} p50 {:>8.2} ms  p95 {:>8.2} ms  max {:>8.2} ms", at(50), at(95), at(100));
}

/// Makes a repository of that many manifests; returns its folder.
fn repository(manifests: usize) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let example =
        |name: &str| fs::read_to_string(root.join("examples").join(name).join("trainc.kdl")).unwrap();
    let all: Vec<String> =
        ["starter", "gpt2-30b-sharded", "llama-7b-fsdp", "qwen3-30b-a3b"].map(example).to_vec();
    let dir = env::temp_dir().join(format!("trainc-bench-lsp-{}-{manifests}", std::process::id()));
    fs::create_dir_all(dir.join(".git")).unwrap();
    for number in 0..manifests {
        let text = &all[number % all.len()];
        let name = text.split("job \"").nth(1).unwrap().split('"').next().unwrap();
        let text = text.replace(&format!("job \"{name}\""), &format!("job \"{name}-{number}\""));
        let place = dir.join(format!("team-{}", number % 20));
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join(format!("job-{number}.kdl")), text).unwrap();
    }
    dir.canonicalize().unwrap()
}

fn main() {
    for manifests in [3, 500] {
        println!("{manifests} manifests");
        let dir = repository(manifests);
        measure(&dir, manifests);
        let _ = fs::remove_dir_all(dir);
    }
}

fn measure(dir: &Path, manifests: usize) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_trainc"))
        .args(["lsp", "--today", "2026-11-24"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut server = Server { to, from, next: 0, published: BTreeSet::new() };
    let folder = format!("file://{}", dir.display());
    let started = Instant::now();
    let folders = json!([{"uri": folder, "name": "jobs"}]);
    server.ask("initialize", &json!({"processId": null, "capabilities": {}, "workspaceFolders": folders}));
    server.tell("initialized", &json!({}));
    let path = "team-0/job-0.kdl";
    let (uri, text) = (format!("{folder}/{path}"), fs::read_to_string(dir.join(path)).unwrap());
    let document = json!({"uri": uri, "languageId": "kdl", "version": 1, "text": text});
    // While all others are checked in the background.
    let open = |server: &mut Server, times: &mut Vec<Duration>| {
        let started = Instant::now();
        server.tell("textDocument/didOpen", &json!({"textDocument": document}));
        server.settle(&uri);
        times.push(started.elapsed());
    };
    let mut first = Vec::new();
    open(&mut server, &mut first);
    report("first open", first);
    while server.published.len() < manifests {
        server.read();
    }
    report("problems of all manifests", vec![started.elapsed()]);
    let mut times = Vec::new();
    for _ in 0..CHANGES / 4 {
        server.tell("textDocument/didClose", &json!({"textDocument": {"uri": uri}}));
        open(&mut server, &mut times);
    }
    report("open to diagnostics, hints, lenses", times);
    let (mut changes, mut hovers, mut completions) = (Vec::new(), Vec::new(), Vec::new());
    for version in 0..CHANGES {
        // A key is typed somewhere: half of the texts are broken, as while typing.
        let place = text.floor_char_boundary(version * 7_919 % text.len());
        let typed = if version % 2 == 0 { "x" } else { " " };
        let new = [&text[..place], typed, &text[place..]].concat();
        let line = new[..place].matches('\n').count();
        let character = place - new[..place].rfind('\n').map_or(0, |at| at + 1);
        let started = Instant::now();
        let document = json!({"uri": uri, "version": version + 2});
        let change = json!({"textDocument": document, "contentChanges": [{"text": new}]});
        server.tell("textDocument/didChange", &change);
        let at = json!({"textDocument": {"uri": uri}, "position": {"line": line, "character": character}});
        server.ask("textDocument/completion", &at);
        completions.push(started.elapsed());
        server.settle(&uri);
        changes.push(started.elapsed());
        let started = Instant::now();
        server.ask("textDocument/hover", &at);
        hovers.push(started.elapsed());
    }
    report("change to completion", completions);
    report("change to diagnostics, hints, lenses", changes);
    report("hover", hovers);
    drop(server);
    let _ = child.wait();
}
