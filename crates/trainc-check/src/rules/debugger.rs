//! Debugger and profiler: supported engines, profiling interval and cost.

use crate::Context;
use crate::queries::torchrun::is_trainium;
use trainc_catalog::{regions, shapes};
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::Raw;

declare_code!(
    T0434, "debugger-unsupported", Warning,
    "a debugger or a profiler that the job's engine, region or instance type does not support"
);
declare_code!(
    T0435,
    "debugger-with-checkpoints",
    Warning,
    "a debugger combined with local checkpoints on several ranks"
);
declare_code!(
    T0309,
    "debugger-costs",
    Note,
    "debugger or profiler rules that are billed in addition to the job"
);
declare_code!(T0449, "profiler-interval", Error, "a profiler interval that the service does not accept");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0434, &T0435, &T0449, &T0309];

/// Reports the debugger and the profiler in a region without them, and the profiler on Trainium.
fn check_support(context: &Context, problems: &mut Problems) {
    let job = &context.plan.job;
    let Some(region) = job.region.val() else { return };
    let nodes = [("debugger", job.debugger.as_ref().map(|node| node.span)), ("profiler", job.profiler.as_ref().map(|node| node.span))];
    let written = nodes.into_iter().filter_map(|(name, span)| Some((name, span?)));
    let row = regions::get(&region.value).filter(|row| !row.has_debugger);
    for (name, span) in written {
        let (why, at) = if row.is_some() {
            (format!("SageMaker has no {name} in {}", region.value), region.origin.span())
        } else if name == "profiler" && is_trainium(context.plan) {
            ("the profiler does not support Trainium".to_owned(), job.cluster.as_ref().and_then(|cluster| cluster.instance.span()))
        } else {
            continue;
        };
        let mut diagnostic = Diagnostic::new(&T0434, span, why)
            .remove(name)
            .note("the SageMaker SDK rejects the debugger, and turns off the profiler (PyPI sagemaker \
                2.257.7, `fw_utils.py`)");
        if let Some(at) = at {
            diagnostic = diagnostic.label(at, "not supported here");
        }
        problems.push(diagnostic);
    }
}

/// Checks `debugger` and `profiler`.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let job = &context.plan.job;
    check_costs(context, problems);
    check_support(context, problems);
    if let Some(debugger) = &job.debugger {
        let distributed = context.plan.mesh.as_ref().is_some_and(|mesh| mesh.world_size > 1)
            && !context.plan.is_script();
        let several =
            job.cluster.as_ref().and_then(|cluster| cluster.nodes.get()).is_some_and(|nodes| nodes > 1);
        if context.plan.debugger().is_none() {
            problems.push(
                Diagnostic::new(&T0434, debugger.span, "`debugger` is omitted from the request: it does not \
                    support model parallelism")
                    .remove("debugger")
                    .note("its hook breaks partitioned modules \
                        (https://docs.aws.amazon.com/sagemaker/latest/dg/debugger-considerations.html)"),
            );
        } else if let Some(checkpoint) = job
            .checkpoint
            .as_ref()
            .filter(|c| !c.s3.is_absent() && !c.local.is_absent() && (distributed || several))
        {
            problems.push(
                Diagnostic::new(&T0435, debugger.span, "`debugger` combined with a `local` checkpoint path \
                    on several ranks")
                    .label(checkpoint.local.span().unwrap_or(checkpoint.span), "the local path")
                    .remove("debugger").or_else("`local=`")
                    .note("the SageMaker SDK disables the hook in this case (PyPI sagemaker 2.257.7, \
                        `estimator.py`)"),
            );
        }
    }
    let Some(interval) = job.profiler.as_ref().and_then(|profiler| profiler.interval_milliseconds.val())
    else {
        return;
    };
    let known = shapes::enum_values("ProfilingIntervalInMilliseconds");
    if known.is_empty() || known.contains(&interval.value.to_string()) {
        return;
    }
    let Some(span) = interval.origin.span() else { return };
    let near = known
        .iter()
        .filter_map(|word| word.parse::<u64>().ok())
        .min_by_key(|n| n.abs_diff(interval.value))
        .unwrap_or(500);
    problems.push(
        Diagnostic::new(
            &T0449,
            span,
            format!(
                "invalid profiler interval {} ms: expected {} ms",
                interval.value,
                text::list(known, "or")
            ),
        )
        .help(format!("write `interval=\"{near}ms\"`"))
        .fix(span, format!("\"{near}ms\""))
        .note("`ProfilingIntervalInMilliseconds`, botocore's model of ProfilerConfig"),
    );
}

/// Reports rules, which run as processing jobs in addition to the training job. The output of debugger and
/// profiler themselves costs little.
fn check_costs(context: &Context, problems: &mut Problems) {
    for raw in &context.plan.job.request {
        let Raw::List(rules) = &raw.value else { continue };
        let count = rules.len() as u64;
        if count == 0
            || !matches!(raw.name.as_str(), "DebugRuleConfigurations" | "ProfilerRuleConfigurations")
        {
            continue;
        }
        problems.push(
            Diagnostic::new(
                &T0309,
                raw.span,
                format!(
                    "`{}` starts {} in addition to the job, billed on separate instances",
                    raw.name,
                    text::count(count, "rule job")
                ),
            )
            .note("each rule runs in its own container for as long as the training job (AWS developer \
                guide, train-debugger)")
            .fact("rules", count),
        );
    }
}
