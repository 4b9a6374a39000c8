//! Channels, content types and instance types of a built-in algorithm.

use crate::Context;
use trainc_catalog::algorithms::{self, Algorithm};
use trainc_catalog::images;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::job::Hyperparameter;
use trainc_ir::{Plan, Scalar};

declare_code!(
    T0600, "algorithm-input", Error,
    "a channel, a content type or an instance type that a built-in algorithm does not support"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0600];

/// Compares the job with what its algorithm reads.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    // With a program the image runs that instead.
    if plan.job.program.as_ref().is_some_and(|program| !program.entry.is_absent() || !program.entrypoint.is_empty()) {
        return;
    }
    let Some(family) = plan.image.as_ref().and_then(|image| images::family_of(&images::parse_uri(&image.uri)?)) else { return };
    let Some(algorithm) = algorithms::get(&family) else { return };
    let source = format!("{} ({})", algorithm.provenance.source, algorithm.provenance.date);
    check_channels(plan, &family, &algorithm, &source, problems);
    check_cluster(plan, &family, &algorithm, &source, problems);
    check_parameters(plan, &family, &algorithm, problems);
}

fn check_parameters(plan: &Plan, family: &str, algorithm: &Algorithm, problems: &mut Problems) {
    let program = plan.job.program.as_ref();
    let written = || program.into_iter().flat_map(|program| &program.hyperparameters);
    let is_set = |name: &String| written().any(|h| h.name == *name);
    // `request` may set any hyperparameter, and a tuning job the others.
    if plan.job.request.iter().any(|member| member.name == "HyperParameters") {
        return;
    }
    let at = program.map_or_else(|| image_span(plan), |program| program.span);
    let known = || algorithm.parameters.iter().chain(&algorithm.others).map(String::as_str);
    let mut misspelled = Vec::new();
    for h in written().filter(|h| !known().any(|name| name == h.name)) {
        let free = known().filter(|name| !is_set(&(*name).to_owned()));
        let renamed = algorithm.renamed.get(&h.name).map(String::as_str);
        if let Some(near) = renamed.or_else(|| text::nearest(&h.name, free)) {
            misspelled.push(near);
            // The lists of further hyperparameters may lack some; a required one that is missing stops the
            // container for sure.
            let is_missing = algorithm.parameters.iter().any(|name| name == near && !is_set(name));
            let message = if is_missing {
                format!("`{family}` requires hyperparameter `{near}`, and has no `{}`", h.name)
            } else {
                format!("`{family}` has no hyperparameter `{}`: did you mean `{near}`?", h.name)
            };
            problems.push(
                Diagnostic::new(&T0600, h.name_span, message)
                    .severity(if is_missing { Severity::Error } else { Severity::Warning })
                    .write(format!("hyperparameter \"{near}\""))
                    .subject(h.value.span().unwrap_or(h.name_span))
                    .note("the container stops with \"Extraneous hyperparameter found\" or \
                        \"Additional hyperparameters are not allowed\""),
            );
        }
    }
    let missing: Vec<&String> =
        algorithm.parameters.iter().filter(|name| !is_set(name) && !misspelled.contains(&name.as_str())).collect();
    if let Some(first) = missing.first() {
        problems.push(
            Diagnostic::new(&T0600, at, format!("`{family}` requires {} {}", if missing.len() == 1 { "hyperparameter" } else { "hyperparameters" }, text::backtick_list(&missing, "and")))
                .help(format!("add `hyperparameter \"{first}\" …` to `program`"))
                .note("the container stops with \"Missing required parameters\" otherwise"),
        );
    }
    for h in written() {
        let Some(values) = algorithm.values.get(&h.name) else { continue };
        let Some(value) = h.value.value().map(Scalar::python) else { continue };
        if !values.contains(&value) {
            let near = text::nearest(&value, values.iter().map(String::as_str));
            let diagnostic = Diagnostic::new(&T0600, h.value.span().unwrap_or(h.name_span), format!("`{}` of `{family}` has no \
                value `{value}`", h.name))
                .severity(Severity::Warning)
                .note(algorithm.extra.clone());
            problems.push(match near {
                Some(near) => diagnostic.did_you_mean(format!("\"{near}\"")),
                None => diagnostic.help(format!("write {}", text::backtick_list(values, "or"))),
            });
        }
    }
    for h in written() {
        let Some(range) = algorithm.ranges.get(&h.name) else { continue };
        let Some(value) = h.value.value().map(Scalar::python) else { continue };
        let &[least, ref most @ ..] = range.as_slice() else { continue };
        let is_in = value.trim().parse::<f64>().is_ok_and(|number| number >= least && most.iter().all(|most| number <= *most));
        if !is_in {
            let expected = match most.first() {
                Some(most) => format!("a number from {least} to {most}"),
                None => format!("a number of at least {least}"),
            };
            problems.push(
                Diagnostic::new(&T0600, h.value.span().unwrap_or(h.name_span), format!("`{}` of `{family}` is \
                    {expected}, not `{value}`", h.name))
                    .severity(Severity::Warning)
                    .note("the container rejects a value outside the range before it trains")
                    .note(algorithm.extra.clone()),
            );
        }
    }
    for h in written() {
        let (Some(value), span) = (value_of(h), h.value.span().unwrap_or(h.name_span)) else { continue };
        let Some(needed) = algorithm.needed_by.get(&format!("{}={value}", h.name)).filter(|needed| !is_set(needed)) else { continue };
        problems.push(
            Diagnostic::new(&T0600, span, format!("`{} {value}` of `{family}` requires hyperparameter \
                `{needed}`", h.name))
                .help(format!("add `hyperparameter \"{needed}\" …` to `program`"))
                .note(algorithm.extra.clone()),
        );
    }
}

