//! One block of the decoder on tensors, as `model::block` has it for CPU ranks.

use std::ops::Range;

use super::device::{Device, Documents, HeadShape, SavedAttention};
use super::ffi::{Kind, Tensor};
use crate::exit::Failure;
use crate::fsdp;
use crate::kernels::rows::{Act, Norm};
use crate::model::adapter::{Lora, Target};
use crate::model::layout::{BlockLayout, Shape};

type Result<T> = std::result::Result<T, Failure>;

/// Settings and tables of a pass, other than parameters.
pub(super) struct Pass {
    pub(super) device: Device,
    pub(super) shape: Shape,
    layout: BlockLayout,
    /// Format of matrices and activations.
    pub(super) kind: Kind,
    pub(super) rows: i64,
    pub(super) documents: Option<Documents>,
    rotation: Option<Rotation>,
    /// Scale of the adapters.
    scale: Option<Tensor>,
}

/// Complex numbers of rotary positions: 1 x sequence x 1 x pairs.
struct Rotation {
    forward: Tensor,
    /// Turns back.
    backward: Tensor,
}

/// Gathered parameters of a unit.
#[derive(Clone, Copy)]
pub(super) struct Weights<'a> {
    /// All parameters in the compute format.
    pub(super) full: &'a Tensor,
    /// Vectors in f32 and their places, if the compute format is narrower.
    pub(super) vectors: Option<(&'a Tensor, &'a [fsdp::VectorPlace])>,
}

impl Weights<'_> {
    pub(super) fn matrix(&self, at: usize, rows: usize, cols: usize) -> Result<Tensor> {
        self.full.view(&[rows as i64, cols as i64], at)
    }

    /// Returns a vector in f32.
    pub(super) fn vector(&self, range: &Range<usize>) -> Result<Tensor> {
        let (from, at) = match self.vectors {
            Some((all, places)) => {
                let place = places.iter().find(|(other, _)| other == range);
                (all, place.map_or(usize::MAX, |(_, at)| *at))
            }
            None => (self.full, range.start),
        };
        from.view(&[range.len() as i64], at)
    }
}

/// Gathered adapters of a block.
#[derive(Clone, Copy)]
pub(super) struct Adapters<'a> {
    pub(super) lora: &'a Lora,
    pub(super) targets: &'a [Target],
    pub(super) full: &'a Tensor,
}

impl Adapters<'_> {
    fn of<'b>(&'b self, weight: &'b Range<usize>) -> impl Iterator<Item = &'b Target> {
        let inside = |t: &&Target| weight.start <= t.weight.start && t.weight.end <= weight.end;
        self.targets.iter().filter(inside)
    }

    fn a(&self, t: &Target) -> Result<Tensor> {
        self.full.view(&[self.lora.rank as i64, t.cols as i64], t.a.start)
    }

    fn b(&self, t: &Target) -> Result<Tensor> {
        self.full.view(&[t.rows as i64, self.lora.rank as i64], t.b.start)
    }
}

/// Activations of a block that its backward pass requires.
pub(super) struct Saved {
    stats1: Vec<Tensor>,
    h1: Tensor,
    qkv: Tensor,
    attended: Tensor,
    attention: SavedAttention,
    /// Input of the second norm, unless it is that of the first.
    middle: Option<Tensor>,
    stats2: Vec<Tensor>,
    h2: Tensor,
    up: Tensor,
    act: Tensor,
}

/// Returns a matrix with rows and columns exchanged, without a copy.
pub(super) fn transposed(matrix: &Tensor, rows: i64, cols: i64) -> Result<Tensor> {
    matrix.strided(&[cols, rows], &[1, cols], 0)
}

