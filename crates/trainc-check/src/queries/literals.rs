//! Options that the manifest gives to the program with literal values, and those in the source of its script.

use super::program::is_python;
use super::script::{self, Setting};
use crate::Context;
use trainc_diag::Diagnostic;
use trainc_diag::source::Span;
use trainc_ir::Scalar;

/// An option with its value, or a variable that is read as one.
pub(crate) struct Literal {
    /// The name, without dashes in front.
    pub(crate) name: String,
    pub(crate) value: Scalar,
    /// The span of the value.
    pub(crate) span: Span,
    /// The span by which another problem is recognised as one of the same option: that of the name of a
    /// variable.
    pub(crate) subject: Span,
    pub(crate) source: Source,
}

/// Where an option is written.
pub(crate) enum Source {
    Hyperparameter,
    /// An environment variable with this name.
    Variable(String),
    /// A word of the entry point or its arguments.
    Word,
    /// The source of the entry point: file and line.
    Script(String),
}

impl Literal {
    /// Returns the option as the script receives or contains it.
    pub(crate) fn shown(&self) -> String {
        let value = trainc_emit::python_str(&self.value);
        match &self.source {
            Source::Variable(name) => format!("{name}={value}"),
            Source::Hyperparameter | Source::Word => format!("--{} {value}", self.name),
            Source::Script(_) => format!("{}={value}", self.name),
        }
    }

    /// Returns the name that the manifest has.
    pub(crate) fn written_name(&self) -> &str {
        match &self.source {
            Source::Variable(name) => name,
            _ => &self.name,
        }
    }

    /// Returns a sentence's start that says where the script has the option from.
    pub(crate) fn statement(&self) -> String {
        match &self.source {
            Source::Script(place) => format!("`{place}` sets `{}`", self.shown()),
            _ => format!("the script receives `{}`", self.shown()),
        }
    }

    /// Adds the place in the script's source, if that sets the option.
    pub(crate) fn with_place(&self, diagnostic: Diagnostic) -> Diagnostic {
        match self.place() {
            Some(place) => diagnostic.note(format!("`{place}` sets it")),
            None => diagnostic,
        }
    }

    /// Returns the place in the script's source, if that sets the option.
    pub(crate) fn place(&self) -> Option<&str> {
        match &self.source {
            Source::Script(place) => Some(place),
            _ => None,
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
            subject: span,
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
            subject: pair.key_span,
            source: Source::Variable(pair.key.clone()),
        });
    }
    // The toolkit ignores the arguments of a container that it starts itself.
    let arguments =
        program.arguments.iter().filter(|_| !program.entrypoint.is_empty() || program.entry.is_absent());
    let words = program.entrypoint.iter().chain(arguments);
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
        out.push(Literal { name: name.to_owned(), value, span, subject: span, source: Source::Word });
    }
    out.extend(in_script(context, &out));
    out
}

/// Returns the options in the source of the entry point: in calls, and defaults of options that the script is
/// not given.
fn in_script(context: &Context, given: &[Literal]) -> Vec<Literal> {
    let plan = context.plan;
    let (Some(program), Some(tree)) = (&plan.job.program, &plan.source) else { return Vec::new() };
    let Some(entry) = program.entry.val().filter(|entry| is_python(&entry.value)) else { return Vec::new() };
    let Some(file) = tree.get(&entry.value) else { return Vec::new() };
    let plain = |name: &str| name.replace('-', "_");
    let is_given = |name: &str| {
        program.hyperparameters.iter().any(|h| plain(&h.name) == plain(name))
            || given.iter().any(|literal| plain(&literal.name) == plain(name))
    };
    let settings = script::settings(file);
    let used = settings.iter().filter(|setting| !(setting.is_default && is_given(&setting.option)));
    used.map(|Setting { option, value, line, .. }| Literal {
        name: option.clone(),
        value: value.clone(),
        span: entry.span_or(program.span),
        subject: entry.span_or(program.span),
        source: Source::Script(format!("{}:{line}", entry.value)),
    })
    .collect()
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
