//! The expert-parallel degree compared with the model's experts.

use super::divisibility::degree_help;
use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_plan::plan::divisors::near_divisors;

declare_code!(
    T0377,
    "expert-degree-mismatch",
    Error,
    "an expert degree that does not match the model's experts",
    ends: Speed
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0377];

/// Checks that the experts of each layer divide evenly among the ranks.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(parallel), Some(model)) = (&plan.job.parallel, &plan.model) else { return };
    let (Some(degree), Some(architecture)) = (parallel.expert_degree.val(), &model.architecture) else {
        return;
    };
    let experts = architecture.experts;
    if degree.value <= 1 || (experts > 0 && experts.is_multiple_of(degree.value)) {
        return;
    }
    let span = degree.span_or(parallel.span);
    if experts == 0 {
        let is_ignored = plan.engine.is_some_and(|engine| engine.law.ignores_experts_of_dense);
        let diagnostic = Diagnostic::new(
            &T0377,
            span,
            format!("`expert-degree` {} on `{}`, which has no experts", degree.value, model.name),
        )
        .severity(if is_ignored { Severity::Warning } else { Severity::Error })
        .remove("expert-degree");
        let name = plan.engine.map_or("", |engine| engine.front.title);
        problems.push(diagnostic.note(if trainc_engine::smp::version(plan).is_some() {
            "SMP v2 supports expert parallelism only for mixture-of-experts models".to_owned()
        } else if is_ignored {
            format!("{name} ignores it and trains the model without")
        } else {
            format!("{name} spreads experts over ranks and refuses a model that has none")
        }));
        return;
    }
    let (below, above) = near_divisors(experts, degree.value);
    let near: Vec<u64> = [below, above].into_iter().flatten().collect();
    problems.push(
        Diagnostic::new(
            &T0377,
            span,
            format!(
                "`expert-degree` {} does not divide the {} of each layer",
                degree.value,
                text::count(experts, "expert")
            ),
        )
        .help(degree_help("expert-degree", &near))
        .fact("experts", experts),
    );
}
