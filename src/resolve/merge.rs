//! Laying one set of nodes over another: same node and same name merge, later wins.

use crate::ir::Override;
use crate::source::Span;
use crate::syntax::ast::Node;
use crate::syntax::spec::Repeat;

/// Lays later nodes over earlier ones and notes what changed.
pub(super) fn over(base: &mut Vec<Node>, later: Vec<Node>, path: &str, overrides: &mut Vec<Override>) {
    for node in later {
        let here = join(path, &node);
        match twin(base, &node) {
            Some(earlier) => merge(earlier, node, &here, overrides),
            None => base.push(node),
        }
    }
}

fn join(path: &str, node: &Node) -> String {
    let name = match node.key() {
        Some(key) => format!("{}.{key}", node.name.value),
        None => node.name.value.clone(),
    };
    if path.is_empty() { name } else { format!("{path}.{name}") }
}

fn twin<'a>(base: &'a mut [Node], node: &Node) -> Option<&'a mut Node> {
    let repeat = node.spec.map_or(Repeat::Once, |spec| spec.repeat);
    base.iter_mut().find(|earlier| {
        earlier.name.value == node.name.value
            && match repeat {
                // Properties of any name (environment): all of one name are one node.
                Repeat::Many | Repeat::Once => true,
                Repeat::ByFirst | Repeat::ByName => earlier.key() == node.key(),
            }
    })
}

fn merge(earlier: &mut Node, later: Node, path: &str, overrides: &mut Vec<Override>) {
    earlier.also.push(later.span);
    earlier.also.extend(later.also);
    let mut note = |what: String, from: Span, by: Span| overrides.push(Override { path: what, from, by });
    let replaced = if later.args.is_empty() { None } else { Some(later.args) };
    if let Some(args) = replaced {
        let keyed = later.spec.is_some_and(|spec| spec.repeat == Repeat::ByFirst);
        let skip = usize::from(keyed);
        for (at, (old, new)) in earlier.args.iter().zip(&args).enumerate() {
            if at >= skip && old.value != new.value {
                note(path.to_owned(), old.span, new.span);
            }
        }
        earlier.args = args;
    }
    for (key, value) in later.props {
        match earlier.props.iter_mut().find(|(name, _)| name.value == key.value) {
            Some((name, old)) => {
                if old.value != value.value {
                    note(format!("{path}.{}", key.value), old.span, value.span);
                }
                (*name, *old) = (key, value);
            }
            None => earlier.props.push((key, value)),
        }
    }
    if earlier.spec.is_some_and(|spec| spec.free_children) {
        // Raw members merge by name as well, whole.
        for child in later.children {
            match earlier.children.iter_mut().find(|old| old.name.value == child.name.value) {
                Some(old) => {
                    overrides.push(Override {
                        path: format!("{path}.{}", child.name.value),
                        from: old.name.span,
                        by: child.name.span,
                    });
                    *old = child;
                }
                None => earlier.children.push(child),
            }
        }
    } else {
        over(&mut earlier.children, later.children, path, overrides);
    }
}
