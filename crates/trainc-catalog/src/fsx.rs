//! FSx for Lustre: legal combinations of deployment, storage, capacity and throughput.

use serde::Deserialize;

use super::table::Table;
use trainc_ir::hardware::Provenance;

pub(crate) static TABLE: Table = Table::new("fsx", include_str!("data/fsx.toml"));

/// Requirement on a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// The setting is required.
    Required,
    /// The setting is not allowed.
    Forbidden,
}

/// A legal combination of deployment and storage type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegalCombination {
    /// Capacities allowed in addition to the multiples, GiB.
    pub first_gib: Vec<u64>,
    /// (throughput in MB/s/TiB, step in GiB); throughput 0 means any. Empty: StorageCapacity must be absent.
    pub steps_gib: Vec<(u32, u64)>,
    /// Requirement on PerUnitStorageThroughput.
    pub throughput: Presence,
    /// Its values, MB/s/TiB.
    pub throughputs: Vec<u32>,
    /// Fixed disk throughput, MB/s/TiB.
    pub fixed_throughput_mb_s_per_tib: Option<u32>,
    /// (throughput tier, baseline network throughput in MB/s/TiB); tier 0 means any.
    pub network_mb_s_per_tib: Vec<(u32, u32)>,
    /// Network burst, MB/s/TiB.
    pub burst_mb_s_per_tib: Option<u32>,
    /// Disk burst, MB/s/TiB.
    pub disk_burst_mb_s_per_tib: Option<u32>,
    /// ThroughputCapacity in MB/s: (minimum, maximum, step); only for Intelligent-Tiering.
    pub throughput_capacity_mb_s: Option<(u64, u64, u64)>,
    /// True if DataReadCacheConfiguration is required.
    pub read_cache_required: bool,
    /// Values of FileSystemTypeVersion.
    pub versions: Vec<String>,
    /// True if data repository associations are supported (from version 2.12 on).
    pub associations: bool,
    /// Versions that support data repository associations.
    pub association_versions: Vec<String>,
    /// True if KmsKeyId is supported.
    pub kms_key: bool,
    /// True if MetadataConfiguration is supported.
    pub metadata: bool,
    /// Versions that support a metadata configuration.
    pub metadata_versions: Vec<String>,
    /// Provisioned metadata operations per second allowed in addition to the multiples.
    pub metadata_iops: Vec<u64>,
    /// Step of the provisioned metadata operations per second.
    pub metadata_step_iops: Option<u64>,
    /// True if MetadataConfiguration is required.
    pub metadata_required: bool,
    /// Requirement on DriveCacheType.
    pub drive_cache: Presence,
    /// Values of DriveCacheType.
    pub drive_caches: Vec<String>,
    /// True if StorageCapacity can be increased later.
    pub grows: bool,
    /// True if it is the default of the API.
    pub api_default: bool,
    /// A note.
    pub note: Option<String>,
    /// The source of the row.
    pub provenance: Provenance,
}

#[derive(Clone, Deserialize)]
struct FsxRow {
    first_gib: Vec<u64>,
    steps_gib: Vec<(u32, u64)>,
    throughput: Presence,
    throughputs: Vec<u32>,
    fixed_throughput_mb_s_per_tib: Option<u32>,
    network_mb_s_per_tib: Vec<(u32, u32)>,
    burst_mb_s_per_tib: Option<u32>,
    disk_burst_mb_s_per_tib: Option<u32>,
    throughput_capacity_mb_s: Option<(u64, u64, u64)>,
    #[serde(default)]
    read_cache_required: bool,
    versions: Vec<String>,
    associations: bool,
    #[serde(default)]
    association_versions: Vec<String>,
    kms_key: bool,
    metadata: bool,
    #[serde(default)]
    metadata_versions: Vec<String>,
    #[serde(default)]
    metadata_iops: Vec<u64>,
    metadata_step_iops: Option<u64>,
    #[serde(default)]
    metadata_required: bool,
    drive_cache: Presence,
    #[serde(default)]
    drive_caches: Vec<String>,
    grows: bool,
    api_default: bool,
    note: Option<String>,
    #[serde(flatten)]
    provenance: Provenance,
}

/// Returns the legal settings of a pair: `legal("PERSISTENT_2", "SSD")`; `None` for a pair that the service
/// rejects.
pub fn legal(deployment: &str, storage: &str) -> Option<LegalCombination> {
    read(&format!("{deployment}/{storage}"))
}

