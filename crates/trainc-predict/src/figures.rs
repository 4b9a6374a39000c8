//! Figures of a file of constants: read by path, written with significant digits.

use std::collections::BTreeMap;

pub(super) fn flatten_toml(under: &str, table: &toml::Table, out: &mut BTreeMap<String, f64>) {
    for (key, value) in table {
        let path = if under.is_empty() { key.clone() } else { format!("{under}.{key}") };
        match value {
            toml::Value::Table(inner) => flatten_toml(&path, inner, out),
            toml::Value::Float(value) => {
                out.insert(path, *value);
            }
            toml::Value::Integer(value) => {
                out.insert(path, *value as f64);
            }
            _ => {}
        }
    }
}

pub(super) fn gpu_runs_in_table(table: &toml::Table, word: &str) -> f64 {
    let rows = table.get("gpu").and_then(|gpus| gpus.get(word)).and_then(|gpu| gpu.get("rows"));
    rows.and_then(toml::Value::as_integer).map_or(0.0, |rows| rows as f64)
}

/// Formats a value with three significant digits, as a TOML number.
pub(super) fn format_three_digits(value: f64) -> String {
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    if rounded.fract() == 0.0 && rounded < 1e6 {
        format!("{rounded:.0}")
    } else if (1e-3..1e6).contains(&rounded) {
        format!("{rounded:?}")
    } else {
        format!("{rounded:e}")
    }
}

/// Formats a value with four significant digits, as a TOML float.
pub(super) fn format_four_digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0.0".to_owned();
    }
    let rounded: f64 = format!("{value:.3e}").parse().unwrap_or(value);
    if (1e-3..1e6).contains(&rounded.abs()) { format!("{rounded:?}") } else { format!("{rounded:e}") }
}
