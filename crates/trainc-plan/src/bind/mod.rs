//! Placeholders in strings: `"{{ batch.micro }}"` takes a value of the plan.
//!
//! In: a plan whose texts stand as written. Out: the same with every placeholder replaced, before the checks,
//! which see the final text. Strict: an unknown path is a problem with a did-you-mean. The job's digest is
//! computed from what is emitted, so here [`DIGEST_MARK`](trainc_ir::plan::DIGEST_MARK) stands for it.

mod bounds;
mod marks;
mod slots;
mod table;
mod unknown;

use minijinja::value::Value;
use minijinja::{Environment, UndefinedBehavior};
use slots::{Slot, inside, visit};
use std::cell::{Cell, OnceCell};
use std::collections::BTreeSet;
use table::{Entry, Table};
use trainc_diag::declare_code;
use trainc_diag::source::{SourceMap, Span, Spanned};
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Field, Plan, Raw, Scalar};

declare_code!(T0230, "unknown-placeholder", Error, "a placeholder does not match any value of the plan");
declare_code!(T0231, "placeholder-syntax", Error, "a placeholder with invalid syntax");
declare_code!(T0232, "placeholder-without-value", Error, "a placeholder whose value is not set in this job");

/// The codes of this stage.
pub fn codes() -> Vec<&'static Code> {
    vec![&slots::T0214, &T0230, &T0231, &T0232, &marks::T0272]
}

/// Replaces every placeholder of the plan.
pub fn bind(mut plan: Plan, sources: &SourceMap, problems: &mut Problems) -> Plan {
    marks::judge(&mut plan, sources, problems);
    let mut texts = 0;
    visit(&mut plan, &mut |slot| {
        texts += usize::from(slot.has_placeholder());
        if let Some(problem) = slot.statement(sources) {
            problems.push(problem);
        }
    });
    if texts == 0 {
        return plan;
    }
    let table = Table::of(&plan);
    let mut env = Environment::empty();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    let binder =
        Binder { table: &table, context: OnceCell::new(), env: &env, sources, left: Cell::new(bounds::MOST) };
    visit(&mut plan, &mut |slot| binder.slot(slot, problems));
    plan
}

struct Binder<'a> {
    table: &'a Table,
    /// The table as the template engine wants it: made for the first expression that needs the engine.
    context: OnceCell<Value>,
    env: &'a Environment<'a>,
    sources: &'a SourceMap,
    /// Bytes that placeholders may still become.
    left: Cell<usize>,
}

