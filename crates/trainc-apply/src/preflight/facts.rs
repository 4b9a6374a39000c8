//! Facts about the account, read before the first write: data only.

use crate::account::{
    Bucket, Endpoint, FileSystem, Key, Object, Question, Role, RouteTable, SecurityGroup, Subnet,
};
use crate::cloud::Answer;
use std::collections::BTreeMap;
use trainc_catalog::quotas::Quota;
use trainc_diag::source::Span;
use trainc_ir::Val;

/// The answer to a query; `None` if it was not made.
pub type Lookup<T> = Option<Answer<T>>;

/// An S3 location that the job reads, with its first objects.
#[derive(Clone, Debug)]
pub struct Data {
    /// Name of the channel or storage, or `program`.
    pub name: String,
    /// `s3://bucket/prefix`.
    pub uri: String,
    /// The first objects.
    pub seen: Lookup<Vec<Object>>,
    /// Its span in the manifest.
    pub span: Span,
}

/// Facts about an account on which a plan depends.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Account ID.
    pub account: String,
    /// The job's subnets.
    pub subnets: Lookup<Vec<Subnet>>,
    /// Route tables of the VPC.
    pub routes: Lookup<Vec<RouteTable>>,
    /// S3 endpoints in the VPC, read if a subnet has no route to the outside.
    pub endpoints: Lookup<Vec<Endpoint>>,
    /// The job's security groups.
    pub groups: Lookup<Vec<SecurityGroup>>,
    /// IDs of the zones that offer the instance type.
    pub zones: Lookup<Vec<String>>,
    /// Quotas that the job may exceed.
    pub limits: Vec<Limit>,
    /// True if the catalogue's default quotas apply to this account; `None` if this was not checked.
    pub holds: Option<bool>,
    /// True if the user waits for capacity.
    pub waits: bool,
    /// Instances of this type that other jobs use; not read if the job exceeds a quota by itself.
    pub running: Lookup<Running>,
    /// Buckets by name, each with its first span in the manifest.
    pub buckets: BTreeMap<String, (Span, Lookup<Bucket>)>,
    /// Inputs.
    pub data: Vec<Data>,
    /// Keys, each with its span in the manifest.
    pub keys: Vec<(Val<String>, Lookup<Key>)>,
    /// The role to which the manifest refers.
    pub role: Lookup<Role>,
    /// The permissions of the role.
    pub permissions: Lookup<Vec<(Question, bool)>>,
    /// The caller's permissions to delete after the job.
    pub release: Lookup<Vec<(Question, bool)>>,
    /// The image.
    pub image: Lookup<()>,
    /// Secrets.
    pub secrets: Vec<(Val<String>, Lookup<()>)>,
    /// Existing file systems, each with the ID in the manifest.
    pub file_systems: Vec<(Val<String>, Lookup<FileSystem>)>,
}

impl Facts {
    /// Returns the instances of the job's type in use by other jobs, as far as known.
    pub(super) fn running_instances(&self) -> f64 {
        let seen = self.running.as_ref().and_then(|seen| seen.as_ref().ok());
        seen.map_or(0.0, |running| running.instances as f64)
    }
}

/// A quota of the account, and the job's demand.
#[derive(Clone, Debug)]
pub struct Limit {
    /// The quota.
    pub quota: Quota,
    /// The job's demand, in the quota's unit.
    pub wanted: f64,
    /// Current usage, if known in advance: GiB of file systems.
    pub taken: f64,
    /// True if running jobs count against it.
    pub is_shared: bool,
    /// Value of the quota in the account.
    pub seen: Lookup<f64>,
    /// True if that is the catalogue's default, which has not been confirmed for this account.
    pub is_default: bool,
    /// Its span in the manifest.
    pub span: Span,
}

/// Other jobs in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// Instances of the job's type, over the running jobs that were read.
    pub instances: u64,
    /// True if all running jobs were read; otherwise there may be more.
    pub is_all: bool,
}
