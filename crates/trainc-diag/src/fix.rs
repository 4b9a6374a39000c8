//! Applies the fixes of problems, for `check --fix`.
//!
//! In: problems and sources. Out: new texts, and the fixes that were skipped with the reason. Does not write
//! files.

use super::{Diagnostic, Fix};
use crate::source::{SourceId, SourceMap, is_file};
use std::collections::BTreeMap;

/// The result of applying fixes.
#[derive(Clone, Debug, Default)]
pub struct FixResult<'a> {
    /// The changed texts; for a file that was read twice, under its first source.
    pub texts: BTreeMap<SourceId, String>,
    /// The problems that were fixed.
    pub applied: Vec<&'a Diagnostic>,
    /// The problems whose fix was skipped.
    pub skipped: Vec<(&'a Diagnostic, SkipReason)>,
}

/// The reason why a fix was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// Another fix changes the same bytes; run again after it.
    Overlap,
    /// The span is in standard input or in a command-line override.
    NotAFile,
    /// The span is outside of the text.
    OutOfText,
}

/// Applies the fixes of the problems, or only those of one code (its ID or name). Problems without a fix are
/// ignored.
///
/// Of two overlapping fixes, the one that starts first is applied, then the one reported first. A fix that is
/// reported twice, because two manifests share a layer, is applied once.
pub fn apply<'a>(
    sources: &SourceMap,
    problems: impl IntoIterator<Item = &'a Diagnostic>,
    code: Option<&str>,
) -> FixResult<'a> {
    let mut out = FixResult::default();
    let mut edits: BTreeMap<SourceId, Vec<(&'a Fix, &'a Diagnostic)>> = BTreeMap::new();
    for problem in problems {
        let wanted = code.is_none_or(|code| problem.code.is_called(code));
        let Some(fix) = problem.fix.as_ref().filter(|_| wanted) else {
            continue;
        };
        let Some(source) = sources.get(fix.span.source) else {
            out.skipped.push((problem, SkipReason::OutOfText));
            continue;
        };
        let (start, end) = (fix.span.start as usize, fix.span.end as usize);
        if !is_file(&source.name) {
            out.skipped.push((problem, SkipReason::NotAFile));
        } else if source.text.get(start..end).is_none() {
            out.skipped.push((problem, SkipReason::OutOfText));
        } else {
            let same = |other: &crate::source::Source| other.name == source.name && other.text == source.text;
            let first = sources.iter().find(|(_, other)| same(other)).map_or(fix.span.source, |(id, _)| id);
            edits.entry(first).or_default().push((fix, problem));
        }
    }
    for (id, mut edits) in edits {
        let Some(source) = sources.get(id) else {
            continue;
        };
        edits.sort_by_key(|(fix, _)| (fix.span.start, fix.span.end));
        let mut text = String::with_capacity(source.text.len());
        let mut done = 0;
        let mut last: Option<&Fix> = None;
        for (fix, problem) in edits {
            let (start, end) = (fix.span.start as usize, fix.span.end as usize);
            match last {
                Some(last)
                    if (last.span.start, last.span.end, &last.text)
                        == (fix.span.start, fix.span.end, &fix.text) =>
                {
                    out.applied.push(problem);
                    continue;
                }
                // The order of two insertions at one place is unknown.
                Some(last) if start < done || last.span.start == fix.span.start => {
                    out.skipped.push((problem, SkipReason::Overlap));
                    continue;
                }
                _ => {}
            }
            text.push_str(source.text.get(done..start).unwrap_or(""));
            text.push_str(&fix.text);
            done = end;
            last = Some(fix);
            out.applied.push(problem);
        }
        text.push_str(source.text.get(done..).unwrap_or(""));
        out.texts.insert(id, text);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::samples::{UNUSED, WORLD};
    use super::*;
    use crate::Code;
    use crate::source::Span;
    use proptest::prelude::*;

    fn edit(code: &'static Code, id: SourceId, start: usize, end: usize, text: &str) -> Diagnostic {
        let span = Span::new(id, start, end);
        Diagnostic::new(code, span, "x").fix(span, text)
    }

    #[test]
    fn edits_are_applied_in_order_of_place() {
        let mut sources = SourceMap::default();
        let a = sources.add("a.kdl", "one two three\n");
        let again = sources.add("a.kdl", "one two three\n");
        let set = sources.add("<--set a=1>", "a=1");
        let problems = [
            edit(&WORLD, a, 8, 13, "drei"),
            edit(&UNUSED, a, 0, 3, "eins"),
            edit(&WORLD, a, 4, 9, "zwei"),
            edit(&WORLD, again, 4, 9, "zwei"),
            edit(&WORLD, set, 0, 1, "b"),
            edit(&WORLD, a, 90, 91, ""),
            Diagnostic::new(&WORLD, Span::whole(a), "no edit"),
        ];
        let fixed = apply(&sources, &problems, None);
        assert_eq!(fixed.texts.into_iter().collect::<Vec<_>>(), [(a, "eins zweihree\n".to_owned())]);
        assert_eq!(fixed.applied.len(), 3);
        let why: Vec<_> = fixed.skipped.iter().map(|(_, why)| *why).collect();
        assert_eq!(why, [SkipReason::NotAFile, SkipReason::OutOfText, SkipReason::Overlap]);

        let fixed = apply(&sources, &problems, Some("unused-allow"));
        assert_eq!(fixed.texts.get(&a).unwrap(), "eins two three\n");
        assert!(apply(&sources, &problems, Some("T9999")).texts.is_empty());
    }

    #[test]
    fn only_the_first_insertion_at_one_place_is_applied() {
        let mut sources = SourceMap::default();
        let a = sources.add("a.kdl", "ac");
        let problems = [edit(&WORLD, a, 1, 1, "b"), edit(&UNUSED, a, 1, 1, "B"), edit(&WORLD, a, 2, 2, "d")];
        let fixed = apply(&sources, &problems, None);
        assert_eq!(fixed.texts.get(&a).unwrap(), "abcd");
        assert_eq!(fixed.skipped.len(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn bytes_outside_the_edits_stay(text in "[a-zä\n]{0,40}", spans in prop::collection::vec((0usize..44, 0usize..44), 0..8)) {
            let mut sources = SourceMap::default();
            let a = sources.add("a.kdl", text.as_str());
            let problems: Vec<_> = spans.iter().map(|&(start, end)| edit(&WORLD, a, start, end, "+")).collect();
            let fixed = apply(&sources, &problems, None);
            prop_assert_eq!(fixed.applied.len() + fixed.skipped.len(), problems.len());
            if let Some(new) = fixed.texts.get(&a) {
                let mut distinct: Vec<_> = fixed.applied.iter().map(|p| p.span).collect();
                distinct.dedup();
                let removed: usize = distinct.iter().map(|span| span.len()).sum();
                prop_assert_eq!(new.len(), text.len() - removed + distinct.len());
            }
        }
    }
}
