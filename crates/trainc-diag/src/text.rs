//! Formats values as text: plurals, lists, bytes, durations, wrapped lines; and finds the nearest name.

use std::fmt::Write as _;
use textwrap::core::{Word, display_width};
use textwrap::wrap_algorithms::wrap_first_fit;

/// Formats a number with its noun: `1 node`, `2 nodes`.
pub fn count(n: u64, noun: &str) -> String {
    if n == 1 {
        format!("{} {noun}", group_digits(n))
    } else {
        format!("{} {}", group_digits(n), plural(noun))
    }
}

fn plural(noun: &str) -> String {
    match noun {
        "hypothesis" => "hypotheses".to_owned(),
        "axis" => "axes".to_owned(),
        _ if noun.ends_with("ch") || noun.ends_with('s') || noun.ends_with('x') => format!("{noun}es"),
        _ => match noun.strip_suffix('y') {
            Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
            _ => format!("{noun}s"),
        },
    }
}

/// Formats a number with digits in groups of three: `30,000,000`.
pub fn group_digits(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Joins items: `a`, `a and b`, `a, b and c`.
pub fn list<S: AsRef<str>>(items: &[S], last: &str) -> String {
    match items {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [init @ .., end] => {
            let head = init.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
            format!("{head} {last} {}", end.as_ref())
        }
    }
}

/// Joins items in backticks: `` `a`, `b` or `c` ``.
pub fn backtick_list<S: AsRef<str>>(items: &[S], last: &str) -> String {
    let items: Vec<String> = items.iter().map(|item| format!("`{}`", item.as_ref())).collect();
    list(&items, last)
}

/// Formats bytes in the largest binary unit below the value: `512 B`, `40 GiB`, `1.5 TiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", short_number(value), UNITS.get(unit).copied().unwrap_or("B"))
}

/// Formats a number with at most two decimal places, fewer for larger numbers: `7`, `1.5`, `39.6`.
pub fn short_number(value: f64) -> String {
    let text = if value >= 100.0 || (value - value.round()).abs() < 1e-9 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Formats seconds: `90s`, `15m`, `1h 30m`, `5d`.
pub fn duration(seconds: u64) -> String {
    let mut out = String::new();
    let mut rest = seconds;
    for (unit, size) in [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)] {
        let n = rest / size;
        rest %= size;
        if n > 0 {
            if !out.is_empty() {
                out.push(' ');
            }
            // Writing to a string cannot fail.
            let _ = write!(out, "{n}{unit}");
        }
    }
    if out.is_empty() { "0s".to_owned() } else { out }
}

