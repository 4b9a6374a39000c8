//! The mesh: the layout of the ranks over the parallel axes.

use super::engine::Law;
use super::origin::Val;
use crate::{Field, Parallel};

/// An axis of the mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Axis {
    /// Replicas of the model's states.
    Replica,
    /// Ranks over which one replica is sharded.
    Shard,
    /// Ranks over which each layer is split.
    Tensor,
    /// Pipeline stages.
    Pipeline,
    /// Ranks over which the sequence is split.
    Context,
    /// Ranks over which the sequence is split outside attention, and the heads inside it
    /// (DeepSpeed-Ulysses, Jacobs et al. 2023).
    Ulysses,
    /// Ranks over which experts are spread.
    Expert,
}

impl Axis {
    /// All of them, in the order in which reports name them.
    pub const ALL: [Self; 7] = [
        Self::Replica,
        Self::Shard,
        Self::Tensor,
        Self::Pipeline,
        Self::Context,
        Self::Ulysses,
        Self::Expert,
    ];

    /// Returns its name in plan.json.
    pub fn word(self) -> &'static str {
        match self {
            Self::Replica => "replica",
            Self::Shard => "shard",
            Self::Tensor => "tensor",
            Self::Pipeline => "pipeline",
            Self::Context => "context",
            Self::Ulysses => "ulysses",
            Self::Expert => "expert",
        }
    }

    /// Returns its degree as written.
    pub fn written(self, parallel: &Parallel) -> &Field<u64> {
        match self {
            Self::Replica => &parallel.replicate_degree,
            Self::Shard => &parallel.shard_degree,
            Self::Tensor => &parallel.tensor_degree,
            Self::Pipeline => &parallel.pipeline_degree,
            Self::Context => &parallel.context_degree,
            Self::Ulysses => &parallel.ulysses_degree,
            Self::Expert => &parallel.expert_degree,
        }
    }

    /// Returns its degree as written, to be changed.
    pub fn written_mut(self, parallel: &mut Parallel) -> &mut Field<u64> {
        match self {
            Self::Replica => &mut parallel.replicate_degree,
            Self::Shard => &mut parallel.shard_degree,
            Self::Tensor => &mut parallel.tensor_degree,
            Self::Pipeline => &mut parallel.pipeline_degree,
            Self::Context => &mut parallel.context_degree,
            Self::Ulysses => &mut parallel.ulysses_degree,
            Self::Expert => &mut parallel.expert_degree,
        }
    }

    /// Returns the node of its degree in the language.
    pub fn node(self) -> &'static str {
        match self {
            Self::Replica => "replicate-degree",
            Self::Shard => "shard-degree",
            Self::Tensor => "tensor-degree",
            Self::Pipeline => "pipeline-degree",
            Self::Context => "context-degree",
            Self::Ulysses => "ulysses-degree",
            Self::Expert => "expert-degree",
        }
    }
}

/// The ranks on their axes, by the law of the engine: the replicas and the degrees of its factors multiply to
/// the world size, and the degrees of axes inside others divide those.
#[derive(Clone, Debug, PartialEq)]
pub struct Mesh {
    /// The law that the degrees follow.
    pub law: &'static Law,
    /// Instances.
    pub nodes: u64,
    /// GPUs of each instance.
    pub gpus_per_node: u64,
    /// Processes of each instance; one process has all GPUs for `device-map`.
    pub processes_per_node: u64,
    /// Number of ranks: one per GPU, fewer with `processes`, one per NeuronCore on Trainium. For `device-map`
    /// and plain scripts the number of GPUs.
    pub world_size: u64,
    /// Replicas of the model's states.
    pub replicas: Val<u64>,
    /// Ranks over which one replica is sharded.
    pub shard_degree: Val<u64>,
    /// Ranks over which each layer is split.
    pub tensor_degree: Val<u64>,
    /// Pipeline stages.
    pub pipeline_degree: Val<u64>,
    /// Parts of the sequence.
    pub context_degree: Val<u64>,
    /// Parts of the sequence outside attention, and of the heads inside it.
    pub ulysses_degree: Val<u64>,
    /// Parts of the experts.
    pub expert_degree: Val<u64>,
    /// Ranks that read different data.
    pub data_ranks: Val<u64>,
    /// Minimum nodes of the shard group by the rule of one node per 3 billion parameters; `None` where it
    /// does not apply.
    pub minimum_nodes: Option<Val<u64>>,
    /// The next power of two of the minimum nodes.
    pub recommended_nodes: Option<Val<u64>>,
    /// Axes with their degrees, from the slowest to the fastest varying over ascending ranks.
    pub order: Vec<(Axis, u64)>,
}

