//! Edits that the cost model proposes, as text of the manifest: what to type, and the fix that `check --fix` writes.

use super::Context;
use crate::ir::{Engine, Plan, Smp};
use crate::plan::divisors::divisors;
use crate::predict::{
    self,
    memory::remedies::{Edit, Freedom},
};
use crate::source::Span;
use crate::syntax::edit::{self, PathStep};

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
}

impl Line {
    fn child(node: &'static str, child: &'static str, value: impl ToString) -> Self {
        Self { node, child: Some(child), property: None, value: value.to_string() }
    }
}

/// Whether an optimizer steps CUDA tensors alone: the kernels of apex and bitsandbytes exist for no others.
pub(super) fn steps_on_gpu(optimizer: &str) -> bool {
    matches!(optimizer, "adamw-apex-fused" | "adamw-8bit" | "paged-adamw-8bit" | "paged-adamw-32bit")
}

/// What the manifest lets be changed: values that pass every other rule.
pub(super) fn freedom(plan: &Plan) -> Freedom {
    let (Some(mesh), Some(batch)) = (&plan.mesh, &plan.batch) else { return Freedom::default() };
    let micro = batch.micro.value;
    let per_node = mesh.gpus_per_node.max(1);
    let whole_nodes = |degree: &u64| degree.is_multiple_of(per_node) || per_node.is_multiple_of(*degree);
    let others = mesh.tensor_degree.value * mesh.pipeline_degree.value;
    let parallel = plan.job.parallel.as_ref();
    let free = match mesh.engine {
        Engine::Worker => true,
        Engine::Fsdp => parallel
            .and_then(|parallel| parallel.strategy.value())
            .is_some_and(|strategy| strategy == "hybrid-shard"),
        Engine::Smp => {
            let v1 = matches!(plan.smp, Some(Smp::V1(_)) | None);
            let sharded_optimizer = parallel.and_then(|p| p.shard_optimizer_state.get()) == Some(true);
            !v1 || others == 1 && !sharded_optimizer
        }
        Engine::Smddp | Engine::Ddp | Engine::DeviceMap | Engine::None => false,
    };
    let data = mesh.replicas.value * mesh.shard_degree.value;
    let shard_degrees = if free {
        divisors(data)
            .into_iter()
            .filter(|degree| *degree > mesh.shard_degree.value && whole_nodes(degree))
            .collect()
    } else {
        Vec::new()
    };
    // Where the shard group is the world, more nodes make it larger.
    let grows = mesh.replicas.value == 1
        && matches!(mesh.engine, Engine::Fsdp | Engine::Smp | Engine::Worker)
        && parallel.is_some_and(|parallel| parallel.shard_degree.is_absent());
    let global = plan.job.train.global_batch.get();
    let per_pass = batch.per_replica;
    let nodes = if grows && plan.deployable {
        (1..=5)
            .map(|power| mesh.nodes << power)
            .filter(|nodes| {
                let ranks = mesh.data_ranks.value * nodes / mesh.nodes.max(1);
                global.is_none_or(|global| global.is_multiple_of((per_pass * ranks).max(1)))
            })
            .collect()
    } else {
        Vec::new()
    };
    let micro_batches = divisors(micro).into_iter().filter(|smaller| *smaller < micro).collect();
    let architecture = plan.model.as_ref().and_then(|model| model.architecture.as_ref());
    let optimizer = plan.job.train.optimizer.as_ref().and_then(|optimizer| optimizer.name.value());
    let optimizer = optimizer.map_or("adamw", String::as_str);
    Freedom {
        micro_batches,
        shard_degrees,
        tensor_degrees: tensor_degrees(plan).unwrap_or_default(),
        wrap: architecture.is_some() && predict::one_unit(plan),
        nf4: nf4(plan),
        offload_states: !steps_on_gpu(optimizer),
        nodes,
    }
}

/// Tensor degrees above the present one: divisors of heads and widths inside a node, where the data ranks and the shard
/// groups divide by them. SMP v1 is asked only where tensor ranks read the same data and nothing is sharded.
fn tensor_degrees(plan: &Plan) -> Option<Vec<u64>> {
    let mesh = plan.mesh.as_ref().filter(|mesh| mesh.engine == Engine::Smp)?;
    let parallel = plan.job.parallel.as_ref()?;
    let architecture = plan.model.as_ref()?.architecture.as_ref()?;
    let (shard, own) = (mesh.shard_degree.value.max(1), mesh.tensor_degree.value.max(1));
    let v2 = matches!(plan.smp, Some(Smp::V2));
    if !v2 && (shard > 1 || parallel.prescaled_batch.get() != Some(true)) {
        return None;
    }
    // A batch that is written per pass would be another one with fewer data ranks.
    plan.job.train.global_batch.get()?;
    if !plan.job.train.accumulation.is_absent() {
        return None;
    }
    let data = mesh.replicas.value * shard;
    let widths = [architecture.heads, architecture.kv_heads, architecture.hidden, architecture.ffn];
    let divides = |degree: u64| widths.iter().all(|width| width.is_multiple_of(degree));
    let takes = |degree: u64| {
        let more = degree / own;
        let left = data / more.max(1);
        data.is_multiple_of(more) && (parallel.shard_degree.is_absent() || left.is_multiple_of(shard))
    };
    let inside = (1..=5).map(|power| own << power).take_while(|degree| *degree <= mesh.gpus_per_node);
    Some(inside.filter(|degree| divides(*degree) && takes(*degree)).collect())
}

