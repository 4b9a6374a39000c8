//! Canonical JSON: keys sorted, two spaces, a final line end. The same value is the same bytes.

use serde_json::Value;

/// Pretty canonical text, for files.
pub fn pretty(value: &Value) -> String {
    // serde_json's map is sorted by key (feature preserve_order is off).
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

/// Compact canonical text, for digests.
pub fn compact(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
