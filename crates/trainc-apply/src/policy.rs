//! Semantic comparison of policy documents: IAM may reorder keys and replace a list of one by its element.

use serde_json::Value;
use std::collections::BTreeSet;

/// Returns true if two JSON texts are the same policy.
pub(crate) fn same_policy(a: &str, b: &str) -> bool {
    match (serde_json::from_str::<Value>(a), serde_json::from_str::<Value>(b)) {
        (Ok(a), Ok(b)) => normalize(a) == normalize(b),
        _ => a == b,
    }
}

/// Returns a canonical text, which is equal for equivalent policies.
pub(crate) fn canonical_text(text: &str) -> String {
    serde_json::from_str(text).map_or_else(|_| text.to_owned(), |value| normalize(value).to_string())
}

/// Lists in a policy are sets: sorts them, removes duplicates, and replaces a list of one by its element.
fn normalize(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<(String, Value)> =
                items.into_iter().map(normalize).map(|item| (item.to_string(), item)).collect();
            items.sort_by(|a, b| a.0.cmp(&b.0));
            items.dedup_by(|a, b| a.0 == b.0);
            match items.len() {
                1 => items.pop().map_or(Value::Null, |(_, item)| item),
                _ => Value::Array(items.into_iter().map(|(_, item)| item).collect()),
            }
        }
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(key, item)| (key, normalize(item))).collect())
        }
        // `"true"` and `true` are equal as condition values.
        Value::Bool(on) => Value::from(on.to_string()),
        other => other,
    }
}

/// Returns a policy that allows what either policy allows: the desired one with the additions of the other.
/// If two statements of one name differ in one part only, that part contains both; otherwise the other's
/// statement is added as `<Sid>Kept`.
pub(crate) fn union(wanted: &str, other: &str) -> String {
    let (Ok(mut document), Ok(other)) =
        (serde_json::from_str::<Value>(wanted), serde_json::from_str::<Value>(other))
    else {
        return wanted.to_owned();
    };
    let mut statements = as_list(document.get("Statement"));
    for one in as_list(other.get("Statement")) {
        if statements.iter().any(|known| normalize(known.clone()) == normalize(one.clone())) {
            continue;
        }
        let same = statements.iter().position(|known| known.get("Sid") == one.get("Sid"));
        let both = same.and_then(|at| Some((at, merge_statements(statements.get(at)?, &one)?)));
        if let Some((known, both)) = both.and_then(|(at, both)| Some((statements.get_mut(at)?, both))) {
            *known = both;
        } else {
            let one = with_unique_sid(one, &statements);
            statements.push(one);
        }
    }
    if let Value::Object(members) = &mut document {
        members.insert("Statement".to_owned(), Value::Array(statements));
    }
    document.to_string()
}

/// Returns a list; a single value is a list of one.
fn as_list(value: Option<&Value>) -> Vec<Value> {
    match value {
        None => Vec::new(),
        Some(Value::Array(items)) => items.clone(),
        Some(one) => vec![one.clone()],
    }
}

/// Merges two statements into one that allows neither more nor less; `None` if they differ in several parts.
fn merge_statements(a: &Value, b: &Value) -> Option<Value> {
    let (one, other) = (a.as_object()?, b.as_object()?);
    let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let differs = |name: &&String| {
        let part = |of: &serde_json::Map<String, Value>| of.get(*name).cloned().map(normalize);
        part(one) != part(other)
    };
    let parts: Vec<&String> = names.into_iter().filter(differs).collect();
    let [part] = parts.as_slice() else { return None };
    let (x, y) = (one.get(*part)?, other.get(*part)?);
    let joined = match part.as_str() {
        "Action" | "Resource" => merge_lists(x, y),
        // A condition with one operator and one key is satisfied by any of its values.
        "Condition" => {
            let ([(operator, keys)], [(same, others)]) = (&members(x)?[..], &members(y)?[..]) else {
                return None;
            };
            let ([(key, x)], [(same_key, y)]) = (&members(keys)?[..], &members(others)?[..]) else {
                return None;
            };
            let alike = operator == same && key == same_key && !operator.contains("Not");
            alike.then(|| serde_json::json!({*operator: {*key: merge_lists(x, y)}}))?
        }
        _ => return None,
    };
    let mut out = one.clone();
    out.insert((*part).clone(), joined);
    Some(Value::Object(out))
}

