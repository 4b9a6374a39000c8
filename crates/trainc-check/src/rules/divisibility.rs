//! Parallelism degrees compared with the model's dimensions: heads, widths, layers and sequence length.

use crate::Context;
use crate::codes;
use crate::queries::dimensions::{NO_TENSOR_DEGREE, gcd, tensor_degree_multiple, tensor_dimensions};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Help, Problems, Severity};
use trainc_ir::architecture::{Architecture, Positions};
use trainc_ir::{Axis, Mesh, ModelFacts, Parallel, Plan, Scalar, Val};
use trainc_plan::plan::divisors::{divisors, near_divisors};
use trainc_predict::divides_heads;

declare_code!(
    T0391,
    "degree-model-mismatch",
    Error,
    "a degree that does not divide the model's dimensions",
    ends: Speed,
    supersedes: { Value: [codes::T0807] },
);
declare_code!(
    T0392,
    "uneven-pipeline-stages",
    Note,
    "a number of layers that is not divisible by the pipeline stages"
);
declare_code!(T0393, "head-dimension-alignment", Warning, "a head dimension that is not a multiple of 8");
declare_code!(
    T0394,
    "sequence-exceeds-positions",
    Error,
    "a sequence longer than the model's positions",
    ends: Speed
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0391, &T0392, &T0393, &T0394];

/// Multiple to which tensor cores pad (BLOOM measurements: 20 to 25 % lost at head dimensions 108 and 150).
const HEAD_ALIGNMENT: u64 = 8;

/// Checks the degrees and dimensions. Requires the architecture; the parameter count alone is not enough.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    let Some(model) = &plan.model else { return };
    let Some(architecture) = &model.architecture else { return };
    check_head_dim(plan, model, architecture, problems);
    check_positions(plan, model, architecture, problems);
    let (Some(parallel), Some(mesh)) = (&plan.job.parallel, &plan.mesh) else { return };
    check_tensor_degree(parallel, mesh, model, architecture, problems);
    check_context_degree(plan, parallel, mesh, problems);
    check_ulysses_degree(parallel, mesh, model, architecture, problems);
    check_layers(parallel, mesh, architecture, problems);
}

/// Returns the span of the first of these dimensions in the manifest, otherwise of the model's name.
fn dimension_span(plan: &Plan, names: &[&str]) -> Option<Span> {
    let model = plan.job.model.as_ref()?;
    let written = model.dimensions.iter().find(|(name, _)| names.contains(name));
    Some(written.map_or_else(|| model.name.span().unwrap_or(model.span), |(_, val)| val.span_or(model.span)))
}

/// Returns the divisors of `total` nearest to `wanted`, as text and as numbers.
fn nearest_divisors(total: u64, wanted: u64) -> Vec<u64> {
    let (below, above) = near_divisors(total, wanted);
    [below, above].into_iter().flatten().collect()
}

/// Returns a help with values of a degree.
pub(super) fn degree_help(name: &str, values: &[u64]) -> Help {
    let shown: Vec<String> = values.iter().map(u64::to_string).collect();
    let codes: Vec<String> = values.iter().map(|value| format!("{name} {value}")).collect();
    Help::choose(format!("write `{name}` {}", text::list(&shown, "or")), &codes)
}

fn check_tensor_degree(
    parallel: &Parallel,
    mesh: &Mesh,
    model: &ModelFacts,
    architecture: &Architecture,
    problems: &mut Problems,
) {
    let degree = &mesh.tensor_degree;
    if degree.value <= 1 {
        return;
    }
    let span = degree.span_or(parallel.span);
    let dims = tensor_dimensions(architecture);
    let mut broken: Vec<(&str, u64)> =
        dims.into_iter().filter(|(_, n)| *n > 0 && !n.is_multiple_of(degree.value)).collect();
    if architecture.kv_heads == architecture.heads {
        broken.retain(|(name, _)| *name != "kv-heads");
    }
    if broken.is_empty() {
        let vocab = architecture.vocab;
        if !vocab.is_multiple_of(degree.value) {
            let padded = vocab.div_ceil(degree.value) * degree.value;
            problems.push(
                Diagnostic::new(&T0391, span, format!("`tensor-degree` {} does not divide the vocabulary of \
                    {} tokens", degree.value, text::group_digits(vocab)))
                    .severity(Severity::Warning)
                    .help(format!("pad the embedding to {} tokens in the script, and write `vocab {padded}`", text::group_digits(padded)))
                    .note("an embedding split along the vocabulary must be padded; one split along the \
                        hidden dimension need not be")
                    .fact("vocab", vocab),
            );
        }
        return;
    }
    let common = tensor_degree_multiple(mesh, architecture);
    let legal = nearest_divisors(common, degree.value);
    let shown: Vec<String> = broken.iter().map(|(name, n)| format!("{name} {}", text::group_digits(*n))).collect();
    let mut diagnostic = Diagnostic::new(
        &T0391,
        span,
        format!("`tensor-degree` {} does not divide {} of `{}`", degree.value, text::list(&shown, "and"), model.name),
    )
    .note("each tensor rank holds whole heads and an equal slice of `hidden` and `ffn` (SMP and \
        Megatron-LM; pytorch/torchtitan#4016)")
    .fact("legal", legal.clone());
    let are_heads = broken.iter().any(|(name, _)| name.contains("heads"));
    if mesh.law.splits_unevenly && !are_heads {
        diagnostic = diagnostic
            .severity(Severity::Warning)
            .note("transformers splits it unevenly: every rank waits for the one with the largest part");
    }
    diagnostic = if legal.is_empty() || common == 1 {
        diagnostic.help(NO_TENSOR_DEGREE)
    } else {
        diagnostic.help(degree_help("tensor-degree", &legal))
    };
    problems.push(diagnostic);
}

