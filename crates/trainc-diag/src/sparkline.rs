//! A series of figures drawn as one line of text.

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const LETTERS: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];

/// Draws figures as a line of at most `columns` characters, from `bottom` (by default the smallest figure) to
/// the largest figure. Each character is the mean of the figures in its part of the series; figures that are
/// not finite are left out. Empty without two figures.
pub fn sparkline(figures: &[f64], bottom: Option<f64>, columns: usize, unicode: bool) -> String {
    let figures: Vec<f64> = figures.iter().copied().filter(|figure| figure.is_finite()).collect();
    if figures.len() < 2 || columns == 0 {
        return String::new();
    }
    let columns = columns.min(figures.len());
    let means: Vec<f64> = (0..columns)
        .filter_map(|column| {
            let ends = [column, column + 1].map(|at| at * figures.len() / columns);
            let part = figures.get(ends[0]..ends[1])?;
            Some(part.iter().map(|figure| figure / part.len() as f64).sum())
        })
        .collect();
    let low = bottom.unwrap_or_else(|| means.iter().copied().fold(f64::INFINITY, f64::min));
    let high = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let levels = if unicode { BLOCKS } else { LETTERS };
    let draw = |mean: &f64| {
        // A flat series is drawn in the middle. Halves keep the difference of two large figures finite.
        let share = if high > low { (mean / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0) } else { 0.5 };
        let reached = (1..levels.len()).take_while(|level| share * 8.0 >= *level as f64).count();
        levels.get(reached).copied().unwrap_or(' ')
    };
    means.iter().map(draw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_rise_from_the_lowest_to_the_highest_block() {
        let rising: Vec<f64> = (0..8).map(f64::from).collect();
        assert_eq!(sparkline(&rising, None, 80, true), "▁▂▃▄▅▆▇█");
        assert_eq!(sparkline(&rising, None, 80, false), "_.:-=+*#");
        // Pairs: 0.5, 2.5, 4.5, 6.5.
        assert_eq!(sparkline(&rising, None, 4, true), "▁▃▆█");
        assert_eq!(sparkline(&[3.0, f64::NAN, 1.0], None, 80, true), "█▁");
        // From zero, a half is half as high.
        assert_eq!(sparkline(&[99.0, 100.0, 50.0], Some(0.0), 80, true), "██▅");
    }

    #[test]
    fn odd_series_are_drawn_too() {
        assert_eq!(sparkline(&[], None, 10, true), "");
        assert_eq!(sparkline(&[1.0], None, 10, true), "");
        assert_eq!(sparkline(&[1.0, 2.0], None, 0, true), "");
        assert_eq!(sparkline(&[2.0; 3], None, 10, true), "▅▅▅");
        assert_eq!(sparkline(&[-f64::MAX, f64::MAX], None, 10, true), "▁█");
    }
}
