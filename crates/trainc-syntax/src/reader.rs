//! From a KDL document to [`ast`]: checks every node, argument and property against the language's tables.
//!
//! Reports all unknown names, duplicates, wrong types and units; what is wrong is left out or marked
//! [`ast::Value::Bad`].

use super::ast::{Duplicate, Node, Value};
use super::characters::is_disallowed;
use super::codes::{T0120, T0122, T0123, T0128, T0131};
use super::document;
use super::nodes;
use super::property::owner_of;
use super::required_values::example;
use super::spec::{NodeSpec, Prop, Repeat, Ty};
use super::suggestions::{
    add_missing, insert_below, is_property_alias, node_alias, other_name, parent_names, parents_with_spec,
    plain_name, unsupported_setting,
};
use super::value::parse_value;
use kdl::{KdlEntry, KdlNode, KdlValue};
use std::collections::BTreeMap;
use trainc_diag::source::{SourceId, Span, Spanned};
use trainc_diag::text;
use trainc_diag::{Diagnostic, Problems, Suggestion};

/// After this many errors in one file the rest are only counted: the file is most likely not a manifest.
pub(super) const MOST_PROBLEMS: usize = 300;

pub(super) struct Reader<'a> {
    pub(super) source: SourceId,
    pub(super) text: &'a str,
    pub(super) problems: &'a mut Problems,
    /// Nodes in the wrong place, with the name of the parent that they belong to: reported once, then read as
    /// if they were there, so that nothing is reported as missing.
    pub(super) misplaced: Vec<(&'static str, Node)>,
    /// Errors so far.
    pub(super) errors: usize,
}

