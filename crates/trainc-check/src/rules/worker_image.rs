//! The container of engine `worker` on GPUs, whose PyTorch the worker loads.

use crate::Context;
use crate::queries::torchrun::{is_trainium, pytorch_version};
use trainc_catalog::images;
use trainc_catalog::worker_gpu;
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};

declare_code!(
    T0545,
    "worker-image-unsupported",
    Error,
    "a container whose PyTorch engine `worker` does not support on GPUs",
    ends: Speed
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0545];

/// Checks the PyTorch version of the container. That of an image with a URI of another repository is unknown.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let on_gpus = plan.machine.as_ref().is_some_and(|machine| machine.gpu.is_some()) && !is_trainium(plan);
    let Some(parallel) = plan.job.parallel.as_ref().filter(|_| plan.is_worker() && on_gpus)
    else {
        return;
    };
    let found = plan.image.as_ref().and_then(|image| image.pytorch.as_deref());
    let (Some(found), Some(versions)) = (found, worker_gpu::pytorch_versions()) else { return };
    if versions.contains(found) {
        return;
    }
    let engine = parallel.engine.span().unwrap_or(parallel.span);
    let ask = plan.job.image.as_ref();
    let span = match (pytorch_version(plan), ask) {
        (Some(version), _) => version.span,
        (None, Some(ask)) => ask.uri.span().unwrap_or(ask.span),
        // The newest container of the region.
        (None, None) => engine,
    };
    let region = plan.region.as_ref().map(|region| region.name.as_str());
    let newest = region
        .and_then(images::newest_pytorch_gpu)
        .filter(|image| versions.contains(&image.pytorch));
    let help = match (newest, ask) {
        (Some(newest), Some(_)) => {
            let python =
                newest.python.last().map_or_else(String::new, |python| format!(" python=\"{python}\""));
            format!("write `image \"pytorch\" version=\"{}\"{python}`, or remove `image`", newest.pytorch)
        }
        _ => format!(
            "write `image uri=\"…\"` with an image that contains PyTorch {} to {}",
            versions.least, versions.newest
        ),
    };
    let mut diagnostic = Diagnostic::new(
        &T0545,
        span,
        format!(
            "engine `worker` requires PyTorch {} to {} on GPUs; found {found}",
            versions.least, versions.newest
        ),
    )
    .help(help)
    .note("the worker calls the libraries of the container's PyTorch, and exits with code 14 if one of \
        its functions is missing")
    .note(format!("{} ({})", versions.provenance.source, versions.provenance.date));
    if span != engine {
        diagnostic = diagnostic.label(engine, "engine `worker`");
    }
    problems.push(diagnostic);
}
