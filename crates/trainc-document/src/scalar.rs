//! Plain scalars of YAML 1.1 as PyYAML's `SafeLoader` resolves them (`yaml/resolver.py`,
//! `yaml/constructor.py` of 6.0.3, read 2026-11-28).

use crate::node::Value;

/// What a plain scalar without a tag is.
pub(crate) enum Plain {
    /// A value.
    Value(Value),
    /// `<<`.
    Merge,
    /// `=`, which is text as a key, and which the `SafeLoader` cannot read as a value.
    Default,
    /// It has the form of a number or a date and is none, as `0b_` and `2001-99-99`.
    Invalid(&'static str),
}

/// Resolves a plain scalar.
pub(crate) fn resolve(text: &str) -> Plain {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Plain::Value(Value::Null),
        "<<" => return Plain::Merge,
        "=" => return Plain::Default,
        _ => {}
    }
    if let Some(value) = boolean(text) {
        return Plain::Value(Value::Bool(value));
    }
    // The order of the resolver: a text that is an integer and a float is none of two forms.
    if is_float(text) {
        return number(float(text), "a number that cannot be read");
    }
    if is_integer(text) {
        return number(yaml_integer(text), "an integer without digits");
    }
    match timestamp(text) {
        Some(true) => Plain::Value(Value::Timestamp(text.into())),
        Some(false) => Plain::Invalid("a date or time that does not exist"),
        None => Plain::Value(Value::Text(text.into())),
    }
}

fn number(value: Option<Value>, problem: &'static str) -> Plain {
    value.map_or(Plain::Invalid(problem), Plain::Value)
}

/// Returns the value of `yes`, `No`, `TRUE`, `off` ….
fn boolean(text: &str) -> Option<bool> {
    const WORDS: [(&str, bool); 6] =
        [("yes", true), ("no", false), ("true", true), ("false", false), ("on", true), ("off", false)];
    let is_written = |word: &str| {
        let capitalized = || text.get(..1) == word.get(..1).map(str::to_ascii_uppercase).as_deref();
        text == word || text == word.to_ascii_uppercase() || (capitalized() && text.get(1..) == word.get(1..))
    };
    WORDS.into_iter().find(|(word, _)| is_written(word)).map(|(_, value)| value)
}

/// Returns the value of a boolean with a tag, of any case.
pub(crate) fn tagged_boolean(text: &str) -> Option<bool> {
    boolean(&text.to_lowercase())
}

fn without_sign(text: &str) -> &str {
    text.strip_prefix(['-', '+']).unwrap_or(text)
}

/// Returns the number of leading bytes that are digits or underscores, the first of them a digit.
fn digits(text: &str) -> usize {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return 0;
    }
    text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'_').count()
}

/// Returns whether a text is a number of groups to the base of 60, as `:30` and `:5:09`.
fn is_sexagesimal(text: &str) -> bool {
    let is_group = |group: &str| match group.as_bytes() {
        [last] => last.is_ascii_digit(),
        [first, last] => (b'0'..=b'5').contains(first) && last.is_ascii_digit(),
        _ => false,
    };
    text.strip_prefix(':').is_some_and(|groups| groups.split(':').all(is_group))
}

/// `[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+][0-9]+)?`, `\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?`,
/// `[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*`, `[-+]?\.(?:inf|Inf|INF)`, `\.(?:nan|NaN|NAN)`.
fn is_float(text: &str) -> bool {
    let unsigned = without_sign(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let Some((whole, fraction)) = unsigned.split_once('.') else { return false };
    let is_fraction = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let is_fraction_with_exponent = |text: &str| match text.split_once(['e', 'E']) {
        Some((fraction, exponent)) => {
            let exponent = exponent.strip_prefix(['-', '+']).unwrap_or_default();
            is_fraction(fraction)
                && !exponent.is_empty()
                && exponent.bytes().all(|byte| byte.is_ascii_digit())
        }
        None => is_fraction(text),
    };
    if whole.is_empty() {
        return text.starts_with('.') && digits(fraction) > 0 && is_fraction_with_exponent(fraction);
    }
    let len = digits(whole);
    match whole.get(len..) {
        Some("") if len > 0 => is_fraction_with_exponent(fraction),
        Some(groups) if len > 0 => is_sexagesimal(groups) && is_fraction(fraction),
        _ => false,
    }
}

/// `[-+]?0b[0-1_]+`, `[-+]?0[0-7_]+`, `[-+]?(?:0|[1-9][0-9_]*)`, `[-+]?0x[0-9a-fA-F_]+`,
/// `[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+`.
fn is_integer(text: &str) -> bool {
    let text = without_sign(text);
    let all = |text: &str, is_digit: fn(u8) -> bool| {
        !text.is_empty() && text.bytes().all(|byte| byte == b'_' || is_digit(byte))
    };
    match text.as_bytes() {
        [b'0', b'b', ..] => all(text.get(2..).unwrap_or_default(), |byte| matches!(byte, b'0' | b'1')),
        [b'0', b'x', ..] => all(text.get(2..).unwrap_or_default(), |byte| byte.is_ascii_hexdigit()),
        [b'0'] => true,
        [b'0', ..] => all(text.get(1..).unwrap_or_default(), |byte| (b'0'..=b'7').contains(&byte)),
        [b'1'..=b'9', ..] => {
            let groups = text.get(digits(text)..).unwrap_or_default();
            groups.is_empty() || is_sexagesimal(groups)
        }
        _ => false,
    }
}

/// Returns the value of an integer as YAML 1.1 writes it, or `None` if Python does not read it.
pub(crate) fn yaml_integer(text: &str) -> Option<Value> {
    let text = text.replace('_', "");
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => ("-", unsigned),
        None => ("", text.strip_prefix('+').unwrap_or(&text)),
    };
    if unsigned == "0" {
        return Some(Value::Integer(0));
    }
    if let Some(binary) = unsigned.strip_prefix("0b") {
        return integer(&format!("{sign}{binary}"), 2);
    }
    if let Some(hexadecimal) = unsigned.strip_prefix("0x") {
        return integer(&format!("{sign}{hexadecimal}"), 16);
    }
    if unsigned.starts_with('0') {
        // With a tag, as the base of Python's `int`.
        let octal = unsigned.strip_prefix("0o").or_else(|| unsigned.strip_prefix("0O")).unwrap_or(unsigned);
        return integer(&format!("{sign}{octal}"), 8);
    }
    if unsigned.contains(':') {
        let mut value: i128 = 0;
        for group in unsigned.split(':') {
            value = value.checked_mul(60)?.checked_add(group.parse().ok()?)?;
        }
        return Some(Value::Integer(if sign.is_empty() { value } else { -value }));
    }
    integer(&format!("{sign}{unsigned}"), 10)
}

