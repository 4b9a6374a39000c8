//! Legal layouts of a job, searched for the shortest time and the least money.
//!
//! In: a plan and what may vary. Out: every layout of the space with its predicted time and cost ([`search`]), those
//! that no other beats in both ([`front`]), which of the others are worth a word ([`next`]) and why each lost ([`reasons`]); a layout becomes values
//! laid over the manifest ([`edits`]) and, where it is chosen, text of the manifest ([`write`]). The global batch stays:
//! another batch is another training. Whether a layout passes every check, only its own compilation says: the caller
//! asks it.

pub mod bounds;
pub mod choice;
pub mod compare;
pub mod description;
pub mod edits;
pub mod fitting;
pub mod front;
pub mod left_out;
pub mod meshes;
pub mod reasons;
pub mod runners_up;
pub mod scaling;
pub mod search;
pub mod space;
pub mod unranked;
pub mod write;

pub use choice::Choice;
pub use edits::Set;
pub use front::{first, front, offered};
pub use reasons::{Reason, Refusal};
pub use search::{Point, Status, search};
pub use space::{Limits, Space};

/// Why nothing can be searched: a lowercase fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsearchable(pub &'static str);

#[cfg(test)]
mod tests;
