//! Our request against the one that the SageMaker Python SDK sends for the same job.
//!
//! Hyperparameters are compared after JSON decoding, type and all. What is documented to be the default may be
//! written or left out. Names, role, the place of the source archive and tags named `trainc:…` stand apart: both
//! have them or neither. Nothing else is forgiven, and nothing here is shared with `tests/python`.

use crate::support::{Scratch, files, read, trainc};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Defaults of SMP v1 (SageMaker Python SDK, "smd_model_parallel_general", parameters of `mp_parameters`).
fn smp1_defaults() -> Value {
    json!({
        "microbatches": 1, "pipeline": "interleaved", "optimize": "memory", "placement_strategy": "cluster",
        "auto_partition": true, "default_partition": 0, "contiguous": true, "horovod": false, "ddp": false,
        "deterministic_server": false, "offload_activations": false, "activation_loading_horizon": 4,
        "tensor_parallel_degree": 1, "shard_optimizer_state": false, "prescaled_batch": false,
        "skip_tracing": false, "fp16_params": false, "fp16": false, "bf16": false,
        "delayed_parameter_initialization": false, "sharded_data_parallel_degree": 1,
        "sdp_reduce_bucket_size": 500_000_000, "sdp_param_persistence_threshold": 1_000_000,
        "sdp_max_live_parameters": 1_000_000_000, "sdp_hierarchical_allgather": true, "sdp_gradient_clipping": 1.0,
    })
}

/// Defaults of SMP v2 (developer guide, SMP v2 configuration parameters).
fn smp2_defaults() -> Value {
    json!({"hybrid_shard_degree": 0, "tensor_parallel_degree": 1, "context_parallel_degree": 1, "expert_parallel_degree": 1})
}

/// Defaults of members of the request (botocore documentation strings; sagemaker 2.257.7 `Estimator`).
fn member_defaults() -> Vec<(&'static str, Value)> {
    vec![
        (
            "",
            json!({"EnableManagedSpotTraining": false, "EnableNetworkIsolation": false, "EnableInterContainerTrafficEncryption": false}),
        ),
        ("StoppingCondition", json!({"MaxRuntimeInSeconds": 86_400})),
        ("ResourceConfig", json!({"VolumeSizeInGB": 30})),
        ("OutputDataConfig", json!({"KmsKeyId": "", "CompressionType": "GZIP"})),
        ("CheckpointConfig", json!({"LocalPath": "/opt/ml/checkpoints/"})),
        ("DebugHookConfig", json!({"CollectionConfigurations": []})),
        ("ProfilerConfig", json!({"DisableProfiler": false})),
        // The estimators send it for their own images unless told otherwise.
        (
            "AlgorithmSpecification",
            json!({"TrainingInputMode": "File", "EnableSageMakerMetricsTimeSeries": true}),
        ),
    ]
}

fn fill(target: &mut Map<String, Value>, defaults: &Value) {
    for (key, value) in defaults.as_object().unwrap() {
        target.entry(key.clone()).or_insert_with(|| value.clone());
    }
}

fn canonical(request: &Value) -> Value {
    let mut out = request.clone();
    let top = out.as_object_mut().unwrap();
    for apart in ["TrainingJobName", "RoleArn"] {
        if top.contains_key(apart) {
            top.insert(apart.to_owned(), json!("apart"));
        }
    }
    for (member, defaults) in member_defaults() {
        if member.is_empty() {
            fill(top, &defaults);
        } else if let Some(Value::Object(member)) = top.get_mut(member) {
            fill(member, &defaults);
        }
    }
    if let Some(Value::Object(given)) = top.get_mut("HyperParameters") {
        let mut decoded: Map<String, Value> = given
            .iter()
            .map(|(key, value)| {
                let text =
                    value.as_str().unwrap_or_else(|| panic!("hyperparameter {key} is no string: {value}"));
                (key.clone(), serde_json::from_str(text).unwrap_or_else(|_| json!({"not JSON": text})))
            })
            .collect();
        hyperparameters(&mut decoded);
        *given = decoded;
    }
    let mode = top
        .get("AlgorithmSpecification")
        .and_then(|spec| spec.get("TrainingInputMode"))
        .cloned()
        .unwrap_or_else(|| json!("File"));
    if let Some(Value::Array(channels)) = top.get_mut("InputDataConfig") {
        for channel in channels.iter_mut().filter_map(Value::as_object_mut) {
            fill(
                channel,
                &json!({"CompressionType": "None", "RecordWrapperType": "None", "InputMode": mode}),
            );
            if let Some(Value::Object(s3)) =
                channel.get_mut("DataSource").and_then(|source| source.get_mut("S3DataSource"))
            {
                fill(s3, &json!({"S3DataDistributionType": "FullyReplicated"}));
            }
        }
        channels.sort_by_key(|channel| channel["ChannelName"].to_string());
    }
    if let Some(Value::Array(tags)) = top.get_mut("Tags") {
        tags.retain(|tag| !tag["Key"].as_str().unwrap_or("").starts_with("trainc:"));
        tags.sort_by_key(|tag| tag["Key"].to_string());
    }
    if let Some(Value::Array(metrics)) =
        top.get_mut("AlgorithmSpecification").and_then(|spec| spec.get_mut("MetricDefinitions"))
    {
        metrics.sort_by_key(|metric| metric["Name"].to_string());
    }
    // An empty list or map says what an absent one says.
    for name in ["Tags", "Environment", "HyperParameters", "InputDataConfig"] {
        if top.get(name).is_some_and(|value| *value == json!([]) || *value == json!({})) {
            top.remove(name);
        }
    }
    out
}

