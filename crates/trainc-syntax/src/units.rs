//! Parses sizes, durations, rates and numbers of steps.

use trainc_diag::text;

/// The reason why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not start with a number.
    NoNumber,
    /// Nothing follows the number.
    NoUnit,
    /// The unit after the number is unknown.
    UnknownUnit {
        /// The unit, as written.
        unit: String,
        /// The whole text with the nearest unit.
        near: Option<String>,
    },
    /// The value overflows 64 bits.
    TooLarge,
}

const BYTES: &[(&str, u64)] = &[
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];
const MILLISECONDS: &[(&str, u64)] = &[
    ("ms", 1),
    ("s", 1_000),
    ("sec", 1_000),
    ("m", 60_000),
    ("min", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
];
const RATES: &[(&str, u64)] = &[
    ("B/s", 1),
    ("kB/s", 1_000),
    ("MB/s", 1_000_000),
    ("GB/s", 1_000_000_000),
    ("TB/s", 1_000_000_000_000),
    ("MiB/s", 1 << 20),
    ("GiB/s", 1 << 30),
    ("Mbps", 125_000),
    ("Gbps", 125_000_000),
    ("Tbps", 125_000_000_000),
];

/// Parses a size such as `500GiB` or `1.5 TB` into bytes.
pub fn bytes(written: &str) -> Result<u64, Fault> {
    parse_quantity(written, BYTES)
}

/// Parses a rate such as `600GB/s` or `400Gbps` into bytes per second.
pub fn rate(written: &str) -> Result<u64, Fault> {
    parse_quantity(written, RATES)
}

/// Parses a duration such as `90s`, `1h30m` or `5d` into milliseconds.
pub fn milliseconds(written: &str) -> Result<u64, Fault> {
    let whole = written.trim();
    let mut rest = whole;
    if rest.is_empty() {
        return Err(Fault::NoNumber);
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let number =
            rest.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_'))).unwrap_or(rest.len());
        let after = rest.get(number..).unwrap_or("").trim_start();
        let unit = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let end = rest.len() - after.len() + unit;
        let part = rest.get(..end).unwrap_or(rest);
        let milliseconds = parse_quantity(part, MILLISECONDS).map_err(|fault| match fault {
            Fault::UnknownUnit { unit, near: Some(near) } => {
                // The whole text must be valid with the suggested unit.
                let start = whole.len() - rest.len();
                let corrected = format!(
                    "{}{}{}",
                    whole.get(..start).unwrap_or(""),
                    near.trim_matches('"'),
                    rest.get(end..).unwrap_or("")
                );
                let near = self::milliseconds(&corrected).is_ok().then(|| format!("\"{corrected}\""));
                Fault::UnknownUnit { unit, near }
            }
            other => other,
        })?;
        total = total.checked_add(milliseconds).ok_or(Fault::TooLarge)?;
        if unit == 0 {
            // A number without a unit, which parse_quantity() has rejected.
            return Err(Fault::NoUnit);
        }
        rest = rest.get(end..).unwrap_or("").trim_start();
    }
    Ok(total)
}

/// Parses a number of steps such as `200 steps`.
pub fn steps(written: &str) -> Result<u64, Fault> {
    let (number, unit) = split(written)?;
    match unit {
        "step" | "steps" => number.replace('_', "").parse().map_err(|_| Fault::NoNumber),
        "" => Err(Fault::NoUnit),
        _ => Err(Fault::UnknownUnit {
            unit: unit.to_owned(),
            near: text::nearest(unit, ["steps"]).map(|near| format!("\"{number} {near}\"")),
        }),
    }
}

/// Other spellings of units, in lower case and without the plural `s`.
const UNIT_ALIASES: &[(&str, &str)] = &[
    ("sec", "s"),
    ("second", "s"),
    ("min", "m"),
    ("minute", "m"),
    ("hr", "h"),
    ("hour", "h"),
    ("day", "d"),
    ("wk", "w"),
    ("week", "w"),
    ("millisecond", "ms"),
    ("byte", "B"),
    ("mbit/", "Mbps"),
    ("mbit", "Mbps"),
    ("gbit/", "Gbps"),
    ("gbit", "Gbps"),
    ("tbit/", "Tbps"),
    ("tbit", "Tbps"),
];
/// Bits, by the case of the `b`: never a typo of bytes.
const BITS: &[(&str, &str)] = &[("Mb/s", "Mbps"), ("Gb/s", "Gbps"), ("Tb/s", "Tbps")];

/// Returns the unit for another spelling.
fn unit_alias(unit: &str) -> Option<&'static str> {
    let lower = unit.to_lowercase();
    let stem = lower.trim_end_matches('s');
    let bits = BITS.iter().find(|(written, _)| *written == unit);
    let written = bits.or_else(|| UNIT_ALIASES.iter().find(|(written, _)| *written == stem));
    // `houres`: a long word is a typo of one.
    let near = || {
        let long = UNIT_ALIASES.iter().map(|(written, _)| *written).filter(|written| written.len() > 3);
        let near = text::nearest(stem, long)?;
        UNIT_ALIASES.iter().find(|(written, _)| *written == near)
    };
    written.or_else(near).map(|(_, short)| *short)
}

