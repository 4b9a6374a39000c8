//! Edits that the cost model proposes, as text of the manifest: what to type, and what `check --fix` writes.

use crate::Context;
use trainc_diag::source::{Span, is_file};
use trainc_ir::{Mesh, Plan};
use trainc_predict::memory::remedies::Edit;
use trainc_syntax::edit::{self, PathStep};

/// A replacement of one place of a source.
pub(crate) struct Replacement {
    /// The place.
    pub(crate) span: Span,
    /// The new text.
    pub(crate) text: String,
}

/// A value to write: a child of a node of the job, a property of the node, or its argument.
struct EditLine {
    node: &'static str,
    child: Option<&'static str>,
    property: Option<&'static str>,
    value: String,
    /// A property after the argument, and its value.
    with: Option<(&'static str, String)>,
    /// A property of the node that the new value makes invalid.
    without: Option<&'static str>,
}

impl EditLine {
    fn child(node: &'static str, child: &'static str, value: impl ToString) -> Self {
        Self { node, child: Some(child), property: None, value: value.to_string(), with: None, without: None }
    }

    fn property(node: &'static str, property: &'static str, value: impl ToString) -> Self {
        Self {
            node,
            child: None,
            property: Some(property),
            value: value.to_string(),
            with: None,
            without: None,
        }
    }

    /// The node's own argument.
    fn argument(node: &'static str, value: impl ToString) -> Self {
        Self { node, child: None, property: None, value: value.to_string(), with: None, without: None }
    }

    /// Adds a property after the argument.
    fn with_property(self, property: &'static str, value: impl ToString) -> Self {
        Self { with: Some((property, value.to_string())), ..self }
    }

