//! Default values of the manifest, each with the reason that `plan -v` shows.

use trainc_catalog::arn;

/// `cluster nodes`.
pub(super) const NODES: (u64, &str) = (1, "one instance");
/// `cluster max-run`: the service's own default (botocore, StoppingCondition).
pub(super) const MAX_RUN_SECONDS: (u64, &str) = (86_400, "SageMaker default, 1d");
/// `cluster volume`: the value that the SageMaker Python SDK sends.
pub(super) const VOLUME_BYTES: (u64, &str) = (30 << 30, "SageMaker Python SDK default, 30 GiB");
/// `role path`.
pub(super) const ROLE_PATH: (&str, &str) = (arn::ROLE_PATH, "IAM path of roles that trainc creates");
/// `role path` with a permissions boundary: the path ends with the name of the boundary, so that a policy can name the
/// roles that have it. No condition key of `iam:PassRole` and `iam:UpdateAssumeRolePolicy` says which boundary a role has
/// (service authorization reference, AWS IAM; 2026-11-23).
pub(super) const BOUNDED_ROLE_PATH: &str = "IAM path of roles with this permissions boundary";
/// `role boundary`.
pub(super) const ROLE_BOUNDARY: &str = "TRAINC_ROLE_BOUNDARY";
/// `channel mode`.
pub(super) const CHANNEL_MODE: (&str, &str) = ("ro", "channels are read-only by default");