/// Returns the legal settings with `EfaEnabled`, which only PERSISTENT_2 on SSD supports.
pub fn legal_with_efa(deployment: &str, storage: &str) -> Option<LegalCombination> {
    read(&format!("{deployment}/{storage}/EFA"))
}

/// Returns the legal settings with or without `EfaEnabled`.
pub fn legal_with(deployment: &str, storage: &str, efa: bool) -> Option<LegalCombination> {
    if efa { legal_with_efa(deployment, storage) } else { legal(deployment, storage) }
}

/// Returns all pairs of deployment and storage type, in the order of the file, without the EFA row.
pub fn pairs() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.keys().filter_map(|key| key.split_once('/')).filter(|(_, storage)| !storage.contains('/'))
}

fn read(key: &str) -> Option<LegalCombination> {
    let row: FsxRow = TABLE.row(key).cloned()?;
    Some(LegalCombination {
        first_gib: row.first_gib,
        steps_gib: row.steps_gib,
        throughput: row.throughput,
        throughputs: row.throughputs,
        fixed_throughput_mb_s_per_tib: row.fixed_throughput_mb_s_per_tib,
        network_mb_s_per_tib: row.network_mb_s_per_tib,
        burst_mb_s_per_tib: row.burst_mb_s_per_tib,
        disk_burst_mb_s_per_tib: row.disk_burst_mb_s_per_tib,
        throughput_capacity_mb_s: row.throughput_capacity_mb_s,
        read_cache_required: row.read_cache_required,
        versions: row.versions,
        associations: row.associations,
        association_versions: row.association_versions,
        kms_key: row.kms_key,
        metadata: row.metadata,
        metadata_versions: row.metadata_versions,
        metadata_iops: row.metadata_iops,
        metadata_step_iops: row.metadata_step_iops,
        metadata_required: row.metadata_required,
        drive_cache: row.drive_cache,
        drive_caches: row.drive_caches,
        grows: row.grows,
        api_default: row.api_default,
        note: row.note,
        provenance: row.provenance,
    })
}

impl LegalCombination {
    /// Returns the step of the capacity in GiB at a throughput; `None` if StorageCapacity must be absent or
    /// the throughput is invalid.
    pub fn step_gib(&self, throughput_mb_s_per_tib: Option<u32>) -> Option<u64> {
        let tier = throughput_mb_s_per_tib.unwrap_or(0);
        let step = self.steps_gib.iter().find(|(of, _)| *of == 0 || *of == tier);
        step.map(|(_, step)| *step)
    }

    /// Returns true if the service accepts the capacity at that throughput.
    pub fn takes_gib(&self, capacity_gib: u64, throughput_mb_s_per_tib: Option<u32>) -> bool {
        let Some(step) = self.step_gib(throughput_mb_s_per_tib) else {
            return false;
        };
        capacity_gib > 0 && (self.first_gib.contains(&capacity_gib) || capacity_gib.is_multiple_of(step))
    }

    /// Returns the smallest legal capacity of at least `wanted_gib`.
    pub fn round_up_gib(&self, wanted_gib: u64, throughput_mb_s_per_tib: Option<u32>) -> Option<u64> {
        let step = self.step_gib(throughput_mb_s_per_tib)?;
        let multiple = wanted_gib.max(1).next_multiple_of(step);
        let first = self.first_gib.iter().copied().filter(|first| *first >= wanted_gib).min();
        Some(first.map_or(multiple, |first| first.min(multiple)))
    }

    /// Returns the largest legal capacity of at most `wanted_gib`.
    pub fn round_down_gib(&self, wanted_gib: u64, throughput_mb_s_per_tib: Option<u32>) -> Option<u64> {
        let step = self.step_gib(throughput_mb_s_per_tib)?;
        let multiple = wanted_gib - wanted_gib % step;
        let first = self.first_gib.iter().copied().filter(|first| *first <= wanted_gib).max();
        first.into_iter().chain((multiple > 0).then_some(multiple)).max()
    }

    /// Returns true if this number of metadata operations per second can be provisioned, up to the documented
    /// maximum.
    pub fn takes_metadata_iops(&self, iops: u64, most: u64) -> bool {
        iops > 0
            && iops <= most
            && (self.metadata_iops.contains(&iops)
                || self.metadata_step_iops.is_some_and(|step| iops.is_multiple_of(step)))
    }

