//! A page for a terminal or a log: a column of labels, and wrapped text next to it. Colour is only an
//! emphasis: no information depends on it.

use super::mesh_picture::Piece;
use comfy_table::{ContentArrangement, Table, presets};
use trainc_diag::escape_control_characters;
use trainc_diag::text;
use unicode_width::UnicodeWidthStr as _;

/// The capabilities of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether to send colour codes.
    pub color: bool,
    /// Whether to use characters other than ASCII. Text of the user is never replaced.
    pub unicode: bool,
    /// Columns. Longer words exceed it.
    pub width: usize,
    /// Today in days since 1970, for the age of old prices. `None` in emitted files, which do not change with
    /// the day.
    pub today: Option<i64>,
}

impl Default for Options {
    fn default() -> Self {
        Self { color: false, unicode: true, width: 80, today: None }
    }
}

/// Columns before the text: an indentation of two, and the label.
pub(super) const LABEL: usize = 12;

/// Colours of neighbouring groups: blue, green, magenta, cyan, yellow, repeating.
const GROUPS: [&str; 5] = ["34", "32", "35", "36", "33"];

pub(super) const BOLD: &str = "1";
pub(super) const DIM: &str = "2";
pub(super) const RED: &str = "1;31";
pub(super) const YELLOW: &str = "1;33";
pub(super) const BLUE: &str = "1;34";

/// A page under construction.
pub(super) struct TerminalPage {
    options: Options,
    out: String,
}

impl TerminalPage {
    pub(super) fn new(options: Options) -> Self {
        Self { options, out: String::new() }
    }

    /// Returns the width of the text next to the labels, columns.
    pub(super) fn columns(&self) -> usize {
        self.options.width.max(40) - LABEL
    }

    pub(super) fn unicode(&self) -> bool {
        self.options.unicode
    }

    /// Returns today in days since 1970.
    pub(super) fn today(&self) -> Option<i64> {
        self.options.today
    }

