//! Arithmetic of a pass on tensors: the operators that `kernels` has for CPU ranks, with PyTorch's kernels.
//! The same code runs on CPU tensors and on a GPU; attention, the backward pass of the RMS norm and products
//! with f32 results have different operators on each.

#![allow(clippy::unused_self, reason = "all operators are called alike, whether or not they differ on a GPU")]

use super::ffi::{Argument as A, Kind, Place, Tensor, call};
use super::trace::{self, Stand};
use crate::config::AttentionKernels;
use crate::exit::{Code, Failure};

type Result<T> = std::result::Result<T, Failure>;

/// Kernels of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// PyTorch's flash attention, for Ampere and later.
    Flash,
    /// cuDNN's, faster on Hopper and later.
    Cudnn,
}

/// Largest head of cuDNN's attention with a backward pass (cuDNN developer guide, on fused attention).
pub(crate) const CUDNN_HEAD: usize = 128;

/// Returns whether a GPU of this compute capability has cuDNN's attention for a head of `dim` elements.
pub(crate) fn has_cudnn_attention(capability: (i32, i32), dim: usize) -> bool {
    capability.0 >= 8 && dim <= CUDNN_HEAD
}

/// Returns the kernels of attention for a GPU's compute capability and a head of `dim` elements. On Hopper
/// cuDNN's are 1.7 to 2.3 times as fast as PyTorch's flash attention, on Ampere slower
/// (huggingface/transformers #48163).
pub(crate) fn attention_kernels(setting: AttentionKernels, capability: (i32, i32), dim: usize) -> Attention {
    let faster = capability.0 >= 9 && has_cudnn_attention(capability, dim);
    match setting {
        AttentionKernels::Auto if faster => Attention::Cudnn,
        AttentionKernels::Cudnn => Attention::Cudnn,
        AttentionKernels::Auto | AttentionKernels::Flash => Attention::Flash,
    }
}

/// Where and with which kernels a rank computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// Where its tensors are.
    pub place: Place,
    /// Kernels of attention on a GPU; on a CPU those that a trace contains.
    pub attention: Attention,
}

/// What the backward pass of attention requires of the forward pass.
#[derive(Debug)]
pub(crate) struct SavedAttention {
    log_sum: Tensor,
    /// Random state, which PyTorch's kernels return and require, although nothing is dropped.
    random: Option<[Tensor; 2]>,
    /// Ends of the documents, for kernels that take documents one after the other.
    ends: Option<(Tensor, i64)>,
    /// Scores that a CPU adds: minus infinity between documents.
    mask: Option<Tensor>,
}

/// Documents of a micro-batch.
#[derive(Debug)]
pub(crate) struct Documents {
    /// Starts of all documents in the rows, and the number of rows.
    ends: Tensor,
    longest: i64,
    /// On a CPU: batch x 1 x sequence x sequence, 0 or minus infinity.
    mask: Option<Tensor>,
}

/// Shape of attention: rows of queries, keys and values of all heads, and rows of outputs.
#[allow(clippy::struct_field_names, reason = "the number of heads is called heads everywhere")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadShape {
    /// Sequences.
    pub batch: i64,
    /// Rows of a sequence.
    pub sequence: i64,
    /// Heads of queries and outputs.
    pub heads: i64,
    /// Heads of keys and values.
    pub kv_heads: i64,
    /// Elements of a head.
    pub dim: i64,
}

/// Order of dimensions that a kernel of attention takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// batch x heads x sequence x dim.
    HeadsFirst,
    /// batch x sequence x heads x dim.
    RowsFirst,
    /// rows x heads x dim: documents one after the other.
    Documents,
}

impl HeadShape {
    /// Returns the elements of a row of queries, keys and values.
    pub(crate) fn width(self) -> i64 {
        (self.heads + 2 * self.kv_heads) * self.dim
    }

    /// Returns a view of `heads` heads at element `at` of rows of `width` elements.
    fn view(self, rows: &Tensor, width: i64, heads: i64, at: i64, form: Form) -> Result<Tensor> {
        let Self { batch, sequence, dim, .. } = self;
        let (sizes, strides): (&[i64], &[i64]) = match form {
            Form::HeadsFirst => (&[batch, heads, sequence, dim], &[sequence * width, dim, width, 1]),
            Form::RowsFirst => (&[batch, sequence, heads, dim], &[sequence * width, width, dim, 1]),
            Form::Documents => (&[batch * sequence, heads, dim], &[width, dim, 1]),
        };
        rows.strided(sizes, strides, at as usize)
    }

