//! Edits for problems whose help says what to type but that have no fix: each is offered only if the edited text compiles
//! without the problem and without another error.

use super::cursor::{Cursor, Part, Step};
use kdl::KdlDocument;
use trainc_diag::Diagnostic;
use trainc_plan::Compiled;
use trainc_syntax::edit::{self, PathStep};
use trainc_syntax::spec::Repeat;

/// Maximum number of suggestions of a help that are tried.
const MOST: usize = 4;

/// An edit that a help suggests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HelpEdit {
    /// What it does: `write `version="2.13"``.
    pub(super) title: String,
    /// The edited text.
    pub(super) text: String,
}

/// A suggestion of a help.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Suggestion {
    /// Nodes, a property or a value to write; into another node, if it is named.
    Write { code: String, into: Option<String> },
    /// The node to move the one at the problem into.
    Move(String),
    /// A node or a property to remove; empty for the one at the problem.
    Remove(String),
}

/// Returns the edits that the help of a problem suggests. `compile` compiles an edited text.
pub(super) fn help_edits(
    document: &KdlDocument,
    text: &str,
    problem: &Diagnostic,
    before: &Compiled,
    compile: &dyn Fn(&str) -> Compiled,
) -> Vec<HelpEdit> {
    let Some(help) = &problem.help else { return Vec::new() };
    let cursor = Cursor::at(document, text, problem.span.start as usize);
    let solves = |new: &String| {
        let after = compile(new);
        let is_same = |one: &&Diagnostic| one.code == problem.code && one.message == problem.message;
        after.problems.errors() <= before.problems.errors()
            && after.problems.iter().filter(is_same).count() < before.problems.iter().filter(is_same).count()
    };
    let mut out = Vec::new();
    for suggestion in suggestions(help).into_iter().take(MOST) {
        let title = match &suggestion {
            Suggestion::Write { code, .. } if code.contains('\n') => "add what is missing".to_owned(),
            Suggestion::Write { code, into: Some(into) } => format!("write `{code}` in `{into}`"),
            Suggestion::Write { code, into: None } => format!("write `{code}`"),
            Suggestion::Move(into) => format!("move it into `{into}`"),
            Suggestion::Remove(name) if name.is_empty() => "remove it".to_owned(),
            Suggestion::Remove(name) => format!("remove `{name}`"),
        };
        let edited = placements(text, &cursor, problem, &suggestion);
        if let Some(text) = edited.into_iter().filter(|new| new != text).find(solves) {
            out.push(HelpEdit { title, text });
        }
    }
    out
}

/// Reads the suggestions of a help: what follows `write`, `add`, `use`, `did you mean` or `remove` in backticks, and a block
/// below a colon.
fn suggestions(help: &str) -> Vec<Suggestion> {
    if let Some((head, block)) = help.split_once(":\n") {
        let lines: Vec<&str> = block.lines().map(|line| line.strip_prefix("    ").unwrap_or(line)).collect();
        let code = lines.join("\n");
        return if head.contains('`') { Vec::new() } else { vec![Suggestion::Write { code, into: None }] };
    }
    let mut out = Vec::new();
    let mut removes = None;
    let pieces: Vec<&str> = help.split('`').collect();
    for (at, piece) in pieces.iter().copied().enumerate() {
        if at % 2 == 0 {
            let said = piece.trim_end();
            let is_list = [",", "or", ", or", "and"].contains(&said.trim_start());
            removes = match said {
                _ if said.ends_with("remove") => Some(true),
                _ if ["write", "add", "use", "did you mean"].iter().any(|verb| said.ends_with(verb)) => {
                    Some(false)
                }
                _ if said.starts_with("write ") && said.ends_with(':') => Some(false),
                _ if is_list => removes,
                _ => None,
            };
            if piece.split(';').next().is_some_and(|first| first.trim() == "remove it") {
                out.push(Suggestion::Remove(String::new()));
            }
            continue;
        }
        // A pattern is not something to type, nor is a command a part of the manifest.
        let is_typed = !piece.contains('…') && !piece.starts_with("trainc ") && !piece.starts_with("--");
        let next = pieces.get(at + 1).map_or("", |prose| prose.trim());
        let other = pieces.get(at + 2).map(|other| (*other).to_owned());
        out.extend(match removes {
            _ if next == "belongs in" => other.map(Suggestion::Move),
            Some(true) if is_typed => Some(Suggestion::Remove(piece.trim_end_matches('=').to_owned())),
            Some(false) if is_typed => {
                let into = other.filter(|_| ["on the", "in", "to"].contains(&next));
                Some(Suggestion::Write { code: piece.to_owned(), into })
            }
            _ => None,
        });
    }
    out
}

