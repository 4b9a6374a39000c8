//! Spot capacity: waiting time, checkpoints, and conflicts with warm pools and training plans.

use crate::Context;
use crate::queries::run_limits;
use trainc_catalog::{algorithms, images};
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::checkpoint_parts::{checkpoint_channel, is_writable_file_system};
use trainc_ir::{Cluster, Plan, Spot};

declare_code!(
    T0424,
    "warm-pool-conflict",
    Error,
    "a warm pool combined with spot capacity or instance groups"
);
declare_code!(T0425, "spot-wait-below-run", Error, "`spot max-wait` below `max-run`", explains: [Wait]);
declare_code!(
    T0426,
    "spot-without-checkpoint",
    Error,
    "a spot job without a checkpoint that survives an interruption",
    allowable: AwsMayAccept
);
declare_code!(T0436, "training-plan-with-spot", Error, "spot capacity combined with a training plan");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0424, &T0425, &T0426, &T0436];

/// Checks spot capacity and warm pools.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let Some(cluster) = &context.plan.job.cluster else { return };
    if let Some(pool) = cluster.warm_pool_seconds.val().filter(|pool| pool.value > 0) {
        let other = if let Some(spot) = &cluster.spot {
            Some((spot.span, "spot capacity"))
        } else {
            cluster.groups.first().map(|group| (group.span, "instance groups"))
        };
        if let Some((span, words)) = other {
            problems.push(
                Diagnostic::new(
                    &T0424,
                    pool.span_or(cluster.span),
                    format!("`warm-pool` is not supported with {words}"),
                )
                .label(span, words)
                .remove("warm-pool")
                .note("developer guide, \"Train using SageMaker managed warm pools\""),
            );
        }
    }
    let Some(spot) = &cluster.spot else { return };
    if let (Some(wait), Some(run)) = (spot.max_wait_seconds.val(), run_limits::max_run(cluster))
        && wait.value < run.value
    {
        let span = wait.span_or(spot.span);
        let literal = text::duration(run.value);
        let diagnostic = Diagnostic::new(&T0425, span, format!("`max-wait` is {}, less than `max-run`, \
            {literal}", text::duration(wait.value)))
            .label(run.span_or(cluster.span), format!("`max-run`, {}", trainc_plan::plan::describe_origin(&run.origin)))
            .note("`max-wait` includes both waiting and running: `MaxWaitTimeInSeconds`, botocore's \
                model of CreateTrainingJob")
            .fact("max_wait_seconds", wait.value)
            .fact("max_run_seconds", run.value);
        problems.push(if literal.contains(' ') {
            diagnostic
                .help(format!("write `max-wait=\"{}s\"` or more", run.value))
                .fix(span, format!("\"{}s\"", run.value))
        } else {
            diagnostic
                .help(format!("write `max-wait=\"{literal}\"` or more"))
                .fix(span, format!("\"{literal}\""))
        });
    }
    if let Some(arn) = cluster.training_plan.val() {
        problems.push(
            Diagnostic::new(
                &T0436,
                arn.span_or(cluster.span),
                "a training plan is reserved capacity and cannot be combined with spot",
            )
            .label(spot.span, "spot capacity")
            .help("remove one of them")
            .note("developer guide, \"Reserve training plans for your training jobs\""),
        );
    }
    if !has_durable_checkpoint(context.plan) {
        problems.push(restart_cost(context.plan, cluster, spot));
    }
}

/// Returns whether checkpoints survive an interruption: in S3, or on a file system that the job writes to.
/// Without `checkpoint`, the program may write them to any such file system.
fn has_durable_checkpoint(plan: &Plan) -> bool {
    let Some(checkpoint) = &plan.job.checkpoint else {
        return plan.job.channels.iter().any(is_writable_file_system);
    };
    if !checkpoint.s3.is_absent() {
        return true;
    }
    checkpoint.local.is_bad() || checkpoint_channel(plan).is_some()
}

