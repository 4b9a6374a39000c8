//! The engines that torchrun starts, and the PyTorch version of their container.

use trainc_diag::source::Span;
use trainc_ir::hardware::AcceleratorKind;
use trainc_ir::{Launcher, Plan};

/// The PyTorch version of a container that the catalogue resolved.
pub(crate) struct PytorchVersion<'a> {
    /// As written: `2.0`.
    pub(crate) written: &'a str,
    /// In full: `2.0.1`.
    pub(crate) full: &'a str,
    /// Its span in the manifest.
    pub(crate) span: Span,
}

/// Returns the PyTorch version of the job's container; `None` if the container is unknown or named by its
/// URI.
pub(crate) fn pytorch_version(plan: &Plan) -> Option<PytorchVersion<'_>> {
    let ask = plan.job.image.as_ref()?;
    let image = plan.image.as_ref()?;
    if !ask.uri.is_absent() {
        return None;
    }
    let field = if ask.version.is_absent() { &ask.pytorch } else { &ask.version };
    let written = field.val()?;
    Some(PytorchVersion {
        written: &written.value,
        full: image.pytorch.as_deref()?,
        span: written.span_or(ask.span),
    })
}

/// Returns whether torchrun starts the ranks.
pub(crate) fn uses_torchrun(plan: &Plan) -> bool {
    let Some(parallel) = &plan.job.parallel else { return false };
    let Some(front) = plan.engine.map(|engine| engine.front) else { return false };
    let is_known = front.launchers.len() == 1 || !parallel.launcher.is_bad();
    is_known && matches!(front.launcher(parallel), Launcher::Torchrun | Launcher::SmpV2)
}

/// Returns whether the nodes are Trainium instances.
pub(crate) fn is_trainium(plan: &Plan) -> bool {
    plan.instance.as_ref().is_some_and(|row| row.accelerator.kind == AcceleratorKind::Trainium)
}
