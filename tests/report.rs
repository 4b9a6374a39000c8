//! `report`: what a run measured beside what was predicted, from logs at hand and from an account.

use crate::support::{Ran, Scratch, root, trainc_in};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

fn run(dir: &Scratch, args: &[&str]) -> Ran {
    trainc_in(&dir.0, args, b"", Duration::from_mins(1))
}

/// A copy of an example, with its scripts.
fn example(name: &str, of: &str) -> Scratch {
    let dir = Scratch::new(name);
    dir.write(".git/HEAD", "");
    for path in crate::support::files(&format!("examples/{of}"), &[".kdl", ".py", ".txt"]) {
        let inside = path.strip_prefix(&format!("examples/{of}/")).unwrap();
        dir.write(inside, fs::read(root().join(&path)).unwrap());
    }
    dir
}

fn part<'a>(report: &'a Value, name: &str) -> &'a Value {
    report["parts"].as_array().unwrap().iter().find(|part| part["name"] == name).unwrap()
}

/// The plan's seconds of a step.
fn predicted(dir: &Scratch) -> f64 {
    let plan = run(dir, &["plan", "trainc.kdl", "--offline", "-o", "json", "--exit-zero"]).json();
    plan["speed"]["step_seconds"].as_f64().unwrap()
}

#[test]
fn a_log_is_held_against_the_prediction_and_becomes_a_row() {
    for (of, close) in [
        ("starter", 0.02),
        ("llama-7b-fsdp", 0.02),
        ("gpt2-30b-sharded", 0.02),
        ("gptj-6b-tensor", 0.02),
        ("neox-20b-fsdp", 0.02),
        ("bert-squad-smddp", 0.02),
    ] {
        let dir = example(&format!("report-{of}"), of);
        let step = predicted(&dir);
        // The first steps are slow, and one in ten writes a checkpoint.
        let mut log = String::from("Invoking user script\n");
        for n in 1..=40 {
            let factor = if n <= 5 {
                9.0
            } else if n % 10 == 0 {
                3.0
            } else {
                1.04
            };
            writeln!(log, "global_step {n} | step={n} step_time={} loss=2.1", step * factor).unwrap();
        }
        dir.write("train.log", log);
        let args = ["report", "trainc.kdl", "--log", "train.log", "--csv", "runs.csv", "-o", "json"];
        let ran = run(&dir, &args);
        assert_eq!(ran.code, Some(0), "{of}: {}{}", ran.out, ran.err);
        let report = ran.json();
        let row = part(&report, "step_seconds");
        assert!((row["difference"].as_f64().unwrap() - 0.04).abs() < 1e-6, "{of}: {row}");
        assert_eq!((&row["inside_interval"], &row["of"]), (&true.into(), &35.into()), "{of}: {row}");
        assert_eq!((&report["log"]["first_step"], &report["log"]["warm_up_reports"]), (&6.into(), &5.into()));
        // The parts stand beside it and add up; the log says nothing of them.
        let parts = report["parts"].as_array().unwrap();
        let sum = |group: &str| -> f64 {
            let of = parts.iter().filter(|part| part["group"] == group);
            of.map(|part| part["predicted"].as_f64().unwrap()).sum()
        };
        assert!((sum("step_part") / step - 1.0).abs() < 1e-6, "{of}: {parts:?}");
        let memory = part(&report, "memory_bytes");
        assert!((sum("memory_part") / memory["predicted"].as_f64().unwrap() - 1.0).abs() < 1e-6, "{of}");
        let compute = part(&report, "compute_seconds");
        assert_eq!(
            (&compute["measured"], &compute["not_measured"]),
            (&Value::Null, &"not in the logs".into())
        );
        assert_eq!(memory["not_measured"], "not in the logs");
        assert_eq!(part(&report, "loss")["measured"].as_f64(), Some(2.1));
        // The same FLOP in 1.04 times the time.
        let mfu = part(&report, "mfu");
        assert!((mfu["difference"].as_f64().unwrap() - (1.0 / 1.04 - 1.0)).abs() < 1e-6, "{of}: {mfu}");
        // What follows from the step is said as well.
        let samples = part(&report, "samples_per_second");
        assert!(
            (samples["difference"].as_f64().unwrap() - (1.0 / 1.04 - 1.0)).abs() < 1e-6,
            "{of}: {samples}"
        );

        // The row says enough for the same prediction.
        let judged = run(&dir, &["calibrate", "runs.csv", "-o", "json"]).json();
        let time = &judged["rows"][0]["step_seconds"];
        let again = time["predicted"].as_f64().unwrap_or_else(|| panic!("{of}: {judged}"));
        assert!((again / step - 1.0).abs() < close, "{of}: {again} of {step}");
        assert!((time["measured"].as_f64().unwrap() / step - 1.04).abs() < 1e-6, "{of}");

        // Twice is once.
        let table = fs::read_to_string(dir.0.join("runs.csv")).unwrap();
        let twice = run(&dir, &args).json();
        assert!(twice["notes"].to_string().contains("has the run"), "{}", twice["notes"]);
        assert_eq!(fs::read_to_string(dir.0.join("runs.csv")).unwrap(), table);
    }
}

