//! The examples, whole: each compiles without an error, and becomes what lies in `tests/golden/<name>/`.
//!
//! Of what `emit` writes, the definitions are kept byte for byte, and of `plan.json` the name and the digest.
//! Requests and digests are the same under every release of a minor version (docs/layers.md): after a
//! release, what is kept changes only together with the minor version. `TRAINC_BLESS=1` writes what is found;
//! read the difference before it is committed.

use crate::support::{Scratch, compile, files, read, root, trainc};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use trainc_testing::json_schema;

/// The name under which a manifest's tree is kept, its path, and the flags.
fn cases() -> Vec<(String, String, Vec<&'static str>)> {
    let mut cases = Vec::new();
    for path in files("examples", &["trainc.kdl"]) {
        let name = path.split('/').nth(1).unwrap().to_owned();
        cases.push((name, path, Vec::new()));
    }
    for path in files("examples/team-repo/jobs", &[".kdl"]) {
        let job = path.rsplit('/').next().unwrap().trim_end_matches(".kdl").to_owned();
        for env in ["dev", "prod"] {
            cases.push((format!("team-repo-{job}-{env}"), path.clone(), vec!["--env", env]));
        }
    }
    cases
}

/// What is kept of an emitted tree.
fn kept(path: &str) -> bool {
    path == "sagemaker/training-job.json"
        || path == "worker/launch.json"
        || path == "worker/worker.json"
        || path.starts_with("iam/")
        || path.starts_with("fsx/")
}

#[test]
fn examples_become_what_they_became() {
    let bless = std::env::var_os("TRAINC_BLESS").is_some();
    let golden = root().join("tests/golden");
    let scratch = Scratch::new("golden");
    let mut faults = Vec::new();
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    let schemas = ["plan", "worker"].map(|name| read(&format!("schemas/{name}.v1.json")));
    for (name, manifest, flags) in cases() {
        let out = scratch.0.join(&name);
        let mut args =
            vec!["emit", manifest.as_str(), "--out", out.to_str().unwrap(), "--today", crate::support::TODAY];
        // The worker's binary shapes a job of its engine, and each build of it is another one.
        args.extend(["--worker", "tests/fixtures/trainc-worker"]);
        args.extend(&flags);
        let ran = trainc(&args);
        if ran.code != Some(0) {
            faults.push(format!("{name}: exit {:?}\n{}", ran.code, ran.err));
            continue;
        }
        let mut found: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut all = Vec::new();
        walk(&out, &out, &mut all);
        for path in all {
            if kept(&path) {
                found.insert(path.clone(), fs::read(out.join(&path)).unwrap());
            }
        }
        let plan: Value = serde_json::from_slice(&fs::read(out.join("plan.json")).unwrap()).unwrap();
        let config = found.get("worker/worker.json").map(|bytes| serde_json::from_slice(bytes).unwrap());
        for (schema, document) in schemas.iter().zip([Some(&plan), config.as_ref()]) {
            let violations = document.map(|document| json_schema::violations(schema, document));
            faults.extend(violations.into_iter().flatten().map(|one| format!("{name}: schema: {one}")));
        }
        let request: Option<Value> =
            found.get("sagemaker/training-job.json").map(|bytes| serde_json::from_slice(bytes).unwrap());
        let short = json!({
            "job": plan["job"],
            "digest": plan["digest"],
            "training_job": request.as_ref().map_or(Value::Null, |request| request["TrainingJobName"].clone()),
        });
        found.insert(
            "identity.json".to_owned(),
            (serde_json::to_string_pretty(&short).unwrap() + "\n").into_bytes(),
        );
        let dir = golden.join(&name);
        let mut there = Vec::new();
        walk(&dir, &dir, &mut there);
        for (path, bytes) in &found {
            wanted.insert(format!("{name}/{path}"));
            let file = dir.join(path);
            if bless {
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(&file, bytes).unwrap();
            }
            match fs::read(&file) {
                Err(_) => faults.push(format!("{name}/{path}: new")),
                Ok(old) if old != *bytes => {
                    faults.push(format!("{name}/{path}: {}", first_difference(&old, bytes)))
                }
                Ok(_) => {}
            }
        }
    }
    let mut there = Vec::new();
    walk(&golden, &golden, &mut there);
    for path in there.iter().filter(|path| !wanted.contains(*path)) {
        if bless {
            fs::remove_file(golden.join(path)).unwrap();
        } else {
            faults.push(format!("{path}: nothing becomes this any more"));
        }
    }
    assert!(
        faults.is_empty(),
        "{}\nTRAINC_BLESS=1 writes what is found; requests and digests change only with a new minor version",
        faults.join("\n")
    );
}

