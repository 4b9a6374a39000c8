//! The pipeline bubble.

use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Note, Problems};

declare_code!(T0395, "pipeline-bubble", Warning, "fewer micro-batches than pipeline stages");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0395];

/// Warns about fewer micro-batches than stages: with p stages and m micro-batches a stage idles for
/// (p - 1) / (m + p - 1) of a pass (GPipe, 2019).
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(parallel), Some(mesh)) = (&plan.job.parallel, &plan.mesh) else { return };
    if !mesh.law.has_stages() || parallel.num_micro_batches.is_bad() {
        return;
    }
    let stages = mesh.pipeline_degree.value;
    let microbatches = parallel.num_micro_batches.get().unwrap_or(1);
    if stages <= 1 || microbatches >= stages {
        return;
    }
    let bubble = (stages - 1) as f64 / (microbatches + stages - 1) as f64;
    let better = (stages - 1) as f64 / (stages * 4 + stages - 1) as f64;
    let span =
        parallel.num_micro_batches.span().unwrap_or_else(|| mesh.pipeline_degree.span_or(parallel.span));
    let mut diagnostic = Diagnostic::new(
        &T0395,
        span,
        format!(
            "{} for {}: each stage is idle for {:.0} % of a pass",
            text::count(microbatches, "micro-batch"),
            text::count(stages, "stage"),
            bubble * 100.0
        ),
    )
    .write(format!("microbatches={stages}")).and_text(&format!(" or more; with {} the idle time is {:.0} %", text::count(stages * 4, "micro-batch"), better * 100.0))
    .note(format!("(p - 1) / (m + p - 1) = {} / {} (GPipe, 2019)", stages - 1, microbatches + stages - 1))
    .fact("bubble", bubble)
    .fact("stages", stages)
    .fact("microbatches", microbatches);
    if let Some(price) = plan.rank_price() {
        let wasted = price.usd_per_hour * mesh.nodes as f64 * bubble;
        diagnostic = diagnostic
            .note(Note::cost(format!("the idle time costs {} per hour", text::dollars(wasted))))
            .fact("wasted_usd_per_hour", wasted);
    }
    problems.push(diagnostic);
}
