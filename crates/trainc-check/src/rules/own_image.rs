//! What is assumed of an image: the training toolkit in one of the user, and the CPUs that it is built for.

use crate::Context;
use trainc_catalog::{images, instances};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::hardware::CpuArchitecture;
use trainc_ir::{ImageRequest, Plan, Starts};

declare_code!(
    T0831,
    "toolkit-of-own-image",
    Note,
    "a program in an image that may lack the training toolkit",
    explains: [Program]
);
declare_code!(
    T0832,
    "image-of-other-cpu",
    Error,
    "an image for other CPUs than those of the instance type",
    ends: Speed,
    explains: [Image]
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0831, &T0832];

/// Checks the image.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(ask) = &plan.job.image else { return };
    check_toolkit(plan, ask, problems);
    check_cpu(plan, ask, problems);
}

/// Notes that the plan assumes the training toolkit in an image of the user that gets a program.
fn check_toolkit(plan: &Plan, ask: &ImageRequest, problems: &mut Problems) {
    let (Some(program), Some(image), Some(uri)) = (&plan.job.program, &plan.image, ask.uri.val()) else {
        return;
    };
    let Some(entry) = program.entry.val().filter(|_| plan.payload.starts == Starts::Toolkit) else { return };
    let has_code = !(program.source.is_absent() && program.git.is_absent() && program.s3.is_absent());
    if !image.is_own() || !has_code || plan.is_worker() {
        return;
    }
    // Another registry, and a name that says that it lacks the toolkit, are reported elsewhere.
    let Some(parsed) = images::parse_uri(&uri.value) else { return };
    if images::is_registry_account(&parsed.account) || images::lack_in_name(&parsed).is_some() {
        return;
    }
    problems.push(
        Diagnostic::new(
            &T0831,
            uri.span_or(ask.span),
            format!(
                "`{}` is started only if this image has the training toolkit, which is not known",
                entry.value
            ),
        )
        .label(entry.span_or(program.span), "started by the toolkit")
        .help(
            "install `sagemaker-training` in the image, or start a file of the image with `entrypoint` in \
                `program`",
        )
        .note(
            "the toolkit downloads and unpacks the source; without it the container does nothing until \
                `max-run`, or stops (aws/sagemaker-python-sdk#1372)",
        ),
    );
}

/// Reports an image that is built for other CPUs than those of every instance type of the job.
fn check_cpu(plan: &Plan, ask: &ImageRequest, problems: &mut Problems) {
    let (Some(cluster), Some(image)) = (&plan.job.cluster, &plan.image) else { return };
    let groups: Vec<_> = cluster.groups.iter().map(|group| &group.instance).collect();
    let fields = if groups.is_empty() { vec![&cluster.instance] } else { groups };
    let Some(first) = fields.first().and_then(|field| field.val()) else { return };
    let Some(cpu) = instances::get(&first.value).map(|row| row.cpu) else { return };
    // One of several groups may run another image's program.
    let is_same = |name: &String| instances::get(name).is_some_and(|row| row.cpu == cpu);
    let Some(parsed) = images::parse_uri(&image.uri) else { return };
    if !fields.iter().all(|field| field.value().is_some_and(is_same)) {
        return;
    }
    let at = [&ask.uri, &ask.version, &ask.pytorch].iter().find_map(|field| field.span()).unwrap_or(ask.span);
    let new = |severity: Severity, message: String| {
        let diagnostic = Diagnostic::new(&T0832, at, message).severity(severity).help(help(cpu));
        let span: Option<Span> = first.origin.span();
        match span {
            Some(span) => diagnostic.label(span, format!("{} CPUs", cpu.word())),
            None => diagnostic,
        }
    };
    match images::cpu_of(&parsed) {
        Some((own, is_certain)) if own != cpu => {
            let severity = if is_certain { Severity::Error } else { Severity::Warning };
            let message =
                format!("the image is for {} CPUs, but `{}` has {}", own.word(), first.value, cpu.word());
            let diagnostic =
                new(severity, message).note("the container fails to start: \"exec format error\"");
            problems.push(if is_certain {
                diagnostic.note(
                    "the Deep Learning Containers of SageMaker are for x86-64 (aws/deep-learning-containers: \
                        the Dockerfiles for arm64 have no SageMaker stage)",
                )
            } else {
                diagnostic
            });
        }
        None if cpu != CpuArchitecture::default() => {
            let message = format!(
                "whether this image is built for the {} CPUs of `{}` is not known",
                cpu.word(),
                first.value
            );
            problems.push(new(Severity::Note, message));
        }
        Some(_) | None => {}
    }
}

fn help(cpu: CpuArchitecture) -> &'static str {
    match cpu {
        CpuArchitecture::X86 => "use an image that is built with `docker build --platform linux/amd64`",
        CpuArchitecture::Arm => {
            "push an image to ECR that is built with `docker build --platform linux/arm64`, or use an \
                instance type with x86-64 CPUs"
        }
    }
}
