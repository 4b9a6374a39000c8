//! The space: the layouts that a manifest may be changed to, each as input of the cost model.

use super::Unsearchable;
use super::choice::{Choice, Degrees, HostOffload, Switches, round_to_count};
use super::meshes::Rules;
use trainc_catalog::instances;
use trainc_ir::hardware::Instance;
use trainc_ir::{Batch, Mesh, Plan, Price};
use trainc_plan::plan::divisors::divisors;
use trainc_plan::plan::hourly_price;
use trainc_predict::held_out::{HeldOutError, unreliable_order};
use trainc_predict::run::Terms;
use trainc_predict::{Attention, Constants, Hardware, Layout, Quantisation, Sharding, System};

/// Axes that the user allows to vary, and the bounds of a run.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Instance types; if empty, the manifest's own and every other one that has a price in the region and
    /// supports the job.
    pub instances: Vec<String>,
    /// Maximum number of nodes; twice the manifest's own number by default.
    pub max_nodes: Option<u64>,
    /// Maximum cost of a run, US dollars.
    pub max_usd: Option<f64>,
    /// Longest run, seconds.
    pub deadline_seconds: Option<f64>,
    /// Prices from the command line: instance type and US dollars per hour.
    pub prices: Vec<(String, f64)>,
    /// Discount from the command line, a fraction.
    pub discount: Option<f64>,
}

/// A machine type that is compared.
#[derive(Clone, Debug)]
pub struct Site {
    /// The instance type; `None` if the manifest describes a custom machine.
    pub name: Option<String>,
    /// One node of it.
    pub(super) hardware: Hardware,
    /// Time and cost of a run on it, if the length of the run is known.
    pub(super) terms: Option<Terms>,
}

/// All layouts that may be chosen.
pub struct Space<'a> {
    /// The plan of the manifest.
    pub plan: &'a Plan,
    pub(super) base: Layout,
    pub(super) rules: Rules,
    pub(super) written: Choice,
    /// Machines that are compared, the manifest's own first if it is among them.
    pub sites: Vec<Site>,
    /// Numbers of nodes on which some mesh divides the batch, the manifest's own first if it is within the
    /// bound.
    pub nodes: Vec<u64>,
    /// Maximum number of nodes.
    pub(super) most_nodes: u64,
    /// True if the types are those that support the job, and not those that the user named.
    pub has_all_types: bool,
}

impl Limits {
    /// Returns the limits with the machines of the manifest, where the user names no others.
    #[must_use]
    pub fn on_written_machines(&self, plan: &Plan) -> Self {
        let own = plan.instance.iter().map(|row| row.name.clone());
        Self {
            instances: if self.instances.is_empty() { own.collect() } else { self.instances.clone() },
            max_nodes: self.max_nodes.or(plan.mesh.as_ref().map(|mesh| mesh.nodes)),
            ..self.clone()
        }
    }
}

impl<'a> Space<'a> {
    /// Returns the space of a plan, or the reason why it cannot be searched. `can_run_on` judges by the known
    /// facts whether a job can run on a type of machine.
    pub fn from_plan(
        plan: &'a Plan,
        limits: &Limits,
        constants: &Constants,
        can_run_on: CanRunOn,
    ) -> Result<Self, Unsearchable> {
        let searchable = Searchable::from_plan(plan)?;
        let mesh = searchable.mesh;
        let terms = Terms::from_plan(plan, constants).map_err(|unknown| Unsearchable(unknown.0))?;
        let sites = sites(plan, &searchable.base, (&terms, limits), can_run_on);
        let is_fixed = has_fixed_machines(plan);
        let usual = if is_fixed { mesh.nodes } else { mesh.nodes.saturating_mul(2) };
        let most = if is_one_process(mesh) { 1 } else { limits.max_nodes.unwrap_or(usual) };
        let shard_nodes = mesh.shard_degree.value.div_ceil(mesh.gpus_per_node.max(1));
        let mut nodes = node_counts(most, mesh.nodes, shard_nodes);
        let mut space = Self::on_sites(plan, searchable, sites);
        space.has_all_types = limits.instances.is_empty() && !is_fixed;
        space.most_nodes = most.max(1);
        nodes.retain(|nodes| *nodes != mesh.nodes && space.can_divide_batch(*nodes));
        if mesh.nodes <= space.most_nodes {
            nodes.insert(0, mesh.nodes);
        }
        space.nodes = nodes;
        Ok(space)
    }

