//! Limits of a chat template: on its steps, on the depth of its values, and on the values that its operations read and
//! make. Where a limit is exceeded, rendering fails with the template's line.
//!
//! minijinja bounds steps only, and one step may compare, copy or print any value. So every operator, filter, test,
//! function and method charges for its operands before it runs, by the time and memory that it may take.

use super::python;
use minijinja::machinery::{CompiledTemplate, Instruction, Instructions, Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, Tuple, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, filters, functions, tests};
use std::cell::Cell;
use std::sync::LazyLock;

/// Maximum steps of a rendering.
const MOST_STEPS: u64 = 500_000;
/// Maximum bytes of values that the operations of a rendering read and make, each by its weight.
pub(super) const MOST_BYTES: u64 = 256 << 20;
/// Maximum bytes of values for all renderings of one conversation; its answers are found by rendering it without them.
pub(super) const MOST_BYTES_OF_ANSWERS: u64 = 4 << 30;
/// Maximum `elif` of a template, which are compiled recursively.
const MOST_ELIFS: usize = 500;
/// Maximum words and signs of an expression.
const MOST_TOKENS: usize = 2_000;
/// Maximum depth of nested values.
const MOST_DEPTH: u64 = 100;
/// Maximum width of an indentation or a formatted value.
const MOST_WIDTH: usize = 9_999;

/// Bytes that a value counts for in addition to its text, by the time that it takes.
const VALUE: u64 = 64;
/// Bytes of a value in a list.
const ITEM: u64 = size_of::<Value>() as u64;
/// Weight of a byte of text that is written as part of a list or a map, with quotes and escapes.
const QUOTED: u64 = 8;

thread_local! {
    /// Bytes that may still be charged.
    static LEFT: Cell<u64> = const { Cell::new(MOST_BYTES) };
    /// Steps of a rendering, known when it ends.
    static STEPS: Cell<u64> = const { Cell::new(MOST_STEPS) };
}

/// Starts the count of a rendering.
pub(super) fn start(bytes: u64) {
    LEFT.set(bytes);
    STEPS.set(MOST_STEPS);
}

/// Returns the bytes of values that the last rendering read and made of those that it was allowed, with its steps.
pub(super) fn spent(allowed: u64) -> u64 {
    allowed - LEFT.get().min(allowed) + VALUE * STEPS.get()
}

fn error(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.into())
}

fn charge(bytes: u64) -> Result<(), Error> {
    match LEFT.get().checked_sub(bytes) {
        Some(left) => {
            LEFT.set(left);
            Ok(())
        }
        None => Err(error(format!(
            "it reads and makes more than {} of values",
            trainc_diag::text::bytes(MOST_BYTES)
        ))),
    }
}

/// Charges for a value and all that is in it, a byte of text by `weight`; returns the charge and the depth.
fn charge_tree(value: &Value, weight: u64) -> Result<(u64, u64), Error> {
    fn visit(value: &Value, weight: u64, depth: u64) -> Result<u64, Error> {
        if depth > MOST_DEPTH {
            return Err(error(format!("its values are nested more than {MOST_DEPTH} deep")));
        }
        charge(VALUE + weight * text_len(value))?;
        let mut deepest = depth;
        if is_list(value) || value.kind() == ValueKind::Map {
            for item in value.try_iter()? {
                if value.kind() == ValueKind::Map {
                    deepest = deepest.max(visit(&value.get_item(&item)?, weight, depth + 1)?);
                }
                deepest = deepest.max(visit(&item, weight, depth + 1)?);
            }
        }
        Ok(deepest)
    }
    let before = LEFT.get();
    let depth = visit(value, weight, 1)?;
    Ok((before - LEFT.get(), depth))
}

fn text_len(value: &Value) -> u64 {
    value.as_str().map_or(0, str::len) as u64
}

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

/// The number of a value's items, or of its characters.
fn count(value: &Value) -> u64 {
    value.len().or_else(|| value.try_iter().ok().map(Iterator::count)).unwrap_or(0) as u64
}

