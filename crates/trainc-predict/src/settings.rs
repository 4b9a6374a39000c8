//! Settings of the measured runs behind the constants: code, kind of work, system, GPU type and links.

use super::layout::{Code, GpuKind, Hardware, Layout, System};

/// Largest difference between the rates of one fabric, a natural logarithm: data sheets round.
const TOLERANCE: f64 = 0.05;

/// Fewest published runs of a setting for the narrow interval: a single run does not show the spread.
pub const FEWEST_RUNS: f64 = 2.0;

/// Fewest own runs that narrow an interval: with fewer, no error is a 90 % bound (split conformal prediction,
/// Vovk et al. 2005). A GPU type with fewer runs does not count as measured.
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

/// Kind of work, by what dominates its errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkKind {
    /// Dense layers, all of them trained, in 16 bit.
    Dense,
    /// Layers of experts.
    Experts,
    /// Adapters on frozen weights.
    Adapter,
    /// Adapters on quantised weights.
    Quantised,
    /// Dense layers with 8-bit products.
    Fp8,
}

impl WorkKind {
    /// All of them, with their words in a file of constants and their descriptions.
    const ALL: [(Self, &'static str, &'static str); 5] = [
        (Self::Dense, "dense", ""),
        (Self::Experts, "experts", "mixtures of experts"),
        (Self::Adapter, "adapter", "adapters"),
        (Self::Quantised, "quantised", "adapters on quantised weights"),
        (Self::Fp8, "fp8", "8-bit products"),
    ];

    fn from_layout(layout: &Layout) -> Self {
        if layout.model.experts > 0.0 {
            Self::Experts
        } else if layout.quantisation.is_some() {
            Self::Quantised
        } else if layout.lora.is_some() {
            Self::Adapter
        } else if layout.precision.fp8_recipe().is_some() {
            Self::Fp8
        } else {
            Self::Dense
        }
    }

    fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(kind, ..)| *kind == self).map_or("", |(_, word, _)| word)
    }

    /// Returns its description; empty for dense layers.
    fn description(self) -> &'static str {
        Self::ALL.iter().find(|(kind, ..)| *kind == self).map_or("", |(.., words)| words)
    }
}

/// Runs with comparable errors of memory, which does not depend on links and little on the GPU type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemorySetting {
    /// Training system.
    pub system: System,
    /// Implementation of the model.
    pub code: Code,
    /// Kind of work.
    pub work: WorkKind,
}

impl MemorySetting {
    /// Returns the setting of a layout; `None` if no table knows the name of its code.
    pub fn from_layout(layout: &Layout) -> Option<Self> {
        let work = WorkKind::from_layout(layout);
        layout.code_is_known.then_some(Self { system: layout.system, code: layout.code, work })
    }

    /// Returns its key in a file of constants: `fsdp/composer/dense`.
    pub(super) fn key(self) -> String {
        [self.system.as_str(), self.code.as_str(), self.work.as_str()].join("/")
    }

    /// Parses a [`Self::key`].
    pub(super) fn parse_key(key: &str) -> Option<Self> {
        let [system, code, work] = <[&str; 3]>::try_from(key.split('/').collect::<Vec<_>>()).ok()?;
        Some(Self {
            system: System::ALL.into_iter().find(|one| one.as_str() == system)?,
            code: Code::parse(code)?,
            work: WorkKind::ALL.into_iter().find(|(_, known, _)| *known == work)?.0,
        })
    }
}

/// Ends of the interval of a peak, fractions of the prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeakEnds {
    /// Setting of the runs that determine them.
    pub setting: MemorySetting,
    /// Lower end, a fraction below the prediction.
    pub below: f64,
    /// Upper end, a fraction above it.
    pub above: f64,
}

/// Setting shared by runs with comparable errors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// GPU type, as in the constants.
    pub gpu: GpuKind,
    /// Training system.
    pub system: System,
    /// Implementation of the model; `None` if no table knows its name.
    pub code: Option<Code>,
    /// Kind of work.
    pub work: WorkKind,
    /// Network between nodes; `None` on one node.
    pub fabric: Option<Fabric>,
}

impl Setting {
    /// Returns the setting of a layout; `None` if GPU type or rate is unknown.
    pub fn from_layout(layout: &Layout) -> Option<Self> {
        let fabric = Fabric::from_hardware(&layout.hardware);
        let known = fabric.is_some() || layout.hardware.nodes <= 1.0;
        let gpu = layout.hardware.gpu.filter(|_| known)?.kind_of_constants();
        Some(Self {
            gpu,
            system: layout.system,
            code: layout.code_is_known.then_some(layout.code),
            work: WorkKind::from_layout(layout),
            fabric,
        })
    }

    /// Returns true if two settings count as the same.
    pub fn is_like(&self, other: &Self) -> bool {
        let same = (self.gpu, self.system, self.work) == (other.gpu, other.system, other.work);
        self.has_links_of(other) && same && self.code.is_some() && self.code == other.code
    }

