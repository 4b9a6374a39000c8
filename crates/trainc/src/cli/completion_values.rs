//! Arguments of which shells complete what is known, whatever else they take.

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::Error;
use clap::{Arg, Command};
use std::ffi::OsStr;

/// Reads a value as another parser does, and names what may stand there. The names are made where a shell asks for them
/// or a page of help is written: no other command pays for them.
#[derive(Clone)]
pub(super) struct CompletionValues<P> {
    read: P,
    names: fn() -> Vec<&'static str>,
}

/// Any text, with the names of what is known: what is near to it the command itself says.
pub(super) fn any_text(
    names: fn() -> Vec<&'static str>,
) -> CompletionValues<impl TypedValueParser<Value = String>> {
    CompletionValues { read: clap::builder::StringValueParser::new(), names }
}

/// What a function reads, with the names that it takes.
pub(super) fn with_values<P: TypedValueParser>(
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
