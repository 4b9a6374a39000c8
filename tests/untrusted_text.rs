//! Text of a hostile pull request: whatever is printed of it, no terminal and no CI system interprets it.

use crate::support::{Ran, Scratch, read, trainc_in};
use std::fs;
use std::time::Duration;

/// Clears the screen, rings, blinks, reverses the direction of text, and gives a command to GitHub's and Azure's runners.
const HOSTILE: &str = "x\u{1b}[2J\u{1b}[5m\u{7}\u{9b}31m\u{7f}\u{202e}\u{2066}\u{61c}\n::stop-commands::pwned\n  ::error::pwned\r##[error]pwned ##vso[task.complete]";

/// The same as a string of KDL.
fn hostile_kdl() -> String {
    let escaped: String = HOSTILE
        .chars()
        .map(|c| {
            if c == ' ' || c.is_ascii_graphic() {
                c.to_string()
            } else {
                format!("\\u{{{:x}}}", u32::from(c))
            }
        })
        .collect();
    format!("\"{escaped}\"")
}

fn run(scratch: &Scratch, args: &[&str]) -> Ran {
    trainc_in(&scratch.0, args, b"", Duration::from_mins(2))
}

/// Asserts that nothing in an output is interpreted, except the colours and the commands that trainc writes itself.
#[track_caller]
fn is_safe(args: &[&str], ran: &Ran) {
    assert!(ran.code.is_some_and(|code| code != 101), "{args:?}: {:?} {}", ran.code, ran.err);
    for text in [&ran.out, &ran.err] {
        let is_unsafe = |c: char| {
            c.is_control() && !matches!(c, '\n' | '\t' | '\u{1b}')
                || matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        for line in text.lines() {
            assert!(!line.chars().any(is_unsafe), "{args:?}: {line:?}");
            for sequence in line.split('\u{1b}').skip(1) {
                let end = sequence.find(|c: char| !(c.is_ascii_digit() || "[;".contains(c)));
                let is_color = args.contains(&"always")
                    && end.is_some_and(|end| sequence[end..].starts_with('m'))
                    && !sequence.starts_with("[5m");
                assert!(is_color, "{args:?}: {line:?}");
            }
            let line = line.trim_start();
            let ours = ["error ", "warning ", "notice ", "group::further", "endgroup::"];
            let is_ours = args.contains(&"github")
                && line.strip_prefix("::").is_some_and(|line| ours.iter().any(|word| line.starts_with(word)));
            assert!(!line.starts_with("::") || is_ours, "{args:?}: {line:?}");
            assert!(is_ours || !line.contains("##[") && !line.contains("##vso["), "{args:?}: {line:?}");
        }
    }
    if args.contains(&"json") {
        for document in serde_json::Deserializer::from_str(&ran.out).into_iter::<serde_json::Value>() {
            document.unwrap_or_else(|error| panic!("{args:?}: {error}\n{}", ran.out));
        }
    }
}

const FORMATS: [&str; 7] = ["human", "json", "markdown", "short", "sarif", "github", "gitlab"];

/// Commands that print something of a manifest, each in its formats.
fn commands(manifest: &str) -> Vec<Vec<&str>> {
    let mut all: Vec<Vec<&str>> =
        FORMATS.iter().map(|format| vec!["check", "-v", manifest, "-o", format]).collect();
    for format in ["human", "json", "markdown"] {
        all.push(vec!["plan", "--offline", "-v", manifest, "-o", format]);
        all.push(vec!["plan", "--simulate", manifest, "-o", format]);
        all.push(vec!["tune", manifest, "-o", format]);
        all.push(vec!["report", manifest, "-o", format]);
    }
    for format in ["human", "json"] {
        for command in ["apply", "destroy", "stop"] {
            all.push(vec![command, manifest, "--simulate=account.json", "--yes", "-o", format]);
        }
        for command in ["status", "logs", "watch"] {
            all.push(vec![command, manifest, "--simulate=account.json", "-o", format]);
        }
        all.push(vec!["run", manifest, "-o", format]);
    }
    all.extend([
        vec!["emit", manifest, "--out", "out"],
        vec!["emit", manifest, "--out", "out", "--check"],
        vec!["fmt", "--check", manifest],
        vec!["catalog", "permissions", manifest],
    ]);
    let colored: Vec<Vec<&str>> =
        all.iter().map(|args| [args.as_slice(), &["--color", "always"]].concat()).collect();
    all.extend(colored);
    all
}

#[test]
fn values_of_a_manifest() {
    let scratch = Scratch::new("untrusted-values");
    let good = read("examples/distilbert-spot/trainc.kdl");
    for file in ["train.py", "requirements.txt"] {
        scratch.write(&format!("scripts/{file}"), "");
    }
    let hostile = hostile_kdl();
    // Valid where any text is, and wrong everywhere else.
    scratch.write(
        "valid.kdl",
        good.replace("\"/opt/ml/checkpoints\"", &hostile)
            .replace("// A small", &format!("// {}", HOSTILE.replace('\n', " "))),
    );
    let names = [
        "\"distilbert-spot\"",
        "\"distilbert-base-uncased\"",
        "\"ml.p3.2xlarge\"",
        "\"fp32\"",
        "\"train\"",
        "\"adamw\"",
        "\"train.py\"",
        "\"./scripts\"",
        "\"us-east-1\"",
        "\"1000s\"",
        "\"none\"",
    ];
    let mut wrong = names.iter().fold(good.clone(), |text, name| text.replacen(name, &hostile, 1));
    wrong.push_str(&format!("{hostile} {hostile}={hostile}\n"));
    scratch.write("wrong.kdl", wrong);
    for (at, name) in names.iter().enumerate() {
        scratch.write(&format!("wrong{at}.kdl"), good.replacen(name, &hostile, 1));
    }
    scratch.write("layer.kdl", format!("extends {hostile}\n{good}"));
    for manifest in ["valid.kdl", "wrong.kdl", "layer.kdl"] {
        for args in commands(manifest) {
            is_safe(&args, &run(&scratch, &args));
        }
    }
    for at in 0..names.len() {
        for format in FORMATS {
            let args = ["check", &format!("wrong{at}.kdl"), "-o", format];
            is_safe(&args, &run(&scratch, &args));
        }
        let args = ["plan", "--offline", &format!("wrong{at}.kdl"), "--color", "always"];
        is_safe(&args, &run(&scratch, &args));
    }
    // The text of the user is not changed.
    let text = "job \"x\" {\n    // größer \u{200b}\t\n    region \"a\\u{1b}\"\n}\n";
    let formatted = trainc_in(&scratch.0, &["fmt", "-"], text.as_bytes(), Duration::from_mins(1));
    assert!(formatted.out.contains("größer \u{200b}"), "{}", formatted.out);
}

#[test]
fn names_of_files() {
    let scratch = Scratch::new("untrusted-names");
    let name = HOSTILE.replace('/', "");
    scratch.write(&format!("jobs/{name}.kdl"), read("examples/distilbert-spot/trainc.kdl"));
    scratch.write("jobs/other.kdl", "job \"x\" {\n}\n");
    scratch.write(&format!("jobs/scripts/{name}/.npmrc"), "_authToken=x");
    scratch.write(&format!("jobs/scripts/{name}/train.py"), "");
    for args in commands("jobs") {
        is_safe(&args, &run(&scratch, &args));
    }
    let named = format!("jobs/{name}.kdl");
    for args in commands(&named) {
        is_safe(&args, &run(&scratch, &args));
    }
    fs::create_dir_all(scratch.0.join("out")).unwrap();
    scratch.write(&format!("out/{name}"), "");
    for args in [
        &["emit", &named, "--out", "out"][..],
        &["emit", &named, "--out", "out", "--check"],
        &["fmt", "jobs"],
    ] {
        is_safe(args, &run(&scratch, args));
    }
}

/// A shell puts names of files where flags are expected: `trainc check *.kdl`.
#[test]
fn arguments() {
    let scratch = Scratch::new("untrusted-arguments");
    let hostile = HOSTILE.replace('\0', "");
    let flag = format!("--{hostile}");
    for args in [
        &["check", &flag][..],
        &["check", "--today", &hostile],
        &["check", "-o", &hostile],
        &["plan", "--price", &hostile],
        &["schema", &hostile],
        &["completions", &hostile],
        &[&hostile],
    ] {
        is_safe(args, &run(&scratch, args));
    }
}

#[test]
fn tables_of_runs() {
    let scratch = Scratch::new("untrusted-tables");
    let table = read("crates/trainc-calibrate/data/runs.csv");
    let mut rows = table.lines();
    let (head, row) = (rows.next().unwrap(), rows.next().unwrap());
    let hostile = format!("\"{}\"", HOSTILE.replace('"', ""));
    let first = |cell: &str| format!("{cell},{}", row.split_once(',').unwrap().1);
    scratch.write("ids.csv", format!("{head}\n{}\n", first(&hostile)));
    let cells = row.split(',').count();
    scratch.write("cells.csv", format!("{head}\n{}\n", vec![hostile.as_str(); cells].join(",")));
    scratch.write("head.csv", format!("{hostile},{head}\n{row}\n"));
    for table in ["ids.csv", "cells.csv", "head.csv"] {
        for format in ["human", "json"] {
            for color in ["never", "always"] {
                let args = ["calibrate", "-v", table, "-o", format, "--color", color];
                is_safe(&args, &run(&scratch, &args));
            }
        }
        let args = ["import", table];
        is_safe(&args, &run(&scratch, &args));
    }
    let text =
        serde_json::json!({"TrainingJobName": HOSTILE, HOSTILE: HOSTILE, "RoleArn": HOSTILE}).to_string();
    scratch.write("request.json", text);
    for format in ["json", "markdown"] {
        let args = ["import", "request.json", "-o", format];
        is_safe(&args, &run(&scratch, &args));
    }
}
