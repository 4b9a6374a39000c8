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
        Self {
            tokens: work.sequence_length * work.sequences_at_once() / degrees.context.max(1.0),
            length: work.sequence_length,
            width: layout.model.hidden / degrees.tensor.max(1.0),
            nodes: layout.hardware.nodes,
            parameters: layout.model.parameters,
            context: degrees.context,
            waiting,
        }
    }

    /// Returns its numbers as in a file of constants.
    pub(super) fn numbers(&self) -> [f64; 7] {
        [self.tokens, self.length, self.width, self.nodes, self.parameters, self.context, self.waiting]
    }

    /// Returns the position of such numbers; `None` unless all are finite and all but the last positive.
    pub(super) fn from_numbers(
        [tokens, length, width, nodes, parameters, context, waiting]: [f64; 7],
    ) -> Option<Self> {
        let counts = [tokens, length, width, nodes, parameters, context];
        let is_valid = counts.iter().all(|n| n.is_finite() && *n > 0.0) && (0.0..=1.0).contains(&waiting);
        is_valid.then_some(Self { tokens, length, width, nodes, parameters, context, waiting })
    }

    fn coordinates(&self) -> [f64; 7] {
        let [.., waiting] = self.numbers();
        let mut out = self.numbers().map(|n| n.max(1.0).ln());
        if let Some(last) = out.last_mut() {
            *last = waiting;
        }
        out
    }

    /// Returns the difference along each dimension, in units of a distance.
    fn differences(&self, other: &Self) -> [f64; 7] {
        let (a, b) = (self.coordinates(), other.coordinates());
        let mut out = SCALES;
        for ((slot, a), b) in out.iter_mut().zip(a).zip(b) {
            *slot = (a - b).abs() / *slot;
        }
        out
    }

    /// Returns the square of the distance to another position.
    pub fn squared_distance(&self, other: &Self) -> f64 {
        self.differences(other).iter().map(|difference| difference * difference).sum()
    }

    /// Returns the names of the dimensions along which another position is far, the farthest first.
    pub fn notable_differences(&self, other: &Self) -> Vec<&'static str> {
        let mut found: Vec<(f64, &'static str)> = self
            .differences(other)
            .into_iter()
            .zip(NAMES)
            .filter(|(difference, _)| *difference > NOTABLE)
            .collect();
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.into_iter().map(|(_, name)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Position = Position {
        tokens: 8192.0,
        length: 8192.0,
        width: 4096.0,
        nodes: 4.0,
        parameters: 8e9,
        context: 1.0,
        waiting: 0.1,
    };

    /// By hand: four times the length is ln 4 away; the same with twice the width of a rank, ln 2 more in
    /// another dimension.
    #[test]
    fn distances_add_up_by_dimension() {
        let long = Position { length: 32_768.0, ..HERE };
        assert!((HERE.squared_distance(&long) - 4.0_f64.ln().powi(2)).abs() < 1e-12);
        let wide = Position { width: 8192.0, ..long };
        let both = 4.0_f64.ln().powi(2) + 2.0_f64.ln().powi(2);
        assert!((HERE.squared_distance(&wide) - both).abs() < 1e-12);
        assert_eq!(HERE.notable_differences(&wide), ["sequence length", "width per tensor rank"]);
        assert_eq!(HERE.notable_differences(&HERE), [] as [&str; 0]);
    }

    #[test]
    fn invalid_numbers_are_no_position() {
        assert_eq!(Position::from_numbers(HERE.numbers()), Some(HERE));
        for wrong in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
            let mut numbers = HERE.numbers();
            numbers[0] = wrong;
            assert_eq!(Position::from_numbers(numbers), None);
        }
        let waits = Position { waiting: 1.5, ..HERE };
        assert_eq!(Position::from_numbers(waits.numbers()), None);
    }
}
