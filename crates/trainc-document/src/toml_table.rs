//! TOML, read by the crate `toml`, whose parser bounds its recursion.

use crate::members::{Members, counted};
use crate::node::{Node, Value};
use crate::scalar::integer;
use crate::{BYTE_ORDER_MARK, Budget, Error, Limits};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reads a TOML document.
pub fn read_toml(text: &str, limits: &Limits) -> Result<Node, Error> {
    limits.check_size(text)?;
    let skipped = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 };
    let body = text.get(skipped..).unwrap_or_default();
    let read = DeTable::parse(body).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        Error::new(span.start + skipped..span.end + skipped, error.message().trim().replace('\n', ", "))
    })?;
    let mut builder = Builder { budget: Budget::new(limits), skipped };
    builder.table(read.span(), read.get_ref(), 1)
}

struct Builder {
    budget: Budget,
    /// Bytes of the byte order mark.
    skipped: usize,
}

impl Builder {
    fn place(&self, span: Range<usize>) -> Range<usize> {
        span.start + self.skipped..span.end + self.skipped
    }

    fn table(&mut self, span: Range<usize>, table: &DeTable<'_>, depth: usize) -> Result<Node, Error> {
        let span = self.place(span);
        if depth > self.budget.limits.depth {
            return Err(self.budget.limits.too_deep(span));
        }
        let mut written: Vec<_> = table.iter().collect();
        written.sort_by_key(|(key, _)| key.span().start);
        let mut members = Members::default();
        for (key, value) in written {
            let place = self.place(key.span());
            let text = Value::Text(key.get_ref().as_ref().into());
            let key = counted(place, text, &mut self.budget)?;
            members.insert(key, self.value(value, depth)?, true)?;
        }
        counted(span, members.into_value(), &mut self.budget)
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>, depth: usize) -> Result<Node, Error> {
        let span = self.place(value.span());
        let scalar = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.as_ref().into()),
            DeValue::Integer(number) => {
                let value = integer(number.as_str(), number.radix());
                value.ok_or_else(|| Error::new(span.clone(), "an integer that cannot be read"))?
            }
            DeValue::Float(number) => {
                let value = number.as_str().parse();
                Value::Float(value.map_err(|_| Error::new(span.clone(), "a number that cannot be read"))?)
            }
            DeValue::Boolean(value) => Value::Bool(*value),
            DeValue::Datetime(value) => Value::Timestamp(value.to_string().into()),
            DeValue::Array(items) => {
                if depth >= self.budget.limits.depth {
                    return Err(self.budget.limits.too_deep(span));
                }
                let read =
                    items.iter().map(|item| self.value(item, depth + 1)).collect::<Result<Vec<_>, _>>()?;
                Value::Sequence(read)
            }
            DeValue::Table(table) => return self.table(value.span(), table, depth + 1),
        };
        counted(span, scalar, &mut self.budget)
    }
}
