//! The members of a map while it is read: keys are unique as those of a `dict` in Python.

use crate::node::{Entry, Node, Value};
use crate::{Budget, Error};
use std::collections::BTreeMap;
use std::ops::Range;

/// What makes two keys equal: in Python `1`, `1.0` and `True` are one key.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Identity {
    Null,
    Integer(i128),
    /// The bits of a float that is no integer.
    Float(u64),
    Text(Box<str>),
    Big(Box<str>),
    Timestamp(Box<str>),
}

/// The members of a map.
#[derive(Default)]
pub(crate) struct Members {
    entries: Vec<Entry>,
    /// Of each entry, whether its key is written in this map and not in one that is merged into it.
    are_own: Vec<bool>,
    places: BTreeMap<Identity, usize>,
}

impl Members {
    /// Adds a member, whose value replaces that of an equal key. `is_own` is false for a member that is
    /// merged from another map.
    pub(crate) fn insert(&mut self, key: Node, value: Node, is_own: bool) -> Result<(), Error> {
        let Some(identity) = identity(&key) else {
            return Err(Error::new(key.span, "a list or a map cannot be a key"));
        };
        if let Some(&place) = self.places.get(&identity) {
            if let (Some(entry), Some(was_own)) = (self.entries.get_mut(place), self.are_own.get_mut(place)) {
                let before = std::mem::replace(&mut entry.key.span, key.span);
                if is_own && std::mem::replace(was_own, is_own) {
                    entry.replaced.push(before);
                }
                entry.value = value;
            }
            return Ok(());
        }
        self.places.insert(identity, self.entries.len());
        self.entries.push(Entry { key, value, replaced: Vec::new() });
        self.are_own.push(is_own);
        Ok(())
    }

    /// Returns the map.
    pub(crate) fn into_value(self) -> Value {
        Value::Mapping(self.entries)
    }
}

fn identity(key: &Node) -> Option<Identity> {
    Some(match &key.value {
        Value::Null => Identity::Null,
        Value::Bool(value) => Identity::Integer((*value).into()),
        Value::Integer(value) => Identity::Integer(*value),
        Value::Float(value) => {
            #[expect(clippy::cast_possible_truncation, reason = "compared with the value")]
            let whole = *value as i128;
            if whole as f64 == *value { Identity::Integer(whole) } else { Identity::Float(value.to_bits()) }
        }
        Value::Text(text) => Identity::Text(text.clone()),
        Value::BigInteger(text) => Identity::Big(text.clone()),
        Value::Timestamp(text) => Identity::Timestamp(text.clone()),
        Value::Sequence(_) | Value::Mapping(_) => return None,
    })
}

/// Makes a node, and counts it.
pub(crate) fn counted(span: Range<usize>, value: Value, budget: &mut Budget) -> Result<Node, Error> {
    let bytes = match &value {
        Value::Text(text) | Value::BigInteger(text) | Value::Timestamp(text) => text.len(),
        _ => 0,
    };
    budget.count(bytes, &span)?;
    Ok(Node::new(span, value))
}