impl Reader<'_> {
    /// Moves the misplaced nodes below the parents that they belong to.
    pub(super) fn relocate(&mut self, list: &mut [Node]) {
        for (parent, node) in std::mem::take(&mut self.misplaced) {
            let mut node = Some(node);
            insert_below(list, parent, &mut node);
            // Its parent may be missing too; it is added if it requires no values of its own.
            if let (Some(node), [job]) = (node, &mut *list)
                && let Some(spec) = job.spec.and_then(|spec| spec.child(parent))
                && spec.args.is_empty()
                && !spec.props.iter().any(|prop| prop.required)
            {
                job.children.push(Node::synthetic(spec, node));
            }
        }
    }

    pub(super) fn push(&mut self, diagnostic: Diagnostic) {
        self.errors += 1;
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
                Diagnostic::new(&T0131, span, format!("type annotation `({})` is not supported", ty.value()))
                    .help("remove it; the type of every value is fixed"),
            );
        }
        let mut read = Node {
            spec: Some(spec),
            name,
            span: self.span(node.span()),
            also: Vec::new(),
            duplicates: Vec::new(),
            removed: Vec::new(),
            args: Vec::new(),
            props: Vec::new(),
            children: Vec::new(),
        };
        let mut unexpected = false;
        let mut seen: BTreeMap<String, Span> = BTreeMap::new();
        let mut entries = node.entries().iter().peekable();
        while let Some(entry) = entries.next() {
            self.report_type_annotation(entry);
            match entry.name() {
                None => match self.property_without_equals(
                    entry,
                    entries.peek().copied(),
                    spec,
                    &mut read,
                    &mut seen,
                ) {
                    0 => unexpected |= !self.argument(node, entry, spec, &mut read),
                    1 => {}
                    _ => {
                        entries.next();
                    }
                },
                Some(key) => {
                    let key = Spanned::new(key.value().to_owned(), self.span(key.span()));
                    unexpected |= !self.property(entry, key, spec, &mut read, &mut seen);
                }
            }
        }
        if let Some(children) = node.children() {
            let mut list: Vec<&KdlNode> = children.nodes().iter().collect();
            if spec.free_children {
                let (allows, members): (Vec<_>, Vec<_>) =
                    list.iter().copied().partition(|child| child.name().value() == nodes::ALLOW.name);
                read.children = self.free_children(&members);
                read.children.extend(self.children(&allows, &[], &format!("in `{}`", spec.name)));
            } else {
                list.retain(|child| !self.property_as_child(child, spec, &mut read, &mut seen));
                let from_properties = std::mem::take(&mut read.children);
                read.children = self.children(&list, spec.children, &format!("in `{}`", spec.name));
                for child in from_properties {
                    add_missing(&mut read.children, child);
                }
            }
        }
        self.check_nulls(&mut read);
        if node.entries().iter().any(document::is_ambiguous) {
            unexpected = true;
            let at = read.name.span;
            let required = spec.args.iter().filter(|arg| arg.required).count();
            while read.args.len() < required {
                read.args.push(Spanned::new(Value::Bad, at));
            }
        }
        if unexpected {
            // The unexpected value was probably meant for what is now missing.
            for prop in spec.props.iter().filter(|prop| prop.required) {
                if !read.props.iter().any(|(name, _)| name.value == prop.name) {
                    let at = read.name.span;
                    read.props.push((Spanned::new(prop.name.to_owned(), at), Spanned::new(Value::Bad, at)));
                }
            }
        }
        read
    }

    pub(super) fn report_type_annotation(&mut self, entry: &KdlEntry) {
        if let Some(ty) = document::type_tag(entry) {
            let span = self.span(ty.span());
            self.push(
                Diagnostic::new(&T0131, span, format!("type annotation `({})` is not supported", ty.value()))
                    .help("remove it; the type of every value is fixed"),
            );
        }
    }

    /// Reads an argument; returns whether the node takes it.
    fn argument(
        &mut self,
        node: &KdlNode,
        entry: &KdlEntry,
        spec: &'static NodeSpec,
        read: &mut Node,
    ) -> bool {
        let span = self.value_span(entry);
        let is_first_null = is_null(entry) && !read.args.iter().any(|arg| arg.value == Value::Null);
        let Some(arg) = spec.arg(read.args.len()) else {
            if spec.is_layered && is_first_null {
                read.args.push(Spanned::new(Value::Null, span));
                return true;
            }
            let shown = self.text.get(span.start as usize..span.end as usize).unwrap_or("").to_owned();
            let takes = match spec.args {
                [] if spec.props.is_empty() => "takes no arguments".to_owned(),
                [] => format!(
                    "takes only properties: {}",
                    text::backtick_list(
                        &spec.props.iter().map(|p| format!("{}=", p.name)).collect::<Vec<_>>(),
                        "and"
                    )
                ),
                args => format!("takes {}", text::count(args.len() as u64, "argument")),
            };
            // The only missing required property, or the only property that the value fits.
            let fits: Vec<&str> = spec
                .props
                .iter()
                .filter(|prop| parse_value(entry.value(), prop.ty).is_ok() && node.entry(prop.name).is_none())
                .map(|prop| prop.name)
                .collect();
            let lacking: Vec<&Prop> =
                spec.props.iter().filter(|prop| prop.required && node.entry(prop.name).is_none()).collect();
            let switch = entry.value().as_string().and_then(|word| spec.prop(word));
            let switch = switch.filter(|prop| prop.ty == Ty::Bool && node.entry(prop.name).is_none());
            // The value is read as the help suggests.
            let mut assume = |name: &str, ty: Ty| {
                let value = parse_value(entry.value(), ty).ok().filter(|_| node.entry(name).is_none());
                if let Some(value) = value.filter(|_| !read.props.iter().any(|(key, _)| key.value == name)) {
                    read.props.push((Spanned::new(name.to_owned(), span), Spanned::new(value, span)));
                }
            };
            let diagnostic = Diagnostic::new(
                &T0128,
                span,
                format!("unexpected argument `{shown}`; `{}` {takes}", spec.name),
            );
            let by_form =
                entry.value().as_string().and_then(property_by_form).and_then(|name| spec.prop(name));
            let by_form = by_form.filter(|prop| node.entry(prop.name).is_none());
            self.push(match (lacking.as_slice(), fits.as_slice()) {
                _ if by_form.is_some() => {
                    let prop = by_form.map_or(("", Ty::Text), |prop| (prop.name, prop.ty));
                    assume(prop.0, prop.1);
                    let joined = format!("{}={shown}", prop.0);
                    diagnostic.help(format!("write `{joined}`")).fix(span, joined)
                }
                _ if switch.is_some() => {
                    let name = switch.map_or("", |prop| prop.name);
                    let on = (Spanned::new(name.to_owned(), span), Spanned::new(Value::Bool(true), span));
                    read.props.push(on);
                    diagnostic.help(format!("write `{name}=#true`")).fix(span, format!("{name}=#true"))
                }
                ([only], _) if parse_value(entry.value(), only.ty).is_err() && spec.args.is_empty() => {
                    diagnostic.write(format!("{}={}", only.name, example(only.ty)))
                }
                ([only], _) if parse_value(entry.value(), only.ty).is_ok() => {
                    assume(only.name, only.ty);
                    let joined = format!("{}={shown}", only.name);
                    diagnostic.help(format!("write `{joined}`")).fix(span, joined)
                }
                // A string fits any string property: on a node with arguments, one argument too many is more
                // likely.
                ([], [only]) if spec.args.is_empty() || !matches!(entry.value(), KdlValue::String(_)) => {
                    if let Some(prop) = spec.prop(only) {
                        assume(prop.name, prop.ty);
                    }
                    diagnostic.help(format!("write `{only}={shown}`")).fix(span, format!("{only}={shown}"))
                }
                _ if spec.prop("arn").is_some() && shown.starts_with("\"arn:") && spec.args.is_empty() => {
                    assume("arn", Ty::Text);
                    diagnostic.help(format!("write `arn={shown}`")).fix(span, format!("arn={shown}"))
                }
                // A string after the node's name is most likely its name.
                _ if spec.args.is_empty()
                    && spec.prop("name").is_some_and(|prop| prop.ty == Ty::Text)
                    && fits.contains(&"name") =>
                {
                    assume("name", Ty::Text);
                    diagnostic.help(format!("write `name={shown}`")).fix(span, format!("name={shown}"))
                }
                _ if spec.args.is_empty() => diagnostic,
                // A leaf that may be repeated, such as `extends`.
                _ if spec.repeat == Repeat::ByFirst && spec.args.len() == 1 && spec.children.is_empty() => {
                    diagnostic.help(format!("write `{} {shown}` on its own line", spec.name))
                }
                _ => diagnostic.remove_it(),
            });
            return false;
        };
        let value = self.layered_value(spec, entry, span, arg.ty, spec.name);
        read.args.push(Spanned::new(value, span));
        true
    }

    /// Reports each `#null` that cannot take anything away: in place of a name, in a list, or beside other
    /// values where the node takes no argument.
    fn check_nulls(&mut self, read: &mut Node) {
        let Some(spec) = read.spec.filter(|spec| spec.is_layered && read.removal().is_none()) else { return };
        let mut faults = Vec::new();
        let mut surplus = None;
        for (at, arg) in read.args.iter_mut().enumerate().filter(|(_, arg)| arg.value == Value::Null) {
            match spec.arg(at) {
                None => surplus = Some((at, arg.span)),
                Some(known) if known.many || at == 0 && spec.repeat == Repeat::ByFirst => {
                    faults.extend(invalid_null(known.ty, arg, spec.name));
                }
                Some(_) => {}
            }
        }
        for (key, value) in read.props.iter_mut().filter(|(_, value)| value.value == Value::Null) {
            if spec.repeat == Repeat::ByName && key.value == "name" {
                faults.extend(invalid_null(Ty::Plain, value, &key.value));
            }
        }
        if let Some((at, span)) = surplus {
            read.args.truncate(at);
            let name = spec.name;
            let alone = match (spec.repeat, read.key()) {
                (Repeat::ByFirst, Some(key)) => format!("{name} {key:?} #null"),
                (Repeat::ByName, Some(key)) => format!("{name} name={key:?} #null"),
                _ => format!("{name} #null"),
            };
            let message = format!("`#null` takes `{name}` away as a whole, which has other values here");
            let help =
                format!("to take the node away, write `{alone}`; to take a value away, give it `#null`");
            faults.push(Diagnostic::new(&T0128, span, message).help(help));
        }
        for fault in faults {
            self.push(fault);
        }
    }

    pub(super) fn children(
        &mut self,
        list: &[&KdlNode],
        specs: &'static [&'static NodeSpec],
        place: &str,
    ) -> Vec<Node> {
        let mut out: Vec<Node> = Vec::new();
        let mut suggested: Vec<Node> = Vec::new();
        let mut properties = Vec::new();
        let mut index: BTreeMap<(&str, String), usize> = BTreeMap::new();
        for node in list {
            let written = node.name().value();
            let stem = name_without_colon(node, |stem| specs.iter().any(|spec| spec.name == stem));
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
                if self.errors > MOST_PROBLEMS {
                    // It is only counted.
                    let span = self.span(node.name().span());
                    self.push(Diagnostic::new(&T0120, span, String::new()));
                    continue;
                }
                let known: Vec<&str> = specs.iter().map(|spec| spec.name).collect();
                if let Some(owner) = owner_of(name, &known, specs) {
                    properties.push(self.misplaced_property(node, name, owner, place));
                    continue;
                }
                let diagnostic = self.unknown_node(node, name, &known, place);
                self.push(diagnostic);
                suggested.extend(self.node_as_suggested(node, name, specs));
                continue;
            };
            let mut read = self.node(node, spec);
            name.clone_into(&mut read.name.value);
            let key = match spec.repeat {
                Repeat::Many | Repeat::Once => String::new(),
                Repeat::ByFirst | Repeat::ByName => {
                    let Some(key) = read.key().map(str::to_owned) else {
                        // Without a key it duplicates nothing.
                        out.push(read);
                        continue;
                    };
                    key
                }
            };
            let first = index.get(&(spec.name, key.clone())).and_then(|at: &usize| out.get_mut(*at));
            let Some(first) = first else {
                index.insert((spec.name, key), out.len());
                out.push(read);
                continue;
            };
            if spec.repeat == Repeat::Many {
                self.merge_repeated_nodes(first, read);
                continue;
            }
            let shown = read.key().map_or_else(|| name.to_owned(), |key| format!("{name} \"{key}\""));
            self.push(
                Diagnostic::new(&T0122, read.name.span, format!("duplicate `{shown}` {place}"))
                    .primary_label("the second")
                    .label(first.name.span, "the first")
                    .help("keep one of them; to change the value, use a later layer (`env`, `--set`)"),
            );
            first.add_duplicate(Duplicate::Node(read));
        }
        for node in suggested {
            add_missing(&mut out, node);
        }
        for property in properties {
            property.insert(&mut out);
        }
        out
    }

    /// Merges nodes that may be repeated (`environment`) into one.
    fn merge_repeated_nodes(&mut self, first: &mut Node, second: Node) {
        if first.removal().is_some() || second.removal().is_some() {
            self.push(
                Diagnostic::new(&T0122, second.name.span, format!("duplicate `{}`", first.name.value))
                    .primary_label("the second")
                    .label(first.name.span, "the first")
                    .help("keep one of them: `#null` takes away only what earlier layers set"),
            );
            return;
        }
        let seen: BTreeMap<String, Span> =
            first.props.iter().map(|(key, _)| (key.value.clone(), key.span)).collect();
        for (key, value) in second.props {
            if let Some(&other) = seen.get(&key.value) {
                self.push(
                    Diagnostic::new(&T0123, key.span, format!("duplicate property `{}`", key.value))
                        .label(other, "the first")
                        .help("keep one of them; to change the value, use a later layer (`env`, `--set`)"),
                );
                first.add_duplicate(Duplicate::Property(key, value));
            } else {
                first.props.push((key, value));
            }
        }
        first.children.extend(second.children);
        for duplicate in second.duplicates {
            first.add_duplicate(duplicate);
        }
    }

    /// Reads a node whose name was reported as the node that was probably meant.
    fn node_as_suggested(
        &mut self,
        node: &KdlNode,
        name: &str,
        specs: &'static [&'static NodeSpec],
    ) -> Option<Node> {
        let spec_of = |wanted: &str| specs.iter().copied().find(|spec| spec.name == wanted);
        let wanted = node_alias(name).map(|(wanted, _)| wanted);
        let other = other_name(name).filter(|_| wanted.is_none() && parents_with_spec(name).is_empty());
        if let Some(spec) = wanted.or(other.and_then(|other| other.node)).and_then(spec_of) {
            // Another tool's node may have another form: what does not fit is not a second error.
            let mut discarded = Problems::default();
            let mut reader = Reader {
                source: self.source,
                text: self.text,
                problems: &mut discarded,
                misplaced: Vec::new(),
                errors: 0,
            };
            let mut read = reader.node(node, spec);
            spec.name.clone_into(&mut read.name.value);
            if is_property_alias(name) || other.is_some() {
                // The value belongs to a property or a child, not to the node.
                read.args.clear();
            }
            let required = spec.args.iter().filter(|arg| arg.required).count().max(1).min(spec.args.len());
            while read.args.len() < required {
                let at = read.name.span;
                read.args.push(Spanned::new(Value::Bad, at));
            }
            // Which property or child the value belongs to, only the user knows.
            for prop in spec.props.iter().filter(|prop| prop.required || other.is_some()) {
                if read.prop(prop.name).is_none() {
                    let at = read.name.span;
                    read.props.push((Spanned::new(prop.name.to_owned(), at), Spanned::new(Value::Bad, at)));
                }
            }
            return Some(read);
        }
        // A name that means another node is no misspelling of one here.
        let near = text::nearest(name, specs.iter().map(|spec| spec.name)).filter(|_| other.is_none());
        if let Some(spec) = near.and_then(spec_of) {
            let mut read = self.node(node, spec);
            spec.name.clone_into(&mut read.name.value);
            return Some(read);
        }
        if let [(parent, spec)] = parents_with_spec(name).as_slice() {
            let read = self.node(node, spec);
            self.misplaced.push((parent, read));
        }
        None
    }

    pub(super) fn unknown_node(&self, node: &KdlNode, name: &str, known: &[&str], place: &str) -> Diagnostic {
        let span = self.span(node.name().span());
        let diagnostic = Diagnostic::new(&T0120, span, format!("unknown node `{name}` {place}"));
        if let Some((wanted, why)) = node_alias(name).filter(|(wanted, _)| known.contains(wanted)) {
            return diagnostic.write(wanted).and_text(&format!(" {why}"));
        }
        // `Environment` of the API is `environment`.
        if let Some(same) = known.iter().copied().find(|known| plain_name(known) == plain_name(name)) {
            return diagnostic.help(format!("write `{same}`")).fix(span, same);
        }
        let same = parent_names(&name.to_ascii_lowercase().replace('_', "-"));
        if let Some(other) = other_name(name).filter(|_| same.is_empty()) {
            return diagnostic.help(other.help());
        }
        if let Some(near) = text::nearest(name, known.iter().copied()) {
            return diagnostic.help(format!("did you mean `{near}`?")).fix(span, near);
        }
        if [nodes::EXTENDS.name, nodes::REQUIRES.name].contains(&name) {
            return diagnostic.help("move it to the top level of the file, next to `job`");
        }
        if name == nodes::ENV.name && node.children().is_some() {
            return diagnostic.help(
                "move it to the top level of the file, next to `job`; for variables of the \
                    container, use `environment` in `program`",
            );
        }
        if let Some((wanted, why)) = node_alias(name) {
            let parents = parent_names(wanted);
            if !parents.is_empty() {
                return diagnostic
                    .help(format!("write `{wanted}` {why}, in {}", text::backtick_list(&parents, "or")));
            }
        }
        let name = name.to_ascii_lowercase().replace('_', "-");
        let parents: Vec<&str> = parents_with_spec(&name).iter().map(|(parent, _)| *parent).collect();
        if !parents.is_empty() {
            let help = format!("`{name}` belongs in {}", text::backtick_list(&parents, "or"));
            return parents
                .into_iter()
                .fold(diagnostic.help(help), |found, parent| found.suggest(Suggestion::Move(parent)));
        }
        if known.is_empty() {
            diagnostic.note("no nodes are valid here")
        } else if known.len() <= 14 {
            diagnostic.note(format!("valid here: {}", known.join(", ")))
        } else {
            diagnostic.help("`trainc schema manifest` lists the nodes that are valid here")
        }
    }

    /// Reads a value of a node, where `#null` takes away the value of an earlier layer.
    pub(super) fn layered_value(
        &mut self,
        spec: &NodeSpec,
        entry: &KdlEntry,
        span: Span,
        ty: Ty,
        of: &str,
    ) -> Value {
        if spec.is_layered && is_null(entry) { Value::Null } else { self.value(entry, span, ty, of) }
    }

    /// Reads a value of the node or property `of` by its type.
    pub(super) fn value(&mut self, entry: &KdlEntry, span: Span, ty: Ty, of: &str) -> Value {
        let written = self.text.get(span.start as usize..span.end as usize).unwrap_or("");
        match parse_value(entry.value(), ty) {
            // The characters were reported already.
            Ok(_) if written.contains(is_disallowed) || document::is_ambiguous(entry) => Value::Bad,
            Ok(value) => value,
            // A syntax error was reported for it already.
            Err(_) if document::is_recovered(entry) => Value::Bad,
            Err(fault) => {
                let shown = self.text.get(span.start as usize..span.end as usize).unwrap_or("").to_owned();
                let diagnostic = fault.diagnostic(ty, &shown, span, &format!("`{of}`"));
                let words = matches!(ty, Ty::Word(_));
                self.push(match unsupported_setting(&shown).filter(|_| words && of == "type") {
                    Some(why) => diagnostic.note(why),
                    None => diagnostic,
                });
                Value::Bad
            }
        }
    }
}

/// Returns whether a value is `#null`, and not one that is missing.
fn is_null(entry: &KdlEntry) -> bool {
    matches!(entry.value(), KdlValue::Null) && !document::value_text(entry).is_empty()
}

/// Describes `#null` in a place that has to have a value, and makes it a bad one.
fn invalid_null(ty: Ty, value: &mut Spanned<Value>, of: &str) -> Option<Diagnostic> {
    let fault = parse_value(&KdlValue::Null, ty).err()?;
    value.value = Value::Bad;
    Some(fault.diagnostic(ty, "#null", value.span, &format!("`{of}`")))
}

/// Returns the property that a text is for, judged by its form: an S3 URI or a version.
fn property_by_form(text: &str) -> Option<&'static str> {
    let is_version = text.contains('.') && text.split('.').all(|part| part.parse::<u16>().is_ok());
    if text.starts_with("s3://") {
        Some("s3")
    } else if is_version {
        Some("version")
    } else {
        None
    }
}

/// Returns the name of a node without the colon of YAML, if a known name is left.
fn name_without_colon(node: &KdlNode, is_known: impl Fn(&str) -> bool) -> Option<&str> {
    node.name().value().strip_suffix(':').filter(|stem| is_known(stem))
}
