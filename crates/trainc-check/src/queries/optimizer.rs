//! Properties of optimizers.

/// Returns whether an optimizer only steps CUDA tensors: apex and bitsandbytes have no other kernels.
pub(crate) fn requires_cuda_tensors(optimizer: &str) -> bool {
    matches!(optimizer, "adamw-apex-fused" | "adamw-8bit" | "paged-adamw-8bit" | "paged-adamw-32bit")
}
