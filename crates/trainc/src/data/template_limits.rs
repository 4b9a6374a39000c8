//! Limits of a chat template: on its steps, on the bytes it makes, and on the depth of its values. Where a limit is
//! exceeded, rendering fails with the template's line.
//!
//! minijinja bounds steps only, so operators and filters that multiply text are replaced by ones that count it.

use super::python;
use minijinja::formatting::FormatStyle;
use minijinja::machinery::{CompiledTemplate, Instruction, Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, filters};
use std::cell::Cell;

/// Maximum steps of one conversation.
const MOST_STEPS: u64 = 500_000;
/// Maximum bytes that a template makes of one conversation, with those it discards.
const MOST_BYTES: u64 = 256 << 20;
/// Maximum words and signs of an expression.
const MOST_TOKENS: usize = 2_000;
/// Maximum depth of nested values.
const MOST_DEPTH: u64 = 100;
/// Maximum width of an indentation or a formatted value.
const MOST_WIDTH: usize = 9_999;

/// Bytes that a value counts for in addition to its text, by the time that it takes.
const VALUE: u64 = 64;

thread_local! {
    /// Bytes that may still be made.
    static LEFT: Cell<u64> = const { Cell::new(MOST_BYTES) };
}

/// Starts the count of a conversation.
pub(super) fn start() {
    LEFT.set(MOST_BYTES);
}

fn error(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.into())
}

/// Counts bytes that are about to be made.
fn charge(bytes: u64) -> Result<(), Error> {
    match LEFT.get().checked_sub(bytes) {
        Some(left) => {
            LEFT.set(left);
            Ok(())
        }
        None => Err(error(format!(
            "it makes more than {} of text of one conversation",
            trainc_diag::text::bytes(MOST_BYTES)
        ))),
    }
}

/// Counts the text of a value; returns the number of values in it, and their depth.
pub(super) fn measure(value: &Value) -> Result<(u64, u64), Error> {
    fn visit(value: &Value, depth: u64) -> Result<(u64, u64), Error> {
        if depth > MOST_DEPTH {
            return Err(error(format!("its values are nested more than {MOST_DEPTH} deep")));
        }
        charge(value.as_str().map_or(0, str::len) as u64 + VALUE)?;
        let (mut count, mut deepest) = (1, depth);
        if matches!(value.kind(), ValueKind::Map | ValueKind::Seq | ValueKind::Iterable) {
            let is_map = value.kind() == ValueKind::Map;
            for item in value.try_iter()? {
                let inner = if is_map { value.get_item(&item)? } else { item.clone() };
                if is_map {
                    charge(item.as_str().map_or(0, str::len) as u64 + VALUE)?;
                }
                let (more, depth) = visit(&inner, depth + 1)?;
                count += more;
                deepest = deepest.max(depth);
            }
        }
        Ok((count, deepest))
    }
    visit(value, 1)
}

/// `tojson`.
pub(super) fn to_json(value: &Value, indent: Option<usize>) -> Result<String, Error> {
    let (count, depth) = measure(value)?;
    let width = indent.unwrap_or(0) as u64;
    charge(width.saturating_mul(depth).saturating_mul(count))?;
    Ok(python::json(value, indent))
}

