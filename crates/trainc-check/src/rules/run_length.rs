//! Runs that are shorter than one step. Data of an epoch that are less are T0373.

use crate::Context;
use crate::codes;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};

// What is said of a run with one step is not meant.
declare_code!(
    T0841,
    "less-than-a-step",
    Error,
    "a run length that is less than one step",
    supersedes: { Job: [codes::T0264, codes::T0319] }
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0841];

/// Compares the tokens of the run with those of a step.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(batch), Some(tokens)) = (&plan.batch, plan.job.train.tokens.val()) else { return };
    let Some(per_step) = batch.global_tokens.filter(|per_step| tokens.value < *per_step) else { return };
    let diagnostic = Diagnostic::new(
        &T0841,
        tokens.span_or(plan.job.span),
        format!(
            "{} are less than one step, which has {}",
            text::count(tokens.value, "token"),
            text::group_digits(per_step)
        ),
    )
    .help("write the tokens of the whole run, such as `tokens 20_000_000_000`, or `steps`")
    .fact("step_tokens", per_step);
    let place = batch.global_sequences.origin.span().or(batch.micro_batch_size.origin.span());
    problems.push(match place {
        Some(at) => {
            diagnostic.label(at, format!("{} a step", text::count(batch.global_sequences.value, "sequence")))
        }
        None => diagnostic,
    });
}
