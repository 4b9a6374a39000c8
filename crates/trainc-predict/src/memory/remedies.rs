//! Edits of a manifest that make a layout fit, with their effect on memory and time.

use super::MEAN_ERROR;
pub use super::edits::{Edit, Freedom};
use super::edits::{apply_edit, candidates};
use crate::layout::Layout;
use crate::prediction::{Fit, Memory};

/// Edits and their effect.
#[derive(Clone, Debug)]
pub struct Remedy {
    /// One edit, or several if none alone is enough.
    pub edits: Vec<Edit>,
    /// The layout after them.
    pub layout: Layout,
    /// The memory after them.
    pub after: Memory,
    /// Additional time by [`Judge::seconds`], a fraction; `None` if the speed is unknown.
    pub slower: Option<f64>,
}

/// Additional time of an edit of last resort, a fraction: at least twice the time.
///
/// The mildest edit of nodes doubles them. In the worst case, without a speedup, it doubles the cost; with a
/// perfect speedup it is free. An edit that more than doubles the time on the same nodes costs more than
/// that, and takes longer.
const RUINOUS: f64 = 1.0;

/// Returns true if an edit that adds a fraction `slower` to the time of a run more than doubles it.
pub fn is_ruinous(slower: Option<f64>) -> bool {
    slower.is_some_and(|slower| slower > RUINOUS)
}

/// Returns the layout on the same number of nodes of another instance type; `None` if the catalogue lacks it.
pub fn layout_on_instance(layout: &Layout, name: &'static str) -> Option<Layout> {
    apply_edit(layout, Edit::Instance(name))
}

/// Returns true if a remedy moves the job to another instance type.
pub fn changes_instance(edits: &[Edit]) -> bool {
    edits.iter().any(|edit| matches!(edit, Edit::Instance(_)))
}

/// Maximum number of bundles of several edits.
const BUNDLES: usize = 3;

/// Minimum advantage of a bundle over every single edit, a fraction of the time: less does not justify
/// another line.
const WORTH: f64 = 0.01;

/// Facts about a layout other than its memory.
pub struct Judge<'a> {
    /// Memory of a layout once it is written.
    pub memory: &'a dyn Fn(&Layout) -> Memory,
    /// Time in which edits are priced, of a sequence or of a run, if known.
    pub seconds: &'a dyn Fn(&Layout) -> Option<f64>,
    /// True if no other rule rejects the layout: host memory, the longest run.
    pub passes: &'a dyn Fn(&Layout, &Memory) -> bool,
    /// True if a micro-batch and more nodes may be combined: accumulation follows from the global batch, so
    /// that the training stays the same.
    pub batch_follows: bool,
}

/// Returns edits that make the layout fit, in ascending order of time, and of equals the one with the most
/// room first.
///
/// Of each kind of edit: the mildest that fits, and if that one only may fit, the mildest that surely does.
/// Of each two kinds: the pair that costs least in time, if it costs less than any single edit. Of three
/// kinds: the same, if all others cost twice the time or nothing fits. More nodes cost money even where they
/// save time: they come after the edits without additional cost, but before ruinous ones. Another instance
/// type comes last, alone: the one with the least memory that fits, and if its price is unknown also the
/// first with a known price.
///
/// Remedies leave room for the mean error of predicted memory ([`MEAN_ERROR`]), like the layouts of `tune`;
/// if none does, remedies that just fit are returned.
pub fn remedies(layout: &Layout, freedom: &Freedom, judge: &Judge) -> Vec<Remedy> {
    let with = |room: f64| {
        let passes = |new: &Layout, after: &Memory| {
            let needs = after.per_gpu_bytes * (1.0 + room);
            after.capacity_bytes.is_none_or(|capacity| needs <= capacity) && (judge.passes)(new, after)
        };
        remedies_that_pass(layout, freedom, &Judge { passes: &passes, ..*judge })
    };
    let mut found = with(MEAN_ERROR);
    if !found.iter().any(|one| !changes_instance(&one.edits)) {
        let (elsewhere, here): (Vec<Remedy>, Vec<Remedy>) =
            with(0.0).into_iter().partition(|one| changes_instance(&one.edits));
        if found.is_empty() {
            found = elsewhere;
        }
        found.splice(0..0, here);
    }
    found
}

