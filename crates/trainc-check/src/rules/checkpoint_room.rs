//! Checkpoints against the disk that they are written to.

use crate::Context;
use crate::queries::prediction::rounded;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::checkpoint_parts::checkpoint_channel;
use trainc_ir::units::GIB;
use trainc_ir::{Checkpoint, Cluster, Plan};
use trainc_predict::{Layout, run};

declare_code!(
    T0339,
    "checkpoint-exceeds-volume",
    Warning,
    "checkpoints that do not fit on the instance's disk"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0339];

/// The part of the states that a node holds is written to its disk, as often as checkpoints are kept. What else lies
/// there (the image, the data, the model) is not counted, so what is reported cannot fit.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(cluster), Some(checkpoint)) = (&plan.job.cluster, &plan.job.checkpoint) else { return };
    if !plan.deployable || checkpoint_channel(plan).is_some() {
        return;
    }
    let Ok(layout) = Layout::of_plan(plan) else { return };
    let Some(room) = room(plan, cluster) else { return };
    let kept = checkpoint.keep.get().unwrap_or(1);
    let each = node_bytes(&layout);
    let needs = each * kept as f64;
    if needs <= room.bytes {
        return;
    }
    let copies = if kept > 1 { format!("{kept} checkpoints take") } else { "a checkpoint takes".to_owned() };
    let sized = |bytes: f64| text::bytes(rounded(bytes));
    let span = blamed(cluster, checkpoint, &room, kept > 1 && each <= room.bytes);
    let diagnostic = Diagnostic::new(
        &T0339,
        span,
        format!("{copies} {} on each instance; {} has {}", sized(needs), room.what, sized(room.bytes)),
    )
    .note("weights, a 32-bit copy of 16-bit ones, and the optimizer's states, as far as an instance holds them; data and image come on top")
    .fact("needed_bytes", needs)
    .fact("room_bytes", room.bytes);
    problems.push(help(diagnostic, cluster, checkpoint, &room, each, kept));
}

/// The disk that `/opt/ml` and `/tmp` lie on.
struct Room {
    bytes: f64,
    what: &'static str,
    /// Whether `cluster volume` says its size.
    is_volume: bool,
}

fn room(plan: &Plan, cluster: &Cluster) -> Option<Room> {
    let instance = plan.instance.as_ref()?;
    if instance.ebs_volume_ignored {
        let bytes = instance.nvme_total_gb? as f64 * 1e9;
        return Some(Room { bytes, what: "its NVMe", is_volume: false });
    }
    let bytes = cluster.volume_bytes.get()?.div_ceil(GIB) * GIB;
    Some(Room { bytes: bytes as f64, what: "its volume", is_volume: true })
}

/// The states of one node, bytes: a model that is split over fewer ranks than a node has lies on one node whole.
fn node_bytes(layout: &Layout) -> f64 {
    let split = layout.degrees.shard * layout.degrees.tensor * layout.degrees.pipeline;
    run::checkpoint_bytes(layout) * (layout.hardware.gpus_per_node / split).min(1.0)
}

fn blamed(
    cluster: &Cluster,
    checkpoint: &Checkpoint,
    room: &Room,
    too_many: bool,
) -> trainc_diag::source::Span {
    let volume = cluster.volume_bytes.span().filter(|_| room.is_volume);
    let keep = checkpoint.keep.span().filter(|_| too_many);
    volume.or(keep).unwrap_or(checkpoint.span)
}

fn help(
    diagnostic: Diagnostic,
    cluster: &Cluster,
    checkpoint: &Checkpoint,
    room: &Room,
    each: f64,
    kept: u64,
) -> Diagnostic {
    // One beside those that are kept, while it is written; then the next fifty.
    let wanted = (each * (kept as f64 + 1.0) / GIB as f64 / 50.0).ceil() * 50.0;
    let volume = format!("\"{wanted}GiB\"");
    if room.is_volume {
        return match cluster.volume_bytes.span() {
            Some(span) => diagnostic.help(format!("write `volume {volume}`")).fix(span, volume),
            None => diagnostic
                .help(format!("add `volume {volume}` to `cluster`"))
                .note(format!("without `volume` the job gets {}", text::bytes(rounded(room.bytes)))),
        };
    }
    let fitting = (room.bytes / each).floor();
    match checkpoint.keep.span().filter(|_| fitting >= 1.0) {
        Some(span) => diagnostic.help(format!("write `keep={fitting}`")).fix(span, fitting.to_string()),
        None => diagnostic.help("put checkpoints on a file system: `local=\"/opt/ml/input/data/CHANNEL/…\"` of a channel with `mode=\"rw\"`"),
    }
}
