//! Parallelism degrees: powers of two, models too small to split, tensor groups across nodes.

use crate::Context;
use crate::queries::dimensions::{NO_TENSOR_DEGREE, tensor_degree_multiple_if_invalid};
use crate::queries::prediction::describe_step_share;
use crate::queries::shard_group::{STATE_BYTES, group_span, minimum_nodes};
use crate::what_if::{assess, describe_gain};
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Help, Problems};
use trainc_ir::{Axis, Mesh, Parallel, Plan, Val};
use trainc_predict::{Layout, Order, Sharding, System};

declare_code!(T0386, "degree-not-power-of-two", Warning, "a degree that is not a power of two");
declare_code!(
    T0389,
    "small-model-split",
    Warning,
    "a model with under 1 billion parameters that is sharded or split"
);
declare_code!(T0390, "tensor-across-nodes", Warning, "a tensor-parallel group that spans several nodes");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0386, &T0389, &T0390];

/// Parameters below which a model's states fit one GPU, and replicas are faster than shards (AWS blog on
/// sharded data parallelism, 2022, best practices).
const SMALL_PARAMETERS: u64 = 1_000_000_000;

/// Checks engines with degrees.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(parallel), Some(mesh)) = (&plan.job.parallel, &plan.mesh) else { return };
    if !mesh.law.can_shard() {
        return;
    }
    check_powers_of_two(plan, parallel, mesh, problems);
    check_small_model(context, parallel, mesh, problems);
    check_tensor_across_nodes(context, parallel, mesh, problems);
}

