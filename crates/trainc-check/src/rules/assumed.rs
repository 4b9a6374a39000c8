//! Values that `import` assumes because a request does not contain them.

use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};

declare_code!(T0517, "assumed-values", Note, "a run of one step and one sequence, as `import` assumes it");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0517];

/// Reports one step of one sequence without a batch: a placeholder, which makes the plan meaningless.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let train = &context.plan.job.train;
    let (Some(micro), Some(steps)) = (train.micro_batch_size.val(), train.steps.val()) else { return };
    let is_alone = train.accumulation.is_absent() && train.global_batch.is_absent();
    if (micro.value, steps.value) != (1, 1) || !is_alone {
        return;
    }
    let (Some(at), Some(batch)) = (steps.origin.span(), micro.origin.span()) else { return };
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
