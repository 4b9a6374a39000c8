//! Layouts near that of the manifest: a few changes of it that make a job fit, in the order of their price.
//!
//! [`search`](crate::search()) looks at every layout and keeps the fastest; this one looks at those that
//! leave most of what is written, and at settings that the search does not vary. Values, arithmetic and edits
//! are those of the one [`Space`].

mod batches;
mod change;
mod clusters;

pub use change::Change;
pub use clusters::{Cluster, smallest_cluster};

use crate::choice::Choice;
use crate::space::Space;
use trainc_predict::memory::{MemoryConstants, has_room, memory_with};
use trainc_predict::speed::speed;
use trainc_predict::{Constants, Fit, Layout, Memory, Run};

/// Changes and their effect.
#[derive(Clone, Debug)]
pub struct Remedy {
    /// One change, or several if none alone is enough.
    pub changes: Vec<Change>,
    /// The layout after them.
    pub choice: Choice,
    /// The same as input of the cost model.
    pub layout: Layout,
    /// The memory after them.
    pub after: Memory,
    /// Additional time of the training, a fraction; `None` if the speed is unknown.
    pub slower: Option<f64>,
}

impl Remedy {
    /// Returns true if it moves the job to another instance type.
    pub fn changes_instance(&self) -> bool {
        self.changes.iter().any(|change| matches!(change, Change::Machine(_)))
    }

    fn adds_nodes(&self) -> bool {
        self.changes.iter().any(|change| matches!(change, Change::Nodes(_)))
    }
}

/// Additional time of a change of last resort, a fraction: at least twice the time.
///
/// The mildest change of nodes doubles them. In the worst case, without a speedup, it doubles the cost; with a
/// perfect speedup it is free. A change that more than doubles the time on the same nodes costs more than
/// that, and takes longer.
const RUINOUS: f64 = 1.0;

/// Returns true if a change that adds a fraction `slower` to the time of a run more than doubles it.
pub fn is_ruinous(slower: Option<f64>) -> bool {
    slower.is_some_and(|slower| slower > RUINOUS)
}

/// Maximum number of bundles of several changes.
const BUNDLES: usize = 3;

/// Minimum advantage of a bundle over every single change, a fraction of the time: less does not justify
/// another line.
const WORTH: f64 = 0.01;

/// What other rules say.
#[derive(Clone, Copy)]
pub struct Judge<'a> {
    /// True if no rule rejects a change of the job, whatever the layout.
    pub allows: &'a dyn Fn(Change) -> bool,
    /// True if no rule rejects the layout: host memory, the longest run, the instance type.
    pub passes: &'a dyn Fn(&Choice, &Layout, &Memory) -> bool,
}

impl Space<'_> {
    /// Returns the steps of a run relative to those of the manifest: 1 if steps are written; else the
    /// sequences stay.
    fn step_count_ratio(&self, choice: &Choice) -> f64 {
        let train = &self.plan.job.train;
        let (before, after) = (self.written.global_sequences as f64, choice.global_sequences as f64);
        if train.steps.get().is_some() || choice.global_sequences == self.written.global_sequences {
            return 1.0;
        }
        let sequences = train.dataset.as_ref().and_then(|dataset| dataset.sequences.get());
        let (Some(epochs), Some(sequences)) = (train.epochs.get(), sequences) else { return before / after };
        // An epoch has whole steps.
        let steps = |global: f64| (epochs * (sequences as f64 / global).ceil()).ceil();
        steps(after) / steps(before)
    }

    /// Returns the seconds of the training per step of the manifest's; `None` if its speed is unknown.
    fn training_seconds(&self, choice: &Choice, layout: &Layout, constants: &Constants) -> Option<f64> {
        let speed = speed(layout, constants).ok()?;
        Some(speed.step_seconds * self.step_count_ratio(choice))
    }

    /// Predicts the run of a choice, whose steps change with a global batch that does; `None` if its speed
    /// or its length is unknown.
    pub fn predict_run(&self, choice: &Choice, constants: &Constants) -> Option<Run> {
        let layout = self.layout(choice)?;
        let terms = self.sites.get(choice.site)?.terms.as_ref()?;
        let speed = speed(&layout, constants).ok()?;
        Some(terms.with_steps_scaled(self.step_count_ratio(choice)).predict_run(&layout, &speed))
    }
}

