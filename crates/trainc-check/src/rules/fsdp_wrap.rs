//! The layer class that FSDP wraps, and by which it gathers parameters.

use crate::Context;
use crate::what_if;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Diagnostic, Problems};
use trainc_predict::{self as predict, Code};

declare_code!(T0396, "fsdp-wrap", Warning, "FSDP without the correct layer class of the model");

/// The codes of this file.
pub(super) static CODES: &[&trainc_diag::Code] = &[&T0396];

/// Reports a missing or wrong layer class: without one FSDP gathers the whole model at once, which saves no
/// memory.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(law) = plan.engine.map(|engine| engine.law).filter(|law| law.wraps) else { return };
    let Some(parallel) = &plan.job.parallel else { return };
    if parallel.strategy.is_bad() || !law.is_sharded(parallel) {
        return;
    }
    // The node describes an argument of Hugging Face's Trainer; other code has its own layers, and names them
    // itself.
    let code = plan.job.program.as_ref().and_then(|program| program.code.value());
    let is_other = code.and_then(|name| Code::parse(name)).is_some_and(|code| code != Code::HuggingFace);
    if is_other || predict::script_wraps_model(plan) {
        return;
    }
    let architecture = plan.model.as_ref().and_then(|model| model.architecture.as_ref());
    let right = architecture
        .map(|architecture| architecture.family.wrap_class())
        .filter(|class| !class.is_empty());
    if let Some(wrap) = parallel.wrap.val() {
        let Some(right) = right else { return };
        if wrap.value.split(',').any(|name| name.trim() == right) {
            return;
        }
        let span = wrap.span_or(parallel.span);
        let model = plan.model.as_ref().map_or("", |model| model.name.as_str());
        let near = text::nearest(&wrap.value, [right]).is_some();
        problems.push(
            Diagnostic::new(&T0396, span, format!("`{model}` has no layer class `{}`; its layer class is \
                `{right}`", wrap.value))
                .help(if near { format!("did you mean `\"{right}\"`?") } else { format!("write `wrap \"{right}\"`") })
                .fix(span, format!("\"{right}\""))
                .note("an unmatched class makes the whole model one FSDP unit, or the Trainer fails: \
                    \"Could not find the transformer layer class to wrap\"")
                .fact("wrap", right),
        );
        return;
    }
    if !predict::is_one_fsdp_unit(plan) {
        return;
    }
    let at = parallel.engine.span().unwrap_or(parallel.span);
    let mut diagnostic =
        Diagnostic::new(&T0396, at, "FSDP without `wrap` gathers the whole model at once on every GPU");
    if let Some(model) = &plan.model {
        let bytes =
            if plan.job.train.precision.value().is_some_and(|precision| precision == "fp32") { 4 } else { 2 };
        let gathered = model.parameters.value.saturating_mul(bytes);
        diagnostic = diagnostic
            .note(format!(
                "{} parameters × {bytes} B = {} in addition to the shards (huggingface/accelerate#3474)",
                text::group_digits(model.parameters.value),
                text::bytes(gathered)
            ))
            .fact("gathered_bytes", gathered);
    }
    if let Some(bill) = what_if::describe_gain(context, |layout| layout.one_unit = false) {
        diagnostic = diagnostic.note(bill);
    }
    problems.push(match right {
        Some(right) => diagnostic.add(format!("wrap \"{right}\"")).fact("wrap", right),
        None => diagnostic.help("add `wrap` with the layer class, e.g. `wrap \"LlamaDecoderLayer\"`"),
    });
}
