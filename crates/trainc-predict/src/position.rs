//! The physics of a run on which the error of its step time depends, and the distance to that of measured
//! runs.

use super::layout::Layout;

/// What determines how far a prediction can be off, apart from the setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    /// Tokens of a pass on one GPU.
    pub tokens: f64,
    /// Tokens of a sequence.
    pub length: f64,
    /// Channels of a tensor rank.
    pub width: f64,
    /// Nodes.
    pub nodes: f64,
    /// Parameters of the model.
    pub parameters: f64,
    /// Ranks of a context group.
    pub context: f64,
    /// Share of the step in which the GPU waits: exposed communication, bubble, offload.
    pub waiting: f64,
    /// Coordinates in units of a distance, computed once: a search asks for a hundred million distances.
    coordinates: [f64; 7],
}

/// Names of the dimensions, as a plan says how a run differs from measured ones.
const NAMES: [&str; 7] = [
    "tokens per GPU",
    "sequence length",
    "width per tensor rank",
    "nodes",
    "model size",
    "context degree",
    "share of waiting",
];

/// Factor (share, of waiting) by which two runs differ at a distance of 1, as natural logarithms (assumed:
/// errors of the published runs change little over half of it; another sequence length changes them most).
const SCALES: [f64; 7] = [1.5, 1.0, 1.0, 2.0, 2.0, 1.0, 0.3];

/// Distance along a dimension above which a plan names it.
const NOTABLE: f64 = 0.5;

impl Position {
    /// Returns the position of a layout with this share of waiting.
    pub fn new(layout: &Layout, waiting: f64) -> Self {
        let (work, degrees) = (&layout.work, &layout.degrees);
        Self::of_numbers([
            work.sequence_length * work.sequences_at_once() / degrees.context.max(1.0),
            work.sequence_length,
            layout.model.hidden / degrees.tensor.max(1.0),
            layout.hardware.nodes,
            layout.model.parameters,
            degrees.context,
            waiting,
        ])
    }

    fn of_numbers(numbers: [f64; 7]) -> Self {
        let [tokens, length, width, nodes, parameters, context, waiting] = numbers;
        let mut coordinates = numbers.map(|n| n.max(1.0).ln());
        if let Some(last) = coordinates.last_mut() {
            *last = waiting;
        }
        for (slot, scale) in coordinates.iter_mut().zip(SCALES) {
            *slot /= scale;
        }
        Self { tokens, length, width, nodes, parameters, context, waiting, coordinates }
    }

    /// Returns its numbers as in a file of constants.
    pub(super) fn numbers(&self) -> [f64; 7] {
        [self.tokens, self.length, self.width, self.nodes, self.parameters, self.context, self.waiting]
    }

    /// Returns the position of such numbers; `None` unless all are finite and all but the last positive.
    pub(super) fn from_numbers(numbers: [f64; 7]) -> Option<Self> {
        let [counts @ .., waiting] = numbers;
        let is_valid = counts.iter().all(|n| n.is_finite() && *n > 0.0) && (0.0..=1.0).contains(&waiting);
        is_valid.then(|| Self::of_numbers(numbers))
    }

    /// Returns the difference along each dimension, in units of a distance.
    fn differences(&self, other: &Self) -> impl Iterator<Item = f64> {
        self.coordinates.iter().zip(&other.coordinates).map(|(a, b)| (a - b).abs())
    }

    /// Returns the square of the distance to another position.
    pub fn squared_distance(&self, other: &Self) -> f64 {
        self.differences(other).map(|difference| difference * difference).sum()
    }

    /// Returns the sum of `apart` and [`Self::squared_distance`] if it is below a limit. Most positions of a
    /// search for the nearest are farther already in the first dimensions.
    pub fn square_below(&self, other: &Self, apart: f64, limit: f64) -> Option<f64> {
        let mut sum = 0.0;
        let mut square = apart;
        for difference in self.differences(other) {
            sum += difference * difference;
            square = apart + sum;
            if square >= limit {
                return None;
            }
        }
        (square < limit).then_some(square)
    }

    /// Returns the names of the dimensions along which another position is far, the farthest first.
    pub fn notable_differences(&self, other: &Self) -> Vec<&'static str> {
        let mut found: Vec<(f64, &'static str)> =
            self.differences(other).zip(NAMES).filter(|(difference, _)| *difference > NOTABLE).collect();
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.into_iter().map(|(_, name)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: [f64; 7] = [8192.0, 8192.0, 4096.0, 4.0, 8e9, 1.0, 0.1];

    fn at(change: impl Fn(&mut [f64; 7])) -> Position {
        let mut numbers = HERE;
        change(&mut numbers);
        Position::of_numbers(numbers)
    }

    /// By hand: four times the length is ln 4 away; the same with twice the width of a rank, ln 2 more in
    /// another dimension.
    #[test]
    fn distances_add_up_by_dimension() {
        let here = Position::of_numbers(HERE);
        let long = at(|numbers| numbers[1] = 32_768.0);
        assert!((here.squared_distance(&long) - 4.0_f64.ln().powi(2)).abs() < 1e-12);
        let wide = at(|numbers| (numbers[1], numbers[2]) = (32_768.0, 8192.0));
        let both = 4.0_f64.ln().powi(2) + 2.0_f64.ln().powi(2);
        assert!((here.squared_distance(&wide) - both).abs() < 1e-12);
        let square = 0.5 + here.squared_distance(&wide);
        assert_eq!(here.square_below(&wide, 0.5, both + 0.5 + 1e-9), Some(square));
        assert_eq!(here.square_below(&wide, 0.5, square), None);
        assert_eq!(here.notable_differences(&wide), ["sequence length", "width per tensor rank"]);
        assert_eq!(here.notable_differences(&here), [] as [&str; 0]);
    }

    #[test]
    fn invalid_numbers_are_no_position() {
        assert_eq!(Position::from_numbers(HERE).map(|here| here.numbers()), Some(HERE));
        for wrong in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
            let mut numbers = HERE;
            numbers[0] = wrong;
            assert_eq!(Position::from_numbers(numbers), None);
        }
        let waits = at(|numbers| numbers[6] = 1.5);
        assert_eq!(Position::from_numbers(waits.numbers()), None);
    }
}