/// Returns changes that make the layout fit, in ascending order of time, and of equals the one with the most
/// room first.
///
/// Of each kind of change: the mildest that fits, and if that one only may fit, the mildest that surely does.
/// Of each two kinds: the pair that costs least in time, if it costs less than any single change. Of three
/// kinds: the same, if all others cost twice the time or nothing fits. More nodes cost money even where they
/// save time: they come after the changes without additional cost, but before ruinous ones. Another instance
/// type comes last, alone: the first of the space's on which it fits, and if the cost is unknown there also
/// the first where it is known.
///
/// Remedies leave room for the mean error of predicted memory ([`has_room`]), like the layouts of `tune`;
/// if none does, remedies that just fit are returned.
pub fn remedies(space: &Space, judge: Judge, constants: &Constants) -> Vec<Remedy> {
    let search = Search {
        space,
        judge,
        constants,
        memory: MemoryConstants::from_constants(constants),
        before: space.training_seconds(&space.written, &space.base, constants),
        leaves_room: true,
    };
    let mut found = search.remedies();
    if found.iter().all(Remedy::changes_instance) {
        let tight = Search { leaves_room: false, ..search }.remedies();
        let (elsewhere, here): (Vec<Remedy>, Vec<Remedy>) =
            tight.into_iter().partition(Remedy::changes_instance);
        if found.is_empty() {
            found = elsewhere;
        }
        found.splice(0..0, here);
    }
    found
}

/// A search for remedies.
struct Search<'a> {
    space: &'a Space<'a>,
    judge: Judge<'a>,
    constants: &'a Constants,
    memory: MemoryConstants,
    /// Seconds of a step as written.
    before: Option<f64>,
    /// Whether room for the mean error stays free.
    leaves_room: bool,
}

