//! The parts of a page, and its rendering: `templates/report/page.html.j2` with `page.css`.
//!
//! The template escapes every text. Pictures are finished SVG, which escapes its own text.

use super::svg::escape;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde::Serialize;

/// A whole page.
#[derive(Debug, Default, Serialize)]
pub(super) struct Page {
    /// Title of the window.
    pub(super) title: String,
    /// A line above the title.
    pub(super) kicker: String,
    /// The title.
    pub(super) heading: String,
    /// A sentence below it.
    pub(super) lead: String,
    /// The key figures.
    pub(super) tiles: Vec<Tile>,
    /// Whether it fits, and the problems.
    pub(super) verdict: Option<Verdict>,
    /// The sections below.
    pub(super) sections: Vec<Section>,
    /// The last lines.
    pub(super) footer: Vec<String>,
}

/// A figure with its name and its interval.
#[derive(Debug, Serialize)]
pub(super) struct Tile {
    pub(super) label: &'static str,
    pub(super) value: String,
    /// The unit, in small letters.
    pub(super) unit: String,
    /// Lines below it.
    pub(super) under: Vec<String>,
    /// Whether the figure is unknown: the value is then the reason.
    pub(super) unknown: bool,
}

/// The state of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Good,
    Close,
    Bad,
    Open,
}

/// A verdict in a sentence, and the problems.
#[derive(Debug, Serialize)]
pub(super) struct Verdict {
    pub(super) state: State,
    pub(super) sentence: String,
    pub(super) counts: String,
    pub(super) problems: Vec<Problem>,
    pub(super) notes: Vec<Problem>,
}

/// A problem with its place.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    pub(super) severity: &'static str,
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) place: String,
    /// Its source line: before, at and after its span.
    pub(super) line: Option<[String; 3]>,
    pub(super) help: Option<String>,
    pub(super) notes: Vec<String>,
}

/// A part of the page under a heading.
#[derive(Debug, Default, Serialize)]
pub(super) struct Section {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) text: Vec<String>,
    pub(super) pictures: Vec<Picture>,
    /// Below the pictures.
    pub(super) caption: String,
    pub(super) tables: Vec<Table>,
}

/// One picture drawn for wide and for narrow pages, as finished SVG.
#[derive(Debug, Serialize)]
pub(super) struct Picture {
    wide: String,
    narrow: String,
}

/// Width of a picture for wide pages and for paper, and for telephones; units are about CSS pixels.
const WIDTHS: (f64, f64) = (880.0, 372.0);

impl Picture {
    /// Draws a picture for both widths.
    pub(super) fn new(draw: impl Fn(f64) -> String) -> Self {
        Self { wide: draw(WIDTHS.0), narrow: draw(WIDTHS.1) }
    }
}

/// Returns whether a width is that of a wide page.
pub(super) fn is_wide(width: f64) -> bool {
    width > f64::midpoint(WIDTHS.0, WIDTHS.1)
}

/// A table; one with a summary is collapsed.
#[derive(Debug, Default, Serialize)]
pub(super) struct Table {
    pub(super) summary: Option<String>,
    pub(super) head: Vec<Head>,
    pub(super) rows: Vec<Vec<Cell>>,
    /// The last row is the sum of those above.
    pub(super) has_sum: bool,
    /// Its layout on narrow pages: a CSS class, or nothing.
    pub(super) shape: &'static str,
}

/// A column's head.
#[derive(Debug, Serialize)]
pub(super) struct Head {
    pub(super) name: &'static str,
    /// Whether its cells are right-aligned.
    pub(super) is_figure: bool,
}

/// Returns the head of a text column.
pub(super) fn text_column(name: &'static str) -> Head {
    Head { name, is_figure: false }
}

/// Returns the head of a right-aligned column.
pub(super) fn number_column(name: &'static str) -> Head {
    Head { name, is_figure: true }
}

