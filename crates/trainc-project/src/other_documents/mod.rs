//! What a file is that is neither a manifest nor has a training job: a script, a configuration of another
//! program. `check` and `import` name it alike.

mod reading;

pub use reading::{Read, decode, is_bracketed, read};

use serde_json::Value;
use std::path::Path;
use trainc_catalog::other_documents::{self, Sign};
use trainc_diag::source::{SourceId, Span};
use trainc_diag::{Diagnostic, Problems};
use trainc_ir::job::SERVERLESS;
use trainc_plan::resolve::T0207;

/// Maximum depth of a document that is searched.
pub const MOST_NESTED: usize = 32;

/// Members of which every training job has one.
pub const JOB_MEMBERS: [&str; 2] = ["AlgorithmSpecification", SERVERLESS];

/// Returns the problem of a file that was given as a manifest, is named as another kind of file and is one.
pub fn detect_other_text(source: SourceId, name: &str, text: &str) -> Option<Diagnostic> {
    let end = Path::new(name).extension()?.to_str()?;
    let has_job = || {
        let file = trainc_syntax::parse(source, text, &mut Problems::default());
        file.is_some_and(|file| file.job.is_some())
    };
    if end == "kdl" || has_job() {
        return None;
    }
    let (is, help) = identify(name, end, text)?;
    Some(is_other(source, is, help))
}

/// Returns the problem of bytes that are no text, if their format is known.
pub fn detect_other_bytes(source: SourceId, bytes: &[u8]) -> Option<Diagnostic> {
    describe_bytes(bytes).map(|(is, help)| is_other(source, is, help.to_owned()))
}

fn is_other(source: SourceId, is: &str, help: String) -> Diagnostic {
    Diagnostic::new(&T0207, Span::whole(source), format!("no `job` in this file: it is {is}")).help(help)
}

/// Returns what a text is, and how to get a manifest from it.
fn identify(name: &str, end: &str, text: &str) -> Option<(&'static str, String)> {
    let fixed = |(is, help): (&'static str, &'static str)| (is, help.to_owned());
    let file = trainc_emit::quote(name);
    if end == "py" {
        let program = Path::new(name).file_name().map_or_else(String::new, |name| name.display().to_string());
        return describe_script(text).map(fixed).or_else(|| {
            let help = format!(
                "`trainc import {file}` converts a script that starts training jobs; to train with this one, \
                write `program \"{program}\" source=\"…\"` in a manifest"
            );
            Some(("a Python script", help))
        });
    }
    let Ok(Read { value, .. }) = read(text) else { return describe_text(name, text).map(fixed) };
    if JOB_MEMBERS.iter().any(|member| has_member(&value, member, "", 0)) {
        return Some(("a request of SageMaker", format!("`trainc import {file}` converts it to a manifest")));
    }
    let other_text = || describe_text(name, text).filter(|_| !is_bracketed(text));
    let yaml = ("YAML, and a manifest is KDL", "`trainc init` writes a manifest to start from");
    let described = describe(&value).or_else(other_text);
    described.or_else(|| matches!(end, "yaml" | "yml").then_some(yaml)).map(fixed)
}

/// Returns the description of the first kind of file that matches, and what to do.
fn find(matches: impl Fn(Sign, &str) -> bool) -> Option<(&'static str, &'static str)> {
    let found = other_documents::all().iter().find(|one| matches(one.how, &one.sign))?;
    Some((&found.is, &found.help))
}

/// Describes a file that is no text by its first bytes, and what to do instead.
pub fn describe_bytes(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    let byte = |sign: &str, at: usize| {
        sign.get(2 * at..2 * at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok())
    };
    let starts = |sign: &str| (0..sign.len() / 2).all(|at| byte(sign, at) == bytes.get(at).copied());
    find(|how, sign| how == Sign::Bytes && starts(sign))
}