impl Pass {
    /// Creates a pass for micro-batches of `sequences`.
    pub(super) fn new(device: Device, shape: &Shape, sequences: usize, kind: Kind) -> Result<Self> {
        let positions = shape.heads.sequence;
        let rotation = if shape.rotated == 0 {
            None
        } else {
            let frequencies = shape.frequencies();
            let sizes = [1, positions as i64, 1, frequencies.len() as i64, 2];
            let table = |sign: f64| -> Result<Tensor> {
                let angles = (0..positions).flat_map(|p| frequencies.iter().map(move |w| p as f64 * w));
                let values: Vec<f32> =
                    angles.flat_map(|a| [a.cos() as f32, (sign * a.sin()) as f32]).collect();
                device.complex(&Tensor::upload(&values, &sizes, device.place)?)
            };
            Some(Rotation { forward: table(1.0)?, backward: table(-1.0)? })
        };
        let scale = shape.adapter.as_ref().map(|lora| Tensor::upload(&[lora.scale], &[], device.place));
        Ok(Self {
            device,
            layout: shape.block(0).1,
            shape: shape.clone(),
            kind,
            rows: (sequences * positions) as i64,
            documents: None,
            rotation,
            scale: scale.transpose()?,
        })
    }

    fn heads(&self) -> HeadShape {
        let h = &self.shape.heads;
        HeadShape {
            batch: self.rows / h.sequence as i64,
            sequence: h.sequence as i64,
            heads: h.heads as i64,
            kv_heads: h.kv_heads as i64,
            dim: h.dim as i64,
        }
    }

    /// Returns a copy of an f32 tensor of `cols` columns in the compute format. Unlike results of operators,
    /// it can be viewed.
    pub(super) fn low(&self, tensor: &Tensor, cols: i64) -> Result<Tensor> {
        self.device.to(tensor, &[self.rows, cols], self.kind)
    }

    /// Returns the norm of `x` in the compute format, and what its backward pass requires.
    pub(super) fn norm(
        &self,
        x: &Tensor,
        weights: &Weights<'_>,
        (weight, bias): (&Range<usize>, &Range<usize>),
    ) -> Result<(Tensor, Vec<Tensor>)> {
        let (h, eps, weight) = (self.shape.hidden as i64, self.shape.eps, weights.vector(weight)?);
        let (y, saved) = match self.shape.norm {
            Norm::Rms => self.device.rms_norm(x, h, &weight, eps)?,
            Norm::Layer => self.device.layer_norm(x, h, &weight, &weights.vector(bias)?, eps)?,
        };
        Ok((self.low(&y, h)?, saved))
    }

    /// Returns the gradient of the norm's input in f32; stores those of weight and bias in `gradient`, if
    /// given.
    pub(super) fn norm_backward(
        &self,
        dy: &Tensor,
        x: &Tensor,
        saved: &[Tensor],
        weights: &Weights<'_>,
        (weight, bias): (&Range<usize>, &Range<usize>),
        gradient: Option<&Tensor>,
    ) -> Result<Tensor> {
        let h = self.shape.hidden as i64;
        let dy = if self.kind == Kind::F32 {
            dy.alias()?
        } else {
            self.device.to(dy, &[self.rows, h], Kind::F32)?
        };
        let values = weights.vector(weight)?;
        let (dx, dw, db) = match self.shape.norm {
            Norm::Rms => {
                let (dx, dw) = self.device.rms_norm_backward(&dy, x, h, saved, &values)?;
                (dx, dw, None)
            }
            Norm::Layer => {
                let both = (&values, &weights.vector(bias)?);
                let [dx, dw, db] = self.device.layer_norm_backward(&dy, x, h, saved, both)?;
                (dx, dw, Some(db))
            }
        };
        if let Some(gradient) = gradient {
            gradient.view(&[h], weight.start)?.copy(&dw)?;
            if let Some(db) = db {
                gradient.view(&[h], bias.start)?.copy(&db)?;
            }
        }
        Ok(dx)
    }

