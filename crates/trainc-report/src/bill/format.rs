//! Figures and edits of a bill as text.

use super::{Base, Job, JobSide};
use crate::origins;
use trainc_diag::source::SourceMap;
use trainc_diag::text;
use trainc_ir::Delivery;
use trainc_ir::units::GIB;
use trainc_tune::compare::{Added, Edit, Figure, Place};

/// Returns the label of a figure.
pub(super) fn label(figure: Figure) -> &'static str {
    match figure {
        Figure::Cost | Figure::Least | Figure::OnDemand => "cost",
        Figure::Time => "time",
        Figure::Headroom => "free memory",
        Figure::Nodes => "nodes",
        Figure::Step => "step",
        Figure::Tokens => "tokens/s",
        Figure::Most => "at most",
    }
}

/// Figures that are shown even if they did not change.
pub(super) const ALWAYS: [Figure; 5] =
    [Figure::Cost, Figure::Least, Figure::OnDemand, Figure::Time, Figure::Headroom];

/// Formats a figure without its sign.
fn amount(figure: Figure, value: f64) -> String {
    match figure {
        Figure::Cost | Figure::Least | Figure::OnDemand | Figure::Most => text::dollars(value),
        Figure::Time => text::rounded_duration(value),
        Figure::Headroom => format!("{} GiB", text::short_number(value / GIB as f64)),
        Figure::Nodes => text::short_number(value),
        Figure::Step => format!("{} s", text::short_number(value)),
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "tokens, never negative")]
        Figure::Tokens => text::group_digits(value.round() as u64),
    }
}

/// Formats a figure of a side.
pub(super) fn value(figure: Figure, value: Option<f64>) -> String {
    match value {
        Some(value) if value < 0.0 => format!("−{}", amount(figure, -value)),
        Some(value) if figure == Figure::Least => format!("at least {}", amount(figure, value)),
        Some(value) => amount(figure, value),
        None => "not known".to_owned(),
    }
}

/// Formats a difference with its sign: `+$12.30`.
pub(super) fn signed(figure: Figure, added: f64) -> String {
    let sign = if added < 0.0 { '−' } else { '+' };
    format!("{sign}{}", amount(figure, added.abs()))
}

/// Formats a difference with its percentage: `+$12.30 (+5%)`.
pub(super) fn difference(figure: Figure, before: f64, after: f64) -> String {
    let added = after - before;
    let mut out = signed(figure, added);
    // A percentage of free memory is meaningless.
    if before > 0.0 && !matches!(figure, Figure::Headroom | Figure::Nodes) {
        let percent = 100.0 * added / before;
        let sign = if percent < 0.0 { '−' } else { '+' };
        out.push_str(&format!(" ({sign}{}%)", text::short_number(percent.abs())));
    }
    out
}

/// Formats the 90 % interval of a figure.
pub(super) fn format_interval(figure: Figure, seen: &JobSide) -> Option<String> {
    let interval = seen.figures.interval(figure)?;
    // The figure itself states that it is a lower bound.
    let figure = if matches!(figure, Figure::Least | Figure::OnDemand) { Figure::Cost } else { figure };
    Some(format!("{} to {}", value(figure, Some(interval.low)), value(figure, Some(interval.high))))
}

/// Formats the changes of the main figures: `+$12.30, +1.2 h, −3 GiB free memory`.
pub(super) fn changes(added: &Added) -> String {
    let costs = [Figure::Cost, Figure::Least, Figure::OnDemand];
    let cost = costs.into_iter().find(|figure| added.contains_key(figure));
    let shown: Vec<String> = Figure::ALL
        .iter()
        .filter(|figure| !costs.contains(figure) || Some(**figure) == cost)
        .filter_map(|figure| Some((*figure, *added.get(figure)?)))
        .filter(|(figure, by)| *by != 0.0 && !matches!(figure, Figure::Nodes | Figure::Tokens))
        .map(|(figure, by)| match figure {
            Figure::Cost | Figure::Time => signed(figure, by),
            Figure::Least => format!("{} of known prices", signed(figure, by)),
            Figure::OnDemand => format!("{} on demand", signed(figure, by)),
            Figure::Step => format!("{} per step", signed(figure, by)),
            _ => format!("{} {}", signed(figure, by), label(figure)),
        })
        .collect();
    if shown.is_empty() { "nothing".to_owned() } else { shown.join(", ") }
}

/// Returns the text at a place in one line, truncated.
pub(super) fn source_text(sources: &SourceMap, place: Place) -> String {
    const MOST: usize = 48;
    let text = sources.slice(place.text);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= MOST {
        return line;
    }
    let short: String = line.chars().take(MOST).collect();
    format!("{short}…")
}

/// Formats a place: `jobs/a.kdl:12`, or the flag that set the value.
pub(super) fn format_line(sources: &SourceMap, place: Place) -> String {
    let whole = origins::format_place(sources, place.at);
    match whole.rsplit_once(':') {
        Some((line, _)) if !whole.starts_with("--") => line.to_owned(),
        _ => whole,
    }
}

