//! Edits that the cost model proposes, as text of the manifest: what to type, and the fix that `check --fix` writes.

use super::Context;
use trainc_diag::source::{Span, is_file};
use trainc_ir::{Mesh, Plan};
use trainc_predict::memory::remedies::Edit;
use trainc_syntax::edit::{self, PathStep};

/// A replacement of one place of a source.
pub(super) struct Written {
    /// What is replaced.
    pub(super) span: Span,
    /// What takes its place.
    pub(super) text: String,
}

/// A value of the manifest to write: a child of a node of the job, or a property of the node.
struct Line {
    node: &'static str,
    child: Option<&'static str>,
    property: Option<&'static str>,
    value: String,
    /// A property beside an argument, and its value.
    beside: Option<(&'static str, String)>,
    /// A property of the node that has no meaning beside the new value.
    without: Option<&'static str>,
}

impl Line {
    fn child(node: &'static str, child: &'static str, value: impl ToString) -> Self {
        Self {
            node,
            child: Some(child),
            property: None,
            value: value.to_string(),
            beside: None,
            without: None,
        }
    }

    fn property(node: &'static str, property: &'static str, value: impl ToString) -> Self {
        Self {
            node,
            child: None,
            property: Some(property),
            value: value.to_string(),
            beside: None,
            without: None,
        }
    }

    /// The node's own argument.
    fn argument(node: &'static str, value: impl ToString) -> Self {
        Self { node, child: None, property: None, value: value.to_string(), beside: None, without: None }
    }

