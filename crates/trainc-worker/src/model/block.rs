//! One block of the decoder.

use std::ops::Range;

use super::gradients::Gradients;
use super::layout::{BlockLayout, Shape};
use crate::kernels::attention;
use crate::kernels::gemm::{self, MatrixView, Update};
use crate::kernels::real::Real;
use crate::kernels::rows::{self, Rotation};

/// Settings and tables of a pass, other than parameters.
#[derive(Clone, Debug)]
pub struct Pass<T> {
    /// Shape of the model.
    pub shape: Shape,
    /// Ranges of a block's tensors.
    pub layout: BlockLayout,
    /// cos and sin of each position; empty for learned positions.
    pub table: Vec<T>,
    /// Start of each row's document in its sequence; empty if a sequence is one document.
    pub begins: Vec<u32>,
    /// Rows of one micro-batch: sequences times their length.
    pub rows: usize,
    /// Threads of a matrix multiplication.
    pub threads: usize,
    /// Whether activations are rounded to bf16.
    pub bf16: bool,
}

impl<T: Real> Pass<T> {
    /// Creates a pass for micro-batches of `sequences`.
    pub fn new(shape: &Shape, sequences: usize, threads: usize, bf16: bool) -> Self {
        let table = rows::rotary_table(shape.heads.sequence, &shape.frequencies());
        let rows = sequences * shape.heads.sequence;
        Self {
            layout: shape.block(0).1,
            shape: shape.clone(),
            table,
            begins: Vec::new(),
            rows,
            threads,
            bf16,
        }
    }

    /// Rounds to the compute format. The residual stream and its gradient stay in f32: each block adds to
    /// them, and a rounding error would affect all following blocks.
    pub fn round_to_compute(&self, x: &mut [T]) {
        if self.bf16 {
            rows::round_bf16(x);
        }
    }

    /// Returns the gradient of the residual stream in the compute format.
    fn rounded_gradient<'a>(&self, d: &'a [T], room: &'a mut [T]) -> &'a [T] {
        if !self.bf16 {
            return d;
        }
        room.copy_from_slice(d);
        rows::round_bf16(room);
        room
    }
}

/// Activations of a block saved for the backward pass.
#[allow(missing_docs, reason = "each name is the value's")]
#[derive(Debug, Default)]
pub struct SavedActivations<T> {
    pub x: Vec<T>,
    pub stats1: Vec<T>,
    pub h1: Vec<T>,
    pub qkv: Vec<T>,
    pub lse: Vec<T>,
    pub attended: Vec<T>,
    pub middle: Vec<T>,
    pub stats2: Vec<T>,
    pub h2: Vec<T>,
    pub up: Vec<T>,
    pub act: Vec<T>,
}

impl<T: Real> SavedActivations<T> {
    /// Allocates the activations of one block; `x` is only used if whole blocks are saved.
    pub fn new(pass: &Pass<T>) -> Self {
        let (n, s) = (pass.rows, &pass.shape);
        let make = |columns: usize| vec![T::ZERO; n * columns];
        Self {
            x: make(s.hidden),
            stats1: make(2),
            h1: make(s.hidden),
            qkv: make(s.heads.width()),
            lse: make(s.heads.heads),
            attended: make(s.attention_width()),
            middle: if s.parallel { Vec::new() } else { make(s.hidden) },
            stats2: make(2),
            h2: make(s.hidden),
            up: make(s.up_width()),
            act: make(s.inner),
        }
    }

    /// Returns the allocated elements.
    pub fn allocated(&self) -> usize {
        let Self { x, stats1, h1, qkv, lse, attended, middle, stats2, h2, up, act } = self;
        [x, stats1, h1, qkv, lse, attended, middle, stats2, h2, up, act].into_iter().map(Vec::capacity).sum()
    }

    /// Returns the elements of one block.
    pub fn elements(shape: &Shape, rows: usize) -> usize {
        let middle = if shape.parallel { 0 } else { shape.hidden };
        let columns = 3 * shape.hidden
            + 4
            + middle
            + shape.heads.width()
            + shape.heads.heads
            + shape.attention_width()
            + shape.up_width()
            + shape.inner;
        rows * columns
    }
}

