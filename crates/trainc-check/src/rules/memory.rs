//! The memory that a job needs, against the memory that is there.

use super::host_memory::{T0327, host};
use super::repriced::{
    as_written, divides, dollars, longer_by, other_batch, other_instance, training_seconds,
};
use super::standing::Standing;
use super::too_large::{too_large, with_homes};
use super::{elsewhere, instead};
use crate::Context;
use crate::queries::run_limits;
use crate::freedom::freedom;
use crate::remedy::{self, Written};
use trainc_diag::declare_code;
use trainc_diag::source::Span;
use trainc_diag::text;
use trainc_diag::{Code, Diagnostic, Problems, Severity};
use trainc_predict::memory::remedies::{Freedom, Judge, Remedy, is_elsewhere, is_ruinous, remedies};
use trainc_predict::run::Terms;
use trainc_predict::speed::speed;
use trainc_predict::{Constants, Fit, Layout, Memory, memory as model};

declare_code!(T0326, "memory", Warning, "a job that needs more memory than its GPUs have");
declare_code!(
    T0328,
    "micro-batch-too-small",
    Warning,
    "gradient accumulation although a larger micro-batch fits"
);

/// The codes of this file.
pub(super) static CODES: &[&Code] = &[&T0326, &T0328];

/// The most edits that are shown.
const SHOWN: usize = 5;

/// Looks at plans of which everything is known; a figure whose low end does not fit is an error.
pub(super) fn rule(context: &Context, problems: &mut Problems) {
    let plan = context.plan;
    // What could not be read may be what would make it fit.
    if !plan.job.is_whole || context.is_trial {
        return;
    }
    let Ok(layout) = Layout::of_plan(plan) else { return };
    let memory = needed(context, &layout);
    let span = place(context);
    let is_short = matches!(memory.fit(), Some(Fit::Hardly | Fit::Never));
    if let Some(beyond) = too_large(&layout) {
        let code = if is_short { &T0326 } else { &T0327 };
        let found = Diagnostic::new(code, machines(context, span), beyond.words(plan))
            .severity(Severity::Error)
            .fact("states_bytes", beyond.states.round())
            .fact("edits", serde_json::json!([]));
        let found = if is_short { found.note(parts(&memory)) } else { found };
        problems.push(with_homes(context, &layout, found));
        return;
    }
    match memory.fit() {
        Some(Fit::Hardly | Fit::Never) => problems.push(does_not_fit(context, &layout, &memory, span)),
        Some(Fit::Maybe) => problems.push(may_not_fit(context, &memory, span)),
        Some(Fit::Surely) => {
            room_for_more(context, &layout, span).into_iter().for_each(|found| problems.push(found))
        }
        None => {}
    }
    host(context, (&layout, &memory), span).into_iter().for_each(|found| problems.push(found));
}

/// The figures of the command's own file, else those that are shipped.
pub(super) fn constants(context: &Context) -> model::MemoryConstants {
    model::MemoryConstants::of(context.constants)
}

/// The memory of a layout by the constants of the command.
pub(super) fn needed(context: &Context, layout: &Layout) -> Memory {
    model::memory_with(layout, &constants(context))
}

/// The nodes, where they must change.
fn machines(context: &Context, otherwise: Span) -> Span {
    let Some(cluster) = &context.plan.job.cluster else { return otherwise };
    cluster.nodes.span().or(cluster.instance.span()).unwrap_or(cluster.span)
}

