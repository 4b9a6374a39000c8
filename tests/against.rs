//! `plan --against`: a repository with a history, and what its bill says.

use crate::support::{Ran, Scratch, root, trainc_in};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn run(dir: &Path, args: &[&str]) -> Ran {
    trainc_in(dir, args, b"", Duration::from_mins(1))
}

#[track_caller]
fn git(dir: &Path, args: &[&str]) {
    let ran = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"])
        .args(["-c", "core.autocrlf=false", "-c", "init.defaultBranch=main"])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(ran.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// The team's repository with one commit on `main`.
fn team(name: &str) -> Scratch {
    let dir = Scratch::new(name);
    for path in crate::support::files("examples/team-repo", &[".kdl", ".py", ".txt"]) {
        let inside = path.strip_prefix("examples/team-repo/").unwrap();
        dir.write(inside, fs::read(root().join(&path)).unwrap());
    }
    git(&dir.0, &["init", "-q"]);
    git(&dir.0, &["add", "-A"]);
    git(&dir.0, &["commit", "-q", "-m", "one"]);
    dir
}

fn edit(dir: &Scratch, file: &str, old: &str, new: &str) {
    let text = fs::read_to_string(dir.0.join(file)).unwrap();
    assert!(text.contains(old), "{file}: {old}");
    dir.write(file, text.replacen(old, new, 1));
}

fn job<'a>(bill: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    bill["jobs"].as_array().unwrap().iter().find(|job| job["job"] == name).unwrap()
}

/// A change that also adds a run does not decide by which runs it is judged.
#[test]
fn the_base_revision_has_the_measured_runs() {
    let dir = team("against-runs");
    let plan = |args: &[&str]| {
        run(&dir.0, &[&["plan", "jobs/pretrain.kdl", "-o", "json"][..], args].concat()).json()
    };
    let planned = plan(&["--offline"]);
    let step = planned["speed"]["step_seconds"].as_f64().unwrap();
    let log: Vec<String> = (1..=100).map(|n| format!("step={n} step_time={}", 1.5 * step)).collect();
    dir.write("train.log", log.join("\n"));
    let added = run(&dir.0, &["report", "jobs/pretrain.kdl", "--log", "train.log", "--csv"]);
    assert_eq!(added.code, Some(0), "{}", added.err);
    assert!(plan(&["--offline"])["evidence"]["same"] == 1);
    let cost =
        |bill: &serde_json::Value, side: &str| job(bill, "pretrain")[side]["figures"]["cost_usd"].as_f64();
    let before = plan(&["--against", "main"]);
    git(&dir.0, &["add", "-A"]);
    git(&dir.0, &["commit", "-q", "-m", "two"]);
    let after = plan(&["--against", "main"]);
    for side in ["before", "after"] {
        let (was, is) = (cost(&before, side).unwrap(), cost(&after, side).unwrap());
        assert!(is > 1.2 * was, "{side}: {was} {is}");
    }
}

#[test]
fn a_revision_is_read_without_a_checkout() {
    let dir = team("against-revision");
    let nothing = run(&dir.0, &["plan", ".", "--against", "main", "--detailed-exit-code"]);
    assert_eq!(nothing.code, Some(0), "{}{}", nothing.out, nothing.err);
    assert!(nothing.out.contains("3 unchanged"), "{}", nothing.out);

    edit(&dir, "jobs/pretrain.kdl", "tokens 10_000_000_000", "tokens 5_000_000_000");
    edit(&dir, "base.kdl", "\"200 steps\"", "\"100 steps\"");
    edit(&dir, "scripts/finetune.py", "import", "# changed\nimport");
    fs::rename(dir.0.join("jobs/classify.kdl"), dir.0.join("jobs/sort.kdl")).unwrap();
    fs::copy(dir.0.join("jobs/finetune.kdl"), dir.0.join("jobs/new.kdl")).unwrap();
    edit(&dir, "jobs/new.kdl", "job \"finetune\"", "job \"fresh\"");

    let ran = run(&dir.0, &["plan", "jobs", "--against", "main", "-o", "json", "--detailed-exit-code"]);
    assert_eq!(ran.code, Some(4), "{}", ran.err);
    let bill = ran.json();
    assert_eq!(bill["against"]["commit"].as_str().unwrap().len(), 40);
    let pretrain = job(&bill, "pretrain");
    let (before, after) = (&pretrain["before"]["figures"], &pretrain["after"]["figures"]);
    // Half the tokens take about half the time, and the checkpoints that come twice as often take some of
    // it back.
    let share = after["cost_usd"].as_f64().unwrap() / before["cost_usd"].as_f64().unwrap();
    assert!((0.45..0.75).contains(&share), "{share}");
    let edits = pretrain["edits"].as_array().unwrap();
    let places: Vec<(&str, &str, &str)> = edits
        .iter()
        .map(|edit| {
            let of = |key: &str, side: &str| edit[side][key].as_str().unwrap();
            (edit["path"].as_str().unwrap(), of("file", "before"), of("file", "after"))
        })
        .collect();
    assert!(places.contains(&("train.tokens", "main:jobs/pretrain.kdl", "jobs/pretrain.kdl")), "{places:?}");
    assert!(
        places.contains(&("checkpoint.every", "main:base.kdl", "jobs/../base.kdl"))
            || places.contains(&("checkpoint.every", "main:base.kdl", "base.kdl")),
        "{places:?}"
    );
    // What an edit takes away is negative, and the two do not touch each other's place.
    let tokens = edits.iter().position(|edit| edit["path"] == "train.tokens").unwrap();
    let share =
        pretrain["shares"].as_array().unwrap().iter().find(|share| share["edits"][0] == tokens).unwrap();
    assert!(share["alone"]["cost_usd"].as_f64().unwrap() < 0.0);

    let moved = job(&bill, "classify");
    assert_eq!((&moved["state"], &moved["path"]), (&"changed".into(), &"jobs/sort.kdl".into()));
    assert_eq!(moved["before"]["path"], "main:jobs/classify.kdl");
    assert_eq!(job(&bill, "fresh")["state"], "new");
    assert_eq!(job(&bill, "finetune")["program_changed"], true);

    fs::remove_file(dir.0.join("jobs/finetune.kdl")).unwrap();
    let ran = run(&dir.0, &["plan", "jobs", "--against", "main"]);
    assert!(ran.out.contains("fresh (jobs/new.kdl)") && ran.out.contains("1 removed"), "{}", ran.out);
    let comment = run(&dir.0, &["plan", "jobs", "--against", "main", "-o", "markdown"]);
    assert!(comment.out.starts_with("<!-- trainc:bill -->\n"), "{}", comment.out);
    assert!(comment.out.contains("| finetune | removed |"), "{}", comment.out);
}

#[test]
fn a_subdirectory_and_an_environment_are_those_of_the_command() {
    let dir = team("against-below");
    edit(&dir, "jobs/pretrain.kdl", "tokens 30_000_000_000", "tokens 20_000_000_000");
    let below = dir.0.join("jobs");
    let ran = run(&below, &["plan", "pretrain.kdl", "--against", "HEAD", "--env", "prod"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("train.tokens 30_000_000_000 → 20_000_000_000"), "{}", ran.out);
    let ran = run(&below, &["plan", "pretrain.kdl", "--against", "HEAD", "--env", "dev"]);
    assert!(ran.out.contains("1 unchanged"), "{}", ran.out);
    let ran = run(&below, &["plan", "p*.kdl", "--against", "HEAD"]);
    assert!(ran.out.contains("1 unchanged"), "{}", ran.out);
}

#[test]
fn what_was_wrong_before_does_not_fail_the_command() {
    let dir = team("against-broken");
    edit(&dir, "jobs/finetune.kdl", "nodes=", "noodles=");
    git(&dir.0, &["commit", "-q", "-a", "-m", "broken"]);
    edit(&dir, "jobs/finetune.kdl", "noodles=", "nodes=");
    let ran = run(&dir.0, &["plan", "jobs/finetune.kdl", "--against", "HEAD"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("before: HEAD:jobs/finetune.kdl:"), "{}", ran.out);
    // The other way round it does.
    let ran = run(&dir.0, &["plan", "jobs/finetune.kdl", "--against", "HEAD~1"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    edit(&dir, "jobs/finetune.kdl", "nodes=", "noodles=");
    let ran = run(&dir.0, &["plan", "jobs/finetune.kdl", "--against", "HEAD~1"]);
    assert_eq!(ran.code, Some(3), "{}", ran.err);
}

#[test]
fn no_revision_is_taken_for_an_option_or_a_file_for_a_revision() {
    let dir = team("against-names");
    let plan = |against: &str| run(&dir.0, &["plan", "jobs/finetune.kdl", &format!("--against={against}")]);
    for (against, words) in [
        ("nothing", "`nothing` is neither a file nor a revision"),
        ("--output=/tmp/x", "not a valid name of a revision"),
        ("--all", "not a valid name of a revision"),
        ("", "not a valid name of a revision"),
        ("HEAD:jobs", "neither a file nor a revision"),
        ("gone.kdl", "`gone.kdl` does not exist"),
    ] {
        let ran = plan(against);
        assert_eq!(ran.code, Some(2), "{against}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(words), "{against}: {}", ran.err);
    }
    dir.write("main", "job \"a\" { }");
    assert!(plan("main").err.contains("write `./main` or `refs/heads/main`"), "{}", plan("main").err);
    assert_eq!(plan("refs/heads/main").code, Some(0));
    // A file against another, without git.
    fs::copy(dir.0.join("jobs/finetune.kdl"), dir.0.join("jobs/other.kdl")).unwrap();
    edit(&dir, "jobs/other.kdl", "micro-batch 4", "micro-batch 2");
    let ran = plan("jobs/other.kdl");
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("train.micro-batch 2 → 4"), "{}", ran.out);
    let stdin = run(&dir.0, &["plan", "-", "--against", "HEAD"]);
    assert_eq!(stdin.code, Some(2));
}

#[test]
fn a_config_of_another_content_is_an_edit() {
    let dir = Scratch::new("against-config");
    let config = fs::read_to_string(root().join("tests/fixtures/gpt2-small.json")).unwrap();
    dir.write("gpt2.json", &config);
    dir.write(
        "job.kdl",
        "job \"a\" {
    region \"us-west-2\"
    model config=\"gpt2.json\"
    cluster \"ml.p4d.24xlarge\" nodes=1 { max-run \"2h\" }
    parallel engine=\"ddp\"
    train { sequence-length 1024; micro-batch 4; steps 1000; precision \"bf16\" }
    program \"train.py\" source=\".\"
    image \"pytorch\" version=\"2.8.0\" python=\"py312\"
    output s3=\"s3://b/a/\"
    role create=#true
}
",
    );
    dir.write("train.py", "");
    git(&dir.0, &["init", "-q"]);
    git(&dir.0, &["add", "-A"]);
    git(&dir.0, &["commit", "-q", "-m", "one"]);
    let twice = config.replace("\"n_layer\": 12", "\"n_layer\": 24");
    assert_ne!(twice, config);
    dir.write("gpt2.json", twice);
    let ran = run(&dir.0, &["plan", "job.kdl", "--against", "HEAD", "-o", "json"]);
    let bill = ran.json();
    let job = job(&bill, "a");
    assert_eq!(job["edits"][0]["path"], "model.config", "{}", ran.out);
    let alone = job["shares"][0]["alone"]["step_seconds"].as_f64().unwrap();
    let whole = job["difference"]["step_seconds"].as_f64().unwrap();
    assert!(alone > 0.0 && (alone - whole).abs() < 1e-9, "{alone} {whole}");
}

/// `--set` is laid over the new side: its bill is what the value does. Dollars are no formula of a comment.
#[test]
fn a_value_of_the_command_line_is_part_of_the_change() {
    let dir = team("against-set");
    let asked = ["plan", "jobs/pretrain.kdl", "--against", "HEAD", "--set", "cluster.nodes=4", "-o"];
    let bill = run(&dir.0, &[&asked[..], &["json"]].concat()).json();
    let job = job(&bill, "pretrain");
    assert_eq!(job["edits"][0]["path"], "cluster.nodes", "{job}");
    assert!(job["difference"]["seconds"].as_f64().unwrap() < 0.0, "{job}");
    let text = run(&dir.0, &[&asked[..], &["markdown"]].concat()).out;
    let bare = text.match_indices('$').filter(|(at, _)| !text[..*at].ends_with('\\')).count();
    assert!(text.contains("\\$") && bare == 0, "{text}");
}
