//! The examples of the language, each over a job that has the rest.

use kdl::{KdlDocument, KdlNode};
use std::sync::LazyLock;
use trainc_language::nodes::EXAMPLES;

/// Nodes of a manifest, as one would write them.
pub struct Example {
    /// The name of its first node, which it is an example of.
    pub node: String,
    /// The text, with its comment.
    pub text: &'static str,
    /// The paths of the nodes, properties and arguments in it.
    paths: Vec<String>,
}

static ALL: LazyLock<Vec<Example>> = LazyLock::new(|| {
    let texts = EXAMPLES.iter().flat_map(|file| file.split("\n\n"));
    texts.filter_map(|text| Example::parse(text.trim_end())).collect()
});

/// Returns the examples of a node of the job or of the top level.
pub fn examples_of(node: &str) -> impl Iterator<Item = &'static Example> {
    ALL.iter().filter(move |example| example.node == node)
}

/// Returns the examples in which a path is written, those of its first node first.
pub fn examples_with(path: &str) -> impl Iterator<Item = &'static Example> {
    let first = path.split('.').next().unwrap_or(path);
    let has = move |example: &&Example| example.paths.iter().any(|written| written == path);
    let own = ALL.iter().filter(move |example| example.node == first);
    let others = ALL.iter().filter(move |example| example.node != first);
    own.chain(others).filter(has)
}

impl Example {
    fn parse(text: &'static str) -> Option<Self> {
        let document = KdlDocument::parse_v2(text).ok()?;
        let node = document.nodes().first()?.name().value().to_owned();
        let mut paths = Vec::new();
        document.nodes().iter().for_each(|node| add_paths(node, "", &mut paths));
        Some(Self { node, text, paths })
    }

    /// Returns it as a block of Markdown.
    pub fn in_markdown(&self) -> String {
        format!("```kdl\n{}\n```", self.text)
    }
}

fn add_paths(node: &KdlNode, above: &str, paths: &mut Vec<String>) {
    let name = node.name().value();
    // An `allow` is the same in every node.
    let path = if name == "allow" { name.to_owned() } else { format!("{above}{name}") };
    let properties = node.entries().iter().filter_map(|entry| entry.name());
    paths.extend(properties.map(|key| format!("{path}.{}", key.value())));
    let inside =
        if above.is_empty() && matches!(name, "job" | "env") { String::new() } else { format!("{path}.") };
    for child in node.children().iter().flat_map(|block| block.nodes()) {
        add_paths(child, &inside, paths);
    }
    paths.push(path);
}