/// Charges for the arguments of an operation, of which the first is what it is applied to.
type Price = fn(&[Value]) -> Result<(), Error>;

/// An operation that looks at a value, not into it.
fn free(_: &[Value]) -> Result<(), Error> {
    charge(VALUE)
}

/// An operation that reads its arguments once.
fn tree(args: &[Value]) -> Result<(), Error> {
    args.iter().try_for_each(|arg| charge_tree(arg, 1).map(drop))
}

/// An operation on text, by what it takes for a byte.
pub(super) fn text<const WEIGHT: u64>(args: &[Value]) -> Result<(), Error> {
    let Some((first, rest)) = args.split_first() else { return Ok(()) };
    charge_tree(first, if first.as_str().is_some() { WEIGHT } else { QUOTED })?;
    tree(rest)
}

/// An operation that counts items.
fn length(args: &[Value]) -> Result<(), Error> {
    charge(VALUE + args.first().map_or(0, |first| text_len(first).max(count(first))))
}

/// An operation that hashes or compares its second argument: a key of the first.
fn key(args: &[Value]) -> Result<(), Error> {
    match args.first() {
        Some(first) if first.as_str().is_some() => text::<1>(args),
        Some(first) if first.kind() == ValueKind::Iterable => each(args),
        _ => tree(args.get(1..2).unwrap_or_default()),
    }
}

/// A map from keys and values in turn: its keys are hashed.
fn keys(args: &[Value]) -> Result<(), Error> {
    args.iter().step_by(2).try_for_each(|key| charge_tree(key, 1).map(drop))
}

/// A value that a namespace or a loop keeps. What refers to a namespace or a loop is rejected: kept in that one, it would
/// never be freed.
fn stored(args: &[Value]) -> Result<(), Error> {
    fn visit(value: &Value, depth: u64) -> Result<(), Error> {
        charge(VALUE)?;
        if depth > MOST_DEPTH {
            return Err(error(format!("its values are nested more than {MOST_DEPTH} deep")));
        }
        let Some(object) = value.as_object() else { return Ok(()) };
        let is_data = is_list(value) || value.kind() == ValueKind::Map;
        let refers =
            ["::Namespace", "::Loop", "::Macro"].iter().any(|name| object.type_name().ends_with(name));
        if !is_data || refers {
            return Err(error("a namespace or `loop.changed` takes text, numbers, lists and maps only"));
        }
        for item in value.try_iter()? {
            if value.kind() == ValueKind::Map {
                visit(&value.get_item(&item)?, depth + 1)?;
            }
            visit(&item, depth + 1)?;
        }
        Ok(())
    }
    args.first().map_or(Ok(()), |value| visit(value, 1))
}

/// An operation that takes every item of its first argument, or every character, once with the others.
fn each(args: &[Value]) -> Result<(), Error> {
    let Some((first, rest)) = args.split_first() else { return Ok(()) };
    let count = count(first);
    charge(VALUE.saturating_mul(count + 1))?;
    for arg in rest {
        let (size, _) = charge_tree(arg, 1)?;
        charge(size.saturating_mul(count))?;
    }
    Ok(())
}

/// An operation that compares the items of its first argument with each other.
fn sorted(args: &[Value]) -> Result<(), Error> {
    each(args)?;
    let Some(first) = args.first() else { return Ok(()) };
    let (size, _) = charge_tree(first, 2)?;
    charge((size + VALUE * count(first)).saturating_mul(u64::from(count(first).max(1).ilog2())))
}

fn sum(args: &[Value]) -> Result<(), Error> {
    each(args)?;
    let Some((first, rest)) = args.split_first() else { return Ok(()) };
    // With a start that is no number it adds text or lists, which copies what there is so far.
    let starts = |arg: &Value| arg.get_attr("start").is_ok_and(|start| !start.is_undefined());
    if rest.len() > 1 || rest.iter().any(starts) {
        let (size, _) = charge_tree(first, 1)?;
        charge(size.saturating_mul(count(first)))?;
    }
    Ok(())
}

