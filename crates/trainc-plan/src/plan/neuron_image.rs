//! Checks of the only Trainium container in the SDK's tables.

use super::image::T0335;
use trainc_catalog::{images, instances};
use trainc_diag::Diagnostic;
use trainc_diag::declare_code;
use trainc_ir::ImageRequest;

declare_code!(
    T0399,
    "image-version-replaced",
    Error,
    "an image version that the SageMaker SDK silently replaces",
    ends: Speed
);

/// Returns the Neuron SDK version of a container and the version that the instance's chip requires, if that
/// is newer.
pub(super) fn neuron_version_too_old(found: &images::Image, instance: &str) -> Option<(String, String)> {
    let least = instances::get(instance)?.accelerator.least_neuron?;
    let has = found.neuron_sdk_version()?;
    (images::version_key(has) < images::version_key(&least)).then(|| (has.to_owned(), least))
}

/// Reports a container whose Neuron SDK does not support the chip; the SDK's table has no other container.
pub(super) fn unsupported_chip(
    ask: &ImageRequest,
    instance: &str,
    (has, least): &(String, String),
) -> Diagnostic {
    let span = ask.version.span().or_else(|| ask.pytorch.span()).unwrap_or(ask.span);
    let message = format!(
        "no container in the catalogue supports `{instance}`, which requires Neuron {least} or newer"
    );
    Diagnostic::new(&T0335, span, message)
        .help("write `image uri=\"…\"` with the URI of a Neuron container in your region")
        .note(format!(
            "sagemaker 2.257.7 lists one PyTorch container for Trainium, with Neuron {has}, \
                which does not support this chip (Neuron release notes)"
        ))
}

/// Reports a version that the SDK would silently replace by the only available one.
pub(super) fn substituted_version(ask: &ImageRequest, found: &images::Image, instance: &str) -> Diagnostic {
    let only = &found.pytorch_full_version;
    let field = if ask.pytorch.span().is_some() { &ask.pytorch } else { &ask.version };
    let span = field.span().unwrap_or(ask.span);
    let diagnostic = Diagnostic::new(
        &T0399,
        span,
        format!("no container for `{instance}` has this version: the SDK would use PyTorch {only}"),
    )
    .note("sagemaker 2.257.7 lists one PyTorch container for Trainium and uses it for every version");
    let uri = "or specify a container with `image uri=\"…\"`";
    match found.python.as_ref().filter(|python| ask.python.value().is_some_and(|asked| asked != *python)) {
        // No edit, since two places would change.
        Some(python) => {
            diagnostic.write(format!("version=\"{only}\" python=\"{python}\"")).and_text(&format!(", {uri}"))
        }
        None => diagnostic.help(format!("write `\"{only}\"`, {uri}")).fix(span, format!("\"{only}\"")),
    }
}
