//! Edits that the cost model proposes, as text of the manifest: what to type, and what `check --fix` writes.

use crate::Context;
use trainc_diag::source::{Span, is_file};
use trainc_diag::{Edit, NodeStep};
use trainc_ir::{Mesh, Origin, Plan};
use trainc_language::NodeType as _;
use trainc_plan::edit_manifest;
use trainc_predict::memory::remedies::Edit as Change;
use trainc_syntax::edit;

/// A replacement of one place of a source.
pub(crate) struct Replacement {
    /// The place.
    pub(crate) span: Span,
    /// The new text.
    pub(crate) text: String,
}

/// Returns the lines that set the micro-batch and keep the global batch.
fn micro_batch_lines(plan: &Plan, micro: u64) -> Vec<Edit> {
    let train = &plan.job.train;
    let Some(batch) = &plan.batch else { return Vec::new() };
    let passes = batch.accumulation.value * batch.micro_batch_size.value / micro.max(1);
    let mut lines = Vec::new();
    if !train.micro_batch_size.is_absent() {
        lines.push(Edit::argument(&["train", "micro-batch"], micro));
    }
    if train.global_batch.is_absent() || !train.accumulation.is_absent() {
        lines.push(Edit::argument(&["train", "accumulation"], passes));
    }
    lines
}

/// Returns the lines that keep the global batch when `factor` times fewer ranks read data.
fn accumulation_lines(plan: &Plan, factor: u64) -> Vec<Edit> {
    let train = &plan.job.train;
    let Some(batch) = &plan.batch else { return Vec::new() };
    // If only the global batch is written, accumulation follows from it.
    if !train.global_batch.is_absent() && train.accumulation.is_absent() {
        return Vec::new();
    }
    vec![Edit::argument(&["train", "accumulation"], batch.accumulation.value * factor)]
}

fn edits_of_change(plan: &Plan, change: Change) -> Vec<Edit> {
    let more = |degree: u64, of: fn(&Mesh) -> u64| degree / plan.mesh.as_ref().map_or(1, of).max(1);
    match change {
        Change::FlashAttention => vec![Edit::argument(&["train", "flash-attention"], "#true")],
        Change::Checkpointing => vec![Edit::argument(&["train", "activation-checkpointing"], "#true")],
        Change::MicroBatch(micro) => micro_batch_lines(plan, micro),
        Change::FullShard => {
            let word = plan.mesh.as_ref().and_then(|mesh| mesh.law.whole_world_strategy());
            word.map(|word| Edit::argument(&["parallel", "strategy"], word)).into_iter().collect()
        }
        Change::Wrap => wrap_line(plan).into_iter().collect(),
        Change::ShardedEngine => {
            let launcher = plan.job.parallel.as_ref().is_some_and(|one| !one.launcher.is_absent());
            // The launcher of DDP does not start FSDP.
            let without = launcher.then(|| Edit::without_property(&["parallel"], "launcher"));
            let engine = Edit::property(&["parallel"], "engine", "fsdp");
            [Some(engine), without, wrap_line(plan)].into_iter().flatten().collect()
        }
        Change::TensorDegree(degree) => {
            let more = more(degree, |mesh| mesh.tensor_degree.value);
            let line = Edit::argument(&["parallel", "tensor-degree"], degree);
            std::iter::once(line).chain(accumulation_lines(plan, more)).collect()
        }
        Change::ContextDegree(degree) => {
            let more = more(degree, |mesh| mesh.context_degree.value);
            let line = Edit::argument(&["parallel", "context-degree"], degree);
            std::iter::once(line).chain(accumulation_lines(plan, more)).collect()
        }
        Change::PipelineDegree(degree) => {
            pipeline(plan, degree, more(degree, |mesh| mesh.pipeline_degree.value))
        }
        Change::Nf4 => {
            let precision = plan.job.train.precision.value().map_or("bf16", String::as_str);
            vec![Edit::argument(&["quantize"], "nf4"), Edit::property(&["quantize"], "compute", precision)]
        }
        Change::ShardDegree(degree) => vec![Edit::argument(&["parallel", "shard-degree"], degree)],
        Change::ShardOptimizerState => vec![Edit::argument(&["parallel", "shard-optimizer-state"], "#true")],
        Change::OffloadActivations => vec![Edit::argument(&["parallel", "offload-activations"], "#true")],
        Change::OffloadStates => vec![Edit::argument(&["parallel", "offload"], "#true")],
        Change::Nodes(nodes) => {
            vec![Edit::property(&["cluster"], "nodes", nodes)]
        }
        Change::Instance(name) => vec![Edit::argument(&["cluster"], name)],
    }
}

