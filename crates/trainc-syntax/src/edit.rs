//! Edits manifests; everything else keeps its comments and layout.
//!
//! In: text, a path to a node, and the new KDL text. Out: the edited text and the range of the edit in the
//! old and the new text. Works on text with syntax errors if the node can be found.

use super::characters::{is_bare_name, is_newline};
use super::lexer::{Kind, Token};
use super::literal;
pub use super::literal::quoted;
use super::tree::{self, Block, Entry, Item, Node, Part, Tree};
use std::ops::Range;
use trainc_diag::{Edit, Key, NodeStep, Op};

/// The result of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// The whole new text.
    pub text: String,
    /// The replaced range, in bytes of the old text; empty for an insertion.
    pub replaced: Range<usize>,
    /// The range of the replacement, in bytes of the new text; empty for a removal.
    pub span: Range<usize>,
}

/// An error that prevents an edit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// No such node.
    #[error("node `{0}` not found")]
    NotFound(String),
    /// Several nodes match the step.
    #[error("several nodes match `{0}`")]
    Ambiguous(String),
    /// The node has fewer arguments.
    #[error("argument {0} not found")]
    NoArgument(usize),
    /// The new text is not one KDL value.
    #[error("`{0}` is not a single KDL value")]
    NotAValue(String),
    /// The new text is not KDL nodes.
    #[error("`{0}` is not a KDL node")]
    NotANode(String),
    /// The range is outside of the text, splits a character, or overlaps another.
    #[error("bytes {0} to {1} cannot be replaced")]
    BadSpan(usize, usize),
    /// The text exceeds a limit of size or depth.
    #[error("the text is too large or too deeply nested")]
    Limit,
}

/// Applies an edit to the node at `top`, a job or the whole text. A value of a node that is not there is
/// added with the node.
pub fn apply(text: &str, top: &[NodeStep], edit: &Edit) -> Result<Edited, EditError> {
    let path = [top, &edit.at].concat();
    let edited = match &edit.op {
        Op::SetArgument(index, value) => set_argument(text, &path, *index, value),
        Op::SetProperty(name, value) => set_property(text, &path, name, value),
        Op::RemoveProperty(name) => remove_property(text, &path, name),
        Op::Add(nodes) => insert_child(text, &path, nodes),
        Op::Remove => remove_node(text, &path),
    };
    match edited {
        Err(EditError::NotFound(_)) if !edit.removes() && !edit.at.is_empty() => {
            add_with_node(text, top, edit)
        }
        edited => edited,
    }
}

/// Applies edits to the node at `top`, one after the other. The node of an edit may be in a layer below the
/// text: added, it gets what it requires, one of `required`, and the rest is merged.
pub fn apply_all(
    text: &str,
    top: &[NodeStep],
    required: &[Edit],
    edits: &[Edit],
) -> Result<String, EditError> {
    let mut text = text.to_owned();
    for edit in edits {
        let of_node = |one: &&Edit| one.at.first() == edit.at.first();
        if let Some(required) = required.iter().find(of_node) {
            let node = [top, &required.at].concat();
            if matches!(locate(&text, &node), Err(EditError::NotFound(_))) {
                text = apply(&text, top, required)?.text;
            }
        }
        text = apply(&text, top, edit)?.text;
    }
    Ok(text)
}

/// Adds the nodes of an edit that are not there, with its value.
fn add_with_node(text: &str, top: &[NodeStep], edit: &Edit) -> Result<Edited, EditError> {
    let mut path = top.to_vec();
    let mut missing = edit.at.iter();
    for step in missing.by_ref() {
        path.push(step.clone());
        match locate(text, &path) {
            Ok(_) => {}
            Err(EditError::NotFound(_)) => break,
            Err(error) => return Err(error),
        }
    }
    let first = path.pop();
    let names: Vec<String> = first.iter().chain(missing).map(describe_step).collect();
    let value = match &edit.op {
        Op::SetArgument(_, value) => format!(" {value}"),
        Op::SetProperty(name, value) => format!(" {}={value}", property_name(name)),
        Op::Add(nodes) => format!(" {{\n{}\n}}", indented(nodes, "    ")),
        Op::RemoveProperty(_) | Op::Remove => String::new(),
    };
    let around = |inside: String, name: &String| format!("{name} {{\n{}\n}}", indented(&inside, "    "));
    let nodes = names.iter().rev().skip(1).fold(names.last().cloned().unwrap_or_default() + &value, around);
    insert_child(text, &path, &nodes)
}

