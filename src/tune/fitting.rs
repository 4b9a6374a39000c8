//! What fits where no time can be predicted: by memory alone, the cheapest machines first.

use super::space::{Choice, Space};
use crate::predict::memory::{MEAN_ERROR, MemoryConstants, of_gpu};
use crate::predict::{Constants, Recompute};

/// A layout that fits, on machines of which it is the mildest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fitting {
    /// The layout.
    pub choice: Choice,
    /// Memory of the fullest GPU, bytes.
    pub memory_bytes: f64,
    /// The high end of it, bytes.
    pub memory_high_bytes: f64,
    /// Memory that a GPU has, bytes.
    pub capacity_bytes: f64,
    /// US dollars of an hour of its machines, at the price on demand where it is known.
    pub usd_per_hour: Option<f64>,
    /// On how many axes it differs from the manifest.
    pub changes: usize,
}

/// How much a layout does beside training, and how far it is from the manifest: of these the least is the mildest.
fn mildness(one: &Fitting) -> (bool, usize, bool, bool) {
    let choice = &one.choice;
    let sure = one.memory_high_bytes <= one.capacity_bytes;
    (
        !sure,
        one.changes,
        choice.waiting.activations || choice.waiting.states,
        choice.recompute != Recompute::None,
    )
}

/// For each number of nodes of each type the mildest layout that fits with room for what a prediction is off by in the mean;
/// the fewest dollars an hour first, and of machines without a price the fewest. Whether it is quicker, nobody knows.
pub fn fitting(space: &Space, constants: &Constants) -> Vec<Fitting> {
    let memory_constants = MemoryConstants::of(constants);
    let mut out: Vec<Fitting> = Vec::new();
    space.visit(|choice, layout| {
        let Some(capacity_bytes) = layout.hardware.memory_bytes else { return };
        let Some(site) = space.sites.get(choice.site) else { return };
        let memory_bytes = of_gpu(layout, &memory_constants).total();
        if memory_bytes * (1.0 + MEAN_ERROR) > capacity_bytes {
            return;
        }
        let one = Fitting {
            choice: *choice,
            memory_bytes,
            memory_high_bytes: memory_bytes * (1.0 + memory_constants.above),
            capacity_bytes,
            usd_per_hour: site.terms.most_usd(choice.nodes as f64, 3_600.0),
            changes: space.changes(choice),
        };
        let place = |other: &Fitting| (other.choice.site, other.choice.nodes);
        match out.iter_mut().find(|other| place(other) == place(&one)) {
            None => out.push(one),
            Some(other) => {
                let used = one.memory_bytes.total_cmp(&other.memory_bytes);
                if mildness(&one).cmp(&mildness(other)).then(used).is_lt() {
                    *other = one;
                }
            }
        }
    });
    let price = |one: &Fitting| one.usd_per_hour.unwrap_or(f64::INFINITY);
    out.sort_by(|a, b| price(a).total_cmp(&price(b)).then(a.choice.nodes.cmp(&b.choice.nodes)));
    out
}
