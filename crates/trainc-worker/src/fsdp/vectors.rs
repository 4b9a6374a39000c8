//! Norm weights and biases when units are gathered in bf16. Rounding would affect them most, because they
//! scale whole columns and are close to 1, where bf16 has steps of 1/128. Every rank therefore receives all
//! of them in f32 before a pass, by a sum over the shard group to which each rank contributes its own.

use std::ops::Range;

use super::Shard;
use super::cpu::Values;
use crate::comm::{Collectives, Wire};
use crate::exit::Failure;
use crate::model::layout::Unit;

/// All vectors of a model in f32.
pub(super) struct Vectors {
    values: Vec<f32>,
    /// For each unit, the range of each vector in the unit and its offset in `values`.
    places: Vec<Vec<Place>>,
}

impl Vectors {
    /// Returns the elements of all vectors.
    pub(super) fn elements<'a>(units: impl IntoIterator<Item = &'a Unit>) -> usize {
        units.into_iter().flat_map(vectors).map(|range| range.len()).sum()
    }

    /// Allocates the vectors of `units`.
    pub(super) fn new<'a>(units: impl IntoIterator<Item = &'a Unit>) -> Self {
        let (places, elements) = vector_places(units);
        Self { values: vec![0.0; elements], places }
    }

    /// Updates all vectors from the current master weights. Every rank of the shard group must call it.
    pub(super) fn gather_vectors(
        &mut self,
        shards: &[Shard],
        all: &[Values],
        group: &mut dyn Collectives,
    ) -> Result<(), Failure> {
        // -0.0 is the additive identity: it preserves even the sign of 0.
        self.values.fill(-0.0);
        for ((shard, values), places) in shards.iter().zip(all).zip(&self.places) {
            let end = shard.start + shard.len;
            for (range, at) in places {
                let (from, to) = (range.start.max(shard.start), range.end.min(end));
                if from < to {
                    let at = at + from - range.start;
                    self.values[at..at + to - from]
                        .copy_from_slice(&values.master[from - shard.start..to - shard.start]);
                }
            }
        }
        group.all_reduce(&mut self.values, Wire::F32)
    }

    /// Replaces the rounded vectors of a gathered unit.
    pub(super) fn copy_into_unit(&self, unit: usize, whole: &mut [f32]) {
        for (range, at) in self.places.get(unit).into_iter().flatten() {
            whole[range.clone()].copy_from_slice(&self.values[*at..*at + range.len()]);
        }
    }

    /// Returns the allocated elements.
    pub(super) fn allocated(&self) -> usize {
        self.values.capacity()
    }
}

/// Range of a vector in its unit, and its offset among all vectors.
pub(crate) type Place = (Range<usize>, usize);

/// Returns the places of each unit's vectors, and the elements of all.
pub(crate) fn vector_places<'a>(units: impl IntoIterator<Item = &'a Unit>) -> (Vec<Vec<Place>>, usize) {
    let mut at = 0;
    let mut place = |range: Range<usize>| {
        let begin = at;
        at += range.len();
        (range, begin)
    };
    let places = units.into_iter().map(|unit| vectors(unit).map(&mut place).collect()).collect();
    (places, at)
}

fn vectors(unit: &Unit) -> impl Iterator<Item = Range<usize>> + '_ {
    unit.tensors.iter().filter(|tensor| tensor.rows == 1).map(crate::model::layout::Tensor::range)
}
