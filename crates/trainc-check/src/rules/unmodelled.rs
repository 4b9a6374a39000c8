//! What the program does in addition to training that memory and time do not have.

use crate::Context;
use crate::queries::literals::literals;
use crate::queries::memory::{format_bytes, predicted_memory};
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::script::literal;
use trainc_ir::{ARGUMENT_CLASSES, Plan};
use trainc_predict::Layout;

declare_code!(T0826, "work-not-predicted", Note, "work in addition to training that the plan does not have");
declare_code!(
    T0827,
    "generation-memory",
    Error,
    "an inference engine that leaves too little memory for the training",
    allowable: Prediction
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0826, &T0827];

/// Reports work that is not predicted.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    for one in &plan.unmodelled {
        let parts: Vec<&str> = [("memory", one.takes_memory), ("time", one.takes_time)]
            .into_iter()
            .filter_map(|(part, is_taken)| is_taken.then_some(part))
            .collect();
        let message = format!("not predicted: {}", one.what);
        let covers = if parts.len() == 1 { "covers" } else { "cover" };
        let note = format!("{} in the plan {covers} training only", text::list(&parts, "and"));
        problems.push(Diagnostic::new(&T0826, one.span, message).note(note));
    }
    report_generation(context, plan, problems);
}

/// Reports that vLLM, in the processes of the training, takes a share of each GPU that the training needs.
fn report_generation(context: &Context, plan: &Plan, problems: &mut Problems) {
    let passed = literals(context);
    let calls = || plan.script.iter().flat_map(|script| &script.modules).flat_map(|module| {
        let calls = module.module.calls.iter().filter(|call| ARGUMENT_CLASSES.contains(&call.function()));
        calls.map(move |call| (module, call))
    });
    let value = |name: &str| {
        let passed = passed.iter().find(|one| one.name.replace('-', "_") == name);
        let in_call = || {
            calls().find_map(|(module, call)| {
                let argument = call.keyword(name)?;
                Some((literal(&argument.value)?, module.span(&argument.at)))
            })
        };
        passed.map(|one| (one.value.clone(), one.span)).or_else(in_call)
    };
    let is_on = |name: &str| value(name).and_then(|(value, _)| value.truth()) == Some(true);
    // It frees its memory while the model trains.
    if !is_on("use_vllm") || is_on("vllm_enable_sleep_mode") {
        return;
    }
    let is_colocated = value("vllm_mode").is_some_and(|(mode, _)| mode.python() == "colocate");
    let (Some((share, span)), true) = (value("vllm_gpu_memory_utilization"), is_colocated) else { return };
    let Some(part) = share.number().filter(|part| (0.0..=1.0).contains(part)) else { return };
    let machine = plan.machine.as_ref();
    let Some(capacity) = machine.and_then(trainc_ir::plan::Machine::rank_memory_bytes) else { return };
    let Ok(layout) = Layout::from_plan(plan) else { return };
    let memory = predicted_memory(context, &layout);
    // At least the states of the model stay where they are.
    let states = memory.parts.parameters + memory.parts.gradients + memory.parts.optimizer;
    let left = capacity as f64 * (1.0 - part);
    if states <= left {
        return;
    }
    // Rounded down, so that the states fit.
    let most = (f64::max(0.0, 1.0 - states / capacity as f64) * 100.0).floor() / 100.0;
    problems.push(
        Diagnostic::new(
            &T0827,
            span,
            format!(
                "vLLM takes {} of {}, which leaves {} for the training: its states alone need {}",
                format_bytes(capacity as f64 * part),
                text::bytes(capacity),
                format_bytes(left),
                format_bytes(states)
            ),
        )
        .help(format!(
            "write a share of at most {most:.2}, pass `vllm_enable_sleep_mode`, or generate on other GPUs"
        ))
        .note("huggingface/trl#2688: the same process holds both"),
    );
}
