//! Canonical JSON: sorted keys, so that equal values have equal bytes.

use serde::Serialize;
use serde_json::Value;

/// Returns indented text with a final newline, for files.
pub fn pretty(value: &Value) -> String {
    // serde_json's map is sorted by key (feature preserve_order is off).
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

/// Returns the content of a file with a definition.
pub fn to_file_bytes(definition: &impl Serialize) -> Vec<u8> {
    // Serializing structs, lists and maps with string keys cannot fail.
    serde_json::to_value(definition).map(|value| pretty(&value).into_bytes()).unwrap_or_default()
}

/// Returns compact text, for digests.
pub fn compact(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