    /// Returns x wᵀ with the adapters of w, without bias.
    fn product(
        &self,
        x: &Tensor,
        from: i64,
        weights: &Weights<'_>,
        weight: &Range<usize>,
        adapters: Option<Adapters<'_>>,
    ) -> Result<Tensor> {
        let (n, to) = (self.rows, weight.len() as i64 / from);
        let w = weights.matrix(weight.start, to as usize, from as usize)?;
        let y = self.device.empty(&[n, to], self.kind)?;
        self.device.product(&y, x, &transposed(&w, to, from)?)?;
        if let Some(adapters) = &adapters {
            let rank = adapters.lora.rank as i64;
            for t in adapters.of(weight) {
                let first = (t.weight.start - weight.start) / from as usize;
                let inputs = self.adapter_inputs(x, adapters, t)?;
                let added = self.device.empty(&[n, t.rows as i64], self.kind)?;
                self.device.product(&added, &inputs, &transposed(&adapters.b(t)?, t.rows as i64, rank)?)?;
                let part = y.strided(&[n, t.rows as i64], &[to, 1], first)?;
                part.copy(&self.device.add(&part, &added, f64::from(adapters.lora.scale))?)?;
            }
        }
        Ok(y)
    }

    /// Returns x aᵀ.
    fn adapter_inputs(&self, x: &Tensor, adapters: &Adapters<'_>, t: &Target) -> Result<Tensor> {
        let rank = adapters.lora.rank as i64;
        let inputs = self.device.empty(&[self.rows, rank], self.kind)?;
        self.device.product(&inputs, x, &transposed(&adapters.a(t)?, rank, t.cols as i64)?)?;
        Ok(inputs)
    }

    /// Adds a bias to a product, in the compute format.
    fn add_bias(&self, y: &Tensor, weights: &Weights<'_>, bias: &Range<usize>) -> Result<()> {
        if bias.is_empty() {
            return Ok(());
        }
        y.copy(&self.device.add(y, &weights.vector(bias)?, 1.0)?)
    }

    /// Returns the residual stream plus a product and its bias, in f32.
    fn add_to_stream(
        &self,
        x: &Tensor,
        y: &Tensor,
        weights: &Weights<'_>,
        bias: &Range<usize>,
    ) -> Result<Tensor> {
        let sum = self.device.add(x, y, 1.0)?;
        if bias.is_empty() { Ok(sum) } else { self.device.add(&sum, &weights.vector(bias)?, 1.0) }
    }

    /// Turns queries and keys, in place.
    fn rotate(&self, qkv: &Tensor, forward: bool) -> Result<()> {
        let (Some(rotation), d, shape) = (&self.rotation, self.device, self.heads()) else { return Ok(()) };
        let HeadShape { batch, sequence, heads, kv_heads, dim } = shape;
        let (width, half) = (shape.width(), self.shape.rotated as i64 / 2);
        // Queries and keys are next to each other. An element is turned with the one half a head further.
        let sizes = [batch, sequence, heads + kv_heads, half, 2];
        let pairs = qkv.strided(&sizes, &[sequence * width, width, dim, 1, half], 0)?;
        let numbers = d.complex(&d.to(&pairs, &sizes, Kind::F32)?)?;
        let by = if forward { &rotation.forward } else { &rotation.backward };
        pairs.copy(&d.real(&d.multiply(&numbers, by)?)?)
    }