/// Scratch buffers, used by one block at a time.
#[allow(missing_docs, reason = "each name is the value's")]
#[derive(Debug)]
pub struct Scratch<T> {
    pub scores: Vec<T>,
    pub dact: Vec<T>,
    pub dup: Vec<T>,
    pub dh: Vec<T>,
    pub dh2: Vec<T>,
    pub dattended: Vec<T>,
    pub dqkv: Vec<T>,
}

impl<T: Real> Scratch<T> {
    /// Allocates the buffers for a pass.
    pub fn new(pass: &Pass<T>) -> Self {
        let (n, s) = (pass.rows, &pass.shape);
        let make = |columns: usize| vec![T::ZERO; n * columns];
        Self {
            scores: vec![T::ZERO; s.heads.scratch()],
            dact: make(s.inner),
            dup: make(s.up_width()),
            dh: make(s.hidden),
            dh2: make(s.hidden),
            dattended: make(s.attention_width()),
            dqkv: make(s.heads.width()),
        }
    }

    /// Returns the allocated elements.
    pub fn allocated(&self) -> usize {
        let Self { scores, dact, dup, dh, dh2, dattended, dqkv } = self;
        [scores, dact, dup, dh, dh2, dattended, dqkv].into_iter().map(Vec::capacity).sum()
    }

    /// Returns the number of elements.
    pub fn elements(shape: &Shape, rows: usize) -> usize {
        let columns =
            shape.inner + shape.up_width() + 2 * shape.hidden + shape.attention_width() + shape.heads.width();
        rows * columns + shape.heads.scratch()
    }
}

/// Computes out = block(saved.x) and fills the rest of `saved`.
pub fn forward<T: Real>(
    pass: &Pass<T>,
    p: &[T],
    saved: &mut SavedActivations<T>,
    scratch: &mut Scratch<T>,
    out: &mut [T],
) {
    let (s, l, n, threads) = (&pass.shape, &pass.layout, pass.rows, pass.threads);
    let (h, a, f) = (s.hidden, s.attention_width(), s.inner);
    let product =
        |out: &mut [T], x: &[T], weight: &[T], bias: &[T], into: Update, cols: usize, width: usize| {
            gemm::nt(
                out,
                width,
                into,
                MatrixView::new(x, n, cols),
                MatrixView::new(weight, width, cols),
                T::ONE,
                threads,
            );
            rows::add_bias(out, bias);
        };
    let norm1 = (&p[l.norm1.clone()], &p[l.norm1_bias.clone()]);
    rows::norm_forward(s.norm, s.eps, &saved.x, norm1.0, norm1.1, &mut saved.h1, &mut saved.stats1);
    pass.round_to_compute(&mut saved.h1);
    let width = s.heads.width();
    product(&mut saved.qkv, &saved.h1, &p[l.qkv.clone()], &p[l.qkv_bias.clone()], Update::Replace, h, width);
    let turned = s.heads.heads + s.heads.kv_heads;
    rows::rotate(&mut saved.qkv, width, turned, s.heads.dim, s.rotated, &pass.table, Rotation::Forward);
    pass.round_to_compute(&mut saved.qkv);
    attention::forward(
        s.heads,
        &pass.begins,
        &saved.qkv,
        &mut saved.attended,
        &mut saved.lse,
        &mut scratch.scores,
    );
    pass.round_to_compute(&mut saved.attended);
    out.copy_from_slice(&saved.x);
    product(out, &saved.attended, &p[l.out.clone()], &p[l.out_bias.clone()], Update::Add, a, h);
    let norm2 = (&p[l.norm2.clone()], &p[l.norm2_bias.clone()]);
    if s.parallel {
        rows::norm_forward(s.norm, s.eps, &saved.x, norm2.0, norm2.1, &mut saved.h2, &mut saved.stats2);
    } else {
        saved.middle.copy_from_slice(out);
        rows::norm_forward(s.norm, s.eps, out, norm2.0, norm2.1, &mut saved.h2, &mut saved.stats2);
    }
    pass.round_to_compute(&mut saved.h2);
    product(
        &mut saved.up,
        &saved.h2,
        &p[l.up.clone()],
        &p[l.up_bias.clone()],
        Update::Replace,
        h,
        s.up_width(),
    );
    pass.round_to_compute(&mut saved.up);
    rows::act_forward(s.act, &saved.up, &mut saved.act, f);
    pass.round_to_compute(&mut saved.act);
    product(out, &saved.act, &p[l.down.clone()], &p[l.down_bias.clone()], Update::Add, f, h);
}

