//! Sizes, durations, rates and steps as people write them.

use trainc_diag::text;

/// Why a text is no quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not begin with a number.
    NoNumber,
    /// Nothing follows the number.
    NoUnit,
    /// What follows the number is no unit.
    UnknownUnit {
        /// What was written.
        unit: String,
        /// The whole text with the nearest unit.
        near: Option<String>,
    },
    /// More than fits.
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

/// Bytes of a size as `500GiB` or `1.5 TB`.
pub fn bytes(written: &str) -> Result<u64, Fault> {
    single(written, BYTES)
}

/// Bytes per second of a rate as `600GB/s` or `400Gbps`.
pub fn rate(written: &str) -> Result<u64, Fault> {
    single(written, RATES)
}

/// Milliseconds of a duration as `90s`, `1h30m` or `5d`.
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
        let milliseconds = single(part, MILLISECONDS).map_err(|fault| match fault {
            Fault::UnknownUnit { unit, near: Some(near) } => {
                // The rest of the text stays as it is; it has to read with the unit that was meant.
                let start = whole.len() - rest.len();
                let mended = format!(
                    "{}{}{}",
                    whole.get(..start).unwrap_or(""),
                    near.trim_matches('"'),
                    rest.get(end..).unwrap_or("")
                );
                let near = self::milliseconds(&mended).is_ok().then(|| format!("\"{mended}\""));
                Fault::UnknownUnit { unit, near }
            }
            other => other,
        })?;
        total = total.checked_add(milliseconds).ok_or(Fault::TooLarge)?;
        if unit == 0 {
            // The part was a number alone; single() has refused it.
            return Err(Fault::NoUnit);
        }
        rest = rest.get(end..).unwrap_or("").trim_start();
    }
    Ok(total)
}

/// Steps of a text as `200 steps`.
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

/// Units that people write otherwise, in lower case and without the `s` of the plural.
const IN_FULL: &[(&str, &str)] = &[
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
/// Bits, by the case of the `b`: never a slip for bytes.
const BITS: &[(&str, &str)] = &[("Mb/s", "Mbps"), ("Gb/s", "Gbps"), ("Tb/s", "Tbps")];

/// The unit that people write in full.
fn in_full(unit: &str) -> Option<&'static str> {
    let lower = unit.to_lowercase();
    let stem = lower.trim_end_matches('s');
    let bits = BITS.iter().find(|(written, _)| *written == unit);
    let written = bits.or_else(|| IN_FULL.iter().find(|(written, _)| *written == stem));
    // `houres`: what has the length of a word is a slip of one.
    let near = || {
        let long = IN_FULL.iter().map(|(written, _)| *written).filter(|written| written.len() > 3);
        let near = text::nearest(stem, long)?;
        IN_FULL.iter().find(|(written, _)| *written == near)
    };
    written.or_else(near).map(|(_, meant)| *meant)
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

fn single(written: &str, table: &[(&str, u64)]) -> Result<u64, Fault> {
    let (number, unit) = split(written)?;
    if unit.is_empty() {
        return Err(Fault::NoUnit);
    }
    let Some((_, size)) = table.iter().find(|(name, _)| *name == unit) else {
        let lower = unit.to_lowercase();
        let near = in_full(unit)
            .filter(|short| table.iter().any(|(name, _)| name == short))
            .or_else(|| table.iter().map(|(name, _)| *name).find(|name| name.eq_ignore_ascii_case(unit)))
            .or_else(|| {
                table.iter().map(|(name, _)| *name).find(|name| name.to_lowercase().starts_with(&lower))
            })
            // One letter is one slip from every other.
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
    fn reads_what_people_write() {
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
    fn says_why_not() {
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
