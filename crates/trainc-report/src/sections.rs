//! The sections of a plan as text, for every output: a label and its lines.

use super::json::Document;
use super::program::program;
use std::fmt::Write as _;
use trainc_diag::text;
use trainc_ir::{Channel, Field, Mesh, Origin, Plan, Val};
use trainc_predict::{Fit, Interval, round_to_u64};

/// A label and its lines.
pub(super) type Section = (&'static str, Vec<String>);

/// The text for a value that could not be computed.
pub(super) const UNKNOWN: &str = "not known";

/// The longest image name, in bytes, that is shown with its tag.
const LONGEST_IMAGE: usize = 45;

/// Returns ` (default)` for a default value.
fn default_suffix<T>(val: &Val<T>) -> &'static str {
    if matches!(val.origin, Origin::Default(_)) { " (default)" } else { "" }
}

/// Returns the sections on the job: where, cluster, image, program, model.
pub(super) fn job(document: &Document, plan: &Plan) -> Vec<Section> {
    let mut out = vec![("where", vec![region_and_account(document)]), ("cluster", cluster(plan))];
    if let Some(image) = &plan.image {
        let name = image.uri.split_once('/').map_or(image.uri.as_str(), |(_, name)| name);
        // A long tag only repeats the versions; `-v` and the request have the whole URI.
        let tagless = name.split(':').next().filter(|_| name.len() > LONGEST_IMAGE).unwrap_or(name);
        let mut line = tagless.to_owned();
        for (what, version) in [("PyTorch", &image.pytorch), ("transformers", &image.transformers)] {
            if let Some(version) = version {
                let _ = write!(line, ", {what} {version}");
            }
        }
        out.push(("image", vec![line]));
    } else if plan.job.image.is_some() {
        out.push(("image", vec![UNKNOWN.to_owned()]));
    }
    out.extend(program(document, plan).map(|lines| ("program", lines)));
    out.extend(delivery(plan).map(|lines| ("settings", lines)));
    if plan.names_model() {
        out.push(("model", model(document, plan)));
    } else if !plan.job.channels.is_empty() {
        out.push(("channels", plan.job.channels.iter().map(channel).collect()));
    }
    out
}

/// Describes where the data of a channel come from: `train: s3://example-corpus/churn/, text/csv`.
fn channel(channel: &Channel) -> String {
    let addresses =
        [&channel.s3, &channel.manifest, &channel.augmented_manifest, &channel.converse, &channel.dataset];
    let from = match (addresses.iter().find_map(|address| address.text()), channel.from.value()) {
        (Some(address), _) => address.to_owned(),
        (None, Some(storage)) => {
            format!("`{storage}`{}", channel.path.value().map_or_else(String::new, |path| format!(" {path}")))
        }
        (None, None) => channel.path.value().map_or(UNKNOWN, String::as_str).to_owned(),
    };
    let name = channel.name.value().map_or("", String::as_str);
    let kinds = [&channel.content_type, &channel.input, &channel.shard];
    let kinds = kinds.into_iter().filter_map(|kind| kind.value());
    kinds.fold(format!("{name}: {from}"), |line, kind| line + ", " + kind)
}

/// Returns whether the mesh says more than the cluster: not that of a script whose model is not named.
pub(super) fn shows_mesh(plan: &Plan) -> bool {
    plan.names_model() || plan.mesh.as_ref().is_some_and(|mesh| !mesh.law.is_script())
}

/// Returns what is not predicted of a job that names no model, in one line; nothing of any other job, whose
/// sections give the reason.
pub(super) fn not_predicted(plan: &Plan, document: &Document) -> Vec<String> {
    if plan.names_model() {
        return Vec::new();
    }
    let missing =
        if document.run.seconds.is_some() { "memory" } else { "memory, run time and expected cost" };
    vec![format!("{missing}, since the job names no `model`")]
}

/// Returns which settings the program gets, and which are assumed of it; `None` for a job without settings.
fn delivery(plan: &Plan) -> Option<Vec<String>> {
    let names =
        |all: Vec<&str>| all.into_iter().map(trainc_ir::Delivery::short).collect::<Vec<_>>().join(", ");
    let delivery = &plan.delivery;
    let passed = names(delivery.passed.iter().map(|one| one.setting.as_str()).collect());
    let assumed = names(delivery.assumed.iter().map(|one| one.setting.as_str()).collect());
    let lines = [("passed to the program", passed), ("assumed of it", assumed)];
    let some = lines.into_iter().filter(|(_, names)| !names.is_empty());
    let lines: Vec<String> = some.map(|(what, names)| format!("{what}: {names}")).collect();
    (!lines.is_empty()).then_some(lines)
}