    /// Returns the layouts on the written number of nodes of the manifest's own machines and of other types
    /// at their prices, in this order, whether or not `tune` can search them; `None` if model, mesh or batch
    /// are unknown.
    pub fn around(
        plan: &'a Plan,
        others: &[(Instance, Option<Price>)],
        constants: &Constants,
    ) -> Option<Self> {
        let known = Searchable::known(plan).ok()?;
        let terms = Terms::from_plan(plan, constants).ok();
        let mut own = known.base.hardware.clone();
        own.nodes = 1.0;
        let ranks = own.gpus_per_node;
        let own_row = plan.instance.as_ref();
        let written = Site { name: own_row.map(|row| row.name.clone()), hardware: own, terms: terms.clone() };
        let others = others.iter().map(|(row, price)| {
            let mut hardware = Hardware::from_instance(row, 1);
            // The launch of the ranks does not change, regardless of the number of GPUs it uses.
            if own_row.is_some_and(|own| own.accelerators == row.accelerators) {
                hardware.gpus_per_node = ranks;
            }
            let terms = terms.as_ref().map(|terms| terms.on_instance(plan, row, price.as_ref()));
            Site { name: Some(row.name.clone()), hardware, terms }
        });
        let sites = std::iter::once(written).chain(others).collect();
        Some(Self::on_sites(plan, known, sites))
    }

    /// Returns the space of the written number of nodes of these machines.
    fn on_sites(plan: &'a Plan, from: Searchable<'a>, sites: Vec<Site>) -> Self {
        let Searchable { base, mesh, batch } = from;
        let own = plan.instance.as_ref().map(|row| row.name.as_str());
        let site = sites.iter().position(|site| site.name.as_deref() == own).unwrap_or(usize::MAX);
        let per_node = sites.iter().map(|site| round_to_count(site.hardware.gpus_per_node));
        let most_per_node = per_node.fold(mesh.gpus_per_node, u64::max);
        Self {
            plan,
            rules: Rules::from_plan(plan, &base, mesh, most_per_node),
            written: Choice {
                site,
                nodes: mesh.nodes,
                degrees: Degrees {
                    shard: mesh.shard_degree.value,
                    tensor: mesh.tensor_degree.value,
                    pipeline: mesh.pipeline_degree.value,
                    context: mesh.context_degree.value.max(1),
                    ulysses: mesh.ulysses_degree.value.max(1),
                    expert: mesh.expert_degree.value.max(1),
                    sharding: base.sharding,
                },
                micro_batch_size: batch.micro_batch_size.value,
                num_micro_batches: batch.num_micro_batches,
                passes: batch.num_micro_batches * batch.accumulation.value,
                recompute: base.recompute,
                host_offload: HostOffload::of_layout(&base),
                global_sequences: batch.global_sequences.value,
                switches: Switches::default(),
            },
            sites,
            nodes: vec![mesh.nodes],
            most_nodes: mesh.nodes,
            has_all_types: false,
            base,
        }
    }

    /// Returns true if some mesh on `nodes` nodes divides the batch.
    fn can_divide_batch(&self, nodes: u64) -> bool {
        (0..self.sites.len()).any(|site| {
            let per_node = self.gpus_per_node(site);
            self.rules.valid_degrees(nodes, per_node).iter().any(|degrees| {
                self.sequences_per_reader(&Choice { site, nodes, degrees: *degrees, ..self.written })
                    .is_some()
            })
        })
    }

    /// Returns the number of ranks that read their own data.
    pub(super) fn readers(&self, choice: &Choice) -> u64 {
        self.rules.data_readers(choice.nodes * self.gpus_per_node(choice.site), &choice.degrees)
    }

    /// Returns the sequences per step of one reader; `None` if they are not the same for all.
    pub(super) fn sequences_per_reader(&self, choice: &Choice) -> Option<u64> {
        let (readers, global) = (self.readers(choice), choice.global_sequences);
        (readers > 0 && global.is_multiple_of(readers)).then(|| global / readers)
    }

    /// Returns the GPUs per node of a site.
    pub fn gpus_per_node(&self, site: usize) -> u64 {
        self.sites.get(site).map_or(0, |site| round_to_count(site.hardware.gpus_per_node))
    }

