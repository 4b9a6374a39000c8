//! Each kernel, forward and backward, compared with PyTorch in float64 (`tests/python/record_kernels.py`): in f64 to
//! the last digits, in f32 to rounding.

use serde_json::Value;
use trainc_worker::config::Optimizer;
use trainc_worker::kernels::attention::{self, AttentionShape};
use trainc_worker::kernels::gemm::{self, MatrixView, Update};
use trainc_worker::kernels::real::Real;
use trainc_worker::kernels::rows::{self, Act, IGNORED, Norm, Rotation};
use trainc_worker::model::init::{mix, normals};
use trainc_worker::optim;

/// A recorded case.
struct Case(Value);

impl Case {
    fn size(&self, name: &str) -> usize {
        self.0[name].as_u64().unwrap_or_else(|| panic!("{name}")) as usize
    }

    fn word(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap()
    }

    fn number(&self, name: &str) -> f64 {
        self.0[name].as_f64().unwrap()
    }

    /// Checks that `found` equals the recorded values within `tolerance` of the largest.
    #[track_caller]
    fn holds<T: Real>(&self, name: &str, found: &[T], tolerance: f64) {
        let expected: Vec<f64> =
            self.0[name].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
        let what = format!("{} {name}", self.0["kernel"]);
        assert_eq!(found.len(), expected.len(), "{what}");
        let scale = expected.iter().fold(1e-3f64, |most, v| most.max(v.abs()));
        for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let error = (found.to_f64() - expected).abs();
            assert!(error <= tolerance * scale, "{what} [{at}]: {} for {expected}", found.to_f64());
        }
    }
}

/// Returns inputs derived from their name.
fn given<T: Real>(name: &str, elements: usize) -> Vec<T> {
    normals(7, name, elements).into_iter().map(|v| T::from_f64(f64::from(v))).collect()
}

fn numbers(seed: u64, n: usize, below: usize) -> Vec<u32> {
    (0..n as u64).map(|i| (mix(seed * 1000 + i) % below as u64) as u32).collect()
}

fn zeros<T: Real>(elements: usize) -> Vec<T> {
    vec![T::ZERO; elements]
}

/// Returns the start of each row's document: a new one every `every` rows; empty if documents are joined.
fn begins(rows: usize, sequence: usize, every: usize) -> Vec<u32> {
    let begin = |row: usize| {
        let at = row % sequence;
        (at - at % every) as u32
    };
    if every == 0 { Vec::new() } else { (0..rows).map(begin).collect() }
}

fn norm<T: Real>(c: &Case, tolerance: f64) {
    let (rows, width) = (c.size("rows"), c.size("width"));
    let layer = c.word("kind") == "layer";
    let kind = if layer { Norm::Layer } else { Norm::Rms };
    let (x, weight, bias) = (given::<T>("x", rows * width), given("weight", width), given("bias", width));
    let (mut y, mut saved) = (zeros(rows * width), zeros(2 * rows));
    rows::norm_forward(kind, 1e-5, &x, &weight, &bias, &mut y, &mut saved);
    c.holds("output", &y, tolerance);
    let (mut dx, mut dweight, mut dbias) = (zeros(rows * width), zeros(width), zeros(width));
    let dy = given("dy", rows * width);
    rows::norm_backward(kind, &x, &weight, &saved, &dy, &mut dx, &mut dweight, &mut dbias);
    c.holds("dx", &dx, tolerance);
    c.holds("dweight", &dweight, tolerance);
    if layer {
        c.holds("dbias", &dbias, tolerance);
    }
}

fn rotary<T: Real>(c: &Case, tolerance: f64) {
    let (rows, heads, dim, rotated) = (c.size("rows"), c.size("heads"), c.size("dim"), c.size("rotated"));
    let stride = (heads + 1) * dim;
    let frequency = |i: usize| 10_000f64.powf(-((2 * i) as f64) / rotated as f64);
    let frequencies: Vec<f64> = (0..rotated / 2).map(frequency).collect();
    let table = rows::rotary_table::<T>(c.size("positions"), &frequencies);
    let mut x = given("x", rows * stride);
    rows::rotate(&mut x, stride, heads, dim, rotated, &table, Rotation::Forward);
    c.holds("output", &x, tolerance);
    let mut dx = given("dy", rows * stride);
    rows::rotate(&mut dx, stride, heads, dim, rotated, &table, Rotation::Backward);
    c.holds("dx", &dx, tolerance);
}

fn activation<T: Real>(c: &Case, tolerance: f64) {
    let (rows, width) = (c.size("rows"), c.size("width"));
    let (kind, wide) = match c.word("kind") {
        "swiglu" => (Act::SwiGlu, 2 * width),
        "gelu" => (Act::Gelu, width),
        _ => (Act::GeluTanh, width),
    };
    let (mut x, mut out) = (given::<T>("x", rows * wide), zeros(rows * width));
    rows::act_forward(kind, &x, &mut out, width);
    c.holds("output", &out, tolerance);
    rows::act_backward(kind, &mut x, &given("dy", rows * width), width);
    c.holds("dx", &x, tolerance);
}

