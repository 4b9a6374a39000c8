//! The place of the edit that a help describes, by the tables of the language and the nodes around the
//! problem. It is an edit only if the edited text compiles without the problem and without another error.

use super::characters::is_bare_name;
use super::cursor::{Cursor, Part, Step};
use super::document;
use super::edit;
use super::spec::Repeat;
use kdl::{KdlDocument, KdlEntry, KdlNode};
use trainc_diag::source::Span;
use trainc_diag::{Diagnostic, Edit, Fix, NodeStep, Op, Problems, Suggestion};

/// Returns the edit of a suggestion of a problem in a text, if it solves the problem. `before` are the
/// problems of the text; `compile` returns those of an edited one.
pub fn suggested_fix(
    text: &str,
    problem: &Diagnostic,
    suggestion: &Suggestion,
    before: &Problems,
    compile: &mut dyn FnMut(&str) -> Problems,
) -> Option<Fix> {
    let source = problem.span.source;
    let document = document::parse(source, text, &mut Problems::default())?;
    let cursor = Cursor::at(&document, text, problem.span.start as usize);
    let new = edited_text(text, &cursor, problem.span, suggestion).filter(|new| new != text)?;
    let is_same = |one: &&Diagnostic| one.code == problem.code && one.text() == problem.text();
    let count = |problems: &Problems| problems.iter().filter(is_same).count();
    let after = compile(&new);
    if after.errors() > before.errors() || count(&after) >= count(before) {
        return None;
    }
    let (start, end, written) = edit::changed_range(text, &new);
    // Lines end as the others of the text do.
    let written = written.replace("\r\n", "\n");
    let written = if text.contains("\r\n") { written.replace('\n', "\r\n") } else { written };
    Some(Fix { span: Span::new(source, start, end), text: written })
}

/// Returns the text after a suggestion.
fn edited_text(text: &str, cursor: &Cursor, span: Span, suggestion: &Suggestion) -> Option<String> {
    let apply = |edits: Vec<Edit>| edit::apply_all(text, &[], &[], &edits).ok();
    match suggestion {
        Suggestion::Other => None,
        Suggestion::Remove(None) => apply(vec![remove_faulty(cursor)]),
        Suggestion::Remove(Some(name)) => apply(vec![remove_named(text, cursor, name)?]),
        Suggestion::Move(into) => {
            let node = cursor.node()?.node;
            let (start, whole) = (node.name().span().offset(), node.span());
            let code = text.get(start..whole.offset() + whole.len())?.trim_end();
            let place = path_to(text, cursor, into)?;
            apply(vec![remove_faulty(cursor), Edit::new(place, Op::Add(code.to_owned()))])
        }
        Suggestion::Write { code, into } => {
            if into.is_none() && is_in_place(cursor, span, code) {
                return replace_value(text, span, code);
            }
            let edits = match (properties(code), into) {
                (Some(properties), Some(into)) => set_properties(&path_to(text, cursor, into)?, properties),
                (None, Some(into)) => {
                    vec![Edit::new(path_to(text, cursor, into)?, Op::Add(code.clone()))]
                }
                (Some(properties), None) => {
                    set_properties(&path(cursor, node_with_property(cursor, &properties)?), properties)
                }
                (None, None) => match write_nodes(text, cursor, code) {
                    Some(edits) => edits,
                    None => return replace_value(text, span, code),
                },
            };
            // What the language lacks is what is to be written, in other words.
            let faulty = is_unknown(cursor).then(|| remove_faulty(cursor));
            apply(faulty.into_iter().chain(edits).collect())
        }
    }
}

/// Returns whether a suggestion replaces the text at the problem: a value, an unknown name, or a whole node
/// by one of its name.
fn is_in_place(cursor: &Cursor, span: Span, code: &str) -> bool {
    let Some(Step { node, .. }) = cursor.node() else { return false };
    let name = node.name().span().len();
    let is_word = is_bare_name(code) || code.starts_with('"');
    match cursor.part {
        Part::Argument(..) | Part::Value(_) => is_word,
        Part::Name if span.len() > name => code.split(' ').next() == Some(node.name().value()),
        Part::Name | Part::Key(_) => is_word && is_unknown(cursor),
        Part::Gap | Part::Block => false,
    }
}

/// Replaces the value or the name at the problem.
fn replace_value(text: &str, span: Span, code: &str) -> Option<String> {
    let range = span.start as usize..span.end as usize;
    let is_quoted = text.get(range.clone())?.starts_with('"');
    let quoted =
        if is_quoted && !code.starts_with(['"', '#']) { format!("\"{code}\"") } else { code.to_owned() };
    edit::replace_span(text, range, &quoted).ok().map(|edited| edited.text)
}

