//! The texts that expressions of the program have, as far as they are known.

use trainc_diag::source::Span;
use trainc_ir::{OptionDefault, Plan, Scalar, ScriptModule};
use trainc_python::{Argument, Call, Expr};

/// The text of an expression.
pub(crate) struct KnownText {
    /// The text.
    pub(crate) text: String,
    /// The place in the manifest that decides it, if one does.
    pub(crate) span: Option<Span>,
}

/// Returns the argument of a call with this keyword, or at this position without one.
pub(crate) fn argument<'a>(call: &'a Call, keyword: &str, position: usize) -> Option<&'a Argument> {
    call.keyword(keyword).or_else(|| call.positional().nth(position))
}

/// Returns the text of an expression: a literal, a name that a module sets once, or an option of the command
/// line.
pub(crate) fn text_of(plan: &Plan, module: &ScriptModule, value: &Expr) -> Option<KnownText> {
    match value {
        Expr::Text(text) => Some(KnownText { text: text.clone(), span: None }),
        Expr::Name(name) => option_text(plan, name).or_else(|| constant(module, name)),
        _ => None,
    }
}

/// Returns the text of a name to which a module assigns one literal.
fn constant(module: &ScriptModule, name: &str) -> Option<KnownText> {
    let mut all = module.module.assignments.iter().filter(|one| one.name == name);
    let (first, None) = (all.next()?, all.next()) else { return None };
    match &first.value {
        Expr::Text(text) => Some(KnownText { text: text.clone(), span: None }),
        _ => None,
    }
}

/// Returns the text of an option: `args.model_id` has the value of the hyperparameter, else its default.
fn option_text(plan: &Plan, name: &str) -> Option<KnownText> {
    let (_, attribute) = name.rsplit_once('.')?;
    let line = plan.script.as_ref()?.command_line.as_ref()?;
    let option = line.options.iter().find(|option| option.attribute == attribute)?;
    let program = plan.job.program.as_ref()?;
    let is_it = |written: &str| option.names.iter().any(|one| one == written);
    if let Some(passed) = program.hyperparameters.iter().find(|h| is_it(&h.name)) {
        let val = passed.value.val()?;
        let Scalar::Text(text) = &val.value else { return None };
        return Some(KnownText { text: text.clone(), span: Some(val.span_or(passed.name_span)) });
    }
    match &option.default {
        OptionDefault::Value(Scalar::Text(text)) => Some(KnownText { text: text.clone(), span: None }),
        _ => None,
    }
}
