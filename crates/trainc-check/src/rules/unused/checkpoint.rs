//! What of `checkpoint` nothing uses, and whether it says anything.

use super::Judge;
use trainc_ir::Engine;

impl Judge<'_, '_> {
    pub(super) fn checkpoint(&mut self) {
        let job = &self.context.plan.job;
        let Some(checkpoint) = job.checkpoint.as_ref().filter(|checkpoint| checkpoint.s3.is_absent()) else {
            return;
        };
        // The worker saves at an interval of its own where none is written.
        let worker = job.parallel.as_ref().and_then(|parallel| parallel.engine.get()) == Some(Engine::Worker);
        let is_kept = worker && !checkpoint.keep.is_absent();
        if checkpoint.local.is_absent() && checkpoint.every.is_absent() && !is_kept {
            self.incomplete(
                checkpoint.span,
                "`checkpoint` says neither where nor how often",
                "add `s3=\"s3://…/{{ job.digest }}/\"`",
            );
        }
        // A directory on a mounted file system needs no copy in S3.
        let local = checkpoint.local.value().map_or("", String::as_str);
        let mounted = job.channels.iter().any(|channel| !channel.from.is_absent());
        let judged = job.cluster.as_ref().is_some_and(|cluster| cluster.spot.is_some()); // T0426 asks for the prefix.
        if self.context.plan.deployable && !mounted && !judged && !local.is_empty() {
            self.unused(
                &checkpoint.local,
                "local",
                "SageMaker copies checkpoints only where `s3` says to which prefix",
                "add `s3=\"s3://BUCKET/PREFIX/{{ job.digest }}/\"`",
            );
        }
    }
}
