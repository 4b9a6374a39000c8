//! Container images specified by URI.

use trainc_catalog::images;
use trainc_ir::{Image, Origin};

/// Returns the facts that the URI of an image contains.
pub(super) fn custom_image(uri: &str, origin: Origin) -> Image {
    let parsed = images::parse_uri(uri);
    let tag = parsed.as_ref().and_then(|parsed| parsed.tag.clone());
    // `pytorch` is the name of many images; AWS's registries have the containers on Amazon Linux under it.
    let is_by_aws = parsed.as_ref().is_some_and(|parsed| images::is_registry_account(&parsed.account));
    let repository = parsed.map(|parsed| parsed.repository).unwrap_or_default();
    // The tag of a Deep Learning Container contains its versions.
    let version = tag.as_deref().and_then(|tag| tag.split('-').next()).filter(|v| v.split('.').count() >= 2);
    let family = match repository.as_str() {
        "pytorch-training" => "pytorch",
        "pytorch" if is_by_aws => "pytorch",
        "huggingface-pytorch-training" => "huggingface",
        "smdistributed-modelparallel" => "smp",
        _ => "own",
    };
    Image {
        uri: uri.to_owned(),
        family: family.to_owned(),
        // The tag may contain a short version, as the SDK writes it.
        pytorch: version.filter(|_| family != "own").map(|version| match family {
            "pytorch" | "huggingface" => images::full_pytorch(version),
            _ => version.to_owned(),
        }),
        transformers: None,
        python: None,
        patch_window: None,
        toolkit: true,
        sdk_v2: false,
        origin,
    }
}