/// Returns the texts with a suggestion in each place where it may belong, the likeliest first.
fn placements(text: &str, cursor: &Cursor, problem: &Diagnostic, suggestion: &Suggestion) -> Vec<String> {
    let removed = remove_faulty(text, cursor);
    match suggestion {
        Suggestion::Write { code, into: Some(into) } => {
            let places = paths_to(text, cursor, into);
            let write = |text: &str, place: &[PathStep]| match properties(code) {
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
            let put = |text: &str, place: &[PathStep]| {
                edit::insert_child(text, place, code).ok().map(|edited| edited.text)
            };
            removed.iter().flat_map(|text| places.iter().filter_map(|place| put(text, place))).collect()
        }
        Suggestion::Remove(name) if name.is_empty() => removed.into_iter().collect(),
        Suggestion::Remove(name) => {
            let mut out = Vec::new();
            for (at, step) in cursor.steps.iter().enumerate().rev() {
                let here = path(cursor, at + 1);
                if step.node.name().value() == name {
                    out.extend(edit::remove_node(text, &here).ok().map(|edited| edited.text));
                }
                if step.node.entry(name.as_str()).is_some() {
                    out.extend(edit::remove_property(text, &here, name).ok().map(|edited| edited.text));
                }
                let child = [here.as_slice(), &[PathStep::by_name(name)]].concat();
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
fn paths_to<'d>(text: &str, cursor: &Cursor<'d>, name: &'d str) -> Vec<Vec<PathStep<'d>>> {
    let below = |at| [path(cursor, at).as_slice(), &[PathStep::by_name(name)]].concat();
    (0..=cursor.steps.len()).rev().map(below).filter(|path| edit::locate(text, path).is_ok()).collect()
}

/// Returns the nodes around the problem that have the first property, innermost first, with their number of steps.
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

fn set_properties(text: &str, path: &[PathStep], properties: &[(String, String)]) -> Option<String> {
    properties.iter().try_fold(text.to_owned(), |text, (key, value)| {
        Some(edit::set_property(&text, path, key, value).ok()?.text)
    })
}

/// Writes nodes into the blocks around the problem, innermost first: each replaces the values of the node of its name, or is
/// added.
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
        let child = [here.as_slice(), &[PathStep::by_name(name)]].concat();
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
fn set_values(text: &str, path: &[PathStep], from: &kdl::KdlNode) -> Option<String> {
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
fn path<'d>(cursor: &Cursor<'d>, steps: usize) -> Vec<PathStep<'d>> {
    let step = |step: &Step<'d>| {
        let argument = step.node.entries().iter().find(|entry| entry.name().is_none());
        let argument = argument.and_then(|entry| entry.value().as_string());
        let name = step.node.name().value();
        argument.map_or_else(|| PathStep::by_name(name), |argument| PathStep::by_argument(name, argument))
    };
    cursor.steps.iter().take(steps).map(step).collect()
}

/// Returns the range of the old text that differs, and what replaces it.
pub(super) fn difference<'t>(old: &str, new: &'t str) -> (usize, usize, &'t str) {
    let same = |a: std::str::Chars, b: std::str::Chars| -> usize {
        a.zip(b).take_while(|(x, y)| x == y).map(|(x, _)| x.len_utf8()).sum()
    };
    let start = same(old.chars(), new.chars());
    let rest = |text: &str| text.get(start..).unwrap_or("").to_owned();
    let end: usize = rest(old)
        .chars()
        .rev()
        .zip(rest(new).chars().rev())
        .take_while(|(x, y)| x == y)
        .map(|(x, _)| x.len_utf8())
        .sum();
    (start, old.len() - end, new.get(start..new.len() - end).unwrap_or(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_help_is_read_as_suggestions() {
        let write = |code: &str| Suggestion::Write { code: code.to_owned(), into: None };
        assert_eq!(suggestions("write `version=\"2.13\"`"), [write("version=\"2.13\"")]);
        assert_eq!(suggestions("did you mean `wrap`?"), [write("wrap")]);
        assert_eq!(
            suggestions("write `1` or `2`, the newest; `trainc catalog images` lists all"),
            [write("1"), write("2")]
        );
        assert_eq!(
            suggestions("add to its block:\n    region \"x\"\n    role create=#true"),
            [write("region \"x\"\nrole create=#true")]
        );
        assert_eq!(suggestions("remove it; the type is fixed"), [Suggestion::Remove(String::new())]);
        assert_eq!(suggestions("remove `group=`"), [Suggestion::Remove("group".to_owned())]);
        let into =
            |code: &str, into: &str| Suggestion::Write { code: code.to_owned(), into: Some(into.to_owned()) };
        assert_eq!(suggestions("write `nodes=2` on the `cluster` line"), [into("nodes=2", "cluster")]);
        assert_eq!(suggestions("`max-run` belongs in `cluster`"), [Suggestion::Move("cluster".to_owned())]);
        assert_eq!(suggestions("write it as a child node: `steps 100`"), [write("steps 100")]);
        assert_eq!(suggestions("write `mesh { … }`, or run `trainc plan x`"), []);
    }

    #[test]
    fn an_edit_is_what_differs() {
        assert_eq!(difference("a\nb c\n", "a\nb d c\n"), (4, 4, "d "));
        assert_eq!(difference("aä", "aö"), (1, 3, "ö"));
        assert_eq!(difference("x", "x"), (1, 1, ""));
    }
}
