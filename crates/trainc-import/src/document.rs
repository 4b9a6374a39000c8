//! Finds training jobs in a document: a request or response itself, or nested in a state machine, a
//! pipeline's step, an event, a search result, a tuning job or a Kubernetes resource; otherwise says what the
//! document is.

use super::terraform;
use serde_json::{Map, Value};
use trainc_catalog::other_documents::{self, Sign};
use trainc_catalog::shapes::{self, Shape};
use trainc_ir::job::SERVERLESS;

/// Maximum depth of a document that is searched.
const MOST_NESTED: usize = 32;

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

/// Members of which every training job has one.
const JOB_MEMBERS: [&str; 2] = ["AlgorithmSpecification", SERVERLESS];

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

/// Returns the description of the first kind of file that matches, and what to do.
fn find(matches: impl Fn(Sign, &str) -> bool) -> Option<(&'static str, &'static str)> {
    let found = other_documents::all().iter().find(|one| matches(one.how, &one.sign))?;
    Some((&found.is, &found.help))
}

/// Describes a file that is no text by its first bytes, and what to do instead.
pub(super) fn describe_bytes(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    let byte = |sign: &str, at: usize| {
        sign.get(2 * at..2 * at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok())
    };
    let starts = |sign: &str| (0..sign.len() / 2).all(|at| byte(sign, at) == bytes.get(at).copied());
    find(|how, sign| how == Sign::Bytes && starts(sign))
}

/// Describes a text that is neither JSON nor YAML by its lines and its name, and what to do instead.
pub(super) fn describe_text(name: &str, text: &str) -> Option<(&'static str, &'static str)> {
    let lines = || text.lines().map(str::trim_start);
    let starts = |line: &str, sign: &str| {
        line.get(..sign.len())
            .is_some_and(|start| start == sign || (sign.starts_with('<') && start.eq_ignore_ascii_case(sign)))
    };
    find(|how, sign| match how {
        Sign::Line => lines().any(|line| starts(line, sign)),
        Sign::Start => text.trim_start_matches('\u{feff}').trim_start().starts_with(sign),
        Sign::Text => text.contains(sign),
        Sign::Name => name.ends_with(sign),
        Sign::Bytes | Sign::Top | Sign::Member | Sign::Script => false,
    })
}

/// Describes a Python script that starts no training job itself, and what to do instead.
pub(super) fn describe_script(text: &str) -> Option<(&'static str, &'static str)> {
    find(|how, sign| how == Sign::Script && text.contains(sign))
}

/// Describes a document without a training job, and what to do instead.
pub(super) fn describe(document: &Value) -> Option<(&'static str, &'static str)> {
    let first = document.as_array().and_then(|items| items.first()).unwrap_or(document);
    find(|how, sign| {
        let depth = match how {
            Sign::Top => MOST_NESTED,
            Sign::Member => 0,
            _ => return false,
        };
        sign.split('+').all(|sign| {
            let (name, value) = sign.split_once('=').unwrap_or((sign, ""));
            has_member(if depth == 0 { document } else { first }, name, value, depth)
        })
    })
}

/// Says what a document is by its form.
pub(super) fn form(document: &Value) -> String {
    match document {
        Value::Object(members) if members.is_empty() => "an empty object".to_owned(),
        Value::Object(members) => {
            const SHOWN: usize = 3;
            let names: Vec<String> = members.keys().take(SHOWN).map(|name| format!("`{name}`")).collect();
            let more = if members.len() > SHOWN { " and other members" } else { "" };
            format!("an object with {}{more}", names.join(", "))
        }
        Value::Array(items) => {
            format!("an array of {}", trainc_diag::text::count(items.len() as u64, "value"))
        }
        Value::String(_) => "one text".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) => format!("`{document}`"),
    }
}

/// Returns whether an object has a member, with the beginning of its value; at `MOST_NESTED` inner objects do
/// not count.
fn has_member(value: &Value, name: &str, start: &str, depth: usize) -> bool {
    match value {
        _ if depth > MOST_NESTED => false,
        Value::Object(members) => {
            let is_it = |(key, value): (&String, &Value)| {
                let has_start =
                    start.is_empty() || value.as_str().is_some_and(|text| text.starts_with(start));
                has_start && key.eq_ignore_ascii_case(name)
            };
            members.iter().any(is_it)
                || members.values().any(|inner| has_member(inner, name, start, depth + 1))
        }
        Value::Array(items) => items.iter().any(|inner| has_member(inner, name, start, depth + 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
