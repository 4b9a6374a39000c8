//! The newest container that a job could run in.

use crate::catalog::images::{self, Framework, ImageFamily, ImageQuery};
use crate::ir::{Engine, Image, Job, Origin, Region};

/// The `image` node to write for a job that has none: the newest Deep Learning Container that starts its script and
/// serves its engine, region and instance type, as far as these are known.
pub(super) fn fitting(job: &Job, region: Option<&Region>) -> String {
    let engine = job.parallel.as_ref().and_then(|parallel| parallel.engine.get());
    let family = if engine == Some(Engine::Smp) { ImageFamily::SmpV2 } else { ImageFamily::PyTorch };
    let instance = job.container_instance();
    let rows = images::of(family);
    let row = rows
        .iter()
        // The request speaks the toolkit's keys, as SDK v2 does: an image of v3 alone may not read them.
        .filter(|row| row.sdk.iter().any(|sdk| sdk == "v2"))
        .filter(|row| region.is_none_or(|region| row.regions.contains(&region.name)))
        .filter(|row| {
            let (Some(region), Some(instance)) = (region, instance) else { return true };
            let query = ImageQuery {
                framework: if family == ImageFamily::SmpV2 { Framework::SmpV2 } else { Framework::PyTorch },
                pytorch: &row.pytorch,
                transformers: None,
                python: row.python.last().map(String::as_str),
                region: &region.name,
                instance,
                smdistributed: false,
            };
            images::resolve(&query).is_ok()
        })
        .max_by_key(|row| images::version_key(&row.pytorch));
    match row {
        Some(row) => {
            let python = row.python.last().map_or_else(String::new, |python| format!(" python=\"{python}\""));
            format!("image \"pytorch\" version=\"{}\"{python}", row.pytorch)
        }
        None => "image uri=\"…\"".to_owned(),
    }
}

/// The newest PyTorch container of the region for the instance type: what engine `worker` runs in.
pub(super) fn worker(job: &Job, region: &Region) -> Option<Image> {
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