/// A cell of a table.
#[derive(Debug, Default, Serialize)]
pub(super) struct Cell {
    pub(super) text: String,
    /// Class and number of the part in the picture.
    pub(super) key: Option<(&'static str, String)>,
    /// Whether it is a name to copy, which may break anywhere.
    pub(super) is_name: bool,
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl Cell {
    /// Returns the name of a part, with its key in the picture.
    pub(super) fn part(text: impl Into<String>, class: &'static str, number: impl ToString) -> Self {
        Self { text: text.into(), key: Some((class, number.to_string())), is_name: false }
    }

    /// Returns a name to copy.
    pub(super) fn name(text: impl Into<String>) -> Self {
        Self { text: text.into(), key: None, is_name: true }
    }
}

/// Escapes a text and renders backticks as code.
fn render_inline_code(text: &str) -> String {
    let pieces: Vec<&str> = text.split('`').collect();
    if pieces.len().is_multiple_of(2) {
        // An unpaired backtick is literal.
        return escape(text);
    }
    let piece = |(at, piece): (usize, &&str)| {
        if at % 2 == 1 { format!("<code>{}</code>", escape(piece)) } else { escape(piece) }
    };
    pieces.iter().enumerate().map(piece).collect()
}

/// Renders a page as HTML that is also well-formed XML.
pub(super) fn render(page: &Page) -> String {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        env.set_syntax(syntax);
    }
    env.set_auto_escape_callback(|_| AutoEscape::Html);
    env.set_formatter(|out, _, value| {
        let text = value.to_string();
        out.write_str(&if value.is_safe() { text } else { escape(&text) }).map_err(minijinja::Error::from)
    });
    env.add_filter("prose", |text: String| Value::from_safe_string(render_inline_code(&text)));
    let template = include_str!("../../templates/report/page.html.j2");
    let style = include_str!("../../templates/report/page.css");
    let context = minijinja::context! { page => Value::from(Serde(page)), style };
    // Rendering cannot fail: a test renders every part of the template.
    env.render_str(template, context).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_backticks_enclose_code() {
        assert_eq!(render_inline_code("write `a < b` & go"), "write <code>a &lt; b</code> &amp; go");
        assert_eq!(render_inline_code("a ` alone"), "a ` alone");
        assert_eq!(render_inline_code("`<script>`"), "<code>&lt;script&gt;</code>");
    }

    #[test]
    fn every_text_is_escaped() {
        let evil = "</p><script>alert(1)</script>\"'".to_owned();
        let cell = || Cell { text: evil.clone(), key: Some(("c1", evil.clone())), is_name: false };
        let problem = || Problem {
            severity: "warning",
            code: "T0000",
            message: evil.clone(),
            place: evil.clone(),
            line: Some([evil.clone(), evil.clone(), evil.clone()]),
            help: Some(evil.clone()),
            notes: vec![evil.clone()],
        };
        let page = Page {
            title: evil.clone(),
            kicker: evil.clone(),
            heading: evil.clone(),
            lead: evil.clone(),
            tiles: vec![Tile {
                label: "a",
                value: evil.clone(),
                unit: evil.clone(),
                under: vec![evil.clone()],
                unknown: false,
            }],
            verdict: Some(Verdict {
                state: State::Good,
                sentence: evil.clone(),
                counts: evil.clone(),
                problems: vec![problem()],
                notes: vec![problem()],
            }),
            sections: vec![Section {
                id: "a",
                title: "a",
                text: vec![evil.clone()],
                pictures: Vec::new(),
                caption: evil.clone(),
                tables: vec![Table {
                    summary: Some(evil.clone()),
                    head: vec![text_column("a")],
                    rows: vec![vec![cell(), Cell::name(evil.clone())]],
                    has_sum: true,
                    shape: "parts",
                }],
            }],
            footer: vec![evil.clone()],
        };
        let out = render(&page);
        assert!(!out.contains("<script"), "{out}");
        // All of them are rendered.
        assert_eq!(out.matches("alert(1)").count(), 30, "{out}");
    }
}