fn region_and_account(document: &Document) -> String {
    let region = document.region.as_deref().unwrap_or("region not known");
    match &document.account {
        Some(account) => format!("{region}, account {account}"),
        None => format!("{region}, in the account of the credentials at apply"),
    }
}

/// Returns the instances and how they are paid for, with the region on the first line.
pub(super) fn cluster_and_region(document: &Document, plan: &Plan) -> Vec<String> {
    let mut lines = cluster(plan);
    if let (Some(first), Some(region)) = (lines.first_mut(), &document.region) {
        let _ = write!(first, ", in {region}");
    }
    lines
}

fn cluster(plan: &Plan) -> Vec<String> {
    let Some(cluster) = &plan.job.cluster else { return vec![missing_cluster_text(plan)] };
    let mut first = match (cluster.instance.value(), cluster.groups.is_empty()) {
        (Some(instance), _) => match cluster.nodes.get() {
            Some(nodes) => format!("{} × {instance}", text::group_digits(nodes)),
            None => instance.clone(),
        },
        (None, false) => {
            let groups: Vec<String> = cluster
                .groups
                .iter()
                .map(|group| {
                    let nodes = group.nodes.get().map_or_else(|| "?".to_owned(), text::group_digits);
                    format!("{nodes} × {}", group.instance.value().map_or("?", String::as_str))
                })
                .collect();
            groups.join(" + ")
        }
        (None, true) => UNKNOWN.to_owned(),
    };
    let machine = plan.machine.as_ref();
    if let Some(mesh) = &plan.mesh
        && machine.is_some_and(|machine| machine.gpu.is_some())
    {
        let gpus = text::count(mesh.gpus(), plan.chip_noun());
        first += &match plan.job.rank_group().and_then(|group| group.name.value()) {
            Some(group) => format!(", ranks on `{group}`: {gpus}"),
            None if cluster.groups.is_empty() => format!(" = {gpus}"),
            None => String::new(),
        };
    }
    let further = plan.fleet.alternatives().into_iter().flat_map(|all| &all.further);
    let further: Vec<&str> = further.flat_map(|one| &one.parts).map(|part| part.instance.as_str()).collect();
    if let Some(gpu) = machine.and_then(|machine| machine.gpu.as_ref()) {
        let memory = machine.and_then(|machine| machine.gpu_memory_bytes).map(text::bytes);
        let _ = write!(first, ", {gpu}");
        if let Some(memory) = memory {
            let _ = write!(first, ", {memory} each");
        }
    }
    if !further.is_empty() {
        let _ = write!(first, "; without capacity {}", text::list(&further, "or"));
    }
    let mut how = Vec::new();
    let on_sagemaker = plan.on_sagemaker.is_some();
    match (&cluster.spot, on_sagemaker) {
        (Some(spot), _) => how.push(match spot.max_wait_seconds.get() {
            Some(wait) => format!("spot (max-wait {})", text::duration(wait)),
            None => "spot".to_owned(),
        }),
        (None, true) if cluster.training_plan.value().is_some() => {
            how.push("training plan capacity".to_owned());
        }
        (None, true) => how.push("on demand".to_owned()),
        (None, false) => how.push("plan and run only, not deployable to SageMaker".to_owned()),
    }
    if on_sagemaker && let Field::Is(seconds) = &cluster.max_run_seconds {
        how.push(format!("max-run {}{}", text::duration(seconds.value), default_suffix(seconds)));
    }
    if let Some(seconds) = cluster.warm_pool_seconds.get() {
        how.push(format!("warm pool {}", text::duration(seconds)));
    }
    how.extend(super::links::network(plan));
    vec![first, how.join(", ")]
}

