//! Larger clusters, for jobs whose states exceed the memory of their nodes.

use crate::space::Space;
use trainc_ir::{Plan, Price};
use trainc_plan::plan::plan_on_nodes;
use trainc_predict::memory::{MemoryConstants, has_room, memory_with};
use trainc_predict::{Constants, Layout, Memory};

/// The most nodes that are tried: more than any account has of a type.
const MOST_NODES: u64 = 1_024;

/// A cluster that holds a job as one shard group.
pub struct Cluster {
    /// The number of nodes.
    pub nodes: u64,
    /// The plan on them.
    pub plan: Plan,
    /// The memory of the fullest GPU.
    pub memory: Memory,
    /// The shard degree that makes it one shard group, if the manifest has another degree.
    pub group_degree: Option<u64>,
}

/// Returns the smallest cluster of a type that holds the job with room for the mean error of a prediction.
pub fn smallest_cluster(
    space: &Space,
    site: usize,
    price: Option<&Price>,
    constants: &Constants,
) -> Option<Cluster> {
    let constants = MemoryConstants::from_constants(constants);
    let fits = |memory: &Memory| memory.capacity_bytes.is_some_and(|has| has_room(memory.per_gpu_bytes, has));
    let name = space.sites.get(site)?.name.as_ref()?;
    let parallel = space.plan.job.parallel.as_ref();
    let is_written = parallel.is_some_and(|parallel| !parallel.shard_degree.is_absent());
    for nodes in 1..=MOST_NODES {
        let Some(choice) = space.on_one_group(&space.written, site, nodes) else { continue };
        let layout = space.layout(&choice)?;
        let memory = memory_with(&layout, &constants);
        if !fits(&memory) || !memory.fits_host(layout.hardware.host_memory_bytes) {
            continue;
        }
        let group_degree = is_written.then_some(choice.degrees.shard);
        let plan = plan_on_nodes(space.plan, name, price.cloned(), (nodes, group_degree))?;
        let memory = memory_with(&Layout::from_plan(&plan).ok()?, &constants);
        return fits(&memory).then_some(Cluster { nodes, plan, memory, group_degree });
    }
    None
}
