//! The values of literals: strings, numbers and keywords.
//!
//! In: the text of one token. Out: its value, or the place of an error, in bytes from its start.

use super::characters::{is_disallowed, is_newline, is_space};
use super::fault::{Fault, FaultKind};
use super::units;
use kdl::KdlValue;
use std::fmt::Write as _;
use trainc_diag::text;

/// The value of a number.
pub(super) enum Number {
    /// An integer or a float.
    Value(KdlValue),
    /// Out of the range of `i128` or `f64`.
    TooLarge,
    /// Not a number.
    Malformed,
}

/// Parses a number: decimal with fraction and exponent, `0x`, `0o`, `0b`; `_` between digits.
pub(super) fn number(word: &str) -> Number {
    let (negative, rest) = match word.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, word.strip_prefix('+').unwrap_or(word)),
    };
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = rest.strip_prefix(prefix) {
            return integer(digits, radix, negative);
        }
    }
    if !rest.contains(['.', 'e', 'E']) {
        return integer(rest, 10, negative);
    }
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (rest, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let is_valid = is_digits(whole, 10)
        && fraction.is_none_or(|f| is_digits(f, 10))
        && exponent.is_none_or(|e| is_digits(e, 10));
    if !is_valid {
        return Number::Malformed;
    }
    match word.replace('_', "").parse::<f64>() {
        Ok(value) if value.is_finite() => Number::Value(KdlValue::Float(value)),
        Ok(_) => Number::TooLarge,
        Err(_) => Number::Malformed,
    }
}

fn is_digits(digits: &str, radix: u32) -> bool {
    digits.starts_with(|c: char| c.is_digit(radix)) && digits.chars().all(|c| c == '_' || c.is_digit(radix))
}

fn integer(digits: &str, radix: u32, negative: bool) -> Number {
    if !is_digits(digits, radix) {
        return Number::Malformed;
    }
    // Parsed with its sign: the smallest number has no positive counterpart.
    let mut signed = String::with_capacity(digits.len() + 1);
    signed.extend(negative.then_some('-'));
    signed.extend(digits.chars().filter(|&c| c != '_'));
    i128::from_str_radix(&signed, radix)
        .map_or(Number::TooLarge, |value| Number::Value(KdlValue::Integer(value)))
}

/// Returns the value of a keyword, with or without its `#`.
pub(super) fn keyword(word: &str) -> KdlValue {
    match word.trim_start_matches('#') {
        "true" => KdlValue::Bool(true),
        "false" => KdlValue::Bool(false),
        "inf" => KdlValue::Float(f64::INFINITY),
        "-inf" => KdlValue::Float(f64::NEG_INFINITY),
        "nan" => KdlValue::Float(f64::NAN),
        _ => KdlValue::Null,
    }
}

/// Parses the escape at the start of the text: its character, if any, and its length in bytes. An error is
/// the length of the invalid escape.
pub(super) fn escape(text: &str) -> Result<(Option<char>, usize), usize> {
    let after = text.get(1..).unwrap_or("");
    let Some(c) = after.chars().next() else {
        return Err(1);
    };
    let simple = match c {
        '\\' => '\\',
        '"' => '"',
        'b' => '\u{08}',
        'f' => '\u{0C}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        's' => ' ',
        'u' => return unicode_escape(after),
        _ if is_space(c) || is_newline(c) => {
            let blanks = after.find(|c| !is_space(c) && !is_newline(c)).unwrap_or(after.len());
            return Ok((None, 1 + blanks));
        }
        _ => return Err(1 + c.len_utf8()),
    };
    Ok((Some(simple), 2))
}

/// Parses `u{41}`: the text starts at the `u`, the length includes the backslash before it.
fn unicode_escape(after: &str) -> Result<(Option<char>, usize), usize> {
    let Some(digits) = after.strip_prefix("u{") else {
        return Err(2);
    };
    let length = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
    let Some(hex) = digits.get(..length) else {
        return Err(2);
    };
    if !digits.get(length..).is_some_and(|rest| rest.starts_with('}')) {
        return Err(3 + length);
    }
    let code = if (1..=6).contains(&length) { u32::from_str_radix(hex, 16).ok() } else { None };
    code.and_then(char::from_u32).map(|c| (Some(c), length + 4)).ok_or(length + 4)
}

