//! How FSDP's states are saved: what rank 0 gathers, and whether the final model has weights.

use crate::Context;
use crate::queries::literals::literals;
use crate::queries::memory::format_bytes;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::script::makes_trainer;
use trainc_ir::{ForeignFile, Plan};
use trainc_predict::{Layout, run};

declare_code!(
    T0856,
    "gathered-checkpoint",
    Warning,
    "checkpoints that one rank gathers whole"
);
declare_code!(
    T0857,
    "final-model-without-weights",
    Warning,
    "a final model that is saved without its weights"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0856, &T0857];

/// The option, variable or key that says how states are saved, without what stands in front of it.
const STATE_DICT_TYPE: &str = "state_dict_type";

/// Bytes a second at which one process gathers and writes states: a rule of thumb.
const GATHERED_BYTES_PER_SECOND: f64 = 1e9;

/// The time after which NCCL's watchdog ends a run whose ranks wait, in seconds (PyTorch 2.8,
/// `init_process_group`).
const WATCHDOG_SECONDS: f64 = 600.0;

/// Checks the type of the state dict, wherever it is written.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    if !plan.engine.is_some_and(|engine| engine.law.can_shard()) || plan.is_worker() {
        return;
    }
    let Some((value, span)) = state_dict_type(context) else { return };
    let value = value.to_ascii_uppercase();
    if value.contains("FULL") || value == "1" {
        problems_of_full(plan, span, problems);
    } else if value.contains("SHARDED") {
        problems_of_sharded(plan, span, problems);
    }
}

/// Returns the type of the state dict, and where it is written.
fn state_dict_type(context: &Context) -> Option<(String, Span)> {
    let plan = context.plan;
    let is_it = |name: &str| name.rsplit('.').next().is_some_and(|name| name.ends_with(STATE_DICT_TYPE));
    let literal = literals(context).into_iter().find(|literal| is_it(&literal.name.replace('-', "_")));
    if let Some(literal) = literal {
        return Some((literal.value.python(), literal.span));
    }
    let of = |file: &ForeignFile| {
        let setting = file.settings.iter().find(|setting| is_it(&setting.key))?;
        Some((setting.value.scalar()?.python(), setting.value_span))
    };
    if let Some(found) = plan.files.iter().find_map(of) {
        return Some(found);
    }
    let written = plan.written_file().and_then(|_| trainc_engine::write::read_back(plan))?;
    let parallel = plan.job.parallel.as_ref()?;
    Some((of(&written)?.0, parallel.engine.span().unwrap_or(parallel.span)))
}

/// Reports states that are too large for one host, or take it longer than its ranks wait.
fn problems_of_full(plan: &Plan, span: Span, problems: &mut Problems) {
    // Of an adapter only its own parameters are trained and saved.
    if plan.job.adapter.is_some() || plan.job.checkpoint.is_none() {
        return;
    }
    let Ok(layout) = Layout::from_plan(plan) else { return };
    let bytes = run::checkpoint_bytes(&layout);
    let instance = plan.instance.as_ref();
    let host = instance.and_then(|instance| instance.host_memory_bytes).map(|bytes| bytes as f64);
    let seconds = bytes / GATHERED_BYTES_PER_SECOND;
    let is_large = host.is_some_and(|host| bytes > host / 2.0);
    if !is_large && seconds < WATCHDOG_SECONDS {
        return;
    }
    let mut message =
        format!("each checkpoint gathers {} of weights and optimizer states on rank 0", format_bytes(bytes));
    if let Some(host) = host {
        message.push_str(&format!("; its host has {}", format_bytes(host)));
    }
    problems.push(
        Diagnostic::new(&T0856, span, message)
            .help("write `SHARDED_STATE_DICT`, and gather the weights once, after the training")
            .note(format!(
                "about {} at 1 GB/s (rule of thumb), while the other ranks wait: NCCL's watchdog ends them after \
                 10 minutes; the plan predicts sharded checkpoints",
                text::rounded_duration(seconds)
            ))
            .note("pytorch/pytorch#143536, huggingface/transformers#25100"),
    );
}

/// Reports a model that a Trainer saves while its states are sharded.
fn problems_of_sharded(plan: &Plan, span: Span, problems: &mut Problems) {
    let Some(script) = &plan.script else { return };
    let has_trainer = script.modules.iter().any(|one| makes_trainer(&one.module));
    let changes_type = script.calls("set_state_dict_type").next().is_some();
    // A function of the program itself may have this name.
    let is_method = |call: &trainc_python::Call| call.name.contains('.');
    let Some((module, save)) = script.calls("save_model").find(|(_, call)| is_method(call)) else { return };
    if !has_trainer || changes_type || plan.job.adapter.is_some() {
        return;
    }
    problems.push(
        Diagnostic::new(&T0857, span, "`save_model` writes no weights while the state dict is sharded")
            .label(module.span(&save.at), "the final model")
            .help(
                "call `trainer.accelerator.state.fsdp_plugin.set_state_dict_type(\"FULL_STATE_DICT\")` before \
                 `save_model`",
            )
            .note("transformers 5.24.0 trainer.py:4105: under FSDP only FULL_STATE_DICT is written; the model's \
                   directory has a configuration and no weights (huggingface/transformers#30491)"),
    );
}
