//! Billing of a job: instances, their volumes, the file systems that it creates.

use super::prediction::CostParts;
use trainc_catalog::instances;
use trainc_catalog::prices::HOURS_PER_MONTH;
use trainc_ir::units::GIB;
use trainc_ir::{Plan, Price};

/// Seconds per hour.
const HOUR: f64 = 3_600.0;

/// Prices of a job. `None` marks an unknown price.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Bills {
    /// US dollars per hour of one instance that runs ranks.
    pub(super) instance: Option<f64>,
    /// Upper bound of [`Self::instance`]: for spot instances the on-demand price, which they never exceed.
    pub(super) instance_at_most: Option<f64>,
    /// US dollars per hour of the instance groups without ranks; zero if there are none.
    pub(super) beside: Option<f64>,
    /// US dollars per month of the volumes of those groups.
    pub(super) volumes_beside: Option<f64>,
    /// GiB of a node's volume, and its price in US dollars per month.
    pub(super) volume: Option<(f64, f64)>,
    /// US dollars per month of each file system that the job creates.
    pub(super) file_systems: Vec<Option<f64>>,
}

impl Bills {
    pub(super) fn from_plan(plan: &Plan, price: Option<&Price>, volume_is_free: bool) -> Self {
        if !plan.deployable {
            return Self::default();
        }
        let cluster = plan.job.cluster.as_ref();
        // The spot price is unknown in advance, unless the user gave a discount.
        let spot = cluster.is_some_and(|cluster| cluster.spot.is_some());
        let hourly = |price: Option<&Price>| {
            price.filter(|price| !spot || price.is_user_price()).map(|price| price.usd_per_hour)
        };
        let bytes = cluster.and_then(|cluster| cluster.volume_bytes.get());
        let volume = bytes
            .zip(plan.volume_price.as_ref())
            .map(|(bytes, price)| (bytes as f64 / GIB as f64, price.usd_per_gb_month));
        let others = idle_groups(plan);
        let with_volume = others.iter().filter(|other| !other.volume_is_free);
        let volumes: f64 = with_volume.map(|other| other.nodes).sum();
        Self {
            instance: hourly(price),
            instance_at_most: price.filter(|_| others.is_empty()).map(|price| price.usd_per_hour),
            beside: others.iter().map(|other| Some(other.nodes * hourly(other.price)?)).sum(),
            volume: if volume_is_free { Some((0.0, 0.0)) } else { volume },
            volumes_beside: if volumes > 0.0 {
                volume.map(|(gib, usd)| volumes * gib * usd)
            } else {
                Some(0.0)
            },
            file_systems: plan
                .created_file_systems()
                .map(|(storage, price)| Some(price?.usd_per_month(storage.capacity_bytes.get()?)))
                .collect(),
        }
    }

    /// Returns the cost in US dollars of `nodes` nodes for `seconds` seconds, including the other instance groups.
    pub(super) fn cost_of_nodes(&self, nodes: f64, seconds: f64) -> CostParts {
        let hours = seconds / HOUR;
        let volumes = self.volume.zip(self.volumes_beside);
        let a_while = |usd_per_month: f64| monthly_price_for_seconds(usd_per_month, seconds);
        CostParts {
            instances: self.instance.zip(self.beside).map(|(usd, beside)| (usd * nodes + beside) * hours),
            volumes: volumes
                .map(|((gib, usd), beside)| (gib * nodes * usd + beside) * hours / HOURS_PER_MONTH),
            file_systems: self.file_systems.iter().copied().sum::<Option<f64>>().map(a_while),
            least_file_systems: a_while(self.file_systems.iter().flatten().sum()),
        }
    }
}

/// Converts a price in US dollars per month to the cost of `seconds` seconds.
pub fn monthly_price_for_seconds(usd_per_month: f64, seconds: f64) -> f64 {
    // An empty sum is -0.0.
    (usd_per_month + 0.0) * (seconds / HOUR) / HOURS_PER_MONTH
}

/// An instance group on which no rank runs.
struct IdleGroup<'a> {
    nodes: f64,
    price: Option<&'a Price>,
    volume_is_free: bool,
}

