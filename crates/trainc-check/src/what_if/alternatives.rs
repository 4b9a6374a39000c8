//! Other instance types that fit the job and pass every rule that it passes now.

use super::codes_of_plan;
use crate::Context;
use crate::queries::instances::is_offered;
use crate::queries::prices::instance_price;
use std::collections::BTreeSet;
use trainc_catalog::images::version_key;
use trainc_catalog::instances;
use trainc_diag::{Diagnostic, Severity, text};
use trainc_ir::hardware::{AcceleratorKind, Instance};
use trainc_ir::{Plan, Price};
use trainc_plan::plan::plan_on_instance;

/// The first PyTorch whose binaries have kernels for a compute capability: Ampere's with CUDA 11.1 since 1.8,
/// Hopper's with CUDA 11.8 and later, which is all that 2.1 ships with, Blackwell's with CUDA 12.8 since 2.7
/// (release notes of each).
const KERNELS: [((u8, u8), &str); 3] = [((10, 0), "2.7"), ((9, 0), "2.1"), ((8, 0), "1.8")];

/// Returns the types with as many larger GPUs on which the container runs, with their prices: those with the
/// least GPU memory and then the cheapest first.
pub(crate) fn larger_gpu_types(context: &Context) -> Vec<(Instance, Option<Price>)> {
    let plan = context.plan;
    let grouped = plan.job.cluster.as_ref().is_none_or(|cluster| !cluster.groups.is_empty());
    let Some(own) = plan.instance.as_ref().filter(|_| !grouped) else { return Vec::new() };
    let mut found: Vec<(Instance, Option<Price>)> = instances::names()
        .filter_map(instances::get)
        .filter(|row| has_larger_gpus(row, own) && has_kernels(plan, row, own) && is_offered(plan, row))
        .map(|row| {
            let price = instance_price(context, &row.name);
            (row, price)
        })
        .collect();
    found.sort_by(|(a, x), (b, y)| {
        // What an estimate may cost at most, so that it is no cheaper than it is known to be.
        let usd = |price: &Option<Price>| price.as_ref().map_or(f64::MAX, |price| price.per_hour().high_usd);
        a.accelerator.memory_bytes.cmp(&b.accelerator.memory_bytes).then(usd(x).total_cmp(&usd(y)))
    });
    found
}

/// Returns the codes of errors and warnings of a plan.
pub(crate) fn errors_and_warnings(context: &Context, plan: &Plan) -> BTreeSet<&'static str> {
    let matters = |one: &Diagnostic| matches!(one.severity, Severity::Error | Severity::Warning);
    codes_of_plan(context, plan, matters)
}

/// Returns true if the job passes every rule on another type that it passes now, whose codes are `now`.
pub(crate) fn passes_on_type(context: &Context, name: &str, now: &BTreeSet<&'static str>) -> bool {
    plan_on_instance(context.plan, name, instance_price(context, name))
        .is_some_and(|new| errors_and_warnings(context, &new).is_subset(now))
}

/// Returns the type with the least host memory of at least `bytes` that has the same GPUs, with that memory
/// in words.
pub(crate) fn type_with_host_memory(context: &Context, bytes: f64) -> Option<(String, String)> {
    let plan = context.plan;
    let own = plan.instance.as_ref()?;
    if plan.job.cluster.as_ref().is_none_or(|cluster| !cluster.groups.is_empty()) {
        return None;
    }
    let has_same_gpus = |row: &Instance| {
        (&row.accelerator.product, row.accelerators, row.efa == Some(true))
            == (&own.accelerator.product, own.accelerators, own.efa == Some(true))
            && is_offered(plan, row)
    };
    instances::names()
        .filter_map(instances::get)
        .filter_map(|row| Some((row.host_memory_bytes.filter(|_| has_same_gpus(&row))?, row.name)))
        .filter(|(has, _)| *has as f64 >= bytes)
        .min()
        .map(|(has, name)| (name, text::bytes(has)))
}

/// Returns whether a type has as many GPUs, each with more memory.
fn has_larger_gpus(row: &Instance, own: &Instance) -> bool {
    row.accelerators == own.accelerators
        && row.accelerator.kind == AcceleratorKind::Gpu
        && own.accelerator.kind == AcceleratorKind::Gpu
        && row.accelerator.memory_bytes > own.accelerator.memory_bytes
}

/// Returns whether the container has kernels for the GPUs of a type: always for the same generation, for a
/// later one since a PyTorch version.
pub(crate) fn has_kernels(plan: &Plan, row: &Instance, own: &Instance) -> bool {
    let (Some(new), Some(old)) = (row.accelerator.compute_capability, own.accelerator.compute_capability)
    else {
        return false;
    };
    if new.0 == old.0 {
        return true;
    }
    let pytorch = plan.image.as_ref().and_then(|image| image.pytorch.as_deref());
    let since = KERNELS.iter().find(|(capability, _)| new >= *capability).map(|(_, since)| *since);
    new > old && pytorch.zip(since).is_some_and(|(version, since)| version_key(version) >= version_key(since))
}