/// Llama 3.1 8B under FSDP on four p5 instances, and the log of a run that takes 27 % longer than planned.
fn measured_job(name: &str) -> (Scratch, f64) {
    let dir = Scratch::new(name);
    dir.write(".git/HEAD", "");
    dir.write("scripts/train.py", "print('step=1')\n");
    dir.write(
        "job.kdl",
        r#"job "llama-8b" {
    region "us-east-1"
    model "meta-llama/Llama-3.1-8B"
    cluster "ml.p5.48xlarge" nodes=4 {
        max-run "5d"
        volume "500GB"
    }
    parallel engine="fsdp" {
        wrap "LlamaDecoderLayer"
    }
    train {
        sequence-length 8192
        micro-batch 1
        precision "bf16"
        activation-checkpointing #true
        steps 2000
    }
    program "train.py" source="./scripts"
    image "pytorch" version="2.5.1" python="py311"
    output s3="s3://bucket/out/"
    role create=#true
}
"#,
    );
    let planned = run(&dir, &["plan", "job.kdl", "--offline", "-o", "json", "--exit-zero"]);
    let step = planned.json()["speed"]["step_seconds"].as_f64().unwrap_or_else(|| panic!("{}", planned.out));
    let mut log = String::new();
    for n in 1..=300 {
        let noise = 1.0 + 0.005 * f64::from(n % 3 - 1);
        writeln!(log, "step={n} step_time={} loss=2.1", 1.27 * step * noise).unwrap();
    }
    dir.write("train.log", log);
    (dir, step)
}

/// A measured run moves the plan of its manifest, and is named wherever it does.
#[test]
fn a_run_in_the_table_of_the_repository_moves_its_plan() {
    let (dir, step) = measured_job("report-store");
    let plan = |args: &[&str]| {
        let base = ["plan", "job.kdl", "--offline", "-o", "json", "--exit-zero"];
        run(&dir, &[&base[..], args].concat()).json()
    };
    let (planned, emit) = (plan(&[]), ["emit", "job.kdl", "--out", "generated"]);
    let emitted = run(&dir, &emit);
    assert_eq!(emitted.code, Some(0), "{}", emitted.err);
    let added = run(&dir, &["report", "job.kdl", "--log", "train.log", "--csv"]);
    assert_eq!(added.code, Some(0), "{}{}", added.out, added.err);
    let table = fs::read_to_string(dir.0.join(".trainc/runs.csv")).unwrap();
    assert_eq!(table.lines().count(), 2, "{table}");
    let own = plan(&[]);
    let speed = &own["speed"];
    let (now, high) = (speed["step_seconds"].as_f64().unwrap(), speed["interval"]["high"].as_f64().unwrap());
    assert!((now / (1.27 * step) - 1.0).abs() < 0.05 && high / now - 1.0 <= 0.08, "{speed}");
    let (file, same) = (&own["evidence"]["file"], &own["evidence"]["same"]);
    assert_eq!((file, same), (&".trainc/runs.csv".into(), &1.into()), "{}", own["evidence"]);
    assert!(own["evidence"]["newest"].as_str().is_some_and(|date| date.len() == 10), "{}", own["evidence"]);
    let cost = |plan: &Value| plan["run"]["cost_usd"].as_f64().unwrap();
    assert!(cost(&own) > 1.2 * cost(&planned), "{} {}", cost(&own), cost(&planned));
    for output in ["human", "markdown"] {
        let shown = run(&dir, &["plan", "job.kdl", "--offline", "-o", output]).out;
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("1 measured run of this layout in `.trainc/runs.csv`"), "{shown}");
    }
    // A file of constants comes before the table, and another table too.
    let constants = root().join("crates/trainc-predict/src/constants.toml");
    let of_constants = plan(&["--calibration", constants.to_str().unwrap()]);
    assert_eq!(of_constants["speed"]["step_seconds"], planned["speed"]["step_seconds"]);
    dir.write("other.csv", &table);
    assert_eq!(plan(&["--runs", "other.csv"])["evidence"]["file"], "other.csv");
    // Emitted figures moved; only `--figures` reports it.
    let check = [&emit[..], &["--check"]].concat();
    let checked = run(&dir, &check);
    assert_eq!(checked.code, Some(0), "{}{}", checked.out, checked.err);
    let figures = run(&dir, &[&check[..], &["--figures"]].concat());
    assert_eq!(figures.code, Some(4), "{}", figures.out);
    let written = fs::read_to_string(dir.0.join("generated/plan.json")).unwrap();
    dir.write("generated/plan.json", written.replace("p5.48", "p4d.24"));
    assert_eq!(run(&dir, &check).code, Some(4));
}

