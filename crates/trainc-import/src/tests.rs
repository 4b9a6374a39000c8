use super::*;
use trainc_check::compile;
use trainc_diag::source::SourceMap;
use trainc_emit as emit;
use trainc_ir::SourceTree;
use trainc_plan::Options;
use trainc_plan::ReadError;
use trainc_plan::World;
use trainc_plan::resolve::{LayerLoader, LoadedLayer};

/// A world without files, as an imported manifest uses none.
struct Nowhere;

impl LayerLoader for Nowhere {
    fn read_layer(&mut self, _: &str, _: &str) -> Result<LoadedLayer, ReadError> {
        Err(ReadError::NotFound)
    }

    fn file_identity(&self, name: &str) -> String {
        name.to_owned()
    }
}

impl World for Nowhere {
    fn read_directory(&mut self, _: &str, _: &str) -> Result<SourceTree, ReadError> {
        Err(ReadError::NotFound)
    }

    fn read_text(&mut self, _: &str, _: &str) -> Result<String, ReadError> {
        Err(ReadError::NotFound)
    }
}

#[track_caller]
fn imported(text: &str) -> Imported {
    import(SourceId(0), text, &mut Problems::default()).unwrap()
}

fn compiled(manifest: &str) -> trainc_plan::Compiled {
    let mut sources = SourceMap::default();
    let source = sources.add("imported.kdl", manifest);
    compile(source, manifest, &Options::default(), &mut Nowhere, &mut sources)
}

/// Imports a request and compares it, as the command does.
#[track_caller]
fn reconciled(text: &str) -> Imported {
    imported(text).reconcile(compiled)
}

/// Returns the request of a manifest.
#[track_caller]
fn emitted(manifest: &str) -> Value {
    let mut sources = SourceMap::default();
    let source = sources.add("imported.kdl", manifest);
    let compiled = compile(source, manifest, &Options::default(), &mut Nowhere, &mut sources);
    let errors: Vec<String> = compiled
        .problems
        .iter()
        .filter(|p| p.severity == trainc_diag::Severity::Error)
        .map(|p| p.message.clone())
        .collect();
    assert!(errors.is_empty(), "{errors:#?}\n{manifest}");
    let plan = compiled.plan.as_ref().unwrap();
    emit::training_job_request(plan, &emit::identity(plan))
}

fn without_comments(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

/// Invisible characters of a request are escaped in comments and printed lines, as in literals.
#[test]
fn user_text_is_escaped_everywhere() {
    let text = serde_json::json!({
        "TrainingJobName": "x",
        "TrainingJobStatus": "Failed",
        "FailureReason": "a\u{202e}b",
        "RoleArn": "arn:aws:iam::111122223333:role/x",
        "AlgorithmSpecification": {"TrainingImage": "111122223333.dkr.ecr.us-west-2.amazonaws.com/own:1", "TrainingInputMode": "File"},
        "OutputDataConfig": {"S3OutputPath": "s3://b/"},
        "ResourceConfig": {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600, "Not\u{202e}e": "a\u{2028}b"},
        "HyperParameters": {"note": "\"a\u{202e}b\nc\""},
        "Made\u{202e}Up\nextends \"x\"": 1,
    });
    let found = imported(&text.to_string());
    let lines = found.unsupported.iter().chain(&found.lost).cloned();
    let lines: Vec<String> = lines.chain(found.outcome.iter().flat_map(Outcome::lines)).collect();
    let unseen = |text: &str| text.contains(['\u{202e}', '\u{2028}']) || text.chars().any(char::is_control);
    assert!(lines.iter().all(|line| !unseen(line)), "{lines:#?}");
    let made_up = "`Made\\u{202e}Up\\nextends \"x\"`: not a member of CreateTrainingJob";
    assert!(lines.iter().any(|line| line == made_up), "{lines:#?}");
    assert!(found.manifest.lines().all(|line| !unseen(line)), "{}", found.manifest);
    assert!(found.manifest.contains(&format!("// - {made_up}\n")), "{}", found.manifest);
    let mut sources = SourceMap::default();
    let source = sources.add("imported.kdl", found.manifest.as_str());
    let compiled = compile(source, &found.manifest, &Options::default(), &mut Nowhere, &mut sources);
    assert!(compiled.problems.iter().all(|one| one.code.id != "T0101"), "{}", found.manifest);
}

/// An image with the toolkit requires a script, which a request may lack: the manifest invents none.
#[test]
fn a_request_without_a_script_has_a_program_without_one() {
    let of = |image: &str| {
        serde_json::json!({
            "TrainingJobName": "bare",
            "RoleArn": "arn:aws:iam::111122223333:role/training",
            "AlgorithmSpecification": {"TrainingImage": image, "TrainingInputMode": "File"},
            "OutputDataConfig": {"S3OutputPath": "s3://example-runs/out/"},
            "ResourceConfig": {"InstanceType": "ml.g5.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
            "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
            "HyperParameters": {"epochs": "3"},
        })
        .to_string()
    };
    let framework =
        reconciled(&of("763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.8.0-gpu-py312"));
    let comment = "// The request has no script, which the image requires: write `program \"train.py\" source=\"./src\"`.";
    assert!(
        framework.manifest.contains(&format!("    {comment}\n    program {{\n")),
        "{}",
        framework.manifest
    );
    assert!(framework.manifest.contains("    hyperparameter \"epochs\" 3\n"), "{}", framework.manifest);
    assert!(!framework.manifest.contains("sagemaker_"), "{}", framework.manifest);
    assert_eq!(framework.lost, ["the manifest has errors, so nothing is sent: T0253"]);
    let written =
        framework.manifest.replace("program {", "program \"train.py\" s3=\"s3://example-runs/a.tar.gz\" {");
    assert_eq!(emitted(&written)["HyperParameters"]["sagemaker_program"], "\"train.py\"");
    let own = imported(&of("111122223333.dkr.ecr.us-west-2.amazonaws.com/own:1"));
    assert!(own.lost.iter().all(|line| !line.starts_with("`program`")), "{:?}", own.lost);
    assert!(emitted(&own.manifest)["HyperParameters"]["sagemaker_program"].is_null());
}

/// Importing a capture, emitting its request and importing that again gives the same manifest.
/// `tests/python/test_import.py`, which has all defaults, compares the requests.
#[test]
fn captures_round_trip() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden-requests");
    let mut seen = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ext| ext != "json") || path.ends_with("refused.json") {
            continue;
        }
        let first = imported(&std::fs::read_to_string(&path).unwrap());
        let request = emitted(&first.manifest);
        let second = imported(&request.to_string());
        assert_eq!(
            without_comments(&second.manifest),
            without_comments(&first.manifest),
            "{}",
            path.display()
        );
        let parts = |request: &Value| {
            (
                request["AlgorithmSpecification"]["TrainingImage"].clone(),
                request["ResourceConfig"].clone(),
                request["InputDataConfig"].clone(),
            )
        };
        assert_eq!(parts(&request), parts(&first.request), "{}", path.display());
        assert!(
            trainc_syntax::format::format(&first.manifest).is_ok_and(|text| text == first.manifest),
            "{}",
            first.manifest
        );
        seen += 1;
    }
    assert_eq!(seen, 12);
}

