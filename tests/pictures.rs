//! report.html as `emit` and `tune` write it: the figures of plan.json, nothing loaded, nothing that runs.

use crate::support::{Scratch, TODAY, trainc, trainc_in};
use roxmltree::{Document, ParsingOptions};
use serde_json::Value;
use std::fs;
use std::time::Duration;
use trainc_diag::text;
use trainc_diag::{Diagnostic, Problems};
use trainc_ir::Plan;
use trainc_predict::Constants;
use trainc_tune::scaling::{Outcome, scaling};

const GIB: f64 = 1_073_741_824.0;

/// The text of a page, without its style, and the page.
#[track_caller]
fn words(html: &str) -> String {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let parsed = Document::parse_with_options(html, options).unwrap();
    parsed
        .descendants()
        .filter(|node| {
            node.is_text() && node.parent().is_some_and(|parent| parent.tag_name().name() != "style")
        })
        .filter_map(|node| node.text())
        .collect::<Vec<_>>()
        .join(" ")
}

/// A rate as pages show it.
fn grouped(rate: f64) -> String {
    text::group_digits(format!("{rate:.0}").parse().unwrap())
}

#[track_caller]
fn emitted(example: &str, scratch: &Scratch) -> (String, Value) {
    let (manifest, out) = (format!("examples/{example}/trainc.kdl"), scratch.0.join(example));
    let out_path = out.to_str().unwrap();
    let ran = trainc(&[
        "emit",
        &manifest,
        "--out",
        out_path,
        "--today",
        TODAY,
        "--worker",
        "tests/fixtures/trainc-worker",
    ]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let plan = serde_json::from_slice(&fs::read(out.join("plan.json")).unwrap()).unwrap();
    (fs::read_to_string(out.join("report.html")).unwrap(), plan)
}

#[test]
fn the_page_has_the_figures_of_the_plan() {
    let scratch = Scratch::new("pictures");
    for example in ["gpt2-30b-sharded", "falcon-40b-qlora", "gptj-6b-pipeline", "tiny-llama", "llama-7b-fsdp"]
    {
        let (html, plan) = emitted(example, &scratch);
        let page = words(&html);
        let mut wanted: Vec<String> = Vec::new();
        for (_, part) in plan["memory"]["parts"].as_object().unwrap() {
            if let Some(bytes) = part.as_f64().filter(|bytes| *bytes > 0.0) {
                wanted.push(format!("{} GiB", text::short_number(bytes / GIB)));
            }
        }
        let fits = plan["memory"]["fits"].as_bool();
        wanted.push(match fits {
            Some(true) => "Fits: ".to_owned(),
            Some(false) => "Does not fit".to_owned(),
            None => "It is not known if it fits: ".to_owned(),
        });
        wanted.extend(plan["run"]["cost_usd"].as_f64().map(text::dollars));
        if let Some(step) = plan["speed"]["step_seconds"].as_f64() {
            wanted.push(format!("A step takes {} s", text::short_number(step)));
        } else {
            wanted.push("The time of a step is not known: ".to_owned());
        }
        for problem in plan["problems"].as_array().unwrap() {
            wanted.push(problem["code"].as_str().unwrap().to_owned());
        }
        for resource in plan["resources"].as_array().unwrap() {
            wanted.push(resource["name"].as_str().unwrap().to_owned());
        }
        for what in wanted {
            assert!(page.contains(&what), "{example} does not say `{what}`");
        }
        assert!(plan["files"].as_array().unwrap().iter().any(|file| file == "report.html"));
    }
}

#[test]
fn the_plan_is_a_point_of_its_scaling() {
    let scratch = Scratch::new("pictures-scaling");
    let (html, plan) = emitted("gpt2-30b-sharded", &scratch);
    let rows: Vec<&str> = html.split("<tr>").filter(|row| row.contains("the plan: shard 128")).collect();
    let [row] = rows[..] else { panic!("{} rows of the plan", rows.len()) };
    let rate = plan["speed"]["tokens_per_second"].as_f64().unwrap();
    assert!(row.contains(&grouped(rate)), "{row}");
    assert!(row.contains(&text::dollars(plan["run"]["cost_usd"].as_f64().unwrap())), "{row}");
    // A node alone is too small for 30 billion parameters; what the neighbours are, their own plans say.
    assert!(html.contains("does not fit"));
    let half = trainc(&[
        "plan",
        "--offline",
        "-o",
        "json",
        "examples/gpt2-30b-sharded/trainc.kdl",
        "--today",
        TODAY,
        "--set",
        "cluster.nodes=16",
        "--set",
        "train.accumulation=2",
    ]);
    let half = half.json()["speed"]["tokens_per_second"].as_f64().unwrap();
    assert!(html.contains(&grouped(half)), "{half}");
}

#[test]
fn what_users_write_does_not_run() {
    let scratch = Scratch::new("pictures-evil");
    let evil = "</td><script>alert(1)</script><img src=x onerror=alert(1)>";
    let starter = trainc_in(&scratch.0, &["init", "-q"], b"", Duration::from_mins(1));
    assert_eq!(starter.code, Some(0), "{}", starter.err);
    let path = scratch.0.join("trainc.kdl");
    let text = fs::read_to_string(&path).unwrap();
    let program = text.lines().find(|line| line.starts_with("    program ") && line.ends_with('{')).unwrap();
    let hyperparameter = format!("{program}\n        hyperparameter \"note\" \"{evil}\"");
    fs::write(&path, text.replace(program, &hyperparameter)).unwrap();
    let ran = trainc_in(&scratch.0, &["emit", "trainc.kdl", "--out", "out"], b"", Duration::from_mins(1));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let html = fs::read_to_string(scratch.0.join("out/report.html")).unwrap();
    assert!(!html.contains("<script") && !html.contains("<img"), "{html}");
    assert!(html.contains("&lt;script&gt;alert(1)"), "{html}");
    words(&html);
}

#[test]
fn a_search_becomes_a_page() {
    let scratch = Scratch::new("pictures-front");
    let file = scratch.0.join("layouts.html");
    let args = ["tune", "examples/gpt2-30b-sharded/trainc.kdl", "--max-nodes", "64", "--today", TODAY];
    let json = trainc(&[&args[..], &["-o", "json", "--report", file.to_str().unwrap()]].concat());
    assert_eq!(json.code, Some(0), "{}", json.err);
    let html = fs::read_to_string(&file).unwrap();
    let page = words(&html);
    let front = json.json();
    let front = front["front"].as_array().unwrap();
    assert!(front.len() > 1);
    for one in front {
        assert!(page.contains(&text::dollars(one["cost_usd"].as_f64().unwrap())), "{one}");
        for set in one["sets"].as_array().unwrap() {
            assert!(page.contains(set.as_str().unwrap()), "{set}");
        }
    }
    assert!(page.contains("as written"));
    let nowhere = scratch.0.join("no/such/dir/layouts.html");
    let ran = trainc(&[&args[..], &["--report", nowhere.to_str().unwrap()]].concat());
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("cannot be written: no such file"), "{}", ran.err);
}

