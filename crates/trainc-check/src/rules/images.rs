//! The container image: URI, region and patch window.

use crate::Context;
use trainc_catalog::images::{self, ImageFamily, ListedImage};
use trainc_catalog::regions;
use trainc_catalog::shapes;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::{ImageRequest, Launcher, RequestMember};

declare_code!(
    T0440,
    "invalid-image-uri",
    Error,
    "an image URI that is not in a private ECR repository",
    ends: Speed,
    explains: [Image]
);
declare_code!(
    T0441,
    "image-region-mismatch",
    Warning,
    "an image in another region than the job",
    explains: [Image]
);
declare_code!(
    T0442,
    "image-end-of-patch",
    Warning,
    "a container image that no longer receives patches",
    tags: [Dated]
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0440, &T0441, &T0442];

/// Checks the image found in the catalogue.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    if let Some(ask) = &context.plan.job.image {
        check_patch_window(context, ask, problems);
    }
}

/// Checks the image URI in the manifest.
pub(super) fn sagemaker_rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(ask) = &plan.job.image else { return };
    let Some(uri) = ask.uri.val() else { return };
    let span = uri.span_or(ask.span);
    let longest = shapes::member_at_path("CreateTrainingJob", "AlgorithmSpecification.TrainingImage")
        .and_then(|shape| shape.max)
        .unwrap_or(f64::MAX);
    let length = uri.value.chars().count();
    if length as f64 > longest {
        problems.push(
            Diagnostic::new(
                &T0440,
                span,
                format!("the image URI has {length} characters; SageMaker accepts at most {longest}"),
            )
            .note("`TrainingImage`, botocore's model of CreateTrainingJob"),
        );
        return;
    }
    match images::parse_uri(&uri.value) {
        Some(parsed) => {
            if parsed.tag.is_none() && parsed.digest.is_none() {
                check_tag(&uri.value, &parsed, span, problems);
            }
            let row = regions::get(&parsed.region);
            if row.is_none_or(|row| row.dns_suffix != parsed.dns_suffix) {
                problems.push(
                    Diagnostic::new(
                        &T0440,
                        span,
                        format!("`{}.{}` is not the host of a region", parsed.region, parsed.dns_suffix),
                    )
                    .note("`trainc catalog regions` prints the regions and their DNS suffixes"),
                );
            } else if let Some(region) = (plan.job.region.val())
                .filter(|region| region.value != parsed.region && !images::is_misplaced(&parsed))
            {
                problems.push(
                    Diagnostic::new(
                        &T0441,
                        span,
                        format!("the image is in `{}`, but the job is in `{}`", parsed.region, region.value),
                    )
                    .label(region.span_or(plan.job.span), "the job's region")
                    .note("SageMaker pulls images from the job's region: replicate the image there"),
                );
            }
        }
        None if uri.value.starts_with("public.ecr.aws/")
            || !plan.job.request.iter().any(has_repository_config) =>
        {
            problems.push(
                Diagnostic::new(&T0440, span, format!("`{}` is not an image URI of a private ECR repository", uri.value))
                    .help(format!(
                        "push the image to ECR, and write `image \
                            uri=\"{}.dkr.ecr.{}.amazonaws.com/REPOSITORY:TAG\"`",
                        plan.job.account.value().map_or("ACCOUNT", String::as_str),
                        plan.region.as_ref().map_or("REGION", |region| region.name.as_str())
                    ))
                    .note("another registry in your VPC requires `request { AlgorithmSpecification { \
                        TrainingImageConfig { TrainingRepositoryAccessMode \"Vpc\" } } }`"),
            );
        }
        None => {}
    }
}

/// Reports a URI without a tag, which means `latest`.
fn check_tag(uri: &str, parsed: &images::ImageUri, span: Span, problems: &mut Problems) {
    let diagnostic = Diagnostic::new(&T0440, span, "the image URI has no tag, so that `latest` is pulled");
    problems.push(if images::is_registry_account(&parsed.account) {
        diagnostic
            .help(format!("add the version, such as `{uri}:VERSION`; `trainc catalog images` lists them"))
            .note("the repositories of AWS have no tag `latest` that is kept for training")
    } else {
        diagnostic
            .severity(Severity::Warning)
            .help(format!("add the tag or the digest, such as `{uri}:1.0`"))
            .note("a later push changes what the same manifest runs")
    });
}

/// Reports an image without patches: a warning if a patched one exists, otherwise a note.
fn check_patch_window(context: &Context, ask: &ImageRequest, problems: &mut Problems) {
    let Some(image) = &context.plan.image else { return };
    let Some((from, until)) = image.patch_window.as_ref().filter(|window| window.1.as_str() < context.today)
    else {
        return;
    };
    let family = match image.family.as_str() {
        "huggingface" => ImageFamily::HuggingFace,
        "smp" => ImageFamily::SmpV2,
        _ => ImageFamily::PyTorch,
    };
    let images = images::of_family(family);
    let newer = images::of_family(ImageFamily::Amzn2023);
    let is_patched = |row: &&ListedImage| {
        row.patch_window
            .as_ref()
            .is_some_and(|window| window.0.as_str() <= context.today && window.1.as_str() >= context.today)
    };
    // SDK v2 starts the toolkit of these images as that of the written one.
    let patched = images
        .iter()
        .filter(|row| row.sdk.iter().any(|sdk| sdk == "v2"))
        .filter(is_patched)
        .max_by_key(|row| images::version_key(&row.pytorch));
    // Newer images are started by the launch script.
    let by_script = images
        .iter()
        .chain(newer.iter().filter(|_| family == ImageFamily::PyTorch))
        .filter(is_patched)
        .filter(|_| matches!(context.plan.launch.launcher, Launcher::Torchrun | Launcher::LaunchScript | Launcher::Accelerate))
        .max_by_key(|row| images::version_key(&row.pytorch));
    let version = image.pytorch.as_deref().unwrap_or("");
    let span = ask.version.span().or_else(|| ask.pytorch.span()).unwrap_or(ask.span);
    let diagnostic = Diagnostic::new(
        &T0442,
        span,
        format!("containers with PyTorch {version} received their last patch on {until}"),
    )
    .note(format!("supported from {from} to {until} (Deep Learning Containers support policy)"))
    .fact("end_of_patch", until.as_str());
    problems.push(match (patched, by_script) {
        (Some(row), _) => diagnostic.write(version_properties(row)),
        (None, Some(row)) => diagnostic
            .severity(Severity::Note)
            .write(version_properties(row))
            .note("trainc starts that container with its own launch script instead of the training toolkit"),
        (None, None) => diagnostic
            .severity(Severity::Note)
            .note("no container of this family with the training toolkit receives patches any more"),
    });
}

/// Returns the properties to write for a container.
fn version_properties(row: &ListedImage) -> String {
    match &row.transformers {
        Some(transformers) => {
            format!("transformers=\"{transformers}\" pytorch=\"{}\"", row.pytorch)
        }
        None => format!("version=\"{}\"", row.pytorch),
    }
}

fn has_repository_config(member: &RequestMember) -> bool {
    member.name == "AlgorithmSpecification" && member.value.member("TrainingImageConfig").is_some()
}
