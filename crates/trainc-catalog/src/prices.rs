//! Prices: instances per hour; FSx for Lustre, the training volume and S3 per GB-month. Each has a region and
//! a date.

use super::fsx::{self, Presence};
use super::memo::Memo;
use super::regions;
use super::table::{Sourced, Table};
use serde::Deserialize;
use trainc_ir::hardware::Provenance;

pub(crate) const INSTANCES: Table = Table::new("prices", include_str!("data/prices.toml"));
pub(crate) const STORAGE: Table = Table::new("storage-prices", include_str!("data/storage_prices.toml"));

/// Hours of a month in AWS bills.
pub const HOURS_PER_MONTH: f64 = 730.0;

/// The price of an instance hour.
#[derive(Debug, Clone, PartialEq)]
pub struct Price {
    /// `ml.p4d.24xlarge`.
    pub instance: String,
    /// USD per instance hour, on demand.
    pub usd_per_hour: f64,
    /// Region, if the source states one.
    pub region: Option<String>,
    /// The source's description of an unclear region.
    pub region_words: Option<String>,
    /// `sagemaker`, or `ec2` for a price that SageMaker does not bill.
    pub product: String,
    /// The source's description of an inexact date; `provenance.date` is then a sortable approximation.
    pub date_words: Option<String>,
    /// Source and effective date.
    pub provenance: Provenance,
}

#[derive(Clone, Deserialize)]
struct PriceRow {
    instance: String,
    usd_per_hour: f64,
    region: Option<String>,
    region_words: Option<String>,
    product: String,
    date_words: Option<String>,
    #[serde(flatten)]
    sourced: Sourced,
}

fn read(key: &str) -> Option<Price> {
    let row: PriceRow = INSTANCES.row(key)?;
    Some(Price {
        instance: row.instance,
        usd_per_hour: row.usd_per_hour,
        region: row.region,
        region_words: row.region_words,
        product: row.product,
        date_words: row.date_words,
        provenance: row.sourced.into(),
    })
}

/// Returns the newest SageMaker price of the type in the region, by effective date; the first in the file for
/// equal dates.
pub fn newest(instance: &str, region: &str) -> Option<Price> {
    static MEMO: Memo<(String, String), Option<Price>> = Memo::new();
    MEMO.get((instance.to_owned(), region.to_owned()), |(instance, region)| look_up(instance, region))
}

/// Returns the newest SageMaker price of the type in any stated region.
pub fn newest_anywhere(instance: &str) -> Option<Price> {
    newest_of(of_instance(instance).filter(|price| price.region.is_some()))
}

fn look_up(instance: &str, region: &str) -> Option<Price> {
    let under = format!("{instance}/{region}/");
    newest_of(
        INSTANCES.keys_under(&under).filter_map(read).filter(|price| price.region.as_deref() == Some(region)),
    )
}

fn newest_of(prices: impl Iterator<Item = Price>) -> Option<Price> {
    prices.filter(|price| price.product == "sagemaker").fold(None, |best: Option<Price>, price| match best {
        Some(best) if best.provenance.date >= price.provenance.date => Some(best),
        _ => Some(price),
    })
}

/// Returns every row of the type, including unclear ones and EC2 prices, in the order of the file.
pub fn of_instance(instance: &str) -> impl Iterator<Item = Price> {
    let under = format!("{instance}/");
    INSTANCES.keys().filter(move |key| key.starts_with(&under)).filter_map(read)
}

/// Returns every row of every type.
pub fn all() -> impl Iterator<Item = Price> {
    INSTANCES.keys().filter_map(read)
}

/// A storage price.
#[derive(Debug, Clone, PartialEq)]
pub struct StoragePrice {
    /// USD per GB-month (per GiB of capacity for FSx).
    pub usd_per_gb_month: f64,
    /// Region.
    pub region: String,
    /// The source of the row.
    pub provenance: Provenance,
}

#[derive(Clone, Deserialize)]
struct StoragePriceRow {
    usd_per_gb_month: f64,
    region: Option<String>,
    #[serde(flatten)]
    sourced: Sourced,
}

