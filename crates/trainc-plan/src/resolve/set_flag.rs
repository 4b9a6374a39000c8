//! Reads `--set path.to.node=value`: an edit of the job, which forms a layer.

use kdl::{KdlDocument, KdlValue};
use trainc_diag::declare_code;
use trainc_diag::source::{SourceMap, Span, Spanned};
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Edit, NodeStep, Op, Problems};
use trainc_syntax::ast::Node;
use trainc_syntax::edit::{self, quoted};
use trainc_syntax::nodes::JOB;
use trainc_syntax::spec::{NodeSpec, Repeat, Ty};
use trainc_syntax::suggestions::property_alias;
use trainc_syntax::value::parse_value;

declare_code!(T0210, "set-syntax", Error, "a `--set` that is not `path=value`");
declare_code!(T0211, "unknown-set-path", Error, "a `--set` path that does not exist in the language");

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0210, &T0211];

/// Returns the nodes that a `--set` defines. Problems point into its text, or to the given span.
pub(super) fn parse_set_flag(
    written: &str,
    place: Option<Span>,
    existing: &[Node],
    sources: &mut SourceMap,
    problems: &mut Problems,
) -> Option<Vec<Node>> {
    let whole = place
        .unwrap_or_else(|| Span::new(sources.add(format!("<--set {written}>"), written), 0, written.len()));
    let inside = |start: usize, end: usize| place.unwrap_or(Span::new(whole.source, start, end));
    let Some((path, value)) = find_value_separator(written).and_then(|at| written.split_at_checked(at))
    else {
        problems.push(
            Diagnostic::new(&T0210, whole, format!("`{written}` is not `path=value`"))
                .help("write for example `--set cluster.nodes=4` or `--set channel.train.s3=s3://…`"),
        );
        return None;
    };
    let value = value.get(1..).unwrap_or_default();
    let value_span = inside(path.len() + 1, written.len());
    let steps: Vec<Spanned<&str>> = segments(path)
        .map(|(at, step)| {
            // The quotes are part of the span, not of the name.
            Spanned::new(unquoted(step), inside(at, at + step.len()))
        })
        .collect();
    let path = SetPath { whole, value, value_span };
    match path.edit("", &JOB, (&steps, &[]), existing).and_then(|edit| path.layer(&edit, &steps)) {
        Ok(nodes) => Some(nodes),
        Err(diagnostic) => {
            problems.push(*diagnostic);
            None
        }
    }
}

/// Checks a path in `--set` syntax that is written in a manifest, but not the value.
pub(super) fn check_path(path: &str, span: Span, existing: &[Node]) -> Option<Diagnostic> {
    let steps: Vec<Spanned<&str>> =
        segments(path).map(|(_, step)| Spanned::new(unquoted(step), span)).collect();
    let path = SetPath { whole: span, value: "", value_span: span };
    let fault = path.edit("", &JOB, (&steps, &[]), existing).err()?;
    (fault.code.id == T0211.id).then_some(*fault)
}

/// Returns the steps of a path, each with its byte offset. A quoted step may contain dots and `=`, such as
/// the name of a hyperparameter: `program.hyperparameter."train.save_interval"`.
fn segments(path: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = Some((0, path));
    std::iter::from_fn(move || {
        let (at, text) = rest.take()?;
        let end = end_of_step(text, '.');
        rest = text.get(end + 1..).map(|after| (at + end + 1, after));
        Some((at, text.get(..end).unwrap_or(text)))
    })
}

/// Returns the length of the first step in bytes, up to a delimiter outside of quotes or the end of the text.
fn end_of_step(text: &str, delimiter: char) -> usize {
    let quoted = text.strip_prefix('"').and_then(|inside| inside.find('"')).map_or(0, |at| at + 2);
    // Text directly after the closing quote means that the step is not quoted.
    let closed = text.get(quoted..).filter(|after| after.is_empty() || after.starts_with(['.', '=']));
    let from = if closed.is_some() { quoted } else { 0 };
    text.get(from..).and_then(|after| after.find(delimiter)).map_or(text.len(), |at| from + at)
}

/// Returns the byte offset of the `=` between path and value.
fn find_value_separator(written: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        let text = written.get(at..)?;
        let step = end_of_step(text, '.');
        let equals = end_of_step(text, '=');
        if equals <= step {
            return (equals < text.len()).then_some(at + equals);
        }
        at += step + 1;
    }
}

/// Removes the quotes around a step.
fn unquoted(step: &str) -> &str {
    step.strip_prefix('"').and_then(|inside| inside.strip_suffix('"')).unwrap_or(step)
}

