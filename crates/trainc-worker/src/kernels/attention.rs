//! Causal attention with grouped heads, optionally limited to documents. Scores exist only for one tile of
//! queries of one head at a time; the backward pass recomputes the probabilities from the saved log-sum-exp.

use super::gemm::{self, MatrixView, Update};
use super::real::Real;
use super::rows;

/// Shape of q, k and v, which are concatenated in each row: q heads, then k heads, then v heads.
#[derive(Clone, Copy, Debug)]
pub struct AttentionShape {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Elements of one head.
    pub dim: usize,
    /// Tokens of one sequence.
    pub sequence: usize,
}

/// Queries per tile: keeps the scores of a tile within the L2 cache up to 2,048 keys.
const TILE: usize = 64;

impl AttentionShape {
    /// Returns the elements of one row of q, k, v.
    pub fn width(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.dim
    }

    /// Returns the required elements of `scratch`.
    pub fn scratch(&self) -> usize {
        2 * TILE.min(self.sequence) * self.sequence
    }

    fn head_view<'a, T: Real>(
        &self,
        qkv: &'a [T],
        row: usize,
        rows: usize,
        head: usize,
    ) -> MatrixView<'a, T> {
        MatrixView {
            data: &qkv[row * self.width() + head * self.dim..],
            rows,
            cols: self.dim,
            stride: self.width(),
        }
    }
}

/// Returns the first key that a query attends to, relative to its sequence: the start of its document.
fn first_key(begins: &[u32], row: usize) -> usize {
    begins.get(row).map_or(0, |begin| *begin as usize)
}

/// Computes out = attention(qkv) and stores one log-sum-exp per row and head in `lse`.
pub fn forward<T: Real>(
    shape: AttentionShape,
    begins: &[u32],
    qkv: &[T],
    out: &mut [T],
    lse: &mut [T],
    scratch: &mut [T],
) {
    let AttentionShape { heads, kv_heads, dim, sequence } = shape;
    let width = heads * dim;
    let scale = T::from_f64(1.0 / (dim as f64).sqrt());
    for start in (0..out.len() / width).step_by(sequence) {
        for head in 0..heads {
            let kv = head / (heads / kv_heads);
            for first in (0..sequence).step_by(TILE) {
                let tile = TILE.min(sequence - first);
                // Documents are consecutive: the tile's first query has the earliest start.
                let low = first_key(begins, start + first);
                let keys = first + tile - low;
                let q = shape.head_view(qkv, start + first, tile, head);
                let k = shape.head_view(qkv, start + low, keys, heads + kv);
                let v = shape.head_view(qkv, start + low, keys, heads + kv_heads + kv);
                let s = &mut scratch[..tile * keys];
                gemm::nt(s, keys, Update::Replace, q, k, T::ONE, 1);
                for (i, row) in s.chunks_exact_mut(keys).enumerate() {
                    let (query, live) = (start + first + i, first + i + 1 - low);
                    let from = first_key(begins, query) - low;
                    lse[query * heads + head] = rows::softmax_row(row, from, live, scale);
                }
                let to = &mut out[(start + first) * width + head * dim..];
                gemm::nn(to, width, Update::Replace, MatrixView::new(s, tile, keys), v, T::ONE, 1);
            }
        }
    }
}

/// Computes dqkv, the gradient of attention, from the inputs and outputs of the forward pass.
pub fn backward<T: Real>(
    shape: AttentionShape,
    begins: &[u32],
    qkv: &[T],
    out: &[T],
    lse: &[T],
    dout: &[T],
    dqkv: &mut [T],
    scratch: &mut [T],
) {
    let AttentionShape { heads, kv_heads, dim, sequence } = shape;
    let (width, full) = (heads * dim, shape.width());
    let scale = T::from_f64(1.0 / (dim as f64).sqrt());
    dqkv.fill(T::ZERO);
    let (p, dp) = scratch.split_at_mut(scratch.len() / 2);
    for start in (0..out.len() / width).step_by(sequence) {
        for head in 0..heads {
            let kv = head / (heads / kv_heads);
            for first in (0..sequence).step_by(TILE) {
                let tile = TILE.min(sequence - first);
                // Documents are consecutive: the tile's first query has the earliest start.
                let low = first_key(begins, start + first);
                let keys = first + tile - low;
                let q = shape.head_view(qkv, start + first, tile, head);
                let k = shape.head_view(qkv, start + low, keys, heads + kv);
                let v = shape.head_view(qkv, start + low, keys, heads + kv_heads + kv);
                let here = (start + first) * width + head * dim;
                let d = MatrixView { data: &dout[here..], rows: tile, cols: dim, stride: width };
                let (p, dp) = (&mut p[..tile * keys], &mut dp[..tile * keys]);
                gemm::nt(p, keys, Update::Replace, q, k, T::ONE, 1);
                for (i, row) in p.chunks_exact_mut(keys).enumerate() {
                    let (query, live) = (start + first + i, first + i + 1 - low);
                    let from = first_key(begins, query) - low;
                    rows::recompute_softmax_row(row, from, live, scale, lse[query * heads + head]);
                }
                let dv = &mut dqkv[(start + low) * full + (heads + kv_heads + kv) * dim..];
                gemm::tn(dv, full, Update::Add, MatrixView::new(p, tile, keys), d, T::ONE, 1);
                gemm::nt(dp, keys, Update::Replace, d, v, T::ONE, 1);
                for (i, (p, dp)) in p.chunks_exact(keys).zip(dp.chunks_exact_mut(keys)).enumerate() {
                    let at = here + i * width;
                    let delta = rows::dot(&dout[at..at + dim], &out[at..at + dim]);
                    rows::softmax_backward_row(p, dp, delta, scale);
                }
                let ds = MatrixView::new(dp, tile, keys);
                let dq = &mut dqkv[(start + first) * full + head * dim..];
                gemm::nn(dq, full, Update::Replace, ds, k, T::ONE, 1);
                let dk = &mut dqkv[(start + low) * full + (heads + kv) * dim..];
                gemm::tn(dk, full, Update::Add, ds, q, T::ONE, 1);
            }
        }
    }
}
