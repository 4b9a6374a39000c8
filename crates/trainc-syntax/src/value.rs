//! Values: parsed by the type that their place requires, and the diagnostics for those that do not fit.

use super::ast::Value;
use super::codes::{T0124, T0125, T0126, T0127, T0130, T0145};
use super::literal::{expand_suffix, times_power_of_ten};
use super::spec::Ty;
use super::suggestions::value_alias;
use super::units;
use kdl::KdlValue;
use trainc_diag::Diagnostic;
use trainc_diag::source::Span;
use trainc_diag::text;

/// Parses a value by its type.
pub fn parse_value(value: &KdlValue, ty: Ty) -> Result<Value, Fault> {
    match (ty, value) {
        (Ty::Text, KdlValue::String(text)) => Ok(Value::Text(text.clone())),
        (Ty::Plain, KdlValue::String(text)) if text.contains("{{") => Err(Fault::Placeholder),
        (Ty::Plain, KdlValue::String(text)) => Ok(Value::Text(text.clone())),
        (Ty::Text | Ty::Plain, KdlValue::Null) => Err(Fault::Type),
        (Ty::Text | Ty::Plain, _) => Err(Fault::MissingQuotes),
        (Ty::Word(words), KdlValue::String(text)) => {
            if words.contains(&text.as_str()) {
                Ok(Value::Text(text.clone()))
            } else {
                Err(Fault::Word(text.clone()))
            }
        }
        (Ty::Int(low, high), KdlValue::Integer(n)) => {
            if *n >= i128::from(low) && *n <= i128::from(high) {
                Ok(Value::Int(*n))
            } else {
                Err(Fault::Range)
            }
        }
        (Ty::Count, KdlValue::Integer(n)) => {
            if *n >= 1 && *n <= i128::from(u64::MAX) {
                Ok(Value::Int(*n))
            } else {
                Err(Fault::Range)
            }
        }
        (Ty::Int(..) | Ty::Count, KdlValue::Float(x)) => Err(Fault::NotWhole(*x)),
        (Ty::Number(low, high), KdlValue::Float(x)) => {
            if x.is_finite() && *x >= low && *x <= high {
                Ok(Value::Float(*x))
            } else {
                Err(Fault::Range)
            }
        }
        (Ty::Number(low, high), KdlValue::Integer(n)) => {
            let x = *n as f64;
            if x >= low && x <= high { Ok(Value::Int(*n)) } else { Err(Fault::Range) }
        }
        (Ty::Bool | Ty::BoolOr(_), KdlValue::Bool(on)) => Ok(Value::Bool(*on)),
        (Ty::BoolOr(words), KdlValue::String(text)) => {
            if words.contains(&text.as_str()) {
                Ok(Value::Text(text.clone()))
            } else {
                Err(Fault::Word(text.clone()))
            }
        }
        (Ty::Bytes, KdlValue::String(text)) => units::bytes(text).map(Value::Bytes).map_err(Fault::Unit),
        (Ty::Duration, KdlValue::String(text)) => {
            units::milliseconds(text).map(Value::Milliseconds).map_err(Fault::Unit)
        }
        (Ty::Rate, KdlValue::String(text)) => {
            units::rate(text).map(Value::BytesPerSecond).map_err(Fault::Unit)
        }
        (Ty::Every, KdlValue::String(text)) => match text.as_str() {
            "optimal" => Ok(Value::Text(text.clone())),
            _ => match units::steps(text).map(Value::Steps).or_else(|of_steps| {
                units::milliseconds(text).map(Value::Milliseconds).map_err(|of_time| {
                    // `200 stpes` is a typo of steps.
                    let is_typo = matches!(of_steps, units::Fault::UnknownUnit { near: Some(_), .. });
                    Fault::Unit(if is_typo { of_steps } else { of_time })
                })
            })? {
                Value::Steps(0) | Value::Milliseconds(0) => Err(Fault::Range),
                value => Ok(value),
            },
        },
        (Ty::StepsOrEpoch, KdlValue::String(text)) => match text.as_str() {
            "epoch" => Ok(Value::Text(text.clone())),
            _ => match units::steps(text).map_err(Fault::Unit)? {
                0 => Err(Fault::Range),
                steps => Ok(Value::Steps(steps)),
            },
        },
        (Ty::Warmup, KdlValue::String(text)) => units::steps(text).map(Value::Steps).map_err(Fault::Unit),
        (Ty::Warmup, KdlValue::Float(x)) if *x >= 0.0 && *x < 1.0 => Ok(Value::Float(*x)),
        (Ty::Warmup, KdlValue::Integer(0)) => Ok(Value::Float(0.0)),
        (Ty::Warmup, KdlValue::Float(_)) => Err(Fault::Range),
        (
            Ty::Bytes | Ty::Duration | Ty::Rate | Ty::Every | Ty::Warmup | Ty::StepsOrEpoch,
            KdlValue::Integer(n),
        ) if *n < 0 => Err(Fault::Range),
        (Ty::Bytes | Ty::Duration | Ty::Rate | Ty::Every | Ty::StepsOrEpoch, KdlValue::Float(x))
            if *x < 0.0 =>
        {
            Err(Fault::Range)
        }
        (
            Ty::Bytes | Ty::Duration | Ty::Rate | Ty::Every | Ty::Warmup | Ty::StepsOrEpoch,
            KdlValue::Integer(_) | KdlValue::Float(_),
        ) => Err(Fault::UnitMissing),
        (Ty::Scalar, KdlValue::String(text)) => Ok(Value::Text(text.clone())),
        (Ty::Scalar, KdlValue::Integer(n)) => Ok(Value::Int(*n)),
        (Ty::Scalar, KdlValue::Float(x)) if x.is_finite() => Ok(Value::Float(*x)),
        (Ty::Scalar, KdlValue::Bool(on)) => Ok(Value::Bool(*on)),
        (Ty::Scalar, KdlValue::Null) => Ok(Value::Null),
        _ => Err(Fault::Type),
    }
}