/// Returns the line with the class of the model's layers, if it is known.
fn wrap_line(plan: &Plan) -> Option<Edit> {
    let architecture = plan.model.as_ref().and_then(|model| model.architecture.as_ref())?;
    let class = Some(architecture.family.wrap_class()).filter(|class| !class.is_empty())?;
    Some(Edit::argument(&["parallel", "wrap"], class))
}

/// Returns the lines of a pipeline with `stages` stages that takes all passes of a step as micro-batches.
fn pipeline(plan: &Plan, stages: u64, more: u64) -> Vec<Edit> {
    let Some(batch) = &plan.batch else { return Vec::new() };
    let microbatches = batch.num_micro_batches * batch.accumulation.value * more;
    let path = ["parallel", "pipeline-degree"];
    let mut lines = vec![Edit::argument(&path, stages), Edit::property(&path, "microbatches", microbatches)];
    if batch.accumulation.value > 1 && !plan.job.train.accumulation.is_absent() {
        lines.push(Edit::argument(&["train", "accumulation"], 1));
    }
    lines
}

/// Returns the edits of the manifest that change the layout so.
pub(crate) fn manifest_edits(plan: &Plan, changes: &[Change]) -> Vec<Edit> {
    changes.iter().flat_map(|change| edits_of_change(plan, *change)).collect()
}

/// Returns what to type for another micro-batch at the same global batch.
pub(crate) fn batch_lines(plan: &Plan, micro: u64) -> Vec<String> {
    Edit::lines(&micro_batch_lines(plan, micro))
}

/// Returns the edits as one replacement in the job's file; `None` if values from outside it would override
/// them.
pub(crate) fn build_fix(context: &Context, edits: &[Edit]) -> Option<Replacement> {
    if overriding_span(context, edits).is_some() {
        return None;
    }
    let id = context.plan.job.span.source;
    let source = context.sources.get(id)?;
    let text = edit_manifest(context.plan, &source.text, edits).ok()?;
    let (start, end, new) = edit::changed_range(&source.text, &text);
    Some(Replacement { span: Span::new(id, start, end), text: new.to_owned() })
}

/// Describes the place outside the job that overrides an edited value, as a fragment.
pub(crate) fn describe_override(context: &Context, edits: &[Edit]) -> Option<String> {
    let span = overriding_span(context, edits)?;
    let source = context.sources.get(span.source)?;
    if source.name.starts_with("<--set") {
        return Some("overridden by `--set`".to_owned());
    }
    // A manifest that is not a file cannot be edited at all.
    let (line, _) = source.line_column(span.start);
    is_file(&source.name).then(|| format!("overridden at {}:{line}", source.name))
}

/// Returns the place of a value that the edits of the job would not change: in an environment or on the
/// command line.
fn overriding_span(context: &Context, edits: &[Edit]) -> Option<Span> {
    let job = &context.plan.job;
    let id = job.span.source;
    let top = NodeStep::by_argument("job", job.name.value()?);
    let text = &context.sources.get(id)?.text;
    let range = edit::locate(text, &[top]).ok()?;
    let is_outside = |span: &Span| {
        let file = context.sources.get(span.source).is_some_and(|source| is_file(&source.name));
        let outside = (span.start as usize) < range.start || (span.end as usize) > range.end;
        !file || span.source == id && outside
    };
    let paths: Vec<String> = edits.iter().map(Edit::path).collect();
    let mut found = None;
    job.visit("", &mut |leaf| {
        let span = leaf.origin.and_then(Origin::span).filter(is_outside);
        let is_edited = || leaf.set_path().is_some_and(|path| paths.contains(&path));
        found = found.or(span.filter(|_| is_edited()));
    });
    found
}
