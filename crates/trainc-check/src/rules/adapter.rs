//! The size of an adapter compared with the matrices it adapts.

use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};

declare_code!(
    T0270,
    "adapter-too-large",
    Warning,
    "an adapter with more parameters than the matrices it adapts"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0270];

/// Warns where an adapter has more parameters than its matrices: the update of an `inputs` × `outputs` matrix has
/// `rank × (inputs + outputs)` parameters (Hu et al. 2021, 4.1).
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(adapter), Some(model)) = (&plan.job.adapter, &plan.model) else { return };
    let (Some(rank), Some(trainable)) = (adapter.rank.val(), &model.trainable) else { return };
    let (Some(architecture), Some(class)) = (&model.architecture, model.class) else { return };
    let all = vec!["all-linear".to_owned()];
    let Some(targets) = adapter.targets.value().or(adapter.targets.is_absent().then_some(&all)) else {
        return;
    };
    let (weights, highest) = architecture.lora_base_weights(class, targets);
    // The worker reports a rank above the number of columns: T0541.
    let worker =
        plan.is_worker();
    if trainable.value <= weights || worker && rank.value > architecture.hidden {
        return;
    }
    // The adapter's parameters are proportional to its rank.
    let per_rank = trainable.value / rank.value.max(1);
    let mut diagnostic = Diagnostic::new(
        &T0270,
        rank.span_or(adapter.span),
        format!(
            "an adapter of rank {} has {} parameters, more than the {} of the matrices it adapts",
            text::group_digits(rank.value),
            text::group_digits(trainable.value),
            text::group_digits(weights)
        ),
    );
    let most = weights / per_rank.max(1);
    if most >= 16 {
        diagnostic =
            diagnostic.help(format!("write a rank well below {}, e.g. `rank=16`", text::group_digits(most)));
    }
    problems.push(
        diagnostic
            .note(format!(
                "an update of these matrices has at most rank {}, their smaller dimension",
                text::group_digits(highest)
            ))
            .fact("trainable_parameters", trainable.value)
            .fact("adapted_parameters", weights),
    );
}
