//! What the program does in addition to training that memory and time do not have.

use crate::Context;
use crate::queries::memory::{format_bytes, predicted_memory};
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Plan, Scalar};
use trainc_predict::Layout;

declare_code!(T0826, "work-not-predicted", Note, "work in addition to training that the plan does not have");
declare_code!(
    T0827,
    "generation-memory",
    Error,
    "an engine of inference that leaves too little memory for the training",
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
        let note = format!("{} of the plan are those of the training alone", text::list(&parts, "and"));
        problems.push(Diagnostic::new(&T0826, one.span, message).note(note));
    }
    report_generation(context, plan, problems);
}

/// Reports that vLLM, in the processes of the training, takes a share of each GPU that the training needs.
fn report_generation(context: &Context, plan: &Plan, problems: &mut Problems) {
    let Some(program) = &plan.job.program else { return };
    let find = |name: &str| program.hyperparameters.iter().find(|h| h.name.replace('-', "_") == name);
    let value = |name: &str| find(name).and_then(|h| h.value.val());
    let is_on = |name: &str| value(name).and_then(|val| val.value.truth()) == Some(true);
    // It frees its memory while the model trains.
    if !is_on("use_vllm") || is_on("vllm_enable_sleep_mode") {
        return;
    }
    let is_colocated = value("vllm_mode").is_some_and(|val| val.value == Scalar::Text("colocate".to_owned()));
    let (Some(share), true) = (value("vllm_gpu_memory_utilization"), is_colocated) else { return };
    let Some(part) = share.value.number().filter(|part| (0.0..=1.0).contains(part)) else { return };
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
    let span = share.span_or(program.span);
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
            "write a share of at most {:.2}, pass `vllm_enable_sleep_mode`, or generate on other GPUs",
            f64::max(0.0, 1.0 - states / capacity as f64)
        ))
        .note("huggingface/trl#2688: the same process holds both"),
    );
}