fn compared(args: &[Value]) -> Result<(), Error> {
    match args {
        [left, right] if left.as_object().is_some() && right.as_object().is_some() => tree(args),
        [left, right] => charge(VALUE + text_len(left).min(text_len(right))),
        _ => tree(args),
    }
}

/// `in`: the first argument is looked for in the second.
fn contained(args: &[Value]) -> Result<(), Error> {
    match args {
        [item, map] if map.kind() == ValueKind::Map => tree(std::slice::from_ref(item)),
        [item, list] => {
            text::<1>(std::slice::from_ref(item))?;
            charge_tree(list, 1).map(drop)
        }
        _ => tree(args),
    }
}

fn added(args: &[Value]) -> Result<(), Error> {
    match args {
        [left, right] if left.as_str().is_some() => charge(VALUE + 2 * (text_len(left) + text_len(right))),
        [left, right] if left.is_tuple() => charge(ITEM.saturating_mul(count(left) + count(right) + 1)),
        _ => charge(VALUE),
    }
}

fn concatenated(args: &[Value]) -> Result<(), Error> {
    args.iter().try_for_each(|arg| text::<2>(std::slice::from_ref(arg)))
}

fn repeated(args: &[Value]) -> Result<(), Error> {
    let [left, right] = args else { return tree(args) };
    for (one, times) in [(left, right), (right, left)] {
        let size = if is_list(one) { ITEM * count(one) } else { 2 * text_len(one) };
        charge(VALUE + size.saturating_mul(times.as_usize().unwrap_or(0) as u64))?;
    }
    Ok(())
}

fn joined(args: &[Value]) -> Result<(), Error> {
    each(args)?;
    let Some(first) = args.first().filter(|first| first.as_object().is_some()) else { return Ok(()) };
    first.try_iter()?.try_for_each(|item| text::<2>(&[item]))
}

fn join_method(args: &[Value]) -> Result<(), Error> {
    let mut args = args.to_vec();
    args.reverse();
    joined(&args)
}

/// Charges for every place where the second argument is found in the first, for `most` places at most.
fn found(args: &[Value], weight: u64, most: usize) -> Result<(), Error> {
    text::<2>(args)?;
    if let [first, rest @ ..] = args
        && let Some(text) = first.as_str()
    {
        match rest.first().and_then(Value::as_str) {
            Some(part) => text.matches(part).take(most).try_for_each(|_| charge(weight))?,
            None => text.split_whitespace().try_for_each(|_| charge(weight))?,
        }
    }
    Ok(())
}

fn split(args: &[Value]) -> Result<(), Error> {
    found(args, VALUE, usize::MAX)
}

fn lines(args: &[Value]) -> Result<(), Error> {
    let Some(first) = args.first() else { return Ok(()) };
    found(&[first.clone(), Value::from("\n")], VALUE, usize::MAX)
}

fn replaced(args: &[Value]) -> Result<(), Error> {
    let most = args.get(3).and_then(Value::as_usize).unwrap_or(usize::MAX);
    found(args, VALUE / 4 + args.get(2).map_or(0, text_len), most)
}

fn trimmed(args: &[Value]) -> Result<(), Error> {
    text::<2>(args)?;
    if let [text, chars, ..] = args
        && let (Some(text), Some(chars)) = (text.as_str(), chars.as_str())
    {
        let is_trimmed = |c: &char| chars.contains(*c);
        let mut ends = text.chars().take_while(is_trimmed).chain(text.chars().rev().take_while(is_trimmed));
        ends.try_for_each(|_| charge(VALUE / 4 + 4 * chars.len() as u64))?;
    }
    Ok(())
}

fn grouped(args: &[Value]) -> Result<(), Error> {
    each(args.get(..1).unwrap_or_default())?;
    charge(ITEM.saturating_mul(args.get(1).and_then(Value::as_usize).unwrap_or(0) as u64))
}

