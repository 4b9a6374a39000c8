//! A run over one or several manifests, with each problem once.

use super::{Diagnostic, Problems, Severity, position};
use crate::source::{SourceMap, Span, is_file};
use crate::text;
use std::collections::BTreeMap;

/// The problems of one manifest; a manifest without problems counts as checked.
#[derive(Clone, Copy, Debug)]
pub struct ManifestReport<'a> {
    /// The path as the user gave it.
    pub path: &'a str,
    /// The job's name, if it could be read.
    pub job: Option<&'a str>,
    /// Its problems, sorted.
    pub problems: &'a Problems,
}

/// One run of a command over its manifests.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// All texts that problems point into.
    pub sources: &'a SourceMap,
    /// The manifests, in the order in which they are to be shown.
    pub manifests: &'a [ManifestReport<'a>],
}

/// A problem that is reported once, although several manifests may have it through a shared layer.
#[derive(Clone, Debug)]
pub struct ReportedProblem<'a> {
    /// The problem as the first manifest has it, without the credentials of the sources.
    pub problem: Diagnostic,
    /// The other manifests that have it, except the file of its primary span.
    pub also_in: Vec<&'a str>,
}

impl ReportedProblem<'_> {
    /// Returns ``also in `b.kdl` and `c.kdl` ``, with at most three names.
    pub fn also_in_note(&self) -> Option<String> {
        let mut items: Vec<String> = self.also_in.iter().take(3).map(|path| format!("`{path}`")).collect();
        let more = self.also_in.len().saturating_sub(items.len());
        if more > 0 {
            items.push(format!("{more} more"));
        }
        (!items.is_empty()).then(|| format!("also in {}", text::list(&items, "and")))
    }

    /// Returns message, help and notes as plain text, for formats with one text per problem.
    pub(super) fn plain_text(&self, sources: &SourceMap) -> String {
        let name = position::source_name(sources, self.problem.span);
        let source = (!name.is_empty() && !is_file(name)).then(|| format!("in {name}"));
        let help = self.problem.help.as_ref().map(|help| format!("help: {help}"));
        let notes = self
            .problem
            .notes
            .iter()
            .map(ToString::to_string)
            .chain(self.also_in_note())
            .map(|note| format!("note: {note}"));
        let first = std::iter::once(self.problem.text().into_owned());
        first.chain(source).chain(help).chain(notes).collect::<Vec<_>>().join("\n")
    }
}

/// The number of problems by severity; each problem counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Errors.
    pub errors: usize,
    /// Warnings.
    pub warnings: usize,
    /// Notes.
    pub notes: usize,
    /// Sources with problems.
    pub files: usize,
}

impl Counts {
    /// Returns `3 errors, 1 warning in 2 files`, or `no problems in 2 files` for the number of checked files.
    pub fn sentence(self, checked: usize) -> String {
        let each = [(self.errors, "error"), (self.warnings, "warning"), (self.notes, "note")];
        let words: Vec<String> =
            each.iter().filter(|(n, _)| *n > 0).map(|(n, noun)| text::count(*n as u64, noun)).collect();
        if words.is_empty() {
            format!("no problems in {}", text::count(checked as u64, "file"))
        } else {
            format!("{} in {}", words.join(", "), text::count(self.files.max(1) as u64, "file"))
        }
    }
}

