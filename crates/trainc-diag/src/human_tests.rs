//! Snapshots of the terminal output, and property tests that no text and no span panics.

use super::super::samples::{self, UNUSED, WORLD};
use super::super::{Format, ManifestReport, Problems, render};
use super::*;
use crate::source::{SourceId, Span};
use proptest::prelude::*;

const PLAIN: Options = Options { color: false, unicode: true, width: 100, notes: true };

fn render_one_problem(text: &str, start: usize, end: usize) -> String {
    let mut sources = SourceMap::default();
    let id = sources.add("a.kdl", text);
    let problem = Diagnostic::new(&WORLD, Span::new(id, start, end), "wrong").primary_label("here");
    super::problem(&sources, &problem, None, PLAIN)
}

#[test]
fn a_run_with_labels_in_two_files() {
    insta::assert_snapshot!(samples::two_manifests_with_problems().run(|run| super::render(run, PLAIN)));
}

#[test]
fn the_same_in_ascii_and_narrow() {
    let options = Options { unicode: false, width: 60, ..PLAIN };
    insta::assert_snapshot!(samples::two_manifests_with_problems().run(|run| super::render(run, options)));
}

/// More than ten problems begin with a list of a line each, none of which is wider than the page.
#[test]
fn many_problems_begin_with_a_list() {
    let mut sample = samples::Sample::default();
    let id = sample.sources.add("a.kdl", "job \"a\" {\n  region \"us-west-2\"\n}\n");
    let problem = |at: usize| Diagnostic::new(&WORLD, Span::new(id, at, at + 1), "wrong ".repeat(30));
    let drawn = |many: usize| {
        let mut found = Problems::default();
        (0..many).map(problem).for_each(|one| found.push(one));
        let manifests = [ManifestReport { path: "a.kdl", job: None, problems: &found }];
        super::render(&Run { sources: &sample.sources, manifests: &manifests }, PLAIN)
    };
    let list = |text: &str| text.lines().take_while(|line| line.starts_with("a.kdl:")).count();
    assert_eq!([10, 11].map(|many| list(&drawn(many))), [0, 11]);
    let text = drawn(11);
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("a.kdl:1:1: error[T0301]: wrong wrong") && first.ends_with('…'), "{first}");
    assert!(text.lines().all(|line| line.width() <= PLAIN.width), "{text}");
}

#[test]
fn notes_of_one_manifest_are_a_line_each_unless_asked_for() {
    let mut sample = samples::Sample::default();
    let id = sample.sources.add("a.kdl", "job \"a\" {\n  region \"us-west-2\"\n}\n");
    let note = Diagnostic::new(&samples::QUOTA, Span::new(id, 12, 18), "only the account knows")
        .help("ask it")
        .note("why it matters");
    let error = Diagnostic::new(&WORLD, Span::new(id, 4, 7), "wrong");
    sample.manifest("a.kdl", vec![note, error]);
    let brief = sample.run(|run| super::render(run, Options { notes: false, ..PLAIN }));
    assert_eq!(
        brief.matches("note[T0402] a.kdl:2:3: only the account knows\n  help: ask it\n").count(),
        1,
        "{brief}"
    );
    assert!(
        !brief.contains("why it matters") && brief.ends_with("notes: run with `-v` for details\n"),
        "{brief}"
    );
    assert!(brief.find("error[T0301]") < brief.find("note[T0402]"), "{brief}");
    let whole = sample.run(|run| super::render(run, PLAIN));
    assert!(whole.contains("why it matters") && !whole.contains("`-v`"), "{whole}");
}

#[test]
fn colour_only_when_asked_for() {
    let sample = samples::two_manifests_with_problems();
    let plain = sample.run(|run| super::render(run, PLAIN));
    assert!(!plain.contains('\u{1b}'));
    let coloured = sample.run(|run| super::render(run, Options { color: true, ..PLAIN }));
    assert!(coloured.starts_with("\u{1b}[1;31merror[T0301]\u{1b}[0m world-size-mismatch: \u{1b}[1mthe"));
    let mut bare = coloured;
    while let Some(start) = bare.find('\u{1b}') {
        let end = start + bare[start..].find('m').unwrap();
        bare.replace_range(start..=end, "");
    }
    assert_eq!(bare, plain);
}

#[test]
fn edge_cases() {
    let mut out = String::new();
    let mut show = |what: &str, drawn: String| writeln!(out, "# {what}\n{drawn}").unwrap();
    show("empty span inside a line", render_one_problem("abc def\nghi\n", 4, 4));
    show("empty span at the end of a line", render_one_problem("abc\nghi\n", 3, 3));
    show("end of file after a line end", render_one_problem("abc\n", 4, 4));
    show("end of file without a line end", render_one_problem("abc", 3, 3));
    show("past the end", render_one_problem("abc\n", 400, 500));
    show("whole file", render_one_problem("abc\n", 0, 0));
    show("empty file", render_one_problem("", 1, 1));
    show("tabs", render_one_problem("\tab\tcd\n", 4, 6));
    show("wide and narrow", render_one_problem("job \"日本語\" é x\n", 4, 15));
    show("CRLF", render_one_problem("one\r\ntwo three\r\nfour\r\n", 9, 14));
    show("span with a line end", render_one_problem("one\r\ntwo\r\nthree\n", 5, 10));
    show("over lines", render_one_problem("a {\n  b {\n    c\n  }\n}\nend\n", 6, 20));
    show("over many lines", render_one_problem(&format!("a {{\n{}}}\n", "  b\n".repeat(20)), 0, 85));
    show("control characters", render_one_problem("a \u{1b}[31m b\u{202e}c\n", 2, 3));
    show("another map", {
        let problem = Diagnostic::new(&WORLD, Span::new(SourceId(9), 1, 2), "wrong").primary_label("here");
        super::problem(&SourceMap::default(), &problem, None, PLAIN)
    });
    insta::assert_snapshot!(out);
}

