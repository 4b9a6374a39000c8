//! `tune`: what it says of a layout is what the manifest plans to once it says so, for every engine that it
//! searches; its front is what trying everything finds; and what it writes is what it showed.

use crate::support::{Memory, Ran, Scratch, compile_in, options, root, trainc_in};
use std::collections::BTreeSet;
use std::time::Duration;
use trainc_check::can_run_on;
use trainc_plan::Compiled;
use trainc_plan::Options;
use trainc_predict::memory::{MEAN_ERROR, offloads_activations};
use trainc_predict::{Constants, Sharding};
use trainc_tune::{Limits, Point, Space, Status, pareto_front, search};

/// A job with these nodes beside what every job needs.
fn job(nodes: &str) -> String {
    format!(
        "// A job to tune.\njob \"tuned\" {{\n    region \"us-west-2\" // where\n    model \"llama\" {{\n        hidden 2048\n        layers 16\n        heads 16\n        ffn 5504\n        vocab 32000\n        positions 4096\n    }}\n{nodes}\n    program \"train.py\" source=\"./scripts\"\n    channel \"train\" s3=\"s3://example-corpus/tokens/\"\n    output s3=\"s3://example-runs/tuned/\"\n    role create=#true\n}}\n"
    )
}

fn train(precision: &str, rest: &str) -> String {
    format!(
        "    train {{\n        precision \"{precision}\" // as measured\n        sequence-length \
            1024\n        {rest}\n        steps 1000\n    }}\n"
    )
}

/// One manifest for each engine that is searched, with those of its axes that matter written or not.
fn jobs() -> Vec<(&'static str, String)> {
    let p4d = |nodes: u64| {
        format!("    cluster \"ml.p4d.24xlarge\" nodes={nodes} {{\n        max-run \"1d\"\n    }}\n")
    };
    let image = |version: &str, python: &str| {
        format!("    image \"pytorch\" version=\"{version}\" python=\"{python}\"")
    };
    let mixed =
        train("bf16", "micro-batch 2\n        global-batch 64\n        activation-checkpointing #true");
    let new = image("2.7.1", "py312");
    let fsdp = |inside: &str| {
        format!(
            "    parallel engine=\"fsdp\" {{ // how\n        wrap \"LlamaDecoderLayer\"\n        \
                {inside}\n    }}\n"
        )
    };
    let engine =
        |name: &str, inside: &str| format!("    parallel engine=\"{name}\" {{\n        {inside}\n    }}\n");
    let smp = |inside: &str| engine("smp", inside);
    let of = |name: &str, inside: &str| {
        [p4d(2), engine(name, inside), mixed.clone(), image("2.7.1", "py312")].concat()
    };
    vec![
        ("fsdp, nothing written", [p4d(2), fsdp(""), mixed.clone(), new.clone()].concat()),
        (
            "fsdp, all written",
            [
                p4d(2),
                fsdp("strategy \"hybrid-shard\"\n        shard-degree 8\n        offload #false"),
                mixed.clone(),
                new.clone(),
            ]
            .concat(),
        ),
        (
            "fsdp, without a global batch",
            [p4d(2), fsdp("strategy \"full-shard\""), train("bf16", "micro-batch 4"), new.clone()].concat(),
        ),
        (
            "smp v1, sharded",
            [
                p4d(2),
                smp("shard-degree 8\n        offload-activations #true"),
                mixed.clone(),
                image("1.13.1", "py39"),
            ]
            .concat(),
        ),
        (
            "smp v1, tensor and pipeline",
            [
                p4d(1),
                smp("tensor-degree 2\n        pipeline-degree 2 microbatches=4 // in flight\n        \
                    prescaled-batch #true"),
                train(
                    "fp16",
                    "micro-batch 2\n        global-batch 64\n        activation-checkpointing #true",
                ),
                image("1.12", "py38"),
            ]
            .concat(),
        ),
        (
            "smp v2",
            [p4d(2), smp("shard-degree 8\n        context-degree 2"), mixed.clone(), image("2.5.1", "py311")]
                .concat(),
        ),
        (
            "smddp",
            [p4d(2), "    parallel engine=\"smddp\"\n".to_owned(), mixed.clone(), image("2.0.1", "py310")]
                .concat(),
        ),
        (
            "ddp",
            [
                p4d(2),
                "    parallel engine=\"ddp\" launcher=\"torchrun\"\n".to_owned(),
                train("bf16", "accumulation 4\n        global-batch 64"),
                new.clone(),
            ]
            .concat(),
        ),
        (
            "device-map",
            [
                "    cluster \"ml.g5.12xlarge\" nodes=1\n".to_owned(),
                "    adapter \"lora\" rank=16 alpha=16\n    quantize \"nf4\" double=#true \
                    compute=\"bf16\"\n"
                    .to_owned(),
                "    parallel engine=\"device-map\"\n".to_owned(),
                train("bf16", "micro-batch 4\n        accumulation 2"),
                new.clone(),
            ]
            .concat(),
        ),
        (
            "none",
            [
                "    cluster \"ml.g5.2xlarge\" nodes=1\n".to_owned(),
                "    adapter \"lora\" rank=16 alpha=16\n    parallel engine=\"none\"\n".to_owned(),
                train(
                    "bf16",
                    "micro-batch 4\n        accumulation 2\n        activation-checkpointing #true",
                ),
                new,
            ]
            .concat(),
        ),
        ("accelerate, full-shard", of("accelerate", "strategy \"full-shard\"")),
        (
            "accelerate, replicas",
            of("accelerate", "strategy \"full-shard\"\n        replicate-degree 2\n        shard-degree 8"),
        ),
        ("accelerate, hybrid-shard", of("accelerate", "strategy \"hybrid-shard\"\n        context-degree 2")),
        ("accelerate, zero-3", of("accelerate", "strategy \"zero-3\"\n        ulysses-degree 2")),
        ("deepspeed, zero-1", of("deepspeed", "strategy \"zero-1\"\n        offload \"optimizer\"")),
        ("deepspeed, zero-0", of("deepspeed", "strategy \"zero-0\"")),
        ("distributed-config", of("distributed-config", "shard-degree 8\n        tensor-degree 2")),
        (
            "distributed-config, replicas",
            of("distributed-config", "replicate-degree 16\n        pipeline-degree 1"),
        ),
        (
            "smp v2, experts",
            [p4d(2), smp("shard-degree 8\n        expert-degree 2"), mixed.clone(), image("2.5.1", "py311")]
                .concat(),
        ),
        ("smp v2, sequences whole", [p4d(2), smp("shard-degree 8"), mixed, image("2.5.1", "py311")].concat()),
    ]
}

/// The manifest of one of them; its model has eight experts in each layer where the name says so.
fn manifest(name: &str, nodes: &str) -> String {
    let text = job(nodes);
    if !name.ends_with("experts") {
        return text;
    }
    text.replace("model \"llama\" {", "model \"mixtral\" {\n        experts 8\n        active-experts 2")
}

fn compiled(text: &str, sets: &[String]) -> Compiled {
    let mut options: Options = options("");
    options.choices.sets.extend_from_slice(sets);
    compile_in(Memory::default(), "job.kdl", text, &options).compiled
}

fn near(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-9
}

fn limits() -> Limits {
    let instances =
        ["ml.p4d.24xlarge", "ml.p4de.24xlarge", "ml.g5.2xlarge", "ml.g5.12xlarge", "ml.g5.48xlarge"];
    Limits { instances: instances.map(str::to_owned).to_vec(), max_nodes: Some(4), ..Limits::default() }
}

/// The type of the jobs here, and so many nodes.
fn on_p4d(most: u64) -> Limits {
    Limits { instances: vec!["ml.p4d.24xlarge".to_owned()], max_nodes: Some(most), ..Limits::default() }
}