/// Returns the value of digits with an optional sign, or `None` if there are none.
pub(crate) fn integer(text: &str, radix: u32) -> Option<Value> {
    let digits = without_sign(text);
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    Some(match i128::from_str_radix(text, radix) {
        Ok(value) => Value::Integer(value),
        Err(_) => Value::BigInteger(text.into()),
    })
}

/// Returns the value of a float as YAML 1.1 writes it, or `None` if Python does not read it.
pub(crate) fn float(text: &str) -> Option<Value> {
    let text = text.replace('_', "").to_lowercase();
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => (-1.0, unsigned),
        None => (1.0, text.strip_prefix('+').unwrap_or(&text)),
    };
    let value = match unsigned {
        ".inf" => f64::INFINITY,
        ".nan" => f64::NAN,
        _ if unsigned.contains(':') => {
            // As `construct_yaml_float` adds them: the last group first.
            let (mut value, mut base) = (0.0, 1.0);
            for group in unsigned.rsplit(':') {
                value += group.parse::<f64>().ok()? * base;
                base *= 60.0;
            }
            value
        }
        // Rust reads the same texts as Python, but for these words.
        _ if unsigned.starts_with(['-', '+']) => return None,
        _ => unsigned.parse().ok()?,
    };
    Some(Value::Float(sign * value))
}

/// Returns whether a text is a date or a time that exists; `None` if it has no such form.
///
/// `[0-9]{4}-[0-9]{2}-[0-9]{2}`, or
/// `[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2} (?:\.[0-9]*)?(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::[0-9]{2})?))?`.
pub(crate) fn timestamp(text: &str) -> Option<bool> {
    let mut cursor = Cursor(text);
    let year = cursor.number(4, 4)?;
    cursor.sign('-')?;
    let (month, month_len) = cursor.digits(1, 2)?;
    cursor.sign('-')?;
    let (day, day_len) = cursor.digits(1, 2)?;
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => 0,
    };
    let is_date = year > 0 && (1..=days).contains(&day);
    if cursor.0.is_empty() {
        return (month_len == 2 && day_len == 2).then_some(is_date);
    }
    let space = cursor.0.trim_start_matches([' ', '\t']);
    cursor.0 = match cursor.0.strip_prefix(['T', 't']) {
        Some(time) => time,
        None if space.len() < cursor.0.len() => space,
        None => return None,
    };
    let hour = cursor.number(1, 2)?;
    cursor.sign(':')?;
    let minute = cursor.number(2, 2)?;
    cursor.sign(':')?;
    let second = cursor.number(2, 2)?;
    if cursor.sign('.').is_some() {
        cursor.0 = cursor.0.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    let mut is_time = hour < 24 && minute < 60 && second < 60;
    let zone = cursor.0.trim_start_matches([' ', '\t']);
    if !zone.is_empty() && zone != "Z" {
        cursor.0 = zone.strip_prefix(['-', '+'])?;
        let hours = cursor.number(1, 2)?;
        let minutes = if cursor.sign(':').is_some() { cursor.number(2, 2)? } else { 0 };
        // `timedelta` takes any minutes; `timezone` takes less than a day.
        is_time &= hours * 60 + minutes < 24 * 60;
        if !cursor.0.is_empty() {
            return None;
        }
    } else if zone.is_empty() && !cursor.0.is_empty() {
        return None;
    }
    Some(is_date && is_time)
}

/// A text of which parts are taken.
struct Cursor<'a>(&'a str);

impl Cursor<'_> {
    fn digits(&mut self, least: usize, most: usize) -> Option<(u32, usize)> {
        let len = self.0.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let (digits, after) = self.0.split_at_checked(len).filter(|_| len >= least)?;
        self.0 = after;
        Some((digits.parse().ok()?, len))
    }

    fn number(&mut self, least: usize, most: usize) -> Option<u32> {
        self.digits(least, most).map(|(number, _)| number)
    }

    fn sign(&mut self, sign: char) -> Option<()> {
        self.0 = self.0.strip_prefix(sign)?;
        Some(())
    }
}
