//! Canonical JSON: keys sorted, two spaces, a final line end. The same value is the same bytes.

use serde::Serialize;
use serde_json::Value;

/// Pretty canonical text, for files.
pub fn pretty(value: &Value) -> String {
    // serde_json's map is sorted by key (feature preserve_order is off).
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

/// The bytes of a file that holds a typed definition.
pub fn file(definition: &impl Serialize) -> Vec<u8> {
    // Definitions are structs, lists and maps with text keys: none of them can fail to serialize.
    serde_json::to_value(definition).map(|value| pretty(&value).into_bytes()).unwrap_or_default()
}

/// Compact canonical text, for digests.
pub fn compact(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
