//! Renders problems as a GitLab Code Quality report, which GitLab shows next to the changed lines of a merge
//! request: an array with the description, code, fingerprint, severity and location of each problem
//! (docs.gitlab.com, "Code Quality report format", read on 2026-11-22).

use super::position::{self, Columns, Paths};
use super::sarif::Fingerprints;
use super::{ReportedProblem, Run, Severity, json, short};
use crate::source::is_file;
use serde::Serialize;

#[derive(Serialize)]
struct Finding {
    description: String,
    check_name: &'static str,
    fingerprint: String,
    severity: &'static str,
    location: Location,
}

#[derive(Serialize)]
struct Location {
    path: String,
    lines: Lines,
}

#[derive(Serialize)]
struct Lines {
    begin: u32,
}

/// Renders each problem of a run once, errors first; an empty array if there are none.
pub fn render(run: &Run<'_>, paths: Paths<'_>) -> String {
    let shown = super::run::worst_first(run.problems());
    let mut prints = Fingerprints::default();
    let all: Vec<Finding> = shown.iter().map(|one| finding(run, one, paths, &mut prints)).collect();
    json::to_indented_json(&all)
}

fn finding(run: &Run<'_>, one: &ReportedProblem<'_>, paths: Paths<'_>, prints: &mut Fingerprints) -> Finding {
    let problem = &one.problem;
    let name = position::source_name(run.sources, problem.span);
    // Problems outside of any file (standard input, `--set`) are located in the manifest.
    let fallback = run.manifests.first().map_or("", |manifest| manifest.path);
    let path = paths.relative(if is_file(name) { name } else { fallback });
    let file = run.sources.get(problem.span.source).filter(|_| is_file(name));
    let begin = file.map_or(1, |source| {
        position::position(source, problem.span.start as usize, Columns::Characters).line
    });
    // The merge request shows only one line of text.
    let help = problem.help.as_ref().map_or_else(String::new, |help| format!(" (help: {help})"));
    let source = if name.is_empty() || is_file(name) { String::new() } else { format!(" in {name}") };
    let also = one.also_in_note().map_or_else(String::new, |also| format!(" ({also})"));
    Finding {
        description: short::join_lines(&format!(
            "{}: {}{source}{help}{also}",
            problem.code.id,
            problem.text()
        )),
        check_name: problem.code.name,
        fingerprint: prints.fingerprint(run, problem, &path),
        severity: match problem.severity {
            Severity::Error => "critical",
            Severity::Warning => "major",
            Severity::Note => "info",
        },
        location: Location { path, lines: Lines { begin } },
    }
}

#[cfg(test)]
mod tests {
    use super::super::Diagnostic;
    use super::super::samples::{self, Sample, UNUSED, WORLD};
    use super::*;
    use crate::source::Span;
    use serde_json::{Value, json};
    use std::collections::BTreeSet;

    fn report(sample: &Sample, paths: Paths<'_>) -> Vec<Value> {
        serde_json::from_str(&sample.run(|run| super::render(run, paths))).unwrap()
    }

    #[test]
    fn every_problem_has_the_required_members() {
        let paths = Paths { current: "/repo/train", root: "/repo" };
        let found = report(&samples::two_manifests_with_problems(), paths);
        assert_eq!(found.len(), 3);
        assert_eq!(found[0]["check_name"], "world-size-mismatch");
        assert_eq!(found[0]["severity"], "critical");
        assert_eq!(found[0]["location"], json!({"path": "train/jobs/a.kdl", "lines": {"begin": 8}}));
        let words =
            "T0301: the degrees multiply to 48, but the cluster has 56 GPUs (help: write `shard-degree 7`)";
        assert_eq!(found[0]["description"], words);
        let severities: Vec<&Value> = found.iter().map(|one| &one["severity"]).collect();
        assert_eq!(severities, ["critical", "major", "info"]);
        assert_eq!(found[2]["location"], json!({"path": "train/base.kdl", "lines": {"begin": 3}}));
        let prints: BTreeSet<&str> = found.iter().map(|one| one["fingerprint"].as_str().unwrap()).collect();
        assert_eq!(prints.len(), 3);
    }

    /// The fingerprint does not change with lines inserted above, and differs for two equal lines.
    #[test]
    fn a_fingerprint_survives_an_edit_above_it() {
        let prints = |text: &str| -> Vec<Value> {
            let mut sample = Sample::default();
            let id = sample.sources.add("a.kdl", text);
            let at = |nth: usize| {
                let start = text.match_indices("nodes 7").nth(nth).unwrap().0;
                Span::new(id, start, start + 7)
            };
            let two = [0, 1].map(|nth| Diagnostic::new(&WORLD, at(nth), "48 is not 56"));
            sample.manifest("a.kdl", two.into());
            report(&sample, Paths::default()).iter().map(|one| one["fingerprint"].clone()).collect()
        };
        let before = prints("nodes 7\nnodes 7\n");
        assert_ne!(before[0], before[1]);
        assert_eq!(prints("// a comment\n\nnodes 7\nnodes 7\n"), before);
    }

    #[test]
    fn problems_outside_of_files_are_located_in_the_manifest() {
        let mut sample = Sample::default();
        sample.sources.add("a.kdl", "x\n");
        let set = sample.sources.add("<--set x=1>", "x=1");
        sample.manifest("a.kdl", vec![Diagnostic::new(&UNUSED, Span::new(set, 2, 3), "one\ntwo")]);
        let found = report(&sample, Paths::default());
        assert_eq!(found[0]["location"], json!({"path": "a.kdl", "lines": {"begin": 1}}));
        assert_eq!(found[0]["description"], "T0207: one two in <--set x=1>");
        assert_eq!(report(&Sample::default(), Paths::default()), Vec::<Value>::new());
    }
}
