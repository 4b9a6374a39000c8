//! Every console block of the documentation is run: what a page shows is what trainc prints.
//!
//! A command without output below it must end with 0; output is compared line by line, `...` stands for any
//! lines, and `? 3` for the exit code. `TRAINC_BLESS=1` writes what was seen into the page.

use crate::support::root;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Commands that a page may show but that are not run here: they are the checkout, or this test itself.
const NOT_RUN: &[&str] = &[
    "./test",
    "git clone",
    "cd trainc",
    "cargo install",
    ".ci/run",
    "just ",
    "cargo bench",
    "cargo test",
    "cargo build",
    "python3 worker/",
    "python3 -m venv",
    ".venv",
    "export ",
    "source ",
];

fn pages(root: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).unwrap().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_symlink() {
                // `crates/*/templates` is the directory of the same name in the root.
            } else if path.is_dir() {
                if !matches!(
                    name.as_str(),
                    "target" | ".git" | ".venv" | "node_modules" | "codes" | "snapshots"
                ) {
                    pending.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "md") {
                out.push(path);
            }
        }
    }
    out.sort();
    out
}

struct Step {
    command: String,
    expected: Vec<String>,
    code: i32,
}

fn steps(block: &[&str]) -> Vec<Step> {
    let mut out: Vec<Step> = Vec::new();
    for line in block {
        if let Some(command) = line.strip_prefix("$ ") {
            out.push(Step { command: command.to_owned(), expected: Vec::new(), code: 0 });
        } else if let Some(step) = out.last_mut() {
            match line.strip_prefix("? ").and_then(|code| code.parse().ok()) {
                Some(code) => step.code = code,
                None => step.expected.push((*line).to_owned()),
            }
        }
    }
    for step in &mut out {
        while step.expected.last().is_some_and(String::is_empty) {
            step.expected.pop();
        }
    }
    out
}

/// Whether the lines match, `...` standing for any number of them.
fn matches(expected: &[String], found: &[&str]) -> bool {
    match expected.split_first() {
        None => found.is_empty(),
        Some((dots, rest)) if dots == "..." => (0..=found.len()).any(|at| matches(rest, &found[at..])),
        Some((line, rest)) => found
            .split_first()
            .is_some_and(|(first, others)| line.trim_end() == first.trim_end() && matches(rest, others)),
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() { copy(&path, &target) } else { fs::copy(&path, &target).map(|_| ()).unwrap() }
    }
}

/// A copy of what commands of the pages read, so that they may write.
fn scratch(root: &Path, name: &str) -> PathBuf {
    let dir = env::temp_dir().join(format!("trainc-docs-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(dir.join(".git")).unwrap();
    copy(&root.join("examples"), &dir.join("examples"));
    copy(&root.join("tests/fixtures"), &dir.join("tests/fixtures"));
    dir
}

fn run(command: &str, dir: &Path) -> (String, i32) {
    let binary = Path::new(env!("CARGO_BIN_EXE_trainc")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), env::var("PATH").unwrap_or_default());
    // `cargo run`, with whatever flags for cargo, is the binary that stands there already.
    let command = match command.strip_prefix("cargo run ").and_then(|rest| rest.split_once("-- ")) {
        Some((_, arguments)) => format!("trainc {arguments}"),
        None => command.to_owned(),
    };
    // `tests/run.rs` trains; here some steps show that the page's command works.
    let command =
        if command.starts_with("trainc run ") { command + " --set train.steps=25" } else { command };
    let output = Command::new("sh")
        .arg("-c")
        // The age of a price depends on the day.
        .arg(format!(
            "exec 2>&1\ntrainc() {{ command trainc --today {} \"$@\"; }}\n{command}",
            trainc_catalog::VERSION
        ))
        .current_dir(dir)
        .env("PATH", path)
        .env("NO_COLOR", "1")
        .env("COLUMNS", "80")
        .env("LANG", "C.UTF-8")
        .output()
        .unwrap();
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code().unwrap_or(-1))
}

#[test]
fn console_blocks_show_what_happens() {
    let root = root();
    let bless = env::var_os("TRAINC_BLESS").is_some();
    let mut wrong = String::new();
    let mut ran = 0;
    for (at, page) in pages(root).into_iter().enumerate() {
        let text = fs::read_to_string(&page).unwrap();
        if !text.contains("```console") {
            continue;
        }
        let dir = scratch(root, &at.to_string());
        let shown = page.strip_prefix(root).unwrap().display().to_string();
        let mut out = String::new();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let _ = writeln!(out, "{line}");
            if line.trim_end() != "```console" {
                continue;
            }
            let mut block = Vec::new();
            while let Some(line) = lines.next_if(|line| !line.starts_with("```")) {
                block.push(line);
            }
            for step in steps(&block) {
                let _ = writeln!(out, "$ {}", step.command);
                if NOT_RUN.iter().any(|prefix| step.command.starts_with(prefix)) {
                    step.expected.iter().for_each(|line| {
                        let _ = writeln!(out, "{line}");
                    });
                    continue;
                }
                ran += 1;
                let (found, code) = run(&step.command, &dir);
                let found: Vec<&str> = found.lines().collect();
                let fine = code == step.code && (step.expected.is_empty() || matches(&step.expected, &found));
                if !fine && !bless {
                    let _ = writeln!(
                        wrong,
                        "{shown}: `{}` ended with {code} (page: {}) and printed\n{}\n",
                        step.command,
                        step.code,
                        found.join("\n")
                    );
                }
                assert_ne!(code, 127, "{shown}: `{}` is no command: {}", step.command, found.join("\n"));
                if code != 0 {
                    let _ = writeln!(out, "? {code}");
                }
                if step.expected.is_empty() {
                    continue;
                }
                if bless && !fine {
                    found.iter().for_each(|line| {
                        let _ = writeln!(out, "{}", line.trim_end());
                    });
                } else {
                    step.expected.iter().for_each(|line| {
                        let _ = writeln!(out, "{line}");
                    });
                }
            }
        }
        if bless && out != text {
            fs::write(&page, out).unwrap();
        }
        let _ = fs::remove_dir_all(dir);
    }
    assert!(ran > 0, "no console block was run");
    assert!(wrong.is_empty(), "pages that show something else:\n\n{wrong}");
}
