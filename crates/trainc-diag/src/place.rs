//! Places as the formats name them: lines and columns, and paths relative to the repository's root.
//!
//! In: spans and source names. Out: positions inside the text, whatever the span says, and clean paths.

use crate::source::{Source, SourceMap, Span, is_file};
use std::ops::Range;

/// Line and column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) line: u32,
    pub(super) column: u32,
}

/// What a column counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Columns {
    Characters,
    Utf16,
}

/// The bytes of a span, moved into the text and onto character boundaries.
pub(super) fn range(source: &Source, span: Span) -> Range<usize> {
    let start = source.text.floor_char_boundary(span.start as usize);
    start..source.text.ceil_char_boundary(span.end as usize).max(start)
}

/// Where a byte stands.
pub(super) fn position(source: &Source, at: usize, columns: Columns) -> Position {
    let at = source.text.floor_char_boundary(at);
    let (line, column) = source.line_column(u32::try_from(at).unwrap_or(u32::MAX));
    match columns {
        Columns::Characters => Position { line, column },
        Columns::Utf16 => {
            let before = source.text.get(..at).unwrap_or("");
            let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
            let units = before.get(line_start..).unwrap_or("").encode_utf16().count();
            Position { line, column: u32::try_from(units).unwrap_or(u32::MAX).saturating_add(1) }
        }
    }
}

/// First and last position of a span, the last exclusive.
pub(super) fn ends(source: &Source, span: Span, columns: Columns) -> (Position, Position) {
    let range = range(source, span);
    (position(source, range.start, columns), position(source, range.end, columns))
}

/// The name of the source that a span is in; empty if the span is of another map.
pub(super) fn name(sources: &SourceMap, span: Span) -> &str {
    sources.get(span.source).map_or("", |source| &*source.name)
}

/// Whether a span means the file as a whole ([`Span::whole`]).
pub(super) fn is_whole(span: Span) -> bool {
    span.start == 0 && span.end == 0
}

/// Where paths start and where they should start instead. Empty: leave them as the user gave them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Paths<'a> {
    /// The directory, absolute, that relative names are relative to.
    pub current: &'a str,
    /// The repository's root, absolute.
    pub root: &'a str,
}

impl Paths<'_> {
    /// The path relative to the root, with slashes and without dots; outside the root as it was given.
    pub(super) fn relative(&self, name: &str) -> String {
        if !is_file(name) {
            return name.to_owned();
        }
        let name = name.replace('\\', "/");
        if self.root.is_empty() {
            return name.strip_prefix("./").unwrap_or(&name).to_owned();
        }
        let absolute = if is_absolute(&name) {
            parts("", &name)
        } else {
            parts(&self.current.replace('\\', "/"), &name)
        };
        let root = parts("", &self.root.replace('\\', "/"));
        match absolute.strip_prefix(root.as_slice()) {
            Some(inside) if !inside.is_empty() => inside.join("/"),
            _ => name,
        }
    }
}

fn is_absolute(name: &str) -> bool {
    name.starts_with('/') || name.get(1..3) == Some(":/")
}

/// The names along a path, dots resolved by the letter (no symbolic links).
fn parts(base: &str, name: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for part in base.split('/').chain(name.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                out.pop();
            }
            _ => out.push(part.to_owned()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_or_utf16_units() {
        let mut map = SourceMap::default();
        let id = map.add("a.kdl", "x\r\nä😀b\n");
        let source = map.get(id).unwrap();
        let at = source.text.find('b').unwrap();
        assert_eq!(position(source, at, Columns::Characters), Position { line: 2, column: 3 });
        assert_eq!(position(source, at, Columns::Utf16), Position { line: 2, column: 4 });
        assert_eq!(position(source, at - 1, Columns::Utf16), Position { line: 2, column: 2 }); // inside the four bytes
        assert_eq!(position(source, 999, Columns::Utf16), Position { line: 3, column: 1 });
        assert_eq!(
            range(source, Span { source: id, start: 900, end: 3 }),
            source.text.len()..source.text.len()
        );
    }

    #[test]
    fn paths_become_relative_to_the_root() {
        let paths = Paths { current: "/repo/jobs", root: "/repo" };
        assert_eq!(paths.relative("a.kdl"), "jobs/a.kdl");
        assert_eq!(paths.relative("./x/../a.kdl"), "jobs/a.kdl");
        assert_eq!(paths.relative("../base.kdl"), "base.kdl");
        assert_eq!(paths.relative("/repo/b.kdl"), "b.kdl");
        assert_eq!(paths.relative("/elsewhere/b.kdl"), "/elsewhere/b.kdl");
        assert_eq!(paths.relative("<stdin>"), "<stdin>");
        assert_eq!(Paths::default().relative("./a.kdl"), "a.kdl");
        let windows = Paths { current: "C:\\repo\\jobs", root: "C:\\repo" };
        assert_eq!(windows.relative("a.kdl"), "jobs/a.kdl");
    }
}