fn property_name(property: &str) -> String {
    if is_bare_name(property) { property.to_owned() } else { quoted(property) }
}

/// Sets a property of a node: replaces its value, or adds it after the node's last value.
pub fn set_property(text: &str, path: &[NodeStep], property: &str, value: &str) -> Result<Edited, EditError> {
    expect_value(value)?;
    let tree = read(text)?;
    let (node, _) = find(text, &tree, path)?;
    let named = |entry: &&Entry| entry.key.is_some_and(|key| string(text, key) == property);
    // The last one takes effect.
    if let Some(entry) = live_entries(node).filter(named).max_by_key(|entry| entry.start) {
        return replace_span(text, value_range(entry), value);
    }
    let at = head_end(node);
    replace_span(text, at..at, &format!(" {}={value}", property_name(property)))
}

/// Removes a property of a node with the spaces before it; a node without it is unchanged.
pub fn remove_property(text: &str, path: &[NodeStep], property: &str) -> Result<Edited, EditError> {
    let tree = read(text)?;
    let (node, _) = find(text, &tree, path)?;
    let mut ranges: Vec<Range<usize>> = live_entries(node)
        .filter(|entry| entry.key.is_some_and(|key| string(text, key) == property))
        .map(|entry| {
            let before = text.get(..entry.start).unwrap_or_default();
            before.trim_end_matches([' ', '\t']).len()..entry.end
        })
        .collect();
    let Some(last) = ranges.pop() else { return replace_span(text, node.start..node.start, "") };
    let text = replace_all(
        &replace_span(text, last.clone(), "")?.text,
        &ranges.into_iter().map(|one| (one, String::new())).collect::<Vec<_>>(),
    )?;
    Ok(Edited { text, span: last.start..last.start, replaced: last })
}

/// Sets an argument of a node, counted from 0: replaces it, or adds it after the last argument.
pub fn set_argument(text: &str, path: &[NodeStep], index: usize, value: &str) -> Result<Edited, EditError> {
    expect_value(value)?;
    let tree = read(text)?;
    let (node, _) = find(text, &tree, path)?;
    let arguments: Vec<&Entry> = live_entries(node).filter(|entry| entry.key.is_none()).collect();
    if let Some(entry) = arguments.get(index) {
        return replace_span(text, value_range(entry), value);
    }
    if index > arguments.len() {
        return Err(EditError::NoArgument(index));
    }
    let at = arguments.last().map_or(node.name.end, |entry| entry.end);
    replace_span(text, at..at, &format!(" {value}"))
}