/// A faster run in a table that anyone may add to does not let a hard budget through.
#[test]
fn a_hard_budget_takes_the_dearer_prediction() {
    let (dir, step) = measured_job("report-budget");
    let mut log = String::new();
    for n in 1..=300 {
        writeln!(log, "step={n} step_time={} loss=2.1", 0.75 * step).unwrap();
    }
    dir.write("fast.log", log);
    let plan = || run(&dir, &["plan", "job.kdl", "--offline", "-o", "json", "--exit-zero"]).json();
    let high = |plan: &Value| plan["run"]["cost_usd_interval"]["high"].as_f64().unwrap();
    let before = high(&plan());
    let added = run(&dir, &["report", "job.kdl", "--log", "fast.log", "--csv"]);
    assert_eq!(added.code, Some(0), "{}", added.err);
    let after = high(&plan());
    assert!(after < 0.8 * before, "{after} {before}");
    let text = fs::read_to_string(dir.0.join("job.kdl")).unwrap();
    let usd = (after * 1.1).ceil();
    let check = |budget: &str| {
        dir.write("job.kdl", text.replace("    role", &format!("    {budget}\n    role")));
        run(&dir, &["check", "job.kdl", "-o", "json"])
    };
    let soft = check(&format!("budget usd={usd}"));
    assert!(!soft.out.contains("T0329"), "{}", soft.out);
    let hard = check(&format!("budget usd={usd} hard=#true"));
    assert!(hard.out.contains("T0329") && hard.out.contains("the dearer of both"), "{}", hard.out);
    assert_eq!(hard.code, Some(3));
    let without = run(&dir, &["check", "job.kdl", "--runs", "none.csv"]);
    assert_eq!(without.code, Some(2), "{}", without.err);
}

/// What somebody else left in the table is a warning with its line; as `--runs` it is an error.
#[test]
fn a_broken_table_of_runs_is_named() {
    let (dir, _) = measured_job("report-broken");
    let add = ["report", "job.kdl", "--log", "train.log", "--csv"];
    assert_eq!(run(&dir, &add).code, Some(0));
    let table = fs::read_to_string(dir.0.join(".trainc/runs.csv")).unwrap();
    let (head, row) = table.split_once('\n').unwrap();
    let plan = ["plan", "job.kdl", "--offline", "-o", "json", "--exit-zero"];
    let mine = format!("{head},mine\r\n{},1\r\n", row.trim_end());
    for (text, line) in [
        (format!("{table}x,y"), "`.trainc/runs.csv` line 3: 2 of "),
        (mine, "`.trainc/runs.csv` line 1: unknown column `mine`"),
        ("job \"a\" {}".to_owned(), "`.trainc/runs.csv` is not used: it is not a table of runs"),
    ] {
        dir.write(".trainc/runs.csv", &text);
        let planned = run(&dir, &plan);
        assert_eq!(planned.code, Some(0), "{}", planned.err);
        let said = planned.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(line), "{said}");
        if line.contains("is not a table") {
            assert_eq!(run(&dir, &add).code, Some(2));
            assert_eq!(fs::read_to_string(dir.0.join(".trainc/runs.csv")).unwrap(), text);
        }
    }
    dir.write(".trainc/runs.csv", b"id,\xff\xfe\n");
    let planned = run(&dir, &plan);
    assert!(planned.code == Some(0) && planned.err.contains("is not used"), "{}", planned.err);
    let named = run(&dir, &[&plan[..], &["--runs", ".trainc/runs.csv"]].concat());
    assert_eq!(named.code, Some(2), "{}", named.err);
}