    /// Returns the line as KDL.
    fn to_kdl(&self) -> String {
        let with = self.with.as_ref().map(|(name, value)| format!(" {name}={value}")).unwrap_or_default();
        match (self.child, self.property) {
            (Some(child), _) => format!("{child} {}{with}", self.value),
            (None, Some(property)) => format!("{property}={}", self.value),
            (None, None) => format!("{} {}{with}", self.node, self.value),
        }
    }
}

/// Returns the lines that set the micro-batch and keep the global batch.
fn micro_batch_lines(plan: &Plan, micro: u64) -> Vec<EditLine> {
    let train = &plan.job.train;
    let Some(batch) = &plan.batch else { return Vec::new() };
    let passes = batch.accumulation.value * batch.micro_batch_size.value / micro.max(1);
    let mut lines = Vec::new();
    if !train.micro_batch_size.is_absent() {
        lines.push(EditLine::child("train", "micro-batch", micro));
    }
    if train.global_batch.is_absent() || !train.accumulation.is_absent() {
        lines.push(EditLine::child("train", "accumulation", passes));
    }
    lines
}

/// Returns the lines that keep the global batch when `factor` times fewer ranks read data.
fn accumulation_lines(plan: &Plan, factor: u64) -> Vec<EditLine> {
    let train = &plan.job.train;
    let Some(batch) = &plan.batch else { return Vec::new() };
    // If only the global batch is written, accumulation follows from it.
    if !train.global_batch.is_absent() && train.accumulation.is_absent() {
        return Vec::new();
    }
    vec![EditLine::child("train", "accumulation", batch.accumulation.value * factor)]
}

fn lines_of_edit(plan: &Plan, edit: Edit) -> Vec<EditLine> {
    let more = |degree: u64, of: fn(&Mesh) -> u64| degree / plan.mesh.as_ref().map_or(1, of).max(1);
    match edit {
        Edit::FlashAttention => vec![EditLine::child("train", "flash-attention", "#true")],
        Edit::Checkpointing => vec![EditLine::child("train", "activation-checkpointing", "#true")],
        Edit::MicroBatch(micro) => micro_batch_lines(plan, micro),
        Edit::FullShard => {
            let word = plan.mesh.as_ref().and_then(|mesh| mesh.law.whole_world_strategy());
            word.map(|word| EditLine::child("parallel", "strategy", format!("\"{word}\"")))
                .into_iter()
                .collect()
        }
        Edit::Wrap => wrap_line(plan).into_iter().collect(),
        Edit::ShardedEngine => {
            let launcher = plan.job.parallel.as_ref().is_some_and(|one| !one.launcher.is_absent());
            let without = launcher.then_some("launcher");
            let engine = EditLine { without, ..EditLine::property("parallel", "engine", "\"fsdp\"") };
            std::iter::once(engine).chain(wrap_line(plan)).collect()
        }
        Edit::TensorDegree(degree) => {
            let more = more(degree, |mesh| mesh.tensor_degree.value);
            let line = EditLine::child("parallel", "tensor-degree", degree);
            std::iter::once(line).chain(accumulation_lines(plan, more)).collect()
        }
        Edit::ContextDegree(degree) => {
            let more = more(degree, |mesh| mesh.context_degree.value);
            let line = EditLine::child("parallel", "context-degree", degree);
            std::iter::once(line).chain(accumulation_lines(plan, more)).collect()
        }
        Edit::PipelineDegree(degree) => {
            pipeline(plan, degree, more(degree, |mesh| mesh.pipeline_degree.value))
        }
        Edit::Nf4 => {
            let precision = plan.job.train.precision.value().map_or("bf16", String::as_str);
            vec![
                EditLine::argument("quantize", "\"nf4\"")
                    .with_property("compute", format!("\"{precision}\"")),
            ]
        }
        Edit::ShardDegree(degree) => vec![EditLine::child("parallel", "shard-degree", degree)],
        Edit::ShardOptimizerState => vec![EditLine::child("parallel", "shard-optimizer-state", "#true")],
        Edit::OffloadActivations => vec![EditLine::child("parallel", "offload-activations", "#true")],
        Edit::OffloadStates => vec![EditLine::child("parallel", "offload", "#true")],
        Edit::Nodes(nodes) => {
            vec![EditLine::property("cluster", "nodes", nodes)]
        }
        Edit::Instance(name) => vec![EditLine::argument("cluster", format!("\"{name}\""))],
    }
}

/// Returns the line with the class of the model's layers, if it is known.
fn wrap_line(plan: &Plan) -> Option<EditLine> {
    let architecture = plan.model.as_ref().and_then(|model| model.architecture.as_ref())?;
    let class = Some(architecture.family.wrap_class()).filter(|class| !class.is_empty())?;
    Some(EditLine::child("parallel", "wrap", format!("\"{class}\"")))
}

/// Returns the lines of a pipeline with `stages` stages that takes all passes of a step as micro-batches.
fn pipeline(plan: &Plan, stages: u64, more: u64) -> Vec<EditLine> {
    let Some(batch) = &plan.batch else { return Vec::new() };
    let microbatches = batch.num_micro_batches * batch.accumulation.value * more;
    let mut lines = vec![
        EditLine::child("parallel", "pipeline-degree", stages).with_property("microbatches", microbatches),
    ];
    if batch.accumulation.value > 1 && !plan.job.train.accumulation.is_absent() {
        lines.push(EditLine::child("train", "accumulation", 1));
    }
    lines
}

/// Returns the values as `--set` takes them: `train.micro-batch=4`.
pub(crate) fn set_arguments(plan: &Plan, edits: &[Edit]) -> Vec<String> {
    let of_line = |line: EditLine| {
        let steps = [Some(line.node), line.child, line.property];
        let path = steps.into_iter().flatten().collect::<Vec<_>>().join(".");
        let with = line.with.map(|(name, value)| format!("{path}.{name}={value}"));
        std::iter::once(format!("{path}={}", line.value)).chain(with).collect::<Vec<_>>()
    };
    edits.iter().flat_map(|edit| lines_of_edit(plan, *edit)).flat_map(of_line).collect()
}

/// Returns what to type, one text for each value.
pub(crate) fn edit_lines(plan: &Plan, edits: &[Edit]) -> Vec<String> {
    edits.iter().flat_map(|edit| lines_of_edit(plan, *edit)).map(|line| line.to_kdl()).collect()
}

/// Returns the properties to remove with the edits, as `--set` names them: `parallel.launcher`.
pub(crate) fn removed_properties(plan: &Plan, edits: &[Edit]) -> Vec<String> {
    let of_line = |line: EditLine| line.without.map(|property| format!("{}.{property}", line.node));
    edits.iter().flat_map(|edit| lines_of_edit(plan, *edit)).filter_map(of_line).collect()
}

/// Returns what to type for another micro-batch at the same global batch.
pub(crate) fn batch_lines(plan: &Plan, micro: u64) -> Vec<String> {
    micro_batch_lines(plan, micro).iter().map(EditLine::to_kdl).collect()
}

/// Returns the edits as one replacement in the job's file; `None` if values from outside it would override
/// them.
pub(crate) fn build_fix(context: &Context, edits: &[Edit]) -> Option<Replacement> {
    let job = &context.plan.job;
    let id = job.span.source;
    let source = context.sources.get(id)?;
    let name = job.name.value()?;
    let top = [PathStep::by_argument("job", name)];
    let range = edit::locate(&source.text, &top).ok()?;
    let mut text = source.text.to_string();
    for line in edits.iter().flat_map(|edit| lines_of_edit(context.plan, *edit)) {
        if overriding_span(context, &line, id, &range).is_some() {
            return None;
        }
        text = write_line(&text, &top, &line)?;
    }
    let (start, end, new) = edit::changed_range(&source.text, &text);
    Some(Replacement { span: Span::new(id, start, end), text: new.to_owned() })
}

/// Describes the place outside the job that overrides an edited value, as a fragment.
pub(crate) fn describe_override(context: &Context, edits: &[Edit]) -> Option<String> {
    let job = &context.plan.job;
    let id = job.span.source;
    let range =
        edit::locate(&context.sources.get(id)?.text, &[PathStep::by_argument("job", job.name.value()?)])
            .ok()?;
    let mut lines = edits.iter().flat_map(|edit| lines_of_edit(context.plan, *edit));
    let span = lines.find_map(|line| overriding_span(context, &line, id, &range))?;
    let source = context.sources.get(span.source)?;
    if source.name.starts_with("<--set") {
        return Some("overridden by `--set`".to_owned());
    }
    // A manifest that is not a file cannot be edited at all.
    let (line, _) = source.line_column(span.start);
    is_file(&source.name).then(|| format!("overridden at {}:{line}", source.name))
}

/// Returns the place of a value that an edit of the job would not change: in an environment or on the command
/// line.
fn overriding_span(
    context: &Context,
    line: &EditLine,
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

/// Writes a line into the text of the manifest.
fn write_line(text: &str, top: &[PathStep<'_>], line: &EditLine) -> Option<String> {
    let node: Vec<PathStep<'_>> = top.iter().copied().chain([PathStep::by_name(line.node)]).collect();
    let edited = match (line.child, line.property) {
        (Some(child), _) => {
            let path: Vec<PathStep<'_>> = node.iter().copied().chain([PathStep::by_name(child)]).collect();
            let new = line.to_kdl();
            if edit::locate(text, &path).is_ok() {
                let text = edit::set_argument(text, &path, 0, &line.value).ok()?.text;
                return match &line.with {
                    Some((name, value)) => Some(edit::set_property(&text, &path, name, value).ok()?.text),
                    None => Some(text),
                };
            } else if edit::locate(text, &node).is_ok() {
                edit::insert_child(text, &node, &new)
            } else if line.node == "train" {
                edit::insert_child(text, top, &format!("train {{\n    {new}\n}}"))
            } else {
                // `parallel` and `cluster` cannot be overlaid on a base without their engine or type.
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
        (None, None) => edit::insert_child(text, top, &line.to_kdl()),
    };
    edited.ok().map(|edited| edited.text)
}
