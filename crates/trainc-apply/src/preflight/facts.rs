//! Facts about the account, read before the first write: data only.

use crate::account::{
    Bucket, Endpoint, FileSystem, Key, Object, Question, Role, RouteTable, SecurityGroup, Subnet,
};
use crate::cloud::Answer;
use std::collections::BTreeMap;
use trainc_catalog::quotas::Quota;
use trainc_diag::source::Span;
use trainc_ir::Val;

/// The answer to a query; `None` if nothing was asked.
pub type Lookup<T> = Option<Answer<T>>;

/// An address of S3 that the job reads, and whether anything lies there.
#[derive(Clone, Debug)]
pub struct Data {
    /// The channel, or the path of a link.
    pub name: String,
    /// `s3://bucket/prefix`.
    pub uri: String,
    /// The first objects.
    pub seen: Lookup<Vec<Object>>,
    /// The place of blame.
    pub span: Span,
}

/// The facts about an account that a plan depends on.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The account that was looked at.
    pub account: String,
    /// The job's subnets.
    pub subnets: Lookup<Vec<Subnet>>,
    /// Route tables of the network.
    pub routes: Lookup<Vec<RouteTable>>,
    /// Endpoints of S3 in the network, asked for where no route leads out.
    pub endpoints: Lookup<Vec<Endpoint>>,
    /// The job's security groups.
    pub groups: Lookup<Vec<SecurityGroup>>,
    /// Ids of the zones that offer the instance type.
    pub zones: Lookup<Vec<String>>,
    /// Limits.
    pub limits: Vec<Limit>,
    /// True if the figures of a new account, where limits have them, hold in this one; none where nobody had to ask.
    pub holds: Option<bool>,
    /// True if the user waits where there is no room at the moment.
    pub waits: bool,
    /// What runs now on instances of this type, by other jobs; not asked where the job does not fit even alone.
    pub running: Lookup<Running>,
    /// Buckets by name, with their first place.
    pub buckets: BTreeMap<String, (Span, Lookup<Bucket>)>,
    /// Inputs.
    pub data: Vec<Data>,
    /// Keys, with their places.
    pub keys: Vec<(Val<String>, Lookup<Key>)>,
    /// The role that the manifest names.
    pub role: Lookup<Role>,
    /// The permissions of the role.
    pub permissions: Lookup<Vec<(Question, bool)>>,
    /// The caller's permissions to delete after the job.
    pub release: Lookup<Vec<(Question, bool)>>,
    /// The image.
    pub image: Lookup<()>,
    /// Secrets.
    pub secrets: Vec<(Val<String>, Lookup<()>)>,
    /// File systems that exist already, by the place of their id.
    pub file_systems: Vec<(Val<String>, Lookup<FileSystem>)>,
}

impl Facts {
    /// Instances of the job's type that other jobs run on now, as far as they were seen.
    pub(super) fn running_instances(&self) -> f64 {
        let seen = self.running.as_ref().and_then(|seen| seen.as_ref().ok());
        seen.map_or(0.0, |running| running.instances as f64)
    }
}

/// A limit of the account, and what the job asks of it.
#[derive(Clone, Debug)]
pub struct Limit {
    /// The quota.
    pub quota: Quota,
    /// The job's demand, in the quota's unit.
    pub wanted: f64,
    /// What the account has of it already, where that is known beforehand: GiB of file systems.
    pub taken: f64,
    /// True if what runs already counts against it.
    pub is_shared: bool,
    /// The account's figure.
    pub seen: Lookup<f64>,
    /// True if that is the catalogue's of a new account, as the account never had it changed, and nobody has confirmed it.
    pub is_default: bool,
    /// The place of blame.
    pub span: Span,
}

/// The other jobs that run now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// Instances of the job's type, of the running jobs that were looked at.
    pub instances: u64,
    /// True if these are all that run: else there may be more.
    pub is_all: bool,
}
