//! Sources of text (files, standard input and command-line overrides), and spans inside them.
//!
//! In: the text of each source, once. Out: small copyable [`Span`]s that any later stage can hold, and line
//! and column numbers for reports. Independent of KDL and manifests.

use crate::masking::{self, FoundCredential};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// The replacement of each character that must not be shown.
pub const MASK: char = '*';

/// Returns whether a source of this name is a file: `<stdin>` and `<--set cluster.nodes=4>` are not.
pub fn is_file(name: &str) -> bool {
    !(name.is_empty() || name.starts_with('<') && name.ends_with('>'))
}

/// The identifier of a source in a [`SourceMap`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u32);

/// A range of bytes in a source; the end is exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The source of the offsets.
    pub source: SourceId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// Makes a span from byte offsets; offsets above 4 GiB are clamped (sources are much smaller).
    pub fn new(source: SourceId, start: usize, end: usize) -> Self {
        let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self { source, start: clamp(start), end: clamp(end.max(start)) }
    }

    /// Makes an empty span at the start of a source, for problems of the file as a whole.
    pub fn whole(source: SourceId) -> Self {
        Self { source, start: 0, end: 0 }
    }

    /// Returns the smallest span that covers both, if they are in one source; else this one.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        if self.source == other.source {
            Self { source: self.source, start: self.start.min(other.start), end: self.end.max(other.end) }
        } else {
            self
        }
    }

    /// Returns the length in bytes.
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Returns whether the other span is inside this one.
    pub fn covers(self, other: Self) -> bool {
        self.source == other.source && self.start <= other.start && other.end <= self.end
    }

    /// Returns whether the span is empty.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// A value and its span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Its span.
    pub span: Span,
}

impl<T> Spanned<T> {
    /// Pairs a value with its span.
    pub fn new(value: T, span: Span) -> Self {
        Self { value, span }
    }
}

/// One source: a file, standard input, or the text of a `--set`.
#[derive(Clone, Debug)]
pub struct Source {
    /// The displayed name: a path as the user gave it, `<stdin>`, or `<--set cluster.nodes=4>`.
    pub name: Arc<str>,
    /// The whole text. The caller has reported and replaced bytes that are not UTF-8.
    pub text: Arc<str>,
    line_starts: Arc<[u32]>,
    /// The credentials in the text, found when they are first needed.
    found: OnceLock<Arc<[FoundCredential]>>,
    /// Further credentials, which only the rules recognise.
    hidden: Vec<FoundCredential>,
}

impl Source {
    /// Returns line and column, both from 1; the column counts characters.
    pub fn line_column(&self, offset: u32) -> (u32, u32) {
        let line = self.line_starts.partition_point(|&start| start <= offset).saturating_sub(1);
        let start = self.line_starts.get(line).copied().unwrap_or(0);
        let mark = |c| c == '\u{feff}' && start == 0;
        let column = self
            .text
            .get(start as usize..(offset as usize).min(self.text.len()))
            // Editors do not count a byte order mark.
            .map_or(0, |before| before.trim_start_matches(mark).chars().count());
        let one_based = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).saturating_add(1);
        (one_based(line), one_based(column))
    }

    /// Returns the first byte of the line (from 0), or `None` past the last.
    pub fn line_start(&self, index: usize) -> Option<usize> {
        self.line_starts.get(index).map(|&start| start as usize)
    }

    /// Iterates over the credentials in the text.
    fn credentials(&self) -> impl Iterator<Item = &FoundCredential> {
        let find = || masking::find_credentials(&self.name, &self.text).into();
        self.found.get_or_init(find).iter().chain(&self.hidden)
    }

    /// Returns whether the byte is part of a credential, which must not be shown.
    pub fn is_hidden(&self, at: usize) -> bool {
        self.credentials().any(|one| one.range.contains(&at))
    }

    /// Returns the text of the line (from 0) with hidden characters masked.
    pub fn masked_line(&self, index: usize) -> Option<String> {
        let start = self.line_start(index)?;
        let mask = |(at, c)| if self.is_hidden(start + at) { MASK } else { c };
        Some(self.line(index)?.char_indices().map(mask).collect())
    }

    /// Returns the text of the line (from 0) without its line end, or `None` past the last.
    pub fn line(&self, index: usize) -> Option<&str> {
        let start = *self.line_starts.get(index)? as usize;
        let end = self.line_starts.get(index + 1).map_or(self.text.len(), |&next| next as usize);
        self.text.get(start..end).map(|line| line.trim_end_matches(['\n', '\r']))
    }
}

/// Masks the credentials in the name of a source that is no file, as of a `--set`.
fn mask_name(name: &str) -> Arc<str> {
    let found = masking::find_credentials("", name.trim_matches(['<', '>']));
    masking::mask(name, found.iter().flat_map(|one| &one.values).map(String::as_str)).into()
}