#[test]
fn overlapping_labels() {
    let mut sources = SourceMap::default();
    let lines: Vec<String> = (1..=30).map(|n| format!("line {n} of many")).collect();
    let id = sources.add("a.kdl", lines.join("\n"));
    let at = |wanted: &str| {
        let start = sources.get(id).unwrap().text.find(wanted).unwrap();
        Span::new(id, start, start + wanted.len())
    };
    let problem = Diagnostic::new(&WORLD, at("line 20 of"), "wrong")
        .primary_label("to blame")
        .label(at("20 of many"), "overlaps")
        .label(at("20"), "inside")
        .label(at("line 20 of"), "the same place")
        .label(at("16"), "near: one snippet")
        .label(at("3"), "far: another, after the blamed one")
        .label(at("30 of many"), "")
        .label(at("of many\nline 25"), "over two lines")
        .label(Span::whole(id), "of the file");
    insta::assert_snapshot!(super::problem(&sources, &problem, None, PLAIN));
}

#[test]
fn long_lines_are_truncated_around_the_span() {
    let text = format!("image {}needle{} end\n", "a".repeat(5_000), "b".repeat(5_000));
    let mut out = render_one_problem(&text, 5_006, 5_012);
    out.push_str(&render_one_problem(&text, 2, 9_000));
    out.push_str(&render_one_problem(&text, text.len() - 4, text.len() - 1));
    assert!(out.lines().all(|line| line.width() <= 100), "{out}");
    insta::assert_snapshot!(out);
}

#[test]
fn long_messages_are_wrapped() {
    let mut sources = SourceMap::default();
    let id = sources.add("<--set cluster.nodes=4>", "cluster.nodes=4");
    let long = "the degrees that the manifest gives for sharding and for tensors multiply to 48 but the cluster has 56 GPUs";
    let problem = Diagnostic::new(&UNUSED, Span::new(id, 14, 15), long)
        .primary_label(long)
        .help("write this:\n  mesh {\n    shard-degree 7\n  }")
        .note(long);
    insta::assert_snapshot!(super::problem(&sources, &problem, Some("also in `b.kdl`"), PLAIN));
}

#[test]
fn no_problems_are_one_line() {
    let sources = SourceMap::default();
    let run = Run { sources: &sources, manifests: &[] };
    assert_eq!(super::render(&run, PLAIN), "no problems in 0 files\n");
}

fn any_text() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop_oneof![
            3 => "[a-z {}=]{0,12}",
            2 => Just("\n".to_owned()),
            1 => Just("\r\n".to_owned()),
            1 => Just("\r".to_owned()),
            1 => Just("\t".to_owned()),
            1 => "[äß日本😀\u{301}\u{200d}\u{feff}\u{1b}\u{2028}]{1,4}",
            1 => "[x日]{200,300}",
            1 => any::<char>().prop_map(String::from),
        ],
        0..24,
    )
    .prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn no_span_and_no_text_panics(
        first in any_text(),
        second in any_text(),
        spans in prop::collection::vec((0u32..3, 0u32..900, 0u32..900, "[a-z\\n 日]{0,60}"), 1..6),
        color: bool,
        unicode: bool,
        width in 0usize..140,
    ) {
        let mut sources = SourceMap::default();
        sources.add("a.kdl", first);
        sources.add("<stdin>", second);
        let mut problem: Option<Diagnostic> = None;
        for (source, start, end, text) in spans {
            // `Span::new` is not used, because the end may precede the start.
            let span = Span { source: SourceId(source), start, end };
            problem = Some(match problem {
                None => Diagnostic::new(&WORLD, span, text.clone()).primary_label(text.clone()).help(text.clone()).note(text),
                Some(problem) => problem.label(span, text),
            });
        }
        let problem = problem.unwrap();
        let drawn = super::problem(&sources, &problem, Some("also"), Options { color, unicode, width, notes: true });
        prop_assert!(drawn.ends_with('\n'));
        let escape = '\u{1b}';
        prop_assert!(color || !drawn.contains(escape));

        let mut found = Problems::default();
        found.push(problem);
        let manifests = [ManifestReport { path: "a.kdl", job: None, problems: &found }];
        let run = Run { sources: &sources, manifests: &manifests };
        let options = super::super::Options::default();
        for format in Format::ALL {
            let text = render(format, &run, &options);
            prop_assert!(text.ends_with('\n'));
            match format {
                Format::Json | Format::Sarif | Format::Gitlab => {
                    prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
                }
                Format::Short | Format::Github => prop_assert_eq!(text.lines().count(), 1),
                Format::Human | Format::Markdown => {}
            }
        }
    }
}
