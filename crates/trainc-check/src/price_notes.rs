//! The date of the price, in every problem that states dollars.

use crate::queries::prices::describe_price_sources;
use trainc_diag::{Diagnostic, Problems};
use trainc_ir::price::describe_age;
use trainc_ir::{Alternatives, Plan};

/// Adds the date of the instance price to the problems that state dollars without a date.
pub(super) fn add(plan: &Plan, today: Option<i64>, problems: &mut Problems) {
    // Users know the date of their own price.
    if plan.instance_prices().any(|price| price.date.is_some()) {
        let sources = describe_price_sources(plan.instance_prices(), today);
        problems.add_notes(|problem| if states_dollars(problem) { sources.clone() } else { Vec::new() });
    }
}

/// Removes the age from every date of a price.
pub(super) fn remove_ages(plan: &Plan, today: Option<i64>, problems: &mut Problems) {
    let parts = plan.fleet.alternatives().into_iter().flat_map(Alternatives::iter).flat_map(|one| &one.parts);
    let dates = parts.filter_map(|part| part.price.as_ref()).map(|price| &price.date);
    let dates = dates.chain(plan.storage_prices.iter().flatten().map(|price| &price.date));
    let aged: Vec<(String, &String)> = dates
        .flatten()
        .map(|date| (format!("{date}{}", describe_age(Some(date), today)), date))
        .filter(|(aged, date)| aged != *date)
        .collect();
    problems.edit_texts(|text| {
        for (aged, date) in &aged {
            if text.contains(aged.as_str()) {
                *text = text.replace(aged.as_str(), date);
            }
        }
    });
}

/// Returns whether a problem states dollars that trainc computed, without the date of a price.
fn states_dollars(problem: &Diagnostic) -> bool {
    let texts = || {
        let help = problem.help.as_ref().map(ToString::to_string);
        std::iter::once(problem.message.clone()).chain(problem.notes.iter().cloned()).chain(help)
    };
    // Between backticks is what the user wrote or may write.
    let outside = |text: &String| text.split('`').step_by(2).collect::<String>();
    let has_dollars = |text: &String| {
        let outside = outside(text);
        outside.match_indices('$').any(|(at, _)| {
            outside.get(at + 1..).is_some_and(|rest| rest.starts_with(|next: char| next.is_ascii_digit()))
        })
    };
    texts().any(|text| has_dollars(&text)) && !texts().any(|text| has_date(&text))
}

/// Returns whether a text contains a day or a month, `2026-09-01`.
fn has_date(text: &str) -> bool {
    text.as_bytes().windows(7).any(|part| {
        part.starts_with(b"20")
            && part
                .iter()
                .enumerate()
                .all(|(at, byte)| if at == 4 { *byte == b'-' } else { byte.is_ascii_digit() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules;
    use trainc_diag::source::{SourceId, Span};

    #[test]
    fn only_computed_dollars_without_a_date_count() {
        let code = rules::codes().into_iter().next().unwrap();
        let with =
            |note: &str| states_dollars(&Diagnostic::new(code, Span::new(SourceId(0), 0, 0), "x").note(note));
        assert!(with("the idle time costs $1.20 per hour"));
        assert!(!with("the idle time costs $1.20 per hour (price of 2026-09-01)"));
        assert!(!with("write `regex=\"$1\"`") && !with("set `$HOME`") && !with("in ${HOME}"));
    }
}