/// Returns a hyperparameter's value as the algorithm reads it.
fn value_of(h: &Hyperparameter) -> Option<String> {
    h.value.value().map(|value| value.python().to_lowercase())
}

/// Returns the hyperparameter that is one of the pairs `name=value`.
fn find_pair<'a>(plan: &'a Plan, pairs: &[String]) -> Option<&'a Hyperparameter> {
    let mut written = plan.job.program.iter().flat_map(|program| &program.hyperparameters);
    written.find(|h| value_of(h).is_some_and(|value| pairs.contains(&format!("{}={value}", h.name))))
}

fn image_span(plan: &Plan) -> Span {
    plan.job.image.as_ref().map_or(plan.job.span, |image| {
        image.uri.span().or_else(|| image.family.span()).unwrap_or(image.span)
    })
}

/// Channels of data. Others have formats of their own, e.g. the vocabulary of object2vec in `auxiliary`,
/// which is JSON (example notebook of object2vec in aws/amazon-sagemaker-examples, read 2026-11-26).
const DATA_CHANNELS: [&str; 3] = ["train", "validation", "test"];

fn check_channels(plan: &Plan, family: &str, algorithm: &Algorithm, source: &str, problems: &mut Problems) {
    let known: Vec<&str> = algorithm.required.iter().chain(&algorithm.optional).map(String::as_str).collect();
    let mut names = Vec::new();
    let mut has_unknown = false;
    for channel in &plan.job.channels {
        let Some(name) = channel.name.val() else { return };
        names.push(name.value.as_str());
        let span = name.span_or(channel.span);
        if !known.contains(&name.value.as_str()) {
            has_unknown = true;
            let diagnostic = Diagnostic::new(&T0600, span, format!("`{family}` has no channel `{}`; \
                expected {}", name.value, text::backtick_list(&known, "or")))
                .note(source.to_owned());
            let is_used = |other: &&str| plan.job.channels.iter().any(|channel| channel.name.value().is_some_and(|name| name == other));
            let free = || known.iter().copied().filter(|name| !is_used(name));
            let near = text::nearest(&name.value, free()).or_else(|| free().next()).unwrap_or("train");
            problems.push(diagnostic.write(format!("channel \"{near}\"")));
        }
        if let Some(content) = channel.content_type.val().filter(|_| DATA_CHANNELS.contains(&name.value.as_str())) {
            let plain = content.value.split(';').next().unwrap_or_default().trim().to_lowercase();
            if !algorithm.content_types.is_empty() && !algorithm.content_types.contains(&plain) {
                problems.push(
                    Diagnostic::new(
                        &T0600,
                        content.span_or(span),
                        format!("`{family}` does not read `{}`; expected {}", content.value, text::backtick_list(&algorithm.content_types, "or")),
                    )
                    .help(format!("convert the data, or write their type, such as `content-type=\"{}\"`", algorithm.content_types.first().map_or("", String::as_str)))
                    .note(source.to_owned()),
                );
            }
        }
    }
    if has_unknown {
        return;
    }
    let missing: Vec<&String> = algorithm.required.iter().filter(|required| !names.contains(&required.as_str())).collect();
    if let Some(first) = missing.first() {
        let at = image_span(plan);
        problems.push(
            Diagnostic::new(&T0600, at, format!("`{family}` requires {} {}", if missing.len() == 1 { "channel" } else { "channels" }, text::backtick_list(&missing, "and")))
                .help(format!("add `channel \"{first}\" s3=\"s3://BUCKET/PREFIX/\"`"))
                .note(source.to_owned()),
        );
    }
}

