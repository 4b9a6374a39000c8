//! What holds for any input: no panic, ranks that partition, arithmetic that closes, one digest for one job.

use crate::support::{Memory, Outcome, compile_in, files, options, over_base, read};
use proptest::prelude::*;
use trainc_ir::Axis;

fn compile(text: &str) -> Outcome {
    compile_in(Memory::default(), "job.kdl", text, &options(""))
}

fn cases(n: u32) -> ProptestConfig {
    ProptestConfig { cases: n, failure_persistence: None, ..ProptestConfig::default() }
}

/// Every place of every problem lies in a source, on character boundaries.
fn places_are_sound(outcome: &Outcome) -> Result<(), TestCaseError> {
    for problem in outcome.compiled.problems.iter() {
        for span in std::iter::once(problem.span).chain(problem.labels.iter().map(|label| label.span)) {
            let source = outcome.sources.get(span.source);
            prop_assert!(source.is_some(), "{} has no source", problem.code.id);
            let text = &source.unwrap().text;
            prop_assert!(
                text.get(span.start as usize..span.end as usize).is_some(),
                "{} {span:?}",
                problem.code.id
            );
        }
    }
    // Rendering must hold as well, whatever was written.
    let _ = outcome.human("job.kdl");
    Ok(())
}

/// Pieces of the language and of what people type by mistake.
fn token() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "job",
        "\"a\"",
        "{",
        "}",
        "\n",
        ";",
        " ",
        "cluster",
        "nodes=2",
        "nodes=",
        "=",
        "train",
        "micro-batch",
        "4",
        "-1",
        "steps",
        "100",
        "\"5d\"",
        "5d",
        "#true",
        "true",
        "#null",
        "(u8)",
        "/-",
        "//",
        "/*",
        "*/",
        "\"",
        "#\"",
        "\"#",
        "\"\"\"",
        "\\",
        "extends",
        "\"base.kdl\"",
        "env",
        "\"{{ batch.micro }}\"",
        "\"{{\"",
        "\"{{ a. }}\"",
        "parallel",
        "engine=\"fsdp\"",
        "engine=\"smp\"",
        "shard-degree",
        "request",
        "-",
        "allow",
        "model",
        "hidden",
        "1e999",
        "99999999999999999999999999999999999999999999",
        "ü",
        "\u{feff}",
        "\u{202e}",
        "\0",
        "\r",
        "image",
        "\"pytorch\"",
        "version=\"2.8.0\"",
        "storage",
        "channel",
        "s3=\"s3://b/\"",
        "max-run",
        "optimizer",
        "warmup=3",
        "betas=\"1\"",
        "program",
        "hyperparameter",
        "environment",
        "A=1",
        "A=2",
        "group",
        "instance=\"ml.p4d.24xlarge\"",
        "0x1f",
        ",",
    ])
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        places_are_sound(&compile(&String::from_utf8_lossy(&bytes)))?;
    }

    #[test]
    fn characters_never_panic(text in "\\PC{0,200}") {
        places_are_sound(&compile(&text))?;
        places_are_sound(&compile(&over_base(&text)))?;
    }

    #[test]
    fn token_soup_never_panics(tokens in prop::collection::vec(token(), 0..60)) {
        let soup = tokens.join(" ");
        places_are_sound(&compile(&soup))?;
        places_are_sound(&compile(&over_base(&soup)))?;
    }

    #[test]
    fn a_damaged_manifest_never_panics(at in 0_usize..4_000, what in prop::sample::select(vec!["", "{", "}", "\"", "#", "=", "é", "\n"]), take in 0_usize..40) {
        let text = read("examples/gpt2-30b-sharded/trainc.kdl");
        let start = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
        let end = ((start + take).min(text.len())..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap();
        let damaged = format!("{}{what}{}", &text[..start], &text[end..]);
        places_are_sound(&compile(&damaged))?;
    }
}

/// A job with these degrees under SMP v2, which has them all but the pipeline.
fn smp2(nodes: u64, shard: u64, tensor: u64, context: u64) -> String {
    format!(
        "extends \"place.kdl\"\njob \"example\" {{\n    cluster \"ml.p4d.24xlarge\" nodes={nodes}\n    parallel engine=\"smp\" {{\n        \
         shard-degree {shard}\n        tensor-degree {tensor}\n        context-degree {context}\n    }}\n    train {{\n        precision \"bf16\"\n        \
         sequence-length 1024\n        micro-batch 1\n        optimizer \"adamw\" lr=2e-4\n        steps 10\n    }}\n    \
         image \"pytorch\" version=\"2.3.1\" python=\"py311\"\n}}\n"
    )
}

