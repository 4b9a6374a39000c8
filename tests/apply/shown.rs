//! What a run is shown with: whose it is, and what it has cost by now.

use super::commands::Repo;
use serde_json::{Value, json};

const PATH: &str = "starter/trainc.kdl";

/// All that `watch` tells of a run, as objects.
fn watched(repo: &Repo, code: i32) -> Vec<Value> {
    let ran = repo.run(&["watch", PATH, "-o", "json"]);
    assert_eq!(ran.code, Some(code), "{}{}", ran.out, ran.err);
    ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// One rule from the first moment to the bill: what is said so far never falls, and its last figure is the service's.
#[test]
fn dollars_so_far_grow_into_the_bill() {
    let plan = Repo::new("shown-dollars", &["starter"]).run(&["plan", PATH, "-o", "json"]).json();
    // The account in memory downloads for three minutes, trains as long as the plan says, and uploads for forty seconds.
    let trained = plan["run"]["steps"].as_f64().unwrap() * plan["speed"]["step_seconds"].as_f64().unwrap();
    assert!(trained > 3_600.0, "{trained}");
    let cases = [
        ("completes", 0, 180.0 + trained + 40.0),
        ("user-code", 8, 180.0 + trained / 6.0),
        ("permission", 8, 20.0),
        ("no-capacity", 8, 0.0),
    ];
    for (outcome, code, billed) in cases {
        let repo = Repo::new(&format!("shown-dollars-{outcome}"), &["starter"]);
        let ended = match outcome {
            "no-capacity" => "it never ran: ended ",
            "completes" => " completed in ",
            _ => "it ended ",
        };
        repo.0.write("account.json", json!({"outcome": outcome}).to_string());
        assert_eq!(repo.run(&["apply", PATH, "--yes"]).code, Some(0));
        let told = watched(&repo, code);
        let said = repo.run(&["watch", PATH]).out;
        assert!(said.contains(ended), "{outcome}: {said}");
        let states: Vec<&Value> = told.iter().filter(|one| one["type"] == "status").collect();
        let usd: Vec<f64> = states.iter().map(|one| one["status"]["cost_usd"].as_f64().unwrap()).collect();
        assert!(usd.is_sorted() && usd[0] == 0.0 && usd.len() > 4, "{outcome}: {usd:?}");
        let last = &states.last().unwrap()["status"];
        let seconds = last["billable_seconds"].as_f64().unwrap();
        assert!(seconds <= billed && billed < seconds + 1.0, "{outcome}: {seconds} of {billed}");
        let before = &states[states.len() - 2]["status"];
        assert!(before["billable_seconds"].is_null(), "{outcome}: {before:#}");
        let minute =
            repo.run(&["plan", PATH, "-o", "json"]).json()["price"]["usd_per_hour"].as_f64().unwrap() / 60.0;
        assert!(usd[usd.len() - 1] - usd[usd.len() - 2] < minute, "{outcome}: the bill jumps, {usd:?}");
    }
}

/// Watched side by side, too, though the logs of one are read while the clock of all goes on.
#[test]
fn dollars_of_jobs_side_by_side_never_fall() {
    let repo = Repo::new("shown-beside", &["starter", "neox-20b-fsdp", "gptj-6b-tensor"]);
    let paths = [PATH, "neox-20b-fsdp/trainc.kdl", "gptj-6b-tensor/trainc.kdl"];
    let all = |command: &'static str, more: &[&'static str]| {
        repo.run(&[command].into_iter().chain(paths).chain(more.iter().copied()).collect::<Vec<_>>())
    };
    assert_eq!(all("apply", &["--yes"]).code, Some(0));
    let ran = all("watch", &["-o", "json"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let mut last = std::collections::BTreeMap::new();
    for line in ran.out.lines() {
        let one: Value = serde_json::from_str(line).unwrap();
        let Some(usd) = one["status"]["cost_usd"].as_f64() else { continue };
        let before = last.insert(one["job"].to_string(), usd).unwrap_or(0.0);
        assert!(usd >= before, "{before} and then {one:#}");
    }
    assert_eq!(last.len(), 3, "{last:?}");
}

/// A spot run is billed for less than it takes: what is said so far is an upper bound, and says so.
#[test]
fn dollars_of_a_spot_run_are_an_upper_bound() {
    let repo = Repo::new("shown-spot", &["distilbert-spot"]);
    let path = "distilbert-spot/trainc.kdl";
    assert_eq!(repo.run(&["apply", path, "--yes"]).code, Some(0));
    let ran = repo.run(&["watch", path, "-o", "json"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let told: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let states = told.iter().filter(|one| one["type"] == "status").map(|one| &one["status"]);
    for one in states {
        assert_eq!(one["cost_is_upper_bound"], one["billable_seconds"].is_null(), "{one:#}");
    }
}

/// A training job that only has our name: every command that shows it says that trainc did not make it.
#[test]
fn a_job_that_is_not_ours_is_said_to_be_none() {
    let repo = Repo::new("shown-foreign", &["starter"]);
    assert_eq!(repo.run(&["apply", PATH, "--yes"]).code, Some(0));
    let mine = repo.run(&["status", PATH, "-o", "json"]).json();
    assert_eq!(mine["is_ours"], true);
    let mut account = repo.account();
    for job in account["jobs"].as_object_mut().unwrap().values_mut() {
        job["tags"] = json!({});
    }
    repo.0.write("account.json", account.to_string());
    let words = "belongs to no trainc job: it has no tag `trainc:job`";
    let take = format!("trainc apply {PATH} --simulate=account.json --adopt");
    for command in ["status", "logs", "report"] {
        let ran = repo.run(&[command, PATH]);
        let said = ran.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(ran.code, Some(0), "{command}: {}{}", ran.out, ran.err);
        assert!(said.contains("warning[T0605]") && said.contains(words), "{command}: {said}");
        assert!(said.contains(&take), "{command}: {said}");
    }
    assert!(repo.run(&["status", PATH]).out.contains("(not created by trainc for this job): InProgress"));
    let status = repo.run(&["status", PATH, "-o", "json"]).json();
    assert_eq!((&status["is_ours"], &status["planned_usd"]), (&json!(false), &Value::Null));
    let table = repo.run(&["report", PATH, "--csv", "runs.csv"]);
    assert_eq!(table.code, Some(7), "{}{}", table.out, table.err);
    assert!(!repo.0.0.join("runs.csv").exists());
    let told = watched(&repo, 0);
    let problem = told.iter().find(|one| one["type"] == "problem").unwrap();
    assert_eq!(
        (&problem["problem"]["code"], &problem["problem"]["severity"]),
        (&json!("T0605"), &json!("warning"))
    );
    assert!(problem["problem"]["message"].as_str().unwrap().contains(words), "{problem:#}");
}

/// A saved plan that apply would refuse is no surprise for whoever applies it: standard error and the document say so.
#[test]
fn a_saved_plan_that_apply_refuses_says_so() {
    let repo = Repo::new("shown-refused", &["starter"]);
    assert_eq!(repo.run(&["apply", PATH, "--yes"]).code, Some(0));
    repo.edit(PATH, "steps 1000", "steps 1001");
    let next = format!("trainc plan {PATH} --new-run --save job.plan --simulate=account.json");
    let words = "apply would be refused with exit code 4: T0606";
    let saved = repo.run(&["plan", PATH, "--save", "job.plan"]);
    assert_eq!(saved.code, Some(0), "{}{}", saved.out, saved.err);
    assert!(saved.err.contains(&format!("warning: `job.plan` is saved, but {words}\n")), "{}", saved.err);
    assert!(saved.out.contains(&next), "{}", saved.out);
    assert_eq!(repo.run(&["apply", "job.plan"]).code, Some(4));
    let json = repo.run(&["plan", PATH, "--save", "job.plan", "-o", "json"]);
    assert!(json.err.contains(words) && json.err.contains(&next), "{}", json.err);
    assert_eq!(json.json()["blocked"], json!({"exit": 4, "codes": ["T0606"]}));
    let comment = repo.run(&["plan", PATH, "-o", "markdown"]);
    assert!(comment.out.contains(words), "{}", comment.out);
    let free = repo.run(&["plan", PATH, "--new-run", "--save", "job.plan", "-o", "json"]);
    assert!(!free.err.contains("refused") && free.json()["blocked"].is_null(), "{}", free.err);
    // What must be mended first is no plan, and no older one is taken for it unsaid.
    let mut account = repo.account();
    account["missing_buckets"] = json!(["example-runs"]);
    repo.0.write("account.json", account.to_string());
    let wrong = repo.run(&["plan", PATH, "--new-run", "--save", "other.plan"]);
    assert_eq!(wrong.code, Some(3), "{}{}", wrong.out, wrong.err);
    assert!(wrong.err.contains("error: `other.plan` is not saved"), "{}", wrong.err);
    assert!(!repo.0.0.join("other.plan").exists());
}

/// What a manifest's expressions look for, its program prints: the figures of `watch` and `status`, of every example whose
/// script stands beside it, but for those whose expressions are AWS's own.
#[test]
fn the_examples_print_what_their_metrics_read() {
    let metric = regex::Regex::new(r#"metric "([^"]+)" regex="((?:[^"\\]|\\.)+)""#).unwrap();
    let program = regex::Regex::new(r#"program "([^"]+)" source="([^"]+)""#).unwrap();
    let figure = regex::Regex::new(r"\{[^{}]+\}").unwrap();
    let mut words = std::collections::BTreeSet::new();
    for path in crate::support::files("examples", &[".kdl"]) {
        let text = crate::support::read(&path);
        let Some(found) = program.captures(&text) else { continue };
        let script = crate::support::root().join(&path).parent().unwrap().join(&found[2]).join(&found[1]);
        let Ok(script) = std::fs::read_to_string(script) else { continue };
        let printed: Vec<String> = script
            .lines()
            .filter(|line| line.contains("print(f\""))
            .map(|line| figure.replace_all(line, "0.5").into_owned())
            .collect();
        for found in metric.captures_iter(&text).filter(|found| !found[2].starts_with("<>")) {
            let read = regex::Regex::new(&found[2].replace("\\\\", "\\")).unwrap();
            let is_printed =
                printed.iter().any(|line| read.captures(line).is_some_and(|one| &one[1] == "0.5"));
            // The Trainer of transformers prints a dictionary of its own.
            assert!(is_printed || found[2].contains("'loss'"), "{path}: {} is nowhere printed", &found[1]);
            words.insert(found[1].to_owned());
        }
    }
    for word in ["train:loss", "train:tokens_per_s", "train:mfu"] {
        assert!(words.contains(word), "{words:?}");
    }
}
