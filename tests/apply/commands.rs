//! The commands themselves, against an account in memory that is kept in a file.

use crate::support::{Ran, Scratch, one_line, read, root, trainc_in};
use serde_json::Value;
use std::fs;
use std::time::Duration;

/// A repository with examples, and an account beside it.
pub(super) struct Repo(pub(super) Scratch);

impl Repo {
    pub(super) fn new(name: &str, examples: &[&str]) -> Self {
        let scratch = Scratch::new(name);
        scratch.write(".git/HEAD", "");
        for example in examples {
            let dir = root().join("examples").join(example);
            scratch.write(&format!("{example}/trainc.kdl"), fs::read(dir.join("trainc.kdl")).unwrap());
            for entry in fs::read_dir(dir.join("scripts")).unwrap().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                scratch.write(&format!("{example}/scripts/{name}"), fs::read(entry.path()).unwrap());
            }
        }
        Self(scratch)
    }

    pub(super) fn run(&self, args: &[&str]) -> Ran {
        let mut all = args.to_vec();
        all.push("--simulate=account.json");
        self.run_plain(&all)
    }

    /// Runs a command. What it prints as the next one is one that trainc takes, whatever test it is.
    pub(super) fn run_plain(&self, args: &[&str]) -> Ran {
        let ran = trainc_in(&self.0.0, args, b"", Duration::from_mins(1));
        for line in ran.out.lines().chain(ran.err.lines()) {
            let Some(command) = line.trim_start().strip_prefix("next ") else { continue };
            // Some say behind the command what it does.
            let command = command.trim_start().split(": ").next().unwrap();
            let Some(rest) = command.strip_prefix("trainc ") else { panic!("no command: {line}") };
            let mut words = crate::consoles::words(rest);
            words.push("--help".to_owned());
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let taken = trainc_in(&self.0.0, &words, b"", Duration::from_mins(1));
            assert_eq!(taken.code, Some(0), "`{line}`: {}", taken.err);
        }
        ran
    }

    pub(super) fn account(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.0.0.join("account.json")).unwrap()).unwrap()
    }

    pub(super) fn edit(&self, manifest: &str, from: &str, to: &str) {
        let path = self.0.0.join(manifest);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from));
        fs::write(path, text.replace(from, to)).unwrap();
    }
}

