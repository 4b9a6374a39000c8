//! Drops what an earlier layer wrote for its engine, where a later layer names another one.

use super::{merge, parallel};
use trainc_diag::source::Span;
use trainc_ir::{Engine, Override};
use trainc_syntax::ast::{Node, Value};
use trainc_syntax::nodes::engines_of;

/// Removes from an earlier `parallel` what its engine supports and that of the later layer does not, unless
/// the later layer writes it, too.
pub(super) fn drop_unsupported(earlier: &mut Node, later: &Node, path: &str, overrides: &mut Vec<Override>) {
    let Some((old, _)) = engine_of(earlier) else { return };
    let Some((new, by)) = engine_of(later).filter(|(new, _)| new.name() != old.name()) else { return };
    let replaced_by = Some(format!("{path}.engine"));
    let mut record = |name: &str, from: Span| {
        let path = format!("{path}.{name}");
        overrides.push(Override { path, from, by, replaced_by: replaced_by.clone(), is_removed: true });
    };
    let supports = |engine: Engine, child: &Node| {
        child.spec.and_then(engines_of).is_none_or(|takers| takers.contains(&engine.name()))
    };
    let takes =
        |engine: Engine, child: &Node| supports(engine, child) && parallel::takes_value(engine, child);
    earlier.children.retain(|child| {
        let is_written = later.children.iter().any(|other| other.name.value == child.name.value);
        // One that both layers write is a mistake of the later one.
        let stays = if is_written { supports(new, child) } else { takes(new, child) };
        let goes = child.removal().is_none() && takes(old, child) && !stays;
        if goes && !is_written {
            record(&child.name.value, merge::value_or_word(child));
        }
        !goes
    });
    earlier.props.retain(|(key, value)| {
        let is_written = later.props.iter().any(|(other, _)| other.value == key.value);
        let takes = |engine| parallel::takes_property(engine, &key.value, &value.value);
        // A file is that of one program.
        let stays = takes(new) && !parallel::is_of_program(&key.value);
        let goes = value.value != Value::Null && !is_written && takes(old) && !stays;
        if goes {
            record(&key.value, value.span);
        }
        !goes
    });
}

/// Returns the engine that a `parallel` names, and its place.
fn engine_of(node: &Node) -> Option<(Engine, Span)> {
    let parallel = node.spec.filter(|spec| spec.name == "parallel").map(|_| node)?;
    let written = parallel.prop("engine")?;
    match &written.value {
        Value::Text(word) => Some((trainc_engine::find(word)?, written.span)),
        _ => None,
    }
}