/// Maximum number of ranks for which groups are listed individually.
pub const LISTED_RANKS: u64 = 65_536;

impl Mesh {
    /// Creates a mesh of `(nodes, GPUs per node)` with one process per GPU and the given axes, outermost
    /// first. The other degrees are 1; `rule` is the origin of all degrees.
    pub fn new(
        law: &'static Law,
        (nodes, gpus_per_node): (u64, u64),
        order: &[(Axis, u64)],
        rule: &'static str,
    ) -> Self {
        let degree = |axis| {
            let found = order.iter().find(|(other, _)| *other == axis);
            Val::default(found.map_or(1, |(_, degree)| *degree), rule)
        };
        Self {
            law,
            nodes,
            gpus_per_node,
            processes_per_node: gpus_per_node,
            world_size: nodes * gpus_per_node,
            replicas: degree(Axis::Replica),
            shard_degree: degree(Axis::Shard),
            tensor_degree: degree(Axis::Tensor),
            pipeline_degree: degree(Axis::Pipeline),
            context_degree: degree(Axis::Context),
            ulysses_degree: degree(Axis::Ulysses),
            expert_degree: Val::default(1, rule),
            data_ranks: Val::default(1, rule),
            minimum_nodes: None,
            recommended_nodes: None,
            order: order.to_vec(),
        }
    }

    /// Returns the degree of an axis.
    pub fn degree(&self, axis: Axis) -> u64 {
        self.degree_val(axis).value
    }

    /// Returns the degree of an axis with its origin.
    pub fn degree_val(&self, axis: Axis) -> &Val<u64> {
        match axis {
            Axis::Replica => &self.replicas,
            Axis::Shard => &self.shard_degree,
            Axis::Tensor => &self.tensor_degree,
            Axis::Pipeline => &self.pipeline_degree,
            Axis::Context => &self.context_degree,
            Axis::Ulysses => &self.ulysses_degree,
            Axis::Expert => &self.expert_degree,
        }
    }

    /// Returns the degree of an axis, to be set.
    pub fn degree_mut(&mut self, axis: Axis) -> &mut Val<u64> {
        match axis {
            Axis::Replica => &mut self.replicas,
            Axis::Shard => &mut self.shard_degree,
            Axis::Tensor => &mut self.tensor_degree,
            Axis::Pipeline => &mut self.pipeline_degree,
            Axis::Context => &mut self.context_degree,
            Axis::Ulysses => &mut self.ulysses_degree,
            Axis::Expert => &mut self.expert_degree,
        }
    }

    /// Returns the number of ranks over which one copy of the states is divided, which is more than the shard
    /// degree where other axes divide them as well.
    pub fn states_degree(&self) -> u64 {
        self.law.states_over.iter().map(|axis| self.degree(*axis)).product()
    }

    /// Returns the total number of GPUs.
    pub fn gpus(&self) -> u64 {
        self.nodes.saturating_mul(self.gpus_per_node)
    }

    /// Returns the total number of ranks: one per GPU, except for plain scripts (one per host) and with fewer
    /// processes than GPUs.
    pub fn ranks(&self) -> u64 {
        self.order.iter().map(|(_, degree)| degree).product()
    }

    /// Returns the number of ranks of each node.
    pub fn ranks_per_node(&self) -> u64 {
        self.ranks().checked_div(self.nodes).unwrap_or(0).max(1)
    }

    /// Returns the cells of a node in a diagram: its accelerators, or its ranks where an accelerator has
    /// several.
    pub fn cells_per_node(&self) -> u64 {
        self.gpus_per_node.max(self.ranks_per_node())
    }

    /// Returns the node of a rank. Ranks are numbered node by node.
    pub fn node_of(&self, rank: u64) -> u64 {
        rank / self.ranks_per_node()
    }

