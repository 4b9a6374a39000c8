//! Row-wise kernels: norms, rotary positions, activations, biases, embedding, cross entropy.

use super::real::Real;
use super::wide;

/// Which norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// Mean and variance, with weight and bias.
    Layer,
    /// Root mean square, with weight.
    Rms,
}

/// Which activation stands between the two products of the feed-forward part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// silu(gate) * up; the first product is twice as wide, gate rows first.
    SwiGlu,
    /// Exact, by the error function.
    Gelu,
    /// The tanh approximation.
    GeluTanh,
}

const LANES: usize = 16;

/// Sum with a fixed order that vectorises: sixteen running sums, then their sum.
#[inline(always)]
fn fold<T: Real>(n: usize, term: impl Fn(usize) -> T) -> T {
    let mut lanes = [T::NIL; LANES];
    let whole = n / LANES * LANES;
    let mut at = 0;
    while at < whole {
        for (j, lane) in lanes.iter_mut().enumerate() {
            *lane += term(at + j);
        }
        at += LANES;
    }
    let mut sum = T::NIL;
    for lane in lanes {
        sum += lane;
    }
    for j in whole..n {
        sum += term(j);
    }
    sum
}

/// Sum of squares in f64.
pub fn sum_of_squares(x: &[f32]) -> f64 {
    wide(
        #[inline(always)]
        || fold::<f64>(x.len(), |i| f64::from(x[i]) * f64::from(x[i])),
    )
}

