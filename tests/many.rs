//! Everything at once: many mistakes of many stages in one file, and files that hide nobody's problems.

use crate::support::{Memory, Scratch, compile, compile_in, options, trainc, trainc_in};
use serde_json::Value;
use std::time::Duration;

/// Fifteen mistakes that have nothing to do with each other, of every stage.
const FIFTEEN: &str = r#"
job "many" {
    region "us-west-2"
    model "gpt2-xll"
    cluster "ml.p4d.24xlarge" nodes=2 {
        max-run 86400
        volume 500GiB
        max-rtries 3
    }
    parallel engine="fsdp" {
        strategy "hybrid-shard"
        shard-degree 6
        tensor-degree 2
        wrap "GPT2Block"
    }
    train {
        precision "bfloat16"
        sequence-length 2048
        micro-batch 4
        flash-attention true
        optimizer "adamw" lr=2e-4 betas="0.9" bogus=1
        steps 100
        tokens 1000
    }
    program "train.py" source="./scripts" {
        hyperparameter "lr" "{{ train.learning }}"
        hyperparameter "lr" 1
    }
    image "pytorch" version="2.77.0" python="py312"
    output s3="s3://example-runs/many/"
}
"#;

#[test]
fn fifteen_mistakes_are_fifteen_problems() {
    let outcome = compile("many.kdl", FIFTEEN);
    let mut found: Vec<(&str, &str)> = outcome.places();
    let mut wanted = vec![
        ("T0220", "job"),
        ("T0340", "\"gpt2-xll\""),
        ("T0125", "86400"),
        ("T0102", "500GiB"),
        ("T0120", "max-rtries"),
        ("T0301", "6"),
        ("T0222", "tensor-degree"),
        ("T0127", "\"bfloat16\""),
        ("T0103", "true"),
        ("T0221", "\"0.9\""),
        ("T0121", "bogus"),
        ("T0313", "1000"),
        ("T0230", "train.learning"),
        ("T0122", "hyperparameter"),
        ("T0330", "\"2.77.0\""),
    ];
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(wanted.len(), 15);
    assert_eq!(found, wanted, "\n{}", outcome.lines());
}