struct SetPath<'a> {
    whole: Span,
    value: &'a str,
    value_span: Span,
}

/// A step and the steps after it.
type Split<'s, 'p> = (&'s Spanned<&'p str>, &'s [Spanned<&'p str>]);

/// Returns the step that identifies one of several nodes of a kind, and the steps after it.
fn split_node_name<'s, 'p>(
    parents: &str,
    spec: &NodeSpec,
    first: &Spanned<&str>,
    rest: &'s [Spanned<&'p str>],
) -> Result<Split<'s, 'p>, Box<Diagnostic>> {
    let nameless = |form: &str| {
        Box::new(
            Diagnostic::new(&T0211, first.span, format!("the path requires the name of a `{}`", spec.name))
                .help(format!("write `--set {parents}{}.NAME{form}=…`", spec.name)),
        )
    };
    let (key, after) =
        rest.split_first().ok_or_else(|| nameless(if spec.arg(1).is_some() { "" } else { ".…" }))?;
    let is_part = spec.prop(key.value).is_some() || spec.child(key.value).is_some();
    if after.is_empty() && is_part && spec.arg(1).is_none() {
        return Err(nameless(&format!(".{}", key.value)));
    }
    Ok((key, after))
}

impl SetPath<'_> {
    /// Returns the edit for the remaining steps below a node, whose path is given; `parents` holds the steps
    /// before, each followed by a dot.
    fn edit(
        &self,
        parents: &str,
        parent: &NodeSpec,
        (steps, at): (&[Spanned<&str>], &[NodeStep]),
        existing: &[Node],
    ) -> Result<Edit, Box<Diagnostic>> {
        let Some((first, rest)) = steps.split_first() else {
            return Err(Box::new(Diagnostic::new(&T0211, self.whole, "incomplete path")));
        };
        let Some(spec) = parent.child(first.value) else {
            return Err(Box::new(if parents.is_empty() && first.value == JOB.name {
                path_begins_with_job(first, rest)
            } else {
                unknown_step(first, parents, parent)
            }));
        };
        if has_only_a_value(spec) {
            // Always adds a node: nothing identifies an existing one.
            if let Some(below) = rest.first() {
                return Err(Box::new(
                    Diagnostic::new(
                        &T0211,
                        below.span,
                        format!("`{}` has only a value and no members", spec.name),
                    )
                    .help(format!("write `--set {parents}{}=…`, which adds a `{}`", spec.name, spec.name)),
                ));
            }
            let ty = spec.arg(0).map_or(Ty::Text, |arg| arg.ty);
            let node = format!("{} {}", spec.name, self.value(ty, spec.name)?);
            return Ok(Edit::new(at.to_vec(), Op::Add(node)));
        }
        let is_keyed = matches!(spec.repeat, Repeat::ByFirst | Repeat::ByName);
        if rest.is_empty() && self.is_null() && is_keyed {
            // Takes away all nodes of the name.
            return Ok(Edit::new(at.to_vec(), Op::Add(format!("{} #null", spec.name))));
        }
        let of_kind = || existing.iter().filter(|node| node.name.value == first.value);
        if !is_keyed {
            let at = [at, &[NodeStep::by_name(spec.name)]].concat();
            let below = of_kind().next().map_or(&[][..], |node| node.children.as_slice());
            return self.edit_member(
                &format!("{parents}{}.", spec.name),
                first.span,
                spec,
                (rest, &at),
                below,
            );
        }
        let (key, after) = split_node_name(parents, spec, first, rest)?;
        let twin = of_kind().find(|node| node.key() == Some(key.value));
        // A similar name is almost certainly a typo. Nodes that consist of a name and a value, such as
        // hyperparameters, are exempt: their names often differ by one letter.
        if twin.is_none()
            && spec.arg(1).is_none()
            && let Some(near) = text::nearest(key.value, of_kind().filter_map(Node::key))
        {
            return Err(Box::new(
                Diagnostic::new(
                    &T0211,
                    key.span,
                    format!("no `{} \"{}\"` in the manifest", spec.name, key.value),
                )
                .help(format!("did you mean `{parents}{}.{near}`?", spec.name)),
            ));
        }
        let step = match spec.repeat {
            Repeat::ByFirst => NodeStep::by_argument(spec.name, key.value),
            _ => NodeStep::by_property(spec.name, "name", key.value),
        };
        let at = [at, &[step]].concat();
        let below = twin.map_or(&[][..], |node| node.children.as_slice());
        let parents = format!("{parents}{}.{}.", spec.name, key.value);
        self.edit_member(&parents, first.span, spec, (after, &at), below)
    }

    /// Returns the edit for the steps after a node: of an argument, a property or a child. `name` is the place
    /// of the node's name.
    fn edit_member(
        &self,
        parents: &str,
        name: Span,
        spec: &'static NodeSpec,
        (rest, at): (&[Spanned<&str>], &[NodeStep]),
        below: &[Node],
    ) -> Result<Edit, Box<Diagnostic>> {
        // The first argument that is not the node's name.
        let own = usize::from(spec.repeat == Repeat::ByFirst);
        // Plans name arguments, as in `image.family`, so these paths are accepted too.
        let is_own = |last: &Spanned<&str>| {
            spec.arg(own).is_some_and(|arg| arg.name == last.value)
                && spec.prop(last.value).is_none()
                && spec.child(last.value).is_none()
        };
        let rest = match rest {
            [last] if is_own(last) => &[],
            rest => rest,
        };
        match rest {
            [] => {
                let Some(arg) = spec.arg(own) else {
                    if self.is_null() {
                        return Ok(Edit::new(at.to_vec(), Op::SetArgument(own, "#null".to_owned())));
                    }
                    let known = member_names(spec);
                    let example = format!("{parents}{}", known.first().copied().unwrap_or("…"));
                    return Err(Box::new(
                        Diagnostic::new(&T0211, name, format!("`{}` has no value, only members", spec.name))
                            .help(format!("add the member, for example `--set {example}=…`"))
                            .note(format!("members: {}", known.join(", "))),
                    ));
                };
                Ok(Edit::new(at.to_vec(), Op::SetArgument(own, self.value(arg.ty, spec.name)?)))
            }
            [last]
                if spec.prop(last.value).is_some()
                    || (spec.free_props.is_some() && spec.child(last.value).is_none()) =>
            {
                let ty =
                    spec.prop(last.value).map_or(spec.free_props, |prop| Some(prop.ty)).unwrap_or(Ty::Text);
                let value = self.value(ty, last.value)?;
                Ok(Edit::new(at.to_vec(), Op::SetProperty(last.value.to_owned(), value)))
            }
            deeper => self.edit(parents, spec, (deeper, at), below),
        }
    }

    /// Returns the nodes of a job that has this edit alone, at their places on the command line.
    fn layer(&self, edit: &Edit, steps: &[Spanned<&str>]) -> Result<Vec<Node>, Box<Diagnostic>> {
        let unusable = || Box::new(Diagnostic::new(&T0210, self.value_span, "invalid value"));
        let top = [NodeStep::by_argument(JOB.name, "x")];
        let edited = edit::apply("job \"x\" {\n}\n", &top, edit).map_err(|_| unusable())?;
        // What is wrong with the value was reported by the type of its place.
        let file = trainc_syntax::parse(self.whole.source, &edited.text, &mut Problems::default());
        let mut nodes = file.and_then(|file| file.job).ok_or_else(unusable)?.children;
        for node in &mut nodes {
            self.set_places(node, steps);
        }
        Ok(nodes)
    }

    /// Gives a node and those below it the places of the path's steps.
    fn set_places(&self, node: &mut Node, steps: &[Spanned<&str>]) {
        let Some((name, mut rest)) = steps.split_first() else { return };
        (node.span, node.name.span) = (self.whole, name.span);
        for value in node.args.iter_mut().chain(node.props.iter_mut().map(|(_, value)| value)) {
            value.span = self.value_span;
        }
        let repeat = node.spec.map(|spec| spec.repeat);
        if let (Some(Repeat::ByFirst | Repeat::ByName), Some((key, after))) = (repeat, rest.split_first()) {
            let name = node.props.first_mut().filter(|_| repeat == Some(Repeat::ByName));
            match (name, node.args.first_mut()) {
                (Some((name, value)), _) => (name.span, value.span) = (key.span, key.span),
                (None, Some(value)) => value.span = key.span,
                (None, None) => {}
            }
            rest = after;
        }
        if let [last] = rest {
            for (name, _) in node.props.iter_mut().filter(|(name, _)| name.value == last.value) {
                name.span = last.span;
            }
        }
        for child in &mut node.children {
            self.set_places(child, rest);
        }
    }

    /// Returns whether the value is `#null`, which takes away what is at the path.
    fn is_null(&self) -> bool {
        matches!(kdl_value(self.value), Some(KdlValue::Null))
    }

    /// Returns the value as KDL of the type that the path requires: as it is if it is valid KDL, otherwise as
    /// text.
    fn value(&self, ty: Ty, of: &str) -> Result<String, Box<Diagnostic>> {
        if self.is_null() {
            return Ok("#null".to_owned());
        }
        let switch = bare_boolean(self.value).filter(|_| matches!(ty, Ty::Bool | Ty::BoolOr(_)));
        let candidates = [
            kdl_value(self.value).map(|value| (value, self.value.trim().to_owned())),
            switch.map(|on| (KdlValue::Bool(on), format!("#{on}"))),
            Some((KdlValue::String(self.value.to_owned()), quoted(self.value))),
        ];
        let mut first_fault = None;
        for (candidate, text) in candidates.into_iter().flatten() {
            match parse_value(&candidate, ty) {
                Ok(_) => return Ok(text),
                Err(fault) => first_fault = first_fault.or(Some(fault)),
            }
        }
        Err(Box::new(first_fault.map_or_else(
            || Diagnostic::new(&T0210, self.value_span, "invalid value"),
            |fault| {
                let shown = if self.value.is_empty() { "nothing" } else { self.value };
                fault.diagnostic(ty, shown, self.value_span, &format!("`{of}`"))
            },
        )))
    }
}