/// Every layout of every space, laid over the manifest, plans to the figures that the search gave it.
#[test]
fn a_layout_plans_to_what_the_search_says_of_it() {
    for (name, nodes) in jobs() {
        let text = manifest(name, &nodes);
        let base = compiled(&text, &[]);
        let plan = base.plan.as_ref().unwrap();
        let space = Space::from_plan(plan, &limits(), Constants::shipped(), &can_run_on)
            .unwrap_or_else(|why| panic!("{name}: {why}"));
        let points = search(&space, &limits(), Constants::shipped()).unwrap();
        assert!(points.len() >= 8, "{name}: {}", points.len());
        // As it stands it is one of them, where its instance type is compared.
        let own = *space.as_written().unwrap();
        let own = points.iter().find(|point| point.choice == own);
        let own = own.unwrap_or_else(|| panic!("{name}: what is written is not in the space"));
        assert!(space.values_to_set(&own.choice).is_empty() && own.changes == 0, "{name}");
        // What has no effect is no choice, but where the manifest has it.
        let as_written = *space.as_written().unwrap();
        for point in points.iter().filter(|point| point.choice.host_offload.activations) {
            let layout = space.layout(&point.choice).unwrap();
            assert!(point.choice == as_written || offloads_activations(&layout), "{name}: {point:?}");
        }
        // A stride that is prime to the axes' lengths meets all their values.
        let stride = (points.len() / 80).max(1) | 1;
        let mut planned = 0;
        for point in points.iter().step_by(stride).chain([own]) {
            let sets: Vec<String> =
                space.values_to_set(&point.choice).iter().map(ToString::to_string).collect();
            let found = compiled(&text, &sets);
            let said = format!("{name} {sets:?}: {point:?}");
            let memory = found.prediction.memory.as_ref().unwrap_or_else(|| panic!("{said}"));
            // A layout that an error forbids has no speed.
            if found.prediction.speed.is_none() && found.problems.errors() > 0 {
                continue;
            }
            let speed = found.prediction.speed.as_ref().unwrap_or_else(|| panic!("{said}"));
            let run = found.prediction.run.as_ref().unwrap_or_else(|| panic!("{said}"));
            assert!(near(memory.per_gpu_bytes, point.memory_bytes), "{said}\n{}", memory.per_gpu_bytes);
            assert!(near(speed.step_seconds, point.step_seconds), "{said}\n{}", speed.step_seconds);
            assert!(near(run.seconds, point.seconds), "{said}\n{}", run.seconds);
            assert_eq!(run.cost_usd.is_some(), point.usd.is_some(), "{said}");
            assert!(
                run.cost_usd.zip(point.usd).is_none_or(|(a, b)| near(a, b)),
                "{said}\n{:?}",
                run.cost_usd
            );
            // With nothing that bounds a run a layout fits, with room or without, or it does not.
            let fits = matches!(point.status, Status::Valid | Status::Tight);
            assert_eq!(memory.fits == Some(true), fits, "{said}");
            let room = memory.per_gpu_bytes * (1.0 + MEAN_ERROR) <= point.capacity_bytes;
            if fits && points.iter().any(|point| point.status == Status::Tight) {
                assert_eq!(room, point.status == Status::Valid, "{said}");
            }
            planned += 1;
        }
        // Of the axes of DistributedConfig only the tensor degree varies.
        let least = if name.starts_with("distributed-config") { 5 } else { 8 };
        assert!(planned >= least, "{name}: {planned}");
        // Degrees that are parts of the shard group vary where the manifest has them, or the model and the
        // library do.
        let all = |of: fn(&Point) -> u64| points.iter().map(of).collect::<BTreeSet<_>>();
        let (context, expert) =
            (all(|point| point.choice.degrees.context), all(|point| point.choice.degrees.expert));
        let expected: (&[u64], &[u64]) = match name {
            "smp v2" | "smp v2, sequences whole" => (&[1, 2, 4, 8], &[1]),
            name if name.starts_with("accelerate") && !name.ends_with("zero-3") => (&[1, 2, 4, 8], &[1]),
            "smp v2, experts" => (&[1], &[1, 2, 4, 8]),
            _ => (&[1], &[1]),
        };
        assert!(
            context.iter().eq(expected.0) && expert.iter().eq(expected.1),
            "{name}: {context:?} {expert:?}"
        );
    }
}

/// The front as time and cost, to be compared.
fn figures(points: impl Iterator<Item = (f64, f64)>) -> BTreeSet<(String, String)> {
    points.map(|(seconds, usd)| (format!("{seconds:.6e}"), format!("{usd:.6e}"))).collect()
}

/// What none of them beats, by holding each against each.
fn unbeaten(all: &[(f64, f64)]) -> BTreeSet<(String, String)> {
    let best = all.iter().filter(|one| {
        !all.iter().any(|other| {
            let no_worse = other.0 <= one.0 * (1.0 + 1e-9) && other.1 <= one.1 * (1.0 + 1e-9);
            no_worse && (other.0 < one.0 * (1.0 - 1e-9) || other.1 < one.1 * (1.0 - 1e-9))
        })
    });
    figures(best.copied())
}

/// Each combination of one `--set` list for each axis.
fn combinations(axes: &[Vec<Vec<String>>]) -> Vec<Vec<String>> {
    axes.iter().fold(vec![Vec::new()], |so_far, axis| {
        so_far
            .iter()
            .flat_map(|sets| axis.iter().map(move |more| [sets.as_slice(), more.as_slice()].concat()))
            .collect()
    })
}

fn axis(path: &str, values: &[&str]) -> Vec<Vec<String>> {
    values.iter().map(|value| vec![format!("{path}={value}")]).collect()
}

/// The compiler alone, asked about every value of every axis: what it refuses or what does not fit is out.
#[track_caller]
fn tries_everything(text: &str, axes: &[Vec<Vec<String>>], limits: &Limits) {
    let mut all = Vec::new();
    let tried = combinations(axes);
    for sets in &tried {
        let found = compiled(text, sets);
        let fits = found.prediction.memory.as_ref().and_then(|memory| memory.fits) == Some(true);
        if found.problems.errors() == 0 && fits {
            let run = found.prediction.run.unwrap();
            all.push((run.seconds, run.cost_usd.unwrap()));
        }
    }
    assert!(all.len() > 20 && all.len() < tried.len(), "{} of {}", all.len(), tried.len());
    let base = compiled(text, &[]);
    let space =
        Space::from_plan(base.plan.as_ref().unwrap(), limits, Constants::shipped(), &can_run_on).unwrap();
    let points = search(&space, limits, Constants::shipped()).unwrap();
    let chosen: Vec<Point> = pareto_front(&points).into_iter().map(|at| points[at]).collect();
    for point in &chosen {
        let sets: Vec<String> = space.values_to_set(&point.choice).iter().map(ToString::to_string).collect();
        assert_eq!(compiled(text, &sets).problems.errors(), 0, "{sets:?}");
    }
    assert_eq!(figures(chosen.iter().map(|point| (point.seconds, point.usd.unwrap()))), unbeaten(&all));
}

#[test]
fn the_front_under_fsdp_is_what_trying_everything_finds() {
    let nodes = &jobs()[1].1;
    let text = job(&nodes.replace("global-batch 64", "global-batch 32"));
    let mut strategies: Vec<Vec<String>> = Vec::new();
    for (word, degree) in
        [("full-shard", 16), ("full-shard", 8), ("shard-grad-op", 16), ("shard-grad-op", 8), ("no-shard", 1)]
    {
        strategies.push(vec![format!("parallel.strategy={word}"), format!("parallel.shard-degree={degree}")]);
    }
    for degree in [2, 3, 4, 8] {
        strategies.push(vec![
            "parallel.strategy=hybrid-shard".to_owned(),
            format!("parallel.shard-degree={degree}"),
        ]);
    }
    let axes = [
        axis("cluster.nodes", &["1", "2"]),
        strategies,
        axis("train.micro-batch", &["1", "2", "3", "4"]),
        axis("train.activation-checkpointing", &["#true", "#false"]),
        axis("parallel.offload", &["#true", "#false"]),
    ];
    tries_everything(&text, &axes, &on_p4d(2));
}

