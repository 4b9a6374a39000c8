//! Listings for `trainc catalog`: headers and text rows for display, and JSON for tools.

use serde_json::{Value, json};

use super::{
    accelerators, fsx, generic_listing, images, instances, limits, prices, quotas, regions, support,
};
use trainc_ir::hardware::{Accelerator, Instance, Provenance};
use trainc_ir::price::describe_age;
use trainc_ir::units::GIB;

/// A table without colour or width.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    /// Column headers, including units.
    pub headers: Vec<&'static str>,
    /// Cells; an unknown figure is `-`.
    pub rows: Vec<Vec<String>>,
    /// An array with one object per row, with all of its facts.
    pub json: Value,
    /// Number of leading columns that a short listing shows; the others are for `-v`.
    pub brief: usize,
}

impl Listing {
    /// Removes the columns that only a long listing shows.
    pub fn shorten(&mut self) {
        self.headers.truncate(self.brief);
        self.rows.iter_mut().for_each(|row| row.truncate(self.brief));
    }

    /// Adds the missing columns `source` and `date`; `-` for a row without them.
    pub fn add_sources(&mut self) {
        let Value::Array(items) = &self.json else { return };
        for member in ["source", "date"] {
            let of = |item: &Value| -> Option<String> {
                let said = item.get(member).or_else(|| item.get("provenance")?.get(member))?;
                Some(said.as_str()?.to_owned())
            };
            if self.headers.contains(&member) || !items.iter().any(|item| of(item).is_some()) {
                continue;
            }
            self.headers.push(member);
            for (row, item) in self.rows.iter_mut().zip(items) {
                row.push(of(item).unwrap_or_else(|| "-".to_owned()));
            }
        }
    }

    /// Adds an object `provenance` to objects with their own `source` and `date`.
    pub fn add_provenance(&mut self) {
        let Value::Array(items) = &mut self.json else { return };
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            let source = item.get("source").filter(|source| source.is_string()).cloned();
            if let (Some(source), false) = (source, item.contains_key("provenance")) {
                let date = item.get("date").cloned().unwrap_or_default();
                item.insert("provenance".to_owned(), json!({ "source": source, "date": date }));
            }
        }
    }

    fn from_items<T>(
        headers: &[&'static str],
        items: impl Iterator<Item = T>,
        row: impl Fn(&T) -> (Vec<String>, Value),
    ) -> Self {
        let (rows, json): (Vec<_>, Vec<_>) = items.map(|item| row(&item)).unzip();
        Self { headers: headers.to_vec(), rows, json: Value::Array(json), brief: usize::MAX }
    }
}

/// The names of the specific listings.
pub const NAMES: [&str; 9] =
    ["accelerators", "fsx", "images", "instances", "limits", "prices", "quotas", "regions", "support"];

/// Returns a listing by name with all rows, and the age of old prices if today's date (days since 1970) is
/// given; tables without a specific one use the [generic](generic_listing::listing) one.
pub fn by_table_name(name: &str, today: Option<i64>) -> Option<Listing> {
    Some(match name {
        "accelerators" => accelerators_listing(),
        "fsx" => fsx_listing(),
        "images" => images_listing(None),
        "instances" => instances_listing(None, today),
        "limits" => limits_listing(),
        "prices" => prices_listing(today),
        "quotas" => quotas_listing(),
        "regions" => regions_listing(),
        "support" => support_listing(),
        _ => return generic_listing::listing(name),
    })
}

