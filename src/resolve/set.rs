//! `--set path.to.node=value`: one value from the command line, as a layer of its own.

use crate::declare_code;
use crate::diag::{Code, Diagnostic, Problems};
use crate::source::{SourceMap, Span, Spanned};
use crate::syntax::ast::{Node, Value};
use crate::syntax::nodes::JOB;
use crate::syntax::spec::{NodeSpec, Repeat, Ty};
use crate::syntax::value::typed;
use crate::text;
use kdl::{KdlDocument, KdlValue};

declare_code!(T0210, "set-syntax", Error, "a `--set` that is not `path=value`");
declare_code!(T0211, "set-unknown-path", Error, "a `--set` that names nothing in the language");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0210, &T0211];

/// The nodes that a `--set` stands for; problems point into its own text, or to the place given.
pub(super) fn nodes(
    written: &str,
    place: Option<Span>,
    existing: &[Node],
    sources: &mut SourceMap,
    problems: &mut Problems,
) -> Option<Vec<Node>> {
    let whole = place
        .unwrap_or_else(|| Span::new(sources.add(format!("<--set {written}>"), written), 0, written.len()));
    let inside = |start: usize, end: usize| place.unwrap_or(Span::new(whole.source, start, end));
    let Some((path, value)) = written.split_once('=') else {
        problems.push(
            Diagnostic::new(&T0210, whole, format!("`{written}` is not `path=value`"))
                .help("write `--set cluster.nodes=4` or `--set channel.train.s3=s3://…`"),
        );
        return None;
    };
    let value_span = inside(path.len() + 1, written.len());
    let mut steps: Vec<Spanned<&str>> = Vec::new();
    let mut at = 0;
    for step in path.split('.') {
        steps.push(Spanned::new(step, inside(at, at + step.len())));
        at += step.len() + 1;
    }
    let path = Path { whole, value, value_span };
    match path.build(&JOB, &steps, existing) {
        Ok(node) => Some(vec![node]),
        Err(diagnostic) => {
            problems.push(*diagnostic);
            None
        }
    }
}

/// What is wrong with a path as `--set` takes it, that stands in a manifest; what is put there is not judged.
pub(super) fn nowhere(path: &str, span: Span, existing: &[Node]) -> Option<Diagnostic> {
    let steps: Vec<Spanned<&str>> = path.split('.').map(|step| Spanned::new(step, span)).collect();
    let path = Path { whole: span, value: "", value_span: span };
    let fault = path.build(&JOB, &steps, existing).err()?;
    (fault.code.id == T0211.id).then_some(*fault)
}

struct Path<'a> {
    whole: Span,
    value: &'a str,
    value_span: Span,
}

/// A step and those behind it.
type Split<'s, 'p> = (&'s Spanned<&'p str>, &'s [Spanned<&'p str>]);

/// The step that tells one node of a kind from the others, and the steps behind it.
fn key<'s, 'p>(
    spec: &NodeSpec,
    first: &Spanned<&str>,
    rest: &'s [Spanned<&'p str>],
) -> Result<Split<'s, 'p>, Box<Diagnostic>> {
    let nameless = |form: &str| {
        Box::new(
            Diagnostic::new(&T0211, first.span, format!("which `{}`? its name is missing", spec.name))
                .help(format!("write `--set {}.NAME.{form}=…`", spec.name)),
        )
    };
    let (key, after) = rest.split_first().ok_or_else(|| nameless("…"))?;
    let is_part = spec.prop(key.value).is_some() || spec.child(key.value).is_some();
    if after.is_empty() && is_part && spec.arg(1).is_none() {
        return Err(nameless(key.value));
    }
    Ok((key, after))
}

