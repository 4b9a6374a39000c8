//! What a job can cost, as far as that follows from prices and limits alone.

use crate::ir::Plan;

/// All instances for an hour, US dollars.
pub(super) fn usd_per_hour(plan: &Plan) -> Option<f64> {
    Some(plan.price.as_ref()?.usd_per_hour * plan.mesh.as_ref()?.nodes as f64)
}

/// What the instances cost if the job runs until max-run stops it, US dollars.
pub(super) fn most_usd(plan: &Plan) -> Option<f64> {
    let seconds = plan.job.cluster.as_ref()?.max_run_seconds.get()?;
    Some(usd_per_hour(plan)? * seconds as f64 / 3_600.0)
}

/// What the warm pool costs if no further job takes it, US dollars.
pub(super) fn warm_pool_usd(plan: &Plan) -> Option<f64> {
    let seconds = plan.job.cluster.as_ref()?.warm_pool_seconds.get()?;
    Some(usd_per_hour(plan)? * seconds as f64 / 3_600.0)
}

/// What is paid beside the instances, in words; empty where nothing is.
pub(super) fn beside(plan: &Plan) -> Vec<&'static str> {
    let mut out = Vec::new();
    let nvme = plan.instance.as_ref().is_some_and(|instance| instance.ebs_volume_ignored);
    if plan.deployable && !nvme {
        out.push("volumes");
    }
    if plan.job.storage.iter().any(|storage| storage.id.is_absent()) {
        out.push("the file system");
    }
    out.push("S3");
    out
}
