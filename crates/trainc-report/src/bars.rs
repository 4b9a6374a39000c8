//! A whole as a bar of its parts, readable without colour: each part has a letter of its own.

/// A part of a whole: its name and its amount, both in the caller's unit.
pub(super) struct Part {
    /// Its name.
    pub(super) name: &'static str,
    /// How much of it there is; parts that are not known or nothing are left out.
    pub(super) amount: Option<f64>,
}

/// The bar within `columns`, against `whole` (the card's memory, the step's time), and the letters in words.
///
/// The words of one part are joined by no-break spaces. None where no part is known. Parts past the whole run into a `!`.
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
        // Ends are rounded, not lengths, so that the parts together are as long as the whole.
        while (drawn.len() as f64) < reached.round() && drawn.len() < cells {
            drawn.push(letter);
        }
        let figure = figure(amount);
        // What the bar cannot show and the figure rounds away is left to plan.json.
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
    fn too_much_is_marked() {
        let (bar, _) = bar(&[part("a", 30.0)], 10.0, 19, |x| format!("{x}")).unwrap();
        assert_eq!(bar, "[aaaaaaaaaaaaaaaa]!");
    }

    #[test]
    fn what_rounds_to_nothing_is_left_out_of_the_words() {
        let (_, words) =
            bar(&[part("compute", 9.0), part("optimizer", 0.1)], 9.1, 20, |x| format!("{x:.0}")).unwrap();
        assert_eq!(words, "c\u{a0}compute\u{a0}9");
    }

    #[test]
    fn nothing_known_is_no_bar() {
        assert!(bar(&[Part { name: "a", amount: None }], 10.0, 20, |x| format!("{x}")).is_none());
        assert!(bar(&[part("a", 1.0)], 0.0, 20, |x| format!("{x}")).is_none());
    }
}
