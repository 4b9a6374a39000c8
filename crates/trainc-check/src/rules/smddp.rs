//! SageMaker data parallel (SMDDP): supported PyTorch versions and instance types, and use on one node.

use crate::codes;
use crate::Context;
use crate::queries::script_values;
use crate::queries::torchrun::{PytorchVersion, pytorch_version};
use crate::shared_codes::short_version;
use trainc_catalog::images::version_key;
use trainc_catalog::support::{self, Support};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::hardware::Instance;
use trainc_ir::{Launcher, Parallel, Plan};

declare_code!(
    T0355,
    "smddp-unsupported-image",
    Error,
    "a container that does not support SageMaker data parallel",
    ends: Speed
);
// The engine does not run on the instance type, whatever its network.
declare_code!(
    T0356,
    "smddp-unsupported-instance",
    Error,
    "an instance type that the SageMaker data parallel library does not support",
    ends: Speed,
    supersedes: { Job: [codes::T0397, codes::T0398] }
);
declare_code!(
    T0838,
    "smddp-not-started",
    Warning,
    "a program that starts another backend than its engine, SMDDP"
);
declare_code!(T0358, "smddp-one-node", Warning, "SageMaker data parallel on one node");
declare_code!(
    T0359,
    "pytorchddp-becomes-smddp",
    Warning,
    "pytorchddp on a PyTorch image starts SageMaker data parallel"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0355, &T0356, &T0358, &T0359, &T0838];

/// Checks the PyTorch version and the instance type. The SDK checks little of the latter; the container
/// checks both.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(parallel) = &plan.job.parallel else { return };
    let (Some(engine), Some(bound)) = (parallel.engine.val(), plan.engine) else { return };
    let rewritten = is_rewritten_to_smddp(plan, parallel);
    if rewritten {
        let span = parallel.launcher.span().unwrap_or(parallel.span);
        problems.push(
            Diagnostic::new(
                &T0359,
                span,
                "launcher `pytorchddp` on a PyTorch image starts SageMaker data parallel, not PyTorch's DDP",
            )
            .help("write `launcher=\"torchrun\"`, or write `parallel engine=\"smddp\"` explicitly")
            .note("the SDK's PyTorch estimator rewrites it (SDK 2.257.7, captured requests)"),
        );
    }
    if !(rewritten || bound.law.smddp) {
        return;
    }
    check_image(plan, problems);
    let at = engine.span_or(parallel.span);
    check_instance(plan, at, problems);
    check_program(plan, at, problems);
    if plan.mesh.as_ref().is_some_and(|mesh| mesh.nodes == 1) {
        problems.push(
            Diagnostic::new(&T0358, at, "SageMaker data parallel on one node has no inter-node \
                communication to optimise")
                .write("parallel engine=\"ddp\" launcher=\"torchrun\"").and_text(", which also supports newer containers")
                .note("it speeds up communication between nodes; within a node NVLink is as fast \
                    without it (SageMaker developer guide, SMDDP)"),
        );
    }
}

/// The package of the library, and the name of its backend for `torch.distributed`.
const PACKAGE: &str = "smdistributed";
const BACKEND: &str = "smddp";

/// Reports a program that starts another backend and does not import the library: nothing uses it then. A
/// program that is not read whole may import it elsewhere.
fn check_program(plan: &Plan, at: Span, problems: &mut Problems) {
    let Some(script) = plan.script.as_ref().filter(|script| script.is_whole) else { return };
    if script.imports(PACKAGE) || script.has_text(BACKEND) {
        return;
    }
    let started = script.calls("init_process_group").find_map(|(module, call)| {
        let argument = script_values::argument(call, "backend", 0)?;
        let found = script_values::text_of(plan, module, &argument.value)?;
        (found.text != BACKEND).then(|| (module.span(&call.at), found.text))
    });
    let Some((place, backend)) = started else { return };
    problems.push(
        Diagnostic::new(
            &T0838,
            at,
            format!("the program starts `{backend}` and does not import `{PACKAGE}`: SMDDP is not used"),
        )
        .label(place, format!("starts `{backend}`"))
        .write("parallel engine=\"ddp\" launcher=\"torchrun\"")
        .or_else(
            "import `smdistributed.dataparallel.torch.torch_smddp` in the program and start the backend \
                `smddp`",
        )
        .note(
            "the library takes over the collectives of a program that starts its backend (SageMaker \
                developer guide, SMDDP)",
        ),
    );
}

/// Returns whether the SDK's PyTorch estimator replaces `pytorchddp` with SageMaker data parallel.
fn is_rewritten_to_smddp(plan: &Plan, parallel: &Parallel) -> bool {
    plan.engine.is_some_and(|engine| engine.front.launcher(parallel) == Launcher::PytorchDdp)
        && plan.image.as_ref().is_some_and(|image| image.family == "pytorch")
}

