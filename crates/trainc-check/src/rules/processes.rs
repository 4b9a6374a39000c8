//! Processes and GPUs: idle GPUs, too many processes, several hosts without a launcher, and MPI settings
//! without MPI.

use crate::codes;
use crate::Context;
use crate::queries::program::{Processes, processes};
use crate::queries::torchrun::uses_torchrun;
use trainc_catalog::instances;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Help, Note, Problems, Severity};
use trainc_ir::job::InstanceGroup;
use trainc_ir::{Launcher, Parallel, Plan, Price};

declare_code!(T0360, "idle-gpus", Warning, "GPUs without a process");
// A launcher for several hosts also starts a process for each GPU.
declare_code!(
    T0361,
    "multi-host-without-launcher",
    Warning,
    "several hosts that each run the script independently",
    supersedes: { Value: [codes::T0360] }
);
declare_code!(T0362, "too-many-processes", Error, "more processes per host than GPUs", ends: Speed);
declare_code!(T0363, "mpi-setting-without-mpi", Error, "an MPI setting with another launcher", ends: Speed);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0360, &T0361, &T0362, &T0363];

/// Checks that there is one process per GPU.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(parallel), Some(machine)) = (&plan.job.parallel, &plan.machine) else { return };
    let (Some(engine), Some(bound)) = (parallel.engine.val(), plan.engine) else { return };
    let gpus = machine.gpus_per_node;
    let noun = plan.chip_noun();
    let groups = plan.job.cluster.as_ref().map_or(&[][..], |cluster| &cluster.groups);
    // Of a job without `parallel`, the instance type is what is paid for.
    let instance = plan.job.cluster.as_ref().and_then(|cluster| cluster.instance.span());
    // Without a launcher, the container or the script decides how many processes run.
    let is_plain = bound.front.law().is_script();
    let plain = is_plain.then(|| processes(plan)).filter(|which| *which != Processes::Own);
    let is_written = engine.origin.span().is_some();
    let span = engine.origin.span().or(instance).unwrap_or(parallel.span);
    let subject = if is_written { "engine `none`" } else { "a job without `parallel`" };
    if plain == Some(Processes::Single) && !groups.is_empty() {
        for (group, price) in groups.iter().zip(plan.group_prices()) {
            if let Some(diagnostic) = idle_group(subject, group, price) {
                problems.push(diagnostic);
            }
        }
    } else if plain == Some(Processes::Single) && plan.instance.is_some() && gpus > 1 {
        let diagnostic = Diagnostic::new(
            &T0360,
            span,
            format!(
                "{subject} starts one process per host, but each host has {}",
                text::count(gpus, noun)
            ),
        )
        .write("parallel engine=\"ddp\" launcher=\"torchrun\"").or_else(&format!("use an instance type with one {noun}"));
        problems.push(with_idle_cost(diagnostic, plan.price(), nodes(plan), noun, (gpus, 1)));
    }
    if let (Some(plain), Some(mesh)) = (plain, plan.mesh.as_ref().filter(|mesh| mesh.nodes > 1)) {
        let diagnostic = Diagnostic::new(
            &T0361,
            span,
            format!(
                "{subject} on {}: each host runs the whole script independently",
                text::count(mesh.nodes, "node")
            ),
        );
        let diagnostic = if plain == Processes::Unknown {
            diagnostic.severity(Severity::Note).note(
                "the script may connect the hosts itself: trainc does not have its files (`program source=`)",
            )
        } else if plan.job.channels.iter().any(|channel| !channel.shard.is_absent()) {
            diagnostic.severity(Severity::Note).note("`shard` gives each host a part of the data")
        } else {
            with_duplicate_cost(diagnostic, plan, mesh.nodes)
        };
        problems.push(
            diagnostic
            .help(launcher_help(plan))
            .note(format!("without a launcher the container starts a plain process on every host; the script \
                itself would have to connect them through SM_HOSTS{}", if groups.is_empty() { "" } else { ", and read its group from \
                    SM_CURRENT_INSTANCE_GROUP" })),
        );
    }
    check_processes(plan, parallel, gpus.saturating_mul(machine.ranks_per_gpu), problems);
    check_mpi_settings(plan, parallel, problems);
}

/// Adds the cost of the hosts that repeat the work of the first, unless instance groups have different types.
fn with_duplicate_cost(diagnostic: Diagnostic, plan: &Plan, nodes: u64) -> Diagnostic {
    let Some(price) = plan.price() else { return diagnostic };
    let (all, surplus) = (price.usd_per_hour * nodes as f64, price.usd_per_hour * (nodes - 1) as f64);
    diagnostic
        .note(Note::cost(format!(
            "if the script does not connect them, {} of {} per hour pays for duplicate work",
            text::dollars(surplus),
            text::dollars(all)
        )))
        .fact("wasted_usd_per_hour", surplus)
}