fn kdl_value(value: &str) -> Option<KdlValue> {
    // `//` begins a comment in KDL but is part of the text here: `s3://bucket/`.
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

fn bare_boolean(value: &str) -> Option<bool> {
    value.parse().ok()
}

fn member_names(spec: &NodeSpec) -> Vec<&'static str> {
    spec.props.iter().map(|prop| prop.name).chain(spec.children.iter().map(|child| child.name)).collect()
}

/// Returns true if a repeatable node consists of its value only, which identifies it.
fn has_only_a_value(spec: &NodeSpec) -> bool {
    spec.repeat == Repeat::ByFirst
        && spec.arg(1).is_none()
        && member_names(spec).is_empty()
        && spec.free_props.is_none()
}

fn unknown_step(step: &Spanned<&str>, parents: &str, parent: &NodeSpec) -> Diagnostic {
    if parent.prop(step.value).is_some() {
        return Diagnostic::new(
            &T0211,
            step.span,
            format!("`{}` of `{}` is a value and has no members", step.value, parent.name),
        )
        .help(format!("write `--set {parents}{}=…`", step.value));
    }
    let place = if parent.name == "job" { "a job".to_owned() } else { format!("`{}`", parent.name) };
    if parent.free_children {
        let message = format!("`--set` does not support members of `{}`", parent.name);
        return Diagnostic::new(&T0211, step.span, message)
            .help(format!("write `{} {{ {} … }}` in the manifest", parent.name, step.value))
            .note("these members have no declared types, so the value cannot be parsed");
    }
    let known = member_names(parent);
    let diagnostic = Diagnostic::new(&T0211, step.span, format!("{place} has no `{}`", step.value));
    if let Some(near) = text::nearest(step.value, known.iter().copied()) {
        return diagnostic.help(format!("did you mean `{near}`?"));
    }
    // The member may belong further down, as `train.lr` does, or to another node.
    let mut deeper = Vec::new();
    collect_member_paths(parents, parent, step.value, &mut deeper);
    if deeper.is_empty() {
        collect_member_paths("", &JOB, step.value, &mut deeper);
    }
    // Prefer paths without a name: `nodes` of the cluster rather than of one of its groups.
    if deeper.iter().any(|path| !path.contains("NAME.")) {
        deeper.retain(|path| !path.contains("NAME."));
    }
    // And the nearest one: `micro-batch` of the training rather than of its evaluations.
    let steps = |path: &String| path.split('.').count();
    let fewest = deeper.iter().map(steps).min();
    deeper.retain(|path| Some(steps(path)) == fewest);
    match deeper.as_slice() {
        [only] => diagnostic.help(format!("did you mean `{only}`?")),
        _ if known.is_empty() => diagnostic,
        _ => diagnostic.note(format!("valid here: {}", known.join(", "))),
    }
}

