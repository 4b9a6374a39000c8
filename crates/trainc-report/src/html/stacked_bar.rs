//! A stacked bar: each part as long as its amount, labelled with its name if it fits, else with its number.

use super::axis::Axis;
use super::svg::{Anchor, SIZE, SMALL, Svg, width};

/// A part of a bar.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    /// Its name.
    pub(super) name: &'static str,
    /// Its amount.
    pub(super) amount: f64,
    /// Its colour and pattern: a CSS class.
    pub(super) class: &'static str,
    /// Its number in the table below.
    pub(super) number: Option<usize>,
}

/// A segment of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    /// Its start.
    pub(super) x: f64,
    /// Its length.
    pub(super) width: f64,
}

/// The frame of a bar.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// The width of bold letters relative to [`width`] (DejaVu Sans, the widest of the usual fonts).
const BOLD: f64 = 1.2;

/// The minimum width of a part with its number inside.
const LEAST: f64 = 15.0;
/// Room above a bar for the numbers of thin parts.
pub(super) const ABOVE: f64 = 18.0;

/// Places amounts side by side from `x` on, scaled so that `whole` has the given length. Amounts that are not
/// positive have no width.
pub(super) fn place_segments(amounts: &[f64], whole: f64, x: f64, length: f64) -> Vec<Place> {
    let scale = if whole > 0.0 && whole.is_finite() { length / whole } else { 0.0 };
    let mut reached = 0.0;
    amounts
        .iter()
        .map(|amount| {
            let amount = if amount.is_finite() { amount.max(0.0) } else { 0.0 };
            let place = Place { x: x + reached * scale, width: amount * scale };
            reached += amount;
            place
        })
        .collect()
}

/// Moves ascending coordinates at least `apart` from each other, within `start` and `end`.
pub(super) fn spread_labels(wanted: &[f64], apart: f64, (start, end): (f64, f64)) -> Vec<f64> {
    let mut out: Vec<f64> = Vec::new();
    for x in wanted {
        let after = out.last().map_or(start, |last| last + apart);
        out.push(x.max(after));
    }
    let mut most = end;
    for x in out.iter_mut().rev() {
        *x = x.min(most);
        most = *x - apart;
    }
    out
}

/// Draws the bar; `figure` formats an amount.
pub(super) fn bar(svg: &mut Svg, parts: &[Part], whole: f64, frame: Frame, figure: impl Fn(f64) -> String) {
    let amounts: Vec<f64> = parts.iter().map(|part| part.amount).collect();
    let mut thin: Vec<(f64, String)> = Vec::new();
    for (part, place) in parts.iter().zip(place_segments(&amounts, whole, frame.x, frame.width)) {
        svg.rect(part.class, place.x, frame.y, place.width, frame.height);
        if place.width <= 0.0 {
            continue;
        }
        let middle = place.x + place.width / 2.0;
        let words = figure(part.amount);
        let number = part.number.map(|n| n.to_string());
        let fits = |text: &str, size: f64| width(text, size) + 10.0 <= place.width;
        let named = BOLD * width(part.name, SIZE);
        // Text on a pattern has a plain background.
        let plain = |svg: &mut Svg, text: &str, size: f64, height: f64| {
            if !part.class.starts_with('c') {
                let wide = width(text, size).min(place.width - 4.0);
                let y = frame.y + (frame.height - height) / 2.0;
                svg.rect("ground", middle - wide / 2.0, y, wide, height);
            }
        };
        if frame.height >= 36.0 && named + 10.0 <= place.width && fits(&words, SMALL) {
            let longer = if named > width(&words, SMALL) { (part.name, SIZE) } else { (&*words, SMALL) };
            plain(svg, longer.0, longer.1, 34.0);
            svg.text("on b", Anchor::Middle, middle, frame.y + frame.height / 2.0 - 3.0, part.name);
            svg.text("on s", Anchor::Middle, middle, frame.y + frame.height / 2.0 + 12.0, &words);
        } else if frame.height < 36.0 && fits(&format!("{} {words}", part.name), SMALL) {
            let text = format!("{} {words}", part.name);
            svg.text("on s", Anchor::Middle, middle, frame.y + frame.height / 2.0 + 4.0, &text);
        } else if let Some(number) = number {
            if place.width >= LEAST {
                plain(svg, &number, SIZE, 18.0);
                svg.text("on b", Anchor::Middle, middle, frame.y + frame.height / 2.0 + 4.5, &number);
            } else {
                thin.push((middle, number));
            }
        }
    }
    let wanted: Vec<f64> = thin.iter().map(|(x, _)| *x).collect();
    for ((at, number), x) in
        thin.iter().zip(spread_labels(&wanted, 13.0, (frame.x + 5.0, frame.x + frame.width - 5.0)))
    {
        svg.line("tie", (*at, frame.y), (x, frame.y - 5.0));
        svg.text("s", Anchor::Middle, x, frame.y - 7.0, number);
    }
}

/// Draws ticks with labels below a bar; labels stay between 0 and `wide`.
pub(super) fn ruler(
    svg: &mut Svg,
    axis: &Axis,
    (wide, y): (f64, f64),
    most: usize,
    say: impl Fn(f64) -> String,
) {
    let mut free = f64::MIN;
    for mark in axis.marks(most) {
        let x = axis.coordinate(mark);
        let text = say(mark);
        let half = width(&text, SMALL) / 2.0;
        svg.line("tick", (x, y), (x, y + 5.0));
        let (anchor, from, left) = if x - half < 0.0 {
            (Anchor::Start, 0.0, 0.0)
        } else if x + half > wide {
            (Anchor::End, wide, wide - 2.0 * half)
        } else {
            (Anchor::Middle, x, x - half)
        };
        if left >= free {
            svg.text("s m", anchor, from, y + 17.0, &text);
            free = left + 2.0 * half + 8.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Neighbours touch, nothing overlaps, and the parts together are as long as their sum.
        #[test]
        fn parts_fill_their_share_exactly(amounts in proptest::collection::vec(0.0_f64..1e12, 1..9), rest in 0.0_f64..1e12) {
            let sum: f64 = amounts.iter().sum();
            let whole = sum + rest;
            prop_assume!(whole > 0.0);
            let placed = place_segments(&amounts, whole, 40.0, 800.0);
            for pair in placed.windows(2) {
                prop_assert!((pair[0].x + pair[0].width - pair[1].x).abs() < 1e-6);
            }
            let total: f64 = placed.iter().map(|place| place.width).sum();
            prop_assert!((total - 800.0 * sum / whole).abs() < 1e-6);
            prop_assert!(placed.iter().all(|place| place.x + place.width <= 840.0 + 1e-6));
        }

        #[test]
        fn labels_keep_apart_and_inside(mut wanted in proptest::collection::vec(0.0_f64..380.0, 0..9)) {
            wanted.sort_by(f64::total_cmp);
            let placed = spread_labels(&wanted, 13.0, (6.0, 375.0));
            for pair in placed.windows(2) {
                prop_assert!(pair[1] - pair[0] >= 13.0 - 1e-9);
            }
            prop_assert!(placed.iter().all(|x| (6.0..=375.0).contains(x)));
        }
    }

    #[test]
    fn invalid_amounts_have_no_width() {
        let placed = place_segments(&[f64::NAN, -1.0, 2.0], 4.0, 0.0, 100.0);
        assert_eq!(placed.iter().map(|place| place.width).collect::<Vec<_>>(), [0.0, 0.0, 50.0]);
        assert!(place_segments(&[1.0], 0.0, 0.0, 100.0).iter().all(|place| place.width == 0.0));
    }
}
