//! Row-wise kernels: norms, rotary positions, activations, biases, embedding, cross entropy.

use super::real::Real;
use super::with_simd;

/// Kind of norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// Mean and variance, with weight and bias.
    Layer,
    /// Root mean square, with weight.
    Rms,
}

/// Activation between the two feed-forward layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// silu(gate) * up; the first layer is twice as wide, gate rows first.
    SwiGlu,
    /// Exact, by the error function.
    Gelu,
    /// GELU's tanh approximation.
    GeluTanh,
}

const LANES: usize = 16;

/// Sums in a fixed order that vectorizes: sixteen partial sums, then their sum.
#[inline(always)]
fn sum_terms<T: Real>(n: usize, term: impl Fn(usize) -> T) -> T {
    let mut lanes = [T::ZERO; LANES];
    let whole = n / LANES * LANES;
    let mut at = 0;
    while at < whole {
        for (j, lane) in lanes.iter_mut().enumerate() {
            *lane += term(at + j);
        }
        at += LANES;
    }
    let mut sum = T::ZERO;
    for lane in lanes {
        sum += lane;
    }
    for j in whole..n {
        sum += term(j);
    }
    sum
}

/// Returns the sum of squares in f64.
pub fn sum_of_squares(x: &[f32]) -> f64 {
    with_simd(
        #[inline(always)]
        || sum_terms::<f64>(x.len(), |i| f64::from(x[i]) * f64::from(x[i])),
    )
}

/// Computes y = norm(x) * weight + bias by rows; stores mean and reciprocal deviation of each row in `saved`.
pub fn norm_forward<T: Real>(
    kind: Norm,
    eps: f64,
    x: &[T],
    weight: &[T],
    bias: &[T],
    y: &mut [T],
    saved: &mut [T],
) {
    let h = weight.len();
    with_simd(
        #[inline(always)]
        || {
            for ((x, y), s) in x.chunks_exact(h).zip(y.chunks_exact_mut(h)).zip(saved.chunks_exact_mut(2)) {
                let inverse = T::from_f64(1.0 / h as f64);
                let mean = match kind {
                    Norm::Layer => sum_terms(h, |i| x[i]) * inverse,
                    Norm::Rms => T::ZERO,
                };
                let variance = sum_terms(h, |i| (x[i] - mean) * (x[i] - mean)) * inverse;
                let r = T::ONE / (variance + T::from_f64(eps)).square_root();
                s[0] = mean;
                s[1] = r;
                match kind {
                    Norm::Layer => {
                        for (((y, x), w), b) in y.iter_mut().zip(x).zip(weight).zip(bias) {
                            *y = ((*x - mean) * r).fma(*w, *b);
                        }
                    }
                    Norm::Rms => {
                        for ((y, x), w) in y.iter_mut().zip(x).zip(weight) {
                            *y = *x * r * *w;
                        }
                    }
                }
            }
        },
    );
}

/// Adds the gradient of the norm's input to `dx` and those of weight and bias to theirs.
pub fn norm_backward<T: Real>(
    kind: Norm,
    x: &[T],
    weight: &[T],
    saved: &[T],
    dy: &[T],
    dx: &mut [T],
    dweight: &mut [T],
    dbias: &mut [T],
) {
    let h = weight.len();
    with_simd(
        #[inline(always)]
        || {
            for (((x, dy), dx), s) in x
                .chunks_exact(h)
                .zip(dy.chunks_exact(h))
                .zip(dx.chunks_exact_mut(h))
                .zip(saved.chunks_exact(2))
            {
                let (mean, r) = (s[0], s[1]);
                let inverse = T::from_f64(1.0 / h as f64);
                let along = sum_terms(h, |i| dy[i] * weight[i] * (x[i] - mean)) * r * inverse;
                let flat = match kind {
                    Norm::Layer => sum_terms(h, |i| dy[i] * weight[i]) * inverse,
                    Norm::Rms => T::ZERO,
                };
                for i in 0..h {
                    let unit = (x[i] - mean) * r;
                    dx[i] += r * (dy[i] * weight[i] - flat - unit * along);
                    dweight[i] += dy[i] * unit;
                }
                if kind == Norm::Layer {
                    for (d, dy) in dbias.iter_mut().zip(dy) {
                        *d += *dy;
                    }
                }
            }
        },
    );
}

