//! What a node, a property or a placeholder means: the text of `trainc explain` and of an editor's hover.
//!
//! In: a path such as `cluster.spot`, `cluster.nodes` or `batch.micro`. Out: Markdown.

use crate::bind::{placeholder_meaning, placeholder_paths};
use trainc_syntax::cursor::top_level;
use trainc_syntax::nodes::{ALLOW, JOB_CHILDREN, engines_of};
use trainc_syntax::spec::{Arg, NodeSpec, Prop, Ty};

/// What a path of the language names.
enum Topic {
    Node(&'static NodeSpec),
    Argument(&'static NodeSpec, &'static Arg),
    Property(&'static Prop),
}

/// Describes what a path names, in the language or among the placeholders, in Markdown.
pub fn describe(path: &str) -> Option<String> {
    let dashed = path.replace('_', "-");
    let topic = find_topic(&dashed).map(|topic| match topic {
        Topic::Node(spec) => node(spec),
        Topic::Argument(spec, arg) => {
            format!("`{}` {}: {}\n\n{}", spec.name, arg.name, arg.ty.describe_expected(), spec.doc)
        }
        Topic::Property(prop) => property(prop),
    });
    let placeholder = path.replace('-', "_");
    let value =
        placeholder_meaning(&placeholder).map(|meaning| format!("`{{{{ {placeholder} }}}}`: {meaning}"));
    let parts: Vec<String> = [topic, value].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// Returns all paths that [`describe`] knows, sorted.
pub fn paths() -> Vec<String> {
    let mut out: Vec<String> = placeholder_paths().map(str::to_owned).collect();
    for spec in roots() {
        add_paths(spec, "", &mut out);
    }
    out.sort();
    out.dedup();
    out
}

/// Returns the first nodes of paths: those of the top level, and those in a job.
fn roots() -> impl Iterator<Item = &'static NodeSpec> {
    top_level().into_iter().chain(JOB_CHILDREN.iter().copied()).chain([&ALLOW])
}

fn add_paths(spec: &'static NodeSpec, above: &str, out: &mut Vec<String>) {
    let path = format!("{above}{}", spec.name);
    let below = format!("{path}.");
    out.push(path);
    // The nodes in a job and in an environment are roots themselves.
    if !above.is_empty() || !top_level().iter().any(|top| top.name == spec.name) {
        spec.children.iter().for_each(|child| add_paths(child, &below, out));
    }
    out.extend(spec.props.iter().map(|prop| format!("{below}{}", prop.name)));
}

fn find_topic(path: &str) -> Option<Topic> {
    let mut names = path.split('.');
    let first = names.next()?;
    let mut spec = roots().find(|spec| spec.name == first)?;
    while let Some(name) = names.next() {
        if let Some(child) = spec.child(name) {
            spec = child;
            continue;
        }
        let topic = spec.prop(name).map(Topic::Property);
        let argument = || Some(Topic::Argument(spec, spec.args.iter().find(|arg| arg.name == name)?));
        return topic.or_else(argument).filter(|_| names.next().is_none());
    }
    Some(Topic::Node(spec))
}

/// Renders the documentation of a node.
pub fn node(spec: &NodeSpec) -> String {
    let mut head = spec.name.to_owned();
    for arg in spec.args {
        let many = if arg.many { "…" } else { "" };
        head.push_str(&if arg.required {
            format!(" <{}>{many}", arg.name)
        } else {
            format!(" [{}]", arg.name)
        });
    }
    for prop in spec.props {
        head.push_str(&if prop.required { format!(" {}=", prop.name) } else { format!(" [{}=]", prop.name) });
    }
    if !spec.children.is_empty() || spec.free_children {
        head.push_str(" { … }");
    }
    let mut out = format!("```kdl\n{head}\n```\n\n{}\n", spec.doc);
    for arg in spec.args {
        out.push_str(&format!("\n- {}: {}", arg.name, arg.ty.describe_expected()));
    }
    for prop in spec.props {
        out.push_str(&format!("\n- {}", property(prop).replace("\n\n", ": ")));
    }
    if spec.name != "env" {
        for child in spec.children {
            out.push_str(&format!("\n- `{}`: {}", child.name, child.doc));
        }
    }
    if let Some(engines) = engines_of(spec) {
        out.push_str(&format!("\n\nengines: {}", engines.join(", ")));
    }
    out.trim_end().to_owned()
}

/// Renders the documentation of properties of any name.
pub fn free_property(spec: &NodeSpec, key: &str) -> Option<String> {
    Some(format!("`{key}=`: {}\n\n{}", spec.free_props.map(Ty::describe_expected)?, spec.doc))
}

fn property(prop: &Prop) -> String {
    format!("`{}=` {}\n\n{}", prop.name, prop.ty.describe_expected(), prop.doc)
}

#[cfg(test)]
mod tests {
    use super::{describe, paths};

    #[test]
    fn every_path_is_described() {
        for path in paths() {
            assert!(describe(&path).is_some_and(|text| !text.trim().is_empty()), "{path}");
        }
        assert!(describe("cluster.spot").unwrap().contains("max-wait"));
        // A property whose value a placeholder has.
        let nodes = describe("cluster.nodes").unwrap();
        assert!(nodes.starts_with("`nodes=`") && nodes.contains("`{{ cluster.nodes }}`"), "{nodes}");
        assert_eq!(describe("train.micro_batch"), describe("train.micro-batch"));
        assert_eq!(describe("cluster.banana"), None);
        assert_eq!(describe("cluster.nodes.more"), None);
        assert_eq!(describe(""), None);
    }
}
