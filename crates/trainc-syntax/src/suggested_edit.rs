//! Finds the place of the edit that a help describes: the first one where the edited text compiles without
//! the problem and without another error.

use super::cursor::{Cursor, Part, Step};
use super::document;
use super::edit;
use super::spec::Repeat;
use kdl::KdlDocument;
use trainc_diag::source::Span;
use trainc_diag::{Diagnostic, Fix, NodeStep, Problems, Suggestion};

/// Returns the edit of a suggestion of a problem in a text. `before` are the problems of the text; `compile`
/// returns those of an edited one.
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
    let is_same = |one: &&Diagnostic| one.code == problem.code && one.text() == problem.text();
    let count = |problems: &Problems| problems.iter().filter(is_same).count();
    let solves = |new: &String| {
        let after = compile(new);
        after.errors() <= before.errors() && count(&after) < count(before)
    };
    let edited = placements(text, &cursor, problem, suggestion);
    let new = edited.into_iter().filter(|new| new != text).find(solves)?;
    let (start, end, written) = edit::changed_range(text, &new);
    // Lines end as the others of the text do.
    let written = written.replace("\r\n", "\n");
    let written = if text.contains("\r\n") { written.replace('\n', "\r\n") } else { written };
    Some(Fix { span: Span::new(source, start, end), text: written })
}

/// Returns the texts with a suggestion in each place where it may belong, the likeliest first.
fn placements(text: &str, cursor: &Cursor, problem: &Diagnostic, suggestion: &Suggestion) -> Vec<String> {
    let removed = remove_faulty(text, cursor);
    match suggestion {
        Suggestion::Write { code, into: Some(into) } => {
            let places = paths_to(text, cursor, into);
            let write = |text: &str, place: &[NodeStep]| match properties(code) {
                Some(properties) => set_properties(text, place, &properties),
                None => edit::insert_child(text, place, code).ok().map(|edited| edited.text),
            };
            // What is written elsewhere may replace what is at the problem.
            let texts = [Some(text), removed.as_deref()].into_iter().flatten();
            texts.flat_map(|text| places.iter().filter_map(move |place| write(text, place))).collect()
        }
        Suggestion::Write { code, into: None } => {
            let mut out = Vec::new();
            if let Some(properties) = properties(code) {
                for (at, _) in with_property(cursor, &properties) {
                    out.extend(set_properties(text, &path(cursor, at), &properties));
                }
                return out;
            }
            out.extend(write_nodes(text, cursor, code));
            let range = problem.span.start as usize..problem.span.end as usize;
            let is_quoted = text.get(range.clone()).is_some_and(|old| old.starts_with('"'));
            let quoted =
                if is_quoted && !code.starts_with(['"', '#']) { format!("\"{code}\"") } else { code.clone() };
            out.extend(edit::replace_span(text, range, &quoted).ok().map(|edited| edited.text));
            out.extend(removed.iter().flat_map(|text| write_nodes(text, cursor, code)));
            out
        }
        Suggestion::Move(into) => {
            let Some(node) = cursor.node().map(|step| step.node) else { return Vec::new() };
            let (start, whole) = (node.name().span().offset(), node.span());
            let code = text.get(start..whole.offset() + whole.len()).unwrap_or("").trim_end();
            let places = paths_to(text, cursor, into);
            let put = |text: &str, place: &[NodeStep]| {
                edit::insert_child(text, place, code).ok().map(|edited| edited.text)
            };
            removed.iter().flat_map(|text| places.iter().filter_map(|place| put(text, place))).collect()
        }
        Suggestion::Other => Vec::new(),
        Suggestion::Remove(None) => removed.into_iter().collect(),
        Suggestion::Remove(Some(name)) => {
            let mut out = Vec::new();
            for (at, step) in cursor.steps.iter().enumerate().rev() {
                let here = path(cursor, at + 1);
                if step.node.name().value() == name {
                    out.extend(edit::remove_node(text, &here).ok().map(|edited| edited.text));
                }
                if step.node.entry(name.as_str()).is_some() {
                    out.extend(edit::remove_property(text, &here, name).ok().map(|edited| edited.text));
                }
                let child = [here.as_slice(), &[NodeStep::by_name(name)]].concat();
                out.extend(edit::remove_node(text, &child).ok().map(|edited| edited.text));
            }
            out
        }
    }
}

/// Returns the text without the property or the node at the problem.
fn remove_faulty(text: &str, cursor: &Cursor) -> Option<String> {
    let whole = path(cursor, cursor.steps.len());
    let edited = match cursor.part {
        Part::Key(entry) | Part::Value(entry) => {
            edit::remove_property(text, &whole, entry.name().map_or("", |name| name.value()))
        }
        _ => edit::remove_node(text, &whole),
    };
    edited.ok().map(|edited| edited.text)
}

/// Returns the paths to nodes of a name in the blocks around the problem, innermost first.
fn paths_to(text: &str, cursor: &Cursor, name: &str) -> Vec<Vec<NodeStep>> {
    let below = |at| [path(cursor, at).as_slice(), &[NodeStep::by_name(name)]].concat();
    (0..=cursor.steps.len()).rev().map(below).filter(|path| edit::locate(text, path).is_ok()).collect()
}

