//! Comparison of an imported request with the one that its manifest sends.
//!
//! Two requests are the same if the service and the container cannot tell them apart: a documented default
//! may be written or not, a hyperparameter is compared as the JSON value that the toolkit decodes, and lists
//! of named things have no order. The job's name, and what trainc adds to every request, are not compared.

use serde_json::{Map, Value, json};

/// A difference between two requests.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference {
    /// The names of the members, the outermost first.
    pub(super) path: Vec<String>,
    /// The value in the imported request.
    pub(super) imported: Option<Value>,
    /// The value in the manifest's request.
    pub(super) sent: Option<Value>,
}

impl Difference {
    /// Describes it for the manifest's header.
    pub(super) fn describe(&self) -> String {
        let path = self.path.join(".");
        let shown = |value: &Value| {
            let text = value.to_string();
            match text.char_indices().nth(MOST_SHOWN) {
                Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
                None => text,
            }
        };
        match (&self.imported, &self.sent) {
            (Some(imported), Some(sent)) => {
                format!("`{path}` is {}; the manifest's request has {}", shown(imported), shown(sent))
            }
            (Some(imported), None) => {
                format!("`{path}` is {}; the manifest's request lacks it", shown(imported))
            }
            (None, Some(sent)) => format!("`{path}` is not set; the manifest's request has {}", shown(sent)),
            (None, None) => format!("`{path}`"),
        }
    }
}

/// Maximum length of a value in a description, in characters.
const MOST_SHOWN: usize = 120;

/// Members that trainc sets in every request.
const NOT_COMPARED: &[&str] = &["TrainingJobName"];

/// Hyperparameters that the SDK and trainc derive from the job's name: their value is not compared.
const DERIVED_HYPERPARAMETERS: &[&str] = &["sagemaker_job_name"];

/// Returns the differences between an imported request and the manifest's.
pub(super) fn differences(imported: &Value, sent: &Value) -> Vec<Difference> {
    let mut out = Vec::new();
    compare(&mut Vec::new(), Some(&normalize(imported)), Some(&normalize(sent)), &mut out);
    out
}

/// Returns a request with its documented defaults (botocore 1.44.5, CreateTrainingJob), without what is not
/// compared.
fn normalize(request: &Value) -> Value {
    let mut members = request.as_object().cloned().unwrap_or_default();
    members.retain(|name, _| !NOT_COMPARED.contains(&name.as_str()));
    for name in
        ["EnableManagedSpotTraining", "EnableNetworkIsolation", "EnableInterContainerTrafficEncryption"]
    {
        members.entry(name).or_insert(Value::Bool(false));
    }
    if let Some(Value::Array(tags)) = members.get_mut("Tags") {
        tags.retain(|tag| {
            let key = tag.get("Key").and_then(Value::as_str).unwrap_or_default();
            !key.starts_with("trainc:") && !key.starts_with("aws:")
        });
    }
    if let Some(Value::Object(keys)) = members.get_mut("HyperParameters") {
        for key in DERIVED_HYPERPARAMETERS {
            keys.entry(*key).and_modify(|value| *value = Value::from("\"…\""));
        }
    }
    let mode = default_job_input_mode(&mut members);
    for (name, key) in [("Tags", "Key"), ("InputDataConfig", "ChannelName")] {
        if let Some(Value::Array(items)) = members.get_mut(name) {
            items.sort_by_key(|item| item.get(key).and_then(Value::as_str).unwrap_or_default().to_owned());
        }
    }
    if let Some(Value::Array(channels)) = members.get_mut("InputDataConfig") {
        for channel in channels {
            normalize_channel(channel, &mode);
        }
    }
    default_member(&mut members, "OutputDataConfig", "CompressionType", json!("GZIP"));
    default_member(&mut members, "OutputDataConfig", "KmsKeyId", json!(""));
    default_member(&mut members, "CheckpointConfig", "LocalPath", json!("/opt/ml/checkpoints"));
    default_member(&mut members, "DebugHookConfig", "CollectionConfigurations", json!([]));
    default_member(&mut members, "ProfilerConfig", "DisableProfiler", json!(false));
    if let Some(Value::String(path)) =
        members.get_mut("CheckpointConfig").and_then(|config| config.get_mut("LocalPath"))
    {
        path.truncate(path.trim_end_matches('/').len());
    }
    members.retain(|_, value| !is_empty(value));
    Value::Object(members)
}

/// Returns the input mode of the job, which applies to channels without their own.
fn default_job_input_mode(members: &mut Map<String, Value>) -> String {
    let algorithm = members.get_mut("AlgorithmSpecification").and_then(Value::as_object_mut);
    let mode =
        algorithm.map(|algorithm| algorithm.entry("TrainingInputMode").or_insert(json!("File")).clone());
    mode.as_ref().and_then(Value::as_str).unwrap_or("File").to_owned()
}

fn normalize_channel(channel: &mut Value, mode: &str) {
    let Some(members) = channel.as_object_mut() else { return };
    for (name, value) in [("CompressionType", "None"), ("RecordWrapperType", "None"), ("InputMode", mode)] {
        members.entry(name).or_insert(Value::from(value));
    }
    if let Some(Value::Object(source)) =
        members.get_mut("DataSource").and_then(|source| source.get_mut("S3DataSource"))
    {
        source.entry("S3DataDistributionType").or_insert(Value::from("FullyReplicated"));
    }
}

fn default_member(members: &mut Map<String, Value>, outer: &str, name: &str, value: Value) {
    if let Some(Value::Object(inner)) = members.get_mut(outer) {
        inner.entry(name).or_insert(value);
    }
}

