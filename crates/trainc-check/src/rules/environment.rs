//! Variables of the container that something else sets.

use super::limits::{T0410, spelling};
use crate::Context;
use std::collections::BTreeMap;
use trainc_catalog::reserved::{self, Kind, Lost, Reserved};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_emit::{self as emit, Launcher};
use trainc_ir::{Engine, Plan};

declare_code!(T0256, "duplicate-variable", Error, "an environment variable that is set twice");
declare_code!(T0411, "reserved-environment", Error, "an environment variable that the container overwrites");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0256, &T0411];

/// Both kinds of variables, written and fetched.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(program) = &plan.job.program else { return };
    if !plan.deployable {
        return;
    }
    let parallel = plan.job.parallel.as_ref();
    let engine = parallel.and_then(|parallel| parallel.engine.get());
    let torchrun = matches!(emit::launcher(plan), Launcher::Torchrun | Launcher::SmpV2);
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
        if !is_name(&secret.name) {
            let near = spelling(&secret.name, '_');
            let diagnostic = Diagnostic::new(
                &T0410,
                secret.name_span,
                format!("`{}` cannot name the variable of a secret", secret.name),
            )
            .note("letters, digits and `_`, no digit first: what a shell takes, and the key of `Environment` of CreateTrainingJob");
            problems.push(if near.is_empty() {
                diagnostic.help("write a name, as `secret \"API_KEY\"`")
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
                    format!("variable `{}` is written twice", variable.name),
                )
                .label(first, "the first time")
                .help("remove one of the two"),
            );
        }
        // What starts the program by itself is no launcher of the toolkit's, nor is the worker.
        if program.entrypoint.is_empty()
            && engine != Some(Engine::Worker)
            && let Some(row) = row(plan, &variable, torchrun)
        {
            problems.push(overwritten(&variable, &row, torchrun));
        }
    }
}

/// Whether a shell takes it as a variable's name, as the service asks of those that the request holds.
fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Families of containers in which PyTorch's toolkit starts the program.
const PYTORCH: [&str; 3] = ["pytorch", "huggingface", "smp"];

/// A variable of the container, written or fetched.
struct Variable<'a> {
    name: &'a str,
    span: Span,
    /// The text, where the manifest has it.
    value: Option<&'a str>,
}

/// The row that reserves the name in this job.
fn row(plan: &Plan, variable: &Variable, torchrun: bool) -> Option<Reserved> {
    let instance = plan.instance.as_ref();
    let efa = instance.is_some_and(|instance| instance.toolkit_sets_nccl_efa_env);
    let rdma = instance.is_some_and(|instance| instance.toolkit_sets_efa_rdma_env);
    let launcher = emit::launcher(plan);
    // Which generation of SMP it is, and so what starts it, the image says.
    let mpi = launcher == Launcher::Mpi || (launcher == Launcher::SmpV1 && plan.smp.is_some());
    // The container has one runner for both.
    let smddp = matches!(launcher, Launcher::Smddp | Launcher::PytorchDdp);
    let pytorch = plan.image.as_ref().is_some_and(|image| PYTORCH.contains(&image.family.as_str()));
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
    let mut held = kinds.into_iter().filter(|(_, holds)| *holds);
    let row = held.find_map(|(kind, _)| reserved::get(kind, variable.name))?;
    // The value that is set there anyway is not lost.
    let is_same = row.value.is_some() && row.value.as_deref() == variable.value;
    (!is_same).then_some(row)
}

/// An error where the value is surely lost, a warning where another program or version may leave it.
fn overwritten(variable: &Variable, row: &Reserved, torchrun: bool) -> Diagnostic {
    let name = variable.name;
    let is_lost = match row.lost {
        Some(Lost::Always) => true,
        Some(Lost::Torchrun) => torchrun,
        None => false,
    };
    let to = row.value.as_ref().map_or_else(String::new, |value| format!(" to `{value}`"));
    let message = if is_lost {
        format!("`{name}` is set{to} by {} in the container: what is written here is lost", row.set_by)
    } else {
        format!(
            "`{name}` may be set{to} by {} in the container: what is written here is then lost",
            row.set_by
        )
    };
    let help = if row.name == name && (is_lost || row.value.is_some()) {
        format!("remove `{name}`, or set it in the program, which starts later")
    } else {
        "use another name".to_owned()
    };
    Diagnostic::new(&T0411, variable.span, message)
        .severity(if is_lost { Severity::Error } else { Severity::Warning })
        .help(help)
        .note(format!("`{}`: {} ({})", row.name, row.statement, row.provenance.source))
}