fn cell<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn yes(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

fn gib(bytes: Option<u64>) -> String {
    cell(bytes.map(|bytes| {
        let tenths = (bytes as f64 / GIB as f64 * 10.0).round() / 10.0;
        tenths.to_string()
    }))
}

fn provenance_json(provenance: &Provenance) -> Value {
    json!({"source": provenance.source, "date": provenance.date})
}

fn accelerator_json(row: &Accelerator) -> Value {
    json!({
        "name": row.name, "product": row.product, "vendor": row.vendor, "kind": row.kind.word(),
        "architecture": row.architecture, "compute_capability": row.compute_capability.map(|(major, minor)| format!("{major}.{minor}")),
        "memory_bytes": row.memory_bytes, "usable_bytes": row.usable_bytes, "peak_bf16_tflops": row.peak_bf16_tflops, "peak_fp16_tflops": row.peak_fp16_tflops,
        "memory_bandwidth_gb_s": row.memory_bandwidth_gb_s, "nvlink_gb_s": row.nvlink_gb_s, "bf16": row.bf16,
        "note": row.note, "provenance": provenance_json(&row.provenance),
    })
}

/// Returns the accelerators.
pub fn accelerators_listing() -> Listing {
    let headers =
        ["name", "architecture", "memory GiB", "bf16 TFLOP/s", "fp16 TFLOP/s", "memory GB/s", "NVLink GB/s"];
    Listing::from_items(&headers, accelerators::all(), |row| {
        let cells = vec![
            row.name.clone(),
            row.architecture.clone(),
            gib(row.memory_bytes),
            cell(row.peak_bf16_tflops),
            cell(row.peak_fp16_tflops),
            cell(row.memory_bandwidth_gb_s),
            cell(row.nvlink_gb_s),
        ];
        (cells, accelerator_json(row))
    })
}

fn instance_json(row: &Instance) -> Value {
    json!({
        "name": row.name, "accelerators": row.accelerators, "accelerator": row.accelerator.name,
        "accelerator_memory_bytes": row.accelerator.memory_bytes, "vcpus": row.vcpus, "host_memory_bytes": row.host_memory_bytes,
        "network_gbps": row.network_gbps, "efa": row.efa, "efa_interfaces": row.efa_interfaces, "nvme_total_gb": row.nvme_total_gb,
        "ebs_volume_ignored": row.ebs_volume_ignored, "smddp_v1": row.smddp_v1, "smddp_v2": row.smddp_v2, "smp_v1": row.smp_v1,
        "ec2_offering_regions": row.ec2_offering_regions, "retired": row.retired, "note": row.note, "provenance": provenance_json(&row.provenance),
    })
}

/// Generations that a class of instance types is ahead of class `p` of the same years, as AWS numbers them.
const AHEAD: [(&str, i64); 3] = [("p", 0), ("g", 1), ("trn", -3)];

/// Returns a key that sorts instance types: those in service first, then newer generations, classes and
/// families, then smaller sizes.
fn instance_order(row: &Instance) -> impl Ord + use<> {
    let family = row.name.split('.').nth(1).unwrap_or(&row.name).to_owned();
    let (class, rest) = family.split_at(family.find(|c: char| c.is_ascii_digit()).unwrap_or(family.len()));
    let number: i64 = rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0);
    let place = AHEAD.iter().position(|(name, _)| *name == class);
    let ahead = place.and_then(|at| AHEAD.get(at)).map_or(0, |(_, ahead)| *ahead);
    let order = (row.retired.is_some(), std::cmp::Reverse(number - ahead), place);
    (order, std::cmp::Reverse(family), row.accelerators, row.vcpus)
}

/// Returns the price to list for an instance type: that of the region, or the newest. Of several with the
/// same date it is that of the first of the regions where most types are offered.
fn listed_price(name: &str, region: Option<&str>) -> Option<prices::Price> {
    if let Some(region) = region {
        return prices::newest(name, region);
    }
    let newest = prices::newest_anywhere(name)?;
    let usual = ["us-east-1", "us-west-2"].into_iter().filter_map(|region| prices::newest(name, region));
    let mut as_new = usual.filter(|price| price.provenance.date == newest.provenance.date);
    Some(as_new.next().unwrap_or(newest))
}