impl Path<'_> {
    fn build(
        &self,
        parent: &NodeSpec,
        steps: &[Spanned<&str>],
        existing: &[Node],
    ) -> Result<Node, Box<Diagnostic>> {
        let Some((first, rest)) = steps.split_first() else {
            return Err(Box::new(Diagnostic::new(&T0211, self.whole, "the path ends too early")));
        };
        let Some(spec) = parent.child(first.value) else {
            return Err(Box::new(unknown(first, parent)));
        };
        let mut node = Node {
            spec: Some(spec),
            name: Spanned::new(first.value.to_owned(), first.span),
            span: self.whole,
            also: Vec::new(),
            args: Vec::new(),
            props: Vec::new(),
            children: Vec::new(),
        };
        let mut rest = rest;
        let mut twin = existing.iter().find(|node| node.name.value == first.value);
        if matches!(spec.repeat, Repeat::ByFirst | Repeat::ByName) {
            let (key, after) = key(spec, first, rest)?;
            let name = Spanned::new(Value::Text(key.value.to_owned()), key.span);
            if spec.repeat == Repeat::ByFirst {
                node.args.push(name);
            } else {
                node.props.push((Spanned::new("name".to_owned(), key.span), name));
            }
            let of_kind = || existing.iter().filter(|node| node.name.value == first.value);
            twin = of_kind().find(|node| node.key() == Some(key.value));
            // A block of another name may be meant; of a name that is nearly there it surely is not. What is no more
            // than a name and a value, as a hyperparameter, often differs from its neighbour by a letter.
            if twin.is_none()
                && spec.arg(1).is_none()
                && let Some(near) = text::nearest(key.value, of_kind().filter_map(Node::key))
            {
                return Err(Box::new(
                    Diagnostic::new(
                        &T0211,
                        key.span,
                        format!("there is no `{} \"{}\"`", spec.name, key.value),
                    )
                    .help(format!("did you mean `{}.{near}`?", spec.name)),
                ));
            }
            rest = after;
        }
        let below = twin.map_or(&[][..], |node| node.children.as_slice());
        self.put(&mut node, spec, first.span, rest, below)?;
        Ok(node)
    }

    /// Puts the value where the rest of the path leads: the node's own value, a property, or something below.
    fn put(
        &self,
        node: &mut Node,
        spec: &'static NodeSpec,
        at: Span,
        rest: &[Spanned<&str>],
        below: &[Node],
    ) -> Result<(), Box<Diagnostic>> {
        match rest {
            [] => {
                // The node's own value: its first argument that is not its name.
                let Some(arg) = spec.arg(node.args.len()) else {
                    return Err(Box::new(
                        Diagnostic::new(&T0211, at, format!("`{}` has no value of its own", spec.name))
                            .note(format!("it has: {}", known(spec).join(", "))),
                    ));
                };
                let value = self.value(arg.ty, spec.name)?;
                node.args.push(value);
            }
            [last]
                if spec.prop(last.value).is_some()
                    || (spec.free_props.is_some() && spec.child(last.value).is_none()) =>
            {
                let ty =
                    spec.prop(last.value).map_or(spec.free_props, |prop| Some(prop.ty)).unwrap_or(Ty::Text);
                let value = self.value(ty, last.value)?;
                node.props.push((Spanned::new(last.value.to_owned(), last.span), value));
            }
            deeper => {
                node.children.push(self.build(spec, deeper, below)?);
            }
        }
        Ok(())
    }

    /// The value by the type of its place: as KDL if it reads so, else as text.
    fn value(&self, ty: Ty, of: &str) -> Result<Spanned<Value>, Box<Diagnostic>> {
        let verbatim = KdlValue::String(self.value.to_owned());
        let parsed = single(self.value);
        let candidates = [
            parsed.as_ref(),
            word(self.value).as_ref().filter(|_| matches!(ty, Ty::Bool | Ty::BoolOr(_))).cloned().as_ref(),
            Some(&verbatim),
        ]
        .into_iter()
        .flatten()
        .cloned()
        .collect::<Vec<_>>();
        let mut first_fault = None;
        for candidate in &candidates {
            match typed(candidate, ty) {
                Ok(value) => return Ok(Spanned::new(value, self.value_span)),
                Err(fault) => first_fault = first_fault.or(Some(fault)),
            }
        }
        Err(Box::new(first_fault.map_or_else(
            || Diagnostic::new(&T0210, self.value_span, "the value cannot be read"),
            |fault| {
                let shown = if self.value.is_empty() { "nothing" } else { self.value };
                fault.diagnostic(ty, shown, self.value_span, &format!("`{of}`"))
            },
        )))
    }
}

fn single(value: &str) -> Option<KdlValue> {
    // What KDL reads as a comment is part of the text here: `s3://bucket/`.
    let is_comment = ["//", "/*", "/-"].iter().any(|mark| value.contains(mark));
    if is_comment || value.is_empty() || value.contains(['\n', ';', '{', '}']) {
        return None;
    }
    let document: KdlDocument = KdlDocument::parse(&format!("x {value}")).ok()?;
    match document.nodes() {
        [node] => match node.entries() {
            [entry] if entry.name().is_none() && node.children().is_none() => Some(entry.value().clone()),
            _ => None,
        },
        _ => None,
    }
}

fn word(value: &str) -> Option<KdlValue> {
    match value {
        "true" => Some(KdlValue::Bool(true)),
        "false" => Some(KdlValue::Bool(false)),
        _ => None,
    }
}

fn known(spec: &NodeSpec) -> Vec<&'static str> {
    spec.props.iter().map(|prop| prop.name).chain(spec.children.iter().map(|child| child.name)).collect()
}

fn unknown(step: &Spanned<&str>, parent: &NodeSpec) -> Diagnostic {
    let place = if parent.name == "job" { "a job".to_owned() } else { format!("`{}`", parent.name) };
    let known = known(parent);
    let diagnostic = Diagnostic::new(&T0211, step.span, format!("{place} has no `{}`", step.value));
    match text::nearest(step.value, known.iter().copied()) {
        Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
        None if known.is_empty() => diagnostic,
        None => diagnostic.note(format!("known here: {}", known.join(", "))),
    }
}