/// Adds a node after the last child of a node, indented like its siblings; with an empty path, at the end of
/// the text. The child may have several lines, written without indentation.
pub fn insert_child(text: &str, path: &[NodeStep], child: &str) -> Result<Edited, EditError> {
    let child = child.trim();
    if !tree::parse(child).is_ok_and(|tree| tree.faults.is_empty() && !tree.items.is_empty()) {
        return Err(EditError::NotANode(child.to_owned()));
    }
    let tree = read(text)?;
    if path.is_empty() {
        let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        return replace_span(text, text.len()..text.len(), &format!("{newline}{child}\n"));
    }
    let (node, _) = find(text, &tree, path)?;
    let outer = indentation(text, node.start);
    let Some(block) = live_block(node) else {
        let inner = format!("{outer}    ");
        let new = format!(" {{\n{}\n{outer}}}", indented(child, &inner));
        // `end` is before the comment of the line.
        return replace_span(text, node.end..node.end, &new);
    };
    let one_line = !child.contains(is_newline) && !child.contains("//");
    let last = block.items.iter().rev().find(|item| !matches!(item, Item::Blank));
    match last {
        None if block.flat && one_line => {
            replace_span(text, block.start..block.end, &format!("{{ {child} }}"))
        }
        None if block.flat => {
            let new = format!("{{\n{}\n{outer}}}", indented(child, &format!("{outer}    ")));
            replace_span(text, block.start..block.end, &new)
        }
        Some(Item::Node(last)) if block.flat && one_line => {
            replace_span(text, last.end..last.end, &format!("; {child}"))
        }
        _ => {
            let first = block.items.iter().find_map(|item| match item {
                Item::Node(node) => Some(node.start),
                Item::Comment { .. } | Item::Blank => None,
            });
            // Siblings on the line of the brace have no indentation.
            let own_line =
                |at: &usize| text.get(block.start..*at).is_some_and(|before| before.contains('\n'));
            let inner = match first.filter(own_line) {
                Some(at) => indentation(text, at).to_owned(),
                None => format!("{outer}    "),
            };
            let end = match last {
                Some(Item::Node(last)) => terminator_end(text, last),
                Some(Item::Comment { token, .. }) => token.end,
                Some(Item::Blank) | None => block.comment.map_or(block.start + 1, |comment| comment.end),
            };
            // The closing brace may be on the last child's line.
            let closed = block_end(text, block);
            let rest = text.get(end..closed).unwrap_or("");
            let tail = if rest.contains('\n') { String::new() } else { format!("\n{outer}") };
            let until = if tail.is_empty() { end } else { closed };
            replace_span(text, end..until, &format!("\n{}{tail}", indented(child, &inner)))
        }
    }
}

/// Removes a node with its block and the comment at its end. Comments on the lines above it are kept.
pub fn remove_node(text: &str, path: &[NodeStep]) -> Result<Edited, EditError> {
    let tree = read(text)?;
    let (node, _) = find(text, &tree, path)?;
    let end = terminator_end(text, node);
    let line_start = line_start(text, node.start);
    let before = text.get(line_start..node.start).unwrap_or("");
    let after = text.get(end..).unwrap_or("");
    let line_left = after.find('\n').map_or(after, |at| after.get(..at).unwrap_or(""));
    if before.trim().is_empty() && line_left.trim().is_empty() {
        let line_end = (end + line_left.len() + 1).min(text.len());
        // One of two adjacent blank lines is removed too.
        let gap =
            text.get(..line_start).is_some_and(|above| above.ends_with("\n\n") || above.ends_with("\n\r\n"));
        let below = text.get(line_end..).unwrap_or("");
        let meets = below.is_empty()
            || below.starts_with(['\n', '\r'])
            || below.trim_start_matches([' ', '\t']).starts_with('}');
        let blank = text.get(..line_start).map_or(0, |above| if above.ends_with("\r\n") { 2 } else { 1 });
        let start = if gap && meets { line_start - blank } else { line_start };
        return replace_span(text, start..line_end, "");
    }
    // On a line with other nodes: up to the next one, or with the `;` before it.
    let blanks = after.len() - after.trim_start_matches([' ', '\t']).len();
    if text.get(node.end..end).is_some_and(|rest| rest.contains(';'))
        && !after.trim_start_matches([' ', '\t']).starts_with('}')
    {
        return replace_span(text, node.start..end + blanks, "");
    }
    let kept = before.trim_end().trim_end_matches(';').trim_end();
    let start = if before.trim_end().ends_with(';') { line_start + kept.len() } else { node.start };
    // In `{ a }` one of the spaces around it is removed too.
    let blanks = if start == node.start { blanks } else { 0 };
    replace_span(text, start..end + blanks, "")
}

/// Replaces a range of the text.
pub fn replace_span(text: &str, range: Range<usize>, new: &str) -> Result<Edited, EditError> {
    let bad = EditError::BadSpan(range.start, range.end);
    let (Some(before), Some(_), Some(after)) =
        (text.get(..range.start), text.get(range.clone()), text.get(range.end..))
    else {
        return Err(bad);
    };
    let span = range.start..range.start + new.len();
    Ok(Edited { text: [before, new, after].concat(), replaced: range, span })
}

