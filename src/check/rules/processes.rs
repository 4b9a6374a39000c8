//! Processes and GPUs: a GPU without a process, a process without a GPU, and settings of a launcher that is not there.

use super::torchrun;
use crate::check::Context;
use crate::declare_code;
use crate::diag::{Code, Diagnostic, Problems};
use crate::ir::{Engine, Parallel, Plan};
use crate::text;

declare_code!(T0360, "idle-gpus", Warning, "GPUs that no process uses");
declare_code!(T0361, "hosts-without-launcher", Warning, "several hosts that run one script each on its own");
declare_code!(T0362, "too-many-processes", Error, "more processes on a host than it has GPUs");
declare_code!(T0363, "mpi-without-mpi", Error, "a setting of MPI where another launcher starts the ranks");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0360, &T0361, &T0362, &T0363];

/// One process drives one GPU, unless the script does otherwise.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(parallel), Some(machine)) = (&plan.job.parallel, &plan.machine) else { return };
    let Some(engine) = parallel.engine.val() else { return };
    let gpus = machine.gpus_per_node;
    let noun = plan.chip_noun();
    if engine.value == Engine::None && plan.instance.is_some() && gpus > 1 {
        let diagnostic = Diagnostic::new(
            &T0360,
            engine.span_or(parallel.span),
            format!(
                "engine `none` starts one process on each host, and each host has {}",
                text::count(gpus, noun)
            ),
        )
        .help(format!(
            "write `parallel engine=\"ddp\" launcher=\"torchrun\"`, or take an instance type with one {noun}"
        ));
        problems.push(idle(plan, diagnostic, gpus, 1));
    }
    if let Some(mesh) = plan.mesh.as_ref().filter(|mesh| mesh.nodes > 1 && engine.value == Engine::None) {
        problems.push(
            Diagnostic::new(
                &T0361,
                engine.span_or(parallel.span),
                format!("engine `none` on {}: each host runs the whole script and knows nothing of the others", text::count(mesh.nodes, "node")),
            )
            .help(if gpus > 0 {
                "write `parallel engine=\"ddp\" launcher=\"torchrun\"`, or `nodes=1`"
            } else {
                "write `nodes=1`, or give each host its part of the data, as `shard=\"by-key\"` of a channel does"
            })
            .note("without a launcher the container starts a plain process on every host; the script alone could join them by SM_HOSTS"),
        );
    }
    processes(plan, parallel, gpus.saturating_mul(machine.ranks_per_gpu), problems);
    stray(plan, parallel, problems);
}

/// `gpus`: ranks that a host has room for, a NeuronCore each where the accelerator has several.
fn processes(plan: &Plan, parallel: &Parallel, gpus: u64, problems: &mut Problems) {
    let Some(processes) = parallel.processes.val() else { return };
    if torchrun::starts(plan) || gpus == 0 {
        return;
    }
    let span = processes.span_or(parallel.span);
    let noun = plan.rank_noun();
    if processes.value > gpus {
        problems.push(
            Diagnostic::new(
                &T0362,
                span,
                format!(
                    "`processes` {} on hosts with {}: two processes would share a {noun}",
                    processes.value,
                    text::count(gpus, noun)
                ),
            )
            .help(format!("write `processes {gpus}`, or remove it: one per {noun} is the default"))
            .note(if noun == "GPU" {
                "the SDK lets it pass; NCCL refuses two ranks on one device"
            } else {
                "the SDK lets it pass"
            })
            .fact("gpus_per_node", gpus),
        );
    } else if processes.value < gpus {
        let diagnostic = Diagnostic::new(
            &T0360,
            span,
            format!(
                "`processes` {} leaves {} of each host without a process",
                processes.value,
                text::count(gpus - processes.value, noun)
            ),
        )
        .help(format!("write `processes {gpus}`, or remove it: one per {noun} is the default"));
        problems.push(idle(plan, diagnostic, gpus, processes.value));
    }
}

/// What the idle GPUs cost.
fn idle(plan: &Plan, diagnostic: Diagnostic, gpus: u64, used: u64) -> Diagnostic {
    let diagnostic = diagnostic.fact("gpus_per_node", gpus).fact("gpus_used_per_node", used);
    let nodes = plan.mesh.as_ref().map_or(1, |mesh| mesh.nodes);
    let Some(price) = &plan.price else { return diagnostic };
    let wasted = price.usd_per_hour * nodes as f64 * (gpus - used) as f64 / gpus as f64;
    diagnostic
        .note(format!(
            "the idle {}s cost {} of {} per hour",
            if gpus > plan.machine.as_ref().map_or(0, |machine| machine.gpus_per_node) {
                plan.rank_noun()
            } else {
                plan.chip_noun()
            },
            text::dollars(wasted),
            text::dollars(price.usd_per_hour * nodes as f64)
        ))
        .fact("wasted_usd_per_hour", wasted)
}

/// Under torchrun and SMDDP's own start the MPI settings reach nobody.
fn stray(plan: &Plan, parallel: &Parallel, problems: &mut Problems) {
    let Some(engine) = parallel.engine.get() else { return };
    let launcher = parallel.launcher.value().map(String::as_str);
    let starter = if torchrun::starts(plan) {
        "torchrun"
    } else if engine == Engine::Ddp && launcher == Some("pytorchddp") {
        "pytorchddp"
    } else {
        return;
    };
    let mut written: Vec<(&str, crate::source::Span)> = Vec::new();
    if let Some(span) = parallel.processes.span() {
        written.push(("processes", span));
    }
    if let Some(first) = parallel.mpi_env.first() {
        written.push(("mpi-env", first.key_span));
    }
    if let Some(span) = parallel.mpi_options.span() {
        written.push(("mpi-options", span));
    }
    for (name, span) in written {
        let diagnostic = Diagnostic::new(
            &T0363,
            span,
            format!("`{name}` is for MPI, and {starter} starts the ranks of engine `{}` here", engine.name()),
        );
        problems.push(match (name, engine) {
            ("mpi-env", _) => diagnostic.help("move the variables to `program { environment … }`"),
            (_, Engine::Ddp) => diagnostic.help(format!("remove `{name}`, or write `launcher=\"mpi\"`")),
            _ => diagnostic.help(format!("remove `{name}`")),
        });
    }
}