fn members(value: &Value) -> Option<Vec<(&String, &Value)>> {
    Some(value.as_object()?.iter().collect())
}

fn merge_lists(a: &Value, b: &Value) -> Value {
    let mut out = as_list(Some(a));
    out.extend(as_list(Some(b)).into_iter().filter(|item| !as_list(Some(a)).contains(item)));
    Value::Array(out)
}

/// Returns a statement with a Sid that no other statement has.
fn with_unique_sid(mut one: Value, beside: &[Value]) -> Value {
    let taken = |sid: &str| beside.iter().any(|known| known.get("Sid").and_then(Value::as_str) == Some(sid));
    let sid = one.get("Sid").and_then(Value::as_str).unwrap_or_default().to_owned();
    if let (true, Value::Object(members)) = (taken(&sid), &mut one) {
        // A statement that was kept before gets its original Sid as prefix.
        let first = sid.trim_end_matches(|c: char| c.is_ascii_digit()).strip_suffix("Kept");
        let sid = first.unwrap_or(&sid);
        let names = (1..).map(|n| if n == 1 { format!("{sid}Kept") } else { format!("{sid}Kept{n}") });
        let free = names.take(beside.len() + 1).find(|name| !taken(name));
        members.insert("Sid".to_owned(), Value::from(free.unwrap_or_default()));
    }
    one
}

#[cfg(test)]
mod tests {
    use super::{same_policy, union};
    use serde_json::json;

    #[test]
    fn a_union_allows_what_both_allow_and_no_more() {
        let list = |bucket: &str, prefix: &str| {
            json!({"Sid": "List", "Effect": "Allow", "Action": "s3:ListBucket", "Resource": [bucket],
                "Condition": {"StringLike": {"s3:prefix": [prefix]}}})
        };
        let read = |key: &str| json!({"Sid": "Read", "Effect": "Allow", "Action": ["s3:GetObject"], "Resource": key});
        let of = |statements: &[serde_json::Value]| {
            json!({"Version": "2012-10-17", "Statement": statements}).to_string()
        };
        let wanted = of(&[read("b/new/*"), list("b", "new/*")]);
        // One part differs, so it contains both values.
        let older = of(&[read("b/old/*"), list("b", "old/*")]);
        let both = union(&wanted, &older);
        let expected = json!({"Version": "2012-10-17", "Statement": [
            {"Sid": "Read", "Effect": "Allow", "Action": "s3:GetObject", "Resource": ["b/new/*", "b/old/*"]},
            {"Sid": "List", "Effect": "Allow", "Action": "s3:ListBucket", "Resource": "b",
                "Condition": {"StringLike": {"s3:prefix": ["new/*", "old/*"]}}},
        ]});
        assert!(same_policy(&both, &expected.to_string()), "{both}");
        assert!(same_policy(&union(&wanted, &both), &both), "what is there already adds nothing");
        assert!(same_policy(&union(&wanted, &wanted), &wanted));
        // Two parts differ: the prefixes of one bucket must not apply to the other.
        let elsewhere = union(&wanted, &of(&[list("c", "old/*")]));
        assert!(
            elsewhere.contains(r#""Sid":"ListKept""#) && elsewhere.contains(r#""Resource":["b"]"#),
            "{elsewhere}"
        );
        assert!(same_policy(&union(&wanted, &elsewhere), &elsewhere));
        let third = union(&of(&[list("d", "x/*")]), &elsewhere);
        assert!(third.contains("ListKept2"), "{third}");
        assert_eq!(union(&wanted, "no json"), wanted);
    }

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
