//! Texts that lack a quote or both: where one was meant to end, and what to write.
//!
//! In: the rest of a line from the string's quote on. Out: the place of the properties that it would swallow, and the
//! words for the mistake.

use super::faults::short;
use super::lex::is_space;
use super::literal::{number_before, shortened};
use super::recover::{T0102, T0106, quoted};
use trainc_diag::Diagnostic;
use trainc_diag::source::Span;
use trainc_diag::text;

/// Bytes of a line beyond which nobody looks for its properties.
const LONGEST: usize = 4_096;

/// Where the properties behind a string begin that lacks its closing quote: the first blank of `body` from which
/// properties alone follow, up to its end, a comment, or a block. `body` begins with the string's quote.
///
/// A text may speak of `lr=3` too: where it has several words and no value behind it is quoted, it is taken for a text.
pub fn properties_at(body: &str) -> Option<usize> {
    if body.len() > LONGEST {
        return None;
    }
    let mut at = 0;
    while let Some(blank) = body.get(at..).and_then(|rest| rest.find(is_space)).map(|found| at + found) {
        match properties(body, blank) {
            Ok(quoted) if quoted || !body.get(..blank)?.contains(is_space) => return Some(blank),
            Ok(_) => return None,
            // Nothing between here and there begins a run of properties that gets past it.
            Err(stopped) => at = stopped.max(blank + 1),
        }
    }
    None
}

/// Reads properties from a blank on. Gives whether one of their values is quoted, else where something else stands.
fn properties(body: &str, from: usize) -> Result<bool, usize> {
    let rest = |at: usize| body.get(at..).unwrap_or("");
    let run = |at: usize, is: &dyn Fn(char) -> bool| rest(at).find(|c| !is(c)).map_or(body.len(), |n| at + n);
    let is_key = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let (mut at, mut any, mut quoted) = (from, false, false);
    loop {
        let start = run(at, &is_space);
        let here = rest(start);
        let block = here.starts_with(['{', '}', ';']) && here.matches('"').count().is_multiple_of(2);
        if any && (here.is_empty() || here.starts_with("//") || block) {
            return Ok(quoted);
        }
        let key = run(start, &is_key);
        let is_name = here.starts_with(|c: char| c.is_ascii_alphabetic());
        if start == at || !is_name || !rest(key).starts_with('=') {
            return Err(start.max(key));
        }
        let value = key + 1;
        at = if rest(value).starts_with('"') {
            quoted = true;
            let close = rest(value + 1).find('"').ok_or(value + 1)?;
            value + 1 + close + 1
        } else {
            let end = run(value, &|c| !is_space(c) && !"\"{};".contains(c));
            let plain = rest(value).starts_with(|c: char| c.is_ascii_alphanumeric() || "#+-".contains(c));
            if !plain || end == value {
                return Err(value);
            }
            end
        };
        any = true;
    }
}

/// The problem of a string of one line without its end: what stands behind it was read, or it took in all of the line.
pub(super) fn without_end(span: Span, raw: &str, text: &str) -> Diagnostic {
    let behind = text.get(span.end as usize..).and_then(|rest| rest.lines().next()).unwrap_or("").trim();
    let next = behind.split(is_space).next().filter(|word| word.contains('='));
    let one = Diagnostic::new(&T0106, span, "the string is not closed on its line".to_owned());
    let one = match next {
        Some(_) => one.primary_label("its closing quote is missing"),
        None => one
            .primary_label("it starts here and takes in the rest of the line")
            .note("text of several lines stands between `\"\"\"` and `\"\"\"`, each on its own line"),
    };
    let quote = |one: Diagnostic| one.fix(Span { start: span.end, ..span }, "\"");
    match (closed(raw), next) {
        (Some(text), _) => quote(one.help(format!("write `{text}`"))),
        (None, Some(next)) => quote(one.help(format!("add the closing quote before `{}`", short(next)))),
        (None, None) => one.help("add the closing quote where the text ends"),
    }
}

