//! Positions and file URIs of the Language Server Protocol, and the names of files in a workspace.

use lsp_types::{Position, PositionEncodingKind, Range};
use trainc_diag::source::Span;

/// The unit of columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Bytes.
    Utf8,
    /// UTF-16 code units, the default of the protocol.
    #[default]
    Utf16,
}

impl Encoding {
    /// Returns the best encoding that a client offers.
    pub fn negotiate(offered: Option<&[PositionEncodingKind]>) -> Self {
        if offered.is_some_and(|kinds| kinds.contains(&PositionEncodingKind::UTF8)) {
            Self::Utf8
        } else {
            Self::Utf16
        }
    }

    /// Returns its name in the protocol.
    pub fn kind(self) -> PositionEncodingKind {
        match self {
            Self::Utf8 => PositionEncodingKind::UTF8,
            Self::Utf16 => PositionEncodingKind::UTF16,
        }
    }

    /// Returns the position of a byte.
    pub(super) fn position(self, text: &str, at: usize) -> Position {
        let at = text.floor_char_boundary(at.min(text.len()));
        let before = text.get(..at).unwrap_or("");
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.get(line_start..).unwrap_or("");
        let units = match self {
            Self::Utf8 => line.len(),
            Self::Utf16 => line.encode_utf16().count(),
        };
        let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Position::new(clamp(before.matches('\n').count()), clamp(units))
    }

    /// Returns the byte at a position, clamped to the end of its line.
    pub(super) fn offset(self, text: &str, position: Position) -> usize {
        let mut start = 0;
        for _ in 0..position.line {
            match text.get(start..).and_then(|rest| rest.find('\n')) {
                Some(newline) => start += newline + 1,
                None => return text.len(),
            }
        }
        let rest = text.get(start..).unwrap_or("");
        let line = rest.split('\n').next().unwrap_or("").trim_end_matches('\r');
        let mut units = 0;
        for (at, character) in line.char_indices() {
            if units >= position.character {
                return start + at;
            }
            units += match self {
                Self::Utf8 => u32::try_from(character.len_utf8()).unwrap_or(4),
                Self::Utf16 => u32::try_from(character.len_utf16()).unwrap_or(2),
            };
        }
        start + line.len()
    }

    /// Returns the range of bytes.
    pub(super) fn range(self, text: &str, start: usize, end: usize) -> Range {
        Range::new(self.position(text, start), self.position(text, end.max(start)))
    }

    /// Returns the range of a span.
    pub(super) fn span(self, text: &str, span: Span) -> Range {
        self.range(text, span.start as usize, span.end as usize)
    }
}

/// The folder relative to which files are named, as the client writes its path.
#[derive(Clone, Debug, Default)]
pub struct Folder(Option<String>);

impl Folder {
    /// Makes the folder of a path; without one, names are absolute paths.
    pub fn new(path: Option<&str>) -> Self {
        Self(path.map(|path| path.trim_end_matches('/').to_owned()))
    }

    /// Returns the name under which the text of a URI is compiled: a path, relative below the folder, or the
    /// URI in angle brackets if it is not a file.
    pub fn name(&self, uri: &str) -> String {
        let Some(path) = file_path(uri) else { return format!("<{uri}>") };
        let below = self.0.as_deref().and_then(|folder| path.strip_prefix(folder)?.strip_prefix('/'));
        below.filter(|below| !below.is_empty()).map_or_else(|| path.clone(), str::to_owned)
    }

    /// Returns the URI of a name.
    pub(super) fn uri(&self, name: &str) -> String {
        match &self.0 {
            Some(folder) if !is_absolute(name) => file_uri(&format!("{folder}/{name}")),
            _ => file_uri(name),
        }
    }
}

/// Returns whether a path is absolute, on any system.
fn is_absolute(path: &str) -> bool {
    path.starts_with(['/', '\\']) || path.get(1..2) == Some(":")
}

/// Returns the path of a `file:` URI.
pub fn file_path(uri: &str) -> Option<String> {
    let rest = uri.strip_prefix("file://")?;
    // An authority (`localhost`) may precede the path.
    let path = rest.get(rest.find('/')?..)?;
    let bytes = path.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = path.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let escaped = hex.filter(|_| byte == b'%');
        out.push(escaped.unwrap_or(byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    let path = String::from_utf8(out).ok()?;
    // `/C:/jobs/a.kdl`
    let drive = path.get(2..3) == Some(":");
    Some(if drive { path.trim_start_matches('/').to_owned() } else { path })
}

/// Returns the `file:` URI of an absolute path.
fn file_uri(path: &str) -> String {
    let path = path.replace('\\', "/");
    let mut out = String::from("file://");
    if !path.starts_with('/') {
        out.push('/');
    }
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_round_trip() {
        let text = "a\r\nä😀b\n";
        for (encoding, column) in [(Encoding::Utf8, 6), (Encoding::Utf16, 3)] {
            let at = text.find('b').unwrap();
            assert_eq!(encoding.position(text, at), Position::new(1, column));
            assert_eq!(encoding.offset(text, Position::new(1, column)), at);
        }
        assert_eq!(Encoding::Utf16.offset(text, Position::new(0, 99)), 1);
        assert_eq!(Encoding::Utf16.offset(text, Position::new(99, 0)), text.len());
    }

    #[test]
    fn file_uris_round_trip() {
        let path = "/jobs/ä b/a.kdl";
        assert_eq!(file_uri(path), "file:///jobs/%C3%A4%20b/a.kdl");
        assert_eq!(file_path(&file_uri(path)).as_deref(), Some(path));
        assert_eq!(file_path("file:///C%3A/a.kdl").as_deref(), Some("C:/a.kdl"));
        assert_eq!(file_path("untitled:Untitled-1"), None);
    }

    #[test]
    fn files_are_named_relative_to_the_folder() {
        let folder = Folder::new(Some("/srv/my jobs/"));
        for (uri, name) in [
            ("file:///srv/my%20jobs/a/b.kdl", "a/b.kdl"),
            ("file:///srv/my%20jobs2/b.kdl", "/srv/my jobs2/b.kdl"),
            ("untitled:Untitled-1", "<untitled:Untitled-1>"),
        ] {
            assert_eq!(folder.name(uri), name);
        }
        assert_eq!(folder.uri("a/b.kdl"), "file:///srv/my%20jobs/a/b.kdl");
        assert_eq!(folder.uri("/etc/b.kdl"), "file:///etc/b.kdl");
        assert_eq!(Folder::new(None).name("file:///a.kdl"), "/a.kdl");
    }
}