#[test]
fn the_workers_own_lines_are_read() {
    let dir = example("report-worker", "tiny-llama");
    let mut log = String::from("{\"event\":\"start\",\"step\":0}\n");
    for n in 1..=20 {
        writeln!(
            log,
            "{{\"step\":{n},\"loss\":2.5,\"grad_norm\":0.7,\"lr\":0.0003,\"tokens_per_s\":{},\"mfu\":null,\"memory\":5242880}}",
            1000 + n
        )
        .unwrap();
    }
    // Where a run on this machine leaves it.
    dir.write("runs/tiny-llama/output/metrics.jsonl", &log);
    let ran = run(&dir, &["report", "trainc.kdl", "-o", "json", "--warm-up", "10"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let report = ran.json();
    let rate = part(&report, "tokens_per_second");
    assert_eq!(rate["measured"].as_f64(), Some(1015.5), "{rate}");
    assert_eq!(report["log"]["first_step"], 11);
    // Nothing is predicted of processors: the measured side stands alone.
    assert_eq!(rate["predicted"], Value::Null);
    assert!(report["notes"].to_string().contains("no prediction"), "{}", report["notes"]);
    let nothing = run(&dir, &["report", "trainc.kdl", "--csv", "runs.csv"]);
    assert_eq!(nothing.code, Some(2), "{}", nothing.err);
    assert!(nothing.err.contains("the layout is not known"), "{}", nothing.err);
}

#[test]
fn a_job_in_the_account_tells_its_time_and_cost() {
    let dir = example("report-account", "starter");
    let simulate = |args: &[&str]| run(&dir, &[args, &["--simulate=account.json"]].concat());
    let none = simulate(&["report", "trainc.kdl"]);
    assert_eq!(none.code, Some(4), "{}", none.err);
    assert_eq!(simulate(&["apply", "trainc.kdl", "--yes"]).code, Some(0));
    let early = simulate(&["report", "trainc.kdl", "-o", "json"]).json();
    assert!(early["notes"].to_string().contains("those of an incomplete run"), "{}", early["notes"]);
    assert_eq!(part(&early, "run_seconds")["measured"], Value::Null);
    assert_eq!(simulate(&["watch", "trainc.kdl", "-o", "json"]).code, Some(0));
    let report = simulate(&["report", "trainc.kdl", "-o", "json"]).json();
    assert_eq!(report["status"], "Completed");
    // The account in memory downloads for three minutes, trains as its plan says, and uploads for forty
    // seconds.
    let plan = run(&dir, &["plan", "trainc.kdl", "--offline", "-o", "json"]).json();
    let speed = |figure: &str| plan["speed"][figure].as_f64().unwrap();
    let lasts = (180.0 + plan["run"]["steps"].as_f64().unwrap() * speed("step_seconds") + 40.0).floor();
    assert_eq!(part(&report, "run_seconds")["measured"].as_f64(), Some(lasts));
    assert_eq!(part(&report, "download_seconds")["measured"].as_f64(), Some(180.0));
    for (name, figure) in
        [("mfu", "mfu"), ("tokens_per_second", "tokens_per_second"), ("step_seconds", "step_seconds")]
    {
        let measured = part(&report, name)["measured"].as_f64().unwrap();
        assert!((measured / speed(figure) - 1.0).abs() < 0.01, "{name}: {measured} of {}", speed(figure));
    }
    let cost = part(&report, "cost_usd")["measured"].as_f64().unwrap();
    let hourly = plan["price"]["usd_per_hour"].as_f64().unwrap();
    let nodes = plan["cluster"]["nodes"].as_f64().unwrap();
    assert!((cost - hourly * nodes * lasts / 3_600.0).abs() < 1e-6, "{cost}");
    let comment = simulate(&["report", "trainc.kdl", "-o", "markdown"]);
    assert!(comment.out.starts_with("<!-- trainc:report -->\n"), "{}", comment.out);
    let page = simulate(&["report", "trainc.kdl"]);
    assert!(page.out.contains("tokens/s") && page.out.contains("median of"), "{}", page.out);
    assert!(page.out.contains("    all-gather") && page.out.contains("not in the logs"), "{}", page.out);
    for phase in ["provisioning_seconds", "upload_seconds"] {
        assert!(part(&report, phase)["measured"].as_f64().is_some(), "{phase}: {report}");
    }
}

/// Nothing predicts a built-in algorithm but its own runs.
#[test]
fn a_job_without_a_model_is_predicted_from_its_finished_runs() {
    let dir = Scratch::new("report-algorithm");
    dir.write(".git/HEAD", "");
    dir.write(
        "job.kdl",
        r#"job "abalone" {
    region "us-west-2"
    account "111122223333"
    cluster "ml.m5.2xlarge" nodes=1 {
        max-run "1h"
        volume "30GB"
    }
    image uri="246618743249.dkr.ecr.us-west-2.amazonaws.com/sagemaker-xgboost:1.7-1"
    program {
        hyperparameter "num_round" 50
    }
    channel "train" s3="s3://example-corpus/abalone/" content-type="text/libsvm"
    output s3="s3://example-runs/abalone/"
    role arn="arn:aws:iam::111122223333:role/training"
}
"#,
    );
    let plan = |args: &[&str]| {
        let base =
            ["plan", "job.kdl", "--offline", "-o", "json", "--exit-zero", "--price", "ml.m5.2xlarge=0.5"];
        run(&dir, &[&base[..], args].concat()).json()
    };
    assert_eq!(plan(&[])["run"]["seconds"], Value::Null);
    let simulate = |args: &[&str]| run(&dir, &[args, &["--simulate=account.json"]].concat());
    let applied = simulate(&["apply", "job.kdl", "--yes"]);
    assert_eq!(applied.code, Some(0), "{}", applied.err);
    assert_eq!(simulate(&["watch", "job.kdl"]).code, Some(0));
    let report = simulate(&["report", "job.kdl", "--csv", "-o", "json"]);
    assert_eq!(report.code, Some(0), "{}", report.err);
    let report = report.json();
    assert!(report["notes"].to_string().contains("takes its time from it"), "{}", report["notes"]);
    let lasted = part(&report, "run_seconds")["measured"].as_f64().unwrap();
    let own = plan(&[]);
    let run_of = |name: &str| own["run"][name].clone();
    assert!((run_of("seconds").as_f64().unwrap() / lasted - 1.0).abs() < 0.01, "{} {lasted}", own["run"]);
    let interval = run_of("interval");
    let (low, high) = (interval["low"].as_f64().unwrap(), interval["high"].as_f64().unwrap());
    assert!(low > 0.6 * lasted && low < lasted && high > lasted && high < 1.5 * lasted, "{interval}");
    assert!(run_of("cost_usd").as_f64().unwrap() > 0.0, "{}", own["run"]);
    assert_eq!(own["evidence"]["same"], 1);
    let page = run(&dir, &["plan", "job.kdl", "--offline"]).out;
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains("the time of 1 finished run in `.trainc/runs.csv`"), "{page}");
    // On other machines it takes another time, which nobody knows.
    for set in ["cluster.nodes=2", "cluster.instance=ml.m5.4xlarge"] {
        assert_eq!(plan(&["--set", set])["run"]["seconds"], Value::Null, "{set}");
    }
}

