//! Embedding, and final norm with head and loss, on tensors. f32 logits exist for one chunk of rows at a
//! time.

use super::block::{Pass, Weights, transposed};
use super::device::Device;
use super::ffi::{Kind, Tensor};
use crate::exit::Failure;
use crate::kernels::rows::{IGNORED, Norm};
use crate::model::layout::Shape;

type Result<T> = std::result::Result<T, Failure>;

/// Elements of a chunk of logits: 256 MiB in f32.
const CHUNK: usize = 1 << 26;

/// Fewest rows of a chunk: products with fewer are slow.
const ROWS: usize = 128;

/// Returns the rows of a chunk of logits.
pub(crate) fn chunk_rows(rows: usize, vocab: usize) -> usize {
    (CHUNK / vocab).max(ROWS).min(rows)
}

/// Inputs of a pass.
pub(super) struct Inputs {
    tokens: Tensor,
    /// Position of each row in its document, if positions are learned.
    positions: Option<Tensor>,
}

impl Inputs {
    /// Copies the inputs of a pass to the device.
    pub(super) fn upload(pass: &Pass, tokens: &[u32], begins: &[u32]) -> Result<Self> {
        let (place, n) = (pass.device.place, [pass.rows]);
        let tokens: Vec<i64> = tokens.iter().map(|token| i64::from(*token)).collect();
        let sequence = pass.shape.heads.sequence;
        let learned = pass.shape.rotated == 0;
        let position = |row: usize| (row % sequence) as i64 - begins.get(row).map_or(0, |b| i64::from(*b));
        let positions: Vec<i64> = (0..pass.rows as usize).map(position).collect();
        Ok(Self {
            tokens: Tensor::upload(&tokens, &n, place)?,
            positions: learned.then(|| Tensor::upload(&positions, &n, place)).transpose()?,
        })
    }
}

/// Copies labels to the device, in PyTorch's numbering.
pub(super) fn upload_labels(device: Device, labels: &[u32]) -> Result<Tensor> {
    let all: Vec<i64> = labels.iter().map(|l| if *l == IGNORED { -100 } else { i64::from(*l) }).collect();
    Tensor::upload(&all, &[all.len() as i64], device.place)
}

fn table_rows(shape: &Shape) -> (usize, usize) {
    (shape.vocab, if shape.rotated == 0 { shape.heads.sequence } else { 0 })
}

/// Returns the embedding of the tokens in f32.
pub(super) fn embed(pass: &Pass, weights: &Weights<'_>, inputs: &Inputs) -> Result<Tensor> {
    let (d, h) = (pass.device, pass.shape.hidden);
    let (vocab, positions) = table_rows(&pass.shape);
    let x = d.embed(&weights.matrix(0, vocab, h)?, &inputs.tokens)?;
    let x = d.to(&x, &[pass.rows, h as i64], Kind::F32)?;
    let Some(indices) = &inputs.positions else { return Ok(x) };
    d.add(&x, &d.embed(&weights.matrix(vocab * h, positions, h)?, indices)?, 1.0)
}

/// Stores the gradient of the embedding in `gradient`; adds that of the tokens if `add`.
pub(super) fn embed_backward(
    pass: &Pass,
    inputs: &Inputs,
    dx: &Tensor,
    gradient: &Tensor,
    add: bool,
) -> Result<()> {
    let (d, h) = (pass.device, pass.shape.hidden);
    let (vocab, positions) = table_rows(&pass.shape);
    let place = gradient.view(&[vocab as i64, h as i64], 0)?;
    let mut g = d.embed_backward(dx, &inputs.tokens, vocab as i64)?;
    if add {
        g = d.add(&place, &g, 1.0)?;
    }
    place.copy(&g)?;
    let Some(indices) = &inputs.positions else { return Ok(()) };
    let place = gradient.view(&[positions as i64, h as i64], vocab * h)?;
    place.copy(&d.embed_backward(dx, indices, positions as i64)?)
}

/// Gathered parameters of the head.
pub(super) struct Head<'a> {
    /// The final norm's unit.
    pub(super) weights: Weights<'a>,
    /// vocab x hidden: in the same unit, or the embedding's.
    pub(super) matrix: Tensor,
}

/// Where the head's gradients are stored.
pub(super) struct HeadGradients {
    /// The norm's unit; none if it is not trained.
    pub(super) norm: Option<Tensor>,
    /// vocab x hidden; none if it is not trained.
    pub(super) matrix: Option<Tensor>,
}

/// Output of the final norm, and what its backward pass requires.
struct Normed {
    rows: Tensor,
    saved: Vec<Tensor>,
}