    /// With a property behind the argument.
    fn and(self, property: &'static str, value: impl ToString) -> Self {
        Self { beside: Some((property, value.to_string())), ..self }
    }
}

/// What of the batch must be written so that the micro-batch is that one and the step stays as large as it was.
fn batch(plan: &Plan, micro: u64) -> Vec<Line> {
    let train = &plan.job.train;
    let Some(batch) = &plan.batch else { return Vec::new() };
    let passes = batch.accumulation.value * batch.micro_batch_size.value / micro.max(1);
    let mut lines = Vec::new();
    if !train.micro_batch_size.is_absent() {
        lines.push(Line::child("train", "micro-batch", micro));
    }
    if train.global_batch.is_absent() || !train.accumulation.is_absent() {
        lines.push(Line::child("train", "accumulation", passes));
    }
    lines
}

/// What of the batch must be written so that the step stays as large as it was when fewer ranks read data.
fn passes(plan: &Plan, more: u64) -> Vec<Line> {
    let train = &plan.job.train;
    let Some(batch) = &plan.batch else { return Vec::new() };
    // Where only the global batch is written, accumulation follows.
    if !train.global_batch.is_absent() && train.accumulation.is_absent() {
        return Vec::new();
    }
    vec![Line::child("train", "accumulation", batch.accumulation.value * more)]
}

fn of_edit(plan: &Plan, edit: Edit) -> Vec<Line> {
    let more = |degree: u64, of: fn(&Mesh) -> u64| degree / plan.mesh.as_ref().map_or(1, of).max(1);
    match edit {
        Edit::FlashAttention => vec![Line::child("train", "flash-attention", "#true")],
        Edit::Checkpointing => vec![Line::child("train", "activation-checkpointing", "#true")],
        Edit::MicroBatch(micro) => batch(plan, micro),
        Edit::FullShard => vec![Line::child("parallel", "strategy", "\"full-shard\"")],
        Edit::Wrap => wrap(plan).into_iter().collect(),
        Edit::ShardedEngine => {
            let launcher = plan.job.parallel.as_ref().is_some_and(|one| !one.launcher.is_absent());
            let without = launcher.then_some("launcher");
            let engine = Line { without, ..Line::property("parallel", "engine", "\"fsdp\"") };
            std::iter::once(engine).chain(wrap(plan)).collect()
        }
        Edit::TensorDegree(degree) => {
            let more = more(degree, |mesh| mesh.tensor_degree.value);
            let line = Line::child("parallel", "tensor-degree", degree);
            std::iter::once(line).chain(passes(plan, more)).collect()
        }
        Edit::ContextDegree(degree) => {
            let more = more(degree, |mesh| mesh.context_degree.value);
            let line = Line::child("parallel", "context-degree", degree);
            std::iter::once(line).chain(passes(plan, more)).collect()
        }
        Edit::PipelineDegree(degree) => {
            pipeline(plan, degree, more(degree, |mesh| mesh.pipeline_degree.value))
        }
        Edit::Nf4 => {
            let precision = plan.job.train.precision.value().map_or("bf16", String::as_str);
            vec![Line::argument("quantize", "\"nf4\"").and("compute", format!("\"{precision}\""))]
        }
        Edit::ShardDegree(degree) => vec![Line::child("parallel", "shard-degree", degree)],
        Edit::ShardOptimizerState => vec![Line::child("parallel", "shard-optimizer-state", "#true")],
        Edit::OffloadActivations => vec![Line::child("parallel", "offload-activations", "#true")],
        Edit::OffloadStates => vec![Line::child("parallel", "offload", "#true")],
        Edit::Nodes(nodes) => {
            vec![Line::property("cluster", "nodes", nodes)]
        }
        Edit::Instance(name) => vec![Line::argument("cluster", format!("\"{name}\""))],
    }
}

/// The layers' class, where it is known.
fn wrap(plan: &Plan) -> Option<Line> {
    let architecture = plan.model.as_ref().and_then(|model| model.architecture.as_ref())?;
    Some(Line::child("parallel", "wrap", format!("\"{}\"", architecture.family.wrap_class())))
}

/// So many stages, filled with all the passes of a step: what is left to accumulate is one pipeline's.
fn pipeline(plan: &Plan, stages: u64, more: u64) -> Vec<Line> {
    let Some(batch) = &plan.batch else { return Vec::new() };
    let microbatches = batch.num_micro_batches * batch.accumulation.value * more;
    let mut lines =
        vec![Line::child("parallel", "pipeline-degree", stages).and("microbatches", microbatches)];
    if batch.accumulation.value > 1 && !plan.job.train.accumulation.is_absent() {
        lines.push(Line::child("train", "accumulation", 1));
    }
    lines
}

fn words(line: &Line) -> String {
    let beside = line.beside.as_ref().map(|(name, value)| format!(" {name}={value}")).unwrap_or_default();
    match (line.child, line.property) {
        (Some(child), _) => format!("{child} {}{beside}", line.value),
        (None, Some(property)) => format!("{property}={}", line.value),
        (None, None) => format!("{} {}{beside}", line.node, line.value),
    }
}

/// The values as `--set` takes them: `train.micro-batch=4`.
pub(super) fn sets(plan: &Plan, edits: &[Edit]) -> Vec<String> {
    let of_line = |line: Line| {
        let steps = [Some(line.node), line.child, line.property];
        let path = steps.into_iter().flatten().collect::<Vec<_>>().join(".");
        let beside = line.beside.map(|(name, value)| format!("{path}.{name}={value}"));
        std::iter::once(format!("{path}={}", line.value)).chain(beside).collect::<Vec<_>>()
    };
    edits.iter().flat_map(|edit| of_edit(plan, *edit)).flat_map(of_line).collect()
}

/// What to type, one text for each value.
pub(super) fn lines(plan: &Plan, edits: &[Edit]) -> Vec<String> {
    edits.iter().flat_map(|edit| of_edit(plan, *edit)).map(|line| words(&line)).collect()
}

/// What must go where the edits are written, as `--set` would name it: `parallel.launcher`.
pub(super) fn removed(plan: &Plan, edits: &[Edit]) -> Vec<String> {
    let of_line = |line: Line| line.without.map(|property| format!("{}.{property}", line.node));
    edits.iter().flat_map(|edit| of_edit(plan, *edit)).filter_map(of_line).collect()
}

/// What to type for another micro-batch at the same global batch.
pub(super) fn batch_lines(plan: &Plan, micro: u64) -> Vec<String> {
    batch(plan, micro).iter().map(words).collect()
}

/// The edits written into the file that has the job, as one replacement; none where they would not count there.
pub(super) fn fix(context: &Context, edits: &[Edit]) -> Option<Written> {
    let job = &context.plan.job;
    let id = job.span.source;
    let source = context.sources.get(id)?;
    let name = job.name.value()?;
    let top = [PathStep::with("job", name)];
    let range = edit::locate(&source.text, &top).ok()?;
    let mut text = source.text.to_string();
    for line in edits.iter().flat_map(|edit| of_edit(context.plan, *edit)) {
        if overridden(context, &line, id, &range).is_some() {
            return None;
        }
        text = written(&text, &top, &line)?;
    }
    let (start, end, new) = difference(&source.text, &text);
    Some(Written { span: Span::new(id, start, end), text: new.to_owned() })
}

/// Why an edit cannot be written into the job, where a value that it changes is held from outside: a fragment.
pub(super) fn held(context: &Context, edits: &[Edit]) -> Option<String> {
    let job = &context.plan.job;
    let id = job.span.source;
    let range =
        edit::locate(&context.sources.get(id)?.text, &[PathStep::with("job", job.name.value()?)]).ok()?;
    let mut lines = edits.iter().flat_map(|edit| of_edit(context.plan, *edit));
    let span = lines.find_map(|line| overridden(context, &line, id, &range))?;
    let source = context.sources.get(span.source)?;
    if source.name.starts_with("<--set") {
        return Some("`--set` holds its value".to_owned());
    }
    // Of a manifest that is no file nothing can be written, whatever stands in it.
    let (line, _) = source.line_column(span.start);
    is_file(&source.name).then(|| format!("{}:{line} holds its value", source.name))
}

/// Where the value stands if a text in the job would not change it: in an environment or on the command line.
fn overridden(
    context: &Context,
    line: &Line,
    id: trainc_diag::source::SourceId,
    job: &std::ops::Range<usize>,
) -> Option<Span> {
    let plan = &context.plan.job;
    let (train, parallel) = (&plan.train, plan.parallel.as_ref());
    let span = match (line.node, line.child) {
        ("train", Some("micro-batch")) => train.micro_batch_size.span(),
        ("train", Some("accumulation")) => train.accumulation.span(),
        ("train", Some("flash-attention")) => train.flash_attention.span(),
        ("train", Some("activation-checkpointing")) => train.activation_checkpointing.span(),
        ("parallel", Some("strategy")) => parallel.and_then(|parallel| parallel.strategy.span()),
        ("parallel", Some("tensor-degree")) => parallel.and_then(|parallel| parallel.tensor_degree.span()),
        ("parallel", Some("context-degree")) => parallel.and_then(|parallel| parallel.context_degree.span()),
        ("parallel", Some("pipeline-degree")) => {
            parallel.and_then(|parallel| parallel.pipeline_degree.span())
        }
        ("parallel", None) => parallel.and_then(|parallel| parallel.engine.span()),
        ("parallel", Some("shard-degree")) => parallel.and_then(|parallel| parallel.shard_degree.span()),
        ("cluster", None) if line.property.is_none() => {
            plan.cluster.as_ref().and_then(|cluster| cluster.instance.span())
        }
        ("cluster", _) => plan.cluster.as_ref().and_then(|cluster| cluster.nodes.span()),
        _ => None,
    };
    let gone = line.without.and_then(|_| parallel.and_then(|parallel| parallel.launcher.span()));
    [span, gone].into_iter().flatten().find(|span| {
        let file = context.sources.get(span.source).is_some_and(|source| is_file(&source.name));
        let outside = (span.start as usize) < job.start || (span.end as usize) > job.end;
        !file || span.source == id && outside
    })
}

fn written(text: &str, top: &[PathStep<'_>], line: &Line) -> Option<String> {
    let node: Vec<PathStep<'_>> = top.iter().copied().chain([PathStep::named(line.node)]).collect();
    let edited = match (line.child, line.property) {
        (Some(child), _) => {
            let path: Vec<PathStep<'_>> = node.iter().copied().chain([PathStep::named(child)]).collect();
            let new = words(line);
            if edit::locate(text, &path).is_ok() {
                let text = edit::set_argument(text, &path, 0, &line.value).ok()?.text;
                return match &line.beside {
                    Some((name, value)) => Some(edit::set_property(&text, &path, name, value).ok()?.text),
                    None => Some(text),
                };
            } else if edit::locate(text, &node).is_ok() {
                edit::insert_child(text, &node, &new)
            } else if line.node == "train" {
                edit::insert_child(text, top, &format!("train {{\n    {new}\n}}"))
            } else {
                // `parallel` and `cluster` are not laid over a base without saying what they are.
                return None;
            }
        }
        (None, Some(property)) => {
            let set = edit::set_property(text, &node, property, &line.value);
            match line.without {
                Some(gone) => set.and_then(|set| edit::remove_property(&set.text, &node, gone)),
                None => set,
            }
        }
        (None, None) if line.node == "cluster" => edit::set_argument(text, &node, 0, &line.value),
        (None, None) => edit::insert_child(text, top, &words(line)),
    };
    edited.ok().map(|edited| edited.text)
}

/// The place where two texts differ, in bytes of the old one, and what stands there in the new one.
fn difference<'a>(old: &str, new: &'a str) -> (usize, usize, &'a str) {
    let mut start = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
    while !(old.is_char_boundary(start) && new.is_char_boundary(start)) {
        start -= 1;
    }
    let rest = old.len().min(new.len()) - start;
    let mut tail = old.bytes().rev().zip(new.bytes().rev()).take(rest).take_while(|(a, b)| a == b).count();
    while !(old.is_char_boundary(old.len() - tail) && new.is_char_boundary(new.len() - tail)) {
        tail -= 1;
    }
    (start, old.len() - tail, new.get(start..new.len() - tail).unwrap_or(""))
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn the_difference_is_as_small_as_can_be() {
        assert_eq!(difference("a 2\nb", "a 1\nb"), (2, 3, "1"));
        assert_eq!(difference("ab", "aab"), (1, 1, "a"));
        assert_eq!(difference("aä", "aö"), (1, 3, "ö"));
        assert_eq!(difference("same", "same"), (4, 4, ""));
    }
}
