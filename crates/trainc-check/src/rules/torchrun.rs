//! Engines under torchrun: PyTorch version, its spelling and entry point; engines on Trainium.

use crate::codes;
use crate::Context;
use crate::queries::program::{command_help, module_help, module_of_entry, script_of_command};
use crate::queries::torchrun::{is_trainium, pytorch_version, uses_torchrun};
use crate::shared_codes::{T0351, short_version};
use trainc_catalog::images::version_key;
use trainc_catalog::{cuda, images, support};
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::{Launcher, Plan};

declare_code!(
    T0350,
    "unsupported-torchrun-version",
    Error,
    "a PyTorch version that the SageMaker SDK does not start with torchrun",
    ends: Speed
);
// A module is in no source.
declare_code!(
    T0352,
    "torchrun-entry-point",
    Error,
    "an entry point that torchrun cannot start",
    ends: Speed,
    supersedes: { Value: [codes::T0502] }
);
// Trainium does not run the engine, whatever its layout.
declare_code!(
    T0354,
    "unsupported-trainium-engine",
    Error,
    "an engine that Trainium does not support",
    ends: Speed,
    supersedes: { Job: [
        codes::T0357, codes::T0385, codes::T0386, codes::T0387, codes::T0388, codes::T0389,
        codes::T0390, codes::T0396,
    ] }
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0350, &T0351, &T0352, &T0354];

/// Checks version and entry point, which the SDK checks before it sends the request.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    check_trainium(plan, problems);
    if uses_torchrun(plan) {
        check_version(plan, problems);
        check_entry(plan, problems, "torchrun", "the SageMaker SDK rejects it when the estimator is created");
    } else if plan.launch.launcher == Launcher::Accelerate {
        check_entry(plan, problems, "accelerate launch", "it starts each rank with `python`");
    }
}

fn check_version(plan: &Plan, problems: &mut Problems) {
    let Some(version) = pytorch_version(plan) else { return };
    let program = plan.job.program.as_ref();
    // The launch script or the job's own entry point starts it.
    if plan.payload.is_launched_by_script()
        || program.is_some_and(|program| !program.entrypoint.is_empty())
    {
        return;
    }
    let list = if is_trainium(plan) {
        support::torch_distributed_trainium()
    } else {
        support::torch_distributed_accepted()
    };
    let Some(list) = list else { return };
    if list.pytorch_versions.iter().any(|known| known == version.written) {
        return;
    }
    if list.pytorch_versions.iter().any(|known| known == version.full) {
        problems.push(short_version(plan, &version, "torchrun"));
        return;
    }
    let own_image = plan.engine.filter(|engine| engine.front.image_family.is_some());
    let library_of_own_image = own_image.and_then(|engine| engine.front.libraries.first());
    let usable = if is_trainium(plan) {
        let available = trainium_versions(plan, &list.pytorch_versions);
        if available.is_empty() { list.pytorch_versions.clone() } else { available }
    } else if let Some(library) = library_of_own_image {
        support::library_support(library).map(|row| row.pytorch_versions).unwrap_or_default()
    } else {
        support::torch_distributed_usable().map(|row| row.pytorch_versions).unwrap_or_default()
    };
    // Between the versions of the list the container's toolkit has a runner for torchrun, and trainc sends
    // its own request.
    let is_gap = !is_trainium(plan)
        && own_image.is_none()
        && !support::is_newer_than_torch_distributed(version.full)
        && list.pytorch_versions.iter().any(|known| version_key(known) < version_key(version.full));
    let mut diagnostic = Diagnostic::new(
        &T0350,
        version.span,
        format!(
            "the SDK does not support PyTorch {} with torchrun; it supports {}",
            version.full,
            text::list(&usable, "and")
        ),
    )
    .severity(if is_gap { Severity::Warning } else { Severity::Error })
    .note(format!("{} ({})", list.provenance.source, list.provenance.date))
    .fact("usable", usable.clone());
    // An archive in S3 has no launch script.
    if support::is_newer_than_torch_distributed(version.full)
        && let Some(s3) = program.and_then(|program| program.s3.val())
    {
        diagnostic = diagnostic
            .label(s3.span_or(version.span), "trainc cannot add its launch script to this archive")
            .help("write `source=` with the directory of the program: trainc then packs it with a \
                script that starts torchrun");
        problems.push(diagnostic);
        return;
    }
    let runs: Vec<String> = usable.iter().filter(|version| runs_on_gpu(plan, version)).cloned().collect();
    if let Some(near) = nearest(version.full, &runs).filter(|_| is_pytorch(plan)) {
        diagnostic = diagnostic.write(match newest_python(near) {
            Some(python) => format!("version=\"{near}\" python=\"{python}\""),
            None => format!("version=\"{near}\""),
        });
    }
    problems.push(diagnostic);
}

/// Returns whether the code of the container with a PyTorch version runs on the job's GPU, as far as known.
fn runs_on_gpu(plan: &Plan, version: &str) -> bool {
    let range = plan.instance.as_ref().and_then(|instance| cuda::of_accelerator(&instance.accelerator));
    let (Some(range), Some(found)) = (range, images::cuda_of_pytorch(version)) else { return true };
    range.contains(&found)
}