    fn paint(&self, style: &str, text: &str) -> String {
        if self.options.color && !style.is_empty() && !text.trim().is_empty() {
            format!("\u{1b}[{style}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    /// Replaces control characters and, for an ASCII terminal, trainc's own symbols.
    fn sanitize(&self, text: &str) -> String {
        let text = escape_control_characters(text);
        if self.options.unicode { text } else { ascii(&text) }
    }

    fn push(&mut self, line: &str) {
        // No-break spaces only prevent wrapping.
        self.out.push_str(line.trim_end().replace('\u{a0}', " ").as_str());
        self.out.push('\n');
    }

    pub(super) fn blank(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    /// Prints a line with a bold title.
    pub(super) fn title(&mut self, title: &str, rest: &str) {
        let (title, rest) = (self.sanitize(title), self.sanitize(rest));
        let line = format!("{}{rest}", self.paint(BOLD, &title));
        self.push(&line);
    }

    fn label(&self, label: &str) -> String {
        let padded = format!("{:<1$}", label, LABEL - 3);
        format!("  {} ", self.paint(BOLD, &padded))
    }

    /// Prints text next to a label; further lines are indented.
    pub(super) fn field(&mut self, label: &str, text: &str) {
        self.styled(label, "", text);
    }

    /// Prints text in a style next to a label.
    pub(super) fn styled(&mut self, label: &str, style: &str, text: &str) {
        let text = self.sanitize(text);
        for (at, line) in text::wrap(&text, self.columns(), 0).iter().enumerate() {
            let before = if at == 0 { self.label(label) } else { " ".repeat(LABEL) };
            let line = self.paint(style, line);
            self.push(&format!("{before}{line}"));
        }
    }

    /// Prints text next to a label and a word such as `use` or `help:`.
    pub(super) fn item(&mut self, label: &str, word: &str, style: &str, text: &str) {
        let indent = word.chars().count() + 1;
        let (word, text) = (self.sanitize(word), self.sanitize(text));
        for (at, line) in text::wrap(&text, self.columns().saturating_sub(indent), 0).iter().enumerate() {
            let before = if at == 0 {
                format!("{}{} ", self.label(label), self.paint(style, &word))
            } else {
                " ".repeat(LABEL + indent)
            };
            self.push(&format!("{before}{line}"));
        }
    }

    /// Prints an item on one line, with as many whole clauses of the reason as fit.
    pub(super) fn one_line_item(
        &mut self,
        label: &str,
        (word, style): (&str, &str),
        text: &str,
        reason: &str,
    ) {
        let (word, text, reason) = (self.sanitize(word), self.sanitize(text), self.sanitize(reason));
        let room = self.columns().saturating_sub(word.width() + text.width() + 3);
        let ends = ["; ", ": ", ", "]
            .iter()
            .flat_map(|sign| reason.match_indices(sign))
            .map(|(at, _)| at)
            .chain([reason.len()]);
        let fitting = ends
            .filter_map(|end| reason.get(..end))
            .filter(|clause| clause.width() <= room)
            .max_by_key(|clause| clause.len());
        let word = self.paint(style, &word);
        let line = match fitting {
            Some(clause) if !clause.is_empty() => format!("{}{word} {text}: {clause}", self.label(label)),
            _ => format!("{}{word} {text}", self.label(label)),
        };
        self.push(&line);
    }

    /// Prints text after a word in a style; further lines are indented by two columns.
    pub(super) fn hanging_item(&mut self, label: &str, word: &str, style: &str, text: &str) {
        let indent = word.len() - word.trim_start().len() + 2;
        let (word, text) = (self.sanitize(word), self.sanitize(text));
        let columns = self.columns().saturating_sub(indent);
        for (at, line) in
            text::wrap(&text, columns, (word.width() + 1).saturating_sub(indent)).iter().enumerate()
        {
            let before = if at == 0 {
                format!("{}{} ", self.label(label), self.paint(style, &word))
            } else {
                " ".repeat(LABEL + indent)
            };
            self.push(&format!("{before}{line}"));
        }
    }

    /// Prints a line of a picture, unwrapped.
    pub(super) fn picture_line(&mut self, label: &str, pieces: &[Piece]) {
        let mut line = self.label(label);
        for piece in pieces {
            let text = self.sanitize(&piece.text);
            let at = piece.group.map(|group| usize::try_from(group % GROUPS.len() as u64).unwrap_or(0));
            line.push_str(&match at.and_then(|at| GROUPS.get(at)) {
                Some(style) => self.paint(style, &text),
                None => text,
            });
        }
        self.push(&line);
    }

    /// Prints a line over the whole width, unwrapped.
    pub(super) fn line(&mut self, text: &str) {
        let line = self.sanitize(text);
        self.push(&line);
    }

    /// Prints a table of left-aligned columns; cells are wrapped if it would be wider than the page.
    pub(super) fn table<const N: usize>(&mut self, head: &[&str; N], rows: &[[String; N]]) {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(self.options.width.max(40) - 2).unwrap_or(u16::MAX));
        table.set_header(head.iter().map(|cell| self.sanitize(cell)));
        table.add_rows(rows.iter().map(|row| row.each_ref().map(|cell| self.sanitize(cell))));
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        for line in table.lines() {
            self.push(&format!("  {line}"));
        }
    }

    /// Prints a command to copy next to a label, unwrapped.
    pub(super) fn verbatim(&mut self, label: &str, text: &str) {
        let line = format!("{}{}", self.label(label), escape_control_characters(text));
        self.push(&line);
    }

    /// Prints values with one origin: on the same line if it fits, else below them.
    pub(super) fn values_with_origin(&mut self, values: &[(&str, &str)], why: &str) {
        let why = self.sanitize(why);
        let lefts: Vec<String> = values
            .iter()
            .map(|(path, value)| format!("  {:<24} {}", self.sanitize(path), self.sanitize(value)))
            .collect();
        let Some((left, before)) = lefts.split_last() else { return };
        for line in before {
            self.push(line);
        }
        let used = left.width().max(40) + 2;
        let width = self.options.width.max(40);
        if before.is_empty() && used + why.width() <= width {
            let gap = " ".repeat(used - left.width());
            let why = self.paint(DIM, &why);
            self.push(&format!("{left}{gap}{why}"));
            return;
        }
        self.push(left);
        let why = if before.is_empty() { why } else { format!("each: {why}") };
        for line in text::wrap(&why, width - 6, 0) {
            let line = self.paint(DIM, &line);
            self.push(&format!("      {line}"));
        }
    }

    pub(super) fn finish(self) -> String {
        self.out
    }
}

/// Replaces trainc's own symbols by ASCII.
fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '×' => out.push('x'),
            '–' => out.push('-'),
            '…' => out.push_str(".."),
            '≤' => out.push_str("<="),
            '≈' => out.push('~'),
            _ => out.push(character),
        }
    }
    out
}
