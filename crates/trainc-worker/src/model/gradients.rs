//! Destination of a block's parameter gradients: all parameters, or only those of adapters.

use std::ops::Range;

use super::adapter::{Lora, Target};
use crate::kernels::gemm::{self, MatrixView, Update};
use crate::kernels::real::Real;
use crate::kernels::rows;

/// Destination of the gradients in a block's backward pass.
pub enum Gradients<'a, T> {
    /// Gradients of all parameters, laid out as the block's unit; need not be cleared before.
    All(&'a mut [T]),
    /// Gradients of low-rank adapters. With w' = w + scale b a and y = x w'ᵀ they follow from dy and x by
    /// products with the rank, without the gradient of w: da = scale (dy b)ᵀ x, db = scale dyᵀ (x aᵀ).
    Adapters {
        /// Rank and scale of the adapters.
        lora: &'a Lora,
        /// Layers that have an adapter.
        targets: &'a [Target],
        /// Full parameters of the adapters.
        p: &'a [T],
        /// Gradients of the adapters; need not be cleared before.
        g: &'a mut [T],
        /// Buffers for passes with this number of rows.
        room: &'a mut Workspace<T>,
    },
}

/// Buffers for the gradients of one adapter, and for unused gradients of norms.
#[derive(Debug)]
pub struct Workspace<T> {
    /// x aᵀ, rows x rank.
    inputs: Vec<T>,
    /// dy b, rows x rank.
    outputs: Vec<T>,
    norm: Vec<T>,
}

impl<T: Real> Workspace<T> {
    /// Allocates buffers for passes of `rows` rows of `hidden` elements.
    pub fn new(rows: usize, hidden: usize, rank: usize) -> Self {
        let make = |n: usize| vec![T::ZERO; n];
        Self { inputs: make(rows * rank), outputs: make(rows * rank), norm: make(2 * hidden) }
    }

    /// Returns a buffer for the unused gradients of a norm's weight and bias.
    pub fn norm_buffer(&mut self) -> &mut [T] {
        &mut self.norm
    }

    /// Returns the allocated elements.
    pub fn allocated(&self) -> usize {
        let Self { inputs, outputs, norm } = self;
        [inputs, outputs, norm].into_iter().map(Vec::capacity).sum()
    }

    /// Returns the number of elements.
    pub fn elements(rows: usize, hidden: usize, rank: usize) -> usize {
        2 * rows * rank + 2 * hidden
    }
}

