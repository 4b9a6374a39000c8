//! Prices: instances per hour; FSx for Lustre, the training volume and S3 per GB-month. Each has a region and
//! a date.

use super::fsx::{self, Presence};
use super::memo::Memo;
use super::regions;
use super::table::Table;
use serde::Deserialize;
use trainc_ir::hardware::Provenance;

pub(crate) static INSTANCES: Table = Table::new("prices", include_str!("data/prices.toml"));
pub(crate) static RATIOS: Table = Table::new("price-ratios", include_str!("data/price_ratios.toml"));
pub(crate) static STORAGE: Table = Table::new("storage-prices", include_str!("data/storage_prices.toml"));

/// Hours of a month in AWS bills.
pub const HOURS_PER_MONTH: f64 = 730.0;

/// The product of the rows that SageMaker bills.
const SAGEMAKER: &str = "sagemaker";
/// The product of the rows that EC2 bills.
const EC2: &str = "ec2";
/// The region whose EC2 prices the factors of other regions refer to.
pub(crate) const REFERENCE: &str = "us-east-1";

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
    provenance: Provenance,
}

fn read(key: &str) -> Option<Price> {
    let row: PriceRow = INSTANCES.row(key).cloned()?;
    Some(Price {
        instance: row.instance,
        usd_per_hour: row.usd_per_hour,
        region: row.region,
        region_words: row.region_words,
        product: row.product,
        date_words: row.date_words,
        provenance: row.provenance,
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
    newest_of(of_region(instance, region))
}

fn of_region(instance: &str, region: &str) -> impl Iterator<Item = Price> {
    let under = format!("{instance}/{region}/");
    INSTANCES
        .keys()
        .filter(move |key| key.starts_with(&under))
        .filter_map(read)
        .filter(|price| price.region.is_some())
}

fn newest_of(prices: impl Iterator<Item = Price>) -> Option<Price> {
    newest_of_product(SAGEMAKER, prices)
}

fn newest_of_product(product: &str, prices: impl Iterator<Item = Price>) -> Option<Price> {
    prices.filter(|price| price.product == product).fold(None, |best: Option<Price>, price| match best {
        Some(best) if best.provenance.date >= price.provenance.date => Some(best),
        _ => Some(price),
    })
}

/// A SageMaker price that is estimated from an EC2 price.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// USD per instance hour, with the median ratio of SageMaker to EC2 prices.
    pub usd_per_hour: f64,
    /// The same with the lowest ratio.
    pub low_usd_per_hour: f64,
    /// The same with the highest ratio.
    pub high_usd_per_hour: f64,
    /// The EC2 price, of the same region if there is one.
    pub ec2: Price,
}

/// The ratio of prices to others.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
struct Ratio {
    low: f64,
    mid: f64,
    high: f64,
}

/// Returns an estimate of the SageMaker price of the type in the region from its EC2 price there, otherwise
/// from that in the region to which the factors of regions refer; `None` without an EC2 price or a ratio.
pub fn estimate(instance: &str, region: &str) -> Option<Estimate> {
    static MEMO: Memo<(String, String), Option<Estimate>> = Memo::new();
    MEMO.get((instance.to_owned(), region.to_owned()), |(instance, region)| {
        look_up_estimate(instance, region)
    })
}

fn look_up_estimate(instance: &str, region: &str) -> Option<Estimate> {
    let ec2_in = |region: &str| newest_of_product(EC2, of_region(instance, region));
    let product: Ratio = RATIOS.row(&format!("sagemaker/{}", series(instance)?)).copied()?;
    let (ec2, place) = match ec2_in(region) {
        Some(ec2) => (ec2, Ratio { low: 1.0, mid: 1.0, high: 1.0 }),
        None => (ec2_in(REFERENCE)?, *RATIOS.row(&format!("region/{region}"))?),
    };
    // Hundredths of a cent: an estimate has no more figures than a price.
    let times = |ratio: f64| (ec2.usd_per_hour * ratio * 1e4).round() / 1e4;
    Some(Estimate {
        usd_per_hour: times(product.mid * place.mid),
        low_usd_per_hour: times(product.low * place.low),
        high_usd_per_hour: times(product.high * place.high),
        ec2,
    })
}

/// Returns the letters in front of the generation of an instance type: `p` of `ml.p5en.48xlarge`.
fn series(instance: &str) -> Option<&str> {
    let name = instance.strip_prefix("ml.")?;
    name.split(|letter: char| !letter.is_ascii_lowercase()).next().filter(|series| !series.is_empty())
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
    provenance: Provenance,
}

fn read_storage(key: &str) -> Option<StoragePrice> {
    let row: StoragePriceRow = STORAGE.row(key).cloned()?;
    Some(StoragePrice {
        usd_per_gb_month: row.usd_per_gb_month,
        region: row.region?,
        provenance: row.provenance,
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
    use std::collections::BTreeMap;

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

    /// Rows of the two products count as of the same time up to this number of days apart.
    const CLOSE_DAYS: i64 = 400;

    fn days_apart(one: &Price, other: &Price) -> i64 {
        let day = |price: &Price| trainc_ir::date::epoch_days(&price.provenance.date).unwrap();
        (day(one) - day(other)).abs()
    }

    fn ratio_of(mut all: Vec<f64>) -> Ratio {
        all.sort_by(f64::total_cmp);
        let (low, high) = (all.len().div_ceil(2) - 1, all.len() / 2);
        Ratio { low: all[0], mid: f64::midpoint(all[low], all[high]), high: all[all.len() - 1] }
    }

    /// The stored ratios are those of the rows: every SageMaker price with the EC2 price of the same region
    /// that is closest in time. The range is that of all series.
    #[test]
    fn ratios_are_those_of_the_rows() {
        let rows: Vec<Price> = all().filter(|price| price.region.is_some()).collect();
        let (billed, ec2): (Vec<&Price>, Vec<&Price>) = rows.iter().partition(|row| row.product == SAGEMAKER);
        let pairs: Vec<(&str, f64)> = billed
            .iter()
            .filter_map(|row| {
                let same = ec2.iter().filter(|it| it.instance == row.instance && it.region == row.region);
                let closest = same.min_by_key(|it| days_apart(it, row))?;
                (days_apart(closest, row) <= CLOSE_DAYS)
                    .then(|| (series(&row.instance).unwrap(), row.usd_per_hour / closest.usd_per_hour))
            })
            .collect();
        let range = ratio_of(pairs.iter().map(|(_, ratio)| *ratio).collect());
        let mut expected: BTreeMap<String, Ratio> = BTreeMap::new();
        for (name, _) in &pairs {
            let own = pairs.iter().filter(|(other, _)| other == name).map(|(_, ratio)| *ratio).collect();
            expected.insert(format!("sagemaker/{name}"), Ratio { mid: ratio_of(own).mid, ..range });
        }
        for region in ec2.iter().filter_map(|row| row.region.as_deref()).filter(|region| *region != REFERENCE)
        {
            let newest = |instance: &str, region| newest_of_product(EC2, of_region(instance, region));
            let mut types: Vec<&str> = ec2.iter().map(|row| row.instance.as_str()).collect();
            types.sort_unstable();
            types.dedup();
            let factors: Vec<f64> = types
                .into_iter()
                .filter_map(|name| newest(name, region).zip(newest(name, REFERENCE)))
                .map(|(here, there)| here.usd_per_hour / there.usd_per_hour)
                .collect();
            expected.insert(format!("region/{region}"), ratio_of(factors));
        }
        let stored: BTreeMap<String, Ratio> =
            RATIOS.keys().map(|key| (key.to_owned(), *RATIOS.row(key).unwrap())).collect();
        let keys = |of: &BTreeMap<String, Ratio>| of.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&stored), keys(&expected));
        for (key, is) in expected {
            let has = stored[&key];
            for (has, is) in [(has.low, is.low), (has.mid, is.mid), (has.high, is.high)] {
                assert!((has - is).abs() < 1e-4, "{key}: {has}, but its rows say {is}");
            }
        }
    }

    /// By hand: 113.9328 × 1.15; the range is that of the ratios of all types, 1.146 to 1.4025.
    #[test]
    fn a_type_with_an_ec2_price_alone_has_an_estimate() {
        let rounded = |usd: f64| (usd * 100.0).round() / 100.0;
        let figures = |instance, region| {
            let it = estimate(instance, region).unwrap();
            let of = it.ec2.region.clone().unwrap();
            ([it.low_usd_per_hour, it.usd_per_hour, it.high_usd_per_hour].map(rounded), of)
        };
        let here = ([130.57, 131.02, 159.79], "us-west-2".to_owned());
        assert_eq!(figures("ml.p6-b200.48xlarge", "us-west-2"), here);
        // No EC2 price in Tokyo: that of Virginia × 1.3603 (1.25 to 1.4503).
        let (usd, of) = figures("ml.p6-b200.48xlarge", "ap-northeast-1");
        assert_eq!(of, "us-east-1");
        assert!((usd[1] - 113.9328 * 1.15 * 1.3603).abs() < 0.01, "{usd:?}");
        assert!((usd[0] - 113.9328 * 1.146 * 1.25).abs() < 0.05 && usd[2] > 230.0, "{usd:?}");
        // No EC2 price of these is public: they are sold by capacity blocks and training plans.
        for name in ["ml.p5e.48xlarge", "ml.p6e-gb200.36xlarge", "ml.trn2.48xlarge", "ml.m5.xlarge", "odd"] {
            assert_eq!(estimate(name, "us-east-1"), None, "{name}");
        }
        assert_eq!(estimate("ml.p5en.48xlarge", "cn-north-1"), None);
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
        assert_eq!(newest("ml.p5en.48xlarge", "us-east-2").unwrap().usd_per_hour, 72.795);
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