/// Replaces `d`, the gradient of the block's output, by that of its input and stores the parameters'
/// gradients in `g`. Overwrites `saved.up`.
pub fn backward<T: Real>(
    pass: &Pass<T>,
    p: &[T],
    saved: &mut SavedActivations<T>,
    scratch: &mut Scratch<T>,
    d: &mut [T],
    mut g: Gradients<'_, T>,
) {
    let (s, l, n, threads) = (&pass.shape, &pass.layout, pass.rows, pass.threads);
    let (h, a, f) = (s.hidden, s.attention_width(), s.inner);
    let (wide, up_width) = (s.heads.width(), s.up_width());
    g.clear(&[
        &l.norm1,
        &l.norm1_bias,
        &l.qkv_bias,
        &l.out_bias,
        &l.norm2,
        &l.norm2_bias,
        &l.up_bias,
        &l.down_bias,
    ]);
    // dx = dy w.
    let input = |dx: &mut [T], dy: &[T], weight: &[T], from: usize, to: usize| {
        gemm::nn(
            dx,
            from,
            Update::Replace,
            MatrixView::new(dy, n, to),
            MatrixView::new(weight, to, from),
            T::ONE,
            threads,
        );
    };
    let dy = pass.rounded_gradient(d, &mut scratch.dh2);
    input(&mut scratch.dact, dy, &p[l.down.clone()], f, h);
    pass.round_to_compute(&mut scratch.dact);
    g.product_gradients(&l.down, &l.down_bias, dy, &saved.act, n, threads);
    rows::act_backward(s.act, &mut saved.up, &scratch.dact, f);
    pass.round_to_compute(&mut saved.up);
    input(&mut scratch.dh2, &saved.up, &p[l.up.clone()], h, up_width);
    pass.round_to_compute(&mut scratch.dh2);
    g.product_gradients(&l.up, &l.up_bias, &saved.up, &saved.h2, n, threads);

    let norm_backward =
        |x: &[T], stats: &[T], dy: &[T], d: &mut [T], g: &mut Gradients<'_, T>, w: &Range<usize>| {
            let (dw, db) = g.norm_gradients(w, h);
            rows::norm_backward(s.norm, x, &p[w.clone()], stats, dy, d, dw, db);
        };
    if !s.parallel {
        norm_backward(&saved.middle, &saved.stats2, &scratch.dh2, d, &mut g, &l.norm2);
    }
    let dy = pass.rounded_gradient(d, &mut scratch.dh);
    input(&mut scratch.dattended, dy, &p[l.out.clone()], a, h);
    pass.round_to_compute(&mut scratch.dattended);
    g.product_gradients(&l.out, &l.out_bias, dy, &saved.attended, n, threads);
    attention::backward(
        s.heads,
        &pass.begins,
        &saved.qkv,
        &saved.attended,
        &saved.lse,
        &scratch.dattended,
        &mut scratch.dqkv,
        &mut scratch.scores,
    );
    let turned = s.heads.heads + s.heads.kv_heads;
    rows::rotate(&mut scratch.dqkv, wide, turned, s.heads.dim, s.rotated, &pass.table, Rotation::Backward);
    pass.round_to_compute(&mut scratch.dqkv);
    input(&mut scratch.dh, &scratch.dqkv, &p[l.qkv.clone()], h, wide);
    pass.round_to_compute(&mut scratch.dh);
    g.product_gradients(&l.qkv, &l.qkv_bias, &scratch.dqkv, &saved.h1, n, threads);
    if s.parallel {
        norm_backward(&saved.x, &saved.stats2, &scratch.dh2, d, &mut g, &l.norm2);
    }
    norm_backward(&saved.x, &saved.stats1, &scratch.dh, d, &mut g, &l.norm1);
}