/// Reports a path that begins with `job`: paths are relative to the job.
fn path_begins_with_job(first: &Spanned<&str>, rest: &[Spanned<&str>]) -> Diagnostic {
    let steps: Vec<&str> = rest.iter().map(|step| step.value).collect();
    let (message, help) = if matches!(steps.as_slice(), [] | ["name"]) {
        ("`--set` cannot change the name of a job", "--set cluster.nodes=4".to_owned())
    } else {
        ("a path does not begin with `job`", format!("--set {}=…", steps.join(".")))
    };
    Diagnostic::new(&T0211, first.span, message)
        .help(format!("begin the path with a node of the job, for example `{help}`"))
}

/// Collects the paths of all members with a name, which may be another tool's name for one. `parents` is the
/// path of the node, followed by a dot.
fn collect_member_paths(parents: &str, spec: &NodeSpec, name: &str, out: &mut Vec<String>) {
    let name = property_alias(name).unwrap_or(name);
    let found = spec.prop(name).is_some() || spec.child(name).is_some();
    if found {
        out.push(format!("{parents}{name}"));
    }
    for child in spec.children.iter().filter(|child| child.name != name) {
        let key = if matches!(child.repeat, Repeat::ByFirst | Repeat::ByName) { "NAME." } else { "" };
        collect_member_paths(&format!("{parents}{}.{key}", child.name), child, name, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_syntax::ast::Value;

    #[track_caller]
    fn rejected(written: &str) -> Diagnostic {
        let mut problems = Problems::default();
        assert_eq!(
            parse_set_flag(written, None, &[], &mut SourceMap::default(), &mut problems),
            None,
            "{written}"
        );
        problems.iter().next().unwrap().clone()
    }

    #[test]
    fn a_step_in_quotes_may_have_dots() {
        let steps = |path: &'static str| segments(path).collect::<Vec<_>>();
        assert_eq!(steps("a.bc.d"), [(0, "a"), (2, "bc"), (5, "d")]);
        assert_eq!(steps("a.\"b.c\".d"), [(0, "a"), (2, "\"b.c\""), (8, "d")]);
        // Without a closing quote, or with text after it, the quotes are ordinary characters.
        assert_eq!(steps("a.\"b.c"), [(0, "a"), (2, "\"b"), (5, "c")]);
        assert_eq!(steps("\"a.b\"c.d"), [(0, "\"a"), (3, "b\"c"), (7, "d")]);
        assert_eq!(steps(""), [(0, "")]);
        assert_eq!(find_value_separator("a.\"b=c\".d=e=f"), Some(9));
        assert_eq!(find_value_separator("a=\"x.y\""), Some(1));
        assert_eq!(find_value_separator("a.b"), None);
        assert_eq!(find_value_separator("=b"), Some(0));

        let mut problems = Problems::default();
        let written = "program.hyperparameter.\"train.save_interval\"=5";
        let made = parse_set_flag(written, None, &[], &mut SourceMap::default(), &mut problems).unwrap();
        let [program] = made.as_slice() else { panic!("one node") };
        let [hyperparameter] = program.children.as_slice() else { panic!("one child") };
        assert_eq!(hyperparameter.key(), Some("train.save_interval"));
        assert_eq!(hyperparameter.args.get(1).map(|arg| &arg.value), Some(&Value::Int(5)));
        assert!(problems.iter().next().is_none());
    }

    #[test]
    fn a_node_with_only_a_value_is_added() {
        let mut problems = Problems::default();
        let made =
            parse_set_flag("role.read=s3://bucket-1/x/", None, &[], &mut SourceMap::default(), &mut problems);
        let [role] = made.as_deref().unwrap() else { panic!("one node") };
        let [read] = role.children.as_slice() else { panic!("one child") };
        assert_eq!(read.first_text(), Some("s3://bucket-1/x/"));
        assert!(problems.iter().next().is_none());
    }

    #[test]
    fn help_has_the_whole_path() {
        for (written, help) in [
            ("program.hyperparameter=1", "write `--set program.hyperparameter.NAME=…`"),
            ("sweep.vary=1", "write `--set sweep.vary.NAME=…`"),
            ("channel.s3=s3://bucket/", "write `--set channel.NAME.s3=…`"),
            ("channel.train=s3://bucket/", "add the member, for example `--set channel.train.s3=…`"),
            ("train.lr=1e-4", "did you mean `train.optimizer.lr`?"),
            ("train.learning-rate=1e-4", "did you mean `train.optimizer.lr`?"),
            ("train.max-run=1d", "did you mean `cluster.max-run`?"),
            ("nodes=4", "did you mean `cluster.nodes`?"),
            ("job=x", "begin the path with a node of the job, for example `--set cluster.nodes=4`"),
            ("job.train.steps=4", "begin the path with a node of the job, for example `--set train.steps=…`"),
            ("micro-batch=2", "did you mean `train.micro-batch`?"),
            ("request.RetryStrategy=1", "write `request { RetryStrategy … }` in the manifest"),
            ("role.read.s3=s3://bucket/", "write `--set role.read=…`, which adds a `read`"),
            ("role.create.read=s3://bucket/", "write `--set role.create=…`"),
        ] {
            assert_eq!(rejected(written).help.as_deref(), Some(help), "{written}");
        }
    }
}
