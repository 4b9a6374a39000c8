//! The engine of a job: a front, which the manifest names and which starts the ranks, bound to a law, by
//! which they are arranged. Both are data. The crate `trainc-engine` has those that exist.

mod front;
mod law;
mod system;

pub use front::{Front, Needs, Prefetch};
pub use law::{Absent, Bf16, Degree, Inside, Law, Limits, Order, Quantized, Ranks, States, Strategy};
pub use system::{Sharding, System};

use crate::Parallel;

/// A front bound to a law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Engine {
    /// The words of the language, the launcher and the versions.
    pub front: &'static Front,
    /// The degrees, the sharding, and the parts of the cost model.
    pub law: &'static Law,
}

impl Engine {
    /// Binds a front to its usual law.
    pub const fn new(front: &'static Front) -> Self {
        Self { front, law: front.law() }
    }

    /// Binds a front to the law that the strategy of the manifest chooses.
    pub fn by_strategy(front: &'static Front, parallel: Option<&Parallel>) -> Self {
        Self { front, law: front.law_by_strategy(parallel) }
    }

    /// Returns its name in the language.
    pub fn name(self) -> &'static str {
        self.front.word
    }
}
