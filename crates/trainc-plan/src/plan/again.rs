//! A plan on another number of nodes: what depends on it is worked out again, the rest stays.

use super::{batch, mesh};
use trainc_diag::Problems;
use trainc_ir::{Field, Plan, Val};

/// What is other than in the plan. A degree or factor that is `None` follows from the rest, as if nobody wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Instances.
    pub nodes: u64,
    /// Shard degree, where one is written.
    pub shard_degree: Option<u64>,
    /// Sequences of a micro-batch.
    pub micro_batch_size: Option<u64>,
    /// Passes of a step.
    pub accumulation: Option<u64>,
}

/// The plan of the same job after a change. Texts keep what their placeholders became in the plan that was given.
pub fn again(plan: &Plan, change: Change, problems: &mut Problems) -> Plan {
    let mut new = plan.clone();
    let job = &mut new.job;
    if let Some(cluster) = &mut job.cluster {
        put(&mut cluster.nodes, Some(change.nodes));
    }
    if let Some(parallel) = &mut job.parallel {
        put(&mut parallel.shard_degree, change.shard_degree);
    }
    put(&mut job.train.micro_batch_size, change.micro_batch_size);
    put(&mut job.train.accumulation, change.accumulation);
    new.mesh = mesh::mesh(&new.job, new.machine.as_ref(), new.model.as_ref(), new.smp.as_ref(), problems);
    new.batch = batch::batch(&new.job, new.mesh.as_ref(), new.machine.as_ref(), problems);
    new.run = batch::run(&new.job, new.batch.as_ref(), problems);
    new
}

/// Puts a value where one stands, at its place; a new one comes from nowhere in the manifest.
fn put(field: &mut Field<u64>, value: Option<u64>) {
    let Some(value) = value else { return };
    match field.value_mut() {
        Some(old) => *old = value,
        None => *field = Field::Is(Val::derived(value, "another number of nodes")),
    }
}