fn indented(args: &[Value]) -> Result<(), Error> {
    text::<4>(args)?;
    let Some((first, rest)) = args.split_first() else { return Ok(()) };
    let widths = rest
        .iter()
        .flat_map(|arg| [arg.as_usize(), arg.get_attr("width").ok().and_then(|width| width.as_usize())]);
    let width = widths.flatten().max().unwrap_or(0);
    if width > MOST_WIDTH {
        return Err(error(format!("an indentation of {width}; the maximum is {MOST_WIDTH}")));
    }
    let lines = first.as_str().map_or(0, |text| text.matches('\n').count()) as u64 + 1;
    charge(lines.saturating_mul(width as u64))
}

fn formatted(args: &[Value]) -> Result<(), Error> {
    let Some((first, rest)) = args.split_first() else { return Ok(()) };
    concatenated(args)?;
    let format = first.as_str().unwrap_or_default();
    let widths = format.split(|c: char| !c.is_ascii_digit());
    if widths.map(str::len).max().is_some_and(|digits| digits > 4) || format.contains('*') {
        return Err(error(format!("a width over {MOST_WIDTH} in `format`")));
    }
    let longest = rest.iter().map(text_len).max().unwrap_or(0).max(MOST_WIDTH as u64);
    found(&[first.clone(), Value::from("%")], longest, usize::MAX)?;
    found(&[first.clone(), Value::from("{")], longest, usize::MAX)
}

/// `range`; its numbers are far from where their differences overflow.
fn ranged(args: &[Value]) -> Result<(), Error> {
    if args.iter().any(|arg| arg.as_i64().is_some_and(|number| number.unsigned_abs() > 1 << 40)) {
        return Err(error("a number over 2^40 in `range`"));
    }
    charge(VALUE)
}

/// `loop.cycle` and `loop.changed`, which keeps its arguments and compares them with the next ones.
fn looped(args: &[Value]) -> Result<(), Error> {
    match args {
        [_, rest @ ..] if !rest.is_empty() => {
            rest.iter().try_for_each(|value| stored(std::slice::from_ref(value)))?;
            tree(rest)
        }
        _ => Err(error("a method of `loop` without a value")),
    }
}

/// Charges for a value that is written out.
pub(super) fn written(value: &Value) -> Result<(), Error> {
    text::<2>(std::slice::from_ref(value))
}

/// `tojson`.
pub(super) fn to_json(value: &Value, style: &python::JsonStyle) -> Result<String, Error> {
    let (size, depth) = charge_tree(value, QUOTED)?;
    let width = style.indent.unwrap_or(0) as u64;
    let separators = (style.item_separator.len() + style.key_separator.len()) as u64;
    charge((width.saturating_mul(depth) + separators).saturating_mul(size / VALUE))?;
    Ok(python::json(value, style))
}

/// Makes a function charge by a price before it runs.
pub(super) fn priced(
    price: Price,
    function: Value,
) -> impl Fn(&mut State<'_, '_>, Rest<ValueOrKwargs>) -> Result<Value, Error> + Send + Sync + 'static {
    move |state, args| {
        let args = args.into_values();
        price(&args)?;
        materialized(function.call(state, &args)?)
    }
}

/// Turns an iterator into a list, since it would compute its items whenever it is looked at.
fn materialized(value: Value) -> Result<Value, Error> {
    if value.kind() != ValueKind::Iterable {
        return Ok(value);
    }
    let mut all = Vec::new();
    for item in value.try_iter()? {
        charge(ITEM)?;
        all.push(item);
    }
    Ok(Value::from(all))
}