/// Replaces several ranges at once, in any order, for `check --fix`. They must not overlap.
pub fn replace_all(text: &str, edits: &[(Range<usize>, String)]) -> Result<String, EditError> {
    let mut edits: Vec<&(Range<usize>, String)> = edits.iter().collect();
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for (range, new) in edits {
        let bad = || EditError::BadSpan(range.start, range.end);
        out.push_str(text.get(at..range.start).ok_or_else(bad)?);
        text.get(range.clone()).ok_or_else(bad)?;
        out.push_str(new);
        at = range.end;
    }
    out.push_str(text.get(at..).unwrap_or(""));
    Ok(out)
}

/// Returns the range of a node, from its name to the end of its block.
pub fn locate(text: &str, path: &[NodeStep]) -> Result<Range<usize>, EditError> {
    let tree = read(text)?;
    let (node, _) = find(text, &tree, path)?;
    Ok(node.start..node.end)
}

fn read(text: &str) -> Result<Tree, EditError> {
    tree::parse(text).map_err(|_| EditError::Limit)
}

fn expect_value(value: &str) -> Result<(), EditError> {
    let single = tree::parse(&format!("x {value}")).is_ok_and(|tree| {
        tree.faults.is_empty()
            && matches!(tree.items.as_slice(), [Item::Node(node)] if node.comment.is_none()
                && matches!(node.parts.as_slice(), [Part::Entry(Entry { key: None, slashdash: false, .. })]))
    });
    // No surrounding spaces and no terminator.
    let is_trimmed = !value.ends_with(';') && value.trim() == value;
    if single && is_trimmed { Ok(()) } else { Err(EditError::NotAValue(value.to_owned())) }
}

fn string(text: &str, token: Token) -> String {
    let raw = text.get(token.start..token.end).unwrap_or("");
    literal::string(raw).unwrap_or_else(|_| raw.to_owned())
}

fn live_entries(node: &Node) -> impl Iterator<Item = &Entry> {
    node.parts.iter().filter_map(|part| match part {
        Part::Entry(entry) if !entry.slashdash => Some(entry),
        Part::Entry(_) | Part::Block(_) | Part::Comment(_) | Part::Break(_) => None,
    })
}

fn live_block(node: &Node) -> Option<&Block> {
    node.parts.iter().find_map(|part| match part {
        Part::Block(block) if !block.slashdash => Some(block),
        Part::Block(_) | Part::Entry(_) | Part::Comment(_) | Part::Break(_) => None,
    })
}

/// Returns the end of a node's last value, commented out or not, or of its name.
fn head_end(node: &Node) -> usize {
    let ends = node.parts.iter().filter_map(|part| match part {
        Part::Entry(entry) => Some(entry.end),
        Part::Block(_) | Part::Comment(_) | Part::Break(_) => None,
    });
    ends.max().unwrap_or(node.name.end)
}

/// Returns the range of a value with its type tag.
fn value_range(entry: &Entry) -> Range<usize> {
    let start = entry.ty.map(|ty| ty.start).or(entry.value.map(|value| value.start)).unwrap_or(entry.end);
    start..entry.end
}

fn find<'n>(text: &str, tree: &'n Tree, path: &[NodeStep]) -> Result<(&'n Node, usize), EditError> {
    let mut items: &[Item] = &tree.items;
    let mut found = None;
    for (depth, step) in path.iter().enumerate() {
        let mut fitting = items.iter().filter_map(|item| match item {
            Item::Node(node) if !node.slashdash && !node.broken && matches_step(text, node, step) => {
                Some(&**node)
            }
            Item::Node(_) | Item::Comment { .. } | Item::Blank => None,
        });
        let node = fitting.next().ok_or_else(|| EditError::NotFound(describe_step(step)))?;
        if fitting.next().is_some() {
            return Err(EditError::Ambiguous(describe_step(step)));
        }
        items = live_block(node).map_or(&[], |block| block.items.as_slice());
        found = Some((node, depth));
    }
    found.ok_or_else(|| EditError::NotFound(String::new()))
}

fn matches_step(text: &str, node: &Node, step: &NodeStep) -> bool {
    let key = step.key.as_ref();
    let property = key.and_then(|key| match key {
        Key::Argument(_) => None,
        Key::Property(name, _) => Some(*name),
    });
    let value = || {
        let is_key = |entry: &&Entry| entry.key.map(|key| string(text, key)).as_deref() == property;
        live_entries(node).find(is_key).and_then(|entry| entry.value)
    };
    string(text, node.name) == step.name
        && key.is_none_or(|key| {
            value().is_some_and(|token| token.kind.is_string() && string(text, token) == key.text())
        })
}

