//! Differences between two configs, or parts of them.

use std::collections::BTreeSet;

use serde_json::Value;

/// Returns the path of each member below `at` that differs, with both values; null for an absent one.
pub fn differences(at: &str, one: &Value, other: &Value) -> Vec<(String, Value, Value)> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            let below = |name: &String| {
                let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                let (one, other) = (one.get(name).cloned(), other.get(name).cloned());
                differences(&path, &one.unwrap_or_default(), &other.unwrap_or_default())
            };
            names.into_iter().flat_map(below).collect()
        }
        (one, other) if one != other => vec![(at.to_owned(), one.clone(), other.clone())],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_and_values() {
        let one = json!({"a": {"b": 1, "c": [1, 2]}, "d": null, "e": "x"});
        let other = json!({"a": {"b": 2, "c": [1, 2]}, "e": {"f": 1}});
        assert_eq!(
            differences("", &one, &other),
            [("a.b".to_owned(), json!(1), json!(2)), ("e".to_owned(), json!("x"), json!({"f": 1}))]
        );
        assert_eq!(differences("m", &json!(1), &json!(1)), []);
    }
}
