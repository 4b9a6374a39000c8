//! What of `cluster` nothing uses, by the kind of cluster.

use super::Judge;
use trainc_ir::Engine;

impl Judge<'_, '_> {
    pub(super) fn cluster(&mut self) {
        let job = &self.context.plan.job;
        let Some(cluster) = &job.cluster else { return };
        let named = cluster.instance.value().map(String::as_str);
        let custom = named == Some("custom");
        let worker = job.parallel.as_ref().and_then(|parallel| parallel.engine.get()) == Some(Engine::Worker);
        let cores = worker && self.context.plan.machine.as_ref().is_none_or(|machine| machine.gpu.is_none());
        if named != Some("local") && !cores && !cluster.instance.is_bad() {
            self.unused(
                &cluster.ranks,
                "ranks",
                "only engine `worker` has ranks without GPUs, on a local cluster or a type without GPUs",
                "remove it, or write `cluster \"local\"`",
            );
        }
        if !custom && !cluster.instance.is_bad() {
            if let Some(gpu) = cluster.gpu.as_ref().filter(|_| named != Some("local")) {
                self.unused_at(
                    gpu.span,
                    "gpu",
                    "the instance type says what a node is",
                    "remove it, or write `cluster \"custom\"`",
                );
            }
            let help = "remove it, or write `cluster \"custom\"`";
            self.unused(
                &cluster.intra_bytes_per_second,
                "intra",
                "the instance type says what a node is",
                help,
            );
            self.unused(
                &cluster.inter_bytes_per_second,
                "inter",
                "the instance type says what a node is",
                help,
            );
        }
        if !self.context.plan.deployable {
            let why = "no service runs this cluster";
            for (name, span) in [
                ("warm-pool", cluster.warm_pool_seconds.span()),
                ("max-pending", cluster.max_pending_seconds.span()),
                ("retry", cluster.retry.span()),
                ("training-plan", cluster.training_plan.span()),
                ("spot", cluster.spot.as_ref().map(|spot| spot.span)),
            ] {
                if let Some(span) = span {
                    self.unused_at(span, name, why, "remove it");
                }
            }
        }
    }
}
