//! Facts about the account, read before the first write: data only.

use crate::account::{
    Bucket, Endpoint, FileSystem, Key, Object, Question, Role, RouteTable, SecurityGroup, Subnet,
};
use crate::cloud::Answer;
use std::collections::BTreeMap;
use trainc_catalog::quotas::Quota;
use trainc_diag::source::Span;
use trainc_ir::{Address, Val};

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
    /// IDs of the zones that offer each instance type that the job may run on.
    pub zones: Vec<(String, Lookup<Vec<String>>)>,
    /// Quotas that the job may exceed.
    pub limits: Vec<Limit>,
    /// True if the catalogue's default quotas apply to this account; `None` if this was not checked.
    pub holds: Option<bool>,
    /// True if the user waits for capacity.
    pub waits: bool,
    /// Instances of the job's types that other jobs use; not read if the job exceeds a quota by itself.
    pub running: Lookup<Running>,
    /// Buckets by name, each with its first span in the manifest.
    pub buckets: BTreeMap<String, (Span, Lookup<Bucket>)>,
    /// Inputs.
    pub data: Vec<Data>,
    /// Keys, each with its span in the manifest.
    pub keys: Vec<(Val<Address>, Lookup<Key>)>,
    /// The role to which the manifest refers.
    pub role: Lookup<Role>,
    /// The permissions of the role.
    pub permissions: Lookup<Vec<(Question, bool)>>,
    /// The caller's permissions to delete after the job.
    pub release: Lookup<Vec<(Question, bool)>>,
    /// The image.
    pub image: Lookup<()>,
    /// Secrets.
    pub secrets: Vec<(Val<Address>, Lookup<()>)>,
    /// Existing file systems, each with the ID in the manifest.
    pub file_systems: Vec<(Val<String>, Lookup<FileSystem>)>,
}

impl Facts {
    /// Returns the instances that other jobs use of a shared quota, as far as known.
    pub(super) fn used_instances(&self, limit: &Limit) -> f64 {
        let seen = self.running.as_ref().and_then(|seen| seen.as_ref().ok());
        seen.map_or(0.0, |running| running.of(limit))
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
    /// The instance type of which it limits the number; `None` if it limits something else.
    pub instance: Option<String>,
    /// True if running jobs count against it.
    pub is_shared: bool,
    /// Value of the quota in the account.
    pub seen: Lookup<f64>,
    /// True if the account has a value of its own; otherwise the default of a new account applies.
    pub is_own: bool,
    /// True if [`Self::seen`] is the catalogue's default, which has not been confirmed for this account.
    pub is_default: bool,
    /// Its span in the manifest.
    pub span: Span,
}

/// Other jobs in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// Instances of each of the job's types, over the running jobs that were read.
    pub instances: BTreeMap<String, u64>,
    /// True if all running jobs were read; otherwise there may be more.
    pub is_all: bool,
}

impl Running {
    /// Returns the instances that count against a shared quota.
    pub(super) fn of(&self, limit: &Limit) -> f64 {
        let instances = match &limit.instance {
            Some(name) => self.instances.get(name).copied().unwrap_or(0),
            None => self.instances.values().sum(),
        };
        instances as f64
    }
}