/// Returns the instance types with accelerators, newest first; with a region, those that it offers or that
/// have a price in it. Today, in days since 1970, gives the age of old prices.
pub fn instances_listing(region: Option<&str>, today: Option<i64>) -> Listing {
    let headers = [
        "name",
        "accelerators",
        "GiB each",
        "USD/hour",
        "region",
        "price of",
        "vCPUs",
        "host GiB",
        "network Gbit/s",
        "EFA",
        "NVMe GB",
        "retired",
    ];
    let is_wanted = |row: &Instance| {
        region.is_none_or(|region| {
            row.ec2_offering_regions.iter().any(|known| known == region)
                || prices::newest(&row.name, region).is_some()
        })
    };
    let mut wanted: Vec<Instance> = instances::all().filter(is_wanted).collect();
    wanted.sort_by_cached_key(instance_order);
    Listing {
        brief: 6,
        ..Listing::from_items(&headers, wanted.into_iter(), |row| {
            let memory = gib(row.accelerator.memory_bytes);
            // The name of an accelerator ends with its memory, which has its own column.
            let chip = row.accelerator.name.rsplit_once('-').filter(|(_, end)| end.ends_with("GB"));
            let chip = chip.map_or(row.accelerator.name.as_str(), |(chip, _)| chip);
            let price = listed_price(&row.name, region).filter(|_| row.retired.is_none());
            let place = price.as_ref().and_then(|price| price.region.clone());
            let estimate = (price.is_none() && row.retired.is_none())
                .then(|| prices::estimate(&row.name, region.unwrap_or(prices::REFERENCE)))
                .flatten();
            let usd = price.as_ref().map(|price| price.usd_per_hour);
            let usd = usd.or(estimate.as_ref().map(|it| it.usd_per_hour));
            let place = place
                .or(estimate.as_ref().and_then(|it| region.map(str::to_owned).or(it.ec2.region.clone())));
            let date = price.as_ref().map(|price| marked(&price.provenance.date, today));
            let cells = vec![
                row.name.clone(),
                format!("{} x {chip}", row.accelerators),
                memory,
                // Hundredths of a cent are enough to compare by.
                cell(usd.map(|usd| (usd * 1e4).round() / 1e4)),
                if row.retired.is_some() { "retired".to_owned() } else { cell(place) },
                cell(date.or(estimate.as_ref().map(|_| "estimate".to_owned()))),
                cell(row.vcpus),
                gib(row.host_memory_bytes),
                cell(row.network_gbps),
                cell(row.efa_interfaces),
                cell(row.nvme_total_gb),
                yes(row.retired.is_some()),
            ];
            let mut json = instance_json(row);
            if let Some(members) = json.as_object_mut() {
                let price = price.map(|price| {
                    json!({"usd_per_hour": price.usd_per_hour, "region": price.region, "date": price.provenance.date,
                        "source": price.provenance.source})
                });
                members.insert("price".to_owned(), json!(price));
                if let Some(it) = estimate {
                    let value = json!({
                        "usd_per_hour": it.usd_per_hour, "low_usd_per_hour": it.low_usd_per_hour,
                        "high_usd_per_hour": it.high_usd_per_hour, "ec2_usd_per_hour": it.ec2.usd_per_hour,
                        "region": it.ec2.region, "date": it.ec2.provenance.date, "source": it.ec2.provenance.source,
                    });
                    members.insert("estimate".to_owned(), value);
                }
            }
            (cells, json)
        })
    }
}

/// Returns the images, all or those of one region.
pub fn images_listing(region: Option<&str>) -> Listing {
    let headers = [
        "family",
        "PyTorch",
        "transformers",
        "CUDA",
        "Python",
        "repository",
        "processors",
        "end of patch",
        "SDK",
    ];
    let wanted = images::all()
        .filter(|row| region.is_none_or(|region| row.regions.iter().any(|known| known == region)));
    Listing::from_items(&headers, wanted, |row| {
        let cells = vec![
            row.family.as_str().to_owned(),
            row.pytorch.clone(),
            cell(row.transformers.as_ref()),
            cell(row.cuda.as_ref()),
            row.python.join(" "),
            row.repository.clone(),
            row.processors.join(" "),
            cell(row.patch_window.as_ref().map(|(_, end)| end)),
            row.sdk.join(" "),
        ];
        let json = json!({
            "family": row.family.as_str(), "pytorch": row.pytorch, "transformers": row.transformers, "cuda": row.cuda, "python": row.python,
            "repository": row.repository, "processors": row.processors, "patch_window": row.patch_window, "full_tag": row.full_tag,
            "sdk": row.sdk, "regions": row.regions, "provenance": provenance_json(&row.provenance),
        });
        (cells, json)
    })
}

/// Follows the date of a price that is older than 90 days.
pub const OLD: &str = "*";

/// Returns the date of a price, with a mark if it is old: there is no room for its age in 80 columns.
fn marked(date: &str, today: Option<i64>) -> String {
    let mark = if describe_age(Some(date), today).is_empty() { "" } else { OLD };
    format!("{date}{mark}")
}

