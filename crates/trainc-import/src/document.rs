//! Finds training jobs in a document: a request or response itself, or nested in a state machine, a
//! pipeline's step, an event, a search result, a tuning job or a Kubernetes resource.

use super::terraform;
use serde_json::{Map, Value};
use trainc_catalog::shapes::{self, Shape};
use trainc_project::other_documents::{JOB_MEMBERS, MOST_NESTED};

/// A training job in a document.
#[derive(Debug)]
pub(super) struct FoundJob {
    /// The request or the response, with the names of the API.
    pub(super) members: Map<String, Value>,
    /// Members that are only known at run time, with their expressions.
    pub(super) computed: Vec<String>,
    /// The job is the definition of a tuning job.
    pub(super) is_tuned: bool,
}

/// Returns the training jobs of a document, in its order.
pub(super) fn jobs(document: &Value) -> Vec<FoundJob> {
    let mut out = Vec::new();
    collect(document, 0, &mut out);
    out
}

fn collect(value: &Value, depth: usize, out: &mut Vec<FoundJob>) {
    if depth > MOST_NESTED {
        return;
    }
    match value {
        Value::Object(members) => {
            if let Some(found) = as_job(members) {
                out.push(found);
                return;
            }
            if let Some(found) = terraform::as_job(members) {
                out.push(found);
                return;
            }
            // A plan has the state before it, too.
            if let Some(planned) = members.get("planned_values") {
                collect(planned, depth + 1, out);
                return;
            }
            if let Some(text) = joined(members) {
                collect(&Value::String(text), depth + 1, out);
                return;
            }
            members.values().for_each(|inner| collect(inner, depth + 1, out));
        }
        Value::Array(items) => items.iter().for_each(|inner| collect(inner, depth + 1, out)),
        // The definition of a state machine or a pipeline is a text in templates and answers.
        Value::String(text) if JOB_MEMBERS.iter().any(|name| text.contains(name)) => {
            if let Ok(inner @ Value::Object(_)) = serde_json::from_str(text) {
                collect(&inner, depth + 1, out);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the text that a function of CloudFormation puts together, with `${NAME}` for what only the stack
/// knows.
fn joined(members: &Map<String, Value>) -> Option<String> {
    let (name, argument) = members.iter().next().filter(|_| members.len() == 1)?;
    match name.as_str() {
        "Fn::Sub" => argument.as_str().or_else(|| argument.as_array()?.first()?.as_str()).map(str::to_owned),
        "Fn::Join" => {
            let (separator, parts) = (argument.get(0)?.as_str()?, argument.get(1)?.as_array()?);
            let text = |part: &Value| match part {
                Value::String(text) => text.clone(),
                Value::Object(inner) => joined(inner).unwrap_or_else(|| placeholder(inner)),
                other => other.to_string(),
            };
            Some(parts.iter().map(text).collect::<Vec<_>>().join(separator))
        }
        _ => None,
    }
}

/// Returns `${NAME}` for a reference to another resource of the stack.
fn placeholder(reference: &Map<String, Value>) -> String {
    let name = reference.values().next().map(|value| match value {
        Value::String(name) => name.clone(),
        Value::Array(parts) => parts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("."),
        _ => "VALUE".to_owned(),
    });
    format!("${{{}}}", name.unwrap_or_default())
}

/// Returns whether a value is a function of CloudFormation, which only the stack knows.
fn is_function(value: &Value) -> bool {
    let key =
        value.as_object().filter(|members| members.len() == 1).and_then(|members| members.keys().next());
    key.is_some_and(|key| key == "Ref" || key.starts_with("Fn::"))
}

/// Returns the job that an object describes; names may begin with a lowercase letter, as in Kubernetes.
fn as_job(members: &Map<String, Value>) -> Option<FoundJob> {
    let is_named =
        |name: &str| members.iter().any(|(key, value)| key.eq_ignore_ascii_case(name) && value.is_object());
    if !JOB_MEMBERS.iter().any(|name| is_named(name)) {
        return None;
    }
    let shape = &shapes::operation("CreateTrainingJob")?.input;
    let mut computed = Vec::new();
    let mut value = with_api_names(&Value::Object(members.clone()), Some(shape), &mut computed);
    let members = value.as_object_mut()?;
    let mut is_tuned = false;
    for (name, standard) in OF_TUNING {
        let key = members.keys().find(|key| key.eq_ignore_ascii_case(name)).cloned();
        if let Some(value) = key.and_then(|key| members.remove(&key)) {
            members.insert((*standard).to_owned(), value);
            is_tuned = true;
        }
    }
    Some(FoundJob { members: std::mem::take(members), computed, is_tuned })
}

/// Members of the definition of a tuning job with names of their own: the parameters that are not tuned, and
/// the instances.
const OF_TUNING: &[(&str, &str)] =
    &[("StaticHyperParameters", "HyperParameters"), ("HyperParameterTuningResourceConfig", "ResourceConfig")];

/// Returns a value with the member names of the API, without what is only known at run time, which is added
/// to `computed`.
fn with_api_names(value: &Value, shape: Option<&Shape>, computed: &mut Vec<String>) -> Value {
    match value {
        Value::Object(members) => {
            let rename = |(key, inner): (&String, &Value)| {
                if let Some(expression) = expression(key, inner) {
                    computed.push(expression);
                    // An address without a value is an error of the manifest, at its place.
                    return (key == "S3Uri").then(|| (key.clone(), Value::String(String::new())));
                }
                let known = shape
                    .and_then(|shape| shape.members.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)));
                let (name, shape) = known.map_or((key, None), |(name, shape)| (name, Some(shape)));
                Some((name.clone(), with_api_names(inner, shape, computed)))
            };
            Value::Object(members.iter().filter_map(rename).collect())
        }
        Value::Array(items) => {
            let item = shape.and_then(|shape| shape.item.as_deref());
            let read = |inner: &Value| {
                if let Some(expression) = expression("", inner) {
                    computed.push(expression);
                    return None;
                }
                Some(with_api_names(inner, item, computed))
            };
            Value::Array(items.iter().filter_map(read).collect())
        }
        other => other.clone(),
    }
}

/// Describes a member that only a stack, a state machine or a pipeline knows: a function of CloudFormation, a
/// name that ends in `.$` (JSONPath in Step Functions), a text in `{% %}` (JSONata in Step Functions), or a
/// reference of a pipeline.
fn expression(key: &str, value: &Value) -> Option<String> {
    let text = || value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let is_jsonata = || {
        let trimmed = value.as_str().map(str::trim);
        trimmed.is_some_and(|text| text.starts_with("{%") && text.ends_with("%}"))
    };
    let name = |key: &str| if key.is_empty() { "an item".to_owned() } else { format!("`{key}`") };
    if is_function(value) {
        return Some(format!("{}: `{value}`, which is only known when the stack is deployed", name(key)));
    }
    if let Some(expression) = pipeline_expression(value) {
        return Some(format!("{}: `{expression}`, which is only known when the pipeline runs", name(key)));
    }
    let bare = key.strip_suffix(".$").or_else(|| is_jsonata().then_some(key))?;
    Some(format!("{}: `{}`, which is only known when the state machine runs", name(bare), text()))
}

/// Returns the text of a reference to a step or an execution of a pipeline, or of a function of pipelines.
fn pipeline_expression(value: &Value) -> Option<String> {
    let (name, argument) = value.as_object().filter(|members| members.len() == 1)?.iter().next()?;
    match name.as_str() {
        "Get" => argument.as_str().map(str::to_owned),
        name if name.starts_with("Std:") => Some(value.to_string()),
        _ => None,
    }
}