fn split(written: &str) -> Result<(&str, &str), Fault> {
    let written = written.trim();
    let end =
        written.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_'))).unwrap_or(written.len());
    match written.get(..end) {
        None | Some("") => Err(Fault::NoNumber),
        Some(number) => Ok((number, written.get(end..).unwrap_or("").trim())),
    }
}

fn parse_quantity(written: &str, table: &[(&str, u64)]) -> Result<u64, Fault> {
    let (number, unit) = split(written)?;
    if unit.is_empty() {
        return Err(Fault::NoUnit);
    }
    let Some((_, size)) = table.iter().find(|(name, _)| *name == unit) else {
        let lower = unit.to_lowercase();
        let near = unit_alias(unit)
            .filter(|short| table.iter().any(|(name, _)| name == short))
            .or_else(|| table.iter().map(|(name, _)| *name).find(|name| name.eq_ignore_ascii_case(unit)))
            .or_else(|| {
                table.iter().map(|(name, _)| *name).find(|name| name.to_lowercase().starts_with(&lower))
            })
            // A single letter is similar to every other.
            .or_else(|| text::nearest(unit, table.iter().map(|(name, _)| *name)).filter(|_| unit.len() > 1));
        return Err(Fault::UnknownUnit {
            unit: unit.to_owned(),
            near: near.map(|near| format!("\"{number}{near}\"")),
        });
    };
    let digits = number.replace('_', "");
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(*size).ok_or(Fault::TooLarge);
    }
    let value: f64 =
        digits.parse().map_err(|_| if digits.contains('.') { Fault::NoNumber } else { Fault::TooLarge })?;
    let value = (value * *size as f64).round();
    if value.is_finite() && value < 1.8e19 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded, in range")]
        Ok(value as u64)
    } else {
        Err(Fault::TooLarge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_parsed() {
        assert_eq!(bytes("500GiB"), Ok(500 << 30));
        assert_eq!(bytes("1.5 TB"), Ok(1_500_000_000_000));
        assert_eq!(milliseconds("5d"), Ok(432_000_000));
        assert_eq!(milliseconds("1h30m"), Ok(5_400_000));
        assert_eq!(milliseconds("1h 30m"), Ok(5_400_000));
        assert_eq!(milliseconds("1000s"), Ok(1_000_000));
        assert_eq!(rate("400Gbps"), Ok(50_000_000_000));
        assert_eq!(steps("200 steps"), Ok(200));
        assert_eq!(steps("2_000 steps"), Ok(2_000));
    }

    #[test]
    fn invalid_quantities_have_a_reason() {
        assert_eq!(bytes("500"), Err(Fault::NoUnit));
        assert_eq!(bytes("GiB"), Err(Fault::NoNumber));
        assert_eq!(
            bytes("500gib"),
            Err(Fault::UnknownUnit { unit: "gib".to_owned(), near: Some("\"500GiB\"".to_owned()) })
        );
        assert_eq!(
            bytes("500Gi"),
            Err(Fault::UnknownUnit { unit: "Gi".to_owned(), near: Some("\"500GiB\"".to_owned()) })
        );
        assert_eq!(
            bytes("500G"),
            Err(Fault::UnknownUnit { unit: "G".to_owned(), near: Some("\"500GiB\"".to_owned()) })
        );
        assert_eq!(
            rate("600Gbit/s"),
            Err(Fault::UnknownUnit { unit: "Gbit/s".to_owned(), near: Some("\"600Gbps\"".to_owned()) })
        );
        assert_eq!(
            rate("600Gb/s"),
            Err(Fault::UnknownUnit { unit: "Gb/s".to_owned(), near: Some("\"600Gbps\"".to_owned()) })
        );
        assert_eq!(
            milliseconds("1h 30 mins"),
            Err(Fault::UnknownUnit { unit: "mins".to_owned(), near: Some("\"1h 30m\"".to_owned()) })
        );
        assert_eq!(milliseconds("1e400d"), Err(Fault::UnknownUnit { unit: "e".to_owned(), near: None }));
        assert_eq!(
            milliseconds("5 days"),
            Err(Fault::UnknownUnit { unit: "days".to_owned(), near: Some("\"5d\"".to_owned()) })
        );
        assert!(milliseconds("5 parsecs").is_err());
        assert_eq!(bytes("99999999999TiB"), Err(Fault::TooLarge));
        assert_eq!(milliseconds("1h30"), Err(Fault::NoUnit));
    }
}
