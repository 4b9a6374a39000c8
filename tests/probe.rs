//! Measured rates and enforced budgets, as commands show them.

use crate::support::{Ran, Scratch, compile, over_base, read, trainc_in};
use std::time::Duration;
use trainc_predict::Constants;

fn run(dir: &Scratch, args: &[&str]) -> Ran {
    trainc_in(&dir.0, args, b"", Duration::from_mins(1))
}

/// A job over the fixtures' base, with these nodes.
fn job(name: &str, nodes: &str) -> Scratch {
    let dir = Scratch::new(name);
    dir.write(".git/HEAD", "");
    dir.write("base.kdl", read("tests/fixtures/base.kdl"));
    dir.write("scripts/train.py", "print('step=1')\n");
    dir.write("job.kdl", format!("extends \"base.kdl\"\njob \"a\" {{\n{nodes}\n}}\n"));
    dir
}

const OUTPUT: &str = r#"{"trainc_probe": "begin", "ranks": 16, "nodes": 2, "device": "NVIDIA A100-SXM4-40GB"}
{"trainc_probe": "constants", "values": {"gpu.A100.gemm": 0.42455, "links.fabric": 0.41715}}
{"trainc_probe": "done", "share": 0.62, "minimum": null, "slow_nodes": ["algo-2"]}
"#;

/// Half of the shipped shares: the plan becomes slower, and `report` shows both.
#[test]
fn the_output_of_a_probe_is_a_calibration() {
    let dir = job("probe-calibration", "probe");
    let rate = |args: &[&str]| {
        let base = ["plan", "job.kdl", "--offline", "-o", "json", "--exit-zero"];
        run(&dir, &[&base[..], args].concat()).json()["speed"]["tokens_per_second"].as_f64().unwrap()
    };
    dir.write("probe.log", OUTPUT);
    let (first, again) = (rate(&[]), rate(&["--calibration", "probe.log"]));
    assert!(again < 0.95 * first && again > 0.4 * first, "{again} of {first}");
    dir.write("train.log", format!("{OUTPUT}step=1 step_time=2\nstep=2 step_time=2\nstep=3 step_time=2\n"));
    let report = run(&dir, &["report", "job.kdl", "--log", "train.log", "-o", "json"]).json();
    let notes = report["notes"].to_string();
    assert!(notes.contains("by the measured rates") && notes.contains("other nodes: algo-2"), "{notes}");
}

/// The simulated job runs as the shipped constants predict, and the plan of `watch` expects more.
#[test]
fn watch_stops_a_run_that_is_slower_than_its_plan() {
    let dir = job("watch-enforce", "train { steps 2000; }\nbudget usd=5000 slowest=0.7 enforce=#true");
    let mut faster = read("crates/trainc-predict/src/constants.toml");
    for (from, to) in [
        ("\neager_transformers = ", "\neager_transformers = 15.0 # "),
        ("\nweights = ", "\nweights = 10.0 # "),
        ("\nlogits = ", "\nlogits = 10.0 # "),
        ("[gpu.A100]\ngemm = ", "[gpu.A100]\ngemm = 1.0 # "),
        ("\nflash_backward = ", "\nflash_backward = 2.2 # "),
    ] {
        assert!(faster.contains(from), "{from}");
        faster = faster.replace(from, to);
    }
    dir.write("faster.toml", &faster);
    let applied = run(&dir, &["apply", "job.kdl", "--simulate=account.json", "--yes"]);
    assert_eq!(applied.code, Some(0), "{}", applied.err);
    // A plan whose setting nobody has measured may be wrong: it is no reason to stop.
    let slow = ["watch", "job.kdl", "--simulate=account.json", "--calibration", "faster.toml", "--enforce"];
    let watched = run(&dir, &slow);
    assert_eq!(watched.code, Some(0), "{}", watched.err);
    assert!(watched.err.contains("% of the plan over"), "{}", watched.err);
    assert!(watched.err.contains("reported only"), "{}", watched.err);
    run(&dir, &["apply", "job.kdl", "--simulate=account.json", "--yes", "--new-run"]);
    let measured = "[setting.\"A100/400-efa/fsdp/huggingface/dense\"]\nrows = 40\nruns = \"4096 1024 1600 2 1.56e9 1 0.2\"\n";
    dir.write("faster.toml", format!("{faster}\n{measured}"));
    // Only what passes its limits is stopped, and only by `--enforce`.
    let watched = run(&dir, &slow);
    assert_eq!(watched.code, Some(8), "{}", watched.err);
    for words in ["% of the plan over", "stopping the job", "forecast from the steps up to"] {
        assert!(watched.err.contains(words), "{words}: {}", watched.err);
    }
    run(&dir, &["apply", "job.kdl", "--simulate=account.json", "--yes", "--new-run"]);
    let watched = run(&dir, &["watch", "job.kdl", "--simulate=account.json", "--enforce"]);
    assert_eq!(watched.code, Some(0), "{}", watched.err);
    // Loss and rate are drawn below the log.
    let drawn = |label: &str| watched.err.lines().any(|line| line.trim_start().starts_with(label));
    assert!(drawn("loss ") && drawn("tokens/s ") && watched.err.contains("% of the plan"), "{}", watched.err);
}

