//! Embedding, and final norm with head and loss. Logits exist for one chunk of rows at a time.

use super::block::Pass;
use super::layout::Shape;
use crate::kernels::gemm::{self, MatrixView, Update};
use crate::kernels::real::Real;
use crate::kernels::rows;

/// Rows per chunk of logits.
const CHUNK: usize = 256;

/// Buffers of the head.
#[allow(missing_docs, reason = "each name is the value's")]
#[derive(Debug)]
pub struct HeadScratch<T> {
    pub normed: Vec<T>,
    pub dnormed: Vec<T>,
    pub stats: Vec<T>,
    pub logits: Vec<T>,
}

impl<T: Real> HeadScratch<T> {
    /// Allocates the buffers for a pass.
    pub fn new(pass: &Pass<T>) -> Self {
        let (n, s) = (pass.rows, &pass.shape);
        Self {
            normed: vec![T::ZERO; n * s.hidden],
            dnormed: vec![T::ZERO; n * s.hidden],
            stats: vec![T::ZERO; n * 2],
            logits: vec![T::ZERO; CHUNK.min(n) * s.vocab],
        }
    }

    /// Returns the allocated elements.
    pub fn allocated(&self) -> usize {
        let Self { normed, dnormed, stats, logits } = self;
        [normed, dnormed, stats, logits].into_iter().map(Vec::capacity).sum()
    }

    /// Returns the number of elements.
    pub fn elements(shape: &Shape, rows: usize) -> usize {
        rows * (2 * shape.hidden + 2) + CHUNK.min(rows) * shape.vocab
    }
}

fn split_embedding_tables<'a, T>(shape: &Shape, p: &'a [T]) -> (&'a [T], &'a [T]) {
    let tokens = shape.vocab * shape.hidden;
    let positions = if shape.rotated == 0 { shape.heads.sequence * shape.hidden } else { 0 };
    (&p[..tokens], &p[tokens..tokens + positions])
}

/// Computes x = embedding of the tokens.
pub fn embed_forward<T: Real>(pass: &Pass<T>, p: &[T], tokens: &[u32], x: &mut [T]) {
    let (table, positions) = split_embedding_tables(&pass.shape, p);
    rows::embed_forward(
        tokens,
        &pass.begins,
        table,
        positions,
        pass.shape.heads.sequence,
        pass.shape.hidden,
        x,
    );
}

/// Adds to the gradient of the embedding.
pub fn embed_backward<T: Real>(pass: &Pass<T>, tokens: &[u32], d: &[T], g: &mut [T]) {
    let s = &pass.shape;
    let (table, positions) = g.split_at_mut(s.vocab * s.hidden);
    let positions = if s.rotated == 0 { &mut positions[..s.heads.sequence * s.hidden] } else { &mut [] };
    rows::embed_backward(tokens, &pass.begins, d, s.heads.sequence, s.hidden, table, positions);
}

/// Returns the logits of all rows.
pub fn logits<T: Real>(
    pass: &Pass<T>,
    p: &[T],
    matrix: &[T],
    x: &[T],
    scratch: &mut HeadScratch<T>,
) -> Vec<T> {
    norm(pass, p, x, scratch);
    let (s, n) = (&pass.shape, pass.rows);
    let mut out = vec![T::ZERO; n * s.vocab];
    let (normed, matrix) =
        (MatrixView::new(&scratch.normed, n, s.hidden), MatrixView::new(matrix, s.vocab, s.hidden));
    gemm::nt(&mut out, s.vocab, Update::Replace, normed, matrix, T::ONE, pass.threads);
    out
}

/// Returns the sum of the loss over the rows, without gradients.
pub fn evaluate<T: Real>(
    pass: &Pass<T>,
    p: &[T],
    matrix: &[T],
    x: &[T],
    labels: &[u32],
    scratch: &mut HeadScratch<T>,
) -> f64 {
    norm(pass, p, x, scratch);
    let (s, h) = (&pass.shape, pass.shape.hidden);
    let mut loss = 0.0;
    for (first, labels) in labels.chunks(CHUNK).enumerate() {
        let rows = labels.len();
        let logits = &mut scratch.logits[..rows * s.vocab];
        let chunk = MatrixView::new(&scratch.normed[first * CHUNK * h..], rows, h);
        gemm::nt(
            logits,
            s.vocab,
            Update::Replace,
            chunk,
            MatrixView::new(matrix, s.vocab, h),
            T::ONE,
            pass.threads,
        );
        loss += rows::cross_entropy(logits, labels, s.vocab, 0.0);
    }
    loss
}

