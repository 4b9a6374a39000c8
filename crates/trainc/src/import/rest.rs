//! The request, eaten member by member: what is left over goes into `request { … }`.

use serde_json::{Map, Value};

/// What of a request no node says yet.
#[derive(Clone, Debug)]
pub(super) struct Rest(pub(super) Map<String, Value>);

impl Rest {
    /// A job that trainc made has its digest in its places: the placeholder goes back. Tells whether there was one.
    pub(super) fn digest_back(&mut self, short: &str) -> bool {
        fn walk(value: &mut Value, short: &str) {
            match value {
                Value::String(text) => {
                    let full = text.find(short).and_then(|at| text.get(at..at + 64)).map(str::to_owned);
                    if let Some(full) = full.filter(|full| full.bytes().all(|b| b.is_ascii_hexdigit())) {
                        *text = text.replace(&full, super::kdl::DIGEST);
                    }
                }
                Value::Array(items) => items.iter_mut().for_each(|item| walk(item, short)),
                Value::Object(members) => members.values_mut().for_each(|item| walk(item, short)),
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        let before = self.0.clone();
        if short.len() >= 8 {
            self.0.values_mut().for_each(|value| walk(value, short));
        }
        self.0 != before
    }

    /// Takes a member.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    /// Takes all members of these names.
    pub(super) fn split<const N: usize>(&mut self, names: [&str; N]) -> Map<String, Value> {
        names.into_iter().filter_map(|name| self.0.remove_entry(name)).collect()
    }

    /// Takes a member that is an object.
    pub(super) fn object(&mut self, name: &str) -> Option<Self> {
        let members = self.0.get(name)?.as_object()?.clone();
        self.0.remove(name);
        Some(Self(members))
    }

    /// Takes a member that is a list.
    pub(super) fn list(&mut self, name: &str) -> Vec<Value> {
        let Some(items) = self.0.get(name).and_then(Value::as_array).cloned() else { return Vec::new() };
        self.0.remove(name);
        items
    }

    /// Takes a text.
    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        let text = self.0.get(name)?.as_str()?.to_owned();
        self.0.remove(name);
        Some(text)
    }

    /// Takes a whole number.
    pub(super) fn number(&mut self, name: &str) -> Option<u64> {
        let found = self.0.get(name)?.as_u64()?;
        self.0.remove(name);
        Some(found)
    }

    /// Takes a switch.
    pub(super) fn switch(&mut self, name: &str) -> Option<bool> {
        let found = self.0.get(name)?.as_bool()?;
        self.0.remove(name);
        Some(found)
    }

    /// Takes a text if it is this one.
    pub(super) fn take_if(&mut self, name: &str, value: &str) -> bool {
        let same = self.0.get(name).and_then(Value::as_str) == Some(value);
        if same {
            self.0.remove(name);
        }
        same
    }

    /// Takes a map of texts.
    pub(super) fn map(&mut self, name: &str) -> Vec<(String, String)> {
        match self.0.get(name) {
            Some(Value::Object(members)) if members.values().all(Value::is_string) => {
                let out = members
                    .iter()
                    .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                    .collect();
                self.0.remove(name);
                out
            }
            _ => Vec::new(),
        }
    }

    /// Puts back what is left of a member.
    pub(super) fn put_back(&mut self, name: &str, rest: Self) {
        if !rest.0.is_empty() {
            self.0.insert(name.to_owned(), Value::Object(rest.0));
        }
    }
}