/// Returns the text of any string: bare, quoted or raw, one-line or multi-line.
pub(super) fn string(raw: &str) -> Result<String, Fault> {
    let hashes = raw.len() - raw.trim_start_matches('#').len();
    let inner = raw.get(hashes..raw.len().saturating_sub(hashes)).unwrap_or("");
    if !inner.starts_with('"') {
        return Ok(raw.to_owned());
    }
    // `#"""x"""#` is a raw string of one line whose text starts with quotes.
    if let Some(body) =
        inner.strip_prefix("\"\"\"").filter(|body| hashes == 0 || body.starts_with(is_newline))
    {
        let body = body.strip_suffix("\"\"\"").unwrap_or(body);
        return multi_line_string(body, hashes + 3, hashes > 0);
    }
    let body = inner.get(1..inner.len().saturating_sub(1)).unwrap_or("");
    if hashes > 0 { Ok(body.to_owned()) } else { Ok(unescape(body)) }
}

/// Resolves all escapes; invalid ones are kept unchanged.
fn unescape(body: &str) -> String {
    let mut out = String::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = rest.find('\\') {
        out.push_str(rest.get(..at).unwrap_or(""));
        let from = rest.get(at..).unwrap_or("");
        let length = match escape(from) {
            Ok((c, length)) => {
                out.extend(c);
                length
            }
            Err(length) => {
                out.push_str(from.get(..length).unwrap_or(""));
                length
            }
        };
        rest = from.get(length..).unwrap_or("");
    }
    out.push_str(rest);
    out
}

/// Parses a multi-line string: `body` is the text between the triple quotes and starts `offset` bytes into
/// the token.
fn multi_line_string(body: &str, offset: usize, raw: bool) -> Result<String, Fault> {
    if let Some((bad, c)) = body.char_indices().find(|&(_, c)| is_disallowed(c)) {
        return Err(Fault::new(FaultKind::BadCharacter, offset + bad, offset + bad + c.len_utf8()));
    }
    if !body.starts_with(is_newline) {
        return Err(Fault::new(FaultKind::MultiStart, 0, offset));
    }
    // Lines with their offsets; an escaped line end joins two.
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut line = String::new();
    let mut start = 0;
    let mut at = 0;
    while let Some(c) = body.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = body.get(at..).unwrap_or("");
        if !raw && c == '\\' {
            let (length, blanks) = match escape(rest) {
                Ok((found, length)) => (length, found.is_none()),
                Err(length) => {
                    return Err(Fault::new(FaultKind::BadEscape, offset + at, offset + at + length));
                }
            };
            if !blanks {
                line.push_str(rest.get(..length).unwrap_or(""));
            }
            at += length;
        } else if is_newline(c) {
            lines.push((start, std::mem::take(&mut line)));
            at += if rest.starts_with("\r\n") { 2 } else { c.len_utf8() };
            start = at;
        } else {
            line.push(c);
            at += c.len_utf8();
        }
    }
    let indent = line;
    if !indent.chars().all(is_space) {
        return Err(Fault::new(FaultKind::MultiEnd, offset + body.len(), offset + body.len() + 3));
    }
    let mut out = String::new();
    // The first "line" is the rest of the line of the opening quotes.
    for (index, (start, line)) in lines.iter().enumerate().skip(1) {
        if index > 1 {
            out.push('\n');
        }
        if line.chars().all(is_space) {
            continue;
        }
        let Some(kept) = line.strip_prefix(indent.as_str()) else {
            let from = offset + start;
            // Its indentation, or its first character.
            let written = body.get(*start..).unwrap_or("");
            let blanks = written.find(|c| !is_space(c)).unwrap_or(0);
            let first = written.chars().next().map_or(0, char::len_utf8);
            return Err(Fault::new(FaultKind::MultiIndent, from, from + blanks.max(first)));
        };
        if raw {
            out.push_str(kept);
        } else {
            out.push_str(&unescape(kept));
        }
    }
    Ok(out)
}

