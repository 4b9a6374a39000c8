//! Billing of a job: instances, their volumes, the file systems that it creates.

use super::prediction::CostParts;
use trainc_catalog::instances;
use trainc_catalog::prices::HOURS_PER_MONTH;
use trainc_ir::units::GIB;
use trainc_ir::{Alternative, Cost, Part, Plan, Price};

/// Seconds per hour.
const HOUR: f64 = 3_600.0;

/// Prices of a job, US dollars.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Bills {
    /// One instance that runs ranks, per hour.
    pub(super) instance: Cost,
    /// Upper bound of [`Self::instance`]: for spot instances the on-demand price, which they never exceed.
    pub(super) instance_at_most: Cost,
    /// The instance groups without ranks, per hour.
    pub(super) beside: Cost,
    /// The volumes of those groups, per month.
    pub(super) volumes_beside: Cost,
    /// The volume of an instance that runs ranks, per month.
    pub(super) volume: Cost,
    /// The file systems that the job creates, per month.
    pub(super) file_systems: Cost,
}

impl Bills {
    /// Reads the prices of a plan; `price` is that of an instance that runs ranks.
    pub(super) fn from_plan(plan: &Plan, price: Option<&Price>, volume_is_free: bool) -> Self {
        // The spot price is unknown in advance, unless the user gave a discount.
        let is_spot = plan.is_spot();
        let hourly = |price: Option<&Price>| {
            let price = price.filter(|price| !is_spot || price.is_user_price());
            price.map_or(Cost::UNKNOWN, Price::per_hour)
        };
        let others = idle_parts(plan);
        let number = |part: &Part| part.nodes.unwrap_or(0) as f64;
        let at_most = price.filter(|_| others.is_empty()).map_or(Cost::UNKNOWN, Price::per_hour);
        Self {
            instance: hourly(price),
            instance_at_most: at_most,
            beside: others.iter().map(|part| hourly(part.price.as_ref()) * number(part)).sum(),
            volume: volume_per_month(plan, volume_is_free),
            volumes_beside: others
                .iter()
                .map(|part| volume_per_month(plan, is_volume_free(&part.instance)) * number(part))
                .sum(),
            file_systems: file_systems_per_month(plan),
        }
    }

    /// Returns the cost of `nodes` nodes for `seconds` seconds, including the other instance groups.
    pub(super) fn cost_of_nodes(&self, nodes: f64, seconds: f64) -> CostParts {
        CostParts {
            instances: (self.instance * nodes + self.beside) * (seconds / HOUR),
            volumes: for_seconds(self.volume * nodes + self.volumes_beside, seconds),
            file_systems: for_seconds(self.file_systems, seconds),
        }
    }
}

/// Returns whether an instance type uses its local storage and has no volume.
fn is_volume_free(instance: &str) -> bool {
    instances::get(instance).is_some_and(|row| row.ebs_volume_ignored)
}

/// Returns the price of the volume of one instance for a month.
fn volume_per_month(plan: &Plan, is_free: bool) -> Cost {
    if is_free {
        return Cost::ZERO;
    }
    let bytes = plan.job.cluster.as_ref().and_then(|cluster| cluster.volume_bytes.get());
    let price = plan.volume_price();
    Cost::of_item(bytes.zip(price).map(|(bytes, price)| bytes as f64 / GIB as f64 * price.usd_per_gb_month))
}

/// Returns the price of the file systems that the job creates, for a month.
fn file_systems_per_month(plan: &Plan) -> Cost {
    let each = plan.created_file_systems().map(|(storage, price)| {
        Cost::of_item(
            price.zip(storage.capacity_bytes.get()).map(|(price, bytes)| price.usd_per_month(bytes)),
        )
    });
    each.sum()
}

/// Converts a price per month to the cost of `seconds` seconds.
fn for_seconds(per_month: Cost, seconds: f64) -> Cost {
    per_month.map(|usd| monthly_price_for_seconds(usd, seconds))
}

