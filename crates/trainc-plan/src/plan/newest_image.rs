//! Selects the newest container for a job.

use super::image::{FULL_INSTANCE, FULL_REGION, is_startable};
use trainc_catalog::images::{self, Framework, ImageFamily, ImageQuery};
use trainc_catalog::instances;
use trainc_engine::{has_own_images, of_job};
use trainc_ir::hardware::AcceleratorKind;
use trainc_ir::{Image, Job, Origin, Region};

/// The node to write if the catalogue has no compatible container.
pub(super) const NONE: &str = "image uri=\"…\"";

/// Returns the `image` node to write for a job without one: the newest Deep Learning Container that supports
/// its engine, region and instance type, as far as these are known.
pub(super) fn suggested_image(job: &Job, region: Option<&Region>) -> String {
    suggested_image_of_family(job, region, "pytorch")
}

/// Returns the `image` node to write for the family `pytorch` or `huggingface`.
pub(super) fn suggested_image_of_family(job: &Job, region: Option<&Region>, written: &str) -> String {
    let engine = of_job(job);
    // An unknown instance type is ignored.
    let instance = job.container_instance().filter(|name| instances::instance_exists(name));
    let trainium = instance
        .and_then(instances::get)
        .is_some_and(|row| row.accelerator.kind == AcceleratorKind::Trainium);
    let (family, framework) = match written {
        "huggingface" => (ImageFamily::HuggingFace, Framework::HuggingFace),
        _ if engine.is_some_and(has_own_images) => (ImageFamily::SmpV2, Framework::SmpV2),
        _ if trainium => (ImageFamily::Neuron, Framework::PyTorch),
        _ => (ImageFamily::PyTorch, Framework::PyTorch),
    };
    let rows = images::of_family(family);
    let amzn2023 = images::of_family(ImageFamily::Amzn2023);
    let newest = |accepted: bool| {
        rows.iter()
            .chain(amzn2023.iter().filter(|_| family == ImageFamily::PyTorch))
            .filter(|row| region.is_none_or(|region| row.regions.contains(&region.name)))
            .filter(|row| {
                let query = ImageQuery {
                    framework,
                    pytorch: &row.pytorch,
                    transformers: row.transformers.as_deref(),
                    python: row.python.last().map(String::as_str),
                    region: region.map_or(FULL_REGION, |region| region.name.as_str()),
                    instance: instance.unwrap_or(FULL_INSTANCE),
                    smdistributed: engine.is_some_and(|engine| engine.front.needs_library()),
                };
                let takes = |found: &images::Image| {
                    !found.version_substituted && (!accepted || is_startable(job, &query, found))
                };
                images::resolve(&query).is_ok_and(|found| takes(&found))
            })
            .max_by_key(|row| {
                let transformers = row.transformers.as_deref().map(images::version_key);
                (transformers, images::version_key(&row.pytorch))
            })
    };
    // If the SDK accepts none of them for this engine, another diagnostic reports it.
    let Some(row) = newest(true).or_else(|| newest(false)) else { return NONE.to_owned() };
    let python = row.python.last().map_or_else(String::new, |python| format!(" python=\"{python}\""));
    match &row.transformers {
        Some(transformers) => format!(
            "image \"huggingface\" transformers=\"{transformers}\" pytorch=\"{}\"{python}",
            row.pytorch
        ),
        None => format!("image \"pytorch\" version=\"{}\"{python}", row.pytorch),
    }
}

/// Returns the newest PyTorch container of the region for the instance type, in which engine `worker` runs.
pub(super) fn worker_image(job: &Job, region: &Region) -> Option<Image> {
    let listed = images::newest_pytorch_gpu(&region.name)?;
    let instance = job.cluster.as_ref()?.instance.value()?;
    let python = listed.python.last().map(String::as_str);
    let query = ImageQuery {
        framework: Framework::PyTorch,
        pytorch: &listed.pytorch,
        transformers: None,
        python,
        region: &region.name,
        instance,
        smdistributed: false,
    };
    let found = images::resolve(&query).ok()?;
    Some(Image {
        uri: found.uri,
        family: "pytorch".to_owned(),
        pytorch: Some(found.pytorch_full_version),
        transformers: None,
        python: found.python,
        patch_window: found.patch_window,
        toolkit: true,
        sdk_v2: false,
        origin: Origin::Catalogue {
            row: format!(
                "images {}:{}, the newest PyTorch {} container",
                found.repository,
                found.tag,
                if found.tag.contains("-cpu-") { "CPU" } else { "GPU" }
            ),
            source: found.provenance.source,
            date: found.provenance.date,
        },
    })
}