fn remedies_that_pass(layout: &Layout, freedom: &Freedom, judge: &Judge) -> Vec<Remedy> {
    let before = (judge.seconds)(layout);
    let weigh = |edits: &[Edit], new: &Layout| {
        let after = (judge.memory)(new);
        let fits = after.fits == Some(true) && (judge.passes)(new, &after);
        let slower = || Some((judge.seconds)(new)? / before? - 1.0);
        fits.then(|| Remedy { edits: edits.to_vec(), layout: new.clone(), slower: slower(), after })
    };
    let kinds = candidates(freedom);
    let mut found: Vec<Remedy> = Vec::new();
    // Edits that have an effect but are not enough alone.
    let mut weak: Vec<Vec<(Edit, Layout)>> = Vec::new();
    for kind in &kinds {
        let made: Vec<(Edit, Layout)> =
            kind.iter().filter_map(|edit| Some((*edit, apply_edit(layout, *edit)?))).collect();
        let first = made.iter().enumerate().find_map(|(at, (edit, new))| Some((at, weigh(&[*edit], new)?)));
        let enough = first.as_ref().map_or(made.len(), |(at, _)| *at);
        // An edit that may not fit is followed by the mildest that surely does.
        let unsure = first.as_ref().filter(|(_, one)| one.after.fit() == Some(Fit::Maybe));
        let sure = unsure.and_then(|(at, _)| {
            let stronger = made.iter().skip(at + 1).filter_map(|(edit, new)| weigh(&[*edit], new));
            stronger.into_iter().find(|one| one.after.fit() == Some(Fit::Surely))
        });
        found.extend(first.map(|(_, remedy)| remedy));
        found.extend(sure);
        weak.push(made.into_iter().take(enough).collect());
    }
    let allowed = |a: Edit, b: Edit| together_allowed(a, b, judge.batch_follows);
    let mut bundles = bundles_of_two(&weak, &weigh, &allowed);
    let surer = add_edit_for_sure_fit(&found, &kinds, &weigh, &allowed);
    let cheap = |remedy: &Remedy| !is_ruinous(remedy.slower) && !adds_nodes(remedy);
    if !found.iter().chain(&bundles).any(cheap) {
        bundles.extend(bundles_of_three(&weak, &weigh, &allowed));
    }
    let least = |of: &[Remedy]| of.iter().filter_map(|one| one.slower).min_by(f64::total_cmp);
    let single = least(&found.iter().filter(|one| !adds_nodes(one)).cloned().collect::<Vec<_>>());
    bundles.retain(|bundle| match (bundle.slower, single) {
        (Some(slower), Some(single)) => slower < single - WORTH,
        _ => !found.iter().any(|one| !adds_nodes(one)),
    });
    bundles.sort_by(compare_price);
    bundles.truncate(BUNDLES);
    found.extend(bundles);
    found.extend(surer.filter(|one| found.iter().all(|other| other.edits != one.edits)));
    if found.is_empty() {
        let fits = |new: &Layout| weigh(&[], new).map(|remedy| remedy.after);
        let needs = |new: &Layout| (judge.memory)(new).per_gpu_bytes;
        found.extend(
            add_edits_until_fit(layout, &kinds, &needs, &fits)
                .and_then(|(edits, new, _)| weigh(&edits, &new)),
        );
    }
    for names in [&freedom.instances, &freedom.priced] {
        let first =
            names.iter().find_map(|&name| weigh(&[Edit::Instance(name)], &layout_on_instance(layout, name)?));
        found.extend(first.filter(|one| found.iter().all(|other| other.edits != one.edits)));
    }
    found.sort_by(compare_price);
    found
}

