//! Sweeps whose values change: what was made for a value that is gone is said, and taken away when it is named.

use super::commands::Repo;
use super::{look, plan, run};
use crate::support::{one_line, read};
use serde_json::Value;
use trainc_apply::fake::{Account, Fake};

const LLAMA: &str = "llama-7b-fsdp/trainc.kdl";
const SWEEP: &str = "sweep { vary \"train.seed\" 1 2 3 }\n    region";

/// A repository with a sweep of three seeds, applied.
fn swept(name: &str) -> Repo {
    let repo = Repo::new(name, &["llama-7b-fsdp"]);
    repo.edit(LLAMA, "    region", &format!("    {SWEEP}"));
    let applied = repo.run(&["apply", LLAMA, "--yes"]);
    assert_eq!(applied.code, Some(0), "{}{}", applied.out, applied.err);
    assert_eq!(of(&repo, "roles"), 3);
    repo
}

fn of(repo: &Repo, kind: &str) -> usize {
    repo.account()[kind].as_object().unwrap().len()
}

#[test]
fn a_value_that_is_taken_out_leaves_its_job_and_every_command_says_so() {
    let repo = swept("sweep-edited");
    let clean = repo.run(&["plan", LLAMA]);
    assert!(!clean.out.contains("T0668"), "{}", clean.out);
    repo.edit(LLAMA, "\"train.seed\" 1 2 3", "\"train.seed\" 1 2");
    let command = "trainc destroy llama-7b-fsdp/trainc.kdl --simulate=account.json --job llama-7b-fsdp-3";
    let planned = repo.run(&["plan", LLAMA, "-v"]);
    let said = one_line(&planned.out);
    assert!(said.contains("T0668") && said.contains("no longer contains `llama-7b-fsdp-3`"), "{said}");
    assert!(said.contains(command), "{said}");
    assert_eq!(said.matches("[T0668]").count(), 1, "once for the sweep: {said}");
    let applied = repo.run(&["apply", LLAMA, "--yes"]);
    assert_eq!(applied.code, Some(0), "{}", applied.err);
    let said = one_line(&applied.err);
    for words in
        ["T0668", "training job `llama-7b-fsdp-3-", "file system `fs-", "role `trainc-llama-7b", command]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    // Only what still is of the manifest goes, and what stays is said.
    let destroyed = repo.run(&["destroy", LLAMA, "--yes", "--delete-data"]);
    assert_eq!(destroyed.code, Some(0), "{}{}", destroyed.out, destroyed.err);
    assert!(one_line(&destroyed.err).contains(command), "{}", destroyed.err);
    assert_eq!((of(&repo, "roles"), of(&repo, "file_systems"), of(&repo, "objects")), (1, 1, 1));
    // Named, it goes as any other.
    let named = repo.run(&["destroy", LLAMA, "--yes", "--delete-data", "--job", "llama-7b-fsdp-3"]);
    assert_eq!(named.code, Some(0), "{}{}", named.out, named.err);
    assert!(named.out.contains("stop    training-job llama-7b-fsdp-3-"), "{}", named.out);
    for kind in ["roles", "file_systems", "associations", "objects"] {
        assert_eq!(of(&repo, kind), 0, "{kind}");
    }
    let after = repo.run(&["plan", LLAMA]);
    assert!(!after.out.contains("T0668"), "{}", after.out);
}

/// A saved plan says of each job that it makes the file system; one has, and the others come to it.
#[test]
fn a_saved_plan_of_a_sweep_goes_on_from_its_first_job() {
    let repo = Repo::new("sweep-saved", &["llama-7b-fsdp"]);
    let alone = read("examples/llama-7b-fsdp/trainc.kdl");
    repo.edit(LLAMA, "    region", &format!("    {SWEEP}"));
    let saved = repo.run(&["plan", LLAMA, "--save", "sweep.plan"]);
    assert_eq!(saved.code, Some(0), "{}{}", saved.out, saved.err);
    let once = one_line(&saved.out);
    assert_eq!(once.matches("create file system corpus").count(), 3, "{once}");
    // What the plan would have come to if it were cut off once its first job has its file system.
    let first = alone.replace("job \"llama-7b-fsdp\"", "job \"llama-7b-fsdp-1\"");
    repo.0.write("first/trainc.kdl", first.replace("./scripts", "../llama-7b-fsdp/scripts"));
    let ran = repo.run(&["apply", "first/trainc.kdl", "--yes"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let mut account = repo.account();
    for kind in ["jobs", "roles", "objects"] {
        account[kind].as_object_mut().unwrap().clear();
    }
    repo.0.write("account.json", account.to_string());
    let goes_on = repo.run(&["apply", "sweep.plan"]);
    assert_eq!(goes_on.code, Some(0), "{}{}", goes_on.out, goes_on.err);
    assert_eq!((of(&repo, "roles"), of(&repo, "file_systems")), (3, 1));
}

/// One job of those that are there can be taken away alone, and a name that is none of them is refused.
#[test]
fn one_job_of_a_sweep_goes_alone() {
    let repo = swept("sweep-one");
    let gone = repo.run(&["destroy", LLAMA, "--yes", "--delete-data", "--job", "llama-7b-fsdp-2"]);
    assert_eq!(gone.code, Some(0), "{}{}", gone.out, gone.err);
    assert_eq!((of(&repo, "roles"), of(&repo, "file_systems")), (2, 1), "which the others share");
    let going = repo.account()["jobs"].as_object().unwrap().clone();
    let going: Vec<&String> =
        going.iter().filter(|(_, one)| one["job"]["status"] == "InProgress").map(|(name, _)| name).collect();
    assert!(going.len() == 2 && going.iter().all(|name| !name.starts_with("llama-7b-fsdp-2")), "{going:?}");
    let other = repo.run(&["destroy", LLAMA, "--yes", "--job", "somebody-elses"]);
    assert_eq!(other.code, Some(2), "{}", other.out);
    assert!(other.err.contains("are named `llama-7b-fsdp-…`"), "{}", other.err);
    assert_eq!(of(&repo, "roles"), 2);
}

/// A name that begins alike and carries no tags of such a job is nobody's of ours.
#[test]
fn what_only_begins_alike_is_not_said() {
    let repo = swept("sweep-alike");
    repo.edit(LLAMA, "\"train.seed\" 1 2 3", "\"train.seed\" 1 2");
    let mut account = repo.account();
    for (kind, tags) in [("jobs", "/tags"), ("roles", "/role/tags"), ("file_systems", "/system/tags")] {
        for state in account[kind].as_object_mut().unwrap().values_mut() {
            let all = state.pointer_mut(tags).unwrap();
            if all["trainc:job"] == "llama-7b-fsdp-3" {
                all["trainc:job"] = Value::from("somebody-elses");
            }
            all.as_object_mut().unwrap().remove("trainc:job:llama-7b-fsdp-3");
        }
    }
    repo.0.write("account.json", account.to_string());
    let planned = repo.run(&["plan", LLAMA]);
    assert!(!planned.out.contains("T0668"), "{}", planned.out);
}

/// A plan of no sweep asks nothing more.
#[test]
fn a_job_of_no_sweep_costs_no_call() {
    let cloud = Fake::new(Account::default());
    let found = run(&cloud, look(&cloud).orphaned_jobs(&plan("llama-7b-fsdp", &[]), &[])).unwrap();
    assert!(found.is_empty() && cloud.calls().is_empty());
}