    /// Returns views of queries, keys and values.
    fn parts(self, qkv: &Tensor, form: Form) -> Result<[Tensor; 3]> {
        let (width, q, k) = (self.width(), self.heads * self.dim, self.kv_heads * self.dim);
        let part = |heads, at| self.view(qkv, width, heads, at, form);
        Ok([part(self.heads, 0)?, part(self.kv_heads, q)?, part(self.kv_heads, q + k)?])
    }

    /// Returns a view of outputs.
    fn outputs(self, rows: &Tensor, form: Form) -> Result<Tensor> {
        self.view(rows, self.heads * self.dim, self.heads, 0, form)
    }
}

fn tensors<const N: usize>(outputs: Vec<Tensor>) -> Result<[Tensor; N]> {
    let found = outputs.len();
    outputs.try_into().map_err(|_| Failure::new(Code::Bug, format!("{found} results, expected {N}")))
}

fn one(outputs: Vec<Tensor>) -> Result<Tensor> {
    let [tensor] = tensors(outputs)?;
    Ok(tensor)
}

impl Device {
    /// Returns the tensors of a CPU. A trace has the GPU operators of `attention`.
    pub(crate) fn cpu(attention: Attention) -> Self {
        Self { place: Place::Cpu, attention }
    }

    fn is_cpu(self) -> bool {
        self.place == Place::Cpu
    }

    /// Allocates a contiguous tensor.
    pub(crate) fn empty(self, sizes: &[i64], kind: Kind) -> Result<Tensor> {
        Tensor::empty(sizes, kind, self.place)
    }

    /// Allocates a contiguous tensor of zeros.
    pub(crate) fn zeros(self, sizes: &[i64], kind: Kind) -> Result<Tensor> {
        let tensor = self.empty(sizes, kind)?;
        self.zero(&tensor)?;
        Ok(tensor)
    }

    /// Fills with zeros.
    pub(crate) fn zero(self, tensor: &Tensor) -> Result<()> {
        call("aten::zero_", &[A::T(tensor)]).map(drop)
    }

    /// Returns a copy in another format.
    pub(crate) fn to(self, tensor: &Tensor, sizes: &[i64], kind: Kind) -> Result<Tensor> {
        let copy = self.empty(sizes, kind)?;
        copy.copy(tensor)?;
        Ok(copy)
    }

    /// Returns a + alpha b, in the wider of both formats.
    pub(crate) fn add(self, a: &Tensor, b: &Tensor, alpha: f64) -> Result<Tensor> {
        a.plus(b, alpha, self.place)
    }

    /// Returns a b, element by element, in the wider of both formats.
    pub(crate) fn multiply(self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        one(call("aten::mul.Tensor", &[A::T(a), A::T(b)])?)
    }

    /// Computes out = a b, element by element, in the format of `out`.
    pub(crate) fn multiply_to(self, out: &Tensor, a: &Tensor, b: &Tensor) -> Result<()> {
        call("aten::mul.out", &[A::T(a), A::T(b), A::T(out)]).map(drop)
    }

    /// Returns a view of f32 numbers as complex numbers; the last dimension has real and imaginary parts.
    pub(crate) fn complex(self, pairs: &Tensor) -> Result<Tensor> {
        one(call("aten::view_as_complex", &[A::T(pairs)])?)
    }

    /// Returns a view of complex numbers as f32 numbers.
    pub(crate) fn real(self, complex: &Tensor) -> Result<Tensor> {
        one(call("aten::view_as_real", &[A::T(complex)])?)
    }

    /// Computes out = a b of matrices of one format.
    pub(crate) fn product(self, out: &Tensor, a: &Tensor, b: &Tensor) -> Result<()> {
        call("aten::mm.out", &[A::T(a), A::T(b), A::T(out)]).map(drop)
    }