/// A reason why a value does not fit its type.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The wrong type.
    Type,
    /// A string without quotes.
    MissingQuotes,
    /// A placeholder where none is supported.
    Placeholder,
    /// An unknown word.
    Word(String),
    /// A number out of range.
    Range,
    /// A fraction instead of a whole number.
    NotWhole(f64),
    /// A number without its unit.
    UnitMissing,
    /// An invalid quantity.
    Unit(units::Fault),
}

impl Fault {
    /// Describes the fault of a value of the node or property `of`; `shown` is its text.
    pub fn diagnostic(&self, ty: Ty, shown: &str, span: Span, of: &str) -> Diagnostic {
        let expected = ty.describe_expected();
        match self {
            Self::Type => {
                // `#inf` and `#nan` are not numbers in JSON.
                let expected = match ty {
                    Ty::Scalar => "a string, a finite number, `#true`, `#false` or `#null`",
                    _ => expected.as_str(),
                };
                let diagnostic =
                    Diagnostic::new(&T0124, span, format!("{of} must be {expected}, not {shown}"));
                // A number or a keyword in quotes.
                let bare = shown.trim_matches('"');
                let unquoted = match ty {
                    Ty::Int(..) | Ty::Count => bare.parse::<u64>().is_ok().then(|| bare.to_owned()),
                    Ty::Number(..) => bare.parse::<f64>().is_ok_and(f64::is_finite).then(|| bare.to_owned()),
                    Ty::Bool | Ty::BoolOr(_) => boolean_keyword(bare).map(str::to_owned),
                    _ => None,
                };
                // `10B` and `10 billion` as a count.
                if let (Ty::Int(..) | Ty::Count, numbers @ [_, ..]) = (ty, expand_count(bare).as_slice()) {
                    let diagnostic = diagnostic.help(format!("write {}", text::backtick_list(numbers, "or")));
                    return match numbers {
                        [one] => diagnostic.fix(span, one),
                        _ => diagnostic,
                    };
                }
                match unquoted.filter(|_| shown.starts_with('"')) {
                    Some(text) => diagnostic.help(format!("write `{text}`")).fix(span, text),
                    None => diagnostic,
                }
            }
            Self::MissingQuotes => {
                let bare = shown.trim_start_matches('#');
                let diagnostic = Diagnostic::new(&T0124, span, format!("{of} must be a string, not {shown}"));
                // The number in quotes would be rejected too.
                if let Some(whole) = special_form(of, bare) {
                    return diagnostic.help(whole);
                }
                diagnostic.help(format!("put it in quotes: `\"{bare}\"`")).fix(span, format!("\"{bare}\""))
            }
            Self::Placeholder => {
                Diagnostic::new(&T0145, span, format!("{of} does not support placeholders: {shown}"))
                    .help(
                        "write the value; if it differs from run to run, set it in a layer (`env`, `--set`)",
                    )
                    .note("the plan depends on it, or it is a name: type `plain` in `trainc schema manifest`")
            }
            Self::Word(word) => {
                let words = match ty {
                    Ty::Word(words) | Ty::BoolOr(words) => words,
                    _ => &[],
                };
                let diagnostic =
                    Diagnostic::new(&T0127, span, format!("{of} must be {expected}, not `{word}`"));
                let alias = value_alias(word).filter(|alias| words.contains(alias));
                let near =
                    || text::nearest(word, words.iter().copied()).or_else(|| word_containing(word, words));
                // An address in a registry, where the family of an image is expected.
                if of == "`image`" && word.contains(['/', ':']) {
                    let whole = format!("uri=\"{word}\"");
                    return diagnostic.help(format!("write `image {whole}`")).fix(span, whole);
                }
                if let (Ty::BoolOr(_), Some(keyword)) = (ty, boolean_keyword(word)) {
                    return diagnostic.help(format!("write `{keyword}`")).fix(span, keyword);
                }
                match alias.or_else(near) {
                    Some(near) => diagnostic
                        .help(format!("did you mean `\"{near}\"`?"))
                        .fix(span, format!("\"{near}\"")),
                    None => diagnostic,
                }
            }
            Self::Range => Diagnostic::new(
                &T0130,
                span,
                format!("{of} must be {}, not {shown}", describe_range(ty, &expected)),
            ),
            Self::NotWhole(x) => {
                let diagnostic =
                    Diagnostic::new(&T0124, span, format!("{of} must be {expected}, not {shown}"));
                if x.fract() == 0.0 && *x >= 1.0 && *x < 1e18 {
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "whole, in range"
                    )]
                    let whole = text::group_digits(*x as u64).replace(',', "_");
                    diagnostic.help(format!("write `{whole}`")).fix(span, whole)
                } else {
                    diagnostic
                }
            }
            Self::UnitMissing => missing_unit(ty, shown, span, of),
            Self::Unit(fault) => unknown_unit(fault, ty, shown, span, of),
        }
    }
}

