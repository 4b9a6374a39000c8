//! The order in which edits that make a job fit are offered.

use trainc_tune::nearby::is_ruinous;

/// The rank of an edit; the derived order is the one in which edits are offered.
///
/// Edits that keep the training and at most double the time come first, in the order of their price. The
/// others are ordered by node hours: twice the nodes for another global batch before one node for 30 times as
/// long. Edits that can be written into the manifest precede those that cannot, so that `check --fix` writes
/// the edit in the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EditRank {
    /// Whether it changes the training, or more than doubles the time.
    is_costly: bool,
    /// Whether it cannot be written into the manifest.
    is_unwritable: bool,
    /// Node hours relative to before, in hundredths; 0 for an edit that is not costly.
    node_hours: u64,
    /// Whether it changes the training.
    changes_training: bool,
}

impl EditRank {
    /// Ranks an edit by its factor of nodes, its slowdown (a fraction, if known), and whether it changes the
    /// training.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share, rounded")]
    pub(crate) fn new(
        (nodes, slower): (f64, Option<f64>),
        changes_training: bool,
        is_writable: bool,
    ) -> Self {
        let is_costly = changes_training || is_ruinous(slower);
        let hours = nodes * (1.0 + slower.unwrap_or(0.0));
        let node_hours = if is_costly { (100.0 * hours).round() as u64 } else { 0 };
        Self { is_costly, is_unwritable: !is_writable, node_hours, changes_training }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(nodes: f64, slower: f64, changes_training: bool) -> EditRank {
        EditRank::new((nodes, Some(slower)), changes_training, true)
    }

    /// Another global batch at the same time follows every edit that keeps it at a bearable price, and
    /// precedes 30 times the time; of two costly edits the one with fewer node hours is first.
    #[test]
    fn costly_edits_are_ordered_by_node_hours() {
        let checkpointing = rank(1.0, 0.24, false);
        let twice_the_nodes = rank(2.0, 0.02, true);
        let offload = rank(1.0, 33.51, false);
        assert!(checkpointing < twice_the_nodes && twice_the_nodes < offload);
        // 32 and 64 times the nodes for the same time cost more than 3 and 34 times the time.
        assert!(offload < rank(64.0, 0.0, true) && rank(1.0, 2.0, false) < rank(32.0, 0.0, true));
        // Edits that are not costly keep the order of their price.
        assert_eq!(rank(1.0, 0.9, false), rank(2.0, -0.4, false));
        let unwritable = EditRank { is_unwritable: true, ..twice_the_nodes };
        assert!(offload < unwritable, "`check --fix` writes the edit in the help");
    }
}
