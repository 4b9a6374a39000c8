//! Norm weights and biases where units are gathered in bf16: of each step's rounding theirs would weigh most, for they
//! scale whole columns and lie near 1, where bf16 has steps of 1/128. So every rank gets all of them in f32 before a pass:
//! a sum over the shard group, in which each rank gives those that it holds.

use std::ops::Range;

use super::Shard;
use crate::comm::{Collectives, Wire};
use crate::exit::Failure;
use crate::model::layout::Unit;

/// All vectors of a model, whole.
pub(super) struct Vectors {
    values: Vec<f32>,
    /// Of each unit: where a vector lies in it, and where in `values`.
    places: Vec<Vec<(Range<usize>, usize)>>,
}

impl Vectors {
    /// Elements in all units.
    pub(super) fn elements<'a>(units: impl IntoIterator<Item = &'a Unit>) -> usize {
        units.into_iter().flat_map(vectors).map(|range| range.len()).sum()
    }

    /// Room for those of `units`.
    pub(super) fn new<'a>(units: impl IntoIterator<Item = &'a Unit>) -> Self {
        let mut at = 0;
        let mut place = |range: Range<usize>| {
            let begin = at;
            at += range.len();
            (range, begin)
        };
        let places = units.into_iter().map(|unit| vectors(unit).map(&mut place).collect()).collect();
        Self { values: vec![0.0; at], places }
    }

    /// Makes them whole, from the master weights as they are now. Every rank of the shard group calls it.
    pub(super) fn share(&mut self, shards: &[Shard], group: &mut dyn Collectives) -> Result<(), Failure> {
        // The one number that changes no other when it is added, not even the sign of 0.
        self.values.fill(-0.0);
        for (shard, places) in shards.iter().zip(&self.places) {
            let end = shard.start + shard.master.len();
            for (range, at) in places {
                let (from, to) = (range.start.max(shard.start), range.end.min(end));
                if from < to {
                    let at = at + from - range.start;
                    self.values[at..at + to - from]
                        .copy_from_slice(&shard.master[from - shard.start..to - shard.start]);
                }
            }
        }
        group.all_reduce(&mut self.values, Wire::F32)
    }

    /// Puts a unit's into it, in place of their rounded selves.
    pub(super) fn put(&self, unit: usize, whole: &mut [f32]) {
        for (range, at) in self.places.get(unit).into_iter().flatten() {
            whole[range.clone()].copy_from_slice(&self.values[*at..*at + range.len()]);
        }
    }

    /// Elements that are held.
    pub(super) fn allocated(&self) -> usize {
        self.values.capacity()
    }
}

fn vectors(unit: &Unit) -> impl Iterator<Item = Range<usize>> + '_ {
    unit.tensors.iter().filter(|tensor| tensor.rows == 1).map(crate::model::layout::Tensor::range)
}