impl Search<'_> {
    /// Returns the remedy of some changes, if the layout after them fits.
    fn weigh(&self, changes: &[Change], choice: &Choice) -> Option<Remedy> {
        let layout = self.space.layout(choice)?;
        let after = memory_with(&layout, &self.memory);
        let has_room = |capacity| !self.leaves_room || has_room(after.per_gpu_bytes, capacity);
        let fits = after.fits == Some(true) && after.capacity_bytes.is_none_or(has_room);
        if !fits || !(self.judge.passes)(choice, &layout, &after) {
            return None;
        }
        let seconds = || self.space.training_seconds(choice, &layout, self.constants);
        let slower = self.before.and_then(|before| Some(seconds()? / before - 1.0));
        Some(Remedy { changes: changes.to_vec(), choice: *choice, layout, after, slower })
    }

    /// Returns the remedy of one more change.
    fn weigh_with(&self, (changes, from): (&[Change], &Choice), change: Change) -> Option<Remedy> {
        let all: Vec<Change> = changes.iter().copied().chain([change]).collect();
        self.weigh(&all, &self.space.changed(from, change)?)
    }

    fn remedies(&self) -> Vec<Remedy> {
        let written = &self.space.written;
        let mut kinds = self.space.changes();
        for kind in &mut kinds {
            kind.retain(|change| (self.judge.allows)(*change));
        }
        let mut found: Vec<Remedy> = Vec::new();
        // Changes that are not enough alone.
        let mut weak: Vec<Vec<Change>> = Vec::new();
        for kind in &kinds {
            let alone = |change: &Change| self.weigh_with((&[], written), *change);
            let first = kind.iter().enumerate().find_map(|(at, change)| Some((at, alone(change)?)));
            let enough = first.as_ref().map_or(kind.len(), |(at, _)| *at);
            // A change that may not fit is followed by the mildest that surely does.
            let unsure = first.as_ref().filter(|(_, one)| one.after.fit() == Some(Fit::Maybe));
            let sure = unsure.and_then(|(at, _)| {
                kind.iter().skip(at + 1).filter_map(alone).find(|one| one.after.fit() == Some(Fit::Surely))
            });
            found.extend(first.map(|(_, remedy)| remedy));
            found.extend(sure);
            weak.push(kind.iter().copied().take(enough).collect());
        }
        let mut bundles = self.pairs(&weak, (&[], written));
        let surer = self.sure_pair(&found, &kinds);
        let cheap = |remedy: &Remedy| !is_ruinous(remedy.slower) && !remedy.adds_nodes();
        if !found.iter().chain(&bundles).any(cheap) {
            bundles.extend(self.triples(&weak));
        }
        let here: Vec<&Remedy> = found.iter().filter(|one| !one.adds_nodes()).collect();
        let single = here.iter().filter_map(|one| one.slower).min_by(f64::total_cmp);
        bundles.retain(|bundle| match (bundle.slower, single) {
            (Some(slower), Some(single)) => slower < single - WORTH,
            _ => here.is_empty(),
        });
        bundles.sort_by(compare_price);
        bundles.truncate(BUNDLES);
        found.extend(bundles);
        found.extend(surer.filter(|one| found.iter().all(|other| other.changes != one.changes)));
        if found.is_empty() {
            found.extend(self.changes_until_fit(&kinds));
        }
        found.extend(self.other_machines());
        found.sort_by(compare_price);
        found
    }

    /// Returns the first other machines on which the job fits, and the first of known cost.
    fn other_machines(&self) -> Vec<Remedy> {
        let space = self.space;
        let has_cost = |one: &Remedy| one.slower.is_some() && space.has_instance_price(one.choice.site);
        let mut out: Vec<Remedy> = Vec::new();
        for site in (0..space.sites.len()).filter(|site| *site != space.written.site) {
            let Some(remedy) = self.weigh_with((&[], &space.written), Change::Machine(site)) else {
                continue;
            };
            let has_cost = has_cost(&remedy);
            if out.is_empty() || has_cost {
                out.push(remedy);
            }
            if has_cost {
                break;
            }
        }
        out
    }

    /// Returns the cheapest second change that makes an uncertain fit certain.
    fn sure_pair(&self, found: &[Remedy], kinds: &[Vec<Change>]) -> Option<Remedy> {
        let is_sure = |one: &Remedy| one.after.fit() == Some(Fit::Surely) && !is_ruinous(one.slower);
        let is_near = |one: &&Remedy| !one.adds_nodes() && !is_ruinous(one.slower);
        let here: Vec<&Remedy> = found.iter().filter(is_near).collect();
        if here.iter().any(|one| is_sure(one)) {
            return None;
        }
        let mut out: Vec<Remedy> = Vec::new();
        for one in here {
            let Some(first) = one.changes.first().copied() else { continue };
            let more = |change: &Change| matches!(change, Change::Nodes(_)) || *change == first;
            let second = kinds.iter().flatten().filter(|change| !more(change));
            let second = second.filter(|change| self.are_compatible(first, **change));
            let pairs = second.filter_map(|change| self.weigh_with((&one.changes, &one.choice), *change));
            out.extend(pairs.filter(is_sure));
        }
        out.into_iter().min_by(compare_price)
    }

    /// Returns the cheapest pair that fits, of each two kinds, in addition to changes already made.
    fn pairs(&self, kinds: &[Vec<Change>], (made, from): (&[Change], &Choice)) -> Vec<Remedy> {
        let mut out = Vec::new();
        for (at, first) in kinds.iter().enumerate() {
            for second in kinds.iter().skip(at + 1) {
                let pair = |a: &Change| {
                    let with = self.space.changed(from, *a)?;
                    let made: Vec<Change> = made.iter().copied().chain([*a]).collect();
                    // The mildest that fits with it.
                    let mut beside = second.iter().filter(|b| self.are_compatible(*a, **b));
                    beside.find_map(|b| self.weigh_with((&made, &with), *b))
                };
                out.extend(first.iter().filter_map(pair).min_by(compare_price));
            }
        }
        out
    }

    /// Returns the cheapest triple that fits, of each change and each two further kinds.
    fn triples(&self, kinds: &[Vec<Change>]) -> Vec<Remedy> {
        let mut out = Vec::new();
        for (at, first) in kinds.iter().enumerate() {
            for a in first {
                let Some(with) = self.space.changed(&self.space.written, *a) else { continue };
                let compatible = |kind: &Vec<Change>| {
                    kind.iter().copied().filter(|b| self.are_compatible(*a, *b)).collect()
                };
                let rest: Vec<Vec<Change>> = kinds.iter().skip(at + 1).map(compatible).collect();
                out.extend(self.pairs(&rest, (&[*a], &with)));
            }
        }
        out
    }

    /// Returns true if changes may be combined: numbers chosen for the present ranks do not apply to other
    /// ranks, except for a micro-batch with more nodes if accumulation follows from the global batch, so that
    /// the training stays the same.
    fn are_compatible(&self, a: Change, b: Change) -> bool {
        let is_micro = |change| matches!(change, Change::MicroBatch(_));
        let is_nodes = |change| matches!(change, Change::Nodes(_));
        if is_micro(a) && is_nodes(b) || is_nodes(a) && is_micro(b) {
            let train = &self.space.plan.job.train;
            return train.global_batch.get().is_some() && train.accumulation.is_absent();
        }
        let both = |of: fn(Change) -> bool| of(a) && of(b);
        !both(Change::arranges_ranks) && !both(Change::divides_batch)
    }

    /// Makes the strongest change of one kind after another until the layout fits; then leaves out those
    /// that are not needed, and takes the mildest of each remaining kind.
    fn changes_until_fit(&self, kinds: &[Vec<Change>]) -> Option<Remedy> {
        let written = &self.space.written;
        let apply = |changes: &[Change]| {
            changes.iter().try_fold(*written, |so_far, change| self.space.changed(&so_far, *change))
        };
        let needs = |choice: &Choice| {
            let layout = self.space.layout(choice);
            layout.map_or(f64::MAX, |layout| memory_with(&layout, &self.memory).per_gpu_bytes)
        };
        let fits = |changes: &[Change]| apply(changes).is_some_and(|new| self.weigh(changes, &new).is_some());
        let mut chosen: Vec<Change> = Vec::new();
        for strongest in kinds.iter().filter_map(|kind| kind.last()) {
            let mut with = chosen.clone();
            with.push(*strongest);
            let Some(new) = apply(&with) else { continue };
            if needs(&new) >= apply(&chosen).map_or(f64::MAX, |old| needs(&old)) {
                continue;
            }
            chosen = with;
            if fits(&chosen) {
                break;
            }
        }
        let mut at = 0;
        while at < chosen.len() {
            let mut fewer = chosen.clone();
            fewer.remove(at);
            if fits(&fewer) {
                chosen = fewer;
            } else {
                at += 1;
            }
        }
        for at in 0..chosen.len() {
            let kind = kinds.iter().find(|kind| chosen.get(at).is_some_and(|change| kind.contains(change)));
            for milder in kind.into_iter().flatten() {
                let mut with = chosen.clone();
                if let Some(slot) = with.get_mut(at) {
                    *slot = *milder;
                }
                if fits(&with) {
                    chosen = with;
                    break;
                }
            }
        }
        self.weigh(&chosen, &apply(&chosen)?)
    }
}

/// Compares remedies in the order in which they are offered.
fn compare_price(a: &Remedy, b: &Remedy) -> std::cmp::Ordering {
    let class = |remedy: &Remedy| match remedy {
        _ if remedy.changes_instance() => 3,
        _ if is_ruinous(remedy.slower) => 2,
        _ if remedy.adds_nodes() => 1,
        _ => 0,
    };
    let rank = |remedy: &Remedy| remedy.changes.iter().map(|change| change.rank()).max().unwrap_or(0);
    // Differences below half a percent count as equal.
    let price = |remedy: &Remedy| remedy.slower.map(|slower| (200.0 * slower).round());
    let used = |remedy: &Remedy| remedy.after.per_gpu_bytes;
    class(a)
        .cmp(&class(b))
        .then_with(|| match (price(a), price(b)) {
            (Some(x), Some(y)) => x.total_cmp(&y),
            _ => rank(a).cmp(&rank(b)),
        })
        .then_with(|| a.changes.len().cmp(&b.changes.len()))
        .then_with(|| used(a).total_cmp(&used(b)))
}