fn named_degrees(mesh: &Mesh) -> [(&'static str, &Val<u64>); 6] {
    [
        ("shard-degree", &mesh.shard_degree),
        ("tensor-degree", &mesh.tensor_degree),
        ("pipeline-degree", &mesh.pipeline_degree),
        ("context-degree", &mesh.context_degree),
        ("ulysses-degree", &mesh.ulysses_degree),
        ("expert-degree", &mesh.expert_degree),
    ]
}

fn check_powers_of_two(plan: &Plan, parallel: &Parallel, mesh: &Mesh, problems: &mut Problems) {
    for (name, degree) in named_degrees(mesh) {
        if degree.value.is_power_of_two() || degree.value == 0 {
            continue;
        }
        let sharded = name == "shard-degree";
        let least = if sharded { minimum_nodes(plan, mesh) } else { 0 };
        let others = if sharded { mesh.tensor_degree.value * mesh.pipeline_degree.value } else { 1 };
        // A group that is too small is reported as T0385, whose help is a power of two.
        if degree.value * others < least * mesh.gpus_per_node {
            continue;
        }
        let below = 1_u64 << degree.value.ilog2();
        let mut diagnostic = Diagnostic::new(
            &T0386,
            degree.span_or(parallel.span),
            format!("`{name}` {} is not a power of two", degree.value),
        )
        .note("layers, heads and buffers are powers of two times a small number, and hierarchical \
            collectives halve groups (rule of thumb)")
        .fact("degree", degree.value);
        let above = below.saturating_mul(2);
        let fits: Vec<String> = [below, above]
            .into_iter()
            .filter(|n| *n > 1 && mesh.world_size.is_multiple_of(*n))
            // Not a degree that T0385 would report as too small next.
            .filter(|n| n * others >= least * mesh.gpus_per_node)
            .map(|n| format!("{name} {n}"))
            .collect();
        diagnostic = match degree.origin.span() {
            Some(_) if !fits.is_empty() => diagnostic.choose(format!("write {}", text::backtick_list(&fits, "or")), &fits),
            Some(_) if mesh.gpus_per_node.is_power_of_two() && !mesh.nodes.is_power_of_two() => {
                diagnostic.help(format!("write `nodes={}` and `{name} {above}`", next_power_of_two_nodes(mesh.nodes)))
            }
            Some(_) => diagnostic.help(format!(
                "{below} and {above} do not divide the world size {}; use a power of two of nodes",
                mesh.world_size
            )),
            None if mesh.gpus_per_node.is_power_of_two() && !mesh.nodes.is_power_of_two() => {
                diagnostic.write(format!("nodes={}", next_power_of_two_nodes(mesh.nodes)))
            }
            None => diagnostic.help("use a power of two of nodes, or write the degree"),
        };
        diagnostic = match degree.origin.span() {
            Some(_) => diagnostic,
            None => diagnostic.note(format!(
                "`{name}` is not written: it is {}",
                trainc_plan::plan::describe_origin(&degree.origin)
            )),
        };
        problems.push(if sharded { diagnostic.subject(group_span(parallel, mesh)) } else { diagnostic });
    }
}

/// Returns the next power of two, or the one below if a cluster cannot have that many nodes.
fn next_power_of_two_nodes(nodes: u64) -> u64 {
    /// The most nodes that `cluster nodes=` accepts.
    const MOST: u64 = 1_000_000;
    let next = nodes.checked_next_power_of_two().unwrap_or(u64::MAX);
    if next <= MOST { next } else { 1 << nodes.clamp(1, MOST).ilog2() }
}

fn check_small_model(context: &Context, parallel: &Parallel, mesh: &Mesh, problems: &mut Problems) {
    let plan = context.plan;
    let Some(model) = &plan.model else { return };
    let parameters = model.parameters.value;
    let split: Vec<(&str, &Val<u64>)> =
        named_degrees(mesh).into_iter().take(3).filter(|(_, degree)| degree.value > 1).collect();
    let Some((name, first)) = split.first() else { return };
    // Ranks without GPUs are processes of one machine: there is no GPU that could hold a replica.
    let has_gpus = plan.machine.as_ref().is_none_or(|machine| machine.gpu.is_some());
    if parameters >= SMALL_PARAMETERS || !has_gpus {
        return;
    }
    // States that alone fill half of a GPU are reason enough to shard.
    let states = parameters.saturating_mul(STATE_BYTES);
    if plan
        .machine
        .as_ref()
        .and_then(|machine| machine.gpu_memory_bytes)
        .is_some_and(|card| states > card / 2)
    {
        return;
    }
    // Replicas in place of tensor and pipeline ranks would read other data: that changes the batch.
    let sharded_alone = mesh.tensor_degree.value == 1 && mesh.pipeline_degree.value == 1;
    let judged = sharded_alone.then(|| assess(context, replicate));
    let in_vain = judged.as_ref().and_then(|judged| judged.no_gain);
    let gain = if in_vain.is_some() { "" } else { ": replicas would be faster" };
    let diagnostic =
        Diagnostic::new(
            &T0389,
            first.span_or(parallel.span),
            format!("`{name}` {} splits `{}`, which has only {} parameters{gain}", first.value, model.name, text::group_digits(parameters)),
        )
        .help(if plan.is_worker() {
            Help::write("shard-degree 1")
        } else {
            let without = children_without_ddp(parallel);
            let without = if without.is_empty() {
                String::new()
            } else {
                format!(", without {}", text::backtick_list(&without, "and"))
            };
            Help::write("parallel engine=\"ddp\" launcher=\"torchrun\"").and_text(&without)
        })
        .note(format!(
            "below 1 billion parameters the states ({STATE_BYTES} B × {} = {}) fit one GPU, and \
                splitting only adds communication",
            text::group_digits(parameters),
            text::bytes(states)
        ))
        .fact("parameters", parameters);
    let said = match in_vain {
        Some(why) => Some(why.describe().into()),
        None => judged.and_then(|judged| judged.comparison),
    };
    problems.push(said.into_iter().fold(diagnostic, Diagnostic::note));
}

/// Changes a layout to a replica of the model on each rank of its shard groups.
fn replicate(layout: &mut Layout) {
    if layout.system != System::Worker {
        layout.system = System::Ddp;
        layout.sharding = Sharding::None;
    }
    layout.degrees.replicas *= layout.degrees.shard;
    layout.degrees.shard = 1.0;
}

/// Returns the names of the written children of `parallel` that engine `ddp` under torchrun does not accept.
fn children_without_ddp(parallel: &Parallel) -> Vec<&'static str> {
    let own = [
        ("file", !parallel.file.is_absent()),
        ("version", !parallel.version.is_absent()),
        ("strategy", !parallel.strategy.is_absent()),
        ("shard-degree", !parallel.shard_degree.is_absent()),
        ("tensor-degree", !parallel.tensor_degree.is_absent()),
        ("pipeline-degree", !parallel.pipeline_degree.is_absent()),
        ("replicate-degree", !parallel.replicate_degree.is_absent()),
        ("context-degree", !parallel.context_degree.is_absent()),
        ("ulysses-degree", !parallel.ulysses_degree.is_absent()),
        ("expert-degree", !parallel.expert_degree.is_absent()),
        ("wrap", !parallel.wrap.is_absent()),
        ("placement", !parallel.placement.is_absent()),
        (
            "offload-activations",
            !parallel.offload_activations.is_absent() || !parallel.offload_horizon.is_absent(),
        ),
        ("prescaled-batch", !parallel.prescaled_batch.is_absent()),
        ("shard-optimizer-state", !parallel.shard_optimizer_state.is_absent()),
        ("processes", !parallel.processes.is_absent()),
        ("mpi-env", !parallel.mpi_env.is_empty()),
        ("mpi-options", !parallel.mpi_options.is_absent()),
    ];
    // Each option belongs to one engine, and `ddp` has none.
    let options = parallel.options.iter().map(|option| option.name);
    own.into_iter().filter(|(_, written)| *written).map(|(name, _)| name).chain(options).collect()
}