#[test]
fn the_front_under_zero_is_what_trying_everything_finds() {
    let nodes = &jobs().into_iter().find(|(name, _)| *name == "deepspeed, zero-1").unwrap().1;
    let text = job(&nodes.replace("global-batch 64", "global-batch 32"));
    let axes = [
        axis("cluster.nodes", &["1", "2"]),
        axis("parallel.strategy", &["zero-0", "zero-1", "zero-2", "zero-3"]),
        axis("parallel.ulysses-degree", &["1", "2", "3", "4", "8"]),
        axis("train.micro-batch", &["1", "2", "4"]),
        axis("train.activation-checkpointing", &["#true", "#false"]),
        axis("parallel.offload", &["#true", "#false", "optimizer"]),
    ];
    tries_everything(&text, &axes, &on_p4d(2));
}

#[test]
fn the_front_under_accelerate_is_what_trying_everything_finds() {
    let nodes = &jobs().into_iter().find(|(name, _)| *name == "accelerate, replicas").unwrap().1;
    let text = job(&nodes
        .replace("global-batch 64", "global-batch 16")
        .replace("nodes=2", "nodes=1")
        .replace("shard-degree 8", "shard-degree 4"));
    let mut meshes = Vec::new();
    for strategy in ["full-shard", "shard-grad-op"] {
        for replicas in [1, 2, 4, 8] {
            for shard in [1, 2, 3, 4, 8] {
                for context in [1, 2, 4, 8] {
                    meshes.push(vec![
                        format!("parallel.strategy={strategy}"),
                        format!("parallel.replicate-degree={replicas}"),
                        format!("parallel.shard-degree={shard}"),
                        format!("parallel.context-degree={context}"),
                    ]);
                }
            }
        }
    }
    for context in [1, 2, 4, 8] {
        meshes.push(vec![
            "parallel.strategy=no-shard".to_owned(),
            "parallel.shard-degree=1".to_owned(),
            format!("parallel.replicate-degree={}", 8 / context),
            format!("parallel.context-degree={context}"),
        ]);
    }
    let axes = [
        meshes,
        axis("train.micro-batch", &["1", "2"]),
        axis("train.activation-checkpointing", &["#true", "#false"]),
        axis("parallel.offload", &["#true", "#false"]),
    ];
    tries_everything(&text, &axes, &on_p4d(1));
}

/// What a file of the engine sets is tried as if the file were edited, and shown as the line to edit.
#[test]
fn values_of_files_are_lines_to_edit() {
    let file = "distributed_type: DEEPSPEED\nmixed_precision: bf16\ndeepspeed_config:\n  zero_stage: 2\n";
    let nodes = &jobs().into_iter().find(|(name, _)| *name == "accelerate, zero-3").unwrap().1;
    let start = nodes.find("{\n        strategy").unwrap();
    let end = start + nodes[start..].find('}').unwrap() + 1;
    let nodes = [&nodes[..start], "file=\"zero2.yaml\"", &nodes[end..]].concat();
    let text = job(&nodes);
    let compiled = |sets: &[String], replaces: bool| {
        let mut options: Options = options("");
        options.choices.sets.extend_from_slice(sets);
        options.choices.replaces_file_values = replaces;
        compile_in(Memory::default().with("zero2.yaml", file), "job.kdl", &text, &options).compiled
    };
    let base = compiled(&[], false);
    let space =
        Space::from_plan(base.plan.as_ref().unwrap(), &limits(), Constants::shipped(), &can_run_on).unwrap();
    let points = search(&space, &limits(), Constants::shipped()).unwrap();
    let mut edited = 0;
    for point in points.iter().filter(|point| point.choice.degrees.sharding == Sharding::Full).take(20) {
        let sets = space.values_to_set(&point.choice);
        let edit = sets.iter().find(|set| set.path() == "parallel.strategy").unwrap();
        assert_eq!(edit.file.as_ref().unwrap().to_string(), "zero2.yaml:4: `zero_stage: 3`");
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        assert!(compiled(&sets, false).problems.iter().any(|one| one.code.id == "T0802"), "{sets:?}");
        let tried = compiled(&sets, true);
        assert!(tried.problems.iter().all(|one| one.code.id != "T0802"), "{sets:?}");
        let memory = tried.prediction.memory.unwrap();
        assert!(near(memory.per_gpu_bytes, point.memory_bytes), "{sets:?}: {point:?}");
        edited += 1;
    }
    assert_eq!(edited, 20);
}

#[test]
fn the_front_under_smp_is_what_trying_everything_finds() {
    let nodes = &jobs()[4].1;
    let text = job(&nodes.replace("global-batch 64", "global-batch 16"));
    let mut meshes = Vec::new();
    for tensor in [1, 2, 3, 8] {
        for pipeline in [1, 2, 8] {
            for shard in [1, 8] {
                for own in ["#true", "#false"] {
                    meshes.push(vec![
                        format!("parallel.tensor-degree={tensor}"),
                        format!("parallel.pipeline-degree={pipeline}"),
                        format!("parallel.shard-degree={shard}"),
                        format!("parallel.shard-optimizer-state={own}"),
                    ]);
                }
            }
        }
    }
    let axes = [
        meshes,
        axis("parallel.pipeline-degree.microbatches", &["1", "4", "16"]),
        axis("train.micro-batch", &["1", "2", "4", "16"]),
        axis("train.activation-checkpointing", &["#true", "#false"]),
    ];
    tries_everything(&text, &axes, &on_p4d(1));
}

fn run(dir: &Scratch, args: &[&str]) -> Ran {
    trainc_in(&dir.0, args, b"", Duration::from_mins(1))
}

