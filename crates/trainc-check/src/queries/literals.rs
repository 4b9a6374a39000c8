//! Options that the manifest gives to the program with literal values.

use crate::Context;
use trainc_diag::source::Span;
use trainc_ir::Scalar;

/// An option with its value.
pub(crate) struct Literal {
    /// The name, without dashes in front.
    pub(crate) name: String,
    pub(crate) value: Scalar,
    /// The span of the value.
    pub(crate) span: Span,
    /// Whether it is a hyperparameter, whose value may be a placeholder instead.
    pub(crate) is_hyperparameter: bool,
}

impl Literal {
    /// Returns the option as the script receives it.
    pub(crate) fn shown(&self) -> String {
        format!("--{} {}", self.name, trainc_emit::python_str(&self.value))
    }
}

/// Returns the literal hyperparameters, and the options in the words of the entry point and its arguments.
pub(crate) fn literals(context: &Context) -> Vec<Literal> {
    let Some(program) = &context.plan.job.program else { return Vec::new() };
    let is_literal = |span: Span| !context.sources.slice(span).contains("{{");
    let mut out = Vec::new();
    for h in &program.hyperparameters {
        let Some(val) = h.value.val() else { continue };
        let Some(span) = val.origin.span().filter(|span| is_literal(*span)) else { continue };
        out.push(Literal { name: h.name.clone(), value: val.value.clone(), span, is_hyperparameter: true });
    }
    let words = program.entrypoint.iter().chain(&program.arguments);
    let parts: Vec<(&str, Span)> = words
        .filter_map(|word| Some((word.value.as_str(), word.origin.span().filter(|span| is_literal(*span))?)))
        // A shell's line is one word.
        .flat_map(|(text, span)| text.split_whitespace().map(move |part| (part, span)))
        .collect();
    for (at, (part, span)) in parts.iter().enumerate() {
        let Some(name) = part.strip_prefix("--") else { continue };
        let next = parts.get(at + 1).filter(|(next, _)| !next.starts_with("--"));
        let (name, text, span) = match (name.split_once('='), next) {
            (Some((name, text)), _) => (name, text, *span),
            (None, Some((next, at))) => (name, *next, *at),
            (None, None) => (name, "true", *span),
        };
        let value = Scalar::Text(text.trim_matches(['"', '\'']).to_owned());
        out.push(Literal { name: name.to_owned(), value, span, is_hyperparameter: false });
    }
    out
}

/// Returns a switch's position, as scripts read it.
pub(crate) fn truth(value: &Scalar) -> Option<bool> {
    match value {
        Scalar::Bool(value) => Some(*value),
        Scalar::Int(0) => Some(false),
        Scalar::Int(1) => Some(true),
        Scalar::Text(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" => Some(true),
            "false" | "0" | "no" => Some(false),
            _ => None,
        },
        _ => None,
    }
}
