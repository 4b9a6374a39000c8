//! Figures of a bill in words: each side, the difference with its sign, and where an edit stands.

use super::{Base, Job, Seen};
use crate::origins;
use trainc_diag::source::SourceMap;
use trainc_diag::text;
use trainc_ir::size::GIB;
use trainc_tune::compare::{Added, Edit, Figure, Place};

/// The label of a figure.
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

/// Figures that are shown however little they moved.
pub(super) const ALWAYS: [Figure; 5] =
    [Figure::Cost, Figure::Least, Figure::OnDemand, Figure::Time, Figure::Headroom];

fn hours(seconds: f64) -> String {
    if seconds < 60.0 {
        format!("{} s", text::short(seconds))
    } else if seconds < 3_600.0 {
        format!("{} min", text::short(seconds / 60.0))
    } else {
        format!("{} h", text::short(seconds / 3_600.0))
    }
}

/// A figure without a sign.
fn amount(figure: Figure, value: f64) -> String {
    match figure {
        Figure::Cost | Figure::Least | Figure::OnDemand | Figure::Most => text::dollars(value),
        Figure::Time => hours(value),
        Figure::Headroom => format!("{} GiB", text::short(value / GIB as f64)),
        Figure::Nodes => text::short(value),
        Figure::Step => format!("{} s", text::short(value)),
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "tokens, never negative")]
        Figure::Tokens => text::group(value.round() as u64),
    }
}

/// A figure of a side.
pub(super) fn value(figure: Figure, value: Option<f64>) -> String {
    match value {
        Some(value) if value < 0.0 => format!("−{}", amount(figure, -value)),
        Some(value) if figure == Figure::Least => format!("at least {}", amount(figure, value)),
        Some(value) => amount(figure, value),
        None => "not known".to_owned(),
    }
}

/// A difference with its sign: `+$12.30`.
pub(super) fn signed(figure: Figure, added: f64) -> String {
    let sign = if added < 0.0 { '−' } else { '+' };
    format!("{sign}{}", amount(figure, added.abs()))
}

/// `+$12.30 (+5%)`.
pub(super) fn difference(figure: Figure, before: f64, after: f64) -> String {
    let added = after - before;
    let mut out = signed(figure, added);
    // A share of what is free says nothing: the whole of it is the card's.
    if before > 0.0 && !matches!(figure, Figure::Headroom | Figure::Nodes) {
        let percent = 100.0 * added / before;
        let sign = if percent < 0.0 { '−' } else { '+' };
        out.push_str(&format!(" ({sign}{}%)", text::short(percent.abs())));
    }
    out
}

/// Where the figure is expected nine times in ten.
pub(super) fn between(figure: Figure, seen: &Seen) -> Option<String> {
    let interval = seen.figures.interval(figure)?;
    // That it is the least stands before the figure itself.
    let figure = if matches!(figure, Figure::Least | Figure::OnDemand) { Figure::Cost } else { figure };
    Some(format!("{} to {}", value(figure, Some(interval.low)), value(figure, Some(interval.high))))
}

/// What is added to figures, those of most interest: `+$12.30, +1.2 h, −3 GiB free memory`.
pub(super) fn added(added: &Added) -> String {
    let costs = [Figure::Cost, Figure::Least, Figure::OnDemand];
    let cost = costs.into_iter().find(|figure| added.contains_key(figure));
    let shown: Vec<String> = Figure::ALL
        .iter()
        .filter(|figure| !costs.contains(figure) || Some(**figure) == cost)
        .filter_map(|figure| Some((*figure, *added.get(figure)?)))
        .filter(|(figure, by)| *by != 0.0 && !matches!(figure, Figure::Nodes | Figure::Tokens))
        .map(|(figure, by)| match figure {
            Figure::Cost | Figure::Time => signed(figure, by),
            Figure::Least => format!("{} of what has a price", signed(figure, by)),
            Figure::OnDemand => format!("{} on demand", signed(figure, by)),
            Figure::Step => format!("{} a step", signed(figure, by)),
            _ => format!("{} {}", signed(figure, by), label(figure)),
        })
        .collect();
    if shown.is_empty() { "nothing".to_owned() } else { shown.join(", ") }
}