/// This job logs its only step after an hour, and has spent the budget before that.
#[test]
fn watch_stops_a_run_by_its_time_alone() {
    let nodes = "train { steps 1; global-batch 640_000; }";
    let dir = job("watch-enforce-time", nodes);
    let applied = run(&dir, &["apply", "job.kdl", "--simulate=account.json", "--yes"]);
    assert_eq!(applied.code, Some(0), "{}", applied.err);
    // A budget is no part of the job.
    let text = format!("extends \"base.kdl\"\njob \"a\" {{\n{nodes}\nbudget usd=10 hard=#true\n}}\n");
    dir.write("job.kdl", text);
    let watched = run(&dir, &["watch", "job.kdl", "--simulate=account.json", "--enforce"]);
    assert_eq!(watched.code, Some(8), "{}", watched.err);
    assert!(watched.err.contains("the run would cost at least $10"), "{}", watched.err);
    assert!(
        watched.err.contains("the budget is $10") && watched.err.contains("stopping the job"),
        "{}",
        watched.err
    );
}

/// A limit that cannot be enforced is no limit.
#[test]
fn enforcing_a_hard_limit_needs_a_price() {
    let cluster = "cluster \"ml.p5e.48xlarge\" nodes=1\nbudget usd=5000 hard=#true";
    let dir = job("watch-enforce-price", cluster);
    run(&dir, &["apply", "job.kdl", "--simulate=account.json", "--yes"]);
    let watched = run(&dir, &["watch", "job.kdl", "--simulate=account.json", "--enforce"]);
    assert_eq!(watched.code, Some(2), "{}", watched.err);
    assert!(watched.err.contains("pass it with `--price`"), "{}", watched.err);
}

#[test]
fn enforcing_needs_a_limit() {
    let dir = job("watch-enforce-nothing", "budget usd=5000");
    run(&dir, &["apply", "job.kdl", "--simulate=account.json", "--yes"]);
    let watched = run(&dir, &["watch", "job.kdl", "--simulate=account.json", "--enforce"]);
    assert_eq!(watched.code, Some(2), "{}", watched.err);
    assert!(watched.err.contains("`--enforce` has no limit"), "{}", watched.err);
}

/// A probe expects of each kernel the rate by which the step is timed: `fa3` is faster on Hopper.
#[test]
fn the_kernel_that_a_probe_measures_is_that_of_the_step() {
    let expected = |kernel: &str| {
        let nodes = format!(
            "cluster \"ml.p5.48xlarge\" nodes=2 {{ max-run \"1d\"; }}\n\
                train {{ attention \"{kernel}\"; }}\nprobe"
        );
        let plan = compile("job.kdl", &over_base(&nodes)).compiled.plan.unwrap();
        let expectation = plan.expectation.unwrap();
        assert_eq!(expectation.work.unwrap().attention, kernel);
        let speed = expectation.speed.unwrap();
        (speed.attention_seconds, speed.step_seconds)
    };
    let constant = |key: &str| Constants::shipped().value(key).unwrap();
    let faster = constant("gpu.H100.flash3") / constant("gpu.H100.flash2");
    let [(second, slow), (third, quick)] = ["fa2", "fa3"].map(expected);
    assert!((second.unwrap() / third.unwrap() / faster - 1.0).abs() < 1e-9, "{second:?} {third:?}");
    assert!(quick < slow, "{quick} {slow}");
    assert_eq!(expected("sdpa").0, second);
    assert_eq!(expected("cudnn").0, third);
}
