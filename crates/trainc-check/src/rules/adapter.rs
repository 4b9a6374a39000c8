//! An adapter beside the matrices that it is put on.

use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::Engine;

declare_code!(
    T0270,
    "adapter-too-large",
    Warning,
    "an adapter with more parameters than the matrices it adapts"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0270];

/// The update of a matrix of `inputs` × `outputs` has `rank × (inputs + outputs)` parameters (Hu et al. 2021, 4.1): past
/// some rank training the matrix itself is less.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(adapter), Some(model)) = (&plan.job.adapter, &plan.model) else { return };
    let (Some(rank), Some(trainable)) = (adapter.rank.val(), &model.trainable) else { return };
    let (Some(architecture), Some(class)) = (&model.architecture, model.class) else { return };
    let all = vec!["all-linear".to_owned()];
    let Some(targets) = adapter.targets.value().or(adapter.targets.is_absent().then_some(&all)) else {
        return;
    };
    let (weights, highest) = architecture.lora_beside(class, targets);
    // The worker refuses a rank above the columns by itself: T0541.
    let worker =
        plan.job.parallel.as_ref().and_then(|parallel| parallel.engine.get()) == Some(Engine::Worker);
    if trainable.value <= weights || worker && rank.value > architecture.hidden {
        return;
    }
    // Parameters of the adapter grow with its rank alone.
    let per_rank = trainable.value / rank.value.max(1);
    let mut diagnostic = Diagnostic::new(
        &T0270,
        rank.span_or(adapter.span),
        format!(
            "an adapter of rank {} has {} parameters, more than the {} of the matrices that it is put on",
            text::group(rank.value),
            text::group(trainable.value),
            text::group(weights)
        ),
    );
    let most = weights / per_rank.max(1);
    if most >= 16 {
        diagnostic = diagnostic.help(format!("write a rank well below {}, as `rank=16`", text::group(most)));
    }
    problems.push(
        diagnostic
            .note(format!(
                "no update of these matrices has a rank above {}, the smaller of their dims",
                text::group(highest)
            ))
            .fact("trainable_parameters", trainable.value)
            .fact("adapted_parameters", weights),
    );
}
