//! From a KDL document to [`ast`]: every node, argument and property against the language's tables.
//!
//! Unknown names, duplicates, wrong types and units are all reported; what is wrong is left out or marked
//! [`ast::Value::Bad`], and the rest goes on.

use super::ast::{Duplicate, Node, Value};
use super::characters::is_disallowed;
use super::codes::{T0120, T0122, T0123, T0128, T0131};
use super::document;
use super::nodes;
use super::property::owner_of;
use super::required_values::example;
use super::spec::{NodeSpec, Prop, Repeat, Ty};
use super::suggestions::{
    add_missing, homes_of, is_property, left_out, other_spelling, parents_of, put_under,
};
use super::value::typed;
use kdl::{KdlEntry, KdlNode, KdlValue};
use std::collections::BTreeMap;
use trainc_diag::source::{SourceId, Span, Spanned};
use trainc_diag::text;
use trainc_diag::{Diagnostic, Problems};

/// After so many mistakes of one file the rest is only counted: the file is most likely no manifest.
pub(super) const MOST_PROBLEMS: usize = 300;

pub(super) struct Reader<'a> {
    pub(super) source: SourceId,
    pub(super) text: &'a str,
    pub(super) problems: &'a mut Problems,
    /// Nodes that stand elsewhere than they belong, with the name of the parent they belong to: reported once,
    /// and read on as if they stood there, so that nothing is said to be missing.
    pub(super) strays: Vec<(&'static str, Node)>,
    /// Mistakes so far.
    pub(super) heard: usize,
}