/// Formats the place of an edit: after the change, or before it for a removal.
pub(super) fn place(sources: &SourceMap, edit: &Edit) -> String {
    edit.after.or(edit.before).map_or_else(String::new, |place| format_line(sources, place))
}

/// Formats an edit: `cluster.nodes 2 → 4`, `train.tokens added: tokens 5_000`.
pub(super) fn edit(sources: &SourceMap, edit: &Edit) -> String {
    let (path, sides) = (&edit.path, (edit.before, edit.after));
    match sides {
        (Some(before), Some(after)) if before == after => {
            format!("{path} {}: file changed", source_text(sources, after))
        }
        (Some(before), Some(after)) => {
            format!("{path} {} → {}", source_text(sources, before), source_text(sources, after))
        }
        (None, Some(after)) => format!("{path} added: {}", source_text(sources, after)),
        (Some(before), None) => format!("{path} removed: {}", source_text(sources, before)),
        (None, None) => path.clone(),
    }
}

/// Formats the base of a bill: `main (0f0aae7)`.
pub(super) fn base(base: &Base) -> String {
    match &base.commit {
        Some(commit) if !commit.starts_with(&base.name) => {
            format!("{} ({})", base.name, commit.get(..8).unwrap_or(commit))
        }
        Some(_) | None => base.name.clone(),
    }
}

/// Formats the errors of a side, at most two in full.
pub(super) fn errors(sources: &SourceMap, seen: &JobSide) -> Vec<String> {
    const SHOWN: usize = 2;
    let errors: Vec<_> =
        seen.problems.iter().filter(|problem| problem.severity == trainc_diag::Severity::Error).collect();
    let mut out: Vec<String> = errors
        .iter()
        .take(SHOWN)
        .map(|problem| {
            let place = Place { at: problem.span, text: problem.span };
            format!("{} {}: {}", format_line(sources, place), problem.code.id, problem.text())
        })
        .collect();
    if errors.len() > SHOWN {
        out.push(format!("and {} more", errors.len() - SHOWN));
    }
    out
}

/// Returns a note if the global batch changed: time and cost are then of a different training.
fn different_training(before: &JobSide, after: &JobSide) -> Option<String> {
    let (old, new) = before.figures.global_sequences.zip(after.figures.global_sequences)?;
    (old != new).then(|| {
        format!(
            "different training: global batch {} instead of {}",
            text::group_digits(new),
            text::group_digits(old)
        )
    })
}

/// Returns a note if the job may no longer fit, although it surely did before.
fn may_not_fit(before: &JobSide, after: &JobSide) -> Option<String> {
    let low = |seen: &JobSide| Some(seen.figures.interval(Figure::Headroom)?.low);
    let free = after.figures.get(Figure::Headroom)?;
    (low(before)? >= 0.0 && free >= 0.0 && low(after)? < 0.0).then(|| {
        let [free, low] = [Some(free), low(after)].map(|bytes| value(Figure::Headroom, bytes));
        format!("may no longer fit: free memory is {free}, or {low} at the upper bound of the prediction")
    })
}

/// Says that an edit changes the plan and not the job.
fn same_request(job: &Job) -> Option<String> {
    let (before, after) = (job.before.as_ref()?, job.after.as_ref()?);
    let is_edited = job.change.as_ref().is_some_and(|change| !change.edits.is_empty());
    let is_same = before.digest == after.digest;
    if !is_edited || before.digest.is_none() || after.digest.is_none() {
        return None;
    }
    let value = |side: &JobSide, setting: &str| {
        let all = side.delivery.into_iter().flat_map(|delivery| &delivery.assumed);
        all.into_iter().find(|one| one.setting == setting).map(|one| one.value.clone())
    };
    let assumed = after.delivery.into_iter().flat_map(|delivery| &delivery.assumed);
    let moved: Vec<&str> = assumed
        .filter(|one| value(before, &one.setting).as_ref() != Some(&one.value))
        .map(|one| Delivery::short(&one.setting))
        .collect();
    let moved = (!moved.is_empty()).then(|| moved.join(", "));
    match (is_same, moved) {
        (true, None) => Some("the request is the same: apply starts no job".to_owned()),
        (true, Some(moved)) => {
            Some(format!("the request is the same: apply starts no job; assumed of the program: {moved}"))
        }
        (false, Some(moved)) => Some(format!("not in the request, assumed of the program: {moved}")),
        (false, None) => None,
    }
}

/// Returns the notes on a job.
pub(super) fn notes(sources: &SourceMap, job: &Job) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(before) = &job.before {
        let found = before.problems.errors() as u64;
        if found > 0 {
            let lines = errors(sources, before).join("; ");
            out.push(format!("it had {} before: {lines}", text::count(found, "error")));
        }
    }
    if let Some(after) = &job.after {
        let found = after.problems.errors() as u64;
        if found > 0 {
            out.push(format!("it has {} now", text::count(found, "error")));
        }
    }
    if let (Some(before), Some(after)) = (&job.before, &job.after) {
        out.extend(different_training(before, after));
        out.extend(may_not_fit(before, after));
    }
    out.extend(same_request(job));
    if job.program {
        out.push("files of the program changed; the cost model does not read them".to_owned());
    }
    let why = |side: &Option<JobSide>| side.as_ref().and_then(|seen| seen.figures.unknown.clone());
    match (why(&job.before), why(&job.after)) {
        (None, None) => {}
        (before, Some(after)) if before.as_ref() == Some(&after) || job.before.is_none() => {
            out.push(format!("some figures are not known: {after}"));
        }
        (before, after) => {
            out.extend(before.map(|why| format!("some figures before are not known: {why}")));
            out.extend(after.map(|why| format!("some figures now are not known: {why}")));
        }
    }
    if let (Some(before), Some(after)) = (&job.before, &job.after)
        && before.job != after.job
    {
        out.push(format!("renamed from {}", before.job.unwrap_or(before.path)));
    }
    out
}

