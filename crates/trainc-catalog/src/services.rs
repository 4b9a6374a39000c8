//! AWS services: their protocols, and the host names of their endpoints.

use serde::Deserialize;

use super::regions::Region;
use super::table::Table;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("services", include_str!("data/services.toml"));

/// An AWS service.
#[derive(Debug, Deserialize)]
pub struct Service {
    /// The service ID in AWS's settings: `CloudWatch Logs`.
    pub id: String,
    /// How requests are written; none for a service that is asked through its crate of the SDK.
    pub protocol: Option<Protocol>,
    /// True if a partition has one endpoint, whose requests are signed for the region's `iam_region`.
    #[serde(default)]
    pub global: bool,
    #[serde(flatten)]
    hosts: Hosts,
    #[serde(default)]
    exceptions: Vec<Exception>,
    /// The source of the row.
    #[serde(flatten)]
    pub provenance: Provenance,
}

/// The protocol of a service.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// JSON 1.1.
    Json {
        /// Prefix of the header `x-amz-target`.
        target: String,
        /// The member with the token of the next page, in requests and responses.
        page_token: Option<String>,
    },
    /// Parameters of a form; the response is XML.
    Query {
        /// Version of the API.
        version: String,
    },
}

/// Host names, with fields of the region's row in braces.
#[derive(Debug, Default, Deserialize)]
struct Hosts {
    plain: Option<String>,
    fips: Option<String>,
    dual_stack: Option<String>,
    fips_dual_stack: Option<String>,
}

impl Hosts {
    fn of(&self, use_fips: bool, use_dual_stack: bool) -> Option<&str> {
        let host = match (use_fips, use_dual_stack) {
            (false, false) => &self.plain,
            (true, false) => &self.fips,
            (false, true) => &self.dual_stack,
            (true, true) => &self.fips_dual_stack,
        };
        host.as_deref()
    }
}

/// Host names in some partitions.
#[derive(Debug, Deserialize)]
struct Exception {
    partitions: Vec<String>,
    #[serde(flatten)]
    hosts: Hosts,
}

impl Service {
    /// Returns the host name of the service in a region, for the settings `use_fips_endpoint` and
    /// `use_dualstack_endpoint` of AWS tools; `None` for a service that is asked through its crate of the
    /// SDK.
    pub fn host(&self, region: &Region, use_fips: bool, use_dual_stack: bool) -> Option<String> {
        let special = self
            .exceptions
            .iter()
            .filter(|one| one.partitions.contains(&region.partition))
            .find_map(|one| one.hosts.of(use_fips, use_dual_stack));
        let host = special.or_else(|| self.hosts.of(use_fips, use_dual_stack))?;
        Some(
            host.replace("{region}", &region.name)
                .replace("{suffix}", &region.dns_suffix)
                .replace("{dual_stack_suffix}", &region.dual_stack_suffix)
                .replace("{iam_region}", &region.iam_region),
        )
    }
}

/// Returns a service by the prefix of its IAM actions: `servicequotas`.
pub fn get(prefix: &str) -> Option<&'static Service> {
    TABLE.row(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regions;

    /// `testdata/endpoints.csv` has what botocore resolves for two regions of each partition that has two.
    #[test]
    fn hosts_are_those_of_botocore() {
        let mut compared = 0;
        for line in include_str!("../testdata/endpoints.csv").lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            let [service, region, fips, dual_stack, host] = cells[..] else { panic!("{line}") };
            let region = regions::get(region).unwrap();
            let found = get(service).unwrap().host(&region, fips == "true", dual_stack == "true");
            assert_eq!(found.as_deref(), Some(host), "{line}");
            compared += 1;
        }
        assert_eq!(compared, 9 * 14 * 4);
    }

    #[test]
    fn services_of_the_sdk_have_neither_protocol_nor_host() {
        let region = regions::get("us-west-2").unwrap();
        for key in TABLE.keys() {
            let service = get(key).unwrap();
            assert_eq!(service.protocol.is_some(), service.host(&region, true, true).is_some(), "{key}");
        }
    }
}
