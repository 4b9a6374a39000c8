//! Comparison of a job before and after a change: its figures on both sides, and the effect of each edit.
//!
//! Input: the job as written before and after, each with its prediction, and a function that predicts a job
//! as written. Output: a [`Change`]: the edits between the two, and the effect of each alone. Makes no
//! decisions about files, and does not depend on the origin of the two.

mod edits;
mod figures;
mod pairs;
mod shares;

pub use edits::{Edit, Place, edit_of_changed_file, edits};
pub use figures::{Figure, Figures};
pub use pairs::{Key, match_old_manifests};
pub use shares::{Added, Share, Shares, shares};

use trainc_syntax::ast::Node;

/// One side of a change: a job as written, and its prediction.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The node `job`, with all layers merged.
    pub node: &'a Node,
    /// Its figures.
    pub figures: &'a Figures,
}

/// Result of a job.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// Every value that differs.
    pub edits: Vec<Edit>,
    /// Effect of each edit.
    pub shares: Shares,
}

/// Finds the edits between two sides, and tries each alone.
///
/// `predict` returns the figures of a job as written, or `None` if it has errors. `more` are edits that do
/// not show in the manifest: files that it names.
pub fn compare(
    before: Side<'_>,
    after: Side<'_>,
    more: Vec<Edit>,
    predict: &mut dyn FnMut(&Node) -> Option<Figures>,
) -> Change {
    let mut edits = edits(before.node, after.node);
    edits.extend(more);
    let shares = shares(before, after, &edits, predict);
    Change { edits, shares }
}
