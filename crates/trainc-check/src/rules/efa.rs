//! The network between nodes: EFA, and whether the container enables it.

use crate::Context;
use crate::queries::prediction::{run_cost_of_step_seconds, describe_step_share};
use crate::queries::run_limits;
use trainc_catalog::images;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Note, Problems};
use trainc_ir::hardware::{AcceleratorKind, Instance};
use trainc_ir::{Launcher, Parallel, Plan};
use trainc_predict::bills::max_cost;

declare_code!(T0397, "nodes-without-efa", Warning, "multi-node training without EFA", explains: [Collective]);
declare_code!(
    T0398,
    "efa-not-enabled",
    Warning,
    "EFA that the container does not enable",
    explains: [Collective]
);
declare_code!(
    T0830,
    "efa-of-own-image",
    Note,
    "EFA with an image that may lack its libraries",
    explains: [Collective]
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0397, &T0398, &T0830];

/// Ranks at which jobs without the environment were seen to hang (aws/sagemaker-training-toolkit#240).
const HANGING_RANKS: u64 = 256;

/// Checks jobs whose ranks communicate across nodes.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(instance), Some(mesh), Some(parallel)) = (&plan.instance, &plan.mesh, &plan.job.parallel)
    else {
        return;
    };
    if mesh.nodes <= 1 || mesh.law.is_script() {
        return;
    }
    let kind = plan.job.rank_instance();
    let span = kind.and_then(|kind| kind.origin.span()).unwrap_or(parallel.span);
    match instance.efa {
        Some(false) => report_missing_efa(context, instance, mesh.nodes, span, problems),
        Some(true) => {
            check_environment(context, instance, parallel, span, problems);
            check_own_image(context, instance, problems);
        }
        None => {}
    }
}

fn report_missing_efa(context: &Context, instance: &Instance, nodes: u64, span: Span, problems: &mut Problems) {
    let mut diagnostic = Diagnostic::new(
        &T0397,
        span,
        format!(
            "{} of `{}` without EFA: they exchange gradients over TCP{}",
            text::count(nodes, "node"),
            instance.name,
            instance
                .network_gbps
                .map_or_else(String::new, |gbps| format!(" at {} Gbps each", text::short_number(gbps)))
        ),
    )
    .help("use an instance type with EFA, e.g. `ml.p4d.24xlarge` (400 Gbps), or one node")
    .note(format!(
        "source of the bandwidth: `trainc catalog -v instances {}`, as of {}",
        instance.name, instance.provenance.date
    ));
    if let Some(gbps) = instance.network_gbps {
        diagnostic = diagnostic.fact("network_gbps", gbps);
        // The least that one all-reduce of the trained parameters moves in and out of a node: 2 × 2 B × N
        // (n-1)/n.
        if let Some(trained) = context.plan.model.as_ref().and_then(|model| model.trainable.as_ref()) {
            let bytes = 4.0 * trained.value as f64 * (nodes - 1) as f64 / nodes as f64;
            let seconds = bytes * 8.0 / (gbps * 1e9);
            let usd = run_cost_of_step_seconds(context, seconds);
            let note = format!(
                    "one all-reduce of {} 16-bit gradients takes at least {} s at that rate{}",
                    text::group_digits(trained.value),
                    text::short_number(seconds),
                    usd.map_or_else(String::new, |usd| {
                        format!(": {} of the run if nothing overlaps with it", text::dollars(usd))
                    })
                );
            diagnostic = diagnostic.note(Note::from(note).with_cost_if(usd.is_some())).fact("reduction_seconds", seconds);
        }
    }
    problems.push(diagnostic);
}

fn check_environment(
    context: &Context,
    instance: &Instance,
    parallel: &Parallel,
    span: Span,
    problems: &mut Problems,
) {
    let plan = context.plan;
    // The worker and the launch script set their own environment, and the toolkit's SMDDP runner enables EFA
    // on every type.
    let turned_on =
        matches!(plan.launch.launcher, Launcher::Smddp | Launcher::PytorchDdp)
            || plan.payload.is_launched_by_script();
    if instance.toolkit_sets_nccl_efa_env || turned_on || plan.is_worker() {
        return;
    }
    let program = plan.job.program.as_ref();
    let pairs = parallel.mpi_env.iter().chain(program.iter().flat_map(|program| &program.environment));
    let set = pairs.map(|pair| pair.key.as_str()).any(|key| key == "FI_PROVIDER");
    let by_options = parallel.mpi_options.value().is_some_and(|options| options.contains("FI_PROVIDER"));
    if set || by_options {
        return;
    }
    let diagnostic =
        Diagnostic::new(
            &T0398,
            span,
            format!("`{}` has EFA, but the training toolkit does not enable it there: NCCL may silently \
                fall back to TCP", instance.name),
        )
        .add_to("program", "environment FI_PROVIDER=\"efa\"")
        .note("aws/sagemaker-training-toolkit@3383937 sets it from a list of types that lacks this one \
            (#240: hangs at 256 ranks and more)");
    let notes = [describe_network_wait(context), describe_hang_cost(plan)];
    problems.push(notes.into_iter().flatten().fold(diagnostic, Diagnostic::note));
}

/// Notes that the plan assumes the libraries of EFA in an image of the user, unless the probe measures the
/// network or the name of the image says that it has them.
fn check_own_image(context: &Context, instance: &Instance, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(ask), Some(image)) = (&plan.job.image, &plan.image) else { return };
    let Some(uri) = ask.uri.val().filter(|_| image.is_own() && !plan.is_worker()) else { return };
    let parsed = images::parse_uri(&uri.value);
    let is_aws = parsed.as_ref().is_some_and(|parsed| images::is_registry_account(&parsed.account));
    let has_efa = parsed.as_ref().is_some_and(images::has_efa_in_name);
    if plan.is_probed() || is_aws || has_efa || instance.accelerator.kind != AcceleratorKind::Gpu {
        return;
    }
    let at_rate = |gbps| format!(" at {} Gbps", text::short_number(gbps));
    let rate = instance.network_gbps.map_or_else(String::new, at_rate);
    let diagnostic = Diagnostic::new(
        &T0830,
        uri.span_or(ask.span),
        format!("the plan assumes EFA{rate} per node, and whether this image has its libraries is not known"),
    )
    .add("probe")
    .and_text(", which measures the network before the program starts")
    .note(
        "NCCL uses EFA through libfabric and aws-ofi-nccl; without them it uses TCP and reports no error \
            (aws/aws-ofi-nccl#803, #67, #241)",
    );
    problems.push(describe_network_wait(context).into_iter().fold(diagnostic, Diagnostic::note));
}

/// Describes the cost of the network at EFA's rate; the slowdown of TCP was not measured.
fn describe_network_wait(context: &Context) -> Option<Note> {
    let waits = describe_step_share(context, |speed| speed.parts.exposed_communication)?;
    Some(waits.map_text(|waits| format!("predicted with EFA: the GPUs wait {waits}; longer over TCP")))
}

/// Describes the cost of a run that hangs until the service stops it, if it has as many ranks as jobs that
/// hung.
fn describe_hang_cost(plan: &Plan) -> Option<Note> {
    let ranks = plan.mesh.as_ref()?.ranks();
    let limit = run_limits::max_run(plan.job.cluster.as_ref()?)?.value;
    let usd = max_cost(plan, limit as f64).most_usd().filter(|_| ranks >= HANGING_RANKS)?;
    Some(Note::cost(format!(
        "a run of {} that hangs is billed until `max-run` stops it: {} for {}",
        text::count(ranks, "rank"),
        text::dollars(usd),
        text::duration(limit)
    )))
}