/// Returns the keyword for a boolean of another format.
fn boolean_keyword(word: &str) -> Option<&'static str> {
    match word.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some("#true"),
        "false" | "no" | "off" => Some("#false"),
        _ => None,
    }
}

/// Returns the numbers that a text with a letter or a word for its size may mean: `10B`, `10 billion`.
fn expand_count(text: &str) -> Vec<String> {
    let Some((number, word)) = text.split_once(' ') else { return expand_suffix(text) };
    let zeros = match word.trim().to_ascii_lowercase().trim_end_matches('s') {
        "k" | "thousand" => 3,
        "m" | "million" => 6,
        "b" | "billion" => 9,
        "t" | "trillion" => 12,
        _ => return Vec::new(),
    };
    times_power_of_ten(number, zeros).into_iter().collect()
}

/// Returns the help for a number where a string of a special form is expected.
fn special_form(of: &str, bare: &str) -> Option<String> {
    match of {
        "`account`" if bare.len() != 12 => {
            Some("write the account's twelve digits in quotes, such as `\"111122223333\"`".to_owned())
        }
        "`betas`" => Some(format!("write both values in quotes, such as `betas=\"{bare},0.999\"`")),
        // `2.10` as a number is 2.1, and torchrun wants all three numbers.
        "`version`" | "`pytorch`" | "`transformers`" => {
            let like = if of == "`transformers`" { "4.49.0" } else { "2.8.0" };
            Some(format!(
                "write the full version in quotes, such as `\"{like}\"`; `trainc catalog images` lists them"
            ))
        }
        _ => None,
    }
}

