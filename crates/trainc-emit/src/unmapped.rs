//! Members of a request that nothing has mapped yet: each reader takes those it maps, and what remains is
//! unmapped.

use serde_json::{Map, Value};

/// The members of a JSON object that are not mapped yet.
///
/// A typed reader takes a member only if it has that type; otherwise the member remains.
#[derive(Clone, Debug, Default)]
pub struct UnmappedMembers(pub Map<String, Value>);

impl UnmappedMembers {
    /// Returns all members of a request.
    pub fn new(request: &Value) -> Self {
        Self(request.as_object().cloned().unwrap_or_default())
    }

    /// Returns a member, or with `Object.Member` a member of an object.
    pub fn get(&self, path: &str) -> Option<&Value> {
        match path.split_once('.') {
            Some((outer, name)) => self.0.get(outer)?.get(name),
            None => self.0.get(path),
        }
    }

    /// Takes a member.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    /// Takes all members of these names.
    pub fn take_all<const N: usize>(&mut self, names: [&str; N]) -> Map<String, Value> {
        names.into_iter().filter_map(|name| self.0.remove_entry(name)).collect()
    }

    /// Takes an object.
    pub fn take_object(&mut self, name: &str) -> Option<Self> {
        let members = self.0.get(name)?.as_object()?.clone();
        self.0.remove(name);
        Some(Self(members))
    }

    /// Takes a list.
    pub fn take_list(&mut self, name: &str) -> Vec<Value> {
        let Some(items) = self.0.get(name).and_then(Value::as_array).cloned() else { return Vec::new() };
        self.0.remove(name);
        items
    }

    /// Takes a string.
    pub fn take_text(&mut self, name: &str) -> Option<String> {
        let text = self.0.get(name)?.as_str()?.to_owned();
        self.0.remove(name);
        Some(text)
    }

    /// Takes an unsigned integer.
    pub fn take_number(&mut self, name: &str) -> Option<u64> {
        let found = self.0.get(name)?.as_u64()?;
        self.0.remove(name);
        Some(found)
    }

    /// Takes a boolean.
    pub fn take_bool(&mut self, name: &str) -> Option<bool> {
        let found = self.0.get(name)?.as_bool()?;
        self.0.remove(name);
        Some(found)
    }

    /// Takes a string if it equals `value`; returns whether it did.
    pub fn take_if(&mut self, name: &str, value: &str) -> bool {
        let same = self.0.get(name).and_then(Value::as_str) == Some(value);
        if same {
            self.0.remove(name);
        }
        same
    }

    /// Takes an object whose values are all strings.
    pub fn take_string_map(&mut self, name: &str) -> Vec<(String, String)> {
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

    /// Puts back what remains of an object.
    pub fn put_back(&mut self, name: &str, members: Self) {
        if !members.0.is_empty() {
            self.0.insert(name.to_owned(), Value::Object(members.0));
        }
    }

    /// Takes a member of an object, and the object with its last member.
    pub fn take_in(&mut self, outer: &str, name: &str) -> Option<Value> {
        let members = self.0.get_mut(outer)?.as_object_mut()?;
        let found = members.remove(name);
        if members.is_empty() {
            self.0.remove(outer);
        }
        found
    }

    /// Takes an unsigned integer of an object.
    pub fn take_number_in(&mut self, outer: &str, name: &str) -> Option<u64> {
        self.take_in(outer, name)?.as_u64()
    }

    /// Returns whether an object still has a member.
    pub fn has_in(&self, outer: &str, name: &str) -> bool {
        self.0.get(outer).is_some_and(|value| value.get(name).is_some())
    }

    /// Returns the paths of what remains: `Member`, or `Member.Part` for the objects in `nested`.
    pub fn remaining_paths(&self, nested: &[&str]) -> Vec<String> {
        let mut out = Vec::new();
        for (name, value) in &self.0 {
            match value.as_object() {
                Some(members) if nested.contains(&name.as_str()) => {
                    out.extend(members.keys().map(|part| format!("{name}.{part}")));
                }
                _ => out.push(name.clone()),
            }
        }
        out
    }
}