fn check_cluster(plan: &Plan, family: &str, algorithm: &Algorithm, source: &str, problems: &mut Problems) {
    let Some(cluster) = &plan.job.cluster else { return };
    if let Some(instance) = cluster.instance.val()
        && let Some(found) = images::processor_of_instance(&instance.value)
        && !algorithm.processors.iter().any(|processor| processor == found)
    {
        let nouns: Vec<&str> = algorithm.processors.iter().map(|processor| images::processor_noun(processor)).collect();
        // An accelerator that stays idle is paid for; one that is missing ends the job.
        let severity = if found == "cpu" { Severity::Error } else { Severity::Warning };
        problems.push(
            Diagnostic::new(
                &T0600,
                instance.span_or(cluster.span),
                format!("`{family}` runs on {}, but `{}` has {}", text::list(&nouns, "or"), instance.value, images::processor_noun(found)),
            )
            .severity(severity)
            .help(if found == "cpu" { "use an instance type with a GPU, such as `ml.g4dn.xlarge`" } else { "use an instance type without \
                accelerators, such as `ml.m5.2xlarge`" })
            .note(source.to_owned()),
        );
    }
    check_gpu_values(plan, family, algorithm, problems);
    let is_single = match &algorithm.several_by {
        Some(pair) => find_pair(plan, std::slice::from_ref(pair)).is_none(),
        None => algorithm.is_single,
    };
    if let Some(nodes) = cluster.nodes.val().filter(|nodes| is_single && nodes.value > 1) {
        let diagnostic = Diagnostic::new(&T0600, nodes.span_or(cluster.span), format!("`{family}` trains on one \
            instance, but the cluster has {}", nodes.value));
        problems.push(match algorithm.several_by.as_ref().and_then(|pair| pair.split_once('=')) {
            Some((name, value)) => diagnostic.write("nodes=1").or(format!("hyperparameter \"{name}\" \"{value}\"")).note(algorithm.extra.clone()),
            None => diagnostic.write("nodes=1").note(source.to_owned()),
        });
    }
}

/// Reports values that require a GPU on an instance type without one, and a GPU that no value makes the
/// algorithm use.
fn check_gpu_values(plan: &Plan, family: &str, algorithm: &Algorithm, problems: &mut Problems) {
    let Some(cluster) = &plan.job.cluster else { return };
    let Some(instance) = cluster.instance.val() else { return };
    let found = images::processor_of_instance(&instance.value);
    if let Some(h) = find_pair(plan, &algorithm.gpu_values).filter(|_| found == Some("cpu")) {
        let value = value_of(h).unwrap_or_default();
        problems.push(
            Diagnostic::new(&T0600, h.value.span().unwrap_or(h.name_span), format!("`{} {value}` of `{family}` \
                requires a GPU, but `{}` has none", h.name, instance.value))
                .label(instance.span_or(cluster.span), "no GPU")
                .help("remove it, or use an instance type with a GPU, such as `ml.g4dn.xlarge`")
                .note(algorithm.extra.clone()),
        );
    }
    if found == Some("gpu") && !algorithm.gpu_by.is_empty() && find_pair(plan, &algorithm.gpu_by).is_none() {
        let (name, value) = algorithm.gpu_by.first().and_then(|pair| pair.split_once('=')).unwrap_or_default();
        problems.push(
            Diagnostic::new(&T0600, instance.span_or(cluster.span), format!("`{family}` trains on the CPUs \
                of `{}`: no hyperparameter selects its GPU", instance.value))
                .severity(Severity::Warning)
                .add(format!("hyperparameter \"{name}\" \"{value}\"")).or_else("use an instance type without \
                    accelerators")
                .note(algorithm.extra.clone()),
        );
    }
}