/// The value that must change: the micro-batch, or where it would stand.
fn place(context: &Context) -> Span {
    let job = &context.plan.job;
    let train = job.train.micro_batch_size.span().or(job.train.span);
    train.or(job.cluster.as_ref().map(|cluster| cluster.span)).unwrap_or(job.span)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes, held above zero")]
pub(super) fn bytes(n: f64) -> String {
    text::bytes(n.max(0.0).round() as u64)
}

/// The figure fits and its upper end does not: said, and left to the user.
fn may_not_fit(context: &Context, memory: &Memory, span: Span) -> Diagnostic {
    let capacity = memory.capacity_bytes.unwrap_or(0.0);
    Diagnostic::new(
        &T0326,
        span,
        format!(
            "the fullest {} needs {}, and {} at the upper end; it has {}: it may not fit",
            context.plan.rank_noun(),
            bytes(memory.per_gpu_bytes),
            bytes(memory.interval.high),
            bytes(capacity)
        ),
    )
    .severity(Severity::Note)
    .note("one measured peak in twenty lies beyond the interval: try a few steps before the run")
    .note(parts(memory))
    .fact("per_gpu_bytes", memory.per_gpu_bytes.round())
    .fact("low_bytes", memory.interval.low.round())
    .fact("high_bytes", memory.interval.high.round())
    .fact("capacity_bytes", capacity)
}

fn does_not_fit(context: &Context, layout: &Layout, memory: &Memory, span: Span) -> Diagnostic {
    let capacity = memory.capacity_bytes.unwrap_or(0.0);
    let sure = memory.fit() == Some(Fit::Never);
    let verb = if sure { "needs" } else { "may need" };
    let mut diagnostic = Diagnostic::new(
        &T0326,
        span,
        format!(
            "the fullest {} {verb} {}, between {} and {}; it has {}",
            context.plan.rank_noun(),
            bytes(memory.per_gpu_bytes),
            bytes(memory.interval.low),
            bytes(memory.interval.high),
            bytes(capacity)
        ),
    )
    .severity(if sure { Severity::Error } else { Severity::Warning })
    .note(parts(memory))
    .fact("per_gpu_bytes", memory.per_gpu_bytes.round())
    .fact("low_bytes", memory.interval.low.round())
    .fact("high_bytes", memory.interval.high.round())
    .fact("capacity_bytes", capacity);
    let (instances, priced) = elsewhere::elsewhere(context, layout);
    let freedom = Freedom { instances, priced, ..freedom(context.plan) };
    let limit = longest(context, layout);
    let passes = |new: &Layout, after: &Memory| {
        let host =
            after.host_bytes.zip(new.hardware.host_memory_bytes).is_none_or(|(needs, has)| needs <= has);
        // What the host has not now it need not have then, but where even the least is too much nothing runs.
        let least = model::least_host_bytes(new, &constants(context)).zip(new.hardware.host_memory_bytes);
        let host =
            host || after.host_bytes <= memory.host_bytes && least.is_none_or(|(least, has)| least <= has);
        divides(context, layout, new) && host && limit.as_ref().is_none_or(|limit| limit.holds(new))
    };
    let seconds = |new: &Layout| training_seconds(context, layout, new);
    let memory_constants = constants(context);
    let needs = |new: &Layout| model::memory_with(&as_written(context, layout, new), &memory_constants);
    let train = &context.plan.job.train;
    let batch_follows = train.global_batch.get().is_some() && train.accumulation.is_absent();
    let judge = Judge { memory: &needs, seconds: &seconds, passes: &passes, batch_follows };
    let mut found = remedies(layout, &freedom, &judge);
    found.sort_by_cached_key(|remedy| {
        let writes = remedy::fix(context, &remedy.edits).is_some();
        let nodes = remedy.layout.hardware.nodes / layout.hardware.nodes;
        let is_other = other_batch(context, layout, remedy).is_some();
        (is_elsewhere(&remedy.edits), Standing::of((nodes, remedy.slower), is_other, writes))
    });
    prefer_sure(&mut found, |one| {
        (other_batch(context, layout, one), remedy::fix(context, &one.edits).is_some())
    });
    let written: Vec<(String, &Remedy)> =
        found.iter().map(|remedy| (words(context, (layout, memory), remedy), remedy)).collect();
    diagnostic = diagnostic.fact(
        "edits",
        written
            .iter()
            .map(|(_, remedy)| {
                serde_json::json!({
                    "write": remedy::lines(context.plan, &remedy.edits),
                    "set": remedy::sets(context.plan, &remedy.edits),
                    "remove": remedy::removed(context.plan, &remedy.edits),
                    "per_gpu_bytes": remedy.after.per_gpu_bytes.round(),
                    "capacity_bytes": remedy.after.capacity_bytes,
                    "slower": remedy.slower,
                    "global_batch": other_batch(context, layout, remedy),
                    "cost_usd": dollars(context, layout, (&remedy.layout, &remedy.edits)),
                })
            })
            .collect::<Vec<_>>(),
    );
    let Some((first, best)) = written.first() else {
        let refused = !remedies(layout, &freedom, &Judge { passes: &|_, _| true, ..judge }).is_empty();
        let diagnostic = diagnostic.note(if refused {
            "edits that would make it fit these nodes run past `max-run` or need more host memory than there is"
        } else {
            "none of the edits that are tried here makes it fit these nodes; `trainc tune` tries other degrees"
        });
        return with_homes(context, layout, diagnostic);
    };
    // Another training stands before what keeps this one: that wants a reason.
    let keeps = |remedy: &Remedy| other_batch(context, layout, remedy).is_none();
    let why = if !keeps(best) && found.iter().any(keeps) {
        "; the edits that keep the global batch take more than twice the time"
    } else {
        ""
    };
    diagnostic = diagnostic.help(format!("write {first}{why}"));
    // Another type stands last, and is seen all the same.
    let others: Vec<&str> = (1..)
        .zip(written.iter().skip(1))
        .filter(|(at, (_, remedy))| *at <= SHOWN || is_elsewhere(&remedy.edits))
        .map(|(_, (words, _))| words.as_str())
        .collect();
    if !others.is_empty() {
        diagnostic = diagnostic.note(format!("or {}", others.join("; or ")));
    }
    match remedy::fix(context, &best.edits) {
        Some(Written { span, text }) => diagnostic.fix(span, text),
        None => diagnostic,
    }
}

/// How much longer a step may take where the edit surely fits, over the cheapest that may not: a peak beyond the card ends
/// the run, and an edit that was tried for nothing costs more than a quarter of a few steps.
const SURER: f64 = 1.25;

/// Puts the cheapest edit that surely fits before one that may not, where it takes at most a quarter longer and changes
/// neither machines nor training more; `of` says the latter and whether the edit can be written.
fn prefer_sure<T: PartialEq>(found: &mut Vec<Remedy>, of: impl Fn(&Remedy) -> T) {
    let Some(first) = found.first().filter(|one| one.after.fit() == Some(Fit::Maybe)) else { return };
    let Some(most) = first.slower.map(|slower| SURER * (1.0 + slower)) else { return };
    let nodes = |one: &Remedy| one.layout.hardware.nodes;
    let stands = |one: &Remedy| (nodes(one), is_elsewhere(&one.edits), is_ruinous(one.slower), of(one));
    let sure = found.iter().position(|one| {
        one.after.fit() == Some(Fit::Surely)
            && one.slower.is_some_and(|slower| 1.0 + slower <= most)
            && stands(one) == stands(first)
    });
    if let Some(at) = sure {
        let sure = found.remove(at);
        found.insert(0, sure);
    }
}

/// The longest run that `max-run` allows.
struct Longest<'a> {
    constants: &'a Constants,
    terms: Terms,
    seconds: f64,
}

