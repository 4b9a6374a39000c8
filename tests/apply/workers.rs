//! Engine `worker` in an account: its files are uploaded where the request names them, and what cannot
//! train is refused.

use super::destroys::{ALL, destroy};
use super::{End, apply, cloud, counts, elf, plan_with, run};
use crate::support::{Scratch, root, trainc_in};
use std::fs;
use std::time::Duration;
use trainc_apply::calls::Call;
use trainc_apply::desired::Desired;
use trainc_apply::diff::Choices;
use trainc_apply::fake::{Account, Fake, Faults, Moment};
use trainc_apply::verdict;
use trainc_diag::Severity;
use trainc_ir::Plan;

const CPU: &str = "tests/fixtures/worker-cpu.kdl";
const GPU: &str = "examples/llama-7b-worker/trainc.kdl";

fn on_cores() -> Plan {
    plan_with(CPU, &[], Some(elf()))
}

#[test]
fn the_channel_of_the_request_holds_the_binary_and_its_config() {
    let plan = on_cores();
    let fake = Fake::default();
    assert!(matches!(run(&fake, apply(&fake, &plan, Choices::default())).unwrap(), End::Done(_)));
    let account = fake.account();
    let job = account.jobs.values().next().unwrap();
    let channels = job.job.request["InputDataConfig"].as_array().unwrap();
    let channel = channels.iter().find(|channel| channel["ChannelName"] == "worker").unwrap();
    let prefix = channel["DataSource"]["S3DataSource"]["S3Uri"].as_str().unwrap();
    let prefix = prefix.strip_prefix("s3://").unwrap();
    let held: Vec<&str> = account.objects.keys().filter_map(|key| key.strip_prefix(prefix)).collect();
    assert_eq!(held, ["rendezvous.key", "trainc-worker", "worker.json"]);
    assert_eq!(account.objects[&format!("{prefix}trainc-worker")], elf().len() as u64);
    assert_eq!(account.objects.len(), 3, "no program, no archive");
    // The digest of the job stands in the address, and the binary in the digest.
    let caller = trainc_apply::account::Caller {
        account: "111122223333".to_owned(),
        arn: "arn:aws:iam::111122223333:user/me".to_owned(),
    };
    let desired = Desired::new(&plan, &caller).unwrap();
    assert!(prefix.contains(&desired.digest));
    let mut newer = elf();
    newer.push(1);
    let other = Desired::new(&plan_with(CPU, &[], Some(newer)), &caller).unwrap();
    assert_ne!(other.digest, desired.digest);
    // What is uploaded is what `emit` writes.
    let bundle = trainc_emit::emit(&plan);
    let emitted = &bundle.files.iter().find(|(path, _)| path == "worker/worker.json").unwrap().1;
    let sent = desired.uploads.iter().find(|object| object.uri.ends_with("worker.json")).unwrap();
    assert_eq!(&sent.upload.bytes, emitted);
    let text = String::from_utf8(emitted.clone()).unwrap();
    assert!(text.contains(&desired.digest) && text.contains("\"gpus_per_node\": 0"), "{text}");
}

/// The hosts of a job with an enforced budget have a key as well, next to its archive. No other job has one.
#[test]
fn a_job_with_an_enforced_budget_has_a_key_until_it_is_destroyed() {
    let example = "examples/llama-7b-fsdp/trainc.kdl";
    let keys = |fake: &Fake| {
        let account = fake.account();
        let names = account.objects.keys().filter(|key| key.ends_with("rendezvous.key"));
        names.map(|key| key.trim_end_matches("rendezvous.key").to_owned()).collect::<Vec<_>>()
    };
    let enforced = ["budget.usd=1000000", "budget.enforce=#true", "budget.slowest=0.1"];
    for (sets, count) in [(&enforced[..1], 0), (&enforced[..], 1)] {
        let plan = plan_with(example, sets, None);
        let fake = Fake::default();
        assert!(matches!(run(&fake, apply(&fake, &plan, Choices::default())).unwrap(), End::Done(_)));
        let found = keys(&fake);
        assert_eq!(found.len(), count, "{sets:?}");
        for prefix in &found {
            assert!(fake.account().objects.contains_key(&format!("{prefix}sourcedir.tar.gz")), "{prefix}");
        }
        run(&fake, destroy(&fake, &plan, ALL)).unwrap();
        assert!(keys(&fake).is_empty());
    }
}

