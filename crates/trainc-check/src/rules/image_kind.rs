//! What the name of an image in ECR says about it: the processor, and training or inference.

use crate::Context;
use crate::queries::literals::literals;
use trainc_catalog::images::{self, ImageUri, NamePart};
use trainc_catalog::model_libraries;
use trainc_catalog::vocabulary;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::{ImageRequest, Launcher, Plan};

declare_code!(
    T0592,
    "engine-of-other-framework",
    Error,
    "an engine of PyTorch with an image of another framework",
    ends: Speed
);
declare_code!(T0594, "image-lacks-part", Warning, "an image that lacks what the job needs");
declare_code!(
    T0587, "image-for-other-processor", Warning,
    "an image whose name says that it is for another processor"
);
declare_code!(T0588, "inference-image", Warning, "an image for inference in a training job");
declare_code!(T0589, "image-not-in-registry", Error, "an AWS registry that does not have the image");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0587, &T0588, &T0589, &T0592, &T0594];

/// Checks an image that is written as a URI.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(ask) = &plan.job.image else { return };
    check_framework(plan, ask, problems);
    check_transformers(plan, ask, problems);
    check_pytorch(context, ask, problems);
}

/// Checks the name of an image that is written as a URI.
pub(super) fn sagemaker_rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(ask) = &plan.job.image else { return };
    let Some(uri) = ask.uri.val() else { return };
    let Some(parsed) = images::parse_uri(&uri.value) else { return };
    let span = uri.span_or(ask.span);
    check_account(&parsed, span, &uri.value, context, problems);
    check_repository(&parsed, span, &uri.value, problems);
    check_toolkit(plan, &parsed, span, problems);
    if let Some(part) = images::purpose_in_name(&parsed) {
        let training = parsed.repository.replace("inference", "training");
        let diagnostic = Diagnostic::new(&T0588, span, format!("`{}` has images for {}", parsed.repository, part.says))
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

/// Reports an engine of PyTorch whose launcher the toolkit of another framework does not have.
fn check_framework(plan: &Plan, ask: &ImageRequest, problems: &mut Problems) {
    let Some(parallel) = &plan.job.parallel else { return };
    let (Some(engine), Some(bound)) = (parallel.engine.val(), plan.engine) else { return };
    let by_uri = || images::family_of(&images::parse_uri(ask.uri.value()?)?);
    let named = ask.family.value().filter(|family| images::other_families().contains(&family.as_str())).cloned();
    let Some(family) = named.or_else(by_uri) else { return };
    let is_tensorflow = matches!(family.as_str(), "tensorflow" | "mxnet");
    let is_started = match bound.front.launcher(parallel) {
        // Horovod, and what the toolkit of TensorFlow starts by itself.
        Launcher::Mpi | Launcher::Smddp | Launcher::SmpV1 | Launcher::SmpV2 => is_tensorflow,
        _ => bound.law.is_script(),
    };
    if is_started {
        return;
    }
    let mut diagnostic = Diagnostic::new(
        &T0592,
        engine.span_or(parallel.span),
        format!("engine `{}` starts PyTorch, but the image is for `{family}`", engine.value.as_str()),
    )
    .help(if is_tensorflow {
        "write `parallel engine=\"none\" launcher=\"multi-worker-mirrored\"` or `parallel \
            engine=\"ddp\" launcher=\"mpi\"`, or use an image of PyTorch"
    } else {
        "remove `parallel`, or use an image of PyTorch"
    })
    .note("the toolkit of the image ignores the launcher and starts the script once on each host");
    let at = ask.uri.span().or_else(|| ask.family.span());
    if let Some(at) = at {
        diagnostic = diagnostic.label(at, family);
    }
    problems.push(diagnostic);
}

/// Reports an image whose transformers is older than the model.
fn check_transformers(plan: &Plan, ask: &ImageRequest, problems: &mut Problems) {
    let Some(model) = &plan.model else { return };
    let in_tag = || {
        let tag = images::parse_uri(ask.uri.value()?)?.tag?;
        tag.split('-').find_map(|part| part.strip_prefix("transformers")).map(str::to_owned)
    };
    let resolved = plan.image.as_ref().and_then(|image| image.transformers.clone());
    // What the requirements leave.
    let required = plan.requirements.iter().find_map(|file| {
        let (package, at) = file.content.packages().find(|(package, _)| package.name == "transformers")?;
        Some((package, file.span(at)))
    });
    let pinned = required.and_then(|(package, at)| Some((package.exact()?, at)));
    // A range may install a newer one.
    let is_open = required.is_some() && pinned.is_none();
    let (version, span_of_pin) = match (pinned, resolved.or_else(in_tag)) {
        (Some((pinned, at)), _) => (pinned, Some(at)),
        (None, Some(version)) => (version, None),
        (None, None) => return,
    };
    let model_type = model.architecture.as_ref().map_or("", |architecture| architecture.container.unwrap_or(architecture.family).model_type());
    let Some(missing) = model_libraries::missing_model(model_type, &model.name, &version).filter(|_| !is_open) else { return };
    let span = span_of_pin.or_else(|| ask.transformers.span()).or_else(|| ask.uri.span()).unwrap_or(ask.span);
    problems.push(
        Diagnostic::new(&T0594, span, format!("transformers {version} cannot load `{}`", model.name))
            .help(format!("use an image with transformers {}, or install it with a `requirements.txt` in the \
                source", missing.needed()))
            .note(format!("`{}` requires transformers {}: {} ({})", missing.what, missing.needed(), missing.provenance.source, missing.provenance.date)),
    );
}

/// Reports options of the script, and of the plan, that the image's PyTorch does not have.
fn check_pytorch(context: &Context, ask: &ImageRequest, problems: &mut Problems) {
    let plan = context.plan;
    let in_tag = || {
        let uri = images::parse_uri(ask.uri.value()?)?;
        uri.repository.ends_with("pytorch-training").then_some(uri.tag?.split('-').next()?.to_owned())
    };
    let Some(version) = plan.image.as_ref().and_then(|image| image.pytorch.clone()).or_else(in_tag) else { return };
    let at = [&ask.version, &ask.pytorch, &ask.uri].iter().find_map(|field| field.span()).unwrap_or(ask.span);
    let mut check = |name: &str, word: &str, shown: String, span: Span| {
        let Some(row) = vocabulary::get(name) else { return };
        let Some(least) = row.pytorch.get(word) else { return };
        if images::version_key(&version) >= images::version_key(least) {
            return;
        }
        problems.push(
            Diagnostic::new(&T0594, span, format!("{shown} requires PyTorch {least}, but the image has \
                {version}"))
                .label(at, format!("PyTorch {version}"))
                .help(format!("remove it, or use an image with PyTorch {least} or newer"))
                .note(format!("{} ({})", row.provenance.source, row.provenance.date)),
        );
    };
    for literal in literals(context) {
        let value = literal.value.python().to_lowercase();
        // A list of words has the one that counts first.
        let word = literal.value.truth().map_or_else(|| value.split(' ').next().unwrap_or_default().to_owned(), |on| on.to_string());
        check(&literal.name, &word, format!("`{}`", literal.shown()), literal.span);
    }
    if let Some(compile) = plan.job.train.compile.val().filter(|compile| compile.value) {
        check("torch_compile", "true", "`compile`".to_owned(), compile.span_or(plan.job.span));
    }
}

/// Reports an image without the training toolkit for a job whose script the toolkit would start.
fn check_toolkit(plan: &Plan, parsed: &ImageUri, span: Span, problems: &mut Problems) {
    let is_script = plan.job.program.as_ref().is_some_and(|program| !program.entry.is_absent() && program.entrypoint.is_empty());
    let Some(part) = images::lack_in_name(parsed).filter(|_| is_script) else { return };
    problems.push(
        Diagnostic::new(&T0594, span, format!("`{}` says that the image lacks {}", part.word, part.says))
            .help("use an image of SageMaker, install `sagemaker-training` in yours, or start the \
                script with `entrypoint`")
            .note("SageMaker runs `train` in the container, which the toolkit provides; without it the \
                job fails to start"),
    );
}

/// Compares the processor in the name with that of every instance type.
fn check_processor(plan: &Plan, parsed: &ImageUri, span: Span, problems: &mut Problems) {
    let Some(NamePart { says: processor, word }) = images::processor_in_name(parsed) else { return };
    let processor = processor.as_str();
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

/// Reports a repository of AWS's registries that is nearly one of the Deep Learning Containers, and the tag
/// `latest`, which they do not have.
fn check_repository(parsed: &ImageUri, span: Span, uri: &str, problems: &mut Problems) {
    let known = images::repositories();
    let is_known = known.contains(&parsed.repository);
    if !images::is_registry_account(&parsed.account) || parsed.repository.contains("neuron") {
        return;
    }
    let near = text::nearest(&parsed.repository, known.iter().map(String::as_str)).filter(|_| !is_known);
    let diagnostic = match near {
        Some(near) => Diagnostic::new(&T0589, span, format!("AWS's registry has no repository `{}`: did you \
            mean `{near}`?", parsed.repository))
            .write(format!("\"{}\"", uri.replacen(&parsed.repository, near, 1))),
        None if is_known && parsed.tag.as_deref() == Some("latest") => {
            Diagnostic::new(&T0589, span, format!("`{}` has no tag `latest`: its tags begin with a version", parsed.repository))
                .help("write `image \"pytorch\" version=…`, which resolves the newest container of a version")
        }
        None => {
            // Another account of the region may hold the repository.
            let holders = images::accounts_of_repository(&parsed.repository, &parsed.region);
            let in_region = images::regions_of_account(&parsed.account).contains(&parsed.region);
            let Some(holder) = holders.first().filter(|_| in_region && !holders.contains(&parsed.account)) else { return };
            Diagnostic::new(&T0589, span, format!("account {} has no repository `{}`: it is in account \
                {holder}", parsed.account, parsed.repository))
                .write(format!("\"{}\"", uri.replacen(&parsed.account, holder, 1)))
        }
    };
    problems.push(diagnostic.severity(Severity::Warning).note("`trainc catalog images` lists the repositories of the \
        Deep Learning Containers"));
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
    // The container is pulled in the job's region: one correction for both the account and the region.
    let job_region = context.plan.job.region.val().filter(|region| region.value != parsed.region);
    if let Some(region) = job_region {
        diagnostic = diagnostic.label(region.span_or(context.plan.job.span), "the job's region");
    }
    let region = job_region.map_or(&parsed.region, |region| &region.value);
    if let Some(account) = images::account_for(&parsed.account, region) {
        let instead = uri.replacen(&parsed.account, &account, 1).replacen(&format!(".{}.", parsed.region), &format!(".{region}."), 1);
        diagnostic = diagnostic.write(format!("\"{instead}\""));
        if context.is_literal(span, uri) {
            diagnostic = diagnostic.fix(span, format!("\"{instead}\""));
        }
    }
    problems.push(diagnostic);
}
