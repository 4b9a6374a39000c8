//! Services and models that the program can use only with a key that it does not get.

use crate::Context;
use crate::queries::disk::COPIES;
use trainc_catalog::integrations::{self, HUB, Integration};
use trainc_catalog::models;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Hyperparameter, Plan, Program, Scalar};

declare_code!(
    T0598, "missing-key", Warning,
    "a service or a model that requires a key, which the program does not get"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0598];

/// The option of Hugging Face's Trainer that selects services.
const REPORT_TO: &str = "report_to";

/// Checks the model, then each service of the table.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(program) = &plan.job.program else { return };
    // A container's own start may set any variable, and the worker downloads nothing.
    if plan.is_worker() || !program.entrypoint.is_empty() {
        return;
    }
    // Another rule reports calls that network isolation blocks.
    if plan.job.network.as_ref().is_some_and(|network| network.isolation.get() == Some(true)) {
        return;
    }
    check_model(plan, program, problems);
    let options = options(program);
    for service in integrations::all() {
        check_address(program, service, problems);
        if let Some((what, span)) = sign(program, &options, service)
            && !has_key(program, service)
        {
            problems.push(missing(&format!("{what} uses {}", service.name), span, service));
        }
    }
}

/// Reports a gated model that the program downloads.
fn check_model(plan: &Plan, program: &Program, problems: &mut Problems) {
    let Some(model) = &plan.job.model else { return };
    let Some(hub) = integrations::get(HUB) else { return };
    if has_key(program, hub) || plan.engine.is_some_and(|engine| !engine.front.loads_from_hub) {
        return;
    }
    let (name, span) = match model.name.val() {
        Some(name) => (name.value.clone(), name.span_or(model.span)),
        None => return,
    };
    let Some(row) = models::find(&name).filter(|row| row.gated) else { return };
    // A channel or a path may have a copy of its weights and its tokenizer.
    let mut channels = plan.job.channels.iter().filter_map(|channel| channel.name.value());
    let is_copied = channels.any(|name| COPIES.iter().any(|word| name.contains(word)));
    let is_local = texts(program).any(|(name, text, _)| name.contains("model") && text.starts_with('/') && !text.starts_with("/opt/ml/model"));
    if !is_copied && !is_local {
        problems.push(
            missing(&format!("`{}` is gated: the Hub delivers its files", row.name), span, hub)
                .note(format!("its licence has to be accepted on the Hub ({}, {})", row.source, row.date)),
        );
    }
}

/// Reports the address of a service that is the container's own.
fn check_address(program: &Program, service: &Integration, problems: &mut Problems) {
    for pair in program.environment.iter().filter(|pair| service.addresses.contains(&pair.key)) {
        let Some(val) = pair.value.val() else { continue };
        if ["localhost", "127.0.0.1", "0.0.0.0"].iter().any(|host| val.value.contains(host)) {
            problems.push(
                Diagnostic::new(&T0598, val.span_or(pair.key_span), format!("`{}` is the container itself, \
                    where {} does not run", val.value, service.name))
                    .help(format!("write an address that the container reaches, or remove `{}`", pair.key))
                    .note("each host of a training job is a machine of its own"),
            );
        }
    }
}

fn missing(what: &str, span: Span, service: &Integration) -> Diagnostic {
    let key = service.keys.first().map_or("", String::as_str);
    let needs = service.needs.as_deref().unwrap_or("a key");
    let help = service.help.clone().unwrap_or_else(|| format!("secret \"{key}\" \
        from=\"arn:aws:secretsmanager:…\""));
    Diagnostic::new(&T0598, span, format!("{what} only with {needs}, and the program gets none"))
        .add_to("program", help)
        .note(format!("{} ({})", service.provenance.source, service.provenance.date))
        .note(format!("accepted: {}", text::backtick_list(&service.keys, "or")))
}

/// An option that the program gets.
struct GivenOption<'a> {
    /// Its name as written.
    written: &'a str,
    /// Its name with `_` for `-`.
    name: String,
    /// Its value in lowercase.
    text: String,
    /// Whether it says no.
    is_off: bool,
    span: Span,
}

/// Returns the options that the program gets.
fn options<'a>(program: &'a Program) -> Vec<GivenOption<'a>> {
    let option = |h: &'a Hyperparameter| {
        let val = h.value.val()?;
        Some(GivenOption {
            written: &h.name,
            name: h.name.replace('-', "_"),
            text: val.value.python().to_lowercase(),
            is_off: val.value.truth() == Some(false),
            span: val.span_or(h.name_span),
        })
    };
    program.hyperparameters.iter().filter_map(option).collect()
}

/// Returns what says that the program uses a service, with its place.
fn sign(program: &Program, options: &[GivenOption], service: &Integration) -> Option<(String, Span)> {
    let is_off = program.environment.iter().any(|pair| {
        pair.key == service.switch
            && pair.value.value().is_some_and(|value| service.off.contains(&value.to_lowercase()))
    });
    if is_off {
        return None;
    }
    for GivenOption { written, name, text, is_off, span } in options {
        if name == REPORT_TO && text.split([',', ' ', '"', '\'', '[', ']']).any(|word| service.report_to.iter().any(|to| to == word)) {
            return Some((format!("`{REPORT_TO} {text}`"), *span));
        }
        if !is_off && !text.is_empty() && service.options.contains(name) {
            return Some((format!("`{written}`"), *span));
        }
    }
    program.environment.iter().find(|pair| service.variables.contains(&pair.key)).map(|pair| {
        (format!("`{}`", pair.key), pair.value.span().unwrap_or(pair.key_span))
    })
}

/// Returns whether the program gets one of the keys, or an argument that may be one.
fn has_key(program: &Program, service: &Integration) -> bool {
    let is_key = |name: &str| service.keys.iter().any(|key| key == name);
    let is_argument = |name: &str| {
        let name = name.to_lowercase().replace('-', "_");
        ["token", "api_key"].iter().any(|end| name.ends_with(end)) || name.contains("tracking")
    };
    program.secrets.iter().any(|secret| is_key(&secret.name))
        || program.environment.iter().any(|pair| is_key(&pair.key) || pair.key.ends_with("SECRET_ARN") || pair.key.ends_with("SECRET_NAME"))
        || program.hyperparameters.iter().any(|h| is_argument(&h.name))
}

/// Returns the texts that reach the program.
fn texts(program: &Program) -> impl Iterator<Item = (&str, &str, Span)> {
    let parameters = program.hyperparameters.iter().filter_map(|h| match h.value.val() {
        Some(val) => match &val.value {
            Scalar::Text(text) => Some((h.name.as_str(), text.as_str(), val.span_or(h.name_span))),
            _ => None,
        },
        None => None,
    });
    parameters.chain(program.environment.iter().filter_map(|pair| {
        let val = pair.value.val()?;
        Some((pair.key.as_str(), val.value.as_str(), val.span_or(pair.key_span)))
    }))
}
