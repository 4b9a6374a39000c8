//! Number of nodes with which a layout would keep the bounds.

use super::search::{Status, search};
use super::space::{Limits, Space};
use trainc_ir::Plan;
use trainc_predict::Constants;

/// Maximum number of doublings of the nodes.
const DOUBLINGS: u32 = 4;

/// Effect of more nodes on the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoreNodes {
    /// With so many at most there are so many layouts that fit and keep them, before any check.
    Kept {
        /// The most nodes.
        nodes: u64,
        /// Layouts.
        layouts: usize,
    },
    /// With so many there is none either.
    Missed {
        /// The most nodes that were looked at.
        nodes: u64,
    },
}

/// The least doubling of a space's nodes that keeps the bounds; none where the engine takes no more nodes.
pub fn more_nodes(plan: &Plan, space: &Space, limits: &Limits, constants: &Constants) -> Option<MoreNodes> {
    let most = space.most_nodes;
    let mut missed = None;
    for power in 1..=DOUBLINGS {
        let nodes = most.checked_shl(power)?;
        let limits = Limits { max_nodes: Some(nodes), ..limits.clone() };
        let Ok(space) = Space::from_plan(plan, &limits, constants) else { break };
        if space.most_nodes <= most {
            break;
        }
        let Ok(points) = search(&space, &limits, constants) else { break };
        let layouts = points.iter().filter(|point| point.status == Status::Valid).count();
        if layouts > 0 {
            return Some(MoreNodes::Kept { nodes, layouts });
        }
        missed = Some(MoreNodes::Missed { nodes });
    }
    missed
}
