//! Collective communication between ranks: shards and gradients in, gathered units and sums out, with the
//! same bits on every rank of a group. Implementations of the one trait: `single_rank` for one rank, `shm`
//! for the processes of one host, `tcp` between hosts, `hierarchical` for groups that span hosts. GPU ranks
//! use them only for sums of a few numbers and for checkpoints; their tensors go through NCCL (`aten`).

mod hierarchical;
mod shared_memory;
pub mod shm;
pub mod single_rank;
pub mod tcp;
pub mod topology;

pub use shared_memory::{SharedMemory, Watchdog};
pub use topology::{Kind, Topology};

use crate::exit::Failure;
use crate::kernels::real::Real;

/// Number format in which parameters and gradients are sent; sums are always in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Unchanged f32.
    F32,
    /// Rounded to bfloat16, half the bytes.
    Bf16,
}

/// One group of ranks, as seen by one of them. Every member calls the same operations in the same order.
pub trait Collectives: Send {
    /// Returns this rank's index in the group.
    fn rank(&self) -> usize;
    /// Returns the number of members.
    fn size(&self) -> usize;
    /// Starts gathering with this rank's shard of a unit; does not wait for the other ranks.
    fn begin_gather(&mut self, shard: &[f32], wire: Wire) -> Result<(), Failure>;
    /// Completes the oldest pending gather: all shards, ordered by rank.
    fn end_gather(&mut self, full: &mut [f32], wire: Wire) -> Result<(), Failure>;
    /// Adds this rank's part of the sum of all members' `full` to `shard`.
    fn reduce_scatter(&mut self, full: &[f32], shard: &mut [f32], wire: Wire) -> Result<(), Failure>;
    /// Sums over all members.
    fn all_reduce(&mut self, values: &mut [f32], wire: Wire) -> Result<(), Failure>;
    /// Sums over all members.
    fn all_reduce_f64(&mut self, values: &mut [f64]) -> Result<(), Failure>;
    /// Returns once every member has called it.
    fn barrier(&mut self) -> Result<(), Failure> {
        self.all_reduce_f64(&mut [0.0])
    }
}

impl Wire {
    /// Returns the f32 words that store `elements` elements.
    fn words(self, elements: usize) -> usize {
        match self {
            Self::F32 => elements,
            Self::Bf16 => elements.div_ceil(2),
        }
    }

    /// Encodes values for sending.
    fn pack(self, values: &[f32], words: &mut [f32]) {
        match self {
            Self::F32 => words.copy_from_slice(values),
            Self::Bf16 => {
                for (word, pair) in words.iter_mut().zip(values.chunks(2)) {
                    let low = pair[0].bf16().to_bits() >> 16;
                    let high = pair.get(1).map_or(0, |v| v.bf16().to_bits() & 0xffff_0000);
                    *word = f32::from_bits(low | high);
                }
            }
        }
    }

    /// Decodes received values.
    fn unpack(self, words: &[f32], values: &mut [f32]) {
        match self {
            Self::F32 => values.copy_from_slice(words),
            Self::Bf16 => {
                for (pair, word) in values.chunks_mut(2).zip(words) {
                    pair[0] = f32::from_bits(word.to_bits() << 16);
                    if let Some(second) = pair.get_mut(1) {
                        *second = f32::from_bits(word.to_bits() & 0xffff_0000);
                    }
                }
            }
        }
    }
}

/// The groups of one rank: rank = replica * shard_degree + rank in the shard group.
pub struct Groups {
    /// All ranks.
    pub world: Box<dyn Collectives>,
    /// Ranks that share one copy of the parameters.
    pub shard: Box<dyn Collectives>,
    /// Ranks that hold the same shard.
    pub replica: Box<dyn Collectives>,
}

/// Sums the parts in a fixed tree, neighbours first. For powers of two, shard groups and replicas then sum in
/// the same tree as one large shard group.
fn tree_sum(parts: &[&[f32]], at: usize, out: &mut [f32]) {
    match parts {
        [] => out.fill(0.0),
        [one] => out.copy_from_slice(&one[at..at + out.len()]),
        [a, b] => {
            let (a, b) = (&a[at..at + out.len()], &b[at..at + out.len()]);
            for ((o, a), b) in out.iter_mut().zip(a).zip(b) {
                *o = a + b;
            }
        }
        more => {
            let half = more.len().next_power_of_two() / 2;
            tree_sum(&more[..half], at, out);
            let mut right = [0.0f32; BLOCK];
            let right = &mut right[..out.len()];
            tree_sum(&more[half..], at, right);
            for (o, r) in out.iter_mut().zip(right.iter()) {
                *o += *r;
            }
        }
    }
}

const BLOCK: usize = 512;

/// Sums a few numbers in the same tree.
fn tree_sum_f64(parts: &[f64]) -> f64 {
    match parts {
        [] => 0.0,
        [one] => *one,
        more => {
            let (left, right) = more.split_at(more.len().next_power_of_two() / 2);
            tree_sum_f64(left) + tree_sum_f64(right)
        }
    }
}

/// Computes out = (or +=) the sum of encoded parts.
fn sum_packed_parts(parts: &[&[f32]], wire: Wire, out: &mut [f32], add: bool) {
    match wire {
        Wire::F32 => sum_parts(parts, out, add),
        Wire::Bf16 => {
            let unpacked: Vec<Vec<f32>> = parts
                .iter()
                .map(|words| {
                    let mut values = vec![0.0; out.len()];
                    wire.unpack(words, &mut values);
                    values
                })
                .collect();
            let parts: Vec<&[f32]> = unpacked.iter().map(Vec::as_slice).collect();
            sum_parts(&parts, out, add);
        }
    }
}

/// Computes out = (or +=) the sum of the parts.
fn sum_parts(parts: &[&[f32]], out: &mut [f32], add: bool) {
    let mut sum = [0.0f32; BLOCK];
    for (i, out) in out.chunks_mut(BLOCK).enumerate() {
        let sum = &mut sum[..out.len()];
        tree_sum(parts, i * BLOCK, sum);
        if add {
            for (o, s) in out.iter_mut().zip(sum.iter()) {
                *o += *s;
            }
        } else {
            out.copy_from_slice(sum);
        }
    }
}
