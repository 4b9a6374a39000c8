//! Which generation of SageMaker model parallel a job runs.

use trainc_catalog::{images, support};
use trainc_ir::{Engine, Image, Job, Smp};

/// Whether SageMaker model parallel for that PyTorch is the second generation.
pub(super) fn is_smp_v2(pytorch: &str) -> bool {
    images::version_key(pytorch) >= images::version_key("2.0.1") && pytorch != "2.0" || pytorch == "2.0.1"
}

/// Which generation of SageMaker model parallel the image has.
pub(super) fn generation(job: &Job, image: Option<&Image>) -> Option<Smp> {
    if job.parallel.as_ref()?.engine.get()? != Engine::Smp {
        return None;
    }
    let image = image?;
    if image.family == "smp" {
        return Some(Smp::V2);
    }
    let version = image.pytorch.as_deref()?;
    if image.family == "pytorch" && is_smp_v2(version) {
        return Some(Smp::V2);
    }
    Some(Smp::V1(support::library(support::Engine::SmpV1, version).map(|library| library.version)))
}
