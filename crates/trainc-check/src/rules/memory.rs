//! GPU memory: what a job needs compared with what its GPUs have.

mod host;
mod larger_cluster;
#[cfg(test)]
mod law_tests;
#[cfg(test)]
mod remedy_tests;

use crate::Context;
use crate::queries::memory::{
    excess_states, format_bytes, memory_constants, predicted_memory, fits_at_upper_bound,
};
use crate::queries::optimizer::requires_cuda_tensors;
use crate::queries::prices::instance_price;
use crate::queries::program::own_sharding;
use crate::queries::run_limits;
use crate::queries::torchrun::uses_torchrun;
use crate::what_if::alternatives::{errors_and_warnings, larger_gpu_types, passes_on_type};
use crate::what_if::assess;
use crate::what_if::edit_cost::{changes_machines, describe_run_cost, describe_slowdown, new_global_batch};
use crate::what_if::edit_rank::EditRank;
use crate::what_if::edit_text::{self, Replacement};
use host::{T0327, missing_host_memory};
use larger_cluster::add_larger_clusters;
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Edit, Note, Problems, Severity};
use trainc_predict::run::Terms;
use trainc_predict::speed::speed;
use trainc_ir::Plan;
use trainc_ir::hardware::{AcceleratorKind, Instance};
use trainc_predict::{Constants, Fit, Layout, Memory, memory as model};
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use trainc_tune::nearby::{Judge, is_ruinous};
use trainc_tune::space::is_searchable;
use trainc_tune::{Change, Choice, Remedy, Space, remedies};

declare_code!(
    T0326,
    "memory",
    Warning,
    "a job that needs more memory than its GPUs have",
    ends: Prediction,
    allowable: Prediction,
    explains: [Memory]
);
declare_code!(
    T0328,
    "micro-batch-too-small",
    Warning,
    "gradient accumulation although a larger micro-batch fits"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0326, &T0327, &T0328];

/// The share of a step's time, and the seconds of the run, from which on the saving of a larger micro-batch
/// is a warning.
const WORTHWHILE: f64 = 0.1;
const WORTHWHILE_SECONDS: f64 = 3_600.0;

/// The number of edits that are shown.
const SHOWN: usize = 5;

/// Checks plans that are known completely. It is an error if even the lower bound of the memory does not fit.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    // An unreadable value may be the one that makes it fit.
    if !plan.job.is_whole {
        return;
    }
    let Ok(layout) = Layout::from_plan(plan) else { return };
    let memory = predicted_memory(context, &layout);
    let span = micro_batch_span(context);
    let is_short = matches!(memory.fit(), Some(Fit::Hardly | Fit::Never));
    if let Some(excess) = excess_states(&layout) {
        let code = if is_short { &T0326 } else { &T0327 };
        let found = Diagnostic::new(code, nodes_span(context, span), excess.describe(plan))
            .severity(Severity::Error)
            .certain()
            .fact("states_bytes", excess.states.round())
            .fact("edits", serde_json::json!([]));
        let found = if is_short { found.note(describe_parts(&memory)) } else { found };
        problems.push(add_larger_clusters(context, &layout, found));
        return;
    }
    let sharding = own_sharding(plan);
    match memory.fit() {
        Some(Fit::Hardly | Fit::Never) => {
            let found = does_not_fit(context, &layout, &memory, span);
            let states = model::resident_states(&layout);
            let found = if memory.capacity_bytes.is_some_and(|card| states > card) {
                found.certain()
            } else {
                found
            };
            problems.push(match sharding {
                Some(word) => found.severity(Severity::Note).note(format!(
                    "`{word}` says that the program shards the model itself, which is not \
                        predicted: `engine=\"fsdp\"` describes it"
                )),
                None => found,
            });
        }
        Some(Fit::Maybe | Fit::Surely) if sharding.is_some() => {}
        Some(Fit::Maybe) => problems.push(may_not_fit(context, &memory, span)),
        Some(Fit::Surely) => {
            if let Some(found) = larger_micro_batch(context, &layout, span) {
                problems.push(found);
            }
        }
        None => {}
    }
    if let Some(found) = missing_host_memory(context, (&layout, &memory), span) {
        problems.push(found);
    }
}

