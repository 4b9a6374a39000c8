//! `check --fix memory`: the edit that makes a job fit is written, and nothing else is touched.

use crate::cases::{self, Case};
use crate::support::{
    Memory, Outcome, Scratch, compile_in, files, options, read, root, trainc_in, without_allows,
};
use std::fs;
use std::time::Duration;
use trainc_diag::Diagnostic;
use trainc_syntax::suggested_edit::suggested_fix;

const JOB: &str = "// the team's job
extends \"base.kdl\"
job \"example\" {
    model \"gpt2-xl\" // a billion and a half
    train {
        sequence-length   1024 // as the data are packed
        // large, for the matrix products
        micro-batch 6
        flash-attention #false
        activation-checkpointing #false
    }
}
";

/// Whether a problem says that the job is predicted not to fit; that it may not is a note.
fn needs_more(problem: &serde_json::Value) -> bool {
    problem["code"] == "T0326" && problem["severity"] != "note"
}

/// Whether an edit moves the job to another instance type: those stand last, whatever they cost.
fn is_elsewhere(edit: &serde_json::Value) -> bool {
    edit["write"][0].as_str().unwrap().starts_with("cluster \"")
}

#[test]
fn the_edit_is_written_and_comments_stay() {
    let dir = Scratch::new("fix-memory");
    dir.write("base.kdl", read("tests/fixtures/base.kdl"));
    dir.write("scripts/train.py", "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr')\n");
    let path = dir.write("job.kdl", JOB);
    let run = |args: &[&str]| trainc_in(&dir.0, args, b"", Duration::from_mins(1));
    let memory = || {
        let found = run(&["check", "job.kdl", "-o", "json"]).json();
        let problems = found["manifests"][0]["problems"].as_array().unwrap().clone();
        problems.into_iter().find(needs_more)
    };
    let before = memory().expect("it does not fit");

    // Every edit fits, and each says what it costs; the cheapest in time is the help.
    let edits = before["facts"]["edits"].as_array().unwrap();
    assert!(edits.len() >= 2, "{edits:?}");
    // More instances cost money even where they save time: they stand last.
    let is_nodes = |edit: &serde_json::Value| {
        edit["write"].as_array().unwrap().iter().any(|one| one.as_str().unwrap().starts_with("nodes="))
    };
    let slower: Vec<(bool, bool, f64)> = edits
        .iter()
        .map(|edit| (is_elsewhere(edit), is_nodes(edit), edit["slower"].as_f64().unwrap()))
        .collect();
    assert!(slower.is_sorted(), "{slower:?}");
    for edit in edits {
        assert!(edit["per_gpu_bytes"].as_f64() <= edit["capacity_bytes"].as_f64(), "{edit}");
        let same = edit["capacity_bytes"] == before["facts"]["capacity_bytes"];
        assert_eq!(same, !is_elsewhere(edit), "{edit}");
    }
    let help = before["help"].as_str().unwrap();
    let first: Vec<&str> =
        edits[0]["write"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert!(first.iter().all(|line| help.contains(&format!("`{line}`"))), "{help}");
    assert!(help.contains("% step time"), "{help}");
    let second = edits[1]["write"][0].as_str().unwrap();
    assert!(before["notes"].to_string().contains(second), "{}", before["notes"]);

    let fixed = run(&["check", "job.kdl", "--fix", "memory"]);
    // What it changed is said line by line.
    assert!(fixed.err.contains("fixed job.kdl\n  "), "{}", fixed.err);
    assert!(first.iter().all(|line| fixed.err.contains(&format!("  + {line}\n"))), "{}", fixed.err);
    let text = fs::read_to_string(&path).unwrap();
    assert!(memory().is_none(), "{text}");
    for line in &first {
        assert!(text.lines().any(|one| one.trim() == *line), "{line}\n{text}");
    }
    // Every line of before is there, but for those that the edit is about.
    let names: Vec<&str> = first.iter().map(|line| line.split([' ', '=']).next().unwrap()).collect();
    for line in JOB.lines() {
        let edited = names.iter().any(|name| line.trim_start().starts_with(name));
        assert!(edited || text.lines().any(|one| one == line), "{line}\n{text}");
    }
    assert!(text.contains("// large, for the matrix products") && text.contains("// a billion and a half"));
    assert_eq!(
        run(&["fmt", "--check", "job.kdl"]).code,
        Some(4),
        "only the edit was made: the layout is the user's"
    );
    // Standard input is no file: nothing was fixed, and that there was nothing to fix would be false.
    let piped = trainc_in(&dir.0, &["check", "-", "--fix", "memory"], JOB.as_bytes(), Duration::from_mins(1));
    assert_eq!((piped.code, piped.out.as_str()), (Some(2), ""));
    assert!(piped.err.contains("standard input cannot be edited"), "{}", piped.err);
    // Once is enough.
    assert!(run(&["check", "job.kdl", "--fix", "memory"]).err.contains("nothing to fix"));
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

/// The examples on smaller GPUs and fewer nodes: whatever `check --fix memory` writes fits, brings no new
/// error, and of the edits that are offered none costs twice the time while one that costs little stands
/// behind it.
#[test]
fn examples_on_smaller_gpus_are_made_to_fit() {
    let smaller = ["ml.g5.12xlarge", "ml.g5.48xlarge", "ml.p3.16xlarge", "ml.g6.48xlarge", "ml.p4d.24xlarge"];
    let mut written = 0;
    for example in
        ["falcon-40b-qlora", "gpt2-30b-seq512", "gpt2-30b-sharded", "gptj-6b-tensor", "neox-20b-fsdp"]
    {
        let dir = Scratch::new(&format!("fix-{example}"));
        dir.write(".git/HEAD", "");
        for path in files(&format!("examples/{example}"), &[".kdl", ".py", ".txt"]) {
            let inside = path.strip_prefix(&format!("examples/{example}/")).unwrap();
            dir.write(inside, fs::read(root().join(&path)).unwrap());
        }
        let text = read(&format!("examples/{example}/trainc.kdl"));
        let cluster = text.lines().find(|line| line.trim_start().starts_with("cluster \"")).unwrap();
        let run = |args: &[&str]| trainc_in(&dir.0, args, b"", Duration::from_mins(1));
        let problems = || {
            let found = run(&["check", "trainc.kdl", "-o", "json"]).json();
            found["manifests"][0]["problems"].as_array().unwrap().clone()
        };
        let errors = |problems: &[serde_json::Value]| {
            let of = problems.iter().filter(|one| one["severity"] == "error" && one["code"] != "T0326");
            of.map(|one| one["code"].as_str().unwrap().to_owned()).collect::<std::collections::BTreeSet<_>>()
        };
        for instance in smaller {
            for nodes in [1, 2, 16] {
                let line = format!("    cluster \"{instance}\" nodes={nodes} {{");
                dir.write("trainc.kdl", text.replace(cluster, &line));
                let before = problems();
                let Some(memory) = before.iter().find(|one| needs_more(one)) else { continue };
                let edits = memory["facts"]["edits"].as_array().unwrap();
                // What is another training or takes more than twice the time stands behind all else.
                let late = |edit: &serde_json::Value| {
                    !edit["global_batch"].is_null()
                        || edit["slower"].as_f64().is_some_and(|share| share > 1.0)
                };
                assert!(
                    edits.is_sorted_by_key(|edit| (is_elsewhere(edit), late(edit))),
                    "{example} {line}: {edits:?}"
                );
                let kept = edits.iter().filter(|edit| edit["global_batch"].is_null() && !is_elsewhere(edit));
                let slower: Vec<f64> = kept.filter_map(|edit| edit["slower"].as_f64()).collect();
                let ruinous = slower.iter().position(|share| *share > 1.0).unwrap_or(slower.len());
                assert!(slower[ruinous..].iter().all(|share| *share > 1.0), "{example} {line}: {edits:?}");
                if edits.is_empty() || memory["help"].is_null() {
                    continue;
                }
                let fixed = run(&["check", "trainc.kdl", "--fix", "memory"]);
                assert!(fixed.err.contains("fixed"), "{example} {line}: {}", fixed.err);
                written += 1;
                let after = problems();
                let text = fs::read_to_string(dir.0.join("trainc.kdl")).unwrap();
                assert!(!after.iter().any(needs_more), "{example} {line}: {text}");
                let new: Vec<String> = errors(&after).difference(&errors(&before)).cloned().collect();
                assert!(new.is_empty(), "{example} {line}: {new:?} {edits:?}");
            }
        }
    }
    assert!(written >= 10, "{written}");
}

/// DDP's launcher goes with the engine that it belongs to, whether it is written first or last.
#[test]
fn another_engine_takes_no_launcher_along() {
    for parallel in
        [r#"engine="ddp" launcher="torchrun""#, r#"launcher="torchrun" engine="ddp""#, r#"engine="ddp""#]
    {
        let dir = Scratch::new("fix-launcher");
        dir.write(".git/HEAD", "");
        dir.write("scripts/train.py", "import argparse\n");
        dir.write(
            "job.kdl",
            format!(
                r#"job "example" {{
    region "us-west-2"
    role create=#true
    program "train.py" source="./scripts"
    output s3="s3://bucket/out/"
    model "meta-llama/Llama-2-7b-hf"
    cluster "ml.p4d.24xlarge" nodes=1
    parallel {parallel} // one process for each GPU
    train {{
        precision "bf16"
        sequence-length 2048
        micro-batch 1
        global-batch 64
        steps 100
        optimizer "adamw" lr=1e-4
    }}
    image "pytorch" version="2.5.1" python="py311"
}}
"#
            ),
        );
        let run = |args: &[&str]| trainc_in(&dir.0, args, b"", Duration::from_mins(1));
        let problems = || {
            let found = run(&["check", "job.kdl", "-o", "json"]).json();
            found["manifests"][0]["problems"].as_array().unwrap().clone()
        };
        let before = problems();
        let memory = before.iter().find(|one| needs_more(one)).expect("it does not fit");
        let help = memory["help"].as_str().unwrap();
        assert!(help.starts_with(r#"write `engine="fsdp"`"#), "{help}");
        let has = parallel.contains("launcher");
        assert_eq!(help.contains("without `parallel.launcher`"), has, "{help}");
        let removed = &memory["facts"]["edits"][0]["remove"];
        assert_eq!(removed, &serde_json::json!(if has { vec!["parallel.launcher"] } else { vec![] }));
        run(&["check", "job.kdl", "--fix", "memory"]);
        let text = fs::read_to_string(dir.0.join("job.kdl")).unwrap();
        assert!(
            text.contains("parallel engine=\"fsdp\" {") || text.contains("parallel engine=\"fsdp\" //"),
            "{text}"
        );
        assert!(text.contains("// one process for each GPU"), "{text}");
        let after = problems();
        let bad = |one: &&serde_json::Value| one["severity"] == "error" || needs_more(one);
        assert_eq!(after.iter().find(bad), None, "{text}");
    }
}

/// A calibration that the command was given judges the memory as well: what fits by the shipped figures
/// does not fit by it, and each edit has the memory and the price of a plan by the same file.
#[test]
fn edits_are_weighed_by_the_calibration_of_the_command() {
    let dir = Scratch::new("fix-calibration");
    dir.write(".git/HEAD", "");
    dir.write("base.kdl", read("tests/fixtures/base.kdl"));
    dir.write("scripts/train.py", "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr')\n");
    dir.write("job.kdl", JOB.replace("micro-batch 6", "micro-batch 2"));
    let shipped = read("crates/trainc-predict/src/constants.toml");
    let higher: String = shipped
        .lines()
        .map(|line| {
            if line.starts_with("context_bytes") {
                "context_bytes = 2.2e10\n".to_owned()
            } else {
                format!("{line}\n")
            }
        })
        .collect();
    assert_ne!(higher, shipped);
    dir.write("own.toml", higher);
    let run = |args: &[&str]| trainc_in(&dir.0, args, b"", Duration::from_mins(1));
    let memory = |args: &[&str]| {
        let found = run(&[&["check", "job.kdl", "-o", "json"], args].concat()).json();
        let problems = found["manifests"][0]["problems"].as_array().unwrap().clone();
        problems.into_iter().find(needs_more)
    };
    assert!(memory(&[]).is_none(), "by the shipped figures it fits");
    let own = ["--calibration", "own.toml"];
    let before = memory(&own).expect("by these it does not");
    let edits = before["facts"]["edits"].as_array().unwrap();
    let mut priced = 0;
    for edit in edits {
        let sets = edit["set"].as_array().unwrap().iter().flat_map(|set| ["--set", set.as_str().unwrap()]);
        let args: Vec<&str> = ["plan", "job.kdl", "-o", "json"].into_iter().chain(own).chain(sets).collect();
        let plan = run(&args).json();
        let same = |a: &serde_json::Value, b: &serde_json::Value| {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            assert!((a / b - 1.0).abs() < 1e-6, "{args:?}: {a} {b}");
        };
        same(&edit["per_gpu_bytes"], &plan["memory"]["per_gpu_bytes"]);
        if !edit["cost_usd"].is_null() {
            same(&edit["cost_usd"], &plan["run"]["cost_usd"]);
            priced += 1;
        }
    }
    assert!(priced > 0, "{edits:?}");
}

/// Other degrees, stages and engines: each is offered where it helps, and each edit that is offered, laid
/// over the job as its `set` says, fits and brings no error that the job had not.
#[test]
fn every_edit_that_is_offered_passes_every_check() {
    let job = |model: &str, nodes: u64, parallel: &str, train: &str, image: &str| {
        format!(
            "extends \"base.kdl\"\njob \"example\" {{\n    model \"{model}\"\n    cluster \"ml.p4d.24xlarge\" nodes={nodes}\n    parallel {parallel}\n    train {{\n        precision \"bf16\"\n        {train}\n        steps 100\n        optimizer \"adamw\" lr=1e-4\n    }}\n    image \"pytorch\" {image}\n}}\n"
        )
    };
    let gptj = read("examples/gptj-6b-tensor/trainc.kdl");
    let new = r#"version="2.5.1" python="py311""#;
    let long = "sequence-length 65536; micro-batch 1; global-batch 32; activation-checkpointing #true";
    let cases = [
        (
            "tensor",
            gptj.replace("tensor-degree 8", "tensor-degree 1"),
            ["tensor-degree 2", "pipeline-degree 2"],
        ),
        (
            "engine",
            job(
                "meta-llama/Llama-2-7b-hf",
                1,
                r#"engine="ddp""#,
                "sequence-length 2048; micro-batch 1; global-batch 64",
                new,
            ),
            [r#"engine="fsdp""#, r#"wrap "LlamaDecoderLayer""#],
        ),
        (
            "context",
            job("mistralai/Mistral-7B-v0.1", 2, r#"engine="smp" { shard-degree 16 }"#, long, new),
            ["context-degree 2", "parallel.context-degree=2"],
        ),
    ];
    for (name, text, wanted) in cases {
        let dir = Scratch::new(&format!("offered-{name}"));
        dir.write(".git/HEAD", "");
        let base = "// What every job of these tests has.\nregion \"us-west-2\"\nprogram \"train.py\" source=\"./scripts\"\nrole create=#true\noutput s3=\"s3://bucket/out/\"\n";
        dir.write("base.kdl", base);
        dir.write("scripts/train.py", "import argparse\n");
        dir.write("scripts/train_gptj_smp_tensor_parallel_script.py", "import argparse\n");
        dir.write("job.kdl", &text);
        let problems = |sets: &[&str]| {
            let sets = sets.iter().flat_map(|set| ["--set", *set]);
            let args: Vec<&str> = ["check", "job.kdl", "-o", "json"].into_iter().chain(sets).collect();
            let found = trainc_in(&dir.0, &args, b"", Duration::from_mins(1)).json();
            found["manifests"][0]["problems"].as_array().unwrap().clone()
        };
        let errors = |problems: &[serde_json::Value]| -> Vec<String> {
            let of = problems.iter().filter(|one| one["severity"] == "error" && one["code"] != "T0326");
            of.map(|one| format!("{} {}", one["code"], one["message"])).collect()
        };
        let before = problems(&[]);
        let memory =
            before.iter().find(|one| needs_more(one)).unwrap_or_else(|| panic!("{name}: {before:?}"));
        let edits = memory["facts"]["edits"].as_array().unwrap();
        let written = memory["facts"]["edits"].to_string().replace("\\\"", "\"");
        assert!(wanted.iter().all(|line| written.contains(line)), "{name}: {written}");
        for edit in edits {
            let sets: Vec<&str> =
                edit["set"].as_array().unwrap().iter().map(|set| set.as_str().unwrap()).collect();
            let after = problems(&sets);
            assert!(!after.iter().any(needs_more), "{name} {sets:?}");
            let new: Vec<String> =
                errors(&after).into_iter().filter(|one| !errors(&before).contains(one)).collect();
            assert!(new.is_empty(), "{name} {sets:?}: {new:?}");
        }
    }
}

/// A larger card is named with what it costs, after all that keeps the type, and only where nothing else
/// would be said of the job there: the container has kernels for it, and its region offers it.
#[test]
fn a_larger_instance_type_is_named_last_with_its_price() {
    let dir = Scratch::new("fix-elsewhere");
    dir.write(".git/HEAD", "");
    dir.write("base.kdl", read("tests/fixtures/base.kdl"));
    dir.write("scripts/train.py", "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr')\n");
    dir.write("job.kdl", JOB.replace("micro-batch 6", "micro-batch 5"));
    let check = |args: &[&str]| {
        let args = [&["check", "job.kdl", "-o", "json"], args].concat();
        let found = trainc_in(&dir.0, &args, b"", Duration::from_mins(1)).json();
        let problems = found["manifests"][0]["problems"].as_array().unwrap().clone();
        problems.into_iter().find(needs_more).expect("it does not fit")
    };
    let named = |problem: &serde_json::Value| -> Vec<String> {
        let edits = problem["facts"]["edits"].as_array().unwrap();
        let elsewhere = edits.iter().filter(|edit| is_elsewhere(edit));
        elsewhere.map(|edit| edit["write"][0].as_str().unwrap().to_owned()).collect()
    };
    let here = check(&[]);
    let said = here["notes"].to_string().replace("\\\"", "\"");
    let edits = here["facts"]["edits"].as_array().unwrap();
    assert!(!edits.is_empty() && edits.is_sorted_by_key(is_elsewhere), "{edits:?}");
    // Of two with as much memory the cheaper, whose price in this region is an estimate.
    assert_eq!(named(&here), [r#"cluster "ml.p4de.24xlarge""#]);
    let price = |problem: &serde_json::Value| {
        let edits = problem["facts"]["edits"].as_array().unwrap();
        edits.iter().find(|edit| is_elsewhere(edit)).unwrap()["cost_usd"].as_f64()
    };
    assert!(price(&here).unwrap() > 0.0);
    assert!(said.contains(r#"`cluster "ml.p4de.24xlarge"` (63."#), "{said}");
    assert!(said.contains(", an estimated $") && said.contains(" instead of $"), "{said}");
    // A price of the user decides.
    let priced = check(&["--price", "ml.p5.48xlarge=20"]);
    assert_eq!(named(&priced), [r#"cluster "ml.p5.48xlarge""#]);
    // PyTorch 1.13 has no kernels for a card of a later generation.
    let old = check(&["--set", "image.version=1.13.1", "--set", "image.python=py39"]);
    assert_eq!(named(&old), [r#"cluster "ml.p4de.24xlarge""#]);
    assert!(price(&old).unwrap() > 0.0);
    assert!(old["notes"].to_string().contains(", an estimated $"), "{old}");
    // Where the region does not offer it, it is not named.
    let far = check(&["--set", "region=eu-west-1"]);
    assert!(!named(&far).contains(&r#"cluster "ml.p4de.24xlarge""#.to_owned()), "{far}");
}

/// An edit that surely fits is written before one that may not, unless it takes over a quarter longer; what
/// is written and may not fit is said to.
#[test]
fn what_surely_fits_is_written_first() {
    let dir = Scratch::new("fix-surely");
    dir.write(".git/HEAD", "");
    let text = read("examples/bert-squad-smddp/trainc.kdl")
        .replace("\n        micro-batch 4\n", "\n        micro-batch 192\n");
    let path = dir.write("trainc.kdl", &text);
    let run = |args: &[&str]| trainc_in(&dir.0, args, b"", Duration::from_mins(1));
    let problems = || {
        let found = run(&["check", "trainc.kdl", "-o", "json"]).json();
        found["manifests"][0]["problems"].as_array().unwrap().clone()
    };
    let before = problems();
    let memory = before.iter().find(|one| needs_more(one)).expect("it does not fit");
    let edits = memory["facts"]["edits"].as_array().unwrap();
    // Some edit that may not fit is cheaper, and not by a quarter of the step.
    let slower = |edit: &serde_json::Value| 1.0 + edit["slower"].as_f64().unwrap();
    let here = || edits.iter().filter(|edit| !is_elsewhere(edit) && edit["global_batch"].is_null());
    let cheapest = here().map(slower).min_by(f64::total_cmp).unwrap();
    assert!(slower(&edits[0]) > cheapest && slower(&edits[0]) <= 1.25 * cheapest, "{edits:?}");
    let fixed = run(&["check", "trainc.kdl", "--fix", "memory"]);
    assert!(!fixed.err.contains("may not fit"), "{}", fixed.err);
    let plan = run(&["plan", "trainc.kdl", "-o", "json"]).json();
    let high = plan["memory"]["interval"]["high"].as_f64().unwrap();
    assert!(
        high <= plan["memory"]["capacity_bytes"].as_f64().unwrap(),
        "{}",
        fs::read_to_string(&path).unwrap()
    );
}

/// An edit of what the command line holds says why it cannot be written, and stands there as it would be
/// typed.
#[test]
fn what_the_command_line_holds_is_said() {
    let said = |sets: &[&str]| {
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        let args: Vec<&str> =
            ["check", "examples/gpt2-30b-sharded/trainc.kdl"].into_iter().chain(sets).collect();
        let ran = trainc_in(root(), &args, b"", Duration::from_mins(1));
        format!("{}{}", ran.out, ran.err).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let held = said(&["parallel.shard-degree=32", "cluster.nodes=16"]);
    assert!(
        held.contains("or `shard-degree 128` (−10.1 GiB, +1% step time, overridden by `--set`)"),
        "{held}"
    );
    assert!(held.contains("write `micro-batch 3` (−9.69 GiB, +7% step time)"), "{held}");
    assert_eq!(held.matches("overridden by").count(), 2, "{held}");
}

/// Of what is written and may not fit it is said how much is predicted, at the upper end too.
#[test]
fn what_is_written_and_may_not_fit_is_said() {
    let dir = Scratch::new("fix-maybe");
    dir.write(".git/HEAD", "");
    dir.write("scripts/train.py", "print()\n");
    let text = read("tests/fixtures/base.kdl")
        .replace("model \"gpt2-xl\"", "model \"huggyllama/llama-7b\"")
        .replace("cluster \"ml.p4d.24xlarge\" nodes=2", "cluster \"ml.g5.48xlarge\" nodes=1")
        .replace("wrap \"GPT2Block\"", "wrap \"LlamaDecoderLayer\"")
        .replace("activation-checkpointing #true", "activation-checkpointing #false")
        .replace("micro-batch 4", "micro-batch 4\n    global-batch 64");
    dir.write("trainc.kdl", format!("job \"tight\" {{\n{text}}}\n"));
    let run = |args: &[&str]| trainc_in(&dir.0, args, b"", Duration::from_mins(1));
    let fixed = run(&["check", "trainc.kdl", "--fix", "memory"]);
    assert!(fixed.err.contains("fixed trainc.kdl"), "{}", fixed.err);
    let plan = run(&["plan", "trainc.kdl", "-o", "json"]).json();
    let [needs, high, has] = ["/memory/per_gpu_bytes", "/memory/interval/high", "/memory/capacity_bytes"]
        .map(|at| {
            trainc_diag::text::bytes(
                format!("{:.0}", plan.pointer(at).unwrap().as_f64().unwrap()).parse().unwrap(),
            )
        });
    let note =
        format!("note: trainc.kdl: may still not fit: predicted {needs} (upper bound {high}) of {has}\n");
    assert!(fixed.err.contains(&note), "{note}\n{}", fixed.err);
}

/// A shard degree that is written stays where nodes are added: what is to be written beside them is said,
/// and holds the job.
#[test]
fn nodes_are_named_with_the_degree_that_makes_them_one_group() {
    let dir = Scratch::new("fix-too-large-degree");
    dir.write(".git/HEAD", "");
    dir.write("scripts/train.py", "print()\n");
    let text = read("tests/fixtures/base.kdl")
        .replace("model \"gpt2-xl\"", "model \"huggyllama/llama-7b\"")
        .replace("cluster \"ml.p4d.24xlarge\" nodes=2", "cluster \"ml.g5.xlarge\" nodes=2")
        .replace(
            "wrap \"GPT2Block\"",
            "wrap \"LlamaDecoderLayer\"\n    strategy \"hybrid-shard\"\n    shard-degree 2",
        )
        .replace("steps 100", "global-batch 64\n    steps 100_000");
    dir.write("trainc.kdl", format!("job \"large\" {{\n{text}}}\n"));
    let run = |args: &[&str]| trainc_in(&dir.0, args, b"", Duration::from_mins(1));
    let found = run(&["check", "trainc.kdl", "-o", "json"]).json();
    let problems = found["manifests"][0]["problems"].as_array().unwrap();
    let error = problems.iter().find(|one| one["severity"] == "error").unwrap();
    let homes = error["facts"]["nodes_that_hold_it"].as_array().unwrap();
    assert!(!homes.is_empty(), "{error}");
    for home in homes {
        assert_eq!(home["beside"], "strategy \"full-shard\"");
        assert_eq!(home["remove"], "shard-degree");
        let (instance, nodes) = (home["instance"].as_str().unwrap(), home["nodes"].as_u64().unwrap());
        let written = text
            .replace("\"ml.g5.xlarge\" nodes=2", &format!("\"{instance}\" nodes={nodes}"))
            .replace("strategy \"hybrid-shard\"\n    shard-degree 2", "strategy \"full-shard\"");
        dir.write("other.kdl", format!("job \"large\" {{\n{written}}}\n"));
        let plan = run(&["plan", "other.kdl", "-o", "json"]).json();
        assert_eq!(plan["memory"]["fits"], true, "{home}");
        assert_eq!(plan["memory"]["per_gpu_bytes"].as_f64(), home["per_gpu_bytes"].as_f64());
    }
}

/// A manifest of 70 billion parameters with the rest of its nodes, in a directory of its own: that, its
/// path and its text.
fn seventy_billion(name: &str, nodes: &str) -> (Scratch, std::path::PathBuf, String) {
    let dir = Scratch::new(name);
    dir.write(".git/HEAD", "");
    dir.write("scripts/train.py", "print()\n");
    let text = format!(
        r#"job "large" {{
    region "us-west-2"
    account "111122223333"
    model "meta-llama/Llama-2-70b-hf"
{nodes}    role arn="arn:aws:iam::111122223333:role/r"
}}
"#
    );
    let path = dir.write("trainc.kdl", &text);
    (dir, path, text)
}

/// More nodes of the type that is written, and the shard degree over them: the help is what is written.
#[test]
fn nodes_that_hold_the_states_are_written() {
    let (dir, path, text) = seventy_billion(
        "fix-more-nodes",
        r#"    cluster "ml.p5.48xlarge" nodes=2 { max-run "5d"; }
    parallel engine="smp" { shard-degree 8; }
    train { precision "bf16"; sequence-length 4096; micro-batch 1; activation-checkpointing #true; flash-attention #true; steps 1_000; }
    program "train.py" source="./scripts"
    image "pytorch" version="2.3.1" python="py311"
"#,
    );
    let run = |args: &[&str]| trainc_in(&dir.0, args, b"", Duration::from_mins(1));
    // A price of the user decides between types.
    let price = ["--price", "ml.p5.48xlarge=1"];
    let found = run(&[&["check", "trainc.kdl", "-o", "json"], &price[..]].concat()).json();
    let problems = found["manifests"][0]["problems"].as_array().unwrap();
    let memory = problems.iter().find(|one| one["code"] == "T0326").unwrap();
    let home = &memory["facts"]["nodes_that_hold_it"][0];
    assert_eq!(
        (&home["instance"], &memory["facts"]["edits"]),
        (&"ml.p5.48xlarge".into(), &serde_json::json!([]))
    );
    let fixed = run(&[&["check", "trainc.kdl", "--fix", "memory"], &price[..]].concat());
    let (nodes, beside) = (home["nodes"].as_u64().unwrap(), home["beside"].as_str().unwrap());
    let expected = text.replace("nodes=2", &format!("nodes={nodes}")).replace("shard-degree 8", beside);
    assert_eq!(fs::read_to_string(&path).unwrap(), expected, "{}", fixed.err);
    let plan = run(&["plan", "trainc.kdl", "-o", "json"]).json();
    assert_eq!(plan["memory"]["fits"], true, "{home}");
}

/// What more nodes leave of memory is what the written manifest plans: where the global batch stays, they
/// accumulate less.
#[test]
fn more_nodes_beside_a_smaller_micro_batch_plan_as_said() {
    let (dir, path, _) = seventy_billion(
        "fix-nodes-and-micro",
        r#"    cluster "ml.p4d.24xlarge" nodes=4 { max-run "5d"; }
    parallel engine="fsdp" { strategy "full-shard"; wrap "LlamaDecoderLayer"; }
    train { precision "bf16"; sequence-length 4096; micro-batch 4; global-batch 256; flash-attention #true; epochs 3; dataset sequences=9_001; }
    program "train.py" source="./scripts"
    image "pytorch" version="2.7.1" python="py312"
"#,
    );
    let run = |args: &[&str]| trainc_in(&dir.0, args, b"", Duration::from_mins(1));
    let found = run(&["check", "trainc.kdl", "-o", "json"]).json();
    let problems = found["manifests"][0]["problems"].as_array().unwrap();
    let edits = problems.iter().find(|one| one["code"] == "T0326").unwrap()["facts"]["edits"].clone();
    let edits = edits.as_array().unwrap();
    let has = |edit: &serde_json::Value, word: &str| edit["set"].to_string().contains(word);
    assert!(has(&edits[0], "cluster.nodes") && has(&edits[0], "micro-batch"), "{edits:?}");
    for edit in edits.iter().filter(|edit| has(edit, "cluster.nodes")) {
        let sets = edit["set"].as_array().unwrap().iter().map(|set| set.as_str().unwrap());
        let args: Vec<&str> = ["plan", "trainc.kdl", "-o", "json"]
            .into_iter()
            .chain(sets.flat_map(|set| ["--set", set]))
            .collect();
        let plan = run(&args).json();
        assert_eq!(plan["memory"]["per_gpu_bytes"].as_f64(), edit["per_gpu_bytes"].as_f64(), "{edit}");
        let (planned, said) = (plan["run"]["cost_usd"].as_f64().unwrap(), edit["cost_usd"].as_f64().unwrap());
        assert!((planned / said - 1.0).abs() < 1e-9, "{planned} planned, {said} said: {edit}");
        assert_eq!(
            (&plan["memory"]["fits"], &plan["batch"]["global_sequences"]),
            (&true.into(), &256.into())
        );
    }
    run(&["check", "trainc.kdl", "--fix", "memory"]);
    assert!(!fs::read_to_string(&path).unwrap().contains("nodes=4"));
    let fixed = run(&["plan", "trainc.kdl", "-o", "json"]).json();
    assert_eq!(fixed["memory"]["per_gpu_bytes"].as_f64(), edits[0]["per_gpu_bytes"].as_f64());
}

/// Where more nodes make a step larger, an epoch is of fewer whole steps: time and dollars are those of the
/// plan.
#[test]
fn more_nodes_over_whole_epochs_cost_as_said() {
    let (dir, _, _) = seventy_billion(
        "fix-nodes-and-epochs",
        r#"    cluster "ml.p4d.24xlarge" nodes=4 { max-run "5d"; }
    parallel engine="fsdp" { strategy "full-shard"; wrap "LlamaDecoderLayer"; }
    train { precision "bf16"; sequence-length 4096; micro-batch 2; activation-checkpointing #true; flash-attention #true; epochs 3; dataset sequences=1_001; }
    program "train.py" source="./scripts"
    image "pytorch" version="2.7.1" python="py312"
"#,
    );
    let run = |args: &[&str]| trainc_in(&dir.0, args, b"", Duration::from_mins(1));
    let found = run(&["check", "trainc.kdl", "-o", "json"]).json();
    let problems = found["manifests"][0]["problems"].as_array().unwrap();
    let memory = problems.iter().find(|one| one["code"] == "T0326").unwrap();
    let edits = memory["facts"]["edits"].as_array().unwrap();
    let grown: Vec<_> =
        edits.iter().filter(|edit| edit["set"][0].as_str().unwrap().starts_with("cluster.nodes=")).collect();
    assert!(!grown.is_empty(), "{edits:?}");
    for edit in grown {
        let plan =
            run(&["plan", "trainc.kdl", "-o", "json", "--set", edit["set"][0].as_str().unwrap()]).json();
        let (planned, said) = (plan["run"]["cost_usd"].as_f64().unwrap(), edit["cost_usd"].as_f64().unwrap());
        assert!((planned / said - 1.0).abs() < 1e-9, "{planned} planned, {said} said: {edit}");
        // 1,001 sequences over more than 64 of a step do not divide: a ratio of sequences would be off.
        assert_ne!(1_001 % plan["batch"]["global_sequences"].as_u64().unwrap(), 0);
    }
}

/// Where no edit of the layout helps, another type is not written: what holds it is money, and the user's
/// to choose.
#[test]
fn nothing_is_written_where_another_type_is_needed() {
    let dir = Scratch::new("fix-too-large");
    dir.write(".git/HEAD", "");
    dir.write("scripts/train.py", "print()\n");
    let text = read("tests/fixtures/base.kdl")
        .replace("model \"gpt2-xl\"", "model \"meta-llama/Llama-2-70b-hf\"")
        .replace("cluster \"ml.p4d.24xlarge\" nodes=2", "cluster \"ml.g5.xlarge\" nodes=1")
        .replace("wrap \"GPT2Block\"", "wrap \"LlamaDecoderLayer\"")
        .replace("steps 100", "global-batch 64\n    steps 100_000");
    let text = format!("job \"large\" {{\n{text}}}\n");
    let path = dir.write("trainc.kdl", &text);
    let run = |args: &[&str]| trainc_in(&dir.0, args, b"", Duration::from_mins(1));
    let fixed = run(&["check", "trainc.kdl", "--fix", "memory"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), text, "{}", fixed.err);
    // What the help says holds it, for the command line as well as for the editor.
    let found = run(&["check", "trainc.kdl", "-o", "json"]).json();
    let problems = found["manifests"][0]["problems"].as_array().unwrap();
    let errors: Vec<_> = problems.iter().filter(|one| one["severity"] == "error").collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    let home = &errors[0]["facts"]["nodes_that_hold_it"][0];
    let (instance, nodes) = (home["instance"].as_str().unwrap(), home["nodes"].as_u64().unwrap());
    dir.write(
        "trainc.kdl",
        text.replace("\"ml.g5.xlarge\" nodes=1", &format!("\"{instance}\" nodes={nodes}")),
    );
    let plan = run(&["plan", "trainc.kdl", "-o", "json"]).json();
    assert_eq!(plan["memory"]["fits"], true, "{home}");
    assert_eq!(plan["memory"]["per_gpu_bytes"].as_f64(), home["per_gpu_bytes"].as_f64());
    assert_eq!(plan["run"]["seconds"].as_f64().map(f64::round), home["seconds"].as_f64());
    // And half of several nodes do not surely hold it.
    if nodes > 1 {
        let fewer = format!("\"{instance}\" nodes={}", nodes / 2);
        dir.write("trainc.kdl", text.replace("\"ml.g5.xlarge\" nodes=1", &fewer));
        let plan = run(&["plan", "trainc.kdl", "-o", "json"]).json();
        let [high, has] = ["/memory/interval/high", "/memory/capacity_bytes"]
            .map(|at| plan.pointer(at).and_then(serde_json::Value::as_f64).unwrap());
        assert!(high > has, "{fewer}: {high} of {has}");
    }
}

/// Compiles a text in memory with the files that it names.
fn in_memory(name: &str, text: &str) -> Outcome {
    compile_in(Memory::default(), name, text, &options(""))
}

/// The problems with a fix, and the selection among them; the text with the selected fixes.
fn fixed(name: &str, text: &str, code: Option<&str>) -> (String, usize) {
    use trainc_ops::fixes;
    let before = in_memory(name, text);
    let requested = fixes::requested(before.compiled.problems.iter(), &before.sources, code);
    let state = fixes::State::new(&before.compiled, &before.sources);
    let id = before.sources.iter().find(|(_, source)| *source.name == *name).map(|(id, _)| id).unwrap();
    let selection = fixes::select(&before.sources, &requested, code.is_some(), &[state], |texts| {
        let after = in_memory(name, texts.get(&id).map_or(text, String::as_str));
        vec![fixes::State::new(&after.compiled, &after.sources)]
    });
    let fixed = selection.texts.get(&id).cloned().unwrap_or_else(|| text.to_owned());
    (fixed, requested.len())
}

/// What plan.json says is trained; null is what could not be computed.
fn training(outcome: &Outcome) -> Vec<(&'static str, Option<String>)> {
    let Some(plan) = outcome.compiled.plan.as_deref() else { return Vec::new() };
    let job = &plan.job;
    let parallel = job.parallel.as_ref();
    let hyperparameters = job.program.as_ref().and_then(|program| {
        let values =
            program.hyperparameters.iter().map(|h| Some(format!("{}={:?}", h.name, h.value.value()?)));
        values.collect::<Option<Vec<_>>>().map(|values| values.join(" "))
    });
    vec![
        ("instance", job.cluster.as_ref().and_then(|cluster| cluster.instance.value().cloned())),
        ("nodes", job.cluster.as_ref().and_then(|cluster| Some(cluster.nodes.get()?.to_string()))),
        ("engine", trainc_engine::of_job(job).map(|engine| engine.name().to_owned())),
        ("wrap", parallel.and_then(|parallel| parallel.wrap.value().cloned())),
        ("precision", job.train.precision.value().cloned()),
        ("quantize", job.quantize.as_ref().map(|quantize| format!("{:?}", quantize.kind.value()))),
        ("adapter", job.adapter.as_ref().and_then(|adapter| Some(adapter.rank.get()?.to_string()))),
        ("model", plan.model.as_ref().map(|model| model.name.clone())),
        ("mesh", plan.mesh.as_ref().map(|mesh| format!("{} {}", mesh.world_size, mesh.shard_degree.value))),
        ("batch", plan.batch.as_ref().map(|batch| batch.global_sequences.value.to_string())),
        ("micro-batch", plan.batch.as_ref().map(|batch| batch.micro_batch_size.value.to_string())),
        ("steps", plan.run.steps.as_ref().map(|steps| steps.value.to_string())),
        ("hyperparameters", hyperparameters),
        ("image", plan.image.as_ref().map(|image| image.uri.clone())),
    ]
}

/// No fix of any case, example or imported request adds an error, and `--fix all` changes nothing that is
/// trained.
#[test]
fn fixes_add_no_error_and_all_keeps_the_training() {
    let suite = cases::all().into_iter().filter(Case::is_plain).map(|case| case.whole());
    let examples = files("examples", &[".kdl"]).into_iter().map(|path| read(&path));
    let imported = files("tests/import", &[".json", ".yaml"]).into_iter().filter_map(|path| {
        let text = read(&path);
        let mut problems = trainc_diag::Problems::default();
        let found = trainc_import::import(trainc_diag::source::SourceId(0), &text, &mut problems);
        found.map(|one| one.manifest)
    });
    let mut faults = Vec::new();
    let (mut with_fix, mut changed) = (0, 0);
    for text in suite.chain(examples).chain(imported) {
        let before = in_memory("job.kdl", &text);
        let codes: std::collections::BTreeSet<&str> =
            before.compiled.problems.iter().filter(|one| one.fix.is_some()).map(|one| one.code.id).collect();
        for code in codes.into_iter().map(Some).chain([None]) {
            let (after_text, requested) = fixed("job.kdl", &text, code);
            if requested == 0 {
                continue;
            }
            with_fix += 1;
            changed += usize::from(after_text != text);
            let after = in_memory("job.kdl", &after_text);
            let [old, new] = [&before, &after].map(|one| one.compiled.problems.errors());
            if new > old {
                faults.push(format!("{code:?} leaves {new} errors instead of {old}:\n{text}"));
            }
            let same = training(&before).into_iter().zip(training(&after));
            for ((name, old), (_, new)) in same.filter(|((_, old), (_, new))| old.is_some() && old != new) {
                if code.is_none() {
                    faults.push(format!("`--fix all` makes `{name}` {new:?} instead of {old:?}:\n{text}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    assert!(with_fix > 200 && changed > 100, "{with_fix} {changed}");
}

/// `all` does not apply what changes the training, says so, and names the flag that does; a word that is
/// not a code is a manifest.
#[test]
fn all_offers_what_changes_the_training() {
    let dir = Scratch::new("fix-all");
    dir.write("base.kdl", read("tests/fixtures/base.kdl"));
    dir.write("scripts/train.py", "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr')\n");
    let text = JOB.replace("model \"gpt2-xl\"", "tags team=1\n    model \"gpt2-xl\"");
    let path = dir.write("job.kdl", &text);
    let run = |args: &[&str]| trainc_in(&dir.0, args, b"", Duration::from_mins(1));
    for args in [
        &["check", "--fix", "job.kdl"][..],
        &["check", "job.kdl", "--fix"],
        &["check", "--fix", "all", "job.kdl"],
    ] {
        dir.write("job.kdl", &text);
        let ran = run(args);
        let said = "it changes what is trained; `--fix T0326` applies it";
        assert!(ran.err.contains("not applied: job.kdl:") && ran.err.contains(said), "{}", ran.err);
        let after = fs::read_to_string(&path).unwrap();
        assert!(after.contains("micro-batch 6") && after.contains("model \"gpt2-xl\" //"), "{after}");
    }
    let unknown = run(&["check", "--fix", "T9999"]);
    assert_eq!(unknown.code, Some(2), "{}", unknown.err);
    assert!(unknown.err.contains("`T9999` is neither a code nor a manifest"), "{}", unknown.err);
}

/// What a help says to type is applied with its code, as in the editor, and never without it; a choice is
/// the user's.
#[test]
fn the_edit_of_a_help_requires_its_code() {
    let dir = Scratch::new("fix-help");
    dir.write("scripts/train.py", "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr')\n");
    let base = read("tests/fixtures/base.kdl").replace("base.kdl", "");
    let job = format!("job \"example\" {{\n{base}}}\n");
    let run = |args: &[&str]| trainc_in(&dir.0, args, b"", Duration::from_mins(1));
    let cluster = "cluster \"ml.p4d.24xlarge\" nodes=2";
    let spot = "cluster \"ml.p4d.24xlarge\" nodes=2 { spot max-wait=\"2d\"; max-run \"1d\"; }";
    let optimizer = job.lines().find(|line| line.trim().starts_with("steps")).unwrap();
    for (code, from, wrong, right) in [
        (
            "T0126",
            cluster,
            "cluster \"ml.p4d.24xlarge\" nodes=2 { max-run \"12 hourz\"; }",
            "max-run \"12h\"",
        ),
        ("T0320", "\"ml.p4d.24xlarge\"", "\"ml.p4d\"", "\"ml.p4d.24xlarge\""),
        ("T0426", cluster, spot, "checkpoint s3=\"s3://"),
        ("T0129", optimizer, "steps", "steps 1"),
    ] {
        let text = job.replacen(from, wrong, 1);
        let path = dir.write("job.kdl", &text);
        let bare = run(&["check", "job.kdl", "--fix"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "{}", bare.err);
        let offered = format!("`--fix {code}` applies the edit of its help");
        assert!(bare.err.contains("not applied: job.kdl:") && bare.err.contains(&offered), "{}", bare.err);
        let fixed = run(&["check", "job.kdl", "--fix", code]);
        let after = fs::read_to_string(&path).unwrap();
        assert!(after.contains(right), "{code}: {after}\n{}\n{}", fixed.err, fixed.out);
        assert!(!fixed.out.contains(code), "{}", fixed.out);
        // Nothing else is touched.
        let kept = text.lines().filter(|line| !wrong.lines().any(|one| line.contains(one)));
        assert!(kept.clone().all(|line| after.contains(line)), "{after}");
    }
    // Any of the sizes may be meant.
    let text = job.replacen("\"ml.p4d.24xlarge\"", "\"ml.g5\"", 1);
    let path = dir.write("job.kdl", &text);
    let chosen = run(&["check", "job.kdl", "--fix", "T0320"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    assert!(chosen.err.contains("its help is a choice of several edits"), "{}", chosen.err);
}

/// Another checkpoint prefix means that the next run starts from the beginning: that is not done unasked.
#[test]
fn all_keeps_the_location_of_checkpoints() {
    for example in ["distilbert-spot", "gptj-6b-tensor"] {
        let text = without_allows(&read(&format!("examples/{example}/trainc.kdl")));
        let line = text.lines().find(|line| line.trim().starts_with("checkpoint ")).unwrap();
        let plain = line.replace("{{ job.digest }}/", "").replace("/{{ job.digest }}", "");
        let text = text.replace(line, &plain);
        let dir = Scratch::new(&format!("fix-checkpoint-{example}"));
        let path = dir.write("trainc.kdl", &text);
        let run = |args: &[&str]| trainc_in(&dir.0, args, b"", Duration::from_mins(1));
        let all = run(&["check", "trainc.kdl", "--fix"]);
        assert!(fs::read_to_string(&path).unwrap().contains(&plain), "{}", all.err);
        assert!(all.err.contains("`--fix T0448` applies"), "{}", all.err);
        run(&["check", "trainc.kdl", "--fix", "T0448"]);
        assert!(fs::read_to_string(&path).unwrap().contains("{{ job.digest }}"));
    }
}

/// An edit that lets a job cost more is applied, since it does not change what is trained, and names both
/// amounts.
#[test]
fn a_fix_that_raises_the_cost_says_so() {
    let dir = Scratch::new("fixes-cost");
    let example = "examples/falcon-40b-qlora/";
    for file in files(example, &[".kdl", ".py", ".txt"]) {
        dir.write(file.strip_prefix(example).unwrap(), without_allows(&read(&file)));
    }
    let most = || {
        let plan = trainc_in(
            &dir.0,
            &["plan", "--offline", "trainc.kdl", "-o", "json"],
            b"",
            Duration::from_mins(1),
        );
        trainc_diag::text::dollars(plan.json()["run"]["most_usd"].as_f64().unwrap())
    };
    let before = most();
    let fixed = trainc_in(&dir.0, &["check", "--fix", "trainc.kdl"], b"", Duration::from_mins(1));
    let note = format!("note: trainc.kdl: the edit raises the cost at most from {before} to {}\n", most());
    assert!(fixed.err.contains(&note), "{note}{}", fixed.err);
}

/// Of the helps in the cases of all codes that begin with something to type, four of five are actions. The
/// others need more than one edit, or a place that the help does not name.
#[test]
fn helps_of_the_cases_are_actions() {
    let (mut acted, mut missed) = (0, Vec::new());
    // No layer is found from there, so that the problems are those of the text.
    let compile = |text: &str| compile_in(Memory::default(), "elsewhere/job.kdl", text, &options(""));
    for code in trainc::codes() {
        for case in cases::of_code(code) {
            let text = case.manifest();
            let Outcome { compiled, sources } = compile(text);
            let manifest = sources.iter().next().unwrap().0;
            // Of its code alone: a case on its own lacks what its layers would set.
            let own = |one: &&Diagnostic| one.code.id == code.id && one.span.source == manifest;
            for problem in compiled.own_problems().filter(own) {
                let Some(help) = problem.help.as_deref().filter(|help| {
                    ["write `", "add `", "remove `", "remove it", "did you mean `"]
                        .iter()
                        .any(|verb| help.starts_with(verb))
                        && !help.contains('…')
                }) else {
                    continue;
                };
                let mut again = |text: &str| compile(text).compiled.problems;
                let is_action = problem.fix.is_some()
                    || problem.suggestions().iter().any(|one| {
                        suggested_fix(text, problem, one, &compiled.problems, &mut again).is_some()
                    });
                if is_action {
                    acted += 1;
                } else {
                    missed.push(format!("{} {help}", case.id()));
                }
            }
        }
    }
    assert!(acted > 100 && missed.len() * 4 < acted, "{acted} are actions; {} not {missed:#?}", missed.len());
}