    /// Returns the instance type of a site, or `custom`.
    pub fn instance_name(&self, site: usize) -> &str {
        self.sites.get(site).and_then(|site| site.name.as_deref()).unwrap_or("custom")
    }

    /// Returns the sequences per step, which are the same in every layout.
    pub fn global_batch(&self) -> u64 {
        self.written.global_sequences
    }

    /// Returns the error of the cost model on models of this kind, if it is so large that the order of their
    /// layouts is not reliable.
    pub fn unreliable_order(&self) -> Option<&'static HeldOutError> {
        unreliable_order(&self.base)
    }

    /// Returns the layout of the manifest, if its instance type is compared.
    pub fn as_written(&self) -> Option<&Choice> {
        (self.written.site < self.sites.len()).then_some(&self.written)
    }

    /// Calls `each` with every layout of the space and its choice. One layout is kept and changed in place.
    pub fn visit(&self, mut each: impl FnMut(&Choice, &Layout)) {
        for site in 0..self.sites.len() {
            for &nodes in &self.nodes {
                self.visit_machines(site, nodes, &mut each);
            }
        }
    }

    /// Calls `each` with every layout on `nodes` nodes of a site.
    pub(super) fn visit_machines(&self, site: usize, nodes: u64, each: &mut impl FnMut(&Choice, &Layout)) {
        for degrees in self.rules.valid_degrees(nodes, self.gpus_per_node(site)) {
            self.visit_mesh(site, nodes, degrees, each);
        }
    }

    /// Calls `each` with every layout of one mesh.
    pub(super) fn visit_mesh(
        &self,
        site: usize,
        nodes: u64,
        degrees: Degrees,
        each: &mut impl FnMut(&Choice, &Layout),
    ) {
        let mut choice = Choice { site, nodes, degrees, ..self.written };
        let Some(per_reader) = self.sequences_per_reader(&choice) else { return };
        let Some(mut layout) = self.layout(&choice) else { return };
        for micro in divisors(per_reader) {
            choice.micro_batch_size = micro;
            choice.passes = per_reader / micro;
            choice.num_micro_batches = self.rules.num_micro_batches(&choice, &self.written);
            for &recompute in &self.rules.recompute {
                choice.recompute = recompute;
                for &host_offload in &self.rules.host_offload {
                    choice.host_offload = host_offload;
                    if self.rules.is_offload_allowed(&choice, &self.written) {
                        apply_choice(&mut layout, &choice);
                        each(&choice, &layout);
                    }
                }
            }
        }
    }

    /// Returns the layout of the manifest with other machines, among which nothing is divided anew.
    pub(super) fn base_on(&self, site: usize, nodes: u64) -> Option<Layout> {
        let mut layout = Layout { hardware: self.sites.get(site)?.hardware.clone(), ..self.base.clone() };
        layout.hardware.nodes = nodes as f64;
        Some(layout)
    }

    /// Returns a choice as input of the cost model; `None` for an unknown site.
    pub fn layout(&self, choice: &Choice) -> Option<Layout> {
        let mut layout = self.base_on(choice.site, choice.nodes)?;
        let world = |choice: &Choice| choice.nodes * self.gpus_per_node(choice.site);
        if (world(choice), choice.degrees) != (world(&self.written), self.written.degrees) {
            let degrees = &choice.degrees;
            let states = degrees.states(self.rules.law);
            let copy = states * degrees.tensor * degrees.pipeline;
            layout.degrees.replicas = world(choice).checked_div(copy)? as f64;
            layout.degrees.shard = states as f64;
            layout.degrees.tensor = degrees.tensor as f64;
            layout.work.tensor_readers = self.rules.tensor_readers(degrees) as f64;
            layout.degrees.pipeline = degrees.pipeline as f64;
            layout.degrees.context = (degrees.context * degrees.ulysses) as f64;
            layout.ulysses = degrees.ulysses > 1;
            layout.degrees.expert = degrees.expert as f64;
            layout.sharding = degrees.sharding;
        }
        layout.work.global_sequences *= choice.global_sequences as f64 / self.written.global_sequences as f64;
        apply_choice(&mut layout, choice);
        apply_switches(&mut layout, choice.switches);
        Some(layout)
    }

    /// Returns the number of axes on which a choice differs from the manifest: of equals the one with the
    /// fewest is better.
    pub fn changed_axes(&self, choice: &Choice) -> usize {
        let (a, b) = (choice, &self.written);
        [
            a.site != b.site,
            a.nodes != b.nodes,
            a.degrees.sharding != b.degrees.sharding,
            a.degrees.shard != b.degrees.shard,
            a.degrees.tensor != b.degrees.tensor,
            a.degrees.pipeline != b.degrees.pipeline,
            a.degrees.context != b.degrees.context,
            a.degrees.ulysses != b.degrees.ulysses,
            a.degrees.expert != b.degrees.expert,
            a.micro_batch_size != b.micro_batch_size,
            a.num_micro_batches != b.num_micro_batches,
            a.recompute != b.recompute,
            a.host_offload != b.host_offload,
            a.global_sequences != b.global_sequences,
            a.switches != b.switches,
        ]
        .into_iter()
        .filter(|differs| *differs)
        .count()
    }

    /// Returns the number of nodes that the shard group of a choice spans, including its tensor groups.
    pub fn nodes_of_shard_group(&self, choice: &Choice) -> u64 {
        let degrees = &choice.degrees;
        if degrees.sharding == Sharding::None {
            return 1;
        }
        (degrees.states(self.rules.law) * degrees.tensor).div_ceil(self.gpus_per_node(choice.site).max(1))
    }
}

