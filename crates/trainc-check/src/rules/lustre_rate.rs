//! The throughput of a Lustre file system compared with the predicted read rate of the job.

use crate::Context;
use crate::queries::file_system;
use crate::queries::prediction::predicted_run;
use trainc_predict::round_to_u64;
use trainc_catalog::fsx::{LegalCombination, Presence};
use trainc_catalog::prices::{self, StoragePrice};
use trainc_ir::price::describe_origin_and_age;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Note, Problems};
use trainc_ir::{Plan, Storage};
use trainc_predict::{Input, input, speed};

declare_code!(T0325, "lustre-too-slow", Warning, "a Lustre file system that is too slow for the job");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0325];

/// Bytes per megabyte, the service's unit of throughput.
const MB: f64 = 1e6;
/// GiB per TiB, to which the service's throughput refers.
const GIB_PER_TIB: f64 = 1024.0;

/// Compares the rate at which the job can process data with the throughput of the disks, where both are
/// known.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(storage), Ok(input)) = (input::created_data_file_system(plan), Input::from_plan(plan)) else { return };
    let Some((layout, _)) = predicted_run(context) else { return };
    let Ok(speed) = speed::speed(&layout, context.constants) else { return };
    let Some(legal) = file_system::valid_combination(storage) else { return };
    let (Some(capacity), tier) = (storage.capacity_gib(), storage.tier()) else { return };
    let Some(rate) = input::disk_mb_s_per_tib(&legal, tier) else { return };
    let Some(waits) = speed.parts.input.filter(|seconds| *seconds > 0.0) else { return };
    // Sequences per second if no step waits for data.
    let pace = layout.work.global_sequences / (speed.step_seconds - waits);
    let (needed, given) = (pace * input.sequence_bytes / MB, input.bytes_per_second / MB);
    let name = file_system::name(storage);
    let at = storage.throughput_mb_s_tib.span().or_else(|| storage.capacity_bytes.span());
    let mut diagnostic = Diagnostic::new(
        &T0325,
        at.unwrap_or(storage.span),
        format!(
            "the job is predicted to read {} MB/s, but the disks of `{name}` provide {}",
            format_rate(needed),
            format_rate(given)
        ),
    )
    .note(format!(
        "{} sequences/s × {} per sequence; {} MB/s per TiB × {} GiB",
        text::short_number(pace),
        text::bytes(round_to_u64(input.sequence_bytes)),
        text::short_number(rate),
        text::group_digits(capacity)
    ))
    .note(format!(
        "a step takes {} s, of which the accelerators wait {} s for data and are billed; reads \
            from the file servers' cache are faster",
        text::short_number(speed.step_seconds),
        text::short_number(waits)
    ))
    .fact("needed_mb_per_s", needed)
    .fact("given_mb_per_s", given)
    .fact("waits_seconds", waits);
    if let Some((help, price)) = sufficient_settings(plan, storage, &legal, capacity, needed) {
        let origin = price.map(|price| {
            let date = price.provenance.date;
            Note::dated(context.today_in_days(), |today| describe_origin_and_age(Some(&date), "", today))
        });
        diagnostic = origin.into_iter().fold(diagnostic.help(help), Diagnostic::note);
    }
    problems.push(diagnostic);
}

/// Returns the edits to the cheapest sufficient tier and capacity, at least the written capacity; without
/// prices, to the least capacity with the lowest tier.
fn sufficient_settings(
    plan: &Plan,
    storage: &Storage,
    legal: &LegalCombination,
    capacity: u64,
    needed: f64,
) -> Option<(String, Option<StoragePrice>)> {
    let tiers: Vec<Option<u32>> = match legal.throughput {
        Presence::Required => legal.throughputs.iter().copied().map(Some).collect(),
        Presence::Forbidden => vec![None],
    };
    let (deployment, kind) = (storage.fsx_deployment_type()?, storage.fsx_storage_type()?);
    let mut choices: Vec<(Option<StoragePrice>, u64, Option<u32>)> = Vec::new();
    for tier in tiers {
        let Some(rate) = input::disk_mb_s_per_tib(legal, tier) else { continue };
        let least = round_to_u64((needed * GIB_PER_TIB / rate).ceil()).max(capacity);
        let Some(gib) = legal.round_up_gib(least, tier) else { continue };
        let price =
            plan.job.region.value().and_then(|region| prices::lustre(region, &deployment, &kind, tier));
        choices.push((price, gib, tier));
    }
    let priced = choices.iter().all(|(price, ..)| price.is_some());
    let monthly = |price: &Option<StoragePrice>, gib: u64| price.as_ref().map(|price| price.usd_per_gb_month * gib as f64);
    let (price, gib, tier) = choices.into_iter().min_by(|(a, one, low), (b, other, high)| {
        let by_price = if priced { monthly(a, *one).partial_cmp(&monthly(b, *other)) } else { None };
        by_price.unwrap_or(std::cmp::Ordering::Equal).then(one.cmp(other)).then(low.cmp(high))
    })?;
    let mut edits = Vec::new();
    if let Some(tier) = tier.filter(|tier| storage.tier() != Some(*tier)) {
        edits.push(format!("throughput={tier}"));
    }
    if gib != capacity {
        edits.push(format!("capacity=\"{gib}GiB\""));
    }
    let cost = monthly(&price, gib).map_or_else(String::new, |usd| format!(", {} per month", text::dollars(usd)));
    (!edits.is_empty()).then(|| (format!("write `{}`{cost}", edits.join(" ")), price))
}

fn format_rate(mb_per_second: f64) -> String {
    if mb_per_second < 100.0 { text::short_number(mb_per_second) } else { text::group_digits(round_to_u64(mb_per_second)) }
}
