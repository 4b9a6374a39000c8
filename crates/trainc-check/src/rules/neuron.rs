//! Trainium: the cache of compiled graphs, and the cores that each process reserves.

use crate::Context;
use crate::queries::program::{self, Processes};
use crate::queries::torchrun::is_trainium;
use std::cmp::Ordering;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Plan, Program};

declare_code!(T0834, "no-compile-cache", Note, "a Trainium job that compiles its graphs again at each run");
declare_code!(
    T0835,
    "neuron-cores",
    Warning,
    "a number of NeuronCores for each process that does not match the processes of a node",
    explains: [Program]
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0834, &T0835];

/// The variable with the place of the cache (AWS Neuron documentation, Neuron Persistent Cache).
const CACHE: &str = "NEURON_COMPILE_CACHE_URL";
/// The variable with the compiler's options, and the one of them that has the place, too.
const FLAGS: &str = "NEURON_CC_FLAGS";
const FLAG: &str = "--cache_dir";
/// The variable with the repository on the Hub in which optimum-neuron keeps a cache.
const HUB_CACHE: &str = "CUSTOM_CACHE_REPO";
/// The variable with the cores that a process reserves.
const CORES: &str = "NEURON_RT_NUM_CORES";
/// The variable that takes precedence over it.
const VISIBLE: &str = "NEURON_RT_VISIBLE_CORES";

/// Checks jobs on Trainium.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(program) = plan.job.program.as_ref().filter(|_| is_trainium(plan)) else { return };
    check_cache(plan, program, problems);
    check_cores(plan, program, problems);
}

/// Notes that compiled graphs are lost with the host. A program that is not read may set the variable.
fn check_cache(plan: &Plan, program: &Program, problems: &mut Problems) {
    let Some(script) = plan.script.as_ref().filter(|script| script.is_whole) else { return };
    let is_set = program.environment.iter().any(|pair| match pair.key.as_str() {
        CACHE | HUB_CACHE => true,
        FLAGS => pair.value.value().is_none_or(|flags| flags.contains(FLAG)),
        _ => false,
    });
    let mut texts = script.modules.iter().flat_map(|one| &one.module.texts);
    if is_set || texts.any(|text| [CACHE, FLAG, HUB_CACHE].iter().any(|word| text.value.contains(word))) {
        return;
    }
    let bucket = plan.output_path().and_then(trainc_ir::s3::parse).map_or("BUCKET", |uri| uri.bucket);
    let at = program.environment.first().map_or(program.span, |pair| pair.key_span);
    problems.push(
        Diagnostic::new(&T0834, at, format!("without `{CACHE}` every run compiles all graphs again"))
            .add_to("program", format!("environment {CACHE}=\"s3://{bucket}/neuron-compile-cache/\""))
            .and_text(", which the role must be able to read and write")
            .note(
                "the default, `/var/tmp/neuron-compile-cache`, is lost with the host (AWS Neuron \
                    documentation, Neuron Persistent Cache)",
            )
            .note(
                "compiling takes up to an hour (aws/sagemaker-python-sdk#3481, \
                    huggingface/optimum-neuron#345)",
            ),
    );
}

/// Compares the cores that each process reserves with those of a node.
fn check_cores(plan: &Plan, program: &Program, problems: &mut Problems) {
    let (Some(mesh), Some(instance)) = (&plan.mesh, &plan.instance) else { return };
    let cores = u64::from(instance.accelerators) * instance.accelerator.ranks;
    let is_visible = program.environment.iter().any(|pair| pair.key == VISIBLE);
    let Some(pair) = program.environment.iter().find(|pair| pair.key == CORES).filter(|_| !is_visible) else {
        return;
    };
    let Some((val, each)) =
        pair.value.val().and_then(|val| Some((val, val.value.trim().parse::<u64>().ok()?)))
    else {
        return;
    };
    // 0 means all; a script may start processes of its own.
    let processes = if plan.is_script() { 1 } else { mesh.processes_per_node };
    let is_unknown = plan.is_script() && program::processes(plan) != Processes::Single;
    if each == 0 || processes == 0 || is_unknown {
        return;
    }
    let reserved = each.saturating_mul(processes);
    let (who, reserve, share) = match processes {
        1 => ("the process of a node".to_owned(), "reserves", String::new()),
        _ => (
            format!("the {} processes of a node", text::group_digits(processes)),
            "reserve",
            format!(", {each} each"),
        ),
    };
    let message = match reserved.cmp(&cores) {
        Ordering::Greater => {
            let reserved = text::group_digits(reserved);
            format!("{who} would reserve {reserved} NeuronCores{share}, and it has {cores}")
        }
        Ordering::Less => format!("{who} {reserve} {reserved} of its {cores} NeuronCores{share}"),
        Ordering::Equal => return,
    };
    let diagnostic = Diagnostic::new(&T0835, val.span_or(pair.key_span), message);
    let diagnostic = match cores / processes {
        0 => diagnostic.remove(CORES),
        right => diagnostic.write(format!("{CORES}={right}")).or_remove(CORES),
    };
    problems.push(
        diagnostic
            .note(
                "the variable counts the cores of one process, which no other process can use (AWS Neuron \
                    documentation, Neuron Runtime configuration)",
            )
            .note(format!("where the framework sets `{VISIBLE}` for each rank, that takes precedence")),
    );
}
