//! SageMaker distributed data parallel: which PyTorch and which instance types, and when it pays.

use crate::Context;
use crate::queries::torchrun::{PytorchVersion, pytorch_version};
use crate::shared_codes::short_version;
use trainc_catalog::images::version_key;
use trainc_catalog::support::{self, Support};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::{Engine, Parallel, Plan};

declare_code!(
    T0355,
    "smddp-unsupported-image",
    Error,
    "a container that does not support SageMaker data parallel"
);
declare_code!(
    T0356,
    "smddp-unsupported-instance",
    Error,
    "an instance type that SageMaker data parallel does not support"
);
declare_code!(T0358, "smddp-one-node", Warning, "SageMaker data parallel on one node");
declare_code!(
    T0359,
    "pytorchddp-becomes-smddp",
    Warning,
    "pytorchddp on a PyTorch image starts SageMaker data parallel"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0355, &T0356, &T0358, &T0359];

/// The SDK looks at the version and hardly at the instance type; the container looks at both.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(parallel) = &plan.job.parallel else { return };
    let Some(engine) = parallel.engine.val() else { return };
    let rewritten = is_rewritten(plan, parallel);
    if rewritten {
        let span = parallel.launcher.span().unwrap_or(parallel.span);
        problems.push(
            Diagnostic::new(
                &T0359,
                span,
                "launcher `pytorchddp` on a PyTorch image starts SageMaker data parallel, not PyTorch's DDP",
            )
            .help("write `launcher=\"torchrun\"`, or say it: `parallel engine=\"smddp\"`")
            .note("the SDK's PyTorch estimator rewrites it (SDK 2.257.7, captured requests)"),
        );
    }
    if !(rewritten || engine.value == Engine::Smddp) {
        return;
    }
    image(plan, problems);
    let at = engine.span_or(parallel.span);
    instance(plan, at, problems);
    if plan.mesh.as_ref().is_some_and(|mesh| mesh.nodes == 1) {
        problems.push(
            Diagnostic::new(&T0358, at, "SageMaker data parallel on one node: there is no network whose traffic it could order")
                .help("write `parallel engine=\"ddp\" launcher=\"torchrun\"`, which takes newer containers too")
                .note("its gain is in the exchange between nodes; NVLink serves one node as well (SageMaker developer guide, SMDDP)"),
        );
    }
}

/// Whether the SDK's PyTorch estimator makes SageMaker data parallel of what the manifest calls `pytorchddp`.
fn is_rewritten(plan: &Plan, parallel: &Parallel) -> bool {
    parallel.engine.get() == Some(Engine::Ddp)
        && parallel.launcher.value().is_some_and(|launcher| launcher == "pytorchddp")
        && plan.image.as_ref().is_some_and(|image| image.family == "pytorch")
}

fn image(plan: &Plan, problems: &mut Problems) {
    let Some(list) = support::smddp_accepted_by_sdk() else { return };
    let by_path = plan.job.image.as_ref().and_then(|ask| ask.uri.val());
    if let (Some(uri), Some(refused), Some(ask)) = (by_path, &list.refused_in_image_uri, &plan.job.image)
        && uri.value.contains(refused.as_str())
    {
        problems.push(
            Diagnostic::new(
                &T0355,
                uri.span_or(ask.span),
                format!("SageMaker data parallel does not start in a `{refused}` image"),
            )
            .help("choose an image by version, as `image \"pytorch\" version=\"2.0.1\" python=\"py310\"`")
            .note("the SageMaker SDK: \"SMDistributed is currently incompatible with DLC image\""),
        );
    }
    let Some(version) = pytorch_version(plan) else { return };
    if list.pytorch_versions.iter().any(|known| known == version.written) {
        trainer(plan, problems);
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
            "SageMaker data parallel has no PyTorch {}; it has {}",
            version.full,
            text::list(&full, "and")
        ),
    )
    .help("take one of these, or `parallel engine=\"ddp\" launcher=\"torchrun\"`")
    .note(format!("{} ({})", list.provenance.source, list.provenance.date))
    .fact("known", full.iter().map(|known| known.as_str()).collect::<Vec<_>>())
}

/// The Trainer of newer transformers no longer starts the library; a script of one's own still may.
fn trainer(plan: &Plan, problems: &mut Problems) {
    let Some(row) = support::trainer_without_smddp() else { return };
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
            format!("from transformers {since} on the Trainer no longer starts SageMaker data parallel; this is {transformers}"),
        )
        .severity(Severity::Warning)
        .help("write `parallel engine=\"ddp\" launcher=\"torchrun\"`, unless the script starts it itself")
        .note(row.provenance.source),
    );
}

/// The generation of the library in the image, by its PyTorch; nothing where that is not known.
fn generation(plan: &Plan) -> Option<support::Engine> {
    let pytorch = plan.image.as_ref()?.pytorch.as_deref()?;
    if support::library(support::Engine::SmddpV1, pytorch).is_some() {
        return Some(support::Engine::SmddpV1);
    }
    // A version that no table names has the library of its neighbours.
    let first = support::engine(support::Engine::SmddpV2)?
        .pytorch_versions
        .into_iter()
        .min_by(|a, b| version_key(a).cmp(&version_key(b)))?;
    Some(if version_key(pytorch) >= version_key(&first) {
        support::Engine::SmddpV2
    } else {
        support::Engine::SmddpV1
    })
}

/// Whether the job starts the library on a type that it does not run on.
fn refuses_instance(plan: &Plan) -> bool {
    let (Some(parallel), Some(row)) = (&plan.job.parallel, &plan.instance) else { return false };
    if !(is_rewritten(plan, parallel) || parallel.engine.get() == Some(Engine::Smddp)) {
        return false;
    }
    match generation(plan) {
        Some(support::Engine::SmddpV2) => !row.smddp_v2,
        Some(_) => !row.smddp_v1,
        None => !(row.smddp_v1 || row.smddp_v2),
    }
}

fn instance(plan: &Plan, at: Span, problems: &mut Problems) {
    let Some(row) = plan.instance.as_ref().filter(|_| refuses_instance(plan)) else { return };
    let generation = generation(plan).unwrap_or(support::Engine::SmddpV1);
    let Some(list) = support::engine(generation) else { return };
    let cluster = plan.job.cluster.as_ref();
    let span = cluster.and_then(|cluster| cluster.instance.span()).unwrap_or(at);
    problems.push(
        Diagnostic::new(
            &T0356,
            span,
            format!(
                "SageMaker data parallel{} does not run on `{}`; it runs on {}",
                if generation == support::Engine::SmddpV2 { " 2" } else { "" },
                row.name,
                text::ticked(&list.instances, "and")
            ),
        )
        .label(at, "the engine")
        .help("take one of these, or `parallel engine=\"ddp\" launcher=\"torchrun\"`")
        .note(format!(
            "the SDK looks at p5 only, and the container fails after the start ({}, {})",
            list.provenance.source, list.provenance.date
        ))
        .fact("instances", list.instances.clone()),
    );
}
