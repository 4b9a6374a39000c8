//! State of a simulated account, which can be written to a file and read again. Members missing in the file
//! have the values of an account that has all resources of a manifest, and sufficient quotas.

use super::job::{Outcome, advance_job};
use super::pace::Pace;
use crate::account::{
    Association, Endpoint, FileSystem, Role, Route, RouteTable, SecurityGroup, Subnet, Tags, TrainingJob,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A simulated account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Account {
    /// Account ID, twelve digits.
    pub account: String,
    /// The region in use.
    pub region: String,
    /// Current time, seconds since 1970.
    pub now: f64,
    /// True if resources that a manifest refers to exist even if not listed here: subnets, groups, buckets
    /// with data, keys.
    pub furnished: bool,
    /// Actions that the caller is not allowed to perform.
    pub denied: BTreeSet<String>,
    /// Quotas by code; others are high.
    pub quotas: BTreeMap<String, f64>,
    /// Roles by name.
    pub roles: BTreeMap<String, RoleState>,
    /// File systems by ID.
    pub file_systems: BTreeMap<String, FileSystemState>,
    /// Associations by ID.
    pub associations: BTreeMap<String, AssociationState>,
    /// Buckets by name, with their regions.
    pub buckets: BTreeMap<String, String>,
    /// Buckets that do not exist or belong to others.
    pub missing_buckets: BTreeSet<String>,
    /// Buckets of other accounts that the caller may read.
    pub foreign_buckets: BTreeSet<String>,
    /// Objects by `bucket/key`, with their sizes.
    pub objects: BTreeMap<String, u64>,
    /// SHA-256 of objects in hexadecimal, by `bucket/key`; only for objects uploaded with a checksum.
    pub checksums: BTreeMap<String, String>,
    /// True if the caller may not read checksums: objects are encrypted with a key that it may not use.
    pub hidden_checksums: bool,
    /// Unfinished multipart uploads, as `bucket/key`.
    pub unfinished: BTreeSet<String>,
    /// Prefixes without an object, as `bucket/prefix`.
    pub empty: BTreeSet<String>,
    /// Training jobs by name.
    pub jobs: BTreeMap<String, JobState>,
    /// Subnets by ID.
    pub subnets: BTreeMap<String, Subnet>,
    /// Security groups by ID.
    pub security_groups: BTreeMap<String, SecurityGroup>,
    /// Route tables of the VPC; without any, a default table with a route to a NAT gateway is used.
    pub route_tables: Vec<RouteTable>,
    /// S3 endpoints in the VPC.
    pub endpoints: Vec<Endpoint>,
    /// Missing resources, while all others exist: subnets, groups, keys, images, secrets.
    pub missing: BTreeSet<String>,
    /// IDs of zones by instance type; other types are offered in all zones.
    pub zones: BTreeMap<String, Vec<String>>,
    /// Actions that simulate-principal-policy denies.
    pub role_lacks: BTreeSet<String>,
    /// Seconds until a file system is available.
    pub making_seconds: f64,
    /// Seconds until a written role can be assumed.
    pub assume_seconds: f64,
    /// Number of optimizer steps of the next jobs.
    pub steps: u64,
    /// Speed of the next jobs, if predicted.
    pub pace: Option<Pace>,
    /// Outcome of the next jobs.
    pub outcome: Outcome,
    /// Seconds until a written log line can be read.
    pub log_seconds: f64,
    /// Number of jobs that find no capacity before one does.
    pub without_capacity: u32,
    /// Instance types without capacity, of which no job with instance preferences gets any.
    pub unavailable: BTreeSet<String>,
    /// Counter for generated IDs.
    pub counter: u64,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            account: "111122223333".to_owned(),
            region: "us-west-2".to_owned(),
            // 2026-01-05 09:00 UTC, an arbitrary fixed time.
            now: 1_767_603_600.0,
            furnished: true,
            denied: BTreeSet::new(),
            quotas: BTreeMap::new(),
            roles: BTreeMap::new(),
            file_systems: BTreeMap::new(),
            associations: BTreeMap::new(),
            buckets: BTreeMap::new(),
            missing_buckets: BTreeSet::new(),
            foreign_buckets: BTreeSet::new(),
            objects: BTreeMap::new(),
            checksums: BTreeMap::new(),
            hidden_checksums: false,
            unfinished: BTreeSet::new(),
            empty: BTreeSet::new(),
            jobs: BTreeMap::new(),
            subnets: BTreeMap::new(),
            security_groups: BTreeMap::new(),
            route_tables: Vec::new(),
            endpoints: Vec::new(),
            missing: BTreeSet::new(),
            zones: BTreeMap::new(),
            role_lacks: BTreeSet::new(),
            making_seconds: 420.0,
            assume_seconds: 9.0,
            steps: 120,
            pace: None,
            outcome: Outcome::Completes,
            log_seconds: 0.0,
            without_capacity: 0,
            unavailable: BTreeSet::new(),
            counter: 0,
        }
    }
}

