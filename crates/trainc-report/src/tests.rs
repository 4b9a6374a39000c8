//! Reports of whole plans: output snapshots, schema conformance, and partial plans.

use super::human::{self, Depth, Problems};
use super::json::{BetterMachine, Document, SCHEMA};
use super::samples::{self, BROKEN, FALCON, GPT2, GPTJ, LLAMA, ROBERTA, Sample, measured_sample, sample};
use super::{Options, markdown};
use serde_json::Value;
use std::fmt::Write as _;
use trainc_ir::{Axis, Fleet, Plan};
use trainc_predict::{Checkpoints, CostParts, Interval, MemoryParts, SpeedParts, Spot, Tflops};
use trainc_testing::json_schema;

fn page(sample: &Sample, options: Options) -> String {
    human::plan(&sample.subject(), &sample.document(), Depth::Screen, Problems::Here, options)
}

#[track_caller]
fn render_manifest(text: &str) -> String {
    page(&sample(text, &[]), Options::default())
}

/// A job of its time as it is without the `allow`s: its warnings are shown.
fn with_warnings(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("allow "));
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn sharded() {
    insta::assert_snapshot!(render_manifest(GPT2));
}

#[test]
fn pipeline() {
    insta::assert_snapshot!(render_manifest(&with_warnings(ROBERTA)));
}

#[test]
fn tensor() {
    insta::assert_snapshot!(render_manifest(GPTJ));
}

#[test]
fn hybrid() {
    insta::assert_snapshot!(render_manifest(LLAMA));
}

/// A job without a model has one line of what is not known, and no section without a figure.
#[test]
fn built_in_algorithm() {
    let sample = sample(samples::XGBOOST, &[]);
    insta::assert_snapshot!(page(&sample, Options::default()));
    let comment = markdown::plan(&sample.subject(), &sample.document());
    let table = comment.split("<details>").next().unwrap();
    assert_eq!(table.matches("not known").count(), 1, "{table}");
    for label in ["| mesh |", "| batch |", "| memory |", "| speed |"] {
        assert!(!table.contains(label), "{label} in {table}");
    }
    assert!(table.contains("| channels | train: s3://") && table.contains("at most \\$"), "{table}");
}

#[test]
fn device_map() {
    insta::assert_snapshot!(render_manifest(FALCON));
}

#[test]
fn broken() {
    insta::assert_snapshot!(render_manifest(BROKEN));
}

/// An allowed error has a line with its code, before the number of the other notes.
#[test]
fn an_allowed_error_is_named() {
    let text = LLAMA.replacen(
        "ml.p4d.24xlarge\" nodes=8 {",
        "ml.z9.48xlarge\" nodes=8 {\n        allow \"T0320\" reason=\"new\"",
        1,
    );
    assert_ne!(text, LLAMA);
    let page = render_manifest(&text);
    let line = page.lines().find(|line| line.contains("T0320")).unwrap_or_else(|| panic!("{page}"));
    assert!(line.trim_start().starts_with("allowed") && line.contains("`ml.z9.48xlarge`"), "{line}");
    assert!(!render_manifest(LLAMA).contains("allowed"));
}

