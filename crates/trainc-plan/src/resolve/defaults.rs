//! Defaults: the rule that fills in what nobody wrote, with its reason. `plan -v` shows these words.

/// `cluster nodes`.
pub(super) const NODES: (u64, &str) = (1, "one instance");
/// `cluster max-run`: the service's own default (botocore, StoppingCondition).
pub(super) const MAX_RUN_SECONDS: (u64, &str) = (86_400, "the service's default, 1d");
/// `cluster volume`: what the SageMaker Python SDK sends.
pub(super) const VOLUME_BYTES: (u64, &str) = (30 << 30, "the SageMaker SDK's default, 30 GiB");
/// `role path`.
pub(super) const ROLE_PATH: (&str, &str) = ("/trainc/", "the path by which trainc knows its roles");
/// `channel mode`.
pub(super) const CHANNEL_MODE: (&str, &str) = ("ro", "a channel is read");
