//! Options that the manifest gives to the program with literal values, and those in the source of its script.

use crate::Context;
use std::collections::BTreeMap;
use trainc_catalog::vocabulary::{self, OptionMeaning};
use trainc_diag::Diagnostic;
use trainc_diag::source::Span;
use trainc_ir::Scalar;
use trainc_ir::script::literal;
use trainc_plan::script::known_arguments;

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
    /// A key of a file that an argument names.
    File {
        /// Its path in the source.
        path: String,
        /// The table of its keys.
        table: &'static str,
    },
    /// A call in the program: file and line, and the place.
    Script(String, Span),
}

impl Literal {
    /// Returns what the option means.
    pub(crate) fn meaning(&self) -> Option<&'static OptionMeaning> {
        match &self.source {
            Source::File { table, .. } => vocabulary::of_class(table, &self.name),
            Source::Hyperparameter | Source::Variable(_) | Source::Word | Source::Script(..) => {
                vocabulary::get(&self.name)
            }
        }
    }

    /// Returns the option as the script receives or contains it.
    pub(crate) fn shown(&self) -> String {
        let value = self.value.python();
        match &self.source {
            Source::Variable(name) => format!("{name}={value}"),
            Source::Hyperparameter | Source::Word => format!("--{} {value}", self.name),
            Source::Script(..) => format!("{}={value}", self.name),
            Source::File { .. } => format!("{}: {value}", self.name),
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
            Source::Script(place, _) | Source::File { path: place, .. } => {
                format!("`{place}` sets `{}`", self.shown())
            }
            _ => format!("the script receives `{}`", self.shown()),
        }
    }

    /// Adds the place in the script's source, if that sets the option.
    pub(crate) fn with_place(&self, diagnostic: Diagnostic) -> Diagnostic {
        match &self.source {
            Source::Script(_, at) => diagnostic.label(*at, "set here"),
            _ => diagnostic,
        }
    }

    /// Returns the place in the script's source, if that sets the option.
    pub(crate) fn place(&self) -> Option<&str> {
        match &self.source {
            Source::Script(place, _) => Some(place),
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
    let parts: Vec<(&str, Span)> = program
        .words()
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
    for file in &context.plan.named_files {
        out.extend(file.settings.iter().filter_map(|setting| {
            Some(Literal {
                name: setting.key.clone(),
                value: setting.value.scalar()?.clone(),
                span: setting.value_span,
                subject: setting.value_span,
                source: Source::File { path: file.path.clone(), table: file.table },
            })
        }));
    }
    out.extend(in_script(context));
    out
}

/// Returns the options that calls in the program set to literals. An option with several values is left out:
/// which of them is used is not known.
fn in_script(context: &Context) -> Vec<Literal> {
    let plan = context.plan;
    let (Some(program), Some(script)) = (&plan.job.program, &plan.script) else { return Vec::new() };
    let Some(entry) = program.entry.val() else { return Vec::new() };
    let mut found: BTreeMap<&str, Option<Literal>> = BTreeMap::new();
    for known in known_arguments(script) {
        let Some(value) = literal(&known.argument.value) else { continue };
        let place = format!("{}:{}", known.module.path, known.module.line(&known.argument.at));
        let one = Literal {
            name: known.option.to_owned(),
            value,
            span: entry.span_or(program.span),
            subject: entry.span_or(program.span),
            source: Source::Script(place, known.module.span(&known.argument.at)),
        };
        match found.get_mut(known.option) {
            Some(other) if other.as_ref().is_some_and(|other| other.value != one.value) => *other = None,
            Some(_) => {}
            None => {
                found.insert(known.option, Some(one));
            }
        }
    }
    found.into_values().flatten().collect()
}
