//! Environment variables that turn off hardware or slow every step: the switches of debugging sessions.

use serde::Deserialize;

use super::table::Table;
use trainc_ir::hardware::{AcceleratorKind, Instance, Provenance};

pub(crate) static TABLE: Table =
    Table::new("environment-effects", include_str!("data/environment_effects.toml"));

/// The hardware that a variable concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Concerns {
    /// Several GPUs of one node with NVLink.
    Nvlink,
    /// Several nodes with EFA.
    Efa,
    /// Several GPUs of one node.
    Gpus,
    /// Any GPU.
    Gpu,
    /// Trainium or Inferentia.
    Neuron,
    /// Several ranks.
    Ranks,
}

impl Concerns {
    /// Returns whether a job of this size on this instance type has the hardware.
    pub fn is_in(self, instance: &Instance, nodes: u64, ranks: u64) -> bool {
        match self {
            Self::Nvlink => {
                instance.accelerators > 1 && instance.accelerator.nvlink_gb_s.is_some_and(|rate| rate > 0.0)
            }
            Self::Efa => nodes > 1 && instance.efa == Some(true),
            Self::Gpus => instance.accelerators > 1 && instance.accelerator.compute_capability.is_some(),
            Self::Neuron => instance.accelerator.kind == AcceleratorKind::Trainium,
            Self::Gpu => instance.accelerator.compute_capability.is_some(),
            Self::Ranks => ranks > 1,
        }
    }
}

#[derive(Clone, Deserialize)]
struct EffectRow {
    #[serde(default)]
    values: Vec<String>,
    #[serde(default)]
    without: Vec<String>,
    concerns: Concerns,
    effect: String,
    #[serde(flatten)]
    provenance: Provenance,
}

/// A variable with an effect on speed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// The values that have the effect, in lower case.
    pub values: Vec<String>,
    /// Parts of a value, in lower case: one that has none of them has the effect. Empty if `values` lists
    /// them.
    pub without: Vec<String>,
    /// The hardware that it concerns.
    pub concerns: Concerns,
    /// The effect, as a phrase after the variable.
    pub effect: String,
    /// The source of the row.
    pub provenance: Provenance,
}

impl Effect {
    /// Returns whether a value of the variable has the effect.
    pub fn is_of(&self, value: &str) -> bool {
        let value = value.trim().to_lowercase();
        self.values.contains(&value)
            || !self.without.is_empty() && !self.without.iter().any(|part| value.contains(part))
    }
}

/// Returns the effect of a variable.
pub fn get(name: &str) -> Option<Effect> {
    let row: EffectRow = TABLE.row(name).cloned()?;
    Some(Effect {
        values: row.values,
        without: row.without,
        concerns: row.concerns,
        effect: row.effect,
        provenance: row.provenance,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instances;

    #[test]
    fn every_variable_has_values_and_a_source() {
        for name in TABLE.keys() {
            let row = get(name).unwrap();
            assert!(row.values.is_empty() != row.without.is_empty(), "{name}");
            assert!(!row.provenance.source.is_empty(), "{name}");
            assert!(
                row.values.iter().chain(&row.without).all(|value| *value == value.to_lowercase()),
                "{name}"
            );
        }
        assert_eq!(get("NCCL_PROTO"), None);
    }

    #[test]
    fn a_search_path_has_the_effect_without_the_directories_of_the_image() {
        let row = get("LD_LIBRARY_PATH").unwrap();
        assert!(row.is_of("/usr/local/cuda/lib64"));
        for path in
            ["/a:$LD_LIBRARY_PATH", "/a:${LD_LIBRARY_PATH}", "/opt/amazon/efa/lib:/opt/amazon/ofi-nccl/lib"]
        {
            assert!(!row.is_of(path), "{path}");
        }
    }

    #[test]
    fn effects_depend_on_the_hardware() {
        let of = |concerns: Concerns, name: &str| concerns.is_in(&instances::get(name).unwrap(), 2, 8);
        assert!(of(Concerns::Nvlink, "ml.p4d.24xlarge") && !of(Concerns::Nvlink, "ml.g5.12xlarge"));
        assert!(of(Concerns::Efa, "ml.p4d.24xlarge") && !of(Concerns::Efa, "ml.g5.xlarge"));
        assert!(of(Concerns::Gpu, "ml.g5.xlarge") && !of(Concerns::Gpu, "ml.trn1.32xlarge"));
    }
}