fn lines(ran: &Ran) -> Vec<Value> {
    ran.out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

const LLAMA: &str = "llama-7b-fsdp/trainc.kdl";

#[test]
fn a_job_from_plan_to_nothing_left() {
    let repo = Repo::new("apply-life", &["llama-7b-fsdp"]);
    let plan = repo.run(&["plan", LLAMA, "-o", "json", "--detailed-exit-code"]);
    assert_eq!(plan.code, Some(4), "{}", plan.err);
    let plan = plan.json();
    assert_eq!(plan["changes"], true);
    assert_eq!(plan["compared_with"], "111122223333");
    assert!(plan["resources"].as_array().unwrap().iter().all(|one| one["action"] == "create"), "{plan:#}");
    let applied = repo.run(&["apply", LLAMA, "--yes"]);
    assert_eq!(applied.code, Some(0), "{}{}", applied.out, applied.err);
    let again = repo.run(&["plan", LLAMA, "-o", "json", "--detailed-exit-code"]);
    assert_eq!(again.code, Some(0), "{}", again.out);
    assert_eq!(again.json()["changes"], false);
    let second = repo.run(&["apply", LLAMA, "--yes"]);
    assert!(second.out.contains("nothing to do: llama-7b-fsdp-"), "{}", second.out);
    let next = |words: &str| {
        let plan = repo.run(&["plan", LLAMA]);
        assert!(plan.out.contains(words), "{words}: {}", plan.out);
    };
    next("trainc watch llama-7b-fsdp/trainc.kdl --simulate=account.json");
    let status = repo.run(&["status", LLAMA, "-o", "json"]).json();
    assert_eq!(status["status"], "InProgress");
    assert_eq!(status["cost_is_upper_bound"], true, "spot is billed for less");
    let watched = repo.run(&["watch", LLAMA, "-o", "json"]);
    assert_eq!(watched.code, Some(0));
    let told = lines(&watched);
    assert_eq!(told[0], serde_json::json!({"type": "version", "format": "1.0"}));
    assert!(told.iter().any(|one| one.pointer("/status/progressPercentage").is_some_and(Value::is_number)));
    assert_eq!(told.last().unwrap()["status"], "Completed");
    next("trainc apply llama-7b-fsdp/trainc.kdl --new-run --simulate=account.json");
    let logs = repo.run(&["logs", LLAMA, "--host", "algo-3"]);
    assert!(logs.out.contains("loss=") && !logs.out.contains("algo-1 of"), "{}", logs.out);
    let kept = repo.run(&["destroy", LLAMA, "--yes"]);
    assert_eq!(kept.code, Some(0), "{}", kept.err);
    assert_eq!(repo.account()["file_systems"].as_object().unwrap().len(), 1);
    let gone = repo.run(&["destroy", LLAMA, "--yes", "--delete-data"]);
    assert_eq!(gone.code, Some(0), "{}", gone.err);
    let account = repo.account();
    for kind in ["roles", "file_systems", "associations", "objects"] {
        assert!(account[kind].as_object().unwrap().is_empty(), "{kind}: {}", account[kind]);
    }
    let nothing = repo.run(&["destroy", LLAMA, "--yes", "--delete-data"]);
    assert!(nothing.err.contains("nothing to delete"), "{}", nothing.err);
}

/// Dollars and tokens per second stand beside what the plan of the same manifest says of them.
#[test]
fn a_run_is_shown_against_its_plan() {
    let repo = Repo::new("apply-planned", &["starter"]);
    let path = "starter/trainc.kdl";
    let plan = repo.run(&["plan", path, "-o", "json"]).json();
    let usd = plan["run"]["cost_usd"].as_f64().unwrap();
    let rate = plan["speed"]["tokens_per_second"].as_f64().unwrap();
    assert_eq!(repo.run(&["apply", path, "--yes"]).code, Some(0));
    let status = repo.run(&["status", path, "-o", "json"]).json();
    let said = status["planned_usd"].as_f64().unwrap();
    assert!((said - usd).abs() <= 0.005, "{said} against {usd}");
    assert_eq!(status["planned_tokens_per_second"].as_f64(), Some(rate.round()));
    assert_eq!(status["planned_seconds"].as_f64(), plan["run"]["seconds"].as_f64().map(f64::floor));
    let watched = repo.run(&["watch", path]);
    let expected = format!("cost: expected ${usd:.2} ");
    let told = one_line(&format!("{}{}", watched.out, watched.err));
    // What holds for all lines is said once, before them.
    for once in [expected.as_str(), " simulated: nothing is billed "] {
        assert_eq!(told.matches(once).count(), 1, "{once}: {told}");
    }
    assert!(told.contains(" so far "), "{told}");
    let ended = told.split_once(" Completed, ").unwrap().1;
    assert!(!ended.contains(" so far"), "{ended}");
    let shown = repo.run(&["status", path]);
    let first = shown.out.lines().next().unwrap_or_default();
    assert!(first.ends_with(": Completed"), "one word, which is the state and its detail: {first}");
    let told = one_line(&shown.out);
    let grouped = trainc_diag::text::group_digits(Duration::from_secs_f64(rate.round()).as_secs());
    assert!(told.contains(&format!(" of {grouped} planned mfu ")), "{told}");
    // All four words of the trade, by the expressions of the starter's own manifest, and in what a script
    // reads.
    for (word, value) in [("step", "1,000"), ("loss", "2.2539")] {
        assert!(
            shown.out.lines().any(|line| line.split_whitespace().eq([word, value])),
            "{word}: {}",
            shown.out
        );
    }
    let metrics = repo.run(&["status", path, "-o", "json"]).json()["metrics"].clone();
    // The run in memory goes as it was planned, but for a little.
    let close = |word: &str, planned: f64| {
        let said = metrics[word].as_f64().unwrap();
        assert!((said / planned - 1.0).abs() < 0.02, "{word}: {said} of {planned}");
    };
    close("tokens/s", rate);
    close("mfu", plan["speed"]["mfu"].as_f64().unwrap());
    let mfu = format!("{:.1}", 100.0 * metrics["mfu"].as_f64().unwrap());
    assert!(told.contains(&format!(" mfu {}% ", mfu.trim_end_matches(".0"))), "{told}");
    let trained = plan["run"]["steps"].as_f64().unwrap() * plan["speed"]["step_seconds"].as_f64().unwrap();
    let transitions = status["transitions"].clone();
    assert_eq!(transitions[0]["status"], "Starting", "{transitions}");
    let ended = repo.run(&["status", path, "-o", "json"]).json()["transitions"].clone();
    let training = ended.as_array().unwrap().iter().find(|one| one["status"] == "Training").unwrap();
    let lasted = training["end"].as_f64().unwrap() - training["start"].as_f64().unwrap();
    assert!((lasted - trained).abs() < 0.01, "{lasted} of {trained}");
    // A run of something else is not held against what the manifest says now.
    repo.edit(path, "steps 1000", "steps 2000");
    let other = repo.run(&["status", path, "-o", "json"]).json();
    assert!(other["planned_usd"].is_null() && other["planned_tokens_per_second"].is_null(), "{other}");
    assert!(other["most_usd"].is_number());
}

/// The expected cost, the most, and the price with its date are the same text on every screen, with the
/// file system.
#[test]
fn every_screen_has_the_costs_of_the_plan() {
    let repo = Repo::new("apply-costs", &["llama-7b-fsdp"]);
    let shown = |arguments: &[&str]| {
        let done = repo.run(arguments);
        one_line(&format!("{}{}", done.out, done.err))
    };
    let plan = shown(&["plan", LLAMA]);
    let costs = plan.split_once(" cost expected").unwrap().1.split_once(" after ").unwrap().0.to_owned();
    for part in [" $", "at most $", "incl. file system", "(price of 20"] {
        assert!(costs.contains(part), "{part}: {costs}");
    }
    for arguments in [
        &["apply", LLAMA, "--yes"][..],
        &["status", LLAMA],
        &["watch", LLAMA],
        &["status", LLAMA],
        &["report", LLAMA],
    ] {
        let text = shown(arguments);
        assert!(text.contains(&costs), "{arguments:?}: {text}\n{costs}");
    }
    let plan = repo.run(&["plan", LLAMA, "-o", "json"]).json();
    let run = &plan["run"];
    let status = repo.run(&["status", LLAMA, "-o", "json"]).json();
    let close = |a: &serde_json::Value, b: &serde_json::Value| {
        assert!((a.as_f64().unwrap() - b.as_f64().unwrap()).abs() <= 0.005, "{a} {b}");
    };
    close(&status["planned_on_demand_usd"], &run["on_demand_usd"]);
    close(&status["most_usd"], &run["most_usd"]);
    let report = repo.run(&["report", LLAMA, "-o", "json"]).json();
    for member in ["on_demand_usd", "on_demand_usd_interval", "most_usd"] {
        assert_eq!(report["run"][member], run[member]);
    }
    for (member, value) in report["price"].as_object().unwrap() {
        assert_eq!(value, &plan["price"][member]);
    }
    assert_eq!(report["after_end"], plan["after_end"]);
    // What it has cost is by the same bill, so that both can be compared.
    let cost = report["parts"].as_array().unwrap().iter().find(|part| part["name"] == "cost_usd").unwrap();
    close(&cost["measured"], &status["cost_usd"]);
    let day = shown(&["status", LLAMA]);
    assert!(
        day.contains(" 2026-01-05 09:") && day.contains(" 2026-01-06 "),
        "it ended on another day: {day}"
    );
}

/// What is billed after the end of a job is shown by every command about it, while it exists.
#[test]
fn every_command_shows_what_is_billed_after_the_end() {
    let repo = Repo::new("apply-billed", &["llama-7b-fsdp"]);
    assert_eq!(repo.run(&["apply", LLAMA, "--yes"]).code, Some(0));
    let shown = |arguments: &[&str]| {
        let done = repo.run(arguments);
        one_line(&format!("{}{}", done.out, done.err))
    };
    let file_system = "after file system `corpus`: $";
    let checkpoints = "S3: up to ";
    for command in ["status", "watch", "report"] {
        let text = shown(&[command, LLAMA]);
        assert!(text.contains(file_system) && text.contains(checkpoints), "{command}: {text}");
    }
    let kinds_of = |object: &Value| {
        let all = object["after_end"].as_array().unwrap();
        all.iter().map(|one| one["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let kinds = || kinds_of(&repo.run(&["status", LLAMA, "-o", "json"]).json());
    let last_kinds = |arguments: &[&str]| {
        kinds_of(lines(&repo.run(&[arguments, &["-o", "json"]].concat())).last().unwrap())
    };
    assert_eq!(kinds(), ["file-system", "checkpoints", "output", "source", "logs"]);
    assert_eq!(last_kinds(&["watch", LLAMA]), kinds());
    let destroyed = shown(&["destroy", LLAMA, "--yes"]);
    let remains = destroyed.split_once("remains S3: up to ").unwrap().1;
    assert!(remains.contains("--delete-data"), "{destroyed}");
    assert!(remains.contains(" a month (price of "), "the file system that is kept: {destroyed}");
    let with_data = ["file-system", "checkpoints", "output", "logs"];
    assert_eq!(last_kinds(&["destroy", LLAMA, "--yes"]), with_data);
    assert!(shown(&["destroy", LLAMA, "--yes"]).contains("remains S3: up to "), "nothing was left to delete");
    assert_eq!(last_kinds(&["destroy", LLAMA, "--yes", "--delete-data"]), with_data[1..]);
    assert_eq!(kinds(), with_data[1..], "they were deleted");
    assert_eq!(last_kinds(&["destroy", LLAMA, "--yes", "--delete-data"]), with_data[1..]);
    for command in ["status", "report"] {
        let text = shown(&[command, LLAMA]);
        assert!(!text.contains(file_system) && !text.contains("source, until deleted"), "{command}: {text}");
    }
    repo.edit(LLAMA, "max-run \"5d\"", "max-run \"4d\"");
    assert!(kinds().is_empty(), "a run of another version has other files");
}

/// Spot runs are billed for fewer seconds, at the on-demand price: a discount on it changes what was
/// planned alone.
#[test]
fn a_discount_on_spot_is_applied_once() {
    let plan = |more: &[&str]| {
        Repo::new("apply-discount", &["llama-7b-fsdp"])
            .run(&[&["plan", LLAMA, "-o", "json"], more].concat())
            .json()
    };
    let status = |more: &[&str]| {
        let repo = Repo::new(&format!("apply-discount-{}", more.len()), &["llama-7b-fsdp"]);
        for command in [&["apply", LLAMA, "--yes", "--wait"][..], &["status", LLAMA, "-o", "json"]] {
            let ran = repo.run(&[command, more].concat());
            assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
            if command[0] == "status" {
                return ran.json();
            }
        }
        unreachable!()
    };
    let (listed, less) = (status(&[]), status(&["--discount", "0.6"]));
    assert_eq!((&listed["cost_usd"], &listed["most_usd"]), (&less["cost_usd"], &less["most_usd"]));
    let run = plan(&["--discount", "0.6"])["run"].clone();
    let (planned, said) = (run["cost_usd"].as_f64().unwrap(), less["planned_usd"].as_f64().unwrap());
    assert!((planned - said).abs() <= 0.005, "{planned} {said}");
    // The file system is not discounted.
    let without =
        |usd: &serde_json::Value| usd.as_f64().unwrap() - run["cost_parts"]["file_systems"].as_f64().unwrap();
    let ratio = without(&run["cost_usd"]) / without(&plan(&[])["run"]["on_demand_usd"]);
    assert!((ratio - 0.4).abs() < 1e-4, "{ratio}");
}

#[test]
fn a_file_system_goes_with_its_job_where_the_manifest_says_so() {
    let repo = Repo::new("apply-released", &["llama-7b-fsdp"]);
    let import = "import \"s3://example-corpus/tokens/\"";
    repo.edit(LLAMA, import, &format!("{import}\n        delete-after-job"));
    let left = |kind: &str| repo.account()[kind].as_object().unwrap().len();
    let waited = repo.run(&["apply", LLAMA, "--yes", "--wait"]);
    assert_eq!(waited.code, Some(0), "{}{}", waited.out, waited.err);
    assert_eq!((left("file_systems"), left("associations"), left("roles")), (0, 0, 1), "{}", waited.err);
    let again = repo.run(&["plan", LLAMA, "-o", "json", "--detailed-exit-code"]);
    assert_eq!(again.code, Some(0), "nothing is made again for a run that is over: {}", again.out);

    // Whoever only watches may not delete: destroy does, without being told again.
    let second = repo.run(&["apply", LLAMA, "--yes", "--new-run"]);
    assert_eq!(second.code, Some(0), "{}", second.err);
    assert_eq!(left("file_systems"), 1);
    let watched = repo.run(&["watch", LLAMA]);
    assert!(watched.out.contains("trainc destroy llama-7b-fsdp/trainc.kdl"), "{}", watched.out);
    assert_eq!(left("file_systems"), 1);
    let applied = repo.run(&["apply", LLAMA, "--yes"]);
    assert_eq!(applied.code, Some(0), "{}", applied.err);
    let words = "trainc destroy llama-7b-fsdp/trainc.kdl --simulate=account.json: `corpus` is still there and billed, and `delete-after-job` is set for it";
    assert!(applied.out.contains("nothing to do") && applied.out.contains(words), "{}", applied.out);
    let gone = repo.run(&["destroy", LLAMA, "--yes"]);
    assert_eq!(gone.code, Some(0), "{}", gone.err);
    assert!(gone.out.contains("`delete-after-job`"), "{}", gone.out);
    assert_eq!((left("file_systems"), left("roles")), (0, 0));
    let applied = repo.run(&["apply", LLAMA, "--yes"]);
    assert!(applied.code == Some(0) && !applied.out.contains("destroy"), "{}", applied.out);
}

#[test]
fn a_saved_plan_is_done_as_it_was_seen_or_not_at_all() {
    let repo = Repo::new("apply-saved", &["llama-7b-fsdp"]);
    let saved = repo.run(&["plan", LLAMA, "--save", "job.plan"]);
    assert_eq!(saved.code, Some(0), "{}", saved.err);
    assert!(saved.out.contains("trainc apply job.plan --simulate=account.json"), "{}", saved.out);
    let stale = |why: &str| {
        let ran = repo.run(&["apply", "job.plan"]);
        assert_eq!(ran.code, Some(4), "{why}: {}{}", ran.out, ran.err);
        let said = ran.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("T0612") && said.contains(why), "{why}: {}", ran.err);
    };
    repo.edit(LLAMA, "lr=3e-4", "lr=4e-4");
    stale("has changed since");
    repo.edit(LLAMA, "lr=4e-4", "lr=3e-4");
    repo.edit("llama-7b-fsdp/scripts/pretrain.py", "import argparse", "import argparse  # changed");
    stale("the program's files");
    repo.edit("llama-7b-fsdp/scripts/pretrain.py", "import argparse  # changed", "import argparse");
    let applied = repo.run(&["apply", "job.plan"]);
    assert_eq!(applied.code, Some(0), "{}", applied.err);
    // What is there is what this plan made.
    let again = repo.run(&["apply", "job.plan"]);
    assert_eq!(again.code, Some(0), "{}{}", again.out, again.err);
    assert!(again.out.contains("nothing to do: llama-7b-fsdp-"), "{}", again.out);
    let kept = std::fs::read(repo.0.0.join(LLAMA)).unwrap();
    let slip = repo.run(&["plan", LLAMA, "--save", LLAMA]);
    assert_eq!(slip.code, Some(2), "{}", slip.out);
    assert!(slip.err.contains("is not a saved plan"), "{}", slip.err);
    assert_eq!(std::fs::read(repo.0.0.join(LLAMA)).unwrap(), kept);
    let noop = repo.run(&["plan", LLAMA, "--save", "noop.plan"]);
    assert_eq!(noop.code, Some(0));
    // What trainc leaves as it is has moved all the same.
    let as_it_was = repo.account();
    let mut account = as_it_was.clone();
    for role in account["roles"].as_object_mut().unwrap().values_mut() {
        role["policies"]["more"] = "{}".into();
    }
    repo.0.write("account.json", account.to_string());
    let ran = repo.run(&["apply", "noop.plan"]);
    assert_eq!(ran.code, Some(4), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("T0612") && ran.err.contains("`role trainc-"), "{}", ran.err);
    repo.0.write("account.json", as_it_was.to_string());
    let done = repo.run(&["apply", "noop.plan"]);
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
    assert!(done.out.contains("nothing to do"), "{}", done.out);
    // What was edited by hand, or is of another time, is said and not taken for a manifest.
    let text = fs::read_to_string(repo.0.0.join("noop.plan")).unwrap();
    let refused = |text: String, words: &str| {
        repo.0.write("edited.plan", text);
        let ran = repo.run(&["apply", "edited.plan"]);
        assert!(ran.code == Some(2) && ran.err.contains(words), "{words}: {}", ran.err);
    };
    refused(text.replace("\"sets\": [],", ""), "missing field `sets`");
    refused(text.replace("\"format_version\": \"3.", "\"format_version\": \"4."), "its format is 4.");
    let older =
        text.replace("\"format_version\": \"3.", "\"format_version\": \"2.").replace("\"jobs\"", "\"was\"");
    refused(older, "its format is 2.");
    refused(text.replace("\"sets\": []", "\"sets\": ["), "cannot be read");
    let piped = trainc_in(
        &repo.0.0,
        &["plan", "-", "--save", "piped.plan", "--simulate=account.json"],
        &fs::read(repo.0.0.join(LLAMA)).unwrap(),
        Duration::from_mins(1),
    );
    assert!(piped.code == Some(2) && piped.err.contains("cannot be read again"), "{}", piped.err);
    let more = repo.run(&["apply", "noop.plan", "--set", "train.steps=7"]);
    assert!(
        more.code == Some(2) && more.err.contains("`--set` cannot be combined with a saved plan"),
        "{}",
        more.err
    );
    let both = repo.run(&["apply", "noop.plan", LLAMA]);
    assert!(both.code == Some(2) && both.err.contains("only one can be applied at a time"), "{}", both.err);
}

#[test]
fn a_saved_plan_keeps_everything_that_was_chosen() {
    let repo = Repo::new("apply-saved-flags", &[]);
    let example = root().join("tests/fixtures/worker-cpu.kdl");
    repo.0.write("job.kdl", fs::read(example).unwrap());
    let mut worker = super::elf();
    repo.0.write("bin/trainc-worker", &worker);
    let constants = read("crates/trainc-predict/src/constants.toml");
    repo.0.write("mine.toml", constants);
    let flags = ["--worker", "bin/trainc-worker", "--calibration", "mine.toml", "--discount", "0.25"];
    let set = ["--set", "train.steps=200", "--account", "111122223333"];
    let args = [&["plan", "job.kdl", "--save", "job.plan"], &flags[..], &set[..]].concat();
    let saved = repo.run(&args);
    assert_eq!(saved.code, Some(0), "{}{}", saved.out, saved.err);
    // Another binary is another job.
    worker.push(1);
    repo.0.write("bin/trainc-worker", &worker);
    let other = repo.run(&["apply", "job.plan"]);
    assert!(other.code == Some(4) && other.err.contains("the worker"), "{}", other.err);
    worker.pop();
    fs::remove_file(repo.0.0.join("bin/trainc-worker")).unwrap();
    let gone = repo.run(&["apply", "job.plan"]);
    assert!(gone.code == Some(2) && gone.err.contains("`bin/trainc-worker`: no such file"), "{}", gone.err);
    repo.0.write("bin/trainc-worker", &worker);
    let applied = repo.run(&["apply", "job.plan"]);
    assert_eq!(applied.code, Some(0), "{}{}", applied.out, applied.err);
    let next = "trainc watch job.kdl --set train.steps=200 --worker bin/trainc-worker --account 111122223333 --discount 0.25 --calibration mine.toml --simulate=account.json";
    assert!(applied.out.contains(next), "{}", applied.out);
    let watched =
        repo.run(&next.split(' ').skip(1).filter(|word| !word.starts_with("--sim")).collect::<Vec<_>>());
    assert_eq!(watched.code, Some(0), "{}", watched.err);
}

#[test]
fn a_changed_manifest_shows_what_differs_and_waits_for_a_word() {
    let repo = Repo::new("apply-changed", &["starter"]);
    let path = "starter/trainc.kdl";
    assert_eq!(repo.run(&["apply", path, "--yes"]).code, Some(0));
    let changed = repo.run(&["apply", path, "--yes", "--set", "train.steps=77"]);
    assert_eq!(changed.code, Some(4), "{}", changed.err);
    assert!(changed.err.contains("T0606") && changed.err.contains("77"), "{}", changed.err);
    let planned = repo.run(&["plan", path, "--set", "train.steps=77"]);
    assert_eq!(planned.code, Some(0), "a plan only says it: {}", planned.err);
    let next =
        |ran: &Ran| ran.out.split_once("  next ").unwrap().1.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(planned.out.contains("apply would be refused with exit code 4: T0606"), "{}", planned.out);
    let flags = "--set train.steps=77";
    let again = format!("trainc plan {path} {flags} --new-run --simulate=account.json");
    assert_eq!(next(&planned), again);
    let planned = repo.run(&["plan", path, "--set", "train.steps=77", "--new-run"]);
    assert!(!planned.out.contains("would be refused"), "{}", planned.out);
    assert_eq!(next(&planned), format!("trainc apply {path} {flags} --new-run --simulate=account.json"));
    let started = repo.run(&["apply", path, "--yes", "--set", "train.steps=77", "--new-run"]);
    assert_eq!(started.code, Some(0), "{}", started.err);
    assert_eq!(repo.account()["jobs"].as_object().unwrap().len(), 2);
    // Two run side by side: both are shown, and which of them is to stop only the user knows.
    let names: Vec<String> = repo.account()["jobs"].as_object().unwrap().keys().cloned().collect();
    let shown = repo.run(&["status", path]);
    let data = repo.run(&["status", path, "-o", "json"]);
    let data: serde_json::Value = serde_json::from_str(&data.out).unwrap();
    let other = names.iter().find(|name| data["training_job"] != name.as_str()).unwrap();
    assert_eq!(data["also_running"][0]["training_job"], other.as_str());
    assert!(names.iter().all(|name| shown.out.contains(name)), "{}", shown.out);
    assert!(
        shown.out.contains(&format!("trainc stop {path} --simulate=account.json --run {other}")),
        "{}",
        shown.out
    );
    let which = repo.run(&["stop", path, "--yes"]);
    assert_eq!(which.code, Some(2), "{}", which.out);
    assert!(names.iter().all(|name| which.err.contains(&format!("--run {name}"))), "{}", which.err);
    let going = |repo: &Repo| {
        let account = repo.account();
        let jobs = account["jobs"].as_object().unwrap();
        jobs.values().filter(|one| one["job"]["status"] == "InProgress").count()
    };
    assert_eq!(going(&repo), 2);
    assert_eq!(repo.run(&["stop", path, "--yes", "--run", "nobody"]).code, Some(2));
    assert_eq!(repo.run(&["stop", path, "--yes", "--run", other]).code, Some(0));
    assert_eq!((going(&repo), &repo.account()["jobs"][other]["job"]["status"]), (1, &"Stopped".into()));
    assert_eq!(repo.run(&["stop", path, "--yes"]).code, Some(0));
    assert_eq!(going(&repo), 0);
    let stopped = repo.run(&["watch", path]);
    assert_eq!(stopped.code, Some(8), "{}", stopped.err);
    assert!(stopped.err.contains("T0658"), "{}", stopped.err);
}

/// Without its tags a run of our name is nobody's that trainc knows: it is shown, and neither stopped nor
/// denied.
#[test]
fn a_run_that_lost_its_tags_is_not_ours_to_stop() {
    let repo = Repo::new("apply-untagged", &["starter"]);
    let path = "starter/trainc.kdl";
    assert_eq!(repo.run(&["apply", path, "--yes"]).code, Some(0));
    let mut account = repo.account();
    for state in account["jobs"].as_object_mut().unwrap().values_mut() {
        state["tags"] = serde_json::json!({});
    }
    for state in account["roles"].as_object_mut().unwrap().values_mut() {
        state["policies"]["theirs"] = "{}".into();
    }
    repo.0.write("account.json", account.to_string());
    let ran = repo.run(&["stop", path, "--yes"]);
    assert_eq!(ran.code, Some(7), "{}", ran.out);
    assert!(ran.err.contains("T0605") && ran.err.contains("is InProgress and belongs to"), "{}", ran.err);
    assert!(
        one_line(&ran.err).contains(&format!("trainc apply {path} --simulate=account.json --adopt")),
        "{}",
        ran.err
    );
    let planned = repo.run(&["plan", path]);
    let role = planned.out.lines().find(|line| line.contains("unchanged role trainc-")).unwrap();
    assert!(role.contains("someone added"), "{role}");
    let destroyed = repo.run(&["destroy", path, "--yes"]);
    assert_eq!(destroyed.code, Some(7), "{}", destroyed.out);
    assert!(
        destroyed.out.contains("keep    role") && destroyed.out.contains("runs with it"),
        "{}",
        destroyed.out
    );
    assert_eq!(repo.account()["roles"].as_object().unwrap().len(), 1);
}

/// What was chosen is chosen again by the command to type next, and only what is safe to repeat is called so.
#[test]
fn what_to_type_after_a_failure_is_the_same_command() {
    let repo = Repo::new("apply-again", &["starter"]);
    let path = "starter/trainc.kdl";
    repo.0.write("account.json", r#"{"denied": ["iam:CreateRole"]}"#);
    let ran = repo.run(&["apply", path, "--yes", "--new-run", "--adopt"]);
    assert_eq!(ran.code, Some(6), "{}", ran.err);
    let next = format!("trainc apply {path} --simulate=account.json --new-run --adopt");
    assert!(ran.out.contains(&next) && !ran.out.contains("safe to run again"), "{}", ran.out);
    assert_eq!(repo.run(&["plan", path, "--save", "kept.plan"]).code, Some(0));
    let ran = repo.run(&["apply", "kept.plan"]);
    assert!(ran.out.contains("trainc apply kept.plan --simulate=account.json"), "{}{}", ran.out, ran.err);
}

/// Deleted by hand under a running job: a new one would be paid for, and nothing could ever mount it.
#[test]
fn nothing_is_made_for_a_run_that_lost_its_file_system() {
    let repo = Repo::new("apply-mount-lost", &["llama-7b-fsdp"]);
    assert_eq!(repo.run(&["apply", LLAMA, "--yes"]).code, Some(0));
    let mut account = repo.account();
    let id = account["file_systems"].as_object().unwrap().keys().next().unwrap().clone();
    account["file_systems"] = serde_json::json!({});
    account["associations"] = serde_json::json!({});
    // Something else is to be done all the same.
    for state in account["roles"].as_object_mut().unwrap().values_mut() {
        state["policies"]["trainc"] = "{}".into();
    }
    repo.0.write("account.json", account.to_string());
    let planned = repo.run(&["plan", LLAMA]);
    let said = planned.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("T0649") && said.contains("skip file system"), "{said}");
    let ran = repo.run(&["apply", LLAMA, "--yes"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("T0649") && ran.err.contains(&id), "{}", ran.err);
    let account = repo.account();
    assert!(account["file_systems"].as_object().unwrap().is_empty());
    let role = account["roles"].as_object().unwrap().values().next().unwrap();
    assert_ne!(role["policies"]["trainc"], "{}", "what the run can use is mended");
    // Once it has ended, another run is made whole again.
    assert_eq!(repo.run(&["stop", LLAMA, "--yes"]).code, Some(0));
    let again = repo.run(&["apply", LLAMA, "--yes", "--new-run"]);
    assert_eq!(again.code, Some(0), "{}{}", again.out, again.err);
    assert_eq!(repo.account()["file_systems"].as_object().unwrap().len(), 1);
}

/// Two that carry the same tags: one is used, and the other is said with what it costs.
#[test]
fn a_second_file_system_of_one_storage_is_said() {
    let repo = Repo::new("apply-second-system", &["llama-7b-fsdp"]);
    assert_eq!(repo.run(&["apply", LLAMA, "--yes"]).code, Some(0));
    let mut account = repo.account();
    let mut state = account["file_systems"].as_object().unwrap().values().next().unwrap().clone();
    state["system"]["id"] = "fs-0000000000000beef".into();
    state["system"]["created"] = serde_json::json!(account["now"].as_f64().unwrap());
    account["file_systems"]["fs-0000000000000beef"] = state;
    repo.0.write("account.json", account.to_string());
    let ran = repo.run(&["apply", LLAMA, "--yes"]);
    let said = ran.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("T0644") && said.contains("fs-0000000000000beef"), "{said}");
    assert!(said.contains("also belongs to this job") && said.contains("--region us-west-2"), "{said}");
}

/// Each run that is started for want of machines is told under its own name.
#[test]
fn runs_that_follow_one_without_machines_have_their_names() {
    let repo = Repo::new("apply-scarce", &["starter"]);
    let path = "starter/trainc.kdl";
    repo.0.write("account.json", r#"{"without_capacity": 2}"#);
    let ran = repo.run(&["apply", path, "--yes", "--wait-for-capacity", "2h", "-o", "json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let lines = lines(&ran);
    let made: Vec<&str> = lines
        .iter()
        .filter(|line| line["type"] == "done" && line["kind"] == "training-job")
        .map(|line| line["name"].as_str().unwrap())
        .collect();
    let names: Vec<String> = repo.account()["jobs"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(made.len(), 3);
    assert!(names.iter().all(|name| made.contains(&name.as_str())), "{made:?} {names:?}");
    // Who has waited is not told to wait.
    repo.0.write("account.json", r#"{"without_capacity": 999}"#);
    let late = repo.run(&["apply", path, "--yes", "--wait-for-capacity", "60s"]);
    let said = late.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(late.code, Some(5), "{said}");
    assert!(said.contains("waited 1m for capacity") && !said.contains("--wait-for-capacity 2h"), "{said}");
    assert!(late.out.contains("--wait-for-capacity 1m --yes"), "{}", late.out);
    // Each try in vain is a line, with when the next one is.
    repo.0.write("account.json", r#"{"without_capacity": 999}"#);
    let told = repo.run(&["apply", path, "--yes", "--wait-for-capacity", "10m"]);
    let tries: Vec<&str> = told
        .err
        .lines()
        .filter(|line| line.contains("; retrying in ") || line.contains("; last attempt in "))
        .collect();
    assert!(
        tries.first().is_some_and(|first| first.ends_with("; retrying in 15s, for 9m more")),
        "{}",
        told.err
    );
    assert!(tries.last().is_some_and(|last| last.contains("; last attempt in ")), "{tries:?}");
    // The last try is watched as those before it: it found none either, and that is no success.
    assert_eq!(told.code, Some(5), "{}{}", told.out, told.err);
    assert!(!told.out.contains("applied:") && told.err.contains("T0604"), "{}{}", told.out, told.err);
    let jobs = repo.account()["jobs"].as_object().unwrap().clone();
    assert!(jobs.values().all(|job| job["job"]["status"] == "Failed"), "each was seen to its end");
}

/// The time that is left and the rate beside it say the same: start-up is no part of either.
#[test]
fn what_is_left_of_a_run_is_told_by_its_steps() {
    let repo = Repo::new("apply-left", &["starter"]);
    let path = "starter/trainc.kdl";
    assert_eq!(repo.run(&["apply", path, "--yes"]).code, Some(0));
    let watched = repo.run(&["watch", path, "-o", "json"]);
    assert_eq!(watched.code, Some(0), "{}", watched.err);
    let all: Vec<Value> = lines(&watched)
        .into_iter()
        .filter(|line| line["type"] == "status")
        .map(|line| line["status"].clone())
        .collect();
    let end = all.last().unwrap()["transitions"].as_array().unwrap().clone();
    let trained = end.iter().find(|one| one["status"] == "Training").unwrap()["end"].as_f64().unwrap();
    let created = end[0]["start"].as_f64().unwrap();
    let training: Vec<&Value> = all
        .iter()
        .filter(|now| now["secondary_status"] == "Training" && now["metrics"]["step"].is_number())
        .collect();
    assert!(training.len() > 10);
    for now in training {
        let told = now["estimatedRemainingSeconds"].as_f64().unwrap();
        let left = trained - created - now["elapsed_seconds"].as_f64().unwrap();
        // The log tells every so many steps: until the next, what is left stays as it was said.
        assert!((told - left).abs() < 90.0 + left * 0.02, "{told} of {left}: {}", now["metrics"]);
    }
}

/// Who starts a job unchecked is told so, in a line, and in full where asked.
#[test]
fn checks_that_were_skipped_are_said_before_a_job_is_started() {
    let repo = Repo::new("apply-unchecked", &["llama-7b-fsdp"]);
    let denied = r#"{"denied": ["ec2:DescribeSubnets", "ec2:DescribeSecurityGroups", "servicequotas:GetServiceQuota"]}"#;
    for flags in [&["--yes"][..], &["--yes", "-v"], &["--yes", "--quiet"]] {
        repo.0.write("account.json", denied);
        let ran = repo.run(&[&["apply", LLAMA], flags].concat());
        assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
        let said: Vec<&str> = ran.err.lines().filter(|line| line.contains(" skipped, ")).collect();
        let each = ran.err.matches("[T0636]").count();
        match flags.last() {
            Some(&"-v") => assert!(said.is_empty() && each > 1, "{}", ran.err),
            Some(&"--quiet") => assert!(said.is_empty() && each == 0, "{}", ran.err),
            _ => {
                assert!(each == 0 && said.len() == 1, "one line: {}", ran.err);
                let actions =
                    "ec2:DescribeSecurityGroups, ec2:DescribeSubnets, servicequotas:GetServiceQuota";
                let words = format!("checks were skipped, missing permissions: {actions}; -v shows each");
                assert!(said[0].starts_with("note: ") && said[0].ends_with(&words), "{}", ran.err);
            }
        }
    }
}

/// What cannot be done is said before anything is, in words that lead on.
#[test]
fn what_cannot_be_kept_or_saved_is_said_first() {
    let repo = Repo::new("apply-nowhere", &["starter"]);
    let path = "starter/trainc.kdl";
    let nowhere = repo.run_plain(&["apply", path, "--yes", "--simulate=nowhere/account.json"]);
    assert_eq!(nowhere.code, Some(2), "{}", nowhere.out);
    assert!(nowhere.out.is_empty() && nowhere.err.contains("cannot be written"), "{}", nowhere.err);
    // A saved plan names its manifest as it was named, from where that was done.
    assert_eq!(repo.run(&["plan", path, "--save", "kept.plan"]).code, Some(0));
    let elsewhere = trainc_in(
        &repo.0.0.join("starter"),
        &["apply", "../kept.plan", "--simulate=../account.json"],
        b"",
        Duration::from_mins(1),
    );
    assert_eq!(elsewhere.code, Some(2), "{}", elsewhere.err);
    assert!(elsewhere.err.contains("in the directory where the plan was saved"), "{}", elsewhere.err);
    let text = fs::read_to_string(repo.0.0.join(path)).unwrap();
    let swept = text.replacen(
        "job \"my-first-job\" {",
        "job \"my-first-job\" {\n    sweep { vary \"train.steps\" 10 20; }",
        1,
    );
    repo.0.write("starter/swept.kdl", swept);
    // A sweep is one manifest, and saved as one plan.
    let saved = repo.run(&["plan", "starter/swept.kdl", "--save", "job.plan"]);
    assert_eq!(saved.code, Some(0), "{}{}", saved.out, saved.err);
    let bytes = fs::read(repo.0.0.join(path)).unwrap();
    let piped = trainc_in(
        &repo.0.0.join("starter"),
        &["apply", "-", "--yes", "--simulate=account.json"],
        &bytes,
        Duration::from_mins(1),
    );
    assert!(
        piped.code == Some(0) && piped.out.contains("next  trainc watch - "),
        "{}{}",
        piped.out,
        piped.err
    );
}

/// How long was waited, and whether anybody was asked, is asked for again as well.
#[test]
fn what_to_type_keeps_how_it_was_waited() {
    let repo = Repo::new("apply-again-waiting", &["starter"]);
    let path = "starter/trainc.kdl";
    // Without a warning.
    repo.0.write(path, read("examples/starter/trainc.kdl").replace("your-bucket", "example-runs"));
    repo.0.write("account.json", r#"{"denied": ["iam:CreateRole"]}"#);
    let flags = ["--wait-for-capacity", "90m", "--wait", "--yes", "--discount", "0.25", "--deny-warnings"];
    let ran = repo.run(&[&["apply", path][..], &flags].concat());
    assert_eq!(ran.code, Some(6), "{}", ran.err);
    let next = format!(
        "next  trainc apply {path} --discount 0.25 --simulate=account.json --wait-for-capacity 90m --wait --yes --deny-warnings\n"
    );
    assert!(ran.out.contains(&next), "{}", ran.out);
}

/// Every line of `-o json` is an object with the job's name, after the version, also where there is no job.
#[test]
fn json_tells_of_every_job_also_where_there_is_none() {
    let repo = Repo::new("apply-json-lines", &["starter"]);
    let path = "starter/trainc.kdl";
    let told = |args: &[&str], code: i32| {
        let ran = repo.run(&[args, &["-o", "json"]].concat());
        assert_eq!(ran.code, Some(code), "{args:?}: {}{}", ran.out, ran.err);
        let lines = lines(&ran);
        assert_eq!(lines[0], serde_json::json!({"type": "version", "format": "1.0"}), "{args:?}");
        assert!(lines[1..].iter().all(|line| line["job"] == "my-first-job"), "{args:?}: {}", ran.out);
        lines
    };
    let last = |lines: &[Value]| lines.last().unwrap().clone();
    for verb in ["watch", "logs"] {
        let said = last(&told(&[verb, path], 4));
        assert_eq!(
            (&said["type"], &said["exit"], &said["training_job"]),
            (&"result".into(), &4.into(), &Value::Null)
        );
    }
    let none = repo.run(&["status", path, "-o", "json"]);
    let object: Value = serde_json::from_str(&none.out).unwrap();
    assert_eq!(
        (none.code, &object["job"], &object["status"]),
        (Some(4), &"my-first-job".into(), &Value::Null)
    );
    let several: Value = serde_json::from_str(&repo.run(&["status", "starter", "-o", "json"]).out).unwrap();
    assert_eq!(several.as_array().unwrap().len(), 1, "a directory of one is still a directory");
    assert_eq!(last(&told(&["stop", path], 0))["type"], "result");
    let nothing = last(&told(&["destroy", path], 0));
    assert_eq!(
        (&nothing["exit"], &nothing["after_end"]),
        (&0.into(), &serde_json::json!([])),
        "it never ran"
    );
    assert_eq!(repo.run(&["apply", path, "--yes"]).code, Some(0));
    let stopped = told(&["stop", path], 0);
    let name = last(&stopped)["training_job"].as_str().unwrap().to_owned();
    assert!(
        stopped.iter().any(|line| line["type"] == "doing" && line["name"] == name.as_str()),
        "{stopped:?}"
    );
    let removed = told(&["destroy", path], 0);
    let bucket = removed.iter().find(|line| line["type"] == "removal" && line["kind"] == "bucket").unwrap();
    assert_eq!((&bucket["action"], &last(&removed)["exit"]), (&"keep".into(), &0.into()));
    assert!(removed.iter().any(|line| line["type"] == "done" && line["what"] == "deleted"), "{removed:?}");
    // What is wrong with the account, and with a manifest, is told on the same stream.
    repo.0.write("account.json", r#"{"denied": ["sagemaker:ListTrainingJobs"]}"#);
    let denied = told(&["stop", path], 6);
    assert!(denied.iter().any(|line| line["problem"]["code"] == "T0601"), "{denied:?}");
    repo.edit(path, "region \"us-west-2\"", "region \"nowhere\"");
    let wrong = told(&["watch", path], 3);
    assert!(wrong.iter().any(|line| line["type"] == "problem" && line["exit"] == 3), "{wrong:?}");
}

/// Who was cut off goes on where they were, and needs no lines twice.
#[test]
fn logs_since_a_while_ago_begin_there() {
    let repo = Repo::new("apply-logs-since", &["starter"]);
    let path = "starter/trainc.kdl";
    assert_eq!(repo.run(&["apply", path, "--yes"]).code, Some(0));
    assert_eq!(repo.run(&["watch", path]).code, Some(0));
    let all = repo.run(&["logs", path]).out;
    let late = repo.run(&["logs", path, "--since", "20m"]).out;
    assert!(all.ends_with(&late) && !late.is_empty() && late.len() < all.len() / 2, "{late}");
    let none = repo.run(&["logs", path, "--since", "1s"]);
    assert!(
        none.out.is_empty() && none.err.contains("no host has logged anything in that time"),
        "{}{}",
        none.out,
        none.err
    );
}

/// A saved plan where a manifest is expected is known as one, and nothing is shown that is not saved.
#[test]
fn a_saved_plan_is_no_manifest() {
    let repo = Repo::new("apply-saved-named", &["starter"]);
    let path = "starter/trainc.kdl";
    let sets = ["--set", "train.steps=77"];
    assert_eq!(repo.run(&[&["plan", path, "--save", "job.plan"][..], &sets].concat()).code, Some(0));
    for verb in ["status", "plan", "watch", "destroy"] {
        let ran = repo.run(&[verb, "job.plan"]);
        let said = format!("{}{}", ran.out, ran.err);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(ran.code, Some(3), "{verb}: {said}");
        assert!(said.contains("T0646") && said.matches("error[").count() == 1, "{verb}: {said}");
        assert!(
            said.contains("name its manifest: starter/trainc.kdl --set train.steps=77"),
            "{verb}: {said}"
        );
    }
    let slip = repo.run(&["plan", path, "--save", path]);
    assert!(slip.code == Some(2) && slip.out.is_empty(), "{}", slip.out);
    repo.edit(path, "nodes=1", "nodes=2");
    let stale = repo.run(&["apply", "job.plan"]);
    let said = stale.err.split_whitespace().collect::<Vec<_>>().join(" ");
    let help = "save it again: trainc plan starter/trainc.kdl --set train.steps=77 --simulate=account.json --save job.plan";
    assert!(stale.code == Some(4) && said.contains(help), "{said}");
}

/// A reason is the end of the program's own output.
#[test]
fn a_reason_moves_no_cursor() {
    let repo = Repo::new("apply-escape", &["starter"]);
    let path = "starter/trainc.kdl";
    assert_eq!(repo.run(&["apply", path, "--yes"]).code, Some(0));
    let mut account = repo.account();
    for state in account["jobs"].as_object_mut().unwrap().values_mut() {
        state["job"]["status"] = "Failed".into();
        state["job"]["failure"] = "AlgorithmError: \u{1b}[2Jgone".into();
    }
    repo.0.write("account.json", account.to_string());
    let shown = repo.run(&["status", path]);
    assert!(shown.out.contains("gone") && !shown.out.contains('\u{1b}'), "{:?}", shown.out);
}

/// A storage under another name is another file system, and the first one is still paid for.
#[test]
fn a_renamed_storage_says_what_is_left() {
    let repo = Repo::new("apply-renamed", &["llama-7b-fsdp"]);
    assert_eq!(repo.run(&["apply", LLAMA, "--yes"]).code, Some(0));
    let id = repo.account()["file_systems"].as_object().unwrap().keys().next().unwrap().clone();
    assert!(!repo.run(&["plan", LLAMA]).err.contains("T0644"));
    let mut account = repo.account();
    account["file_systems"][&id]["system"]["tags"]["trainc:resource"] = "file-system/before".into();
    repo.0.write("account.json", account.to_string());
    let planned = repo.run(&["plan", LLAMA, "-v"]);
    let said = format!("{}{}", planned.out, planned.err);
    assert!(said.contains("T0644") && said.contains(&id), "{said}");
}

/// A storage that is taken out of the manifest altogether leaves its file system, which is paid for by the
/// hour.
#[test]
fn a_storage_that_was_taken_out_says_what_is_left() {
    let repo = Repo::new("apply-taken-out", &["starter", "llama-7b-fsdp"]);
    assert_eq!(repo.run(&["apply", LLAMA, "--yes"]).code, Some(0));
    let id = repo.account()["file_systems"].as_object().unwrap().keys().next().unwrap().clone();
    // The same job without a storage: another example under this one's name.
    let path = "starter/trainc.kdl";
    let name = fs::read_to_string(repo.0.0.join(path)).unwrap();
    let name =
        name.lines().find_map(|line| line.strip_prefix("job ")).unwrap().trim_end_matches(" {").to_owned();
    let llama = fs::read_to_string(repo.0.0.join(LLAMA)).unwrap();
    let llama =
        llama.lines().find_map(|line| line.strip_prefix("job ")).unwrap().trim_end_matches(" {").to_owned();
    repo.edit(path, &name, &llama);
    for verb in [&["plan", path][..], &["apply", path, "--yes", "--new-run"]] {
        let ran = repo.run(verb);
        let said = format!("{}{}", ran.out, ran.err);
        assert!(said.contains("T0644") && said.contains(&id), "{verb:?}: {said}");
        let help =
            said.contains(&format!("aws fsx delete-file-system --file-system-id {id} --region us-west-2"));
        assert!(help || verb[0] == "plan", "{said}");
    }
    // Whoever never had one and may not look for any is not kept from anything.
    repo.0.write("account.json", r#"{"denied": ["fsx:DescribeFileSystems"]}"#);
    assert_eq!(repo.run(&["apply", path, "--yes"]).code, Some(0));
    assert_eq!(repo.run(&["plan", LLAMA]).code, Some(6));
}

#[test]
fn a_job_that_fails_gives_its_page() {
    let repo = Repo::new("apply-failed", &["llama-7b-fsdp"]);
    repo.0.write("account.json", r#"{"outcome": "out-of-memory"}"#);
    let ran = repo.run(&["apply", LLAMA, "--wait"]);
    assert_eq!(ran.code, Some(8), "{}", ran.err);
    for words in ["T0651", "out of GPU memory", "first failure: algo-1", "SageMaker says: AlgorithmError"] {
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
    assert!(ran.out.contains("CUDA out of memory"), "{}", ran.out);
    // Applied again it says so again, and starts nothing; only who waits for the job hears of it by the
    // exit code.
    let again = repo.run(&["apply", LLAMA]);
    assert_eq!(again.code, Some(0), "{}", again.err);
    assert!(again.err.contains("T0651"), "{}", again.err);
    assert!(again.out.contains("nothing to do") && again.out.contains("--new-run"), "{}", again.out);
    assert_eq!(repo.run(&["apply", LLAMA, "--wait"]).code, Some(8));
    assert_eq!(repo.run(&["plan", LLAMA, "--detailed-exit-code"]).code, Some(0), "plan and apply agree");
    assert_eq!(repo.account()["jobs"].as_object().unwrap().len(), 1);
}

#[test]
fn a_directory_of_jobs_goes_on_when_one_fails() {
    let repo = Repo::new("apply-many", &["llama-7b-fsdp", "starter", "distilbert-spot"]);
    repo.edit("starter/trainc.kdl", "role create=#true", "role create=#true\n    nonsense");
    repo.0.write("account.json", r#"{"missing": ["subnet-0123456789abcdef0"]}"#);
    let ran = repo.run(&["apply", ".", "--yes"]);
    assert_eq!(ran.code, Some(3), "{}", ran.err);
    assert!(ran.out.contains("distilbert-spot: applied"), "{}", ran.out);
    assert!(ran.err.contains("T0623"), "{}", ran.err);
    assert_eq!(repo.account()["jobs"].as_object().unwrap().len(), 1);
    let told = lines(&repo.run(&["apply", ".", "--yes", "-o", "json"]));
    let of = |job: &str| -> Vec<&Value> { told.iter().filter(|one| one["job"] == job).collect() };
    assert!(of("my-first-job").iter().any(|one| one.pointer("/problem/line").is_some()), "{told:#?}");
    assert!(
        of("llama-7b-fsdp").iter().any(|one| one.pointer("/problem/code") == Some(&Value::from("T0623")))
    );
}

#[test]
fn jobs_of_a_directory_are_made_side_by_side_and_told_in_order() {
    let repo = Repo::new("apply-side-by-side", &["starter", "llama-7b-fsdp", "distilbert-spot"]);
    let ran = repo.run(&["apply", ".", "--yes", "-o", "json"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let told = lines(&ran);
    let of = |kind: &str| -> Vec<(usize, String)> {
        let all = told.iter().enumerate().filter(|(_, one)| one["type"] == kind);
        all.map(|(at, one)| (at, one["job"].as_str().unwrap_or_default().to_owned())).collect()
    };
    let names = |all: Vec<(usize, String)>| all.into_iter().map(|(_, job)| job).collect::<Vec<_>>();
    let order = ["distilbert-spot", "llama-7b-fsdp", "my-first-job"];
    // Everything is shown before the first write, and reported in the order of the manifests.
    assert_eq!(names(of("plan")), order);
    assert_eq!(names(of("applied")), order);
    let first_write = of("doing")[0].0;
    assert!(of("plan").iter().all(|(at, _)| *at < first_write), "{}", ran.out);
    // The job without a file system does not wait for the one that makes one.
    let done = |job: &str| {
        let mine = |one: &Value| one["job"] == job && one["kind"] == "training-job" && one["type"] == "done";
        told.iter().position(mine).unwrap_or_else(|| panic!("{job}: {}", ran.out))
    };
    assert!(done("my-first-job") < done("llama-7b-fsdp"), "{}", ran.out);
    // Two of them are of one region and share its bucket, which one of them makes.
    let buckets = |what: &str| -> Vec<&str> {
        let all = told.iter().filter(|one| one["type"] == "done" && one["kind"] == "bucket");
        all.filter(|one| one["what"] == what).map(|one| one["name"].as_str().unwrap()).collect()
    };
    let (mut made, found) = (buckets("created"), buckets("unchanged"));
    made.sort_unstable();
    assert_eq!(made, ["sagemaker-us-east-1-111122223333", "sagemaker-us-west-2-111122223333"]);
    assert_eq!(found.len(), 1, "{}", ran.out);
    let result = told.last().unwrap();
    assert_eq!(result["jobs"].as_array().unwrap().len(), 3);
    assert_eq!(repo.account()["jobs"].as_object().unwrap().len(), 3);
    // On a terminal and in a log the same order, whoever was first.
    let again = Repo::new("apply-side-by-side-words", &["starter", "llama-7b-fsdp"]);
    let ran = again.run(&["apply", ".", "--yes", "--wait"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let at = |words: &str| ran.out.find(words).unwrap_or_else(|| panic!("{words}: {}", ran.out));
    assert!(at("applied: llama-7b-fsdp-") < at("applied: my-first-job-"));
    assert!(at("applied: my-first-job-") < at("llama-7b-fsdp: applied"), "{}", ran.out);
    assert!(ran.err.contains("my-first-job: role "), "each line says whose it is: {}", ran.err);
}

#[test]
fn two_manifests_of_one_name_are_neither_applied() {
    let repo = Repo::new("apply-twins", &["starter", "distilbert-spot"]);
    repo.0.write(
        "twin/trainc.kdl",
        read("examples/starter/trainc.kdl").replace("./scripts", "../starter/scripts"),
    );
    let ran = repo.run(&["apply", ".", "--yes"]);
    assert_eq!(ran.code, Some(3), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("T0142"), "{}", ran.err);
    assert!(ran.err.contains("`starter/trainc.kdl` is not applied: `twin/trainc.kdl`"), "{}", ran.err);
    let account = repo.account();
    let jobs: Vec<&String> = account["jobs"].as_object().unwrap().keys().collect();
    assert!(matches!(jobs.as_slice(), [one] if one.starts_with("distilbert-spot-")), "{jobs:?}");
}

#[test]
fn a_plan_without_room_does_not_lead_to_apply() {
    let repo = Repo::new("apply-refused", &["starter", "distilbert-spot"]);
    repo.0.write("account.json", r#"{"quotas": {"L-C6383286": 0}}"#);
    let alone = repo.run(&["plan", "starter/trainc.kdl"]);
    assert!(alone.out.contains("apply would be refused with exit code 5: T0621"), "{}", alone.out);
    assert!(alone.out.contains("trainc plan starter/trainc.kdl --simulate"), "{}", alone.out);
    let both = repo.run(&["plan", "."]);
    assert!(both.out.contains("apply would refuse 1 of 2 jobs: T0621"), "{}", both.out);
    assert!(both.out.contains("trainc apply ."), "the other goes on: {}", both.out);
}

#[test]
fn jobs_are_watched_side_by_side_and_hosts_by_their_names() {
    let repo = Repo::new("apply-watch", &["starter", "distilbert-spot"]);
    assert_eq!(repo.run(&["apply", ".", "--yes"]).code, Some(0));
    let before = repo.account().to_string();
    let ran = repo.run(&["watch", ".", "-o", "json"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let told = lines(&ran);
    let at = |kind: &str, job: &str, last: bool| {
        let is = |one: &Value| one["type"] == kind && one.to_string().contains(job);
        let found = if last { told.iter().rposition(is) } else { told.iter().position(is) };
        found.unwrap_or_else(|| panic!("{kind} {job}: {}", ran.out))
    };
    for (one, other) in [("my-first-job-", "distilbert-spot-"), ("distilbert-spot-", "my-first-job-")] {
        assert!(at("status", one, false) < at("ended", other, true), "{}", ran.out);
    }
    repo.0.write("account.json", before);
    let shown = repo.run(&["watch", "."]);
    assert_eq!(shown.code, Some(0), "{}{}", shown.out, shown.err);
    assert_eq!(shown.out.matches(" completed in ").count(), 2, "{}", shown.out);
    for host in ["algo-2", "algo-0", "algo-01", "node-1"] {
        let ran = repo.run(&["logs", "starter", "--host", host, "--follow"]);
        assert_eq!(ran.code, Some(2), "{host}: {}", ran.out);
        assert!(ran.err.contains(&format!("has no host `{host}`; expected only algo-1")), "{}", ran.err);
    }
    assert_eq!(repo.run(&["logs", "starter", "--host", "algo-1"]).code, Some(0));
}

#[test]
fn advice_leads_on() {
    let repo = Repo::new("apply-advice", &["starter"]);
    // An account in memory is gone with its command.
    let applied = repo.run_plain(&["apply", "starter", "--simulate"]);
    assert!(
        applied.out.contains("next  trainc apply starter/trainc.kdl --simulate --wait"),
        "{}",
        applied.out
    );
    let waited = repo.run_plain(&["apply", "starter", "--simulate", "--wait"]);
    assert!(waited.code == Some(0) && !waited.out.contains("next"), "{}", waited.out);
    let watched = repo.run_plain(&["watch", "starter", "--simulate"]);
    assert_eq!(watched.code, Some(4));
    assert!(
        watched.err.contains("trainc apply starter/trainc.kdl --simulate=account.json"),
        "{}",
        watched.err
    );
    // A role without tags: what makes it this job's can be typed.
    assert_eq!(repo.run(&["apply", "starter"]).code, Some(0));
    let mut account = repo.account();
    let role = account["roles"].as_object_mut().unwrap().values_mut().next().unwrap();
    role["role"]["tags"] = serde_json::json!({});
    repo.0.write("account.json", account.to_string());
    let kept = repo.run(&["destroy", "starter", "--yes"]);
    assert_eq!(kept.code, Some(7), "{}{}", kept.out, kept.err);
    let typed = "aws iam tag-role --role-name trainc-my-first-job-";
    assert!(
        kept.err.contains(typed) && kept.err.contains("Key=trainc:job,Value=my-first-job"),
        "{}",
        kept.err
    );
}

/// Each fits alone, and a job that runs takes room for a while: only what can never fit is refused to who
/// waits.
#[test]
fn room_that_is_taken_is_waited_for_and_counted_together() {
    let repo = Repo::new("apply-room", &["starter"]);
    fs::create_dir_all(repo.0.0.join("second")).unwrap();
    let second = read("examples/starter/trainc.kdl").replace("\"my-first-job\"", "\"second\"");
    repo.0.write("second/trainc.kdl", second.replace("./scripts", "../starter/scripts"));
    let fresh = |quota: f64| {
        repo.0.write("account.json", format!(r#"{{"quotas": {{"L-C6383286": {quota}}}}}"#));
    };
    let jobs = || repo.account()["jobs"].as_object().unwrap().len();
    fresh(1.0);
    let refused = repo.run(&["apply", ".", "--yes"]);
    assert_eq!(refused.code, Some(5), "{}{}", refused.out, refused.err);
    let said = refused.err.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
    assert!(said.contains("but in addition to 1 instance for `second` the job needs 1 instance"), "{said}");
    assert_eq!(jobs(), 1, "the first goes on");
    // The first runs now.
    let running = repo.run(&["apply", "starter", "--yes"]);
    assert_eq!(running.code, Some(5), "{}{}", running.out, running.err);
    assert!(running.err.contains("--wait-for-capacity"), "{}", running.err);
    let waited = repo.run(&["apply", "starter", "--yes", "--wait-for-capacity", "48h"]);
    assert_eq!(waited.code, Some(0), "{}{}", waited.out, waited.err);
    assert!(waited.err.contains("The account-level service limit"), "the wait is told: {}", waited.err);
    assert_eq!(jobs(), 2);
    fresh(1.0);
    let both = repo.run(&["apply", ".", "--yes", "--wait-for-capacity", "48h"]);
    assert_eq!((both.code, jobs()), (Some(0), 2), "{}{}", both.out, both.err);
    fresh(0.0);
    let never = repo.run(&["apply", "starter", "--yes", "--wait-for-capacity", "48h"]);
    assert_eq!((never.code, jobs()), (Some(5), 0), "{}{}", never.out, never.err);
}

/// A file system is billed by the second: it is not made while a quota that can be read keeps its job out.
#[test]
fn room_is_waited_for_before_a_file_system_is_made() {
    let repo = Repo::new("apply-room-first", &["llama-7b-fsdp"]);
    let second = read("examples/llama-7b-fsdp/trainc.kdl");
    repo.0.write("second/trainc.kdl", second.replace("./scripts", "../llama-7b-fsdp/scripts"));
    repo.edit("second/trainc.kdl", "job \"llama-7b-fsdp\"", "job \"second\"");
    // Linked to something else, its file system is another one.
    repo.edit(
        "second/trainc.kdl",
        "import \"s3://example-corpus/tokens/\"",
        "import \"s3://example-corpus/other/\"",
    );
    // `ml.p4d.24xlarge for spot training job usage`: room for the one that runs, and for no other beside it.
    let busy = |more: &str| {
        repo.0.write("account.json", format!(r#"{{"quotas": {{"L-09D56C4F": 12}}{more}}}"#));
        assert_eq!(repo.run(&["apply", LLAMA, "--yes"]).code, Some(0));
    };
    let systems = || repo.account()["file_systems"].as_object().unwrap().len();
    let apply = |time: &str| {
        repo.run(&["apply", "second/trainc.kdl", "--yes", "--wait-for-capacity", time, "-o", "json"])
    };
    let first = |ran: &Ran, kind: &str, what: &str| {
        let all = lines(ran);
        all.iter().position(|one| one["type"] == what && one["kind"] == kind)
    };
    busy("");
    let vain = apply("60s");
    assert_eq!((vain.code, systems()), (Some(5), 1), "{}{}", vain.out, vain.err);
    assert!(vain.out.contains("waited 1m") && vain.out.contains("T0603"), "{}", vain.out);
    let waited = apply("48h");
    assert_eq!((waited.code, systems()), (Some(0), 2), "{}{}", waited.out, waited.err);
    let (waits, makes) = (first(&waited, "training-job", "waiting"), first(&waited, "file-system", "doing"));
    assert!(waits.is_some() && waits < makes, "{waits:?} {makes:?}: {}", waited.out);
    // Where nobody may read the quota, the job itself finds out.
    busy(r#", "denied": ["servicequotas:GetServiceQuota"]"#);
    let unread = apply("48h");
    assert_eq!((unread.code, systems()), (Some(0), 2), "{}{}", unread.out, unread.err);
    assert!(
        first(&unread, "file-system", "doing") < first(&unread, "training-job", "waiting"),
        "{}",
        unread.out
    );
}

#[test]
fn denied_foreign_and_quota_have_their_exit_codes() {
    let repo = Repo::new("apply-codes", &["llama-7b-fsdp"]);
    let with = |account: &str, code: i32, words: &str| {
        repo.0.write("account.json", account);
        let ran = repo.run(&["apply", LLAMA, "--yes"]);
        assert_eq!(ran.code, Some(code), "{}{}", ran.out, ran.err);
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    };
    with(r#"{"denied": ["sts:GetCallerIdentity"]}"#, 6, "T0601");
    with(r#"{"denied": ["iam:CreateRole"]}"#, 6, "iam:CreateRole");
    with(r#"{"quotas": {"L-09D56C4F": 0}}"#, 5, "T0621");
    with(r#"{"account": "444455556666"}"#, 0, "");
    assert_eq!(repo.run(&["apply", LLAMA, "--account", "111122223333"]).code, Some(3));
    let foreign = {
        let mut account = repo.account();
        for role in account["roles"].as_object_mut().unwrap().values_mut() {
            role["role"]["tags"] = serde_json::json!({});
        }
        account.to_string()
    };
    with(&foreign, 7, "T0605");
    let adopted = repo.run(&["apply", LLAMA, "--yes", "--adopt"]);
    let shown = adopted.out.find("tag trainc:job: none → llama-7b-fsdp").expect("what differs is shown");
    assert!(shown < adopted.out.find("applied: ").unwrap(), "{}", adopted.out);
    with(&foreign, 7, "T0605");
    let json = repo.run(&["apply", LLAMA, "--yes", "-o", "json"]);
    let told = lines(&json);
    assert_eq!(told[0]["type"], "version");
    assert!(
        told.iter().any(|one| one.pointer("/problem/code") == Some(&Value::from("T0605"))),
        "{}",
        json.out
    );
    let jobs = serde_json::json!([{"job": "llama-7b-fsdp", "manifest": LLAMA, "exit": 7}]);
    assert_eq!(told.last().unwrap(), &serde_json::json!({"type": "result", "exit": 7, "jobs": jobs}));
}

#[test]
fn emit_asks_the_account_for_what_stands_open() {
    let repo = Repo::new("apply-resolve", &["llama-7b-fsdp"]);
    let manifest = ["emit", LLAMA, "--out", "out"];
    let emit = |more: &[&str]| {
        let mut args = manifest.to_vec();
        args.extend(more);
        repo.run(&args)
    };
    let text = |path: &str| fs::read_to_string(repo.0.0.join("out").join(path)).unwrap();
    let all = |word: &str| {
        let files = ["sagemaker/training-job.json", "sagemaker/estimator.py", "iam/policy.json", "plan.md"];
        files.iter().any(|path| text(path).contains(word))
    };
    assert_eq!(emit(&[]).code, Some(2), "an account is asked with `--resolve` only");
    // Nothing is there yet: the account is known, the rest stays, and each says why.
    let first = emit(&["--resolve"]);
    assert_eq!(first.code, Some(0), "{}", first.err);
    for mark in ["${role_arn}", "${fsx.corpus.id}", "${fsx.corpus.mount}"] {
        assert!(first.err.contains(&format!("note: {mark} is not resolved: ")), "{mark}: {}", first.err);
        assert!(all(mark), "{mark}");
    }
    assert!(!all("${account}") && all("111122223333"));
    assert_eq!(repo.run(&["apply", LLAMA]).code, Some(0));
    assert_eq!(emit(&["--resolve", "--check"]).code, Some(4));
    let second = emit(&["--resolve"]);
    assert!(second.code == Some(0) && !second.err.contains("} stays"), "{}", second.err);
    assert!(!all("${"), "{}", text("sagemaker/training-job.json"));
    // What is emitted now is what was sent, to the letter.
    let account = repo.account();
    let sent = account["jobs"].as_object().unwrap().values().next().unwrap()["job"]["request"].clone();
    let emitted: Value = serde_json::from_str(&text("sagemaker/training-job.json")).unwrap();
    assert_eq!(emitted["InputDataConfig"], sent["InputDataConfig"]);
    assert_eq!(emitted["RoleArn"], sent["RoleArn"]);
    assert_eq!(emit(&["--resolve", "--check"]).code, Some(0));
    // The program's own files are the user's, whatever they say.
    repo.edit("llama-7b-fsdp/scripts/pretrain.py", "import argparse", "import argparse  # ${account}");
    assert_eq!(emit(&["--resolve"]).code, Some(0));
    assert!(text("source/pretrain.py").contains("# ${account}"));
    // A role of somebody else is not the job's.
    let mut foreign = repo.account();
    foreign["roles"].as_object_mut().unwrap().values_mut().for_each(|role| {
        role["role"]["tags"] = serde_json::json!({});
    });
    repo.0.write("account.json", foreign.to_string());
    let third = emit(&["--resolve"]);
    assert!(
        third.code == Some(0) && third.err.contains("${role_arn} is not resolved: the role"),
        "{}",
        third.err
    );
    repo.0.write("account.json", r#"{"denied": ["iam:GetRole"]}"#);
    assert_eq!(emit(&["--resolve"]).code, Some(6));
    assert_eq!(emit(&["--resolve", "--account", "444455556666"]).code, Some(3));
}

#[test]
fn the_operators_policy_is_printed() {
    let ran = trainc_in(root(), &["catalog", "permissions", "plan"], b"", Duration::from_mins(1));
    let text = ran.json().to_string();
    assert!(text.contains("iam:GetRole") && !text.contains("iam:CreateRole"), "{text}");
    assert!(!read("crates/trainc-apply/src/calls.rs").is_empty());
}

#[test]
fn a_job_of_the_account_becomes_a_manifest() {
    let repo = Repo::new("apply-import", &["starter"]);
    assert_eq!(repo.run(&["apply", "starter/trainc.kdl", "--yes"]).code, Some(0));
    let account = repo.account();
    let (name, job) = account["jobs"].as_object().unwrap().iter().next().unwrap();
    let imported = repo.run(&["import", name]);
    assert_eq!(imported.code, Some(0), "{}", imported.err);
    let instance = job["job"]["request"]["ResourceConfig"]["InstanceType"].as_str().unwrap();
    for words in
        ["Imported from a described job", "job \"my-first-job\" {", instance, "account \"111122223333\""]
    {
        assert!(imported.out.contains(words), "{words}: {}", imported.out);
    }
    assert!(imported.err.contains("the job is InProgress"), "{}", imported.err);
    repo.0.write("imported.kdl", imported.out);
    let checked = repo.run_plain(&["check", "imported.kdl"]);
    assert_eq!(checked.code, Some(0), "{}{}", checked.out, checked.err);
    let none = repo.run(&["import", "no-such-job"]);
    assert_eq!(none.code, Some(4), "{}", none.err);
    assert!(none.err.contains("is neither a file nor a training job of the account"), "{}", none.err);
    let illegal = repo.run(&["import", "no_such.json"]);
    assert_eq!(illegal.code, Some(2), "{}", illegal.err);
    repo.0.write("account.json", r#"{"denied": ["sagemaker:DescribeTrainingJob"]}"#);
    let denied = repo.run(&["import", name]);
    assert_eq!(denied.code, Some(6), "{}", denied.err);
    assert!(denied.err.contains("T0601"), "{}", denied.err);
}

#[test]
fn a_run_without_machines_is_not_taken_for_done() {
    let repo = Repo::new("apply-scarce", &["starter"]);
    let path = "starter/trainc.kdl";
    repo.0.write("account.json", r#"{"without_capacity": 1}"#);
    let first = repo.run(&["apply", path, "--yes", "--wait-for-capacity", "60s"]);
    assert_eq!(first.code, Some(5), "{}{}", first.out, first.err);
    let said = first.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("T0604") && said.contains("waited "), "{}", first.err);
    let plan = repo.run(&["plan", path, "-o", "json", "--detailed-exit-code"]);
    assert_eq!(plan.code, Some(4), "{}", plan.err);
    assert!(plan.out.contains("which found no capacity"), "{}", plan.out);
    // Without the flag the job is started all the same, and once.
    let second = repo.run(&["apply", path, "--yes"]);
    assert!(second.code == Some(0) && second.out.contains("-r2\n"), "{}{}", second.out, second.err);
    let third = repo.run(&["apply", path, "--yes"]);
    assert!(third.code == Some(0) && third.out.contains("nothing to do: "), "{}", third.out);
    assert_eq!(repo.account()["jobs"].as_object().unwrap().len(), 2);
}

#[test]
fn what_cannot_be_kept_or_understood_is_refused_before_anything_is_done() {
    let repo = Repo::new("apply-unkept", &["starter"]);
    let nowhere = ["apply", "starter/trainc.kdl", "--yes", "--simulate=nowhere/x.json"];
    let ran = repo.run_plain(&nowhere);
    assert_eq!(ran.code, Some(2), "{}", ran.out);
    assert!(
        !ran.out.contains("applied") && ran.err.contains("`nowhere/x.json` cannot be written"),
        "{}",
        ran.err
    );
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_trainc"));
    command.args(["apply", "starter/trainc.kdl", "--simulate"]).current_dir(&repo.0.0);
    let odd = command.env("TRAINC_POLL_SECONDS", "abc").output().unwrap();
    let words = String::from_utf8_lossy(&odd.stderr).into_owned();
    assert!(odd.status.code() == Some(2) && words.contains("TRAINC_POLL_SECONDS: `abc`"), "{words}");
}

#[test]
fn a_sweep_is_saved_and_applied_as_one_plan() {
    let repo = Repo::new("apply-sweep-saved", &["starter"]);
    let path = "starter/trainc.kdl";
    repo.edit(path, "    program ", "    sweep {\n        vary \"train.seed\" 1 2\n    }\n    program ");
    let saved = repo.run(&["plan", path, "--save", "sweep.plan"]);
    assert_eq!(saved.code, Some(0), "{}{}", saved.out, saved.err);
    let applied = repo.run(&["apply", "sweep.plan"]);
    assert_eq!(applied.code, Some(0), "{}{}", applied.out, applied.err);
    assert_eq!(repo.account()["jobs"].as_object().unwrap().len(), 2);
    let again = repo.run(&["apply", "sweep.plan"]);
    assert_eq!(again.code, Some(0), "{}{}", again.out, again.err);
    assert_eq!(again.out.matches("nothing to do").count(), 4, "each job, and the summary: {}", again.out);
    assert_eq!(repo.account()["jobs"].as_object().unwrap().len(), 2);
    // From elsewhere its manifest is not found, and that is said.
    let plan = repo.0.0.join("sweep.plan");
    let away = trainc_in(
        &repo.0.0.join("starter"),
        &["apply", &plan.to_string_lossy(), "--simulate"],
        b"",
        Duration::from_mins(1),
    );
    assert!(away.code == Some(2) && away.err.contains("where the plan was saved"), "{}", away.err);
    // Two manifests stay two plans.
    repo.0.write("starter/second.kdl", fs::read(repo.0.0.join(path)).unwrap());
    let two = repo.run(&["plan", path, "starter/second.kdl", "--save", "two.plan"]);
    assert!(two.code == Some(2) && two.err.contains("requires a single manifest"), "{}", two.err);
}

#[test]
fn a_role_that_was_widened_is_said_with_what_takes_it_back() {
    let repo = Repo::new("apply-widened", &["llama-7b-fsdp"]);
    assert_eq!(repo.run(&["apply", LLAMA, "--yes"]).code, Some(0));
    assert!(!repo.run(&["plan", LLAMA]).out.contains("T0667"));
    let mut account = repo.account();
    let all = r#"{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}"#;
    for role in account["roles"].as_object_mut().unwrap().values_mut() {
        role["policies"]["extra"] = all.into();
        // Its own is not as it was either, with a statement that has no name.
        role["policies"]["trainc"] = all.into();
    }
    repo.0.write("account.json", account.to_string());
    let plan = repo.run(&["plan", LLAMA]);
    let said = plan.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(plan.code, Some(0));
    assert!(said.contains("T0667") && said.contains("`extra`"), "{}", plan.out);
    let applied = repo.run(&["apply", LLAMA, "--yes"]);
    assert!(
        applied.err.contains("T0667") && applied.err.contains("aws iam delete-role-policy"),
        "{}",
        applied.err
    );
    assert!(
        applied.out.contains("statement without a Sid (Allow * on *): present → removed"),
        "{}",
        applied.out
    );
    assert!(applied.out.contains(" more\n"), "a list that is cut says so: {}", applied.out);
}

#[test]
fn who_stops_a_job_that_lost_its_tags_is_told_who_can_take_it() {
    let repo = Repo::new("apply-untagged", &["starter"]);
    let path = "starter/trainc.kdl";
    assert_eq!(repo.run(&["apply", path, "--yes"]).code, Some(0));
    let mut account = repo.account();
    account["jobs"].as_object_mut().unwrap().values_mut().for_each(|job| job["tags"] = serde_json::json!({}));
    repo.0.write("account.json", account.to_string());
    let ran = repo.run(&["stop", path, "--yes"]);
    assert_eq!(ran.code, Some(7), "{}", ran.err);
    let next = "trainc apply starter/trainc.kdl --simulate=account.json --adopt";
    assert!(one_line(&ran.err).contains(next), "{}", ran.err);
}

#[test]
fn a_manifest_of_standard_input_is_typed_as_it_was() {
    let repo = Repo::new("apply-stdin", &["starter"]);
    let manifest = fs::read(repo.0.0.join("starter/trainc.kdl")).unwrap();
    repo.0.write("account.json", r#"{"outcome": "user-code"}"#);
    let ran = |args: &[&str]| {
        let mut all = args.to_vec();
        all.push("--simulate=../account.json");
        trainc_in(&repo.0.0.join("starter"), &all, &manifest, Duration::from_mins(1))
    };
    assert_eq!(ran(&["apply", "-", "--yes"]).code, Some(0));
    let watched = ran(&["watch", "-"]);
    assert_eq!(watched.code, Some(8), "{}", watched.err);
    let next = "trainc apply - --simulate=../account.json --new-run";
    assert!(one_line(&watched.err).contains(next), "{}", watched.err);
    let again = ran(&["apply", "-", "--yes"]);
    assert!(!again.out.contains("stdin") && again.out.contains("trainc apply - "), "{}", again.out);
}

/// CloudWatch shows a line some seconds after it was written: the last ones come after the job's end, and
/// say why it failed.
#[test]
fn lines_that_show_after_the_end_are_read() {
    let repo = Repo::new("apply-late-lines", &["llama-7b-fsdp"]);
    let begin = r#"{"outcome": "out-of-memory", "log_seconds": 27}"#;
    repo.0.write("account.json", begin);
    let watched = repo.run(&["apply", LLAMA, "--wait"]);
    assert_eq!(watched.code, Some(8), "{}", watched.err);
    for words in ["T0651", "first failure: algo-1"] {
        assert!(watched.err.contains(words), "{words}: {}", watched.err);
    }
    repo.0.write("account.json", begin);
    assert_eq!(repo.run(&["apply", LLAMA, "--yes"]).code, Some(0));
    let followed = repo.run(&["logs", LLAMA, "--follow"]);
    assert_eq!(followed.code, Some(0), "{}", followed.err);
    let mut account = repo.account();
    account["log_seconds"] = 0.into();
    account["now"] = (account["now"].as_f64().unwrap() + 600.0).into();
    repo.0.write("account.json", account.to_string());
    let all = repo.run(&["logs", LLAMA]).out;
    assert!(all.contains("CUDA out of memory"), "{all}");
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&followed.out), sorted(&all), "every line once");
    // A time is a beginning as a while ago is one.
    let late = repo.run(&["logs", LLAMA, "--since", "2099-01-01T00:00:00Z"]);
    assert!(late.out.is_empty() && late.err.contains("in that time"), "{}{}", late.out, late.err);
    assert_eq!(repo.run(&["logs", LLAMA, "--since", "2026-01-01T00:00:00.5Z"]).out, all);
    let wrong = repo.run(&["logs", LLAMA, "--since", "2026-13-01T00:00:00Z"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("is not a time"), "{}", wrong.err);
}

/// The dearest preferred type bounds the cost; a run is compared with the plan for the type that the service
/// chose.
#[test]
fn a_run_is_compared_with_the_plan_for_the_chosen_type() {
    let repo = Repo::new("apply-preferred", &["starter"]);
    let path = "starter/trainc.kdl";
    let (cheap, dear) = ("ml.g5.48xlarge", "ml.p4d.24xlarge");
    repo.edit(path, "cluster \"ml.g5.12xlarge\" nodes=1", "cluster nodes=1");
    let preferences = format!("- InstanceType=\"{cheap}\"\n - InstanceType=\"{dear}\"\n");
    let request =
        format!("request {{ ResourceConfig {{ InstancePreferences {{\n {preferences} }}\n }}\n }}\n");
    repo.edit(path, "    budget usd=50\n", &format!("    budget usd=5000\n    {request}"));
    repo.0.write("account.json", format!(r#"{{"unavailable": ["{cheap}"]}}"#));
    let plan = repo.run_plain(&["plan", "--offline", "-o", "json", path]).json();
    let choice = |at: usize| &plan["choices"][at];
    assert_eq!((&choice(0)["instance"], &choice(1)["instance"]), (&cheap.into(), &dear.into()));
    assert_eq!(plan["run"]["most_usd"], choice(1)["run"]["most_usd"]);
    assert!(choice(0)["run"]["most_usd"].as_f64() < choice(1)["run"]["most_usd"].as_f64());
    let ran = repo.run(&["apply", "--yes", path]);
    let said = one_line(&ran.out);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(said.contains(&format!("without capacity {dear}")), "{said}");
    let quota = " short: 0 - 0 in use - 1 for this job (ml.p4d.24xlarge for training job usage";
    assert!(said.contains(quota), "{said}");
    // Nothing is chosen before the job has instances.
    let status = || repo.run(&["status", "-o", "json", path]).json();
    assert_eq!(status()["instance_type"], Value::Null);
    let watched = repo.run(&["watch", path]);
    let said = one_line(&(watched.out + &watched.err));
    assert!(said.contains(&format!("instance: {dear}, chosen by SageMaker")), "{said}");
    let ended = status();
    assert_eq!(ended["instance_type"], dear);
    let cents = |value: &Value| (value.as_f64().unwrap() * 100.0).round();
    assert_eq!(cents(&ended["planned_usd"]), cents(&choice(1)["run"]["cost_usd"]));
    let hours = ended["billable_seconds"].as_f64().unwrap() / 3_600.0;
    let instances = choice(1)["price"]["usd_per_hour"].as_f64().unwrap() * hours;
    let usd = ended["cost_usd"].as_f64().unwrap();
    assert!((usd / instances - 1.0).abs() < 0.01, "{usd} {instances}");
    let reported = one_line(&repo.run(&["report", path]).out);
    assert!(reported.contains(&format!("the run is on {dear}, which SageMaker chose")), "{reported}");
}
