//! Resources that a manifest refers to and the simulated account does not list.

use super::state::Account;
use crate::account::{GroupRule, SecurityGroup, Subnet};

/// The account that owns the buckets of others.
const OTHER_ACCOUNT: &str = "222233334444";

/// Available addresses of a /20 subnet.
const ROOM: u64 = 4_091;

impl Account {
    pub(super) fn exists_by_default(&self, name: &str) -> bool {
        self.furnished && !self.missing.contains(name)
    }

    /// Returns the account that owns a bucket.
    pub(super) fn bucket_owner(&self, name: &str) -> &str {
        if self.foreign_buckets.contains(name) { OTHER_ACCOUNT } else { &self.account }
    }

    pub(super) fn has_bucket(&self, name: &str) -> bool {
        // The SDK's default bucket is created on first use.
        let default = name == format!("sagemaker-{}-{}", self.region, self.account);
        self.buckets.contains_key(name)
            || self.foreign_buckets.contains(name)
            || (self.furnished && !default && !self.missing_buckets.contains(name))
    }

    /// Returns whether objects of a bucket can be read: a manifest that reads from the default bucket refers
    /// to one that exists.
    pub(super) fn has_readable_bucket(&self, name: &str) -> bool {
        self.has_bucket(name) || (self.furnished && !self.missing_buckets.contains(name))
    }

    pub(super) fn subnet(&self, id: &str) -> Option<Subnet> {
        self.subnets.get(id).cloned().or_else(|| {
            self.exists_by_default(id).then(|| Subnet {
                id: id.to_owned(),
                vpc: "vpc-0a1b2c3d4e5f60718".to_owned(),
                zone: format!("{}a", self.region),
                zone_id: zone_id(&self.region, 1),
                free_addresses: ROOM,
            })
        })
    }

    pub(super) fn security_group(&self, id: &str) -> Option<SecurityGroup> {
        let open =
            GroupRule { protocol: "-1".to_owned(), groups: vec![id.to_owned()], ..GroupRule::default() };
        self.security_groups.get(id).cloned().or_else(|| {
            self.exists_by_default(id).then(|| SecurityGroup {
                id: id.to_owned(),
                vpc: "vpc-0a1b2c3d4e5f60718".to_owned(),
                ingress: vec![open.clone()],
                egress: vec![open],
            })
        })
    }
}

/// Returns a zone ID, e.g. `usw2-az1` for `us-west-2`.
pub(super) fn zone_id(region: &str, number: u32) -> String {
    let mut parts = region.split('-');
    let (area, place, digit) =
        (parts.next().unwrap_or(""), parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    format!("{area}{}{digit}-az{number}", place.chars().next().unwrap_or('x'))
}