/// y = norm(x) * weight + bias by rows; `saved` takes mean and reciprocal deviation of each row.
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
    wide(
        #[inline(always)]
        || {
            for ((x, y), s) in x.chunks_exact(h).zip(y.chunks_exact_mut(h)).zip(saved.chunks_exact_mut(2)) {
                let inverse = T::of(1.0 / h as f64);
                let mean = match kind {
                    Norm::Layer => fold(h, |i| x[i]) * inverse,
                    Norm::Rms => T::NIL,
                };
                let variance = fold(h, |i| (x[i] - mean) * (x[i] - mean)) * inverse;
                let r = T::UNIT / (variance + T::of(eps)).root();
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

/// Adds the norm's input gradient to `dx`; adds to the gradients of weight and bias.
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
    wide(
        #[inline(always)]
        || {
            for (((x, dy), dx), s) in x
                .chunks_exact(h)
                .zip(dy.chunks_exact(h))
                .zip(dx.chunks_exact_mut(h))
                .zip(saved.chunks_exact(2))
            {
                let (mean, r) = (s[0], s[1]);
                let inverse = T::of(1.0 / h as f64);
                let along = fold(h, |i| dy[i] * weight[i] * (x[i] - mean)) * r * inverse;
                let flat = match kind {
                    Norm::Layer => fold(h, |i| dy[i] * weight[i]) * inverse,
                    Norm::Rms => T::NIL,
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

/// Which way positions are turned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Forward.
    With,
    /// Backward: the transpose.
    Against,
}

/// cos and sin of every position, by the angle per position of each pair.
pub fn rotary_table<T: Real>(positions: usize, frequencies: &[f64]) -> Vec<T> {
    let half = frequencies.len();
    let rotated = 2 * half;
    let mut table = vec![T::NIL; positions * rotated];
    for p in 0..positions {
        for (i, frequency) in frequencies.iter().enumerate() {
            let angle = p as f64 * frequency;
            table[p * rotated + i] = T::of(angle.cos());
            table[p * rotated + half + i] = T::of(angle.sin());
        }
    }
    table
}

/// Turns the first `rotated` elements of each of `heads` heads (of `dim`) at the start of each row, in place: pairs are
/// (i, i + rotated/2), as Hugging Face stores Llama and GPT-NeoX.
pub fn rotate<T: Real>(
    x: &mut [T],
    stride: usize,
    heads: usize,
    dim: usize,
    rotated: usize,
    table: &[T],
    turn: Turn,
) {
    if rotated == 0 {
        return;
    }
    let half = rotated / 2;
    let positions = table.len() / rotated;
    wide(
        #[inline(always)]
        || {
            for (row, x) in x.chunks_exact_mut(stride).enumerate() {
                let (cos, sin) = table[row % positions * rotated..][..rotated].split_at(half);
                for head in x[..heads * dim].chunks_exact_mut(dim) {
                    let (a, b) = head[..rotated].split_at_mut(half);
                    for i in 0..half {
                        let (u, v) = (a[i], b[i]);
                        let s = if turn == Turn::With { sin[i] } else { -sin[i] };
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
    T::UNIT / (T::UNIT + (-x).e_to())
}

/// tanh(u) of the tanh approximation of GELU, and du/dx.
#[inline(always)]
fn gelu_tanh_parts<T: Real>(x: T) -> (T, T) {
    let c = T::of((2.0 / std::f64::consts::PI).sqrt());
    let k = T::of(0.044_715);
    let u = c * (x + k * x * x * x);
    // Beyond 15 the tanh is 1 in f32 and 1 - 2e-13 in f64: no overflow of the exponential.
    let two = T::of(2.0);
    let t = T::UNIT - two / ((two * u).e_to() + T::UNIT);
    (t, c * (T::UNIT + T::of(3.0) * k * x * x))
}

/// out = act(x); x is twice as wide as out for SwiGLU.
pub fn act_forward<T: Real>(kind: Act, x: &[T], out: &mut [T], f: usize) {
    wide(
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
                let root = T::of(std::f64::consts::FRAC_1_SQRT_2);
                for (o, x) in out.iter_mut().zip(x) {
                    *o = T::of(0.5) * *x * (T::UNIT + (*x * root).erf());
                }
            }
            Act::GeluTanh => {
                for (o, x) in out.iter_mut().zip(x) {
                    *o = T::of(0.5) * *x * (T::UNIT + gelu_tanh_parts(*x).0);
                }
            }
        },
    );
}

/// Turns `x` (what the activation read) into its gradient.
pub fn act_backward<T: Real>(kind: Act, x: &mut [T], dout: &[T], f: usize) {
    wide(
        #[inline(always)]
        || match kind {
            Act::SwiGlu => {
                for (x, d) in x.chunks_exact_mut(2 * f).zip(dout.chunks_exact(f)) {
                    let (gate, up) = x.split_at_mut(f);
                    for ((g, u), d) in gate.iter_mut().zip(up).zip(d) {
                        let s = sigmoid(*g);
                        let silu = *g * s;
                        let dgate = *d * *u * (s + silu * (T::UNIT - s));
                        *u = *d * silu;
                        *g = dgate;
                    }
                }
            }
            Act::Gelu => {
                let root = T::of(std::f64::consts::FRAC_1_SQRT_2);
                let density = T::of(1.0 / (2.0 * std::f64::consts::PI).sqrt());
                for (x, d) in x.iter_mut().zip(dout) {
                    let below = T::of(0.5) * (T::UNIT + (*x * root).erf());
                    *x = *d * (below + *x * density * (T::of(-0.5) * *x * *x).e_to());
                }
            }
            Act::GeluTanh => {
                for (x, d) in x.iter_mut().zip(dout) {
                    let (t, slope) = gelu_tanh_parts(*x);
                    let half = T::of(0.5);
                    *x = *d * (half * (T::UNIT + t) + half * *x * (T::UNIT - t * t) * slope);
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

/// a += b.
pub fn add<T: Real>(a: &mut [T], b: &[T]) {
    wide(
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
    wide(
        #[inline(always)]
        || {
            for x in x {
                *x = x.bf16();
            }
        },
    );
}

/// The position of a row: counted from where its document begins.
fn position(row: usize, sequence: usize, begins: &[u32]) -> usize {
    row % sequence - begins.get(row).map_or(0, |begin| *begin as usize)
}

/// x = token row (+ position row).
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
            add(x, &positions[position(row, sequence, begins) * h..][..h]);
        }
    }
}

/// Adds the gradient of each row to its token's and its position's.
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
            add(&mut dpositions[position(row, sequence, begins) * h..][..h], dx);
        }
    }
}

/// A label that counts for nothing.
pub const IGNORED: u32 = u32::MAX;

/// Sum of -log p(label) over the rows; turns the logits into their gradient times `scale`.
pub fn cross_entropy<T: Real>(logits: &mut [T], labels: &[u32], vocab: usize, scale: f64) -> f64 {
    let mut loss = 0.0;
    wide(
        #[inline(always)]
        || {
            for (row, label) in logits.chunks_exact_mut(vocab).zip(labels) {
                if *label == IGNORED {
                    row.fill(T::NIL);
                    continue;
                }
                let top = highest(row);
                let at = row[*label as usize];
                for z in row.iter_mut() {
                    *z = (*z - top).e_to();
                }
                let sum = fold(vocab, |i| row[i]);
                loss += sum.wide().ln() - (at - top).wide();
                let factor = T::of(scale) / sum;
                for z in row.iter_mut() {
                    *z *= factor;
                }
                row[*label as usize] += T::of(-scale);
            }
        },
    );
    loss
}

#[inline(always)]
fn highest<T: Real>(row: &[T]) -> T {
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

/// Softmax of elements `from..live` of a row in place, scores times `scale`; the rest becomes 0. Gives log-sum-exp.
pub fn softmax_row<T: Real>(row: &mut [T], from: usize, live: usize, scale: T) -> T {
    wide(
        #[inline(always)]
        || {
            let (now, later) = row.split_at_mut(live);
            let (before, now) = now.split_at_mut(from);
            before.fill(T::NIL);
            let top = highest(now) * scale;
            for z in now.iter_mut() {
                *z = (*z * scale - top).e_to();
            }
            let sum = fold(now.len(), |i| now[i]);
            let inverse = T::UNIT / sum;
            for z in now.iter_mut() {
                *z *= inverse;
            }
            later.fill(T::NIL);
            top + T::of(sum.wide().ln())
        },
    )
}

/// Probabilities again from scores and log-sum-exp.
pub fn softmax_again<T: Real>(row: &mut [T], from: usize, live: usize, scale: T, log_sum: T) {
    wide(
        #[inline(always)]
        || {
            let (now, later) = row.split_at_mut(live);
            let (before, now) = now.split_at_mut(from);
            before.fill(T::NIL);
            for z in now.iter_mut() {
                *z = (*z * scale - log_sum).e_to();
            }
            later.fill(T::NIL);
        },
    );
}

/// dp becomes ds = p (dp - delta) scale.
pub fn softmax_backward_row<T: Real>(p: &[T], dp: &mut [T], delta: T, scale: T) {
    wide(
        #[inline(always)]
        || {
            for (d, p) in dp.iter_mut().zip(p) {
                *d = *p * (*d - delta) * scale;
            }
        },
    );
}

/// Sum of products.
pub fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    wide(
        #[inline(always)]
        || fold(a.len().min(b.len()), |i| a[i] * b[i]),
    )
}
