//! The lifecycle of a new Lustre file system: maintenance, EFA, cost of keeping it and data loss on deletion.

use crate::Context;
use crate::queries::file_system;
use crate::queries::run_limits;
use trainc_catalog::prices::HOURS_PER_MONTH;
use trainc_catalog::shapes;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Note, Prices, Problems};
use trainc_ir::{Plan, Storage};

declare_code!(T0460, "maintenance-window", Error, "an invalid maintenance window");
declare_code!(
    T0461,
    "maintenance-window-unset",
    Note,
    "no maintenance window for a file system that is used for days"
);
declare_code!(
    T0462,
    "lustre-efa",
    Warning,
    "a file system with EFA, which AWS does not document for training jobs"
);
declare_code!(
    T0480,
    "delete-loses-data",
    Warning,
    "deleting the file system deletes data that the job wrote"
);
declare_code!(
    T0482,
    "file-system-retained",
    Note,
    "a new file system that is kept, and billed, after the job"
);

declare_code!(
    T0489,
    "file-system-per-job",
    Warning,
    "sweep jobs that each create their own file system because a link names the job"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0460, &T0461, &T0462, &T0480, &T0482, &T0489];

/// Seconds per day: a shorter job rarely overlaps a weekly window.
const DAY: u64 = 86_400;

/// Checks each file system that trainc creates.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let (plan, today) = (context.plan, context.today_in_days());
    for storage in plan.job.storage.iter().filter(|storage| file_system::is_created_lustre(storage)) {
        check_maintenance(plan, storage, problems);
        check_efa(storage, problems);
        // A missing name is reported by another rule.
        if file_system::name(storage).is_empty() {
            continue;
        }
        check_retention_cost(plan, storage, today, problems);
        check_deletion(plan, storage, problems);
        check_sweep(plan, storage, today, problems);
    }
}

/// Reports a link that contains the job's name, because of which the jobs of a sweep do not share the file
/// system.
fn check_sweep(plan: &Plan, storage: &Storage, today: Option<i64>, problems: &mut Problems) {
    let jobs = plan.job.sweep.iter().map(|vary| vary.values.len() as u64).product::<u64>();
    let job = plan.job.name.value().map_or("", String::as_str);
    if plan.job.sweep.is_empty() || jobs < 2 || job.is_empty() {
        return;
    }
    let mut links = storage.imports.iter().chain(&storage.exports);
    // Only the key counts, not the bucket's name.
    let names_job = |uri: &str| uri.splitn(4, '/').nth(3).is_some_and(|prefix| prefix.contains(job));
    let Some(link) = links.find(|link| link.s3.text().is_some_and(names_job)) else { return };
    let name = file_system::name(storage);
    let diagnostic = Diagnostic::new(
        &T0489,
        link.s3.val().map_or(link.span, |uri| uri.span_or(link.span)),
        format!("each of the {jobs} jobs of the sweep creates its own file system `{name}`, because this \
            link contains the job's name"),
    )
    .help("link a prefix without the job's name, and let the script write below it")
    .note("jobs share a file system if its settings and links are identical: it is created and billed once")
    .fact("jobs", jobs);
    problems.push(match file_system::monthly_usd(plan, storage) {
        Some((usd, price)) => diagnostic
            .note(
                Note::dated(today, |today| {
                    format!(
                        "together they cost {} per hour ({})",
                        text::dollars(usd * jobs as f64 / HOURS_PER_MONTH),
                        price.describe_origin_and_age(today)
                    )
                })
                .with_cost(),
            )
            .prices(Prices::Named)
            .fact("usd_per_month", usd * jobs as f64),
        None => diagnostic,
    });
}

fn check_maintenance(plan: &Plan, storage: &Storage, problems: &mut Problems) {
    let name = file_system::name(storage);
    let Some(window) = storage.maintenance.val() else {
        let Some(max_run) = plan.job.cluster.as_ref().and_then(run_limits::max_run) else { return };
        let max_run = max_run.value;
        if storage.maintenance.is_absent() && max_run > DAY {
            problems.push(
                Diagnostic::new(&T0461, storage.span, format!("no maintenance window for `{name}`: AWS \
                    chooses a weekly one"))
                    .help("add e.g. `maintenance=\"7:03:00\"` with a weekday and time (UTC, Monday is \
                        1) outside the run")
                    .note(format!("the job may run for {}, and file operations can stall during maintenance", text::duration(max_run))),
            );
        }
        return;
    };
    let Some(shape) = shapes::member_at_path("CreateFileSystem", "LustreConfiguration.WeeklyMaintenanceStartTime")
    else {
        return;
    };
    if !shape.takes_text(&window.value) {
        problems.push(
            Diagnostic::new(
                &T0460,
                window.span_or(storage.span),
                format!("invalid maintenance window `{}`", window.value),
            )
            .help("write `d:HH:MM` in UTC, e.g. `\"7:03:00\"` for Sunday 03:00 (Monday is 1)"),
        );
    }
}

