//! The size of an adapter compared with the matrices it adapts.

use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};

declare_code!(
    T0270,
    "adapter-too-large",
    Warning,
    "an adapter with more parameters than the matrices it adapts"
);

declare_code!(
    T0551, "experts-without-adapter", Warning,
    "`all-linear` on a model whose experts are not linear modules"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0270, &T0551];

/// Warns where `all-linear` may leave out the experts, which transformers 5 keeps as parameters with three
/// dimensions.
fn report_experts(context: &Context, targets: &[String], span: Span, problems: &mut Problems) {
    let plan = context.plan;
    let Some(architecture) = plan.model.as_ref().and_then(|model| model.architecture.as_ref()) else { return };
    let version = plan.image.as_ref().and_then(|image| image.transformers.as_deref());
    let old = version.is_some_and(|version| {
        version.split('.').next().and_then(|major| major.parse::<u32>().ok()).is_some_and(|major| major < 5)
    });
    if architecture.experts == 0 || old || !targets.iter().any(|target| target == "all-linear") {
        return;
    }
    let model = plan.model.as_ref().map_or("", |model| model.name.as_str());
    let named: Vec<&str> = architecture
        .linear_modules()
        .into_iter()
        .filter(|module| !module.expert && module.path.contains("attn"))
        .map(|module| module.name)
        .collect();
    let mut diagnostic = Diagnostic::new(
        &T0551,
        span,
        format!(
            "`all-linear` may not adapt the {} of `{model}`: transformers 5 keeps them as \
                parameters with three dimensions, not as linear modules",
            text::count(architecture.experts, "expert")
        ),
    )
    .note("PEFT 0.21.2 adapts the experts of Mixtral, Qwen3-MoE and DeepSeek-V3, and not those of gpt-oss");
    if !named.is_empty() {
        diagnostic = diagnostic.help(format!("name the matrices: `targets=\"{}\"`", named.join(",")));
    }
    problems.push(diagnostic);
}

/// Warns where an adapter has more parameters than its matrices: the update of an `inputs` × `outputs` matrix
/// has `rank × (inputs + outputs)` parameters (Hu et al. 2021, 4.1).
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(adapter), Some(model)) = (&plan.job.adapter, &plan.model) else { return };
    let (Some(rank), Some(trainable)) = (adapter.rank.val(), &model.trainable) else { return };
    let (Some(architecture), Some(class)) = (&model.architecture, model.class) else { return };
    let all = vec!["all-linear".to_owned()];
    let Some(targets) = adapter.targets.value().or(adapter.targets.is_absent().then_some(&all)) else {
        return;
    };
    report_experts(context, targets, adapter.targets.span().unwrap_or(adapter.span), problems);
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