/// Direction of the rotation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rotation {
    /// Forward.
    Forward,
    /// Transposed, for the backward pass.
    Backward,
}

/// Returns cos and sin of every position, from the angle per position of each pair.
pub fn rotary_table<T: Real>(positions: usize, frequencies: &[f64]) -> Vec<T> {
    let half = frequencies.len();
    let rotated = 2 * half;
    let mut table = vec![T::ZERO; positions * rotated];
    for p in 0..positions {
        for (i, frequency) in frequencies.iter().enumerate() {
            let angle = p as f64 * frequency;
            table[p * rotated + i] = T::from_f64(angle.cos());
            table[p * rotated + half + i] = T::from_f64(angle.sin());
        }
    }
    table
}

/// Rotates the first `rotated` elements of each of `heads` heads (of `dim`) at the start of each row, in
/// place. Pairs are (i, i + rotated/2), as Hugging Face stores Llama and GPT-NeoX.
pub fn rotate<T: Real>(
    x: &mut [T],
    stride: usize,
    heads: usize,
    dim: usize,
    rotated: usize,
    table: &[T],
    turn: Rotation,
) {
    if rotated == 0 {
        return;
    }
    let half = rotated / 2;
    let positions = table.len() / rotated;
    with_simd(
        #[inline(always)]
        || {
            for (row, x) in x.chunks_exact_mut(stride).enumerate() {
                let (cos, sin) = table[row % positions * rotated..][..rotated].split_at(half);
                for head in x[..heads * dim].chunks_exact_mut(dim) {
                    let (a, b) = head[..rotated].split_at_mut(half);
                    for i in 0..half {
                        let (u, v) = (a[i], b[i]);
                        let s = if turn == Rotation::Forward { sin[i] } else { -sin[i] };
                        a[i] = u * cos[i] - v * s;
                        b[i] = v * cos[i] + u * s;
                    }
                }
            }
        },
    );
}

#[inline(always)]
fn sigmoid<T: Real>(x: T) -> T {
    T::ONE / (T::ONE + (-x).fast_exp())
}

/// Returns tanh(u) of the tanh approximation of GELU, and du/dx.
#[inline(always)]
fn gelu_tanh_parts<T: Real>(x: T) -> (T, T) {
    let c = T::from_f64((2.0 / std::f64::consts::PI).sqrt());
    let k = T::from_f64(0.044_715);
    let u = c * (x + k * x * x * x);
    // Above 15 the tanh is 1 in f32 and 1 - 2e-13 in f64: the exponential cannot overflow.
    let two = T::from_f64(2.0);
    let t = T::ONE - two / ((two * u).fast_exp() + T::ONE);
    (t, c * (T::ONE + T::from_f64(3.0) * k * x * x))
}

/// Computes out = act(x); x is twice as wide as out for SwiGLU.
pub fn act_forward<T: Real>(kind: Act, x: &[T], out: &mut [T], f: usize) {
    with_simd(
        #[inline(always)]
        || match kind {
            Act::SwiGlu => {
                for (x, out) in x.chunks_exact(2 * f).zip(out.chunks_exact_mut(f)) {
                    let (gate, up) = x.split_at(f);
                    for ((o, g), u) in out.iter_mut().zip(gate).zip(up) {
                        *o = *g * sigmoid(*g) * *u;
                    }
                }
            }
            Act::Gelu => {
                let root = T::from_f64(std::f64::consts::FRAC_1_SQRT_2);
                for (o, x) in out.iter_mut().zip(x) {
                    *o = T::from_f64(0.5) * *x * (T::ONE + (*x * root).erf());
                }
            }
            Act::GeluTanh => {
                for (o, x) in out.iter_mut().zip(x) {
                    *o = T::from_f64(0.5) * *x * (T::ONE + gelu_tanh_parts(*x).0);
                }
            }
        },
    );
}

