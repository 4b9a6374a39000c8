//! Variables of the container that something else sets.

use super::limits::{T0410, spelling};
use crate::catalog::reserved::{self, Kind};
use crate::check::Context;
use crate::declare_code;
use crate::diag::{Code, Diagnostic, Problems, Severity};
use crate::ir::{Engine, Smp};
use crate::source::Span;
use std::collections::BTreeMap;

declare_code!(T0256, "variable-twice", Error, "a variable that is written and fetched");
declare_code!(T0411, "reserved-environment", Warning, "a variable that the container overwrites");

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
    let launcher = parallel.and_then(|parallel| parallel.launcher.value()).map_or("torchrun", String::as_str);
    let torchrun = engine == Some(Engine::Fsdp)
        || (engine == Some(Engine::Ddp) && launcher == "torchrun")
        || plan.smp == Some(Smp::V2);
    let written = program.environment.iter().map(|pair| (&pair.key, pair.key_span));
    let names: Vec<(&String, Span)> =
        written.chain(program.secrets.iter().map(|secret| (&secret.name, secret.name_span))).collect();
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
    for (name, span) in names {
        if let Some(first) = seen.insert(name, span) {
            problems.push(
                Diagnostic::new(&T0256, span, format!("variable `{name}` is written twice"))
                    .label(first, "the first time")
                    .help("remove one of the two"),
            );
        }
        if program.entrypoint.is_empty()
            && let Some(row) = reserved::get(Kind::Environment, name)
        {
            problems.push(
                Diagnostic::new(
                    &T0411,
                    span,
                    format!(
                        "`{name}` is set by {} in the container: what is written here is lost",
                        row.set_by
                    ),
                )
                .help("use another name")
                .note(format!("`{}`: {} ({})", row.name, row.statement, row.provenance.source)),
            );
        } else if torchrun
            && program.entrypoint.is_empty()
            && let Some(row) = reserved::get(Kind::TorchrunEnvironment, name)
        {
            problems.push(
                Diagnostic::new(
                    &T0411,
                    span,
                    format!("`{name}` is set by {}: what is written here is lost", row.set_by),
                )
                .severity(Severity::Warning)
                .help("remove it, or set it in the program before NCCL starts")
                .note(format!("`{}`: {} ({})", row.name, row.statement, row.provenance.source)),
            );
        }
    }
}

/// Whether a shell takes it as a variable's name, as the service asks of those that the request holds.
fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