/// Sets the values of a layout that vary within one mesh.
fn apply_choice(layout: &mut Layout, choice: &Choice) {
    layout.work.micro_batch_size = choice.micro_batch_size as f64;
    layout.work.passes = choice.passes as f64;
    layout.work.num_micro_batches = choice.num_micro_batches as f64;
    layout.recompute = choice.recompute;
    layout.offload.activations = choice.host_offload.activations;
    layout.offload.parameters = choice.host_offload.states;
    layout.offload.optimizer = choice.host_offload.states || choice.host_offload.optimizer;
}

/// Turns settings of a layout on.
fn apply_switches(layout: &mut Layout, switches: Switches) {
    if switches.wrap {
        layout.one_unit = false;
    }
    if switches.flash {
        layout.attention = Attention::Flash;
    }
    if switches.fsdp {
        layout.system = System::Fsdp;
        layout.sharding = Sharding::Full;
        layout.degrees.shard = layout.degrees.data_parallel_ranks();
        layout.degrees.replicas = 1.0;
        layout.smddp = false;
        layout.one_unit = false;
    }
    if switches.nf4 {
        layout.quantisation = Some(Quantisation::Nf4 { double: false });
    }
}

/// Judges whether a job can run on a type of machine.
pub type CanRunOn<'a> = &'a dyn Fn(&Plan, &Instance) -> bool;

/// What a search starts from.
struct Searchable<'a> {
    base: Layout,
    mesh: &'a Mesh,
    batch: &'a Batch,
}

impl<'a> Searchable<'a> {
    /// Returns it, or the part of the plan that is unknown.
    fn known(plan: &'a Plan) -> Result<Self, Unsearchable> {
        let base = Layout::from_plan(plan).map_err(|unknown| Unsearchable(unknown.0))?;
        let mesh = plan.mesh.as_ref().ok_or(Unsearchable("the mesh is unknown"))?;
        let batch = plan.batch.as_ref().ok_or(Unsearchable("the batch is unknown"))?;
        Ok(Self { base, mesh, batch })
    }

    /// Returns it, or the reason why the layouts of a job cannot be searched.
    fn from_plan(plan: &'a Plan) -> Result<Self, Unsearchable> {
        let searchable = Self::known(plan)?;
        let mesh = searchable.mesh;
        if plan.job.cluster.as_ref().is_some_and(|cluster| !cluster.groups.is_empty()) {
            return Err(Unsearchable("instance groups are not supported by `tune`"));
        }
        if !plan.job.sweep.is_empty() {
            return Err(Unsearchable("a sweep has several jobs; `tune` supports one"));
        }
        if !is_one_process(mesh) && mesh.processes_per_node != mesh.gpus_per_node {
            return Err(Unsearchable("the job runs fewer processes per node than the node has GPUs"));
        }
        Ok(searchable)
    }
}

