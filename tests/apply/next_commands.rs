//! What is to be typed next: the manifest and every flag that led there, and what must be done first.

use super::commands::Repo;
use serde_json::json;

const PATH: &str = "starter/trainc.kdl";
const SET: [&str; 2] = ["--set", "train.seed=8"];
/// What follows every command of these tests.
const AGAIN: &str = "starter/trainc.kdl --set train.seed=8 --simulate=account.json";

fn with(command: &str, more: &[&'static str]) -> Vec<String> {
    let words = [command, PATH].into_iter().chain(SET).chain(more.iter().copied());
    words.map(str::to_owned).collect()
}

/// Runs a command with the flags; its exit code, and all that it wrote on one line.
#[track_caller]
fn said(repo: &Repo, command: &str, more: &[&'static str], code: i32) -> String {
    let words = with(command, more);
    let ran = repo.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(ran.code, Some(code), "{}{}", ran.out, ran.err);
    format!("{} {}", ran.out, ran.err).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn has(text: &str, words: &str) {
    assert!(text.contains(words), "`{words}` in: {text}");
}

#[test]
fn a_help_keeps_the_flags_that_led_to_it() {
    let repo = Repo::new("typed-flags", &["starter"]);
    has(&said(&repo, "status", &[], 4), &format!("start one with `trainc apply {AGAIN}`"));
    said(&repo, "apply", &["--yes"], 0);
    repo.edit(PATH, "steps 1000", "steps 1001");
    has(&said(&repo, "apply", &["--yes"], 4), &format!("which `trainc stop {AGAIN} --run NAME` ends"));
    said(&repo, "apply", &["--yes", "--new-run"], 0);
    let names: Vec<String> = repo.account()["jobs"].as_object().unwrap().keys().cloned().collect();
    let shown = said(&repo, "status", &[], 0);
    assert!(names.iter().any(|name| shown.contains(&format!("trainc stop {AGAIN} --run {name}"))), "{shown}");
    let which = said(&repo, "stop", &["--yes"], 2);
    assert!(names.iter().all(|name| which.contains(&format!("trainc stop {AGAIN} --run {name}"))), "{which}");
}

#[test]
fn the_end_of_a_run_says_the_next_command_whole() {
    let repo = Repo::new("typed-ends", &["starter"]);
    repo.0.write("account.json", r#"{"outcome": "user-code"}"#);
    said(&repo, "apply", &["--yes"], 0);
    let watched = said(&repo, "watch", &[], 8);
    has(&watched, &format!("then trainc apply {AGAIN} --new-run"));
    let told = said(&repo, "watch", &["-o", "json"], 8);
    has(&told, &format!("then trainc apply {AGAIN} --new-run"));
    // Once stopped, from the apply as well.
    let waited = said(&repo, "apply", &["--yes", "--wait"], 8);
    has(&waited, &format!("then trainc apply {AGAIN} --new-run"));
}

/// What is in the way is said before the plan that is asked for again.
#[test]
fn a_blocked_plan_says_what_must_be_done_first() {
    let repo = Repo::new("typed-blocked", &["starter"]);
    repo.0.write("account.json", r#"{"missing_buckets": ["example-runs"]}"#);
    let words = with("plan", &[]);
    let ran = repo.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(ran.code, Some(3), "{}{}", ran.out, ran.err);
    let line =
        |label: &str| ran.out.lines().find(|line| line.trim_start().starts_with(label)).unwrap().trim();
    assert!(line("blocked").contains("exit code 3: T0628"), "{}", ran.out);
    assert!(line("first").ends_with("aws s3 mb s3://example-runs --region us-west-2"), "{}", ran.out);
    assert!(line("next").ends_with(&format!("trainc plan {AGAIN}")), "{}", ran.out);
}

/// A run that goes on without its data: every command says so, and none says to watch it.
#[test]
fn a_run_without_its_file_system_is_not_followed() {
    let repo = Repo::new("typed-lost", &["llama-7b-fsdp"]);
    let path = "llama-7b-fsdp/trainc.kdl";
    assert_eq!(repo.run(&["apply", path, "--yes"]).code, Some(0));
    let before = repo.run(&["status", path, "-o", "json"]).json();
    assert_eq!(before["lost_file_systems"], json!([]));
    let mut account = repo.account();
    let id = account["file_systems"].as_object().unwrap().keys().next().unwrap().clone();
    let name = account["jobs"].as_object().unwrap().keys().next().unwrap().clone();
    account["file_systems"] = json!({});
    account["associations"] = json!({});
    repo.0.write("account.json", account.to_string());
    let end = format!("trainc stop {path} --simulate=account.json --run {name}");
    let status = repo.run(&["status", path]);
    assert!(
        status.out.contains(&format!("continues without `{id}`")) && status.out.contains(&end),
        "{}",
        status.out
    );
    assert_eq!(repo.run(&["status", path, "-o", "json"]).json()["lost_file_systems"], json!([id]));
    let planned = repo.run(&["plan", path]);
    assert!(
        planned.out.contains(&format!("trainc stop {path} --run {name} --simulate=account.json")),
        "{}",
        planned.out
    );
    assert!(!planned.out.contains("trainc watch"), "{}", planned.out);
    let applied = repo.run(&["apply", path, "--yes"]);
    assert!(applied.out.contains(&format!("next  {end}")), "{}{}", applied.out, applied.err);
    assert_eq!(repo.run(&["stop", path, "--run", &name]).code, Some(0));
    assert!(!repo.run(&["status", path]).out.contains("continues without"));
}

/// What dollars are held against is what was planned: every command takes what prices and predicts a run, and every command
/// that is printed keeps it.
#[test]
fn what_a_run_is_held_against_is_what_was_planned() {
    let repo = Repo::new("typed-dollars", &["starter"]);
    repo.0.write("own.toml", crate::support::read("crates/trainc-predict/src/constants.toml"));
    let flags = ["--price", "ml.g5.12xlarge=9.99", "--discount", "0.25", "--calibration", "own.toml"];
    let again = format!("{PATH} {} --simulate=account.json", flags.join(" "));
    let run = |command: &str, more: &[&str]| {
        let words: Vec<&str> = [command, PATH].iter().chain(&flags).chain(more).copied().collect();
        repo.run(&words)
    };
    let planned = run("plan", &[]);
    assert!(planned.out.contains(&format!("trainc apply {again}")), "{}{}", planned.out, planned.err);
    let hourly = run("plan", &["-o", "json"]).json()["price"]["usd_per_hour"].as_f64().unwrap();
    assert!((hourly - 9.99 * 0.75).abs() < 1e-9, "{hourly}");
    let applied = run("apply", &["--yes", "--wait-for-capacity", "4h"]);
    assert!(applied.out.contains(&format!("next  trainc watch {again}\n")), "{}{}", applied.out, applied.err);
    let followed = run("plan", &[]);
    assert!(followed.out.contains(&format!("trainc watch {again}")), "{}", followed.out);
    assert_eq!(run("watch", &[]).code, Some(0));
    let status = run("status", &["-o", "json"]).json();
    let hours = status["planned_seconds"].as_f64().unwrap() / 3_600.0;
    assert!((status["planned_usd"].as_f64().unwrap() - hourly * hours).abs() < 0.01, "{status:#}");
    let plain = repo.run(&["status", PATH, "-o", "json"]).json();
    assert!(plain["planned_usd"].as_f64().unwrap() < status["planned_usd"].as_f64().unwrap(), "{plain:#}");
    for command in ["logs", "stop", "report", "destroy"] {
        let ran = run(command, &[]);
        assert_eq!(ran.code, Some(0), "{command}: {}{}", ran.out, ran.err);
    }
}

/// How long is waited for machines, and what else apply was told, is told again with it.
#[test]
fn apply_says_itself_again_with_all_its_flags() {
    let repo = Repo::new("typed-apply", &["starter"]);
    repo.0.write("account.json", r#"{"outcome": "user-code"}"#);
    let more = ["--yes", "--wait", "--wait-for-capacity", "4h"];
    let ended = said(&repo, "apply", &more, 8);
    has(&ended, &format!("then trainc apply {AGAIN} --new-run --wait-for-capacity 4h --wait --yes"));
    // An account that is forgotten is only seen by the command that made it.
    let words = with("apply", &["--wait-for-capacity", "4h", "--simulate"]);
    let ran = repo.run_plain(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let next = "starter/trainc.kdl --set train.seed=8 --simulate --wait-for-capacity 4h --wait";
    assert!(ran.out.contains(&format!("next  trainc apply {next}\n")), "{}{}", ran.out, ran.err);
}

/// Whose a file system is that only its token leads to, no plan shows without `--adopt`: the next command has it.
#[test]
fn what_a_plan_would_not_show_is_asked_for_with_its_flag() {
    let repo = Repo::new("typed-adopt", &["llama-7b-fsdp"]);
    let path = "llama-7b-fsdp/trainc.kdl";
    assert_eq!(repo.run(&["apply", path, "--yes"]).code, Some(0));
    let mut account = repo.account();
    for system in account["file_systems"].as_object_mut().unwrap().values_mut() {
        system["system"]["tags"] = json!({});
    }
    account["jobs"] = json!({});
    repo.0.write("account.json", account.to_string());
    let refused = repo.run(&["apply", path, "--yes"]);
    assert_eq!(refused.code, Some(7), "{}{}", refused.out, refused.err);
    let plan = format!("trainc plan {path} --simulate=account.json --adopt");
    assert!(refused.out.contains(&format!("next  {plan}\n")), "{}", refused.out);
    let planned = repo.run(&["plan", path, "--adopt"]);
    let told = repo.run(&["plan", path, "--adopt", "-o", "json"]).json()["resources"].to_string();
    assert!(told.contains("`--adopt` adopts one that the same request created earlier"), "{told}");
    assert!(
        planned.out.contains(&format!("trainc apply {path} --adopt --simulate=account.json")),
        "{}",
        planned.out
    );
    let taken = repo.run(&["apply", path, "--adopt", "--yes"]);
    assert_eq!(taken.code, Some(0), "{}{}", taken.out, taken.err);
    assert_eq!(repo.account()["file_systems"].as_object().unwrap().len(), 1);
}

/// What stays for its data is billed: the end says so, with the command that takes it.
#[test]
fn what_stays_for_its_data_is_said_at_the_end() {
    let repo = Repo::new("typed-stays", &["llama-7b-fsdp", "starter"]);
    let path = "llama-7b-fsdp/trainc.kdl";
    assert_eq!(repo.run(&["apply", path, "--yes"]).code, Some(0));
    let id = repo.account()["file_systems"].as_object().unwrap().keys().next().unwrap().clone();
    let stays = format!("`{id}` remains with its data, at $");
    let next = format!("\n  next  trainc destroy {path} --simulate=account.json --delete-data\n");
    for end in ["deleted\n", "it contains data"] {
        let ran = repo.run(&["destroy", path, "--yes"]);
        assert!([end, &stays, &next].iter().all(|text| ran.out.contains(text)), "{}{}", ran.out, ran.err);
    }
    let gone = repo.run(&["destroy", path, "--yes", "--delete-data"]);
    assert!(gone.out.contains("deleted\n") && !gone.out.contains("  next  "), "{}", gone.out);
    assert_eq!(repo.run(&["apply", PATH, "--yes"]).code, Some(0));
    assert!(!repo.run(&["destroy", PATH, "--yes"]).out.contains("  next  "));
}