    /// Computes out = a b in f32 from matrices of format `kind`: n x k and k x m.
    pub(crate) fn product_f32(
        self,
        out: &Tensor,
        (a, a_sizes): (&Tensor, [i64; 2]),
        (b, b_sizes): (&Tensor, [i64; 2]),
        kind: Kind,
    ) -> Result<()> {
        if kind == Kind::F32 {
            return self.product(out, a, b);
        }
        let wide = [A::T(a), A::T(b), A::K(Kind::F32), A::T(out)];
        if !self.is_cpu() {
            return call("aten::mm.dtype_out", &wide).map(drop);
        }
        trace::muted(|| {
            let (a, b) = (self.to(a, &a_sizes, Kind::F32)?, self.to(b, &b_sizes, Kind::F32)?);
            self.product(out, &a, &b)
        })?;
        trace::instead("aten::mm.dtype_out", &wide, &[]);
        Ok(())
    }

    /// Returns the sum over dimension `dim` in format `kind`.
    pub(crate) fn sum_over(self, tensor: &Tensor, dim: i64, kind: Kind) -> Result<Tensor> {
        one(call("aten::sum.dim_IntList", &[A::T(tensor), A::Is(&[dim]), A::B(false), A::K(kind)])?)
    }

    /// Returns the sum of squares of the first `n` elements of an f32 tensor in f64: sums of chunks in f32,
    /// which read it once.
    pub(crate) fn sum_of_squares(self, tensor: &Tensor, n: usize) -> Result<Tensor> {
        const CHUNK: usize = 1 << 24;
        let mut sum = self.zeros(&[], Kind::F64)?;
        for from in (0..n).step_by(CHUNK) {
            let part = tensor.view(&[CHUNK.min(n - from) as i64], from)?;
            sum = self.add(&sum, &one(call("aten::dot", &[A::T(&part), A::T(&part)])?)?, 1.0)?;
        }
        Ok(sum)
    }

    /// Returns the root mean square norm of f32 rows of `h` elements, and what its backward pass requires.
    pub(crate) fn rms_norm(
        self,
        x: &Tensor,
        h: i64,
        weight: &Tensor,
        eps: f64,
    ) -> Result<(Tensor, Vec<Tensor>)> {
        let outputs = call("aten::_fused_rms_norm", &[A::T(x), A::Is(&[h]), A::T(weight), A::F(eps)])?;
        let [y, inverse] = tensors(outputs)?;
        Ok((y, vec![inverse]))
    }

    /// Returns the gradients of `x` and the weight, in f32.
    pub(crate) fn rms_norm_backward(
        self,
        dy: &Tensor,
        x: &Tensor,
        h: i64,
        saved: &[Tensor],
        weight: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        let inverse = &saved[0];
        let arguments = [A::T(dy), A::T(x), A::Is(&[h]), A::T(inverse), A::T(weight), A::Bs(&[true, true])];
        if !self.is_cpu() {
            let [dx, dw] = tensors(call("aten::_fused_rms_norm_backward", &arguments)?)?;
            return Ok((dx, dw));
        }
        // PyTorch has no such kernel for CPUs.
        let (dx, dw) = trace::muted(|| -> Result<_> {
            let normed = self.multiply(x, inverse)?;
            let g = self.multiply(dy, weight)?;
            let mean = [A::T(&self.multiply(&g, &normed)?), A::Is(&[1]), A::B(true), A::None];
            let mean = one(call("aten::mean.dim", &mean)?)?;
            let dx = self.multiply(&self.add(&g, &self.multiply(&normed, &mean)?, -1.0)?, inverse)?;
            let dw = self.sum_over(&self.multiply(dy, &normed)?, 0, Kind::F32)?;
            Ok((dx, dw))
        })?;
        trace::instead("aten::_fused_rms_norm_backward", &arguments, &[Stand::For(&dx), Stand::For(&dw)]);
        Ok((dx, dw))
    }

    /// Returns the norm of f32 rows of `h` elements by mean and variance, and what its backward pass
    /// requires.
    pub(crate) fn layer_norm(
        self,
        x: &Tensor,
        h: i64,
        weight: &Tensor,
        bias: &Tensor,
        eps: f64,
    ) -> Result<(Tensor, Vec<Tensor>)> {
        let arguments = [A::T(x), A::Is(&[h]), A::T(weight), A::T(bias), A::F(eps)];
        let [y, mean, inverse] = tensors(call("aten::native_layer_norm", &arguments)?)?;
        Ok((y, vec![mean, inverse]))
    }