/// Returns the place of the number of nodes, else of the instance type.
fn nodes_span(context: &Context, otherwise: Span) -> Span {
    let Some(cluster) = &context.plan.job.cluster else { return otherwise };
    cluster.nodes.span().or(cluster.instance.span()).unwrap_or(cluster.span)
}

/// Returns the place of the micro-batch, or of the node that would contain it.
fn micro_batch_span(context: &Context) -> Span {
    let job = &context.plan.job;
    let train = job.train.micro_batch_size.span().or(job.train.span);
    train.or(job.cluster.as_ref().map(|cluster| cluster.span)).unwrap_or(job.span)
}

/// Reports a prediction that fits although its upper bound does not.
fn may_not_fit(context: &Context, memory: &Memory, span: Span) -> Diagnostic {
    let capacity = memory.capacity_bytes.unwrap_or(0.0);
    Diagnostic::new(
        &T0326,
        span,
        format!(
            "the fullest {} needs {}, up to {} at the upper bound; it has {}: it may not fit",
            context.plan.rank_noun(),
            format_bytes(memory.per_gpu_bytes),
            format_bytes(memory.interval.high),
            format_bytes(capacity)
        ),
    )
    .severity(Severity::Note)
    .note("one measured peak in twenty exceeds the interval: test a few steps before the run")
    .note(describe_parts(memory))
    .fact("per_gpu_bytes", memory.per_gpu_bytes.round())
    .fact("low_bytes", memory.interval.low.round())
    .fact("high_bytes", memory.interval.high.round())
    .fact("capacity_bytes", capacity)
}

