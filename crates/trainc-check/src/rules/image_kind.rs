//! What the name of an image in ECR says about it: the processor, and training or inference.

use crate::Context;
use trainc_catalog::images::{self, ImageUri, NamedProcessor};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::Plan;

declare_code!(T0587, "image-for-other-processor", Warning, "an image whose name says that it is for another processor");
declare_code!(T0588, "inference-image", Warning, "an image for inference in a training job");
declare_code!(T0589, "registry-of-other-region", Error, "an AWS registry account that has no images in the region");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0587, &T0588, &T0589];

/// Checks an image that is written as a URI.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(ask) = &plan.job.image else { return };
    let Some(uri) = ask.uri.val() else { return };
    let Some(parsed) = images::parse_uri(&uri.value).filter(|_| plan.deployable) else { return };
    let span = uri.span_or(ask.span);
    check_account(&parsed, span, &uri.value, context, problems);
    if parsed.repository.split(['-', '/', '_']).any(|word| word == "inference") {
        let training = parsed.repository.replace("inference", "training");
        let diagnostic = Diagnostic::new(&T0588, span, format!("`{}` has images for inference", parsed.repository))
            .note("a container for inference starts a server and does not run a training script");
        problems.push(diagnostic.help(if images::is_registry_account(&parsed.account) && images::has_repository(&training) {
            format!("use an image of `{training}`")
        } else {
            "use an image for training".to_owned()
        }));
        return;
    }
    check_processor(plan, &parsed, span, problems);
}

/// Compares the processor in the name with that of every instance type.
fn check_processor(plan: &Plan, parsed: &ImageUri, span: Span, problems: &mut Problems) {
    let Some(NamedProcessor { processor, word }) = images::processor_in_name(parsed) else { return };
    let Some(cluster) = &plan.job.cluster else { return };
    let groups: Vec<_> = cluster.groups.iter().map(|group| &group.instance).collect();
    let fields = if groups.is_empty() { vec![&cluster.instance] } else { groups };
    let Some(first) = fields.first().and_then(|field| field.val()) else { return };
    // One of several groups may run another program.
    let Some(found) = images::processor_of_instance(&first.value) else { return };
    let fits = |instance: &str| images::processor_of_instance(instance).is_none_or(|other| other == processor);
    if fields.iter().any(|field| field.value().is_none_or(|instance| fits(instance))) {
        return;
    }
    let (expected, has) = (images::processor_noun(processor), images::processor_noun(found));
    let mut diagnostic = Diagnostic::new(
        &T0587,
        span,
        format!("`{word}` says that the image is for {expected}, but `{}` has {has}", first.value),
    )
    .note(if found == "cpu" {
        "frameworks built for an accelerator find none there"
    } else {
        "the accelerators are billed, and a framework built for another processor does not use them"
    })
    .help(if processor == "cpu" {
        format!("use an image for {has}, or an instance type without accelerators")
    } else {
        format!("use an image for {has}, or an instance type with {expected}")
    });
    if let Some(at) = first.origin.span() {
        diagnostic = diagnostic.label(at, has.to_owned());
    }
    problems.push(diagnostic);
}

/// Reports an account of AWS's registries that the catalogue lists for other regions only.
fn check_account(parsed: &ImageUri, span: Span, uri: &str, context: &Context, problems: &mut Problems) {
    let regions = images::regions_of_account(&parsed.account);
    if regions.is_empty() || regions.contains(&parsed.region) {
        return;
    }
    let shown = text::backtick_list(regions.get(..regions.len().min(3)).unwrap_or_default(), "and");
    let mut diagnostic = Diagnostic::new(
        &T0589,
        span,
        format!("account {} has AWS's images in {shown}, not in `{}`", parsed.account, parsed.region),
    )
    .note("PyPI sagemaker 2.257.7, image_uri_config: the registry accounts by region");
    if let Some(account) = images::account_for(&parsed.account, &parsed.region) {
        let instead = uri.replacen(&parsed.account, &account, 1);
        diagnostic = diagnostic.help(format!("write `\"{instead}\"`"));
        if context.is_literal(span, uri) {
            diagnostic = diagnostic.fix(span, format!("\"{instead}\""));
        }
    }
    problems.push(diagnostic);
}
