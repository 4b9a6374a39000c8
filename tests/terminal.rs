//! Lines of a terminal: no command breaks a word at 80 or 100 columns.

use crate::support::{Scratch, TODAY, read};
use std::collections::BTreeSet;
use std::process::Command;
use unicode_width::UnicodeWidthStr as _;

/// What a command prints on both streams in a terminal of this width, without progress.
fn printed(dir: &Scratch, columns: usize, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_trainc"))
        .args(args)
        .args(["--today", TODAY])
        .current_dir(&dir.0)
        .env("NO_COLOR", "1")
        .env("COLUMNS", columns.to_string())
        .env("LANG", "C.UTF-8")
        .env("TRAINC_POLL_SECONDS", "0")
        .output()
        .unwrap();
    [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat()
}

/// The words of a text; a backslash only continues a command, and a bar has no words.
fn words(text: &str) -> BTreeSet<String> {
    let is_word = |word: &&str| *word != "\\" && !word.starts_with(['[', '│', '─', '█']);
    text.split_whitespace().filter(is_word).map(str::to_owned).collect()
}

#[test]
fn no_command_breaks_a_word() {
    for columns in [80, 100] {
        let dir = Scratch::new(&format!("terminal-{columns}"));
        dir.write("a-directory-with-a-long-name/job.kdl", read("examples/starter/trainc.kdl"));
        dir.write("a-directory-with-a-long-name/scripts/train.py", "");
        dir.write("empty.kdl", "job \"a\" {\n}\n");
        let job = "a-directory-with-a-long-name/job.kdl";
        let simulate = "--simulate=the-simulated-account.json";
        for args in [
            &["apply", job, simulate, "--yes"][..],
            &["watch", job, simulate],
            &["status", job, simulate],
            &["logs", job, simulate],
            &["report", job, simulate],
            &["plan", job, simulate],
            &["stop", job, simulate, "--yes"],
            &["destroy", job, simulate, "--yes"],
            &["check", "empty.kdl"],
            &["plan", "empty.kdl", "--offline"],
            &["tune", job],
            &["tune", job, "--instances", "p4d"],
            &["explain", "T0220"],
            &["catalog", "instances"],
            &["catalog", "instances", "us-west-2"],
            &["apply", "--help"],
        ] {
            let narrow = printed(&dir, columns, args);
            assert!(!narrow.is_empty(), "{args:?}");
            for line in narrow.lines().filter(|line| line.width() > columns) {
                // Only the last word of a line may pass its end.
                let before = line.trim_end().rfind(' ').unwrap_or(0);
                let label = line.get(..before).unwrap_or("");
                assert!(label.split_whitespace().count() <= 1, "{args:?} at {columns}: {line}");
            }
            // Another run of a command that changes the account prints other words.
            if !matches!(args[0], "apply" | "watch" | "destroy" | "stop") {
                let wide = words(&printed(&dir, 400, args));
                let broken: Vec<String> = words(&narrow).difference(&wide).cloned().collect();
                assert!(broken.is_empty(), "{args:?} at {columns}: {broken:?}\n{narrow}");
            }
        }
    }
}

/// Messages of the states of a run are a column, also where they are wrapped.
#[test]
fn messages_of_states_are_a_column() {
    let dir = Scratch::new("terminal-status");
    dir.write("trainc.kdl", read("examples/llama-7b-fsdp/trainc.kdl"));
    for script in ["pretrain.py", "requirements.txt"] {
        dir.write(&format!("scripts/{script}"), read(&format!("examples/llama-7b-fsdp/scripts/{script}")));
    }
    let job = "trainc.kdl";
    let simulate = "--simulate=account.json";
    for command in [&["apply", job, simulate, "--yes"][..], &["watch", job, simulate]] {
        printed(&dir, 80, command);
    }
    let status = printed(&dir, 80, &["status", job, simulate]);
    let column = |what: &str| status.lines().find_map(|line| line.find(what)).unwrap();
    let first = column("Preparing the instances");
    for what in
        ["Downloading the training image", "input data", "Training image download", "Uploading generated"]
    {
        assert_eq!(column(what), first, "{what}: {status}");
    }
}