fn is_pytorch(plan: &Plan) -> bool {
    plan.image.as_ref().is_some_and(|image| image.family == "pytorch")
}

/// Returns the versions with a container for the Trainium instance, without substitutes.
fn trainium_versions(plan: &Plan, versions: &[String]) -> Vec<String> {
    let (Some(instance), Some(region)) = (&plan.instance, &plan.region) else { return Vec::new() };
    let has = |version: &&String| {
        images::resolve(&images::ImageQuery {
            framework: images::Framework::PyTorch,
            pytorch: version,
            transformers: None,
            python: None,
            region: &region.name,
            instance: &instance.name,
            smdistributed: false,
        })
        .is_ok_and(|found| !found.version_substituted && found.pytorch_full_version == **version)
    };
    versions.iter().filter(has).cloned().collect()
}

/// Returns the newest Python version of the PyTorch image with this version.
fn newest_python(version: &str) -> Option<String> {
    images::all()
        .find(|image| image.family == images::ImageFamily::PyTorch && image.pytorch == version)?
        .python
        .pop()
}

/// Returns the nearest newer version, otherwise the newest.
fn nearest<'a>(full: &str, usable: &'a [String]) -> Option<&'a String> {
    let key = images::version_key(full);
    usable.iter().find(|version| images::version_key(version) > key).or(usable.last())
}

fn check_entry(plan: &Plan, problems: &mut Problems, launcher: &str, note: &'static str) {
    let Some(program) = &plan.job.program else { return };
    // The toolkit does not run with a custom entry point.
    if !program.entrypoint.is_empty() {
        return;
    }
    let Some(entry) = program.entry.val() else { return };
    let span = entry.span_or(program.span);
    // The SDK's comparison is case-sensitive. An empty entry point is reported by another rule.
    if !entry.value.is_empty() && !entry.value.as_bytes().ends_with(b".py") {
        let diagnostic = Diagnostic::new(
            &T0352,
            span,
            format!("{launcher} requires a Python file, but `{}` does not end in `.py`", entry.value),
        )
        .note(note);
        let (module, script) = (module_of_entry(&entry.value), script_of_command(&entry.value));
        problems.push(match (module, script) {
            (Some(module), _) => diagnostic.help(module_help(module, &paths(plan))),
            (None, Some(script)) => diagnostic.help(command_help(script)),
            (None, None) => diagnostic.help(format!(
                "write the `.py` file that the script starts, and remove `{launcher}` from the script"
            )),
        });
    }
    // The launch script also starts a file of a package.
    if let Some(tree) = &plan.source
        && !plan.payload.is_launched_by_script()
        && tree.get("setup.py").is_some()
    {
        problems.push(
            Diagnostic::new(&T0352, span, format!("`setup.py` at the root of `{}` makes the source a \
                package, which {launcher} does not start", tree.dir))
                .help("move `setup.py` out of the source directory, or into a `dependency`")
                .note("sagemaker-training-toolkit: a package runs as `python -m`, which its torchrun \
                    runner rejects"),
        );
    }
}

/// Returns the paths of the source's files.
fn paths(plan: &Plan) -> Vec<&str> {
    plan.source.iter().flat_map(|tree| &tree.files).map(|file| file.path.as_str()).collect()
}

fn check_trainium(plan: &Plan, problems: &mut Problems) {
    let (Some(parallel), Some(instance)) = (&plan.job.parallel, &plan.instance) else { return };
    let (Some(engine), Some(bound)) = (parallel.engine.val(), plan.engine) else { return };
    if !is_trainium(plan)
        || bound.law.is_script()
        || parallel.launcher.is_bad()
        || (bound.law.whole_model && uses_torchrun(plan))
    {
        return;
    }
    let (what, span) = match parallel.launcher.val() {
        Some(launcher) if bound.front.takes_launcher(&launcher.value) => {
            (format!("launcher `{}`", launcher.value), launcher.span_or(parallel.span))
        }
        _ => (format!("engine `{}`", engine.value.as_str()), engine.span_or(parallel.span)),
    };
    let cluster = plan.job.cluster.as_ref();
    let at = cluster.and_then(|cluster| cluster.instance.span());
    let mut diagnostic = Diagnostic::new(
        &T0354,
        span,
        format!("`{}` supports only `ddp` with torchrun, not {what}", instance.name),
    )
    .write("parallel engine=\"ddp\" launcher=\"torchrun\"")
    .note(if bound.front.launcher(parallel) == Launcher::Torchrun {
        "PyTorch's FSDP gathers over NCCL, which Trainium does not support; torch-neuronx runs under torchrun"
    } else {
        "the SageMaker SDK allows only `torch_distributed` on Trainium"
    });
    if let Some(at) = at {
        diagnostic = diagnostic.label(at, "Trainium chips");
    }
    problems.push(diagnostic);
}
