//! Data that SageMaker copies to each instance before the program starts: room on its disk, and time.

use crate::Context;
use crate::queries::disk::{copied_data, disk};
use trainc_predict::round_to_u64;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};

declare_code!(
    T0836,
    "data-exceeds-disk",
    Warning,
    "data in file mode that do not fit on the instance's disk, or take long to copy",
    explains: [Disk]
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0836];

/// Seconds of copying from which on it is noted.
const LONG: f64 = 600.0;

/// Compares `dataset size=` with the disk, and with what the network carries.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(cluster), Some(dataset)) = (&plan.job.cluster, &plan.job.train.dataset) else { return };
    let (Some(size), Some(data)) = (dataset.size_bytes.val(), copied_data(plan)) else { return };
    let Some(first) = data.channels.first() else { return };
    let sized = |bytes: f64| text::bytes(round_to_u64(bytes));
    let gbps = plan.instance.as_ref().and_then(|instance| instance.network_gbps).filter(|gbps| *gbps > 0.0);
    let seconds = gbps.map(|gbps| data.bytes * 8.0 / (gbps * 1e9));
    let time = seconds.zip(gbps).map(|(seconds, gbps)| {
        format!(
            "copying them takes at least {} at the instance's {} Gbps, before the program starts",
            text::rounded_duration(seconds),
            text::short_number(gbps)
        )
    });
    let disk = disk(plan, cluster).filter(|disk| data.bytes > disk.bytes);
    let message = match (&disk, seconds) {
        (Some(disk), _) => {
            format!(
                "file mode copies {} to each instance; {} has {}",
                sized(data.bytes),
                disk.name,
                sized(disk.bytes)
            )
        }
        (None, Some(seconds)) if seconds >= LONG => format!(
            "file mode copies {} to each instance before the program starts: at least {}",
            sized(data.bytes),
            text::rounded_duration(seconds)
        ),
        _ => return,
    };
    let mut diagnostic = Diagnostic::new(&T0836, size.span_or(dataset.span), message)
        .label(first.input.span().unwrap_or(first.span), "copied before the program starts")
        .write_on_line_of("channel", "input=\"fast-file\"")
        .or_else("a Lustre file system linked to the prefix: both are read on demand")
        .fact("data_bytes", data.total_bytes)
        .fact("copied_bytes", data.bytes)
        .fact("copy_seconds", seconds);
    diagnostic = match &disk {
        Some(disk) => {
            let fact = diagnostic.fact("room_bytes", disk.bytes);
            let fact = if disk.is_volume { fact.note("`volume` of `cluster` sets its size") } else { fact };
            time.into_iter().fold(fact, Diagnostic::note)
        }
        None => diagnostic.severity(Severity::Note).note(format!(
            "at the instance's {} Gbps; S3 and many small objects are slower",
            text::short_number(gbps.unwrap_or_default())
        )),
    };
    problems.push(diagnostic.note("weights, checkpoints and the image are additional"));
}
