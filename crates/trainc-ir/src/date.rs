//! Calendar dates as ISO texts.

/// Days since 1970 as an ISO date (Howard Hinnant, "chrono-compatible low-level date algorithms").
pub fn iso_date(days: i64) -> String {
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

/// Returns the days since 1970 of an ISO date; `None` for any other text.
pub fn epoch_days(date: &str) -> Option<i64> {
    let mut parts = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

/// Returns the days from one ISO date to another; negative if the second is earlier.
pub fn days_between(from: &str, to: &str) -> Option<i64> {
    Some(epoch_days(to)? - epoch_days(from)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(iso_date(0), "1970-01-01");
        assert_eq!(iso_date(11_016), "2000-02-29");
        assert_eq!(iso_date(20_778), "2026-11-21");
        assert_eq!(days_between("1970-01-01", "2026-11-21"), Some(20_778));
        assert_eq!(days_between("2000-03-01", "2000-02-29"), Some(-1));
        assert_eq!(days_between("2026-11-21", "tomorrow"), None);
    }
}
