//! Checkpoints and outputs: whose they are, whether they are ever written and read, and what they lie among.

use super::{durations, s3_uris};
use crate::{Context, s3};
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::parts::LOCAL;
use trainc_ir::{Every, Scalar};

declare_code!(
    T0448,
    "shared-checkpoint-prefix",
    Warning,
    "a checkpoint prefix that is shared by all versions of a job"
);
declare_code!(T0408, "output-overlaps-input", Warning, "the job writes to a prefix that it reads from");
declare_code!(
    T0262,
    "checkpoint-never-read",
    Warning,
    "a spot job whose program never reads its checkpoints"
);
declare_code!(T0511, "checkpoint-not-uploaded", Warning, "checkpoints that are lost with their instance");
declare_code!(
    T0264,
    "checkpoint-never-written",
    Warning,
    "a checkpoint interval that is longer than the run"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0448, &T0408, &T0262, &T0264, &T0511];

/// Whether a text has a placeholder of the digest: beside what is bound, where the digest itself is not known.
fn names_digest(written: &str) -> bool {
    let inside = written.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
    inside.into_iter().any(|expression| expression.contains("job.digest"))
}

/// `checkpoint` and the prefixes that are written to.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    overlaps(context, problems);
    let plan = context.plan;
    let Some(checkpoint) = &plan.job.checkpoint else { return };
    let on_spot = plan.job.cluster.as_ref().is_some_and(|cluster| cluster.spot.is_some());
    // On spot that is an error of its own, T0426.
    // With `local=` the place may be a file system, or is said to be unused.
    let is_lost = checkpoint.s3.is_absent() && checkpoint.local.is_absent();
    if plan.deployable && is_lost && checkpoint.every.val().is_some() && !on_spot {
        problems.push(
            Diagnostic::new(&T0511, checkpoint.span, "`checkpoint` without `s3=`: what is saved goes with the instance")
                .help("add `s3=\"s3://BUCKET/checkpoints/{{ job.digest }}/\"`")
                .note("without a prefix no `CheckpointConfig` is sent, and SageMaker copies nothing out of the container but its model and output"),
        );
    }
    // What is no address of S3 has been said.
    if let Some(uri) = checkpoint.s3.val().filter(|uri| trainc_ir::s3::parse(&uri.value).is_some()) {
        let span = uri.span_or(checkpoint.span);
        if !uri.value.contains(trainc_ir::plan::DIGEST_MARK) && !names_digest(context.sources.slice(span)) {
            let bound = context.sources.slice(span).contains("{{");
            let diagnostic = Diagnostic::new(
                &T0448,
                span,
                "a changed job would go on from the old one's checkpoints",
            )
            .note(
                "SageMaker copies what lies under this prefix into the container before the program starts",
            );
            // One brace, as an f-string has it, or none was meant as two.
            let instead = match uri.value.split_once("job.digest") {
                Some((before, after)) => {
                    let before = before.trim_end_matches(['{', '<', '$', ' ']);
                    format!("{before}{{{{ job.digest }}}}{}", after.trim_start_matches(['}', '>', ' ']))
                }
                None => format!("{}/{{{{ job.digest }}}}/", uri.value.trim_end_matches('/')),
            };
            problems.push(if bound {
                diagnostic.help("put `{{ job.digest }}` into it")
            } else {
                diagnostic.help(format!("write `s3=\"{instead}\"`")).fix(span, format!("\"{instead}\""))
            });
        }
    }
    if let (Some(Every::Steps(every)), Some(steps)) = (checkpoint.every.get(), &plan.run.steps)
        && every > steps.value
    {
        problems.push(
            Diagnostic::new(
                &T0264,
                checkpoint.every.span().unwrap_or(checkpoint.span),
                format!(
                    "a checkpoint every {}, and the run has {}",
                    text::count(every, "step"),
                    text::count(steps.value, "step")
                ),
            )
            .help(format!("write a shorter interval, as `every=\"{} steps\"`", (steps.value / 10).max(1)))
            .note("none is written before the end; a run that `max-run` stops leaves nothing"),
        );
    }
    if let (Some(Every::Seconds(every)), Some(run)) =
        (checkpoint.every.get(), plan.job.cluster.as_ref().and_then(durations::longest_run))
        && every > run.value
    {
        problems.push(
            Diagnostic::new(
                &T0264,
                checkpoint.every.span().unwrap_or(checkpoint.span),
                format!(
                    "a checkpoint every {}, and the run ends after {}",
                    text::duration(every),
                    text::duration(run.value)
                ),
            )
            .help(format!("write a shorter interval, as `every=\"{}\"`", tenth(run.value)))
            .note("none is written before the end; a run that `max-run` stops leaves nothing"),
        );
    }
    never_read(context, problems);
}