/// A job with these degrees under SMP v1, which has the pipeline.
fn smp1(nodes: u64, shard: u64, tensor: u64, pipeline: u64, placement: &str) -> String {
    format!(
        "extends \"place.kdl\"\njob \"example\" {{\n    cluster \"ml.p4d.24xlarge\" nodes={nodes}\n    parallel engine=\"smp\" {{\n        \
         shard-degree {shard}\n        tensor-degree {tensor}\n        pipeline-degree {pipeline}\n        placement \"{placement}\"\n    }}\n    train {{\n        \
         precision \"fp16\"\n        sequence-length 1024\n        micro-batch 2\n        optimizer \"adamw\" lr=2e-4\n        steps 10\n    }}\n    \
         image \"pytorch\" version=\"1.12\" python=\"py38\"\n}}\n"
    )
}

fn ranks_partition(outcome: &Outcome) -> Result<bool, TestCaseError> {
    let Some(mesh) = outcome.compiled.plan.as_ref().and_then(|plan| plan.mesh.as_ref()) else {
        // No mesh without a word.
        prop_assert!(outcome.compiled.problems.errors() > 0);
        return Ok(false);
    };
    let product: u64 = [Axis::Replica, Axis::Shard, Axis::Tensor, Axis::Pipeline]
        .iter()
        .map(|axis| mesh.degree(*axis))
        .product();
    prop_assert_eq!(product, mesh.world_size);
    prop_assert_eq!(mesh.order.iter().map(|(_, degree)| degree).product::<u64>(), mesh.world_size);
    for axis in [Axis::Replica, Axis::Shard, Axis::Tensor, Axis::Pipeline, Axis::Context, Axis::Expert] {
        let groups = mesh.groups(axis);
        if mesh.degree(axis) == 1 {
            prop_assert!(groups.is_empty());
            continue;
        }
        let mut ranks: Vec<u64> = groups.iter().flatten().copied().collect();
        prop_assert!(groups.iter().all(|group| group.len() as u64 == mesh.degree(axis)));
        ranks.sort_unstable();
        prop_assert_eq!(ranks, (0..mesh.world_size).collect::<Vec<_>>(), "{:?} does not partition", axis);
    }
    // No two ranks stand at one place.
    let mut places: Vec<Vec<u64>> = (0..mesh.world_size)
        .map(|rank| mesh.order.iter().map(|(axis, _)| mesh.coordinate(*axis, rank)).collect())
        .collect();
    places.sort_unstable();
    places.dedup();
    prop_assert_eq!(places.len() as u64, mesh.world_size);
    Ok(true)
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn degrees_multiply_to_the_world(
        nodes in 1_u64..9,
        shard in prop::sample::select(vec![1_u64, 2, 3, 4, 8, 16]),
        tensor in prop::sample::select(vec![1_u64, 2, 4, 5, 8]),
        context in prop::sample::select(vec![1_u64, 2, 4]),
    ) {
        let outcome = compile(&smp2(nodes, shard, tensor, context));
        let divides = (nodes * 8).is_multiple_of(shard * tensor) && shard.is_multiple_of(context);
        prop_assert_eq!(ranks_partition(&outcome)?, divides);
    }

    #[test]
    fn placements_are_permutations(
        nodes in 1_u64..9,
        tensor in prop::sample::select(vec![1_u64, 2, 4, 8]),
        pipeline in prop::sample::select(vec![1_u64, 2, 3, 4]),
        placement in prop::sample::select(vec!["cluster", "spread", "DPT", "DTP", "PDT", "PTD", "TDP", "TPD"]),
    ) {
        let outcome = compile(&smp1(nodes, 1, tensor, pipeline, placement));
        prop_assert_eq!(ranks_partition(&outcome)?, (nodes * 8).is_multiple_of(tensor * pipeline));
    }

    #[test]
    fn any_two_factors_give_the_batch(nodes in 1_u64..5, micro in 1_u64..9, accumulation in 1_u64..9, which in 0..3) {
        let global = micro * accumulation * nodes * 8;
        let train = match which {
            0 => format!("micro-batch {micro}; accumulation {accumulation}"),
            1 => format!("micro-batch {micro}; global-batch {global}"),
            _ => format!("accumulation {accumulation}; global-batch {global}"),
        };
        let outcome = compile(&format!(
            "extends \"place.kdl\"\njob \"example\" {{\n    cluster \"ml.p4d.24xlarge\" nodes={nodes}\n    parallel engine=\"ddp\" launcher=\"torchrun\"\n    \
             train {{\n        precision \"bf16\"; sequence-length 512; {train}\n        optimizer \"adamw\" lr=2e-4\n        tokens 1_000_000\n    }}\n    \
             image \"pytorch\" version=\"2.8.0\" python=\"py312\"\n}}\n"
        ));
        let plan = outcome.compiled.plan.as_ref().unwrap();
        let batch = plan.batch.as_ref().unwrap();
        prop_assert_eq!((batch.micro_batch_size.value, batch.accumulation.value, batch.global_sequences.value), (micro, accumulation, global));
        let steps = plan.run.steps.as_ref().unwrap().value;
        prop_assert_eq!(steps, 1_000_000_u64.div_ceil(global * 512));
    }
}

