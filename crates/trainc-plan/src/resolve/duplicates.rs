//! Variants of a job with duplicate nodes, in which a later duplicate replaces the first, so that the rules check it too.
//!
//! The user may keep either duplicate, so the problems of both are reported in one run.

use super::{Merged, unreadable_layer};
use trainc_diag::source::Span;
use trainc_diag::{Diagnostic, Severity};
use trainc_syntax::ast::{Duplicate, Node};
use trainc_syntax::nodes::JOB;

/// A duplicate that replaces the first node or property in one variant.
#[derive(Clone, Copy, Debug)]
pub struct ActiveDuplicate {
    span: Span,
    /// Span of its name, where missing parts are reported: the first duplicate may have them. `None` for a job, whose
    /// duplicate is complete without the first.
    name: Option<Span>,
}

impl ActiveDuplicate {
    /// Returns whether this duplicate causes an error. Warnings wait until one duplicate is removed.
    pub fn has_error(&self, one: &Diagnostic) -> bool {
        one.severity == Severity::Error && self.span.covers(one.span) && self.name != Some(one.span)
    }
}

/// Returns the job with the second of each set of duplicates, then with the third, and so on; nothing without duplicates.
/// Duplicates inside duplicates get variants of their own: one level of the tree at a time.
pub fn duplicate_variants(merged: &Merged) -> impl Iterator<Item = (Merged, Vec<ActiveDuplicate>)> {
    let mut most = Vec::new();
    count(&merged.node, 0, &mut most);
    let each = most.into_iter().enumerate();
    each.flat_map(|(level, most)| (0..most).map(move |round| (level, round))).map(|(level, round)| {
        let mut seconds = Vec::new();
        let mut other = merged.clone();
        put(&mut other.node, level, round, &mut seconds);
        if !other.is_whole {
            unreadable_layer::fill_unknown(&mut other.node);
        }
        (other, seconds)
    })
}

/// Counts the most duplicates of any node, level by level.
fn count(node: &Node, level: usize, most: &mut Vec<usize>) {
    if most.len() <= level {
        most.push(0);
    }
    if let Some(most) = most.get_mut(level) {
        *most = node.duplicates.len().max(*most);
    }
    node.children.iter().for_each(|child| count(child, level + 1, most));
}

fn put(node: &mut Node, level: usize, round: usize, seconds: &mut Vec<ActiveDuplicate>) {
    if level > 0 {
        node.children.iter_mut().for_each(|child| put(child, level - 1, round, seconds));
        return;
    }
    match node.duplicates.get(round).cloned() {
        Some(Duplicate::Node(twin)) => {
            let is_job = twin.spec.is_some_and(|spec| spec.name == JOB.name);
            seconds.push(ActiveDuplicate { span: twin.span, name: (!is_job).then_some(twin.name.span) });
            *node = twin;
        }
        Some(Duplicate::Property(name, value)) => {
            seconds.push(ActiveDuplicate { span: value.span, name: None });
            node.props.retain(|(key, _)| key.value != name.value);
            node.props.push((name, value));
        }
        None => {}
    }
}