impl Binder<'_> {
    fn slot(&self, slot: Slot, problems: &mut Problems) {
        if !slot.has_placeholder() || self.left.get() == 0 {
            return;
        }
        match slot {
            Slot::Text(field) => {
                let Some(val) = field.val() else { return };
                match self.expand(
                    &val.value,
                    val.span_or(Span::whole(trainc_diag::source::SourceId(0))),
                    problems,
                ) {
                    Some(value) => {
                        if let Some(text) = field.value_mut() {
                            *text = plain(&value);
                        }
                    }
                    None => *field = Field::Bad,
                }
            }
            // What cannot be said stays as it is written: the problem is reported, and nothing is emitted.
            Slot::Word(val) => {
                let span = val.span_or(Span::whole(trainc_diag::source::SourceId(0)));
                if let Some(value) = self.expand(&val.value, span, problems) {
                    val.value = plain(&value);
                }
            }
            Slot::Scalar(field) => {
                let Some(val) = field.val() else { return };
                let Scalar::Text(written) = &val.value else { return };
                match self.expand(
                    written,
                    val.span_or(Span::whole(trainc_diag::source::SourceId(0))),
                    problems,
                ) {
                    Some(value) => {
                        if let Some(slot) = field.value_mut() {
                            *slot = value;
                        }
                    }
                    None => *field = Field::Bad,
                }
            }
            Slot::Raw(raw) => {
                if let Raw::Scalar(Spanned { value, span }) = raw
                    && let Scalar::Text(written) = &value
                    && let Some(bound) = self.expand(written, *span, problems)
                {
                    *value = bound;
                }
            }
        }
    }

    /// A text with its placeholders replaced; one placeholder alone keeps the value's type.
    fn expand(&self, written: &str, span: Span, problems: &mut Problems) -> Option<Scalar> {
        let mut parts: Vec<Scalar> = Vec::new();
        let mut rest = written;
        let mut fine = true;
        let mut refused: BTreeSet<&str> = BTreeSet::new();
        while let Some(open) = rest.find("{{") {
            if let Some(before) = rest.get(..open).filter(|before| !before.is_empty()) {
                parts.push(Scalar::Text(before.to_owned()));
            }
            let inside = rest.get(open + 2..).unwrap_or("");
            let Some(close) = closing(inside) else {
                problems.push(
                    Diagnostic::new(&T0231, self.inside(span, "{{"), "`{{` without its `}}`")
                        .help("close it, or write `{{ '{{' }}` for the two braces themselves"),
                );
                return None;
            };
            let expression = inside.get(..close).unwrap_or("").trim();
            // What was refused in this text is refused once.
            let value =
                if refused.contains(expression) { None } else { self.evaluate(expression, span, problems) };
            match value {
                Some(value) if self.takes(&value, written, span, problems) => parts.push(value),
                Some(_) => fine = false,
                None => {
                    refused.insert(expression);
                    fine = false;
                }
            }
            if self.left.get() == 0 {
                return None;
            }
            rest = inside.get(close + 2..).unwrap_or("");
        }
        if !rest.is_empty() {
            parts.push(Scalar::Text(rest.to_owned()));
        }
        if !fine {
            return None;
        }
        if parts.len() == 1 {
            return parts.pop();
        }
        Some(Scalar::Text(parts.iter().map(plain).collect()))
    }

    /// Whether there is room for what a placeholder became. Said once; nothing is replaced after that.
    fn takes(&self, value: &Scalar, written: &str, span: Span, problems: &mut Problems) -> bool {
        let size = if let Scalar::Text(text) = value { text.len() } else { 0 };
        let left = self.left.get().saturating_sub(size);
        self.left.set(left);
        if left == 0 {
            problems.push(
                Diagnostic::new(
                    &T0231,
                    self.inside(span, written),
                    format!(
                        "the placeholders of this job become more than {} MiB of text",
                        bounds::MOST >> 20
                    ),
                )
                .help("name shorter values, or name them less often"),
            );
        }
        left > 0
    }

    fn evaluate(&self, expression: &str, span: Span, problems: &mut Problems) -> Option<Scalar> {
        if expression.is_empty() {
            problems.push(
                Diagnostic::new(&T0231, self.inside(span, "{{"), "`{{ }}` names no value")
                    .help("write a path of the plan, as `{{ batch.micro }}`"),
            );
            return None;
        }
        // A path alone, by far the most common, needs no template engine.
        if let Some(Entry::Value(value)) = self.table.entries.get(expression)
            && let Some(value) = scalar(value)
        {
            return Some(value);
        }
        if let Some(problem) = self.beyond(expression, span) {
            problems.push(problem);
            return None;
        }
        // `batch.micro-batch` is a path with the manifest's hyphens, and no difference of two.
        let path = expression.replace('-', "_");
        let is_path = |c: char| c.is_ascii_lowercase() || matches!(c, '.' | '_' | '-');
        let parts = || expression.split('-');
        let is_known = |part: &str| self.table.entries.contains_key(part);
        if parts().count() > 1
            && expression.chars().all(is_path)
            && parts().skip(1).all(|part| !part.contains('.'))
            && !parts().all(is_known)
        {
            problems.push(self.unknown_as(expression, &path, span));
            return None;
        }
        let compiled = match self.env.compile_expression(expression) {
            Ok(compiled) => compiled,
            Err(error) => {
                let why = error.detail().unwrap_or("it is no expression").to_owned();
                problems.push(
                    Diagnostic::new(
                        &T0231,
                        self.inside(span, expression),
                        format!("`{{{{ {} }}}}` cannot be read: {}", brief(expression), brief(&why)),
                    )
                    .help("write a path of the plan, as `{{ batch.micro }}`"),
                );
                return None;
            }
        };
        let mut fine = true;
        let mut names: Vec<String> = compiled.undeclared_variables(true).into_iter().collect();
        names.sort_unstable();
        for name in names {
            match self.table.entries.get(&name) {
                Some(Entry::Value(_)) => {}
                Some(Entry::Poison) => fine = false,
                Some(Entry::Missing(why)) => {
                    problems.push(
                        Diagnostic::new(
                            &T0232,
                            self.inside(span, &name),
                            format!("`{name}` has no value in this job: {why}"),
                        )
                        .help("write the value itself, or say what it is computed from"),
                    );
                    fine = false;
                }
                None => {
                    problems.push(self.unknown(&name, span));
                    fine = false;
                }
            }
        }
        if !fine {
            return None;
        }
        match compiled.eval(self.context.get_or_init(|| self.table.context())) {
            Ok(value) => scalar(&value).or_else(|| {
                problems.push(
                    Diagnostic::new(
                        &T0231,
                        self.inside(span, expression),
                        format!("`{}` gives no single value", brief(expression)),
                    )
                    .help("name one value of the plan, as `{{ batch.micro }}`"),
                );
                None
            }),
            Err(error) => {
                let why = error.detail().unwrap_or("it cannot be computed").to_owned();
                problems.push(Diagnostic::new(
                    &T0231,
                    self.inside(span, expression),
                    format!("`{}`: {}", brief(expression), brief(&why)),
                ));
                None
            }
        }
    }

    /// That an expression asks for more than the engine may be given.
    fn beyond(&self, expression: &str, span: Span) -> Option<Diagnostic> {
        let at = self.inside(span, expression);
        let length = expression.chars().count();
        if length > bounds::LONGEST && !bounds::is_one_word(expression) {
            return Some(
                Diagnostic::new(
                    &T0231,
                    at,
                    format!(
                        "a placeholder of {} characters: at most {} can be read",
                        text::group(length as u64),
                        bounds::LONGEST
                    ),
                )
                .help("write the text itself outside the braces, and a path of the plan inside"),
            );
        }
        bounds::repeats(expression, self.table).then(|| {
            Diagnostic::new(
                &T0231,
                at,
                format!("`{}`: in a placeholder that multiplies stand numbers alone", brief(expression)),
            )
            .help("write texts outside the braces, as `lr-{{ batch.micro * 2 }}`")
        })
    }

    fn inside(&self, span: Span, piece: &str) -> Span {
        inside(self.sources, span, piece)
    }
}