#[test]
fn a_log_without_figures_says_what_to_print() {
    let dir = example("report-silent", "starter");
    dir.write("train.log", "hello\n");
    let ran = run(&dir, &["report", "trainc.kdl", "--log", "train.log"]);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.err.contains("error: no measurements of the run"), "{}", ran.err);
    assert!(ran.out.contains("no measurements found in the log"), "{}", ran.out);
    let words = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("looked for a number after `step_time`, `tokens_per_s`"), "{words}");
    // One figure is enough.
    dir.write("train.log", "hello\nstep=1 loss=2.5 tokens_per_s=4096\nstep=2 loss=2.4 tokens_per_s=4096\n");
    assert_eq!(run(&dir, &["report", "trainc.kdl", "--log", "train.log"]).code, Some(0));
    assert_eq!(run(&dir, &["report", "trainc.kdl", "--log", "gone.log"]).code, Some(2));
    dir.write("train.log", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n");
    let ran = run(&dir, &["report", "trainc.kdl", "--log", "train.log", "--csv", "runs.csv"]);
    assert!(ran.out.contains("ran out of memory"), "{}", ran.out);
    // After some steps it is said as well, beside their figures.
    let steps: String = (1..9).map(|step| format!("step={step} loss=2.5 tokens_per_s=4096\n")).collect();
    dir.write("late.log", format!("{steps}torch.OutOfMemoryError: CUDA out of memory.\n"));
    let late = run(&dir, &["report", "trainc.kdl", "--log", "late.log"]);
    let words = late.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("a GPU ran out of memory: the measurements are of the steps before"), "{words}");
    let judged = run(&dir, &["calibrate", "runs.csv", "-o", "json"]).json();
    assert_eq!(judged["rows"][0]["oom"], true, "{judged}");
}

