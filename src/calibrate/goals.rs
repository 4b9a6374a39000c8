//! What the model is held to: groups of rows, each with its goal in each tier; and what is missing where a row is not met.

use super::runs::Run;
use super::tiers::Tier;
use crate::predict::System;
use std::sync::LazyLock;

/// Rows that one goal is set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// PyTorch FSDP without tensor, pipeline or context parallelism.
    Fsdp,
    /// Tensor, pipeline and data parallelism over several nodes.
    OverNodes,
    /// The same on one node.
    OneNode,
    /// Everything whose kind of GPU and of links is known.
    Linked,
}

impl Group {
    /// Those that a tier has goals for.
    pub fn of_tier(tier: Tier) -> &'static [Self] {
        match tier {
            Tier::A => &[Self::Fsdp, Self::OverNodes, Self::OneNode],
            Tier::B => &[Self::Fsdp, Self::OverNodes],
            Tier::C => &[Self::Linked],
        }
    }

    /// Its name, for people and in the form for scripts.
    pub fn word(self) -> &'static str {
        match self {
            Self::Fsdp => "FSDP",
            Self::OverNodes => "3D parallel over nodes",
            Self::OneNode => "3D parallel on one node",
            Self::Linked => "GPU and links known",
        }
    }

    /// The largest mean of absolute errors, families weighing alike, a fraction.
    pub fn goal(self, tier: Tier) -> Option<f64> {
        match (tier, self) {
            (Tier::A, Self::Fsdp) => Some(0.04),
            (Tier::A, Self::OverNodes) => Some(0.06),
            (Tier::A, Self::OneNode) | (Tier::C, Self::Linked) => Some(0.10),
            (Tier::B, Self::Fsdp) => Some(0.05),
            (Tier::B, Self::OverNodes) => Some(0.08),
            _ => None,
        }
    }

    /// Whether a row is one of them.
    pub fn has(self, run: &Run) -> bool {
        let Ok(layout) = &run.layout else { return false };
        let (degrees, hardware) = (&layout.degrees, &layout.hardware);
        let split = degrees.tensor * degrees.pipeline * degrees.context > 1.0;
        match self {
            Self::Fsdp => layout.system == System::Fsdp && !split && hardware.gpus() > 1.0,
            Self::OverNodes => layout.system == System::Megatron && hardware.nodes > 1.0,
            Self::OneNode => layout.system == System::Megatron && hardware.nodes <= 1.0,
            Self::Linked => hardware.gpu.is_some() && run.has_links,
        }
    }
}

#[derive(serde::Deserialize)]
struct Misses {
    miss: Vec<Miss>,
    #[serde(default)]
    family: Vec<Family>,
}

/// A family that keeps a tier from its goal.
#[derive(serde::Deserialize)]
struct Family {
    tier: String,
    family: String,
    physics: String,
}

/// Runs that are not met.
#[derive(serde::Deserialize)]
struct Miss {
    /// How their ids begin.
    ids: String,
    physics: String,
}

static MISSES: LazyLock<Option<Misses>> = LazyLock::new(|| toml::from_str(include_str!("misses.toml")).ok());

/// What is known to be missing in the model for a run, where somebody looked.
pub fn missing(id: &str) -> Option<&'static str> {
    let of = |miss: &&Miss| id.starts_with(&miss.ids);
    MISSES.as_ref()?.miss.iter().find(of).map(|miss| miss.physics.as_str())
}

/// What is known to be missing for the rows of a family in a tier, where somebody looked.
pub fn missing_of_family(tier: Tier, family: &str) -> Option<&'static str> {
    let of = |one: &&Family| one.tier == tier.word() && one.family == family;
    MISSES.as_ref()?.family.iter().find(of).map(|one| one.physics.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::judge::judge;
    use crate::predict::Constants;

    /// Every row of the shipped table outside its interval says what is missing, and no reason is for rows that are met.
    #[test]
    fn rows_that_are_not_met_say_what_is_missing() {
        let table = crate::calibrate::read(include_str!("../../data/runs.csv")).unwrap();
        let verdict = judge(&table, Constants::shipped());
        let outside: Vec<&str> =
            verdict.rows.iter().filter(|row| row.is_outside()).map(|row| row.id.as_str()).collect();
        for id in &outside {
            assert!(missing(id).is_some(), "{id}");
        }
        // What tune keeps free is the mean error of these peaks.
        let peaks = verdict.summary.peak_memory_bytes.mean_error.unwrap();
        assert!((peaks - crate::predict::memory::MEAN_ERROR).abs() < 0.002, "{peaks}");
        let misses: Misses = toml::from_str(include_str!("misses.toml")).unwrap();
        for miss in misses.miss {
            let open = verdict.open.iter().any(|row| row.is_outside() && row.id.starts_with(&miss.ids));
            assert!(open || outside.iter().any(|id| id.starts_with(&miss.ids)), "{}", miss.ids);
        }
    }
}
