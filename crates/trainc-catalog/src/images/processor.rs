//! The processor of an instance type, by the SDK's rule on the family name.

use super::ImageProblem;

/// Returns the family of `ml.<family>.<size>` or `ml_<family>`.
pub(super) fn family(instance: &str) -> Option<&str> {
    let rest = instance.strip_prefix("ml.").or_else(|| instance.strip_prefix("ml_"))?;
    let (family, size) = rest.split_once('.').unwrap_or((rest, ""));
    let family_ok = family.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let size_ok = size.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    (!family.is_empty() && family_ok && size_ok).then_some(family)
}

/// Returns the processor of a family, as the SageMaker SDK writes it.
pub(super) fn of_family(family: &str) -> &'static str {
    if family.starts_with("inf") {
        "inf"
    } else if family.starts_with("trn") {
        "trn"
    } else if family.starts_with(['g', 'p']) {
        "gpu"
    } else {
        "cpu"
    }
}

/// Returns the processor of the instance type, if it is among `available`.
pub(super) fn for_instance(instance: &str, available: &[String]) -> Result<String, ImageProblem> {
    let Some(family) = family(instance) else {
        return Err(ImageProblem::BadInstanceName { instance: instance.to_owned() });
    };
    let processor = match family {
        _ if available.iter().any(|word| word == family) => family,
        _ => of_family(family),
    };
    if available.iter().any(|word| word == processor) {
        return Ok(processor.to_owned());
    }
    Err(ImageProblem::UnsupportedProcessor {
        instance: instance.to_owned(),
        processor: processor.to_owned(),
        known: available.to_vec(),
    })
}