    /// Returns the gradients of `x`, weight and bias, in f32.
    pub(crate) fn layer_norm_backward(
        self,
        dy: &Tensor,
        x: &Tensor,
        h: i64,
        saved: &[Tensor],
        (weight, bias): (&Tensor, &Tensor),
    ) -> Result<[Tensor; 3]> {
        tensors(call(
            "aten::native_layer_norm_backward",
            &[
                A::T(dy),
                A::T(x),
                A::Is(&[h]),
                A::T(&saved[0]),
                A::T(&saved[1]),
                A::T(weight),
                A::T(bias),
                A::Bs(&[true, true, true]),
            ],
        )?)
    }

    /// Returns silu(x).
    pub(crate) fn silu(self, x: &Tensor) -> Result<Tensor> {
        one(call("aten::silu", &[A::T(x)])?)
    }

    /// Computes out = the gradient of `x` of silu(x).
    pub(crate) fn silu_backward_to(self, out: &Tensor, dy: &Tensor, x: &Tensor) -> Result<()> {
        call("aten::silu_backward.grad_input", &[A::T(dy), A::T(x), A::T(out)]).map(drop)
    }

    /// Returns gelu(x); `approximate` is `none` or `tanh`.
    pub(crate) fn gelu(self, x: &Tensor, approximate: &'static str) -> Result<Tensor> {
        one(call("aten::gelu", &[A::T(x), A::S(approximate)])?)
    }

    /// Returns the gradient of `x` of gelu(x).
    pub(crate) fn gelu_backward(self, dy: &Tensor, x: &Tensor, approximate: &'static str) -> Result<Tensor> {
        one(call("aten::gelu_backward", &[A::T(dy), A::T(x), A::S(approximate)])?)
    }

    /// Returns the rows of a table at `indices`.
    pub(crate) fn embed(self, table: &Tensor, indices: &Tensor) -> Result<Tensor> {
        one(call("aten::embedding", &[A::T(table), A::T(indices), A::I(-1), A::B(false), A::B(false)])?)
    }

    /// Returns the gradient of a table of `rows` rows.
    pub(crate) fn embed_backward(self, dy: &Tensor, indices: &Tensor, rows: i64) -> Result<Tensor> {
        let arguments = [A::T(dy), A::T(indices), A::I(rows), A::I(-1), A::B(false)];
        one(call("aten::embedding_dense_backward", &arguments)?)
    }

    /// Returns the sum over rows of -log p(label), and with `scale` the gradient of the logits times it.
    /// Labels of -100 are excluded. Everything is in f32.
    pub(crate) fn cross_entropy(
        self,
        logits: &Tensor,
        labels: &Tensor,
        scale: Option<&Tensor>,
    ) -> Result<(Tensor, Option<Tensor>)> {
        // The sum, in PyTorch's numbering of reductions.
        const SUM: i64 = 2;
        const IGNORED: i64 = -100;
        let log_p = one(call("aten::_log_softmax", &[A::T(logits), A::I(1), A::B(false)])?)?;
        let arguments = [A::T(&log_p), A::T(labels), A::None, A::I(SUM), A::I(IGNORED)];
        let [loss, total] = tensors(call("aten::nll_loss_forward", &arguments)?)?;
        let Some(scale) = scale else { return Ok((loss, None)) };
        let arguments =
            [A::T(scale), A::T(&log_p), A::T(labels), A::None, A::I(SUM), A::I(IGNORED), A::T(&total)];
        let d = one(call("aten::nll_loss_backward", &arguments)?)?;
        let arguments = [A::T(&d), A::T(&log_p), A::I(1), A::K(Kind::F32)];
        let d = one(call("aten::_log_softmax_backward_data", &arguments)?)?;
        Ok((loss, Some(d)))
    }