fn check_context_degree(plan: &Plan, parallel: &Parallel, mesh: &Mesh, problems: &mut Problems) {
    let degree = &mesh.context_degree;
    let Some(length) = plan.job.train.sequence_length.val() else { return };
    if degree.value <= 1 || length.value.is_multiple_of(degree.value) {
        return;
    }
    // Inside the shard axis it must divide the shard degree too, beside it what both have.
    let beside = if mesh.law.inside(Axis::Context).is_some() { 1 } else { degree.value };
    let room = mesh.shard_degree.value.saturating_mul(beside);
    let legal = nearest_divisors(gcd(length.value, room), degree.value);
    problems.push(
        Diagnostic::new(
            &T0391,
            degree.span_or(parallel.span),
            format!(
                "`context-degree` {} does not divide the sequence length of {} tokens",
                degree.value,
                text::group_digits(length.value)
            ),
        )
        .label(length.span_or(parallel.span), "the sequence length")
        .help(if legal.is_empty() {
            Help::remove("context-degree").or_else("pad the sequence")
        } else {
            degree_help("context-degree", &legal)
        })
        .note("each rank holds an equal slice of every sequence")
        .fact("legal", legal.clone()),
    );
}

/// Checks the heads that a Ulysses group divides inside attention (DeepSpeed, `UlyssesSPAttentionHF`).
fn check_ulysses_degree(
    parallel: &Parallel,
    mesh: &Mesh,
    model: &ModelFacts,
    architecture: &Architecture,
    problems: &mut Problems,
) {
    let degree = &mesh.ulysses_degree;
    let splits = |parts: u64| divides_heads(architecture.heads, architecture.kv_heads, parts);
    if degree.value <= 1 || architecture.heads == 0 || splits(degree.value) {
        return;
    }
    let mut legal = divisors(gcd(architecture.heads, mesh.world_size));
    legal.retain(|parts| *parts > 1 && splits(*parts));
    problems.push(
        Diagnostic::new(
            &T0391,
            degree.span_or(parallel.span),
            format!(
                "`ulysses-degree` {} does not divide heads {} and kv-heads {} of `{}`",
                degree.value, architecture.heads, architecture.kv_heads, model.name
            ),
        )
        .help(if legal.is_empty() {
            Help::remove("ulysses-degree")
        } else {
            degree_help("ulysses-degree", &legal)
        })
        .note(
            "inside attention each rank has whole heads; kv-heads may also be fewer than ranks, each for as \
                many of them (DeepSpeed 0.19.8, `UlyssesSPAttentionHF`)",
        )
        .fact("legal", legal.clone()),
    );
}

