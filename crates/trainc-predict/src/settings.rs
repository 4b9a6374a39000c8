//! Settings of the measured runs behind the constants: system, GPU type and links.

use super::layout::{GpuKind, Hardware, Layout, System};

/// Largest difference between the rates of one fabric, a natural logarithm: data sheets round.
const TOLERANCE: f64 = 0.05;

/// Fewest published runs of a setting for the narrow interval: a single run does not show the spread.
pub const FEWEST_RUNS: f64 = 2.0;

/// Fewest own runs that narrow an interval: with fewer, no error is a 90 % bound (split conformal prediction, Vovk et
/// al. 2005). A GPU type with fewer runs does not count as measured.
pub const FEWEST_OWN: f64 = 9.0;

/// Network between nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fabric {
    /// Line rate of a node in one direction, Gb/s.
    pub gigabits: f64,
    /// True if it is EFA; otherwise InfiniBand, RoCE, Omni-Path or unknown.
    pub efa: bool,
}

impl Fabric {
    /// Returns the fabric between nodes; `None` on one node or if its rate is unknown.
    fn from_hardware(hardware: &Hardware) -> Option<Self> {
        let bytes = hardware.inter_bytes_per_second.filter(|_| hardware.nodes > 1.0)?;
        Some(Self { gigabits: bytes * 8.0 / 1e9, efa: hardware.efa })
    }
}

/// Setting shared by runs with comparable errors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// GPU type, as in the constants.
    pub gpu: GpuKind,
    /// Training system.
    pub system: System,
    /// Network between nodes; `None` on one node.
    pub fabric: Option<Fabric>,
}

impl Setting {
    /// Returns the setting of a layout; `None` if GPU type or rate is unknown.
    pub fn from_layout(layout: &Layout) -> Option<Self> {
        let fabric = Fabric::from_hardware(&layout.hardware);
        let known = fabric.is_some() || layout.hardware.nodes <= 1.0;
        let gpu = layout.hardware.gpu.filter(|_| known)?.kind_of_constants();
        Some(Self { gpu, system: layout.system, fabric })
    }

    /// Returns true if two settings count as the same.
    pub fn is_like(&self, other: &Self) -> bool {
        let links = match (self.fabric, other.fabric) {
            (Some(a), Some(b)) => a.efa == b.efa && (a.gigabits / b.gigabits).ln().abs() < TOLERANCE,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        links && (self.gpu, self.system) == (other.gpu, other.system)
    }

    /// Returns the sort key of settings in a file.
    pub(super) fn sort_key(&self) -> (GpuKind, System, bool, f64) {
        let fabric = self.fabric;
        (self.gpu, self.system, fabric.is_some_and(|one| one.efa), fabric.map_or(0.0, |one| one.gigabits))
    }

    /// Returns its key in a file of constants: `A100-fsdp` within a node, `A100-400-fsdp` or `A100-400-efa-fsdp` over
    /// several.
    pub(super) fn key(&self) -> String {
        let links = self.fabric.map_or_else(String::new, |fabric| {
            let efa = if fabric.efa { "-efa" } else { "" };
            format!("-{:.0}{efa}", fabric.gigabits)
        });
        format!("{}{links}-{}", self.gpu.as_str(), self.system.as_str())
    }

    /// Parses a [`Self::key`].
    pub(super) fn parse_key(key: &str) -> Option<Self> {
        let (word, rest) = key.split_once('-')?;
        let gpu = GpuKind::with_own_constants().find(|kind| kind.as_str() == word)?;
        let of = |word: &str| System::ALL.into_iter().find(|system| system.as_str() == word);
        if let Some(system) = of(rest) {
            return Some(Self { gpu, system, fabric: None });
        }
        let (gigabits, rest) = rest.split_once('-')?;
        let gigabits = gigabits.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0)?;
        let (rest, efa) = rest.strip_prefix("efa-").map_or((rest, false), |rest| (rest, true));
        Some(Self { gpu, system: of(rest)?, fabric: Some(Fabric { gigabits, efa }) })
    }

    /// Describes the setting: `FSDP on A100 nodes over EFA at 400 Gb/s`.
    pub fn describe(&self) -> String {
        let (system, gpu) = (self.system.display_name(), self.gpu.as_str());
        self.fabric.map_or_else(
            || format!("{system} within a node of {gpu}s"),
            |fabric| {
                let over = if fabric.efa { "EFA" } else { "links" };
                format!("{system} on {gpu} nodes over {over} at {:.0} Gb/s", fabric.gigabits)
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Setting = Setting {
        gpu: GpuKind::A100,
        system: System::Fsdp,
        fabric: Some(Fabric { gigabits: 400.0, efa: false }),
    };

    #[test]
    fn a_setting_reads_as_it_is_written() {
        for system in System::ALL {
            for fabric in [None, Some(false), Some(true)] {
                let fabric = fabric.map(|efa| Fabric { gigabits: 400.0, efa });
                let setting = Setting { gpu: GpuKind::A100, system, fabric };
                assert_eq!(Setting::parse_key(&setting.key()), Some(setting), "{}", setting.key());
            }
        }
        for wrong in ["A100", "A100-", "A100-x", "A100--1-fsdp", "X-400-fsdp", "A100-400", "A100-400-x-fsdp"]
        {
            assert_eq!(Setting::parse_key(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn another_rate_link_gpu_or_system_is_another_setting() {
        let over = |gigabits, efa| Setting { fabric: Some(Fabric { gigabits, efa }), ..ONE };
        assert!(ONE.is_like(&over(410.0, false)));
        for other in [
            over(800.0, false),
            over(400.0, true),
            Setting { fabric: None, ..ONE },
            Setting { gpu: GpuKind::H100, ..ONE },
            Setting { system: System::SmpV2, ..ONE },
        ] {
            assert!(!ONE.is_like(&other) && !other.is_like(&ONE), "{other:?}");
        }
    }
}