/// Returns the instance prices, including unclear ones.
pub fn prices_listing(today: Option<i64>) -> Listing {
    let headers = ["instance", "USD per hour", "region", "date", "product"];
    Listing::from_items(&headers, prices::all(), |row| {
        let cells = vec![
            row.instance.clone(),
            row.usd_per_hour.to_string(),
            cell(row.region.as_deref().or(row.region_words.as_ref().map(|_| "not stated"))),
            {
                let date = row.date_words.as_ref().unwrap_or(&row.provenance.date);
                format!("{date}{}", describe_age(Some(date), today))
            },
            row.product.clone(),
        ];
        let json = json!({
            "instance": row.instance, "usd_per_hour": row.usd_per_hour, "region": row.region, "region_words": row.region_words,
            "date_words": row.date_words, "product": row.product, "provenance": provenance_json(&row.provenance),
        });
        (cells, json)
    })
}

/// Returns the regions.
pub fn regions_listing() -> Listing {
    let headers = ["region", "partition", "DNS suffix", "IAM region", "place"];
    Listing::from_items(&headers, regions::all(), |row| {
        let cells = vec![
            row.name.clone(),
            row.partition.clone(),
            row.dns_suffix.clone(),
            row.iam_region.clone(),
            cell(row.place.as_ref()),
        ];
        let json = json!({
            "region": row.name, "partition": row.partition, "dns_suffix": row.dns_suffix, "iam_region": row.iam_region,
            "service_principal": row.service_principal, "place": row.place, "provenance": provenance_json(&row.provenance),
        });
        (cells, json)
    })
}

/// Returns account-wide quotas, then those of each instance type.
pub fn quotas_listing() -> Listing {
    let headers = ["key", "name", "code", "new account", "unit"];
    let general = quotas::general_keys().filter_map(|key| Some((key.to_owned(), quotas::general(key)?)));
    let rows = general.chain(quotas::of_instances());
    Listing::from_items(&headers, rows, |(key, row)| {
        let cells =
            vec![key.clone(), row.name.clone(), cell(row.code.as_ref()), cell(row.default), row.unit.clone()];
        let json = json!({
            "key": key, "service": row.service, "name": row.name, "code": row.code, "default": row.default, "unit": row.unit,
            "provenance": provenance_json(&row.provenance),
        });
        (cells, json)
    })
}

/// Returns the PyTorch versions, library versions and instance types that each engine supports.
pub fn support_listing() -> Listing {
    let headers = ["engine", "PyTorch", "library", "instances", "archived", "note", "source", "date"];
    Listing::from_items(&headers, support::all(), |row| {
        let or_dash = |words: &[String]| if words.is_empty() { "-".to_owned() } else { words.join(" ") };
        let cells = vec![
            row.engine.clone(),
            or_dash(&row.support.pytorch_versions),
            cell(row.library.as_ref()),
            or_dash(&row.support.instances),
            cell(row.support.archived.as_ref()),
            cell(row.support.note.as_ref()),
            row.support.provenance.source.clone(),
            row.support.provenance.date.clone(),
        ];
        let json = json!({
            "engine": row.engine, "pytorch_versions": row.support.pytorch_versions, "library": row.library,
            "instances": row.support.instances, "archived": row.support.archived, "note": row.support.note,
            "refused_in_image_uri": row.support.refused_in_image_uri,
            "provenance": provenance_json(&row.support.provenance),
        });
        (cells, json)
    })
}

/// Returns the documented limits.
pub fn limits_listing() -> Listing {
    let rows = limits::keys().filter_map(|key| Some((key, limits::get(key)?)));
    Listing::from_items(&["key", "limit", "unit", "of", "not checked"], rows, |(key, row)| {
        let cells = vec![
            (*key).to_owned(),
            row.value.to_string(),
            row.unit.clone(),
            row.statement.clone(),
            yes(row.recalled),
        ];
        let json = json!({
            "key": key, "value": row.value, "unit": row.unit, "statement": row.statement, "recalled": row.recalled,
            "provenance": provenance_json(&row.provenance),
        });
        (cells, json)
    })
}