#[test]
fn killed_at_every_call_it_converges_and_destroy_takes_all() {
    let plan = on_cores();
    let calm = Fake::default();
    run(&calm, apply(&calm, &plan, Choices::default())).unwrap();
    let (calls, wanted) = (calm.calls().len(), counts(&calm.account()));
    assert_eq!(calm.calls().iter().filter(|call| **call == Call::PutObject).count(), 3);
    for k in 1..=calls {
        for moment in [Moment::Before, Moment::After] {
            let first = cloud(Account::default(), Faults { crash: Some((k, moment)), ..Faults::default() });
            assert!(run(&first, apply(&first, &plan, Choices::default())).is_none());
            let second = Fake::new(first.account());
            assert!(matches!(run(&second, apply(&second, &plan, Choices::default())).unwrap(), End::Done(_)));
            assert_eq!(counts(&second.account()), wanted, "killed {moment:?} call {k}");
        }
    }
    let gone = Fake::new(calm.account());
    let (remains, failed) = run(&gone, destroy(&gone, &plan, ALL)).unwrap();
    assert_eq!((remains.objects.len(), failed), (3, 0));
    assert!(gone.account().objects.is_empty());
}

#[test]
fn what_cannot_train_is_refused_and_still_planned() {
    let refused = |path: &str, binary: Option<Vec<u8>>| {
        let verdict = verdict::worker(&plan_with(path, &[], binary))?;
        assert_eq!(verdict.exit, 3);
        Some((verdict.diagnostic.code.id, verdict.diagnostic.message))
    };
    assert_eq!(refused(CPU, Some(elf())), None);
    // GPUs are no reason: their checkpoints are on a file system that all hosts share.
    assert_eq!(refused(GPU, Some(elf())), None);
    assert_eq!(refused(GPU, None).unwrap().0, "T0617");
    let (code, words) = refused(CPU, None).unwrap();
    assert_eq!((code, words.contains("next to trainc")), ("T0617", true), "{words}");
    // On two hosts, a group over both has no directory of checkpoints; one on each host needs none.
    let spread = |sets: &[&str]| {
        let verdict = verdict::worker(&plan_with(CPU, sets, Some(elf())))?;
        Some((verdict.exit, verdict.diagnostic.code.id, verdict.diagnostic.message))
    };
    let (exit, code, words) =
        spread(&["cluster.nodes=2", "train.global-batch=32", "parallel.shard-degree=8"]).unwrap();
    assert_eq!((exit, code), (3, "T0643"), "{words}");
    assert!(words.contains("2 hosts"), "{words}");
    assert_eq!(spread(&["cluster.nodes=2", "train.global-batch=32", "parallel.shard-degree=4"]), None);
    let script = refused(CPU, Some(b"#!/bin/sh\n".to_vec())).unwrap();
    assert_eq!((script.0, script.1.contains("x86-64")), ("T0617", true), "{}", script.1);
}

#[test]
fn a_warning_for_gpus_on_which_it_was_not_run() {
    let warning = verdict::worker_experimental(&plan_with(GPU, &[], Some(elf()))).unwrap();
    assert_eq!((warning.code.id, warning.severity), ("T0620", Severity::Warning));
    assert!(warning.message.contains("`ml.p4d.24xlarge`"), "{}", warning.message);
    assert!(warning.notes.iter().any(|note| note.contains("exit code 12")), "{:?}", warning.notes);
    assert_eq!(verdict::worker_experimental(&plan_with(CPU, &[], Some(elf()))), None);
    // Of the H200 one GPU was seen, an instance has eight.
    let sets = ["cluster.instance=ml.p5en.48xlarge", "budget.usd=200000"];
    let warning = verdict::worker_experimental(&plan_with(GPU, &sets, Some(elf()))).unwrap();
    assert!(warning.message.contains("have run it on 1 "), "{}", warning.message);
    let fsdp = "examples/llama-7b-fsdp/trainc.kdl";
    assert_eq!(verdict::worker_experimental(&plan_with(fsdp, &[], None)), None);
}

