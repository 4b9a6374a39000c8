//! What the model is held to: groups of rows, each with its goal in each tier.

use super::runs::Run;
use super::tiers::Tier;
use trainc_predict::System;

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
