//! Layout of tensors in units.

use super::adapter::Lora;
use crate::config::{self, Activation, Biases, NormKind, PositionKind, ScalingKind};
use crate::kernels::attention::AttentionShape;
use crate::kernels::rows::{Act, Norm};

/// Dimensions and settings of a model, as the arithmetic needs them.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Tokens of the vocabulary.
    pub vocab: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width of the feed-forward layers.
    pub inner: usize,
    /// Number of blocks.
    pub layers: usize,
    /// Shape of the attention.
    pub heads: AttentionShape,
    /// Kind of norm.
    pub norm: Norm,
    /// Epsilon of the norms.
    pub eps: f64,
    /// Activation function.
    pub act: Act,
    /// Whether linear layers have biases.
    pub biases: bool,
    /// Rotated elements of each head; 0 for learned positions.
    pub rotated: usize,
    /// Base of the rotary wavelengths.
    pub theta: f64,
    /// Scaling of rotary positions.
    pub scaling: Option<config::Scaling>,
    /// Low-rank adapters.
    pub adapter: Option<Lora>,
    /// Whether attention and feed-forward read the same input.
    pub parallel: bool,
    /// Whether the head shares the weights of the embedding.
    pub tied: bool,
    /// Standard deviation of fresh weights.
    pub initializer_range: f64,
}

/// Initial values of a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initializer {
    /// All zeros.
    Zero,
    /// All ones.
    One,
    /// Normal with this standard deviation.
    Normal(f64),
    /// Uniform between minus this and this.
    Uniform(f64),
}

/// A tensor inside a unit, row-major; a vector has one row.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Its name in this project: `embed.tokens`, `block.0.qkv.weight`, …
    pub name: String,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Offset in the unit.
    pub offset: usize,
    /// Whether weight decay applies.
    pub decay: bool,
    /// Initial values.
    pub fresh: Initializer,
}

impl Tensor {
    /// Returns the number of elements.
    pub fn elements(&self) -> usize {
        self.rows * self.cols
    }

    /// Returns its range in the unit.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.elements()
    }
}

/// Tensors that are gathered, freed and reduced together.
#[derive(Clone, Debug)]
pub struct Unit {
    /// `embed`, `block.0` …, `head`.
    pub name: String,
    /// Ordered by offset.
    pub tensors: Vec<Tensor>,
    /// Elements, without padding.
    pub len: usize,
    /// Whether its elements are trained.
    pub trained: bool,
}

impl Unit {
    pub(super) fn new(name: String) -> Self {
        Self { name, tensors: Vec::new(), len: 0, trained: true }
    }

    /// Appends a matrix.
    pub(super) fn push_matrix(
        &mut self,
        name: &str,
        rows: usize,
        cols: usize,
        fresh: Initializer,
    ) -> std::ops::Range<usize> {
        let range = self.push(name, rows, cols, fresh);
        if let Some(tensor) = self.tensors.last_mut() {
            tensor.decay = true;
        }
        range
    }

    fn push(&mut self, name: &str, rows: usize, cols: usize, fresh: Initializer) -> std::ops::Range<usize> {
        let tensor = Tensor {
            name: format!("{}.{name}", self.name),
            rows,
            cols,
            offset: self.len,
            decay: matches!(fresh, Initializer::Normal(_)),
            fresh,
        };
        self.len += tensor.elements();
        let range = tensor.range();
        self.tensors.push(tensor);
        range
    }
}

type Range = std::ops::Range<usize>;

/// Ranges of a block's tensors; empty if absent.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each name is its tensor's")]
pub struct BlockLayout {
    pub norm1: Range,
    pub norm1_bias: Range,
    pub qkv: Range,
    pub qkv_bias: Range,
    pub out: Range,
    pub out_bias: Range,
    pub norm2: Range,
    pub norm2_bias: Range,
    pub up: Range,
    pub up_bias: Range,
    pub down: Range,
    pub down_bias: Range,
}

fn unscaled_frequencies(theta: f64, rotated: usize) -> Vec<f64> {
    (0..rotated / 2).map(|i| theta.powf(-2.0 * i as f64 / rotated as f64)).collect()
}

impl Shape {
    /// Reads the shape of a checked config.
    pub fn from_model(model: &config::Model) -> Self {
        let rotary = model.positions.kind == PositionKind::Rotary;
        Self {
            vocab: model.vocab_size,
            hidden: model.hidden_size,
            inner: model.intermediate_size,
            layers: model.layers,
            heads: AttentionShape {
                heads: model.heads,
                kv_heads: model.kv_heads,
                dim: model.head_dim,
                sequence: model.sequence_length,
            },
            norm: match model.norm.kind {
                NormKind::Layer => Norm::Layer,
                NormKind::Rms => Norm::Rms,
            },
            eps: model.norm.eps,
            act: match model.activation {
                Activation::Swiglu => Act::SwiGlu,
                Activation::Gelu => Act::Gelu,
                Activation::GeluTanh => Act::GeluTanh,
            },
            biases: model.biases == Biases::All,
            rotated: if rotary {
                // Truncated, as in transformers (`int(head_dim * partial_rotary_factor)`).
                (model.positions.fraction.unwrap_or(1.0) * model.head_dim as f64).floor() as usize
            } else {
                0
            },
            theta: model.positions.theta.unwrap_or(10_000.0),
            scaling: model.positions.scaling.clone(),
            adapter: Lora::from_model(model),
            parallel: model.parallel_residual,
            tied: model.tied_embeddings,
            initializer_range: model.initializer_range,
        }
    }