    /// Returns the baseline network throughput at a tier, MB/s per TiB.
    pub fn network_baseline_mb_s_per_tib(&self, throughput_mb_s_per_tib: Option<u32>) -> Option<u32> {
        let tier = throughput_mb_s_per_tib.unwrap_or(0);
        let found = self.network_mb_s_per_tib.iter().find(|(of, _)| *of == 0 || *of == tier);
        found.map(|(_, baseline)| *baseline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shapes;

    #[track_caller]
    fn check(pair: (&str, &str), tier: Option<u32>, takes: &[u64], refuses: &[u64]) {
        let legal = legal(pair.0, pair.1).unwrap();
        for capacity in takes {
            assert!(legal.takes_gib(*capacity, tier), "{capacity}");
            assert_eq!(legal.round_up_gib(*capacity, tier), Some(*capacity));
        }
        for capacity in refuses {
            assert!(!legal.takes_gib(*capacity, tier), "{capacity}");
            let up = legal.round_up_gib(*capacity, tier).unwrap();
            assert!(up > *capacity && legal.takes_gib(up, tier), "{capacity} -> {up}");
        }
    }

    #[test]
    fn capacities_follow_the_documentation() {
        check(("SCRATCH_1", "SSD"), None, &[1200, 2400, 3600, 7200], &[0, 1000, 4800, 3601]);
        check(("SCRATCH_2", "SSD"), None, &[1200, 2400, 4800], &[0, 3600, 500]);
        check(("PERSISTENT_1", "HDD"), Some(12), &[6000, 12000], &[1200, 1800]);
        check(("PERSISTENT_1", "HDD"), Some(40), &[1800, 3600], &[1200, 2400]);
        check(("PERSISTENT_2", "SSD"), Some(250), &[1200, 2400, 12000], &[1199, 3600, 12001]);
        let efa = legal_with_efa("PERSISTENT_2", "SSD").unwrap();
        assert_eq!((efa.round_up_gib(1200, Some(250)), efa.metadata_required), (Some(19200), true));
        assert_eq!(legal_with_efa("PERSISTENT_1", "SSD"), None);
        let tiering = legal("PERSISTENT_2", "INTELLIGENT_TIERING").unwrap();
        assert_eq!((tiering.round_up_gib(1200, None), tiering.takes_gib(1200, None)), (None, false));
        assert_eq!(tiering.throughput_capacity_mb_s, Some((4000, 2_000_000, 4000)));
    }

    #[test]
    fn the_nearest_capacities_are_legal() {
        let scratch = legal("SCRATCH_1", "SSD").unwrap();
        assert_eq!(scratch.round_down_gib(4000, None), Some(3600));
        assert_eq!(scratch.round_up_gib(4000, None), Some(7200));
        let persistent = legal("PERSISTENT_2", "SSD").unwrap();
        assert_eq!(persistent.round_down_gib(4000, Some(250)), Some(2400));
        assert_eq!(persistent.round_down_gib(1199, Some(250)), None);
        assert!(persistent.takes_metadata_iops(24_000, 192_000));
        assert!(!persistent.takes_metadata_iops(9_000, 192_000));
        assert!(!persistent.takes_metadata_iops(204_000, 192_000));
    }

    #[test]
    fn pairs_are_of_the_service_and_one_is_its_default() {
        let (deployments, storages) =
            (shapes::enum_values("fsx.LustreDeploymentType"), shapes::enum_values("fsx.StorageType"));
        assert_eq!(pairs().count(), 6);
        for (deployment, storage) in pairs() {
            assert!(deployments.iter().any(|known| known == deployment), "{deployment}");
            assert!(storages.iter().any(|known| known == storage), "{storage}");
            let legal = legal(deployment, storage).unwrap();
            assert_eq!(legal.api_default, deployment == "SCRATCH_1");
            assert_eq!(legal.throughput == Presence::Required, !legal.throughputs.is_empty());
            for tier in &legal.throughputs {
                assert!(legal.step_gib(Some(*tier)).is_some());
                let bounds = shapes::member_at_path(
                    "CreateFileSystem",
                    "LustreConfiguration.PerUnitStorageThroughput",
                )
                .unwrap();
                let tier = f64::from(*tier);
                assert!(bounds.min.is_none_or(|min| tier >= min) && bounds.max.is_none_or(|max| tier <= max));
            }
        }
        assert_eq!(legal("SCRATCH_2", "HDD"), None);
        let network = |tier| legal("PERSISTENT_2", "SSD").unwrap().network_baseline_mb_s_per_tib(tier);
        assert_eq!((network(Some(250)), network(Some(251)), network(None)), (Some(640), None, None));
    }
}
