//! The engine of a job: a front, which the manifest names and which starts the ranks, bound to a law, by
//! which they are arranged. Both are data. The crate `trainc-engine` has those that exist.

mod front;
mod law;
mod system;

pub use front::{Front, Prefetch};
pub use law::{Absent, Bf16, Degree, Law, Limits, Order, Quantized, Ranks, States, Strategy};
pub use system::{Sharding, System};

/// A front bound to a law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Engine {
    /// The words of the language, the launcher and the versions.
    pub front: &'static Front,
    /// The degrees, the sharding, and the parts of the cost model.
    pub law: &'static Law,
}

impl Engine {
    /// Binds a front to its own law.
    pub const fn new(front: &'static Front) -> Self {
        Self { front, law: front.law }
    }

    /// Returns its name in the language.
    pub fn name(self) -> &'static str {
        self.front.word
    }
}