/// Describes a text that is neither JSON nor YAML by its lines and its name, and what to do instead.
pub fn describe_text(name: &str, text: &str) -> Option<(&'static str, &'static str)> {
    let lines = || text.lines().map(str::trim_start);
    let starts = |line: &str, sign: &str| {
        line.get(..sign.len())
            .is_some_and(|start| start == sign || (sign.starts_with('<') && start.eq_ignore_ascii_case(sign)))
    };
    find(|how, sign| match how {
        Sign::Line => lines().any(|line| starts(line, sign)),
        Sign::Start => text.trim_start_matches('\u{feff}').trim_start().starts_with(sign),
        Sign::Text => text.contains(sign),
        Sign::Name => name.ends_with(sign),
        Sign::Bytes | Sign::Top | Sign::Member | Sign::Script => false,
    })
}

/// Describes a Python script that starts no training job itself, and what to do instead.
pub fn describe_script(text: &str) -> Option<(&'static str, &'static str)> {
    find(|how, sign| how == Sign::Script && text.contains(sign))
}

/// Describes a document without a training job, and what to do instead.
pub fn describe(document: &Value) -> Option<(&'static str, &'static str)> {
    let first = document.as_array().and_then(|items| items.first()).unwrap_or(document);
    find(|how, sign| {
        let depth = match how {
            Sign::Top => MOST_NESTED,
            Sign::Member => 0,
            _ => return false,
        };
        sign.split('+').all(|sign| {
            let (name, value) = sign.split_once('=').unwrap_or((sign, ""));
            has_member(if depth == 0 { document } else { first }, name, value, depth)
        })
    })
}

/// Says what a document is by its form.
pub fn form(document: &Value) -> String {
    match document {
        Value::Object(members) if members.is_empty() => "an empty object".to_owned(),
        Value::Object(members) => {
            const SHOWN: usize = 3;
            let names: Vec<String> = members.keys().take(SHOWN).map(|name| format!("`{name}`")).collect();
            let more = if members.len() > SHOWN { " and other members" } else { "" };
            format!("an object with {}{more}", names.join(", "))
        }
        Value::Array(items) => {
            format!("an array of {}", trainc_diag::text::count(items.len() as u64, "value"))
        }
        Value::String(_) => "one text".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) => format!("`{document}`"),
    }
}

/// Returns whether an object has a member, with the beginning of its value; at `MOST_NESTED` inner objects do
/// not count.
fn has_member(value: &Value, name: &str, start: &str, depth: usize) -> bool {
    match value {
        _ if depth > MOST_NESTED => false,
        Value::Object(members) => {
            let is_it = |(key, value): (&String, &Value)| {
                let has_start =
                    start.is_empty() || value.as_str().is_some_and(|text| text.starts_with(start));
                has_start && key.eq_ignore_ascii_case(name)
            };
            members.iter().any(is_it)
                || members.values().any(|inner| has_member(inner, name, start, depth + 1))
        }
        Value::Array(items) => items.iter().any(|inner| has_member(inner, name, start, depth + 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, text: &str) -> Option<String> {
        detect_other_text(SourceId::default(), name, text).map(|one| one.message)
    }

    #[test]
    fn files_of_other_kinds_are_named() {
        for (name, text, is) in [
            (
                "job.tf",
                "resource \"aws_sagemaker_training_job\" \"a\" {\n}\n",
                "a Terraform configuration with",
            ),
            ("a.yaml", "AlgorithmSpecification:\n  TrainingImage: a\n", "a request of SageMaker"),
            ("a.json", "{\"AlgorithmSpecification\": {}}", "a request of SageMaker"),
            ("a.yml", "name: a\n", "YAML, and a manifest is KDL"),
            ("dir/train.py", "import torch\n", "a Python script"),
            ("dag.py", "SageMakerTrainingOperator()\n", "an Airflow DAG"),
            ("a.ipynb", "{\"cells\": [], \"nbformat\": 4}", "a notebook"),
            ("run.sh", "#!/bin/bash\npython train.py\n", "a shell script"),
        ] {
            let found = named(name, text).unwrap_or_default();
            assert!(found.starts_with(&format!("no `job` in this file: it is {is}")), "{name}: {found}");
        }
        for (name, text) in [
            ("job.kdl", "resource \"a\" {\n}\n"),
            ("-", "import torch\n"),
            ("job.txt", "job \"a\" {\n}\n"),
            ("a.json", "{\"name\": 1}"),
        ] {
            assert_eq!(named(name, text), None, "{name}");
        }
        assert!(detect_other_bytes(SourceId::default(), b"\x1f\x8b\x08").is_some());
    }
}