/// The points of a scaling: powers of two up to twice the plan's nodes, each a plan of its own for the same training.
#[test]
fn other_numbers_of_nodes_train_the_same() {
    let text = crate::support::read("examples/gpt2-30b-sharded/trainc.kdl");
    let outcome = crate::support::compile("job.kdl", &text);
    let (plan, constants) = (outcome.compiled.plan.as_ref().unwrap(), Constants::shipped());
    let found = scaling(plan, &outcome.compiled.prediction, constants, &|_| Problems::default()).unwrap();
    assert_eq!(found.iter().map(|one| one.nodes).collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 64]);
    let global = plan.batch.as_ref().unwrap().global_sequences.value;
    let mut rates = Vec::new();
    for one in &found {
        match &one.outcome {
            Outcome::Runs(found) => {
                let (other, prediction) = &**found;
                let (mesh, batch) = (other.mesh.as_ref().unwrap(), other.batch.as_ref().unwrap());
                assert_eq!((mesh.nodes, mesh.ranks()), (one.nodes, one.nodes * 8));
                assert_eq!(batch.global_sequences.value, global);
                assert!(mesh.shard_degree.value <= 128 && batch.micro_batch_size.value <= 6);
                assert_eq!(prediction.memory.as_ref().unwrap().fits, Some(true));
                assert_eq!(*prediction, trainc_predict::of_plan(other, constants));
                rates.push(prediction.speed.as_ref().unwrap().tokens_per_second);
            }
            // 30 billion parameters on eight cards of 40 GiB: their 16 bytes each are 55 GiB a card.
            Outcome::TooBig(bytes) => assert!(one.nodes == 1 && *bytes > 55.0 * GIB, "{bytes}"),
            Outcome::Illegal(why) => panic!("{} nodes: {why}", one.nodes),
        }
    }
    assert_eq!(rates.len(), 6);
    assert!(rates.windows(2).all(|pair| pair[1] > pair[0]), "{rates:?}");
    // What the checks refuse is no point, but for the plan itself.
    let refuse = |other: &Plan| {
        let mut problems = Problems::default();
        problems.push(Diagnostic::new(trainc::codes()[0], other.job.span, "refused"));
        problems
    };
    let refused = scaling(plan, &outcome.compiled.prediction, constants, &refuse).unwrap();
    let legal: Vec<u64> =
        refused.iter().filter(|one| matches!(one.outcome, Outcome::Runs(_))).map(|one| one.nodes).collect();
    assert_eq!(legal, [32]);
}

#[test]
fn what_cannot_be_compared_says_why() {
    for (example, why) in [
        ("falcon-40b-qlora", "a device map is computed by the library, on one node"),
        (
            "gptj-6b-pipeline",
            "no run in 32-bit arithmetic was measured, and the script chooses between fp32 and TF32, which differ by a factor of up to 8",
        ),
    ] {
        let text = crate::support::read(&format!("examples/{example}/trainc.kdl"));
        let outcome = crate::support::compile("job.kdl", &text);
        let plan = outcome.compiled.plan.as_ref().unwrap();
        let found =
            scaling(plan, &outcome.compiled.prediction, Constants::shipped(), &|_| Problems::default());
        assert_eq!(found.unwrap_err().0, why);
    }
}
