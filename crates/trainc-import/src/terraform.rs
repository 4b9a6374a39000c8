//! The training job of a plan or a state of Terraform, as `terraform show -json` prints it.
//!
//! The resource has the members of the request in snake case, objects as lists of one, and tags as a map.
//! What is only known when the plan is applied is absent.

use super::document::FoundJob;
use serde_json::{Map, Value, json};
use trainc_catalog::shapes::{self, Shape};

/// The type of the resource.
const TRAINING_JOB: &str = "aws_sagemaker_training_job";

/// Attributes of the resource that are no members of the request.
const OF_TERRAFORM: [&str; 5] = ["arn", "id", "region", "tags_all", "timeouts"];

/// Returns the job that a resource describes.
pub(super) fn as_job(resource: &Map<String, Value>) -> Option<FoundJob> {
    if resource.get("type").and_then(Value::as_str) != Some(TRAINING_JOB) {
        return None;
    }
    let values = resource.get("values")?.as_object()?;
    let shape = &shapes::operation("CreateTrainingJob")?.input;
    let mut computed = Vec::new();
    let mut members = Map::new();
    for (name, value) in values.iter().filter(|(name, _)| !OF_TERRAFORM.contains(&name.as_str())) {
        if let (true, Some(tags)) = (name == "tags", value.as_object()) {
            let tags = tags.iter().map(|(key, value)| json!({"Key": key, "Value": value}));
            members.insert("Tags".to_owned(), Value::Array(tags.collect()));
            continue;
        }
        insert(&mut members, name, value, shape, &mut computed);
    }
    members.contains_key("AlgorithmSpecification").then_some(FoundJob { members, computed, is_tuned: false })
}

/// Adds a member with its name in the API; a name that the API does not have is listed.
fn insert(
    out: &mut Map<String, Value>,
    name: &str,
    value: &Value,
    shape: &Shape,
    computed: &mut Vec<String>,
) {
    let plain = name.replace('_', "");
    let known = shape.members.iter().find(|(known, _)| known.eq_ignore_ascii_case(&plain));
    match known {
        Some((known, inner)) => {
            if let Some(value) = with_api_names(value, inner, computed) {
                out.insert(known.clone(), value);
            }
        }
        None if is_said(value) => {
            computed.push(format!("`{name}`: an argument of Terraform that the request does not have"));
        }
        None => {}
    }
}

/// Returns a value with the names of the API; `None` for one that is not set.
fn with_api_names(value: &Value, shape: &Shape, computed: &mut Vec<String>) -> Option<Value> {
    if !is_said(value) {
        return None;
    }
    if !shape.members.is_empty() {
        let members = value.as_object().or_else(|| value.as_array()?.first()?.as_object())?;
        let mut out = Map::new();
        for (name, value) in members {
            insert(&mut out, name, value, shape, computed);
        }
        return Some(Value::Object(out));
    }
    match (value, shape.item.as_deref()) {
        (Value::Array(items), Some(item)) => {
            Some(Value::Array(items.iter().filter_map(|one| with_api_names(one, item, computed)).collect()))
        }
        _ => Some(value.clone()),
    }
}

/// Returns whether a value is set.
fn is_said(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}
