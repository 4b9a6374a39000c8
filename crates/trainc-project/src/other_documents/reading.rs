//! Reading of documents: UTF-8 or UTF-16; JSON, several JSON documents, JSON with comment lines, YAML with
//! the short functions of CloudFormation.

use super::describe_bytes;
use serde_json::{Map, Value};
use trainc_document::{Error, Limits, Node, read_json_stream, read_yaml_stream};

/// Decodes the text of a file. The error says what the file is, if that is known, and what to do instead.
pub fn decode(bytes: &[u8]) -> Result<String, Option<(&'static str, &'static str)>> {
    let units = |rest: &[u8], unit: fn([u8; 2]) -> u16| -> Vec<u16> {
        rest.chunks_exact(2).filter_map(|pair| Some(unit(pair.try_into().ok()?))).collect()
    };
    // PowerShell writes UTF-16.
    let wide = match bytes {
        [0xff, 0xfe, rest @ ..] => Some(units(rest, u16::from_le_bytes)),
        [0xfe, 0xff, rest @ ..] => Some(units(rest, u16::from_be_bytes)),
        _ => None,
    };
    let text = match wide {
        Some(units) => String::from_utf16(&units).ok(),
        None => String::from_utf8(bytes.to_vec()).ok(),
    };
    text.ok_or_else(|| describe_bytes(bytes))
}

/// Reads one document or several: JSON, otherwise YAML. The error is that of the format that the text seems
/// to have.
pub fn read(text: &str) -> Result<Read, Error> {
    let limits = Limits::default();
    let json = read_json_stream(text, &limits).and_then(|documents| match documents.len() {
        1 => Ok(documents),
        _ => all_maps(documents),
    });
    let documents = match json {
        Ok(documents) => documents,
        Err(error) if error.is_limit => return Err(error),
        Err(error) => {
            let yaml = read_yaml_stream(text, &limits).and_then(all_maps);
            yaml.map_err(|other| if is_bracketed(text) && !other.is_limit { error } else { other })?
        }
    };
    let mut values: Vec<Value> = documents.iter().map(|document| document.to_json(&short_function)).collect();
    let value = match values.len() {
        1 => values.remove(0),
        _ => Value::Array(values),
    };
    Ok(Read { value, repeated: describe_repeated(&documents, text) })
}

/// What a text contains.
#[derive(Debug)]
pub struct Read {
    /// Its document, or a list of several.
    pub value: Value,
    /// Keys that are written twice, of which the last counts.
    pub repeated: Vec<String>,
}

/// Returns whether a text is written as JSON.
pub fn is_bracketed(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim_start().starts_with(['{', '['])
}

/// Returns the documents that are not empty, which must be maps: any text is valid YAML.
fn all_maps(documents: Vec<Node>) -> Result<Vec<Node>, Error> {
    let mut documents: Vec<Node> = documents;
    documents.retain(|document| document.value != trainc_document::Value::Null || document.tag.is_some());
    let other =
        documents.iter().find(|document| !matches!(document.value, trainc_document::Value::Mapping(_)));
    let error =
        |span| Error { span, message: "expected a map of names and values".to_owned(), is_limit: false };
    match other {
        Some(other) => Err(error(other.span.start..other.span.start)),
        None if documents.is_empty() => Err(error(0..0)),
        None => Ok(documents),
    }
}

/// Converts a short function of CloudFormation: `!Sub x` is `{"Fn::Sub": x}`. Other tags have no meaning
/// here.
fn short_function(tag: &str, value: Value) -> Value {
    match tag.strip_prefix('!') {
        Some("Ref") => Value::Object(Map::from_iter([("Ref".to_owned(), value)])),
        Some(name) if !name.is_empty() => Value::Object(Map::from_iter([(format!("Fn::{name}"), value)])),
        _ => value,
    }
}

/// Names the keys that are written twice in one map, with their lines.
fn describe_repeated(documents: &[Node], text: &str) -> Vec<String> {
    const MOST_NAMED: usize = 5;
    let line = |at: usize| text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    let (mut out, mut more) = (Vec::new(), 0);
    for document in documents {
        document.visit_replaced(&mut |entry| {
            if out.len() == MOST_NAMED {
                more += 1;
                return;
            }
            let places = entry.replaced.iter().chain([&entry.key.span]);
            let lines: Vec<String> =
                places.take(MOST_NAMED).map(|place| line(place.start).to_string()).collect();
            let (key, lines) = (entry.key.key_text(), trainc_diag::text::list(&lines, "and"));
            out.push(format!("`{key}` is written more than once, in the lines {lines}: the last one counts"));
        });
    }
    if more > 0 {
        out.push(format!("{more} more keys are written more than once: the last one counts"));
    }
    out
}
