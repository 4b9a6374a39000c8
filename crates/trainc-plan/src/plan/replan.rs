//! Replans a job on another number of nodes: recomputes mesh, batch and run length; everything else stays.

use super::{batch, mesh};
use trainc_diag::Problems;
use trainc_ir::{Field, Mesh, Plan, Val};

/// Values that differ from the plan. A degree or factor that is `None` keeps its value in the manifest or is
/// derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutChange {
    /// Instances.
    pub nodes: u64,
    /// Shard degree, if set.
    pub shard_degree: Option<u64>,
    /// Sequences of a micro-batch.
    pub micro_batch_size: Option<u64>,
    /// Passes of a step.
    pub accumulation: Option<u64>,
}

/// Returns the plan of the same job after a change. Placeholders keep the values of the given plan.
pub fn replan(plan: &Plan, change: LayoutChange, problems: &mut Problems) -> Plan {
    let mut new = plan.clone();
    let job = &mut new.job;
    if let Some(cluster) = &mut job.cluster {
        replace(&mut cluster.nodes, Some(change.nodes));
        new.fleet.set_nodes(change.nodes);
    }
    if let Some(parallel) = &mut job.parallel {
        replace(&mut parallel.shard_degree, change.shard_degree);
        if let Some(mesh) = plan.mesh.as_ref().filter(|mesh| mesh.law.replicas.is_some()) {
            replace(
                &mut parallel.replicate_degree,
                replicas(mesh, change.nodes, parallel.shard_degree.get()),
            );
        }
    }
    replace(&mut job.train.micro_batch_size, change.micro_batch_size);
    replace(&mut job.train.accumulation, change.accumulation);
    new.mesh = mesh::mesh((&new.job, new.engine), new.machine.as_ref(), new.model.as_ref(), problems);
    new.batch = batch::batch(&new.job, new.mesh.as_ref(), new.machine.as_ref(), problems);
    new.run = batch::run(&new.job, new.batch.as_ref(), problems);
    super::decide_bound_values(new)
}

/// Returns the replicas that fill another number of nodes with shard groups of this degree, under a law whose
/// replicas are written; `None` if the shard degree follows from them.
fn replicas(mesh: &Mesh, nodes: u64, shard_degree: Option<u64>) -> Option<u64> {
    let copies = mesh.replicas.value.saturating_mul(mesh.shard_degree.value);
    let data = mesh.ranks_per_node().saturating_mul(nodes).checked_div(mesh.ranks().checked_div(copies)?)?;
    let shard = shard_degree.filter(|shard| *shard > 0 && data.is_multiple_of(*shard))?;
    Some(data / shard)
}

/// Replaces the value of a field and keeps its origin, or sets a derived value.
fn replace(field: &mut Field<u64>, value: Option<u64>) {
    let Some(value) = value else { return };
    match field.value_mut() {
        Some(old) => *old = value,
        None => *field = Field::Is(Val::derived(value, "another number of nodes")),
    }
}