/// Returns the combinations of FSx for Lustre.
pub fn fsx_listing() -> Listing {
    let headers = ["deployment", "storage", "EFA", "capacities GiB", "throughputs MB/s/TiB", "associations"];
    let rows = fsx::pairs().flat_map(|(deployment, storage)| {
        let plain = fsx::legal(deployment, storage).map(|row| (false, row));
        let efa = fsx::legal_with_efa(deployment, storage).map(|row| (true, row));
        plain.into_iter().chain(efa).map(move |(efa, row)| (deployment, storage, efa, row))
    });
    Listing::from_items(&headers, rows, |(deployment, storage, efa, row)| {
        let mut capacities: Vec<String> = row.first_gib.iter().map(u64::to_string).collect();
        capacities.extend(row.steps_gib.iter().map(|(tier, step)| match tier {
            0 => format!("n x {step}"),
            tier => format!("n x {step} at {tier}"),
        }));
        let throughputs: Vec<String> = row.throughputs.iter().map(u32::to_string).collect();
        let cells = vec![
            (*deployment).to_owned(),
            (*storage).to_owned(),
            yes(*efa),
            capacities.join(", "),
            throughputs.join(", "),
            yes(row.associations),
        ];
        let json = json!({
            "deployment": deployment, "storage": storage, "efa": efa, "first_gib": row.first_gib, "steps_gib": row.steps_gib,
            "throughputs_mb_s_per_tib": row.throughputs, "versions": row.versions, "associations": row.associations,
            "note": row.note, "provenance": provenance_json(&row.provenance),
        });
        (cells, json)
    })
}

/// The size of a table and the dates of its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSummary {
    /// The table.
    pub name: String,
    /// The number of rows.
    pub rows: usize,
    /// The dates of the oldest and of the newest row, `YYYY-MM-DD`, if the rows have dates.
    pub dates: Option<(String, String)>,
}

impl TableSummary {
    /// Summarises a listing.
    pub fn new(name: &str, listing: &Listing) -> Self {
        let items = listing.json.as_array().map(Vec::as_slice).unwrap_or_default();
        let dates = items.iter().filter_map(|item| {
            item.get("date").or_else(|| item.get("provenance")?.get("date"))?.as_str().map(str::to_owned)
        });
        let dates: Vec<String> = dates.collect();
        let ends = dates.iter().min().cloned().zip(dates.iter().max().cloned());
        Self { name: name.to_owned(), rows: listing.rows.len(), dates: ends }
    }
}

