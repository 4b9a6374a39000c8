//! A new Lustre file system over its life: maintenance, EFA, what staying costs, what leaving loses.

use super::durations;
use crate::{Context, file_system};
use trainc_catalog::prices::HOURS_PER_MONTH;
use trainc_catalog::shapes;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
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

/// Seconds of a day: a job shorter than that rarely meets a weekly window.
const DAY: u64 = 86_400;

/// Judges each file system that trainc makes.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    for storage in plan.job.storage.iter().filter(|storage| file_system::is_made(storage)) {
        maintenance(plan, storage, problems);
        efa(storage, problems);
        // Without a name there is none to say; that was reported.
        if file_system::name(storage).is_empty() {
            continue;
        }
        leaving(plan, storage, problems);
        losing(plan, storage, problems);
        swept(plan, storage, problems);
    }
}

/// The jobs of a sweep share a file system, unless a link of it names the job.
fn swept(plan: &Plan, storage: &Storage, problems: &mut Problems) {
    let jobs = plan.job.sweep.iter().map(|vary| vary.values.len() as u64).product::<u64>();
    let job = plan.job.name.value().map_or("", String::as_str);
    if plan.job.sweep.is_empty() || jobs < 2 || job.is_empty() || !plan.deployable {
        return;
    }
    let mut links = storage.imports.iter().chain(&storage.exports);
    // Below the bucket: whose name it is says nothing of the job.
    let names_job = |uri: &String| uri.splitn(4, '/').nth(3).is_some_and(|prefix| prefix.contains(job));
    let Some(link) = links.find(|link| link.s3.value().is_some_and(names_job)) else { return };
    let name = file_system::name(storage);
    let diagnostic = Diagnostic::new(
        &T0489,
        link.s3.val().map_or(link.span, |uri| uri.span_or(link.span)),
        format!("each of the {jobs} jobs of the sweep makes a file system `{name}` of its own, for this link names the job"),
    )
    .help("link a prefix that does not name the job, and let the script write below it")
    .note("jobs share a file system that they describe alike, with its links: it is made once and paid for once")
    .fact("jobs", jobs);
    problems.push(match file_system::monthly_usd(plan, storage) {
        Some((usd, _)) => diagnostic
            .note(format!(
                "together they cost {} an hour",
                text::dollars(usd * jobs as f64 / HOURS_PER_MONTH)
            ))
            .fact("usd_per_month", usd * jobs as f64),
        None => diagnostic,
    });
}

fn maintenance(plan: &Plan, storage: &Storage, problems: &mut Problems) {
    let name = file_system::name(storage);
    let Some(window) = storage.maintenance.val() else {
        let Some(max_run) = plan.job.cluster.as_ref().and_then(durations::longest_run) else { return };
        let max_run = max_run.value;
        if storage.maintenance.is_absent() && max_run > DAY {
            problems.push(
                Diagnostic::new(&T0461, storage.span, format!("AWS picks the weekly maintenance window of `{name}`"))
                    .help("add `maintenance=\"7:03:00\"` with a day and an hour (UTC, Monday is 1) that the run does not meet")
                    .note(format!("the job may run for {}, and file operations can pause during maintenance", text::duration(max_run))),
            );
        }
        return;
    };
    let Some(shape) = shapes::member("CreateFileSystem", "LustreConfiguration.WeeklyMaintenanceStartTime")
    else {
        return;
    };
    if !shape.takes_text(&window.value) {
        problems.push(
            Diagnostic::new(
                &T0460,
                window.span_or(storage.span),
                format!("`{}` is no maintenance window", window.value),
            )
            .help("write `d:HH:MM` in UTC, as `\"7:03:00\"` for Sunday 03:00; Monday is 1"),
        );
    }
}

fn efa(storage: &Storage, problems: &mut Problems) {
    if storage.efa.get() == Some(true) && file_system::legal(storage).is_some() {
        problems.push(
            Diagnostic::new(
                &T0462,
                storage.efa.span().unwrap_or(storage.span),
                "no AWS page says that a training job can mount a file system over EFA",
            )
            .help("remove `efa`, unless you have tried it")
            .note("with EFA the throughput cannot be changed later, and the capacity comes in larger steps"),
        );
    }
}

fn leaving(plan: &Plan, storage: &Storage, problems: &mut Problems) {
    if storage.delete_after_job.get() == Some(true) || storage.delete_after_job.is_bad() || !plan.deployable {
        return;
    }
    let name = file_system::name(storage);
    let span = storage.delete_after_job.span().unwrap_or(storage.span);
    let help =
        "add `delete-after-job` inside it, or run `trainc destroy --delete-data` when it is no longer needed";
    let note = "a file system is billed by the second until it is deleted, used or not";
    problems.push(
        match file_system::monthly_usd(plan, storage) {
            Some((usd, price)) => Diagnostic::new(
                &T0482,
                span,
                format!(
                    "`{name}` stays after the job and costs {} a month ({} an hour)",
                    text::dollars(usd),
                    text::dollars(usd / HOURS_PER_MONTH)
                ),
            )
            .note(format!(
                "{} × ${} per GiB and month{} ({})",
                storage.capacity_bytes.get().map_or_else(String::new, file_system::gib),
                price.usd_per_gb_month,
                price.region.as_ref().map_or_else(String::new, |region| format!(" in {region}")),
                price.date.as_ref().unwrap_or(&price.source)
            ))
            .fact("usd_per_month", usd),
            None => Diagnostic::new(
                &T0482,
                span,
                format!("`{name}` stays after the job, and costs until it is deleted"),
            )
            .note(no_price(plan, storage)),
        }
        .help(help)
        .note(note),
    );
}

/// That its price is not known, and what gives one.
fn no_price(plan: &Plan, storage: &Storage) -> String {
    let flag = plan.job.region.value().and_then(|region| file_system::price_flag(region, storage));
    let how = flag.map_or_else(String::new, |flag| format!("; `{flag}` gives one"));
    format!("the catalogue has no price of it with a source, for this region and throughput{how}")
}

fn losing(plan: &Plan, storage: &Storage, problems: &mut Problems) {
    if storage.delete_after_job.get() != Some(true) {
        return;
    }
    let name = file_system::name(storage);
    let span = storage.delete_after_job.span().unwrap_or(storage.span);
    if let Some(export) = storage.exports.first() {
        problems.push(
            Diagnostic::new(&T0480, span, format!("`{name}` goes when the job is done, with what is not exported by then"))
                .label(export.span, "exported in the background")
                .help("remove `delete-after-job`, and destroy it once the export has caught up (AgeOfOldestQueuedMessage is 0)")
                .note("DeleteFileSystem does not wait for the export queue, and a Lustre file system is deleted without a final backup"),
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
                format!("`{name}` goes when the job is done, with all that was written to it"),
            )
            .label(channel.mode.span().unwrap_or(channel.span), "written here, and exported nowhere")
            .help("remove `delete-after-job`, or make the channel `mode=\"ro\"`")
            .note("DeleteFileSystem makes no final backup of a Lustre file system unless it is told to"),
        );
    }
}