impl Reader<'_> {
    pub(super) fn bring_home(&mut self, list: &mut [Node]) {
        for (parent, node) in std::mem::take(&mut self.strays) {
            let mut node = Some(node);
            put_under(list, parent, &mut node);
            // The parent it belongs to may be missing with it, and where it has no values of its own, that says all of it.
            if let (Some(node), [job]) = (node, &mut *list)
                && let Some(spec) = job.spec.and_then(|spec| spec.child(parent))
                && spec.args.is_empty()
                && !spec.props.iter().any(|prop| prop.required)
            {
                job.children.push(Node::around(spec, node));
            }
        }
    }

    pub(super) fn push(&mut self, diagnostic: Diagnostic) {
        self.heard += 1;
        self.problems.push(diagnostic);
    }

    pub(super) fn span(&self, span: miette::SourceSpan) -> Span {
        Span::new(self.source, span.offset(), span.offset() + span.len())
    }

    pub(super) fn value_span(&self, entry: &KdlEntry) -> Span {
        document::value_span(self.source, entry)
    }

    pub(super) fn node(&mut self, node: &KdlNode, spec: &'static NodeSpec) -> Node {
        let name = Spanned::new(node.name().value().to_owned(), self.span(node.name().span()));
        if let Some(ty) = node.ty() {
            let span = self.span(ty.span());
            self.push(
                Diagnostic::new(
                    &T0131,
                    span,
                    format!("type annotation `({})`; the language has none", ty.value()),
                )
                .help("remove it; every place knows its type"),
            );
        }
        let mut read = Node {
            spec: Some(spec),
            name,
            span: self.span(node.span()),
            also: Vec::new(),
            duplicates: Vec::new(),
            args: Vec::new(),
            props: Vec::new(),
            children: Vec::new(),
        };
        let mut surplus = false;
        let mut seen: BTreeMap<String, Span> = BTreeMap::new();
        let mut entries = node.entries().iter().peekable();
        while let Some(entry) = entries.next() {
            self.annotation(entry);
            match entry.name() {
                None => match self.lacks_equals(entry, entries.peek().copied(), spec, &mut read, &mut seen) {
                    0 => surplus |= !self.argument(node, entry, spec, &mut read),
                    1 => {}
                    _ => {
                        entries.next();
                    }
                },
                Some(key) => {
                    let key = Spanned::new(key.value().to_owned(), self.span(key.span()));
                    surplus |= !self.property(entry, key, spec, &mut read, &mut seen);
                }
            }
        }
        if let Some(children) = node.children() {
            let mut list: Vec<&KdlNode> = children.nodes().iter().collect();
            if spec.free_children {
                read.children = self.free_children(&list);
            } else {
                list.retain(|child| !self.property_as_child(child, spec, &mut read, &mut seen));
                let from_properties = std::mem::take(&mut read.children);
                read.children = self.children(&list, spec.children, &format!("in `{}`", spec.name));
                for child in from_properties {
                    add_missing(&mut read.children, child);
                }
            }
        }
        if node.entries().iter().any(document::is_open) {
            surplus = true;
            let at = read.name.span;
            let required = spec.args.iter().filter(|arg| arg.required).count();
            while read.args.len() < required {
                read.args.push(Spanned::new(Value::Bad, at));
            }
        }
        if surplus {
            // What stands there without a name was probably meant for what is now missing.
            for prop in spec.props.iter().filter(|prop| prop.required) {
                if !read.props.iter().any(|(name, _)| name.value == prop.name) {
                    let at = read.name.span;
                    read.props.push((Spanned::new(prop.name.to_owned(), at), Spanned::new(Value::Bad, at)));
                }
            }
        }
        read
    }

    pub(super) fn annotation(&mut self, entry: &KdlEntry) {
        if let Some(ty) = document::type_tag(entry) {
            let span = self.span(ty.span());
            self.push(
                Diagnostic::new(
                    &T0131,
                    span,
                    format!("type annotation `({})`; the language has none", ty.value()),
                )
                .help("remove it; every place knows its type"),
            );
        }
    }

    /// Reads an argument; tells whether the node takes it.
    fn argument(
        &mut self,
        node: &KdlNode,
        entry: &KdlEntry,
        spec: &'static NodeSpec,
        read: &mut Node,
    ) -> bool {
        let span = self.value_span(entry);
        let Some(arg) = spec.arg(read.args.len()) else {
            let shown = self.text.get(span.start as usize..span.end as usize).unwrap_or("").to_owned();
            let takes = match spec.args {
                [] if spec.props.is_empty() => "takes no argument".to_owned(),
                [] => format!(
                    "takes properties only: {}",
                    text::backtick_list(
                        &spec.props.iter().map(|p| format!("{}=", p.name)).collect::<Vec<_>>(),
                        "and"
                    )
                ),
                args => format!("takes {}", text::count(args.len() as u64, "argument")),
            };
            // The one property that must be there, or the only one that the value fits.
            let fits: Vec<&str> = spec
                .props
                .iter()
                .filter(|prop| typed(entry.value(), prop.ty).is_ok() && node.entry(prop.name).is_none())
                .map(|prop| prop.name)
                .collect();
            let lacking: Vec<&Prop> =
                spec.props.iter().filter(|prop| prop.required && node.entry(prop.name).is_none()).collect();
            let switch = entry.value().as_string().and_then(|word| spec.prop(word));
            let switch = switch.filter(|prop| prop.ty == Ty::Bool && node.entry(prop.name).is_none());
            // Read on as what the help says.
            let mut mean = |name: &str, ty: Ty| {
                let value = typed(entry.value(), ty).ok().filter(|_| node.entry(name).is_none());
                if let Some(value) = value.filter(|_| !read.props.iter().any(|(key, _)| key.value == name)) {
                    read.props.push((Spanned::new(name.to_owned(), span), Spanned::new(value, span)));
                }
            };
            let diagnostic =
                Diagnostic::new(&T0128, span, format!("surplus argument {shown}; `{}` {takes}", spec.name));
            let told = entry.value().as_string().and_then(told_by_shape).and_then(|name| spec.prop(name));
            let told = told.filter(|prop| node.entry(prop.name).is_none());
            self.push(match (lacking.as_slice(), fits.as_slice()) {
                _ if told.is_some() => {
                    let prop = told.map_or(("", Ty::Text), |prop| (prop.name, prop.ty));
                    mean(prop.0, prop.1);
                    let joined = format!("{}={shown}", prop.0);
                    diagnostic.help(format!("write `{joined}`")).fix(span, joined)
                }
                _ if switch.is_some() => {
                    let name = switch.map_or("", |prop| prop.name);
                    let on = (Spanned::new(name.to_owned(), span), Spanned::new(Value::Bool(true), span));
                    read.props.push(on);
                    diagnostic.help(format!("write `{name}=#true`")).fix(span, format!("{name}=#true"))
                }
                ([only], _) if typed(entry.value(), only.ty).is_err() && spec.args.is_empty() => {
                    diagnostic.help(format!("write `{}={}`", only.name, example(only.ty)))
                }
                ([only], _) if typed(entry.value(), only.ty).is_ok() => {
                    mean(only.name, only.ty);
                    let joined = format!("{}={shown}", only.name);
                    diagnostic.help(format!("write `{joined}`")).fix(span, joined)
                }
                // A text fits a property for texts, whatever it is for: a node with arguments has more likely one too
                // many of those.
                ([], [only]) if spec.args.is_empty() || !matches!(entry.value(), KdlValue::String(_)) => {
                    if let Some(prop) = spec.prop(only) {
                        mean(prop.name, prop.ty);
                    }
                    diagnostic.help(format!("write `{only}={shown}`")).fix(span, format!("{only}={shown}"))
                }
                // An ARN goes where one is asked for by name.
                _ if spec.prop("arn").is_some() && shown.starts_with("\"arn:") && spec.args.is_empty() => {
                    mean("arn", Ty::Text);
                    diagnostic.help(format!("write `arn={shown}`")).fix(span, format!("arn={shown}"))
                }
                // A text behind the node's own name is more likely its name than anything else.
                _ if spec.args.is_empty()
                    && spec.prop("name").is_some_and(|prop| prop.ty == Ty::Text)
                    && fits.contains(&"name") =>
                {
                    mean("name", Ty::Text);
                    diagnostic.help(format!("write `name={shown}`")).fix(span, format!("name={shown}"))
                }
                _ if spec.args.is_empty() => diagnostic,
                // A leaf that may stand several times, as `extends`.
                _ if spec.repeat == Repeat::ByFirst && spec.args.len() == 1 && spec.children.is_empty() => {
                    diagnostic.help(format!("write `{} {shown}` on a line of its own", spec.name))
                }
                _ => diagnostic.help("remove it"),
            });
            return false;
        };
        let value = self.value(entry, span, arg.ty, spec.name);
        read.args.push(Spanned::new(value, span));
        true
    }

    pub(super) fn children(
        &mut self,
        list: &[&KdlNode],
        specs: &'static [&'static NodeSpec],
        place: &str,
    ) -> Vec<Node> {
        let mut out: Vec<Node> = Vec::new();
        let mut meant: Vec<Node> = Vec::new();
        let mut astray = Vec::new();
        let mut index: BTreeMap<(&str, String), usize> = BTreeMap::new();
        for node in list {
            let written = node.name().value();
            let stem = without_colon(node, |stem| specs.iter().any(|spec| spec.name == stem));
            let name = stem.unwrap_or(written);
            if stem.is_some() {
                let span = self.span(node.name().span());
                self.push(
                    Diagnostic::new(&T0120, span, format!("unknown node `{written}` {place}"))
                        .help(format!("write `{name}` without the colon"))
                        .fix(span, name),
                );
            }
            let spec = if name == "allow" {
                Some(&nodes::ALLOW)
            } else {
                specs.iter().copied().find(|spec| spec.name == name)
            };
            let Some(spec) = spec else {
                if self.heard > MOST_PROBLEMS {
                    // It is only counted: nothing is looked up for it.
                    let span = self.span(node.name().span());
                    self.push(Diagnostic::new(&T0120, span, String::new()));
                    continue;
                }
                let known: Vec<&str> = specs.iter().map(|spec| spec.name).collect();
                if let Some(owner) = owner_of(name, &known, specs) {
                    astray.push(self.property_astray(node, name, owner, place));
                    continue;
                }
                let diagnostic = self.unknown_node(node, name, &known, place);
                self.push(diagnostic);
                meant.extend(self.node_as_meant(node, name, specs));
                continue;
            };
            let mut read = self.node(node, spec);
            name.clone_into(&mut read.name.value);
            let key = match spec.repeat {
                Repeat::Many | Repeat::Once => String::new(),
                Repeat::ByFirst | Repeat::ByName => {
                    let Some(key) = read.key().map(str::to_owned) else {
                        // Without a key it is like no other.
                        out.push(read);
                        continue;
                    };
                    key
                }
            };
            let twin = index.get(&(spec.name, key.clone())).and_then(|at: &usize| out.get_mut(*at));
            let Some(first) = twin else {
                index.insert((spec.name, key), out.len());
                out.push(read);
                continue;
            };
            if spec.repeat == Repeat::Many {
                self.join(first, read);
                continue;
            }
            let shown = read.key().map_or_else(|| name.to_owned(), |key| format!("{name} \"{key}\""));
            self.push(
                Diagnostic::new(&T0122, read.name.span, format!("`{shown}` stands twice {place}"))
                    .primary_label("the second")
                    .label(first.name.span, "the first")
                    .help("keep one of them; a later layer (`env`, `--set`) may change it"),
            );
            first.add_duplicate(Duplicate::Node(read));
        }
        for node in meant {
            add_missing(&mut out, node);
        }
        for property in astray {
            property.put(&mut out);
        }
        out
    }

    /// Nodes that say one thing in several lines (`environment`) are one node.
    fn join(&mut self, first: &mut Node, second: Node) {
        let seen: BTreeMap<String, Span> =
            first.props.iter().map(|(key, _)| (key.value.clone(), key.span)).collect();
        for (key, value) in second.props {
            if let Some(&other) = seen.get(&key.value) {
                self.push(
                    Diagnostic::new(&T0123, key.span, format!("`{}` is given twice", key.value))
                        .label(other, "the first")
                        .help("keep one of them; a later layer (`env`, `--set`) may change it"),
                );
                first.add_duplicate(Duplicate::Property(key, value));
            } else {
                first.props.push((key, value));
            }
        }
        first.children.extend(second.children);
        for twin in second.duplicates {
            first.add_duplicate(twin);
        }
    }

    /// Reads on a node whose name was reported, as what it was probably meant to be.
    fn node_as_meant(
        &mut self,
        node: &KdlNode,
        name: &str,
        specs: &'static [&'static NodeSpec],
    ) -> Option<Node> {
        let spec_of = |wanted: &str| specs.iter().copied().find(|spec| spec.name == wanted);
        if let Some(spec) = other_spelling(name).and_then(|(wanted, _)| spec_of(wanted)) {
            // Another tool's node may have another shape: what does not fit is no second mistake.
            let mut unheard = Problems::default();
            let mut reader = Reader {
                source: self.source,
                text: self.text,
                problems: &mut unheard,
                strays: Vec::new(),
                heard: 0,
            };
            let mut read = reader.node(node, spec);
            spec.name.clone_into(&mut read.name.value);
            if is_property(name) {
                // Its value is the property's, and says nothing of the node's own.
                read.args.clear();
            }
            let required = spec.args.iter().filter(|arg| arg.required).count().max(1).min(spec.args.len());
            while read.args.len() < required {
                let at = read.name.span;
                read.args.push(Spanned::new(Value::Bad, at));
            }
            return Some(read);
        }
        if let Some(spec) = text::nearest(name, specs.iter().map(|spec| spec.name)).and_then(spec_of) {
            let mut read = self.node(node, spec);
            spec.name.clone_into(&mut read.name.value);
            return Some(read);
        }
        if let [(parent, spec)] = parents_of(name).as_slice() {
            let read = self.node(node, spec);
            self.strays.push((parent, read));
        }
        None
    }

    pub(super) fn unknown_node(&self, node: &KdlNode, name: &str, known: &[&str], place: &str) -> Diagnostic {
        let span = self.span(node.name().span());
        let diagnostic = Diagnostic::new(&T0120, span, format!("unknown node `{name}` {place}"));
        if let Some((wanted, why)) = other_spelling(name).filter(|(wanted, _)| known.contains(wanted)) {
            return diagnostic.help(format!("write `{wanted}` {why}"));
        }
        if let Some(near) = text::nearest(name, known.iter().copied()) {
            return diagnostic.help(format!("did you mean `{near}`?")).fix(span, near);
        }
        if name == nodes::EXTENDS.name {
            return diagnostic.help("move it to the top of the file, beside `job`");
        }
        if name == nodes::ENV.name && node.children().is_some() {
            return diagnostic.help(
                "move it to the top of the file, beside `job`; variables of the container are `environment` in `program`",
            );
        }
        if let Some((wanted, why)) = other_spelling(name) {
            let homes = homes_of(wanted);
            if !homes.is_empty() {
                return diagnostic
                    .help(format!("write `{wanted}` {why}, in {}", text::backtick_list(&homes, "or")));
            }
        }
        let homes = homes_of(name);
        if !homes.is_empty() {
            return diagnostic.help(format!("`{name}` belongs in {}", text::backtick_list(&homes, "or")));
        }
        if known.is_empty() {
            diagnostic.note("nothing may stand there")
        } else if known.len() <= 14 {
            diagnostic.note(format!("known here: {}", known.join(", ")))
        } else {
            diagnostic.help("`trainc schema manifest` lists what may stand here")
        }
    }

    /// Reads a value by the type of its place.
    /// Reads a value of the node or property `of`.
    pub(super) fn value(&mut self, entry: &KdlEntry, span: Span, ty: Ty, of: &str) -> Value {
        let written = self.text.get(span.start as usize..span.end as usize).unwrap_or("");
        match typed(entry.value(), ty) {
            // The characters were reported; whatever the text names with them is no second mistake.
            Ok(_) if written.contains(is_disallowed) || document::is_open(entry) => Value::Bad,
            Ok(value) => value,
            // Written wrong and reported: what was meant does not fit either, and that is no second mistake.
            Err(_) if document::is_mended(entry) => Value::Bad,
            Err(fault) => {
                let shown = self.text.get(span.start as usize..span.end as usize).unwrap_or("").to_owned();
                let diagnostic = fault.diagnostic(ty, &shown, span, &format!("`{of}`"));
                let words = matches!(ty, Ty::Word(_));
                self.push(match left_out(&shown).filter(|_| words && of == "type") {
                    Some(why) => diagnostic.note(why),
                    None => diagnostic,
                });
                Value::Bad
            }
        }
    }
}

/// The property that a text is for by its form alone: an address in S3, a version.
fn told_by_shape(text: &str) -> Option<&'static str> {
    let is_version = text.contains('.') && text.split('.').all(|part| part.parse::<u16>().is_ok());
    if text.starts_with("s3://") {
        Some("s3")
    } else if is_version {
        Some("version")
    } else {
        None
    }
}

/// The name of a node without the colon that YAML wants, if that leaves a name that is known.
fn without_colon(node: &KdlNode, is_known: impl Fn(&str) -> bool) -> Option<&str> {
    node.name().value().strip_suffix(':').filter(|stem| is_known(stem))
}
