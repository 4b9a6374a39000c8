//! What a layout needs and how fast it is: memory of a GPU by part, seconds of a step by part, time and money of a run.
//!
//! In: a [`Layout`], plain data of a model, a machine and a division of the work, made from a plan
//! ([`Layout::of_plan`]) or from a row of measured runs. Out: a [`Prediction`] whose halves are `None` where
//! something is not known. Pure and quick: constants are read once, nothing is searched.

pub mod constants;
mod from_plan;
pub mod layout;
pub mod memory;
pub mod prediction;
pub mod speed;

pub use constants::Constants;
pub use from_plan::Unknown;
pub use layout::{
    AdapterKind, Attention, Code, Degrees, GpuKind, Hardware, Layout, Lora, Model, Moments, Offload,
    Precision, Quantisation, Recompute, Sharding, System, Work,
};
pub use prediction::{CostParts, Interval, Memory, MemoryParts, Prediction, Run, Speed, SpeedParts, Tflops};

/// What a layout needs and how fast it is; a half that cannot be known is `None`.
pub fn predict(layout: &Layout, constants: &Constants) -> Prediction {
    Prediction {
        memory: Some(memory::memory_with(layout, &memory::MemoryConstants::of(constants))),
        speed: speed::speed(layout, constants).ok(),
        run: None,
    }
}
