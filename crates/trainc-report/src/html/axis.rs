//! Axes of pictures: the coordinate of a value, and the values of tick marks.

/// A linear or logarithmic axis from one end of a length to the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    is_log: bool,
}

impl Axis {
    /// Maps values from `low` to `high` to coordinates from `from` to `to`, linearly.
    pub(super) fn linear(low: f64, high: f64, from: f64, to: f64) -> Self {
        Self { low, high, from, to, is_log: false }
    }

    /// The same logarithmically; both bounds are above 0.
    pub(super) fn log(low: f64, high: f64, from: f64, to: f64) -> Self {
        Self { low: low.max(f64::MIN_POSITIVE), high: high.max(f64::MIN_POSITIVE), from, to, is_log: true }
    }

    /// Returns the coordinate of a value, clamped to the axis.
    pub(super) fn coordinate(&self, value: f64) -> f64 {
        let place = |x: f64| if self.is_log { x.max(f64::MIN_POSITIVE).ln() } else { x };
        let (low, high) = (place(self.low), place(self.high));
        let share = if high > low { (place(value) - low) / (high - low) } else { 0.5 };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Returns at most about `most` round values on the axis.
    pub(super) fn marks(&self, most: usize) -> Vec<f64> {
        if self.is_log {
            log_marks(self.low, self.high, most)
        } else {
            linear_marks(self.low, self.high, most)
        }
    }
}

/// Returns multiples of 1, 2 or 5 times a power of ten.
fn linear_marks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let span = high - low;
    if !span.is_finite() || span <= 0.0 || most == 0 {
        return Vec::new();
    }
    let rough = span / most as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step - 1e-9).ceil();
    let marks = (0..=most).map(|n| (first + n as f64) * step);
    marks.take_while(|mark| *mark <= high * (1.0 + 1e-9)).collect()
}

/// Returns 1, 2 and 5 times powers of ten, or only powers of ten if those are too many.
fn log_marks(low: f64, high: f64, most: usize) -> Vec<f64> {
    if !(low > 0.0 && high > low && high.is_finite()) {
        return Vec::new();
    }
    let (first, last) = (low.log10().floor(), high.log10().ceil());
    let decades = || {
        std::iter::successors(Some(first), |power| Some(power + 1.0)).take_while(move |power| *power <= last)
    };
    for times in [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]] {
        let marks: Vec<f64> = decades()
            .flat_map(|power| times.iter().map(move |n| n * 10_f64.powf(power)))
            .filter(|mark| *mark >= low && *mark <= high)
            .collect();
        if marks.len() <= most && marks.len() > 2 {
            return marks;
        }
        if marks.len() <= 2 {
            // Within a decade, equal steps are more useful than equal ratios.
            return linear_marks(low, high, most);
        }
    }
    let powers: Vec<f64> =
        decades().map(|power| 10_f64.powf(power)).filter(|mark| *mark >= low && *mark <= high).collect();
    let stride = powers.len().div_ceil(most.max(1)).max(1);
    powers.into_iter().step_by(stride).collect()
}

/// Formats a number in few characters: `980`, `12.5k`, `1.3M`.
pub(super) fn compact(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        n if n >= 1e9 => (value / 1e9, "G"),
        n if n >= 1e6 => (value / 1e6, "M"),
        n if n >= 1e4 => (value / 1e3, "k"),
        n if n >= 1e3 => return trainc_diag::text::group_digits(trainc_predict::round_to_u64(value)),
        _ => (value, ""),
    };
    format!("{}{unit}", trainc_diag::text::short_number(scaled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_marks_are_round_and_inside() {
        assert_eq!(linear_marks(0.0, 40.0, 8), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0]);
        assert_eq!(linear_marks(0.0, 0.9, 4), [0.0, 0.5]);
        assert!(linear_marks(1.0, 1.0, 4).is_empty());
    }

    #[test]
    fn log_marks_are_round_and_few() {
        let marks = log_marks(900.0, 12_000.0, 8);
        assert_eq!(marks.iter().map(|mark| mark.round()).collect::<Vec<_>>(), [1e3, 2e3, 5e3, 1e4]);
        assert_eq!(log_marks(1.0, 1e6, 4), [1.0, 1e2, 1e4, 1e6]);
        assert_eq!(log_marks(1.0, 1e6, 7).len(), 7);
        assert_eq!(log_marks(350.0, 1_200.0, 7), [400.0, 600.0, 800.0, 1_000.0, 1_200.0]);
    }

    #[test]
    fn every_value_lies_on_the_axis() {
        let axis = Axis::log(1.0, 64.0, 10.0, 610.0);
        assert!((axis.coordinate(8.0) - 310.0).abs() < 1e-9);
        assert_eq!(axis.coordinate(1e9), 610.0);
        assert_eq!(axis.coordinate(0.0), 10.0);
        assert_eq!(Axis::linear(3.0, 3.0, 0.0, 10.0).coordinate(3.0), 5.0);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([980.0, 9_783.2, 12_540.0, 1_300_000.0].map(compact), ["980", "9,783", "12.5k", "1.3M"]);
    }
}
