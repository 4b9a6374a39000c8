//! Extracts the source lines of a problem, safe and short enough to be drawn.
//!
//! In: a problem, its sources, the available columns. Out: groups of adjacent lines, with tabs expanded,
//! control characters made visible and long lines truncated around the labels.

use super::Diagnostic;
use super::escape::{control_picture, escape_control_characters, escape_line};
use super::position::{self, Columns, Position};
use crate::source::{MASK, Source, SourceId, SourceMap};
use std::ops::Range;
use unicode_width::UnicodeWidthChar;

/// A label that spans more lines than this is drawn only on its first line.
const MAX_LINES: usize = 6;
const TAB: usize = 4;

/// Adjacent lines of one source.
#[derive(Debug)]
pub(super) struct Excerpt {
    pub(super) name: String,
    /// The position in the heading: that of the first label, or `None` for the file as a whole.
    pub(super) head: Option<Position>,
    /// The first line's number, from 0.
    pub(super) first_line: usize,
    pub(super) text: String,
    /// In the order of the text, never empty, at character boundaries; without a head they are of the file as
    /// a whole.
    pub(super) marks: Vec<Mark>,
}

/// A label inside an excerpt.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) range: Range<usize>,
    pub(super) text: String,
    pub(super) primary: bool,
}

/// A label before it is drawn, in bytes and lines (from 0, inclusive) of its source.
struct Place<'a> {
    range: Range<usize>,
    lines: Range<usize>,
    text: &'a str,
    primary: bool,
}

/// Returns the excerpts of a problem: the primary one, then the rest of its file, then other files.
pub(super) fn excerpts(sources: &SourceMap, problem: &Diagnostic, columns: usize, cut: &str) -> Vec<Excerpt> {
    let labels = problem.labels.iter().map(|label| (label.span, label.text.as_str(), false));
    let all: Vec<_> = std::iter::once((problem.span, problem.label.as_str(), true)).chain(labels).collect();
    let mut ids: Vec<SourceId> = Vec::new();
    for (span, ..) in &all {
        if !ids.contains(&span.source) {
            ids.push(span.source);
        }
    }
    let mut out = Vec::new();
    for id in ids {
        let Some(source) = sources.get(id) else {
            continue;
        };
        let mut places = Vec::new();
        let mut whole = Vec::new();
        for &(span, text, primary) in all.iter().filter(|(span, ..)| span.source == id) {
            if position::is_whole_file(span) {
                whole.push(Mark { range: 0..0, text: escape_control_characters(text), primary });
            } else {
                places.push(locate(source, position::byte_range(source, span), text, primary));
            }
        }
        let mut groups = group(places);
        // Stable: the primary group first, the others in the order of the file.
        groups.sort_by_key(|group| !group.iter().any(|place| place.primary));
        let lines = groups.iter().map(|places| excerpt(source, places, columns, cut));
        let file = (!whole.is_empty()).then(|| Excerpt {
            name: escape_line(&source.name),
            head: None,
            first_line: 0,
            text: String::new(),
            marks: whole,
        });
        if position::is_whole_file(problem.span) {
            out.extend(file.into_iter().chain(lines));
        } else {
            out.extend(lines.chain(file));
        }
    }
    out
}

fn line_of(source: &Source, at: usize) -> usize {
    position::position(source, at, Columns::Characters).line.saturating_sub(1) as usize
}

fn locate<'a>(source: &Source, range: Range<usize>, text: &'a str, primary: bool) -> Place<'a> {
    // A node's span may end with the spaces and line ends after it.
    let covered = source.text.get(range.clone()).unwrap_or("");
    let mut range = range.start..range.start + covered.trim_end().len();
    let first = line_of(source, range.start);
    let mut last = line_of(source, range.end);
    if last >= first + MAX_LINES {
        last = first;
        let rest = source.text.get(range.start..).unwrap_or("");
        range.end = range.start + rest.find('\n').unwrap_or(rest.len());
    }
    Place { range, lines: first..last, text, primary }
}

