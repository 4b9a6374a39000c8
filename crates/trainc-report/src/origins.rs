//! The origin of every value of a plan: a row for each, in reading order.
//!
//! Those of the job come from the declarations of its nodes. Structs of the plan are destructured without
//! `..`, so that a new field does not compile until it is listed here.

mod figures;
mod plan;

use trainc_diag::source::{SourceMap, Span};
use trainc_ir::plan::DIGEST_MARK;
use trainc_ir::{Job, Origin, Plan, Val};
use trainc_language::NodeType;

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

    /// Describes an origin: the place of a written value, with its placeholder if it has one.
    fn describe_origin(&self, origin: &Origin) -> String {
        let Origin::Written(span) = origin else { return trainc_plan::plan::describe_origin(origin) };
        let place = format_place(self.sources, *span);
        match source_text(self.sources, *span) {
            Some(text) if text.contains("{{") => format!("{place}, as {text}"),
            _ => place,
        }
    }

    /// Adds the rows of a job, defaults included.
    fn job(&mut self, job: &Job) {
        job.visit("", &mut |seen| {
            self.set_prefix(seen.path);
            match seen.origin {
                Some(origin) => self.push_with_origin(seen.name, seen.value.show(seen.declared), origin),
                None => self.push(seen.name, "?", "invalid, see the problems"),
            }
        });
    }

    fn push_with_origin(&mut self, name: &str, value: String, origin: &Origin) {
        let why = self.describe_origin(origin);
        self.push(name, value, why);
        if let Some(row) = self.rows.last_mut() {
            row.span = origin.span();
        }
    }

    fn val<T>(&mut self, name: &str, val: &Val<T>, show: impl Fn(&T) -> String) {
        self.push_with_origin(name, show(&val.value), &val.origin);
    }
}