    fn has_links_of(&self, other: &Self) -> bool {
        match (self.fabric, other.fabric) {
            (Some(a), Some(b)) => a.efa == b.efa && (a.gigabits / b.gigabits).ln().abs() < TOLERANCE,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// Returns the sort key of settings in a file.
    pub(super) fn sort_key(&self) -> (GpuKind, System, Option<Code>, WorkKind, bool, f64) {
        let fabric = self.fabric;
        let (efa, rate) = (fabric.is_some_and(|one| one.efa), fabric.map_or(0.0, |one| one.gigabits));
        (self.gpu, self.system, self.code, self.work, efa, rate)
    }

    /// Returns its key in a file of constants: GPU, links, system, code and kind of work, as
    /// `A100/node/fsdp/litgpt/dense`, `A100/400/fsdp/composer/dense` or
    /// `H100/3200-efa/megatron/nanotron/dense`.
    pub(super) fn key(&self) -> String {
        let links = self.fabric.map_or_else(
            || "node".to_owned(),
            |fabric| format!("{:.0}{}", fabric.gigabits, if fabric.efa { "-efa" } else { "" }),
        );
        let code = self.code.map_or("", Code::as_str);
        [self.gpu.as_str(), &links, self.system.as_str(), code, self.work.as_str()].join("/")
    }

    /// Parses a [`Self::key`].
    pub(super) fn parse_key(key: &str) -> Option<Self> {
        let [word, links, system, code, work] =
            <[&str; 5]>::try_from(key.split('/').collect::<Vec<_>>()).ok()?;
        let (rate, efa) = links.strip_suffix("-efa").map_or((links, false), |rate| (rate, true));
        let fabric = match rate {
            "node" => None,
            rate => {
                let gigabits = rate.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0)?;
                Some(Fabric { gigabits, efa })
            }
        };
        Some(Self {
            gpu: GpuKind::with_own_constants().find(|kind| kind.as_str() == word)?,
            system: System::ALL.into_iter().find(|one| one.as_str() == system)?,
            code: Some(Code::parse(code)?),
            work: WorkKind::ALL.into_iter().find(|(_, known, _)| *known == work)?.0,
            fabric,
        })
    }

    /// Describes the setting: `FSDP with composer's code on A100 nodes over EFA at 400 Gb/s`.
    pub fn describe(&self) -> String {
        let gpu = self.gpu.as_str();
        let code = match self.code {
            None => "code that trainc does not know".to_owned(),
            // The system and the code are one.
            Some(code) if code.as_str() == self.system.as_str() => String::new(),
            Some(code) => format!("{} code", code.display_name()),
        };
        let parts: Vec<&str> =
            [code.as_str(), self.work.description()].into_iter().filter(|part| !part.is_empty()).collect();
        let with = if parts.is_empty() { String::new() } else { format!(" with {}", parts.join(" and ")) };
        let what = format!("{}{with}", self.system.display_name());
        self.fabric.map_or_else(
            || format!("{what} within a node of {gpu}s"),
            |fabric| {
                let over = if fabric.efa { "EFA" } else { "links" };
                format!("{what} on {gpu} nodes over {over} at {:.0} Gb/s", fabric.gigabits)
            },
        )
    }

    /// Returns the square of the distance to another setting. Another GPU type, code or kind of work counts
    /// as much as a factor of e in the length of a sequence (assumed).
    pub fn squared_distance(&self, other: &Self) -> f64 {
        let one = |differs: bool, apart: f64| if differs { apart * apart } else { 0.0 };
        let kind = |setting: &Self| setting.fabric.map(|fabric| fabric.efa);
        one(self.gpu != other.gpu, 1.0)
            + one(self.code.is_none() || self.code != other.code, 1.0)
            + one(self.work != other.work, 1.0)
            + one(self.system != other.system, 0.7)
            + one(kind(self) != kind(other), 0.5)
    }

    /// Returns what differs from another setting, as `links` or `code`.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        [
            (self.code.is_none() || self.code != other.code, "code"),
            (self.work != other.work, "kind of work"),
            (self.system != other.system, "system"),
            (self.gpu != other.gpu, "GPU type"),
            (!self.has_links_of(other), "links"),
        ]
        .into_iter()
        .filter_map(|(differs, word)| differs.then_some(word))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Setting = Setting {
        gpu: GpuKind::A100,
        system: System::Fsdp,
        code: Some(Code::Composer),
        work: WorkKind::Dense,
        fabric: Some(Fabric { gigabits: 400.0, efa: false }),
    };

    #[test]
    fn a_setting_reads_as_it_is_written() {
        for system in System::ALL {
            for (work, ..) in WorkKind::ALL {
                for fabric in [None, Some(false), Some(true)] {
                    let fabric = fabric.map(|efa| Fabric { gigabits: 400.0, efa });
                    let setting = Setting { system, work, fabric, ..ONE };
                    assert_eq!(Setting::parse_key(&setting.key()), Some(setting), "{}", setting.key());
                }
            }
        }
        assert_eq!(ONE.key(), "A100/400/fsdp/composer/dense");
        for wrong in
            ["A100", "A100/400/fsdp/composer", "A100/-1/fsdp/composer/dense", "X/400/fsdp/composer/dense"]
        {
            assert_eq!(Setting::parse_key(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn another_rate_link_gpu_code_work_or_system_is_another_setting() {
        let over = |gigabits, efa| Setting { fabric: Some(Fabric { gigabits, efa }), ..ONE };
        assert!(ONE.is_like(&over(410.0, false)));
        for (other, difference) in [
            (over(800.0, false), "links"),
            (over(400.0, true), "links"),
            (Setting { fabric: None, ..ONE }, "links"),
            (Setting { gpu: GpuKind::H100, ..ONE }, "GPU type"),
            (Setting { system: System::SmpV2, ..ONE }, "system"),
            (Setting { code: Some(Code::Torchtitan), ..ONE }, "code"),
            (Setting { code: None, ..ONE }, "code"),
            (Setting { work: WorkKind::Fp8, ..ONE }, "kind of work"),
        ] {
            assert!(!ONE.is_like(&other) && !other.is_like(&ONE), "{other:?}");
            assert_eq!(other.differences(&ONE), [difference]);
        }
        let unknown = Setting { code: None, ..ONE };
        assert!(!unknown.is_like(&unknown), "a name that no table has is not measured by another such name");
    }
}