#[test]
fn a_response_loses_response_only_members() {
    let text = r#"{
        "TrainingJobName": "team-a-2026-01-01-00-00-00-000",
        "TrainingJobArn": "arn:aws:sagemaker:eu-west-1:111122223333:training-job/team-a",
        "TrainingJobStatus": "Failed", "FailureReason": "AlgorithmError: out of memory",
        "ModelArtifacts": {"S3ModelArtifacts": "s3://bucket/model.tar.gz"},
        "AlgorithmSpecification": {"TrainingImage": "111122223333.dkr.ecr.eu-west-1.amazonaws.com/own:1", "TrainingInputMode": "FastFile"},
        "HyperParameters": {"lr": "0.1", "name": "a {{ b }}"},
        "RoleArn": "arn:aws:iam::111122223333:role/team",
        "OutputDataConfig": {"KmsKeyId": "", "S3OutputPath": "s3://bucket/${run}/"},
        "ResourceConfig": {"InstanceType": "ml.g5.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 50},
        "StoppingCondition": {"MaxRuntimeInSeconds": 5400},
        "NewMember": 1, "ResponseMetadata": {"RequestId": "1"}, "CreationTime": 1767225600, "TrainingTimeInSeconds": 600, "BillableTimeInSeconds": 600
    }"#;
    let found = imported(text);
    assert_eq!(found.job, "team-a");
    assert_eq!(found.outcome.as_ref().map(|outcome| outcome.status.as_str()), Some("Failed"));
    let request = emitted(&found.manifest);
    assert_eq!(request["HyperParameters"], serde_json::json!({"lr": "0.1", "name": "a {{ b }}"}));
    assert_eq!(request["OutputDataConfig"]["S3OutputPath"], "s3://bucket/${run}/");
    assert!(reconciled(text).manifest.contains("TrainingInputMode \"FastFile\""));
    assert_eq!(request["StoppingCondition"]["MaxRuntimeInSeconds"], 5400);
    assert!(request.get("ModelArtifacts").is_none());
    let unknown: Vec<_> = found.unsupported.iter().filter(|line| line.contains("not a member")).collect();
    assert_eq!(unknown, ["`NewMember`: not a member of CreateTrainingJob"]);
}

/// The captured SMP v1 job with other parameters of the library.
#[track_caller]
fn smp_v1_with(parameters: &str) -> Imported {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden-requests/gptj-6b-tensor.json");
    let mut capture: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    capture["request"]["HyperParameters"]["mp_parameters"] = parameters.into();
    imported(&capture["request"].to_string())
}

