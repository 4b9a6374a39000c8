//! Value of `logs --since`: a duration or a time.

use crate::args;
use std::time::Duration;
use trainc_ir::date::iso_date;

/// Start of the logs to show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LogStart {
    /// This long ago.
    Ago(Duration),
    /// At this time, milliseconds since 1970, UTC.
    At(i64),
}

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

impl LogStart {
    /// Returns the time in seconds since 1970.
    pub(crate) fn seconds(self, now: f64) -> f64 {
        match self {
            Self::Ago(time) => now - time.as_secs_f64(),
            Self::At(milliseconds) => milliseconds as f64 / 1_000.0,
        }
    }
}

/// Parses `10m` or `2026-11-22T09:15:10.250Z`.
pub(crate) fn parse(written: &str) -> Result<LogStart, String> {
    match written.strip_suffix('Z') {
        Some(time) => parse_timestamp(time).map(LogStart::At).ok_or_else(|| {
            format!(
                "`{written}` is not a time; expected UTC, e.g. 2026-11-22T09:15:10Z, or a duration, e.g. 10m"
            )
        }),
        None => args::duration(written).map(LogStart::Ago),
    }
}

fn parse_timestamp(time: &str) -> Option<i64> {
    let (date, time) = time.split_once('T')?;
    let digits = |text: &str, most: usize| -> Option<i64> {
        let plain = !text.is_empty() && text.len() <= most && text.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| text.parse().ok()).flatten()
    };
    let year: i64 = digits(date.split('-').next()?, 4)?;
    // Searched among the dates of the year, so that invalid dates are not found.
    let first = (year - 1970) * 365 + (year - 1969).div_euclid(4) - 20;
    let day = (first..first + 400).find(|day| iso_date(*day) == date)?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut parts = time.split(':').map(|part| digits(part, 2));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let milliseconds = digits(&format!("{:0<3}", fraction.get(..3).unwrap_or(fraction)), 3)?;
    let is_whole = parts.next().is_none() && digits(fraction, 9).is_some();
    let is_time = hour < 24 && minute < 60 && second < 60;
    (is_whole && is_time).then_some(day * DAY + ((hour * 60 + minute) * 60 + second) * 1_000 + milliseconds)
}

/// Formats milliseconds since 1970; [`parse`] reads it back.
pub(crate) fn format_timestamp(milliseconds: i64) -> String {
    let clock = crate::jobs::job_context::format_time_of_day(milliseconds);
    format!("{}T{clock}.{:03}Z", iso_date(milliseconds.div_euclid(DAY)), milliseconds.rem_euclid(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_as_it_is_written() {
        for time in
            [0, 951_782_400_001, 1_709_164_799_999, 1_735_689_600_000, 1_767_603_600_250, 4_102_444_799_000]
        {
            assert_eq!(parse(&format_timestamp(time)), Ok(LogStart::At(time)), "{}", format_timestamp(time));
        }
        assert_eq!(parse("2026-01-05T09:00:00Z"), Ok(LogStart::At(1_767_603_600_000)));
        assert_eq!(parse("2026-01-05T09:00:00.5Z"), Ok(LogStart::At(1_767_603_600_500)));
        assert_eq!(parse("10m"), Ok(LogStart::Ago(Duration::from_mins(10))));
        for wrong in [
            "2026-02-30T09:00:00Z",
            "2026-01-05T24:00:00Z",
            "2026-01-05Z",
            "Z",
            "2026-01-05T09:00:00.Z",
            "10",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
