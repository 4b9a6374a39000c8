//! Metric expressions: syntax and capture group.

use crate::Context;
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};

declare_code!(
    T0413,
    "invalid-metric-regex",
    Error,
    "a metric expression that is not a valid regular expression"
);
declare_code!(T0414, "metric-without-capture-group", Warning, "a metric expression without a capture group");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0413, &T0414];

/// Checks each metric.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let Some(program) = &context.plan.job.program else { return };
    for metric in &program.metrics {
        let Some(regex) = metric.regex.val() else { continue };
        let span = regex.span_or(metric.name_span);
        // Parsing suffices, as nothing is matched here.
        match regex_syntax::parse(&regex.value) {
            // SageMaker uses Java's syntax, which has look-around and back references; Rust's does not.
            Err(_) if has_java_only_syntax(&regex.value) => {}
            Err(error) => {
                let why = error.to_string().lines().last().unwrap_or("").trim_start_matches("error: ").to_owned();
                problems.push(
                    Diagnostic::new(&T0413, span, format!("invalid regular expression of metric `{}`: {why}", metric.name))
                        .note("CloudWatch would receive no values; checked with the syntax of Rust's \
                            `regex`"),
                );
            }
            Ok(read) if read.properties().explicit_captures_len() == 0 && !regex.value.is_empty() => problems.push(
                Diagnostic::new(&T0414, span, format!("the expression of metric `{}` has no capture group, \
                    so the metric has no value", metric.name))
                    .help("put the number in parentheses, e.g. `loss=([0-9.]+)`")
                    .note("SageMaker uses the first group of each match as the metric's value \
                        (developer guide, training metrics)"),
            ),
            Ok(_) => {}
        }
    }
}

fn has_java_only_syntax(expression: &str) -> bool {
    ["(?=", "(?!", "(?<=", "(?<!", "(?>", "++", "*+", "?+"].iter().any(|form| expression.contains(form))
        || (1..=9).any(|n| expression.contains(&format!("\\{n}")))
}