fn walk(top: &std::path::Path, dir: &std::path::Path, out: &mut Vec<String>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            walk(top, &entry.path(), out);
        } else {
            out.push(entry.path().strip_prefix(top).unwrap().to_string_lossy().into_owned());
        }
    }
}

fn first_difference(old: &[u8], new: &[u8]) -> String {
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let at = old
        .lines()
        .zip(new.lines())
        .position(|(a, b)| a != b)
        .unwrap_or(old.lines().count().min(new.lines().count()));
    format!(
        "line {}\n    was {}\n    is  {}",
        at + 1,
        old.lines().nth(at).unwrap_or(""),
        new.lines().nth(at).unwrap_or("")
    )
}

#[test]
fn the_examples_check_without_a_warning() {
    // Both forms of the run: by file, and the whole directory at once.
    let ran = trainc(&["check", "examples", "-o", "json", "--today", crate::support::TODAY]);
    let found = ran.json();
    let jobs: Vec<&Value> = found["manifests"].as_array().unwrap().iter().collect();
    assert!(jobs.len() >= 28, "{} manifests", jobs.len());
    for job in jobs {
        for problem in job["problems"].as_array().unwrap() {
            assert_eq!(problem["severity"], "note", "{}: {}", job["path"], problem["message"]);
        }
    }
    assert_eq!(ran.code, Some(0));
}

#[test]
fn emit_twice_is_one_tree() {
    let scratch = Scratch::new("twice");
    let out = scratch.0.join("out");
    let args = ["emit", "examples/gpt2-30b-sharded/trainc.kdl", "--out", out.to_str().unwrap()];
    assert_eq!(trainc(&args).code, Some(0));
    let check: Vec<&str> = args.iter().copied().chain(["--check", "--today", "2031-01-01"]).collect();
    let again = trainc(&check);
    assert_eq!((again.code, again.out.as_str()), (Some(0), ""));
    // The manifest is read again from another place of the same text.
    assert!(read("examples/gpt2-30b-sharded/trainc.kdl").contains("gpt2-30b-sharded"));
    fs::write(out.join("surplus.txt"), "").unwrap();
    let changed = trainc(&check);
    assert_eq!(changed.code, Some(4));
    assert!(changed.out.contains("surplus.txt"), "{}", changed.out);
}

/// The container of a job whose type does not stand on `cluster`: of groups the first with a GPU, as the SDK chooses
/// (2.257.7, `image_uris._get_instance_type`), of preferences the first.
#[test]
fn groups_and_preferences_have_the_container_of_a_gpu() {
    let rest = |cluster: &str, more: &str| {
        format!(
            "job \"many\" {{\nregion \"us-west-2\"\n{cluster}\nparallel engine=\"none\"\n\
             train {{ precision \"bf16\"; micro-batch 8; steps 1000; }}\nprogram \"train.py\" source=\"./scripts\"\n\
             image \"pytorch\" version=\"2.5.1\" python=\"py311\"\noutput s3=\"s3://example-runs/out/\"\n\
             role create=#true\n{more}\n}}\n"
        )
    };
    let groups = "cluster { group \"data\" instance=\"ml.c5.18xlarge\" nodes=2; group \"dnn\" instance=\"ml.p4d.24xlarge\" nodes=1; }";
    let preferences = "request { ResourceConfig { InstancePreferences { - { InstanceType \"ml.p4d.24xlarge\"; }; - { InstanceType \"ml.p4de.24xlarge\"; }; }; }; }";
    let texts = [rest(groups, ""), rest("cluster nodes=2", preferences)];
    for text in texts {
        let outcome = compile("many.kdl", &text);
        let plan = outcome.compiled.plan_without_errors().unwrap_or_else(|| panic!("{}", outcome.lines()));
        let request = trainc_emit::training_job_request(plan, &trainc_emit::identity(plan));
        let image = request.pointer("/AlgorithmSpecification/TrainingImage").unwrap();
        assert_eq!(image, "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.5.1-gpu-py311");
    }
}
