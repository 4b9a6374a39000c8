//! What a simulated account holds. It can be written to a file and read again; what a file leaves out is as in an
//! account that has everything a manifest names, and room for it.

use super::job::{Outcome, advance_job};
use super::pace::Pace;
use crate::account::{
    Association, Endpoint, FileSystem, Role, Route, RouteTable, SecurityGroup, Subnet, Tags, TrainingJob,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// An account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Account {
    /// Twelve digits.
    pub account: String,
    /// The region that it is seen in.
    pub region: String,
    /// Seconds since 1970.
    pub now: f64,
    /// True if what a manifest names and no entry here speaks of is there: subnets, groups, buckets with data, keys.
    pub furnished: bool,
    /// Actions that the caller is not allowed to perform.
    pub denied: BTreeSet<String>,
    /// Quotas by code; the others are large.
    pub quotas: BTreeMap<String, f64>,
    /// Roles by name.
    pub roles: BTreeMap<String, RoleState>,
    /// File systems by id.
    pub file_systems: BTreeMap<String, FileSystemState>,
    /// Associations by id.
    pub associations: BTreeMap<String, AssociationState>,
    /// Buckets by name, with their regions.
    pub buckets: BTreeMap<String, String>,
    /// Buckets that do not exist or belong to others.
    pub missing_buckets: BTreeSet<String>,
    /// Buckets of other accounts, which may be seen.
    pub foreign_buckets: BTreeSet<String>,
    /// Objects by `bucket/key`, with their sizes.
    pub objects: BTreeMap<String, u64>,
    /// SHA-256 of objects, hexadecimal, by `bucket/key`; none where nobody gave it.
    pub checksums: BTreeMap<String, String>,
    /// True if the caller may not read checksums: objects are encrypted with a key that it may not use.
    pub hidden_checksums: bool,
    /// Uploads in parts that were begun and not ended, as `bucket/key`.
    pub unfinished: BTreeSet<String>,
    /// Prefixes without an object, as `bucket/prefix`.
    pub empty: BTreeSet<String>,
    /// Training jobs by name.
    pub jobs: BTreeMap<String, JobState>,
    /// Subnets by id.
    pub subnets: BTreeMap<String, Subnet>,
    /// Security groups by id.
    pub security_groups: BTreeMap<String, SecurityGroup>,
    /// Route tables of the network; where there is none, it is furnished with one that leads out.
    pub route_tables: Vec<RouteTable>,
    /// Endpoints of S3 in the network.
    pub endpoints: Vec<Endpoint>,
    /// Objects that are not there though all others are: subnets, groups, keys, images, secrets.
    pub missing: BTreeSet<String>,
    /// Zones by instance type; all zones for the others.
    pub zones: BTreeMap<String, Vec<String>>,
    /// Actions that simulate-principal-policy says no to.
    pub role_lacks: BTreeSet<String>,
    /// Seconds until a file system is available.
    pub making_seconds: f64,
    /// Seconds until a role that was written can be assumed.
    pub assume_seconds: f64,
    /// Optimizer steps of the next jobs.
    pub steps: u64,
    /// How fast the next jobs train, where that is predicted.
    pub pace: Option<Pace>,
    /// How the next jobs end.
    pub outcome: Outcome,
    /// Seconds until a line that a host wrote can be read.
    pub log_seconds: f64,
    /// How many jobs find no machines before one does.
    pub without_capacity: u32,
    /// Numbers that ids are made from.
    pub counter: u64,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            account: "111122223333".to_owned(),
            region: "us-west-2".to_owned(),
            // 2026-01-05 09:00 UTC: any fixed time does.
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
            counter: 0,
        }
    }
}

/// A role and when it was last written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoleState {
    /// The role.
    pub role: Role,
    /// Inline policies by name.
    pub policies: BTreeMap<String, String>,
    /// ARNs of managed policies.
    pub attached: Vec<String>,
    /// Seconds since 1970.
    pub written: f64,
}

/// A file system and when its state ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileSystemState {
    /// The file system.
    pub system: FileSystem,
    /// The token that made it.
    pub token: String,
    /// The request that made it, as JSON text.
    pub request: String,
    /// When CREATING, UPDATING or DELETING ends, seconds since 1970.
    pub until: f64,
}

/// An association and when its state ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AssociationState {
    /// The association.
    pub association: Association,
    /// The token that made it.
    pub token: String,
    /// The request that made it, as JSON text.
    pub request: String,
    /// When CREATING or DELETING ends, seconds since 1970.
    pub until: f64,
}

/// A job and how it will end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobState {
    /// The job as it is described now.
    pub job: TrainingJob,
    /// Its tags.
    pub tags: Tags,
    /// Its optimizer steps.
    pub steps: u64,
    /// How fast it trains, where that is predicted.
    #[serde(default)]
    pub pace: Option<Pace>,
    /// How it ends by itself.
    pub outcome: Outcome,
    /// When it was stopped, seconds since 1970.
    pub stopped: Option<f64>,
}

impl Account {
    /// Lets time pass: what was being made is there, what was going is gone.
    pub(super) fn advance_to(&mut self, now: f64) {
        for state in self.file_systems.values_mut() {
            if now >= state.until && matches!(state.system.lifecycle.as_str(), "CREATING" | "UPDATING") {
                "AVAILABLE".clone_into(&mut state.system.lifecycle);
                if state.system.mount.is_none() {
                    // Eight letters and digits, as the service makes them.
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

    /// The route tables; where none is said, one that leads out.
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

    /// The next number for an id.
    pub(super) fn next_number(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }
}
