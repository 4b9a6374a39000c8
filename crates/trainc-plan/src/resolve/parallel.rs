//! Checks the engine of `parallel`, and that it supports what is written with it.

use super::job::{T0222, T0223};
use trainc_diag::source::{SourceId, Span};
use trainc_diag::text as words;
use trainc_diag::{Diagnostic, Problems};
use trainc_engine::fronts;
use trainc_ir::engine::Prefetch;
use trainc_ir::{Engine, Scalar};
use trainc_syntax::ast::{Node, Value};
use trainc_syntax::nodes::{ENGINE_NAMES, engines_of};
use trainc_syntax::suggestions::engine_alias;

/// Checks the engine and whether it supports what is written with it.
pub(super) fn check(job: &Node, of_files: &[SourceId], problems: &mut Problems) {
    let Some(node) = job.child("parallel") else { return };
    if let Some(engine) = engine(node, problems) {
        check_options(node, engine, of_files, problems);
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
            .and_then(|(name, _)| name)
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
        diagnostic = match wanted {
            Some(wanted) => diagnostic.write(format!("engine=\"{wanted}\"")).and_text(why),
            None => diagnostic.help(why),
        };
    } else if let Some(near) = words::nearest(written, ENGINE_NAMES.iter().copied()) {
        diagnostic =
            diagnostic.help(format!("did you mean `engine=\"{near}\"`?")).fix(span, format!("\"{near}\""));
    }
    problems.push(diagnostic.note(
        "the SageMaker Python SDK ignores an unknown strategy and runs one plain process on each host",
    ));
    None
}

/// Returns whether an engine accepts the value of a child that it supports.
pub(super) fn takes_value(engine: Engine, child: &Node) -> bool {
    let Some(value) = child.arg(0).map(|arg| &arg.value) else { return true };
    match child.name.value.as_str() {
        "prefetch" => takes_prefetch(engine, value),
        "strategy" => takes_strategy(engine.front.strategies(), value),
        "offload" => takes_offload(engine, value),
        _ => true,
    }
}

/// Returns whether an engine accepts a property of `parallel`.
pub(super) fn takes_property(engine: Engine, name: &str, value: &Value) -> bool {
    match (name, value) {
        _ if is_of_program(name) => engine.front.file.is_some(),
        ("launcher", Value::Text(word)) => engine.front.takes_launcher(word),
        _ => true,
    }
}

/// Returns whether a property of `parallel` is about the program with a file of its own.
pub(super) fn is_of_program(name: &str) -> bool {
    matches!(name, "file" | "version")
}

fn takes_prefetch(engine: Engine, value: &Value) -> bool {
    match (engine.front.prefetch, Scalar::from_value(value)) {
        (Some(Prefetch::Words(known)), Some(Scalar::Text(word))) => known.contains(&word.as_str()),
        (Some(Prefetch::Units), Some(written)) => matches!(written, Scalar::Int(_)),
        (Some(Prefetch::Words(_)), Some(_)) => false,
        (None, _) | (_, None) => true,
    }
}

/// Returns whether a strategy is one of these. What is no strategy of any engine is reported by the reader,
/// and the node where the engine has none.
fn takes_strategy(known: impl Iterator<Item = &'static str>, value: &Value) -> bool {
    let Value::Text(word) = value else { return true };
    let known: Vec<&str> = known.collect();
    let is_a_strategy = fronts::ALL.iter().any(|front| front.strategies().any(|one| one == word));
    known.is_empty() || !is_a_strategy || known.contains(&word.as_str())
}

/// Returns whether an engine offloads what a word of `offload` names: the optimizer states alone.
fn takes_offload(engine: Engine, value: &Value) -> bool {
    !matches!(value, Value::Text(_)) || engine.front.laws.iter().any(|law| law.offloads_optimizer)
}

/// Checks `prefetch`: a word or a number of units.
fn check_prefetch(node: &Node, engine: Engine, problems: &mut Problems) {
    let Some(value) = node.child("prefetch").and_then(|child| child.arg(0)) else { return };
    let Some(written) = Scalar::from_value(&value.value).filter(|_| !takes_prefetch(engine, &value.value))
    else {
        return;
    };
    let (takes, help) = match engine.front.prefetch {
        Some(Prefetch::Words(known)) => {
            (words::backtick_list(known, "or"), "write `prefetch \"backward-pre\"`, the PyTorch default")
        }
        Some(Prefetch::Units) => ("the number of units gathered ahead".to_owned(), "write `prefetch 1`"),
        None => return,
    };
    let found = match &written {
        Scalar::Text(text) => format!("`{text}`"),
        other => other.type_word().to_owned(),
    };
    let message =
        format!("invalid `prefetch` for engine `{}`: expected {takes}, found {found}", engine.name());
    problems.push(Diagnostic::new(&T0222, value.span, message).help(help));
}

