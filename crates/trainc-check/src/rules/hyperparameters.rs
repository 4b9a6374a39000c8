//! Names and values of hyperparameters, which the toolkit passes to the script as `--name value` through a
//! shell.

use crate::Context;
use crate::queries::spelling::nearest_spelling;
use std::collections::BTreeMap;
use trainc_catalog::reserved_names::{self, Kind};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_emit::is_shell_safe;
use trainc_ir::{Hyperparameter, Scalar};

declare_code!(T0404, "invalid-value-characters", Error, "a value with a line break or a NUL character");
declare_code!(
    T0405,
    "invalid-hyperparameter-name",
    Error,
    "a hyperparameter name with characters that are unsafe in the shell"
);
declare_code!(T0406, "reserved-hyperparameter", Error, "a hyperparameter name that is reserved", ends: Speed);
declare_code!(
    T0266,
    "look-alike-hyperparameters",
    Warning,
    "two hyperparameter names that differ only in `-` and `_`"
);
declare_code!(
    T0268,
    "one-letter-hyperparameter",
    Note,
    "a one-letter name, which is passed with a single dash"
);

declare_code!(T0581, "quoted-argument", Warning, "a value with shell quotes, which the script would receive");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0404, &T0405, &T0406, &T0266, &T0268, &T0581];

/// Checks values.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let Some(program) = &context.plan.job.program else { return };
    for pair in &program.environment {
        if let Some(value) = pair.value.val().filter(|val| val.value.contains('\0')) {
            problems.push(invalid_characters(
                value.span_or(pair.key_span),
                &format!("environment variable `{}`", pair.key),
                "a NUL character",
            ));
        }
    }
    for h in &program.hyperparameters {
        check_value(h, problems);
    }
}

/// Checks names, and quotes in values. They only matter to the training toolkit: a container with its own
/// entry point reads a file.
pub(super) fn sagemaker_rule(context: &Context, problems: &mut Problems) {
    let Some(program) = &context.plan.job.program else { return };
    if !program.entrypoint.is_empty() || context.plan.is_worker() {
        return;
    }
    let mut seen: BTreeMap<String, &Hyperparameter> = BTreeMap::new();
    for h in &program.hyperparameters {
        // Without a script, the container reads the names and values from a file.
        let is_script = !program.entry.is_absent();
        check_name(h, is_script, problems);
        if is_script {
            check_quotes(h, context, problems);
        }
        if let Some(first) = seen.insert(h.name.replace('-', "_"), h) {
            problems.push(
                Diagnostic::new(&T0266, h.name_span, format!("`{}` and `{}` differ only in `-` and `_`", first.name, h.name))
                    .label(first.name_span, "the other one")
                    .help("remove the one that the script does not read")
                    .note("argparse stores both in one attribute: the last on the command line wins, \
                        and the toolkit sorts by name"),
            );
        }
    }
}

fn check_value(h: &Hyperparameter, problems: &mut Problems) {
    let Some(val) = h.value.val() else { return };
    let span = val.span_or(h.name_span);
    match &val.value {
        Scalar::Text(text) => {
            let what = if text.contains('\0') {
                "a NUL character"
            } else if text.contains(['\n', '\r']) {
                "a line break"
            } else {
                return;
            };
            problems.push(invalid_characters(span, &format!("hyperparameter `{}`", h.name), what));
        }
        Scalar::Int(_) | Scalar::Float(_) | Scalar::Bool(_) | Scalar::Null => {}
    }
}

/// Reports a value that has quotes for the shell, as scripts of the SageMaker SDK write them: trainc adds its
/// own.
fn check_quotes(h: &Hyperparameter, context: &Context, problems: &mut Problems) {
    let Some(val) = h.value.val() else { return };
    let Scalar::Text(text) = &val.value else { return };
    let inside = ['"', '\'']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))
        .filter(|inside| !inside.is_empty() && inside.chars().all(|c| is_shell_safe(c) || c == ' '));
    let Some(inside) = inside else { return };
    let span = val.span_or(h.name_span);
    let diagnostic = Diagnostic::new(
        &T0581,
        span,
        format!("the script receives `--{}` with the quotes in its value: `{text}`", h.name),
    )
    .write(format!("\"{inside}\""))
    .note("trainc quotes a value for the container's shell; the SageMaker SDK does not, so its scripts \
        write the quotes");
    problems.push(if context.is_literal(span, text) {
        diagnostic.fix(span, format!("\"{inside}\""))
    } else {
        diagnostic
    });
}

fn invalid_characters(span: Span, whose: &str, what: &str) -> Diagnostic {
    Diagnostic::new(&T0404, span, format!("the value of {whose} contains {what}"))
        .help("write it to a file in the program's directory, and pass the file's path")
        .note("values in CreateTrainingJob must match `.*`, which excludes line breaks; arguments and \
            environment variables of a process cannot contain NUL")
}

fn check_name(h: &Hyperparameter, is_script: bool, problems: &mut Problems) {
    if let Some(row) = reserved_names::get(Kind::Hyperparameter, &h.name) {
        let diagnostic = Diagnostic::new(
            &T0406,
            h.name_span,
            format!("hyperparameter `{}` is reserved: it is set by {}", h.name, row.set_by),
        )
        .note(format!("`{}`: {} ({})", row.name, row.statement, row.provenance.source));
        problems.push(if h.name == "mp_parameters" {
            diagnostic.help("write the parameters as children of `parallel engine=\"smp\"`")
        } else {
            diagnostic.help(format!(
                "remove it: a node sends it; if none does, write `request {{ HyperParameters {{ \
                    {} \"…\"; }} }}` with `allow \"T0446\" reason=\"…\"`",
                h.name
            ))
        });
        return;
    }
    let fine = |c: char| is_shell_safe(c) && c != '=';
    if h.name.is_empty() || h.name.starts_with('-') || !h.name.chars().all(fine) {
        let why: String = h.name.chars().find(|c| !fine(*c)).map_or_else(
            || if h.name.is_empty() { "it is empty" } else { "it starts with a dash" }.to_owned(),
            |c| if c == ' ' { "it contains a space".to_owned() } else { format!("it contains `{c}`") },
        );
        let diagnostic =
            Diagnostic::new(&T0405, h.name_span, format!("`{}` is not a valid option name: {why}", h.name))
                .note("the toolkit passes `--name value` through a shell without quoting the name");
        let near = nearest_spelling(&h.name, '_');
        // A name with its value in one text is reported as one without a value, too.
        problems.push(if near.is_empty() || (h.name.contains('=') && h.value.value().is_none()) {
            diagnostic
        } else {
            diagnostic.help(format!("write `\"{near}\"`")).fix(h.name_span, format!("\"{near}\""))
        });
    } else if h.name.chars().count() == 1 && is_script {
        problems.push(
            Diagnostic::new(
                &T0268,
                h.name_span,
                format!("the script receives `-{}`, with a single dash", h.name),
            )
            .note("the toolkit passes one-letter names this way (sagemaker-training-toolkit, `mapping.py`)"),
        );
    }
}
