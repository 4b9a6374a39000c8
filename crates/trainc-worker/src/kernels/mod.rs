//! In: flat buffers and their shapes. Out: the arithmetic of a transformer, forward and backward. Knows nothing of
//! ranks, files or configs. Generic over the float so that tests can check gradients in f64.
//!
//! Matrix products go through faer; everything else is row-wise and dispatched at run time to the widest vector
//! instructions of this processor (`pulp`), so that a plain build is fast too.

pub mod attention;
pub mod gemm;
pub mod real;
pub mod rows;

/// Runs the closure compiled for the widest instruction set that this processor has.
///
/// The bound must be `FnOnce` itself: it makes the closure's body its `call_once`, which is inlined always. Under any
/// other bound a shim stands between, the body is compiled for the oldest processor, and training is 40 times slower.
pub fn with_simd<R>(work: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(work)
}
