//! Default values of the manifest, each with the reason that `plan -v` shows.

/// `cluster nodes`.
pub(super) const NODES: (u64, &str) = (1, "one instance");
/// `cluster max-run`: the service's own default (botocore, StoppingCondition).
pub(super) const MAX_RUN_SECONDS: (u64, &str) = (86_400, "SageMaker default, 1d");
/// `cluster volume`: the value that the SageMaker Python SDK sends.
pub(super) const VOLUME_BYTES: (u64, &str) = (30 << 30, "SageMaker Python SDK default, 30 GiB");
/// `role path`.
pub(super) const ROLE_PATH: (&str, &str) = ("/trainc/", "IAM path of roles that trainc creates");
/// `channel mode`.
pub(super) const CHANNEL_MODE: (&str, &str) = ("ro", "channels are read-only by default");