fn norm<T: Real>(pass: &Pass<T>, p: &[T], x: &[T], scratch: &mut HeadScratch<T>) {
    let (s, h) = (&pass.shape, pass.shape.hidden);
    let bias = if s.norm == rows::Norm::Layer { &p[h..2 * h] } else { &p[..0] };
    rows::norm_forward(s.norm, s.eps, x, &p[..h], bias, &mut scratch.normed, &mut scratch.stats);
    pass.round_to_compute(&mut scratch.normed);
}

/// Returns the offset of the head's matrix in its unit, if it is not the embedding.
pub fn matrix_offset(shape: &Shape) -> usize {
    if shape.norm == rows::Norm::Layer { 2 * shape.hidden } else { shape.hidden }
}

/// Computes loss and gradients together. Returns the sum of the loss over the rows; `d` becomes the gradient
/// of `x`, with every row's loss times `scale`. The parameters' gradients are stored in `gnorm`, and added to
/// `gmatrix` unless it is none.
pub fn loss<T: Real>(
    pass: &Pass<T>,
    p: &[T],
    matrix: &[T],
    x: &[T],
    labels: &[u32],
    scale: f64,
    scratch: &mut HeadScratch<T>,
    d: &mut [T],
    gnorm: &mut [T],
    mut gmatrix: Option<&mut [T]>,
) -> f64 {
    norm(pass, p, x, scratch);
    let (s, h) = (&pass.shape, pass.shape.hidden);
    let mut loss = 0.0;
    for (first, labels) in labels.chunks(CHUNK).enumerate() {
        let rows = labels.len();
        let at = first * CHUNK * h;
        let logits = &mut scratch.logits[..rows * s.vocab];
        let chunk = MatrixView::new(&scratch.normed[at..], rows, h);
        let matrix = MatrixView::new(matrix, s.vocab, h);
        gemm::nt(logits, s.vocab, Update::Replace, chunk, matrix, T::ONE, pass.threads);
        loss += rows::cross_entropy(logits, labels, s.vocab, scale);
        let dlogits = MatrixView::new(logits, rows, s.vocab);
        if let Some(gmatrix) = gmatrix.as_deref_mut() {
            gemm::tn(gmatrix, h, Update::Add, dlogits, chunk, T::ONE, pass.threads);
        }
        gemm::nn(&mut scratch.dnormed[at..], h, Update::Replace, dlogits, matrix, T::ONE, pass.threads);
    }
    pass.round_to_compute(&mut scratch.dnormed);
    d.fill(T::ZERO);
    gnorm[..matrix_offset(s)].fill(T::ZERO);
    let (dw, db) = gnorm.split_at_mut(h);
    rows::norm_backward(s.norm, x, &p[..h], &scratch.stats, &scratch.dnormed, d, dw, db);
    loss
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::attention::AttentionShape;
    use crate::kernels::rows::{Act, IGNORED, Norm};
    use crate::model::block::{self, SavedActivations, Scratch};
    use crate::model::gradients::Gradients;
    use crate::model::init;

    fn whole<T: Real>(pass: &Pass<T>, p: &[Vec<T>], tokens: &[u32], labels: &[u32]) -> (f64, Vec<Vec<T>>) {
        let s = &pass.shape;
        let mut g: Vec<Vec<T>> = p.iter().map(|p| vec![T::from_f64(0.0); p.len()]).collect();
        let mut scratch = Scratch::new(pass);
        let mut x = vec![T::from_f64(0.0); pass.rows * s.hidden];
        embed_forward(pass, &p[0], tokens, &mut x);
        let mut kept = Vec::new();
        for layer in 0..s.layers {
            let mut saved = SavedActivations::new(pass);
            saved.x.copy_from_slice(&x);
            block::forward(pass, &p[1 + layer], &mut saved, &mut scratch, &mut x);
            kept.push(saved);
        }
        let counted = labels.iter().filter(|l| **l != IGNORED).count() as f64;
        let mut head = HeadScratch::new(pass);
        let mut d = x.clone();
        let last = s.layers + 1;
        let at = matrix_offset(s);
        let mut gm = vec![T::from_f64(0.0); s.vocab * s.hidden];
        let matrix = if s.tied { &p[0][..s.vocab * s.hidden] } else { &p[last][at..] };
        let sum = loss(
            pass,
            &p[last],
            matrix,
            &x,
            labels,
            1.0 / counted,
            &mut head,
            &mut d,
            &mut g[last],
            Some(&mut gm),
        );
        let to = if s.tied { &mut g[0][..s.vocab * s.hidden] } else { &mut g[last][at..] };
        rows::add(to, &gm);
        for layer in (0..s.layers).rev() {
            let gradients = Gradients::All(&mut g[1 + layer]);
            block::backward(pass, &p[1 + layer], &mut kept[layer], &mut scratch, &mut d, gradients);
        }
        embed_backward(pass, tokens, &d, &mut g[0]);
        (sum / counted, g)
    }

    #[track_caller]
    fn check(norm: Norm, act: Act, biases: bool, rotated: usize, parallel: bool, tied: bool) {
        let heads = AttentionShape { heads: 4, kv_heads: if biases { 4 } else { 2 }, dim: 6, sequence: 67 };
        let shape = Shape {
            vocab: 37,
            hidden: 20,
            inner: 28,
            layers: 2,
            heads,
            norm,
            eps: 1e-5,
            act,
            biases,
            rotated,
            theta: 10_000.0,
            scaling: None,
            adapter: None,
            parallel,
            tied,
            initializer_range: 0.3,
        };
        let pass = Pass::<f64>::new(&shape, 2, 1, false);
        let mut p: Vec<Vec<f64>> = Vec::new();
        for unit in shape.units() {
            let mut fresh = vec![0.0f32; unit.len];
            init::fill_initial(&unit, 3, 0, &mut fresh);
            let noise = init::key(5, &unit.name);
            let vary = |(i, v): (usize, &f32)| {
                f64::from(*v)
                    + (init::mix(noise.wrapping_add(i as u64)) >> 11) as f64 / (1u64 << 54) as f64 * 0.2
            };
            p.push(fresh.iter().enumerate().map(vary).collect());
        }
        let tokens: Vec<u32> = (0..pass.rows as u64).map(|i| (init::mix(i) % 37) as u32).collect();
        let mut labels: Vec<u32> = (0..pass.rows as u64).map(|i| (init::mix(i + 999) % 37) as u32).collect();
        labels[5] = IGNORED;
        let (_, g) = whole(&pass, &p, &tokens, &labels);
        for (u, unit) in shape.units().iter().enumerate() {
            for tensor in &unit.tensors {
                for probe in 0..3u64 {
                    let at = tensor.offset + (init::mix(probe + 77) % tensor.elements() as u64) as usize;
                    let was = p[u][at];
                    let step = 1e-5;
                    p[u][at] = was + step;
                    let above = whole(&pass, &p, &tokens, &labels).0;
                    p[u][at] = was - step;
                    let below = whole(&pass, &p, &tokens, &labels).0;
                    p[u][at] = was;
                    let (found, expected) = (g[u][at], (above - below) / (2.0 * step));
                    let error = (found - expected).abs() / (1e-4 + expected.abs());
                    assert!(error < 2e-5, "{} [{at}]: {found:e}, differences say {expected:e}", tensor.name);
                }
            }
        }
        // The same in f32.
        let narrow: Vec<Vec<f32>> = p.iter().map(|p| p.iter().map(|v| *v as f32).collect()).collect();
        let pass32 = Pass::<f32>::new(&shape, 2, 1, false);
        let (_, g32) = whole(&pass32, &narrow, &tokens, &labels);
        for (a, b) in g.iter().zip(&g32) {
            let scale = a.iter().fold(0.0f64, |m, v| m.max(v.abs()));
            for (a, b) in a.iter().zip(b) {
                assert!((a - f64::from(*b)).abs() < 1e-5 * scale + 1e-6, "f32 {b:e}, f64 {a:e}");
            }
        }
    }

    #[test]
    fn llama_gradients_equal_differences() {
        check(Norm::Rms, Act::SwiGlu, false, 6, false, false);
    }

    #[test]
    fn gpt2_gradients_equal_differences() {
        check(Norm::Layer, Act::GeluTanh, true, 0, false, true);
    }

    #[test]
    fn neox_gradients_equal_differences() {
        check(Norm::Layer, Act::Gelu, true, 2, true, false);
    }
}
