//! Parameters of SageMaker model parallel v1 that have no effect without another one.

use crate::Context;
use crate::queries::smp::{WrittenParameter, parameters};
use trainc_catalog::smp::{SmpVersion, parameter};
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_engine::smp;
use trainc_ir::Scalar;

declare_code!(
    T0347,
    "unused-smp-parameter",
    Warning,
    "a SageMaker model parallel parameter that has no effect"
);

declare_code!(T0374, "offload-without-effect", Warning, "activation offloading with a single micro-batch");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0347, &T0374];

/// Reports parameters without effect; the catalogue lists what each one depends on.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(parallel) = &plan.job.parallel else { return };
    let unknown = parallel.shard_degree.is_bad() || parallel.offload_activations.is_bad();
    if unknown || smp::version(plan) != Some(SmpVersion::V1) {
        return;
    }
    let written = parameters(parallel);
    check_offload(&written, problems);
    let find = |v1: &str| written.iter().find(|one| one.v1 == v1);
    for one in &written {
        let Some(row) = parameter(SmpVersion::V1, one.v1).filter(|row| !row.read_under.is_empty()) else {
            continue;
        };
        if row.read_under.iter().any(|name| find(name).is_some_and(WrittenParameter::is_in_use)) {
            continue;
        }
        let (under, add) = match row.read_under.first().map(String::as_str) {
            Some("sharded_data_parallel_degree") => {
                ("sharded data parallelism, which is off", "a `shard-degree` above 1")
            }
            _ => ("activation offload, which is off", "`offload-activations #true`"),
        };
        let mut diagnostic = Diagnostic::new(
            &T0347,
            one.span,
            format!("`{}` has no effect: it is a parameter of {under}", one.name),
        )
        .remove(one.name).or_else(&format!("add {add}"))
        .note(format!("{} ({})", row.provenance.source, row.provenance.date));
        if let Some(other) = row.read_under.first().and_then(|name| find(name)) {
            diagnostic = diagnostic.label(other.span, "off");
        }
        problems.push(diagnostic);
    }
}

fn check_offload(written: &[WrittenParameter], problems: &mut Problems) {
    let find = |v1: &str| written.iter().find(|one| one.v1 == v1);
    let int = |v1: &str| match find(v1).map(|one| &one.value) {
        Some(Scalar::Int(n)) => Some(*n),
        _ => None,
    };
    let Some(offload) = find("offload_activations").filter(|one| one.is_in_use()) else { return };
    let (what, help) = if int("microbatches").unwrap_or(1) <= 1 {
        ("with one micro-batch", "remove it, or use it with `pipeline-degree N microbatches=4`")
    } else if int("active_microbatches") == Some(1) {
        ("with one active micro-batch", "write `active-microbatches=2` or more")
    } else {
        return;
    };
    problems.push(
        Diagnostic::new(&T0374, offload.span, format!("`offload-activations` has no effect {what}"))
            .help(help)
            .note("SageMaker developer guide, activation offloading: the copy overlaps with the next \
                micro-batch"),
    );
}