    /// Prepares the documents of a micro-batch from the start of each row's document in its sequence.
    pub(crate) fn documents(self, begins: &[u32], sequence: usize) -> Result<Documents> {
        let mut ends = Vec::new();
        for (row, begin) in begins.iter().enumerate() {
            if row % sequence == *begin as usize {
                ends.push(row as i32);
            }
        }
        ends.push(begins.len() as i32);
        let longest = ends.windows(2).map(|pair| i64::from(pair[1] - pair[0])).max().unwrap_or(0);
        let count = ends.len() as i64;
        let mask = if self.is_cpu() {
            let mut mask = vec![f32::NEG_INFINITY; begins.len() * sequence];
            for (row, begin) in begins.iter().enumerate() {
                mask[row * sequence..][*begin as usize..=row % sequence].fill(0.0);
            }
            let (batch, sequence) = ((begins.len() / sequence) as i64, sequence as i64);
            Some(trace::muted(|| Tensor::upload(&mask, &[batch, 1, sequence, sequence], self.place))?)
        } else {
            None
        };
        Ok(Documents { ends: Tensor::upload(&ends, &[count], self.place)?, longest, mask })
    }

    /// Computes out = causal attention. Rows of `qkv` have the queries, keys and values of all heads, and
    /// rows of `out` the outputs.
    pub(crate) fn attention(
        self,
        shape: HeadShape,
        qkv: &Tensor,
        documents: Option<&Documents>,
        out: &Tensor,
    ) -> Result<SavedAttention> {
        let form = self.form(documents.is_some());
        if self.is_cpu() {
            let mut saved = trace::muted(|| self.attention_on_cpu(shape, qkv, documents, out))?;
            if trace::is_active() {
                let parts = shape.parts(qkv, form)?;
                let to = shape.outputs(out, form)?;
                self.trace_attention(shape.sequence, &parts, documents, &to, &mut saved)?;
            }
            return Ok(saved);
        }
        let parts = shape.parts(qkv, form)?;
        let (o, log_sum, random) = if form == Form::HeadsFirst {
            let [q, k, v] = &parts;
            let [o, log_sum, seed, offset] = super::ffi::cudnn_attention(q, k, v)?;
            (o, log_sum, [seed, offset])
        } else {
            let arguments = Self::flash_arguments(&parts, documents, shape.sequence)?;
            let [o, log_sum, state, unused, _] = tensors(call(FLASH, &arguments)?)?;
            (o, log_sum, [state, unused])
        };
        shape.outputs(out, form)?.copy(&o)?;
        let ends = documents.map(|documents| Ok((documents.ends.alias()?, documents.longest)));
        Ok(SavedAttention { log_sum, random: Some(random), ends: ends.transpose()?, mask: None })
    }

    /// Returns what the kernels on a GPU take. cuDNN's do not take documents one after the other.
    fn form(self, documents: bool) -> Form {
        match self.attention {
            _ if documents => Form::Documents,
            Attention::Flash => Form::RowsFirst,
            Attention::Cudnn => Form::HeadsFirst,
        }
    }