fn linear<T: Real>(c: &Case, tolerance: f64) {
    let (n, k, m) = (c.size("rows"), c.size("inner"), c.size("width"));
    let (x, w, bias, dy) =
        (given::<T>("x", n * k), given("weight", m * k), given("bias", m), given("dy", n * m));
    let mut y = zeros(n * m);
    gemm::nt(&mut y, m, Update::Replace, MatrixView::new(&x, n, k), MatrixView::new(&w, m, k), T::ONE, 1);
    rows::add_bias(&mut y, &bias);
    c.holds("output", &y, tolerance);
    let (mut dx, mut dw, mut dbias) = (zeros(n * k), zeros(m * k), zeros(m));
    gemm::nn(&mut dx, k, Update::Replace, MatrixView::new(&dy, n, m), MatrixView::new(&w, m, k), T::ONE, 1);
    gemm::tn(&mut dw, k, Update::Replace, MatrixView::new(&dy, n, m), MatrixView::new(&x, n, k), T::ONE, 1);
    rows::bias_backward(&dy, &mut dbias);
    c.holds("dx", &dx, tolerance);
    c.holds("dweight", &dw, tolerance);
    c.holds("dbias", &dbias, tolerance);
}

fn embedding<T: Real>(c: &Case, tolerance: f64) {
    let (rows, sequence, vocab, width) =
        (c.size("rows"), c.size("sequence"), c.size("vocab"), c.size("width"));
    let learned = c.0["learned"] == true;
    let begins = begins(rows, sequence, c.size("every"));
    let (table, tokens) = (given::<T>("table", vocab * width), numbers(1, rows, vocab));
    let positions = if learned { given("positions", sequence * width) } else { Vec::new() };
    let mut x = zeros(rows * width);
    rows::embed_forward(&tokens, &begins, &table, &positions, sequence, width, &mut x);
    c.holds("output", &x, tolerance);
    let (mut dtable, mut dpositions) = (zeros::<T>(vocab * width), zeros(positions.len()));
    let dx = given::<T>("dy", rows * width);
    rows::embed_backward(&tokens, &begins, &dx, sequence, width, &mut dtable, &mut dpositions);
    c.holds("dtable", &dtable, tolerance);
    if learned {
        c.holds("dpositions", &dpositions, tolerance);
    }
}

fn attends<T: Real>(c: &Case, tolerance: f64) {
    let sequence = c.size("sequence");
    let shape =
        AttentionShape { heads: c.size("heads"), kv_heads: c.size("kv_heads"), dim: c.size("dim"), sequence };
    let rows = c.size("batch") * sequence;
    let begins = begins(rows, sequence, c.size("every"));
    let qkv = given::<T>("qkv", rows * shape.width());
    let width = shape.heads * shape.dim;
    let (mut out, mut lse, mut scratch) =
        (zeros(rows * width), zeros(rows * shape.heads), zeros(shape.scratch()));
    attention::forward(shape, &begins, &qkv, &mut out, &mut lse, &mut scratch);
    c.holds("output", &out, tolerance);
    let mut dqkv = zeros(qkv.len());
    attention::backward(
        shape,
        &begins,
        &qkv,
        &out,
        &lse,
        &given("dy", rows * width),
        &mut dqkv,
        &mut scratch,
    );
    c.holds("dqkv", &dqkv, tolerance);
}

fn cross_entropy<T: Real>(c: &Case, tolerance: f64) {
    let (rows, vocab) = (c.size("rows"), c.size("vocab"));
    let mut logits = given::<T>("logits", rows * vocab);
    let mut labels = numbers(2, rows, vocab);
    for label in labels.iter_mut().skip(3).step_by(4) {
        *label = IGNORED;
    }
    let loss = rows::cross_entropy(&mut logits, &labels, vocab, c.number("scale"));
    c.holds("output", &[loss], tolerance);
    c.holds("dlogits", &logits, tolerance);
}

/// Master weights and states are always f32.
fn adamw(c: &Case) {
    let n = c.size("n");
    let o = Optimizer {
        learning_rate: 3e-3,
        beta1: 0.9,
        beta2: 0.95,
        eps: 1e-8,
        weight_decay: c.number("decay"),
        clip_norm: None,
    };
    let (mut p, mut m, mut v) = (given("p", n), zeros(n), zeros(n));
    for step in 0..c.size("steps") {
        let g = given::<f32>(&format!("grad.{step}"), n);
        optim::adamw(&o, step, o.learning_rate, true, 1.0, &mut p, &mut m, &mut v, &g);
    }
    c.holds("output", &p, 1e-6);
    c.holds("exp_avg", &m, 1e-6);
    c.holds("exp_avg_sq", &v, 1e-6);
}

fn bf16(c: &Case) {
    let mut x = given::<f32>("x", c.size("n"));
    rows::round_bf16(&mut x);
    c.holds("output", &x, 0.0);
}

fn check<T: Real>(c: &Case, tolerance: f64) {
    match c.word("kernel") {
        "norm" => norm::<T>(c, tolerance),
        "rotary" => rotary::<T>(c, tolerance),
        "activation" => activation::<T>(c, tolerance),
        "linear" => linear::<T>(c, tolerance),
        "embedding" => embedding::<T>(c, tolerance),
        "attention" => attends::<T>(c, tolerance),
        "cross-entropy" => cross_entropy::<T>(c, tolerance),
        "adamw" => adamw(c),
        "bf16" => bf16(c),
        other => panic!("`{other}` is recorded, and nothing looks at it"),
    }
}

#[test]
fn every_kernel_equals_pytorch() {
    let recorded: Value = serde_json::from_str(include_str!("recorded/kernels.json")).unwrap();
    let cases: Vec<Case> = recorded["cases"].as_array().unwrap().iter().cloned().map(Case).collect();
    assert_eq!(cases.len(), 23);
    for case in &cases {
        check::<f64>(case, 1e-11);
        check::<f32>(case, 2e-6);
    }
}