/// What was written at a place, in one line and not too long.
pub(super) fn written(sources: &SourceMap, place: Place) -> String {
    const MOST: usize = 48;
    let text = sources.slice(place.text);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= MOST {
        return line;
    }
    let short: String = line.chars().take(MOST).collect();
    format!("{short}…")
}

/// `jobs/a.kdl:12`, or the flag that laid the value over.
pub(super) fn line_of(sources: &SourceMap, place: Place) -> String {
    let whole = origins::place(sources, place.at);
    match whole.rsplit_once(':') {
        Some((line, _)) if !whole.starts_with("--") => line.to_owned(),
        _ => whole,
    }
}

/// Where to look for an edit: where it stands now, or where it stood.
pub(super) fn place(sources: &SourceMap, edit: &Edit) -> String {
    edit.after.or(edit.before).map_or_else(String::new, |place| line_of(sources, place))
}

/// `cluster.nodes 2 → 4`, `train.tokens added: tokens 5_000`.
pub(super) fn edit(sources: &SourceMap, edit: &Edit) -> String {
    let (path, sides) = (&edit.path, (edit.before, edit.after));
    match sides {
        (Some(before), Some(after)) if before == after => {
            format!("{path} {}: the file is another", written(sources, after))
        }
        (Some(before), Some(after)) => {
            format!("{path} {} → {}", written(sources, before), written(sources, after))
        }
        (None, Some(after)) => format!("{path} added: {}", written(sources, after)),
        (Some(before), None) => format!("{path} removed: {}", written(sources, before)),
        (None, None) => path.clone(),
    }
}

/// `main (0f0aae7)`.
pub(super) fn base(base: &Base) -> String {
    match &base.commit {
        Some(commit) if !commit.starts_with(&base.name) => {
            format!("{} ({})", base.name, commit.get(..8).unwrap_or(commit))
        }
        Some(_) | None => base.name.clone(),
    }
}

/// What is wrong with a side, in short: errors only; at most two.
pub(super) fn errors(sources: &SourceMap, seen: &Seen) -> Vec<String> {
    const SHOWN: usize = 2;
    let errors: Vec<_> =
        seen.problems.iter().filter(|problem| problem.severity == trainc_diag::Severity::Error).collect();
    let mut out: Vec<String> = errors
        .iter()
        .take(SHOWN)
        .map(|problem| {
            let place = Place { at: problem.span, text: problem.span };
            format!("{} {}: {}", line_of(sources, place), problem.code.id, problem.message)
        })
        .collect();
    if errors.len() > SHOWN {
        out.push(format!("and {} more", errors.len() - SHOWN));
    }
    out
}

/// A step of other sequences trains something else, whatever its time and dollars.
fn another_training(before: &Seen, after: &Seen) -> Option<String> {
    let (old, new) = before.figures.global_sequences.zip(after.figures.global_sequences)?;
    (old != new).then(|| {
        format!("another training: global batch {} instead of {}", text::group(new), text::group(old))
    })
}

/// What fits by its figure and did so surely before, and now may not.
fn tight(before: &Seen, after: &Seen) -> Option<String> {
    let low = |seen: &Seen| Some(seen.figures.interval(Figure::Headroom)?.low);
    let free = after.figures.get(Figure::Headroom)?;
    (low(before)? >= 0.0 && free >= 0.0 && low(after)? < 0.0).then(|| {
        let [free, low] = [Some(free), low(after)].map(|bytes| value(Figure::Headroom, bytes));
        format!("it may not fit now: free memory is {free}, and {low} at the upper end of the prediction")
    })
}

