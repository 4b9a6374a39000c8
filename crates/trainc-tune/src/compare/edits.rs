//! Edits between two jobs as written: value by value, each with its place on both sides, and each applicable
//! separately.

use trainc_diag::source::{Span, Spanned};
use trainc_syntax::ast::{Node, Value};

/// An edit: a value, a list of values, or a node with its content.
#[derive(Clone, Debug)]
pub struct Edit {
    /// Path of the edited value, as `cluster.nodes`.
    pub path: String,
    /// Old value; `None` if it was added.
    pub before: Option<Place>,
    /// New value; `None` if it was removed.
    pub after: Option<Place>,
    steps: Vec<Step>,
    what: What,
}

/// A place of an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Position: the value, or the node's name.
    pub at: Span,
    /// Text: the value, or the whole node.
    pub text: Span,
}

/// A node among its siblings: its name, its distinguishing key, and its index among those with the same key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    name: String,
    key: Option<String>,
    nth: usize,
}

#[derive(Clone, Debug)]
enum What {
    Arguments(Vec<Spanned<Value>>),
    Property(String, Option<(Spanned<String>, Spanned<Value>)>),
    Node(Option<Box<Node>>),
}

/// Returns all edits that turn one job into the other, in the order of the new one; removals come last in
/// their node.
pub fn edits(before: &Node, after: &Node) -> Vec<Edit> {
    let mut out = Vec::new();
    collect_edits(before, after, &[], "job", &mut out);
    out
}

/// Returns the edit of values that are written the same but come from changed content: a file of the same
/// name with other content.
pub fn edit_of_changed_file(after: &Node, path: &[&str], property: &str) -> Option<Edit> {
    let mut node = after;
    let mut steps = Vec::new();
    for name in path {
        node = node.children.iter().find(|child| child.name.value == *name)?;
        steps.push(Step { name: (*name).to_owned(), key: node.key().map(str::to_owned), nth: 0 });
    }
    let (key, value) = node.props.iter().find(|(key, _)| key.value == property)?;
    let place = Place { at: value.span, text: value.span };
    Some(Edit {
        path: format!("{}.{property}", path.join(".")),
        before: Some(place),
        after: Some(place),
        steps,
        what: What::Property(property.to_owned(), Some((key.clone(), value.clone()))),
    })
}

fn collect_edits(before: &Node, after: &Node, steps: &[Step], path: &str, out: &mut Vec<Edit>) {
    let below = |name: &str| if steps.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    if !same_values(&before.args, &after.args) {
        let first = |mine: &[Spanned<Value>], other: &[Spanned<Value>]| {
            let at = mine
                .iter()
                .enumerate()
                .find(|(at, arg)| other.get(*at).is_none_or(|other| other.value != arg.value));
            let (_, first) = at.or_else(|| mine.iter().enumerate().next_back())?;
            let last = mine.last()?;
            Some(Place { at: first.span, text: first.span.to(last.span) })
        };
        out.push(Edit {
            path: path.to_owned(),
            before: first(&before.args, &after.args),
            after: first(&after.args, &before.args),
            steps: steps.to_vec(),
            what: What::Arguments(after.args.clone()),
        });
    }
    let find = |node: &Node, name: &str| -> Option<(Spanned<String>, Spanned<Value>)> {
        node.props.iter().find(|(key, _)| key.value == name).cloned()
    };
    let place = |prop: &(Spanned<String>, Spanned<Value>)| Place { at: prop.1.span, text: prop.1.span };
    let gone = before.props.iter().filter(|(key, _)| find(after, &key.value).is_none());
    for (key, _) in after.props.iter().chain(gone) {
        let (old, new) = (find(before, &key.value), find(after, &key.value));
        if old.as_ref().map(|(_, value)| &value.value) == new.as_ref().map(|(_, value)| &value.value) {
            continue;
        }
        out.push(Edit {
            path: below(&key.value),
            before: old.as_ref().map(place),
            after: new.as_ref().map(place),
            steps: steps.to_vec(),
            what: What::Property(key.value.clone(), new),
        });
    }
    let (old, new) = (children_with_steps(&before.children), children_with_steps(&after.children));
    for (step, node) in &new {
        let deeper: Vec<Step> = steps.iter().chain([step]).cloned().collect();
        let path = below(&shown(step));
        match old.iter().find(|(other, _)| other == step) {
            // Members of the API are compared whole: the table does not describe their content.
            Some((_, earlier)) if node.spec.is_none_or(|spec| spec.free_children) => {
                if !same(earlier, node) {
                    out.push(edit_of_whole_node(path, deeper, Some(earlier), Some(node)));
                }
            }
            Some((_, earlier)) => collect_edits(earlier, node, &deeper, &path, out),
            None => out.push(edit_of_whole_node(path, deeper, None, Some(node))),
        }
    }
    for (step, node) in old.iter().filter(|(step, _)| !new.iter().any(|(other, _)| other == step)) {
        let deeper: Vec<Step> = steps.iter().chain([step]).cloned().collect();
        out.push(edit_of_whole_node(below(&shown(step)), deeper, Some(node), None));
    }
}

fn edit_of_whole_node(path: String, steps: Vec<Step>, before: Option<&Node>, after: Option<&Node>) -> Edit {
    let place = |node: &Node| Place { at: node.name.span, text: node.span };
    Edit {
        path,
        before: before.map(place),
        after: after.map(place),
        steps,
        what: What::Node(after.map(|node| Box::new(node.clone()))),
    }
}

fn shown(step: &Step) -> String {
    match &step.key {
        Some(key) => format!("{}.{key}", step.name),
        None => step.name.clone(),
    }
}

