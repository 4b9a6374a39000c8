//! Optimizers under FSDP: GPU-only optimizers with offloading, and 8-bit states.

use crate::Context;
use crate::queries::optimizer::requires_cuda_tensors;
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::Scalar;

declare_code!(
    T0375,
    "fsdp-unsupported-optimizer",
    Error,
    "an optimizer that FSDP does not support in this configuration",
    ends: Speed
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0375];

/// Reports GPU-only optimizers with offloaded parameters, which are updated on the host, and 8-bit states.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let job = &context.plan.job;
    let wraps = context.plan.engine.is_some_and(|engine| engine.law.wraps);
    let Some(parallel) = job.parallel.as_ref().filter(|_| wraps) else { return };
    let Some(optimizer) = &job.train.optimizer else { return };
    let Some(name) = optimizer.name.val() else { return };
    let span = name.span_or(optimizer.span);
    let offload = parallel
        .options
        .iter()
        .find(|option| option.name == "offload" && option.value.value() == Some(&Scalar::Bool(true)));
    if let Some(offload) = offload.filter(|_| requires_cuda_tensors(&name.value)) {
        problems.push(
            Diagnostic::new(
                &T0375,
                span,
                format!(
                    "`{}` updates parameters on the GPU, but `offload` keeps them in host memory",
                    name.value
                ),
            )
            .label(offload.span, "the offload")
            .write("optimizer \"adamw\"").or_remove("offload")
            .note("the kernels of apex and bitsandbytes support only CUDA tensors; the first step fails"),
        );
        return;
    }
    let sharded = context.plan.engine.is_some_and(|engine| engine.law.is_sharded(parallel));
    if sharded && matches!(name.value.as_str(), "adamw-8bit" | "paged-adamw-8bit") {
        problems.push(
            Diagnostic::new(
                &T0375,
                span,
                format!("under FSDP the states of `{}` may be converted to 32 bits", name.value),
            )
            .severity(Severity::Warning)
            .help("allow for 8 bytes per parameter, or write `optimizer \"adamw\"`")
            .note(
                "huggingface/accelerate#1902: gathering the optimizer state silently converts it to 32 bits",
            ),
        );
    }
}
