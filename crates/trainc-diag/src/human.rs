//! Renders problems for a terminal: heading, snippets, help and notes.
//!
//! `miette` draws the lines and labels of an [`Excerpt`]; heading, help and notes are written here. The
//! caller gives the width of the terminal and whether it supports colour and Unicode.

use super::escape::{escape_control_characters, escape_line};
use super::excerpt::{Excerpt, Mark, excerpts};
use super::position::{self, Columns};
use super::{Counts, Diagnostic, ReportedProblem, Run, Severity};
use crate::source::SourceMap;
use crate::text;
use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteSpanContents, SourceSpan};
use std::fmt;
use std::fmt::Write as _;
use unicode_width::UnicodeWidthStr;

/// The capabilities of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Write colour codes.
    pub color: bool,
    /// Draw lines with Unicode characters.
    pub unicode: bool,
    /// The width in columns. Long words and line numbers may exceed it.
    pub width: usize,
    /// Draw notes like errors and warnings; else those of one manifest are one line each, without a snippet,
    /// and those of several manifests are only counted.
    pub notes: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { color: false, unicode: true, width: 100, notes: false }
    }
}

const BOLD: &str = "1";
const HELP: &str = "1;36";
const NOTE: &str = "1;34";

impl Options {
    /// Puts a text into a style, if colours are written.
    pub fn paint(self, style: &str, text: &str) -> String {
        if self.color && !style.is_empty() && !text.is_empty() {
            format!("\u{1b}[{style}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    pub(super) fn width_at_least_40(self) -> usize {
        self.width.max(40)
    }
}

fn style(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "1;31",
        Severity::Warning => "1;33",
        Severity::Note => NOTE,
    }
}

/// The most problems that are drawn without a list of them above.
const MOST_WITHOUT_LIST: usize = 10;

/// Renders each problem of a run once, separated by empty lines, and the [`summary`]. Many problems begin with
/// a list: a line each.
pub fn render(run: &Run<'_>, options: Options) -> String {
    let shown = run.problems();
    let mut out = String::new();
    let is_drawn = |one: &&ReportedProblem<'_>| options.notes || one.problem.severity != Severity::Note;
    if shown.iter().filter(is_drawn).count() > MOST_WITHOUT_LIST {
        for one in shown.iter().filter(is_drawn) {
            out.push_str(&list_line(run.sources, &one.problem, options));
        }
        out.push('\n');
    }
    for one in shown.iter().filter(is_drawn) {
        out.push_str(&draw(run.sources, &one.problem, one.also_in_note().as_deref(), options));
        out.push('\n');
    }
    let notes: Vec<&ReportedProblem<'_>> = shown.iter().filter(|one| !is_drawn(one)).collect();
    let one_manifest = run.manifests.len() == 1;
    if one_manifest {
        for one in &notes {
            out.push_str(&brief(run.sources, &one.problem, options));
        }
        if !notes.is_empty() {
            out.push('\n');
        }
    }
    out.push_str(&summary(run.counts(&shown), run.manifests.len(), &shown, options));
    if !notes.is_empty() {
        out.push_str(if one_manifest {
            "notes: run with `-v` for details\n"
        } else {
            "notes: run with `-v` to show them\n"
        });
    }
    out
}

/// Renders place, code and message of a problem in one line, cut between words at the width of the page.
fn list_line(sources: &SourceMap, problem: &Diagnostic, options: Options) -> String {
    let line = super::short::problem(sources, &Diagnostic { help: None, ..problem.clone() }, None);
    let cut = if options.unicode { "…" } else { "..." };
    match text::wrap(&line, options.width_at_least_40() - cut.len(), 0).as_slice() {
        [first, _, ..] => format!("{first}{cut}\n"),
        _ => line + "\n",
    }
}

/// Renders a problem without its snippet and its notes.
fn brief(sources: &SourceMap, problem: &Diagnostic, options: Options) -> String {
    let title = sources.get(problem.span.source).map_or_else(
        || problem.code.name.to_owned(),
        |source| {
            let at = position::position(source, problem.span.start as usize, Columns::Characters);
            escape_line(&format!("{}:{}:{}", source.name, at.line, at.column))
        },
    );
    let mut out = render_title(problem, &title, options);
    if let Some(help) = &problem.help {
        out.push_str(&paragraph("help", HELP, help, options));
    }
    out
}

/// Renders one problem. `also` is a last note, such as the other manifests that have it.
pub fn problem(sources: &SourceMap, problem: &Diagnostic, also: Option<&str>, options: Options) -> String {
    draw(sources, &problem.masked(sources), also, options)
}

/// Renders a problem whose texts are masked.
pub(super) fn draw(
    sources: &SourceMap,
    problem: &Diagnostic,
    also: Option<&str>,
    options: Options,
) -> String {
    let mut out = heading(problem, options);
    let cut = if options.unicode { "…" } else { "..." };
    // Room for the line number, two bars with spaces, and two truncation marks.
    let columns = options.width_at_least_40().saturating_sub(16);
    for excerpt in excerpts(sources, problem, columns, cut) {
        out.push_str(&draw_excerpt(excerpt, problem.severity, columns, options));
    }
    if let Some(help) = &problem.help {
        out.push_str(&paragraph("help", HELP, help, options));
    }
    for note in problem.notes.iter().map(crate::Note::as_str).chain(also) {
        out.push_str(&paragraph("note", NOTE, note, options));
    }
    out
}

/// Renders the last lines of a run: the number of problems, and the commands that explain them.
pub fn summary(counts: Counts, checked: usize, shown: &[ReportedProblem<'_>], options: Options) -> String {
    let worst = shown.iter().map(|one| one.problem.severity).max();
    let mut out = options.paint(worst.map_or(BOLD, style), &counts.sentence(checked)) + "\n";
    let mut codes: Vec<&str> = Vec::new();
    for one in super::run::worst_first(shown.to_vec()) {
        if !codes.contains(&one.problem.code.id) {
            codes.push(one.problem.code.id);
        }
    }
    if let Some((first, rest)) = codes.split_first() {
        let also = match rest {
            [] => String::new(),
            few if few.len() <= 5 => format!("  (also {})", few.join(", ")),
            [a, b, c, more @ ..] => format!("  (also {a}, {b}, {c} and {} more)", more.len()),
            _ => String::new(),
        };
        let _ = writeln!(out, "explain: trainc explain {first}{also}");
    }
    out
}

fn heading(problem: &Diagnostic, options: Options) -> String {
    render_title(problem, problem.code.name, options)
}

/// Renders the code, a title and the message.
fn render_title(problem: &Diagnostic, title: &str, options: Options) -> String {
    let code = format!("{}[{}]", problem.severity.word(), problem.code.id);
    let taken = code.len() + title.width() + 3;
    let mut out = format!("{} {title}: ", options.paint(style(problem.severity), &code));
    for (at, line) in
        text::wrap(&escape_line(&problem.text()), options.width_at_least_40().saturating_sub(2), taken)
            .iter()
            .enumerate()
    {
        if at > 0 {
            out.push_str("  ");
        }
        out.push_str(&options.paint(BOLD, line));
        out.push('\n');
    }
    out
}

fn paragraph(word: &str, style: &str, body: &str, options: Options) -> String {
    let mut out = String::new();
    for (at, line) in
        text::wrap(&escape_control_characters(body), options.width_at_least_40().saturating_sub(8), 0)
            .iter()
            .enumerate()
    {
        let margin =
            if at == 0 { format!("  {} ", options.paint(style, &format!("{word}:"))) } else { " ".repeat(8) };
        out.push_str(format!("{margin}{line}").trim_end());
        out.push('\n');
    }
    out
}

fn draw_excerpt(mut excerpt: Excerpt, severity: Severity, columns: usize, options: Options) -> String {
    if excerpt.head.is_none() {
        return draw_whole_file(&excerpt, options);
    }
    for mark in &mut excerpt.marks {
        wrap_label(mark, &excerpt.text, columns);
    }
    let mut theme = match (options.unicode, options.color) {
        (true, true) => GraphicalTheme::unicode(),
        (true, false) => GraphicalTheme::unicode_nocolor(),
        (false, true) => GraphicalTheme::ascii(),
        (false, false) => GraphicalTheme::none(),
    };
    let styles = &mut theme.styles;
    let primary = match severity {
        Severity::Error => styles.error,
        Severity::Warning => styles.warning,
        Severity::Note => styles.advice,
    };
    // One style per label in the order of the text; the primary label in the colour of the severity.
    styles.highlights =
        excerpt.marks.iter().map(|mark| if mark.primary { primary } else { styles.advice }).collect();
    let handler = GraphicalReportHandler::new_themed(theme)
        .with_width(options.width_at_least_40())
        .with_links(false)
        .without_syntax_highlighting();
    let mut drawn = String::new();
    let drawing = Drawing(excerpt);
    if handler.render_report(&mut drawn, &drawing).is_err() {
        return draw_whole_file(&drawing.0, options);
    }
    let mut out = String::new();
    // The first line is the heading that `miette` makes of an empty message.
    for line in drawn.lines().skip(1) {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Draws a place without lines, the file as a whole; with a box only if it has labels.
fn draw_whole_file(excerpt: &Excerpt, options: Options) -> String {
    let (corner, bar, end, alone) = if options.unicode {
        ("╭─", "│", "╰────", "──")
    } else {
        (",-", "|", "`----", "--")
    };
    let at = excerpt.head.map_or(String::new(), |head| format!(":{}:{}", head.line, head.column));
    let lines: Vec<&str> = excerpt.marks.iter().flat_map(|mark| mark.text.lines()).collect();
    if lines.is_empty() {
        return format!("   {alone}[{}{at}]\n", excerpt.name);
    }
    let mut out = format!("   {corner}[{}{at}]\n", excerpt.name);
    for line in lines {
        let _ = writeln!(out, "   {bar} {line}");
    }
    let _ = writeln!(out, "   {end}");
    out
}

/// Wraps a label that would go far past the right edge.
fn wrap_label(mark: &mut Mark, text: &str, columns: usize) {
    let before = text.get(..mark.range.start).unwrap_or("");
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let taken = before.get(line_start..).unwrap_or("").width() + 4;
    mark.text = text::wrap(&mark.text, columns.saturating_sub(taken).max(32), 0).join("\n");
}

/// An excerpt as a `miette` report without a message, which is also its source code.
#[derive(Debug)]
struct Drawing(Excerpt);

impl fmt::Display for Drawing {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

impl std::error::Error for Drawing {}

impl miette::Diagnostic for Drawing {
    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        Some(self)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(self.0.marks.iter().map(|mark| {
            let span = SourceSpan::from(mark.range.clone());
            let text = (!mark.text.is_empty()).then(|| mark.text.clone());
            if mark.primary {
                LabeledSpan::new_primary_with_span(text, span)
            } else {
                LabeledSpan::new_with_span(text, span)
            }
        })))
    }
}

impl miette::SourceCode for Drawing {
    /// Returns the whole excerpt, which contains its context; without context only the heading is requested.
    fn read_span<'a>(
        &'a self,
        _: &SourceSpan,
        before: usize,
        _: usize,
    ) -> Result<Box<dyn miette::SpanContents<'a> + 'a>, miette::MietteError> {
        let Excerpt { name, head, first_line, text, .. } = &self.0;
        let (line, column) = match head {
            Some(head) if before == 0 => {
                (head.line.saturating_sub(1) as usize, head.column.saturating_sub(1) as usize)
            }
            _ => (*first_line, 0),
        };
        let span = SourceSpan::from(0..text.len());
        let lines = text.lines().count();
        Ok(Box::new(MietteSpanContents::new_named(name.clone(), text.as_bytes(), span, line, column, lines)))
    }
}

#[cfg(test)]
#[path = "human_tests.rs"]
mod tests;