/// What is written plans to what was shown, to the last digit, whatever the engine, and the rest of the file
/// stays.
#[test]
fn what_is_written_plans_to_what_was_shown() {
    // What spot instances take nobody knows; what the same hours cost on demand stands in both.
    let spot = jobs()[0].1.replace("max-run \"1d\"", "max-run \"1d\"\n        spot max-wait=\"2d\"")
        + "\n    checkpoint s3=\"s3://example-runs/tuned/checkpoints/\" every=\"200 steps\"\n";
    assert!(spot.contains("spot max-wait"));
    for (name, nodes) in jobs().into_iter().chain([("fsdp, on spot instances", spot)]) {
        let text = manifest(name, &nodes);
        let dir = Scratch::new("tune-write");
        dir.write("scripts/train.py", "import torch\n");
        dir.write("job.kdl", &text);
        // The price of a p4de there is an estimate.
        let types = if name.contains("spot") {
            "ml.p4d.24xlarge,ml.g5.12xlarge"
        } else {
            "ml.p4d.24xlarge,ml.p4de.24xlarge,ml.g5.2xlarge,ml.g5.12xlarge"
        };
        let space = ["--instances", types, "--max-nodes", "4"];
        let shown = run(&dir, &[&["tune", "job.kdl", "-o", "json"][..], &space].concat());
        assert_eq!(shown.code, Some(0), "{name}\n{}{}", shown.out, shown.err);
        let front = shown.json()["front"].as_array().unwrap().clone();
        assert!(!front.is_empty(), "{name}");
        for (number, entry) in (1..).zip(&front) {
            dir.write("job.kdl", &text);
            let write = format!("--write={number}");
            let ran = run(&dir, &[&["tune", "job.kdl", &write][..], &space].concat());
            assert_eq!(ran.code, Some(0), "{name} {number}\n{}", ran.err);
            let new = std::fs::read_to_string(dir.0.join("job.kdl")).unwrap();
            for comment in ["// A job to tune.", "// where", "// as measured"] {
                assert!(new.contains(comment), "{name}\n{new}");
            }
            let changed = entry["sets"].as_array().unwrap();
            assert_eq!(new == text, changed.is_empty(), "{name}\n{new}");
            let plan = run(&dir, &["plan", "--offline", "job.kdl", "-o", "json"]).json();
            for (of_plan, of_entry) in [
                ("/speed/step_seconds", "step_seconds"),
                ("/run/seconds", "seconds"),
                ("/run/cost_usd", "cost_usd"),
                ("/run/on_demand_usd", "on_demand_usd"),
                ("/run/on_demand_usd_interval/low", "on_demand_usd_low"),
                ("/run/on_demand_usd_interval/high", "on_demand_usd_high"),
                ("/speed/interval/low", "step_seconds_low"),
                ("/speed/interval/high", "step_seconds_high"),
                ("/memory/interval/low", "memory_low_bytes"),
                ("/memory/per_gpu_bytes", "memory_bytes"),
                ("/cluster/nodes", "nodes"),
                ("/cluster/instance", "instance"),
            ] {
                // What a plan has no figure of does not stand in it.
                let planned = plan.pointer(of_plan).unwrap_or(&serde_json::Value::Null);
                let shown = &entry[of_entry];
                let same = match (planned.as_f64(), shown.as_f64()) {
                    (Some(planned), Some(shown)) => near(planned, shown),
                    _ => planned == shown,
                };
                assert!(same, "{name} {number} {of_plan}: {planned} {shown}\n{new}");
            }
            let (cost, on_demand) = (&entry["cost_usd"], &entry["on_demand_usd"]);
            if name.contains("spot") {
                assert!(cost.is_null() && on_demand.is_number(), "{name} {number}: {entry}");
            }
        }
    }
}

/// A job on spot instances with a file system: what a layout costs on demand, storage included, is what is
/// weighed, so that no row is both slower and more expensive than another.
#[test]
fn without_a_price_of_spot_the_front_goes_by_the_price_on_demand() {
    let dir = Scratch::new("tune-on-demand");
    let path = format!("{}/examples/llama-7b-fsdp/trainc.kdl", root().display());
    let shown = run(&dir, &["tune", &path, "--next", "40", "-o", "json"]);
    assert_eq!(shown.code, Some(0), "{}", shown.err);
    let shown = shown.json();
    let (front, lost) = (shown["front"].as_array().unwrap(), shown["lost"].as_array().unwrap());
    assert!(!front.is_empty() && lost.len() > 10, "{shown}");
    assert!(front.iter().all(|one| one["price"]["date"].is_string()), "{front:?}");
    let own = ["--instances", "ml.p4d.24xlarge", "--max-nodes", "8"];
    let written = run(&dir, &[&["tune", &path][..], &own].concat()).out;
    let most = written.lines().find(|line| line.starts_with("at most $")).unwrap_or_default();
    assert!(most.contains(" (1)") && most.ends_with(" for 5d"), "{written}");
    assert!(written.contains("\nafter the end: file system `corpus`: $"), "{written}");
    let comment = run(&dir, &[&["tune", &path, "-o", "markdown"][..], &own].concat()).out;
    assert!(
        comment.contains("\n\nAt most \\$") && comment.contains("\n\nAfter the end: file system "),
        "{comment}"
    );
    let figures = |one: &serde_json::Value| {
        assert!(one["cost_usd"].is_null(), "{one}");
        (one["seconds"].as_f64().unwrap(), one["on_demand_usd"].as_f64().unwrap())
    };
    let beats = |one: (f64, f64), other: (f64, f64)| one.0 <= other.0 && one.1 <= other.1 && one != other;
    for one in front {
        let beaten = front.iter().chain(lost).filter(|other| {
            other
                .get("reason")
                .is_none_or(|reason| ["beaten", "aside"].contains(&reason["kind"].as_str().unwrap()))
        });
        let beaten = beaten.into_iter().any(|other| beats(figures(other), figures(one)));
        assert!(one["beaten"] == true || !beaten, "{one}");
    }
    let beaten: Vec<_> = lost.iter().filter(|one| one["reason"]["kind"] == "beaten").collect();
    assert!(!beaten.is_empty(), "{lost:?}");
    for one in beaten {
        let by = &front[usize::try_from(one["reason"]["by"].as_u64().unwrap()).unwrap() - 1];
        let (own, best) = (figures(one), figures(by));
        assert!(beats(best, own), "{one} {by}");
        let dearer = one["reason"]["dearer_on_demand_usd"].as_f64().unwrap();
        assert!(one["reason"]["dearer_usd"].is_null() && near(dearer, own.1 - best.1), "{one}");
        let [low, mid, high] =
            ["_low", "", "_high"].map(|end| one[format!("on_demand_usd{end}")].as_f64().unwrap());
        assert!(low < mid && mid < high, "{one}");
    }
}

/// A value that stands in an environment is not changed by the job's own text: nothing is written.
#[test]
fn what_would_not_count_is_not_written() {
    let dir = Scratch::new("tune-env");
    dir.write("scripts/train.py", "import torch\n");
    let text =
        format!("{}env \"prod\" {{\n    train {{\n        micro-batch 1\n    }}\n}}\n", job(&jobs()[1].1));
    dir.write("job.kdl", &text);
    let ran = run(&dir, &["tune", "job.kdl", "--env", "prod", "--write"]);
    assert_eq!(ran.code, Some(3), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("is left as it is"), "{}", ran.err);
    assert_eq!(std::fs::read_to_string(dir.0.join("job.kdl")).unwrap(), text);
}

/// 20 TiB over a million sequences are 21,990,232.56 bytes each. The disks of 1,200 GiB at 125 MB/s per TiB
/// give 146,484,375 bytes a second: 64 sequences take 9.60768 s, whatever the GPUs do.
#[test]
fn a_slow_file_system_sets_the_pace() {
    let read = 64.0 * 20.0 * 1024.0_f64.powi(4) / 1e6 / (125e6 * 1200.0 / 1024.0);
    assert!((read - 9.60768).abs() < 1e-5, "{read}");
    let dir = Scratch::new("tune-input");
    dir.write("scripts/train.py", "import torch\n");
    let write = |size: &str| {
        let text = job(&jobs()[0].1)
            .replace("steps 1000", &format!("steps 1000\n        dataset sequences=1_000_000{size}"))
            .replace(
                "    channel \"train\" s3=\"s3://example-corpus/tokens/\"\n",
                "    network {\n        subnets \"subnet-0123456789abcdef0\"\n        \
                    security-groups \"sg-0123456789abcdef0\"\n    }\n    storage \"lustre\" name=\"corpus\" \
                    capacity=\"1200GiB\" deployment=\"persistent-2\" throughput=125 {\n        import \
                    \"s3://example-corpus/tokens/\"\n    }\n    channel \"train\" from=\"corpus\"\n",
            );
        dir.write("job.kdl", text);
    };
    let plan = || {
        let ran = run(&dir, &["plan", "--offline", "job.kdl", "-o", "json"]);
        assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
        ran.json()
    };
    let number = |plan: &serde_json::Value, at: &str| plan.pointer(at).unwrap().as_f64().unwrap();
    // Without the size of the data, loading is assumed to keep up.
    write("");
    let works = plan();
    let rest = number(&works, "/speed/step_seconds");
    assert!(works["speed"]["parts"]["input"].is_null() && rest < read, "{works}");
    assert!(works["notes"].to_string().contains("the bytes per sequence"), "{}", works["notes"]);
    write(" size=\"20TiB\"");
    let waits = plan();
    assert!(near(number(&waits, "/speed/step_seconds"), read), "{}", waits["speed"]);
    assert!(near(number(&waits, "/speed/parts/input"), read - rest), "{}", waits["speed"]);
    assert!(near(number(&waits, "/speed/tokens_per_second"), 64.0 * 1024.0 / read), "{}", waits["speed"]);
    assert!(near(number(&waits, "/run/parts/training"), 1000.0 * read), "{}", waits["run"]);
    let more = number(&waits, "/run/cost_parts/instances") / number(&works, "/run/cost_parts/instances");
    assert!(near(more, number(&waits, "/run/seconds") / number(&works, "/run/seconds")), "{more}");
    // No layout is faster than its data, so that the cheapest is the whole front.
    let tuned =
        run(&dir, &["tune", "job.kdl", "--instances", "ml.p4d.24xlarge", "--max-nodes", "4", "-o", "json"])
            .json();
    let front = tuned["front"].as_array().unwrap();
    assert!(front.iter().all(|one| near(number(one, "/step_seconds"), read)), "{front:?}");
    assert!(front.len() == 1 && front[0]["nodes"] == 1, "{front:?}");
}

