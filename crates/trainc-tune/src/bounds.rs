//! Number of nodes on which a layout would keep the bounds.

use super::search::{Status, search};
use super::space::{CanRunOn, Limits, Space};
use trainc_predict::Constants;

/// Maximum number of doublings of the nodes.
const DOUBLINGS: u32 = 4;

/// Effect of more nodes on the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoreNodes {
    /// At least one layout on at most this many nodes fits and keeps the bounds, before any check.
    Kept {
        /// The most nodes.
        nodes: u64,
        /// Number of such layouts.
        layouts: usize,
    },
    /// No layout on up to this many nodes keeps the bounds either.
    Missed {
        /// Largest number of nodes that was searched.
        nodes: u64,
    },
}

/// Returns the smallest doubling of a space's nodes that keeps the bounds; `None` if the engine supports no
/// more nodes.
pub fn more_nodes(
    space: &Space,
    limits: &Limits,
    constants: &Constants,
    can_run_on: CanRunOn,
) -> Option<MoreNodes> {
    let most = space.most_nodes;
    let mut missed = None;
    for power in 1..=DOUBLINGS {
        let nodes = most.checked_shl(power)?;
        let limits = Limits { max_nodes: Some(nodes), ..limits.clone() };
        let Ok(larger) = Space::from_plan(space.plan, &limits, constants, can_run_on) else { break };
        if larger.most_nodes <= most {
            break;
        }
        let Ok(points) = search(&larger, &limits, constants) else { break };
        let layouts = points.iter().filter(|point| point.status == Status::Valid).count();
        if layouts > 0 {
            return Some(MoreNodes::Kept { nodes, layouts });
        }
        missed = Some(MoreNodes::Missed { nodes });
    }
    missed
}
