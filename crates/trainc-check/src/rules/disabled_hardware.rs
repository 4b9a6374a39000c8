//! Environment variables that turn off what the cluster is paid for, or that belong to debugging.

use crate::Context;
use trainc_catalog::environment_effects;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};

declare_code!(T0585, "disabled-hardware", Warning, "an environment variable that turns off hardware or slows every step");
declare_code!(T0586, "hidden-gpus", Error, "fewer visible GPUs than the ranks of a node use");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0585, &T0586];

/// The variable that selects the GPUs of a process.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// Checks the variables of the container and of `mpirun`.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(instance), Some(mesh)) = (&plan.instance, &plan.mesh) else { return };
    let program = plan.job.program.iter().flat_map(|program| &program.environment);
    let mpi = plan.job.parallel.iter().flat_map(|parallel| &parallel.mpi_env);
    for pair in program.chain(mpi) {
        let Some(val) = pair.value.val() else { continue };
        let span = val.span_or(pair.key_span);
        if pair.key == VISIBLE {
            if plan.deployable {
                check_visible(&val.value, span, mesh.processes_per_node, mesh.gpus_per_node, problems);
            }
            continue;
        }
        let Some(row) = environment_effects::get(&pair.key) else { continue };
        let has_effect = row.values.contains(&val.value.trim().to_lowercase())
            && row.concerns.is_in(instance, mesh.nodes, mesh.world_size);
        if has_effect {
            problems.push(
                Diagnostic::new(&T0585, span, format!("`{}={}` {}", pair.key, val.value, row.effect))
                    .subject(pair.key_span)
                    .help(format!("remove `{}`", pair.key))
                    .note(format!("{} ({})", row.provenance.source, row.provenance.date)),
            );
        }
    }
}

/// Reports a list of GPUs that is shorter than the number of processes, or that leaves GPUs idle.
fn check_visible(value: &str, span: Span, processes: u64, gpus: u64, problems: &mut Problems) {
    let Some(visible) = visible_gpus(value) else { return };
    let message = if visible < processes {
        format!(
            "{} of a node would share {}: `{VISIBLE}` hides the others",
            text::count(processes, "rank"),
            text::count(visible, "GPU")
        )
    } else if visible == 0 && gpus > 0 {
        format!("`{VISIBLE}` hides every GPU of the node")
    } else {
        return;
    };
    problems.push(
        Diagnostic::new(&T0586, span, message)
            .help(format!("remove `{VISIBLE}`: each rank selects its GPU by its local rank"))
            .note("rank 1 then stops with \"CUDA error: invalid device ordinal\" (NVIDIA CUDA programming guide, CUDA_VISIBLE_DEVICES)"),
    );
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
