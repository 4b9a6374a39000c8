//! The origin of every value of a plan: a row for each, in reading order.
//!
//! Structs are destructured without `..`, so that a new field of the plan does not compile until it is listed here.

mod figures;
mod job;
mod places;
mod plan;

use trainc_diag::source::{SourceMap, Span};
use trainc_diag::text;
use trainc_ir::digest::python_float;
use trainc_ir::plan::DIGEST_MARK;
use trainc_ir::{Field, Origin, Pair, Plan, Raw, Scalar, Val};

/// A value of the plan and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginRow {
    /// Its path, as `cluster.nodes`.
    pub path: String,
    /// The value, with its unit.
    pub value: String,
    /// Its origin.
    pub why: String,
    /// The place where it was written; `None` for other origins.
    pub span: Option<Span>,
}

/// Returns the origins of all values of a plan.
pub fn rows(plan: &Plan, sources: &SourceMap) -> Vec<OriginRow> {
    let mut table = OriginTable { sources, rows: Vec::new(), prefix: String::new() };
    plan::plan(&mut table, plan);
    for row in &mut table.rows {
        // The digest is computed over these values, so it cannot be one of them.
        row.value = row.value.replace(DIGEST_MARK, "{{ job.digest }}");
    }
    table.rows
}

/// Returns the origins of the predictions of a plan.
pub fn predicted_rows(subject: &super::Subject, plan: &Plan) -> Vec<OriginRow> {
    let mut table = OriginTable { sources: subject.sources, rows: Vec::new(), prefix: String::new() };
    figures::figures(&mut table, subject, plan);
    table.rows
}

/// Returns the origins of all values of a plan, then those of its predictions.
pub(super) fn all_rows(subject: &super::Subject, plan: &Plan) -> Vec<OriginRow> {
    let mut all = rows(plan, subject.sources);
    all.extend(predicted_rows(subject, plan));
    all
}

/// Formats a place: `job.kdl:12:5`, `--set cluster.nodes=4`, or `not known`.
pub(super) fn format_place(sources: &SourceMap, span: Span) -> String {
    let Some(source) = sources.get(span.source) else { return "not known".to_owned() };
    // A name in angle brackets is a command line option instead of a file.
    if let Some(name) = source.name.strip_prefix("<--").and_then(|name| name.strip_suffix('>')) {
        return format!("--{name}");
    }
    let (line, column) = source.line_column(span.start);
    format!("{}:{line}:{column}", source.name)
}

/// Returns the text at a place, if it is short.
pub(super) fn source_text(sources: &SourceMap, span: Span) -> Option<&str> {
    let source = sources.get(span.source)?;
    let text = source.text.get(span.start as usize..span.end as usize)?;
    (text.len() <= 60 && !text.contains('\n')).then_some(text)
}

/// The rows collected so far.
struct OriginTable<'a> {
    sources: &'a SourceMap,
    rows: Vec<OriginRow>,
    prefix: String,
}

impl OriginTable<'_> {
    /// Sets the prefix of the following paths.
    fn set_prefix(&mut self, prefix: impl Into<String>) {
        self.prefix = prefix.into();
    }

    fn push(&mut self, name: &str, value: impl Into<String>, why: impl Into<String>) {
        let path = match (self.prefix.as_str(), name) {
            ("", name) => name.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, name) => format!("{prefix}.{name}"),
        };
        self.rows.push(OriginRow { path, value: value.into(), why: why.into(), span: None });
    }

    /// Sets the place of the last row.
    fn set_last_span(&mut self, span: Option<Span>) {
        if let Some(row) = self.rows.last_mut() {
            row.span = span;
        }
    }

    /// Describes an origin: the place of a written value, with its placeholder if it has one.
    fn describe_origin(&self, origin: &Origin) -> String {
        let Origin::Written(span) = origin else { return trainc_plan::plan::describe_origin(origin) };
        let place = format_place(self.sources, *span);
        match source_text(self.sources, *span) {
            Some(text) if text.contains("{{") => format!("{place}, as {text}"),
            _ => place,
        }
    }

    /// Adds a row for a node written at `span`.
    fn node(&mut self, name: &str, value: impl Into<String>, span: Span) {
        let why = self.describe_origin(&Origin::Written(span));
        self.push(name, value, why);
        self.set_last_span(Some(span));
    }

    fn val<T>(&mut self, name: &str, val: &Val<T>, show: impl Fn(&T) -> String) {
        let why = self.describe_origin(&val.origin);
        self.push(name, show(&val.value), why);
        self.set_last_span(val.origin.span());
    }

    fn field<T>(&mut self, name: &str, field: &Field<T>, show: impl Fn(&T) -> String) {
        match field {
            Field::Absent => {}
            Field::Bad => self.push(name, "?", "invalid, see the problems"),
            Field::Is(val) => self.val(name, val, show),
        }
    }

    fn text(&mut self, name: &str, field: &Field<String>) {
        self.field(name, field, Clone::clone);
    }

    fn count(&mut self, name: &str, field: &Field<u64>) {
        self.field(name, field, |n| text::group_digits(*n));
    }

    fn bytes(&mut self, name: &str, field: &Field<u64>) {
        self.field(name, field, |n| text::bytes(*n));
    }

    fn seconds(&mut self, name: &str, field: &Field<u64>) {
        self.field(name, field, |n| text::duration(*n));
    }

    fn number(&mut self, name: &str, field: &Field<f64>) {
        self.field(name, field, |n| python_float(*n));
    }

    fn switch(&mut self, name: &str, field: &Field<bool>) {
        self.field(name, field, |on| format!("#{on}"));
    }

    fn texts(&mut self, name: &str, vals: &[Val<String>]) {
        for val in vals {
            self.val(name, val, Clone::clone);
        }
    }

    fn names(&mut self, name: &str, field: &Field<Vec<String>>) {
        self.field(name, field, |names| names.join(", "));
    }

    fn pairs(&mut self, name: &str, pairs: &[Pair]) {
        for Pair { key, key_span, value } in pairs {
            let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
            match value {
                Field::Absent => self.node(&name, "", *key_span),
                Field::Bad | Field::Is(_) => self.text(&name, value),
            }
        }
    }
}

fn scalar(value: &Scalar) -> String {
    match value {
        Scalar::Text(text) => text.clone(),
        Scalar::Int(n) => n.to_string(),
        Scalar::Float(x) => python_float(*x),
        Scalar::Bool(on) => format!("#{on}"),
        Scalar::Null => "#null".to_owned(),
    }
}

fn raw(value: &Raw) -> String {
    match value {
        Raw::Scalar(one) => scalar(&one.value),
        Raw::List(items) => format!("[{}]", items.iter().map(raw).collect::<Vec<_>>().join(", ")),
        Raw::Object(members) => {
            let members: Vec<String> =
                members.iter().map(|member| format!("{}: {}", member.name, raw(&member.value))).collect();
            format!("{{{}}}", members.join(", "))
        }
    }
}
