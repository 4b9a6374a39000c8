//! A generic listing for tables without a specific one.

use serde_json::{Map, Value, json};

use super::TABLES;
use super::listing::Listing;
use super::table::Table;
use trainc_ir::hardware::Provenance;

/// Returns the names of all tables, in the order of [`tables`](super::tables).
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|table| table.name)
}

/// Returns all rows of a table: key, facts as `name value`, source and date; `None` for an unknown table. As
/// JSON each row is an object of its facts, with `key` and `provenance`.
pub fn listing(name: &str) -> Option<Listing> {
    let table = TABLES.iter().find(|table| table.name == name)?;
    let (rows, json): (Vec<_>, Vec<_>) = table.keys().filter_map(|key| record(table, key)).unzip();
    Some(Listing {
        headers: vec!["key", "facts", "source", "date"],
        rows,
        json: Value::Array(json),
        brief: usize::MAX,
    })
}

fn record(table: &Table, key: &str) -> Option<(Vec<String>, Value)> {
    let row = table.row_text(key)?;
    let provenance: Provenance = toml::from_str(row).ok()?;
    let mut facts: Map<String, Value> = toml::from_str(row).ok()?;
    facts.retain(|name, _| !["source", "date"].contains(&name.as_str()));
    let words: Vec<String> =
        facts.iter().map(|(name, value)| format!("{name} {}", format_value(value))).collect();
    let cells = vec![key.to_owned(), words.join("; "), provenance.source.clone(), provenance.date.clone()];
    facts.insert("key".to_owned(), json!(key));
    facts.insert("provenance".to_owned(), json!({"source": provenance.source, "date": provenance.date}));
    Some((cells, Value::Object(facts)))
}

/// Formats a value without quotes and braces.
fn format_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(format_value).collect::<Vec<_>>().join(", "),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| format!("{name} = {}", format_value(value)))
            .collect::<Vec<_>>()
            .join(", "),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_every_table_is_shown_with_its_source() {
        for (name, rows) in crate::tables() {
            let listing = listing(name).unwrap();
            assert_eq!(listing.rows.len(), rows, "{name}");
            for row in listing.json.as_array().unwrap() {
                assert!(
                    row["provenance"]["source"].is_string() && row["provenance"]["date"].is_string(),
                    "{row}"
                );
            }
        }
        assert_eq!(listing("nothing"), None);
    }

    #[test]
    fn facts_are_written_for_people_and_for_tools() {
        let listing = listing("smp-parameters").unwrap();
        let row = listing.rows.iter().find(|row| row[0] == "v1/partitions").unwrap();
        assert_eq!(row[1], "aliases pipeline_parallel_degree; kind int; layout true; min 1; required true");
        let json = listing.json.as_array().unwrap().iter().find(|row| row["key"] == "v1/partitions").unwrap();
        assert_eq!((&json["min"], &json["aliases"][0]), (&json!(1), &json!("pipeline_parallel_degree")));
        let account = super::listing("registries").unwrap().rows;
        assert!(account[0][1].contains("us-west-2 = 520713654638"));
    }
}