/// An edit, or several that are only valid together, and their effect.
pub(super) struct EditEffect {
    /// The place and the text of each edit.
    pub(super) edits: Vec<(String, String)>,
    /// Their effect on the figures.
    pub(super) does: String,
}

/// Returns the effect of each edit on the figures.
pub(super) fn edit_effects(sources: &SourceMap, job: &Job) -> Vec<EditEffect> {
    let Some(change) = &job.change else { return Vec::new() };
    let of = |at: &usize| change.edits.get(*at).map(|it| (place(sources, it), edit(sources, it)));
    change
        .shares
        .shares
        .iter()
        .map(|share| {
            let both = share.edits.len() > 1;
            let of_sides = |added: &Option<Added>| added.as_ref().map(|added| keep_comparable(job, added));
            let does = match (&of_sides(&share.alone), &of_sides(&share.last)) {
                (Some(alone), _) if both => format!("{}, only together", changes(alone)),
                (Some(alone), Some(last)) if effects_differ(alone, last) => {
                    format!("{} alone; {} on top of the other edits", changes(alone), cost_and_time(last))
                }
                (Some(alone), _) => changes(alone),
                (None, Some(last)) => {
                    format!("{} on top of the other edits; not valid without them", changes(last))
                }
                (None, None) => "cannot be separated from the other edits: not valid without them".to_owned(),
            };
            EditEffect { edits: share.edits.iter().filter_map(of).collect(), does }
        })
        .collect()
}

/// Returns whether an edit changes cost or time differently alone and on top of the others, by more than two
/// percent.
fn effects_differ(alone: &Added, last: &Added) -> bool {
    [Figure::Cost, Figure::Time].iter().any(|figure| {
        let of = |added: &Added| added.get(figure).copied().unwrap_or(0.0);
        (of(alone) - of(last)).abs() > 0.02 * of(alone).abs().max(of(last).abs())
    })
}

/// Removes differences between a cost and an on-demand cost, which are not comparable.
fn keep_comparable(job: &Job, added: &Added) -> Added {
    let keeps = |figure: &Figure| *figure != Figure::OnDemand || !job.is_half_spot();
    added.iter().filter(|(figure, _)| keeps(figure)).map(|(figure, by)| (*figure, *by)).collect()
}

/// Keeps cost and time.
fn cost_and_time(all: &Added) -> String {
    let some: Added = all
        .iter()
        .filter(|(figure, _)| matches!(figure, Figure::Cost | Figure::OnDemand | Figure::Time))
        .map(|(figure, by)| (*figure, *by))
        .collect();
    changes(&some)
}

/// Returns the interaction of the edits; `None` if their effects add up.
pub(super) fn interaction(job: &Job) -> Option<String> {
    let shares = &job.change.as_ref()?.shares;
    let of_most =
        [Figure::Cost, Figure::Least, Figure::OnDemand, Figure::Time, Figure::Headroom, Figure::Step];
    let rest: Added =
        of_most.into_iter().filter_map(|figure| Some((figure, shares.interaction(figure)?))).collect();
    let rest = keep_comparable(job, &rest);
    (!rest.is_empty())
        .then(|| format!("{} in addition to the effect of each alone: they interact", changes(&rest)))
}

/// Returns the edits without an effect on the figures.
pub(super) fn edits_without_effect(job: &Job) -> Option<String> {
    let change = job.change.as_ref()?;
    let shares = &change.shares;
    let untried = shares.shares.is_empty() && shares.inert.is_empty();
    let paths: Vec<&str> = change
        .edits
        .iter()
        .enumerate()
        .filter(|(at, _)| untried || shares.inert.contains(at))
        .map(|(_, edit)| edit.path.as_str())
        .collect();
    if paths.is_empty() {
        return None;
    }
    let named = paths.iter().take(6).copied().collect::<Vec<_>>().join(", ");
    let more = if paths.len() > 6 { format!(" and {} more", paths.len() - 6) } else { String::new() };
    // A figure known on one side only cannot be attributed to an edit.
    let half = Figure::ALL.iter().any(|figure| {
        let (before, after) = job.figure(*figure);
        before.is_some() != after.is_some()
    });
    Some(match (untried, half) {
        (true, _) => format!("{named}{more}: the effect of each is not known"),
        (false, true) => format!("{named}{more}: no effect on the figures known on both sides"),
        (false, false) => format!("{named}{more}: no effect on time, cost and memory"),
    })
}