/// Returns whether the language lacks the node or the property at the problem. Members of the API have no
/// tables.
fn is_unknown(cursor: &Cursor) -> bool {
    let Some((step, around)) = cursor.steps.split_last() else { return false };
    match (cursor.part, step.spec) {
        (Part::Key(entry) | Part::Value(entry), Some(spec)) => {
            let name = entry.name().map_or("", |name| name.value());
            spec.prop(name).is_none() && spec.free_props.is_none()
        }
        (_, None) => around.last().is_none_or(|parent| parent.spec.is_some_and(|spec| !spec.free_children)),
        (_, Some(_)) => false,
    }
}

/// Removes the property or the node at the problem.
fn remove_faulty(cursor: &Cursor) -> Edit {
    let op = match cursor.part {
        Part::Key(entry) | Part::Value(entry) if entry.name().is_some() => {
            Op::RemoveProperty(entry.name().map_or("", |name| name.value()).to_owned())
        }
        _ => Op::Remove,
    };
    Edit::new(path(cursor, cursor.steps.len()), op)
}

/// Removes the innermost node or property of a name around the problem, or such a child.
fn remove_named(text: &str, cursor: &Cursor, name: &str) -> Option<Edit> {
    cursor.steps.iter().enumerate().rev().find_map(|(at, step)| {
        let here = path(cursor, at + 1);
        if step.node.name().value() == name {
            return Some(Edit::new(here, Op::Remove));
        }
        if step.node.entry(name).is_some() {
            return Some(Edit::new(here, Op::RemoveProperty(name.to_owned())));
        }
        let child = [here.as_slice(), &[NodeStep::by_name(name)]].concat();
        edit::locate(text, &child).is_ok().then(|| Edit::new(child, Op::Remove))
    })
}

/// Returns the path to the node of a name in the blocks around the problem, innermost first.
fn path_to(text: &str, cursor: &Cursor, name: &str) -> Option<Vec<NodeStep>> {
    let below = |at| [path(cursor, at).as_slice(), &[NodeStep::by_name(name)]].concat();
    (0..=cursor.steps.len()).rev().map(below).find(|path| edit::locate(text, path).is_ok())
}

/// Returns the innermost node around the problem that has the first property, as its number of steps.
fn node_with_property(cursor: &Cursor, properties: &[(String, String)]) -> Option<usize> {
    let (key, _) = properties.first()?;
    let has =
        |step: &Step| step.spec.is_some_and(|spec| spec.prop(key).is_some() || spec.free_props.is_some());
    Some(cursor.steps.iter().rposition(has)? + 1)
}

fn set_properties(path: &[NodeStep], properties: Vec<(String, String)>) -> Vec<Edit> {
    let set = |(key, value)| Edit::new(path.to_vec(), Op::SetProperty(key, value));
    properties.into_iter().map(set).collect()
}

/// Writes nodes into the innermost block around the problem that takes them: a node replaces the values of
/// that of its name, or is added. `None` if the code is no node there.
fn write_nodes(text: &str, cursor: &Cursor, code: &str) -> Option<Vec<Edit>> {
    let nodes: KdlDocument = code.parse().ok()?;
    let first = nodes.nodes().first()?;
    let name = first.name().value();
    cursor.steps.iter().enumerate().rev().find_map(|(at, step)| {
        let here = path(cursor, at + 1);
        if step.node.name().value() == name {
            return Some(set_values(&here, first));
        }
        let spec = step.spec?.child(name)?;
        let child = [here.as_slice(), &[NodeStep::by_name(name)]].concat();
        let is_there = edit::locate(text, &child).is_ok();
        if is_there && spec.repeat == Repeat::Once && nodes.nodes().len() == 1 {
            return Some(set_values(&child, first));
        }
        Some(vec![Edit::new(here, Op::Add(code.to_owned()))])
    })
}

/// Sets the arguments and properties of a node to those of another.
fn set_values(path: &[NodeStep], from: &KdlNode) -> Vec<Edit> {
    let mut arguments = 0..;
    let entries = from.entries().iter();
    let ops = entries.map(|entry| match entry.name() {
        Some(key) => Op::SetProperty(key.value().to_owned(), value_text(entry)),
        None => Op::SetArgument(arguments.next().unwrap_or_default(), value_text(entry)),
    });
    ops.map(|op| Edit::new(path.to_vec(), op)).collect()
}