fn model(document: &Document, plan: &Plan) -> Vec<String> {
    let (Some(model), Some(facts)) = (&document.model, &plan.model) else { return vec![UNKNOWN.to_owned()] };
    let mut out = vec![format!("{}, {} parameters", model.name, text::group_digits(model.parameters))];
    let mut parts = Vec::new();
    for (name, value) in [
        ("layers", model.layers),
        ("hidden", model.hidden),
        ("heads", model.heads),
        ("sequence length", model.sequence_length),
    ] {
        let Some(value) = value else { continue };
        parts.push(if matches!(name, "hidden" | "sequence length") {
            format!("{name} {}", text::group_digits(value))
        } else {
            format!("{} {name}", text::group_digits(value))
        });
    }
    if !parts.is_empty() {
        out.push(parts.join(", "));
    }
    if facts.architecture.is_none() {
        out.push("only the parameter count is known: no dimensions are set".to_owned());
    }
    let mut kind = Vec::new();
    if let (Some(trainable), true) = (model.parameters_trainable, plan.job.adapter.is_some()) {
        let share = 100.0 * trainable as f64 / model.parameters.max(1) as f64;
        kind.push(format!("trainable: {} ({}%)", text::group_digits(trainable), text::short_number(share)));
    }
    if let Some(kind_of) = plan.job.quantize.as_ref().and_then(|quantize| quantize.kind.value()) {
        kind.push(format!("base weights in {kind_of}"));
    }
    if !kind.is_empty() {
        out.push(kind.join("; "));
    }
    out
}

/// Returns the mesh in a line: `smp: 2 replicas × shard 128 = 256 GPUs`.
pub(super) fn mesh(plan: &Plan, mesh: &Mesh) -> String {
    let mut engine = plan.engine.map_or("", |engine| engine.front.title).to_owned();
    // What a program's file decides is not in the words of the manifest.
    let reads_file = plan.engine.is_some_and(|engine| engine.front.file.is_some());
    let parallel = plan.job.parallel.as_ref();
    if let Some(strategy) = mesh.law.strategy(parallel).filter(|_| reads_file) {
        let _ = write!(engine, " {}", strategy.word);
    }
    let what = if mesh.law.is_script() { "host" } else { "replica" };
    if mesh.law.is_device_map() {
        return format!(
            "{engine}: one process, layers split over {}",
            text::count(mesh.pipeline_degree.value, "GPU")
        );
    }
    let mut factors = vec![text::count(mesh.replicas.value, what)];
    for axis in mesh.law.factors.iter().map(|factor| factor.axis).filter(|axis| mesh.degree(*axis) > 1) {
        factors.push(format!("{} {}", axis.word(), text::group_digits(mesh.degree(axis))));
    }
    let mut line = format!("{engine}: {}", factors.join(" × "));
    let ranks = mesh.ranks();
    if !mesh.law.is_script() {
        let _ = write!(line, " = {}", text::count(ranks, plan.rank_noun()));
        if ranks < mesh.gpus() {
            let _ = write!(line, " of {}", text::group_digits(mesh.gpus()));
        }
    }
    for inside in mesh.law.inside {
        let axis = inside.degree.axis;
        if mesh.degree(axis) > 1 {
            let outer: Vec<&str> = inside.of.iter().map(|axis| axis.word()).collect();
            let (degree, outer) = (mesh.degree(axis), text::list(&outer, "and"));
            let _ = write!(line, "; {} {degree} within the {outer} group", axis.word());
        }
    }
    line
}

/// Returns the nodes by the 3-billion-parameter rule; `None` with an adapter, since the rule counts gradients
/// and optimizer states, which frozen weights do not have, and where the rule of thumb, which AWS gives for
/// another engine, is outweighed by a prediction that the job fits.
pub(super) fn nodes_rule(plan: &Plan, document: &Document, mesh: &Mesh) -> Option<String> {
    let fits = matches!(predicted_fit(document), Some(Fit::Surely | Fit::Maybe));
    if plan.job.adapter.is_some() || (fits && !mesh.law.node_rule) {
        return None;
    }
    let (minimum, better) = (mesh.minimum_nodes.as_ref()?, mesh.recommended_nodes.as_ref()?);
    let has = mesh.nodes_of_group(trainc_ir::Axis::Shard);
    let recommended =
        if better.value > minimum.value { format!(", recommended {}", better.value) } else { String::new() };
    Some(format!("3B parameters per node: minimum {}{recommended}; has {has}", minimum.value))
}