fn digest(text: &str, flags: &str) -> String {
    let outcome = compile_in(Memory::default(), "job.kdl", text, &options(flags));
    let plan =
        outcome.compiled.plan_without_errors().unwrap_or_else(|| panic!("{text}\n{}", outcome.lines()));
    trainc_emit::identity(plan).digest
}

#[test]
fn compiling_twice_gives_one_result() {
    for path in files("examples", &["trainc.kdl"]) {
        let text = read(&path);
        let (a, b) = (compile(&text), compile(&text));
        assert_eq!(a.lines(), b.lines(), "{path}");
        assert_eq!(a.compiled.plan, b.compiled.plan, "{path}");
        let bundle = |outcome: &Outcome| outcome.compiled.plan_without_errors().map(trainc_emit::emit);
        assert!(bundle(&a) == bundle(&b), "{path}");
    }
}

#[test]
fn the_digest_follows_what_shapes_the_run_and_nothing_else() {
    let job = |nodes: &str| over_base(nodes);
    let base = digest(&job("tags team=\"a\""), "");
    for (same, why) in [
        ("tags team=\"b\" stage=\"test\"", "a tag"),
        ("// Only words.\ntags team=\"a\" // and more", "a comment"),
        ("train {\n    steps 100\n}", "a value said again"),
        ("cluster \"ml.p4d.24xlarge\" nodes=2", "the same cluster"),
        ("account \"444455556666\"\nrole arn=\"arn:aws:iam::444455556666:role/training\"", "the account"),
        ("program \"train.py\" {\n    allow \"source-missing\" reason=\"none\"\n}", "an allow"),
        ("budget usd=1_000_000", "a budget"),
    ] {
        assert_eq!(digest(&job(same), ""), base, "{why} changes the digest");
    }
    let prices = "--discount 0.5 --price ml.p4d.24xlarge=1.0 --today 2031-01-01";
    assert_eq!(digest(&job("tags team=\"a\""), prices), base, "prices or the day change the digest");
    for (other, why) in [
        ("program \"train.py\" {\n    hyperparameter \"lr\" 1e-4\n}", "a hyperparameter"),
        ("program \"train.py\" {\n    environment LOGLEVEL=\"DEBUG\"\n}", "the environment"),
        ("cluster nodes=4", "the number of nodes"),
        ("region \"us-east-1\"", "the region"),
        ("output s3=\"s3://example-runs/elsewhere/\"", "the output"),
        ("image \"pytorch\" version=\"2.7.1\"", "the image"),
        ("channel \"train\" s3=\"s3://example-corpus/other/\"", "the data"),
    ] {
        assert_ne!(digest(&job(other), ""), base, "{why} does not change the digest");
    }
}

#[test]
fn the_order_of_nodes_does_not_change_the_digest() {
    for path in [
        "examples/gpt2-30b-sharded/trainc.kdl",
        "examples/bert-squad-smddp/trainc.kdl",
        "examples/llama-7b-worker/trainc.kdl",
    ] {
        let text = read(path);
        let document = kdl::KdlDocument::parse_v2(&text).unwrap();
        let mut job = document.nodes().iter().find(|node| node.name().value() == "job").unwrap().clone();
        let nodes = job.children_mut().as_mut().unwrap().nodes_mut();
        nodes.reverse();
        let turned = job.to_string();
        assert_ne!(turned.trim(), text.trim());
        let of = |text: &str| {
            let outcome = compile(text);
            trainc_emit::identity(outcome.compiled.plan.as_ref().unwrap()).digest
        };
        assert_eq!(of(&turned), of(&text), "{path}");
    }
}

