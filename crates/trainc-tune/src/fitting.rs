//! Layouts that fit by memory alone, for jobs without a predicted time.

use super::choice::Choice;
use super::space::Space;
use trainc_predict::memory::{MemoryConstants, gpu_memory_parts, has_room};
use trainc_predict::{Constants, Recompute};

/// A layout that fits, the mildest on its machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fitting {
    /// The layout.
    pub choice: Choice,
    /// Memory of the fullest GPU, bytes.
    pub memory_bytes: f64,
    /// Lower end of it, bytes.
    pub memory_low_bytes: f64,
    /// Upper end of it, bytes.
    pub memory_high_bytes: f64,
    /// Memory of a GPU, bytes.
    pub capacity_bytes: f64,
    /// US dollars per hour of its machines, at the on-demand price if known.
    pub usd_per_hour: Option<f64>,
    /// Number of axes on which it differs from the manifest.
    pub changes: usize,
    /// Difference of its micro-batch from the manifest's.
    pub micro_apart: u64,
    /// Number of layouts of its shape that fit, including itself.
    pub alike: usize,
}

/// Returns a sort key, lowest for the mildest layout: true if it may not fit, distance from the manifest, and
/// additional work besides training.
fn mildness(one: &Fitting) -> (bool, usize, bool, bool, u64) {
    let choice = &one.choice;
    let sure = one.memory_high_bytes <= one.capacity_bytes;
    (
        !sure,
        one.changes,
        choice.host_offload.activations || choice.host_offload.states,
        choice.recompute != Recompute::None,
        one.micro_apart,
    )
}

/// Layouts of a space that fit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fits {
    /// For each number of nodes of each type the layouts that fit, the mildest of each shape, the mildest
    /// shape first: if a check rejects one, the next replaces it. Ascending by dollars per hour, and by
    /// number of machines if the price is unknown. Their speed is unknown.
    pub machines: Vec<Vec<Fitting>>,
    /// Number of layouts searched.
    pub searched: usize,
    /// Number of those on machines of unknown memory.
    pub unknown: usize,
    /// Number of those that fit with room for the mean error of the prediction.
    pub fit: usize,
}

/// Returns the layouts of a space that fit by memory alone.
pub fn fitting(space: &Space, constants: &Constants) -> Fits {
    let memory_constants = MemoryConstants::from_constants(constants);
    let mut out = Fits::default();
    let mut found: Vec<Fitting> = Vec::new();
    let written = space.as_written().copied();
    space.visit(|choice, layout| {
        out.searched += 1;
        let Some(capacity_bytes) = layout.hardware.memory_bytes else {
            out.unknown += 1;
            return;
        };
        let Some(site) = space.sites.get(choice.site) else { return };
        let memory_bytes = gpu_memory_parts(layout, &memory_constants).total();
        if !has_room(memory_bytes, capacity_bytes) {
            return;
        }
        out.fit += 1;
        let one = Fitting {
            choice: *choice,
            memory_bytes,
            memory_low_bytes: memory_bytes * (1.0 - memory_constants.ends(layout).0),
            memory_high_bytes: memory_bytes * (1.0 + memory_constants.ends(layout).1),
            capacity_bytes,
            usd_per_hour: site.terms.as_ref().and_then(|terms| terms.most_usd(choice.nodes as f64, 3_600.0)),
            changes: space.changed_axes(choice),
            micro_apart: written
                .map_or(0, |written| written.micro_batch_size.abs_diff(choice.micro_batch_size)),
            alike: 1,
        };
        // Layouts of one shape are visited consecutively.
        match found.iter_mut().rev().find(|other| has_same_shape(&other.choice, &one.choice)) {
            None => found.push(one),
            Some(other) => {
                let alike = other.alike + 1;
                let mildest = if compare_mildness(&one, other).is_lt() { one } else { *other };
                *other = Fitting { alike, ..mildest };
            }
        }
    });
    for one in found {
        let place = |other: &Fitting| (other.choice.site, other.choice.nodes);
        let same = |machine: &&mut Vec<Fitting>| machine.first().is_some_and(|it| place(it) == place(&one));
        match out.machines.iter_mut().find(same) {
            None => out.machines.push(vec![one]),
            Some(machine) => machine.push(one),
        }
    }
    for machine in &mut out.machines {
        machine.sort_by(compare_mildness);
    }
    let key = |machine: &Vec<Fitting>| {
        machine
            .first()
            .map_or((f64::INFINITY, 0), |one| (one.usd_per_hour.unwrap_or(f64::INFINITY), one.choice.nodes))
    };
    out.machines.sort_by(|a, b| {
        let (a, b) = (key(a), key(b));
        a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
    });
    out
}

/// Returns true if two layouts have the same shape: a check that rejects one rejects the other.
pub fn has_same_shape(a: &Choice, b: &Choice) -> bool {
    a.site == b.site && a.nodes == b.nodes && a.degrees == b.degrees && a.host_offload == b.host_offload
}

fn compare_mildness(a: &Fitting, b: &Fitting) -> std::cmp::Ordering {
    mildness(a).cmp(&mildness(b)).then(a.memory_bytes.total_cmp(&b.memory_bytes))
}