fn describe_step(step: &NodeStep) -> String {
    match &step.key {
        None => step.name.clone(),
        Some(Key::Argument(text)) => format!("{} {}", step.name, quoted(text)),
        Some(Key::Property(name, text)) => format!("{} {}={}", step.name, property_name(name), quoted(text)),
    }
}

fn line_start(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1)
}

/// Returns the indentation of the line.
fn indentation(text: &str, at: usize) -> &str {
    let line = text.get(line_start(text, at)..at).unwrap_or("");
    let line = line.trim_start_matches('\u{feff}');
    line.get(..line.len() - line.trim_start().len()).unwrap_or("")
}

/// Indents each line that is not empty.
fn indented(child: &str, indent: &str) -> String {
    let lines: Vec<String> = child
        .lines()
        .map(|line| if line.trim().is_empty() { String::new() } else { format!("{indent}{line}") })
        .collect();
    lines.join("\n")
}

/// Returns the end of a node with its `;` or its line comment.
fn terminator_end(text: &str, node: &Node) -> usize {
    if let Some(comment) = node.comment {
        return comment.end;
    }
    // Block comments after the last value belong to the node.
    let end = node.parts.iter().rev().find_map(|part| match part {
        Part::Comment(token) if token.kind == Kind::BlockComment => Some(token.end),
        Part::Comment(_) | Part::Break(_) | Part::Entry(_) | Part::Block(_) => None,
    });
    let end = end.unwrap_or(0).max(node.end);
    let after = text.get(end..).unwrap_or("");
    let blanks = after.len() - after.trim_start_matches([' ', '\t']).len();
    if after.get(blanks..).is_some_and(|rest| rest.starts_with(';')) { end + blanks + 1 } else { end }
}

/// Returns the offset of the closing brace, or the end of a block without one.
fn block_end(text: &str, block: &Block) -> usize {
    let closed =
        text.get(block.start..block.end).is_some_and(|inside| inside.len() > 1 && inside.ends_with('}'));
    if closed { block.end - 1 } else { block.end }
}

/// Returns the byte range of the old text that differs, and the new text of that range.
pub fn changed_range<'a>(old: &str, new: &'a str) -> (usize, usize, &'a str) {
    let mut start = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
    while !(old.is_char_boundary(start) && new.is_char_boundary(start)) {
        start -= 1;
    }
    let rest = old.len().min(new.len()) - start;
    let mut tail = old.bytes().rev().zip(new.bytes().rev()).take(rest).take_while(|(a, b)| a == b).count();
    while !(old.is_char_boundary(old.len() - tail) && new.is_char_boundary(new.len() - tail)) {
        tail -= 1;
    }
    (start, old.len() - tail, new.get(start..new.len() - tail).unwrap_or(""))
}

#[cfg(test)]
mod tests {
    use super::super::document::tests::near_kdl;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_changed_range_is_minimal() {
        assert_eq!(changed_range("a 2\nb", "a 1\nb"), (2, 3, "1"));
        assert_eq!(changed_range("a\nb c\n", "a\nb d c\n"), (4, 4, "d "));
        assert_eq!(changed_range("ab", "aab"), (1, 1, "a"));
        assert_eq!(changed_range("aä", "aö"), (1, 3, "ö"));
        assert_eq!(changed_range("same", "same"), (4, 4, ""));
    }

    const TEXT: &str = "// head\njob \"x\" {\n    cluster \"c\" nodes=2 { max-run \"5d\" } // two\n    channel \
        \"train\" s3=\"a\" // t\n    channel \"test\" s3=(u8)1 /-mode=\"x\"\n\n    // about train\n    \
        train {\n        steps 100 // few\n    }\n    debugger\n}\n";

    fn job(steps: &[NodeStep]) -> Vec<NodeStep> {
        [&[NodeStep::by_argument("job", "x")], steps].concat()
    }