/// Describes a bare number where a unit is required.
fn missing_unit(ty: Ty, shown: &str, span: Span, of: &str) -> Diagnostic {
    let expected = ty.describe_expected();
    Diagnostic::new(&T0125, span, format!("{of} requires a unit: expected {expected}, found {shown}"))
        .choose(write_one_of(&suggest_unit(ty, shown)), &suggest_unit(ty, shown))
        .note(format!("valid units: {}", units_of(ty)))
}

/// Returns the units that a type accepts.
fn units_of(ty: Ty) -> &'static str {
    match ty {
        Ty::Bytes => "B, KiB, MiB, GiB, TiB (or kB, MB, GB, TB)",
        Ty::Duration => "ms, s, m, h, d, w",
        Ty::Rate => "MB/s, GB/s (bytes) or Mbps, Gbps (bits)",
        Ty::Every => "steps, s, m, h, d",
        Ty::StepsOrEpoch => "steps",
        _ => "steps (below 1 it is a fraction of the steps)",
    }
}

fn write_one_of(codes: &[String]) -> String {
    format!("write {}", text::backtick_list(codes, "or"))
}

/// Returns a bare number with the unit that is probably meant, in quotes; both where two are likely.
fn suggest_unit(ty: Ty, number: &str) -> Vec<String> {
    // No fraction of a step, nor of all steps.
    if ty == Ty::StepsOrEpoch && number.parse::<u64>().is_err() {
        return vec!["\"epoch\"".to_owned()];
    }
    let units: &[&str] = match ty {
        Ty::Bytes => &["GiB"],
        // A job can run for at most 28 days, so a larger number has a smaller unit.
        Ty::Duration => match number.parse::<f64>() {
            Ok(n) if n <= 28.0 => &["h", "d"],
            Ok(n) if n <= 28.0 * 24.0 => &["m", "h"],
            // Seconds, as in the API.
            _ => &["s"],
        },
        Ty::Rate => &["GB/s"],
        Ty::Every if number.contains(['.', 'e', 'E']) => &["m"],
        _ => &[" steps"],
    };
    units.iter().map(|unit| format!("\"{number}{unit}\"")).collect()
}

/// Describes a quantity that cannot be parsed.
fn unknown_unit(fault: &units::Fault, ty: Ty, shown: &str, span: Span, of: &str) -> Diagnostic {
    let expected = ty.describe_expected();
    if *fault == units::Fault::TooLarge {
        return Diagnostic::new(&T0130, span, format!("{of} is {shown}, which overflows 64 bits"));
    }
    let diagnostic = Diagnostic::new(&T0126, span, format!("{of} must be {expected}, not {shown}"));
    match fault {
        units::Fault::UnknownUnit { near: Some(near), .. } => {
            let diagnostic = diagnostic.did_you_mean(near);
            match units::rate(near.trim_matches('"')) {
                Ok(bytes) if ty == Ty::Rate && near.contains("bps") => diagnostic
                    .note(format!("`Gbps` counts bits and `GB/s` bytes: this is {}/s", text::bytes(bytes))),
                _ => diagnostic,
            }
        }
        units::Fault::UnknownUnit { unit, .. } if ty == Ty::Warmup && unit == "%" => {
            let percent = shown.trim_matches('"').trim_end_matches('%').trim().parse::<f64>();
            match percent.ok().filter(|percent| (0.0..100.0).contains(percent)) {
                Some(percent) => {
                    let fraction = format!("{}", (percent * 1e4).round() / 1e6);
                    diagnostic.help(format!("write `{fraction}`")).fix(span, fraction)
                }
                None => diagnostic,
            }
        }
        units::Fault::UnknownUnit { unit, near: None } => {
            diagnostic.note(format!("unknown unit `{unit}`; valid units: {}", units_of(ty)))
        }
        units::Fault::NoUnit => {
            let bare = shown.trim_matches('"').trim();
            {
                let meant = suggest_unit(ty, bare);
                diagnostic.choose(write_one_of(&meant), &meant).note("the unit is missing")
            }
        }
        units::Fault::NoNumber | units::Fault::TooLarge => diagnostic,
    }
}