fn check_layers(parallel: &Parallel, mesh: &Mesh, architecture: &Architecture, problems: &mut Problems) {
    let stages = &mesh.pipeline_degree;
    let layers = architecture.layers + architecture.decoder_layers;
    // A device map assigns layers by memory, not by count.
    if !mesh.law.has_stages() || stages.value <= 1 || layers.is_multiple_of(stages.value) {
        return;
    }
    let by_hand = parallel
        .options
        .iter()
        .find(|option| option.name == "auto-partition" && option.value.value() == Some(&Scalar::Bool(false)));
    let legal = nearest_divisors(gcd(layers, mesh.world_size), stages.value);
    let most = layers.div_ceil(stages.value);
    let diagnostic = Diagnostic::new(
        &T0392,
        stages.span_or(parallel.span),
        format!(
            "{layers} layers over {} stages: some stages hold {most}, others {}",
            stages.value,
            layers / stages.value
        ),
    )
    .note(format!(
        "the slowest stage determines the step time: {most} × {} / {layers} = {} times an even split",
        stages.value,
        text::short_number((most * stages.value) as f64 / layers as f64)
    ))
    .fact("layers", layers)
    .fact("legal", legal.clone());
    problems.push(match by_hand {
        Some(option) => diagnostic
            .severity(Severity::Warning)
            .label(option.span, "the script assigns layers to stages")
            .help(if legal.is_empty() {
                Help::write("auto-partition #true")
            } else {
                degree_help("pipeline-degree", &legal).or("auto-partition #true")
            }),
        None => diagnostic
            .note("`auto-partition` balances the stages automatically, including embedding and head"),
    });
}

fn check_head_dim(plan: &Plan, model: &ModelFacts, architecture: &Architecture, problems: &mut Problems) {
    let dim = architecture.head_dim;
    if dim == 0 || dim.is_multiple_of(HEAD_ALIGNMENT) {
        return;
    }
    let Some(span) = dimension_span(plan, &["heads", "head-dim", "hidden"]) else { return };
    let (hidden, heads) = (architecture.hidden, architecture.heads);
    let better = near_heads(hidden, heads);
    let mut diagnostic = Diagnostic::new(
        &T0393,
        span,
        format!("`{}` has head dimension {hidden} / {heads} = {dim}, not a multiple of {HEAD_ALIGNMENT}", model.name),
    )
    .note("tensor cores pad to multiples of 8: BLOOM's trials lost 21 to 25 % of throughput at head \
        dimensions 150 and 108 (BigScience, 2022)")
    .fact("head_dim", dim);
    let from_scratch = plan.job.model.as_ref().is_some_and(|model| !model.dimensions.is_empty());
    if let Some(better) = better.filter(|_| from_scratch) {
        diagnostic =
            diagnostic.write(format!("heads {better}")).and_text(&format!(" for head dimension {}", hidden / better));
    }
    problems.push(diagnostic);
}

/// Returns the nearest number of heads whose dimension is a multiple of 8.
fn near_heads(hidden: u64, heads: u64) -> Option<u64> {
    trainc_plan::plan::divisors::divisors(hidden)
        .into_iter()
        .filter(|n| (hidden / n).is_multiple_of(HEAD_ALIGNMENT) && hidden / n >= 32)
        .min_by_key(|n| n.abs_diff(heads))
}

fn check_positions(plan: &Plan, model: &ModelFacts, architecture: &Architecture, problems: &mut Problems) {
    let (Some(length), Some(train_span)) = (plan.job.train.sequence_length.val(), plan.job.train.span) else {
        return;
    };
    let longest = |limit: &u64| length.value > *limit;
    let (limit, severity) = match architecture.sequence_limit() {
        Some(limit) => (limit, Severity::Error),
        // State spaces and RWKV have no attention, and thus no positions.
        None if !has_attention(architecture) => return,
        None if architecture.position_kind == Positions::Rotary => {
            (architecture.positions, Severity::Warning)
        }
        None => return,
    };
    if limit == 0 || !longest(&limit) {
        return;
    }
    let diagnostic = Diagnostic::new(
        &T0394,
        length.span_or(train_span),
        format!(
            "`sequence-length` {} exceeds the {} positions of `{}`",
            text::group_digits(length.value),
            text::group_digits(limit),
            model.name
        ),
    )
    .severity(severity)
    .fact("positions", limit);
    let diagnostic = match written_positions(plan) {
        Some(val) => diagnostic.label(val.span_or(train_span), "the positions"),
        None => diagnostic,
    };
    problems.push(if severity == Severity::Error {
        diagnostic
            .write(format!("sequence-length {limit}")).and_text(" or less")
            .note("the model has a table of learned positions: a lookup beyond its end fails on the GPU")
    } else {
        diagnostic
            .write(format!("sequence-length {limit}")).or_else("scale the rotation in the script \
                (`rope_scaling`)")
            .note("rotary positions have no table, but the model was not trained on positions beyond this")
    });
}

fn has_attention(architecture: &Architecture) -> bool {
    architecture.layer_kinds.iter().flat_map(|kind| &kind.cores).any(|core| core.per_key > 0)
}

fn written_positions(plan: &Plan) -> Option<&Val<u64>> {
    plan.job.model.as_ref()?.dimensions.iter().find(|(name, _)| *name == "positions").map(|(_, val)| val)
}
