//! Order of sequences: a new permutation each epoch, computed for any position in constant memory.

use crate::config::Batch;
use crate::model::init::{key, mix};

/// Order of the sequences of one run.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// Sequences per epoch.
    pub sequences: u64,
    /// Seed of the permutation; none if not shuffled.
    pub seed: Option<u64>,
}

impl Order {
    /// Returns the sequence at `position` of the run; epochs follow each other.
    pub fn sequence_at(&self, position: u64) -> u64 {
        let (epoch, place) = (position / self.sequences, position % self.sequences);
        match self.seed {
            None => place,
            Some(seed) => permute(place, self.sequences, key(seed, &format!("epoch {epoch}"))),
        }
    }
}

/// Returns the positions that a rank reads in one pass of a step. Within a step, positions are ordered by
/// pass, then by rank.
pub fn rank_positions(
    batch: &Batch,
    ranks: usize,
    rank: usize,
    step: u64,
    pass: usize,
) -> std::ops::Range<u64> {
    let first = step * batch.global_sequences as u64 + ((pass * ranks + rank) * batch.micro) as u64;
    first..first + batch.micro as u64
}

/// Permutes 0..n with a four-round Feistel network on the next even power of two and cycle walking.
fn permute(mut x: u64, n: u64, key: u64) -> u64 {
    let bits = (64 - (n - 1).leading_zeros()).max(2).div_ceil(2);
    let mask = (1u64 << bits) - 1;
    loop {
        let (mut left, mut right) = (x >> bits, x & mask);
        for round in 0..4u64 {
            let mixed = mix(key ^ mix(right.wrapping_add(round << 56)));
            (left, right) = (right, left ^ (mixed & mask));
        }
        x = left << bits | right;
        if x < n {
            return x;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_epoch_is_a_permutation_of_its_own() {
        for n in [1u64, 2, 3, 7, 64, 1000] {
            let order = Order { sequences: n, seed: Some(9) };
            let mut epochs = Vec::new();
            for epoch in 0..3 {
                let seen: Vec<u64> = (0..n).map(|i| order.sequence_at(epoch * n + i)).collect();
                let mut sorted = seen.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, (0..n).collect::<Vec<_>>());
                epochs.push(seen);
            }
            if n > 10 {
                assert_ne!(epochs[0], epochs[1]);
                assert_ne!(epochs[0], (0..n).collect::<Vec<_>>());
            }
        }
        let plain = Order { sequences: 3, seed: None };
        assert_eq!((0..6).map(|i| plain.sequence_at(i)).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2]);
    }
}