/// Replaces `x`, the input of the activation, by its gradient.
pub fn act_backward<T: Real>(kind: Act, x: &mut [T], dout: &[T], f: usize) {
    with_simd(
        #[inline(always)]
        || match kind {
            Act::SwiGlu => {
                for (x, d) in x.chunks_exact_mut(2 * f).zip(dout.chunks_exact(f)) {
                    let (gate, up) = x.split_at_mut(f);
                    for ((g, u), d) in gate.iter_mut().zip(up).zip(d) {
                        let s = sigmoid(*g);
                        let silu = *g * s;
                        let dgate = *d * *u * (s + silu * (T::ONE - s));
                        *u = *d * silu;
                        *g = dgate;
                    }
                }
            }
            Act::Gelu => {
                let root = T::from_f64(std::f64::consts::FRAC_1_SQRT_2);
                let density = T::from_f64(1.0 / (2.0 * std::f64::consts::PI).sqrt());
                for (x, d) in x.iter_mut().zip(dout) {
                    let below = T::from_f64(0.5) * (T::ONE + (*x * root).erf());
                    *x = *d * (below + *x * density * (T::from_f64(-0.5) * *x * *x).fast_exp());
                }
            }
            Act::GeluTanh => {
                for (x, d) in x.iter_mut().zip(dout) {
                    let (t, slope) = gelu_tanh_parts(*x);
                    let half = T::from_f64(0.5);
                    *x = *d * (half * (T::ONE + t) + half * *x * (T::ONE - t * t) * slope);
                }
            }
        },
    );
}

/// Adds the bias to each row.
pub fn add_bias<T: Real>(x: &mut [T], bias: &[T]) {
    if bias.is_empty() {
        return;
    }
    for row in x.chunks_exact_mut(bias.len()) {
        add(row, bias);
    }
}

/// Adds the rows of `dy` to the bias gradient.
pub fn bias_backward<T: Real>(dy: &[T], dbias: &mut [T]) {
    if dbias.is_empty() {
        return;
    }
    for row in dy.chunks_exact(dbias.len()) {
        add(dbias, row);
    }
}

/// Computes a += b.
pub fn add<T: Real>(a: &mut [T], b: &[T]) {
    with_simd(
        #[inline(always)]
        || {
            for (a, b) in a.iter_mut().zip(b) {
                *a += *b;
            }
        },
    );
}

/// Rounds to bfloat16 in place.
pub fn round_bf16<T: Real>(x: &mut [T]) {
    with_simd(
        #[inline(always)]
        || {
            for x in x {
                *x = x.bf16();
            }
        },
    );
}

/// Returns the position of a row relative to the start of its document.
fn position_in_document(row: usize, sequence: usize, begins: &[u32]) -> usize {
    row % sequence - begins.get(row).map_or(0, |begin| *begin as usize)
}

/// Computes x = token row (+ position row).
pub fn embed_forward<T: Real>(
    tokens: &[u32],
    begins: &[u32],
    table: &[T],
    positions: &[T],
    sequence: usize,
    h: usize,
    x: &mut [T],
) {
    for (row, (x, token)) in x.chunks_exact_mut(h).zip(tokens).enumerate() {
        x.copy_from_slice(&table[*token as usize * h..][..h]);
        if !positions.is_empty() {
            add(x, &positions[position_in_document(row, sequence, begins) * h..][..h]);
        }
    }
}

