//! Order of the ranks along the axes, which determines the groups that cross nodes.

use super::layout::Degrees;
use trainc_ir::{Axis, Mesh};

/// The axes from the slowest to the fastest over ascending ranks, which are numbered node by node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order([Axis; 4]);

/// Placement of the groups of an axis. Counts; fractions if a group does not divide a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Nodes that a group spans.
    pub nodes: f64,
    /// Groups that share the network interfaces of a node.
    pub beside: f64,
}

impl Order {
    /// Tensor ranks adjacent, stages farthest apart (Megatron-LM, `parallel_state.py`: tp-cp-ep-dp-pp);
    /// FSDP's mesh of replicas × shards is the same with the other two at 1.
    pub const MEGATRON: Self = Self([Axis::Pipeline, Axis::Replica, Axis::Shard, Axis::Tensor]);
    /// SMP v1's `cluster`, DPT (SageMaker Python SDK, `placement_strategy`).
    pub const CLUSTER: Self = Self([Axis::Replica, Axis::Shard, Axis::Pipeline, Axis::Tensor]);

    /// Returns the order of a plan's mesh; absent axes have degree 1 and any position.
    pub fn from_mesh(mesh: &Mesh) -> Self {
        // The states are divided over context ranks as over those of the shard axis, of which they are the
        // fastest part.
        let of_shard = |axis: &Axis| *axis != Axis::Shard && mesh.law.states_over.contains(axis);
        let mut axes: Vec<Axis> =
            mesh.order.iter().map(|(axis, _)| *axis).filter(|axis| !of_shard(axis)).collect();
        let rest: Vec<Axis> = Self::MEGATRON.0.into_iter().filter(|axis| !axes.contains(axis)).collect();
        axes.splice(0..0, rest);
        axes.try_into().map_or(Self::MEGATRON, Self)
    }

    /// Returns the distance between neighbours of an axis in ranks: the product of the degrees of all faster
    /// axes. Context and expert degrees are the fastest parts of the shard axis.
    fn stride(self, degrees: &Degrees, axis: Axis) -> f64 {
        let axis = if is_part_of_shard(axis) { Axis::Shard } else { axis };
        let faster = self.0.into_iter().rev().take_while(|other| *other != axis);
        faster
            .map(|other| match other {
                Axis::Replica => degrees.replicas,
                Axis::Tensor => degrees.tensor,
                Axis::Pipeline => degrees.pipeline,
                Axis::Shard | Axis::Context | Axis::Ulysses | Axis::Expert => degrees.shard,
            })
            .fold(1.0, |product, degree| product * degree.max(1.0))
    }

    /// Returns the placement of groups of `ranks` along an axis. Replicas and shards are adjacent in every
    /// order, so a group of all data-parallel ranks is one along the shard axis.
    pub fn group_placement(
        self,
        degrees: &Degrees,
        nodes: f64,
        per_node: f64,
        axis: Axis,
        ranks: f64,
    ) -> Spread {
        let (ranks, per_node) = (ranks.max(1.0), per_node.max(1.0));
        if nodes <= 1.0 {
            return Spread { nodes: 1.0, beside: per_node / ranks };
        }
        let inside = (per_node / self.stride(degrees, axis)).max(1.0).min(ranks);
        Spread { nodes: ranks / inside, beside: per_node / inside }
    }
}

fn is_part_of_shard(axis: Axis) -> bool {
    matches!(axis, Axis::Context | Axis::Ulysses | Axis::Expert)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainc_ir::engine::Law;

    /// Of a law whose context ranks hold different shards, these are the fastest part of the states' group.
    #[test]
    fn groups_of_context_ranks_lie_where_the_mesh_has_them() {
        static BESIDE: Law = Law { states_over: &[Axis::Shard, Axis::Context], ..Law::PLAIN };
        for (replicas, shard, context, tensor) in
            [(2, 4, 2, 2), (1, 8, 4, 1), (4, 1, 8, 1), (1, 4, 8, 1), (2, 1, 8, 2)]
        {
            let order = [
                (Axis::Replica, replicas),
                (Axis::Shard, shard),
                (Axis::Context, context),
                (Axis::Tensor, tensor),
            ];
            let mesh = Mesh::new(&BESIDE, (4, 8), &order, "test");
            assert_eq!(mesh.states_degree(), shard * context);
            let degrees = Degrees {
                replicas: replicas as f64,
                shard: (shard * context) as f64,
                tensor: tensor as f64,
                pipeline: 1.0,
                virtual_stages: 1.0,
                context: context as f64,
                expert: 1.0,
            };
            for (axis, degree) in
                [(Axis::Replica, replicas), (Axis::Context, context), (Axis::Tensor, tensor)]
            {
                let found = Order::from_mesh(&mesh).group_placement(&degrees, 4.0, 8.0, axis, degree as f64);
                assert_eq!(found.nodes, mesh.nodes_of_group(axis) as f64, "{axis:?} {mesh:?}");
            }
            // The ranks over which the states are divided are adjacent but for the tensor ranks.
            let states = mesh.states_degree() as f64;
            let found = Order::from_mesh(&mesh).group_placement(&degrees, 4.0, 8.0, Axis::Shard, states);
            assert_eq!(found.nodes, (states * tensor as f64 / 8.0).max(1.0), "{mesh:?}");
        }
    }

    /// The closed form compared with the mesh's own rank groups, one by one.
    #[test]
    fn groups_lie_where_the_mesh_has_them() {
        for order in [
            [Axis::Pipeline, Axis::Replica, Axis::Shard, Axis::Tensor],
            [Axis::Replica, Axis::Shard, Axis::Pipeline, Axis::Tensor],
            [Axis::Tensor, Axis::Pipeline, Axis::Replica, Axis::Shard],
            [Axis::Pipeline, Axis::Tensor, Axis::Replica, Axis::Shard],
        ] {
            for (replicas, shard, tensor, pipeline) in
                [(4, 1, 2, 4), (2, 1, 4, 4), (1, 8, 4, 1), (2, 2, 8, 1), (8, 1, 1, 4), (1, 1, 8, 4)]
            {
                let degree = |axis: Axis| match axis {
                    Axis::Replica => replicas,
                    Axis::Tensor => tensor,
                    Axis::Pipeline => pipeline,
                    _ => shard,
                };
                let mesh = Mesh::new(&Law::PLAIN, (4, 8), &order.map(|axis| (axis, degree(axis))), "test");
                let degrees = Degrees {
                    replicas: replicas as f64,
                    shard: shard as f64,
                    tensor: tensor as f64,
                    pipeline: pipeline as f64,
                    virtual_stages: 1.0,
                    context: 1.0,
                    expert: 1.0,
                };
                for axis in order {
                    let order = Order::from_mesh(&mesh);
                    let found = order.group_placement(&degrees, 4.0, 8.0, axis, degree(axis) as f64);
                    assert_eq!(found.nodes, mesh.nodes_of_group(axis) as f64, "{order:?} {axis:?} {mesh:?}");
                    let in_first = |group: &&Vec<u64>| group.iter().any(|rank| mesh.node_of(*rank) == 0);
                    let groups = mesh.groups(axis);
                    if !groups.is_empty() {
                        let beside = groups.iter().filter(in_first).count() as f64;
                        assert_eq!(found.beside, beside, "{order:?} {axis:?} {mesh:?}");
                    }
                }
            }
        }
    }
}