    /// Returns the arguments of flash attention: as many as this version of PyTorch has.
    fn flash_arguments<'a>(
        [q, k, v]: &'a [Tensor; 3],
        documents: Option<&'a Documents>,
        sequence: i64,
    ) -> Result<Vec<A<'a>>> {
        let ends = documents.map_or(A::None, |documents| A::T(&documents.ends));
        let longest = documents.map_or(sequence, |documents| documents.longest);
        let mut arguments = vec![
            A::T(q),
            A::T(k),
            A::T(v),
            ends,
            ends,
            A::I(longest),
            A::I(longest),
            A::F(0.0),
            A::B(true),
            A::B(false),
        ];
        arguments.resize(super::ffi::count_arguments(FLASH)?, A::None);
        Ok(arguments)
    }

    fn attention_on_cpu(
        self,
        shape: HeadShape,
        qkv: &Tensor,
        documents: Option<&Documents>,
        out: &Tensor,
    ) -> Result<SavedAttention> {
        let mask = documents.and_then(|documents| documents.mask.as_ref());
        let [q, k, v] = self.repeated_parts(shape, qkv)?;
        let outputs = call(
            "aten::_scaled_dot_product_flash_attention_for_cpu",
            &[
                A::T(&q),
                A::T(&k),
                A::T(&v),
                A::F(0.0),
                A::B(mask.is_none()),
                mask.map_or(A::None, A::T),
                A::None,
            ],
        )?;
        let [o, log_sum] = tensors(outputs)?;
        shape.outputs(out, Form::HeadsFirst)?.copy(&o)?;
        let mask = mask.map(Tensor::alias).transpose()?;
        Ok(SavedAttention { log_sum, random: None, ends: None, mask })
    }

    /// Returns queries, keys and values for a CPU's kernel, which takes as many keys and values as queries.
    fn repeated_parts(self, shape: HeadShape, qkv: &Tensor) -> Result<[Tensor; 3]> {
        let HeadShape { batch, sequence, heads, kv_heads, dim } = shape;
        let [q, k, v] = shape.parts(qkv, Form::HeadsFirst)?;
        if heads == kv_heads {
            return Ok([q, k, v]);
        }
        let (width, kind) = (shape.width(), qkv.kind()?);
        let repeat = |at: i64| -> Result<Tensor> {
            let to = self.empty(&[batch, heads, sequence, dim], kind)?;
            let sizes = [batch, kv_heads, heads / kv_heads, sequence, dim];
            let strides = [sequence * width, dim, 0, width, 1];
            to.view(&sizes, 0)?.copy(&qkv.strided(&sizes, &strides, at as usize)?)?;
            Ok(to)
        };
        Ok([q, repeat(heads * dim)?, repeat((heads + kv_heads) * dim)?])
    }

    /// Computes the gradients of `qkv` from that of the output.
    pub(crate) fn attention_backward(
        self,
        shape: HeadShape,
        d: &Tensor,
        qkv: &Tensor,
        out: &Tensor,
        saved: &SavedAttention,
        dqkv: &Tensor,
    ) -> Result<()> {
        if self.is_cpu() {
            trace::muted(|| self.attention_backward_on_cpu(shape, d, qkv, out, saved, dqkv))?;
            if !trace::is_active() {
                return Ok(());
            }
        }
        let form = self.form(saved.ends.is_some());
        let [q, k, v] = &shape.parts(qkv, form)?;
        let (d, out) = (shape.outputs(d, form)?, shape.outputs(out, form)?);
        let none = trace::muted(Tensor::undefined)?;
        let (ends, longest) = saved.ends.as_ref().map_or((&none, shape.sequence), |(ends, n)| (ends, *n));
        let random = saved.random.as_ref().map(|[a, b]| [A::T(a), A::T(b)]);
        let [seed, offset] =
            random.ok_or_else(|| Failure::new(Code::Bug, "attention has no random state"))?;
        let first = [A::T(&d), A::T(q), A::T(k), A::T(v), A::T(&out), A::T(&saved.log_sum)];
        let bounds = [A::T(ends), A::T(ends), A::I(longest), A::I(longest), A::F(0.0), A::B(true)];
        let (name, arguments) = if form == Form::HeadsFirst {
            (CUDNN_BACKWARD, [&first[..], &[seed, offset, A::T(&none)], &bounds, &[A::None]].concat())
        } else {
            (FLASH_BACKWARD, [&first[..], &bounds, &[seed, offset, A::None, A::None, A::None]].concat())
        };
        let parts = shape.parts(dqkv, form)?;
        if self.is_cpu() {
            let unknown = || trace::muted(|| self.empty(&[0], Kind::F32));
            let results = [unknown()?, unknown()?, unknown()?];
            trace::instead(name, &arguments, &results.each_ref().map(Stand::Unknown));
            parts.iter().zip(&results).for_each(|(to, from)| trace::copied(to, from));
            return Ok(());
        }
        let results: [Tensor; 3] = tensors(call(name, &arguments)?)?;
        parts.iter().zip(&results).try_for_each(|(to, from)| to.copy(from))
    }

    fn attention_backward_on_cpu(
        self,
        shape: HeadShape,
        d: &Tensor,
        qkv: &Tensor,
        out: &Tensor,
        saved: &SavedAttention,
        dqkv: &Tensor,
    ) -> Result<()> {
        let HeadShape { batch, sequence, heads, kv_heads, dim } = shape;
        let [q, k, v] = self.repeated_parts(shape, qkv)?;
        let (d, out) = (shape.outputs(d, Form::HeadsFirst)?, shape.outputs(out, Form::HeadsFirst)?);
        let results = call(
            "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
            &[
                A::T(&d),
                A::T(&q),
                A::T(&k),
                A::T(&v),
                A::T(&out),
                A::T(&saved.log_sum),
                A::F(0.0),
                A::B(saved.mask.is_none()),
                saved.mask.as_ref().map_or(A::None, A::T),
                A::None,
            ],
        )?;
        drop((k, v));
        let (results, parts): ([Tensor; 3], _) = (tensors(results)?, shape.parts(dqkv, Form::HeadsFirst)?);
        for (number, (from, to)) in results.into_iter().zip(parts).enumerate() {
            if number == 0 || heads == kv_heads {
                to.copy(&from)?;
                continue;
            }
            // The gradients of repeated heads are summed.
            let kind = qkv.kind()?;
            let all = self.to(&from, &[batch, heads, sequence, dim], kind)?;
            let all = all.view(&[batch, kv_heads, heads / kv_heads, sequence, dim], 0)?;
            to.copy(&self.sum_over(&all, 2, kind)?)?;
        }
        Ok(())
    }

    /// Records the GPU's operators for what a CPU has computed.
    fn trace_attention(
        self,
        sequence: i64,
        parts: &[Tensor; 3],
        documents: Option<&Documents>,
        out: &Tensor,
        saved: &mut SavedAttention,
    ) -> Result<()> {
        let unknown = || trace::muted(|| self.empty(&[0], Kind::F32));
        let (o, random, last) = (unknown()?, [unknown()?, unknown()?], unknown()?);
        if self.form(documents.is_some()) == Form::HeadsFirst {
            let ([q, k, v], unused) = (parts, [unknown()?, unknown()?]);
            trace::instead(
                "aten::_scaled_dot_product_cudnn_attention",
                &[
                    A::T(q),
                    A::T(k),
                    A::T(v),
                    A::None,
                    A::B(true),
                    A::F(0.0),
                    A::B(true),
                    A::B(false),
                    A::None,
                ],
                &[
                    Stand::Unknown(&o),
                    Stand::Unknown(&saved.log_sum),
                    Stand::Unknown(&unused[0]),
                    Stand::Unknown(&unused[1]),
                    Stand::Integer,
                    Stand::Integer,
                    Stand::Unknown(&random[0]),
                    Stand::Unknown(&random[1]),
                    Stand::Unknown(&last),
                ],
            );
        } else {
            let arguments = Self::flash_arguments(parts, documents, sequence)?;
            let results = [&o, &saved.log_sum, &random[0], &random[1], &last].map(Stand::Unknown);
            trace::instead(FLASH, &arguments, &results);
        }
        trace::copied(out, &o);
        saved.ends = documents.map(|d| Ok::<_, Failure>((d.ends.alias()?, d.longest))).transpose()?;
        saved.random = Some(random);
        Ok(())
    }

    /// Applies one step of AdamW to lists of f32 tensors. `unscale` divides the gradients; `step` counts from
    /// 1.
    pub(crate) fn adamw(
        self,
        optimizer: &crate::config::Optimizer,
        rate: f64,
        decay: bool,
        step: &Tensor,
        unscale: &Tensor,
        [values, gradients, means, squares]: [&[&Tensor]; 4],
    ) -> Result<()> {
        let steps: Vec<&Tensor> = values.iter().map(|_| step).collect();
        call(
            "aten::_fused_adamw_",
            &[
                A::Ts(values),
                A::Ts(gradients),
                A::Ts(means),
                A::Ts(squares),
                A::Ts(&[]),
                A::Ts(&steps),
                A::F(rate),
                A::F(optimizer.beta1),
                A::F(optimizer.beta2),
                A::F(if decay { optimizer.weight_decay } else { 0.0 }),
                A::F(optimizer.eps),
                A::B(false),
                A::B(false),
                A::T(unscale),
                A::None,
            ],
        )
        .map(drop)
    }
}

const FLASH: &str = "aten::_flash_attention_forward";
const FLASH_BACKWARD: &str = "aten::_flash_attention_backward";
const CUDNN_BACKWARD: &str = "aten::_scaled_dot_product_cudnn_attention_backward";
