//! How long the service lets a job run, wait and keep its instances.

use crate::catalog::{instances, limits, quotas, shapes};
use crate::check::Context;
use crate::declare_code;
use crate::diag::{Code, Diagnostic, Problems};
use crate::text;

declare_code!(T0421, "duration-limit", Error, "a duration that the service does not take");
declare_code!(T0422, "run-time-quota", Note, "a longest run above the default quota");
declare_code!(
    T0423,
    "max-pending-without-accelerator",
    Error,
    "`max-pending` on an instance type without accelerators"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0421, &T0422, &T0423];

/// The durations of `cluster`.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(cluster) = &plan.job.cluster else { return };
    if !plan.deployable {
        return;
    }
    let longest = limits::get("job.max-runtime").map(|limit| limit.value as f64);
    let wait = cluster.spot.as_ref().map(|spot| &spot.max_wait_seconds);
    let fields = [
        ("max-run", Some(&cluster.max_run_seconds), "StoppingCondition.MaxRuntimeInSeconds", longest),
        ("max-wait", wait, "StoppingCondition.MaxWaitTimeInSeconds", None),
        (
            "max-pending",
            Some(&cluster.max_pending_seconds),
            "StoppingCondition.MaxPendingTimeInSeconds",
            None,
        ),
        ("warm-pool", Some(&cluster.warm_pool_seconds), "ResourceConfig.KeepAlivePeriodInSeconds", None),
    ];
    for (name, field, member, documented) in fields {
        let Some(val) = field.and_then(|field| field.val()) else { continue };
        let Some(shape) = shapes::member("CreateTrainingJob", member) else { continue };
        let (min, max) = (shape.min.unwrap_or(0.0), shape.max.or(documented));
        let seconds = val.value as f64;
        if seconds >= min && max.is_none_or(|max| seconds <= max) {
            continue;
        }
        let near = if seconds < min { min } else { max.unwrap_or(min) };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "bounds of the service are small and positive"
        )]
        let words = |seconds: f64| text::duration(seconds as u64);
        let bounds = max.map_or_else(
            || format!("{} or more", words(min)),
            |max| format!("{} to {}", words(min), words(max)),
        );
        let literal = words(near);
        let span = val.span_or(cluster.span);
        let diagnostic = Diagnostic::new(
            &T0421,
            span,
            format!("`{name}` is {}; SageMaker takes {bounds}", text::duration(val.value)),
        )
        .note(format!("`{member}`, botocore's model of CreateTrainingJob"))
        .fact("seconds", val.value);
        problems.push(if literal.contains(' ') {
            diagnostic
        } else {
            diagnostic
                .help(format!("write `{name}{}\"{literal}\"`", if name == "max-wait" { "=" } else { " " }))
                .fix(span, format!("\"{literal}\""))
        });
    }
    if let (Some(run), Some(quota)) = (cluster.max_run_seconds.val(), quotas::general("longest-run-time"))
        && let Some(default) = quota.default.filter(|default| {
            run.value > *default && longest.is_none_or(|longest| run.value as f64 <= longest)
        })
    {
        problems.push(
            Diagnostic::new(
                &T0422,
                run.span_or(cluster.span),
                format!(
                    "`max-run` is {}; a new account runs a job for {} at most",
                    text::duration(run.value),
                    text::duration(default)
                ),
            )
            .note(format!(
                "quota {} `{}` can be raised; only the account knows its value",
                quota.code.as_deref().unwrap_or("without code"),
                quota.name
            ))
            .fact("quota", quota.code.unwrap_or_default()),
        );
    }
    if let (Some(pending), Some(instance)) = (cluster.max_pending_seconds.val(), cluster.instance.value())
        && instances::get(instance).is_none()
        && instances::instance_exists(instance)
    {
        problems.push(
            Diagnostic::new(
                &T0423,
                pending.span_or(cluster.span),
                format!("`max-pending` is for types with accelerators; `{instance}` has none"),
            )
            .help("remove `max-pending`")
            .note("`StoppingCondition.MaxPendingTimeInSeconds`, botocore's model of CreateTrainingJob"),
        );
    }
}