/// Returns the only word of which a part was written, such as `hybrid` of `hybrid-shard`.
fn word_containing<'a>(word: &str, words: &[&'a str]) -> Option<&'a str> {
    let mut with = words.iter().filter(|known| known.split('-').any(|part| part.eq_ignore_ascii_case(word)));
    with.next().copied().filter(|_| with.next().is_none())
}

fn describe_range(ty: Ty, expected: &str) -> String {
    match ty {
        Ty::Number(low, high) if high == f64::MAX && low == 0.0 => "a number, 0 or more".to_owned(),
        Ty::Number(low, high) => format!("a number from {low} to {high}"),
        Ty::Count => "a whole number, 1 or more".to_owned(),
        Ty::Warmup => "steps, such as `\"50 steps\"`, or a fraction of them from 0 to below 1".to_owned(),
        Ty::Every => "one step or more, a duration above zero or `optimal`".to_owned(),
        Ty::StepsOrEpoch => "one step or more, or `epoch`".to_owned(),
        _ => expected.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_gets_a_valid_unit() {
        const MOST: u64 = 28 * 86_400 * 1_000;
        for (number, expected) in [
            ("5", "\"5h\"` or `\"5d\""),
            ("28", "\"28h\"` or `\"28d\""),
            ("90", "\"90m\"` or `\"90h\""),
            ("673", "\"673s\""),
            ("86400", "\"86400s\""),
        ] {
            let suggested = suggest_unit(Ty::Duration, number);
            assert_eq!(suggested.join("` or `"), expected);
            for example in suggested {
                let read = units::milliseconds(example.trim_matches('"')).unwrap();
                assert!(read <= MOST, "{example}");
            }
        }
        assert_eq!(suggest_unit(Ty::Every, "200"), ["\"200 steps\""]);
        assert_eq!(suggest_unit(Ty::Every, "1.5"), ["\"1.5m\""]);
    }

    #[test]
    fn values_of_other_formats_get_a_help() {
        let span = Span::new(trainc_diag::source::SourceId(0), 0, 4);
        let help = |written: &str, ty: Ty| {
            let value = KdlValue::String(written.to_owned());
            let diagnostic =
                parse_value(&value, ty).unwrap_err().diagnostic(ty, &format!("\"{written}\""), span, "`x`");
            diagnostic.help
        };
        let words = Ty::BoolOr(&["selective"]);
        for (written, ty, expected) in [
            ("True", words, "write `#true`"),
            ("no", words, "write `#false`"),
            ("off", Ty::Bool, "write `#false`"),
            ("10B", Ty::Count, "write `10_000_000_000`"),
            ("1.5 billion", Ty::Count, "write `1_500_000_000`"),
            ("3 millions", Ty::Count, "write `3_000_000`"),
            ("4k", Ty::Count, "write `4_000` or `4_096`"),
            ("4 houres", Ty::Duration, "did you mean `\"4h\"`?"),
        ] {
            assert_eq!(
                help(written, ty).iter().map(|help| &**help).collect::<Vec<_>>(),
                [expected],
                "{written}"
            );
        }
    }

    #[test]
    fn infinity_is_not_a_scalar() {
        let span = Span::new(trainc_diag::source::SourceId(0), 0, 4);
        let fault = parse_value(&KdlValue::Float(f64::INFINITY), Ty::Scalar).unwrap_err();
        let message = fault.diagnostic(Ty::Scalar, "#inf", span, "`lr`").message;
        assert_eq!(message, "`lr` must be a string, a finite number, `#true`, `#false` or `#null`, not #inf");
    }
}
