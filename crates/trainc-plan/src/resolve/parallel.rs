//! Reads `parallel`: the engine, its degrees and its own parameters.

use super::fields::{first_arg, free_properties, integer, scalar, switch_or_true, text};
use super::job::{T0222, T0223};
use trainc_diag::text as words;
use trainc_diag::{Diagnostic, Problems};
use trainc_ir::{Engine, EngineOption, Field, Parallel, Scalar, Val};
use trainc_syntax::ast::{Node, Value};
use trainc_syntax::nodes::{ENGINE_NAMES, OPTIONS, engines_of};

pub(super) fn read(node: &Node, problems: &mut Problems) -> Parallel {
    let engine = engine(node, problems);
    if let Some(engine) = engine.get() {
        check_options(node, engine, problems);
    }
    let pipeline = node.child("pipeline-degree");
    let offload = node.child("offload-activations");
    let options = OPTIONS
        .iter()
        .filter_map(|row| {
            let child = node.child(row.spec.name)?;
            let value = match child.arg(0) {
                // A switch without argument is on.
                None => Field::Is(Val::written(Scalar::Bool(true), child.name.span)),
                some => scalar(some),
            };
            Some(EngineOption { name: row.spec.name, span: child.name.span, value })
        })
        .collect();
    Parallel {
        span: node.name.span,
        engine,
        launcher: text(node.prop("launcher")),
        group: text(node.prop("group")),
        strategy: text(first_arg(node.child("strategy"))),
        shard_degree: integer(first_arg(node.child("shard-degree"))),
        tensor_degree: integer(first_arg(node.child("tensor-degree"))),
        pipeline_degree: integer(first_arg(pipeline)),
        schedule: text(pipeline.and_then(|n| n.prop("schedule"))),
        num_micro_batches: integer(pipeline.and_then(|n| n.prop("microbatches"))),
        num_active_micro_batches: integer(pipeline.and_then(|n| n.prop("active-microbatches"))),
        context_degree: integer(first_arg(node.child("context-degree"))),
        expert_degree: integer(first_arg(node.child("expert-degree"))),
        placement: text(first_arg(node.child("placement"))),
        offload_activations: switch_or_true(offload),
        offload_horizon: integer(offload.and_then(|n| n.prop("horizon"))),
        wrap: text(first_arg(node.child("wrap"))),
        prescaled_batch: switch_or_true(node.child("prescaled-batch")),
        shard_optimizer_state: switch_or_true(node.child("shard-optimizer-state")),
        processes: integer(first_arg(node.child("processes"))),
        options,
        mpi_env: free_properties(node.children_named("mpi-env")),
        mpi_options: text(first_arg(node.child("mpi-options"))),
    }
}

/// Returns true if the engine runs the user's program in the user's image. For an unknown engine the most similar known
/// name decides; without one, no program is required.
pub(super) fn needs_program(node: &Node) -> bool {
    let Field::Is(written) = text(node.prop("engine")) else { return false };
    let known = |name: &str| ENGINE_NAMES.contains(&name);
    let meant = if known(&written.value) {
        Some(written.value.as_str())
    } else {
        engine_for_other_term(&written.value)
            .map(|(name, _)| name)
            .or_else(|| words::nearest(&written.value, ENGINE_NAMES.iter().copied()))
    };
    meant.is_some_and(|name| name != Engine::Worker.name())
}

fn engine(node: &Node, problems: &mut Problems) -> Field<Engine> {
    let written = match text(node.prop("engine")) {
        Field::Is(val) => val,
        Field::Absent => return Field::Absent,
        Field::Bad => return Field::Bad,
    };
    if let Some((_, engine)) = Engine::ALL.iter().find(|(name, _)| *name == written.value) {
        return Field::Is(Val { value: *engine, origin: written.origin });
    }
    let span = written.span_or(node.name.span);
    let known = words::backtick_list(ENGINE_NAMES, "or");
    let mut diagnostic =
        Diagnostic::new(&T0223, span, format!("unknown engine `{}`; expected {known}", written.value));
    if let Some((wanted, why)) = engine_for_other_term(&written.value) {
        diagnostic = diagnostic.write(format!("engine=\"{wanted}\"")).and_text(why);
    } else if let Some(near) = words::nearest(&written.value, ENGINE_NAMES.iter().copied()) {
        diagnostic =
            diagnostic.help(format!("did you mean `engine=\"{near}\"`?")).fix(span, format!("\"{near}\""));
    }
    problems.push(diagnostic.note(
        "the SageMaker Python SDK ignores an unknown strategy and runs one plain process on each host",
    ));
    Field::Bad
}

fn engine_for_other_term(written: &str) -> Option<(&'static str, &'static str)> {
    Some(match written {
        "deepspeed" | "zero" | "zero3" => {
            ("fsdp", ": full sharding is ZeRO-3; `strategy \"shard-grad-op\"` is ZeRO-2")
        }
        "torchrun" | "torch_distributed" | "torch-distributed" => ("ddp", " with `launcher=\"torchrun\"`"),
        "pytorchddp" => ("ddp", " with `launcher=\"pytorchddp\"`"),
        "mpi" | "horovod" => ("ddp", " with `launcher=\"mpi\"`"),
        "smdistributed" | "modelparallel" | "smp-v1" | "smp-v2" | "mics" => {
            ("smp", "; the version of the image selects v1 or v2")
        }
        "dataparallel" | "smdataparallel" => ("smddp", ""),
        "hsdp" | "fsdp2" => ("fsdp", " with `strategy \"hybrid-shard\"`"),
        "device_map" | "auto" => ("device-map", ""),
        _ => return None,
    })
}

/// Launchers of TensorFlow, which replace the engine.
const TENSORFLOW: [&str; 2] = ["parameter-server", "multi-worker-mirrored"];

/// Values of FSDP's `prefetch`: those of PyTorch's `BackwardPrefetch`, and `none`.
const PREFETCH: [&str; 3] = ["backward-pre", "backward-post", "none"];

/// Checks `prefetch`: a word for FSDP, a number of units for the worker.
fn check_prefetch(node: &Node, engine: Engine, problems: &mut Problems) {
    let Some(value) = node.child("prefetch").and_then(|child| child.arg(0)) else { return };
    let Field::Is(written) = scalar(Some(value)) else { return };
    let (takes, help) = match (engine, &written.value) {
        (Engine::Fsdp, Scalar::Text(what)) if PREFETCH.contains(&what.as_str()) => return,
        (Engine::Worker, Scalar::Int(_)) => return,
        (Engine::Fsdp, _) => {
            (words::backtick_list(&PREFETCH, "or"), "write `prefetch \"backward-pre\"`, the PyTorch default")
        }
        (Engine::Worker, _) => ("the number of units gathered ahead".to_owned(), "write `prefetch 1`"),
        _ => return,
    };
    let span = written.span_or(node.name.span);
    let found = match &written.value {
        Scalar::Text(text) => format!("`{text}`"),
        other => other.type_word().to_owned(),
    };
    let message =
        format!("invalid `prefetch` for engine `{}`: expected {takes}, found {found}", engine.name());
    problems.push(Diagnostic::new(&T0222, span, message).help(help));
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
    let of_tensorflow = matches!(&value.value, Value::Text(word) if TENSORFLOW.contains(&word.as_str()));
    let expected = if of_tensorflow { Engine::None } else { Engine::Ddp };
    if engine == expected {
        return;
    }
    if of_tensorflow || engine == Engine::None {
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
                    "engine `{}` does not support `launcher`, which is only valid with `ddp`",
                    engine.name()
                ),
            )
            .remove("launcher"),
        );
    }
}
