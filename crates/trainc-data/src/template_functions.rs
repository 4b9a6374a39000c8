//! Functions of Jinja in Python that minijinja lacks or computes in another way.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, tests};

/// Adds them to an environment.
pub(super) fn add(environment: &mut Environment<'static>) {
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_filter("indent", indent);
    environment.add_test("divisibleby", |value: Value, by: Value| -> Result<bool, Error> {
        match (i128::try_from(value.clone()), i128::try_from(by.clone())) {
            (Ok(value), Ok(by)) => value
                .checked_rem(by)
                .map(|remainder| remainder == 0)
                .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "a division by zero")),
            _ => Ok(tests::is_divisibleby(&value, &by)),
        }
    });
    // In Python `none` is neither, and text, maps and undefined values are both.
    for name in ["iterable", "sequence"] {
        environment.add_test(name, |value: Value| {
            let kind = value.kind();
            matches!(kind, ValueKind::Undefined | ValueKind::String | ValueKind::Map)
                || matches!(kind, ValueKind::Seq | ValueKind::Iterable)
        });
    }
}

/// `indent` as in Python, which keeps a line end at the end; minijinja drops it.
fn indent(
    text: String,
    width: Option<usize>,
    first: Option<bool>,
    blank: Option<bool>,
    options: Kwargs,
) -> Result<Value, Error> {
    let width = width.or(options.get("width")?).unwrap_or(4);
    let first = first.or(options.get("first")?).unwrap_or(false);
    let blank = blank.or(options.get("blank")?).unwrap_or(false);
    options.assert_all_used()?;
    let indentation = " ".repeat(width);
    let lines = text.split('\n').enumerate().map(|(at, line)| {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let is_indented = if at == 0 { first } else { blank || !line.is_empty() };
        format!("{}{line}", if is_indented { indentation.as_str() } else { "" })
    });
    Ok(Value::from(lines.collect::<Vec<String>>().join("\n")))
}
