//! Accelerators by short name, including those for clusters outside AWS.

use serde::Deserialize;

use super::table::Table;
use trainc_ir::hardware::{Accelerator, AcceleratorKind, Provenance};

pub(crate) static TABLE: Table = Table::new("accelerators", include_str!("data/accelerators.toml"));

#[derive(Clone, Deserialize)]
struct AcceleratorRow {
    product: String,
    vendor: String,
    kind: String,
    architecture: String,
    compute_capability: Option<(u8, u8)>,
    memory_mib: Option<u64>,
    usable_mib: Option<u64>,
    peak_bf16_tflops: Option<f64>,
    peak_fp16_tflops: Option<f64>,
    memory_bandwidth_gb_s: Option<f64>,
    nvlink_gb_s: Option<f64>,
    /// Ranks of one device, if not 1.
    ranks: Option<u64>,
    /// The first release of the Neuron SDK that supports it.
    least_neuron: Option<String>,
    bf16: bool,
    note: Option<String>,
    #[serde(flatten)]
    provenance: Provenance,
}

/// Returns the accelerator by short name: `H100-SXM5-80GB`.
pub fn get(name: &str) -> Option<Accelerator> {
    let row: AcceleratorRow = TABLE.row(name).cloned()?;
    Some(Accelerator {
        name: name.to_owned(),
        product: row.product,
        vendor: row.vendor,
        kind: if row.kind == "gpu" { AcceleratorKind::Gpu } else { AcceleratorKind::Trainium },
        architecture: row.architecture,
        compute_capability: row.compute_capability,
        memory_bytes: row.memory_mib.map(|mib| mib << 20),
        usable_bytes: row.usable_mib.map(|mib| mib << 20),
        peak_bf16_tflops: row.peak_bf16_tflops,
        peak_fp16_tflops: row.peak_fp16_tflops,
        memory_bandwidth_gb_s: row.memory_bandwidth_gb_s,
        nvlink_gb_s: row.nvlink_gb_s,
        ranks: row.ranks.unwrap_or(1),
        least_neuron: row.least_neuron,
        bf16: row.bf16,
        note: row.note,
        provenance: row.provenance,
    })
}

/// Returns all short names, in the order of the file.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.keys()
}

/// Returns all accelerators.
pub fn all() -> impl Iterator<Item = Accelerator> {
    names().filter_map(get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_names_of_the_manifest_exist() {
        for (name, gib) in [
            ("V100-SXM2-16GB", 16.0),
            ("V100-SXM2-32GB", 32.0),
            ("A100-SXM4-40GB", 40.0),
            ("A100-SXM4-80GB", 80.0),
            ("H100-SXM5-80GB", 80.0),
            ("H200-SXM5-141GB", 141.0),
            ("B200-SXM6-180GB", 179.0),
            ("A10G-24GB", 22.4),
            ("L4-24GB", 22.4),
            ("L40S-48GB", 44.7),
            ("T4-16GB", 16.0),
        ] {
            let memory = get(name).unwrap_or_else(|| panic!("{name}")).memory_bytes.unwrap();
            let found = memory as f64 / trainc_ir::units::GIB as f64;
            assert!((found - gib).abs() < 0.1, "{name}: {found}");
        }
    }

    #[test]
    fn a_driver_keeps_a_little_of_each_card() {
        let known: Vec<Accelerator> = all().filter(|row| row.usable_bytes.is_some()).collect();
        assert!(known.len() >= 5);
        for row in known {
            let (usable, memory) = (row.usable_bytes.unwrap(), row.memory_bytes.unwrap());
            let kept = 1.0 - usable as f64 / memory as f64;
            assert!((0.005..0.1).contains(&kept), "{}: {kept}", row.name);
        }
    }

    #[test]
    fn bf16_needs_compute_capability_8() {
        for accelerator in all() {
            match accelerator.compute_capability {
                Some((major, _)) => {
                    assert_eq!(accelerator.bf16, major >= 8, "{}", accelerator.name);
                }
                None => assert_eq!(accelerator.kind, AcceleratorKind::Trainium),
            }
            if !accelerator.bf16 {
                assert_eq!(accelerator.peak_bf16_tflops, None, "{}", accelerator.name);
            }
        }
        assert_eq!(all().count(), names().count());
    }
}
