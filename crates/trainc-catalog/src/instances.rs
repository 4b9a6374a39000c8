//! SageMaker training instance types.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde::Deserialize;

use super::accelerators;
use super::shapes;
use super::table::Table;
use trainc_ir::hardware::{CpuArchitecture, Instance, Provenance};

pub(crate) static TABLE: Table = Table::new("instances", include_str!("data/instances.toml"));

#[derive(Clone, Deserialize)]
struct InstanceRow {
    accelerators: u32,
    accelerator: String,
    #[serde(default)]
    cpu: CpuArchitecture,
    vcpus: Option<u32>,
    host_memory_gib: Option<u64>,
    network_gbps: Option<f64>,
    efa: Option<bool>,
    efa_interfaces: Option<u32>,
    nvme_total_gb: Option<u64>,
    #[serde(default)]
    nvme_disks: Vec<(u32, u64)>,
    ebs_volume_ignored: bool,
    in_sagemaker_enum: bool,
    smddp_v1: bool,
    smddp_v2: bool,
    smp_v1: bool,
    toolkit_sets_nccl_efa_env: bool,
    toolkit_sets_efa_rdma_env: bool,
    #[serde(default)]
    ultra_server: bool,
    ec2_offering_regions: Vec<String>,
    retired: Option<String>,
    note: Option<String>,
    #[serde(flatten)]
    provenance: Provenance,
}

/// Returns the instance type with accelerators by name: `ml.p4d.24xlarge`.
pub fn get(name: &str) -> Option<Instance> {
    let row: InstanceRow = TABLE.row(name).cloned()?;
    Some(Instance {
        name: name.to_owned(),
        accelerators: row.accelerators,
        accelerator: accelerators::get(&row.accelerator)?,
        cpu: row.cpu,
        vcpus: row.vcpus,
        host_memory_bytes: row.host_memory_gib.map(|gib| gib << 30),
        network_gbps: row.network_gbps,
        efa: row.efa,
        efa_interfaces: row.efa_interfaces,
        nvme_total_gb: row.nvme_total_gb,
        nvme_disks: row.nvme_disks,
        ebs_volume_ignored: row.ebs_volume_ignored,
        in_sagemaker_enum: row.in_sagemaker_enum,
        smddp_v1: row.smddp_v1,
        smddp_v2: row.smddp_v2,
        smp_v1: row.smp_v1,
        toolkit_sets_nccl_efa_env: row.toolkit_sets_nccl_efa_env,
        toolkit_sets_efa_rdma_env: row.toolkit_sets_efa_rdma_env,
        ultra_server: row.ultra_server,
        ec2_offering_regions: row.ec2_offering_regions,
        retired: row.retired,
        note: row.note,
        provenance: row.provenance,
    })
}

/// Returns the names of the types with accelerators, in the order of the file.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.keys()
}

/// Returns all types with accelerators.
pub fn all() -> impl Iterator<Item = Instance> {
    names().filter_map(get)
}

/// Returns true if the offerings include the region; for other regions they are unknown.
pub fn is_region_listed(region: &str) -> bool {
    names()
        .filter_map(|name| TABLE.row::<InstanceRow>(name))
        .any(|row| row.ec2_offering_regions.iter().any(|listed| listed == region))
}

/// Returns true if SageMaker training supports the type, including CPU types.
pub fn instance_exists(name: &str) -> bool {
    static NAMES: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| names().collect());
    NAMES.contains(name) || shapes::enum_values("TrainingInstanceType").iter().any(|known| known == name)
}

/// Returns all type names that SageMaker training supports, including CPU types, sorted.
pub fn all_names() -> Vec<String> {
    let mut all = shapes::enum_values("TrainingInstanceType").to_vec();
    all.extend(names().map(str::to_owned));
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p4d_is_eight_a100_over_four_efa_interfaces() {
        let p4d = get("ml.p4d.24xlarge").unwrap();
        assert_eq!((p4d.accelerators, p4d.accelerator.name.as_str()), (8, "A100-SXM4-40GB"));
        assert_eq!(p4d.accelerator_memory_bytes(), Some(320 << 30));
        assert_eq!((p4d.efa, p4d.efa_interfaces, p4d.network_gbps), (Some(true), Some(4), Some(400.0)));
        assert_eq!((p4d.nvme_disks.as_slice(), p4d.nvme_total_gb), ([(8, 1000)].as_slice(), Some(8000)));
        assert!(p4d.smddp_v1 && p4d.smddp_v2 && p4d.smp_v1 && p4d.ebs_volume_ignored);
        assert_eq!((p4d.vcpus, p4d.host_memory_bytes, p4d.family()), (Some(96), Some(1152 << 30), "p4d"));
    }

    #[test]
    fn every_row_reads_and_agrees_with_itself() {
        let enumerated = shapes::enum_values("TrainingInstanceType");
        assert_eq!((all().count(), names().count(), enumerated.len()), (62, 62, 225));
        for row in all() {
            let disks: u64 = row.nvme_disks.iter().map(|(count, gb)| u64::from(*count) * gb).sum();
            if let Some(total) = row.nvme_total_gb {
                assert_eq!(disks, total, "{}", row.name);
                assert_eq!(row.ebs_volume_ignored, total > 0, "{}", row.name);
            }
            assert_eq!(row.efa, row.efa_interfaces.map(|n| n > 0).or(row.efa), "{}", row.name);
            assert_eq!(row.in_sagemaker_enum, enumerated.contains(&row.name), "{}", row.name);
        }
    }

    #[test]
    fn cpu_types_are_known_by_name_only() {
        assert!(instance_exists("ml.m5.xlarge") && get("ml.m5.xlarge").is_none());
        assert!(
            instance_exists("ml.p4d.24xlarge") && !instance_exists("ml.p4d.48xlarge") && !instance_exists("")
        );
        assert!(all_names().len() >= 225 && all_names().is_sorted());
    }

    #[test]
    fn regions_of_other_partitions_are_not_listed() {
        assert!(is_region_listed("us-west-2"));
        assert!(!is_region_listed("us-gov-west-1") && !is_region_listed("cn-north-1"));
    }

    #[test]
    fn retired_and_unknown_figures_are_said() {
        assert!(get("ml.p3.2xlarge").unwrap().retired.is_some());
        assert_eq!(get("ml.p2.xlarge").unwrap().network_gbps, None);
        let gb200 = get("ml.p6e-gb200.36xlarge").unwrap();
        assert_eq!((gb200.efa, gb200.efa_interfaces, gb200.vcpus), (Some(true), None, Some(144)));
    }
}
