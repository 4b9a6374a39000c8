//! Renders problems as a pull request comment: a summary, a table, and collapsed snippets.

use super::position::{self, Columns, Paths};
use super::{ReportedProblem, Run, Severity, human, short};
use crate::source::is_file;
use crate::text;

/// The maximum length of a GitHub comment.
pub const COMMENT_LIMIT: usize = 65_536;

/// The hidden first line, by which a bot finds its own comment.
pub const MARKER: &str = "<!-- trainc:check -->";

/// The room reserved for the lines that state what was omitted.
const RESERVE: usize = 160;

/// Renders each problem of a run once, the most severe first, in at most `limit` UTF-16 code units, the
/// strictest count. Problems that do not fit are omitted, snippets before rows of the table.
pub fn render(run: &Run<'_>, paths: Paths<'_>, limit: usize) -> String {
    let shown = super::run::worst_first(run.problems());
    let counts = run.counts(&shown);
    let icon = match shown.first().map(|one| one.problem.severity) {
        Some(Severity::Error) => "❌",
        Some(Severity::Warning) => "⚠️",
        Some(Severity::Note) | None => "✅",
    };
    let checked = text::count(run.manifests.len() as u64, "manifest");
    let mut out = LimitedText { text: String::new(), left: limit };
    out.push(&format!("{MARKER}\n{icon} **trainc check**: {}", counts.sentence(run.manifests.len())));
    if shown.is_empty() {
        out.push("\n");
        return out.text;
    }
    out.push(&format!(" ({checked} checked)\n\n| | problem | where | what |\n| --- | --- | --- | --- |\n"));

    out.left = out.left.saturating_sub(RESERVE);
    let rows = out.push_fitting(shown.iter().map(|one| row(run, one, paths)));
    if rows < shown.len() {
        out.push(&format!("\n… and {} more\n", shown.len() - rows));
        return out.text;
    }
    out.push("\n");
    let details = out.push_fitting(shown.iter().map(|one| detail(run, one)));
    if details < shown.len() {
        out.push(&format!("\n… and {} more without details\n", shown.len() - details));
    }
    out.text
}

/// A text with a maximum length in UTF-16 code units.
pub struct LimitedText {
    text: String,
    left: usize,
}

impl LimitedText {
    /// Makes an empty text with a limit.
    pub fn new(limit: usize) -> Self {
        Self { text: String::new(), left: limit }
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.text
    }

    /// Adds text for which room was reserved.
    pub fn push_reserved(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Adds text in any case.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.left = self.left.saturating_sub(text.encode_utf16().count());
    }

    /// Adds whole parts as long as they fit and returns their number.
    pub fn push_fitting(&mut self, parts: impl Iterator<Item = String>) -> usize {
        let mut taken = 0;
        for part in parts {
            if part.encode_utf16().count() > self.left {
                break;
            }
            self.push(&part);
            taken += 1;
        }
        taken
    }
}

fn location(run: &Run<'_>, one: &ReportedProblem<'_>, paths: Paths<'_>) -> String {
    let span = one.problem.span;
    let Some(source) = run.sources.get(span.source) else {
        return String::new();
    };
    let name = paths.relative(&source.name);
    if position::is_whole_file(span) || !is_file(&name) {
        return name;
    }
    format!("{name}:{}", position::position(source, span.start as usize, Columns::Characters).line)
}

fn row(run: &Run<'_>, one: &ReportedProblem<'_>, paths: Paths<'_>) -> String {
    let also = one.also_in_note().map(|also| format!("; {also}")).unwrap_or_default();
    let what = escape_cell(&format!("{}{also}", one.problem.text()));
    let place = location(run, one, paths);
    let place = if place.is_empty() { place } else { code_span(&place) };
    let problem = &one.problem;
    format!(
        "| {} | `{}` {} | {place} | {what} |\n",
        problem.severity.word(),
        problem.code.id,
        problem.code.name
    )
}

fn detail(run: &Run<'_>, one: &ReportedProblem<'_>) -> String {
    let options = human::Options::default();
    let drawn = human::draw(run.sources, &one.problem, one.also_in_note().as_deref(), options);
    let title = escape(&short::join_lines(&one.problem.text()), "&<>");
    format!(
        "<details><summary><code>{}</code> {title}</summary>\n\n{}\n</details>\n",
        one.problem.code.id,
        code_block("text", &drawn)
    )
}

/// Returns text for a table cell: one line, with all markup escaped except code in backticks.
///
/// Only single backticks in pairs are code. A run of them is part of a name that somebody chose: Markdown
/// would end the code at another place, and take what follows for markup.
pub fn escape_cell(text: &str) -> String {
    let line = short::join_lines(text);
    // Between backticks only the bar of the table needs an escape.
    let pieces: Vec<&str> = line.split('`').collect();
    let paired = pieces.len() % 2 == 1 && longest_ticks(&line) <= 1;
    let mut out = String::new();
    for (at, piece) in pieces.iter().enumerate() {
        let inside = paired && at % 2 == 1;
        match (at, paired) {
            (0, _) => {}
            (_, true) => out.push('`'),
            (_, false) => out.push_str("\\`"),
        }
        out.push_str(&if inside { piece.replace('|', "\\|") } else { escape_markup(piece) });
    }
    out
}

