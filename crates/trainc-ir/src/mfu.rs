//! Model FLOPS utilization.

use trainc_diag::text;

/// Formats a model FLOPS utilization, a fraction: `39.9%`.
pub fn format_mfu(fraction: f64) -> String {
    format!("{}%", text::short_number(100.0 * fraction))
}

/// Returns a logged model FLOPS utilization as a fraction: programs log fractions or percentages.
pub fn mfu_as_fraction(logged: f64) -> f64 {
    if logged > 1.5 { logged / 100.0 } else { logged }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_and_percentages_are_shown_alike() {
        let shown = [0.399, 39.9, 0.0857, 1.0, 5.5].map(|logged| format_mfu(mfu_as_fraction(logged)));
        assert_eq!(shown, ["39.9%", "39.9%", "8.57%", "100%", "5.5%"]);
    }
}