/// Returns the text as a KDL string, with quotes.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if is_newline(c) || is_disallowed(c) => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Returns the numbers that digits with a suffix may mean: `100B` is 100 billion, `1.5M` is 1,500,000; `4k`
/// is also 4 × 1,024, as in sequence lengths. Empty if there is no such suffix.
pub(super) fn expand_suffix(raw: &str) -> Vec<String> {
    let zeros = [("k", 3), ("K", 3), ("M", 6), ("B", 9), ("T", 12)];
    let found = zeros.iter().find_map(|(letter, zeros)| {
        let digits = raw.strip_suffix(letter)?;
        let binary = digits.parse::<u64>().ok().filter(|n| *n > 0 && letter.eq_ignore_ascii_case("k"));
        let binary =
            binary.and_then(|n| n.checked_mul(1_024)).map(|n| text::group_digits(n).replace(',', "_"));
        Some(std::iter::once(times_power_of_ten(digits, *zeros)?).chain(binary).collect())
    });
    found.unwrap_or_default()
}

/// Returns a number times a power of ten as manifest text, if the product is whole: `1_500_000` of `1.5` and
/// 6.
pub(super) fn times_power_of_ten(number: &str, zeros: u32) -> Option<String> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    let rest = zeros.checked_sub(u32::try_from(fraction.len()).ok()?)?;
    let all = (!whole.is_empty() && is_number(whole) && is_number(fraction) && !number.ends_with('.'))
        .then(|| format!("{whole}{fraction}"))?;
    let value = all.parse::<u64>().ok()?.checked_mul(10_u64.checked_pow(rest)?)?;
    Some(text::group_digits(value).replace(',', "_"))
}

/// Returns the number at the start of a text, if at most two characters follow: `10%`, `2x`, `1e-`.
/// Quantities (`2h`), versions and dates are not numbers.
pub(super) fn leading_number(raw: &str) -> Option<&str> {
    let unsigned = raw.strip_prefix(['+', '-']).unwrap_or(raw);
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let whole = digits(unsigned);
    let after = unsigned.get(whole..)?;
    let fraction = after.strip_prefix('.').map_or(0, digits);
    let length = raw.len() - after.len() + if fraction > 0 { 1 + fraction } else { 0 };
    let power = raw.get(length..)?.strip_prefix(['e', 'E']).unwrap_or_default();
    let power_digits = digits(power.strip_prefix(['+', '-']).unwrap_or(power));
    let signs = usize::from(power.starts_with(['+', '-']));
    let length = if power_digits > 0 { length + 1 + signs + power_digits } else { length };
    let (number, rest) = raw.split_at_checked(length)?;
    let is_quantity = units::bytes(raw).is_ok()
        || units::milliseconds(raw).is_ok()
        || units::rate(raw).is_ok()
        || units::steps(raw).is_ok();
    (whole > 0 && !is_quantity && rest.chars().count() <= 2 && !rest.contains(|c: char| c.is_ascii_digit()))
        .then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_expanded() {
        for (raw, numbers) in [
            ("100B", &["100_000_000_000"][..]),
            ("1.5M", &["1_500_000"]),
            ("2T", &["2_000_000_000_000"]),
            ("4k", &["4_000", "4_096"]),
            ("0.25K", &["250"]),
            ("B", &[]),
            ("1.B", &[]),
            ("1.2345k", &[]),
            ("99999999999T", &[]),
            ("1.5x", &[]),
        ] {
            assert_eq!(expand_suffix(raw), numbers, "{raw}");
        }
    }

    #[test]
    fn numbers_followed_by_other_characters() {
        for (raw, number) in [
            ("2x", "2"),
            ("10%", "10"),
            ("1e-", "1"),
            ("2e", "2"),
            ("3.", "3"),
            ("-0.5x", "-0.5"),
            ("2e-5x", "2e-5"),
            ("1.5E+3ms", "1.5E+3"),
        ] {
            assert_eq!(leading_number(raw), Some(number), "{raw}");
        }
        for raw in
            ["2h", "500GiB", "1.12.1", "2026-01-01", "us-east-1", "8xH100", "x", "-", "", "5steps", "12abc"]
        {
            assert_eq!(leading_number(raw), None, "{raw}");
        }
    }
}