/// Converts a price in US dollars per month to the cost of `seconds` seconds.
pub fn monthly_price_for_seconds(usd_per_month: f64, seconds: f64) -> f64 {
    // An empty sum is -0.0.
    (usd_per_month + 0.0) * (seconds / HOUR) / HOURS_PER_MONTH
}

/// Returns the instance groups on which no rank runs.
fn idle_parts(plan: &Plan) -> Vec<&Part> {
    let ranks = plan.job.rank_group().map(|group| group.span);
    let parts = plan.fleet.first().into_iter().flat_map(|first| &first.parts);
    parts.filter(|part| part.group.is_some() && part.group != ranks).collect()
}

/// Returns the names of the file systems that the job creates and whose price is unknown: no cost includes
/// them.
pub fn unpriced_file_systems(plan: &Plan) -> Vec<&str> {
    plan.created_file_systems()
        .filter(|(storage, price)| {
            price.is_none() && storage.capacity_bytes.get().is_some() && storage.deployment.value().is_some()
        })
        .filter_map(|(storage, _)| storage.name.value().map(String::as_str))
        .collect()
}

/// Returns the most that a job can cost in `seconds` seconds: on the dearest instances that it may run on, at
/// the on-demand price, which spot instances never exceed.
pub fn max_cost(plan: &Plan, seconds: f64) -> CostParts {
    dearest(plan, seconds).map(|(_, cost)| cost).unwrap_or_default()
}

/// Returns the dearest instances that a job may run on, and its cost in `seconds` seconds on them, as in
/// [`max_cost`]. Where other instances have no price, they may be dearer: the cost is then incomplete.
pub fn dearest(plan: &Plan, seconds: f64) -> Option<(&Alternative, CostParts)> {
    let alternatives = plan.fleet.alternatives()?;
    let each = || alternatives.iter().map(|one| (one, on_demand_cost_of(plan, one, seconds)));
    // Of equally dear ones the same, whichever is preferred.
    let name = |one: &Alternative| one.parts.first().map(|part| part.instance.clone());
    let (instances, cost) = each().max_by(|(x, a), (y, b)| {
        a.known_usd().total_cmp(&b.known_usd()).then_with(|| name(x).cmp(&name(y)))
    })?;
    let is_complete = each().all(|(_, cost)| cost.instances.is_complete);
    Some((instances, CostParts { instances: Cost { is_complete, ..cost.instances }, ..cost }))
}

/// Returns the cost of a job that runs for `seconds` seconds on the instances that the plan is for, at the
/// on-demand price.
pub fn on_demand_cost(plan: &Plan, seconds: f64) -> CostParts {
    plan.fleet.first().map_or_else(CostParts::default, |first| on_demand_cost_of(plan, first, seconds))
}

/// Returns the cost of a job that runs for `seconds` seconds on some of the instances that it may run on, at
/// the on-demand price: instances, their volumes, and the file systems that it creates.
pub fn on_demand_cost_of(plan: &Plan, instances: &Alternative, seconds: f64) -> CostParts {
    let volumes = instances
        .parts
        .iter()
        .map(|part| volume_per_month(plan, is_volume_free(&part.instance)) * part.nodes.unwrap_or(0) as f64);
    CostParts {
        instances: instances.most_per_hour(plan.is_spot()) * (seconds / HOUR),
        volumes: for_seconds(volumes.sum(), seconds),
        file_systems: for_seconds(file_systems_per_month(plan), seconds),
    }
}

/// Returns the cost of an hour without the instances whose price is an estimate: a lower bound of what is
/// billed, by which a run may be stopped.
pub fn billed_per_hour(plan: &Plan) -> Cost {
    let parts = on_demand_cost(plan, HOUR);
    let instances = plan.fleet.first().map(|first| first.billed_per_hour(plan.is_spot()));
    CostParts { instances: instances.unwrap_or_default(), ..parts }.total()
}

/// Returns US dollars per hour of the volumes and of the file systems that the job creates, as far as prices
/// are known.
pub fn storage_usd_per_hour(plan: &Plan) -> f64 {
    let parts = on_demand_cost(plan, HOUR);
    parts.volumes.known_usd + parts.file_systems.known_usd
}