/// Cheapest second edit that makes an uncertain fit certain.
fn add_edit_for_sure_fit(
    found: &[Remedy],
    kinds: &[Vec<Edit>],
    weigh: &Weigh,
    allowed: &Allowed,
) -> Option<Remedy> {
    let is_sure = |one: &Remedy| one.after.fit() == Some(Fit::Surely) && !is_ruinous(one.slower);
    let here: Vec<&Remedy> = found.iter().filter(|one| !adds_nodes(one) && !is_ruinous(one.slower)).collect();
    if here.iter().any(|one| is_sure(one)) {
        return None;
    }
    let mut out: Vec<Remedy> = Vec::new();
    for one in here {
        let Some(first) = one.edits.first().copied() else { continue };
        let more = |edit: &Edit| matches!(edit, Edit::Nodes(_)) || *edit == first;
        let beside = kinds.iter().flatten().filter(|edit| !more(edit) && allowed(first, **edit));
        out.extend(
            beside
                .filter_map(|edit| weigh(&[first, *edit], &apply_edit(&one.layout, *edit)?))
                .filter(is_sure),
        );
    }
    out.into_iter().min_by(compare_price)
}

fn adds_nodes(remedy: &Remedy) -> bool {
    remedy.edits.iter().any(|edit| matches!(edit, Edit::Nodes(_)))
}

/// Compares remedies in the order in which they are offered.
fn compare_price(a: &Remedy, b: &Remedy) -> std::cmp::Ordering {
    let class = |remedy: &Remedy| match remedy {
        _ if changes_instance(&remedy.edits) => 3,
        _ if is_ruinous(remedy.slower) => 2,
        _ if adds_nodes(remedy) => 1,
        _ => 0,
    };
    let rank = |remedy: &Remedy| remedy.edits.iter().map(|edit| edit.rank()).max().unwrap_or(0);
    // Differences below half a percent count as equal.
    let price = |remedy: &Remedy| remedy.slower.map(|slower| (200.0 * slower).round());
    let used = |remedy: &Remedy| remedy.after.per_gpu_bytes;
    class(a)
        .cmp(&class(b))
        .then_with(|| match (price(a), price(b)) {
            (Some(x), Some(y)) => x.total_cmp(&y),
            _ => rank(a).cmp(&rank(b)),
        })
        .then_with(|| a.edits.len().cmp(&b.edits.len()))
        .then_with(|| used(a).total_cmp(&used(b)))
}

/// Returns true if edits may be combined: numbers chosen for the present ranks do not apply to other ranks,
/// except for a micro-batch with more nodes if the accumulation follows.
fn together_allowed(a: Edit, b: Edit, batch_follows: bool) -> bool {
    let is_micro = |edit: Edit| matches!(edit, Edit::MicroBatch(_));
    let is_nodes = |edit: Edit| matches!(edit, Edit::Nodes(_));
    if is_micro(a) && is_nodes(b) || is_nodes(a) && is_micro(b) {
        return batch_follows;
    }
    let divides = |edit: Edit| {
        matches!(
            edit,
            Edit::FullShard
                | Edit::ShardDegree(_)
                | Edit::ShardOptimizerState
                | Edit::ShardedEngine
                | Edit::TensorDegree(_)
                | Edit::ContextDegree(_)
                | Edit::PipelineDegree(_)
                | Edit::Nodes(_)
        )
    };
    let batch = |edit: Edit| {
        matches!(
            edit,
            Edit::MicroBatch(_)
                | Edit::Nodes(_)
                | Edit::TensorDegree(_)
                | Edit::ContextDegree(_)
                | Edit::PipelineDegree(_)
        )
    };
    !(divides(a) && divides(b) || batch(a) && batch(b))
}

type Weigh<'a> = dyn Fn(&[Edit], &Layout) -> Option<Remedy> + 'a;
type Allowed<'a> = dyn Fn(Edit, Edit) -> bool + 'a;
/// Edits of one kind, each with its resulting layout.
type Kind = [(Edit, Layout)];

