//! The digest covers the request: no more, and no less.

use crate::sample::{self, plan_with_all_nodes, small_plan};
use crate::{Identity, archive_uri, identity, sagemaker, training_job_request};
use proptest::prelude::*;
use serde_json::Value;
use std::sync::LazyLock;
use trainc_ir::plan::DIGEST_MARK;
use trainc_ir::{Plan, Starts};

/// Every text of the request that may contain a placeholder.
const DIGEST_EVERYWHERE: &str = r#"
    network { subnets "subnet-0123456789abcdef0"; security-groups "sg-0123456789abcdef0"; }
    cluster "ml.p4d.24xlarge" nodes=2 {
        volume "500GiB" kms="alias/{{ job.digest }}"
        training-plan "arn:aws:sagemaker:us-west-2:111122223333:training-plan/{{ job.digest }}"
    }
    program "train.py" source="./scripts" upload="s3://example-code/{{ job.digest }}" {
        hyperparameter "run" "{{ job.digest }}"
        environment RUN="{{ job.digest }}"
        metric "loss" regex="{{ job.digest }} ([0-9.]+)"
    }
    channel "path" from="corpus" path="/{{ job.digest }}/tokens"
    channel "s3" s3="s3://example-in/{{ job.digest }}/" content-type="{{ job.digest }}"
    channel "manifest" manifest="s3://example-in/{{ job.digest }}.manifest"
    channel "lines" augmented-manifest="s3://example-in/{{ job.digest }}" attributes="a,b"
    checkpoint s3="s3://example-runs/{{ job.digest }}/" local="/opt/ml/{{ job.digest }}"
    output s3="s3://example-runs/{{ job.digest }}/output" kms="alias/{{ job.digest }}"
    debugger s3="s3://example-watch/{{ job.digest }}/" local="/opt/ml/debugger/{{ job.digest }}" {
        collection "losses" "save_interval"="{{ job.digest }}"
    }
    profiler s3="s3://example-watch/{{ job.digest }}/"
    tensorboard s3="s3://example-watch/{{ job.digest }}/" local="/opt/ml/tensorboard/{{ job.digest }}"
    experiment name="{{ job.digest }}" trial="{{ job.digest }}" run="{{ job.digest }}"
    request { ModelPackageConfig { ModelPackageGroupArn "{{ job.digest }}"; Tags "{{ job.digest }}" "b"; }; }
"#;