/// Returns what to write to distribute the work over the hosts.
fn launcher_help(plan: &Plan) -> Help {
    let groups = plan.job.cluster.as_ref().map_or(&[][..], |cluster| &cluster.groups);
    let with_gpus = groups.iter().find(|group| gpus_of(group).is_some());
    if let Some(group) = with_gpus.and_then(|group| group.name.value()) {
        return Help::write(format!("parallel engine=\"ddp\" launcher=\"torchrun\" group=\"{group}\""));
    }
    if groups.is_empty() && plan.instance.is_some() {
        return Help::write("parallel engine=\"ddp\" launcher=\"torchrun\"").or("nodes=1");
    }
    let one = if groups.is_empty() { "write `nodes=1`" } else { "keep one `group` with `nodes=1`" };
    format!("{one}, or give each host a shard of the data, e.g. with `shard=\"by-key\"` on a channel").into()
}

/// Returns the number of accelerators per host of the group and their noun; none for a type without.
fn gpus_of(group: &InstanceGroup) -> Option<(u64, &'static str)> {
    let row = instances::get(group.instance.value()?)?;
    Some((u64::from(row.accelerators), row.accelerator.kind.noun()))
}

/// Reports a plain script on a group whose hosts have several accelerators.
fn idle_group(subject: &str, group: &InstanceGroup, price: Option<&Price>) -> Option<Diagnostic> {
    let (gpus, noun) = gpus_of(group).filter(|(gpus, _)| *gpus > 1)?;
    let name = group.name.value()?;
    let diagnostic = Diagnostic::new(
        &T0360,
        group.instance.span().unwrap_or(group.span),
        format!(
            "{subject} starts one process per host, but each host of group `{name}` has {}",
            text::count(gpus, noun)
        ),
    )
    .write(format!("parallel engine=\"ddp\" launcher=\"torchrun\" group=\"{name}\"")).or_else(&format!("use an instance type with one {noun}"));
    Some(with_idle_cost(diagnostic, price, group.nodes.get()?, noun, (gpus, 1)))
}

/// Compares `processes` with `gpus`, the number of ranks per host (a NeuronCore each where an accelerator has
/// several).
fn check_processes(plan: &Plan, parallel: &Parallel, gpus: u64, problems: &mut Problems) {
    let Some(processes) = parallel.processes.val() else { return };
    if uses_torchrun(plan) || gpus == 0 {
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
                    "`processes` {} exceeds the {} of each host: processes would share a {noun}",
                    processes.value,
                    text::count(gpus, noun)
                ),
            )
            .write(format!("processes {gpus}")).or_remove_it().and_text(&format!(": one per {noun} is the default"))
            .note(if noun == "GPU" {
                "the SDK accepts it; NCCL rejects two ranks on one device"
            } else {
                "the SDK accepts it"
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
        .write(format!("processes {gpus}")).or_remove_it().and_text(&format!(": one per {noun} is the default"));
        problems.push(with_idle_cost(
            diagnostic,
            plan.rank_price(),
            nodes(plan),
            noun,
            (gpus, processes.value),
        ));
    }
}

fn nodes(plan: &Plan) -> u64 {
    plan.mesh.as_ref().map_or(1, |mesh| mesh.nodes)
}

/// Adds the cost of idle GPUs on `nodes`, given the GPUs per node and those in use.
fn with_idle_cost(
    diagnostic: Diagnostic,
    price: Option<&Price>,
    nodes: u64,
    noun: &str,
    (gpus, used): (u64, u64),
) -> Diagnostic {
    let diagnostic = diagnostic.fact("gpus_per_node", gpus).fact("gpus_used_per_node", used);
    let Some(price) = price else { return diagnostic };
    let wasted = price.usd_per_hour * nodes as f64 * (gpus - used) as f64 / gpus as f64;
    diagnostic
        .note(Note::cost(format!(
            "the idle {noun}s cost {} of {} per hour",
            text::dollars(wasted),
            text::dollars(price.usd_per_hour * nodes as f64)
        )))
        .fact("wasted_usd_per_hour", wasted)
}

/// Reports MPI settings, which torchrun and SMDDP's launcher ignore.
fn check_mpi_settings(plan: &Plan, parallel: &Parallel, problems: &mut Problems) {
    let Some(engine) = plan.engine else { return };
    let launched_by = if uses_torchrun(plan) {
        "torchrun"
    } else if engine.front.launcher(parallel) == Launcher::PytorchDdp {
        "pytorchddp"
    } else {
        return;
    };
    let mut written: Vec<(&str, trainc_diag::source::Span)> = Vec::new();
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
            format!("`{name}` requires MPI, but engine `{}` uses {launched_by} here", engine.name()),
        );
        problems.push(match name {
            "mpi-env" => diagnostic.help("move the variables to `program { environment … }`"),
            _ if engine.front.takes_launcher("mpi") => diagnostic.remove(name).or_write("launcher=\"mpi\""),
            _ => diagnostic.remove(name),
        });
    }
}