    /// Returns the columns of the first feed-forward layer.
    pub fn up_width(&self) -> usize {
        if self.act == Act::SwiGlu { 2 * self.inner } else { self.inner }
    }

    /// Returns the columns of the attention's output before its projection.
    pub fn attention_width(&self) -> usize {
        self.heads.heads * self.heads.dim
    }

    fn push_norm(&self, unit: &mut Unit, name: &str) -> (Range, Range) {
        let weight = unit.push(&format!("{name}.weight"), 1, self.hidden, Initializer::One);
        let bias = match self.norm {
            Norm::Layer => unit.push(&format!("{name}.bias"), 1, self.hidden, Initializer::Zero),
            Norm::Rms => 0..0,
        };
        (weight, bias)
    }

    fn push_product(
        &self,
        unit: &mut Unit,
        name: &str,
        rows: usize,
        cols: usize,
        deviation: f64,
    ) -> (Range, Range) {
        let weight = unit.push(&format!("{name}.weight"), rows, cols, Initializer::Normal(deviation));
        let bias =
            if self.biases { unit.push(&format!("{name}.bias"), 1, rows, Initializer::Zero) } else { 0..0 };
        (weight, bias)
    }

    /// Returns the unit and layout of one block.
    pub fn block(&self, index: usize) -> (Unit, BlockLayout) {
        let mut unit = Unit::new(format!("block.{index}"));
        let deviation = self.initializer_range;
        let residual = deviation / (2.0 * self.layers as f64).sqrt();
        let (norm1, norm1_bias) = self.push_norm(&mut unit, "norm1");
        let (qkv, qkv_bias) = self.push_product(&mut unit, "qkv", self.heads.width(), self.hidden, deviation);
        let (out, out_bias) =
            self.push_product(&mut unit, "out", self.hidden, self.attention_width(), residual);
        let (norm2, norm2_bias) = self.push_norm(&mut unit, "norm2");
        let (up, up_bias) = self.push_product(&mut unit, "up", self.up_width(), self.hidden, deviation);
        let (down, down_bias) = self.push_product(&mut unit, "down", self.hidden, self.inner, residual);
        let layout = BlockLayout {
            norm1,
            norm1_bias,
            qkv,
            qkv_bias,
            out,
            out_bias,
            norm2,
            norm2_bias,
            up,
            up_bias,
            down,
            down_bias,
        };
        (unit, layout)
    }

    /// Returns the unit of the token table and, if learned, the positions.
    pub fn embed(&self) -> Unit {
        let mut unit = Unit::new("embed".to_owned());
        unit.push("tokens", self.vocab, self.hidden, Initializer::Normal(self.initializer_range));
        if self.rotated == 0 {
            unit.push(
                "positions",
                self.heads.sequence,
                self.hidden,
                Initializer::Normal(self.initializer_range),
            );
        }
        unit
    }

    /// Returns the unit of the final norm and, if not tied, the head.
    pub fn head(&self) -> Unit {
        let mut unit = Unit::new("head".to_owned());
        self.push_norm(&mut unit, "norm");
        if !self.tied {
            unit.push("weight", self.vocab, self.hidden, Initializer::Normal(self.initializer_range));
        }
        unit
    }

    /// Returns all units in order of use: embed, blocks, head; then the blocks' adapters. Only the adapters
    /// are trained if there are any.
    pub fn units(&self) -> Vec<Unit> {
        let mut units = vec![self.embed()];
        units.extend((0..self.layers).map(|i| self.block(i).0));
        units.push(self.head());
        if let Some(lora) = &self.adapter {
            for unit in &mut units {
                unit.trained = false;
            }
            units.extend((0..self.layers).map(|i| lora.unit(self, i).0));
        }
        units
    }

    /// Returns the angle per position of each pair of rotated elements, as `transformers` computes it
    /// (modeling_rope_utils.py).
    pub fn frequencies(&self) -> Vec<f64> {
        let (d, length) = (self.rotated as f64, self.heads.sequence as f64);
        let mut theta = self.theta;
        let Some(s) = &self.scaling else { return unscaled_frequencies(theta, self.rotated) };
        let original = s.original_positions.map_or(length, |n| n as f64);
        if s.kind == ScalingKind::Dynamic && length > original {
            theta *= (s.factor * length / original - (s.factor - 1.0)).powf(d / (d - 2.0));
        }
        let mut out = unscaled_frequencies(theta, self.rotated);
        let (low, high) = (s.low_frequency_factor.unwrap_or(1.0), s.high_frequency_factor.unwrap_or(4.0));
        for f in &mut out {
            let turns = original * *f / (2.0 * std::f64::consts::PI);
            *f = match s.kind {
                ScalingKind::Dynamic => *f,
                ScalingKind::Linear => *f / s.factor,
                ScalingKind::Llama3 if turns < low => *f / s.factor,
                ScalingKind::Llama3 if turns > high => *f,
                ScalingKind::Llama3 => {
                    let smooth = (turns - low) / (high - low);
                    (1.0 - smooth) * *f / s.factor + smooth * *f
                }
            };
        }
        out
    }

    /// Returns the elements of all units.
    pub fn parameters(&self) -> usize {
        self.units().iter().map(|unit| unit.len).sum()
    }
}
