//! Environment variables that turn off hardware or slow every step: the switches of debugging sessions.

use serde::Deserialize;

use super::table::{Sourced, Table};
use trainc_ir::hardware::{AcceleratorKind, Instance, Provenance};

pub(crate) const TABLE: Table =
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
    values: Vec<String>,
    concerns: Concerns,
    effect: String,
    #[serde(flatten)]
    sourced: Sourced,
}

/// A variable with an effect on speed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// The values that have the effect, in lower case.
    pub values: Vec<String>,
    /// The hardware that it concerns.
    pub concerns: Concerns,
    /// The effect, as a phrase after the variable.
    pub effect: String,
    /// The source of the row.
    pub provenance: Provenance,
}

/// Returns the effect of a variable.
pub fn get(name: &str) -> Option<Effect> {
    let row: EffectRow = TABLE.row(name)?;
    Some(Effect {
        values: row.values,
        concerns: row.concerns,
        effect: row.effect,
        provenance: row.sourced.into(),
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
            assert!(!row.values.is_empty() && !row.provenance.source.is_empty(), "{name}");
            assert!(row.values.iter().all(|value| *value == value.to_lowercase()), "{name}");
        }
        assert_eq!(get("NCCL_PROTO"), None);
    }

    #[test]
    fn effects_depend_on_the_hardware() {
        let of = |concerns: Concerns, name: &str| concerns.is_in(&instances::get(name).unwrap(), 2, 8);
        assert!(of(Concerns::Nvlink, "ml.p4d.24xlarge") && !of(Concerns::Nvlink, "ml.g5.12xlarge"));
        assert!(of(Concerns::Efa, "ml.p4d.24xlarge") && !of(Concerns::Efa, "ml.g5.xlarge"));
        assert!(of(Concerns::Gpu, "ml.g5.xlarge") && !of(Concerns::Gpu, "ml.trn1.32xlarge"));
    }
}
