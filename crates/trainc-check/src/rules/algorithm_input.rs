//! Channels, content types and instance types of a built-in algorithm.

use crate::Context;
use trainc_catalog::algorithms::{self, Algorithm};
use trainc_catalog::images;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_ir::Plan;

declare_code!(T0600, "algorithm-input", Error, "a channel, a content type or an instance type that a built-in algorithm does not support");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0600];

/// Compares the job with what its algorithm reads.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    // With a program the image runs that instead.
    if !plan.deployable || plan.job.program.as_ref().is_some_and(|program| !program.entry.is_absent() || !program.entrypoint.is_empty()) {
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
    let is_set = |name: &String| program.is_some_and(|program| program.hyperparameters.iter().any(|h| h.name == *name));
    // `request` may set any hyperparameter, and a tuning job the others.
    if plan.job.request.iter().any(|member| member.name == "HyperParameters") {
        return;
    }
    let missing: Vec<&String> = algorithm.parameters.iter().filter(|name| !is_set(name)).collect();
    let Some(first) = missing.first() else { return };
    let at = program.map_or_else(|| image_span(plan), |program| program.span);
    problems.push(
        Diagnostic::new(&T0600, at, format!("`{family}` requires {} {}", if missing.len() == 1 { "hyperparameter" } else { "hyperparameters" }, text::backtick_list(&missing, "and")))
            .help(format!("add `hyperparameter \"{first}\" …` to `program`"))
            .note("the container stops with \"Missing required parameters\" otherwise"),
    );
}

fn image_span(plan: &Plan) -> Span {
    plan.job.image.as_ref().map_or(plan.job.span, |image| {
        image.uri.span().or_else(|| image.family.span()).unwrap_or(image.span)
    })
}

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
            let diagnostic = Diagnostic::new(&T0600, span, format!("`{family}` has no channel `{}`; expected {}", name.value, text::backtick_list(&known, "or")))
                .note(source.to_owned());
            let near = text::nearest(&name.value, known.iter().copied()).unwrap_or("train");
            problems.push(diagnostic.help(format!("write `channel \"{near}\"`")));
        }
        if let Some(content) = channel.content_type.val() {
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
            .help(if found == "cpu" { "use an instance type with a GPU, such as `ml.g4dn.xlarge`" } else { "use an instance type without accelerators, such as `ml.m5.2xlarge`" })
            .note(source.to_owned()),
        );
    }
    if let Some(nodes) = cluster.nodes.val().filter(|nodes| algorithm.is_single && nodes.value > 1) {
        problems.push(
            Diagnostic::new(&T0600, nodes.span_or(cluster.span), format!("`{family}` trains on one instance, but the cluster has {}", nodes.value))
                .help("write `nodes=1`")
                .note(source.to_owned()),
        );
    }
}
