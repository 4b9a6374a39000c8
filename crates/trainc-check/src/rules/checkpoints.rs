//! Checkpoints and outputs: prefixes, intervals, use by the program, and overlap with the input.

use crate::codes;
use crate::Context;
use crate::queries::{run_limits, s3};
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Access, CheckpointInterval, LocationField};

// A digest written with one brace.
declare_code!(
    T0448,
    "shared-checkpoint-prefix",
    Warning,
    "a checkpoint prefix that is shared by all versions of a job",
    supersedes: { Value: [codes::T0590] }
);
declare_code!(T0408, "output-overlaps-input", Warning, "the job writes to a prefix that it reads from");
declare_code!(T0511, "checkpoint-not-uploaded", Warning, "checkpoints that are lost with their instance");
declare_code!(
    T0264,
    "checkpoint-never-written",
    Warning,
    "a checkpoint interval that is longer than the run"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0448, &T0408, &T0264, &T0511];

/// Returns whether the text contains a placeholder of the digest, for plans in which the digest is not bound.
fn has_digest_placeholder(written: &str) -> bool {
    let inside = written.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
    inside.into_iter().any(|expression| expression.contains("job.digest"))
}

/// Checks `checkpoint` and the prefixes that the job writes to.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    check_overlaps(context, problems);
    let plan = context.plan;
    let Some(checkpoint) = &plan.job.checkpoint else { return };
    let on_spot = plan.job.cluster.as_ref().is_some_and(|cluster| cluster.spot.is_some());
    // On spot this is an error: T0426.
    // `local=` may be in a file system, or is reported as unused.
    let is_lost = checkpoint.s3.is_absent() && checkpoint.local.is_absent();
    if is_lost && checkpoint.every.val().is_some() && !on_spot {
        problems.push(
            Diagnostic::new(&T0511, checkpoint.span, "`checkpoint` without `s3=`: checkpoints are lost with \
                the instance")
                .help("add `s3=\"s3://BUCKET/checkpoints/{{ job.digest }}/\"`")
                .note("without a prefix trainc sends no `CheckpointConfig`, and SageMaker copies only \
                    the model and the output out of the container"),
        );
    }
    // An invalid S3 URI is reported by another rule.
    if let Some(uri) = checkpoint.s3.val().filter(|uri| trainc_ir::s3::parse(&uri.value).is_some()) {
        let span = uri.span_or(checkpoint.span);
        if !uri.value.contains(trainc_ir::plan::DIGEST_MARK)
            && !has_digest_placeholder(context.sources.slice(span))
        {
            let bound = context.sources.slice(span).contains("{{");
            let diagnostic = Diagnostic::new(
                &T0448,
                span,
                "a changed job would resume from the checkpoints of its previous version",
            )
            .note(
                "SageMaker copies everything under this prefix into the container before the program starts",
            );
            // Repairs a placeholder written with one brace (as in an f-string) or none.
            let instead = match uri.value.split_once("job.digest") {
                Some((before, after)) => {
                    let before = before.trim_end_matches(['{', '<', '$', ' ']);
                    format!("{before}{{{{ job.digest }}}}{}", after.trim_start_matches(['}', '>', ' ']))
                }
                None => format!("{}/{{{{ job.digest }}}}/", uri.value.trim_end_matches('/')),
            };
            problems.push(if bound {
                diagnostic.help("add `{{ job.digest }}` to the prefix")
            } else {
                // The next run starts from an empty prefix: that is for the user to decide.
                diagnostic.write(format!("s3=\"{instead}\""))
            });
        }
    }
    if let (Some(CheckpointInterval::Steps(every)), Some(steps)) = (checkpoint.every.get(), &plan.run.steps)
        && every > steps.value
    {
        problems.push(
            Diagnostic::new(
                &T0264,
                checkpoint.every.span().unwrap_or(checkpoint.span),
                format!(
                    "a checkpoint every {}, but the run has only {}",
                    text::count(every, "step"),
                    text::count(steps.value, "step")
                ),
            )
            .help(format!("write a shorter interval, e.g. `every=\"{} steps\"`", (steps.value / 10).max(1)))
            .note("no checkpoint is written before the run ends; a run stopped by `max-run` leaves none"),
        );
    }
    if let (Some(CheckpointInterval::Seconds(every)), Some(run)) =
        (checkpoint.every.get(), plan.job.cluster.as_ref().and_then(run_limits::max_run))
        && every > run.value
    {
        problems.push(
            Diagnostic::new(
                &T0264,
                checkpoint.every.span().unwrap_or(checkpoint.span),
                format!(
                    "a checkpoint every {}, but the run ends after {}",
                    text::duration(every),
                    text::duration(run.value)
                ),
            )
            .help(format!("write a shorter interval, e.g. `every=\"{}\"`", format_tenth(run.value)))
            .note("no checkpoint is written before the run ends; a run stopped by `max-run` leaves none"),
        );
    }
}

/// Returns about a tenth of a duration, in hours or minutes.
fn format_tenth(seconds: u64) -> String {
    match seconds / 10 {
        s if s >= 3_600 => format!("{}h", s / 3_600),
        s => format!("{}m", (s / 60).max(1)),
    }
}

/// Reports outputs under an input prefix, which the next run would read as data.
fn check_overlaps(context: &Context, problems: &mut Problems) {
    let all = context.plan.job.location_fields();
    let writes = |one: &&LocationField| one.access == Access::Write && one.name != "export";
    for LocationField { field: written, span: fallback, name: what, .. } in all.iter().filter(writes) {
        let Some(uri) = written.val() else { continue };
        let reads = |one: &&LocationField| matches!(one.name, "channel s3=" | "import");
        for LocationField { field: read, name: channel, .. } in all.iter().filter(reads) {
            let Some(prefix) = read.val() else { continue };
            let (Some(at), Some(from)) = (s3::parse(&uri.value), s3::parse(&prefix.value)) else { continue };
            // An S3 prefix is a key prefix: `…/train` also matches `…/train2/`.
            if at.bucket != from.bucket || !at.key.starts_with(from.key) {
                continue;
            }
            problems.push(
                Diagnostic::new(
                    &T0408,
                    uri.span_or(*fallback),
                    format!("`{what}` is under the prefix that `{channel}` reads"),
                )
                .label(prefix.origin.span().unwrap_or(*fallback), "read from here")
                .help("write to another prefix")
                .note("the next run would read this run's output as data"),
            );
        }
    }
}
