//! Regions: partition, DNS suffix, service principal, and the region of IAM requests.

use serde::Deserialize;

use super::table::Table;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("regions", include_str!("data/regions.toml"));

#[derive(Clone, Deserialize)]
struct RegionRow {
    partition: String,
    dns_suffix: String,
    dual_stack_suffix: String,
    service_principal: String,
    #[serde(default)]
    service_principal_recalled: bool,
    iam_region: String,
    place: Option<String>,
    debugger: Option<bool>,
    #[serde(flatten)]
    provenance: Provenance,
}

/// An AWS region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// `us-west-2`.
    pub name: String,
    /// ARN partition: `aws`, `aws-cn`, `aws-us-gov`, `aws-iso`, …
    pub partition: String,
    /// Suffix of ECR and service host names: `amazonaws.com`, `amazonaws.com.cn`, …
    pub dns_suffix: String,
    /// Suffix of service host names that also have IPv6 addresses: `api.aws`, …
    pub dual_stack_suffix: String,
    /// Principal of SageMaker in a trust policy.
    pub service_principal: String,
    /// True if no source was read for the principal in this partition.
    pub service_principal_recalled: bool,
    /// Region in which IAM requests are signed.
    pub iam_region: String,
    /// Place name: `US West (Oregon)`.
    pub place: Option<String>,
    /// Whether SageMaker has debugger and profiler there.
    pub has_debugger: bool,
    /// The source of the row.
    pub provenance: Provenance,
}

/// Returns the region by name.
pub fn get(name: &str) -> Option<Region> {
    let row: RegionRow = TABLE.row(name).cloned()?;
    Some(Region {
        name: name.to_owned(),
        partition: row.partition,
        dns_suffix: row.dns_suffix,
        dual_stack_suffix: row.dual_stack_suffix,
        service_principal: row.service_principal,
        service_principal_recalled: row.service_principal_recalled,
        iam_region: row.iam_region,
        place: row.place,
        has_debugger: row.debugger.unwrap_or(true),
        provenance: row.provenance,
    })
}

/// Returns all region names, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.keys()
}

/// Returns all regions.
pub fn all() -> impl Iterator<Item = Region> {
    names().filter_map(get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_follow_the_region_name() {
        assert!(names().is_sorted() && all().count() == names().count());
        for region in all() {
            let partition = match region.name.split('-').take(2).collect::<Vec<_>>().as_slice() {
                ["cn", _] => "aws-cn",
                ["us", "gov"] => "aws-us-gov",
                ["us", "iso"] => "aws-iso",
                ["us", "isob"] => "aws-iso-b",
                ["eu", "isoe"] => "aws-iso-e",
                ["us", "isof"] => "aws-iso-f",
                ["eusc", _] => "aws-eusc",
                _ => "aws",
            };
            assert_eq!(region.partition, partition, "{}", region.name);
            assert_eq!(get(&region.iam_region).unwrap().partition, partition, "{}", region.name);
            assert_eq!(region.service_principal, "sagemaker.amazonaws.com");
        }
    }

    #[test]
    fn china_and_gov_differ_where_aws_says_so() {
        let china = get("cn-north-1").unwrap();
        assert_eq!(
            (china.dns_suffix.as_str(), china.iam_region.as_str()),
            ("amazonaws.com.cn", "cn-north-1")
        );
        let gov = get("us-gov-east-1").unwrap();
        assert_eq!((gov.dns_suffix.as_str(), gov.iam_region.as_str()), ("amazonaws.com", "us-gov-west-1"));
        assert_eq!(get("us-west-2").unwrap().iam_region, "us-east-1");
        assert_eq!(get("us-west-9"), None);
    }
}