    #[track_caller]
    fn check(edited: Result<Edited, EditError>, from: &str, to: &str) {
        let edited = edited.unwrap();
        assert_eq!(edited.text, TEXT.replacen(from, to, 1));
        let (start, end) = (edited.replaced.start, TEXT.len() - edited.replaced.end);
        assert_eq!(edited.text[..start], TEXT[..start]);
        assert_eq!(edited.text[edited.span.end..], TEXT[TEXT.len() - end..]);
        assert_eq!(edited.span.start, start);
    }

    #[test]
    fn properties() {
        let train = job(&[NodeStep::by_argument("channel", "train")]);
        check(set_property(TEXT, &train, "s3", "\"b\""), "s3=\"a\"", "s3=\"b\"");
        check(set_property(TEXT, &train, "mode", "\"ro\""), "s3=\"a\"", "s3=\"a\" mode=\"ro\"");
        check(set_property(TEXT, &train, "two words", "1"), "s3=\"a\"", "s3=\"a\" \"two words\"=1");
        let test = job(&[NodeStep::by_argument("channel", "test")]);
        check(set_property(TEXT, &test, "s3", "2"), "(u8)1", "2");
        check(set_property(TEXT, &test, "mode", "2"), "/-mode=\"x\"", "/-mode=\"x\" mode=2");
        let cluster = job(&[NodeStep::by_name("cluster")]);
        check(set_property(TEXT, &cluster, "nodes", "16"), "nodes=2", "nodes=16");
        check(set_property(TEXT, &cluster, "spare", "1"), "nodes=2", "nodes=2 spare=1");
    }

    #[test]
    fn arguments() {
        let steps = job(&[NodeStep::by_name("train"), NodeStep::by_name("steps")]);
        check(set_argument(TEXT, &steps, 0, "2_000"), "100", "2_000");
        check(set_argument(TEXT, &steps, 1, "#true"), "100", "100 #true");
        assert_eq!(set_argument(TEXT, &steps, 2, "1"), Err(EditError::NoArgument(2)));
        check(
            set_argument(TEXT, &job(&[NodeStep::by_argument("channel", "train")]), 0, "\"t\""),
            "\"train\"",
            "\"t\"",
        );
        check(
            set_argument(TEXT, &job(&[NodeStep::by_name("debugger")]), 0, "#true"),
            "debugger",
            "debugger #true",
        );
    }

    #[test]
    fn children() {
        check(
            insert_child(TEXT, &job(&[NodeStep::by_name("train")]), "seed 1"),
            "// few\n",
            "// few\n        seed 1\n",
        );
        check(
            insert_child(TEXT, &job(&[NodeStep::by_name("cluster")]), "volume \"1GiB\""),
            "\"5d\" }",
            "\"5d\"; volume \"1GiB\" }",
        );
        check(
            insert_child(TEXT, &job(&[NodeStep::by_name("debugger")]), "a {\n    b\n}"),
            "debugger\n",
            "debugger {\n        a {\n            b\n        }\n    }\n",
        );
        check(
            insert_child(TEXT, &job(&[NodeStep::by_argument("channel", "train")]), "b"),
            "s3=\"a\" //",
            "s3=\"a\" {\n        b\n    } //",
        );
        check(insert_child(TEXT, &job(&[]), "profiler"), "debugger\n", "debugger\n    profiler\n");
        assert_eq!(insert_child("a {}\n", &[NodeStep::by_name("a")], "b").unwrap().text, "a { b }\n");
        assert_eq!(insert_child("a {\n}\n", &[NodeStep::by_name("a")], "b").unwrap().text, "a {\n    b\n}\n");
        assert_eq!(
            insert_child("a { b }\n", &[NodeStep::by_name("a")], "c // d").unwrap().text,
            "a { b\n    c // d\n}\n"
        );
        assert_eq!(insert_child("a", &[], "b").unwrap().text, "a\nb\n");
    }

