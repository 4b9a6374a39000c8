//! Converts spans to lines and columns, and paths to paths relative to the repository root.
//!
//! Positions are always inside the text, even for spans that are not.

use crate::source::{Source, SourceMap, Span, is_file};
use std::ops::Range;

/// Line and column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) line: u32,
    pub(super) column: u32,
}

/// The unit of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Columns {
    Characters,
    Utf16,
}

/// Returns the bytes of a span, clamped to the text and to character boundaries.
pub(super) fn byte_range(source: &Source, span: Span) -> Range<usize> {
    let start = source.text.floor_char_boundary(span.start as usize);
    start..source.text.ceil_char_boundary(span.end as usize).max(start)
}

/// Returns the line and column of a byte.
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

/// Returns the start and the exclusive end of a span.
pub(super) fn start_and_end(source: &Source, span: Span, columns: Columns) -> (Position, Position) {
    let range = byte_range(source, span);
    (position(source, range.start, columns), position(source, range.end, columns))
}

/// Returns the name of a span's source; empty if the span is from another map.
pub(super) fn source_name(sources: &SourceMap, span: Span) -> &str {
    sources.get(span.source).map_or("", |source| &*source.name)
}

/// Returns whether a span refers to the whole file ([`Span::whole`]).
pub(super) fn is_whole_file(span: Span) -> bool {
    span.start == 0 && span.end == 0
}

/// The directories for making paths relative to the repository root. If empty, paths are kept as the user
/// gave them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Paths<'a> {
    /// The absolute directory that relative names start from.
    pub current: &'a str,
    /// The absolute repository root.
    pub root: &'a str,
}

impl Paths<'_> {
    /// Returns the path relative to the root, with forward slashes and without dots; unchanged outside of the
    /// root.
    pub(super) fn relative(&self, name: &str) -> String {
        if !is_file(name) {
            return name.to_owned();
        }
        let name = name.replace('\\', "/");
        if self.root.is_empty() {
            return name.strip_prefix("./").unwrap_or(&name).to_owned();
        }
        let absolute = if is_absolute(&name) {
            normalised_components("", &name)
        } else {
            normalised_components(&self.current.replace('\\', "/"), &name)
        };
        let root = normalised_components("", &self.root.replace('\\', "/"));
        match absolute.strip_prefix(root.as_slice()) {
            Some(inside) if !inside.is_empty() => inside.join("/"),
            _ => name,
        }
    }
}

fn is_absolute(name: &str) -> bool {
    name.starts_with('/') || name.get(1..3) == Some(":/")
}

/// Returns the components of a path, with dots resolved lexically (without symbolic links).
fn normalised_components(base: &str, name: &str) -> Vec<String> {
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
            byte_range(source, Span { source: id, start: 900, end: 3 }),
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
