//! What a node, a property or a placeholder means: the text of `trainc explain`, of an editor's hover and of
//! docs/language.md.
//!
//! In: a path such as `cluster.spot`, `cluster.nodes` or `batch.micro`. Out: Markdown.

mod codes;
mod examples;
mod facts;

pub use codes::{codes_at, nodes_with_codes};
pub use examples::{Example, examples_of, examples_with};
pub use trainc_language::DefaultValue;

use crate::bind::{placeholder_example, placeholder_meaning, placeholder_paths};
use facts::{Detail, Value};
use std::fmt::Write as _;
use trainc_diag::{Code, find, text};
use trainc_syntax::cursor::top_level;
use trainc_syntax::nodes::{ALLOW, JOB, JOB_CHILDREN, engines_of};
use trainc_syntax::spec::{NodeSpec, Ty};

/// What a path of the language names.
enum Topic {
    Node(Place),
    Value(Value),
}

/// A node with its path and the node that it is in.
#[derive(Clone)]
pub struct Place {
    /// Its path from the children of the job on: `cluster.spot`.
    pub path: String,
    /// Its table.
    pub spec: &'static NodeSpec,
    /// The table of the node that it is in.
    parent: Option<&'static NodeSpec>,
}

impl Place {
    fn root(spec: &'static NodeSpec, parent: Option<&'static NodeSpec>) -> Self {
        Self { path: spec.name.to_owned(), spec, parent }
    }

    fn child(&self, spec: &'static NodeSpec) -> Self {
        Self { path: format!("{}.{}", self.path, spec.name), spec, parent: Some(self.spec) }
    }

    /// Returns its children; those of a layer and of a job are places of their own.
    pub fn children(&self) -> impl Iterator<Item = Self> + use<> {
        let is_own = self.parent.is_some() || !top_level().iter().any(|top| top.name == self.spec.name);
        let parent = self.clone();
        self.spec.children.iter().filter(move |_| is_own).map(move |child| parent.child(child))
    }

    /// Returns whether it is a value, perhaps with properties, and no group of values: `volume "500GiB"`.
    pub fn is_value(&self) -> bool {
        self.parent.is_some_and(|parent| facts::declares_child(parent, self.spec))
            || (self.spec.children.is_empty() && self.spec.props.is_empty() && self.spec.args.len() == 1)
    }
}

/// How references to other places are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// As names, for a terminal and an editor.
    Names,
    /// As links within docs/language.md, from which the pages of codes are found.
    Links,
}

