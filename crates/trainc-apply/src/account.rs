//! What an account holds, as far as trainc looks at it: typed, already cleaned of how each service writes it.

mod s3;

pub use s3::{Bucket, Object, Upload};
pub use trainc_ir::{TrainingJob, Transition};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Tags by key.
pub type Tags = BTreeMap<String, String>;

/// Who asks (GetCallerIdentity).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Twelve digits.
    pub account: String,
    /// `arn:aws:sts::111122223333:assumed-role/ci/session`; its second field is the partition.
    pub arn: String,
}

impl Caller {
    /// `aws`, `aws-cn`, `aws-us-gov`.
    pub fn partition(&self) -> &str {
        self.arn.split(':').nth(1).unwrap_or("aws")
    }
}

/// A role (GetRole).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// Its ARN, with its path.
    pub arn: String,
    /// Its path.
    pub path: String,
    /// The trust policy as JSON text, percent-decoded.
    pub trust: String,
    /// The permissions boundary's ARN.
    pub boundary: Option<String>,
    /// Its tags.
    pub tags: Tags,
}

/// A file system (DescribeFileSystems).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileSystem {
    /// `fs-0123456789abcdef0`.
    pub id: String,
    /// Its ARN.
    pub arn: String,
    /// `CREATING`, `AVAILABLE`, `UPDATING`, `MISCONFIGURED`, `DELETING`, `FAILED`.
    pub lifecycle: String,
    /// Why it failed.
    pub failure: Option<String>,
    /// `LUSTRE`.
    pub kind: String,
    /// GiB.
    pub capacity_gib: u64,
    /// `SSD`, `HDD`.
    pub storage_type: String,
    /// Lustre version.
    pub version: Option<String>,
    /// The subnets, for Lustre one.
    pub subnets: Vec<String>,
    /// The network.
    pub vpc: Option<String>,
    /// Its network interfaces: their groups are the file system's, which this answer leaves out.
    pub interfaces: Vec<String>,
    /// The key that encrypts it.
    pub kms: Option<String>,
    /// Known once it is available.
    pub mount: Option<String>,
    /// `PERSISTENT_2`, …
    pub deployment: Option<String>,
    /// MB/s per TiB.
    pub throughput: Option<u64>,
    /// `NONE`, `LZ4`.
    pub compression: Option<String>,
    /// `NONE`, `READ` (HDD).
    pub drive_cache: Option<String>,
    /// True if EFA is on.
    pub efa: Option<bool>,
    /// Provisioned metadata operations per second.
    pub metadata_iops: Option<u64>,
    /// `AUTOMATIC`, `USER_PROVISIONED`.
    pub metadata_mode: Option<String>,
    /// `d:HH:MM`, UTC.
    pub maintenance: Option<String>,
    /// When it was made, seconds since 1970.
    pub created: Option<f64>,
    /// Its tags.
    pub tags: Tags,
}

/// What UpdateFileSystem changes in place; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSystemChange {
    /// GiB, only upward.
    pub capacity_gib: Option<u64>,
    /// MB/s per TiB.
    pub throughput: Option<u64>,
    /// `NONE`, `LZ4`.
    pub compression: Option<String>,
    /// Provisioned metadata operations per second, only upward.
    pub metadata_iops: Option<u64>,
    /// `d:HH:MM`, UTC.
    pub maintenance: Option<String>,
    /// Lustre version, only upward.
    pub version: Option<String>,
}

/// A data repository association.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Association {
    /// `dra-…`.
    pub id: String,
    /// Its ARN.
    pub arn: String,
    /// The file system.
    pub file_system: String,
    /// `CREATING`, `AVAILABLE`, `MISCONFIGURED`, `UPDATING`, `DELETING`, `FAILED`.
    pub lifecycle: String,
    /// Why it failed.
    pub failure: Option<String>,
    /// The path in the file system.
    pub path: String,
    /// The S3 prefix, with its final `/`.
    pub s3: String,
    /// Events of the import policy.
    pub import: Vec<String>,
    /// Events of the export policy.
    pub export: Vec<String>,
    /// Its tags.
    pub tags: Tags,
}

/// A line of ListTrainingJobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobSummary {
    /// Its name.
    pub name: String,
    /// Its ARN.
    pub arn: String,
    /// `InProgress`, `Completed`, …
    pub status: String,
    /// Seconds since 1970.
    pub created: f64,
}

/// A subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subnet {
    /// `subnet-…`.
    pub id: String,
    /// Its network.
    pub vpc: String,
    /// The zone's name in this account, `us-east-1a`.
    pub zone: String,
    /// The zone itself, `use1-az4`.
    pub zone_id: String,
    /// Addresses that are free.
    pub free_addresses: u64,
}

/// A security group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityGroup {
    /// `sg-…`.
    pub id: String,
    /// Its network.
    pub vpc: String,
    /// Rules for what comes in.
    pub ingress: Vec<GroupRule>,
    /// Rules for what goes out.
    pub egress: Vec<GroupRule>,
}

/// One rule of a security group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRule {
    /// `tcp`, `udp`, `-1` for everything.
    pub protocol: String,
    /// First port; none for all.
    pub from_port: Option<i64>,
    /// Last port; none for all.
    pub to_port: Option<i64>,
    /// Groups on the other side.
    pub groups: Vec<String>,
    /// Address ranges on the other side.
    pub ranges: Vec<String>,
}

/// A route table of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteTable {
    /// `rtb-…`.
    pub id: String,
    /// True if it holds for the subnets of the network that have none of their own.
    pub is_main: bool,
    /// The subnets that it is given to.
    pub subnets: Vec<String>,
    /// Its routes, without those that lead nowhere any more.
    pub routes: Vec<Route>,
}

/// One route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// An address range, or `pl-…`.
    pub destination: String,
    /// `local`, `igw-…`, `nat-…`, `vpce-…`, …
    pub target: String,
}

/// An endpoint of a service in a network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// `vpce-…`.
    pub id: String,
    /// `Gateway`, `Interface`.
    pub kind: String,
    /// `available`, `pending`, …
    pub state: String,
    /// The route tables that lead to it, where it is a gateway.
    pub route_tables: Vec<String>,
    /// True if the service's own names lead to it, where it is an interface.
    pub private_dns: bool,
}

/// What a role is asked for in a simulation of its policies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Question {
    /// `s3:GetObject`.
    pub action: String,
    /// ARN.
    pub resource: String,
    /// Condition keys of the request, with their values.
    pub context: Vec<(String, String)>,
}

/// A key of KMS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// Its ARN.
    pub arn: String,
    /// `Enabled`, `Disabled`, `PendingDeletion`, …
    pub state: String,
}

/// A log stream: one for each host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LogStream {
    /// `<job>/algo-1-1700000000`.
    pub name: String,
    /// Time of its first event, milliseconds since 1970.
    pub first: Option<i64>,
    /// Time of its last event, milliseconds since 1970; it may lag.
    pub last: Option<i64>,
}

/// A line of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEvent {
    /// When the host wrote it, milliseconds since 1970.
    pub time: i64,
    /// The line.
    pub text: String,
}

/// Where in a log to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogFrom<'a> {
    /// Where the last page ended; the head without it.
    pub token: Option<&'a str>,
    /// Only lines since then, milliseconds since 1970.
    pub since: Option<i64>,
}

/// Some lines of a log, and where the next ones begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPage {
    /// Oldest first.
    pub events: Vec<LogEvent>,
    /// `nextForwardToken`: the same as the one given when there is nothing further yet.
    pub next: Option<String>,
}
