//! Machines on which the job costs or takes much less than on those of the manifest.
//!
//! Machines whose best conceivable time and cost cannot win are not searched: a bound is the time of the
//! model's computation alone, undivided and without recomputation, at the largest micro-batch.

use super::choice::Choice;
use super::space::Space;
use trainc_predict::memory::{MemoryConstants, gpu_memory_parts};
use trainc_predict::speed::speed;
use trainc_predict::{Constants, Fit, Interval, Layout, Offload, Recompute, Run, Sharding, Speed};

/// Share of time or cost that another machine has to save to be named.
pub const WORTHWHILE: f64 = 0.2;

/// Number of instance types that are kept, of which a check may reject some.
const KEPT: usize = 3;

/// Maximum number of layouts looked at, which bounds the time of `plan`.
const MOST_LAYOUTS: usize = 8_000;

/// Time and cost of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeAndCost {
    /// Expected seconds.
    pub seconds: f64,
    /// US dollars.
    pub usd: f64,
}

impl TimeAndCost {
    /// Returns the expected time and cost of a run, if its cost is known: no job moves for an estimate.
    pub fn from_run(run: &Run) -> Option<Self> {
        if run.cost_parts.total().is_estimate() {
            return None;
        }
        let (seconds, usd) = (run.expected_seconds(), run.cost_usd?);
        (seconds.is_finite() && seconds > 0.0 && usd > 0.0).then_some(Self { seconds, usd })
    }

    /// Returns the share of the cost that this saves compared with another; of the time, where it saves less
    /// than a fifth of the cost. `None` unless it is a fifth better in one and not worse in the other.
    pub fn saving(self, than: Self) -> Option<f64> {
        let pairs = [(self.usd, than.usd), (self.seconds, than.seconds)];
        if pairs.iter().any(|(own, other)| own > other) {
            return None;
        }
        let better = pairs.into_iter().find(|(own, other)| *own <= (1.0 - WORTHWHILE) * other);
        better.map(|(own, other)| 1.0 - own / other)
    }
}

/// A layout on other machines, with its time and cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BetterMachine {
    /// The layout.
    pub choice: Choice,
    /// Its time and cost.
    pub run: TimeAndCost,
}

/// Machines that are worth a search, with the least time and cost that they can reach.
struct Bounded {
    site: usize,
    nodes: u64,
    least: TimeAndCost,
}

/// Returns the best layout of up to three instance types that surely fits and is better than the manifest by
/// [`WORTHWHILE`], within its budget; the cheapest type first.
pub fn better_machines(space: &Space, now: TimeAndCost, constants: &Constants) -> Vec<BetterMachine> {
    let budget = space.plan.job.budget.as_ref().and_then(|budget| budget.usd.get()).unwrap_or(f64::INFINITY);
    let memory = MemoryConstants::from_constants(constants);
    let mut found: Vec<BetterMachine> = Vec::new();
    let mut left = MOST_LAYOUTS;
    for machines in bounded_machines(space, now, budget, constants) {
        if left == 0 {
            break;
        }
        let Bounded { site, nodes, least } = machines;
        let rival = found.iter().find(|one| one.choice.site == site).map(|one| one.run.usd);
        let most = rival.or_else(|| found.get(KEPT - 1).map(|one| one.run.usd));
        if most.is_some_and(|most| least.usd >= most) {
            continue;
        }
        let Some(terms) = space.sites.get(site).and_then(|site| site.terms.as_ref()) else { continue };
        let mut best: Option<BetterMachine> = None;
        space.visit_machines(site, nodes, &mut |choice, layout| {
            if left == 0 {
                return;
            }
            left -= 1;
            if !surely_fits(layout, &memory) {
                return;
            }
            let Ok(speed) = speed(layout, constants) else { return };
            // On the same machines the faster layout is the cheaper one.
            let run = terms.predict_run(layout, &speed);
            let Some(run) = TimeAndCost::from_run(&run).filter(|run| run.usd <= budget) else { return };
            if run.saving(now).is_some() && best.as_ref().is_none_or(|best| run.usd < best.run.usd) {
                best = Some(BetterMachine { choice: *choice, run });
            }
        });
        if let Some(best) = best.filter(|best| rival.is_none_or(|usd| best.run.usd < usd)) {
            found.retain(|one| one.choice.site != site);
            let at = found.partition_point(|one| one.run.usd <= best.run.usd);
            found.insert(at, best);
            found.truncate(KEPT);
        }
    }
    found
}

/// Returns the machines that can be better by their bounds, those with the lowest bound of the cost first.
/// The machines of the manifest are not among them, since what is better there is another layout, and
/// neither are nodes without EFA, unless the manifest's have none.
fn bounded_machines(space: &Space, now: TimeAndCost, budget: f64, constants: &Constants) -> Vec<Bounded> {
    let own = &space.base.hardware;
    let needs_efa = own.nodes <= 1.0 || own.efa;
    let mut out = Vec::new();
    for (site, machine) in space.sites.iter().enumerate() {
        for &nodes in &space.nodes {
            let is_written = (site, nodes) == (space.written.site, space.written.nodes);
            if is_written || nodes > 1 && needs_efa && !machine.hardware.efa {
                continue;
            }
            let Some(least) = least_time_and_cost(space, site, nodes, constants) else { continue };
            if least.usd <= budget && least.saving(now).is_some() {
                out.push(Bounded { site, nodes, least });
            }
        }
    }
    out.sort_by(|a, b| a.least.usd.total_cmp(&b.least.usd));
    out
}

/// Returns a lower bound of time and cost on these machines: of the layouts of the space none is faster.
pub fn least_time_and_cost(
    space: &Space,
    site: usize,
    nodes: u64,
    constants: &Constants,
) -> Option<TimeAndCost> {
    let machine = space.sites.get(site)?;
    let world = nodes * space.gpus_per_node(site);
    let each = space.global_batch() as f64 / world as f64;
    let mut layout = space.base_on(site, nodes)?;
    let degrees = &mut layout.degrees;
    (degrees.replicas, degrees.shard, degrees.tensor) = (world as f64, 1.0, 1.0);
    (degrees.pipeline, degrees.context, degrees.expert) = (1.0, 1.0, 1.0);
    degrees.virtual_stages = 1.0;
    layout.ulysses = false;
    layout.sharding = Sharding::None;
    layout.recompute = Recompute::None;
    layout.offload = Offload::default();
    layout.input = None;
    let work = &mut layout.work;
    (work.tensor_readers, work.num_micro_batches, work.passes) = (1.0, 1.0, 1.0);
    work.micro_batch_size = each.max(1.0);
    let found = speed(&layout, constants).ok()?;
    // With fewer sequences than GPUs each sequence is divided.
    let step_seconds = found.parts.compute * each.min(1.0);
    let interval = Interval { low: step_seconds, high: step_seconds };
    TimeAndCost::from_run(
        &machine.terms.as_ref()?.predict_run(&layout, &Speed { step_seconds, interval, ..found }),
    )
}

/// Returns true if a layout fits at the upper end of its memory.
fn surely_fits(layout: &Layout, memory: &MemoryConstants) -> bool {
    let Some(capacity) = layout.hardware.memory_bytes else { return false };
    let bytes = gpu_memory_parts(layout, memory).total();
    let interval = Interval { low: bytes, high: bytes * (1.0 + memory.ends(layout).1) };
    Fit::from_bytes(bytes, interval, capacity) == Fit::Surely
}