fn read_storage(key: &str) -> Option<StoragePrice> {
    let row: StoragePriceRow = STORAGE.row(key)?;
    Some(StoragePrice {
        usd_per_gb_month: row.usd_per_gb_month,
        region: row.region?,
        provenance: row.sourced.into(),
    })
}

/// Returns the row of a key from [`lustre_key`], [`volume_key`] or [`s3_key`].
pub fn storage(key: &str) -> Option<StoragePrice> {
    read_storage(key)
}

/// Returns the key of FSx for Lustre storage: `fsx/us-east-1/PERSISTENT_2/SSD/250`; 0 means no tier.
pub fn lustre_key(region: &str, deployment: &str, storage: &str, tier_mb_s_per_tib: Option<u32>) -> String {
    format!("fsx/{region}/{deployment}/{storage}/{}", tier_mb_s_per_tib.unwrap_or(0))
}

/// Returns the key of a region's training volumes: `ebs-training/us-east-1`.
pub fn volume_key(region: &str) -> String {
    format!("ebs-training/{region}")
}

/// Returns the key of a region's S3 Standard storage, its first 50 TB: `s3-standard/us-east-1`.
pub fn s3_key(region: &str) -> String {
    format!("s3-standard/{region}")
}

/// Returns true if a key is for existing storage, with or without a price in the catalogue.
pub fn is_storage_key(key: &str) -> bool {
    let known = |region: &str| regions::get(region).is_some();
    match key.split('/').collect::<Vec<_>>().as_slice() {
        ["ebs-training" | "s3-standard", region] => known(region),
        ["fsx", region, deployment, storage, tier] => {
            let legal = fsx::legal(deployment, storage);
            let tier = tier.parse().ok();
            known(region)
                && legal.is_some_and(|legal| match legal.throughput {
                    Presence::Required => tier.is_some_and(|tier| legal.throughputs.contains(&tier)),
                    Presence::Forbidden => tier == Some(0),
                })
        }
        _ => false,
    }
}

/// Returns the price of FSx for Lustre storage: `lustre("us-east-1", "PERSISTENT_2", "SSD", Some(250))`; a
/// SCRATCH deployment has no tier.
pub fn lustre(
    region: &str,
    deployment: &str,
    storage: &str,
    tier_mb_s_per_tib: Option<u32>,
) -> Option<StoragePrice> {
    read_storage(&lustre_key(region, deployment, storage, tier_mb_s_per_tib))
}

