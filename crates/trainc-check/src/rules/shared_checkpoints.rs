//! Checkpoints of engine `worker` with a shard group across several hosts, whose files belong in one
//! directory.

use crate::Context;
use crate::queries::file_system;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::checkpoint_parts::{DEFAULT_CHECKPOINT_PATH, split_checkpoint};

declare_code!(
    T0487,
    "checkpoint-split-across-hosts",
    Warning,
    "sharded checkpoints on hosts that do not share a directory"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0487];

/// Checks engine `worker`: each rank of the first shard group writes one file of a checkpoint, and the first
/// rank renames the checkpoint once all files exist.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(parallel), Some(mesh), Some(apart)) = (&plan.job.parallel, &plan.mesh, split_checkpoint(plan)) else {
        return;
    };
    let (ranks, here) = (apart.ranks, apart.ranks_per_host);
    let checkpoint = plan.job.checkpoint.as_ref();
    let local = checkpoint.and_then(|checkpoint| checkpoint.local.value()).map_or(DEFAULT_CHECKPOINT_PATH, String::as_str);
    let span =
        checkpoint.map_or(parallel.span, |checkpoint| checkpoint.local.span().unwrap_or(checkpoint.span));
    let hosts = text::count(apart.hosts(), "host");
    let mut diagnostic = Diagnostic::new(
        &T0487,
        span,
        format!("checkpoints are split across {hosts}, but `{local}` is not shared between hosts"),
    );
    if let Some(degree) = mesh.shard_degree.origin.span().filter(|_| checkpoint.is_some()) {
        diagnostic = diagnostic.label(degree, format!("{ranks} ranks, {here} on each host"));
    }
    let storage = plan.job.storage.first().map(file_system::name);
    let help = match storage {
        Some(name) => format!(
            "add `channel \"runs\" from=\"{name}\" path=\"/\" mode=\"rw\"`, and write \
                `checkpoint local=\"/opt/ml/input/data/runs/{{{{ job.digest }}}}\"`"
        ),
        None => format!(
            "add a `storage \"lustre\"`, a `channel \"runs\"` from it with `mode=\"rw\"`, and \
                `checkpoint local=\"/opt/ml/input/data/runs/{{{{ job.digest }}}}\"`; or keep each shard \
                group on one host with `shard-degree {here}`"
        ),
    };
    problems.push(
        diagnostic
            .help(help)
            .note("the worker exits with code 11 before the first step, and `apply` does not start it")
            .note("each rank of a shard group writes one file, and a checkpoint requires all of them \
                in one directory; SageMaker's copies in S3 from each host are not merged either")
            .fact("hosts", apart.hosts()),
    );
}
