//! An edit of a manifest: the path of a node, and what is done to it.
//!
//! `tune --write`, `check --fix`, the helps of problems and the editor place it in a text
//! (`trainc_syntax::edit`), and `--set` in a layer of its own; shown, it is what `--set` takes.

use std::fmt;

/// One step of a path: a node by its name and, if several may have it, by its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStep {
    /// The node's name.
    pub name: String,
    /// What distinguishes it from others of its name.
    pub key: Option<Key>,
}

/// The text that distinguishes a node from others of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// Its first argument: `channel "train"`.
    Argument(String),
    /// A property: `storage "lustre" name="corpus"`.
    Property(&'static str, String),
}

impl Key {
    /// Returns the text.
    pub fn text(&self) -> &str {
        match self {
            Self::Argument(text) | Self::Property(_, text) => text,
        }
    }
}

impl NodeStep {
    /// Selects a node by its name.
    pub fn by_name(name: impl Into<String>) -> Self {
        Self { name: name.into(), key: None }
    }

    /// Selects a node by its name and first argument.
    pub fn by_argument(name: impl Into<String>, argument: impl Into<String>) -> Self {
        Self { name: name.into(), key: Some(Key::Argument(argument.into())) }
    }

    /// Selects a node by its name and a property.
    pub fn by_property(name: impl Into<String>, property: &'static str, value: impl Into<String>) -> Self {
        Self { name: name.into(), key: Some(Key::Property(property, value.into())) }
    }
}

/// What an edit does to its node. Values are KDL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Sets the argument with that index, from 0.
    SetArgument(usize, String),
    /// Sets a property.
    SetProperty(String, String),
    /// Removes a property.
    RemoveProperty(String),
    /// Adds nodes to its block.
    Add(String),
    /// Removes it.
    Remove,
}

/// An edit of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The path of the node: in a job, for a value of a job.
    pub at: Vec<NodeStep>,
    /// What is done to it.
    pub op: Op,
    /// The line to edit instead, if a file of another program sets the value: trainc does not write it.
    pub file: Option<FileLine>,
}

/// A line of a file that is not a manifest, with its new text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLine {
    /// The file, as the manifest names it.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The key and its new value, in the syntax of the file; the key alone if its value is not known.
    pub text: String,
}

impl fmt::Display for FileLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}

impl Edit {
    /// Does something to the node at a path.
    pub fn new(at: Vec<NodeStep>, op: Op) -> Self {
        Self { at, op, file: None }
    }

    fn at(path: &[&str], op: Op) -> Self {
        Self::new(path.iter().copied().map(NodeStep::by_name).collect(), op)
    }

    /// Sets the first argument of a node: a number, a switch such as `#true`, or a word without quotes.
    pub fn argument(path: &[&str], value: impl ToString) -> Self {
        Self::at(path, Op::SetArgument(0, kdl_value(&value.to_string())))
    }

    /// Sets a property of a node to such a value.
    pub fn property(path: &[&str], name: &str, value: impl ToString) -> Self {
        Self::at(path, Op::SetProperty(name.to_owned(), kdl_value(&value.to_string())))
    }

    /// Removes a property of a node.
    pub fn without_property(path: &[&str], name: &str) -> Self {
        Self::at(path, Op::RemoveProperty(name.to_owned()))
    }

    /// Returns the path of the value, as `--set` takes it: `train.micro-batch`.
    pub fn path(&self) -> String {
        let steps =
            self.at.iter().flat_map(|step| [Some(step.name.as_str()), step.key.as_ref().map(Key::text)]);
        let property = match &self.op {
            Op::SetProperty(name, _) | Op::RemoveProperty(name) => Some(name.as_str()),
            Op::SetArgument(..) | Op::Add(_) | Op::Remove => None,
        };
        steps.chain([property]).flatten().collect::<Vec<_>>().join(".")
    }

    /// Returns the value as `--set` takes it, a word without quotes; `#null` if it is removed.
    pub fn value(&self) -> &str {
        match &self.op {
            Op::SetArgument(_, value) | Op::SetProperty(_, value) | Op::Add(value) => {
                let word = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
                word.unwrap_or(value)
            }
            Op::RemoveProperty(_) | Op::Remove => "#null",
        }
    }

    /// Returns true if it removes a value or a node.
    pub fn removes(&self) -> bool {
        matches!(self.op, Op::RemoveProperty(_) | Op::Remove)
    }

    /// Returns the KDL to type, one text for each node: properties alone, or the node with its argument.
    pub fn lines(edits: &[Self]) -> Vec<String> {
        let mut lines: Vec<(&[NodeStep], String)> = Vec::new();
        for edit in edits {
            let name = edit.at.last().map_or("", |step| step.name.as_str());
            match (&edit.op, lines.last_mut().filter(|(at, _)| *at == edit.at)) {
                (Op::SetProperty(name, value), Some((_, line))) => *line += &format!(" {name}={value}"),
                (Op::SetProperty(name, value), None) => lines.push((&edit.at, format!("{name}={value}"))),
                (Op::SetArgument(_, value), _) => lines.push((&edit.at, format!("{name} {value}"))),
                (Op::Add(nodes), _) => lines.push((&edit.at, nodes.clone())),
                (Op::RemoveProperty(_) | Op::Remove, _) => {}
            }
        }
        lines.into_iter().map(|(_, line)| line).collect()
    }
}

/// The syntax of `--set`.
impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.path(), self.value())
    }
}

/// Formats a value as KDL: switches and numbers as they are, words in quotes.
fn kdl_value(value: &str) -> String {
    let is_bare = value.starts_with('#') || value.bytes().all(|byte| byte.is_ascii_digit());
    if is_bare { value.to_owned() } else { format!("\"{value}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_is_shown_as_a_line_and_as_set_takes_it() {
        let edits = [
            Edit::argument(&["parallel", "pipeline-degree"], 4),
            Edit::property(&["parallel", "pipeline-degree"], "microbatches", 8),
            Edit::property(&["parallel"], "engine", "fsdp"),
            Edit::without_property(&["parallel"], "launcher"),
            Edit::argument(&["train", "activation-checkpointing"], "#true"),
        ];
        let lines = ["pipeline-degree 4 microbatches=8", "engine=\"fsdp\"", "activation-checkpointing #true"];
        assert_eq!(Edit::lines(&edits), lines);
        let sets = [
            "parallel.pipeline-degree=4",
            "parallel.pipeline-degree.microbatches=8",
            "parallel.engine=fsdp",
            "parallel.launcher=#null",
            "train.activation-checkpointing=#true",
        ];
        assert_eq!(edits.map(|edit| edit.to_string()), sets);
    }
}