/// What fingers do to a sound manifest: one problem each, and where it says what to write, that leaves none.
fn one_slip_is_one_problem(starter: &str) {
    for (from, to, code, fixed) in [
        ("source=\"./scripts\" {", "source=\"./scripts\" {}", "T0105", true),
        ("micro-batch 8", "micro-batch (8)", "T0101", true),
        ("micro-batch 8", "micro-batch=8", "T0101", true),
        ("micro-batch 8", "micro-batch = 8", "T0101", true),
        ("region \"us-west-2\"", "region=\"us-west-2\"", "T0101", true),
        ("lr=2e-5", "lr=2e-5 betas=(0.9,0.95)", "T0101", true),
        ("lr=2e-5", "lr=2e-5 betas=[0.9, 0.95]", "T0101", true),
        ("nodes=1", "nodes: 1", "T0128", true),
        ("nodes=1", "nodes:1", "T0128", true),
        ("nodes=1", "nodes 1", "T0128", true),
        ("precision \"bf16\"", "precision \"bf16\",", "T0101", true),
        ("steps 1000\n        seed 7", "steps 1000, seed 7", "T0101", true),
        ("\"{{ run.steps }}\"", "{{ run.steps }}", "T0102", true),
        ("max-run \"4h\"", "max-run 4h\"", "T0106", true),
        ("max-run \"4h\"", "max-run (4h", "T0101", false),
    ] {
        assert!(starter.contains(from), "{from}");
        let dir = Scratch::new("many-slip");
        let run = |args: &[&str]| trainc_in(&dir.0, args, b"", Duration::from_mins(1));
        let place = dir.write("trainc.kdl", starter.replacen(from, to, 1));
        dir.write("scripts/train.py", "");
        let shown = place.to_string_lossy().into_owned();
        let codes = || {
            let ran = run(&["check", "-q", "-o", "json", &shown]).json();
            let problems = ran["manifests"][0]["problems"].as_array().cloned().unwrap_or_default();
            problems.iter().map(|one| one["code"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(codes(), [code], "{to}");
        if fixed {
            let ran = run(&["check", "-q", "--fix", code, &shown]);
            assert_eq!((ran.code, codes().len()), (Some(0), 0), "{to}\n{}{}", ran.out, ran.err);
        }
    }
}

/// A brace or a quote hides none of the others, where it is plain what it hides: nothing.
#[test]
fn a_brace_or_a_quote_is_one_more() {
    let end = FIFTEEN.rfind('}').unwrap();
    for (text, gone, comes) in [
        (FIFTEEN.replace("500GiB", "\"500GiB"), Some("T0102"), "T0106"),
        (format!("{FIFTEEN}}}\n"), None, "T0105"),
        (FIFTEEN[..end].to_owned(), None, "T0104"),
    ] {
        let outcome = compile("many.kdl", &text);
        let codes = |places: Vec<(&str, &str)>| {
            let mut codes: Vec<String> = places.iter().map(|(code, _)| (*code).to_owned()).collect();
            codes.sort_unstable();
            codes
        };
        let found = codes(outcome.places());
        let plain = compile("many.kdl", FIFTEEN);
        let mut wanted = codes(plain.places());
        wanted.retain(|code| Some(code.as_str()) != gone);
        wanted.push(comes.to_owned());
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{comes}\n{}", outcome.lines());
    }
    // A quote at the end of a line takes in that line, and no batch that does not divide.
    let starter =
        crate::support::read("examples/starter/trainc.kdl").replace("global-batch 64", "global-batch 63");
    for (from, to) in [
        ("regex=\"mfu=([0-9.]+)\"", "regex=\"mfu=([0-9.]+)"),
        ("\"{{ run.steps }}\"", "\"{{ run.steps }}"),
        ("precision \"bf16\"", "precision \"bf16"),
    ] {
        assert!(starter.contains(from));
        let outcome = compile("examples/starter/trainc.kdl", &starter.replace(from, to));
        let codes: Vec<&str> = outcome.places().iter().map(|(code, _)| *code).collect();
        let errors: Vec<&str> = codes.into_iter().filter(|code| *code != "T0442").collect();
        assert!(errors.contains(&"T0106") && errors.contains(&"T0310"), "{to}\n{}", outcome.lines());
        assert!(!errors.contains(&"T0220"), "{to}\n{}", outcome.lines());
    }
    // In the middle of a line it takes in nothing: what stands behind it are properties, and they are read. One mistake
    // is one problem, wherever the quote is missing.
    let starter =
        starter.replace("global-batch 63", "global-batch 64").replace("your-bucket", "example-runs");
    let mut quoted = 0;
    for (at, _) in starter.match_indices('"').skip(1).step_by(2) {
        let line = starter[at..].lines().next().unwrap_or("");
        let is_text = starter[..at].rsplit('\n').next().is_some_and(|before| before.trim().starts_with("//"));
        if is_text {
            continue;
        }
        let outcome =
            compile("examples/starter/trainc.kdl", &format!("{}{}", &starter[..at], &starter[at + 1..]));
        let places = outcome.places();
        let errors: Vec<&str> =
            places.iter().map(|(code, _)| *code).filter(|code| *code != "T0442").collect();
        assert_eq!(errors, ["T0106"], "{line}\n{}", outcome.lines());
        quoted += 1;
    }
    assert!(quoted > 20, "{quoted} strings");
    one_slip_is_one_problem(&starter);
    // A block that ends too early, or too late, moves what stands behind it: what seems missing is not said then.
    for (from, to, code) in [
        ("    cluster \"ml.p4d.24xlarge\" nodes=2 {", "    cluster \"ml.p4d.24xlarge\" nodes=2", "T0105"),
        ("    train {\n", "    train\n", "T0105"),
        ("        wrap \"GPT2Block\"\n    }\n", "        wrap \"GPT2Block\"\n", "T0104"),
    ] {
        assert!(FIFTEEN.contains(from));
        let outcome = compile("many.kdl", &FIFTEEN.replace(from, to));
        let codes: Vec<&str> = outcome.places().iter().map(|(code, _)| *code).collect();
        // The role is nowhere in the text.
        let missing = outcome.lines().matches("error T0220 `job`: job `many` has no ").count();
        let role = outcome.lines().matches("has no `role`").count();
        assert!(codes.contains(&code) && missing == role, "{to}\n{}", outcome.lines());
    }
}

#[test]
fn what_follows_from_a_mistake_is_not_said() {
    // Each text has one mistake, whose consequences reach into later stages.
    for (nodes, code) in [
        ("cluster \"ml.p4d.24xlrge\" nodes=2", "T0320"),
        ("cluster \"ml.p4d.24xlarge\" nodes=\"two\"", "T0124"),
        ("cluster \"ml.p4d.24xlarge\" nodes=2 {\n max-run 5d\n }", "T0102"),
        ("clutser \"ml.p4d.24xlarge\" nodes=2", "T0120"),
        ("model \"gpt2-xll\"", "T0340"),
        ("model \"gpt2\" {\n hidden 1600\n layers \"48\"\n heads 25\n }", "T0124"),
        ("model \"house\" {\n parameters \"30B\"\n }", "T0124"),
        ("region \"us-west-22\"", "T0321"),
        ("region us-west-2 \"x\"", "T0128"),
        ("parallel engine=\"fsdpp\"", "T0223"),
        ("parallel engine=\"fsdp\" {\n wrap \"GPT2Block\"\n shard-degree \"x\"\n }", "T0124"),
        ("image \"pytorch\" version=2.8 python=\"py312\"", "T0124"),
        ("image \"pytorch\" version=\"2.8.0\" python=312", "T0124"),
        ("image \"pytroch\" version=\"2.8.0\" python=\"py312\"", "T0127"),
        ("program \"train.py\" source=7", "T0124"),
        ("output s3=7", "T0124"),
        ("role arn=7", "T0124"),
        ("output \"s3://example-runs/\"", "T0128"),
    ] {
        // Placeholders of every group, all of which become unknown with their sources.
        let text = format!(
            "job \"example\" {{\n{}\n{nodes}\n}}\n",
            base_without(nodes.split_whitespace().next().unwrap().replace("clutser", "cluster").as_str())
        );
        let outcome = compile("one.kdl", &text);
        let found: Vec<&str> = outcome.places().iter().map(|(code, _)| *code).collect();
        assert_eq!(found, [code], "{nodes}\n{}", outcome.lines());
    }
}

/// A whole job less one of its nodes, with a placeholder for a value of every stage.
fn base_without(name: &str) -> String {
    let placeholders: String = [
        "job.name",
        "job.region",
        "mesh.world_size",
        "mesh.engine",
        "mesh.minimum_nodes",
        "mesh.shard_degree",
        "model.hidden",
        "model.parameters",
        "model.parameters_trainable",
        "batch.micro",
        "batch.global_tokens",
        "cluster.nodes",
        "cluster.instance",
        "run.steps",
        "run.tokens",
        "train.lr",
    ]
    .iter()
    .map(|path| format!("    hyperparameter \"{path}\" \"{{{{ {path} }}}}\"\n"))
    .collect();
    let program = format!("program \"train.py\" source=\"./scripts\" {{\n{placeholders}}}");
    let parts = [
        ("region", "region \"us-west-2\""),
        ("model", "model \"gpt2-xl\""),
        ("cluster", "cluster \"ml.p4d.24xlarge\" nodes=2"),
        ("parallel", "parallel engine=\"fsdp\" {\n    wrap \"GPT2Block\"\n}"),
        (
            "train",
            "train {\n    precision \"bf16\"\n    sequence-length 1024\n    micro-batch 4\n    optimizer \"adamw\" lr=2e-4\n    steps 100\n}",
        ),
        ("program", program.as_str()),
        ("image", "image \"pytorch\" version=\"2.8.0\" python=\"py312\""),
        ("output", "output s3=\"s3://example-runs/example/\""),
        ("role", "role create=#true"),
    ];
    let rest: Vec<&str> = parts.iter().filter(|(node, _)| *node != name).map(|(_, text)| *text).collect();
    rest.join("\n")
}

#[test]
fn the_same_mistakes_over_a_base_say_nothing_more() {
    for (nodes, code) in [
        ("train {\n micro-batch \"four\"\n }", "T0124"),
        ("train {\n sequence-length 2k\n }", "T0102"),
        ("train {\n steps 1e3\n }", "T0124"),
        ("train {\n optimizer \"adamw\" lr=\"2e-4\"\n }", "T0124"),
        ("train {\n optimizer \"adamw\" lr=2e-4 betas=\"x\"\n }", "T0221"),
        ("train {\n micro-bacth 8\n }", "T0120"),
        ("micro-batch 8", "T0120"),
        ("adapter \"lora\" rank=\"8\" targets=\"c_attn\"", "T0124"),
        ("adapter \"lora\" rank=8 targets=\"q_proj\"", "T0343"),
        ("checkpoint s3=7", "T0124"),
        ("channel \"train\" s3=7", "T0124"),
        ("account 111122223333", "T0124"),
    ] {
        let nodes = format!(
            "{nodes}\nprogram \"train.py\" {{\n hyperparameter \"a\" \"{{{{ batch.global_tokens }}}} {{{{ run.tokens }}}} {{{{ model.parameters_trainable }}}}\"\n}}"
        );
        let outcome =
            compile_in(Memory::default(), "one.kdl", &crate::support::over_base(&nodes), &options(""));
        let found: Vec<&str> = outcome.places().iter().map(|(code, _)| *code).collect();
        assert_eq!(found, [code], "{nodes}\n{}", outcome.lines());
    }
}

fn codes_of(manifest: &Value) -> Vec<String> {
    manifest["problems"].as_array().unwrap().iter().map(|p| p["code"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_bad_file_never_hides_the_next() {
    let scratch = Scratch::new("three");
    scratch.write("jobs/binary.kdl", [0_u8, 159, 146, 150, 0, 1, 2]);
    std::os::unix::fs::symlink("nowhere.kdl", scratch.0.join("jobs/gone.kdl")).unwrap();
    scratch.write("jobs/good.kdl", "job \"good\" {\n    region \"us-wset-2\"\n}\n");
    scratch.write("jobs/latin.kdl", b"job \"latin\" {\n    tags team=\"caf\xe9\"\n    region 7\n}\n");
    let ran = trainc_in(&scratch.0, &["check", "jobs", "-o", "json"], b"", Duration::from_mins(2));
    assert_eq!(ran.code, Some(3), "{}", ran.err);
    let found = ran.json();
    let by_path = |name: &str| {
        let all = found["manifests"].as_array().unwrap();
        let manifest = all
            .iter()
            .find(|m| m["path"].as_str().unwrap().ends_with(name))
            .unwrap_or_else(|| panic!("{name}: {found}"));
        codes_of(manifest)
    };
    assert_eq!(by_path("binary.kdl"), ["T0110"]);
    assert_eq!(by_path("gone.kdl"), ["T0140"]);
    assert!(by_path("good.kdl").contains(&"T0321".to_owned()));
    let latin = by_path("latin.kdl");
    assert!(latin.contains(&"T0110".to_owned()) && latin.contains(&"T0124".to_owned()), "{latin:?}");
}

/// A check that checks nothing must not pass.
#[test]
fn layers_alone_are_no_jobs() {
    let dir = Scratch::new("layers-alone");
    dir.write(".git/HEAD", "");
    dir.write("layers/base.kdl", "region \"us-west-2\"\n");
    dir.write("layers/small.kdl", "train { steps 10; }\n");
    for args in [&["check", "layers"][..], &["check", "layers/*.kdl"], &["emit", "layers", "--out", "out"]] {
        let ran = trainc_in(&dir.0, args, b"", Duration::from_mins(1));
        assert_eq!(ran.code, Some(3), "{args:?}: {}{}", ran.out, ran.err);
        let said = format!("{}{}", ran.out, ran.err);
        assert!(said.contains("T0141") && said.contains("no `job` in the 2 manifests"), "{args:?}: {said}");
    }
    assert!(!dir.0.join("out").exists());
}

#[test]
fn what_is_wrong_in_a_layer_is_said_where_it_is_walked_past() {
    let scratch = Scratch::new("layers-walked");
    let check =
        || trainc_in(&scratch.0, &["check", "jobs", "-o", "json"], b"", Duration::from_mins(2)).json();
    let paths = |found: &Value| -> Vec<String> {
        let all = found["manifests"].as_array().unwrap();
        all.iter().map(|one| one["path"].as_str().unwrap().to_owned()).collect()
    };
    scratch.write("jobs/a.kdl", "extends \"base.kdl\"\njob \"a\" {\n}\n");
    scratch.write("jobs/base.kdl", "region \"us-west-2\"\n");
    assert_eq!(paths(&check()), ["jobs/a.kdl"], "a sound layer is no manifest");
    scratch.write("jobs/base.kdl", "region \"us-west-2\"\ncluster nodes=two\n");
    scratch.write("jobs/alone.kdl", b"tags team=\"caf\xe9\"\nbogus 7\n");
    scratch.write("jobs/open.kdl", "tags {\n    team \"x\"\n");
    let found = check();
    assert_eq!(paths(&found), ["jobs/a.kdl", "jobs/alone.kdl", "jobs/base.kdl", "jobs/open.kdl"]);
    let all = found["manifests"].as_array().unwrap();
    let sorted = |one: &Value| {
        let mut codes = codes_of(one);
        codes.sort();
        codes
    };
    assert!(sorted(&all[0]).contains(&"T0124".to_owned()), "{found}");
    assert_eq!(sorted(&all[1]), ["T0110", "T0120"]);
    assert_eq!(sorted(&all[2]), ["T0124"], "that it has no job is no problem of it");
    assert_eq!(sorted(&all[3]), ["T0104", "T0120"]);
    // A mistake of a layer is one, however many files have it.
    let short = trainc_in(&scratch.0, &["check", "jobs", "-o", "short"], b"", Duration::from_mins(2));
    assert_eq!(short.out.matches("error[T0124]").count(), 1, "{}", short.out);
}

#[test]
fn a_directory_named_like_a_manifest_is_walked_and_an_argument_that_is_none_is_said() {
    let scratch = Scratch::new("odd");
    std::fs::create_dir(scratch.0.join("x.kdl")).unwrap();
    let ran = trainc_in(
        &scratch.0,
        &["check", "x.kdl", "nowhere.kdl", "*.none", "-o", "json"],
        b"",
        Duration::from_mins(2),
    );
    assert_eq!(ran.code, Some(3));
    let found = ran.json();
    let codes: Vec<String> = found["manifests"].as_array().unwrap().iter().flat_map(codes_of).collect();
    assert_eq!(codes, ["T0141", "T0141", "T0141"], "{found}");
}

#[test]
fn two_jobs_of_one_name_are_an_error() {
    let scratch = Scratch::new("twins");
    let job = crate::support::read("examples/roberta-mnli-pipeline/trainc.kdl");
    scratch.write("a.kdl", &job);
    scratch.write("b.kdl", &job);
    let ran = trainc_in(&scratch.0, &["check", ".", "-o", "json"], b"", Duration::from_mins(2));
    assert_eq!(ran.code, Some(3));
    let found = ran.json();
    let second = &found["manifests"][1];
    let problem = second["problems"]
        .as_array()
        .unwrap()
        .iter()
        .find(|p| p["code"] == "T0142")
        .unwrap_or_else(|| panic!("{found}"));
    let (start, end) = (problem["start"].as_u64().unwrap(), problem["end"].as_u64().unwrap());
    let under = job.get(usize::try_from(start).unwrap()..usize::try_from(end).unwrap()).unwrap();
    assert!(under.contains("roberta"), "{under}");
}

/// Two jobs over one layer that names the checkpoints, as their `checkpoint` says it.
fn over_one_layer(name: &str, checkpoint: &str) -> Vec<Vec<String>> {
    let scratch = Scratch::new(name);
    scratch.write("base.kdl", crate::support::read("tests/fixtures/base.kdl"));
    scratch.write("scripts/train.py", "import argparse\n");
    for job in ["first", "second"] {
        let text = format!("extends \"base.kdl\"\njob \"{job}\" {{\n    {checkpoint}\n}}\n");
        scratch.write(&format!("{job}.kdl"), &text);
    }
    let ran = trainc_in(&scratch.0, &["check", ".", "-o", "json"], b"", Duration::from_mins(2));
    assert_eq!(ran.code, Some(0), "{}", ran.json());
    ran.json()["manifests"].as_array().unwrap().iter().map(codes_of).collect()
}

#[test]
fn two_jobs_whose_checkpoints_lie_at_one_place_are_a_warning() {
    let shared = over_one_layer("shared", "checkpoint s3=\"s3://example-runs/checkpoints/\"");
    let has = |codes: &[String], code: &str| codes.iter().any(|found| found == code);
    assert!(has(&shared[0], "T0448") && !has(&shared[0], "T0467"), "{shared:?}");
    assert!(has(&shared[1], "T0467") && !has(&shared[1], "T0448"), "{shared:?}");
    let apart = over_one_layer("apart", "checkpoint s3=\"s3://example-runs/{{ job.digest }}/\"");
    assert!(apart.iter().all(|codes| !has(codes, "T0467")), "{apart:?}");
    let allowed = "checkpoint s3=\"s3://example-runs/checkpoints/\" { allow \"T0467\" reason=\"in turn\" }";
    let allowed = over_one_layer("allowed", allowed);
    assert!(allowed.iter().all(|codes| !has(codes, "T0467") && !has(codes, "T0241")), "{allowed:?}");
}

/// Two manifests that write one storage alike share it, and only what one apply would set back after the other is said.
#[test]
fn two_jobs_that_share_a_file_system_agree_about_it() {
    let over = |name: &str, first: &str, second: &str| {
        let scratch = Scratch::new(name);
        scratch.write("base.kdl", crate::support::read("tests/fixtures/base.kdl"));
        scratch.write("scripts/train.py", "import argparse\n");
        for (job, storage) in [("first", first), ("second", second)] {
            let text = format!(
                "extends \"base.kdl\"\njob \"{job}\" {{\n    region \"us-east-1\"\n    \
                 network {{ subnets \"subnet-0123456789abcdef0\"; security-groups \"sg-0123456789abcdef0\"; }}\n    \
                 {storage}\n    channel \"train\" from=\"corpus\" path=\"/\"\n}}\n"
            );
            scratch.write(&format!("{job}.kdl"), &text);
        }
        let ran = trainc_in(&scratch.0, &["check", ".", "-o", "json"], b"", Duration::from_mins(2));
        assert_eq!(ran.code, Some(0), "{}", ran.json());
        let found: Vec<Vec<serde_json::Value>> = ran.json()["manifests"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| {
                let all = one["problems"].as_array().unwrap().iter();
                all.filter(|one| ["T0144", "T0241", "T0489"].contains(&one["code"].as_str().unwrap()))
                    .cloned()
                    .collect()
            })
            .collect();
        found
    };
    let storage = |capacity: &str, inside: &str| {
        format!(
            "storage \"lustre\" name=\"corpus\" capacity=\"{capacity}\" deployment=\"persistent-2\" throughput=125 {{\n        \
             import \"s3://example-corpus/tokens/\"\n        {inside}\n    }}"
        )
    };
    let plain = storage("1200GiB", "");
    let apart = over("file-systems-apart", &plain, &storage("2400GiB", ""));
    assert!(apart[0].is_empty() && apart[1].len() == 1, "{apart:?}");
    let said = &apart[1][0];
    assert_eq!((&said["code"], &said["severity"]), (&"T0144".into(), &"warning".into()));
    let message = said["message"].as_str().unwrap();
    assert!(message.contains("`first` and `second`") && message.contains("`corpus`"), "{message}");
    assert!(
        said["notes"]
            .to_string()
            .contains("StorageCapacity: `1,200 GiB` in `first`, `2,400 GiB` in `second`"),
        "{said}"
    );
    // What is alike is shared, what is not shared is nobody else's; nor is said what is allowed, on either side.
    for (name, first, second) in [
        ("file-systems-alike", plain.clone(), plain.clone()),
        (
            "file-systems-with-their-own-links",
            plain.clone(),
            storage("2400GiB", "").replace("tokens/", "others/"),
        ),
        ("file-systems-allowed", plain.clone(), storage("2400GiB", "allow \"T0144\" reason=\"grows\"")),
    ] {
        let found = over(name, &first, &second);
        assert!(found.iter().all(Vec::is_empty), "{name}: {found:?}");
    }
}

/// The place stands once, and so does what is wrong with it.
#[test]
fn a_sweep_over_one_place_is_one_problem() {
    let scratch = Scratch::new("sweep-place");
    scratch.write("base.kdl", crate::support::read("tests/fixtures/base.kdl"));
    scratch.write("scripts/train.py", "import argparse\n");
    let text = "extends \"base.kdl\"\njob \"swept\" {\n    checkpoint s3=\"s3://example-runs/checkpoints/\"\n    \
                sweep { vary \"train.seed\" 1 2 3; }\n}\n";
    scratch.write("job.kdl", text);
    let ran = trainc_in(&scratch.0, &["check", "job.kdl", "-o", "json"], b"", Duration::from_mins(2));
    let jobs: Vec<Vec<String>> = ran.json()["manifests"].as_array().unwrap().iter().map(codes_of).collect();
    assert_eq!(jobs.len(), 3, "{jobs:?}");
    for codes in jobs {
        let of = |code: &str| codes.iter().filter(|found| *found == code).count();
        assert_eq!((of("T0467"), of("T0448")), (1, 0), "{codes:?}");
    }
    let ran = trainc_in(&scratch.0, &["check", "job.kdl", "-o", "short"], b"", Duration::from_mins(2));
    assert_eq!(ran.out.matches("T0467").count(), 1, "{}", ran.out);
}

/// Alike but for their names, two jobs still have digests of their own: what the digest keeps apart stays apart.
#[test]
fn the_digest_tells_jobs_of_two_names_apart() {
    let digest = |name: &str| {
        let text = crate::support::read("examples/roberta-mnli-pipeline/trainc.kdl");
        let at = text.find("job \"").unwrap();
        let end = at + 5 + text[at + 5..].find('"').unwrap();
        let text = format!("{}job \"{name}{}", &text[..at], &text[end..]);
        let ran = trainc_in(
            crate::support::root(),
            &["plan", "-", "--offline", "-o", "json", "--exit-zero"],
            text.as_bytes(),
            Duration::from_mins(2),
        );
        ran.json()["digest"].as_str().map(str::to_owned)
    };
    assert_ne!(digest("first"), digest("second"));
}

/// The SDK clones by itself, and the start script that fetches secrets is in no repository.
#[test]
fn a_script_of_a_cloned_program_says_that_it_fetches_no_secrets() {
    let scratch = Scratch::new("cloned");
    let base = crate::support::read("tests/fixtures/base.kdl");
    let from = base.find("program \"train.py\"").unwrap();
    let to = from + base[from..].find("\n}").unwrap() + 2;
    let program = "program \"train.py\" git=\"https://github.com/example/repo\" {\n    secret \"KEY\" \
                   from=\"arn:aws:secretsmanager:us-west-2:111122223333:secret:wandb-AbCdEf\"\n}";
    scratch.write("x.kdl", format!("job \"x\" {{\n{}{program}{}\n}}\n", &base[..from], &base[to..]));
    let ran = trainc_in(&scratch.0, &["emit", "x.kdl", "--out", "out", "-q"], b"", Duration::from_mins(2));
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let script = std::fs::read_to_string(scratch.0.join("out/sagemaker/estimator.py")).unwrap();
    assert!(script.contains("# not supported by the SDK: secrets KEY"), "{script}");
    assert!(script.contains("entry_point=\"train.py\""), "{script}");
}

#[test]
fn standard_input_is_a_manifest() {
    let ran = trainc_in(
        crate::support::root(),
        &["check", "-", "-o", "json"],
        b"job \"x\" {\n region 7\n}\n",
        Duration::from_mins(2),
    );
    assert_eq!(ran.code, Some(3));
    assert!(codes_of(&ran.json()["manifests"][0]).contains(&"T0124".to_owned()));
}

#[test]
fn usage_is_2_and_findings_are_3() {
    assert_eq!(trainc(&["check"]).code, Some(2));
    assert_eq!(trainc(&["chekc", "x"]).code, Some(2));
    assert_eq!(trainc(&["check", "nowhere.kdl"]).code, Some(3));
    assert_eq!(trainc(&["check", "nowhere.kdl", "--exit-zero"]).code, Some(0));
    assert_eq!(trainc(&["explain", "T0301"]).code, Some(0));
    assert_eq!(trainc(&["explain", "degree-does-not-divide"]).code, Some(0));
    assert_eq!(trainc(&["explain", "T9999"]).code, Some(2));
}

const SMALL: &str = "job \"small\" {\n    region 7\n}\n";

#[test]
#[cfg(unix)]
fn a_file_that_is_named_twice_is_read_once() {
    let scratch = Scratch::new("named-twice");
    scratch.write("a/trainc.kdl", SMALL);
    std::os::unix::fs::symlink("trainc.kdl", scratch.0.join("a/z.kdl")).unwrap();
    for args in [
        &["check", "a", "./a/trainc.kdl", "-o", "json"][..],
        &["check", "a/trainc.kdl", "./a/../a/trainc.kdl", "-o", "json"],
        &["check", "a", "-o", "json"],
    ] {
        let ran = trainc_in(&scratch.0, args, b"", Duration::from_mins(1));
        let manifests = ran.json()["manifests"].as_array().unwrap().clone();
        assert_eq!(manifests.len(), 1, "{args:?}: {}", ran.out);
        assert!(!codes_of(&manifests[0]).contains(&"T0142".to_owned()), "{}", ran.out);
    }
}

/// What compiles does not depend on how the path is given. Without a `.git`, what is in the working directory is inside the
/// root, and a root that is too small says how to make a larger one.
#[test]
fn without_a_repository_the_working_directory_is_the_root() {
    let scratch = Scratch::new("no-repository");
    scratch.write("team/base.kdl", "tags team=\"x\"\n");
    scratch.write("team/jobs/pretrain.kdl", format!("extends \"../base.kdl\"\n{SMALL}"));
    let check = |dir: &str, argument: &str| {
        let args = ["check", "-o", "json", "--today", crate::support::TODAY, argument];
        let ran = trainc_in(&scratch.0.join(dir), &args, b"", Duration::from_mins(1));
        (codes_of(&ran.json()["manifests"][0]), ran.out)
    };
    let (codes, out) = check(".", "team");
    assert!(!codes.contains(&"T0203".to_owned()), "{out}");
    for (dir, argument) in
        [(".", "team/jobs"), (".", "team/jobs/pretrain.kdl"), ("team", "jobs/pretrain.kdl")]
    {
        let (found, out) = check(dir, argument);
        assert_eq!(found, codes, "{dir} {argument}: {out}");
    }
    let (codes, out) = check("team/jobs", "pretrain.kdl");
    assert!(codes.contains(&"T0203".to_owned()) && out.contains("write `git init ..`"), "{out}");
}

/// `run` takes the one manifest of a directory, whose layers do not count.
#[test]
fn a_directory_with_one_job_can_be_run() {
    let scratch = Scratch::new("run-directory");
    scratch.write("trainc.kdl", SMALL);
    scratch.write("base.kdl", "tags team=\"x\"\n");
    let ran = trainc_in(&scratch.0, &["run", "."], b"", Duration::from_mins(1));
    assert!(ran.code == Some(3) && ran.err.contains("T0124"), "{:?} {}", ran.code, ran.err);
    scratch.write("other.kdl", SMALL);
    let ran = trainc_in(&scratch.0, &["run", "."], b"", Duration::from_mins(1));
    assert!(ran.code == Some(2) && ran.err.contains("one manifest"), "{:?} {}", ran.code, ran.err);
}

/// A walk finds links that nobody named: what lies outside is neither shown nor written.
#[test]
#[cfg(unix)]
fn a_walk_does_not_follow_a_link_out_of_the_root() {
    let scratch = Scratch::new("link-out");
    scratch.write("secret", "root:secret\njob   \"x\"\n");
    scratch.write("repo/.git/HEAD", "");
    scratch.write("repo/in/trainc.kdl", SMALL);
    std::os::unix::fs::symlink("../../secret", scratch.0.join("repo/in/x.kdl")).unwrap();
    let ran = trainc_in(&scratch.0.join("repo"), &["check", "in"], b"", Duration::from_mins(1));
    let all = format!("{}{}", ran.out, ran.err);
    assert_eq!(ran.code, Some(3), "{all}");
    assert!(
        all.contains("T0140") && all.contains("the link `in/x.kdl` leads outside the root directory"),
        "{all}"
    );
    assert!(!all.contains("secret"), "{all}");
    let named = trainc_in(&scratch.0.join("repo"), &["check", "in/x.kdl"], b"", Duration::from_mins(1));
    assert!(!format!("{}{}", named.out, named.err).contains("T0140"), "a path that is named is followed");
    let formatted = trainc_in(&scratch.0.join("repo"), &["fmt", "in"], b"", Duration::from_mins(1));
    assert_eq!(formatted.code, Some(3), "{}", formatted.err);
    assert!(formatted.err.contains("leads outside the root directory"), "{}", formatted.err);
}

#[test]
#[cfg(target_os = "linux")]
fn a_result_that_cannot_be_written_is_no_success() {
    use std::process::{Command, Stdio};
    let run = |args: &[&str], out: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trainc"));
        command.args(args).current_dir(crate::support::root()).stdout(out).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    for args in [&["schema", "manifest"][..], &["catalog"], &["check", "examples/starter", "-o", "json"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ended = run(args, full.into()).wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains("error: standard output cannot be written"), "{said}");
    }
    // What the parser of arguments prints too.
    for args in [["--help"], ["--version"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert_eq!(run(&args, full.into()).wait_with_output().unwrap().status.code(), Some(2), "{args:?}");
    }
    // What happens in an account goes on, and is told as far as it can be.
    for args in [
        &["apply", "examples/starter", "--simulate", "--yes", "--wait"][..],
        &["apply", "examples/starter", "--simulate", "--yes", "-o", "json"],
        &["plan", "examples/starter", "--simulate"],
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ended = run(args, full.into()).wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.code() == Some(2) && !said.contains("panicked"), "{args:?}: {said}");
    }
    let mut closed = run(&["schema", "manifest"], Stdio::piped());
    drop(closed.stdout.take());
    let ended = closed.wait_with_output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
}

#[test]
fn a_sweep_over_a_path_that_is_not_there_says_so_once() {
    let scratch = Scratch::new("sweep-nowhere");
    let base = crate::support::read("tests/fixtures/base.kdl");
    let sweep = "sweep {\n    vary \"cluster.nods\" 1 2\n}";
    scratch.write("x.kdl", format!("job \"x\" {{\n{base}\n{sweep}\n}}\n"));
    let ran = trainc_in(&scratch.0, &["check", "x.kdl", "-o", "json"], b"", Duration::from_mins(1));
    let codes: Vec<String> = ran.json()["manifests"].as_array().unwrap().iter().flat_map(codes_of).collect();
    assert_eq!(codes.iter().filter(|code| *code == "T0211").count(), 1, "{codes:?}");
}

#[test]
fn one_mistake_of_a_sweep_hides_no_other_and_they_stand_in_order() {
    let scratch = Scratch::new("sweep-several");
    let base = crate::support::read("tests/fixtures/base.kdl");
    let sweep = "sweep {\n    vary \"train.micro-batch\" 4 \"eight\"\n    vary \"cluster.nods\" 1 2\n    vary \"train.precision\" \"bf17\" \"bf16\"\n}";
    scratch.write("x.kdl", format!("job \"x\" {{\n{base}\n{sweep}\n}}\n"));
    let ran = trainc_in(&scratch.0, &["check", "x.kdl", "-o", "short"], b"", Duration::from_mins(1));
    let first = base.lines().count() + 4;
    let found: Vec<&str> = ran.out.lines().filter(|line| line.contains("error")).collect();
    let wanted = [(first, "T0124"), (first + 1, "T0211"), (first + 2, "T0")];
    assert_eq!(found.len(), wanted.len(), "{}", ran.out);
    for (line, (number, code)) in found.iter().zip(wanted) {
        assert!(line.starts_with(&format!("x.kdl:{number}:")) && line.contains(code), "{}", ran.out);
    }
}

#[test]
fn what_one_job_of_a_sweep_needs_is_allowed_in_all_of_them() {
    let scratch = Scratch::new("sweep-allow");
    let base = crate::support::read("tests/fixtures/base.kdl");
    let codes = |usd: u32| {
        let rest = format!(
            "budget usd={usd}\nallow \"T0447\" reason=\"known\"\nsweep {{\n    vary \"cluster.nodes\" 1 2\n}}"
        );
        scratch.write("x.kdl", format!("job \"x\" {{\n{base}\n{rest}\n}}\n"));
        let ran = trainc_in(&scratch.0, &["check", "x.kdl", "-o", "json"], b"", Duration::from_mins(1));
        let jobs = ran.json()["manifests"].as_array().unwrap().iter().map(codes_of).collect::<Vec<_>>();
        assert_eq!(jobs.len(), 2, "{}{}", ran.out, ran.err);
        jobs.concat().into_iter().filter(|code| code == "T0241" || code == "T0447").collect::<Vec<String>>()
    };
    // A day of one instance costs less than 1,000 dollars, of two more.
    assert_eq!(codes(1_000), Vec::<String>::new());
    assert!(codes(5_000).contains(&"T0241".to_owned()));
}

#[test]
fn a_path_without_values_hides_no_other_mistake_of_its_sweep() {
    let scratch = Scratch::new("sweep-valueless");
    let base = crate::support::read("tests/fixtures/base.kdl");
    let sweep = "sweep {\n    vary \"cluster.nodes\"\n    vary \"train.precision\" \"bf17\" \"bf16\"\n}";
    scratch.write("x.kdl", format!("job \"x\" {{\n{base}\n{sweep}\n}}\n"));
    let ran = trainc_in(&scratch.0, &["check", "x.kdl", "-o", "short"], b"", Duration::from_mins(1));
    for code in ["T0129", "T0127"] {
        assert_eq!(ran.out.matches(code).count(), 1, "{}", ran.out);
    }
}

#[test]
fn what_a_sweep_sets_is_blamed_where_it_stands() {
    let scratch = Scratch::new("sweep-place");
    let base = crate::support::read("tests/fixtures/base.kdl");
    let sweep = "sweep {\n    vary \"train.micro-batch\" 4 \"eight\"\n}";
    scratch.write("x.kdl", format!("job \"x\" {{\n{base}\n{sweep}\n}}\n"));
    let ran = trainc_in(&scratch.0, &["check", "x.kdl", "-o", "short"], b"", Duration::from_mins(1));
    let line = ran
        .out
        .lines()
        .find(|line| line.contains("error"))
        .unwrap_or_else(|| panic!("{}{}", ran.out, ran.err));
    let at = format!("x.kdl:{}:", base.lines().count() + 4);
    assert!(line.starts_with(&at) && line.contains("T0124"), "{line}, not at {at}");
}
