//! Replaces placeholders in strings: `"{{ batch.micro }}"` becomes a value of the plan.
//!
//! Input: a plan whose texts are as written. Output: the plan with every placeholder replaced, so that the
//! checks see the final text. An unknown path is an error with a suggestion. The job's digest is computed
//! from the emitted output, so [`DIGEST_MARK`](trainc_ir::plan::DIGEST_MARK) represents it here.

mod bounds;
mod slots;
mod substitutions;
mod unknown_placeholder;
mod values;

pub use values::{placeholder_example, placeholder_meaning, placeholder_paths};

use minijinja::value::Value;
use minijinja::{Environment, UndefinedBehavior};
use slots::{check_statement, has_placeholder, span_of_piece, visit_slots};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use trainc_diag::declare_code;
use trainc_diag::source::{SourceId, SourceMap, Span, Spanned};
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Address, Field, Placeholders, Plan, Raw, Scalar};
use trainc_language::Slot;
pub(crate) use values::PlanValues;
use values::ValueEntry;

declare_code!(T0230, "unknown-placeholder", Error, "a placeholder does not match any value of the plan");
declare_code!(T0231, "placeholder-syntax", Error, "a placeholder with invalid syntax");
declare_code!(T0232, "placeholder-without-value", Error, "a placeholder whose value is not set in this job");

/// Returns the codes of this stage.
pub fn codes() -> Vec<&'static Code> {
    vec![&slots::T0214, &T0230, &T0231, &T0232, &substitutions::T0272, &substitutions::T0730]
}

/// Returns the paths that placeholders of this plan can use, each with its value if it has one.
pub fn placeholder_values(plan: &Plan) -> BTreeMap<String, Option<String>> {
    let values = PlanValues::new(plan);
    let text = |path: &String| values.scalar(path).map(|scalar| scalar_text(&scalar));
    values.entries.keys().map(|path| (path.clone(), text(path))).collect()
}

/// Returns the value that a placeholder of this path has in the plan: `train.steps`.
pub fn placeholder_value(plan: &Plan, path: &str) -> Option<Scalar> {
    PlanValues::new(plan).scalar(path)
}

/// Replaces every placeholder of the plan.
pub fn bind(mut plan: Plan, sources: &SourceMap, problems: &mut Problems) -> Plan {
    substitutions::check(&mut plan, sources, problems);
    let mut texts = 0;
    visit_slots(&mut plan, &mut |slot| {
        texts += usize::from(has_placeholder(&slot));
        if let Some(problem) = check_statement(&slot, sources) {
            problems.push(problem);
        }
    });
    if texts == 0 {
        return plan;
    }
    let values = PlanValues::new(&plan);
    let mut env = Environment::empty();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    let binder = Binder {
        values: &values,
        context: OnceCell::new(),
        env: &env,
        sources,
        remaining_bytes: Cell::new(bounds::MAX_TOTAL_BYTES),
        used: RefCell::default(),
    };
    visit_slots(&mut plan, &mut |slot| binder.expand_slot(slot, problems));
    plan.placeholders = binder.used.into_inner();
    plan
}

struct Binder<'a> {
    values: &'a PlanValues,
    /// The values as template context, built for the first expression that needs the template engine.
    context: OnceCell<Value>,
    env: &'a Environment<'a>,
    sources: &'a SourceMap,
    /// Bytes that placeholders may still produce.
    remaining_bytes: Cell<usize>,
    /// The placeholders that were replaced so far.
    used: RefCell<Placeholders>,
}

impl PlanValues {
    /// Returns the value of a path, if it has one in this plan.
    pub(crate) fn scalar(&self, path: &str) -> Option<Scalar> {
        match self.entries.get(path)? {
            ValueEntry::Value(value) => scalar_from_template_value(value),
            ValueEntry::Missing(_) | ValueEntry::AlreadyReported => None,
        }
    }
}

