//! The job's digest in the texts of a plan.
//!
//! `{{ job.digest }}` is a mark in a bound text, since the digest covers the text. The digest is computed
//! from a request with the marks; the request that is sent is made by the same functions, with the digest in
//! their place.

use serde_json::Value;
use std::collections::BTreeMap;
use trainc_ir::plan::DIGEST_MARK;
use trainc_ir::{Field, Pair, Scalar, Val};

/// What stands for the job's digest.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fill<'a> {
    /// Its mark.
    Mark,
    /// The digest.
    Digest(&'a str),
}

impl<'a> Fill<'a> {
    /// Returns the digest; empty for its mark.
    pub(super) fn digest(self) -> &'a str {
        match self {
            Self::Mark => "",
            Self::Digest(digest) => digest,
        }
    }

    pub(super) fn text(self, text: &str) -> String {
        match self {
            Self::Mark => text.to_owned(),
            Self::Digest(digest) => text.replace(DIGEST_MARK, digest),
        }
    }

    /// Returns the value of a text or an address.
    pub(super) fn field(self, field: &Field<impl AsRef<str>>) -> Option<String> {
        field.value().map(|value| self.text(value.as_ref()))
    }

    pub(super) fn words(self, words: &[Val<String>]) -> Vec<String> {
        words.iter().map(|word| self.text(&word.value)).collect()
    }

    pub(super) fn pairs(self, pairs: &[Pair]) -> BTreeMap<String, String> {
        pairs.iter().filter_map(|pair| Some((pair.key.clone(), self.field(&pair.value)?))).collect()
    }

    pub(super) fn scalar(self, scalar: &Scalar) -> Scalar {
        match scalar {
            Scalar::Text(text) => Scalar::Text(self.text(text)),
            other => other.clone(),
        }
    }

    /// Returns a value whose texts are filled.
    pub(super) fn json(self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::from(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.json(item)).collect(),
            Value::Object(members) => {
                members.into_iter().map(|(name, value)| (name, self.json(value))).collect()
            }
            other => other,
        }
    }
}
