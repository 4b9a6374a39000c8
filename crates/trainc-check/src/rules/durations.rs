//! Durations of a job: run, wait, pending and warm pool.

use crate::Context;
use crate::queries::prediction::predicted_run;
use crate::queries::run_limits::{self, MAX_INTEGER, MAX_RUN, WARM_POOL, max_run};
use trainc_catalog::quotas::Usage;
use trainc_catalog::{instances, limits, quotas, shapes};
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Note, Problems};
use trainc_ir::Cluster;

declare_code!(T0421, "duration-limit", Error, "a duration outside the service's limits");
declare_code!(T0422, "max-run-quota", Note, "a `max-run` above the default quota", explains: [Time]);
declare_code!(
    T0423,
    "max-pending-without-accelerator",
    Error,
    "`max-pending` on an instance type without accelerators"
);
declare_code!(
    T0307,
    "max-run-includes-retries",
    Note,
    "`max-run` limits all attempts of a retried job together"
);
declare_code!(T0308, "warm-pool-reuse", Note, "a warm pool that only a matching job can reuse");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0421, &T0422, &T0423, &T0307, &T0308];

/// Checks the durations of `cluster`.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(cluster) = &plan.job.cluster else { return };
    let longest = limits::get("job.max-runtime").map(|limit| limit.value as f64);
    let wait = cluster.spot.as_ref().map(|spot| &spot.max_wait_seconds);
    let fields = [
        ("max-run", Some(&cluster.max_run_seconds), MAX_RUN, longest),
        ("max-wait", wait, "StoppingCondition.MaxWaitTimeInSeconds", None),
        (
            "max-pending",
            Some(&cluster.max_pending_seconds),
            "StoppingCondition.MaxPendingTimeInSeconds",
            None,
        ),
        ("warm-pool", Some(&cluster.warm_pool_seconds), WARM_POOL, None),
    ];
    for (name, field, member, documented) in fields {
        let Some(val) = field.and_then(|field| field.val()) else { continue };
        let Some(shape) = shapes::member_at_path("CreateTrainingJob", member) else { continue };
        let (min, max) = (shape.min.unwrap_or(0.0), shape.max.or(documented));
        let seconds = val.value as f64;
        if seconds >= min && seconds <= max.unwrap_or(MAX_INTEGER) {
            continue;
        }
        // A `max-wait` below `max-run` is reported more precisely by another rule.
        if name == "max-wait" && max_run(cluster).is_some_and(|run| val.value < run.value) {
            continue;
        }
        let nearest = if seconds < min { min } else { max.unwrap_or(MAX_INTEGER) };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "bounds of the service are small and positive"
        )]
        let words = |seconds: f64| text::duration(seconds as u64);
        let bounds = match max {
            Some(max) => format!("{} to {}", words(min), words(max)),
            None if seconds < min => format!("{} or more", words(min)),
            None => "at most 2,147,483,647 s".to_owned(),
        };
        let literal = words(nearest);
        let span = val.span_or(cluster.span);
        let diagnostic = Diagnostic::new(
            &T0421,
            span,
            format!("`{name}` is {}; SageMaker accepts {bounds}", text::duration(val.value)),
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
    if let (Some(run), Some(quota)) = (max_run(cluster), quotas::general("longest-run-time"))
        && let Some(default) = quota.default.filter(|default| run.value > *default)
    {
        problems.push(
            Diagnostic::new(
                &T0422,
                run.span_or(cluster.span),
                format!(
                    "`max-run` is {}, but the default quota of a new account is {}",
                    text::duration(run.value),
                    text::duration(default)
                ),
            )
            .note(format!(
                "quota {} `{}` can be increased; the account may already have a higher value",
                quota.code.as_deref().unwrap_or("without code"),
                quota.name
            ))
            .note(lifetime_note())
            .fact("quota", quota.code.unwrap_or_default()),
        );
    }
    check_retries(context, cluster, problems);
    check_warm_pool(context, cluster, problems);
    if let (Some(pending), Some(instance)) = (cluster.max_pending_seconds.val(), cluster.instance.value())
        && instances::get(instance).is_none()
        && instances::instance_exists(instance)
    {
        problems.push(
            Diagnostic::new(
                &T0423,
                pending.span_or(cluster.span),
                format!("`max-pending` requires an instance type with accelerators; `{instance}` has none"),
            )
            .remove("max-pending")
            .note("`StoppingCondition.MaxPendingTimeInSeconds`, botocore's model of CreateTrainingJob"),
        );
    }
}

