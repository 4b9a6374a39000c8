//! Cost model: memory of a GPU by part, seconds per step by part, time and cost of a run.
//!
//! Input: a [`Layout`], plain data of a model, a machine and a division of the work, made from a plan
//! ([`Layout::from_plan`]) or from a row of measured runs. Output: a [`Prediction`] whose halves are `None`
//! if something is unknown. Pure and fast: constants are read once, nothing is searched.

mod balance;
pub mod bills;
mod code;
pub mod constants;
pub mod evidence;
mod expectation;
mod experts;
mod extrapolation;
mod figures;
mod file_settings;
mod from_plan;
mod gathering;
mod gpu;
pub mod held_out;
pub mod input;
mod kernels;
mod layer_activations;
pub mod layout;
pub mod memory;
pub mod narrowing;
mod order;
mod part_intervals;
mod position;
pub mod prediction;
mod probed;
mod products;
mod ranges;
pub mod run;
#[cfg(test)]
mod samples;
mod self_check;
pub mod sensitivity;
mod settings;
pub mod speed;
mod spot;
mod worker;
mod wrapping;

pub use constants::Constants;
pub use evidence::{Conditioned, Evidence, FinishedRun, MeasuredRun};
pub use expectation::expectation;
pub use experts::EXPERT_OVERLOAD;
pub use extrapolation::{Extrapolation, FARTHEST, FarRun, LargerCount, MeasuredSetting, NewGpu};
pub use from_plan::{UNDECIDED_LAYOUT, Unknown, is_one_fsdp_unit};
pub use gathering::{approximated_settings, unmodelled_options};
pub use input::Input;
pub use kernels::DefaultKernels;
pub use layer_activations::{CodeActivations, LayerActivations};
pub use layout::{
    AdapterKind, Attention, Code, Degrees, Dispatcher, ExpertKernel, FlashKernel, Fp8Recipe, Gathering,
    GpuKind, Hardware, Layout, Lora, Loss, Model, Moments, Offload, Precision, Prefetch, Quantisation,
    Recompute, Sharding, System, TensorOverlap, Work, WorkerSettings, divides_heads,
};
pub use order::Order;
pub use part_intervals::{Basis, PartInterval, Widths};
pub use prediction::{
    Checkpoints, Communication, CostParts, Fit, Interval, Memory, MemoryParts, Prediction, Run, RunParts,
    Speed, SpeedParts, Spot, Tflops, round_to_u64,
};
pub use probed::Probed;
pub use self_check::SelfCheck;
pub use settings::{FEWEST_OWN, FEWEST_RUNS, Fabric, MemorySetting, PeakEnds, Setting, WorkKind};
pub use wrapping::script_wraps_model;

use trainc_ir::Plan;

/// Predicts memory and speed of a layout. An unknown half is `None`, with its reason.
pub fn predict(layout: &Layout, constants: &Constants) -> Prediction {
    let (speed, no_speed) = split(speed::speed(layout, constants));
    Prediction {
        memory: Some(memory::memory_with(layout, &memory::MemoryConstants::from_constants(constants))),
        speed,
        no_speed,
        ..Prediction::default()
    }
}

/// Predicts memory and speed of a plan, with time and cost of its run.
pub fn of_plan(plan: &Plan, constants: &Constants) -> Prediction {
    let layout = match Layout::from_plan(plan) {
        Ok(layout) => layout,
        Err(why) => {
            let unknown = Prediction {
                no_memory: Some(why),
                no_speed: Some(why),
                no_run: Some(why),
                ..Prediction::default()
            };
            return with_finished_runs(unknown, plan, constants);
        }
    };
    let mut prediction = predict(&layout, constants);
    // Nobody knows whether what is not predicted fits, too.
    if plan.unmodelled.iter().any(|work| work.takes_memory)
        && let Some(memory) = &mut prediction.memory
        && memory.fits == Some(true)
    {
        memory.fits = None;
    }
    let (run, no_run) = match &prediction.speed {
        Some(speed) => {
            split(run::Terms::from_plan(plan, constants).map(|terms| terms.predict_run(&layout, speed)))
        }
        None => (None, prediction.no_speed),
    };
    let prediction = Prediction { run, no_run, ..std::mem::take(&mut prediction) };
    if prediction.speed.is_some() { prediction } else { with_finished_runs(prediction, plan, constants) }
}

/// Adds the run by the job's own finished runs, if there are any.
fn with_finished_runs(prediction: Prediction, plan: &Plan, constants: &Constants) -> Prediction {
    match constants.evidence().and_then(|runs| runs.run_of_job(plan)) {
        Some((run, count)) => {
            Prediction { run: Some(run), no_run: None, finished_runs: Some(count), ..prediction }
        }
        None => prediction,
    }
}

fn split<T>(found: Result<T, Unknown>) -> (Option<T>, Option<Unknown>) {
    match found {
        Ok(found) => (Some(found), None),
        Err(why) => (None, Some(why)),
    }
}