/// Checks `strategy`: a word of one of the engine's laws.
fn check_strategy(node: &Node, engine: Engine, of_files: &[SourceId], problems: &mut Problems) {
    let Some(value) = node.child("strategy").and_then(|child| child.arg(0)) else { return };
    let Value::Text(word) = &value.value else { return };
    let mut known: Vec<&'static str> = engine.front.strategies().collect();
    if of_files.contains(&value.span.source) {
        let laws = engine.front.laws_of_files.iter().flat_map(|law| law.strategies);
        known.extend(laws.map(|strategy| strategy.word));
    }
    if takes_strategy(known.iter().copied(), &value.value) {
        return;
    }
    let expected = words::backtick_list(&known, "or");
    let message =
        format!("engine `{}` does not support strategy `{word}`: expected {expected}", engine.name());
    let mut diagnostic = Diagnostic::new(&T0222, value.span, message);
    if let Some(at) = node.prop("engine").map(|value| value.span) {
        diagnostic = diagnostic.label(at, "the engine");
    }
    let takers = fronts::ALL.iter().filter(|front| front.strategies().any(|one| one == word));
    let takers: Vec<String> = takers.map(|front| format!("engine=\"{}\"", front.word)).collect();
    problems.push(match same_sharding(engine, word) {
        Some(same) => diagnostic.write(format!("strategy \"{same}\"")).and_text(", which shards the same"),
        None => diagnostic.choose(format!("write {}", words::backtick_list(&takers, "or")), &takers),
    });
}

/// Returns the strategy of an engine that shards what a strategy of another engine does.
fn same_sharding(engine: Engine, word: &str) -> Option<&'static str> {
    let mut laws = fronts::ALL.iter().flat_map(|front| front.laws);
    let meant = laws.find_map(|law| law.strategies.iter().find(|strategy| strategy.word == word))?;
    let mut own = engine.front.laws.iter().flat_map(|law| law.strategies);
    let same =
        own.find(|strategy| (strategy.sharding, strategy.is_whole()) == (meant.sharding, meant.is_whole()))?;
    Some(same.word)
}

/// Checks `file=` and `version=`, which are of programs with a file of their own, and a word of `offload`.
fn check_programs(node: &Node, engine: Engine, of_files: &[SourceId], problems: &mut Problems) {
    let takers: Vec<&str> =
        fronts::ALL.iter().filter(|front| front.file.is_some()).map(|front| front.word).collect();
    let is_taken = engine.front.file.is_some();
    let written = node.props.iter().filter(|(key, _)| is_of_program(&key.value));
    for (key, value) in written.filter(|_| !is_taken) {
        problems.push(
            Diagnostic::new(
                &T0222,
                key.span.to(value.span),
                format!(
                    "engine `{}` does not support `{}`, which is only valid with {}",
                    engine.name(),
                    key.value,
                    words::backtick_list(&takers, "or")
                ),
            )
            .remove(key.value.as_str()),
        );
    }
    let Some(value) = node.child("offload").and_then(|child| child.arg(0)) else { return };
    let is_of_file = of_files.contains(&value.span.source);
    if !takes_offload(engine, &value.value) && !is_of_file {
        problems.push(
            Diagnostic::new(
                &T0222,
                value.span,
                format!("engine `{}` does not move the optimizer states alone to the host", engine.name()),
            )
            .write("offload #true")
            .or_remove("offload"),
        );
    }
}

fn check_options(node: &Node, engine: Engine, of_files: &[SourceId], problems: &mut Problems) {
    check_prefetch(node, engine, problems);
    check_strategy(node, engine, of_files, problems);
    check_programs(node, engine, of_files, problems);
    for child in &node.children {
        let name = child.name.value.as_str();
        let Some(takers) = child.spec.and_then(engines_of) else { continue };
        // The law that a file selects may have more than the engine's own.
        if !takers.contains(&engine.name()) && !of_files.contains(&child.name.span.source) {
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
