//! Hyperparameters compared with the options that the script declares, found by scanning for `add_argument`.

use crate::Context;
use crate::queries::program::is_python;
use regex_lite::Regex;
use std::sync::{Arc, LazyLock};
use trainc_catalog::memo::Memo;
use trainc_diag::declare_code;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::Scalar;

declare_code!(
    T0260,
    "undeclared-argument",
    Warning,
    "a hyperparameter that the script does not declare",
    explains: [Program]
);
declare_code!(T0261, "flag-with-value", Warning, "a value for an option that accepts none");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0260, &T0261];

// `regex-lite` compiles fast, which dominates for the few calls of a script.
static CALL: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"^\s*((?:r?["'][^"']*["']\s*,?\s*)*)([^)]*)"#).ok());
static WORD: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r#"["']([^"']*)["']"#).ok());

/// Scan results by script digest: the jobs of a repository share scripts.
static SCANNED: Memo<String, Option<Arc<Scan>>> = Memo::new();

/// An option of the script.
struct ScriptOption {
    name: String,
    is_flag: bool,
}

/// The options found in a script.
struct Scan {
    options: Vec<ScriptOption>,
    /// Every option was found and unknown ones are rejected: literal names, `parse_args`, no other parser.
    is_complete: bool,
}

fn scan_argparse(script: &str) -> Option<Scan> {
    let (call, word) = (CALL.as_ref()?, WORD.as_ref()?);
    let mut options = Vec::new();
    let mut is_complete = script.contains("parse_args(")
        && ![
            "parse_known_args",
            "HfArgumentParser",
            "allow_abbrev",
            "fromfile_prefix_chars",
            "import *",
            "add_arguments",
        ]
        .iter()
        .any(|name| script.contains(name));
    for after in script.split("add_argument(").skip(1) {
        let Some(found) = call.captures(after) else { continue };
        let names = found.get(1).map_or("", |names| names.as_str());
        let rest = found.get(2).map_or("", |rest| rest.as_str());
        let literal: Vec<&str> =
            word.captures_iter(names).filter_map(|name| name.get(1)).map(|name| name.as_str()).collect();
        if literal.is_empty() || rest.trim_start().starts_with('+') {
            is_complete = false;
            continue;
        }
        let action = rest.replace(' ', "");
        let is_flag =
            ["store_true", "store_false", "store_const", "\"count\"", "'count'", "BooleanOptionalAction"]
                .iter()
                .any(|action_name| action.contains(action_name));
        for name in literal {
            options.push(ScriptOption { name: name.trim_start_matches('-').to_owned(), is_flag });
        }
    }
    if options.is_empty() {
        return None;
    }
    Some(Scan { options, is_complete })
}

/// Checks each hyperparameter, which the toolkit passes to argparse as `--name value`.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let (Some(program), Some(tree)) = (&plan.job.program, &plan.source) else { return };
    if !program.entrypoint.is_empty() || plan.is_worker() {
        return;
    }
    let Some(entry) = program.entry.value().filter(|entry| is_python(entry)) else { return };
    let Some(file) = tree.get(entry) else { return };
    let scanned =
        SCANNED.get(file.sha256().to_owned(), |_| scan_argparse(&String::from_utf8_lossy(&file.bytes)).map(Arc::new));
    let Some(scan) = scanned else { return };
    let same = |a: &str, b: &str| a.replace('-', "_").eq_ignore_ascii_case(&b.replace('-', "_"));
    // Names reserved by the toolkit are reported as T0406.
    for h in program.hyperparameters.iter().filter(|h| !h.name.starts_with("sagemaker_")) {
        if let Some(option) = scan.options.iter().find(|option| option.name == h.name) {
            if option.is_flag
                && let Some(val) = h.value.val().filter(|val| matches!(val.value, Scalar::Bool(_)))
            {
                let shown = trainc_emit::python_str(&val.value);
                problems.push(
                    Diagnostic::new(
                        &T0261,
                        val.span_or(h.name_span),
                        format!(
                            "the script receives `--{} {shown}`, but this option does not accept a value",
                            h.name
                        ),
                    )
                    .help("declare the option with a value in the script: `type=lambda v: v == \"True\"`")
                    .note(format!("`{entry}` declares it as a flag; argparse rejects `{shown}`")),
                );
            }
            continue;
        }
        // argparse accepts an unambiguous abbreviation.
        if scan.options.iter().filter(|option| option.name.starts_with(&h.name)).count() == 1 {
            continue;
        }
        let alike = scan.options.iter().find(|option| same(&option.name, &h.name));
        if alike.is_none() && !scan.is_complete {
            continue;
        }
        // Both spellings are set: T0266.
        if alike.is_some_and(|option| program.hyperparameters.iter().any(|other| other.name == option.name)) {
            continue;
        }
        let diagnostic = Diagnostic::new(&T0260, h.name_span, format!("`{entry}` declares no option `--{}`", h.name))
            .note("found by searching the script for `add_argument`; argparse exits with an error on \
                an unknown option")
            .subject(h.value.span().unwrap_or(h.name_span));
        let near = alike
            .map(|option| option.name.as_str())
            .or_else(|| text::nearest(&h.name, scan.options.iter().map(|option| option.name.as_str())));
        problems.push(match near {
            Some(near) => {
                diagnostic.help(format!("did you mean `\"{near}\"`?")).fix(h.name_span, format!("\"{near}\""))
            }
            None => diagnostic,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_options() {
        let found = scan_argparse("p.add_argument('-n', \"--train-batch\", type=int)\np.add_argument(\n    \
            '--fp16', action = 'store_true')\np.parse_args()").unwrap();
        let names: Vec<(&str, bool)> =
            found.options.iter().map(|option| (option.name.as_str(), option.is_flag)).collect();
        assert_eq!(names, [("n", false), ("train-batch", false), ("fp16", true)]);
        assert!(found.is_complete);
        assert!(
            !scan_argparse("p.add_argument(\"--\" + name)\np.add_argument('--x')\nparse_args()").unwrap().is_complete
        );
        assert!(scan_argparse("print(1)").is_none());
    }
}
