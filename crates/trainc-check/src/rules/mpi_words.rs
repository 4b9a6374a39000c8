//! What is passed to `mpirun`: words that the toolkit splits at blanks and a shell then reads.

use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_emit::is_plain;

declare_code!(
    T0488,
    "mpi-quoting",
    Error,
    "an MPI option or variable that does not reach `mpirun` as written"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0488];

/// `mpi-env` and `mpi-options`.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let Some(parallel) = context.plan.job.parallel.as_ref().filter(|_| context.plan.deployable) else {
        return;
    };
    for pair in &parallel.mpi_env {
        let mut letters = pair.key.chars();
        let is_name = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && letters.all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name {
            let message = format!("`{}` is no name of a variable", pair.key);
            problems.push(
                refused(pair.key_span, message)
                    .help("write letters, digits and `_`, as `NCCL_DEBUG=\"INFO\"`"),
            );
        }
        if let Some(val) = pair.value.val()
            && let Some(odd) = val.value.chars().find(|c| !is_plain(*c))
        {
            let message = format!(
                "the value of `{0}` has {1}; it becomes `-x {0}=…` of `mpirun`",
                pair.key,
                shown(odd)
            );
            problems.push(
                refused(val.span_or(pair.key_span), message)
                    .help("write a value without blanks, quotes and signs of the shell, or let the program set the variable"),
            );
        }
    }
    if let Some(options) = parallel.mpi_options.val()
        && let Some(odd) = options.value.chars().find(|c| *c != ' ' && !is_plain(*c))
    {
        problems.push(
            refused(options.span_or(parallel.span), format!("`mpi-options` has {}", shown(odd)))
                .help("write words without quotes and signs of the shell, as `\"--mca btl_vader_single_copy_mechanism none\"`"),
        );
    }
}

fn refused(span: Span, message: String) -> Diagnostic {
    Diagnostic::new(&T0488, span, message)
        .note("the toolkit splits the options at blanks, whatever quotes stand there, and a shell reads the words (sagemaker-training-toolkit @3383937, mpi.py)")
}

fn shown(c: char) -> String {
    match c {
        ' ' => "a blank".to_owned(),
        c if c.is_control() => "a control character".to_owned(),
        c => format!("`{c}`"),
    }
}
