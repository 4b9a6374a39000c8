//! Arithmetic of a pass on tensors: the operators that `kernels` has for CPU ranks, with PyTorch's kernels. The same
//! code runs on CPU tensors and on a GPU; attention, the backward pass of the RMS norm and products with f32 results
//! have different operators on each.

#![allow(clippy::unused_self, reason = "all operators are called alike, whether or not they differ on a GPU")]

use super::ffi::{Argument as A, Kind, Place, Tensor, call};
use super::trace::{self, Stand};
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
const CUDNN_HEAD: usize = 128;

/// Returns the kernels of attention for a GPU's compute capability and a head of `dim` elements. On Hopper cuDNN's are
/// 1.7 to 2.3 times as fast as PyTorch's flash attention, on Ampere slower (huggingface/transformers #48163).
pub(crate) fn attention_kernels(capability: (i32, i32), dim: usize) -> Attention {
    if capability.0 >= 9 && dim <= CUDNN_HEAD { Attention::Cudnn } else { Attention::Flash }
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

/// Shape of the arguments of attention, which are rows x heads x dim.
#[allow(clippy::struct_field_names, reason = "the number of heads is called heads everywhere")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadShape {
    /// Sequences.
    pub batch: i64,
    /// Rows of a sequence.
    pub sequence: i64,
    /// HeadShape.
    pub heads: i64,
    /// Elements of a head.
    pub dim: i64,
}

impl HeadShape {
    fn sizes(self) -> [i64; 4] {
        [self.batch, self.heads, self.sequence, self.dim]
    }

    /// Returns a view as batch x heads x sequence x dim, as PyTorch's attention takes it.
    fn turned(self, rows: &Tensor) -> Result<Tensor> {
        let width = self.heads * self.dim;
        rows.strided(&self.sizes(), &[self.sequence * width, self.dim, width, 1], 0)
    }