impl CostParts {
    /// Returns the sum, of which the volumes may be missing: they cost a fraction of a percent of the
    /// instances, less than the uncertainty of the prediction.
    pub fn total(&self) -> Cost {
        let volumes = Cost { is_complete: true, ..self.volumes };
        self.instances + self.file_systems + volumes
    }

    /// Returns the sum in US dollars; `None` if the price of instances or of a file system is unknown.
    pub fn total_usd(&self) -> Option<f64> {
        self.total().exact()
    }

    /// Returns the known part of the cost, a lower bound; `None` without the prices of all instances.
    pub fn least_usd(&self) -> Option<f64> {
        self.instances.is_complete.then(|| self.known_usd())
    }

    /// Returns the known part of the cost at the high end of estimated prices; `None` without the prices of
    /// all instances.
    pub fn most_usd(&self) -> Option<f64> {
        self.instances.is_complete.then(|| self.total().high_usd)
    }

    /// Returns the part of the cost that is known, a lower bound, US dollars.
    pub fn known_usd(&self) -> f64 {
        self.total().known_usd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(amount: f64) -> Cost {
        Cost::of_item(Some(amount))
    }

    /// By hand: two hosts at 20 dollars and 100 GiB each, for an hour, plus groups of 12 dollars and 40 a
    /// month.
    #[test]
    fn groups_without_ranks_are_billed_as_long() {
        let bills = Bills {
            instance_at_most: Cost::UNKNOWN,
            instance: usd(20.0),
            beside: usd(12.0),
            volume: usd(10.0),
            volumes_beside: usd(40.0),
            file_systems: Cost::ZERO,
        };
        let cost = bills.cost_of_nodes(2.0, 3_600.0);
        assert_eq!(cost.instances.exact(), Some(52.0));
        assert_eq!(cost.volumes.exact(), Some((20.0 + 40.0) / 730.0));
        // An estimate of 19 to 25 dollars for each host; the groups without ranks have a list price.
        let estimate = Cost { low_usd: 19.0, high_usd: 25.0, ..usd(20.0) };
        let parts = Bills { instance: estimate, ..bills.clone() }.cost_of_nodes(2.0, 3_600.0);
        assert_eq!(
            (parts.instances.low_usd, parts.instances.exact(), parts.instances.high_usd),
            (50.0, Some(52.0), 62.0)
        );
        assert_eq!(parts.most_usd(), Some(62.0 + 60.0 / 730.0));
        let unknown = Bills { beside: Cost::UNKNOWN, ..bills }.cost_of_nodes(2.0, 3_600.0);
        assert_eq!((unknown.instances.at_least(), unknown.total_usd()), (Some(40.0), None));
    }

    /// By hand: two hosts at 20 dollars for an hour, plus file systems of 730 and of 73 dollars a month.
    #[test]
    fn without_the_price_of_a_file_system_the_sum_is_a_least() {
        let bills = Bills {
            instance: usd(20.0),
            instance_at_most: usd(20.0),
            beside: Cost::ZERO,
            volume: Cost::ZERO,
            volumes_beside: Cost::ZERO,
            file_systems: usd(730.0) + usd(73.0),
        };
        let known = bills.cost_of_nodes(2.0, 3_600.0);
        assert_eq!((known.total_usd(), known.least_usd()), (Some(41.1), Some(41.1)));
        let unknown =
            Bills { file_systems: usd(730.0) + Cost::UNKNOWN, ..bills.clone() }.cost_of_nodes(2.0, 3_600.0);
        assert_eq!((unknown.total_usd(), unknown.least_usd()), (None, Some(41.0)));
        // The volume is too cheap to hide the rest.
        let volume = Bills { volume: Cost::UNKNOWN, ..bills }.cost_of_nodes(2.0, 3_600.0);
        assert_eq!((volume.total_usd(), volume.volumes.exact()), (Some(41.1), None));
    }
}