/// About a tenth of a run, in one unit.
fn tenth(seconds: u64) -> String {
    match seconds / 10 {
        s if s >= 3_600 => format!("{}h", s / 3_600),
        s => format!("{}m", (s / 60).max(1)),
    }
}

/// A text scan: only for spot jobs, which must go on, and only where the whole program is known.
fn never_read(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(checkpoint), Some(program), Some(tree)) =
        (&plan.job.checkpoint, &plan.job.program, &plan.source)
    else {
        return;
    };
    let Some(spot) = plan.job.cluster.as_ref().and_then(|cluster| cluster.spot.as_ref()) else { return };
    // Without a prefix nothing is kept whether it is read or not: T0426.
    if checkpoint.s3.is_absent() {
        return;
    }
    let local = checkpoint.local.value().map_or(LOCAL, |local| local.trim_end_matches('/'));
    let in_files =
        tree.files.iter().chain(plan.dependencies.iter().flat_map(|tree| &tree.files)).any(|file| {
            let text = String::from_utf8_lossy(&file.bytes);
            text.contains(local) || text.contains("SM_CHECKPOINT")
        });
    let in_values = program
        .hyperparameters
        .iter()
        .any(|h| matches!(h.value.value(), Some(Scalar::Text(text)) if text.contains(local)))
        || program.environment.iter().any(|pair| pair.value.value().is_some_and(|text| text.contains(local)))
        || program.arguments.iter().any(|word| word.value.contains(local));
    if tree.files.is_empty() || in_files || in_values {
        return;
    }
    problems.push(
        Diagnostic::new(&T0262, checkpoint.span, format!("neither the program nor its arguments name `{local}`"))
            .label(spot.span, "a spot job goes on from there")
            .help(format!("load from and save to `{local}` in the program, or pass it: `hyperparameter \"checkpoint_dir\" \"{local}\"`"))
            .note(format!("a search of the text in {}", text::count(tree.files.len() as u64, "file"))),
    );
}

/// Outputs below an input prefix are read as data by the next run.
fn overlaps(context: &Context, problems: &mut Problems) {
    let all = s3_uris::all(context.plan);
    let reads = ["import", "program s3=", s3_uris::READ];
    let writes = |what: &str| !what.starts_with("channel") && !reads.contains(&what);
    for (written, fallback, what) in all.iter().filter(|(_, _, what)| writes(what) && what != "export") {
        let Some(uri) = written.val() else { continue };
        for (read, _, channel) in all.iter().filter(|(_, _, what)| what == "channel s3=" || what == "import")
        {
            let Some(prefix) = read.val() else { continue };
            let (Some(at), Some(from)) = (s3::parse(&uri.value), s3::parse(&prefix.value)) else { continue };
            // An S3 prefix is a prefix of keys: `…/train` takes `…/train2/` as well.
            if at.bucket != from.bucket || !at.key.starts_with(from.key) {
                continue;
            }
            problems.push(
                Diagnostic::new(
                    &T0408,
                    uri.span_or(*fallback),
                    format!("`{what}` lies below what `{channel}` reads"),
                )
                .label(prefix.origin.span().unwrap_or(*fallback), "read from here")
                .help("write to another prefix")
                .note("the next run would take what this one writes for its data"),
            );
        }
    }
}
