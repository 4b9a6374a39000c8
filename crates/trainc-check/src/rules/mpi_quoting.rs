//! Options and variables for `mpirun`, which the toolkit splits at spaces and passes through a shell.

use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_emit::is_shell_safe;

declare_code!(
    T0488,
    "mpi-quoting",
    Error,
    "an MPI option or variable that does not reach `mpirun` as written"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0488];

/// Checks `mpi-env` and `mpi-options`.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let Some(parallel) = &context.plan.job.parallel else { return };
    for pair in &parallel.mpi_env {
        let mut letters = pair.key.chars();
        let is_name = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && letters.all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name {
            let message = format!("`{}` is not a valid environment variable name", pair.key);
            problems.push(
                mpi_quoting(pair.key_span, message)
                    .help("write letters, digits and `_`, e.g. `NCCL_DEBUG=\"INFO\"`"),
            );
        }
        if let Some(val) = pair.value.val()
            && let Some(odd) = val.value.chars().find(|c| !is_shell_safe(*c))
        {
            let message = format!(
                "the value of `{0}` contains {1}; it is passed to `mpirun` as `-x {0}=…`",
                pair.key,
                describe(odd)
            );
            problems.push(
                mpi_quoting(val.span_or(pair.key_span), message)
                    .help("write a value without spaces, quotes or shell metacharacters, or set the \
                        variable in the program"),
            );
        }
    }
    if let Some(options) = parallel.mpi_options.val()
        && let Some(odd) = options.value.chars().find(|c| *c != ' ' && !is_shell_safe(*c))
    {
        problems.push(
            mpi_quoting(options.span_or(parallel.span), format!("`mpi-options` contains {}", describe(odd)))
                .help("write words without quotes or shell metacharacters, e.g. `\"--mca \
                    btl_vader_single_copy_mechanism none\"`"),
        );
    }
}

fn mpi_quoting(span: Span, message: String) -> Diagnostic {
    Diagnostic::new(&T0488, span, message)
        .note("the toolkit splits the options at spaces, even inside quotes, and runs the result \
            through a shell (sagemaker-training-toolkit @3383937, mpi.py)")
}

fn describe(c: char) -> String {
    match c {
        ' ' => "a space".to_owned(),
        c if c.is_control() => "a control character".to_owned(),
        c => format!("`{c}`"),
    }
}