/// Returns a block of any text.
pub fn code_block(language: &str, text: &str) -> String {
    let fence = "`".repeat(longest_ticks(text).max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}\n")
}

/// Returns any text as code in a cell.
pub fn code_span(text: &str) -> String {
    let text = short::join_lines(text).replace('|', "\\|");
    let ticks = "`".repeat(longest_ticks(&text) + 1);
    if text.contains('`') { format!("{ticks} {text} {ticks}") } else { format!("{ticks}{text}{ticks}") }
}

fn escape_markup(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '\\' | '|' | '*' | '_' | '[' | ']' | '~' | '#' | '$' => {
                out.push('\\');
                out.push(character);
            }
            // A name after an at sign would notify a user.
            '@' => out.push_str("@\u{200b}"),
            _ => out.push_str(&escape(character.encode_utf8(&mut [0; 4]), "&<>")),
        }
    }
    out
}

fn escape(text: &str, which: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '&' if which.contains('&') => out.push_str("&amp;"),
            '<' if which.contains('<') => out.push_str("&lt;"),
            '>' if which.contains('>') => out.push_str("&gt;"),
            _ => out.push(character),
        }
    }
    out
}

fn longest_ticks(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::Diagnostic;
    use super::super::samples::{self, Sample, UNUSED, WORLD};
    use super::*;
    use crate::source::Span;

    #[test]
    fn a_comment() {
        insta::assert_snapshot!(samples::two_manifests_with_problems().run(|run| super::render(
            run,
            Paths::default(),
            COMMENT_LIMIT
        )));
    }

    #[test]
    fn no_problems_are_one_line() {
        let mut sample = Sample::default();
        sample.manifest("a.kdl", vec![]);
        let text = sample.run(|run| super::render(run, Paths::default(), COMMENT_LIMIT));
        assert_eq!(text, "<!-- trainc:check -->\n✅ **trainc check**: no problems in 1 file\n");
    }

    #[test]
    fn markup_in_cells_is_escaped() {
        assert_eq!(
            escape_cell("a | b\nc <x> `d|<e>*` *f* @me"),
            "a \\| b c &lt;x&gt; `d\\|<e>*` \\*f\\* @\u{200b}me"
        );
        assert_eq!(escape_cell("one ` tick"), "one \\` tick");
        // A name with backticks in backticks.
        assert_eq!(escape_cell("of ```<i>`"), "of \\`\\`\\`&lt;i&gt;\\`");
        assert_eq!(escape_cell("of `a`<i>`b`"), "of `a`&lt;i&gt;`b`");
        assert_eq!(code_span("a`b|c"), "`` a`b\\|c ``");
    }

    #[test]
    fn fences_contain_any_text() {
        let mut sample = Sample::default();
        let id = sample.sources.add("a.kdl", "x ````\n</details>\n");
        sample.manifest("a.kdl", vec![Diagnostic::new(&WORLD, Span::new(id, 0, 1), "m </summary>")]);
        let text = sample.run(|run| super::render(run, Paths::default(), COMMENT_LIMIT));
        assert!(
            text.contains("\n`````text\n") && text.contains("</code> m &lt;/summary&gt;</summary>"),
            "{text}"
        );
    }

    #[test]
    fn the_limit_truncates_between_problems() {
        let mut sample = Sample::default();
        let id = sample.sources.add("a.kdl", "😀 line\n".repeat(400));
        let problem = |n: usize| {
            let code = if n.is_multiple_of(2) { &WORLD } else { &UNUSED };
            Diagnostic::new(code, Span::new(id, n * 10, n * 10 + 4), format!("number {n} 😀")).help("do")
        };
        sample.manifest("a.kdl", (0..400).map(problem).collect());
        let mut seen = (false, false, false);
        for limit in [0, 300, 1_000, 5_000, 40_000, 65_536, 1_000_000] {
            let text = sample.run(|run| super::render(run, Paths::default(), limit));
            assert!(limit < 400 || text.encode_utf16().count() <= limit, "{limit}");
            assert_eq!(text.matches("<details>").count(), text.matches("</details>").count());
            assert!(text.lines().filter(|line| line.starts_with("| ")).all(|line| line.ends_with(" |")));
            seen.0 |= text.ends_with(" more\n");
            seen.1 |= text.ends_with(" more without details\n");
            seen.2 |= text.ends_with("</details>\n");
        }
        assert_eq!(seen, (true, true, true));
    }
}
