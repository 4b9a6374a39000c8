//! The variant of a job with duplicates in which each second duplicate replaces the first.

use super::variants::{Change, Variant};
use super::{Merged, removal, unreadable_layer};
use trainc_diag::source::{Span, Spanned};
use trainc_diag::{Diagnostic, Severity};
use trainc_syntax::ast::{Duplicate, Node, Value};
use trainc_syntax::nodes::JOB;

/// A duplicate that replaces the first node or property in the variant.
#[derive(Clone, Copy, Debug)]
pub struct ActiveDuplicate {
    span: Span,
    /// Span of its name, at which missing parts are reported: the first duplicate may have them. `None` for a
    /// job, whose duplicate is complete without the first.
    name: Option<Span>,
}

impl ActiveDuplicate {
    /// Returns true if this duplicate causes an error. Warnings wait until one duplicate is removed.
    pub fn causes_error(&self, one: &Diagnostic) -> bool {
        one.severity == Severity::Error && self.span.covers(one.span) && self.name != Some(one.span)
    }
}

/// Returns the job with the second of each set of duplicates; `None` without duplicates. A third duplicate is
/// not checked until one of the others is removed.
pub(super) fn activate_second_duplicates(merged: &Merged) -> Option<Variant> {
    if !has_duplicates(&merged.node) {
        return None;
    }
    let mut seconds = Vec::new();
    let mut other = merged.clone();
    activate_in_node(&mut other.node, &mut seconds);
    removal::take_away(&mut other.node);
    if !other.is_whole {
        unreadable_layer::fill_missing_with_bad(&mut other.node);
    }
    Some(Variant { change: Change::SecondDuplicates(seconds), merged: other })
}

fn has_duplicates(node: &Node) -> bool {
    !node.duplicates.is_empty() || node.children.iter().any(has_duplicates)
}

fn activate_in_node(node: &mut Node, seconds: &mut Vec<ActiveDuplicate>) {
    let mut properties: Vec<(Spanned<String>, Spanned<Value>)> = Vec::new();
    for duplicate in std::mem::take(&mut node.duplicates) {
        match duplicate {
            Duplicate::Node(second) => {
                let is_job = second.spec.is_some_and(|spec| spec.name == JOB.name);
                seconds
                    .push(ActiveDuplicate { span: second.span, name: (!is_job).then_some(second.name.span) });
                *node = second;
                return activate_in_node(node, seconds);
            }
            Duplicate::Property(name, _) if properties.iter().any(|(one, _)| one.value == name.value) => {}
            Duplicate::Property(name, value) => properties.push((name, value)),
        }
    }
    for (name, value) in properties {
        seconds.push(ActiveDuplicate { span: value.span, name: None });
        node.props.retain(|(key, _)| key.value != name.value);
        node.props.push((name, value));
    }
    node.children.iter_mut().for_each(|child| activate_in_node(child, seconds));
}