#[test]
fn unsupported_parameters_are_listed_and_keep_the_engine() {
    let known = r#"{"partitions": 2, "ddp": true, "fp16": true}"#;
    let same = smp_v1_with(known);
    assert!(same.manifest.contains("produces the same request"), "{}", same.manifest);
    for (parameters, lost) in [
        (r#"{"partitions": 2, "ddp": true, "fp16": true, "bogus": 1}"#, "`bogus` of `mp_parameters`, 1: "),
        (
            r#"{"partitions": "2", "ddp": true, "fp16": true}"#,
            "`partitions` of `mp_parameters` was sent as the string \"2\"",
        ),
        (
            r#"{"partitions": 2, "ddp": true, "fp16": true, "pipeline": 7}"#,
            "`pipeline` of `mp_parameters`, 7: ",
        ),
        (
            r#"{"partitions": 2, "ddp": true, "fp16": true, "shard_optimizer_state": [1]}"#,
            "`shard_optimizer_state` of",
        ),
    ] {
        let found = smp_v1_with(parameters);
        assert_eq!(without_comments(&found.manifest), without_comments(&same.manifest), "{parameters}");
        assert!(found.manifest.contains("engine=\"smp\"") && found.manifest.contains("mpi-env"));
        assert!(!found.manifest.contains("produces the same request"), "{}", found.manifest);
        assert!(found.manifest.contains(&format!("// - {lost}")), "{}", found.manifest);
        assert!(found.unsupported.iter().any(|line| line.starts_with(lost)), "{:?}", found.unsupported);
        assert!(trainc_syntax::format::format(&found.manifest).is_ok_and(|text| text == found.manifest));
    }
    let both =
        smp_v1_with(r#"{"partitions": 2, "sharded_data_parallel_degree": 8, "fp16": true, "bf16": true}"#);
    for node in ["engine=\"smp\"", "shard-degree 8", "pipeline-degree 2", "precision \"bf16\""] {
        assert!(both.manifest.contains(node), "{}", both.manifest);
    }
    assert!(both.unsupported.iter().any(|line| line.starts_with("`fp16` of `mp_parameters`")));
    assert!(!both.manifest.contains("produces the same request"));
}

/// Imports a small request with this image and `ResourceConfig`.
#[track_caller]
fn import_small_request(image: &str, resources: Value) -> Imported {
    imported(
        &serde_json::json!({
            "TrainingJobName": "small",
            "RoleArn": "arn:aws:iam::111122223333:role/team",
            "AlgorithmSpecification": {"TrainingImage": image, "TrainingInputMode": "File"},
            "OutputDataConfig": {"S3OutputPath": "s3://bucket/out/"},
            "ResourceConfig": resources,
            "StoppingCondition": {"MaxRuntimeInSeconds": 5400},
            "ProfilerConfig": {"DisableProfiler": true},
        })
        .to_string(),
    )
}

#[test]
fn preferred_types_keep_their_number() {
    let preferences = serde_json::json!([
        {"InstanceType": "ml.p4d.24xlarge"}, {"InstanceType": "ml.p5.48xlarge"},
    ]);
    let resources =
        serde_json::json!({"InstancePreferences": preferences, "InstanceCount": 4, "VolumeSizeInGB": 50});
    let found = import_small_request("111122223333.dkr.ecr.us-west-2.amazonaws.com/own:1", resources.clone());
    assert!(found.manifest.contains("cluster nodes=4"), "{}", found.manifest);
    assert_eq!(emitted(&found.manifest)["ResourceConfig"], resources);

    let each = serde_json::json!({"VolumeSizeInGB": 50, "InstancePreferences": [
        {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 4}, {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 2},
    ]});
    let found = import_small_request("111122223333.dkr.ecr.us-west-2.amazonaws.com/own:1", each.clone());
    assert_eq!(emitted(&found.manifest)["ResourceConfig"], each);
}

#[test]
fn metrics_that_only_the_manifest_sends_are_listed() {
    let one =
        || serde_json::json!({"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30});
    let lost = |image: &str| import_small_request(image, one()).lost;
    let of_aws = "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.8.0-gpu-py312";
    assert!(
        lost(of_aws).iter().any(|line| line.starts_with("`EnableSageMakerMetricsTimeSeries`")),
        "{:?}",
        lost(of_aws)
    );
    assert_eq!(lost("111122223333.dkr.ecr.us-west-2.amazonaws.com/own:1"), Vec::<String>::new());
}

/// The text of a request of `tests/import`.
#[track_caller]
fn file(name: &str) -> String {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/import");
    std::fs::read_to_string(format!("{dir}/{name}")).unwrap()
}

/// The manifest of every recorded request compiles without an error and sends the same request, member by
/// member.
#[test]
fn recorded_requests_come_back() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/import");
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))
        .collect();
    names.sort();
    assert_eq!(names.len(), 13);
    for name in names {
        let found = reconciled(&file(&name));
        assert_eq!(found.lost, Vec::<String>::new(), "{name}\n{}", found.manifest);
        assert!(found.manifest.contains(": produces the same request."), "{}", found.manifest);
        let sent = emitted(&found.manifest);
        for (member, value) in found.request.as_object().unwrap() {
            // In these, a documented default may be written or not.
            let compared = [
                "TrainingJobName",
                "Tags",
                "HyperParameters",
                "InputDataConfig",
                "DebugHookConfig",
                "OutputDataConfig",
            ];
            if compared.contains(&member.as_str()) {
                continue;
            }
            if *value == Value::Bool(false) && sent.get(member).is_none() {
                continue;
            }
            assert_eq!(sent[member], *value, "{name} {member}\n{}", found.manifest);
        }
        let formatted = trainc_syntax::format::format(&found.manifest);
        assert!(formatted.is_ok_and(|text| text == found.manifest), "{}", found.manifest);
    }
}

/// What no node sends is written in `request` with an `allow`; what is not sent is stated in the header.
#[test]
fn the_header_states_the_result_of_a_comparison() {
    let compiler = reconciled(&file("03-hf-trcomp.json"));
    assert!(compiler.manifest.contains("allow \"T0446\" reason="), "{}", compiler.manifest);
    assert!(
        compiler.manifest.contains("sagemaker_training_compiler_enabled \"true\""),
        "{}",
        compiler.manifest
    );
    // The service's own default is left to it.
    let profiler = reconciled(&file("14-pt-profiler.json"));
    assert!(profiler.manifest.contains("EnableSageMakerMetricsTimeSeries #null"), "{}", profiler.manifest);
    assert!(
        emitted(&profiler.manifest)["AlgorithmSpecification"]
            .get("EnableSageMakerMetricsTimeSeries")
            .is_none()
    );
    let mut request: Value = serde_json::from_str(&file("16-xgb-spot.json")).unwrap();
    request["RoleArn"] = Value::from("${ROLE}");
    request["HyperParameters"]["_tuning_objective_metric"] = Value::from("validation:rmse");
    request["AlgorithmSpecification"]["EnableSageMakerMetricsTimeSeries"] = Value::Bool(false);
    let found = reconciled(&request.to_string());
    assert_eq!(found.lost, ["`RoleArn` is \"${ROLE}\"; the manifest's request has \"${role_arn}\""]);
    assert!(
        found.manifest.contains("does not produce the same request; differences:\n// - `RoleArn`"),
        "{}",
        found.manifest
    );
    let sent = emitted(&found.manifest);
    assert_eq!(sent["HyperParameters"], request["HyperParameters"]);
    assert_eq!(sent["AlgorithmSpecification"], request["AlgorithmSpecification"]);
}

/// The toolkit starts the program that the variable names.
#[test]
fn a_variable_that_names_the_program_stays_one() {
    let found = reconciled(&file("doc-p-unquoted-env.json"));
    let sent = emitted(&found.manifest);
    assert_eq!(found.lost, Vec::<String>::new(), "{}", found.manifest);
    assert_eq!(sent["HyperParameters"], found.request["HyperParameters"]);
    assert_eq!(sent["Environment"], serde_json::json!({"SAGEMAKER_PROGRAM": "iot_train_fixed.py"}));
}

#[test]
fn a_region_that_is_not_in_the_request_is_a_placeholder() {
    let resources = serde_json::json!({"InstanceType": "ml.g5.2xlarge", "InstanceCount": 1});
    let found = import_small_request("registry.example.com/own:1", resources);
    let line = "    // Placeholder: the request does not contain its region.\n    region \"us-east-1\"\n";
    assert!(found.manifest.contains(line), "{}", found.manifest);
}

#[test]
fn the_region_of_an_algorithm_is_the_jobs() {
    let found = reconciled(&file("doc-h-marketplace.json"));
    assert!(found.manifest.contains("region \"eu-west-1\""), "{}", found.manifest);
}

#[test]
fn explicit_defaults_round_trip() {
    let mut request = import_small_request(
        "111122223333.dkr.ecr.us-west-2.amazonaws.com/own:1",
        serde_json::json!({"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30}),
    )
    .request;
    let uri = serde_json::json!({"S3DataType": "S3Prefix", "S3Uri": "s3://example-corpus/a/"});
    request["EnableNetworkIsolation"] = Value::Bool(false);
    request["EnableInterContainerTrafficEncryption"] = Value::Bool(false);
    request["InputDataConfig"] = serde_json::json!([{
        "ChannelName": "train", "DataSource": {"S3DataSource": uri},
        "CompressionType": "None", "RecordWrapperType": "None",
    }]);
    let found = imported(&request.to_string());
    let back = emitted(&found.manifest);
    for path in [
        "/EnableNetworkIsolation",
        "/EnableInterContainerTrafficEncryption",
        "/InputDataConfig/0/CompressionType",
        "/InputDataConfig/0/RecordWrapperType",
    ] {
        assert_eq!(back.pointer(path), request.pointer(path), "{path}\n{}", found.manifest);
    }
    // The added member is listed, and the header does not call it the same request.
    assert!(found.lost.iter().any(|line| line.contains("S3DataDistributionType")), "{:?}", found.lost);
    let mut answer = request.clone();
    answer["TrainingJobArn"] = Value::from("arn:aws:sagemaker:us-west-2:111122223333:training-job/x");
    let described = imported(&answer.to_string());
    for unasked in ["#false", "compress", "record"] {
        assert!(!described.manifest.contains(unasked), "{}", described.manifest);
    }
}

/// A job nested in another document becomes a manifest; a document without one is named.
#[test]
fn nested_jobs_are_found_and_other_documents_named() {
    for (name, line) in [
        (
            "doc-e-stepfunctions.json",
            "image uri=\"382416733822.dkr.ecr.ap-northeast-1.amazonaws.com/randomcutforest:latest\"",
        ),
        ("doc-f-pipeline-step.json", "job \"imported\" {"),
        ("doc-j-search-result.json", "hyperparameter \"training_steps\" 100"),
        ("doc-ack-hpo.yaml", "hyperparameter \"booster\" \"gbtree\""),
    ] {
        let found = reconciled(&file(name));
        assert!(found.manifest.contains(line), "{name}\n{}", found.manifest);
    }
    let tuned = reconciled(&file("doc-ack-hpo.yaml"));
    assert!(tuned.unsupported.iter().any(|line| line.contains("ranges")), "{:?}", tuned.unsupported);
    assert!(tuned.manifest.contains("channel \"train\" s3="), "{}", tuned.manifest);
    let machine = reconciled(&file("doc-e-stepfunctions.json"));
    assert!(
        machine.unsupported.iter().any(|line| line.contains("`$.exportResult.s3Uri`")),
        "{:?}",
        machine.unsupported
    );
    let mut problems = Problems::default();
    assert!(import(SourceId(0), &file("doc-o-create-response.json"), &mut problems).is_none());
    let said: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
    let answer = "the file contains no training job: it is the answer of CreateTrainingJob, which contains only the job's ARN";
    assert_eq!(said, [answer]);
}

#[test]
fn reports_input_without_a_job() {
    for (text, code) in [("{", "T0530"), ("[]", "T0531"), ("{\"request\": {}}", "T0531")] {
        let mut problems = Problems::default();
        assert!(import(SourceId(0), text, &mut problems).is_none());
        assert_eq!(problems.iter().map(|problem| problem.code.id).collect::<Vec<_>>(), [code]);
    }
}

/// The place is that of the error, in the format that the file seems to have.
#[test]
fn unreadable_documents_are_rejected_at_their_place() {
    let deep = |n: usize| "{\"a\":".repeat(n) + "1" + &"}".repeat(n);
    let too_deep = "the document is nested more than 128 levels deep";
    let laughs: String = (1..40).map(|at| format!("a{at}: &a{at} [*a{0}, *a{0}]\n", at - 1)).collect();
    for (text, message, at) in [
        ("{\n  \"a\": 1,\n  \"b\" 2\n}", "invalid JSON: expected `:`, found `2`", (3, 7)),
        ("{\"a\": [1, 2}", "invalid JSON: expected `,` or `]`, found `}`", (1, 12)),
        ("a: 1\nb: [2", "neither valid JSON nor YAML: unclosed bracket '['", (2, 4)),
        ("a: 1\nb: 2026-02-30\n", "neither valid JSON nor YAML: a date or time that does not exist", (2, 4)),
        ("some words", "neither valid JSON nor YAML: expected a map of names and values", (1, 1)),
        (&deep(40_000), too_deep, (1, 641)),
        (&format!("a: {}", deep(40_000)), too_deep, (1, 639)),
        (&format!("a0: &a0 [1]\n{laughs}"), "the document has more than 1000000 keys and values", (1, 9)),
    ] {
        let mut sources = trainc_diag::source::SourceMap::default();
        let source = sources.add("x", text);
        let mut problems = Problems::default();
        assert!(import(source, text, &mut problems).is_none());
        let found: Vec<_> = problems
            .iter()
            .map(|found| {
                (
                    found.code.id,
                    found.message.as_str(),
                    sources.get(source).unwrap().line_column(found.span.start),
                )
            })
            .collect();
        let shown: String = text.chars().take(60).collect();
        assert_eq!(found, [("T0530", message, at)], "{shown}");
    }
}

/// Scalars are those of YAML 1.1, and a key that is written twice is a caveat.
#[test]
fn yaml_is_read_as_by_python() {
    let request = "AlgorithmSpecification: &a {TrainingImage: x, TrainingInputMode: File}\n\
        HyperParameters:\n  lr: 1e-5\n  flag: no\n  lr: 2e-5\n<<: {TrainingJobName: merged}\n";
    let found = imported(request);
    assert_eq!(found.request["HyperParameters"], serde_json::json!({"lr": "2e-5", "flag": false}));
    assert_eq!(found.job, "merged");
    let caveat = "`lr` is written more than once, in the lines 3 and 5: the last one counts";
    assert!(found.caveats.iter().any(|line| line == caveat), "{:?}", found.caveats);
    assert!(found.manifest.contains("`lr` is written more than once"), "{}", found.manifest);
}

#[test]
fn other_texts_are_named() {
    for (text, expected) in [
        ("resource \"aws_sagemaker_model\" \"x\" {\n}", "it is a Terraform configuration"),
        ("<?xml version=\"1.0\"?>", "it is an XML document"),
        ("# job\nfrom sagemaker.pytorch import PyTorch\n", "it is a Python script"),
        ("set -e\naws sagemaker create-training-job\n", "it is a shell script"),
    ] {
        let mut problems = Problems::default();
        assert!(import(SourceId(0), text, &mut problems).is_none());
        let said: Vec<String> = problems.iter().map(|problem| problem.message.clone()).collect();
        assert_eq!(said, [format!("the file contains no training job: {expected}")]);
    }
}

/// What the file says about itself, or its name.
#[test]
fn files_of_other_tools_are_named() {
    let table = [
        (
            "a.yaml",
            "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n",
            "a configuration of Accelerate",
        ),
        ("a.yaml", "compute_environment: AMAZON_SAGEMAKER\n", "a configuration of Accelerate for SageMaker"),
        ("ds.json", "{\"zero_optimization\": {\"stage\": 3}}", "a configuration of DeepSpeed"),
        ("a.yml", "base_model: x\ndatasets: []\n", "a configuration of Axolotl"),
        ("t.yaml", "model:\n  _component_: torchtune.models.llama3\n", "a configuration of torchtune"),
        ("r.yaml", "trainer: {devices: 8}\nmodel: {}\n", "a training recipe"),
        (
            "template.json",
            "{\"Resources\": {\"B\": {\"Type\": \"AWS::S3::Bucket\"}}}",
            "a CloudFormation template without a training job",
        ),
        (
            "config.json",
            "{\"architectures\": [\"X\"], \"model_type\": \"llama\"}",
            "the configuration of a model",
        ),
        ("p.json", "{\"Version\": \"2012-10-17\", \"Statement\": []}", "an IAM policy"),
        ("job.slurm", "#!/bin/bash\n#SBATCH --nodes=4\n", "a Slurm script"),
        ("a.csv", "a,b\n1,2\n", "a CSV file"),
        ("pyproject.toml", "[project]\nname = \"x\"\n", "a TOML file"),
        ("page", "<!DOCTYPE html>\n<html>", "an HTML page"),
        ("x.xml", "\u{feff}\n<a/>\n", "an XML document"),
        ("readme.md", "<details>\n", "a Markdown document"),
        ("log", "Traceback (most recent call last):\n", "a log"),
        (
            "task.yaml",
            "name: a\nresources: {accelerators: \"H100:8\"}\nnum_nodes: 2\nrun: torchrun train.py\n",
            "a SkyPilot task",
        ),
        ("x.yaml", "num_nodes: 2\nrun: python train.py\n", "a SkyPilot task"),
        (
            "a.dstack.yml",
            "type: task\nnodes: 2\ncommands: [python train.py]\nresources: {gpu: \"H100:8\"}\n",
            "a dstack task",
        ),
        (
            "recipe.yaml",
            "run: {name: a, model_type: \"amazon.nova-2-lite-v1\"}\ntraining_config: {max_length: 8192}\n",
            "a Nova recipe",
        ),
        ("recipe.yaml", "run: {name: a}\ntraining_config: {training_args: {}}\n", "a HyperPod recipe"),
        (
            "main.tf",
            "resource \"aws_sagemaker_training_job\" \"a\" {\n}\n",
            "a Terraform configuration with a training job",
        ),
        ("main.tf", "resource \"aws_s3_bucket\" \"a\" {\n}\n", "a Terraform configuration"),
        (
            "x.json",
            "{\"a\": 1, \"b\": 2, \"c\": 3, \"d\": 4}",
            "an object with `a`, `b`, `c` and other members",
        ),
        ("x.json", "{}", "an empty object"),
        ("x.json", "null", "`null`"),
        ("x.json", "[1]", "an array of 1 value"),
    ];
    for (name, text, expected) in table {
        let mut problems = Problems::default();
        assert!(import_all(SourceId(0), name, text, &mut problems).is_none(), "{text}");
        let said: Vec<String> = problems.iter().map(|problem| problem.message.clone()).collect();
        assert_eq!(said, [format!("the file contains no training job: it is {expected}")], "{text}");
    }
    let archive = decode(&[0x1f, 0x8b, 8, 0]).unwrap_err().map(|(what, _)| what);
    assert_eq!(archive, Some("a gzip archive"));
    assert_eq!(decode(&[0xc3, 0x28]), Err(None));
}

/// As `terraform show -json` prints a plan: objects are lists of one, and names are in snake case.
#[test]
fn a_planned_training_job_of_terraform_is_one() {
    let job = serde_json::json!({
        "address": "aws_sagemaker_training_job.a", "type": "aws_sagemaker_training_job", "name": "a",
        "values": {
            "training_job_name": "linear-demo",
            "role_arn": "arn:aws:iam::111122223333:role/train",
            "algorithm_specification": [{
                "training_image": "382416733822.dkr.ecr.us-east-1.amazonaws.com/linear-learner:1",
                "training_input_mode": "File", "metric_definitions": [],
            }],
            "hyper_parameters": {"feature_dim": "784", "predictor_type": "binary_classifier"},
            "input_data_config": [{"channel_name": "train", "data_source": [{"s3_data_source": [{
                "s3_data_type": "S3Prefix", "s3_uri": "s3://example-tf/train",
                "s3_data_distribution_type": "FullyReplicated",
            }]}]}],
            "output_data_config": [{"s3_output_path": "s3://example-tf/output"}],
            "resource_config": [
                {"instance_type": "ml.m5.large", "instance_count": 1, "volume_size_in_gb": 10},
            ],
            "stopping_condition": [{"max_runtime_in_seconds": 3600}],
            "tags": {"team": "risk"}, "tags_all": {"team": "risk"}, "vpc_config": [], "id": null,
        },
    });
    let resources = serde_json::json!({"root_module": {"child_modules": [{"resources": [job]}]}});
    let plan = serde_json::json!({
        "format_version": "1.2", "terraform_version": "1.11.0",
        "planned_values": resources.clone(), "prior_state": {"values": resources},
    });
    let found = reconciled(&plan.to_string());
    assert_eq!(found.job, "linear-demo");
    let request = emitted(&found.manifest);
    assert_eq!(request["ResourceConfig"]["VolumeSizeInGB"], 10);
    assert_eq!(request["HyperParameters"]["feature_dim"], "784");
    assert_eq!(request["InputDataConfig"][0]["DataSource"]["S3DataSource"]["S3Uri"], "s3://example-tf/train");
    assert_eq!(request["RoleArn"], "arn:aws:iam::111122223333:role/train");
    assert!(found.manifest.contains("tags team=\"risk\""), "{}", found.manifest);
    assert_eq!(found.lost, [""; 0], "{}", found.manifest);
    // Without what starts the job it is named.
    let mut problems = Problems::default();
    let empty = serde_json::json!({"planned_values": {"type": "aws_sagemaker_training_job", "values": {}}});
    assert!(import_all(SourceId(0), "plan.json", &empty.to_string(), &mut problems).is_none());
    let said = problems.iter().next().unwrap().message.clone();
    assert!(said.contains("a document of Terraform whose training job has no"), "{said}");
}

/// A request as other programs write it: UTF-16, comments, tags of CloudFormation, texts in documents,
/// several documents.
#[test]
fn requests_are_found_in_other_forms() {
    let request = file("16-xgb-spot.json");
    let job = |text: &str| {
        let mut problems = Problems::default();
        let jobs = import_all(SourceId(0), "x", text, &mut problems);
        let said: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        let jobs = jobs.unwrap_or_else(|| panic!("{said:?}"));
        assert_eq!(jobs.len(), 1, "{text}");
        jobs[0].request["ResourceConfig"]["InstanceType"].as_str().unwrap().to_owned()
    };
    let expected = job(&request);
    let wide: Vec<u8> =
        [0xfeff].into_iter().chain(request.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    assert_eq!(job(&decode(&wide).unwrap()), expected);
    assert_eq!(job(&format!("// a request\n{request}")), expected);
    assert_eq!(job(&format!("{request}\n{{\"a\": 1}}\n")), expected);
    let value: serde_json::Value = serde_json::from_str(&request).unwrap();
    let inside = |name: &str| serde_json::json!({name: serde_json::json!({"States": {"T": {"Parameters": value}}}).to_string()});
    assert_eq!(job(&inside("definition").to_string()), expected);
    let text = inside("x")["x"].as_str().unwrap().to_owned();
    let (before, after) = text.split_at(text.find("\"RoleArn\":\"").unwrap() + 11);
    let after = &after[after.find('"').unwrap()..];
    let join = serde_json::json!({"DefinitionString": {"Fn::Join": ["", [before, {"Fn::GetAtt": ["Role", "Arn"]}, after]]}});
    assert_eq!(job(&join.to_string()), expected);
    let yaml = format!("a: 1\n---\nResources:\n  Role: !Ref X\n  Job: {value}\n");
    assert_eq!(job(&yaml), expected);
    let mut computed = value.clone();
    computed["RoleArn"] = serde_json::json!({"Fn::GetAtt": ["Role", "Arn"]});
    let found = imported(&computed.to_string());
    assert!(
        found.unsupported.iter().any(|line| line.contains("only known when the stack is deployed")),
        "{:?}",
        found.unsupported
    );
    assert!(found.manifest.contains("role create=#true"), "{}", found.manifest);
}

/// An expression of a state machine is not a value: it is neither sent nor the job's name, and the header
/// lists it.
#[test]
fn expressions_of_a_state_machine_are_differences() {
    for (name, expression) in [(".$", "$.input.x"), ("", "{% $states.input.x %}")] {
        let mut request: serde_json::Value = serde_json::from_str(&file("16-xgb-spot.json")).unwrap();
        request.as_object_mut().unwrap().remove("TrainingJobName");
        request[format!("TrainingJobName{name}")] = expression.into();
        for map in ["HyperParameters", "Environment"] {
            request[map][format!("beta{name}")] = expression.into();
        }
        let found = imported(&serde_json::json!({"States": {"T": {"Arguments": request}}}).to_string());
        let found = found.reconcile(compiled);
        assert_eq!(found.job, "imported");
        assert!(found.request["HyperParameters"].get(format!("beta{name}")).is_none());
        assert!(found.request["Environment"].get(format!("beta{name}")).is_none());
        let line = format!("`beta`: `{expression}`, which is only known when the state machine runs");
        assert!(found.unsupported.contains(&line) && found.lost.contains(&line), "{:?}", found.lost);
        let (header, nodes) = found.manifest.split_once("job \"").unwrap();
        assert!(header.contains(&line) && header.contains("does not produce the same request"), "{header}");
        assert!(!nodes.contains(expression), "{nodes}");
    }
}

#[test]
fn references_of_a_pipeline_are_differences() {
    let mut request: Value = serde_json::from_str(&file("16-xgb-spot.json")).unwrap();
    let get =
        serde_json::json!({"Get": "Steps.Prepare.ProcessingOutputConfig.Outputs['train'].S3Output.S3Uri"});
    request["InputDataConfig"][0]["DataSource"]["S3DataSource"]["S3Uri"] = get;
    let found = imported(&request.to_string()).reconcile(compiled);
    assert!(
        found.lost[0].starts_with("`S3Uri`: `Steps.Prepare.")
            && found.lost[0].ends_with("when the pipeline runs")
    );
    // Only the address is to be written.
    assert_eq!(found.manifest.matches("s3=\"\"").count(), 1, "{}", found.manifest);
    assert!(!found.manifest.contains("InputDataConfig"), "{}", found.manifest);
}

/// serde_json reads floats to the last digit.
#[test]
fn floats_are_exact() {
    let mut request: Value = serde_json::from_str(&file("16-xgb-spot.json")).unwrap();
    request["HyperParameters"]["eta"] = "3.7500000000000003e-05".into();
    let sent = emitted(&imported(&request.to_string()).manifest);
    assert_eq!(sent["HyperParameters"]["eta"], "3.7500000000000003e-05");
}

/// The manifest has the source of the script in place of an archive that was never uploaded.
#[test]
fn requests_of_a_script_have_its_source_and_account() {
    let request = serde_json::json!({
        "TrainingJobName": "train-20260101000000",
        "AlgorithmSpecification": {"TrainingImage": "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.3.0-gpu-py311"},
        "HyperParameters": {
            "sagemaker_program": "\"train.py\"",
            "shell": "${account}",
            "sagemaker_submit_directory": "\"s3://sagemaker-us-west-2-000000000000/a/sourcedir.tar.gz\"",
        },
        "RoleArn": "arn:aws:iam::111122223333:role/training",
        "OutputDataConfig": {"S3OutputPath": "s3://sagemaker-us-west-2-000000000000/out"},
        "ResourceConfig": {"InstanceType": "ml.g5.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
    });
    let source = LocalSource { directory: "/repository/src".to_owned(), ..LocalSource::default() };
    let uri = "s3://sagemaker-us-west-2-000000000000/a/sourcedir.tar.gz".to_owned();
    let uploaded = [(uri.clone(), None)].into();
    let mut recording = Recording { sources: [(uri, source)].into(), uploaded, ..Recording::default() };
    let document = RecordedDocument {
        region: Some("us-west-2".to_owned()),
        value: request.clone(),
        ignored: 1,
        unknown: 0,
    };
    let origin = |recording: &Recording| {
        Origin::from_recording("job.py", &document, recording, std::path::Path::new("/repository"))
    };
    let jobs = import_document(&request, &origin(&recording));
    let [job] = jobs.as_slice() else { panic!("{}", jobs.len()) };
    assert_eq!(job.job, "train");
    assert!(job.has_source);
    assert!(job.manifest.contains("program \"train.py\" source=\"./src\""), "{}", job.manifest);
    assert_eq!(job.request["OutputDataConfig"]["S3OutputPath"], "s3://sagemaker-us-west-2-111122223333/out");
    assert_eq!(job.request["HyperParameters"]["shell"], "${account}");
    assert_eq!(job.caveats, Vec::<String>::new());
    // A source that cannot be packed: the archive is not there.
    recording.sources.clear();
    let job = import_document(&request, &origin(&recording)).pop().unwrap();
    let caveat = "`program s3=`: not uploaded to `s3://sagemaker-us-west-2-111122223333/a/sourcedir.tar.gz`";
    assert!(job.caveats.iter().any(|line| line.starts_with(caveat)), "{:?}", job.caveats);
    assert!(job.manifest.contains("// Not uploaded, as the script would have done: "), "{}", job.manifest);
    // Only what failed before the request.
    let failed = |line| Ignored { message: String::new(), line: Some(line), last: None, builds: false };
    recording.ignored = vec![failed(7), failed(9)];
    let job = import_document(&request, &origin(&recording)).pop().unwrap();
    assert!(
        job.caveats.iter().any(|line| line.starts_with("line 7 of the script failed")),
        "{:?}",
        job.caveats
    );
}

/// The role of a script is kept without its account; that of its environment is replaced, which the header
/// states.
#[test]
fn the_role_of_a_script_is_kept() {
    let origin = |roles: &[(&str, bool)]| {
        let roles = roles.iter().map(|(arn, created)| ((*arn).to_owned(), *created)).collect();
        let recording = Recording { roles, ..Recording::default() };
        let document = RecordedDocument {
            region: Some("us-west-2".to_owned()),
            value: Value::Null,
            ignored: 0,
            unknown: 0,
        };
        Origin::from_recording("job.py", &document, &recording, std::path::Path::new("/"))
    };
    let with_role = |arn: &str, roles: &[(&str, bool)]| {
        let mut request: Value = serde_json::from_str(&file("16-xgb-spot.json")).unwrap();
        request["RoleArn"] = arn.into();
        import_document(&request, &origin(roles)).pop().unwrap().reconcile(compiled)
    };
    let arn = "arn:aws:iam::${account}:role/MyRole";
    let recorded = &arn.replace("${account}", "000000000000");
    let by_name = with_role(recorded, &[(recorded, false)]);
    assert!(by_name.manifest.contains(": produces the same request.\n"), "{}", by_name.manifest);
    assert!(
        by_name.manifest.contains("if it has a path, add it, as in `role/PATH/NAME`.\n"),
        "{}",
        by_name.manifest
    );
    assert_eq!(emitted(&by_name.manifest)["RoleArn"], arn);
    let created = with_role(recorded, &[(recorded, true)]);
    assert!(
        created.manifest.contains("// - `RoleArn`: the script would have created"),
        "{}",
        created.manifest
    );
    assert_eq!(emitted(&created.manifest)["RoleArn"], arn);
    let of_environment = with_role("arn:aws:iam::000000000000:role/trainc-import", &[]);
    let header = "produces the same request, but:\n// - `RoleArn`: the execution role of your environment";
    assert!(of_environment.manifest.contains(header), "{}", of_environment.manifest);
    assert!(of_environment.manifest.contains("role create=#true"), "{}", of_environment.manifest);
    assert_eq!(of_environment.caveats.len(), 1);
    // `apply` does not fill it in.
    let other = with_role("arn:aws:iam::000000000000:role/${NAME}", &[]);
    assert!(other.manifest.contains("does not produce the same request"), "{}", other.manifest);
}

#[test]
fn removes_timestamps_from_names() {
    assert_eq!(base_name("a-b-20260101000000"), "a-b");
    assert_eq!(base_name("a-b-2026-01-01-00-00-00-000"), "a-b");
    assert_eq!(base_name("a-b--2026-01-01-00-00-00-000"), "a-b");
    assert_eq!(base_name("a-b-2026-01-01"), "a-b-2026-01-01");
    assert_eq!(base_name("-2026-01-01-00-00-00-000"), "-2026-01-01-00-00-00-000");
}

#[test]
fn removes_digests_from_names() {
    assert_eq!(split_digest_name("llama-7b-fsdp-7cdda7f2"), Some(("llama-7b-fsdp", "7cdda7f2")));
    assert_eq!(split_digest_name("llama-7b-fsdp-7cdda7f2-r2"), Some(("llama-7b-fsdp", "7cdda7f2")));
    assert_eq!(split_digest_name("team-20260101"), None);
    assert_eq!(split_digest_name("team-facade"), None);
}

/// A described serverless job with all of its members is imported without loss: limits and parameters are in
/// `request`, because their nodes configure instances and programs.
#[test]
fn a_described_serverless_job_round_trips() {
    let asked = serde_json::json!({
        "HyperParameters": {"learning_rate": "1e-4", "epochs": "3"},
        "RoleArn": "arn:aws:iam::111122223333:role/training",
        "InputDataConfig": [{
            "ChannelName": "train",
            "DataSource": {"S3DataSource": {
                "S3DataType": "S3Prefix",
                "S3Uri": "s3://example-corpus/chat/",
                "S3DataDistributionType": "FullyReplicated",
            }},
        }],
        "OutputDataConfig": {"S3OutputPath": "s3://example-runs/tuned/", "KmsKeyId": "alias/runs"},
        "VpcConfig": {"Subnets": ["subnet-0123456789abcdef0"], "SecurityGroupIds": ["sg-0123456789abcdef0"]},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600, "MaxPendingTimeInSeconds": 7200},
        "RetryStrategy": {"MaximumRetryAttempts": 2},
        "Environment": {"LOG_LEVEL": "debug"},
        "ServerlessJobConfig": {
            "BaseModelArn": "arn:aws:sagemaker:us-west-2:aws:hub-content/SageMakerPublicHub/Model/example/1.0.0",
            "AcceptEula": true,
            "JobType": "FineTuning",
            "CustomizationTechnique": "SFT",
            "Peft": "LORA",
            "SequenceLength": "4K",
        },
        "MlflowConfig": {"MlflowResourceArn": "arn:aws:sagemaker:us-west-2:111122223333:mlflow-app/app-1"},
        "ModelPackageConfig": {
            "ModelPackageGroupArn": "arn:aws:sagemaker:us-west-2:111122223333:model-package-group/tuned",
        },
    });
    let mut described = asked.clone();
    for (name, value) in [
        ("TrainingJobName", serde_json::json!("tuned-example")),
        (
            "TrainingJobArn",
            serde_json::json!("arn:aws:sagemaker:us-west-2:111122223333:training-job/tuned-example"),
        ),
        ("TrainingJobStatus", serde_json::json!("Completed")),
        ("BillableTokenCount", serde_json::json!(1_000_000)),
        ("EnableNetworkIsolation", serde_json::json!(false)),
        ("EnableManagedSpotTraining", serde_json::json!(false)),
    ] {
        described[name] = value;
    }
    let found = imported(&described.to_string());
    for node in ["cluster", "parallel", "train", "program"] {
        assert!(!found.manifest.contains(&format!("    {node} ")), "{node}\n{}", found.manifest);
    }
    assert_eq!(found.lost, Vec::<String>::new(), "{}", found.manifest);
    let sent = emitted(&found.manifest);
    for (name, value) in asked.as_object().unwrap() {
        assert_eq!(&sent[name], value, "{name}\n{}", found.manifest);
    }
    for absent in ["ResourceConfig", "AlgorithmSpecification"] {
        assert!(sent.get(absent).is_none(), "{absent}");
    }
}

#[test]
fn a_named_algorithm_round_trips() {
    let request = serde_json::json!({
        "TrainingJobName": "trees",
        "RoleArn": "arn:aws:iam::111122223333:role/team",
        "AlgorithmSpecification": {
            "AlgorithmName": "arn:aws:sagemaker:us-west-2:111122223333:algorithm/trees",
            "TrainingInputMode": "File",
        },
        "HyperParameters": {"max_depth": "5", "objective": "reg:squarederror"},
        "InputDataConfig": [{
            "ChannelName": "train",
            "DataSource": {"S3DataSource": {
                "S3DataType": "S3Prefix", "S3Uri": "s3://bucket/train/", "S3DataDistributionType": "FullyReplicated",
            }},
        }],
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out/"},
        "ResourceConfig": {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        "ProfilerConfig": {"DisableProfiler": true},
    });
    let found = imported(&request.to_string());
    assert_eq!(found.lost, Vec::<String>::new(), "{}", found.manifest);
    let sent = emitted(&found.manifest);
    for name in ["AlgorithmSpecification", "HyperParameters", "InputDataConfig", "ResourceConfig"] {
        assert_eq!(sent[name], request[name], "{}", found.manifest);
    }
}

/// Channels without an input mode leave it to the job, in the manifest as in the request.
#[test]
fn the_input_mode_of_a_job_stays_with_the_job() {
    let source = serde_json::json!({"S3DataSource": {
        "S3DataType": "AugmentedManifestFile", "S3Uri": "s3://bucket/train.manifest",
        "S3DataDistributionType": "FullyReplicated", "AttributeNames": ["source-ref", "label"],
    }});
    let prefix = serde_json::json!({"S3DataSource": {
        "S3DataType": "S3Prefix", "S3Uri": "s3://bucket/validation/", "S3DataDistributionType": "FullyReplicated",
    }});
    let request = serde_json::json!({
        "TrainingJobName": "photos",
        "RoleArn": "arn:aws:iam::111122223333:role/team",
        "AlgorithmSpecification": {
            "TrainingImage": "111122223333.dkr.ecr.us-west-2.amazonaws.com/own:1",
            "TrainingInputMode": "Pipe",
        },
        "InputDataConfig": [
            {"ChannelName": "train", "DataSource": source},
            {"ChannelName": "validation", "DataSource": prefix, "InputMode": "File"},
        ],
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out/"},
        "ResourceConfig": {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        "ProfilerConfig": {"DisableProfiler": true},
    });
    let found = reconciled(&request.to_string());
    assert_eq!(found.lost, Vec::<String>::new(), "{}", found.manifest);
    assert_eq!(found.manifest.matches("input=").count(), 1, "{}", found.manifest);
    let sent = emitted(&found.manifest);
    assert_eq!(sent["AlgorithmSpecification"]["TrainingInputMode"], "Pipe", "{}", found.manifest);
    assert_eq!(sent["InputDataConfig"], request["InputDataConfig"], "{}", found.manifest);
}

#[test]
fn braces_of_a_request_are_escaped() {
    let request = serde_json::json!({
        "TrainingJobName": "small",
        "RoleArn": "arn:aws:iam::111122223333:role/team",
        "AlgorithmSpecification": {
            "TrainingImage": "111122223333.dkr.ecr.us-west-2.amazonaws.com/own:1",
            "TrainingInputMode": "File",
            "ContainerArguments": ["--form={{x}}"],
            "MetricDefinitions": [{"Name": "loss", "Regex": "loss=[{{]([0-9.]+)"}],
        },
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out/"},
        "ResourceConfig": {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
        "StoppingCondition": {"MaxRuntimeInSeconds": 5400},
        "TensorBoardOutputConfig": {"S3OutputPath": "s3://bucket/board/", "LocalPath": "/opt/ml/{{y}}"},
        "ProfilerConfig": {"DisableProfiler": true},
    });
    let again = emitted(&imported(&request.to_string()).manifest);
    for pointer in [
        "/AlgorithmSpecification/ContainerArguments",
        "/AlgorithmSpecification/MetricDefinitions",
        "/TensorBoardOutputConfig",
    ] {
        assert_eq!(again.pointer(pointer), request.pointer(pointer), "{pointer}");
    }
}

/// Files that are no job say what they are.
#[test]
fn other_files_are_described() {
    let message = |text: &str| {
        let mut problems = Problems::default();
        assert!(import(SourceId(0), text, &mut problems).is_none(), "{text}");
        problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("; ")
    };
    for (text, expected) in [
        (
            "from sagemaker.pytorch import PyTorch\nest = PyTorch(role=\"x\")\n",
            "the file contains no training job: it is a Python script",
        ),
        (
            "resource \"aws_s3_bucket\" \"x\" {\n}\n",
            "the file contains no training job: it is a Terraform configuration",
        ),
        ("", "the file is empty"),
        (
            "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {}}\n",
            "the file contains no training job: it is a PyTorchJob of Kubeflow",
        ),
        (
            "trainer: {devices: 8}\nexp_manager: {}\n",
            "the file contains no training job: it is a training recipe",
        ),
    ] {
        assert_eq!(message(text), expected);
    }
}