/// Returns the nodes around the problem that have the first property, innermost first, with their number of
/// steps.
fn with_property<'c, 'd>(
    cursor: &'c Cursor<'d>,
    properties: &'c [(String, String)],
) -> impl Iterator<Item = (usize, &'c Step<'d>)> {
    let has = move |step: &Step| {
        let spec = step.spec.zip(properties.first());
        spec.is_some_and(|(spec, (key, _))| spec.prop(key).is_some() || spec.free_props.is_some())
    };
    (1..).zip(&cursor.steps).filter(move |(_, step)| has(step)).collect::<Vec<_>>().into_iter().rev()
}

fn set_properties(text: &str, path: &[NodeStep], properties: &[(String, String)]) -> Option<String> {
    properties.iter().try_fold(text.to_owned(), |text, (key, value)| {
        Some(edit::set_property(&text, path, key, value).ok()?.text)
    })
}

/// Writes nodes into the blocks around the problem, innermost first: each replaces the values of the node of
/// its name, or is added.
fn write_nodes(text: &str, cursor: &Cursor, code: &str) -> Vec<String> {
    let Ok(nodes) = code.parse::<KdlDocument>() else { return Vec::new() };
    let Some(first) = nodes.nodes().first() else { return Vec::new() };
    let mut out = Vec::new();
    for (at, step) in cursor.steps.iter().enumerate().rev() {
        let name = first.name().value();
        let here = path(cursor, at + 1);
        if step.node.name().value() == name {
            out.extend(set_values(text, &here, first));
        }
        let Some(spec) = step.spec.and_then(|spec| spec.child(name)) else { continue };
        let child = [here.as_slice(), &[NodeStep::by_name(name)]].concat();
        let is_there = edit::locate(text, &child).is_ok();
        if is_there && spec.repeat == Repeat::Once && nodes.nodes().len() == 1 {
            out.extend(set_values(text, &child, first));
        } else {
            out.extend(edit::insert_child(text, &here, code).ok().map(|edited| edited.text));
        }
    }
    out
}

/// Sets the arguments and properties of a node to those of another.
fn set_values(text: &str, path: &[NodeStep], from: &kdl::KdlNode) -> Option<String> {
    let mut text = text.to_owned();
    let mut arguments = 0;
    for entry in from.entries() {
        let value =
            entry.format().map_or_else(|| entry.value().to_string(), |format| format.value_repr.clone());
        text = if let Some(key) = entry.name() {
            edit::set_property(&text, path, key.value(), &value).ok()?.text
        } else {
            arguments += 1;
            edit::set_argument(&text, path, arguments - 1, &value).ok()?.text
        };
    }
    Some(text)
}

/// Returns the properties of `key=value …`, or `None` for a node or a value.
fn properties(code: &str) -> Option<Vec<(String, String)>> {
    let (key, _) = code.split_once('=')?;
    if key.is_empty() || key.contains([' ', '"', '{']) {
        return None;
    }
    let document: KdlDocument = format!("x {code}").parse().ok()?;
    let entries = document.nodes().first()?.entries();
    let pair = |entry: &kdl::KdlEntry| {
        let value =
            entry.format().map_or_else(|| entry.value().to_string(), |format| format.value_repr.clone());
        Some((entry.name()?.value().to_owned(), value))
    };
    entries.iter().map(pair).collect()
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

    /// Returns the text after the first placement of a suggestion that a test accepts.
    fn edited(text: &str, at: &str, suggestion: &Suggestion, accept: &dyn Fn(&str) -> bool) -> String {
        let start = text.find(at).unwrap();
        let problem = Diagnostic::new(&T0120, Span::new(SourceId(0), start, start + at.len()), "x");
        let mut before = Problems::default();
        before.push(problem.clone());
        let mut compile = |new: &str| if accept(new) { Problems::default() } else { before.clone() };
        let fix = suggested_fix(text, &problem, suggestion, &before, &mut compile).unwrap();
        let (start, end) = (fix.span.start as usize, fix.span.end as usize);
        [&text[..start], &fix.text, &text[end..]].concat()
    }

    #[test]
    fn a_suggestion_is_placed_where_the_tables_take_it() {
        let text = "job \"a\" {\n    cluster \"x\" nodes=1 {\n        retry 2\n    }\n}\n";
        let write = |code: &str, into| Suggestion::Write { code: code.to_owned(), into };
        let any = |_: &str| true;
        let of = |at, suggestion| edited(text, at, &suggestion, &any);
        assert_eq!(of("2", write("3", None)), text.replace("retry 2", "retry 3"));
        assert_eq!(of("\"x\"", write("y", None)), text.replace("\"x\"", "\"y\""));
        assert_eq!(of("retry", write("nodes=2", Some("cluster"))), text.replace("nodes=1", "nodes=2"));
        assert!(of("retry", write("max-run \"1d\"", None)).contains("        max-run \"1d\"\n    }"));
        assert_eq!(of("nodes", Suggestion::Remove(None)), text.replace(" nodes=1", ""));
        let moved = edited(
            "job \"a\" {\n    retry 2\n    cluster \"x\" {\n    }\n}\n",
            "retry",
            &Suggestion::Move("cluster"),
            &any,
        );
        assert_eq!(moved, "job \"a\" {\n    cluster \"x\" {\n        retry 2\n    }\n}\n");
        // The second place, if the first does not solve the problem.
        let outer = |new: &str| new.contains("\n    region \"us-west-2\"");
        assert!(edited(text, "retry", &write("region \"us-west-2\"", None), &outer).contains("region"));
    }
}
