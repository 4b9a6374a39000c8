//! The container: a path that SageMaker can pull, from this region, and still patched.

use crate::catalog::{images, shapes};
use crate::check::Context;
use crate::declare_code;
use crate::diag::{Code, Diagnostic, Problems};
use crate::ir::{Raw, RequestMember};

declare_code!(T0440, "image-uri", Error, "an image path that SageMaker cannot pull");
declare_code!(T0441, "image-region", Warning, "an image in another region than the job");
declare_code!(T0442, "image-out-of-patch", Warning, "a container that gets no patches any more");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0440, &T0441, &T0442];

/// The image as written, and the one found in the catalogue.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(ask) = &plan.job.image else { return };
    if let Some(window) = plan.image.as_ref().and_then(|image| image.patch_window.as_ref())
        && window.1.as_str() < context.today
    {
        let version = plan.image.as_ref().and_then(|image| image.pytorch.as_deref()).unwrap_or("");
        let span = ask.version.span().or_else(|| ask.pytorch.span()).unwrap_or(ask.span);
        problems.push(
            Diagnostic::new(&T0442, span, format!("containers with PyTorch {version} got their last patch on {}", window.1))
                .note(format!("supported from {} to {} (Deep Learning Containers support policy)", window.0, window.1))
                .fact("end_of_patch", window.1.as_str()),
        );
    }
    let Some(uri) = ask.uri.val() else { return };
    let span = uri.span_or(ask.span);
    let longest = shapes::member("CreateTrainingJob", "AlgorithmSpecification.TrainingImage").and_then(|shape| shape.max).unwrap_or(f64::MAX);
    let length = uri.value.chars().count();
    if length as f64 > longest {
        problems.push(
            Diagnostic::new(&T0440, span, format!("the path has {length} characters; SageMaker takes at most {longest}"))
                .note("`TrainingImage`, botocore's shape of CreateTrainingJob"),
        );
        return;
    }
    if !plan.deployable {
        return;
    }
    match images::parse_uri(&uri.value) {
        Some(parsed) => {
            if let Some(region) = plan.job.region.val().filter(|region| region.value != parsed.region) {
                problems.push(
                    Diagnostic::new(&T0441, span, format!("the image is in `{}`; the job is in `{}`", parsed.region, region.value))
                        .label(region.span_or(plan.job.span), "the job's region")
                        .note("SageMaker pulls images from its own region; an image elsewhere has to be replicated there"),
                );
            }
        }
        None if uri.value.starts_with("public.ecr.aws/") || !plan.job.request.iter().any(has_repository_config) => {
            problems.push(
                Diagnostic::new(&T0440, span, format!("`{}` is no path of a private ECR repository", uri.value))
                    .help(format!(
                        "push the image to ECR, and write `image uri=\"{}.dkr.ecr.{}.amazonaws.com/REPOSITORY:TAG\"`",
                        plan.job.account.value().map_or("ACCOUNT", String::as_str),
                        plan.job.region.value().map_or("REGION", String::as_str)
                    ))
                    .note("another registry of your VPC needs `request { AlgorithmSpecification { TrainingImageConfig { TrainingRepositoryAccessMode \"Vpc\" } } }`"),
            );
        }
        None => {}
    }
}

fn has_repository_config(member: &RequestMember) -> bool {
    match &member.value {
        Raw::Object(members) => member.name == "AlgorithmSpecification" && members.iter().any(|(name, _)| name == "TrainingImageConfig"),
        Raw::Scalar(_) | Raw::List(_) => false,
    }
}