impl<'a> Run<'a> {
    /// Returns each problem once, in the order of the manifests; problems are equal if their
    /// severity, code, place and message are.
    pub fn problems(&self) -> Vec<ReportedProblem<'a>> {
        let mut out: Vec<ReportedProblem<'a>> = Vec::new();
        let mut seen = BTreeMap::new();
        for jobs in self.manifests.chunk_by(|one, next| one.path == next.path) {
            let before = out.len();
            for (manifest, problem) in
                jobs.iter().flat_map(|one| manifest_problems(one).map(move |found| (one, found)))
            {
                let file = position::source_name(self.sources, problem.span);
                let place = (file, problem.span.start, problem.span.end);
                let key = (place, problem.severity, problem.code.id, problem.text());
                if let Some(shown) = seen.get(&key).and_then(|&at: &usize| out.get_mut(at)) {
                    if !shown.also_in.contains(&manifest.path) {
                        shown.also_in.push(manifest.path);
                    }
                } else {
                    seen.insert(key, out.len());
                    let problem = problem.masked(self.sources);
                    out.push(ReportedProblem { problem, also_in: vec![manifest.path] });
                }
            }
            // The jobs of a sweep report the problems of one file in turn; they are sorted from top to
            // bottom.
            if let [_, _, ..] = jobs
                && let Some(found) = out.get_mut(before..)
            {
                self.sort_by_span(found);
            }
        }
        for shown in &mut out {
            if shown.also_in.len() == 1 {
                shown.also_in.clear();
            } else {
                let blamed = position::source_name(self.sources, shown.problem.span);
                shown.also_in.retain(|path| *path != blamed);
            }
        }
        out
    }

    /// Sorts by span, the files in the order of their first problem.
    fn sort_by_span(&self, shown: &mut [ReportedProblem<'_>]) {
        let mut files: BTreeMap<&str, usize> = BTreeMap::new();
        for one in shown.iter() {
            let next = files.len();
            files.entry(position::source_name(self.sources, one.problem.span)).or_insert(next);
        }
        shown.sort_by_key(|one| {
            let Span { start, end, .. } = one.problem.span;
            (
                files.get(position::source_name(self.sources, one.problem.span)),
                start,
                end,
                one.problem.code.id,
            )
        });
    }

    /// Counts the problems.
    pub fn counts(&self, shown: &[ReportedProblem<'_>]) -> Counts {
        let of = |severity| shown.iter().filter(|one| one.problem.severity == severity).count();
        let files: std::collections::BTreeSet<&str> =
            shown.iter().map(|one| position::source_name(self.sources, one.problem.span)).collect();
        Counts {
            errors: of(Severity::Error),
            warnings: of(Severity::Warning),
            notes: of(Severity::Note),
            files: files.len(),
        }
    }
}

/// Returns the problems of one manifest, with its lifetime.
fn manifest_problems<'a>(manifest: &ManifestReport<'a>) -> impl Iterator<Item = &'a Diagnostic> + use<'a> {
    manifest.problems.iter()
}

/// Sorts the most severe problems first, for formats that may be truncated.
pub(super) fn worst_first(mut shown: Vec<ReportedProblem<'_>>) -> Vec<ReportedProblem<'_>> {
    shown.sort_by_key(|one| std::cmp::Reverse(one.problem.severity));
    shown
}

#[cfg(test)]
mod tests {
    use super::super::samples::{Sample, UNUSED, WORLD};
    use super::*;

    #[test]
    fn a_problem_of_a_shared_layer_is_reported_once() {
        let mut sample = Sample::default();
        let base = sample.sources.add("base.kdl", "mesh {\n  shard-degree 6\n}\n");
        let at = crate::source::Span::new(base, 9, 21);
        for path in ["jobs/a.kdl", "jobs/b.kdl", "base.kdl", "jobs/c.kdl", "jobs/d.kdl"] {
            sample.manifest(path, vec![Diagnostic::new(&WORLD, at, "48 is not 56")]);
        }
        sample.manifest("jobs/e.kdl", vec![Diagnostic::new(&UNUSED, at, "48 is not 56")]);
        sample.run(|run| {
            let shown = run.problems();
            assert_eq!(shown.len(), 2);
            assert_eq!(
                shown[0].also_in_note().unwrap(),
                "also in `jobs/a.kdl`, `jobs/b.kdl`, `jobs/c.kdl` and 1 more"
            );
            assert_eq!(shown[1].also_in_note(), None);
            let counts = run.counts(&shown);
            assert_eq!(counts, Counts { errors: 1, warnings: 1, notes: 0, files: 1 });
            assert_eq!(counts.sentence(6), "1 error, 1 warning in 1 file");
            assert_eq!(Counts::default().sentence(6), "no problems in 6 files");
        });
    }

    /// The jobs of a sweep and of several environments are plans of one text.
    #[test]
    fn a_note_of_one_job_hides_no_error_of_another() {
        let mut sample = Sample::default();
        let file = sample.sources.add("a.kdl", "mesh {\n  shard-degree 6\n}\n");
        let at = crate::source::Span::new(file, 9, 21);
        let of = |severity| Diagnostic::new(&WORLD, at, "48 is not 56").severity(severity);
        let mut of_one = crate::Problems::default();
        for severity in [Severity::Note, Severity::Error, Severity::Note] {
            sample.manifest("a.kdl", vec![of(severity)]);
            of_one.push(of(severity));
        }
        of_one.sort();
        assert_eq!((of_one.iter().count(), of_one.errors()), (2, 1));
        sample.run(|run| {
            let counts = run.counts(&run.problems());
            assert_eq!(counts, Counts { errors: 1, warnings: 0, notes: 1, files: 1 });
        });
    }
}
