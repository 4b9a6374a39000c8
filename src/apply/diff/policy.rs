//! Policy documents, compared as what they mean: IAM may reorder keys and turn a list of one into its element.

use serde_json::Value;

/// Whether two JSON texts are the same policy.
pub(in crate::apply) fn same_policy(a: &str, b: &str) -> bool {
    match (serde_json::from_str::<Value>(a), serde_json::from_str::<Value>(b)) {
        (Ok(a), Ok(b)) => normal(a) == normal(b),
        _ => a == b,
    }
}

/// A policy as what it means: the same text for all documents that mean the same.
pub(in crate::apply) fn meaning(text: &str) -> String {
    serde_json::from_str(text).map_or_else(|_| text.to_owned(), |value| normal(value).to_string())
}

/// Lists are sets in a policy: sorted, each element once, and one element stands for its list.
fn normal(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<(String, Value)> =
                items.into_iter().map(normal).map(|item| (item.to_string(), item)).collect();
            items.sort_by(|a, b| a.0.cmp(&b.0));
            items.dedup_by(|a, b| a.0 == b.0);
            match items.len() {
                1 => items.pop().map_or(Value::Null, |(_, item)| item),
                _ => Value::Array(items.into_iter().map(|(_, item)| item).collect()),
            }
        }
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(key, item)| (key, normal(item))).collect())
        }
        // `"true"` and `true` are one condition value.
        Value::Bool(on) => Value::from(on.to_string()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::same_policy;

    #[test]
    fn a_policy_is_what_it_means() {
        assert!(same_policy(
            r#"{"Statement": [{"Action": ["b", "a"], "Resource": "*"}], "Version": "2012-10-17"}"#,
            r#"{"Version":"2012-10-17","Statement":{"Resource":["*"],"Action":["a","b"]}}"#
        ));
        assert!(!same_policy(r#"{"Action": "a"}"#, r#"{"Action": ["a", "b"]}"#));
        assert!(!same_policy("no json", "{}"));
    }
}
