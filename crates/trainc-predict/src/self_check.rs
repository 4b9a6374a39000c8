//! Bandwidth of links that a self-check of engine `worker` measured on a job's own GPUs.

use super::constants::{Constants, Name};
use super::layout::{Degrees, Hardware};
use super::order::Order;
use serde::Deserialize;
use trainc_catalog::instances;
use trainc_ir::Axis;

/// Measurements of `trainc-worker selfcheck`, under the names of its JSON. Rates are those of the slowest
/// rank, in bytes that it receives per second; none for groups of one rank.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SelfCheck {
    instance: String,
    nodes: u64,
    shard_degree: f64,
    data_parallel_replicas: f64,
    gather_bytes_per_s: Option<f64>,
    all_reduce_bytes_per_s: Option<f64>,
}

impl SelfCheck {
    /// Replaces the constants of the links that were measured. Returns their keys, or why nothing can be
    /// replaced.
    ///
    /// The cost model gathers over a node's links at `nvlink` of the one-way bandwidth, and between nodes at
    /// `fabric / (1 + nodes / fabric_nodes)` of the line rate, shared by the groups of a node
    /// (`speed/links.rs`). Both are solved for the constant.
    pub fn apply(&self, constants: &mut Constants) -> Result<Vec<&'static str>, String> {
        let row = instances::get(&self.instance)
            .ok_or_else(|| format!("instance type `{}` is not in the catalogue", self.instance))?;
        let hardware = Hardware::from_instance(&row, self.nodes);
        let degrees = Degrees {
            replicas: self.data_parallel_replicas.max(1.0),
            shard: self.shard_degree.max(1.0),
            tensor: 1.0,
            pipeline: 1.0,
            virtual_stages: 1.0,
            context: 1.0,
            expert: 1.0,
        };
        if degrees.ranks() > hardware.gpus() {
            let (ranks, gpus) = (degrees.ranks(), hardware.gpus());
            return Err(format!("{ranks} ranks were measured on {gpus} GPUs"));
        }
        let placed = |axis, ranks| {
            Order::MEGATRON.group_placement(&degrees, hardware.nodes, hardware.gpus_per_node, axis, ranks)
        };
        let one_way = hardware.intra_bytes_per_second.filter(|both| *both > 0.0).map(|both| both / 2.0);
        let fabric = hardware.inter_bytes_per_second.filter(|_| hardware.nodes > 1.0);
        let (shard, replica) = (placed(Axis::Shard, degrees.shard), placed(Axis::Replica, degrees.replicas));
        let measured = |rate: Option<f64>| rate.filter(|rate| rate.is_finite() && *rate > 0.0);
        let mut found = Vec::new();
        if let Some(rate) = measured(self.gather_bytes_per_s) {
            if shard.nodes <= 1.0 {
                match one_way {
                    Some(line) => found.push((Name::Nvlink, rate / line)),
                    None => found.push((Name::Pcie, rate)),
                }
            } else if let Some(line) = fabric {
                // The rate counts what a rank receives of all others, the model what crosses between nodes.
                let crossing = (shard.nodes - 1.0) / shard.nodes * degrees.shard / (degrees.shard - 1.0);
                let slower = 1.0 + shard.nodes / constants.get(Name::FabricNodes);
                found.push((Name::Fabric, rate * shard.beside * crossing * slower / line));
            }
        }
        if let (Some(rate), Some(line)) = (measured(self.all_reduce_bytes_per_s), fabric)
            && replica.nodes > 1.0
            && found.iter().all(|(name, _)| *name != Name::Fabric)
        {
            found.push((Name::Fabric, rate * replica.beside / line));
        }
        let mut keys = Vec::new();
        for (key, name) in Name::ALL {
            let Some((_, value)) = found.iter().find(|(found, _)| found == name) else { continue };
            if let Some(constant) = constants.value_mut(key) {
                // No link is faster than its line rate.
                *constant = if *name == Name::Pcie { *value } else { value.min(1.0) };
                keys.push(*key);
            }
        }
        if keys.is_empty() { Err("it measured no link between GPUs".to_owned()) } else { Ok(keys) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(nodes: u64, shard: f64, replicas: f64, gather: f64, reduce: f64) -> SelfCheck {
        SelfCheck {
            instance: "ml.p4d.24xlarge".to_owned(),
            nodes,
            shard_degree: shard,
            data_parallel_replicas: replicas,
            gather_bytes_per_s: Some(gather),
            all_reduce_bytes_per_s: Some(reduce),
        }
    }

    /// NVLink of an A100 has 600 GB/s in both directions, and EFA of p4d 400 Gb/s, 50 GB/s, for a node.
    #[test]
    fn rates_become_shares_of_the_line() {
        let mut constants = Constants::shipped().clone();
        // Shard groups of one node; eight groups of replicas share a node's EFA.
        let keys = check(4, 8.0, 4.0, 210e9, 5e9).apply(&mut constants).unwrap();
        assert_eq!(keys, ["links.nvlink", "links.fabric"]);
        assert!((constants.get(Name::Nvlink) - 0.7).abs() < 1e-9);
        assert!((constants.get(Name::Fabric) - 5.0 * 8.0 / 50.0).abs() < 1e-9);
        // A shard group over four nodes: of 31 parts that a rank receives, 24 cross between nodes.
        let mut constants = Constants::shipped().clone();
        let keys = check(4, 32.0, 1.0, 31e9, 0.0).apply(&mut constants).unwrap();
        assert_eq!(keys, ["links.fabric"]);
        let slower = 1.0 + 4.0 / constants.get(Name::FabricNodes);
        assert!((constants.get(Name::Fabric) - 24e9 * slower / 50e9).abs() < 1e-9);
        assert_eq!(constants.get(Name::Nvlink), Constants::shipped().get(Name::Nvlink));
    }

    #[test]
    fn what_says_nothing_is_refused() {
        let refused = |check: SelfCheck| check.apply(&mut Constants::shipped().clone()).unwrap_err();
        assert!(refused(check(1, 1.0, 1.0, 0.0, 0.0)).contains("no link"));
        assert!(refused(check(1, 8.0, 2.0, 1e9, 1e9)).contains("16 ranks were measured on 8 GPUs"));
        let unknown = SelfCheck { instance: "ml.none".to_owned(), ..check(1, 8.0, 1.0, 1e9, 0.0) };
        assert!(refused(unknown).contains("`ml.none` is not in the catalogue"));
    }
}
