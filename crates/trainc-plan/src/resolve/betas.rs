//! Parses `betas` of an optimizer: two numbers in one string.

use super::fields::text;
use trainc_diag::declare_code;
use trainc_diag::{Code, Diagnostic, Problems};
use trainc_ir::{Field, Val};
use trainc_syntax::ast::Node;

declare_code!(T0221, "invalid-betas", Error, "`betas` is not two numbers from 0 to below 1");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0221];

/// Returns the decay rates of the two moments.
pub(super) fn betas(node: &Node, problems: &mut Problems) -> Field<(f64, f64)> {
    match text(node.prop("betas")) {
        Field::Absent => Field::Absent,
        Field::Bad => Field::Bad,
        Field::Is(val) => {
            if let Some(pair) = parse_betas(&val.value) {
                Field::Is(Val { value: pair, origin: val.origin })
            } else {
                let diagnostic = Diagnostic::new(
                    &T0221,
                    val.span_or(node.name.span),
                    format!(
                        "invalid `betas`: expected two numbers from 0 to below 1, such as `\"0.9,0.95\"`; found `{}`",
                        val.value
                    ),
                );
                // `(0.9, 0.95)` and `0.9;0.95` contain the numbers among other characters.
                let numbers = val.value.split(|c: char| !(c.is_ascii_digit() || c == '.'));
                let numbers: Vec<&str> = numbers.filter(|number| !number.is_empty()).collect();
                let meant = numbers.join(",");
                problems.push(match (numbers.as_slice(), parse_betas(&meant)) {
                    ([_, _], Some(_)) => diagnostic
                        .help(format!("write `betas=\"{meant}\"`"))
                        .fix(val.span_or(node.name.span), format!("\"{meant}\"")),
                    ([first], _) if parse_betas(&format!("{first},0")).is_some() => {
                        diagnostic.help(format!("add the second number, as in `betas=\"{first},0.999\"`"))
                    }
                    _ => diagnostic.write("betas=\"0.9,0.999\""),
                });
                Field::Bad
            }
        }
    }
}

fn parse_betas(written: &str) -> Option<(f64, f64)> {
    let (a, b) = written.split_once(',')?;
    let (a, b): (f64, f64) = (a.trim().parse().ok()?, b.trim().parse().ok()?);
    ((0.0..1.0).contains(&a) && (0.0..1.0).contains(&b)).then_some((a, b))
}