/// A job with a text in an address, a variable, a hyperparameter, an argument of the script, a member of the request, the key
/// of the output, and a path.
fn job_with_texts(bucket: &str, texts: [&str; 4], kms: &str, account: &str) -> String {
    let [variable, hyperparameter, experiment, raw] = texts;
    over_base(&format!(
        r#"
account "{account}"
program "train.py" source="./scripts" {{
    hyperparameter "lr" "{{{{ train.lr }}}}"
    hyperparameter "seed" "{hyperparameter}"
    environment DATA="{variable}"
}}
experiment name="{experiment}"
request {{ ModelPackageConfig {{ ModelPackageGroupArn "{raw}"; }} }}
channel "train" s3="s3://{bucket}/tokens/"
output s3="s3://runs/out/" kms="{kms}"
"#
    ))
}

/// The buckets and texts that could be taken for each other: with the account's mark, its number, and without either.
const BUCKETS: [&str; 5] = [
    "corpus-${account}",
    "corpus-111122223333",
    "sagemaker-us-west-2-${account}",
    "sagemaker-us-west-2-111122223333",
    "corpus",
];
const TEXTS: [&str; 7] = [
    "${account}",
    "111122223333",
    "s3://corpus-${account}/x",
    "s3://corpus-111122223333/x",
    "sagemaker-us-west-2-${account}",
    "sagemaker-us-west-2-111122223333",
    "corpus",
];
const KEYS: [&str; 3] = [
    "arn:aws:kms:us-west-2:${account}:key/1234abcd-12ab-34cd-56ef-1234567890ab",
    "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
    "alias/training",
];

/// The request of a job without what the digest leaves out by intent: names, tags and the role.
fn request_of(plan: &trainc_ir::Plan) -> serde_json::Value {
    let names = trainc_emit::Identity::new(plan, &"0".repeat(64));
    let mut request = trainc_emit::training_job_request(plan, &names);
    for member in ["TrainingJobName", "Tags", "RoleArn"] {
        request.as_object_mut().unwrap().remove(member);
    }
    request
}

proptest! {
    #![proptest_config(cases(150))]

    /// Two manifests whose requests differ have two digests; equal requests, with marks for what only an account knows, have
    /// one, whether the account is known or not.
    #[test]
    fn requests_and_digests_differ_together(
        first in (0..BUCKETS.len(), [0..TEXTS.len(), 0..TEXTS.len(), 0..TEXTS.len(), 0..TEXTS.len()], 0..KEYS.len()),
        second in (0..BUCKETS.len(), [0..TEXTS.len(), 0..TEXTS.len(), 0..TEXTS.len(), 0..TEXTS.len()], 0..KEYS.len()),
        // How many of the parts of the second job are those of the first: jobs that differ in one part are the hard case.
        same in prop::collection::vec(any::<bool>(), 6),
    ) {
        let mix = |at: usize, a: usize, b: usize| if same[at] { a } else { b };
        let second = (
            mix(0, first.0, second.0),
            [0, 1, 2, 3].map(|at| mix(at + 1, first.1[at], second.1[at])),
            mix(5, first.2, second.2),
        );
        let plan = |(bucket, texts, key): (usize, [usize; 4], usize)| {
            let text = job_with_texts(BUCKETS[bucket], texts.map(|at| TEXTS[at]), KEYS[key], "111122223333");
            compile(&text).compiled.plan.unwrap()
        };
        let (one, other) = (plan(first), plan(second));
        let digests = [&one, &other].map(|plan| trainc_emit::identity(plan).digest);
        if request_of(&one) != request_of(&other) {
            prop_assert_ne!(&digests[0], &digests[1]);
        }
        let marked = [&one, &other].map(|plan| request_of(&plan.with_marks()));
        if marked[0] == marked[1] {
            prop_assert_eq!(&digests[0], &digests[1]);
        }
        // Without a number in it, the digest is that of a manifest that does not know its account.
        if !serde_json::to_string(&marked[0]).unwrap().contains("111122223333") {
            prop_assert_eq!(&trainc_emit::identity(&one.with_marks()).digest, &digests[0]);
        }
    }
}
