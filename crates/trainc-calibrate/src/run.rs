//! Runs read from a table.

use super::impossible::Impossible;
use trainc_predict::Layout;
use trainc_predict::memory::MeasuredAs;

/// A training run read from a row of a table.
#[derive(Clone, Debug)]
pub struct Run {
    /// Name.
    pub id: String,
    /// Publication or cluster of the run; rows of one family share hardware and software.
    pub family: String,
    /// Every cell that describes the run: all but its name and the measurements. Two rows of one family with
    /// equal descriptions are repeated measurements.
    pub description: String,
    /// True if it ran out of memory.
    pub oom: bool,
    /// Layout, or the reason why the row does not give one.
    pub layout: Result<Layout, String>,
    /// True if the source gives the links of its GPUs: within a node, and between nodes if there are several.
    pub has_links: bool,
    /// Measured seconds per step, or the reason why they are unknown.
    pub step_seconds: Result<f64, String>,
    /// Possible layouts of a row that gives everything but its micro-batch.
    pub candidates: Vec<Layout>,
    /// Measured seconds per step of such a row.
    pub candidates_step_seconds: Option<f64>,
    /// Measured peak memory of a GPU in bytes, with the instrument.
    pub peak_memory: Option<(f64, MemoryKind)>,
    /// Layout with the settings that only memory depends on, or the reason why memory cannot be judged.
    pub memory_layout: Result<Layout, String>,
}

impl Run {
    /// Removes everything that could be judged.
    pub(super) fn discard(&mut self, why: &str) {
        (self.layout, self.memory_layout) = (Err(why.to_owned()), Err(why.to_owned()));
        (self.step_seconds, self.candidates_step_seconds) = (Err(why.to_owned()), None);
        (self.candidates, self.peak_memory) = (Vec::new(), None);
    }
}

/// Instrument of a peak memory figure, the column `mem_kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// `max_memory_allocated`.
    Allocated,
    /// `max_memory_reserved`.
    Reserved,
    /// nvidia-smi: reserved memory, CUDA context and NCCL.
    Smi,
    /// Computed by the source, so not evidence.
    Computed,
}

impl MemoryKind {
    /// Parses a cell of the column `mem_kind`.
    pub(super) fn parse(word: &str) -> Option<Self> {
        match word {
            "allocated" => Some(Self::Allocated),
            "reserved" => Some(Self::Reserved),
            "smi" => Some(Self::Smi),
            "computed" => Some(Self::Computed),
            _ => None,
        }
    }

    /// Returns the part of a GPU's memory that the instrument counts.
    pub fn measured_as(self) -> MeasuredAs {
        match self {
            Self::Allocated => MeasuredAs::Allocated,
            Self::Reserved => MeasuredAs::Reserved,
            Self::Smi | Self::Computed => MeasuredAs::Whole,
        }
    }
}

/// A table of runs.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Runs, one per row.
    pub runs: Vec<Run>,
    /// Faults of the rows that are physically impossible; these are among the runs, without a layout.
    pub impossible: Vec<Impossible>,
}