/// Returns the price of the EBS volume of a training instance without local NVMe, per GB of `VolumeSizeInGB`.
pub fn training_volume(region: &str) -> Option<StoragePrice> {
    read_storage(&volume_key(region))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_price_of_a_region_wins() {
        let price = newest("ml.g5.xlarge", "eu-west-1").unwrap();
        assert_eq!((price.usd_per_hour, price.date_words.as_deref()), (1.57, Some("2023-12")));
        let price = newest("ml.p4d.24xlarge", "us-west-2").unwrap();
        assert_eq!((price.usd_per_hour, price.provenance.date.as_str()), (25.251_286, "2026-09-01"));
        // Newer than the row of 2024-06-11.
        let price = newest("ml.p4d.24xlarge", "us-east-1").unwrap();
        assert_eq!((price.usd_per_hour, price.provenance.date.as_str()), (25.2513, "2026-09-27"));
        let price = newest("ml.p5.48xlarge", "us-east-1").unwrap();
        assert_eq!((price.usd_per_hour, price.provenance.date.as_str()), (63.296, "2026-09-27"));
        // The Training component, newer than the row of a Studio application.
        let price = newest("ml.g5.xlarge", "us-west-2").unwrap();
        assert_eq!((price.usd_per_hour, price.provenance.date.as_str()), (1.408, "2026-09-06"));
        // A CPU type has prices without a row of its own.
        assert!(crate::instances::get("ml.m5.xlarge").is_none());
        let price = |region| newest("ml.m5.xlarge", region).map(|price| price.usd_per_hour);
        assert_eq!(["us-east-1", "ap-south-1", "us-west-2"].map(price), [Some(0.23), Some(0.242), None]);
    }

    #[test]
    fn a_row_without_region_or_of_ec2_is_never_a_price_of_a_region() {
        assert_eq!(newest("ml.p3.16xlarge", "us-east-1"), None);
        assert_eq!(newest("ml.p5en.48xlarge", "us-east-1"), None);
        assert_eq!(newest("ml.p6-b200.48xlarge", "us-east-1"), None);
        assert_eq!(newest("ml.p3.16xlarge", "unstated"), None);
        assert_eq!(
            of_instance("ml.p3.16xlarge").next().unwrap().region_words.as_deref(),
            Some("not stated; matches us-east-1")
        );
        assert_eq!(of_instance("ml.p5en.48xlarge").count(), 5);
        assert!(newest("ml.g7e.48xlarge", "us-west-2").is_some());
    }

    #[test]
    fn keys_say_what_rows_say() {
        assert_eq!(all().count(), INSTANCES.keys().count());
        for (key, price) in INSTANCES.keys().zip(all()) {
            let region = price.region.as_deref().unwrap_or("unstated");
            let start = format!("{}/{region}/{}/", price.instance, price.provenance.date);
            assert!(key.starts_with(&start), "{key}");
            assert!(crate::instances::instance_exists(&price.instance), "{key}");
            assert!(price.region.as_deref().is_none_or(|name| crate::regions::get(name).is_some()), "{key}");
        }
    }

    #[test]
    fn keys_of_storage_name_what_the_service_has() {
        for key in STORAGE.keys().filter(|key| !key.contains("unstated")) {
            assert!(is_storage_key(key), "{key}");
        }
        assert!(
            is_storage_key("fsx/eu-west-1/PERSISTENT_1/HDD/12") && is_storage_key("ebs-training/eu-west-1")
        );
        for wrong in [
            "fsx/eu-west-9/PERSISTENT_2/SSD/125",
            "fsx/eu-west-1/PERSISTENT_2/SSD/0",
            "fsx/eu-west-1/PERSISTENT_2/SSD/200",
            "fsx/eu-west-1/SCRATCH_2/SSD/125",
            "fsx/eu-west-1/SCRATCH_2/SSD",
            "ebs-training/",
            "corpus/eu-west-1",
        ] {
            assert!(!is_storage_key(wrong), "{wrong}");
        }
    }

    /// A figure without a source has no row, and its price is unknown.
    #[test]
    fn storage_prices_are_those_with_a_source() {
        let price = |deployment, tier| Some(lustre("us-east-1", deployment, "SSD", tier)?.usd_per_gb_month);
        assert_eq!(price("PERSISTENT_2", Some(125)), Some(0.145));
        assert_eq!(price("SCRATCH_2", None), Some(0.14));
        assert_eq!(price("PERSISTENT_2", Some(250)), Some(0.21));
        let oregon = |deployment, tier| Some(lustre("us-west-2", deployment, "SSD", tier)?.usd_per_gb_month);
        assert_eq!(oregon("PERSISTENT_2", Some(250)), Some(0.21));
        assert_eq!(oregon("PERSISTENT_1", Some(200)), Some(0.29));
        assert_eq!(oregon("PERSISTENT_2", Some(125)), Some(0.145));
        let ireland = lustre("eu-west-1", "PERSISTENT_2", "SSD", Some(125)).unwrap();
        assert_eq!((ireland.usd_per_gb_month, ireland.provenance.date.as_str()), (0.16, "2026-05-01"));
        assert_eq!(lustre("eu-west-1", "SCRATCH_2", "SSD", None), None);
        let volume = |region| Some(training_volume(region)?.usd_per_gb_month);
        assert_eq!(["us-east-1", "eu-west-1", "us-west-2"].map(volume), [Some(0.14), Some(0.154), None]);
        let bucket = |region| Some(storage(&s3_key(region))?.usd_per_gb_month);
        assert_eq!(
            ["us-west-2", "eu-central-1", "cn-north-1"].map(bucket),
            [Some(0.023), Some(0.0245), None]
        );
    }
}
