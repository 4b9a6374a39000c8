//! What stands twice where one may: the job as it would be with the second, so that the rules see that as well.
//!
//! Which of the two the user keeps nobody knows; what is wrong with either is wrong, and said in the same run.

use super::{Merged, poison};
use trainc_diag::source::Span;
use trainc_diag::{Diagnostic, Severity};
use trainc_syntax::ast::{Node, Twin};
use trainc_syntax::nodes::JOB;

/// What stands for the first in one round.
#[derive(Clone, Copy, Debug)]
pub struct Second {
    /// Its place.
    span: Span,
    /// The place of its name. What it lacks is blamed there, and may stand in the first; a job lacks that alone.
    name: Option<Span>,
}

impl Second {
    /// Whether a problem is a mistake in what this says. A warning can wait until one of the two is gone.
    pub fn is_to_blame(&self, one: &Diagnostic) -> bool {
        one.severity == Severity::Error && self.span.covers(one.span) && self.name != Some(one.span)
    }
}

/// The job with the seconds of all that stands twice, with the thirds, and so on; nothing of a job without twins. What
/// stands twice inside what stands twice comes in rounds of its own: one level of the tree at a time.
pub fn rounds(merged: &Merged) -> impl Iterator<Item = (Merged, Vec<Second>)> {
    let mut most = Vec::new();
    count(&merged.node, 0, &mut most);
    let each = most.into_iter().enumerate();
    each.flat_map(|(level, most)| (0..most).map(move |round| (level, round))).map(|(level, round)| {
        let mut seconds = Vec::new();
        let mut other = merged.clone();
        put(&mut other.node, level, round, &mut seconds);
        if !other.is_whole {
            poison::fill(&mut other.node);
        }
        (other, seconds)
    })
}

/// The most twins that a node has, level by level.
fn count(node: &Node, level: usize, most: &mut Vec<usize>) {
    if most.len() <= level {
        most.push(0);
    }
    if let Some(most) = most.get_mut(level) {
        *most = node.twins.len().max(*most);
    }
    node.children.iter().for_each(|child| count(child, level + 1, most));
}

fn put(node: &mut Node, level: usize, round: usize, seconds: &mut Vec<Second>) {
    if level > 0 {
        node.children.iter_mut().for_each(|child| put(child, level - 1, round, seconds));
        return;
    }
    match node.twins.get(round).cloned() {
        Some(Twin::Node(twin)) => {
            let is_job = twin.spec.is_some_and(|spec| spec.name == JOB.name);
            seconds.push(Second { span: twin.span, name: (!is_job).then_some(twin.name.span) });
            *node = twin;
        }
        Some(Twin::Property(name, value)) => {
            seconds.push(Second { span: value.span, name: None });
            node.props.retain(|(key, _)| key.value != name.value);
            node.props.push((name, value));
        }
        None => {}
    }
}