/// Formats a predicted duration, rounded to significant digits: `5m 58s`, `36m 50s`, `1h 18m`, `1d 5h 40m`.
pub fn rounded_duration(seconds: f64) -> String {
    let grain = match seconds {
        long if long >= 36_000.0 => 600.0,
        long if long >= 3_600.0 => 60.0,
        long if long >= 600.0 => 10.0,
        _ => 1.0,
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded, non-negative")]
    let rounded = ((seconds / grain).round() * grain).max(0.0) as u64;
    duration(rounded)
}

/// Returns a sentence with a capital letter, unless it starts with another sign.
pub fn capitalized(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Formats US dollars: with cents below 100, whole and grouped above.
pub fn dollars(usd: f64) -> String {
    if usd.abs() < 100.0 {
        format!("${usd:.2}")
    } else {
        let whole = usd.abs().round();
        let sign = if usd < 0.0 { "-" } else { "" };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded, non-negative")]
        let whole = whole as u64;
        format!("{sign}${}", group_digits(whole))
    }
}

/// Wraps a text into lines of at most `width` columns; the first line has already used `taken` of them.
///
/// Line breaks in the text and the indentation of each line are kept. A word that is too long is not broken,
/// because it may be a path or a command; nor is text between double quotes, because it may be copied.
pub fn wrap(text: &str, width: usize, taken: usize) -> Vec<String> {
    let mut out = Vec::new();
    for line in text.split('\n') {
        let indent = " ".repeat(line.len() - line.trim_start_matches(' ').len());
        let taken = if out.is_empty() { taken } else { 0 };
        let widths = [taken, 0].map(|taken| width.saturating_sub(taken + indent.len()) as f64);
        for words in wrap_first_fit(&split_words(line), &widths) {
            let words: Vec<&str> = words.iter().map(|word| &**word).collect();
            out.push(format!("{indent}{}", words.join(" ")).trim_end().to_owned());
        }
    }
    out
}

/// Wraps the lines of a text that are wider than `width` columns; further lines start below the text after
/// the line's label, or two columns further in. Other lines are unchanged. Colour codes take no columns.
///
/// A label ends with the last gap of two spaces in the first half of the line, as in `  create  role …`. A
/// command behind a label can still be copied: its lines end with a backslash.
pub fn wrap_lines(text: &str, width: usize) -> String {
    let lines: Vec<String> = text.split('\n').map(|line| wrap_line(line, width)).collect();
    lines.join("\n")
}

fn wrap_line(line: &str, width: usize) -> String {
    if display_width(line) <= width {
        return line.to_owned();
    }
    let columns = |end: usize| line.get(..end).map_or(0, display_width);
    let text_after = |end: usize| {
        let rest = line.get(end..).unwrap_or("");
        // A label may be coloured with its gap.
        let reset = rest.strip_prefix("\u{1b}[0m").unwrap_or(rest);
        line.len() - reset.trim_start_matches(' ').len()
    };
    let indent = line.len() - line.trim_start_matches(' ').len();
    let gaps = line.match_indices("  ").map(|(at, gap)| text_after(at + gap.len()));
    let label = gaps.filter(|&end| end > indent && columns(end) <= width / 2).last();
    let (label, rest) = line.split_at_checked(label.unwrap_or(indent)).unwrap_or(("", line));
    let is_labelled = label.len() > indent;
    let hanging = display_width(label) + if is_labelled { 0 } else { 2 };
    let end = if is_labelled && rest.starts_with("trainc ") { " \\" } else { "" };
    let room = width.saturating_sub(hanging + end.len()).max(1);
    let gap = format!("{end}\n{}", " ".repeat(hanging));
    format!("{label}{}", wrap(rest, room, 0).join(&gap))
}

/// Splits a line at its spaces, except those between double quotes if the quotes of the line are balanced.
fn split_words(line: &str) -> Vec<Word<'_>> {
    let balanced = line.matches('"').count().is_multiple_of(2);
    let mut quoted = false;
    line.split_inclusive(move |c: char| {
        quoted ^= balanced && c == '"';
        c == ' ' && !quoted
    })
    .filter(|word| *word != " ")
    .map(Word::from)
    .collect()
}

/// Shortens a resource name: the last part of an ARN, the last two parts of an S3 URI.
pub fn shorten_name(name: &str) -> String {
    let parts: Vec<&str> = name.trim_end_matches('/').rsplitn(3, '/').collect();
    match parts.as_slice() {
        [last, ..] if name.starts_with("arn:") => (*last).to_owned(),
        [last, before, rest] if name.starts_with("s3://") && rest.len() > "s3:/".len() => {
            format!("…/{}/{last}", shorten_digest(before))
        }
        _ => name.to_owned(),
    }
}

/// Shortens a digest to its first 8 characters.
fn shorten_digest(part: &str) -> &str {
    let is_digest = part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    part.get(..8).filter(|_| is_digest).unwrap_or(part)
}

/// Truncates two texts to at most `most` characters each, around the place where they start to differ,
/// because policies and requests have long common prefixes.
pub fn differing_parts(a: &str, b: &str, most: usize) -> (String, String) {
    let same = a.chars().zip(b.chars()).take_while(|(x, y)| x == y).count();
    let is_long = a.chars().count().max(b.chars().count()) > most;
    let from = if is_long { same.saturating_sub(most / 4) } else { 0 };
    let cut = |text: &str| {
        let mut rest = text.chars().skip(from);
        let shown: String = rest.by_ref().take(most).collect();
        let (before, after) = (if from > 0 { "…" } else { "" }, if rest.next().is_some() { "…" } else { "" });
        format!("{before}{shown}{after}")
    };
    (cut(a), cut(b))
}

/// Returns the candidate nearest to what was written, if it is near enough to be a typo: one edit per three
/// characters, at most three, ignoring case.
pub fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase();
    let length = written.chars().count();
    let limit = (length / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (candidate.to_lowercase(), candidate))
        // The distance of long texts takes the product of their lengths.
        .filter(|(lower, _)| lower.chars().count().abs_diff(length) <= limit)
        .map(|(lower, candidate)| (strsim::osa_distance(&written, &lower), candidate))
        .filter(|&(distance, _)| distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_and_groups() {
        assert_eq!(count(1, "node"), "1 node");
        assert_eq!(count(2, "replica"), "2 replicas");
        assert_eq!(count(2, "batch"), "2 batches");
        assert_eq!(count(3, "retry"), "3 retries");
        assert_eq!(group_digits(29_974_418_432), "29,974,418,432");
        assert_eq!(group_digits(999), "999");
    }

    #[test]
    fn long_texts_are_truncated_to_their_difference() {
        assert_eq!(differing_parts("one", "two", 8), ("one".to_owned(), "two".to_owned()));
        let (a, b) = (format!("{}x{}", "-".repeat(50), "-".repeat(50)), "-".repeat(50));
        assert_eq!(differing_parts(&a, &b, 8), ("…--x-----…".to_owned(), "…--".to_owned()));
        assert_eq!(differing_parts("größer", "größte", 60).0, "größer");
    }

    #[test]
    fn lists_and_figures() {
        assert_eq!(backtick_list(&["a", "b", "c"], "or"), "`a`, `b` or `c`");
        assert_eq!(bytes(42_949_672_960), "40 GiB");
        assert_eq!(bytes(1_610_612_736), "1.5 GiB");
        assert_eq!(duration(5_400), "1h 30m");
        assert_eq!(duration(432_000), "5d");
        assert_eq!(dollars(58_912.4), "$58,912");
        assert_eq!(dollars(0.5), "$0.50");
    }

    #[test]
    fn wrap_breaks_between_words_and_keeps_lines() {
        assert_eq!(wrap("one two three", 8, 0), ["one two", "three"]);
        assert_eq!(wrap("one two three", 8, 4), ["one", "two", "three"]);
        assert_eq!(wrap("a\n  bb cc\n\nd", 5, 0), ["a", "  bb", "  cc", "", "d"]);
        assert_eq!(wrap("averylongword b", 4, 0), ["averylongword", "b"]);
        assert_eq!(wrap("", 4, 9), [""]);
    }

    #[test]
    fn long_lines_continue_below_their_text() {
        let line = "  create  bucket b: the default bucket does not exist\nshort\n";
        let expected = "  create  bucket b: the\n          default bucket\n          does not exist\nshort\n";
        assert_eq!(wrap_lines(line, 26), expected);
        assert_eq!(wrap_lines("one two three four", 9), "one two\n  three\n  four");
        assert_eq!(wrap_lines("  one two three", 9), "  one\n    two\n    three");
        assert_eq!(
            wrap_lines("s3://bucket/key/of/an/archive: created", 20),
            "s3://bucket/key/of/an/archive:\n  created"
        );
        assert_eq!(wrap_lines("\u{1b}[32mone\u{1b}[0m two", 7), "\u{1b}[32mone\u{1b}[0m two");
        assert_eq!(wrap_lines("", 7), "");
        let painted = "  \u{1b}[1mnext    \u{1b}[0m trainc plan job.kdl --offline";
        let expected =
            "  \u{1b}[1mnext    \u{1b}[0m trainc plan \\\n           job.kdl \\\n           --offline";
        assert_eq!(wrap_lines(painted, 24), expected);
    }

    #[test]
    fn nearest_finds_only_typos() {
        let names = ["shard-degree", "tensor-degree", "wrap"];
        assert_eq!(nearest("shard-degre", names), Some("shard-degree"));
        assert_eq!(nearest("shrad-degree", names), Some("shard-degree"));
        assert_eq!(nearest("warp", names), Some("wrap"));
        assert_eq!(nearest("banana", names), None);
    }

    #[test]
    fn predicted_durations_are_rounded() {
        let words = [0.4, 358.2, 2_214.0, 4_661.0, 106_983.0, -3.0].map(rounded_duration);
        assert_eq!(words, ["0s", "5m 58s", "36m 50s", "1h 18m", "1d 5h 40m", "0s"]);
    }

    #[test]
    fn quoted_text_is_not_broken() {
        let help = "write `s3=\"s3://bucket/prefix/{{ job.digest }}/\"` there";
        assert_eq!(wrap(help, 20, 0), ["write", "`s3=\"s3://bucket/prefix/{{ job.digest }}/\"`", "there"]);
        assert_eq!(wrap("a 19\" rack of them", 10, 0), ["a 19\" rack", "of them"]);
    }

    #[test]
    fn long_names_are_shortened() {
        let digest = "c1819e12c47fe79e9b54fd6f5fef571bc21d453702ed54f5a6fb6da71733556b";
        assert_eq!(shorten_name(&format!("s3://a/trainc/{digest}/worker.json")), "…/c1819e12/worker.json");
        assert_eq!(shorten_name("s3://a/trainc/job/sourcedir.tar.gz"), "…/job/sourcedir.tar.gz");
        assert_eq!(shorten_name("arn:aws:iam::111122223333:role/training"), "training");
        assert_eq!(shorten_name("corpus"), "corpus");
    }
}
