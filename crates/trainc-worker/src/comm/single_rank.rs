//! Collectives of a single rank.

use std::collections::VecDeque;

use super::{Collectives, Wire};
use crate::exit::Failure;
use crate::kernels::rows;

/// A group of one rank.
#[derive(Debug, Default)]
pub struct SingleRank {
    begun: VecDeque<Vec<f32>>,
}

impl Collectives for SingleRank {
    fn rank(&self) -> usize {
        0
    }
    fn size(&self) -> usize {
        1
    }
    fn begin_gather(&mut self, shard: &[f32], _wire: Wire) -> Result<(), Failure> {
        self.begun.push_back(shard.to_vec());
        Ok(())
    }
    fn end_gather(&mut self, full: &mut [f32], wire: Wire) -> Result<(), Failure> {
        if let Some(shard) = self.begun.pop_front() {
            full.copy_from_slice(&shard);
        }
        if wire == Wire::Bf16 {
            rows::round_bf16(full);
        }
        Ok(())
    }
    fn reduce_scatter(&mut self, full: &[f32], shard: &mut [f32], _wire: Wire) -> Result<(), Failure> {
        rows::add(shard, full);
        Ok(())
    }
    fn all_reduce(&mut self, _values: &mut [f32], _wire: Wire) -> Result<(), Failure> {
        Ok(())
    }
    fn all_reduce_f64(&mut self, _values: &mut [f64]) -> Result<(), Failure> {
        Ok(())
    }
}