#[test]
fn narrow_ascii() {
    let text = page(&sample(LLAMA, &[]), Options { unicode: false, width: 60, ..Options::default() });
    assert!(text.is_ascii(), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn wide_with_colour() {
    let text = page(
        &sample(&with_warnings(ROBERTA), &[]),
        Options { color: true, width: 120, ..Options::default() },
    );
    insta::assert_snapshot!(text.replace('\u{1b}', "^"));
}

#[test]
fn every_origin() {
    let sample = sample(LLAMA, &["cluster.nodes=16"]);
    let text = human::plan(
        &sample.subject(),
        &sample.document(),
        Depth::Origins,
        Problems::Here,
        Options::default(),
    );
    insta::assert_snapshot!(text);
}

#[test]
fn a_replacing_value_is_named_with_its_own_path() {
    let sample = sample(LLAMA, &["train.steps=1000"]);
    let document = sample.document();
    let over = document.overrides.iter().find(|over| over.path == "train.tokens").unwrap();
    assert_eq!(over.replaced_by.as_deref(), Some("train.steps"));
    let text = human::plan(&sample.subject(), &document, Depth::Origins, Problems::Here, Options::default());
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("train.steps (--set train.steps=1000) replaces train.tokens (job.kdl:"), "{text}");
}

#[test]
fn a_removed_value_is_listed_with_what_removed_it() {
    let sample = sample(LLAMA, &["parallel.engine=ddp", "cluster.spot=#null", "train.precision=#null"]);
    let document = sample.document();
    let removed: Vec<_> = document.overrides.iter().filter(|over| over.removed).collect();
    let paths: Vec<&str> = removed.iter().map(|over| over.path.as_str()).collect();
    assert_eq!(
        paths,
        ["parallel.strategy", "parallel.shard-degree", "parallel.wrap", "cluster.spot", "train.precision"]
    );
    assert_eq!(removed[0].replaced_by.as_deref(), Some("parallel.engine"));
    assert_eq!((removed[3].by.as_str(), &removed[3].replaced_by), ("<--set cluster.spot=#null>:1:14", &None));
    let text = human::plan(&sample.subject(), &document, Depth::Origins, Problems::Here, Options::default());
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in [
        "parallel.engine ddp (--set parallel.engine=ddp) removes parallel.wrap \"LlamaDecoderLayer\" (job",
        "#null (--set cluster.spot=#null) removes cluster.spot (job.kdl:",
        "#null (--set train.precision=#null) removes train.precision \"bf16\" (job.kdl:",
    ] {
        assert!(flat.contains(line), "{line}\n{text}");
    }
}

#[test]
fn comment() {
    let one = sample(&with_warnings(GPTJ), &[]);
    let two = sample(BROKEN, &[]);
    let (first, second) = (one.document(), two.document());
    insta::assert_snapshot!(markdown::plans(&[(one.subject(), &first), (two.subject(), &second)]));
}

#[test]
fn a_comment_keeps_its_limit() {
    let one = sample(GPT2, &[]);
    let document = one.document();
    let jobs: Vec<_> = (0..60).map(|_| (one.subject(), &document)).collect();
    let text = markdown::plans(&jobs);
    assert!(text.encode_utf16().count() <= trainc_diag::markdown::COMMENT_LIMIT);
    assert_eq!(text.matches("<details>").count(), text.matches("</details>").count());
    assert!(text.contains("60 jobs shown without all details: comment size limit reached"), "{}", text.len());
    // All jobs are shown before any details.
    assert_eq!(text.matches("\n### ").count(), 60);
    let several =
        |count: usize| markdown::plans(&jobs.iter().cycle().take(count).copied().collect::<Vec<_>>());
    let few = several(12);
    assert_eq!((few.matches("\n### ").count(), few.matches("| cost |").count()), (12, 12));
    assert!(few.contains("<details>"), "details fill the remaining space");
    let many = several(500);
    assert!(many.encode_utf16().count() <= trainc_diag::markdown::COMMENT_LIMIT);
    assert!(!many.contains("<details>") && many.contains(" not shown: comment size limit reached"));
}

#[test]
fn a_total() {
    let (one, two, three) = (sample(GPT2, &[]), sample(ROBERTA, &[]), sample(BROKEN, &[]));
    let text = human::total(&[one.subject(), two.subject(), three.subject()], Options::default());
    insta::assert_snapshot!(text);
}

/// The cost of each job includes its file system; together they create one.
#[test]
fn a_file_system_that_jobs_share_is_in_a_total_once() {
    let (llama, other) = (sample(LLAMA, &[]), sample(LLAMA, &["storage.corpus.kms=alias/own"]));
    let total = |samples: &[&Sample]| {
        let subjects: Vec<_> = samples.iter().map(|one| one.subject()).collect();
        let text = human::total(&subjects, Options { width: 400, ..Options::default() });
        let dollars = text.split_once('$').unwrap().1.split_once(' ').unwrap().0;
        (dollars.replace(',', "").parse::<f64>().unwrap(), text)
    };
    let plan = llama.compiled.plan.as_ref().unwrap();
    let (storage, price) = plan.created_file_systems().next().unwrap();
    let month = price.unwrap().usd_per_month(storage.capacity_bytes.get().unwrap());
    // By hand: it exists for the five days of max-run.
    let paid = month * 5.0 * 24.0 / 730.0;
    let (alone, text) = total(&[&llama]);
    assert!(!text.contains("counted once"), "{text}");
    let (two, text) = total(&[&llama, &llama]);
    assert!(text.contains("; shared file system `corpus` counted once"), "{text}");
    assert!((2.0 * alone - two - paid).abs() < 2.0, "{alone} {two} {paid}");
    // Another key makes another file system.
    let (apart, text) = total(&[&llama, &other]);
    assert!((apart - 2.0 * alone).abs() < 2.0 && !text.contains("counted once"), "{apart} {text}");
}

#[test]
fn trainium_has_chips() {
    const SET: &[&str] = &["cluster=ml.trn1.32xlarge", "cluster.nodes=2"];
    let (trainium, gpus) = (sample(LLAMA, SET), sample(GPT2, &[]));
    let text = page(&trainium, Options::default());
    assert!(text.contains("2 × ml.trn1.32xlarge = 32 chips"), "{text}");
    // A chip has two NeuronCores, and torchrun starts a rank for each.
    assert!(text.contains("= 64 NeuronCores\n"), "the mesh: {text}");
    // A row is a node of 32 ranks, including the last one.
    let row = text.lines().find(|line| line.contains("node 1 │")).unwrap_or_default();
    assert!(row.contains("…") && row.contains("B31"), "{text}");
    assert!(text.contains(" of 16 GiB per NeuronCore"), "{text}");
    let total = |samples: &[&Sample]| {
        human::total(&samples.iter().map(|one| one.subject()).collect::<Vec<_>>(), Options::default())
    };
    assert!(total(&[&trainium]).contains("1 job, 32 chips"));
    assert!(total(&[&trainium, &gpus]).contains(" accelerators"), "{}", total(&[&trainium, &gpus]));
    assert!(total(&[&gpus]).contains(" GPUs"));
}

#[test]
fn no_file_system_costs_plain_nothing() {
    let cost = sample(GPT2, &[]).document().run.cost_parts.file_systems;
    assert_eq!(cost.map(f64::to_bits), Some(0.0_f64.to_bits()));
}

/// A page with every predicted figure.
#[test]
fn with_a_prediction() {
    let sample = sample(GPT2, &[]);
    let document = document_with_prediction(&sample);
    let text = human::plan(&sample.subject(), &document, Depth::Screen, Problems::Here, Options::default());
    let from = text.find("  memory").unwrap();
    let to = text.find("  resources").unwrap();
    insta::assert_snapshot!(&text[from..to]);
}

fn document_with_prediction(sample: &Sample) -> Document {
    let mut document = sample.document();
    let gib = |n: u64| Some(n << 30);
    document.memory.per_gpu_bytes = gib(30);
    document.memory.fits = Some(true);
    document.memory.interval = Some(Interval { low: 28.0 * 1_073_741_824.0, high: 33.0 * 1_073_741_824.0 });
    document.memory.parts = MemoryParts {
        parameters: gib(2),
        gradients: gib(1),
        optimizer: gib(4),
        activations: gib(12),
        gathered: gib(6),
        logits: gib(2),
        buffers: gib(1),
        reserve: gib(2),
    };
    document.speed.step_seconds = Some(20.0);
    document.speed.tokens_per_second = Some(157_286.0);
    document.speed.tflops_per_gpu = Some(110.5);
    document.speed.tflops =
        Tflops { model: Some(92.0), hardware: Some(110.5), six_n: Some(88.0), eight_n: Some(110.0) };
    document.speed.interval = Some(Interval { low: 18.5, high: 23.0 });
    document.speed.parts = SpeedParts {
        compute: Some(14.0),
        exposed_communication: Some(4.0),
        bubble: Some(0.0),
        offload: Some(1.0),
        optimizer: Some(0.5),
        input: Some(Some(0.5)),
    };
    document.run.seconds = Some(2_400.0);
    document.run.interval = Some(Interval { low: 2_200.0, high: 2_800.0 });
    document.run.parts.interruptions = Some(Some(400.0));
    document.run.checkpoint = Some(Checkpoints {
        bytes: 420.0 * 1_073_741_824.0,
        seconds: 10.0,
        interval: Interval { low: 6.0, high: 20.0 },
        best_interval_seconds: Some(3_600.0),
        best_interval: Some(Interval { low: 2_800.0, high: 5_000.0 }),
    });
    document.run.spot = Some(Spot {
        expected_seconds: 2_400.0,
        p90_seconds: 3_100.0,
        interruptions: 0.5,
        expected_usd: Some(449.0),
        p90_usd: None,
        ..Spot::default()
    });
    document.run.cost_usd = Some(449.0);
    document.compared_with = Some("111122223333".to_owned());
    document.changes = Some(true);
    if let Some(resource) = document.resources.first_mut() {
        resource.shared_with = vec!["other".to_owned()];
    }
    document.quotas = vec![quota(64.0, Some(8.0))];
    document.blocked = Some(super::json::Blocked { exit: 7, codes: vec!["T0605"] });
    document.run.cost_parts = CostParts { instances: Some(449.0), volumes: Some(0.0), file_systems: None };
    document
}

/// A quota of this many instances, of which the job needs 32.
fn quota(value: f64, in_use: Option<f64>) -> trainc_ir::QuotaRoom {
    trainc_ir::QuotaRoom {
        name: "ml.p4d.24xlarge for training job usage".to_owned(),
        code: Some("L-0F9B4A55".to_owned()),
        value,
        needed: 32.0,
        in_use,
        in_use_is_lower_bound: false,
        is_default: false,
    }
}

/// Everything that a person needs before they spend money, by the same lines on every screen.
#[test]
fn costs_are_the_same_in_every_output() {
    const SETS: &[&str] = &["cluster.warm-pool=1h"];
    let words = |text: &str| text.replace('\\', "").split_whitespace().collect::<Vec<_>>().join(" ");
    let mut sample = sample(LLAMA, SETS);
    // A date far from the price: only the terminal states its age.
    let options =
        Options { width: 80, today: trainc_ir::date::epoch_days("2027-02-01"), ..Options::default() };
    let mut document = sample.document();
    document.quotas = vec![quota(64.0, Some(8.0))];
    let plan = sample.compiled.plan.take().unwrap();
    let apply = human::costs_of_apply(&document, &plan, options);
    insta::assert_snapshot!(apply);
    let of_run = |planned: Option<&Document>, options| {
        words(&human::costs_of_run(&plan, planned, Some("$5.00 so far"), options))
    };
    let other = of_run(None, options);
    assert_eq!(other, "cost $5.00 so far instances only, by the price of 2026-09-01, 153 days old");
    let of_run = of_run(Some(&document), options);
    assert!(apply.lines().all(|line| line.chars().count() <= 80), "{apply}");
    // As in an emitted file: no age.
    sample.compiled.problems.remove_dated();
    sample.compiled.plan = Some(plan);
    let page = words(&human::plan(
        &sample.subject(),
        &document,
        human::Depth::Screen,
        human::Problems::Here,
        options,
    ));
    let comment = words(&markdown::plan(&sample.subject(), &document).replace("<br>", " "));
    let apply = words(&apply);
    let costs = apply.split_once("cost expected").unwrap().1;
    assert!(page.contains(costs), "{page}\n{costs}");
    let of_plan = costs.split_once(" after ").unwrap().0;
    assert_eq!(of_run, format!("cost $5.00 so far expected{of_plan}"));
    for part in [
        "expected $",
        "at the on-demand price",
        "at most $",
        "$1,008 a month (price of 2026-06-01",
        "warm pool: up to $",
    ] {
        assert!(comment.contains(part) && apply.contains(part), "{part}: {comment}");
    }
    assert!(apply.contains("153 days old") && !comment.contains("days old"));
}

#[test]
fn a_quota_shows_what_is_left() {
    let sample = sample(GPT2, &[]);
    let plan = sample.compiled.plan.as_ref().unwrap();
    let line = |quota| {
        let mut document = sample.document();
        document.quotas = vec![quota];
        let text = human::costs_of_apply(&document, plan, Options { width: 200, ..Options::default() });
        text.lines().last().unwrap().trim().to_owned()
    };
    let name = "ml.p4d.24xlarge for training job usage";
    assert_eq!(
        line(quota(64.0, Some(8.0))),
        format!("quota     24 left: 64 - 8 in use - 32 for this job ({name})")
    );
    assert_eq!(line(quota(64.0, None)), format!("quota     32 left: 64 - 32 for this job ({name})"));
    assert!(line(quota(32.0, Some(8.0))).starts_with("quota     8 short: 32 - 8 in use"));
    let partial =
        trainc_ir::QuotaRoom { in_use_is_lower_bound: true, is_default: true, ..quota(64.0, Some(8.0)) };
    assert_eq!(
        line(partial),
        format!(
            "quota     at most 24 left: 64 - at least 8 in use - 32 for this job ({name}, the default of a new account)"
        )
    );
}

/// The plan of a job that ran before says so, on every screen.
#[test]
fn a_plan_names_the_runs_behind_it() {
    let (planned, sample) = (sample(LLAMA, &[]), measured_sample(LLAMA));
    let speed = |sample: &Sample| sample.compiled.prediction.speed.clone().unwrap();
    let ratio = speed(&sample).step_seconds / speed(&planned).step_seconds;
    assert!((1.21..1.33).contains(&ratio), "{ratio}");
    let run = |sample: &Sample| sample.compiled.prediction.run.clone().unwrap();
    assert!(run(&sample).seconds > 1.15 * run(&planned).seconds);
    let document = sample.document();
    assert_eq!(document.evidence.as_ref().map(|runs| (runs.same, runs.near)), Some((1, 0)));
    assert!(planned.document().evidence.is_none());
    let line = "interval from 1 measured run of this layout in `.trainc/runs.csv` (newest 2026-11-20)";
    let page = human::plan(
        &sample.subject(),
        &document,
        human::Depth::Screen,
        human::Problems::Here,
        Options { width: 200, ..Options::default() },
    );
    assert!(page.contains(line), "{page}");
    assert!(markdown::plan(&sample.subject(), &document).contains(line));
}

/// Documents that together contain every member of every type.
fn documents() -> Vec<Value> {
    let gpt2 = sample(GPT2, &["cluster.nodes=16"]);
    let mut documents = vec![document_with_prediction(&gpt2)];
    documents.extend(
        [ROBERTA, GPTJ, LLAMA, FALCON, GROUPS, PREFERENCES, BROKEN, "job", ""]
            .map(|text| sample(text, &[]).document()),
    );
    documents.push(measured_sample(LLAMA).document());
    // Another machine is only named by the command that looks for one.
    let interval = || Some(Interval { low: 900.0, high: 1_100.0 });
    let mut with_better_machine = sample(GPTJ, &[]).document();
    with_better_machine.elsewhere = Some(Some(BetterMachine {
        instance: "ml.p5.48xlarge".to_owned(),
        nodes: 1,
        seconds: 1_000.0,
        seconds_interval: interval(),
        cost_usd: 1_000.0,
        cost_usd_interval: interval(),
        saves: 0.25,
    }));
    documents.push(with_better_machine);
    // A misspelt node is fixed by an edit.
    documents.push(sample(&GPTJ.replace("sequence-length", "sequence-lenght"), &[]).document());
    documents.into_iter().map(|document| serde_json::to_value(document).unwrap()).collect()
}

#[test]
fn the_schemas_are_those_of_the_types() {
    let schemas = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    json_schema::assert_generated::<Document>(&schemas.join("plan.v1.json"));
    json_schema::assert_generated::<crate::bill::Document>(&schemas.join("bill.v1.json"));
    json_schema::assert_generated::<crate::measured::Document>(&schemas.join("report.v1.json"));
}

#[test]
fn the_schema_describes_every_document() {
    for document in documents() {
        assert_eq!(json_schema::violations(SCHEMA, &document), Vec::<String>::new());
    }
}

#[test]
fn the_schema_describes_no_more_than_is_written() {
    let mut written = std::collections::BTreeSet::new();
    for document in documents() {
        json_schema::collect_keys(&document, &mut written);
    }
    assert_eq!(written, json_schema::described_keys(SCHEMA));
}

/// Every member is in every document, except optional ones.
#[test]
fn the_schema_requires_every_member() {
    fn check_required(schema: &Value, at: &str) {
        if let (Some(properties), Some(required)) = (schema.get("properties"), schema.get("required")) {
            // The edit of a problem, jobs that share a resource, and the on-demand price are optional; the
            // list of files is only written by `emit`, the ends of a price only of an
            // estimate, the comparison only with an account, the prices of
            // groups only with groups, the measured runs only with a table of them, another
            // machine only by `plan` on one manifest.
            let optional = |name: &str| {
                matches!(
                    name,
                    "fix" | "shared_with" | "estimate" | "on_demand_usd" | "on_demand_usd_interval"
                ) || (at.is_empty()
                    && matches!(
                        name,
                        "files"
                            | "compared_with"
                            | "changes"
                            | "blocked"
                            | "evidence"
                            | "group_prices"
                            | "choices"
                            | "elsewhere"
                            | "quotas"
                    ))
            };
            let names: Vec<&String> =
                properties.as_object().unwrap().keys().filter(|name| !optional(name)).collect();
            let mut required: Vec<&str> =
                required.as_array().unwrap().iter().filter_map(Value::as_str).collect();
            required.sort_unstable();
            let mut names: Vec<&str> = names.into_iter().map(String::as_str).collect();
            names.sort_unstable();
            assert_eq!(names, required, "{at}");
        }
        for (key, member) in schema.as_object().into_iter().flatten() {
            check_required(member, &format!("{at}/{key}"));
        }
    }
    check_required(&serde_json::from_str(SCHEMA).unwrap(), "");
}

#[test]
fn the_schema_has_the_problems_of_the_diagnostics() {
    let plan: Value = serde_json::from_str(SCHEMA).unwrap();
    let diagnostic: Value = serde_json::from_str(trainc_diag::json::SCHEMA).unwrap();
    for name in ["problem", "label", "fix"] {
        assert_eq!(plan["$defs"][name], diagnostic["$defs"][name], "{name}");
    }
}

/// Every null outside of `problems` has a note that names it or its parent.
#[test]
fn every_null_has_a_note() {
    fn nulls(path: &str, value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Null => found.push(path.to_owned()),
            Value::Object(members) => {
                members.iter().for_each(|(name, value)| nulls(&format!("{path}.{name}"), value, found));
            }
            Value::Array(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    for document in documents().into_iter().skip(1) {
        let notes: Vec<&str> = document["notes"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|note| note.as_str()?.split(": ").next())
            .collect();
        let mut found = Vec::new();
        for (name, value) in document.as_object().unwrap().iter().filter(|(name, _)| *name != "problems") {
            nulls(name, value, &mut found);
        }
        for path in found {
            let has = notes.iter().any(|note| path == *note || path.starts_with(&format!("{note}.")));
            assert!(has, "{path} in {}", document["job"]);
        }
    }
}

/// Only the name of the job is known: no page may fail.
#[test]
fn a_plan_of_which_nothing_is_known() {
    let mut empty = sample("job \"empty\" {}", &[]);
    let plan = empty.compiled.plan.as_mut().unwrap();
    let Plan {
        instance, machine, region, model, mesh, batch, image, library, fleet, source, missing, ..
    } = &mut **plan;
    (*instance, *machine, *region, *model, *mesh) = (None, None, None, None, None);
    (*batch, *image, *library, *source, *missing) = (None, None, None, None, None);
    *fleet = Fleet::Unreadable;
    insta::assert_snapshot!(page(&empty, Options::default()));
    let document = empty.document();
    assert!(markdown::plan(&empty.subject(), &document).starts_with("<!-- trainc:plan empty -->\n"));
    human::plan(&empty.subject(), &document, Depth::Origins, Problems::Here, Options::default());

    // Each part alone missing from a whole plan.
    let parts: [fn(&mut Plan); 9] = [
        |plan| plan.instance = None,
        |plan| plan.machine = None,
        |plan| plan.region = None,
        |plan| plan.model = None,
        |plan| plan.mesh = None,
        |plan| plan.batch = None,
        |plan| plan.image = None,
        |plan| plan.fleet = Fleet::Unreadable,
        |plan| plan.job.cluster = None,
    ];
    for part in parts {
        let mut sample = sample(FALCON, &[]);
        part(sample.compiled.plan.as_mut().unwrap());
        for depth in [Depth::Screen, Depth::Origins] {
            human::plan(&sample.subject(), &sample.document(), depth, Problems::Here, Options::default());
        }
    }
}

#[test]
fn nothing_could_be_read() {
    let sample = sample("job \"a\" {", &[]);
    page(&sample, Options::default());
    let document = sample.document();
    markdown::plan(&sample.subject(), &document);
}

/// Pictures of meshes from one GPU to the maximum, in all widths.
#[test]
fn worlds_of_any_size() {
    let mut out = String::new();
    for (nodes, per_node, shard) in [
        (1, 1, 1),
        (1, 16, 4),
        (3, 8, 24),
        (40, 8, 8),
        (64, 1, 8),
        (2, 72, 144),
        (1 << 21, 8, 1 << 10),
        (1, 1 << 24, 1 << 24),
        (1 << 24, 1, 1),
    ] {
        let mut sample = sample(samples::CUSTOM, &[]);
        let order = [(Axis::Replica, nodes * per_node / shard), (Axis::Shard, shard)];
        let mesh =
            &trainc_ir::mesh::Mesh::new(&trainc_engine::laws::SMP_V2, (nodes, per_node), &order, "test");
        sample.compiled.plan.as_mut().unwrap().mesh = Some(mesh.clone());
        let _ = writeln!(out, "{nodes} × {per_node}, shard {shard}");
        let (lines, legend) = super::mesh_picture::draw(mesh, 68, true);
        for line in lines {
            let line: String = line.into_iter().map(|piece| piece.text).collect();
            assert!(line.chars().count() <= 68, "{line}");
            let _ = writeln!(out, "  {line}");
        }
        if !legend.is_empty() {
            let _ = writeln!(out, "  {legend}");
        }
        out.push('\n');
        for width in [0, 20, 60, 80, 120] {
            page(&sample, Options { unicode: false, width, ..Options::default() });
        }
    }
    insta::assert_snapshot!(out);
}

/// By hand: two hosts with GPUs and four without, each at its own price, for the time of the run and for
/// `max-run`.
#[test]
fn every_group_is_paid_for() {
    let price = |usd_per_hour| trainc_ir::Price {
        usd_per_hour,
        list_usd_per_hour: usd_per_hour,
        region: None,
        date: None,
        source: "--price".to_owned(),
        basis: trainc_ir::PriceBasis::User,
    };
    let mut sample = sample(GROUPS, &[]);
    let unknown = sample.document();
    assert_eq!((unknown.run.most_usd, unknown.price), (None, None));
    let notes = unknown.notes.join("\n");
    // The group with a price is a lower bound.
    let known = sample.compiled.plan.as_deref().unwrap().rank_price().unwrap().usd_per_hour * 2.0 * 24.0;
    let known = trainc_diag::text::dollars(known);
    let note = format!("run.most_usd: at least {known}: no price of `ml.c5.18xlarge` in this region");
    assert!(notes.contains(&note), "{notes}");
    let shown = page(&sample, Options::default());
    assert!(shown.contains(&format!("at least {known} for 1d")), "{shown}");

    let plan = sample.compiled.plan.as_mut().unwrap();
    let Fleet::Instances(instances) = &mut plan.fleet else { panic!("{:?}", plan.fleet) };
    for (part, usd) in instances.first.parts.iter_mut().zip([3.0, 20.0]) {
        part.price = Some(price(usd));
    }
    *sample.compiled.prediction = trainc_predict::of_plan(plan, trainc_predict::Constants::shipped());
    let document = sample.document();
    assert_eq!(document.run.most_usd, Some((4.0 * 3.0 + 2.0 * 20.0) * 24.0));
    let hours = document.run.seconds.unwrap() / 3_600.0;
    let instances = document.run.cost_parts.instances.unwrap();
    assert!((instances - 52.0 * hours).abs() < 1e-9, "{instances}");
    // The hosts with GPUs have local disks, the four others a volume each, whose price is not known.
    assert_eq!(document.run.cost_parts.volumes, None);
    assert!(page(&sample, Options::default()).contains("4 × $3.00 + 2 × $20.00 = $52.00 per hour"));
}

/// By hand: the most is that of the dearest type, and each choice has that of its own.
#[test]
fn a_job_with_preferred_types_has_a_choice_for_each() {
    let sample = sample(PREFERENCES, &[]);
    let document = sample.document();
    let plan = sample.compiled.plan.as_deref().unwrap();
    let hourly = |name: &str| {
        let part = &plan.fleet.alternatives().unwrap().of_type(name).unwrap().parts[0];
        part.price.as_ref().unwrap().usd_per_hour
    };
    let (cheap, dear) = (hourly("ml.p4d.24xlarge"), hourly("ml.p5.48xlarge"));
    assert!(cheap < dear, "{cheap} {dear}");
    let names: Vec<_> = document.choices.iter().map(|one| one.instance.as_deref().unwrap()).collect();
    assert_eq!(names, ["ml.p4d.24xlarge", "ml.p5.48xlarge"]);
    assert_eq!(document.cluster.instance.as_deref(), Some("ml.p4d.24xlarge"));
    let most: Vec<f64> = document.choices.iter().map(|one| one.run.most_usd.unwrap()).collect();
    let near = |usd: f64, by_hand: f64| assert!((usd / by_hand - 1.0).abs() < 0.01, "{usd} {by_hand}");
    near(most[0], cheap * 2.0 * 24.0);
    near(most[1], dear * 2.0 * 24.0);
    assert_eq!(document.run.most_usd, Some(most[1]));
    assert_eq!(document.choices[0].price, document.price);
    assert_ne!(document.choices[1].speed, document.speed);
    let page = page(&sample, Options::default());
    for text in [" on ml.p4d.24xlarge", " on ml.p5.48xlarge", "without capacity ml.p5.48xlarge"] {
        assert!(page.contains(text), "{page}");
    }
}

const PREFERENCES: &str = r#"
job "preferences" {
    region "us-west-2"
    account "111122223333"
    model "gpt2-xl"
    cluster nodes=2 {
        max-run "1d"
    }
    parallel engine="fsdp" {
        wrap "GPT2Block"
    }
    train {
        precision "bf16"
        sequence-length 1024
        micro-batch 4
        optimizer "adamw" lr=2e-4
        steps 1000
    }
    program "train.py" source="./scripts"
    image "pytorch" version="2.8.0" python="py312"
    output s3="s3://example-runs/preferences/output/"
    role arn="arn:aws:iam::111122223333:role/training"
    request {
        ResourceConfig {
            InstancePreferences {
                - InstanceType="ml.p4d.24xlarge"
                - InstanceType="ml.p5.48xlarge"
            }
        }
    }
}
"#;

const GROUPS: &str = r#"
job "groups" {
    region "us-west-2"
    account "111122223333"
    model "gpt2"
    cluster {
        max-run "1d"
        volume "100GiB"
        group "loaders" instance="ml.c5.18xlarge" nodes=4
        group "gpus" instance="ml.p4d.24xlarge" nodes=2
    }
    parallel engine="ddp" launcher="torchrun" group="gpus"
    train {
        precision "bf16"
        sequence-length 512
        micro-batch 4
        optimizer "adamw" lr=2e-4
        steps 100
    }
    program "train.py" source="./scripts"
    image "pytorch" version="2.8.0" python="py312"
    output s3="s3://example-runs/groups/output/"
    role create=#true
}
"#;