/// Returns the global batch as the product of its factors.
pub(super) fn batch(plan: &Plan) -> Vec<String> {
    let Some(batch) = &plan.batch else {
        return without_train(plan);
    };
    let mut factors = vec![format!("micro-batch {}", text::group_digits(batch.micro_batch_size.value))];
    if batch.num_micro_batches > 1 {
        factors.push(format!("{} micro-batches", text::group_digits(batch.num_micro_batches)));
    }
    // Micro-batches are accumulated already, mostly without further passes.
    if batch.num_micro_batches <= 1 || batch.accumulation.value > 1 {
        factors.push(format!("accumulation {}", text::group_digits(batch.accumulation.value)));
    }
    if let Some(mesh) = &plan.mesh {
        factors.push(text::count(mesh.data_ranks.value, "data-parallel rank"));
    }
    let sequences = text::count(batch.global_sequences.value, "sequence");
    let mut out = vec![format!("{} = {sequences}", factors.join(" × "))];
    if tokens_of_steps(plan).is_some() {
        // The line on the run's length has the tokens per step.
    } else if let (Some(tokens), Some(length)) = (batch.global_tokens, plan.job.train.sequence_length.get()) {
        out.push(format!(
            "× {} tokens = {} tokens per step",
            text::group_digits(length),
            text::group_digits(tokens)
        ));
    } else if let Some(line) = out.first_mut() {
        line.push_str(" per step");
    }
    out
}

/// Returns the text for a figure that `train` does not determine; nothing without a model, which needs none.
fn without_train(plan: &Plan) -> Vec<String> {
    let words = if plan.job.train.span.is_some() { UNKNOWN } else { "none: the job has no `train`" };
    plan.names_model().then(|| words.to_owned()).into_iter().collect()
}

/// Returns the tokens per step if the steps account for all tokens of the run.
fn tokens_of_steps(plan: &Plan) -> Option<u64> {
    let (steps, tokens) = (plan.run.steps.as_ref()?.value, plan.run.tokens.as_ref()?.value);
    let each = plan.batch.as_ref()?.global_tokens?;
    (steps.checked_mul(each) == Some(tokens)).then_some(each)
}

/// Returns the steps and tokens of the run.
pub(super) fn run_length_lines(plan: &Plan) -> Vec<String> {
    let mut out = Vec::new();
    match (&plan.run.steps, &plan.run.tokens) {
        (Some(steps), Some(tokens)) => {
            let [all, steps] = [text::group_digits(tokens.value), text::count(steps.value, "step")];
            out.push(match tokens_of_steps(plan) {
                Some(each) => format!("{steps} × {} tokens = {all} tokens", text::group_digits(each)),
                None => format!("{steps}, {all} tokens"),
            });
        }
        (Some(steps), None) => out.push(text::count(steps.value, "step")),
        (None, Some(tokens)) => out.push(format!("{} tokens", text::group_digits(tokens.value))),
        (None, None) => out.extend(without_train(plan)),
    }
    if let Some(Val { origin: Origin::Derived(from), .. }) = &plan.run.steps {
        out.push(format!("steps: {from}"));
    }
    out
}

/// Returns the memory of a GPU, its interval, and whether it fits.
pub(super) fn memory(plan: &Plan, document: &Document) -> Vec<String> {
    let memory = &document.memory;
    let Some(bytes) = memory.per_gpu_bytes else {
        return plan.names_model().then(|| unknown_with_reason(document, "memory")).into_iter().collect();
    };
    let mut line = text::bytes(bytes);
    if let Some(capacity) = memory.capacity_bytes {
        let _ = write!(line, " of {}", text::bytes(capacity));
    }
    let _ = write!(line, " per {}", plan.rank_noun());
    if let Some(interval) = &memory.interval {
        let _ = write!(
            line,
            " ({} to {})",
            text::bytes(round_to_u64(interval.low)),
            text::bytes(round_to_u64(interval.high))
        );
    }
    let others: Vec<&str> =
        plan.unmodelled.iter().filter(|work| work.takes_memory).map(|work| work.what.as_str()).collect();
    match predicted_fit(document) {
        Some(_) if memory.fits.is_none() && !others.is_empty() => {
            _ = write!(line, ", without {}: not known whether it fits", text::list(&others, "and"));
        }
        Some(fit) => _ = write!(line, ": {}", fit.as_phrase()),
        None if memory.capacity_bytes.is_none() => line.push_str(": its memory is not known"),
        None => {}
    }
    vec![line]
}

