//! Inline SVG: shapes and text by coordinates. Colours and fonts come from CSS classes of the page; text is
//! escaped here and nowhere else.

use std::fmt::Write as _;
use trainc_diag::is_direction_mark;

/// The anchor of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Font size of labels, in SVG units of about one CSS pixel.
pub(super) const SIZE: f64 = 13.0;
/// Font size of small labels, class `s`.
pub(super) const SMALL: f64 = 11.0;

/// A picture under construction.
pub(super) struct Svg {
    width: f64,
    height: f64,
    body: String,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    /// Draws a filled rectangle, unless it is empty.
    pub(super) fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64) {
        if width > 0.0 && height > 0.0 {
            let _ = write!(
                self.body,
                "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
                number(x),
                number(y),
                number(width),
                number(height)
            );
        }
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let _ = write!(
            self.body,
            "<line class=\"{class}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>",
            number(from.0),
            number(from.1),
            number(to.0),
            number(to.1)
        );
    }

    pub(super) fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<String> =
            points.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).collect();
        let _ = write!(self.body, "<polyline class=\"{class}\" points=\"{}\"/>", points.join(" "));
    }

    pub(super) fn circle(&mut self, class: &str, x: f64, y: f64, radius: f64) {
        let _ = write!(
            self.body,
            "<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"{}\"/>",
            number(x),
            number(y),
            number(radius)
        );
    }

    /// Draws a circle with a tooltip, which screen readers read as well.
    pub(super) fn named_circle(&mut self, class: &str, x: f64, y: f64, radius: f64, name: &str) {
        let _ = write!(
            self.body,
            "<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"{}\"><title>{}</title></circle>",
            number(x),
            number(y),
            number(radius),
            escape(name)
        );
    }

    /// Draws a line of text; class `s` means small letters.
    pub(super) fn text(&mut self, class: &str, anchor: Anchor, x: f64, y: f64, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let _ = write!(
            self.body,
            "<text class=\"{class}\"{anchor} x=\"{}\" y=\"{}\">{}</text>",
            number(x),
            number(y),
            escape(text)
        );
    }

    /// Returns the element; `name` is its alternative text.
    pub(super) fn finish(self, name: &str) -> String {
        let Self { width, height, body } = self;
        format!(
            "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">{body}</svg>",
            number(width),
            number(height),
            escape(name)
        )
    }
}

/// Escapes text for HTML and XML elements and quoted attributes; replaces characters that are not valid in
/// XML, and those that change the direction of the text.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(character),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            other if other.is_control() || is_direction_mark(other) => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// Formats a coordinate with one decimal, so that pictures are small and the same on every platform.
fn number(value: f64) -> String {
    let text = format!("{:.1}", if value.is_finite() { value } else { 0.0 });
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Estimates the maximum width of a text in the usual sans-serif fonts of this size.
pub(super) fn width(text: &str, size: f64) -> f64 {
    let ems: f64 = text
        .chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.32,
            ' ' | 'f' | 't' | 'r' | '(' | ')' | '/' | '-' | '[' | ']' => 0.40,
            'm' | 'w' | 'M' | 'W' | '%' | '×' | '–' | '@' => 0.92,
            c if c.is_ascii_uppercase() => 0.72,
            c if c.is_ascii() => 0.60,
            _ => 1.0,
        })
        .sum();
    ems * size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_element() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.text("t", Anchor::Start, 0.0, 5.0, "</text><script>\"'&\u{7}");
        let out = svg.finish("a \"b\" <c>");
        assert!(out.contains("&lt;/text&gt;&lt;script&gt;&quot;&#39;&amp;\u{fffd}</text>"), "{out}");
        assert!(out.contains("aria-label=\"a &quot;b&quot; &lt;c&gt;\""), "{out}");
    }

    #[test]
    fn coordinates_are_short_and_finite() {
        assert_eq!([12.0, 0.05, -0.01, 3.07, f64::NAN].map(number), ["12", "0.1", "0", "3.1", "0"]);
    }

    #[test]
    fn nothing_is_drawn_for_nothing() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.rect("a", 1.0, 1.0, 0.0, 5.0);
        assert!(!svg.finish("").contains("rect"));
    }
}
