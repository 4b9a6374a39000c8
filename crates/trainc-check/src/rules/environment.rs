//! Environment variables of the container: names, duplicates and reserved variables.

use crate::codes;
use crate::Context;
use crate::queries::program::PROGRAM_VARIABLE;
use crate::queries::spelling::nearest_spelling;
use crate::shared_codes::T0410;
use std::collections::BTreeMap;
use trainc_catalog::reserved_names::{self, Effect, Kind, Lost, Reserved};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Help, Problems, Severity};
use trainc_ir::{Launcher, Plan, Program};

declare_code!(T0256, "duplicate-variable", Error, "an environment variable that is set twice");
// The container overwrites the variable, so that its value has no effect.
declare_code!(
    T0411,
    "reserved-environment",
    Error,
    "an environment variable that the container overwrites",
    supersedes: { Value: [codes::T0584, codes::T0585] }
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0256, &T0411];

/// Checks variables from `environment` and from `secret`.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(program) = &plan.job.program else { return };
    let torchrun = matches!(plan.launch.launcher, Launcher::Torchrun | Launcher::SmpV2);
    let written = program.environment.iter().map(|pair| Variable {
        name: &pair.key,
        span: pair.key_span,
        value: pair.value.value().map(String::as_str),
    });
    let fetched = program.secrets.iter().map(|secret| Variable {
        name: &secret.name,
        span: secret.name_span,
        value: None,
    });
    for secret in &program.secrets {
        if !is_variable_name(&secret.name) {
            let near = nearest_spelling(&secret.name, '_');
            let diagnostic = Diagnostic::new(
                &T0410,
                secret.name_span,
                format!("`{}` is not a valid environment variable name for a secret", secret.name),
            )
            .note("valid names contain letters, digits and `_`, and do not start with a digit (keys of \
                `Environment` in CreateTrainingJob)");
            problems.push(if near.is_empty() {
                diagnostic.help("write a name, e.g. `secret \"API_KEY\"`")
            } else {
                diagnostic.help(format!("write `\"{near}\"`")).fix(secret.name_span, format!("\"{near}\""))
            });
        }
    }
    let mut seen: BTreeMap<&str, Span> = BTreeMap::new();
    for variable in written.chain(fetched) {
        if let Some(first) = seen.insert(variable.name, variable.span) {
            problems.push(
                Diagnostic::new(
                    &T0256,
                    variable.span,
                    format!("environment variable `{}` is set twice", variable.name),
                )
                .label(first, "first set here")
                .help("remove one of them"),
            );
        }
        // Only the toolkit's launchers overwrite variables, not a custom entry point or the worker.
        if program.entrypoint.is_empty()
            && !plan.is_worker()
        {
            if variable.name == PROGRAM_VARIABLE {
                check_program_variable(&variable, program, problems);
            } else if let Some(row) = find_reserved(plan, &variable, torchrun) {
                problems.push(overwrite_diagnostic(&variable, &row, torchrun));
            }
        }
    }
}

/// Reports a variable that replaces the entry point; without an entry point, it names the program.
fn check_program_variable(variable: &Variable, program: &Program, problems: &mut Problems) {
    let Some(entry) = program.entry.val().filter(|entry| Some(entry.value.as_str()) != variable.value) else { return };
    problems.push(
        Diagnostic::new(
            &T0411,
            variable.span,
            format!("the toolkit starts the value of `{PROGRAM_VARIABLE}` instead of `{}`", entry.value),
        )
        .label(entry.span_or(program.span), "never started")
        .help(format!("remove `{PROGRAM_VARIABLE}`, and name the program once"))
        .note("the variable takes precedence over the hyperparameter `sagemaker_program` \
            (sagemaker-training-toolkit @3383937, `environment.py`)"),
    );
}

/// Returns whether the text is a valid environment variable name, as the service requires in requests.
fn is_variable_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Image families in which PyTorch's toolkit starts the program.
const PYTORCH: [&str; 3] = ["pytorch", "huggingface", "smp"];

/// An environment variable of the container.
struct Variable<'a> {
    name: &'a str,
    span: Span,
    /// The value in the manifest; none for a secret.
    value: Option<&'a str>,
}

/// Returns the row that reserves the variable in this job.
fn find_reserved(plan: &Plan, variable: &Variable, torchrun: bool) -> Option<Reserved> {
    let instance = plan.instance.as_ref();
    let efa = instance.is_some_and(|instance| instance.toolkit_sets_nccl_efa_env);
    let rdma = instance.is_some_and(|instance| instance.toolkit_sets_efa_rdma_env);
    let launcher = plan.launch.launcher;
    // The generation of SMP, and so its launcher, is known only with the image.
    let mpi = launcher == Launcher::Mpi || (launcher == Launcher::SmpV1 && plan.library_generation().is_some());
    // The container uses one runner for both.
    let smddp = matches!(launcher, Launcher::Smddp | Launcher::PytorchDdp);
    let pytorch = !plan.payload.is_launched_by_script()
        && plan.image.as_ref().is_some_and(|image| PYTORCH.contains(&image.family.as_str()));
    let kinds = [
        (Kind::Environment, true),
        (Kind::TorchrunEnvironment, torchrun),
        (Kind::EfaProvider, torchrun && efa),
        (Kind::EfaRdma, torchrun && rdma),
        (Kind::Mpi, mpi),
        (Kind::MpiEfa, mpi && efa),
        (Kind::MpiRdma, mpi && rdma),
        (Kind::SmpMpi, mpi && launcher == Launcher::SmpV1),
        (Kind::Smddp, smddp),
        (Kind::SmddpEfa, smddp && efa),
        (Kind::SmddpRdma, smddp && rdma),
        (Kind::PytorchContainer, pytorch),
    ];
    let mut applicable = kinds.into_iter().filter(|(_, holds)| *holds);
    let row = applicable.find_map(|(kind, _)| reserved_names::get(kind, variable.name))?;
    // Setting the same value is harmless; NCCL and libfabric compare words without case.
    let is_same = row.value.as_ref().zip(variable.value).is_some_and(|(set, own)| set.eq_ignore_ascii_case(own));
    (!is_same).then_some(row)
}

/// Returns an error if the value is certainly overwritten, a warning if that depends on the program or
/// version. A value that only tunes the network or the log is one level less: the job is the same without it.
fn overwrite_diagnostic(variable: &Variable, row: &Reserved, torchrun: bool) -> Diagnostic {
    let name = variable.name;
    let is_lost = match row.lost {
        Some(Lost::Always) => true,
        Some(Lost::Torchrun) => torchrun,
        None => false,
    };
    let to = row.value.as_ref().map_or_else(String::new, |value| format!(" to `{value}`"));
    let message = if is_lost {
        format!("`{name}` is set{to} by {} in the container, which overwrites this value", row.set_by)
    } else {
        format!(
            "`{name}` may be set{to} by {} in the container, which would overwrite this value",
            row.set_by
        )
    };
    let help = if row.name == name && (is_lost || row.value.is_some()) {
        Help::remove(name).or_else("set it in the program, which starts later")
    } else {
        Help::from("use another name")
    };
    let severity = match (row.effect, is_lost) {
        (Effect::Meaning, true) => Severity::Error,
        (Effect::Meaning, false) | (Effect::Transport, true) => Severity::Warning,
        (Effect::Transport, false) | (Effect::Logs, _) => Severity::Note,
    };
    Diagnostic::new(&T0411, variable.span, message)
        .severity(severity)
        .help(help)
        .note(format!("`{}`: {} ({})", row.name, row.statement, row.provenance.source))
}