/// Whether the engine carries 4-bit weights under the job's adapter, and nothing is quantised yet.
fn nf4(plan: &Plan) -> bool {
    let carries = plan.mesh.as_ref().is_some_and(|mesh| {
        matches!(mesh.engine, Engine::Fsdp | Engine::Smddp | Engine::Ddp | Engine::DeviceMap | Engine::None)
    });
    let computes = plan.job.train.precision.value().is_some_and(|precision| precision != "fp32");
    carries && computes && plan.job.adapter.is_some() && plan.job.quantize.is_none()
}

/// What of the batch must be written so that the micro-batch is that one and the step stays as large as it was.
fn batch(plan: &Plan, micro: u64) -> Vec<Line> {
    let train = &plan.job.train;
    let Some(batch) = &plan.batch else { return Vec::new() };
    let passes = batch.accumulation.value * batch.micro.value / micro.max(1);
    let mut lines = Vec::new();
    if !train.micro_batch.is_absent() {
        lines.push(Line::child("train", "micro-batch", micro));
    }
    if train.global_batch.is_absent() || !train.accumulation.is_absent() {
        lines.push(Line::child("train", "accumulation", passes));
    }
    lines
}

fn of_edit(plan: &Plan, edit: Edit) -> Vec<Line> {
    match edit {
        Edit::FlashAttention => vec![Line::child("train", "flash-attention", "#true")],
        Edit::Checkpointing => vec![Line::child("train", "activation-checkpointing", "#true")],
        Edit::MicroBatch(micro) => batch(plan, micro),
        Edit::FullShard => vec![Line::child("parallel", "strategy", "\"full-shard\"")],
        Edit::Wrap => {
            let architecture = plan.model.as_ref().and_then(|model| model.architecture.as_ref());
            architecture
                .map(|one| Line::child("parallel", "wrap", format!("\"{}\"", one.family.wrap_class())))
                .into_iter()
                .collect()
        }
        Edit::TensorDegree(degree) => vec![Line::child("parallel", "tensor-degree", degree)],
        Edit::Nf4 => {
            let precision = plan.job.train.precision.value().map_or("bf16", String::as_str);
            let value = format!("\"nf4\" compute=\"{precision}\"");
            vec![Line { node: "quantize", child: None, property: None, value }]
        }
        Edit::ShardDegree(degree) => vec![Line::child("parallel", "shard-degree", degree)],
        Edit::ShardOptimizerState => vec![Line::child("parallel", "shard-optimizer-state", "#true")],
        Edit::OffloadActivations => vec![Line::child("parallel", "offload-activations", "#true")],
        Edit::OffloadStates => vec![Line::child("parallel", "offload", "#true")],
        Edit::Nodes(nodes) => {
            vec![Line { node: "cluster", child: None, property: Some("nodes"), value: nodes.to_string() }]
        }
    }
}

fn words(line: &Line) -> String {
    match (line.child, line.property) {
        (Some(child), _) => format!("{child} {}", line.value),
        (None, Some(property)) => format!("{property}={}", line.value),
        (None, None) => format!("{} {}", line.node, line.value),
    }
}

/// What to type, one text for each value.
pub(super) fn lines(plan: &Plan, edits: &[Edit]) -> Vec<String> {
    edits.iter().flat_map(|edit| of_edit(plan, *edit)).map(|line| words(&line)).collect()
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
        if overridden(context, &line, id, &range) {
            return None;
        }
        text = written(&text, &top, &line)?;
    }
    let (start, end, new) = difference(&source.text, &text);
    Some(Written { span: Span::new(id, start, end), text: new.to_owned() })
}

/// Whether the value stands where a text in the job would not change it: in an environment or on the command line.
fn overridden(
    context: &Context,
    line: &Line,
    id: crate::source::SourceId,
    job: &std::ops::Range<usize>,
) -> bool {
    let plan = &context.plan.job;
    let (train, parallel) = (&plan.train, plan.parallel.as_ref());
    let span = match (line.node, line.child) {
        ("train", Some("micro-batch")) => train.micro_batch.span(),
        ("train", Some("accumulation")) => train.accumulation.span(),
        ("train", Some("flash-attention")) => train.flash_attention.span(),
        ("train", Some("activation-checkpointing")) => train.activation_checkpointing.span(),
        ("parallel", Some("strategy")) => parallel.and_then(|parallel| parallel.strategy.span()),
        ("parallel", Some("tensor-degree")) => parallel.and_then(|parallel| parallel.tensor_degree.span()),
        ("parallel", Some("shard-degree")) => parallel.and_then(|parallel| parallel.shard_degree.span()),
        ("cluster", _) => plan.cluster.as_ref().and_then(|cluster| cluster.nodes.span()),
        _ => None,
    };
    span.is_some_and(|span| {
        let file = context.sources.get(span.source).is_some_and(|source| !source.name.starts_with('<'));
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
                edit::set_argument(text, &path, 0, &line.value)
            } else if edit::locate(text, &node).is_ok() {
                edit::insert_child(text, &node, &new)
            } else if line.node == "train" {
                edit::insert_child(text, top, &format!("train {{\n    {new}\n}}"))
            } else {
                // `parallel` and `cluster` are not laid over a base without saying what they are.
                return None;
            }
        }
        (None, Some(property)) => edit::set_property(text, &node, property, &line.value),
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