    /// Returns a view as flash attention takes it: rows x heads x dim of all documents, or batch x sequence x heads x dim.
    fn flat(self, rows: &Tensor, documents: bool) -> Result<Tensor> {
        if documents {
            rows.view(&[self.batch * self.sequence, self.heads, self.dim], 0)
        } else {
            rows.view(&[self.batch, self.sequence, self.heads, self.dim], 0)
        }
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

    /// Returns the sum of squares of the first `n` elements of an f32 tensor in f64. It is summed by chunks, since PyTorch
    /// converts the squares to f64 in memory.
    pub(crate) fn sum_of_squares(self, tensor: &Tensor, n: usize) -> Result<Tensor> {
        /// 12 bytes each.
        const CHUNK: usize = 1 << 22;
        let mut sum = self.zeros(&[], Kind::F64)?;
        for from in (0..n).step_by(CHUNK) {
            let part = tensor.view(&[CHUNK.min(n - from) as i64], from)?;
            let squares = self.multiply(&part, &part)?;
            sum = self.add(&sum, &one(call("aten::sum", &[A::T(&squares), A::K(Kind::F64)])?)?, 1.0)?;
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

    /// Returns the norm of f32 rows of `h` elements by mean and variance, and what its backward pass requires.
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

    /// Returns the gradient of `x` of silu(x).
    pub(crate) fn silu_backward(self, dy: &Tensor, x: &Tensor) -> Result<Tensor> {
        one(call("aten::silu_backward", &[A::T(dy), A::T(x)])?)
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

    /// Returns the sum over rows of -log p(label), and with `scale` the gradient of the logits times it. Labels of
    /// -100 are excluded. Everything is in f32.
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

    /// Computes out = causal attention; all are rows x heads x dim.
    pub(crate) fn attention(
        self,
        shape: HeadShape,
        (q, k, v): (&Tensor, &Tensor, &Tensor),
        documents: Option<&Documents>,
        out: &Tensor,
    ) -> Result<SavedAttention> {
        if !self.is_cpu() {
            return match self.kernels(documents.is_some()) {
                Attention::Flash => Self::flash_attention(shape, (q, k, v), documents, out),
                Attention::Cudnn => Self::cudnn_attention(shape, (q, k, v), out),
            };
        }
        let mask = documents.and_then(|documents| documents.mask.as_ref());
        let mut saved = trace::muted(|| -> Result<_> {
            let (q, k, v) = (shape.turned(q)?, shape.turned(k)?, shape.turned(v)?);
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
            shape.turned(out)?.copy(&o)?;
            let mask = mask.map(Tensor::alias).transpose()?;
            Ok(SavedAttention { log_sum, random: None, ends: None, mask })
        })?;
        if trace::is_active() {
            self.trace_attention(shape, (q, k, v), documents, out, &mut saved)?;
        }
        Ok(saved)
    }

    /// Returns the kernels of attention. cuDNN's do not take documents one after the other.
    fn kernels(self, documents: bool) -> Attention {
        if documents { Attention::Flash } else { self.attention }
    }

    /// Returns the arguments of flash attention: as many as this version of PyTorch has.
    fn flash_arguments<'a>(
        (q, k, v): (&'a Tensor, &'a Tensor, &'a Tensor),
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

    fn flash_attention(
        shape: HeadShape,
        (q, k, v): (&Tensor, &Tensor, &Tensor),
        documents: Option<&Documents>,
        out: &Tensor,
    ) -> Result<SavedAttention> {
        let flat = |rows: &Tensor| shape.flat(rows, documents.is_some());
        let (q, k, v) = (flat(q)?, flat(k)?, flat(v)?);
        let arguments = Self::flash_arguments((&q, &k, &v), documents, shape.sequence)?;
        let [o, log_sum, random, unused, _] = tensors(call(FLASH, &arguments)?)?;
        flat(out)?.copy(&o)?;
        let ends = documents.map(|documents| Ok((documents.ends.alias()?, documents.longest)));
        Ok(SavedAttention { log_sum, random: Some([random, unused]), ends: ends.transpose()?, mask: None })
    }

    fn cudnn_attention(
        shape: HeadShape,
        (q, k, v): (&Tensor, &Tensor, &Tensor),
        out: &Tensor,
    ) -> Result<SavedAttention> {
        let (q, k, v) = (shape.turned(q)?, shape.turned(k)?, shape.turned(v)?);
        let [o, log_sum, seed, offset] = super::ffi::cudnn_attention(&q, &k, &v)?;
        shape.turned(out)?.copy(&o)?;
        Ok(SavedAttention { log_sum, random: Some([seed, offset]), ends: None, mask: None })
    }

    /// Computes the gradients of q, k and v from that of the output; all are rows x heads x dim.
    pub(crate) fn attention_backward(
        self,
        shape: HeadShape,
        d: &Tensor,
        (q, k, v): (&Tensor, &Tensor, &Tensor),
        out: &Tensor,
        saved: &SavedAttention,
        (dq, dk, dv): (&Tensor, &Tensor, &Tensor),
    ) -> Result<()> {
        if self.is_cpu() {
            let (td, tq, tk, tv) = (shape.turned(d)?, shape.turned(q)?, shape.turned(k)?, shape.turned(v)?);
            let to = shape.turned(out)?;
            let results: [Tensor; 3] = trace::muted(|| {
                let results = call(
                    "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
                    &[
                        A::T(&td),
                        A::T(&tq),
                        A::T(&tk),
                        A::T(&tv),
                        A::T(&to),
                        A::T(&saved.log_sum),
                        A::F(0.0),
                        A::B(saved.mask.is_none()),
                        saved.mask.as_ref().map_or(A::None, A::T),
                        A::None,
                    ],
                )?;
                let results = tensors(results)?;
                for (to, from) in [dq, dk, dv].into_iter().zip(&results) {
                    shape.turned(to)?.copy(from)?;
                }
                Ok::<_, Failure>(results)
            })?;
            if !trace::is_active() {
                return Ok(());
            }
            let stands = results.each_ref().map(Stand::Unknown);
            self.backward_call(shape, d, (q, k, v), out, saved, |name, arguments| {
                trace::instead(name, arguments, &stands);
                Ok(())
            })?;
            return self.copy_gradients(shape, saved, [dq, dk, dv], &results, |to, from| {
                trace::copied(to, from);
                Ok(())
            });
        }
        let mut results = Vec::new();
        self.backward_call(shape, d, (q, k, v), out, saved, |name, arguments| {
            results = call(name, arguments)?;
            Ok(())
        })?;
        self.copy_gradients(shape, saved, [dq, dk, dv], &tensors(results)?, Tensor::copy)
    }

    /// Copies gradients from the kernel's form.
    fn copy_gradients(
        self,
        shape: HeadShape,
        saved: &SavedAttention,
        to: [&Tensor; 3],
        from: &[Tensor; 3],
        copy: impl Fn(&Tensor, &Tensor) -> Result<()>,
    ) -> Result<()> {
        let documents = saved.ends.is_some();
        to.into_iter().zip(from).try_for_each(|(to, from)| match self.kernels(documents) {
            Attention::Flash => copy(&shape.flat(to, documents)?, from),
            Attention::Cudnn => copy(&shape.turned(to)?, from),
        })
    }

    /// Runs `work` with the operator of a GPU that computes the gradients, and its arguments.
    fn backward_call(
        self,
        shape: HeadShape,
        d: &Tensor,
        (q, k, v): (&Tensor, &Tensor, &Tensor),
        out: &Tensor,
        saved: &SavedAttention,
        work: impl FnOnce(&str, &[A<'_>]) -> Result<()>,
    ) -> Result<()> {
        let documents = saved.ends.is_some();
        let kernels = self.kernels(documents);
        let view = |rows: &Tensor| match kernels {
            Attention::Flash => shape.flat(rows, documents),
            Attention::Cudnn => shape.turned(rows),
        };
        let (d, q, k, v, out) = (view(d)?, view(q)?, view(k)?, view(v)?, view(out)?);
        let none = trace::muted(Tensor::undefined)?;
        let (ends, longest) = saved.ends.as_ref().map_or((&none, shape.sequence), |(ends, n)| (ends, *n));
        let random = saved.random.as_ref().map(|[a, b]| [A::T(a), A::T(b)]);
        let [seed, offset] =
            random.ok_or_else(|| Failure::new(Code::Bug, "attention has no random state"))?;
        let first = [A::T(&d), A::T(&q), A::T(&k), A::T(&v), A::T(&out), A::T(&saved.log_sum)];
        let bounds = [A::T(ends), A::T(ends), A::I(longest), A::I(longest), A::F(0.0), A::B(true)];
        match kernels {
            Attention::Flash => work(
                FLASH_BACKWARD,
                &[&first[..], &bounds, &[seed, offset, A::None, A::None, A::None]].concat(),
            ),
            Attention::Cudnn => {
                let bias = A::T(&none);
                work(CUDNN_BACKWARD, &[&first[..], &[seed, offset, bias], &bounds, &[A::None]].concat())
            }
        }
    }

    /// Records the GPU's operators for what a CPU has computed.
    fn trace_attention(
        self,
        shape: HeadShape,
        (q, k, v): (&Tensor, &Tensor, &Tensor),
        documents: Option<&Documents>,
        out: &Tensor,
        saved: &mut SavedAttention,
    ) -> Result<()> {
        let unknown = || trace::muted(|| self.empty(&[0], Kind::F32));
        let (o, random, last) = (unknown()?, [unknown()?, unknown()?], unknown()?);
        if let Some(documents) = documents {
            saved.ends = Some((documents.ends.alias()?, documents.longest));
        }
        match self.kernels(documents.is_some()) {
            Attention::Flash => {
                let flat = |rows: &Tensor| shape.flat(rows, documents.is_some());
                let (q, k, v) = (flat(q)?, flat(k)?, flat(v)?);
                let arguments = Self::flash_arguments((&q, &k, &v), documents, shape.sequence)?;
                let results = [&o, &saved.log_sum, &random[0], &random[1], &last].map(Stand::Unknown);
                trace::instead(FLASH, &arguments, &results);
                trace::copied(&flat(out)?, &o);
            }
            Attention::Cudnn => {
                let (q, k, v) = (shape.turned(q)?, shape.turned(k)?, shape.turned(v)?);
                let unused = [unknown()?, unknown()?];
                trace::instead(
                    "aten::_scaled_dot_product_cudnn_attention",
                    &[
                        A::T(&q),
                        A::T(&k),
                        A::T(&v),
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
                trace::copied(&shape.turned(out)?, &o);
            }
        }
        saved.random = Some(random);
        Ok(())
    }

    /// Applies one step of AdamW to lists of f32 tensors. `unscale` divides the gradients; `step` counts from 1.
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
