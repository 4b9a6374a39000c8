//! Search over the valid layouts of a job for the shortest time and the lowest cost.
//!
//! Input: a plan and the axes that may vary. Output: every layout of the space with its predicted time and
//! cost ([`search`]), the Pareto-optimal ones ([`front`]), the runners-up ([`runners_up`]) and why each was
//! rejected ([`reasons`]); or the few changes that make the layout of the manifest fit ([`nearby`]). A layout becomes edits of the manifest ([`edits`]). The global batch stays, so the
//! training does. The caller compiles a layout to find out if it passes every check.

pub mod better_machine;
pub mod bounds;
pub mod choice;
pub mod compare;
pub mod description;
pub mod edits;
mod file_edits;
pub mod fitting;
pub mod front;
pub mod left_out;
pub mod meshes;
pub mod nearby;
pub mod reasons;
pub mod runners_up;
pub mod scaling;
pub mod search;
pub mod space;
pub mod unranked;

pub use better_machine::{BetterMachine, TimeAndCost, better_machines};
pub use choice::Choice;
pub use front::{default_choice, front_to_show, pareto_front};
pub use nearby::{Change, Remedy, remedies};
pub use reasons::{Reason, Refusal};
pub use search::{Point, Status, search};
pub use space::{Limits, Space};

/// Reason why nothing can be searched: a lowercase fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsearchable(pub &'static str);

#[cfg(test)]
mod tests;
