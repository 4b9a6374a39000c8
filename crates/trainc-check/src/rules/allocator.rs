//! Options of PyTorch's memory allocator in an environment variable.

use crate::Context;
use trainc_catalog::allocator_options::{self, Fault};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};

declare_code!(
    T0839,
    "allocator-option",
    Warning,
    "an option of PyTorch's allocator that it does not have, or a value that it does not take",
    explains: [Program]
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0839];

/// Checks the variables of the container and of `mpirun`.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let job = &context.plan.job;
    let program = job.program.iter().flat_map(|program| &program.environment);
    let mpi = job.parallel.iter().flat_map(|parallel| &parallel.mpi_env);
    for pair in program.chain(mpi) {
        let Some(val) = pair.value.val() else { continue };
        if allocator_options::is_variable(&pair.key) {
            check(context, &pair.key, &val.value, val.span_or(pair.key_span), problems);
        }
    }
}

fn check(context: &Context, name: &str, value: &str, span: Span, problems: &mut Problems) {
    let parts = allocator_options::parts(value);
    let wrong: Vec<_> = parts.iter().filter(|part| part.fault.is_some()).collect();
    for part in &wrong {
        let Some(fault) = &part.fault else { continue };
        let message = match fault {
            Fault::NoValue => format!("`{}` of `{name}` is not `option:value`", part.written),
            Fault::Unknown => format!("`{name}` has no option `{}`", part.option),
            Fault::Value(expected) => {
                format!("`{}` of `{name}` takes {expected}, not `{}`", part.option, part.value)
            }
        };
        let mut diagnostic = Diagnostic::new(&T0839, span, message).note(
            "PyTorch reads it when a process first allocates memory of a GPU, and stops at what it does not \
                know",
        );
        if let Some(row) = part.option_row() {
            diagnostic = diagnostic.note(format!("{} ({})", row.provenance.source, row.provenance.date));
        }
        diagnostic = match &part.instead {
            Some(instead) => {
                let whole: Vec<&str> = parts
                    .iter()
                    .map(|other| {
                        if other.written == part.written { instead } else { &other.written }.as_str()
                    })
                    .collect();
                let whole = format!("{name}=\"{}\"", whole.join(","));
                let help = diagnostic.write(whole.clone());
                // Several faults have several helps, each with one correction.
                match whole.split_once('=').filter(|_| wrong.len() == 1 && context.is_literal(span, value)) {
                    Some((_, text)) => help.fix(span, text),
                    None => help,
                }
            }
            // Another release may have it.
            None if *fault == Fault::Unknown => {
                let known: Vec<&str> = allocator_options::names().collect();
                diagnostic
                    .severity(Severity::Note)
                    .note(format!("known options: {}", text::backtick_list(&known, "and")))
            }
            None => diagnostic,
        };
        problems.push(diagnostic);
    }
}
