//! The shard degree that a context or expert degree asks for: both are parts of the shard axis.

use super::divisors::near_divisors;
use trainc_diag::text;
use trainc_ir::{Mesh, Parallel};

/// What to write where a part does not divide the shard degree of a mesh.
pub(super) fn shard_of_part(parallel: &Parallel, mesh: &Mesh, part: u64) -> String {
    if let Some(degree) = unwritten(parallel, mesh, part) {
        return format!("write `shard-degree {degree}` beside it");
    }
    let (below, above) = near_divisors(mesh.shard_degree.value, part);
    let legal: Vec<String> = [below, above].into_iter().flatten().map(|n| n.to_string()).collect();
    if legal.is_empty() {
        format!("write `shard-degree {part}` or a multiple")
    } else {
        format!("{} does", text::list(&legal, "or"))
    }
}

/// The shard degree to write where none is: the whole node, or else the part itself.
fn unwritten(parallel: &Parallel, mesh: &Mesh, part: u64) -> Option<u64> {
    if !parallel.shard_degree.is_absent() || mesh.shard_degree.value > 1 {
        return None;
    }
    let others = mesh.tensor_degree.value.checked_mul(mesh.pipeline_degree.value)?;
    let room = mesh.world_size.checked_div(others)?;
    let legal = |degree: &u64| *degree > 0 && degree.is_multiple_of(part) && room.is_multiple_of(*degree);
    [mesh.gpus_per_node, part].into_iter().find(legal)
}
