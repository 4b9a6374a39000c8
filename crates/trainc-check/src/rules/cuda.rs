//! The CUDA version of the container, and the GPUs on which its code runs.

use crate::Context;
use crate::queries::torchrun::{pytorch_version, uses_torchrun};
use trainc_catalog::cuda::{self, CudaRange};
use trainc_catalog::images::{self, ImageFamily, version_key};
use trainc_catalog::{instances, support};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::hardware::Instance;
use trainc_ir::{Image, Plan};

declare_code!(
    T0560,
    "cuda-gpu-mismatch",
    Error,
    "a container whose CUDA version does not support the GPU",
    ends: Speed
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0560];

/// Checks the container's CUDA version, if its tag or the catalogue tells it, for each GPU of the cluster.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(image), Some(ask)) = (&plan.image, &plan.job.image) else { return };
    let Some(found) = images::cuda_of_uri(&image.uri) else { return };
    let Some((instance, at, range)) = instances_with_gpus(plan).into_iter().find_map(|(instance, at)| {
        let range = cuda::of_accelerator(&instance.accelerator).filter(|range| !range.contains(&found))?;
        Some((instance, at, range))
    }) else {
        return;
    };
    let version = pytorch_version(plan);
    let span = version.as_ref().map_or_else(|| ask.uri.span().unwrap_or(ask.span), |version| version.span);
    let what = match &image.pytorch {
        Some(pytorch) => format!("the container with PyTorch {pytorch}"),
        None => "the image".to_owned(),
    };
    let gpu = &instance.accelerator;
    let expected = match &range.dropped {
        Some(dropped) if version_key(&found) >= version_key(dropped) => {
            format!("no longer supports the {}: expected a version before {dropped}", gpu.product)
        }
        _ => format!("does not support the {}: expected {} or newer", gpu.product, range.least),
    };
    let capability =
        gpu.compute_capability.map_or_else(String::new, |(major, minor)| format!("compute capability {major}.{minor}"));
    let mut diagnostic =
        Diagnostic::new(&T0560, span, format!("{what} has CUDA {found}, which {expected}"))
            .note("PyTorch then fails with \"no kernel image is available for execution on the device\"")
            .note(format!("{} ({})", range.provenance.source, range.provenance.date))
            .fact("cuda", found.as_str())
            .fact("least", range.least.as_str());
    if let Some(at) = at {
        diagnostic = diagnostic.label(at, capability);
    }
    problems.push(diagnostic.help(help(plan, image, &range)));
}

/// Returns whether the container's CUDA version supports the GPUs of an instance type, as far as both are
/// known.
pub(super) fn supports_instance(plan: &Plan, instance: &Instance) -> bool {
    let cuda = plan.image.as_ref().and_then(|image| images::cuda_of_uri(&image.uri));
    cuda.zip(cuda::of_accelerator(&instance.accelerator)).is_none_or(|(cuda, range)| range.contains(&cuda))
}

/// Returns each instance type with GPUs, with the span that names it.
fn instances_with_gpus(plan: &Plan) -> Vec<(Instance, Option<Span>)> {
    let Some(cluster) = plan.job.cluster.as_ref() else { return Vec::new() };
    if cluster.groups.is_empty() {
        return plan.instance.iter().map(|row| (row.clone(), cluster.instance.span())).collect();
    }
    let named = cluster.groups.iter().filter_map(|group| group.instance.val());
    named.filter_map(|name| Some((instances::get(&name.value)?, name.origin.span()))).collect()
}

/// Returns the image to write: the nearest newer one, otherwise the newest older one, that runs on the GPU
/// and that the job's launcher starts.
fn help(plan: &Plan, image: &Image, range: &CudaRange) -> String {
    let other = match &range.dropped {
        Some(dropped) => format!("use an image with a CUDA version from {} on and before {dropped}", range.least),
        None => format!("use an image with CUDA {} or newer", range.least),
    };
    let (Some(found), Some(region)) = (image.pytorch.as_deref(), &plan.region) else { return other };
    let family = match image.family.as_str() {
        "pytorch" => ImageFamily::PyTorch,
        "huggingface" => ImageFamily::HuggingFace,
        _ => return other,
    };
    if plan.engine.is_some_and(|engine| engine.front.needs_library()) {
        return other;
    }
    let by_torchrun = uses_torchrun(plan);
    let starts = |pytorch: &str| {
        let list = support::torch_distributed_usable().map(|row| row.pytorch_versions).unwrap_or_default();
        !by_torchrun
            || list.iter().any(|known| known == pytorch)
            || support::is_newer_than_torch_distributed(pytorch)
    };
    let rows = images::of_family(family);
    let runs = rows.iter().filter(|row| {
        row.regions.contains(&region.name)
            && row.cuda.as_ref().is_some_and(|cuda| range.contains(cuda))
            && starts(&row.pytorch)
    });
    let key = version_key(found);
    let (newer, older): (Vec<_>, Vec<_>) = runs.partition(|row| version_key(&row.pytorch) > key);
    let nearest = newer.into_iter().min_by_key(|row| version_key(&row.pytorch));
    let Some(row) = nearest.or_else(|| older.into_iter().max_by_key(|row| version_key(&row.pytorch))) else {
        return other;
    };
    let python = row.python.last().map_or_else(String::new, |python| format!(" python=\"{python}\""));
    match &row.transformers {
        Some(transformers) => format!(
            "write `image \"huggingface\" transformers=\"{transformers}\" pytorch=\"{}\"{python}`",
            row.pytorch
        ),
        None => format!("write `image \"pytorch\" version=\"{}\"{python}`", row.pytorch),
    }
}
