//! Values that `import` assumes because a request does not contain them.

use crate::Context;
use crate::codes;
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};

declare_code!(
    T0517,
    "assumed-values",
    Note,
    "a run of one step or one sequence, as `import` assumes it",
    supersedes: { Value: [codes::T0373] }
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0517];

/// Reports one step of one sequence without a batch, or data of one sequence: placeholders, which make the
/// plan meaningless.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let train = &context.plan.job.train;
    let sequences = train.dataset.as_ref().and_then(|dataset| dataset.sequences.val());
    if let Some(at) = sequences.filter(|one| one.value == 1).and_then(|one| one.origin.span()) {
        problems.push(
            Diagnostic::new(
                &T0517,
                at,
                "`dataset sequences=1`: steps, time and cost are those of one sequence",
            )
                .help("write the number of sequences in one epoch")
                .note("`trainc import` assumes one, as a request does not contain it"),
        );
        return;
    }
    let (Some(micro), Some(steps)) = (train.micro_batch_size.val(), train.steps.val()) else { return };
    let is_alone = train.accumulation.is_absent() && train.global_batch.is_absent();
    let (Some(at), Some(batch)) = (steps.origin.span(), micro.origin.span()) else { return };
    if steps.value == 1 && micro.value > 1 {
        problems.push(
            Diagnostic::new(&T0517, at, "`steps 1`: time and cost are those of a single step")
                .help("write the actual `steps`, `tokens` or `epochs`")
                .note("`trainc import` assumes one, as a request does not contain them"),
        );
        return;
    }
    if (micro.value, steps.value) != (1, 1) || !is_alone {
        return;
    }
    problems.push(
        Diagnostic::new(
            &T0517,
            at,
            "`micro-batch 1` and `steps 1`: batch, memory, time and cost are those of a single step",
        )
        .label(batch, "the micro-batch")
        .help("write the actual `micro-batch`, and `steps`, `tokens` or `epochs`")
        .note("`trainc import` assumes both, as a request does not contain them"),
    );
}