/// Returns true if `tune` can search the layouts of a job.
pub fn is_searchable(plan: &Plan) -> bool {
    plan.run.steps.is_some() && Searchable::from_plan(plan).is_ok()
}

fn is_one_process(mesh: &Mesh) -> bool {
    mesh.law.is_device_map() || mesh.law.is_script()
}

/// Returns true if the type of a job's machines is not chosen: they are the user's own or reserved, or the
/// job names several types in an order of preference.
fn has_fixed_machines(plan: &Plan) -> bool {
    let is_reserved = plan.job.cluster.as_ref().is_some_and(|cluster| !cluster.training_plan.is_absent());
    is_reserved || plan.fleet.alternatives().is_none() || plan.job.preferences().is_some()
}

/// Returns the machines to compare. A type without accelerators in the catalogue is omitted: its compilation
/// reports it.
fn sites(plan: &Plan, base: &Layout, (terms, limits): (&Terms, &Limits), can_run_on: CanRunOn) -> Vec<Site> {
    let own = plan.instance.as_ref().map(|row| row.name.clone());
    let mut hardware = base.hardware.clone();
    hardware.nodes = 1.0;
    let written = Site { name: own.clone(), hardware, terms: Some(terms.clone()) };
    let region = plan.job.region.value().map_or("", String::as_str);
    let price = |name: &str| hourly_price(name, region, &limits.prices, limits.discount);
    let site = |row: &Instance, price: Option<&Price>| Site {
        name: Some(row.name.clone()),
        hardware: Hardware::from_instance(row, 1),
        terms: Some(terms.on_instance(plan, row, price)),
    };
    if limits.instances.is_empty() {
        if has_fixed_machines(plan) {
            return vec![written];
        }
        let others = instances::names().filter(|name| Some(*name) != own.as_deref()).filter_map(|name| {
            // An estimate is no price to choose a machine by.
            let price = price(name).filter(|price| price.estimate().is_none())?;
            let row = instances::get(name).filter(|row| can_run_on(plan, row))?;
            Some(site(&row, Some(&price)))
        });
        return std::iter::once(written).chain(others).collect();
    }
    let others = limits.instances.iter().filter(|name| Some(*name) != own.as_ref());
    let others = others.filter_map(|name| Some(site(&instances::get(name)?, price(name).as_ref())));
    let named = own.as_ref().is_some_and(|own| limits.instances.contains(own));
    named.then_some(written).into_iter().chain(others).collect()
}

/// Number of nodes up to which every number is tried; above it only powers of two and [`MULTIPLES`] multiples
/// of the manifest's own number and of the nodes of a shard group.
const EVERY: u64 = 64;

/// Number of multiples of a number of nodes that are tried above [`EVERY`].
const MULTIPLES: u64 = 8;

/// Returns numbers of nodes up to a bound, ascending, including the manifest's own if it is within: every
/// small one, then powers of two, the bound itself, and the first multiples of the own number and of the
/// nodes of a shard group.
fn node_counts(most: u64, own: u64, shard_nodes: u64) -> Vec<u64> {
    let mut out: Vec<u64> = (1..=most.clamp(1, EVERY)).collect();
    out.extend((0..63).map(|power| 1_u64 << power).take_while(|nodes| *nodes < most));
    out.push(most.max(1));
    for unit in [own, shard_nodes] {
        let multiples = (1..=MULTIPLES).map(|times| unit.saturating_mul(times));
        out.extend(multiples.filter(|nodes| (1..=most).contains(nodes)));
    }
    out.sort_unstable();
    out.dedup();
    out
}

#[cfg(test)]
mod tests {
    use super::node_counts;

    #[test]
    fn every_small_number_of_nodes_is_tried_and_of_large_ones_a_few() {
        assert_eq!(node_counts(1, 1, 1), [1]);
        assert_eq!(node_counts(13, 6, 6), (1..=13).collect::<Vec<_>>());
        assert_eq!(node_counts(4, 32, 16), [1, 2, 3, 4]);
        let many = node_counts(1000, 96, 48);
        assert_eq!(many.get(..64), Some((1..=64).collect::<Vec<_>>().as_slice()));
        assert_eq!(
            many.get(64..),
            Some([96, 128, 144, 192, 240, 256, 288, 336, 384, 480, 512, 576, 672, 768, 1000].as_slice())
        );
    }
}