/// Returns whether the job's algorithm writes checkpoints and resumes from them by itself.
pub(super) fn writes_checkpoints(plan: &Plan) -> bool {
    let uri = plan.image.as_ref().and_then(|image| images::parse_uri(&image.uri));
    let family = uri.as_ref().and_then(images::family_of);
    let algorithm = family.and_then(|family| algorithms::get(&family));
    uri.zip(algorithm).is_some_and(|(uri, algorithm)| algorithm.checkpoints.contains(&uri.repository))
}

fn restart_cost(plan: &Plan, cluster: &Cluster, spot: &Spot) -> Diagnostic {
    let message = "a spot job without checkpoints in S3 restarts from the beginning after each interruption";
    let mut diagnostic = Diagnostic::new(&T0426, spot.span, message);
    if let Some(checkpoint) = &plan.job.checkpoint {
        diagnostic =
            diagnostic.label(checkpoint.span, "without `s3=`, checkpoints are lost with the instance");
    }
    let has_program = plan.job.program.as_ref().is_some_and(|program| !program.entry.is_absent());
    let is_algorithm = !has_program && plan.job.image.as_ref().is_some_and(images::requests_algorithm);
    // Without a bucket, the address is for the user to complete.
    let output = plan.job.output.as_ref().and_then(|output| trainc_ir::s3::parse(output.s3.value()?));
    let bucket = output.filter(|uri| !uri.bucket.is_empty()).map_or("…", |uri| uri.bucket);
    let s3 = format!("s3=\"s3://{bucket}/{{{{ job.digest }}}}/checkpoints/\"");
    diagnostic = match (is_algorithm, &plan.job.checkpoint) {
        (true, _) if !writes_checkpoints(plan) => diagnostic
            .add("allow \"T0426\" reason=\"the algorithm restarts from the beginning\"")
            .or_remove("spot")
            .note("the algorithm writes no checkpoints, and SageMaker may reject a `max-wait` above \
                one hour for it (developer guide, \"Use checkpoints\")"),
        (true, None) => diagnostic.add(format!("checkpoint {s3}")).and_text(": the algorithm writes \
            checkpoints and resumes from them"),
        (true, Some(_)) => diagnostic.add_to("checkpoint", s3).and_text(": the algorithm writes checkpoints \
            and resumes from them"),
        (false, None) => diagnostic
            .add(format!("checkpoint {s3} every=\"200 steps\""))
            .and_text(", and load from `/opt/ml/checkpoints` in the program"),
        (false, Some(_)) => {
            diagnostic.add_to("checkpoint", s3).and_text(", and load from `/opt/ml/checkpoints` in the \
                program")
        }
    };
    let (Some(rate), Some(run), Some(nodes)) =
        (spot.interruptions_per_hour.get(), run_limits::max_run(cluster), cluster.nodes.get())
    else {
        return diagnostic.note("add `interruptions-per-hour=` to `spot` to see the expected billed hours");
    };
    // A run of T hours with total interruption rate r, restarted from the beginning, takes (e^(rT) - 1) / r
    // on average (mean of a geometric number of truncated exponential attempts).
    let hours = run.value as f64 / 3600.0;
    let all = rate * nodes as f64;
    if all <= 0.0 {
        return diagnostic;
    }
    let expected = (all * hours).exp_m1() / all;
    let billed = expected * nodes as f64;
    let words = if billed < 1e7 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "rounded, positive, below 10^7"
        )]
        let whole = billed.round() as u64;
        format!("{} instance hours", text::group_digits(whole))
    } else {
        "more than ten million instance hours: it would never finish".to_owned()
    };
    diagnostic = diagnostic
        .note(format!(
            "a run of {} on {} with {} interruptions per instance hour would be billed {words} \
                on average, instead of {}",
            text::duration(run.value),
            text::count(nodes, "instance"),
            text::short_number(rate),
            text::short_number(hours * nodes as f64),
        ))
        .note("expected hours with restarts from the beginning: (e^(rate × hours) - 1) / rate, with \
            the rate of the whole cluster");
    if billed.is_finite() { diagnostic.fact("expected_instance_hours", billed) } else { diagnostic }
}
