//! What a command talks to: standard output and error, the clock, the terminal.

use std::io::Write;

/// The outside as commands see it.
pub(super) struct Io<'a> {
    /// Results.
    pub out: &'a mut dyn Write,
    /// Progress and problems.
    pub err: &'a mut dyn Write,
    /// Whether results may be coloured.
    pub color: bool,
    /// Whether box-drawing characters may be used.
    pub unicode: bool,
    /// Columns of the terminal.
    pub width: usize,
    /// Today, as an ISO date.
    pub today: String,
}

impl Io<'_> {
    /// Writes a result; a closed pipe is no error of ours.
    pub(super) fn print(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes());
    }

    /// Writes beside the results.
    pub(super) fn note(&mut self, text: &str) {
        let _ = self.err.write_all(text.as_bytes());
    }
}

/// Days since 1970 as an ISO date (Howard Hinnant, "chrono-compatible low-level date algorithms").
pub(super) fn iso_date(days: i64) -> String {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::iso_date;

    #[test]
    fn days_become_dates() {
        assert_eq!(iso_date(0), "1970-01-01");
        assert_eq!(iso_date(11_016), "2000-02-29");
        assert_eq!(iso_date(20_778), "2026-11-21");
    }
}
