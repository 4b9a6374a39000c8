//! Typed resources of an AWS account, normalized from the form in which each service returns them.

mod s3;

pub use s3::{Bucket, Object, Upload};
pub use trainc_ir::{TrainingJob, Transition};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Tags by key.
pub type Tags = BTreeMap<String, String>;

/// Identity of the caller (GetCallerIdentity).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Account ID, twelve digits.
    pub account: String,
    /// `arn:aws:sts::111122223333:assumed-role/ci/session`; its second field is the partition.
    pub arn: String,
}

impl Caller {
    /// Partition: `aws`, `aws-cn`, `aws-us-gov`.
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
    /// Trust policy as JSON text, percent-decoded.
    pub trust: String,
    /// ARN of the permissions boundary.
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
    /// The failure reason.
    pub failure: Option<String>,
    /// File system type: `LUSTRE`.
    pub kind: String,
    /// Storage capacity in GiB.
    pub capacity_gib: u64,
    /// Storage type: `SSD`, `HDD`.
    pub storage_type: String,
    /// Lustre version.
    pub version: Option<String>,
    /// Subnets; a Lustre file system has one.
    pub subnets: Vec<String>,
    /// VPC ID.
    pub vpc: Option<String>,
    /// Network interfaces. Their security groups are those of the file system, which DescribeFileSystems does
    /// not return.
    pub interfaces: Vec<String>,
    /// KMS key that encrypts it.
    pub kms: Option<String>,
    /// Mount name; known once the file system is available.
    pub mount: Option<String>,
    /// Deployment type: `PERSISTENT_2`, …
    pub deployment: Option<String>,
    /// Throughput in MB/s per TiB.
    pub throughput: Option<u64>,
    /// Data compression: `NONE`, `LZ4`.
    pub compression: Option<String>,
    /// Drive cache: `NONE`, `READ` (HDD only).
    pub drive_cache: Option<String>,
    /// True if EFA is enabled.
    pub efa: Option<bool>,
    /// Provisioned metadata operations per second.
    pub metadata_iops: Option<u64>,
    /// Metadata configuration mode: `AUTOMATIC`, `USER_PROVISIONED`.
    pub metadata_mode: Option<String>,
    /// Weekly maintenance window, `d:HH:MM` in UTC.
    pub maintenance: Option<String>,
    /// Creation time, seconds since 1970.
    pub created: Option<f64>,
    /// Its tags.
    pub tags: Tags,
}

/// Changes of UpdateFileSystem, in place; `None` leaves a setting unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSystemChange {
    /// Storage capacity in GiB; can only increase.
    pub capacity_gib: Option<u64>,
    /// Throughput in MB/s per TiB.
    pub throughput: Option<u64>,
    /// Data compression: `NONE`, `LZ4`.
    pub compression: Option<String>,
    /// Provisioned metadata operations per second; can only increase.
    pub metadata_iops: Option<u64>,
    /// Weekly maintenance window, `d:HH:MM` in UTC.
    pub maintenance: Option<String>,
    /// Lustre version; can only increase.
    pub version: Option<String>,
}

/// A data repository association.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Association {
    /// `dra-…`.
    pub id: String,
    /// Its ARN.
    pub arn: String,
    /// ID of the file system.
    pub file_system: String,
    /// `CREATING`, `AVAILABLE`, `MISCONFIGURED`, `UPDATING`, `DELETING`, `FAILED`.
    pub lifecycle: String,
    /// The failure reason.
    pub failure: Option<String>,
    /// Path in the file system.
    pub path: String,
    /// S3 prefix, with its final `/`.
    pub s3: String,
    /// Events of the automatic import policy.
    pub import: Vec<String>,
    /// Events of the automatic export policy.
    pub export: Vec<String>,
    /// Its tags.
    pub tags: Tags,
}

/// An entry of ListTrainingJobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobSummary {
    /// Its name.
    pub name: String,
    /// Its ARN.
    pub arn: String,
    /// Status: `InProgress`, `Completed`, …
    pub status: String,
    /// Creation time, seconds since 1970.
    pub created: f64,
}

/// A subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subnet {
    /// `subnet-…`.
    pub id: String,
    /// VPC ID.
    pub vpc: String,
    /// Name of the availability zone in this account, `us-east-1a`.
    pub zone: String,
    /// Zone ID, `use1-az4`.
    pub zone_id: String,
    /// Number of free IP addresses.
    pub free_addresses: u64,
}

/// A security group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityGroup {
    /// `sg-…`.
    pub id: String,
    /// VPC ID.
    pub vpc: String,
    /// Inbound rules.
    pub ingress: Vec<GroupRule>,
    /// Outbound rules.
    pub egress: Vec<GroupRule>,
}

/// A rule of a security group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRule {
    /// Protocol: `tcp`, `udp`, `-1` for all.
    pub protocol: String,
    /// First port; `None` for all ports.
    pub from_port: Option<i64>,
    /// Last port; `None` for all ports.
    pub to_port: Option<i64>,
    /// Source or destination security groups.
    pub groups: Vec<String>,
    /// Source or destination CIDR ranges.
    pub ranges: Vec<String>,
}

/// A route table of a VPC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteTable {
    /// `rtb-…`.
    pub id: String,
    /// True for the main route table, which applies to subnets without an explicit association.
    pub is_main: bool,
    /// Explicitly associated subnets.
    pub subnets: Vec<String>,
    /// Routes, without blackhole routes.
    pub routes: Vec<Route>,
}

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Destination: a CIDR range, or `pl-…`.
    pub destination: String,
    /// Target: `local`, `igw-…`, `nat-…`, `vpce-…`, …
    pub target: String,
}

/// A VPC endpoint of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// `vpce-…`.
    pub id: String,
    /// Type: `Gateway`, `Interface`.
    pub kind: String,
    /// State: `available`, `pending`, …
    pub state: String,
    /// Route tables with a route to it, for a gateway endpoint.
    pub route_tables: Vec<String>,
    /// True if private DNS is enabled, for an interface endpoint.
    pub private_dns: bool,
}

/// A request to simulate with a role's policies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Question {
    /// IAM action, such as `s3:GetObject`.
    pub action: String,
    /// ARN of the resource.
    pub resource: String,
    /// Condition keys of the request with their values.
    pub context: Vec<(String, String)>,
}

/// A KMS key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// Its ARN.
    pub arn: String,
    /// Key state: `Enabled`, `Disabled`, `PendingDeletion`, …
    pub state: String,
}

/// A log stream; each host has one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LogStream {
    /// Stream name, `<job>/algo-1-1700000000`.
    pub name: String,
    /// Time of the first event, milliseconds since 1970.
    pub first: Option<i64>,
    /// Time of the last event, milliseconds since 1970; may lag.
    pub last: Option<i64>,
}

/// A log line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEvent {
    /// Time at which the host wrote it, milliseconds since 1970.
    pub time: i64,
    /// The text.
    pub text: String,
}

/// Start position of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogFrom<'a> {
    /// End of the previous page; the start of the stream without it.
    pub token: Option<&'a str>,
    /// Only lines since this time, milliseconds since 1970.
    pub since: Option<i64>,
}

/// A page of log lines, and the start of the next page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPage {
    /// The lines, oldest first.
    pub events: Vec<LogEvent>,
    /// `nextForwardToken`: equal to the given token if no further lines exist yet.
    pub next: Option<String>,
}