impl Head<'_> {
    fn norm(&self, pass: &Pass, x: &Tensor) -> Result<Normed> {
        let (weight, bias) = norm_ranges(&pass.shape);
        let (rows, saved) = pass.norm(x, &self.weights, (&weight, &bias))?;
        // A tensor of our own, of which chunks are views.
        Ok(Normed { rows, saved })
    }

    /// Computes the logits of `count` rows from `first` on into `to`, in the compute format.
    fn logits_of(
        &self,
        pass: &Pass,
        normed: &Normed,
        to: &Tensor,
        (first, count): (usize, usize),
    ) -> Result<()> {
        let (h, vocab) = (pass.shape.hidden as i64, pass.shape.vocab as i64);
        let rows = normed.rows.view(&[count as i64, h], first * h as usize)?;
        pass.device.product(to, &rows, &transposed(&self.matrix, vocab, h)?)
    }

    /// Returns the logits of all rows.
    pub(super) fn logits(&self, pass: &Pass, x: &Tensor) -> Result<Vec<f32>> {
        let normed = self.norm(pass, x)?;
        let sizes = [pass.rows, pass.shape.vocab as i64];
        let logits = pass.device.empty(&sizes, pass.kind)?;
        self.logits_of(pass, &normed, &logits, (0, pass.rows as usize))?;
        pass.device.to(&logits, &sizes, Kind::F32)?.read()
    }

    /// Returns the sum of the loss over the rows in f64, without gradients.
    pub(super) fn evaluate(&self, pass: &Pass, x: &Tensor, labels: &Tensor) -> Result<Tensor> {
        let normed = self.norm(pass, x)?;
        let (d, n, vocab) = (pass.device, pass.rows as usize, pass.shape.vocab);
        let mut sum = d.zeros(&[], Kind::F64)?;
        let each = chunk_rows(n, vocab);
        let chunk = d.empty(&[each as i64, vocab as i64], pass.kind)?;
        for first in (0..n).step_by(each) {
            let count = each.min(n - first);
            let sizes = [count as i64, vocab as i64];
            let logits = chunk.view(&sizes, 0)?;
            self.logits_of(pass, &normed, &logits, (first, count))?;
            let labels = labels.view(&[count as i64], first)?;
            let (loss, _) = d.cross_entropy(&d.to(&logits, &sizes, Kind::F32)?, &labels, None)?;
            sum = d.add(&sum, &loss, 1.0)?;
        }
        Ok(sum)
    }

    /// Returns the sum of the loss over the rows in f64, and the gradient of `x` in f32, with every row's
    /// loss times `scale`. Stores the parameters' gradients.
    ///
    /// The gradients of all logits are kept in the compute format, so that the matrix's gradient is one
    /// product.
    pub(super) fn loss(
        &self,
        pass: &Pass,
        x: &Tensor,
        labels: &Tensor,
        scale: &Tensor,
        gradients: &HeadGradients,
    ) -> Result<(Tensor, Tensor)> {
        let normed = self.norm(pass, x)?;
        let (d, n, vocab, h) = (pass.device, pass.rows as usize, pass.shape.vocab, pass.shape.hidden);
        let (rows, columns, width) = (n as i64, vocab as i64, h as i64);
        let mut sum = d.zeros(&[], Kind::F64)?;
        let all = d.empty(&[rows, columns], pass.kind)?;
        let each = chunk_rows(n, vocab);
        for first in (0..n).step_by(each) {
            let count = each.min(n - first);
            let sizes = [count as i64, columns];
            let logits = all.view(&sizes, first * vocab)?;
            self.logits_of(pass, &normed, &logits, (first, count))?;
            let labels = labels.view(&[count as i64], first)?;
            let wide = d.to(&logits, &sizes, Kind::F32)?;
            let (loss, gradient) = d.cross_entropy(&wide, &labels, Some(scale))?;
            sum = d.add(&sum, &loss, 1.0)?;
            if let Some(gradient) = gradient {
                logits.copy(&gradient)?;
            }
        }
        if let Some(to) = &gradients.matrix {
            let turned = transposed(&all, rows, columns)?;
            d.product_f32(to, (&turned, [columns, rows]), (&normed.rows, [rows, width]), pass.kind)?;
        }
        let dnormed = d.empty(&[rows, width], pass.kind)?;
        d.product(&dnormed, &all, &self.matrix)?;
        drop(all);
        let (weight, bias) = norm_ranges(&pass.shape);
        let ranges = (&weight, &bias);
        let to = gradients.norm.as_ref();
        let dx = pass.norm_backward(&dnormed, x, &normed.saved, &self.weights, ranges, to)?;
        Ok((sum, dx))
    }
}

/// Returns the ranges of the final norm's weight and bias in its unit.
fn norm_ranges(shape: &Shape) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
    let h = shape.hidden;
    (0..h, if shape.norm == Norm::Layer { h..2 * h } else { 0..0 })
}
