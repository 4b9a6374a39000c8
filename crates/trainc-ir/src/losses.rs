//! How often a cluster loses a node.

use super::job::Cluster;

impl Cluster {
    /// How often one node is lost, per hour, as far as the manifest says it: to an interruption on spot (`spot
    /// interruptions-per-hour=`) or to a failure (`node-mtbf`). None where neither is written.
    pub fn losses_per_hour(&self) -> Option<f64> {
        let interruptions = self.spot.as_ref().and_then(|spot| spot.interruptions_per_hour.get());
        let failures = self.node_mtbf_seconds.get().map(|seconds| 3_600.0 / (seconds as f64).max(1.0));
        match (interruptions, failures) {
            (None, None) => None,
            (one, other) => Some(one.unwrap_or(0.0) + other.unwrap_or(0.0)),
        }
    }
}
