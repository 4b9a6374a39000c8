//! What the guides in `docs/` and `skills/` claim to list or to quote is what the program has.

use crate::support::{Scratch, files, read, root, sources, trainc_in};
use regex::Regex;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;
use trainc_diag::{FoundIn, Status};

/// Every link of every page leads to a file and a heading, and every page is in the table of contents.
#[test]
fn links_lead_somewhere() {
    let scratch = Scratch::new("site");
    let script = root().join("docs/site.py");
    let out = Command::new("python3").arg(script).arg(scratch.0.join("source")).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(scratch.0.join("source/docs/engines.md").is_file());
}

#[test]
fn the_page_of_the_environment_has_every_variable_and_exit_code() {
    let page = read("docs/environment.md");
    let variable = Regex::new(r"\bTRAINC_[A-Z_]+\b").unwrap();
    let read_by_programs = sources()
        .into_iter()
        .chain(files("crates/trainc-worker/src", &[".rs"]))
        // Faults are injected in debug builds alone.
        .filter(|path| !path.ends_with("fault_injection.rs"))
        .chain(files("templates", &[".py", ".j2"]));
    let mut seen = 0;
    for path in read_by_programs {
        for found in variable.find_iter(&read(&path)) {
            seen += 1;
            assert!(
                page.contains(&format!("`{}`", found.as_str())),
                "{path}: {} is not on the page",
                found.as_str()
            );
        }
    }
    assert!(seen > 10, "{seen}");
    let code = Regex::new(r"(?m)^pub\(crate\) const \w+: u8 = (\d);").unwrap();
    for found in code.captures_iter(&read("src/exit.rs")) {
        assert!(page.contains(&format!("\n| {} |", &found[1])), "exit code {} is not on the page", &found[1]);
    }
}

#[test]
fn the_page_of_troubleshooting_has_every_problem_of_an_account() {
    let page = read("docs/troubleshooting.md");
    let of_account = trainc::codes()
        .iter()
        .filter(|code| code.found_in == FoundIn::Account && code.status == Status::Active);
    let missing: Vec<&str> =
        of_account.map(|code| code.id).filter(|id| !page.contains(&format!("[{id}]"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The page on accuracy quotes the page on the measured runs, whose figures are tested.
#[test]
fn the_page_of_accuracy_quotes_measured_errors() {
    let measured = read("crates/trainc-calibrate/data/README.md");
    let percentage = Regex::new(r"\d[\d.]* %").unwrap();
    let page = read("docs/accuracy.md");
    let quoted: Vec<&str> = percentage.find_iter(&page).map(|found| found.as_str()).collect();
    assert!(quoted.len() > 8, "{quoted:?}");
    for figure in quoted {
        assert!(measured.contains(figure), "{figure} is not on the page of the measured runs");
    }
}

/// The members of plan.json that assistants are told to read exist.
#[test]
fn the_skill_names_members_of_the_plan() {
    let manifest = "examples/qwen3-8b-fsdp2/trainc.kdl";
    let arguments = ["plan", "-q", "--offline", manifest, "-o", "json"];
    let plan: Value =
        serde_json::from_str(&trainc_in(root(), &arguments, b"", Duration::from_mins(2)).out).unwrap();
    let skill = read("skills/trainc/SKILL.md");
    let table = skill.split("| question | members |").nth(1).unwrap().split("\n\n").next().unwrap();
    let member = Regex::new(r"`([a-z_.]+)`").unwrap();
    let mut seen = 0;
    for found in member.captures_iter(table) {
        let pointer = format!("/{}", found[1].replace('.', "/"));
        assert!(plan.pointer(&pointer).is_some(), "plan.json has no `{}`", &found[1]);
        seen += 1;
    }
    assert!(seen > 15, "{seen}");
}