fn texts<'a>(value: &'a Value, out: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => out.push(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, out)),
        Value::Object(members) => members.values().for_each(|item| texts(item, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The request that is sent is the one that is digested, with the digest in place of its mark.
#[test]
fn the_digest_replaces_its_mark_in_every_text() {
    let plan = plan_with_all_nodes("everywhere", DIGEST_EVERYWHERE);
    let sent = training_job_request(&plan, &identity(&plan));
    let mut found = Vec::new();
    texts(&sent, &mut found);
    assert!(!found.iter().any(|text| text.contains(DIGEST_MARK)), "{sent:#}");
    let digest = identity(&plan).digest;
    let members = sent.as_object().unwrap();
    let with = |name: &str| members[name].to_string().matches(&digest).count();
    let least = [
        ("AlgorithmSpecification", 1),
        ("CheckpointConfig", 2),
        ("DebugHookConfig", 3),
        ("Environment", 1),
        ("ExperimentConfig", 3),
        ("HyperParameters", 2),
        ("InputDataConfig", 5),
        ("ModelPackageConfig", 2),
        ("OutputDataConfig", 2),
        ("ProfilerConfig", 1),
        ("ResourceConfig", 2),
        ("Tags", 1),
        ("TensorBoardOutputConfig", 2),
    ];
    for (name, count) in least {
        assert!(with(name) >= count, "{name} has it {} times\n{sent:#}", with(name));
    }
    let uploaded = archive_uri(&plan, &digest).unwrap();
    assert_eq!(members["HyperParameters"]["sagemaker_submit_directory"], format!("\"{uploaded}\""));
    let digested = sagemaker::request(&plan.with_marks(), None);
    for (name, value) in digested.as_object().unwrap() {
        let filled = value.to_string().replace(DIGEST_MARK, &digest);
        if !["TrainingJobName", "HyperParameters"].contains(&name.as_str()) {
            assert_eq!(filled, members[name].to_string(), "{name}");
        }
    }
}

/// A job of engine `ddp`: options of MPI, and the command of a container.
#[test]
fn the_digest_replaces_its_mark_in_options_and_commands() {
    for (program, member) in [
        ("program \"train.py\" source=\"./scripts\"", "/HyperParameters/sagemaker_mpi_custom_mpi_options"),
        (
            "program { entrypoint \"/bin/sh\" \"{{ job.digest }}\"; }",
            "/AlgorithmSpecification/ContainerEntrypoint/1",
        ),
        (
            "program { entrypoint \"/bin/sh\"; arguments \"{{ job.digest }}\"; }",
            "/AlgorithmSpecification/ContainerArguments/0",
        ),
    ] {
        let plan = sample::plan(&format!(
            r#"
job "a" {{
    region "us-west-2"
    model "gpt2-xl"
    cluster "ml.p4d.24xlarge" nodes=2
    parallel engine="ddp" launcher="mpi" {{ mpi-options "-x RUN={{{{ job.digest }}}}"; }}
    train {{ precision "bf16"; sequence-length 1024; micro-batch 4; optimizer "adamw" lr=2e-4; steps 100; }}
    {program}
    image uri="763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.7.1-gpu"
    output s3="s3://example-runs/output/"
    role create=#true
}}
"#
        ));
        let identity = identity(&plan);
        let sent = training_job_request(&plan, &identity);
        assert!(!sent.to_string().contains(DIGEST_MARK), "{sent:#}");
        assert!(
            sent.pointer(member).is_some_and(|text| text.to_string().contains(&identity.digest)),
            "{sent:#}"
        );
    }
}

/// The values of one part of a job that could be taken for each other: with the account's mark, its number, without either, and
/// names that trainc itself uses.
type Part = &'static [&'static str];

const BUCKET: Part = &[
    "corpus-${account}",
    "corpus-111122223333",
    "sagemaker-us-west-2-${account}",
    "sagemaker-us-west-2-111122223333",
    "corpus",
];
/// `${account}` is only a hole in a bucket, so these are escaped: a key has no holes.
const KEY: Part = &[
    "tokens/",
    "sagemaker-us-west-2-111122223333/",
    "sagemaker-us-west-2-{{ '$' }}{account}/",
    "corpus-{{ '$' }}{account}/",
    "corpus-111122223333/",
];
const TEXT: Part =
    &["${account}", "111122223333", "s3://corpus-${account}/x", "s3://corpus-111122223333/x", "corpus"];
const VARIABLE: Part = &["DATA", "TRAINC_PLAN", "TRAINC_PLAN_TYPES"];
const HYPERPARAMETER: Part =
    &["seed", "sagemaker_job_name", "sagemaker_submit_directory", "sagemaker_program"];
const KMS: Part = &[
    "arn:aws:kms:us-west-2:${account}:key/1234abcd-12ab-34cd-56ef-1234567890ab",
    "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
    "alias/training",
];
/// What the containers start.
const STARTS: Part = &[
    "",
    "probe",
    "network { isolation #true; }",
    "budget usd=5000 hard=#true enforce=#true",
    "image \"pytorch\" version=\"2.13\"",
    "image \"pytorch\" version=\"2.13\"\nprobe",
    "remote-debug #true",
];
const ENTRYPOINT: Part = &["", "entrypoint \"/bin/train\""];
const PARTS: [Part; 10] = [BUCKET, KEY, TEXT, VARIABLE, TEXT, HYPERPARAMETER, KMS, STARTS, ENTRYPOINT, TEXT];

/// A choice of each part.
type Choice = [usize; PARTS.len()];

fn plan(choice: Choice, account: &str) -> Plan {
    let [bucket, key, data, variable, argument, hyperparameter, kms, starts, entrypoint, raw] =
        std::array::from_fn(|at| PARTS[at][choice[at] % PARTS[at].len()]);
    small_plan(
        "a",
        &format!(
            r#"
{account}
program "train.py" source="./scripts" {{
    {entrypoint}
    hyperparameter "{hyperparameter}" "{argument}"
    environment {variable}="{data}"
}}
{starts}
request {{ ModelPackageConfig {{ ModelPackageGroupArn "{raw}"; }}; }}
channel "train" s3="s3://{bucket}/{key}"
output s3="s3://runs/out/" kms="{kms}"
"#
        ),
    )
}

/// The request of a plan without what the digest leaves out by intent: names, tags, the role, where the source is, and figures
/// that are planned. All of them are by name what trainc sends, so they are left out only where it does.
fn request(plan: &Plan) -> Value {
    let names = Identity::new(plan, &"0".repeat(64));
    let mut request = training_job_request(plan, &names);
    let members = request.as_object_mut().unwrap();
    for member in ["TrainingJobName", "Tags", "RoleArn"] {
        members.remove(member);
    }
    let mut leave_out = |object: &str, names: &[&str]| {
        if let Some(Value::Object(inner)) = members.get_mut(object) {
            inner.retain(|name, _| !names.contains(&name.as_str()));
            if inner.is_empty() {
                members.remove(object);
            }
        }
    };
    if plan.payload.toolkit_program().is_some() {
        leave_out("HyperParameters", &["sagemaker_job_name", "sagemaker_submit_directory"]);
    }
    if plan.payload.is_watched() {
        leave_out("Environment", &["TRAINC_PLAN"]);
    }
    // The channel of the archive is at the digest of the source, which the job's digest covers.
    if let (Some(channel), Some(Value::Array(channels))) =
        (plan.payload.code_channel(), request.get_mut("InputDataConfig"))
    {
        channels.retain(|item| item["ChannelName"] != channel);
    }
    request
}

fn choice() -> impl Strategy<Value = Choice> {
    prop::array::uniform10(0..64_usize)
}

/// The files of the source, which the digest covers besides the request.
fn source(plan: &Plan) -> String {
    crate::archive::source_digest(plan)
}

static ACCOUNT: LazyLock<String> = LazyLock::new(|| "account \"111122223333\"".to_owned());

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Two jobs have one digest exactly if their requests and sources are equal. Where the account is known, an address with
    /// its mark and one with its number are sent alike, but are not the same job.
    #[test]
    fn requests_and_digests_differ_together(
        first in choice(),
        other in choice(),
        // How many of the parts of the second job are those of the first: jobs that differ in one part are the hard case.
        same in prop::array::uniform10(prop::bool::weighted(0.85)),
    ) {
        let second: Choice = std::array::from_fn(|at| if same[at] { first[at] } else { other[at] });
        let plans: Vec<Plan> = [first, second].into_iter().map(|choice| plan(choice, "")).collect();
        let digests: Vec<String> = plans.iter().map(|plan| identity(plan).digest).collect();
        let requests: Vec<Value> = plans.iter().map(request).collect();
        let is_same = requests[0] == requests[1] && source(&plans[0]) == source(&plans[1]);
        prop_assert_eq!(is_same, digests[0] == digests[1], "{:#?}", requests);

        let here: Vec<Plan> = [first, second].into_iter().map(|choice| plan(choice, &ACCOUNT)).collect();
        let digests_here: Vec<String> = here.iter().map(|plan| identity(plan).digest).collect();
        if request(&here[0]) != request(&here[1]) || source(&here[0]) != source(&here[1]) {
            prop_assert_ne!(&digests_here[0], &digests_here[1]);
        }
        if is_same {
            prop_assert_eq!(&digests_here[0], &digests_here[1]);
        }
        // The digest does not depend on who knows the account.
        let applied: Vec<String> =
            plans.iter().map(|plan| identity(&plan.clone().with_account("111122223333")).digest).collect();
        prop_assert_eq!(&applied, &digests_here);
        for (plan, digest) in plans.iter().zip(&digests_here) {
            let has_default_bucket =
                request(plan)["InputDataConfig"].to_string().contains("s3://sagemaker-us-west-2-1111");
            prop_assert!(has_default_bucket || identity(plan).digest == *digest);
        }
    }
}

/// The pairs above are of all kinds of payloads.
#[test]
fn every_way_to_start_is_among_the_pairs() {
    let starts =
        |starts: usize, entrypoint: usize| plan([0, 0, 0, 0, 0, 0, 0, starts, entrypoint, 0], "").payload;
    assert_eq!(starts(0, 0).starts, Starts::Toolkit);
    assert_eq!(starts(0, 1).starts, Starts::Container);
    assert!(starts(4, 0).is_launched_by_script() && starts(5, 0).is_watched());
    assert!(starts(1, 0).is_watched() && starts(2, 0).code_channel() == Some("code"));
}