/// A log at exactly the predicted step and memory is a row that `calibrate` judges within a hundredth, or no
/// row: what a table has no column for would be another job, and what is fitted to it wrong.
#[test]
fn a_row_is_of_the_planned_job_or_none() {
    type Case<'a> = (&'a str, &'a str, Vec<(&'a str, &'a str)>, Lost<'a>);
    /// What a table cannot say of a job: nothing, or what its time depends on.
    enum Lost<'a> {
        Nothing,
        Row(&'a str),
    }
    let llama = r#"model "huggyllama/llama-7b""#;
    let wrap = "        wrap \"LlamaDecoderLayer\"\n";
    let lora =
        format!("{llama}\n    adapter \"lora\" rank=64 alpha=16 targets=\"q_proj,k_proj,v_proj,o_proj\"");
    let cases: [Case; 5] = [
        ("plain", "llama-7b-fsdp", vec![], Lost::Nothing),
        ("lora", "llama-7b-fsdp", vec![(llama, &lora)], Lost::Nothing),
        // The script wraps its layers by itself.
        ("unwrapped", "llama-7b-fsdp", vec![(wrap, "")], Lost::Nothing),
        (
            "stages",
            "gptj-6b-tensor",
            vec![
                ("tensor-degree 8", "tensor-degree 2"),
                ("pipeline-degree 1", "pipeline-degree 4 microbatches=4"),
                ("micro-batch 8\n", "micro-batch 8\n        accumulation 2\n"),
            ],
            Lost::Nothing,
        ),
        (
            "experts",
            "llama-7b-fsdp",
            vec![
                (llama, r#"model "mistralai/Mixtral-8x7B-v0.1""#),
                ("LlamaDecoderLayer", "MixtralDecoderLayer"),
            ],
            Lost::Row("experts"),
        ),
    ];
    for (name, of, changes, lost) in cases {
        let dir = example(&format!("carried-{name}"), of);
        let mut text = fs::read_to_string(dir.0.join("trainc.kdl")).unwrap();
        for (old, new) in changes {
            assert!(text.contains(old), "{name}: {old}");
            text = text.replace(old, new);
        }
        dir.write("trainc.kdl", &text);
        let step = predicted(&dir);
        let log = |bytes: f64| {
            let lines = (1..=20).map(|n| {
                format!("step={n} step_time={step} max_memory_allocated_gib={}\n", bytes / f64::from(1 << 30))
            });
            dir.write("train.log", lines.collect::<String>());
        };
        log(1e10);
        let report = ["report", "trainc.kdl", "--log", "train.log", "-o", "json"];
        let first = run(&dir, &report).json();
        log(part(&first, "memory_bytes")["predicted"].as_f64().unwrap());
        let ran = run(&dir, &[&report[..], &["--csv", "runs.csv"]].concat());
        let judged = || run(&dir, &["calibrate", "runs.csv", "-o", "json"]).json()["rows"][0].clone();
        let near = |row: &Value, figure: &str| {
            let error = row[figure]["error"].as_f64().unwrap();
            assert!(error.abs() < 0.01, "{name} {figure}: {error}");
        };
        let lost = match lost {
            Lost::Row(lost) => lost,
            Lost::Nothing => {
                assert_eq!(ran.code, Some(0), "{name}: {}", ran.err);
                let row = judged();
                ["step_seconds", "peak_memory_bytes"].iter().for_each(|figure| near(&row, figure));
                continue;
            }
        };
        assert_eq!(ran.code, Some(2), "{name}: {}{}", ran.out, ran.err);
        assert!(
            ran.err.contains("nothing is added to `runs.csv`: the table has no column for"),
            "{}",
            ran.err
        );
        assert!(ran.err.contains(lost), "{name}: {}", ran.err);
        assert!(!dir.0.join("runs.csv").exists(), "{name}");
    }
}