    #[test]
    fn removal() {
        check(
            remove_node(TEXT, &job(&[NodeStep::by_argument("channel", "train")])),
            "    channel \"train\" s3=\"a\" // t\n",
            "",
        );
        check(remove_node(TEXT, &job(&[NodeStep::by_name("debugger")])), "    debugger\n", "");
        check(
            remove_node(TEXT, &job(&[NodeStep::by_name("cluster"), NodeStep::by_name("max-run")])),
            " max-run \"5d\" }",
            " }",
        );
        let remove = |text: &str, name: &str| {
            remove_node(text, &[NodeStep::by_name("a"), NodeStep::by_name(name)]).unwrap().text
        };
        assert_eq!(remove("a { b; c; d }\n", "b"), "a { c; d }\n");
        assert_eq!(remove("a { b; c; d }\n", "c"), "a { b; d }\n");
        assert_eq!(remove("a { b; c; d }\n", "d"), "a { b; c }\n");
        assert_eq!(remove("a {\n    b\n\n    c {\n        d\n    }\n}\n", "c"), "a {\n    b\n}\n");
        assert_eq!(remove("a {\n    b\n\n    c\n\n    d\n}\n", "c"), "a {\n    b\n\n    d\n}\n");
    }

    #[test]
    fn invalid_edits_are_rejected() {
        let channel = job(&[NodeStep::by_name("channel")]);
        assert_eq!(set_property(TEXT, &channel, "s3", "1"), Err(EditError::Ambiguous("channel".into())));
        let none = job(&[NodeStep::by_argument("channel", "nope")]);
        assert_eq!(
            set_property(TEXT, &none, "s3", "1").unwrap_err().to_string(),
            "node `channel \"nope\"` not found"
        );
        for bad in ["5d", "1 2", "a=1", "", "1 // c", "1\nb", "1;", "/-1", "{ a }", "1 "] {
            assert_eq!(
                set_argument(TEXT, &job(&[]), 0, bad),
                Err(EditError::NotAValue(bad.into())),
                "{bad:?}"
            );
        }
        assert!(insert_child(TEXT, &job(&[]), "5d").is_err());
        assert_eq!(replace_span("é", 1..2, ""), Err(EditError::BadSpan(1, 2)));
    }

    #[test]
    fn several_replacements_at_once() {
        let edits = [(8..10, "\"5d\"".to_owned()), (2..3, "B".to_owned())];
        assert_eq!(replace_all("a b c = 5d", &edits).unwrap(), "a B c = \"5d\"");
        assert!(replace_all("abc", &[(0..2, String::new()), (1..3, String::new())]).is_err());
    }

    /// Returns the text with values of job `a`, whose base has a cluster and an engine.
    fn written(text: &str, edits: &[Edit]) -> String {
        let top = [NodeStep::by_argument("job", "a")];
        let required =
            [Edit::argument(&["cluster"], "ml.p4d.24xlarge"), Edit::property(&["parallel"], "engine", "smp")];
        apply_all(text, &top, &required, edits).unwrap()
    }

    #[test]
    fn an_edit_keeps_comments_and_adds_what_is_missing() {
        let text = "// why\njob \"a\" {\n    cluster \"ml.p4d.24xlarge\" nodes=2 // two\n    train {\n    \
            \x20   micro-batch 1\n    }\n}\n";
        let edits = [
            Edit::property(&["cluster"], "nodes", 4),
            Edit::argument(&["cluster"], "ml.p5.48xlarge"),
            Edit::argument(&["train", "micro-batch"], 8),
            Edit::argument(&["train", "activation-checkpointing"], "#true"),
        ];
        assert_eq!(
            written(text, &edits),
            "// why\njob \"a\" {\n    cluster \"ml.p5.48xlarge\" nodes=4 // two\n    train {\n        \
                micro-batch 8\n        activation-checkpointing #true\n    }\n}\n"
        );
    }