/// A role and the time of its last write.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoleState {
    /// The role.
    pub role: Role,
    /// Inline policies by name.
    pub policies: BTreeMap<String, String>,
    /// ARNs of managed policies.
    pub attached: Vec<String>,
    /// Time of the last write, seconds since 1970.
    pub written: f64,
}

/// A file system and the end of its current state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileSystemState {
    /// The file system.
    pub system: FileSystem,
    /// Client token of its creation.
    pub token: String,
    /// Request of its creation, as JSON text.
    pub request: String,
    /// When CREATING, UPDATING or DELETING ends, seconds since 1970.
    pub until: f64,
}

/// An association and the end of its current state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AssociationState {
    /// The association.
    pub association: Association,
    /// Client token of its creation.
    pub token: String,
    /// Request of its creation, as JSON text.
    pub request: String,
    /// When CREATING or DELETING ends, seconds since 1970.
    pub until: f64,
}

/// A job and its future outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobState {
    /// The job in its current state.
    pub job: TrainingJob,
    /// Its tags.
    pub tags: Tags,
    /// Number of optimizer steps.
    pub steps: u64,
    /// Training speed, if predicted.
    #[serde(default)]
    pub pace: Option<Pace>,
    /// Outcome, unless it is stopped.
    pub outcome: Outcome,
    /// Time at which it was stopped, seconds since 1970.
    pub stopped: Option<f64>,
    /// The instance type of its preferences that has capacity, which the job shows once it has instances.
    #[serde(default)]
    pub chosen: Option<String>,
}

impl Account {
    /// Advances the clock: completes creations and updates, and removes deleted resources.
    pub(super) fn advance_to(&mut self, now: f64) {
        for state in self.file_systems.values_mut() {
            if now >= state.until && matches!(state.system.lifecycle.as_str(), "CREATING" | "UPDATING") {
                "AVAILABLE".clone_into(&mut state.system.lifecycle);
                if state.system.mount.is_none() {
                    // Eight letters and digits, like those of the service.
                    let digest = trainc_ir::digest::sha256_hex(state.system.id.as_bytes());
                    state.system.mount = digest.get(..8).map(str::to_owned);
                }
            }
        }
        self.file_systems.retain(|_, state| state.system.lifecycle != "DELETING" || now < state.until);
        let systems: BTreeMap<String, bool> = self
            .file_systems
            .iter()
            .map(|(id, state)| (id.clone(), state.system.lifecycle != "CREATING"))
            .collect();
        self.associations.retain(|_, state| {
            systems.contains_key(&state.association.file_system)
                && (state.association.lifecycle != "DELETING" || now < state.until)
        });
        for state in self.associations.values_mut() {
            let ready = systems.get(&state.association.file_system).copied().unwrap_or_default();
            if ready && now >= state.until && state.association.lifecycle == "CREATING" {
                "AVAILABLE".clone_into(&mut state.association.lifecycle);
            }
        }
        for state in self.jobs.values_mut() {
            advance_job(state, now);
        }
    }

    /// Returns the route tables, or a default table with a route to a NAT gateway.
    pub(super) fn route_tables_or_default(&self) -> Vec<RouteTable> {
        if !self.route_tables.is_empty() || !self.furnished {
            return self.route_tables.clone();
        }
        let out = Route { destination: "0.0.0.0/0".to_owned(), target: "nat-0a1b2c3d4e5f60718".to_owned() };
        vec![RouteTable {
            id: "rtb-0a1b2c3d4e5f60718".to_owned(),
            is_main: true,
            subnets: Vec::new(),
            routes: vec![out],
        }]
    }

    /// Returns the next number for an ID.
    pub(super) fn next_number(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }
}