/// Returns whether a member is the same as none.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn compare(
    path: &mut Vec<String>,
    imported: Option<&Value>,
    sent: Option<&Value>,
    out: &mut Vec<Difference>,
) {
    match (imported, sent) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let added = new.keys().filter(|name| !old.contains_key(*name));
            for name in old.keys().chain(added) {
                path.push(name.clone());
                compare(path, old.get(name), new.get(name), out);
                path.pop();
            }
        }
        (Some(Value::Object(old)), None) if !old.is_empty() => {
            for (name, value) in old {
                path.push(name.clone());
                compare(path, Some(value), None, out);
                path.pop();
            }
        }
        (old, new) if old == new => {}
        (Some(old), Some(new))
            if path.first().is_some_and(|first| first == "HyperParameters") && is_same_argument(old, new) => {
        }
        (old, new) => {
            out.push(Difference { path: path.clone(), imported: old.cloned(), sent: new.cloned() });
        }
    }
}

/// Returns whether the toolkit decodes two hyperparameters to the same value (`mapping.py`, `decode`).
fn is_same_argument(old: &Value, new: &Value) -> bool {
    let decode = |value: &Value| serde_json::from_str::<Value>(value.as_str()?).ok();
    decode(old).is_some_and(|old| Some(old) == decode(new))
}

/// The hyperparameters by which the training toolkit finds the program: `ModelTrainer` has its archive as a
/// channel.
const OF_TOOLKIT: [&str; 5] = [
    "sagemaker_container_log_level",
    "sagemaker_job_name",
    "sagemaker_program",
    "sagemaker_region",
    "sagemaker_submit_directory",
];

/// Returns a request without what starts its program, and without a hyperparameter's encoding: what
/// `ModelTrainer` and trainc have in common. A channel of trainc provides the program.
pub(super) fn without_start(request: &Map<String, Value>, channel: Option<&str>) -> Value {
    let mut request = request.clone();
    if let Some(Value::Object(algorithm)) = request.get_mut("AlgorithmSpecification") {
        algorithm.remove("ContainerEntrypoint");
        algorithm.remove("ContainerArguments");
    }
    if let Some(Value::Object(keys)) = request.get_mut("HyperParameters") {
        keys.retain(|name, _| !OF_TOOLKIT.contains(&name.as_str()));
        for value in keys.values_mut() {
            *value = decoded(value);
        }
    }
    if let Some(channel) = channel {
        super::trainer::remove_channels(&mut request, &[channel]);
    }
    Value::Object(request)
}

/// Returns a hyperparameter as the drivers of `ModelTrainer` read it: as JSON, or as it is.
fn decoded(value: &Value) -> Value {
    let text = value.as_str().unwrap_or_default();
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(imported: Value, sent: Value, expected: &[&str]) {
        let found: Vec<String> =
            differences(&imported, &sent).iter().map(|difference| difference.path.join(".")).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn defaults_and_order_are_no_difference() {
        check(
            json!({
                "TrainingJobName": "a",
                "InputDataConfig": [{"ChannelName": "b"}, {"ChannelName": "a"}],
                "AlgorithmSpecification": {},
                "OutputDataConfig": {"S3OutputPath": "s3://b/", "KmsKeyId": ""},
                "HyperParameters": {"lr": "0.0002", "sagemaker_job_name": "\"a\""},
            }),
            json!({
                "TrainingJobName": "b",
                "EnableNetworkIsolation": false,
                "InputDataConfig": [
                    {"ChannelName": "a", "InputMode": "File"}, {"ChannelName": "b", "InputMode": "File"},
                ],
                "AlgorithmSpecification": {"TrainingInputMode": "File"},
                "OutputDataConfig": {"S3OutputPath": "s3://b/", "CompressionType": "GZIP"},
                "HyperParameters": {"lr": "2e-4", "sagemaker_job_name": "\"b\""},
                "Tags": [{"Key": "trainc:job", "Value": "b"}],
            }),
            &[],
        );
    }

    #[test]
    fn each_member_that_differs_is_named() {
        check(
            json!({"ProfilerConfig": {"DisableProfiler": true}, "StoppingCondition": {"MaxRuntimeInSeconds": 1}}),
            json!({"StoppingCondition": {"MaxRuntimeInSeconds": 2}, "RoleArn": "r"}),
            &["ProfilerConfig.DisableProfiler", "StoppingCondition.MaxRuntimeInSeconds", "RoleArn"],
        );
        // A number that becomes a float, and a flag of the toolkit.
        check(
            json!({"HyperParameters": {"n": "1", "bare": "train.py", "sagemaker_x": "true"}}),
            json!({"HyperParameters": {"n": "1.0", "bare": "\"train.py\"", "sagemaker_job_name": "\"b\""}}),
            &[
                "HyperParameters.bare",
                "HyperParameters.n",
                "HyperParameters.sagemaker_x",
                "HyperParameters.sagemaker_job_name",
            ],
        );
        check(
            json!({
                "AlgorithmSpecification": {"TrainingInputMode": "Pipe"},
                "InputDataConfig": [{"ChannelName": "a"}],
                "Tags": [{"Key": "k", "Value": "v"}],
            }),
            json!({"AlgorithmSpecification": {}, "InputDataConfig": [{"ChannelName": "a"}]}),
            &["AlgorithmSpecification.TrainingInputMode", "InputDataConfig", "Tags"],
        );
    }
}
