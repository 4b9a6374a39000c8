//! What joins nodes, as far as runs were measured over it.

use super::layout::{GpuKind, Hardware};

/// Rates that differ by less are of one fabric: data sheets round.
const APART: f64 = 0.05;

/// What joins nodes of a kind of GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fabric {
    /// Kind of GPU, that of the constants.
    pub gpu: GpuKind,
    /// Line rate of a node in one direction, Gb/s.
    pub gigabits: f64,
    /// Whether it is EFA; else InfiniBand, RoCE, Omni-Path or what a source does not name.
    pub efa: bool,
}

impl Fabric {
    /// That of a machine of more than one node; none where kind or rate is not known.
    pub fn of(hardware: &Hardware) -> Option<Self> {
        let bytes = hardware.inter_bytes_per_second.filter(|_| hardware.nodes > 1.0)?;
        Some(Self { gpu: hardware.gpu?.chip(), gigabits: bytes * 8.0 / 1e9, efa: hardware.efa })
    }

    /// Whether two are of one kind.
    pub fn is_like(&self, other: &Self) -> bool {
        (self.gpu, self.efa) == (other.gpu, other.efa) && (self.gigabits / other.gigabits).ln().abs() < APART
    }

    /// Its place in a file of constants, `[fabric.A100-400]` or `[fabric.A100-400-efa]`.
    pub(super) fn key(&self) -> String {
        let efa = if self.efa { "-efa" } else { "" };
        format!("{}-{:.0}{efa}", self.gpu.word(), self.gigabits)
    }

    /// Reads [`Self::key`].
    pub(super) fn read(key: &str) -> Option<Self> {
        let (rest, efa) = key.strip_suffix("-efa").map_or((key, false), |rest| (rest, true));
        let (word, gigabits) = rest.split_once('-')?;
        let gpu = GpuKind::chips().find(|kind| kind.word() == word)?;
        let gigabits = gigabits.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0)?;
        Some(Self { gpu, gigabits, efa })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fabric_reads_as_it_is_written() {
        for efa in [false, true] {
            let fabric = Fabric { gpu: GpuKind::A100, gigabits: 400.0, efa };
            assert_eq!(Fabric::read(&fabric.key()), Some(fabric));
        }
        for wrong in ["A100", "A100-", "A100-x", "A100--1", "X-400", "A100-400-x"] {
            assert_eq!(Fabric::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn another_rate_another_link_or_another_gpu_is_another_fabric() {
        let one = Fabric { gpu: GpuKind::A100, gigabits: 400.0, efa: false };
        assert!(one.is_like(&Fabric { gigabits: 410.0, ..one }));
        for other in [
            Fabric { gigabits: 800.0, ..one },
            Fabric { efa: true, ..one },
            Fabric { gpu: GpuKind::H100, ..one },
        ] {
            assert!(!one.is_like(&other), "{other:?}");
        }
    }
}