/// Returns whether the job fits, if that is known: the memory of all its work is predicted.
pub(super) fn fit(plan: &Plan, document: &Document) -> Option<Fit> {
    let is_whole = document.memory.fits.is_some() || !plan.unmodelled.iter().any(|work| work.takes_memory);
    predicted_fit(document).filter(|_| is_whole)
}

/// Returns whether the predicted part of the job fits.
fn predicted_fit(document: &Document) -> Option<Fit> {
    let memory = &document.memory;
    Some(Fit::from_bytes(memory.per_gpu_bytes? as f64, memory.interval?, memory.capacity_bytes? as f64))
}

/// Describes a member as not known, with the reason from the notes of plan.json.
pub(super) fn unknown_with_reason(document: &Document, member: &str) -> String {
    let note = document.notes.iter().find_map(|note| note.strip_prefix(member)?.strip_prefix(": "));
    note.map_or_else(|| UNKNOWN.to_owned(), |why| format!("{UNKNOWN}: {why}"))
}

/// Returns the time of the run with its interval, the effect of interruptions, and the checkpoints.
pub(super) fn run(document: &Document) -> Vec<String> {
    let run = &document.run;
    let mut out = Vec::new();
    if let Some(seconds) = run.seconds {
        let mut line = text::rounded_duration(seconds);
        if let Some(interval) = &run.interval {
            let _ = write!(
                line,
                " ({} to {})",
                text::rounded_duration(interval.low),
                text::rounded_duration(interval.high)
            );
        }
        out.push(line);
        out.extend(
            document.notes.iter().find_map(|note| note.strip_prefix("run.seconds: ")).map(str::to_owned),
        );
        match run.parts.evaluation.flatten() {
            Some(seconds) if seconds > 0.0 => {
                out.push(format!("includes {} for evaluation", text::rounded_duration(seconds.max(1.0))));
            }
            Some(_) => {
                let why = document.notes.iter().find_map(|note| note.strip_prefix("run.parts.evaluation: "));
                out.extend(why.map(|why| format!("evaluation: {why}")));
            }
            None => out.push("excludes the evaluations: set `dataset sequences=`".to_owned()),
        }
        if run.parts.download.is_none() {
            out.push("excludes the data download at start: set `dataset size=`".to_owned());
        }
    } else if run.parts.training.is_some() {
        out.push(unknown_with_reason(document, "run.seconds"));
    }
    if let Some(spot) = &run.spot {
        let of = run.parts.interruptions.flatten().map_or_else(String::new, |lost| {
            format!("includes {} for interruptions; ", text::rounded_duration(lost.max(0.0)))
        });
        let usd = spot.p90_usd.map_or_else(String::new, |usd| format!(" and {}", text::dollars(usd)));
        let most = text::rounded_duration(spot.p90_seconds);
        // Below the expected time if at most one run in ten is interrupted at all.
        let which = if spot.p90_seconds < spot.expected_seconds {
            "90 % of runs are not interrupted and end within"
        } else {
            "90 % of runs end within"
        };
        out.push(format!("{of}{which} {most}{usd} at this speed"));
    }
    if let Some(checkpoint) = &run.checkpoint {
        let range = |ends: Interval| {
            let [low, high] = [ends.low, ends.high].map(|end| text::rounded_duration(end.max(1.0)));
            if low == high { String::new() } else { format!(" ({low} to {high})") }
        };
        let best = checkpoint.best_interval_seconds.map_or_else(String::new, |best| {
            let ends = checkpoint.best_interval.map(range).unwrap_or_default();
            format!("; optimal interval {}{ends}", text::rounded_duration(best))
        });
        out.push(format!(
            "checkpoint: {} in {}{}{best}",
            text::bytes(round_to_u64(checkpoint.bytes)),
            text::rounded_duration(checkpoint.seconds.max(1.0)),
            range(checkpoint.interval)
        ));
    }
    out
}

fn missing_cluster_text(plan: &Plan) -> String {
    match plan.job.serverless_member() {
        Some(_) => "none: SageMaker chooses the instances and container of a serverless job".to_owned(),
        None => format!("{UNKNOWN}: no `cluster` is set"),
    }
}
