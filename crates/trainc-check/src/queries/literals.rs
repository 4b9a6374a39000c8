//! Options that the manifest gives to the program with literal values.

use crate::Context;
use trainc_diag::source::Span;
use trainc_ir::Scalar;

/// An option with its value, or a variable that is read as one.
pub(crate) struct Literal {
    /// The name, without dashes in front.
    pub(crate) name: String,
    pub(crate) value: Scalar,
    /// The span of the value.
    pub(crate) span: Span,
    pub(crate) source: Source,
}

/// Where an option is written.
pub(crate) enum Source {
    Hyperparameter,
    /// An environment variable with this name.
    Variable(String),
    /// A word of the entry point or its arguments.
    Word,
}

impl Literal {
    /// Returns the option as the script receives it.
    pub(crate) fn shown(&self) -> String {
        let value = trainc_emit::python_str(&self.value);
        match &self.source {
            Source::Variable(name) => format!("{name}={value}"),
            Source::Hyperparameter | Source::Word => format!("--{} {value}", self.name),
        }
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
        out.push(Literal {
            name: h.name.clone(),
            value: val.value.clone(),
            span,
            source: Source::Hyperparameter,
        });
    }
    // Scripts and Accelerate read options from variables, too.
    for pair in &program.environment {
        let Some(val) = pair.value.val() else { continue };
        let Some(span) = val.origin.span().filter(|span| is_literal(*span)) else { continue };
        let name = pair.key.to_lowercase();
        let name = name.strip_prefix("accelerate_").unwrap_or(&name).to_owned();
        out.push(Literal {
            name,
            value: Scalar::Text(val.value.clone()),
            span,
            source: Source::Variable(pair.key.clone()),
        });
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
        out.push(Literal { name: name.to_owned(), value, span, source: Source::Word });
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
