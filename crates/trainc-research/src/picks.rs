//! Measured throughput of the layout that the order of `trainc tune` picks, among the measured layouts of one
//! model on one cluster.

use trainc_calibrate::Run;
use trainc_predict::memory::{MemoryConstants, memory_with};
use trainc_predict::speed::speed;
use trainc_predict::{Constants, Fit, Layout};

/// Fewest layouts of a group: with fewer there is little to choose.
const FEWEST: usize = 5;

/// Nodes up to which layouts are compared by their predicted step time, and beyond which by its upper end,
/// as in `trainc-tune/src/front.rs`.
pub const TRUSTED_NODES: f64 = 16.0;

/// The layout that is picked from a group of measured ones.
#[derive(Clone, Debug)]
pub struct Pick {
    /// Family of the group.
    pub family: String,
    /// The row that is picked.
    pub id: String,
    /// Number of nodes.
    pub nodes: f64,
    /// Number of measured layouts.
    pub layouts: usize,
    /// Its measured throughput as a share of the best one of the group.
    pub share: f64,
}

/// How sure a layout has to fit its memory to be picked. All measured layouts fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It is predicted to fit.
    Predicted,
    /// It fits at the upper end of its memory, as the first row of `tune`.
    Sure,
}

/// Returns the pick of each group of rows of one family with the same model, cluster, sequences and batch.
pub fn picks(runs: &[Run], constants: &Constants, room: Room) -> Vec<Pick> {
    let rows: Vec<(&Run, &Layout, f64)> = runs
        .iter()
        .filter_map(|run| Some((run, run.layout.as_ref().ok()?, *run.step_seconds.as_ref().ok()?)))
        .collect();
    let mut groups: Vec<Vec<(&Run, &Layout, f64)>> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|group| group.first().is_some_and(|first| are_alike(first, &row))) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups.iter().filter_map(|group| pick(group, constants, room)).collect()
}

fn are_alike((a, x, _): &(&Run, &Layout, f64), (b, y, _): &(&Run, &Layout, f64)) -> bool {
    let work = |layout: &Layout| {
        let work = &layout.work;
        (work.sequence_length.to_bits(), work.global_sequences.to_bits())
    };
    a.family == b.family
        && x.model == y.model
        && x.hardware == y.hardware
        && x.precision == y.precision
        && x.lora == y.lora
        && work(x) == work(y)
}

fn pick(group: &[(&Run, &Layout, f64)], constants: &Constants, room: Room) -> Option<Pick> {
    let memory = MemoryConstants::from_constants(constants);
    let mut keys: Vec<(bool, f64, usize)> = Vec::new();
    for (at, (_, layout, _)) in group.iter().enumerate() {
        let Ok(speed) = speed(layout, constants) else { continue };
        let nodes = layout.hardware.nodes;
        let seconds = if nodes > TRUSTED_NODES { speed.interval.high } else { speed.step_seconds };
        let fit = memory_with(layout, &memory).fit();
        let has_room = match room {
            Room::Predicted => matches!(fit, Some(Fit::Surely | Fit::Maybe)),
            Room::Sure => fit == Some(Fit::Surely),
        };
        keys.push((!has_room, seconds, at));
    }
    if keys.len() < FEWEST {
        return None;
    }
    let (.., at) = keys.into_iter().min_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)))?;
    let (run, layout, seconds) = group.get(at)?;
    let best = group.iter().map(|(.., seconds)| *seconds).fold(f64::INFINITY, f64::min);
    Some(Pick {
        family: run.family.clone(),
        id: run.id.clone(),
        nodes: layout.hardware.nodes,
        layouts: group.len(),
        share: best / seconds,
    })
}

/// Returns the median share of the picks that `keep` selects; `None` if there are none.
pub fn median_share(picks: &[Pick], keep: impl Fn(&Pick) -> bool) -> Option<f64> {
    let mut shares: Vec<f64> = picks.iter().filter(|pick| keep(pick)).map(|pick| pick.share).collect();
    shares.sort_by(f64::total_cmp);
    let middle = shares.len() / 2;
    let upper = *shares.get(middle)?;
    let lower = if shares.len().is_multiple_of(2) { *shares.get(middle - 1)? } else { upper };
    Some(f64::midpoint(lower, upper))
}