fn does_not_fit(context: &Context, layout: &Layout, memory: &Memory, span: Span) -> Diagnostic {
    let capacity = memory.capacity_bytes.unwrap_or(0.0);
    let is_sure = memory.fit() == Some(Fit::Never);
    let verb = if is_sure { "needs" } else { "may need" };
    let mut diagnostic = Diagnostic::new(
        &T0326,
        span,
        format!(
            "the fullest {} {verb} {} ({} to {}) and has {}",
            context.plan.rank_noun(),
            format_bytes(memory.per_gpu_bytes),
            format_bytes(memory.interval.low),
            format_bytes(memory.interval.high),
            format_bytes(capacity)
        ),
    )
    .severity(if is_sure { Severity::Error } else { Severity::Warning })
    .note(describe_parts(memory))
    .fact("per_gpu_bytes", memory.per_gpu_bytes.round())
    .fact("low_bytes", memory.interval.low.round())
    .fact("high_bytes", memory.interval.high.round())
    .fact("capacity_bytes", capacity);
    let Some(space) = Space::around(context.plan, &larger_gpu_types(context), context.constants) else {
        return diagnostic;
    };
    let limit = time_limit(context, layout);
    let now = OnceCell::new();
    let judged: RefCell<BTreeMap<usize, bool>> = RefCell::default();
    // Rules look at another type only if everything else is right there.
    let is_type_valid = |site: usize| {
        let now = || now.get_or_init(|| errors_and_warnings(context, context.plan));
        let judge = || passes_on_type(context, space.instance_name(site), now());
        *judged.borrow_mut().entry(site).or_insert_with(judge)
    };
    let constants = memory_constants(context);
    let is_own = |choice: &Choice| space.as_written().is_some_and(|written| written.site == choice.site);
    let passes = |choice: &Choice, new: &Layout, after: &Memory| {
        let host = after.fits_host(new.hardware.host_memory_bytes);
        // A host that lacks memory now may lack it afterwards too, but not so much that nothing runs.
        let least = model::least_host_bytes(new, &constants).zip(new.hardware.host_memory_bytes);
        let host =
            host || after.host_bytes <= memory.host_bytes && least.is_none_or(|(least, has)| least <= has);
        let is_in_time = limit.as_ref().is_none_or(|limit| limit.is_met_by(new));
        host && is_in_time && (is_own(choice) || is_type_valid(choice.site))
    };
    let allows = |change: Change| allows(context.plan, change);
    let judge = Judge { allows: &allows, passes: &passes };
    let edits = |remedy: &Remedy| space.edits_of(&remedy.changes);
    let is_writable = |remedy: &Remedy| edit_text::build_fix(context, &edits(remedy)).is_some();
    let new_batch = |remedy: &Remedy| new_global_batch(&space, &remedy.choice);
    let mut found = remedies(&space, judge, context.constants);
    found.sort_by_cached_key(|remedy| {
        let nodes = remedy.layout.hardware.nodes / layout.hardware.nodes;
        let rank =
            EditRank::new((nodes, remedy.slower), new_batch(remedy).is_some(), is_writable(remedy));
        (remedy.changes_instance(), rank)
    });
    prefer_sure(&mut found, |one| (new_batch(one), is_writable(one)));
    let written: Vec<(Note, &Remedy)> =
        found.iter().map(|remedy| (describe(context, &space, memory, remedy), remedy)).collect();
    diagnostic = diagnostic.fact(
        "edits",
        written
            .iter()
            .map(|(_, remedy)| {
                let (removed, set): (Vec<Edit>, Vec<Edit>) =
                    edits(remedy).into_iter().partition(Edit::removes);
                serde_json::json!({
                    "write": Edit::lines(&set),
                    "set": set.iter().map(Edit::to_string).collect::<Vec<_>>(),
                    "remove": removed.iter().map(Edit::path).collect::<Vec<_>>(),
                    "per_gpu_bytes": remedy.after.per_gpu_bytes.round(),
                    "capacity_bytes": remedy.after.capacity_bytes,
                    "slower": remedy.slower,
                    "global_batch": new_batch(remedy),
                    "cost_usd": space
                        .predict_run(&remedy.choice, context.constants)
                        .and_then(|run| run.cost_usd),
                })
            })
            .collect::<Vec<_>>(),
    );
    let Some((first, best)) = written.first() else {
        let judge = Judge { passes: &|choice, _, _| is_own(choice), ..judge };
        let refused = !remedies(&space, judge, context.constants).is_empty();
        let diagnostic = diagnostic.note(if refused {
            "edits that would make it fit these nodes exceed `max-run` or the host memory"
        } else {
            "no edit tried here makes it fit these nodes; `trainc tune` tries other degrees and machines"
        });
        return add_larger_clusters(context, layout, diagnostic);
    };
    // An edit that changes the training precedes one that keeps it: that needs a reason.
    let keeps_batch = |remedy: &Remedy| new_batch(remedy).is_none();
    let why = if !keeps_batch(best) && found.iter().any(keeps_batch) {
        "; the edits that keep the global batch more than double the time"
    } else {
        ""
    };
    let also = also_tune(context.plan);
    diagnostic = diagnostic.help(format!("write {first}{why}{also}")).prices(first.prices());
    // Another instance type is last in the order, and always shown.
    let others: Vec<&Note> = (1..)
        .zip(written.iter().skip(1))
        .filter(|(at, (_, remedy))| *at <= SHOWN || remedy.changes_instance())
        .map(|(_, (text, _))| text)
        .collect();
    if !others.is_empty() {
        let texts: Vec<&str> = others.iter().map(|one| one.as_str()).collect();
        let note = Note::from(format!("or {}", texts.join("; or ")));
        diagnostic = diagnostic.note(note.with_cost_if(others.iter().any(|one| one.states_cost())));
    }
    match edit_text::build_fix(context, &edits(best)) {
        Some(Replacement { span, text }) => diagnostic.fix(span, text),
        None => diagnostic,
    }
}

/// Returns true if no rule rejects a change, whatever the layout.
fn allows(plan: &Plan, change: Change) -> bool {
    let optimizer = plan.job.train.optimizer.as_ref().and_then(|optimizer| optimizer.name.value());
    match change {
        Change::Fsdp => {
            let gpu = |row: &Instance| row.accelerator.kind == AcceleratorKind::Gpu;
            uses_torchrun(plan) && plan.instance.as_ref().is_none_or(gpu)
        }
        Change::OffloadStates | Change::OffloadOptimizer => {
            !requires_cuda_tensors(optimizer.map_or("adamw", String::as_str))
        }
        _ => true,
    }
}