/// Returns the cheapest pair that fits, of each two kinds.
fn bundles_of_two(weak: &[Vec<(Edit, Layout)>], weigh: &Weigh, allowed: &Allowed) -> Vec<Remedy> {
    let mut out = Vec::new();
    for (at, first) in weak.iter().enumerate() {
        for second in weak.iter().skip(at + 1) {
            out.extend(fitting_pairs((first, second), weigh, allowed).min_by(compare_price));
        }
    }
    out
}

fn fitting_pairs<'a>(
    (first, second): (&'a Kind, &'a Kind),
    weigh: &'a Weigh,
    allowed: &'a Allowed,
) -> impl Iterator<Item = Remedy> + 'a {
    first.iter().filter_map(move |(a, with)| {
        // The mildest that fits with it.
        second.iter().filter(|(b, _)| allowed(*a, *b)).find_map(|(b, _)| {
            let new = apply_edit(with, *b)?;
            weigh(&[*a, *b], &new)
        })
    })
}

/// Returns the cheapest triple that fits, of each three kinds.
fn bundles_of_three(weak: &[Vec<(Edit, Layout)>], weigh: &Weigh, allowed: &Allowed) -> Vec<Remedy> {
    let mut out = Vec::new();
    for (at, first) in weak.iter().enumerate() {
        for (a, _) in first {
            // The layouts of the other kinds after the first edit.
            let rest: Vec<Vec<(Edit, Layout)>> = weak
                .iter()
                .skip(at + 1)
                .map(|kind| {
                    let beside = kind.iter().filter(|(b, _)| allowed(*a, *b));
                    let base = first.iter().find(|(edit, _)| edit == a).map(|(_, with)| with);
                    beside.filter_map(|(b, _)| Some((*b, apply_edit(base?, *b)?))).collect()
                })
                .collect();
            let with_first = |edits: &[Edit], new: &Layout| {
                let all: Vec<Edit> = std::iter::once(*a).chain(edits.iter().copied()).collect();
                weigh(&all, new)
            };
            out.extend(bundles_of_two(&rest, &with_first, allowed));
        }
    }
    out
}

/// Adds kinds of edits until the layout fits.
fn add_edits_until_fit(
    layout: &Layout,
    kinds: &[Vec<Edit>],
    needs: &dyn Fn(&Layout) -> f64,
    fits: &dyn Fn(&Layout) -> Option<Memory>,
) -> Option<(Vec<Edit>, Layout, Memory)> {
    let apply =
        |edits: &[Edit]| edits.iter().try_fold(layout.clone(), |so_far, edit| apply_edit(&so_far, *edit));
    let mut chosen: Vec<Edit> = Vec::new();
    for kind in kinds {
        // The last edit of a kind is the strongest.
        let Some(strongest) = kind.last() else { continue };
        let mut with = chosen.clone();
        with.push(*strongest);
        let Some(new) = apply(&with) else { continue };
        if needs(&new) >= apply(&chosen).map_or(f64::MAX, |old| needs(&old)) {
            continue;
        }
        chosen = with;
        if fits(&new).is_some() {
            break;
        }
    }
    let mut at = 0;
    while at < chosen.len() {
        let mut fewer = chosen.clone();
        fewer.remove(at);
        if apply(&fewer).is_some_and(|new| fits(&new).is_some()) {
            chosen = fewer;
        } else {
            at += 1;
        }
    }
    // Of each remaining kind, the mildest that still fits.
    for at in 0..chosen.len() {
        let kind = kinds.iter().find(|kind| chosen.get(at).is_some_and(|edit| kind.contains(edit)));
        for milder in kind.into_iter().flatten() {
            let mut with = chosen.clone();
            if let Some(slot) = with.get_mut(at) {
                *slot = *milder;
            }
            if apply(&with).is_some_and(|new| fits(&new).is_some()) {
                chosen = with;
                break;
            }
        }
    }
    let new = apply(&chosen)?;
    let after = fits(&new)?;
    Some((chosen, new, after))
}