fn check_image(plan: &Plan, problems: &mut Problems) {
    let Some(list) = support::smddp_accepted_by_sdk() else { return };
    let uri = plan.job.image.as_ref().and_then(|ask| ask.uri.val());
    if let (Some(uri), Some(refused), Some(ask)) = (uri, &list.refused_in_image_uri, &plan.job.image)
        && uri.value.contains(refused.as_str())
    {
        problems.push(
            Diagnostic::new(
                &T0355,
                uri.span_or(ask.span),
                format!("the SageMaker data parallel library does not support `{refused}` images"),
            )
            .help("choose an image by version, e.g. `image \"pytorch\" version=\"2.0.1\" python=\"py310\"`")
            .note("the SageMaker SDK: \"SMDistributed is currently incompatible with DLC image\""),
        );
    }
    let Some(version) = pytorch_version(plan) else { return };
    if list.pytorch_versions.iter().any(|known| known == version.written) {
        check_trainer(plan, problems);
    } else if list.pytorch_versions.iter().any(|known| known == version.full) {
        problems.push(short_version(plan, &version, "SageMaker data parallel"));
    } else {
        problems.push(unsupported(&version, &list));
    }
}

fn unsupported(version: &PytorchVersion, list: &Support) -> Diagnostic {
    let full: Vec<&String> =
        list.pytorch_versions.iter().filter(|known| known.split('.').count() == 3).collect();
    Diagnostic::new(
        &T0355,
        version.span,
        format!(
            "the SageMaker data parallel library does not support PyTorch {}; it supports {}",
            version.full,
            text::list(&full, "and")
        ),
    )
    .help("use one of these, or `parallel engine=\"ddp\" launcher=\"torchrun\"`")
    .note(format!("{} ({})", list.provenance.source, list.provenance.date))
    .fact("known", full.iter().map(|known| known.as_str()).collect::<Vec<_>>())
}

/// Reports newer transformers, whose Trainer no longer starts the library; custom code in the script still
/// can.
fn check_trainer(plan: &Plan, problems: &mut Problems) {
    let Some(row) = support::first_trainer_without_smddp() else { return };
    let (Some(image), Some(ask)) = (&plan.image, &plan.job.image) else { return };
    let (Some(transformers), Some(since)) = (&image.transformers, row.pytorch_versions.first()) else {
        return;
    };
    if version_key(transformers) < version_key(since) {
        return;
    }
    problems.push(
        Diagnostic::new(
            &T0355,
            ask.transformers.span().unwrap_or(ask.span),
            format!("the Trainer of transformers {since} and newer does not start SageMaker data \
                parallel; the image has {transformers}"),
        )
        .severity(Severity::Warning)
        .write("parallel engine=\"ddp\" launcher=\"torchrun\"").and_text(", unless the script initialises \
            the library itself")
        .note(row.provenance.source),
    );
}

/// The generations of the library, by their names in the catalogue.
const V1: &str = "smddp-v1";
const V2: &str = "smddp-v2";

/// Returns the generation of the library in the image by its PyTorch version, if that is known.
fn generation(plan: &Plan) -> Option<&'static str> {
    let pytorch = plan.image.as_ref()?.pytorch.as_deref()?;
    if support::library(V1, pytorch).is_some() {
        return Some(V1);
    }
    // A version missing from the tables has the library of its neighbours.
    let first = support::library_support(V2)?
        .pytorch_versions
        .into_iter()
        .min_by(|a, b| version_key(a).cmp(&version_key(b)))?;
    Some(if version_key(pytorch) >= version_key(&first) {
        V2
    } else {
        V1
    })
}

/// Returns whether the job starts the library, which does not support an instance type.
pub(super) fn refuses_instance(plan: &Plan, row: &Instance) -> bool {
    let Some(parallel) = &plan.job.parallel else { return false };
    if !(is_rewritten_to_smddp(plan, parallel) || plan.engine.is_some_and(|engine| engine.law.smddp)) {
        return false;
    }
    match generation(plan) {
        Some(V2) => !row.smddp_v2,
        Some(_) => !row.smddp_v1,
        None => !(row.smddp_v1 || row.smddp_v2),
    }
}

fn check_instance(plan: &Plan, at: Span, problems: &mut Problems) {
    let Some(row) = plan.instance.as_ref().filter(|row| refuses_instance(plan, row)) else { return };
    let generation = generation(plan).unwrap_or(V1);
    let Some(list) = support::library_support(generation) else { return };
    let cluster = plan.job.cluster.as_ref();
    let span = cluster.and_then(|cluster| cluster.instance.span()).unwrap_or(at);
    problems.push(
        Diagnostic::new(
            &T0356,
            span,
            format!(
                "SageMaker data parallel{} does not support `{}`; it supports {}",
                if generation == V2 { " 2" } else { "" },
                row.name,
                text::backtick_list(&list.instances, "and")
            ),
        )
        .label(at, "the engine")
        .help("use one of these, or `parallel engine=\"ddp\" launcher=\"torchrun\"`")
        .note(format!(
            "the SDK checks only p5, and the container fails after startup ({}, {})",
            list.provenance.source, list.provenance.date
        ))
        .fact("instances", list.instances.clone()),
    );
}