fn check_tensor_across_nodes(context: &Context, parallel: &Parallel, mesh: &Mesh, problems: &mut Problems) {
    let nodes = mesh.nodes_of_group(Axis::Tensor);
    if nodes <= 1 {
        return;
    }
    let degree = &mesh.tensor_degree;
    // Only GPUs with a process have a rank.
    let per_node = mesh.ranks_per_node();
    let inside = trainc_plan::plan::divisors::divisors(per_node)
        .into_iter()
        .filter(|d| *d <= degree.value)
        .max()
        .unwrap_or(1);
    let mut diagnostic = Diagnostic::new(
        &T0390,
        degree.span_or(parallel.span),
        format!("each tensor group of {} spans {}", text::count(degree.value, "GPU"), text::count(nodes, "node")),
    )
    .note("every layer exchanges its activations twice in the forward and twice in the backward pass: \
        NVLink is fast enough for that, the network is not (Megatron-LM, SC21)")
    .fact("nodes", nodes)
    .fact("gpus_per_node", mesh.gpus_per_node);
    let must_change = tensor_degree_multiple_if_invalid(context.plan, mesh);
    diagnostic = if let Some(common) = must_change {
        // The model needs another degree (T0391): both have the same help.
        let best =
            trainc_plan::plan::divisors::divisors(common).into_iter().filter(|d| *d <= degree.value).max();
        match best.filter(|best| *best > 1) {
            Some(best) => diagnostic.help(format!(
                "write `tensor-degree {best}`, and a `pipeline-degree` or `shard-degree` for the rest"
            )),
            None => diagnostic.help(NO_TENSOR_DEGREE),
        }
    } else if per_node < mesh.gpus_per_node
        && mesh.gpus_per_node.is_multiple_of(degree.value)
        && !parallel.processes.is_absent()
    {
        diagnostic
            .remove("processes").or_write(format!("tensor-degree {inside}"))
            .fact("ranks_per_node", per_node)
    } else if per_node.is_multiple_of(degree.value) {
        let bill = describe_gain(context, |layout| layout.order = Order::CLUSTER);
        let diagnostic =
            diagnostic.write("placement \"cluster\"").and_text(", which keeps tensor groups inside a node");
        bill.into_iter().fold(diagnostic, Diagnostic::note)
    } else {
        diagnostic.help(format!(
            "write `tensor-degree {inside}`, and a `pipeline-degree` or `shard-degree` for the rest"
        ))
    };
    if let Some(span) = parallel.placement.span() {
        diagnostic = diagnostic.label(span, "the placement");
    }
    if let Some(waits) = describe_step_share(context, |speed| speed.communication.tensor) {
        diagnostic = diagnostic.note(waits.map_text(|waits| format!("predicted: the exchange takes {waits}")));
    }
    problems.push(diagnostic);
}