/// Adds the gradient of each row to those of its token and position.
pub fn embed_backward<T: Real>(
    tokens: &[u32],
    begins: &[u32],
    dx: &[T],
    sequence: usize,
    h: usize,
    dtable: &mut [T],
    dpositions: &mut [T],
) {
    for (row, (dx, token)) in dx.chunks_exact(h).zip(tokens).enumerate() {
        add(&mut dtable[*token as usize * h..][..h], dx);
        if !dpositions.is_empty() {
            add(&mut dpositions[position_in_document(row, sequence, begins) * h..][..h], dx);
        }
    }
}

/// Label that is excluded from the loss.
pub const IGNORED: u32 = u32::MAX;

/// Returns the sum of -log p(label) over the rows; replaces the logits by their gradient times `scale`.
pub fn cross_entropy<T: Real>(logits: &mut [T], labels: &[u32], vocab: usize, scale: f64) -> f64 {
    let mut loss = 0.0;
    with_simd(
        #[inline(always)]
        || {
            for (row, label) in logits.chunks_exact_mut(vocab).zip(labels) {
                if *label == IGNORED {
                    row.fill(T::ZERO);
                    continue;
                }
                let top = row_max(row);
                let at = row[*label as usize];
                for z in row.iter_mut() {
                    *z = (*z - top).fast_exp();
                }
                let sum = sum_terms(vocab, |i| row[i]);
                loss += sum.to_f64().ln() - (at - top).to_f64();
                let factor = T::from_f64(scale) / sum;
                for z in row.iter_mut() {
                    *z *= factor;
                }
                row[*label as usize] += T::from_f64(-scale);
            }
        },
    );
    loss
}

#[inline(always)]
fn row_max<T: Real>(row: &[T]) -> T {
    let mut lanes = [row[0]; LANES];
    let chunks = row.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, z) in lanes.iter_mut().zip(chunk) {
            *lane = lane.larger(*z);
        }
    }
    let mut top = row[0];
    for z in lanes.iter().chain(rest) {
        top = top.larger(*z);
    }
    top
}

/// Computes the softmax of elements `from..live` of a row in place, with scores times `scale`; sets the rest
/// to 0. Returns the log-sum-exp.
pub fn softmax_row<T: Real>(row: &mut [T], from: usize, live: usize, scale: T) -> T {
    with_simd(
        #[inline(always)]
        || {
            let (now, later) = row.split_at_mut(live);
            let (before, now) = now.split_at_mut(from);
            before.fill(T::ZERO);
            let top = row_max(now) * scale;
            for z in now.iter_mut() {
                *z = (*z * scale - top).fast_exp();
            }
            let sum = sum_terms(now.len(), |i| now[i]);
            let inverse = T::ONE / sum;
            for z in now.iter_mut() {
                *z *= inverse;
            }
            later.fill(T::ZERO);
            top + T::from_f64(sum.to_f64().ln())
        },
    )
}

/// Recomputes probabilities from scores and log-sum-exp.
pub fn recompute_softmax_row<T: Real>(row: &mut [T], from: usize, live: usize, scale: T, log_sum: T) {
    with_simd(
        #[inline(always)]
        || {
            let (now, later) = row.split_at_mut(live);
            let (before, now) = now.split_at_mut(from);
            before.fill(T::ZERO);
            for z in now.iter_mut() {
                *z = (*z * scale - log_sum).fast_exp();
            }
            later.fill(T::ZERO);
        },
    );
}

/// Replaces dp by ds = p (dp - delta) scale.
pub fn softmax_backward_row<T: Real>(p: &[T], dp: &mut [T], delta: T, scale: T) {
    with_simd(
        #[inline(always)]
        || {
            for (d, p) in dp.iter_mut().zip(p) {
                *d = *p * (*d - delta) * scale;
            }
        },
    );
}

/// Returns the dot product.
pub fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    with_simd(
        #[inline(always)]
        || sum_terms(a.len().min(b.len()), |i| a[i] * b[i]),
    )
}
