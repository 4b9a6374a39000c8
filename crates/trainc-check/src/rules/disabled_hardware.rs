//! Environment variables that turn off what the cluster is paid for, or that belong to debugging.

use crate::Context;
use crate::queries::literals::literals;
use trainc_catalog::environment_effects::{self, Effect};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};

declare_code!(
    T0585, "disabled-hardware", Warning,
    "a variable or an option that turns off hardware or slows every step"
);
declare_code!(T0586, "hidden-gpus", Error, "fewer visible GPUs than the ranks of a node use", ends: Speed);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0585, &T0586];

/// The variables that select GPUs: of a process, and of a container.
const VISIBLE: [&str; 2] = ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"];

/// Checks the variables of the container and of `mpirun`.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(instance), Some(mesh)) = (&plan.instance, &plan.mesh) else { return };
    let is_in = |row: &Effect| row.concerns.is_in(instance, mesh.nodes, mesh.world_size);
    let program = plan.job.program.iter().flat_map(|program| &program.environment);
    let mpi = plan.job.parallel.iter().flat_map(|parallel| &parallel.mpi_env);
    for pair in program.chain(mpi) {
        let Some(val) = pair.value.val() else { continue };
        let span = val.span_or(pair.key_span);
        if let Some(name) = VISIBLE.iter().find(|name| **name == pair.key && !is_word(&val.value)) {
            check_visible(name, &val.value, span, (mesh.processes_per_node, mesh.gpus_per_node), problems);
            continue;
        }
        let Some(row) = environment_effects::get(&pair.key) else { continue };
        if row.is_of(&val.value) && is_in(&row) {
            let shown = format!("{}={}", pair.key, val.value);
            problems.push(effect(&row, span, &shown, &pair.key).subject(pair.key_span));
        }
    }
    for literal in literals(context) {
        let name = literal.name.replace('-', "_");
        let Some(row) = environment_effects::get(&format!("option/{name}")) else { continue };
        if row.is_of(&literal.value.python()) && is_in(&row) {
            problems.push(effect(&row, literal.span, &literal.shown(), &literal.name));
        }
    }
}

/// Returns the problem of a variable or an option.
fn effect(row: &Effect, span: Span, shown: &str, name: &str) -> Diagnostic {
    Diagnostic::new(&T0585, span, format!("`{shown}` {}", row.effect))
        .remove(name)
        .note(format!("{} ({})", row.provenance.source, row.provenance.date))
}

/// Reports a list of GPUs that is shorter than the number of processes, or that leaves GPUs idle.
fn check_visible(name: &str, value: &str, span: Span, (processes, gpus): (u64, u64), problems: &mut Problems) {
    let Some(visible) = visible_gpus(value) else { return };
    let ranks = text::count(processes, "rank");
    let message = match visible {
        0 if processes > 0 => format!("`{name}` hides every GPU from the {ranks} of a node"),
        0 if gpus > 0 => format!("`{name}` hides every GPU of the node"),
        _ if visible < processes => {
            format!("`{name}` shows {} to the {ranks} of a node", text::count(visible, "GPU"))
        }
        _ => return,
    };
    let diagnostic = Diagnostic::new(&T0586, span, message)
        .remove(name)
        .and_text(": each rank selects its GPU by its local rank");
    problems.push(if visible == 0 {
        diagnostic
    } else {
        diagnostic.note(format!(
            "local rank {visible} then stops with \"CUDA error: invalid device ordinal\" (NVIDIA CUDA \
                programming guide, CUDA_VISIBLE_DEVICES)"
        ))
    });
}

/// Returns whether a value is a word of the container runtime: `all`, `none`, `void`.
fn is_word(value: &str) -> bool {
    value.len() > 1 && value.chars().all(|c| c.is_ascii_alphabetic())
}

/// Returns the number of GPUs that a value shows: CUDA reads the list up to the first invalid index.
fn visible_gpus(value: &str) -> Option<u64> {
    if value.contains("GPU-") || value.contains("MIG-") {
        return None;
    }
    let parts = value.split(',').map(str::trim);
    Some(parts.take_while(|part| part.parse::<u32>().is_ok()).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_visible_gpus() {
        assert_eq!(visible_gpus("0"), Some(1));
        assert_eq!(visible_gpus("0, 1,2,3"), Some(4));
        assert_eq!(visible_gpus("0,-1,2"), Some(1));
        assert_eq!((visible_gpus("-1"), visible_gpus("")), (Some(0), Some(0)));
        assert_eq!(visible_gpus("GPU-8932f937"), None);
    }
}
