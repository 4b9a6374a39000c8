//! Instance types on which a job that does not fit its GPUs would fit, and pass every rule that it passes now.

use super::RULES;
use crate::Context;
use crate::queries::instances::is_offered;
use std::collections::BTreeSet;
use trainc_catalog::images::version_key;
use trainc_catalog::instances;
use trainc_diag::text;
use trainc_diag::{Problems, Severity};
use trainc_ir::hardware::{AcceleratorKind, Instance};
use trainc_ir::{Plan, Price};
use trainc_plan::plan::{on_instance, price_of};
use trainc_predict::Layout;
use trainc_predict::memory::{MemoryConstants, memory_with, remedies};
use trainc_predict::speed::speed;

/// PyTorch from which on its binaries hold kernels of a compute capability: Ampere's with CUDA 11.1 since 1.8, Hopper's
/// with CUDA 11.8 and later, which is all that 2.1 comes with, Blackwell's with CUDA 12.8 since 2.7 (release notes of each).
const KERNELS: [((u8, u8), &str); 3] = [((10, 0), "2.7"), ((9, 0), "2.1"), ((8, 0), "1.8")];

/// The types by name, those with the least memory first and of them the cheapest; and of them those with a price.
pub(super) fn elsewhere(context: &Context, layout: &Layout) -> (Vec<&'static str>, Vec<&'static str>) {
    let plan = context.plan;
    let grouped = plan.job.cluster.as_ref().is_none_or(|cluster| !cluster.groups.is_empty());
    let Some(own) = plan.instance.as_ref().filter(|_| plan.deployable && !grouped) else {
        return Default::default();
    };
    let memory = MemoryConstants::of(context.constants);
    let fits = |name: &'static str| {
        let new = remedies::on_instance(layout, name)?;
        memory_with(&new, &memory).fits.filter(|fits| *fits)
    };
    let mut found: Vec<(Instance, &'static str, Option<Price>)> = instances::names()
        .filter_map(|name| Some((instances::get(name)?, name)))
        .filter(|(row, name)| {
            is_larger(row, own) && runs(plan, row, own) && is_offered(plan, row) && fits(name).is_some()
        })
        .map(|(row, name)| (row, name, price(context, name)))
        .collect();
    found.sort_by(|(a, _, x), (b, _, y)| {
        let usd = |price: &Option<Price>| price.as_ref().map_or(f64::MAX, |price| price.usd_per_hour);
        a.accelerator.memory_bytes.cmp(&b.accelerator.memory_bytes).then(usd(x).total_cmp(&usd(y)))
    });
    let now = said(context, plan);
    found.retain(|(_, name, price)| {
        on_instance(plan, name, price.clone()).is_some_and(|new| said(context, &new).is_subset(&now))
    });
    let names = found.iter().map(|(_, name, _)| *name).collect();
    // Of a card whose speed is not known no dollars are either.
    let has_dollars =
        |name| remedies::on_instance(layout, name).is_some_and(|new| speed(&new, context.constants).is_ok());
    let priced = found.iter().filter(|(_, name, price)| price.is_some() && has_dollars(name));
    (names, priced.map(|(_, name, _)| *name).collect())
}

/// The price of a type where the job runs.
pub(super) fn price(context: &Context, name: &str) -> Option<Price> {
    price_of(name, context.plan.job.region.value()?, context.prices, context.discount)
}

/// An instance type and the memory of its host.
pub(super) struct Larger {
    /// Its name.
    pub(super) name: String,
    /// In words: `64 GiB`.
    pub(super) memory: String,
}

/// The type with the least host memory that has as many of the job's GPUs and at least so many bytes beside them.
pub(super) fn same_cards(context: &Context, bytes: f64) -> Option<Larger> {
    let plan = context.plan;
    let own = plan.instance.as_ref()?;
    if plan.job.cluster.as_ref().is_none_or(|cluster| !cluster.groups.is_empty()) {
        return None;
    }
    let same = |row: &Instance| {
        (&row.accelerator.product, row.accelerators, row.efa == Some(true))
            == (&own.accelerator.product, own.accelerators, own.efa == Some(true))
            && is_offered(plan, row)
    };
    instances::names()
        .filter_map(instances::get)
        .filter_map(|row| Some((row.host_memory_bytes.filter(|_| same(&row))?, row.name)))
        .filter(|(has, _)| *has as f64 >= bytes)
        .min()
        .map(|(has, name)| Larger { name, memory: text::bytes(has) })
}

/// As many GPUs as now, each with more memory.
fn is_larger(row: &Instance, own: &Instance) -> bool {
    row.accelerators == own.accelerators
        && row.accelerator.kind == AcceleratorKind::Gpu
        && own.accelerator.kind == AcceleratorKind::Gpu
        && row.accelerator.memory_bytes > own.accelerator.memory_bytes
}

/// Whether the container has kernels for its GPUs: those of the same generation it has, of a later one from a version on.
pub(super) fn runs(plan: &Plan, row: &Instance, own: &Instance) -> bool {
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

/// Codes of the errors and warnings that the rules say of a plan, but for what they say of its memory.
fn said(context: &Context, plan: &Plan) -> BTreeSet<&'static str> {
    let context = Context { plan, is_trial: true, ..*context };
    let mut problems = Problems::default();
    for rule in RULES {
        rule(&context, &mut problems);
    }
    let counts = |severity: Severity| matches!(severity, Severity::Error | Severity::Warning);
    problems.iter().filter(|one| counts(one.severity)).map(|one| one.code.id).collect()
}