    #[test]
    fn a_node_that_a_base_has_is_laid_over_it() {
        let text = "extends \"./base.kdl\"\njob \"a\" {\n    region \"us-west-2\"\n}\n";
        let edits = [
            Edit::property(&["cluster"], "nodes", 4),
            Edit::argument(&["parallel", "tensor-degree"], 2),
            Edit::argument(&["train", "micro-batch"], 8),
            Edit::property(&["train", "optimizer"], "lr", 1),
        ];
        assert_eq!(
            written(text, &edits),
            "extends \"./base.kdl\"\njob \"a\" {\n    region \"us-west-2\"\n    cluster \
                \"ml.p4d.24xlarge\" nodes=4\n    parallel engine=\"smp\" {\n        tensor-degree 2\n    \
                }\n    train {\n        micro-batch 8\n        optimizer lr=1\n    }\n}\n"
        );
        assert_eq!(apply("a\n", &[], &Edit::argument(&["b", "c"], 1)).unwrap().text, "a\nb {\n    c 1\n}\n");
        let removed = apply("a\n", &[], &Edit::without_property(&["b"], "c"));
        assert_eq!(removed, Err(EditError::NotFound("b".into())));
    }

    #[test]
    fn properties_of_a_child_are_set_and_removed() {
        let text = "job \"a\" {\n    parallel engine=\"smp\" {\n        pipeline-degree 4 \
            schedule=\"interleaved\" microbatches=4 // in flight\n    }\n}\n";
        let path = ["parallel", "pipeline-degree"];
        let edits = [
            Edit::argument(&path, 2),
            Edit::property(&path, "microbatches", 8),
            Edit::without_property(&path, "schedule"),
        ];
        assert_eq!(
            written(text, &edits),
            "job \"a\" {\n    parallel engine=\"smp\" {\n        pipeline-degree 2 microbatches=8 // in \
                flight\n    }\n}\n"
        );
    }

    #[test]
    fn text_with_errors_can_be_edited() {
        let edited = set_argument("a 5d\nb 1\n", &[NodeStep::by_name("b")], 0, "2").unwrap();
        assert_eq!(edited.text, "a 5d\nb 2\n");
    }

    /// Parses the nodes of a text.
    fn nodes(text: &str) -> Vec<kdl::KdlNode> {
        let mut problems = trainc_diag::Problems::default();
        let document = crate::document::parse(trainc_diag::source::SourceId(0), text, &mut problems);
        assert!(problems.is_empty(), "{text:?} {problems:?}");
        document.unwrap().nodes().to_vec()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_edit_panics_and_valid_text_stays_valid(text in near_kdl()) {
            let path = [NodeStep::by_name("a")];
            let was_valid = tree::parse(&text).is_ok_and(|tree| tree.faults.is_empty());
            let edits = [
                set_property(&text, &path, "k", "7"),
                set_argument(&text, &path, 0, "7"),
                insert_child(&text, &path, "child 1"),
                remove_node(&text, &path),
            ];
            for edited in edits.into_iter().flatten() {
                let tree = tree::parse(&edited.text);
                let is_valid = tree.is_ok_and(|tree| tree.faults.is_empty());
                prop_assert!(!was_valid || is_valid, "{:?} to {:?}", text, edited.text);
            }
        }

        #[test]
        fn an_edit_changes_only_its_target(text in super::super::format::tests::unformatted_kdl()) {
            let path = [NodeStep::by_name("node")];
            let before = nodes(&text);
            if let Ok(edited) = set_property(&text, &path, "k", "7") {
                let after = nodes(&edited.text);
                prop_assert_eq!(after[0].get("k"), Some(&kdl::KdlValue::Integer(7)), "{:?} to {:?}", text, edited.text);
                prop_assert_eq!(after.len(), before.len());
            }
            if let Ok(edited) = set_argument(&text, &path, 0, "7") {
                let after = nodes(&edited.text);
                prop_assert_eq!(after[0].get(0), Some(&kdl::KdlValue::Integer(7)), "{:?} to {:?}", text, edited.text);
            }
            if let Ok(edited) = insert_child(&text, &path, "child 1 // c") {
                let after = nodes(&edited.text);
                let children = |node: &kdl::KdlNode| node.children().map_or(0, |children| children.nodes().len());
                prop_assert_eq!(children(&after[0]), children(&before[0]) + 1, "{:?} to {:?}", text, edited.text);
                prop_assert_eq!(after[0].entries().len(), before[0].entries().len());
            }
            if let Ok(edited) = remove_node(&text, &path) {
                prop_assert_eq!(nodes(&edited.text).len(), before.len() - 1, "{:?} to {:?}", text, edited.text);
            }
        }
    }
}