/// All sources of one run, in the order in which they were added.
///
/// Threads number their sources independently: each fills a [`SourceMap::with_part_number`], and one map
/// absorbs the parts.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    part: u32,
    sources: Vec<Source>,
    absorbed: Vec<SourceMap>,
    /// The texts of the credentials of all sources, collected when they are first needed.
    credentials: OnceLock<Arc<[String]>>,
}

/// The bits of an identifier that count inside a part; the others number up to 16,383 parts.
const PART_BITS: u32 = 18;

impl SourceMap {
    /// Makes an empty map for the part of that number; [`SourceMap::default`] is part 0.
    pub fn with_part_number(number: u32) -> Self {
        Self { part: number, ..Self::default() }
    }

    /// Adds the sources of another part.
    pub fn absorb(&mut self, mut other: Self) {
        self.credentials.take();
        self.absorbed.append(&mut other.absorbed);
        self.absorbed.push(other);
    }

    fn id(&self, at: usize) -> SourceId {
        SourceId((self.part << PART_BITS) | u32::try_from(at).unwrap_or(u32::MAX))
    }

    /// Adds a source and returns its identifier.
    pub fn add(&mut self, name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> SourceId {
        let text: Arc<str> = text.into();
        let id = self.id(self.sources.len());
        let mut line_starts = vec![0];
        for (at, _) in text.match_indices('\n') {
            line_starts.push(u32::try_from(at + 1).unwrap_or(u32::MAX));
        }
        let name: Arc<str> = name.into();
        let name = if is_file(&name) { name } else { mask_name(&name) };
        self.credentials.take();
        self.sources.push(Source {
            name,
            text,
            line_starts: line_starts.into(),
            found: OnceLock::new(),
            hidden: Vec::new(),
        });
        id
    }

    /// Adds a source, unless it has one of this name and text: the jobs of a sweep read the same files.
    pub fn add_once(&mut self, name: &str, text: &str) -> SourceId {
        let known = self.iter().find(|(_, source)| *source.name == *name && *source.text == *text);
        match known.map(|(id, _)| id) {
            Some(id) => id,
            None => self.add(name.to_owned(), text.to_owned()),
        }
    }

    /// Returns a source, or `None` for an identifier of another map.
    pub fn get(&self, id: SourceId) -> Option<&Source> {
        let part = id.0 >> PART_BITS;
        let map = if part == self.part { self } else { self.absorbed.iter().find(|map| map.part == part)? };
        map.sources.get((id.0 & ((1 << PART_BITS) - 1)) as usize)
    }

    /// Returns the text of a span; empty if the span is from another map.
    pub fn slice(&self, span: Span) -> &str {
        self.get(span.source)
            .and_then(|source| source.text.get(span.start as usize..span.end as usize))
            .unwrap_or("")
    }

    /// Hides the text of a span, except quotes around it, from all output: a credential that only a rule
    /// recognises. The same text in the name of its source, as of a `--set`, is masked too.
    pub fn hide(&mut self, span: Span) {
        self.credentials.take();
        let part = span.source.0 >> PART_BITS;
        let map = if part == self.part {
            Some(self)
        } else {
            self.absorbed.iter_mut().find(|map| map.part == part)
        };
        let at = (span.source.0 & ((1 << PART_BITS) - 1)) as usize;
        let Some(source) = map.and_then(|map| map.sources.get_mut(at)) else { return };
        let inner = masking::content(&source.text, span.start as usize..span.end as usize);
        let one = FoundCredential::new(&source.text, inner);
        if !is_file(&source.name) {
            source.name = masking::mask(&source.name, one.values.iter().map(String::as_str)).into();
        }
        source.hidden.push(one);
    }

    /// Finds the credentials of all sources now, so that threads share the work.
    pub fn find_credentials(&self) {
        self.iter().for_each(|(_, source)| _ = source.credentials().next());
    }

    /// Masks the credentials of all sources in a text that is shown, and whatever has the form of one.
    /// Digests, ARNs and addresses stay.
    pub fn mask(&self, text: &str) -> String {
        let collect = || {
            let found = self.iter().flat_map(|(_, source)| source.credentials());
            let all: BTreeSet<&str> = found.flat_map(|one| &one.values).map(String::as_str).collect();
            all.into_iter().map(str::to_owned).collect()
        };
        let values = self.credentials.get_or_init(collect);
        masking::mask(text, values.iter().map(String::as_str))
    }

    /// Masks like [`Self::mask`] in the strings of a JSON document.
    pub fn mask_json(&self, json: &str) -> String {
        masking::mask_json(json, |text| self.mask(text))
    }

    /// Renames every source.
    pub fn rename(&mut self, name: impl Fn(&str) -> String) {
        for source in self.absorbed.iter_mut().flat_map(|map| &mut map.sources).chain(&mut self.sources) {
            source.name = name(&source.name).into();
        }
    }

    /// Iterates over all sources with their identifiers.
    pub fn iter(&self) -> impl Iterator<Item = (SourceId, &Source)> {
        std::iter::once(self)
            .chain(&self.absorbed)
            .flat_map(|map| map.sources.iter().enumerate().map(|(at, source)| (map.id(at), source)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_recognised() {
        let is_one = |name: &&str| is_file(name);
        let all = ["a.kdl", "<b>.kdl", "<stdin>", "<--set a=1>", ""];
        assert_eq!(all.iter().copied().filter(is_one).collect::<Vec<_>>(), ["a.kdl", "<b>.kdl"]);
    }

    #[test]
    fn line_and_column_count_from_one_in_characters() {
        let mut map = SourceMap::default();
        let id = map.add("a.kdl", "job \"ä\" {\n  régime 1\n}\n");
        let source = map.get(id).unwrap();
        assert_eq!(source.line_column(0), (1, 1));
        assert_eq!(source.line_column(7), (1, 7)); // after the two bytes of ä
        assert_eq!(source.line_column(11), (2, 1));
        assert_eq!(source.line(1), Some("  régime 1"));
    }

    #[test]
    fn hidden_text_is_masked() {
        let mut map = SourceMap::default();
        let id = map.add("<--set a=\"geheim\">", "one\na \"geheim\" b\n");
        map.hide(Span::new(id, 6, 14));
        let source = map.get(id).unwrap();
        assert_eq!(source.masked_line(1).as_deref(), Some("a \"******\" b"));
        assert_eq!(source.masked_line(0).as_deref(), Some("one"));
        assert_eq!(&*source.name, "<--set a=\"***\">");
        assert_eq!(map.mask("x geheim y, geheimnis"), "x *** y, geheimnis");
        assert_eq!(map.slice(Span::new(id, 7, 13)), "geheim", "the text itself is unchanged");
    }

    /// Also after a text was masked with the credentials that were known until then.
    #[test]
    fn what_is_added_or_hidden_later_is_masked() {
        let text = "geheim, verborgen, versteckt";
        let mut map = SourceMap::default();
        let own = map.add("a.kdl", "a \"geheim\"\n");
        assert_eq!(map.mask(text), text);
        map.hide(Span::new(own, 2, 10));
        assert_eq!(map.mask(text), "***, verborgen, versteckt");
        let mut part = SourceMap::with_part_number(1);
        let (first, second) =
            (part.add("b.kdl", "b \"verborgen\"\n"), part.add("c.kdl", "c \"versteckt\"\n"));
        part.hide(Span::new(first, 2, 13));
        let copy = map.clone();
        map.absorb(part);
        assert_eq!(map.mask(text), "***, ***, versteckt");
        map.hide(Span::new(second, 2, 13));
        assert_eq!(map.mask(text), "***, ***, ***");
        assert_eq!(copy.mask(text), "***, verborgen, versteckt", "a copy has its own");
        assert_eq!(map.mask("hunter2horse"), "hunter2horse");
        map.add("d.kdl", "secret \"KEY\" password=\"hunter2horse\"\n");
        assert_eq!(map.mask("hunter2horse"), "***");
    }

    #[test]
    fn a_byte_order_mark_is_not_counted() {
        let mut map = SourceMap::default();
        let id = map.add("a.kdl", "\u{feff}job\n");
        let source = map.get(id).unwrap();
        assert_eq!((source.line_column(3), source.line_column(5)), ((1, 1), (1, 3)));
        assert_eq!(source.line_column(0), (1, 1));
    }

    #[test]
    fn parts_keep_their_identifiers_when_absorbed() {
        let mut all = SourceMap::default();
        let first = all.add("a.kdl", "a");
        let (mut one, mut two) = (SourceMap::with_part_number(1), SourceMap::with_part_number(2));
        let (b, c) = (one.add("b.kdl", "b"), two.add("c.kdl", "c"));
        assert!(all.get(b).is_none() && one.get(c).is_none());
        all.absorb(one);
        all.absorb(two);
        let text = |id| all.slice(Span::new(id, 0, 1));
        assert_eq!((text(first), text(b), text(c)), ("a", "b", "c"));
        assert_eq!(all.iter().map(|(id, _)| id).collect::<Vec<_>>(), [first, b, c]);
    }

    #[test]
    fn spans_are_joined_only_in_one_source() {
        let mut map = SourceMap::default();
        let (a, b) = (map.add("a", "abcdef"), map.add("b", "xyz"));
        assert_eq!(map.slice(Span::new(a, 1, 2).to(Span::new(a, 3, 5))), "bcde");
        assert_eq!(Span::new(a, 1, 2).to(Span::new(b, 0, 1)), Span::new(a, 1, 2));
    }
}