/// Changes the text of a template so that minijinja does not multiply constants while it reads them. Fails on an expression
/// that could exceed the stack.
pub(super) fn prepare(text: &str, syntax: &SyntaxConfig) -> Result<String, Error> {
    let mut out = String::with_capacity(text.len());
    let (mut copied, mut tokens, mut elifs, mut follows_operand) = (0, 0, 0, false);
    for token in tokenize(text, false, syntax.clone()) {
        // The parser reports it.
        let Ok((token, span)) = token else { break };
        tokens += 1;
        match token {
            Token::Ident("elif") if tokens == 2 => {
                elifs += 1;
                if elifs > MOST_ELIFS {
                    let line = span.start_line;
                    return Err(error(format!("more than {MOST_ELIFS} `elif` in its line {line}")));
                }
            }
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

/// Compiles a template whose operations charge for their operands, and bounds its steps in the environment.
pub(super) fn compile(
    environment: &mut Environment<'static>,
    mut template: CompiledTemplate<'static>,
) -> CompiledTemplate<'static> {
    template.instructions = with_prices(&template.instructions);
    for last in [
        Instruction::LoadConst(Value::from(())),
        Instruction::ApplyFilter("end", Some(1), u8::MAX),
        Instruction::DiscardTop,
    ] {
        template.instructions.add(last);
    }
    for instructions in template.blocks.values_mut() {
        *instructions = with_prices(instructions);
    }
    environment.set_fuel(Some(MOST_STEPS));
    environment.set_unknown_method_callback(call_method);
    add_functions(environment);
    template
}

fn with_prices(old: &Instructions<'static>) -> Instructions<'static> {
    let mut new = Instructions::new(old.name(), old.source());
    let mut moved = vec![0];
    for at in 0.. {
        let Some(instruction) = old.get(at) else { break };
        let mut next = 0;
        for one in with_price(instruction) {
            next = 1 + match old.get_line(at).and_then(|line| u16::try_from(line).ok()) {
                Some(line) => new.add_with_line(one, line),
                None => new.add(one),
            };
        }
        moved.push(next);
    }
    for at in 0.. {
        let Some(instruction) = new.get_mut(at) else { break };
        if let Instruction::Jump(to)
        | Instruction::JumpIfFalse(to)
        | Instruction::JumpIfFalseOrPop(to)
        | Instruction::JumpIfTrueOrPop(to)
        | Instruction::Iterate(to)
        | Instruction::BuildMacro(_, to, _) = instruction
        {
            *to = moved.get(*to as usize).copied().unwrap_or(*to);
        }
    }
    new
}

/// The instructions for one: a filter or a test in its place, or a charge before it.
fn with_price(instruction: &Instruction<'static>) -> Vec<Instruction<'static>> {
    let filter = |name, count| vec![Instruction::ApplyFilter(name, Some(count), u8::MAX)];
    let test = |name| vec![Instruction::PerformTest(name, Some(2), u8::MAX)];
    let charged = |name, count| {
        vec![
            Instruction::BuildTuple(Some(count)),
            Instruction::ApplyFilter(name, Some(1), u8::MAX),
            Instruction::UnpackList(count),
            instruction.clone(),
        ]
    };
    match instruction {
        Instruction::StringConcat => filter("concat", 2),
        Instruction::Add => filter("add", 2),
        Instruction::Mul => filter("mul", 2),
        Instruction::Slice => filter("sliced", 4),
        Instruction::GetItem => filter("attr", 2),
        Instruction::BuildMap(count) => charged("charge_keys", 2 * count),
        Instruction::SetAttr(_) => charged("charge_stored", 2),
        Instruction::Eq => test("eq"),
        Instruction::Ne => test("ne"),
        Instruction::Lt => test("lt"),
        Instruction::Lte => test("le"),
        Instruction::Gt => test("gt"),
        Instruction::Gte => test("ge"),
        Instruction::In => test("in"),
        Instruction::CompareAndPreserve(_) => charged("charge_contained", 2),
        Instruction::UnpackLists(count) | Instruction::MergeKwargs(count) => charged("charge_tree", *count),
        Instruction::PushLoop(_) => charged("charge_each", 1),
        // It may call a recursive loop.
        Instruction::CallFunction(_, Some(1)) | Instruction::FastRecurse => charged("charge_each", 1),
        Instruction::Include(_) => charged("charge_names", 1),
        Instruction::CallMethod("changed" | "cycle", Some(count)) => {
            charged("charge_looped", (*count).into())
        }
        Instruction::CallMethod("cycle", None) => vec![Instruction::CallMethod("cycle(*)", None)],
        Instruction::EmitRaw(text) => vec![Instruction::LoadConst(Value::from(*text)), Instruction::Emit],
        other => vec![other.clone()],
    }
}

fn add_functions(environment: &mut Environment<'static>) {
    macro_rules! add {
        ($add:ident $module:ident: $($price:expr => $($function:ident $($name:literal)+),+;)+) => {
            $($($(
                environment.$add($name, priced($price, Value::from_function($module::$function)));
            )+)+)+
        };
    }
    add! { add_filter filters:
        free => abs "abs", bool "bool", default "default" "d", round "round";
        length => length "length" "count";
        text::<2> => string "string", safe "safe";
        text::<4> => capitalize "capitalize", float "float", int "int", lower "lower", upper "upper";
        text::<QUOTED> => escape "escape" "e", reverse "reverse";
        text::<16> => title "title";
        trimmed => trim "trim";
        replaced => replace "replace";
        split => split "split";
        lines => lines "lines";
        formatted => format "format";
        joined => join "join";
        key => attr "attr";
        each => first "first", items "items", last "last", list "list", map "map", reject "reject",
            rejectattr "rejectattr", select "select", selectattr "selectattr";
        grouped => batch "batch", slice "slice";
        sum => sum "sum";
        sorted => dictsort "dictsort", groupby "groupby", max "max", min "min", sort "sort", unique "unique";
        tree => chain "chain", zip "zip";
    }
    add! { add_test tests:
        free => is_boolean "boolean", is_defined "defined", is_even "even", is_false "false", is_filter "filter",
            is_float "float", is_integer "integer" "int", is_mapping "mapping",
            is_none "none", is_number "number", is_odd "odd", is_safe "safe" "escaped",
            is_string "string", is_test "test", is_true "true", is_undefined "undefined";
        text::<4> => is_lower "lower", is_upper "upper";
        concatenated => is_startingwith "startingwith", is_endingwith "endingwith";
        compared => is_eq "eq" "equalto" "==", is_ne "ne" "!=", is_lt "lt" "lessthan" "<", is_le "le" "<=",
            is_gt "gt" "greaterthan" ">", is_ge "ge" ">=", is_sameas "sameas";
        contained => is_in "in";
    }
    add! { add_function functions:
        ranged => range "range";
        tree => dict "dict";
        each => namespace "namespace";
    }
    environment.add_test("divisibleby", |value: Value, by: Value| -> Result<bool, Error> {
        match (i128::try_from(value.clone()), i128::try_from(by.clone())) {
            (Ok(value), Ok(by)) => {
                value.checked_rem(by).map(|rest| rest == 0).ok_or_else(|| error("a division by zero"))
            }
            _ => Ok(tests::is_divisibleby(&value, &by)),
        }
    });
    // In Python `none` is neither, and text, maps and undefined values are both.
    for name in ["iterable", "sequence"] {
        environment.add_test(name, |value: Value| {
            matches!(value.kind(), ValueKind::Undefined | ValueKind::String | ValueKind::Map)
                || is_list(&value)
        });
    }
    environment.add_filter("indent", priced(indented, Value::from_function(indent)));
    environment.add_filter("same", |value: Value| value);
    environment.add_filter("end", |state: &State<'_, '_>, value: Value| {
        STEPS.set(state.fuel_levels().map_or(MOST_STEPS, |(consumed, _)| consumed));
        value
    });
    environment.add_filter("concat", priced(concatenated, operator("left ~ right")));
    environment.add_filter("add", priced(added, operator("left + right")));
    environment.add_filter("mul", priced(repeated, operator("left * right")));
    environment.add_filter("sliced", sliced);
    for (name, price) in [
        ("charge_contained", contained as Price),
        ("charge_each", each),
        ("charge_keys", keys),
        ("charge_looped", looped),
        ("charge_names", text::<QUOTED>),
        ("charge_stored", stored),
        ("charge_tree", tree),
    ] {
        environment.add_filter(name, move |args: Value| -> Result<Vec<Value>, Error> {
            let mut args: Vec<Value> = args.try_iter()?.collect();
            price(&args)?;
            // As the stack is unpacked.
            args.reverse();
            Ok(args)
        });
    }
}

/// Computes as minijinja does.
fn operator(expression: &'static str) -> Value {
    static PLAIN: LazyLock<Environment<'static>> = LazyLock::new(Environment::empty);
    let compiled = PLAIN.compile_expression(expression);
    Value::from_function(move |left: Value, right: Value| -> Result<Value, Error> {
        let computed = compiled.as_ref().map_err(ToString::to_string).map_err(error)?;
        let computed = computed.eval(minijinja::context! { left, right });
        computed.map_err(|found| Error::new(found.kind(), found.detail().unwrap_or_default().to_owned()))
    })
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

/// A slice as Python takes it.
fn sliced(value: Value, start: Option<i64>, stop: Option<i64>, step: Option<i64>) -> Result<Value, Error> {
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(error("a slice by steps of 0"));
    }
    if !(is_list(&value) || value.as_str().is_some() || value.is_none() || value.is_undefined()) {
        return Err(error(format!("a value of type {} has no slices", value.kind())));
    }
    let price: Price = if value.as_str().is_some() { text::<4> } else { each };
    price(std::slice::from_ref(&value))?;
    let len = i64::try_from(value.len().unwrap_or(0)).unwrap_or(i64::MAX);
    let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let bound = |at: Option<i64>, absent: i64| {
        at.map_or(absent, |at| if at < 0 { at.saturating_add(len) } else { at }.clamp(low, high))
    };
    let (from, to) = if step > 0 {
        (bound(start, low), bound(stop, high))
    } else {
        (bound(start, high), bound(stop, low))
    };
    let (skipped, span) = if step > 0 { (from, to - from) } else { (len - 1 - from, from - to) };
    let (skipped, span) = (usize::try_from(skipped).unwrap_or(0), usize::try_from(span).unwrap_or(0));
    let by = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX);
    Ok(match value.as_str() {
        Some(text) if step > 0 => {
            text.chars().skip(skipped).take(span).step_by(by).collect::<String>().into()
        }
        Some(text) => text.chars().rev().skip(skipped).take(span).step_by(by).collect::<String>().into(),
        None => {
            let mut items: Vec<Value> = value.try_iter()?.collect();
            if step < 0 {
                items.reverse();
            }
            let items: Vec<Value> = items.into_iter().skip(skipped).take(span).step_by(by).collect();
            if value.is_tuple() { Value::from(Tuple::from(items)) } else { Value::from(items) }
        }
    })
}

/// Calls a method of Python's `str`, `list` or `dict`.
fn call_method(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let price: Price = match (value.as_str().is_some(), method) {
        (true, "count" | "replace") => replaced,
        (true, "endswith" | "startswith") => |args| tree(args.get(1..).unwrap_or_default()),
        (true, "format") => formatted,
        (true, "join") => join_method,
        (true, "lstrip" | "rstrip" | "strip") => trimmed,
        (true, "split") => split,
        (true, "splitlines") => lines,
        (true, "title") => text::<16>,
        (true, _) => text::<4>,
        (false, "get") => key,
        (false, "count") => tree,
        (false, _) => each,
    };
    let all: Vec<Value> = std::iter::once(value).chain(args).cloned().collect();
    price(&all)?;
    materialized(minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)?)
}