/// Changes the text of a template so that minijinja does not multiply constants while it reads them. Fails on an expression
/// that could exceed the stack.
pub(super) fn prepare(text: &str, syntax: &SyntaxConfig) -> Result<String, Error> {
    let mut out = String::with_capacity(text.len());
    let (mut copied, mut tokens, mut follows_operand) = (0, 0, false);
    for token in tokenize(text, false, syntax.clone()) {
        // The parser reports it.
        let Ok((token, span)) = token else { break };
        tokens += 1;
        match token {
            Token::BlockEnd | Token::VariableEnd | Token::TemplateData(_) => tokens = 0,
            // Not the star of `call(*arguments)`.
            Token::Mul if follows_operand => {
                let at = span.start_offset as usize;
                out.push_str(text.get(copied..at).unwrap_or_default());
                // No constant any more, and the same value.
                out.push_str("|same ");
                copied = at;
            }
            _ => {}
        }
        follows_operand = matches!(
            token,
            Token::Ident(_)
                | Token::Str(_)
                | Token::String(_)
                | Token::Int(_)
                | Token::Int128(_)
                | Token::Float(_)
                | Token::ParenClose
                | Token::BracketClose
                | Token::BraceClose
        );
        if tokens > MOST_TOKENS {
            let line = span.start_line;
            return Err(error(format!(
                "an expression of more than {MOST_TOKENS} words and signs in its line {line}"
            )));
        }
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Ok(out)
}

/// Compiles a template whose operators count what they make, and bounds its steps in the environment.
pub(super) fn compile(
    environment: &mut Environment<'static>,
    mut template: CompiledTemplate<'static>,
) -> CompiledTemplate<'static> {
    let mut longest = 1;
    let blocks = template.blocks.values_mut();
    for instructions in std::iter::once(&mut template.instructions).chain(blocks) {
        for at in 0.. {
            let Some(instruction) = instructions.get_mut(at) else { break };
            let counted = match instruction {
                Instruction::StringConcat => "concat",
                Instruction::Add => "add",
                Instruction::Mul => "mul",
                Instruction::EmitRaw(text) => {
                    longest = longest.max(text.len() as u64);
                    continue;
                }
                _ => continue,
            };
            *instruction = Instruction::ApplyFilter(counted, Some(2), u8::MAX);
        }
    }
    // Text outside of tags is written as it is.
    environment.set_fuel(Some(MOST_STEPS.min(MOST_BYTES / longest)));
    add_filters(environment);
    template
}

fn add_filters(environment: &mut Environment<'static>) {
    environment.add_filter("same", |value: Value| value);
    environment.add_filter("concat", |left: Value, right: Value| -> Result<Value, Error> {
        measure(&left)?;
        measure(&right)?;
        Ok(Value::from(format!("{left}{right}")))
    });
    environment.add_filter("add", |left: Value, right: Value| -> Result<Value, Error> {
        if let (Some(left), Some(right)) = (left.as_str(), right.as_str()) {
            charge((left.len() + right.len()) as u64)?;
            return Ok(Value::from(format!("{left}{right}")));
        }
        if is_list(&left) && is_list(&right) {
            return items(left.try_iter()?.chain(right.try_iter()?));
        }
        operate("left + right", left, right)
    });
    environment.add_filter("mul", |left: Value, right: Value| -> Result<Value, Error> {
        for (one, times) in [(&left, &right), (&right, &left)] {
            let Some(times) = times.as_usize() else { continue };
            if let Some(text) = one.as_str() {
                charge((text.len() as u64).saturating_mul(times as u64))?;
                return Ok(Value::from(text.repeat(times)));
            }
            if is_list(one) {
                let all: Vec<Value> = one.try_iter()?.collect();
                charge((all.len() as u64).saturating_mul(times as u64).saturating_mul(ITEM))?;
                return Ok(std::iter::repeat_n(all, times).flatten().collect());
            }
        }
        operate("left * right", left, right)
    });
    environment.add_filter("indent", indent);
    environment
        .add_filter("replace", |value: String, from: String, to: String| replace(&value, &from, &to, None));
    environment.add_filter(
        "join",
        |state: &mut State<'_, '_>,
         value: Value,
         joiner: Option<String>,
         attribute: Option<String>,
         options: Kwargs| {
            let (count, _) = measure(&value)?;
            let joiner = joiner.unwrap_or_default();
            charge(count.saturating_mul(joiner.len() as u64))?;
            let mut args = vec![value, Value::from(joiner)];
            args.extend(attribute.map(Value::from));
            args.push(Value::from(options));
            state.apply_filter("builtin_join", &args)
        },
    );
    environment.add_filter("builtin_join", filters::join);
    environment.add_filter("format", |format: String, args: Rest<Value>| {
        formatted(FormatStyle::Printf, &format, &args)
    });
    environment.add_filter("string", |value: Value| -> Result<Value, Error> {
        measure(&value)?;
        Ok(Value::from(value.to_string()))
    });
    environment.add_filter(
        "batch",
        |state: &State<'_, '_>, value: Value, count: usize, fill: Option<Value>| {
            charge((count as u64).saturating_mul(ITEM))?;
            filters::batch(state, value, count, fill)
        },
    );
    environment.add_filter(
        "slice",
        |state: &State<'_, '_>, value: Value, count: usize, fill: Option<Value>| {
            charge((count as u64).saturating_mul(ITEM))?;
            filters::slice(state, value, count, fill)
        },
    );
    environment.remove_filter("pprint");
    environment.set_unknown_method_callback(call_method);
}