/// Returns the end of a help that names the search, if that can search the job.
fn also_tune(plan: &Plan) -> &'static str {
    if is_searchable(plan) { "; `trainc tune` compares all layouts and machines" } else { "" }
}

/// The factor of time that an edit which surely fits may take over the cheapest that may not: running out of
/// memory ends the run, and a failed attempt costs more than a quarter of a few steps.
const SAFETY_FACTOR: f64 = 1.25;

/// Moves the cheapest edit that surely fits before one that may not, if it takes at most a quarter longer and
/// is alike in nodes, instance type and `class`.
fn prefer_sure<T: PartialEq>(found: &mut Vec<Remedy>, class: impl Fn(&Remedy) -> T) {
    let Some(first) = found.first().filter(|one| one.after.fit() == Some(Fit::Maybe)) else { return };
    let Some(most) = first.slower.map(|slower| SAFETY_FACTOR * (1.0 + slower)) else { return };
    let nodes = |one: &Remedy| one.layout.hardware.nodes;
    let kind = |one: &Remedy| (nodes(one), one.changes_instance(), is_ruinous(one.slower), class(one));
    let sure = found.iter().position(|one| {
        one.after.fit() == Some(Fit::Surely)
            && one.slower.is_some_and(|slower| 1.0 + slower <= most)
            && kind(one) == kind(first)
    });
    if let Some(at) = sure {
        let sure = found.remove(at);
        found.insert(0, sure);
    }
}

/// The limit that `max-run` sets to the run.
struct TimeLimit<'a> {
    constants: &'a Constants,
    terms: Terms,
    seconds: f64,
}

impl TimeLimit<'_> {
    /// Returns whether the lower bound of a layout's run time is within the limit.
    fn is_met_by(&self, layout: &Layout) -> bool {
        speed(layout, self.constants)
            .map_or(true, |speed| self.terms.predict_run(layout, &speed).interval.low <= self.seconds)
    }
}

/// Returns the limit if the job meets it as written.
fn time_limit<'a>(context: &Context<'a>, layout: &Layout) -> Option<TimeLimit<'a>> {
    let cluster = context.plan.job.cluster.as_ref()?;
    let seconds = run_limits::max_run(cluster)?.value as f64;
    let constants = context.constants;
    let limit = TimeLimit { constants, terms: Terms::from_plan(context.plan, constants).ok()?, seconds };
    limit.is_met_by(layout).then_some(limit)
}

/// Describes what other machines change in addition to time: the cost of the run and its global batch.
fn describe_machines(context: &Context, space: &Space, remedy: &Remedy) -> Note {
    if !changes_machines(space, remedy) {
        return "".into();
    }
    let is_elsewhere = remedy.changes_instance();
    let unpriced =
        is_elsewhere && instance_price(context, space.instance_name(remedy.choice.site)).is_none();
    let now = space.as_written().and_then(|written| describe_run_cost(context, space, written));
    let usd = match (now, describe_run_cost(context, space, &remedy.choice)) {
        (Some(old), Some(new)) => Note::cost(format!(", {new} instead of {old}")),
        (None, Some(new)) if is_elsewhere => Note::cost(format!(", {new}")),
        _ if unpriced => ", price unknown: pass `--price`".into(),
        _ => "".into(),
    };
    let batch = new_global_batch(space, &remedy.choice).map_or_else(String::new, |batch| {
        format!(
            ", changes the training: a global batch of {} instead of {}",
            text::group_digits(batch),
            space.global_batch()
        )
    });
    usd.map_text(|usd| format!("{usd}{batch}"))
}