/// A string that nobody closed, closed: one word alone surely ends where it ends.
fn closed(raw: &str) -> Option<String> {
    let text = raw.trim_end().strip_prefix('"')?;
    let plain = !text.is_empty() && !text.contains([' ', '\t', '"', '\\', ';', '{', '}', '=']);
    plain.then(|| format!("\"{text}\""))
}

/// The problem of a value without quotes that is no name: a number with a unit, a path, an address, a placeholder.
pub(super) fn needs_quotes(span: Span, raw: &str) -> Diagnostic {
    let text = quoted(raw);
    let shown = short(raw);
    let diagnostic = Diagnostic::new(&T0102, span, format!("`{shown}` needs quotes")).fix(span, text.clone());
    let pointed = raw.strip_prefix('.').filter(|rest| rest.chars().all(|c| c.is_ascii_digit()));
    if let Some(digits) = pointed {
        return diagnostic
            .primary_label("a number starts with a digit")
            .help(format!("write `0.{digits}`"))
            .fix(span, format!("0.{digits}"));
    }
    let plain = raw.replace(',', "");
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    // `0,0002`: no thousands begin with a zero.
    if let Some(("0", fraction)) = raw.split_once(',').filter(|(_, fraction)| is_number(fraction)) {
        return Diagnostic::new(&T0102, span, format!("`{shown}` is no number"))
            .primary_label("a fraction follows a point")
            .help(format!("write `0.{fraction}`"))
            .fix(span, format!("0.{fraction}"));
    }
    if raw.contains(',') && is_number(&plain) && raw.split(',').skip(1).all(|group| group.len() == 3) {
        let grouped = raw.replace(',', "_");
        return Diagnostic::new(&T0102, span, format!("`{shown}` is no number"))
            .primary_label("thousands are parted by `_`, or by nothing")
            .help(format!("write `{plain}` or `{grouped}`"))
            .fix(span, grouped);
    }
    if let numbers @ [_, ..] = shortened(raw).as_slice() {
        return Diagnostic::new(&T0102, span, format!("`{shown}` is neither a number nor a text"))
            .primary_label("a number with something behind it")
            .help(format!(
                "write {} for the number, or `{text}` for the text",
                text::backtick_list(numbers, "or")
            ));
    }
    if let Some(number) = number_before(raw) {
        // Which of the two is meant is not known: there is no edit.
        return Diagnostic::new(&T0102, span, format!("`{shown}` needs quotes"))
            .primary_label("neither a number nor a text")
            .help(format!("write `{number}` for the number, or `{text}` for the text"));
    }
    let here = if raw.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-')) {
        "a number with something behind it"
    } else {
        "only names go without quotes"
    };
    diagnostic.primary_label(here).help(format!("write `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::properties_at;

    #[test]
    fn properties_behind_a_string_are_no_part_of_it() {
        let rest = |body: &str| properties_at(body).map(|at| body[at..].trim().to_owned());
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(rest("\"adamw lr=2e-5 warmup=\"50 steps\""), some("lr=2e-5 warmup=\"50 steps\""));
        assert_eq!(rest("\"ml.p4d nodes=2"), some("nodes=2"));
        assert_eq!(rest("\"ml.p4d nodes=2 placement=#true // two"), some("nodes=2 placement=#true // two"));
        assert_eq!(rest("\"x nodes=1 { max-run \"1h\" }"), some("nodes=1 { max-run \"1h\" }"));
        // A text of several words is one, up to a property whose value is quoted.
        assert_eq!(rest("\"see lr=3"), some("lr=3"));
        assert_eq!(rest("\"as we use lr=3"), None);
        assert_eq!(rest("\"as lr=3 is low until=\"2027-01-01\""), some("until=\"2027-01-01\""));
        // Neither a pattern nor a text with an equals sign at its end is a property.
        assert_eq!(rest("\"train loss=([0-9.]+)"), None);
        assert_eq!(rest("\"a b= c"), None);
        assert_eq!(rest("\"a b=\"c"), None);
        assert_eq!(rest("\"5d"), None);
        assert_eq!(rest("\""), None);
        assert_eq!(rest(&format!("\"x a=1{}", " ".repeat(5_000))), None);
    }
}