/// Returns a note on the limit over the lifetime of a job, with its source.
fn lifetime_note() -> String {
    limits::get("job.total-days").map_or_else(String::new, |limit| {
        format!(
            "the total limit of a job is {} {}: {} ({})",
            limit.value, limit.unit, limit.statement, limit.provenance.source
        )
    })
}

/// Reports that `max-run` includes retries.
fn check_retries(context: &Context, cluster: &Cluster, problems: &mut Problems) {
    let is_set = |retries: u64| retries > 0 && run_limits::is_accepted("RetryStrategy.MaximumRetryAttempts", retries);
    let Some(retry) = cluster.retry.val().filter(|retry| is_set(retry.value)) else { return };
    let Some(run) = max_run(cluster) else { return };
    let mut diagnostic = Diagnostic::new(
        &T0307,
        retry.span_or(cluster.span),
        format!(
            "`max-run` of {} covers the run and its {} together",
            text::duration(run.value),
            if retry.value == 1 {
                "retry".to_owned()
            } else {
                format!("{} retries", text::group_digits(retry.value))
            }
        ),
    );
    if let Some(span) = run.origin.span() {
        diagnostic = diagnostic.label(span, "the limit for all attempts");
    }
    if let Some((_, predicted)) = predicted_run(context) {
        diagnostic =
            diagnostic.note(format!("one run is predicted to take {}", text::rounded_duration(predicted.seconds)));
    }
    problems.push(diagnostic.note(lifetime_note()).fact("max_run_seconds", run.value));
}

/// Reports the cost of a warm pool and the settings that a job must match to reuse it.
fn check_warm_pool(context: &Context, cluster: &Cluster, problems: &mut Problems) {
    let is_set = |seconds: u64| seconds > 0 && run_limits::is_accepted(WARM_POOL, seconds);
    let Some(pool) = cluster.warm_pool_seconds.val().filter(|pool| is_set(pool.value)) else { return };
    let mut diagnostic = Diagnostic::new(
        &T0308,
        pool.span_or(cluster.span),
        "only a job with the same role, instances, volume and network settings can reuse the warm pool",
    )
    .note("SageMaker compares RoleArn, InstanceType, InstanceCount, VolumeSizeInGB, VolumeKmsKeyId, \
        VpcConfig, EnableNetworkIsolation and EnableInterContainerTrafficEncryption (AWS developer guide, \
        train-warm-pools)");
    if let Some(per_hour) = context.plan.cost_per_hour().exact() {
        let usd = per_hour * pool.value as f64 / 3600.0;
        diagnostic = diagnostic
            .note(Note::cost(format!(
                "an unused warm pool costs {} over {}",
                text::dollars(usd),
                text::duration(pool.value)
            )))
            .fact("usd", usd);
    }
    if let Some(limit) = limits::get("job.warm-pool-life") {
        diagnostic = diagnostic.note(format!(
            "a warm pool lasts at most {} {}, regardless of reuse ({})",
            limit.value, limit.unit, limit.provenance.source
        ));
    }
    let quota = cluster.instance.value().and_then(|name| quotas::instance(name, Usage::WarmPool));
    if let Some(quota) = quota {
        let default = quota
            .default
            .map_or_else(|| "default unknown".to_owned(), |default| format!("{default} by default"));
        diagnostic = diagnostic.note(format!(
            "quota {} `{}`: {default}",
            quota.code.as_deref().unwrap_or("without code"),
            quota.name
        ));
    }
    problems.push(diagnostic);
}