/// Returns the summaries of the tables of this crate.
pub fn table_summaries() -> Vec<TableSummary> {
    generic_listing::names()
        .filter_map(|name| Some(TableSummary::new(name, &by_table_name(name, None)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listing_is_a_full_table_with_sources() {
        for name in NAMES {
            let mut listing = by_table_name(name, None).unwrap();
            listing.add_sources();
            assert!(!listing.rows.is_empty(), "{name}");
            let said =
                ["source", "date"].map(|head| listing.headers.iter().position(|one| *one == head).unwrap());
            let json = listing.json.as_array().unwrap();
            assert_eq!(json.len(), listing.rows.len(), "{name}");
            for (row, json) in listing.rows.iter().zip(json) {
                assert_eq!(row.len(), listing.headers.len(), "{name}");
                assert!(said.iter().all(|at| row[*at].len() > 3), "{name}: {row:?}");
                assert!(
                    json["provenance"]["source"].is_string() && json["provenance"]["date"].is_string(),
                    "{name}"
                );
            }
        }
        assert_eq!(by_table_name("nothing", None), None);
    }

    #[test]
    fn tables_are_counted_as_they_are_listed() {
        let tables = table_summaries();
        assert!(tables.len() > 10);
        for table in tables {
            assert_eq!(table.rows, by_table_name(&table.name, None).unwrap().rows.len(), "{table:?}");
            let (oldest, newest) = table.dates.unwrap_or_else(|| panic!("{}", table.name));
            assert!(oldest <= newest && newest.as_str() <= crate::VERSION, "{}: {newest}", table.name);
        }
        let prices = table_summaries().into_iter().find(|table| table.name == "prices").unwrap();
        assert_eq!(prices.dates, Some(("2021-11-27".to_owned(), "2026-09-27".to_owned())));
        // Listings must include all rows of the file.
        for (name, rows) in crate::tables() {
            assert!(by_table_name(name, None).unwrap().rows.len() >= rows, "{name}");
        }
    }

    #[test]
    fn an_engine_is_listed_with_its_versions_libraries_and_instances() {
        let listing = support_listing();
        let rows = |engine: &str, pytorch: &str| {
            let found: Vec<_> =
                listing.rows.iter().filter(|row| row[0] == engine && row[1] == pytorch).cloned().collect();
            assert_eq!(found.len(), 1, "{engine} {pytorch}");
            found.into_iter().flatten().collect::<Vec<String>>()
        };
        let row = rows("smp-v1", "1.13.1");
        assert_eq!(row[2], "1.15");
        assert!(row[3].contains("ml.p4d.24xlarge") && !row[3].contains("ml.g5.xlarge"), "{}", row[3]);
        assert_eq!(rows("smddp-v2", "2.4.1")[2], "2.5.0");
        let quotas = quotas_listing().rows;
        assert!(quotas.iter().any(|row| row[2] == "L-09B4A649" && row[3] == "0"));
    }

    #[test]
    fn cells_carry_units_and_gaps() {
        let listing = instances_listing(None, None);
        let price = |name: &str| {
            let price = prices::newest_anywhere(name).unwrap();
            let date = &price.provenance.date;
            let regions = ["us-east-1", "us-west-2"].map(|region| prices::newest(name, region));
            let usual = regions.into_iter().flatten().find(|one| one.provenance.date == *date);
            let price = usual.unwrap_or(price);
            format!(
                "{} | {} | {}",
                (price.usd_per_hour * 1e4).round() / 1e4,
                price.region.unwrap(),
                price.provenance.date
            )
        };
        let row = |name: &str| listing.rows.iter().find(|row| row[0] == name).unwrap().join(" | ");
        assert_eq!(
            row("ml.p4d.24xlarge"),
            format!(
                "ml.p4d.24xlarge | 8 x A100-SXM4 | 40 | {} | 96 | 1152 | 400 | 4 | 8000 | no",
                price("ml.p4d.24xlarge")
            )
        );
        assert_eq!(
            row("ml.p6e-gb200.36xlarge"),
            "ml.p6e-gb200.36xlarge | 4 x GB200 | 185 | - | - | - | 144 | 960 | 1600 | - | 22500 | no"
        );
        assert_eq!(
            row("ml.g5.xlarge"),
            format!(
                "ml.g5.xlarge | 1 x A10G | 22.4 | {} | 4 | 16 | 10 | - | 250 | no",
                price("ml.g5.xlarge")
            )
        );
        let later = trainc_ir::date::epoch_days(
            &prices::newest("ml.p4d.24xlarge", "us-west-2").unwrap().provenance.date,
        )
        .map(|day| day + 100);
        let aged = instances_listing(Some("us-west-2"), later).rows;
        let aged = aged.iter().find(|row| row[0] == "ml.p4d.24xlarge").unwrap();
        assert_eq!(aged[5], format!("{}*", trainc_ir::date::iso_date(later.unwrap() - 100)));
        // Newest first, retired last, small sizes before large ones.
        let place = |name: &str| listing.rows.iter().position(|row| row[0] == name).unwrap();
        for pair in [
            ["ml.p6e-gb200.36xlarge", "ml.p5en.48xlarge"],
            ["ml.g7e.2xlarge", "ml.p5.48xlarge"],
            ["ml.g6.xlarge", "ml.p4d.24xlarge"],
            ["ml.g5.xlarge", "ml.g5.48xlarge"],
            ["ml.g4dn.xlarge", "ml.p2.xlarge"],
        ] {
            assert!(place(pair[0]) < place(pair[1]), "{pair:?}");
        }
        let west = instances_listing(Some("us-west-2"), None);
        assert!(west.rows.iter().all(|row| ["us-west-2", "-", "retired"].contains(&row[4].as_str())));
        assert!(west.rows.len() < listing.rows.len() && west.rows.iter().any(|row| row[3] != "-"));
        let all = images_listing(None).rows.len();
        let gov = images_listing(Some("us-gov-west-1")).rows.len();
        assert!(0 < gov && gov < all);
    }
}
