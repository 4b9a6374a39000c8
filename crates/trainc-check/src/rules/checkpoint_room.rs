//! The size of checkpoints compared with the disk that they are written to.

use crate::Context;
use crate::queries::disk::{Disk, disk};
use trainc_predict::round_to_u64;
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
    "checkpoints or weights that do not fit on the instance's disk",
    explains: [Disk]
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0339];

/// Reports checkpoints that cannot fit. Each node writes its part of the states to its disk, once per
/// checkpoint that is kept; the image, the data and the model on that disk are not counted.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    check_weights(plan, problems);
    let (Some(cluster), Some(checkpoint)) = (&plan.job.cluster, &plan.job.checkpoint) else { return };
    if checkpoint_channel(plan).is_some() {
        return;
    }
    let Ok(layout) = Layout::from_plan(plan) else { return };
    let Some(disk) = disk(plan, cluster) else { return };
    let kept = checkpoint.keep.get().unwrap_or(1);
    let each = node_bytes(&layout);
    let needs = each * kept as f64;
    if needs <= disk.bytes {
        return;
    }
    let copies = if kept > 1 { format!("{kept} checkpoints take") } else { "a checkpoint takes".to_owned() };
    let sized = |bytes: f64| text::bytes(round_to_u64(bytes));
    let span = blamed_span(cluster, checkpoint, &disk, kept > 1 && each <= disk.bytes);
    let diagnostic = Diagnostic::new(
        &T0339,
        span,
        format!("{copies} {} on each instance; {} has {}", sized(needs), disk.name, sized(disk.bytes)),
    )
    .note("weights, a 32-bit copy of 16-bit weights, and the optimizer states that an instance holds; \
        data and image are additional")
    .fact("needed_bytes", needs)
    .fact("room_bytes", disk.bytes);
    problems.push(help(diagnostic, cluster, checkpoint, &disk, each, kept));
}

/// Reports a volume that is smaller than the weights of the model in 16 bit, which the program downloads or
/// writes.
fn check_weights(plan: &Plan, problems: &mut Problems) {
    let (Some(cluster), Some(model)) = (&plan.job.cluster, &plan.model) else { return };
    let Some(disk) = disk(plan, cluster).filter(|disk| disk.is_volume) else { return };
    let weights = model.parameters.value.saturating_mul(2);
    if weights as f64 <= disk.bytes || plan.job.program.is_none() {
        return;
    }
    let span = cluster.volume_bytes.span().unwrap_or(cluster.span);
    let wanted = (weights as f64 * 3.0 / GIB as f64 / 10.0).ceil() * 10.0;
    let volume = format!("\"{wanted}GiB\"");
    let diagnostic = Diagnostic::new(
        &T0339,
        span,
        format!("the weights of `{}` take {}; {} has {}", model.name, text::bytes(weights), disk.name, text::bytes(round_to_u64(disk.bytes))),
    )
    .note("in 16 bit, as they are downloaded, or written when the run ends; data and image are additional")
    .fact("needed_bytes", weights as f64)
    .fact("room_bytes", disk.bytes);
    problems.push(match cluster.volume_bytes.span() {
        Some(span) => diagnostic.help(format!("write `volume {volume}`")).fix(span, volume),
        None => diagnostic.add_to("cluster", format!("volume {volume}")),
    });
}

/// Returns the bytes of states on one node: a model split over fewer ranks than a node has is on one node
/// completely.
fn node_bytes(layout: &Layout) -> f64 {
    let split = layout.degrees.shard * layout.degrees.tensor * layout.degrees.pipeline;
    run::checkpoint_bytes(layout) * (layout.hardware.gpus_per_node / split).min(1.0)
}

fn blamed_span(
    cluster: &Cluster,
    checkpoint: &Checkpoint,
    disk: &Disk,
    too_many: bool,
) -> trainc_diag::source::Span {
    let volume = cluster.volume_bytes.span().filter(|_| disk.is_volume);
    let keep = checkpoint.keep.span().filter(|_| too_many);
    volume.or(keep).unwrap_or(checkpoint.span)
}

fn help(
    diagnostic: Diagnostic,
    cluster: &Cluster,
    checkpoint: &Checkpoint,
    disk: &Disk,
    each: f64,
    kept: u64,
) -> Diagnostic {
    // One more than are kept, while it is written; rounded up to 50 GiB.
    let wanted = (each * (kept as f64 + 1.0) / GIB as f64 / 50.0).ceil() * 50.0;
    let volume = format!("\"{wanted}GiB\"");
    if disk.is_volume {
        return match cluster.volume_bytes.span() {
            Some(span) => diagnostic.help(format!("write `volume {volume}`")).fix(span, volume),
            None => diagnostic
                .add_to("cluster", format!("volume {volume}"))
                .note(format!("without `volume` the job gets {}", text::bytes(round_to_u64(disk.bytes)))),
        };
    }
    let fitting = (disk.bytes / each).floor();
    match checkpoint.keep.span().filter(|_| fitting >= 1.0) {
        Some(span) => diagnostic.help(format!("write `keep={fitting}`")).fix(span, fitting.to_string()),
        None => diagnostic.help("put checkpoints on a file system: `local=\"/opt/ml/input/data/CHANNEL/…\"` \
            of a channel with `mode=\"rw\"`"),
    }
}
