//! The image URI as versions, where the catalogue resolves them to exactly the same URI.

use super::kdl::{Node, string};
use super::launch::Launch;
use trainc_catalog::images::{self, Framework, ImageQuery, OtherQuery};
use trainc_catalog::support;

/// Returns the node `image …`.
pub(super) fn image(uri: &str, region: &str, instance: Option<&str>, launch: &Launch) -> Node {
    image_node_by_versions(uri, region, instance, launch)
        .or_else(|| other_framework(uri, region, instance))
        .unwrap_or_else(|| Node::new("image").prop("uri", &string(uri)))
}

/// Returns the family as in the plan: `pytorch`, `huggingface`, `smp` or `own`.
pub(super) fn family(uri: &str) -> &'static str {
    match images::parse_uri(uri).map(|parsed| parsed.repository).as_deref() {
        Some("pytorch-training") => "pytorch",
        Some("huggingface-pytorch-training") => "huggingface",
        Some("smdistributed-modelparallel") => "smp",
        _ => "own",
    }
}

/// Returns the node of another framework or a built-in algorithm, whose tag is the version, the processor and
/// the Python version.
fn other_framework(uri: &str, region: &str, instance: Option<&str>) -> Option<Node> {
    let parsed = images::parse_uri(uri)?;
    let family = images::family_of(&parsed)?;
    let tag = parsed.tag?;
    let python = tag.split('-').find(|part| part.starts_with("py"));
    let is_found = |version: &str, python: Option<&str>| {
        let instance = instance.unwrap_or_default();
        let query = OtherQuery { family: &family, version: Some(version), python, region, instance };
        images::resolve_other(&query).is_ok_and(|found| found.uri == uri)
    };
    let mut ends = tag.match_indices('-').map(|(at, _)| at).chain([tag.len()]);
    let version = ends.find_map(|end| tag.get(..end).filter(|version| is_found(version, python)))?;
    let node = Node::text("image", &family);
    let is_only = images::other_versions(&family).len() == 1;
    let node = if is_only { node } else { node.prop("version", &string(version)) };
    Some(node.prop_if_some("python", python.filter(|_| !is_found(version, None))))
}

fn image_node_by_versions(uri: &str, region: &str, instance: Option<&str>, launch: &Launch) -> Option<Node> {
    let engine = launch.engine;
    let tag = images::parse_uri(uri)?.tag?;
    let mut parts = tag.split('-');
    let pytorch = parts.next()?;
    let transformers = tag.split('-').find_map(|part| part.strip_prefix("transformers"));
    let python = parts.find(|part| part.starts_with("py3") || *part == "py2")?;
    let framework = match family(uri) {
        "huggingface" => Framework::HuggingFace,
        "smp" if engine == "smp" => Framework::SmpV2,
        "smp" => return None,
        _ => Framework::PyTorch,
    };
    let query = ImageQuery {
        framework,
        pytorch,
        transformers,
        python: Some(python),
        region,
        instance: instance?,
        smdistributed: matches!(engine, "smp" | "smddp"),
    };
    let found = images::resolve(&query).ok()?;
    if found.uri != uri
        || found.version_substituted
        || (launch.torchrun && !supports_torchrun(pytorch, query.instance))
    {
        return None;
    }
    Some(match transformers {
        Some(transformers) => Node::text("image", "huggingface")
            .prop("transformers", &string(transformers))
            .prop("pytorch", &string(pytorch))
            .prop("python", &string(python)),
        None => {
            Node::text("image", "pytorch").prop("version", &string(pytorch)).prop("python", &string(python))
        }
    })
}

/// Returns whether the SDK accepts the version, as spelled, with torchrun. Any other image is given by its
/// URI.
fn supports_torchrun(pytorch: &str, instance: &str) -> bool {
    let list = if instance.starts_with("ml.trn") {
        support::torch_distributed_trainium()
    } else {
        support::torch_distributed_accepted()
    };
    list.is_some_and(|list| list.pytorch_versions.iter().any(|version| version == pytorch))
}
