//! Where checkpoints are: their prefix compared with that of the output, and the directory that the program
//! is given compared with the one that SageMaker copies.

use crate::Context;
use crate::queries::{program, s3};
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::checkpoint_parts::{DEFAULT_CHECKPOINT_PATH, checkpoint_channel};
use trainc_ir::Plan;

declare_code!(T0595, "output-in-checkpoints", Warning, "an output inside the prefix of the checkpoints");
declare_code!(T0596, "checkpoint-not-synced", Warning, "a checkpoint directory that SageMaker does not copy");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0595, &T0596];

/// Words in the name of an option or a variable whose value is a directory of checkpoints.
const NAMES: &[&str] = &["checkpoint", "ckpt"];
/// The directories under `/opt/ml` that are uploaded when the job ends.
const UPLOADED_AT_END: &[&str] = &["/opt/ml/model", "/opt/ml/output"];

/// Checks the prefix and the directory.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    if plan.is_worker() {
        return;
    }
    check_prefix(plan, problems);
    check_directory(context, problems);
}

/// Reports an output below the prefix of the checkpoints. Checkpoints below the output are sound: SageMaker
/// writes what a job makes to `PREFIX/JOBNAME/output/` and copies nothing back from there.
fn check_prefix(plan: &Plan, problems: &mut Problems) {
    let (Some(checkpoint), Some(output)) = (&plan.job.checkpoint, &plan.job.output) else { return };
    let (Some(own), Some(other)) = (checkpoint.s3.val(), output.s3.val()) else { return };
    let (Some(checkpoints), Some(outputs)) = (s3::parse(&own.value), s3::parse(&other.value)) else { return };
    let key = checkpoints.key.trim_end_matches('/');
    let is_below = |rest: &str| key.is_empty() || rest.is_empty() || rest.starts_with('/');
    if checkpoints.bucket != outputs.bucket || !outputs.key.strip_prefix(key).is_some_and(is_below) {
        return;
    }
    problems.push(
        Diagnostic::new(&T0595, own.span_or(checkpoint.span), "the output is inside the prefix of the \
            checkpoints")
            .label(other.span_or(output.span), "the output")
            .help(format!("write a prefix of its own, such as `s3=\"s3://{}/checkpoints/{{{{ job.digest \
                }}}}/\"`", checkpoints.bucket))
            .note("at every start SageMaker copies everything below the prefix of the checkpoints into \
                the container, here the models and outputs of all jobs, too"),
    );
}

/// Reports directories of checkpoints that are not the one of `checkpoint`.
fn check_directory(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(checkpoint), Some(program)) = (&plan.job.checkpoint, &plan.job.program) else { return };
    // Without a prefix nothing is copied, and a file system keeps what is written to it.
    if checkpoint.s3.is_absent() || checkpoint_channel(plan).is_some() || checkpoint.local.is_bad() {
        return;
    }
    let local = checkpoint.local.value().map_or(DEFAULT_CHECKPOINT_PATH, String::as_str).trim_end_matches('/');
    let is_below = |path: &str, directory: &str| {
        path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    for (name, value, span) in program::texts(program) {
        let is_named = NAMES.iter().any(|word| name.to_lowercase().contains(word));
        let is_default = is_below(value, DEFAULT_CHECKPOINT_PATH);
        // Hugging Face's Trainer writes checkpoints to `output_dir`; scripts also write the final model
        // there.
        let is_output = name.replace('-', "_") == "output_dir"
            && (!is_below(value, "/opt/ml") || NAMES.iter().any(|word| value.to_lowercase().contains(word)));
        let is_path = value.starts_with('/') && !value.contains("{{");
        if !is_path || is_below(value, local) || !(is_named || is_default || is_output) {
            continue;
        }
        // A checkpoint to start from is read from a channel.
        let is_input = is_below(value, "/opt/ml/input");
        let is_upload = UPLOADED_AT_END.iter().any(|directory| is_below(value, directory));
        if is_input {
            continue;
        }
        let mut diagnostic = Diagnostic::new(
            &T0596,
            span,
            format!("`{value}` is not the directory that SageMaker copies to the checkpoints' prefix: \
                that is `{local}`"),
        )
        .write(local).or_else(&format!("`local=\"{}\"` in `checkpoint`", value.trim_end_matches('/')))
        .note(if is_upload {
            "it is uploaded once, when the job ends, and not copied back when the job is restarted"
        } else {
            "what is written elsewhere is lost with the instance"
        });
        if let Some(at) = checkpoint.local.span() {
            diagnostic = diagnostic.label(at, "the copied directory");
        }
        problems.push(diagnostic);
    }
}
