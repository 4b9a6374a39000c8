//! The global batch compared with the dataset.

use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};

declare_code!(
    T0373,
    "batch-exceeds-dataset",
    Warning,
    "a global batch with more sequences than the dataset has"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0373];

/// Reports an epoch of less than one step: loaders that drop the last batch never make a step.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(batch), Some(dataset)) = (&plan.batch, &plan.job.train.dataset) else { return };
    let global = batch.global_sequences.value;
    let (sequences, span) =
        match (dataset.sequences.val(), dataset.tokens.val(), plan.job.train.sequence_length.get()) {
            (Some(val), _, _) => (val.value, val.span_or(dataset.span)),
            (None, Some(val), Some(length)) => (val.value.div_ceil(length.max(1)), val.span_or(dataset.span)),
            _ => return,
        };
    if sequences >= global {
        return;
    }
    let shown = trainc_plan::plan::describe_origin(&batch.global_sequences.origin);
    let mut diagnostic = Diagnostic::new(
        &T0373,
        span,
        format!(
            "an epoch of {} is less than one step of {}",
            text::count(sequences, "sequence"),
            text::group_digits(global)
        ),
    )
    .note(format!("the global batch is {shown}"))
    .note("a loader that drops the last batch makes no step at all; others make a step with a partial batch")
    .fact("sequences", sequences)
    .fact("global_sequences", global);
    diagnostic = match batch.global_sequences.origin.span() {
        Some(at) => diagnostic.label(at, "the global batch").help("write a smaller `global-batch`"),
        None => diagnostic.help("write a smaller `micro-batch` or `accumulation`, or use fewer nodes"),
    };
    problems.push(diagnostic);
}