/// Returns the instance groups of a heterogeneous cluster other than the one with the ranks.
fn idle_groups(plan: &Plan) -> Vec<IdleGroup<'_>> {
    let ranks = plan.job.rank_group().map(|group| group.span);
    let groups = plan.job.cluster.iter().flat_map(|cluster| &cluster.groups).zip(&plan.group_prices);
    groups
        .filter(|(group, _)| Some(group.span) != ranks)
        .map(|(group, price)| IdleGroup {
            nodes: group.nodes.get().unwrap_or(0) as f64,
            price: price.as_ref(),
            volume_is_free: group
                .instance
                .value()
                .and_then(|name| instances::get(name))
                .is_some_and(|row| row.ebs_volume_ignored),
        })
        .collect()
}

/// Returns the names of the file systems that the job creates and whose price is unknown: no cost includes them.
pub fn unpriced_file_systems(plan: &Plan) -> Vec<&str> {
    plan.created_file_systems()
        .filter(|(storage, price)| {
            price.is_none() && storage.capacity_bytes.get().is_some() && storage.deployment.value().is_some()
        })
        .filter_map(|(storage, _)| storage.name.value().map(String::as_str))
        .collect()
}

/// Returns the cost of a job that runs for `seconds` seconds, at the on-demand price, which spot instances never
/// exceed: instances, their volumes, and the file systems that it creates.
pub fn max_cost(plan: &Plan, seconds: f64) -> CostParts {
    let free = plan.instance.as_ref().is_some_and(|instance| instance.ebs_volume_ignored);
    let nodes = match plan.job.rank_group() {
        Some(group) => group.nodes.get(),
        None => plan.job.cluster.as_ref().and_then(|cluster| cluster.nodes.get()),
    };
    let parts =
        Bills::from_plan(plan, plan.rank_price(), free).cost_of_nodes(nodes.unwrap_or(0) as f64, seconds);
    CostParts { instances: plan.most_usd_per_hour().map(|usd| usd * seconds / HOUR), ..parts }
}

/// Returns US dollars per hour of the volumes and of the file systems that the job creates, as far as prices are known.
pub fn storage_usd_per_hour(plan: &Plan) -> f64 {
    let parts = max_cost(plan, HOUR);
    parts.volumes.unwrap_or(0.0) + parts.least_file_systems
}

impl CostParts {
    /// Returns the sum. A file system may cost as much as the instances, so the sum is `None` without its price. The
    /// volumes cost a fraction of a percent of that, less than the uncertainty of the prediction.
    pub fn total_usd(&self) -> Option<f64> {
        self.file_systems.and(self.least_usd())
    }

    /// Returns the known part of the cost; `None` without the price of the instances.
    pub fn least_usd(&self) -> Option<f64> {
        Some(self.instances? + self.volumes.unwrap_or(0.0) + self.least_file_systems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: two hosts at 20 dollars and 100 GiB each, for an hour, plus groups of 12 dollars and 40 a month.
    #[test]
    fn groups_without_ranks_are_billed_as_long() {
        let bills = Bills {
            instance_at_most: None,
            instance: Some(20.0),
            beside: Some(12.0),
            volume: Some((100.0, 0.1)),
            volumes_beside: Some(40.0),
            file_systems: Vec::new(),
        };
        let cost = bills.cost_of_nodes(2.0, 3_600.0);
        assert_eq!(cost.instances, Some(52.0));
        assert_eq!(cost.volumes, Some((20.0 + 40.0) / 730.0));
        let unknown = Bills { beside: None, ..bills }.cost_of_nodes(2.0, 3_600.0);
        assert_eq!((unknown.instances, unknown.total_usd()), (None, None));
    }

    /// By hand: two hosts at 20 dollars for an hour, plus file systems of 730 and of 73 dollars a month.
    #[test]
    fn without_the_price_of_a_file_system_the_sum_is_a_least() {
        let bills = Bills {
            instance: Some(20.0),
            instance_at_most: Some(20.0),
            beside: Some(0.0),
            volume: Some((0.0, 0.0)),
            volumes_beside: Some(0.0),
            file_systems: vec![Some(730.0), Some(73.0)],
        };
        let known = bills.cost_of_nodes(2.0, 3_600.0);
        assert_eq!((known.total_usd(), known.least_usd()), (Some(41.1), Some(41.1)));
        let unknown =
            Bills { file_systems: vec![Some(730.0), None], ..bills.clone() }.cost_of_nodes(2.0, 3_600.0);
        assert_eq!((unknown.total_usd(), unknown.least_usd()), (None, Some(41.0)));
        // The volume is too cheap to hide the rest.
        let volume = Bills { volume: None, ..bills }.cost_of_nodes(2.0, 3_600.0);
        assert_eq!((volume.total_usd(), volume.volumes), (Some(41.1), None));
    }
}