    /// Returns the rank distance between neighbours of an axis: the product of the degrees of all faster
    /// axes.
    fn stride(&self, axis: Axis) -> u64 {
        // An axis inside others is the fastest part of them.
        let inside = self.law.inside(axis).map_or(&[][..], |inside| inside.of);
        let is_axis = |other: &Axis| *other == axis || inside.contains(other);
        self.order.iter().rev().take_while(|(other, _)| !is_axis(other)).map(|(_, degree)| degree).product()
    }

    /// Returns the rank groups of an axis, each in ascending order, sorted by their first rank. Empty for
    /// degree 1 and for more than [`LISTED_RANKS`] ranks.
    pub fn groups(&self, axis: Axis) -> Vec<Vec<u64>> {
        let degree = self.degree(axis);
        if degree <= 1 || self.ranks() > LISTED_RANKS {
            return Vec::new();
        }
        let stride = self.stride(axis);
        let block = stride.saturating_mul(degree);
        (0..self.ranks())
            .filter(|rank| block > 0 && rank % block < stride)
            .map(|first| (0..degree).map(|i| first + i * stride).collect())
            .collect()
    }

    /// Returns the maximum number of nodes that a group of an axis spans, in closed form for any world size.
    pub fn nodes_of_group(&self, axis: Axis) -> u64 {
        let degree = self.degree(axis);
        if degree <= 1 {
            return 1;
        }
        let stride = self.stride(axis);
        let block = stride.saturating_mul(degree);
        // Groups repeat with the block; the first ranks of a block represent all when blocks align with
        // nodes.
        let period = block.max(self.ranks_per_node()).min(self.ranks().max(1));
        (0..period.min(4096))
            .filter(|rank| rank % block < stride)
            .map(|first| {
                if stride >= self.ranks_per_node() {
                    degree
                } else {
                    self.node_of(first + (degree - 1) * stride) - self.node_of(first) + 1
                }
            })
            .max()
            .unwrap_or(1)
    }

    /// Returns the coordinate of a rank on an axis.
    pub fn coordinate(&self, axis: Axis, rank: u64) -> u64 {
        let stride = self.stride(axis);
        rank.checked_div(stride).unwrap_or(0) % self.degree(axis).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh(nodes: u64, gpus_per_node: u64, order: &[(Axis, u64)]) -> Mesh {
        Mesh::new(&Law::PLAIN, (nodes, gpus_per_node), order, "test")
    }

    #[test]
    fn smp_cluster_of_eight() {
        // SageMaker developer guide, placement strategy "cluster" = DPT, T2 P2 D2.
        let m = mesh(1, 8, &[(Axis::Replica, 2), (Axis::Pipeline, 2), (Axis::Tensor, 2)]);
        assert_eq!(m.groups(Axis::Tensor), [[0, 1], [2, 3], [4, 5], [6, 7]]);
        assert_eq!(m.groups(Axis::Pipeline), [[0, 2], [1, 3], [4, 6], [5, 7]]);
        assert_eq!(m.groups(Axis::Replica), [[0, 4], [1, 5], [2, 6], [3, 7]]);
    }

    #[test]
    fn smp_spread_puts_stages_across_nodes() {
        // AWS blog on RoBERTa: two ml.p3.16xlarge, four partitions, spread.
        let m = mesh(2, 8, &[(Axis::Tensor, 1), (Axis::Pipeline, 4), (Axis::Replica, 4)]);
        assert_eq!(m.groups(Axis::Pipeline), [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]]);
        assert_eq!(m.groups(Axis::Replica), [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]);
        assert_eq!(m.nodes_of_group(Axis::Pipeline), 2);
        assert_eq!(m.nodes_of_group(Axis::Replica), 1);
    }

    #[test]
    fn sharded_data_parallelism_of_the_30b_run() {
        // AWS blog on sharded data parallelism: 256 GPUs, shards of 128, two replicas.
        let m = mesh(32, 8, &[(Axis::Replica, 2), (Axis::Shard, 128)]);
        let shards = m.groups(Axis::Shard);
        assert_eq!(shards.len(), 2);
        assert_eq!(shards[1], (128..256).collect::<Vec<u64>>());
        let replicas = m.groups(Axis::Replica);
        assert_eq!(replicas.len(), 128);
        assert_eq!(replicas[5], [5, 133]);
        assert_eq!(m.nodes_of_group(Axis::Shard), 16);
        assert_eq!(m.nodes_of_group(Axis::Replica), 2);
    }
}