impl<T: Real> Gradients<'_, T> {
    /// Clears the gradients of vectors, which are sums over rows.
    pub(super) fn clear(&mut self, vectors: &[&Range<usize>]) {
        if let Self::All(g) = self {
            for range in vectors {
                g[(*range).clone()].fill(T::ZERO);
            }
        }
    }

    /// Computes the gradients of y = x wᵀ + bias over `n` rows, with w at `weight` of the block's unit.
    pub(super) fn product_gradients(
        &mut self,
        weight: &Range<usize>,
        bias: &Range<usize>,
        dy: &[T],
        x: &[T],
        n: usize,
        threads: usize,
    ) {
        let (to, from) = (dy.len() / n, x.len() / n);
        let x = MatrixView::new(x, n, from);
        match self {
            Self::All(g) => {
                let dy_view = MatrixView::new(dy, n, to);
                gemm::tn(&mut g[weight.clone()], from, Update::Replace, dy_view, x, T::ONE, threads);
                rows::bias_backward(dy, &mut g[bias.clone()]);
            }
            Self::Adapters { lora, targets, p, g, room } => {
                let (rank, scale) = (lora.rank, T::from_f64(f64::from(lora.scale)));
                for t in
                    targets.iter().filter(|t| weight.start <= t.weight.start && t.weight.end <= weight.end)
                {
                    let first = (t.weight.start - weight.start) / from;
                    let dy = MatrixView { data: &dy[first..], rows: n, cols: t.rows, stride: to };
                    let a = MatrixView::new(&p[t.a.clone()], rank, t.cols);
                    let b = MatrixView::new(&p[t.b.clone()], t.rows, rank);
                    gemm::nt(&mut room.inputs, rank, Update::Replace, x, a, T::ONE, threads);
                    gemm::nn(&mut room.outputs, rank, Update::Replace, dy, b, T::ONE, threads);
                    let (inputs, outputs) =
                        (MatrixView::new(&room.inputs, n, rank), MatrixView::new(&room.outputs, n, rank));
                    gemm::tn(&mut g[t.a.clone()], t.cols, Update::Replace, outputs, x, scale, threads);
                    gemm::tn(&mut g[t.b.clone()], rank, Update::Replace, dy, inputs, scale, threads);
                }
            }
        }
    }

    /// Returns the destination of a norm's gradients, weight and bias; for a norm without bias the second is
    /// not written.
    pub(super) fn norm_gradients(&mut self, weight: &Range<usize>, hidden: usize) -> (&mut [T], &mut [T]) {
        let both = match self {
            Self::All(g) => &mut g[weight.start..],
            Self::Adapters { room, .. } => &mut room.norm,
        };
        let (dw, db) = both.split_at_mut(hidden);
        (dw, &mut db[..hidden])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Activation, Adapter, Biases, Family, NormKind, PositionKind, Positions};
    use crate::model::block::{self, Pass, SavedActivations, Scratch};
    use crate::model::init::mix;
    use crate::model::layout::Shape;

    fn number(seed: u64, i: usize) -> f64 {
        (mix(seed.wrapping_mul(0x1_0000_0000).wrapping_add(i as u64)) >> 11) as f64 / (1u64 << 53) as f64
            - 0.5
    }

    fn numbers(seed: u64, n: usize) -> Vec<f64> {
        (0..n).map(|i| number(seed, i)).collect()
    }

    /// The adapters' gradients from the weight's: da = scale bᵀ dw, db = scale dw aᵀ, sum by sum.
    fn by_the_weights(lora: &Lora, targets: &[Target], p: &[f64], block: &[f64], g: &mut [f64]) {
        let scale = f64::from(lora.scale);
        for t in targets {
            let (a, b, dw) = (&p[t.a.clone()], &p[t.b.clone()], &block[t.weight.clone()]);
            for r in 0..lora.rank {
                for c in 0..t.cols {
                    let sum: f64 = (0..t.rows).map(|o| b[o * lora.rank + r] * dw[o * t.cols + c]).sum();
                    g[t.a.start + r * t.cols + c] = scale * sum;
                }
                for o in 0..t.rows {
                    let sum: f64 = (0..t.cols).map(|c| dw[o * t.cols + c] * a[r * t.cols + c]).sum();
                    g[t.b.start + o * lora.rank + r] = scale * sum;
                }
            }
        }
    }

    /// A block of each family: plain heads with biases, grouped heads without.
    fn model(family: Family, targets: &[&str]) -> config::Model {
        let llama = family == Family::Llama;
        let learned = family == Family::Gpt2;
        config::Model {
            family,
            vocab_size: 37,
            hidden_size: 20,
            intermediate_size: 28,
            layers: 2,
            heads: 4,
            kv_heads: if llama { 2 } else { 4 },
            head_dim: 6,
            sequence_length: 67,
            norm: config::Norm { kind: if llama { NormKind::Rms } else { NormKind::Layer }, eps: 1e-5 },
            activation: if llama { Activation::Swiglu } else { Activation::Gelu },
            biases: if llama { Biases::None } else { Biases::All },
            positions: Positions {
                kind: if learned { PositionKind::Learned } else { PositionKind::Rotary },
                theta: (!learned).then_some(10_000.0),
                fraction: (!learned).then_some(1.0),
                scaling: None,
            },
            parallel_residual: family == Family::GptNeox,
            tied_embeddings: false,
            initializer_range: 0.02,
            weights: None,
            adapter: Some(Adapter {
                kind: "lora".to_owned(),
                rank: 3,
                alpha: 12.0,
                dropout: 0.0,
                targets: targets.iter().map(|t| (*t).to_owned()).collect(),
            }),
        }
    }

    #[track_caller]
    fn check(family: Family, targets: &[&str]) {
        let shape = Shape::from_model(&model(family, targets));
        let lora = shape.adapter.clone().unwrap();
        let (unit, targets) = lora.unit(&shape, 0);
        let pass = Pass::<f64>::new(&shape, 2, 1, false);
        let weights = numbers(1, shape.block(0).0.len);
        let p = numbers(2, unit.len);
        let (mut saved, mut scratch) = (SavedActivations::new(&pass), Scratch::new(&pass));
        saved.x = numbers(3, pass.rows * shape.hidden);
        let mut out = vec![0.0; pass.rows * shape.hidden];
        block::forward(&pass, &weights, &mut saved, &mut scratch, &mut out);
        // Backward consumes `up`.
        let up = saved.up.clone();
        let after = numbers(4, out.len());
        let (mut whole, mut d) = (vec![f64::NAN; weights.len()], after.clone());
        block::backward(&pass, &weights, &mut saved, &mut scratch, &mut d, Gradients::All(&mut whole));
        let mut expected = vec![0.0; unit.len];
        by_the_weights(&lora, &targets, &p, &whole, &mut expected);
        saved.up = up;
        let (mut found, mut narrow) = (vec![f64::NAN; unit.len], after);
        let mut room = Workspace::new(pass.rows, shape.hidden, lora.rank);
        assert_eq!(room.allocated(), Workspace::<f64>::elements(pass.rows, shape.hidden, lora.rank));
        let gradients =
            Gradients::Adapters { lora: &lora, targets: &targets, p: &p, g: &mut found, room: &mut room };
        block::backward(&pass, &weights, &mut saved, &mut scratch, &mut narrow, gradients);
        assert_eq!(d, narrow, "the gradient of the input is the same");
        let scale = expected.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        assert!(scale > 1e-3, "{scale}");
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert!((found - expected).abs() < 1e-12 * scale, "{i}: {found:e} for {expected:e}");
        }
    }

    #[test]
    fn adapters_alone_are_what_the_weights_gradients_give() {
        for family in [Family::Llama, Family::Gpt2, Family::GptNeox] {
            check(family, &["all-linear"]);
        }
        check(Family::Llama, &["k_proj", "up_proj"]);
        check(Family::GptNeox, &["dense"]);
    }
}
