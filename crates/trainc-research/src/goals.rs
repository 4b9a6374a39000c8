//! Goals of the cost model: groups of rows, each with its largest mean error per tier.

use trainc_calibrate::Run;
use trainc_calibrate::held_out::Tier;
use trainc_predict::System;

/// Largest median half-width of the intervals, a fraction of the prediction.
pub const HALF_WIDTH: f64 = 0.2;
/// Largest mean absolute error of peaks of memory.
pub const PEAK_ERROR: f64 = 0.08;
/// Largest share of the runs that ran and are predicted not to fit.
pub const FALSE_ALARMS: f64 = 0.05;

/// Returns the largest median half-width of a tier's intervals, a fraction of the prediction.
pub fn half_width_goal(tier: Tier) -> f64 {
    if tier == Tier::C { 0.35 } else { HALF_WIDTH }
}

/// Returns the scope of a tier.
pub fn scope(tier: Tier) -> &'static str {
    match tier {
        Tier::A => "a fifth of the rows of each source held out",
        Tier::B => "one model shape of a source held out",
        Tier::C => "a whole source held out",
    }
}

/// Rows with a common goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// PyTorch FSDP without tensor, pipeline or context parallelism.
    Fsdp,
    /// Tensor, pipeline and data parallelism over several nodes.
    OverNodes,
    /// Tensor, pipeline and data parallelism on one node.
    OneNode,
    /// Rows with a known GPU type and known links.
    KnownHardware,
}

impl Group {
    /// Returns the groups with a goal in a tier.
    pub fn of_tier(tier: Tier) -> &'static [Self] {
        match tier {
            Tier::A => &[Self::Fsdp, Self::OverNodes, Self::OneNode],
            Tier::B => &[Self::Fsdp, Self::OverNodes],
            Tier::C => &[Self::KnownHardware],
        }
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fsdp => "FSDP",
            Self::OverNodes => "3D parallel over nodes",
            Self::OneNode => "3D parallel on one node",
            Self::KnownHardware => "GPU and links known",
        }
    }

    /// Returns the largest mean absolute error, a fraction, with families weighted equally.
    pub fn goal(self, tier: Tier) -> Option<f64> {
        match (tier, self) {
            (Tier::A, Self::Fsdp) => Some(0.04),
            (Tier::A, Self::OverNodes) => Some(0.06),
            (Tier::A, Self::OneNode) | (Tier::C, Self::KnownHardware) => Some(0.10),
            (Tier::B, Self::Fsdp) => Some(0.05),
            (Tier::B, Self::OverNodes) => Some(0.08),
            _ => None,
        }
    }

    /// Returns true if a run belongs to the group.
    pub fn contains(self, run: &Run) -> bool {
        let Ok(layout) = &run.layout else { return false };
        let (degrees, hardware) = (&layout.degrees, &layout.hardware);
        let has_other_parallelism = degrees.tensor * degrees.pipeline * degrees.context > 1.0;
        match self {
            Self::Fsdp => layout.system == System::Fsdp && !has_other_parallelism && hardware.gpus() > 1.0,
            Self::OverNodes => layout.system == System::Megatron && hardware.nodes > 1.0,
            Self::OneNode => layout.system == System::Megatron && hardware.nodes <= 1.0,
            Self::KnownHardware => hardware.gpu.is_some() && run.has_links,
        }
    }
}