/// Returns children, each with the key that distinguishes it from the others.
fn children_with_steps(children: &[Node]) -> Vec<(Step, &Node)> {
    let mut out: Vec<(Step, &Node)> = Vec::new();
    for node in children {
        let (name, key) = (node.name.value.clone(), node.key().map(str::to_owned));
        let nth = out.iter().filter(|(step, _)| step.name == name && step.key == key).count();
        out.push((Step { name, key, nth }, node));
    }
    out
}

fn same_values(a: &[Spanned<Value>], b: &[Spanned<Value>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.value == b.value)
}

/// Returns true if two nodes are equal, regardless of position.
fn same(a: &Node, b: &Node) -> bool {
    a.name.value == b.name.value
        && same_values(&a.args, &b.args)
        && a.props.len() == b.props.len()
        && a.props.iter().zip(&b.props).all(|(a, b)| a.0.value == b.0.value && a.1.value == b.1.value)
        && a.children.len() == b.children.len()
        && a.children.iter().zip(&b.children).all(|(a, b)| same(a, b))
}

impl Edit {
    /// Applies the edit to a job that is otherwise unchanged.
    pub fn apply(&self, job: &mut Node) {
        let (steps, last) = match (&self.what, self.steps.split_last()) {
            (What::Node(_), Some((last, parents))) => (parents, Some(last)),
            _ => (self.steps.as_slice(), None),
        };
        let mut node = job;
        for step in steps {
            match position(&node.children, step).and_then(|at| node.children.get_mut(at)) {
                Some(child) => node = child,
                // Another edit removed it.
                None => return,
            }
        }
        match (&self.what, last) {
            (What::Arguments(args), _) => node.args.clone_from(args),
            (What::Property(name, new), _) => {
                let at = node.props.iter().position(|(key, _)| key.value == *name);
                match (at.and_then(|at| node.props.get_mut(at)), new) {
                    (Some(old), Some(new)) => old.clone_from(new),
                    (None, Some(new)) => node.props.push(new.clone()),
                    (_, None) => node.props.retain(|(key, _)| key.value != *name),
                }
            }
            (What::Node(new), Some(step)) => {
                let at = position(&node.children, step);
                match (at, new) {
                    (Some(at), Some(new)) => {
                        if let Some(old) = node.children.get_mut(at) {
                            (**new).clone_into(old);
                        }
                    }
                    (Some(at), None) => {
                        node.children.remove(at);
                    }
                    (None, Some(new)) => node.children.push((**new).clone()),
                    (None, None) => {}
                }
            }
            (What::Node(_), None) => {}
        }
    }
}

fn position(children: &[Node], step: &Step) -> Option<usize> {
    let named = |node: &&Node| node.name.value == step.name && node.key() == step.key.as_deref();
    let node = children.iter().filter(named).nth(step.nth)?;
    children.iter().position(|child| std::ptr::eq(child, node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_diag::Problems;
    use trainc_diag::source::SourceMap;

    fn job(sources: &mut SourceMap, text: &str) -> Node {
        let mut problems = Problems::default();
        let id = sources.add("job.kdl", text);
        trainc_syntax::parse(id, text, &mut problems).and_then(|file| file.job).unwrap()
    }

    const BEFORE: &str = "job \"a\" {
    cluster \"ml.p4d.24xlarge\" nodes=2 { volume \"500GiB\"; max-run \"2d\" }
    train { steps 100; micro-batch 4 }
    channel \"train\" s3=\"s3://a/b/\"
    channel \"test\" s3=\"s3://a/c/\"
    request { Environment { A \"1\" } }
}";
    const AFTER: &str = "job \"a\" {
    cluster \"ml.p5.48xlarge\" nodes=2 spot=#true { max-run \"48h\"; volume \"1TiB\" }
    train { tokens 5_000; micro-batch 4 }
    channel \"test\" s3=\"s3://a/c/\" mode=\"x\"
    request { Environment { A \"2\" } }
}";

    #[test]
    fn edits_are_values_and_make_the_one_of_the_other() {
        let mut sources = SourceMap::default();
        // The reader reports a property that the language lacks; it is not part of the node.
        let (before, after) =
            (job(&mut sources, BEFORE), job(&mut sources, &AFTER.replace(" spot=#true", "")));
        let found = edits(&before, &after);
        let told: Vec<(&str, Option<&str>, Option<&str>)> = found
            .iter()
            .map(|edit| {
                let text = |place: Option<Place>| place.map(|place| sources.slice(place.text));
                (edit.path.as_str(), text(edit.before), text(edit.after))
            })
            .collect();
        assert!(
            told.contains(&("cluster", Some("\"ml.p4d.24xlarge\""), Some("\"ml.p5.48xlarge\""))),
            "{told:?}"
        );
        assert!(told.contains(&("cluster.volume", Some("\"500GiB\""), Some("\"1TiB\""))));
        assert!(told.contains(&("train.tokens", None, Some("tokens 5_000"))));
        assert!(told.contains(&("train.steps", Some("steps 100"), None)));
        assert!(told.contains(&("channel.train", Some("channel \"train\" s3=\"s3://a/b/\""), None)));
        // Two days are equal in every spelling.
        assert!(!told.iter().any(|(path, ..)| path.contains("max-run")), "{told:?}");
        let mut made = before.clone();
        for edit in &found {
            edit.apply(&mut made);
        }
        assert!(edits(&made, &after).is_empty() && edits(&after, &made).is_empty());
        // In any order.
        let mut made = before.clone();
        for edit in found.iter().rev() {
            edit.apply(&mut made);
        }
        assert!(edits(&made, &after).is_empty());
        assert!(edits(&before, &before).is_empty());
    }
}