impl Longest<'_> {
    /// Whether the low end of a layout's run ends before it.
    fn holds(&self, layout: &Layout) -> bool {
        speed(layout, self.constants)
            .map_or(true, |speed| self.terms.run(layout, &speed).interval.low <= self.seconds)
    }
}

/// The bound of the run, where the job as it stands keeps it.
fn longest<'a>(context: &Context<'a>, layout: &Layout) -> Option<Longest<'a>> {
    let cluster = context.plan.job.cluster.as_ref()?;
    let seconds = run_limits::max_run(cluster)?.value as f64;
    let constants = context.constants;
    let longest = Longest { constants, terms: Terms::of(context.plan, constants).ok()?, seconds };
    longest.holds(layout).then_some(longest)
}

/// What more nodes, or others, mean beside time: the dollars of the run, and the global batch where it is another one.
fn of_machines(context: &Context, before: &Layout, remedy: &Remedy) -> String {
    let is_elsewhere = is_elsewhere(&remedy.edits);
    if remedy.layout.hardware.nodes <= before.hardware.nodes && !is_elsewhere {
        return String::new();
    }
    let unpriced =
        other_instance(&remedy.edits).is_some_and(|name| elsewhere::price(context, name).is_none());
    let now = dollars(context, before, (before, &[]));
    let usd = match (now, dollars(context, before, (&remedy.layout, &remedy.edits))) {
        (Some(old), Some(new)) => format!(", {} instead of {}", text::dollars(new), text::dollars(old)),
        (None, Some(new)) if is_elsewhere => format!(", {}", text::dollars(new)),
        _ if unpriced => ", its price is not known: `--price` gives one".to_owned(),
        _ => String::new(),
    };
    let batch = other_batch(context, before, remedy).map_or_else(String::new, |batch| {
        let old = before.work.global_sequences;
        format!(", another training: a global batch of {}, not {old:.0}", text::group(batch))
    });
    format!("{usd}{batch}")
}