    /// Returns the block's output in f32 and what its backward pass requires.
    pub(super) fn forward(
        &self,
        weights: &Weights<'_>,
        adapters: Option<Adapters<'_>>,
        x: &Tensor,
    ) -> Result<(Tensor, Saved)> {
        let (s, l, d, n) = (&self.shape, &self.layout, self.device, self.rows);
        let (h, f) = (s.hidden as i64, s.inner as i64);
        let heads = self.heads();
        let a = heads.heads * heads.dim;
        let (h1, stats1) = self.norm(x, weights, (&l.norm1, &l.norm1_bias))?;
        let qkv = self.product(&h1, h, weights, &l.qkv, adapters)?;
        self.add_bias(&qkv, weights, &l.qkv_bias)?;
        self.rotate(&qkv, true)?;
        let attended = d.empty(&[n, a], self.kind)?;
        let attention = d.attention(heads, &qkv, self.documents.as_ref(), &attended)?;
        let y = self.product(&attended, a, weights, &l.out, adapters)?;
        let after = self.add_to_stream(x, &y, weights, &l.out_bias)?;
        let input = if s.parallel { x } else { &after };
        let (h2, stats2) = self.norm(input, weights, (&l.norm2, &l.norm2_bias))?;
        let up = self.product(&h2, h, weights, &l.up, adapters)?;
        self.add_bias(&up, weights, &l.up_bias)?;
        let act = match s.act {
            Act::SwiGlu => d.multiply(&d.silu(&gate(&up, n, f)?)?, &value(&up, n, f)?)?,
            Act::Gelu => d.gelu(&up, "none")?,
            Act::GeluTanh => d.gelu(&up, "tanh")?,
        };
        let y = self.product(&act, f, weights, &l.down, adapters)?;
        let out = self.add_to_stream(&after, &y, weights, &l.down_bias)?;
        let middle = (!s.parallel).then_some(after);
        let saved = Saved { stats1, h1, qkv, attended, attention, middle, stats2, h2, up, act };
        Ok((out, saved))
    }

    /// Stores the gradients of y = x wᵀ + bias, or of its adapters, and returns that of x.
    fn product_backward(
        &self,
        (dy, to): (&Tensor, i64),
        (x, from): (&Tensor, i64),
        weights: &Weights<'_>,
        (weight, bias): (&Range<usize>, &Range<usize>),
        gradient: &Tensor,
        adapters: Option<Adapters<'_>>,
    ) -> Result<Tensor> {
        let (d, n) = (self.device, self.rows);
        let w = weights.matrix(weight.start, to as usize, from as usize)?;
        let dx = d.empty(&[n, from], self.kind)?;
        d.product(&dx, dy, &w)?;
        let (Some(adapters), Some(scale)) = (&adapters, &self.scale) else {
            let dw = gradient.view(&[to, from], weight.start)?;
            d.product_f32(&dw, (&transposed(dy, n, to)?, [to, n]), (x, [n, from]), self.kind)?;
            if !bias.is_empty() {
                gradient.view(&[to], bias.start)?.copy(&d.sum_over(dy, 0, Kind::F32)?)?;
            }
            return Ok(dx);
        };
        let rank = adapters.lora.rank as i64;
        for t in adapters.of(weight) {
            let (rows, first) = (t.rows as i64, (t.weight.start - weight.start) / from as usize);
            let part = dy.strided(&[n, rows], &[to, 1], first)?;
            let outputs = d.empty(&[n, rank], self.kind)?;
            d.product(&outputs, &part, &adapters.b(t)?)?;
            let added = d.empty(&[n, from], self.kind)?;
            d.product(&added, &outputs, &adapters.a(t)?)?;
            dx.copy(&d.add(&dx, &added, f64::from(adapters.lora.scale))?)?;
            let da = d.empty(&[rank, from], Kind::F32)?;
            d.product_f32(&da, (&transposed(&outputs, n, rank)?, [rank, n]), (x, [n, from]), self.kind)?;
            gradient.view(&[rank, from], t.a.start)?.copy(&d.multiply(&da, scale)?)?;
            let inputs = self.adapter_inputs(x, adapters, t)?;
            let db = d.empty(&[rows, rank], Kind::F32)?;
            let turned = dy.strided(&[rows, n], &[1, to], first)?;
            d.product_f32(&db, (&turned, [rows, n]), (&inputs, [n, rank]), self.kind)?;
            gradient.view(&[rows, rank], t.b.start)?.copy(&d.multiply(&db, scale)?)?;
        }
        Ok(dx)
    }

