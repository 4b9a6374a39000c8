//! Fresh weights: each element is a pure function of (seed, tensor, index), so that all layouts of ranks
//! start equal and each rank computes only its own shard.

use sha2::{Digest, Sha256};

use super::layout::{Initializer, Unit};

/// Mixes a counter into 64 uniform bits (the finalizer of splitmix64, Steele, Lea and Flood 2014).
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the first eight bytes of sha256(seed little-endian, name), little-endian.
pub fn key(seed: u64, name: &str) -> u64 {
    let mut hash = Sha256::new();
    hash.update(seed.to_le_bytes());
    hash.update(name.as_bytes());
    let digest = hash.finalize();
    digest.iter().take(8).rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

/// Returns a uniform number in (0, 1).
fn uniform(key: u64, counter: u64) -> f64 {
    let bits = mix(key.wrapping_add(counter.wrapping_mul(STEP))) >> 11;
    (bits as f64 + 0.5) / (1u64 << 53) as f64
}

/// Returns a standard normal number by the Box-Muller transform.
fn normal(key: u64, index: u64) -> f64 {
    let radius = (-2.0 * uniform(key, 2 * index).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * uniform(key, 2 * index + 1)).cos()
}

/// Returns standard normal numbers derived from a name, equal to those of the scripts that record PyTorch's
/// results.
pub fn normals(seed: u64, name: &str, elements: usize) -> Vec<f32> {
    let key = key(seed, name);
    (0..elements as u64).map(|index| normal(key, index) as f32).collect()
}

/// Fills `out` with the elements of the unit from `start` on; 0 past its end.
pub fn fill_initial(unit: &Unit, seed: u64, start: usize, out: &mut [f32]) {
    out.fill(0.0);
    for tensor in &unit.tensors {
        let range = tensor.range();
        let (from, to) = (range.start.max(start), range.end.min(start + out.len()));
        if from >= to {
            continue;
        }
        let key = key(seed, &tensor.name);
        for at in from..to {
            out[at - start] = match tensor.fresh {
                Initializer::Zero => 0.0,
                Initializer::One => 1.0,
                Initializer::Uniform(bound) => {
                    (bound * (2.0 * uniform(key, (at - tensor.offset) as u64) - 1.0)) as f32
                }
                Initializer::Normal(deviation) => {
                    (deviation * normal(key, (at - tensor.offset) as u64)) as f32
                }
            };
        }
    }
}
