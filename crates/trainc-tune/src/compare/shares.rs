//! Effect of each edit: applied alone to the old job, and left out of the new one.

use super::figures::exceeds_rounding;
use super::{Edit, Figure, Figures, Side};
use std::collections::BTreeMap;
use trainc_syntax::ast::Node;

/// Maximum number of edits that are tried; a job with more counts as another job.
const MOST: usize = 200;
/// Maximum number of edits whose pairs are tried.
const MOST_PAIRED: usize = 24;

/// Change of figures.
pub type Added = BTreeMap<Figure, f64>;

/// One edit, or several that are only valid together.
#[derive(Clone, Debug, Default)]
pub struct Share {
    /// Positions among the edits.
    pub edits: Vec<usize>,
    /// Effect of the edit alone; `None` if the job cannot be planned with it alone.
    pub alone: Option<Added>,
    /// Effect on top of all other edits; `None` if the job cannot be planned without it.
    pub last: Option<Added>,
}

/// All shares of a change.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    /// Edits that change a figure, in descending order of effect.
    pub shares: Vec<Share>,
    /// Edits that change no figure.
    pub inert: Vec<usize>,
    /// Remainder of the difference after the shares of each edit: their joint effect.
    pub together: Added,
    /// True if the share of every edit is known.
    pub complete: bool,
}

impl Shares {
    /// Joint effect of the edits, if it is more than 0.5 % of the whole change.
    pub fn interaction(&self, figure: Figure) -> Option<f64> {
        let rest = *self.together.get(&figure)?;
        let moved: f64 = self
            .shares
            .iter()
            .filter_map(|share| share.alone.as_ref()?.get(&figure))
            .map(|added| added.abs())
            .sum::<f64>();
        (rest.abs() > 0.005 * moved.max(rest.abs())).then_some(rest)
    }
}

struct Trial<'a> {
    before: Side<'a>,
    edits: &'a [Edit],
    /// Figures that are known on both sides, and that a trial must know as well.
    known: Vec<Figure>,
    predict: &'a mut dyn FnMut(&Node) -> Option<Figures>,
}

impl Trial<'_> {
    /// Predicts the figures with these edits applied.
    fn predict_with_edits(&mut self, wanted: &dyn Fn(usize) -> bool) -> Option<Figures> {
        let mut node = self.before.node.clone();
        for (_, edit) in self.edits.iter().enumerate().filter(|(at, _)| wanted(*at)) {
            edit.apply(&mut node);
        }
        let figures = (self.predict)(&node)?;
        self.known.iter().all(|figure| figures.get(*figure).is_some()).then_some(figures)
    }

    fn figure_changes(&self, from: &Figures, to: &Figures) -> Added {
        self.known
            .iter()
            .filter_map(|figure| Some((*figure, from.difference(to, *figure)?)))
            .map(|(figure, added)| {
                let beside = from.get(figure).unwrap_or(0.0).abs();
                (figure, if exceeds_rounding(added, beside) { added } else { 0.0 })
            })
            .collect()
    }

    fn share(&mut self, after: &Figures, members: Vec<usize>) -> Share {
        let alone = self.predict_with_edits(&|at| members.contains(&at));
        let rest = self.predict_with_edits(&|at| !members.contains(&at));
        Share {
            alone: alone.map(|figures| self.figure_changes(self.before.figures, &figures)),
            last: rest.map(|figures| self.figure_changes(&figures, after)),
            edits: members,
        }
    }
}

/// Tries the edits one by one. Those that cannot be planned by themselves are tried in pairs, then all
/// together.
pub fn shares(
    before: Side<'_>,
    after: Side<'_>,
    edits: &[Edit],
    predict: &mut dyn FnMut(&Node) -> Option<Figures>,
) -> Shares {
    let known: Vec<Figure> = Figure::ALL
        .into_iter()
        .filter(|figure| before.figures.difference(after.figures, *figure).is_some())
        .collect();
    if edits.is_empty() || edits.len() > MOST || known.is_empty() {
        return Shares::default();
    }
    let mut trial = Trial { before, edits, known, predict };
    let mut shares: Vec<Share> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for at in 0..edits.len() {
        let share = trial.share(after.figures, vec![at]);
        if share.alone.is_some() { shares.push(share) } else { open.push(at) }
    }
    while let Some(pair) = find_plannable_pair(&mut trial, &open) {
        open.retain(|at| !pair.contains(at));
        shares.push(trial.share(after.figures, pair));
    }
    if !open.is_empty() {
        shares.push(trial.share(after.figures, open));
    }
    let is_inert = |share: &Share| {
        let still =
            |added: &Option<Added>| added.as_ref().is_some_and(|added| added.values().all(|n| *n == 0.0));
        // If nothing can be planned without an edit, only its effect alone is known.
        still(&share.alone) && (share.last.is_none() || still(&share.last))
    };
    let inert = shares.iter().filter(|share| is_inert(share)).flat_map(|share| share.edits.clone()).collect();
    shares.retain(|share| !is_inert(share));
    let complete = shares.iter().all(|share| share.alone.is_some());
    let together = if complete { unattributed_change(&trial, after.figures, &shares) } else { Added::new() };
    let weight = |share: &Share| {
        let added = share.alone.as_ref().or(share.last.as_ref());
        // Dollars if known, else the time.
        let of = |figure| added.and_then(|added| added.get(&figure)).map_or(0.0, |n| n.abs());
        (of(Figure::Least).max(of(Figure::OnDemand)), of(Figure::Time))
    };
    shares.sort_by(|a, b| {
        let (a, b) = (weight(a), weight(b));
        b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    Shares { shares, inert, together, complete }
}

/// Finds two edits that can be planned together although neither can alone, e.g. `steps` replaced by
/// `tokens`.
fn find_plannable_pair(trial: &mut Trial<'_>, open: &[usize]) -> Option<Vec<usize>> {
    if !(3..=MOST_PAIRED).contains(&open.len()) {
        return None;
    }
    for (at, one) in open.iter().enumerate() {
        for other in open.iter().skip(at + 1) {
            if trial.predict_with_edits(&|edit| edit == *one || edit == *other).is_some() {
                return Some(vec![*one, *other]);
            }
        }
    }
    None
}

/// Returns the part of the whole change that the shares leave.
fn unattributed_change(trial: &Trial<'_>, after: &Figures, shares: &[Share]) -> Added {
    let whole = trial.figure_changes(trial.before.figures, after);
    whole
        .into_iter()
        .map(|(figure, whole)| {
            let told: f64 =
                shares.iter().filter_map(|share| share.alone.as_ref()?.get(&figure)).copied().sum();
            (figure, whole - told)
        })
        .collect()
}
