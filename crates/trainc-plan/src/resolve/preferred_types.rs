//! Variants of a job, one for each further type of `InstancePreferences`.

use super::Merged;
use super::variants::{Change, Variant};
use trainc_diag::source::Spanned;
use trainc_syntax::ast::{Node, Value};

/// Returns a variant for each preferred type after the first, for which the job is planned.
pub(super) fn preferred_types(merged: &Merged) -> Vec<Variant> {
    let Some(types) = preferences(&merged.node) else { return Vec::new() };
    let further = types.children.iter().enumerate().skip(1);
    further
        .filter_map(|(at, item)| {
            let instance = instance_type(item)?;
            let mut merged = merged.clone();
            preferences_mut(&mut merged.node)?.children.swap(0, at);
            Some(Variant { change: Change::PreferredType(instance), merged })
        })
        .collect()
}

const PATH: [&str; 3] = ["request", "ResourceConfig", "InstancePreferences"];

fn preferences(job: &Node) -> Option<&Node> {
    PATH.iter().try_fold(job, |node, name| node.children.iter().find(|child| child.name.value == *name))
}

fn preferences_mut(job: &mut Node) -> Option<&mut Node> {
    PATH.iter().try_fold(job, |node, name| node.children.iter_mut().find(|child| child.name.value == *name))
}

/// Returns the type of a list item, which is a property or a child.
fn instance_type(item: &Node) -> Option<Spanned<String>> {
    let child = || item.children.iter().find(|child| child.name.value == "InstanceType")?.args.first();
    let property = item.props.iter().find(|(name, _)| name.value == "InstanceType").map(|(_, value)| value);
    let value = property.or_else(child)?;
    match &value.value {
        Value::Text(text) => Some(Spanned { value: text.clone(), span: value.span }),
        _ => None,
    }
}