/// Groups labels whose lines, with one line of context, are adjacent or leave out a single line.
fn group(mut places: Vec<Place<'_>>) -> Vec<Vec<Place<'_>>> {
    places.sort_by_key(|place| (place.lines.start, place.range.start));
    let mut groups: Vec<Vec<Place<'_>>> = Vec::new();
    let mut end = 0;
    for place in places {
        let next = place.lines.clone();
        match groups.last_mut() {
            Some(group) if next.start <= end + 4 => group.push(place),
            _ => {
                groups.push(vec![place]);
                end = next.end;
            }
        }
        end = end.max(next.end);
    }
    groups
}

fn excerpt(source: &Source, places: &[Place<'_>], columns: usize, cut: &str) -> Excerpt {
    let first = places.iter().map(|place| place.lines.start).min().unwrap_or(0);
    let last = places.iter().map(|place| place.lines.end).max().unwrap_or(0);
    let head = places.iter().find(|place| place.primary).or(places.first());
    let head = head.map(|place| position::position(source, place.range.start, Columns::Characters));
    // The empty line after the last line end is not context.
    let after = usize::from(
        source.line(last + 1).is_some_and(|line| !line.is_empty() || source.line(last + 2).is_some()),
    );
    let first_line = first.saturating_sub(1);

    let mut text = String::new();
    let mut ends: Vec<(usize, usize)> = places.iter().map(|_| (0, 0)).collect();
    for number in first_line..=last + after {
        let (Some(line), Some(start)) = (source.line(number), source.line_start(number)) else {
            break;
        };
        let here: Vec<_> =
            places.iter().filter(|place| place.lines.start <= number && number <= place.lines.end).collect();
        let focus = here.iter().find(|place| place.primary).or(here.first()).map(|place| {
            place.range.start.saturating_sub(start)..place.range.end.saturating_sub(start).min(line.len())
        });
        let shown = Line::new(line, columns, focus, cut, &|at| source.is_hidden(start + at));
        let offset = text.len();
        text.push_str(&shown.text);
        for (place, ends) in places.iter().zip(&mut ends) {
            if place.lines.start == number {
                ends.0 = offset + shown.shown_offset(place.range.start.saturating_sub(start));
            }
            if place.lines.end == number {
                ends.1 = offset + shown.shown_offset(place.range.end.saturating_sub(start));
                if ends.1 <= ends.0 {
                    // Nothing to underline: use the character there, or the column after the line.
                    if let Some(next) = text.get(ends.0..).and_then(|rest| rest.chars().next()) {
                        ends.1 = ends.0 + next.len_utf8();
                    } else {
                        text.push(' ');
                        ends.1 = ends.0 + 1;
                    }
                }
            }
        }
        text.push('\n');
    }
    let marks = places.iter().zip(ends).map(|(place, (start, end))| Mark {
        range: start..end,
        text: escape_control_characters(place.text),
        primary: place.primary,
    });
    let mut marks: Vec<Mark> = marks.collect();
    marks.sort_by_key(|mark| (mark.range.start, mark.range.end));
    Excerpt { name: escape_line(&source.name), head, first_line, text, marks }
}

/// One line as it is shown, with the offset of each of its bytes.
struct Line {
    text: String,
    /// From a byte of the line to a byte of the text, growing in both.
    map: Vec<(usize, usize)>,
}

impl Line {
    fn new(
        line: &str,
        columns: usize,
        focus: Option<Range<usize>>,
        cut: &str,
        is_hidden: &dyn Fn(usize) -> bool,
    ) -> Self {
        let mut cells: Vec<(usize, char, usize)> = Vec::with_capacity(line.len());
        let mut width = 0;
        for (at, character) in line.char_indices() {
            let character = if is_hidden(at) { MASK } else { character };
            let columns = match character {
                '\t' => TAB - width % TAB,
                _ => control_picture(character).width().unwrap_or(1),
            };
            cells.push((at, character, columns));
            width += columns;
        }
        let window = if width <= columns { 0..width } else { visible_columns(&cells, width, columns, focus) };
        let mut text = String::new();
        let mut map = Vec::new();
        let mut column = 0;
        if window.start > 0 {
            text.push_str(cut);
        }
        for &(at, character, columns) in &cells {
            if window.start <= column && column < window.end {
                map.push((at, text.len()));
                if character == '\t' {
                    text.extend(std::iter::repeat_n(' ', columns));
                } else {
                    text.push(control_picture(character));
                }
            } else if column >= window.end {
                // Truncated text maps to the truncation mark.
                map.push((at, text.len()));
                text.push_str(cut);
                break;
            } else {
                map.push((at, 0));
            }
            column += columns;
        }
        if window.end >= width {
            map.push((line.len(), text.len()));
        }
        Self { text, map }
    }

    /// Returns the offset at which a byte of the line is shown.
    fn shown_offset(&self, at: usize) -> usize {
        let found = self.map.get(self.map.partition_point(|&(from, _)| from < at));
        found.map_or(self.text.len(), |&(_, to)| to)
    }
}

/// Returns the columns of a line to show: around the focus, or from its start if it is too long.
fn visible_columns(
    cells: &[(usize, char, usize)],
    width: usize,
    columns: usize,
    focus: Option<Range<usize>>,
) -> Range<usize> {
    let column_of =
        |byte: usize| cells.iter().take_while(|cell| cell.0 < byte).map(|cell| cell.2).sum::<usize>();
    let focus = focus.map_or(0..0, |bytes| column_of(bytes.start)..column_of(bytes.end));
    let spare = columns.saturating_sub(focus.len());
    let start = focus.start.saturating_sub((spare / 2).max(columns / 8)).min(width.saturating_sub(columns));
    start..(start + columns).min(width)
}