/// The next command reads the file without `--set`: what comes to the layout shown only with it is not
/// written, and said.
#[test]
fn what_counts_only_with_set_is_not_written() {
    let dir = Scratch::new("tune-set");
    dir.write("scripts/train.py", "import torch\n");
    let text = job(&jobs()[1].1);
    let tune = |sets: &[&str]| {
        dir.write("job.kdl", &text);
        run(&dir, &[&["tune", "job.kdl", "--max-nodes", "4", "--write"][..], sets].concat())
    };
    // A batch that stands on the command line alone.
    let ran = tune(&["--set", "train.global-batch=512"]);
    assert_eq!(ran.code, Some(3), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("only with `--set train.global-batch=512`"), "{}", ran.err);
    assert!(ran.err.contains("`trainc tune job.kdl --write`"), "{}", ran.err);
    assert_eq!(std::fs::read_to_string(dir.0.join("job.kdl")).unwrap(), text);
    // Four nodes on the command line, two in the file: the fastest has four, and says nothing of them; the
    // next has two.
    let nodes = ["--set", "cluster.nodes=4"];
    let ran = tune(&nodes);
    assert_eq!(ran.code, Some(3), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("only with `--set cluster.nodes=4`"), "{}", ran.err);
    assert_eq!(std::fs::read_to_string(dir.0.join("job.kdl")).unwrap(), text);
    let tuned = run(&dir, &[&["tune", "job.kdl", "--max-nodes", "4", "-o", "json"][..], &nodes].concat());
    let shown = &tuned.json()["front"][1];
    let second = ["--set", "cluster.nodes=4", "--write=2"];
    let ran = run(&dir, &[&["tune", "job.kdl", "--max-nodes", "4"][..], &second].concat());
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let planned = run(&dir, &["plan", "--offline", "job.kdl", "-o", "json"]).json();
    assert_eq!((&shown["nodes"], &planned["cluster"]["nodes"]), (&2.into(), &2.into()), "{shown}");
    let of_plan = planned.pointer("/speed/step_seconds").unwrap().as_f64().unwrap();
    assert!(near(of_plan, shown["step_seconds"].as_f64().unwrap()), "{shown}");
    // What moves nothing that is shown is no reason to refuse.
    let ran = tune(&["--set", "train.seed=7"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
}

/// A setting of what is switched off has no effect: a layout that moves no activations is shown and written
/// without `horizon`.
#[test]
fn a_layout_without_offload_is_written_without_its_horizon() {
    let dir = Scratch::new("tune-horizon");
    dir.write("scripts/train.py", "import torch\n");
    let (engine, text) = &jobs()[3];
    let text = job(text).replace("offload-activations #true", "offload-activations #true horizon=2");
    assert!(text.contains("horizon=2"), "{engine}");
    dir.write("job.kdl", &text);
    let tune = ["tune", "job.kdl", "--instances", "ml.p4d.24xlarge", "--max-nodes", "2"];
    let tuned = run(&dir, &[&tune[..], &["-o", "json"]].concat()).json();
    let front = tuned["front"].as_array().unwrap();
    let ends = |one: &&serde_json::Value| one["sets"].to_string().contains("offload-activations=#false");
    let found = front.iter().find(ends).unwrap_or_else(|| panic!("{front:?}"));
    assert!(found["sets"].to_string().contains("parallel.offload-activations.horizon=#null"), "{found}");
    let ran = run(&dir, &[&tune[..], &[&format!("--write={}", found["number"])]].concat());
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let written = std::fs::read_to_string(dir.0.join("job.kdl")).unwrap();
    assert!(written.contains("offload-activations #false\n") && !written.contains("horizon"), "{written}");
    let checked = run(&dir, &["check", "job.kdl"]);
    assert!(!checked.err.contains("horizon"), "{}", checked.err);
}

/// Why each of those that come next lost: by what it says, which can be held against the figures beside it.
#[test]
fn what_comes_next_says_why_it_lost() {
    let dir = Scratch::new("tune-why");
    dir.write("scripts/train.py", "import torch\n");
    // bf16 does not run on V100, and the checks know.
    dir.write("job.kdl", job(&jobs()[1].1));
    let space = [
        "--instances",
        "ml.p4d.24xlarge,ml.p3.16xlarge",
        "--max-nodes",
        "4",
        "--next",
        "20",
        "--price",
        "ml.p3.16xlarge=5",
    ];
    let shown = run(&dir, &[&["tune", "job.kdl", "-o", "json"][..], &space].concat()).json();
    let (front, lost) = (shown["front"].as_array().unwrap(), shown["lost"].as_array().unwrap());
    let mut kinds = BTreeSet::new();
    let mut refusals = BTreeSet::new();
    for one in lost {
        let reason = &one["reason"];
        let kind = reason["kind"].as_str().unwrap();
        kinds.insert(kind.to_owned());
        match kind {
            "beaten" => {
                let by = &front[usize::try_from(reason["by"].as_u64().unwrap()).unwrap() - 1];
                let ratio = one["seconds"].as_f64().unwrap() / by["seconds"].as_f64().unwrap() - 1.0;
                assert!((ratio - reason["slower"].as_f64().unwrap()).abs() < 1e-9, "{one}");
                assert!(ratio >= 0.0 && one["cost_usd"].as_f64() >= by["cost_usd"].as_f64(), "{one}");
                let more = one["step_seconds"].as_f64().unwrap() - by["step_seconds"].as_f64().unwrap();
                let because: f64 = reason["because"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|part| part["seconds"].as_f64().unwrap())
                    .sum();
                assert!(because >= more * 0.5, "{one}");
            }
            "refused" => {
                assert_eq!(reason["code"], "T0381", "{one}");
                // The same refusal is said once, with how many layouts it met.
                assert!(refusals.insert(reason["message"].as_str().unwrap()), "{lost:?}");
                let many = reason["layouts"].as_u64().unwrap();
                let said = one["text"].as_str().unwrap();
                assert_eq!(said.ends_with(&format!(" ({many} layouts)")), many > 1, "{one}");
            }
            other => panic!("{other}"),
        }
    }
    // The type is refused as it is: what would not fit it is no answer (`what_is_refused_for_its_type_…` has
    // one that is).
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["beaten", "refused"]);
    for bound in [["--deadline", "6m"], ["--max-usd", "1"]] {
        let ran = run(&dir, &[&["tune", "job.kdl"][..], &bound, &space].concat());
        assert_eq!(ran.code, Some(3), "{}", ran.out);
        assert!(
            ran.out.contains(if bound[0] == "--deadline" { "too late: " } else { "too expensive: " }),
            "{}",
            ran.out
        );
        assert!(ran.out.contains(" fit, 0 of them within the bounds"), "{}", ran.out);
        assert!(
            ran.err.contains(if bound[0] == "--deadline" {
                "all are too late"
            } else {
                "all are too expensive"
            }),
            "{}",
            ran.err
        );
        assert!(
            ran.err.contains("help: up to 64 nodes none does") || ran.err.contains("help: `--max-nodes "),
            "{}",
            ran.err
        );
    }
    assert_eq!(run(&dir, &["tune", "job.kdl", "--deadline", "0s"]).code, Some(2));
    let page = run(&dir, &[&["tune", "job.kdl", "-o", "markdown"][..], &space].concat()).out;
    assert!(
        page.contains("| 1 | ") && page.contains("beaten by 1: ") && page.contains("refused by T0381"),
        "{page}"
    );
}

/// Interruptions at a given rate are part of the time that a deadline is held against, and of the time that
/// is shown.
#[test]
fn a_deadline_counts_interruptions() {
    let dir = Scratch::new("tune-spot");
    dir.write("scripts/train.py", "import torch\n");
    let spot = "max-run \"1d\"\n        spot max-wait=\"2d\" interruptions-per-hour=2.0\n";
    let saves = "\n    checkpoint s3=\"s3://example-runs/tuned/{{ job.digest }}/\" every=\"optimal\"\n";
    let text = job(&(jobs()[0].1.replace("max-run \"1d\"\n", spot) + saves));
    dir.write("job.kdl", &text);
    let tune =
        |more: &[&str]| run(&dir, &[&["tune", "job.kdl", "-o", "json", "--discount", "0.6"], more].concat());
    let all = tune(&[]);
    let first = all.json()["front"][0].clone();
    let seconds = first["seconds"].as_f64().unwrap_or_else(|| panic!("{}{}", all.out, all.err));
    let sets = first["sets"].as_array().unwrap().iter().flat_map(|set| ["--set", set.as_str().unwrap()]);
    let args: Vec<&str> =
        ["plan", "--offline", "job.kdl", "-o", "json", "--discount", "0.6"].into_iter().chain(sets).collect();
    let plan = run(&dir, &args).json();
    let expected = plan.pointer("/run/spot/expected_seconds").unwrap().as_f64().unwrap();
    // Time and dollars of a run are of one and the same time: that which is expected with the interruptions.
    let of = |at: &str| plan.pointer(at).unwrap().as_f64().unwrap();
    assert!(near(of("/run/seconds"), expected) && near(of("/run/cost_usd"), of("/run/spot/expected_usd")));
    let paid = of("/price/usd_per_hour") * of("/cluster/nodes") * expected / 3_600.0;
    assert!(near(of("/run/cost_parts/instances"), paid), "{} {paid}", plan["run"]);
    let interruptions = of("/run/parts/interruptions");
    let undisturbed = of("/run/parts/startup") + of("/run/parts/training") + of("/run/parts/checkpoints");
    assert!(plan["run"]["parts"]["download"].is_null(), "{}", plan["run"]);
    assert!(near(undisturbed + interruptions, expected), "{}", plan["run"]);
    assert_eq!(plan["run"]["interval"], plan["run"]["spot"]["expected_seconds_interval"]);
    assert!(near(seconds, expected) && expected > undisturbed, "{seconds} {expected} {undisturbed}");
    let between = format!("{}s", undisturbed.midpoint(expected).floor());
    let late = tune(&["--deadline", &between]);
    let on_front = late.json()["front"].as_array().unwrap().clone();
    assert!(on_front.iter().all(|one| one["seconds"].as_f64().unwrap() < expected), "{}", late.out);
}

/// Terminal, JSON, page and `--write` count the same layouts in the same order, with a price or without.
#[test]
fn one_numbering_holds_everywhere() {
    let dir = Scratch::new("tune-numbers");
    dir.write("scripts/train.py", "import torch\n");
    dir.write("job.kdl", job(&jobs()[1].1));
    // `ml.p5e.48xlarge` has no public price: the fastest stands first, beside priced ones.
    let space = ["--instances", "ml.p4d.24xlarge,ml.p5e.48xlarge", "--max-nodes", "4"];
    let shown =
        run(&dir, &[&["tune", "job.kdl", "-o", "json", "--report", "r.html"][..], &space].concat()).json();
    let front = shown["front"].as_array().unwrap();
    assert!(front.iter().any(|one| one["cost_usd"].is_null()), "{front:?}");
    assert!(front.iter().any(|one| !one["cost_usd"].is_null()), "{front:?}");
    let page = std::fs::read_to_string(dir.0.join("r.html")).unwrap();
    let human = run(&dir, &[&["tune", "job.kdl"][..], &space].concat()).out;
    // Lines are broken where the terminal ends.
    let plain = human.split_whitespace().collect::<Vec<_>>().join(" ");
    for (number, one) in (1..).zip(front) {
        assert_eq!(one["number"], number, "{one}");
        let words = one["layout"].as_str().unwrap();
        for figure in ["seconds", "cost_usd"].into_iter().filter(|figure| !one[*figure].is_null()) {
            let [low, mid, high] =
                ["_low", "", "_high"].map(|end| one[format!("{figure}{end}")].as_f64().unwrap());
            assert!(low < mid && mid < high, "{one}");
        }
        let mark = if shown["first_choice"] == number { "*" } else { "" };
        assert!(human.contains(&format!("\n{:>3}  ", format!("{mark}{number}"))), "{human}");
        let [low, high] = ["seconds_low", "seconds_high"].map(|end| one[end].as_f64().unwrap());
        let [low, high] = [low, high].map(trainc_diag::text::rounded_duration);
        let mut between = format!("{low} to {high}");
        if let Some((low, high)) = one["cost_usd_low"].as_f64().zip(one["cost_usd_high"].as_f64()) {
            between +=
                &format!(" {} to {}", trainc_diag::text::dollars(low), trainc_diag::text::dollars(high));
        }
        let [low, high] = ["step_seconds_low", "step_seconds_high"].map(|end| one[end].as_f64().unwrap());
        between += &format!(" {low:.2} to {high:.2} s");
        let [low, high] = ["memory_low_bytes", "memory_high_bytes"]
            .map(|end| one[end].as_f64().unwrap() / 1024.0_f64.powi(3));
        between += &format!(" {low:.1} to {high:.1} GiB");
        assert!(plain.contains(&between), "{between}\n{human}");
        let named = format!(">{number}: {}", words.replacen(" × ", "\u{a0}×\u{a0}", 1));
        assert_eq!(page.contains(&named), !one["cost_usd"].is_null(), "{named}");
    }
    assert!(page.contains(&format!("These {} are", front.len())) || front.len() == 1, "{page}");
    // Those that nothing beats are told apart from those that fit more surely.
    let figures = |one: &serde_json::Value| {
        (one["seconds"].as_f64().unwrap(), one["cost_usd"].as_f64().unwrap_or(f64::INFINITY))
    };
    for one in front.iter().filter(|one| one["beaten"] == false) {
        let (seconds, usd) = figures(one);
        let beats = |other: &&serde_json::Value| {
            let (quicker, cheaper) = figures(other);
            quicker <= seconds && cheaper <= usd && (quicker < seconds || cheaper < usd)
        };
        assert_eq!(front.iter().find(beats), None, "{one}");
    }
    assert!(front.iter().all(|one| one["beaten"] == false || one["tight"] == false), "{front:?}");
    // The schema says what each member is.
    let schema: serde_json::Value =
        serde_json::from_str(&crate::support::read("schemas/tune.v1.json")).unwrap();
    let members =
        |of: &serde_json::Value| -> BTreeSet<String> { of.as_object().unwrap().keys().cloned().collect() };
    let said = |at: &str| members(schema.pointer(at).unwrap());
    assert_eq!(members(&shown), said("/properties"));
    assert_eq!(members(&front[0]), said("/$defs/Layout/properties"));
    assert_eq!(members(&shown["lost"][0]), said("/$defs/RunnerUp/properties"));
    // What lost has its intervals as well.
    for one in shown["lost"].as_array().unwrap() {
        for [low, mid, high] in [
            ["step_seconds_low", "step_seconds", "step_seconds_high"],
            ["seconds_low", "seconds", "seconds_high"],
            ["memory_low_bytes", "memory_bytes", "memory_high_bytes"],
        ] {
            let [low, mid, high] = [low, mid, high].map(|figure| one[figure].as_f64().unwrap());
            assert!(low < mid && mid < high, "{one}");
        }
    }
    let first = shown["first_choice"].as_u64().unwrap();
    // The command that is printed last searches the same layouts.
    let told = run(&dir, &[&["tune", "job.kdl"][..], &space].concat());
    let next = told.out.lines().last().and_then(|line| line.strip_prefix("next   trainc "));
    let next: Vec<&str> = next.unwrap_or_else(|| panic!("{}", told.out)).split(' ').collect();
    assert!(space.iter().all(|word| next.contains(word)) && next.last() == Some(&"--write"), "{next:?}");
    let ran = run(&dir, &next);
    assert!(ran.err.contains(&format!("wrote job.kdl: layout {first}, the fastest")), "{}", ran.err);
}

/// What keeps a bound of money from being held names what has no price; a bound that nothing keeps changes no
/// count.
#[test]
fn what_has_no_price_is_named() {
    let dir = crate::support::Scratch::new("tune-unpriced");
    dir.write("scripts/train.py", "");
    let job = |region: &str| {
        format!(
            "job \"a\" {{\n    region \"{region}\"\n    model \"huggyllama/llama-7b\"\n    cluster \"ml.p4d.24xlarge\" nodes=2 {{ max-run \"5d\" }}\n    parallel engine=\"fsdp\" {{ wrap \"LlamaDecoderLayer\" }}\n    train {{\n        precision \"bf16\"\n        sequence-length 2048\n        micro-batch 1\n        global-batch 64\n        activation-checkpointing #true\n        steps 1000\n        optimizer \"adamw\" lr=1e-4\n    }}\n    program \"train.py\" source=\"./scripts\"\n    image \"pytorch\" version=\"2.8.0\" python=\"py312\"\n    role create=#true\n    network {{ subnets \"subnet-0123456789abcdef0\"; security-groups \"sg-0123456789abcdef0\" }}\n    storage \"lustre\" name=\"corpus\" capacity=\"1800GiB\" deployment=\"persistent-1\" type=\"hdd\" drive-cache=\"none\" throughput=40\n    channel \"train\" from=\"corpus\" path=\"/x\"\n    output s3=\"s3://bucket/x/\"\n}}\n"
        )
    };
    dir.write("near.kdl", job("us-east-1"));
    dir.write("far.kdl", job("eu-west-1").replace("ml.p4d.24xlarge", "ml.p5e.48xlarge"));
    let tune = |args: &[&str]| {
        crate::support::trainc_in(
            &dir.0,
            &[&["tune"][..], args].concat(),
            b"",
            std::time::Duration::from_mins(1),
        )
    };
    let far = tune(&["far.kdl", "--instances", "ml.p5e.48xlarge", "--max-usd", "20"]);
    assert_eq!(far.code, Some(3), "{}", far.out);
    assert!(
        far.err.contains("help: the price of `ml.p5e.48xlarge` is unknown: set it with `--price"),
        "{}",
        far.err
    );
    assert!(!far.out.contains("\n\n\n"), "{}", far.out);
    // The instances have a price, so the cost is known.
    let dear = tune(&["near.kdl", "--max-usd", "5"]);
    assert!(dear.err.contains("too expensive") && !dear.err.contains("--price"), "{}", dear.err);
    let held = tune(&["near.kdl", "--max-usd", "500"]).out;
    assert!(held.contains("the price of the file system `corpus` is not known"), "{held}");
    let free = tune(&["near.kdl", "-o", "json"]).json();
    let bound = tune(&["near.kdl", "--max-usd", "5", "-o", "json"]).json();
    assert_eq!(free["fit"], bound["fit"]);
    // The page says why the others lost.
    let page = dir.0.join("page.html");
    let ran = tune(&["near.kdl", "--report", page.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(std::fs::read_to_string(page).unwrap().contains("why it was rejected"));
}

/// Where nothing can be searched because of errors, they are said, as `plan` says them.
#[test]
fn what_keeps_a_job_from_being_searched_is_said() {
    let dir = Scratch::new("tune-errors");
    dir.write(".git/HEAD", "");
    dir.write("scripts/train.py", "import torch\n");
    dir.write("trainc.kdl", crate::support::read("examples/starter/trainc.kdl"));
    // 64 sequences do not divide by 12 ranks of 8.
    let args = ["trainc.kdl", "--set", "cluster.nodes=3"];
    let planned = run(&dir, &[&["check"][..], &args, &["-o", "json"]].concat()).json();
    let problems = planned["manifests"][0]["problems"].as_array().unwrap();
    let error = problems.iter().find(|one| one["severity"] == "error").expect("an error");
    let tuned = run(&dir, &[&["tune"][..], &args].concat());
    assert_eq!((tuned.code, tuned.out.as_str()), (Some(3), ""));
    assert!(tuned.err.contains(error["code"].as_str().unwrap()), "{}", tuned.err);
    assert!(tuned.err.ends_with("error: nothing to search: the batch is unknown\n"), "{}", tuned.err);
    // A base that stands outside of what may be read.
    let outside = crate::support::read("examples/starter/trainc.kdl").replacen(
        "job \"",
        "extends \"../../base.kdl\"\njob \"",
        1,
    );
    dir.write("sub/trainc.kdl", outside);
    let tuned = run(&dir, &["tune", "sub/trainc.kdl"]);
    assert!(tuned.err.contains("../../base.kdl") && tuned.code != Some(0), "{}", tuned.err);
}

/// Without a time nothing is ranked by it: what fits is shown all the same, and what is to be typed to have
/// it ranked does that.
#[test]
fn what_has_no_time_is_shown_by_memory_and_price() {
    let path = "examples/distilbert-spot/trainc.kdl";
    let root = root();
    let tune =
        |more: &[&str]| trainc_in(root, &[&["tune", path][..], more].concat(), b"", Duration::from_mins(1));
    let tuned = tune(&[]);
    assert_eq!(tuned.code, Some(3), "{}", tuned.err);
    assert!(tuned.out.contains("\nlayouts that fit, by memory alone"), "{}", tuned.out);
    // What is written surely fits.
    assert!(tuned.out.contains("per hour") && tuned.out.contains("micro-batch 32 × 1 pass"), "{}", tuned.out);
    for costs in [
        "\nat most $1.06 (1) for 16m 40s\n",
        "\nafter the end: S3: checkpoints, output and source, until deleted\n",
    ] {
        assert!(tuned.out.contains(costs), "{}", tuned.out);
    }
    let comment = tune(&["-o", "markdown"]).out;
    for costs in ["\n\nAt most \\$1.06 (1) for 16m 40s.\n", "\n\nAfter the end: S3: checkpoints, "] {
        assert!(comment.contains(costs), "{comment}");
    }
    let why = "error: layouts cannot be ranked by time and cost: no run in 32-bit arithmetic was measured\n";
    assert!(tuned.err.contains(why), "{}", tuned.err);
    let typed = format!("help: `trainc tune {path} --set train.precision=fp16` ranks it");
    assert!(tuned.err.contains(&typed), "{}", tuned.err);
    let unpriced = tune(&["--instances", "ml.p2.xlarge"]).out;
    assert!(unpriced.contains("set it with `--price ml.p2.xlarge=USD`"), "{unpriced}");
    let ranked = tune(&["--set", "train.precision=fp16"]);
    assert_eq!(ranked.code, Some(0), "{}{}", ranked.out, ranked.err);
}

/// What nothing ranks passes every check as what is ranked does, is in the form for scripts, and is written
/// by its number.
#[test]
fn what_has_no_time_is_held_against_the_checks() {
    let dir = Scratch::new("tune-untimed");
    dir.write(".git/HEAD", "");
    dir.write("scripts/train.py", "");
    let of_ddp = jobs().into_iter().find(|(name, _)| *name == "ddp").unwrap().1.replace("bf16", "fp32");
    dir.write("trainc.kdl", manifest("ddp", &of_ddp));
    let types = "ml.p4d.24xlarge,ml.p3.16xlarge,ml.g5.48xlarge,ml.p4de.24xlarge";
    let all = ["tune", "trainc.kdl", "--instances", types, "--max-nodes", "2"];
    let ran = run(&dir, &[&all[..], &["-o", "json"]].concat());
    assert_eq!(ran.code, Some(3), "{}", ran.err);
    let shown = ran.json();
    let schema: serde_json::Value =
        serde_json::from_str(&crate::support::read("schemas/tune.v1.json")).unwrap();
    let members =
        |of: &serde_json::Value| -> BTreeSet<String> { of.as_object().unwrap().keys().cloned().collect() };
    let said = |at: &str| members(schema.pointer(at).unwrap());
    assert_eq!(members(&shown), said("/properties"));
    assert!(shown["front"].as_array().unwrap().is_empty() && shown["first_choice"].is_null());
    let layouts = shown["unranked"]["layouts"].as_array().unwrap();
    assert_eq!(members(&layouts[0]), said("/$defs/UnrankedLayout/properties"));
    assert!(layouts.len() > 1, "{shown}");
    // Each of them is a manifest without an error that needs what was said.
    for one in layouts {
        let sets: Vec<&str> = one["sets"].as_array().unwrap().iter().filter_map(|set| set.as_str()).collect();
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        let args: Vec<&str> =
            ["plan", "trainc.kdl", "--offline", "-o", "json"].into_iter().chain(sets).collect();
        let planned = run(&dir, &args);
        assert_eq!(planned.code, Some(0), "{one}\n{}", planned.err);
        assert_eq!(one["price"], planned.json()["price"]);
        let (bytes, said) = (
            planned.json()["memory"]["per_gpu_bytes"].as_f64().unwrap(),
            one["memory_bytes"].as_f64().unwrap(),
        );
        assert!((bytes / said - 1.0).abs() < 1e-6, "{one}");
    }
    // Which to take nothing says; named by its number it is written, and plans to what was shown.
    let none = run(&dir, &[&all[..], &["--write"]].concat());
    assert!(none.code == Some(2) && none.err.contains("choose one with `--write=N`"), "{}", none.err);
    let number = layouts.len().to_string();
    let wrote = run(&dir, &[&all[..], &[&format!("--write={number}")]].concat());
    assert_eq!(wrote.code, Some(0), "{}", wrote.err);
    assert!(wrote.err.contains(&format!("wrote trainc.kdl: layout {number}\n")), "{}", wrote.err);
    let last = layouts.last().unwrap();
    let plan = run(&dir, &["plan", "trainc.kdl", "--offline", "-o", "json"]).json();
    assert_eq!(
        (&plan["cluster"]["instance"], &plan["cluster"]["nodes"]),
        (&last["instance"], &last["nodes"]),
        "{last}"
    );
    let bounded =
        run(&dir, &[&all[..], &["--max-usd", "5", "--report", "page.html", "-o", "markdown"]].concat());
    assert!(bounded.out.starts_with("### Layouts of `"), "{}", bounded.out);
    assert!(
        bounded.err.contains("have no effect") && bounded.err.contains("is not written"),
        "{}",
        bounded.err
    );
}

/// The manifest as written is weighed against the front, and a type of which nothing is ranked is not left
/// out in silence.
#[test]
fn what_is_written_and_what_is_left_out_are_said() {
    let path = "examples/llama-7b-fsdp/trainc.kdl";
    let root = root();
    let types = "ml.p4d.24xlarge,ml.trn1.32xlarge";
    let tune = |more: &[&str]| {
        let args = [&["tune", path, "--instances", types][..], more].concat();
        trainc_in(root, &args, b"", Duration::from_mins(1))
    };
    let human = tune(&[]).out;
    let next = human.split("why each was rejected").nth(1).unwrap();
    let first = next.lines().find(|line| line.starts_with("  -  ")).unwrap();
    assert!(first.ends_with(", as written"), "{human}");
    assert!(
        human.contains("\n`ml.trn1.32xlarge` is not among them: the cost model has no constants"),
        "{human}"
    );
    let shown = tune(&["-o", "json"]).json();
    assert_eq!(shown["left_out"][0]["instance"], "ml.trn1.32xlarge");
    assert!(shown["lost"][0]["sets"].as_array().unwrap().is_empty(), "{}", shown["lost"][0]);
    assert!(tune(&["-o", "markdown"]).out.contains("`ml.trn1.32xlarge` is not among them"));
}

/// A type that the checks refuse is not said to lack memory: with more of it no layout of it could be had
/// either.
#[test]
fn what_is_refused_for_its_type_is_not_blamed_on_memory() {
    let path = "examples/gpt2-30b-sharded/trainc.kdl";
    let root = root();
    let args = ["tune", path, "--instances", "ml.p4d.24xlarge,ml.p5e.48xlarge", "--next", "20", "-o", "json"];
    let shown = trainc_in(root, &args, b"", Duration::from_mins(1)).json();
    let lost = shown["lost"].as_array().unwrap();
    let of = |name: &str| -> BTreeSet<&str> {
        let of_type = lost.iter().filter(|one| one["instance"] == name);
        of_type.map(|one| one["reason"]["kind"].as_str().unwrap()).collect()
    };
    assert_eq!(of("ml.p5e.48xlarge").into_iter().collect::<Vec<_>>(), ["refused"], "{lost:?}");
    assert!(of("ml.p4d.24xlarge").contains("too-large"), "{lost:?}");
    for reason in lost.iter().map(|one| &one["reason"]).filter(|reason| reason["kind"] == "too-large") {
        assert!(reason["needs_bytes"].as_f64() > reason["has_bytes"].as_f64(), "{reason}");
    }
}

/// Where the manifest is the layout already, nothing is written, and nothing says that it was.
#[test]
fn a_manifest_that_is_the_layout_already_is_not_said_to_be_written() {
    let dir = Scratch::new("tune-stands");
    dir.write("scripts/train.py", "import torch\n");
    dir.write("job.kdl", job(&jobs()[1].1));
    let first = run(&dir, &["tune", "job.kdl", "--write=1"]);
    assert!(first.err.contains("wrote job.kdl: layout 1\n"), "{}", first.err);
    let read = || std::fs::read_to_string(dir.0.join("job.kdl")).unwrap();
    let (text, shown) = (read(), run(&dir, &["tune", "job.kdl", "-o", "json"]).json());
    let front = shown["front"].as_array().unwrap();
    let stands = front.iter().find(|one| one["sets"].as_array().unwrap().is_empty()).unwrap();
    let number = &stands["number"];
    let again = run(&dir, &["tune", "job.kdl", &format!("--write={number}")]);
    let said = format!("job.kdl already has layout {number}: nothing to write\n");
    assert!(again.code == Some(0) && again.err.contains(&said), "{}", again.err);
    assert!(!again.err.contains("wrote") && read() == text);
}