/// What else there is to say of a job.
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
        out.extend(another_training(before, after));
        out.extend(tight(before, after));
    }
    if job.program {
        out.push("the program's files are others: the cost model does not read them".to_owned());
    }
    let why = |side: &Option<Seen>| side.as_ref().and_then(|seen| seen.figures.unknown.clone());
    match (why(&job.before), why(&job.after)) {
        (None, None) => {}
        (before, Some(after)) if before.as_ref() == Some(&after) || job.before.is_none() => {
            out.push(format!("not all is known: {after}"));
        }
        (before, after) => {
            out.extend(before.map(|why| format!("not all is known of it before: {why}")));
            out.extend(after.map(|why| format!("not all is known of it now: {why}")));
        }
    }
    if let (Some(before), Some(after)) = (&job.before, &job.after)
        && before.job != after.job
    {
        out.push(format!("it was called {}", before.job.unwrap_or(before.path)));
    }
    out
}

/// An edit, or several that only make a job together, and what they do.
pub(super) struct Line {
    /// Where each stands and what it says.
    pub(super) edits: Vec<(String, String)>,
    /// What they do to the figures.
    pub(super) does: String,
}

/// Which edit did it: a line for each share.
pub(super) fn lines(sources: &SourceMap, job: &Job) -> Vec<Line> {
    let Some(change) = &job.change else { return Vec::new() };
    let of = |at: &usize| change.edits.get(*at).map(|it| (place(sources, it), edit(sources, it)));
    change
        .shares
        .shares
        .iter()
        .map(|share| {
            let both = share.edits.len() > 1;
            let of_sides = |added: &Option<Added>| added.as_ref().map(|added| comparable(job, added));
            let does = match (&of_sides(&share.alone), &of_sides(&share.last)) {
                (Some(alone), _) if both => format!("{}, only together", added(alone)),
                (Some(alone), Some(last)) if differ(alone, last) => {
                    format!("{} alone; {} on top of the others", added(alone), bought(last))
                }
                (Some(alone), _) => added(alone),
                (None, Some(last)) => format!("{} on top of the others; alone it plans nothing", added(last)),
                (None, None) => "cannot be told from the others: alone it plans nothing".to_owned(),
            };
            Line { edits: share.edits.iter().filter_map(of).collect(), does }
        })
        .collect()
}

/// Whether an edit moves dollars or hours otherwise alone than on top of the others, by more than two percent.
fn differ(alone: &Added, last: &Added) -> bool {
    [Figure::Cost, Figure::Time].iter().any(|figure| {
        let of = |added: &Added| added.get(figure).copied().unwrap_or(0.0);
        (of(alone) - of(last)).abs() > 0.02 * of(alone).abs().max(of(last).abs())
    })
}

/// What is added, without a difference between what is paid and what is paid at most.
fn comparable(job: &Job, added: &Added) -> Added {
    let keeps = |figure: &Figure| *figure != Figure::OnDemand || !job.is_half_spot();
    added.iter().filter(|(figure, _)| keeps(figure)).map(|(figure, by)| (*figure, *by)).collect()
}

/// The dollars and hours among what is added.
fn bought(all: &Added) -> String {
    let some: Added = all
        .iter()
        .filter(|(figure, _)| matches!(figure, Figure::Cost | Figure::OnDemand | Figure::Time))
        .map(|(figure, by)| (*figure, *by))
        .collect();
    added(&some)
}

/// What the edits do together beyond what each does alone; none where their shares add up.
pub(super) fn together(job: &Job) -> Option<String> {
    let shares = &job.change.as_ref()?.shares;
    let of_most =
        [Figure::Cost, Figure::Least, Figure::OnDemand, Figure::Time, Figure::Headroom, Figure::Step];
    let rest: Added =
        of_most.into_iter().filter_map(|figure| Some((figure, shares.interaction(figure)?))).collect();
    let rest = comparable(job, &rest);
    (!rest.is_empty()).then(|| format!("{} beyond what each does alone: they interact", added(&rest)))
}

/// Edits that move no figure.
pub(super) fn inert(job: &Job) -> Option<String> {
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
    // A figure that is known on one side only is moved by an edit that nobody can tell.
    let half = Figure::ALL.iter().any(|figure| {
        let (before, after) = job.figure(*figure);
        before.is_some() != after.is_some()
    });
    Some(match (untried, half) {
        (true, _) => format!("{named}{more}: what each does cannot be told"),
        (false, true) => format!("{named}{more}: no figure moves that is known on both sides"),
        (false, false) => format!("{named}{more}: no figure moves"),
    })
}