impl Binder<'_> {
    fn expand_slot(&self, slot: Slot, problems: &mut Problems) {
        if !has_placeholder(&slot) || self.remaining_bytes.get() == 0 {
            return;
        }
        match slot {
            Slot::Text(field) => {
                let Some(val) = field.val() else { return };
                match self.expand(&val.value, val.span_or(Span::whole(SourceId(0))), problems) {
                    Some(value) => {
                        if let Some(text) = field.value_mut() {
                            *text = scalar_text(&value);
                        }
                    }
                    None => *field = Field::Bad,
                }
            }
            Slot::Address(field) => {
                let Some(val) = field.val() else { return };
                match self.expand(&val.value, val.span_or(Span::whole(SourceId(0))), problems) {
                    Some(value) => {
                        if let Some(address) = field.value_mut() {
                            *address = Address::new(scalar_text(&value));
                        }
                    }
                    None => *field = Field::Bad,
                }
            }
            // A word that cannot be expanded stays as written: the error prevents output anyway.
            Slot::Word(val) => {
                let span = val.span_or(Span::whole(SourceId(0)));
                if let Some(value) = self.expand(&val.value, span, problems) {
                    val.value = scalar_text(&value);
                }
            }
            Slot::Scalar(field) => {
                let Some(val) = field.val() else { return };
                let Scalar::Text(written) = &val.value else { return };
                match self.expand(written, val.span_or(Span::whole(SourceId(0))), problems) {
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

    /// Replaces the placeholders of a text. A text that is a single placeholder keeps the type of its value.
    fn expand(&self, written: &str, span: Span, problems: &mut Problems) -> Option<Scalar> {
        let mut parts: Vec<Scalar> = Vec::new();
        let mut rest = written;
        let mut fine = true;
        let mut invalid: BTreeSet<&str> = BTreeSet::new();
        while let Some(open) = rest.find("{{") {
            if let Some(before) = rest.get(..open).filter(|before| !before.is_empty()) {
                parts.push(Scalar::Text(before.to_owned()));
            }
            let inside = rest.get(open + 2..).unwrap_or("");
            let Some(close) = find_closing_braces(inside) else {
                problems.push(
                    Diagnostic::new(&T0231, self.span_of_piece(span, "{{"), "`{{` without a closing `}}`")
                        .help("add `}}`, or write `{{ '{{' }}` for literal braces"),
                );
                return None;
            };
            let expression = inside.get(..close).unwrap_or("").trim();
            // An invalid expression is reported once for each text.
            let value =
                if invalid.contains(expression) { None } else { self.evaluate(expression, span, problems) };
            match value {
                Some(value) if self.has_room(&value, written, span, problems) => parts.push(value),
                Some(_) => fine = false,
                None => {
                    invalid.insert(expression);
                    fine = false;
                }
            }
            if self.remaining_bytes.get() == 0 {
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
            let inside = written.trim().strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
            if let Some(path) = inside.map(str::trim).filter(|path| self.values.entries.contains_key(*path)) {
                self.used.borrow_mut().add_whole(span, path);
            }
            return parts.pop();
        }
        Some(Scalar::Text(parts.iter().map(scalar_text).collect()))
    }

    /// Returns true if a value still fits into the size limit. Reports the limit once; nothing is replaced
    /// after that.
    fn has_room(&self, value: &Scalar, written: &str, span: Span, problems: &mut Problems) -> bool {
        let size = if let Scalar::Text(text) = value { text.len() } else { 0 };
        let left = self.remaining_bytes.get().saturating_sub(size);
        self.remaining_bytes.set(left);
        if left == 0 {
            problems.push(
                Diagnostic::new(
                    &T0231,
                    self.span_of_piece(span, written),
                    format!(
                        "the placeholders of this job expand to more than {} MiB of text",
                        bounds::MAX_TOTAL_BYTES >> 20
                    ),
                )
                .help("use shorter values, or fewer placeholders"),
            );
        }
        left > 0
    }

    fn evaluate(&self, expression: &str, span: Span, problems: &mut Problems) -> Option<Scalar> {
        if expression.is_empty() {
            problems.push(
                Diagnostic::new(&T0231, self.span_of_piece(span, "{{"), "empty placeholder `{{ }}`")
                    .help("write a path of the plan, such as `{{ batch.micro }}`"),
            );
            return None;
        }
        // A plain path, by far the most common expression, needs no template engine.
        if let Some(ValueEntry::Value(value)) = self.values.entries.get(expression)
            && let Some(value) = scalar_from_template_value(value)
        {
            self.used.borrow_mut().add(span, expression);
            return Some(value);
        }
        if let Some(problem) = self.check_bounds(expression, span) {
            problems.push(problem);
            return None;
        }
        // `batch.micro-batch` is a path with the hyphens of the manifest, not a subtraction.
        let path = expression.replace('-', "_");
        let is_path = |c: char| c.is_ascii_lowercase() || matches!(c, '.' | '_' | '-');
        let parts = || expression.split('-');
        let is_known = |part: &str| self.values.entries.contains_key(part);
        if parts().count() > 1
            && expression.chars().all(is_path)
            && parts().skip(1).all(|part| !part.contains('.'))
            && !parts().all(is_known)
        {
            problems.push(self.unknown_path(expression, &path, span));
            return None;
        }
        let compiled = match self.env.compile_expression(expression) {
            Ok(compiled) => compiled,
            Err(error) => {
                let why = error.detail().unwrap_or("not an expression").to_owned();
                problems.push(
                    Diagnostic::new(
                        &T0231,
                        self.span_of_piece(span, expression),
                        format!("invalid placeholder `{{{{ {} }}}}`: {}", shorten(expression), shorten(&why)),
                    )
                    .help("write a path of the plan, such as `{{ batch.micro }}`"),
                );
                return None;
            }
        };
        let mut fine = true;
        let mut names: Vec<String> = compiled.undeclared_variables(true).into_iter().collect();
        names.sort_unstable();
        for name in names {
            match self.values.entries.get(&name) {
                Some(ValueEntry::Value(_)) => self.used.borrow_mut().add(span, &name),
                Some(ValueEntry::AlreadyReported) => fine = false,
                Some(ValueEntry::Missing(why)) => {
                    problems.push(
                        Diagnostic::new(
                            &T0232,
                            self.span_of_piece(span, &name),
                            format!("`{name}` has no value in this job: {why}"),
                        )
                        .help("write the value itself, or set what it is computed from"),
                    );
                    fine = false;
                }
                None => {
                    problems.push(self.unknown_path(&name, &name, span));
                    fine = false;
                }
            }
        }
        if !fine {
            return None;
        }
        match compiled.eval(self.context.get_or_init(|| self.values.template_context())) {
            Ok(value) => scalar_from_template_value(&value).or_else(|| {
                problems.push(
                    Diagnostic::new(
                        &T0231,
                        self.span_of_piece(span, expression),
                        format!("`{}` does not evaluate to a single value", shorten(expression)),
                    )
                    .help("write a path of one value of the plan, such as `{{ batch.micro }}`"),
                );
                None
            }),
            Err(error) => {
                let why = error.detail().unwrap_or("evaluation failed").to_owned();
                problems.push(Diagnostic::new(
                    &T0231,
                    self.span_of_piece(span, expression),
                    format!("`{}`: {}", shorten(expression), shorten(&why)),
                ));
                None
            }
        }
    }

    /// Reports an expression that is too long or repeats text.
    fn check_bounds(&self, expression: &str, span: Span) -> Option<Diagnostic> {
        let at = self.span_of_piece(span, expression);
        let length = expression.chars().count();
        if length > bounds::MAX_EXPRESSION_CHARS && !bounds::is_identifier(expression) {
            return Some(
                Diagnostic::new(
                    &T0231,
                    at,
                    format!(
                        "placeholder of {} characters; at most {} are supported",
                        text::group_digits(length as u64),
                        bounds::MAX_EXPRESSION_CHARS
                    ),
                )
                .help("write text outside the braces, and a path of the plan inside"),
            );
        }
        bounds::repeats_text(expression, self.values).then(|| {
            Diagnostic::new(
                &T0231,
                at,
                format!("`{}`: only numbers can be multiplied in a placeholder", shorten(expression)),
            )
            .help("write text outside the braces, as in `lr-{{ batch.micro * 2 }}`")
        })
    }

    fn span_of_piece(&self, span: Span, piece: &str) -> Span {
        span_of_piece(self.sources, span, piece)
    }
}

/// Returns the byte offset of the first `}}` outside quotes.
fn find_closing_braces(inside: &str) -> Option<usize> {
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

fn scalar_from_template_value(value: &Value) -> Option<Scalar> {
    use minijinja::value::ValueKind;
    match value.kind() {
        ValueKind::String => value.as_str().map(|text| Scalar::Text(text.to_owned())),
        ValueKind::Bool => Some(Scalar::Bool(value.is_true())),
        ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok().map(Scalar::Int),
        ValueKind::Number => f64::try_from(value.clone()).ok().filter(|x| x.is_finite()).map(Scalar::Float),
        _ => None,
    }
}

fn scalar_text(scalar: &Scalar) -> String {
    match scalar {
        Scalar::Text(text) => text.clone(),
        Scalar::Int(n) => n.to_string(),
        Scalar::Float(x) => trainc_ir::digest::python_float(*x),
        Scalar::Bool(on) => on.to_string(),
        Scalar::Null => String::new(),
    }
}

/// Shortens the user's text to what fits in a message.
fn shorten(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    if text.chars().count() <= MAX_CHARS {
        return text.to_owned();
    }
    format!("{}…", text.chars().take(MAX_CHARS).collect::<String>())
}
