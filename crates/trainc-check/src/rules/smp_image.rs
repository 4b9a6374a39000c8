//! SageMaker model parallel: supported containers and instance types.

use crate::codes;
use crate::Context;
use crate::queries::torchrun::pytorch_version;
use trainc_catalog::images::version_key;
use trainc_catalog::smp::SmpVersion;
use trainc_catalog::support;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_engine::smp;
use trainc_ir::Plan;
use trainc_ir::hardware::Instance;

declare_code!(
    T0364,
    "smp-unsupported-version",
    Error,
    "a PyTorch version without SageMaker model parallel",
    ends: Speed
);
declare_code!(T0365, "smp-archived", Warning, "SageMaker model parallel v1 is archived");
// The engine does not run on the instance type, whatever its network.
declare_code!(
    T0366,
    "smp-unlisted-instance",
    Warning,
    "an instance type that the documentation of SageMaker model parallel v1 does not list",
    supersedes: { Job: [codes::T0397, codes::T0398] }
);
// The image lacks the library, whatever its parameters.
declare_code!(
    T0376,
    "smp-v2-huggingface",
    Error,
    "SageMaker model parallel v2 on a Hugging Face image",
    ends: Speed,
    supersedes: { Job: [
        codes::T0347, codes::T0367, codes::T0368, codes::T0369, codes::T0370, codes::T0371,
        codes::T0372, codes::T0374,
    ] }
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0364, &T0365, &T0366, &T0376];

/// Returns whether the job needs SMP v2 on a Hugging Face image, which does not have it.
fn is_v2_on_huggingface(plan: &Plan) -> bool {
    let Some(first) = support::smp_v2().and_then(|row| row.pytorch_versions.first().cloned()) else {
        return false;
    };
    let huggingface = plan
        .job
        .image
        .as_ref()
        .is_some_and(|ask| ask.family.value().is_some_and(|family| family == "huggingface"));
    let pytorch = plan.image.as_ref().and_then(|image| image.pytorch.as_deref());
    huggingface && pytorch.is_some_and(|version| version_key(version) >= version_key(&first))
}

/// Checks image and instance type. The SDK only looks up an image; the container fails if the library is
/// missing.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(parallel), Some(version)) = (&plan.job.parallel, smp::version(plan)) else { return };
    let Some(ask) = &plan.job.image else { return };
    let at = parallel.engine.span().unwrap_or(parallel.span);
    let span =
        pytorch_version(plan).map_or_else(|| ask.uri.span().unwrap_or(ask.span), |version| version.span);
    if is_v2_on_huggingface(plan) {
        let newest =
            support::smp_v2().and_then(|row| row.pytorch_versions.last().cloned()).unwrap_or_default();
        problems.push(
            Diagnostic::new(&T0376, span, "SMP v2 does not support Hugging Face images, only PyTorch images")
                .label(at, "SMP v2 from PyTorch 2.0.1 on")
                .write(format!("image \"pytorch\" version=\"{newest}\"")).and_text(", with transformers in requirements.txt")
                .note("the SDK's HuggingFace estimator has no image for it"),
        );
        return;
    }
    if version != SmpVersion::V1 {
        return;
    }
    match &plan.library {
        None => check_version(plan, span, problems),
        Some(library) => warn_archived(library, span, problems),
    }
    check_instance(plan, at, problems);
}

fn check_version(plan: &Plan, span: Span, problems: &mut Problems) {
    let Some(pytorch) = plan.image.as_ref().and_then(|image| image.pytorch.as_deref()) else { return };
    let known = support::library_support("smp-v1").map(|row| row.pytorch_versions).unwrap_or_default();
    let early =
        support::early_smp_v1_versions().filter(|row| row.pytorch_versions.iter().any(|version| version == pytorch));
    let diagnostic = Diagnostic::new(
        &T0364,
        span,
        match &early {
            Some(_) => format!(
                "PyTorch {pytorch} has an early SMP v1 that is missing from the table of supported frameworks"
            ),
            None => format!("PyTorch {pytorch} does not support SageMaker model parallel"),
        },
    )
    .fact("known", known.clone());
    problems.push(match early {
        Some(row) => diagnostic
            .severity(Severity::Warning)
            .help(format!("use a newer version: {}", text::list(&known, "or")))
            .note(format!("{} ({})", row.provenance.source, row.provenance.date)),
        None => diagnostic
            .help(format!("use one of {}, or 2.0.1 or newer with SMP v2", text::list(&known, "and")))
            .note("the container fails when the script imports smdistributed.modelparallel"),
    });
}

fn warn_archived(library: &str, span: Span, problems: &mut Problems) {
    let Some(row) = support::library_support("smp-v1") else { return };
    let Some(since) = &row.archived else { return };
    let newest = support::smp_v2().and_then(|row| row.pytorch_versions.last().cloned()).unwrap_or_default();
    problems.push(
        Diagnostic::new(&T0365, span, format!("SMP {library} has been archived since {since}: no container \
            after PyTorch 2.0 includes it"))
            .help(format!("use `image \"pytorch\" version=\"{newest}\"` with SMP v2, or engine `fsdp` \
                without a library; both require changes to the script"))
            .note("SMP v2 supports sharding, tensor, context and expert degrees, but no pipeline"),
    );
}

/// Returns whether the job uses SMP v1 and AWS uses that on other instance types alone.
pub(super) fn refuses_instance(plan: &Plan, row: &Instance) -> bool {
    smp::version(plan) == Some(SmpVersion::V1) && is_unlisted(row)
}

/// Returns whether neither the documentation nor an example of AWS uses SMP v1 on an instance type.
fn is_unlisted(row: &Instance) -> bool {
    !row.smp_v1
        && support::smp_v1_examples().is_none_or(|examples| !examples.instances.contains(&row.name))
}

/// Reports an instance type on which neither the documentation nor an example of AWS uses SMP v1. Neither the
/// service nor the SDK refuses such a type.
fn check_instance(plan: &Plan, at: Span, problems: &mut Problems) {
    let Some(row) = plan.instance.as_ref().filter(|row| is_unlisted(row)) else { return };
    let Some(list) = support::library_support("smp-v1") else { return };
    let span = plan.job.cluster.as_ref().and_then(|cluster| cluster.instance.span()).unwrap_or(at);
    problems.push(
        Diagnostic::new(
            &T0366,
            span,
            format!(
                "the documentation of SMP v1 does not list `{}`; it lists {}",
                row.name,
                text::backtick_list(&list.instances, "and")
            ),
        )
        .label(at, "the engine")
        .help(format!("use one of these, or engine `fsdp`; if the job runs there, write `allow \"{}\" \
            reason=\"…\"`", T0366.id))
        .note(format!("{} ({})", list.provenance.source, list.provenance.date))
        .fact("instances", list.instances.clone()),
    );
}