/// Describes what a path names, in the language or among the placeholders, in Markdown. `codes` are those
/// whose names are shown.
pub fn describe(path: &str, codes: &[&Code]) -> Option<String> {
    // A placeholder may be given as it is written.
    let path = path.trim_matches(['{', '}', ' ']);
    let dashed = path.replace('_', "-");
    let topic = find_topic(&dashed).map(|topic| match topic {
        Topic::Node(place) => describe_node(&place, codes),
        Topic::Value(value) => describe_value(&value, "", codes),
    });
    let placeholder = path.replace('-', "_");
    let value = placeholder_meaning(&placeholder).map(|meaning| {
        let example = placeholder_example(&placeholder)
            .map_or_else(String::new, |value| format!("; `{value}` in the starter example"));
        format!("`{{{{ {placeholder} }}}}`: {meaning}{example}")
    });
    let parts: Vec<String> = [topic, value].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// Returns all paths that [`describe`] knows, sorted.
pub fn paths() -> Vec<String> {
    let mut out: Vec<String> = placeholder_paths().map(str::to_owned).collect();
    for place in all_places() {
        out.extend(place.spec.props.iter().map(|prop| format!("{}.{}", place.path, prop.name)));
        out.push(place.path);
    }
    out.sort();
    out.dedup();
    out
}

/// Returns the first nodes of paths: those of the top level, and those in a job.
pub fn roots() -> impl Iterator<Item = Place> {
    let of_job = JOB_CHILDREN.iter().copied().filter(|spec| spec.name != ALLOW.name);
    let of_job = of_job.map(|spec| Place::root(spec, Some(&JOB)));
    let top_level = top_level().into_iter().chain([&ALLOW]).map(|spec| Place::root(spec, None));
    top_level.chain(of_job)
}

/// Returns all nodes, each before those in it.
pub fn all_places() -> Vec<Place> {
    fn add(place: Place, out: &mut Vec<Place>) {
        let children: Vec<Place> = place.children().collect();
        out.push(place);
        for child in children {
            add(child, out);
        }
    }
    let mut out = Vec::new();
    roots().for_each(|root| add(root, &mut out));
    out
}

/// A value that the language declares: its path, with the names of arguments, and what holds without it.
pub struct DeclaredValue {
    /// Its path: `cluster.nodes`, `cluster.volume`, `channel.name`.
    pub path: String,
    /// Whether some layer must write it.
    pub is_required: bool,
    /// What holds where no layer writes it.
    pub default: DefaultValue,
    /// Its type.
    pub ty: Ty,
    /// The member of the request that it is sent as.
    pub member: Option<&'static str>,
    /// Whether the reference says what it reaches.
    pub is_reaching: bool,
}

/// Returns all values of the language.
pub fn declared_values() -> Vec<DeclaredValue> {
    let values = all_places().into_iter().flat_map(|place| facts::values(&place));
    values
        .map(|value| DeclaredValue {
            is_required: value.is_required(),
            default: value.default(),
            ty: value.ty,
            member: value.declared.and_then(|it| it.member).map(|it| it.path),
            is_reaching: !value.reached(Detail::Full).is_empty(),
            path: value.path,
        })
        .collect()
}

fn find_topic(path: &str) -> Option<Topic> {
    let mut names = path.split('.');
    let first = names.next()?;
    let mut place = roots().find(|root| root.spec.name == first)?;
    while let Some(name) = names.next() {
        if let Some(child) = place.children().find(|child| child.spec.name == name) {
            place = child;
            continue;
        }
        let value = facts::values(&place).into_iter().find(|value| value.name == name)?;
        return names.next().is_none().then_some(Topic::Value(value));
    }
    Some(Topic::Node(place))
}

/// Describes a node in Markdown: what it is, an example, and each of its values.
fn describe_node(place: &Place, codes: &[&Code]) -> String {
    let spec = place.spec;
    if place.is_value() {
        let mut values = facts::values(place).into_iter();
        if let Some(own) = values.next() {
            let properties: String = values.map(|value| item(&value, Style::Names, "")).collect();
            return describe_value(&own, &properties, codes);
        }
    }
    let mut out = format!("`{}`: {}", place.path, spec.doc);
    if let Some(engines) = engines_of(spec) {
        let _ = write!(out, "\n\nEngines: {}", engines.join(", "));
    }
    if let Some(example) = examples_with(&place.path).next() {
        let _ = write!(out, "\n\n{}", example.in_markdown());
    }
    let items: String = items(place, Style::Names).into_iter().map(|item| item.text).collect();
    if !items.is_empty() {
        let _ = write!(out, "\n\n{}", items.trim_end());
    }
    out.push_str(&codes_line(codes_at(&place.path), codes));
    out
}

/// A value of a node or a node in it, as an item of a list with those of its properties below.
pub struct Item {
    /// The engine, if only one has it.
    pub engine: Option<&'static str>,
    /// The lines of Markdown.
    pub text: String,
}

/// Describes the values of a node and the nodes in it.
pub fn items(place: &Place, style: Style) -> Vec<Item> {
    let values = facts::values(place).into_iter();
    let mut out: Vec<Item> =
        values.map(|value| Item { engine: None, text: item(&value, style, "") }).collect();
    for child in place.children() {
        let engine = match child.spec.engines {
            Some([only]) => Some(*only),
            _ => None,
        };
        let text = if child.is_value() {
            let mut values = facts::values(&child).into_iter();
            let own = values.next().map(|value| item(&value.of_child(&child), style, ""));
            own.into_iter().chain(values.map(|value| item(&value, style, "  "))).collect()
        } else {
            let name = match style {
                Style::Names => format!("`{}`", child.spec.name),
                Style::Links => format!("[`{}`](#{})", child.spec.name, child.path),
            };
            format!("- {name}: {}\n", child.spec.doc)
        };
        out.push(Item { engine, text });
    }
    out
}

/// Describes a value on one line of a list.
fn item(value: &Value, style: Style, indent: &str) -> String {
    let anchor = match style {
        Style::Names => String::new(),
        Style::Links => format!("<a id=\"{}\"></a>", value.path),
    };
    let mut out = format!("{indent}- {anchor}`{}`: {}.", value.label, value.doc.trim_end_matches('.'));
    let _ = write!(out, " {}.", text::capitalized(&facts::short_type(value.ty)));
    if let Some(default) = value.default_in_words() {
        let _ = write!(out, " {}.", text::capitalized(&default));
    }
    // The words of those that only one engine has begin with its name.
    if let Some(engines) = value.engines.filter(|engines| engines.len() > 1 && !value.label.ends_with('=')) {
        let _ = write!(out, " Engines: {}.", engines.join(", "));
    }
    let reached = value.reached(Detail::Short);
    if !reached.is_empty() {
        let _ = write!(out, " → {}.", reached.join("; "));
    }
    if style == Style::Links {
        let linked: Vec<String> = codes_at(&value.path).iter().map(|id| format!("[{id}]")).collect();
        if !linked.is_empty() {
            let _ = write!(out, " {}", linked.join(" "));
        }
    }
    out.push('\n');
    out
}

/// Describes a value in Markdown, with all that is known of it and the items of its properties.
fn describe_value(value: &Value, properties: &str, codes: &[&Code]) -> String {
    let mut out = format!("`{}`: {}\n", value.path, value.doc);
    let _ = write!(out, "\n- type: {}", value.ty.describe_expected());
    if let Some(default) = value.default_in_words() {
        let _ = write!(out, "\n- {default}");
    }
    if let Some(engines) = value.engines {
        let _ = write!(out, "\n- engines: {}", engines.join(", "));
    }
    let reached = value.reached(Detail::Full);
    if !reached.is_empty() {
        let _ = write!(out, "\n- reaches: {}", reached.join("; "));
    }
    if !properties.is_empty() {
        let _ = write!(out, "\n{}", properties.trim_end());
    }
    // An argument is in the examples of its node.
    let node = value.path.rsplit_once('.').map_or("", |(node, _)| node);
    if let Some(example) = examples_with(&value.path).chain(examples_with(node)).next() {
        let _ = write!(out, "\n\n{}", example.in_markdown());
    }
    out.push_str(&codes_line(codes_at(&value.path), codes));
    out
}

/// Lists codes with their names.
fn codes_line(ids: &[&str], codes: &[&Code]) -> String {
    let named: Vec<String> = ids
        .iter()
        .map(|id| find(codes, id).map_or_else(|| (*id).to_owned(), |code| format!("{id} {}", code.name)))
        .collect();
    if named.is_empty() { String::new() } else { format!("\n\nProblems: {}", named.join(", ")) }
}

/// Renders the documentation of properties of any name.
pub fn free_property(spec: &NodeSpec, key: &str) -> Option<String> {
    Some(format!("`{key}=`: {}\n\n{}", spec.free_props.map(Ty::describe_expected)?, spec.doc))
}

#[cfg(test)]
mod tests {
    use super::{describe, paths};

    #[test]
    fn every_path_is_described() {
        for path in paths() {
            assert!(describe(&path, &[]).is_some_and(|text| !text.trim().is_empty()), "{path}");
        }
        assert!(describe("cluster.spot", &[]).unwrap().contains("max-wait"));
        // A property whose value a placeholder has.
        let nodes = describe("cluster.nodes", &[]).unwrap();
        assert!(nodes.starts_with("`cluster.nodes`") && nodes.contains("`{{ cluster.nodes }}`"), "{nodes}");
        assert!(
            nodes.contains("`ResourceConfig.InstanceCount`") && nodes.contains("- default: `1`"),
            "{nodes}"
        );
        assert_eq!(describe("train.micro_batch", &[]), describe("train.micro-batch", &[]));
        assert_eq!(describe("cluster.banana", &[]), None);
        assert_eq!(describe("cluster.nodes.more", &[]), None);
        assert_eq!(describe("", &[]), None);
    }
}
