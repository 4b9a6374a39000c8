//! Measurements for `benches/fsdp.py`: the matrix multiplications of a training pass on one thread, and
//! random tokens for comparisons of training runs.

use std::path::Path;

use rustix::time::{ClockId, clock_gettime};

use crate::data::tokens;
use crate::kernels::gemm::{self, MatrixView, Update};
use crate::model::init::mix;

/// Rows, inputs and outputs of the matrix multiplications of a block and the head in the benchmark's Llama 6
/// x 384.
const SHAPES: [(&str, usize, usize, usize); 5] = [
    ("qkv", 1024, 384, 1152),
    ("out", 1024, 384, 384),
    ("up", 1024, 384, 2048),
    ("down", 1024, 1024, 384),
    ("head", 256, 384, 8192),
];

/// Returns the CPU seconds of this thread, which exclude the time that other processes take on a busy
/// machine.
fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn best_seconds(mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..30 {
        let began = thread_seconds();
        work();
        best = best.min(thread_seconds() - began);
    }
    best
}

/// Returns each multiplication's name and its throughput in GFLOP/s: the best of 30 runs.
pub fn benchmark_products() -> Vec<(String, f64)> {
    let mut found = Vec::new();
    for (name, n, k, m) in SHAPES {
        let x = vec![0.5f32; n * k];
        let w = vec![0.25f32; m * k];
        let dy = vec![0.125f32; n * m];
        let (mut y, mut dx, mut dw) = (vec![0.0f32; n * m], vec![0.0f32; n * k], vec![0.0f32; m * k]);
        let forward = best_seconds(|| {
            gemm::nt(
                &mut y,
                m,
                Update::Replace,
                MatrixView::new(&x, n, k),
                MatrixView::new(&w, m, k),
                1.0,
                1,
            );
        });
        let inputs = best_seconds(|| {
            gemm::nn(
                &mut dx,
                k,
                Update::Replace,
                MatrixView::new(&dy, n, m),
                MatrixView::new(&w, m, k),
                1.0,
                1,
            );
        });
        let weights = best_seconds(|| {
            gemm::tn(
                &mut dw,
                k,
                Update::Replace,
                MatrixView::new(&dy, n, m),
                MatrixView::new(&x, n, k),
                1.0,
                1,
            );
        });
        for (pass, seconds) in [("forward", forward), ("inputs", inputs), ("weights", weights)] {
            found.push((format!("{name}.{pass}"), 2.0 * (n * k * m) as f64 / seconds / 1e9));
        }
    }
    found
}

/// Writes sequences of random tokens.
pub fn write_tokens(
    directory: &Path,
    sequence_length: usize,
    sequences: usize,
    vocab: usize,
) -> std::io::Result<()> {
    let all: Vec<u32> =
        (0..sequences * (sequence_length + 1)).map(|i| (mix(i as u64) % vocab as u64) as u32).collect();
    tokens::write(directory, sequence_length, vocab, &all, sequences)
}