/// Describes an edit: `activation-checkpointing #true` (−14 GiB, +24% time); on other machines also their
/// cost and batch.
fn describe(context: &Context, space: &Space, before: &Memory, remedy: &Remedy) -> Note {
    let edits = space.edits_of(&remedy.changes);
    let lines = text::backtick_list(&Edit::lines(&edits), "and");
    let saved = if remedy.changes_instance() {
        let capacity = format_bytes(remedy.after.capacity_bytes.unwrap_or(0.0));
        format!("{} of {capacity}", format_bytes(remedy.after.per_gpu_bytes))
    } else {
        format!("−{}", format_bytes(before.per_gpu_bytes - remedy.after.per_gpu_bytes))
    };
    let time = describe_slowdown(context, space, remedy);
    let machines = describe_machines(context, space, remedy);
    let unsure = if remedy.after.fit() == Some(Fit::Maybe) { ", may not fit" } else { "" };
    let overridden =
        edit_text::describe_override(context, &edits).map_or_else(String::new, |why| format!(", {why}"));
    let removed = edits.iter().filter(|edit| edit.removes());
    let removed: Vec<String> = removed.map(|edit| format!(" without `{}`", edit.path())).collect();
    let removed = removed.concat();
    machines.map_text(|machines| format!("{lines}{removed} ({saved}{time}{machines}{unsure}{overridden})"))
}

fn describe_parts(memory: &Memory) -> String {
    let p = &memory.parts;
    let mut parts = [
        ("parameters", p.parameters),
        ("gradients", p.gradients),
        ("optimizer", p.optimizer),
        ("activations", p.activations),
        ("gathered units", p.gathered),
        ("logits", p.logits),
        ("buffers", p.buffers),
        ("reserve", p.reserve),
    ];
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let shown: Vec<String> = parts
        .iter()
        .filter(|(_, n)| *n >= 0.01 * memory.per_gpu_bytes)
        .map(|(name, n)| format!("{name} {}", format_bytes(*n)))
        .collect();
    format!("predicted as written: {}", shown.join(", "))
}

/// Reports a larger micro-batch that fits: the same step in fewer, larger matrix multiplications.
fn larger_micro_batch(context: &Context, layout: &Layout, span: Span) -> Option<Diagnostic> {
    let batch = context.plan.batch.as_ref()?;
    let is_whole = context.plan.unmodelled.iter().all(|work| !work.takes_memory);
    if batch.accumulation.value < 2 || layout.degrees.pipeline > 1.0 || !is_whole {
        return None;
    }
    let space = Space::around(context.plan, &[], context.constants)?;
    let written = space.as_written()?;
    let mut largest: Option<(Choice, Layout)> = None;
    space.visit_batches(|choice, layout| {
        let micro = |choice: &Choice| choice.micro_batch_size;
        let is_largest = micro(choice) > largest.as_ref().map_or(micro(written), |(one, _)| micro(one));
        if is_largest && choice.recompute == written.recompute && fits_at_upper_bound(context, layout) {
            largest = Some((*choice, layout.clone()));
        }
    });
    let (choice, larger) = largest?;
    let micro = choice.micro_batch_size;
    let passes = choice.passes / choice.num_micro_batches.max(1);
    let edits = Edit::lines(&space.values_to_set(&choice));
    let assessment = assess(context, |layout| layout.clone_from(&larger));
    if assessment.no_gain.is_some() {
        return None;
    }
    let diagnostic = Diagnostic::new(
        &T0328,
        span,
        format!(
            "micro-batch {micro} also fits: {} per step instead of {}",
            format_passes(passes),
            batch.accumulation.value
        ),
    );
    // Without a predicted time it is only a rule of thumb, and a job that is a few percent or minutes slower
    // than it could be is sound.
    let is_slow = assessment.saving.is_some_and(|saving| saving >= WORTHWHILE)
        && assessment.saved_seconds.is_some_and(|seconds| seconds >= WORTHWHILE_SECONDS);
    let diagnostic = match assessment.comparison {
        Some(comparison) if is_slow => diagnostic.note(comparison),
        Some(comparison) => diagnostic.severity(Severity::Note).note(comparison),
        None => diagnostic.severity(Severity::Note),
    };
    let condition = if context.plan.is_worker() { "" } else { ", if the script allows it" };
    Some(
        diagnostic
        .help(format!("write {}{condition}", text::backtick_list(&edits, "and")))
        .note("larger matrix multiplications use the GPU better, and sharded weights are gathered once \
            per pass (rule of thumb)")
        .fact("micro_batch", micro)
        .fact("passes", passes),
    )
}

fn format_passes(n: u64) -> String {
    if n == 1 { "one pass".to_owned() } else { format!("{} passes", text::group_digits(n)) }
}
