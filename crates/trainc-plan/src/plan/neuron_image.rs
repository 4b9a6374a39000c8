//! The one container for Trainium that the SDK's tables have: what it is taken for, and what it does not know.

use super::image::T0335;
use trainc_catalog::{images, instances};
use trainc_diag::Diagnostic;
use trainc_diag::declare_code;
use trainc_ir::ImageAsk;

declare_code!(
    T0399,
    "image-version-replaced",
    Error,
    "an image version that the SageMaker SDK silently replaces"
);

/// The Neuron SDK of a container and the first one that knows the instance's chip, where that is newer.
pub(super) fn neuron_gap(found: &images::Image, instance: &str) -> Option<(String, String)> {
    let least = instances::get(instance)?.accelerator.least_neuron?;
    let has = found.neuron()?;
    (images::version_key(has) < images::version_key(&least)).then(|| (has.to_owned(), least))
}

/// A container that does not know the chip, of a table that has no other.
pub(super) fn too_old(ask: &ImageAsk, instance: &str, (has, least): &(String, String)) -> Diagnostic {
    let span = ask.version.span().or_else(|| ask.pytorch.span()).unwrap_or(ask.span);
    let message =
        format!("no container of the catalogue runs on `{instance}`: it needs Neuron {least} or newer");
    Diagnostic::new(&T0335, span, message)
        .help("write `image uri=\"…\"` with the path of a Neuron container in your region")
        .note(format!(
            "sagemaker 2.257.7 lists one PyTorch container for Trainium, with Neuron {has}, which does not know this chip (Neuron's release notes)"
        ))
}

/// A version that the SDK would silently replace by the only one there is.
pub(super) fn substituted(ask: &ImageAsk, found: &images::Image, instance: &str) -> Diagnostic {
    let only = &found.pytorch_full_version;
    let field = if ask.pytorch.span().is_some() { &ask.pytorch } else { &ask.version };
    let span = field.span().unwrap_or(ask.span);
    let diagnostic = Diagnostic::new(
        &T0399,
        span,
        format!(
            "no container for `{instance}` has this version: PyTorch {only} would run, whichever is written"
        ),
    )
    .note("sagemaker 2.257.7 lists one PyTorch container for Trainium, and takes it for every version");
    let uri = "or the container that you want as `image uri=\"…\"`";
    match found.python.as_ref().filter(|python| ask.python.value().is_some_and(|asked| asked != *python)) {
        // Two places to change: no edit.
        Some(python) => diagnostic.help(format!("write `version=\"{only}\" python=\"{python}\"`, {uri}")),
        None => diagnostic.help(format!("write `\"{only}\"`, {uri}")).fix(span, format!("\"{only}\"")),
    }
}
