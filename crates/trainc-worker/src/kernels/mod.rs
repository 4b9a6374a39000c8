//! Arithmetic of a transformer, forward and backward, on flat buffers. It is independent of ranks, files and
//! configs, and generic over the float type so that tests can check gradients in f64.
//!
//! Matrix multiplications use faer; everything else is row-wise and dispatched at run time to the widest
//! vector instructions of this processor (`pulp`), so that a plain build is fast too.

pub mod attention;
pub mod gemm;
pub mod real;
pub mod rows;

/// Runs the closure compiled for the widest instruction set of this processor.
///
/// The bound must be `FnOnce` itself: it makes the closure's body its `call_once`, which is always inlined.
/// Any other bound inserts a shim, the body is compiled for the baseline processor, and training is 40 times
/// slower.
pub fn with_simd<R>(work: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(work)
}
