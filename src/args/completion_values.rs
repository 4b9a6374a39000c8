//! Value parsers with values for shell completion that do not restrict the argument.

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::Error;
use clap::{Arg, Command};
use std::ffi::OsStr;

/// A parser with values for completion and help, which are computed only when needed.
#[derive(Clone)]
pub(crate) struct CompletionValues<P> {
    read: P,
    names: fn() -> Vec<&'static str>,
}

/// Accepts any text; completes these names.
pub(crate) fn any_text(
    names: fn() -> Vec<&'static str>,
) -> CompletionValues<impl TypedValueParser<Value = String>> {
    CompletionValues { read: clap::builder::StringValueParser::new(), names }
}

/// Accepts what `read` accepts; completes these names.
pub(crate) fn with_values<P: TypedValueParser>(
    read: P,
    names: fn() -> Vec<&'static str>,
) -> CompletionValues<P> {
    CompletionValues { read, names }
}

impl<P: TypedValueParser> TypedValueParser for CompletionValues<P> {
    type Value = P::Value;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<P::Value, Error> {
        self.read.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.names)().into_iter().map(PossibleValue::new)))
    }
}
