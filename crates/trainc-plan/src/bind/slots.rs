//! Visits the texts of a plan in which placeholders are replaced: those of type `text` or `any` in the schema.

use super::find_closing_braces;
use trainc_diag::Diagnostic;
use trainc_diag::declare_code;
use trainc_diag::source::{SourceMap, Span};
use trainc_ir::{Channel, Experiment, Field, Pair, Plan, Raw, Scalar, Val};

declare_code!(T0214, "template-statement", Warning, "`{% %}` or `{# #}`, which trainc does not evaluate");

/// A text of the plan that may contain placeholders.
pub(super) enum Slot<'a> {
    Text(&'a mut Field<String>),
    Word(&'a mut Val<String>),
    Scalar(&'a mut Field<Scalar>),
    Raw(&'a mut Raw),
}

impl Slot<'_> {
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(field) => field.value().map(String::as_str),
            Self::Word(val) => Some(&val.value),
            Self::Scalar(field) => match field.value() {
                Some(Scalar::Text(text)) => Some(text),
                _ => None,
            },
            Self::Raw(raw) => raw.text(),
        }
    }

    pub(super) fn span(&self) -> Option<Span> {
        match self {
            Self::Text(field) => field.span(),
            Self::Word(val) => val.origin.span(),
            Self::Scalar(field) => field.span(),
            Self::Raw(Raw::Scalar(scalar)) => Some(scalar.span),
            Self::Raw(_) => None,
        }
    }

    pub(super) fn has_placeholder(&self) -> bool {
        self.text().is_some_and(|text| text.contains("{{"))
    }

    /// Warns about a template statement or comment, which is not evaluated. A script may need it, such as a chat
    /// template.
    pub(super) fn check_statement(&self, sources: &SourceMap) -> Option<Diagnostic> {
        let (open, close) = find_statement(self.text()?)?;
        let at = span_of_piece(sources, self.span()?, open);
        Some(
            Diagnostic::new(
                &T0214,
                at,
                format!("`{open} … {close}` is not evaluated: only `{{{{ … }}}}` is supported"),
            )
            .help(format!("if the script needs it, write `{{{{ '{open}' }}}}` in place of `{open}`"))
            .note("a placeholder can contain a condition: `{{ 1 if cluster.nodes > 1 else 0 }}`"),
        )
    }
}

/// Passes every text that may contain placeholders to a function.
pub(super) fn visit_slots(plan: &mut Plan, with: &mut dyn FnMut(Slot)) {
    let job = &mut plan.job;
    fn pairs(list: &mut [Pair], with: &mut dyn FnMut(Slot)) {
        for pair in list {
            with(Slot::Text(&mut pair.value));
        }
    }
    fn members(raw: &mut Raw, with: &mut dyn FnMut(Slot)) {
        match raw {
            Raw::Scalar(_) => with(Slot::Raw(raw)),
            Raw::List(items) => items.iter_mut().for_each(|item| members(item, with)),
            Raw::Object(inner) => inner.iter_mut().for_each(|member| members(&mut member.value, with)),
        }
    }
    fn texts<const N: usize>(fields: [&mut Field<String>; N], with: &mut dyn FnMut(Slot)) {
        for field in fields {
            with(Slot::Text(field));
        }
    }
    pairs(&mut job.tags, with);
    if let Some(cluster) = &mut job.cluster {
        texts([&mut cluster.volume_kms, &mut cluster.training_plan], with);
    }
    job.request.iter_mut().for_each(|member| members(&mut member.value, with));
    if let Some(program) = &mut job.program {
        for hyperparameter in &mut program.hyperparameters {
            with(Slot::Scalar(&mut hyperparameter.value));
        }
        pairs(&mut program.environment, with);
        texts([&mut program.s3, &mut program.upload], with);
        for secret in &mut program.secrets {
            with(Slot::Text(&mut secret.from));
        }
        for metric in &mut program.metrics {
            with(Slot::Text(&mut metric.regex));
        }
        for word in program.entrypoint.iter_mut().chain(&mut program.arguments) {
            with(Slot::Word(word));
        }
    }
    if let Some(parallel) = &mut job.parallel {
        pairs(&mut parallel.mpi_env, with);
        with(Slot::Text(&mut parallel.mpi_options));
        for option in &mut parallel.options {
            with(Slot::Scalar(&mut option.value));
        }
    }
    for storage in &mut job.storage {
        with(Slot::Text(&mut storage.kms));
        for link in storage.imports.iter_mut().chain(&mut storage.exports) {
            texts([&mut link.s3, &mut link.path], with);
        }
    }
    for channel in &mut job.channels {
        let Channel {
            s3, manifest, augmented_manifest, converse, dataset, path, content_type, hub, kms, ..
        } = channel;
        texts([s3, manifest, augmented_manifest, converse, dataset, path, content_type, hub, kms], with);
    }
    if let Some(role) = &mut job.role {
        texts([&mut role.arn, &mut role.boundary], with);
        for read in &mut role.reads {
            with(Slot::Text(&mut read.s3));
        }
    }
    if let Some(checkpoint) = &mut job.checkpoint {
        texts([&mut checkpoint.s3, &mut checkpoint.local, &mut checkpoint.kms], with);
    }
    if let Some(output) = &mut job.output {
        texts([&mut output.s3, &mut output.kms], with);
    }
    if let Some(debugger) = &mut job.debugger {
        texts([&mut debugger.s3, &mut debugger.local], with);
        pairs(&mut debugger.parameters, with);
        for collection in &mut debugger.collections {
            pairs(&mut collection.parameters, with);
        }
    }
    if let Some(profiler) = &mut job.profiler {
        with(Slot::Text(&mut profiler.s3));
        pairs(&mut profiler.parameters, with);
    }
    if let Some(tensorboard) = &mut job.tensorboard {
        texts([&mut tensorboard.s3, &mut tensorboard.local], with);
    }
    if let Some(Experiment { name, trial, component, run, .. }) = &mut job.experiment {
        texts([name, trial, component, run], with);
    }
}

/// Returns the span of a piece of text inside a string, or of the whole string if it does not contain the piece.
pub(super) fn span_of_piece(sources: &SourceMap, span: Span, piece: &str) -> Span {
    let slice = sources.slice(span);
    match slice.find(piece) {
        Some(at) if !piece.is_empty() => {
            let start = span.start as usize + at;
            Span::new(span.source, start, start + piece.len())
        }
        _ => span,
    }
}

/// Returns the delimiters of a template statement or comment outside of placeholders. `${#list[@]}` contains none.
fn find_statement(text: &str) -> Option<(&'static str, &'static str)> {
    if !text.contains('{') {
        return None;
    }
    let mut outside = String::new();
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once("{{") {
        outside.push_str(before);
        rest = find_closing_braces(inside).and_then(|close| inside.get(close + 2..)).unwrap_or("");
    }
    outside.push_str(rest);
    [("{%", "%}"), ("{#", "#}")]
        .into_iter()
        .find(|(open, close)| outside.split_once(open).is_some_and(|(_, rest)| rest.contains(close)))
}
