//! Downloads of the program from the internet, from subnets that may have no way to it.

use crate::Context;
use crate::queries::hub;
use crate::queries::script_values::{argument, text_of};
use trainc_catalog::{integrations, models, network_calls};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Plan, Program, ScriptModule};
use trainc_python::{Call, Expr};

declare_code!(
    T0833,
    "download-in-vpc",
    Note,
    "a program that downloads from the internet in a VPC that may have no internet access",
    explains: [Program]
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0833];

/// The keyword with which the libraries of Hugging Face download nothing.
const LOCAL_ONLY: &str = "local_files_only";

/// What a program downloads.
struct Download {
    what: String,
    /// The place of the name in the manifest.
    in_manifest: Option<Span>,
    /// The place of the call in the program.
    in_script: Option<Span>,
    is_hub: bool,
}

/// Checks jobs in subnets. Calls that network isolation blocks are reported elsewhere: T0471.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(network), Some(program)) = (&plan.job.network, &plan.job.program) else { return };
    if network.subnets.is_empty() || network.isolation.get() == Some(true) || plan.is_worker() {
        return;
    }
    let found = downloads(plan, program);
    let mut names: Vec<String> = Vec::new();
    for one in &found {
        if !names.contains(&one.what) {
            names.push(one.what.clone());
        }
    }
    if names.is_empty() {
        return;
    }
    let mut diagnostic = Diagnostic::new(
        &T0833,
        network.span,
        format!(
            "the program connects to the internet for {}, but these subnets may have no internet access",
            text::list(&names, "and")
        ),
    );
    let mut labelled: Vec<Span> = Vec::new();
    for span in found.iter().flat_map(|one| [one.in_manifest, one.in_script]).flatten() {
        if !labelled.contains(&span) {
            labelled.push(span);
            diagnostic = diagnostic.label(span, "connects to the internet");
        }
    }
    let help = "add a NAT gateway to the subnets' route table";
    problems.push(
        if found.iter().any(|one| one.is_hub) {
            diagnostic.help(format!(
                "{help}, or write `channel \"model\" s3=\"s3://…/\"` with a copy and pass \
                    `/opt/ml/input/data/model`"
            ))
        } else {
            diagnostic.help(help)
        }
        .note("containers in a VPC have no internet access by default: the call fails, or waits and fails, \
            after billing has started (philschmid/huggingface-sagemaker-workshop-series#15)"),
    );
}

fn downloads(plan: &Plan, program: &Program) -> Vec<Download> {
    let is_local = hub::is_local(program, plan.script.as_deref());
    let Some(script) = &plan.script else {
        // The program is not read: what it is told to load.
        let told =
            program.hyperparameters.iter().filter(|_| !is_local).filter_map(|h| Some((h, hub::hub_id(h)?)));
        let of = |(h, id): (&trainc_ir::job::Hyperparameter, &str)| Download {
            what: format!("`{id}`"),
            in_manifest: Some(h.value.span().unwrap_or(h.name_span)),
            in_script: None,
            is_hub: true,
        };
        return told.map(of).collect();
    };
    let calls =
        script.modules.iter().flat_map(|module| module.module.calls.iter().map(move |call| (module, call)));
    calls
        .filter_map(|(module, call)| download(plan, program, module, call))
        .filter(|one| !(one.is_hub && is_local))
        .collect()
}

/// Returns what a call downloads, if that is known.
fn download(plan: &Plan, program: &Program, module: &ScriptModule, call: &Call) -> Option<Download> {
    let row = network_calls::get(call.function(), &module.module.full_name(&call.name))?;
    let in_script = Some(module.span(&call.at));
    if let Some(service) = row.service.as_deref().and_then(integrations::get) {
        let is_off = program.environment.iter().any(|pair| {
            pair.key == service.switch
                && pair.value.value().is_none_or(|value| service.off.contains(&value.to_lowercase()))
        });
        let is_local = call
            .keyword("mode")
            .is_some_and(|mode| !matches!(&mode.value, Expr::Text(word) if word == "online"));
        return (!is_off && !is_local).then_some(Download {
            what: service.name.clone(),
            in_manifest: None,
            in_script,
            is_hub: false,
        });
    }
    if call.keyword(LOCAL_ONLY).is_some_and(|only| only.value != Expr::Bool(false)) {
        return None;
    }
    let found = text_of(plan, module, &argument(call, &row.argument, row.position)?.value)?;
    let is_usual = found.text.contains('/') || row.is_alone || models::find(&found.text).is_some();
    let is_name = hub::is_hub_name(&found.text) && is_usual && !row.local.contains(&found.text);
    // A directory of the source, in which the program starts.
    let prefix = format!("{}/", found.text);
    let is_directory =
        plan.source.iter().flat_map(|tree| &tree.files).any(|file| file.path.starts_with(&prefix));
    (is_name && !is_directory && !is_written(plan, &found.text)).then(|| Download {
        what: format!("`{}`", found.text),
        in_manifest: found.span,
        in_script,
        is_hub: true,
    })
}

/// Returns whether the program writes to a directory of this name.
fn is_written(plan: &Plan, name: &str) -> bool {
    let modules = plan.script.iter().flat_map(|script| &script.modules);
    let mut calls = modules.flat_map(|module| module.module.calls.iter().map(move |call| (module, call)));
    calls.any(|(module, call)| {
        let saves = call.function().contains("save");
        let mut written = call.arguments.iter().filter(|one| {
            one.keyword
                .as_deref()
                .map_or(saves, |keyword| keyword.contains("output") || keyword.contains("save"))
        });
        written.any(|one| text_of(plan, module, &one.value).is_some_and(|known| known.text == name))
    })
}
