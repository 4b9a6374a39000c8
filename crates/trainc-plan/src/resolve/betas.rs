//! Checks `betas` of an optimizer: two numbers in one string.

use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_language::pair_of_fractions;
use trainc_syntax::ast::{Node, Value};

declare_code!(T0221, "invalid-betas", Error, "`betas` is not two numbers from 0 to below 1");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0221];

/// Reports `betas` that are not two numbers, which are read as invalid.
pub(super) fn check(job: &Node, problems: &mut Problems) {
    let optimizer = job.child("train").and_then(|train| train.child("optimizer"));
    let Some(written) = optimizer.and_then(|node| node.prop("betas")) else { return };
    let Value::Text(text) = &written.value else { return };
    if pair_of_fractions(text).is_some() {
        return;
    }
    let diagnostic = Diagnostic::new(
        &T0221,
        written.span,
        format!(
            "invalid `betas`: expected two numbers from 0 to below 1, such as `\"0.9,0.95\"`; found `{text}`"
        ),
    );
    // `(0.9, 0.95)` and `0.9;0.95` contain the numbers among other characters.
    let numbers = text.split(|c: char| !(c.is_ascii_digit() || c == '.'));
    let numbers: Vec<&str> = numbers.filter(|number| !number.is_empty()).collect();
    let meant = numbers.join(",");
    problems.push(match (numbers.as_slice(), pair_of_fractions(&meant)) {
        ([_, _], Some(_)) => {
            diagnostic.help(format!("write `betas=\"{meant}\"`")).fix(written.span, format!("\"{meant}\""))
        }
        ([first], _) if pair_of_fractions(&format!("{first},0")).is_some() => {
            diagnostic.help(format!("add the second number, as in `betas=\"{first},0.999\"`"))
        }
        _ => diagnostic.write("betas=\"0.9,0.999\""),
    });
}
