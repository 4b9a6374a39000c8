//! Checks the engine of `parallel`, and that it supports what is written with it.

use super::job::{T0222, T0223};
use trainc_diag::source::Span;
use trainc_diag::text as words;
use trainc_diag::{Diagnostic, Problems};
use trainc_ir::engine::Prefetch;
use trainc_ir::{Engine, Scalar};
use trainc_syntax::ast::{Node, Value};
use trainc_syntax::nodes::{ENGINE_NAMES, engines_of};
use trainc_syntax::suggestions::engine_alias;

/// Checks the engine and whether it supports what is written with it.
pub(super) fn check(job: &Node, problems: &mut Problems) {
    let Some(node) = job.child("parallel") else { return };
    if let Some(engine) = engine(node, problems) {
        check_options(node, engine, problems);
    }
}

/// Returns true if the engine runs the user's program in the user's image. For an unknown engine the most
/// similar known name decides; without one, no program is required.
pub(super) fn needs_program(node: &Node) -> bool {
    let Some((written, _)) = engine_text(node) else { return false };
    let meant = if ENGINE_NAMES.contains(&written) {
        Some(written)
    } else {
        engine_alias(written)
            .map(|(name, _)| name)
            .or_else(|| words::nearest(written, ENGINE_NAMES.iter().copied()))
    };
    meant.and_then(trainc_engine::find).is_some_and(|engine| engine.front.runs_program)
}

fn engine_text(node: &Node) -> Option<(&str, Span)> {
    let written = node.prop("engine")?;
    match &written.value {
        Value::Text(text) => Some((text, written.span)),
        _ => None,
    }
}

fn engine(node: &Node, problems: &mut Problems) -> Option<Engine> {
    let (written, span) = engine_text(node)?;
    if let Some(engine) = trainc_engine::find(written) {
        return Some(engine);
    }
    let known = words::backtick_list(ENGINE_NAMES, "or");
    let mut diagnostic =
        Diagnostic::new(&T0223, span, format!("unknown engine `{written}`; expected {known}"));
    if let Some((wanted, why)) = engine_alias(written) {
        diagnostic = diagnostic.write(format!("engine=\"{wanted}\"")).and_text(why);
    } else if let Some(near) = words::nearest(written, ENGINE_NAMES.iter().copied()) {
        diagnostic =
            diagnostic.help(format!("did you mean `engine=\"{near}\"`?")).fix(span, format!("\"{near}\""));
    }
    problems.push(diagnostic.note(
        "the SageMaker Python SDK ignores an unknown strategy and runs one plain process on each host",
    ));
    None
}

/// Checks `prefetch`: a word or a number of units.
fn check_prefetch(node: &Node, engine: Engine, problems: &mut Problems) {
    let Some(value) = node.child("prefetch").and_then(|child| child.arg(0)) else { return };
    let Some(written) = Scalar::from_value(&value.value) else { return };
    let (takes, help) = match (engine.front.prefetch, &written) {
        (Some(Prefetch::Words(known)), Scalar::Text(what)) if known.contains(&what.as_str()) => return,
        (Some(Prefetch::Units), Scalar::Int(_)) => return,
        (Some(Prefetch::Words(known)), _) => {
            (words::backtick_list(known, "or"), "write `prefetch \"backward-pre\"`, the PyTorch default")
        }
        (Some(Prefetch::Units), _) => ("the number of units gathered ahead".to_owned(), "write `prefetch 1`"),
        (None, _) => return,
    };
    let found = match &written {
        Scalar::Text(text) => format!("`{text}`"),
        other => other.type_word().to_owned(),
    };
    let message =
        format!("invalid `prefetch` for engine `{}`: expected {takes}, found {found}", engine.name());
    problems.push(Diagnostic::new(&T0222, value.span, message).help(help));
}

fn check_options(node: &Node, engine: Engine, problems: &mut Problems) {
    check_prefetch(node, engine, problems);
    for child in &node.children {
        let name = child.name.value.as_str();
        let Some(takers) = child.spec.and_then(engines_of) else { continue };
        if !takers.contains(&engine.name()) {
            let mut diagnostic = Diagnostic::new(
                &T0222,
                child.name.span,
                format!(
                    "engine `{}` does not support `{name}`, which is only valid with {}",
                    engine.name(),
                    words::backtick_list(takers, "or")
                ),
            );
            if let Some(engine_span) = node.prop("engine").map(|value| value.span) {
                diagnostic = diagnostic.label(engine_span, "the engine");
            }
            problems.push(
                diagnostic.remove(name).or_else(&format!("use {}", words::backtick_list(takers, "or"))),
            );
        }
    }
    let written = node.props.iter().find(|(key, value)| key.value == "launcher" && value.value != Value::Bad);
    let Some((key, value)) = written else { return };
    let Value::Text(word) = &value.value else { return };
    let Some(expected) = trainc_engine::with_launcher(word) else { return };
    if engine.front.takes_launcher(word) {
        return;
    }
    // A plain script has launchers of its own: those of TensorFlow, which replace the engine.
    if expected.law.is_script() || engine.law.is_script() {
        problems.push(
            Diagnostic::new(
                &T0222,
                key.span.to(value.span),
                format!("this launcher is only valid with engine `{}`", expected.name()),
            )
            .write(format!("engine=\"{}\"", expected.name()))
            .or_remove("launcher"),
        );
    } else {
        problems.push(
            Diagnostic::new(
                &T0222,
                key.span.to(value.span),
                format!(
                    "engine `{}` does not support `launcher`, which is only valid with `{}`",
                    engine.name(),
                    expected.name()
                ),
            )
            .remove("launcher"),
        );
    }
}