/// `activation-checkpointing #true` (−14 GiB, +24% time); of more nodes also what they cost and change.
fn words(context: &Context, (layout, before): (&Layout, &Memory), remedy: &Remedy) -> String {
    let lines: Vec<String> =
        remedy::lines(context.plan, &remedy.edits).iter().map(|line| format!("`{line}`")).collect();
    let saved = if is_elsewhere(&remedy.edits) {
        let card = bytes(remedy.after.capacity_bytes.unwrap_or(0.0));
        format!("{} of {card}", bytes(remedy.after.per_gpu_bytes))
    } else {
        format!("−{}", bytes(before.per_gpu_bytes - remedy.after.per_gpu_bytes))
    };
    let time = longer_by(context, layout, remedy);
    let nodes = of_machines(context, layout, remedy);
    let room = if remedy.after.fit() == Some(Fit::Maybe) { ", may not fit" } else { "" };
    let held = remedy::held(context, &remedy.edits).map_or_else(String::new, |why| format!(", {why}"));
    let gone: Vec<String> = remedy::removed(context.plan, &remedy.edits)
        .iter()
        .map(|path| format!(" without `{path}`"))
        .collect();
    format!("{}{} ({saved}{time}{nodes}{room}{held})", text::list(&lines, "and"), gone.concat())
}

fn parts(memory: &Memory) -> String {
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
        .map(|(name, n)| format!("{name} {}", bytes(*n)))
        .collect();
    format!("predicted: {}", shown.join(", "))
}

/// A larger micro-batch with fewer passes is the same step in fewer, larger products.
fn room_for_more(context: &Context, layout: &Layout, span: Span) -> Option<Diagnostic> {
    let batch = context.plan.batch.as_ref()?;
    if batch.accumulation.value < 2 || layout.degrees.pipeline > 1.0 {
        return None;
    }
    let fits = |factor: &u64| {
        let mut larger = layout.clone();
        larger.work.micro_batch_size *= *factor as f64;
        larger.work.passes /= *factor as f64;
        let memory = needed(context, &larger);
        memory.capacity_bytes.is_some_and(|capacity| memory.interval.high <= capacity)
    };
    let factors = trainc_plan::plan::divisors::divisors(batch.accumulation.value);
    let factor = factors.into_iter().skip(1).filter(fits).max()?;
    let micro = batch.micro_batch_size.value * factor;
    let edits = remedy::batch_lines(context.plan, micro);
    let judged = instead::judged(context, |layout| {
        layout.work.micro_batch_size *= factor as f64;
        layout.work.passes /= factor as f64;
    });
    if judged.in_vain.is_some() {
        return None;
    }
    let diagnostic = Diagnostic::new(
        &T0328,
        span,
        format!(
            "micro-batch {micro} fits as well: {} a step instead of {}",
            passes(batch.accumulation.value / factor),
            batch.accumulation.value
        ),
    );
    // Where no time can be predicted, only the rule of thumb speaks.
    let diagnostic = match judged.bill {
        Some(bill) => diagnostic.note(bill),
        None => diagnostic.severity(Severity::Note),
    };
    Some(
        diagnostic
        .help(format!("write {}, if the script allows it", text::list(&edits.iter().map(|line| format!("`{line}`")).collect::<Vec<_>>(), "and")))
        .note("larger matrix products use more of an accelerator, and sharded weights are gathered once a pass (judgement of the trade)")
        .fact("micro_batch", micro)
        .fact("passes", batch.accumulation.value / factor),
    )
}

fn passes(n: u64) -> String {
    if n == 1 { "one pass".to_owned() } else { format!("{} passes", text::group(n)) }
}

/// What prediction says of the memory, in words: for rules that judge by rules of thumb.
pub(super) fn verdict(context: &Context) -> Option<String> {
    let layout = Layout::of_plan(context.plan).ok()?;
    let memory: Memory = needed(context, &layout);
    let (fit, capacity) = (memory.fit()?, memory.capacity_bytes?);
    Some(format!(
        "predicted: {} of each {}'s {}: it {}",
        bytes(memory.per_gpu_bytes),
        context.plan.rank_noun(),
        bytes(capacity),
        fit.words()
    ))
}