fn value_text(entry: &KdlEntry) -> String {
    entry.format().map_or_else(|| entry.value().to_string(), |format| format.value_repr.clone())
}

/// Returns the properties of `key=value …`, or `None` for a node or a value.
fn properties(code: &str) -> Option<Vec<(String, String)>> {
    let (key, _) = code.split_once('=')?;
    if key.is_empty() || key.contains([' ', '"', '{']) {
        return None;
    }
    let document: KdlDocument = format!("x {code}").parse().ok()?;
    let entries = document.nodes().first()?.entries();
    entries.iter().map(|entry| Some((entry.name()?.value().to_owned(), value_text(entry)))).collect()
}

/// Returns the path of the first nodes around the problem.
fn path(cursor: &Cursor, steps: usize) -> Vec<NodeStep> {
    let step = |step: &Step| {
        let argument = step.node.entries().iter().find(|entry| entry.name().is_none());
        let argument = argument.and_then(|entry| entry.value().as_string());
        let name = step.node.name().value();
        argument.map_or_else(|| NodeStep::by_name(name), |argument| NodeStep::by_argument(name, argument))
    };
    cursor.steps.iter().take(steps).map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::T0120;
    use trainc_diag::source::SourceId;

    /// Returns the text after a suggestion that solves a problem.
    fn edited(text: &str, at: &str, suggestion: &Suggestion) -> Option<String> {
        let start = text.find(at).unwrap();
        let problem = Diagnostic::new(&T0120, Span::new(SourceId(0), start, start + at.len()), "x");
        let mut before = Problems::default();
        before.push(problem.clone());
        let fix = suggested_fix(text, &problem, suggestion, &before, &mut |_| Problems::default())?;
        let (start, end) = (fix.span.start as usize, fix.span.end as usize);
        Some([&text[..start], &fix.text, &text[end..]].concat())
    }

    #[test]
    fn a_suggestion_is_placed_where_the_tables_take_it() {
        let text = "job \"a\" {\n    cluster \"x\" nodes=1 {\n        retry 2\n    }\n}\n";
        let write = |code: &str, into| Suggestion::Write { code: code.to_owned(), into };
        let of = |at, suggestion| edited(text, at, &suggestion).unwrap();
        assert_eq!(of("2", write("3", None)), text.replace("retry 2", "retry 3"));
        assert_eq!(of("\"x\"", write("y", None)), text.replace("\"x\"", "\"y\""));
        // A word that is also the name of a node.
        assert_eq!(of("\"x\"", write("worker", None)), text.replace("\"x\"", "\"worker\""));
        assert_eq!(of("retry", write("nodes=2", Some("cluster"))), text.replace("nodes=1", "nodes=2"));
        assert!(of("retry", write("max-run \"1d\"", None)).contains("        max-run \"1d\"\n    }"));
        assert!(of("retry", write("region \"us-west-2\"", None)).contains("\n    region \"us-west-2\""));
        assert_eq!(of("nodes", Suggestion::Remove(None)), text.replace(" nodes=1", ""));
        assert_eq!(of("retry", Suggestion::Remove(Some("nodes".to_owned()))), text.replace(" nodes=1", ""));
        let moved = edited(
            "job \"a\" {\n    retry 2\n    cluster \"x\" {\n    }\n}\n",
            "retry",
            &Suggestion::Move("cluster"),
        );
        assert_eq!(moved.as_deref(), Some("job \"a\" {\n    cluster \"x\" {\n        retry 2\n    }\n}\n"));
        assert_eq!(edited(text, "retry", &write("role create=#true", Some("network"))), None);
    }

    #[test]
    fn what_is_unknown_is_replaced() {
        let text = "job \"a\" {\n    cluster \"x\" count=2 {\n        tries 2\n        nodes 4\n    }\n}\n";
        let write = |code: &str, into| Suggestion::Write { code: code.to_owned(), into };
        let of = |at, suggestion| edited(text, at, &suggestion).unwrap();
        assert_eq!(of("tries", write("retry", None)), text.replace("tries", "retry"));
        assert_eq!(of("count", write("nodes", None)), text.replace("count", "nodes"));
        let outer = of("nodes", write("nodes=4", Some("cluster")));
        assert_eq!(outer, text.replace("count=2", "count=2 nodes=4").replace("        nodes 4\n", ""));
        let inner = of("count", write("max-run \"1d\"", None));
        assert_eq!(inner, text.replace(" count=2", "").replace("nodes 4", "nodes 4\n        max-run \"1d\""));
    }
}
