//! The sequence length compared with the parts into which context and tensor ranks divide it.

use crate::Context;
use crate::codes;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};

// The same of a file's key is T0807.
declare_code!(
    T0837,
    "sequence-not-divisible",
    Error,
    "a sequence length that the ranks cannot divide evenly",
    ends: Speed,
    supersedes: { Value: [codes::T0807] }
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0837];

/// Compares the length with the parts. A context degree that does not divide it is reported as such: T0391.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(mesh), Some(parallel)) = (&plan.mesh, &plan.job.parallel) else { return };
    let Some(length) = plan.job.train.sequence_length.val() else { return };
    let (own, law) = (&mesh.context_degree, mesh.law);
    if !length.value.is_multiple_of(own.value.max(1)) {
        return;
    }
    let context_parts = if own.value > 1 { law.context_parts.saturating_mul(own.value) } else { 1 };
    let tensor = &mesh.tensor_degree;
    let tensor_parts = if law.tensor_divides_sequence { tensor.value.max(1) } else { 1 };
    let parts = context_parts.saturating_mul(tensor_parts);
    if parts <= 1 || length.value.is_multiple_of(parts) {
        return;
    }
    let mut factors: Vec<String> = Vec::new();
    if context_parts > 1 {
        factors.push(format!("{} × `context-degree` {}", law.context_parts, own.value));
    }
    if tensor_parts > 1 {
        factors.push(format!("`tensor-degree` {}", tensor.value));
    }
    let below = length.value / parts * parts;
    let near: Vec<String> = [below, below.saturating_add(parts)]
        .into_iter()
        .filter(|value| *value > 0)
        .map(|value| format!("sequence-length {value}"))
        .collect();
    let mut diagnostic = Diagnostic::new(
        &T0837,
        length.span_or(parallel.span),
        format!(
            "a sequence of {} tokens is not divisible by {} = {parts}",
            text::group_digits(length.value),
            factors.join(" × ")
        ),
    )
    .choose(format!("write {}, and pad or cut the sequences", text::backtick_list(&near, "or")), &near)
    .fact("parts", parts);
    if context_parts > 1 {
        diagnostic = diagnostic.label(own.span_or(parallel.span), "context ranks").note(
            "each context rank holds one part from the beginning of a sequence and one from its end, so that \
                causal attention is balanced",
        );
    }
    if tensor_parts > 1 {
        diagnostic = diagnostic
            .label(tensor.span_or(parallel.span), "tensor ranks")
            .note("between layers the tensor ranks divide the sequence, too");
    }
    problems.push(diagnostic);
}
