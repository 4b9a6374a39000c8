//! Expected node losses of a cluster.

use super::job::Cluster;

impl Cluster {
    /// Returns the losses of one node per hour that the manifest expects: spot interruptions (`spot
    /// interruptions-per-hour=`) and failures (`node-mtbf`). Returns `None` where neither is set.
    pub fn losses_per_hour(&self) -> Option<f64> {
        let interruptions = self.spot.as_ref().and_then(|spot| spot.interruptions_per_hour.get());
        let failures = self.node_mtbf_seconds.get().map(|seconds| 3_600.0 / (seconds as f64).max(1.0));
        match (interruptions, failures) {
            (None, None) => None,
            (one, other) => Some(one.unwrap_or(0.0) + other.unwrap_or(0.0)),
        }
    }
}
