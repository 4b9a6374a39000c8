//! Serverless jobs, for which SageMaker provides instances, container and code.

use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::job::SERVERLESS;

declare_code!(
    T0493,
    "serverless-with-instances",
    Warning,
    "a serverless job with instances, a container or a program"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0493];

/// Reports the nodes that a serverless job ignores.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let job = &context.plan.job;
    let Some(member) = job.serverless_member() else { return };
    let nodes = [
        ("cluster", job.cluster.as_ref().map(|cluster| cluster.span)),
        ("image", job.image.as_ref().map(|image| image.span)),
        ("parallel", job.parallel.as_ref().map(|parallel| parallel.span)),
        ("program", job.program.as_ref().map(|program| program.span)),
        ("train", job.train.span),
    ];
    let mut written: Vec<_> = nodes.iter().filter_map(|(name, span)| Some((*name, (*span)?))).collect();
    // The same settings by their AWS names.
    written.extend(
        job.request
            .iter()
            .filter(|raw| matches!(raw.name.as_str(), "AlgorithmSpecification" | "ResourceConfig"))
            .map(|raw| (raw.name.as_str(), raw.span)),
    );
    let Some((_, first)) = written.first() else { return };
    let names: Vec<&str> = written.iter().map(|(name, _)| *name).collect();
    problems.push(
        Diagnostic::new(
            &T0493,
            *first,
            format!("a serverless job does not use {}", text::backtick_list(&names, "and")),
        )
        .label(member.span, "serverless")
        .help(format!("remove {}, or remove `{SERVERLESS}`", text::backtick_list(&names, "and")))
        .note("limits and parameters of a serverless job belong in `request`: `StoppingCondition`, \
            `RetryStrategy`, `HyperParameters`, `Environment`")
        .note("the base model and the technique determine instances, container and code (API \
            reference, CreateTrainingJob)"),
    );
}