fn hyperparameters(decoded: &mut Map<String, Value>) {
    for (switch, options) in [
        ("sagemaker_mpi_enabled", "sagemaker_mpi_custom_mpi_options"),
        (
            "sagemaker_distributed_dataparallel_enabled",
            "sagemaker_distributed_dataparallel_custom_mpi_options",
        ),
    ] {
        if decoded.get(switch) == Some(&Value::Bool(true)) {
            decoded.entry(options).or_insert_with(|| json!(""));
        }
    }
    let torchrun = decoded.get("sagemaker_torch_distributed_enabled") == Some(&Value::Bool(true));
    if let Some(Value::Object(parameters)) = decoded.get_mut("mp_parameters") {
        if torchrun {
            fill(parameters, &smp2_defaults());
        } else {
            if let Some(degree) = parameters.remove("pipeline_parallel_degree") {
                // The documented alias.
                parameters.entry("partitions").or_insert(degree);
            }
            fill(parameters, &smp1_defaults());
            let placement = match parameters["placement_strategy"].as_str() {
                Some("DPT") => "cluster".to_owned(),
                Some("TPD") => "spread".to_owned(),
                other => other.unwrap_or_default().to_owned(),
            };
            parameters.insert("placement_strategy".to_owned(), json!(placement));
            let weight = if parameters["optimize"] == "speed" { 0.2 } else { 0.8 };
            parameters.entry("memory_weight").or_insert_with(|| json!(weight));
            if let Some(partitions) = parameters.get("partitions").and_then(Value::as_i64) {
                parameters.entry("active_microbatches").or_insert_with(|| json!(partitions + 2));
            }
        }
    }
    for apart in ["sagemaker_submit_directory", "sagemaker_job_name"] {
        if decoded.contains_key(apart) {
            decoded.insert(apart.to_owned(), json!("apart"));
        }
    }
}

/// The places where two values differ; `1`, `1.0` and `true` do.
fn differences(ours: &Value, theirs: &Value, path: &str, out: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                match (a.get(key), b.get(key)) {
                    (Some(x), Some(y)) => differences(x, y, &format!("{path}.{key}"), out),
                    (x, y) => out.push(format!("{path}.{key}: ours {}, theirs {}", shown(x), shown(y))),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (x, y)) in a.iter().zip(b).enumerate() {
                differences(x, y, &format!("{path}[{at}]"), out);
            }
        }
        (Value::Number(a), Value::Number(b)) if a.is_f64() == b.is_f64() && a.as_f64() == b.as_f64() => {}
        (a, b) if a == b => {}
        (a, b) => out.push(format!("{path}: ours {a}, theirs {b}")),
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "absent".to_owned(), Value::to_string)
}

#[test]
fn requests_are_those_of_the_sdk() {
    let captured: BTreeMap<String, Value> = files("tests/golden-requests", &[".json"])
        .into_iter()
        .map(|path| (path.clone(), serde_json::from_str::<Value>(&read(&path)).unwrap()))
        .filter(|(_, case)| case.get("manifest").is_some())
        .collect();
    assert_eq!(captured.len(), 8);
    let scratch = Scratch::new("parity");
    let mut faults = Vec::new();
    for (path, case) in captured {
        let manifest = case["manifest"].as_str().unwrap();
        let out = scratch.0.join(path.replace('/', "-"));
        let ran = trainc(&["emit", manifest, "--out", out.to_str().unwrap()]);
        assert_eq!(ran.code, Some(0), "{manifest}\n{}", ran.err);
        let ours: Value =
            serde_json::from_slice(&std::fs::read(out.join("sagemaker/training-job.json")).unwrap()).unwrap();
        let mut found = Vec::new();
        differences(&canonical(&ours), &canonical(&case["request"]), "", &mut found);
        faults.extend(found.into_iter().map(|line| format!("{manifest} {line}")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_comparison_forgives_nothing_else() {
    let case: Value = serde_json::from_str(&read("tests/golden-requests/gpt2-30b-sharded.json")).unwrap();
    let request = &case["request"];
    let differ = |change: &dyn Fn(&mut Value)| {
        let mut ours = request.clone();
        change(&mut ours);
        let mut found = Vec::new();
        differences(&canonical(&ours), &canonical(request), "", &mut found);
        found.len()
    };
    assert_eq!(differ(&|_| {}), 0);
    assert_eq!(differ(&|r| r["TrainingJobName"] = json!("another")), 0);
    assert_eq!(differ(&|r| r["EnableNetworkIsolation"] = json!(false)), 0);
    assert_eq!(differ(&|r| r["HyperParameters"]["lr"] = json!("2e-4")), 0);
    assert_eq!(differ(&|r| r["HyperParameters"]["lr"] = json!("\"2e-4\"")), 1);
    assert_eq!(differ(&|r| r["HyperParameters"]["bf16"] = json!("true")), 1);
    assert_eq!(differ(&|r| r["HyperParameters"]["epochs"] = json!("100.0")), 1);
    assert_eq!(differ(&|r| r["ResourceConfig"]["VolumeSizeInGB"] = json!(30)), 1);
    assert_eq!(
        differ(&|r| {
            r["HyperParameters"].as_object_mut().unwrap().remove("seed");
        }),
        1
    );
    assert_eq!(
        differ(&|r| {
            r.as_object_mut().unwrap().remove("ProfilerConfig");
        }),
        1
    );
}
