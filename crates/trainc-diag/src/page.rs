//! Renders the Markdown page of a code for a terminal: headings, wrapped text and indented code blocks, in
//! plain text or with colour.

use super::human::Options;
use crate::text;
use unicode_width::UnicodeWidthStr as _;

/// The indentation of code blocks.
const INDENT: &str = "    ";

/// Renders a page.
pub fn render(page: &str, options: Options) -> String {
    let columns = options.width_at_least_40();
    let mut out = String::new();
    let mut paragraph: Vec<&str> = Vec::new();
    let mut in_block = false;
    for line in page.lines() {
        let is_fence = line.starts_with("```");
        let item = line.trim_start().strip_prefix("- ");
        let is_separate = is_fence
            || in_block
            || line.trim().is_empty()
            || line.starts_with(['#', '|', '-'])
            || item.is_some();
        if is_separate {
            flush(&mut paragraph, columns, options, &mut out);
        }
        if is_fence {
            in_block = !in_block;
        } else if in_block {
            out.push_str(format!("{INDENT}{line}").trim_end());
            out.push('\n');
        } else if line.starts_with('#') {
            let heading = strip_markup(line.trim_start_matches('#').trim_start());
            out.push_str(&options.paint("1", &heading));
            out.push('\n');
            // Without bold letters a heading is told apart by its rule.
            if !options.color {
                let mark = if options.unicode { "─" } else { "-" };
                out.push_str(&mark.repeat(heading.width()));
                out.push('\n');
            }
        } else if let Some(item) = item {
            let indent = line.len() - line.trim_start().len();
            let columns = columns.saturating_sub(indent + 2);
            for (at, line) in text::wrap(&strip_markup(item), columns, 0).iter().enumerate() {
                out.push_str(&" ".repeat(indent));
                out.push_str(if at == 0 { "- " } else { "  " });
                out.push_str(&colour_inline_code(line, options));
                out.push('\n');
            }
        } else if is_separate {
            out.push_str(line);
            out.push('\n');
        } else {
            paragraph.push(line);
        }
    }
    flush(&mut paragraph, columns, options, &mut out);
    out
}

/// Returns the text below `## Why` on one line: the reason for the rule and its source. Empty if the page has
/// none.
pub fn rationale(page: &str) -> String {
    let Some((_, below)) = page.split_once("\n## Why\n") else { return String::new() };
    let text = below.split_once("\n## ").map_or(below, |(text, _)| text);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the source of the rule, and the ISO date on which it was read, if the page states it: the text
/// after `Source:` below `## Why`, as in `Source: botocore, CreateTrainingJob (read 2026-11-24).`
pub fn rule_source(page: &str) -> Option<(String, Option<String>)> {
    let rationale = rationale(page);
    let (_, source) = rationale.rsplit_once("Source: ")?;
    let source = source.trim_end_matches('.');
    // A source from memory was not opened when the page was written.
    let dated = source.strip_suffix(')');
    let dated = dated
        .and_then(|it| it.rsplit_once(" (read ").or_else(|| it.rsplit_once(" (from memory, not checked, ")));
    Some(match dated {
        Some((source, date)) => (source.to_owned(), Some(date.to_owned())),
        None => (source.to_owned(), None),
    })
}

fn flush(paragraph: &mut Vec<&str>, columns: usize, options: Options, out: &mut String) {
    if paragraph.is_empty() {
        return;
    }
    for line in text::wrap(&strip_markup(&paragraph.join(" ")), columns, 0) {
        out.push_str(&colour_inline_code(&line, options));
        out.push('\n');
    }
    paragraph.clear();
}

/// Removes the markup of emphasis and replaces a link with its text and URL; a link to another page with its
/// text, a code that `explain` takes. Text in backticks is kept.
fn strip_markup(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for (at, piece) in line.split('`').enumerate() {
        if at > 0 {
            out.push('`');
        }
        if at % 2 == 1 {
            out.push_str(piece);
        } else {
            out.push_str(&write_out_links(&piece.replace("**", "")));
        }
    }
    out
}

/// Replaces `[text](url)` with `text (url)`, and `[T0257](T0257.md)` with `T0257`.
fn write_out_links(text: &str) -> String {
    let Some((before, rest)) = text.split_once('[') else { return text.to_owned() };
    match rest.split_once("](").and_then(|(text, rest)| Some((text, rest.split_once(')')?))) {
        Some((text, (url, after))) if !text.contains('[') => {
            let is_page = url.strip_suffix(".md").is_some_and(|code| !code.contains(['/', ':']));
            let url = if is_page { String::new() } else { format!(" ({url})") };
            format!("{before}{text}{url}{}", write_out_links(after))
        }
        _ => format!("{before}[{}", write_out_links(rest)),
    }
}

/// Replaces backticks with colour.
fn colour_inline_code(line: &str, options: Options) -> String {
    let is_balanced = line.matches('`').count().is_multiple_of(2);
    if !options.color || !is_balanced {
        return line.to_owned();
    }
    let pieces = line.split('`').enumerate();
    pieces
        .map(|(at, piece)| if at % 2 == 1 { options.paint("36", piece) } else { piece.to_owned() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# T0000 some-name\n\nOne **short** sentence\nover two lines, see [the \
        guide](https://a.b/c); [T0257](T0257.md) too.\n\n## Wrong\n\n```kdl must-fail\nregion \"x\" {\n    \
        a\n}\n```\n\n- `a [b](c)` is\n- not a link\n  - inner\n";

    fn show(color: bool) -> String {
        render(PAGE, Options { color, width: 60, ..Options::default() })
    }

    #[test]
    fn a_page_has_no_markup() {
        assert_eq!(
            show(false),
            "T0000 some-name\n───────────────\n\nOne short sentence over two lines, see the \
                guide\n(https://a.b/c); T0257 too.\n\nWrong\n─────\n\n    region \"x\" {\n        a\n    \
                }\n\n- `a [b](c)` is\n- not a link\n  - inner\n"
        );
    }

    #[test]
    fn colour_replaces_backticks() {
        let shown = show(true);
        assert!(shown.starts_with("\u{1b}[1mT0000 some-name\u{1b}[0m\n"), "{shown}");
        assert!(shown.contains("- \u{1b}[36ma [b](c)\u{1b}[0m is\n"), "{shown}");
    }
}