/// Where a table has no column for what fills a card, the time is a row all the same, without the memory.
#[test]
fn a_memory_that_a_table_cannot_say_leaves_the_time() {
    for of in ["gpt2-30b-sharded", "neox-20b-fsdp", "bert-squad-smddp"] {
        let dir = example(&format!("no-memory-{of}"), of);
        let step = predicted(&dir);
        let log = |bytes: f64, steps: &str| {
            let gib = bytes / f64::from(1 << 30);
            let lines = (1..=20).map(|n| format!("step={n} {steps}max_memory_allocated_gib={gib}\n"));
            dir.write("train.log", lines.collect::<String>());
        };
        let time = format!("step_time={step} ");
        log(1e10, &time);
        let report = ["report", "trainc.kdl", "--log", "train.log", "-o", "json"];
        let planned = run(&dir, &report).json();
        log(part(&planned, "memory_bytes")["predicted"].as_f64().unwrap(), &time);
        let ran = run(&dir, &[&report[..], &["--csv", "runs.csv"]].concat());
        assert_eq!(ran.code, Some(0), "{of}: {}", ran.err);
        let notes = ran.json()["notes"].to_string();
        assert!(notes.contains("its peak memory is omitted: the table has no column for"), "{of}: {notes}");
        assert!(notes.contains("the row's predicted peak is "), "{of}: {notes}");
        let judged = run(&dir, &["calibrate", "runs.csv", "-o", "json"]).json();
        let row = &judged["rows"][0];
        assert!(row["step_seconds"]["error"].as_f64().unwrap().abs() < 0.01, "{of}: {row}");
        assert_eq!(row["peak_memory_bytes"], Value::Null, "{of}: {row}");
    }
}

/// No account has a job of this machine: what makes its log is said, and what names another.
#[test]
fn a_local_job_without_a_log_says_what_makes_one() {
    let dir = example("report-local", "tiny-llama");
    let ran = run(&dir, &["report", "trainc.kdl"]);
    assert_eq!(ran.code, Some(2), "{}", ran.out);
    assert_eq!(
        ran.err,
        "error: no log of `tiny-llama` found: `trainc run trainc.kdl` writes \
            `runs/tiny-llama/output/metrics.jsonl`; pass another with `--log FILE`\n"
    );
}