/// Where the placeholder ends: the first `}}` outside quotes.
fn closing(inside: &str) -> Option<usize> {
    let mut quote: Option<u8> = None;
    let bytes = inside.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match quote {
            Some(q) => {
                if byte == b'\\' {
                    at += 1;
                } else if byte == q {
                    quote = None;
                }
            }
            None => match byte {
                b'"' | b'\'' => quote = Some(byte),
                b'}' if bytes.get(at + 1) == Some(&b'}') => return Some(at),
                _ => {}
            },
        }
        at += 1;
    }
    None
}

fn scalar(value: &Value) -> Option<Scalar> {
    use minijinja::value::ValueKind;
    match value.kind() {
        ValueKind::String => value.as_str().map(|text| Scalar::Text(text.to_owned())),
        ValueKind::Bool => Some(Scalar::Bool(value.is_true())),
        ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok().map(Scalar::Int),
        ValueKind::Number => f64::try_from(value.clone()).ok().filter(|x| x.is_finite()).map(Scalar::Float),
        _ => None,
    }
}

fn plain(scalar: &Scalar) -> String {
    match scalar {
        Scalar::Text(text) => text.clone(),
        Scalar::Int(n) => n.to_string(),
        Scalar::Float(x) => trainc_ir::digest::python_float(*x),
        Scalar::Bool(on) => on.to_string(),
        Scalar::Null => String::new(),
    }
}
/// The beginning of a text that somebody wrote, as long as a message bears.
fn brief(text: &str) -> String {
    const MOST: usize = 80;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    format!("{}…", text.chars().take(MOST).collect::<String>())
}
