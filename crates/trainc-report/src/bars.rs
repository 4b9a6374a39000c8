//! A bar of parts for the terminal, readable without colour: each part has its own letter.

/// A part of a bar.
pub(super) struct Part {
    /// Its name.
    pub(super) name: &'static str,
    /// Its amount in the caller's unit; parts of an unknown or zero amount are left out.
    pub(super) amount: Option<f64>,
}

/// Returns the bar, at most `columns` wide and scaled to `whole` (the GPU's memory, the step's time), and its
/// legend.
///
/// The words of a part are joined by no-break spaces. `None` if no amount is known. A sum above `whole` is
/// marked by `!`.
pub(super) fn bar(
    parts: &[Part],
    whole: f64,
    columns: usize,
    figure: impl Fn(f64) -> String,
) -> Option<(String, String)> {
    let known: Vec<(&str, f64)> = parts
        .iter()
        .filter_map(|part| Some((part.name, part.amount?)))
        .filter(|(_, amount)| amount.is_finite() && *amount > 0.0)
        .collect();
    let sum: f64 = known.iter().map(|(_, amount)| amount).sum();
    if known.is_empty() || !whole.is_finite() || whole <= 0.0 {
        return None;
    }
    let cells = columns.saturating_sub(3).max(8);
    let scale = cells as f64 / whole.max(sum);
    let (mut drawn, mut reached, mut words) = (String::new(), 0.0, Vec::new());
    let mut letters: Vec<char> = Vec::new();
    for (name, amount) in known {
        let letter = name.chars().find(|c| !letters.contains(c)).unwrap_or('?');
        letters.push(letter);
        reached += amount * scale;
        // Ends are rounded, not lengths, so that the parts add up to the length of the whole.
        while (drawn.len() as f64) < reached.round() && drawn.len() < cells {
            drawn.push(letter);
        }
        let figure = figure(amount);
        // Amounts that round to 0 are only in plan.json.
        if figure != "0" {
            words.push(format!("{letter} {name} {figure}").replace(' ', "\u{a0}"));
        }
    }
    let over = if sum > whole { "!" } else { "" };
    Some((format!("[{drawn:.<cells$}]{over}"), words.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &'static str, amount: f64) -> Part {
        Part { name, amount: Some(amount) }
    }

    #[test]
    fn parts_fill_the_bar_up_to_their_sum() {
        let parts = [
            part("parameters", 2.0),
            part("gradients", 2.0),
            part("activations", 4.0),
            Part { name: "logits", amount: None },
        ];
        let (bar, words) = bar(&parts, 16.0, 19, |x| format!("{x}")).unwrap();
        assert_eq!(bar, "[ppggaaaa........]");
        assert_eq!(words, "p\u{a0}parameters\u{a0}2, g\u{a0}gradients\u{a0}2, a\u{a0}activations\u{a0}4");
    }

    #[test]
    fn a_sum_above_the_whole_is_marked() {
        let (bar, _) = bar(&[part("a", 30.0)], 10.0, 19, |x| format!("{x}")).unwrap();
        assert_eq!(bar, "[aaaaaaaaaaaaaaaa]!");
    }

    #[test]
    fn amounts_that_round_to_zero_are_left_out_of_the_legend() {
        let (_, words) =
            bar(&[part("compute", 9.0), part("optimizer", 0.1)], 9.1, 20, |x| format!("{x:.0}")).unwrap();
        assert_eq!(words, "c\u{a0}compute\u{a0}9");
    }

    #[test]
    fn no_known_amount_gives_no_bar() {
        assert!(bar(&[Part { name: "a", amount: None }], 10.0, 20, |x| format!("{x}")).is_none());
        assert!(bar(&[part("a", 1.0)], 0.0, 20, |x| format!("{x}")).is_none());
    }
}
