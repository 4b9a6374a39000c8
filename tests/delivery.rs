//! Edits of settings that decide memory, time, cost or what is trained: each changes the request, or the
//! setting is named as assumed of the program.

use crate::support::{compile_in, files, options, read};
use trainc_ir::{Carrier, Plan, Scalar};

/// A job to edit: its name, its text, and the flags.
fn jobs() -> Vec<(String, String)> {
    let mut paths = files("examples", &["trainc.kdl"]);
    paths.extend(files("tests/requests", &[".kdl"]));
    paths.into_iter().map(|path| (path.clone(), read(&path))).collect()
}

/// Other values of a setting, to be written with `--set`.
fn others(setting: &str, value: &Scalar) -> Vec<String> {
    let words: &[&str] = match setting {
        "model" => &["Qwen/Qwen2.5-0.5B", "meta-llama/Llama-3.1-8B"],
        "train.precision" => &["fp32", "bf16", "fp16"],
        "train.optimizer" => &["sgd", "adafactor", "adamw"],
        "train.optimizer.schedule" => &["linear", "cosine", "constant"],
        "train.optimizer.betas" => &["0.8,0.9"],
        "train.attention" => &["sdpa", "fa2"],
        "train.loss" => &["chunked", "whole"],
        "train.optimizer.states" | "train.precision.gradients" => &["fp32", "bf16"],
        "adapter.targets" => &["q_proj", "q_proj,v_proj"],
        "quantize" => &["nf4", "int8"],
        "quantize.compute" => &["bf16", "fp16"],
        _ => &[],
    };
    let mut out: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match value {
        Scalar::Int(n) => out.extend([(n * 2).to_string(), (n + 1).to_string(), (n / 2).max(1).to_string()]),
        Scalar::Float(x) => out.extend([(x * 0.5).to_string(), (x * 0.9).to_string()]),
        Scalar::Bool(on) => out.push(format!("#{}", !on)),
        Scalar::Text(_) | Scalar::Null => {}
    }
    out.retain(|other| other.trim_matches('"') != value.python());
    out
}

fn plan_of(path: &str, text: &str, flags: &str) -> Option<Box<Plan>> {
    let outcome = compile_in(crate::support::Memory::default(), path, text, &options(flags));
    outcome.compiled.plan.filter(|_| outcome.compiled.problems.errors() == 0)
}

#[test]
fn an_edit_changes_the_request_or_is_named() {
    let mut edits = 0;
    let mut faults = Vec::new();
    let mut by = Vec::new();
    for (path, text) in jobs() {
        let Some(plan) = plan_of(&path, &text, "") else { continue };
        let digest = trainc_emit::identity(&plan).digest;
        let passed = plan.delivery.passed.iter().map(|one| (&one.setting, &one.value, Some(one.by)));
        let assumed = plan.delivery.assumed.iter().map(|one| (&one.setting, &one.value, None));
        for (setting, value, carrier) in passed.chain(assumed) {
            // A value of a file is edited in the file.
            if carrier == Some(Carrier::File) && !plan.is_worker() && plan.written_file().is_none() {
                continue;
            }
            by.push(carrier);
            for other in others(setting, value) {
                let Some(new) = plan_of(&path, &text, &format!("--set {setting}={other}")) else { continue };
                // The program may have another word for the same value.
                let path = match setting.as_str() {
                    "model" => "model.name".to_owned(),
                    "adapter" | "quantize" => format!("{setting}.kind"),
                    setting => setting.replace("optimizer.", "").replace('-', "_"),
                };
                let planned = |plan: &Plan| trainc_plan::bind::placeholder_value(plan, &path);
                if planned(&plan).is_some() && planned(&new) == planned(&plan) {
                    continue;
                }
                edits += 1;
                let is_named = new.delivery.assumed.iter().any(|one| one.setting == *setting);
                if trainc_emit::identity(&new).digest == digest && !is_named {
                    faults.push(format!(
                        "{path}: {setting}={other}: the same request, and not named ({carrier:?})"
                    ));
                }
                break;
            }
        }
    }
    assert!(faults.is_empty(), "{} of {edits}:\n{}", faults.len(), faults.join("\n"));
    assert!(edits > 150, "{edits} edits");
    for carrier in [Some(Carrier::Placeholder), Some(Carrier::Literal), None] {
        assert!(by.iter().filter(|one| **one == carrier).count() > 5, "{carrier:?} of {by:?}");
    }
}
