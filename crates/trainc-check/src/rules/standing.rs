//! The order in which edits that make a job fit are offered.

use trainc_predict::memory::remedies::is_ruinous;

/// Where an edit stands among those that make a job fit; the derived order is the one in which they are offered.
///
/// First what neither changes the training nor more than doubles the time, in the order of its price. The rest stands by
/// the hours of nodes that it takes: twice the nodes for another global batch before one node for 30 times as long.
/// What can be written comes before what cannot, so that `check --fix` writes what the help says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Standing {
    /// Whether it changes the training, or more than doubles the time.
    is_late: bool,
    /// Whether no text of the manifest can be changed for it.
    is_unwritten: bool,
    /// Hours of nodes over those of before, in hundredths; 0 of what is not late.
    node_hours: u64,
    /// Whether it changes the training.
    is_other: bool,
}

impl Standing {
    /// Of an edit that takes so many times the nodes and so much longer, where that is known.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share, rounded")]
    pub(super) fn of((nodes, slower): (f64, Option<f64>), is_other: bool, writes: bool) -> Self {
        let is_late = is_other || is_ruinous(slower);
        let hours = nodes * (1.0 + slower.unwrap_or(0.0));
        let node_hours = if is_late { (100.0 * hours).round() as u64 } else { 0 };
        Self { is_late, is_unwritten: !writes, node_hours, is_other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(nodes: f64, slower: f64, is_other: bool) -> Standing {
        Standing::of((nodes, Some(slower)), is_other, true)
    }

    /// Another global batch at the same time comes behind whatever keeps it at a bearable price, and before 30 times the
    /// time; of two that are dear the one with fewer hours of nodes.
    #[test]
    fn another_training_stands_behind_what_keeps_it_and_before_what_is_ruinous() {
        let checkpointing = standing(1.0, 0.24, false);
        let twice_the_nodes = standing(2.0, 0.02, true);
        let offload = standing(1.0, 33.51, false);
        assert!(checkpointing < twice_the_nodes && twice_the_nodes < offload);
        // Thirty-two times the nodes for the same time are dearer than three times the time.
        assert!(offload < standing(64.0, 0.0, true) && standing(1.0, 2.0, false) < standing(32.0, 0.0, true));
        // In the order of their price they were before: it stays.
        assert_eq!(standing(1.0, 0.9, false), standing(2.0, -0.4, false));
        let unwritten = Standing { is_unwritten: true, ..twice_the_nodes };
        assert!(offload < unwritten, "`check --fix` writes nothing else than the help");
    }
}