    /// Returns the gradient of the block's input from `dout`, that of its output, both in f32. `gradient`
    /// receives those of the parameters, or of the adapters if there are any.
    pub(super) fn backward(
        &self,
        weights: &Weights<'_>,
        adapters: Option<Adapters<'_>>,
        x: &Tensor,
        saved: &Saved,
        dout: &Tensor,
        gradient: &Tensor,
    ) -> Result<Tensor> {
        let (s, l, d, n) = (&self.shape, &self.layout, self.device, self.rows);
        let (h, f) = (s.hidden as i64, s.inner as i64);
        let (up_width, heads) = (s.up_width() as i64, self.heads());
        let (wide, a) = (heads.width(), heads.heads * heads.dim);
        let norms = adapters.is_none().then_some(gradient);
        let back = |dy: (&Tensor, i64), x: (&Tensor, i64), weight: &Range<usize>, bias: &Range<usize>| {
            self.product_backward(dy, x, weights, (weight, bias), gradient, adapters)
        };
        let dy = self.low(dout, h)?;
        let dact = back((&dy, h), (&saved.act, f), &l.down, &l.down_bias)?;
        let dup = match s.act {
            Act::SwiGlu => {
                let dup = d.empty(&[n, up_width], self.kind)?;
                let (g, v) = (gate(&saved.up, n, f)?, value(&saved.up, n, f)?);
                d.multiply_to(&value(&dup, n, f)?, &dact, &d.silu(&g)?)?;
                d.silu_backward_to(&gate(&dup, n, f)?, &d.multiply(&dact, &v)?, &g)?;
                dup
            }
            // Views of the product below require a tensor of our own.
            Act::Gelu => d.to(&d.gelu_backward(&dact, &saved.up, "none")?, &[n, f], self.kind)?,
            Act::GeluTanh => d.to(&d.gelu_backward(&dact, &saved.up, "tanh")?, &[n, f], self.kind)?,
        };
        drop(dact);
        let dh2 = back((&dup, up_width), (&saved.h2, h), &l.up, &l.up_bias)?;
        drop(dup);
        let norm2 = (&l.norm2, &l.norm2_bias);
        let input = saved.middle.as_ref().unwrap_or(x);
        let dx2 = self.norm_backward(&dh2, input, &saved.stats2, weights, norm2, norms)?;
        let dstream = d.add(dout, &dx2, 1.0)?;
        drop((dh2, dx2));
        // With a parallel residual the attention's gradient is that of the output alone.
        let dy = if s.parallel { dy } else { self.low(&dstream, h)? };
        let dattended = back((&dy, h), (&saved.attended, a), &l.out, &l.out_bias)?;
        drop(dy);
        let dqkv = d.empty(&[n, wide], self.kind)?;
        let (qkv, attended) = (&saved.qkv, &saved.attended);
        d.attention_backward(heads, &dattended, qkv, attended, &saved.attention, &dqkv)?;
        drop(dattended);
        self.rotate(&dqkv, false)?;
        let dh1 = back((&dqkv, wide), (&saved.h1, h), &l.qkv, &l.qkv_bias)?;
        drop(dqkv);
        let norm1 = (&l.norm1, &l.norm1_bias);
        let dx1 = self.norm_backward(&dh1, x, &saved.stats1, weights, norm1, norms)?;
        d.add(&dstream, &dx1, 1.0)
    }
}

/// Returns the half of the feed-forward layer's output that its activation is applied to.
fn gate(up: &Tensor, n: i64, f: i64) -> Result<Tensor> {
    up.strided(&[n, f], &[2 * f, 1], 0)
}

/// Returns the other half.
fn value(up: &Tensor, n: i64, f: i64) -> Result<Tensor> {
    up.strided(&[n, f], &[2 * f, 1], f as usize)
}