/// On GPUs the same mechanism starts the worker as on CPUs: channel, config and start command.
#[test]
fn a_job_on_gpus_is_started_as_one_on_cpus() {
    let plan = plan_with(GPU, &[], Some(elf()));
    let fake = Fake::default();
    assert!(matches!(run(&fake, apply(&fake, &plan, Choices::default())).unwrap(), End::Done(_)));
    let account = fake.account();
    let job = account.jobs.values().next().unwrap();
    let request = &job.job.request;
    let words = request["AlgorithmSpecification"]["ContainerArguments"].as_array().unwrap();
    let line = words.last().unwrap().as_str().unwrap();
    assert!(line.ends_with("exec /tmp/trainc-worker launch /opt/ml/input/data/worker/worker.json"), "{line}");
    let channels = request["InputDataConfig"].as_array().unwrap();
    let names: Vec<&str> = channels.iter().filter_map(|channel| channel["ChannelName"].as_str()).collect();
    assert_eq!(names, ["train", "runs", "worker"]);
    let held = account.objects.keys().filter(|key| key.contains("/worker/"));
    let files: Vec<&str> = held.filter_map(|key| key.rsplit('/').next()).collect();
    assert_eq!(files, ["rendezvous.key", "trainc-worker", "worker.json"]);
    let bundle = trainc_emit::emit(&plan);
    let emitted = &bundle.files.iter().find(|(path, _)| path == "worker/worker.json").unwrap().1;
    let config: serde_json::Value = serde_json::from_slice(emitted).unwrap();
    assert_eq!(config["cluster"]["gpus_per_node"], 8, "the launcher starts a rank for each GPU");
    assert_eq!(config["precision"], serde_json::json!({ "compute": "bf16", "reduce": "f32" }));
    assert_eq!(config["communication"]["backend"], "auto");
    let environment = &config["communication"]["environment"];
    assert_eq!(environment["FI_PROVIDER"], "efa");
    assert_eq!(environment["FI_EFA_USE_DEVICE_RDMA"], "1");
    let hosts = config["cluster"]["nodes"].as_u64().unwrap();
    let efa = (hosts > 1).then_some("AWS Libfabric");
    assert_eq!(environment.get("NCCL_NET").and_then(serde_json::Value::as_str), efa);
    assert_eq!(config["gpu"]["peak_flops"].as_f64(), Some(312e12));
    assert_eq!(config["gpu"]["network_bytes_per_s"].as_f64(), (hosts > 1).then_some(50e9));
    assert_eq!(
        (&config["gpu"]["attention"], &config["gpu"]["self_check"]),
        (&"auto".into(), &"enforce".into())
    );
    assert_eq!(
        request["Environment"], *environment,
        "processes that the launcher does not start see the same"
    );
}

#[test]
fn the_commands_say_so() {
    let scratch = Scratch::new("apply-worker");
    scratch.write(".git/HEAD", "");
    scratch.write("cpu.kdl", fs::read(root().join(CPU)).unwrap());
    scratch.write("gpu.kdl", fs::read(root().join(GPU)).unwrap());
    scratch.write("trainc-worker", elf());
    let run = |args: &[&str]| {
        let mut all = args.to_vec();
        all.extend(["--simulate=account.json", "--worker", "trainc-worker"]);
        trainc_in(&scratch.0, &all, b"", Duration::from_mins(1))
    };
    let planned = run(&["plan", "gpu.kdl"]);
    assert_eq!(planned.code, Some(0), "{}{}", planned.out, planned.err);
    assert!(planned.out.contains("T0620"), "{}", planned.out);
    let started = run(&["apply", "gpu.kdl", "--yes"]);
    assert_eq!(started.code, Some(0), "{}{}", started.out, started.err);
    let said = format!("{}{}", started.out, started.err);
    assert_eq!(said.matches("warning[T0620]").count(), 1, "{said}");
    // The job exists, so that nothing is to be decided any more.
    let again = run(&["apply", "gpu.kdl", "--yes"]);
    assert_eq!(again.code, Some(0), "{}{}", again.out, again.err);
    assert!(!format!("{}{}", again.out, again.err).contains("T0620"), "{}{}", again.out, again.err);
    assert_eq!(run(&["destroy", "gpu.kdl", "--yes", "--delete-data"]).code, Some(0));
    let written = scratch.0.join("account.json");
    let applied = run(&["apply", "cpu.kdl"]);
    assert_eq!(applied.code, Some(0), "{}{}", applied.out, applied.err);
    assert!(applied.out.contains("--worker trainc-worker"), "the next command: {}", applied.out);
    let again = run(&["apply", "cpu.kdl"]);
    assert!(again.out.contains("nothing to do"), "{}", again.out);
    assert_eq!(run(&["status", "cpu.kdl"]).code, Some(0));
    assert_eq!(run(&["destroy", "cpu.kdl"]).code, Some(0));
    let account = fs::read_to_string(&written).unwrap();
    assert!(account.contains("\"objects\": {}"), "{account}");
}