/// Bytes of a value in a list.
const ITEM: u64 = size_of::<Value>() as u64;

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

fn items(values: impl Iterator<Item = Value>) -> Result<Value, Error> {
    let mut all = Vec::new();
    for value in values {
        charge(ITEM)?;
        all.push(value);
    }
    Ok(Value::from(all))
}

/// Computes with numbers as minijinja does.
fn operate(expression: &str, left: Value, right: Value) -> Result<Value, Error> {
    let environment = Environment::empty();
    let compiled = environment.compile_expression(expression)?;
    compiled
        .eval(minijinja::context! { left, right })
        .map_err(|found| Error::new(found.kind(), found.detail().unwrap_or_default().to_owned()))
}

fn replace(text: &str, from: &str, to: &str, most: Option<usize>) -> Result<Value, Error> {
    let count = text.matches(from).count().min(most.unwrap_or(usize::MAX)) as u64;
    charge((text.len() as u64).saturating_add(count.saturating_mul(to.len() as u64)))?;
    Ok(Value::from(text.replacen(from, to, most.unwrap_or(usize::MAX))))
}

/// `indent` of Jinja.
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
    if width > MOST_WIDTH {
        return Err(error(format!("an indentation of {width}; the maximum is {MOST_WIDTH}")));
    }
    let lines = text.matches('\n').count() as u64 + 1;
    charge(lines.saturating_mul(width as u64).saturating_add(text.len() as u64))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let mut out = String::new();
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            out.push('\n');
        }
        let is_indented = if at == 0 { first } else { blank || !line.trim_end_matches('\r').is_empty() };
        if is_indented {
            out.push_str(&" ".repeat(width));
        }
        out.push_str(line);
    }
    Ok(Value::from(out))
}

fn formatted(style: FormatStyle, format: &str, args: &[Value]) -> Result<Value, Error> {
    let widths = format.split(|c: char| !c.is_ascii_digit());
    if widths.map(str::len).max().is_some_and(|digits| digits > 4) || format.contains('*') {
        return Err(error(format!("a width over {MOST_WIDTH} in `format`")));
    }
    for value in args {
        measure(value)?;
    }
    let places = format.matches(['%', '{']).count() as u64;
    let longest = args.iter().filter_map(Value::as_str).map(str::len).max().unwrap_or(0).max(MOST_WIDTH);
    charge(places.saturating_mul(longest as u64).saturating_add(format.len() as u64))?;
    minijinja::formatting::format(style, format, args).map(Value::from)
}

/// Calls a method of Python's `str`, `list` or `dict`.
fn call_method(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        match (method, args) {
            ("format", _) => return formatted(FormatStyle::StrFormat, text, args),
            ("replace", [from, to, most @ ..]) => {
                if let (Some(from), Some(to)) = (from.as_str(), to.as_str()) {
                    return replace(text, from, to, most.first().and_then(Value::as_usize));
                }
            }
            ("join", [values]) => {
                let (count, _) = measure(values)?;
                charge(count.saturating_mul(text.len() as u64))?;
            }
            _ => charge(text.len() as u64)?,
        }
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)
}