fn check_efa(storage: &Storage, problems: &mut Problems) {
    if storage.efa.get() == Some(true) && file_system::valid_combination(storage).is_some() {
        problems.push(
            Diagnostic::new(
                &T0462,
                storage.efa.span().unwrap_or(storage.span),
                "AWS does not document that a training job can mount a file system over EFA",
            )
            .remove("efa").and_text(", unless you have tested it")
            .note("with EFA the throughput cannot be changed later, and the capacity increments are larger"),
        );
    }
}

fn check_retention_cost(plan: &Plan, storage: &Storage, today: Option<i64>, problems: &mut Problems) {
    if storage.delete_after_job.get() == Some(true) || storage.delete_after_job.is_bad() {
        return;
    }
    let name = file_system::name(storage);
    let span = storage.delete_after_job.span().unwrap_or(storage.span);
    let help =
        "add `delete-after-job` inside it, or run `trainc destroy --delete-data` when it is no longer needed";
    let note = "a file system is billed by the second until it is deleted, whether it is used or not";
    problems.push(
        match file_system::monthly_usd(plan, storage) {
            Some((usd, price)) => Diagnostic::dated(&T0482, span, today, |today| {
                format!(
                    "`{name}` is kept after the job and costs {} per month ({} per hour, {})",
                    text::dollars(usd),
                    text::dollars(usd / HOURS_PER_MONTH),
                    price.describe_origin_and_age(today)
                )
            })
            .note(Note::cost(format!(
                "{} × ${} per GiB-month{} ({})",
                storage.capacity_bytes.get().map_or_else(String::new, file_system::gib),
                price.usd_per_gb_month,
                price.region.as_ref().map_or_else(String::new, |region| format!(" in {region}")),
                price.date.as_ref().unwrap_or(&price.source)
            )))
            .prices(Prices::Named)
            .fact("usd_per_month", usd),
            None => Diagnostic::new(
                &T0482,
                span,
                format!("`{name}` is kept after the job and billed until it is deleted"),
            )
            .note(missing_price_note(plan, storage)),
        }
        .help(help)
        .note(note),
    );
}

/// Returns a note that the price is unknown, with the flag that sets it.
fn missing_price_note(plan: &Plan, storage: &Storage) -> String {
    let flag = plan.job.region.value().and_then(|region| file_system::price_flag(region, storage));
    let how = flag.map_or_else(String::new, |flag| format!("; set one with `{flag}`"));
    format!("the catalogue has no price with a source for this region and throughput{how}")
}

fn check_deletion(plan: &Plan, storage: &Storage, problems: &mut Problems) {
    if storage.delete_after_job.get() != Some(true) {
        return;
    }
    let name = file_system::name(storage);
    let span = storage.delete_after_job.span().unwrap_or(storage.span);
    if let Some(export) = storage.exports.first() {
        problems.push(
            Diagnostic::new(&T0480, span, format!("deleting `{name}` after the job deletes data that is not \
                exported by then"))
                .label(export.span, "exported in the background")
                .help("remove `delete-after-job`, and delete it once the export has caught up \
                    (AgeOfOldestQueuedMessage is 0)")
                .note("DeleteFileSystem does not wait for the export queue, and it deletes Lustre file \
                    systems without a final backup"),
        );
        return;
    }
    let writer = plan.job.channels.iter().find(|channel| {
        channel.from.value().is_some_and(|from| from == name)
            && channel.mode.value().is_some_and(|mode| mode == "rw")
    });
    if let Some(channel) = writer {
        problems.push(
            Diagnostic::new(
                &T0480,
                span,
                format!("deleting `{name}` after the job deletes all data that the job wrote to it"),
            )
            .label(channel.mode.span().unwrap_or(channel.span), "written here and never exported")
            .remove("delete-after-job").or_else("make the channel `mode=\"ro\"`")
            .note("DeleteFileSystem creates a final backup of a Lustre file system only on request"),
        );
    }
}