/// A line that says what cannot be is said at its place, and what it says is in no figure.
#[test]
fn what_cannot_be_is_left_out_of_a_run() {
    let dir = example("report-impossible", "starter");
    let mut log = String::new();
    for n in 1..=30 {
        let rest = match n {
            20 => " mfu=550%",
            21 => " tokens_per_s=0",
            _ => "",
        };
        // A step that would be in the median, were its line not left out.
        let seconds = if rest.is_empty() { 2.0 } else { 90.0 };
        writeln!(log, "step={n} step_time={seconds}{rest}").unwrap();
    }
    log += "step=25 step_time=2\n";
    dir.write("train.log", log);
    let ran = run(&dir, &["report", "trainc.kdl", "--log", "train.log"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    for said in [
        "train.log:20:22",
        "train.log:21:22",
        "train.log:31:1",
        "T0528",
        "`mfu` would be 550 %",
        " follows step ",
    ] {
        assert!(ran.err.contains(said), "{said}\n{}", ran.err);
    }
    let json = run(&dir, &["report", "trainc.kdl", "--log", "train.log", "-o", "json"]).json();
    let notes = json["notes"].to_string();
    assert!(notes.contains("3 lines of the log are ignored"), "{notes}");
    assert!(
        notes.contains("train.log:20: `mfu` would be 550 %, more than 100 % of the peak (T0528)"),
        "{notes}"
    );
    // What no line says alone: a step that would need more than the GPUs have.
    dir.write("quick.log", "step=1 step_time=0.001\nstep=2 step_time=0.001\n");
    let quick = run(&dir, &["report", "trainc.kdl", "--log", "quick.log"]);
    assert!(quick.out.contains("% of the peak of the GPUs"), "{}", quick.out);
    // Another log begins anew.
    dir.write("first.log", "step=9 step_time=2\n");
    let both = run(&dir, &["report", "trainc.kdl", "--log", "first.log", "--log", "quick.log"]);
    assert!(!both.err.contains("T0528"), "{}", both.err);
    let step = part(&json, "step_seconds");
    assert_eq!((step["upper_quartile"].as_f64(), step["of"].as_u64()), (Some(2.0), Some(23)), "{step}");
}

/// Runs that took a fifth longer than predicted make the next plan that much slower, and what was measured
/// lies inside of its interval; two layouts of one job are two rows.
#[test]
fn runs_of_ones_own_move_the_plan() {
    let dir = example("report-calibrated", "llama-7b-fsdp");
    let plan = |more: &[&str]| {
        let args = [&["plan", "trainc.kdl", "--offline", "-o", "json", "--exit-zero"][..], more].concat();
        run(&dir, &args).json()
    };
    let step = |plan: &Value| plan["speed"]["step_seconds"].as_f64().unwrap();
    let sets = ["train.micro-batch=1", "train.micro-batch=4", "train.activation-checkpointing=#false"];
    for set in sets.into_iter().chain(["train.micro-batch=2"]) {
        let seconds = 1.2 * step(&plan(&["--set", set]));
        let log: String = (1..=20).map(|n| format!("step={n} step_time={seconds}\n")).collect();
        dir.write("train.log", log);
        let args = ["report", "trainc.kdl", "--log", "train.log", "--csv", "runs.csv", "--set", set];
        let ran = run(&dir, &args);
        assert!(ran.code == Some(0) && ran.out.contains("added to `runs.csv`"), "{}{}", ran.out, ran.err);
        let again = run(&dir, &args);
        assert!(again.out.contains("already"), "{}", again.out);
    }
    let before = plan(&[]);
    let fitted = run(&dir, &["calibrate", "runs.csv", "--write", "own.toml"]);
    assert_eq!(fitted.code, Some(0), "{}", fitted.err);
    assert!(
        fitted.err.contains("wrote own.toml: mean error of the step times in `runs.csv` 16.7 % before"),
        "{}",
        fitted.err
    );
    assert!(
        fitted.out.contains("rows, largest error first") && !fitted.out.contains("goal"),
        "{}",
        fitted.out
    );
    let after = plan(&["--calibration", "own.toml"]);
    let slower = step(&after) / step(&before);
    assert!((1.12..1.25).contains(&slower), "{slower}");
    let [low, high] = ["low", "high"].map(|end| after["speed"]["interval"][end].as_f64().unwrap());
    let measured = 1.2 * step(&before);
    assert!(low < measured && measured < high, "{low} {measured} {high}");
    // One of the four has this layout: the plan is as narrow as repeated runs differ.
    assert!(high / step(&after) - 1.0 <= 0.08, "{high}");
    assert_eq!((&after["evidence"]["file"], &after["evidence"]["same"]), (&"own.toml".into(), &1.into()));
}
